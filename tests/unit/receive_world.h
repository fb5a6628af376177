/* SPDX-License-Identifier: BSD-3-Clause */
/* A receive kernel, a stream, and memory around its buffer that nobody may touch. */
#ifndef TT_TEST_RECEIVE_WORLD_H
#define TT_TEST_RECEIVE_WORLD_H

#include "proto/receive.h"

enum { RANK = 1, SIZE = 70, TAG = 9, BUFFER = 1024, MARGIN = 64, GUARD = 0xC3 };

/* A receiver with one stream of two roots (ranks 2 and 3), blocks of 10 bytes in chunks of 4: PSNs 0 1 2 and 3 4 5. */
struct world {
    struct tt_receiver receiver;
    struct tt_stream stream, other;
    _Atomic uint64_t bitmap[4], other_bitmap[4], heard[2];
    uint8_t memory[MARGIN + BUFFER + MARGIN], other_memory[MARGIN + BUFFER + MARGIN];
    uint8_t payload[256];
};

void make_stream(struct tt_stream *stream, uint64_t block_bytes, uint32_t chunk_bytes, uint32_t roots,
                 uint32_t first_source, uint8_t *buffer, _Atomic uint64_t *bitmap);

void set_up(struct world *world);

/* Looks at what came early. Returns how many were placed. */
uint32_t receive_early(struct world *world);

/* One chunk, whose bytes count up from the first. Returns how many were placed. */
uint32_t receive(struct world *world, uint32_t tag, uint32_t psn, uint32_t source, uint32_t length_bytes,
                 uint8_t first_byte);

/* placed, stale, range, source, length, duplicate, early */
void assert_counters(struct world *world, const uint64_t *expected);

void assert_untouched(const uint8_t *bytes, uint32_t count);
void assert_nothing_changed(struct world *world);

#endif
