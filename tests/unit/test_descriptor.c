/* SPDX-License-Identifier: BSD-3-Clause */
/* Descriptors and packet headers of the triggered engine, bit by bit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "wire/descriptor.h"
#include "wire/trigger_packet.h"
#include "wire/word.h"

/* The words of a descriptor. */
static void words_of(const struct tt_descriptor *descriptor, uint64_t *words)
{
    uint8_t bytes[TT_DESCRIPTOR_BYTES];

    tt_descriptor_encode(descriptor, bytes);
    for (size_t i = 0; i < TT_DESCRIPTOR_BYTES / 8; i++) {
        words[i] = tt_word_get_64(bytes + 8 * i);
    }
}

/* One field is all ones and everything else zero: its bits are set, and no other one is. */
static void every_field_has_the_bits_of_the_figure(void **state)
{
    static const struct {
        struct tt_descriptor descriptor;
        size_t word;
        uint64_t bits;
    } fields[] = {
        {{.job = 255}, 0, UINT64_C(0xFF) << 51},
        {{.sequence = 31}, 0, UINT64_C(0x1F) << 46},
        {{.source_port = 2047}, 0, UINT64_C(0x7FF) << 35},
        {{.destination_port = 2047}, 0, UINT64_C(0x7FF) << 24},
        {{.destination_node = 0xFFFFFF}, 0, 0xFFFFFF},
        {{.from_source = true}, 1, 1 << 17},
        {{.reduce_before = true}, 1, 1 << 16},
        {{.collective = true}, 1, 1 << 15},
        {{.head = true}, 1, 1 << 14},
        {{.tail = true}, 1, 1 << 13},
        {{.triggers = true}, 1, 1 << 12},
        {{.count = 63}, 1, 0x3F << 6},
        {{.swap_local_data = true}, 1, 1 << 5},
        {{.swap_local_vp = true}, 1, 1 << 4},
        {{.swap_remote_data = true}, 1, 1 << 3},
        {{.swap_remote_address = true}, 1, 1 << 2},
        {{.reduce = true}, 1, 1 << 1},
        {{.collective_end = true}, 1, 1 << 0},
        {{.address_bytes = UINT64_MAX}, 2, UINT64_MAX},
        {{.length_bytes = UINT64_MAX}, 3, UINT64_MAX},
    };

    (void)state;
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        uint64_t words[TT_DESCRIPTOR_BYTES / 8];

        words_of(&fields[i].descriptor, words);
        for (size_t word = 0; word < TT_DESCRIPTOR_BYTES / 8; word++) {
            assert_true(words[word] == (word == fields[i].word ? fields[i].bits : 0));
        }
    }
}

static void sources_stand_two_a_word_behind_the_operand(void **state)
{
    struct tt_descriptor descriptor = {.source_count = 3, .sources = {0xABCDEF, 1, 0xFFFFFF}};
    uint64_t words[TT_DESCRIPTOR_BYTES / 8];

    (void)state;
    words_of(&descriptor, words);
    assert_true(words[0] == UINT64_C(3) << 59);
    assert_true(words[4] == UINT64_C(0x00ABCDEF00000001));
    assert_true(words[5] == UINT64_C(0x00FFFFFF00000000));
}

static void the_first_byte_holds_the_highest_bits(void **state)
{
    struct tt_descriptor descriptor = {.source_count = 1, .job = 0x80, .destination_node = 0x12};
    uint8_t bytes[TT_DESCRIPTOR_BYTES];

    (void)state;
    tt_descriptor_encode(&descriptor, bytes);
    assert_int_equal(bytes[0], 1 << 3 | 0x80 >> 5);
    assert_int_equal(bytes[7], 0x12);
}

static struct tt_descriptor random_descriptor(struct tt_random *random)
{
    uint64_t bits = tt_random_next(random);
    struct tt_descriptor d = {
        .collective = bits & 1,
        .head = bits >> 1 & 1,
        .tail = bits >> 2 & 1,
        .triggers = bits >> 3 & 1,
        .swap_local_data = bits >> 4 & 1,
        .swap_local_vp = bits >> 5 & 1,
        .swap_remote_data = bits >> 6 & 1,
        .swap_remote_address = bits >> 7 & 1,
        .reduce = (bits >> 8 & 1) && !(bits >> 4 & 1),
        .reduce_before = bits >> 9 & 1,
        .collective_end = bits >> 10 & 1,
        .from_source = bits >> 52 & 1,
        .count = bits >> 11 & 63,
        .job = bits >> 17 & 255,
        .sequence = bits >> 25 & 31,
        .source_port = bits >> 30 & 2047,
        .destination_port = bits >> 41 & 2047,
        .destination_node = tt_random_next(random) & 0xFFFFFF,
        .address_bytes = tt_random_next(random),
        .length_bytes = tt_random_next(random),
        .source_count = (uint32_t)tt_random_below(random, TT_DESCRIPTOR_MAX_SOURCES + 1),
    };

