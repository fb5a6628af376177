/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The simulator itself: exact times, counters, memory that is let go too early, replays. What its providers owe to the
 * contracts is in tests/conformance.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sim_world.h"
#include "tutti/status.h"

/* --- Links and the switch --------------------------------------------------------------------------------------- */

static void chunk_arrives_after_two_serializations_and_two_latencies(void **state)
{
    (void)state;
    const struct tt_sim_options options = sim_plain_options(3);
    struct sim_world *world = sim_create_world(&options);

    sim_post(world, 0, 5, 1, 1000);
    assert_int_equal(tt_sim_next_event_time(world->sim), 8000);
    tt_sim_advance(world->sim, 7999);
    assert_int_equal(world->queues[0]->ops->sent(world->queues[0]), 0);
    tt_sim_advance(world->sim, 8000);
    assert_int_equal(world->queues[0]->ops->sent(world->queues[0]), 1);
    tt_sim_advance(world->sim, 16199);
    assert_int_equal(sim_drain(world, 1, NULL), 0);
    tt_sim_advance(world->sim, 16200); /* 8000 + 100 + 8000 + 100, on both downlinks at once */
    assert_int_equal(sim_drain(world, 1, NULL), 1);
    assert_int_equal(sim_drain(world, 2, NULL), 1);
    assert_int_equal(sim_drain(world, 0, NULL), 0);
    assert_int_equal(tt_sim_next_event_time(world->sim), TT_NEVER);
    sim_destroy_world(world);
}

static void broadcast_crosses_every_link_once(void **state)
{
    (void)state;
    const struct tt_sim_options options = sim_plain_options(5);
    struct sim_world *world = sim_create_world(&options);
    sim_post(world, 2, 0, 10, 1000);
    tt_sim_advance(world->sim, TT_NS_PER_MS);
    for (uint32_t i = 0; i < 5; i++) {
        const struct tt_sim_port port = sim_port_of(world, i);
        assert_int_equal(port.received_chunk_bytes, i == 2 ? 10000 : 0);
        assert_int_equal(port.received_bytes, i == 2 ? 10000 : 0);
        assert_int_equal(port.sent_chunk_bytes, i == 2 ? 0 : 10000);
        assert_int_equal(port.sent_packets, i == 2 ? 0 : 10);
    }
    sim_destroy_world(world);
}

static void headers_take_time_and_count_on_the_wire(void **state)
{
    (void)state;
    struct tt_sim_options options = sim_plain_options(2);
    options.header_bytes = 50;
    struct sim_world *world = sim_create_world(&options);
    sim_post(world, 0, 0, 1, 0);
    tt_sim_advance(world->sim, 999);
    assert_int_equal(sim_drain(world, 1, NULL), 0);
    tt_sim_advance(world->sim, 1000); /* 2 * (400 + 100) */
    assert_int_equal(sim_drain(world, 1, NULL), 1);
    assert_int_equal(sim_port_of(world, 1).sent_bytes, 50);
    sim_destroy_world(world);
}

static void uplink_serves_chunks_and_get_data_in_turn(void **state)
{
    (void)state;
    struct tt_sim_options options = sim_plain_options(3);
    FILE *log = tmpfile();
    options.log = log;
    struct sim_world *world = sim_create_world(&options);
    const struct sim_registration registration = sim_register_memory(world, 0);
    unsigned char local[4000];

    sim_get(world, 1, 0, &registration, 0, 4000, local, 1);
    tt_sim_advance(world->sim, 150); /* the request is at the switch */
    sim_post(world, 0, 0, 4, 1000);
    tt_sim_advance(world->sim, TT_NS_PER_MS);

    /* One chunk is leaving and the queue stands in line again when the request comes; then they alternate. */
    char line[256], order[16] = "";
    rewind(log);
    while (fgets(line, sizeof(line), log) != NULL) {
        if (strstr(line, " uplink node=0") != NULL) {
            strcat(order, strstr(line, "get-data") != NULL ? "g" : "c");
        }
    }
    assert_string_equal(order, "ccgcgcgg");
    fclose(log);
    sim_destroy_world(world);
}

