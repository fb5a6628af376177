/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: `tutti bench stencil`: a 5-point stencil over ranks and threads, as in section VII of the paper on scalable
 * endpoints.
 *
 * Normal path: the rows of a square grid are dealt out to ranks, the columns of a rank to its threads. In each
 * iteration a thread computes its part, and writes its upper and its lower edge into the halo of the ranks above and
 * below, over a queue pair for each of the two; one completion queue serves both. Ranks are in a ring; beyond the first
 * and last column there is zero. All threads meet after each iteration. A grid is computed from one copy into another,
 * so that one meeting is enough: nobody reads the halo that neighbours write into. Each rank has endpoints of its own,
 * as a process would have; all are threads of this process. The result is compared bit for bit with that of one thread.
 *
 * Failures: a grid that cannot be dealt out evenly: exit status 2; see bench_rdma.c for the rest.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "cli/bench_kernels.h"
#include "cli/bench_rdma.h"
#include "cli/crew.h"

enum {
    DEFAULT_GRID = 512,
    DEFAULT_ITERATIONS = 200,
    MOST_GRID = 16384,
    MOST_ITERATIONS = 1000000,
    DEPTH = 16,
    PAGE = 4096,
    UP = 0, /* lanes of a thread */
    DOWN = 1,
    COPIES = 2
};

enum { OPTION_RANKS = TT_RDMA_OPTION_COUNT, OPTION_GRID, OPTION_ITERATIONS, OPTION_COUNT };

static const struct tt_option options[OPTION_COUNT] = {
    TT_RDMA_OPTIONS,
    [OPTION_RANKS] = {'r', "ranks", "R", "that the threads are dealt out to (T, T / 2, ... 1)"},
    [OPTION_GRID] = {'n', "grid", "N", "rows and columns of the grid (512)"},
    [OPTION_ITERATIONS] = {0, "iterations", "N", "computations of the whole grid (200)"},
};

static const struct tt_command_usage usage = {
    .name = "bench stencil",
    .synopsis = "[OPTION]...",
    .purpose =
        "Computes a 5-point stencil, whose halos go from rank to rank by RDMA writes of every thread, over endpoints\n"
        "of each category. Ranks are threads of one process with endpoints of their own, on one device.",
    .options = options,
    .option_count = OPTION_COUNT,
};

static bool read_option(void *own, int option, const char *text)
{
    struct tt_stencil *stencil = own;

    switch (option) {
    case OPTION_RANKS:
        return tt_arguments_count(usage.name, "--ranks", text, 1, TT_ENDPOINT_THREADS_MAX, &stencil->ranks);
    case OPTION_GRID:
        return tt_arguments_count(usage.name, "--grid", text, 1, MOST_GRID, &stencil->grid);
    default:
        return tt_arguments_count(usage.name, "--iterations", text, 1, MOST_ITERATIONS, &stencil->iterations);
    }
}

/* Any number of ranks divides a grid that all threads divide. */
static bool check(void *own, const struct tt_rdma_wish *wish)
{
    const struct tt_stencil *stencil = own;

    if (stencil->ranks != 0 && wish->threads % stencil->ranks != 0) {
        tt_usage_error(usage.name, "--ranks '%" PRIu64 "': does not divide the %" PRIu32 " threads", stencil->ranks,
                       wish->threads);
        return false;
    }
    if (stencil->grid % wish->threads != 0) {
        tt_usage_error(usage.name, "--grid '%" PRIu64 "': not a multiple of the %" PRIu32 " threads", stencil->grid,
                       wish->threads);
        return false;
    }
    return true;
}

/* --- The grid ----------------------------------------------------------------------------------------------------- */

/* Of a row of results. */
struct row {
    const struct tt_stencil *stencil;
    struct tt_traffic *traffic;
    double *memory;             /* of all ranks: two copies of a rank's rows, with a halo above and below */
    size_t rank_doubles;        /* from one rank to the next */
    uint64_t rows;              /* of a rank */
    uint32_t ranks, threads;    /* threads of a rank */
    uint64_t *communication_ns; /* of a thread */
};

static double *line_of(const struct row *row, uint64_t rank, unsigned copy, uint64_t line)
{
    return row->memory + rank * row->rank_doubles + (copy * (row->rows + 2) + line) * row->stencil->grid;
}

static double begins_with(uint64_t row, uint64_t column)
{
    return (double)((row * 31 + column * 17) % 101) / 101;
}

/* Never inlined: contraction or vectors must not make two kinds of it. */
static __attribute__((noinline)) void compute_line(double *to, const double *from, uint64_t width, uint64_t first,
                                                   uint64_t last)
{
    const double *above = from - width, *below = from + width;

    for (uint64_t j = first; j < last; j++) {
        double left = j > 0 ? from[j - 1] : 0, right = j + 1 < width ? from[j + 1] : 0;
        to[j] = (above[j] + below[j] + left + right) / 4;
    }
}

