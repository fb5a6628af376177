/* SPDX-License-Identifier: BSD-3-Clause */
/* Windows behind what others have in the port: when a larger one is tried, and when it stays. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "proto/link.h"

#define MS UINT64_C(1000000)

enum { KIB = 1024, PART_BYTES = 8 * KIB, PORT_KIB = 1024, MBIT = 500 };

static struct tt_link lone;
static uint64_t lone_ns;

static void begin_alone(void)
{
    tt_link_init(&lone, TT_PACER_UNKNOWN);
    tt_link_limit(&lone, 16 * KIB * KIB);
    tt_link_join(&lone);
    lone_ns = MS;
    tt_link_come(&lone, 1, 1, PART_BYTES, lone_ns);
}

/* So many windows come, in parts that are never late, at what a port of PORT_KIB gives them that others keep full:
 * their share of it; or all of what it lets through. */
static void windows_come(uint32_t windows, bool are_alone)
{
    for (uint32_t i = 0; i < windows;) {
        uint64_t taken_ns, wire_ns = PART_BYTES * UINT64_C(8000) / MBIT;
        bool was_idle;

        lone_ns += are_alone ? wire_ns : wire_ns * PORT_KIB * KIB / lone.window_bytes;
        tt_link_come(&lone, 1, 1, PART_BYTES, lone_ns);
        i += tt_link_time_window(&lone, &taken_ns, &was_idle);
        tt_link_check(&lone);
    }
}

static void a_window_that_waits_behind_others_is_raised_until_it_has_its_part(void **state)
{
    (void)state;
    begin_alone();
    windows_come(11, false); /* two tenths of a second tell what it brings */
    assert_int_equal(lone.window_bytes, 256 * KIB);
    windows_come(1, false);
    assert_int_equal(lone.window_bytes, 384 * KIB);
    windows_come(6, false);
    assert_int_equal(lone.window_bytes, 512 * KIB);
    windows_come(1000, false);
    assert_int_equal(lone.window_bytes, 512 * KIB); /* the others keep some of the port, too */
}

/* It is the first that is known of the port: nobody can say that it is slow. */
static void losses_beside_others_do_not_halve_what_was_raised(void **state)
{
    (void)state;
    begin_alone();
    windows_come(14, false);
    assert_int_equal(lone.window_bytes, 384 * KIB);
    tt_link_shrink(&lone); /* on trial */
    assert_int_equal(lone.window_bytes, 384 * KIB);
    windows_come(4, false);
    assert_int_equal(lone.window_bytes, 512 * KIB);
    windows_come(9, false);
    assert_true(lone.excused > 0);
    tt_link_shrink(&lone);
    assert_int_equal(lone.window_bytes, 512 * KIB);
    windows_come(30, true); /* they have left */
    assert_int_equal(lone.excused, 0);
    tt_link_shrink(&lone);
    assert_int_equal(lone.window_bytes, 256 * KIB);
}

/* So many windows come in `taken_ns` each, whatever their size; of each a chunk in two is lost, if it is `lossy`. */
static void alike_windows_come(uint32_t windows, uint64_t taken_ns, bool lossy)
{
    for (uint32_t i = 0; i < windows;) {
        uint32_t chunks = lone.window_bytes / PART_BYTES;
        uint64_t window_ns;
        bool was_idle;

        lone_ns += taken_ns;
        tt_link_come(&lone, chunks, lossy ? chunks / 2 : chunks, (uint64_t)chunks * PART_BYTES, lone_ns);
        if (lossy) {
            tt_link_shrink(&lone);
        }
        i += tt_link_time_window(&lone, &window_ns, &was_idle);
        tt_link_check(&lone);
    }
}

/* All ranks' windows are the limit, and others raise theirs later: nobody's is faster before the last one is. */
static void a_larger_window_that_nothing_is_lost_of_waits_for_those_of_others(void **state)
{
    (void)state;
    begin_alone();
    alike_windows_come(10, 20 * MS, false);
    assert_int_equal(lone.window_bytes, 384 * KIB);
    alike_windows_come(4 * 14, 30 * MS, false); /* no faster than before */
    assert_int_equal(lone.window_bytes, 384 * KIB);
    alike_windows_come(9, 24 * MS, false);
    assert_int_equal(lone.window_bytes, 512 * KIB);
    assert_true(lone.excused > 0);

    begin_alone();
    alike_windows_come(10, 20 * MS, false);
    alike_windows_come(4 * 16, 30 * MS, false); /* nobody does */
    assert_int_equal(lone.window_bytes, 256 * KIB);
    assert_int_equal(lone.excused, 0);
}

