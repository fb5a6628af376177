/* SPDX-License-Identifier: BSD-3-Clause */
/* The faults of the simulator: dice, stalls, crashes, connections that break, memory that is not registered. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sim_world.h"
#include "tutti/status.h"

/* --- Faults ----------------------------------------------------------------------------------------------------- */

static void lost_chunks_follow_their_share_until_healed(void **state)
{
    (void)state;
    struct tt_sim_options options = sim_plain_options(3);
    options.faults.loss_ppm = 200000;
    struct sim_world *world = sim_create_world(&options);
    uint32_t received[3] = {0};
    for (uint32_t round = 0; round < 100; round++) {
        sim_post(world, 0, 0, 50, 10);
        tt_sim_advance(world->sim, tt_sim_now(world->sim) + TT_NS_PER_MS);
        for (uint32_t i = 1; i < 3; i++) {
            received[i] += sim_drain(world, i, NULL);
        }
    }
    for (uint32_t i = 1; i < 3; i++) {
        assert_int_equal(sim_port_of(world, i).lost + received[i], 5000);
        assert_in_range(received[i], 3800, 4200);
    }
    assert_int_not_equal(received[1], received[2]); /* their dice differ */
    tt_sim_set_healed(world->sim, true);
    sim_post(world, 0, 0, 50, 10);
    tt_sim_advance(world->sim, tt_sim_now(world->sim) + TT_NS_PER_MS);
    assert_int_equal(sim_drain(world, 1, NULL), 50);
    sim_destroy_world(world);
}

static void faults_of_one_node_leave_the_others_alone(void **state)
{
    (void)state;
    const struct tt_sim_options options = sim_plain_options(3);
    struct sim_world *world = sim_create_world(&options);
    tt_sim_set_faults(world->sim, 1, &(struct tt_sim_faults){.loss_ppm = 1000000});
    sim_post(world, 0, 0, 5, 10);
    tt_sim_advance(world->sim, TT_NS_PER_MS);
    assert_int_equal(sim_drain(world, 1, NULL), 0);
    assert_int_equal(sim_drain(world, 2, NULL), 5);
    sim_destroy_world(world);
}

static void named_chunk_is_dropped_the_given_number_of_times(void **state)
{
    (void)state;
    const struct tt_sim_options options = sim_plain_options(3);
    struct sim_world *world = sim_create_world(&options);
    tt_sim_drop_chunk(world->sim, 1, 2, 1);
    sim_post(world, 0, 0, 4, 10);
    tt_sim_advance(world->sim, TT_NS_PER_MS);
    uint32_t imms[SIM_CAPACITY];
    assert_int_equal(sim_drain(world, 1, imms), 3);
    assert_int_equal(imms[2], 3);
    assert_int_equal(sim_drain(world, 2, NULL), 4);
    sim_post(world, 0, 2, 1, 10);
    tt_sim_advance(world->sim, 2 * TT_NS_PER_MS);
    assert_int_equal(sim_drain(world, 1, NULL), 1);
    sim_destroy_world(world);
}

static void late_chunks_are_overtaken_and_copies_arrive(void **state)
{
    (void)state;
    struct tt_sim_options options = sim_plain_options(2);
    options.faults.reorder_ppm = 300000;
    options.faults.reorder_ns = 1000;
    options.faults.duplicate_ppm = 300000;
    struct sim_world *world = sim_create_world(&options);
    uint32_t imms[SIM_CAPACITY], seen[30] = {0}, overtaken = 0;
    sim_post(world, 0, 0, 30, 10);
    tt_sim_advance(world->sim, TT_NS_PER_MS);
    const uint32_t count = sim_drain(world, 1, imms);
    for (uint32_t i = 0; i < count; i++) {
        seen[imms[i]]++;
        overtaken += i > 0 && imms[i] < imms[i - 1];
    }
    for (uint32_t i = 0; i < 30; i++) {
        assert_in_range(seen[i], 1, 2);
    }
    const struct tt_sim_port port = sim_port_of(world, 1);
    assert_true(overtaken > 0 && port.reordered > 0 && port.duplicated > 0);
    assert_int_equal(count, 30 + port.duplicated);
    sim_destroy_world(world);
}

static void spike_stops_the_downlink_for_its_time(void **state)
{
    (void)state;
    struct tt_sim_options options = sim_plain_options(2);
    options.faults.spike_ppm = 1000000;
    options.faults.spike_ns = 50000;
    struct sim_world *world = sim_create_world(&options);
    sim_post(world, 0, 0, 2, 1000);
    tt_sim_advance(world->sim, 16200 + 50000 - 1);
    assert_int_equal(sim_drain(world, 1, NULL), 0);
    tt_sim_advance(world->sim, 16200 + 50000);
    assert_int_equal(sim_drain(world, 1, NULL), 1);
    tt_sim_advance(world->sim, 24200 + 2 * 50000);
    assert_int_equal(sim_drain(world, 1, NULL), 1);
    assert_int_equal(sim_port_of(world, 1).spikes, 2);
    sim_destroy_world(world);
}

