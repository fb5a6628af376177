/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What an instance of the "verbs" p2p provider makes of a device that refuses or breaks, and of strange greetings; over
 * the device of rc_world.h.
 */
#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/random.h"
#include "rc_world.h"
#include "rdma_loaded.h"

enum { FRIEND = 5, OTHER = 6, MOST_CREATIONS = 1000, LENGTH = 8 * TT_RC_BOUNCE_BYTES };

static struct tt_rc *rc;

static void begin(bool own_receives)
{
    rc = rc_begin(own_receives);
}

static void end(void)
{
    rc_end(rc);
}

static uint32_t turn(enum tt_p2p_event_type wanted)
{
    return rc_turn(rc, wanted);
}

static void complete_greetings(void)
{
    rc_greetings_leave(rc);
}

static uint32_t count_descriptors(void)
{
    DIR *directory = opendir("/proc/self/fd");
    uint32_t count = 0;

    assert_non_null(directory);
    while (readdir(directory) != NULL) {
        count++;
    }
    closedir(directory);
    return count;
}

/* --- Refusals ----------------------------------------------------------------------------------------------------- */

static void instance_leaves_nothing_whichever_creation_is_refused(void **state)
{
    uint32_t descriptors = count_descriptors();

    (void)state;
    for (int own_receives = 0; own_receives <= 1; own_receives++) {
        struct tt_p2p *p2p = NULL;
        uint32_t refused = 0, failures = 0;
        do {
            rc_reset();
            uint32_t living = world.living;
            world.refused_creation = ++refused;
            if (rc_create(own_receives != 0, &p2p) == TUTTI_OK) {
                p2p->ops->destroy(p2p); /* without shared receives, or all was made */
            } else {
                failures++;
            }
            assert_int_equal(world.living, living);
            assert_int_equal(count_descriptors(), descriptors);
            rc_forget_device();
        } while (world.creations >= refused && refused < MOST_CREATIONS);
        assert_in_range(refused, 5, MOST_CREATIONS - 1);
        assert_in_range(failures, refused - 2, refused);
    }
}

static void connection_leaves_nothing_whichever_creation_is_refused(void **state)
{
    (void)state;
    for (int own_receives = 0; own_receives <= 1; own_receives++) {
        uint8_t address[TT_RC_ADDRESS_BYTES];
        struct tt_p2p_peer *peer = NULL;
        uint32_t refused = 0;
        const struct tt_rc_address other = rc_stranger(FRIEND);
        tt_rc_address_encode(&other, address);
        begin(own_receives != 0);
        do {
            uint32_t before = world.creations, living = world.living - world.handles;
            world.refused_creation = before + ++refused;
            tutti_status status =
                rc->session.base.ops->connect(&rc->session.base, address, sizeof(address), FRIEND, &peer);
            assert_true(status == TUTTI_OK || world.living - world.handles == living);
        } while (peer == NULL && refused < MOST_CREATIONS);
        assert_in_range(refused, 3, MOST_CREATIONS - 1);
        world.refused_creation = 0;
        end();
    }
}

/* Connects until there is no room for more; how many connections came up. */
static uint32_t fill(void)
{
    enum { MOST = 200 };
    uint8_t address[TT_RC_ADDRESS_BYTES];
    struct tt_p2p_peer *peer = NULL;
    uint32_t count = 0;

    for (; count < MOST; count++) {
        const struct tt_rc_address other = rc_stranger(FRIEND + count);
        const struct tt_rc_greeting hello = {
            .kind = TT_RC_HELLO, .stage = TT_RC_OPEN, .queue_pair = 1000 + count, .from = other};
        tt_rc_address_encode(&other, address);
        if (rc->session.base.ops->connect(&rc->session.base, address, sizeof(address), FRIEND + count, &peer) !=
            TUTTI_OK) {
            break;
        }
        rc_hear(rc, &hello);
        assert_int_equal(tt_rc_peer_of(peer)->session.phase, TT_SESSION_OPEN);
        complete_greetings();
        turn(TT_P2P_FRAME);
    }
    return count;
}