/* The flow in the port has lost something at the same moment, and leaves more of it to us for a while. */
static void a_larger_window_has_a_second_chance_after_losses_and_no_third(void **state)
{
    (void)state;
    begin_alone();
    alike_windows_come(10, 20 * MS, false);
    assert_int_equal(lone.window_bytes, 384 * KIB);
    alike_windows_come(4, 30 * MS, true);
    assert_int_equal(lone.window_bytes, 384 * KIB);
    alike_windows_come(5, 20 * MS, false);
    assert_int_equal(lone.window_bytes, 512 * KIB);

    begin_alone();
    alike_windows_come(10, 20 * MS, false);
    alike_windows_come(6, 30 * MS, true);
    assert_int_equal(lone.window_bytes, 384 * KIB);
    alike_windows_come(1, 30 * MS, true);
    assert_int_equal(lone.window_bytes, 256 * KIB);
    assert_int_equal(lone.excused, 0);
    tt_link_shrink(&lone); /* what is found lost now was allowed by the larger one */
    alike_windows_come(2, 20 * MS, false);
    tt_link_shrink(&lone);
    assert_int_equal(lone.window_bytes, 256 * KIB);
    alike_windows_come(1, 20 * MS, false);
    tt_link_shrink(&lone);
    assert_int_equal(lone.window_bytes, 128 * KIB);
}

/* The first chunks that a late process looks at have come at any rate. */
static void what_comes_in_a_moment_is_nothing_to_compare_with(void **state)
{
    (void)state;
    begin_alone();
    alike_windows_come(3, 2 * MS, false);
    tt_link_shrink(&lone);
    assert_int_equal(lone.trial.kbit, 0);
    alike_windows_come(30, 8 * MS, false);
    assert_int_equal(lone.excused, 0);
    assert_true(lone.most_bytes < 256 * KIB);
}

/* What is being lost has made it slower already. */
static void half_of_a_window_is_compared_with_what_came_before_the_losses(void **state)
{
    (void)state;
    begin_alone();
    alike_windows_come(12, 9 * MS, false);
    assert_int_equal(lone.window_bytes, 256 * KIB);
    lone_ns += 80 * MS; /* a moment of great loss */
    alike_windows_come(1, 9 * MS, true);
    assert_int_equal(lone.window_bytes, 128 * KIB);
    alike_windows_come(14, 8 * MS, false);
    assert_int_equal(lone.window_bytes, 256 * KIB);
    assert_int_equal(lone.patience, 256);
    assert_true(lone.excused > 0);
}

static void a_halved_window_that_is_slower_in_a_second_period_gets_its_size_back(void **state)
{
    (void)state;
    begin_alone();
    alike_windows_come(30, 5 * MS, false);
    tt_link_shrink(&lone);
    alike_windows_come(45, 5 * MS / 2, false); /* as fast, as others have lost something, too */
    assert_int_equal(lone.window_bytes, 128 * KIB);
    alike_windows_come(30, 5 * MS, false);
    assert_int_equal(lone.window_bytes, 256 * KIB);
    assert_true(lone.excused > 0);
}

/* One that was halved beside others, and kept, as they had lost something, too. */
static void a_halved_window_is_raised_when_it_takes_6_ms(void **state)
{
    (void)state;
    begin_alone();
    alike_windows_come(30, 5 * MS, false);
    tt_link_shrink(&lone);
    alike_windows_come(100, 5 * MS / 2, false);
    alike_windows_come(100, 5 * MS, false);
    assert_int_equal(lone.window_bytes, 128 * KIB);
    alike_windows_come(200, 7 * MS, false);
    assert_int_equal(lone.window_bytes, 288 * KIB); /* by a half, twice: as large it is to take 12 ms */
}

