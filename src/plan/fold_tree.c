/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Normal path: places are counted from the root's, by exclusive or, which keeps the joins as they are: the place at
 * distance 2^k speaks for 2^k places once it has heard those at 1, 2, ... 2^(k-1) from it, and then has place 0, or who
 * else has no lower bit, as its parent.
 *
 * Failures: none.
 */
#include "plan/fold_tree.h"

#include <assert.h>

#include "plan/dissemination.h"
#include "plan/fold.h"

/* Who speaks for the ranks of a place. */
static uint32_t speaker(const struct tt_schedule_fold *fold, uint32_t root, uint32_t place)
{
    return tt_schedule_place(fold, root) == place ? root : tt_schedule_rank(fold, place);
}

static uint32_t distance_of(const struct tt_schedule_fold *fold, uint32_t root, uint32_t rank)
{
    return tt_schedule_place(fold, rank) ^ tt_schedule_place(fold, root);
}

static bool is_of_pair(const struct tt_schedule_fold *fold, uint32_t rank)
{
    return rank < 2 * fold->rest;
}

bool tt_fold_tree_serves(uint32_t size, bool any_root)
{
    return size <= TT_DISSEMINATION_ALL || tt_is_power_of_two(size) || (!any_root && size <= TT_FOLD_TREE_MOST);
}

uint32_t tt_fold_tree_parent(uint32_t size, uint32_t root, uint32_t rank)
{
    struct tt_schedule_fold fold = tt_schedule_fold(size);
    uint32_t place = tt_schedule_place(&fold, rank), distance = distance_of(&fold, root, rank);

    if (speaker(&fold, root, place) == rank) {
        place ^= distance & -distance;
    }
    return speaker(&fold, root, place);
}

uint32_t tt_fold_tree_child_count(uint32_t size, uint32_t root, uint32_t rank)
{
    struct tt_schedule_fold fold = tt_schedule_fold(size);
    uint32_t distance = distance_of(&fold, root, rank), joins = distance == 0 ? fold.power : distance & -distance;

    if (speaker(&fold, root, tt_schedule_place(&fold, rank)) != rank) {
        return 0;
    }
    return (uint32_t)__builtin_ctz(joins) + is_of_pair(&fold, rank);
}

uint32_t tt_fold_tree_child(uint32_t size, uint32_t root, uint32_t rank, uint32_t index)
{
    struct tt_schedule_fold fold = tt_schedule_fold(size);
    uint32_t pair = is_of_pair(&fold, rank);

    assert(index < tt_fold_tree_child_count(size, root, rank));
    if (index < pair) {
        return rank ^ 1;
    }
    return speaker(&fold, root, tt_schedule_place(&fold, rank) ^ UINT32_C(1) << (index - pair));
}
