/* SPDX-License-Identifier: BSD-3-Clause */
/* Header of multicast datagrams. Buffers are allocated to the byte, so that a sanitizer sees a read beyond the end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "wire/datagram.h"

#define KEY UINT64_C(0x0123456789ABCDEF)

static const struct tt_datagram example = {.key = KEY, .imm = 0xA1B2C3D4, .source = 0x0203, .length_bytes = 5};

/* A whole datagram with this header and a payload of zeroes, to be freed. */
static uint8_t *make_datagram(const struct tt_datagram *datagram)
{
    uint8_t *bytes = calloc(1, TT_DATAGRAM_HEADER_BYTES + datagram->length_bytes);

    assert_non_null(bytes);
    tt_datagram_encode(datagram, bytes);
    return bytes;
}

/* Decodes the first `length_bytes` bytes from a buffer of exactly that size. */
static enum tt_datagram_verdict decode_exactly(const uint8_t *bytes, size_t length_bytes, struct tt_datagram *datagram)
{
    uint8_t *copy = malloc(length_bytes > 0 ? length_bytes : 1);

    assert_non_null(copy);
    memcpy(copy, bytes, length_bytes);
    enum tt_datagram_verdict verdict = tt_datagram_decode(copy, length_bytes, KEY, datagram);
    free(copy);
    return verdict;
}

static void header_has_the_documented_layout(void **state)
{
    const uint8_t expected[TT_DATAGRAM_HEADER_BYTES] = {0x01, 0x23, 0x45, 0x67, 0x89, 0xAB, 0xCD, 0xEF,
                                                        0xA1, 0xB2, 0xC3, 0xD4, 2,    3,    0,    5};
    uint8_t header[TT_DATAGRAM_HEADER_BYTES];

    (void)state;
    tt_datagram_encode(&example, header);
    assert_memory_equal(header, expected, sizeof(expected));
}

static void what_is_encoded_is_decoded(void **state)
{
    const uint32_t lengths[] = {0, 1, 255, 256, 1452, 8192, TT_DATAGRAM_MAX_PAYLOAD_BYTES};

    (void)state;
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        struct tt_datagram in = {
            .key = KEY, .imm = UINT32_MAX - (uint32_t)i, .source = 0xFFFE, .length_bytes = lengths[i]};
        struct tt_datagram out = {0};
        uint8_t *bytes = make_datagram(&in);
        assert_int_equal(decode_exactly(bytes, TT_DATAGRAM_HEADER_BYTES + lengths[i], &out), TT_DATAGRAM_VALID);
        assert_true(out.key == in.key);
        assert_int_equal(out.imm, in.imm);
        assert_int_equal(out.source, in.source);
        assert_int_equal(out.length_bytes, in.length_bytes);
        free(bytes);
    }
}

static void less_than_a_header_is_foreign_and_not_read_beyond(void **state)
{
    uint8_t *bytes = make_datagram(&example);
    struct tt_datagram out = {.imm = 77};

    (void)state;
    for (size_t length_bytes = 0; length_bytes < TT_DATAGRAM_HEADER_BYTES; length_bytes++) {
        assert_int_equal(decode_exactly(bytes, length_bytes, &out), TT_DATAGRAM_FOREIGN);
    }
    assert_int_equal(out.imm, 77);
    free(bytes);
}

static void every_changed_bit_of_the_key_makes_it_foreign(void **state)
{
    uint8_t *bytes = make_datagram(&example);
    struct tt_datagram out = {.imm = 77};

    (void)state;
    for (size_t i = 0; i < TT_DATAGRAM_HEADER_BYTES; i++) {
        bool is_key = i < TT_DATAGRAM_OFFSET_IMM; /* the first field */
        for (int bit = 0; is_key && bit < 8; bit++) {
            bytes[i] ^= (uint8_t)(1 << bit);
            assert_int_equal(decode_exactly(bytes, TT_DATAGRAM_HEADER_BYTES + 5, &out), TT_DATAGRAM_FOREIGN);
            bytes[i] ^= (uint8_t)(1 << bit);
        }
    }
    assert_int_equal(out.imm, 77);
    assert_int_equal(decode_exactly(bytes, TT_DATAGRAM_HEADER_BYTES + 5, &out), TT_DATAGRAM_VALID);
    free(bytes);
}

