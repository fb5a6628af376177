/* SPDX-License-Identifier: BSD-3-Clause */
/* The p2p contract (fabric/p2p.h), over every provider. `conformance_p2p ucx` runs one of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <poll.h>

#include "p2p_bodies.h"
#include "p2p_world.h"
#include "runner.h"

/* --- Frames ----------------------------------------------------------------------------------------------------- */

static void frames_of_every_length_arrive_in_order_both_ways(void **state)
{
    struct p2p_world *world = p2p_begin_connected(state, 2);
    unsigned char frame[TT_P2P_LEAST_FRAME_BYTES];
    for (uint32_t length = 1; length <= TT_P2P_LEAST_FRAME_BYTES; length++) {
        p2p_fill(frame, length, length);
        p2p_send(world, 0, 1, frame, length);
        p2p_fill(frame, TT_P2P_LEAST_FRAME_BYTES + 1 - length, length + 1);
        p2p_send(world, 1, 0, frame, TT_P2P_LEAST_FRAME_BYTES + 1 - length);
        memset(frame, 0, sizeof(frame)); /* was copied */
    }
    p2p_await(world, 0, TT_P2P_FRAME, TT_P2P_LEAST_FRAME_BYTES);
    p2p_await(world, 1, TT_P2P_FRAME, TT_P2P_LEAST_FRAME_BYTES);
    for (uint32_t length = 1; length <= TT_P2P_LEAST_FRAME_BYTES; length++) {
        p2p_assert_frame(world, 1, length - 1, length, length);
        p2p_assert_frame(world, 0, length - 1, TT_P2P_LEAST_FRAME_BYTES + 1 - length, length + 1);
    }
    p2p_end(world);
}

/* Of each member as long as its provider takes them; a body is the sender's again when the batch has ended. */
static void frames_of_two_pieces_arrive_as_one(void **state)
{
    enum { COUNT = 40, LEAST = 1, BODY_SALT = 7 };
    struct p2p_world *world = p2p_begin_connected(state, 2);
    static unsigned char bytes[COUNT][TT_P2P_MAX_FRAME_BYTES];
    struct tt_p2p_peer *peer = world->members[0].peers[1];
    const uint32_t longest = world->members[0].p2p->frame_bytes;
    for (uint32_t round = 0; round < 2; round++) {
        p2p_batch(world, 0, round == 1);
        for (uint32_t i = 0; i < COUNT; i++) {
            uint32_t length_bytes = longest - i * (longest / COUNT), head_bytes = LEAST + i * 3;
            struct tt_p2p_frame frame = {.head = bytes[i],
                                         .head_bytes = head_bytes,
                                         .body = bytes[i] + head_bytes,
                                         .body_bytes = length_bytes > head_bytes ? length_bytes - head_bytes : 0,
                                         .stays = i % 7 != 6};
            p2p_fill(bytes[i], longest, BODY_SALT + i);
            assert_int_equal(peer->ops->send(peer, &frame, i % 5 == 3), TUTTI_OK);
            /* was copied, but for a body that stays, in a batch */
            memset(bytes[i], 0, round == 0 || !frame.stays ? longest : head_bytes);
        }
        p2p_batch(world, 0, false);
        memset(bytes, 0, sizeof(bytes));
        p2p_await(world, 1, TT_P2P_FRAME, (round + 1) * COUNT);
        for (uint32_t i = 0; i < COUNT; i++) {
            uint32_t length_bytes = longest - i * (longest / COUNT), head_bytes = LEAST + i * 3;
            p2p_assert_frame(world, 1, round * COUNT + i, length_bytes > head_bytes ? length_bytes : head_bytes,
                             BODY_SALT + i);
        }
    }
    p2p_end(world);
}

static void many_frames_wait_for_a_receiver_that_is_busy(void **state)
{
    enum { COUNT = 3000 };
    struct p2p_world *world = p2p_begin_connected(state, 3);
    unsigned char frame[TT_P2P_LEAST_FRAME_BYTES];
    world->members[2].is_idle = true;
    for (uint32_t i = 0; i < COUNT; i++) {
        p2p_fill(frame, 1 + i % 1000, i);
        p2p_send(world, i % 2, 2, frame, 1 + i % 1000);
    }
    p2p_settle(world, 20 * TT_NS_PER_MS);
    assert_int_equal(world->members[2].record_count, 0);
    world->members[2].is_idle = false;
    p2p_await(world, 2, TT_P2P_FRAME, COUNT);
    /* Each sender's frames are in order; its even or odd numbers give it away. */
    uint32_t next[2] = {0, 1};
    for (uint32_t i = 0; i < COUNT; i++) {
        const struct p2p_record *record = &world->members[2].records[i];
        const uint32_t sender =
            record->event.length_bytes == 1 + next[0] % 1000 && record->frame[0] == p2p_pattern(0, next[0]) ? 0 : 1;
        p2p_assert_frame(world, 2, i, 1 + next[sender] % 1000, next[sender]);
        next[sender] += 2;
    }
    assert_int_equal(next[0] + next[1], 2 * COUNT + 1);
    p2p_end(world);
}

