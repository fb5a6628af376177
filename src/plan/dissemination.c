/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The set of a rank's neighbours; what the rest of the pattern needs is in the header.
 */
#include "plan/dissemination.h"

#include "plan/fold_tree.h"

static uint32_t add_once(uint32_t *ranks, uint32_t count, uint32_t rank)
{
    for (uint32_t i = 0; i < count; i++) {
        if (ranks[i] == rank) {
            return count;
        }
    }
    ranks[count] = rank;
    return count + 1;
}

uint32_t tt_dissemination_neighbours(uint32_t rank, uint32_t size, uint32_t *neighbours)
{
    uint32_t count = 0;
    uint32_t rounds = tt_dissemination_rounds(size);

    for (uint32_t round = 0; round < rounds; round++) {
        count = add_once(neighbours, count, tt_rank_add(rank, UINT32_C(1) << round, size));
        count = add_once(neighbours, count, tt_rank_subtract(rank, UINT32_C(1) << round, size));
    }
    for (uint32_t distance = 1; size <= TT_DISSEMINATION_ALL && distance < size; distance++) {
        count = add_once(neighbours, count, tt_rank_add(rank, distance, size));
    }
    if (tt_fold_tree_serves(size, false) && !tt_fold_tree_serves(size, true)) {
        if (rank != 0) {
            count = add_once(neighbours, count, tt_fold_tree_parent(size, 0, rank));
        }
        for (uint32_t child = 0; child < tt_fold_tree_child_count(size, 0, rank); child++) {
            count = add_once(neighbours, count, tt_fold_tree_child(size, 0, rank, child));
        }
    }
    return count;
}
