/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What reductions must give, computed another way than the library does: small floats are decoded from their fields,
 * rounded by looking for the nearest of all values, integers are computed in 128 bits, floats in a format of at least
 * twice the digits and two more, in which rounding twice does no harm.
 */
#ifndef TT_TESTS_REDUCE_REFERENCE_H
#define TT_TESTS_REDUCE_REFERENCE_H

#include <stdint.h>

#include "base/element.h"
#include "base/random.h"

enum { REFERENCE_ELEMENT_BYTES = 8 };

/* The number that a float element is; NaN may be any. */
double reference_decode(enum tt_type type, const void *element);

/* The float element nearest to the number, of two that are as near the even one; NaN is the canonical one. */
void reference_encode(enum tt_type type, double number, void *element);

/* The bits of one element, and back. */
uint64_t reference_bits(enum tt_type type, const void *element);
void reference_set(enum tt_type type, uint64_t bits, void *element);

/* result = left step right, for the operations that have a kernel. */
void reference_combine(enum tt_type type, enum tt_reduce_operation step, const void *left, const void *right,
                       void *result);
void reference_scale(enum tt_type type, const void *source, const void *factor, void *result);
void reference_divide(enum tt_type type, const void *source, uint32_t divisor, void *result);

/* accumulator = accumulator step element, in fp32 with the canonical NaN. */
float reference_accumulate(enum tt_type type, enum tt_reduce_operation step, float accumulator, const void *element);

/* Random elements: any bits, numbers near 1, zeros of both signs, infinities, NaNs, the least and the largest. */
void reference_fill(enum tt_type type, struct tt_random *random, void *elements, uint64_t count);

#endif
