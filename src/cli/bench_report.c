/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: the figures of a benchmark, for people and for programs.
 *
 * Normal path: begin, a row for every size as soon as it is measured, end. A row's bandwidths follow from its median
 * time. Bytes on the wire are sums over ranks and timed iterations in JSON, and in the table the mean of one rank in
 * one iteration, to be compared with the size at a glance.
 *
 * Failures: none here; standard output remembers its errors for tt_command_finish().
 */
#include "cli/bench_report.h"

#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "cli/json.h"
#include "cli/table.h"

#define PROGRESS_AFTER_NS    (1 * TT_NS_PER_S)
#define PROGRESS_INTERVAL_NS (200 * TT_NS_PER_MS)

enum column {
    COLUMN_SIZE,
    COLUMN_ITERATIONS,
    COLUMN_ALGORITHM,
    COLUMN_MIN,
    COLUMN_MEDIAN,
    COLUMN_SLOWEST,
    COLUMN_MAX,
    COLUMN_FIRST,
    COLUMN_ALGBW,
    COLUMN_BUSBW,
    COLUMN_SENT,
    COLUMN_RECEIVED,
    COLUMN_REPAIRED,
    COLUMN_WRONG,
    COLUMN_COUNT
};

static const struct tt_column columns[COLUMN_COUNT] = {
    [COLUMN_SIZE] = {"size", "B", 11, false},
    [COLUMN_ITERATIONS] = {"iter", NULL, 4, false},
    [COLUMN_ALGORITHM] = {"algorithm", NULL, 17, true},
    [COLUMN_MIN] = {"min", "us", 8, false},
    [COLUMN_MEDIAN] = {"median", "us", 8, false},
    [COLUMN_SLOWEST] = {"slowest", "us", 8, false},
    [COLUMN_MAX] = {"max", "us", 8, false},
    [COLUMN_FIRST] = {"first", "us", 8, false},
    [COLUMN_ALGBW] = {"algbw", "GB/s", 7, false},
    [COLUMN_BUSBW] = {"busbw", "GB/s", 7, false},
    [COLUMN_SENT] = {"sent", "B/rank", 10, false},
    [COLUMN_RECEIVED] = {"received", "B/rank", 10, false},
    [COLUMN_REPAIRED] = {"repaired", "chunks", 8, false},
    [COLUMN_WRONG] = {"#wrong", NULL, 6, false},
};

static uint64_t wire_sent(const tutti_counters *counters)
{
    return counters->mcast_bytes_sent + counters->p2p_bytes_sent;
}

static uint64_t wire_received(const tutti_counters *counters)
{
    return counters->mcast_bytes_received + counters->p2p_bytes_received;
}

/* What the collective's name does not say. */
static void print_job(FILE *stream, const struct tt_bench_job *job)
{
    const struct tt_bench_collective_row *row = tt_bench_collective_row(job->collective);
    if (row->has_root) {
        fprintf(stream, "# root %" PRIu32 "\n", job->root);
    }
    if (row->reduces) {
        fprintf(stream, "# %s of %s\n", tt_reduce_operation_row(job->operation)->name, tt_type_row(job->type)->name);
    }
    if (job->in_place) {
        fprintf(stream, "# in place\n");
    }
}

static void print_heading(const struct tt_bench_report *report)
{
    const struct tt_bench_arguments *arguments = report->arguments;
    const tutti_group_info *info = &report->info;
    FILE *stream = report->stream;
    fprintf(stream,
            "# tutti %d.%d.%d %s: %" PRIu32 " ranks (%" PRIu32 " on this host), %" PRIu32 " iterations after %" PRIu32
            " to warm up\n",
            TUTTI_VERSION_MAJOR, TUTTI_VERSION_MINOR, TUTTI_VERSION_PATCH,
            tt_bench_collective_row(arguments->job.collective)->name, arguments->job.rank_count, info->local_ranks,
            arguments->iterations, arguments->warmup);
    fprintf(stream,
            "# interface %s, multicast %s, point to point %s, %" PRIu32 " B chunks, %" PRIu32 " subgroups, %" PRIu32
            " chains, %" PRIu32 " workers, endpoints %s\n",
            info->interface, info->mcast_provider, info->p2p_provider, info->chunk_bytes, info->subgroups, info->chains,
            info->workers, info->endpoints);
    print_job(stream, &arguments->job);
    if (arguments->loss_ppm > 0) {
        fprintf(stream, "# %g %% of the received chunks are dropped on purpose\n", arguments->loss_ppm / 1e4);
    }
    fprintf(stream,
            "# time over all ranks and iterations; slowest: median of the slowest rank's; first: the slowest rank's in "
            "the very first iteration\n"
            "# bandwidths from the median; sent and received: mean of a rank and iteration\n");
    tt_table_heading(stream, columns, COLUMN_COUNT);
    fflush(stream);
}

