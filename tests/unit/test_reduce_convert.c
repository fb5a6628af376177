/* SPDX-License-Identifier: BSD-3-Clause */
/* fp8, fp16 and bf16 to fp32 and back: every value, every place where rounding changes, and overflow. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "offload/reduce.h"
#include "reduce_reference.h"

enum { CODES = 65536, RANDOM = 200000 };

static const enum tt_type smalls[] = {TT_TYPE_FP8_E4M3, TT_TYPE_FP8_E5M2, TT_TYPE_FP16, TT_TYPE_BF16};

static uint16_t codes16[CODES];
static uint8_t codes8[CODES];
static float numbers[CODES];

/* All codes of a type in a row; returns how many there are. */
static unsigned all_codes(enum tt_type type, void **codes)
{
    for (unsigned i = 0; i < CODES; i++) {
        codes8[i] = (uint8_t)i;
        codes16[i] = (uint16_t)i;
    }
    *codes = tt_type_row(type)->bytes == 1 ? (void *)codes8 : (void *)codes16;
    return tt_type_row(type)->bytes == 1 ? 256 : 65536;
}

static uint64_t fp32_bits(float number)
{
    return reference_bits(TT_TYPE_FP32, &number);
}

static void every_value_is_widened_exactly_and_rounds_to_itself(void **state)
{
    (void)state;
    for (unsigned s = 0; s < 4; s++) {
        enum tt_type type = smalls[s];
        static char back[CODES * 2];
        uint32_t bytes = tt_type_row(type)->bytes;
        void *codes;
        unsigned count = all_codes(type, &codes);

        for (unsigned version = 0; version < tt_reduce_version_count(); version++) {
            const struct tt_reduce_small *small = tt_reduce_version_row(version, type)->small;

            small->widen(numbers, codes, count);
            small->narrow(back, numbers, count);
            for (unsigned i = 0; i < count; i++) {
                const char *code = (const char *)codes + (size_t)i * bytes;
                double number = reference_decode(type, code);
                uint64_t wanted = isnan(number) ? 0x7fc00000 : fp32_bits((float)number), canonical = 0;

                reference_encode(type, number, &canonical);
                if (fp32_bits(numbers[i]) != wanted || memcmp(back + (size_t)i * bytes, &canonical, bytes) != 0) {
                    fail_msg("%s, version %s: code %x is %llx, not %llx, and back %llx", tt_type_row(type)->name,
                             tt_reduce_version_name(version), i, (unsigned long long)fp32_bits(numbers[i]),
                             (unsigned long long)wanted,
                             (unsigned long long)reference_bits(type, back + (size_t)i * bytes));
                }
            }
        }
    }
}

/* The next number of the same sign away from 0, or towards it. */
static float neighbour(float number, int by)
{
    uint32_t bits = (uint32_t)fp32_bits(number) + (uint32_t)by;
    float next;

    memcpy(&next, &bits, sizeof(next));
    return next;
}

static void check_narrowed(enum tt_type type, const float *from, unsigned count)
{
    static char narrowed[CODES * 2];
    uint32_t bytes = tt_type_row(type)->bytes;

    for (unsigned version = 0; version < tt_reduce_version_count(); version++) {
        tt_reduce_version_row(version, type)->small->narrow(narrowed, from, count);
        for (unsigned i = 0; i < count; i++) {
            uint64_t wanted = 0, got = reference_bits(type, narrowed + (size_t)i * bytes);

            reference_encode(type, from[i], &wanted);
            if (got != reference_bits(type, &wanted)) {
                fail_msg("%s, version %s: %a (%llx) is rounded to %llx, not %llx", tt_type_row(type)->name,
                         tt_reduce_version_name(version), (double)from[i], (unsigned long long)fp32_bits(from[i]),
                         (unsigned long long)got, (unsigned long long)reference_bits(type, &wanted));
            }
        }
    }
}

/* Between two neighbours everything below the middle goes down, everything above goes up, the middle to the even one.
 */
static void every_middle_between_neighbours_is_rounded_to_even_and_its_neighbours_to_theirs(void **state)
{
    (void)state;
    for (unsigned s = 0; s < 4; s++) {
        enum tt_type type = smalls[s];
        void *codes;
        unsigned count = all_codes(type, &codes) / 2; /* those that are not negative, infinity and NaN with them */

        tt_reduce_widen(type, numbers, codes, count);
        for (unsigned i = 0; i + 1 < count && isfinite(numbers[i]); i++) {
            float below = numbers[i],
                  above = isfinite(numbers[i + 1]) ? numbers[i + 1] : below + (below - numbers[i - 1]);
            float middle = isinf(above) ? 0x1.ffp127F : (float)(((double)below + above) / 2); /* bf16's last one */
            float around[] = {below,
                              neighbour(below, 1),
                              neighbour(middle, -1),
                              middle,
                              neighbour(middle, 1),
                              neighbour(above, -1),
                              above,
                              -middle,
                              -neighbour(middle, -1),
                              -neighbour(middle, 1)};

            check_narrowed(type, around, sizeof(around) / sizeof(around[0]));
        }
    }
}

