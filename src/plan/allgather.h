/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Allgather by messages between two ranks each, as plans: block b is what rank b contributes, and at each step every
 * rank sends one run of blocks to one rank and receives one run from one. Every rank gets every other rank's block
 * exactly once, from a rank that has it from an earlier step, so each rank sends and receives n - 1 blocks in all.
 *
 * - Ring: n - 1 steps, one block each, to the right neighbour.
 * - Recursive doubling: ceil(log2 n) steps. For n a power of two, ranks exchange all they have with rank XOR 2^step.
 *   For other n, rank r sends to r + 2^step (mod n) and the last step is shorter (Bruck et al., 1997; the pattern of
 *   plan/dissemination.h). Either way the edges are ones that a group has connections for.
 */
#ifndef TT_PLAN_ALLGATHER_H
#define TT_PLAN_ALLGATHER_H

#include <stdbool.h>
#include <stdint.h>

enum tt_allgather_algorithm { TT_ALLGATHER_RING, TT_ALLGATHER_RECURSIVE_DOUBLING };

/* Blocks first_block to first_block + block_count - 1; the number after n - 1 is 0. */
struct tt_allgather_run {
    uint32_t peer;
    uint32_t first_block;
    uint32_t block_count;
};

uint32_t tt_allgather_steps(enum tt_allgather_algorithm algorithm, uint32_t n);

/* What a rank sends, and receives, at a step. False, and *run is not set, from step tt_allgather_steps() on. */
bool tt_allgather_send(enum tt_allgather_algorithm algorithm, uint32_t n, uint32_t rank, uint64_t step,
                       struct tt_allgather_run *run);
bool tt_allgather_receive(enum tt_allgather_algorithm algorithm, uint32_t n, uint32_t rank, uint64_t step,
                          struct tt_allgather_run *run);

#endif
