/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: the loop of `tutti bench` in one rank, written against the public API only.
 *
 * Normal path: for every size one persistent request, posted for all iterations. A round is: prepare the buffers, align
 * the ranks with an allgather of nothing, time post to wait, wait for all ranks in the same way if the buffers are
 * long, compare every byte. Counters are read directly before and after the timed part, so that they hold nothing of
 * the barriers; what they say is noted after the clock has stopped, in memory that was touched before. After a size the
 * ranks exchange their samples, counters and numbers of wrong bytes through an allgather of the library itself, and
 * rank 0 prints.
 *
 * Failures: a call that fails ends the benchmark in this rank with one line that names the rank at fault, and exit
 * status 1; sizes measured before have been printed. Wrong bytes do not end it: all sizes are measured, the first wrong
 * byte of this rank is described, and the exit status is 1.
 */
#include "cli/bench_rank.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "cli/bench_report.h"
#include "cli/bench_request.h"
#include "cli/command.h"
#include "tutti/reduction.h"
#include "tutti/tutti.h"

enum { LINE_BYTES = 2048 };

/* What the ranks exchange after a size, in 64-bit words: the time of every iteration, warm-up first, the chunks that
 * were repaired in each, then these, of the timed iterations only (but RECORD_WRONG). */
enum record_tail {
#define RECORD_COUNTER(name, help) RECORD_##name,
    TUTTI_COUNTERS_TABLE(RECORD_COUNTER)
#undef RECORD_COUNTER
        RECORD_WRONG,
    RECORD_CPU, /* ns of processor time inside the timed collectives */
    RECORD_TAIL_COUNT
};

struct bench {
    const struct tt_bench_arguments *arguments;
    tutti_context *context;
    tutti_group *group;
    tutti_request *barrier;
    tutti_request *measured;
    tutti_request *gather;
    struct tt_bench_buffers buffers;
    uint64_t factor; /* of a pre-multiplied sum, one element of any type */
    uint32_t total;  /* iterations of a size, those to warm up too */
    size_t record_words;
    uint64_t *own_record;
    /* Rank 0's, which reports; NULL elsewhere. */
    uint64_t *all_records;                       /* in the order of ranks */
    uint64_t *samples_ns;                        /* of all ranks, for sorting */
    uint64_t *iteration_ns, *iteration_repaired; /* over all ranks: the slowest one's, the sum */
    uint32_t rank;
    uint64_t timeout_ns; /* as asked for; TT_AUTO: the library's */
    uint64_t round;      /* over all sizes, so that no two rounds have the same pattern */
    bool wrong_described;
    uint64_t wrong_bytes;      /* of all sizes; at rank 0: of all ranks, too */
    tutti_algorithm algorithm; /* of the measured collective */
    struct tt_bench_report report;
};

static tutti_status report_failure(struct bench *bench, const char *what, tutti_status status)
{
    char said[LINE_BYTES / 2], sentence[LINE_BYTES];
    snprintf(said, sizeof(said), "%s", tutti_last_error()); /* until the next call of the library */
    int failed_rank = bench->group != NULL ? tutti_group_failed_rank(bench->group) : -1;
    tt_command_failure(sentence, sizeof(sentence), status, said, failed_rank, "", what);
    tt_bench_report_clear(&bench->report);
    fprintf(stderr, "tutti bench: rank %" PRIu32 ": %s\n", bench->rank, sentence);
    return status;
}

static tutti_status create_group(struct bench *bench)
{
    const struct tt_bench_arguments *arguments = bench->arguments;
    tutti_context_options options = {
        .struct_size = sizeof(options), .settings = arguments->settings, .setting_count = arguments->setting_count};
    tutti_status status = tutti_context_create(&options, &bench->context);
    if (status != TUTTI_OK) {
        return report_failure(bench, "creating the context", status);
    }
    status = tutti_group_create_from_environment(bench->context, &bench->group);
    if (status != TUTTI_OK) {
        return report_failure(bench, "creating the group", status);
    }
    bench->rank = tutti_group_rank(bench->group);
    return TUTTI_OK;
}

