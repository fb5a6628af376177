/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The buffers of every collective, in and out of place: all ranks' are made, this file moves and combines data as the
 * collective should, and everything is right; then a byte is not where it should be, and that is seen.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/bench_buffers.h"
#include "reduce_reference.h"

enum { RANKS = 3, ROOT = 1, CAPACITY = 30000, ROUND = 4 };

static struct tt_bench_buffers buffers[RANKS];
static uint8_t sources[RANKS][CAPACITY];
static uint8_t reduced[CAPACITY];

static const struct tt_bench_collective_row *row(void)
{
    return tt_bench_collective_row(buffers[0].job.collective);
}

static bool has_result(uint32_t rank)
{
    return tt_bench_is_among(row()->receives, rank == ROOT);
}

static bool is_in_place(uint32_t rank)
{
    return (buffers[rank].job.in_place && tt_bench_is_among(row()->sends, rank == ROOT) && has_result(rank)) ||
           (row()->is_sourced_in_place && rank == ROOT);
}

static void begin(const struct tt_bench_job *job, uint64_t size_bytes)
{
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        assert_int_equal(tt_bench_buffers_init(&buffers[rank], job, rank, CAPACITY), TUTTI_OK);
        tt_bench_buffers_resize(&buffers[rank], size_bytes);
        tt_bench_buffers_prepare(&buffers[rank], ROUND);
    }
}

static void end(void)
{
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        tt_bench_buffers_fini(&buffers[rank]);
    }
}

static uint64_t wrong_at(uint32_t rank, const char *what)
{
    struct tt_bench_wrong wrong;
    tt_bench_buffers_check(&buffers[rank], ROUND, &wrong);
    if (what != NULL && wrong.bytes > 0) {
        assert_string_equal(wrong.what, what);
    }
    return wrong.bytes;
}

/* What each rank puts in, wherever it lies. */
static void read_sources(void)
{
    uint64_t block = buffers[0].block_bytes;
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        const uint8_t *from = buffers[rank].send;
        uint64_t bytes = row()->sent == TT_BENCH_ALL ? RANKS * block : block;
        if (from == NULL && is_in_place(rank)) {
            from = buffers[rank].receive + (row()->received == TT_BENCH_ALL ? rank * block : 0);
        }
        if (from != NULL) {
            memcpy(sources[rank], from, bytes);
        }
    }
}

/* All sources combined in the order of ranks. */
static void combine(void)
{
    const struct tt_bench_elements *elements = &buffers[0].results.elements;
    uint64_t bytes = row()->sent == TT_BENCH_ALL ? RANKS * buffers[0].block_bytes : buffers[0].block_bytes;
    memcpy(reduced, sources[0], bytes);
    for (uint32_t rank = 1; rank < RANKS; rank++) {
        for (uint64_t at = 0; at < bytes; at += elements->element_bytes) {
            if (elements->type == TT_TYPE_OPAQUE) {
                tt_bench_compose(reduced + at, reduced + at, sources[rank] + at, 1, NULL);
            } else {
                reference_combine(elements->type, TT_REDUCE_SUM, reduced + at, sources[rank] + at, reduced + at);
            }
        }
    }
}

static void deliver(void)
{
    uint64_t block = buffers[0].block_bytes;
    read_sources();
    if (row()->reduces) {
        combine();
    }
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        uint8_t *to = buffers[rank].receive;
        if (!has_result(rank) || block == 0) {
            continue;
        }
        if (row()->reduces) {
            memcpy(to, reduced + (row()->received == TT_BENCH_OWN ? rank * block : 0), block);
        } else if (row()->received == TT_BENCH_ALL) {
            for (uint32_t other = 0; other < RANKS; other++) {
                memcpy(to + other * block, sources[other], block);
            }
        } else {
            memcpy(to, sources[ROOT] + (row()->sent == TT_BENCH_ALL ? rank * block : 0), block);
        }
    }
}

/* --- Every collective --------------------------------------------------------------------------------------------- */

typedef void judge_function(void);

/* Calls it after the buffers of each collective have been prepared. */
static void for_all(uint64_t size_bytes, judge_function *judge)
{
    static const struct {
        enum tt_type type;
        enum tt_reduce_operation operation;
    } kinds[] = {{TT_TYPE_FP32, TT_REDUCE_SUM}, {TT_TYPE_INT16, TT_REDUCE_SUM}, {TT_TYPE_OPAQUE, TT_REDUCE_USER}};
    for (unsigned collective = TT_BENCH_BROADCAST; collective < TT_BENCH_COLLECTIVE_COUNT; collective++) {
        for (unsigned i = 0; i < 2 * sizeof(kinds) / sizeof(kinds[0]); i++) {
            struct tt_bench_job job = {.collective = (enum tt_bench_collective)collective,
                                       .rank_count = RANKS,
                                       .root = ROOT,
                                       .in_place = i % 2 == 1,
                                       .type = kinds[i / 2].type,
                                       .operation = kinds[i / 2].operation};
            begin(&job, size_bytes);
            judge();
            end();
        }
    }
}

