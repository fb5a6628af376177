/* SPDX-License-Identifier: BSD-3-Clause */
/* The roll call that finds out who is missing when a deadline comes. Part of the member machine. */
#ifndef TT_PROTO_ROLLCALL_H
#define TT_PROTO_ROLLCALL_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/action.h"

struct tt_member;

void tt_rollcall_frame(struct tt_member *member, const struct tt_frame *frame, uint64_t now_ns,
                       struct tt_actions *actions);

/* When a collective in flight is given up: so long after its post, or after one before it has ended at last, if that is
 * later; UINT64_MAX: never. What waits in line has the time of those in flight, and its own when its turn has come. */
uint64_t tt_rollcall_deadline(const struct tt_member *member, const struct tt_collective *collective);

/* If a collective's deadline is near: asks; if it has come: makes the group fail, and names who is missing. */
void tt_rollcall_tick(struct tt_member *member, struct tt_collective *collective, uint64_t now_ns,
                      struct tt_actions *actions);

/* Whether none of two or more other ranks is known to have posted what the roll call is about. */
bool tt_rollcall_is_unanswered(const struct tt_member *member);

/* Asserts what always holds. */
void tt_rollcall_check(const struct tt_member *member);

#endif
