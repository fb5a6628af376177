/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of reduction kernels, and what their files share. reduce_integer.c, reduce_small.c and reduce_float.c are
 * compiled once for each version (src/offload/meson.build), with TT_REDUCE_VERSION as the ending of what they define.
 *
 * All kernels take any count and any alignment. `destination` is exactly an operand, or apart from it.
 */
#ifndef TT_OFFLOAD_REDUCE_KERNELS_H
#define TT_OFFLOAD_REDUCE_KERNELS_H

#include <stdint.h>

#include "base/element.h"

enum {
    TT_REDUCE_STEPS = TT_REDUCE_XOR + 1, /* the operations that have a kernel: the first ones */
    TT_REDUCE_INTEGERS = TT_TYPE_UINT64 - TT_TYPE_INT8 + 1,
    TT_REDUCE_SMALLS = TT_TYPE_BF16 - TT_TYPE_FP8_E4M3 + 1,
    TT_REDUCE_FLOATS = TT_TYPE_FP64 - TT_TYPE_FP32 + 1,
};

/* destination = left operation right */
typedef void tt_combine_kernel(void *destination, const void *left, const void *right, uint64_t count);
/* destination = factor * source; the factor is one element of the type's accumulator */
typedef void tt_scale_kernel(void *destination, const void *source, const void *factor, uint64_t count);
/* destination = left + factor * right, the product rounded to the type as the scale kernel does */
typedef void tt_add_scaled_kernel(void *destination, const void *left, const void *right, const void *factor,
                                  uint64_t count);
/* destination = source / divisor */
typedef void tt_divide_kernel(void *destination, const void *source, uint32_t divisor, uint64_t count);

/* Of a small float: chains that add up in fp32 and are rounded once. */
struct tt_reduce_small {
    void (*widen)(float *accumulator, const void *source, uint64_t count);
    void (*widen_scaled)(float *accumulator, const void *source, float factor, uint64_t count);
    void (*accumulate[TT_REDUCE_STEPS])(float *accumulator, const void *operand, uint64_t count);
    void (*accumulate_scaled)(float *accumulator, const void *operand, float factor, uint64_t count);
    void (*narrow)(void *destination, const float *accumulator, uint64_t count);
    void (*narrow_divided)(void *destination, const float *accumulator, uint32_t divisor, uint64_t count);
};

struct tt_reduce_row {
    tt_combine_kernel *combine[TT_REDUCE_STEPS]; /* NULL: the type has no such operation */
    tt_scale_kernel *scale;
    tt_add_scaled_kernel *add_scaled;
    tt_divide_kernel *divide;
    const struct tt_reduce_small *small; /* NULL: not a small float */
};

#define TT_REDUCE_PASTE_(name, version) name##_##version
#define TT_REDUCE_PASTE(name, version)  TT_REDUCE_PASTE_(name, version)
#define TT_REDUCE_VERSIONED(name)       TT_REDUCE_PASTE(name, TT_REDUCE_VERSION)

/* Each version's rows, in the order of enum tt_type. */
#define TT_REDUCE_DECLARE_ROWS(version)                                                                                \
    extern const struct tt_reduce_row tt_reduce_integer_rows_##version[TT_REDUCE_INTEGERS];                            \
    extern const struct tt_reduce_row tt_reduce_small_rows_##version[TT_REDUCE_SMALLS];                                \
    extern const struct tt_reduce_row tt_reduce_float_rows_##version[TT_REDUCE_FLOATS];
TT_REDUCE_DECLARE_ROWS(plain)
TT_REDUCE_DECLARE_ROWS(avx2)
TT_REDUCE_DECLARE_ROWS(avx512)
#undef TT_REDUCE_DECLARE_ROWS

/* Elements wherever they are, in memory of any declared type: a user's buffer, or a packet. */
#define TT_LOOSE __attribute__((aligned(1), may_alias))
typedef int8_t TT_LOOSE tt_loose_int8;
typedef int16_t TT_LOOSE tt_loose_int16;
typedef int32_t TT_LOOSE tt_loose_int32;
typedef int64_t TT_LOOSE tt_loose_int64;
typedef uint8_t TT_LOOSE tt_loose_uint8;
typedef uint16_t TT_LOOSE tt_loose_uint16;
typedef uint32_t TT_LOOSE tt_loose_uint32;
typedef uint64_t TT_LOOSE tt_loose_uint64;
typedef float TT_LOOSE tt_loose_fp32;
typedef double TT_LOOSE tt_loose_fp64;

/*
 * Before a loop: no iteration reads what another one writes. Without it compilers check for overlap at run time, and
 * some take a buffer that is reduced in place for one that overlaps, and go on element by element.
 */
#if defined(__clang__)
#define TT_REDUCE_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define TT_REDUCE_INDEPENDENT _Pragma("GCC ivdep")
#endif

/* Kernel bodies: `expression` makes an element of `a` (left, source), `b` (right) and `factor` or `divisor`. */
#define TT_REDUCE_COMBINE(name, element, expression)                                                                   \
    static void name(void *destination, const void *left, const void *right, uint64_t count)                           \
    {                                                                                                                  \
        const element *from_left = left, *from_right = right;                                                          \
        element *to = destination;                                                                                     \
                                                                                                                       \
        TT_REDUCE_INDEPENDENT                                                                                          \
        for (uint64_t i = 0; i < count; i++) {                                                                         \
            const element a = from_left[i], b = from_right[i];                                                         \
                                                                                                                       \
            to[i] = (element)(expression);                                                                             \
        }                                                                                                              \
    }

#define TT_REDUCE_SCALE(name, element, factor_element, expression)                                                     \
    static void name(void *destination, const void *source, const void *factor_at, uint64_t count)                     \
    {                                                                                                                  \
        const factor_element factor = *(const factor_element *)factor_at;                                              \
        const element *from = source;                                                                                  \
        element *to = destination;                                                                                     \
                                                                                                                       \
        TT_REDUCE_INDEPENDENT                                                                                          \
        for (uint64_t i = 0; i < count; i++) {                                                                         \
            const element a = from[i];                                                                                 \
                                                                                                                       \
            to[i] = (element)(expression);                                                                             \
        }                                                                                                              \
    }

#define TT_REDUCE_ADD_SCALED(name, element, factor_element, expression)                                                \
    static void name(void *destination, const void *left, const void *right, const void *factor_at, uint64_t count)    \
    {                                                                                                                  \
        const factor_element factor = *(const factor_element *)factor_at;                                              \
        const element *from_left = left, *from_right = right;                                                          \
        element *to = destination;                                                                                     \
                                                                                                                       \
        TT_REDUCE_INDEPENDENT                                                                                          \
        for (uint64_t i = 0; i < count; i++) {                                                                         \
            const element a = from_left[i], b = from_right[i];                                                         \
                                                                                                                       \
            to[i] = (element)(expression);                                                                             \
        }                                                                                                              \
    }

#define TT_REDUCE_DIVIDE(name, element, divisor_type, expression)                                                      \
    static void name(void *destination, const void *source, uint32_t divisor_count, uint64_t count)                    \
    {                                                                                                                  \
        const divisor_type divisor = (divisor_type)divisor_count;                                                      \
        const element *from = source;                                                                                  \
        element *to = destination;                                                                                     \
                                                                                                                       \
        TT_REDUCE_INDEPENDENT                                                                                          \
        for (uint64_t i = 0; i < count; i++) {                                                                         \
            const element a = from[i];                                                                                 \
                                                                                                                       \
            to[i] = (element)(expression);                                                                             \
        }                                                                                                              \
    }

#endif
