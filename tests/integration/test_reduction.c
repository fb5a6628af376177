/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives that combine, gather or scatter, in real processes on loopback: every collective by every algorithm that
 * it has, counts that are odd, 0 or fewer than ranks, in place and not; what the header promises of types and
 * functions; requests that overlap; ranks that disagree, and a rank that dies.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "job.h"
#include "patience.h"
#include "support/affine.h"
#include "tutti/reduction.h"

enum { LIMIT_S = 100, GUARD = 0xEE };

enum kind { BROADCAST, ALLGATHER, REDUCE, ALLREDUCE, REDUCE_SCATTER, GATHER, SCATTER, KINDS };

static const char *const kind_names[KINDS] = {"broadcast",      "allgather", "reduce", "allreduce",
                                              "reduce-scatter", "gather",    "scatter"};

static const tutti_algorithm algorithms[KINDS][6] = {
    [BROADCAST] = {TUTTI_ALGORITHM_BINOMIAL, TUTTI_ALGORITHM_DOUBLE_TREE},
    [ALLGATHER] = {TUTTI_ALGORITHM_RECURSIVE_DOUBLING, TUTTI_ALGORITHM_TRIGGERED_RING},
    [REDUCE] = {TUTTI_ALGORITHM_BINOMIAL, TUTTI_ALGORITHM_RABENSEIFNER},
    [ALLREDUCE] = {TUTTI_ALGORITHM_RECURSIVE_DOUBLING, TUTTI_ALGORITHM_RABENSEIFNER, TUTTI_ALGORITHM_TRIGGERED_RING,
                   TUTTI_ALGORITHM_PARTS},
    [REDUCE_SCATTER] = {TUTTI_ALGORITHM_TRIGGERED_RING, TUTTI_ALGORITHM_RECURSIVE_HALVING, TUTTI_ALGORITHM_RABENSEIFNER,
                        TUTTI_ALGORITHM_DIRECT},
    [GATHER] = {TUTTI_ALGORITHM_BINOMIAL, TUTTI_ALGORITHM_DIRECT},
    [SCATTER] = {TUTTI_ALGORITHM_BINOMIAL, TUTTI_ALGORITHM_DIRECT},
};

/* One collective of 32-bit integers, `count` of which a rank gives (of a reduce-scatter and a scatter: gets). */
struct trial {
    enum kind kind;
    tutti_algorithm algorithm;
    uint64_t count;
    uint32_t root;
    bool in_place;
    bool by_counts; /* a reduce-scatter with parts of different lengths */
};

static uint32_t value_of(uint32_t rank, uint64_t element, uint32_t iteration)
{
    return (uint32_t)(element * 2654435761U) ^ (rank * 40503U + iteration * 97U);
}

static uint32_t sum_of(uint32_t size, uint64_t element, uint32_t iteration)
{
    uint32_t sum = 0;

    for (uint32_t rank = 0; rank < size; rank++) {
        sum += value_of(rank, element, iteration);
    }
    return sum;
}

/* How many elements a rank's send and receive buffers have, and where the part of both that lies in place begins. */
struct shape {
    uint64_t send, receive, part_first, part;
};

static uint64_t part_of(const struct trial *trial, uint32_t rank)
{
    return trial->by_counts ? (trial->count + rank) % 5 * trial->count / 3 : trial->count;
}

static struct shape shape_of(const struct job_rank *rank, const struct trial *trial)
{
    uint64_t count = trial->count, all = count * rank->size, own = count * rank->rank;
    bool is_root = rank->rank == trial->root;
    struct shape shape = {.part = part_of(trial, rank->rank)};

    switch (trial->kind) {
    case BROADCAST:
        return (struct shape){is_root ? count : 0, count, 0, 0};
    case ALLGATHER:
        return (struct shape){count, all, own, count};
    case REDUCE:
        return (struct shape){count, is_root ? count : 0, 0, 0};
    case ALLREDUCE:
        return (struct shape){count, count, 0, 0};
    case GATHER:
        return (struct shape){count, is_root ? all : 0, own, count};
    case SCATTER:
        return (struct shape){is_root ? all : 0, count, own, count};
    default:
        for (uint32_t other = 0; other < rank->size; other++) {
            shape.part_first = other == rank->rank ? shape.send : shape.part_first;
            shape.send += part_of(trial, other);
        }
        shape.receive = shape.part;
        return shape;
    }
}

