/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: what to send where, or what to receive into which file.
 *
 * Normal path: two commands with a table each; what both have comes first in both, at the same places.
 *
 * Failures: each is reported once, with the text as it was written, and nothing is set.
 */
#include "cli/cast_arguments.h"

#include <getopt.h>
#include <string.h>

#define DEFAULT_SEGMENT_BYTES (UINT64_C(4) << 20)

/* Indices of the tables. */
enum shared_option {
    OPTION_ROOT,
    OPTION_SIZE,
    OPTION_WAIT,
    OPTION_TIMEOUT,
    OPTION_PROGRESS,
    OPTION_HELP,
    SHARED_COUNT
};
enum cast_option { CAST_BY = SHARED_COUNT, CAST_SEGMENT, CAST_JSON, CAST_COUNT };
enum catch_option { CATCH_OUTPUT = SHARED_COUNT, CATCH_FORCE, CATCH_NO_SYNC, CATCH_COUNT };

#define SHARED_OPTIONS                                                                                                 \
    [OPTION_ROOT] = {0, "root", "HOST:PORT", "where the sender listens; without it: the job of the environment"},      \
    [OPTION_SIZE] = {0, "size", "N", "with --root: how many take part, the sender and N - 1 receivers"},               \
    [OPTION_WAIT] = {0, "wait", "TIME", "how long all have to come together (30s)"},                                   \
    [OPTION_TIMEOUT] = {0, "timeout", "TIME", "how long one of them may hold up the others (10 minutes)"},             \
    [OPTION_PROGRESS] = {0, "progress", NULL, "show how far it is, also where standard error is no terminal"},         \
    [OPTION_HELP] = {'h', "help", NULL, "this text"}

static const struct tt_option cast_options[CAST_COUNT] = {
    SHARED_OPTIONS,
    [CAST_BY] = {0, "by", "WAY", "multicast, pipeline (blocks from host to host) or auto; default auto"},
    [CAST_SEGMENT] = {0, "segment", "BYTES", "how much is read, sent and written at a time (4M)"},
    [CAST_JSON] = {0, "json", NULL, "the verdicts as one JSON object instead of a table"},
};

static const struct tt_option catch_options[CATCH_COUNT] = {
    SHARED_OPTIONS,
    [CATCH_OUTPUT] = {'o', "output", "PATH",
                      "the file; a directory: there, as the sender's is called; -: standard output"},
    [CATCH_FORCE] = {'f', "force", NULL, "replace a file that is there already"},
    [CATCH_NO_SYNC] = {0, "no-sync", NULL, "do not wait until the file is on the disk"},
};

static const struct tt_command_usage usages[] = {
    [TT_CAST_SENDER] = {.name = "cast",
                        .synopsis = "[OPTION]... FILE",
                        .purpose = "Sends a file, or standard input (-), to every `tutti catch` of the job, and says\n"
                                   "what became of it on each host. Exit status 1 if it failed on any.",
                        .options = cast_options,
                        .option_count = CAST_COUNT},
    [TT_CAST_RECEIVER] = {.name = "catch",
                          .synopsis = "-o PATH [OPTION]...",
                          .purpose = "Receives what `tutti cast` sends. The file is there when all of it has been\n"
                                     "received and compared with the sender's digest, and not before.",
                          .options = catch_options,
                          .option_count = CATCH_COUNT},
};

static bool parse_setting(struct tt_cast_arguments *arguments, struct tt_settings *settings, const char *option,
                          const char *name, const char *text)
{
    if (tt_settings_set(settings, name, text) != TUTTI_OK) {
        tt_usage_error_value(arguments->command, option, text, name);
        return false;
    }
    size_t index = 0;
    while (index < arguments->setting_count && strcmp(arguments->settings[index].name, name) != 0) {
        index++; /* an option that comes twice: the last one counts */
    }
    arguments->settings[index] = (tutti_setting){name, text};
    arguments->setting_count += index == arguments->setting_count;
    return true;
}

static bool parse_shared(struct tt_cast_arguments *arguments, struct tt_settings *settings, int option,
                         const char *text)
{
    uint64_t size = 0;
    switch (option) {
    case OPTION_ROOT:
        arguments->root = text;
        return parse_setting(arguments, settings, "--root", "ROOT", text);
    case OPTION_SIZE:
        if (!tt_arguments_count(arguments->command, "--size", text, 2, TT_MAX_RANKS, &size)) {
            return false;
        }
        arguments->size = (uint32_t)size;
        return true;
    case OPTION_WAIT:
        return parse_setting(arguments, settings, "--wait", "BOOTSTRAP_TIMEOUT", text);
    case OPTION_TIMEOUT:
        return parse_setting(arguments, settings, "--timeout", "TIMEOUT", text);
    default:
        arguments->progress = true;
        return true;
    }
}

