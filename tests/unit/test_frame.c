/* SPDX-License-Identifier: BSD-3-Clause */
/* Control frames: every type there and back with the least and the largest values, and everything else refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tutti/status.h"
#include "wire/frame.h"

static const uint8_t key_bytes[TT_FRAME_MAX_KEY_BYTES] = {1, 2, 3, [255] = 0xFF};
static const uint8_t piece[TT_FRAME_DATA_BYTES] = {1, 2, 3, [TT_FRAME_DATA_BYTES - 1] = 0xFF};
static const uint8_t blocks[TT_FRAME_GATHER_BYTES] = {9, 8, 7, [TT_FRAME_GATHER_BYTES - 1] = 0xFE};
static const uint8_t present[TT_ROLLCALL_RANKS / 8] = {0xAA, [959] = 0x80};

static const uint8_t too_long[TT_FRAME_DATA_BYTES + 1];

static struct tt_window window_with(uint16_t count, uint64_t bits)
{
    struct tt_window window = {.base = 0xFFFFFFC0, .subgroup = 0xFFFF, .count = count};

    for (uint32_t i = 0; i < (count + 63U) / 64; i++) {
        uint32_t rest = count - i * 64;

        window.bits[i] = bits & (rest >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << rest) - 1);
    }
    return window;
}

/* Frame number `index` of a set that has every type with its extremes; false past the end. */
static bool sample(uint32_t index, struct tt_frame *frame)
{
    const struct tt_frame frames[] = {
        {.type = TT_FRAME_BARRIER},
        {.type = TT_FRAME_BARRIER,
         .body.barrier = {31,
                          {0xFF, 0xFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFD, UINT64_MAX, 0, 0, 0, 0, 0},
                          UINT64_MAX}},
        {.type = TT_FRAME_OPEN},
        {.type = TT_FRAME_OPEN, .body.open = {.known = true, .least = {1, 2, 3, true, false}}},
        {.type = TT_FRAME_OPEN, .body.open = {.least = {UINT64_MAX, UINT32_MAX, UINT32_MAX - 1, false, true}}},
        {.type = TT_FRAME_ACTIVATE},
        {.type = TT_FRAME_DONE},
        {.type = TT_FRAME_DONE, .body.done.chain = TT_DONE_ALL_CHAINS},
        {.type = TT_FRAME_CREDIT, .body.credit.turns = 0xFFFFFFFF},
        {.type = TT_FRAME_GRANT, .body.credit.turns = 0xFFFFFFFE},
        {.type = TT_FRAME_FETCH, .body.fetch = {.slot = 0, .window = window_with(1, 1)}},
        {.type = TT_FRAME_FETCH, .body.fetch = {.slot = 255, .window = window_with(1024, ~UINT64_C(0))}},
        {.type = TT_FRAME_FETCH, .body.fetch = {.slot = 7, .window = window_with(65, ~UINT64_C(0))}},
        {.type = TT_FRAME_AVAILABLE, .body.available = {.slot = 0, .window = window_with(64, 0)}},
        {.type = TT_FRAME_AVAILABLE,
         .body.available = {.slot = 255,
                            .window = window_with(1023, ~UINT64_C(0)),
                            .address = UINT64_MAX,
                            .key_bytes = TT_FRAME_MAX_KEY_BYTES,
                            .key = key_bytes}},
        {.type = TT_FRAME_FINAL},
        {.type = TT_FRAME_PROBE, .body.probe = {.failed_rank = TT_RANK_NONE}},
        {.type = TT_FRAME_PROBE, .body.probe = {.phase = TT_PHASE_RESULT, .heard_all = 1}},
        {.type = TT_FRAME_FAIL, .body.fail = {.status = -1, .rank = 0, .noticed_by = 3}},
        {.type = TT_FRAME_FAIL, .body.fail = {.status = INT32_MIN, .rank = TT_RANK_NONE}},
        {.type = TT_FRAME_FAIL,
         .body.fail = {.status = TUTTI_ERR_MISMATCH,
                       .rank = 1,
                       .here = {TT_ALLGATHER, 0xFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFD, UINT64_MAX, 0, 0, 0, 0, 0},
                       .there = {TT_REDUCE, 0, 1, 2, 3, 4, 30, 5, 6, 10, 7, 8}}},
        {.type = TT_FRAME_FAIL, .body.fail = {.status = TUTTI_ERR_MISMATCH, .rank = TT_RANK_NONE}},
        {.type = TT_FRAME_ROLLCALL, .body.rollcall = {.rank_count = 0}},
        {.type = TT_FRAME_ROLLCALL, .body.rollcall = {.rank_count = 9, .present = present}},
        {.type = TT_FRAME_ROLLCALL, .body.rollcall = {.rank_count = TT_ROLLCALL_RANKS, .present = present}},
        {.type = TT_FRAME_ROLLCALL, .body.rollcall = {.rank_count = 65535, .present = present}},
        {.type = TT_FRAME_ROLLCALL,
         .body.rollcall = {.rank_count = TT_ROLLCALL_RANKS + 9, .first = TT_ROLLCALL_RANKS, .present = present}},
        {.type = TT_FRAME_BYE},
        {.type = TT_FRAME_ASK},
        {.type = TT_FRAME_ASK,
         .body.ask.terms = {0xFF, 0xFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFD, UINT64_MAX, 0, 0, 0, 0, 0},
         .body.ask.digest = UINT64_MAX},
        {.type = TT_FRAME_ACK},
        {.type = TT_FRAME_ACK, .body.ack.round = 31},
        {.type = TT_FRAME_ACK,
         .body.ack = {31, {.kind = TT_ALLREDUCE, .block_bytes = 8, .element_bytes = 4, .before = UINT16_MAX}}},
        {.type = TT_FRAME_READY},
        {.type = TT_FRAME_REMIND},
        {.type = TT_FRAME_KEPT},
        {.type = TT_FRAME_READY,
         .body.ready.terms = {0xFF, 0xFE, 0xFFFD, 0xFFFFFFFC, 0xFFFFFFFB, 0xFFFA, UINT64_MAX, 0, 0, 0, 0, 0}},
        {.type = TT_FRAME_DATA, .body.data = {.length_bytes = 1, .bytes = piece}},
        {.type = TT_FRAME_DATA,
         .body.data = {.terms = {0xFF, 0xFE, 0xFFFD, 0xFFFFFFFC, 0xFFFFFFFB, 0xFFFA, UINT64_MAX, 0, 0, 0, 0, 0},
                       .offset_bytes = 0xFFFFFFFF,
                       .length_bytes = TT_FRAME_DATA_BYTES,
                       .bytes = piece}},
        {.type = TT_FRAME_GATHER},
        {.type = TT_FRAME_GATHER,
         .body.gather = {.least = {1, 2, 3, false, false}, .length_bytes = 1, .bytes = blocks}},
        {.type = TT_FRAME_GATHER,
         .body.gather = {.terms = {0xFF, 0xFE, 0xFFFD, 0xFFFFFFFC, 0xFFFFFFFB, 0xFFFA, UINT64_MAX, 0, 0, 0, 0, 0},
                         .least = {UINT64_MAX, UINT32_MAX, UINT32_MAX - 1, true, true},
                         .offset_bytes = 0xFFFFFFFF,
                         .length_bytes = TT_FRAME_GATHER_BYTES,
                         .bytes = blocks}},
    };

    if (index >= sizeof frames / sizeof frames[0]) {
        return false;
    }
    *frame = frames[index];
    frame->source = index % 2 ? 0xFFFFFFFF : 0;
    frame->group = index % 2 ? UINT64_MAX : UINT64_C(0x0123456789ABCDEF);
    frame->sequence = index % 2 ? UINT64_MAX : 0;
    return true;
}

