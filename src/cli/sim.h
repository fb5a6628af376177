/* SPDX-License-Identifier: BSD-3-Clause */
/* The kinds of `tutti sim`. Each gets its own name as argv[0] and returns the exit status of the process. */
#ifndef TT_CLI_SIM_H
#define TT_CLI_SIM_H

int tt_sim_trigger(int argc, char **argv);

#endif