/* Also where there is no room for them, and where the first ones of a row were sent before there was a connection. */
static void frames_that_go_together_are_as_any_others(void **state)
{
    enum { COUNT = 3000 };
    struct p2p_world *world = p2p_begin(state, 2);
    unsigned char frame[TT_P2P_LEAST_FRAME_BYTES];
    p2p_connect(world, 0, 1);
    p2p_connect(world, 1, 0);
    for (uint32_t i = 0; i < COUNT; i++) {
        struct tt_p2p_peer *peer = world->members[0].peers[1];
        p2p_fill(frame, 1 + i % 2000, i);
        assert_int_equal(tt_p2p_send(peer, frame, 1 + i % 2000, i % 3 == 1), TUTTI_OK);
        world->members[1].is_idle = i % 500 > 250;
        if (i % 50 == 49) {
            p2p_settle(world, TT_NS_PER_MS / 10);
        }
    }
    world->members[1].is_idle = false;
    p2p_await(world, 1, TT_P2P_FRAME, COUNT);
    for (uint32_t i = 0; i < COUNT; i++) {
        p2p_assert_frame(world, 1, i, 1 + i % 2000, i);
    }
    p2p_end(world);
}

static void assert_sender(const struct p2p_world *world, const struct p2p_record *record, uint32_t sender)
{
    unsigned char address[TT_P2P_MAX_ADDRESS_BYTES];
    size_t length_bytes = sizeof(address);
    struct tt_p2p *p2p = world->members[sender].p2p;
    if (record->event.address == NULL) {
        return; /* it does not know */
    }
    assert_int_equal(p2p->ops->address(p2p, address, &length_bytes), TUTTI_OK);
    assert_int_equal(record->event.address_bytes, length_bytes);
    assert_memory_equal(record->address, address, length_bytes);
}

static void frames_sent_before_the_other_side_connects_arrive(void **state)
{
    struct p2p_world *world = p2p_begin(state, 2);
    p2p_connect(world, 0, 1);
    p2p_send(world, 0, 1, "early", 5);
    p2p_settle(world, P2P_QUIET_NS);
    p2p_connect(world, 1, 0);
    p2p_send(world, 1, 0, "answer", 6);
    p2p_await(world, 1, TT_P2P_FRAME, 1);
    p2p_await(world, 0, TT_P2P_FRAME, 1);
    assert_memory_equal(p2p_record_of(world, 1, TT_P2P_FRAME, 0)->frame, "early", 5);
    assert_memory_equal(p2p_record_of(world, 0, TT_P2P_FRAME, 0)->frame, "answer", 6);
    assert_sender(world, p2p_record_of(world, 1, TT_P2P_FRAME, 0), 0);
    assert_sender(world, p2p_record_of(world, 0, TT_P2P_FRAME, 0), 1);
    p2p_end(world);
}

static void frames_come_with_the_cookie_of_the_connection_to_their_sender(void **state)
{
    enum { COUNT = 10 };
    struct p2p_world *world = p2p_begin_connected(state, 3);
    for (uint32_t i = 0; i < COUNT; i++) {
        unsigned char sender = (unsigned char)(1 + i % 2);
        p2p_send(world, sender, 0, &sender, 1);
        p2p_send(world, 0, sender, "back", 4);
    }
    p2p_await(world, 0, TT_P2P_FRAME, COUNT);
    for (uint32_t i = 0; i < COUNT; i++) {
        const struct p2p_record *record = p2p_record_of(world, 0, TT_P2P_FRAME, i);
        assert_true(record->event.peer_cookie == p2p_cookie(0, record->frame[0]));
    }
    for (uint32_t member = 1; member < 3; member++) {
        p2p_await(world, member, TT_P2P_FRAME, COUNT / 2);
        assert_true(p2p_record_of(world, member, TT_P2P_FRAME, 0)->event.peer_cookie == p2p_cookie(member, 0));
    }
    p2p_end(world);
}

