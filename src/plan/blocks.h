/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where the blocks of a collective lie, in elements, and which slice of them a pulse is about. Blocks are the parts of
 * one vector that is cut evenly, of which a pulse takes a slice and cuts that; or each belongs to a rank and has a
 * length of its own, of which a pulse takes the same slice of every block.
 */
#ifndef TT_PLAN_BLOCKS_H
#define TT_PLAN_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tt_blocks {
    uint32_t block_count;
    const uint64_t *firsts, *counts;   /* of the ranks' blocks; the caller's. NULL: one vector, cut evenly */
    uint64_t slice_first, slice_count; /* of the vector, or of each block */
    bool is_apart;                     /* each block is a piece of its own, so that all slices make as many messages */
};

struct tt_block_range {
    uint64_t first, count; /* elements */
};

static inline struct tt_block_range tt_block_at(const struct tt_blocks *blocks, uint32_t block)
{
    if (blocks->counts == NULL) {
        uint64_t each = blocks->slice_count / blocks->block_count, longer = blocks->slice_count % blocks->block_count;

        return (struct tt_block_range){
            .first = blocks->slice_first + block * each + (block < longer ? block : longer),
            .count = each + (block < longer),
        };
    }
    uint64_t count = blocks->counts[block];
    uint64_t first = blocks->slice_first < count ? blocks->slice_first : count;
    uint64_t left = count - first;

    return (struct tt_block_range){.first = blocks->firsts[block] + first,
                                   .count = left < blocks->slice_count ? left : blocks->slice_count};
}

/* Makes parts of a vector blocks of ranks, of the same lengths: as many firsts and counts as there are blocks. */
static inline void tt_blocks_give_to_ranks(struct tt_blocks *blocks, uint64_t *firsts, uint64_t *counts)
{
    for (uint32_t i = 0; i < blocks->block_count; i++) {
        struct tt_block_range range = tt_block_at(blocks, i);

        firsts[i] = range.first;
        counts[i] = range.count;
    }
    blocks->firsts = firsts;
    blocks->counts = counts;
}

/* The range of a run of blocks, of which those that are not empty follow each other. */
static inline struct tt_block_range tt_blocks_run(const struct tt_blocks *blocks, uint32_t first_block,
                                                  uint32_t block_count)
{
    struct tt_block_range run = tt_block_at(blocks, first_block);

    for (uint32_t i = 1; i < block_count; i++) {
        struct tt_block_range block = tt_block_at(blocks, first_block + i);

        run.first = run.count == 0 ? block.first : run.first;
        run.count += block.count;
    }
    return run;
}

/* How many of the run's blocks, 1 or more, lie in one piece from its beginning on. */
static inline uint32_t tt_blocks_piece(const struct tt_blocks *blocks, uint32_t first_block, uint32_t block_count)
{
    struct tt_block_range piece = tt_block_at(blocks, first_block);

    for (uint32_t i = 1; i < block_count; i++) {
        struct tt_block_range block = tt_block_at(blocks, first_block + i);

        if (blocks->is_apart || (piece.count > 0 && block.count > 0 && piece.first + piece.count != block.first)) {
            return i;
        }
        piece.first = piece.count == 0 ? block.first : piece.first;
        piece.count += block.count;
    }
    return block_count;
}

#endif
