/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Minimum and maximum of floats, as IEEE 754-2019, section 9.6, minimum and maximum: a NaN on either side makes the
 * result NaN, and -0 is below +0. They are computed on bits: with the magnitude's bits of negative numbers inverted,
 * floats order as signed integers do. So no format needs converting, and no setting of the processor matters.
 */
#ifndef TT_OFFLOAD_REDUCE_ORDER_H
#define TT_OFFLOAD_REDUCE_ORDER_H

#include <stdint.h>

#include "offload/reduce_convert.h"

/* TYPE_min, TYPE_max: of two elements as bits. `most` is the largest magnitude that is not NaN. */
#define TT_FLOAT_ORDER(type, integer, magnitude_mask, most, nan)                                                       \
    static inline integer tt_##type##_key(integer value)                                                               \
    {                                                                                                                  \
        return (integer)(value < 0 ? value ^ (integer)(magnitude_mask) : value);                                       \
    }                                                                                                                  \
                                                                                                                       \
    static inline integer tt_##type##_or_nan(integer result, integer a, integer b)                                     \
    {                                                                                                                  \
        integer a_magnitude = (integer)(a & (integer)(magnitude_mask));                                                \
        integer b_magnitude = (integer)(b & (integer)(magnitude_mask));                                                \
        integer largest = a_magnitude > b_magnitude ? a_magnitude : b_magnitude;                                       \
                                                                                                                       \
        return largest > (integer)(most) ? (integer)(nan) : result;                                                    \
    }                                                                                                                  \
                                                                                                                       \
    static inline integer tt_##type##_min(integer a, integer b)                                                        \
    {                                                                                                                  \
        integer a_key = tt_##type##_key(a), b_key = tt_##type##_key(b);                                                \
                                                                                                                       \
        return tt_##type##_or_nan(tt_##type##_key(a_key < b_key ? a_key : b_key), a, b);                               \
    }                                                                                                                  \
                                                                                                                       \
    static inline integer tt_##type##_max(integer a, integer b)                                                        \
    {                                                                                                                  \
        integer a_key = tt_##type##_key(a), b_key = tt_##type##_key(b);                                                \
                                                                                                                       \
        return tt_##type##_or_nan(tt_##type##_key(a_key > b_key ? a_key : b_key), a, b);                               \
    }

TT_FLOAT_ORDER(fp8_e4m3, int8_t, 0x7f, 0x7e, 0x7f)
TT_FLOAT_ORDER(fp8_e5m2, int8_t, 0x7f, 0x7c, 0x7f)
TT_FLOAT_ORDER(fp16, int16_t, 0x7fff, 0x7c00, 0x7e00)
TT_FLOAT_ORDER(bf16, int16_t, 0x7fff, 0x7f80, 0x7fc0)
TT_FLOAT_ORDER(fp32, int32_t, INT32_MAX, TT_FP32_INFINITY, TT_FP32_NAN)
TT_FLOAT_ORDER(fp64, int64_t, INT64_MAX, TT_FP64_INFINITY, TT_FP64_NAN)

/*
 * The result of arithmetic with its NaN made the positive quiet one without payload: which operand's payload an
 * addition keeps, and the sign of a NaN that is made of numbers, differ between processors and between ways in which a
 * compiler orders the operands of one instruction.
 */
static inline float tt_fp32_canonical(float value)
{
    return value != value ? tt_fp32_of_bits(TT_FP32_NAN) : value;
}

static inline double tt_fp64_canonical(double value)
{
    const uint64_t bits = TT_FP64_NAN;
    double nan;

    __builtin_memcpy(&nan, &bits, sizeof(nan));
    return value != value ? nan : value;
}

#endif
