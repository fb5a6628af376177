/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How an object group fails, and lets go of its buffers.
 *
 * Normal path: the first reason counts. It is told to the own surroundings at once, and to every neighbour; the group's
 * edges contain the dissemination pattern's, so word reaches all survivors of one member's death, and who is cut off by
 * several deaths borders on one of the dead. The frame that tells it also says how many puts the sender has started to
 * the receiver in all, and that there will be no more: when that many have come in, nobody writes here from there any
 * more. So members let go of each other with the one frame that each of two neighbours sends the other. Memory is
 * released when that holds for all neighbours that had leave to put here, and the own puts are done.
 *
 * Failures: a neighbour that is down puts nothing any more. One that neither stops nor takes puts for a while is ended
 * with its connection, because other groups use connections too not before; and at a TICK only, as what was waited for
 * may have come while nothing ran here, and lie behind whatever is read first.
 */
#include <assert.h>

#include "base/least.h"
#include "proto/culprit.h"
#include "proto/object_private.h"

static bool is_gone(const struct tt_object_peer *peer)
{
    return peer->is_down || peer->has_left || peer->is_abandoned;
}

void tt_object_tell_failure(struct tt_object_group *group, const struct tt_object_peer *peer, tutti_status told,
                            struct tt_object_actions *actions)
{
    struct tt_object_frame *frame =
        tt_object_tell(group, TT_OBJECT_FRAME_FAIL, peer->member, group->completed, actions);

    frame->body.fail.status = told;
    frame->body.fail.member = group->culprit;
    frame->body.fail.noticed_by = group->noticed_by;
    frame->body.fail.puts = peer->puts;
}

static void say_end(const struct tt_object_group *group, enum tt_object_action_type type,
                    struct tt_object_actions *actions)
{
    struct tt_object_action *action = tt_object_actions_add(actions, type, group->config.member, group->completed);

    action->body.finish.status = group->status;
    action->body.finish.member = group->failed_member;
}

void tt_object_finish(struct tt_object_group *group, struct tt_object_actions *actions)
{
    group->state = TT_OBJECT_FINISHED;
    group->deadline_ns = UINT64_MAX;
    say_end(group, TT_OBJECT_DO_FINISH, actions);
}

/* A block that has been begun comes to its end, however slow the link. */
static uint64_t patience_of(struct tt_object_group *group)
{
    uint64_t block_bytes = 0;

    for (uint64_t sequence = group->completed; sequence < group->offered; sequence++) {
        const struct tt_object *object = tt_object_of(group, sequence);

        block_bytes = tt_most(block_bytes, tt_least(object->size_bytes, object->block_bytes));
    }
    return TT_OBJECT_PATIENCE_NS + TT_OBJECT_PATIENCE_BYTE_NS * group->config.credit * block_bytes;
}

void tt_object_fail_as_told(struct tt_object_group *group, tutti_status status, tutti_status told, uint32_t member,
                            uint32_t noticed_by, uint64_t now_ns, struct tt_object_actions *actions)
{
    if (group->status != TUTTI_OK) {
        return;
    }
    assert(group->state == TT_OBJECT_OPEN);
    assert(status != TUTTI_OK && told != TUTTI_OK);
    group->status = status;
    group->culprit = member;
    group->noticed_by = noticed_by;
    group->failed_member = tt_failed_rank(status, member, noticed_by, group->config.member);
    group->state = TT_OBJECT_FAILING;
    group->patience_deadline_ns = tt_later(now_ns, patience_of(group));
    say_end(group, TT_OBJECT_DO_FAIL, actions);
    for (uint32_t i = 0; i < group->config.peer_count; i++) {
        if (!is_gone(&group->config.peers[i])) {
            tt_object_tell_terms(group, &group->config.peers[i], actions);
            tt_object_tell_failure(group, &group->config.peers[i], told, actions);
        }
    }
}

void tt_object_fail(struct tt_object_group *group, tutti_status status, tutti_status told, uint32_t member,
                    uint64_t now_ns, struct tt_object_actions *actions)
{
    tt_object_fail_as_told(group, status, told, member, group->config.member, now_ns, actions);
}

void tt_object_fail_frame(struct tt_object_group *group, struct tt_object_peer *peer,
                          const struct tt_object_frame *frame, uint64_t now_ns, struct tt_object_actions *actions)
{
    tutti_status status = (tutti_status)frame->body.fail.status;
    uint32_t member = frame->body.fail.member, noticed_by = frame->body.fail.noticed_by;

    peer->has_stopped = true;
    peer->stopped_at = frame->body.fail.puts;
    if ((member >= group->config.member_count && member != TT_OBJECT_NO_MEMBER) ||
        noticed_by >= group->config.member_count) {
        group->drops++;
        status = TUTTI_ERR_PROTOCOL;
        member = peer->member;
        noticed_by = group->config.member;
    }
    tt_object_fail_as_told(group, status, status, member, noticed_by, now_ns, actions);
}

/* It has raised nothing there, and FAIL says how many immediates the receiver is to wait for: once more, if it has. */
void tt_object_put_failed(struct tt_object_group *group, struct tt_object_peer *peer, struct tt_object_actions *actions)
{
    assert(peer->puts > 0);
    peer->puts--;
    if (group->state == TT_OBJECT_FAILING && !is_gone(peer)) {
        tt_object_tell_failure(group, peer, group->status, actions);
    }
}

/* Whether a neighbour may still write here. */
static bool may_put(const struct tt_object_peer *peer)
{
    return peer->granted > 0 && !is_gone(peer) && !(peer->has_stopped && peer->arrived == peer->stopped_at);
}

static void release(struct tt_object_group *group, struct tt_object_actions *actions)
{
    for (uint64_t sequence = group->completed; sequence < group->asked; sequence++) {
        struct tt_object *object = tt_object_of(group, sequence);

        if (object->memory == TT_OBJECT_HERE) {
            object->memory = TT_OBJECT_UNASKED;
            tt_object_actions_add(actions, TT_OBJECT_DO_RELEASE, group->config.member, sequence);
        }
    }
}

void tt_object_let_go(struct tt_object_group *group, uint64_t now_ns, bool is_tick, struct tt_object_actions *actions)
{
    bool impatient = is_tick && group->patience_deadline_ns <= now_ns, is_busy = false;

    assert(group->state == TT_OBJECT_FAILING);
    for (uint32_t i = 0; i < group->config.peer_count; i++) {
        struct tt_object_peer *peer = &group->config.peers[i];

        if (impatient && !peer->is_abandoned && (peer->puts_under_way > 0 || may_put(peer))) {
            peer->is_abandoned = true;
            tt_object_actions_add(actions, TT_OBJECT_DO_ABANDON, peer->member, group->completed);
        }
        is_busy |= peer->puts_under_way > 0 || may_put(peer);
    }
    group->deadline_ns = impatient ? UINT64_MAX : group->patience_deadline_ns;
    if (is_busy) {
        return;
    }
    release(group, actions);
    tt_object_finish(group, actions);
}
