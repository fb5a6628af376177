/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How buffers are cut into chunks, and chunks are spread over subgroups.
 *
 * The receive buffer is `root_count` blocks of `block_bytes` each, one block a root (a Broadcast has one root). Every
 * block is cut into chunks of `chunk_bytes`, the last one shorter. The chunks of a block are dealt to the subgroups in
 * contiguous runs: subgroup s owns the same run of every block, its stripe. Within a stripe the packet sequence number
 * (PSN) counts the chunks of all blocks: PSN = root index * chunks of the stripe a block + index in the run. So each
 * subgroup has PSNs from 0 up and a bitmap of its own (Khalilov et al., sections III-A and IV-C).
 */
#ifndef TT_PLAN_LAYOUT_H
#define TT_PLAN_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

/* A part of what is combined: as many whole elements for each of `size` ranks, the last ones perhaps beyond the end. */
static inline uint64_t tt_layout_part_bytes(uint64_t block_bytes, uint32_t element_bytes, uint32_t size)
{
    return (block_bytes / element_bytes + size - 1) / size * element_bytes;
}

struct tt_layout {
    uint64_t block_bytes;
    uint32_t chunk_bytes;
    uint32_t root_count;
    uint32_t chunks_per_block;
    uint32_t subgroup_count;
};

/* The part of a layout that one subgroup carries. */
struct tt_stripe {
    uint64_t block_bytes;
    uint32_t chunk_bytes;
    uint32_t first_chunk;      /* of a block */
    uint32_t chunks;           /* of a block; may be 0 where there are fewer chunks than subgroups */
    uint32_t psn_count;        /* root_count * chunks */
    uint32_t last_chunk;       /* index in the block of the chunk that may be short */
    uint32_t last_chunk_bytes; /* 0: of a block of nothing */
};

/* False, and *layout is not set, if a subgroup would need more than `psn_limit` PSNs. */
bool tt_layout_init(struct tt_layout *layout, uint64_t block_bytes, uint32_t chunk_bytes, uint32_t root_count,
                    uint32_t subgroup_count, uint32_t psn_limit);

/* Blocks of no bytes that have a chunk all the same, on the first subgroup: it says that its root is there. */
void tt_layout_init_empty(struct tt_layout *layout, uint32_t chunk_bytes, uint32_t root_count, uint32_t subgroup_count);

void tt_layout_stripe(const struct tt_layout *layout, uint32_t subgroup, struct tt_stripe *stripe);

/* The smallest power-of-two multiple of `least_bytes` that keeps the PSNs of one subgroup below `psn_limit`. */
uint32_t tt_layout_chunk_for(uint64_t block_bytes, uint32_t root_count, uint32_t least_bytes, uint32_t psn_limit);

static inline uint32_t tt_stripe_length(const struct tt_stripe *stripe, uint32_t index)
{
    return stripe->first_chunk + index == stripe->last_chunk ? stripe->last_chunk_bytes : stripe->chunk_bytes;
}

/* How long the receive buffer is, of a stripe that has chunks in it; else 0. */
static inline uint64_t tt_stripe_buffer_bytes(const struct tt_stripe *stripe)
{
    return stripe->chunks == 0 ? 0 : stripe->psn_count / stripe->chunks * stripe->block_bytes;
}

/* Where a chunk of this stripe lies in the receive buffer. */
static inline uint64_t tt_stripe_offset(const struct tt_stripe *stripe, uint32_t root_index, uint32_t index)
{
    return root_index * stripe->block_bytes + ((uint64_t)stripe->first_chunk + index) * stripe->chunk_bytes;
}

#endif
