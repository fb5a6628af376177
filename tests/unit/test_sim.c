/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The simulator itself: exact times, counters, faults, replays. What its providers owe to the contracts is in
 * tests/conformance.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "fabric/sim/sim.h"
#include "tutti/status.h"

enum { MAX_NODES = 8, CHUNK_BYTES = 1000, CAPACITY = 64 };

/* 1 byte takes 8 ns; 100 ns a link; no headers: times that one can add up. */
static struct tt_sim_options plain_options(uint32_t node_count)
{
    struct tt_sim_options options;
    tt_sim_options_init(&options, node_count);
    options.uplink = options.downlink = (struct tt_sim_link){TT_NS_PER_S, 100};
    options.header_bytes = 0;
    options.max_chunk_bytes = CHUNK_BYTES;
    options.p2p_packet_bytes = CHUNK_BYTES;
    options.receive_depth = CAPACITY;
    options.send_queue_chunks = CAPACITY;
    options.detection_min_ns = 5000;
    options.detection_max_ns = 5000;
    return options;
}

struct world {
    struct tt_sim *sim;
    uint32_t node_count;
    struct tt_mcast_queue *queues[MAX_NODES];
    struct tt_p2p *p2p[MAX_NODES];
    struct tt_p2p_peer *peers[MAX_NODES][MAX_NODES]; /* of [node] to [other]; cookie: other */
    unsigned char memory[MAX_NODES][16 * CHUNK_BYTES];
};

static struct tt_mcast_queue *attach(struct tt_sim *sim, uint32_t node, uint32_t rank, uint64_t key)
{
    const struct tt_mcast_queue_options options = {
        .address = {.group_be = 7, .port = 1, .key = key}, .rank = rank, .chunk_bytes = CHUNK_BYTES};
    struct tt_mcast *mcast = tt_sim_mcast(sim, node);
    struct tt_mcast_queue *queue = NULL;
    assert_int_equal(mcast->ops->attach(mcast, &options, &queue), TUTTI_OK);
    return queue;
}

static struct world *create_world(const struct tt_sim_options *options)
{
    struct world *world = calloc(1, sizeof(*world));
    assert_non_null(world);
    world->sim = tt_sim_create(options);
    assert_non_null(world->sim);
    world->node_count = options->node_count;
    for (uint32_t i = 0; i < options->node_count; i++) {
        world->queues[i] = attach(world->sim, i, i, 1);
        world->p2p[i] = tt_sim_p2p(world->sim, i);
        for (size_t j = 0; j < sizeof(world->memory[i]); j++) {
            world->memory[i][j] = (unsigned char)(i * 31 + j * 7 + j / 256);
        }
    }
    for (uint32_t i = 0; i < options->node_count; i++) {
        for (uint32_t j = 0; j < options->node_count; j++) {
            unsigned char address[TT_P2P_MAX_ADDRESS_BYTES];
            size_t length_bytes = sizeof(address);
            struct tt_p2p *to = world->p2p[j];
            assert_int_equal(to->ops->address(to, address, &length_bytes), TUTTI_OK);
            if (i != j) {
                assert_int_equal(
                    world->p2p[i]->ops->connect(world->p2p[i], address, length_bytes, j, &world->peers[i][j]),
                    TUTTI_OK);
            }
        }
    }
    return world;
}

static void destroy_world(struct world *world)
{
    tt_sim_destroy(world->sim);
    free(world);
}

/* Posts `count` chunks of one node's memory with the immediates first, first + 1, ... */
static void post(struct world *world, uint32_t node, uint32_t first, uint32_t count, uint32_t length_bytes)
{
    struct tt_send_chunk chunks[CAPACITY];
    for (uint32_t i = 0; i < count; i++) {
        chunks[i] = (struct tt_send_chunk){
            .imm = first + i, .length_bytes = length_bytes, .address = world->memory[node] + i * length_bytes % 1000};
    }
    assert_int_equal(world->queues[node]->ops->post(world->queues[node], chunks, count), count);
}

/* Polls everything and reposts it; returns the count and, if wanted, the immediates in order. */
static uint32_t drain(struct world *world, uint32_t node, uint32_t *imms)
{
    struct tt_mcast_queue *queue = world->queues[node];
    struct tt_receive_chunk chunks[CAPACITY];
    const uint32_t count = queue->ops->poll(queue, chunks, CAPACITY);
    for (uint32_t i = 0; i < count && imms != NULL; i++) {
        imms[i] = chunks[i].imm;
    }
    queue->ops->repost(queue, chunks, count);
    return count;
}

