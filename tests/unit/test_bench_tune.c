/* SPDX-License-Identifier: BSD-3-Clause */
/* From measured times to the rows of a table. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cli/bench_tune.h"

static struct tt_tune_sample sample(enum tt_collective_kind kind, uint64_t bytes, double ring, double multicast,
                                    double eager, double tree)
{
    return (struct tt_tune_sample){.kind = kind,
                                   .size_bytes = bytes,
                                   .slowest_ns = {[TT_METHOD_RING] = ring,
                                                  [TT_METHOD_MULTICAST] = multicast,
                                                  [TT_METHOD_EAGER] = eager,
                                                  [TT_METHOD_TREE] = tree}};
}

static void the_fastest_is_best_where_nothing_was_before(void **state)
{
    struct tt_tune_sample all = sample(TT_BROADCAST, 8, 400, 300, 100, 99);

    (void)state;
    assert_int_equal(tt_tune_best(&all, true, TT_METHOD_COUNT, 1.05), TT_METHOD_TREE);
    all.slowest_ns[TT_METHOD_TREE] = 0; /* cannot serve it */
    assert_int_equal(tt_tune_best(&all, true, TT_METHOD_COUNT, 1.05), TT_METHOD_EAGER);
    assert_int_equal(tt_tune_best(&all, false, TT_METHOD_COUNT, 1.05), TT_METHOD_RING);
    all = sample(TT_BROADCAST, 8, 0, 0, 0, 0);
    assert_int_equal(tt_tune_best(&all, true, TT_METHOD_COUNT, 1.05), TT_METHOD_COUNT);
}

/* It is multicast, too. */
static void gathering_counts_where_multicast_gets_through(void **state)
{
    struct tt_tune_sample all = sample(TT_ALLGATHER, 8, 400, 300, 100, 0);

    (void)state;
    all.slowest_ns[TT_METHOD_GATHER] = 99;
    assert_int_equal(tt_tune_best(&all, true, TT_METHOD_COUNT, 1.05), TT_METHOD_GATHER);
    assert_int_equal(tt_tune_best(&all, false, TT_METHOD_COUNT, 1.05), TT_METHOD_RING);
    assert_int_equal(tt_tune_best(&all, true, TT_METHOD_EAGER, 1.05), TT_METHOD_EAGER);
}

static void what_served_the_smaller_size_goes_on_within_5_percent(void **state)
{
    struct tt_tune_sample near = sample(TT_BROADCAST, 8, 400, 105, 100, 0);
    struct tt_tune_sample far = sample(TT_BROADCAST, 8, 400, 106, 100, 0);

    (void)state;
    assert_int_equal(tt_tune_best(&near, true, TT_METHOD_MULTICAST, 1.05), TT_METHOD_MULTICAST);
    assert_int_equal(tt_tune_best(&far, true, TT_METHOD_MULTICAST, 1.05), TT_METHOD_EAGER);
    assert_int_equal(tt_tune_best(&near, true, TT_METHOD_TREE, 1.05), TT_METHOD_EAGER);
}

static void rows_begin_where_the_best_changes_for_both_networks(void **state)
{
    struct tt_tune_sample samples[] = {
        sample(TT_BROADCAST, 1, 400, 300, 100, 150),   sample(TT_BROADCAST, 1024, 400, 300, 100, 390),
        sample(TT_BROADCAST, 65536, 400, 300, 0, 600), sample(TT_BROADCAST, 1 << 20, 4000, 5000, 0, 0),
        sample(TT_ALLGATHER, 1, 800, 500, 200, 0),     sample(TT_ALLGATHER, 1024, 800, 500, 200, 0),
    };
    static const struct tt_choice_row expected[] = {
        {.kind = TT_BROADCAST, .multicast = 1, .method = TT_METHOD_EAGER, .ranks = 5, .from_bytes = 0},
        {.kind = TT_BROADCAST, .multicast = 1, .method = TT_METHOD_MULTICAST, .ranks = 5, .from_bytes = 65536},
        {.kind = TT_BROADCAST, .multicast = 1, .method = TT_METHOD_RING, .ranks = 5, .from_bytes = 1 << 20},
        {.kind = TT_ALLGATHER, .multicast = 1, .method = TT_METHOD_GATHER, .ranks = 5, .from_bytes = 0},
        {.kind = TT_ALLGATHER, .multicast = 1, .method = TT_METHOD_EAGER, .ranks = 5, .from_bytes = 1024},
        {.kind = TT_BROADCAST, .multicast = 0, .method = TT_METHOD_TREE, .ranks = 5, .from_bytes = 0},
        {.kind = TT_BROADCAST, .multicast = 0, .method = TT_METHOD_RING, .ranks = 5, .from_bytes = 65536},
        {.kind = TT_ALLGATHER, .multicast = 0, .method = TT_METHOD_RING, .ranks = 5, .from_bytes = 0},
    };
    struct tt_choice choice;

    (void)state;
    samples[4].slowest_ns[TT_METHOD_GATHER] = 120;
    samples[5].slowest_ns[TT_METHOD_GATHER] = 220;
    tt_tune_rows(samples, 6, 5, true, &choice);
    assert_int_equal(choice.row_count, 8);
    assert_memory_equal(choice.rows, expected, sizeof expected);
    assert_true(tt_choice_is_sound(&choice));
    tt_tune_rows(samples, 6, 5, false, &choice);
    assert_int_equal(choice.row_count, 3);
    assert_memory_equal(choice.rows, &expected[5], 3 * sizeof expected[0]);
}

/* What is built in for the other kinds has its rows there, too. */
static void differences_make_no_rows_where_there_would_be_too_many(void **state)
{
    struct tt_tune_sample samples[TT_CHOICE_MAX_ROWS];
    struct tt_choice choice, whole;

    (void)state;
    for (uint32_t i = 0; i < TT_CHOICE_MAX_ROWS; i++) {
        double slower = i < 8 ? 300 : 110; /* the other one is better by much at the first ones only */

        samples[i] = sample(TT_BROADCAST, i + 1, 400, i % 2 == 0 ? 100 : slower, i % 2 == 0 ? slower : 100, 0);
    }
    tt_tune_rows(samples, TT_CHOICE_MAX_ROWS, 5, true, &choice);
    assert_in_range(choice.row_count, 8, 10);
    whole = choice;
    assert_true(tt_choice_complete(&whole));
    assert_int_equal(choice.rows[7].from_bytes, 8);
    assert_true(tt_choice_is_sound(&choice));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_fastest_is_best_where_nothing_was_before),
        cmocka_unit_test(gathering_counts_where_multicast_gets_through),
        cmocka_unit_test(what_served_the_smaller_size_goes_on_within_5_percent),
        cmocka_unit_test(rows_begin_where_the_best_changes_for_both_networks),
        cmocka_unit_test(differences_make_no_rows_where_there_would_be_too_many),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
