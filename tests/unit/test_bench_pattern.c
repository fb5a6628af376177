/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The benchmark's judge is judged: every kind of wrong result that a collective could leave must be counted to the
 * byte, or a benchmark that says `wrong 0` says nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/bench_buffers.h"
#include "cli/bench_pattern.h"
#include "cli/bench_statistics.h"

enum { BLOCK_BYTES = 65537, CHUNK_BYTES = 1472, RANKS = 4 };

static const uint64_t lengths[] = {0, 1, 7, 8, 9, 63, 64, 511, 512, 513, 1023, 1024, 1471, 1472, 1473, 65537, 1000003};

enum { LENGTH_COUNT = sizeof(lengths) / sizeof(lengths[0]) };

static uint8_t *make_block(uint64_t length_bytes)
{
    uint8_t *block = malloc(length_bytes + 1);
    assert_non_null(block);
    return block;
}

static void filled_block_has_no_wrong_byte_at_any_length_and_alignment(void **state)
{
    (void)state;
    for (unsigned i = 0; i < LENGTH_COUNT; i++) {
        for (unsigned shift = 0; shift < 2; shift++) {
            struct tt_pattern_error first;
            uint8_t *block = make_block(lengths[i] + shift);
            tt_pattern_fill(block + shift, lengths[i], 3, 77);
            assert_int_equal(tt_pattern_check(block + shift, lengths[i], 3, 77, &first), 0);
            free(block);
        }
    }
}

static void fill_and_poison_write_nothing_behind_the_block(void **state)
{
    (void)state;
    for (unsigned i = 0; i < LENGTH_COUNT; i++) {
        uint8_t *block = make_block(lengths[i]);
        block[lengths[i]] = 0x5A;
        tt_pattern_fill(block, lengths[i], 1, 2);
        assert_int_equal(block[lengths[i]], 0x5A);
        tt_pattern_poison(block, lengths[i], 1, 2);
        assert_int_equal(block[lengths[i]], 0x5A);
        free(block);
    }
}

static void poison_is_wrong_in_every_byte_and_recognized_as_never_written(void **state)
{
    (void)state;
    for (unsigned i = 1; i < LENGTH_COUNT; i++) {
        struct tt_pattern_error first;
        uint8_t *block = make_block(lengths[i]);
        tt_pattern_poison(block, lengths[i], 2, 5);
        assert_int_equal(tt_pattern_check(block, lengths[i], 2, 5, &first), lengths[i]);
        assert_int_equal(first.offset_bytes, 0);
        assert_true(first.never_written);
        free(block);
    }
}

static void single_flipped_bit_is_found_at_every_offset(void **state)
{
    enum { LENGTH = 1473 };
    (void)state;
    uint8_t block[LENGTH];
    tt_pattern_fill(block, LENGTH, 1, 9);
    for (unsigned offset = 0; offset < LENGTH; offset++) {
        struct tt_pattern_error first;
        uint8_t right = block[offset];
        block[offset] ^= (uint8_t)(1U << (offset % 8));
        assert_int_equal(tt_pattern_check(block, LENGTH, 1, 9, &first), 1);
        assert_int_equal(first.offset_bytes, offset);
        assert_int_equal(first.expected, right);
        assert_int_equal(first.found, block[offset]);
        assert_false(first.never_written);
        block[offset] = right;
    }
}

static void missing_chunk_is_counted_to_the_byte(void **state)
{
    (void)state;
    struct tt_pattern_error first;
    uint8_t *block = make_block(BLOCK_BYTES);
    uint8_t *right = make_block(BLOCK_BYTES);
    tt_pattern_fill(right, BLOCK_BYTES, 0, 4);
    tt_pattern_poison(block, BLOCK_BYTES, 0, 4);
    memcpy(block, right, 5 * CHUNK_BYTES);
    memcpy(block + 6 * CHUNK_BYTES, right + 6 * CHUNK_BYTES, BLOCK_BYTES - 6 * CHUNK_BYTES);
    assert_int_equal(tt_pattern_check(block, BLOCK_BYTES, 0, 4, &first), CHUNK_BYTES);
    assert_int_equal(first.offset_bytes, 5 * CHUNK_BYTES);
    free(right);
    free(block);
}