static uint32_t progress(struct world *world, uint32_t node, struct tt_p2p_event *events)
{
    return world->p2p[node]->ops->progress(world->p2p[node], events, CAPACITY);
}

static struct tt_sim_port port_of(const struct world *world, uint32_t node)
{
    struct tt_sim_port port;
    tt_sim_port_counters(world->sim, node, &port);
    return port;
}

struct registration {
    struct tt_p2p_memory *memory;
    unsigned char key[TT_P2P_MAX_KEY_BYTES];
    size_t key_bytes;
};

static struct registration register_memory(struct world *world, uint32_t node)
{
    struct registration registration = {.key_bytes = sizeof(registration.key)};
    struct tt_p2p *p2p = world->p2p[node];
    assert_int_equal(
        p2p->ops->memory_register(p2p, world->memory[node], sizeof(world->memory[node]), &registration.memory),
        TUTTI_OK);
    assert_int_equal(p2p->ops->memory_pack(registration.memory, registration.key, &registration.key_bytes), TUTTI_OK);
    return registration;
}

static void get(struct world *world, uint32_t from, uint32_t at, const struct registration *registration, size_t offset,
                uint64_t length_bytes, void *local, uint64_t cookie)
{
    struct tt_p2p_peer *peer = world->peers[from][at];
    assert_int_equal(peer->ops->get(peer, registration->key, registration->key_bytes,
                                    (uintptr_t)world->memory[at] + offset, local, length_bytes, cookie),
                     TUTTI_OK);
}

/* --- Links and the switch --------------------------------------------------------------------------------------- */

static void chunk_arrives_after_two_serializations_and_two_latencies(void **state)
{
    (void)state;
    const struct tt_sim_options options = plain_options(3);
    struct world *world = create_world(&options);

    post(world, 0, 5, 1, 1000);
    assert_int_equal(tt_sim_next_event_time(world->sim), 8000);
    tt_sim_advance(world->sim, 7999);
    assert_int_equal(world->queues[0]->ops->sent(world->queues[0]), 0);
    tt_sim_advance(world->sim, 8000);
    assert_int_equal(world->queues[0]->ops->sent(world->queues[0]), 1);
    tt_sim_advance(world->sim, 16199);
    assert_int_equal(drain(world, 1, NULL), 0);
    tt_sim_advance(world->sim, 16200); /* 8000 + 100 + 8000 + 100, on both downlinks at once */
    assert_int_equal(drain(world, 1, NULL), 1);
    assert_int_equal(drain(world, 2, NULL), 1);
    assert_int_equal(drain(world, 0, NULL), 0);
    assert_int_equal(tt_sim_next_event_time(world->sim), TT_NEVER);
    destroy_world(world);
}

static void broadcast_crosses_every_link_once(void **state)
{
    (void)state;
    const struct tt_sim_options options = plain_options(5);
    struct world *world = create_world(&options);
    post(world, 2, 0, 10, 1000);
    tt_sim_advance(world->sim, TT_NS_PER_MS);
    for (uint32_t i = 0; i < 5; i++) {
        const struct tt_sim_port port = port_of(world, i);
        assert_int_equal(port.received_chunk_bytes, i == 2 ? 10000 : 0);
        assert_int_equal(port.received_bytes, i == 2 ? 10000 : 0);
        assert_int_equal(port.sent_chunk_bytes, i == 2 ? 0 : 10000);
        assert_int_equal(port.sent_packets, i == 2 ? 0 : 10);
    }
    destroy_world(world);
}

static void headers_take_time_and_count_on_the_wire(void **state)
{
    (void)state;
    struct tt_sim_options options = plain_options(2);
    options.header_bytes = 50;
    struct world *world = create_world(&options);
    post(world, 0, 0, 1, 0);
    tt_sim_advance(world->sim, 999);
    assert_int_equal(drain(world, 1, NULL), 0);
    tt_sim_advance(world->sim, 1000); /* 2 * (400 + 100) */
    assert_int_equal(drain(world, 1, NULL), 1);
    assert_int_equal(port_of(world, 1).sent_bytes, 50);
    destroy_world(world);
}

