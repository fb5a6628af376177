/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The buffers of one rank of a benchmark, with their canaries, and the check of what a collective left in them.
 */
#ifndef TT_CLI_BENCH_BUFFERS_H
#define TT_CLI_BENCH_BUFFERS_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/bench_collective.h"
#include "cli/bench_pattern.h"
#include "cli/bench_result.h"
#include "tutti/status.h"

/* What is measured, the same at all ranks. */
struct tt_bench_job {
    enum tt_bench_collective collective;
    uint32_t rank_count;
    uint32_t root; /* where the collective has one */
    bool in_place;
    enum tt_type type; /* and operation: where it reduces */
    enum tt_reduce_operation operation;
};

/*
 * Out of place a collective goes from `send` to `receive`; what a rank does not have is NULL. In place one of them is
 * part of the other: of a scatter or reduce-scatter `receive` points into `send`, of all others the source is in
 * `receive` already, and `send` is NULL. A broadcast is always in place at its root. What is allocated starts at a
 * page, with a canary directly before and behind.
 */
struct tt_bench_buffers {
    struct tt_bench_job job;
    struct tt_bench_result_check results; /* of a collective that reduces */
    uint32_t rank;
    uint64_t size_bytes;  /* what a rank puts in, now */
    uint64_t block_bytes; /* that, or if the collective divides it, a rank's part */
    uint8_t *send;
    uint8_t *receive;
    void *send_memory; /* what was allocated */
    void *receive_memory;
    uint64_t capacity_bytes; /* the largest size_bytes */
};

/* The first wrong byte of a check, for a sentence about it. */
struct tt_bench_wrong {
    uint64_t bytes;                     /* how many; 0: nothing is wrong, and nothing else is set */
    const char *what;                   /* "block", "result", "send buffer", "canary" */
    uint32_t rank;                      /* whose block */
    struct tt_pattern_error first;      /* not of a canary, nor of a result */
    char element[TT_BENCH_ERROR_BYTES]; /* of a result: a sentence about its first wrong element */
};

/* `size_bytes` rounded down to whole elements, and where the collective divides it, to the same number for each rank.
 */
uint64_t tt_bench_job_round(const struct tt_bench_job *job, uint64_t size_bytes);

/* What the root, or another rank, needs for sizes up to `capacity_bytes`; UINT64_MAX if that is more than an address
 * space. */
uint64_t tt_bench_buffers_need(const struct tt_bench_job *job, bool is_root, uint64_t capacity_bytes);

/* Allocates for sizes up to `capacity_bytes`. The canaries and blocks are set by resize and prepare. */
tutti_status tt_bench_buffers_init(struct tt_bench_buffers *buffers, const struct tt_bench_job *job, uint32_t rank,
                                   uint64_t capacity_bytes);
void tt_bench_buffers_fini(struct tt_bench_buffers *buffers);

/* This size (<= capacity), rounded down, from now on. */
void tt_bench_buffers_resize(struct tt_bench_buffers *buffers, uint64_t size_bytes);

/* Before a round: fills what this rank sends, poisons all that it is to receive. */
void tt_bench_buffers_prepare(struct tt_bench_buffers *buffers, uint64_t round);

/* Whether comparing takes so long that ranks wait for each other before they do: where there are more of them than
 * processors, who compares takes the time of those that are still at it. Where there is less to compare than a barrier
 * takes, that would only change what the next round finds. The same at all ranks. */
bool tt_bench_buffers_are_long(const struct tt_bench_buffers *buffers);

/* The deadline of what waits for ranks that are still preparing or comparing, which is not the library's time: a
 * timeout that was asked for is longer there by what a slow machine needs for that. 0, the library's, for TT_AUTO. */
uint64_t tt_bench_buffers_timeout_ns(const struct tt_bench_buffers *buffers, uint64_t timeout_ns);

/* After it: compares every byte of the result, of the send buffer and of the canaries. */
void tt_bench_buffers_check(const struct tt_bench_buffers *buffers, uint64_t round, struct tt_bench_wrong *wrong);

#endif