static size_t encode_sample(uint32_t index, uint8_t *bytes)
{
    struct tt_frame frame;
    size_t length;

    if (!sample(index, &frame)) {
        return 0;
    }
    length = tt_frame_encode(&frame, bytes, TT_FRAME_MAX_BYTES);
    assert_true(length >= TT_FRAME_HEADER_BYTES);
    return length;
}

static void assert_windows_equal(const struct tt_window *a, const struct tt_window *b)
{
    assert_int_equal(a->base, b->base);
    assert_int_equal(a->subgroup, b->subgroup);
    assert_int_equal(a->count, b->count);
    assert_memory_equal(a->bits, b->bits, sizeof a->bits);
}

static void assert_terms_equal(const struct tt_collective_terms *a, const struct tt_collective_terms *b)
{
    assert_true(a->kind == b->kind && a->method == b->method && a->subgroups == b->subgroups);
    assert_true(a->root == b->root && a->chunk_bytes == b->chunk_bytes && a->chains == b->chains);
    assert_true(a->block_bytes == b->block_bytes && a->before == b->before);
    assert_true(a->type == b->type && a->operation == b->operation && a->counts == b->counts);
    assert_int_equal(a->element_bytes, b->element_bytes);
}

static void assert_availables_equal(const struct tt_frame *a, const struct tt_frame *b)
{
    assert_int_equal(a->body.available.slot, b->body.available.slot);
    assert_windows_equal(&a->body.available.window, &b->body.available.window);
    assert_true(a->body.available.address == b->body.available.address);
    assert_int_equal(a->body.available.key_bytes, b->body.available.key_bytes);
    if (a->body.available.key_bytes > 0) {
        assert_memory_equal(a->body.available.key, b->body.available.key, a->body.available.key_bytes);
    }
}