static void chunk_at_the_offset_of_another_is_wrong_for_every_pair(void **state)
{
    enum { CHUNK = 4096, CHUNKS = 32 };
    (void)state;
    uint8_t *right = make_block(CHUNK * CHUNKS);
    uint8_t *block = make_block(CHUNK * CHUNKS);
    tt_pattern_fill(right, CHUNK * CHUNKS, 7, 11);
    for (unsigned from = 0; from < CHUNKS; from++) {
        for (unsigned to = 0; to < CHUNKS; to++) {
            struct tt_pattern_error first;
            memcpy(block, right, CHUNK * CHUNKS);
            memcpy(block + to * CHUNK, right + from * CHUNK, CHUNK);
            uint64_t wrong = tt_pattern_check(block, CHUNK * CHUNKS, 7, 11, &first);
            if (from == to) {
                assert_int_equal(wrong, 0);
            } else {
                assert_true(wrong >= CHUNK / 8); /* at least one byte of every word */
                assert_int_equal(first.offset_bytes / CHUNK, to);
            }
        }
    }
    free(block);
    free(right);
}

static void one_byte_messages_differ_between_near_rounds_and_between_ranks(void **state)
{
    (void)state;
    for (uint32_t rank = 0; rank < 16; rank++) {
        for (uint64_t round = 0; round < 300; round++) {
            struct tt_pattern_error first;
            uint8_t byte;
            tt_pattern_fill(&byte, 1, rank, round);
            for (uint64_t other = round + 1; other < round + 256; other += 17) {
                assert_int_equal(tt_pattern_check(&byte, 1, rank, other, &first), 1);
            }
            for (uint32_t other = rank + 1; other < rank + 256; other++) {
                assert_int_equal(tt_pattern_check(&byte, 1, other, round, &first), 1);
            }
        }
    }
}

static void stale_block_of_any_other_round_or_rank_is_wrong_in_every_word(void **state)
{
    enum { LENGTH = 64 };
    (void)state;
    uint8_t block[LENGTH];
    tt_pattern_fill(block, LENGTH, 1, 256);
    for (uint32_t rank = 0; rank < 8; rank++) {
        for (uint64_t round = 0; round < 1024; round++) {
            struct tt_pattern_error first;
            if (rank != 1 || round != 256) {
                assert_true(tt_pattern_check(block, LENGTH, rank, round, &first) >= LENGTH / 8);
            }
        }
    }
}

static void any_byte_written_to_a_canary_is_counted(void **state)
{
    (void)state;
    uint8_t canary[TT_CANARY_BYTES];
    tt_canary_fill(canary);
    assert_int_equal(tt_canary_check(canary), 0);
    for (unsigned i = 0; i < TT_CANARY_BYTES; i++) {
        canary[i] ^= 0x01;
        assert_int_equal(tt_canary_check(canary), i + 1);
    }
}

/* --- Buffers ------------------------------------------------------------------------------------------------------ */

/* What a correct allgather leaves at `rank`. */
static void deliver(struct tt_bench_buffers *buffers, uint64_t round)
{
    for (uint32_t rank = 0; rank < buffers->job.rank_count; rank++) {
        tt_pattern_fill(buffers->receive + rank * buffers->size_bytes, buffers->size_bytes, rank, round);
    }
}

static void make_buffers(struct tt_bench_buffers *buffers, enum tt_bench_collective collective, uint32_t rank,
                         uint64_t size)
{
    const struct tt_bench_job job = {.collective = collective, .rank_count = RANKS, .root = 2};
    assert_int_equal(tt_bench_buffers_init(buffers, &job, rank, BLOCK_BYTES), TUTTI_OK);
    tt_bench_buffers_resize(buffers, size);
}

static void correct_allgather_is_right_at_every_size(void **state)
{
    (void)state;
    for (uint64_t size = 0; size <= 1473; size += 491) {
        struct tt_bench_buffers buffers;
        struct tt_bench_wrong wrong;
        make_buffers(&buffers, TT_BENCH_ALLGATHER, 1, size);
        tt_bench_buffers_prepare(&buffers, 6);
        deliver(&buffers, 6);
        tt_bench_buffers_check(&buffers, 6, &wrong);
        assert_int_equal(wrong.bytes, 0);
        tt_bench_buffers_fini(&buffers);
    }
}

static void allgather_that_did_nothing_is_wrong_in_every_byte_each_round(void **state)
{
    (void)state;
    struct tt_bench_buffers buffers;
    struct tt_bench_wrong wrong;
    make_buffers(&buffers, TT_BENCH_ALLGATHER, 1, 1000);
    for (uint64_t round = 0; round < 5; round++) {
        tt_bench_buffers_prepare(&buffers, round);
        tt_bench_buffers_check(&buffers, round, &wrong);
        assert_int_equal(wrong.bytes, 1000 * RANKS);
        assert_string_equal(wrong.what, "block");
        assert_int_equal(wrong.rank, 0);
        deliver(&buffers, round); /* the next round must not profit from it */
    }
    tt_bench_buffers_fini(&buffers);
}

