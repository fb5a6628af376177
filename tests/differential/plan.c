/* SPDX-License-Identifier: BSD-3-Clause */
/* Nothing can fail. */
#include "plan.h"

#include <assert.h>
#include <stdio.h>

/* Most of a setting's values are what most use, so that a job has a few strange ones and not all of them. */
static const struct extremes {
    const char *name;
    const char *values[8];
} extremes[] = {
    {"WORKERS", {"0", "0", "0", "1", "3"}},
    {"SUBGROUPS", {"auto", "auto", "1", "3", "8"}},
    {"CHAINS", {"auto", "auto", "1", "2"}},
    {"CHUNK", {"auto", "auto", "auto", "64", "1456", "60000"}},
    {"IN_FLIGHT", {"8", "8", "1", "2", "64"}},
    {"POLL", {"auto", "auto", "0", "2ms"}},
    {"LOSS", {"0", "0", "0", "0.5", "5", "40"}},
    {"BANDWIDTH", {"auto", "auto", "auto", "200mbit", "400gbit"}},
    {"ALPHA", {"100ms", "100ms", "0", "1ms"}},
    {"TAIL", {"200us", "200us", "0", "20ms"}},
    {"RECEIVE_BUFFER", {"auto", "auto", "auto", "1", "64K", "1M"}},
    {"ALGORITHM", {"auto", "auto", "auto", "auto", "ring", "multicast", "tree"}},
    {"DETERMINISTIC", {"run", "run", "strict"}},
    {"P2P", {"tcp"}},
    {"MCAST", {"udp"}},
    {"TIMEOUT", {"60s"}},
};

static const tutti_algorithm algorithms[KINDS][11] = {
    [BROADCAST] = {TUTTI_ALGORITHM_MULTICAST, TUTTI_ALGORITHM_CHAIN, TUTTI_ALGORITHM_EAGER, TUTTI_ALGORITHM_TREE,
                   TUTTI_ALGORITHM_SEQUENTIAL, TUTTI_ALGORITHM_BINOMIAL_TREE, TUTTI_ALGORITHM_BINOMIAL_PIPELINE,
                   TUTTI_ALGORITHM_HYBRID, TUTTI_ALGORITHM_BINOMIAL, TUTTI_ALGORITHM_DOUBLE_TREE},
    [ALLGATHER] = {TUTTI_ALGORITHM_MULTICAST, TUTTI_ALGORITHM_RING, TUTTI_ALGORITHM_EAGER, TUTTI_ALGORITHM_GATHER,
                   TUTTI_ALGORITHM_RECURSIVE_DOUBLING, TUTTI_ALGORITHM_TRIGGERED_RING},
    [REDUCE] = {TUTTI_ALGORITHM_GATHER, TUTTI_ALGORITHM_BINOMIAL, TUTTI_ALGORITHM_RABENSEIFNER},
    [ALLREDUCE] = {TUTTI_ALGORITHM_EAGER, TUTTI_ALGORITHM_GATHER, TUTTI_ALGORITHM_RECURSIVE_DOUBLING,
                   TUTTI_ALGORITHM_RABENSEIFNER, TUTTI_ALGORITHM_TRIGGERED_RING, TUTTI_ALGORITHM_PARTS,
                   TUTTI_ALGORITHM_EAGER_PARTS},
    [REDUCE_SCATTER] = {TUTTI_ALGORITHM_EAGER, TUTTI_ALGORITHM_GATHER, TUTTI_ALGORITHM_RECURSIVE_HALVING,
                        TUTTI_ALGORITHM_RABENSEIFNER, TUTTI_ALGORITHM_TRIGGERED_RING, TUTTI_ALGORITHM_DIRECT},
    [GATHER] = {TUTTI_ALGORITHM_BINOMIAL, TUTTI_ALGORITHM_DIRECT},
    [SCATTER] = {TUTTI_ALGORITHM_BINOMIAL, TUTTI_ALGORITHM_DIRECT},
};

static const tutti_type types[] = {TUTTI_INT8,   TUTTI_INT16,  TUTTI_INT32, TUTTI_INT64, TUTTI_UINT8, TUTTI_UINT16,
                                   TUTTI_UINT32, TUTTI_UINT64, TUTTI_BF16,  TUTTI_FP32,  TUTTI_FP64,  TUTTI_OPAQUE};
static const tutti_operation operations[] = {TUTTI_SUM, TUTTI_PRODUCT, TUTTI_MIN, TUTTI_MAX, TUTTI_PREMULTIPLIED_SUM,
                                             TUTTI_AND, TUTTI_OR,      TUTTI_XOR};

enum {
    INTEGERS = 8,        /* of the types, the first ones */
    FLOAT_OPERATIONS = 5 /* and of the operations */
};

static uint32_t below(struct tt_random *random, uint64_t limit)
{
    assert(limit > 0);
    return (uint32_t)tt_random_below(random, limit);
}

void plan_job(uint64_t seed, struct job_plan *plan)
{
    struct tt_random random;
    uint32_t used = 0;

    tt_random_init(&random, seed);
    *plan = (struct job_plan){.seed = seed,
                              .ranks = 2 + below(&random, MOST_RANKS - 1),
                              .lanes = 1 + below(&random, MOST_LANES),
                              .turns = 30 + below(&random, 60)};
    for (uint32_t i = 0; i < sizeof extremes / sizeof extremes[0]; i++) {
        uint32_t values = 0;

        while (values < 8 && extremes[i].values[values] != NULL) {
            values++;
        }
        plan->settings[used++] = extremes[i].name;
        plan->settings[used++] = extremes[i].values[below(&random, values)];
    }
}

