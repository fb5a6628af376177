/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of the collective machine share. */
#ifndef TT_PROTO_COLLECTIVE_PRIVATE_H
#define TT_PROTO_COLLECTIVE_PRIVATE_H

#include "plan/dissemination.h"
#include "proto/collective.h"

static inline uint32_t tt_collective_left(const struct tt_collective *c)
{
    return tt_rank_subtract(c->config.rank, 1, c->config.size);
}

static inline uint32_t tt_collective_right(const struct tt_collective *c)
{
    return tt_rank_add(c->config.rank, 1, c->config.size);
}

static inline struct tt_frame *tt_collective_send(struct tt_collective *c, enum tt_frame_type type, uint32_t to,
                                                  struct tt_actions *actions)
{
    struct tt_action *action = tt_actions_add(actions, TT_ACTION_SEND, c);

    action->to = to;
    action->body.frame = c->template;
    action->body.frame.type = type;
    return &action->body.frame;
}

static inline bool tt_collective_has_block(const struct tt_collective *c)
{
    return c->own_root_index != TT_RANK_NONE;
}

static inline bool tt_collective_multicasts(const struct tt_collective *c)
{
    return tt_method_is_multicast(c->config.terms.method);
}

/* Whether it begins without a barrier and ends without a handshake, by multicast. */
static inline bool tt_collective_is_eager(const struct tt_collective *c)
{
    return tt_method_keeps_copies(c->config.terms.method);
}

/* Whether its blocks are gathered, and multicast by one rank. */
static inline bool tt_collective_is_gathered(const struct tt_collective *c)
{
    return c->config.terms.method == TT_METHOD_GATHER;
}

/* Whether an object group moves it. */
static inline bool tt_collective_is_relayed(const struct tt_collective *c)
{
    return tt_method_is_relayed(c->config.terms.method) && !c->nothing;
}

/* Without bytes there is nothing to pass on: then it is a barrier like any other. */
static inline bool tt_collective_is_tree(const struct tt_collective *c)
{
    return c->config.terms.method == TT_METHOD_TREE && !c->nothing;
}

/* Whether it is multicast behind a barrier, which ends with the root's release. */
static inline bool tt_collective_is_released(const struct tt_collective *c)
{
    return c->config.terms.method == TT_METHOD_MULTICAST && !c->nothing;
}

/* Whether its root hears from everybody before anything is multicast. */
static inline bool tt_collective_gathers(const struct tt_collective *c)
{
    return tt_collective_is_gathered(c) || tt_collective_is_released(c);
}

/* Whether it may end on some ranks before others have begun, so that its root needs to know how far all have got. */
static inline bool tt_collective_needs_credit(const struct tt_collective *c)
{
    return tt_collective_is_eager(c) || tt_collective_is_tree(c);
}

/* --- collective.c ------------------------------------------------------------------------------------------------- */

/* Chunks that the kernels have placed so far. */
uint32_t tt_collective_received(const struct tt_collective *c);

void tt_collective_freeze(struct tt_collective *c, struct tt_actions *actions);
void tt_collective_enter_fetch(struct tt_collective *c, struct tt_actions *actions);
void tt_collective_enter_handshake(struct tt_collective *c, struct tt_actions *actions);
void tt_collective_finish(struct tt_collective *c, tutti_status status, uint32_t rank, struct tt_actions *actions);

static inline bool tt_collective_buffers_are_free(const struct tt_collective *c)
{
    return (c->frozen || !c->published) && (!c->transmitting || c->sent) && c->fetch.active_runs == 0 &&
           (!c->relaying || c->relayed);
}

/* --- collective_barrier.c ----------------------------------------------------------------------------------------- */

/* In BARRIER. */
void tt_collective_advance_barrier(struct tt_collective *c, uint64_t now_ns, struct tt_actions *actions);

/* A BARRIER frame; false if it is out of turn. */
bool tt_collective_note_barrier(struct tt_collective *c, const struct tt_frame *frame);

/* Looks whether the release has come; it may come behind what else says that the barrier is over. */
void tt_collective_note_release(struct tt_collective *c, uint64_t now_ns);

/* --- collective_failure.c ----------------------------------------------------------------------------------------- */

void tt_collective_on_fail(struct tt_collective *c, const struct tt_collective_event *event,
                           struct tt_actions *actions);

/* In FAILING. */
void tt_collective_advance_failing(struct tt_collective *c, uint64_t now_ns, struct tt_actions *actions);

/* Whether there are reads that will be waited for until the patience ends. */
bool tt_collective_needs_patience(const struct tt_collective *c);

/* --- collective_eager.c ------------------------------------------------------------------------------------------- */

/* Notes a frame; false if it is out of turn. */
bool tt_collective_note_eager(struct tt_collective *c, const struct tt_frame *frame, struct tt_actions *actions);

/* In RECEIVE. */
void tt_collective_advance_eager(struct tt_collective *c, uint64_t now_ns, struct tt_actions *actions);

/* Answers what the right neighbour fetches while this rank is not complete either. */
void tt_collective_serve_eager(struct tt_collective *c, struct tt_actions *actions);

/* Everything is here, and nothing touches the buffers any more: a copy stays for the right neighbour. */
void tt_collective_finish_eager(struct tt_collective *c, struct tt_actions *actions);

/* Whether the left neighbour has been asked for data. */
static inline bool tt_collective_has_fetched(const struct tt_collective *c)
{
    return c->fetch.scan_subgroup > 0 || c->fetch.scan_psn > 0;
}

/* How many roots the collective has. */
static inline uint32_t tt_collective_roots(const struct tt_collective *c)
{
    return tt_terms_roots(&c->config.terms, c->config.size);
}

#endif
