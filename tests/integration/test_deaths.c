/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Jobs of 2 to 16 ranks, of which one is killed at any moment, also while they find each other, with and without a
 * child that lives on: each survivor ends by itself and names the rank that has died, within 1 s once the group is
 * made, else when the time to find each other is over.
 *
 *     test_deaths [kills [seed]]      as many, those that this seed draws
 */
#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/random.h"
#include "free_port.h"
#include "job.h"
#include "patience.h"
#include "tutti/reduction.h"

enum { KILLS = TT_PATIENCE > 1 ? 12 : 60, WORKERS = 4, MOST_RANKS = 16, LIMIT_S = 25, MOST_BYTES = 300000 };

#define BOOTSTRAP_S   3
#define FORK_AHEAD_US 10000 /* a child is made so long before its parent dies: in the middle of whatever that does */

enum kind { BROADCAST, ALLGATHER, ALLREDUCE, KINDS };

static uint32_t kills = KILLS;
static uint64_t seed;

struct death {
    uint32_t size, victim;
    enum kind kind;
    enum job_child child;
    uint64_t bytes, after_us;
    uint16_t port;
};

/* How jobs ended; the workers share it. */
static struct counts {
    _Atomic uint32_t named, at_setup;
    _Atomic uint64_t slowest_us;
} * counts;

static struct death draw(uint32_t number)
{
    enum { SETUP_US = 100000, LIFE_US = 1000000, SHORT_BYTES = 8, ELEMENT_BYTES = 4, HALF = 500000 };
    struct tt_random random;
    struct death death;
    tt_random_init(&random, seed ^ ((uint64_t)number << 32));
    death.size = 2 + (uint32_t)tt_random_below(&random, MOST_RANKS - 1);
    death.victim = (uint32_t)tt_random_below(&random, death.size);
    death.kind = (enum kind)tt_random_below(&random, KINDS);
    death.child = (enum job_child)tt_random_below(&random, JOB_CHILDREN);
    death.bytes = tt_random_chance(&random, HALF)
                      ? SHORT_BYTES
                      : ELEMENT_BYTES * (1 + tt_random_below(&random, MOST_BYTES / ELEMENT_BYTES));
    death.after_us = tt_random_below(&random, tt_random_chance(&random, HALF) ? SETUP_US : LIFE_US);
    death.port = 0;
    return death;
}

static tutti_status begin(const struct death *death, tutti_group *group, tutti_request **request)
{
    static uint8_t send[MOST_BYTES], receive[MOST_RANKS * MOST_BYTES];
    switch (death->kind) {
    case BROADCAST:
        return tutti_broadcast_init(group, TUTTI_IN_PLACE, receive, death->bytes, 0, NULL, request);
    case ALLGATHER:
        return tutti_allgather_init(group, send, receive, death->bytes, NULL, request);
    default:
        return tutti_allreduce_init(group, send, receive, death->bytes / 4, TUTTI_INT32, TUTTI_SUM, NULL, NULL,
                                    request);
    }
}

static void *leave_child(void *argument)
{
    struct job_rank *rank = argument;
    const struct death *death = rank->argument;
    if (death->after_us > FORK_AHEAD_US) {
        usleep((useconds_t)(death->after_us - FORK_AHEAD_US));
    }
    job_leave_child(rank, death->child);
    return NULL;
}

static void meet(const struct job_rank *rank)
{
    const struct death *death = rank->argument;
    char text[32];
    snprintf(text, sizeof text, "127.0.0.1:%u", death->port);
    setenv("TUTTI_ROOT", text, 1);
    snprintf(text, sizeof text, "%u", rank->rank);
    setenv("TUTTI_RANK", text, 1);
    snprintf(text, sizeof text, "%u", rank->size);
    setenv("TUTTI_SIZE", text, 1);
    snprintf(text, sizeof text, "%ds", BOOTSTRAP_S * TT_PATIENCE);
    setenv("TUTTI_BOOTSTRAP_TIMEOUT", text, 1);
}

/* Whether the sentence is about this rank, and not one whose number begins alike. */
static bool is_named(const char *sentence, uint32_t victim)
{
    char name[24];
    size_t length = (size_t)snprintf(name, sizeof name, "rank %u", victim);
    for (const char *at = strstr(sentence, name); at != NULL; at = strstr(at + 1, name)) {
        if (at[length] < '0' || at[length] > '9') {
            return true;
        }
    }
    return false;
}

