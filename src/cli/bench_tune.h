/* SPDX-License-Identifier: BSD-3-Clause */
/* `tutti bench --tune` in one rank: measures every algorithm at every size, and makes the table of which serves which.
 */
#ifndef TT_CLI_BENCH_TUNE_H
#define TT_CLI_BENCH_TUNE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/settings.h"
#include "cli/bench_arguments.h"
#include "plan/choice.h"

/* What was measured at one size; 0: this method cannot serve it. */
struct tt_tune_sample {
    enum tt_collective_kind kind;
    uint64_t size_bytes;
    double slowest_ns[TT_METHOD_COUNT]; /* median over iterations of the slowest rank's time */
};

/* The method to take where `before` serves the next smaller size (TT_METHOD_COUNT: there is none): the fastest, unless
 * `before` takes at most `keep_ratio` of its time, so that noise makes no rows. COUNT if none was measured. Pure. */
enum tt_method tt_tune_best(const struct tt_tune_sample *sample, bool multicast, enum tt_method before,
                            double keep_ratio);

/* The table for groups of `ranks` from samples in ascending order of sizes, kind after kind; `multicast`: samples with
 * multicast are among them. Where these are more rows than a table has, what is built in for other kinds among them,
 * differences of more than 5 % make none. Pure. */
void tt_tune_rows(const struct tt_tune_sample *samples, uint32_t count, uint32_t ranks, bool multicast,
                  struct tt_choice *choice);

int tt_bench_tune(const struct tt_bench_arguments *arguments, const struct tt_settings *settings);

#endif
