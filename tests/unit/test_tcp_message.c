/* SPDX-License-Identifier: BSD-3-Clause */
/* What goes over the sockets of the tcp provider: what one side writes the other one reads, and nothing else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "fabric/tcp/message.h"

static const struct tt_tcp_address ipv4 = {
    .family = 4, .instance = UINT64_C(0x1122334455), .port = 0xabcd, .ip = {10, 84, 8, 1}};
static const struct tt_tcp_address ipv6 = {
    .family = 6, .instance = UINT64_C(0xffffffffff), .port = 1, .ip = {0xfe, 0x80, [15] = 0x42}};
static const struct tt_tcp_place place = {.index = 0x01020304,
                                          .token = UINT64_C(0x1112131415161718),
                                          .address = UINT64_C(0x2122232425262728),
                                          .length_bytes = UINT64_C(0x3132333435363738)};

static void expect_same_place(const struct tt_tcp_place *read)
{
    assert_int_equal(read->index, place.index);
    assert_true(read->token == place.token && read->address == place.address);
    assert_true(read->length_bytes == place.length_bytes);
}

/* --- Addresses -------------------------------------------------------------------------------------------------- */

static void addresses_of_both_families_read_back_as_written(void **state)
{
    (void)state;
    const struct tt_tcp_address *const addresses[] = {&ipv4, &ipv6};
    for (int i = 0; i < 2; i++) {
        uint8_t bytes[TT_TCP_ADDRESS_BYTES];
        struct tt_tcp_address read = {0};
        tt_tcp_address_encode(addresses[i], bytes);
        assert_true(tt_tcp_address_decode(bytes, sizeof(bytes), &read));
        assert_int_equal(read.family, addresses[i]->family);
        assert_true(read.instance == addresses[i]->instance);
        assert_int_equal(read.port, addresses[i]->port);
        assert_memory_equal(read.ip, addresses[i]->ip, sizeof(read.ip));
    }
}

static void address_lies_in_its_bytes_as_described(void **state)
{
    static const uint8_t expected[TT_TCP_ADDRESS_BYTES] = {4, 0x55, 0x44, 0x33, 0x22, 0x11, 0xcd, 0xab, 10, 84, 8, 1};
    uint8_t bytes[TT_TCP_ADDRESS_BYTES];
    (void)state;
    tt_tcp_address_encode(&ipv4, bytes);
    assert_memory_equal(bytes, expected, sizeof(bytes));
}

static void address_of_another_length_family_or_without_a_port_is_refused(void **state)
{
    uint8_t bytes[TT_TCP_ADDRESS_BYTES + 1] = {0};
    struct tt_tcp_address read = {.instance = 42};
    (void)state;
    tt_tcp_address_encode(&ipv4, bytes);
    for (size_t length_bytes = 0; length_bytes <= sizeof(bytes); length_bytes++) {
        assert_true(length_bytes == TT_TCP_ADDRESS_BYTES || !tt_tcp_address_decode(bytes, length_bytes, &read));
    }
    for (uint32_t family = 0; family < 256; family++) {
        bytes[0] = (uint8_t)family;
        assert_true(family == 4 || family == 6 || !tt_tcp_address_decode(bytes, TT_TCP_ADDRESS_BYTES, &read));
    }
    bytes[0] = 4;
    for (size_t i = 12; i < TT_TCP_ADDRESS_BYTES; i++) { /* behind an IPv4 address there is nothing */
        bytes[i] = 1;
        assert_false(tt_tcp_address_decode(bytes, TT_TCP_ADDRESS_BYTES, &read));
        bytes[i] = 0;
    }
    bytes[6] = bytes[7] = 0;
    assert_false(tt_tcp_address_decode(bytes, TT_TCP_ADDRESS_BYTES, &read));
    assert_true(read.instance == 42); /* outputs are set only on success */
}

/* --- Greetings -------------------------------------------------------------------------------------------------- */

