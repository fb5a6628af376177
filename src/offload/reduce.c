/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: from a type and an operation to the kernel, in the version that suits the processor.
 *
 * Normal path: who asks first what is supported gets a status; then kernels are called, which cannot fail.
 *
 * Failures: what makes no sense (xor of floats) is refused with what there is instead. Whoever calls a step with it, or
 * with buffers that overlap in part, has made a programmer's error.
 */
#include "offload/reduce.h"

#include <assert.h>
#include <stddef.h>

#include "base/log.h"
#include "base/processor.h"

struct version {
    const char *name;
    const struct tt_reduce_row *integers, *smalls, *floats;
};

#define ROWS(name) tt_reduce_integer_rows_##name, tt_reduce_small_rows_##name, tt_reduce_float_rows_##name

/* By enum tt_processor_level; meson.build compiles the same ones. */
static const struct version versions[] = {
    {"plain", ROWS(plain)},
#if defined(__x86_64__)
    {"avx2", ROWS(avx2)},
    {"avx512", ROWS(avx512)},
#endif
};

unsigned tt_reduce_version_count(void)
{
    const unsigned built = sizeof(versions) / sizeof(versions[0]), level = (unsigned)tt_processor_level();

    return level < built ? level + 1 : built;
}

const char *tt_reduce_version_name(unsigned version)
{
    assert(version < tt_reduce_version_count());
    return versions[version].name;
}

const struct tt_reduce_row *tt_reduce_version_row(unsigned version, enum tt_type type)
{
    const struct version *rows = &versions[version];

    assert(version < tt_reduce_version_count() && type < TT_TYPE_OPAQUE);
    if (type >= TT_TYPE_FP32) {
        return &rows->floats[type - TT_TYPE_FP32];
    }
    return type >= TT_TYPE_FP8_E4M3 ? &rows->smalls[type - TT_TYPE_FP8_E4M3] : &rows->integers[type - TT_TYPE_INT8];
}

static const struct tt_reduce_row *row_of(enum tt_type type)
{
    return tt_reduce_version_row(tt_reduce_version_count() - 1, type);
}

static tt_combine_kernel *combine_of(enum tt_type type, enum tt_reduce_operation operation)
{
    enum tt_reduce_operation step = tt_reduce_operation_row(operation)->step;
    tt_combine_kernel *combine = (unsigned)step < TT_REDUCE_STEPS ? row_of(type)->combine[step] : NULL;

    assert(combine != NULL);
    return combine;
}

static const struct tt_reduce_small *small_of(enum tt_type type)
{
    const struct tt_reduce_small *small = row_of(type)->small;

    assert(small != NULL);
    return small;
}

tutti_status tt_reduce_supported(unsigned type, unsigned operation)
{
    const struct tt_type_row *elements = tt_type_row(type);
    const struct tt_reduce_operation_row *row = tt_reduce_operation_row(operation);

    if (type >= TT_TYPE_COUNT || operation >= TT_REDUCE_OPERATION_COUNT) {
        return tt_error_note(TUTTI_ERR_INVALID_ARGUMENT, "a reduction with type %u and operation %u: no such %s", type,
                             operation, type >= TT_TYPE_COUNT ? "type" : "operation");
    }
    if (elements->class == TT_CLASS_OPAQUE && operation != TT_REDUCE_USER) {
        return tt_error_note(TUTTI_ERR_INVALID_ARGUMENT,
                             "%s: not defined for opaque elements, which only a user's function can reduce", row->name);
    }
    if (elements->class == TT_CLASS_FLOAT && !row->takes_floats) {
        return tt_error_note(TUTTI_ERR_INVALID_ARGUMENT,
                             "%s: not defined for %s: floats have sum, product, min, max, average, premultiplied-sum "
                             "and a user's function",
                             row->name, elements->name);
    }
    return TUTTI_OK;
}

/* Whether `destination` of so many bytes is `source`, or apart from it. */
static bool is_same_or_apart(const void *destination, uint64_t destination_bytes, const void *source,
                             uint64_t source_bytes)
{
    uintptr_t to = (uintptr_t)destination, from = (uintptr_t)source;

    return (to == from && destination_bytes == source_bytes) ||
           (to < from ? from - to >= destination_bytes : to - from >= source_bytes);
}

static bool is_in_order(enum tt_type type, const void *destination, const void *source, uint64_t count)
{
    uint64_t bytes = count * tt_type_row(type)->bytes;

    return count == 0 || is_same_or_apart(destination, bytes, source, bytes);
}

/* The same with an accumulator: its elements are wider, so that it must be apart. */
static bool is_apart(enum tt_type type, const float *accumulator, const void *elements, uint64_t count)
{
    return count == 0 ||
           is_same_or_apart(accumulator, count * sizeof(float), elements, count * tt_type_row(type)->bytes);
}

/* --- Steps -------------------------------------------------------------------------------------------------------- */

void tt_reduce(enum tt_type type, enum tt_reduce_operation operation, void *accumulator, const void *operand,
               uint64_t count)
{
    tt_reduce_to(type, operation, accumulator, accumulator, operand, count);
}

