/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: the ranks' output with "[rank] " before every line.
 *
 * Normal path: each stream is a pipe; a line is passed on whole, in one write, once its end has come.
 *
 * Failures: a line that is longer than the buffer is passed on in pieces of one buffer each; the last line is completed
 * if its end never comes. Output that cannot be written is lost: the ranks, which are read all the same, go on, and in
 * the end it is said, once for each of the launcher's own two streams.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/launch_private.h"

enum { PREFIX_BYTES = 16 };

/* 0, or why not. */
static int write_all(int fd, const char *bytes, size_t count)
{
    while (count > 0) {
        ssize_t written = write(fd, bytes, count);
        if (written < 0 && errno == EAGAIN) { /* whoever shares it has made it so: as if it blocked */
            struct pollfd waiting = {.fd = fd, .events = POLLOUT};
            (void)poll(&waiting, 1, -1);
        } else if (written < 0 && errno != EINTR) {
            return errno;
        } else if (written > 0) {
            bytes += written;
            count -= (size_t)written;
        }
    }
    return 0;
}

/* Writes the first `count` bytes of the buffer as a line, and removes them; a line break among them is the last. */
static void pass_on(struct tt_launch_stream *stream, uint32_t count)
{
    char line[PREFIX_BYTES + TT_LAUNCH_LINE_BYTES + 1];
    size_t used = (size_t)snprintf(line, sizeof(line), "[%u] ", stream->rank);
    memcpy(line + used, stream->line, count);
    used += count;
    if (line[used - 1] != '\n') {
        line[used++] = '\n';
    }
    int reason = write_all(stream->target, line, used);
    stream->reason = stream->reason != 0 ? stream->reason : reason;
    stream->used_bytes -= count;
    memmove(stream->line, stream->line + count, stream->used_bytes);
}

/* Reads once, and passes on whole lines. How much it read; 0 at the end of the stream, -1 for an error. */
static ssize_t forward(struct tt_launch_stream *stream)
{
    ssize_t received;
    do {
        received = read(stream->fd, stream->line + stream->used_bytes, sizeof(stream->line) - stream->used_bytes);
    } while (received < 0 && errno == EINTR);
    if (received <= 0) {
        return received;
    }
    stream->used_bytes += (uint32_t)received;
    const char *end;
    while ((end = memchr(stream->line, '\n', stream->used_bytes)) != NULL) {
        pass_on(stream, (uint32_t)(end - stream->line) + 1);
    }
    if (stream->used_bytes == sizeof(stream->line)) {
        pass_on(stream, stream->used_bytes);
    }
    return received;
}

bool tt_launch_stream_forward(struct tt_launch_stream *stream)
{
    ssize_t received = forward(stream);
    return received > 0 || (received < 0 && errno == EAGAIN);
}

void tt_launch_stream_finish(struct tt_launch_stream *stream)
{
    if (stream->fd < 0) {
        return;
    }
    /* What has come by now: a process that has got away from its rank's group may write for ever. */
    int unread_bytes = 0;
    ssize_t received = 1;
    (void)ioctl(stream->fd, FIONREAD, &unread_bytes);
    for (ssize_t left = unread_bytes; left > 0 && received > 0; left -= received) {
        received = forward(stream);
    }
    if (stream->used_bytes > 0) {
        pass_on(stream, stream->used_bytes);
    }
    close(stream->fd);
    stream->fd = -1;
}

bool tt_launch_streams_report(const struct tt_launch_stream *streams, uint32_t count)
{
    static const struct {
        int target;
        const char *name;
    } targets[] = {{STDOUT_FILENO, "standard output"}, {STDERR_FILENO, "standard error"}};
    bool all_written = true;
    for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
        int reason = 0;
        for (uint32_t j = 0; j < count && reason == 0; j++) {
            reason = streams[j].target == targets[i].target ? streams[j].reason : 0;
        }
        if (reason != 0) {
            dprintf(STDERR_FILENO, "tutti run: %s: %s\n", targets[i].name, strerror(reason));
            all_written = false;
        }
    }
    return all_written;
}