/* Not every driver resizes completion queues. */
static void sixty_connections_come_up_where_completion_queues_cannot_grow(void **state)
{
    (void)state;
    for (int own_receives = 0; own_receives <= 1; own_receives++) {
        begin(own_receives != 0);
        world.resize_error = EOPNOTSUPP;
        assert_in_range(fill(), 60, 64);
        assert_non_null(strstr(tt_last_error(), "of 65 connections"));
        assert_non_null(strstr(tt_last_error(), "TUTTI_P2P=tcp"));
        end();
    }
}

static void device_with_few_completions_has_as_many_connections_as_fit(void **state)
{
    struct tt_p2p *p2p = NULL;

    (void)state;
    rc_reset();
    world.device.attributes.max_cqe = TT_RC_SHARED_RECEIVES + TT_RC_GREETINGS_IN;
    assert_int_equal(rc_create(false, &p2p), TUTTI_OK);
    rc = tt_rc_of(p2p);
    assert_int_equal(fill(), (TT_RC_SHARED_RECEIVES + TT_RC_GREETINGS_IN - TT_RC_GREETINGS_OUT) / TT_RC_SEND_DEPTH);
    assert_non_null(strstr(tt_last_error(), "TUTTI_P2P=tcp"));
    end();
}

/* --- Times -------------------------------------------------------------------------------------------------------- */

static void acknowledgement_is_waited_for_as_long_as_asked_in_powers_of_two(void **state)
{
    /* 4.096 us << code is the least that is not below. */
    static const struct {
        uint64_t asked_ns;
        uint8_t code;
    } cases[] = {{0, 14},        {4096, 1},      {8192, 1},        {8193, 2},
                 {67108864, 14}, {67108865, 15}, {1000000000, 18}, {UINT64_C(60000000000), 24}};
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct tt_p2p *p2p = NULL;
        rc_reset();
        world.device.traffic_class = (uint8_t)(100 + i);
        assert_int_equal(rc_create_patient(cases[i].asked_ns, &p2p), TUTTI_OK);
        rc = tt_rc_of(p2p);
        rc->soft = false;
        rc_connected(rc, FRIEND);
        assert_int_equal(world.ack_timeout, cases[i].code);
        assert_int_equal(world.traffic_class, 100 + i);
        end();
    }
}

static void queue_pairs_are_of_the_chosen_partition_and_service_level(void **state)
{
    struct tt_p2p *p2p = NULL;

    (void)state;
    rc_reset();
    world.device.pkey_index = 3;
    world.device.service_level = 5;
    assert_int_equal(rc_create(false, &p2p), TUTTI_OK);
    rc = tt_rc_of(p2p);
    assert_int_equal(world.pkey_index, 3); /* the service's */
    world.pkey_index = 0;
    rc_connected(rc, FRIEND);
    assert_int_equal(world.pkey_index, 3);
    assert_int_equal(world.service_level, 5);
    end();
}

/* --- Greetings ---------------------------------------------------------------------------------------------------- */

static void news_of_the_end_of_what_never_was_makes_nothing(void **state)
{
    (void)state;
    begin(false);
    uint32_t living = world.living;
    rc_hear(rc, &(struct tt_rc_greeting){.kind = TT_RC_GONE, .from = rc_stranger(FRIEND)});
    assert_int_equal(world.living, living);
    assert_int_equal(rc->session.strangers, 0);
    end();
}

/* The system may know the way later: an interface comes up, a neighbour answers. */
static void way_that_was_not_known_is_looked_for_again(void **state)
{
    const struct tt_rc_address other = rc_stranger(FRIEND);
    uint8_t address[TT_RC_ADDRESS_BYTES];
    struct tt_p2p_peer *peer = NULL;

    (void)state;
    begin(false);
    tt_rc_address_encode(&other, address);
    world.knows_no_way = true;
    assert_int_equal(rc->session.base.ops->connect(&rc->session.base, address, sizeof(address), FRIEND, &peer),
                     TUTTI_OK);
    assert_int_equal(turn(TT_P2P_PEER_DOWN), 1);
    peer->ops->disconnect(peer);
    world.knows_no_way = false;
    peer = rc_connected(rc, FRIEND + 100);
    peer->ops->disconnect(peer);
    assert_int_equal(rc->session.base.ops->connect(&rc->session.base, address, sizeof(address), FRIEND, &peer),
                     TUTTI_OK);
    assert_int_equal(turn(TT_P2P_PEER_DOWN), 0);
    assert_int_equal(tt_rc_peer_of(peer)->session.phase, TT_SESSION_GREETING);
    end();
}

