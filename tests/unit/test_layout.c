/* SPDX-License-Identifier: BSD-3-Clause */
/* The layout of chunks: over many odd sizes every byte of the buffer belongs to one chunk of one subgroup. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "plan/layout.h"

static void stripes_of(uint64_t block_bytes, uint32_t chunk_bytes, uint32_t roots, uint32_t subgroups,
                       struct tt_stripe *stripes)
{
    struct tt_layout layout;

    assert_true(tt_layout_init(&layout, block_bytes, chunk_bytes, roots, subgroups, 1 << 24));
    assert_int_equal(layout.chunks_per_block, (block_bytes + chunk_bytes - 1) / chunk_bytes);
    for (uint32_t s = 0; s < subgroups; s++) {
        tt_layout_stripe(&layout, s, &stripes[s]);
    }
}

/* Counts for every byte of the buffer how many chunks hold it. */
static void check_cover(uint64_t block_bytes, uint32_t chunk_bytes, uint32_t roots, uint32_t subgroups)
{
    static uint8_t covered[1 << 16];
    struct tt_stripe stripes[16];
    uint64_t total = block_bytes * roots;

    assert_true(total <= sizeof covered && subgroups <= 16);
    memset(covered, 0, total);
    stripes_of(block_bytes, chunk_bytes, roots, subgroups, stripes);
    for (uint32_t s = 0; s < subgroups; s++) {
        assert_int_equal(stripes[s].psn_count, stripes[s].chunks * roots);
        for (uint32_t psn = 0; psn < stripes[s].psn_count; psn++) {
            uint32_t root = psn / stripes[s].chunks, index = psn % stripes[s].chunks;
            uint64_t offset = tt_stripe_offset(&stripes[s], root, index);
            uint32_t length = tt_stripe_length(&stripes[s], index);

            assert_true(length > 0 && length <= chunk_bytes);
            assert_true(offset >= root * block_bytes && offset + length <= (root + 1) * block_bytes);
            for (uint32_t i = 0; i < length; i++) {
                covered[offset + i]++;
            }
        }
    }
    for (uint64_t i = 0; i < total; i++) {
        assert_int_equal(covered[i], 1);
    }
}

static void every_byte_is_in_one_chunk_for_all_small_shapes(void **state)
{
    (void)state;
    for (uint64_t block_bytes = 0; block_bytes <= 40; block_bytes++) {
        for (uint32_t chunk_bytes = 1; chunk_bytes <= 12; chunk_bytes++) {
            for (uint32_t roots = 1; roots <= 4; roots++) {
                for (uint32_t subgroups = 1; subgroups <= 5; subgroups++) {
                    check_cover(block_bytes, chunk_bytes, roots, subgroups);
                }
            }
        }
    }
}

static void every_byte_is_in_one_chunk_for_odd_larger_shapes(void **state)
{
    static const uint32_t blocks[] = {997, 1472, 1473, 4095, 4096, 4097, 8191}, chunks[] = {7, 64, 1000, 1452, 4096};

    (void)state;
    for (size_t b = 0; b < sizeof blocks / sizeof blocks[0]; b++) {
        for (size_t c = 0; c < sizeof chunks / sizeof chunks[0]; c++) {
            check_cover(blocks[b], chunks[c], 1, 16);
            check_cover(blocks[b], chunks[c], 3, 7);
            check_cover(blocks[b], chunks[c], 7, 3);
        }
    }
}

static void subgroups_own_contiguous_runs_that_differ_by_one_at_most(void **state)
{
    struct tt_stripe stripes[16];

    (void)state;
    for (uint32_t chunks = 0; chunks <= 64; chunks++) {
        for (uint32_t subgroups = 1; subgroups <= 16; subgroups++) {
            uint32_t next = 0;

            stripes_of((uint64_t)chunks * 10, 10, 5, subgroups, stripes);
            for (uint32_t s = 0; s < subgroups; s++) {
                assert_int_equal(stripes[s].first_chunk, next);
                assert_true(stripes[s].chunks == chunks / subgroups || stripes[s].chunks == chunks / subgroups + 1);
                next += stripes[s].chunks;
            }
            assert_int_equal(next, chunks);
        }
    }
}

static void ten_bytes_in_chunks_of_four_end_with_two(void **state)
{
    struct tt_stripe stripes[2];

    (void)state;
    stripes_of(10, 4, 3, 2, stripes);
    assert_int_equal(stripes[0].chunks, 2);
    assert_int_equal(stripes[0].psn_count, 6);
    assert_int_equal(stripes[1].chunks, 1);
    assert_int_equal(stripes[1].first_chunk, 2);
    assert_int_equal(stripes[1].psn_count, 3);
    assert_int_equal(tt_stripe_length(&stripes[0], 0), 4);
    assert_int_equal(tt_stripe_length(&stripes[0], 1), 4);
    assert_int_equal(tt_stripe_length(&stripes[1], 0), 2);
    assert_int_equal(tt_stripe_offset(&stripes[0], 2, 1), 24);
    assert_int_equal(tt_stripe_offset(&stripes[1], 2, 0), 28);
}

static void nothing_has_no_chunks(void **state)
{
    struct tt_stripe stripes[3];

    (void)state;
    stripes_of(0, 4096, 64, 3, stripes);
    for (uint32_t s = 0; s < 3; s++) {
        assert_int_equal(stripes[s].chunks, 0);
        assert_int_equal(stripes[s].psn_count, 0);
    }
}

