/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: a received file appears under its name in one step, or never.
 *
 * Normal path: O_TMPFILE, so that there is nothing to clean up whatever happens; linkat gives it its name. An old file
 * is replaced by a rename, which needs a temporary name for a moment, as does a file system without O_TMPFILE from the
 * beginning. A file system that can neither rename without replacing nor link has an empty file of the name for a
 * moment.
 *
 * Failures: an existing file is refused at the start, and again by the system at the end, where another process may
 * have been faster. While there is a temporary name, a handler of the signals that end a process removes it; while
 * there is that empty file, they wait. Until the end nobody else may read what is there: who may is the sender's to
 * say, and it has said nothing of a part.
 */
#include "cli/catch_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"

enum { UNFINISHED_MODE = 0600, NEW_FILE_MODE = 0666, TRIES = 100, LINK_BYTES = 64 };

/* --- Signals ------------------------------------------------------------------------------------------------------ */

/* What the handler removes. The directory is set last and reset first. */
static char doomed_name[sizeof(((struct tt_catch_file *)NULL)->temporary)];
static volatile sig_atomic_t doomed_directory = -1;

static const int ending_signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGXCPU};

enum { ENDING_SIGNAL_COUNT = sizeof(ending_signals) / sizeof(ending_signals[0]) };

static void remove_and_end(int number)
{
    if (doomed_directory >= 0) {
        unlinkat(doomed_directory, doomed_name, 0);
    }
    raise(number); /* the handler is gone: this ends the process as it would have without it */
}

