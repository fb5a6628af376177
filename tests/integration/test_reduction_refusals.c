/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reductions that fail, in real processes on loopback: ranks that disagree, a rank that dies in the middle of a long
 * one (each rank in each collective: test_reduction_deaths.c), and arguments that are refused.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "job.h"
#include "tutti/reduction.h"

enum { LIMIT_S = 100 };

/* --- Ranks that disagree or die ----------------------------------------------------------------------------------- */

/* The group is over then. */
static void expect_mismatch(struct job_rank *rank, tutti_request *request, const char *sentence)
{
    job_barrier(rank); /* or the group has failed before */
    if (tutti_post(request) == TUTTI_OK) {
        tutti_wait(request);
    }
    JOB_CHECK(rank, tutti_wait(request) == TUTTI_ERR_MISMATCH, "%s", tutti_last_error());
    JOB_CHECK(rank, strstr(tutti_last_error(), sentence) != NULL, "%s", tutti_last_error()); /* whoever noticed it */
    JOB_OK(rank, tutti_finalize(request));
}

static void disagree(struct job_rank *rank, tutti_type type, tutti_operation operation, uint64_t count,
                     const char *sentence)
{
    static float send[20000], receive[20000];
    tutti_context *context;
    tutti_group *group;
    tutti_request *request;

    job_group(rank, NULL, &context, &group);
    JOB_OK(rank, tutti_allreduce_init(group, send, receive, count, type, operation, NULL, NULL, &request));
    expect_mismatch(rank, request, sentence);
    job_end(context, group);
}

static void disagree_about_parts(struct job_rank *rank, tutti_type type, const uint64_t counts[4], const char *sentence)
{
    static double send[4000], receive[4000];
    tutti_context *context;
    tutti_group *group;
    tutti_request *request;

    job_group(rank, NULL, &context, &group);
    JOB_OK(rank, tutti_reduce_scatter_counts_init(group, send, receive, counts, type, TUTTI_SUM, NULL, NULL, &request));
    expect_mismatch(rank, request, sentence);
    job_end(context, group);
}

static void disagree_body(struct job_rank *rank)
{
    static const uint64_t even[] = {1000, 1000, 1000, 1000}, up[] = {400, 600, 1400, 1600},
                          down[] = {1600, 1400, 600, 400};
    bool is_odd = rank->rank == 2;

    disagree(rank, is_odd ? TUTTI_INT32 : TUTTI_FP32, TUTTI_SUM, 20000, "int32");
    disagree(rank, TUTTI_FP32, is_odd ? TUTTI_MAX : TUTTI_SUM, 20000, "max");
    disagree(rank, TUTTI_FP32, TUTTI_SUM, is_odd ? 19999 : 20000, "79996 bytes");
    disagree(rank, TUTTI_FP32, is_odd ? TUTTI_MIN : TUTTI_SUM, 2, "min");
    disagree(rank, is_odd ? TUTTI_FP64 : TUTTI_FP32, TUTTI_SUM, is_odd ? 10000 : 20000, "fp64"); /* as many bytes */
    disagree(rank, is_odd ? TUTTI_UINT32 : TUTTI_INT32, TUTTI_SUM, 20000, "uint32");             /* and the same sums */
    disagree_about_parts(rank, TUTTI_FP64, is_odd ? up : even, "digest");                        /* as many in all */
    disagree_about_parts(rank, TUTTI_FP64, is_odd ? up : down, "digest");
    disagree_about_parts(rank, is_odd ? TUTTI_INT64 : TUTTI_FP64, up, "int64");
}

static void ranks_that_disagree_all_get_the_error(void **state)
{
    (void)state;
    assert_int_equal(job_run(4, disagree_body, NULL, LIMIT_S), 0);
}

static void death_body(struct job_rank *rank)
{
    const struct job_death *death = rank->argument;
    static float vector[1 << 20];
    tutti_request_options options = {.struct_size = sizeof options, .timeout_ns = job_death_timeout_ns(death)};
    tutti_context *context;
    tutti_group *group;
    tutti_request *request;

    job_group(rank, death->settings, &context, &group);
    JOB_OK(rank, tutti_allreduce_init(group, TUTTI_IN_PLACE, vector, 1 << 20, TUTTI_FP32, TUTTI_MAX, NULL, &options,
                                      &request));
    job_meet_death(rank, context, group, request);
}

static void a_killed_rank_is_named_by_every_survivor(void **state)
{
    struct job_death death = {.victim = 2};

    (void)state;
    assert_int_equal(job_run_with_victim(4, death_body, &death, LIMIT_S, death.victim, SIGKILL), 0);
}

static void a_stuck_rank_is_named_when_the_deadline_comes(void **state)
{
    struct job_death death = {.victim = 1, .stops = true};

    (void)state;
    assert_int_equal(job_run_with_victim(4, death_body, &death, LIMIT_S, death.victim, SIGSTOP), 0);
}

/* --- Arguments ---------------------------------------------------------------------------------------------------- */

static void refuse(struct job_rank *rank, tutti_status status, tutti_status want, const char *sentence)
{
    JOB_CHECK(rank, status == want, "%s: %s", tutti_status_name(status), tutti_last_error());
    JOB_CHECK(rank, strstr(tutti_last_error(), sentence) != NULL, "\"%s\" is not in: %s", sentence, tutti_last_error());
}

