/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: figures from samples. Normal path: sort, then read off; sums are exact up to 2^53 ns, which is 104 days.
 * Failures: none; no samples give zeros.
 */
#include "cli/bench_statistics.h"

#include <stdlib.h>

static int compare_samples(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left;
    uint64_t b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

void tt_statistics_compute(uint64_t *samples_ns, size_t count, struct tt_statistics *statistics)
{
    struct tt_statistics result = {0};
    if (count > 0) {
        qsort(samples_ns, count, sizeof(*samples_ns), compare_samples);
        double sum = 0;
        for (size_t i = 0; i < count; i++) {
            sum += (double)samples_ns[i];
        }
        size_t middle = count / 2;
        result.min_ns = (double)samples_ns[0];
        result.max_ns = (double)samples_ns[count - 1];
        result.mean_ns = sum / (double)count;
        result.median_ns = count % 2 == 1 ? (double)samples_ns[middle]
                                          : ((double)samples_ns[middle - 1] + (double)samples_ns[middle]) / 2;
    }
    *statistics = result;
}

double tt_algorithm_bandwidth(enum tt_bench_collective collective, uint32_t rank_count, uint64_t size_bytes,
                              double time_ns)
{
    if (time_ns <= 0) {
        return 0;
    }
    double bytes = (double)size_bytes;
    return (tt_bench_collective_row(collective)->received == TT_BENCH_ALL ? bytes * rank_count : bytes) / time_ns;
}

double tt_bus_bandwidth(enum tt_bench_collective collective, uint32_t rank_count, double algorithm_bandwidth)
{
    unsigned trips = tt_bench_collective_row(collective)->bus_trips;
    return trips == 0 ? algorithm_bandwidth : algorithm_bandwidth * trips * (rank_count - 1) / rank_count;
}
