/* SPDX-License-Identifier: BSD-3-Clause */
/* A pace: the time that one rank's chunks take of a rate that several roots share. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "proto/pacer.h"

#define US UINT64_C(1000)
#define MS (1000 * US)

static void a_chunk_takes_its_bytes_on_the_wire_of_what_all_roots_share(void **state)
{
    (void)state;
    assert_true(tt_pacer_chunk_ns(TT_PACER_UNKNOWN, 7, 8192) == 0);
    /* 8,192 bytes and 82 are 66,192 bits; of 1,024,000 kbit/s a 128th is left: 1,016,000. */
    assert_true(tt_pacer_chunk_ns(1024000, 1, 8192) == UINT64_C(66192) * 1000000 / 1016000 + 1);
    assert_true(tt_pacer_chunk_ns(1024000, 7, 8192) == UINT64_C(7) * 66192 * 1000000 / 1016000 + 1);
    assert_true(tt_pacer_chunk_ns(0, 1, 8192) == UINT64_C(66192) * 1000000 / 1000 + 1); /* nobody waits for ever */
}

static void without_a_rate_nothing_waits(void **state)
{
    struct tt_pacer pacer = {0};

    (void)state;
    tt_pacer_start(&pacer, 0, 3, 7, 5 * MS);
    assert_true(tt_pacer_due(&pacer, 0, 10) == 0);
    assert_int_equal(tt_pacer_allowed(&pacer, 0, 10, 0), 10);
    tt_pacer_took(&pacer, 0, 10, 5 * MS);
    assert_true(pacer.next_ns == 0);
}

static void chunks_go_one_by_one_where_they_are_far_apart(void **state)
{
    struct tt_pacer pacer = {0};

    (void)state;
    tt_pacer_start(&pacer, MS, 0, 2, 5 * MS);
    assert_int_equal(tt_pacer_allowed(&pacer, MS, 1, 5 * MS), 1);
    tt_pacer_took(&pacer, MS, 1, 5 * MS);
    assert_true(tt_pacer_due(&pacer, MS, 1) == 6 * MS);
    assert_int_equal(tt_pacer_allowed(&pacer, MS, 1, 6 * MS - 1), 0);
    assert_int_equal(tt_pacer_allowed(&pacer, MS, 1, 6 * MS), 1);
    assert_int_equal(tt_pacer_allowed(&pacer, MS, 0, 6 * MS), 0);
}

static void chunks_that_come_in_quick_succession_go_together(void **state)
{
    struct tt_pacer pacer = {0};

    (void)state;
    tt_pacer_start(&pacer, 10 * US, 0, 2, MS);
    assert_true(tt_pacer_due(&pacer, 10 * US, 100) == MS + 50 * US); /* not longer than that */
    assert_true(tt_pacer_due(&pacer, 10 * US, 3) == MS + 20 * US);
    assert_int_equal(tt_pacer_allowed(&pacer, 10 * US, 100, MS + 50 * US - 1), 0);
    assert_int_equal(tt_pacer_allowed(&pacer, 10 * US, 100, MS + 50 * US), 6);
    tt_pacer_took(&pacer, 10 * US, 6, MS + 50 * US);
    assert_true(pacer.next_ns == MS + 60 * US);
}

static void the_first_chunks_of_several_roots_are_spread_over_the_time_of_one(void **state)
{
    (void)state;
    for (uint32_t index = 0; index < 8; index++) {
        struct tt_pacer pacer = {0};

        tt_pacer_start(&pacer, 8 * US, index, 8, MS);
        assert_true(pacer.next_ns == MS + index * US);
    }
}

static void a_root_alone_begins_with_a_burst_if_it_has_rested(void **state)
{
    struct tt_pacer pacer = {0};

    (void)state;
    tt_pacer_start(&pacer, 100 * US, 0, 1, 9 * MS);
    assert_int_equal(tt_pacer_allowed(&pacer, 100 * US, 100, 9 * MS), 21);
    tt_pacer_took(&pacer, 100 * US, 21, 9 * MS);
    tt_pacer_start(&pacer, 100 * US, 0, 1, 9 * MS);
    assert_int_equal(tt_pacer_allowed(&pacer, 100 * US, 100, 9 * MS), 0);
}

/* Transmissions of several collectives keep to the rate together, at once or one after the other. */
static void a_pace_belongs_to_the_rank_and_not_to_a_transmission(void **state)
{
    struct tt_pacer pacer = {0};

    (void)state;
    tt_pacer_start(&pacer, MS, 0, 2, 5 * MS);
    tt_pacer_took(&pacer, MS, 3, 5 * MS);
    tt_pacer_start(&pacer, MS, 0, 2, 6 * MS);
    assert_true(tt_pacer_due(&pacer, MS, 1) == 8 * MS);
}

static void who_is_late_makes_up_for_two_milliseconds_and_no_more(void **state)
{
    struct tt_pacer pacer = {0};

    (void)state;
    tt_pacer_start(&pacer, 100 * US, 0, 2, MS);
    assert_int_equal(tt_pacer_allowed(&pacer, 100 * US, 100, 2 * MS), 11);
    assert_int_equal(tt_pacer_allowed(&pacer, 100 * US, 100, 50 * MS), 21);
    tt_pacer_took(&pacer, 100 * US, 21, 50 * MS);
    assert_true(pacer.next_ns == 50 * MS + 100 * US);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chunk_takes_its_bytes_on_the_wire_of_what_all_roots_share),
        cmocka_unit_test(without_a_rate_nothing_waits),
        cmocka_unit_test(chunks_go_one_by_one_where_they_are_far_apart),
        cmocka_unit_test(chunks_that_come_in_quick_succession_go_together),
        cmocka_unit_test(the_first_chunks_of_several_roots_are_spread_over_the_time_of_one),
        cmocka_unit_test(a_root_alone_begins_with_a_burst_if_it_has_rested),
        cmocka_unit_test(a_pace_belongs_to_the_rank_and_not_to_a_transmission),
        cmocka_unit_test(who_is_late_makes_up_for_two_milliseconds_and_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