static void full_downlink_drops_chunks_but_no_frames(void **state)
{
    (void)state;
    struct tt_sim_options options = sim_plain_options(4);
    options.downlink_queue_bytes = 2000;
    struct sim_world *world = sim_create_world(&options);
    struct tt_p2p_event events[SIM_CAPACITY];
    /* Three senders at once into node 3: of three chunks that come together two find room. */
    for (uint32_t i = 0; i < 3; i++) {
        sim_post(world, i, 10 * i, 4, 1000);
        struct tt_p2p_peer *peer = world->peers[i][3];
        assert_int_equal(tt_p2p_send(peer, world->memory[i], 1000, false), TUTTI_OK);
    }
    tt_sim_advance(world->sim, TT_NS_PER_MS);
    const struct tt_sim_port port = sim_port_of(world, 3);
    assert_true(port.tail_drops > 0);
    assert_int_equal(sim_drain(world, 3, NULL) + port.tail_drops, 12);
    assert_int_equal(sim_progress(world, 3, events), 3);
    sim_destroy_world(world);
}

static void receive_queue_overflows_by_depth_and_recovers_when_reposted(void **state)
{
    (void)state;
    struct tt_sim_options options = sim_plain_options(2);
    options.receive_depth = 3;
    struct sim_world *world = sim_create_world(&options);
    struct tt_mcast_queue *queue = world->queues[1];
    struct tt_receive_chunk chunks[SIM_CAPACITY];

    assert_int_equal(queue->ops->depth_chunks(queue), 3);
    sim_post(world, 0, 0, 5, 10);
    tt_sim_advance(world->sim, TT_NS_PER_MS);
    assert_int_equal(sim_port_of(world, 1).overflow_drops, 2);
    assert_int_equal(queue->ops->poll(queue, chunks, SIM_CAPACITY), 3);
    sim_post(world, 0, 5, 1, 10); /* polled but not reposted: still no room */
    tt_sim_advance(world->sim, 2 * TT_NS_PER_MS);
    assert_int_equal(sim_port_of(world, 1).overflow_drops, 3);
    queue->ops->repost(queue, chunks, 3);
    sim_post(world, 0, 6, 1, 10);
    tt_sim_advance(world->sim, 3 * TT_NS_PER_MS);
    uint32_t imms[SIM_CAPACITY];
    assert_int_equal(sim_drain(world, 1, imms), 1);
    assert_int_equal(imms[0], 6);
    assert_int_equal(tt_sim_violations(world->sim), 0);
    sim_destroy_world(world);
}

/* --- Buffers that are let go too early -------------------------------------------------------------------------- */

static void chunk_is_read_when_it_leaves_not_when_it_is_posted(void **state)
{
    (void)state;
    const struct tt_sim_options options = sim_plain_options(2);
    struct sim_world *world = sim_create_world(&options);
    struct tt_mcast_queue *queue = world->queues[1];
    struct tt_receive_chunk chunk;
    unsigned char data[4] = {1, 2, 3, 4};
    const struct tt_send_chunk send = {.imm = 1, .length_bytes = 4, .address = data};

    assert_int_equal(world->queues[0]->ops->post(world->queues[0], &send, 1), 1);
    tt_sim_advance(world->sim, 31);
    data[2] = 9;
    tt_sim_advance(world->sim, 32);
    assert_int_equal(world->queues[0]->ops->sent(world->queues[0]), 1);
    data[3] = 9; /* it was sent: too late to matter */
    tt_sim_advance(world->sim, 1000);
    assert_int_equal(queue->ops->poll(queue, &chunk, 1), 1);
    assert_memory_equal(chunk.address, ((unsigned char[]){1, 2, 9, 4}), 4);
    queue->ops->repost(queue, &chunk, 1);
    assert_memory_not_equal(chunk.address, ((unsigned char[]){1, 2, 9, 4}), 4);
    sim_destroy_world(world);
}

static void get_reads_memory_when_the_target_serves_it(void **state)
{
    (void)state;
    const struct tt_sim_options options = sim_plain_options(2);
    struct sim_world *world = sim_create_world(&options);
    const struct sim_registration registration = sim_register_memory(world, 1);
    struct tt_p2p_event events[SIM_CAPACITY];
    unsigned char local[2000];

    sim_get(world, 0, 1, &registration, 0, 2000, local, 77);
    /* 200 ns for the request, 8000 for each packet of the answer, 100 + 8000 + 100 for the last one's way. */
    tt_sim_advance(world->sim, 8200);
    memset(world->memory[1], 0xEE, 2000);
    tt_sim_advance(world->sim, 24399);
    assert_int_equal(sim_progress(world, 0, events), 0);
    tt_sim_advance(world->sim, 24400);
    assert_int_equal(sim_progress(world, 0, events), 1);
    assert_int_equal(events[0].type, TT_P2P_DONE);
    assert_int_equal(events[0].status, TUTTI_OK);
    assert_int_equal(events[0].cookie, 77);
    assert_int_equal(local[1], 31 + 7);  /* the first packet had left */
    assert_int_equal(local[1000], 0xEE); /* the second had not */
    sim_destroy_world(world);
}