static void encode_greeting(uint8_t bytes[TT_TCP_GREETING_BYTES])
{
    struct tt_tcp_greeting greeting = {
        .purpose = TT_TCP_FOR_BULK, .version = TT_TCP_VERSION, .serial = UINT32_C(0x01020304)};
    tt_tcp_address_encode(&ipv4, greeting.from);
    tt_tcp_address_encode(&ipv6, greeting.to);
    tt_tcp_greeting_encode(&greeting, bytes);
}

static void greeting_reads_back_as_written(void **state)
{
    uint8_t bytes[TT_TCP_GREETING_BYTES], from[TT_TCP_ADDRESS_BYTES], to[TT_TCP_ADDRESS_BYTES];
    struct tt_tcp_greeting read;
    (void)state;
    encode_greeting(bytes);
    tt_tcp_address_encode(&ipv4, from);
    tt_tcp_address_encode(&ipv6, to);
    assert_true(tt_tcp_greeting_decode(bytes, &read));
    assert_int_equal(read.purpose, TT_TCP_FOR_BULK);
    assert_int_equal(read.version, TT_TCP_VERSION);
    assert_int_equal(read.serial, 0x01020304);
    assert_memory_equal(read.from, from, sizeof(from));
    assert_memory_equal(read.to, to, sizeof(to));
}

static void greeting_with_another_magic_purpose_filling_or_sender_is_refused(void **state)
{
    static const size_t of_no_use[] = {0, 1, 2, 3, 6, 7, 32}; /* magic, zeros, the family of its sender */
    uint8_t bytes[TT_TCP_GREETING_BYTES];
    struct tt_tcp_greeting read = {.serial = 42};
    (void)state;
    encode_greeting(bytes);
    for (size_t i = 0; i < sizeof(of_no_use) / sizeof(of_no_use[0]); i++) {
        for (int bit = 0; bit < 8; bit++) {
            bytes[of_no_use[i]] ^= (uint8_t)(1 << bit);
            assert_true(!tt_tcp_greeting_decode(bytes, &read) || (of_no_use[i] == 32 && bytes[32] == 6));
            bytes[of_no_use[i]] ^= (uint8_t)(1 << bit);
        }
    }
    for (uint32_t purpose = 0; purpose < 256; purpose++) {
        struct tt_tcp_greeting other;
        bytes[5] = (uint8_t)purpose;
        assert_int_equal(tt_tcp_greeting_decode(bytes, &other), purpose == 1 || purpose == 2);
    }
}

static void greeting_of_another_version_shows_its_version_only(void **state)
{
    uint8_t bytes[TT_TCP_GREETING_BYTES];
    struct tt_tcp_greeting read;
    (void)state;
    encode_greeting(bytes);
    bytes[4] = 9;
    memset(bytes + 5, 0xff, sizeof(bytes) - 5);
    assert_true(tt_tcp_greeting_decode(bytes, &read));
    assert_int_equal(read.version, 9);
    assert_int_equal(read.serial, 0);
}

static void answers_read_back_as_written_and_others_are_refused(void **state)
{
    uint8_t bytes[TT_TCP_ANSWER_BYTES];
    enum tt_tcp_answer read;
    (void)state;
    for (uint32_t kind = 0; kind < 256; kind++) {
        tt_tcp_answer_encode((enum tt_tcp_answer)kind, bytes);
        bool good = kind >= TT_TCP_WELCOME && kind < TT_TCP_ANSWER_LIMIT;
        assert_int_equal(tt_tcp_answer_decode(bytes, &read), good);
        assert_true(!good || read == (enum tt_tcp_answer)kind);
    }
    for (size_t i = 0; i < 4; i++) {
        tt_tcp_answer_encode(TT_TCP_WELCOME, bytes);
        bytes[i] ^= 0x20;
        assert_false(tt_tcp_answer_decode(bytes, &read));
    }
}

/* A socket that dials a port of its own range may get connected to itself, and hears what it says. */
static void greeting_is_no_answer(void **state)
{
    const struct tt_tcp_address address = {.family = 4, .port = 1, .ip = {127, 0, 0, 1}};
    struct tt_tcp_greeting greeting = {.purpose = TT_TCP_FOR_FRAMES, .version = TT_TCP_VERSION};
    uint8_t bytes[TT_TCP_GREETING_BYTES];
    enum tt_tcp_answer read;
    (void)state;
    tt_tcp_address_encode(&address, greeting.to);
    tt_tcp_address_encode(&address, greeting.from);
    tt_tcp_greeting_encode(&greeting, bytes);
    assert_false(tt_tcp_answer_decode(bytes, &read));
}