void tt_reduce_to(enum tt_type type, enum tt_reduce_operation operation, void *destination, const void *left,
                  const void *right, uint64_t count)
{
    assert(is_in_order(type, destination, left, count) && is_in_order(type, destination, right, count));
    combine_of(type, operation)(destination, left, right, count);
}

void tt_reduce_scale(enum tt_type type, void *destination, const void *source, const void *factor, uint64_t count)
{
    assert(is_in_order(type, destination, source, count));
    row_of(type)->scale(destination, source, factor, count);
}

void tt_reduce_add_scaled(enum tt_type type, void *destination, const void *left, const void *right, const void *factor,
                          uint64_t count)
{
    assert(is_in_order(type, destination, left, count) && is_in_order(type, destination, right, count));
    row_of(type)->add_scaled(destination, left, right, factor, count);
}

void tt_reduce_divide(enum tt_type type, void *destination, const void *source, uint32_t rank_count, uint64_t count)
{
    assert(is_in_order(type, destination, source, count));
    assert(rank_count > 0 && rank_count <= TT_REDUCE_DIVISOR_LIMIT);
    row_of(type)->divide(destination, source, rank_count, count);
}

/* --- Chains ------------------------------------------------------------------------------------------------------- */

void tt_reduce_widen(enum tt_type type, float *accumulator, const void *source, uint64_t count)
{
    assert(is_apart(type, accumulator, source, count));
    small_of(type)->widen(accumulator, source, count);
}

void tt_reduce_widen_scaled(enum tt_type type, float *accumulator, const void *source, float factor, uint64_t count)
{
    assert(is_apart(type, accumulator, source, count));
    small_of(type)->widen_scaled(accumulator, source, factor, count);
}

void tt_reduce_accumulate(enum tt_type type, enum tt_reduce_operation operation, float *accumulator,
                          const void *operand, uint64_t count)
{
    enum tt_reduce_operation step = tt_reduce_operation_row(operation)->step;

    assert(step <= TT_REDUCE_MAX && is_apart(type, accumulator, operand, count));
    small_of(type)->accumulate[step](accumulator, operand, count);
}

void tt_reduce_accumulate_scaled(enum tt_type type, float *accumulator, const void *operand, float factor,
                                 uint64_t count)
{
    assert(is_apart(type, accumulator, operand, count));
    small_of(type)->accumulate_scaled(accumulator, operand, factor, count);
}

void tt_reduce_narrow(enum tt_type type, void *destination, const float *accumulator, uint32_t rank_count,
                      uint64_t count)
{
    const struct tt_reduce_small *small = small_of(type);

    assert(is_apart(type, accumulator, destination, count));
    assert(rank_count > 0 && rank_count <= TT_REDUCE_DIVISOR_LIMIT);
    if (rank_count == 1) {
        small->narrow(destination, accumulator, count);
    } else {
        small->narrow_divided(destination, accumulator, rank_count, count);
    }
}

/* --- Reductions --------------------------------------------------------------------------------------------------- */

tutti_status tt_reduction_init(struct tt_reduction *reduction, unsigned type, unsigned operation)
{
    tutti_status status = tt_reduce_supported(type, operation);

    assert(operation != TT_REDUCE_USER);
    if (status == TUTTI_OK) {
        *reduction =
            (struct tt_reduction){.type = (enum tt_type)type,
                                  .operation = (enum tt_reduce_operation)operation,
                                  .element_bytes = tt_type_row(type)->bytes,
                                  .is_commutative = true,
                                  .combine = combine_of((enum tt_type)type, (enum tt_reduce_operation)operation)};
    }
    return status;
}

tutti_status tt_reduction_init_user(struct tt_reduction *reduction, unsigned type, uint32_t element_bytes,
                                    tt_reduce_function *function, void *context, bool is_commutative)
{
    tutti_status status = tt_reduce_supported(type, TT_REDUCE_USER);
    const struct tt_type_row *row = tt_type_row(type);

    if (status != TUTTI_OK) {
        return status;
    }
    if (function == NULL) {
        return tt_error_note(TUTTI_ERR_INVALID_ARGUMENT, "a user's operation without a function");
    }
    if (element_bytes == 0 || (row->bytes != 0 && element_bytes != row->bytes)) {
        return tt_error_note(TUTTI_ERR_INVALID_ARGUMENT, "a user's operation on %s elements of %u bytes", row->name,
                             element_bytes);
    }
    *reduction = (struct tt_reduction){.type = (enum tt_type)type,
                                       .operation = TT_REDUCE_USER,
                                       .element_bytes = element_bytes,
                                       .is_commutative = is_commutative,
                                       .function = function,
                                       .context = context};
    return TUTTI_OK;
}

void tt_reduction_combine(const struct tt_reduction *reduction, void *destination, const void *left, const void *right,
                          uint64_t count)
{
    if (count == 0) {
        return;
    }
    assert(is_same_or_apart(destination, count * reduction->element_bytes, left, count * reduction->element_bytes));
    assert(is_same_or_apart(destination, count * reduction->element_bytes, right, count * reduction->element_bytes));
    if (reduction->combine != NULL) {
        reduction->combine(destination, left, right, count);
    } else {
        reduction->function(destination, left, right, count, reduction->context);
    }
}
