/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames with packets: there and back, and all else refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/whole_frame.h"
#include "wire/trigger_frame.h"

enum { PIECE_BYTES = 2048, MOST_BYTES = TT_TRIGGER_FRAME_HEAD_BYTES + PIECE_BYTES };

static const uint8_t payload[PIECE_BYTES] = {1, 2, 3, [2047] = 0xFF};

static struct tt_trigger_frame sample(enum tt_trigger_kind kind, uint32_t bytes)
{
    return (struct tt_trigger_frame){.source = 5,
                                     .group = UINT64_C(0x0123456789ABCDEF),
                                     .piece = payload,
                                     .piece_bytes = bytes,
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

/* What is short of a piece's first byte is no frame; what is short of its last has a shorter piece. */
static void assert_truncated(const uint8_t *bytes, size_t length)
{
    struct tt_trigger_frame out;

    for (size_t cut = 0; cut < length; cut++) {
        bool has_piece = cut > TT_TRIGGER_FRAME_HEAD_BYTES;

        assert_true(decodes(bytes, cut, &out) == has_piece);
        assert_true(!has_piece || out.piece_bytes == cut - TT_TRIGGER_FRAME_HEAD_BYTES);
    }
}

static void frames_come_back_as_they_were(void **state)
{
    static const uint32_t lengths[] = {0, 1, 7, TT_TRIGGER_MAX_REFERENCE_BYTES, PIECE_BYTES};

    (void)state;
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        struct tt_trigger_frame in = sample(TT_TRIGGER_DATA, lengths[i]), out;
        uint8_t bytes[MOST_BYTES];
        size_t length = whole_trigger_frame(&in, bytes);

        assert_int_equal(length, TT_TRIGGER_FRAME_HEAD_BYTES + lengths[i]);
        assert_true(tt_trigger_frame_decode(bytes, length, &out));
        assert_int_equal(out.source, 5);
        assert_true(out.group == in.group);
        assert_int_equal(out.packet.length_bytes, lengths[i]);
        assert_int_equal(out.piece_bytes, lengths[i]);
        assert_memory_equal(out.piece, payload, lengths[i]);
        assert_truncated(bytes, length);
    }
}

static void a_reference_comes_back_and_is_as_long_as_the_frame(void **state)
{
    struct tt_trigger_frame in = sample(TT_TRIGGER_REMOTE, 0), out;
    uint8_t bytes[MOST_BYTES], reference[TT_TRIGGER_MAX_REFERENCE_BYTES];
    uint32_t key_bytes;
    uint64_t address;
    const void *key;
    size_t length;

    (void)state;
    in.packet.reference_bytes = (uint16_t)tt_trigger_reference_encode(UINT64_MAX - 1, "key", 3, reference);
    in.piece = reference;
    in.piece_bytes = in.packet.reference_bytes;
    length = whole_trigger_frame(&in, bytes);
    assert_true(tt_trigger_frame_decode(bytes, length, &out));
    assert_true(tt_trigger_reference_decode(out.piece, out.packet.reference_bytes, &address, &key, &key_bytes));
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
    uint8_t bytes[MOST_BYTES], reference[TT_TRIGGER_MAX_REFERENCE_BYTES];
    struct tt_trigger_slot read;
    size_t length;

    (void)state;
    in.packet.triggers = false;
    in.packet.reference_bytes = (uint16_t)tt_trigger_slot_encode(&slot, reference);
    in.piece = reference;
    in.piece_bytes = in.packet.reference_bytes;
    length = whole_trigger_frame(&in, bytes);
    assert_true(tt_trigger_frame_decode(bytes, length, &out));
    assert_true(tt_trigger_slot_decode(out.piece, out.packet.reference_bytes, &read));
    assert_true(read.immediate == UINT64_MAX - 2 && read.address == 77 && read.key_bytes == 3);
    assert_memory_equal(read.key, "key", 3);
    assert_false(tt_trigger_slot_decode(reference, 16, &read)); /* without a key it is nobody's */
    assert_false(tt_trigger_slot_decode(reference, TT_TRIGGER_MAX_REFERENCE_BYTES + 1, &read));
}

/* Each frame has all of the packet's header; what goes beyond the payload, or is of none of it, does not decode. */
static void a_long_payload_goes_in_pieces(void **state)
{
    enum { ALL = 2 * PIECE_BYTES + 100, OFFSET = TT_TRIGGER_FRAME_HEAD_BYTES - TT_TRIGGER_PACKET_BYTES - 12 };
    static const struct {
        uint32_t offset, bytes;
    } pieces[] = {{0, PIECE_BYTES}, {PIECE_BYTES, 77}, {PIECE_BYTES + 77, PIECE_BYTES}, {2 * PIECE_BYTES + 77, 23}};
    uint8_t bytes[MOST_BYTES];

    (void)state;
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        struct tt_trigger_frame in = sample(TT_TRIGGER_DATA, ALL), out;
        size_t length;

        in.offset_bytes = pieces[i].offset;
        in.piece_bytes = pieces[i].bytes;
        length = whole_trigger_frame(&in, bytes);
        assert_int_equal(length, TT_TRIGGER_FRAME_HEAD_BYTES + pieces[i].bytes);
        assert_true(tt_trigger_frame_decode(bytes, length, &out));
        assert_int_equal(out.offset_bytes, pieces[i].offset);
        assert_int_equal(out.packet.length_bytes, ALL);
        assert_int_equal(out.piece_bytes, pieces[i].bytes);
        assert_truncated(bytes, length);
        bytes[OFFSET + 1] ^= 0x20; /* beyond the payload */
        assert_false(decodes(bytes, length, &out));
        bytes[OFFSET + 1] ^= 0x20;
        bytes[OFFSET + 4] ^= 1; /* what is to be 0 */
        assert_false(decodes(bytes, length, &out));
    }
    struct tt_trigger_frame last = sample(TT_TRIGGER_DATA, ALL), out;

    last.offset_bytes = ALL - 4;
    last.piece_bytes = 5;
    assert_false(decodes(bytes, whole_trigger_frame(&last, bytes), &out));
    last.piece_bytes = 4;
    assert_true(decodes(bytes, whole_trigger_frame(&last, bytes), &out));
    last.piece_bytes = 0;
    assert_false(decodes(bytes, whole_trigger_frame(&last, bytes), &out));
}

static void what_is_no_such_frame_is_refused(void **state)
{
    struct tt_trigger_frame in = sample(TT_TRIGGER_DATA, 9), out;
    uint8_t bytes[MOST_BYTES + 1] = {0};
    size_t length;

    (void)state;
    length = whole_trigger_frame(&in, bytes);
    assert_false(decodes(bytes, length + 1, &out)); /* more than the packet says */
    assert_false(decodes(bytes, sizeof bytes, &out));
    for (size_t at = 0; at < 4; at++) { /* magic, version, type */
        bytes[at] ^= 0x55;
        assert_false(decodes(bytes, length, &out));
        bytes[at] ^= 0x55;
    }
    in.packet.node = 6; /* than who sends */
    assert_true(whole_trigger_frame(&in, bytes) == length);
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
