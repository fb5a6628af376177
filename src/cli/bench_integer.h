/* SPDX-License-Identifier: BSD-3-Clause */
/* The results of measured reductions that have one right result to the bit: of integers and of opaque elements. Pure.
 */
#ifndef TT_CLI_BENCH_INTEGER_H
#define TT_CLI_BENCH_INTEGER_H

#include <stdint.h>

#include "cli/bench_element.h"

/* The TT_BENCH_RUN results from run * TT_BENCH_RUN on. `out` has the alignment of uint64_t. */
void tt_bench_integer_expect(const struct tt_bench_elements *elements, uint64_t round, uint64_t run, void *out);

#endif
