/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The types of elements and the operations of reductions: values that travel between ranks. What they mean exactly is
 * in docs/reductions.md; which goes with which, and the kernels, in offload/reduce.h.
 */
#ifndef TT_BASE_ELEMENT_H
#define TT_BASE_ELEMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "tutti/status.h"

enum tt_element_class { TT_CLASS_SIGNED, TT_CLASS_UNSIGNED, TT_CLASS_FLOAT, TT_CLASS_OPAQUE };

/*
 * X(TYPE, as users write it, bytes, class, type in which chains of reductions add up). Those that add up in fp32 are
 * the small floats. Opaque elements have the size that their user gives.
 */
#define TT_TYPES(X)                                                                                                    \
    X(INT8, "int8", 1, SIGNED, INT8)                                                                                   \
    X(INT16, "int16", 2, SIGNED, INT16)                                                                                \
    X(INT32, "int32", 4, SIGNED, INT32)                                                                                \
    X(INT64, "int64", 8, SIGNED, INT64)                                                                                \
    X(UINT8, "uint8", 1, UNSIGNED, UINT8)                                                                              \
    X(UINT16, "uint16", 2, UNSIGNED, UINT16)                                                                           \
    X(UINT32, "uint32", 4, UNSIGNED, UINT32)                                                                           \
    X(UINT64, "uint64", 8, UNSIGNED, UINT64)                                                                           \
    X(FP8_E4M3, "fp8-e4m3", 1, FLOAT, FP32)                                                                            \
    X(FP8_E5M2, "fp8-e5m2", 1, FLOAT, FP32)                                                                            \
    X(FP16, "fp16", 2, FLOAT, FP32)                                                                                    \
    X(BF16, "bf16", 2, FLOAT, FP32)                                                                                    \
    X(FP32, "fp32", 4, FLOAT, FP32)                                                                                    \
    X(FP64, "fp64", 8, FLOAT, FP64)                                                                                    \
    X(OPAQUE, "opaque", 0, OPAQUE, OPAQUE)

#define TT_TYPE_VALUE(type, ...) TT_TYPE_##type,
enum tt_type { TT_TYPES(TT_TYPE_VALUE) TT_TYPE_COUNT };
#undef TT_TYPE_VALUE

/*
 * X(OPERATION, as users write it, operation of each step, whether floats have it). Average is a sum that is divided at
 * the end, a pre-multiplied sum one of elements that their own rank has multiplied: both are sums at each step.
 */
#define TT_REDUCE_OPERATIONS(X)                                                                                        \
    X(SUM, "sum", SUM, true)                                                                                           \
    X(PRODUCT, "product", PRODUCT, true)                                                                               \
    X(MIN, "min", MIN, true)                                                                                           \
    X(MAX, "max", MAX, true)                                                                                           \
    X(AND, "and", AND, false)                                                                                          \
    X(OR, "or", OR, false)                                                                                             \
    X(XOR, "xor", XOR, false)                                                                                          \
    X(AVERAGE, "average", SUM, true)                                                                                   \
    X(PREMULTIPLIED_SUM, "premultiplied-sum", SUM, true)                                                               \
    X(USER, "user", USER, true)

#define TT_REDUCE_OPERATION_VALUE(operation, ...) TT_REDUCE_##operation,
enum tt_reduce_operation { TT_REDUCE_OPERATIONS(TT_REDUCE_OPERATION_VALUE) TT_REDUCE_OPERATION_COUNT };
#undef TT_REDUCE_OPERATION_VALUE

struct tt_type_row {
    const char *name;
    uint32_t bytes; /* of an element; 0: opaque */
    enum tt_element_class class;
    enum tt_type accumulator; /* in which chains of reductions add up, and factors are given */
};

struct tt_reduce_operation_row {
    const char *name;
    enum tt_reduce_operation step; /* what is done with two elements */
    bool takes_floats;
};

/* Of a value that is none: a row whose name says so, with the class opaque, or the step USER. */
const struct tt_type_row *tt_type_row(unsigned type);
const struct tt_reduce_operation_row *tt_reduce_operation_row(unsigned operation);

/* By name, exactly as in the tables; the error's text lists the names. */
tutti_status tt_type_parse(const char *text, enum tt_type *type);
tutti_status tt_reduce_operation_parse(const char *text, enum tt_reduce_operation *operation);

/* Whether chains of reductions over this type add up in fp32, and are rounded at their end. */
static inline bool tt_type_is_small_float(unsigned type)
{
    const struct tt_type_row *row = tt_type_row(type);

    return row->class == TT_CLASS_FLOAT && row->accumulator != type;
}

#endif
