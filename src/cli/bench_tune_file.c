/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: the table of algorithms under the name that the user gave.
 *
 * Normal path: a symbolic link is followed, so that the file it leads to is replaced, and not the link; the rest is
 * what `tutti catch --force` does.
 *
 * Failures: what is neither a regular file nor nothing is refused, since a rename would replace a device or a FIFO,
 * too; so is a dangling link. Until the end, and on any failure, what is there stays as it is.
 */
#include "cli/bench_tune_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"

enum { MODE_BITS = 07777 };

static tutti_status refuse(const char *path, const char *reason)
{
    return tt_error(TT_PART_CLI, TUTTI_ERR_IO, "%s: %s", path, reason);
}

static const char *kind_of(mode_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFDIR:
        return "a directory";
    case S_IFIFO:
        return "a FIFO";
    case S_IFCHR:
        return "a character device";
    case S_IFBLK:
        return "a block device";
    case S_IFSOCK:
        return "a socket";
    default:
        return "something else";
    }
}

/* Finds what is to be replaced: `path`, or what it leads to; and its mode. */
static tutti_status find_target(const char *path, char target[PATH_MAX], uint32_t *mode)
{
    struct stat there;

    *mode = TT_CAST_MODE_UNKNOWN;
    /* A file of this name, and not standard output. */
    if (snprintf(target, PATH_MAX, "%s%s", strcmp(path, "-") == 0 ? "./" : "", path) >= PATH_MAX) {
        return refuse(path, strerror(ENAMETOOLONG));
    }
    if (lstat(path, &there) != 0) {
        return errno == ENOENT ? TUTTI_OK : refuse(path, strerror(errno));
    }
    if (S_ISLNK(there.st_mode) && (realpath(path, target) == NULL || lstat(target, &there) != 0)) {
        return refuse(path, errno == ENOENT ? "a dangling symbolic link" : strerror(errno));
    }
    if (!S_ISREG(there.st_mode)) {
        return tt_error(TT_PART_CLI, TUTTI_ERR_IO, "%s: %s, not a regular file", target, kind_of(there.st_mode));
    }
    *mode = there.st_mode & MODE_BITS;
    return TUTTI_OK;
}

/* Another descriptor of the same file, so that the stream can be closed before the file has its name. */
static FILE *open_stream(int fd)
{
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    FILE *stream = copy >= 0 ? fdopen(copy, "w") : NULL;

    if (copy >= 0 && stream == NULL) {
        close(copy);
    }
    return stream;
}

tutti_status tt_tune_file_open(struct tt_tune_file *file, const char *path)
{
    char target[PATH_MAX];
    tutti_status status = find_target(path, target, &file->mode);

    file->stream = NULL;
    if (status == TUTTI_OK) {
        status = tt_catch_file_open(&file->file, target, "", true);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    file->stream = open_stream(file->file.fd);
    if (file->stream == NULL) {
        status = refuse(target, strerror(errno));
        tt_catch_file_abandon(&file->file);
    }
    return status;
}

tutti_status tt_tune_file_commit(struct tt_tune_file *file)
{
    int reason = fflush(file->stream) != 0 || ferror(file->stream) ? errno : 0;

    if (fclose(file->stream) != 0 && reason == 0) {
        reason = errno;
    }
    file->stream = NULL;
    if (reason != 0) {
        tutti_status status = refuse(file->file.path, strerror(reason));
        tt_catch_file_abandon(&file->file);
        return status;
    }
    return tt_catch_file_commit(&file->file, file->mode, true);
}

void tt_tune_file_abandon(struct tt_tune_file *file)
{
    fclose(file->stream);
    file->stream = NULL;
    tt_catch_file_abandon(&file->file);
}
