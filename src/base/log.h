/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The log: silent unless TUTTI_LOG asks. Who first decides an error logs it, once, with the offending value.
 */
#ifndef TT_BASE_LOG_H
#define TT_BASE_LOG_H

#include <stdbool.h>

#include "tutti/status.h"

enum tt_log_level { TT_LOG_NONE, TT_LOG_ERROR, TT_LOG_WARN, TT_LOG_INFO, TT_LOG_DEBUG, TT_LOG_TRACE };

/* Parts of the library, for the mask (TUTTI_LOG=debug,fabric:trace,engine:none). */
enum tt_log_part {
    TT_PART_BASE,
    TT_PART_PROTO,
    TT_PART_FABRIC,
    TT_PART_ENGINE,
    TT_PART_API,
    TT_PART_CLI,
    TT_PART_COUNT
};

/*
 * Sets the levels from text such as "warn" or "info,fabric:debug", and where lines go: a file name in which %h stands
 * for the host and %p for the process id, or NULL for standard error. On an error nothing changes, and `message`
 * (of `message_bytes`) says what is wrong with which word.
 */
tutti_status tt_log_configure(const char *levels, const char *file, char *message, unsigned message_bytes);

/* Whether `levels` would do for tt_log_configure(); changes nothing. */
tutti_status tt_log_check(const char *levels, char *message, unsigned message_bytes);

/* Where nothing is logged (level none), warnings are shown nevertheless, without errors: for a program that says its
 * errors by itself. */
void tt_log_show_warnings(void);

/* The rank that lines name once it is known; negative: none. */
void tt_log_rank(int rank);

bool tt_log_enabled(enum tt_log_part part, enum tt_log_level level);

void tt_log_write(enum tt_log_part part, enum tt_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#define TT_LOG(part, level, ...)                                                                                       \
    do {                                                                                                               \
        if (tt_log_enabled((part), (level))) {                                                                         \
            tt_log_write((part), (level), __VA_ARGS__);                                                                \
        }                                                                                                              \
    } while (0)

/*
 * The text of the last error of this thread ("TUTTI_INTERFACE=eth9: no such interface"), for tutti_last_error().
 * tt_error records it, logs it at level ERROR once, and returns `status`, so that a failing function can end in
 * `return tt_error(TT_PART_FABRIC, TUTTI_ERR_IO, "...", ...)`.
 */
tutti_status tt_error(enum tt_log_part part, tutti_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* As tt_error, but without the log: for parsers, whose callers know whether the text was an error, and of what. */
tutti_status tt_error_note(tutti_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

#ifdef __clang_analyzer__
/* The analyzer does not see into log.c: tell it that what comes back is the status that went in. */
#define tt_error(part, status, ...) ((void)(tt_error)((part), (status), __VA_ARGS__), (status))
#define tt_error_note(status, ...)  ((void)(tt_error_note)((status), __VA_ARGS__), (status))
#endif

const char *tt_last_error(void);
void tt_clear_error(void);

#endif
