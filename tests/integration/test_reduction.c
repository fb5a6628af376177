/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives that combine, gather or scatter, in real processes on loopback: every collective by every algorithm that
 * it has, counts that are odd, 0 or fewer than ranks, in place and not; requests and groups that overlap.
 */
#include <assert.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "job.h"
#include "patience.h"
#include "skip.h"
#include "support/parts_order.h"
#include "tutti/reduction.h"

enum { LIMIT_S = 100, GUARD = 0xEE };

enum kind { BROADCAST, ALLGATHER, REDUCE, ALLREDUCE, REDUCE_SCATTER, GATHER, SCATTER, KINDS };

static const char *const kind_names[KINDS] = {"broadcast",      "allgather", "reduce", "allreduce",
                                              "reduce-scatter", "gather",    "scatter"};

enum { MOST_ALGORITHMS = 8 };

static const tutti_algorithm algorithms[KINDS][MOST_ALGORITHMS] = {
    [BROADCAST] = {TUTTI_ALGORITHM_BINOMIAL, TUTTI_ALGORITHM_DOUBLE_TREE},
    [ALLGATHER] = {TUTTI_ALGORITHM_RECURSIVE_DOUBLING, TUTTI_ALGORITHM_TRIGGERED_RING},
    [REDUCE] = {TUTTI_ALGORITHM_BINOMIAL, TUTTI_ALGORITHM_RABENSEIFNER, TUTTI_ALGORITHM_GATHER},
    [ALLREDUCE] = {TUTTI_ALGORITHM_RECURSIVE_DOUBLING, TUTTI_ALGORITHM_RABENSEIFNER, TUTTI_ALGORITHM_TRIGGERED_RING,
                   TUTTI_ALGORITHM_PARTS, TUTTI_ALGORITHM_EAGER_PARTS, TUTTI_ALGORITHM_GATHER, TUTTI_ALGORITHM_EAGER},
    [REDUCE_SCATTER] = {TUTTI_ALGORITHM_TRIGGERED_RING, TUTTI_ALGORITHM_RECURSIVE_HALVING, TUTTI_ALGORITHM_RABENSEIFNER,
                        TUTTI_ALGORITHM_DIRECT, TUTTI_ALGORITHM_GATHER, TUTTI_ALGORITHM_EAGER},
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
        receive = trial->by_counts && counts[rank->rank] == 0 ? NULL : receive; /* who gets nothing needs no buffer */
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

static bool needs_multicast(tutti_algorithm algorithm)
{
    return algorithm == TUTTI_ALGORITHM_PARTS || algorithm == TUTTI_ALGORITHM_EAGER_PARTS ||
           algorithm == TUTTI_ALGORITHM_GATHER || algorithm == TUTTI_ALGORITHM_EAGER;
}

/* Of all parts no more than 64 KiB, nor of all vectors, where each rank sends its own to all; 32 KiB of each that is
 * gathered. What has no elements is a barrier. */
static bool is_short_enough(const struct job_rank *rank, const struct trial *trial)
{
    uint64_t elements = shape_of(rank, trial).send;

    switch (trial->algorithm) {
    case TUTTI_ALGORITHM_EAGER_PARTS:
        return (trial->count + rank->size - 1) / rank->size * rank->size <= 16384;
    case TUTTI_ALGORITHM_GATHER:
        return elements <= 8192;
    case TUTTI_ALGORITHM_EAGER:
        return elements <= 16384 / rank->size && (elements > 0 || rank->size == 2);
    default:
        return true;
    }
}

static void all_body(struct job_rank *rank)
{
    static const uint64_t counts[] = {0, 1, 2, 5, 7, 501, 2049, 100003};
    const char *const *settings = rank->argument;
    tutti_counters counters = {.struct_size = sizeof counters};
    tutti_context *context;
    tutti_group *group;

    job_group(rank, settings, &context, &group);
    for (enum kind kind = 0; kind < KINDS; kind++) {
        for (size_t a = 0; a == 0 || algorithms[kind][a - 1] != TUTTI_ALGORITHM_AUTO; a++) {
            if (a > 0 && needs_multicast(algorithms[kind][a - 1]) && !has_multicast(group)) {
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

                    if ((variant < 2 || kind == REDUCE_SCATTER) && is_short_enough(rank, &trial)) {
                        run_trial(rank, group, &trial);
                    }
                }
            }
        }
    }
    /* Whatever is dropped as another root's would have to be fetched. */
    JOB_OK(rank, tutti_group_counters(group, &counters));
    JOB_CHECK(rank, counters.drops_source == 0, "%llu chunks of roots that are none",
              (unsigned long long)counters.drops_source);
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

enum { CROSS = 6, CROSS_MOST = 30000 };

/* Six of the triggered engine's, of different kinds and lengths. */
static void begin_six(struct job_rank *rank, tutti_group *group, uint32_t send[CROSS][CROSS_MOST],
                      uint32_t receive[CROSS][CROSS_MOST], struct trial trials[CROSS], tutti_request *requests[CROSS])
{
    for (uint32_t r = 0; r < CROSS; r++) {
        trials[r] =
            (struct trial){.kind = r % 2 == 0 ? ALLREDUCE : REDUCE,
                           .algorithm = r % 2 == 0 ? algorithms[ALLREDUCE][r / 2] : algorithms[REDUCE][r / 2 % 2],
                           .count = CROSS_MOST / (r * r + 1),
                           .root = r % rank->size};
        JOB_OK(rank, begin(rank, group, &trials[r], send[r], receive[r], &requests[r]));
    }
}

static void check_six(struct job_rank *rank, const struct trial trials[CROSS], uint32_t receive[CROSS][CROSS_MOST],
                      uint32_t iteration)
{
    for (uint32_t r = 0; r < CROSS; r++) {
        for (uint64_t i = 0; i < trials[r].count && (trials[r].kind == ALLREDUCE || trials[r].root == rank->rank);
             i++) {
            JOB_CHECK(rank, receive[r][i] == sum_of(rank->size, i, r + iteration), "request %u, element %llu", r,
                      (unsigned long long)i);
        }
    }
}

/* Two groups of all ranks, whose connections are the same ones: half of the ranks post one first, half the other. */
static void cross_body(struct job_rank *rank)
{
    static uint32_t send[2][CROSS][CROSS_MOST], receive[2][CROSS][CROSS_MOST];
    struct trial trials[2][CROSS];
    tutti_request *requests[2][CROSS];
    tutti_context *context;
    tutti_group *groups[2];
    tutti_group_options members = {.struct_size = sizeof members,
                                   .rank = rank->rank,
                                   .size = rank->size,
                                   .allgather = job_allgather,
                                   .argument = rank};

    job_group(rank, NULL, &context, &groups[0]);
    JOB_OK(rank, tutti_group_create(context, &members, &groups[1]));
    for (uint32_t g = 0; g < 2; g++) {
        begin_six(rank, groups[g], send[g], receive[g], trials[g], requests[g]);
    }
    for (uint32_t iteration = 0; iteration < 5; iteration++) {
        for (uint32_t step = 0; step < 2 * CROSS; step++) {
            uint32_t g = (step + rank->rank) % 2, r = step / 2;

            for (uint32_t i = 0; i < CROSS_MOST; i++) {
                send[g][r][i] = value_of(rank->rank, i, r + iteration + g);
            }
            JOB_OK(rank, tutti_post(requests[g][r]));
        }
        for (uint32_t step = 0; step < 2 * CROSS; step++) {
            JOB_OK(rank, tutti_wait(requests[(step + rank->rank / 2) % 2][step / 2]));
        }
        check_six(rank, trials[0], receive[0], iteration);
        check_six(rank, trials[1], receive[1], iteration + 1);
    }
    for (uint32_t i = 0; i < 2 * CROSS; i++) {
        JOB_OK(rank, tutti_finalize(requests[i % 2][i / 2]));
    }
    JOB_OK(rank, tutti_group_destroy(groups[1]));
    job_end(context, groups[0]);
}

static void requests_of_two_groups_that_are_posted_crosswise_overlap(void **state)
{
    (void)state;
    assert_int_equal(job_run(4, cross_body, NULL, LIMIT_S), 0);
    assert_int_equal(job_run(5, cross_body, NULL, LIMIT_S), 0);
}

static void requests_of_one_group_overlap(void **state)
{
    (void)state;
    assert_int_equal(job_run(4, overlap_body, NULL, LIMIT_S), 0);
}

/* --- Memory ------------------------------------------------------------------------------------------------------- */

static long page_faults(struct job_rank *rank)
{
    struct rusage usage;

    JOB_CHECK(rank, getrusage(RUSAGE_SELF, &usage) == 0, "no usage");
    return usage.ru_minflt;
}

static void run_once(struct job_rank *rank, tutti_request *const *requests, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        JOB_OK(rank, tutti_post(requests[i]));
        JOB_OK(rank, tutti_wait(requests[i]));
    }
}

