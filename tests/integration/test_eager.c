/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Eager collectives between real processes: roots that run ahead, ranks that come late, and data that is lost. Ranks
 * that do not call the library are in test_away.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "job.h"
#include "tutti/reduction.h"

enum { LIMIT_S = 60, MOST_BYTES = 4096 };

static void broadcast(struct job_rank *rank, tutti_group *group, uint32_t root, uint64_t bytes, uint32_t iteration)
{
    uint8_t buffer[MOST_BYTES + 1];
    tutti_request *request;

    memset(buffer, 0xEE, sizeof buffer);
    if (rank->rank == root) {
        job_fill(buffer, bytes, root, iteration);
    }
    JOB_OK(rank, tutti_broadcast_init(group, TUTTI_IN_PLACE, buffer, bytes, root, NULL, &request));
    JOB_OK(rank, tutti_post(request));
    JOB_OK(rank, tutti_wait(request));
    JOB_CHECK(rank, job_check(buffer, bytes, root, iteration), "broadcast %u of %llu bytes", iteration,
              (unsigned long long)bytes);
    JOB_CHECK(rank, buffer[bytes] == 0xEE, "the byte behind the buffer was written");
    JOB_OK(rank, tutti_finalize(request));
}

static void allgather(struct job_rank *rank, tutti_group *group, uint64_t bytes, uint32_t iteration)
{
    uint8_t send[MOST_BYTES], receive[16 * MOST_BYTES];
    tutti_request *request;

    job_fill(send, bytes, rank->rank, iteration);
    JOB_OK(rank, tutti_allgather_init(group, send, receive, bytes, NULL, &request));
    JOB_OK(rank, tutti_post(request));
    JOB_OK(rank, tutti_wait(request));
    for (uint32_t i = 0; i < rank->size; i++) {
        JOB_CHECK(rank, job_check(receive + i * bytes, bytes, i, iteration), "allgather %u, block %u", iteration, i);
    }
    JOB_OK(rank, tutti_finalize(request));
}

/* Nothing between the collectives holds the roots back but credit. */
static void storm_body(struct job_rank *rank)
{
    enum { ITERATIONS = 600 };
    tutti_context *context;
    tutti_group *group;

    job_group(rank, rank->argument, &context, &group);
    for (uint32_t i = 0; i < ITERATIONS; i++) {
        uint64_t bytes = 1 + i * 131 % (MOST_BYTES / 4);

        if (i % 97 == 96 && rank->rank == i % rank->size) {
            usleep(20000); /* the others run ahead */
        }
        if (i % 5 == 4) {
            allgather(rank, group, bytes / rank->size + 1, i);
        } else {
            broadcast(rank, group, i / 50 % rank->size, bytes, i);
        }
    }
    job_end(context, group);
}

static void a_storm_of_small_collectives_arrives(void **state)
{
    (void)state;
    assert_int_equal(job_run(5, storm_body, NULL, LIMIT_S), 0);
}

static void a_storm_of_small_collectives_arrives_with_workers(void **state)
{
    static const char *const settings[] = {"WORKERS", "2", NULL};

    (void)state;
    assert_int_equal(job_run(4, storm_body, (void *)(uintptr_t)settings, LIMIT_S), 0);
}

static void a_storm_of_small_collectives_arrives_with_loss(void **state)
{
    static const char *const settings[] = {"LOSS", "5", NULL};

    (void)state;
    assert_int_equal(job_run(4, storm_body, (void *)(uintptr_t)settings, LIMIT_S), 0);
}

static void a_storm_of_small_collectives_arrives_with_workers_and_loss(void **state)
{
    static const char *const settings[] = {"WORKERS", "1", "LOSS", "5", NULL};

    (void)state;
    assert_int_equal(job_run(4, storm_body, (void *)(uintptr_t)settings, LIMIT_S), 0);
}

/* The group is left at once: its destruction waits for those who miss something. */
static void leave_body(struct job_rank *rank)
{
    static const char *const settings[] = {"LOSS", "100", NULL};
    tutti_context *context;
    tutti_group *group;

    job_group(rank, settings, &context, &group);
    if (rank->rank == rank->size - 1) {
        usleep(100000);
    }
    broadcast(rank, group, 0, 1000, 1);
    job_end(context, group);
}

