/* SPDX-License-Identifier: BSD-3-Clause */
/* The dissemination pattern, for every number of ranks up to 64 and some beyond. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "plan/dissemination.h"
#include "plan/fold_tree.h"

enum { MOST = 64, ALL = 16 };

static void rounds_are_the_logarithm_rounded_up(void **state)
{
    static const struct {
        uint32_t size, rounds;
    } known[] = {{1, 0},
                 {2, 1},
                 {3, 2},
                 {4, 2},
                 {5, 3},
                 {8, 3},
                 {9, 4},
                 {64, 6},
                 {65, 7},
                 {1U << 20, 20},
                 {(1U << 20) + 1, 21},
                 {1U << 31, 31}};

    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        assert_int_equal(tt_dissemination_rounds(known[i].size), known[i].rounds);
    }
}

static void rank_arithmetic_wraps_around_without_overflow(void **state)
{
    (void)state;
    assert_int_equal(tt_rank_add(4, 3, 5), 2);
    assert_int_equal(tt_rank_subtract(1, 3, 5), 3);
    assert_int_equal(tt_rank_subtract(0, 5, 5), 0);
    assert_int_equal(tt_rank_subtract(2, 1U << 31, 3), 0); /* 2^31 mod 3 is 2 */
    assert_int_equal(tt_rank_add(0xFFFFFFFD, 0xFFFFFFFD, 0xFFFFFFFE), 0xFFFFFFFC);
    assert_int_equal(tt_rank_subtract(0, 1, 0xFFFFFFFE), 0xFFFFFFFD);
}

static void to_and_from_are_each_others_inverse(void **state)
{
    (void)state;
    for (uint32_t size = 1; size <= MOST; size++) {
        for (uint32_t round = 0; round < tt_dissemination_rounds(size); round++) {
            for (uint32_t rank = 0; rank < size; rank++) {
                uint32_t to = tt_dissemination_to(rank, size, round);

                assert_true(to < size);
                assert_int_not_equal(to, rank);
                assert_int_equal(tt_dissemination_from(to, size, round), rank);
            }
        }
    }
}

static void powers_of_two_exchange(void **state)
{
    (void)state;
    for (uint32_t size = 2; size <= MOST; size *= 2) {
        for (uint32_t round = 0; round < tt_dissemination_rounds(size); round++) {
            for (uint32_t rank = 0; rank < size; rank++) {
                uint32_t to = tt_dissemination_to(rank, size, round);

                assert_int_equal(to, rank % (2U << round) < 1U << round ? rank + (1U << round) : rank - (1U << round));
                assert_int_equal(tt_dissemination_from(rank, size, round), to);
            }
        }
    }
}

/* Round by round, what a rank knows becomes the union of that and of what the one knew that it hears from. */
static void everybody_hears_from_everybody_and_not_a_round_earlier(void **state)
{
    (void)state;
    for (uint32_t size = 2; size <= MOST; size++) {
        uint64_t all = size == 64 ? ~UINT64_C(0) : (UINT64_C(1) << size) - 1;
        uint64_t heard[MOST], before[MOST];
        uint32_t rounds = tt_dissemination_rounds(size);

        for (uint32_t rank = 0; rank < size; rank++) {
            heard[rank] = UINT64_C(1) << rank;
        }
        for (uint32_t round = 0; round < rounds; round++) {
            memcpy(before, heard, sizeof before);
            for (uint32_t rank = 0; rank < size; rank++) {
                assert_true(heard[rank] != all);
                heard[rank] |= before[tt_dissemination_from(rank, size, round)];
            }
        }
        for (uint32_t rank = 0; rank < size; rank++) {
            assert_true(heard[rank] == all);
        }
    }
}

static bool contains(const uint32_t *ranks, uint32_t count, uint32_t rank)
{
    for (uint32_t i = 0; i < count; i++) {
        if (ranks[i] == rank) {
            return true;
        }
    }
    return false;
}

