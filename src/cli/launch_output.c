/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: the ranks' output with "[rank] " before every line.
 *
 * Normal path: each stream is a pipe; a line is passed on whole, in one write, once its end has come.
 *
 * Failures: a line that is longer than the buffer is passed on in pieces of one buffer each; the last line is completed
 * if its end never comes. Output that cannot be written is lost, as it would be without the launcher.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/launch_private.h"

enum { PREFIX_BYTES = 16 };

static void write_all(int fd, const char *bytes, size_t count)
{
    while (count > 0) {
        ssize_t written = write(fd, bytes, count);
        if (written < 0 && errno != EINTR) {
            return;
        }
        if (written > 0) {
            bytes += written;
            count -= (size_t)written;
        }
    }
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
    write_all(stream->target, line, used);
    stream->used_bytes -= count;
    memmove(stream->line, stream->line + count, stream->used_bytes);
}

bool tt_launch_stream_forward(struct tt_launch_stream *stream)
{
    ssize_t received;
    do {
        received = read(stream->fd, stream->line + stream->used_bytes, sizeof(stream->line) - stream->used_bytes);
    } while (received < 0 && errno == EINTR);
    if (received <= 0) {
        return received < 0 && errno == EAGAIN;
    }
    stream->used_bytes += (uint32_t)received;
    const char *end;
    while ((end = memchr(stream->line, '\n', stream->used_bytes)) != NULL) {
        pass_on(stream, (uint32_t)(end - stream->line) + 1);
    }
    if (stream->used_bytes == sizeof(stream->line)) {
        pass_on(stream, stream->used_bytes);
    }
    return true;
}

void tt_launch_stream_finish(struct tt_launch_stream *stream)
{
    if (stream->fd < 0) {
        return;
    }
    /* Nobody writes any more, so this ends: at the end of the stream, or where the pipe is empty. */
    struct pollfd waiting = {.fd = stream->fd, .events = POLLIN};
    while (poll(&waiting, 1, 0) > 0 && tt_launch_stream_forward(stream)) {
    }
    if (stream->used_bytes > 0) {
        pass_on(stream, stream->used_bytes);
    }
    close(stream->fd);
    stream->fd = -1;
}
