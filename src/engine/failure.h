/* SPDX-License-Identifier: BSD-3-Clause */
/* The sentence that says why a group failed. */
#ifndef TT_ENGINE_FAILURE_H
#define TT_ENGINE_FAILURE_H

#include "engine/group.h"

/* "rank 3 on node7"; "rank 3" if all ranks are on one host. Returns `text`. */
enum { TT_RANK_TEXT_BYTES = TT_LOCALITY_NAME_BYTES + 24 };
const char *tt_failure_rank(const struct tt_group *group, uint32_t rank, char text[TT_RANK_TEXT_BYTES]);

/* What is to be suspected where short messages get through and others do not: a switch port with a smaller MTU than the
 * interfaces', which have a long one. "" if theirs is the usual one, or all ranks are on one host. Returns `text`. */
enum { TT_MTU_TEXT_BYTES = 192 };
const char *tt_failure_mtu(const struct tt_group *group, char text[TT_MTU_TEXT_BYTES]);

/* What was refused for want of a descriptor so far is not what a failure of the new group is about. */
void tt_failure_begin(struct tt_group *group);

/* Whom this rank names where its machine names `rank`: itself, if that one cannot reach it for want of a descriptor
 * here. */
uint32_t tt_failure_about(const struct tt_group *group, uint32_t rank);

/* Composes and logs the sentence, once a group. */
void tt_failure_note(struct tt_group *group, tutti_status status, uint32_t rank);

#endif
