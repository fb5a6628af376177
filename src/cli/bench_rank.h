/* SPDX-License-Identifier: BSD-3-Clause */
/* One rank of a benchmark. */
#ifndef TT_CLI_BENCH_RANK_H
#define TT_CLI_BENCH_RANK_H

#include "base/settings.h"
#include "cli/bench_arguments.h"

/* Joins the job that the environment describes and measures all sizes; rank 0 prints. Returns the exit status. */
int tt_bench_rank(const struct tt_bench_arguments *arguments, const struct tt_settings *settings);

#endif
