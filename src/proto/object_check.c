/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What always holds of an object group between two steps: its counts, its objects, what its neighbours may do, and what
 * is under way. The surroundings of tests call it after every step; nothing is changed.
 */
#include <assert.h>

#include "proto/object_private.h"

static uint32_t count_bits(uint64_t bits)
{
    return (uint32_t)__builtin_popcountll(bits);
}

/* An object is offered, asked for, complete and reported, in this order. */
static void check_counts(const struct tt_object_group *group)
{
    const struct tt_object_config *config = &group->config;

    assert(group->reported <= group->completed);
    assert(group->completed <= group->asked);
    assert(group->asked <= group->offered);
    assert(group->offered <= group->completed + config->object_count);
    if (tt_object_is_sender(group)) {
        assert(group->asked == group->offered); /* it has all memory from the start */
        assert(group->reported == 0);
    } else {
        assert(group->asked <= group->completed + TT_OBJECT_AHEAD);
    }
    if (group->state == TT_OBJECT_OPEN) {
        assert(group->grant_object >= group->completed);
    }
    assert(group->grant_object <= group->offered);
}

/* Of one that is not complete; returns for how many of its blocks leave to put is given. */
static uint32_t check_object(const struct tt_object_group *group, uint64_t sequence)
{
    const struct tt_object *object = &group->config.objects[sequence % group->config.object_count];
    uint64_t left = object->plan.block_count - object->lowest, known = object->arrived | object->granted;

    assert(object->lowest <= object->plan.block_count);
    assert((object->arrived & 1) == 0); /* or it would not be the lowest missing one */
    assert((object->arrived & object->granted) == 0);
    assert(left >= TT_OBJECT_WINDOW || known >> left == 0);
    assert(object->lanes_loaded <= tt_rdmc_lane_count(&object->plan));
    if (sequence >= group->asked) {
        assert(object->memory == TT_OBJECT_UNASKED);
    } else if (group->state == TT_OBJECT_OPEN) {
        assert(object->memory != TT_OBJECT_UNASKED);
    }
    if (object->memory != TT_OBJECT_HERE && group->state == TT_OBJECT_OPEN) {
        assert(object->lowest == 0 && known == 0); /* nobody writes where there is nothing */
    }
    assert(!tt_object_is_sender(group) || left == 0);
    assert(group->state != TT_OBJECT_FINISHED || object->memory != TT_OBJECT_HERE);
    return count_bits(object->granted);
}

static void check_objects(const struct tt_object_group *group)
{
    uint32_t granted = 0, sends = 0, next = 0, puts = 0;

    for (uint64_t sequence = group->completed; sequence < group->offered; sequence++) {
        granted += check_object(group, sequence);
        sends += group->config.objects[sequence % group->config.object_count].sends;
    }
    for (uint32_t number = 0; number < TT_RDMC_LANE_COUNT; number++) {
        next += group->lanes[number].has_next;
        puts += group->lanes[number].puts_under_way;
    }
    assert(granted == group->granted);
    assert(sends == next + puts);
}

/* Returns the blocks that it may put. */
static uint32_t check_peer(const struct tt_object_group *group, const struct tt_object_peer *peer)
{
    assert(peer->member < group->config.member_count && peer->member != group->config.member);
    assert(peer->ready_count <= group->config.credit && peer->ready_first < TT_OBJECT_MAX_CREDIT);
    assert(peer->granted <= group->config.credit);
    assert(peer->granted == 0 || peer->granted == group->granted); /* one neighbour at a time */
    assert(peer->puts_under_way <= peer->puts);
    assert(!peer->is_there || peer->has_joined);
    assert(peer->reached == 0 || tt_object_is_child(group, peer->member));
    assert(peer->reached <= group->offered);
    assert(!peer->is_abandoned || group->state != TT_OBJECT_OPEN);
    assert(!peer->is_asked || peer->is_watched);
    return peer->granted;
}

static void check_peers(const struct tt_object_group *group)
{
    uint32_t granted = 0, puts[TT_RDMC_LANE_COUNT] = {0};

    for (uint32_t i = 0; i < group->config.peer_count; i++) {
        const struct tt_object_peer *peer = &group->config.peers[i];

        granted += check_peer(group, peer);
        assert(i == 0 || group->config.peers[i - 1].member < peer->member); /* tt_object_find_peer counts on it */
        assert(peer->lane < TT_RDMC_LANE_COUNT);
        assert(peer->puts_under_way == 0 || puts[peer->lane] == 0); /* a lane's are to one target */
        puts[peer->lane] += peer->puts_under_way;
    }
    assert(granted == group->granted);
    for (uint32_t number = 0; number < TT_RDMC_LANE_COUNT; number++) {
        assert(group->lanes[number].puts_under_way == puts[number]);
    }
}

static void check_lanes(const struct tt_object_group *group)
{
    for (uint32_t number = 0; number < TT_RDMC_LANE_COUNT; number++) {
        const struct tt_object_lane *lane = &group->lanes[number];

        assert(lane->puts_under_way <= 2);
        assert(lane->object <= group->offered);
        assert(lane->object >= group->completed || group->state != TT_OBJECT_OPEN);
        if (lane->has_next) {
            assert(lane->object < group->offered);
            assert(lane->next_peer < group->config.peer_count);
            assert(lane->next_block <
                   group->config.objects[lane->object % group->config.object_count].plan.block_count);
        }
    }
}

/* No round of the barrier goes out before everything is complete here. */
static void check_close(const struct tt_object_group *group)
{
    tt_rounds_check(&group->barrier, group->config.member_count);
    if (group->barrier.sent > 0) {
        assert(group->is_closing && group->has_ended);
        assert(group->completed == group->offered);
    }
    assert(!tt_object_is_sender(group) || group->has_ended == group->is_closing);
    assert(!group->has_told_closing || group->is_closing || group->is_awaited);
    assert(!group->has_told_closing || !group->is_joining);
    assert(!group->is_joining || (group->offered == 0 && !group->has_ended));
}

static void check_state(const struct tt_object_group *group)
{
    bool fails = group->status != TUTTI_OK;

    assert(fails == (group->state == TT_OBJECT_FAILING) || group->state == TT_OBJECT_FINISHED);
    assert(fails || group->failed_member == TT_OBJECT_NO_MEMBER);
    assert(group->failed_member < group->config.member_count || group->failed_member == TT_OBJECT_NO_MEMBER);
    assert(group->culprit < group->config.member_count || group->culprit == TT_OBJECT_NO_MEMBER);
    assert(fails == (group->noticed_by != TT_OBJECT_NO_MEMBER));
    assert(group->noticed_by < group->config.member_count || group->noticed_by == TT_OBJECT_NO_MEMBER);
    if (group->state == TT_OBJECT_FINISHED) {
        assert(group->deadline_ns == UINT64_MAX);
        assert(fails || group->completed == group->offered);
        for (uint32_t i = 0; i < group->config.peer_count; i++) {
            assert(group->config.peers[i].puts_under_way == 0);
        }
    }
}

void tt_object_group_check(const struct tt_object_group *group)
{
    check_state(group);
    check_counts(group);
    check_objects(group);
    check_peers(group);
    check_lanes(group);
    check_close(group);
}