static void frames_keep_their_order_when_some_are_retransmitted(void **state)
{
    (void)state;
    struct tt_sim_options options = sim_plain_options(2);
    options.faults =
        (struct tt_sim_faults){.loss_ppm = 200000, .reorder_ppm = 300000, .reorder_ns = 100000, .retransmit_ns = 50000};
    struct sim_world *world = sim_create_world(&options);
    struct tt_p2p_event events[SIM_CAPACITY];
    struct tt_p2p_peer *peer = world->peers[0][1];
    for (uint32_t i = 0; i < 60; i++) {
        assert_int_equal(tt_p2p_send(peer, &i, sizeof(i), false), TUTTI_OK);
    }
    tt_sim_advance(world->sim, 100 * TT_NS_PER_MS);
    assert_int_equal(sim_progress(world, 1, events), 60);
    for (uint32_t i = 0; i < 60; i++) {
        assert_memory_equal(events[i].data, &i, sizeof(i));
    }
    assert_true(sim_port_of(world, 1).retransmitted > 0);
    assert_true(sim_port_of(world, 1).reordered > 0);
    sim_destroy_world(world);
}

/* --- Stalls and crashes ----------------------------------------------------------------------------------------- */

static void stalled_node_receives_and_serves_but_does_not_run(void **state)
{
    (void)state;
    const struct tt_sim_options options = sim_plain_options(3);
    struct sim_world *world = sim_create_world(&options);
    const struct sim_registration registration = sim_register_memory(world, 1);
    struct tt_p2p_event events[SIM_CAPACITY];
    unsigned char local[100];
    uint32_t node;

    tt_sim_stall(world->sim, 1, 500000);
    tt_sim_stall(world->sim, 1, 400000); /* does not shorten it */
    sim_post(world, 0, 0, 3, 10);
    sim_get(world, 2, 1, &registration, 0, 100, local, 1);
    tt_sim_advance(world->sim, 499999);
    assert_true(tt_sim_is_stalled(world->sim, 1));
    assert_int_equal(sim_drain(world, 1, NULL), 0);
    assert_int_equal(sim_progress(world, 2, events), 1); /* the NIC served it */
    while (tt_sim_take_ready(world->sim, &node)) {
        assert_int_not_equal(node, 1);
    }
    tt_sim_advance(world->sim, 500000);
    assert_false(tt_sim_is_stalled(world->sim, 1));
    assert_true(tt_sim_take_ready(world->sim, &node));
    assert_int_equal(node, 1);
    assert_int_equal(sim_drain(world, 1, NULL), 3);
    sim_destroy_world(world);
}

static void crash_is_noticed_by_all_after_the_detection_time(void **state)
{
    (void)state;
    const struct tt_sim_options options = sim_plain_options(4);
    struct sim_world *world = sim_create_world(&options);
    const struct sim_registration registration = sim_register_memory(world, 2);
    struct tt_p2p_event events[SIM_CAPACITY];
    unsigned char local[3000];

    sim_get(world, 0, 2, &registration, 0, 3000, local, 11);
    sim_post(world, 2, 0, 5, 1000);
    tt_sim_crash(world->sim, 2, 9000);
    tt_sim_advance(world->sim, 13999);
    assert_true(tt_sim_is_crashed(world->sim, 2));
    assert_int_equal(sim_progress(world, 1, events), 0);
    tt_sim_advance(world->sim, 14000);
    for (uint32_t i = 0; i < 4; i++) {
        const uint32_t count = sim_progress(world, i, events);
        assert_int_equal(count, i == 2 ? 0 : i == 0 ? 2 : 1);
        for (uint32_t j = 0; j < count; j++) {
            if (events[j].type == TT_P2P_PEER_DOWN) {
                assert_int_equal(events[j].peer_cookie, 2);
            } else {
                assert_int_equal(events[j].type, TT_P2P_DONE);
                assert_int_equal(events[j].status, TUTTI_ERR_PEER_FAILED);
            }
        }
    }
    struct tt_p2p_peer *peer = world->peers[1][2];
    assert_int_equal(tt_p2p_send(peer, "x", 1, false), TUTTI_ERR_PEER_FAILED);
    tt_sim_advance(world->sim, TT_NS_PER_S);
    assert_int_equal(sim_progress(world, 1, events), 0); /* once */
    assert_int_equal(sim_drain(world, 1, NULL), 1);      /* what had left the uplink by 9000 ns */
    sim_destroy_world(world);
}

