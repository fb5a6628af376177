/* SPDX-License-Identifier: BSD-3-Clause */
/* The p2p contract: how connections end, in order and by failure, and that it concerns nobody else; and batches, which
 * change nothing of all that. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "p2p_bodies.h"
#include "p2p_world.h"

enum { MEGABYTE = 1 << 20 };

static void assert_peer_down(struct p2p_world *world, uint32_t member, uint32_t other)
{
    p2p_await(world, member, TT_P2P_PEER_DOWN, 1);
    assert_int_equal(p2p_record_of(world, member, TT_P2P_PEER_DOWN, 0)->event.peer_cookie, p2p_cookie(member, other));
    assert_int_equal(p2p_record_of(world, member, TT_P2P_PEER_DOWN, 0)->event.status, TUTTI_ERR_PEER_FAILED);
}

static void disconnect_delivers_frames_then_tells_the_other_side_once(void **state)
{
    enum { COUNT = 200 };
    struct p2p_world *world = p2p_begin_connected(state, CONFORMANCE_MEMBERS);
    unsigned char frame[1000];
    for (uint32_t i = 0; i < COUNT; i++) {
        p2p_fill(frame, sizeof(frame), i);
        p2p_send(world, 0, 1, frame, sizeof(frame));
    }
    p2p_disconnect(world, 0, 1);
    assert_peer_down(world, 1, 0);
    p2p_await(world, 1, TT_P2P_FRAME, COUNT);
    for (uint32_t i = 0; i < COUNT; i++) {
        p2p_assert_frame(world, 1, i, sizeof(frame), i);
    }
    p2p_settle(world, P2P_QUIET_NS);
    assert_int_equal(p2p_count(world, 1, TT_P2P_PEER_DOWN), 1);
    assert_int_equal(world->members[0].record_count, 0); /* who disconnects is told nothing */
    assert_int_equal(world->members[2].record_count, 0);

    /* The others are not concerned. */
    p2p_send(world, 0, 2, "hello", 5);
    p2p_send(world, 2, 1, "hello", 5);
    p2p_await(world, 2, TT_P2P_FRAME, 1);
    p2p_await(world, 1, TT_P2P_FRAME, COUNT + 1);
    p2p_end(world);
}

static void when_both_disconnect_nobody_is_told(void **state)
{
    struct p2p_world *world = p2p_begin_connected(state, 2);
    p2p_send(world, 0, 1, "x", 1);
    p2p_await(world, 1, TT_P2P_FRAME, 1);
    p2p_disconnect(world, 0, 1);
    p2p_disconnect(world, 1, 0);
    p2p_settle(world, 2 * P2P_QUIET_NS);
    assert_int_equal(p2p_count(world, 0, TT_P2P_PEER_DOWN), 0);
    assert_int_equal(p2p_count(world, 1, TT_P2P_PEER_DOWN), 0);
    p2p_end(world);
}

static void nothing_starts_to_a_peer_that_has_failed(void **state)
{
    struct p2p_world *world = p2p_begin_connected(state, 2);
    struct p2p_region region = p2p_register(world, 1, 100, 0);
    struct tt_p2p_peer *peer = world->members[0].peers[1];
    unsigned char local[100] = {0};
    p2p_disconnect(world, 1, 0);
    assert_peer_down(world, 0, 1);
    assert_int_equal(tt_p2p_send(peer, "x", 1, false), TUTTI_ERR_PEER_FAILED);
    assert_int_equal(peer->ops->get(peer, region.key, region.key_bytes, (uintptr_t)region.bytes, local, 100, 1),
                     TUTTI_ERR_PEER_FAILED);
    assert_int_equal(peer->ops->put(peer, region.key, region.key_bytes, (uintptr_t)region.bytes, local, 100,
                                    &(struct tt_p2p_immediate){.value = 1}, 2),
                     TUTTI_ERR_PEER_FAILED);
    p2p_settle(world, P2P_QUIET_NS);
    assert_int_equal(p2p_count(world, 0, TT_P2P_DONE), 0);
    assert_int_equal(p2p_count(world, 0, TT_P2P_PEER_DOWN), 1);
    p2p_disconnect(world, 0, 1); /* frees the handle, no more */
    p2p_settle(world, P2P_QUIET_NS);
    assert_int_equal(p2p_count(world, 0, TT_P2P_PEER_DOWN), 1);
    p2p_release(world, &region);
    p2p_end(world);
}

