/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: the launcher's own standard output and standard error, at which it does not stand still when their readers
 * do.
 *
 * Normal path: what is put is written at once, in one write. The standard descriptors are others' as well, so nobody
 * may make them not block: a pipe or a terminal is opened once more, to be written to without, but for a terminal's
 * master.
 *
 * Failures: what the reader does not take yet waits here, and is written in order later; who puts more than a few lines
 * asks first whether something waits. Where a pipe or a terminal is not opened again, no more is written than a pipe
 * that has room takes. What cannot be written is lost, with the first reason kept.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/launch_private.h"

enum { PATH_BYTES = 32, FIRST_CAPACITY_BYTES = 8192 };

static void open_sink(struct tt_launch_sink *sink, int standard, const struct stat *file)
{
    int flags = fcntl(standard, F_GETFL);
    *sink = (struct tt_launch_sink){.fd = standard, .is_socket = S_ISSOCK(file->st_mode)};
    if (sink->is_socket || S_ISREG(file->st_mode) || flags < 0 ||
        (flags & O_ACCMODE) == O_RDONLY) { /* for which poll() would never say that there is room */
        return;
    }
    sink->may_block = true;
    unsigned number;
    bool is_master = ioctl(standard, TIOCGPTN, &number) == 0; /* to open one makes another terminal */
    if (S_ISFIFO(file->st_mode) || (isatty(standard) == 1 && !is_master)) {
        char path[PATH_BYTES];
        snprintf(path, sizeof(path), "/proc/self/fd/%d", standard);
        int own = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        if (own >= 0) {
            *sink = (struct tt_launch_sink){.fd = own, .is_own = true};
        }
    }
}

void tt_launch_output_open(struct tt_launch_output *output)
{
    static const int standard[TT_LAUNCH_TARGETS] = {STDOUT_FILENO, STDERR_FILENO};
    struct stat files[TT_LAUNCH_TARGETS];
    for (int i = 0; i < TT_LAUNCH_TARGETS; i++) {
        if (fstat(standard[i], &files[i]) != 0) {
            files[i] = (struct stat){.st_ino = 0};
        }
        open_sink(&output->sinks[i], standard[i], &files[i]);
    }
    output->is_one_file = files[0].st_dev == files[1].st_dev && files[0].st_ino == files[1].st_ino;
}

void tt_launch_output_close(struct tt_launch_output *output)
{
    for (int i = 0; i < TT_LAUNCH_TARGETS; i++) {
        struct tt_launch_sink *sink = &output->sinks[i];
        if (sink->is_own) {
            close(sink->fd);
        }
        free(sink->bytes);
        *sink = (struct tt_launch_sink){.fd = -1};
    }
}

bool tt_launch_output_is_clear(const struct tt_launch_output *output, int target)
{
    return output->sinks[target].used_bytes == 0 && (!output->is_one_file || output->sinks[1 - target].used_bytes == 0);
}

/* Writes what can be written without waiting: as write(), which fails with EAGAIN if nothing can. */
static ssize_t write_now(const struct tt_launch_sink *sink, const char *bytes, size_t count)
{
    struct pollfd room = {.fd = sink->fd, .events = POLLOUT};
    if (sink->is_socket) {
        return send(sink->fd, bytes, count, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    if (!sink->may_block) {
        return write(sink->fd, bytes, count);
    }
    if (poll(&room, 1, 0) == 0) {
        errno = EAGAIN;
        return -1;
    }
    return write(sink->fd, bytes, count < PIPE_BUF ? count : PIPE_BUF);
}

static void flush_sink(struct tt_launch_sink *sink)
{
    size_t sent = 0;
    while (sent < sink->used_bytes) {
        ssize_t written = write_now(sink, sink->bytes + sent, sink->used_bytes - sent);
        if (written >= 0) {
            sent += (size_t)written;
        } else if (errno == EAGAIN) {
            break;
        } else if (errno != EINTR) {
            sink->reason = sink->reason != 0 ? sink->reason : errno;
            sent = sink->used_bytes;
        }
    }
    sink->used_bytes -= sent;
    if (sent > 0 && sink->used_bytes > 0) {
        memmove(sink->bytes, sink->bytes + sent, sink->used_bytes);
    }
}

void tt_launch_output_flush(struct tt_launch_output *output)
{
    flush_sink(&output->sinks[TT_LAUNCH_OUT]);
    /* Of one file, the part of a line that waits is standard output's: standard error would have kept it from coming.
     */
    if (!output->is_one_file || output->sinks[TT_LAUNCH_OUT].used_bytes == 0) {
        flush_sink(&output->sinks[TT_LAUNCH_ERR]);
    }
}

static bool make_room(struct tt_launch_sink *sink, size_t count)
{
    size_t capacity = sink->capacity_bytes != 0 ? sink->capacity_bytes : FIRST_CAPACITY_BYTES;
    while (capacity - sink->used_bytes < count) {
        capacity *= 2;
    }
    if (capacity != sink->capacity_bytes) {
        char *bytes = realloc(sink->bytes, capacity);
        if (bytes == NULL) {
            return false;
        }
        sink->bytes = bytes;
        sink->capacity_bytes = capacity;
    }
    return true;
}

void tt_launch_output_put(struct tt_launch_output *output, int target, const char *bytes, size_t count)
{
    struct tt_launch_sink *sink = &output->sinks[target];
    if (!make_room(sink, count)) {
        sink->reason = sink->reason != 0 ? sink->reason : ENOMEM;
        return;
    }
    memcpy(sink->bytes + sink->used_bytes, bytes, count);
    sink->used_bytes += count;
    tt_launch_output_flush(output);
}