static void farewell_and_crash_together_give_one_peer_down(void **state)
{
    (void)state;
    const struct tt_sim_options options = sim_plain_options(2);
    struct sim_world *world = sim_create_world(&options);
    struct tt_p2p_event events[SIM_CAPACITY];
    struct tt_p2p_peer *peer = world->peers[1][0];
    peer->ops->disconnect(peer);
    tt_sim_crash(world->sim, 1, 150); /* the farewell is at the switch */
    tt_sim_advance(world->sim, 1000);
    assert_int_equal(sim_progress(world, 0, events), 1);
    assert_int_equal(events[0].type, TT_P2P_PEER_DOWN);
    tt_sim_advance(world->sim, TT_NS_PER_S);
    assert_int_equal(sim_progress(world, 0, events), 0);
    sim_destroy_world(world);
}

static void destroy_sends_its_last_frames_however_long_they_take(void **state)
{
    (void)state;
    const struct tt_sim_options options = sim_plain_options(2);
    struct sim_world *world = sim_create_world(&options);
    struct tt_p2p_event events[SIM_CAPACITY];
    struct tt_p2p_peer *peer = world->peers[1][0];
    for (uint32_t i = 0; i < 20; i++) { /* 8 us each, where a crash is noticed after 5 us */
        assert_int_equal(tt_p2p_send(peer, world->memory[1], 1000, false), TUTTI_OK);
    }
    world->p2p[1]->ops->destroy(world->p2p[1]);
    tt_sim_advance(world->sim, TT_NS_PER_S);
    assert_int_equal(sim_progress(world, 0, events), 21);
    assert_int_equal(events[19].type, TT_P2P_FRAME);
    assert_int_equal(events[20].type, TT_P2P_PEER_DOWN);
    sim_destroy_world(world);
}

static void connecting_to_the_dead_ends_in_peer_down(void **state)
{
    (void)state;
    const struct tt_sim_options options = sim_plain_options(2);
    struct tt_sim *sim = tt_sim_create(&options);
    assert_non_null(sim);
    struct tt_p2p *p2p[2] = {tt_sim_p2p(sim, 0), tt_sim_p2p(sim, 1)};
    unsigned char address[TT_P2P_MAX_ADDRESS_BYTES];
    size_t length_bytes = sizeof(address);
    struct tt_p2p_peer *peer;
    struct tt_p2p_event events[SIM_CAPACITY];

    assert_int_equal(p2p[1]->ops->address(p2p[1], address, &length_bytes), TUTTI_OK);
    tt_sim_crash(sim, 1, 0);
    assert_int_equal(p2p[0]->ops->connect(p2p[0], address, length_bytes, 42, &peer), TUTTI_OK);
    tt_sim_advance(sim, 5000);
    assert_int_equal(p2p[0]->ops->progress(p2p[0], events, SIM_CAPACITY), 1);
    assert_int_equal(events[0].type, TT_P2P_PEER_DOWN);
    assert_int_equal(events[0].peer_cookie, 42);
    tt_sim_destroy(sim);
}

/* Both ends hear of it, nothing that was on its way gets through, and others' connections stand. */
static void severed_connection_goes_down_at_both_ends_and_can_be_made_again(void **state)
{
    (void)state;
    const struct tt_sim_options options = sim_plain_options(3);
    struct sim_world *world = sim_create_world(&options);
    const struct sim_registration registration = sim_register_memory(world, 1);
    unsigned char local[3000], address[TT_P2P_MAX_ADDRESS_BYTES];
    struct tt_p2p_event events[SIM_CAPACITY];
    size_t length_bytes = sizeof(address);
    struct tt_p2p_peer *peer[2];

    sim_get(world, 0, 1, &registration, 0, 3000, local, 11);
    assert_int_equal(tt_p2p_send(world->peers[1][0], "x", 1, false), TUTTI_OK);
    tt_sim_sever(world->sim, 1, 0);
    assert_int_equal(tt_p2p_send(world->peers[2][0], "y", 1, false), TUTTI_OK);
    tt_sim_advance(world->sim, 4999);
    assert_int_equal(sim_progress(world, 0, events), 1);
    assert_memory_equal(events[0].data, "y", 1);
    tt_sim_advance(world->sim, 5000);
    assert_int_equal(sim_progress(world, 0, events), 2);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(events[i].type, events[1 - i].type == TT_P2P_DONE ? TT_P2P_PEER_DOWN : TT_P2P_DONE);
        assert_int_equal(events[i].status, TUTTI_ERR_PEER_FAILED);
    }
    assert_int_equal(sim_progress(world, 1, events), 1);
    assert_int_equal(events[0].type, TT_P2P_PEER_DOWN);
    assert_int_equal(events[0].peer_cookie, 0);
    assert_int_equal(sim_progress(world, 2, events), 0);

    for (uint32_t node = 0; node < 2; node++) {
        length_bytes = sizeof(address);
        world->peers[node][1 - node]->ops->disconnect(world->peers[node][1 - node]);
        assert_int_equal(world->p2p[1 - node]->ops->address(world->p2p[1 - node], address, &length_bytes), TUTTI_OK);
        assert_int_equal(world->p2p[node]->ops->connect(world->p2p[node], address, length_bytes, 42, &peer[node]),
                         TUTTI_OK);
        world->peers[node][1 - node] = peer[node];
    }
    assert_int_equal(tt_p2p_send(peer[1], "z", 1, false), TUTTI_OK);
    tt_sim_advance(world->sim, 20000);
    assert_int_equal(sim_progress(world, 0, events), 1);
    assert_memory_equal(events[0].data, "z", 1);
    sim_destroy_world(world);
}

