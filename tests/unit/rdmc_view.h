/* SPDX-License-Identifier: BSD-3-Clause */
/* RDMC's plans for the judge of plan_check.h, and racks of many shapes. */
#ifndef RDMC_VIEW_H
#define RDMC_VIEW_H

#include "plan/rdmc.h"
#include "plan_check.h"

/* The plan must stay as long as the view is used. */
struct plan_view rdmc_view(const struct tt_rdmc *plan);

/* A plan of an algorithm with one lane; fails the test if there can be none. */
struct tt_rdmc rdmc_plan(enum tt_rdmc_algorithm algorithm, uint32_t member_count, uint64_t block_count);

/* A hybrid plan of racks of these sizes; `firsts` is the caller's, as long as `sizes`, and is filled in. */
struct tt_rdmc rdmc_hybrid(const uint32_t *sizes, uint32_t rack_count, uint64_t block_count, uint32_t *firsts);

/* The number of steps, from the table of the paper's algorithms and the header's definition of the hybrid. */
uint64_t rdmc_expected_steps(const struct tt_rdmc *plan);

bool rdmc_is_leader(const struct tt_rdmc *plan, uint32_t member);

#endif