static void fill(const struct row *row)
{
    uint64_t grid = row->stencil->grid;

    for (uint64_t rank = 0; rank < row->ranks; rank++) {
        for (uint64_t line = 0; line < row->rows + 2; line++) {
            for (uint64_t j = 0; j < grid; j++) {
                line_of(row, rank, 0, line)[j] = begins_with((rank * row->rows + line + grid - 1) % grid, j);
                line_of(row, rank, 1, line)[j] = -1;
            }
        }
    }
}

/* By one thread: the same grid as one rank's, whose halo is copied. */
static const double *compute_alone(const struct row *alone)
{
    uint64_t grid = alone->stencil->grid;

    fill(alone);
    for (uint64_t i = 0; i < alone->stencil->iterations; i++) {
        unsigned from = i % COPIES, to = 1 - from;
        for (uint64_t line = 1; line <= grid; line++) {
            compute_line(line_of(alone, 0, to, line), line_of(alone, 0, from, line), grid, 0, grid);
        }
        memcpy(line_of(alone, 0, to, 0), line_of(alone, 0, to, grid), grid * sizeof(double));
        memcpy(line_of(alone, 0, to, grid + 1), line_of(alone, 0, to, 1), grid * sizeof(double));
    }
    return line_of(alone, 0, alone->stencil->iterations % COPIES, 1);
}

static uint64_t count_wrong(const struct row *row, const double *expected)
{
    uint64_t grid = row->stencil->grid, wrong = 0;

    for (uint64_t i = 0; i < grid; i++) {
        const double *line = line_of(row, i / row->rows, row->stencil->iterations % COPIES, i % row->rows + 1);
        for (uint64_t j = 0; j < grid; j++) {
            wrong += line[j] != expected[i * grid + j];
        }
    }
    return wrong;
}

/* --- The threads -------------------------------------------------------------------------------------------------- */

/* The thread's columns of a line into another rank's. */
static tutti_status send_edge(const struct row *row, uint32_t thread, unsigned lane, double *from, double *to)
{
    struct tt_traffic_lane *traffic = tt_traffic_lane(row->traffic, thread, lane);
    uint64_t width = row->stencil->grid / row->threads, first = thread % row->threads * width;
    struct tt_traffic_work work = {.local = from + first,
                                   .local_key = tt_traffic_local_key(traffic),
                                   .remote = to + first,
                                   .remote_key = tt_traffic_remote_key(traffic),
                                   .bytes = (uint32_t)(width * sizeof(double))};

    return tt_traffic_post(traffic, &work, 1);
}

static tutti_status exchange(const struct row *row, uint32_t thread, unsigned copy)
{
    uint32_t rank = thread / row->threads;
    uint32_t above = (rank + row->ranks - 1) % row->ranks, below = (rank + 1) % row->ranks;
    uint64_t begun_ns = tt_clock_now_ns();
    tutti_status status =
        send_edge(row, thread, UP, line_of(row, rank, copy, 1), line_of(row, above, copy, row->rows + 1));

    if (status == TUTTI_OK) {
        status = send_edge(row, thread, DOWN, line_of(row, rank, copy, row->rows), line_of(row, below, copy, 0));
    }
    for (unsigned lane = UP; lane <= DOWN && status == TUTTI_OK; lane++) {
        status = tt_traffic_finish(tt_traffic_lane(row->traffic, thread, lane));
    }
    row->communication_ns[thread] += tt_clock_now_ns() - begun_ns;
    return status;
}

static tutti_status compute(void *argument, struct tt_crew *crew, uint32_t thread)
{
    const struct row *row = argument;
    uint64_t grid = row->stencil->grid, width = grid / row->threads, first = thread % row->threads * width;
    tutti_status status = TUTTI_OK;

    for (uint64_t i = 0; i < row->stencil->iterations && status == TUTTI_OK; i++) {
        unsigned from = i % COPIES, to = 1 - from;
        uint32_t rank = thread / row->threads;
        for (uint64_t line = 1; line <= row->rows; line++) {
            compute_line(line_of(row, rank, to, line), line_of(row, rank, from, line), grid, first, first + width);
        }
        status = exchange(row, thread, to);
        if (status == TUTTI_OK) {
            status = tt_crew_meet(crew);
        }
    }
    return status;
}

/* --- A row of results --------------------------------------------------------------------------------------------- */

