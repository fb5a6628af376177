/* SPDX-License-Identifier: BSD-3-Clause */
/* A simulator with queues and connections between all nodes, for the simulator's own tests. */
#ifndef TT_TESTS_UNIT_SIM_WORLD_H
#define TT_TESTS_UNIT_SIM_WORLD_H

#include "base/clock.h"
#include "fabric/sim/sim.h"

enum { SIM_MAX_NODES = 8, SIM_CHUNK_BYTES = 1000, SIM_CAPACITY = 64, SIM_WINDOWS = 2 };

struct sim_world {
    struct tt_sim *sim;
    uint32_t node_count;
    struct tt_mcast_queue *queues[SIM_MAX_NODES];
    struct tt_p2p *p2p[SIM_MAX_NODES];
    struct tt_p2p_peer *peers[SIM_MAX_NODES][SIM_MAX_NODES]; /* of [node] to [other]; cookie: other */
    unsigned char memory[SIM_MAX_NODES][16 * SIM_CHUNK_BYTES];
};

struct sim_registration {
    struct tt_p2p_memory *memory;
    unsigned char key[TT_P2P_MAX_KEY_BYTES];
    size_t key_bytes;
};

/* 1 byte takes 8 ns; 100 ns a link; no headers: times that one can add up. */
struct tt_sim_options sim_plain_options(uint32_t node_count);
struct tt_mcast_queue *sim_attach(struct tt_sim *sim, uint32_t node, uint32_t rank, uint64_t key);
struct sim_world *sim_create_world(const struct tt_sim_options *options);
void sim_destroy_world(struct sim_world *world);
/* Posts `count` chunks of one node's memory with the immediates first, first + 1, ... */
void sim_post(struct sim_world *world, uint32_t node, uint32_t first, uint32_t count, uint32_t length_bytes);
/* Polls everything and reposts it; returns the count and, if wanted, the immediates in order. */
uint32_t sim_drain(struct sim_world *world, uint32_t node, uint32_t *imms);
uint32_t sim_progress(struct sim_world *world, uint32_t node, struct tt_p2p_event *events);
struct tt_sim_port sim_port_of(const struct sim_world *world, uint32_t node);
struct sim_registration sim_register_memory(struct sim_world *world, uint32_t node);
void sim_get(struct sim_world *world, uint32_t from, uint32_t at, const struct sim_registration *registration,
             size_t offset, uint64_t length_bytes, void *local, uint64_t cookie);

#endif
