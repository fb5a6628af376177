/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who an object group waits for, and for how long.
 *
 * Normal path: a neighbour is awaited while it has leave to put here, is not ready for a block that is here for it, has
 * not confirmed a put, has not reported objects that are complete here, or is due in the barrier. One that is awaited
 * and has not been heard of for silence_ns is asked; any word from it starts that anew, however slow its blocks are:
 * slowness is no failure. Something is awaited directly from whoever holds the others up, since transfers wait for
 * earlier ones only.
 *
 * Failures: who does not answer for as long again is given up. Members that all answer can still be held up by an
 * application, of which only the machine there can tell: it gives itself up when its surroundings have left it without
 * memory for deadline_ns, or have not closed for so long after member 0 has, with everything complete; member 0 when it
 * has not closed for so long after somebody else has (CLOSING, up the tree), with nothing under way. All of that at a
 * TICK only: after a time in which nothing ran here an answer, or why the group has failed, may lie behind whatever is
 * read first.
 */
#include <assert.h>

#include "base/least.h"
#include "proto/object_private.h"

static void mark_awaited(struct tt_object_group *group)
{
    for (uint32_t i = 0; i < group->config.peer_count; i++) {
        struct tt_object_peer *peer = &group->config.peers[i];
        bool lags = tt_object_is_child(group, peer->member) && peer->reached < group->completed;

        peer->is_awaited =
            peer->granted > 0 || peer->puts_under_way > 0 || lags || tt_object_close_awaits(group, peer->member);
    }
    tt_object_mark_unready(group);
}

/* When there is something to do about the peer next; UINT64_MAX: nothing. `now_ns` or earlier: it is to be given up,
 * at a TICK. */
static uint64_t watch_peer(struct tt_object_group *group, struct tt_object_peer *peer, uint64_t now_ns,
                           struct tt_object_actions *actions)
{
    uint64_t silence_ns = group->config.silence_ns;

    if (!peer->is_awaited || peer->has_left) {
        peer->is_watched = peer->is_asked = false;
        return UINT64_MAX;
    }
    if (!peer->is_watched) {
        peer->is_watched = true;
        peer->awaited_since_ns = now_ns;
    }
    peer->is_asked &= peer->heard_ns < peer->asked_ns;
    if (!peer->is_asked) {
        uint64_t due_ns = tt_later(tt_most(peer->awaited_since_ns, peer->heard_ns), silence_ns);

        if (now_ns < due_ns) {
            return due_ns;
        }
        peer->is_asked = true;
        peer->asked_ns = now_ns;
        tt_object_tell(group, TT_OBJECT_FRAME_ASK, peer->member, group->completed, actions);
    }
    return tt_later(peer->asked_ns, silence_ns);
}

/* Whether the own application holds others up, and by what: the same number as long as it is the same matter. */
static bool find_slow(struct tt_object_group *group, uint64_t *mark)
{
    for (uint64_t sequence = group->completed; sequence < group->asked; sequence++) {
        if (tt_object_of(group, sequence)->memory == TT_OBJECT_ASKED) {
            *mark = sequence;
            return true;
        }
    }
    *mark = group->offered;
    if (group->is_closing || group->completed != group->offered) {
        return false;
    }
    /* Member 0 may still have something to send, unless all others have everything and somebody has been closed. */
    return group->has_ended ||
           (tt_object_is_sender(group) && group->is_awaited && tt_object_reached(group) == group->offered);
}

static uint64_t watch_application(struct tt_object_group *group, uint64_t now_ns)
{
    uint64_t mark;
    bool is_slow = find_slow(group, &mark);

    if (!is_slow || !group->is_slow || mark != group->slow_mark) {
        group->is_slow = is_slow;
        group->slow_mark = mark;
        group->slow_since_ns = now_ns;
    }
    return is_slow ? tt_later(group->slow_since_ns, group->config.deadline_ns) : UINT64_MAX;
}

void tt_object_watch(struct tt_object_group *group, uint64_t now_ns, bool is_tick, struct tt_object_actions *actions)
{
    uint64_t deadline_ns = watch_application(group, now_ns);

    assert(group->state == TT_OBJECT_OPEN && !group->is_joining);
    if (is_tick && deadline_ns <= now_ns) {
        tt_object_fail(group, TUTTI_ERR_TIMED_OUT, TUTTI_ERR_TIMED_OUT, group->config.member, now_ns, actions);
        return;
    }
    mark_awaited(group);
    for (uint32_t i = 0; i < group->config.peer_count; i++) {
        struct tt_object_peer *peer = &group->config.peers[i];
        uint64_t due_ns = watch_peer(group, peer, now_ns, actions);

        if (is_tick && due_ns <= now_ns) {
            tt_object_fail(group, TUTTI_ERR_TIMED_OUT, TUTTI_ERR_TIMED_OUT, peer->member, now_ns, actions);
            return;
        }
        deadline_ns = tt_least(deadline_ns, due_ns);
    }
    group->deadline_ns = deadline_ns;
}