/* Greets until so much time would have passed, or it is given up; returns how much has. */
static uint64_t greet_for(struct tt_rc_peer *peer, uint64_t time_ns, uint32_t *downs)
{
    uint64_t passed_ns = 0;

    for (*downs = 0; *downs == 0 && passed_ns < time_ns; *downs += turn(TT_P2P_PEER_DOWN)) {
        assert_true(peer->greet_ns > rc->session.now_ns);
        passed_ns += peer->greet_ns - rc->session.now_ns;
        peer->greet_ns = rc->session.due_ns = 0;
        complete_greetings();
    }
    return passed_ns;
}

/* It computes, and does not know that it is connected to; a collective waits for it for longer. */
static void who_is_late_to_greet_is_greeted_for_as_long_as_others_wait(void **state)
{
    const struct tt_rc_greeting late = {
        .kind = TT_RC_HELLO, .stage = TT_RC_OPEN, .queue_pair = 9, .from = rc_stranger(FRIEND)};
    const struct tt_rc_address dead = rc_stranger(OTHER);
    uint8_t address[TT_RC_ADDRESS_BYTES];
    struct tt_p2p_peer *peer = NULL;
    uint32_t downs;

    (void)state;
    begin(false);
    tt_rc_address_encode(&late.from, address);
    assert_int_equal(rc->session.base.ops->connect(&rc->session.base, address, sizeof(address), FRIEND, &peer),
                     TUTTI_OK);
    assert_in_range(greet_for(tt_rc_peer_of(peer), 20 * TT_NS_PER_S, &downs), 20 * TT_NS_PER_S, 22 * TT_NS_PER_S);
    assert_int_equal(downs, 0);
    rc_hear(rc, &late);
    assert_int_equal(tt_rc_peer_of(peer)->session.phase, TT_SESSION_OPEN);
    tt_rc_address_encode(&dead, address);
    assert_int_equal(rc->session.base.ops->connect(&rc->session.base, address, sizeof(address), OTHER, &peer),
                     TUTTI_OK);
    assert_in_range(greet_for(tt_rc_peer_of(peer), 60 * TT_NS_PER_S, &downs), 25 * TT_NS_PER_S, 29 * TT_NS_PER_S);
    assert_int_equal(downs, 1);
    end();
}

