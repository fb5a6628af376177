/* SPDX-License-Identifier: BSD-3-Clause */
/* When a p2p provider probes for a tail that TCP may have lost, and what a probe is to the other side: nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "pair_fixture.h"

#define MS TT_NS_PER_MS

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
        uint64_t now_ns = 0, due_ns = 0;
        while (due_ns != TT_NEVER && now_ns < 900 * MS) {
            now_ns += 100 * MS;
            due_ns = tend(side, now_ns);
        }
        assert_true(due_ns == TT_NEVER);
    }
}

/* Whether all that was sent has arrived, within a time in which every acknowledgment comes that is only held back. */
static bool all_arrives(const struct tt_p2p_peer *peer)
{
    uint64_t deadline_ns = tt_clock_now_ns() + 250 * MS;
    while (!pair_provider->is_received(peer) && tt_clock_now_ns() < deadline_ns) {
        usleep(1000);
    }
    return pair_provider->is_received(peer);
}

/* Sends frames, from number `value` on, until some of them stay on their way: the other side's host has no more room
 * for them, and no time shows in that. Where a provider cannot tell, one is as good as many. Returns the next number.
 */
static uint32_t send_what_stays_on_its_way(uint32_t value)
{
    enum { MOST = 200000, AT_ONCE = 1000 };
    bool knows = pair_provider->is_received != NULL;
    uint32_t last = value + (knows ? MOST : 1);
    do {
        for (uint32_t i = 0; i < (knows ? AT_ONCE : 1); i++) {
            pair_send(&pair_sides[A], value++);
        }
    } while (knows && all_arrives(pair_sides[A].peer) && value < last);
    assert_true(!knows || value < last);
    return value;
}

static void note_loss(void)
{
    if (pair_provider->note_loss != NULL) {
        pair_provider->note_loss(pair_sides[A].p2p, 0);
        pair_provider->note_loss(pair_sides[B].p2p, 0);
    }
}

static void frame_is_followed_by_five_probes_which_the_other_side_does_not_see(void **state)
{
    (void)state;
    fall_silent();
    note_loss();
    uint64_t before = probes_of(A);
    uint32_t value = send_what_stays_on_its_way(1);
    static const uint64_t due_ms[] = {1002, 1006, 1014, 1030, 1062};
    assert_true(tend(A, 1000 * MS) == due_ms[0] * MS);
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(probes_of(A) - before, i);
        assert_true(tend(A, due_ms[i] * MS - 1) == due_ms[i] * MS);
        assert_true(tend(A, due_ms[i] * MS) == (i < 4 ? due_ms[i + 1] * MS : TT_NEVER));
    }
    assert_int_equal(probes_of(A) - before, 5);
    pair_send(&pair_sides[A], value++);
    assert_true(pair_reaches(&pair_sides[B].frames, value));
    pair_turn_for(20 * MS);
    assert_int_equal(pair_sides[B].frames, value);
    assert_false(pair_sides[B].order_broken);
    struct tt_p2p_counters counters;
    pair_sides[B].p2p->ops->counters(pair_sides[B].p2p, &counters);
    assert_int_equal(counters.frames_received, value);
    assert_int_equal(counters.frames_dropped, 0);
    assert_true(tend(B, 1062 * MS) == TT_NEVER); /* nobody answers a probe */
}

static void frame_is_followed_by_a_probe_unless_it_is_known_to_have_arrived(void **state)
{
    (void)state;
    bool knows = pair_provider->is_received != NULL;
    fall_silent();
    note_loss();
    uint64_t before = probes_of(A), deadline_ns = tt_clock_now_ns() + 20 * TT_NS_PER_S;
    pair_send(&pair_sides[A], 1);
    while (knows && !pair_provider->is_received(pair_sides[A].peer) && tt_clock_now_ns() < deadline_ns) {
    }
    assert_true(tend(A, 1000 * MS) == 1002 * MS); /* not looked at before it is due: that would cost a call a frame */
    assert_true(tend(A, 1002 * MS) == (knows ? TT_NEVER : 1006 * MS));
    assert_int_equal(probes_of(A) - before, knows ? 0 : 1);
}

