/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: the threads of the benchmarks of endpoints.
 *
 * Normal path: threads are started, meet, work, and say when they were done. Where each can have a core it is bound to
 * it, as in the paper (section IV); where there are more threads than cores, who waits gives its core up.
 *
 * Failures: the first one is kept with its text and ends the waiting of all others, also where a thread could not be
 * started.
 */
#include "cli/crew.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "engine/thread.h"

enum { FAILURE_BYTES = 512, LOOKS_AT_CLOCK = 256 };

#define MEETING_NS (60 * TT_NS_PER_S)

struct member {
    struct tt_crew *crew;
    pthread_t thread;
    uint32_t index;
    uint64_t end_ns;
};

struct tt_crew {
    uint32_t threads;
    tt_crew_work *work;
    void *argument;
    bool yields;
    cpu_set_t cores;
    atomic_uint arrived;
    atomic_uint round;
    atomic_uint_fast64_t met_ns;   /* when the last member came to the last meeting */
    atomic_uint_fast64_t begin_ns; /* the same of the one that the duration counts from */
    atomic_bool has_failed;
    pthread_mutex_t lock; /* of what follows */
    tutti_status status;
    char failure[FAILURE_BYTES];
};

uint32_t tt_crew_cores(void)
{
    cpu_set_t cores;

    return sched_getaffinity(0, sizeof(cores), &cores) == 0 ? (uint32_t)CPU_COUNT(&cores) : 1;
}

/* To the core with this number among those that the process may use. */
static void bind_to(const cpu_set_t *cores, uint32_t number)
{
    cpu_set_t own;

    CPU_ZERO(&own);
    for (int core = 0; core < CPU_SETSIZE; core++) {
        if (CPU_ISSET(core, cores) && number-- == 0) {
            CPU_SET(core, &own);
            /* Only the figures are better with it. */
            (void)pthread_setaffinity_np(pthread_self(), sizeof(own), &own);
            return;
        }
    }
}

static void fail(struct tt_crew *crew, tutti_status status, const char *text)
{
    pthread_mutex_lock(&crew->lock);
    if (crew->status == TUTTI_OK || crew->status == TUTTI_ERR_CANCELED) {
        crew->status = status;
        snprintf(crew->failure, sizeof(crew->failure), "%s", text);
    }
    pthread_mutex_unlock(&crew->lock);
    atomic_store(&crew->has_failed, true);
}

static tutti_status wait_for_round(struct tt_crew *crew, unsigned round)
{
    uint64_t deadline_ns = tt_clock_now_ns() + MEETING_NS;

    for (uint32_t looks = 1; atomic_load(&crew->round) == round; looks++) {
        if (atomic_load(&crew->has_failed)) {
            return tt_error_note(TUTTI_ERR_CANCELED, "another thread has failed");
        }
        if (looks % LOOKS_AT_CLOCK == 0 && tt_clock_now_ns() >= deadline_ns) {
            return tt_error_note(TUTTI_ERR_TIMED_OUT, "a thread did not come to a meeting for a minute");
        }
        if (crew->yields) {
            sched_yield();
        }
    }
    return TUTTI_OK;
}

tutti_status tt_crew_meet(struct tt_crew *crew)
{
    unsigned round = atomic_load(&crew->round);

    if (atomic_fetch_add(&crew->arrived, 1) + 1 < crew->threads) {
        return wait_for_round(crew, round);
    }
    atomic_store(&crew->met_ns, tt_clock_now_ns());
    atomic_store(&crew->arrived, 0);
    atomic_fetch_add(&crew->round, 1);
    return TUTTI_OK;
}

tutti_status tt_crew_begin(struct tt_crew *crew)
{
    tutti_status status = tt_crew_meet(crew);

    atomic_store(&crew->begin_ns, atomic_load(&crew->met_ns)); /* all store the same: nobody has met again yet */
    return status;
}

static void *run_member(void *argument)
{
    struct member *member = argument;
    struct tt_crew *crew = member->crew;

    if (!crew->yields) {
        bind_to(&crew->cores, member->index);
    }
    tutti_status status = tt_crew_begin(crew);
    if (status == TUTTI_OK) {
        status = crew->work(crew->argument, crew, member->index);
    }
    if (status != TUTTI_OK) {
        fail(crew, status, tt_last_error());
    }
    member->end_ns = tt_clock_now_ns();
    return NULL;
}

static void run_members(struct tt_crew *crew, struct member *members)
{
    uint32_t started = 0;

    while (started < crew->threads) {
        members[started] = (struct member){.crew = crew, .index = started};
        int error = tt_thread_start(&members[started].thread, run_member, &members[started]);
        if (error != 0) {
            char text[FAILURE_BYTES];
            snprintf(text, sizeof(text), "thread %u of %u: %s", started + 1, crew->threads, strerror(error));
            fail(crew, TUTTI_ERR_NO_RESOURCE, text);
            break;
        }
        started++;
    }
    for (uint32_t i = 0; i < started; i++) {
        pthread_join(members[i].thread, NULL);
    }
}

tutti_status tt_crew_run(uint32_t threads, tt_crew_work *work, void *argument, uint64_t *duration_ns)
{
    struct tt_crew crew = {.threads = threads, .work = work, .argument = argument, .status = TUTTI_OK};
    struct member *members = calloc(threads, sizeof(*members));
    uint64_t end_ns = 0;

    if (members == NULL) {
        return tt_error_note(TUTTI_ERR_NO_MEMORY, "no memory for %u threads", threads);
    }
    pthread_mutex_init(&crew.lock, NULL);
    crew.yields = sched_getaffinity(0, sizeof(crew.cores), &crew.cores) != 0 || threads > tt_crew_cores();
    run_members(&crew, members);
    for (uint32_t i = 0; i < threads; i++) {
        end_ns = members[i].end_ns > end_ns ? members[i].end_ns : end_ns;
    }
    free(members);
    pthread_mutex_destroy(&crew.lock);
    if (crew.status != TUTTI_OK) {
        return tt_error_note(crew.status, "%s", crew.failure);
    }
    *duration_ns = end_ns - crew.begin_ns;
    return TUTTI_OK;
}
