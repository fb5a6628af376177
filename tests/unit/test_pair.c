/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A p2p provider with two instances in one process: frames and one-sided access. How connections end is in
 * test_pair_ends.c, what needs processes that die or stop in test_pair_processes.c, what is a provider's own in
 * test_tcp*.c and test_ucx*.c.
 */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "pair_fixture.h"

enum { DATA_BYTES = 1 << 20, KEEP_EVENTS = 64 };

/* --- Frames ----------------------------------------------------------------------------------------------------- */

static void frames_arrive_whole_once_and_in_order(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 20000; i++) {
        pair_send(&pair_sides[A], i);
        if (i % 3 == 0) {
            pair_turn(&pair_sides[B]);
        }
    }
    assert_true(pair_reaches(&pair_sides[B].frames, 20000));
    pair_turn_for(10 * TT_NS_PER_MS);
    assert_int_equal(pair_sides[B].frames, 20000);
    assert_false(pair_sides[B].order_broken);
}

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

static void frame_that_was_sent_before_the_other_side_connected_arrives(void **state)
{
    (void)state;
    pair_join(A, B, 1);
    pair_send(&pair_sides[A], 0);
    assert_true(pair_reaches(&pair_sides[B].frames, 1));
    pair_join(B, A, 2);
    pair_send(&pair_sides[B], 0);
    assert_true(pair_reaches(&pair_sides[A].frames, 1));
}

static void frame_data_stays_valid_until_the_next_progress(void **state)
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

static void sleeper_is_woken_by_a_frame(void **state)
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

static void get_reads_and_put_writes_then_raises_the_immediate(void **state)
{
    (void)state;
    static const uint64_t lengths_bytes[] = {1, 7, 1000, 8192, 65537, DATA_BYTES};
    uint8_t *theirs = malloc(DATA_BYTES), *mine = malloc(DATA_BYTES);
    struct remote remote;
    pair_expose(&pair_sides[B], theirs, DATA_BYTES, &remote);
    for (uint32_t i = 0; i < 6; i++) {
        for (uint32_t k = 0; k < DATA_BYTES; k++) {
            theirs[k] = (uint8_t)(k * 7 + i);
        }
        memset(mine, 0, DATA_BYTES);
        uint64_t length_bytes = lengths_bytes[i], offset = DATA_BYTES - length_bytes;
        struct tt_p2p_peer *peer = pair_sides[A].peer;
        assert_int_equal(
            peer->ops->get(peer, remote.key, remote.key_bytes, (uintptr_t)theirs + offset, mine, length_bytes, i),
            TUTTI_OK);
        assert_true(pair_reaches(&pair_sides[A].dones, 2 * i + 1));
        assert_int_equal(pair_sides[A].last_status, TUTTI_OK);
        assert_memory_equal(mine, theirs + offset, length_bytes);
        memset(mine, 0x55 + (int)i, length_bytes);
        assert_int_equal(peer->ops->put(peer, remote.key, remote.key_bytes, (uintptr_t)theirs, mine, length_bytes,
                                        UINT64_C(0xfedcba9876543210) + i, 1000),
                         TUTTI_OK);
        uint64_t deadline_ns = tt_clock_now_ns() + 20 * TT_NS_PER_S;
        while (pair_sides[B].immediates <= i && tt_clock_now_ns() < deadline_ns) {
            pair_turn(&pair_sides[A]);
            pair_turn(&pair_sides[B]);
        }
        assert_int_equal(pair_sides[B].immediates, i + 1);
        assert_true(pair_sides[B].last_immediate == UINT64_C(0xfedcba9876543210) + i);
        assert_memory_equal(mine, theirs, length_bytes);
        assert_true(pair_reaches(&pair_sides[A].dones, 2 * i + 2));
    }
    pair_sides[B].p2p->ops->memory_release(remote.memory);
    free(theirs);
    free(mine);
}

static void put_of_nothing_raises_only_the_immediate(void **state)
{
    (void)state;
    struct tt_p2p_peer *peer = pair_sides[A].peer;
    assert_int_equal(peer->ops->put(peer, NULL, 0, 0, NULL, 0, 42, 7), TUTTI_OK);
    assert_true(pair_reaches(&pair_sides[B].immediates, 1));
    assert_true(pair_sides[B].last_immediate == 42);
    assert_true(pair_reaches(&pair_sides[A].dones, 1));
    assert_int_equal(pair_sides[A].last_status, TUTTI_OK);
}

static void zero_bytes_can_be_registered_and_packed(void **state)
{
    (void)state;
    struct remote remote;
    pair_expose(&pair_sides[A], NULL, 0, &remote);
    pair_sides[A].p2p->ops->memory_release(remote.memory);
    pair_sides[A].p2p->ops->memory_release(NULL);
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

#define WITH_TWO(name)       cmocka_unit_test_setup_teardown(name, pair_make, pair_end)
#define WITH_CONNECTED(name) cmocka_unit_test_setup_teardown(name, pair_make_connected, pair_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_CONNECTED(frames_arrive_whole_once_and_in_order),
        WITH_CONNECTED(frames_to_a_peer_that_does_not_drain_are_queued_and_keep_their_order),
        WITH_TWO(frame_that_was_sent_before_the_other_side_connected_arrives),
        WITH_CONNECTED(frame_data_stays_valid_until_the_next_progress),
        WITH_CONNECTED(events_that_do_not_fit_come_with_the_next_progress),
        WITH_CONNECTED(sleeper_is_woken_by_a_frame),
        WITH_CONNECTED(get_reads_and_put_writes_then_raises_the_immediate),
        WITH_CONNECTED(put_of_nothing_raises_only_the_immediate),
        WITH_TWO(zero_bytes_can_be_registered_and_packed),
        WITH_CONNECTED(many_gets_under_many_keys_are_under_way_at_once),
        WITH_CONNECTED(get_that_is_under_way_at_disconnect_is_done_as_canceled),
    };
    return pair_run(NULL, "pair", tests, sizeof(tests) / sizeof(tests[0]));
}
