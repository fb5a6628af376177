/* SPDX-License-Identifier: BSD-3-Clause */
/* The sentence that says why a group failed. */
#ifndef TT_ENGINE_FAILURE_H
#define TT_ENGINE_FAILURE_H

#include "engine/group.h"

/* Composes and logs the sentence, once a group. */
void tt_failure_note(struct tt_group *group, tutti_status status, uint32_t rank);

#endif
