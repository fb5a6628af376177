/* SPDX-License-Identifier: BSD-3-Clause */
/* What goes before and after steps: factors, averages, and chains that add up in fp32. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "offload/reduce.h"
#include "reduce_reference.h"

enum { ELEMENTS = 301, MANY = 3000 };

static char a[MANY * REFERENCE_ELEMENT_BYTES + 1], b[MANY * REFERENCE_ELEMENT_BYTES + 1];
static char c[MANY * REFERENCE_ELEMENT_BYTES + 1], d[MANY * REFERENCE_ELEMENT_BYTES + 1];
static float accumulator[MANY], before[MANY];

static const enum tt_type smalls[] = {TT_TYPE_FP8_E4M3, TT_TYPE_FP8_E5M2, TT_TYPE_FP16, TT_TYPE_BF16};
static const float factors[] = {1, 0.5F, 1.0F / 3, -3, 1e-6F};

static void expect(const char *what, unsigned version, enum tt_type type, unsigned i, const void *got,
                   const void *wanted)
{
    if (memcmp(got, wanted, tt_type_row(type)->bytes) != 0) {
        fail_msg("%s, version %s, %s: element %u is %llx, not %llx", what, tt_reduce_version_name(version),
                 tt_type_row(type)->name, i, (unsigned long long)reference_bits(type, got),
                 (unsigned long long)reference_bits(type, wanted));
    }
}

static void make_factor(enum tt_type type, unsigned i, void *factor)
{
    if (tt_type_row(type)->class == TT_CLASS_FLOAT) {
        reference_encode(tt_type_row(type)->accumulator, factors[i], factor);
    } else {
        reference_set(type, (uint64_t)(int64_t)(factors[i] * 7), factor);
    }
}

static void scaling_and_adding_at_once_gives_the_bits_of_one_after_the_other(void **state)
{
    struct tt_random random;

    (void)state;
    tt_random_init(&random, 4);
    for (unsigned type = 0; type < TT_TYPE_OPAQUE; type++) {
        uint32_t bytes = tt_type_row(type)->bytes;

        reference_fill(type, &random, a + 1, MANY);
        reference_fill(type, &random, b, MANY);
        for (unsigned f = 0; f < sizeof(factors) / sizeof(factors[0]); f++) {
            for (unsigned version = 0; version < tt_reduce_version_count(); version++) {
                const struct tt_reduce_row *row = tt_reduce_version_row(version, type);
                char factor[REFERENCE_ELEMENT_BYTES + 1]; /* it need not be aligned */

                make_factor(type, f, factor + 1);
                row->scale(c + 1, b, factor + 1, MANY);
                memcpy(d, b, sizeof(b));
                row->add_scaled(d, a + 1, d, factor + 1, MANY);
                for (unsigned i = 0; i < MANY; i++) {
                    char wanted[REFERENCE_ELEMENT_BYTES];

                    reference_scale(type, b + (size_t)i * bytes, factor + 1, wanted);
                    expect("scale", version, type, i, c + 1 + (size_t)i * bytes, wanted);
                    reference_combine(type, TT_REDUCE_SUM, a + 1 + (size_t)i * bytes, wanted, wanted);
                    expect("add scaled", version, type, i, d + (size_t)i * bytes, wanted);
                }
            }
        }
    }
}

static void averages_are_rounded_or_truncated_quotients(void **state)
{
    static const uint32_t divisors[] = {1, 2, 3, 7, 33, 255, 256, 65535, 65537, 1 << 24};
    struct tt_random random;

    (void)state;
    tt_random_init(&random, 5);
    for (unsigned type = 0; type < TT_TYPE_OPAQUE; type++) {
        uint32_t bytes = tt_type_row(type)->bytes;

        reference_fill(type, &random, a, MANY);
        for (unsigned v = 0; v < sizeof(divisors) / sizeof(divisors[0]); v++) {
            for (unsigned version = 0; version < tt_reduce_version_count(); version++) {
                memcpy(c + 1, a, (size_t)MANY * bytes);
                tt_reduce_version_row(version, type)->divide(c + 1, c + 1, divisors[v], MANY);
                for (unsigned i = 0; i < MANY; i++) {
                    char wanted[REFERENCE_ELEMENT_BYTES];

                    reference_divide(type, a + (size_t)i * bytes, divisors[v], wanted);
                    expect("divide", version, type, i, c + 1 + (size_t)i * bytes, wanted);
                }
            }
        }
    }
}

