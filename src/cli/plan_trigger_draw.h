/* SPDX-License-Identifier: BSD-3-Clause */
/* The steps of all ranks of a schedule, as if time were counted: in a step a rank sends one message at most and
 * receives one at most, and passes on only what it has from an earlier step. */
#ifndef TT_CLI_PLAN_TRIGGER_DRAW_H
#define TT_CLI_PLAN_TRIGGER_DRAW_H

#include "plan/schedule.h"

enum { TT_PLAN_TRIGGER_DRAWN_RANKS = 16 };

/* Lines that begin with '#': one for each rank, a column for each step. Nothing if there are more ranks than that,
 * fewer than two, more steps than fit a line, or no memory for a drawing. */
void tt_plan_trigger_draw(const struct tt_schedule *schedule, const struct tt_blocks *blocks);

#endif
