/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Loops over a run of elements, for cli/bench_element.c and bench_result.c. bench_loops.c is compiled once for each
 * version (src/cli/meson.build), with TT_BENCH_VERSION as the ending of what it defines; all give the same bits.
 */
#ifndef TT_CLI_BENCH_LOOPS_H
#define TT_CLI_BENCH_LOOPS_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/bench_element.h"

/* Runs have the alignment of uint64_t; arrays of numbers have TT_BENCH_RUN of them, and overlap nothing. */
struct tt_bench_loops {
    /* 32-bit words from number `first` of the key's stream on. */
    void (*hash)(uint32_t key, uint32_t first, unsigned word_count, void *out);
    /* Random bits of floats become elements, in place. */
    void (*shape)(const struct tt_bench_elements *elements, void *run);
    /* See tt_bench_elements_widen. */
    void (*widen)(const struct tt_bench_elements *elements, const void *run, double *numbers);
    /* Adds factor * number, exactly: of `halves` the upper half of an fp64 number to `high`, all else to `low`; and its
     * magnitude. */
    void (*add)(const double *numbers, double factor, bool halves, double *high, double *low, double *magnitude);
};

/* The best version that this processor has. Thread-safe. */
const struct tt_bench_loops *tt_bench_loops(void);

static inline uint32_t tt_bench_mix(uint32_t word)
{
    word ^= word >> 16;
    word *= 0x7feb352dU;
    word ^= word >> 15;
    word *= 0x846ca68bU;
    return word ^ (word >> 16);
}

#define TT_BENCH_PASTE_(name, version) name##_##version
#define TT_BENCH_PASTE(name, version)  TT_BENCH_PASTE_(name, version)
#define TT_BENCH_VERSIONED(name)       TT_BENCH_PASTE(name, TT_BENCH_VERSION)

extern const struct tt_bench_loops tt_bench_loops_plain;
#ifdef __x86_64__
extern const struct tt_bench_loops tt_bench_loops_avx2;
#endif

#endif
