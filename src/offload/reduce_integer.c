/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: reduction kernels of integers. Compiled once for each version; see reduce_kernels.h.
 *
 * Normal path: sums and products are computed in unsigned arithmetic of at least 32 bits, so that they wrap and no
 * promotion to int overflows; they, and the operations on bits, are the same for signed and unsigned. A quotient is
 * truncated. Where the element has up to 16 bits it comes from a float division, up to 32 bits from one of doubles,
 * which vectors have and which is exact here: the quotient of integers x / p is an integer, or at least 1 / p away from
 * the next one, which is more than half a unit in the last place as long as x * 2 is below 2^24, or 2^53.
 */
#include "offload/reduce_kernels.h"

#define WRAPPING(bits, wide)                                                                                           \
    TT_REDUCE_COMBINE(sum_##bits, tt_loose_uint##bits, (wide)a + (wide)b)                                              \
    TT_REDUCE_COMBINE(product_##bits, tt_loose_uint##bits, (wide)a *(wide)b)                                           \
    TT_REDUCE_COMBINE(and_##bits, tt_loose_uint##bits, a &b)                                                           \
    TT_REDUCE_COMBINE(or_##bits, tt_loose_uint##bits, a | b)                                                           \
    TT_REDUCE_COMBINE(xor_##bits, tt_loose_uint##bits, a ^ b)                                                          \
    TT_REDUCE_SCALE(scale_##bits, tt_loose_uint##bits, tt_loose_uint##bits, (wide)factor *(wide)a)                     \
    TT_REDUCE_ADD_SCALED(add_scaled_##bits, tt_loose_uint##bits, tt_loose_uint##bits, (wide)a + (wide)factor * (wide)b)

WRAPPING(8, uint32_t)
WRAPPING(16, uint32_t)
WRAPPING(32, uint32_t)
WRAPPING(64, uint64_t)

#define ORDERED(type)                                                                                                  \
    TT_REDUCE_COMBINE(min_##type, tt_loose_##type, b < a ? b : a)                                                      \
    TT_REDUCE_COMBINE(max_##type, tt_loose_##type, b > a ? b : a)

ORDERED(int8)
ORDERED(int16)
ORDERED(int32)
ORDERED(int64)
ORDERED(uint8)
ORDERED(uint16)
ORDERED(uint32)
ORDERED(uint64)

TT_REDUCE_DIVIDE(divide_int8, tt_loose_int8, float, (int32_t)((float)a / divisor))
TT_REDUCE_DIVIDE(divide_int16, tt_loose_int16, float, (int32_t)((float)a / divisor))
TT_REDUCE_DIVIDE(divide_int32, tt_loose_int32, double, (int32_t)((double)a / divisor))
TT_REDUCE_DIVIDE(divide_int64, tt_loose_int64, int64_t, a / divisor)
TT_REDUCE_DIVIDE(divide_uint8, tt_loose_uint8, float, (int32_t)((float)a / divisor))
TT_REDUCE_DIVIDE(divide_uint16, tt_loose_uint16, float, (int32_t)((float)a / divisor))
TT_REDUCE_DIVIDE(divide_uint32, tt_loose_uint32, double, (int64_t)((double)a / divisor))
TT_REDUCE_DIVIDE(divide_uint64, tt_loose_uint64, uint64_t, a / divisor)

#define ROW(type, bits)                                                                                                \
    {                                                                                                                  \
        .combine = {sum_##bits, product_##bits, min_##type, max_##type, and_##bits, or_##bits, xor_##bits},            \
        .scale = scale_##bits, .add_scaled = add_scaled_##bits, .divide = divide_##type                                \
    }

const struct tt_reduce_row TT_REDUCE_VERSIONED(tt_reduce_integer_rows)[TT_REDUCE_INTEGERS] = {
    ROW(int8, 8),  ROW(int16, 16),  ROW(int32, 32),  ROW(int64, 64),
    ROW(uint8, 8), ROW(uint16, 16), ROW(uint32, 32), ROW(uint64, 64),
};
