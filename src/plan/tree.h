/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The binomial tree, in ranks relative to its root 0: the parent of v is v with its lowest set bit cleared. Every edge
 * spans a power of two, so it is also an edge of the dissemination pattern, whatever rank the tree is rooted at.
 */
#ifndef TT_PLAN_TREE_H
#define TT_PLAN_TREE_H

#include <stdint.h>

static inline uint32_t tt_tree_parent(uint32_t vertex)
{
    return vertex & (vertex - 1);
}

/* Child number `index` of a vertex, or 0 if it has no such child: v + 2^index while 2^index is below v's lowest bit. */
static inline uint32_t tt_tree_child(uint32_t vertex, uint32_t size, uint32_t index)
{
    uint64_t step = UINT64_C(1) << index;

    if ((vertex != 0 && step >= (vertex & (~vertex + 1))) || vertex + step >= size) {
        return 0;
    }
    return vertex + (uint32_t)step;
}

/* Which child a vertex is of its parent. */
static inline uint32_t tt_tree_child_index(uint32_t vertex)
{
    return (uint32_t)__builtin_ctz(vertex);
}

/* The next vertex on the way down from `vertex` to its descendant `target`. */
static inline uint32_t tt_tree_toward(uint32_t vertex, uint32_t target)
{
    uint32_t rest = vertex ^ target;

    return vertex | (UINT32_C(1) << (31 - __builtin_clz(rest)));
}

#endif
