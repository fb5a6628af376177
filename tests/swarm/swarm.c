/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The swarm: seeded random runs of the whole protocol over the simulator.
 *
 *     swarm [--seeds N] [--seed S] [--log FILE] [--verbose] [--twice] [--jobs J]
 *
 * Normal path: seeds S .. S+N-1 (1 .. 1000) are dealt to J processes (2), each runs its seeds one after the other. With
 * --log (one process) every event of the runs goes to the file, the same to the byte in every replay. With --twice
 * every seed runs twice, and must do the same both times. Ends with `N passed, N failed`, a seed counting as one.
 *
 * Failures: a seed with a problem is printed with its first problem, its plan, and the command that replays it. A
 * process that dies (a crash, an assertion) counts as a failure of the seed that it was running; another one goes on
 * behind it.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "run.h"

enum { MAX_PROCESSES = 64, MAX_PRINTED = 20 };

struct arguments {
    uint64_t first_seed, seed_count;
    uint64_t processes;
    const char *log_path;
    const char *program;
    bool verbose, twice;
};

/* What a process has to say, in memory that it shares with the first one. */
struct tally {
    uint64_t next; /* index of the seed that it is running or would run next */
    uint64_t passed, failed;
    uint64_t steps, ended_ok, ended_in_error, chunks_repaired, longest_ns, longest_seed;
};

static void print_replay(const struct arguments *arguments, uint64_t seed)
{
    printf("replay: %s --seed %" PRIu64 " --seeds 1 --verbose --log swarm-%" PRIu64 ".log\n", arguments->program, seed,
           seed);
}

/* --- A seed ------------------------------------------------------------------------------------------------------- */

static bool is_same(const struct swarm_result *a, const struct swarm_result *b)
{
    return a->digest == b->digest && a->steps == b->steps && a->problems == b->problems && a->ended_ok == b->ended_ok &&
           a->ended_in_error == b->ended_in_error;
}

static bool run_seed(const struct arguments *arguments, uint64_t seed, FILE *log, struct tally *tally)
{
    struct swarm_plan plan;
    struct swarm_result result, again;
    bool fine;

    swarm_plan_draw(&plan, seed);
    swarm_run(&plan, log, &result);
    fine = result.problems == 0;
    if (arguments->twice) {
        swarm_run(&plan, NULL, &again);
        if (!is_same(&result, &again)) {
            fine = false;
            snprintf(result.first, sizeof result.first, "a second run of the seed went another way");
        }
    }
    tally->steps += result.steps;
    tally->ended_ok += result.ended_ok;
    tally->ended_in_error += result.ended_in_error;
    tally->chunks_repaired += result.chunks_repaired;
    if (result.longest_ns > tally->longest_ns) {
        tally->longest_ns = result.longest_ns;
        tally->longest_seed = seed;
    }
    if (arguments->verbose) {
        swarm_plan_print(&plan, stdout);
        printf("  %" PRIu64 " steps, %" PRIu64 " requests ended well, %" PRIu64 " in error, digest %016" PRIx64 "\n",
               result.steps, result.ended_ok, result.ended_in_error, result.digest);
    }
    if (!fine) {
        printf("failed: seed %" PRIu64 ": %s\n", seed, result.first);
        if (tally->failed < MAX_PRINTED) {
            swarm_plan_print(&plan, stdout);
            print_replay(arguments, seed);
        }
    }
    fflush(stdout);
    return fine;
}

/* --- Processes ---------------------------------------------------------------------------------------------------- */

static void work(const struct arguments *arguments, uint64_t stride, struct tally *tally, FILE *log)
{
    while (tally->next < arguments->seed_count) {
        if (run_seed(arguments, arguments->first_seed + tally->next, log, tally)) {
            tally->passed++;
        } else {
            tally->failed++;
        }
        tally->next += stride;
    }
}

static pid_t start(const struct arguments *arguments, uint64_t stride, struct tally *tally)
{
    pid_t pid;

    fflush(stdout);
    pid = fork();
    if (pid < 0) {
        fprintf(stderr, "swarm: fork: %s\n", strerror(errno));
        exit(2);
    }
    if (pid == 0) {
        work(arguments, stride, tally, NULL);
        exit(0); /* with what runs at exit: a leak must be seen */
    }
    return pid;
}

