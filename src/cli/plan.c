/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: `tutti plan`: finds the kind of plan that is to be printed and leaves the rest of the command line to it.
 *
 * Normal path: tutti plan KIND ARGUMENTS; or --help, which prints to standard output. Nothing is started or sent.
 *
 * Failures: no kind, or an unknown one: one line on standard error, exit status 2.
 */
#include "cli/plan.h"

#include <stdio.h>
#include <string.h>

#include "cli/arguments.h"
#include "cli/command.h"

static const struct plan {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *purpose;
} plans[] = {
    /* One line a kind, in the order of the help. */
    {"rdmc", tt_plan_rdmc, "RDMC's schedules of block transfers, one line a transfer"},
    {"endpoints", tt_plan_endpoints, "what threads take from a NIC in each category of scalable endpoints"},
    {NULL, NULL, NULL},
};

static const char command[] = "plan";

static void print_help(void)
{
    puts("Usage: tutti plan KIND [OPTION]...\n"
         "Prints what would be done, without doing it.\n\n"
         "Kinds:");
    for (const struct plan *plan = plans; plan->name != NULL; plan++) {
        printf("  %-12s%s\n", plan->name, plan->purpose);
    }
    puts("\n  --help        this text; tutti plan KIND --help: its options");
}

int tt_command_plan(int argc, char **argv)
{
    if (argc < 2) {
        tt_usage_error(command, "no kind of plan given");
        return TT_EXIT_USAGE;
    }
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        if (argc > 2) {
            tt_usage_error(command, "unexpected argument '%s'", argv[2]);
            return TT_EXIT_USAGE;
        }
        print_help();
        return tt_command_finish(command, TT_EXIT_OK);
    }
    for (const struct plan *plan = plans; plan->name != NULL; plan++) {
        if (strcmp(name, plan->name) == 0) {
            return plan->run(argc - 1, argv + 1);
        }
    }
    tt_usage_error(command, "unknown %s '%s'", name[0] == '-' ? "option" : "kind", name);
    return TT_EXIT_USAGE;
}
