/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A p2p provider with two instances in one process: what the contract's own tests (tests/conformance) do not ask for,
 * as it is a matter of sockets, of time or of amounts. How connections end is in test_pair_ends.c, what needs processes
 * that die or stop in test_pair_processes.c, what is a provider's own in test_tcp*.c and test_ucx*.c.
 */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "pair_fixture.h"

enum { KEEP_EVENTS = 64 };

/* --- Frames ----------------------------------------------------------------------------------------------------- */

static void frames_to_a_peer_that_does_not_drain_are_queued_and_keep_their_order(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 30000; i++) { /* 15 MB: more than the sockets hold */
        pair_send(&pair_sides[A], i);
    }
    assert_true(pair_reaches(&pair_sides[B].frames, 30000));
    assert_false(pair_sides[B].order_broken);
    struct tt_p2p_counters sent, received;
    pair_sides[A].p2p->ops->counters(pair_sides[A].p2p, &sent);
    pair_sides[B].p2p->ops->counters(pair_sides[B].p2p, &received);
    assert_int_equal(sent.frames_sent, 30000);
    assert_int_equal(received.frames_received, 30000);
    assert_int_equal(sent.bytes_sent, received.bytes_received);
}

static void frames_of_one_progress_stay_valid_together(void **state)
{
    (void)state;
    struct tt_p2p_event events[KEEP_EVENTS];
    uint32_t count = 0;
    uint64_t deadline_ns = tt_clock_now_ns() + 20 * TT_NS_PER_S;
    for (uint32_t i = 0; i < 50; i++) {
        pair_send(&pair_sides[A], i);
    }
    while (count == 0 && tt_clock_now_ns() < deadline_ns) {
        pair_turn(&pair_sides[A]);
        count = pair_sides[B].p2p->ops->progress(pair_sides[B].p2p, events, KEEP_EVENTS);
    }
    for (uint32_t i = 50; i < 150; i++) { /* must not disturb what B holds */
        pair_send(&pair_sides[A], i);
        pair_turn(&pair_sides[A]);
    }
    for (uint32_t i = 0; i < count; i++) {
        pair_see(&pair_sides[B], &events[i]);
    }
    assert_true(pair_reaches(&pair_sides[B].frames, 150));
    assert_false(pair_sides[B].order_broken);
}

static void events_that_do_not_fit_come_with_the_next_progress(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 10; i++) {
        pair_send(&pair_sides[A], i);
    }
    uint64_t deadline_ns = tt_clock_now_ns() + 20 * TT_NS_PER_S;
    struct tt_p2p_event event;
    while (pair_sides[B].frames < 10 && tt_clock_now_ns() < deadline_ns) {
        pair_turn(&pair_sides[A]);
        if (pair_sides[B].p2p->ops->progress(pair_sides[B].p2p, &event, 1) == 1) {
            pair_see(&pair_sides[B], &event);
        }
        if (pair_sides[B].frames > 0 && pair_sides[B].frames < 10) {
            struct tt_p2p *p2p = pair_sides[B].p2p;
            /* Either more is here already, which must forbid sleeping, or it is still under way. */
            if (p2p->ops->arm(p2p)) {
                struct pollfd wait = {.fd = p2p->ops->fd(p2p), .events = POLLIN};
                assert_int_equal(poll(&wait, 1, 2000), 1);
            }
        }
    }
    assert_int_equal(pair_sides[B].frames, 10);
    assert_false(pair_sides[B].order_broken);
}

static void sleeper_is_left_alone_until_a_frame_wakes_it(void **state)
{
    (void)state;
    struct tt_p2p *p2p = pair_sides[B].p2p;
    struct pollfd wait = {.fd = p2p->ops->fd(p2p), .events = POLLIN};
    int woken;
    /* A connection that is being made may wake it; then it is quiet. */
    for (int i = 0; i < 20; i++) {
        pair_turn_for(50 * TT_NS_PER_MS);
        while (!p2p->ops->arm(p2p)) {
            pair_turn(&pair_sides[B]);
        }
        woken = poll(&wait, 1, 100);
        if (woken == 0) {
            break;
        }
    }
    assert_int_equal(woken, 0);
    pair_send(&pair_sides[A], 0);
    pair_turn(&pair_sides[A]);
    assert_int_equal(poll(&wait, 1, 2000), 1);
    assert_true(pair_reaches(&pair_sides[B].frames, 1));
    struct tt_p2p_counters counters;
    p2p->ops->counters(p2p, &counters);
    assert_true(counters.wakeups >= 1);
}

