/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The broadcast sequencer's schedule: P roots in M chains that run side by side, the roots of a chain one after the
 * other. Chain m holds the roots P_{Rm} .. P_{Rm + R - 1} (Khalilov et al., appendix A); where M does not divide P, the
 * first P mod M chains are longer by one.
 */
#ifndef TT_PLAN_CHAIN_H
#define TT_PLAN_CHAIN_H

#include <assert.h>
#include <stdint.h>

struct tt_chain {
    uint32_t first; /* root index */
    uint32_t length;
};

static inline struct tt_chain tt_chain_at(uint32_t root_count, uint32_t chain_count, uint32_t chain)
{
    uint32_t each = root_count / chain_count;
    uint32_t longer = root_count % chain_count;

    return (struct tt_chain){.first = chain * each + (chain < longer ? chain : longer),
                             .length = each + (chain < longer)};
}

/* The chain that a root is in. */
static inline uint32_t tt_chain_of(uint32_t root_count, uint32_t chain_count, uint32_t root_index)
{
    uint32_t each = root_count / chain_count;
    uint32_t longer = root_count % chain_count;

    if (root_index < longer * (each + 1)) {
        return root_index / (each + 1);
    }
    assert(each > 0); /* or there is no such root */
    return longer + (root_index - longer * (each + 1)) / each;
}

#endif
