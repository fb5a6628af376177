/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of the member machine share. */
#ifndef TT_PROTO_MEMBER_PRIVATE_H
#define TT_PROTO_MEMBER_PRIVATE_H

#include <assert.h>

#include "proto/member.h"

static inline bool tt_member_has_slot(const struct tt_member *member, uint64_t sequence)
{
    return sequence >= member->oldest && sequence - member->oldest < tt_member_slots(member->config.in_flight);
}

/* Also that of one which has just finished, until others have got so far ahead that they need it. */
static inline struct tt_member_slot *tt_member_slot_of(const struct tt_member *member, uint64_t sequence)
{
    uint64_t count = tt_member_slots(member->config.in_flight), ahead = sequence - member->oldest;
    uint64_t index = member->oldest_slot + (ahead < count ? ahead : ahead + count); /* the latter: it is before that */

    assert(ahead < count || ahead + count < count);
    return &member->config.slots[index < count ? index : index - count];
}

/* Whatever is in progress has a sequence number from `oldest` to before this one. */
static inline uint64_t tt_member_end(const struct tt_member *member)
{
    uint64_t end = member->oldest + member->config.in_flight;

    return member->next_sequence < end ? member->next_sequence : end;
}

/* A frame to every neighbour but `except`; those that have left need not know. */
void tt_member_tell(struct tt_member *member, const struct tt_frame *frame, uint32_t except,
                    struct tt_actions *actions);

/* Notes the group's failure, the first one only, and tells the neighbours but `told_by`; the collectives end
 * afterwards, as far as the list of actions has room. */
void tt_member_fail(struct tt_member *member, tutti_status status, uint32_t rank, uint32_t told_by,
                    struct tt_actions *actions);

static inline bool tt_member_has_room(const struct tt_actions *actions, uint32_t count)
{
    return actions->capacity - actions->count >= count;
}

/* One step of one of the member's collectives, and what follows from it for the member. */
void tt_member_step_collective(struct tt_member *member, struct tt_collective *collective,
                               const struct tt_collective_event *event, struct tt_actions *actions);

/* A rank means another collective than this one: the group fails. */
void tt_member_disagree(struct tt_member *member, const struct tt_collective_terms *here,
                        const struct tt_collective_terms *there, uint32_t rank, struct tt_actions *actions);

/* TT_RANK_NONE: the rank is no neighbour. */
uint32_t tt_member_neighbour_index(const struct tt_member *member, uint32_t rank);

/* --- member_early.c ----------------------------------------------------------------------------------------------- */

/* A frame for a collective that has not been started here yet. */
void tt_member_keep_early(struct tt_member *member, const struct tt_frame *frame);

/* Hands a collective that has just been started the frames that were kept for it. */
void tt_member_replay_early(struct tt_member *member, struct tt_collective *collective, uint64_t now_ns,
                            struct tt_actions *actions);

/* --- member_turn.c ------------------------------------------------------------------------------------------------ */

/* Before a collective's step: whether it may begin to transmit. */
void tt_member_give_turn(const struct tt_member *member, struct tt_collective *collective);

/* Lets those begin whose turn it has become. */
void tt_member_advance_turns(struct tt_member *member, uint64_t now_ns, struct tt_actions *actions);

/* --- member_eager.c ----------------------------------------------------------------------------------------------- */

void tt_member_start_eager(struct tt_member *member, struct tt_collective *collective);
/* An eager Allgather, before its step: whether its copy may be made now. */
void tt_member_before_step(struct tt_member *member, struct tt_collective *collective);
void tt_member_ended_eager(struct tt_member *member, const struct tt_collective *collective);

/* Somebody has finished all collectives before this one: whatever of their data is not here may be lost. */
void tt_member_on_evidence(struct tt_member *member, uint64_t finished, uint64_t now_ns);

/* Everybody has posted this one. Who had room for the data of an eager one before it has sent that by now, and as far
 * as is known here there was room. */
void tt_member_on_barrier(struct tt_member *member, uint64_t sequence, uint64_t now_ns);

/* Lets roots send that have got credit, and takes part in a round of acknowledgments. */
void tt_member_advance_eager(struct tt_member *member, uint64_t now_ns, struct tt_actions *actions);

/* Whether a frame is about an eager collective that has ended here: a question, or the barrier of another kind. */
bool tt_member_has_copy(const struct tt_member *member, const struct tt_frame *frame);

/* FINAL: whether it says that the right neighbour reads from a copy no more. */
bool tt_member_ends_copy(struct tt_member *member, const struct tt_frame *frame);

/* ASK and FETCH of the right neighbour for a collective that has ended here. */
void tt_member_serve_copy(struct tt_member *member, const struct tt_frame *frame, struct tt_actions *actions);

#endif