static void frames_from_whom_nobody_has_connected_to_come_without_a_cookie(void **state)
{
    struct p2p_world *world = p2p_begin(state, 2);
    p2p_connect(world, 0, 1);
    p2p_send(world, 0, 1, "early", 5);
    p2p_settle(world, P2P_QUIET_NS);
    const bool has_come = p2p_count(world, 1, TT_P2P_FRAME) > 0; /* where it need not wait for the other side */
    p2p_connect(world, 1, 0);
    p2p_send(world, 0, 1, "late", 4);
    p2p_await(world, 1, TT_P2P_FRAME, 2);
    const uint64_t first = p2p_record_of(world, 1, TT_P2P_FRAME, 0)->event.peer_cookie;
    assert_true(first == (has_come ? 0 : p2p_cookie(1, 0)));
    assert_true(p2p_record_of(world, 1, TT_P2P_FRAME, 1)->event.peer_cookie == p2p_cookie(1, 0));
    p2p_end(world);
}

static void frames_of_wrong_length_are_refused(void **state)
{
    struct p2p_world *world = p2p_begin_connected(state, 2);
    unsigned char frame[TT_P2P_MAX_FRAME_BYTES + 1] = {0};
    struct tt_p2p_peer *peer = world->members[0].peers[1];
    const uint32_t longest = world->members[0].p2p->frame_bytes;
    struct tt_p2p_frame pieces = {.head = frame, .head_bytes = 2, .body = frame, .body_bytes = longest - 1};
    assert_in_range(longest, TT_P2P_LEAST_FRAME_BYTES, TT_P2P_MAX_FRAME_BYTES);
    assert_int_equal(tt_p2p_send(peer, frame, 0, false), TUTTI_ERR_INVALID_ARGUMENT);
    assert_int_equal(tt_p2p_send(peer, frame, longest + 1, false), TUTTI_ERR_INVALID_ARGUMENT);
    assert_int_equal(peer->ops->send(peer, &pieces, false), TUTTI_ERR_INVALID_ARGUMENT);
    pieces.head_bytes = 0;
    assert_int_equal(peer->ops->send(peer, &pieces, false), TUTTI_ERR_INVALID_ARGUMENT);
    p2p_settle(world, P2P_QUIET_NS);
    assert_int_equal(world->members[1].record_count, 0);
    p2p_end(world);
}

static void frames_stay_valid_until_the_next_progress(void **state)
{
    struct p2p_world *world = p2p_begin_connected(state, 2);
    struct tt_p2p *p2p = world->members[1].p2p;
    struct tt_p2p_event event;
    world->members[1].is_idle = true;
    for (uint32_t i = 0; i < 50; i++) {
        unsigned char frame[500];
        p2p_fill(frame, sizeof(frame), i);
        p2p_send(world, 0, 1, frame, sizeof(frame));
    }
    for (uint32_t i = 0; i < 50; i++) { /* one event at a time */
        unsigned char expected[500];
        p2p_fill(expected, sizeof(expected), i);
        uint32_t count = 0;
        for (int tries = 0; tries < 20000 && count == 0; tries++) {
            count = p2p->ops->progress(p2p, &event, 1);
            if (count == 0) {
                p2p_step(world);
            }
        }
        assert_int_equal(count, 1);
        assert_int_equal(event.type, TT_P2P_FRAME);
        p2p_step(world); /* the others go on */
        assert_int_equal(event.length_bytes, 500);
        assert_memory_equal(event.data, expected, 500);
    }
    p2p_end(world);
}

/* --- Waiting and counters --------------------------------------------------------------------------------------- */

static void sleeper_is_woken_by_a_frame(void **state)
{
    struct p2p_world *world = p2p_begin_connected(state, 2);
    struct p2p_member *sleeper = &world->members[1];
    p2p_send(world, 0, 1, "first", 5);
    p2p_await(world, 1, TT_P2P_FRAME, 1);
    p2p_settle(world, P2P_QUIET_NS);
    sleeper->is_idle = true;
    bool armed = false;
    struct tt_p2p_event event;
    for (int i = 0; i < 1000 && !armed; i++) {
        armed = sleeper->p2p->ops->arm(sleeper->p2p);
        if (!armed) {
            assert_int_equal(sleeper->p2p->ops->progress(sleeper->p2p, &event, 1), 0); /* housekeeping */
        }
    }
    assert_true(armed);
    const int fd = sleeper->p2p->ops->fd(sleeper->p2p);
    p2p_send(world, 0, 1, "second", 6);
    p2p_settle(world, P2P_QUIET_NS);
    if (fd >= 0) {
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        assert_int_equal(poll(&wait, 1, 2000), 1);
    } else {
        assert_false(sleeper->p2p->ops->arm(sleeper->p2p));
    }
    sleeper->is_idle = false;
    p2p_await(world, 1, TT_P2P_FRAME, 2);
    p2p_end(world);
}