static tutti_status measure(struct tt_rdma_wish *wish, struct row *row, enum tt_endpoint_category category,
                            const double *expected)
{
    struct tt_traffic_options traffic = tt_rdma_traffic(wish, category);
    char label[2 * TT_CELL_BYTES];
    struct tt_rdma_row result = {.label = label, .is_base = category == TT_ENDPOINT_MPI_EVERYWHERE};

    snprintf(label, sizeof(label), "%" PRIu32 ".%" PRIu32, row->ranks, row->threads);
    traffic.shape = TT_TRAFFIC_RING;
    traffic.sets = row->ranks;
    traffic.threads = row->threads;
    traffic.lanes = 2;
    traffic.depth = DEPTH;
    traffic.near = row->memory;
    traffic.near_bytes = row->rank_doubles * sizeof(double);
    traffic.near_stride = traffic.near_bytes;
    tutti_status status = tt_traffic_create(&traffic, &row->traffic);
    if (status == TUTTI_OK) {
        fill(row);
        memset(row->communication_ns, 0, wish->threads * sizeof(*row->communication_ns));
        status = tt_crew_run(wish->threads, compute, row, &result.duration_ns);
    }
    if (status == TUTTI_OK) {
        result.communication_ns = tt_rdma_mean(row->communication_ns, wish->threads);
        result.messages = 2 * row->stencil->iterations * wish->threads;
        result.wrong = count_wrong(row, expected);
        status = tt_rdma_print(wish, row->stencil, &traffic, tt_traffic_made(row->traffic), &result);
    }
    tt_traffic_destroy(row->traffic);
    row->traffic = NULL;
    return status;
}

/* Pages of its own for each rank, as another process would have. */
static size_t doubles_of_rank(uint64_t rows, uint64_t grid)
{
    size_t bytes = COPIES * (rows + 2) * grid * sizeof(double);

    return (bytes + PAGE - 1) / PAGE * PAGE / sizeof(double);
}

static tutti_status run_ranks(struct tt_rdma_wish *wish, struct row *row, uint32_t ranks, const double *expected)
{
    tutti_status status = TUTTI_OK;

    row->ranks = ranks;
    row->threads = wish->threads / ranks;
    row->rows = row->stencil->grid / ranks;
    row->rank_doubles = doubles_of_rank(row->rows, row->stencil->grid);
    row->memory = aligned_alloc(PAGE, ranks * row->rank_doubles * sizeof(double));
    if (row->memory == NULL) {
        return tt_error_note(TUTTI_ERR_NO_MEMORY, "no memory for a grid of %" PRIu64 " rows", row->stencil->grid);
    }
    for (unsigned i = wish->first; i <= (unsigned)wish->last && status == TUTTI_OK; i++) {
        status = measure(wish, row, (enum tt_endpoint_category)i, expected);
    }
    free(row->memory);
    return status;
}

/* 16.1, 8.2, 4.4, 2.8, 1.16. */
static tutti_status run_all(struct tt_rdma_wish *wish, struct row *row, const double *expected)
{
    uint32_t first = row->stencil->ranks > 0 ? (uint32_t)row->stencil->ranks : wish->threads;
    uint32_t last = row->stencil->ranks > 0 ? first : 1;
    tutti_status status = TUTTI_OK;

    for (uint32_t ranks = first; ranks >= last && status == TUTTI_OK; ranks /= 2) {
        status = wish->threads % ranks == 0 ? run_ranks(wish, row, ranks, expected) : TUTTI_OK;
    }
    return status;
}

tutti_status tt_stencil_run(void *own, struct tt_rdma_wish *wish)
{
    const struct tt_stencil *stencil = own;
    struct row alone = {.stencil = stencil, .rows = stencil->grid, .ranks = 1, .threads = 1};
    struct row row = {.stencil = stencil};
    tutti_status status;

    alone.rank_doubles = doubles_of_rank(alone.rows, stencil->grid);
    alone.memory = malloc(alone.rank_doubles * sizeof(double));
    row.communication_ns = calloc(wish->threads, sizeof(*row.communication_ns));
    if (alone.memory == NULL || row.communication_ns == NULL) {
        status = tt_error_note(TUTTI_ERR_NO_MEMORY, "no memory for a grid of %" PRIu64 " rows", stencil->grid);
    } else {
        status = run_all(wish, &row, compute_alone(&alone));
    }
    free(alone.memory);
    free(row.communication_ns);
    return status;
}

static void print_json(const void *own, struct tt_json *json)
{
    const struct tt_stencil *stencil = own;

    tt_json_count(json, "grid", stencil->grid);
    tt_json_count(json, "iterations", stencil->iterations);
}

const struct tt_rdma_bench tt_stencil_bench = {
    .usage = &usage,
    .label = "ranks.t",
    .read_option = read_option,
    .check = check,
    .run = tt_stencil_run,
    .print_json = print_json,
};

int tt_bench_stencil(int argc, char **argv)
{
    struct tt_stencil stencil = {.grid = DEFAULT_GRID, .iterations = DEFAULT_ITERATIONS};

    return tt_rdma_command(&tt_stencil_bench, &stencil, argc, argv);
}
