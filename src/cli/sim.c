/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: `tutti sim`: finds the kind of simulation and leaves the rest of the command line to it.
 *
 * Normal path: tutti sim KIND ARGUMENTS; or --help, which prints to standard output.
 *
 * Failures: no kind, or an unknown one: one line on standard error, exit status 2.
 */
#include "cli/sim.h"

#include <stddef.h>

#include "cli/command.h"

static const struct tt_command_kind simulations[] = {
    /* One line a kind, in the order of the help. */
    {"trigger", tt_sim_trigger, "collectives by triggered NICs, and the same sequences by their hosts"},
    {NULL, NULL, NULL},
};

int tt_command_sim(int argc, char **argv)
{
    static const struct tt_command_kinds kinds = {
        .command = "sim",
        .noun = "simulation",
        .help = "Simulates in virtual time what this machine has no hardware for.",
        .kinds = simulations};

    return tt_command_choose(&kinds, argc, argv);
}