static tutti_status begin(struct job_rank *rank, tutti_group *group, const struct trial *trial, const void *send,
                          void *receive, tutti_request **request)
{
    tutti_request_options options = {.struct_size = sizeof options, .algorithm = trial->algorithm};
    uint64_t counts[64];

    switch (trial->kind) {
    case BROADCAST:
        return tutti_broadcast_init(group, send, receive, trial->count * 4, trial->root, &options, request);
    case ALLGATHER:
        return tutti_allgather_init(group, send, receive, trial->count * 4, &options, request);
    case REDUCE:
        return tutti_reduce_init(group, send, receive, trial->count, TUTTI_UINT32, TUTTI_SUM, NULL, trial->root,
                                 &options, request);
    case ALLREDUCE:
        return tutti_allreduce_init(group, send, receive, trial->count, TUTTI_UINT32, TUTTI_SUM, NULL, &options,
                                    request);
    case GATHER:
        return tutti_gather_init(group, send, receive, trial->count * 4, trial->root, &options, request);
    case SCATTER:
        return tutti_scatter_init(group, send, receive, trial->count * 4, trial->root, &options, request);
    default:
        for (uint32_t other = 0; other < rank->size; other++) {
            counts[other] = part_of(trial, other);
        }
        return trial->by_counts ? tutti_reduce_scatter_counts_init(group, send, receive, counts, TUTTI_UINT32,
                                                                   TUTTI_SUM, NULL, &options, request)
                                : tutti_reduce_scatter_init(group, send, receive, trial->count, TUTTI_UINT32, TUTTI_SUM,
                                                            NULL, &options, request);
    }
}

/* What element i of the result has to be. */
static uint32_t expected(const struct job_rank *rank, const struct trial *trial, const struct shape *shape, uint64_t i,
                         uint32_t iteration)
{
    switch (trial->kind) {
    case BROADCAST:
        return value_of(trial->root, i, iteration);
    case ALLGATHER:
    case GATHER:
        return value_of((uint32_t)(i / trial->count), i % trial->count, iteration);
    case SCATTER:
        return value_of(trial->root, shape->part_first + i, iteration);
    case REDUCE_SCATTER:
        return sum_of(rank->size, shape->part_first + i, iteration);
    default:
        return sum_of(rank->size, i, iteration);
    }
}

static void run_trial(struct job_rank *rank, tutti_group *group, const struct trial *trial)
{
    struct shape shape = shape_of(rank, trial);
    uint64_t send_bytes = shape.send * 4, receive_bytes = shape.receive * 4;
    uint8_t *send = malloc(send_bytes + 1), *receive = malloc(receive_bytes + 1);
    bool in_vector = trial->kind == REDUCE_SCATTER || trial->kind == SCATTER;
    bool in_place = trial->in_place && shape.send > 0 && shape.receive > 0;
    uint8_t *from = in_place && !in_vector ? receive + shape.part_first * 4 : send;
    uint8_t *to = in_place && in_vector ? send + shape.part_first * 4 : receive;
    const void *argument = in_place && !in_vector ? TUTTI_IN_PLACE : send;
    tutti_request *request;

    JOB_OK(rank, begin(rank, group, trial, argument, to, &request));
    for (uint32_t iteration = 0; iteration < 2; iteration++) {
        memset(receive, GUARD, receive_bytes + 1);
        send[send_bytes] = GUARD;
        for (uint64_t i = 0; i < shape.send; i++) {
            memcpy(from + i * 4, &(uint32_t){value_of(rank->rank, i, iteration)}, 4);
        }
        JOB_OK(rank, tutti_post(request));
        JOB_OK(rank, tutti_wait(request));
        for (uint64_t i = 0; i < shape.receive; i++) {
            uint32_t got, want = expected(rank, trial, &shape, i, iteration);

            memcpy(&got, to + i * 4, 4);
            JOB_CHECK(rank, got == want, "%s by %d of %llu, root %u%s%s, iteration %u: element %llu is %u, not %u",
                      kind_names[trial->kind], (int)trial->algorithm, (unsigned long long)trial->count, trial->root,
                      trial->in_place ? ", in place" : "", trial->by_counts ? ", counts" : "", iteration,
                      (unsigned long long)i, got, want);
        }
        JOB_CHECK(rank, send[send_bytes] == GUARD && receive[receive_bytes] == GUARD, "%s by %d: beyond a buffer",
                  kind_names[trial->kind], (int)trial->algorithm);
        for (uint64_t i = 0; i < shape.send && !in_place; i++) {
            JOB_CHECK(rank, memcmp(send + i * 4, &(uint32_t){value_of(rank->rank, i, iteration)}, 4) == 0,
                      "%s by %d: the send buffer has changed", kind_names[trial->kind], (int)trial->algorithm);
        }
    }
    JOB_OK(rank, tutti_finalize(request));
    free(send);
    free(receive);
}

