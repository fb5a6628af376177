/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames with packets: there and back, and all else refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "wire/trigger_frame.h"

static const uint8_t payload[TT_TRIGGER_FRAME_PIECE_BYTES] = {1, 2, 3, [2047] = 0xFF};

static struct tt_trigger_frame sample(enum tt_trigger_kind kind, uint32_t bytes)
{
    return (struct tt_trigger_frame){.source = 5,
                                     .group = UINT64_C(0x0123456789ABCDEF),
                                     .payload = payload,
                                     .packet = {.kind = kind,
                                                .job = 1,
                                                .node = 5,
                                                .port = 3,
                                                .sequence = 31,
                                                .length_bytes = kind == TT_TRIGGER_REMOTE ? 1 << 17 : bytes,
                                                .reference_bytes = kind == TT_TRIGGER_REMOTE ? (uint16_t)bytes : 0}};
}

/* From a block of its own size, so that a read past its end is seen. */
static bool decodes(const uint8_t *bytes, size_t length, struct tt_trigger_frame *frame)
{
    uint8_t *copy = malloc(length > 0 ? length : 1);
    bool fine;

    assert_non_null(copy);
    memcpy(copy, bytes, length);
    fine = tt_trigger_frame_decode(copy, length, frame);
    free(copy);
    return fine;
}

static void frames_come_back_as_they_were(void **state)
{
    static const uint32_t lengths[] = {0, 1, 7, TT_TRIGGER_MAX_REFERENCE_BYTES, TT_TRIGGER_FRAME_PIECE_BYTES};

    (void)state;
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        struct tt_trigger_frame in = sample(TT_TRIGGER_DATA, lengths[i]), out;
        uint8_t bytes[TT_TRIGGER_FRAME_MAX_BYTES];
        size_t length = tt_trigger_frame_encode(&in, bytes, sizeof bytes);

        assert_int_equal(length, TT_TRIGGER_FRAME_HEADER_BYTES + TT_TRIGGER_PACKET_BYTES + lengths[i]);
        assert_int_equal(tt_trigger_frame_encode(&in, bytes, length - 1), 0);
        assert_true(tt_trigger_frame_decode(bytes, length, &out));
        assert_int_equal(out.source, 5);
        assert_true(out.group == in.group);
        assert_int_equal(out.packet.length_bytes, lengths[i]);
        assert_memory_equal(out.payload, payload, lengths[i]);
        for (size_t cut = 0; cut < length; cut++) {
            assert_false(decodes(bytes, cut, &out)); /* truncated */
        }
    }
}

static void a_reference_comes_back_and_is_as_long_as_the_frame(void **state)
{
    struct tt_trigger_frame in = sample(TT_TRIGGER_REMOTE, 0), out;
    uint8_t bytes[TT_TRIGGER_FRAME_MAX_BYTES], reference[TT_TRIGGER_MAX_REFERENCE_BYTES];
    uint32_t key_bytes;
    uint64_t address;
    const void *key;
    size_t length;

    (void)state;
    in.packet.reference_bytes = (uint16_t)tt_trigger_reference_encode(UINT64_MAX - 1, "key", 3, reference);
    in.payload = reference;
    length = tt_trigger_frame_encode(&in, bytes, sizeof bytes);
    assert_true(tt_trigger_frame_decode(bytes, length, &out));
    assert_true(tt_trigger_reference_decode(out.payload, out.packet.reference_bytes, &address, &key, &key_bytes));
    assert_true(address == UINT64_MAX - 1 && key_bytes == 3 && memcmp(key, "key", 3) == 0);
    assert_false(tt_trigger_reference_decode(reference, 7, &address, &key, &key_bytes));
    assert_false(
        tt_trigger_reference_decode(reference, TT_TRIGGER_MAX_REFERENCE_BYTES + 1, &address, &key, &key_bytes));
}