static void a_group_is_left_only_when_nobody_misses_anything(void **state)
{
    (void)state;
    assert_int_equal(job_run(4, leave_body, NULL, LIMIT_S), 0);
}

/*
 * Rank 1 posts something else than the others. Without a barrier they may well end their own; but rank 1 does not, and
 * what they post next ends with the same error.
 */
static void odd_body(struct job_rank *rank)
{
    static const char *const quiet[] = {"LOG", "none", NULL};
    bool odd = rank->rank == 1, allgathers = odd && *(int *)rank->argument == 1;
    uint64_t bytes = odd && *(int *)rank->argument == 0 ? 1001 : 1000;
    uint8_t *buffer = calloc(rank->size, 2000);
    tutti_request *first, *barrier;
    tutti_context *context;
    tutti_status status;
    tutti_group *group;

    job_group(rank, quiet, &context, &group);
    if (allgathers) {
        JOB_OK(rank, tutti_allgather_init(group, TUTTI_IN_PLACE, buffer, bytes, NULL, &first));
    } else {
        JOB_OK(rank, tutti_broadcast_init(group, TUTTI_IN_PLACE, buffer, bytes,
                                          odd && *(int *)rank->argument == 2 ? 2 : 0, NULL, &first));
    }
    JOB_OK(rank, tutti_allgather_init(group, TUTTI_IN_PLACE, buffer, 0, NULL, &barrier));
    job_barrier(rank);
    JOB_OK(rank, tutti_post(first));
    status = tutti_wait(first);
    JOB_CHECK(rank, status == TUTTI_ERR_MISMATCH || (!odd && status == TUTTI_OK), "%s: %s", tutti_status_name(status),
              tutti_last_error());
    status = tutti_post(barrier);
    status = status == TUTTI_OK ? tutti_wait(barrier) : status;
    JOB_CHECK(rank, status == TUTTI_ERR_MISMATCH, "%s: %s", tutti_status_name(status), tutti_last_error());
    JOB_OK(rank, tutti_finalize(first));
    JOB_OK(rank, tutti_finalize(barrier));
    job_end(context, group);
    free(buffer);
}

static void ranks_that_disagree_about_a_small_collective_all_get_the_error(void **state)
{
    (void)state;
    for (int what = 0; what < 3; what++) { /* size, kind, root */
        assert_int_equal(job_run(4, odd_body, &what, LIMIT_S), 0);
    }
}

enum { TWO_LENGTHS, TWO_ROOTS, TWO_KINDS, A_BARRIER, TWO_OPERATIONS, AT_THE_END, WAYS_TO_DISAGREE };

/* What the two ranks mean by their first collective; each has all that it wants. */
static tutti_status init_strange(tutti_group *group, uint32_t rank, int what, uint8_t *buffer, tutti_request **request)
{
    switch (what) {
    case TWO_LENGTHS: /* two chunks and one of them */
        return tutti_broadcast_init(group, TUTTI_IN_PLACE, buffer, rank == 0 ? 16384 : 8192, 0, NULL, request);
    case TWO_ROOTS:
        return tutti_broadcast_init(group, TUTTI_IN_PLACE, buffer, 1000, rank, NULL, request);
    case TWO_KINDS:
        return rank == 0 ? tutti_broadcast_init(group, TUTTI_IN_PLACE, buffer, 1000, 0, NULL, request)
                         : tutti_allgather_init(group, TUTTI_IN_PLACE, buffer, 1000, NULL, request);
    case A_BARRIER:
        return rank == 0 ? tutti_barrier_init(group, NULL, request)
                         : tutti_allgather_init(group, TUTTI_IN_PLACE, buffer, 1000, NULL, request);
    default:
        return tutti_allreduce_init(group, TUTTI_IN_PLACE, buffer, 10, TUTTI_INT32, rank == 0 ? TUTTI_SUM : TUTTI_MAX,
                                    NULL, NULL, request);
    }
}

