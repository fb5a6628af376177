/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random collectives against a reference: job after job of real processes on loopback, in each of which several threads
 * a rank have several groups with members in common, settings at their extremes, and everything that the library does
 * in flight at once; every element of every result is compared with what a loop over the ranks makes of it.
 *
 *     differential [--seed S] [--jobs N] [--seconds S] [--plant]
 *
 * Failures: the first job that fails ends the run, and how to run it again is printed. --plant: rank 0 has a wrong
 * byte.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "lane.h"
#include "support/parts_order.h"

enum { LIMIT_S = 150 };

struct job_argument {
    struct job_plan plan;
    struct meetings *meetings;
    bool plants;
};

static void say(const struct job_rank *rank, const struct lane *lanes, uint32_t count)
{
    uint64_t completed = 0, refused = 0, objects = 0;

    for (uint32_t i = 0; i < count; i++) {
        completed += lanes[i].completed;
        refused += lanes[i].refused;
        objects += lanes[i].objects;
    }
    if (rank->rank == 0) {
        printf("# rank 0: %" PRIu64 " collectives, %" PRIu64 " not served, %" PRIu64 " objects\n", completed, refused,
               objects);
    }
}

static void job_body(struct job_rank *rank)
{
    static struct lane lanes[MOST_LANES];
    const struct job_argument *argument = rank->argument;
    pthread_t threads[MOST_LANES];
    tutti_context *context;
    tutti_group *world;

    job_group(rank, argument->plan.settings, &context, &world);
    for (uint32_t i = 0; i < argument->plan.lanes; i++) {
        lanes[i] = (struct lane){.rank = rank,
                                 .plan = &argument->plan,
                                 .context = context,
                                 .meetings = argument->meetings,
                                 .number = i,
                                 .plants = argument->plants && rank->rank == 0};
        JOB_CHECK(rank, pthread_create(&threads[i], NULL, lane_run, &lanes[i]) == 0, "no thread");
    }
    for (uint32_t i = 0; i < argument->plan.lanes; i++) {
        pthread_join(threads[i], NULL);
    }
    say(rank, lanes, argument->plan.lanes);
    job_end(context, world);
}

static bool run_job(uint64_t seed, bool plants)
{
    struct job_argument argument = {.plants = plants};
    uint32_t failed;

    argument.meetings =
        mmap(NULL, sizeof *argument.meetings, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (argument.meetings == MAP_FAILED) {
        fprintf(stderr, "differential: no memory\n");
        return false;
    }
    plan_job(seed, &argument.plan);
    plan_print(&argument.plan);
    failed = job_run(argument.plan.ranks, job_body, &argument, LIMIT_S);
    munmap(argument.meetings, sizeof *argument.meetings);
    if (failed > 0) {
        printf("failed: seed %" PRIu64 ": %u of %u ranks; again: differential --seed %" PRIu64 " --jobs 1\n", seed,
               failed, argument.plan.ranks, seed);
    }
    return failed == 0;
}

static int usage(void)
{
    fprintf(stderr, "usage: differential [--seed S] [--jobs N] [--seconds S] [--plant]\n");
    return 2;
}

int main(int argc, char **argv)
{
    uint64_t seed = 1, jobs = UINT64_MAX, seconds = UINT64_MAX, done = 0, start_ns = tt_clock_now_ns();
    bool plants = false, good = true;

    for (int i = 1; i < argc; i++) {
        uint64_t *number = strcmp(argv[i], "--seed") == 0      ? &seed
                           : strcmp(argv[i], "--jobs") == 0    ? &jobs
                           : strcmp(argv[i], "--seconds") == 0 ? &seconds
                                                               : NULL;
        char *end = NULL;

        if (strcmp(argv[i], "--plant") == 0) {
            plants = true;
        } else if (number == NULL || i + 1 == argc || (*number = strtoull(argv[++i], &end, 10), *end != '\0')) {
            return usage();
        }
    }
    if (jobs == UINT64_MAX && seconds == UINT64_MAX) {
        jobs = 1;
    }
    while (good && done < jobs && (seconds == UINT64_MAX || tt_clock_now_ns() - start_ns < seconds * TT_NS_PER_S)) {
        good = run_job(seed + done++, plants);
    }
    printf("%" PRIu64 " passed, %d failed, 0 skipped\n", good ? done : done - 1, good ? 0 : 1);
    return good ? 0 : 1;
}
