/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The dissemination pattern: in round k rank r sends to r + 2^k and hears from r - 2^k (mod P). After ceil(log2 P)
 * rounds everybody has heard, directly or not, from everybody. Where P is a power of two ranks exchange instead, r with
 * r xor 2^k, which is recursive doubling (Khalilov et al., section V-A): as many rounds and frames, and they go where a
 * reduction's messages go. A rank keeps connections at the distances 2^k to either side, which has all of these, and
 * those of the tree that vectors are combined up (plan/fold_tree.h), P - 1 in all; in a small group it keeps all
 * that there can be.
 */
#ifndef TT_PLAN_DISSEMINATION_H
#define TT_PLAN_DISSEMINATION_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    TT_DISSEMINATION_MAX_ROUNDS = 32,
    TT_DISSEMINATION_ALL = 16 /* up to so many ranks: everybody is a neighbour */
};

static inline uint32_t tt_dissemination_rounds(uint32_t size)
{
    uint32_t rounds = 0;

    while (rounds < 31 && (UINT32_C(1) << rounds) < size) {
        rounds++;
    }
    return rounds;
}

static inline uint32_t tt_rank_add(uint32_t rank, uint32_t distance, uint32_t size)
{
    assert(size > 0);
    return (uint32_t)(((uint64_t)rank + distance) % size);
}

static inline uint32_t tt_rank_subtract(uint32_t rank, uint32_t distance, uint32_t size)
{
    assert(size > 0);
    return (uint32_t)(((uint64_t)rank + size - distance % size) % size);
}

static inline bool tt_is_power_of_two(uint32_t size)
{
    return size > 0 && (size & (size - 1)) == 0;
}

static inline uint32_t tt_dissemination_to(uint32_t rank, uint32_t size, uint32_t round)
{
    return tt_is_power_of_two(size) ? rank ^ UINT32_C(1) << round : tt_rank_add(rank, UINT32_C(1) << round, size);
}

static inline uint32_t tt_dissemination_from(uint32_t rank, uint32_t size, uint32_t round)
{
    return tt_is_power_of_two(size) ? rank ^ UINT32_C(1) << round : tt_rank_subtract(rank, UINT32_C(1) << round, size);
}

/* The distinct ranks at distance 2^k to either side, ascending by round, and after them the others in a small group, or
 * parent and children in the tree; at most twice the most rounds. Returns how many. */
uint32_t tt_dissemination_neighbours(uint32_t rank, uint32_t size, uint32_t *neighbours);

#endif
