/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who sent a datagram: the members of a subgroup by what an unreliable-datagram completion says of the sender, which is
 * the number of its queue pair and, in the network header, its GID. Open addressing in memory of the caller.
 */
#ifndef TT_FABRIC_VERBS_SOURCES_H
#define TT_FABRIC_VERBS_SOURCES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TT_VERBS_NOBODY = UINT32_MAX }; /* no member's rank */

/* A queue pair somewhere. A GID's bytes, and those of `::ffff:a.b.c.d` for an IPv4 address, in two words. */
struct tt_verbs_source {
    uint64_t gid[2]; /* as they lie in memory */
    uint32_t queue_pair;
    uint32_t rank; /* TT_VERBS_NOBODY: an empty slot */
};

struct tt_verbs_sources {
    uint32_t mask; /* slots - 1 */
    struct tt_verbs_source slots[];
};

/* How much memory a table of `count` members needs. */
size_t tt_verbs_sources_bytes(uint32_t count);

/* Makes an empty table in memory of tt_verbs_sources_bytes(count) bytes, aligned for any object. */
struct tt_verbs_sources *tt_verbs_sources_init(void *memory, uint32_t count);

/* Adds one of at most `count` members. False, with the rank that has it already, if the queue pair is in the table. */
bool tt_verbs_sources_add(struct tt_verbs_sources *sources, const struct tt_verbs_source *source, uint32_t *other_rank);

static inline uint32_t tt_verbs_sources_slot(const struct tt_verbs_sources *sources, const uint64_t gid[2],
                                             uint32_t queue_pair)
{
    uint64_t mixed = (gid[1] ^ queue_pair ^ (gid[0] >> 7)) * UINT64_C(0x9E3779B97F4A7C15);

    return (uint32_t)(mixed >> 32) & sources->mask;
}

/* The rank of the member with this queue pair, or TT_VERBS_NOBODY. */
static inline uint32_t tt_verbs_sources_find(const struct tt_verbs_sources *sources, const uint64_t gid[2],
                                             uint32_t queue_pair)
{
    uint32_t slot = tt_verbs_sources_slot(sources, gid, queue_pair);

    /* There are more slots than members, so that the walk ends. */
    while (sources->slots[slot].rank != (uint32_t)TT_VERBS_NOBODY) {
        const struct tt_verbs_source *source = &sources->slots[slot];
        if (source->queue_pair == queue_pair && source->gid[0] == gid[0] && source->gid[1] == gid[1]) {
            return source->rank;
        }
        slot = (slot + 1) & sources->mask;
    }
    return (uint32_t)TT_VERBS_NOBODY;
}

#endif
