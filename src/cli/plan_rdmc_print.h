/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An RDMC plan on standard output. Transfers are written as they are computed, so a plan may be larger than memory;
 * writing ends early where standard output takes no more, which tt_command_finish() then reports.
 */
#ifndef TT_CLI_PLAN_RDMC_PRINT_H
#define TT_CLI_PLAN_RDMC_PRINT_H

#include "cli/plan_rdmc_order.h"
#include "plan/rdmc.h"

/* Lines that begin with '#' (sizes, a drawing where there is room for one, a heading), then a line for each transfer.
 */
void tt_plan_rdmc_print(const struct tt_rdmc *plan, struct tt_plan_order *order);

/* The same as one JSON object, without the drawing. */
void tt_plan_rdmc_print_json(const struct tt_rdmc *plan, struct tt_plan_order *order);

#endif
