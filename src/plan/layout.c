/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The chunk layout: pure arithmetic, nothing stored per chunk. Fails only where PSNs would not fit their bits.
 */
#include "plan/layout.h"

bool tt_layout_init(struct tt_layout *layout, uint64_t block_bytes, uint32_t chunk_bytes, uint32_t root_count,
                    uint32_t subgroup_count, uint32_t psn_limit)
{
    uint64_t chunks = block_bytes / chunk_bytes + (block_bytes % chunk_bytes != 0);
    uint64_t largest_run = chunks / subgroup_count + (chunks % subgroup_count != 0);

    if (chunks > UINT32_MAX || largest_run > psn_limit / root_count) {
        return false;
    }
    layout->block_bytes = block_bytes;
    layout->chunk_bytes = chunk_bytes;
    layout->root_count = root_count;
    layout->chunks_per_block = (uint32_t)chunks;
    layout->subgroup_count = subgroup_count;
    return true;
}

void tt_layout_init_empty(struct tt_layout *layout, uint32_t chunk_bytes, uint32_t root_count, uint32_t subgroup_count)
{
    *layout = (struct tt_layout){
        .chunk_bytes = chunk_bytes, .root_count = root_count, .chunks_per_block = 1, .subgroup_count = subgroup_count};
}

void tt_layout_stripe(const struct tt_layout *layout, uint32_t subgroup, struct tt_stripe *stripe)
{
    uint32_t each = layout->chunks_per_block / layout->subgroup_count;
    uint32_t longer = layout->chunks_per_block % layout->subgroup_count; /* the first ones take one more */
    uint64_t tail = layout->block_bytes % layout->chunk_bytes;

    stripe->block_bytes = layout->block_bytes;
    stripe->chunk_bytes = layout->chunk_bytes;
    stripe->first_chunk = subgroup * each + (subgroup < longer ? subgroup : longer);
    stripe->chunks = each + (subgroup < longer);
    stripe->psn_count = stripe->chunks * layout->root_count;
    stripe->last_chunk = layout->chunks_per_block - 1;
    stripe->last_chunk_bytes = tail != 0 || layout->block_bytes == 0 ? (uint32_t)tail : layout->chunk_bytes;
}

uint32_t tt_layout_chunk_for(uint64_t block_bytes, uint32_t root_count, uint32_t least_bytes, uint32_t psn_limit)
{
    uint32_t chunk_bytes = least_bytes;
    struct tt_layout layout;

    while (chunk_bytes <= UINT32_MAX / 2 &&
           !tt_layout_init(&layout, block_bytes, chunk_bytes, root_count, 1, psn_limit)) {
        chunk_bytes *= 2;
    }
    return chunk_bytes;
}
