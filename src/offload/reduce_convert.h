/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Conversions between fp32 and the small floats, in integer lanes, without branches, so that loops over them become
 * vectors on any machine: fp16 (IEEE 754 binary16), bf16 (the upper half of binary32), and fp8 as in the OCP 8-bit
 * Floating Point Specification (OFP8), revision 1.0: E5M2, which is as IEEE 754 would have it, and E4M3, which has no
 * infinities and one NaN, S.1111.111.
 *
 * Widening is exact. Narrowing rounds to nearest, ties to even. What is too large becomes infinity, in E4M3 NaN, as in
 * OFP8's non-saturating mode: a reduction that overflows must show, and a sum held at 448 would pass for a result.
 * A NaN becomes the positive quiet one without payload (docs/reductions.md).
 *
 * Assumed is the default environment: rounding to nearest. No step makes or takes a subnormal fp32 number but those
 * that are in bf16, so that flushing them to zero changes nothing in the other formats.
 */
#ifndef TT_OFFLOAD_REDUCE_CONVERT_H
#define TT_OFFLOAD_REDUCE_CONVERT_H

#include <stdint.h>

#define TT_FP32_INFINITY UINT32_C(0x7f800000)
#define TT_FP32_NAN      UINT32_C(0x7fc00000)
#define TT_FP32_SIGN     UINT32_C(0x80000000)
#define TT_FP64_INFINITY UINT64_C(0x7ff0000000000000)
#define TT_FP64_NAN      UINT64_C(0x7ff8000000000000)

enum { TT_FP32_MANTISSA = 23, TT_FP32_EXPONENT = 8, TT_FP32_EXPONENTS = 1 << TT_FP32_EXPONENT, TT_FP32_BIAS = 127 };

