/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A p2p provider with two instances in one process: how connections end, what is refused, and what is left of an
 * instance.
 */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/log.h"
#include "pair_fixture.h"
#include "patience.h"

/* --- Leaving ---------------------------------------------------------------------------------------------------- */

static void disconnect_delivers_the_last_frames_and_then_raises_one_peer_down(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 5000; i++) {
        pair_send(&pair_sides[A], i);
    }
    pair_leave(&pair_sides[A]);
    assert_true(pair_reaches(&pair_sides[B].downs, 1));
    assert_int_equal(pair_sides[B].frames_at_down, 5000);
    assert_false(pair_sides[B].order_broken);
    assert_true(pair_sides[B].down_cookie == 200);
    pair_turn_for(50 * TT_NS_PER_MS);
    assert_int_equal(pair_sides[B].downs, 1);
    assert_int_equal(pair_sides[A].downs, 0);
    assert_int_equal(tt_p2p_send(pair_sides[B].peer, "x", 1, false), TUTTI_ERR_PEER_FAILED);
    uint8_t byte;
    assert_int_equal(pair_sides[B].peer->ops->get(pair_sides[B].peer, "k", 1, 1, &byte, 1, 0), TUTTI_ERR_PEER_FAILED);
    assert_int_equal(pair_sides[B].peer->ops->put(pair_sides[B].peer, "k", 1, 1, &byte, 1,
                                                  &(struct tt_p2p_immediate){.value = 0}, 0),
                     TUTTI_ERR_PEER_FAILED);
}

static void destroy_delivers_the_last_frames(void **state)
{
    (void)state;
    pair_exchange();
    for (uint32_t i = 1; i < 100; i++) {
        pair_send(&pair_sides[A], i);
    }
    uint64_t start_ns = tt_clock_now_ns();
    pair_sides[A].p2p->ops->destroy(
        pair_sides[A].p2p); /* B does not answer the goodbye: this takes the full two seconds */
    assert_true(tt_clock_now_ns() - start_ns < 4 * TT_NS_PER_S * TT_PATIENCE);
    pair_sides[A].p2p = NULL;
    pair_sides[A].peer = NULL;
    assert_true(pair_reaches(&pair_sides[B].downs, 1));
    assert_int_equal(pair_sides[B].frames_at_down, 100);
}

static void two_that_leave_at_once_see_no_event_and_do_not_wait(void **state)
{
    (void)state;
    pair_exchange();
    pair_leave(&pair_sides[A]);
    pair_leave(&pair_sides[B]);
    pair_turn_for(50 * TT_NS_PER_MS);
    uint64_t start_ns = tt_clock_now_ns();
    pair_sides[A].p2p->ops->destroy(pair_sides[A].p2p);
    pair_sides[A].p2p = NULL;
    pair_turn_for(10 * TT_NS_PER_MS);
    pair_sides[B].p2p->ops->destroy(pair_sides[B].p2p);
    pair_sides[B].p2p = NULL;
    assert_true(tt_clock_now_ns() - start_ns <
                1800 * TT_NS_PER_MS * TT_PATIENCE); /* who waits, waits for two seconds */
    assert_int_equal(pair_sides[A].downs, 0);
    assert_int_equal(pair_sides[B].downs, 0);
}

static void peer_that_left_before_it_was_connected_is_down_at_once(void **state)
{
    (void)state;
    pair_join(A, B, 1);
    pair_send(&pair_sides[A], 0);
    pair_leave(&pair_sides[A]);
    assert_true(pair_reaches(&pair_sides[B].frames, 1));
    pair_turn_for(20 * TT_NS_PER_MS);
    pair_join(B, A, 77);
    assert_true(pair_reaches(&pair_sides[B].downs, 1));
    assert_true(pair_sides[B].down_cookie == 77);
    pair_turn_for(50 * TT_NS_PER_MS);
    assert_int_equal(pair_sides[B].downs, 1);
}

static void two_connections_of_the_same_instances_end_one_by_one(void **state)
{
    (void)state;
    struct tt_p2p_peer *first_a, *first_b;
    pair_join(A, B, 1);
    pair_join(B, A, 11);
    first_a = pair_sides[A].peer;
    first_b = pair_sides[B].peer;
    pair_join(A, B, 2);
    pair_join(B, A, 22);
    pair_turn_for(20 * TT_NS_PER_MS);
    pair_leave(&pair_sides[A]); /* the second */
    assert_true(pair_reaches(&pair_sides[B].downs, 1));
    assert_true(pair_sides[B].down_cookie == 22);
    pair_leave(&pair_sides[B]);
    pair_sides[A].peer = first_a;
    pair_sides[B].peer = first_b;
    pair_send(&pair_sides[A], 0);
    pair_send(&pair_sides[B], 0);
    assert_true(pair_reaches(&pair_sides[A].frames, 1));
    assert_true(pair_reaches(&pair_sides[B].frames, 1));
    assert_int_equal(pair_sides[B].downs, 1);
    pair_leave(&pair_sides[B]);
    assert_true(pair_reaches(&pair_sides[A].downs, 1));
    assert_true(pair_sides[A].down_cookie == 1);
}

