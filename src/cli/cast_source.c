/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: reads what is cast, ahead of the network.
 *
 * Normal path: one thread fills segment after segment and adds each to the digest. All but the last one are full,
 * unless the source pauses (a pipe), or is slow: after a moment of silence, and a little later in any case, what there
 * is goes out, even if that is nothing, so that the receivers see that the sender lives. The first segments of a long
 * file are short, so that they are read soon, and the last ones become ever shorter, so that the receivers have little
 * left to write once its last byte has come.
 *
 * Failures: an error of reading ends the data where it is, and is in the report, which every receiver gets to see. So
 * does the end of a file that has become shorter meanwhile: what was read is neither what it was nor what it is. One
 * that grows is read to its new end.
 */
#include "cli/cast_source.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

enum { PAUSE_MS = 250, PERMISSION_BITS = 0777 };

/* Of which the sizes are offered, and two more: until the job has come together, its start needs the processors. So
 * those of a long file are short. */
enum { FIRST_SEGMENTS = TT_CAST_AHEAD + 2, FIRST_BYTES = 1 << 20 };

/* What is a long file, in segments, and what the last segment of one has at most. */
enum { LONG_SEGMENTS = 16, LAST_BYTES = 512 << 10 };

/* How long a segment of a source that may pause takes at most. */
#define FILL_NS (1000 * TT_NS_PER_MS)

static tutti_status refuse(struct tt_cast_source *source, int reason)
{
    tutti_status status = tt_error(TT_PART_CLI, TUTTI_ERR_IO, "%s: %s", source->path, strerror(reason));
    tt_cast_source_close(source);
    return status;
}

const char *tt_cast_source_name(const char *path)
{
    return strcmp(path, "-") == 0 ? "standard input" : path;
}

tutti_status tt_cast_source_open(struct tt_cast_source *source, const char *path)
{
    struct stat description;
    bool is_input = strcmp(path, "-") == 0;
    *source = (struct tt_cast_source){
        .path = tt_cast_source_name(path), .size_bytes = TT_CAST_UNKNOWN, .mode = TT_CAST_MODE_UNKNOWN};
    /* A FIFO that nobody writes to yet has nothing to read, which is a pause; opening it does not wait. */
    source->fd = is_input ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (source->fd < 0) {
        return refuse(source, errno);
    }
    if (fstat(source->fd, &description) != 0) {
        return refuse(source, errno);
    }
    if (S_ISDIR(description.st_mode)) {
        return refuse(source, EISDIR);
    }
    source->may_pause = !S_ISREG(description.st_mode);
    if (!is_input && !source->may_pause) {
        source->size_bytes = (uint64_t)description.st_size;
        source->mode = description.st_mode & PERMISSION_BITS;
    }
    source->digest = XXH3_createState();
    if (source->digest == NULL) {
        return refuse(source, ENOMEM);
    }
    XXH3_128bits_reset(source->digest);
    return TUTTI_OK;
}

/* Whether there is something to read, or the end, before the pause or the whole becomes too long. */
static bool has_more(const struct tt_cast_source *source, uint64_t begun_ns)
{
    struct pollfd waiting = {.fd = source->fd, .events = POLLIN};
    return !source->may_pause || (tt_clock_now_ns() - begun_ns < FILL_NS && poll(&waiting, 1, PAUSE_MS) != 0);
}

/* How much the next segment takes. */
static uint64_t next_bytes(const struct tt_cast_source *source)
{
    uint64_t whole = source->segments->segment_bytes, left = source->size_bytes - source->report.bytes;
    bool is_long = source->size_bytes != TT_CAST_UNKNOWN && source->size_bytes / LONG_SEGMENTS >= whole;
    if (!is_long || source->report.bytes >= source->size_bytes) {
        return whole;
    }
    if (source->report.bytes < (uint64_t)FIRST_SEGMENTS * FIRST_BYTES) {
        return whole < FIRST_BYTES ? whole : FIRST_BYTES;
    }
    if (left > whole || left <= LAST_BYTES) {
        return whole;
    }
    return left - left / 2;
}

/* Fills a segment as far as it goes; false once there is nothing after it. */
static bool fill(struct tt_cast_source *source, struct tt_segment *segment)
{
    uint64_t wanted = next_bytes(source), begun_ns = source->may_pause ? tt_clock_now_ns() : 0;
    segment->bytes = 0;
    while (segment->bytes < wanted && has_more(source, begun_ns)) {
        ssize_t got = read(source->fd, tt_segment_data(segment) + segment->bytes, wanted - segment->bytes);
        if (got > 0) {
            segment->bytes += (uint64_t)got;
        } else if (got == 0) {
            return false;
        } else if (errno != EINTR && errno != EAGAIN) {
            source->report.failed = true;
            snprintf(source->report.text, sizeof(source->report.text), "%.100s: %s", source->path, strerror(errno));
            return false;
        }
    }
    return true;
}

/* At the end of a file. */
static void check_length(struct tt_cast_source *source)
{
    struct stat now;
    if (source->size_bytes == TT_CAST_UNKNOWN || source->report.failed || source->report.bytes >= source->size_bytes) {
        return;
    }
    /* Files of the kernel's own may have less than they say from the beginning. */
    if (fstat(source->fd, &now) == 0 && (uint64_t)now.st_size < source->size_bytes) {
        source->report.failed = true;
        snprintf(source->report.text, sizeof(source->report.text),
                 "%.100s: it has become shorter while it was read: %" PRIu64 " of %" PRIu64 " bytes", source->path,
                 source->report.bytes, source->size_bytes);
    }
}

static void *read_all(void *argument)
{
    struct tt_cast_source *source = argument;
    struct tt_segment *segment;
    bool goes_on = true;
    while (goes_on && (segment = tt_segments_acquire(source->segments, TT_NEVER)) != NULL) {
        goes_on = fill(source, segment);
        XXH3_128bits_update(source->digest, tt_segment_data(segment), segment->bytes);
        source->report.bytes += segment->bytes;
        if (goes_on || segment->bytes > 0) {
            tt_segments_publish(source->segments);
        }
        if (!goes_on) {
            check_length(source);
        }
    }
    tt_segments_end(source->segments);
    return NULL;
}

tutti_status tt_cast_source_start(struct tt_cast_source *source, struct tt_segments *segments)
{
    source->segments = segments;
    tt_segments_limit_first(segments, FIRST_SEGMENTS);
    int error = pthread_create(&source->thread, NULL, read_all, source);
    if (error != 0) {
        return tt_error(TT_PART_CLI, TUTTI_ERR_NO_RESOURCE, "no thread to read %s: %s", source->path, strerror(error));
    }
    source->is_running = true;
    return TUTTI_OK;
}

void tt_cast_source_stop(struct tt_cast_source *source)
{
    XXH128_canonical_t digest;
    if (!source->is_running) {
        return;
    }
    pthread_join(source->thread, NULL);
    source->is_running = false;
    XXH128_canonicalFromHash(&digest, XXH3_128bits_digest(source->digest));
    memcpy(source->report.digest, digest.digest, sizeof(source->report.digest));
}

void tt_cast_source_close(struct tt_cast_source *source)
{
    tt_cast_source_stop(source);
    if (source->path != NULL && source->fd >= 0) {
        close(source->fd);
    }
    XXH3_freeState(source->digest);
    *source = (struct tt_cast_source){.path = NULL};
}
