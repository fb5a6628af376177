/* SPDX-License-Identifier: BSD-3-Clause */
/* Pulses: how many of what size, and who gets a counter. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/random.h"
#include "offload/pulse.h"

static void pulses_cover_all_elements_and_no_more_are_made_than_needed(void **state)
{
    (void)state;
    for (uint64_t capacity = 1; capacity <= 40; capacity++) {
        for (uint32_t k = 1; k <= capacity; k++) {
            uint64_t each = tt_pulse_elements(capacity, k);

            assert_true(each * k >= capacity && (each - 1) * k < capacity);
            for (uint64_t m = 0; m <= 100; m++) {
                uint64_t count = tt_pulse_count(m, each);

                assert_true(count >= 1 && count * each >= m);
                assert_true(m == 0 || (count - 1) * each < m);
            }
        }
    }
    /* m > C: more than k of them, where the paper's ceil(m / C) would be 3. */
    assert_int_equal(tt_pulse_elements(1000, 4), 250);
    assert_int_equal(tt_pulse_count(2500, 250), 10);
    assert_int_equal(tt_pulse_elements(10, 4), 3);
}

static void capacity_bounds_the_counters_where_it_is_no_multiple(void **state)
{
    struct tt_pulses pulses;

    (void)state;
    tt_pulses_init(&pulses, 10, 4); /* of 3 elements: only three are whole */
    assert_int_equal(pulses.counter_count, 3);
    tt_pulses_init(&pulses, 12, 4);
    assert_int_equal(pulses.counter_count, 4);
    tt_pulses_init(&pulses, 1, 1);
    assert_int_equal(pulses.counter_count, 1);
}

static void second_counters_are_what_all_jobs_leave_over(void **state)
{
    struct tt_pulses pulses;
    uint32_t a, b, c;

    (void)state;
    tt_pulses_init(&pulses, 12, 4);
    assert_true(tt_pulses_admit(&pulses));
    assert_true(tt_pulses_admit(&pulses));
    assert_true(tt_pulses_take(&pulses, 0, 3, &a));
    assert_true(tt_pulses_take(&pulses, 1, 3, &b));
    assert_true(tt_pulses_take(&pulses, 2, 3, &c));
    /* The fourth is the other job's, who may come any time. */
    assert_false(tt_pulses_take(&pulses, 3, 3, &c));
    assert_true(tt_pulses_take(&pulses, 0, 3, &c));
    tt_pulses_check(&pulses);
    assert_int_equal(pulses.elements, 12);
    assert_true(tt_pulses_count(&pulses, 3, a, 3));
    assert_true(tt_pulses_take(&pulses, 1, 2, &a)); /* now it is the other job's second */
    tt_pulses_check(&pulses);
}

static void credit_is_back_when_all_elements_are_counted(void **state)
{
    struct tt_pulses pulses;
    uint32_t counter;

    (void)state;
    tt_pulses_init(&pulses, 8, 1);
    assert_true(tt_pulses_admit(&pulses));
    assert_true(tt_pulses_take(&pulses, 0, 8, &counter));
    assert_false(tt_pulses_admit(&pulses));
    assert_false(tt_pulses_count(&pulses, 1, counter, 5));
    assert_false(tt_pulses_count(&pulses, 1, counter, 2));
    assert_int_equal(pulses.elements, 8);
    assert_true(tt_pulses_count(&pulses, 1, counter, 1));
    assert_int_equal(pulses.elements, 0);
    tt_pulses_dismiss(&pulses);
    tt_pulses_check(&pulses);
    assert_true(tt_pulses_admit(&pulses));
    assert_true(tt_pulses_take(&pulses, 0, 0, &counter)); /* of nothing */
    assert_true(tt_pulses_count(&pulses, 1, counter, 0));
}

static void more_jobs_than_counters_are_not_admitted(void **state)
{
    struct tt_pulses pulses;

    (void)state;
    tt_pulses_init(&pulses, 9, 3);
    for (int i = 0; i < 3; i++) {
        assert_true(tt_pulses_admit(&pulses));
    }
    assert_false(tt_pulses_admit(&pulses));
    tt_pulses_dismiss(&pulses);
    assert_true(tt_pulses_admit(&pulses));
}

/* Whatever jobs do, one that is admitted and holds nothing gets a counter. */
static void who_is_admitted_never_waits_for_others(void **state)
{
    enum { JOBS = 12, COUNTERS = 9 };
    struct tt_pulses pulses;
    struct tt_random random;
    struct {
        bool is_admitted;
        uint32_t held, counters[COUNTERS];
    } jobs[JOBS] = {{0}};
    uint32_t refused = 0, taken = 0;

    (void)state;
    tt_random_init(&random, 1);
    tt_pulses_init(&pulses, 70, COUNTERS);
    for (int i = 0; i < 100000; i++) {
        uint32_t j = (uint32_t)tt_random_below(&random, JOBS), counter;

        if (!jobs[j].is_admitted) {
            jobs[j].is_admitted = tt_pulses_admit(&pulses);
            refused += !jobs[j].is_admitted;
        } else if (tt_random_below(&random, 2) == 0) {
            bool got = tt_pulses_take(&pulses, jobs[j].held, 1 + tt_random_below(&random, 8), &counter);

            assert_true(got || jobs[j].held > 0);
            if (got) {
                taken++;
                jobs[j].counters[jobs[j].held++] = counter;
            }
        } else if (jobs[j].held > 0) {
            counter = jobs[j].counters[jobs[j].held - 1];
            assert_true(tt_pulses_count(&pulses, jobs[j].held, counter,
                                        pulses.counters[counter].elements - pulses.counters[counter].counted));
            jobs[j].held--;
        } else {
            tt_pulses_dismiss(&pulses);
            jobs[j].is_admitted = false;
        }
        tt_pulses_check(&pulses);
    }
    assert_true(refused > 0 && taken > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pulses_cover_all_elements_and_no_more_are_made_than_needed),
        cmocka_unit_test(capacity_bounds_the_counters_where_it_is_no_multiple),
        cmocka_unit_test(second_counters_are_what_all_jobs_leave_over),
        cmocka_unit_test(credit_is_back_when_all_elements_are_counted),
        cmocka_unit_test(more_jobs_than_counters_are_not_admitted),
        cmocka_unit_test(who_is_admitted_never_waits_for_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
