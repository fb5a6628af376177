/* SPDX-License-Identifier: BSD-3-Clause */
/* Running a plan, and what there is to say against the run. */
#ifndef TT_TESTS_SWARM_RUN_H
#define TT_TESTS_SWARM_RUN_H

#include "plan.h"

struct swarm_result {
    uint32_t problems;
    char first[TT_WORLD_PROBLEM_BYTES];
    uint64_t digest; /* the simulator's: of everything that happened */
    uint64_t steps;
    uint64_t ended_ok, ended_in_error; /* requests, by rank and post */
    uint64_t chunks_repaired;
    uint64_t longest_ns; /* from the last of post, healing and stalls to an end that was well */
};

/* `log` gets every event; NULL: none. */
void swarm_run(const struct swarm_plan *plan, FILE *log, struct swarm_result *result);

/* --- For the verdict (verdict.c) ---------------------------------------------------------------------------------- */

struct swarm {
    const struct swarm_plan *plan;
    struct tt_world *world;
    struct tt_world_group *groups[SWARM_MAX_GROUPS];
    struct tt_world_job *jobs[SWARM_MAX_JOBS];
    struct swarm_rank {
        uint32_t posted;        /* of the group's posts */
        uint64_t not_before_ns; /* of the next */
        bool refused;
    } ranks[SWARM_MAX_GROUPS][SWARM_MAX_NODES];
    bool is_dark, is_short;           /* that has come, and hit something */
    uint64_t cut_ns[SWARM_MAX_NODES]; /* when one of the node's connections broke last, though both ends live; 0 */
    struct tt_random random;          /* of the applications' delays */
    struct swarm_result *result;
};

/* When a group that has not begun does; TT_NEVER: it does not. */
uint64_t swarm_begins_when(const struct swarm *swarm, uint32_t g);

/* When the last stalled node runs again; 0: none stalls. */
uint64_t swarm_last_stall_end(const struct swarm_plan *plan);

/* A request has ended: whether its status has a cause. */
void swarm_judge_end(struct swarm *swarm, const struct tt_world_job *job, uint32_t rank);

/* A rank leaves its group: nobody may need it any more. */
void swarm_judge_leave(struct swarm *swarm, const struct tt_world_group *group, uint32_t rank);

/* After the run: groups that came to be or not, requests that never ended, groups that should have failed. */
void swarm_judge_run(struct swarm *swarm);

#endif
