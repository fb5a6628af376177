/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the header promises of types, functions, factors and buffers in reductions, in real processes on loopback.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "job.h"
#include "support/affine.h"
#include "tutti/reduction.h"

enum { LIMIT_S = 100 };

static void order_body(struct job_rank *rank)
{
    static const uint64_t counts[] = {1, 77, 5001};
    static const tutti_algorithm all[] = {TUTTI_ALGORITHM_AUTO, TUTTI_ALGORITHM_RABENSEIFNER,
                                          TUTTI_ALGORITHM_RECURSIVE_DOUBLING};
    uint64_t calls = 0;
    tutti_reduction_options reduction = {.struct_size = sizeof reduction,
                                         .function = affine_compose_counted,
                                         .context = &calls,
                                         .is_not_commutative = true,
                                         .element_bytes = sizeof(struct affine)};
    tutti_context *context;
    tutti_group *group;
    tutti_request *request;

    job_group(rank, NULL, &context, &group);
    for (size_t trial = 0; trial < 9; trial++) {
        tutti_request_options options = {.struct_size = sizeof options, .algorithm = all[trial / 3]};
        uint64_t count = counts[trial % 3];
        struct affine *vector = calloc(count, sizeof *vector);

        for (uint64_t i = 0; i < count; i++) {
            vector[i] = affine_initial(false, trial, rank->rank, i);
        }
        JOB_OK(rank, tutti_allreduce_init(group, TUTTI_IN_PLACE, vector, count, TUTTI_OPAQUE, TUTTI_USER, &reduction,
                                          &options, &request));
        JOB_OK(rank, tutti_post(request));
        JOB_OK(rank, tutti_wait(request));
        for (uint64_t i = 0; i < count; i++) {
            struct affine want = affine_initial(false, trial, 0, i);

            for (uint32_t other = 1; other < rank->size; other++) {
                want = affine_compose(want, affine_initial(false, trial, other, i));
            }
            JOB_CHECK(rank, affine_is(vector[i], want), "trial %zu, element %llu", trial, (unsigned long long)i);
        }
        JOB_OK(rank, tutti_finalize(request));
        free(vector);
    }
    tutti_request_options ring = {.struct_size = sizeof ring, .algorithm = TUTTI_ALGORITHM_TRIGGERED_RING};
    struct affine one = {1, 2};

    JOB_CHECK(rank,
              tutti_allreduce_init(group, TUTTI_IN_PLACE, &one, 1, TUTTI_OPAQUE, TUTTI_USER, &reduction, &ring,
                                   &request) == TUTTI_ERR_NOT_SUPPORTED,
              "a ring cannot keep the order");
    JOB_CHECK(rank, strstr(tutti_last_error(), "triggered-ring") != NULL, "%s", tutti_last_error());
    job_end(context, group);
}

static void a_function_that_does_not_commute_gets_the_order_of_ranks(void **state)
{
    (void)state;
    for (uint32_t size = 1; size <= 7; size += 2) {
        assert_int_equal(job_run(size, order_body, NULL, LIMIT_S), 0);
    }
}

static void scaled_body(struct job_rank *rank)
{
    float factor = (float)(rank->rank + 1);
    tutti_reduction_options reduction = {.struct_size = sizeof reduction, .factor = &factor};
    static const uint64_t counts[] = {3, 40000};
    tutti_context *context;
    tutti_group *group;
    tutti_request *request;

    job_group(rank, NULL, &context, &group);
    for (int trial = 0; trial < 6; trial++) {
        bool averages = trial & 1;
        tutti_request_options options = {.struct_size = sizeof options,
                                         .algorithm = trial > 3 ? TUTTI_ALGORITHM_RABENSEIFNER : TUTTI_ALGORITHM_AUTO};
        uint64_t count = counts[trial > 1];
        float *send = calloc(count, sizeof *send), *receive = calloc(count, sizeof *receive);
        uint32_t size = rank->size;
        float want = averages ? (float)(size + 1) / 2 : (float)(size * (size + 1)) / 2;

        for (uint64_t i = 0; i < count; i++) {
            send[i] = averages ? factor : 1.0F;
        }
        JOB_OK(rank, tutti_allreduce_init(group, send, receive, count, TUTTI_FP32,
                                          averages ? TUTTI_AVERAGE : TUTTI_PREMULTIPLIED_SUM, &reduction, &options,
                                          &request));
        JOB_OK(rank, tutti_post(request));
        JOB_OK(rank, tutti_wait(request));
        for (uint64_t i = 0; i < count; i++) {
            JOB_CHECK(rank, receive[i] == want, "trial %d, element %llu: %f, not %f", trial, (unsigned long long)i,
                      (double)receive[i], (double)want);
        }
        JOB_OK(rank, tutti_finalize(request));
        free(send);
        free(receive);
    }
    job_end(context, group);
}