static void get_of_released_memory_fails_and_is_a_violation(void **state)
{
    (void)state;
    const struct tt_sim_options options = sim_plain_options(2);
    struct sim_world *world = sim_create_world(&options);
    const struct sim_registration registration = sim_register_memory(world, 1);
    struct tt_p2p_event events[SIM_CAPACITY];
    unsigned char local[3000];

    sim_get(world, 0, 1, &registration, 0, 3000, local, 5);
    tt_sim_advance(world->sim, 9000); /* in the middle of it */
    world->p2p[1]->ops->memory_release(registration.memory);
    tt_sim_advance(world->sim, TT_NS_PER_MS);
    assert_int_equal(sim_progress(world, 0, events), 1);
    assert_int_equal(events[0].status, TUTTI_ERR_PROTOCOL);
    assert_int_equal(tt_sim_violations(world->sim), 1);
    assert_non_null(strstr(tt_sim_violation_text(world->sim, 0), "finds registration 0 released"));

    /* The slot's next registration has another generation: the old key does not open it. */
    const struct sim_registration second = sim_register_memory(world, 1);
    sim_get(world, 0, 1, &registration, 0, 1, local, 6);
    sim_get(world, 0, 1, &second, 0, 1, local, 7);
    tt_sim_advance(world->sim, 2 * TT_NS_PER_MS);
    assert_int_equal(sim_progress(world, 0, events), 2);
    assert_int_equal(events[0].cookie == 6 ? events[0].status : events[1].status, TUTTI_ERR_PROTOCOL);
    assert_int_equal(events[0].cookie == 7 ? events[0].status : events[1].status, TUTTI_OK);
    sim_destroy_world(world);
}

static void get_and_put_outside_of_a_registration_are_violations(void **state)
{
    (void)state;
    const struct tt_sim_options options = sim_plain_options(2);
    struct sim_world *world = sim_create_world(&options);
    const struct sim_registration registration = sim_register_memory(world, 1);
    struct tt_p2p_event events[SIM_CAPACITY];
    unsigned char local[100] = {0};
    struct tt_p2p_peer *peer = world->peers[0][1];
    const size_t end = sizeof(world->memory[1]);

    sim_get(world, 0, 1, &registration, end - 99, 100, local, 1);
    tt_sim_advance(world->sim, TT_NS_PER_MS);
    assert_int_equal(sim_progress(world, 0, events), 1);
    assert_int_equal(events[0].status, TUTTI_ERR_PROTOCOL);
    assert_int_equal(peer->ops->put(peer, registration.key, registration.key_bytes, (uintptr_t)world->memory[1] - 1,
                                    local, 100, &(struct tt_p2p_immediate){.value = 9}, 2),
                     TUTTI_OK);
    tt_sim_advance(world->sim, 2 * TT_NS_PER_MS);
    assert_int_equal(sim_progress(world, 0, events), 1);
    assert_int_equal(events[0].status, TUTTI_ERR_PROTOCOL);
    assert_int_equal(sim_progress(world, 1, events), 0); /* no immediate */
    assert_int_equal(tt_sim_violations(world->sim), 2);
    sim_destroy_world(world);
}

static void broken_discipline_of_staging_is_a_violation(void **state)
{
    (void)state;
    const struct tt_sim_options options = sim_plain_options(2);
    struct sim_world *world = sim_create_world(&options);
    struct tt_mcast_queue *queue = world->queues[1];
    struct tt_receive_chunk chunks[SIM_CAPACITY];
    sim_post(world, 0, 0, 3, 10);
    tt_sim_advance(world->sim, TT_NS_PER_MS);
    assert_int_equal(queue->ops->poll(queue, chunks, 2), 2);
    assert_int_equal(queue->ops->poll(queue, chunks + 2, 1), 0);
    assert_int_equal(tt_sim_violations(world->sim), 1);
    queue->ops->repost(queue, chunks, 2);
    queue->ops->repost(queue, chunks, 1);
    assert_int_equal(tt_sim_violations(world->sim), 2);
    assert_string_equal(tt_sim_violation_text(world->sim, 2), "");
    sim_destroy_world(world);
}

/* --- Harness ---------------------------------------------------------------------------------------------------- */