static void quotients_of_all_small_integers_are_exact(void **state)
{
    static uint16_t all[65536], quotients[65536];

    (void)state;
    for (unsigned i = 0; i < 65536; i++) {
        all[i] = (uint16_t)i;
    }
    for (uint32_t divisor = 1; divisor < 70000; divisor += divisor < 300 ? 1 : 251) {
        tt_reduce_divide(TT_TYPE_UINT16, quotients, all, divisor, 65536);
        for (unsigned i = 0; i < 65536; i++) {
            assert_int_equal(quotients[i], i / divisor);
        }
        tt_reduce_divide(TT_TYPE_INT16, quotients, all, divisor, 65536);
        for (unsigned i = 0; i < 65536; i++) {
            assert_int_equal((int16_t)quotients[i], (int16_t)i / (int32_t)divisor);
        }
    }
}

static void check_accumulated(unsigned version, enum tt_type type, enum tt_reduce_operation step, unsigned count)
{
    uint32_t bytes = tt_type_row(type)->bytes;

    memcpy(accumulator, before, sizeof(before));
    tt_reduce_version_row(version, type)->small->accumulate[step](accumulator, a + 1, count);
    for (unsigned i = 0; i < MANY; i++) {
        float wanted = before[i];

        if (i < count) {
            wanted = reference_accumulate(type, step, before[i], a + 1 + (size_t)i * bytes);
        }
        expect(tt_reduce_operation_row(step)->name, version, TT_TYPE_FP32, i, &accumulator[i], &wanted);
    }
}

static void accumulators_take_small_floats_exactly(void **state)
{
    struct tt_random random;

    (void)state;
    tt_random_init(&random, 6);
    for (unsigned s = 0; s < 4; s++) {
        reference_fill(smalls[s], &random, a + 1, MANY);
        reference_fill(TT_TYPE_FP32, &random, before, MANY);
        for (unsigned version = 0; version < tt_reduce_version_count(); version++) {
            for (unsigned step = TT_REDUCE_SUM; step <= TT_REDUCE_MAX; step++) {
                check_accumulated(version, smalls[s], step, MANY);
                for (unsigned count = 0; count < ELEMENTS; count += 17) {
                    check_accumulated(version, smalls[s], step, count);
                }
            }
        }
    }
}

static void accumulators_take_scaled_elements_and_are_rounded_with_their_average(void **state)
{
    struct tt_random random;
    const uint32_t ranks = 3;

    (void)state;
    tt_random_init(&random, 7);
    for (unsigned s = 0; s < 4; s++) {
        enum tt_type type = smalls[s];
        uint32_t bytes = tt_type_row(type)->bytes;

        reference_fill(type, &random, a + 1, MANY);
        reference_fill(type, &random, b, MANY);
        for (unsigned version = 0; version < tt_reduce_version_count(); version++) {
            const struct tt_reduce_small *small = tt_reduce_version_row(version, type)->small;

            small->widen_scaled(accumulator, a + 1, factors[2], MANY);
            small->accumulate_scaled(accumulator, b, factors[3], MANY);
            small->narrow_divided(c + 1, accumulator, ranks, MANY);
            for (unsigned i = 0; i < MANY; i++) {
                uint64_t product, sum, wanted = 0;
                float x = (float)reference_decode(type, a + 1 + (size_t)i * bytes);
                float y = (float)reference_decode(type, b + (size_t)i * bytes);

                reference_combine(TT_TYPE_FP32, TT_REDUCE_PRODUCT, &factors[2], &x, &sum);
                reference_combine(TT_TYPE_FP32, TT_REDUCE_PRODUCT, &factors[3], &y, &product);
                reference_combine(TT_TYPE_FP32, TT_REDUCE_SUM, &sum, &product, &sum);
                expect("scaled chain", version, TT_TYPE_FP32, i, &accumulator[i], &sum);
                reference_encode(type, (float)(reference_decode(TT_TYPE_FP32, &sum) / ranks), &wanted);
                expect("rounded average", version, type, i, c + 1 + (size_t)i * bytes, &wanted);
            }
        }
    }
}

