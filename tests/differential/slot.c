/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A slot's collective. Normal path: buffers with a guard byte behind them, in place or apart; what is put in is drawn
 * anew each time that it is posted, and what comes out is compared element by element, as are the guards and, where
 * nothing is in place, what was put in.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lane.h"
#include "reference.h"
#include "support/affine.h"

enum { GUARD = 0xEE };

static uint64_t part_of(const struct collective *collective, uint32_t rank)
{
    return collective->by_counts ? (collective->count + 7 * (uint64_t)rank) % 5 * collective->count / 3
                                 : collective->count;
}

static void shape_reduce_scatter(struct slot *slot, uint32_t own, uint32_t size)
{
    for (uint32_t rank = 0; rank < size; rank++) {
        slot->part_first = rank == own ? slot->send_count : slot->part_first;
        slot->send_count += part_of(&slot->collective, rank);
    }
    slot->receive_count = part_of(&slot->collective, own);
}

/* How many elements this rank puts in and gets, and where the part of both begins that may be in place. */
static void shape(struct slot *slot, uint32_t own, uint32_t size)
{
    uint64_t count = slot->collective.count, all = count * size;
    bool is_root = own == slot->collective.root;

    slot->send_count = slot->receive_count = count;
    slot->part_first = 0;
    switch (slot->collective.kind) {
    case BROADCAST:
        slot->send_count = is_root ? count : 0;
        break;
    case REDUCE:
        slot->receive_count = is_root ? count : 0;
        break;
    case ALLGATHER:
        slot->receive_count = all;
        slot->part_first = count * own;
        break;
    case GATHER:
        slot->receive_count = is_root ? all : 0;
        slot->part_first = count * own;
        break;
    case SCATTER:
        slot->send_count = is_root ? all : 0;
        slot->part_first = count * own;
        break;
    case REDUCE_SCATTER:
        slot->send_count = 0;
        shape_reduce_scatter(slot, own, size);
        break;
    case BARRIER:
        slot->send_count = slot->receive_count = 0;
        break;
    default:
        break;
    }
}

static void allocate(struct lane *lane, struct slot *slot)
{
    uint32_t bytes = reference_element_bytes(slot->collective.type);
    bool in_vector = slot->collective.kind == REDUCE_SCATTER || slot->collective.kind == SCATTER;

    slot->in_place = slot->collective.in_place && slot->send_count > 0 && slot->receive_count > 0;
    slot->send = malloc(slot->send_count * bytes + 1);
    slot->receive = malloc(slot->receive_count * bytes + 1);
    LANE_CHECK(lane, slot->send != NULL && slot->receive != NULL, "no memory");
    slot->from = slot->in_place && !in_vector ? slot->receive + slot->part_first * bytes : slot->send;
    slot->to = slot->in_place && in_vector ? slot->send + slot->part_first * bytes : slot->receive;
}

static tutti_status init_reduction(struct lane *lane, struct slot *slot, const void *send,
                                   const tutti_request_options *options)
{
    const struct collective *c = &slot->collective;
    tutti_group *group = lane->groups[slot->group];
    tutti_reduction_options reduction = {.struct_size = sizeof reduction, .factor = &slot->factor};
    uint64_t counts[MOST_RANKS];

    if (c->type == TUTTI_OPAQUE) {
        reduction.function = affine_compose_counted;
        reduction.context = &slot->calls;
        reduction.is_not_commutative = true;
        reduction.element_bytes = sizeof(struct affine);
    }
    reference_factor(&slot->factor, c->type, lane->own[slot->group]);
    for (uint32_t rank = 0; rank < lane->lists[slot->group].count; rank++) {
        counts[rank] = part_of(c, rank);
    }
    switch (c->kind) {
    case REDUCE:
        return tutti_reduce_init(group, send, slot->to, c->count, c->type, c->operation, &reduction, c->root, options,
                                 &slot->request);
    case ALLREDUCE:
        return tutti_allreduce_init(group, send, slot->to, c->count, c->type, c->operation, &reduction, options,
                                    &slot->request);
    default:
        return c->by_counts ? tutti_reduce_scatter_counts_init(group, send, slot->to, counts, c->type, c->operation,
                                                               &reduction, options, &slot->request)
                            : tutti_reduce_scatter_init(group, send, slot->to, c->count, c->type, c->operation,
                                                        &reduction, options, &slot->request);
    }
}

static tutti_status init_request(struct lane *lane, struct slot *slot)
{
    const struct collective *c = &slot->collective;
    tutti_group *group = lane->groups[slot->group];
    tutti_request_options options = {.struct_size = sizeof options, .algorithm = c->algorithm};
    const void *send = slot->in_place && slot->from != slot->send ? TUTTI_IN_PLACE : slot->send;

    switch (c->kind) {
    case BROADCAST:
        return tutti_broadcast_init(group, send, slot->to, c->count, c->root, &options, &slot->request);
    case ALLGATHER:
        return tutti_allgather_init(group, send, slot->to, c->count, &options, &slot->request);
    case GATHER:
        return tutti_gather_init(group, send, slot->to, c->count, c->root, &options, &slot->request);
    case SCATTER:
        return tutti_scatter_init(group, send, slot->to, c->count, c->root, &options, &slot->request);
    case BARRIER:
        return tutti_barrier_init(group, &options, &slot->request);
    default:
        return init_reduction(lane, slot, send, &options);
    }
}

