/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Each of four ranks is killed, or stopped, during each collective, by the algorithm that is chosen and by triggered
 * messages: every survivor is told which rank, within 1 s of its death, or of the deadline. A job ends with its victim,
 * so there are many, and several run side by side: they wait more than they compute.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "job.h"
#include "patience.h"
#include "tutti/reduction.h"

enum { RANKS = 4, WORKERS = 6, LIMIT_S = 20 * TT_PATIENCE, ROOT = 0, FEW = 300, MANY = 40000 };

#define TIMEOUT_NS (TT_PATIENCE * UINT64_C(1000000000))

enum kind { BROADCAST, ALLGATHER, REDUCE, ALLREDUCE, REDUCE_SCATTER, GATHER, SCATTER, BARRIER };

/* What dies in the middle of what; elements are 32-bit integers, and those of the long ones are announced and read. */
static const struct trial {
    const char *name;
    enum kind kind;
    tutti_algorithm algorithm;
    uint64_t count;
} trials[] = {
    /* Two of three leave a child. */
    {"broadcast", BROADCAST, TUTTI_ALGORITHM_AUTO, FEW},
    {"broadcast by binomial", BROADCAST, TUTTI_ALGORITHM_BINOMIAL, MANY},
    {"allgather", ALLGATHER, TUTTI_ALGORITHM_AUTO, FEW},
    {"allgather by triggered-ring", ALLGATHER, TUTTI_ALGORITHM_TRIGGERED_RING, MANY},
    {"reduce", REDUCE, TUTTI_ALGORITHM_AUTO, FEW},
    {"reduce by binomial", REDUCE, TUTTI_ALGORITHM_BINOMIAL, MANY},
    {"allreduce", ALLREDUCE, TUTTI_ALGORITHM_AUTO, FEW},
    {"long allreduce", ALLREDUCE, TUTTI_ALGORITHM_AUTO, MANY},
    {"allreduce by rabenseifner", ALLREDUCE, TUTTI_ALGORITHM_RABENSEIFNER, MANY},
    {"reduce-scatter", REDUCE_SCATTER, TUTTI_ALGORITHM_AUTO, FEW},
    {"reduce-scatter by direct", REDUCE_SCATTER, TUTTI_ALGORITHM_DIRECT, MANY},
    {"gather", GATHER, TUTTI_ALGORITHM_AUTO, FEW},
    {"gather by binomial", GATHER, TUTTI_ALGORITHM_BINOMIAL, MANY},
    {"scatter", SCATTER, TUTTI_ALGORITHM_AUTO, FEW},
    {"scatter by binomial", SCATTER, TUTTI_ALGORITHM_BINOMIAL, MANY},
    {"barrier", BARRIER, TUTTI_ALGORITHM_AUTO, 0},
};

enum { TRIALS = sizeof trials / sizeof trials[0] };

struct death {
    struct job_death common; /* first */
    const struct trial *trial;
};

static tutti_status begin(const struct trial *trial, tutti_group *group, const tutti_request_options *options,
                          tutti_request **request)
{
    static uint32_t send[RANKS * MANY], receive[RANKS * MANY];
    uint64_t count = trial->count;

    switch (trial->kind) {
    case BROADCAST:
        return tutti_broadcast_init(group, TUTTI_IN_PLACE, receive, count * 4, ROOT, options, request);
    case ALLGATHER:
        return tutti_allgather_init(group, send, receive, count * 4, options, request);
    case REDUCE:
        return tutti_reduce_init(group, send, receive, count, TUTTI_UINT32, TUTTI_SUM, NULL, ROOT, options, request);
    case ALLREDUCE:
        return tutti_allreduce_init(group, send, receive, count, TUTTI_UINT32, TUTTI_SUM, NULL, options, request);
    case REDUCE_SCATTER:
        return tutti_reduce_scatter_init(group, send, receive, count, TUTTI_UINT32, TUTTI_SUM, NULL, options, request);
    case GATHER:
        return tutti_gather_init(group, send, receive, count * 4, ROOT, options, request);
    case SCATTER:
        return tutti_scatter_init(group, send, receive, count * 4, ROOT, options, request);
    default:
        return tutti_barrier_init(group, options, request);
    }
}

static void death_body(struct job_rank *rank)
{
    const struct death *death = rank->argument;
    tutti_request_options options = {.struct_size = sizeof options,
                                     .algorithm = death->trial->algorithm,
                                     .timeout_ns = death->common.stops ? TIMEOUT_NS : 0};
    tutti_context *context;
    tutti_group *group;
    tutti_request *request;

    job_group(rank, NULL, &context, &group);
    JOB_OK(rank, begin(death->trial, group, &options, &request));
    job_meet_death(rank, context, group, request);
}

/* Every so many-th of the jobs, one after the other; of those that wait for a time-out fewer where that is long.
 * Returns how many failed. */
static int run_share(uint32_t share, void *argument)
{
    bool stops = *(const bool *)argument;
    int failed = 0;

    for (uint32_t i = share; i < TRIALS * RANKS; i += stops ? WORKERS * TT_PATIENCE : WORKERS) {
        struct death death = {.common = {.victim = i % RANKS,
                                         .stops = stops,
                                         .child = (enum job_child)(i / RANKS % JOB_CHILDREN),
                                         .limit_s = TT_PATIENCE + (stops ? (double)TIMEOUT_NS / 1e9 : 0)},
                              .trial = &trials[i / RANKS]};

        if (job_run_with_victim(RANKS, death_body, &death, LIMIT_S, death.common.victim, stops ? SIGSTOP : SIGKILL) !=
            0) {
            fprintf(stderr, "%s, rank %u %s: not as it should be\n", death.trial->name, death.common.victim,
                    stops ? "is stopped" : "is killed");
            failed++;
        }
    }
    return failed;
}

static void run_all(bool stops)
{
    assert_int_equal(job_run_shares(WORKERS, run_share, &stops), 0);
}

static void every_survivor_names_a_killed_rank_within_a_second(void **state)
{
    (void)state;
    run_all(false);
}

static void every_survivor_names_a_stopped_rank_within_a_second_of_the_deadline(void **state)
{
    (void)state;
    run_all(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_survivor_names_a_killed_rank_within_a_second),
        cmocka_unit_test(every_survivor_names_a_stopped_rank_within_a_second_of_the_deadline),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