static void assert_releases_equal(const struct tt_release *a, const struct tt_release *b)
{
    assert_true(a->finished == b->finished);
    assert_int_equal(a->rate_kbit, b->rate_kbit);
    assert_int_equal(a->window_chunks, b->window_chunks);
    assert_true(a->some_deaf == b->some_deaf && a->all_deaf == b->all_deaf);
}

static void assert_gathers_equal(const struct tt_frame *a, const struct tt_frame *b)
{
    assert_terms_equal(&a->body.gather.terms, &b->body.gather.terms);
    assert_releases_equal(&a->body.gather.least, &b->body.gather.least);
    assert_int_equal(a->body.gather.offset_bytes, b->body.gather.offset_bytes);
    assert_int_equal(a->body.gather.length_bytes, b->body.gather.length_bytes);
    if (a->body.gather.length_bytes > 0) {
        assert_memory_equal(a->body.gather.bytes, b->body.gather.bytes, a->body.gather.length_bytes);
    }
}

static void assert_bodies_equal(const struct tt_frame *a, const struct tt_frame *b)
{
    switch (a->type) {
    case TT_FRAME_BARRIER:
        assert_int_equal(a->body.barrier.round, b->body.barrier.round);
        assert_terms_equal(&a->body.barrier.terms, &b->body.barrier.terms);
        assert_true(a->body.barrier.finished == b->body.barrier.finished);
        break;
    case TT_FRAME_DONE:
        assert_int_equal(a->body.done.chain, b->body.done.chain);
        break;
    case TT_FRAME_CREDIT:
    case TT_FRAME_GRANT:
        assert_int_equal(a->body.credit.turns, b->body.credit.turns);
        break;
    case TT_FRAME_FETCH:
        assert_int_equal(a->body.fetch.slot, b->body.fetch.slot);
        assert_windows_equal(&a->body.fetch.window, &b->body.fetch.window);
        break;
    case TT_FRAME_AVAILABLE:
        assert_availables_equal(a, b);
        break;
    case TT_FRAME_PROBE:
        assert_int_equal(a->body.probe.phase, b->body.probe.phase);
        assert_int_equal(a->body.probe.heard_all, b->body.probe.heard_all);
        assert_int_equal(a->body.probe.failed_rank, b->body.probe.failed_rank);
        assert_int_equal(a->body.probe.deaf_rank, b->body.probe.deaf_rank);
        assert_int_equal(a->body.probe.deaf_count, b->body.probe.deaf_count);
        break;
    case TT_FRAME_FAIL:
        assert_int_equal(a->body.fail.status, b->body.fail.status);
        assert_int_equal(a->body.fail.rank, b->body.fail.rank);
        assert_int_equal(a->body.fail.noticed_by, b->body.fail.noticed_by);
        if (a->body.fail.status == TUTTI_ERR_MISMATCH) {
            assert_terms_equal(&a->body.fail.here, &b->body.fail.here);
            assert_terms_equal(&a->body.fail.there, &b->body.fail.there);
        }
        break;
    case TT_FRAME_ROLLCALL:
        assert_int_equal(a->body.rollcall.rank_count, b->body.rollcall.rank_count);
        assert_int_equal(a->body.rollcall.first, b->body.rollcall.first);
        if (a->body.rollcall.rank_count > 0) {
            assert_memory_equal(a->body.rollcall.present, b->body.rollcall.present,
                                (tt_rollcall_ranks(a->body.rollcall.rank_count, a->body.rollcall.first) + 7) / 8);
        }
        break;
    case TT_FRAME_ASK:
        assert_terms_equal(&a->body.ask.terms, &b->body.ask.terms);
        assert_true(a->body.ask.digest == b->body.ask.digest);
        break;
    case TT_FRAME_ACK:
        assert_int_equal(a->body.ack.round, b->body.ack.round);
        assert_terms_equal(&a->body.ack.terms, &b->body.ack.terms);
        break;
    case TT_FRAME_READY:
    case TT_FRAME_REMIND:
        assert_terms_equal(&a->body.ready.terms, &b->body.ready.terms);
        break;
    case TT_FRAME_DATA:
        assert_terms_equal(&a->body.data.terms, &b->body.data.terms);
        assert_int_equal(a->body.data.offset_bytes, b->body.data.offset_bytes);
        assert_int_equal(a->body.data.length_bytes, b->body.data.length_bytes);
        assert_memory_equal(a->body.data.bytes, b->body.data.bytes, a->body.data.length_bytes);
        break;
    case TT_FRAME_GATHER:
        assert_gathers_equal(a, b);
        break;
    case TT_FRAME_OPEN:
        assert_int_equal(a->body.open.known, b->body.open.known);
        assert_releases_equal(&a->body.open.least, &b->body.open.least);
        break;
    default:
        break;
    }
}

