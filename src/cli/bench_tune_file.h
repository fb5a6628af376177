/* SPDX-License-Identifier: BSD-3-Clause */
/* The file that `tutti bench --tune --write` makes: there whole or not at all, and nothing else is touched. */
#ifndef TT_CLI_BENCH_TUNE_FILE_H
#define TT_CLI_BENCH_TUNE_FILE_H

#include <stdint.h>
#include <stdio.h>

#include "cli/catch_file.h"
#include "tutti/status.h"

struct tt_tune_file {
    struct tt_catch_file file;
    uint32_t mode; /* of the file that it replaces, or TT_CAST_MODE_UNKNOWN */
    FILE *stream;  /* to write to */
};

/* Opens what will become `path`, or what a symbolic link at `path` leads to; it may be there already if it is a regular
 * file. IO, with the path and what is there, in tt_last_error(): then nothing is open. */
tutti_status tt_tune_file_open(struct tt_tune_file *file, const char *path);

/* Gives it its name, and the mode of the file that it replaces. IO, and it is gone, if that cannot be, or if not all
 * that was written could be. */
tutti_status tt_tune_file_commit(struct tt_tune_file *file);

/* Removes it. */
void tt_tune_file_abandon(struct tt_tune_file *file);

#endif
