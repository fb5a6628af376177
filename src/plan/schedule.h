/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives as schedules of messages between two ranks each: for every rank a list of steps, done one after the
 * other. A message is a run of blocks (plan/blocks.h) of a vector that every rank has, and in which a block has the
 * same place everywhere. What is received replaces the blocks, is reduced with them, or is a mere signal.
 *
 * What holds of all of them: the j-th message from one rank to another is the j-th that the other receives from it; the
 * order in which a rank receives is fixed, so a reduction has one order of operands whatever comes first; and no rank
 * waits in a circle, not even if a message is taken only when its receiver has come to it, as long as a message that is
 * the next one to be received is always taken (tests/unit/test_schedule.c).
 *
 * Dissemination barrier, see plan/dissemination.h. Binomial trees, see plan/tree.h; their root may be any rank. The
 * double tree is two binary trees, half of the vector down each, in which nobody passes on in both (Sanders, Speck and
 * Traeff, 2009). Recursive doubling: all of the vector with rank XOR 2^k. Rabenseifner: halves of halves with rank XOR
 * 2^k
 * ("vector halving + distance doubling", Xu et al., section 2.2) until each rank has reduced a part; then the same way
 * back, or for a reduction to one rank up a binomial tree. Recursive halving: the far half first, so that parts are
 * runs of ranks' blocks. Where the number of ranks is no power of two, these three fold: the first ranks in pairs, of
 * which the odd ones take part for both. Ring: n - 1 steps, a block each.
 * Direct: the root with each rank in turn, or, to reduce and scatter, each rank with the one that is i further in step
 * i, so that nobody needs room for others' blocks, and each step is a permutation.
 */
#ifndef TT_PLAN_SCHEDULE_H
#define TT_PLAN_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

#include "plan/blocks.h"

enum tt_schedule_collective {
    TT_SCHEDULE_BARRIER,
    TT_SCHEDULE_BROADCAST,
    TT_SCHEDULE_REDUCE,
    TT_SCHEDULE_ALLREDUCE,
    TT_SCHEDULE_REDUCE_SCATTER, /* rank r ends with block r reduced; the others hold what was left on the way */
    TT_SCHEDULE_ALLGATHER,
    TT_SCHEDULE_GATHER,
    TT_SCHEDULE_SCATTER,
    TT_SCHEDULE_COLLECTIVE_COUNT
};

enum tt_schedule_algorithm {
    TT_SCHEDULE_DISSEMINATION,
    TT_SCHEDULE_BINOMIAL,
    TT_SCHEDULE_DOUBLE_TREE,
    TT_SCHEDULE_RECURSIVE_DOUBLING,
    TT_SCHEDULE_RABENSEIFNER,
    TT_SCHEDULE_RING,
    TT_SCHEDULE_RECURSIVE_HALVING,
    TT_SCHEDULE_DIRECT,
    TT_SCHEDULE_ALGORITHM_COUNT
};

#define TT_SCHEDULE_MOST_RANKS (UINT32_C(1) << 24) /* as many as there are NodeIDs (Xu et al., section 1.2) */

struct tt_schedule {
    enum tt_schedule_collective collective;
    enum tt_schedule_algorithm algorithm;
    uint32_t size, root;
};

enum tt_schedule_kind {
    TT_SCHEDULE_SEND,
    TT_SCHEDULE_SIGNAL, /* received: nothing but that it came */
    TT_SCHEDULE_COPY,   /* received: replaces the blocks */
    TT_SCHEDULE_REDUCED /* received: is reduced with the blocks */
};

struct tt_schedule_step {
    enum tt_schedule_kind kind;
    uint32_t peer;
    uint32_t first_block, block_count; /* a run in one piece; signals have none */
    bool before;                       /* of REDUCED: what is received is the left operand */
    /* Of SEND: how many messages the peer receives before this one, and whether the peer is done with it. */
    uint64_t position;
    bool ends;
};

/* False, and *schedule is not set: no such pair, no or too many ranks, or a root that is none (0 where there is none).
 */
bool tt_schedule_init(struct tt_schedule *schedule, enum tt_schedule_collective collective,
                      enum tt_schedule_algorithm algorithm, uint32_t size, uint32_t root);

/*
 * How many orders there are to do its steps in, at least 1: where all exchanges are independent, as in a direct
 * reduce-scatter, any of them may be the first, if it is for all ranks. Then pulses that are in flight together
 * exchange with different ranks; in the same order all of them would wait for the same rank, and the links of others be
 * idle.
 */
uint32_t tt_schedule_turns(const struct tt_schedule *schedule);

/* Step number `index` of `count` in the order of this number, with the first `ahead` sends in front where exchanges are
 * independent (0 is as good as 1); only its position and end depend on that. */
struct tt_schedule_step tt_schedule_turned(const struct tt_schedule *schedule, const struct tt_schedule_step *steps,
                                           uint64_t count, uint32_t turn, uint32_t ahead, uint64_t index);

/* How many blocks there are, at least 1. */
uint32_t tt_schedule_block_count(const struct tt_schedule *schedule);

/* Whether blocks are ranks' (of any length each) rather than parts of one vector. */
bool tt_schedule_has_rank_blocks(const struct tt_schedule *schedule);

/* Whether every result is the product of all ranks' operands in the order of ranks, for operations that do not commute.
 */
bool tt_schedule_keeps_order(const struct tt_schedule *schedule);

/*
 * Writes the first `capacity` of a rank's steps and returns how many it has. Runs that do not lie in one piece are cut.
 * `steps` may be NULL if the capacity is 0. If all steps fit, positions and ends are set; that costs the time of
 * writing the steps of each peer that is sent to.
 */
uint64_t tt_schedule_write(const struct tt_schedule *schedule, const struct tt_blocks *blocks, uint32_t rank,
                           struct tt_schedule_step *steps, uint64_t capacity);

/*
 * The run of blocks that lie in a rank's buffer from the beginning, whatever its steps write: its result, or a run that
 * it sends, has them as they are. All else is received before it is sent, or, where the collective reduces or scatters,
 * may be read from another buffer as long as it has not been written. Returns how many; if not 0, *first_block is set.
 */
uint32_t tt_schedule_given_blocks(const struct tt_schedule *schedule, uint32_t rank, uint32_t *first_block);

/* "reduce-scatter", "recursive-doubling"; of_word is false, and nothing is set, for a word that is none. */
const char *tt_schedule_collective_word(enum tt_schedule_collective collective);
const char *tt_schedule_algorithm_word(enum tt_schedule_algorithm algorithm);
bool tt_schedule_collective_of_word(const char *word, enum tt_schedule_collective *collective);
bool tt_schedule_algorithm_of_word(const char *word, enum tt_schedule_algorithm *algorithm);

/* Whether there is such a pair. */
bool tt_schedule_is_known(enum tt_schedule_collective collective, enum tt_schedule_algorithm algorithm);

/* Whether it begins or ends at one rank. */
bool tt_schedule_has_root(enum tt_schedule_collective collective);

#endif
