/* SPDX-License-Identifier: BSD-3-Clause */
/* What the specifications say of NaN, zeros, infinities and overflow, bit by bit as written in docs/reductions.md. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "offload/reduce.h"
#include "reduce_reference.h"
#include "skip.h"

enum { REPEAT = 67 }; /* so that vectors and what is left over beside them both see each case */

struct special {
    enum tt_reduce_operation step;
    enum tt_type type;
    uint64_t left, right, result;
};

#define FP32(operation, left, right, result)                                                                           \
    {                                                                                                                  \
        TT_REDUCE_##operation, TT_TYPE_FP32, left, right, result                                                       \
    }
#define FP64(operation, left, right, result)                                                                           \
    {                                                                                                                  \
        TT_REDUCE_##operation, TT_TYPE_FP64, left, right, result                                                       \
    }
#define FP16(operation, left, right, result)                                                                           \
    {                                                                                                                  \
        TT_REDUCE_##operation, TT_TYPE_FP16, left, right, result                                                       \
    }
#define BF16(operation, left, right, result)                                                                           \
    {                                                                                                                  \
        TT_REDUCE_##operation, TT_TYPE_BF16, left, right, result                                                       \
    }
#define E4M3(operation, left, right, result)                                                                           \
    {                                                                                                                  \
        TT_REDUCE_##operation, TT_TYPE_FP8_E4M3, left, right, result                                                   \
    }
#define E5M2(operation, left, right, result)                                                                           \
    {                                                                                                                  \
        TT_REDUCE_##operation, TT_TYPE_FP8_E5M2, left, right, result                                                   \
    }

static const struct special specials[] = {
    /* Minimum and maximum: NaN wins, whatever its sign and payload, signaling or not; -0 is below +0. */
    FP32(MIN, 0x7fc00000, 0x3f800000, 0x7fc00000),
    FP32(MIN, 0x3f800000, 0xffc12345, 0x7fc00000),
    FP32(MIN, 0xff800000, 0x7f800001, 0x7fc00000),
    FP32(MAX, 0x7f800000, 0x7fc00001, 0x7fc00000),
    FP32(MAX, 0xffffffff, 0x7f800000, 0x7fc00000),
    FP32(MIN, 0x00000000, 0x80000000, 0x80000000),
    FP32(MAX, 0x00000000, 0x80000000, 0x00000000),
    FP32(MIN, 0xff800000, 0xff7fffff, 0xff800000),
    FP32(MAX, 0x7f800000, 0xff800000, 0x7f800000),
    FP32(MIN, 0x00000001, 0x00000000, 0x00000000),
    FP32(MAX, 0x80000001, 0x80000000, 0x80000000),
    FP32(MIN, 0xc0000000, 0xbf800000, 0xc0000000),
    FP64(MIN, 0x7ff8000000000000, 0, 0x7ff8000000000000),
    FP64(MAX, 0, 0xfff0000000000001, 0x7ff8000000000000),
    FP64(MIN, 0, 0x8000000000000000, 0x8000000000000000),
    FP64(MAX, 0x8000000000000000, 0, 0),
    FP64(MAX, 0x8000000000000001, 0x8000000000000000, 0x8000000000000000),
    FP16(MIN, 0x0000, 0x8000, 0x8000),
    FP16(MAX, 0x8000, 0x0000, 0x0000),
    FP16(MAX, 0x7c00, 0xfc01, 0x7e00),
    BF16(MIN, 0xff80, 0x7f81, 0x7fc0),
    BF16(MIN, 0x0000, 0x8000, 0x8000),
    E4M3(MIN, 0x7f, 0x01, 0x7f),
    E4M3(MAX, 0xff, 0x7e, 0x7f),
    E4M3(MIN, 0x00, 0x80, 0x80),
    E5M2(MAX, 0x7c, 0xfd, 0x7f),
    E5M2(MAX, 0x7c, 0x7b, 0x7c),
    E5M2(MAX, 0x80, 0x00, 0x00),
    /* Sums and products: of IEEE 754 with rounding to nearest, and one NaN. */
    FP32(SUM, 0x80000000, 0x80000000, 0x80000000),
    FP32(SUM, 0x80000000, 0x00000000, 0x00000000),
    FP32(SUM, 0x3f800000, 0xbf800000, 0x00000000),
    FP32(SUM, 0x7f800000, 0xff800000, 0x7fc00000),
    FP32(SUM, 0xffc00001, 0x7fc00002, 0x7fc00000),
    FP32(SUM, 0x7f7fffff, 0x7f7fffff, 0x7f800000),
    FP32(SUM, 0x4b800000, 0x3f800000, 0x4b800000), /* 2^24 + 1, a tie */
    FP32(SUM, 0x00000001, 0x00000001, 0x00000002),
    FP32(PRODUCT, 0x7f800000, 0x00000000, 0x7fc00000),
    FP32(PRODUCT, 0xff800000, 0x80000000, 0x7fc00000),
    FP32(PRODUCT, 0x80000000, 0x3f800000, 0x80000000),
    FP32(PRODUCT, 0x00800000, 0x3f000000, 0x00400000),
    FP64(SUM, 0x7ff0000000000000, 0xfff0000000000000, 0x7ff8000000000000),
    FP64(SUM, 0x8000000000000000, 0, 0),
    FP64(PRODUCT, 0xfff0000000000000, 0, 0x7ff8000000000000),
    FP16(SUM, 0x7bff, 0x4bff, 0x7bff), /* 65504 + 15.99 */
    FP16(SUM, 0x7bff, 0x4c00, 0x7c00), /* 65504 + 16, a tie: to infinity, which is even */
    FP16(SUM, 0x7c00, 0xfc00, 0x7e00),
    FP16(SUM, 0x8000, 0x0000, 0x0000),
    FP16(SUM, 0x0001, 0x0001, 0x0002),
    FP16(PRODUCT, 0x0001, 0x3800, 0x0000), /* half of the least one: a tie, to 0 */
    FP16(PRODUCT, 0x0003, 0x3800, 0x0002), /* 1.5 of it: a tie, to 2 */
    FP16(SUM, 0x6800, 0x3c00, 0x6800),     /* 2048 + 1, a tie */
    FP16(SUM, 0x6801, 0x3c00, 0x6802),     /* 2050 + 1, a tie */
    BF16(SUM, 0x7f7f, 0x7f7f, 0x7f80),
    BF16(SUM, 0x4380, 0x3f80, 0x4380), /* 256 + 1, a tie */
    BF16(SUM, 0x0001, 0x8001, 0x0000),
    BF16(PRODUCT, 0x7f80, 0x8000, 0x7fc0),
    E4M3(SUM, 0x7e, 0x58, 0x7e), /* 448 + 16 = 464, a tie: 448 is even */
    E4M3(SUM, 0x7e, 0x59, 0x7f), /* 448 + 18: beyond; there is no infinity, and nothing is held at 448 */
    E4M3(SUM, 0xfe, 0xfe, 0x7f),
    E4M3(SUM, 0x7e, 0xfe, 0x00),
    E4M3(PRODUCT, 0x01, 0x01, 0x00),
    E5M2(SUM, 0x7b, 0x7b, 0x7c),
    E5M2(SUM, 0xfb, 0xfb, 0xfc),
    E5M2(SUM, 0x7c, 0xfc, 0x7f),
};

