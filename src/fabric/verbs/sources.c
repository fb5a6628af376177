/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of a subgroup's members. Normal path: twice as many slots as members, a power of two, filled once while the
 * subgroup is set up and only read afterwards. Failure: two members with one queue pair, which cannot be.
 */
#include "fabric/verbs/sources.h"

static uint32_t slots_for(uint32_t count)
{
    uint32_t slots = 2;

    while (slots < 2 * count) {
        slots *= 2;
    }
    return slots;
}

size_t tt_verbs_sources_bytes(uint32_t count)
{
    return sizeof(struct tt_verbs_sources) + slots_for(count) * sizeof(struct tt_verbs_source);
}

struct tt_verbs_sources *tt_verbs_sources_init(void *memory, uint32_t count)
{
    struct tt_verbs_sources *sources = memory;

    sources->mask = slots_for(count) - 1;
    for (uint32_t slot = 0; slot <= sources->mask; slot++) {
        sources->slots[slot].rank = (uint32_t)TT_VERBS_NOBODY;
    }
    return sources;
}

bool tt_verbs_sources_add(struct tt_verbs_sources *sources, const struct tt_verbs_source *source, uint32_t *other_rank)
{
    uint32_t slot = tt_verbs_sources_slot(sources, source->gid, source->queue_pair);
    uint32_t known = tt_verbs_sources_find(sources, source->gid, source->queue_pair);

    if (known != (uint32_t)TT_VERBS_NOBODY) {
        *other_rank = known;
        return false;
    }
    while (sources->slots[slot].rank != (uint32_t)TT_VERBS_NOBODY) {
        slot = (slot + 1) & sources->mask;
    }
    sources->slots[slot] = *source;
    return true;
}