/* Of each kind by each algorithm, 8 KiB a rank: after each has run once, pages are there, but for those that queues
 * grow by. */
static void pages_body(struct job_rank *rank)
{
    enum { WORDS = 2048, MOST_RANKS = 4, ROUNDS = 40, MOST_FAULTS = 64 };
    static uint32_t send[WORDS * MOST_RANKS], receive[WORDS * MOST_RANKS];
    tutti_request *requests[KINDS * MOST_ALGORITHMS];
    size_t count = 0;
    long faults;
    tutti_context *context;
    tutti_group *group;

    assert(rank->size <= MOST_RANKS);
    memset(send, 1, sizeof send);
    memset(receive, 1, sizeof receive);
    job_group(rank, NULL, &context, &group);
    for (enum kind kind = 0; kind < KINDS; kind++) {
        for (size_t a = 0; a == 0 || algorithms[kind][a - 1] != TUTTI_ALGORITHM_AUTO; a++) {
            struct trial trial = {
                .kind = kind, .algorithm = a == 0 ? TUTTI_ALGORITHM_AUTO : algorithms[kind][a - 1], .count = WORDS};

            if ((!needs_multicast(trial.algorithm) || has_multicast(group)) && is_short_enough(rank, &trial)) {
                JOB_OK(rank, begin(rank, group, &trial, send, receive, &requests[count++]));
            }
        }
    }
    run_once(rank, requests, count);
    faults = page_faults(rank);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        run_once(rank, requests, count);
    }
    faults = page_faults(rank) - faults;
    JOB_CHECK(rank, faults <= MOST_FAULTS, "%ld page faults in %d rounds of %zu collectives", faults, ROUNDS, count);
    for (size_t i = 0; i < count; i++) {
        JOB_OK(rank, tutti_finalize(requests[i]));
    }
    job_end(context, group);
}

