/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the differential test draws from a seed. A job is a few processes on this host, with settings at their extremes.
 * Each process has a few lanes, a thread each; a lane has a few groups of some of the ranks, which overlap, and takes a
 * sequence of turns that all ranks draw alike, whether or not they are members.
 */
#ifndef TT_TESTS_DIFFERENTIAL_PLAN_H
#define TT_TESTS_DIFFERENTIAL_PLAN_H

#include "base/random.h"
#include "tutti/object.h"
#include "tutti/reduction.h"

enum {
    MOST_RANKS = 9,
    MOST_LANES = 3,
    LANE_GROUPS = 3,
    LANE_SLOTS = 5,
    MOST_SETTINGS = 20,
    MOST_OBJECTS = 4,
    OBJECT_BYTES = 300000
};

struct job_plan {
    uint64_t seed;
    uint32_t ranks, lanes, turns;
    const char *settings[2 * MOST_SETTINGS + 1]; /* names and values, and NULL */
};

/* The ranks of a group, in its order. */
struct member_list {
    uint32_t count;
    uint32_t ranks[MOST_RANKS];
};

enum kind { BROADCAST, ALLGATHER, REDUCE, ALLREDUCE, REDUCE_SCATTER, GATHER, SCATTER, BARRIER, KINDS };

/* Elements, or bytes where nothing is combined. Of a reduce-scatter and a scatter: what a rank gets. */
struct collective {
    enum kind kind;
    tutti_algorithm algorithm;
    tutti_type type;
    tutti_operation operation;
    uint64_t count;
    uint32_t root;
    bool in_place;
    bool by_counts; /* a reduce-scatter with parts of different lengths */
};

struct object_turn {
    tutti_object_algorithm algorithm;
    uint64_t block_bytes;
    uint32_t count;
    uint64_t sizes[MOST_OBJECTS];
};

struct turn {
    enum { TURN_COLLECTIVE, TURN_OBJECTS, TURN_REPLACE } what;
    uint32_t group, slot;
    bool again; /* what was in the slot before is posted again, if there is something */
    bool by_test;
    struct member_list members; /* REPLACE: of the group from then on */
    struct collective collective;
    struct object_turn objects;
};

void plan_job(uint64_t seed, struct job_plan *plan);

/* Where a lane's draws begin. */
void plan_lane(const struct job_plan *plan, uint32_t lane, struct tt_random *random);
void plan_members(const struct job_plan *plan, struct tt_random *random, struct member_list *members);

/* `groups` as they are when the turn begins. */
void plan_turn(const struct job_plan *plan, struct tt_random *random, const struct member_list groups[LANE_GROUPS],
               struct turn *turn);

/* What a job or a collective is, for messages. */
void plan_print(const struct job_plan *plan);
const char *plan_kind_name(enum kind kind);

#endif