void tt_bench_report_begin(struct tt_bench_report *report, const struct tt_bench_arguments *arguments,
                           const tutti_group_info *info, FILE *stream, bool shows_progress)
{
    memset(report, 0, sizeof(*report));
    report->arguments = arguments;
    report->info = *info;
    report->stream = stream;
    report->shows_progress = shows_progress;
    report->begun_ns = tt_clock_now_ns();
    if (!arguments->json) {
        print_heading(report);
    }
}

static void print_table_row(const struct tt_bench_report *report, const struct tt_bench_result *result, double algbw,
                            double busbw)
{
    char text[COLUMN_COUNT][TT_CELL_BYTES];
    const char *cells[COLUMN_COUNT];
    double rounds = (double)report->arguments->job.rank_count * result->iterations;
    bool is_barrier = report->arguments->job.collective == TT_BENCH_BARRIER;
    cells[COLUMN_SIZE] = is_barrier ? "-" : tt_cell_count(text[COLUMN_SIZE], result->size_bytes);
    cells[COLUMN_ITERATIONS] = tt_cell_count(text[COLUMN_ITERATIONS], result->iterations);
    cells[COLUMN_ALGORITHM] = tt_algorithm_name((enum tt_algorithm)result->algorithm);
    cells[COLUMN_MIN] = tt_cell_fixed(text[COLUMN_MIN], result->time.min_ns / 1e3);
    cells[COLUMN_MEDIAN] = tt_cell_fixed(text[COLUMN_MEDIAN], result->time.median_ns / 1e3);
    cells[COLUMN_SLOWEST] = tt_cell_fixed(text[COLUMN_SLOWEST], result->slowest_ns / 1e3);
    cells[COLUMN_MAX] = tt_cell_fixed(text[COLUMN_MAX], result->time.max_ns / 1e3);
    cells[COLUMN_FIRST] = tt_cell_fixed(text[COLUMN_FIRST], (double)result->iteration_ns[0] / 1e3);
    cells[COLUMN_ALGBW] = is_barrier ? "-" : tt_cell_fixed(text[COLUMN_ALGBW], algbw);
    cells[COLUMN_BUSBW] = is_barrier ? "-" : tt_cell_fixed(text[COLUMN_BUSBW], busbw);
    cells[COLUMN_SENT] =
        tt_cell_count(text[COLUMN_SENT], (uint64_t)((double)wire_sent(&result->counters) / rounds + 0.5));
    cells[COLUMN_RECEIVED] =
        tt_cell_count(text[COLUMN_RECEIVED], (uint64_t)((double)wire_received(&result->counters) / rounds + 0.5));
    cells[COLUMN_REPAIRED] = tt_cell_count(text[COLUMN_REPAIRED], result->counters.chunks_repaired);
    cells[COLUMN_WRONG] = tt_cell_count(text[COLUMN_WRONG], result->wrong_bytes);
    tt_table_row(report->stream, columns, COLUMN_COUNT, cells);
    fflush(report->stream);
}

static void print_json_setup(struct tt_json *json, const struct tt_bench_report *report)
{
    const tutti_group_info *info = &report->info;
    tt_json_text(json, "interface", info->interface);
    tt_json_text(json, "mcast_provider", info->mcast_provider);
    tt_json_text(json, "p2p_provider", info->p2p_provider);
    tt_json_flag(json, "multicast", info->multicast);
    tt_json_count(json, "local_ranks", info->local_ranks);
    tt_json_count(json, "chunk_bytes", info->chunk_bytes);
    tt_json_count(json, "subgroups", info->subgroups);
    tt_json_count(json, "chains", info->chains);
    tt_json_count(json, "workers", info->workers);
    tt_json_text(json, "endpoints", info->endpoints);
    tt_json_number(json, "loss_percent", report->arguments->loss_ppm / 1e4);
}

/* Iteration by iteration. The chunks expected in one are those that each of the timed ones has brought. */
static void print_json_iterations(struct tt_json *json, const struct tt_bench_result *result)
{
    const uint64_t chunks = result->counters.chunks_multicast + result->counters.chunks_repaired;
    const uint32_t count = result->iteration_count;
    tt_json_number(json, "first_us", (double)result->iteration_ns[0] / 1e3);
    tt_json_count(json, "chunks_expected", (chunks + result->iterations / 2) / result->iterations);
    tt_json_count(json, "first_repaired", result->iteration_repaired[0]);
    tt_json_count(json, "last_repaired", result->iteration_repaired[count - 1]);
    tt_json_begin_array(json, "iteration_us");
    for (uint32_t i = 0; i < count; i++) {
        tt_json_number(json, NULL, (double)result->iteration_ns[i] / 1e3);
    }
    tt_json_end_array(json);
    tt_json_begin_array(json, "iteration_repaired");
    for (uint32_t i = 0; i < count; i++) {
        tt_json_count(json, NULL, result->iteration_repaired[i]);
    }
    tt_json_end_array(json);
}

