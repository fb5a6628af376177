/* SPDX-License-Identifier: BSD-3-Clause */
/* Where a cast ends up: segments are written by a thread of its own, with the digest of what was written. */
#ifndef TT_CLI_CATCH_SINK_H
#define TT_CLI_CATCH_SINK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <xxhash.h>

#include "cli/cast_record.h"
#include "cli/cast_segments.h"

struct tt_catch_sink {
    struct tt_segments *segments;
    int fd; /* the caller's; -1: nothing is kept */
    bool starts_writeback;
    pthread_t thread;
    bool is_running;
    XXH3_state_t *digest;
    struct tt_cast_report report; /* failed: something could not be written; the writing thread's until the stop */
};

/* Starts to write the segments to `fd`. With `sync` the disk begins at once, so that little is left for the fsync.
 * Errors: NO_MEMORY, NO_RESOURCE. */
tutti_status tt_catch_sink_start(struct tt_catch_sink *sink, struct tt_segments *segments, int fd, bool sync);

/* Waits until all segments are written, or canceled, and completes the report. Also for one that was not started. */
void tt_catch_sink_stop(struct tt_catch_sink *sink);

/* Cancels the segments and stops, also in the middle of a write that goes on for ever (to a pipe that nobody reads). */
void tt_catch_sink_abort(struct tt_catch_sink *sink);

#endif
