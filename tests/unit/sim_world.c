/* SPDX-License-Identifier: BSD-3-Clause */
/* Worlds for the tests of the simulator. What must succeed and does not fails the test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sim_world.h"
#include "tutti/status.h"

struct tt_sim_options sim_plain_options(uint32_t node_count)
{
    struct tt_sim_options options;
    tt_sim_options_init(&options, node_count);
    options.uplink = options.downlink = (struct tt_sim_link){TT_NS_PER_S, 100};
    options.header_bytes = 0;
    options.max_chunk_bytes = SIM_CHUNK_BYTES;
    options.p2p_packet_bytes = SIM_CHUNK_BYTES;
    options.receive_depth = SIM_CAPACITY;
    options.send_queue_chunks = SIM_CAPACITY;
    options.detection_min_ns = 5000;
    options.detection_max_ns = 5000;
    return options;
}

/* A simulated packet names its sender, so that the others' names may be empty. */
static void introduce(struct tt_mcast_queue *queue, uint32_t rank)
{
    enum { RANKS = 16 };
    uint8_t names[RANKS][TT_MCAST_NAME_BYTES] = {{0}};
    assert_true(rank < RANKS);
    queue->ops->describe(queue, names[rank]);
    assert_int_equal(queue->ops->introduce(queue, names, sizeof(names[0]), RANKS), TUTTI_OK);
}

struct tt_mcast_queue *sim_attach(struct tt_sim *sim, uint32_t node, uint32_t rank, uint64_t key)
{
    const struct tt_mcast_queue_options options = {.address = {.group_be = 7, .port = 1, .key = key},
                                                   .rank = rank,
                                                   .chunk_bytes = SIM_CHUNK_BYTES,
                                                   .windows = SIM_WINDOWS};
    struct tt_mcast *mcast = tt_sim_mcast(sim, node);
    struct tt_mcast_queue *queue = NULL;
    assert_int_equal(mcast->ops->attach(mcast, &options, &queue), TUTTI_OK);
    introduce(queue, rank);
    return queue;
}

struct sim_world *sim_create_world(const struct tt_sim_options *options)
{
    struct sim_world *world = calloc(1, sizeof(*world));
    assert_non_null(world);
    world->sim = tt_sim_create(options);
    assert_non_null(world->sim);
    world->node_count = options->node_count;
    for (uint32_t i = 0; i < options->node_count; i++) {
        world->queues[i] = sim_attach(world->sim, i, i, 1);
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

void sim_destroy_world(struct sim_world *world)
{
    tt_sim_destroy(world->sim);
    free(world);
}

void sim_post(struct sim_world *world, uint32_t node, uint32_t first, uint32_t count, uint32_t length_bytes)
{
    struct tt_send_chunk chunks[SIM_CAPACITY];
    for (uint32_t i = 0; i < count; i++) {
        chunks[i] = (struct tt_send_chunk){
            .imm = first + i, .length_bytes = length_bytes, .address = world->memory[node] + i * length_bytes % 1000};
    }
    assert_int_equal(world->queues[node]->ops->post(world->queues[node], chunks, count), count);
}

uint32_t sim_drain(struct sim_world *world, uint32_t node, uint32_t *imms)
{
    struct tt_mcast_queue *queue = world->queues[node];
    struct tt_receive_chunk chunks[SIM_CAPACITY];
    const uint32_t count = queue->ops->poll(queue, chunks, SIM_CAPACITY);
    for (uint32_t i = 0; i < count && imms != NULL; i++) {
        imms[i] = chunks[i].imm;
    }
    queue->ops->repost(queue, chunks, count);
    return count;
}

uint32_t sim_progress(struct sim_world *world, uint32_t node, struct tt_p2p_event *events)
{
    return world->p2p[node]->ops->progress(world->p2p[node], events, SIM_CAPACITY);
}

struct tt_sim_port sim_port_of(const struct sim_world *world, uint32_t node)
{
    struct tt_sim_port port;
    tt_sim_port_counters(world->sim, node, &port);
    return port;
}

struct sim_registration sim_register_memory(struct sim_world *world, uint32_t node)
{
    struct sim_registration registration = {.key_bytes = sizeof(registration.key)};
    struct tt_p2p *p2p = world->p2p[node];
    assert_int_equal(
        p2p->ops->memory_register(p2p, world->memory[node], sizeof(world->memory[node]), &registration.memory),
        TUTTI_OK);
    assert_int_equal(p2p->ops->memory_pack(registration.memory, registration.key, &registration.key_bytes), TUTTI_OK);
    return registration;
}

void sim_get(struct sim_world *world, uint32_t from, uint32_t at, const struct sim_registration *registration,
             size_t offset, uint64_t length_bytes, void *local, uint64_t cookie)
{
    struct tt_p2p_peer *peer = world->peers[from][at];
    assert_int_equal(peer->ops->get(peer, registration->key, registration->key_bytes,
                                    (uintptr_t)world->memory[at] + offset, local, length_bytes, cookie),
                     TUTTI_OK);
}
