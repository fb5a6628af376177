/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs of `tutti sim trigger`, and how they are told. */
#ifndef TT_CLI_SIM_TRIGGER_REPORT_H
#define TT_CLI_SIM_TRIGGER_REPORT_H

#include "cli/json.h"
#include "cli/sim_trigger_arguments.h"

/* One size and number of jobs, by the models that were asked for. */
struct tt_costsim_point {
    struct tt_costsim_terms terms;
    bool has_host, has_offload;
    struct tt_costsim_result host, offload;
};

/* False: the first fault has been reported. */
bool tt_costsim_point_run(struct tt_costsim_point *point);

/* How many times faster the NIC is; 0: there are not both. */
double tt_costsim_speedup(const struct tt_costsim_point *point);

/* The lines that begin with '#' and say what was simulated. */
void tt_costsim_print_terms(const struct tt_costsim_terms *terms);

/* What --paper prints; false: a fault has been reported, and nothing was printed. */
bool tt_costsim_paper(const struct tt_costsim_arguments *arguments);

void tt_costsim_json_terms(struct tt_json *json, const struct tt_costsim_terms *terms);
void tt_costsim_json_point(struct tt_json *json, const struct tt_costsim_point *point);

/* What tt_usage_error() and others call it. */
extern const char tt_sim_trigger_name[];

#endif
