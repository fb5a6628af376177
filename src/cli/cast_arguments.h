/* SPDX-License-Identifier: BSD-3-Clause */
/* The command lines of `tutti cast` and `tutti catch`. */
#ifndef TT_CLI_CAST_ARGUMENTS_H
#define TT_CLI_CAST_ARGUMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/settings.h"
#include "cli/arguments.h"
#include "cli/cast_record.h"
#include "tutti/tutti.h"

enum { TT_CAST_SETTING_LIMIT = 3 };

enum tt_cast_role { TT_CAST_SENDER, TT_CAST_RECEIVER };

struct tt_cast_arguments {
    const char *command; /* "cast" or "catch" */
    enum tt_cast_role role;
    const char *path; /* what to send, or where to put it; "-": standard input or output */
    const char *root; /* NULL: the environment describes the job */
    uint32_t size;    /* with root */
    bool progress;    /* also where standard error is no terminal */
    /* Of the sender. */
    enum tt_cast_way by;
    uint64_t segment_bytes;
    bool json;
    /* Of a receiver. */
    bool force, no_sync;
    /* Given on the command line; for the context. */
    tutti_setting settings[TT_CAST_SETTING_LIMIT];
    size_t setting_count;
};

/* Reports what is wrong. What stands for a setting is set in *settings too. */
enum tt_parse tt_cast_arguments_parse(enum tt_cast_role role, int argc, char **argv, struct tt_settings *settings,
                                      struct tt_cast_arguments *arguments);

#endif
