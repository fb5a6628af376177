/* SPDX-License-Identifier: BSD-3-Clause */
/* What a seed stands for: the ranks, the network and its faults, what goes wrong when, and what is posted. */
#ifndef TT_TESTS_SWARM_PLAN_H
#define TT_TESTS_SWARM_PLAN_H

#include "base/random.h"
#include "support/world.h"

enum {
    SWARM_MAX_NODES = 33,
    SWARM_MAX_GROUPS = 2,
    SWARM_MAX_JOBS = 14,
    SWARM_MAX_POSTS = 400,
    SWARM_MAX_STALLS = 4,
    SWARM_MAX_CRASHES = 2
};

struct swarm_group_plan {
    uint32_t size;
    uint32_t nodes[SWARM_MAX_NODES]; /* by rank */
    uint32_t post_count;
    uint32_t posts[SWARM_MAX_POSTS]; /* jobs, in the order in which every rank posts them */
};

struct swarm_job_plan {
    uint32_t group;
    enum tt_collective_kind kind;
    uint32_t root;
    uint64_t block_bytes;
    enum tt_method method;
    enum tt_world_elements elements; /* of kinds that combine */
    uint64_t count;                  /* of these: elements */
    bool is_uneven;                  /* a reduce-scatter with counts */
    uint64_t in_place;               /* a bit a rank */
    uint32_t odd_rank;               /* posts something else; TT_RANK_NONE */
    struct tt_request_options odd_terms;
};

struct swarm_stall {
    uint32_t node;
    uint64_t at_ns, until_ns;
    bool is_long; /* beyond every deadline */
};

struct swarm_crash {
    uint32_t node;
    uint64_t at_ns;
};

/* From a time on until faults end, no chunk reaches the node, or any node. */
struct swarm_blackout {
    bool comes;
    uint32_t node; /* or TT_SIM_ALL_NODES */
    uint64_t at_ns;
};

struct swarm_plan {
    uint64_t seed;
    struct tt_world_options options;
    uint32_t slow_node; /* TT_RANK_NONE: none */
    struct tt_sim_link slow_link;
    uint32_t group_count, job_count, stall_count, crash_count;
    struct swarm_group_plan groups[SWARM_MAX_GROUPS];
    struct swarm_job_plan jobs[SWARM_MAX_JOBS];
    struct swarm_stall stalls[SWARM_MAX_STALLS];
    struct swarm_crash crashes[SWARM_MAX_CRASHES];
    struct swarm_blackout blackout;
    uint64_t post_delay_ns; /* a rank waits up to this long before a post */
    uint64_t post_pace_ns;  /* and at least this long */
    uint64_t heal_ns;       /* faults end */
    bool leaves;            /* ranks leave as soon as they can */
};

void swarm_plan_draw(struct swarm_plan *plan, uint64_t seed);

/* One line for people. */
void swarm_plan_print(const struct swarm_plan *plan, FILE *file);

#endif