/* Whoever knows the instance's name can say anything, in any order, while connections come and go. */
static void greetings_of_any_content_break_nothing_and_make_no_more_than_they_may(void **state)
{
    enum { GREETINGS = 3000, INSTANCES = 3, AHEAD = 64 };
    struct tt_random random;
    struct tt_p2p_peer *peers[INSTANCES] = {NULL};

    (void)state;
    begin(false);
    tt_random_init(&random, 1);
    for (uint32_t i = 0; i < GREETINGS; i++) {
        uint32_t who = (uint32_t)tt_random_below(&random, INSTANCES);
        struct tt_rc_greeting greeting = {.kind = tt_random_below(&random, 8) > 0 ? TT_RC_HELLO : TT_RC_GONE,
                                          .stage = (enum tt_rc_stage)tt_random_below(&random, TT_RC_OPEN + 1),
                                          .serial = (uint32_t)(tt_random_below(&random, 80) - 8), /* some beyond all */
                                          .queue_pair = (uint32_t)tt_random_below(&random, TT_RC_PSN_MASK),
                                          .psn = (uint32_t)tt_random_below(&random, TT_RC_PSN_MASK),
                                          .from = rc_stranger(FRIEND + who)};
        uint8_t address[TT_RC_ADDRESS_BYTES];
        tt_rc_address_encode(&greeting.from, address);
        if (tt_random_below(&random, 50) == 0 && peers[who] == NULL) {
            assert_int_equal(
                rc->session.base.ops->connect(&rc->session.base, address, sizeof(address), who, &peers[who]), TUTTI_OK);
        } else if (tt_random_below(&random, 50) == 0 && peers[who] != NULL) {
            peers[who]->ops->disconnect(peers[who]);
            peers[who] = NULL;
        }
        greeting.from.mtu = (uint8_t)(1 + tt_random_below(&random, 5));
        greeting.from.reads_in = (uint8_t)(1 + tt_random_below(&random, UINT8_MAX));
        greeting.from.lid = (uint16_t)tt_random_below(&random, UINT16_MAX);
        complete_greetings();
        rc_hear(rc, &greeting);
    }
    tt_session_check(&rc->session);
    assert_in_range(world.handles, 1, INSTANCES * (AHEAD + GREETINGS / 100) + 1);
    assert_in_range(rc->queue_pairs, 1, INSTANCES * (AHEAD + GREETINGS / 100));
    end();
}

/* --- Breaks ------------------------------------------------------------------------------------------------------- */

/* Some devices break a datagram queue pair over one that is too long. All that it held comes back; the number of the
 * queue pair, which others know, stays. */
static void broken_queue_pair_of_greetings_is_started_again(void **state)
{
    (void)state;
    begin(false);
    assert_int_equal(world.hearing_count, TT_RC_GREETINGS_IN);
    rc->service->state = IBV_QPS_ERR;
    for (uint32_t i = 0; i < TT_RC_GREETINGS_IN; i++) {
        world.received[world.received_count++] = (struct ibv_wc){
            .wr_id = (uintptr_t)&world.hearing[i]->work, .status = i == 0 ? IBV_WC_LOC_LEN_ERR : IBV_WC_WR_FLUSH_ERR};
    }
    world.hearing_count = 0;
    for (int i = 0; i < 4; i++) {
        turn(TT_P2P_FRAME);
    }
    assert_int_equal(world.restarts, 1);
    assert_int_equal(rc->service->state, IBV_QPS_RTS);
    assert_int_equal(world.hearing_count, TT_RC_GREETINGS_IN);
    (void)rc_connected(rc, FRIEND);
    end();
}

static void completion_queue_that_breaks_takes_all_connections_down(void **state)
{
    (void)state;
    begin(false);
    (void)rc_connected(rc, FRIEND);
    (void)rc_connected(rc, OTHER);
    world.polls_fail = true;
    uint32_t downs = turn(TT_P2P_PEER_DOWN);
    downs += turn(TT_P2P_PEER_DOWN);
    assert_int_equal(downs, 2);
    end();
}

/* Their handles go behind them: with the service's queue pair, which is the first to go. */
static void instance_may_end_while_greetings_are_on_their_way(void **state)
{
    const struct tt_rc_greeting late = {
        .kind = TT_RC_HELLO, .serial = 1000, .queue_pair = 9, .from = rc_stranger(OTHER)};

    (void)state;
    begin(false);
    struct tt_p2p_peer *peer = rc_connected(rc, FRIEND);
    rc_hear(rc, &late); /* is answered with GONE */
    assert_int_equal(world.handles, 2);
    tt_session_fail(&tt_rc_peer_of(peer)->session, "the test ends it");
    rc->session.base.ops->destroy(&rc->session.base);
    rc_forget_device();
}

