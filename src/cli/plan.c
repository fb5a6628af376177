/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: `tutti plan`: finds the kind of plan that is to be printed and leaves the rest of the command line to it.
 *
 * Normal path: tutti plan KIND ARGUMENTS; or --help, which prints to standard output. Nothing is started or sent.
 *
 * Failures: no kind, or an unknown one: one line on standard error, exit status 2.
 */
#include "cli/plan.h"

#include <stddef.h>

#include "cli/command.h"

static const struct tt_command_kind plans[] = {
    /* One line a kind, in the order of the help. */
    {"rdmc", tt_plan_rdmc, "RDMC's schedules of block transfers, one line a transfer"},
    {"endpoints", tt_plan_endpoints, "what threads take from a NIC in each category of scalable endpoints"},
    {"trigger", tt_plan_trigger, "descriptors by which a triggered NIC does a rank's part of a collective"},
    {NULL, NULL, NULL},
};

int tt_command_plan(int argc, char **argv)
{
    static const struct tt_command_kinds kinds = {
        .command = "plan", .noun = "plan", .help = "Prints what would be done, without doing it.", .kinds = plans};

    return tt_command_choose(&kinds, argc, argv);
}
