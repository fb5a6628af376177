/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: writes what has been received, behind the network.
 *
 * Normal path: one thread writes segment after segment, adds each to the digest, and gives it back.
 *
 * Failures: after an error of writing the segments are given back unwritten, so that the other receivers get theirs;
 * the error is in the report. Only a write may be interrupted by the end of the thread: it alone may block for ever.
 */
#include "cli/catch_sink.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

/* 0: nothing yet. Standard output may not block, because of somebody else who has it too. */
static ssize_t write_some(int fd, const uint8_t *data, uint64_t bytes)
{
    struct pollfd waiting = {.fd = fd, .events = POLLOUT};
    int state;
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state);
    ssize_t written = write(fd, data, bytes);
    if (written < 0 && errno == EAGAIN) {
        written = poll(&waiting, 1, -1) >= 0 ? 0 : -1;
    }
    int reason = errno;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    errno = reason;
    return written;
}

/* Writes a segment, and counts what is written. False: errno says why not all. */
static bool write_segment(struct tt_catch_sink *sink, const struct tt_segment *segment)
{
    const uint8_t *data = tt_segment_data(segment);
    uint64_t done = 0;
    while (done < segment->bytes) {
        ssize_t written = write_some(sink->fd, data + done, segment->bytes - done);
        if (written < 0 && errno != EINTR) {
            return false;
        }
        done += written > 0 ? (uint64_t)written : 0;
    }
    XXH3_128bits_update(sink->digest, data, segment->bytes);
    if (sink->starts_writeback && segment->bytes > 0) {
        sync_file_range(sink->fd, (off_t)sink->report.bytes, (off_t)segment->bytes, SYNC_FILE_RANGE_WRITE);
    }
    sink->report.bytes += segment->bytes;
    return true;
}

static void *write_all(void *argument)
{
    struct tt_catch_sink *sink = argument;
    struct tt_segment *segment;
    int state;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    while ((segment = tt_segments_take(sink->segments)) != NULL) {
        if (sink->fd >= 0 && !sink->report.failed && !write_segment(sink, segment)) {
            sink->report.failed = true;
            snprintf(sink->report.text, sizeof(sink->report.text), "%s", strerror(errno));
        }
        tt_segments_release(sink->segments);
    }
    return NULL;
}

tutti_status tt_catch_sink_start(struct tt_catch_sink *sink, struct tt_segments *segments, int fd, bool sync)
{
    *sink = (struct tt_catch_sink){.segments = segments, .fd = fd, .starts_writeback = sync};
    sink->digest = XXH3_createState();
    if (sink->digest == NULL) {
        return tt_error(TT_PART_CLI, TUTTI_ERR_NO_MEMORY, "no memory for a digest");
    }
    XXH3_128bits_reset(sink->digest);
    int error = pthread_create(&sink->thread, NULL, write_all, sink);
    if (error != 0) {
        XXH3_freeState(sink->digest);
        sink->digest = NULL;
        return tt_error(TT_PART_CLI, TUTTI_ERR_NO_RESOURCE, "no thread to write with: %s", strerror(error));
    }
    sink->is_running = true;
    return TUTTI_OK;
}

void tt_catch_sink_stop(struct tt_catch_sink *sink)
{
    XXH128_canonical_t digest;
    if (!sink->is_running) {
        return;
    }
    pthread_join(sink->thread, NULL);
    sink->is_running = false;
    XXH128_canonicalFromHash(&digest, XXH3_128bits_digest(sink->digest));
    memcpy(sink->report.digest, digest.digest, sizeof(sink->report.digest));
    XXH3_freeState(sink->digest);
    sink->digest = NULL;
}

void tt_catch_sink_abort(struct tt_catch_sink *sink)
{
    tt_segments_cancel(sink->segments);
    if (sink->is_running) {
        pthread_cancel(sink->thread);
    }
    tt_catch_sink_stop(sink);
}
