/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What `soak` draws. Sizes are uniform in their logarithm up to 256 KiB, so that every mechanism of the library has its
 * share; some are nothing at all, and some larger. Nothing can fail.
 */
#include "soak.h"

enum {
    SIZE_BITS = 18,
    LARGE_BITS = 21,
    NOTHING_PPM = 40000,
    LARGE_PPM = 15000,
    AGAIN_PPM = 400000,
    ALLGATHER_PPM = 300000,
    ALLREDUCE_PPM = 200000,
    REDUCE_SCATTER_PPM = 150000,
    BY_TEST_PPM = 250000,
    AUTO_PPM = 500000,
    ENVIRONMENT_PPM = 300000
};

static uint64_t draw_bytes(struct tt_random *random)
{
    if (tt_random_chance(random, NOTHING_PPM)) {
        return 0;
    }
    if (tt_random_chance(random, LARGE_PPM)) {
        return tt_random_below(random, UINT64_C(1) << LARGE_BITS) + 1;
    }
    uint64_t ceiling = UINT64_C(1) << tt_random_below(random, SIZE_BITS + 1);
    return ceiling / 2 + tt_random_below(random, ceiling - ceiling / 2) + 1;
}

static enum soak_kind draw_kind(struct tt_random *random)
{
    uint64_t drawn = tt_random_below(random, 1000000);

    if (drawn < ALLGATHER_PPM) {
        return SOAK_ALLGATHER;
    }
    if (drawn < ALLGATHER_PPM + ALLREDUCE_PPM) {
        return SOAK_ALLREDUCE;
    }
    return drawn < ALLGATHER_PPM + ALLREDUCE_PPM + REDUCE_SCATTER_PPM ? SOAK_REDUCE_SCATTER : SOAK_BROADCAST;
}

void soak_draw_collective(struct tt_random *random, uint32_t slots, struct soak_draw *draw)
{
    draw->slot = (uint32_t)tt_random_below(random, slots);
    draw->again = tt_random_chance(random, AGAIN_PPM);
    draw->family = (uint32_t)tt_random_below(random, UINT32_MAX);
    draw->kind = draw_kind(random);
    draw->in_place = tt_random_chance(random, 500000);
    draw->by_test = tt_random_chance(random, BY_TEST_PPM);
    draw->bytes = draw_bytes(random);
    draw->root = (uint32_t)tt_random_below(random, UINT32_MAX);
    draw->algorithm = tt_random_chance(random, AUTO_PPM) ? 0 : (uint32_t)tt_random_below(random, UINT32_MAX);
    draw->misalignment_bytes = (uint32_t)tt_random_below(random, SOAK_MISALIGNMENT_LIMIT);
}

void soak_draw_split(struct tt_random *random, uint32_t size, struct soak_split *split)
{
    split->environment = tt_random_chance(random, ENVIRONMENT_PPM);
    split->parts = 1 + (uint32_t)tt_random_below(random, size < 3 ? size : 3);
}

void soak_draw_order(struct tt_random *random, uint32_t count, uint32_t *order)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t j = (uint32_t)tt_random_below(random, i + 1);
        order[i] = order[j];
        order[j] = i;
    }
}
