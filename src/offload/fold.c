/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: the tree of recursive doubling, where everything is in one place.
 *
 * Normal path: as tt_schedule_allreduce_doubling() exchanges, but only the lower place of two combines.
 *
 * Failures: none; of one rank the result is its vector.
 */
#include "offload/fold.h"

#include <assert.h>

#include "plan/fold.h"

const void *tt_fold(const struct tt_reduction *reduction, void *vectors, uint64_t stride_bytes, uint32_t size,
                    uint64_t count)
{
    struct tt_schedule_fold fold = tt_schedule_fold(size);
    uint8_t *base = vectors;

    assert(size > 0);
    for (uint32_t place = 0; place < fold.rest; place++) {
        uint8_t *right = base + tt_schedule_rank(&fold, place) * stride_bytes;

        tt_reduction_combine(reduction, right, right - stride_bytes, right, count);
    }
    for (uint32_t distance = 1; distance < fold.power; distance *= 2) {
        for (uint32_t place = 0; place < fold.power; place += 2 * distance) {
            uint8_t *left = base + tt_schedule_rank(&fold, place) * stride_bytes;

            const uint8_t *right = base + tt_schedule_rank(&fold, place + distance) * stride_bytes;

#ifdef TT_FAULT_FOLD_SWAPPED
            tt_reduction_combine(reduction, left, right, left, count);
#else
            tt_reduction_combine(reduction, left, left, right, count);
#endif
        }
    }
    return base + tt_schedule_rank(&fold, 0) * stride_bytes;
}
