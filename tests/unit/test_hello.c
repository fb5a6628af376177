/* SPDX-License-Identifier: BSD-3-Clause */
/* Bootstrap frames: to bytes and back, and what does not decode. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "wire/hello.h"

static const struct tt_hello frames[] = {
    {.type = TT_HELLO_HELLO, .version = 3, .rank = 3, .size = 8, .nonce = UINT64_C(0x0123456789ABCDEF)},
    {.type = TT_HELLO_WELCOME,
     .version = 3,
     .rank = 5,
     .size = 65536,
     .nonce = UINT64_MAX,
     .value = UINT64_C(30000000000)},
    {.type = TT_HELLO_REFUSE, .version = 3, .size = 8, .status = TUTTI_ERR_MISMATCH, .length_bytes = 1024},
    {.type = TT_HELLO_READY, .version = 3, .size = 8},
    {.type = TT_HELLO_FAIL, .version = 3, .rank = 7, .size = 8, .status = TUTTI_ERR_PEER_FAILED, .length_bytes = 0},
    {.type = TT_HELLO_FAIL, .version = 3, .rank = TT_HELLO_NO_RANK, .size = 8, .status = TUTTI_ERR_TIMED_OUT},
    {.type = TT_HELLO_GATHER, .version = 3, .rank = 65535, .size = 65536, .sequence = 1, .length_bytes = 1 << 20},
    {.type = TT_HELLO_RESULT, .version = 3, .size = 8, .sequence = UINT32_MAX, .length_bytes = UINT64_C(1) << 40},
    {.type = TT_HELLO_HELLO, .version = 3, .rank = TT_HELLO_NO_RANK, .size = 8, .nonce = 1},
};

enum { FRAME_COUNT = sizeof(frames) / sizeof(frames[0]) };

static void assert_same(const struct tt_hello *a, const struct tt_hello *b)
{
    assert_int_equal(a->type, b->type);
    assert_int_equal(a->version, b->version);
    assert_int_equal(a->rank, b->rank);
    assert_int_equal(a->size, b->size);
    assert_int_equal(a->sequence, b->sequence);
    assert_int_equal(a->status, b->status);
    assert_true(a->nonce == b->nonce);
    assert_true(a->value == b->value);
    assert_true(a->length_bytes == b->length_bytes);
}

static void every_frame_decodes_to_what_was_encoded(void **state)
{
    (void)state;
    for (size_t i = 0; i < FRAME_COUNT; i++) {
        uint8_t bytes[TT_HELLO_BYTES];
        struct tt_hello decoded;
        tt_hello_encode(&frames[i], bytes);
        assert_int_equal(tt_hello_decode(bytes, &decoded), TUTTI_OK);
        assert_same(&decoded, &frames[i]);
    }
}

static void a_hello_is_these_bytes(void **state)
{
    static const uint8_t expected[TT_HELLO_BYTES] = {'t', 't', 't',  'b',  3,    0,    1,    0,    3,    0,   0,
                                                     0,   8,   0,    0,    0,    0,    0,    0,    0,    0,   0,
                                                     0,   0,   0xEF, 0xCD, 0xAB, 0x89, 0x67, 0x45, 0x23, 0x01};
    uint8_t bytes[TT_HELLO_BYTES];
    (void)state;
    tt_hello_encode(&frames[0], bytes);
    assert_memory_equal(bytes, expected, sizeof(bytes));
}

/* Encodes, and expects that this does not decode, and that nothing is set. */
static void assert_refused(struct tt_hello hello)
{
    uint8_t bytes[TT_HELLO_BYTES];
    struct tt_hello decoded, before;
    memset(&decoded, 0x5A, sizeof(decoded));
    before = decoded;
    tt_hello_encode(&hello, bytes);
    assert_int_equal(tt_hello_decode(bytes, &decoded), TUTTI_ERR_PROTOCOL);
    assert_memory_equal(&decoded, &before, sizeof(before));
}

#define REFUSE_WITH(index, ...)                                                                                        \
    do {                                                                                                               \
        struct tt_hello changed = frames[index];                                                                       \
        changed.__VA_ARGS__;                                                                                           \
        assert_refused(changed);                                                                                       \
    } while (0)

static void a_field_out_of_its_range_does_not_decode(void **state)
{
    (void)state;
    REFUSE_WITH(0, rank = 8);
    REFUSE_WITH(0, size = 0);
    REFUSE_WITH(0, size = 65537);
    REFUSE_WITH(1, rank = TT_HELLO_NO_RANK);
    REFUSE_WITH(6, rank = TT_HELLO_NO_RANK);
    REFUSE_WITH(8, rank = TT_HELLO_NO_RANK - 1);
    REFUSE_WITH(2, length_bytes = 1025);
    REFUSE_WITH(2, status = TUTTI_OK);
    REFUSE_WITH(4, rank = 8);
    REFUSE_WITH(4, length_bytes = UINT64_MAX);
    REFUSE_WITH(6, sequence = 0);
    REFUSE_WITH(6, rank = 65536);
    REFUSE_WITH(7, sequence = 0);
    REFUSE_WITH(0, type = (enum tt_hello_type)0);
    REFUSE_WITH(0, type = (enum tt_hello_type)8);
}