static void get_under_way_to_a_peer_that_goes_completes_once(void **state)
{
    struct p2p_world *world = p2p_begin_connected(state, 2);
    struct p2p_region region = p2p_register(world, 1, 4 * MEGABYTE, 6);
    unsigned char *local = calloc(1, 4 * MEGABYTE);
    assert_non_null(local);
    p2p_get(world, 0, 1, &region, 0, local, 4 * MEGABYTE, 5);
    p2p_disconnect(world, 1, 0);
    assert_peer_down(world, 0, 1);
    p2p_await(world, 0, TT_P2P_DONE, 1);
    const struct tt_p2p_event *done = &p2p_record_of(world, 0, TT_P2P_DONE, 0)->event;
    assert_int_equal(done->cookie, 5);
    if (done->status == TUTTI_OK) { /* it may have been faster than the farewell */
        p2p_assert_pattern(local, 0, 4 * MEGABYTE, 6);
    } else {
        assert_int_equal(done->status, TUTTI_ERR_PEER_FAILED);
    }
    p2p_settle(world, P2P_QUIET_NS);
    assert_int_equal(p2p_count(world, 0, TT_P2P_DONE), 1);
    free(local);
    p2p_release(world, &region);
    p2p_end(world);
}

static void disconnect_ends_what_is_under_way_and_then_leaves_the_memory_alone(void **state)
{
    struct p2p_world *world = p2p_begin_connected(state, 2);
    struct p2p_region region = p2p_register(world, 1, 4 * MEGABYTE, 6);
    unsigned char *local = calloc(2, 4 * MEGABYTE);
    assert_non_null(local);
    p2p_get(world, 0, 1, &region, 0, local, 4 * MEGABYTE, 0);
    p2p_put(world, 0, 1, &region, 0, local + 4 * MEGABYTE, 4 * MEGABYTE, 1, 1);
    for (int i = 0; i < 3; i++) {
        p2p_step(world);
    }
    p2p_disconnect(world, 0, 1);
    p2p_await(world, 0, TT_P2P_DONE, 2);
    for (uint32_t i = 0; i < 2; i++) {
        const struct tt_p2p_event *done = &p2p_record_of(world, 0, TT_P2P_DONE, i)->event;
        assert_in_range(done->cookie, 0, 1);
        assert_true(done->status == TUTTI_OK || done->status == TUTTI_ERR_CANCELED);
    }
    assert_int_not_equal(p2p_record_of(world, 0, TT_P2P_DONE, 0)->event.cookie,
                         p2p_record_of(world, 0, TT_P2P_DONE, 1)->event.cookie);
    memset(local, 0x33, 4 * MEGABYTE);
    p2p_settle(world, P2P_QUIET_NS);
    for (size_t i = 0; i < 4 * MEGABYTE; i++) {
        assert_true(local[i] == 0x33);
    }
    assert_int_equal(p2p_count(world, 0, TT_P2P_PEER_DOWN), 0);
    free(local);
    p2p_release(world, &region);
    p2p_end(world);
}

static void disconnected_members_can_connect_again(void **state)
{
    struct p2p_world *world = p2p_begin_connected(state, 2);
    for (uint32_t i = 0; i < 3; i++) {
        p2p_send(world, 0, 1, "x", 1);
        p2p_await(world, 1, TT_P2P_FRAME, i + 1);
        p2p_disconnect(world, 0, 1);
        p2p_await(world, 1, TT_P2P_PEER_DOWN, i + 1);
        p2p_disconnect(world, 1, 0);
        p2p_connect(world, 0, 1);
        p2p_connect(world, 1, 0);
    }
    p2p_send(world, 0, 1, "again", 5);
    p2p_send(world, 1, 0, "again", 5);
    p2p_await(world, 1, TT_P2P_FRAME, 4);
    p2p_await(world, 0, TT_P2P_FRAME, 1);
    p2p_settle(world, P2P_QUIET_NS);
    assert_int_equal(p2p_count(world, 0, TT_P2P_PEER_DOWN), 0);
    assert_int_equal(p2p_count(world, 1, TT_P2P_PEER_DOWN), 3);
    p2p_end(world);
}