void slot_init(struct lane *lane, struct slot *slot)
{
    tutti_status status;

    slot->used = true;
    if (lane->groups[slot->group] == NULL) {
        return;
    }
    shape(slot, lane->own[slot->group], lane->lists[slot->group].count);
    allocate(lane, slot);
    status = init_request(lane, slot);
    if (status == TUTTI_ERR_NOT_SUPPORTED || status == TUTTI_ERR_TOO_LARGE) {
        slot->request = NULL; /* at all members alike, or they do not come together */
        lane->refused++;
        return;
    }
    LANE_CHECK(lane, status == TUTTI_OK, "%s by %d: %s", plan_kind_name(slot->collective.kind),
               (int)slot->collective.algorithm, tutti_last_error());
}

void slot_post(struct lane *lane, struct slot *slot, uint64_t salt)
{
    uint32_t bytes = reference_element_bytes(slot->collective.type);

    slot->salt = salt;
    slot->in_progress = true;
    if (slot->request == NULL) {
        return;
    }
    memset(slot->receive, GUARD, slot->receive_count * bytes + 1);
    slot->send[slot->send_count * bytes] = GUARD;
    reference_fill(slot->from, &slot->collective, lane->own[slot->group], 0, slot->send_count, salt);
    LANE_OK(lane, tutti_post(slot->request));
}

/* The first element of the result that is wrong, or as many as there are. */
static uint64_t compare(const struct lane *lane, const struct slot *slot)
{
    const struct collective *c = &slot->collective;
    uint32_t size = lane->lists[slot->group].count, bytes = reference_element_bytes(c->type);

    switch (c->kind) {
    case BROADCAST:
        return reference_compare_one(slot->to, c, c->root, 0, slot->receive_count, slot->salt);
    case SCATTER:
        return reference_compare_one(slot->to, c, c->root, slot->part_first, slot->receive_count, slot->salt);
    case ALLGATHER:
    case GATHER:
        for (uint32_t rank = 0; rank < size && slot->receive_count > 0; rank++) {
            uint64_t equal =
                reference_compare_one(slot->to + rank * c->count * bytes, c, rank, 0, c->count, slot->salt);

            if (equal < c->count) {
                return rank * c->count + equal;
            }
        }
        return slot->receive_count;
    case REDUCE_SCATTER:
        return reference_compare_all(slot->to, c, size, slot->part_first, slot->receive_count, slot->salt);
    default:
        return reference_compare_all(slot->to, c, size, 0, slot->receive_count, slot->salt);
    }
}

static void check(struct lane *lane, struct slot *slot)
{
    const struct collective *c = &slot->collective;
    uint32_t bytes = reference_element_bytes(c->type), own = lane->own[slot->group];
    char text[200];
    uint64_t equal;

    snprintf(text, sizeof text, "%s by %d (%d asked for) of %" PRIu64 " elements of type %d, operation %d, root %u%s%s",
             plan_kind_name(c->kind), (int)tutti_request_algorithm(slot->request), (int)c->algorithm, c->count,
             (int)c->type, (int)c->operation, c->root, slot->in_place ? ", in place" : "",
             c->by_counts ? ", counts" : "");
    if (lane->plants && slot->receive_count > 0) {
        slot->to[slot->receive_count * bytes / 2] ^= 1;
        lane->plants = false;
    }
    equal = compare(lane, slot);
    LANE_CHECK(lane, equal == slot->receive_count, "%s: element %" PRIu64 " is wrong", text, equal);
    LANE_CHECK(lane,
               slot->send[slot->send_count * bytes] == GUARD && slot->receive[slot->receive_count * bytes] == GUARD,
               "%s: written beyond a buffer", text);
    equal =
        slot->in_place ? slot->send_count : reference_compare_one(slot->from, c, own, 0, slot->send_count, slot->salt);
    LANE_CHECK(lane, equal == slot->send_count, "%s: element %" PRIu64 " of the send buffer has changed", text, equal);
}

/* Between two tests of a request. Not a yield: among several sessions on few cores, Linux 6.18 was seen to leave the
 * cores to threads that yield in loops for a minute, and to run nothing else, not even what delivers loopback's
 * packets. */
enum { TEST_AGAIN_US = 50 };

void slot_finish(struct lane *lane, struct slot *slot, bool by_test)
{
    bool done = false;

    if (!slot->in_progress) {
        return;
    }
    slot->in_progress = false;
    if (slot->request == NULL) {
        return;
    }
    while (by_test && !done) {
        LANE_OK(lane, tutti_test(slot->request, &done));
        if (!done) {
            usleep(TEST_AGAIN_US);
        }
    }
    if (!by_test) {
        LANE_OK(lane, tutti_wait(slot->request));
    }
    check(lane, slot);
    lane->completed++;
}

void slot_clear(struct lane *lane, struct slot *slot)
{
    slot_finish(lane, slot, false);
    if (slot->request != NULL) {
        LANE_OK(lane, tutti_finalize(slot->request));
    }
    free(slot->send);
    free(slot->receive);
    *slot = (struct slot){.used = false};
}