static tutti_status allocate(struct bench *bench)
{
    const struct tt_bench_arguments *arguments = bench->arguments;
    size_t rank_count = arguments->job.rank_count;
    bench->total = arguments->warmup + arguments->iterations;
    bench->record_words = (size_t)2 * bench->total + (size_t)RECORD_TAIL_COUNT;
    bench->own_record = calloc(bench->record_words, sizeof(uint64_t));
    if (bench->rank == 0) {
        bench->all_records = calloc(rank_count * bench->record_words, sizeof(uint64_t));
        bench->samples_ns = calloc(rank_count * arguments->iterations, sizeof(uint64_t));
        bench->iteration_ns = calloc(bench->total, sizeof(uint64_t));
        bench->iteration_repaired = calloc(bench->total, sizeof(uint64_t));
    }
    if (bench->own_record == NULL ||
        (bench->rank == 0 && (bench->all_records == NULL || bench->samples_ns == NULL || bench->iteration_ns == NULL ||
                              bench->iteration_repaired == NULL))) {
        tutti_status status = tt_error(TT_PART_CLI, TUTTI_ERR_NO_MEMORY, "%zu samples: out of memory",
                                       rank_count * arguments->iterations);
        return report_failure(bench, "allocating", status);
    }
    tutti_status status = tt_bench_buffers_init(&bench->buffers, &arguments->job, bench->rank, arguments->max_bytes);
    return status == TUTTI_OK ? status : report_failure(bench, "allocating", status);
}

static tutti_status init_requests(struct bench *bench)
{
    static uint8_t nothing[2];
    tutti_request_options barrier_options = {.struct_size = sizeof(barrier_options),
                                             .timeout_ns =
                                                 tt_bench_buffers_timeout_ns(&bench->buffers, bench->timeout_ns)};
    tutti_request_options options = {.struct_size = sizeof(options), .algorithm = bench->arguments->requested};
    tutti_status status =
        tutti_allgather_init(bench->group, &nothing[0], &nothing[1], 0, &barrier_options, &bench->barrier);
    if (status == TUTTI_OK) {
        status = tt_bench_request_init(bench->group, &bench->buffers, &bench->factor, &options, &bench->measured);
    }
    if (status == TUTTI_OK) {
        bench->algorithm = tutti_request_algorithm(bench->measured);
    }
    return status == TUTTI_OK ? status : report_failure(bench, "preparing the collective", status);
}

static tutti_status run_request(tutti_request *request)
{
    tutti_status status = tutti_post(request);
    return status == TUTTI_OK ? tutti_wait(request) : status;
}

static uint64_t *record_tail(const struct bench *bench, uint64_t *record)
{
    return record + (size_t)2 * bench->total;
}

/* Adds what happened between two readings to this rank's record. */
static void add_counters(uint64_t *tail, const tutti_counters *before, const tutti_counters *after)
{
#define ADD_COUNTER(name, help) tail[RECORD_##name] += after->name - before->name;
    TUTTI_COUNTERS_TABLE(ADD_COUNTER)
#undef ADD_COUNTER
}

static tutti_status read_counters(const struct bench *bench, tutti_counters *counters)
{
    memset(counters, 0, sizeof(*counters));
    counters->struct_size = sizeof(*counters);
    return tutti_group_counters(bench->group, counters);
}

static void describe_wrong(struct bench *bench, uint32_t iteration, const struct tt_bench_wrong *wrong)
{
    if (bench->wrong_described) {
        return; /* one is enough to begin with; the number is in the result */
    }
    bench->wrong_described = true;
    char where[LINE_BYTES / 2];
    if (strcmp(wrong->what, "canary") == 0) {
        snprintf(where, sizeof(where), "outside of a buffer");
    } else if (strcmp(wrong->what, "result") == 0) {
        snprintf(where, sizeof(where), "the result's %s", wrong->element);
    } else {
        snprintf(where, sizeof(where), "first byte %" PRIu64 " of rank %" PRIu32 "'s %s: 0x%02x instead of 0x%02x%s",
                 wrong->first.offset_bytes, wrong->rank, wrong->what, wrong->first.found, wrong->first.expected,
                 wrong->first.never_written ? " (never written)" : "");
    }
    tt_bench_report_clear(&bench->report);
    fprintf(stderr,
            "tutti bench: rank %" PRIu32 ": size %" PRIu64 ", iteration %" PRIu32 ": %" PRIu64 " wrong bytes, %s\n",
            bench->rank, bench->buffers.size_bytes, iteration, wrong->bytes, where);
}

