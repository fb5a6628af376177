/* SPDX-License-Identifier: BSD-3-Clause */
/* The gather tree, for every number of ranks up to 300 and some beyond. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "neighbours.h"
#include "plan/dissemination.h"
#include "plan/gather.h"

enum { MOST = 300 };

static const uint32_t larger[] = {511, 512, 513, 1000, 1024, 4095, 4096, 65537};

static void for_all_sizes(void (*check)(uint32_t size))
{
    for (uint32_t size = 1; size <= MOST; size++) {
        check(size);
    }
    for (size_t i = 0; i < sizeof larger / sizeof larger[0]; i++) {
        check(larger[i]);
    }
}

/* Walks down from a place; counts how often each vertex is met. Returns how many levels there are below. */
static uint32_t visit(uint32_t size, const struct tt_gather_place *place, uint8_t *met)
{
    uint32_t first = tt_rank_subtract(place->vertex, place->before, size), next = first, levels = 0;
    struct tt_gather_place again, child;

    assert_true(place->vertex < size);
    met[place->vertex]++;
    tt_gather_place(size, place->vertex, &again);
    assert_memory_equal(&again, place, sizeof again);
    assert_true(tt_gather_child_count(size, place) <= TT_GATHER_MAX_CHILDREN);
    for (uint32_t i = 0; i < tt_gather_child_count(size, place); i++) {
        uint32_t below;

        tt_gather_child(size, place, i, &child);
        assert_int_equal(child.parent, place->vertex);
        assert_true(is_neighbour(size, child.vertex, place->vertex));
        below = visit(size, &child, met);
        levels = below + 1 > levels ? below + 1 : levels;
    }
    /* The vertex and its children's runs are its own run, without gaps. */
    for (uint32_t found = 1; found <= place->before + place->after;) {
        uint32_t before = found;

        next = next == place->vertex ? tt_rank_add(next, 1, size) : next;
        for (uint32_t i = 0; i < tt_gather_child_count(size, place); i++) {
            tt_gather_child(size, place, i, &child);
            if (tt_rank_subtract(child.vertex, child.before, size) == next) {
                next = tt_rank_add(child.vertex, child.after + 1, size);
                found += child.before + child.after + 1;
                break;
            }
        }
        assert_true(found > before);
    }
    return levels;
}

static void check_tree(uint32_t size)
{
    uint8_t *met = calloc(size, 1);
    struct tt_gather_place root;
    uint32_t levels;

    assert_non_null(met);
    tt_gather_place(size, 0, &root);
    assert_int_equal(root.vertex, 0);
    assert_int_equal(root.parent, 0);
    assert_int_equal(root.before + root.after + 1, size);
    levels = visit(size, &root, met);
    for (uint32_t vertex = 0; vertex < size; vertex++) {
        assert_int_equal(met[vertex], 1);
    }
    assert_true(levels <= 1 || levels < tt_dissemination_rounds(size));
    free(met);
}

static void every_vertex_is_once_in_the_tree_and_subtrees_are_runs(void **state)
{
    (void)state;
    for_all_sizes(check_tree);
}

static void in_a_small_group_all_are_the_root_s_children(void **state)
{
    struct tt_gather_place place;

    (void)state;
    for (uint32_t vertex = 1; vertex < TT_DISSEMINATION_ALL; vertex++) {
        tt_gather_place(TT_DISSEMINATION_ALL, vertex, &place);
        assert_int_equal(place.parent, 0);
        assert_int_equal(place.before + place.after, 0);
    }
}

static void twenty_vertices_have_two_levels(void **state)
{
    static const struct tt_gather_place known[] = {{0, 0, 9, 10}, {4, 0, 1, 1}, {5, 4, 0, 0},  {8, 0, 2, 2},
                                                   {10, 8, 0, 0}, {6, 8, 0, 0}, {12, 0, 1, 2}, {14, 12, 0, 0},
                                                   {16, 0, 1, 1}, {19, 0, 0, 0}};

    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        struct tt_gather_place place;

        tt_gather_place(20, known[i].vertex, &place);
        assert_memory_equal(&place, &known[i], sizeof place);
    }
}

static void one_vertex_is_alone(void **state)
{
    struct tt_gather_place place;

    (void)state;
    tt_gather_place(1, 0, &place);
    assert_int_equal(place.before + place.after, 0);
    assert_int_equal(tt_gather_child_count(1, &place), 0);
}

static void the_largest_size_does_not_overflow(void **state)
{
    struct tt_gather_place place;
    uint32_t levels = 0, at = 0x2AAAAAAA;

    (void)state;
    for (; at != 0; at = place.parent, levels++) {
        tt_gather_place(UINT32_C(1) << 31, at, &place);
    }
    assert_in_range(levels, 8, 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_vertex_is_once_in_the_tree_and_subtrees_are_runs),
        cmocka_unit_test(in_a_small_group_all_are_the_root_s_children),
        cmocka_unit_test(twenty_vertices_have_two_levels),
        cmocka_unit_test(one_vertex_is_alone),
        cmocka_unit_test(the_largest_size_does_not_overflow),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
