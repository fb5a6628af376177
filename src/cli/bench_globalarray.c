/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: `tutti bench globalarray`: C = A B of matrices that are elsewhere, as in section VII of the paper on
 * scalable endpoints.
 *
 * Normal path: the matrices are at the target, cut into square tiles that lie one behind the other. A thread takes
 * every T-th tile of C: it reads the tiles of A and B that make it, one after the other, adds their products up, and
 * writes the tile. It has a buffer and a registration for each of the three. There are no lists, and every operation is
 * signalled and waited for: the conservative semantics of the paper. Elements are small integers, so that every order
 * of adding gives the same bits, and C is compared with a product that was computed here.
 *
 * Failures: a matrix that tiles do not cut evenly: exit status 2; see bench_rdma.c for the rest.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "cli/bench_kernels.h"
#include "cli/bench_rdma.h"
#include "cli/crew.h"

enum { DEFAULT_ORDER = 512, DEFAULT_TILE = 32, MOST_ORDER = 8192, MOST_TILE = 512, DEPTH = 16, PAGE = 4096 };

enum { OPTION_ORDER = TT_RDMA_OPTION_COUNT, OPTION_TILE, OPTION_COUNT };

enum matrix { A, B, C, MATRICES };

static const struct tt_option options[OPTION_COUNT] = {
    TT_RDMA_OPTIONS,
    [OPTION_ORDER] = {'n', "order", "N", "rows and columns of the matrices (512)"},
    [OPTION_TILE] = {0, "tile", "N", "rows and columns of a tile (32)"},
};

static const struct tt_command_usage usage = {
    .name = "bench globalarray",
    .synopsis = "[OPTION]...",
    .purpose =
        "Multiplies matrices that are elsewhere: threads read tiles of A and B by RDMA, multiply, and write tiles\n"
        "of C, over endpoints of each category. Both ends are on one device; the result is compared.",
    .options = options,
    .option_count = OPTION_COUNT,
};

static bool read_option(void *own, int option, const char *text)
{
    struct tt_globalarray *array = own;

    return option == OPTION_ORDER ? tt_arguments_count(usage.name, "--order", text, 1, MOST_ORDER, &array->order)
                                  : tt_arguments_count(usage.name, "--tile", text, 1, MOST_TILE, &array->tile);
}

static bool check(void *own, const struct tt_rdma_wish *wish)
{
    const struct tt_globalarray *array = own;

    (void)wish;
    if (array->order % array->tile != 0) {
        tt_usage_error(usage.name, "--tile '%" PRIu64 "': does not divide the order %" PRIu64, array->tile,
                       array->order);
        return false;
    }
    return true;
}

/* --- The matrices ------------------------------------------------------------------------------------------------- */

/* Of a row. */
struct row {
    const struct tt_globalarray *array;
    struct tt_traffic *traffic;
    double *global[MATRICES]; /* at the target, tile behind tile */
    double *local;            /* three tiles of each thread */
    size_t tile_doubles, local_doubles;
    uint32_t (*keys)[MATRICES]; /* of a thread's tiles */
    uint64_t *communication_ns; /* of a thread */
    uint64_t tiles;             /* in a row or column of tiles */
    uint32_t threads;
};

static double *global_tile(const struct row *row, enum matrix matrix, uint64_t i, uint64_t j)
{
    return row->global[matrix] + (i * row->tiles + j) * row->tile_doubles;
}

static double *local_tile(const struct row *row, uint32_t thread, enum matrix matrix)
{
    return row->local + (size_t)thread * row->local_doubles + (size_t)matrix * (row->local_doubles / MATRICES);
}

/* Small enough that every sum is exact. */
static double element(enum matrix matrix, uint64_t i, uint64_t j)
{
    return matrix == A ? (double)((i * 3 + j * 5) % 17) - 8 : (double)((i * 7 + j * 11) % 13) - 6;
}

static void fill(const struct row *row)
{
    uint64_t tile = row->array->tile;

    for (uint64_t i = 0; i < row->array->order; i++) {
        for (uint64_t j = 0; j < row->array->order; j++) {
            size_t place = i % tile * tile + j % tile;
            global_tile(row, A, i / tile, j / tile)[place] = element(A, i, j);
            global_tile(row, B, i / tile, j / tile)[place] = element(B, i, j);
            global_tile(row, C, i / tile, j / tile)[place] = -1;
        }
    }
}

