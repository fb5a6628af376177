/* SPDX-License-Identifier: BSD-3-Clause */
/* What rank 0 of a benchmark prints: a table or JSON, and a line of progress on a terminal. */
#ifndef TT_CLI_BENCH_REPORT_H
#define TT_CLI_BENCH_REPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "cli/bench_arguments.h"
#include "cli/bench_statistics.h"
#include "tutti/tutti.h"

/* One size, over all ranks. The counters are sums over the timed iterations of all ranks. */
struct tt_bench_result {
    uint64_t size_bytes;
    uint32_t iterations;
    tutti_algorithm algorithm; /* that moved the data */
    struct tt_statistics time;
    tutti_counters counters;
    uint64_t wrong_bytes;         /* of all iterations, warm-up too */
    double slowest_ns;            /* of an iteration the slowest rank's time; the median of these */
    uint64_t cpu_ns;              /* processor time of all ranks inside the timed collectives */
    uint32_t iteration_count;     /* those to warm up too, which come first; at least 1 */
    const uint64_t *iteration_ns; /* the slowest rank's time in each; the caller's, as the next: read by report_row */
    const uint64_t *iteration_repaired; /* chunks that multicast lost in each, at all ranks */
};

struct tt_bench_report {
    const struct tt_bench_arguments *arguments;
    tutti_group_info info;
    FILE *stream;
    bool shows_progress; /* standard error is a terminal */
    bool progress_drawn; /* and there is a line to be erased */
    uint64_t drawn_ns;
    uint64_t begun_ns;
    uint64_t wrong_bytes; /* of all sizes so far */
    uint64_t row_count;
    double bus_bandwidth_sum;
};

/* Prints the heading of a table. */
void tt_bench_report_begin(struct tt_bench_report *report, const struct tt_bench_arguments *arguments,
                           const tutti_group_info *info, FILE *stream, bool shows_progress);
void tt_bench_report_row(struct tt_bench_report *report, const struct tt_bench_result *result);
/* Prints what follows the last row of a table. */
void tt_bench_report_end(struct tt_bench_report *report);

/* May draw a line about the run, not too often; `now_ns` is the monotonic clock. Erased by the next row, or clear. */
void tt_bench_report_progress(struct tt_bench_report *report, uint64_t size_bytes, uint32_t done, uint32_t total,
                              uint64_t now_ns);
void tt_bench_report_clear(struct tt_bench_report *report);

#endif
