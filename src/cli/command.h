/* SPDX-License-Identifier: BSD-3-Clause */
/* The subcommands of the program `tutti`, what their exit statuses mean, and what they all begin and end with. */
#ifndef TT_CLI_COMMAND_H
#define TT_CLI_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

#include "base/settings.h"
#include "tutti/tutti.h"

enum tt_exit {
    TT_EXIT_OK = 0,
    TT_EXIT_FAILED = 1, /* something did not work, or a result was wrong */
    TT_EXIT_USAGE = 2   /* a command line or an environment that cannot be; nothing was started */
};

/* Each gets its own name as argv[0] and returns the exit status of the process. */
int tt_command_bench(int argc, char **argv);
int tt_command_run(int argc, char **argv);
int tt_command_info(int argc, char **argv);
int tt_command_cast(int argc, char **argv);
int tt_command_catch(int argc, char **argv);
int tt_command_plan(int argc, char **argv);
int tt_command_sim(int argc, char **argv);
int tt_command_doctor(int argc, char **argv);

/*
 * Reads the settings from the environment; false, after one line on standard error, if it holds what cannot be. From
 * here on the log is silent: what is wrong with a command line is said once, by the command. tt_command_log() turns it
 * on as the settings say.
 */
bool tt_command_settings(const char *command, struct tt_settings *settings);
bool tt_command_log(const char *command, const struct tt_settings *settings);

/*
 * A sentence on what the library could not do: "a peer failed: rank 1 on h1 (allgather) (10.0.0.1:29611: ...)", with
 * `what` was tried, and what the library `said` beyond that. `rank`: who is at fault, or less than 0; `host`: its name,
 * or "".
 */
void tt_command_failure(char *text, size_t capacity, tutti_status status, const char *said, int rank, const char *host,
                        const char *what);

/* One of the kinds that a command has, each with a command line of its own. */
struct tt_command_kind {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *purpose;
};

/* What such a command says of itself. */
struct tt_command_kinds {
    const char *command, *noun, *help;   /* "plan", "plan", and a sentence */
    const struct tt_command_kind *kinds; /* up to one without a name */
};

/* Finds the kind, and leaves the rest of the command line to it; or prints the help. No kind, or an unknown one: one
 * line on standard error. Returns the exit status. */
int tt_command_choose(const struct tt_command_kinds *kinds, int argc, char **argv);

/* Flushes standard output. A result that could not be written is a failure, whatever `status` was. */
int tt_command_finish(const char *command, int status);

#endif