/* Row by row, without tiles. */
static uint64_t count_wrong(const struct row *row, double *sums)
{
    uint64_t tile = row->array->tile, order = row->array->order, wrong = 0;

    for (uint64_t i = 0; i < order; i++) {
        memset(sums, 0, order * sizeof(*sums));
        for (uint64_t k = 0; k < order; k++) {
            double factor = element(A, i, k);
            const double *b = global_tile(row, B, k / tile, 0) + k % tile * tile;
            for (uint64_t j = 0; j < order; j++) {
                sums[j] += factor * b[j / tile * row->tile_doubles + j % tile];
            }
        }
        for (uint64_t j = 0; j < order; j++) {
            wrong += global_tile(row, C, i / tile, j / tile)[i % tile * tile + j % tile] != sums[j];
        }
    }
    return wrong;
}

/* --- The threads -------------------------------------------------------------------------------------------------- */

static void multiply(double *restrict c, const double *restrict a, const double *restrict b, uint64_t tile)
{
    for (uint64_t i = 0; i < tile; i++) {
        for (uint64_t k = 0; k < tile; k++) {
            for (uint64_t j = 0; j < tile; j++) {
                c[i * tile + j] += a[i * tile + k] * b[k * tile + j];
            }
        }
    }
}

static struct tt_traffic_work work_of(const struct row *row, uint32_t thread, enum matrix matrix, double *remote)
{
    return (struct tt_traffic_work){.is_read = matrix != C,
                                    .local = local_tile(row, thread, matrix),
                                    .local_key = row->keys[thread][matrix],
                                    .remote = remote,
                                    .remote_key = tt_traffic_remote_key(tt_traffic_lane(row->traffic, thread, 0)),
                                    .bytes = (uint32_t)(row->tile_doubles * sizeof(double))};
}

/* Posts and waits; how long that takes is added up. */
static tutti_status communicate(const struct row *row, uint32_t thread, const struct tt_traffic_work *works,
                                unsigned count)
{
    struct tt_traffic_lane *lane = tt_traffic_lane(row->traffic, thread, 0);
    uint64_t begun_ns = tt_clock_now_ns();
    tutti_status status = TUTTI_OK;

    for (unsigned i = 0; i < count && status == TUTTI_OK; i++) {
        status = tt_traffic_post(lane, &works[i], 1);
    }
    if (status == TUTTI_OK) {
        status = tt_traffic_finish(lane);
    }
    row->communication_ns[thread] += tt_clock_now_ns() - begun_ns;
    return status;
}

static tutti_status make_tile(const struct row *row, uint32_t thread, uint64_t i, uint64_t j)
{
    double *a = local_tile(row, thread, A), *b = local_tile(row, thread, B), *c = local_tile(row, thread, C);

    memset(c, 0, row->tile_doubles * sizeof(*c));
    for (uint64_t k = 0; k < row->tiles; k++) {
        const struct tt_traffic_work reads[] = {work_of(row, thread, A, global_tile(row, A, i, k)),
                                                work_of(row, thread, B, global_tile(row, B, k, j))};
        tutti_status status = communicate(row, thread, reads, 2);
        if (status != TUTTI_OK) {
            return status;
        }
        multiply(c, a, b, row->array->tile);
    }
    const struct tt_traffic_work write = work_of(row, thread, C, global_tile(row, C, i, j));
    return communicate(row, thread, &write, 1);
}

static tutti_status make_tiles(void *argument, struct tt_crew *crew, uint32_t thread)
{
    const struct row *row = argument;
    tutti_status status = TUTTI_OK;

    (void)crew;
    for (uint64_t tile = thread; tile < row->tiles * row->tiles && status == TUTTI_OK; tile += row->threads) {
        status = make_tile(row, thread, tile / row->tiles, tile % row->tiles);
    }
    return status;
}

/* --- A row -------------------------------------------------------------------------------------------------------- */

static tutti_status register_tiles(struct row *row)
{
    tutti_status status = TUTTI_OK;

    for (uint32_t i = 0; i < row->threads * MATRICES && status == TUTTI_OK; i++) {
        enum matrix matrix = (enum matrix)(i % MATRICES);
        status = tt_traffic_register(row->traffic, i / MATRICES, local_tile(row, i / MATRICES, matrix),
                                     row->tile_doubles * sizeof(double), &row->keys[i / MATRICES][matrix]);
    }
    return status;
}

