/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the owner of a connection of the "verbs" p2p provider is told when it breaks, and what comes before that; over
 * the device of rc_world.h.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "rc_world.h"
#include "rdma_loaded.h"

enum { FRIEND = 5 };

static struct tt_rc *rc;

/* A connection over which nobody acknowledges what was sent last. */
static struct tt_p2p_peer *cut_off(void)
{
    struct tt_p2p_peer *peer = rc_connected(rc, FRIEND);

    rc_greetings_leave(rc);
    rc_turn(rc, TT_P2P_FRAME);
    assert_int_equal(tt_p2p_send(peer, "frame", 5, false), TUTTI_OK);
    assert_int_equal(world.posted_count, 1);
    world.sent[world.sent_count++] = (struct ibv_wc){
        .wr_id = world.posted[0].id, .status = IBV_WC_RETRY_EXC_ERR, .qp_num = tt_rc_peer_of(peer)->queue_pair->qp_num};
    return peer;
}

/* In words, with the device: who reads them has several. */
static void owner_is_told_why_a_connection_broke(void **state)
{
    struct tt_p2p_event event = {0};

    (void)state;
    rc = rc_begin(false);
    struct tt_p2p_peer *peer = cut_off();
    assert_int_equal(rc->session.base.ops->progress(&rc->session.base, &event, 1), 1);
    assert_int_equal(event.type, TT_P2P_PEER_DOWN);
    assert_int_equal(event.peer_cookie, FRIEND);
    assert_string_equal(event.data, "device hollow0: transport retry counter exceeded");
    assert_int_equal(tt_p2p_send(peer, "frame", 5, false), TUTTI_ERR_PEER_FAILED);
    rc_end(rc);
}

/* What the queue pair gives back may be seen in the same look. */
static void owner_is_told_what_broke_the_queue_pair_and_not_that_it_broke(void **state)
{
    struct tt_p2p_event event = {0};

    (void)state;
    rc = rc_begin(true);
    struct tt_p2p_peer *peer = cut_off();
    world.received[world.received_count++] =
        (struct ibv_wc){.wr_id = (uintptr_t)&world.offered[--world.offered_count]->work,
                        .status = IBV_WC_WR_FLUSH_ERR,
                        .qp_num = tt_rc_peer_of(peer)->queue_pair->qp_num};
    assert_int_equal(rc->session.base.ops->progress(&rc->session.base, &event, 1), 1);
    assert_int_equal(event.type, TT_P2P_PEER_DOWN);
    assert_string_equal(event.data, "device hollow0: transport retry counter exceeded");
    rc_end(rc);
}

/* Its goodbye had come, and then its queue pair went, under what was still sent to it. */
static void who_has_left_is_said_to_have_left_though_something_to_it_failed(void **state)
{
    struct tt_p2p_event event = {0};

    (void)state;
    rc = rc_begin(false);
    rc_message(cut_off(), TT_RC_BYE, 0);
    assert_int_equal(rc->session.base.ops->progress(&rc->session.base, &event, 1), 1);
    assert_int_equal(event.type, TT_P2P_PEER_DOWN);
    assert_string_equal(event.data, "it has left");
    rc_end(rc);
}

/* More than one progress hands out. A device takes what was not looked at along with the queue pair, and the buffers
 * that it lies in, which all connections share. */
static void frames_that_have_come_are_handed_out_before_their_queue_pair_goes(void **state)
{
    enum { FRAMES = 100, AT_ONCE = 64 };
    struct tt_p2p_event events[AT_ONCE];
    uint32_t frames = 0, downs = 0;

    (void)state;
    rc = rc_begin(false);
    struct tt_p2p_peer *peer = cut_off();
    for (int i = 0; i < FRAMES; i++) {
        rc_message(peer, TT_RC_FRAME, 1);
    }
    for (int i = 0; i < 1000 && (downs == 0 || tt_rc_peer_of(peer)->queue_pair != NULL); i++) {
        uint32_t count = rc->session.base.ops->progress(&rc->session.base, events, AT_ONCE);
        for (uint32_t k = 0; k < count; k++) {
            assert_int_equal(events[k].peer_cookie, FRIEND);
            downs += events[k].type == TT_P2P_PEER_DOWN;
            frames += events[k].type == TT_P2P_FRAME && downs == 0;
        }
        usleep(1000);
    }
    assert_int_equal(frames, FRAMES);
    assert_int_equal(downs, 1);
    assert_null(tt_rc_peer_of(peer)->queue_pair);
    rc_turn(rc, TT_P2P_FRAME);
    assert_int_equal(world.offered_count, TT_RC_SHARED_RECEIVES);
    rc_end(rc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(owner_is_told_why_a_connection_broke),
        cmocka_unit_test(owner_is_told_what_broke_the_queue_pair_and_not_that_it_broke),
        cmocka_unit_test(who_has_left_is_said_to_have_left_though_something_to_it_failed),
        cmocka_unit_test(frames_that_have_come_are_handed_out_before_their_queue_pair_goes),
    };

    return cmocka_run_group_tests(tests, rdma_load, NULL);
}
