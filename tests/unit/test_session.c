/* SPDX-License-Identifier: BSD-3-Clause */
/* What a session keeps of those who greet it, over a transport that does nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fabric/session/session.h"

enum { ADDRESS_BYTES = 4, NUMBER_BYTES = 4, NAME_BYTES = 2 };

#define SECOND_NS TT_NS_PER_S

static struct tt_session session;

/* What the transport does, and was asked. */
static struct {
    bool busy;         /* something has to end before the last message */
    bool flushed;      /* the last message has arrived */
    uint64_t hold_ns;  /* until when a device keeps what it has; 0: it keeps nothing */
    uint64_t abort_ns; /* a goodbye is to be over by then; 0: the session's time is right */
    uint32_t goodbyes, canceled, closings, freed;
    const struct tt_session_peer *watched; /* whose times are looked at, and how often they have been */
    uint32_t looks;
    uint8_t address[TT_SESSION_ADDRESS_BYTES]; /* that the last connection was made to */
    tutti_status refusal;                      /* what begin answers */
    bool begun;                                /* what begin was told, and ... */
    uint8_t begun_address[TT_SESSION_ADDRESS_BYTES];
} transport;

static void do_nothing(struct tt_session_peer *peer)
{
    assert_ptr_equal(peer->session, &session);
}

static void init(struct tt_session_peer *peer)
{
    do_nothing(peer);
    memcpy(transport.address, peer->remote->address, ADDRESS_BYTES);
}

static tutti_status begin(struct tt_session_peer *peer, const void *address, bool begun)
{
    do_nothing(peer);
    memcpy(transport.begun_address, address, ADDRESS_BYTES);
    transport.begun = begun;
    return transport.refusal;
}

static void cancel(struct tt_session_peer *peer, tutti_status status)
{
    do_nothing(peer);
    assert_int_not_equal(status, TUTTI_OK);
    transport.canceled++;
    if (transport.abort_ns != 0) {
        peer->deadline_ns = transport.abort_ns;
    }
}

static bool farewell(struct tt_session_peer *peer, bool heard)
{
    do_nothing(peer);
    assert_int_equal(heard, !peer->released);
    transport.goodbyes += !transport.busy;
    return !transport.busy;
}

static bool is_flushed(struct tt_session_peer *peer, bool received)
{
    do_nothing(peer);
    (void)received;
    return transport.flushed;
}

static uint64_t tend(struct tt_session_peer *peer, uint64_t now_ns)
{
    do_nothing(peer);
    (void)now_ns;
    transport.looks += peer == transport.watched;
    return TT_NEVER;
}

static uint64_t let_go(struct tt_session_peer *peer, uint64_t now_ns)
{
    do_nothing(peer);
    transport.closings++;
    return now_ns < transport.hold_ns ? transport.hold_ns : TT_NEVER;
}

static void fini(struct tt_session_peer *peer)
{
    do_nothing(peer);
    transport.freed++;
    free(peer);
}

static int set_up_named(uint32_t identity_bytes)
{
    static const struct tt_p2p_ops p2p = {.name = "nothing"};
    static struct tt_session_ops ops = {.peer_bytes = sizeof(struct tt_session_peer),
                                        .frame_bytes = TT_P2P_LEAST_FRAME_BYTES,
                                        .init = init,
                                        .begin = begin,
                                        .farewell = farewell,
                                        .is_flushed = is_flushed,
                                        .cancel = cancel,
                                        .tend = tend,
                                        .close = let_go,
                                        .fini = fini};

    memset(&session, 0, sizeof session);
    memset(&transport, 0, sizeof transport);
    ops.identity_bytes = identity_bytes;
    tt_session_init(&session, &p2p, &ops, "own", ADDRESS_BYTES);
    return 0;
}

static int set_up(void **state)
{
    (void)state;
    return set_up_named(NUMBER_BYTES);
}

static int set_up_short_names(void **state)
{
    (void)state;
    return set_up_named(NAME_BYTES);
}

static int tear_down(void **state)
{
    (void)state;
    tt_session_check(&session);
    tt_session_fini(&session);
    return 0;
}