/* --- Messages --------------------------------------------------------------------------------------------------- */

static bool fits(uint32_t kind, uint32_t payload_bytes)
{
    switch (kind) {
    case TT_TCP_FRAME:
        return payload_bytes >= 1 && payload_bytes <= TT_P2P_MAX_FRAME_BYTES;
    case TT_TCP_READ:
        return payload_bytes == 36;
    case TT_TCP_WRITTEN:
    case TT_TCP_REFUSED:
        return payload_bytes == 8;
    case TT_TCP_BYE:
    case TT_TCP_BYE_HEARD:
    case TT_TCP_PROBE:
    case TT_TCP_WANT_BULK:
        return payload_bytes == 0;
    default:
        return false;
    }
}

static void header_is_read_if_its_length_fits_its_kind_and_only_then(void **state)
{
    (void)state;
    for (uint32_t kind = 0; kind < 256; kind++) {
        for (uint32_t length_bytes = 0; length_bytes < 65536; length_bytes += length_bytes < 3000 ? 1 : 997) {
            uint8_t bytes[TT_TCP_HEADER_BYTES];
            enum tt_tcp_kind read_kind = TT_TCP_KIND_LIMIT;
            uint32_t read_bytes = 99999;
            tt_tcp_header_encode((enum tt_tcp_kind)kind, length_bytes, bytes);
            bool good = tt_tcp_header_decode(bytes, &read_kind, &read_bytes);
            assert_int_equal(good, fits(kind, length_bytes));
            assert_true(good ? (uint32_t)read_kind == kind && read_bytes == length_bytes : read_bytes == 99999);
            bytes[1] = 1;
            assert_false(tt_tcp_header_decode(bytes, &read_kind, &read_bytes));
        }
    }
}

static void read_reads_back_as_written(void **state)
{
    uint8_t bytes[TT_TCP_READ_BYTES];
    struct tt_tcp_place read;
    uint64_t id;
    (void)state;
    tt_tcp_read_encode(UINT64_C(0xf1f2f3f4f5f6f7f8), &place, bytes);
    tt_tcp_read_decode(bytes, &id, &read);
    assert_true(id == UINT64_C(0xf1f2f3f4f5f6f7f8));
    expect_same_place(&read);
}

static void bulk_header_reads_back_as_written_and_other_kinds_are_refused(void **state)
{
    uint8_t bytes[TT_TCP_BULK_HEADER_BYTES];
    struct tt_tcp_bulk_header header = {.id = 7, .place = place, .immediate = {.value = UINT64_MAX - 1}}, read;
    (void)state;
    for (uint32_t kind = 0; kind < 256; kind++) {
        header.kind = (enum tt_tcp_kind)kind;
        header.place.length_bytes = kind == TT_TCP_PROBE ? 0 : place.length_bytes;
        tt_tcp_bulk_encode(&header, bytes);
        bool good = kind == TT_TCP_DATA || kind == TT_TCP_WRITE || kind == TT_TCP_PROBE;
        read = (struct tt_tcp_bulk_header){.id = 42};
        assert_int_equal(tt_tcp_bulk_decode(bytes, &read), good);
        assert_true(read.id == (good ? 7 : 42));
        if (good) {
            read.place.length_bytes += kind == TT_TCP_PROBE ? place.length_bytes : 0;
            assert_int_equal(read.kind, kind);
            assert_true(read.immediate.value == UINT64_MAX - 1);
            assert_int_equal(read.immediate.data_bytes, 0);
            expect_same_place(&read.place);
        }
        for (size_t i = 1; i < 3; i++) {
            bytes[i] = 0x10;
            assert_false(tt_tcp_bulk_decode(bytes, &read));
            bytes[i] = 0;
        }
    }
    header.kind = TT_TCP_PROBE; /* nothing follows one */
    header.place.length_bytes = 1;
    tt_tcp_bulk_encode(&header, bytes);
    assert_false(tt_tcp_bulk_decode(bytes, &read));
}

