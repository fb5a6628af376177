/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the protocol machines ask their surroundings to do. A step appends to a list; the surroundings carry it out in
 * order before the next step.
 */
#ifndef TT_PROTO_ACTION_H
#define TT_PROTO_ACTION_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "tutti/status.h"
#include "wire/frame.h"

struct tt_collective;

enum tt_action_type {
    TT_ACTION_SEND,    /* send `frame` to rank `to` over p2p; for AVAILABLE fill in address and key: of the receive
                          buffer, or, without a collective, of the ring of copies (add its address); for DATA the
                          bytes, from the receive buffer */
    TT_ACTION_PUBLISH, /* publish the collective's streams: chunks may come from now on. Where blocks are gathered, copy
                          the own one into place first (a vector that is combined is there). */
    TT_ACTION_TRANSMIT, /* own block: copy it into place and multicast it, as far as tt_collective_send_limit allows;
                           again when the limit has grown. Answer: TT_EVENT_SENT when all is sent and in place. */
    TT_ACTION_CANCEL,   /* stop transmitting; answer: TT_EVENT_SENT, when the send buffer is no longer read */
    TT_ACTION_FREEZE,   /* retire the streams; answer: TT_EVENT_FROZEN, when no thread touches them any more */
    TT_ACTION_GET,      /* read from rank `to`; answer: TT_EVENT_GOT with the same run */
    TT_ACTION_ABANDON,  /* break the connection to rank `to`: it ends the gets that are under way here and there, at the
                           price of all groups that use it; answer: TT_EVENT_GOT for each */
    TT_ACTION_COMBINE,  /* at the root: the blocks of all ranks are here, and become the own block, or the result that
                           nobody else gets; where vectors fold (tt_terms_fold()), the own one and the children's become
                           the first, of which the root makes its block, and what others send up next */
    TT_ACTION_KEEP,     /* eager: copy the receive buffer to the ring of copies, at keep.offset_bytes */
    TT_ACTION_RELAY,    /* have the data moved by whom the method names; answer: TT_EVENT_RELAYED, when what is this
                           rank's is here, and nothing reads or writes the buffers for that any more */
    TT_ACTION_UNRELAY,  /* give that up, for the group's reason; answer: the same */
    TT_ACTION_PROBE,    /* multicast a probe chunk on every subgroup */
    TT_ACTION_PROBED,   /* the start-up probe has ended: finish.status, and probe.multicast */
    TT_ACTION_FINISH    /* the collective has ended; the machine lets go of it */
};

struct tt_action {
    enum tt_action_type type;
    uint32_t to; /* rank */
    struct tt_collective *collective;
    union {
        struct tt_frame frame;
        struct {
            uint64_t remote_address, offset_bytes, length_bytes; /* offset: in the receive buffer */
            const uint8_t *key;
            uint32_t key_bytes;
            uint32_t run;
        } get;
        struct {
            uint64_t offset_bytes, length_bytes;
        } keep;
        struct {
            tutti_status status;
            uint32_t rank; /* whom an error is about, or TT_RANK_NONE */
        } finish;
        struct {
            bool multicast;       /* it gets through to everybody */
            uint32_t failed_rank; /* the lowest rank that somebody did not hear, or TT_RANK_NONE */
            uint32_t deaf_rank;   /* the lowest rank that did not hear somebody, or TT_RANK_NONE */
            uint32_t deaf_count;
        } probe;
    } body;
};

struct tt_actions {
    uint32_t count;
    uint32_t capacity; /* at least tt_actions_capacity(size) */
    bool more;         /* the list was too short for all there is to do: carry it out and step again with TICK */
    struct tt_action *list;
};

/* What one collective can ask for in one step: fetches, gets, answers, pieces of blocks, what children are told, and
 * small change. */
static inline uint32_t tt_actions_worst(uint32_t size)
{
    return 96 + 2 * size;
}

static inline uint32_t tt_actions_capacity(uint32_t size)
{
    return 2 * tt_actions_worst(size);
}

static inline struct tt_action *tt_actions_add(struct tt_actions *actions, enum tt_action_type type,
                                               struct tt_collective *collective)
{
    struct tt_action *action = &actions->list[actions->count];

    assert(actions->count < actions->capacity);
    actions->count++;
    action->type = type;
    action->collective = collective;
    action->to = TT_RANK_NONE;
    return action;
}

/* A frame as the template, of this type; the caller fills in the body. */
static inline struct tt_frame *tt_actions_send(struct tt_actions *actions, struct tt_collective *collective,
                                               enum tt_frame_type type, uint32_t to, const struct tt_frame *template)
{
    struct tt_action *action = tt_actions_add(actions, TT_ACTION_SEND, collective);

    action->to = to;
    action->body.frame = *template;
    action->body.frame.type = type;
    return &action->body.frame;
}

#endif
