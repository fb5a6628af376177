/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Somebody else moves the data: the object group of a root (proto/object.h), or the group's triggered engine
 * (offload/offload.h), each in the order in which the collectives are posted. Normal path: RELAY, once the gate is
 * open; the answer to it ends the collective. Failures: theirs, which the surroundings make the group's.
 *
 * Triggered messages go ahead of the gate where all ranks are connected to those whom they need: who has not posted yet
 * keeps them, or has them sent again. So the barrier takes no time of its own; it is there for the terms, and nobody
 * ends before it is over.
 */
#include <assert.h>

#include "proto/collective_private.h"
#include "proto/sequencer.h"

void tt_collective_relay(struct tt_collective *c, struct tt_actions *actions)
{
    if (!c->relay.relaying) {
        c->relay.relaying = true;
        tt_actions_add(actions, TT_ACTION_RELAY, c);
    }
}

static void begin(struct tt_collective *c, uint64_t now_ns, struct tt_actions *actions)
{
    (void)now_ns;
    c->state = TT_COLLECTIVE_RECEIVE;
    c->sending.activated = tt_collective_has_block(c);
    tt_collective_relay(c, actions);
}

/* The root copies its block into place, if it is not there. */
static void advance(struct tt_collective *c, uint64_t now_ns, struct tt_actions *actions)
{
    tt_sequencer_advance(c, now_ns, actions);
    if (c->relay.relayed && (!tt_collective_has_block(c) || c->sending.sent)) {
        c->way->completion->advance(c, now_ns, actions);
    }
}

static void check(const struct tt_collective *c)
{
    assert(c->relay.relaying || c->state <= TT_COLLECTIVE_BARRIER);
    assert(!c->relay.relaying || c->relay.may_go_ahead || c->state > TT_COLLECTIVE_BARRIER);
    assert(c->relay.relayed || c->state != TT_COLLECTIVE_FINISHED);
}

const struct tt_mover tt_mover_relay = {.begin = begin, .advance = advance, .check = check};

const struct tt_mover tt_mover_triggered = {
    .ahead = tt_collective_relay, .begin = begin, .advance = advance, .check = check};