static void uplink_serves_chunks_and_get_data_in_turn(void **state)
{
    (void)state;
    struct tt_sim_options options = plain_options(3);
    FILE *log = tmpfile();
    options.log = log;
    struct world *world = create_world(&options);
    const struct registration registration = register_memory(world, 0);
    unsigned char local[4000];

    get(world, 1, 0, &registration, 0, 4000, local, 1);
    tt_sim_advance(world->sim, 150); /* the request is at the switch */
    post(world, 0, 0, 4, 1000);
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
    destroy_world(world);
}

static void full_downlink_drops_chunks_but_no_frames(void **state)
{
    (void)state;
    struct tt_sim_options options = plain_options(4);
    options.downlink_queue_bytes = 2000;
    struct world *world = create_world(&options);
    struct tt_p2p_event events[CAPACITY];
    /* Three senders at once into node 3: of three chunks that come together two find room. */
    for (uint32_t i = 0; i < 3; i++) {
        post(world, i, 10 * i, 4, 1000);
        struct tt_p2p_peer *peer = world->peers[i][3];
        assert_int_equal(peer->ops->send(peer, world->memory[i], 1000), TUTTI_OK);
    }
    tt_sim_advance(world->sim, TT_NS_PER_MS);
    const struct tt_sim_port port = port_of(world, 3);
    assert_true(port.tail_drops > 0);
    assert_int_equal(drain(world, 3, NULL) + port.tail_drops, 12);
    assert_int_equal(progress(world, 3, events), 3);
    destroy_world(world);
}

static void receive_queue_overflows_by_depth_and_recovers_when_reposted(void **state)
{
    (void)state;
    struct tt_sim_options options = plain_options(2);
    options.receive_depth = 3;
    struct world *world = create_world(&options);
    struct tt_mcast_queue *queue = world->queues[1];
    struct tt_receive_chunk chunks[CAPACITY];

    assert_int_equal(queue->ops->depth_chunks(queue), 3);
    post(world, 0, 0, 5, 10);
    tt_sim_advance(world->sim, TT_NS_PER_MS);
    assert_int_equal(port_of(world, 1).overflow_drops, 2);
    assert_int_equal(queue->ops->poll(queue, chunks, CAPACITY), 3);
    post(world, 0, 5, 1, 10); /* polled but not reposted: still no room */
    tt_sim_advance(world->sim, 2 * TT_NS_PER_MS);
    assert_int_equal(port_of(world, 1).overflow_drops, 3);
    queue->ops->repost(queue, chunks, 3);
    post(world, 0, 6, 1, 10);
    tt_sim_advance(world->sim, 3 * TT_NS_PER_MS);
    uint32_t imms[CAPACITY];
    assert_int_equal(drain(world, 1, imms), 1);
    assert_int_equal(imms[0], 6);
    assert_int_equal(tt_sim_violations(world->sim), 0);
    destroy_world(world);
}

/* --- Buffers that are let go too early -------------------------------------------------------------------------- */

static void chunk_is_read_when_it_leaves_not_when_it_is_posted(void **state)
{
    (void)state;
    const struct tt_sim_options options = plain_options(2);
    struct world *world = create_world(&options);
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
    destroy_world(world);
}

static void get_reads_memory_when_the_target_serves_it(void **state)
{
    (void)state;
    const struct tt_sim_options options = plain_options(2);
    struct world *world = create_world(&options);
    const struct registration registration = register_memory(world, 1);
    struct tt_p2p_event events[CAPACITY];
    unsigned char local[2000];

    get(world, 0, 1, &registration, 0, 2000, local, 77);
    /* 200 ns for the request, 8000 for each packet of the answer, 100 + 8000 + 100 for the last one's way. */
    tt_sim_advance(world->sim, 8200);
    memset(world->memory[1], 0xEE, 2000);
    tt_sim_advance(world->sim, 24399);
    assert_int_equal(progress(world, 0, events), 0);
    tt_sim_advance(world->sim, 24400);
    assert_int_equal(progress(world, 0, events), 1);
    assert_int_equal(events[0].type, TT_P2P_DONE);
    assert_int_equal(events[0].status, TUTTI_OK);
    assert_int_equal(events[0].cookie, 77);
    assert_int_equal(local[1], 31 + 7);  /* the first packet had left */
    assert_int_equal(local[1000], 0xEE); /* the second had not */
    destroy_world(world);
}