static void is_right(void)
{
    deliver();
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        assert_int_equal(wrong_at(rank, NULL), 0);
    }
}

static void right_results_are_right_at_every_size(void **state)
{
    static const uint64_t sizes[] = {0, 1, 7, 16, 48, 1000, 1473, 12290, CAPACITY};
    (void)state;
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        for_all(sizes[i], is_right);
    }
}

static void nothing_is_wrong_but_in_place(void)
{
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        uint64_t bytes = (row()->received == TT_BENCH_ALL ? RANKS : 1) * buffers[rank].block_bytes;
        uint64_t own = row()->received == TT_BENCH_ALL ? buffers[rank].block_bytes : bytes;
        uint64_t wrong = wrong_at(rank, row()->reduces ? "result" : "block");
        if (!has_result(rank)) {
            assert_int_equal(wrong, 0);
        } else if (!is_in_place(rank)) {
            assert_int_equal(wrong, bytes);
        } else if (row()->reduces) {
            assert_true(wrong >= bytes / 2); /* the own elements, of which some may be what the bound allows */
        } else {
            assert_int_equal(wrong, bytes - own);
        }
    }
}

static void collective_that_did_nothing_is_wrong(void **state)
{
    (void)state;
    for_all(3000, nothing_is_wrong_but_in_place);
}

static void flipped_bits_of_results_are_seen(void)
{
    deliver();
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        uint64_t bytes = (row()->received == TT_BENCH_ALL ? RANKS : 1) * buffers[rank].block_bytes;
        for (uint64_t at = 0; has_result(rank) && at < bytes; at += at < 60 ? 1 : 501) {
            uint32_t unit = row()->reduces ? buffers[rank].results.elements.element_bytes : 1;
            buffers[rank].receive[at] ^=
                0x7F; /* of an fp32 element a digit that no rounding reaches, but for the last */
            bool is_last = buffers[rank].job.type == TT_TYPE_FP32 && at % 4 < 2 && row()->reduces;
            uint64_t wrong = wrong_at(rank, NULL);
            assert_true(wrong == unit || (is_last && wrong == 0));
            buffers[rank].receive[at] ^= 0x7F;
        }
        assert_int_equal(wrong_at(rank, NULL), 0);
    }
}

static void flipped_bit_of_a_result_is_one_wrong_element(void **state)
{
    (void)state;
    for_all(3000, flipped_bits_of_results_are_seen);
}

/* Where the send buffer may be written: in place, the own part. */
static void changed_sources_are_seen(void)
{
    deliver();
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        uint64_t block = buffers[rank].block_bytes, bytes = (row()->sent == TT_BENCH_ALL ? RANKS : 1) * block;
        for (uint64_t at = 0; buffers[rank].send != NULL && at < bytes; at += 37) {
            bool is_result = is_in_place(rank) && at / block == rank;
            buffers[rank].send[at] ^= 0x20;
            if (!is_result) {
                struct tt_bench_wrong wrong;
                tt_bench_buffers_check(&buffers[rank], ROUND, &wrong);
                assert_int_equal(wrong.bytes, 1);
                assert_string_equal(wrong.what, "send buffer");
                assert_int_equal(wrong.first.offset_bytes, at);
                assert_int_equal(wrong.first.found ^ wrong.first.expected, 0x20);
            }
            buffers[rank].send[at] ^= 0x20;
        }
    }
}

static void changed_send_buffer_is_seen_to_the_byte(void **state)
{
    (void)state;
    for_all(1536, changed_sources_are_seen);
}

static void bytes_outside_are_seen(void)
{
    deliver();
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        uint64_t block = buffers[rank].block_bytes;
        uint8_t *data[] = {buffers[rank].send_memory != NULL ? buffers[rank].send : NULL,
                           buffers[rank].receive_memory != NULL ? buffers[rank].receive : NULL};
        uint64_t bytes[] = {(row()->sent == TT_BENCH_ALL ? RANKS : 1) * block,
                            (row()->received == TT_BENCH_ALL ? RANKS : 1) * block};
        for (unsigned i = 0; i < 2; i++) {
            for (unsigned side = 0; side < 2 && data[i] != NULL; side++) {
                uint8_t *outside = side == 0 ? data[i] - 1 : data[i] + bytes[i];
                *outside ^= 1;
                assert_int_equal(wrong_at(rank, "canary"), 1);
                *outside ^= 1;
            }
        }
    }
}

static void byte_before_or_behind_any_buffer_is_wrong(void **state)
{
    (void)state;
    for_all(1000, bytes_outside_are_seen);
}

/* --- Sizes -------------------------------------------------------------------------------------------------------- */

