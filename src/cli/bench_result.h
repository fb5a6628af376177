/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether the result of a measured reduction is right, for inputs of cli/bench_element.h. Pure.
 *
 * Integers, opaque elements, minima and maxima have one right result, to the bit. A sum, product or average of floats
 * depends on the order in which it was combined, which is the algorithm's; so it is compared with the exact one, and a
 * bound on what roundings may do to it. u is the unit roundoff 2^-p of the type, n the ranks that put in more than the
 * neutral element (adding 0 and multiplying with 1 round nothing).
 *
 * A step rounds at most twice: to fp32, which small floats compute in, and to the type; later ones may even stay in
 * fp32. So its result is the exact one times 1 + d, where |d| <= v: v = (1 + u)(1 + 2^-24) - 1 for small floats, and u
 * for fp32 and fp64. (A sum never becomes subnormal by rounding, and factors keep products normal.)
 *
 * - Sum: each element goes through at most n - 1 steps that round, in whatever tree, so that what it contributes is
 *   off by a factor between (1 - v)^(n-1) and (1 + v)^(n-1):  |result - exact| <= ((1 + v)^(n-1) - 1) sum |x|.
 *   If all x are multiples of g, and sum |x| <= 2^p g, then every partial sum is a multiple of g that the type holds:
 *   no step rounds, and the bound is 0. Elements at even indices are such. This is what finds a missing element that a
 *   bound for few digits and many ranks would let pass.
 * - Pre-multiplied sum: one more rounding, of factor times element:  ((1 + v)^n - 1) sum |factor x|; or 0, as above.
 * - Product:  ((1 + v)^(n-1) - 1) |exact|. At even indices all are powers of two, and the bound is 0.
 * - Average: the division rounds once more, also where the quotient is subnormal (h is half of what two of those are
 *   apart). With E for the sum's bound and N for the number of ranks:
 *   |result - exact / N| <= (E + v (|exact| + E)) / N + h.
 *
 * The exact sum is exact: elements are multiples of 2^-p, of which an fp64 holds so many that sums of all ranks are
 * integers below 2^53; fp64 elements are added up as two halves. A product is one in fp64, or in long double for fp64;
 * its own error, of the same form, is part of the bound.
 */
#ifndef TT_CLI_BENCH_RESULT_H
#define TT_CLI_BENCH_RESULT_H

#include <stdint.h>

#include "cli/bench_element.h"

enum { TT_BENCH_ERROR_BYTES = 160 };

struct tt_bench_result_check {
    struct tt_bench_elements elements;
    double step;      /* v */
    double growth;    /* (1 + v)^k - 1 for the k roundings that an element goes through */
    double exact_to;  /* a sum |x| up to here is not rounded */
    double divisor;   /* the number of ranks, of an average; otherwise 1 */
    double subnormal; /* h */
};

/* As tt_bench_elements_init(). */
void tt_bench_result_init(struct tt_bench_result_check *check, enum tt_type type, enum tt_reduce_operation operation,
                          uint32_t rank_count);

/* The exact results of a run, and how far a right one may be off: |result * divisor - high - low| <= tolerance. */
struct tt_bench_expected {
    double high[TT_BENCH_RUN], low[TT_BENCH_RUN], tolerance[TT_BENCH_RUN];
};

/* Of floats. */
void tt_bench_result_expect(const struct tt_bench_result_check *check, uint64_t round, uint64_t run,
                            struct tt_bench_expected *expected);

/* What can be no result, in every byte; floats get NaN. */
void tt_bench_result_poison(const struct tt_bench_result_check *check, uint64_t round, uint64_t first, uint64_t count,
                            void *result);

/* How many of the `count` elements from index `first` on are wrong. If any, `error` is a sentence about the first of
 * them, with its place in `result`. */
uint64_t tt_bench_result_wrong(const struct tt_bench_result_check *check, uint64_t round, uint64_t first,
                               uint64_t count, const void *result, char error[TT_BENCH_ERROR_BYTES]);

#endif
