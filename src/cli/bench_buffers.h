/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The buffers of one rank of a benchmark, with their canaries, and the check of what a collective left in them.
 */
#ifndef TT_CLI_BENCH_BUFFERS_H
#define TT_CLI_BENCH_BUFFERS_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/bench_pattern.h"
#include "tutti/status.h"

enum tt_collective { TT_COLLECTIVE_BROADCAST, TT_COLLECTIVE_ALLGATHER };

/*
 * An allgather goes from `send` to `receive` (out of place); a broadcast has `receive` only, which is the source at its
 * root. Both start at a page, with a canary directly before and behind.
 */
struct tt_bench_buffers {
    enum tt_collective collective;
    uint32_t rank;
    uint32_t rank_count;
    uint32_t root;       /* of a broadcast */
    uint64_t size_bytes; /* of one rank's block, now */
    uint8_t *send;       /* NULL for a broadcast */
    uint8_t *receive;
    void *send_memory; /* what was allocated */
    void *receive_memory;
    uint64_t capacity_bytes; /* the largest size_bytes */
};

/* The first wrong byte of a check, for a sentence about it. */
struct tt_bench_wrong {
    uint64_t bytes;                /* how many; 0: nothing is wrong, and nothing else is set */
    const char *what;              /* "block", "send buffer", "canary" */
    uint32_t rank;                 /* whose block */
    struct tt_pattern_error first; /* not of a canary */
};

/* What one rank needs for blocks of `capacity_bytes`; UINT64_MAX if that is more than an address space. */
uint64_t tt_bench_buffers_need(enum tt_collective collective, uint32_t rank_count, uint64_t capacity_bytes);

/* Allocates for blocks of up to `capacity_bytes`. The canaries and blocks are set by resize and prepare. */
tutti_status tt_bench_buffers_init(struct tt_bench_buffers *buffers, enum tt_collective collective, uint32_t rank,
                                   uint32_t rank_count, uint32_t root, uint64_t capacity_bytes);
void tt_bench_buffers_fini(struct tt_bench_buffers *buffers);

/* Blocks of `size_bytes` (<= capacity) from now on. */
void tt_bench_buffers_resize(struct tt_bench_buffers *buffers, uint64_t size_bytes);

/* Before a round: fills what this rank sends, poisons all that it is to receive. */
void tt_bench_buffers_prepare(struct tt_bench_buffers *buffers, uint64_t round);

/* Whether comparing takes so long that ranks wait for each other before they do: where there are more of them than
 * processors, who compares takes the time of those that are still at it. Where there is less to compare than a barrier
 * takes, that would only change what the next round finds. */
bool tt_bench_buffers_are_long(const struct tt_bench_buffers *buffers);

/* After it: compares every byte of the result, of the send buffer and of the canaries. */
void tt_bench_buffers_check(const struct tt_bench_buffers *buffers, uint64_t round, struct tt_bench_wrong *wrong);

#endif