static void sizes_are_rounded_down_to_whole_elements_of_each_rank(void **state)
{
    struct tt_bench_job job = {.collective = TT_BENCH_ALLREDUCE, .rank_count = 3, .type = TT_TYPE_FP64};
    (void)state;
    assert_int_equal(tt_bench_job_round(&job, 1000), 1000);
    assert_int_equal(tt_bench_job_round(&job, 1007), 1000);
    assert_int_equal(tt_bench_job_round(&job, 7), 0);
    job.collective = TT_BENCH_REDUCE_SCATTER;
    assert_int_equal(tt_bench_job_round(&job, 1000), 984);
    job.type = TT_TYPE_OPAQUE;
    assert_int_equal(tt_bench_job_round(&job, 1000), 960);
    job.collective = TT_BENCH_SCATTER;
    assert_int_equal(tt_bench_job_round(&job, 1000), 999);
    job.collective = TT_BENCH_ALLGATHER;
    assert_int_equal(tt_bench_job_round(&job, 1001), 1001);
}

static void only_who_has_a_buffer_needs_memory_for_it(void **state)
{
    struct tt_bench_job job = {.collective = TT_BENCH_GATHER, .rank_count = 100};
    const uint64_t size = 1 << 20, canaries = 2 * 4096; /* which large buffers round up to pages of 2 MiB */
    (void)state;
    assert_int_equal(tt_bench_buffers_need(&job, true, size), 102 * size + size + canaries);
    assert_int_equal(tt_bench_buffers_need(&job, false, size), size + canaries);
    job.in_place = true;
    assert_int_equal(tt_bench_buffers_need(&job, true, size), 102 * size);
    job = (struct tt_bench_job){.collective = TT_BENCH_REDUCE_SCATTER, .rank_count = 4};
    assert_int_equal(tt_bench_buffers_need(&job, false, size), size + size / 4 + 2 * canaries);
    job.in_place = true;
    assert_int_equal(tt_bench_buffers_need(&job, false, size), size + canaries);
    job = (struct tt_bench_job){.collective = TT_BENCH_BARRIER, .rank_count = 4};
    assert_int_equal(tt_bench_buffers_need(&job, true, 0), 0);
}

/* The flags of the mapping that an address is in; false: the system does not tell. */
static bool read_flags(const void *address, char *flags, size_t flags_bytes)
{
    FILE *maps = fopen("/proc/self/smaps", "r");
    char line[512];
    unsigned long long first = 0, end = 0, at = (uintptr_t)address;
    bool found = false;

    while (maps != NULL && !found && fgets(line, sizeof line, maps) != NULL) {
        (void)sscanf(line, "%llx-%llx ", &first, &end);
        if (strncmp(line, "VmFlags:", 8) == 0 && at >= first && at < end) {
            found = true;
            snprintf(flags, flags_bytes, "%s", line);
        }
    }
    if (maps != NULL) {
        fclose(maps);
    }
    return found;
}

/* Where systems have huge pages for who asks (or for all, or for nobody, which the flags do not say). */
static void large_buffers_ask_for_huge_pages_and_small_ones_do_not(void **state)
{
    const struct tt_bench_job job = {.collective = TT_BENCH_BROADCAST, .rank_count = 1};
    struct tt_bench_buffers small, large;
    char flags[512];

    (void)state;
    if (access("/sys/kernel/mm/transparent_hugepage/enabled", R_OK) != 0 || !read_flags(&small, flags, sizeof flags)) {
        skip();
    }
    assert_int_equal(tt_bench_buffers_init(&small, &job, 0, (2 << 20) - 1), TUTTI_OK);
    assert_int_equal(tt_bench_buffers_init(&large, &job, 0, (6 << 20) + 1), TUTTI_OK);
    assert_true(read_flags(small.receive, flags, sizeof flags));
    assert_null(strstr(flags, " hg"));
    for (uint32_t i = 0; i <= 6; i++) {
        assert_true(read_flags(large.receive + ((size_t)i << 20), flags, sizeof flags));
        assert_non_null(strstr(flags, " hg"));
    }
    tt_bench_buffers_fini(&small);
    tt_bench_buffers_fini(&large);
}

static void barrier_has_nothing_to_check(void **state)
{
    const struct tt_bench_job job = {.collective = TT_BENCH_BARRIER, .rank_count = RANKS};
    (void)state;
    begin(&job, 0);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        assert_null(buffers[rank].send);
        assert_null(buffers[rank].receive);
        assert_int_equal(wrong_at(rank, NULL), 0);
    }
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_results_are_right_at_every_size),
        cmocka_unit_test(collective_that_did_nothing_is_wrong),
        cmocka_unit_test(flipped_bit_of_a_result_is_one_wrong_element),
        cmocka_unit_test(changed_send_buffer_is_seen_to_the_byte),
        cmocka_unit_test(byte_before_or_behind_any_buffer_is_wrong),
        cmocka_unit_test(sizes_are_rounded_down_to_whole_elements_of_each_rank),
        cmocka_unit_test(only_who_has_a_buffer_needs_memory_for_it),
        cmocka_unit_test(large_buffers_ask_for_huge_pages_and_small_ones_do_not),
        cmocka_unit_test(barrier_has_nothing_to_check),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
