/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks that are needed while they do not call the library, or only now and then: the keeper does their part. How often
 * it may be woken for nothing is in tests/unit/test_keeper.c, too.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <dirent.h>

#include "api/handles.h"
#include "engine/keeper.h"
#include "job.h"

enum { LIMIT_S = 60, IDLE_US = 50000 /* then a keeper sleeps until it is called, or is at work */ };

/* A byte from rank 0, not posted yet. */
static tutti_request *byte_from_root(struct job_rank *rank, tutti_group *group, uint8_t *byte)
{
    tutti_request *request;

    *byte = rank->rank == 0 ? 42 : 0;
    JOB_OK(rank, tutti_broadcast_init(group, TUTTI_IN_PLACE, byte, 1, 0, NULL, &request));
    return request;
}

static void end_byte(struct job_rank *rank, tutti_request *request, const uint8_t *byte)
{
    JOB_OK(rank, tutti_wait(request));
    JOB_CHECK(rank, *byte == 42, "%u", *byte);
    JOB_OK(rank, tutti_finalize(request));
}

/* The root has sent, and computes until the others have it; everything was lost on the way. */
static void away_body(struct job_rank *rank)
{
    static const char *const settings[] = {"LOSS", "100", NULL};
    tutti_context *context;
    tutti_group *group;
    tutti_request *request;
    uint8_t byte;

    job_group(rank, settings, &context, &group);
    request = byte_from_root(rank, group, &byte);
    job_barrier(rank);
    JOB_OK(rank, tutti_post(request));
    end_byte(rank, request, &byte);
    job_barrier(rank); /* knows nothing of the library: if the root served nobody meanwhile, nobody would come here */
    job_end(context, group);
}

static void a_rank_that_stays_away_still_serves_its_neighbour(void **state)
{
    (void)state;
    assert_int_equal(job_run(3, away_body, NULL, LIMIT_S), 0);
}

/* The root posts while another thread has the engine, which has looked at what is posted already, and stays away. */
static void busy_body(struct job_rank *rank)
{
    static const char *const settings[] = {"TIMEOUT", "5s", NULL};
    tutti_context *context;
    tutti_group *group;
    tutti_request *request;
    uint8_t byte;

    job_group(rank, settings, &context, &group);
    request = byte_from_root(rank, group, &byte);
    usleep(IDLE_US);
    job_barrier(rank);
    if (rank->rank == 0) {
        pthread_mutex_lock(&context->engine->lock);
        JOB_OK(rank, tutti_post(request));
        pthread_mutex_unlock(&context->engine->lock);
    } else {
        JOB_OK(rank, tutti_post(request));
        JOB_OK(rank, tutti_wait(request));
    }
    job_barrier(rank);
    end_byte(rank, request, &byte);
    job_end(context, group);
}

static void what_was_posted_while_the_engine_was_busy_moves_although_its_rank_stays_away(void **state)
{
    (void)state;
    assert_int_equal(job_run(3, busy_body, NULL, LIMIT_S), 0);
}

/* How often the threads other than this process's first one have gone to sleep. */
static uint64_t sleeps_of_others(struct job_rank *rank)
{
    DIR *tasks = opendir("/proc/self/task");
    uint64_t sum = 0;

    JOB_CHECK(rank, tasks != NULL, "/proc/self/task");
    for (struct dirent *task = readdir(tasks); task != NULL; task = readdir(tasks)) {
        char path[300], line[256];
        unsigned long long sleeps;
        FILE *file;

        snprintf(path, sizeof path, "/proc/self/task/%s/status", task->d_name);
        file = task->d_name[0] == '.' || atoi(task->d_name) == getpid() ? NULL : fopen(path, "r");
        while (file != NULL && fgets(line, sizeof line, file) != NULL) {
            sum += sscanf(line, "voluntary_ctxt_switches: %llu", &sleeps) == 1 ? sleeps : 0;
        }
        if (file != NULL) {
            fclose(file);
        }
    }
    closedir(tasks);
    return sum;
}

/* A rank stays away until its keeper is at work, and then looks again and again whether the root has sent. */
static void visits_body(struct job_rank *rank)
{
    enum { VISITS = 1000, BETWEEN_US = 100, OTHERS = 100 };
    static const char *const settings[] = {"WORKERS", "0", NULL};
    tutti_context *context;
    tutti_group *group;
    tutti_request *request;
    uint8_t byte;

    job_group(rank, settings, &context, &group);
    request = byte_from_root(rank, group, &byte);
    job_barrier(rank);
    if (rank->rank == 1) {
        double begun_s;
        uint64_t sleeps, patiences;
        bool done = false;

        JOB_OK(rank, tutti_post(request));
        usleep(IDLE_US);
        begun_s = job_now_s();
        sleeps = sleeps_of_others(rank);
        for (uint32_t i = 0; i < VISITS; i++) {
            JOB_OK(rank, tutti_test(request, &done));
            JOB_CHECK(rank, !done, "nobody has sent yet");
            usleep(BETWEEN_US);
        }
        sleeps = sleeps_of_others(rank) - sleeps;
        patiences = (uint64_t)((job_now_s() - begun_s) * TT_NS_PER_S) / TT_KEEPER_PATIENCE_NS;
        JOB_CHECK(rank, sleeps <= 4 * patiences + OTHERS, "%llu sleeps in %llu patiences", (unsigned long long)sleeps,
                  (unsigned long long)patiences);
    }
    job_barrier(rank);
    if (rank->rank != 1) {
        JOB_OK(rank, tutti_post(request));
    }
    end_byte(rank, request, &byte);
    job_end(context, group);
}

static void a_keeper_at_work_goes_when_its_rank_comes_back_and_waits_a_while(void **state)
{
    (void)state;
    assert_int_equal(job_run(2, visits_body, NULL, LIMIT_S), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_that_stays_away_still_serves_its_neighbour),
        cmocka_unit_test(what_was_posted_while_the_engine_was_busy_moves_although_its_rank_stays_away),
        cmocka_unit_test(a_keeper_at_work_goes_when_its_rank_comes_back_and_waits_a_while),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
