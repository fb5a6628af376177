/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TUTTI_DETERMINISTIC=strict, in real processes on loopback: floats that in another order add up to other bits have the
 * same ones by every algorithm, and what cannot do that is refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "job.h"
#include "support/affine.h"
#include "support/wild.h"
#include "tutti/reduction.h"

enum { LIMIT_S = 100, ALLREDUCE, REDUCE, REDUCE_SCATTER };

struct trial {
    int kind;
    tutti_algorithm algorithm;
    uint32_t root;
};

enum { STRICT_COUNT = 480 }; /* elements, of 4 bytes at most; the same number for each of up to 6 ranks */

/* One reduction of wild floats, by one algorithm; what this rank gets of the result must be what it was before. */
static void strict_run(struct job_rank *rank, tutti_group *group, const struct trial *trial, tutti_type type,
                       uint8_t *before)
{
    tutti_request_options options = {.struct_size = sizeof options, .algorithm = trial->algorithm};
    uint64_t bytes = type == TUTTI_FP32 ? 4 : 2, part = STRICT_COUNT / rank->size;
    uint64_t first = trial->kind == REDUCE_SCATTER ? rank->rank * part : 0;
    uint64_t count = trial->kind == REDUCE_SCATTER                        ? part
                     : trial->kind == REDUCE && rank->rank != trial->root ? 0
                                                                          : STRICT_COUNT;
    uint8_t send[STRICT_COUNT * 4], receive[STRICT_COUNT * 4];
    tutti_request *request;

    for (uint64_t i = 0; i < STRICT_COUNT; i++) {
        struct tt_random random;

        tt_random_init(&random, rank->rank * UINT64_C(1000003) + i);
        tt_wild_next(&random, send + i * bytes, bytes);
    }
    if (trial->kind == REDUCE) {
        JOB_OK(rank, tutti_reduce_init(group, send, receive, STRICT_COUNT, type, TUTTI_SUM, NULL, trial->root, &options,
                                       &request));
    } else if (trial->kind == REDUCE_SCATTER) {
        JOB_OK(rank, tutti_reduce_scatter_init(group, send, receive, part, type, TUTTI_SUM, NULL, &options, &request));
    } else {
        JOB_OK(rank,
               tutti_allreduce_init(group, send, receive, STRICT_COUNT, type, TUTTI_SUM, NULL, &options, &request));
    }
    JOB_OK(rank, tutti_post(request));
    JOB_OK(rank, tutti_wait(request));
    JOB_OK(rank, tutti_finalize(request));
    if (trial->kind == ALLREDUCE && trial->algorithm == TUTTI_ALGORITHM_AUTO) {
        memcpy(before, receive, count * bytes);
    }
    JOB_CHECK(rank, memcmp(before + first * bytes, receive, count * bytes) == 0, "%s by algorithm %d has other bits",
              trial->kind == REDUCE           ? "reduce"
              : trial->kind == REDUCE_SCATTER ? "reduce-scatter"
                                              : "allreduce",
              (int)trial->algorithm);
}

static void strict_body(struct job_rank *rank)
{
    static const struct trial trials[] = {
        {.kind = ALLREDUCE}, /* by the one that is chosen; the others are compared with it */
        {.kind = ALLREDUCE, .algorithm = TUTTI_ALGORITHM_EAGER},
        {.kind = ALLREDUCE, .algorithm = TUTTI_ALGORITHM_GATHER},
        {.kind = ALLREDUCE, .algorithm = TUTTI_ALGORITHM_RABENSEIFNER},
        {.kind = ALLREDUCE, .algorithm = TUTTI_ALGORITHM_RECURSIVE_DOUBLING},
        {.kind = REDUCE, .root = 1},
        {.kind = REDUCE, .algorithm = TUTTI_ALGORITHM_GATHER, .root = 2},
        {.kind = REDUCE, .algorithm = TUTTI_ALGORITHM_RABENSEIFNER},
        {.kind = REDUCE, .algorithm = TUTTI_ALGORITHM_RABENSEIFNER, .root = 2},
        {.kind = REDUCE_SCATTER},
        {.kind = REDUCE_SCATTER, .algorithm = TUTTI_ALGORITHM_EAGER},
        {.kind = REDUCE_SCATTER, .algorithm = TUTTI_ALGORITHM_GATHER},
        {.kind = REDUCE_SCATTER, .algorithm = TUTTI_ALGORITHM_RABENSEIFNER},
    };
    static const tutti_type types[] = {TUTTI_FP32, TUTTI_BF16};
    static const char *const settings[] = {"DETERMINISTIC", "strict", NULL};
    tutti_context *context;
    tutti_group *group;

    job_group(rank, settings, &context, &group);
    for (size_t t = 0; t < 2; t++) {
        uint8_t before[STRICT_COUNT * 4];

        for (size_t i = 0; i < sizeof trials / sizeof trials[0]; i++) {
            strict_run(rank, group, &trials[i], types[t], before);
        }
    }
    job_end(context, group);
}

