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

static inline bool tt_collective_is_eager(const struct tt_collective *c)
{
    return c->config.terms.method == TT_METHOD_EAGER;
}

/* How many roots the collective has. */
static inline uint32_t tt_collective_roots(const struct tt_collective *c)
{
    return c->config.terms.kind == TT_ALLGATHER ? c->config.size : 1;
}

#endif
