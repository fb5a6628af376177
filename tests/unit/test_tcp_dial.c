/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two live instances of the tcp provider that dial each other, at once or one after the other. Who dials first follows
 * from their addresses, which are random, so the tests ask which one is the lower.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/random.h"
#include "fabric/tcp/instance.h"
#include "pair_fixture.h"

enum { ROUNDS = 200, FRAMES = 5 };

#define LATE_NS (20 * TT_NS_PER_S)

static int lower(void)
{
    return memcmp(pair_sides[A].address, pair_sides[B].address, TT_TCP_ADDRESS_BYTES) < 0 ? A : B;
}

static const struct tt_tcp_peer *peer_of(int side)
{
    return (const struct tt_tcp_peer *)pair_sides[side].peer;
}

static void turn(int side)
{
    pair_turn(&pair_sides[side]);
    tt_session_check((const struct tt_session *)pair_sides[side].p2p);
}

static void leave_both(void)
{
    pair_leave(&pair_sides[A]);
    pair_leave(&pair_sides[B]);
}

static void send_some(int side, uint32_t round)
{
    for (uint32_t i = 0; i < FRAMES; i++) {
        pair_send(&pair_sides[side], round * FRAMES + i);
    }
}

static void expect_frames_both_ways(uint32_t round)
{
    assert_true(pair_reaches(&pair_sides[A].frames, (round + 1) * FRAMES));
    assert_true(pair_reaches(&pair_sides[B].frames, (round + 1) * FRAMES));
    assert_false(pair_sides[A].order_broken || pair_sides[B].order_broken);
    assert_int_equal(pair_sides[A].downs + pair_sides[B].downs, 0);
}

static void two_that_connect_at_once_meet_every_time(void **state)
{
    struct tt_random random;
    uint64_t seed = tt_clock_now_ns(), deadline_ns = seed + LATE_NS;
    (void)state;
    tt_random_init(&random, seed);
    printf("# seed %llu\n", (unsigned long long)seed);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        int first = (int)tt_random_below(&random, 2);
        pair_join(first, 1 - first, 1);
        pair_join(1 - first, first, 2);
        send_some(A, round);
        send_some(B, round);
        while (pair_sides[A].frames < (round + 1) * FRAMES) {
            assert_true(tt_clock_now_ns() < deadline_ns);
            turn((int)tt_random_below(&random, 2));
        }
        expect_frames_both_ways(round);
        leave_both();
    }
    pair_turn_for(20 * TT_NS_PER_MS);
    assert_int_equal(pair_sides[A].downs + pair_sides[B].downs, 0);
}

/* The lower one is held up until the higher one has lost its patience and dials, too. */
static void two_that_have_both_dialed_agree_on_one_socket_every_time(void **state)
{
    struct tt_random random;
    uint64_t seed = tt_clock_now_ns(), deadline_ns = seed + 2 * LATE_NS;
    uint32_t both = 0;
    (void)state;
    tt_random_init(&random, seed);
    printf("# seed %llu\n", (unsigned long long)seed);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        int low = lower(), high = 1 - low;
        pair_join(low, high, 1);
        pair_join(high, low, 2);
        send_some(A, round);
        send_some(B, round);
        while (peer_of(high)->frames.stage == TT_TCP_CLOSED) {
            assert_true(tt_clock_now_ns() < deadline_ns);
            turn(high);
        }
        both += peer_of(low)->frames.stage == TT_TCP_DIALING;
        while (pair_sides[A].frames < (round + 1) * FRAMES || pair_sides[B].frames < (round + 1) * FRAMES) {
            assert_true(tt_clock_now_ns() < deadline_ns);
            turn((int)tt_random_below(&random, 2));
        }
        expect_frames_both_ways(round);
        assert_true(peer_of(low)->dialer != peer_of(high)->dialer);
        leave_both();
    }
    assert_int_equal(both, ROUNDS);
    pair_turn_for(20 * TT_NS_PER_MS);
    assert_int_equal(pair_sides[A].downs + pair_sides[B].downs, 0);
}

/* The other one connects when the connection stands already. */
static void expect_meeting_of_a_late_one(int first)
{
    uint64_t deadline_ns = tt_clock_now_ns() + LATE_NS;
    pair_join(first, 1 - first, 1);
    send_some(first, 0);
    while (peer_of(first)->frames.stage != TT_TCP_OPEN) {
        assert_true(tt_clock_now_ns() < deadline_ns);
        turn(A);
        turn(B);
    }
    assert_true(pair_reaches(&pair_sides[1 - first].frames, FRAMES));
    pair_join(1 - first, first, 2);
    assert_int_equal(peer_of(1 - first)->frames.stage, TT_TCP_OPEN);
    send_some(1 - first, 0);
    expect_frames_both_ways(0);
    assert_true(peer_of(first)->dialer);
}

static void lower_one_that_connects_first_is_met_later(void **state)
{
    (void)state;
    expect_meeting_of_a_late_one(lower());
}

static void higher_one_that_connects_first_is_met_later(void **state)
{
    (void)state;
    expect_meeting_of_a_late_one(1 - lower());
}

/* Thirty milliseconds are more than the higher one's patience. Nobody waits much longer than that. */
static void lower_one_that_connects_thirty_milliseconds_late_is_dialed(void **state)
{
    int low = lower(), high = 1 - low;
    (void)state;
    pair_join(high, low, 1);
    send_some(high, 0);
    pair_turn_for(30 * TT_NS_PER_MS);
    pair_join(low, high, 2);
    send_some(low, 0);
    expect_frames_both_ways(0);
}

#define WITH_TWO(name) cmocka_unit_test_setup_teardown(name, pair_make, pair_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_TWO(two_that_connect_at_once_meet_every_time),
        WITH_TWO(two_that_have_both_dialed_agree_on_one_socket_every_time),
        WITH_TWO(lower_one_that_connects_first_is_met_later),
        WITH_TWO(higher_one_that_connects_first_is_met_later),
        WITH_TWO(lower_one_that_connects_thirty_milliseconds_late_is_dialed),
    };
    return pair_run("tcp", "tcp_dial", tests, sizeof(tests) / sizeof(tests[0]));
}