static void collectives_find_their_pages_there(void **state)
{
    (void)state;
    if (TT_PATIENCE > 1) {
        TT_SKIP("a sanitizer's own memory has faults");
    }
    assert_int_equal(job_run(4, pages_body, NULL, LIMIT_S), 0);
}

/* Pages of address space that the process has. */
static long address_space(struct job_rank *rank)
{
    FILE *file = fopen("/proc/self/statm", "r");
    long pages = 0;

    JOB_CHECK(rank, file != NULL && fscanf(file, "%ld", &pages) == 1, "no /proc/self/statm");
    fclose(file);
    return pages;
}

/* Who gets nothing of a reduce-scatter only sends, from where its own data is. */
static void empty_part_body(struct job_rank *rank)
{
    enum { COUNT = 16 << 20, APART = 4096 };
    static const uint64_t counts[] = {COUNT, 0};
    static uint32_t send[COUNT], receive[COUNT];
    const tutti_request_options options = {.struct_size = sizeof options, .algorithm = TUTTI_ALGORITHM_DIRECT};
    tutti_request *request;
    tutti_context *context;
    tutti_group *group;
    long taken;

    job_group(rank, NULL, &context, &group);
    for (uint64_t i = 0; i < COUNT; i += APART) {
        send[i] = value_of(rank->rank, i, 0);
    }
    taken = address_space(rank);
    JOB_OK(rank, tutti_reduce_scatter_counts_init(group, send, rank->rank == 0 ? receive : NULL, counts, TUTTI_UINT32,
                                                  TUTTI_SUM, NULL, &options, &request));
    taken = address_space(rank) - taken;
    JOB_CHECK(rank, taken * sysconf(_SC_PAGESIZE) < COUNT, "%ld pages for a part of %llu elements", taken,
              (unsigned long long)counts[rank->rank]);
    run_once(rank, &request, 1);
    for (uint64_t i = 0; rank->rank == 0 && i < COUNT; i += APART) {
        JOB_CHECK(rank, receive[i] == sum_of(2, i, 0), "element %llu is wrong", (unsigned long long)i);
    }
    JOB_OK(rank, tutti_finalize(request));
    job_end(context, group);
}

