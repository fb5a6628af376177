/* SPDX-License-Identifier: BSD-3-Clause */
#include "reduce_reference.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#ifdef __SIZEOF_FLOAT128__
typedef __float128 wide_float; /* 113 bits: 2 * 53 + 2 are needed */
#else
typedef long double wide_float; /* where it is no less: AArch64, RISC-V */
#endif

/* Fields of the float types. `finite` is the largest magnitude's code that is a number, `overflow` what is beyond. */
struct format {
    unsigned mantissa;
    int bias;
    uint64_t finite, overflow, nan;
};

static const struct format formats[TT_TYPE_COUNT] = {
    [TT_TYPE_FP8_E4M3] = {3, 7, 0x7e, 0x7f, 0x7f},
    [TT_TYPE_FP8_E5M2] = {2, 15, 0x7b, 0x7c, 0x7f},
    [TT_TYPE_FP16] = {10, 15, 0x7bff, 0x7c00, 0x7e00},
    [TT_TYPE_BF16] = {7, 127, 0x7f7f, 0x7f80, 0x7fc0},
    [TT_TYPE_FP32] = {23, 127, 0x7f7fffff, 0x7f800000, 0x7fc00000},
    [TT_TYPE_FP64] = {52, 1023, 0x7fefffffffffffff, 0x7ff0000000000000, 0x7ff8000000000000},
};

static unsigned bits_of(enum tt_type type)
{
    return tt_type_row(type)->bytes * 8;
}

uint64_t reference_bits(enum tt_type type, const void *element)
{
    uint64_t bits64;
    uint32_t bits32;
    uint16_t bits16;

    switch (tt_type_row(type)->bytes) {
    case 1:
        return *(const uint8_t *)element;
    case 2:
        memcpy(&bits16, element, sizeof(bits16));
        return bits16;
    case 4:
        memcpy(&bits32, element, sizeof(bits32));
        return bits32;
    default:
        memcpy(&bits64, element, sizeof(bits64));
        return bits64;
    }
}

void reference_set(enum tt_type type, uint64_t bits, void *element)
{
    uint8_t bits8 = (uint8_t)bits;
    uint16_t bits16 = (uint16_t)bits;
    uint32_t bits32 = (uint32_t)bits;

    switch (tt_type_row(type)->bytes) {
    case 1:
        memcpy(element, &bits8, sizeof(bits8));
        break;
    case 2:
        memcpy(element, &bits16, sizeof(bits16));
        break;
    case 4:
        memcpy(element, &bits32, sizeof(bits32));
        break;
    default:
        memcpy(element, &bits, sizeof(bits));
        break;
    }
}

/* The number that a magnitude's code is, up to `overflow`, which stands for the number that would come next. */
static double decode_magnitude(const struct format *format, uint64_t code)
{
    int exponent = (int)(code >> format->mantissa);
    uint64_t fraction = code & ((UINT64_C(1) << format->mantissa) - 1);

    if (exponent > 0) {
        fraction += UINT64_C(1) << format->mantissa;
        exponent--;
    }
    return ldexp((double)fraction, exponent + 1 - format->bias - (int)format->mantissa);
}

double reference_decode(enum tt_type type, const void *element)
{
    const struct format *format = &formats[type];
    uint64_t bits = reference_bits(type, element), sign = UINT64_C(1) << (bits_of(type) - 1), code = bits & (sign - 1);
    double magnitude = code <= format->finite                                        ? decode_magnitude(format, code)
                       : code == format->overflow && format->overflow != format->nan ? INFINITY
                                                                                     : NAN;

    return bits & sign ? -magnitude : magnitude;
}

/* Of two neighbouring codes the nearer one, or the even one. */
static uint64_t nearest(const struct format *format, double magnitude)
{
    uint64_t low = 0, high = format->overflow;
    double above, below;

    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;

        if (decode_magnitude(format, middle) <= magnitude) {
            low = middle;
        } else {
            high = middle;
        }
    }
    below = magnitude - decode_magnitude(format, low);
    above = decode_magnitude(format, high) - magnitude;
    return below < above || (below == above && low % 2 == 0) ? low : high;
}

void reference_encode(enum tt_type type, double number, void *element)
{
    const struct format *format = &formats[type];
    uint64_t code, sign = UINT64_C(1) << (bits_of(type) - 1);
    float fp32 = (float)number;

    if (isnan(number)) {
        reference_set(type, format->nan, element);
    } else if (type == TT_TYPE_FP64) {
        memcpy(element, &number, sizeof(number));
    } else if (type == TT_TYPE_FP32) {
        memcpy(element, &fp32, sizeof(fp32));
    } else {
        code = isinf(number) ? format->overflow : nearest(format, fabs(number));
        code |= signbit(number) && code != format->nan ? sign : 0;
        reference_set(type, code, element);
    }
}

/* --- Operations --------------------------------------------------------------------------------------------------- */

static double least(double a, double b)
{
    if (isnan(a) || isnan(b)) {
        return NAN;
    }
    if (a == b) {
        return signbit(a) ? a : b;
    }
    return a < b ? a : b;
}

static double combine_numbers(enum tt_reduce_operation step, double a, double b)
{
    switch (step) {
    case TT_REDUCE_SUM:
        return a + b;
    case TT_REDUCE_PRODUCT:
        return a * b;
    case TT_REDUCE_MIN:
        return least(a, b);
    default:
        return -least(-a, -b);
    }
}

