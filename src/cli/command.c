/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: what every subcommand begins and ends with.
 *
 * Normal path: settings, then the command line, then the log, then the command's own work, then finish.
 *
 * Failures: an environment that cannot be is one line and exit status 2, as a bad command line is; output that could
 * not be written (a full disk) is exit status 1, so that a script does not take half a table for the whole.
 */
#include "cli/command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "cli/arguments.h"

enum { MESSAGE_BYTES = 512 };

bool tt_command_settings(const char *command, struct tt_settings *settings)
{
    char message[MESSAGE_BYTES];
    if (tt_settings_check_names() != TUTTI_OK) {
        tt_usage_error(command, "%s", tt_last_error());
        return false;
    }
    if (tt_settings_load(settings) != TUTTI_OK) {
        /* Where the log goes to a terminal the sentence has been said. */
        const char *file = getenv("TUTTI_LOG_FILE");
        if (!tt_log_enabled(TT_PART_BASE, TT_LOG_ERROR) || (file != NULL && file[0] != '\0')) {
            tt_usage_error(command, "%s", tt_last_error());
        }
        return false;
    }
    tt_log_configure("none", NULL, message, sizeof(message));
    return true;
}

bool tt_command_log(const char *command, const struct tt_settings *settings)
{
    char message[MESSAGE_BYTES];
    const char *file = settings->log_file[0] != '\0' ? settings->log_file : NULL;
    if (tt_log_configure(settings->log, file, message, sizeof(message)) != TUTTI_OK) {
        tt_usage_error(command, "%s", message);
        return false;
    }
    return true;
}

/* Behind `start` if the text begins with it, and there is nothing else behind or what is said of it in brackets; else
 * the text. */
static const char *without(const char *text, const char *start)
{
    const char *rest = text + strlen(start);

    return strncmp(text, start, strlen(start)) == 0 && (rest[0] == '\0' || strncmp(rest, " (", 2) == 0) ? rest : text;
}

void tt_command_failure(char *text, size_t capacity, tutti_status status, const char *said, int rank, const char *host,
                        const char *what)
{
    const char *detail = said;
    size_t status_bytes = strlen(tutti_status_text(status));
    char peer[MESSAGE_BYTES] = "", named[MESSAGE_BYTES] = "";

    if (strncmp(detail, tutti_status_text(status), status_bytes) == 0) {
        detail += status_bytes;
    }
    if (rank >= 0) {
        snprintf(peer, sizeof(peer), ": rank %d", rank);
        snprintf(named, sizeof(named), ": rank %d%s%s", rank, host[0] != '\0' ? " on " : "", host);
        detail = without(without(detail, named), peer);
    }
    bool goes_on = detail[0] == '\0' || detail[0] == ':' || detail[0] == ' ';
    snprintf(text, capacity, "%s%s (%s)%s%s", tutti_status_text(status), named, what, goes_on ? "" : ": ", detail);
}

int tt_command_finish(const char *command, int status)
{
    if (fflush(stdout) == 0 && ferror(stdout) == 0) {
        return status;
    }
    fprintf(stderr, "tutti %s: standard output: write error\n", command);
    return status == TT_EXIT_OK ? TT_EXIT_FAILED : status;
}

static void print_kinds(const struct tt_command_kinds *kinds)
{
    printf("Usage: tutti %s KIND [OPTION]...\n%s\n\nKinds:\n", kinds->command, kinds->help);
    for (const struct tt_command_kind *kind = kinds->kinds; kind->name != NULL; kind++) {
        printf("  %-12s%s\n", kind->name, kind->purpose);
    }
    printf("\n  --help        this text; tutti %s KIND --help: its options\n", kinds->command);
}

int tt_command_choose(const struct tt_command_kinds *kinds, int argc, char **argv)
{
    if (argc < 2) {
        tt_usage_error(kinds->command, "no kind of %s given", kinds->noun);
        return TT_EXIT_USAGE;
    }
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        if (argc > 2) {
            tt_usage_error(kinds->command, "unexpected argument '%s'", argv[2]);
            return TT_EXIT_USAGE;
        }
        print_kinds(kinds);
        return tt_command_finish(kinds->command, TT_EXIT_OK);
    }
    for (const struct tt_command_kind *kind = kinds->kinds; kind->name != NULL; kind++) {
        if (strcmp(name, kind->name) == 0) {
            return kind->run(argc - 1, argv + 1);
        }
    }
    tt_usage_error(kinds->command, "unknown %s '%s'", name[0] == '-' ? "option" : "kind", name);
    return TT_EXIT_USAGE;
}