static void swapped_blocks_of_one_byte_are_wrong(void **state)
{
    (void)state;
    struct tt_bench_buffers buffers;
    struct tt_bench_wrong wrong;
    make_buffers(&buffers, TT_BENCH_ALLGATHER, 0, 1);
    tt_bench_buffers_prepare(&buffers, 3);
    deliver(&buffers, 3);
    uint8_t second = buffers.receive[1];
    buffers.receive[1] = buffers.receive[2];
    buffers.receive[2] = second;
    tt_bench_buffers_check(&buffers, 3, &wrong);
    assert_int_equal(wrong.bytes, 2);
    assert_int_equal(wrong.rank, 1);
    tt_bench_buffers_fini(&buffers);
}

static void byte_before_or_behind_a_buffer_is_wrong(void **state)
{
    (void)state;
    struct tt_bench_buffers buffers;
    struct tt_bench_wrong wrong;
    make_buffers(&buffers, TT_BENCH_ALLGATHER, 0, 100);
    uint8_t *const outside[] = {buffers.receive - 1, buffers.receive + RANKS * 100, buffers.send - 1,
                                buffers.send + 100};
    for (unsigned i = 0; i < 4; i++) {
        tt_bench_buffers_prepare(&buffers, i);
        deliver(&buffers, i);
        *outside[i] ^= 0xFF;
        tt_bench_buffers_check(&buffers, i, &wrong);
        assert_int_equal(wrong.bytes, 1);
        assert_string_equal(wrong.what, "canary");
        *outside[i] ^= 0xFF;
    }
    tt_bench_buffers_fini(&buffers);
}

static void changed_send_buffer_is_wrong(void **state)
{
    (void)state;
    struct tt_bench_buffers buffers;
    struct tt_bench_wrong wrong;
    make_buffers(&buffers, TT_BENCH_ALLGATHER, 3, 100);
    tt_bench_buffers_prepare(&buffers, 1);
    deliver(&buffers, 1);
    buffers.send[99] ^= 0x10;
    tt_bench_buffers_check(&buffers, 1, &wrong);
    assert_int_equal(wrong.bytes, 1);
    assert_string_equal(wrong.what, "send buffer");
    assert_int_equal(wrong.first.offset_bytes, 99);
    tt_bench_buffers_fini(&buffers);
}

static void broadcast_is_poisoned_everywhere_but_at_its_root(void **state)
{
    (void)state;
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        struct tt_bench_buffers buffers;
        struct tt_bench_wrong wrong;
        make_buffers(&buffers, TT_BENCH_BROADCAST, rank, 1473);
        tt_bench_buffers_prepare(&buffers, 8);
        tt_bench_buffers_check(&buffers, 8, &wrong);
        assert_int_equal(wrong.bytes, rank == 2 ? 0 : 1473);
        tt_pattern_fill(buffers.receive, 1473, 2, 8);
        tt_bench_buffers_check(&buffers, 8, &wrong);
        assert_int_equal(wrong.bytes, 0);
        tt_bench_buffers_fini(&buffers);
    }
}

static void buffers_that_no_address_space_holds_are_refused(void **state)
{
    (void)state;
    struct tt_bench_buffers buffers;
    struct tt_bench_job job = {.collective = TT_BENCH_ALLGATHER, .rank_count = 4};
    assert_int_equal(tt_bench_buffers_need(&job, true, UINT64_MAX / 2), UINT64_MAX);
    job.rank_count = 65536;
    assert_int_equal(tt_bench_buffers_init(&buffers, &job, 0, UINT64_C(1) << 46), TUTTI_ERR_NO_MEMORY);
    job.collective = TT_BENCH_BROADCAST;
    assert_int_equal(tt_bench_buffers_need(&job, true, UINT64_MAX), UINT64_MAX);
    assert_in_range(tt_bench_buffers_need(&job, true, UINT64_C(1) << 40), UINT64_C(1) << 40, UINT64_C(1) << 41);
}

/* --- Statistics --------------------------------------------------------------------------------------------------- */