static void strict_has_the_same_bits_by_every_algorithm(void **state)
{
    (void)state;
    assert_int_equal(job_run(3, strict_body, NULL, LIMIT_S), 0);
    assert_int_equal(job_run(6, strict_body, NULL, LIMIT_S), 0);
}

static void expect_strict(struct job_rank *rank, tutti_status status, const char *name)
{
    JOB_CHECK(rank, status == TUTTI_ERR_NOT_SUPPORTED, "%s is not refused: %s", name, tutti_status_name(status));
    JOB_CHECK(rank, strstr(tutti_last_error(), "strict") != NULL && strstr(tutti_last_error(), name) != NULL, "%s: %s",
              name, tutti_last_error());
}

/* Those that a request names: another tree for each element, or another one for all. */
static void refused_body(struct job_rank *rank)
{
    static const char *const settings[] = {"DETERMINISTIC", "strict", NULL};
    tutti_request_options ring = {.struct_size = sizeof ring, .algorithm = TUTTI_ALGORITHM_TRIGGERED_RING};
    tutti_request_options tree = {.struct_size = sizeof tree, .algorithm = TUTTI_ALGORITHM_BINOMIAL};
    tutti_request_options direct = {.struct_size = sizeof direct, .algorithm = TUTTI_ALGORITHM_DIRECT};
    float send[12] = {0}, receive[12];
    uint64_t calls = 0;
    struct affine one = {1, 2};
    tutti_reduction_options reduction = {.struct_size = sizeof reduction,
                                         .function = affine_compose_counted,
                                         .context = &calls,
                                         .is_not_commutative = true,
                                         .element_bytes = sizeof one};
    tutti_context *context;
    tutti_group *group;
    tutti_request *request;

    job_group(rank, settings, &context, &group);
    expect_strict(rank, tutti_allreduce_init(group, send, receive, 12, TUTTI_FP32, TUTTI_SUM, NULL, &ring, &request),
                  "triggered-ring");
    expect_strict(rank,
                  tutti_reduce_scatter_init(group, send, receive, 4, TUTTI_FP32, TUTTI_SUM, NULL, &direct, &request),
                  "direct");
    /* It keeps the order of ranks. */
    expect_strict(rank,
                  tutti_reduce_init(group, &one, rank->rank == 0 ? receive : NULL, 1, TUTTI_OPAQUE, TUTTI_USER,
                                    &reduction, 0, &tree, &request),
                  "binomial");
    job_end(context, group);
}

/* And one that the setting names: not replaced by another one where it has the collective. */
static void setting_body(struct job_rank *rank)
{
    static const char *const settings[] = {"DETERMINISTIC", "strict", "ALGORITHM", "triggered-ring", NULL};
    float send[12] = {0}, receive[12];
    tutti_context *context;
    tutti_group *group;
    tutti_request *request;

    job_group(rank, settings, &context, &group);
    expect_strict(rank, tutti_allreduce_init(group, send, receive, 12, TUTTI_FP32, TUTTI_SUM, NULL, NULL, &request),
                  "triggered-ring");
    JOB_OK(rank, tutti_reduce_init(group, send, receive, 12, TUTTI_FP32, TUTTI_SUM, NULL, 0, NULL, &request));
    JOB_CHECK(rank, tutti_request_algorithm(request) == TUTTI_ALGORITHM_RABENSEIFNER, "algorithm %d",
              (int)tutti_request_algorithm(request));
    JOB_OK(rank, tutti_finalize(request));
    job_end(context, group);
}

static void strict_refuses_other_algorithms_by_name(void **state)
{
    (void)state;
    assert_int_equal(job_run(3, refused_body, NULL, LIMIT_S), 0);
    assert_int_equal(job_run(3, setting_body, NULL, LIMIT_S), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strict_has_the_same_bits_by_every_algorithm),
        cmocka_unit_test(strict_refuses_other_algorithms_by_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
