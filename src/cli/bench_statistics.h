/* SPDX-License-Identifier: BSD-3-Clause */
/* What many samples say: the times of a collective, and the bandwidths that follow from one of them. Pure. */
#ifndef TT_CLI_BENCH_STATISTICS_H
#define TT_CLI_BENCH_STATISTICS_H

#include <stddef.h>
#include <stdint.h>

#include "cli/bench_collective.h"

struct tt_statistics {
    double min_ns;
    double median_ns; /* the mean of the middle two of an even number */
    double mean_ns;
    double max_ns;
};

/* Sorts `samples_ns`. All zero if `count` is 0. */
void tt_statistics_compute(uint64_t *samples_ns, size_t count, struct tt_statistics *statistics);

/*
 * GB/s (10^9 bytes a second) as nccl-tests define them: algbw is the data over the time, of an allgather or gather that
 * of all ranks, of all others the size; busbw is what a link has to carry for it at least. Zero if the time is zero.
 */
double tt_algorithm_bandwidth(enum tt_bench_collective collective, uint32_t rank_count, uint64_t size_bytes,
                              double time_ns);
double tt_bus_bandwidth(enum tt_bench_collective collective, uint32_t rank_count, double algorithm_bandwidth);

#endif
