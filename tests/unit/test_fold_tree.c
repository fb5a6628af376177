/* SPDX-License-Identifier: BSD-3-Clause */
/* The tree that vectors are combined up, for every number of ranks up to 130, each rank being the root. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "neighbours.h"
#include "offload/fold.h"
#include "plan/dissemination.h"
#include "plan/fold_tree.h"

enum { MOST = 130, TEXT = 8 * MOST };

/* What two ranks' vectors become says how they were combined: "(left right)". */
static void join(char *joined, const char *left, const char *right)
{
    char text[TEXT];

    assert_true(snprintf(text, sizeof text, "(%s %s)", left, right) < TEXT);
    strcpy(joined, text);
}

/* All that a rank speaks for, in the order in which it is combined; counts how often each rank is met, and how far down
 * it goes. */
static uint32_t gather(uint32_t size, uint32_t root, uint32_t rank, uint8_t *met, char *combined)
{
    uint32_t levels = 0;

    met[rank]++;
    sprintf(combined, "%u", rank);
    for (uint32_t i = 0; i < tt_fold_tree_child_count(size, root, rank); i++) {
        uint32_t child = tt_fold_tree_child(size, root, rank, i), below;
        char its[TEXT];

        assert_true(child < size && child != rank);
        assert_int_equal(tt_fold_tree_parent(size, root, child), rank);
        assert_true(is_neighbour(size, rank, child) || !tt_fold_tree_serves(size, root != 0));
        assert_true(is_neighbour(size, child, rank) || !tt_fold_tree_serves(size, root != 0));
        below = gather(size, root, child, met, its);
        levels = below + 1 > levels ? below + 1 : levels;
        join(combined, child < rank ? its : combined, child < rank ? combined : its);
    }
    return levels;
}

static void write_join(void *destination, const void *left, const void *right, uint64_t count, void *context)
{
    (void)context;
    assert_int_equal(count, 1);
    join(destination, left, right);
}

/* The same of tt_fold(), which has all vectors. */
static void fold(uint32_t size, char *combined)
{
    static char vectors[MOST][TEXT];
    struct tt_reduction reduction;

    assert_int_equal(tt_reduction_init_user(&reduction, TT_TYPE_OPAQUE, TEXT, write_join, NULL, false), TUTTI_OK);
    for (uint32_t rank = 0; rank < size; rank++) {
        sprintf(vectors[rank], "%u", rank);
    }
    strcpy(combined, tt_fold(&reduction, vectors, TEXT, size, 1));
}

static void every_rank_is_once_in_the_tree_and_combines_as_one_would_that_had_all_vectors(void **state)
{
    static char combined[TEXT], folded[TEXT];

    (void)state;
    for (uint32_t size = 1; size <= MOST; size++) {
        fold(size, folded);
        for (uint32_t root = 0; root < size; root++) {
            uint8_t met[MOST] = {0};
            uint32_t levels = gather(size, root, root, met, combined);

            assert_int_equal(tt_fold_tree_parent(size, root, root), root);
            assert_string_equal(combined, folded);
            assert_true(levels <= tt_dissemination_rounds(size));
            for (uint32_t rank = 0; rank < size; rank++) {
                assert_int_equal(met[rank], 1);
            }
        }
    }
}

static void nobody_hears_from_more_than_the_logarithm(void **state)
{
    (void)state;
    for (uint32_t size = 1; size <= MOST; size++) {
        for (uint32_t root = 0; root < size; root++) {
            for (uint32_t rank = 0; rank < size; rank++) {
                uint32_t count = tt_fold_tree_child_count(size, root, rank);

                assert_true(count <= tt_dissemination_rounds(size));
                assert_true(rank == root || count < tt_dissemination_rounds(size) || size < 3);
            }
        }
    }
}

static void six_ranks(void **state)
{
    static const uint32_t parents[][6] = {{0, 0, 3, 0, 0, 4}, {1, 1, 3, 1, 1, 4}, {1, 2, 2, 2, 5, 2}};
    static const uint32_t roots[] = {0, 1, 2};

    (void)state;
    for (size_t i = 0; i < sizeof roots / sizeof roots[0]; i++) {
        for (uint32_t rank = 0; rank < 6; rank++) {
            assert_int_equal(tt_fold_tree_parent(6, roots[i], rank), parents[i][rank]);
        }
    }
}

static void its_edges_are_connections_of_small_groups_and_of_powers_of_two_and_of_rank_0_elsewhere(void **state)
{
    static const struct {
        uint32_t size;
        bool of_rank_0, of_any;
    } known[] = {{1, true, true},       {15, true, true},    {16, true, true},       {17, true, false},
                 {32, true, true},      {1000, true, false}, {1U << 20, true, true}, {(1U << 20) + 1, false, false},
                 {1U << 24, true, true}};

    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        assert_int_equal(tt_fold_tree_serves(known[i].size, false), known[i].of_rank_0);
        assert_int_equal(tt_fold_tree_serves(known[i].size, true), known[i].of_any);
    }
}

static void a_rank_has_room_for_all_its_connections_in_the_largest_group(void **state)
{
    static const uint32_t sizes[] = {(1U << 20) - 1, (1U << 19) + 1, 786433};

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (uint32_t rank = 0; rank < 3000; rank++) {
            uint32_t neighbours[2 * TT_DISSEMINATION_MAX_ROUNDS];

            assert_true(tt_dissemination_neighbours(rank, sizes[i], neighbours) <= 2 * TT_DISSEMINATION_MAX_ROUNDS);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rank_is_once_in_the_tree_and_combines_as_one_would_that_had_all_vectors),
        cmocka_unit_test(nobody_hears_from_more_than_the_logarithm),
        cmocka_unit_test(six_ranks),
        cmocka_unit_test(its_edges_are_connections_of_small_groups_and_of_powers_of_two_and_of_rank_0_elsewhere),
        cmocka_unit_test(a_rank_has_room_for_all_its_connections_in_the_largest_group),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
