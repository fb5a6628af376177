/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Nodes with a triggered engine each, and a network between them in which packets take their time and overtake each
 * other. Jobs of several ranks do collectives over and over, each cut into pulses that are dealt to the job's ports;
 * nodes take part in several jobs and post them in orders of their own. A payload is read from where it lies at the
 * sender when the packet arrives, and data that is fetched at any time until it is there, with its destination spoilt
 * in between; so overwriting or reading it too early shows. Every engine is checked after every step. A node may die:
 * then nothing reaches it or leaves it, and the other nodes of its jobs, each when it hears of that, close their ports;
 * what they began has to end, and all other jobs have to come out as ever.
 */
#ifndef SUPPORT_OFFLOAD_WORLD_H
#define SUPPORT_OFFLOAD_WORLD_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "offload/offload.h"
#include "plan/schedule.h"

enum { OFFLOAD_MOST_NODES = 16, OFFLOAD_MOST_JOBS = 64, OFFLOAD_MOST_LANES = 3, OFFLOAD_NOBODY = 255 };

struct offload_job_plan {
    enum tt_schedule_collective collective;
    enum tt_schedule_algorithm algorithm;
    uint32_t size, root;
    uint32_t nodes[OFFLOAD_MOST_NODES]; /* of the ranks */
    bool commutes;
    bool has_source;                    /* inputs lie in buffers of their own */
    uint64_t elements;                  /* of the vector; rank blocks have lengths around a share of it */
    uint32_t lanes, pulses, iterations; /* ports; pulses and times each is done */
};

struct offload_plan {
    uint64_t seed;         /* of data */
    uint64_t network_seed; /* of delays and of the order in which nodes post */
    uint32_t node_count, job_count;
    uint32_t unit_count, window, queue_length, action_capacity;
    uint64_t unit_bytes;
    uint32_t packet_bytes, inline_bytes, copies;
    uint64_t most_delay_ns, post_span_ns;
    uint32_t dead_node; /* OFFLOAD_NOBODY */
    uint64_t death_ns;
    struct offload_job_plan jobs[OFFLOAD_MOST_JOBS];
};

struct offload_result {
    char fault[200]; /* the first; empty: none */
    uint64_t digest; /* of all bytes of all buffers at the end */
    uint64_t steps, sequences, end_ns;
    struct tt_offload_counters counters; /* of all nodes */
};

/* Draws a plan; starved: a unit of 4 KiB, and as many jobs as there may be. */
void offload_plan_draw(struct offload_plan *plan, uint64_t seed);
void offload_plan_print(const struct offload_plan *plan, FILE *stream);

/* `log` gets a line for every packet; NULL: none. */
void offload_world_run(const struct offload_plan *plan, FILE *log, struct offload_result *result);

#endif