static void data_of_an_immediate_reads_back_and_more_than_there_can_be_is_refused(void **state)
{
    uint8_t bytes[TT_TCP_BULK_HEADER_BYTES];
    struct tt_tcp_bulk_header header = {.kind = TT_TCP_WRITE, .id = 7, .place = place}, read;
    (void)state;
    for (uint32_t i = 0; i < TT_P2P_MAX_IMMEDIATE_BYTES; i++) {
        header.immediate.data[i] = (uint8_t)(200 - i);
    }
    for (uint32_t data_bytes = 0; data_bytes <= TT_P2P_MAX_IMMEDIATE_BYTES; data_bytes++) {
        header.immediate.data_bytes = data_bytes;
        tt_tcp_bulk_encode(&header, bytes);
        assert_true(tt_tcp_bulk_decode(bytes, &read));
        assert_int_equal(read.immediate.data_bytes, data_bytes);
        assert_memory_equal(read.immediate.data, header.immediate.data, data_bytes);
        for (uint32_t i = data_bytes; i < TT_P2P_MAX_IMMEDIATE_BYTES; i++) {
            assert_int_equal(read.immediate.data[i], 0); /* no more than that was sent */
            bytes[TT_TCP_BULK_HEADER_BYTES - TT_P2P_MAX_IMMEDIATE_BYTES + i] = 1;
            assert_false(tt_tcp_bulk_decode(bytes, &read));
            bytes[TT_TCP_BULK_HEADER_BYTES - TT_P2P_MAX_IMMEDIATE_BYTES + i] = 0;
            assert_true(tt_tcp_bulk_decode(bytes, &read));
        }
    }
    for (uint32_t data_bytes = TT_P2P_MAX_IMMEDIATE_BYTES + 1; data_bytes < 256; data_bytes++) {
        bytes[3] = (uint8_t)data_bytes;
        assert_false(tt_tcp_bulk_decode(bytes, &read));
    }
}

static void key_reads_back_as_written_and_other_bytes_are_refused(void **state)
{
    uint8_t bytes[TT_TCP_KEY_BYTES + 1] = {0};
    struct tt_tcp_place read = {0};
    (void)state;
    tt_tcp_key_encode(place.index, place.token, bytes);
    for (size_t length_bytes = 0; length_bytes <= sizeof(bytes); length_bytes++) {
        assert_int_equal(tt_tcp_key_decode(bytes, length_bytes, &read), length_bytes == TT_TCP_KEY_BYTES);
    }
    assert_int_equal(read.index, place.index);
    assert_true(read.token == place.token);
    assert_true(read.address == 0 && read.length_bytes == 0);
    for (size_t i = 0; i < 4; i++) {
        bytes[i] ^= 0x80;
        assert_false(tt_tcp_key_decode(bytes, TT_TCP_KEY_BYTES, &read));
        bytes[i] ^= 0x80;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_of_both_families_read_back_as_written),
        cmocka_unit_test(address_lies_in_its_bytes_as_described),
        cmocka_unit_test(address_of_another_length_family_or_without_a_port_is_refused),
        cmocka_unit_test(greeting_reads_back_as_written),
        cmocka_unit_test(greeting_with_another_magic_purpose_filling_or_sender_is_refused),
        cmocka_unit_test(greeting_of_another_version_shows_its_version_only),
        cmocka_unit_test(answers_read_back_as_written_and_others_are_refused),
        cmocka_unit_test(greeting_is_no_answer),
        cmocka_unit_test(header_is_read_if_its_length_fits_its_kind_and_only_then),
        cmocka_unit_test(read_reads_back_as_written),
        cmocka_unit_test(bulk_header_reads_back_as_written_and_other_kinds_are_refused),
        cmocka_unit_test(data_of_an_immediate_reads_back_and_more_than_there_can_be_is_refused),
        cmocka_unit_test(key_reads_back_as_written_and_other_bytes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
