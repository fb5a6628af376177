/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Normal path: turn after turn, as drawn. Several collectives are in progress, and each is finished when its slot is
 * needed; who is no member of a group has nothing to do in its turn. Groups are replaced while those of others carry
 * collectives. All ranks have one order of posts, waits and creations, so nobody waits for what waits for it.
 */
#include "lane.h"

#include <string.h>
#include <unistd.h>

enum { LOOK_US = 200, MEETING_S = 60 };

/* --- Meeting for the creation of a group -------------------------------------------------------------------------- */

struct visitor {
    struct meetings *meetings;
    struct meeting *meeting;
    uint32_t own, count;
};

static bool meet(const struct visitor *visitor)
{
    struct meeting *meeting = visitor->meeting;
    uint32_t round = atomic_load(&meeting->round);
    double start_s = job_now_s();

    if (atomic_fetch_add(&meeting->arrived, 1) + 1 == visitor->count) {
        atomic_store(&meeting->arrived, 0);
        atomic_fetch_add(&meeting->round, 1);
        return true;
    }
    while (atomic_load(&meeting->round) == round && !atomic_load(&visitor->meetings->has_failed) &&
           job_now_s() - start_s < MEETING_S) {
        usleep(LOOK_US);
    }
    return atomic_load(&meeting->round) != round;
}

static int exchange(void *argument, const void *send, void *receive, size_t length_bytes)
{
    const struct visitor *visitor = argument;

    if (length_bytes > EXCHANGE_BYTES) {
        return -1;
    }
    memcpy(visitor->meeting->bytes[visitor->own], send, length_bytes);
    if (!meet(visitor)) {
        return -1;
    }
    for (uint32_t i = 0; i < visitor->count; i++) {
        memcpy((uint8_t *)receive + i * length_bytes, visitor->meeting->bytes[i], length_bytes);
    }
    return meet(visitor) ? 0 : -1;
}

static void create_group(struct lane *lane, uint32_t group)
{
    const struct member_list *list = &lane->lists[group];
    struct visitor visitor = {.meetings = lane->meetings,
                              .meeting = &lane->meetings->of[lane->number][lane->creations++],
                              .count = list->count};

    for (uint32_t i = 0; i < list->count; i++) {
        if (list->ranks[i] == lane->rank->rank) {
            tutti_group_options options = {.struct_size = sizeof options,
                                           .rank = i,
                                           .size = list->count,
                                           .allgather = exchange,
                                           .argument = &visitor};

            visitor.own = lane->own[group] = i;
            LANE_OK(lane, tutti_group_create(lane->context, &options, &lane->groups[group]));
        }
    }
}

/* --- Turns -------------------------------------------------------------------------------------------------------- */

static void destroy_group(struct lane *lane, uint32_t group)
{
    for (uint32_t i = 0; i < LANE_SLOTS; i++) {
        if (lane->slots[i].used && lane->slots[i].group == group) {
            slot_clear(lane, &lane->slots[i]);
        }
    }
    LANE_OK(lane, tutti_group_destroy(lane->groups[group]));
    lane->groups[group] = NULL;
}

static void take_collective(struct lane *lane, const struct turn *turn)
{
    struct slot *slot = &lane->slots[turn->slot];

    slot_finish(lane, slot, turn->by_test);
    if (!turn->again || !slot->used) {
        slot_clear(lane, slot);
        slot->group = turn->group;
        slot->collective = turn->collective;
        slot_init(lane, slot);
    }
    slot_post(lane, slot, lane->turn);
}

static void take_turn(struct lane *lane)
{
    struct turn turn;

    plan_turn(lane->plan, &lane->random, lane->lists, &turn);
    switch (turn.what) {
    case TURN_COLLECTIVE:
        take_collective(lane, &turn);
        break;
    case TURN_OBJECTS:
        if (lane->groups[turn.group] != NULL) {
            objects_run(lane, turn.group, &turn.objects, lane->turn);
        }
        break;
    case TURN_REPLACE:
        if (lane->creations < LANE_CREATIONS) {
            destroy_group(lane, turn.group);
            lane->lists[turn.group] = turn.members;
            create_group(lane, turn.group);
        }
        break;
    }
}

void *lane_run(void *argument)
{
    struct lane *lane = argument;

    plan_lane(lane->plan, lane->number, &lane->random);
    for (uint32_t group = 0; group < LANE_GROUPS; group++) {
        plan_members(lane->plan, &lane->random, &lane->lists[group]);
        create_group(lane, group);
    }
    for (lane->turn = 0; lane->turn < lane->plan->turns; lane->turn++) {
        take_turn(lane);
    }
    for (uint32_t group = 0; group < LANE_GROUPS; group++) {
        destroy_group(lane, group);
    }
    return NULL;
}
