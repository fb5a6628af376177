/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Starting the ranks of a job on this machine, and seeing all of them out.
 */
#ifndef TT_CLI_LAUNCH_H
#define TT_CLI_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>

#include "tutti/status.h"

struct tt_launch_options {
    uint32_t rank_count; /* 1 .. 65536 */
    char *const *argv;   /* the program, looked up in PATH, and its arguments; ends with NULL */
    const char *const
        *environment;   /* further "NAME=value", which win over the inherited; ends with NULL; may be NULL */
    bool prefix_output; /* "[rank] " before every line of the ranks' output */
    uint64_t grace_ns;  /* how long the others may go on after the first failure; 0: 10 s, time for the library to
                           tell them and for them to end by themselves */
};

/* How the ranks ended. */
struct tt_launch_end {
    int exit_status;       /* 0 if all ranks ended with 0, else that of the first that failed; 128 + signal if killed */
    bool was_asked_to_end; /* a SIGINT, SIGTERM or SIGHUP had been passed on when that rank ended */
};

/*
 * Starts the ranks with TUTTI_RANK, TUTTI_SIZE and TUTTI_ROOT, and rank 0 with TUTTI_ROOT_FD, a socket that listens
 * there already, so that no other process can take the port. Rank 0 reads this process's standard input unless that
 * is a terminal; the others read nothing. Blocks until all have ended. SIGINT, SIGTERM and SIGHUP, unless ignored when
 * it begins, are passed on to all; the third of them kills the ranks, and `grace_ns` after a SIGTERM or SIGHUP those
 * that still run are killed. Every rank that fails is reported on standard error ("rank 3: killed by signal 9
 * (Killed)"). When one has failed, the rest have `grace_ns` to end, then get SIGTERM, and SIGKILL two seconds later. On
 * return nothing is left that the ranks had started, either, but for what left its process group if this process had
 * other children before, and for processes of other users that this one may not kill, which is said on standard error.
 * If this process is killed, the kernel kills the ranks.
 *
 * All of this holds while the reader of standard output or standard error stands still. Ranks whose output has prefixes
 * wait for it in turn, since no more of theirs is read; what they have written is lost only if it is not read after
 * their end, and this process was asked to end: `grace_ns` after a SIGTERM or SIGHUP, or by the third signal; if that
 * came while ranks still ran, not within two seconds of their end, but at once by a third signal after it.
 *
 * Among ranks that failed so close to each other that their order is not known, one that was killed counts as the
 * first: others can end because of it before its own end can be seen, so it may be seen 100 ms after the first failure,
 * unless this process sent a signal to the ranks in between. Where no rank failed, but output of theirs with prefixes
 * could not be written, which is reported, the exit status is 1. Errors, with the text in tt_last_error(), not logged,
 * since the program prints it: INVALID_ARGUMENT (no such program, or not one that can run), NO_RESOURCE (processes,
 * descriptors), NO_MEMORY. Then no rank is left either.
 *
 * For programs with one thread: signals are blocked, and orphans adopted, during the call.
 */
tutti_status tt_launch(const struct tt_launch_options *options, struct tt_launch_end *end);

/*
 * For a subcommand that starts its ranks itself: each is this program again, with argv[0] as its subcommand and the
 * same arguments. `command` is what a failure is said of, on standard error. Returns the exit status of the command: 1
 * if a rank fails; but if the first one dies of a signal after this process was asked to end, 128 + that signal, by
 * which who has asked knows that it was obeyed.
 */
int tt_launch_again(const char *command, uint32_t rank_count, int argc, char **argv);

#endif
