/* SPDX-License-Identifier: BSD-3-Clause */
/* Every operation of every type, in each version, against the reference: any length, alignment, in place and not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "offload/reduce.h"
#include "reduce_reference.h"

enum {
    ELEMENTS = 301,
    GUARD_BYTES = 64,
    AREA_BYTES = ELEMENTS * REFERENCE_ELEMENT_BYTES + 2 * GUARD_BYTES,
    MANY = 20000
};

/* How operands and destination lie. */
enum place { APART, ON_LEFT, ON_RIGHT, ON_ITSELF, PLACE_COUNT };

static char left[AREA_BYTES], right[AREA_BYTES], destination[AREA_BYTES];
static char left_elements[ELEMENTS * REFERENCE_ELEMENT_BYTES], right_elements[ELEMENTS * REFERENCE_ELEMENT_BYTES];
static char expected[ELEMENTS * REFERENCE_ELEMENT_BYTES], expected_itself[ELEMENTS * REFERENCE_ELEMENT_BYTES];

static void expect(const char *what, unsigned version, enum tt_type type, const char *operation, const char *area,
                   unsigned offset, const char *wanted, uint64_t count, enum place place)
{
    uint32_t bytes = tt_type_row(type)->bytes;

    for (uint64_t i = 0; i < count; i++) {
        if (memcmp(area + GUARD_BYTES / 2 + offset + i * bytes, wanted + i * bytes, bytes) != 0) {
            fail_msg("%s, version %s, %s of %s, place %u: element %llu of %llu is %llx, not %llx", what,
                     tt_reduce_version_name(version), operation, tt_type_row(type)->name, place, (unsigned long long)i,
                     (unsigned long long)count,
                     (unsigned long long)reference_bits(type, area + GUARD_BYTES / 2 + offset + i * bytes),
                     (unsigned long long)reference_bits(type, wanted + i * bytes));
        }
    }
    for (size_t i = 0; i < AREA_BYTES; i++) {
        size_t begin = GUARD_BYTES / 2 + offset;

        if ((i < begin || i >= begin + count * bytes) && area[i] != 0x5a) {
            fail_msg("%s, version %s, %s of %s, %llu elements: wrote beside them", what,
                     tt_reduce_version_name(version), operation, tt_type_row(type)->name, (unsigned long long)count);
        }
    }
}

static char *lay(char *area, unsigned offset, const char *elements, uint64_t bytes)
{
    memset(area, 0x5a, AREA_BYTES);
    return memcpy(area + GUARD_BYTES / 2 + offset, elements, bytes);
}

static void combine_at(unsigned version, enum tt_type type, enum tt_reduce_operation step, uint64_t count,
                       enum place place, const unsigned offsets[3])
{
    tt_combine_kernel *combine = tt_reduce_version_row(version, type)->combine[step];
    uint64_t bytes = count * tt_type_row(type)->bytes;
    char *a = lay(left, offsets[0], left_elements, bytes), *b = lay(right, offsets[1], right_elements, bytes);
    char *to = lay(destination, offsets[2], left_elements, 0);
    const char *name = tt_reduce_operation_row(step)->name;

    switch (place) {
    case APART:
        combine(to, a, b, count);
        expect("destination", version, type, name, destination, offsets[2], expected, count, place);
        expect("left", version, type, name, left, offsets[0], left_elements, count, place);
        expect("right", version, type, name, right, offsets[1], right_elements, count, place);
        break;
    case ON_LEFT:
        combine(a, a, b, count);
        expect("left", version, type, name, left, offsets[0], expected, count, place);
        expect("right", version, type, name, right, offsets[1], right_elements, count, place);
        break;
    case ON_RIGHT:
        combine(b, a, b, count);
        expect("right", version, type, name, right, offsets[1], expected, count, place);
        break;
    default:
        combine(a, a, a, count);
        expect("left", version, type, name, left, offsets[0], expected_itself, count, place);
        break;
    }
}