static struct tt_session_peer *greet(uint32_t who, uint32_t serial)
{
    return tt_session_greeted(&session, &who, serial);
}

/* As progress does it; who is told is not looked at. */
static void pass(uint64_t ns)
{
    struct tt_p2p_event event;

    session.now_ns += ns;
    tt_session_tend(&session);
    tt_session_check(&session);
    (void)tt_session_take(&session, false, &event, 1);
}

static void who_is_refused_is_forgotten(void **state)
{
    (void)state;
    assert_null(greet(1, TT_SESSION_SERIALS_AHEAD));
    session.ending = true;
    assert_null(greet(2, 0));
    assert_int_equal(session.strangers, 0);
    assert_true(TAILQ_EMPTY(&session.peers));
}

static void what_comes_to_nothing_may_be_greeted_for_again(void **state)
{
    (void)state;
    tt_session_drop(greet(1, 3));
    assert_int_equal(transport.freed, 1);
    assert_true(TAILQ_EMPTY(&session.peers));
    assert_non_null(greet(1, 3));
    assert_int_equal(session.strangers, 1);
}

static void so_many_strangers_are_let_in_and_known_ones_beyond_that(void **state)
{
    const uint32_t known = 1, later = TT_SESSION_STRANGERS + 5;
    struct tt_p2p_peer *peer = NULL;

    (void)state;
    assert_int_equal(tt_session_connect(&session, &known, 77, &peer), TUTTI_OK);
    for (uint32_t i = 0; i < TT_SESSION_STRANGERS; i++) {
        assert_non_null(greet(2 + i, 0));
    }
    tt_session_check(&session);
    assert_int_equal(session.strangers, TT_SESSION_STRANGERS);
    assert_null(greet(later, 0));
    assert_non_null(greet(known, 1)); /* another connection of the one that is known */
    assert_non_null(greet(2, 1));     /* and of a stranger that is counted */
    assert_int_equal(tt_session_connect(&session, &later, 78, &peer), TUTTI_OK);
    const uint32_t first = 2;
    assert_int_equal(tt_session_connect(&session, &first, 79, &peer), TUTTI_OK);
    assert_int_equal(session.strangers, TT_SESSION_STRANGERS - 1);
    assert_non_null(greet(later + 1, 0));
}

/* It keeps its serial, so that connect may be tried again. */
static void what_the_other_side_has_begun_stays_when_connect_fails(void **state)
{
    const uint32_t number = 1;
    struct tt_p2p_peer *peer = NULL;

    (void)state;
    struct tt_session_peer *greeted = greet(number, 0);
    transport.refusal = TUTTI_ERR_NO_RESOURCE;
    assert_int_equal(tt_session_connect(&session, &number, 77, &peer), TUTTI_ERR_NO_RESOURCE);
    assert_int_equal(transport.freed, 0);
    transport.refusal = TUTTI_OK;
    assert_int_equal(tt_session_connect(&session, &number, 77, &peer), TUTTI_OK);
    assert_ptr_equal(peer, &greeted->base);
    assert_true(transport.begun);
    assert_memory_equal(transport.begun_address, &number, ADDRESS_BYTES);
    transport.refusal = TUTTI_ERR_NO_RESOURCE;
    assert_int_equal(tt_session_connect(&session, &number, 78, &peer), TUTTI_ERR_NO_RESOURCE);
    assert_false(transport.begun);
    assert_int_equal(transport.freed, 1);
}

static void frame_of_an_instance_is_of_the_last_connection_that_has_an_owner(void **state)
{
    const uint32_t number = 1, unknown = 2;
    struct tt_p2p_peer *first = NULL, *second = NULL;

    (void)state;
    (void)greet(number, 1); /* begun by the other side, and out of order */
    assert_int_equal(tt_session_cookie_of(&session, &number), 0);
    assert_int_equal(tt_session_cookie_of(&session, &unknown), 0);
    assert_int_equal(tt_session_connect(&session, &number, 77, &first), TUTTI_OK);
    assert_int_equal(tt_session_cookie_of(&session, &number), 77);
    assert_int_equal(tt_session_connect(&session, &number, 78, &second), TUTTI_OK);
    assert_int_equal(tt_session_cookie_of(&session, &number), 78);
    tt_session_disconnect(second);
    assert_int_equal(tt_session_cookie_of(&session, &number), 77);
}