static inline uint32_t tt_fp32_bits(float value)
{
    uint32_t bits;

    __builtin_memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static inline float tt_fp32_of_bits(uint32_t bits)
{
    float value;

    __builtin_memcpy(&value, &bits, sizeof(value));
    return value;
}

/* What there is to know of a small format. `bits` of all, `mantissa` of its fraction. */
struct tt_small_format {
    unsigned bits, mantissa, bias;
    uint32_t overflow; /* the code that follows the largest number: infinity, or where there is none, NaN */
    uint32_t nan;
};

/*
 * Codes as they stand have the exponent's field at the wrong place and with the wrong bias. As the fraction of a normal
 * number with an exponent of 1 less that number, a subnormal one is right too. Which of the two a code is need not be
 * asked: twice a normal number, less the least one, is no less than it; for a subnormal one, of which the first way
 * makes half the least normal number and half of itself, it is the number, and no more than that.
 */
static inline float tt_small_least_of_both(float normal, float least)
{
    float subnormal = (normal + normal) - least;

    return subnormal < normal ? subnormal : normal;
}

/* The code's bits at fp32's places, without sign. */
static inline uint32_t tt_small_shifted(uint32_t code, const struct tt_small_format *format)
{
    return (code << (32 - format->bits) & INT32_MAX) >> (TT_FP32_EXPONENT + format->mantissa + 1 - format->bits);
}

static inline float tt_small_signed(float magnitude, uint32_t code, unsigned bits)
{
    return tt_fp32_of_bits(tt_fp32_bits(magnitude) | (code << (32 - bits) & TT_FP32_SIGN));
}

/*
 * Of a format with infinities. The exponent gets the bias by which its largest is fp32's largest, so that infinity and
 * NaN are infinity and NaN; a factor does the rest.
 */
static inline float tt_small_widen_ieee(uint32_t code, const struct tt_small_format *format)
{
    const unsigned raised = TT_FP32_EXPONENTS - 2 - 2 * format->bias;
    const float factor = tt_fp32_of_bits((2 * TT_FP32_BIAS - format->bias - raised) << TT_FP32_MANTISSA);
    const float least = tt_fp32_of_bits((TT_FP32_BIAS + 1 - format->bias) << TT_FP32_MANTISSA);
    float normal = tt_fp32_of_bits(tt_small_shifted(code, format) + (raised << TT_FP32_MANTISSA)) * factor;

    return tt_small_signed(tt_small_least_of_both(normal, least), code, format->bits);
}

/* Of a format without infinities, whose one NaN is the largest magnitude. */
static inline float tt_small_widen_finite(uint32_t code, const struct tt_small_format *format)
{
    const float least = tt_fp32_of_bits((TT_FP32_BIAS + 1 - format->bias) << TT_FP32_MANTISSA);
    uint32_t shifted = tt_small_shifted(code, format);
    float normal = tt_fp32_of_bits(shifted + ((TT_FP32_BIAS - format->bias) << TT_FP32_MANTISSA));
    float magnitude = tt_small_least_of_both(normal, least);

    magnitude =
        shifted == format->nan << (TT_FP32_MANTISSA - format->mantissa) ? tt_fp32_of_bits(TT_FP32_NAN) : magnitude;
    return tt_small_signed(magnitude, code, format->bits);
}

/*
 * The code of a magnitude, without sign, in the lower bits of the result. Adding the power of two whose unit in the
 * last place is that of the result makes the processor round; the unit is that of the least normal number at least,
 * which makes subnormal ones right too. The sum's fraction then counts units: those of the result's fraction, and 1
 * that carries into the exponent. The rest of the exponent is among the power's units from the start; it is even, as
 * ties need it.
 */
static inline uint32_t tt_small_narrow(float value, const struct tt_small_format *format)
{
    const unsigned shift = TT_FP32_MANTISSA - format->mantissa;
    const uint32_t least = (TT_FP32_BIAS + 1 - format->bias) << TT_FP32_MANTISSA;
    /* What the code after the largest number's would be: everything from there on comes to that code. */
    const int32_t beyond = (int32_t)((format->overflow << shift) + ((TT_FP32_BIAS - format->bias) << TT_FP32_MANTISSA));
    int32_t magnitude = (int32_t)(tt_fp32_bits(value) & INT32_MAX), exponent;
    uint32_t power;

    magnitude = magnitude < beyond ? magnitude : beyond;
    exponent = magnitude & (int32_t)TT_FP32_INFINITY;
    exponent = exponent > (int32_t)least ? exponent : (int32_t)least;
    power = (uint32_t)exponent + ((uint32_t)exponent >> shift) + (shift << TT_FP32_MANTISSA) - (least >> shift);
    return tt_fp32_bits(tt_fp32_of_bits((uint32_t)magnitude) + tt_fp32_of_bits(power));
}

static inline uint32_t tt_fp32_sign(float value, unsigned bits)
{
    return (tt_fp32_bits(value) & TT_FP32_SIGN) >> (32 - bits);
}

/* `code`, or the canonical NaN if that is what the value is. */
static inline uint32_t tt_small_or_nan(uint32_t code, float value, uint32_t nan)
{
    return value != value ? nan : code;
}

/* --- The four formats: X_widen, X_narrow; a NaN that is widened may keep its payload -------------------------------
 */

static const struct tt_small_format tt_fp16_format = {16, 10, 15, 0x7c00, 0x7e00};
static const struct tt_small_format tt_fp8_e5m2_format = {8, 2, 15, 0x7c, 0x7f};
static const struct tt_small_format tt_fp8_e4m3_format = {8, 3, 7, 0x7f, 0x7f};

static inline float tt_fp16_widen(uint16_t code)
{
    return tt_small_widen_ieee(code, &tt_fp16_format);
}

static inline uint16_t tt_fp16_narrow(float value)
{
    uint32_t code = tt_small_narrow(value, &tt_fp16_format) | tt_fp32_sign(value, 16);

    return (uint16_t)tt_small_or_nan(code, value, tt_fp16_format.nan);
}

static inline float tt_bf16_widen(uint16_t code)
{
    return tt_fp32_of_bits((uint32_t)code << 16);
}

/* The exponents are fp32's, so that subnormal numbers, and infinity by a carry, come out right by themselves. */
static inline uint16_t tt_bf16_narrow(float value)
{
    uint32_t bits = tt_fp32_bits(value), rounded = bits + 0x7fff + ((bits >> 16) & 1);

    return (uint16_t)tt_small_or_nan(rounded >> 16, value, 0x7fc0);
}

static inline float tt_fp8_e5m2_widen(uint8_t code)
{
    return tt_small_widen_ieee(code, &tt_fp8_e5m2_format);
}

static inline uint8_t tt_fp8_e5m2_narrow(float value)
{
    uint32_t code = tt_small_narrow(value, &tt_fp8_e5m2_format) | tt_fp32_sign(value, 8);

    return (uint8_t)tt_small_or_nan(code, value, tt_fp8_e5m2_format.nan);
}

static inline float tt_fp8_e4m3_widen(uint8_t code)
{
    return tt_small_widen_finite(code, &tt_fp8_e4m3_format);
}

/* NaN has no sign here, as in the other formats: also where it comes from an overflow, and then value is none. */
static inline uint8_t tt_fp8_e4m3_narrow(float value)
{
    uint32_t code = (uint8_t)tt_small_narrow(value, &tt_fp8_e4m3_format);

    return (uint8_t)(code == tt_fp8_e4m3_format.nan ? code : code | tt_fp32_sign(value, 8));
}

#endif