static void neighbours_are_distinct_others_and_symmetric(void **state)
{
    uint32_t mine[2 * TT_DISSEMINATION_MAX_ROUNDS], theirs[2 * TT_DISSEMINATION_MAX_ROUNDS];

    (void)state;
    for (uint32_t size = 1; size <= MOST; size++) {
        for (uint32_t rank = 0; rank < size; rank++) {
            uint32_t count = tt_dissemination_neighbours(rank, size, mine);

            assert_true(size <= ALL ? count == size - 1 : count <= 3 * tt_dissemination_rounds(size));
            for (uint32_t i = 0; i < count; i++) {
                assert_true(mine[i] < size && mine[i] != rank);
                assert_false(contains(mine, i, mine[i]));
                assert_true(contains(theirs, tt_dissemination_neighbours(mine[i], size, theirs), rank));
            }
        }
    }
}

static void neighbours_are_all_ranks_at_a_power_of_two_or_next_in_the_tree_and_in_a_small_group_all_others(void **state)
{
    uint32_t ranks[2 * TT_DISSEMINATION_MAX_ROUNDS];

    (void)state;
    assert_int_equal(TT_DISSEMINATION_ALL, ALL);
    for (uint32_t size = 1; size <= MOST; size++) {
        for (uint32_t rank = 0; rank < size; rank++) {
            uint32_t count = tt_dissemination_neighbours(rank, size, ranks), expected = 0;

            for (uint32_t other = 0; other < size; other++) {
                uint32_t up = tt_rank_subtract(other, rank, size), down = tt_rank_subtract(rank, other, size);
                bool near = other != rank && (size <= ALL || (up & (up - 1)) == 0 || (down & (down - 1)) == 0);

                near = near || (other != rank && (tt_fold_tree_parent(size, 0, rank) == other ||
                                                  tt_fold_tree_parent(size, 0, other) == rank));
                expected += near;
                assert_int_equal(contains(ranks, count, other), near);
            }
            assert_int_equal(count, expected);
        }
    }
}

/* Those that a barrier needs come first, whatever the size. */
static void neighbours_of_known_groups_come_in_the_order_of_rounds(void **state)
{
    static const uint32_t of_five[] = {1, 4, 2, 3}, of_eight[] = {4, 2, 5, 1, 7, 6, 0},
                          of_sixteen[] = {1, 15, 2, 14, 4, 12, 8, 3, 5, 6, 7, 9, 10, 11, 13},
                          of_seventeen[] = {1, 16, 2, 15, 4, 13, 8, 9, 3, 5};
    uint32_t ranks[2 * TT_DISSEMINATION_MAX_ROUNDS];

    (void)state;
    assert_int_equal(tt_dissemination_neighbours(0, 1, ranks), 0);
    assert_int_equal(tt_dissemination_neighbours(1, 2, ranks), 1);
    assert_int_equal(ranks[0], 0);
    assert_int_equal(tt_dissemination_neighbours(0, 5, ranks), 4);
    assert_memory_equal(ranks, of_five, sizeof of_five);
    assert_int_equal(tt_dissemination_neighbours(3, 8, ranks), 7);
    assert_memory_equal(ranks, of_eight, sizeof of_eight);
    assert_int_equal(tt_dissemination_neighbours(0, 16, ranks), 15);
    assert_memory_equal(ranks, of_sixteen, sizeof of_sixteen);
    assert_int_equal(tt_dissemination_neighbours(0, 17, ranks), 10);
    assert_memory_equal(ranks, of_seventeen, sizeof of_seventeen);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rounds_are_the_logarithm_rounded_up),
        cmocka_unit_test(rank_arithmetic_wraps_around_without_overflow),
        cmocka_unit_test(to_and_from_are_each_others_inverse),
        cmocka_unit_test(powers_of_two_exchange),
        cmocka_unit_test(everybody_hears_from_everybody_and_not_a_round_earlier),
        cmocka_unit_test(neighbours_are_distinct_others_and_symmetric),
        cmocka_unit_test(
            neighbours_are_all_ranks_at_a_power_of_two_or_next_in_the_tree_and_in_a_small_group_all_others),
        cmocka_unit_test(neighbours_of_known_groups_come_in_the_order_of_rounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
