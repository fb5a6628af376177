/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a collective of a group that has failed lets go of its buffers. Normal path: freeze, cancel the transmission,
 * wait for the reads in both directions to end, and finish with the group's error. Reads that do not end in a while are
 * ended with their connection.
 */
#include <assert.h>

#include "proto/collective_private.h"

#define LOOK_NS (TT_COLLECTIVE_PATIENCE_NS / 4)

/* Whether the right neighbour has been told that it may read here, and has not said that it is through. */
static bool is_read(const struct tt_collective *c)
{
    return c->fetch.served_bytes > 0 && !c->final.received && !c->way->completion->keeps_copy;
}

static void abandon(struct tt_collective *c, uint32_t rank, struct tt_actions *actions)
{
    assert(rank != c->config.rank);
    tt_actions_add(actions, TT_ACTION_ABANDON, c)->to = rank;
}

/* What is waited for may have come while this rank itself stood still: it is looked for once more. */
static bool is_impatient(struct tt_collective *c, uint64_t now_ns)
{
    if (now_ns < c->failing.patience_deadline_ns || c->failing.looks) {
        return now_ns >= c->failing.patience_deadline_ns;
    }
    c->failing.looks = true;
    c->failing.patience_deadline_ns = now_ns + LOOK_NS;
    return false;
}

/* A failing collective hands its buffer back too, so nobody may write to it or read from it any more: `final` now says
 * that the sender reads nothing more. Connections are broken only for a neighbour that does not get there, because
 * other groups use them too. */
void tt_collective_advance_failing(struct tt_collective *c, uint64_t now_ns, struct tt_actions *actions)
{
    bool impatient = is_impatient(c, now_ns);
    bool has_asked = tt_collective_has_fetched(c);

    assert(c->state == TT_COLLECTIVE_FAILING && c->status != TUTTI_OK);
    if (c->fetch.active_runs > 0 && impatient && !c->failing.abandoned) {
        c->failing.abandoned = true;
        abandon(c, tt_collective_left(c), actions);
    }
    if (c->fetch.active_runs == 0 && has_asked && !c->final.sent) {
        c->final.sent = true;
        tt_collective_send(c, TT_FRAME_FINAL, tt_collective_left(c), actions);
    }
    if (is_read(c) && impatient) {
        c->final.received = true;
        abandon(c, tt_collective_right(c), actions);
    }
    if (tt_collective_buffers_are_free(c) && !is_read(c)) {
        tt_collective_finish(c, c->status, c->failed_rank, actions);
    }
}

void tt_collective_on_fail(struct tt_collective *c, const struct tt_collective_event *event, struct tt_actions *actions)
{
    bool was_started = c->state != TT_COLLECTIVE_IDLE;

    c->final.received |= event->right_gone;
    if (c->state == TT_COLLECTIVE_FAILING || c->state == TT_COLLECTIVE_FINISHED) {
        return;
    }
    assert(event->status != TUTTI_OK);
    c->state = TT_COLLECTIVE_FAILING;
    tt_flow_end(c); /* nobody waits for it */
    c->failing.patience_deadline_ns = event->now_ns + TT_COLLECTIVE_PATIENCE_NS;
    c->status = event->status;
    c->failed_rank = event->rank;
    if (!was_started) {
        return;
    }
    tt_collective_freeze(c, actions);
    if (c->relay.relaying && !c->relay.relayed && !c->relay.unrelaying) {
        c->relay.unrelaying = true;
        tt_actions_add(actions, TT_ACTION_UNRELAY, c);
    }
    if (c->sending.transmitting && !c->sending.sent && !c->sending.canceled) {
        c->sending.canceled = true;
        tt_actions_add(actions, TT_ACTION_CANCEL, c);
    }
}

bool tt_collective_needs_patience(const struct tt_collective *c)
{
    return (c->fetch.active_runs > 0 && !c->failing.abandoned) || is_read(c);
}