/* The other side had begun a connection that broke before this side wanted one. */
static struct tt_session_peer *connected_after_a_break(uint32_t anew)
{
    const uint32_t number = 1;
    struct tt_p2p_peer *peer = NULL;

    struct tt_session_peer *first = greet(number, 0);
    tt_session_opened(first);
    tt_session_fail(first, "it broke");
    tt_session_tend(&session);
    for (uint32_t i = 1; i <= anew; i++) {
        tt_session_opened(greet(number, i));
        tt_session_tend(&session);
    }
    assert_int_equal(tt_session_connect(&session, &number, 77, &peer), TUTTI_OK);
    return (struct tt_session_peer *)peer;
}

static void connect_takes_the_one_that_was_begun_anew(void **state)
{
    const uint32_t number = 1;
    struct tt_p2p_event event;
    struct tt_p2p_peer *second = NULL;

    (void)state;
    struct tt_session_peer *peer = connected_after_a_break(2);
    assert_int_equal(peer->serial, 1);
    assert_int_equal(tt_session_connect(&session, &number, 78, &second), TUTTI_OK);
    assert_int_equal(((struct tt_session_peer *)second)->serial, 2);
    tt_session_tend(&session);
    assert_int_equal(tt_session_take(&session, false, &event, 1), 0);
    assert_false(peer->down);
    pass(0);
    assert_int_equal(transport.freed, 1); /* what broke is nobody's */
    assert_null(greet(number, 0));        /* and does not come again */
}

static void connect_is_told_what_broke_where_none_was_begun_anew(void **state)
{
    struct tt_p2p_event event;

    (void)state;
    struct tt_session_peer *peer = connected_after_a_break(0);
    assert_int_equal(peer->serial, 0);
    assert_int_equal(tt_session_take(&session, false, &event, 1), 1);
    assert_int_equal(event.type, TT_P2P_PEER_DOWN);
    assert_int_equal(event.peer_cookie, 77);
    assert_string_equal(event.data, "it broke");
}

/* Only a part of what a greeting says of its sender is its name; what the owner says of the rest is true. */
static void instance_is_named_by_the_beginning_of_its_address(void **state)
{
    struct tt_p2p_peer *peer = NULL;

    (void)state;
    struct tt_session_peer *greeted = tt_session_greeted(&session, "ab12", 0);
    assert_non_null(greeted);
    assert_ptr_equal(tt_session_greeted(&session, "ab34", 0), greeted);
    assert_ptr_equal(tt_session_find(&session, "ab56", 0), greeted);
    assert_null(tt_session_find(&session, "ac12", 0));
    assert_int_equal(session.strangers, 1);
    assert_int_equal(tt_session_connect(&session, "ab78", 77, &peer), TUTTI_OK);
    assert_ptr_equal(peer, &greeted->base);
    assert_memory_equal(greeted->remote->address, "ab78", ADDRESS_BYTES);
    assert_non_null(tt_session_greeted(&session, "cd12", 5)); /* another connection of one that lies about the rest */
    assert_int_equal(tt_session_connect(&session, "cd34", 79, &peer), TUTTI_OK);
    assert_memory_equal(transport.address, "cd34", ADDRESS_BYTES);
    assert_int_equal(tt_session_connect(&session, "ow12", 78, &peer), TUTTI_ERR_INVALID_ARGUMENT); /* itself */
}

/* --- Goodbyes ----------------------------------------------------------------------------------------------------- */

static struct tt_session_peer *opened(void)
{
    const uint32_t number = 1;
    struct tt_p2p_peer *peer = NULL;

    assert_int_equal(tt_session_connect(&session, &number, 77, &peer), TUTTI_OK);
    tt_session_opened((struct tt_session_peer *)peer);
    tt_session_tend(&session);
    return (struct tt_session_peer *)peer;
}

