/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections over tcp that are made on demand: the other side may want one much later, and reach this one where a
 * firewall lets nothing through to it. The test itself is that side, and its listening socket the firewall.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/settings.h"
#include "engine/network.h"
#include "patience.h"
#include "tcp_raw.h"

#define MS          TT_NS_PER_MS
#define FOREVER_NS  (600 * TT_NS_PER_S)
#define PATIENCE_NS (900 * MS)

enum { CONTEXT = 4711 };

static struct tt_network *network;

static int begin(void)
{
    static const struct tt_mcast_ops none = {.name = "none"};
    static struct tt_mcast mcast = {.ops = &none};
    struct tt_settings settings;
    return tt_settings_load(&settings) != TUTTI_OK ||
           tt_network_borrow(&settings, &mcast, raw.p2p, &network) != TUTTI_OK;
}

static int begin_below(void **state)
{
    return raw_begin_below(state) != 0 || begin() != 0;
}

static int begin_above(void **state)
{
    return raw_begin_above(state) != 0 || begin() != 0;
}

static int end(void **state)
{
    for (struct tt_peer *peer = network->peers; peer != NULL; peer = peer->next) {
        peer->users = 0;
    }
    tt_network_destroy(network);
    return raw_end(state);
}

static struct tt_peer *connect_within(uint64_t timeout_ns)
{
    struct tt_peer *peer;
    assert_int_equal(tt_network_connect(network, CONTEXT, raw_address, sizeof(raw_address), timeout_ns, &peer),
                     TUTTI_OK);
    tt_network_check(network);
    return peer;
}

static void expect_none_down_for(uint64_t ns)
{
    uint64_t until_ns = tt_clock_now_ns() + ns;
    while (tt_clock_now_ns() < until_ns) {
        raw_turn();
        assert_int_equal(raw.downs, 0);
    }
}

/* What was sent before goes with it, and what comes is of this connection. */
static void expect_good_when_the_other_side_comes(struct tt_peer *peer)
{
    uint8_t payload[TT_P2P_MAX_FRAME_BYTES];
    enum tt_tcp_kind kind;
    assert_int_equal(peer->connection->ops->send(peer->connection, "early", 5, false), TUTTI_OK);
    int fd = raw_join(TT_TCP_FOR_FRAMES, 0);
    raw_message(fd, TT_TCP_FRAME, "x", 1);
    assert_true(raw_reaches(&raw.frames, 1));
    assert_true(raw.frame_cookie == (uintptr_t)peer);
    assert_int_equal(raw_next(fd, &kind, payload), 5);
    assert_int_equal(raw.downs, 0);
}

static void who_was_refused_long_before_the_other_side_comes_is_met(void **state)
{
    (void)state;
    raw_close(raw_listener);
    struct tt_peer *peer = connect_within(FOREVER_NS);
    expect_none_down_for(2 * TT_TCP_REFUSED_NS);
    expect_good_when_the_other_side_comes(peer);
}

/* After its last try, or what would be that. */
static void who_was_not_answered_long_before_the_other_side_comes_is_met(void **state)
{
    (void)state;
    raw_fill();
    struct tt_peer *peer = connect_within(FOREVER_NS);
    ((struct tt_tcp_peer *)peer->connection)->tries = TT_TCP_TRIES;
    expect_none_down_for(4 * TT_TCP_REDIAL_NS);
    expect_good_when_the_other_side_comes(peer);
}

static void who_closes_without_an_answer_is_dialed_as_long_as_the_other_side_may_come(void **state)
{
    (void)state;
    struct tt_peer *peer = connect_within(FOREVER_NS);
    ((struct tt_tcp_peer *)peer->connection)->tries = TT_TCP_TRIES;
    raw_close(raw_accept());
    expect_none_down_for(4 * TT_TCP_REDIAL_NS);
    expect_good_when_the_other_side_comes(peer);
}

/* Three quarters of so short a time, and not when the next try would be over. */
static void expect_down_after_patience(const char *part)
{
    uint64_t begun_ns = tt_clock_now_ns();
    struct tt_peer *peer = connect_within(PATIENCE_NS / 3 * 4);
    ((struct tt_tcp_peer *)peer->connection)->tries += TT_TCP_TRIES;
    assert_true(raw_reaches(&raw.downs, 1));
    assert_non_null(strstr(raw.down_text, part));
    assert_int_equal(raw.down_status, TUTTI_ERR_PEER_FAILED);
    uint64_t took_ns = tt_clock_now_ns() - begun_ns;
    assert_true(took_ns >= PATIENCE_NS && took_ns < PATIENCE_NS + 500 * MS * TT_PATIENCE);
}

static void who_was_refused_is_told_why_before_the_time_out(void **state)
{
    (void)state;
    raw_close(raw_listener);
    expect_down_after_patience("Connection refused (its process has ended, or a firewall rejects TCP to it)");
}

static void who_was_not_answered_is_told_why_before_the_time_out(void **state)
{
    (void)state;
    raw_fill();
    expect_down_after_patience("s (its host is not there, or a firewall drops TCP to it)");
}

/* It had another connection, which broke. */
static void who_has_failed_before_is_not_waited_for(void **state)
{
    (void)state;
    raw_close(raw_listener);
    struct tt_peer *first = connect_within(0);
    assert_true(raw_reaches(&raw.downs, 1));
    first->down = true;
    (void)connect_within(FOREVER_NS);
    assert_true(raw_reaches(&raw.downs, 2));
}

static void what_nobody_wants_any_more_is_not_waited_for(void **state)
{
    (void)state;
    raw_close(raw_listener);
    struct tt_peer *peer = connect_within(FOREVER_NS);
    expect_none_down_for(2 * TT_TCP_REFUSED_NS);
    tt_network_abandon(network, peer);
    assert_true(TAILQ_EMPTY(&((struct tt_tcp *)raw.p2p)->session.peers));
}

#define WITH_LOWER(name)  cmocka_unit_test_setup_teardown(name, begin_below, end)
#define WITH_HIGHER(name) cmocka_unit_test_setup_teardown(name, begin_above, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_LOWER(who_was_refused_long_before_the_other_side_comes_is_met),
        WITH_HIGHER(who_was_refused_long_before_the_other_side_comes_is_met),
        WITH_HIGHER(who_was_not_answered_long_before_the_other_side_comes_is_met),
        WITH_HIGHER(who_closes_without_an_answer_is_dialed_as_long_as_the_other_side_may_come),
        WITH_LOWER(who_was_refused_is_told_why_before_the_time_out),
        WITH_HIGHER(who_was_refused_is_told_why_before_the_time_out),
        WITH_HIGHER(who_was_not_answered_is_told_why_before_the_time_out),
        WITH_LOWER(who_has_failed_before_is_not_waited_for),
        WITH_LOWER(what_nobody_wants_any_more_is_not_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
