/* SPDX-License-Identifier: BSD-3-Clause */
/* One rank's start-up probe, whose parent and children the test plays. */
#ifndef TT_TEST_PROBE_WORLD_H
#define TT_TEST_PROBE_WORLD_H

#include "machine.h"
#include "proto/probe.h"

enum { MS = 1000 * 1000, TIMEOUT_NS = 300 * MS };

struct world {
    struct tt_probe probe;
    _Atomic uint64_t heard[4];
    uint64_t speakers[4];
    struct script script;
};

void world_init(struct world *world, uint32_t rank, uint32_t size, bool multicast, uint32_t subgroups);

/* One of up to 256 ranks of these hosts. */
void world_init_hosts(struct world *world, uint32_t rank, uint32_t size, const uint64_t *hosts);

void world_start(struct world *world, uint64_t now_ns);
void world_tick(struct world *world, uint64_t now_ns);

/* Returns what the probe did: whether it took the frame. */
bool world_hear_from(struct world *world, uint64_t now_ns, uint32_t source, uint32_t phase, bool yes,
                     uint32_t failed_rank);

/* A frame that says yes, and is taken. */
void world_hear(struct world *world, uint64_t now_ns, uint32_t source, uint32_t phase);

/* The next action must say this; what it says of the vote counts where the phase is about that. */
void next_says(struct world *world, uint32_t to, uint32_t phase, bool yes, uint32_t failed_rank);

/* The last action must end the probe, which waits for nothing more. */
void next_ends(struct world *world, bool multicast, uint32_t failed_rank);

#endif
