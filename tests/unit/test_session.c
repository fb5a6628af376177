/* SPDX-License-Identifier: BSD-3-Clause */
/* What a session keeps of those who greet it, over a transport that does nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "fabric/session/session.h"

enum { ADDRESS_BYTES = 4 };

static struct tt_session session;

static void do_nothing(struct tt_session_peer *peer)
{
    assert_ptr_equal(peer->session, &session);
}

static tutti_status begin(struct tt_session_peer *peer)
{
    do_nothing(peer);
    return TUTTI_OK;
}

static void cancel(struct tt_session_peer *peer, tutti_status status)
{
    do_nothing(peer);
    assert_int_not_equal(status, TUTTI_OK);
}

static int set_up(void **state)
{
    static const struct tt_p2p_ops p2p = {.name = "nothing"};
    static const struct tt_session_ops ops = {.peer_bytes = sizeof(struct tt_session_peer),
                                              .init = do_nothing,
                                              .begin = begin,
                                              .cancel = cancel,
                                              .close = do_nothing,
                                              .fini = do_nothing};

    (void)state;
    memset(&session, 0, sizeof session);
    tt_session_init(&session, &p2p, &ops, "own", ADDRESS_BYTES);
    return 0;
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

static void who_is_refused_is_forgotten(void **state)
{
    (void)state;
    assert_null(greet(1, TT_SESSION_SERIALS_AHEAD));
    session.ending = true;
    assert_null(greet(2, 0));
    assert_int_equal(session.strangers, 0);
    assert_true(TAILQ_EMPTY(&session.peers));
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(who_is_refused_is_forgotten, set_up, tear_down),
        cmocka_unit_test_setup_teardown(so_many_strangers_are_let_in_and_known_ones_beyond_that, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
