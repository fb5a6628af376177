/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The broadcast sequencer. Normal path: the first root of each chain is active at once, every other one when its
 * predecessor says so; an active root transmits as far as credit allows, and then activates its successor or, being its
 * chain's last, lets a `done` travel around the ring. Without fresh credit for a while it goes on by itself.
 */
#include "proto/sequencer.h"

#include <assert.h>

#include "plan/chain.h"
#include "proto/collective_private.h"

bool tt_sequencer_starts(const struct tt_collective *c)
{
    uint32_t roots = tt_collective_roots(c), chain;

    if (!tt_collective_has_block(c)) {
        return false;
    }
    chain = tt_chain_of(roots, c->config.terms.chains, c->own_root_index);
    return tt_chain_at(roots, c->config.terms.chains, chain).first == c->own_root_index;
}

/* Until there is a block the transmission is the release alone. */
static bool has_no_block_yet(const struct tt_collective *c)
{
#ifdef TT_FAULT_PARTS_EARLY
    return false;
#endif
    return tt_collective_awaits_block(c);
}

uint32_t tt_collective_send_limit(const struct tt_collective *c)
{
    if (has_no_block_yet(c)) {
        return 0;
    }
    return c->flow.enabled && !c->sending.silent ? tt_flow_limit(c) : c->block_chunks;
}

bool tt_collective_releases(const struct tt_collective *c)
{
    return c->way->gate->releases && c->config.size > 1 && c->config.rank == c->config.terms.root;
}

void tt_sequencer_advance(struct tt_collective *c, uint64_t now_ns, struct tt_actions *actions)
{
    uint32_t allowed;

    if (!tt_collective_has_block(c) || !c->sending.activated || c->sending.sent ||
        (c->way->gate->is_open && !c->sending.may_send) || (!c->sending.transmitting && !c->sending.has_turn)) {
        return;
    }
    if (!c->sending.transmitting) {
        c->sending.silent = tt_collective_is_silent(c);
        if (tt_collective_releases(c)) {
            tt_gather_open(c, actions);
        }
    }
    allowed = tt_collective_send_limit(c);
    assert(allowed <= c->block_chunks);
    assert(!c->sending.transmitting || allowed >= c->sending.limit); /* what was allowed may be under way */
    if (c->sending.transmitting && c->sending.stall_deadline_ns <= now_ns && allowed == c->sending.limit &&
        !has_no_block_yet(c)) {
        tt_flow_stalled(c);
        c->counters.credit_stalls++;
        allowed = tt_collective_send_limit(c);
    }
    if (c->state == TT_COLLECTIVE_HANDSHAKE && !c->final.sent) {
        c->final.sent = true;
        tt_collective_send(c, TT_FRAME_FINAL, tt_collective_left(c), actions);
    }
    if (!c->sending.transmitting || allowed > c->sending.limit) {
        c->sending.transmitting = true;
        c->sending.limit = allowed;
        c->sending.stall_deadline_ns = now_ns + tt_flow_patience(c);
        tt_actions_add(actions, TT_ACTION_TRANSMIT, c);
    } else if (c->sending.stall_deadline_ns <= now_ns) {
        c->sending.stall_deadline_ns = now_ns + tt_flow_patience(c);
    }
    if (allowed == c->block_chunks) {
        c->sending.stall_deadline_ns = UINT64_MAX;
    }
}

/* Returns whether that is news. */
static bool mark(struct tt_collective *c, uint32_t chain, uint64_t now_ns)
{
    assert(chain < c->config.terms.chains);
    if (c->config.done[chain]) {
        return false;
    }
    c->config.done[chain] = 1;
    c->sending.chains_done++;
    if (c->sending.chains_done == c->config.terms.chains) {
        c->receiving.tail_deadline_ns = now_ns + c->config.tail_ns;
    }
    return true;
}

static bool mark_all(struct tt_collective *c, uint64_t now_ns)
{
    bool news = false;

    for (uint32_t chain = 0; c->sending.chains_done < c->config.terms.chains && chain < c->config.terms.chains;
         chain++) {
        news |= mark(c, chain, now_ns);
    }
    return news;
}

/* Says to the right neighbour that this chain is done, or all, unless it needs no telling. */
static void tell(struct tt_collective *c, uint32_t chain, struct tt_actions *actions)
{
    uint32_t roots = tt_collective_roots(c);
    struct tt_chain range;

    if (c->sending.told_all || c->final.received) {
        return;
    }
    c->sending.told_all = chain == TT_DONE_ALL_CHAINS;
    chain = roots == 1 ? 0 : chain;
    range = tt_chain_at(roots, c->config.terms.chains, chain == TT_DONE_ALL_CHAINS ? 0 : chain);
    if (chain == TT_DONE_ALL_CHAINS ||
        tt_collective_right(c) != c->config.streams[0].first_source + range.first + range.length - 1) {
        tt_collective_send(c, TT_FRAME_DONE, tt_collective_right(c), actions)->body.done.chain = chain;
    }
}

/* What this rank knows of itself can wait: mostly everybody soon has everything, and nobody needs to hear of it. */
static void tell_later(struct tt_collective *c, uint64_t now_ns)
{
    if (c->sending.done_deadline_ns == UINT64_MAX) {
        c->sending.done_deadline_ns = now_ns + TT_SEQUENCER_HOLD * c->config.tail_ns;
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
    if (c->sending.done_deadline_ns <= now_ns) {
        bool all = c->sending.chains_done == c->config.terms.chains;

        assert(all || tt_collective_has_block(c)); /* it is the own chain that was held back */
        c->sending.done_deadline_ns = UINT64_MAX;
        tell(c,
             all ? TT_DONE_ALL_CHAINS : tt_chain_of(tt_collective_roots(c), c->config.terms.chains, c->own_root_index),
             actions);
    }
}

void tt_sequencer_sent(struct tt_collective *c, uint64_t now_ns, struct tt_actions *actions)
{
    assert(c->sending.transmitting);
    assert(!c->sending.sent);
    c->sending.sent = true;
    c->fetch.own_ready = true;
    c->sending.stall_deadline_ns = UINT64_MAX;
    if (c->way->mover->sent != NULL && c->config.size > 1 && c->state != TT_COLLECTIVE_FAILING) {
        c->way->mover->sent(c, now_ns, actions);
    }
}

void tt_sequencer_pass_on(struct tt_collective *c, uint64_t now_ns, struct tt_actions *actions)
{
    uint32_t roots = tt_collective_roots(c), chain = tt_chain_of(roots, c->config.terms.chains, c->own_root_index);
    struct tt_chain range = tt_chain_at(roots, c->config.terms.chains, chain);

    assert(c->own_root_index >= range.first && c->own_root_index - range.first < range.length);
    if (c->own_root_index + 1 < range.first + range.length) { /* ranks of a chain are consecutive */
        tt_collective_send(c, TT_FRAME_ACTIVATE, tt_collective_right(c), actions);
    } else {
        mark(c, chain, now_ns);
        tell_later(c, now_ns);
    }
}
