/* SPDX-License-Identifier: BSD-3-Clause */
/* What is cast: a file or standard input, read by a thread of its own into segments, with its digest. */
#ifndef TT_CLI_CAST_SOURCE_H
#define TT_CLI_CAST_SOURCE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <xxhash.h>

#include "cli/cast_record.h"
#include "cli/cast_segments.h"

struct tt_cast_source {
    const char *path; /* for people */
    int fd;
    bool may_pause;      /* no regular file: it may have nothing for long */
    uint64_t size_bytes; /* or TT_CAST_UNKNOWN */
    uint32_t mode;       /* permission bits, or TT_CAST_MODE_UNKNOWN */

    /* The reading thread's; others look once it has been stopped. */
    struct tt_segments *segments;
    pthread_t thread;
    bool is_running;
    XXH3_state_t *digest;
    struct tt_cast_report report; /* failed: the file could not be read to its end */
};

/* What a path is called for people. */
const char *tt_cast_source_name(const char *path);

/* Opens the file; "-" is standard input. The path must stay. Errors: IO, INVALID_ARGUMENT (a directory), NO_MEMORY. */
tutti_status tt_cast_source_open(struct tt_cast_source *source, const char *path);

/* Starts to publish the file's segments. Errors: NO_RESOURCE. */
tutti_status tt_cast_source_start(struct tt_cast_source *source, struct tt_segments *segments);

/* Waits for the end of the thread, which a cancel brings about within a second, and completes the report. */
void tt_cast_source_stop(struct tt_cast_source *source);

/* Stops, and closes the file. Also for a struct of zeros. */
void tt_cast_source_close(struct tt_cast_source *source);

#endif