/* --- One-sided -------------------------------------------------------------------------------------------------- */

static void put_of_nothing_needs_no_memory(void **state)
{
    (void)state;
    struct tt_p2p_peer *peer = pair_sides[A].peer;
    assert_int_equal(peer->ops->put(peer, NULL, 0, 0, NULL, 0, &(struct tt_p2p_immediate){.value = 42}, 7), TUTTI_OK);
    assert_true(pair_reaches(&pair_sides[B].immediates, 1));
    assert_true(pair_sides[B].last_immediate == 42);
    assert_true(pair_reaches(&pair_sides[A].dones, 1));
    assert_int_equal(pair_sides[A].last_status, TUTTI_OK);
}

static void many_gets_under_many_keys_are_under_way_at_once(void **state)
{
    (void)state;
    enum { REGIONS = 40, REGION_BYTES = 4096 };
    uint8_t *theirs = malloc((size_t)REGIONS * REGION_BYTES), *mine = calloc(REGIONS, REGION_BYTES);
    struct remote remotes[REGIONS];
    for (uint32_t i = 0; i < REGIONS; i++) {
        memset(theirs + (size_t)i * REGION_BYTES, (int)i + 1, REGION_BYTES);
        pair_expose(&pair_sides[B], theirs + (size_t)i * REGION_BYTES, REGION_BYTES, &remotes[i]);
    }
    for (uint32_t round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < REGIONS; i++) {
            struct tt_p2p_peer *peer = pair_sides[A].peer;
            assert_int_equal(peer->ops->get(peer, remotes[i].key, remotes[i].key_bytes,
                                            (uintptr_t)theirs + (uint64_t)i * REGION_BYTES,
                                            mine + (size_t)i * REGION_BYTES, REGION_BYTES, i),
                             TUTTI_OK);
        }
    }
    assert_true(pair_reaches(&pair_sides[A].dones, 3 * REGIONS));
    assert_memory_equal(mine, theirs, (size_t)REGIONS * REGION_BYTES);
    for (uint32_t i = 0; i < REGIONS; i++) {
        pair_sides[B].p2p->ops->memory_release(remotes[i].memory);
    }
    free(theirs);
    free(mine);
}

static void get_that_is_under_way_at_disconnect_is_done_as_canceled(void **state)
{
    (void)state;
    uint8_t theirs[64], mine[64];
    struct remote remote;
    pair_expose(&pair_sides[B], theirs, sizeof(theirs), &remote);
    pair_turn_for(20 * TT_NS_PER_MS);
    struct tt_p2p_peer *peer = pair_sides[A].peer;
    assert_int_equal(peer->ops->get(peer, remote.key, remote.key_bytes, (uintptr_t)theirs, mine, 64, 9), TUTTI_OK);
    pair_leave(&pair_sides[A]); /* B made no progress, so the get cannot have been served */
    uint64_t deadline_ns = tt_clock_now_ns() + 20 * TT_NS_PER_S;
    while (pair_sides[A].dones == 0 && tt_clock_now_ns() < deadline_ns) {
        pair_turn(&pair_sides[A]);
    }
    assert_int_equal(pair_sides[A].dones, 1);
    assert_int_equal(pair_sides[A].last_status, TUTTI_ERR_CANCELED);
    assert_int_equal(pair_sides[A].downs, 0);
    assert_true(pair_reaches(&pair_sides[B].downs, 1));
    pair_sides[B].p2p->ops->memory_release(remote.memory);
}

#define WITH_CONNECTED(name) cmocka_unit_test_setup_teardown(name, pair_make_connected, pair_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_CONNECTED(frames_to_a_peer_that_does_not_drain_are_queued_and_keep_their_order),
        WITH_CONNECTED(frames_of_one_progress_stay_valid_together),
        WITH_CONNECTED(events_that_do_not_fit_come_with_the_next_progress),
        WITH_CONNECTED(sleeper_is_left_alone_until_a_frame_wakes_it),
        WITH_CONNECTED(put_of_nothing_needs_no_memory),
        WITH_CONNECTED(many_gets_under_many_keys_are_under_way_at_once),
        WITH_CONNECTED(get_that_is_under_way_at_disconnect_is_done_as_canceled),
    };
    return pair_run(NULL, "pair", tests, sizeof(tests) / sizeof(tests[0]));
}