static void tending_ends_soon_after_the_last_frame_and_shows_nowhere(void **state)
{
    enum { MOST = 10 };
    struct p2p_world *world = p2p_begin_connected(state, 2);
    struct tt_p2p *p2p = world->members[0].p2p;
    uint32_t times = 0;
    p2p_send(world, 0, 1, "before", 6);
    p2p_await(world, 1, TT_P2P_FRAME, 1);
    p2p_settle(world, P2P_QUIET_NS);
    p2p_send(world, 0, 1, "last", 4);
    const uint64_t sent_ns = world->fixture->now_ns(world->world);
    uint64_t now_ns = sent_ns, next_ns;
    while ((next_ns = p2p->ops->tend(p2p, now_ns)) != TT_NEVER && times++ < MOST) {
        assert_true(next_ns > now_ns);
        now_ns = next_ns;
    }
    assert_in_range(times, 0, MOST);
    assert_true(now_ns <= sent_ns + 100 * TT_NS_PER_MS);
    p2p_settle(world, P2P_QUIET_NS);
    assert_int_equal(world->members[0].record_count, 0);
    assert_int_equal(world->members[1].record_count, 2);
    p2p_end(world);
}

static void counters_agree_with_what_was_sent(void **state)
{
    struct p2p_world *world = p2p_begin_connected(state, 2);
    struct p2p_region region = p2p_register(world, 1, 5000, 0);
    struct tt_p2p_counters counters[2];
    unsigned char local[5000];
    p2p_send(world, 0, 1, "123", 3);
    p2p_send(world, 0, 1, "12345", 5);
    p2p_send(world, 1, 0, "1", 1);
    p2p_get(world, 0, 1, &region, 0, local, 5000, 1);
    p2p_await(world, 0, TT_P2P_DONE, 1);
    p2p_put(world, 0, 1, &region, 0, local, 700, 1, 2);
    p2p_await(world, 0, TT_P2P_DONE, 2);
    p2p_await(world, 0, TT_P2P_FRAME, 1);
    p2p_await(world, 1, TT_P2P_FRAME, 2);
    for (uint32_t i = 0; i < 2; i++) {
        world->members[i].p2p->ops->counters(world->members[i].p2p, &counters[i]);
    }
    assert_int_equal(counters[0].frames_sent, 2);
    assert_int_equal(counters[0].frames_received, 1);
    assert_int_equal(counters[0].bytes_sent, 8 + 700);
    assert_int_equal(counters[0].bytes_received, 1 + 5000);
    assert_int_equal(counters[1].frames_sent, 1);
    assert_int_equal(counters[1].frames_received, 2);
    assert_int_equal(counters[1].bytes_sent, 1);
    assert_int_equal(counters[1].bytes_received, 8);
    p2p_release(world, &region);
    p2p_end(world);
}

int main(int argument_count, char **arguments)
{
    static const struct conformance_fixture *const fixtures[] = {
        &conformance_sim, &conformance_sim_late,  &conformance_tcp,          &conformance_tcp_ipv6,
        &conformance_ucx, &conformance_verbs_p2p, &conformance_verbs_p2p_own};
    static const struct conformance_body bodies[] = {
        CONFORMANCE_BODY(frames_of_every_length_arrive_in_order_both_ways),
        CONFORMANCE_BODY(many_frames_wait_for_a_receiver_that_is_busy),
        CONFORMANCE_BODY(frames_that_go_together_are_as_any_others),
        CONFORMANCE_BODY(frames_sent_before_the_other_side_connects_arrive),
        CONFORMANCE_BODY(frames_come_with_the_cookie_of_the_connection_to_their_sender),
        CONFORMANCE_BODY(frames_from_whom_nobody_has_connected_to_come_without_a_cookie),
        CONFORMANCE_BODY(frames_of_two_pieces_arrive_as_one),
        CONFORMANCE_BODY(frames_of_wrong_length_are_refused),
        CONFORMANCE_BODY(frames_stay_valid_until_the_next_progress),
        CONFORMANCE_BODY(sleeper_is_woken_by_a_frame),
        CONFORMANCE_BODY(tending_ends_soon_after_the_last_frame_and_shows_nowhere),
        CONFORMANCE_BODY(counters_agree_with_what_was_sent),
    };
    const struct conformance_table tables[] = {{bodies, sizeof(bodies) / sizeof(bodies[0])},
                                               {p2p_memory_bodies, p2p_memory_bodies_count},
                                               {p2p_ending_bodies, p2p_ending_bodies_count}};
    return conformance_run("p2p", fixtures, sizeof(fixtures) / sizeof(fixtures[0]), tables,
                           sizeof(tables) / sizeof(tables[0]), argument_count > 1 ? arguments[1] : NULL);
}
