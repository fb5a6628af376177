/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the terms of a collective come to: who multicasts, and how much.
 */
#ifndef TT_PROTO_TERMS_H
#define TT_PROTO_TERMS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/method.h"
#include "wire/chunk.h"
#include "wire/frame.h"

/* How many ranks multicast in a collective of these terms. */
static inline uint32_t tt_terms_roots(const struct tt_collective_terms *terms, uint32_t size)
{
    return terms->method == TT_METHOD_GATHER ? 1 : tt_collective_root_count(terms->kind, size);
}

/* An eager Allgather: every rank hears from all others. */
static inline bool tt_terms_all_send(const struct tt_collective_terms *terms)
{
    return terms->method == TT_METHOD_EAGER && terms->kind == TT_ALLGATHER;
}

/* How much each of them does: of a gathered barrier, which has no bytes, the release. */
static inline uint64_t tt_terms_root_bytes(const struct tt_collective_terms *terms, uint32_t size)
{
    if (terms->method != TT_METHOD_GATHER) {
        return terms->block_bytes;
    }
    return terms->block_bytes == 0 ? TT_RELEASE_BYTES : terms->block_bytes * size;
}

/* A barrier of two ranks by multicast: each sends a chunk of no bytes, which no other collective has. */
static inline bool tt_terms_is_exchange(const struct tt_collective_terms *terms)
{
    return tt_terms_all_send(terms) && terms->block_bytes == 0;
}

/* All of them together. */
static inline uint64_t tt_terms_bytes(const struct tt_collective_terms *terms, uint32_t size)
{
    return tt_terms_root_bytes(terms, size) * tt_terms_roots(terms, size);
}

#endif
