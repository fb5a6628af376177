/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A tree that small blocks are gathered up, in vertices relative to its root 0. In a small group, where everybody is
 * connected to everybody, the root has all others as its children. In a larger one, half of the others are on either
 * side of the root, and so on for every subtree: a vertex has children at +2^k and at -2^k, each in the middle of the
 * vertices that it speaks for. So
 *   - every edge spans a power of two and is an edge of the dissemination pattern too, whatever rank the tree is rooted
 *     at;
 *   - a subtree is a run of consecutive vertices (mod P): its blocks go up as one piece;
 *   - it has fewer levels than a binomial tree: 188 vertices have five.
 */
#ifndef TT_PLAN_GATHER_H
#define TT_PLAN_GATHER_H

#include <stdbool.h>
#include <stdint.h>

enum { TT_GATHER_MAX_CHILDREN = 64 };

/* Where a vertex is: it speaks for those from vertex - before to vertex + after (mod P). */
struct tt_gather_place {
    uint32_t vertex, parent; /* the root's parent is itself */
    uint32_t before, after;
};

void tt_gather_place(uint32_t size, uint32_t vertex, struct tt_gather_place *place);

/* How many children it has. */
uint32_t tt_gather_child_count(uint32_t size, const struct tt_gather_place *place);

/* Child number `index`, below the count. */
void tt_gather_child(uint32_t size, const struct tt_gather_place *place, uint32_t index, struct tt_gather_place *child);

/* A bit a child; there are at most 62, since ranks are counted in 32 bits and both sides have room for 31 powers. */
static inline uint64_t tt_gather_all_children(uint32_t child_count)
{
    return (UINT64_C(1) << child_count) - 1;
}

#endif
