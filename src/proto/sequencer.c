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

    if (!tt_collective_has_block(c)) {
        return false;
    }
    chain = tt_chain_of(roots, terms->chains, c->own_root_index);
    return c->config.terms.method != TT_METHOD_MULTICAST ||
           tt_chain_at(roots, terms->chains, chain).first == c->own_root_index;
}

uint32_t tt_collective_send_limit(const struct tt_collective *c, uint32_t subgroup)
{
    return c->credit.enabled ? tt_credit_limit(&c->credit, subgroup) : c->config.streams[subgroup].stripe.chunks;
}

void tt_collective_start_pacer(const struct tt_collective *c, struct tt_pacer *pacer, uint64_t now_ns)
{
    const struct tt_collective_terms *terms = &c->config.terms;
    uint32_t roots = tt_collective_roots(c), chain = tt_chain_of(roots, terms->chains, c->own_root_index);
    bool is_first = tt_chain_at(roots, terms->chains, chain).first == c->own_root_index;
    /* Nobody hears himself: where all ranks are roots at once, each hears one less. */
    uint32_t heard = terms->chains > 1 && terms->chains == c->config.size ? terms->chains - 1 : terms->chains;

    tt_pacer_start(pacer, c->rate_kbit, heard, is_first ? chain : 0, terms->chunk_bytes, now_ns);
}

static uint32_t own_chunks(const struct tt_collective *c, bool allowed_only)
{
    uint32_t sum = 0;

    for (uint32_t s = 0; s < c->config.terms.subgroups; s++) {
        sum += allowed_only ? tt_collective_send_limit(c, s) : c->config.streams[s].stripe.chunks;
    }
    return sum;
}

void tt_sequencer_advance(struct tt_collective *c, uint64_t now_ns, struct tt_actions *actions)
{
    uint32_t allowed;

    if (!tt_collective_has_block(c) || !c->activated || c->sent || (tt_collective_needs_credit(c) && !c->may_send)) {
        return;
    }
    allowed = own_chunks(c, true);
    if (c->transmitting && c->stall_deadline_ns <= now_ns && allowed == c->send_limit_sum) {
        c->credit.granted++;
        c->credit_stalls++;
        allowed = own_chunks(c, true);
    }
    if (!c->transmitting || allowed > c->send_limit_sum) {
        c->transmitting = true;
        c->send_limit_sum = allowed;
        c->stall_deadline_ns = now_ns + c->config.stall_ns;
        tt_actions_add(actions, TT_ACTION_TRANSMIT, c);
    } else if (c->stall_deadline_ns <= now_ns) {
        c->stall_deadline_ns = now_ns + c->config.stall_ns;
    }
    if (allowed == own_chunks(c, false)) {
        c->stall_deadline_ns = UINT64_MAX;
    }
}

void tt_sequencer_done(struct tt_collective *c, uint32_t chain, uint64_t now_ns, struct tt_actions *actions)
{
    const struct tt_collective_terms *terms = &c->config.terms;
    uint32_t roots = tt_collective_roots(c);
    struct tt_chain range;
    uint32_t origin;

    if (c->config.done[chain]) {
        return;
    }
    c->config.done[chain] = 1;
    c->chains_done++;
    if (c->chains_done == terms->chains) {
        c->tail_deadline_ns = now_ns + c->config.tail_ns;
    }
    range = tt_chain_at(roots, terms->chains, chain);
    origin = terms->kind == TT_ALLGATHER ? range.first + range.length - 1 : terms->root;
    if (!c->done_all_sent && !c->final_received && tt_collective_right(c) != origin) {
        tt_collective_send(c, TT_FRAME_DONE, tt_collective_right(c), actions)->body.done.chain = chain;
    }
}

void tt_sequencer_all_done(struct tt_collective *c, uint64_t now_ns, struct tt_actions *actions)
{
    uint32_t unknown = c->config.terms.chains - c->chains_done;

    if (unknown > 1 && !c->done_all_sent && !c->final_received) {
        tt_collective_send(c, TT_FRAME_DONE, tt_collective_right(c), actions)->body.done.chain = TT_DONE_ALL_CHAINS;
        c->done_all_sent = true;
    }
    for (uint32_t chain = 0; unknown > 0 && chain < c->config.terms.chains; chain++) {
        tt_sequencer_done(c, chain, now_ns, actions);
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
        tt_sequencer_done(c, chain, now_ns, actions);
    }
}
