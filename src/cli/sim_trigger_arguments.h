/* SPDX-License-Identifier: BSD-3-Clause */
/* What `tutti sim trigger` is to simulate. */
#ifndef TT_CLI_SIM_TRIGGER_ARGUMENTS_H
#define TT_CLI_SIM_TRIGGER_ARGUMENTS_H

#include "cli/arguments.h"
#include "cli/sim_trigger_world.h"

enum { TT_COSTSIM_LIST_LIMIT = 32, TT_COSTSIM_PAPER_JOBS = 32 /* the most that --paper runs */ };

struct tt_costsim_list {
    uint64_t values[TT_COSTSIM_LIST_LIMIT];
    size_t count;
};

struct tt_costsim_arguments {
    struct tt_costsim_terms terms; /* but for what the lists and `models` say */
    struct tt_costsim_list sizes, jobs;
    bool host, offload; /* which models */
    bool is_paper, json;
};

/* BAD has been reported, HELP printed. */
enum tt_parse tt_costsim_arguments_parse(int argc, char **argv, struct tt_costsim_arguments *arguments);

/* The algorithm that a collective has if nothing is said; the paper's where it measures it. */
enum tt_schedule_algorithm tt_costsim_default_algorithm(enum tt_schedule_collective collective);

#endif