static void note_slowest(double took_s)
{
    uint64_t took_us = took_s > 0 ? (uint64_t)(took_s * 1e6) : 0, known = atomic_load(&counts->slowest_us);
    while (took_us > known && !atomic_compare_exchange_weak(&counts->slowest_us, &known, took_us)) {
    }
}

/* Goes on until something fails. */
static void body(struct job_rank *rank)
{
    const struct death *death = rank->argument;
    tutti_context *context = NULL;
    tutti_group *group = NULL;
    tutti_request *request = NULL;
    pthread_t thread;
    double begun_s = job_now_s(), took_s;

    meet(rank);
    if (rank->rank == death->victim && death->child != JOB_NO_CHILD) {
        JOB_CHECK(rank, pthread_create(&thread, NULL, leave_child, rank) == 0, "no thread");
    }
    JOB_OK(rank, tutti_context_create(NULL, &context));
    tutti_status status = tutti_group_create_from_environment(context, &group);
    bool is_setup = status != TUTTI_OK;
    status = is_setup ? status : begin(death, group, &request);
    while (status == TUTTI_OK) {
        status = tutti_post(request);
        status = status == TUTTI_OK ? tutti_wait(request) : status;
    }
    took_s = job_now_s() - job_signaled_s(rank);
    JOB_CHECK(rank, job_signaled_s(rank) > 0, "failed with all alive: %s", tutti_last_error());
    JOB_CHECK(rank, is_named(tutti_last_error(), death->victim), "rank %u has died, not: %s", death->victim,
              tutti_last_error());
    if (is_setup) {
        JOB_CHECK(rank, job_now_s() - begun_s < (BOOTSTRAP_S + 1) * TT_PATIENCE, "took %.1f s: %s",
                  job_now_s() - begun_s, tutti_last_error());
    } else {
        JOB_CHECK(rank, status == TUTTI_ERR_PEER_FAILED, "%s: %s", tutti_status_name(status), tutti_last_error());
        JOB_CHECK(rank, tutti_group_failed_rank(group) == (int)death->victim, "rank %d is named: %s",
                  tutti_group_failed_rank(group), tutti_last_error());
        JOB_CHECK(rank, took_s < TT_PATIENCE, "took %.3f s: %s", took_s, tutti_last_error());
        note_slowest(took_s);
        if (request != NULL) {
            JOB_OK(rank, tutti_finalize(request));
        }
        JOB_OK(rank, tutti_group_destroy(group));
    }
    JOB_OK(rank, tutti_context_destroy(context));
    atomic_fetch_add(is_setup ? &counts->at_setup : &counts->named, 1);
}

/* Every so many-th job. Returns how many failed. */
static int run_share(uint32_t share, void *argument)
{
    int failed = 0;
    (void)argument;
    for (uint32_t number = share; number < kills; number += WORKERS) {
        struct death death = draw(number);
        death.port = tt_free_port();
        if (job_run_with_victim_at(death.size, body, &death, LIMIT_S, death.victim, death.after_us) != 0) {
            fprintf(stderr,
                    "kill %u of seed %" PRIu64 ": rank %u of %u, after %" PRIu64 " us, kind %d of %" PRIu64
                    " bytes, child %d: not as it should be\n",
                    number, seed, death.victim, death.size, death.after_us, (int)death.kind, death.bytes,
                    (int)death.child);
            failed++;
        }
    }
    return failed;
}

static void a_rank_that_is_killed_at_any_moment_is_named_by_every_survivor(void **state)
{
    (void)state;
    counts = mmap(NULL, sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(counts, MAP_FAILED);
    printf("# test_deaths %u %" PRIu64 "\n", kills, seed);
    uint32_t failed = job_run_shares(WORKERS, run_share, NULL);
    printf("# survivors that named who had died: %u, within %.3f s; and %u while they found each other\n",
           atomic_load(&counts->named), (double)atomic_load(&counts->slowest_us) / 1e6, atomic_load(&counts->at_setup));
    assert_int_equal(failed, 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_that_is_killed_at_any_moment_is_named_by_every_survivor),
    };
    kills = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : kills;
    seed = argc > 2 ? strtoull(argv[2], NULL, 10) : tt_clock_now_ns();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
