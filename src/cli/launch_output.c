/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: the ranks' output with "[rank] " before every line, and what the launcher itself has to say.
 *
 * Normal path: each stream is a pipe; a line is passed on whole, in one write, once its end has come.
 *
 * Failures: a line that is longer than the buffer is passed on in pieces of one buffer each; the last line is completed
 * if its end never comes. While the reader of the launcher's output stands still no stream is read that goes there, so
 * that the ranks wait for it in turn, each with one buffer here at most. Output that cannot be written is lost: the
 * ranks, which are read all the same, go on, and in the end it is said, once for each of the launcher's own two.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/launch_private.h"

enum { PREFIX_BYTES = 16, TEXT_BYTES = 512 };

static uint32_t stream_count(const struct tt_launch *launch)
{
    return launch->streams != NULL ? TT_LAUNCH_TARGETS * launch->options->rank_count : 0;
}

static void close_stream(struct tt_launch_stream *stream)
{
    close(stream->fd);
    stream->fd = -1;
    stream->has_come = false;
}

/* Reads once from where something has come. */
static void take(struct tt_launch_stream *stream)
{
    size_t room = sizeof(stream->line) - stream->used_bytes;
    if (stream->left_bytes >= 0 && (size_t)stream->left_bytes < room) {
        room = (size_t)stream->left_bytes;
    }
    ssize_t received;
    do {
        received = read(stream->fd, stream->line + stream->used_bytes, room);
    } while (received < 0 && errno == EINTR);
    if (received <= 0) {
        close_stream(stream);
        return;
    }
    stream->used_bytes += (uint32_t)received;
    stream->has_come = false;
    if (stream->left_bytes >= 0) {
        stream->left_bytes -= (int)received;
        stream->has_come = stream->left_bytes > 0;
        if (stream->left_bytes == 0) {
            close_stream(stream);
        }
    }
}

/* Passes on the first `count` bytes of the buffer as a line, and removes them; a line break among them is the last. */
static void pass_on(struct tt_launch_output *output, struct tt_launch_stream *stream, uint32_t count)
{
    char line[PREFIX_BYTES + TT_LAUNCH_LINE_BYTES + 1];
    size_t used = (size_t)snprintf(line, sizeof(line), "[%u] ", stream->rank);
    memcpy(line + used, stream->line, count);
    used += count;
    if (line[used - 1] != '\n') {
        line[used++] = '\n';
    }
    tt_launch_output_put(output, stream->target, line, used);
    stream->used_bytes -= count;
    memmove(stream->line, stream->line + count, stream->used_bytes);
}

/* Passes on whole lines, and at the end of the stream what is left, while they can be written. */
static void pass_on_lines(struct tt_launch_output *output, struct tt_launch_stream *stream)
{
    stream->is_held = false;
    while (stream->used_bytes > 0) {
        const char *end = memchr(stream->line, '\n', stream->used_bytes);
        if (end == NULL && stream->used_bytes < sizeof(stream->line) && stream->fd >= 0) {
            return;
        }
        if (!tt_launch_output_is_clear(output, stream->target)) {
            stream->is_held = true;
            return;
        }
        pass_on(output, stream, end != NULL ? (uint32_t)(end - stream->line) + 1 : stream->used_bytes);
    }
}

/* Whether something could be read or passed on. All from which something had come have their turns before it is looked
 * again, so that a slow reader hears everybody. */
static bool tend_target(struct tt_launch *launch, int target)
{
    bool has_moved = false;
    for (uint32_t i = (uint32_t)target; i < stream_count(launch) && tt_launch_output_is_clear(&launch->output, target);
         i += TT_LAUNCH_TARGETS) {
        struct tt_launch_stream *stream = &launch->streams[i];
        if (!stream->is_held && !stream->has_come) {
            continue;
        }
        if (!stream->is_held) {
            take(stream);
        }
        pass_on_lines(&launch->output, stream);
        has_moved = true;
    }
    return has_moved;
}

void tt_launch_streams_tend(struct tt_launch *launch)
{
    bool has_moved;
    tt_launch_output_flush(&launch->output);
    do {
        has_moved = false;
        for (int i = 0; i < TT_LAUNCH_TARGETS; i++) {
            has_moved |= tend_target(launch, i);
        }
    } while (has_moved);
}

void tt_launch_streams_end(struct tt_launch *launch)
{
    for (uint32_t i = 0; i < stream_count(launch); i++) {
        struct tt_launch_stream *stream = &launch->streams[i];
        if (stream->fd < 0) {
            continue;
        }
        /* No more than this: a process that has got away from its rank's group may write for ever. */
        if (ioctl(stream->fd, FIONREAD, &stream->left_bytes) != 0 || stream->left_bytes <= 0) {
            close_stream(stream);
            stream->is_held = stream->used_bytes > 0;
        } else {
            stream->has_come = true;
        }
    }
}

/* Whether a stream has something that has not been passed on, after the end of the ranks. */
static bool has_rest(const struct tt_launch *launch, int target)
{
    for (uint32_t i = (uint32_t)target; i < stream_count(launch); i += TT_LAUNCH_TARGETS) {
        if (launch->streams[i].fd >= 0 || launch->streams[i].used_bytes > 0) {
            return true;
        }
    }
    return launch->output.sinks[target].used_bytes > 0;
}

bool tt_launch_streams_are_done(const struct tt_launch *launch)
{
    return !has_rest(launch, TT_LAUNCH_OUT) && !has_rest(launch, TT_LAUNCH_ERR);
}

void tt_launch_streams_give_up(struct tt_launch *launch)
{
    for (int i = 0; i < TT_LAUNCH_TARGETS; i++) {
        struct tt_launch_sink *sink = &launch->output.sinks[i];
        if (has_rest(launch, i) && sink->reason == 0) {
            sink->reason = TT_LAUNCH_UNREAD;
        }
        sink->used_bytes = 0;
    }
    for (uint32_t i = 0; i < stream_count(launch); i++) {
        struct tt_launch_stream *stream = &launch->streams[i];
        if (stream->fd >= 0) {
            close_stream(stream);
        }
        stream->used_bytes = 0;
        stream->is_held = false;
    }
}

void tt_launch_say(struct tt_launch *launch, const char *format, ...)
{
    char text[TEXT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (length > 0) {
        tt_launch_output_put(&launch->output, TT_LAUNCH_ERR, text,
                             (size_t)length < sizeof(text) ? (size_t)length : sizeof(text) - 1);
    }
}

bool tt_launch_streams_report(struct tt_launch *launch)
{
    static const char *const names[TT_LAUNCH_TARGETS] = {"standard output", "standard error"};
    bool all_written = true;
    for (int i = 0; launch->streams != NULL && i < TT_LAUNCH_TARGETS; i++) {
        int reason = launch->output.sinks[i].reason;
        if (reason != 0) {
            tt_launch_say(launch, "tutti run: %s: %s\n", names[i],
                          reason == TT_LAUNCH_UNREAD ? "the rest has not been read in time" : strerror(reason));
            all_written = false;
        }
    }
    return all_written;
}