static bool has_multicast(const tutti_group *group)
{
    tutti_group_info info = {.struct_size = sizeof info};

    return tutti_group_query(group, &info) == TUTTI_OK && info.multicast;
}

static void all_body(struct job_rank *rank)
{
    static const uint64_t counts[] = {0, 1, 2, 5, 7, 501, 2049, 100003};
    const char *const *settings = rank->argument;
    tutti_context *context;
    tutti_group *group;

    job_group(rank, settings, &context, &group);
    for (enum kind kind = 0; kind < KINDS; kind++) {
        for (size_t a = 0; a == 0 || (a < 6 && algorithms[kind][a - 1] != TUTTI_ALGORITHM_AUTO); a++) {
            if (a > 0 && algorithms[kind][a - 1] == TUTTI_ALGORITHM_PARTS && !has_multicast(group)) {
                continue;
            }
            for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
                for (unsigned variant = 0; variant < 4; variant++) {
                    struct trial trial = {.kind = kind,
                                          .algorithm = a == 0 ? TUTTI_ALGORITHM_AUTO : algorithms[kind][a - 1],
                                          .count = counts[i],
                                          .root = (uint32_t)(i + variant) % rank->size,
                                          .in_place = variant & 1,
                                          .by_counts = variant & 2 && kind == REDUCE_SCATTER};

                    if (variant < 2 || kind == REDUCE_SCATTER) {
                        run_trial(rank, group, &trial);
                    }
                }
            }
        }
    }
    job_end(context, group);
}

static void run_all(uint32_t size, const char *const *settings)
{
    assert_int_equal(job_run(size, all_body, (void *)(uintptr_t)settings, LIMIT_S), 0);
}

static void everything_is_right_at_1_rank(void **state)
{
    (void)state;
    run_all(1, NULL);
}

static void everything_is_right_at_2_ranks(void **state)
{
    (void)state;
    run_all(2, NULL);
}

static void everything_is_right_at_5_ranks(void **state)
{
    (void)state;
    run_all(5, NULL);
}

static void everything_is_right_at_8_ranks_without_multicast(void **state)
{
    static const char *const settings[] = {"ALGORITHM", "ring", NULL};

    (void)state;
    run_all(8, settings);
}

static void everything_is_right_with_workers_and_loss(void **state)
{
    static const char *const settings[] = {"WORKERS", "1", "LOSS", "10", NULL};

    (void)state;
    run_all(3, settings);
}

/* --- Types and functions ------------------------------------------------------------------------------------------ */

static void compose(void *destination, const void *left, const void *right, uint64_t count, void *context)
{
    struct affine *to = destination;
    const struct affine *a = left, *b = right;

    (*(uint64_t *)context)++;
    for (uint64_t i = 0; i < count; i++) {
        to[i] = affine_compose(a[i], b[i]);
    }
}

