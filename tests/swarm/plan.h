/* SPDX-License-Identifier: BSD-3-Clause */
/* What a seed stands for: the ranks, the network and its faults, what goes wrong when, and what is posted. */
#ifndef TT_TESTS_SWARM_PLAN_H
#define TT_TESTS_SWARM_PLAN_H

#include "base/random.h"
#include "support/world.h"

enum {
    SWARM_MAX_NODES = 80,
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
    uint64_t begins_ns;              /* 0: with the run. Later, others may have left theirs */
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
    uint64_t in_place;               /* a bit for each 64th rank */
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

/* What connects two nodes breaks, though both are alive. */
struct swarm_cut {
    bool comes;
    uint32_t nodes[2];
    uint64_t at_ns;
};

/* The nodes fall into two sides, and all that connects one with the other breaks, at once or node by node. */
struct swarm_partition {
    bool comes;
    bool splits_multicast;               /* too, from the first break until faults end */
    uint64_t breaks_ns[SWARM_MAX_NODES]; /* what connects a node of the far side with the near one; 0: it is near */
    uint64_t first_ns, last_ns;          /* of these */
};

/* Registrations of memory at one node are refused, until faults end. */
struct swarm_shortage {
    uint32_t node, refused_ppm; /* of them; 0: none */
    uint64_t at_ns;
};

/* A node's clock jumps ahead, by less than any deadline. */
struct swarm_jump {
    uint32_t node;
    uint64_t at_ns, by_ns; /* 0: it does not */
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
    struct swarm_cut cut;
    struct swarm_partition partition;
    struct swarm_shortage shortage;
    struct swarm_jump jump;
    uint64_t post_delay_ns; /* a rank waits up to this long before a post */
    uint64_t post_pace_ns;  /* and at least this long */
    uint64_t heal_ns;       /* faults end */
    bool leaves;            /* ranks leave as soon as they can */
};

void swarm_plan_draw(struct swarm_plan *plan, uint64_t seed);

/* One line for people, and one for each thing that it has. */
void swarm_plan_print(const struct swarm_plan *plan, FILE *file);

#endif