static void nodes_become_ready_in_order_and_once(void **state)
{
    (void)state;
    const struct tt_sim_options options = sim_plain_options(4);
    struct sim_world *world = sim_create_world(&options);
    uint32_t node;
    sim_post(world, 3, 0, 2, 100);
    tt_sim_advance(world->sim, TT_NS_PER_MS);
    const uint32_t expected[] = {3, 0, 1, 2}; /* sent first, then received in the order of attachment */
    for (uint32_t i = 0; i < 4; i++) {
        assert_true(tt_sim_take_ready(world->sim, &node));
        assert_int_equal(node, expected[i]);
    }
    assert_false(tt_sim_take_ready(world->sim, &node));
    tt_sim_mark_ready(world->sim, 2);
    tt_sim_mark_ready(world->sim, 2);
    assert_true(tt_sim_take_ready(world->sim, &node));
    assert_false(tt_sim_take_ready(world->sim, &node));
    sim_destroy_world(world);
}

/* A run with everything in it, logged to `text`. */
static uint64_t run_logged(uint64_t seed, char **text, size_t *length_bytes)
{
    struct tt_sim_options options = sim_plain_options(6);
    options.seed = seed;
    options.detection_max_ns = 100000;
    options.downlink_queue_bytes = 20000;
    options.faults = (struct tt_sim_faults){.loss_ppm = 50000,
                                            .duplicate_ppm = 50000,
                                            .reorder_ppm = 50000,
                                            .spike_ppm = 10000,
                                            .reorder_ns = 30000,
                                            .spike_ns = 20000,
                                            .retransmit_ns = 40000};
    options.log = open_memstream(text, length_bytes);
    assert_non_null(options.log);
    struct sim_world *world = sim_create_world(&options);
    const struct sim_registration registration = sim_register_memory(world, 4);
    unsigned char local[5][3000];
    struct tt_p2p_event events[SIM_CAPACITY];
    tt_sim_stall(world->sim, 5, 100000);
    tt_sim_crash(world->sim, 3, 150000);
    for (uint32_t round = 0; round < 20; round++) {
        for (uint32_t i = 0; i < 3; i++) {
            sim_post(world, i, 100 * round, 3, 500);
            struct tt_p2p_peer *peer = world->peers[i][(i + round) % 3 + 3];
            (void)tt_p2p_send(peer, &round, sizeof(round), false);
            if (round % 8 == 0) {
                sim_get(world, i, 4, &registration, round, 3000, local[i], round);
            }
        }
        tt_sim_advance(world->sim, tt_sim_now(world->sim) + 20000);
        for (uint32_t i = 0; i < 6; i++) {
            sim_drain(world, i, NULL);
            sim_progress(world, i, events);
        }
    }
    tt_sim_advance(world->sim, TT_NS_PER_S);
    const uint64_t digest = tt_sim_digest(world->sim);
    sim_destroy_world(world);
    fclose(options.log);
    return digest;
}

static void same_seed_replays_to_the_byte_and_another_does_not(void **state)
{
    (void)state;
    char *texts[3];
    size_t lengths[3];
    uint64_t digests[3];
    for (int i = 0; i < 3; i++) {
        void *shift = malloc((size_t)i * 4096 + 1); /* other addresses */
        digests[i] = run_logged(i < 2 ? 7 : 8, &texts[i], &lengths[i]);
        free(shift);
    }
    assert_true(lengths[0] > 10000);
    assert_int_equal(lengths[0], lengths[1]);
    assert_memory_equal(texts[0], texts[1], lengths[0]);
    assert_int_equal(digests[0], digests[1]);
    assert_true(digests[0] != digests[2]);
    assert_true(lengths[0] != lengths[2] || memcmp(texts[0], texts[2], lengths[0]) != 0);
    for (int i = 0; i < 3; i++) {
        free(texts[i]);
    }
}

static void two_queues_of_one_node_hear_each_other(void **state)
{
    (void)state;
    const struct tt_sim_options options = sim_plain_options(2);
    struct sim_world *world = sim_create_world(&options);
    struct tt_mcast_queue *second = sim_attach(world->sim, 0, 9, 1); /* another rank on node 0 */
    struct tt_receive_chunk chunk;
    sim_post(world, 0, 3, 1, 10);
    tt_sim_advance(world->sim, TT_NS_PER_MS);
    assert_int_equal(second->ops->poll(second, &chunk, 1), 1);
    assert_int_equal(chunk.source, 0);
    second->ops->repost(second, &chunk, 1);
    assert_int_equal(sim_drain(world, 0, NULL), 0);
    assert_int_equal(sim_port_of(world, 0).sent_bytes, 0); /* not through the switch */
    struct tt_mcast_counters counters;
    world->queues[0]->ops->counters(world->queues[0], &counters);
    assert_int_equal(counters.drops_own, 0);
    sim_destroy_world(world);
}