/* A process has ended badly: blames the seed that it was at. Returns whether there is more for it to do. */
static bool blame(const struct arguments *arguments, uint64_t stride, struct tally *tally, int status)
{
    uint64_t seed = arguments->first_seed + tally->next;

    tally->failed++;
    if (tally->next >= arguments->seed_count) {
        printf("failed: a process ended with status %x behind its last seed (a leak?)\n", (unsigned)status);
        return false;
    }
    printf("failed: seed %" PRIu64 ": the process ended with %s %d\n", seed, WIFSIGNALED(status) ? "signal" : "status",
           WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    print_replay(arguments, seed);
    tally->next += stride;
    return tally->next < arguments->seed_count;
}

static void run_processes(const struct arguments *arguments, struct tally *tallies)
{
    uint64_t stride = arguments->processes;
    pid_t pids[MAX_PROCESSES];
    uint64_t running = 0;

    for (uint64_t i = 0; i < stride; i++) {
        tallies[i].next = i;
        pids[i] = start(arguments, stride, &tallies[i]);
        running++;
    }
    while (running > 0) {
        int status;
        pid_t pid = wait(&status);

        for (uint64_t i = 0; i < stride; i++) {
            if (pids[i] != pid) {
                continue;
            }
            running--;
            if ((!WIFEXITED(status) || WEXITSTATUS(status) != 0) && blame(arguments, stride, &tallies[i], status)) {
                pids[i] = start(arguments, stride, &tallies[i]);
                running++;
            }
        }
    }
}

/* --- Command line ------------------------------------------------------------------------------------------------- */

static _Noreturn void misuse(const char *word)
{
    fprintf(stderr,
            "swarm: %s: usage: swarm [--seeds N] [--seed S] [--log FILE] [--verbose] [--twice] [--jobs J (1 .. %d)]\n",
            word, MAX_PROCESSES);
    exit(2);
}

static uint64_t number(const char *word, const char *text)
{
    uint64_t value;

    if (text == NULL || tt_parse_count(text, &value) != TUTTI_OK) {
        misuse(word);
    }
    return value;
}

static void parse(int count, char **words, struct arguments *arguments)
{
    *arguments = (struct arguments){.first_seed = 1, .seed_count = 1000, .processes = 2, .program = words[0]};
    for (int i = 1; i < count; i++) {
        const char *word = words[i], *value = i + 1 < count ? words[i + 1] : NULL;

        if (strcmp(word, "--verbose") == 0) {
            arguments->verbose = true;
            continue;
        }
        if (strcmp(word, "--twice") == 0) {
            arguments->twice = true;
            continue;
        }
        if (strcmp(word, "--seeds") == 0) {
            arguments->seed_count = number(word, value);
        } else if (strcmp(word, "--seed") == 0) {
            arguments->first_seed = number(word, value);
        } else if (strcmp(word, "--jobs") == 0) {
            arguments->processes = number(word, value);
        } else if (strcmp(word, "--log") == 0 && value != NULL) {
            arguments->log_path = value;
        } else {
            misuse(word);
        }
        i++;
    }
    if (arguments->processes < 1 || arguments->processes > MAX_PROCESSES) {
        misuse("--jobs");
    }
    if (arguments->seed_count < arguments->processes) {
        arguments->processes = arguments->seed_count > 0 ? arguments->seed_count : 1;
    }
}

static struct tally add_up(const struct arguments *arguments, const struct tally *tallies)
{
    struct tally sum = {0};

    for (uint64_t i = 0; i < arguments->processes; i++) {
        sum.passed += tallies[i].passed;
        sum.failed += tallies[i].failed;
        sum.steps += tallies[i].steps;
        sum.ended_ok += tallies[i].ended_ok;
        sum.ended_in_error += tallies[i].ended_in_error;
        sum.chunks_repaired += tallies[i].chunks_repaired;
        if (tallies[i].longest_ns > sum.longest_ns) {
            sum.longest_ns = tallies[i].longest_ns;
            sum.longest_seed = tallies[i].longest_seed;
        }
    }
    return sum;
}

static void run_logged(const struct arguments *arguments, struct tally *tally)
{
    FILE *log = fopen(arguments->log_path, "w");

    if (log == NULL) {
        fprintf(stderr, "swarm: %s: %s\n", arguments->log_path, strerror(errno));
        exit(2);
    }
    work(arguments, 1, tally, log);
    if (fclose(log) != 0) {
        fprintf(stderr, "swarm: %s: %s\n", arguments->log_path, strerror(errno));
        exit(2);
    }
}

int main(int argument_count, char **argument_words)
{
    struct arguments arguments;
    struct tally *tallies, sum;
    uint64_t begin_ns = tt_clock_now_ns();

    tt_log_configure("none", NULL, (char[256]){0}, 256);
    parse(argument_count, argument_words, &arguments);
    tallies = mmap(NULL, MAX_PROCESSES * sizeof *tallies, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (tallies == MAP_FAILED) {
        fprintf(stderr, "swarm: mmap: %s\n", strerror(errno));
        return 2;
    }
    if (arguments.log_path != NULL) {
        arguments.processes = 1;
        run_logged(&arguments, &tallies[0]);
    } else {
        run_processes(&arguments, tallies);
    }
    sum = add_up(&arguments, tallies);
    printf("%" PRIu64 " requests ended well and %" PRIu64 " in error, %" PRIu64 " chunks repaired, %" PRIu64
           " steps in %.1f s; the longest took %.3f ms without faults (seed %" PRIu64 ")\n",
           sum.ended_ok, sum.ended_in_error, sum.chunks_repaired, sum.steps,
           (double)(tt_clock_now_ns() - begin_ns) / 1e9, (double)sum.longest_ns / 1e6, sum.longest_seed);
    printf("%" PRIu64 " passed, %" PRIu64 " failed\n", sum.passed, sum.failed);
    return sum.failed == 0 ? 0 : 1;
}
