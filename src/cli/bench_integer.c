/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: what integers must give, modulo 2^bits, written apart from the library's own kernels; and opaque elements.
 *
 * Normal path: the elements of the lowest rank, then those of the others combined into them, in the order of ranks.
 *
 * Failures: none.
 */
#include "cli/bench_integer.h"

#include <string.h>

enum { RUN_BYTES = TT_BENCH_RUN * TT_BENCH_OPAQUE_BYTES };

typedef void step_function(enum tt_reduce_operation operation, uint64_t factor, void *sum, const void *elements);
typedef void divide_function(void *sum, uint32_t rank_count);

#define EACH(statement)                                                                                                \
    for (unsigned i = 0; i < TT_BENCH_RUN; i++) {                                                                      \
        statement;                                                                                                     \
    }                                                                                                                  \
    break

/* `wide` is unsigned and no narrower than an int, so that nothing overflows where it must wrap. */
#define INTEGER(name, type, wide, quotient_type)                                                                       \
    static void step_##name(enum tt_reduce_operation operation, uint64_t factor, void *sum, const void *elements)      \
    {                                                                                                                  \
        typedef type __attribute__((may_alias)) element;                                                               \
        element *a = sum;                                                                                              \
        const element *b = elements;                                                                                   \
        switch (operation) {                                                                                           \
        case TT_REDUCE_PRODUCT:                                                                                        \
            EACH(a[i] = (type)((wide)a[i] * (wide)b[i]));                                                              \
        case TT_REDUCE_MIN:                                                                                            \
            EACH(a[i] = b[i] < a[i] ? b[i] : a[i]);                                                                    \
        case TT_REDUCE_MAX:                                                                                            \
            EACH(a[i] = b[i] > a[i] ? b[i] : a[i]);                                                                    \
        case TT_REDUCE_AND:                                                                                            \
            EACH(a[i] = (type)(a[i] & b[i]));                                                                          \
        case TT_REDUCE_OR:                                                                                             \
            EACH(a[i] = (type)(a[i] | b[i]));                                                                          \
        case TT_REDUCE_XOR:                                                                                            \
            EACH(a[i] = (type)(a[i] ^ b[i]));                                                                          \
        default:                                                                                                       \
            EACH(a[i] = (type)((wide)a[i] + (wide)factor * (wide)b[i]));                                               \
        }                                                                                                              \
    }                                                                                                                  \
    static void divide_##name(void *sum, uint32_t rank_count)                                                          \
    {                                                                                                                  \
        typedef type __attribute__((may_alias)) element;                                                               \
        element *a = sum;                                                                                              \
        for (unsigned i = 0; i < TT_BENCH_RUN; i++) {                                                                  \
            a[i] = (type)((quotient_type)a[i] / (quotient_type)rank_count);                                            \
        }                                                                                                              \
    }

INTEGER(int8, int8_t, uint32_t, int64_t)
INTEGER(int16, int16_t, uint32_t, int64_t)
INTEGER(int32, int32_t, uint32_t, int64_t)
INTEGER(int64, int64_t, uint64_t, int64_t)
INTEGER(uint8, uint8_t, uint32_t, uint64_t)
INTEGER(uint16, uint16_t, uint32_t, uint64_t)
INTEGER(uint32, uint32_t, uint32_t, uint64_t)
INTEGER(uint64, uint64_t, uint64_t, uint64_t)

static const struct {
    step_function *step;
    divide_function *divide;
} integers[] = {
    [TT_TYPE_INT8] = {step_int8, divide_int8},       [TT_TYPE_INT16] = {step_int16, divide_int16},
    [TT_TYPE_INT32] = {step_int32, divide_int32},    [TT_TYPE_INT64] = {step_int64, divide_int64},
    [TT_TYPE_UINT8] = {step_uint8, divide_uint8},    [TT_TYPE_UINT16] = {step_uint16, divide_uint16},
    [TT_TYPE_UINT32] = {step_uint32, divide_uint32}, [TT_TYPE_UINT64] = {step_uint64, divide_uint64},
};

static bool adds(enum tt_reduce_operation operation)
{
    return tt_reduce_operation_row(operation)->step == TT_REDUCE_SUM;
}

void tt_bench_integer_expect(const struct tt_bench_elements *elements, uint64_t round, uint64_t run, void *out)
{
    _Alignas(64) uint8_t next[RUN_BYTES] = {0};
    const enum tt_reduce_operation operation = elements->operation;

    memset(out, 0, (size_t)TT_BENCH_RUN * elements->element_bytes);
    for (uint32_t rank = 0; rank < elements->rank_count; rank++) {
        const bool premultiplies = operation == TT_REDUCE_PREMULTIPLIED_SUM;
        uint64_t factor = premultiplies ? (uint64_t)tt_bench_factor(elements->type, rank) : 1;
        if (rank == 0 && !adds(operation)) {
            tt_bench_elements_run(elements, rank, round, run, out);
            continue;
        }
        tt_bench_elements_run(elements, rank, round, run, next);
        if (elements->type == TT_TYPE_OPAQUE) {
            tt_bench_compose(out, out, next, TT_BENCH_RUN, NULL);
        } else {
            integers[elements->type].step(operation, factor, out, next);
        }
    }
    if (operation == TT_REDUCE_AVERAGE) {
        integers[elements->type].divide(out, elements->rank_count);
    }
}
