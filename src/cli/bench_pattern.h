/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What `tutti bench` sends: bytes that say where they belong. Pure.
 *
 * A block is a row of little-endian 64-bit words, each a function of (rank, round, offset). Within a block no word
 * occurs twice, so a chunk at the wrong offset is seen; the lowest byte of every word differs between rounds that are
 * fewer than 256 apart, and between ranks that are, so that stale or swapped blocks of one byte are seen too.
 */
#ifndef TT_CLI_BENCH_PATTERN_H
#define TT_CLI_BENCH_PATTERN_H

#include <stdbool.h>
#include <stdint.h>

enum { TT_CANARY_BYTES = 64 };

/* The block that `rank` sends in this round. */
void tt_pattern_fill(void *block, uint64_t length_bytes, uint32_t rank, uint64_t round);

/* The opposite of the block, in every byte: what never arrives is counted to the byte. */
void tt_pattern_poison(void *block, uint64_t length_bytes, uint32_t rank, uint64_t round);

struct tt_pattern_error {
    uint64_t offset_bytes; /* of the first wrong byte in its block */
    uint8_t expected;
    uint8_t found;
    bool never_written; /* it is what the poison left */
};

/* How many bytes differ from the block; if any, *first describes the first of them. */
uint64_t tt_pattern_check(const void *block, uint64_t length_bytes, uint32_t rank, uint64_t round,
                          struct tt_pattern_error *first);

/* TT_CANARY_BYTES that nobody may write. */
void tt_canary_fill(void *canary);
uint64_t tt_canary_check(const void *canary);

#endif
