/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: the loops over a run of elements, with which checking a reduction's result takes nearly all of its time.
 *
 * Normal path: no loop has a branch or a call in it, so that a compiler makes vectors of it. Products and sums are not
 * contracted (src/cli/meson.build): every version gives the same bits.
 *
 * Failures: none.
 */
#include "cli/bench_loops.h"

#include <math.h>
#include <string.h>

/* A run is bytes, whatever it is shaped as. */
typedef uint16_t __attribute__((may_alias)) word16;
typedef uint32_t __attribute__((may_alias)) word32;
typedef uint64_t __attribute__((may_alias)) word64;

/* --- Random words ------------------------------------------------------------------------------------------------- */

static void hash(uint32_t key, uint32_t first, unsigned word_count, void *out)
{
    word32 *words = out;
    for (unsigned i = 0; i < word_count; i++) {
        words[i] = tt_bench_mix((first + i) * 0x9e3779b1U + key);
    }
}

/* --- Shapes of floats --------------------------------------------------------------------------------------------- */

/*
 * m of one word of so many bits: at odd indices, or if all are alike, from its highest bits, p + 1 with the sign; at
 * even ones its highest eight, scaled to [-limit, limit].
 */
#define MAKE_M(word, signed_type, bits, index)                                                                         \
    (((index)&1U) != 0 || limit == 0                                                                                   \
         ? ((signed_type)(word) >> ((bits)-1 - digits)) | never_0                                                      \
         : (signed_type)((int32_t)((uint32_t)((word) >> ((bits)-8)) * (uint32_t)(2 * limit + 1) >> 8) - limit))

#define SHAPE_BEGIN                                                                                                    \
    const unsigned digits = elements->format.digits;                                                                   \
    const int32_t limit = elements->small_limit, never_0 = limit == 0

/* A small float's code, of a number that it holds exactly and that is 0 or normal: the exponent's bias is exchanged by
 * a multiplication, the rest is bits of fp32. */
static inline uint32_t encode_small(float number, float rebias, unsigned dropped_bits, unsigned sign_shift)
{
    uint32_t bits;
    number *= rebias;
    memcpy(&bits, &number, sizeof(bits));
    return ((bits & 0x7fffffffU) >> dropped_bits) | (bits >> 31 << sign_shift);
}

static void shape_sum_8(const struct tt_bench_elements *elements, uint8_t *run)
{
    SHAPE_BEGIN;
    const float scale = ldexpf(1, -(int)digits), rebias = ldexpf(1, elements->format.bias - 127);
    for (unsigned i = 0; i < TT_BENCH_RUN; i++) {
        int32_t m = MAKE_M(run[i], int8_t, 8, i);
        run[i] = (uint8_t)encode_small((float)m * scale, rebias, 24 - digits, 7);
    }
}

static void shape_sum_16(const struct tt_bench_elements *elements, word16 *run)
{
    SHAPE_BEGIN;
    const float scale = ldexpf(1, -(int)digits), rebias = ldexpf(1, elements->format.bias - 127);
    for (unsigned i = 0; i < TT_BENCH_RUN; i++) {
        int32_t m = MAKE_M(run[i], int16_t, 16, i);
        run[i] = (uint16_t)encode_small((float)m * scale, rebias, 24 - digits, 15);
    }
}

static void shape_sum_32(const struct tt_bench_elements *elements, word32 *run)
{
    SHAPE_BEGIN;
    for (unsigned i = 0; i < TT_BENCH_RUN; i++) {
        float number = (float)MAKE_M(run[i], int32_t, 32, i) * 0x1p-24F;
        memcpy(&run[i], &number, sizeof(number));
    }
}

static void shape_sum_64(const struct tt_bench_elements *elements, word64 *run)
{
    SHAPE_BEGIN;
    for (unsigned i = 0; i < TT_BENCH_RUN; i++) {
        double number = (double)MAKE_M(run[i], int64_t, 64, i) * 0x1p-53;
        memcpy(&run[i], &number, sizeof(number));
    }
}