static void cut_and_padded_datagrams_have_the_wrong_length(void **state)
{
    uint8_t bytes[TT_DATAGRAM_HEADER_BYTES + 300] = {0};
    struct tt_datagram in = example;
    struct tt_datagram out = {.imm = 77};

    (void)state;
    in.length_bytes = 100;
    tt_datagram_encode(&in, bytes);
    for (size_t length_bytes = TT_DATAGRAM_HEADER_BYTES; length_bytes <= sizeof(bytes); length_bytes++) {
        if (length_bytes != TT_DATAGRAM_HEADER_BYTES + 100) {
            assert_int_equal(decode_exactly(bytes, length_bytes, &out), TT_DATAGRAM_WRONG_LENGTH);
        }
    }
    assert_int_equal(out.imm, 77);
}

static void payload_that_no_datagram_can_carry_has_the_wrong_length(void **state)
{
    static uint8_t bytes[TT_DATAGRAM_HEADER_BYTES + UINT16_MAX];
    struct tt_datagram out = {.imm = 77};

    (void)state;
    tt_datagram_encode(&example, bytes);
    for (uint32_t length = TT_DATAGRAM_MAX_PAYLOAD_BYTES; length <= UINT16_MAX; length++) {
        bytes[TT_DATAGRAM_OFFSET_LENGTH] = (uint8_t)(length >> 8);
        bytes[TT_DATAGRAM_OFFSET_LENGTH + 1] = (uint8_t)length;
        enum tt_datagram_verdict verdict =
            tt_datagram_decode(bytes, TT_DATAGRAM_HEADER_BYTES + (size_t)length, KEY, &out);
        assert_int_equal(verdict,
                         length == TT_DATAGRAM_MAX_PAYLOAD_BYTES ? TT_DATAGRAM_VALID : TT_DATAGRAM_WRONG_LENGTH);
    }
    assert_int_equal(out.length_bytes, TT_DATAGRAM_MAX_PAYLOAD_BYTES);
}

static void random_bytes_behind_a_right_identity_are_judged_by_their_length_alone(void **state)
{
    struct tt_random random;
    uint32_t valid = 0;

    (void)state;
    tt_random_init(&random, 1);
    for (int round = 0; round < 200000; round++) {
        uint8_t bytes[TT_DATAGRAM_HEADER_BYTES + 64];
        size_t length_bytes = TT_DATAGRAM_HEADER_BYTES + tt_random_below(&random, 65);
        struct tt_datagram out;
        tt_datagram_encode(&example, bytes);
        bytes[TT_DATAGRAM_OFFSET_LENGTH] = 0;
        bytes[TT_DATAGRAM_OFFSET_LENGTH + 1] = (uint8_t)tt_random_below(&random, 80);
        size_t stated = bytes[TT_DATAGRAM_OFFSET_LENGTH + 1];
        enum tt_datagram_verdict verdict = tt_datagram_decode(bytes, length_bytes, KEY, &out);
        assert_int_equal(verdict, stated == length_bytes - TT_DATAGRAM_HEADER_BYTES ? TT_DATAGRAM_VALID
                                                                                    : TT_DATAGRAM_WRONG_LENGTH);
        valid += verdict == TT_DATAGRAM_VALID;
    }
    assert_in_range(valid, 1000, 10000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(header_has_the_documented_layout),
        cmocka_unit_test(what_is_encoded_is_decoded),
        cmocka_unit_test(less_than_a_header_is_foreign_and_not_read_beyond),
        cmocka_unit_test(every_changed_bit_of_the_key_makes_it_foreign),
        cmocka_unit_test(cut_and_padded_datagrams_have_the_wrong_length),
        cmocka_unit_test(payload_that_no_datagram_can_carry_has_the_wrong_length),
        cmocka_unit_test(random_bytes_behind_a_right_identity_are_judged_by_their_length_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