static void get_of_released_memory_fails_and_is_a_violation(void **state)
{
    (void)state;
    const struct tt_sim_options options = plain_options(2);
    struct world *world = create_world(&options);
    const struct registration registration = register_memory(world, 1);
    struct tt_p2p_event events[CAPACITY];
    unsigned char local[3000];

    get(world, 0, 1, &registration, 0, 3000, local, 5);
    tt_sim_advance(world->sim, 9000); /* in the middle of it */
    world->p2p[1]->ops->memory_release(registration.memory);
    tt_sim_advance(world->sim, TT_NS_PER_MS);
    assert_int_equal(progress(world, 0, events), 1);
    assert_int_equal(events[0].status, TUTTI_ERR_PROTOCOL);
    assert_int_equal(tt_sim_violations(world->sim), 1);
    assert_non_null(strstr(tt_sim_violation_text(world->sim, 0), "finds registration 0 released"));

    /* The slot's next registration has another generation: the old key does not open it. */
    const struct registration second = register_memory(world, 1);
    get(world, 0, 1, &registration, 0, 1, local, 6);
    get(world, 0, 1, &second, 0, 1, local, 7);
    tt_sim_advance(world->sim, 2 * TT_NS_PER_MS);
    assert_int_equal(progress(world, 0, events), 2);
    assert_int_equal(events[0].cookie == 6 ? events[0].status : events[1].status, TUTTI_ERR_PROTOCOL);
    assert_int_equal(events[0].cookie == 7 ? events[0].status : events[1].status, TUTTI_OK);
    destroy_world(world);
}

static void get_and_put_outside_of_a_registration_are_violations(void **state)
{
    (void)state;
    const struct tt_sim_options options = plain_options(2);
    struct world *world = create_world(&options);
    const struct registration registration = register_memory(world, 1);
    struct tt_p2p_event events[CAPACITY];
    unsigned char local[100] = {0};
    struct tt_p2p_peer *peer = world->peers[0][1];
    const size_t end = sizeof(world->memory[1]);

    get(world, 0, 1, &registration, end - 99, 100, local, 1);
    tt_sim_advance(world->sim, TT_NS_PER_MS);
    assert_int_equal(progress(world, 0, events), 1);
    assert_int_equal(events[0].status, TUTTI_ERR_PROTOCOL);
    assert_int_equal(peer->ops->put(peer, registration.key, registration.key_bytes, (uintptr_t)world->memory[1] - 1,
                                    local, 100, 9, 2),
                     TUTTI_OK);
    tt_sim_advance(world->sim, 2 * TT_NS_PER_MS);
    assert_int_equal(progress(world, 0, events), 1);
    assert_int_equal(events[0].status, TUTTI_ERR_PROTOCOL);
    assert_int_equal(progress(world, 1, events), 0); /* no immediate */
    assert_int_equal(tt_sim_violations(world->sim), 2);
    destroy_world(world);
}

static void broken_discipline_of_staging_is_a_violation(void **state)
{
    (void)state;
    const struct tt_sim_options options = plain_options(2);
    struct world *world = create_world(&options);
    struct tt_mcast_queue *queue = world->queues[1];
    struct tt_receive_chunk chunks[CAPACITY];
    post(world, 0, 0, 3, 10);
    tt_sim_advance(world->sim, TT_NS_PER_MS);
    assert_int_equal(queue->ops->poll(queue, chunks, 2), 2);
    assert_int_equal(queue->ops->poll(queue, chunks + 2, 1), 0);
    assert_int_equal(tt_sim_violations(world->sim), 1);
    queue->ops->repost(queue, chunks, 2);
    queue->ops->repost(queue, chunks, 1);
    assert_int_equal(tt_sim_violations(world->sim), 2);
    assert_string_equal(tt_sim_violation_text(world->sim, 2), "");
    destroy_world(world);
}

/* --- Faults ----------------------------------------------------------------------------------------------------- */

