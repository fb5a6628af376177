/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the parts of the object group's machine share: object.c (objects, the tree, the step), object_join.c,
 * object_transfer.c (blocks), object_close.c, object_watch.c (who is awaited, and for how long), object_failure.c.
 */
#ifndef TT_PROTO_OBJECT_PRIVATE_H
#define TT_PROTO_OBJECT_PRIVATE_H

#include "plan/tree.h"
#include "proto/object.h"

static inline struct tt_object *tt_object_of(struct tt_object_group *group, uint64_t sequence)
{
    return &group->config.objects[sequence % group->config.object_count];
}

/* Member 0 has every object from the start, and receives nothing. */
static inline bool tt_object_is_sender(const struct tt_object_group *group)
{
    return group->config.member == 0;
}

struct tt_object_frame *tt_object_tell(struct tt_object_group *group, enum tt_object_frame_type type, uint32_t to,
                                       uint64_t sequence, struct tt_object_actions *actions);

/* To every child in the tree; the caller fills in a body that is the same for all through `size_bytes`. */
void tt_object_tell_children(struct tt_object_group *group, enum tt_object_frame_type type, uint64_t sequence,
                             uint64_t size_bytes, struct tt_object_actions *actions);

/* How many objects everybody in this member's part of the tree has. */
uint64_t tt_object_reached(const struct tt_object_group *group);

bool tt_object_is_child(const struct tt_object_group *group, uint32_t member);

/* --- Blocks ------------------------------------------------------------------------------------------------------- */

/* Tells READY for what may come next, as far as credit goes. */
void tt_object_grant(struct tt_object_group *group, struct tt_object_actions *actions);

/* Starts the puts that have become possible. Returns whose place was not the one that is due, or TT_OBJECT_NO_MEMBER.
 */
uint32_t tt_object_put(struct tt_object_group *group, struct tt_object_actions *actions);

/* Marks as awaited whoever is not ready for a block that is here for it. */
void tt_object_mark_unready(struct tt_object_group *group);

/* False if it is out of turn. */
bool tt_object_ready(struct tt_object_group *group, uint32_t peer, const struct tt_object_frame *frame);

/* A put has come in. False if nobody waits for it. */
bool tt_object_arrived(struct tt_object_group *group, uint64_t immediate, uint64_t now_ns);

void tt_object_put_done(struct tt_object_group *group, const struct tt_object_event *event,
                        struct tt_object_actions *actions);

/* Everything is here, and everything that this member passes on has left. */
bool tt_object_is_whole(const struct tt_object *object);

/* --- The beginning ------------------------------------------------------------------------------------------------ */

void tt_object_on_join(struct tt_object_group *group, uint64_t now_ns, struct tt_object_actions *actions);

/* JOIN or THERE; false if it is out of turn. Also of a group that has failed, which the sender is then told. */
bool tt_object_join_frame(struct tt_object_group *group, struct tt_object_peer *peer,
                          const struct tt_object_frame *frame, uint64_t now_ns, struct tt_object_actions *actions);

/* Tells the parent, and the surroundings, when enough members are there. */
void tt_object_advance_join(struct tt_object_group *group, struct tt_object_actions *actions);

/* Of a group that has failed for terms that differ: its own. */
void tt_object_tell_terms(struct tt_object_group *group, const struct tt_object_peer *peer,
                          struct tt_object_actions *actions);

/* While joining, in place of tt_object_watch. */
void tt_object_watch_join(struct tt_object_group *group, uint64_t now_ns, bool is_tick,
                          struct tt_object_actions *actions);

/* --- The end ------------------------------------------------------------------------------------------------------ */

/* END or BARRIER or BYE; false if it is out of turn. */
bool tt_object_close_frame(struct tt_object_group *group, const struct tt_object_frame *frame,
                           struct tt_object_actions *actions);

/* Says goodbye to all neighbours, and finishes with success. */
void tt_object_bye(struct tt_object_group *group, struct tt_object_actions *actions);

/* Once everything is complete: the last round. */
void tt_object_advance_close(struct tt_object_group *group, struct tt_object_actions *actions);

/* Whether a round of the barrier is awaited from this member. */
bool tt_object_close_awaits(const struct tt_object_group *group, uint32_t member);

/* --- Failure ------------------------------------------------------------------------------------------------------ */

/* The group fails here with `status`, and at the others with `told`; only the first time counts. */
void tt_object_fail(struct tt_object_group *group, tutti_status status, tutti_status told, uint32_t member,
                    uint64_t now_ns, struct tt_object_actions *actions);

/* The same, noticed by another member. */
void tt_object_fail_as_told(struct tt_object_group *group, tutti_status status, tutti_status told, uint32_t member,
                            uint32_t noticed_by, uint64_t now_ns, struct tt_object_actions *actions);

/* The group has ended, as its status says. */
void tt_object_finish(struct tt_object_group *group, struct tt_object_actions *actions);

/* Tells a neighbour of it, with `told` as the reason. */
void tt_object_tell_failure(struct tt_object_group *group, const struct tt_object_peer *peer, tutti_status told,
                            struct tt_object_actions *actions);

/* Word of it from a neighbour. */
void tt_object_fail_frame(struct tt_object_group *group, struct tt_object_peer *peer,
                          const struct tt_object_frame *frame, uint64_t now_ns, struct tt_object_actions *actions);

/* A put to it has failed, so that no immediate of it comes there. */
void tt_object_put_failed(struct tt_object_group *group, struct tt_object_peer *peer,
                          struct tt_object_actions *actions);

/* Releases everything once nothing is under way any more, and finishes; gives up who is busy for too long, at a TICK.
 */
void tt_object_let_go(struct tt_object_group *group, uint64_t now_ns, bool is_tick, struct tt_object_actions *actions);

/* Looks who is awaited, asks those who are silent, gives up those who do not answer, or itself, at a TICK; sets the
 * deadline. */
void tt_object_watch(struct tt_object_group *group, uint64_t now_ns, bool is_tick, struct tt_object_actions *actions);

#endif
