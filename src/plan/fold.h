/* SPDX-License-Identifier: BSD-3-Clause */
/* Who takes part where ranks halve or double, if they are no power of two: the first ones in pairs, of which the odd
 * one takes part for both. */
#ifndef TT_PLAN_FOLD_H
#define TT_PLAN_FOLD_H

#include <stdbool.h>
#include <stdint.h>

/* Ranks that halve or double together: the largest power of two of them, numbered anew. */
struct tt_schedule_fold {
    uint32_t power, rest;
};

static inline struct tt_schedule_fold tt_schedule_fold(uint32_t size)
{
    uint32_t power = UINT32_C(1) << (31 - __builtin_clz(size));

    return (struct tt_schedule_fold){.power = power, .rest = size - power};
}

/* Whether the next rank takes part for this one. */
static inline bool tt_schedule_is_folded(const struct tt_schedule_fold *fold, uint32_t rank)
{
    return rank < 2 * fold->rest && rank % 2 == 0;
}

static inline uint32_t tt_schedule_place(const struct tt_schedule_fold *fold, uint32_t rank)
{
    return rank < 2 * fold->rest ? rank / 2 : rank - fold->rest;
}

static inline uint32_t tt_schedule_rank(const struct tt_schedule_fold *fold, uint32_t place)
{
    return place < fold->rest ? 2 * place + 1 : place + fold->rest;
}

#endif
