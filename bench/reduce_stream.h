/* SPDX-License-Identifier: BSD-3-Clause */
/* What the machine can do: the loop that a reduction cannot be faster than. */
#ifndef TT_BENCH_REDUCE_STREAM_H
#define TT_BENCH_REDUCE_STREAM_H

#include <stddef.h>

/* a = a + b, of doubles; reads two and writes one. Both are aligned to a page. */
void tt_stream_add(double *restrict a, const double *restrict b, size_t count);

#endif
