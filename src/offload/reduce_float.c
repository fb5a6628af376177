/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: reduction kernels of fp32 and fp64. Compiled once for each version; see reduce_kernels.h.
 *
 * Normal path: each operation is rounded by itself, so that all versions give the same bits: a product and a sum are
 * never contracted to one rounding (-ffp-contract=off in src/offload/meson.build), and NaNs are made the same.
 */
#include "offload/reduce_kernels.h"
#include "offload/reduce_order.h"

/* 0: each operation in its operands' type; 16: the same, but for _Float16, which is not used. */
_Static_assert(__FLT_EVAL_METHOD__ == 0 || __FLT_EVAL_METHOD__ == 16, "operations are rounded to their type");

#define FLOATS(type, number, integer)                                                                                  \
    TT_REDUCE_COMBINE(sum_##type, tt_loose_##type, tt_##type##_canonical(a + b))                                       \
    TT_REDUCE_COMBINE(product_##type, tt_loose_##type, tt_##type##_canonical(a *b))                                    \
    TT_REDUCE_COMBINE(min_##type, tt_loose_##integer, tt_##type##_min(a, b))                                           \
    TT_REDUCE_COMBINE(max_##type, tt_loose_##integer, tt_##type##_max(a, b))                                           \
    TT_REDUCE_SCALE(scale_##type, tt_loose_##type, tt_loose_##type, tt_##type##_canonical(factor *a))                  \
    TT_REDUCE_ADD_SCALED(add_scaled_##type, tt_loose_##type, tt_loose_##type, tt_##type##_canonical(a + factor * b))   \
    TT_REDUCE_DIVIDE(divide_##type, tt_loose_##type, number, tt_##type##_canonical(a / divisor))

FLOATS(fp32, float, int32)
FLOATS(fp64, double, int64)

#define ROW(type)                                                                                                      \
    {                                                                                                                  \
        .combine = {sum_##type, product_##type, min_##type, max_##type}, .scale = scale_##type,                        \
        .add_scaled = add_scaled_##type, .divide = divide_##type                                                       \
    }

const struct tt_reduce_row TT_REDUCE_VERSIONED(tt_reduce_float_rows)[TT_REDUCE_FLOATS] = {ROW(fp32), ROW(fp64)};
