/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A queue on a network of the scenario's own, which brings a few chunks, and a stream that they belong to. The queue
 * and its kernel are the real ones; the provider is here.
 */
#ifndef TT_TESTS_EXPLORE_CHUNK_WORLD_H
#define TT_TESTS_EXPLORE_CHUNK_WORLD_H

#include "engine/queue.h"

enum { WORLD_CHUNKS = 2, WORLD_CHUNK_BYTES = 2, WORLD_BYTES = WORLD_CHUNKS * WORLD_CHUNK_BYTES };

/* A stream, and what it points to. */
struct world_stream {
    struct tt_stream stream;
    _Atomic uint64_t bitmap[1];
    uint8_t buffer[WORLD_BYTES];
};

extern struct tt_queue world_queue;
extern struct tt_early_pool world_pool;
extern struct world_stream world_stream;
extern const uint8_t world_sent[WORLD_BYTES];
extern uint32_t world_tag;             /* that the chunks carry */
extern _Atomic uint32_t world_brought; /* chunks, by the network */
extern uint32_t world_polled;          /* the feeder's: of these */
extern uint32_t world_posted;          /* the sender's */

/* A new queue, with a descriptor if that is not 0. No chunk has been brought. */
void world_begin_chunks(bool eager, int fd);

/* Empty. */
void world_init_stream(struct world_stream *made);

#endif