/* Notes one round in this rank's record, after the clock has stopped. */
static void record_round(struct bench *bench, uint32_t iteration, uint64_t time_ns, uint64_t cpu_ns,
                         const tutti_counters *before, const tutti_counters *after)
{
    uint64_t *tail = record_tail(bench, bench->own_record);
    bench->own_record[iteration] = time_ns;
    bench->own_record[bench->total + iteration] = after->chunks_repaired - before->chunks_repaired;
    if (iteration >= bench->arguments->warmup) {
        tail[RECORD_CPU] += cpu_ns;
        add_counters(tail, before, after);
    }
}

/* One round, of which the first ones are to warm up. */
static tutti_status run_round(struct bench *bench, uint32_t iteration)
{
    tutti_counters before, after;
    tt_bench_buffers_prepare(&bench->buffers, bench->round);
    tutti_status status = run_request(bench->barrier);
    if (status == TUTTI_OK) {
        status = read_counters(bench, &before);
    }
    if (status != TUTTI_OK) {
        return report_failure(bench, "aligning the ranks", status);
    }
    uint64_t cpu_begun_ns = tt_clock_cpu_ns();
    uint64_t begun_ns = tt_clock_now_ns();
    status = run_request(bench->measured);
    uint64_t ended_ns = tt_clock_now_ns();
    uint64_t cpu_ended_ns = tt_clock_cpu_ns();
    if (status == TUTTI_OK) {
        status = read_counters(bench, &after);
    }
    if (status != TUTTI_OK) {
        return report_failure(bench, tt_bench_collective_row(bench->arguments->job.collective)->name, status);
    }
    record_round(bench, iteration, ended_ns - begun_ns, cpu_ended_ns - cpu_begun_ns, &before, &after);
    if (tt_bench_buffers_are_long(&bench->buffers)) {
        status = run_request(bench->barrier);
    }
    if (status != TUTTI_OK) {
        return report_failure(bench, "waiting for all ranks", status);
    }
    struct tt_bench_wrong wrong;
    tt_bench_buffers_check(&bench->buffers, bench->round, &wrong);
    if (wrong.bytes > 0) {
        describe_wrong(bench, iteration, &wrong);
        record_tail(bench, bench->own_record)[RECORD_WRONG] += wrong.bytes;
    }
    bench->round++;
    return TUTTI_OK;
}

static void finalize(tutti_request **request)
{
    /* After an error that left it in progress the request goes with the process. */
    tutti_finalize(*request);
    *request = NULL;
}

static tutti_status measure(struct bench *bench, uint64_t size_bytes)
{
    memset(bench->own_record, 0, bench->record_words * sizeof(uint64_t));
    tt_bench_buffers_resize(&bench->buffers, size_bytes);
    tutti_status status = init_requests(bench);
    for (uint32_t i = 0; i < bench->total && status == TUTTI_OK; i++) {
        status = run_round(bench, i);
        if (bench->rank == 0) {
            tt_bench_report_progress(&bench->report, size_bytes, i + 1, bench->total, tt_clock_now_ns());
        }
    }
    finalize(&bench->measured);
    finalize(&bench->barrier);
    return status;
}

/* Over all ranks: the slowest one's time in each iteration, and the chunks repaired in it. */
static void summarize_iterations(const struct bench *bench)
{
    for (uint32_t i = 0; i < bench->total; i++) {
        uint64_t slowest_ns = 0, repaired = 0;
        for (size_t rank = 0; rank < bench->arguments->job.rank_count; rank++) {
            const uint64_t *record = bench->all_records + rank * bench->record_words;
            slowest_ns = record[i] > slowest_ns ? record[i] : slowest_ns;
            repaired += record[bench->total + i];
        }
        bench->iteration_ns[i] = slowest_ns;
        bench->iteration_repaired[i] = repaired;
    }
}

/* The median over the timed iterations of the slowest rank's time. */
static double slowest_ns(const struct bench *bench)
{
    uint32_t iterations = bench->arguments->iterations;
    struct tt_statistics statistics;
    memcpy(bench->samples_ns, bench->iteration_ns + bench->arguments->warmup, iterations * sizeof(uint64_t));
    tt_statistics_compute(bench->samples_ns, iterations, &statistics);
    return statistics.median_ns;
}

