/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The gather tree. On one side of a vertex, n vertices long, there is a child at distance 2^k for every 2^k <= n. It
 * takes those for which no other power of two is nearer, and the last child what is left: distances from
 * 2^(k+1) / 3 + 1 to 2^(k+2) / 3.
 */
#include "plan/gather.h"

#include "plan/dissemination.h"

static bool is_star(uint32_t size)
{
    return size <= TT_DISSEMINATION_ALL;
}

/* How many children a side of this length has. */
static uint32_t children_on(uint32_t length)
{
    return length == 0 ? 0 : 32 - (uint32_t)__builtin_clz(length);
}

static uint32_t nearest(uint32_t k)
{
    return (uint32_t)((UINT64_C(2) << k) / 3 + 1);
}

static uint32_t farthest(uint32_t k, uint32_t length)
{
    return k + 1 == children_on(length) ? length : (uint32_t)((UINT64_C(4) << k) / 3);
}

/* The child at distance 2^k on a side of this length. */
static void child_on(uint32_t size, const struct tt_gather_place *place, bool ahead, uint32_t k,
                     struct tt_gather_place *child)
{
    uint32_t length = ahead ? place->after : place->before, distance = UINT32_C(1) << k;
    uint32_t nearer = distance - nearest(k), farther = farthest(k, length) - distance;

    child->parent = place->vertex;
    child->vertex =
        ahead ? tt_rank_add(place->vertex, distance, size) : tt_rank_subtract(place->vertex, distance, size);
    child->before = ahead ? nearer : farther;
    child->after = ahead ? farther : nearer;
}

uint32_t tt_gather_child_count(uint32_t size, const struct tt_gather_place *place)
{
    if (is_star(size)) {
        return place->after + place->before;
    }
    return children_on(place->after) + children_on(place->before);
}

void tt_gather_child(uint32_t size, const struct tt_gather_place *place, uint32_t index, struct tt_gather_place *child)
{
    uint32_t ahead = children_on(place->after);

    if (is_star(size)) {
        *child = (struct tt_gather_place){.vertex = index + 1};
        return;
    }
    child_on(size, place, index < ahead, index < ahead ? index : index - ahead, child);
}

/* Which child speaks for the vertex at this distance: the last one whose nearest is not farther. */
static uint32_t child_toward(uint32_t length, uint32_t distance)
{
    uint32_t k = children_on(length);

    while (k > 1 && nearest(k - 1) > distance) {
        k--;
    }
    return k > 0 ? k - 1 : 0;
}

void tt_gather_place(uint32_t size, uint32_t vertex, struct tt_gather_place *place)
{
    struct tt_gather_place at = {.after = size / 2, .before = size - 1 - size / 2};

    if (is_star(size) && vertex != 0) {
        *place = (struct tt_gather_place){.vertex = vertex};
        return;
    }
    while (at.vertex != vertex) {
        uint32_t distance = tt_rank_subtract(vertex, at.vertex, size);
        bool ahead = distance <= at.after;
        struct tt_gather_place from = at;

        distance = ahead ? distance : size - distance;
        child_on(size, &from, ahead, child_toward(ahead ? from.after : from.before, distance), &at);
    }
    *place = at;
}