static void doom(const struct tt_catch_file *file)
{
    struct sigaction action = {.sa_handler = remove_and_end, .sa_flags = SA_RESETHAND}, old;
    memcpy(doomed_name, file->temporary, sizeof(doomed_name));
    doomed_directory = file->directory;
    for (int i = 0; i < ENDING_SIGNAL_COUNT; i++) {
        /* What is ignored (nohup) stays so. */
        if (sigaction(ending_signals[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN) {
            sigaction(ending_signals[i], &action, NULL);
        }
    }
}

static void pardon(void)
{
    doomed_directory = -1;
}

/* --- Opening ------------------------------------------------------------------------------------------------------ */

static tutti_status refuse(struct tt_catch_file *file, const char *path, const char *reason)
{
    tutti_status status = tt_error(TT_PART_CLI, TUTTI_ERR_IO, "%s: %s", path, reason);
    tt_catch_file_abandon(file);
    return status;
}

/* A name from another host: only the last part of it, and none that means a directory. */
static bool take_name(const char *path, char name[NAME_MAX + 1])
{
    const char *slash = strrchr(path, '/');
    const char *last = slash != NULL ? slash + 1 : path;
    if (last[0] == '\0' || strcmp(last, ".") == 0 || strcmp(last, "..") == 0 || strlen(last) > NAME_MAX) {
        return false;
    }
    memcpy(name, last, strlen(last) + 1);
    return true;
}

/* What `path` is called once it is known to be the directory of `name`. */
static bool take_path_in(const char *path, struct tt_catch_file *file)
{
    size_t length = strlen(path);
    const char *slash = length > 0 && path[length - 1] == '/' ? "" : "/";
    int needed = snprintf(file->path, sizeof(file->path), "%s%s%s", path, slash, file->name);
    return needed >= 0 && (size_t)needed < sizeof(file->path);
}

/* Opens the directory and finds the name. */
static tutti_status find_place(struct tt_catch_file *file, const char *path, const char *sender_name)
{
    char parent[PATH_MAX];
    if (strlen(path) >= sizeof(parent)) {
        return refuse(file, path, strerror(ENAMETOOLONG));
    }
    memcpy(file->path, path, strlen(path) + 1);
    file->directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (file->directory >= 0) {
        if (sender_name[0] == '\0') {
            return refuse(file, path, "a directory, but what is sent has no name: say which file");
        }
        if (!take_name(sender_name, file->name)) {
            return refuse(file, path, "the sender's name for it is no file name");
        }
        return take_path_in(path, file) ? TUTTI_OK : refuse(file, path, strerror(ENAMETOOLONG));
    }
    if (errno != ENOTDIR && errno != ENOENT) {
        return refuse(file, path, strerror(errno));
    }
    if (!take_name(path, file->name)) {
        return refuse(file, path, "no file name, and no directory");
    }
    size_t parent_length = strlen(path) - strlen(file->name);
    memcpy(parent, path, parent_length);
    parent[parent_length] = '\0';
    file->directory = open(parent[0] != '\0' ? parent : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return file->directory >= 0 ? TUTTI_OK : refuse(file, path, strerror(errno));
}

/* The link in /proc through which a file without a name can be given one. */
static const char *link_of(int fd, char text[LINK_BYTES])
{
    snprintf(text, LINK_BYTES, "/proc/self/fd/%d", fd);
    return text;
}

/* A name that nobody has, made by `make`, which says -1 with EEXIST if somebody has it. Its result; -1 with errno. */
static int make_temporary(struct tt_catch_file *file, int (*make)(const struct tt_catch_file *file, const char *name))
{
    char name[sizeof(file->temporary)];
    int result = -1;
    for (int i = 0; i < TRIES && result < 0; i++) {
        uint64_t number = 0;
        if (getrandom(&number, sizeof(number), 0) != (ssize_t)sizeof(number)) {
            return -1;
        }
        snprintf(name, sizeof(name), ".tutti.%016" PRIx64, number);
        memcpy(file->temporary, name, sizeof(name));
        doom(file); /* before it exists: what does not exist is not removed */
        result = make(file, name);
        if (result < 0) {
            int reason = errno;
            pardon();
            file->temporary[0] = '\0';
            errno = reason;
            if (reason != EEXIST) {
                return -1;
            }
        }
    }
    return result;
}

static int create(const struct tt_catch_file *file, const char *name)
{
    return openat(file->directory, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, UNFINISHED_MODE);
}

static int link_to(const struct tt_catch_file *file, const char *name)
{
    char text[LINK_BYTES];
    return linkat(AT_FDCWD, link_of(file->fd, text), file->directory, name, AT_SYMLINK_FOLLOW);
}

static int open_unnamed(const struct tt_catch_file *file)
{
    char text[LINK_BYTES];
    int fd = openat(file->directory, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, UNFINISHED_MODE);
    if (fd >= 0 && access(link_of(fd, text), F_OK) != 0) {
        close(fd); /* without /proc it could not be given a name */
        fd = -1;
    }
    return fd;
}

tutti_status tt_catch_file_open(struct tt_catch_file *file, const char *path, const char *sender_name, bool force)
{
    struct stat there;
    *file = (struct tt_catch_file){.fd = -1, .directory = -1, .force = force};
    if (strcmp(path, "-") == 0) {
        snprintf(file->path, sizeof(file->path), "standard output");
        file->fd = dup(STDOUT_FILENO);
        return file->fd >= 0 ? TUTTI_OK : refuse(file, file->path, strerror(errno));
    }
    tutti_status status = find_place(file, path, sender_name);
    if (status != TUTTI_OK) {
        return status;
    }
    if (fstatat(file->directory, file->name, &there, 0) == 0) {
        if (!S_ISREG(there.st_mode)) {
            return refuse(file, file->path, "there already, and no regular file");
        }
    }
    /* A link that leads nowhere has the name, too. */
    if (!force && fstatat(file->directory, file->name, &there, AT_SYMLINK_NOFOLLOW) == 0) {
        return refuse(file, file->path, "there already (--force replaces it)");
    }
    file->fd = open_unnamed(file);
    if (file->fd < 0) {
        file->fd = make_temporary(file, create);
    }
    return file->fd >= 0 ? TUTTI_OK : refuse(file, file->path, strerror(errno));
}

/* --- The end ------------------------------------------------------------------------------------------------------ */

/* Where there are no links either: takes the name, and replaces what has it now. No signal may come in between. */
static int rename_to_taken(const struct tt_catch_file *file)
{
    sigset_t ending, before;
    sigemptyset(&ending);
    for (int i = 0; i < ENDING_SIGNAL_COUNT; i++) {
        sigaddset(&ending, ending_signals[i]);
    }
    pthread_sigmask(SIG_BLOCK, &ending, &before);
    int result = -1, fd = create(file, file->name);
    if (fd >= 0) {
        close(fd);
        result = renameat(file->directory, file->temporary, file->directory, file->name);
    }
    int reason = errno;
    if (fd >= 0 && result != 0) {
        unlinkat(file->directory, file->name, 0);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = reason;
    return result;
}

/* Renames without replacing; where the file system cannot do that in one step, by a second link. */
static int rename_to_new(struct tt_catch_file *file)
{
    if (renameat2(file->directory, file->temporary, file->directory, file->name, RENAME_NOREPLACE) == 0) {
        return 0;
    }
    if (errno != EINVAL && errno != ENOSYS) {
        return -1;
    }
    if (linkat(file->directory, file->temporary, file->directory, file->name, 0) == 0) {
        return unlinkat(file->directory, file->temporary, 0);
    }
    return errno == EPERM || errno == ENOSYS || errno == EOPNOTSUPP ? rename_to_taken(file) : -1;
}

static int give_name(struct tt_catch_file *file)
{
    if (file->temporary[0] == '\0' && !file->force) {
        return link_to(file, file->name);
    }
    if (file->temporary[0] == '\0' && make_temporary(file, link_to) < 0) {
        return -1;
    }
    int result =
        file->force ? renameat(file->directory, file->temporary, file->directory, file->name) : rename_to_new(file);
    if (result == 0) {
        pardon();
        file->temporary[0] = '\0';
    }
    return result;
}

static int set_mode(const struct tt_catch_file *file, uint32_t mode)
{
    if (mode == TT_CAST_MODE_UNKNOWN) {
        mode_t mask = umask(0); /* it cannot be asked for otherwise */
        umask(mask);
        mode = NEW_FILE_MODE & ~mask;
    }
    return fchmod(file->fd, mode);
}

/* The name, too, gets to the disk; where directories cannot be asked for that, the system sees to it. What has replaced
 * an old file stays in any case: there is no other one. */
static int sync_name(const struct tt_catch_file *file)
{
    int reason;
    if (fsync(file->directory) == 0 || errno == EINVAL || errno == ENOSYS) {
        return 0;
    }
    if (!file->force) {
        reason = errno;
        unlinkat(file->directory, file->name, 0);
        errno = reason;
    }
    return -1;
}

/* What could not be written, some file systems (NFS, FUSE) say only to who closes the file, or one more of the same. */
static int hand_over(const struct tt_catch_file *file)
{
    int another = fcntl(file->fd, F_DUPFD_CLOEXEC, 0);
    return another >= 0 ? close(another) : -1;
}

tutti_status tt_catch_file_commit(struct tt_catch_file *file, uint32_t mode, bool sync)
{
    if (file->directory < 0) {
        if (hand_over(file) != 0) {
            return refuse(file, file->path, strerror(errno));
        }
        tt_catch_file_abandon(file);
        return TUTTI_OK; /* standard output has it already */
    }
    if (set_mode(file, mode) != 0 || (sync ? fsync(file->fd) : hand_over(file)) != 0 || give_name(file) != 0 ||
        (sync && sync_name(file) != 0)) {
        return refuse(file, file->path, strerror(errno));
    }
    tt_catch_file_abandon(file);
    return TUTTI_OK;
}

void tt_catch_file_abandon(struct tt_catch_file *file)
{
    if (file->temporary[0] != '\0') {
        unlinkat(file->directory, file->temporary, 0);
        pardon();
        file->temporary[0] = '\0';
    }
    if (file->fd >= 0) {
        close(file->fd);
    }
    if (file->directory >= 0) {
        close(file->directory);
    }
    file->fd = -1;
    file->directory = -1;
}