static void order_body(struct job_rank *rank)
{
    static const uint64_t counts[] = {1, 77, 5001};
    static const tutti_algorithm all[] = {TUTTI_ALGORITHM_AUTO, TUTTI_ALGORITHM_RABENSEIFNER,
                                          TUTTI_ALGORITHM_RECURSIVE_DOUBLING};
    uint64_t calls = 0;
    tutti_reduction_options reduction = {.struct_size = sizeof reduction,
                                         .function = compose,
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

/* Floats of all magnitudes: in another order they add up to other bits. */
static float wild(uint32_t rank, uint64_t element)
{
    struct tt_random random;
    uint32_t bits;
    float number;

    tt_random_init(&random, rank * UINT64_C(1000003) + element);
    bits = (uint32_t)tt_random_next(&random);
    bits = (bits & 0x807FFFFFU) | (100 + bits % 40) << 23;
    memcpy(&number, &bits, sizeof number);
    return number;
}

static void strict_body(struct job_rank *rank)
{
    static const tutti_algorithm all[] = {TUTTI_ALGORITHM_AUTO, TUTTI_ALGORITHM_GATHER, TUTTI_ALGORITHM_RABENSEIFNER,
                                          TUTTI_ALGORITHM_RECURSIVE_DOUBLING};
    static const char *const settings[] = {"DETERMINISTIC", "strict", NULL};
    enum { COUNT = 500 };
    float send[COUNT], receive[COUNT];
    uint32_t first[COUNT], bits[COUNT];
    tutti_context *context;
    tutti_group *group;
    tutti_request *request;

    job_group(rank, settings, &context, &group);
    for (uint64_t i = 0; i < COUNT; i++) {
        send[i] = wild(rank->rank, i);
    }
    for (size_t a = 0; a < sizeof all / sizeof all[0]; a++) {
        tutti_request_options options = {.struct_size = sizeof options, .algorithm = all[a]};

        JOB_OK(rank,
               tutti_allreduce_init(group, send, receive, COUNT, TUTTI_FP32, TUTTI_SUM, NULL, &options, &request));
        JOB_OK(rank, tutti_post(request));
        JOB_OK(rank, tutti_wait(request));
        JOB_OK(rank, tutti_finalize(request));
        memcpy(bits, receive, sizeof bits);
        if (a == 0) {
            memcpy(first, bits, sizeof first);
        }
        JOB_CHECK(rank, memcmp(first, bits, sizeof first) == 0, "algorithm %d has other bits", (int)all[a]);
    }
    tutti_request_options ring = {.struct_size = sizeof ring, .algorithm = TUTTI_ALGORITHM_TRIGGERED_RING};

    JOB_CHECK(rank,
              tutti_allreduce_init(group, send, receive, COUNT, TUTTI_FP32, TUTTI_SUM, NULL, &ring, &request) ==
                  TUTTI_ERR_NOT_SUPPORTED,
              "a ring has a tree for each element");
    JOB_CHECK(rank, strstr(tutti_last_error(), "strict") != NULL, "%s", tutti_last_error());

    uint64_t calls = 0;
    struct affine one = {1, 2};
    tutti_reduction_options reduction = {.struct_size = sizeof reduction,
                                         .function = compose,
                                         .context = &calls,
                                         .is_not_commutative = true,
                                         .element_bytes = sizeof one};
    tutti_request_options tree = {.struct_size = sizeof tree, .algorithm = TUTTI_ALGORITHM_BINOMIAL};

    JOB_CHECK(rank,
              tutti_reduce_init(group, &one, rank->rank == 0 ? receive : NULL, 1, TUTTI_OPAQUE, TUTTI_USER, &reduction,
                                0, &tree, &request) == TUTTI_ERR_NOT_SUPPORTED,
              "a binomial tree keeps the order, and is another tree");
    job_end(context, group);
}

static void strict_has_the_same_bits_by_every_algorithm(void **state)
{
    (void)state;
    assert_int_equal(job_run(3, strict_body, NULL, LIMIT_S), 0);
    assert_int_equal(job_run(6, strict_body, NULL, LIMIT_S), 0);
}

/* --- Several at once ---------------------------------------------------------------------------------------------- */

static void overlap_body(struct job_rank *rank)
{
    enum { REQUESTS = 12, MOST = 60000 };
    static uint32_t send[REQUESTS][MOST], receive[REQUESTS][MOST];
    tutti_request *requests[REQUESTS];
    tutti_context *context;
    tutti_group *group;

    job_group(rank, NULL, &context, &group);
    for (uint32_t r = 0; r < REQUESTS; r++) {
        struct trial trial = {
            .kind = ALLREDUCE, .algorithm = algorithms[ALLREDUCE][r % 4], .count = MOST / (r % 4 + 1)};

        JOB_OK(rank, begin(rank, group, &trial, send[r], receive[r], &requests[r]));
    }
    for (uint32_t iteration = 0; iteration < 5; iteration++) {
        for (uint32_t r = 0; r < REQUESTS; r++) {
            for (uint32_t i = 0; i < MOST; i++) {
                send[r][i] = value_of(rank->rank, i, r + iteration);
            }
            JOB_OK(rank, tutti_post(requests[r]));
        }
        for (uint32_t r = 0; r < REQUESTS; r++) {
            JOB_OK(rank, tutti_wait(requests[(r * 5) % REQUESTS]));
        }
        for (uint32_t r = 0; r < REQUESTS; r++) {
            for (uint32_t i = 0; i < MOST / (r % 4 + 1); i++) {
                JOB_CHECK(rank, receive[r][i] == sum_of(rank->size, i, r + iteration), "request %u, element %u", r, i);
            }
        }
    }
    for (uint32_t r = 0; r < REQUESTS; r++) {
        JOB_OK(rank, tutti_finalize(requests[r]));
    }
    job_end(context, group);
}

static void requests_of_one_group_overlap(void **state)
{
    (void)state;
    assert_int_equal(job_run(4, overlap_body, NULL, LIMIT_S), 0);
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

static void sizes_body(struct job_rank *rank)
{
    static const uint32_t sizes[] = {1, 3, 12, 250, 4097, 32768};
    static const tutti_algorithm all[] = {TUTTI_ALGORITHM_AUTO, TUTTI_ALGORITHM_TRIGGERED_RING,
                                          TUTTI_ALGORITHM_RABENSEIFNER, TUTTI_ALGORITHM_RECURSIVE_DOUBLING};
    tutti_context *context;
    tutti_group *group;
    tutti_request *request;

    job_group(rank, NULL, &context, &group);
    for (size_t trial = 0; trial < 24; trial++) {
        uint32_t bytes = sizes[trial / 4];
        uint64_t count = 3000000 / bytes;
        uint8_t *vector = calloc(count, bytes);
        tutti_reduction_options reduction = {
            .struct_size = sizeof reduction, .function = add_first_byte, .context = &bytes, .element_bytes = bytes};
        tutti_request_options options = {.struct_size = sizeof options, .algorithm = all[trial % 4]};

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

/* --- Failures ----------------------------------------------------------------------------------------------------- */

static void disagree(struct job_rank *rank, tutti_type type, tutti_operation operation, uint64_t count,
                     const char *sentence)
{
    static float send[20000], receive[20000];
    tutti_context *context;
    tutti_group *group;
    tutti_request *request;

    job_group(rank, NULL, &context, &group);
    JOB_OK(rank, tutti_allreduce_init(group, send, receive, count, type, operation, NULL, NULL, &request));
    job_barrier(rank); /* or the group has failed before */
    if (tutti_post(request) == TUTTI_OK) {
        tutti_wait(request);
    }
    JOB_CHECK(rank, tutti_wait(request) == TUTTI_ERR_MISMATCH, "%s", tutti_last_error());
    JOB_CHECK(rank, strstr(tutti_last_error(), sentence) != NULL || strstr(tutti_last_error(), "another rank") != NULL,
              "%s", tutti_last_error());
    JOB_OK(rank, tutti_finalize(request));
    job_end(context, group);
}

static void disagree_body(struct job_rank *rank)
{
    bool is_odd = rank->rank == 2;

    disagree(rank, is_odd ? TUTTI_INT32 : TUTTI_FP32, TUTTI_SUM, 20000, "int32");
    disagree(rank, TUTTI_FP32, is_odd ? TUTTI_MAX : TUTTI_SUM, 20000, "max");
    disagree(rank, TUTTI_FP32, TUTTI_SUM, is_odd ? 19999 : 20000, "79996 bytes");
    disagree(rank, TUTTI_FP32, is_odd ? TUTTI_MIN : TUTTI_SUM, 2, "min");
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

static void arguments_body(struct job_rank *rank)
{
    float send[8], receive[8];
    tutti_reduction_options odd = {.struct_size = sizeof odd, .element_bytes = 3};
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
           bad, "IN_PLACE");
    refuse(rank,
           tutti_reduce_scatter_counts_init(group, send, receive, NULL, TUTTI_FP32, TUTTI_SUM, NULL, NULL, &request),
           bad, "counts");
    refuse(rank,
           tutti_allreduce_init(group, send, receive, UINT64_MAX / 2, TUTTI_FP32, TUTTI_SUM, NULL, NULL, &request), bad,
           "memory");
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
        cmocka_unit_test(everything_is_right_at_1_rank),
        cmocka_unit_test(everything_is_right_at_2_ranks),
        cmocka_unit_test(everything_is_right_at_5_ranks),
        cmocka_unit_test(everything_is_right_at_8_ranks_without_multicast),
        cmocka_unit_test(everything_is_right_with_workers_and_loss),
        cmocka_unit_test(a_function_that_does_not_commute_gets_the_order_of_ranks),
        cmocka_unit_test(an_average_divides_and_a_factor_is_each_ranks_own),
        cmocka_unit_test(strict_has_the_same_bits_by_every_algorithm),
        cmocka_unit_test(requests_of_one_group_overlap),
        cmocka_unit_test(requests_may_read_the_same_buffer),
        cmocka_unit_test(elements_may_have_any_size_that_the_header_says),
        cmocka_unit_test(a_factor_is_read_when_its_request_is_posted),
        cmocka_unit_test(ranks_that_disagree_all_get_the_error),
        cmocka_unit_test(a_killed_rank_is_named_by_every_survivor),
        cmocka_unit_test(a_stuck_rank_is_named_when_the_deadline_comes),
        cmocka_unit_test(bad_arguments_are_refused_with_their_value),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
