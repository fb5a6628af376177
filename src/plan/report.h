/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tree that reports go up, in vertices relative to its root 0. In a small group, where everybody is connected to
 * everybody, the root has all others as its children: no report waits for another vertex, nor behind what fills its
 * port. In a larger one it is a binomial tree, which is what answers go down in every group: as many from the root as
 * it hears reports would be more than a hundredth of what it has to send.
 */
#ifndef TT_PLAN_REPORT_H
#define TT_PLAN_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "plan/dissemination.h"
#include "plan/tree.h"

enum { TT_REPORT_MOST_CHILDREN = 32 };

static inline bool tt_report_is_star(uint32_t size)
{
    return size <= TT_DISSEMINATION_ALL;
}

static inline uint32_t tt_report_parent(uint32_t vertex, uint32_t size)
{
    return tt_report_is_star(size) ? 0 : tt_tree_parent(vertex);
}

/* Child number `index` of a vertex, or 0 if it has no such child; those that it has are numbered from 0. */
static inline uint32_t tt_report_child(uint32_t vertex, uint32_t size, uint32_t index)
{
    if (tt_report_is_star(size)) {
        return vertex == 0 && index + 1 < size ? index + 1 : 0;
    }
    return tt_tree_child(vertex, size, index);
}

/* Which child a vertex is of its parent. */
static inline uint32_t tt_report_child_index(uint32_t vertex, uint32_t size)
{
    return tt_report_is_star(size) ? vertex - 1 : tt_tree_child_index(vertex);
}

#endif