/* An answer may bring a slot. */
static void a_slot_comes_back_behind_an_answer(void **state)
{
    struct tt_trigger_frame in = sample(TT_TRIGGER_ACCEPTED, 0), out;
    const struct tt_trigger_slot slot = {.immediate = UINT64_MAX - 2, .address = 77, .key = "key", .key_bytes = 3};
    uint8_t bytes[TT_TRIGGER_FRAME_MAX_BYTES], reference[TT_TRIGGER_MAX_REFERENCE_BYTES];
    struct tt_trigger_slot read;
    size_t length;

    (void)state;
    in.packet.triggers = false;
    in.packet.reference_bytes = (uint16_t)tt_trigger_slot_encode(&slot, reference);
    in.payload = reference;
    length = tt_trigger_frame_encode(&in, bytes, sizeof bytes);
    assert_true(tt_trigger_frame_decode(bytes, length, &out));
    assert_true(tt_trigger_slot_decode(out.payload, out.packet.reference_bytes, &read));
    assert_true(read.immediate == UINT64_MAX - 2 && read.address == 77 && read.key_bytes == 3);
    assert_memory_equal(read.key, "key", 3);
    assert_false(tt_trigger_slot_decode(reference, 16, &read)); /* without a key it is nobody's */
    assert_false(tt_trigger_slot_decode(reference, TT_TRIGGER_MAX_REFERENCE_BYTES + 1, &read));
}

/* Each frame has all of the packet's header; only whole pieces at their places decode. */
static void a_long_payload_goes_in_pieces(void **state)
{
    enum { PIECE = TT_TRIGGER_FRAME_PIECE_BYTES, ALL = 2 * PIECE + 100 };
    static const struct {
        uint32_t offset, bytes;
    } pieces[] = {{0, PIECE}, {PIECE, PIECE}, {2 * PIECE, 100}};
    uint8_t bytes[TT_TRIGGER_FRAME_MAX_BYTES];

    (void)state;
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        struct tt_trigger_frame in = sample(TT_TRIGGER_DATA, ALL), out;
        size_t length;

        in.offset_bytes = pieces[i].offset;
        assert_int_equal(tt_trigger_frame_piece_bytes(&in), pieces[i].bytes);
        length = tt_trigger_frame_encode(&in, bytes, sizeof bytes);
        assert_int_equal(length, TT_TRIGGER_FRAME_HEADER_BYTES + TT_TRIGGER_PACKET_BYTES + pieces[i].bytes);
        assert_true(tt_trigger_frame_decode(bytes, length, &out));
        assert_int_equal(out.offset_bytes, pieces[i].offset);
        assert_int_equal(out.packet.length_bytes, ALL);
        assert_int_equal(tt_trigger_frame_piece_bytes(&out), pieces[i].bytes);
        for (size_t cut = 0; cut < length; cut++) {
            assert_false(decodes(bytes, cut, &out));
        }
        bytes[TT_TRIGGER_FRAME_HEADER_BYTES - 4] ^= 1; /* the offset: of no piece */
        assert_false(decodes(bytes, length, &out));
        bytes[TT_TRIGGER_FRAME_HEADER_BYTES - 4] ^= 1;
        bytes[TT_TRIGGER_FRAME_HEADER_BYTES - 3] ^= 0x20; /* beyond the payload */
        assert_false(decodes(bytes, length, &out));
    }
}

static void what_is_no_such_frame_is_refused(void **state)
{
    struct tt_trigger_frame in = sample(TT_TRIGGER_DATA, 9), out;
    uint8_t bytes[TT_TRIGGER_FRAME_MAX_BYTES + 1] = {0};
    size_t length;

    (void)state;
    length = tt_trigger_frame_encode(&in, bytes, sizeof bytes);
    assert_false(decodes(bytes, length + 1, &out)); /* more than the packet says */
    assert_false(decodes(bytes, sizeof bytes, &out));
    for (size_t at = 0; at < 4; at++) { /* magic, version, type */
        bytes[at] ^= 0x55;
        assert_false(decodes(bytes, length, &out));
        bytes[at] ^= 0x55;
    }
    in.packet.node = 6; /* than who sends */
    assert_true(tt_trigger_frame_encode(&in, bytes, sizeof bytes) == length);
    assert_false(decodes(bytes, length, &out));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_come_back_as_they_were),
        cmocka_unit_test(a_reference_comes_back_and_is_as_long_as_the_frame),
        cmocka_unit_test(a_slot_comes_back_behind_an_answer),
        cmocka_unit_test(a_long_payload_goes_in_pieces),
        cmocka_unit_test(what_is_no_such_frame_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
