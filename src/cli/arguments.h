/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Command lines: one table of options a command, from which both its parser and its help come.
 */
#ifndef TT_CLI_ARGUMENTS_H
#define TT_CLI_ARGUMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct tt_option {
    char letter;       /* of the short form; 0: there is none */
    const char *name;  /* of the long form, without dashes; NULL: there is none */
    const char *value; /* what its value is called in the help ("RANKS"); NULL: it takes none */
    const char *help;
};

struct tt_command_usage {
    const char *name;     /* "bench" */
    const char *synopsis; /* "broadcast|allgather [OPTION]..." */
    const char *purpose;
    const struct tt_option *options;
    size_t option_count;
    bool stops_at_operand; /* what follows the first operand is not ours (`tutti run PROGRAM ARGS...`) */
};

enum { TT_OPTION_LIMIT = 32 };

enum tt_parse { TT_PARSE_OK, TT_PARSE_HELP, TT_PARSE_BAD };

/* Takes one option: its index in the table, and its value if it has one, in the user's words. False: something is wrong
 * with it, which has been reported. */
typedef bool tt_option_reader(void *target, int option, const char *value);

/*
 * Reads argv[1..]: gives every option to `read`, with `target`. HELP after an option that is called "help", which has
 * been printed then; BAD after an unknown option, a missing value, or one that `read` refused. With OK, operands are
 * left from optind on. One command line at a time: getopt keeps its place in global variables.
 */
enum tt_parse tt_arguments_read(const struct tt_command_usage *usage, int argc, char **argv, tt_option_reader *read,
                                void *target);

/* The same for a command without operands: BAD if something is left, too, which is reported. */
enum tt_parse tt_arguments_read_all(const struct tt_command_usage *usage, int argc, char **argv, tt_option_reader *read,
                                    void *target);

/* One line on standard error: `tutti bench: ... (see tutti bench --help)`. Control characters are shown as '?'. */
void tt_usage_error(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* As tt_usage_error(), for an option's value, with the reason that tt_last_error() gives. `variable` is the setting
 * that the reason starts with, or NULL. */
void tt_usage_error_value(const char *command, const char *option, const char *value, const char *variable);

/* A decimal number within [minimum, maximum]; on false it has been reported. */
bool tt_arguments_count(const char *command, const char *option, const char *text, uint64_t minimum, uint64_t maximum,
                        uint64_t *value);

/* The same of bytes, with suffix K, M, G or T. */
bool tt_arguments_size(const char *command, const char *option, const char *text, uint64_t minimum, uint64_t maximum,
                       uint64_t *bytes);

void tt_usage_print(FILE *stream, const struct tt_command_usage *usage);

#endif