static void every_type_comes_back_as_it_went(void **state)
{
    uint8_t bytes[TT_FRAME_MAX_BYTES];
    struct tt_frame frame, decoded;
    uint32_t types = 0;

    (void)state;
    for (uint32_t i = 0; sample(i, &frame); i++) {
        size_t length = encode_sample(i, bytes);

        memset(&decoded, 0xEE, sizeof decoded);
        assert_true(tt_frame_decode(bytes, length, &decoded));
        assert_int_equal(decoded.type, frame.type);
        assert_int_equal(decoded.source, frame.source);
        assert_true(decoded.group == frame.group && decoded.sequence == frame.sequence);
        assert_bodies_equal(&frame, &decoded);
        types |= 1U << frame.type;
    }
    assert_int_equal(types, (1U << TT_FRAME_TYPE_COUNT) - 2);
}

static void the_form_on_the_wire_is_little_endian_behind_a_header_of_24_bytes(void **state)
{
    static const uint8_t expected[] = {0x74, 0x74, 18,   TT_FRAME_GRANT, 4,    3,    2,    1,    0x18, 0x17,
                                       0x16, 0x15, 0x14, 0x13,           0x12, 0x11, 0x28, 0x27, 0x26, 0x25,
                                       0x24, 0x23, 0x22, 0x21,           0x34, 0x33, 0x32, 0x31};
    struct tt_frame frame = {.type = TT_FRAME_GRANT,
                             .source = 0x01020304,
                             .group = UINT64_C(0x1112131415161718),
                             .sequence = UINT64_C(0x2122232425262728),
                             .body.credit.turns = 0x31323334};
    uint8_t bytes[TT_FRAME_MAX_BYTES];

    (void)state;
    assert_int_equal(tt_frame_encode(&frame, bytes, sizeof bytes), sizeof expected);
    assert_memory_equal(bytes, expected, sizeof expected);
}

static void a_word_of_the_probe_is_phase_vote_and_ranks(void **state)
{
    static const uint8_t expected[] = {3, 1, 0x14, 0x13, 0x12, 0x11, 0x24, 0x23, 0x22, 0x21, 0x34, 0x33, 0x32, 0x31};
    struct tt_frame frame = {.type = TT_FRAME_PROBE,
                             .body.probe = {.phase = TT_PHASE_RESULT,
                                            .heard_all = 1,
                                            .failed_rank = 0x11121314,
                                            .deaf_rank = 0x21222324,
                                            .deaf_count = 0x31323334}};
    uint8_t bytes[TT_FRAME_MAX_BYTES];

    (void)state;
    assert_int_equal(tt_frame_encode(&frame, bytes, sizeof bytes), TT_FRAME_HEADER_BYTES + sizeof expected);
    assert_memory_equal(bytes + TT_FRAME_HEADER_BYTES, expected, sizeof expected);
}

