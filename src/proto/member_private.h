/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of the member machine share. */
#ifndef TT_PROTO_MEMBER_PRIVATE_H
#define TT_PROTO_MEMBER_PRIVATE_H

#include "proto/member.h"

struct tt_member_slot *tt_member_slot_of(struct tt_member *member, uint64_t sequence);

/* A frame to every neighbour but `except`; those that have left need not know. */
void tt_member_tell(struct tt_member *member, const struct tt_frame *frame, uint32_t except,
                    struct tt_actions *actions);

/* Notes the group's failure, the first one only, and tells the neighbours but `told_by`; the collectives end
 * afterwards, as far as the list of actions has room. */
void tt_member_fail(struct tt_member *member, tutti_status status, uint32_t rank, uint32_t told_by,
                    struct tt_actions *actions);

#endif
