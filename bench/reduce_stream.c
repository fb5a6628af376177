/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: the loop that bench/reduce measures reductions against, in a file of its own, as it is compiled for this
 * very machine (bench/meson.build), which nothing that is installed may be.
 */
#include "reduce_stream.h"

void tt_stream_add(double *restrict a, const double *restrict b, size_t count)
{
    double *to = __builtin_assume_aligned(a, 4096);
    const double *from = __builtin_assume_aligned(b, 4096);

    for (size_t i = 0; i < count; i++) {
        to[i] += from[i];
    }
}