static void gathered_blocks_follow_the_terms_the_least_offset_and_length(void **state)
{
    static const uint8_t expected[] = {1,    2,    4,    3,    8,    7,    6,    5,    0x12, 0x11, 0x10, 9,    0x16,
                                       0x15, 0x14, 0x13, 0x28, 0x27, 0x26, 0x25, 0x24, 0x23, 0x22, 0x21, 0x38, 0x37,
                                       0x36, 0x35, 0x34, 0x33, 0x32, 0x31, 0x44, 0x43, 0x42, 0x41, 0x64, 0x63, 0x62,
                                       0x61, 2,    0x54, 0x53, 0x52, 0x51, 3,    0,    9,    8,    7};
    struct tt_frame frame = {
        .type = TT_FRAME_GATHER,
        .body.gather = {
            .terms = {1, 2, 0x0304, 0x05060708, 0x09101112, 0x1516, UINT64_C(0x2122232425262728), .before = 0x1314},
            .least = {UINT64_C(0x3132333435363738), 0x41424344, 0x61626364, false, true},
            .offset_bytes = 0x51525354,
            .length_bytes = 3,
            .bytes = blocks}};
    uint8_t bytes[TT_FRAME_MAX_BYTES];

    (void)state;
    assert_int_equal(tt_frame_encode(&frame, bytes, sizeof bytes), TT_FRAME_HEADER_BYTES + sizeof expected);
    assert_memory_equal(bytes + TT_FRAME_HEADER_BYTES, expected, sizeof expected);
}

static void every_truncation_is_refused(void **state)
{
    uint8_t bytes[TT_FRAME_MAX_BYTES];
    struct tt_frame decoded;
    size_t length;

    (void)state;
    for (uint32_t i = 0; (length = encode_sample(i, bytes)) > 0; i++) {
        for (size_t cut = 0; cut < length; cut++) {
            uint8_t *exact = malloc(cut + 1); /* so that a sanitizer sees a read past the end */

            memcpy(exact + 1, bytes, cut);
            assert_false(tt_frame_decode(exact + 1, cut, &decoded));
            free(exact);
        }
    }
}

static void every_extension_is_refused(void **state)
{
    uint8_t bytes[TT_FRAME_MAX_BYTES + 8] = {0};
    struct tt_frame decoded;
    size_t length;

    (void)state;
    for (uint32_t i = 0; (length = encode_sample(i, bytes)) > 0; i++) {
        memset(bytes + length, 0, sizeof bytes - length);
        for (size_t more = 1; more <= 8; more++) {
            assert_false(tt_frame_decode(bytes, length + more, &decoded));
        }
    }
}

static void a_capacity_that_does_not_do_encodes_nothing_past_it(void **state)
{
    uint8_t bytes[TT_FRAME_MAX_BYTES], full[TT_FRAME_MAX_BYTES];
    struct tt_frame frame;

    (void)state;
    for (uint32_t i = 0; sample(i, &frame); i++) {
        size_t length = encode_sample(i, full);

        for (size_t capacity = 0; capacity < length; capacity++) {
            memset(bytes, 0xC3, sizeof bytes);
            assert_int_equal(tt_frame_encode(&frame, bytes, capacity), 0);
            assert_int_equal(bytes[capacity], 0xC3);
        }
        assert_int_equal(tt_frame_encode(&frame, bytes, length), length);
        assert_memory_equal(bytes, full, length);
    }
}

/* A flip that still decodes must mean exactly the bytes that it came from. */
static void bit_flips_are_refused_or_mean_what_they_say(void **state)
{
    uint8_t bytes[TT_FRAME_MAX_BYTES], again[TT_FRAME_MAX_BYTES];
    struct tt_frame decoded;
    size_t length;

    (void)state;
    for (uint32_t i = 0; (length = encode_sample(i, bytes)) > 0; i++) {
        for (size_t bit = 0; bit < length * 8; bit++) {
            bytes[bit / 8] ^= (uint8_t)(1U << (bit % 8));
            if (tt_frame_decode(bytes, length, &decoded)) {
                assert_int_equal(tt_frame_encode(&decoded, again, sizeof again), length);
                assert_memory_equal(bytes, again, length);
            } else if (bit >= 32 && bit < TT_FRAME_HEADER_BYTES * 8) {
                fail_msg("sample %u: source, group and sequence may be anything, bit %zu was refused", i, bit);
            }
            assert_false(bit < 24 && tt_frame_decode(bytes, length, &decoded)); /* magic and version */
            bytes[bit / 8] ^= (uint8_t)(1U << (bit % 8));
        }
    }
}