static double combine_fp64(enum tt_reduce_operation step, double a, double b)
{
    switch (step) {
    case TT_REDUCE_SUM:
        return (double)((wide_float)a + (wide_float)b);
    case TT_REDUCE_PRODUCT:
        return (double)((wide_float)a * (wide_float)b);
    default:
        return combine_numbers(step, a, b);
    }
}

static __int128 integer_of(enum tt_type type, const void *element)
{
    uint64_t bits = reference_bits(type, element), sign = UINT64_C(1) << (bits_of(type) - 1);
    __int128 value = bits;

    return tt_type_row(type)->class == TT_CLASS_SIGNED && (bits & sign) ? value - sign - sign : value;
}

static void combine_integers(enum tt_type type, enum tt_reduce_operation step, const void *left, const void *right,
                             void *result)
{
    __int128 a = integer_of(type, left), b = integer_of(type, right), value;

    switch (step) {
    case TT_REDUCE_SUM:
        value = a + b;
        break;
    case TT_REDUCE_PRODUCT:
        value = (__int128)((unsigned __int128)a * (unsigned __int128)b);
        break;
    case TT_REDUCE_MIN:
        value = a < b ? a : b;
        break;
    case TT_REDUCE_MAX:
        value = a < b ? b : a;
        break;
    case TT_REDUCE_AND:
        value = a & b;
        break;
    case TT_REDUCE_OR:
        value = a | b;
        break;
    default:
        value = a ^ b;
        break;
    }
    reference_set(type, (uint64_t)value, result);
}

void reference_combine(enum tt_type type, enum tt_reduce_operation step, const void *left, const void *right,
                       void *result)
{
    double a, b;

    if (tt_type_row(type)->class != TT_CLASS_FLOAT) {
        combine_integers(type, step, left, right, result);
        return;
    }
    a = reference_decode(type, left);
    b = reference_decode(type, right);
    if (type == TT_TYPE_FP64) {
        reference_encode(type, combine_fp64(step, a, b), result);
    } else {
        reference_encode(type, (float)combine_numbers(step, a, b), result);
    }
}

void reference_scale(enum tt_type type, const void *source, const void *factor, void *result)
{
    if (tt_type_row(type)->class != TT_CLASS_FLOAT) {
        combine_integers(type, TT_REDUCE_PRODUCT, factor, source, result);
    } else if (type == TT_TYPE_FP64) {
        reference_combine(type, TT_REDUCE_PRODUCT, factor, source, result);
    } else {
        reference_encode(type, (float)(reference_decode(TT_TYPE_FP32, factor) * reference_decode(type, source)),
                         result);
    }
}

void reference_divide(enum tt_type type, const void *source, uint32_t divisor, void *result)
{
    if (tt_type_row(type)->class != TT_CLASS_FLOAT) {
        reference_set(type, (uint64_t)(integer_of(type, source) / divisor), result);
    } else if (type == TT_TYPE_FP64) {
        reference_encode(type, (double)((wide_float)reference_decode(type, source) / divisor), result);
    } else {
        reference_encode(type, (float)(reference_decode(type, source) / divisor), result);
    }
}

float reference_accumulate(enum tt_type type, enum tt_reduce_operation step, float accumulator, const void *element)
{
    double number =
        combine_numbers(step, reference_decode(TT_TYPE_FP32, &accumulator), reference_decode(type, element));
    uint64_t result = 0; /* room for any element */

    reference_encode(TT_TYPE_FP32, number, &result);
    memcpy(&accumulator, &result, sizeof(accumulator));
    return accumulator;
}

/* --- Elements ----------------------------------------------------------------------------------------------------- */

static uint64_t special(enum tt_type type, struct tt_random *random)
{
    const struct format *format = &formats[type];
    const uint64_t codes[] = {0,
                              0,
                              1,
                              (UINT64_C(1) << format->mantissa) - 1,
                              UINT64_C(1) << format->mantissa,
                              format->finite,
                              format->overflow,
                              format->nan,
                              format->nan,
                              format->overflow == format->nan ? format->nan : format->overflow + 1};

    return codes[tt_random_below(random, sizeof(codes) / sizeof(codes[0]))];
}

void reference_fill(enum tt_type type, struct tt_random *random, void *elements, uint64_t count)
{
    uint32_t bytes = tt_type_row(type)->bytes;

    for (uint64_t i = 0; i < count; i++) {
        const struct format *format = &formats[type];
        uint64_t bits = tt_random_next(random), kind = tt_random_below(random, 8);
        uint64_t sign = (bits >> 63) << (bits_of(type) - 1);

        if (tt_type_row(type)->class == TT_CLASS_FLOAT && kind == 0) {
            bits = special(type, random) | sign;
        } else if (tt_type_row(type)->class == TT_CLASS_FLOAT && kind < 5) { /* exponents near that of 1 */
            uint64_t fraction = bits & ((UINT64_C(1) << format->mantissa) - 1);

            bits = sign | fraction | (((uint64_t)format->bias - 3 + kind) << format->mantissa);
        }
        reference_set(type, bits, (char *)elements + i * bytes);
    }
}
