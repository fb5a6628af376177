/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How an object group's members find each other: nobody may say anything to a member that has not created the group,
 * for it would be lost.
 *
 * Normal path: a member says JOIN to all its neighbours. Who is not there drops it; who comes later says JOIN itself,
 * and gets one in return. A member that has had all its neighbours' JOINs, and THERE from each child in the tree, says
 * THERE to its parent. So when member 0 has all that, everybody is there and may be spoken to by all its neighbours,
 * and member 0 is who begins: all else answers what comes from there.
 *
 * Failures: a JOIN on other terms fails the group, here and there. Who fails for that says its terms once more, before
 * FAIL, for those that were not there the first time: so each member finds out by itself whose terms differ from its
 * own, and does not take the word of the odd one for it. A group that has failed tells so to whoever joins. Members
 * that do not come are given up at the deadline by those that are their neighbours, and later by the others, who know
 * only whom they wait for; at a TICK, so that a JOIN that has come is read before.
 */
#include <assert.h>

#include "base/least.h"
#include "proto/object_private.h"

struct tt_object_terms tt_object_terms(const struct tt_object_config *config)
{
    struct tt_object_terms terms = {
        .algorithm = (uint8_t)config->algorithm, .credit = (uint8_t)config->credit, .block_bytes = config->block_bytes};

    for (uint32_t i = 0; i < config->rack_count; i++) { /* FNV-1a, a word at a time */
        terms.racks = (terms.racks ^ (config->rack_firsts[i] + UINT64_C(1))) * UINT64_C(0x100000001B3);
    }
    return terms;
}

static bool agree(const struct tt_object_terms *a, const struct tt_object_terms *b)
{
    return a->algorithm == b->algorithm && a->credit == b->credit && a->block_bytes == b->block_bytes &&
           a->racks == b->racks;
}

static void tell_join(struct tt_object_group *group, const struct tt_object_peer *peer, bool wants,
                      struct tt_object_actions *actions)
{
    struct tt_object_frame *frame = tt_object_tell(group, TT_OBJECT_FRAME_JOIN, peer->member, 0, actions);

    frame->body.join.wants = wants;
    frame->body.join.terms = tt_object_terms(&group->config);
    frame->body.join.members = group->config.members;
    frame->body.join.created = group->config.created;
}

void tt_object_tell_terms(struct tt_object_group *group, const struct tt_object_peer *peer,
                          struct tt_object_actions *actions)
{
    if (group->is_joining && group->status == TUTTI_ERR_MISMATCH) {
        tell_join(group, peer, false, actions);
    }
}

void tt_object_on_join(struct tt_object_group *group, uint64_t now_ns, struct tt_object_actions *actions)
{
    assert(group->offered == 0 && !group->is_closing); /* first of all */
    group->is_joining = true;
    group->join_since_ns = now_ns;
    for (uint32_t i = 0; i < group->config.peer_count; i++) {
        tell_join(group, &group->config.peers[i], !group->config.peers[i].has_joined, actions);
    }
}

bool tt_object_join_frame(struct tt_object_group *group, struct tt_object_peer *peer,
                          const struct tt_object_frame *frame, uint64_t now_ns, struct tt_object_actions *actions)
{
    struct tt_object_terms terms = tt_object_terms(&group->config);

    if (frame->type == TT_OBJECT_FRAME_THERE) {
        bool fine = peer->has_joined && !peer->is_there && tt_object_is_child(group, peer->member);

        peer->is_there |= fine;
        return fine;
    }
    if (group->status != TUTTI_OK && frame->body.join.wants != 0) { /* it was not there when that was told */
        tt_object_tell_terms(group, peer, actions);
        tt_object_tell_failure(group, peer, group->status, actions);
    }
    if (group->status != TUTTI_OK) {
        return true;
    }
    if (!agree(&terms, &frame->body.join.terms)) {
        group->mismatch = frame->body.join.terms;
        tt_object_fail(group, TUTTI_ERR_MISMATCH, TUTTI_ERR_MISMATCH, peer->member, now_ns, actions);
        return true;
    }
    peer->has_joined = true;
    if (frame->body.join.wants != 0) {
        tell_join(group, peer, false, actions);
    }
    return true;
}

/* Whom this member waits for: neighbours that are not there, or else children in the tree who do. */
static uint32_t find_missing(const struct tt_object_group *group, bool *is_neighbour)
{
    uint32_t missing = TT_OBJECT_NO_MEMBER;

    for (uint32_t i = 0; i < group->config.peer_count; i++) {
        const struct tt_object_peer *peer = &group->config.peers[i];

        if (!peer->has_joined) {
            *is_neighbour = true;
            return peer->member;
        }
        if (!peer->is_there && missing == TT_OBJECT_NO_MEMBER && tt_object_is_child(group, peer->member)) {
            missing = peer->member;
        }
    }
    *is_neighbour = false;
    return missing;
}

void tt_object_advance_join(struct tt_object_group *group, struct tt_object_actions *actions)
{
    bool is_neighbour;
    uint32_t missing = find_missing(group, &is_neighbour);

    assert(group->is_joining);
    if (missing == TT_OBJECT_NO_MEMBER) {
        group->is_joining = false;
        if (!tt_object_is_sender(group)) {
            tt_object_tell(group, TT_OBJECT_FRAME_THERE, tt_tree_parent(group->config.member), 0, actions);
        }
        tt_object_actions_add(actions, TT_OBJECT_DO_JOINED, group->config.member, 0);
    }
}

void tt_object_watch_join(struct tt_object_group *group, uint64_t now_ns, bool is_tick,
                          struct tt_object_actions *actions)
{
    uint64_t patience_ns = group->config.deadline_ns;
    bool is_neighbour;
    uint32_t missing = find_missing(group, &is_neighbour);

    assert(missing != TT_OBJECT_NO_MEMBER); /* else it would have joined */
    if (!is_neighbour) {
        patience_ns += patience_ns / 4; /* whoever is the missing one's neighbour can say who that is */
    }
    group->deadline_ns = tt_later(group->join_since_ns, patience_ns);
    if (is_tick && group->deadline_ns <= now_ns) {
        tt_object_fail(group, TUTTI_ERR_TIMED_OUT, TUTTI_ERR_TIMED_OUT, missing, now_ns, actions);
    }
}