static void instances_can_leave_and_connect_again(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 20; i++) {
        pair_sides[A].next_value = pair_sides[B].next_value = i;
        pair_join(A, B, i);
        pair_join(B, A, i);
        pair_send(&pair_sides[A], i);
        pair_send(&pair_sides[B], i);
        assert_true(pair_reaches(&pair_sides[A].frames, i + 1));
        assert_true(pair_reaches(&pair_sides[B].frames, i + 1));
        pair_leave(&pair_sides[A]);
        pair_leave(&pair_sides[B]);
    }
    pair_turn_for(20 * TT_NS_PER_MS);
    assert_int_equal(pair_sides[A].downs + pair_sides[B].downs, 0);
}

/* --- Arguments, and what the process is left with -------------------------------------------------------------------
 */

static void bad_arguments_are_refused_with_their_value(void **state)
{
    (void)state;
    uint8_t frame[TT_P2P_MAX_FRAME_BYTES + 1] = {0}, small[8];
    struct tt_p2p_peer *peer = pair_sides[A].peer, *none;
    struct tt_p2p *p2p = pair_sides[A].p2p;
    size_t length_bytes = sizeof(small);
    char limit[16];
    assert_int_equal(tt_p2p_send(peer, frame, 0, false), TUTTI_ERR_INVALID_ARGUMENT);
    assert_int_equal(tt_p2p_send(peer, frame, p2p->frame_bytes + 1, false), TUTTI_ERR_INVALID_ARGUMENT);
    snprintf(limit, sizeof(limit), "%u", p2p->frame_bytes + 1);
    assert_non_null(strstr(tt_last_error(), limit));
    assert_int_equal(p2p->ops->address(p2p, small, &length_bytes), TUTTI_ERR_TOO_LARGE);
    assert_int_equal(length_bytes, sizeof(small));
    assert_int_equal(p2p->ops->connect(p2p, frame, TT_P2P_LEAST_FRAME_BYTES, 0, &none), TUTTI_ERR_INVALID_ARGUMENT);
    assert_int_equal(p2p->ops->connect(p2p, pair_sides[B].address, pair_sides[B].address_bytes - 1, 0, &none),
                     TUTTI_ERR_INVALID_ARGUMENT);
    assert_int_equal(p2p->ops->connect(p2p, pair_sides[A].address, pair_sides[A].address_bytes, 0, &none),
                     TUTTI_ERR_INVALID_ARGUMENT);
    assert_int_equal(peer->ops->get(peer, small, 8, 1, small, 0, 0), TUTTI_ERR_INVALID_ARGUMENT);
    assert_int_equal(peer->ops->get(peer, small, TT_P2P_MAX_KEY_BYTES + 1, 1, small, 1, 0), TUTTI_ERR_INVALID_ARGUMENT);
}

static int count_entries(const char *path)
{
    int count = 0;
    DIR *directory = opendir(path);
    assert_non_null(directory);
    while (readdir(directory) != NULL) {
        count++;
    }
    closedir(directory);
    return count;
}

static void nothing_is_left_of_an_instance(void **state)
{
    pair_make_connected(state); /* what is opened once for the process */
    pair_end(state);
    int descriptors = count_entries("/proc/self/fd"), threads = count_entries("/proc/self/task");
    int segments = count_entries("/dev/shm");
    for (int i = 0; i < 5; i++) {
        pair_make_connected(state);
        pair_send(&pair_sides[A], 0);
        assert_true(pair_reaches(&pair_sides[B].frames, 1));
        pair_end(state);
    }
    assert_int_equal(count_entries("/proc/self/fd"), descriptors);
    assert_int_equal(count_entries("/proc/self/task"), threads);
    assert_true(count_entries("/dev/shm") <= segments);
}

#define WITH_TWO(name)       cmocka_unit_test_setup_teardown(name, pair_make, pair_end)
#define WITH_CONNECTED(name) cmocka_unit_test_setup_teardown(name, pair_make_connected, pair_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_left_of_an_instance),
        WITH_CONNECTED(disconnect_delivers_the_last_frames_and_then_raises_one_peer_down),
        WITH_CONNECTED(destroy_delivers_the_last_frames),
        WITH_CONNECTED(two_that_leave_at_once_see_no_event_and_do_not_wait),
        WITH_TWO(peer_that_left_before_it_was_connected_is_down_at_once),
        WITH_TWO(two_connections_of_the_same_instances_end_one_by_one),
        WITH_TWO(instances_can_leave_and_connect_again),
        WITH_CONNECTED(bad_arguments_are_refused_with_their_value),
    };
    return pair_run(NULL, "pair_ends", tests, sizeof(tests) / sizeof(tests[0]));
}
