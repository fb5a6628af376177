/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: reading command lines with getopt_long, from one table a command that its help is printed from as well, so
 * that the two cannot disagree.
 *
 * Normal path: the options one after the other; operands are what getopt has moved behind them.
 *
 * Failures: an unknown option, a missing or a superfluous value, and a number that is none. Each is one line on
 * standard error with the text as the user wrote it; the caller then exits with TT_EXIT_USAGE before it has started
 * anything.
 */
#include "cli/arguments.h"

#include <assert.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <string.h>

#include "base/log.h"
#include "base/settings.h"
#include "base/text.h"

enum { LINE_BYTES = 1024, SIZE_BYTES = 24, LONG_ONLY_BASE = 256, HELP_COLUMN = 28 };
enum { ARGUMENTS_END = -1, ARGUMENTS_BAD = -2 };

/* getopt's two forms of the table. */
struct getopt_tables {
    char letters[2 * TT_OPTION_LIMIT + 3];
    struct option names[TT_OPTION_LIMIT + 1];
};

static void build_tables(const struct tt_command_usage *usage, struct getopt_tables *tables)
{
    assert(usage->option_count <= TT_OPTION_LIMIT);
    memset(tables, 0, sizeof(*tables));
    char *letter = tables->letters;
    if (usage->stops_at_operand) {
        *letter++ = '+';
    }
    *letter++ = ':'; /* tell a missing value from an unknown option, and print nothing */
    struct option *name = tables->names;
    for (size_t i = 0; i < usage->option_count; i++) {
        const struct tt_option *option = &usage->options[i];
        if (option->letter != 0) {
            *letter++ = option->letter;
            if (option->value != NULL) {
                *letter++ = ':';
            }
        }
        if (option->name != NULL) {
            name->name = option->name;
            name->has_arg = option->value != NULL ? required_argument : no_argument;
            name->val = LONG_ONLY_BASE + (int)i;
            name++;
        }
    }
}

static int option_of_letter(const struct tt_command_usage *usage, int letter)
{
    for (size_t i = 0; i < usage->option_count; i++) {
        if (usage->options[i].letter == letter) {
            return (int)i;
        }
    }
    return ARGUMENTS_BAD;
}

/* The word that holds a byte that is no character by itself, which getopt leaves unless that is the last one. */
static const char *word_with_byte(int argc, char **argv)
{
    bool has_more = optind < argc && argv[optind][0] == '-' && strchr(argv[optind], optopt) != NULL;
    return argv[has_more ? optind : optind - 1];
}

/* What the user wrote, of the option that getopt stumbled over. */
static int report_bad_option(const struct tt_command_usage *usage, int argc, char **argv, bool value_missing)
{
    if (optopt < 0 || (optopt > SCHAR_MAX && optopt <= UCHAR_MAX)) {
        tt_usage_error(usage->name, "unknown option '%s'", word_with_byte(argc, argv));
    } else if (optopt > 0 && optopt < LONG_ONLY_BASE) {
        tt_usage_error(usage->name, value_missing ? "option '-%c' needs a value" : "unknown option '-%c'", optopt);
    } else if (value_missing) {
        tt_usage_error(usage->name, "option '%s' needs a value", argv[optind - 1]);
    } else if (optopt >= LONG_ONLY_BASE) {
        tt_usage_error(usage->name, "option '%s': takes no value", argv[optind - 1]);
    } else {
        tt_usage_error(usage->name, "unknown option '%s'", argv[optind - 1]);
    }
    return ARGUMENTS_BAD;
}

/* The next option's index, with *value set if it takes one; END when only operands are left. */
static int next_option(const struct tt_command_usage *usage, int argc, char **argv, const char **value)
{
    struct getopt_tables tables;
    build_tables(usage, &tables);
    int found = getopt_long(argc, argv, tables.letters, tables.names, NULL);
    if (found == -1) {
        return ARGUMENTS_END;
    }
    if (found == '?' || found == ':') {
        return report_bad_option(usage, argc, argv, found == ':');
    }
    int index = found >= LONG_ONLY_BASE ? found - LONG_ONLY_BASE : option_of_letter(usage, found);
    if (usage->options[index].value != NULL) {
        *value = optarg;
    }
    return index;
}

static bool is_help(const struct tt_option *option)
{
    return option->name != NULL && strcmp(option->name, "help") == 0;
}