static void connecting_to_a_side_that_has_left_ends_in_peer_down(void **state)
{
    struct p2p_world *world = p2p_begin(state, 2);
    p2p_connect(world, 0, 1);
    p2p_send(world, 0, 1, "x", 1);
    p2p_await(world, 1, TT_P2P_FRAME, 1);
    p2p_disconnect(world, 0, 1);
    p2p_settle(world, P2P_QUIET_NS);
    p2p_connect(world, 1, 0);
    assert_peer_down(world, 1, 0);
    p2p_settle(world, P2P_QUIET_NS);
    assert_int_equal(p2p_count(world, 1, TT_P2P_PEER_DOWN), 1);
    p2p_end(world);
}

static void each_of_two_connections_of_a_pair_ends_for_itself(void **state)
{
    struct p2p_world *world = p2p_begin_connected(state, 2);
    struct tt_p2p *p2p[2] = {world->members[0].p2p, world->members[1].p2p};
    struct tt_p2p_peer *second[2];
    for (uint32_t i = 0; i < 2; i++) {
        unsigned char address[TT_P2P_MAX_ADDRESS_BYTES];
        size_t length_bytes = sizeof(address);
        assert_int_equal(p2p[1 - i]->ops->address(p2p[1 - i], address, &length_bytes), TUTTI_OK);
        assert_int_equal(p2p[i]->ops->connect(p2p[i], address, length_bytes, 4711 + i, &second[i]), TUTTI_OK);
    }
    p2p_settle(world, P2P_QUIET_NS);
    p2p_disconnect(world, 0, 1); /* the first one */
    assert_peer_down(world, 1, 0);
    assert_int_equal(tt_p2p_send(second[0], "a", 1, false), TUTTI_OK);
    assert_int_equal(tt_p2p_send(second[1], "b", 1, false), TUTTI_OK);
    p2p_await(world, 0, TT_P2P_FRAME, 1);
    p2p_await(world, 1, TT_P2P_FRAME, 1);
    for (uint32_t i = 0; i < 2; i++) {
        assert_true(p2p_record_of(world, i, TT_P2P_FRAME, 0)->event.peer_cookie == 4711 + i); /* not a gone one's */
    }
    second[1]->ops->disconnect(second[1]);
    p2p_await(world, 0, TT_P2P_PEER_DOWN, 1);
    assert_int_equal(p2p_record_of(world, 0, TT_P2P_PEER_DOWN, 0)->event.peer_cookie, 4711);
    second[0]->ops->disconnect(second[0]);
    p2p_settle(world, P2P_QUIET_NS);
    assert_int_equal(p2p_count(world, 1, TT_P2P_PEER_DOWN), 1);
    p2p_end(world);
}

/* Until each connection of the member has carried a frame both ways: UCX 1.13 ends the process where a peer leaves
 * while its connection is made, as a destroy does that waits two seconds for peers that stand still. */
static void await_connections_of(struct p2p_world *world, uint32_t member)
{
    for (uint32_t i = 0; i < CONFORMANCE_MEMBERS; i++) {
        if (i != member) {
            p2p_send(world, i, member, "up", 2);
            p2p_send(world, member, i, "up", 2);
        }
    }
    for (uint32_t i = 0; i < CONFORMANCE_MEMBERS; i++) {
        p2p_await(world, i, TT_P2P_FRAME, i == member ? CONFORMANCE_MEMBERS - 1 : 1);
    }
}

