/* SPDX-License-Identifier: BSD-3-Clause */
/* All versions of a kernel give the same bits, and built-in operations are commutative to the bit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/processor.h"
#include "offload/reduce.h"
#include "reduce_reference.h"
#include "skip.h"

enum { MANY = 50001, BYTES = MANY * REFERENCE_ELEMENT_BYTES, DIVISOR = 5 };

static char a[BYTES], b[BYTES], first[BYTES], other[BYTES];
static float first_accumulator[MANY], other_accumulator[MANY], before[MANY];

static void compare(const char *what, unsigned version, enum tt_type type, const void *one, const void *two)
{
    uint32_t bytes = tt_type_row(type)->bytes;

    for (size_t i = 0; i < MANY; i++) {
        const char *x = (const char *)one + i * bytes, *y = (const char *)two + i * bytes;

        if (memcmp(x, y, bytes) != 0) {
            fail_msg("%s, %s: element %zu is %llx in version %s and %llx in version %s", what, tt_type_row(type)->name,
                     i, (unsigned long long)reference_bits(type, x), tt_reduce_version_name(0),
                     (unsigned long long)reference_bits(type, y), tt_reduce_version_name(version));
        }
    }
}

static void compare_steps(unsigned version, enum tt_type type, const void *factor)
{
    const struct tt_reduce_row *plain = tt_reduce_version_row(0, type), *row = tt_reduce_version_row(version, type);

    for (unsigned step = 0; step < TT_REDUCE_STEPS; step++) {
        assert_true((plain->combine[step] == NULL) == (row->combine[step] == NULL));
        if (plain->combine[step] != NULL && row->combine[step] != NULL) {
            plain->combine[step](first, a, b, MANY);
            row->combine[step](other, a, b, MANY);
            compare(tt_reduce_operation_row(step)->name, version, type, first, other);
        }
    }
    plain->scale(first, a, factor, MANY);
    row->scale(other, a, factor, MANY);
    compare("scale", version, type, first, other);
    plain->add_scaled(first, a, b, factor, MANY);
    row->add_scaled(other, a, b, factor, MANY);
    compare("add scaled", version, type, first, other);
    plain->divide(first, a, DIVISOR, MANY);
    row->divide(other, a, DIVISOR, MANY);
    compare("divide", version, type, first, other);
}

static void compare_chains(unsigned version, enum tt_type type, float factor)
{
    const struct tt_reduce_small *plain = tt_reduce_version_row(0, type)->small;
    const struct tt_reduce_small *small = tt_reduce_version_row(version, type)->small;

    plain->widen(first_accumulator, a, MANY);
    small->widen(other_accumulator, a, MANY);
    compare("widen", version, TT_TYPE_FP32, first_accumulator, other_accumulator);
    plain->widen_scaled(first_accumulator, a, factor, MANY);
    small->widen_scaled(other_accumulator, a, factor, MANY);
    compare("widen scaled", version, TT_TYPE_FP32, first_accumulator, other_accumulator);
    for (unsigned step = TT_REDUCE_SUM; step <= TT_REDUCE_MAX; step++) {
        memcpy(first_accumulator, before, sizeof(before));
        memcpy(other_accumulator, before, sizeof(before));
        plain->accumulate[step](first_accumulator, b, MANY);
        small->accumulate[step](other_accumulator, b, MANY);
        compare("accumulate", version, TT_TYPE_FP32, first_accumulator, other_accumulator);
    }
    plain->accumulate_scaled(first_accumulator, a, factor, MANY);
    small->accumulate_scaled(other_accumulator, a, factor, MANY);
    compare("accumulate scaled", version, TT_TYPE_FP32, first_accumulator, other_accumulator);
    plain->narrow(first, before, MANY);
    small->narrow(other, before, MANY);
    compare("narrow", version, type, first, other);
    plain->narrow_divided(first, before, DIVISOR, MANY);
    small->narrow_divided(other, before, DIVISOR, MANY);
    compare("narrow divided", version, type, first, other);
}

static void all_versions_give_the_same_bits(void **state)
{
    struct tt_random random;

    (void)state;
    if (tt_reduce_version_count() < 2) {
        TT_SKIP("this processor runs one version of the kernels only");
    }
    tt_random_init(&random, 8);
    for (unsigned round = 0; round < 4; round++) {
        reference_fill(TT_TYPE_FP32, &random, before, MANY);
        for (unsigned type = 0; type < TT_TYPE_OPAQUE; type++) {
            char factor[REFERENCE_ELEMENT_BYTES];

            reference_fill(type, &random, a, MANY);
            reference_fill(type, &random, b, MANY);
            reference_fill(tt_type_row(type)->accumulator, &random, factor, 1);
            for (unsigned version = 1; version < tt_reduce_version_count(); version++) {
                compare_steps(version, type, factor);
                if (tt_type_is_small_float(type)) {
                    float factor_fp32;

                    memcpy(&factor_fp32, factor, sizeof(factor_fp32));
                    compare_chains(version, type, factor_fp32);
                }
            }
        }
    }
}

static void built_in_operations_are_commutative_to_the_bit(void **state)
{
    struct tt_random random;

    (void)state;
    tt_random_init(&random, 9);
    for (unsigned version = 0; version < tt_reduce_version_count(); version++) {
        for (unsigned type = 0; type < TT_TYPE_OPAQUE; type++) {
            const struct tt_reduce_row *row = tt_reduce_version_row(version, type);

            reference_fill(type, &random, a, MANY);
            reference_fill(type, &random, b, MANY);
            for (unsigned step = 0; step < TT_REDUCE_STEPS; step++) {
                if (row->combine[step] != NULL) {
                    row->combine[step](first, a, b, MANY);
                    row->combine[step](other, b, a, MANY);
                    compare("the other way round", version, type, first, other);
                }
            }
        }
    }
}

static void what_is_used_is_what_the_processor_has(void **state)
{
    (void)state;
    assert_in_range(tt_reduce_version_count(), 1, TT_PROCESSOR_LEVEL_COUNT);
    assert_string_equal(tt_reduce_version_name(0), "plain");
#if defined(__x86_64__)
    assert_int_equal(tt_reduce_version_count(), tt_processor_level() + 1);
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_versions_give_the_same_bits),
        cmocka_unit_test(built_in_operations_are_commutative_to_the_bit),
        cmocka_unit_test(what_is_used_is_what_the_processor_has),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
