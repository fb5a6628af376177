/* SPDX-License-Identifier: BSD-3-Clause */
/* The bytes that instances of the "verbs" p2p provider exchange: what one writes another reads, and nothing else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "fabric/verbs/rc_message.h"

static const struct tt_rc_address sample = {.instance = UINT64_C(0x1122334455667788),
                                            .gid = {[10] = 0xff, [11] = 0xff, 10, 84, 8, 1},
                                            .queue_pair = 0x00abcdef,
                                            .queue_key = 0x12345678,
                                            .lid = 0x0102,
                                            .mtu = 5,
                                            .roce = true,
                                            .reads_out = 16,
                                            .reads_in = 7};

static void address_reads_back_as_written(void **state)
{
    uint8_t bytes[TT_RC_ADDRESS_BYTES];
    struct tt_rc_address back = {0};
    (void)state;
    tt_rc_address_encode(&sample, bytes);
    assert_true(tt_rc_address_decode(bytes, sizeof(bytes), &back));
    assert_int_equal(back.instance, sample.instance);
    assert_memory_equal(back.gid, sample.gid, sizeof(sample.gid));
    assert_int_equal(back.queue_pair, sample.queue_pair);
    assert_int_equal(back.queue_key, sample.queue_key);
    assert_int_equal(back.lid, sample.lid);
    assert_int_equal(back.mtu, sample.mtu);
    assert_true(back.roce);
    assert_int_equal(back.reads_out, sample.reads_out);
    assert_int_equal(back.reads_in, sample.reads_in);
}

static void address_with_any_bit_flipped_or_any_byte_missing_is_refused(void **state)
{
    uint8_t bytes[TT_RC_ADDRESS_BYTES + 1] = {0};
    struct tt_rc_address back = {.instance = 42};
    (void)state;
    tt_rc_address_encode(&sample, bytes);
    for (size_t bit = 0; bit < (size_t)8 * TT_RC_ADDRESS_BYTES; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1U << (bit % 8));
        assert_false(tt_rc_address_decode(bytes, TT_RC_ADDRESS_BYTES, &back));
        bytes[bit / 8] ^= (uint8_t)(1U << (bit % 8));
    }
    for (size_t length = 0; length < TT_RC_ADDRESS_BYTES; length++) {
        assert_false(tt_rc_address_decode(bytes, length, &back));
    }
    assert_false(tt_rc_address_decode(bytes, TT_RC_ADDRESS_BYTES + 1, &back));
    assert_int_equal(back.instance, 42);
}

static void address_of_no_possible_port_is_refused(void **state)
{
    struct tt_rc_address address, back;
    uint8_t bytes[TT_RC_ADDRESS_BYTES];
    (void)state;
    for (unsigned mtu = 0; mtu < 256; mtu++) {
        address = sample;
        address.mtu = (uint8_t)mtu;
        tt_rc_address_encode(&address, bytes);
        assert_int_equal(tt_rc_address_decode(bytes, sizeof(bytes), &back), mtu >= 1 && mtu <= 5);
    }
    address = sample;
    address.queue_pair = 0x01000000; /* queue pair numbers have 24 bits */
    tt_rc_address_encode(&address, bytes);
    assert_false(tt_rc_address_decode(bytes, sizeof(bytes), &back));
}

/* A get from it would wait for ever. */
static void address_of_who_serves_or_makes_no_reads_is_refused(void **state)
{
    struct tt_rc_address address = sample, back;
    uint8_t bytes[TT_RC_ADDRESS_BYTES];
    (void)state;
    address.reads_in = 0;
    tt_rc_address_encode(&address, bytes);
    assert_false(tt_rc_address_decode(bytes, sizeof(bytes), &back));
    address = sample;
    address.reads_out = 0;
    tt_rc_address_encode(&address, bytes);
    assert_false(tt_rc_address_decode(bytes, sizeof(bytes), &back));
}

static void greeting_reads_back_as_written(void **state)
{
    const struct tt_rc_greeting greeting = {.kind = TT_RC_HELLO,
                                            .stage = TT_RC_READY,
                                            .to = UINT64_C(0x8877665544332211),
                                            .serial = 0xfffffffe,
                                            .queue_pair = 0x112233,
                                            .psn = 0xffffff,
                                            .from = sample};
    uint8_t bytes[TT_RC_GREETING_BYTES];
    struct tt_rc_greeting back;
    (void)state;
    tt_rc_greeting_encode(&greeting, bytes);
    assert_true(tt_rc_greeting_decode(bytes, sizeof(bytes), &back));
    assert_int_equal(back.kind, TT_RC_HELLO);
    assert_int_equal(back.stage, TT_RC_READY);
    assert_int_equal(back.to, greeting.to);
    assert_int_equal(back.serial, greeting.serial);
    assert_int_equal(back.queue_pair, greeting.queue_pair);
    assert_int_equal(back.psn, greeting.psn);
    assert_int_equal(back.from.instance, sample.instance);
}

