/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: log lines such as `[host:pid rank] level part: text`, and the last error of each thread.
 *
 * Normal path: the level of a part is one atomic load, so a line that nobody asked for costs nothing. A line is
 * formatted on the stack and leaves in one write(2), so that the lines of many processes in one file do not mix.
 *
 * Failures: text that does not fit is cut and ends in "..."; control characters become '?', since some texts come from
 * the network; a log that cannot be written (a full disk, a closed pipe) loses lines and nothing else. A configuration
 * that cannot be changes nothing.
 */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"

#undef tt_error /* what log.h tells the analyzer; here are the functions */
#undef tt_error_note

enum { LINE_BYTES = 2048, ERROR_BYTES = 1536, HOST_BYTES = 65, PATH_BYTES = 1024, LEVEL_COUNT = TT_LOG_TRACE + 1 };

static const char *const level_names[LEVEL_COUNT] = {"none", "error", "warn", "info", "debug", "trace"};
static const char *const part_names[TT_PART_COUNT] = {"base", "proto", "fabric", "engine", "api", "cli"};

static _Atomic int levels_by_part[TT_PART_COUNT]; /* TT_LOG_NONE: silent until asked */
static atomic_bool shows_warnings;
static _Atomic int own_rank = -1;

/* Held while a line is written, so that a file is not closed under a writer. */
static pthread_mutex_t output_lock = PTHREAD_MUTEX_INITIALIZER;
static int output_fd = STDERR_FILENO;

static _Thread_local char last_error[ERROR_BYTES];

static pthread_once_t host_once = PTHREAD_ONCE_INIT;
static char host[HOST_BYTES];

static void find_host(void)
{
    if (gethostname(host, sizeof(host) - 1) != 0 || host[0] == '\0') {
        memcpy(host, "?", 2);
    }
    host[strcspn(host, ".")] = '\0';
}

static const char *host_name(void)
{
    pthread_once(&host_once, find_host);
    return host;
}

/* The index of a word of `length` characters in a list of names; -1: it is not there. */
static int find_name(const char *const *names, int count, const char *word, size_t length)
{
    for (int i = 0; i < count; i++) {
        if (strlen(names[i]) == length && memcmp(names[i], word, length) == 0) {
            return i;
        }
    }
    return -1;
}

/* One word of the list, "warn" or "fabric:debug"; *part is -1 for the former. */
static tutti_status parse_word(const char *word, size_t length, int *part, int *level, char *message, unsigned bytes)
{
    const char *colon = memchr(word, ':', length);
    const char *name = word;
    size_t name_length = length;

    *part = -1;
    if (colon != NULL) {
        *part = find_name(part_names, TT_PART_COUNT, word, (size_t)(colon - word));
        if (*part < 0) {
            snprintf(message, bytes, "'%.*s' is no part of the library (base, proto, fabric, engine, api, cli)",
                     (int)(colon - word), word);
            return TUTTI_ERR_INVALID_ARGUMENT;
        }
        name = colon + 1;
        name_length = length - (size_t)(name - word);
    }
    *level = find_name(level_names, LEVEL_COUNT, name, name_length);
    if (*level < 0) {
        snprintf(message, bytes, "'%.*s' is no level (none, error, warn, info, debug, trace)", (int)name_length, name);
        return TUTTI_ERR_INVALID_ARGUMENT;
    }
    return TUTTI_OK;
}

/* A level for a part wins over a level for all, wherever it stands. */
static tutti_status parse_levels(const char *text, int levels[TT_PART_COUNT], char *message, unsigned bytes)
{
    int level_of_all = TT_LOG_NONE;
    for (int i = 0; i < TT_PART_COUNT; i++) {
        levels[i] = -1;
    }
    for (const char *word = text;; word++) {
        size_t length = strcspn(word, ",");
        int part, level;
        tutti_status status = parse_word(word, length, &part, &level, message, bytes);
        if (status != TUTTI_OK) {
            return status;
        }
        if (part < 0) {
            level_of_all = level;
        } else {
            levels[part] = level;
        }
        word += length;
        if (*word == '\0') {
            break;
        }
    }
    for (int i = 0; i < TT_PART_COUNT; i++) {
        levels[i] = levels[i] < 0 ? level_of_all : levels[i];
    }
    return TUTTI_OK;
}

/* Puts the host for %h, the process for %p and a percent sign for %%. */
static tutti_status expand_path(const char *file, char *path, size_t path_bytes, char *message, unsigned bytes)
{
    size_t used = 0;
    for (const char *c = file; *c != '\0'; c++) {
        char one[2] = {*c, '\0'};
        char pid[16];
        const char *piece = one;
        if (*c == '%') {
            c++;
            if (*c == 'h') {
                piece = host_name();
            } else if (*c == 'p') {
                snprintf(pid, sizeof(pid), "%d", (int)getpid());
                piece = pid;
            } else if (*c != '%') {
                snprintf(message, bytes, "the log file '%s' has a %% without h or p behind it", file);
                return TUTTI_ERR_INVALID_ARGUMENT;
            }
        }
        size_t length = strlen(piece);
        if (used + length >= path_bytes) {
            snprintf(message, bytes, "the name of the log file is too long: '%.64s...'", file);
            return TUTTI_ERR_INVALID_ARGUMENT;
        }
        memcpy(path + used, piece, length);
        used += length;
    }
    path[used] = '\0';
    return TUTTI_OK;
}