static void statistics_of_odd_and_even_numbers_of_samples(void **state)
{
    (void)state;
    struct tt_statistics statistics;
    uint64_t odd[] = {50, 10, 30};
    tt_statistics_compute(odd, 3, &statistics);
    assert_true(statistics.min_ns == 10 && statistics.median_ns == 30 && statistics.mean_ns == 30 &&
                statistics.max_ns == 50);
    uint64_t even[] = {400, 100, 200, 1300};
    tt_statistics_compute(even, 4, &statistics);
    assert_true(statistics.min_ns == 100 && statistics.median_ns == 300 && statistics.mean_ns == 500 &&
                statistics.max_ns == 1300);
    uint64_t one[] = {7};
    tt_statistics_compute(one, 1, &statistics);
    assert_true(statistics.min_ns == 7 && statistics.median_ns == 7 && statistics.mean_ns == 7 &&
                statistics.max_ns == 7);
    tt_statistics_compute(NULL, 0, &statistics);
    assert_true(statistics.min_ns == 0 && statistics.median_ns == 0 && statistics.max_ns == 0);
}

static void bandwidths_follow_the_definitions_of_nccl_tests(void **state)
{
    (void)state;
    /* 4 ranks, 1,000,000 bytes each, 1 ms: 4 GB/s in all, of which 3 have to come over a link. */
    double algbw = tt_algorithm_bandwidth(TT_BENCH_ALLGATHER, 4, 1000000, 1e6);
    assert_true(algbw == 4.0);
    assert_true(tt_bus_bandwidth(TT_BENCH_ALLGATHER, 4, algbw) == 3.0);
    algbw = tt_algorithm_bandwidth(TT_BENCH_BROADCAST, 4, 1000000, 1e6);
    assert_true(algbw == 1.0);
    assert_true(tt_bus_bandwidth(TT_BENCH_BROADCAST, 4, algbw) == 1.0);
    assert_true(tt_bus_bandwidth(TT_BENCH_ALLGATHER, 1, 5.0) == 0.0);
    /* Of a gather the size is one rank's, of a scatter all ranks': 4 ranks, of which 3 are the root's link's. */
    static const struct {
        enum tt_bench_collective collective;
        double algbw, busbw;
    } others[] = {{TT_BENCH_REDUCE, 1, 1},
                  {TT_BENCH_ALLREDUCE, 1, 1.5},
                  {TT_BENCH_REDUCE_SCATTER, 1, 0.75},
                  {TT_BENCH_GATHER, 4, 3},
                  {TT_BENCH_SCATTER, 1, 0.75}};
    for (unsigned i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        algbw = tt_algorithm_bandwidth(others[i].collective, 4, 1000000, 1e6);
        assert_true(algbw == others[i].algbw);
        assert_true(tt_bus_bandwidth(others[i].collective, 4, algbw) == others[i].busbw);
    }
    assert_true(tt_algorithm_bandwidth(TT_BENCH_BROADCAST, 4, 10, 0) == 0.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(filled_block_has_no_wrong_byte_at_any_length_and_alignment),
        cmocka_unit_test(fill_and_poison_write_nothing_behind_the_block),
        cmocka_unit_test(poison_is_wrong_in_every_byte_and_recognized_as_never_written),
        cmocka_unit_test(single_flipped_bit_is_found_at_every_offset),
        cmocka_unit_test(missing_chunk_is_counted_to_the_byte),
        cmocka_unit_test(chunk_at_the_offset_of_another_is_wrong_for_every_pair),
        cmocka_unit_test(one_byte_messages_differ_between_near_rounds_and_between_ranks),
        cmocka_unit_test(stale_block_of_any_other_round_or_rank_is_wrong_in_every_word),
        cmocka_unit_test(any_byte_written_to_a_canary_is_counted),
        cmocka_unit_test(correct_allgather_is_right_at_every_size),
        cmocka_unit_test(allgather_that_did_nothing_is_wrong_in_every_byte_each_round),
        cmocka_unit_test(swapped_blocks_of_one_byte_are_wrong),
        cmocka_unit_test(byte_before_or_behind_a_buffer_is_wrong),
        cmocka_unit_test(changed_send_buffer_is_wrong),
        cmocka_unit_test(broadcast_is_poisoned_everywhere_but_at_its_root),
        cmocka_unit_test(buffers_that_no_address_space_holds_are_refused),
        cmocka_unit_test(statistics_of_odd_and_even_numbers_of_samples),
        cmocka_unit_test(bandwidths_follow_the_definitions_of_nccl_tests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