static void print_json_row(const struct tt_bench_report *report, const struct tt_bench_result *result, double algbw,
                           double busbw)
{
    const tutti_counters *counters = &result->counters;
    const struct tt_bench_arguments *arguments = report->arguments;
    const struct tt_bench_job *job = &arguments->job;
    const struct tt_bench_collective_row *row = tt_bench_collective_row(job->collective);
    struct tt_json json;
    tt_json_init(&json, report->stream);
    tt_json_begin_object(&json, NULL);
    tt_json_text(&json, "collective", row->name);
    tt_json_text(&json, "algorithm", tt_algorithm_name((enum tt_algorithm)result->algorithm));
    tt_json_count(&json, "ranks", job->rank_count);
    if (row->has_root) {
        tt_json_count(&json, "root", job->root);
    }
    if (row->reduces) {
        tt_json_text(&json, "type", tt_type_row(job->type)->name);
        tt_json_text(&json, "operation", tt_reduce_operation_row(job->operation)->name);
    }
    tt_json_count(&json, "size_bytes", result->size_bytes);
    tt_json_count(&json, "iterations", result->iterations);
    tt_json_count(&json, "warmup", arguments->warmup);
    tt_json_flag(&json, "in_place", job->in_place || row->is_sourced_in_place);
    tt_json_begin_object(&json, "time_us");
    tt_json_number(&json, "min", result->time.min_ns / 1e3);
    tt_json_number(&json, "median", result->time.median_ns / 1e3);
    tt_json_number(&json, "mean", result->time.mean_ns / 1e3);
    tt_json_number(&json, "max", result->time.max_ns / 1e3);
    tt_json_number(&json, "slowest", result->slowest_ns / 1e3);
    tt_json_end_object(&json);
    tt_json_number(&json, "cpu_s", (double)result->cpu_ns / 1e9);
    tt_json_number(&json, "algbw_GBps", algbw);
    tt_json_number(&json, "busbw_GBps", busbw);
    tt_json_count(&json, "wire_sent_bytes", wire_sent(counters));
    tt_json_count(&json, "wire_received_bytes", wire_received(counters));
    tt_json_count(&json, "chunks_multicast", counters->chunks_multicast);
    tt_json_count(&json, "chunks_repaired", counters->chunks_repaired);
    tt_json_count(&json, "wrong", result->wrong_bytes);
    print_json_iterations(&json, result);
    print_json_setup(&json, report);
    tt_json_begin_object(&json, "counters");
#define JSON_COUNTER(name, help) tt_json_count(&json, #name, counters->name);
    TUTTI_COUNTERS_TABLE(JSON_COUNTER)
#undef JSON_COUNTER
    tt_json_end_object(&json);
    tt_json_end_object(&json);
}

void tt_bench_report_row(struct tt_bench_report *report, const struct tt_bench_result *result)
{
    const struct tt_bench_arguments *arguments = report->arguments;
    const struct tt_bench_job *job = &arguments->job;
    double algbw = tt_algorithm_bandwidth(job->collective, job->rank_count, result->size_bytes, result->time.median_ns);
    double busbw = tt_bus_bandwidth(job->collective, job->rank_count, algbw);
    tt_bench_report_clear(report);
    if (arguments->json) {
        print_json_row(report, result, algbw, busbw);
    } else {
        print_table_row(report, result, algbw, busbw);
    }
    report->wrong_bytes += result->wrong_bytes;
    report->bus_bandwidth_sum += busbw;
    report->row_count++;
}

void tt_bench_report_end(struct tt_bench_report *report)
{
    tt_bench_report_clear(report);
    if (report->arguments->json || report->row_count == 0) {
        return;
    }
    char cell[TT_CELL_BYTES];
    if (report->arguments->job.collective == TT_BENCH_BARRIER) {
        return;
    }
    fprintf(report->stream, "# wrong bytes: %" PRIu64 " %s\n", report->wrong_bytes,
            report->wrong_bytes == 0 ? "(every byte of every result was compared)" : "FAILED");
    fprintf(report->stream, "# mean busbw of all sizes: %s GB/s\n",
            tt_cell_fixed(cell, report->bus_bandwidth_sum / (double)report->row_count));
}

void tt_bench_report_progress(struct tt_bench_report *report, uint64_t size_bytes, uint32_t done, uint32_t total,
                              uint64_t now_ns)
{
    if (!report->shows_progress || now_ns - report->begun_ns < PROGRESS_AFTER_NS ||
        now_ns - report->drawn_ns < PROGRESS_INTERVAL_NS) {
        return;
    }
    fprintf(stderr, "\r\033[K%s of %" PRIu64 " bytes: %" PRIu32 " of %" PRIu32,
            tt_bench_collective_row(report->arguments->job.collective)->name, size_bytes, done, total);
    report->drawn_ns = now_ns;
    report->progress_drawn = true;
}

void tt_bench_report_clear(struct tt_bench_report *report)
{
    if (report->progress_drawn) {
        fputs("\r\033[K", stderr);
        report->progress_drawn = false;
    }
}