static void offsets_past_four_gigabytes_are_exact(void **state)
{
    struct tt_stripe stripes[1];
    uint64_t block_bytes =
        UINT64_C(6000000001); /* 1,464,844 chunks of 4,096 bytes, the last of 1 byte less than that */

    (void)state;
    stripes_of(block_bytes, 4096, 9, 1, stripes);
    assert_int_equal(stripes[0].chunks, 1464844);
    assert_int_equal(tt_stripe_length(&stripes[0], 1464843), block_bytes - UINT64_C(1464843) * 4096);
    assert_true(tt_stripe_offset(&stripes[0], 8, 1464843) == 8 * block_bytes + UINT64_C(1464843) * 4096);
    assert_true(tt_stripe_offset(&stripes[0], 8, 1464843) + tt_stripe_length(&stripes[0], 1464843) == 9 * block_bytes);
}

static void psns_up_to_the_limit_fit_and_one_more_does_not(void **state)
{
    struct tt_layout layout;

    (void)state;
    assert_true(tt_layout_init(&layout, 100, 10, 10, 1, 100));
    assert_false(tt_layout_init(&layout, 101, 10, 10, 1, 100)); /* 110 PSNs */
    assert_false(tt_layout_init(&layout, 100, 10, 10, 1, 99));
    assert_true(tt_layout_init(&layout, 101, 10, 10, 2, 100));  /* 6 + 5 chunks a block */
    assert_false(tt_layout_init(&layout, 201, 10, 10, 2, 100)); /* 11 chunks in the first subgroup */
    assert_true(tt_layout_init(&layout, UINT64_C(4096) << 24, 4096, 1, 1, 1 << 24));
    assert_false(tt_layout_init(&layout, (UINT64_C(4096) << 24) + 1, 4096, 1, 1, 1 << 24));
}

static void an_empty_block_may_have_a_chunk_all_the_same(void **state)
{
    struct tt_layout layout;
    struct tt_stripe stripe;

    (void)state;
    tt_layout_init_empty(&layout, 4096, 2, 3);
    tt_layout_stripe(&layout, 0, &stripe);
    assert_int_equal(stripe.chunks, 1);
    assert_int_equal(stripe.psn_count, 2);
    assert_int_equal(tt_stripe_length(&stripe, 0), 0);
    assert_int_equal(tt_stripe_offset(&stripe, 1, 0), 0);
    assert_int_equal(tt_stripe_buffer_bytes(&stripe), 0);
    tt_layout_stripe(&layout, 1, &stripe);
    assert_int_equal(stripe.psn_count, 0);
    assert_true(tt_layout_init(&layout, 0, 4096, 2, 1, 100)); /* elsewhere it has none */
    tt_layout_stripe(&layout, 0, &stripe);
    assert_int_equal(stripe.psn_count, 0);
}

static void a_layout_that_does_not_fit_sets_nothing(void **state)
{
    struct tt_layout layout, before;

    (void)state;
    memset(&layout, 0x5A, sizeof layout);
    before = layout;
    assert_false(tt_layout_init(&layout, UINT64_MAX, 1, 1, 1, 1 << 24));
    assert_false(tt_layout_init(&layout, UINT64_MAX, 4096, 0xFFFF, 64, 1 << 24));
    assert_false(tt_layout_init(&layout, 1, 1, 101, 1, 100));
    assert_memory_equal(&layout, &before, sizeof layout);
}

static void the_chosen_chunk_is_the_least_that_fits(void **state)
{
    (void)state;
    assert_int_equal(tt_layout_chunk_for(0, 64, 512, 100), 512);
    assert_int_equal(tt_layout_chunk_for(51200, 1, 512, 100), 512);
    assert_int_equal(tt_layout_chunk_for(51201, 1, 512, 100), 1024);
    assert_int_equal(tt_layout_chunk_for(51200, 2, 512, 100), 1024);
    for (uint64_t block_bytes = 1; block_bytes < UINT64_C(1) << 40; block_bytes = block_bytes * 3 + 1) {
        uint32_t chunk_bytes = tt_layout_chunk_for(block_bytes, 5, 65536, 1 << 24);
        struct tt_layout layout;

        assert_true(tt_layout_init(&layout, block_bytes, chunk_bytes, 5, 1, 1 << 24));
        assert_int_equal(chunk_bytes & (chunk_bytes - 1), 0);
        assert_true(chunk_bytes == 65536 || !tt_layout_init(&layout, block_bytes, chunk_bytes / 2, 5, 1, 1 << 24));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_byte_is_in_one_chunk_for_all_small_shapes),
        cmocka_unit_test(every_byte_is_in_one_chunk_for_odd_larger_shapes),
        cmocka_unit_test(subgroups_own_contiguous_runs_that_differ_by_one_at_most),
        cmocka_unit_test(ten_bytes_in_chunks_of_four_end_with_two),
        cmocka_unit_test(nothing_has_no_chunks),
        cmocka_unit_test(offsets_past_four_gigabytes_are_exact),
        cmocka_unit_test(psns_up_to_the_limit_fit_and_one_more_does_not),
        cmocka_unit_test(an_empty_block_may_have_a_chunk_all_the_same),
        cmocka_unit_test(a_layout_that_does_not_fit_sets_nothing),
        cmocka_unit_test(the_chosen_chunk_is_the_least_that_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