/* As long as a transport takes; the bytes are sent from where they lie. */
static void a_gather_with_a_long_vector_is_its_head_and_the_bytes_behind_it(void **state)
{
    enum { LENGTH = 40000 };
    static uint8_t vector[LENGTH], whole[TT_FRAME_GATHER_HEAD_BYTES + LENGTH];
    uint8_t head[TT_FRAME_MAX_BYTES];
    struct tt_frame frame = {
        .type = TT_FRAME_GATHER,
        .body.gather = {
            .terms = {.kind = TT_ALLREDUCE, .method = TT_METHOD_GATHER, .block_bytes = LENGTH, .element_bytes = 4},
            .length_bytes = LENGTH,
            .bytes = vector}};
    struct tt_frame decoded;
    size_t head_bytes, length;

    (void)state;
    for (uint32_t i = 0; i < LENGTH; i++) {
        vector[i] = (uint8_t)(i * 7 + (i >> 8));
    }
    head_bytes = tt_frame_encode_head(&frame, head, sizeof head);
    assert_in_range(head_bytes, 1, TT_FRAME_GATHER_HEAD_BYTES);
    assert_int_equal(tt_frame_encode(&frame, head, sizeof head), 0);
    length = tt_frame_encode(&frame, whole, sizeof whole);
    assert_int_equal(length, head_bytes + LENGTH);
    head_bytes = tt_frame_encode_head(&frame, head, sizeof head);
    assert_memory_equal(whole, head, head_bytes);
    assert_memory_equal(whole + head_bytes, vector, LENGTH);
    assert_true(tt_frame_decode(whole, length, &decoded));
    assert_int_equal(decoded.body.gather.length_bytes, LENGTH);
    assert_ptr_equal(decoded.body.gather.bytes, whole + head_bytes);
    assert_false(tt_frame_decode(whole, length - 1, &decoded));
}

/* Encodes a frame that the encoder does not judge, and expects the decoder to refuse it. */
static void assert_refused(const struct tt_frame *frame)
{
    uint8_t bytes[TT_FRAME_MAX_BYTES];
    struct tt_frame decoded;
    size_t length = tt_frame_encode(frame, bytes, sizeof bytes);

    assert_true(length > 0);
    assert_false(tt_frame_decode(bytes, length, &decoded));
}

static void fields_out_of_their_range_are_refused(void **state)
{
    static const uint8_t long_key[TT_FRAME_MAX_KEY_BYTES + 1], long_list[TT_ROLLCALL_RANKS / 8];
    struct tt_frame frame = {.type = TT_FRAME_BARRIER, .body.barrier.round = 32};

    (void)state;
    assert_refused(&frame);
    frame = (struct tt_frame){.type = TT_FRAME_PROBE, .body.probe = {.phase = 4}};
    assert_refused(&frame);
    frame = (struct tt_frame){.type = TT_FRAME_PROBE, .body.probe = {.phase = 255}};
    assert_refused(&frame);
    frame = (struct tt_frame){.type = TT_FRAME_PROBE, .body.probe = {.heard_all = 2}};
    assert_refused(&frame);
    frame = (struct tt_frame){.type = TT_FRAME_ACK, .body.ack = {.round = 32}};
    assert_refused(&frame);
    frame = (struct tt_frame){.type = TT_FRAME_DATA, .body.data = {.length_bytes = 0}};
    assert_refused(&frame);
    frame = (struct tt_frame){.type = TT_FRAME_DATA,
                              .body.data = {.length_bytes = TT_FRAME_DATA_BYTES + 1, .bytes = too_long}};
    assert_refused(&frame);
    frame = (struct tt_frame){.type = TT_FRAME_FAIL, .body.fail = {.status = 0}};
    assert_refused(&frame);
    frame = (struct tt_frame){.type = TT_FRAME_FAIL, .body.fail = {.status = 1}};
    assert_refused(&frame);
    frame = (struct tt_frame){.type = TT_FRAME_FAIL,
                              .body.fail = {.status = TUTTI_ERR_MISMATCH,
                                            .there = {.kind = TT_REDUCE, .block_bytes = 3, .element_bytes = 2}}};
    assert_refused(&frame);
    frame = (struct tt_frame){.type = TT_FRAME_ROLLCALL,
                              .body.rollcall = {.rank_count = 20000, .first = 8, .present = long_list}};
    assert_refused(&frame);
    frame.body.rollcall.first = 3 * TT_ROLLCALL_RANKS;
    assert_refused(&frame);
    frame = (struct tt_frame){
        .type = TT_FRAME_AVAILABLE,
        .body.available = {.window = window_with(1, 1), .key_bytes = sizeof long_key, .key = long_key}};
    assert_refused(&frame);
    frame = (struct tt_frame){.type = TT_FRAME_FETCH, .body.fetch = {.window = {.count = 0}}};
    assert_refused(&frame);
}

