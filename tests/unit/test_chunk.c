/* SPDX-License-Identifier: BSD-3-Clause */
/* What travels beside a chunk: immediate data, tags, and the release that begins a multicast. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "wire/chunk.h"

static void immediate_data_is_a_tag_above_24_bits_of_psn(void **state)
{
    (void)state;
    assert_int_equal(tt_imm_encode(0xAB, 0x123456), 0xAB123456);
    for (uint32_t tag = 0; tag < TT_TAG_COUNT; tag++) {
        uint32_t imm = tt_imm_encode(tag, TT_PSN_RELEASE);

        assert_int_equal(tt_imm_tag(imm), tag);
        assert_int_equal(tt_imm_psn(imm), tag < TT_TAG_EAGER ? 0xFFFFFF : 0xFFFF);
        assert_int_equal(tt_imm_tag(tt_imm_encode(tag, 0)), tag);
        assert_int_equal(tt_imm_psn(tt_imm_encode(tag, 0)), 0);
    }
    assert_true(TT_PSN_LIMIT <= TT_PSN_RELEASE); /* no chunk of data has a release's number */
}

static void immediate_data_of_an_eager_chunk_says_how_far_its_sender_is_behind(void **state)
{
    (void)state;
    assert_int_equal(tt_imm_encode_eager(0x80, 0xFFFF, 0xFF), 0x80FFFFFF);
    for (uint32_t behind = 0; behind < TT_BEHIND_LIMIT; behind++) {
        uint32_t imm = tt_imm_encode_eager(0xAB, 0x7FFF, behind);

        assert_int_equal(tt_imm_tag(imm), 0xAB);
        assert_int_equal(tt_imm_psn(imm), 0x7FFF);
        assert_int_equal(tt_imm_behind(imm), behind);
    }
}

static void tags_of_eager_and_other_collectives_are_apart_and_never_the_probes(void **state)
{
    (void)state;
    for (uint64_t sequence = 0; sequence < 1000; sequence++) {
        assert_in_range(tt_tag_of_sequence(sequence, false), 1, 127);
        assert_in_range(tt_tag_of_sequence(sequence, true), 128, 255);
        assert_int_equal(tt_tag_of_sequence(sequence, false), tt_tag_of_sequence(sequence + 127, false));
        assert_int_equal(tt_tag_of_sequence(sequence, true), tt_tag_of_sequence(sequence + 128, true));
        assert_int_not_equal(tt_tag_of_sequence(sequence, false), tt_tag_of_sequence(sequence + 126, false));
        assert_int_not_equal(tt_tag_of_sequence(sequence, true), tt_tag_of_sequence(sequence + 127, true));
    }
    assert_int_equal(TT_TAG_PROBE, 0);
}

/* A release is a datagram of its own: it has no header but the datagram's. */
static void a_release_is_17_bytes_little_endian(void **state)
{
    static const uint8_t expected[TT_RELEASE_BYTES] = {8,    7,    6,    5,    4,    3,    2,    1, 0x14,
                                                       0x13, 0x12, 0x11, 0x24, 0x23, 0x22, 0x21, 2};
    static const struct tt_release all[] = {{UINT64_C(0x0102030405060708), 0x11121314, 0x21222324, false, true},
                                            {0, 0, 0, false, false},
                                            {UINT64_MAX, 0, 0, false, false},
                                            {0, UINT32_MAX, 0, false, false},
                                            {0, 0, UINT32_MAX, false, false},
                                            {.some_deaf = true}};
    uint8_t bytes[TT_RELEASE_BYTES + 1];

    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        struct tt_release again;

        memset(bytes, 0xC3, sizeof bytes);
        tt_release_encode(&all[i], bytes);
        assert_true(i != 0 || memcmp(bytes, expected, sizeof expected) == 0);
        assert_int_equal(bytes[TT_RELEASE_BYTES], 0xC3);
        tt_release_decode(bytes, &again);
        assert_true(again.finished == all[i].finished && again.rate_kbit == all[i].rate_kbit);
        assert_int_equal(again.window_chunks, all[i].window_chunks);
        assert_true(again.some_deaf == all[i].some_deaf && again.all_deaf == all[i].all_deaf);
    }
}

static void the_least_of_two_releases_is_the_least_of_each_number(void **state)
{
    struct tt_release least = {7, 900, 50, false, false};
    struct tt_release nothing = tt_release_of(8);

    (void)state;
    tt_release_least(&least, &(struct tt_release){9, 800, 60, false, false});
    assert_true(least.finished == 7 && least.rate_kbit == 800 && least.window_chunks == 50);
    tt_release_least(&least, &(struct tt_release){6, 1000, 40, false, false});
    assert_true(least.finished == 6 && least.rate_kbit == 800 && least.window_chunks == 40);
    tt_release_least(&nothing, &least);
    assert_true(nothing.finished == 6 && nothing.rate_kbit == 800 && nothing.window_chunks == 40);
    tt_release_least(&least, &(struct tt_release){.finished = 9, .rate_kbit = UINT32_MAX, .window_chunks = UINT32_MAX});
    assert_true(least.finished == 6 && least.rate_kbit == 800 && least.window_chunks == 40);
}

static void one_that_hears_is_enough_and_one_that_is_deaf_counts(void **state)
{
    struct tt_release least = tt_release_of(0);

    (void)state;
    assert_true(!least.some_deaf && least.all_deaf);
    tt_release_least(&least, &(struct tt_release){.some_deaf = true, .all_deaf = true});
    assert_true(least.some_deaf && least.all_deaf);
    tt_release_least(&least, &(struct tt_release){.all_deaf = true}); /* is owed nothing */
    assert_true(least.some_deaf && least.all_deaf);
    tt_release_least(&least, &(struct tt_release){.finished = 0});
    assert_true(least.some_deaf && !least.all_deaf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(immediate_data_is_a_tag_above_24_bits_of_psn),
        cmocka_unit_test(immediate_data_of_an_eager_chunk_says_how_far_its_sender_is_behind),
        cmocka_unit_test(tags_of_eager_and_other_collectives_are_apart_and_never_the_probes),
        cmocka_unit_test(a_release_is_17_bytes_little_endian),
        cmocka_unit_test(the_least_of_two_releases_is_the_least_of_each_number),
        cmocka_unit_test(one_that_hears_is_enough_and_one_that_is_deaf_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