static void random_fp32_numbers_are_rounded_to_the_nearest(void **state)
{
    struct tt_random random;

    (void)state;
    tt_random_init(&random, 3);
    for (unsigned s = 0; s < 4; s++) {
        for (unsigned done = 0; done < RANDOM; done += 1000) {
            for (unsigned i = 0; i < 1000; i++) {
                uint32_t bits = (uint32_t)tt_random_next(&random);

                if (i % 2 == 0) { /* exponents from 2^-30 to 2^20, where the small formats are */
                    bits = (bits & 0x807fffff) | (uint32_t)(97 + tt_random_below(&random, 50)) << 23;
                }
                memcpy(&numbers[i], &bits, sizeof(bits));
            }
            check_narrowed(smalls[s], numbers, 1000);
        }
    }
}

struct literal {
    enum tt_type type;
    float number;
    uint16_t code;
};

static void literal_numbers_have_the_codes_of_the_specifications(void **state)
{
    static const struct literal literals[] = {
        {TT_TYPE_FP8_E4M3, 448, 0x7e},     {TT_TYPE_FP8_E4M3, 464, 0x7e}, /* as near to 480, which would be odd */
        {TT_TYPE_FP8_E4M3, 464.5F, 0x7f},  {TT_TYPE_FP8_E4M3, INFINITY, 0x7f},  {TT_TYPE_FP8_E4M3, -INFINITY, 0x7f},
        {TT_TYPE_FP8_E4M3, -1e30F, 0x7f},  {TT_TYPE_FP8_E4M3, 0x1p-9F, 0x01},   {TT_TYPE_FP8_E4M3, 0x1p-10F, 0x00},
        {TT_TYPE_FP8_E4M3, 0x1.8p-10F, 1}, {TT_TYPE_FP8_E4M3, -0x1p-6F, 0x88},  {TT_TYPE_FP8_E4M3, -0.0F, 0x80},
        {TT_TYPE_FP8_E5M2, 57344, 0x7b},   {TT_TYPE_FP8_E5M2, 61439, 0x7b},     {TT_TYPE_FP8_E5M2, 61440, 0x7c},
        {TT_TYPE_FP8_E5M2, -61440, 0xfc},  {TT_TYPE_FP8_E5M2, 0x1p-16F, 0x01},  {TT_TYPE_FP8_E5M2, 0x1p-17F, 0x00},
        {TT_TYPE_FP16, 65504, 0x7bff},     {TT_TYPE_FP16, 65519, 0x7bff},       {TT_TYPE_FP16, 65520, 0x7c00},
        {TT_TYPE_FP16, 0x1p-24F, 0x0001},  {TT_TYPE_FP16, 0x1p-25F, 0x0000},    {TT_TYPE_FP16, 1, 0x3c00},
        {TT_TYPE_BF16, 1, 0x3f80},         {TT_TYPE_BF16, 0x1.ffp127F, 0x7f80}, {TT_TYPE_BF16, 0x1.fep127F, 0x7f7f},
        {TT_TYPE_BF16, 0x1.01p0F, 0x3f80}, {TT_TYPE_BF16, 0x1.03p0F, 0x3f82},   {TT_TYPE_BF16, 0x1p-133F, 0x0001},
        {TT_TYPE_FP16, NAN, 0x7e00},       {TT_TYPE_BF16, -NAN, 0x7fc0},        {TT_TYPE_FP8_E5M2, -NAN, 0x7f},
        {TT_TYPE_FP8_E4M3, -NAN, 0x7f},
    };

    (void)state;
    for (unsigned i = 0; i < sizeof(literals) / sizeof(literals[0]); i++) {
        uint64_t code = 0;

        tt_reduce_narrow(literals[i].type, &code, &literals[i].number, 1, 1);
        if (reference_bits(literals[i].type, &code) != literals[i].code) {
            fail_msg("%s: %a is %llx, not %x", tt_type_row(literals[i].type)->name, (double)literals[i].number,
                     (unsigned long long)reference_bits(literals[i].type, &code), literals[i].code);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_value_is_widened_exactly_and_rounds_to_itself),
        cmocka_unit_test(every_middle_between_neighbours_is_rounded_to_even_and_its_neighbours_to_theirs),
        cmocka_unit_test(random_fp32_numbers_are_rounded_to_the_nearest),
        cmocka_unit_test(literal_numbers_have_the_codes_of_the_specifications),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