static void a_rank_that_gets_nothing_needs_no_memory(void **state)
{
    (void)state;
    assert_int_equal(job_run(2, empty_part_body, NULL, LIMIT_S), 0);
}

#define ENDLESS_BYTES ((UINT64_C(1) << 30) + (1 << 20))

/* More chunks of 64 bytes than there are PSNs: what multicasts cannot, and something else does. */
static void endless_body(struct job_rank *rank)
{
    static const char *const settings[] = {"CHUNK", "64", "SUBGROUPS", "1", "LOG", "none", NULL};
    tutti_request *request;
    tutti_context *context;
    tutti_group *group;

    job_group(rank, settings, &context, &group);
    JOB_OK(rank, tutti_allreduce_init(group, TUTTI_IN_PLACE, rank->argument, ENDLESS_BYTES, TUTTI_UINT8, TUTTI_MAX,
                                      NULL, NULL, &request));
    JOB_CHECK(rank, tutti_request_algorithm(request) == TUTTI_ALGORITHM_RABENSEIFNER, "by algorithm %d",
              (int)tutti_request_algorithm(request));
    JOB_OK(rank, tutti_finalize(request));
    job_end(context, group);
}

static void an_allreduce_of_more_chunks_than_there_are_psns_goes_another_way(void **state)
{
    void *shared;

    (void)state;
    if (TT_PATIENCE > 1) {
        TT_SKIP("a sanitizer needs as much memory again");
    }
    shared = mmap(NULL, ENDLESS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_ptr_not_equal(shared, MAP_FAILED);
    assert_int_equal(job_run(2, endless_body, shared, LIMIT_S), 0);
    munmap(shared, ENDLESS_BYTES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_is_right_at_1_rank),
        cmocka_unit_test(everything_is_right_at_2_ranks),
        cmocka_unit_test(everything_is_right_at_5_ranks),
        cmocka_unit_test(everything_is_right_at_8_ranks_without_multicast),
        cmocka_unit_test(everything_is_right_with_workers_and_loss),
        cmocka_unit_test(collectives_find_their_pages_there),
        cmocka_unit_test(a_rank_that_gets_nothing_needs_no_memory),
        cmocka_unit_test(an_allreduce_of_more_chunks_than_there_are_psns_goes_another_way),
        cmocka_unit_test(requests_of_one_group_overlap),
        cmocka_unit_test(requests_of_two_groups_that_are_posted_crosswise_overlap),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
