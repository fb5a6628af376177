/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Closing an object group: it succeeds where every object has reached every member.
 *
 * Normal path: when member 0 closes, END tells down the tree how many objects there are. A member that has been closed
 * too and has completed that many enters a dissemination barrier; who comes out of it knows that everybody went in. It
 * says BYE, so that the end of its connections is no failure, and has finished.
 *
 * Failures: frames that cannot come yet, or not from there, are refused. A member that comes out of the barrier may
 * have a neighbour that fails before it has come out itself: then one has closed with success, rightly so, and the
 * other one with an error, because it cannot know.
 */
#include <assert.h>

#include "proto/object_private.h"

static bool is_in_barrier(const struct tt_object_group *group)
{
    return group->is_closing && group->has_ended && group->completed == group->offered;
}

void tt_object_bye(struct tt_object_group *group, struct tt_object_actions *actions)
{
    assert(group->state == TT_OBJECT_OPEN);
    assert(group->completed == group->offered); /* the surroundings have all memory back */
    for (uint32_t i = 0; i < group->config.peer_count; i++) {
        if (!group->config.peers[i].has_left && !group->config.peers[i].is_down) {
            tt_object_tell(group, TT_OBJECT_FRAME_BYE, group->config.peers[i].member, group->offered, actions);
        }
    }
    assert(group->status == TUTTI_OK);
    tt_object_finish(group, actions);
}

static bool on_barrier(struct tt_object_group *group, const struct tt_object_frame *frame)
{
    uint32_t round = frame->body.barrier.round;

    if (!tt_rounds_is_from(group->config.member, group->config.member_count, round, frame->source) ||
        tt_rounds_has(&group->barrier, round)) {
        return false;
    }
    tt_rounds_hear(&group->barrier, round);
    return true;
}

bool tt_object_close_frame(struct tt_object_group *group, const struct tt_object_frame *frame,
                           struct tt_object_actions *actions)
{
    switch (frame->type) {
    case TT_OBJECT_FRAME_BARRIER:
        return on_barrier(group, frame);
    case TT_OBJECT_FRAME_BYE:
        return is_in_barrier(group) || group->config.may_leave;
    default:
        if (group->is_joining || group->has_ended || frame->sequence != group->offered) {
            return false;
        }
        group->has_ended = true;
        tt_object_tell_children(group, TT_OBJECT_FRAME_END, frame->sequence, 0, actions);
        return true;
    }
}

bool tt_object_close_awaits(const struct tt_object_group *group, uint32_t member)
{
    uint32_t count = group->config.member_count;

    if (group->is_closing && !group->has_ended) {
        return member == tt_tree_parent(group->config.member);
    }
    if (!is_in_barrier(group)) {
        return false;
    }
    for (uint32_t round = 0; round < tt_dissemination_rounds(count); round++) {
        if (!tt_rounds_has(&group->barrier, round) &&
            member == tt_dissemination_from(group->config.member, count, round)) {
            return true;
        }
    }
    return false;
}

void tt_object_advance_close(struct tt_object_group *group, struct tt_object_actions *actions)
{
    uint32_t count = group->config.member_count, round;

    if (!is_in_barrier(group)) {
        return;
    }
    while (tt_rounds_next(&group->barrier, count, &round)) {
        uint32_t to = tt_dissemination_to(group->config.member, count, round);

        tt_object_tell(group, TT_OBJECT_FRAME_BARRIER, to, group->offered, actions)->body.barrier.round =
            (uint8_t)round;
    }
    if (tt_rounds_are_over(&group->barrier, count)) {
        tt_object_bye(group, actions);
    }
}