/* What the other side begins, where there is no room: its repetition may find some. */
static void greeting_that_finds_no_room_leaves_nothing_and_may_come_again(void **state)
{
    enum { ENDS_NEED = 3 }; /* a queue pair, its state, a handle */
    const struct tt_rc_greeting hello = {.kind = TT_RC_HELLO, .queue_pair = 9, .from = rc_stranger(FRIEND)};
    uint8_t address[TT_RC_ADDRESS_BYTES];
    struct tt_p2p_peer *peer = NULL;

    (void)state;
    begin(false);
    uint32_t living = world.living;
    for (uint32_t refused = 1; refused <= ENDS_NEED; refused++) {
        world.refused_creation = world.creations + refused;
        rc_hear(rc, &hello);
        assert_int_equal(world.creations, world.refused_creation);
        assert_int_equal(world.living, living);
    }
    world.refused_creation = 0;
    rc_hear(rc, &hello);
    assert_int_equal(rc->queue_pairs, 1);
    tt_rc_address_encode(&hello.from, address);
    assert_int_equal(rc->session.base.ops->connect(&rc->session.base, address, sizeof(address), FRIEND, &peer),
                     TUTTI_OK);
    assert_int_equal(turn(TT_P2P_PEER_DOWN), 0);
    end();
}

/* The device gives back nothing of what the first one had posted. */
static void buffers_of_a_connection_that_is_given_up_go_to_those_that_wait(void **state)
{
    const struct tt_rc_key key = {.rkey = 1, .length_bytes = LENGTH};
    uint8_t packed[TT_RC_KEY_BYTES], *local = calloc(3, LENGTH);

    (void)state;
    begin(false);
    struct tt_p2p_peer *first = rc_connected(rc, FRIEND), *second = rc_connected(rc, OTHER);
    assert_non_null(local);
    tt_rc_key_encode(&key, packed);
    assert_int_equal(first->ops->get(first, packed, sizeof(packed), 0, local, LENGTH, 1), TUTTI_OK);
    assert_int_equal(first->ops->put(first, packed, sizeof(packed), 0, local + LENGTH, LENGTH,
                                     &(struct tt_p2p_immediate){.value = 1}, 2),
                     TUTTI_OK);
    assert_null(rc->bounces.free);
    assert_int_equal(second->ops->get(second, packed, sizeof(packed), 0, local + 2 * LENGTH, LENGTH, 3), TUTTI_OK);
    assert_int_equal(rc_count_posted(IBV_WR_RDMA_READ), TT_RC_READS_AT_ONCE);
    tt_session_fail(&tt_rc_peer_of(first)->session, "the test ends it");
    uint32_t done = 0;
    for (int i = 0; i < 1000 && done < 2; i++) { /* the device has its time to give back */
        done += turn(TT_P2P_DONE);
        usleep(1000);
    }
    assert_int_equal(done, 2);
    assert_int_equal(rc_count_posted(IBV_WR_RDMA_READ), 2 * TT_RC_READS_AT_ONCE);
    end();
    free(local);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(instance_leaves_nothing_whichever_creation_is_refused),
        cmocka_unit_test(connection_leaves_nothing_whichever_creation_is_refused),
        cmocka_unit_test(sixty_connections_come_up_where_completion_queues_cannot_grow),
        cmocka_unit_test(device_with_few_completions_has_as_many_connections_as_fit),
        cmocka_unit_test(acknowledgement_is_waited_for_as_long_as_asked_in_powers_of_two),
        cmocka_unit_test(queue_pairs_are_of_the_chosen_partition_and_service_level),
        cmocka_unit_test(news_of_the_end_of_what_never_was_makes_nothing),
        cmocka_unit_test(way_that_was_not_known_is_looked_for_again),
        cmocka_unit_test(who_is_late_to_greet_is_greeted_for_as_long_as_others_wait),
        cmocka_unit_test(greetings_of_any_content_break_nothing_and_make_no_more_than_they_may),
        cmocka_unit_test(broken_queue_pair_of_greetings_is_started_again),
        cmocka_unit_test(completion_queue_that_breaks_takes_all_connections_down),
        cmocka_unit_test(instance_may_end_while_greetings_are_on_their_way),
        cmocka_unit_test(greeting_that_finds_no_room_leaves_nothing_and_may_come_again),
        cmocka_unit_test(buffers_of_a_connection_that_is_given_up_go_to_those_that_wait),
    };

    return cmocka_run_group_tests(tests, rdma_load, NULL);
}