/* Multiplying by a reciprocal, which is rounded itself, would come out beside the middle. */
static void a_quotient_in_the_middle_between_neighbours_is_rounded_to_the_even_one(void **state)
{
    static const uint32_t divisors[] = {3, 5, 7, 11, 49, 99, 1001};
    unsigned ties = 0;

    (void)state;
    for (unsigned s = 0; s < 4; s++) {
        enum tt_type type = smalls[s];

        for (unsigned i = 0; i < MANY; i++) {
            uint64_t code = i % (tt_type_row(type)->bytes == 1 ? 0x7a : 0x7b00), next = code + 1, got = 0, wanted = 0;
            double middle = (reference_decode(type, &code) + reference_decode(type, &next)) / 2;
            double product = middle * divisors[i % 7];
            float sum = (float)product;

            if (sum == product) {
                ties++;
                tt_reduce_narrow(type, &got, &sum, divisors[i % 7], 1);
                reference_encode(type, middle, &wanted);
                expect("tie", 0, type, i, &got, &wanted);
            }
        }
    }
    assert_true(ties > 4 * MANY / 2);
}

static void small_floats_are_divided_and_not_multiplied_by_a_reciprocal(void **state)
{
    static uint16_t codes[65536], quotients[65536], wanted[65536];
    static float numbers[65536];

    (void)state;
    for (unsigned i = 0; i < 65536; i++) {
        codes[i] = (uint16_t)i;
    }
    for (unsigned s = 2; s < 4; s++) {
        for (uint32_t divisor = 3; divisor < 9000; divisor += 117) {
            tt_reduce_divide(smalls[s], quotients, codes, divisor, 65536);
            tt_reduce_widen(smalls[s], numbers, codes, 65536);
            for (unsigned i = 0; i < 65536; i++) {
                numbers[i] = numbers[i] / (float)divisor;
            }
            tt_reduce_narrow(smalls[s], wanted, numbers, 1, 65536);
            assert_memory_equal(quotients, wanted, sizeof(wanted));
        }
    }
}

/* 4096 times 1 in bf16: each step rounds 256 + 1 back to 256; rounded once, the sum is right. */
static void a_chain_that_is_rounded_once_does_not_stop_growing(void **state)
{
    const uint16_t one = 0x3f80;
    uint16_t stepwise = one, once;
    float sum;

    (void)state;
    tt_reduce_widen(TT_TYPE_BF16, &sum, &one, 1);
    for (unsigned i = 1; i < 4096; i++) {
        tt_reduce(TT_TYPE_BF16, TT_REDUCE_SUM, &stepwise, &one, 1);
        tt_reduce_accumulate(TT_TYPE_BF16, TT_REDUCE_AVERAGE, &sum, &one, 1);
    }
    tt_reduce_narrow(TT_TYPE_BF16, &once, &sum, 1, 1);
    assert_int_equal(stepwise, 0x4380); /* 256 */
    assert_int_equal(once, 0x4580);     /* 4096 */
    tt_reduce_narrow(TT_TYPE_BF16, &once, &sum, 4096, 1);
    assert_int_equal(once, one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scaling_and_adding_at_once_gives_the_bits_of_one_after_the_other),
        cmocka_unit_test(averages_are_rounded_or_truncated_quotients),
        cmocka_unit_test(quotients_of_all_small_integers_are_exact),
        cmocka_unit_test(accumulators_take_small_floats_exactly),
        cmocka_unit_test(accumulators_take_scaled_elements_and_are_rounded_with_their_average),
        cmocka_unit_test(a_quotient_in_the_middle_between_neighbours_is_rounded_to_the_even_one),
        cmocka_unit_test(small_floats_are_divided_and_not_multiplied_by_a_reciprocal),
        cmocka_unit_test(a_chain_that_is_rounded_once_does_not_stop_growing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
