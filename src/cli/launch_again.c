/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: the ranks of a subcommand that starts them itself (`tutti bench`, `tutti doctor --job`).
 *
 * Normal path: this program's path, the arguments as the user wrote them, tt_launch().
 *
 * Failures: what keeps the ranks from being started is one line on standard error; that, or a rank that fails, is exit
 * status 1. Ranks that die of a signal after a request to end are no failure of theirs: the exit status says that
 * signal.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "cli/command.h"
#include "cli/launch.h"

enum { PATH_BYTES = 4096, KILLED = 128 /* and the signal, as an exit status */ };

/* This program, also if it was started by a relative name or has been replaced since. */
static const char *own_path(char *path)
{
    static const char link[] = "/proc/self/exe";
    ssize_t length = readlink(link, path, PATH_BYTES - 1);
    if (length <= 0) {
        return link;
    }
    path[length] = '\0';
    return access(path, X_OK) == 0 ? path : link;
}

int tt_launch_again(const char *command, uint32_t rank_count, int argc, char **argv)
{
    char path[PATH_BYTES];
    const char **rank_argv = calloc((size_t)argc + 2, sizeof(*rank_argv));
    if (rank_argv == NULL) {
        fprintf(stderr, "tutti %s: out of memory\n", command);
        return TT_EXIT_FAILED;
    }
    rank_argv[0] = own_path(path);
    for (int i = 0; i < argc; i++) {
        rank_argv[i + 1] = argv[i];
    }
    struct tt_launch_options options = {.rank_count = rank_count, .argv = (char *const *)rank_argv};
    struct tt_launch_end end;
    tutti_status status = tt_launch(&options, &end);
    free(rank_argv);
    if (status != TUTTI_OK) {
        fprintf(stderr, "tutti %s: %s\n", command, tt_last_error());
        return TT_EXIT_FAILED;
    }
    if (end.was_asked_to_end && end.exit_status > KILLED) {
        return end.exit_status;
    }
    return end.exit_status == 0 ? TT_EXIT_OK : TT_EXIT_FAILED;
}
