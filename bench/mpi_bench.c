/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: the loop of `tutti bench` around an MPI library's collectives, so that both are measured alike: the same
 * sizes, buffers, patterns, elements and check of every result (they are the program's own code), a barrier before each
 * iteration, and after it if the buffers are long, time and processor time taken around the collective.
 *
 * Normal path: for every size the warm-up and timed rounds, then the samples of all ranks meet at rank 0, which prints
 * one JSON object a line with the names that `tutti bench --json` uses. "slowest" is the median over iterations of the
 * slowest rank's time.
 *
 * Failures: what MPI cannot do ends the job, as MPI's default is. A command line that makes no sense is reported by
 * rank 0, exit status 2. Wrong bytes are counted, and make the exit status 1.
 */
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/settings.h"
#include "cli/bench_buffers.h"
#include "cli/bench_statistics.h"
#include "cli/command.h"
#include "cli/json.h"
#include "offload/reduce.h"

struct arguments {
    struct tt_bench_job job;
    uint64_t min_bytes;
    uint64_t max_bytes;
    uint64_t factor;
    uint64_t iterations;
    uint64_t warmup;
};

struct bench {
    struct arguments arguments;
    struct tt_bench_buffers buffers;
    MPI_Datatype element; /* and operation: of what is reduced */
    MPI_Op operation;
    char library[MPI_MAX_LIBRARY_VERSION_STRING]; /* its name and version */
    int rank;
    uint64_t *samples_ns; /* of this rank */
    uint64_t *all_ns;     /* at rank 0: of all ranks, in their order */
    uint64_t *slowest_ns; /* at rank 0: of each iteration */
    uint64_t round;       /* over all sizes, so that no two rounds have the same pattern */
};

/* What a size has cost and spoilt, to be summed over ranks. */
struct sums {
    uint64_t cpu_ns;
    uint64_t wrong_bytes;
};

enum { ITERATION_LIMIT = 1000000 /* rank 0 keeps all samples of all ranks */ };

enum { SUMS_WORDS = sizeof(struct sums) / sizeof(uint64_t) };

/* MPI's names of what is reduced; MPI_DATATYPE_NULL and MPI_OP_NULL for what it has not. */
static MPI_Datatype datatype_of(enum tt_type type)
{
    switch (type) {
    case TT_TYPE_INT8:
        return MPI_INT8_T;
    case TT_TYPE_INT16:
        return MPI_INT16_T;
    case TT_TYPE_INT32:
        return MPI_INT32_T;
    case TT_TYPE_INT64:
        return MPI_INT64_T;
    case TT_TYPE_UINT8:
        return MPI_UINT8_T;
    case TT_TYPE_UINT16:
        return MPI_UINT16_T;
    case TT_TYPE_UINT32:
        return MPI_UINT32_T;
    case TT_TYPE_UINT64:
        return MPI_UINT64_T;
    case TT_TYPE_FP32:
        return MPI_FLOAT;
    case TT_TYPE_FP64:
        return MPI_DOUBLE;
    default:
        return MPI_DATATYPE_NULL;
    }
}

static MPI_Op operation_of(enum tt_reduce_operation operation)
{
    switch (operation) {
    case TT_REDUCE_SUM:
        return MPI_SUM;
    case TT_REDUCE_PRODUCT:
        return MPI_PROD;
    case TT_REDUCE_MIN:
        return MPI_MIN;
    case TT_REDUCE_MAX:
        return MPI_MAX;
    case TT_REDUCE_AND:
        return MPI_BAND;
    case TT_REDUCE_OR:
        return MPI_BOR;
    case TT_REDUCE_XOR:
        return MPI_BXOR;
    default:
        return MPI_OP_NULL;
    }
}

static void run_reduction(const struct bench *bench)
{
    const struct tt_bench_buffers *buffers = &bench->buffers;
    MPI_Datatype element = bench->element;
    int count = (int)(buffers->block_bytes / buffers->results.elements.element_bytes);
    switch (buffers->job.collective) {
    case TT_BENCH_REDUCE:
        MPI_Reduce(buffers->send, buffers->receive, count, element, bench->operation, (int)buffers->job.root,
                   MPI_COMM_WORLD);
        break;
    case TT_BENCH_ALLREDUCE:
        MPI_Allreduce(buffers->send, buffers->receive, count, element, bench->operation, MPI_COMM_WORLD);
        break;
    default:
        MPI_Reduce_scatter_block(buffers->send, buffers->receive, count, element, bench->operation, MPI_COMM_WORLD);
        break;
    }
}

static void run_collective(const struct bench *bench)
{
    const struct tt_bench_buffers *buffers = &bench->buffers;
    const uint8_t *send = buffers->send;
    uint8_t *receive = buffers->receive;
    int count = (int)buffers->block_bytes;
    int root = (int)buffers->job.root;
    switch (buffers->job.collective) {
    case TT_BENCH_BARRIER:
        MPI_Barrier(MPI_COMM_WORLD);
        break;
    case TT_BENCH_BROADCAST:
        MPI_Bcast(receive, count, MPI_BYTE, root, MPI_COMM_WORLD);
        break;
    case TT_BENCH_ALLGATHER:
        MPI_Allgather(send, count, MPI_BYTE, receive, count, MPI_BYTE, MPI_COMM_WORLD);
        break;
    case TT_BENCH_GATHER:
        MPI_Gather(send, count, MPI_BYTE, receive, count, MPI_BYTE, root, MPI_COMM_WORLD);
        break;
    case TT_BENCH_SCATTER:
        MPI_Scatter(send, count, MPI_BYTE, receive, count, MPI_BYTE, root, MPI_COMM_WORLD);
        break;
    default:
        run_reduction(bench);
        break;
    }
}

/* `sample_ns` is NULL while warming up. */
static void run_round(struct bench *bench, uint64_t *sample_ns, struct sums *sums)
{
    tt_bench_buffers_prepare(&bench->buffers, bench->round);
    MPI_Barrier(MPI_COMM_WORLD);
    uint64_t cpu_begun_ns = tt_clock_cpu_ns();
    uint64_t begun_ns = tt_clock_now_ns();
    run_collective(bench);
    uint64_t ended_ns = tt_clock_now_ns();
    uint64_t cpu_ended_ns = tt_clock_cpu_ns();
    if (sample_ns != NULL) {
        *sample_ns = ended_ns - begun_ns;
        sums->cpu_ns += cpu_ended_ns - cpu_begun_ns;
    }
    if (tt_bench_buffers_are_long(&bench->buffers)) {
        MPI_Barrier(MPI_COMM_WORLD);
    }
    struct tt_bench_wrong wrong;
    tt_bench_buffers_check(&bench->buffers, bench->round, &wrong);
    sums->wrong_bytes += wrong.bytes;
    bench->round++;
}

static void print_row(const struct bench *bench, const struct tt_statistics *time, double slowest_ns,
                      const struct sums *sums)
{
    const struct arguments *arguments = &bench->arguments;
    const struct tt_bench_job *job = &arguments->job;
    const struct tt_bench_collective_row *row = tt_bench_collective_row(job->collective);
    uint64_t size_bytes = bench->buffers.size_bytes;
    double algbw = tt_algorithm_bandwidth(job->collective, job->rank_count, size_bytes, time->median_ns);
    struct tt_json json;
    tt_json_init(&json, stdout);
    tt_json_begin_object(&json, NULL);
    tt_json_text(&json, "collective", row->name);
    tt_json_text(&json, "library", bench->library);
    tt_json_count(&json, "ranks", job->rank_count);
    if (row->has_root) {
        tt_json_count(&json, "root", job->root);
    }
    if (row->reduces) {
        tt_json_text(&json, "type", tt_type_row(job->type)->name);
        tt_json_text(&json, "operation", tt_reduce_operation_row(job->operation)->name);
    }
    tt_json_count(&json, "size_bytes", size_bytes);
    tt_json_count(&json, "iterations", arguments->iterations);
    tt_json_count(&json, "warmup", arguments->warmup);
    tt_json_begin_object(&json, "time_us");
    tt_json_number(&json, "min", time->min_ns / 1e3);
    tt_json_number(&json, "median", time->median_ns / 1e3);
    tt_json_number(&json, "mean", time->mean_ns / 1e3);
    tt_json_number(&json, "max", time->max_ns / 1e3);
    tt_json_number(&json, "slowest", slowest_ns / 1e3);
    tt_json_end_object(&json);
    tt_json_number(&json, "cpu_s", (double)sums->cpu_ns / 1e9);
    tt_json_number(&json, "algbw_GBps", algbw);
    tt_json_number(&json, "busbw_GBps", tt_bus_bandwidth(job->collective, job->rank_count, algbw));
    tt_json_count(&json, "wrong", sums->wrong_bytes);
    tt_json_end_object(&json);
    fflush(stdout);
}

/* Returns the wrong bytes of all ranks; the same at every rank. */
static uint64_t measure(struct bench *bench, uint64_t size_bytes)
{
    const struct arguments *arguments = &bench->arguments;
    int iterations = (int)arguments->iterations;
    struct sums own = {0};
    struct sums all = {0};
    tt_bench_buffers_resize(&bench->buffers, size_bytes);
    for (uint32_t i = 0; i < arguments->warmup; i++) {
        run_round(bench, NULL, &own);
    }
    for (uint32_t i = 0; i < arguments->iterations; i++) {
        run_round(bench, &bench->samples_ns[i], &own);
    }
    MPI_Allreduce(&own, &all, SUMS_WORDS, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    MPI_Reduce(bench->samples_ns, bench->slowest_ns, iterations, MPI_UINT64_T, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Gather(bench->samples_ns, iterations, MPI_UINT64_T, bench->all_ns, iterations, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    if (bench->rank == 0) {
        struct tt_statistics time;
        struct tt_statistics slowest;
        tt_statistics_compute(bench->all_ns, (size_t)arguments->job.rank_count * arguments->iterations, &time);
        tt_statistics_compute(bench->slowest_ns, arguments->iterations, &slowest);
        print_row(bench, &time, slowest.median_ns, &all);
    }
    return all.wrong_bytes;
}

/* The size that follows, as `tutti bench` goes on: times the factor, 1 after 0. False behind the last. */
static bool next_size(const struct arguments *arguments, uint64_t *size_bytes)
{
    uint64_t size = *size_bytes == 0 ? 1 : *size_bytes * arguments->factor; /* both are below 2^31 */
    if (size > arguments->max_bytes) {
        return false;
    }
    *size_bytes = size;
    return true;
}

static void *allocate_samples(size_t count)
{
    void *samples = calloc(count, sizeof(uint64_t));
    if (samples == NULL) {
        fprintf(stderr, "mpi_bench: %zu samples: out of memory\n", count);
        MPI_Abort(MPI_COMM_WORLD, TT_EXIT_FAILED);
    }
    return samples;
}

static int measure_all(struct bench *bench)
{
    const struct arguments *arguments = &bench->arguments;
    uint64_t wrong_bytes = 0;
    if (tt_bench_buffers_init(&bench->buffers, &arguments->job, (uint32_t)bench->rank, arguments->max_bytes) !=
        TUTTI_OK) {
        fprintf(stderr, "mpi_bench: rank %d: no memory for blocks of %" PRIu64 " bytes\n", bench->rank,
                arguments->max_bytes);
        MPI_Abort(MPI_COMM_WORLD, TT_EXIT_FAILED);
    }
    bench->samples_ns = allocate_samples(arguments->iterations);
    bench->slowest_ns = allocate_samples(arguments->iterations);
    bench->all_ns = allocate_samples((size_t)arguments->job.rank_count * arguments->iterations);
    uint64_t size_bytes = arguments->min_bytes;
    do {
        wrong_bytes += measure(bench, size_bytes);
    } while (next_size(arguments, &size_bytes));
    free(bench->all_ns);
    free(bench->slowest_ns);
    free(bench->samples_ns);
    tt_bench_buffers_fini(&bench->buffers);
    if (wrong_bytes > 0 && bench->rank == 0) {
        fprintf(stderr, "mpi_bench: %" PRIu64 " wrong bytes\n", wrong_bytes);
    }
    return wrong_bytes == 0 ? TT_EXIT_OK : TT_EXIT_FAILED;
}

/* Of an option; rank 0 speaks for all, which have the same command line. */
static bool misuse(const struct bench *bench, const char *option, const char *text, const char *why)
{
    if (bench->rank == 0) {
        fprintf(stderr, "mpi_bench: %s '%s': %s\n", option, text, why);
    }
    return false;
}

static bool parse_option(struct bench *bench, int option, const char *text)
{
    struct arguments *arguments = &bench->arguments;
    uint64_t root = 0;
    switch (option) {
    case 'b':
        return tt_parse_size(text, &arguments->min_bytes) == TUTTI_OK || misuse(bench, "-b", text, "not a size");
    case 'e':
        return (tt_parse_size(text, &arguments->max_bytes) == TUTTI_OK && arguments->max_bytes <= INT_MAX) ||
               misuse(bench, "-e", text, "not a size that an MPI count holds");
    case 'f':
        return (tt_parse_count(text, &arguments->factor) == TUTTI_OK && arguments->factor >= 2 &&
                arguments->factor <= INT_MAX) ||
               misuse(bench, "-f", text, "not a number from 2 on");
    case 'i':
        return (tt_parse_count(text, &arguments->iterations) == TUTTI_OK && arguments->iterations >= 1 &&
                arguments->iterations <= ITERATION_LIMIT) ||
               misuse(bench, "-i", text, "not a number from 1 to 1000000");
    case 'w':
        return (tt_parse_count(text, &arguments->warmup) == TUTTI_OK && arguments->warmup <= ITERATION_LIMIT) ||
               misuse(bench, "-w", text, "not a number from 0 to 1000000");
    case 'r':
        if (tt_parse_count(text, &root) != TUTTI_OK || root >= arguments->job.rank_count) {
            return misuse(bench, "-r", text, "no such rank");
        }
        arguments->job.root = (uint32_t)root;
        return true;
    case 't':
        return (tt_type_parse(text, &arguments->job.type) == TUTTI_OK &&
                datatype_of(arguments->job.type) != MPI_DATATYPE_NULL) ||
               misuse(bench, "--type", text, "not a type that MPI has");
    case 'o':
        return (tt_reduce_operation_parse(text, &arguments->job.operation) == TUTTI_OK &&
                operation_of(arguments->job.operation) != MPI_OP_NULL) ||
               misuse(bench, "--operation", text, "not an operation that MPI has");
    default:
        return misuse(bench, "usage",
                      "COLLECTIVE [-b MIN] [-e MAX] [-f FACTOR] [-i ITERATIONS] [-w WARMUP] [-r ROOT] [--type TYPE] "
                      "[--operation OPERATION]",
                      "is what there is");
    }
}

/* The collective, and what needs it. */
static bool settle(struct bench *bench, const char *collective)
{
    struct arguments *arguments = &bench->arguments;
    struct tt_bench_job *job = &arguments->job;
    if (!tt_bench_collective_parse(collective, &job->collective)) {
        return misuse(bench, "collective", collective, "none there is, or not alone");
    }
    if (arguments->min_bytes > arguments->max_bytes) {
        return misuse(bench, "-b and -e", "", "the smallest size is more than the largest");
    }
    if (job->collective == TT_BENCH_BARRIER) {
        arguments->min_bytes = arguments->max_bytes = 0;
    }
    if (tt_bench_collective_row(job->collective)->reduces &&
        tt_reduce_supported(job->type, job->operation) != TUTTI_OK) {
        return misuse(bench, "--operation", tt_reduce_operation_row(job->operation)->name, "not of this type");
    }
    bench->element = datatype_of(job->type);
    bench->operation = operation_of(job->operation);
    return true;
}

static bool parse_arguments(struct bench *bench, int argc, char **argv)
{
    static const struct option long_options[] = {
        {"type", required_argument, NULL, 't'}, {"operation", required_argument, NULL, 'o'}, {0}};
    int option;
    opterr = 0;
    while ((option = getopt_long(argc, argv, "b:e:f:i:w:r:", long_options, NULL)) >= 0) {
        if (!parse_option(bench, option, optarg)) {
            return false;
        }
    }
    return settle(bench, optind + 1 == argc ? argv[optind] : "");
}

/* "Open MPI v4.1.4", "MPICH 4.0.2": up to where the library says how it was built. */
static void name_library(char *library)
{
    static const char label[] = "Version:\t";
    int length;
    MPI_Get_library_version(library, &length);
    library[strcspn(library, ",\n")] = '\0';
    char *found = strstr(library, label);
    if (found != NULL) {
        memmove(found, found + strlen(label), strlen(found + strlen(label)) + 1);
    }
}

static int run(struct bench *bench, int argc, char **argv)
{
    int size;
    MPI_Comm_rank(MPI_COMM_WORLD, &bench->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    name_library(bench->library);
    bench->arguments.job.rank_count = (uint32_t)size;
    return parse_arguments(bench, argc, argv) ? measure_all(bench) : TT_EXIT_USAGE;
}

/*
 * MPICH 4.0 over UCX closes connections in MPI_Finalize while peers that have none left sleep in the process manager
 * and answer no more, so that it seldom comes back with 8 ranks on few cores. All results are out: end without it.
 */
static void leave(int status)
{
    fflush(NULL);
#ifdef MPICH
    uint64_t until_ns = tt_clock_now_ns() + 50 * TT_NS_PER_MS; /* for what is under way to peers */
    MPI_Barrier(MPI_COMM_WORLD);
    while (tt_clock_now_ns() < until_ns) {
        int found;
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
    }
    _exit(status);
#else
    MPI_Finalize();
    exit(status);
#endif
}

int main(int argc, char **argv)
{
    struct bench bench = {.arguments = {.job = {.type = TT_TYPE_FP32, .operation = TT_REDUCE_SUM},
                                        .min_bytes = UINT64_C(64) << 10,
                                        .max_bytes = UINT64_C(16) << 20,
                                        .factor = 2,
                                        .iterations = 20,
                                        .warmup = 5}};
    MPI_Init(&argc, &argv);
    leave(run(&bench, argc, argv));
}