static void chunks_pass_between_parts_of_the_network_once_it_is_healed(void **state)
{
    (void)state;
    const struct tt_sim_options options = sim_plain_options(4);
    struct sim_world *world = sim_create_world(&options);
    tt_sim_set_part(world->sim, 2, 1);
    tt_sim_set_part(world->sim, 3, 1);
    sim_post(world, 0, 0, 5, 10);
    sim_post(world, 3, 5, 2, 10);
    tt_sim_advance(world->sim, TT_NS_PER_MS);
    assert_int_equal(sim_drain(world, 0, NULL), 0);
    assert_int_equal(sim_drain(world, 1, NULL), 5);
    assert_int_equal(sim_drain(world, 2, NULL), 2);
    assert_int_equal(sim_port_of(world, 2).lost, 5);
    tt_sim_set_healed(world->sim, true);
    sim_post(world, 0, 7, 5, 10);
    tt_sim_advance(world->sim, 2 * TT_NS_PER_MS);
    assert_int_equal(sim_drain(world, 2, NULL), 5);
    sim_destroy_world(world);
}

static void refused_registrations_follow_their_share_until_healed(void **state)
{
    (void)state;
    const struct tt_sim_options options = sim_plain_options(2);
    struct sim_world *world = sim_create_world(&options);
    struct tt_sim_faults faults = {.refused_ppm = 250000};
    struct tt_p2p_memory *memory;
    uint32_t refused = 0;

    tt_sim_set_faults(world->sim, 1, &faults);
    assert_true(tt_sim_refuses(world->sim, 1));
    for (uint32_t i = 0; i < 1000; i++) {
        tutti_status status = world->p2p[1]->ops->memory_register(world->p2p[1], world->memory[1], 10, &memory);

        refused += status == TUTTI_ERR_NO_MEMORY;
        assert_int_equal(world->p2p[0]->ops->memory_register(world->p2p[0], world->memory[0], 10, &memory), TUTTI_OK);
    }
    assert_in_range(refused, 200, 300);
    tt_sim_set_healed(world->sim, true);
    assert_false(tt_sim_refuses(world->sim, 1));
    for (uint32_t i = 0; i < 100; i++) {
        assert_int_equal(world->p2p[1]->ops->memory_register(world->p2p[1], world->memory[1], 10, &memory), TUTTI_OK);
    }
    sim_destroy_world(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lost_chunks_follow_their_share_until_healed),
        cmocka_unit_test(faults_of_one_node_leave_the_others_alone),
        cmocka_unit_test(named_chunk_is_dropped_the_given_number_of_times),
        cmocka_unit_test(late_chunks_are_overtaken_and_copies_arrive),
        cmocka_unit_test(spike_stops_the_downlink_for_its_time),
        cmocka_unit_test(frames_keep_their_order_when_some_are_retransmitted),
        cmocka_unit_test(stalled_node_receives_and_serves_but_does_not_run),
        cmocka_unit_test(crash_is_noticed_by_all_after_the_detection_time),
        cmocka_unit_test(farewell_and_crash_together_give_one_peer_down),
        cmocka_unit_test(destroy_sends_its_last_frames_however_long_they_take),
        cmocka_unit_test(connecting_to_the_dead_ends_in_peer_down),
        cmocka_unit_test(severed_connection_goes_down_at_both_ends_and_can_be_made_again),
        cmocka_unit_test(chunks_pass_between_parts_of_the_network_once_it_is_healed),
        cmocka_unit_test(refused_registrations_follow_their_share_until_healed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