static void every_operation_gives_what_the_reference_gives_wherever_its_elements_are(void **state)
{
    static const unsigned offsets[][3] = {{0, 0, 0}, {1, 3, 5}, {4, 2, 7}};
    struct tt_random random;
    unsigned cases = 0;

    (void)state;
    tt_random_init(&random, 1);
    for (unsigned type = 0; type < TT_TYPE_OPAQUE; type++) {
        uint32_t bytes = tt_type_row(type)->bytes;

        reference_fill(type, &random, left_elements, ELEMENTS);
        reference_fill(type, &random, right_elements, ELEMENTS);
        for (unsigned step = 0; step < TT_REDUCE_STEPS; step++) {
            if (tt_reduce_supported(type, step) != TUTTI_OK) {
                continue;
            }
            for (unsigned i = 0; i < ELEMENTS * bytes; i += bytes) {
                reference_combine(type, step, left_elements + i, right_elements + i, expected + i);
                reference_combine(type, step, left_elements + i, left_elements + i, expected_itself + i);
            }
            for (unsigned version = 0; version < tt_reduce_version_count(); version++) {
                for (unsigned count = 0; count <= ELEMENTS; count += count < 70 ? 1 : 7) {
                    combine_at(version, type, step, count, count % PLACE_COUNT, offsets[count % 3]);
                    combine_at(version, type, step, count, (count + 1) % PLACE_COUNT, offsets[(count + 1) % 3]);
                    cases++;
                }
            }
        }
    }
    assert_true(cases >= 80 * 100); /* 8 types of integers with 7 operations, 6 of floats with 4 */
}

static void many_random_elements_give_what_the_reference_gives(void **state)
{
    static char a[MANY * REFERENCE_ELEMENT_BYTES], b[MANY * REFERENCE_ELEMENT_BYTES], c[MANY * REFERENCE_ELEMENT_BYTES];
    struct tt_random random;

    (void)state;
    tt_random_init(&random, 2);
    for (unsigned type = 0; type < TT_TYPE_OPAQUE; type++) {
        uint32_t bytes = tt_type_row(type)->bytes;

        for (unsigned step = 0; step < TT_REDUCE_STEPS; step++) {
            if (tt_reduce_supported(type, step) != TUTTI_OK) {
                continue;
            }
            reference_fill(type, &random, a, MANY);
            reference_fill(type, &random, b, MANY);
            tt_reduce_to(type, step, c, a, b, MANY);
            for (unsigned i = 0; i < MANY * bytes; i += bytes) {
                char wanted[REFERENCE_ELEMENT_BYTES];

                reference_combine(type, step, a + i, b + i, wanted);
                if (memcmp(wanted, c + i, bytes) != 0) {
                    fail_msg("%s of %s: %llx and %llx give %llx, not %llx", tt_reduce_operation_row(step)->name,
                             tt_type_row(type)->name, (unsigned long long)reference_bits(type, a + i),
                             (unsigned long long)reference_bits(type, b + i),
                             (unsigned long long)reference_bits(type, c + i),
                             (unsigned long long)reference_bits(type, wanted));
                }
            }
            tt_reduce(type, step, a, b, MANY);
            assert_memory_equal(a, c, MANY * bytes);
        }
    }
}

static void all_pairs_of_fp8_numbers_give_what_the_reference_gives(void **state)
{
    static const enum tt_type types[] = {TT_TYPE_FP8_E4M3, TT_TYPE_FP8_E5M2};
    static uint8_t a[65536], b[65536], c[65536];

    (void)state;
    for (unsigned i = 0; i < 65536; i++) {
        a[i] = (uint8_t)i;
        b[i] = (uint8_t)(i >> 8);
    }
    for (unsigned t = 0; t < 2; t++) {
        for (unsigned step = TT_REDUCE_SUM; step <= TT_REDUCE_MAX; step++) {
            tt_reduce_to(types[t], step, c, a, b, 65536);
            for (unsigned i = 0; i < 65536; i++) {
                uint8_t wanted;

                reference_combine(types[t], step, &a[i], &b[i], &wanted);
                if (wanted != c[i]) {
                    fail_msg("%s of %s: %x and %x give %x, not %x", tt_reduce_operation_row(step)->name,
                             tt_type_row(types[t])->name, a[i], b[i], c[i], wanted);
                }
            }
        }
    }
}

static void no_elements_are_nowhere(void **state)
{
    float factor = 1;

    (void)state;
    tt_reduce(TT_TYPE_FP32, TT_REDUCE_SUM, NULL, NULL, 0);
    tt_reduce_scale(TT_TYPE_FP16, NULL, NULL, &factor, 0);
    tt_reduce_add_scaled(TT_TYPE_FP16, NULL, NULL, NULL, &factor, 0);
    tt_reduce_divide(TT_TYPE_INT8, NULL, NULL, 3, 0);
    tt_reduce_widen(TT_TYPE_BF16, NULL, NULL, 0);
    tt_reduce_accumulate(TT_TYPE_BF16, TT_REDUCE_AVERAGE, NULL, NULL, 0);
    tt_reduce_narrow(TT_TYPE_BF16, NULL, NULL, 7, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operation_gives_what_the_reference_gives_wherever_its_elements_are),
        cmocka_unit_test(many_random_elements_give_what_the_reference_gives),
        cmocka_unit_test(all_pairs_of_fp8_numbers_give_what_the_reference_gives),
        cmocka_unit_test(no_elements_are_nowhere),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