/* Both may end well; what follows does not, or else the group's end. */
static void strange_body(struct job_rank *rank)
{
    static const char *const quiet[] = {"LOG", "none", "ALGORITHM", "eager", NULL};
    int what = *(int *)rank->argument;
    uint8_t *buffer = calloc(1, 32768);
    tutti_request *first, *later;
    tutti_context *context;
    tutti_status status;
    tutti_group *group;
    char text[512] = "";

    job_group(rank, quiet, &context, &group);
    JOB_OK(rank, init_strange(group, rank->rank, what, buffer, &first));
    JOB_OK(rank, tutti_broadcast_init(group, TUTTI_IN_PLACE, buffer, 8, 0, NULL, &later));
    job_barrier(rank);
    JOB_OK(rank, tutti_post(first));
    status = tutti_wait(first);
    JOB_CHECK(rank, status == TUTTI_ERR_MISMATCH || status == TUTTI_OK, "%s: %s", tutti_status_name(status),
              tutti_last_error());
    for (int i = 0; i < 64 && what != AT_THE_END && status == TUTTI_OK; i++) {
        status = tutti_post(later);
        status = status == TUTTI_OK ? tutti_wait(later) : status;
    }
    snprintf(text, sizeof text, "%s", tutti_last_error());
    JOB_OK(rank, tutti_finalize(first));
    JOB_OK(rank, tutti_finalize(later));
    if (status == TUTTI_OK) {
        status = tutti_group_destroy(group);
        snprintf(text, sizeof text, "%s", tutti_last_error());
        JOB_CHECK(rank, what == AT_THE_END, "64 collectives later: %s", tutti_status_name(status));
    } else {
        JOB_OK(rank, tutti_group_destroy(group));
    }
    JOB_CHECK(rank, status == TUTTI_ERR_MISMATCH && strstr(text, "disagree") != NULL, "%d: %s: %s", what,
              tutti_status_name(status), text);
    JOB_CHECK(rank, what != A_BARRIER || strstr(text, "a barrier, or allgather of 0 bytes a rank") != NULL, "%s", text);
    JOB_OK(rank, tutti_context_destroy(context));
    free(buffer);
}

static void ranks_that_disagree_and_have_what_they_want_get_the_error_soon_after(void **state)
{
    (void)state;
    for (int what = 0; what < WAYS_TO_DISAGREE; what++) {
        assert_int_equal(job_run(2, strange_body, &what, LIMIT_S), 0);
    }
}

/* As tutti_barrier_init() makes it, and not only an allgather of nothing. */
static void barrier_body(struct job_rank *rank)
{
    enum { COUNT = 100 };
    tutti_counters before = {.struct_size = sizeof before}, after = before;
    tutti_request *request;
    tutti_context *context;
    tutti_group *group;

    job_group(rank, rank->argument, &context, &group);
    JOB_OK(rank, tutti_barrier_init(group, NULL, &request));
    JOB_CHECK(rank, tutti_request_algorithm(request) == TUTTI_ALGORITHM_EAGER, "by algorithm %d",
              (int)tutti_request_algorithm(request));
    JOB_OK(rank, tutti_group_counters(group, &before));
    for (uint32_t i = 0; i < COUNT; i++) {
        JOB_OK(rank, tutti_post(request));
        JOB_OK(rank, tutti_wait(request));
    }
    JOB_OK(rank, tutti_group_counters(group, &after));
    JOB_CHECK(rank, after.mcast_datagrams_sent - before.mcast_datagrams_sent == COUNT, "%llu datagrams",
              (unsigned long long)(after.mcast_datagrams_sent - before.mcast_datagrams_sent));
    JOB_OK(rank, tutti_finalize(request));
    job_end(context, group);
}

static void a_barrier_of_two_ranks_is_a_datagram_each_way(void **state)
{
    (void)state;
    assert_int_equal(job_run(2, barrier_body, NULL, LIMIT_S), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_storm_of_small_collectives_arrives),
        cmocka_unit_test(a_storm_of_small_collectives_arrives_with_workers),
        cmocka_unit_test(a_storm_of_small_collectives_arrives_with_loss),
        cmocka_unit_test(a_storm_of_small_collectives_arrives_with_workers_and_loss),
        cmocka_unit_test(ranks_that_disagree_about_a_small_collective_all_get_the_error),
        cmocka_unit_test(ranks_that_disagree_and_have_what_they_want_get_the_error_soon_after),
        cmocka_unit_test(a_group_is_left_only_when_nobody_misses_anything),
        cmocka_unit_test(a_barrier_of_two_ranks_is_a_datagram_each_way),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
