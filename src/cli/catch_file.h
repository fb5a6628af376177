/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A file that is there whole or not at all: it has no name, or a temporary one in the same directory, until commit.
 * Only the owner may read it until then. A process has one at a time. The signals that end a process, but for those of
 * a fault in the program, remove it. `tutti catch` writes by it, and `tutti bench --tune`.
 */
#ifndef TT_CLI_CATCH_FILE_H
#define TT_CLI_CATCH_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "cli/cast_record.h"
#include "tutti/status.h"

struct tt_catch_file {
    int fd;              /* to write to; -1: none */
    int directory;       /* where it will be; -1: it is standard output */
    char path[PATH_MAX]; /* for people: with the name, or "standard output" */
    char name[NAME_MAX + 1];
    char temporary[32]; /* its name until then; "": it has none */
    bool force;
};

/*
 * Opens what will become `path`; if that is a directory, the file in it that has the sender's name. "-" is standard
 * output. A file that is there already is an error unless `force`; one that is no regular file always is. Errors:
 * IO, with the path.
 */
tutti_status tt_catch_file_open(struct tt_catch_file *file, const char *path, const char *sender_name, bool force);

/* Gives it its name, and `mode` (TT_CAST_MODE_UNKNOWN: what new files get); `sync`: and returns once it is on the disk;
 * else once the file system has taken it. IO, and it is gone, if that cannot be; with `force` it is there if only its
 * name cannot be synced. */
tutti_status tt_catch_file_commit(struct tt_catch_file *file, uint32_t mode, bool sync);

/* Removes it, unless it was committed. Also for one that could not be opened. */
void tt_catch_file_abandon(struct tt_catch_file *file);

#endif