    for (uint32_t i = 0; i < d.source_count; i++) {
        d.sources[i] = tt_random_next(random) & 0xFFFFFF;
    }
    return d;
}

/* A word that decodes is what encoding what was read gives: so decoding loses no bit and invents none. */
static void decoding_is_the_inverse_of_encoding(void **state)
{
    struct tt_random random;

    (void)state;
    tt_random_init(&random, 1);
    for (int i = 0; i < 10000; i++) {
        struct tt_descriptor written = random_descriptor(&random), read;
        uint8_t bytes[TT_DESCRIPTOR_BYTES], again[TT_DESCRIPTOR_BYTES];

        tt_descriptor_encode(&written, bytes);
        assert_true(tt_descriptor_decode(bytes, &read));
        assert_int_equal(read.count, written.count);
        assert_int_equal(read.source_count, written.source_count);
        assert_int_equal(read.destination_node, written.destination_node);
        tt_descriptor_encode(&read, again);
        assert_memory_equal(bytes, again, sizeof bytes);
    }
}

static void descriptors_that_nobody_writes_are_refused(void **state)
{
    uint8_t bytes[TT_DESCRIPTOR_BYTES] = {0};
    struct tt_descriptor read = {.job = 7};

    (void)state;
    tt_word_put_64(bytes, UINT64_C(17) << 59);
    assert_false(tt_descriptor_decode(bytes, &read));
    memset(bytes, 0, sizeof bytes);
    tt_word_put_64(bytes + 8, UINT64_C(1) << 18);
    assert_false(tt_descriptor_decode(bytes, &read));
    memset(bytes, 0, sizeof bytes);
    tt_word_put_64(bytes + 8, 1 << 5 | 1 << 1); /* replaced and reduced */
    assert_false(tt_descriptor_decode(bytes, &read));
    memset(bytes, 0, sizeof bytes);
    tt_word_put_32(bytes + 32, 1); /* a source, of none */
    assert_false(tt_descriptor_decode(bytes, &read));
    tt_word_put_64(bytes, UINT64_C(1) << 59);
    tt_word_put_32(bytes + 32, 1 << 24);
    assert_false(tt_descriptor_decode(bytes, &read));
    assert_int_equal(read.job, 7);
    tt_word_put_32(bytes + 32, 0xFFFFFF);
    assert_true(tt_descriptor_decode(bytes, &read));
}

static void packets_begin_with_the_48_bits_that_they_are_matched_by(void **state)
{
    const struct tt_trigger_packet packet = {
        .kind = TT_TRIGGER_DATA, .job = 0xA5, .node = 0x123456, .port = 0x7FF, .sequence = 0x15, .source_port = 0x401};
    uint8_t bytes[TT_TRIGGER_PACKET_BYTES];

    (void)state;
    tt_trigger_packet_encode(&packet, bytes);
    assert_true(tt_word_get_64(bytes) >> 16 == tt_trigger_packet_key(&packet));
    assert_true(tt_word_get_64(bytes) >> 16 == UINT64_C(0xA5123456FFF5));
    assert_int_equal(tt_word_get_64(bytes) & 0xFFFF, 0x401 << 5);
    assert_true(tt_word_get_64(bytes + 8) == UINT64_C(1) << 56);
}

static void packets_decode_to_what_was_written(void **state)
{
    const struct tt_trigger_packet written = {.kind = TT_TRIGGER_DATA,
                                              .job = 3,
                                              .node = 0xFEDCBA,
                                              .port = 1025,
                                              .sequence = 30,
                                              .source_port = 2046,
                                              .triggers = true,
                                              .swap_data = true,
                                              .swap_address = true,
                                              .collective_end = true,
                                              .length_bytes = 100,
                                              .address_bytes = UINT64_C(0x0123456789ABCDEF)};
    struct tt_trigger_packet read;
    uint8_t bytes[TT_TRIGGER_PACKET_BYTES + 100] = {0};

    (void)state;
    tt_trigger_packet_encode(&written, bytes);
    assert_true(tt_trigger_packet_decode(bytes, sizeof bytes, &read));
    assert_true(read.kind == written.kind && read.job == 3 && read.node == 0xFEDCBA && read.port == 1025);
    assert_true(read.sequence == 30 && read.source_port == 2046 && read.length_bytes == 100);
    assert_true(read.triggers && read.swap_data && read.swap_address && read.collective_end);
    assert_true(read.address_bytes == written.address_bytes);
    bytes[7] = 0;
    memset(bytes + 16, 0, 8);
    assert_true(tt_trigger_packet_decode(bytes, sizeof bytes, &read));
    assert_false(read.triggers || read.swap_data || read.swap_address || read.collective_end || read.is_copied);
    bytes[11] = 1;
    assert_true(tt_trigger_packet_decode(bytes, sizeof bytes, &read));
    assert_true(read.is_copied);
}