static void chunk_of_ones_own_rank_is_dropped_as_own(void **state)
{
    (void)state;
    const struct tt_sim_options options = sim_plain_options(2);
    struct sim_world *world = sim_create_world(&options);
    struct tt_mcast_queue *twin = sim_attach(world->sim, 1, 0, 1); /* rank 0 on node 1 */
    struct tt_mcast_counters counters;
    struct tt_receive_chunk chunk;
    sim_post(world, 0, 3, 1, 10);
    tt_sim_advance(world->sim, TT_NS_PER_MS);
    assert_int_equal(twin->ops->poll(twin, &chunk, 1), 0);
    twin->ops->counters(twin, &counters);
    assert_int_equal(counters.drops_own, 1);
    assert_int_equal(sim_drain(world, 1, NULL), 1);
    sim_destroy_world(world);
}

static void reborn_instance_is_not_the_old_one(void **state)
{
    (void)state;
    const struct tt_sim_options options = sim_plain_options(2);
    struct sim_world *world = sim_create_world(&options);
    struct tt_p2p_event events[SIM_CAPACITY];
    struct tt_p2p_peer *peer = world->peers[0][1];

    assert_int_equal(tt_p2p_send(peer, "late", 4, false), TUTTI_OK);
    world->p2p[1]->ops->destroy(world->p2p[1]);
    world->p2p[1] = tt_sim_p2p(world->sim, 1);
    tt_sim_advance(world->sim, TT_NS_PER_S);
    assert_int_equal(sim_progress(world, 1, events), 0);
    assert_int_equal(sim_progress(world, 0, events), 1);
    assert_int_equal(events[0].type, TT_P2P_PEER_DOWN);
    sim_destroy_world(world);
}

static void destroying_with_things_left_is_a_violation(void **state)
{
    (void)state;
    const struct tt_sim_options options = sim_plain_options(2);
    struct sim_world *world = sim_create_world(&options);
    (void)sim_register_memory(world, 1);
    struct tt_mcast *mcast = tt_sim_mcast(world->sim, 1);
    world->p2p[1]->ops->destroy(world->p2p[1]);
    assert_int_equal(tt_sim_violations(world->sim), 1);
    mcast->ops->destroy(mcast);
    assert_int_equal(tt_sim_violations(world->sim), 2);
    sim_destroy_world(world);
}

static void options_that_cannot_be_are_refused(void **state)
{
    (void)state;
    struct tt_sim_options options = sim_plain_options(0);
    assert_null(tt_sim_create(&options));
    options = sim_plain_options(TT_SIM_MAX_NODES + 1);
    assert_null(tt_sim_create(&options));
    options = sim_plain_options(2);
    options.faults.loss_ppm = 1000001;
    assert_null(tt_sim_create(&options));
    options = sim_plain_options(2);
    options.detection_min_ns = options.detection_max_ns + 1;
    assert_null(tt_sim_create(&options));
    options = sim_plain_options(2);
    options.receive_depth = 0;
    assert_null(tt_sim_create(&options));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunk_arrives_after_two_serializations_and_two_latencies),
        cmocka_unit_test(broadcast_crosses_every_link_once),
        cmocka_unit_test(headers_take_time_and_count_on_the_wire),
        cmocka_unit_test(uplink_serves_chunks_and_get_data_in_turn),
        cmocka_unit_test(full_downlink_drops_chunks_but_no_frames),
        cmocka_unit_test(receive_queue_overflows_by_depth_and_recovers_when_reposted),
        cmocka_unit_test(chunk_is_read_when_it_leaves_not_when_it_is_posted),
        cmocka_unit_test(get_reads_memory_when_the_target_serves_it),
        cmocka_unit_test(get_of_released_memory_fails_and_is_a_violation),
        cmocka_unit_test(get_and_put_outside_of_a_registration_are_violations),
        cmocka_unit_test(broken_discipline_of_staging_is_a_violation),
        cmocka_unit_test(nodes_become_ready_in_order_and_once),
        cmocka_unit_test(same_seed_replays_to_the_byte_and_another_does_not),
        cmocka_unit_test(two_queues_of_one_node_hear_each_other),
        cmocka_unit_test(chunk_of_ones_own_rank_is_dropped_as_own),
        cmocka_unit_test(reborn_instance_is_not_the_old_one),
        cmocka_unit_test(destroying_with_things_left_is_a_violation),
        cmocka_unit_test(options_that_cannot_be_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