static void goodbye_waits_for_what_is_under_way(void **state)
{
    (void)state;
    struct tt_session_peer *peer = opened();
    transport.busy = true;
    tt_session_disconnect(&peer->base);
    pass(SECOND_NS);
    assert_int_equal(transport.goodbyes, 0);
    transport.busy = false;
    tt_session_unsettle(peer);
    pass(0);
    assert_int_equal(transport.goodbyes, 1);
    assert_int_equal(peer->phase, TT_SESSION_FAREWELL);
    transport.flushed = true;
    tt_session_left(peer);
    pass(0);
    assert_int_equal(transport.freed, 1);
}

/* What has come from others waits to be looked at, and comes before their times do. */
static void who_lets_go_of_one_does_not_look_at_the_times_of_others(void **state)
{
    const uint32_t numbers[] = {1, 2};
    struct tt_p2p_peer *one = NULL, *other = NULL;

    (void)state;
    assert_int_equal(tt_session_connect(&session, &numbers[0], 77, &one), TUTTI_OK);
    assert_int_equal(tt_session_connect(&session, &numbers[1], 78, &other), TUTTI_OK);
    transport.watched = (struct tt_session_peer *)one;
    tt_session_disconnect(other);
    assert_int_equal(transport.looks, 0);
    pass(0);
    assert_true(transport.looks > 0);
}

/* It is said late, as the two ends did not know each other before, and has all of its time then. */
static void goodbye_has_its_time_from_when_it_can_be_said(void **state)
{
    const uint32_t number = 1;
    struct tt_p2p_peer *base = NULL;

    (void)state;
    assert_int_equal(tt_session_connect(&session, &number, 77, &base), TUTTI_OK);
    struct tt_session_peer *peer = (struct tt_session_peer *)base;
    tt_session_disconnect(base);
    session.now_ns += TT_SESSION_FAREWELL_NS; /* and nobody has made progress */
    tt_session_opened(peer);
    pass(0);
    assert_int_equal(transport.goodbyes, 1);
    pass(TT_SESSION_FAREWELL_NS - 1);
    assert_int_equal(peer->phase, TT_SESSION_FAREWELL);
    pass(1);
    assert_int_equal(transport.freed, 1);
}

static void goodbye_that_cannot_be_said_is_given_up_in_two_seconds(void **state)
{
    (void)state;
    transport.busy = true;
    tt_session_disconnect(&opened()->base);
    pass(TT_SESSION_FAREWELL_NS - 1);
    assert_int_equal(transport.closings, 0);
    pass(1);
    assert_int_equal(transport.goodbyes, 0);
    assert_int_equal(transport.freed, 1);
}

/* The other side has left, and what is under way may end by itself; then the owner lets go, and waits for it. */
static void owner_that_lets_go_may_bring_the_end_forward(void **state)
{
    (void)state;
    struct tt_session_peer *peer = opened();
    transport.busy = true;
    tt_session_left(peer);
    pass(SECOND_NS / 2);
    assert_int_equal(transport.canceled, 1);
    transport.abort_ns = tt_clock_now_ns() + SECOND_NS;
    tt_session_disconnect(&peer->base);
    assert_int_equal(transport.canceled, 2);
    pass(transport.abort_ns - session.now_ns - 1);
    assert_int_equal(transport.closings, 0);
    pass(1);
    assert_int_equal(transport.freed, 1);
}

static void transport_that_lets_go_late_is_asked_until_it_has(void **state)
{
    (void)state;
    struct tt_session_peer *peer = opened();
    tt_session_fail(peer, "it broke");
    transport.hold_ns = session.now_ns + SECOND_NS;
    pass(0);
    assert_int_equal(transport.closings, 1);
    tt_session_unsettle(peer); /* something has come back */
    pass(SECOND_NS / 2);
    assert_int_equal(transport.closings, 2);
    assert_int_equal(peer->phase, TT_SESSION_CLOSING);
    pass(SECOND_NS / 2);
    assert_int_equal(transport.closings, 3);
    assert_int_equal(peer->phase, TT_SESSION_CLOSED);
    assert_int_equal(transport.freed, 0); /* its owner has not let go of it */
    tt_session_disconnect(&peer->base);
    pass(0);
    assert_int_equal(transport.freed, 1);
}