static void lost_chunks_follow_their_share_until_healed(void **state)
{
    (void)state;
    struct tt_sim_options options = plain_options(3);
    options.faults.loss_ppm = 200000;
    struct world *world = create_world(&options);
    uint32_t received[3] = {0};
    for (uint32_t round = 0; round < 100; round++) {
        post(world, 0, 0, 50, 10);
        tt_sim_advance(world->sim, tt_sim_now(world->sim) + TT_NS_PER_MS);
        for (uint32_t i = 1; i < 3; i++) {
            received[i] += drain(world, i, NULL);
        }
    }
    for (uint32_t i = 1; i < 3; i++) {
        assert_int_equal(port_of(world, i).lost + received[i], 5000);
        assert_in_range(received[i], 3800, 4200);
    }
    assert_int_not_equal(received[1], received[2]); /* their dice differ */
    tt_sim_set_healed(world->sim, true);
    post(world, 0, 0, 50, 10);
    tt_sim_advance(world->sim, tt_sim_now(world->sim) + TT_NS_PER_MS);
    assert_int_equal(drain(world, 1, NULL), 50);
    destroy_world(world);
}

static void faults_of_one_node_leave_the_others_alone(void **state)
{
    (void)state;
    const struct tt_sim_options options = plain_options(3);
    struct world *world = create_world(&options);
    tt_sim_set_faults(world->sim, 1, &(struct tt_sim_faults){.loss_ppm = 1000000});
    post(world, 0, 0, 5, 10);
    tt_sim_advance(world->sim, TT_NS_PER_MS);
    assert_int_equal(drain(world, 1, NULL), 0);
    assert_int_equal(drain(world, 2, NULL), 5);
    destroy_world(world);
}

static void named_chunk_is_dropped_the_given_number_of_times(void **state)
{
    (void)state;
    const struct tt_sim_options options = plain_options(3);
    struct world *world = create_world(&options);
    tt_sim_drop_chunk(world->sim, 1, 2, 1);
    post(world, 0, 0, 4, 10);
    tt_sim_advance(world->sim, TT_NS_PER_MS);
    uint32_t imms[CAPACITY];
    assert_int_equal(drain(world, 1, imms), 3);
    assert_int_equal(imms[2], 3);
    assert_int_equal(drain(world, 2, NULL), 4);
    post(world, 0, 2, 1, 10);
    tt_sim_advance(world->sim, 2 * TT_NS_PER_MS);
    assert_int_equal(drain(world, 1, NULL), 1);
    destroy_world(world);
}

static void late_chunks_are_overtaken_and_copies_arrive(void **state)
{
    (void)state;
    struct tt_sim_options options = plain_options(2);
    options.faults.reorder_ppm = 300000;
    options.faults.reorder_ns = 1000;
    options.faults.duplicate_ppm = 300000;
    struct world *world = create_world(&options);
    uint32_t imms[CAPACITY], seen[30] = {0}, overtaken = 0;
    post(world, 0, 0, 30, 10);
    tt_sim_advance(world->sim, TT_NS_PER_MS);
    const uint32_t count = drain(world, 1, imms);
    for (uint32_t i = 0; i < count; i++) {
        seen[imms[i]]++;
        overtaken += i > 0 && imms[i] < imms[i - 1];
    }
    for (uint32_t i = 0; i < 30; i++) {
        assert_in_range(seen[i], 1, 2);
    }
    const struct tt_sim_port port = port_of(world, 1);
    assert_true(overtaken > 0 && port.reordered > 0 && port.duplicated > 0);
    assert_int_equal(count, 30 + port.duplicated);
    destroy_world(world);
}

static void spike_stops_the_downlink_for_its_time(void **state)
{
    (void)state;
    struct tt_sim_options options = plain_options(2);
    options.faults.spike_ppm = 1000000;
    options.faults.spike_ns = 50000;
    struct world *world = create_world(&options);
    post(world, 0, 0, 2, 1000);
    tt_sim_advance(world->sim, 16200 + 50000 - 1);
    assert_int_equal(drain(world, 1, NULL), 0);
    tt_sim_advance(world->sim, 16200 + 50000);
    assert_int_equal(drain(world, 1, NULL), 1);
    tt_sim_advance(world->sim, 24200 + 2 * 50000);
    assert_int_equal(drain(world, 1, NULL), 1);
    assert_int_equal(port_of(world, 1).spikes, 2);
    destroy_world(world);
}

