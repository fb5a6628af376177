/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What ranks put into the reductions that `tutti bench` measures: elements that are a function of (rank, round, index),
 * so that every rank can compute every other's without asking. Pure.
 *
 * Integers and opaque elements are random bits (factors of products are odd: even ones would soon make them 0). Floats
 * are chosen so that nothing overflows or becomes subnormal on the way, in whatever order it is combined, and so that a
 * result can be known exactly (cli/bench_result.h):
 *
 * - Sums: m / 2^p, where p is the number of the type's binary digits. At odd indices m is any integer up to 2^p, so
 * that sums are rounded; at even ones it is so small that no sum is.
 * - Products: at odd indices any number in [1/2, 2), at even ones a power of two; of either sign.
 * - Minimum and maximum: m / 2^p again, never 0.
 *
 * Where the combination of many ranks' elements would say nothing any more (a sum of 1,000 fp8 numbers has no right
 * digit left, an `and` of as many is 0), only `active` of them put in such an element, the others the neutral one; who
 * does changes from run to run of TT_BENCH_RUN elements and from round to round.
 */
#ifndef TT_CLI_BENCH_ELEMENT_H
#define TT_CLI_BENCH_ELEMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/element.h"

enum { TT_BENCH_RUN = 256, TT_BENCH_OPAQUE_BYTES = 16, TT_BENCH_FACTORS = 3 };

/* A float type: binary digits, the exponent's bias, and the largest magnitude's code that is a number. */
struct tt_bench_format {
    unsigned digits;
    int bias;
    uint64_t finite;
};

struct tt_bench_elements {
    enum tt_type type;
    enum tt_reduce_operation operation;
    uint32_t element_bytes;
    uint32_t rank_count;
    uint32_t active;               /* ranks that put in more than the neutral element, at most rank_count */
    int32_t small_limit;           /* the largest m at even indices, of a sum; 0: all are as at odd ones, and not 0 */
    struct tt_bench_format format; /* of floats */
};

/* What the user's operation of the benchmark combines: x -> scale x + offset, modulo 2^64. */
struct tt_bench_affine {
    uint64_t scale, offset;
};

/* The type must have the operation; `user` goes with opaque elements only. */
void tt_bench_elements_init(struct tt_bench_elements *elements, enum tt_type type, enum tt_reduce_operation operation,
                            uint32_t rank_count);

/* Whether the rank puts in more than the neutral element in this run. */
bool tt_bench_elements_are_active(const struct tt_bench_elements *elements, uint32_t rank, uint64_t round,
                                  uint64_t run);

/* The TT_BENCH_RUN elements from run * TT_BENCH_RUN on. `out` has the alignment of uint64_t. */
void tt_bench_elements_run(const struct tt_bench_elements *elements, uint32_t rank, uint64_t round, uint64_t run,
                           void *out);

/* `count` elements from index `first` on; `out` needs no alignment. */
void tt_bench_elements_fill(const struct tt_bench_elements *elements, uint32_t rank, uint64_t round, uint64_t first,
                            uint64_t count, void *out);

/* How many bytes of `data` are other ones; if any, *first_wrong is the offset of the first. */
uint64_t tt_bench_elements_differ(const struct tt_bench_elements *elements, uint32_t rank, uint64_t round,
                                  uint64_t first, uint64_t count, const void *data, uint64_t *first_wrong);

/* The numbers that a run of float elements is. What is no finite number is NaN, or of fp32 and fp64 itself. `run` has
 * the alignment of uint64_t. */
void tt_bench_elements_widen(const struct tt_bench_elements *elements, const void *run, double *numbers);

/* The factor of a rank in a pre-multiplied sum: 1, 2 or 3 by rank, of floats half of that. */
double tt_bench_factor(enum tt_type type, uint32_t rank);

/* As tutti_reduction_options.factor has it: at most 8 bytes. */
void tt_bench_factor_encode(enum tt_type type, uint32_t rank, void *factor);

/* tutti_function: affine maps, the right one applied first. Associative, not commutative. */
void tt_bench_compose(void *destination, const void *left, const void *right, uint64_t count, void *context);

#endif
