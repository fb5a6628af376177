/* SPDX-License-Identifier: BSD-3-Clause */
/* The binomial tree, and the one that reports go up, for every number of ranks up to 64. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "plan/dissemination.h"
#include "plan/report.h"
#include "plan/tree.h"

enum { MOST = 64 };

static uint32_t depth_of(uint32_t vertex)
{
    uint32_t depth = 0;

    while (vertex != 0) {
        vertex = tt_tree_parent(vertex);
        depth++;
    }
    return depth;
}

static void depth_is_at_most_the_logarithm_rounded_up(void **state)
{
    (void)state;
    for (uint32_t size = 1; size <= MOST; size++) {
        for (uint32_t vertex = 0; vertex < size; vertex++) {
            assert_true(depth_of(vertex) <= tt_dissemination_rounds(size));
        }
    }
}

static void every_vertex_is_the_child_of_its_parent_and_of_nobody_else(void **state)
{
    (void)state;
    for (uint32_t size = 1; size <= MOST; size++) {
        uint32_t parents[MOST] = {0}, edges = 0;

        for (uint32_t vertex = 0; vertex < size; vertex++) {
            for (uint32_t i = 0; i < 32; i++) {
                uint32_t child = tt_tree_child(vertex, size, i);

                if (child == 0) {
                    continue;
                }
                assert_true(child < size);
                assert_int_equal(tt_tree_parent(child), vertex);
                assert_int_equal(tt_tree_child_index(child), i);
                parents[child]++;
                edges++;
            }
        }
        assert_int_equal(edges, size - 1);
        for (uint32_t vertex = 1; vertex < size; vertex++) {
            assert_int_equal(parents[vertex], 1);
        }
    }
}

static void reports_go_up_a_tree_of_neighbours_and_from_all_at_once_in_small_groups(void **state)
{
    uint32_t neighbours[2 * TT_DISSEMINATION_MAX_ROUNDS];

    (void)state;
    for (uint32_t size = 1; size <= MOST; size++) {
        uint32_t children = 0;

        for (uint32_t vertex = 0; vertex < size; vertex++) {
            uint32_t count = tt_dissemination_neighbours(vertex, size, neighbours);
            uint32_t child, i;

            for (i = 0; (child = tt_report_child(vertex, size, i)) != 0; i++) {
                uint32_t near = 0;

                assert_true(child < size);
                assert_int_equal(tt_report_parent(child, size), vertex);
                assert_int_equal(tt_report_child_index(child, size), i);
                while (near < count && neighbours[near] != child) {
                    near++;
                }
                assert_true(near < count);
                children++;
            }
            assert_true(i <= TT_REPORT_MOST_CHILDREN);
            assert_true(size > TT_DISSEMINATION_ALL || i == (vertex == 0 ? size - 1 : 0));
        }
        assert_int_equal(children, size - 1); /* each has one parent, that is smaller: all are under vertex 0 */
    }
}

/* The reports' loop ends at the first index without a child. */
static void children_are_numbered_without_gaps(void **state)
{
    (void)state;
    for (uint32_t size = 1; size <= MOST; size++) {
        for (uint32_t vertex = 0; vertex < size; vertex++) {
            bool ended = false;

            for (uint32_t i = 0; i < 32; i++) {
                ended |= tt_tree_child(vertex, size, i) == 0;
                assert_true(!ended || tt_tree_child(vertex, size, i) == 0);
            }
        }
    }
}

static void every_edge_is_an_edge_of_the_dissemination_pattern_whatever_the_root(void **state)
{
    uint32_t neighbours[2 * TT_DISSEMINATION_MAX_ROUNDS];

    (void)state;
    for (uint32_t size = 2; size <= 33; size++) {
        for (uint32_t base = 0; base < size; base++) {
            for (uint32_t vertex = 1; vertex < size; vertex++) {
                uint32_t parent = tt_rank_add(tt_tree_parent(vertex), base, size), distance, i = 0;
                uint32_t count = tt_dissemination_neighbours(tt_rank_add(vertex, base, size), size, neighbours);

                distance = vertex - tt_tree_parent(vertex);
                assert_int_equal(distance & (distance - 1), 0);
                while (i < count && neighbours[i] != parent) {
                    i++;
                }
                assert_true(i < count);
            }
        }
    }
}

static void the_way_down_visits_the_targets_ancestors(void **state)
{
    (void)state;
    for (uint32_t target = 1; target < MOST; target++) {
        for (uint32_t ancestor = target; ancestor != 0;) {
            uint32_t below = ancestor;

            ancestor = tt_tree_parent(ancestor);
            assert_int_equal(tt_tree_toward(ancestor, target), below);
        }
    }
}

static void a_tree_of_six_is_as_drawn(void **state)
{
    /*  0 - 1
     *  0 - 2 - 3
     *  0 - 4 - 5  */
    (void)state;
    assert_int_equal(tt_tree_child(0, 6, 0), 1);
    assert_int_equal(tt_tree_child(0, 6, 1), 2);
    assert_int_equal(tt_tree_child(0, 6, 2), 4);
    assert_int_equal(tt_tree_child(0, 6, 3), 0);
    assert_int_equal(tt_tree_child(1, 6, 0), 0);
    assert_int_equal(tt_tree_child(2, 6, 0), 3);
    assert_int_equal(tt_tree_child(2, 6, 1), 0);
    assert_int_equal(tt_tree_child(4, 6, 0), 5);
    assert_int_equal(tt_tree_child(4, 6, 1), 0); /* would be 6 */
    assert_int_equal(tt_tree_toward(0, 5), 4);
    assert_int_equal(tt_tree_toward(4, 5), 5);
}

static void vertices_near_the_largest_number_do_not_overflow(void **state)
{
    (void)state;
    assert_int_equal(tt_tree_child(0, 0xFFFFFFFF, 31), 0x80000000);
    assert_int_equal(tt_tree_child(0x80000000, 0xFFFFFFFF, 31), 0);
    assert_int_equal(tt_tree_child(0x80000000, 0xFFFFFFFF, 30), 0xC0000000);
    assert_int_equal(tt_tree_child(0xFFFFFFFE, 0xFFFFFFFF, 0), 0); /* would be the size itself */
    assert_int_equal(tt_tree_toward(0, 0xFFFFFFFE), 0x80000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(depth_is_at_most_the_logarithm_rounded_up),
        cmocka_unit_test(every_vertex_is_the_child_of_its_parent_and_of_nobody_else),
        cmocka_unit_test(children_are_numbered_without_gaps),
        cmocka_unit_test(reports_go_up_a_tree_of_neighbours_and_from_all_at_once_in_small_groups),
        cmocka_unit_test(every_edge_is_an_edge_of_the_dissemination_pattern_whatever_the_root),
        cmocka_unit_test(the_way_down_visits_the_targets_ancestors),
        cmocka_unit_test(a_tree_of_six_is_as_drawn),
        cmocka_unit_test(vertices_near_the_largest_number_do_not_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