/* So much of a collective comes at `mbit`, in looks of so many bytes, and is the only one. */
static void a_collective_comes(uint64_t bytes, uint32_t look_bytes, uint32_t mbit)
{
    tt_link_join(&lone);
    lone_ns += MS;
    tt_link_come(&lone, 1, 1, PART_BYTES, lone_ns);
    for (uint64_t come_bytes = PART_BYTES; come_bytes < bytes; come_bytes += look_bytes) {
        uint64_t taken_ns;
        bool was_idle;

        lone_ns += look_bytes * UINT64_C(8000) / mbit;
        tt_link_come(&lone, look_bytes / PART_BYTES, look_bytes / PART_BYTES, look_bytes, lone_ns);
        tt_link_time_window(&lone, &taken_ns, &was_idle);
        tt_link_check(&lone);
    }
    tt_link_leave(&lone);
}

/* A look may find more than a window: here it is three steps of less than half of one. */
static void it_is_the_time_of_a_window_that_counts_however_much_a_look_finds(void **state)
{
    (void)state;
    begin_alone();
    tt_link_leave(&lone);
    a_collective_comes(64 * KIB * KIB, 3 * 120 * KIB, 200); /* 10.5 ms a window */
    assert_int_equal(lone.window_bytes, 256 * KIB);
    a_collective_comes(KIB * KIB, 3 * 120 * KIB, 150); /* 14 ms */
    assert_int_equal(lone.window_bytes, 256 * KIB);
    a_collective_comes(4 * KIB * KIB, 3 * 120 * KIB, 150);
    assert_int_equal(lone.window_bytes, 384 * KIB);
}

static void trials_go_on_though_no_collective_brings_a_window(void **state)
{
    (void)state;
    begin_alone();
    tt_link_leave(&lone);
    a_collective_comes(4 * KIB * KIB, 128 * KIB, 100);
    assert_int_equal(lone.window_bytes, 384 * KIB);
    for (uint32_t i = 0; i < 14 * 6; i++) { /* no more than 4 windows of what is timed in 6 of them */
        assert_int_equal(lone.window_bytes, 384 * KIB);
        a_collective_comes(256 * KIB, 124 * KIB, 100);
    }
    for (uint32_t i = 0; i < 3 * 7; i++) {
        a_collective_comes(256 * KIB, 124 * KIB, 100);
    }
    assert_int_equal(lone.window_bytes, 256 * KIB);
}

/* Half of what would be on its way took so long that roots went on without a report. */
static void on_a_very_slow_link_a_larger_window_is_not_tried_for_long(void **state)
{
    uint32_t larger = 0;

    (void)state;
    begin_alone();
    tt_link_leave(&lone);
    a_collective_comes(64 * KIB * KIB, 128 * KIB, 40); /* 52 ms a window */
    assert_int_equal(lone.window_bytes, 256 * KIB);
    for (uint32_t i = 0; i < 28; i++) {
        a_collective_comes(KIB * KIB, 128 * KIB, 60); /* 35 ms, and 52 if it is larger: one period of six MiB */
        larger += lone.window_bytes == 384 * KIB;
    }
    assert_in_range(larger, 1, 7);
}

/* A group that holds less joins: it is not taken for one that was halved. */
static void a_trial_ends_when_receive_queues_hold_less(void **state)
{
    (void)state;
    begin_alone();
    alike_windows_come(10, 20 * MS, false);
    assert_int_equal(lone.window_bytes, 384 * KIB);
    tt_link_limit(&lone, 208 * KIB);
    assert_int_equal(lone.window_bytes, 208 * KIB);
    assert_int_equal(lone.trial.periods, 0);
    alike_windows_come(20, 40 * MS, false);
    assert_int_equal(lone.excused, 0);
    tt_link_check(&lone);

    begin_alone();
    alike_windows_come(30, 5 * MS, false);
    tt_link_shrink(&lone);
    tt_link_limit(&lone, 512 * KIB); /* that is no limit */
    assert_true(lone.trial.periods > 0);
    tt_link_limit(&lone, 64 * KIB);
    assert_int_equal(lone.trial.periods, 0);
    assert_int_equal(lone.window_bytes, 64 * KIB);
    tt_link_check(&lone);
}

