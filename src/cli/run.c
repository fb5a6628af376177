/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: `tutti run`: starts the ranks of any program that uses the library, on this machine.
 *
 * Normal path: options, then the program and its arguments, which are left alone; the launcher does the rest.
 *
 * Failures: a command line that cannot be: exit status 2, nothing started. Otherwise the exit status is the launcher's:
 * that of the first rank that failed. Inside of a job nothing is started: the ranks of a job within a job would find
 * each other's settings.
 */
#include <getopt.h>
#include <stdio.h>

#include "base/log.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/launch.h"
#include "engine/environment.h"

enum { OPTION_RANKS, OPTION_PREFIX, OPTION_HELP, OPTION_COUNT };

enum { RANK_LIMIT = TT_MAX_RANKS };

static const struct tt_option options[OPTION_COUNT] = {
    [OPTION_RANKS] = {'n', "ranks", "RANKS", "how many to start; required"},
    [OPTION_PREFIX] = {'p', "prefix", NULL, "\"[rank] \" before every line of the ranks' output"},
    [OPTION_HELP] = {'h', "help", NULL, "this text"},
};

static const struct tt_command_usage usage = {
    .name = "run",
    .synopsis = "-n RANKS [--] PROGRAM [ARGUMENT]...",
    .purpose = "Starts the ranks of a program on this machine, and waits for all of them. The exit status is 0 if\n"
               "all of theirs were, else that of the first that failed (128 + signal if it was killed). Ranks\n"
               "that still run 10 s after the first failure, or after a SIGTERM or SIGHUP, are ended.",
    .options = options,
    .option_count = OPTION_COUNT,
    .stops_at_operand = true,
};

/* What `tutti run` is asked for; the program is left among the operands. */
struct request {
    uint64_t rank_count;
    bool prefix;
};

static bool read_option(void *target, int option, const char *text)
{
    struct request *request = target;
    if (option == OPTION_PREFIX) {
        request->prefix = true;
        return true;
    }
    return tt_arguments_count(usage.name, "-n", text, 1, RANK_LIMIT, &request->rank_count);
}

static enum tt_parse parse_arguments(int argc, char **argv, struct request *request)
{
    enum tt_parse parse = tt_arguments_read(&usage, argc, argv, read_option, request);
    if (parse != TT_PARSE_OK) {
        return parse;
    }
    if (request->rank_count == 0) {
        tt_usage_error(usage.name, "no number of ranks given: -n RANKS");
        return TT_PARSE_BAD;
    }
    if (optind == argc) {
        tt_usage_error(usage.name, "no program given");
        return TT_PARSE_BAD;
    }
    return TT_PARSE_OK;
}

/* A job of one that a launcher has started, such as a shell in a batch system, may start another. */
static bool is_outside_of_jobs(const struct tt_settings *settings)
{
    struct tt_environment environment;
    if (tt_environment_find(settings, &environment) != TUTTI_OK) {
        tt_usage_error(usage.name, "%s", tt_last_error());
        return false;
    }
    bool outside = environment.source == TT_ENVIRONMENT_NONE ||
                   (environment.size == 1 && environment.source != TT_ENVIRONMENT_SETTINGS);
    if (!outside) {
        tt_usage_error(usage.name, "%s: this is a rank of a job already", environment.text);
    }
    tt_environment_release(&environment);
    return outside;
}

int tt_command_run(int argc, char **argv)
{
    struct tt_settings settings;
    struct request request = {.rank_count = 0};
    if (!tt_command_settings(usage.name, &settings)) {
        return TT_EXIT_USAGE;
    }
    enum tt_parse parse = parse_arguments(argc, argv, &request);
    if (parse == TT_PARSE_HELP) {
        return tt_command_finish(usage.name, TT_EXIT_OK);
    }
    if (parse == TT_PARSE_BAD || !tt_command_log(usage.name, &settings)) {
        return TT_EXIT_USAGE;
    }
    if (!is_outside_of_jobs(&settings)) {
        return TT_EXIT_USAGE;
    }
    struct tt_launch_options launch = {
        .rank_count = (uint32_t)request.rank_count, .argv = argv + optind, .prefix_output = request.prefix};
    struct tt_launch_end end;
    tutti_status status = tt_launch(&launch, &end);
    if (status != TUTTI_OK) {
        fprintf(stderr, "tutti run: %s\n", tt_last_error());
        return status == TUTTI_ERR_INVALID_ARGUMENT ? TT_EXIT_USAGE : TT_EXIT_FAILED;
    }
    return end.exit_status;
}