/* Sums up the records of all ranks. */
static void summarize(const struct bench *bench, struct tt_bench_result *result)
{
    uint32_t iterations = bench->arguments->iterations;
    uint32_t rank_count = bench->arguments->job.rank_count;
    summarize_iterations(bench);
    memset(result, 0, sizeof(*result));
    result->size_bytes = bench->buffers.size_bytes;
    result->iterations = iterations;
    result->algorithm = bench->algorithm;
    result->slowest_ns = slowest_ns(bench);
    result->iteration_count = bench->total;
    result->iteration_ns = bench->iteration_ns;
    result->iteration_repaired = bench->iteration_repaired;
    for (size_t rank = 0; rank < rank_count; rank++) {
        uint64_t *record = bench->all_records + rank * bench->record_words;
        const uint64_t *tail = record_tail(bench, record);
        memcpy(bench->samples_ns + rank * iterations, record + bench->arguments->warmup, iterations * sizeof(uint64_t));
        result->wrong_bytes += tail[RECORD_WRONG];
        result->cpu_ns += tail[RECORD_CPU];
#define SUM_COUNTER(name, help) result->counters.name += tail[RECORD_##name];
        TUTTI_COUNTERS_TABLE(SUM_COUNTER)
#undef SUM_COUNTER
    }
    tt_statistics_compute(bench->samples_ns, (size_t)rank_count * iterations, &result->time);
}

static tutti_status measure_all(struct bench *bench)
{
    uint64_t size_bytes = bench->arguments->min_bytes;
    do {
        tutti_status status = measure(bench, size_bytes);
        if (status != TUTTI_OK) {
            return status;
        }
        status = run_request(bench->gather);
        if (status != TUTTI_OK) {
            return report_failure(bench, "gathering the samples", status);
        }
        if (bench->rank == 0) {
            struct tt_bench_result result;
            summarize(bench, &result);
            bench->wrong_bytes += result.wrong_bytes;
            tt_bench_report_row(&bench->report, &result);
        } else {
            bench->wrong_bytes += record_tail(bench, bench->own_record)[RECORD_WRONG];
        }
    } while (tt_bench_next_size(bench->arguments, &size_bytes));
    return TUTTI_OK;
}

static tutti_status run(struct bench *bench)
{
    tutti_status status = create_group(bench);
    if (status == TUTTI_OK) {
        status = allocate(bench);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    tt_bench_buffers_resize(&bench->buffers, bench->arguments->max_bytes); /* one for all sizes */
    tutti_request_options options = {.struct_size = sizeof(options),
                                     .timeout_ns = tt_bench_buffers_timeout_ns(&bench->buffers, bench->timeout_ns)};
    status = tutti_gather_init(bench->group, bench->own_record, bench->all_records,
                               bench->record_words * sizeof(uint64_t), 0, &options, &bench->gather);
    tutti_group_info info = {.struct_size = sizeof(info)};
    if (status == TUTTI_OK) {
        status = tutti_group_query(bench->group, &info);
    }
    if (status != TUTTI_OK) {
        return report_failure(bench, "preparing the benchmark", status);
    }
    if (bench->rank == 0) {
        tt_bench_report_begin(&bench->report, bench->arguments, &info, stdout, isatty(STDERR_FILENO) == 1);
    }
    status = measure_all(bench);
    if (bench->rank == 0) {
        tt_bench_report_end(&bench->report);
    }
    return status;
}

int tt_bench_rank(const struct tt_bench_arguments *arguments, const struct tt_settings *settings)
{
    struct bench bench = {.arguments = arguments,
                          .rank = settings->rank == TT_AUTO ? 0 : (uint32_t)settings->rank,
                          .timeout_ns = arguments->timeout_ns};
    tutti_status status = run(&bench);
    finalize(&bench.gather);
    tutti_group_destroy(bench.group);
    tutti_context_destroy(bench.context);
    tt_bench_buffers_fini(&bench.buffers);
    free(bench.iteration_repaired);
    free(bench.iteration_ns);
    free(bench.samples_ns);
    free(bench.all_records);
    free(bench.own_record);
    return status == TUTTI_OK && bench.wrong_bytes == 0 ? TT_EXIT_OK : TT_EXIT_FAILED;
}