/* A flow that does not mind losses takes all that a large window leaves: then it is lost in vain. */
static void others_are_to_blame_only_while_as_much_comes(void **state)
{
    (void)state;
    begin_alone();
    alike_windows_come(10, 20 * MS, false);
    alike_windows_come(5, 20 * MS, true);
    assert_int_equal(lone.window_bytes, 384 * KIB);
    alike_windows_come(5, 20 * MS, false);
    assert_int_equal(lone.window_bytes, 512 * KIB);
    alike_windows_come(5, 20 * MS, false);
    assert_true(lone.excused > 0);
    tt_link_shrink(&lone);
    assert_int_equal(lone.window_bytes, 512 * KIB);
    alike_windows_come(8, 40 * MS, false);
    assert_int_equal(lone.excused, 0);
    tt_link_shrink(&lone);
    assert_int_equal(lone.window_bytes, 256 * KIB);
}

/* The link is slow, and has nothing but this to carry: a larger window only waits longer. Or is lost, what is more than
 * a port of `port_bytes` holds: windows may come as fast as anybody likes then. Returns for how many of 8,000 windows
 * it was raised. */
static uint32_t raised_in_vain(uint64_t port_bytes)
{
    uint64_t wire_ns = PART_BYTES * UINT64_C(8000) / (MBIT / 5), taken_ns;
    uint32_t raised = 0, windows = 0, part = 0;
    bool was_idle;

    begin_alone();
    while (windows < 8000) {
        bool is_lost = ++part % (lone.window_bytes / PART_BYTES) >= port_bytes / PART_BYTES;

        lone_ns += is_lost ? 0 : wire_ns;
        tt_link_come(&lone, 1, !is_lost, PART_BYTES, lone_ns);
        if (tt_link_time_window(&lone, &taken_ns, &was_idle)) {
            if (lone.window_bytes > port_bytes) {
                tt_link_shrink(&lone);
            }
            windows++;
            raised += lone.window_bytes == 384 * KIB;
            assert_true(lone.window_bytes == 256 * KIB || lone.window_bytes == 384 * KIB);
            tt_link_check(&lone);
        }
    }
    assert_int_equal(lone.excused, 0);
    return raised;
}

static void a_window_that_takes_long_by_itself_is_raised_in_vain(void **state)
{
    (void)state;
    assert_int_equal(raised_in_vain(UINT32_MAX), 9 * 16 * 4); /* behind 2 periods of 5 windows, 4, 8, ... 512 */
    assert_in_range(raised_in_vain(256 * KIB), 9 * 2 * 4, 9 * 2 * 5);
}

static void one_that_takes_less_than_12_ms_is_not_raised(void **state)
{
    (void)state;
    begin_alone();
    windows_come(1000, true);
    assert_int_equal(lone.window_bytes, TT_LINK_WINDOW_BYTES);
}

/* What was in vain is tried again soon when much less comes. */
static void others_that_come_later_are_noticed(void **state)
{
    (void)state;
    begin_alone();
    lone.rest = 4096;
    windows_come(100, true);
    assert_int_equal(lone.window_bytes, TT_LINK_WINDOW_BYTES);
    lone.trial.kbit = MBIT * 1000; /* as it was judged */
    windows_come(40, false);
    assert_int_equal(lone.window_bytes, 512 * KIB);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_window_that_waits_behind_others_is_raised_until_it_has_its_part),
        cmocka_unit_test(losses_beside_others_do_not_halve_what_was_raised),
        cmocka_unit_test(a_larger_window_that_nothing_is_lost_of_waits_for_those_of_others),
        cmocka_unit_test(a_larger_window_has_a_second_chance_after_losses_and_no_third),
        cmocka_unit_test(what_comes_in_a_moment_is_nothing_to_compare_with),
        cmocka_unit_test(half_of_a_window_is_compared_with_what_came_before_the_losses),
        cmocka_unit_test(a_halved_window_that_is_slower_in_a_second_period_gets_its_size_back),
        cmocka_unit_test(a_halved_window_is_raised_when_it_takes_6_ms),
        cmocka_unit_test(it_is_the_time_of_a_window_that_counts_however_much_a_look_finds),
        cmocka_unit_test(trials_go_on_though_no_collective_brings_a_window),
        cmocka_unit_test(on_a_very_slow_link_a_larger_window_is_not_tried_for_long),
        cmocka_unit_test(a_trial_ends_when_receive_queues_hold_less),
        cmocka_unit_test(others_are_to_blame_only_while_as_much_comes),
        cmocka_unit_test(a_window_that_takes_long_by_itself_is_raised_in_vain),
        cmocka_unit_test(one_that_takes_less_than_12_ms_is_not_raised),
        cmocka_unit_test(others_that_come_later_are_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