static void an_average_divides_and_a_factor_is_each_ranks_own(void **state)
{
    (void)state;
    assert_int_equal(job_run(1, scaled_body, NULL, LIMIT_S), 0);
    assert_int_equal(job_run(5, scaled_body, NULL, LIMIT_S), 0);
}

/* --- What two requests may share ---------------------------------------------------------------------------------- */

/* Two that read the same buffer under keys of their own, of which the shorter one goes first. */
static void shared_body(struct job_rank *rank)
{
    enum { SHORT = 100000, LONG = 1000000 };
    static float send[LONG], first[SHORT], second[LONG];
    tutti_context *context;
    tutti_group *group;
    tutti_request *a, *b;

    job_group(rank, NULL, &context, &group);
    for (int trial = 0; trial < 8; trial++) {
        tutti_request_options options = {.struct_size = sizeof options,
                                         .algorithm = trial % 2 == 0 ? TUTTI_ALGORITHM_RABENSEIFNER
                                                                     : TUTTI_ALGORITHM_TRIGGERED_RING};

        for (uint32_t i = 0; i < LONG; i++) {
            send[i] = (float)(rank->rank + i % 7);
        }
        JOB_OK(rank, tutti_allreduce_init(group, send, first, SHORT, TUTTI_FP32, TUTTI_SUM, NULL, &options, &a));
        JOB_OK(rank, tutti_allreduce_init(group, send, second, LONG, TUTTI_FP32, TUTTI_SUM, NULL, &options, &b));
        JOB_OK(rank, tutti_post(a));
        JOB_OK(rank, tutti_post(b));
        JOB_OK(rank, tutti_wait(a));
        JOB_OK(rank, tutti_finalize(a));
        JOB_OK(rank, tutti_wait(b));
        JOB_OK(rank, tutti_finalize(b));
        for (uint32_t i = 0; i < LONG; i++) {
            uint32_t sum = rank->size * (rank->size - 1) / 2 + rank->size * (i % 7);
            float want = (float)sum;

            JOB_CHECK(rank, second[i] == want && (i >= SHORT || first[i] == want), "trial %d, element %u", trial, i);
        }
    }
    job_end(context, group);
}

static void requests_may_read_the_same_buffer(void **state)
{
    (void)state;
    assert_int_equal(job_run(3, shared_body, NULL, LIMIT_S), 0);
    assert_int_equal(job_run(4, shared_body, NULL, LIMIT_S), 0);
}

/* x + y, of elements of any size that begin with a number; the rest are the left one's. */
static void add_first_byte(void *destination, const void *left, const void *right, uint64_t count, void *context)
{
    uint32_t bytes = *(const uint32_t *)context;

    for (uint64_t i = 0; i < count; i++) {
        uint8_t sum = (uint8_t)(((const uint8_t *)left)[i * bytes] + ((const uint8_t *)right)[i * bytes]);

        memmove((uint8_t *)destination + i * bytes, (const uint8_t *)left + i * bytes, bytes);
        ((uint8_t *)destination)[i * bytes] = sum;
    }
}

/* An allreduce in place of so many elements of so many bytes. */
static void add_up(struct job_rank *rank, tutti_group *group, uint32_t bytes, uint64_t count, tutti_algorithm algorithm)
{
    uint8_t *vector = calloc(count, bytes);
    tutti_reduction_options reduction = {
        .struct_size = sizeof reduction, .function = add_first_byte, .context = &bytes, .element_bytes = bytes};
    tutti_request_options options = {.struct_size = sizeof options, .algorithm = algorithm};
    tutti_request *request;

    for (uint64_t i = 0; i < count; i++) {
        vector[i * bytes] = (uint8_t)(rank->rank + i);
    }
    JOB_OK(rank, tutti_allreduce_init(group, TUTTI_IN_PLACE, vector, count, TUTTI_OPAQUE, TUTTI_USER, &reduction,
                                      &options, &request));
    JOB_OK(rank, tutti_post(request));
    JOB_OK(rank, tutti_wait(request));
    JOB_OK(rank, tutti_finalize(request));
    for (uint64_t i = 0; i < count; i++) {
        uint8_t want = (uint8_t)(rank->size * (rank->size - 1) / 2 + rank->size * i);

        JOB_CHECK(rank, vector[i * bytes] == want, "%u bytes, element %llu", bytes, (unsigned long long)i);
    }
    free(vector);
}

static void sizes_body(struct job_rank *rank)
{
    static const uint32_t sizes[] = {1, 3, 12, 250, 4097, 32768};
    static const tutti_algorithm all[] = {TUTTI_ALGORITHM_AUTO, TUTTI_ALGORITHM_TRIGGERED_RING,
                                          TUTTI_ALGORITHM_RABENSEIFNER, TUTTI_ALGORITHM_RECURSIVE_DOUBLING};
    tutti_context *context;
    tutti_group *group;

    job_group(rank, NULL, &context, &group);
    for (size_t trial = 0; trial < 24; trial++) {
        add_up(rank, group, sizes[trial / 4], 3000000 / sizes[trial / 4], all[trial % 4]);
    }
    job_end(context, group);
}