static void destroy_with_peers_left_delivers_frames_and_tells_them(void **state)
{
    struct p2p_world *world = p2p_begin_connected(state, CONFORMANCE_MEMBERS);
    await_connections_of(world, 0);
    p2p_destroy(world, 0);
    for (uint32_t i = 1; i < CONFORMANCE_MEMBERS; i++) {
        assert_peer_down(world, i, 0);
        p2p_send(world, i, i % 3 + 1, "alive", 5);
    }
    for (uint32_t i = 1; i < CONFORMANCE_MEMBERS; i++) {
        p2p_await(world, i, TT_P2P_FRAME, 2);
    }
    p2p_settle(world, P2P_QUIET_NS);
    for (uint32_t i = 1; i < CONFORMANCE_MEMBERS; i++) {
        assert_int_equal(p2p_count(world, i, TT_P2P_PEER_DOWN), 1);
    }
    p2p_end(world);
}

static void killed_member_is_noticed_within_two_seconds_by_idle_peers(void **state)
{
    struct p2p_world *world = p2p_begin_connected(state, CONFORMANCE_MEMBERS);
    struct p2p_region region = p2p_register(world, 2, 4 * MEGABYTE, 0);
    struct p2p_region inbound = p2p_register(world, 0, 100, 0);
    unsigned char *local = calloc(1, 4 * MEGABYTE);
    assert_non_null(local);
    p2p_get(world, 0, 2, &region, 0, local, 4 * MEGABYTE, 1);
    p2p_put(world, 0, 2, &region, 0, local, 100000, 9, 2);
    world->fixture->kill(world->world, 2);
    world->members[2].is_idle = true;
    const uint64_t killed_ns = world->fixture->now_ns(world->world);
    for (uint32_t i = 0; i < CONFORMANCE_MEMBERS; i++) {
        if (i != 2) {
            assert_peer_down(world, i, 2);
        }
    }
    assert_true(world->fixture->now_ns(world->world) - killed_ns <= 2 * TT_NS_PER_S);
    p2p_await(world, 0, TT_P2P_DONE, 2);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(p2p_record_of(world, 0, TT_P2P_DONE, i)->event.status, TUTTI_ERR_PEER_FAILED);
    }
    struct tt_p2p_peer *peer = world->members[1].peers[2];
    assert_int_equal(tt_p2p_send(peer, "x", 1, false), TUTTI_ERR_PEER_FAILED);
    p2p_settle(world, 3 * TT_NS_PER_S);
    for (uint32_t i = 0; i < CONFORMANCE_MEMBERS; i++) {
        assert_int_equal(p2p_count(world, i, TT_P2P_PEER_DOWN), i == 2 ? 0 : 1);
    }
    p2p_send(world, 0, 1, "alive", 5);
    p2p_await(world, 1, TT_P2P_FRAME, 1);
    free(local);
    p2p_release(world, &region);
    p2p_release(world, &inbound);
    p2p_end(world);
}

/* --- Batches ------------------------------------------------------------------------------------------------------ */

/* To two members in turn, between them a get; some with the advice that more follows. */
static void frames_of_a_batch_come_whole_and_in_order(void **state)
{
    enum { COUNT = 400 };
    struct p2p_world *world = p2p_begin_connected(state, CONFORMANCE_MEMBERS);
    struct p2p_region region = p2p_register(world, 1, 100000, 3);
    unsigned char frame[TT_P2P_LEAST_FRAME_BYTES], *local = calloc(1, 100000);
    assert_non_null(local);
    for (uint32_t batch = 0; batch < 2; batch++) {
        p2p_batch(world, 0, true);
        for (uint32_t i = 0; i < COUNT; i++) {
            uint32_t number = batch * COUNT + i, to = 1 + number % 2;
            uint32_t length_bytes = 1 + number * 7919 % (TT_P2P_LEAST_FRAME_BYTES - 1);
            struct tt_p2p_peer *peer = world->members[0].peers[to];
            p2p_fill(frame, length_bytes, number);
            assert_int_equal(tt_p2p_send(peer, frame, length_bytes, i % 3 == 0 && i + 2 < COUNT), TUTTI_OK);
        }
        p2p_get(world, 0, 1, &region, 0, local, 100000, 0);
        p2p_batch(world, 0, false);
        p2p_await(world, 0, TT_P2P_DONE, batch + 1);
        p2p_assert_pattern(local, 0, 100000, 3);
        memset(local, 0, 100000);
        for (uint32_t to = 1; to <= 2; to++) {
            p2p_await(world, to, TT_P2P_FRAME, (batch + 1) * COUNT / 2);
        }
    }
    for (uint32_t number = 0; number < 2 * COUNT; number++) {
        p2p_assert_frame(world, 1 + number % 2, number / 2, 1 + number * 7919 % (TT_P2P_LEAST_FRAME_BYTES - 1), number);
    }
    free(local);
    p2p_release(world, &region);
    p2p_end(world);
}

