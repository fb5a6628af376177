/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RDMC's schedules: how member 0's object of k blocks reaches n members by block transfers between two members each
 * (Behrens et al., sections 4.2 to 4.4). A plan is arithmetic; nothing is stored per step, and a call costs O(1), or
 * O(log n) where a list is followed.
 *
 * Time is counted in steps. In a step a member receives at most one block, and sends at most one in each of its lanes,
 * and only blocks that it has from an earlier step. Nobody sends to member 0. Every other member gets every block
 * exactly once. All algorithms have one lane but the hybrid, whose rack leaders may send in two at a step, see
 * TT_RDMC_HYBRID. A member's transfers in the order of their steps are two lists (one of receives, and one of sends for
 * each lane), which an engine can work off asynchronously: each transfer waits for earlier steps only, so no member
 * waits in a circle.
 */
#ifndef TT_PLAN_RDMC_H
#define TT_PLAN_RDMC_H

#include <stdbool.h>
#include <stdint.h>

enum tt_rdmc_algorithm {
    TT_RDMC_SEQUENTIAL,        /* member 0 sends everything to each in turn; k (n - 1) steps */
    TT_RDMC_CHAIN,             /* each passes on to the next; k + n - 2 steps */
    TT_RDMC_BINOMIAL_TREE,     /* whole objects down a binomial tree; k ceil(log2 n) steps */
    TT_RDMC_BINOMIAL_PIPELINE, /* block by block along a hypercube; k + ceil(log2 n) - 1 steps */
    /*
     * Two levels of binomial pipelines: one among the leaders (the first member of each rack), and one in every rack,
     * whose member 0 is the leader. They overlap: rack 0's starts with the leaders' at step 0, that of any other of the
     * R racks ceil(log2 R) + 1 steps later, because by then its leader has block 0, and at each further step one block
     * more, in order. So a leader sends into its rack while it receives from and sends to other leaders: up to two
     * sends a step, one in each lane. Everybody else sends at most one, and each block enters each rack once. The
     * largest rack of g ends it after k + ceil(log2 R) + ceil(log2 g) steps (k + ceil(log2 g) - 1 if that is rack 0).
     * A leader sends everything twice, so where its port is what limits, a step takes the time of two blocks; where the
     * way between racks is half as fast, or slower, the racks' pipelines cost no more than their last steps.
     */
    TT_RDMC_HYBRID,
    TT_RDMC_ALGORITHM_COUNT
};

/* Lanes: in RACK the hybrid's members send inside their rack; all else is in MAIN. */
enum tt_rdmc_lane { TT_RDMC_MAIN, TT_RDMC_RACK, TT_RDMC_LANE_COUNT };

#define TT_RDMC_MOST_MEMBERS (UINT32_C(1) << 31)
#define TT_RDMC_MOST_BLOCKS  (UINT64_C(1) << 32)

struct tt_rdmc {
    enum tt_rdmc_algorithm algorithm;
    uint32_t member_count;
    uint64_t block_count;
    const uint32_t *rack_firsts; /* hybrid only: the first member of each rack, ascending from 0; the caller's */
    uint32_t rack_count;
    uint64_t step_count;
};

struct tt_rdmc_transfer {
    uint64_t step;
    uint64_t block;
    uint32_t peer; /* to whom, or from whom */
};

/*
 * `rack_firsts` is for the hybrid (else NULL and 0) and must stay as it is while the plan is used. An object without
 * bytes still is one block, an empty one. False, and *plan is not set: no members or blocks, more than the limits, or
 * racks that do not ascend from 0 to below `member_count`.
 */
bool tt_rdmc_init(struct tt_rdmc *plan, enum tt_rdmc_algorithm algorithm, uint32_t member_count, uint64_t block_count,
                  const uint32_t *rack_firsts, uint32_t rack_count);

/* What a member sends in a lane, and what it receives, at a step. False, and *transfer is not set: nothing. */
bool tt_rdmc_send(const struct tt_rdmc *plan, uint32_t member, enum tt_rdmc_lane lane, uint64_t step,
                  struct tt_rdmc_transfer *transfer);
bool tt_rdmc_receive(const struct tt_rdmc *plan, uint32_t member, uint64_t step, struct tt_rdmc_transfer *transfer);

/*
 * The first of a member's transfers at `step` or later: to follow its list begin with step 0 and go on with
 * transfer.step + 1. False, and *transfer is not set: there are no more.
 */
bool tt_rdmc_next_send(const struct tt_rdmc *plan, uint32_t member, enum tt_rdmc_lane lane, uint64_t step,
                       struct tt_rdmc_transfer *transfer);
bool tt_rdmc_next_receive(const struct tt_rdmc *plan, uint32_t member, uint64_t step,
                          struct tt_rdmc_transfer *transfer);

/* The most lanes that anybody sends in. */
static inline uint32_t tt_rdmc_lane_count(const struct tt_rdmc *plan)
{
    return plan->algorithm == TT_RDMC_HYBRID ? TT_RDMC_LANE_COUNT : 1;
}

/*
 * How far ahead of the lowest block that it lacks a member may be when a block arrives: how much it has to take out of
 * order. 0 where blocks come in order.
 */
uint32_t tt_rdmc_most_ahead(const struct tt_rdmc *plan);

/* Bytes of a block for an object of this size: a power of two from 4 KiB to 16 MiB. */
uint64_t tt_rdmc_block_bytes(enum tt_rdmc_algorithm algorithm, uint32_t member_count, uint64_t size_bytes);

/* "binomial-pipeline"; of_word is false, and *algorithm is not set, for a word that is none. */
const char *tt_rdmc_word(enum tt_rdmc_algorithm algorithm);
bool tt_rdmc_of_word(const char *word, enum tt_rdmc_algorithm *algorithm);

#endif