static void greeting_of_unknown_kind_or_stage_is_refused(void **state)
{
    const struct tt_rc_greeting greeting = {.kind = TT_RC_GONE, .from = sample};
    uint8_t bytes[TT_RC_GREETING_BYTES];
    struct tt_rc_greeting back;
    (void)state;
    tt_rc_greeting_encode(&greeting, bytes);
    for (unsigned value = 0; value < 256; value++) {
        bytes[4] = (uint8_t)value;
        assert_int_equal(tt_rc_greeting_decode(bytes, sizeof(bytes), &back),
                         value == TT_RC_HELLO || value == TT_RC_GONE);
    }
    bytes[4] = TT_RC_HELLO;
    for (unsigned value = 0; value < 256; value++) {
        bytes[5] = (uint8_t)value;
        assert_int_equal(tt_rc_greeting_decode(bytes, sizeof(bytes), &back), value <= TT_RC_OPEN);
    }
    bytes[5] = TT_RC_OPEN;
    bytes[TT_RC_GREETING_BYTES - 5] ^= 1; /* of its sender's address */
    assert_false(tt_rc_greeting_decode(bytes, sizeof(bytes), &back));
}

static void key_covers_its_memory_to_the_last_byte_and_no_further(void **state)
{
    const struct tt_rc_key key = {.rkey = 0xdeadbeef, .address = 0x7000, .length_bytes = 0x100};
    uint8_t bytes[TT_RC_KEY_BYTES];
    struct tt_rc_key back;
    (void)state;
    tt_rc_key_encode(&key, bytes);
    assert_true(tt_rc_key_decode(bytes, sizeof(bytes), &back));
    assert_int_equal(back.rkey, key.rkey);
    assert_true(tt_rc_key_covers(&back, 0x7000, 0x100));
    assert_true(tt_rc_key_covers(&back, 0x70ff, 1));
    assert_true(tt_rc_key_covers(&back, 0x7100, 0));
    assert_false(tt_rc_key_covers(&back, 0x6fff, 1));
    assert_false(tt_rc_key_covers(&back, 0x70ff, 2));
    assert_false(tt_rc_key_covers(&back, 0x7100, 1));
    assert_false(tt_rc_key_covers(&back, 0x7001, UINT64_MAX)); /* whose end wraps around */
    assert_false(tt_rc_key_covers(&back, UINT64_MAX, 1));
    bytes[0] ^= 1;
    assert_false(tt_rc_key_decode(bytes, sizeof(bytes), &back));
    assert_false(tt_rc_key_decode(bytes, sizeof(bytes) - 1, &back));
}

static void message_whose_length_its_kind_does_not_have_is_refused(void **state)
{
    static const struct {
        enum tt_rc_message_kind kind;
        uint32_t least_bytes, most_bytes;
    } kinds[] = {{TT_RC_FRAME, 1, TT_P2P_LEAST_FRAME_BYTES},
                 {TT_RC_IMMEDIATE, 8, 8 + TT_P2P_MAX_IMMEDIATE_BYTES},
                 {TT_RC_BYE, 0, 0},
                 {TT_RC_BYE_HEARD, 0, 0}};
    uint8_t bytes[TT_RC_MESSAGE_MAX_BYTES + 1] = {0};
    (void)state;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        for (uint32_t payload = 0; payload <= TT_P2P_LEAST_FRAME_BYTES + 1; payload++) {
            enum tt_rc_message_kind kind = TT_RC_FRAME;
            uint32_t payload_bytes = 77777;
            const bool good = payload >= kinds[i].least_bytes && payload <= kinds[i].most_bytes;
            tt_rc_header_encode(kinds[i].kind, payload, bytes);
            assert_int_equal(tt_rc_header_decode(bytes, TT_RC_HEADER_BYTES + payload, &kind, &payload_bytes), good);
            assert_int_equal(payload_bytes, good ? payload : 77777);
            assert_false(tt_rc_header_decode(bytes, TT_RC_HEADER_BYTES + payload + 1, &kind, &payload_bytes));
        }
    }
    for (size_t length = 0; length < TT_RC_HEADER_BYTES; length++) {
        enum tt_rc_message_kind kind;
        uint32_t payload_bytes;
        assert_false(tt_rc_header_decode(bytes, length, &kind, &payload_bytes));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(address_reads_back_as_written),
        cmocka_unit_test(address_with_any_bit_flipped_or_any_byte_missing_is_refused),
        cmocka_unit_test(address_of_no_possible_port_is_refused),
        cmocka_unit_test(address_of_who_serves_or_makes_no_reads_is_refused),
        cmocka_unit_test(greeting_reads_back_as_written),
        cmocka_unit_test(greeting_of_unknown_kind_or_stage_is_refused),
        cmocka_unit_test(key_covers_its_memory_to_the_last_byte_and_no_further),
        cmocka_unit_test(message_whose_length_its_kind_does_not_have_is_refused),
    };
    return cmocka_run_group_tests_name("rc_message", tests, NULL, NULL);
}