static bool parse_way(struct tt_cast_arguments *arguments, const char *text)
{
    for (int way = 0; way <= TT_CAST_BY_AUTO; way++) {
        if (strcmp(text, tt_cast_way_name((enum tt_cast_way)way)) == 0) {
            arguments->by = (enum tt_cast_way)way;
            return true;
        }
    }
    tt_usage_error(arguments->command, "--by '%s': must be multicast, pipeline or auto", text);
    return false;
}

static bool parse_cast(struct tt_cast_arguments *arguments, int option, const char *text)
{
    switch (option) {
    case CAST_BY:
        return parse_way(arguments, text);
    case CAST_SEGMENT:
        return tt_arguments_size(arguments->command, "--segment", text, TT_CAST_MIN_SEGMENT_BYTES,
                                 TT_CAST_MAX_SEGMENT_BYTES, &arguments->segment_bytes);
    default:
        arguments->json = true;
        return true;
    }
}

static void parse_catch(struct tt_cast_arguments *arguments, int option, const char *text)
{
    switch (option) {
    case CATCH_OUTPUT:
        arguments->path = text;
        break;
    case CATCH_FORCE:
        arguments->force = true;
        break;
    default:
        arguments->no_sync = true;
        break;
    }
}

/* Where options go. */
struct parse {
    struct tt_cast_arguments *arguments;
    struct tt_settings *settings;
};

static bool parse_option(void *target, int option, const char *text)
{
    const struct parse *parse = target;

    if (option < SHARED_COUNT) {
        return parse_shared(parse->arguments, parse->settings, option, text);
    }
    if (parse->arguments->role == TT_CAST_SENDER) {
        return parse_cast(parse->arguments, option, text);
    }
    parse_catch(parse->arguments, option, text);
    return true;
}

/* The file to send is the operand; a receiver has none. */
static bool take_operand(struct tt_cast_arguments *arguments, int argc, char **argv)
{
    if (arguments->role == TT_CAST_SENDER && optind < argc) {
        arguments->path = argv[optind++];
    }
    if (optind < argc) {
        tt_usage_error(arguments->command, "unexpected argument '%s'", argv[optind]);
        return false;
    }
    if (arguments->path == NULL) {
        tt_usage_error(arguments->command, arguments->role == TT_CAST_SENDER ? "no file given; -: standard input"
                                                                             : "no -o: where to put it");
        return false;
    }
    if (arguments->path[0] == '\0') {
        tt_usage_error(arguments->command, "'' is no file");
        return false;
    }
    return true;
}

static bool check_job(const struct tt_cast_arguments *arguments)
{
    if (arguments->root != NULL && arguments->size == 0) {
        tt_usage_error(arguments->command, "--root '%s': without --size", arguments->root);
        return false;
    }
    if (arguments->root == NULL && arguments->size != 0) {
        tt_usage_error(arguments->command, "--size '%u': without --root", arguments->size);
        return false;
    }
    if ((arguments->force || arguments->no_sync) && strcmp(arguments->path, "-") == 0) {
        tt_usage_error(arguments->command, "%s: not with -o -", arguments->force ? "--force" : "--no-sync");
        return false;
    }
    return true;
}

enum tt_parse tt_cast_arguments_parse(enum tt_cast_role role, int argc, char **argv, struct tt_settings *settings,
                                      struct tt_cast_arguments *arguments)
{
    const struct tt_command_usage *usage = &usages[role];
    struct tt_settings changed = *settings;
    struct tt_cast_arguments parsed = {
        .command = usage->name, .role = role, .by = TT_CAST_BY_AUTO, .segment_bytes = DEFAULT_SEGMENT_BYTES};
    struct parse parse = {.arguments = &parsed, .settings = &changed};
    enum tt_parse status = tt_arguments_read(usage, argc, argv, parse_option, &parse);

    if (status != TT_PARSE_OK) {
        return status;
    }
    if (!take_operand(&parsed, argc, argv) || !check_job(&parsed)) {
        return TT_PARSE_BAD;
    }
    *settings = changed;
    *arguments = parsed;
    return TT_PARSE_OK;
}
