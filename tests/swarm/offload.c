/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Seeded random runs of triggered engines over a virtual network.
 *
 *     swarm_offload [--seeds N] [--seed S] [--verbose]
 *
 * Normal path: seeds S .. S+N-1 (1 .. 1000) one after the other, each of them twice with other delays and another order
 * of posts: both must be right, and leave the same bits in every buffer. --verbose prints plans and every packet. Ends
 * with `N passed, N failed`, a seed counting as one.
 *
 * Failures: a seed with a fault is printed with it, its plan, and the command that replays it. A process that dies (a
 * crash, an assertion) counts as a failure of the seed that it was running; another one goes on behind it.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/offload_world.h"

static const char *program;

/* What a process has to say, in memory that it shares with the first one. */
struct tally {
    uint64_t next; /* the seed that it is running or would run next */
    uint64_t passed, failed;
    struct offload_result sums;
};

static bool run_seed(uint64_t seed, bool verbose, struct offload_result *sums)
{
    static struct offload_plan plan;
    struct offload_result result, again;

    offload_plan_draw(&plan, seed);
    if (verbose) {
        offload_plan_print(&plan, stdout);
    }
    offload_world_run(&plan, verbose ? stdout : NULL, &result);
    if (result.fault[0] == '\0') {
        plan.network_seed++;
        offload_world_run(&plan, NULL, &again);
        if (again.fault[0] != '\0') {
            memcpy(result.fault, again.fault, sizeof result.fault);
        } else if (again.digest != result.digest) {
            snprintf(result.fault, sizeof result.fault, "the bits depend on the order in which packets arrive");
        }
    }
    sums->steps += result.steps;
    sums->sequences += result.sequences;
    sums->counters.read += result.counters.read;
    sums->counters.read_at_once += result.counters.read_at_once;
    sums->counters.refused += result.counters.refused;
    sums->counters.repeated += result.counters.repeated;
    sums->counters.kept_apart += result.counters.kept_apart;
    sums->counters.fetched += result.counters.fetched;
    sums->counters.fetched_apart += result.counters.fetched_apart;
    if (result.fault[0] == '\0') {
        return true;
    }
    printf("seed %" PRIu64 ": %s\n", seed, result.fault);
    offload_plan_print(&plan, stdout);
    printf("replay: %s --seed %" PRIu64 " --seeds 1 --verbose\n", program, seed);
    return false;
}

static void run_seeds(struct tally *tally, uint64_t end, bool verbose)
{
    while (tally->next < end) {
        bool passed = run_seed(tally->next, verbose, &tally->sums);

        tally->passed += passed;
        tally->failed += !passed;
        tally->next++;
    }
}

/* In processes, one after the other: the next one goes on behind the seed of which the last one died. */
static bool run_all(struct tally *tally, uint64_t end, bool verbose)
{
    while (tally->next < end) {
        int status = 0;
        pid_t child;

        fflush(stdout);
        child = fork();
        if (child < 0) {
            return false;
        }
        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            run_seeds(tally, end, verbose);
            fflush(stdout);
            _exit(0);
        }
        if (waitpid(child, &status, 0) != child) {
            return false;
        }
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
            printf("seed %" PRIu64 ": the process died (status %d)\nreplay: %s --seed %" PRIu64
                   " --seeds 1 --verbose\n",
                   tally->next, status, program, tally->next);
            tally->failed++;
            tally->next++;
        }
    }
    return true;
}

static bool leaves_out_something(const struct tally *tally)
{
    const struct tt_offload_counters *sums = &tally->sums.counters;

    return tally->passed >= 100 && (sums->refused == 0 || sums->kept_apart == 0 || sums->fetched_apart == 0 ||
                                    sums->fetched == sums->fetched_apart);
}

int main(int argc, char **argv)
{
    uint64_t first = 1, count = 1000;
    bool verbose = false;

    program = argv[0];
    for (int i = 1; i < argc; i++) {
        bool has_value = i + 1 < argc;

        if (strcmp(argv[i], "--verbose") == 0) {
            verbose = true;
        } else if (strcmp(argv[i], "--seed") == 0 && has_value) {
            first = strtoull(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--seeds") == 0 && has_value) {
            count = strtoull(argv[++i], NULL, 10);
        } else {
            fprintf(stderr, "usage: %s [--seeds N] [--seed S] [--verbose]\n", program);
            return 2;
        }
    }
    struct tally *tally = mmap(NULL, sizeof(*tally), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (tally == MAP_FAILED) {
        perror("mmap");
        return 1;
    }
    tally->next = first;
    if (!run_all(tally, first + count, verbose)) {
        perror("fork");
        return 1;
    }
    const struct offload_result *sums = &tally->sums;

    printf("%" PRIu64 " steps, %" PRIu64 " sequences, %" PRIu64 " packets read (%" PRIu64 " as they came), %" PRIu64
           " refused, %" PRIu64 " sent again, %" PRIu64 " kept apart, %" PRIu64 " fetched (%" PRIu64 " apart)\n",
           sums->steps, sums->sequences, sums->counters.read, sums->counters.read_at_once, sums->counters.refused,
           sums->counters.repeated, sums->counters.kept_apart, sums->counters.fetched, sums->counters.fetched_apart);
    if (leaves_out_something(tally)) {
        printf("nothing was refused, kept apart, or fetched in one of both ways: the plans do not try everything\n");
        tally->failed++;
    }
    printf("%" PRIu64 " passed, %" PRIu64 " failed, 0 skipped\n", tally->passed, tally->failed);
    return tally->failed == 0 && tally->passed == count && count > 0 ? 0 : 1;
}
