/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: the bytes that the benchmark sends, and the check of every one that it receives.
 *
 * Normal path: word w of a block is key + w * STRIDE. STRIDE is odd, so the words of a block are all different; the
 * lowest byte of the key is linear in rank and round with odd factors, so it differs where either differs by less than
 * 256, and the rest of the key is a hash of both. The check compares runs of words by gathering differences, without a
 * branch a word, which keeps it at the speed of memory.
 *
 * Failures: a run with a difference is gone through again byte by byte, to count and to find the first.
 */
#include "cli/bench_pattern.h"

#include <endian.h>
#include <string.h>

#include "base/random.h"

#define STRIDE       UINT64_C(0xD1B54A32D192ED03)
#define CANARY_WORD  UINT64_C(0xC5A3E1977B5D3F21)
#define ROUND_FACTOR 167U
#define RANK_FACTOR  59U

enum { WORD_BYTES = 8, RUN_WORDS = 64, RUN_BYTES = RUN_WORDS * WORD_BYTES };

static uint64_t block_key(uint32_t rank, uint64_t round)
{
    struct tt_random random;
    tt_random_init(&random, round ^ ((uint64_t)rank << 40));
    uint64_t hash = tt_random_next(&random);
    return (hash & ~UINT64_C(0xFF)) | ((round * ROUND_FACTOR + rank * RANK_FACTOR) & 0xFF);
}

/* The bytes from `word` on, XOR `invert`. */
static void write_words(uint8_t *out, uint64_t length_bytes, uint64_t word, uint64_t invert)
{
    uint64_t whole_words = length_bytes / WORD_BYTES;
    for (uint64_t i = 0; i < whole_words; i++) {
        uint64_t bytes = htole64(word) ^ invert;
        memcpy(out + i * WORD_BYTES, &bytes, WORD_BYTES);
        word += STRIDE;
    }
    uint64_t bytes = htole64(word) ^ invert;
    memcpy(out + whole_words * WORD_BYTES, &bytes, length_bytes % WORD_BYTES);
}

void tt_pattern_fill(void *block, uint64_t length_bytes, uint32_t rank, uint64_t round)
{
    if (length_bytes > 0) {
        write_words(block, length_bytes, block_key(rank, round), 0);
    }
}

void tt_pattern_poison(void *block, uint64_t length_bytes, uint32_t rank, uint64_t round)
{
    if (length_bytes > 0) {
        write_words(block, length_bytes, block_key(rank, round), UINT64_MAX);
    }
}

/* Nonzero if any of the RUN_WORDS words from `word` on differs. */
static uint64_t run_difference(const uint8_t *in, uint64_t word)
{
    uint64_t difference = 0;
    for (unsigned i = 0; i < RUN_WORDS; i++) {
        uint64_t bytes;
        memcpy(&bytes, in + i * WORD_BYTES, WORD_BYTES);
        difference |= bytes ^ htole64(word + i * STRIDE);
    }
    return difference;
}

/* Compares at most RUN_BYTES byte by byte. */
static uint64_t count_wrong(const uint8_t *in, uint64_t length_bytes, uint64_t word, uint64_t offset_bytes,
                            bool is_first, struct tt_pattern_error *first)
{
    uint8_t expected[RUN_BYTES];
    write_words(expected, length_bytes, word, 0);
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < length_bytes; i++) {
        if (in[i] == expected[i]) {
            continue;
        }
        if (wrong == 0 && is_first) {
            first->offset_bytes = offset_bytes + i;
            first->expected = expected[i];
            first->found = in[i];
            first->never_written = (in[i] ^ expected[i]) == UINT8_MAX;
        }
        wrong++;
    }
    return wrong;
}

uint64_t tt_pattern_check(const void *block, uint64_t length_bytes, uint32_t rank, uint64_t round,
                          struct tt_pattern_error *first)
{
    const uint8_t *in = block;
    uint64_t word = block_key(rank, round);
    uint64_t wrong = 0;
    for (uint64_t offset = 0; offset < length_bytes; offset += RUN_BYTES) {
        uint64_t rest = length_bytes - offset;
        if (rest < RUN_BYTES || run_difference(in + offset, word) != 0) {
            uint64_t length = rest < RUN_BYTES ? rest : RUN_BYTES;
            wrong += count_wrong(in + offset, length, word, offset, wrong == 0, first);
        }
        word += RUN_WORDS * STRIDE;
    }
    return wrong;
}

void tt_canary_fill(void *canary)
{
    write_words(canary, TT_CANARY_BYTES, CANARY_WORD, 0);
}

uint64_t tt_canary_check(const void *canary)
{
    struct tt_pattern_error ignored;
    return count_wrong(canary, TT_CANARY_BYTES, CANARY_WORD, 0, true, &ignored);
}