static void frames_of_a_batch_are_delivered_before_a_disconnect(void **state)
{
    enum { COUNT = 50 };
    struct p2p_world *world = p2p_begin_connected(state, 2);
    p2p_batch(world, 0, true);
    for (uint32_t i = 0; i < COUNT; i++) {
        unsigned char frame[100];
        p2p_fill(frame, sizeof(frame), i);
        p2p_send(world, 0, 1, frame, sizeof(frame));
    }
    p2p_disconnect(world, 0, 1);
    p2p_batch(world, 0, false);
    assert_peer_down(world, 1, 0);
    p2p_await(world, 1, TT_P2P_FRAME, COUNT);
    for (uint32_t i = 0; i < COUNT; i++) {
        p2p_assert_frame(world, 1, i, 100, i);
    }
    p2p_end(world);
}

/* It may be gone when the batch ends. */
static void a_peer_that_leaves_within_a_batch_is_told_of_as_ever(void **state)
{
    struct p2p_world *world = p2p_begin_connected(state, CONFORMANCE_MEMBERS);
    await_connections_of(world, 1);
    p2p_batch(world, 0, true);
    p2p_send(world, 0, 1, "x", 1);
    p2p_send(world, 0, 2, "x", 1);
    p2p_destroy(world, 1);
    assert_peer_down(world, 0, 1);
    p2p_disconnect(world, 0, 1);
    p2p_settle(world, P2P_QUIET_NS);
    p2p_batch(world, 0, false);
    p2p_await(world, 2, TT_P2P_FRAME, 2);
    p2p_end(world);
}

const struct conformance_body p2p_ending_bodies[] = {
    CONFORMANCE_BODY(disconnect_delivers_frames_then_tells_the_other_side_once),
    CONFORMANCE_BODY(when_both_disconnect_nobody_is_told),
    CONFORMANCE_BODY(nothing_starts_to_a_peer_that_has_failed),
    CONFORMANCE_BODY(get_under_way_to_a_peer_that_goes_completes_once),
    CONFORMANCE_BODY(disconnect_ends_what_is_under_way_and_then_leaves_the_memory_alone),
    CONFORMANCE_BODY(disconnected_members_can_connect_again),
    CONFORMANCE_BODY(connecting_to_a_side_that_has_left_ends_in_peer_down),
    CONFORMANCE_BODY(each_of_two_connections_of_a_pair_ends_for_itself),
    CONFORMANCE_BODY(destroy_with_peers_left_delivers_frames_and_tells_them),
    CONFORMANCE_BODY(frames_of_a_batch_come_whole_and_in_order),
    CONFORMANCE_BODY(frames_of_a_batch_are_delivered_before_a_disconnect),
    CONFORMANCE_BODY(a_peer_that_leaves_within_a_batch_is_told_of_as_ever),
    CONFORMANCE_BODY_NEEDS(killed_member_is_noticed_within_two_seconds_by_idle_peers, CONFORMANCE_KILL),
};
const size_t p2p_ending_bodies_count = sizeof(p2p_ending_bodies) / sizeof(p2p_ending_bodies[0]);
