/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Broadcasts that object groups move, between real processes over loopback: every size, from every root, in place and
 * out of place, and ranks that die or stand still.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "job.h"

enum { LIMIT_S = 60 };

/* Persistent broadcasts by every algorithm that object groups move, from every root, in place and out of place, several
 * in flight. */
static void broadcasts_body(struct job_rank *rank)
{
    static const uint64_t sizes[] = {0, 1, 4097, 1000000};
    enum { SIZES = sizeof sizes / sizeof sizes[0], ALGORITHMS = 4, REQUESTS = SIZES * ALGORITHMS };
    tutti_request *requests[REQUESTS];
    uint8_t *buffers[REQUESTS], *sources[REQUESTS];
    tutti_context *context;
    tutti_group *group;

    job_group(rank, rank->argument, &context, &group);
    for (uint32_t i = 0; i < REQUESTS; i++) {
        uint32_t root = i % rank->size;
        tutti_request_options options = {.struct_size = sizeof options,
                                         .algorithm = TUTTI_ALGORITHM_SEQUENTIAL + i / SIZES};

        buffers[i] = malloc(sizes[i % SIZES] + 1);
        sources[i] = malloc(sizes[i % SIZES] + 1);
        JOB_OK(rank, tutti_broadcast_init(group, i % 2 == 0 ? TUTTI_IN_PLACE : sources[i], buffers[i], sizes[i % SIZES],
                                          root, &options, &requests[i]));
        JOB_CHECK(rank,
                  tutti_request_algorithm(requests[i]) == (rank->size > 1 ? options.algorithm : TUTTI_ALGORITHM_CHAIN),
                  "algorithm %d", (int)tutti_request_algorithm(requests[i]));
    }
    for (uint32_t round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < REQUESTS; i++) {
            memset(buffers[i], 0xEE, sizes[i % SIZES] + 1);
            if (i % rank->size == rank->rank) {
                job_fill(i % 2 == 0 ? buffers[i] : sources[i], sizes[i % SIZES], i, round);
            }
            JOB_OK(rank, tutti_post(requests[i]));
        }
        for (uint32_t i = REQUESTS; i-- > 0;) {
            JOB_OK(rank, tutti_wait(requests[i]));
            JOB_CHECK(rank, job_check(buffers[i], sizes[i % SIZES], i, round), "request %u, round %u", i, round);
            JOB_CHECK(rank, buffers[i][sizes[i % SIZES]] == 0xEE, "request %u: written behind the end", i);
        }
    }
    for (uint32_t i = 0; i < REQUESTS; i++) {
        JOB_OK(rank, tutti_finalize(requests[i]));
        free(buffers[i]);
        free(sources[i]);
    }
    job_end(context, group);
}

static void broadcasts_go_through_object_groups(void **state)
{
    static const char *const workers[] = {"WORKERS", "1", NULL};

    (void)state;
    assert_int_equal(job_run(1, broadcasts_body, NULL, LIMIT_S), 0);
    assert_int_equal(job_run(2, broadcasts_body, NULL, LIMIT_S), 0);
    assert_int_equal(job_run(5, broadcasts_body, NULL, LIMIT_S), 0);
    assert_int_equal(job_run(3, broadcasts_body, (void *)(uintptr_t)workers, LIMIT_S), 0);
}

static void allgather_body(struct job_rank *rank)
{
    tutti_request_options options = {.struct_size = sizeof options, .algorithm = TUTTI_ALGORITHM_BINOMIAL_PIPELINE};
    static uint8_t buffer[100];
    tutti_request *request;
    tutti_context *context;
    tutti_group *group;

    job_group(rank, NULL, &context, &group);
    JOB_CHECK(rank,
              tutti_allgather_init(group, TUTTI_IN_PLACE, buffer, 10, &options, &request) == TUTTI_ERR_NOT_SUPPORTED,
              "%s", tutti_last_error());
    job_end(context, group);
}

static void an_allgather_by_blocks_is_refused(void **state)
{
    (void)state;
    assert_int_equal(job_run(2, allgather_body, NULL, LIMIT_S), 0);
}

/* Broadcasts, one after the other, when a rank dies, or stands still: as of any other algorithm. */
static void broadcast_death_body(struct job_rank *rank)
{
    const struct job_death *death = rank->argument;
    uint64_t bytes = 2000000;
    uint8_t *buffer = calloc(1, bytes);
    tutti_request_options options = {.struct_size = sizeof options, .timeout_ns = job_death_timeout_ns(death)};
    tutti_request *request;
    tutti_context *context;
    tutti_group *group;

    job_group(rank, death->settings, &context, &group);
    JOB_OK(rank, tutti_broadcast_init(group, TUTTI_IN_PLACE, buffer, bytes, 0, &options, &request));
    job_meet_death(rank, context, group, request);
    free(buffer);
}

static void who_dies_or_stands_still_in_a_broadcast_is_named(void **state)
{
    static const char *const settings[] = {"LOG", "none", "ALGORITHM", "binomial-pipeline", NULL};
    struct job_death death = {.settings = settings};

    (void)state;
    for (death.victim = 0; death.victim < 4; death.victim++) {
        death.stops = false;
        assert_int_equal(job_run_with_victim(4, broadcast_death_body, &death, LIMIT_S, death.victim, SIGKILL), 0);
        death.stops = death.victim == 1;
        if (death.stops) {
            assert_int_equal(job_run_with_victim(4, broadcast_death_body, &death, LIMIT_S, death.victim, SIGSTOP), 0);
        }
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(broadcasts_go_through_object_groups),
        cmocka_unit_test(an_allgather_by_blocks_is_refused),
        cmocka_unit_test(who_dies_or_stands_still_in_a_broadcast_is_named),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