static void frames_keep_their_order_when_some_are_retransmitted(void **state)
{
    (void)state;
    struct tt_sim_options options = plain_options(2);
    options.faults =
        (struct tt_sim_faults){.loss_ppm = 200000, .reorder_ppm = 300000, .reorder_ns = 100000, .retransmit_ns = 50000};
    struct world *world = create_world(&options);
    struct tt_p2p_event events[CAPACITY];
    struct tt_p2p_peer *peer = world->peers[0][1];
    for (uint32_t i = 0; i < 60; i++) {
        assert_int_equal(peer->ops->send(peer, &i, sizeof(i)), TUTTI_OK);
    }
    tt_sim_advance(world->sim, 100 * TT_NS_PER_MS);
    assert_int_equal(progress(world, 1, events), 60);
    for (uint32_t i = 0; i < 60; i++) {
        assert_memory_equal(events[i].data, &i, sizeof(i));
    }
    assert_true(port_of(world, 1).retransmitted > 0);
    assert_true(port_of(world, 1).reordered > 0);
    destroy_world(world);
}

/* --- Stalls and crashes ----------------------------------------------------------------------------------------- */

static void stalled_node_receives_and_serves_but_does_not_run(void **state)
{
    (void)state;
    const struct tt_sim_options options = plain_options(3);
    struct world *world = create_world(&options);
    const struct registration registration = register_memory(world, 1);
    struct tt_p2p_event events[CAPACITY];
    unsigned char local[100];
    uint32_t node;

    tt_sim_stall(world->sim, 1, 500000);
    tt_sim_stall(world->sim, 1, 400000); /* does not shorten it */
    post(world, 0, 0, 3, 10);
    get(world, 2, 1, &registration, 0, 100, local, 1);
    tt_sim_advance(world->sim, 499999);
    assert_true(tt_sim_is_stalled(world->sim, 1));
    assert_int_equal(drain(world, 1, NULL), 0);
    assert_int_equal(progress(world, 2, events), 1); /* the NIC served it */
    while (tt_sim_take_ready(world->sim, &node)) {
        assert_int_not_equal(node, 1);
    }
    tt_sim_advance(world->sim, 500000);
    assert_false(tt_sim_is_stalled(world->sim, 1));
    assert_true(tt_sim_take_ready(world->sim, &node));
    assert_int_equal(node, 1);
    assert_int_equal(drain(world, 1, NULL), 3);
    destroy_world(world);
}

