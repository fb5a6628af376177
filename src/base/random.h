/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A seeded generator (SplitMix64): the same seed gives the same numbers on every machine. Pure.
 */
#ifndef TT_BASE_RANDOM_H
#define TT_BASE_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

struct tt_random {
    uint64_t state;
};

static inline void tt_random_init(struct tt_random *random, uint64_t seed)
{
    random->state = seed;
}

/* The next 64 random bits. */
static inline uint64_t tt_random_next(struct tt_random *random)
{
    uint64_t z = (random->state += UINT64_C(0x9E3779B97F4A7C15));
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

/* A number below `limit` (> 0); the bias is below 2^-32 for limits below 2^32. */
static inline uint64_t tt_random_below(struct tt_random *random, uint64_t limit)
{
    return tt_random_next(random) % limit;
}

/* True with probability parts_per_million / 1,000,000. */
static inline bool tt_random_chance(struct tt_random *random, uint32_t parts_per_million)
{
    return tt_random_below(random, 1000000) < parts_per_million;
}

#endif
