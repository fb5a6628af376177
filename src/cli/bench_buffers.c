/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: memory for a benchmark's rounds, and the verdict on each.
 *
 * Normal path: init for the largest size, then for every size resize, and for every round prepare, the collective,
 * check. Nothing is allocated after init.
 *
 * Failures: memory that is not to be had. A wrong byte is no failure here but a count, and the first is described.
 */
#include "cli/bench_buffers.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

/* Room for a canary before and behind the data, with the data itself at a page's start. */
enum { ALIGN_BYTES = 4096 };

enum { LONG_BYTES = 1 << 20 }; /* compared in 0.1 ms */

static uint64_t receive_blocks(enum tt_collective collective, uint32_t rank_count)
{
    return collective == TT_COLLECTIVE_ALLGATHER ? rank_count : 1;
}

uint64_t tt_bench_buffers_need(enum tt_collective collective, uint32_t rank_count, uint64_t capacity_bytes)
{
    uint64_t blocks = receive_blocks(collective, rank_count) + (collective == TT_COLLECTIVE_ALLGATHER ? 1 : 0);
    uint64_t limit = UINT64_C(1) << 47; /* user addresses of a 64-bit machine */
    if (capacity_bytes > limit / blocks) {
        return UINT64_MAX;
    }
    return blocks * capacity_bytes + UINT64_C(4) * ALIGN_BYTES;
}

static tutti_status allocate(uint64_t length_bytes, void **memory, uint8_t **data)
{
    void *start;
    uint64_t with_canaries = length_bytes + UINT64_C(2) * ALIGN_BYTES;
    if (posix_memalign(&start, ALIGN_BYTES, with_canaries) != 0) {
        return tt_error(TT_PART_CLI, TUTTI_ERR_NO_MEMORY, "a buffer of %" PRIu64 " bytes: out of memory", length_bytes);
    }
    *memory = start;
    *data = (uint8_t *)start + ALIGN_BYTES;
    return TUTTI_OK;
}

tutti_status tt_bench_buffers_init(struct tt_bench_buffers *buffers, enum tt_collective collective, uint32_t rank,
                                   uint32_t rank_count, uint32_t root, uint64_t capacity_bytes)
{
    struct tt_bench_buffers made = {.collective = collective,
                                    .rank = rank,
                                    .rank_count = rank_count,
                                    .root = root,
                                    .capacity_bytes = capacity_bytes};
    if (tt_bench_buffers_need(collective, rank_count, capacity_bytes) == UINT64_MAX) {
        return tt_error(TT_PART_CLI, TUTTI_ERR_NO_MEMORY, "%" PRIu32 " blocks of %" PRIu64 " bytes: out of memory",
                        rank_count, capacity_bytes);
    }
    uint64_t receive_bytes = receive_blocks(collective, rank_count) * capacity_bytes;
    tutti_status status = allocate(receive_bytes, &made.receive_memory, &made.receive);
    if (status == TUTTI_OK && collective == TT_COLLECTIVE_ALLGATHER) {
        status = allocate(capacity_bytes, &made.send_memory, &made.send);
    }
    if (status != TUTTI_OK) {
        tt_bench_buffers_fini(&made);
        return status;
    }
    *buffers = made;
    return TUTTI_OK;
}

void tt_bench_buffers_fini(struct tt_bench_buffers *buffers)
{
    free(buffers->send_memory);
    free(buffers->receive_memory);
    buffers->send_memory = NULL;
    buffers->receive_memory = NULL;
}

static void surround(uint8_t *data, uint64_t length_bytes)
{
    tt_canary_fill(data - TT_CANARY_BYTES);
    tt_canary_fill(data + length_bytes);
}

void tt_bench_buffers_resize(struct tt_bench_buffers *buffers, uint64_t size_bytes)
{
    assert(size_bytes <= buffers->capacity_bytes);
    buffers->size_bytes = size_bytes;
    surround(buffers->receive, receive_blocks(buffers->collective, buffers->rank_count) * size_bytes);
    if (buffers->send != NULL) {
        surround(buffers->send, size_bytes);
    }
}

void tt_bench_buffers_prepare(struct tt_bench_buffers *buffers, uint64_t round)
{
    uint64_t size = buffers->size_bytes;
    if (buffers->collective == TT_COLLECTIVE_BROADCAST) {
        if (buffers->rank == buffers->root) {
            tt_pattern_fill(buffers->receive, size, buffers->root, round);
        } else {
            tt_pattern_poison(buffers->receive, size, buffers->root, round);
        }
        return;
    }
    tt_pattern_fill(buffers->send, size, buffers->rank, round);
    for (uint32_t rank = 0; rank < buffers->rank_count; rank++) {
        tt_pattern_poison(buffers->receive + rank * size, size, rank, round);
    }
}

static void add_wrong(struct tt_bench_wrong *wrong, uint64_t bytes, const char *what, uint32_t rank,
                      const struct tt_pattern_error *first)
{
    if (bytes > 0 && wrong->bytes == 0) {
        wrong->what = what;
        wrong->rank = rank;
        wrong->first = *first;
    }
    wrong->bytes += bytes;
}

static void check_canaries(const uint8_t *data, uint64_t length_bytes, uint32_t rank, struct tt_bench_wrong *wrong)
{
    struct tt_pattern_error none = {0};
    uint64_t bytes = tt_canary_check(data - TT_CANARY_BYTES) + tt_canary_check(data + length_bytes);
    add_wrong(wrong, bytes, "canary", rank, &none);
}

bool tt_bench_buffers_are_long(const struct tt_bench_buffers *buffers)
{
    return receive_blocks(buffers->collective, buffers->rank_count) * buffers->size_bytes >= LONG_BYTES;
}

void tt_bench_buffers_check(const struct tt_bench_buffers *buffers, uint64_t round, struct tt_bench_wrong *wrong)
{
    struct tt_bench_wrong sum = {0};
    struct tt_pattern_error first = {0};
    uint64_t size = buffers->size_bytes;
    bool allgather = buffers->collective == TT_COLLECTIVE_ALLGATHER;
    uint64_t blocks = receive_blocks(buffers->collective, buffers->rank_count);
    for (uint64_t block = 0; block < blocks; block++) {
        uint32_t rank = allgather ? (uint32_t)block : buffers->root;
        uint64_t bytes = tt_pattern_check(buffers->receive + block * size, size, rank, round, &first);
        add_wrong(&sum, bytes, "block", rank, &first);
    }
    check_canaries(buffers->receive, blocks * size, buffers->rank, &sum);
    if (buffers->send != NULL) {
        uint64_t bytes = tt_pattern_check(buffers->send, size, buffers->rank, round, &first);
        add_wrong(&sum, bytes, "send buffer", buffers->rank, &first);
        check_canaries(buffers->send, size, buffers->rank, &sum);
    }
    *wrong = sum;
}