/* Sign, the exponent of 1 or 1/2, and at odd indices a fraction: all from the word's own bits. */
#define SHAPE_PRODUCT(type)                                                                                            \
    do {                                                                                                               \
        type *words = run;                                                                                             \
        for (unsigned i = 0; i < TT_BENCH_RUN; i++) {                                                                  \
            type word = words[i];                                                                                      \
            type kept = (type)((i & 1U) != 0 ? sign | fraction : sign);                                                \
            type below_1 = (type)((word >> fraction_bits) & 1U);                                                       \
            words[i] = (type)((word & kept) | (type)((type)(bias - below_1) << fraction_bits));                        \
        }                                                                                                              \
    } while (0)

static void shape_product(const struct tt_bench_elements *elements, void *run)
{
    const unsigned fraction_bits = elements->format.digits - 1;
    const uint64_t fraction = (UINT64_C(1) << fraction_bits) - 1;
    const uint64_t sign = UINT64_C(1) << (elements->element_bytes * 8 - 1);
    const uint64_t bias = (uint64_t)elements->format.bias;

    switch (elements->element_bytes) {
    case 1:
        SHAPE_PRODUCT(uint8_t);
        break;
    case 2:
        SHAPE_PRODUCT(word16);
        break;
    case 4:
        SHAPE_PRODUCT(word32);
        break;
    default:
        SHAPE_PRODUCT(word64);
        break;
    }
}

static void shape(const struct tt_bench_elements *elements, void *run)
{
    if (elements->operation == TT_REDUCE_PRODUCT) {
        shape_product(elements, run);
        return;
    }
    switch (elements->element_bytes) {
    case 1:
        shape_sum_8(elements, run);
        break;
    case 2:
        shape_sum_16(elements, run);
        break;
    case 4:
        shape_sum_32(elements, run);
        break;
    default:
        shape_sum_64(elements, run);
        break;
    }
}

/* --- Numbers ------------------------------------------------------------------------------------------------------ */

/* A small float's bits as those of fp32, by the same multiplication, which also makes subnormal ones normal. */
static inline double widen_small(uint32_t code, uint32_t finite, unsigned sign_shift, unsigned shift, float rebias)
{
    uint32_t magnitude = code & ((1U << sign_shift) - 1), bits = magnitude << shift;
    float number;
    memcpy(&number, &bits, sizeof(number));
    number *= rebias;
    memcpy(&bits, &number, sizeof(bits));
    bits |= code >> sign_shift << 31;
    bits = magnitude > finite ? 0x7fc00000U : bits;
    memcpy(&number, &bits, sizeof(number));
    return (double)number;
}

static void widen(const struct tt_bench_elements *elements, const void *run, double *numbers)
{
    const struct tt_bench_format *format = &elements->format;
    const uint8_t *run8 = run;
    const word16 *run16 = run;
    const float rebias = ldexpf(1, 127 - format->bias);
    const uint32_t finite = (uint32_t)format->finite;
    const unsigned shift = 24 - format->digits;

    switch (elements->element_bytes) {
    case 1:
        for (unsigned i = 0; i < TT_BENCH_RUN; i++) {
            numbers[i] = widen_small(run8[i], finite, 7, shift, rebias);
        }
        break;
    case 2:
        for (unsigned i = 0; i < TT_BENCH_RUN; i++) {
            numbers[i] = widen_small(run16[i], finite, 15, shift, rebias);
        }
        break;
    case 4:
        for (unsigned i = 0; i < TT_BENCH_RUN; i++) {
            float number;
            memcpy(&number, run8 + i * sizeof(number), sizeof(number));
            numbers[i] = (double)number;
        }
        break;
    default:
        memcpy(numbers, run, TT_BENCH_RUN * sizeof(double));
        break;
    }
}

/* Adding and subtracting it rounds a number below 2^25 to a multiple of 2^-26: the upper half of an fp64 element, so
 * that both halves of all ranks' can be added up without rounding. */
#define HALVES 0x1.8p26

static void add(const double *numbers, double factor, bool halves, double *high, double *low, double *magnitude)
{
    for (unsigned i = 0; i < TT_BENCH_RUN; i++) {
        double upper = halves ? numbers[i] + HALVES - HALVES : 0;
        high[i] += factor * upper;
        low[i] += factor * (numbers[i] - upper);
        magnitude[i] += factor * fabs(numbers[i]);
    }
}

const struct tt_bench_loops TT_BENCH_VERSIONED(tt_bench_loops) = {
    .hash = hash, .shape = shape, .widen = widen, .add = add};