static void a_field_that_the_type_does_not_use_must_be_zero(void **state)
{
    (void)state;
    REFUSE_WITH(0, sequence = 1);
    REFUSE_WITH(0, status = TUTTI_ERR_IO);
    REFUSE_WITH(0, value = 1);
    REFUSE_WITH(0, length_bytes = 1);
    REFUSE_WITH(1, sequence = 1);
    REFUSE_WITH(1, length_bytes = 1);
    REFUSE_WITH(3, nonce = 1);
    REFUSE_WITH(3, length_bytes = 1);
    REFUSE_WITH(4, value = 1);
    REFUSE_WITH(6, nonce = 1);
    REFUSE_WITH(7, status = TUTTI_ERR_IO);
}

static void every_bit_of_the_magic_counts(void **state)
{
    uint8_t bytes[TT_HELLO_BYTES];
    struct tt_hello decoded;
    (void)state;
    for (int bit = 0; bit < 32; bit++) {
        tt_hello_encode(&frames[0], bytes);
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_int_equal(tt_hello_decode(bytes, &decoded), TUTTI_ERR_PROTOCOL);
    }
}

static void another_version_can_say_hello_and_be_refused_and_nothing_else(void **state)
{
    (void)state;
    for (size_t i = 0; i < FRAME_COUNT; i++) {
        struct tt_hello hello = frames[i], decoded;
        uint8_t bytes[TT_HELLO_BYTES];
        hello.version = 4;
        if (hello.type != TT_HELLO_HELLO && hello.type != TT_HELLO_REFUSE) {
            assert_refused(hello);
            continue;
        }
        tt_hello_encode(&hello, bytes);
        assert_int_equal(tt_hello_decode(bytes, &decoded), TUTTI_OK);
        assert_int_equal(decoded.version, 4);
        assert_int_equal(decoded.rank, hello.rank);
    }
    struct tt_hello refusal = frames[2];
    refusal.version = 4;
    refusal.length_bytes = 1025;
    assert_refused(refusal);
}

static void a_status_from_a_newer_library_reads_as_a_general_one(void **state)
{
    uint8_t bytes[TT_HELLO_BYTES];
    struct tt_hello decoded;
    (void)state;
    tt_hello_encode(&frames[4], bytes);
    bytes[20] = 200;
    assert_int_equal(tt_hello_decode(bytes, &decoded), TUTTI_OK);
    assert_int_equal(decoded.status, TUTTI_ERR_BOOTSTRAP);
    memset(bytes + 20, 0xFF, 4);
    assert_int_equal(tt_hello_decode(bytes, &decoded), TUTTI_OK);
    assert_int_equal(decoded.status, TUTTI_ERR_BOOTSTRAP);
}

static void what_decodes_from_random_changes_encodes_to_the_same_bytes(void **state)
{
    struct tt_random random;
    int decoded_count = 0;
    (void)state;
    tt_random_init(&random, 1);
    for (int i = 0; i < 200000; i++) {
        uint8_t bytes[TT_HELLO_BYTES], again[TT_HELLO_BYTES];
        struct tt_hello decoded;
        tt_hello_encode(&frames[tt_random_below(&random, FRAME_COUNT)], bytes);
        for (uint64_t changes = tt_random_below(&random, 3); changes > 0; changes--) {
            bytes[4 + tt_random_below(&random, TT_HELLO_BYTES - 4)] = (uint8_t)tt_random_below(&random, 17);
        }
        if (tt_hello_decode(bytes, &decoded) == TUTTI_OK) {
            decoded_count++;
            tt_hello_encode(&decoded, again);
            /* An unknown status is the one thing that is not kept. */
            if (decoded.status == TUTTI_ERR_BOOTSTRAP) {
                memcpy(again + 20, bytes + 20, 4);
            }
            assert_memory_equal(again, bytes, sizeof(bytes));
        }
    }
    assert_in_range(decoded_count, 10000, 199999);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_frame_decodes_to_what_was_encoded),
        cmocka_unit_test(a_hello_is_these_bytes),
        cmocka_unit_test(a_field_out_of_its_range_does_not_decode),
        cmocka_unit_test(a_field_that_the_type_does_not_use_must_be_zero),
        cmocka_unit_test(every_bit_of_the_magic_counts),
        cmocka_unit_test(another_version_can_say_hello_and_be_refused_and_nothing_else),
        cmocka_unit_test(a_status_from_a_newer_library_reads_as_a_general_one),
        cmocka_unit_test(what_decodes_from_random_changes_encodes_to_the_same_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