enum tt_parse tt_arguments_read(const struct tt_command_usage *usage, int argc, char **argv, tt_option_reader *read,
                                void *target)
{
    const char *value = NULL;
    int option;
    optind = 0; /* glibc: also forget what an earlier scan left */
    opterr = 0;
    while ((option = next_option(usage, argc, argv, &value)) >= 0) {
        if (is_help(&usage->options[option])) {
            tt_usage_print(stdout, usage);
            return TT_PARSE_HELP;
        }
        if (!read(target, option, value)) {
            return TT_PARSE_BAD;
        }
    }
    return option == ARGUMENTS_BAD ? TT_PARSE_BAD : TT_PARSE_OK;
}

enum tt_parse tt_arguments_read_all(const struct tt_command_usage *usage, int argc, char **argv, tt_option_reader *read,
                                    void *target)
{
    enum tt_parse parse = tt_arguments_read(usage, argc, argv, read, target);
    if (parse == TT_PARSE_OK && optind < argc) {
        tt_usage_error(usage->name, "unexpected argument '%s'", argv[optind]);
        parse = TT_PARSE_BAD;
    }
    return parse;
}

void tt_usage_error(const char *command, const char *format, ...)
{
    char line[LINE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    tt_text_clean(line);
    const char *space = command[0] != '\0' ? " " : "";
    fprintf(stderr, "tutti%s%s: %s (see tutti%s%s --help)\n", space, command, line, space, command);
}

void tt_usage_error_value(const char *command, const char *option, const char *value, const char *variable)
{
    const char *reason = tt_last_error();
    char prefix[LINE_BYTES];
    /* The reason speaks of the environment variable, or of the bare value; the user wrote an option. */
    if (variable != NULL) {
        snprintf(prefix, sizeof(prefix), "TUTTI_%s=%s: ", variable, value);
    } else {
        snprintf(prefix, sizeof(prefix), "%s: ", value);
    }
    if (strncmp(reason, prefix, strlen(prefix)) == 0) {
        reason += strlen(prefix);
    }
    tt_usage_error(command, "%s '%s': %s", option, value, reason);
}

bool tt_arguments_count(const char *command, const char *option, const char *text, uint64_t minimum, uint64_t maximum,
                        uint64_t *value)
{
    uint64_t count;
    if (tt_parse_count(text, &count) != TUTTI_OK) {
        bool is_number = text[0] != '\0' && text[strspn(text, "0123456789")] == '\0';
        if (is_number) {
            tt_usage_error(command, "%s '%s': too large, at most %" PRIu64, option, text, maximum);
        } else {
            tt_usage_error(command, "%s '%s': not a number", option, text);
        }
        return false;
    }
    if (count < minimum || count > maximum) {
        tt_usage_error(command, "%s '%s': must be from %" PRIu64 " to %" PRIu64, option, text, minimum, maximum);
        return false;
    }
    *value = count;
    return true;
}

bool tt_arguments_size(const char *command, const char *option, const char *text, uint64_t minimum, uint64_t maximum,
                       uint64_t *bytes)
{
    char least[SIZE_BYTES], most[SIZE_BYTES];
    uint64_t size;
    if (tt_parse_size(text, &size) != TUTTI_OK) {
        tt_usage_error_value(command, option, text, NULL);
        return false;
    }
    if (size < minimum || size > maximum) {
        tt_usage_error(command, "%s '%s': must be from %s to %s", option, text,
                       tt_format_size(minimum, least, sizeof(least)), tt_format_size(maximum, most, sizeof(most)));
        return false;
    }
    *bytes = size;
    return true;
}

void tt_usage_print(FILE *stream, const struct tt_command_usage *usage)
{
    fprintf(stream, "Usage: tutti %s %s\n%s\n\nOptions:\n", usage->name, usage->synopsis, usage->purpose);
    for (size_t i = 0; i < usage->option_count; i++) {
        const struct tt_option *option = &usage->options[i];
        char forms[LINE_BYTES];
        char letter[3] = {option->letter != 0 ? '-' : ' ', option->letter != 0 ? option->letter : ' ', '\0'};
        snprintf(
            forms, sizeof(forms), "  %s%s%s%s%s%s", letter, option->letter != 0 && option->name != NULL ? ", " : "",
            option->letter == 0 ? "  --" : (option->name != NULL ? "--" : ""), option->name != NULL ? option->name : "",
            option->value != NULL ? " " : "", option->value != NULL ? option->value : "");
        fprintf(stream, "%-*s", HELP_COLUMN, forms);
        if (strlen(forms) >= HELP_COLUMN) {
            fprintf(stream, "\n%*s", HELP_COLUMN, "");
        }
        /* A line break in the help text starts a new line at the same column. */
        for (const char *c = option->help; *c != '\0'; c++) {
            fputc(*c, stream);
            if (*c == '\n') {
                fprintf(stream, "%*s", HELP_COLUMN, "");
            }
        }
        fputc('\n', stream);
    }
}
