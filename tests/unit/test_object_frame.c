/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames of object groups: every type there and back with the least and the largest values, and all else refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tutti/status.h"
#include "wire/frame.h"
#include "wire/object_frame.h"

static const uint8_t key_bytes[TT_OBJECT_FRAME_MAX_KEY_BYTES] = {1, 2, 3, [255] = 0xFF};

/* Frame number `index` of a set that has every type with its extremes; false past the end. */
static bool sample(uint32_t index, struct tt_object_frame *frame)
{
    const struct tt_object_frame frames[] = {
        {.type = TT_OBJECT_FRAME_OFFER},
        {.type = TT_OBJECT_FRAME_OFFER, .body.offer.size_bytes = UINT64_MAX},
        {.type = TT_OBJECT_FRAME_END},
        {.type = TT_OBJECT_FRAME_READY},
        {.type = TT_OBJECT_FRAME_READY,
         .body.ready = {UINT64_MAX, UINT64_MAX - 1, UINT64_MAX - 2, TT_OBJECT_FRAME_MAX_KEY_BYTES, key_bytes}},
        {.type = TT_OBJECT_FRAME_REACHED},
        {.type = TT_OBJECT_FRAME_CLOSING},
        {.type = TT_OBJECT_FRAME_BARRIER},
        {.type = TT_OBJECT_FRAME_BARRIER, .body.barrier.round = 31},
        {.type = TT_OBJECT_FRAME_BYE},
        {.type = TT_OBJECT_FRAME_FAIL, .body.fail = {-1, 0, 3, 0}},
        {.type = TT_OBJECT_FRAME_FAIL, .body.fail = {INT32_MIN, TT_OBJECT_NO_MEMBER, 0, UINT64_MAX}},
        {.type = TT_OBJECT_FRAME_ASK},
        {.type = TT_OBJECT_FRAME_ANSWER},
        {.type = TT_OBJECT_FRAME_JOIN},
        {.type = TT_OBJECT_FRAME_JOIN,
         .body.join = {1, {UINT8_MAX, UINT8_MAX - 1, UINT32_MAX, UINT64_MAX}, UINT64_MAX - 1, UINT32_MAX - 1}},
        {.type = TT_OBJECT_FRAME_THERE},
    };

    if (index >= sizeof frames / sizeof frames[0]) {
        return false;
    }
    *frame = frames[index];
    frame->source = 0xFFFFFFFE - index;
    frame->group = UINT64_C(0x0123456789ABCDEF);
    frame->sequence = UINT64_MAX - index;
    return true;
}

static void assert_same(const struct tt_object_frame *a, const struct tt_object_frame *b)
{
    assert_int_equal(a->type, b->type);
    assert_int_equal(a->source, b->source);
    assert_true(a->group == b->group && a->sequence == b->sequence);
    switch (a->type) {
    case TT_OBJECT_FRAME_OFFER:
        assert_true(a->body.offer.size_bytes == b->body.offer.size_bytes);
        break;
    case TT_OBJECT_FRAME_READY:
        assert_true(a->body.ready.block == b->body.ready.block && a->body.ready.address == b->body.ready.address &&
                    a->body.ready.immediate == b->body.ready.immediate);
        assert_int_equal(a->body.ready.key_bytes, b->body.ready.key_bytes);
        if (a->body.ready.key_bytes > 0) {
            assert_memory_equal(a->body.ready.key, b->body.ready.key, a->body.ready.key_bytes);
        }
        break;
    case TT_OBJECT_FRAME_BARRIER:
        assert_int_equal(a->body.barrier.round, b->body.barrier.round);
        break;
    case TT_OBJECT_FRAME_FAIL:
        assert_int_equal(a->body.fail.status, b->body.fail.status);
        assert_int_equal(a->body.fail.member, b->body.fail.member);
        assert_int_equal(a->body.fail.noticed_by, b->body.fail.noticed_by);
        assert_true(a->body.fail.puts == b->body.fail.puts);
        break;
    case TT_OBJECT_FRAME_JOIN:
        assert_int_equal(a->body.join.wants, b->body.join.wants);
        assert_int_equal(a->body.join.terms.algorithm, b->body.join.terms.algorithm);
        assert_int_equal(a->body.join.terms.credit, b->body.join.terms.credit);
        assert_int_equal(a->body.join.terms.block_bytes, b->body.join.terms.block_bytes);
        assert_true(a->body.join.terms.racks == b->body.join.terms.racks);
        assert_true(a->body.join.members == b->body.join.members);
        assert_int_equal(a->body.join.created, b->body.join.created);
        break;
    default:
        break;
    }
}

static void every_frame_comes_back_as_it_was(void **state)
{
    struct tt_object_frame frame, decoded;
    bool seen[TT_OBJECT_FRAME_TYPE_COUNT] = {false};

    (void)state;
    for (uint32_t i = 0; sample(i, &frame); i++) {
        uint8_t bytes[TT_OBJECT_FRAME_MAX_BYTES];
        size_t length = tt_object_frame_encode(&frame, bytes, sizeof bytes);

        assert_true(length >= TT_OBJECT_FRAME_HEADER_BYTES && length <= sizeof bytes);
        assert_true(tt_object_frame_decode(bytes, length, &decoded));
        assert_same(&frame, &decoded);
        seen[frame.type] = true;
    }
    for (unsigned type = 1; type < TT_OBJECT_FRAME_TYPE_COUNT; type++) {
        assert_true(seen[type]);
        assert_string_not_equal(tt_object_frame_name((enum tt_object_frame_type)type), "unknown");
    }
}