static void windows_longer_than_a_window_are_refused(void **state)
{
    uint8_t bytes[TT_FRAME_MAX_BYTES] = {0};
    struct tt_frame frame = {.type = TT_FRAME_FETCH, .body.fetch = {.window = window_with(1024, 0)}}, decoded;
    size_t length = tt_frame_encode(&frame, bytes, sizeof bytes);

    (void)state;
    assert_int_equal(length, 24 + 9 + 128);
    assert_int_equal(bytes[32], 4); /* 1024 = 0x0400 */
    bytes[31] = 1;                  /* 1025 */
    assert_false(tt_frame_decode(bytes, length, &decoded));
    assert_false(tt_frame_decode(bytes, length + 8, &decoded));
    bytes[31] = 0xFF; /* 0xFFFF needs 8,192 bytes of bits: must not be written past the 128 there are */
    bytes[32] = 0xFF;
    assert_false(tt_frame_decode(bytes, sizeof bytes, &decoded));
}

static void window_bits_past_the_count_are_refused(void **state)
{
    (void)state;
    for (uint16_t count = 1; count < 200; count++) {
        for (uint32_t bit = count; bit < (count + 63U) / 64 * 64; bit++) {
            struct tt_frame frame = {.type = TT_FRAME_FETCH, .body.fetch = {.window = window_with(count, 0)}};

            frame.body.fetch.window.bits[bit / 64] |= UINT64_C(1) << (bit % 64);
            assert_refused(&frame);
            frame.type = TT_FRAME_AVAILABLE;
            frame.body.available.key_bytes = 0;
            assert_refused(&frame);
        }
    }
}

static void unknown_types_are_refused(void **state)
{
    uint8_t bytes[TT_FRAME_MAX_BYTES];
    struct tt_frame frame = {.type = TT_FRAME_FINAL}, decoded;
    size_t length = tt_frame_encode(&frame, bytes, sizeof bytes);

    (void)state;
    bytes[3] = 0;
    assert_false(tt_frame_decode(bytes, length, &decoded));
    for (uint32_t type = TT_FRAME_TYPE_COUNT; type < 256; type++) {
        bytes[3] = (uint8_t)type;
        assert_false(tt_frame_decode(bytes, length, &decoded));
    }
}

static void every_type_has_a_name_of_its_own(void **state)
{
    (void)state;
    for (uint32_t type = 1; type < TT_FRAME_TYPE_COUNT; type++) {
        const char *name = tt_frame_name((enum tt_frame_type)type);

        assert_string_not_equal(name, "unknown");
        for (uint32_t other = 1; other < type; other++) {
            assert_string_not_equal(name, tt_frame_name((enum tt_frame_type)other));
        }
    }
    assert_string_equal(tt_frame_name((enum tt_frame_type)0), "unknown");
    assert_string_equal(tt_frame_name(TT_FRAME_TYPE_COUNT), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_comes_back_as_it_went),
        cmocka_unit_test(the_form_on_the_wire_is_little_endian_behind_a_header_of_24_bytes),
        cmocka_unit_test(a_word_of_the_probe_is_phase_vote_and_ranks),
        cmocka_unit_test(gathered_blocks_follow_the_terms_the_least_offset_and_length),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(every_extension_is_refused),
        cmocka_unit_test(a_capacity_that_does_not_do_encodes_nothing_past_it),
        cmocka_unit_test(bit_flips_are_refused_or_mean_what_they_say),
        cmocka_unit_test(a_gather_with_a_long_vector_is_its_head_and_the_bytes_behind_it),
        cmocka_unit_test(fields_out_of_their_range_are_refused),
        cmocka_unit_test(windows_longer_than_a_window_are_refused),
        cmocka_unit_test(window_bits_past_the_count_are_refused),
        cmocka_unit_test(unknown_types_are_refused),
        cmocka_unit_test(every_type_has_a_name_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
