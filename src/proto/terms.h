/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the terms of a collective come to: who multicasts, and how much.
 */
#ifndef TT_PROTO_TERMS_H
#define TT_PROTO_TERMS_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/method.h"
#include "plan/fold_tree.h"
#include "plan/layout.h"
#include "wire/chunk.h"
#include "wire/frame.h"

enum {
    TT_EAGER_RING_BYTES = 64 * 1024,                   /* of copies that a rank keeps */
    TT_EAGER_MAX_BYTES = TT_EAGER_RING_BYTES / 2,      /* of one collective: all blocks */
    TT_EAGER_ALLGATHER_MAX_BYTES = TT_EAGER_RING_BYTES /* of one to which all ranks give */
};

/* How many ranks have a block that goes to all as it is. */
static inline uint32_t tt_terms_roots(const struct tt_collective_terms *terms, uint32_t size)
{
    const struct tt_method_row *row = tt_method_row(terms->method);

    if (row->by_triggers) {
        return 0; /* a schedule of messages between two ranks each */
    }
    return row->gathers ? 1 : tt_collective_root_count(terms->kind, size);
}

/* Eager, and every rank hears from all others. */
static inline bool tt_terms_all_send(const struct tt_collective_terms *terms)
{
    return tt_method_row(terms->method)->all_send && !tt_kind_row(terms->kind)->root_gives;
}

static inline uint64_t tt_terms_part_bytes(const struct tt_collective_terms *terms, uint32_t size)
{
    assert(terms->element_bytes > 0);
    return tt_layout_part_bytes(terms->block_bytes, terms->element_bytes, size);
}

/* Gathered, and what comes of it concerns the root alone, or is nothing: it multicasts the release, by which all others
 * know that they have been heard. */
static inline bool tt_terms_releases(const struct tt_collective_terms *terms)
{
    return tt_method_row(terms->method)->gathers && (terms->block_bytes == 0 || tt_kind_row(terms->kind)->root_gets);
}

/* Gathered, and the root combines what has come together: all get what comes of it instead of all blocks. */
static inline bool tt_terms_combine(const struct tt_collective_terms *terms)
{
    return tt_method_row(terms->method)->gathers && terms->block_bytes > 0 && tt_kind_row(terms->kind)->combines;
}

/* The tree that vectors of all ranks are combined up is of connections. */
static inline bool tt_kind_may_fold(unsigned kind, uint32_t size)
{
    return tt_kind_row(kind)->combines && tt_fold_tree_serves(size, tt_kind_has_root(kind));
}

/* Gathered, and each rank combines what it has heard before it passes it on: no port takes in more than log2 P vectors,
 * where the root's would take in all. What is a frame a rank, and no more than may come together of an Allgather, goes
 * up the tree that blocks go up, in fewer steps. */
static inline bool tt_terms_fold(const struct tt_collective_terms *terms, uint32_t size)
{
    return tt_terms_combine(terms) && tt_kind_may_fold(terms->kind, size) &&
           (terms->block_bytes > TT_FRAME_GATHER_BYTES || terms->block_bytes * size > TT_EAGER_MAX_BYTES);
}

/* Eager, of two ranks that get equal parts of a vector: each sends the other one's, and that is all. */
static inline bool tt_terms_swap(const struct tt_collective_terms *terms, uint32_t size)
{
    return tt_terms_all_send(terms) && terms->kind == TT_REDUCE_SCATTER && terms->counts == 0 && size == 2;
}

/* How much each of them does. */
static inline uint64_t tt_terms_root_bytes(const struct tt_collective_terms *terms, uint32_t size)
{
    if (tt_method_row(terms->method)->by_parts && terms->block_bytes > 0) {
        return tt_terms_part_bytes(terms, size);
    }
    if (tt_method_row(terms->method)->by_triggers) {
        return 0;
    }
    if (tt_terms_releases(terms)) {
        return TT_RELEASE_BYTES;
    }
    if (tt_terms_swap(terms, size)) {
        return terms->block_bytes / 2;
    }
    return tt_method_row(terms->method)->gathers && !tt_terms_combine(terms) ? terms->block_bytes * size
                                                                             : terms->block_bytes;
}

/* A barrier of two ranks by multicast: each sends a chunk of no bytes, which no other collective has. */
static inline bool tt_terms_is_exchange(const struct tt_collective_terms *terms)
{
    return tt_terms_all_send(terms) && terms->block_bytes == 0 && !tt_method_row(terms->method)->by_parts;
}

/* Of the terms and, through `before`, of all those before them. */
static inline uint64_t tt_terms_digest(const struct tt_collective_terms *terms)
{
    const uint64_t words[] = {(uint64_t)terms->kind << 56 | (uint64_t)terms->method << 48 |
                                  (uint64_t)terms->subgroups << 32 | terms->root,
                              (uint64_t)terms->chunk_bytes << 32 | terms->chains, terms->block_bytes,
                              (uint64_t)terms->type << 40 | (uint64_t)terms->operation << 32 | terms->element_bytes,
                              (uint64_t)terms->counts << 32 | terms->before};
    uint64_t digest = 0;

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        digest = (digest ^ words[i]) * UINT64_C(0x9E3779B97F4A7C15);
        digest ^= digest >> 32;
    }
    return digest;
}

/* The `before` of what comes next without a gate. */
static inline uint16_t tt_terms_behind(const struct tt_collective_terms *terms)
{
    return (uint16_t)(tt_terms_digest(terms) | 1);
}

/* All of them together. */
static inline uint64_t tt_terms_bytes(const struct tt_collective_terms *terms, uint32_t size)
{
    return tt_terms_root_bytes(terms, size) * tt_terms_roots(terms, size);
}

#endif