static void keep_left(void *destination, const void *left, const void *right, uint64_t count, void *context)
{
    (void)context;
    (void)right;
    memmove(destination, left, count);
}

static void arguments_body(struct job_rank *rank)
{
    float send[8], receive[8];
    tutti_reduction_options odd = {.struct_size = sizeof odd, .element_bytes = 3};
    tutti_reduction_options vast = {.struct_size = sizeof vast, .element_bytes = UINT32_MAX, .function = keep_left};
    tutti_context *context;
    tutti_group *group;
    tutti_request *request = NULL;
    const tutti_status bad = TUTTI_ERR_INVALID_ARGUMENT;

    job_group(rank, NULL, &context, &group);
    refuse(rank, tutti_allreduce_init(group, send, receive, 8, (tutti_type)99, TUTTI_SUM, NULL, NULL, &request), bad,
           "type 99");
    refuse(rank, tutti_allreduce_init(group, send, receive, 8, TUTTI_FP32, (tutti_operation)77, NULL, NULL, &request),
           bad, "operation 77");
    refuse(rank, tutti_allreduce_init(group, send, receive, 8, TUTTI_FP32, TUTTI_XOR, NULL, NULL, &request), bad,
           "xor");
    refuse(rank, tutti_allreduce_init(group, send, receive, 8, TUTTI_FP32, TUTTI_USER, NULL, NULL, &request), bad,
           "function");
    refuse(rank,
           tutti_allreduce_init(group, send, receive, 8, TUTTI_FP32, TUTTI_PREMULTIPLIED_SUM, NULL, NULL, &request),
           bad, "factor");
    refuse(rank, tutti_allreduce_init(group, send, receive, 8, TUTTI_FP32, TUTTI_SUM, &odd, NULL, &request), bad, "3");
    refuse(rank, tutti_allreduce_init(group, send, send + 1, 7, TUTTI_FP32, TUTTI_SUM, NULL, NULL, &request), bad,
           "overlaps");
    refuse(rank, tutti_allreduce_init(group, NULL, receive, 8, TUTTI_FP32, TUTTI_SUM, NULL, NULL, &request), bad,
           "send is NULL");
    refuse(rank, tutti_reduce_init(group, send, receive, 8, TUTTI_FP32, TUTTI_SUM, NULL, 2, NULL, &request), bad,
           "root 2");
    refuse(rank,
           tutti_reduce_scatter_init(group, TUTTI_IN_PLACE, receive, 4, TUTTI_FP32, TUTTI_SUM, NULL, NULL, &request),
           bad, "send is TUTTI_IN_PLACE for 32 bytes: in place, receive is the own part of send");
    refuse(rank, tutti_scatter_init(group, TUTTI_IN_PLACE, receive, 4, rank->rank, NULL, &request), bad,
           "send is TUTTI_IN_PLACE for 8 bytes: in place, receive is the own part of send");
    refuse(rank, tutti_gather_init(group, TUTTI_IN_PLACE, receive, 4, 1 - rank->rank, NULL, &request), bad,
           "send is TUTTI_IN_PLACE for 4 bytes: only the root may say so");
    refuse(rank,
           tutti_reduce_scatter_counts_init(group, send, receive, NULL, TUTTI_FP32, TUTTI_SUM, NULL, NULL, &request),
           bad, "counts");
    refuse(rank,
           tutti_allreduce_init(group, send, receive, UINT64_MAX / 2, TUTTI_FP32, TUTTI_SUM, NULL, NULL, &request), bad,
           "memory");
    refuse(rank, tutti_allreduce_init(group, send, receive, 1, TUTTI_OPAQUE, TUTTI_USER, &vast, NULL, &request),
           TUTTI_ERR_TOO_LARGE, "elements of 4294967295 bytes: 32768 is the most"); /* before anything is allocated */
    refuse(rank,
           tutti_allreduce_init(group, send, (void *)TUTTI_IN_PLACE, 8, TUTTI_FP32, TUTTI_SUM, NULL, NULL, &request),
           bad, "receive is TUTTI_IN_PLACE");
    refuse(rank, tutti_scatter_init(group, send, (void *)TUTTI_IN_PLACE, 4, 0, NULL, &request), bad,
           "receive is TUTTI_IN_PLACE");
    for (uint32_t root = 0; root < 2; root++) { /* at the root and at others alike */
        refuse(rank, tutti_gather_init(group, send, receive, (UINT64_C(1) << 46) + 1, root, NULL, &request), bad,
               "70368744177665 bytes from each of 2 roots");
    }
    JOB_CHECK(rank, request == NULL, "an output was set");
    job_end(context, group);
}

static void bad_arguments_are_refused_with_their_value(void **state)
{
    (void)state;
    assert_int_equal(job_run(2, arguments_body, NULL, LIMIT_S), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_that_disagree_all_get_the_error),
        cmocka_unit_test(a_killed_rank_is_named_by_every_survivor),
        cmocka_unit_test(a_stuck_rank_is_named_when_the_deadline_comes),
        cmocka_unit_test(bad_arguments_are_refused_with_their_value),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