static void check(unsigned version, const struct special *special, uint64_t left, uint64_t right)
{
    uint32_t bytes = tt_type_row(special->type)->bytes;
    uint64_t element[2] = {left, right};
    char a[REPEAT * REFERENCE_ELEMENT_BYTES], b[REPEAT * REFERENCE_ELEMENT_BYTES], c[REPEAT * REFERENCE_ELEMENT_BYTES];

    for (unsigned i = 0; i < REPEAT; i++) {
        reference_set(special->type, element[0], a + (size_t)i * bytes);
        reference_set(special->type, element[1], b + (size_t)i * bytes);
    }
    tt_reduce_version_row(version, special->type)->combine[special->step](c, a, b, REPEAT);
    for (unsigned i = 0; i < REPEAT; i++) {
        uint64_t got = reference_bits(special->type, c + (size_t)i * bytes);

        if (got != special->result) {
            fail_msg("version %s, element %u: %s of %s %llx and %llx is %llx, not %llx",
                     tt_reduce_version_name(version), i, tt_reduce_operation_row(special->step)->name,
                     tt_type_row(special->type)->name, (unsigned long long)left, (unsigned long long)right,
                     (unsigned long long)got, (unsigned long long)special->result);
        }
    }
}

static void special_numbers_give_what_ieee_754_and_ofp8_say_in_either_order(void **state)
{
    (void)state;
    for (unsigned version = 0; version < tt_reduce_version_count(); version++) {
        for (unsigned i = 0; i < sizeof(specials) / sizeof(specials[0]); i++) {
            check(version, &specials[i], specials[i].left, specials[i].right);
            check(version, &specials[i], specials[i].right, specials[i].left);
        }
    }
}

