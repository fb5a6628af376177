/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tree of recursive doubling, up which vectors are combined: the first ranks in pairs if their number is no power
 * of two (plan/fold.h), then neighbours, then pairs of neighbours, and so on. At each join one of the two, of which the
 * root is one if it is among them, speaks for both from then on; so each rank but the root sends one vector, and none
 * hears from more than log2 P others and the other one of its pair. The bits are those of tt_fold(), whatever rank is
 * the root.
 */
#ifndef TT_PLAN_FOLD_TREE_H
#define TT_PLAN_FOLD_TREE_H

#include <stdbool.h>
#include <stdint.h>

/* The tree of rank 0 is of connections in all groups up to this size; in larger ones only in those that are a power of
 * two, where each edge spans one. */
enum { TT_FOLD_TREE_MOST = 1 << 20 };

/* Whether all edges are connections of the group, rank 0 being the root, or any other rank. */
bool tt_fold_tree_serves(uint32_t size, bool any_root);

/* The root's parent is itself. */
uint32_t tt_fold_tree_parent(uint32_t size, uint32_t root, uint32_t rank);

uint32_t tt_fold_tree_child_count(uint32_t size, uint32_t root, uint32_t rank);

/* Child number `index`, below the count, in the order in which they are combined. It speaks for higher ranks than all
 * that has been combined before if it is a higher one itself, else for lower ones. */
uint32_t tt_fold_tree_child(uint32_t size, uint32_t root, uint32_t rank, uint32_t index);

#endif
