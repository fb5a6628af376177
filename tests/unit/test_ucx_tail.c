/* SPDX-License-Identifier: BSD-3-Clause */
/* When the UCX provider probes for a tail that TCP may have lost, and what a probe is to the other side: nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/clock.h"
#include "fabric/ucx/tail.h"
#include "fabric/ucx/ucx.h"
#include "ucx_fixture.h"

#define MS TT_NS_PER_MS

/* --- When ------------------------------------------------------------------------------------------------------- */

static struct tt_tails tails;
static struct tt_tail one, two;

static int forget_all(void **state)
{
    (void)state;
    tt_tails_init(&tails);
    one = two = (struct tt_tail){0};
    return 0;
}

/* No probe is due at this time, and the next one is at the other. */
static void assert_waits(uint64_t now_ns, uint64_t due_ns)
{
    assert_null(tt_tails_due(&tails, now_ns));
    assert_true(tt_tails_due_ns(&tails) == due_ns);
}

static void first_probe_is_due_2_ms_after_the_look_that_follows_what_was_sent_and_the_second_20_ms_later(void **state)
{
    (void)state;
    assert_waits(999 * MS, TT_NEVER);
    tt_tail_sent(&tails, &one);
    assert_waits(1000 * MS, 1002 * MS);
    assert_waits(1002 * MS - 1, 1002 * MS);
    assert_ptr_equal(tt_tails_due(&tails, 1002 * MS), &one);
    assert_waits(1002 * MS, 1022 * MS);
    assert_ptr_equal(tt_tails_due(&tails, 1022 * MS), &one);
    assert_waits(1022 * MS, TT_NEVER);
    assert_waits(99999 * MS, TT_NEVER);
}

static void late_look_delays_the_second_probe_as_well(void **state)
{
    (void)state;
    tt_tail_sent(&tails, &one);
    assert_waits(1000 * MS, 1002 * MS);
    assert_ptr_equal(tt_tails_due(&tails, 1300 * MS), &one);
    assert_waits(1300 * MS, 1320 * MS);
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
    assert_waits(1004 * MS, 1024 * MS);
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

/* --- Between two instances -------------------------------------------------------------------------------------- */

/* Times that no clock shows: the provider looks at what it is told only. */
static uint64_t tend(int side, uint64_t now_ns)
{
    struct tt_p2p *p2p = pair_sides[side].p2p;
    return p2p->ops->tend(p2p, now_ns);
}

static uint64_t probes_of(int side)
{
    struct tt_p2p_counters counters;
    pair_sides[side].p2p->ops->counters(pair_sides[side].p2p, &counters);
    return counters.probes_sent;
}

/* Both have found each other, and neither has anything due. */
static void fall_silent(void)
{
    pair_send(&pair_sides[A], 0);
    pair_send(&pair_sides[B], 0);
    assert_true(pair_reaches(&pair_sides[A].frames, 1) && pair_reaches(&pair_sides[B].frames, 1));
    pair_turn_for(20 * MS);
    for (int side = A; side <= B; side++) {
        tend(side, 100 * MS);
        tend(side, 200 * MS);
        assert_true(tend(side, 300 * MS) == TT_NEVER);
    }
}

static void frame_is_followed_by_two_probes_which_the_other_side_does_not_see(void **state)
{
    (void)state;
    fall_silent();
    uint64_t before = probes_of(A);
    pair_send(&pair_sides[A], 1);
    assert_true(tend(A, 1000 * MS) == 1002 * MS);
    assert_int_equal(probes_of(A) - before, 0);
    assert_true(tend(A, 1002 * MS) == 1022 * MS);
    assert_int_equal(probes_of(A) - before, 1);
    assert_true(tend(A, 1022 * MS) == TT_NEVER);
    assert_int_equal(probes_of(A) - before, 2);
    pair_send(&pair_sides[A], 2);
    assert_true(pair_reaches(&pair_sides[B].frames, 3));
    pair_turn_for(20 * MS);
    assert_int_equal(pair_sides[B].frames, 3);
    assert_false(pair_sides[B].order_broken);
    struct tt_p2p_counters counters;
    pair_sides[B].p2p->ops->counters(pair_sides[B].p2p, &counters);
    assert_int_equal(counters.frames_received, 3);
    assert_int_equal(counters.frames_dropped, 0);
    assert_true(tend(B, 1022 * MS) == TT_NEVER); /* nobody answers a probe */
}

static void bytes_that_are_read_are_followed_by_probes_from_where_they_are(void **state)
{
    static uint8_t theirs[100000], mine[100000];
    struct remote remote;
    struct tt_p2p_peer *peer = pair_sides[A].peer;
    (void)state;
    fall_silent();
    pair_expose(&pair_sides[B], theirs, sizeof(theirs), &remote);
    assert_int_equal(peer->ops->get(peer, remote.key, remote.key_bytes, (uintptr_t)theirs, mine, sizeof(mine), 1),
                     TUTTI_OK);
    assert_true(pair_reaches(&pair_sides[A].dones, 1));
    assert_true(tend(A, 1000 * MS) == 1002 * MS);
    assert_true(tend(B, 1000 * MS) == 1002 * MS);
    remote.memory->ops->memory_release(remote.memory);
}

static void connection_that_was_closed_is_not_probed(void **state)
{
    (void)state;
    fall_silent();
    pair_send(&pair_sides[A], 1);
    assert_true(tend(A, 1000 * MS) == 1002 * MS);
    pair_leave(&pair_sides[A]);
    assert_true(tend(A, 1002 * MS) == TT_NEVER);
}

static void nothing_is_probed_where_nothing_is_lost(void **state)
{
    const struct tt_ucx_options options = {.interface = "lo", .lossless = true};
    (void)state;
    for (int side = A; side <= B; side++) {
        pair_sides[side].p2p->ops->destroy(pair_sides[side].p2p);
        assert_int_equal(tt_ucx_create(&options, &pair_sides[side].p2p), TUTTI_OK);
        pair_sides[side].address_bytes = sizeof(pair_sides[side].address);
        assert_int_equal(pair_sides[side].p2p->ops->address(pair_sides[side].p2p, pair_sides[side].address,
                                                            &pair_sides[side].address_bytes),
                         TUTTI_OK);
    }
    pair_join(A, B, 1);
    pair_join(B, A, 2);
    pair_send(&pair_sides[A], 0);
    assert_true(tend(A, 1000 * MS) == TT_NEVER);
    assert_true(pair_reaches(&pair_sides[B].frames, 1));
    assert_true(tend(A, 1000 * MS) == TT_NEVER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(
            first_probe_is_due_2_ms_after_the_look_that_follows_what_was_sent_and_the_second_20_ms_later, forget_all),
        cmocka_unit_test_setup(late_look_delays_the_second_probe_as_well, forget_all),
        cmocka_unit_test_setup(what_is_sent_meanwhile_begins_it_anew, forget_all),
        cmocka_unit_test_setup(connections_are_due_in_the_order_in_which_they_fell_silent, forget_all),
        cmocka_unit_test_setup(connection_that_is_over_gets_no_probe, forget_all),
        cmocka_unit_test_setup_teardown(frame_is_followed_by_two_probes_which_the_other_side_does_not_see,
                                        pair_make_connected, pair_end),
        cmocka_unit_test_setup_teardown(bytes_that_are_read_are_followed_by_probes_from_where_they_are,
                                        pair_make_connected, pair_end),
        cmocka_unit_test_setup_teardown(connection_that_was_closed_is_not_probed, pair_make_connected, pair_end),
        cmocka_unit_test_setup_teardown(nothing_is_probed_where_nothing_is_lost, pair_make, pair_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