static void crash_is_noticed_by_all_after_the_detection_time(void **state)
{
    (void)state;
    const struct tt_sim_options options = plain_options(4);
    struct world *world = create_world(&options);
    const struct registration registration = register_memory(world, 2);
    struct tt_p2p_event events[CAPACITY];
    unsigned char local[3000];

    get(world, 0, 2, &registration, 0, 3000, local, 11);
    post(world, 2, 0, 5, 1000);
    tt_sim_crash(world->sim, 2, 9000);
    tt_sim_advance(world->sim, 13999);
    assert_true(tt_sim_is_crashed(world->sim, 2));
    assert_int_equal(progress(world, 1, events), 0);
    tt_sim_advance(world->sim, 14000);
    for (uint32_t i = 0; i < 4; i++) {
        const uint32_t count = progress(world, i, events);
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
    assert_int_equal(peer->ops->send(peer, "x", 1), TUTTI_ERR_PEER_FAILED);
    tt_sim_advance(world->sim, TT_NS_PER_S);
    assert_int_equal(progress(world, 1, events), 0); /* once */
    assert_int_equal(drain(world, 1, NULL), 1);      /* what had left the uplink by 9000 ns */
    destroy_world(world);
}

static void farewell_and_crash_together_give_one_peer_down(void **state)
{
    (void)state;
    const struct tt_sim_options options = plain_options(2);
    struct world *world = create_world(&options);
    struct tt_p2p_event events[CAPACITY];
    struct tt_p2p_peer *peer = world->peers[1][0];
    peer->ops->disconnect(peer);
    tt_sim_crash(world->sim, 1, 150); /* the farewell is at the switch */
    tt_sim_advance(world->sim, 1000);
    assert_int_equal(progress(world, 0, events), 1);
    assert_int_equal(events[0].type, TT_P2P_PEER_DOWN);
    tt_sim_advance(world->sim, TT_NS_PER_S);
    assert_int_equal(progress(world, 0, events), 0);
    destroy_world(world);
}

static void destroy_sends_its_last_frames_however_long_they_take(void **state)
{
    (void)state;
    const struct tt_sim_options options = plain_options(2);
    struct world *world = create_world(&options);
    struct tt_p2p_event events[CAPACITY];
    struct tt_p2p_peer *peer = world->peers[1][0];
    for (uint32_t i = 0; i < 20; i++) { /* 8 us each, where a crash is noticed after 5 us */
        assert_int_equal(peer->ops->send(peer, world->memory[1], 1000), TUTTI_OK);
    }
    world->p2p[1]->ops->destroy(world->p2p[1]);
    tt_sim_advance(world->sim, TT_NS_PER_S);
    assert_int_equal(progress(world, 0, events), 21);
    assert_int_equal(events[19].type, TT_P2P_FRAME);
    assert_int_equal(events[20].type, TT_P2P_PEER_DOWN);
    destroy_world(world);
}

static void connecting_to_the_dead_ends_in_peer_down(void **state)
{
    (void)state;
    const struct tt_sim_options options = plain_options(2);
    struct tt_sim *sim = tt_sim_create(&options);
    assert_non_null(sim);
    struct tt_p2p *p2p[2] = {tt_sim_p2p(sim, 0), tt_sim_p2p(sim, 1)};
    unsigned char address[TT_P2P_MAX_ADDRESS_BYTES];
    size_t length_bytes = sizeof(address);
    struct tt_p2p_peer *peer;
    struct tt_p2p_event events[CAPACITY];

    assert_int_equal(p2p[1]->ops->address(p2p[1], address, &length_bytes), TUTTI_OK);
    tt_sim_crash(sim, 1, 0);
    assert_int_equal(p2p[0]->ops->connect(p2p[0], address, length_bytes, 42, &peer), TUTTI_OK);
    tt_sim_advance(sim, 5000);
    assert_int_equal(p2p[0]->ops->progress(p2p[0], events, CAPACITY), 1);
    assert_int_equal(events[0].type, TT_P2P_PEER_DOWN);
    assert_int_equal(events[0].peer_cookie, 42);
    tt_sim_destroy(sim);
}

/* --- Harness ---------------------------------------------------------------------------------------------------- */

static void nodes_become_ready_in_order_and_once(void **state)
{
    (void)state;
    const struct tt_sim_options options = plain_options(4);
    struct world *world = create_world(&options);
    uint32_t node;
    post(world, 3, 0, 2, 100);
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
    destroy_world(world);
}

/* A run with everything in it, logged to `text`. */
static uint64_t run_logged(uint64_t seed, char **text, size_t *length_bytes)
{
    struct tt_sim_options options = plain_options(6);
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
    struct world *world = create_world(&options);
    const struct registration registration = register_memory(world, 4);
    unsigned char local[5][3000];
    struct tt_p2p_event events[CAPACITY];
    tt_sim_stall(world->sim, 5, 100000);
    tt_sim_crash(world->sim, 3, 150000);
    for (uint32_t round = 0; round < 20; round++) {
        for (uint32_t i = 0; i < 3; i++) {
            post(world, i, 100 * round, 3, 500);
            struct tt_p2p_peer *peer = world->peers[i][(i + round) % 3 + 3];
            (void)peer->ops->send(peer, &round, sizeof(round));
            if (round % 8 == 0) {
                get(world, i, 4, &registration, round, 3000, local[i], round);
            }
        }
        tt_sim_advance(world->sim, tt_sim_now(world->sim) + 20000);
        for (uint32_t i = 0; i < 6; i++) {
            drain(world, i, NULL);
            progress(world, i, events);
        }
    }
    tt_sim_advance(world->sim, TT_NS_PER_S);
    const uint64_t digest = tt_sim_digest(world->sim);
    destroy_world(world);
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
    const struct tt_sim_options options = plain_options(2);
    struct world *world = create_world(&options);
    struct tt_mcast_queue *second = attach(world->sim, 0, 9, 1); /* another rank on node 0 */
    struct tt_receive_chunk chunk;
    post(world, 0, 3, 1, 10);
    tt_sim_advance(world->sim, TT_NS_PER_MS);
    assert_int_equal(second->ops->poll(second, &chunk, 1), 1);
    assert_int_equal(chunk.source, 0);
    second->ops->repost(second, &chunk, 1);
    assert_int_equal(drain(world, 0, NULL), 0);
    assert_int_equal(port_of(world, 0).sent_bytes, 0); /* not through the switch */
    struct tt_mcast_counters counters;
    world->queues[0]->ops->counters(world->queues[0], &counters);
    assert_int_equal(counters.drops_own, 0);
    destroy_world(world);
}

static void chunk_of_ones_own_rank_is_dropped_as_own(void **state)
{
    (void)state;
    const struct tt_sim_options options = plain_options(2);
    struct world *world = create_world(&options);
    struct tt_mcast_queue *twin = attach(world->sim, 1, 0, 1); /* rank 0 on node 1 */
    struct tt_mcast_counters counters;
    struct tt_receive_chunk chunk;
    post(world, 0, 3, 1, 10);
    tt_sim_advance(world->sim, TT_NS_PER_MS);
    assert_int_equal(twin->ops->poll(twin, &chunk, 1), 0);
    twin->ops->counters(twin, &counters);
    assert_int_equal(counters.drops_own, 1);
    assert_int_equal(drain(world, 1, NULL), 1);
    destroy_world(world);
}

static void reborn_instance_is_not_the_old_one(void **state)
{
    (void)state;
    const struct tt_sim_options options = plain_options(2);
    struct world *world = create_world(&options);
    struct tt_p2p_event events[CAPACITY];
    struct tt_p2p_peer *peer = world->peers[0][1];

    assert_int_equal(peer->ops->send(peer, "late", 4), TUTTI_OK);
    world->p2p[1]->ops->destroy(world->p2p[1]);
    world->p2p[1] = tt_sim_p2p(world->sim, 1);
    tt_sim_advance(world->sim, TT_NS_PER_S);
    assert_int_equal(progress(world, 1, events), 0);
    assert_int_equal(progress(world, 0, events), 1);
    assert_int_equal(events[0].type, TT_P2P_PEER_DOWN);
    destroy_world(world);
}

static void destroying_with_things_left_is_a_violation(void **state)
{
    (void)state;
    const struct tt_sim_options options = plain_options(2);
    struct world *world = create_world(&options);
    (void)register_memory(world, 1);
    struct tt_mcast *mcast = tt_sim_mcast(world->sim, 1);
    world->p2p[1]->ops->destroy(world->p2p[1]);
    assert_int_equal(tt_sim_violations(world->sim), 1);
    mcast->ops->destroy(mcast);
    assert_int_equal(tt_sim_violations(world->sim), 2);
    destroy_world(world);
}

static void options_that_cannot_be_are_refused(void **state)
{
    (void)state;
    struct tt_sim_options options = plain_options(0);
    assert_null(tt_sim_create(&options));
    options = plain_options(TT_SIM_MAX_NODES + 1);
    assert_null(tt_sim_create(&options));
    options = plain_options(2);
    options.faults.loss_ppm = 1000001;
    assert_null(tt_sim_create(&options));
    options = plain_options(2);
    options.detection_min_ns = options.detection_max_ns + 1;
    assert_null(tt_sim_create(&options));
    options = plain_options(2);
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
        cmocka_unit_test(lost_chunks_follow_their_share_until_healed),
        cmocka_unit_test(faults_of_one_node_leave_the_others_alone),
        cmocka_unit_test(named_chunk_is_dropped_the_given_number_of_times),
        cmocka_unit_test(late_chunks_are_overtaken_and_copies_arrive),
        cmocka_unit_test(spike_stops_the_downlink_for_its_time),
        cmocka_unit_test(frames_keep_their_order_when_some_are_retransmitted),
        cmocka_unit_test(stalled_node_receives_and_serves_but_does_not_run),
        cmocka_unit_test(crash_is_noticed_by_all_after_the_detection_time),
        cmocka_unit_test(connecting_to_the_dead_ends_in_peer_down),
        cmocka_unit_test(nodes_become_ready_in_order_and_once),
        cmocka_unit_test(same_seed_replays_to_the_byte_and_another_does_not),
        cmocka_unit_test(two_queues_of_one_node_hear_each_other),
        cmocka_unit_test(chunk_of_ones_own_rank_is_dropped_as_own),
        cmocka_unit_test(farewell_and_crash_together_give_one_peer_down),
        cmocka_unit_test(destroy_sends_its_last_frames_however_long_they_take),
        cmocka_unit_test(reborn_instance_is_not_the_old_one),
        cmocka_unit_test(destroying_with_things_left_is_a_violation),
        cmocka_unit_test(options_that_cannot_be_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
