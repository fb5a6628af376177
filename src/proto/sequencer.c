/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The broadcast sequencer. Normal path: the first root of each chain is active at once, every other one when its
 * predecessor says so; an active root transmits as far as credit allows, and then activates its successor or, being its
 * chain's last, lets a `done` travel around the ring. Without fresh credit for a while it goes on by itself.
 */
#include "proto/sequencer.h"

#include "plan/chain.h"
#include "proto/collective_private.h"

bool tt_sequencer_starts(const struct tt_collective *c)
{
    const struct tt_collective_terms *terms = &c->config.terms;
    uint32_t roots = tt_collective_roots(c), chain;

    if (!tt_collective_has_block(c) || tt_collective_is_gathered(c)) {
        return false; /* or not before everything is there */
    }
    chain = tt_chain_of(roots, terms->chains, c->own_root_index);
    return c->config.terms.method != TT_METHOD_MULTICAST ||
           tt_chain_at(roots, terms->chains, chain).first == c->own_root_index;
}

/* Chunks of the own block. */
static uint32_t own_chunks(const struct tt_collective *c)
{
    return tt_streams_block_chunks(c->config.streams, c->config.terms.subgroups);
}

uint32_t tt_collective_send_limit(const struct tt_collective *c)
{
    return c->flow.enabled ? tt_flow_limit(&c->flow) : own_chunks(c);
}

bool tt_collective_releases(const struct tt_collective *c)
{
    return tt_collective_is_released(c) && c->config.size > 1 && c->config.rank == c->config.terms.root;
}

void tt_sequencer_advance(struct tt_collective *c, uint64_t now_ns, struct tt_actions *actions)
{
    uint32_t allowed;

    if (!tt_collective_has_block(c) || !c->activated || c->sent || (tt_collective_needs_credit(c) && !c->may_send) ||
        (!c->transmitting && !c->has_turn)) {
        return;
    }
    allowed = tt_collective_send_limit(c);
    if (c->transmitting && c->stall_deadline_ns <= now_ns && allowed == c->send_limit) {
        tt_flow_stalled(&c->flow);
        c->credit_stalls++;
        allowed = tt_collective_send_limit(c);
    }
    if (c->state == TT_COLLECTIVE_HANDSHAKE && !c->final_sent) {
        c->final_sent = true;
        tt_collective_send(c, TT_FRAME_FINAL, tt_collective_left(c), actions);
    }
    if (!c->transmitting || allowed > c->send_limit) {
        c->transmitting = true;
        c->send_limit = allowed;
        c->stall_deadline_ns = now_ns + c->config.stall_ns;
        tt_actions_add(actions, TT_ACTION_TRANSMIT, c);
    } else if (c->stall_deadline_ns <= now_ns) {
        c->stall_deadline_ns = now_ns + c->config.stall_ns;
    }
    if (allowed == own_chunks(c)) {
        c->stall_deadline_ns = UINT64_MAX;
    }
}

/* Returns whether that is news. */
static bool mark(struct tt_collective *c, uint32_t chain, uint64_t now_ns)
{
    if (c->config.done[chain]) {
        return false;
    }
    c->config.done[chain] = 1;
    c->chains_done++;
    if (c->chains_done == c->config.terms.chains) {
        c->tail_deadline_ns = now_ns + c->config.tail_ns;
    }
    return true;
}

static bool mark_all(struct tt_collective *c, uint64_t now_ns)
{
    bool news = false;

    for (uint32_t chain = 0; c->chains_done < c->config.terms.chains && chain < c->config.terms.chains; chain++) {
        news |= mark(c, chain, now_ns);
    }
    return news;
}

/* Says to the right neighbour that this chain is done, or all, unless it needs no telling. */
static void tell(struct tt_collective *c, uint32_t chain, struct tt_actions *actions)
{
    const struct tt_collective_terms *terms = &c->config.terms;
    uint32_t root = terms->root;

    if (c->done_all_sent || c->final_received) {
        return;
    }
    if (terms->kind == TT_ALLGATHER && chain != TT_DONE_ALL_CHAINS) {
        struct tt_chain range = tt_chain_at(tt_collective_roots(c), terms->chains, chain);

        root = range.first + range.length - 1;
    }
    c->done_all_sent = chain == TT_DONE_ALL_CHAINS;
    if ((terms->kind == TT_ALLGATHER && c->done_all_sent) || tt_collective_right(c) != root) {
        tt_collective_send(c, TT_FRAME_DONE, tt_collective_right(c), actions)->body.done.chain =
            terms->kind == TT_BROADCAST ? 0 : chain;
    }
}

/* What this rank knows of itself can wait: mostly everybody soon has everything, and nobody needs to hear of it. */
static void tell_later(struct tt_collective *c, uint64_t now_ns)
{
    if (c->done_deadline_ns == UINT64_MAX) {
        c->done_deadline_ns = now_ns + TT_SEQUENCER_HOLD * c->config.tail_ns;
    }
}

void tt_sequencer_done(struct tt_collective *c, uint32_t chain, uint64_t now_ns, struct tt_actions *actions)
{
    bool all = chain == TT_DONE_ALL_CHAINS;

    if (all ? mark_all(c, now_ns) : mark(c, chain, now_ns)) {
        tell(c, chain, actions);
    }
}

void tt_sequencer_complete(struct tt_collective *c, uint64_t now_ns)
{
    if (mark_all(c, now_ns)) {
        tell_later(c, now_ns);
    }
}

void tt_sequencer_tell(struct tt_collective *c, uint64_t now_ns, struct tt_actions *actions)
{
    if (c->done_deadline_ns <= now_ns) {
        bool all = c->chains_done == c->config.terms.chains;

        c->done_deadline_ns = UINT64_MAX;
        tell(c,
             all ? TT_DONE_ALL_CHAINS : tt_chain_of(tt_collective_roots(c), c->config.terms.chains, c->own_root_index),
             actions);
    }
}

void tt_sequencer_sent(struct tt_collective *c, uint64_t now_ns, struct tt_actions *actions)
{
    const struct tt_collective_terms *terms = &c->config.terms;
    uint32_t roots, chain;
    struct tt_chain range;

    c->sent = true;
    c->fetch.own_ready = true;
    c->stall_deadline_ns = UINT64_MAX;
    if (c->config.terms.method != TT_METHOD_MULTICAST || c->config.size == 1 || c->state == TT_COLLECTIVE_FAILING) {
        return;
    }
    roots = tt_collective_roots(c);
    chain = tt_chain_of(roots, terms->chains, c->own_root_index);
    range = tt_chain_at(roots, terms->chains, chain);
    if (c->own_root_index + 1 < range.first + range.length) {
        tt_collective_send(c, TT_FRAME_ACTIVATE, tt_collective_right(c),
                           actions); /* ranks of a chain are consecutive */
    } else {
        mark(c, chain, now_ns);
        tell_later(c, now_ns);
    }
}