static tutti_status measure(struct tt_rdma_wish *wish, struct row *row, enum tt_endpoint_category category,
                            double *sums)
{
    struct tt_traffic_options traffic = tt_rdma_traffic(wish, category);
    struct tt_rdma_row result = {.is_base = category == TT_ENDPOINT_MPI_EVERYWHERE};

    traffic.depth = DEPTH;
    traffic.far = row->global[A];
    traffic.far_bytes = MATRICES * row->array->order * row->array->order * sizeof(double);
    tutti_status status = tt_traffic_create(&traffic, &row->traffic);
    if (status == TUTTI_OK) {
        fill(row);
        memset(row->communication_ns, 0, row->threads * sizeof(*row->communication_ns));
        status = register_tiles(row);
    }
    if (status == TUTTI_OK) {
        status = tt_crew_run(row->threads, make_tiles, row, &result.duration_ns);
    }
    if (status == TUTTI_OK) {
        result.communication_ns = tt_rdma_mean(row->communication_ns, row->threads);
        result.messages = row->tiles * row->tiles * (2 * row->tiles + 1);
        result.wrong = count_wrong(row, sums);
        status = tt_rdma_print(wish, row->array, &traffic, tt_traffic_made(row->traffic), &result);
    }
    tt_traffic_destroy(row->traffic);
    row->traffic = NULL;
    return status;
}

static tutti_status run_categories(struct tt_rdma_wish *wish, struct row *row, double *sums)
{
    tutti_status status = TUTTI_OK;

    for (unsigned i = wish->first; i <= (unsigned)wish->last && status == TUTTI_OK; i++) {
        status = measure(wish, row, (enum tt_endpoint_category)i, sums);
    }
    return status;
}

tutti_status tt_globalarray_run(void *own, struct tt_rdma_wish *wish)
{
    const struct tt_globalarray *array = own;
    size_t tile_doubles = array->tile * array->tile, matrix_doubles = array->order * array->order;
    /* Each tile begins a page, so that what one thread registers is nobody else's. */
    size_t tile_bytes = (tile_doubles * sizeof(double) + PAGE - 1) / PAGE * PAGE;
    size_t global_bytes = (MATRICES * matrix_doubles * sizeof(double) + PAGE - 1) / PAGE * PAGE;
    struct row row = {.array = array,
                      .tile_doubles = tile_doubles,
                      .local_doubles = MATRICES * tile_bytes / sizeof(double),
                      .tiles = array->order / array->tile,
                      .threads = wish->threads};
    double *sums = calloc(array->order, sizeof(*sums));
    tutti_status status;

    row.global[A] = aligned_alloc(PAGE, global_bytes);
    row.local = aligned_alloc(PAGE, (size_t)wish->threads * MATRICES * tile_bytes);
    row.keys = calloc(wish->threads, sizeof(*row.keys));
    row.communication_ns = calloc(wish->threads, sizeof(*row.communication_ns));
    if (row.global[A] == NULL || row.local == NULL || row.keys == NULL || row.communication_ns == NULL ||
        sums == NULL) {
        status = tt_error_note(TUTTI_ERR_NO_MEMORY, "no memory for matrices of %" PRIu64 " rows", array->order);
    } else {
        row.global[B] = row.global[A] + matrix_doubles;
        row.global[C] = row.global[B] + matrix_doubles;
        status = run_categories(wish, &row, sums);
    }
    free(row.global[A]);
    free(row.local);
    free(row.keys);
    free(row.communication_ns);
    free(sums);
    return status;
}

static void print_json(const void *own, struct tt_json *json)
{
    const struct tt_globalarray *array = own;

    tt_json_count(json, "order", array->order);
    tt_json_count(json, "tile", array->tile);
}

const struct tt_rdma_bench tt_globalarray_bench = {
    .usage = &usage,
    .read_option = read_option,
    .check = check,
    .run = tt_globalarray_run,
    .print_json = print_json,
};

int tt_bench_globalarray(int argc, char **argv)
{
    struct tt_globalarray array = {.order = DEFAULT_ORDER, .tile = DEFAULT_TILE};

    return tt_rdma_command(&tt_globalarray_bench, &array, argc, argv);
}
