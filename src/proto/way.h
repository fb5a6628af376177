/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a collective works, put together from three parts:
 *
 *   - the gate: what has to be known before data moves (everybody has posted, or there is room everywhere);
 *   - the mover: how data moves (chunks by multicast, reads around the ring, frames down a tree, somebody else);
 *   - the completion: when the buffers are the application's again (the neighbours have said so, or there is a copy).
 *
 *     method      gate       mover     completion
 *     ring        barrier    reads     handshake
 *     multicast   release    chunks    handshake
 *     eager       open       eager     copy
 *     gather      open       gathered  copy
 *     tree        open       tree      none
 *     parts       release    parts     handshake
 *     eager-parts barrier    eager_parts copy
 *     by blocks   barrier    relay     none
 *     triggered   barrier    triggered none
 *     (no bytes)  barrier    nothing   none
 *
 * The collective machine (collective.h) asks none of them which it is: it calls what their tables have. An operation
 * that is NULL has nothing to do. What is fixed of a method for others than the machine is in base/method.h.
 */
#ifndef TT_PROTO_WAY_H
#define TT_PROTO_WAY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/method.h"
#include "proto/action.h"
#include "wire/frame.h"

struct tt_collective;

struct tt_gate {
    bool is_open;  /* it may end on some ranks before others have begun: its root needs to know how far all have got */
    bool releases; /* the root multicasts that it is over */
    bool gathers;  /* the root hears from everybody by way of GATHER frames */

    /* Posted. The gate opens now or later: tt_collective_open. */
    void (*start)(struct tt_collective *collective, uint64_t now_ns, struct tt_actions *actions);
    /* In BARRIER. */
    void (*advance)(struct tt_collective *collective, uint64_t now_ns, struct tt_actions *actions);
    /* False if the frame is not the gate's, or out of turn. */
    bool (*frame)(struct tt_collective *collective, uint64_t now_ns, const struct tt_frame *frame,
                  struct tt_actions *actions);
    uint64_t (*deadline)(const struct tt_collective *collective);
    /* In BARRIER: whom it waits for most directly. */
    uint32_t (*waits_for)(const struct tt_collective *collective);
    /* Asserts what always holds, from the start on, of a collective that has not failed. */
    void (*check)(const struct tt_collective *collective);
};

struct tt_mover {
    bool multicasts;  /* chunks come through the kernel */
    bool gathers;     /* as a gate */
    bool makes_block; /* the own block is there only when RELAYED has come */

    /* Of all ranks that give. NULL: there is no limit. */
    uint64_t (*most_bytes)(enum tt_collective_kind kind, uint32_t size);
    /* Posted, and the gate may be shut for some time: what goes ahead nonetheless, if it may (relay.may_go_ahead).
     * NULL: nothing does. */
    void (*ahead)(struct tt_collective *collective, struct tt_actions *actions);
    /* The gate has opened, or tells by this call that it was never shut; sets the state. */
    void (*begin)(struct tt_collective *collective, uint64_t now_ns, struct tt_actions *actions);
    /* From then on. */
    void (*advance)(struct tt_collective *collective, uint64_t now_ns, struct tt_actions *actions);
    /* False if the frame is not the mover's, or out of turn. */
    bool (*frame)(struct tt_collective *collective, uint64_t now_ns, const struct tt_frame *frame,
                  struct tt_actions *actions);
    /* The own block is sent and in place. */
    void (*sent)(struct tt_collective *collective, uint64_t now_ns, struct tt_actions *actions);
    uint64_t (*deadline)(const struct tt_collective *collective);
    /* In RECEIVE, or HANDSHAKE. TT_RANK_NONE: the machine's own answer. */
    uint32_t (*waits_for)(const struct tt_collective *collective);
    /* As a gate's. */
    void (*check)(const struct tt_collective *collective);
};

struct tt_completion {
    bool keeps_copy; /* for a neighbour that may still need it */

    /* Everything is here. */
    void (*enter)(struct tt_collective *collective, struct tt_actions *actions);
    /* Everything is here, and sent; finishes it when it may. */
    void (*advance)(struct tt_collective *collective, uint64_t now_ns, struct tt_actions *actions);
};

struct tt_way {
    const struct tt_gate *gate;
    const struct tt_mover *mover;
    const struct tt_completion *completion;
};

/* Whether it has a place in the account of proto/eager.h, which is the same on all ranks. */
static inline bool tt_way_has_place(const struct tt_way *way)
{
    return way->gate->is_open || way->completion->keeps_copy;
}

#define TT_WAY_PARTS(method, gate_name, mover_name, completion_name, ...)                                              \
    extern const struct tt_gate tt_gate_##gate_name;                                                                   \
    extern const struct tt_mover tt_mover_##mover_name;                                                                \
    extern const struct tt_completion tt_completion_##completion_name;
TT_METHODS(TT_WAY_PARTS)
#undef TT_WAY_PARTS
extern const struct tt_mover tt_mover_nothing;

/* `nothing`: there are no bytes to move. Then it is a barrier like any other, whatever the method. */
const struct tt_way *tt_way_of(unsigned method, bool nothing);

#endif
