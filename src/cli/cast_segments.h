/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Segments of a file between two threads: one that reads or writes the file, and one that has the network. A ring of
 * few buffers, so that memory stays the same however large the file is.
 *
 *     producer: acquire, fill, publish            consumer: take, use, release
 *
 * Each may hold several segments at once, and gives them on in the order in which it got them. Who waits for the
 * network needs no deadline here, since the network has its own, and a source that has nothing publishes empty
 * segments. A file, or whoever reads standard output, may take nothing for ever: who waits for that says how long.
 */
#ifndef TT_CLI_CAST_SEGMENTS_H
#define TT_CLI_CAST_SEGMENTS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "tutti/status.h"

/* As many in progress, and behind them whose sizes are announced, as TT_CAST_AHEAD says, and two for the file. */
enum { TT_SEGMENT_COUNT = 14, TT_SEGMENT_HEAD_BYTES = 64 };

struct tt_segment {
    uint8_t *memory; /* TT_SEGMENT_HEAD_BYTES for the transport, then the data */
    uint64_t bytes;  /* of data; set by the producer before it publishes */
};

struct tt_segments {
    uint64_t segment_bytes; /* of data, at most */
    struct tt_segment segments[TT_SEGMENT_COUNT];

    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t changed;
    uint64_t acquired, published, taken, released; /* each at most the one before it */
    uint64_t first;                                /* as many may be acquired before one was taken */
    bool enough, ended, canceled;
    uint64_t given_back; /* of those that were free when there was enough, the memory of the ones before this number */
};

/* Allocates the segments; fini frees them, when both threads are done with them. Errors: NO_MEMORY. */
tutti_status tt_segments_init(struct tt_segments *segments, uint64_t segment_bytes);
void tt_segments_fini(struct tt_segments *segments);

/* Fewer may be acquired as long as none was taken. Before the producer begins. */
void tt_segments_limit_first(struct tt_segments *segments, uint64_t count);

static inline uint8_t *tt_segment_data(const struct tt_segment *segment)
{
    return segment->memory + TT_SEGMENT_HEAD_BYTES;
}

/* Which of TT_SEGMENT_COUNT it is; the same ones come again and again, in the same order. */
uint32_t tt_segment_index(const struct tt_segments *segments, const struct tt_segment *segment);

/* The next free segment. NULL: canceled, or none has become free for `wait_ns` (TT_NEVER: no limit). */
struct tt_segment *tt_segments_acquire(struct tt_segments *segments, uint64_t wait_ns);

/* Gives the consumer the segment that was acquired first. */
void tt_segments_publish(struct tt_segments *segments);

/*
 * Nothing is acquired after this: every release gives the system back the pages of its segment and of two that were
 * free before. It takes as long as it does, and at the end of a transfer all hosts would wait for it.
 */
void tt_segments_enough(struct tt_segments *segments);

/* Nothing is published after this, and there is enough. */
void tt_segments_end(struct tt_segments *segments);

/* Waits for the next segment. NULL: that was all, or canceled. */
struct tt_segment *tt_segments_take(struct tt_segments *segments);

/* What is known of the segment that will be taken after `distance` others; NOT_YET only unless it `waits`. */
enum tt_segment_sight { TT_SEGMENT_THERE, TT_SEGMENT_NONE, TT_SEGMENT_NOT_YET };
enum tt_segment_sight tt_segments_peek(struct tt_segments *segments, uint32_t distance, bool waits, uint64_t *bytes);

/* Gives back the segment that was taken first. */
void tt_segments_release(struct tt_segments *segments);

/* Waits until all that were published have been released, for `wait_ns` at most; returns how many have not been. */
uint64_t tt_segments_wait_released(struct tt_segments *segments, uint64_t wait_ns);

/* Ends all waiting, of both threads. */
void tt_segments_cancel(struct tt_segments *segments);
bool tt_segments_canceled(struct tt_segments *segments);

#endif