static void packet_without_its_data_has_a_reference_to_the_end_of_the_packet(void **state)
{
    const struct tt_trigger_packet written = {
        .kind = TT_TRIGGER_REMOTE, .triggers = true, .length_bytes = 1 << 20, .reference_bytes = 99};
    struct tt_trigger_packet read = {.job = 9};
    uint8_t bytes[TT_TRIGGER_PACKET_BYTES + TT_TRIGGER_MAX_REFERENCE_BYTES + 1] = {0};

    (void)state;
    tt_trigger_packet_encode(&written, bytes);
    assert_int_equal(bytes[8], 4);
    assert_false(tt_trigger_packet_decode(bytes, TT_TRIGGER_PACKET_BYTES, &read)); /* to nothing */
    assert_false(tt_trigger_packet_decode(bytes, sizeof bytes, &read));
    assert_int_equal(read.job, 9);
    for (uint32_t i = 1; i <= TT_TRIGGER_MAX_REFERENCE_BYTES; i++) {
        assert_true(tt_trigger_packet_decode(bytes, TT_TRIGGER_PACKET_BYTES + i, &read));
        assert_true(read.kind == TT_TRIGGER_REMOTE && read.length_bytes == 1 << 20 && read.reference_bytes == i);
        assert_true(tt_trigger_packet_is_data(&read) && tt_trigger_packet_payload_bytes(&read) == i);
    }
}

static void packets_that_are_cut_or_nobody_writes_are_refused(void **state)
{
    struct tt_trigger_packet packet = {.kind = TT_TRIGGER_DATA, .length_bytes = 10}, read = {.job = 9};
    uint8_t bytes[TT_TRIGGER_PACKET_BYTES + 11];

    (void)state;
    memset(bytes, 0, sizeof bytes);
    tt_trigger_packet_encode(&packet, bytes);
    assert_true(tt_trigger_packet_decode(bytes, TT_TRIGGER_PACKET_BYTES + 10, &read));
    read.job = 9;
    assert_false(tt_trigger_packet_decode(bytes, TT_TRIGGER_PACKET_BYTES + 9, &read));
    assert_false(tt_trigger_packet_decode(bytes, TT_TRIGGER_PACKET_BYTES + 11, &read));
    assert_false(tt_trigger_packet_decode(bytes, TT_TRIGGER_PACKET_BYTES - 1, &read));
    assert_false(tt_trigger_packet_decode(bytes, 0, &read));
    bytes[9] = 1; /* must be zero */
    assert_false(tt_trigger_packet_decode(bytes, TT_TRIGGER_PACKET_BYTES + 10, &read));
    bytes[9] = 0;
    bytes[11] = 2; /* must be zero */
    assert_false(tt_trigger_packet_decode(bytes, TT_TRIGGER_PACKET_BYTES + 10, &read));
    bytes[11] = 0;
    bytes[16] = 1; /* an address that nobody wants */
    assert_false(tt_trigger_packet_decode(bytes, TT_TRIGGER_PACKET_BYTES + 10, &read));
    bytes[16] = 0;
    bytes[7] = 2; /* must be zero */
    assert_false(tt_trigger_packet_decode(bytes, TT_TRIGGER_PACKET_BYTES + 10, &read));
    bytes[7] = 0;
    bytes[8] = 0; /* no kind */
    assert_false(tt_trigger_packet_decode(bytes, TT_TRIGGER_PACKET_BYTES, &read));
    bytes[8] = 5;
    assert_false(tt_trigger_packet_decode(bytes, TT_TRIGGER_PACKET_BYTES, &read));
    assert_int_equal(read.job, 9);
    bytes[8] = TT_TRIGGER_REFUSED; /* has the length of what it answers, and no payload */
    assert_true(tt_trigger_packet_decode(bytes, TT_TRIGGER_PACKET_BYTES, &read));
    assert_int_equal(read.length_bytes, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_has_the_bits_of_the_figure),
        cmocka_unit_test(sources_stand_two_a_word_behind_the_operand),
        cmocka_unit_test(the_first_byte_holds_the_highest_bits),
        cmocka_unit_test(decoding_is_the_inverse_of_encoding),
        cmocka_unit_test(descriptors_that_nobody_writes_are_refused),
        cmocka_unit_test(packets_begin_with_the_48_bits_that_they_are_matched_by),
        cmocka_unit_test(packets_decode_to_what_was_written),
        cmocka_unit_test(packet_without_its_data_has_a_reference_to_the_end_of_the_packet),
        cmocka_unit_test(packets_that_are_cut_or_nobody_writes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