static void a_frame_of_another_length_is_refused(void **state)
{
    struct tt_object_frame frame, decoded;

    (void)state;
    for (uint32_t i = 0; sample(i, &frame); i++) {
        uint8_t bytes[TT_OBJECT_FRAME_MAX_BYTES + 1] = {0};
        size_t length = tt_object_frame_encode(&frame, bytes, sizeof bytes);

        for (size_t cut = 0; cut < length; cut++) {
            /* In memory of its own, so that the sanitizer sees a read past the end. */
            uint8_t *copy = malloc(cut + 1);

            memcpy(copy + 1, bytes, cut);
            assert_false(tt_object_frame_decode(copy + 1, cut, &decoded));
            free(copy);
        }
        assert_false(tt_object_frame_decode(bytes, length + 1, &decoded));
    }
}

static void a_capacity_that_is_too_small_is_told(void **state)
{
    struct tt_object_frame frame;

    (void)state;
    for (uint32_t i = 0; sample(i, &frame); i++) {
        uint8_t bytes[TT_OBJECT_FRAME_MAX_BYTES];
        size_t length = tt_object_frame_encode(&frame, bytes, sizeof bytes);

        assert_int_equal(tt_object_frame_encode(&frame, bytes, length), length);
        for (size_t capacity = 0; capacity < length; capacity++) {
            assert_int_equal(tt_object_frame_encode(&frame, bytes, capacity), 0);
        }
    }
}

static void fields_out_of_range_are_refused(void **state)
{
    struct tt_object_frame frame = {.type = TT_OBJECT_FRAME_BARRIER, .body.barrier.round = 32}, decoded;
    uint8_t bytes[TT_OBJECT_FRAME_MAX_BYTES];
    size_t length = tt_object_frame_encode(&frame, bytes, sizeof bytes);

    (void)state;
    assert_false(tt_object_frame_decode(bytes, length, &decoded));
    frame = (struct tt_object_frame){.type = TT_OBJECT_FRAME_FAIL, .body.fail.status = 0};
    length = tt_object_frame_encode(&frame, bytes, sizeof bytes);
    assert_false(tt_object_frame_decode(bytes, length, &decoded));
    frame = (struct tt_object_frame){.type = TT_OBJECT_FRAME_JOIN, .body.join.wants = 2};
    length = tt_object_frame_encode(&frame, bytes, sizeof bytes);
    assert_false(tt_object_frame_decode(bytes, length, &decoded));
    frame = (struct tt_object_frame){.type = TT_OBJECT_FRAME_END};
    for (size_t i = 0; i < 4; i++) { /* magic, version, type */
        length = tt_object_frame_encode(&frame, bytes, sizeof bytes);
        bytes[i] = i == 3 ? TT_OBJECT_FRAME_TYPE_COUNT : (uint8_t)(bytes[i] + 1);
        assert_false(tt_object_frame_decode(bytes, length, &decoded));
    }
    length = tt_object_frame_encode(&frame, bytes, sizeof bytes);
    bytes[3] = 0;
    assert_false(tt_object_frame_decode(bytes, length, &decoded));
}

static void a_key_longer_than_its_limit_is_refused(void **state)
{
    static const uint8_t zeros[TT_OBJECT_FRAME_MAX_KEY_BYTES + 1];
    struct tt_object_frame frame = {.type = TT_OBJECT_FRAME_READY,
                                    .body.ready = {.key_bytes = sizeof zeros, .key = zeros}};
    struct tt_object_frame decoded;
    uint8_t bytes[TT_OBJECT_FRAME_MAX_BYTES];
    size_t length = tt_object_frame_encode(&frame, bytes, sizeof bytes);

    (void)state;
    assert_true(length > 0);
    assert_false(tt_object_frame_decode(bytes, length, &decoded));
}

static void neither_kind_of_frame_is_taken_for_the_other(void **state)
{
    struct tt_object_frame frame = {.type = TT_OBJECT_FRAME_END}, decoded;
    struct tt_frame control = {.type = TT_FRAME_FINAL}, other;
    uint8_t bytes[TT_FRAME_MAX_BYTES];
    size_t length = tt_frame_encode(&control, bytes, sizeof bytes);

    (void)state;
    assert_false(tt_object_frame_decode(bytes, length, &decoded));
    length = tt_object_frame_encode(&frame, bytes, sizeof bytes);
    assert_false(tt_frame_decode(bytes, length, &other));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_frame_comes_back_as_it_was),
        cmocka_unit_test(a_frame_of_another_length_is_refused),
        cmocka_unit_test(a_capacity_that_is_too_small_is_told),
        cmocka_unit_test(fields_out_of_range_are_refused),
        cmocka_unit_test(a_key_longer_than_its_limit_is_refused),
        cmocka_unit_test(neither_kind_of_frame_is_taken_for_the_other),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