/* The reason is in the peer's memory, and is the owner's until the next progress. */
static void owner_that_lets_go_may_still_read_why_it_was_down(void **state)
{
    struct tt_p2p_event event;

    (void)state;
    struct tt_session_peer *peer = opened();
    tt_session_fail(peer, "it broke");
    tt_session_tend(&session);
    assert_int_equal(tt_session_take(&session, false, &event, 1), 1);
    tt_session_disconnect(&peer->base);
    assert_int_equal(transport.freed, 0);
    assert_string_equal(event.data, "it broke");
    pass(0);
    assert_int_equal(transport.freed, 1);
}

/* A goodbye may have been read, and not looked at, when its owner let go of what had ended by its deadline. */
static void goodbye_of_what_is_over_changes_nothing(void **state)
{
    (void)state;
    struct tt_session_peer *peer = opened();
    tt_session_fail(peer, "it broke");
    pass(0);
    assert_int_equal(peer->phase, TT_SESSION_CLOSED);
    tt_session_disconnect(&peer->base);
    assert_true(TAILQ_EMPTY(&session.peers));
    tt_session_left(peer);
    pass(0);
    assert_true(TAILQ_EMPTY(&session.peers));
    assert_true(TAILQ_EMPTY(&session.unsettled));
    assert_int_equal(transport.freed, 1);
    peer = opened();
    assert_ptr_equal(TAILQ_FIRST(&session.peers), peer);
    pass(0);
    assert_int_equal(transport.freed, 1);
}

static void session_that_ends_waits_for_no_device(void **state)
{
    (void)state;
    struct tt_session_peer *peer = opened();
    tt_session_fail(peer, "it broke");
    transport.hold_ns = session.now_ns + 3600 * SECOND_NS;
    pass(0);
    assert_int_equal(peer->phase, TT_SESSION_CLOSING);
    tt_session_fini(&session);
    assert_int_equal(transport.freed, 1);
    (void)set_up(state); /* for the tear-down */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(who_is_refused_is_forgotten, set_up, tear_down),
        cmocka_unit_test_setup_teardown(so_many_strangers_are_let_in_and_known_ones_beyond_that, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_the_other_side_has_begun_stays_when_connect_fails, set_up, tear_down),
        cmocka_unit_test_setup_teardown(frame_of_an_instance_is_of_the_last_connection_that_has_an_owner, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(connect_takes_the_one_that_was_begun_anew, set_up, tear_down),
        cmocka_unit_test_setup_teardown(connect_is_told_what_broke_where_none_was_begun_anew, set_up, tear_down),
        cmocka_unit_test_setup_teardown(instance_is_named_by_the_beginning_of_its_address, set_up_short_names,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_comes_to_nothing_may_be_greeted_for_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_lets_go_of_one_does_not_look_at_the_times_of_others, set_up, tear_down),
        cmocka_unit_test_setup_teardown(goodbye_has_its_time_from_when_it_can_be_said, set_up, tear_down),
        cmocka_unit_test_setup_teardown(owner_that_lets_go_may_still_read_why_it_was_down, set_up, tear_down),
        cmocka_unit_test_setup_teardown(goodbye_of_what_is_over_changes_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(goodbye_waits_for_what_is_under_way, set_up, tear_down),
        cmocka_unit_test_setup_teardown(goodbye_that_cannot_be_said_is_given_up_in_two_seconds, set_up, tear_down),
        cmocka_unit_test_setup_teardown(owner_that_lets_go_may_bring_the_end_forward, set_up, tear_down),
        cmocka_unit_test_setup_teardown(transport_that_lets_go_late_is_asked_until_it_has, set_up, tear_down),
        cmocka_unit_test_setup_teardown(session_that_ends_waits_for_no_device, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