static void integers_wrap(void **state)
{
    int8_t a8[] = {127, -128, -128, 16}, b8[] = {1, -1, -128, 16};
    uint16_t a16[] = {65535, 65535}, b16[] = {1, 65535};
    int32_t a32[] = {INT32_MAX, INT32_MIN}, b32[] = {1, -1};
    int64_t a64[] = {INT64_MAX, INT64_MIN}, b64[] = {1, -1};

    (void)state;
    tt_reduce(TT_TYPE_INT8, TT_REDUCE_SUM, a8, b8, 3);
    tt_reduce(TT_TYPE_INT8, TT_REDUCE_PRODUCT, a8 + 3, b8 + 3, 1);
    assert_int_equal(a8[0], -128);
    assert_int_equal(a8[1], 127);
    assert_int_equal(a8[2], 0);
    assert_int_equal(a8[3], 0);
    tt_reduce(TT_TYPE_UINT16, TT_REDUCE_SUM, a16, b16, 1);
    tt_reduce(TT_TYPE_UINT16, TT_REDUCE_PRODUCT, a16 + 1, b16 + 1, 1);
    assert_int_equal(a16[0], 0);
    assert_int_equal(a16[1], 1);
    tt_reduce(TT_TYPE_INT32, TT_REDUCE_SUM, a32, b32, 1);
    tt_reduce(TT_TYPE_INT32, TT_REDUCE_PRODUCT, a32 + 1, b32 + 1, 1);
    assert_int_equal(a32[0], INT32_MIN);
    assert_int_equal(a32[1], INT32_MIN);
    tt_reduce(TT_TYPE_INT64, TT_REDUCE_SUM, a64, b64, 1);
    tt_reduce(TT_TYPE_INT64, TT_REDUCE_PRODUCT, a64 + 1, b64 + 1, 1);
    assert_true(a64[0] == INT64_MIN);
    assert_true(a64[1] == INT64_MIN);
}

static void averages_of_integers_are_truncated(void **state)
{
    int8_t a8[] = {7, -7, 127, -128, 5};
    uint8_t u8[] = {255, 254};
    int64_t a64[] = {-10, 10, INT64_MIN};
    uint64_t u64[] = {UINT64_MAX};
    uint32_t u32[] = {UINT32_MAX, UINT32_MAX - 1};

    (void)state;
    tt_reduce_divide(TT_TYPE_INT8, a8, a8, 2, 4);
    tt_reduce_divide(TT_TYPE_INT8, a8 + 4, a8 + 4, 1000000, 1);
    assert_int_equal(a8[0], 3);
    assert_int_equal(a8[1], -3);
    assert_int_equal(a8[2], 63);
    assert_int_equal(a8[3], -64);
    assert_int_equal(a8[4], 0);
    tt_reduce_divide(TT_TYPE_UINT8, u8, u8, 255, 2);
    assert_int_equal(u8[0], 1);
    assert_int_equal(u8[1], 0);
    tt_reduce_divide(TT_TYPE_INT64, a64, a64, 3, 3);
    assert_true(a64[0] == -3 && a64[1] == 3 && a64[2] == INT64_MIN / 3);
    tt_reduce_divide(TT_TYPE_UINT64, u64, u64, 2, 1);
    assert_true(u64[0] == UINT64_MAX / 2);
    tt_reduce_divide(TT_TYPE_UINT32, u32, u32, 1, 2);
    assert_true(u32[0] == UINT32_MAX && u32[1] == UINT32_MAX - 1);
}

#if defined(__x86_64__)

enum { MANY = 20000, FLUSH = 0x8040 /* flush to zero, and take subnormal operands for zero */ };

static char a[MANY * REFERENCE_ELEMENT_BYTES], b[MANY * REFERENCE_ELEMENT_BYTES];
static char kept[MANY * REFERENCE_ELEMENT_BYTES], flushed[MANY * REFERENCE_ELEMENT_BYTES];

static void compare_flushed(enum tt_type type, enum tt_reduce_operation step)
{
    const unsigned before = _mm_getcsr();

    for (unsigned version = 0; version < tt_reduce_version_count(); version++) {
        tt_combine_kernel *combine = tt_reduce_version_row(version, type)->combine[step];

        combine(kept, a, b, MANY);
        _mm_setcsr(before | FLUSH);
        combine(flushed, a, b, MANY);
        _mm_setcsr(before);
        if (memcmp(kept, flushed, (size_t)MANY * tt_type_row(type)->bytes) != 0) {
            fail_msg("%s of %s, version %s", tt_reduce_operation_row(step)->name, tt_type_row(type)->name,
                     tt_reduce_version_name(version));
        }
    }
}

static void a_program_that_flushes_subnormal_numbers_changes_no_fp16_no_fp8_and_no_order(void **state)
{
    struct tt_random random;

    (void)state;
    tt_random_init(&random, 10);
    for (unsigned type = TT_TYPE_FP8_E4M3; type <= TT_TYPE_FP64; type++) {
        reference_fill(type, &random, a, MANY);
        reference_fill(type, &random, b, MANY);
        compare_flushed(type, TT_REDUCE_MIN);
        compare_flushed(type, TT_REDUCE_MAX);
        if (type < TT_TYPE_BF16) {
            compare_flushed(type, TT_REDUCE_SUM);
            compare_flushed(type, TT_REDUCE_PRODUCT);
        }
    }
}

#else

static void a_program_that_flushes_subnormal_numbers_changes_no_fp16_no_fp8_and_no_order(void **state)
{
    (void)state;
    TT_SKIP("how to flush subnormal numbers is known of x86-64 only");
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(special_numbers_give_what_ieee_754_and_ofp8_say_in_either_order),
        cmocka_unit_test(a_program_that_flushes_subnormal_numbers_changes_no_fp16_no_fp8_and_no_order),
        cmocka_unit_test(integers_wrap),
        cmocka_unit_test(averages_of_integers_are_truncated),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
