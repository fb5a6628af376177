/* SPDX-License-Identifier: BSD-3-Clause */
/* When a tail that TCP may have lost is probed for (fabric/session/tail.h). Times are literal, and no clock shows them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/clock.h"
#include "fabric/session/tail.h"

#define MS TT_NS_PER_MS

static struct tt_tails tails;
static struct tt_tail one, two;

static int forget_all(void **state)
{
    (void)state;
    tt_tails_init(&tails, false);
    one = two = (struct tt_tail){0};
    return 0;
}

/* No probe is due at this time, and the next one is at the other. */
static void assert_waits(uint64_t now_ns, uint64_t due_ns)
{
    assert_null(tt_tails_due(&tails, now_ns));
    assert_true(tt_tails_due_ns(&tails) == due_ns);
}

static void
first_probe_is_due_2_ms_after_the_look_that_follows_what_was_sent_and_each_further_one_twice_as_late(void **state)
{
    (void)state;
    assert_waits(999 * MS, TT_NEVER);
    tt_tail_sent(&tails, &one);
    assert_waits(1000 * MS, 1002 * MS);
    assert_waits(1002 * MS - 1, 1002 * MS);
    assert_ptr_equal(tt_tails_due(&tails, 1002 * MS), &one);
    static const uint64_t due_ms[] = {1006, 1014, 1030, 1062};
    for (size_t i = 0; i < sizeof(due_ms) / sizeof(due_ms[0]); i++) {
        assert_waits(due_ms[i] * MS - 1, due_ms[i] * MS);
        assert_ptr_equal(tt_tails_due(&tails, due_ms[i] * MS), &one);
    }
    assert_waits(1062 * MS, TT_NEVER);
    assert_waits(99999 * MS, TT_NEVER);
}

static void late_look_delays_the_second_probe_as_well(void **state)
{
    (void)state;
    tt_tail_sent(&tails, &one);
    assert_waits(1000 * MS, 1002 * MS);
    assert_ptr_equal(tt_tails_due(&tails, 1300 * MS), &one);
    assert_waits(1300 * MS, 1304 * MS);
}

static void what_is_sent_meanwhile_begins_it_anew(void **state)
{
    (void)state;
    tt_tail_sent(&tails, &one);
    assert_waits(1000 * MS, 1002 * MS);
    tt_tail_sent(&tails, &one);
    tt_tail_sent(&tails, &one);
    assert_waits(1001 * MS, 1003 * MS);
    assert_ptr_equal(tt_tails_due(&tails, 1003 * MS), &one);
    tt_tail_sent(&tails, &one);
    assert_waits(1010 * MS, 1012 * MS);
}

static void connections_are_due_in_the_order_in_which_they_fell_silent(void **state)
{
    (void)state;
    tt_tail_sent(&tails, &one);
    assert_waits(1000 * MS, 1002 * MS);
    tt_tail_sent(&tails, &two);
    assert_waits(1001 * MS, 1002 * MS);
    assert_ptr_equal(tt_tails_due(&tails, 1002 * MS), &one);
    assert_waits(1002 * MS, 1003 * MS);
    tt_tail_sent(&tails, &one);
    assert_waits(1002 * MS, 1003 * MS);
    assert_ptr_equal(tt_tails_due(&tails, 1004 * MS), &two);
    assert_ptr_equal(tt_tails_due(&tails, 1004 * MS), &one);
    assert_waits(1004 * MS, 1008 * MS);
}

static void connection_that_is_over_gets_no_probe(void **state)
{
    (void)state;
    tt_tail_forget(&tails, &one);
    tt_tail_sent(&tails, &one);
    tt_tail_forget(&tails, &one);
    assert_waits(1000 * MS, TT_NEVER);
    tt_tail_sent(&tails, &one);
    tt_tail_sent(&tails, &two);
    assert_waits(1000 * MS, 1002 * MS);
    tt_tail_forget(&tails, &one);
    assert_ptr_equal(tt_tails_due(&tails, 1002 * MS), &two);
    tt_tail_forget(&tails, &two);
    assert_waits(1002 * MS, TT_NEVER);
}

static void where_nothing_was_lost_for_ten_seconds_the_first_two_are_left_out(void **state)
{
    (void)state;
    tt_tails_init(&tails, true);
    tt_tail_sent(&tails, &one);
    assert_waits(1000 * MS, 1008 * MS);
    static const uint64_t due_ms[] = {1008, 1024, 1056};
    for (size_t i = 0; i < sizeof(due_ms) / sizeof(due_ms[0]); i++) {
        assert_waits(due_ms[i] * MS - 1, due_ms[i] * MS);
        assert_ptr_equal(tt_tails_due(&tails, due_ms[i] * MS), &one);
    }
    assert_waits(1056 * MS, TT_NEVER);
    assert_true(tt_tails_lost(&tails, 2000 * MS)); /* which is news */
    assert_false(tt_tails_lost(&tails, 3000 * MS));
    tt_tail_sent(&tails, &one);
    assert_waits(13000 * MS - 1, 13002 * MS - 1);
    tt_tail_sent(&tails, &one);
    assert_waits(13000 * MS, 13008 * MS);
    assert_true(tt_tails_lost(&tails, 13000 * MS));
    assert_waits(13000 * MS, 13008 * MS); /* as it was given */
    tt_tail_sent(&tails, &one);
    assert_waits(13001 * MS, 13003 * MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(
            first_probe_is_due_2_ms_after_the_look_that_follows_what_was_sent_and_each_further_one_twice_as_late,
            forget_all),
        cmocka_unit_test_setup(late_look_delays_the_second_probe_as_well, forget_all),
        cmocka_unit_test_setup(what_is_sent_meanwhile_begins_it_anew, forget_all),
        cmocka_unit_test_setup(connections_are_due_in_the_order_in_which_they_fell_silent, forget_all),
        cmocka_unit_test_setup(connection_that_is_over_gets_no_probe, forget_all),
        cmocka_unit_test_setup(where_nothing_was_lost_for_ten_seconds_the_first_two_are_left_out, forget_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