void plan_lane(const struct job_plan *plan, uint32_t lane, struct tt_random *random)
{
    tt_random_init(random, (plan->seed + 1) * UINT64_C(0x9E3779B97F4A7C15) + lane);
    (void)tt_random_next(random);
}

/* Any of them in any order. */
void plan_members(const struct job_plan *plan, struct tt_random *random, struct member_list *members)
{
    uint32_t ranks[MOST_RANKS];

    for (uint32_t rank = 0; rank < plan->ranks; rank++) {
        ranks[rank] = rank;
    }
    members->count = tt_random_chance(random, 400000) ? plan->ranks : 1 + below(random, plan->ranks);
    for (uint32_t i = 0; i < members->count; i++) {
        uint32_t other = i + below(random, plan->ranks - i), rank = ranks[other];

        ranks[other] = ranks[i];
        members->ranks[i] = ranks[i] = rank;
    }
}

/* Uniform in its logarithm, and now and then nothing. */
static uint64_t draw_count(struct tt_random *random, uint32_t most_bits)
{
    uint64_t ceiling = UINT64_C(1) << below(random, most_bits + 1);

    return tt_random_chance(random, 50000) ? 0 : ceiling / 2 + below(random, ceiling - ceiling / 2) + 1;
}

static void draw_collective(struct tt_random *random, const struct member_list *members, struct collective *drawn)
{
    uint32_t algorithm_count = 0, type;

    *drawn = (struct collective){.kind = (enum kind)below(random, KINDS),
                                 .type = TUTTI_UINT8,
                                 .root = below(random, members->count),
                                 .in_place = tt_random_chance(random, 400000)};
    while (algorithm_count < 11 && algorithms[drawn->kind][algorithm_count] != TUTTI_ALGORITHM_AUTO) {
        algorithm_count++;
    }
    if (algorithm_count > 0 && tt_random_chance(random, 700000)) {
        drawn->algorithm = algorithms[drawn->kind][below(random, algorithm_count)];
    }
    drawn->by_counts = drawn->kind == REDUCE_SCATTER && tt_random_chance(random, 400000);
    type = below(random, sizeof types / sizeof types[0]);
    if (drawn->kind == REDUCE || drawn->kind == ALLREDUCE || drawn->kind == REDUCE_SCATTER) {
        drawn->type = types[type];
        drawn->operation = types[type] == TUTTI_OPAQUE
                               ? TUTTI_USER
                               : operations[below(random, type < INTEGERS ? sizeof operations / sizeof operations[0]
                                                                          : FLOAT_OPERATIONS)];
        drawn->count = draw_count(random, 14);
    } else {
        drawn->count = draw_count(random, 17);
    }
}

static void draw_objects(struct tt_random *random, struct object_turn *objects)
{
    static const tutti_object_algorithm all[] = {TUTTI_OBJECT_AUTO, TUTTI_OBJECT_SEQUENTIAL, TUTTI_OBJECT_CHAIN,
                                                 TUTTI_OBJECT_BINOMIAL_TREE, TUTTI_OBJECT_BINOMIAL_PIPELINE};
    static const uint64_t blocks[] = {0, 4096, 12288, 262144};

    *objects = (struct object_turn){.algorithm = all[below(random, sizeof all / sizeof all[0])],
                                    .block_bytes = blocks[below(random, sizeof blocks / sizeof blocks[0])],
                                    .count = below(random, MOST_OBJECTS + 1)};
    for (uint32_t i = 0; i < objects->count; i++) {
        objects->sizes[i] = draw_count(random, 18);
    }
}

void plan_turn(const struct job_plan *plan, struct tt_random *random, const struct member_list groups[LANE_GROUPS],
               struct turn *turn)
{
    uint32_t dice = below(random, 100);

    *turn = (struct turn){.what = dice < 4    ? TURN_REPLACE
                                  : dice < 10 ? TURN_OBJECTS
                                              : TURN_COLLECTIVE,
                          .group = below(random, LANE_GROUPS),
                          .slot = below(random, LANE_SLOTS),
                          .again = tt_random_chance(random, 300000),
                          .by_test = tt_random_chance(random, 200000)};
    switch (turn->what) {
    case TURN_REPLACE:
        plan_members(plan, random, &turn->members);
        break;
    case TURN_OBJECTS:
        draw_objects(random, &turn->objects);
        break;
    case TURN_COLLECTIVE:
        draw_collective(random, &groups[turn->group], &turn->collective);
        break;
    }
}

void plan_print(const struct job_plan *plan)
{
    printf("# seed %llu: %u ranks, %u lanes, %u turns;", (unsigned long long)plan->seed, plan->ranks, plan->lanes,
           plan->turns);
    for (uint32_t i = 0; plan->settings[i] != NULL; i += 2) {
        printf(" %s=%s", plan->settings[i], plan->settings[i + 1]);
    }
    printf("\n");
    fflush(stdout);
}

const char *plan_kind_name(enum kind kind)
{
    static const char *const names[KINDS] = {"broadcast",      "allgather", "reduce",  "allreduce",
                                             "reduce-scatter", "gather",    "scatter", "barrier"};

    return names[kind];
}
