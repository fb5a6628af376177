/* SPDX-License-Identifier: BSD-3-Clause */
/* What a group's machine asks for, done with the fabric, the kernels and the workers. Control's. */
#ifndef TT_ENGINE_CARRY_OUT_H
#define TT_ENGINE_CARRY_OUT_H

#include "engine/group.h"
#include "proto/action.h"

/* Answers that an action has (proto/action.h) come later, as events; a request that this one finishes may be gone
 * afterwards. */
void tt_group_carry_out(struct tt_group *group, const struct tt_action *action);

#endif
