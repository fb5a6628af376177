/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: reduction kernels of fp8, fp16 and bf16. Compiled once for each version; see reduce_kernels.h.
 *
 * Normal path: a step widens to fp32, computes there, and rounds to nearest even; minimum and maximum need no fp32. A
 * chain of steps keeps its accumulator in fp32, adds elements to it as they come, and is rounded once, at its end.
 */
#include "offload/reduce_convert.h"
#include "offload/reduce_kernels.h"
#include "offload/reduce_order.h"

/* An accumulator's loop: `expression` makes its element of itself, `acc`, and of `a`, widened. */
#define ACCUMULATE(name, type, element, expression)                                                                    \
    static void name(float *accumulator, const void *operand, uint64_t count)                                          \
    {                                                                                                                  \
        const element *from = operand;                                                                                 \
                                                                                                                       \
        TT_REDUCE_INDEPENDENT                                                                                          \
        for (uint64_t i = 0; i < count; i++) {                                                                         \
            const float acc = accumulator[i], a = tt_##type##_widen(from[i]);                                          \
                                                                                                                       \
            accumulator[i] = (expression);                                                                             \
        }                                                                                                              \
    }

#define ACCUMULATE_SCALED(type, element)                                                                               \
    static void accumulate_scaled_##type(float *accumulator, const void *operand, float factor, uint64_t count)        \
    {                                                                                                                  \
        const element *from = operand;                                                                                 \
                                                                                                                       \
        TT_REDUCE_INDEPENDENT                                                                                          \
        for (uint64_t i = 0; i < count; i++) {                                                                         \
            accumulator[i] = tt_fp32_canonical(accumulator[i] + factor * tt_##type##_widen(from[i]));                  \
        }                                                                                                              \
    }

#define WIDEN(type, element)                                                                                           \
    static void widen_##type(float *accumulator, const void *source, uint64_t count)                                   \
    {                                                                                                                  \
        const element *from = source;                                                                                  \
                                                                                                                       \
        TT_REDUCE_INDEPENDENT                                                                                          \
        for (uint64_t i = 0; i < count; i++) {                                                                         \
            accumulator[i] = tt_fp32_canonical(tt_##type##_widen(from[i]));                                            \
        }                                                                                                              \
    }                                                                                                                  \
                                                                                                                       \
    static void widen_scaled_##type(float *accumulator, const void *source, float factor, uint64_t count)              \
    {                                                                                                                  \
        const element *from = source;                                                                                  \
                                                                                                                       \
        TT_REDUCE_INDEPENDENT                                                                                          \
        for (uint64_t i = 0; i < count; i++) {                                                                         \
            accumulator[i] = tt_fp32_canonical(factor * tt_##type##_widen(from[i]));                                   \
        }                                                                                                              \
    }

#define NARROW(type, element)                                                                                          \
    static void narrow_##type(void *destination, const float *accumulator, uint64_t count)                             \
    {                                                                                                                  \
        element *to = destination;                                                                                     \
                                                                                                                       \
        TT_REDUCE_INDEPENDENT                                                                                          \
        for (uint64_t i = 0; i < count; i++) {                                                                         \
            to[i] = tt_##type##_narrow(accumulator[i]);                                                                \
        }                                                                                                              \
    }                                                                                                                  \
                                                                                                                       \
    static void narrow_divided_##type(void *destination, const float *accumulator, uint32_t divisor, uint64_t count)   \
    {                                                                                                                  \
        const float by = (float)divisor;                                                                               \
        element *to = destination;                                                                                     \
                                                                                                                       \
        TT_REDUCE_INDEPENDENT                                                                                          \
        for (uint64_t i = 0; i < count; i++) {                                                                         \
            to[i] = tt_##type##_narrow(accumulator[i] / by);                                                           \
        }                                                                                                              \
    }

static inline float least(float a, float b)
{
    return tt_fp32_of_bits((uint32_t)tt_fp32_min((int32_t)tt_fp32_bits(a), (int32_t)tt_fp32_bits(b)));
}

static inline float greatest(float a, float b)
{
    return tt_fp32_of_bits((uint32_t)tt_fp32_max((int32_t)tt_fp32_bits(a), (int32_t)tt_fp32_bits(b)));
}

#define WIDE(type, x)   tt_##type##_widen(x)
#define ROUND(type, x)  tt_##type##_narrow(x)
#define SCALED(type, x) ROUND(type, factor *WIDE(type, x))

#define SMALL(type, unsigned_type, signed_type)                                                                        \
    TT_REDUCE_COMBINE(sum_##type, tt_loose_##unsigned_type, ROUND(type, WIDE(type, a) + WIDE(type, b)))                \
    TT_REDUCE_COMBINE(product_##type, tt_loose_##unsigned_type, ROUND(type, WIDE(type, a) * WIDE(type, b)))            \
    TT_REDUCE_COMBINE(min_##type, tt_loose_##signed_type, tt_##type##_min(a, b))                                       \
    TT_REDUCE_COMBINE(max_##type, tt_loose_##signed_type, tt_##type##_max(a, b))                                       \
    TT_REDUCE_SCALE(scale_##type, tt_loose_##unsigned_type, tt_loose_fp32, SCALED(type, a))                            \
    TT_REDUCE_ADD_SCALED(add_scaled_##type, tt_loose_##unsigned_type, tt_loose_fp32,                                   \
                         ROUND(type, WIDE(type, a) + WIDE(type, SCALED(type, b))))                                     \
    TT_REDUCE_DIVIDE(divide_##type, tt_loose_##unsigned_type, float, ROUND(type, WIDE(type, a) / divisor))             \
    ACCUMULATE(accumulate_sum_##type, type, tt_loose_##unsigned_type, tt_fp32_canonical(acc + a))                      \
    ACCUMULATE(accumulate_product_##type, type, tt_loose_##unsigned_type, tt_fp32_canonical(acc *a))                   \
    ACCUMULATE(accumulate_min_##type, type, tt_loose_##unsigned_type, least(acc, a))                                   \
    ACCUMULATE(accumulate_max_##type, type, tt_loose_##unsigned_type, greatest(acc, a))                                \
    ACCUMULATE_SCALED(type, tt_loose_##unsigned_type)                                                                  \
    WIDEN(type, tt_loose_##unsigned_type)                                                                              \
    NARROW(type, tt_loose_##unsigned_type)                                                                             \
    static const struct tt_reduce_small small_##type = {                                                               \
        .widen = widen_##type,                                                                                         \
        .widen_scaled = widen_scaled_##type,                                                                           \
        .accumulate = {accumulate_sum_##type, accumulate_product_##type, accumulate_min_##type,                        \
                       accumulate_max_##type},                                                                         \
        .accumulate_scaled = accumulate_scaled_##type,                                                                 \
        .narrow = narrow_##type,                                                                                       \
        .narrow_divided = narrow_divided_##type,                                                                       \
    };

SMALL(fp8_e4m3, uint8, int8)
SMALL(fp8_e5m2, uint8, int8)
SMALL(fp16, uint16, int16)
SMALL(bf16, uint16, int16)

#define ROW(type)                                                                                                      \
    {                                                                                                                  \
        .combine = {sum_##type, product_##type, min_##type, max_##type}, .scale = scale_##type,                        \
        .add_scaled = add_scaled_##type, .divide = divide_##type, .small = &small_##type                               \
    }

const struct tt_reduce_row TT_REDUCE_VERSIONED(tt_reduce_small_rows)[TT_REDUCE_SMALLS] = {ROW(fp8_e4m3), ROW(fp8_e5m2),
                                                                                          ROW(fp16), ROW(bf16)};
