/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What rdmc.c asks of an algorithm with one lane. n members and k blocks, as in the paper; both are at least 1, and n
 * at least 2 but for steps().
 */
#ifndef TT_PLAN_RDMC_RULE_H
#define TT_PLAN_RDMC_RULE_H

#include <stdbool.h>
#include <stdint.h>

#include "plan/rdmc.h"

#define TT_RDMC_NEVER UINT64_MAX

/* The transfer of one step; sets block and peer. False: none. */
typedef bool tt_rdmc_at(uint32_t n, uint64_t k, uint32_t member, uint64_t step, struct tt_rdmc_transfer *transfer);

/*
 * A step from which on to look for the next transfer: `step` or later, with none in between, and at most O(log n) steps
 * before that transfer or the end. NEVER: there are no more.
 */
typedef uint64_t tt_rdmc_from(uint32_t n, uint64_t k, uint32_t member, uint64_t step);

struct tt_rdmc_rule {
    uint64_t (*steps)(uint32_t n, uint64_t k);
    tt_rdmc_at *send, *receive;
    tt_rdmc_from *send_from, *receive_from;
};

extern const struct tt_rdmc_rule tt_rdmc_sequential, tt_rdmc_chain, tt_rdmc_tree, tt_rdmc_pipeline;

/* ceil(log2 n), and the largest l with 2^l <= n. */
static inline uint32_t tt_log2_up(uint32_t n)
{
    return n <= 1 ? 0 : 32 - (uint32_t)__builtin_clz(n - 1);
}

static inline uint32_t tt_log2_down(uint32_t n)
{
    return 31 - (uint32_t)__builtin_clz(n);
}

#endif
