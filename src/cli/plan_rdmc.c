/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: `tutti plan rdmc`: which block RDMC would send from where to where at which step.
 *
 * Normal path: options, then the checks that need all of them together, then the plan on standard output.
 *
 * Failures: numbers and racks that make no plan are refused with the text as it was written, exit status 2; no memory
 * for the plan of very many members is exit status 1.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/settings.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/plan.h"
#include "cli/plan_rdmc_order.h"
#include "cli/plan_rdmc_print.h"
#include "plan/rdmc.h"

enum { OPTION_ALGORITHM, OPTION_MEMBERS, OPTION_BLOCKS, OPTION_RACKS, OPTION_JSON, OPTION_HELP, OPTION_COUNT };

enum { MEMBER_LIMIT = 1 << 20, NUMBER_BYTES = 24 };

static const struct tt_option options[OPTION_COUNT] = {
    [OPTION_ALGORITHM] = {0, "algorithm", "ALGORITHM",
                          "sequential, chain, binomial-tree, binomial-pipeline (the default) or hybrid"},
    [OPTION_MEMBERS] = {'n', "members", "N", "members of the group, up to 1048576; member 0 has the object"},
    [OPTION_BLOCKS] = {'k', "blocks", "K", "blocks that the object is cut into, up to 4294967296"},
    [OPTION_RACKS] = {0, "racks", "SIZES", "hybrid: how many members each rack has, in order: 4,4,8"},
    [OPTION_JSON] = {0, "json", NULL, "one JSON object instead of the text"},
    [OPTION_HELP] = {'h', "help", NULL, "this text"},
};

static const struct tt_command_usage usage = {
    .name = "plan rdmc",
    .synopsis = "-n N -k K [OPTION]...",
    .purpose = "Prints the schedule by which RDMC takes an object from member 0 to all others: a line for every block\n"
               "that is sent, and for small plans a drawing of what each member receives.",
    .options = options,
    .option_count = OPTION_COUNT,
};

struct arguments {
    enum tt_rdmc_algorithm algorithm;
    const char *members_text, *racks_text; /* NULL: not given */
    uint64_t member_count, block_count;    /* 0: not given */
    bool json;
};

static bool parse_option(void *target, int option, const char *text)
{
    struct arguments *arguments = target;
    switch (option) {
    case OPTION_ALGORITHM:
        if (!tt_rdmc_of_word(text, &arguments->algorithm)) {
            tt_usage_error(usage.name,
                           "--algorithm '%s': not an algorithm (sequential, chain, binomial-tree, binomial-pipeline or "
                           "hybrid)",
                           text);
            return false;
        }
        return true;
    case OPTION_MEMBERS:
        arguments->members_text = text;
        return tt_arguments_count(usage.name, "-n", text, 1, MEMBER_LIMIT, &arguments->member_count);
    case OPTION_BLOCKS:
        return tt_arguments_count(usage.name, "-k", text, 1, TT_RDMC_MOST_BLOCKS, &arguments->block_count);
    case OPTION_RACKS:
        arguments->racks_text = text;
        return true;
    default:
        arguments->json = arguments->json || option == OPTION_JSON;
        return true;
    }
}

static bool check_together(const struct arguments *arguments)
{
    if (arguments->member_count == 0) {
        tt_usage_error(usage.name, "no number of members given (-n)");
    } else if (arguments->block_count == 0) {
        tt_usage_error(usage.name, "no number of blocks given (-k)");
    } else if (arguments->algorithm == TT_RDMC_HYBRID && arguments->racks_text == NULL) {
        tt_usage_error(usage.name, "--algorithm 'hybrid': needs the sizes of the racks (--racks)");
    } else if (arguments->algorithm != TT_RDMC_HYBRID && arguments->racks_text != NULL) {
        tt_usage_error(usage.name, "--racks '%s': only with --algorithm hybrid, not %s", arguments->racks_text,
                       tt_rdmc_word(arguments->algorithm));
    } else {
        return true;
    }
    return false;
}