static tutti_status open_output(const char *file, int *fd, char *message, unsigned bytes)
{
    char path[PATH_BYTES];
    tutti_status status = expand_path(file, path, sizeof(path), message, bytes);
    if (status != TUTTI_OK) {
        return status;
    }
    int opened = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0644);
    if (opened < 0) {
        snprintf(message, bytes, "the log file '%s' cannot be opened: %s", path, strerror(errno));
        return TUTTI_ERR_IO;
    }
    *fd = opened;
    return TUTTI_OK;
}

tutti_status tt_log_check(const char *levels, char *message, unsigned message_bytes)
{
    int parsed[TT_PART_COUNT];
    return parse_levels(levels, parsed, message, message_bytes);
}

tutti_status tt_log_configure(const char *levels, const char *file, char *message, unsigned message_bytes)
{
    int parsed[TT_PART_COUNT];
    int fd = STDERR_FILENO;
    tutti_status status = parse_levels(levels, parsed, message, message_bytes);
    if (status == TUTTI_OK && file != NULL && file[0] != '\0') {
        status = open_output(file, &fd, message, message_bytes);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    pthread_mutex_lock(&output_lock);
    int old = output_fd;
    output_fd = fd;
    pthread_mutex_unlock(&output_lock);
    if (old != STDERR_FILENO) {
        close(old);
    }
    for (int i = 0; i < TT_PART_COUNT; i++) {
        atomic_store_explicit(&levels_by_part[i], parsed[i], memory_order_relaxed);
    }
    return TUTTI_OK;
}

void tt_log_show_warnings(void)
{
    atomic_store_explicit(&shows_warnings, true, memory_order_relaxed);
}

void tt_log_rank(int rank)
{
    atomic_store_explicit(&own_rank, rank, memory_order_relaxed);
}

bool tt_log_enabled(enum tt_log_part part, enum tt_log_level level)
{
    int shown = atomic_load_explicit(&levels_by_part[part], memory_order_relaxed);

    return (level != TT_LOG_NONE && (int)level <= shown) ||
           (level == TT_LOG_WARN && shown == TT_LOG_NONE &&
            atomic_load_explicit(&shows_warnings, memory_order_relaxed));
}

/* Appends to a text of `capacity` bytes that has `used`; what has no room ends with "...". */
static void append(char *text, size_t used, size_t capacity, const char *format, va_list arguments)
{
    int length = vsnprintf(text + used, capacity - used, format, arguments);

    if (length < 0) {
        text[used] = '\0';
    } else if ((size_t)length >= capacity - used) {
        memcpy(text + capacity - 4, "...", 4);
    }
}

/* Without SIGPIPE, which would end the process where nobody reads the log any more. */
static void put_out(const char *line, size_t length)
{
    const struct timespec at_once = {0};
    sigset_t broken_pipe, before, pending;
    sigemptyset(&broken_pipe);
    sigaddset(&broken_pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &broken_pipe, &before);
    sigpending(&pending);
    ssize_t written;
    do {
        written = write(output_fd, line, length);
    } while (written < 0 && errno == EINTR);
    if (written < 0 && errno == EPIPE && sigismember(&pending, SIGPIPE) == 0) {
        while (sigtimedwait(&broken_pipe, NULL, &at_once) < 0 && errno == EINTR) {
        }
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void write_line(enum tt_log_part part, enum tt_log_level level, const char *format, va_list arguments)
{
    char line[LINE_BYTES];
    char rank_text[16] = "";
    int saved_errno = errno;
    int rank = atomic_load_explicit(&own_rank, memory_order_relaxed);

    if (rank >= 0) {
        snprintf(rank_text, sizeof(rank_text), " %d", rank);
    }
    int prefix = snprintf(line, sizeof(line), "[%s:%d%s] %s %s: ", host_name(), (int)getpid(), rank_text,
                          level_names[level], part_names[part]);
    errno = saved_errno; /* for a format with %m */
    /* One byte stays free: the line's end takes the place of the terminator. */
    append(line, (size_t)prefix, sizeof(line) - 1, format, arguments);
    tt_text_clean(line);
    size_t used = strlen(line);
    line[used++] = '\n';
    pthread_mutex_lock(&output_lock);
    put_out(line, used);
    pthread_mutex_unlock(&output_lock);
    errno = saved_errno;
}

void tt_log_write(enum tt_log_part part, enum tt_log_level level, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    write_line(part, level, format, arguments);
    va_end(arguments);
}

/* By way of a copy: the arguments may hold the old text. */
static void remember(const char *format, va_list arguments)
{
    char text[ERROR_BYTES];
    int saved_errno = errno;
    append(text, 0, sizeof(text), format, arguments);
    tt_text_clean(text);
    memcpy(last_error, text, strlen(text) + 1);
    errno = saved_errno;
}

tutti_status tt_error(enum tt_log_part part, tutti_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    remember(format, arguments);
    va_end(arguments);
    TT_LOG(part, TT_LOG_ERROR, "%s", last_error);
    return status;
}

tutti_status tt_error_note(tutti_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    remember(format, arguments);
    va_end(arguments);
    return status;
}

const char *tt_last_error(void)
{
    return last_error;
}

void tt_clear_error(void)
{
    last_error[0] = '\0';
}
