/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: what is still to happen in the world of `tutti sim trigger`.
 *
 * Normal path: a heap of events by time, and in the order in which they were pushed where times are equal, so that a
 * run repeats exactly; flights that are over are used again.
 *
 * Failures: no memory is a fault of the run.
 */
#include <stdlib.h>

#include "cli/sim_trigger_world_private.h"

static bool is_before(const struct tt_costsim_event *a, const struct tt_costsim_event *b)
{
    return a->time_ns != b->time_ns ? a->time_ns < b->time_ns : a->order < b->order;
}

static bool make_room(struct tt_costsim_world *world)
{
    if (world->event_count < world->event_room) {
        return true;
    }
    uint32_t room = 2 * world->event_room + 1024;
    struct tt_costsim_event *heap = realloc(world->heap, room * sizeof *heap);

    if (heap == NULL) {
        TT_COSTSIM_FAULT(world, "not enough memory for %" PRIu32 " events", room);
        return false;
    }
    world->heap = heap;
    world->event_room = room;
    return true;
}

void tt_costsim_push(struct tt_costsim_world *world, uint64_t time_ns, struct tt_costsim_event event)
{
    if (!make_room(world)) {
        return;
    }
    uint32_t at = world->event_count++;

    event.time_ns = time_ns;
    event.order = world->order++;
    while (at > 0 && is_before(&event, &world->heap[(at - 1) / 2])) {
        world->heap[at] = world->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    world->heap[at] = event;
}

bool tt_costsim_pop(struct tt_costsim_world *world, struct tt_costsim_event *event)
{
    if (world->event_count == 0) {
        return false;
    }
    *event = world->heap[0];
    struct tt_costsim_event last = world->heap[--world->event_count];
    uint32_t at = 0;

    for (;;) {
        uint32_t child = 2 * at + 1;

        if (child + 1 < world->event_count && is_before(&world->heap[child + 1], &world->heap[child])) {
            child++;
        }
        if (child >= world->event_count || is_before(&last, &world->heap[child])) {
            break;
        }
        world->heap[at] = world->heap[child];
        at = child;
    }
    world->heap[at] = last;
    return true;
}

struct tt_costsim_flight *tt_costsim_flight_new(struct tt_costsim_world *world)
{
    struct tt_costsim_flight *flight = world->free_flights;

    if (flight != NULL) {
        world->free_flights = flight->next;
        *flight = (struct tt_costsim_flight){.next = NULL};
        return flight;
    }
    flight = calloc(1, sizeof *flight);
    if (flight == NULL) {
        TT_COSTSIM_FAULT(world, "not enough memory for a packet");
    }
    return flight;
}

void tt_costsim_flight_free(struct tt_costsim_world *world, struct tt_costsim_flight *flight)
{
    flight->next = world->free_flights;
    world->free_flights = flight;
}

void tt_costsim_events_destroy(struct tt_costsim_world *world)
{
    for (uint32_t i = 0; i < world->event_count; i++) {
        free(world->heap[i].flight);
    }
    while (world->free_flights != NULL) {
        struct tt_costsim_flight *flight = world->free_flights;

        world->free_flights = flight->next;
        free(flight);
    }
    free(world->heap);
}