static enum tt_parse parse_arguments(int argc, char **argv, struct arguments *arguments)
{
    *arguments = (struct arguments){.algorithm = TT_RDMC_BINOMIAL_PIPELINE};
    enum tt_parse parse = tt_arguments_read_all(&usage, argc, argv, parse_option, arguments);
    return parse == TT_PARSE_OK && !check_together(arguments) ? TT_PARSE_BAD : parse;
}

/* One size of the list; *text moves behind it. */
static bool read_size(const char *whole, const char **text, uint32_t *size)
{
    char number[NUMBER_BYTES];
    int length = (int)strcspn(*text, ",");
    uint64_t count = 0;
    int written = snprintf(number, sizeof(number), "%.*s", length, *text);
    if (written >= NUMBER_BYTES || tt_parse_count(number, &count) != TUTTI_OK || count < 1 || count > MEMBER_LIMIT) {
        tt_usage_error(usage.name, "--racks '%s': '%.*s' is not a number of members from 1 to %d", whole, length, *text,
                       MEMBER_LIMIT);
        return false;
    }
    *text += length;
    *size = (uint32_t)count;
    return true;
}

/* `firsts` has room for as many racks as the text has commas, and one more. */
static bool read_racks(const struct arguments *arguments, uint32_t *firsts, uint32_t *rack_count)
{
    const char *text = arguments->racks_text;
    uint64_t members = 0;
    uint32_t racks = 0;
    for (;;) {
        uint32_t size;
        if (!read_size(arguments->racks_text, &text, &size)) {
            return false;
        }
        if (members < arguments->member_count) {
            firsts[racks++] = (uint32_t)members;
        }
        members += size;
        if (*text == '\0') {
            break;
        }
        text++;
    }
    if (members != arguments->member_count) {
        tt_usage_error(usage.name, "--racks '%s': %" PRIu64 " members in all, but -n is '%s'", arguments->racks_text,
                       members, arguments->members_text);
        return false;
    }
    *rack_count = racks;
    return true;
}

static size_t count_sizes(const char *text)
{
    size_t count = 1;
    for (; *text != '\0'; text++) {
        count += *text == ',';
    }
    return count;
}

static int no_memory(uint64_t member_count)
{
    fprintf(stderr, "tutti %s: not enough memory for the plan of %" PRIu64 " members\n", usage.name, member_count);
    return TT_EXIT_FAILED;
}

/* `firsts` is NULL where there are no racks. */
static int print_plan(const struct arguments *arguments, uint32_t *firsts)
{
    struct tt_rdmc plan;
    struct tt_plan_order order;
    uint32_t rack_count = 0;
    if (firsts != NULL && !read_racks(arguments, firsts, &rack_count)) {
        return TT_EXIT_USAGE;
    }
    bool made = tt_rdmc_init(&plan, arguments->algorithm, (uint32_t)arguments->member_count, arguments->block_count,
                             firsts, rack_count);
    assert(made); /* the options were checked */
    if (!made || !tt_plan_order_create(&plan, &order)) {
        return no_memory(arguments->member_count);
    }
    (arguments->json ? tt_plan_rdmc_print_json : tt_plan_rdmc_print)(&plan, &order);
    tt_plan_order_destroy(&order);
    return TT_EXIT_OK;
}

int tt_plan_rdmc(int argc, char **argv)
{
    struct tt_settings settings;
    struct arguments arguments;
    if (!tt_command_settings(usage.name, &settings)) {
        return TT_EXIT_USAGE;
    }
    enum tt_parse parse = parse_arguments(argc, argv, &arguments);
    if (parse == TT_PARSE_HELP) {
        return tt_command_finish(usage.name, TT_EXIT_OK);
    }
    if (parse == TT_PARSE_BAD || !tt_command_log(usage.name, &settings)) {
        return TT_EXIT_USAGE;
    }
    uint32_t *firsts = NULL;
    if (arguments.racks_text != NULL) {
        firsts = calloc(count_sizes(arguments.racks_text), sizeof(*firsts));
        if (firsts == NULL) {
            return no_memory(arguments.member_count);
        }
    }
    int status = print_plan(&arguments, firsts);
    free(firsts);
    return tt_command_finish(usage.name, status);
}