static void elements_may_have_any_size_that_the_header_says(void **state)
{
    (void)state;
    assert_int_equal(job_run(3, sizes_body, NULL, LIMIT_S), 0);
    assert_int_equal(job_run(5, sizes_body, NULL, LIMIT_S), 0);
}

static void factor_body(struct job_rank *rank)
{
    static const tutti_algorithm all[] = {TUTTI_ALGORITHM_AUTO, TUTTI_ALGORITHM_RABENSEIFNER,
                                          TUTTI_ALGORITHM_TRIGGERED_RING};
    float factor, vector[5000];
    tutti_reduction_options reduction = {.struct_size = sizeof reduction, .factor = &factor};
    tutti_context *context;
    tutti_group *group;
    tutti_request *request;

    job_group(rank, NULL, &context, &group);
    for (size_t a = 0; a < sizeof all / sizeof all[0]; a++) {
        tutti_request_options options = {.struct_size = sizeof options, .algorithm = all[a]};

        for (uint32_t i = 0; i < 5000; i++) {
            vector[i] = 1;
        }
        JOB_OK(rank, tutti_allreduce_init(group, TUTTI_IN_PLACE, vector, 5000, TUTTI_FP32, TUTTI_PREMULTIPLIED_SUM,
                                          &reduction, &options, &request));
        factor = 2;
        JOB_OK(rank, tutti_post(request));
        factor = 100; /* it was read when the request was posted */
        JOB_OK(rank, tutti_wait(request));
        JOB_OK(rank, tutti_finalize(request));
        JOB_CHECK(rank, vector[0] == (float)(2 * rank->size) && vector[4999] == vector[0], "algorithm %d: %f",
                  (int)all[a], (double)vector[0]);
    }
    job_end(context, group);
}

static void a_factor_is_read_when_its_request_is_posted(void **state)
{
    (void)state;
    assert_int_equal(job_run(3, factor_body, NULL, LIMIT_S), 0);
}

/* Few elements, as long as what another method than the table's sends at once. */
static void wide_body(struct job_rank *rank)
{
    enum { WIDE_BYTES = 8192 };
    uint32_t bytes = WIDE_BYTES;
    tutti_reduction_options reduction = {
        .struct_size = sizeof reduction, .function = add_first_byte, .context = &bytes, .element_bytes = WIDE_BYTES};
    uint64_t counts[12] = {1, 1};
    uint8_t *send = calloc(2, WIDE_BYTES), *receive = calloc(1, WIDE_BYTES);
    tutti_context *context;
    tutti_request *request;
    tutti_group *group;

    job_group(rank, NULL, &context, &group);
    send[0] = send[WIDE_BYTES] = 1;
    JOB_OK(rank, tutti_reduce_scatter_counts_init(group, send, receive, counts, TUTTI_OPAQUE, TUTTI_USER, &reduction,
                                                  NULL, &request));
    JOB_OK(rank, tutti_post(request));
    JOB_OK(rank, tutti_wait(request));
    JOB_CHECK(rank, receive[0] == (rank->rank < 2 ? rank->size : 0), "%u", receive[0]);
    JOB_OK(rank, tutti_finalize(request));
    free(send);
    free(receive);
    job_end(context, group);
}

static void elements_too_long_for_the_tables_method_go_by_one_that_has_room(void **state)
{
    (void)state;
    assert_int_equal(job_run(12, wide_body, NULL, LIMIT_S), 0);
}

/* An allreduce in parts of such elements: what the table has for a reduce-scatter may have no room for them either. */
static void wide_parts_body(struct job_rank *rank)
{
    tutti_context *context;
    tutti_group *group;

    job_group(rank, NULL, &context, &group);
    add_up(rank, group, 16384, 9, TUTTI_ALGORITHM_AUTO);
    job_end(context, group);
}

static void parts_of_long_elements_are_made_by_what_has_room_for_them(void **state)
{
    (void)state;
    assert_int_equal(job_run(8, wide_parts_body, NULL, LIMIT_S), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_function_that_does_not_commute_gets_the_order_of_ranks),
        cmocka_unit_test(an_average_divides_and_a_factor_is_each_ranks_own),
        cmocka_unit_test(requests_may_read_the_same_buffer),
        cmocka_unit_test(elements_may_have_any_size_that_the_header_says),
        cmocka_unit_test(elements_too_long_for_the_tables_method_go_by_one_that_has_room),
        cmocka_unit_test(parts_of_long_elements_are_made_by_what_has_room_for_them),
        cmocka_unit_test(a_factor_is_read_when_its_request_is_posted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