static void bytes_that_are_read_are_followed_by_probes_from_where_they_are(void **state)
{
    static uint8_t theirs[100000], mine[100000];
    struct remote remote;
    struct tt_p2p_peer *peer = pair_sides[A].peer;
    (void)state;
    fall_silent();
    note_loss();
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
    note_loss();
    pair_send(&pair_sides[A], 1);
    assert_true(tend(A, 1000 * MS) == 1002 * MS);
    pair_leave(&pair_sides[A]);
    assert_true(pair_reaches(&pair_sides[B].downs, 1));
    pair_turn_for(20 * MS); /* where it says goodbye by a message, that may be lost as any other */
    assert_true(tend(A, 1002 * MS) == TT_NEVER);
}

static void frame_is_probed_for_later_where_nothing_was_lost(void **state)
{
    (void)state;
    fall_silent();
    uint64_t before = probes_of(A);
    (void)send_what_stays_on_its_way(1);
    bool knows = pair_provider->note_loss != NULL;
    assert_true(tend(A, 1000 * MS) == (knows ? 1008 : 1002) * MS);
    assert_true(tend(A, 1008 * MS) == (knows ? 1024 : 1012) * MS); /* late for the first of all */
    assert_int_equal(probes_of(A) - before, 1);
    assert_true(tend(A, 1024 * MS) == (knows ? 1056 : 1032) * MS);
}

static void frame_is_probed_for_sooner_where_its_owner_has_lost_something(void **state)
{
    struct tt_p2p *p2p = pair_sides[A].p2p;
    (void)state;
    fall_silent();
    if (p2p->ops->expect_loss != NULL) {
        p2p->ops->expect_loss(p2p);
    }
    (void)send_what_stays_on_its_way(1);
    assert_true(tend(A, 1000 * MS) == 1002 * MS);
}

static void nothing_is_probed_where_nothing_is_lost(void **state)
{
    (void)state;
    for (int side = A; side <= B; side++) {
        pair_sides[side].p2p->ops->destroy(pair_sides[side].p2p);
        assert_int_equal(pair_provider->create(true, &pair_sides[side].p2p), TUTTI_OK);
        pair_sides[side].address_bytes = sizeof(pair_sides[side].address);
        assert_int_equal(pair_sides[side].p2p->ops->address(pair_sides[side].p2p, pair_sides[side].address,
                                                            &pair_sides[side].address_bytes),
                         TUTTI_OK);
    }
    pair_join(A, B, 1);
    pair_join(B, A, 2);
    pair_send(&pair_sides[A], 0);
    /* The frame waits for the connection, and somebody has to look when that comes about. */
    assert_true(tend(A, 1000 * MS) == (pair_provider->keeps_frames ? 2000 * MS : TT_NEVER));
    assert_true(pair_reaches(&pair_sides[B].frames, 1));
    assert_true(tend(A, 1000 * MS) == TT_NEVER);
    assert_int_equal(probes_of(A), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(frame_is_followed_by_five_probes_which_the_other_side_does_not_see,
                                        pair_make_connected, pair_end),
        cmocka_unit_test_setup_teardown(frame_is_followed_by_a_probe_unless_it_is_known_to_have_arrived,
                                        pair_make_connected, pair_end),
        cmocka_unit_test_setup_teardown(bytes_that_are_read_are_followed_by_probes_from_where_they_are,
                                        pair_make_connected, pair_end),
        cmocka_unit_test_setup_teardown(connection_that_was_closed_is_not_probed, pair_make_connected, pair_end),
        cmocka_unit_test_setup_teardown(frame_is_probed_for_later_where_nothing_was_lost, pair_make_connected,
                                        pair_end),
        cmocka_unit_test_setup_teardown(frame_is_probed_for_sooner_where_its_owner_has_lost_something,
                                        pair_make_connected, pair_end),
        cmocka_unit_test_setup_teardown(nothing_is_probed_where_nothing_is_lost, pair_make, pair_end),
    };
    return pair_run(NULL, "pair_tail", tests, sizeof(tests) / sizeof(tests[0]));
}
