/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The collective machine. Every event is noted first, and then advance() looks at the whole state and asks for whatever
 * has become possible; so the order in which things happen matters as little as it can.
 *
 * Normal path: publish the streams, barrier, receive by multicast (and send when the sequencer says so), freeze the
 * streams when everything is here, `final` to the left, `final` from the right, finish. Lost chunks: when all roots are
 * done and a tail time has passed, or the cutoff has, freeze early and fetch. Failure of the group: stop sending,
 * freeze, abandon gets, and finish with the error once nobody touches the buffers any more.
 */
#include "proto/collective.h"

#include <string.h>

#include "plan/chain.h"
#include "plan/dissemination.h"

void tt_collective_init(struct tt_collective *c, const struct tt_collective_config *config)
{
    const struct tt_collective_terms *terms = &config->terms;
    bool allgather = terms->kind == TT_ALLGATHER;

    memset(c, 0, sizeof *c);
    c->config = *config;
    c->own_root_index = allgather ? config->rank : config->rank == terms->root ? 0 : TT_RANK_NONE;
    c->template.group = config->group;
    c->template.source = config->rank;
    for (uint32_t s = 0; s < terms->subgroups; s++) {
        const struct tt_stripe *stripe = &config->streams[s].stripe;

        c->expected += stripe->psn_count - (c->own_root_index != TT_RANK_NONE ? stripe->chunks : 0);
    }
    tt_fetch_init(&c->fetch, config->streams, terms->subgroups, c->own_root_index);
    if (terms->multicast && config->depth_chunks != 0) {
        struct tt_credit_config credit = {.size = config->size,
                                          .vertex = tt_rank_subtract(config->rank, terms->root, config->size),
                                          .base = terms->root,
                                          .root_count = allgather ? config->size : 1,
                                          .chains = terms->chains,
                                          .subgroups = terms->subgroups,
                                          .own_root_index = c->own_root_index,
                                          .depth_chunks = config->depth_chunks,
                                          .streams = config->streams,
                                          .positions = config->positions};
        tt_credit_init(&c->credit, &credit);
    }
}

void tt_collective_reset(struct tt_collective *c, uint64_t sequence)
{
    struct tt_collective fresh = {.config = c->config,
                                  .credit = c->credit,
                                  .own_root_index = c->own_root_index,
                                  .expected = c->expected,
                                  .owner = c->owner,
                                  .timeout_deadline_ns = UINT64_MAX,
                                  .failed_rank = TT_RANK_NONE};

    fresh.template = (struct tt_frame){.group = c->config.group, .source = c->config.rank, .sequence = sequence};
    fresh.sequence = sequence;
    tt_fetch_init(&fresh.fetch, c->config.streams, c->config.terms.subgroups, c->own_root_index);
    *c = fresh;
    memset(c->config.done, 0, c->config.terms.chains);
    if (c->credit.enabled) {
        tt_credit_reset(&c->credit);
    }
    for (uint32_t s = 0; s < c->config.terms.subgroups; s++) {
        struct tt_stream *stream = &c->config.streams[s];

        tt_stream_reset(stream);
        if (c->own_root_index != TT_RANK_NONE) {
            /* Nobody sends us these; fetch serves them once they are in place. */
            tt_stream_mark(stream, c->own_root_index * stream->stripe.chunks, stream->stripe.chunks);
        }
    }
}

static uint32_t left_of(const struct tt_collective *c)
{
    return tt_rank_subtract(c->config.rank, 1, c->config.size);
}

static uint32_t right_of(const struct tt_collective *c)
{
    return tt_rank_add(c->config.rank, 1, c->config.size);
}

static struct tt_frame *send_frame(struct tt_collective *c, enum tt_frame_type type, uint32_t to,
                                   struct tt_actions *actions)
{
    struct tt_action *action = tt_actions_add(actions, TT_ACTION_SEND, c);

    action->to = to;
    action->body.frame = c->template;
    action->body.frame.type = type;
    return &action->body.frame;
}

static bool has_own_block(const struct tt_collective *c)
{
    return c->own_root_index != TT_RANK_NONE;
}

static uint32_t received(const struct tt_collective *c)
{
    uint32_t sum = 0;

    for (uint32_t s = 0; s < c->config.terms.subgroups; s++) {
        sum += atomic_load_explicit(&c->config.streams[s].received, memory_order_acquire);
    }
    return sum;
}

static void freeze(struct tt_collective *c, struct tt_actions *actions)
{
    if (!c->published) {
        c->frozen = true;
    } else if (!c->freezing) {
        c->freezing = true;
        tt_actions_add(actions, TT_ACTION_FREEZE, c);
    }
}

/* --- Barrier ----------------------------------------------------------------------------------------------------- */

static void enter_receive(struct tt_collective *c, uint64_t now_ns, struct tt_actions *actions)
{
    const struct tt_collective_terms *terms = &c->config.terms;

    c->state = TT_COLLECTIVE_RECEIVE;
    c->cutoff_deadline_ns = now_ns + c->config.wire_ns + c->config.alpha_ns;
    c->tail_deadline_ns = UINT64_MAX;
    if (has_own_block(c)) {
        uint32_t roots = terms->kind == TT_ALLGATHER ? c->config.size : 1;
        uint32_t chain = tt_chain_of(roots, terms->chains, c->own_root_index);

        if (!terms->multicast || tt_chain_at(roots, terms->chains, chain).first == c->own_root_index) {
            c->activated = true;
        }
    }
    if (!terms->multicast) {
        c->state = TT_COLLECTIVE_FETCH;
        freeze(c, actions);
    }
}

static void advance_barrier(struct tt_collective *c, uint64_t now_ns, struct tt_actions *actions)
{
    uint32_t rounds = tt_dissemination_rounds(c->config.size);

    /* Round k goes out when rounds 0 .. k-1 have come in. */
    while (c->barrier_sent < rounds &&
           (c->barrier_received & ((UINT32_C(1) << c->barrier_sent) - 1)) == (UINT32_C(1) << c->barrier_sent) - 1) {
        struct tt_frame *frame = send_frame(
            c, TT_FRAME_BARRIER, tt_dissemination_to(c->config.rank, c->config.size, c->barrier_sent), actions);

        frame->body.barrier.round = (uint8_t)c->barrier_sent;
        frame->body.barrier.terms = c->config.terms;
        c->barrier_sent++;
    }
    if (c->barrier_sent == rounds && c->barrier_received == (UINT32_C(1) << rounds) - 1) {
        enter_receive(c, now_ns, actions);
    }
}

static bool terms_agree(const struct tt_collective_terms *a, const struct tt_collective_terms *b)
{
    return a->kind == b->kind && a->multicast == b->multicast && a->subgroups == b->subgroups && a->root == b->root &&
           a->chunk_bytes == b->chunk_bytes && a->chains == b->chains && a->block_bytes == b->block_bytes;
}

/* --- Sending, and the sequencer ---------------------------------------------------------------------------------- */

uint32_t tt_collective_send_limit(const struct tt_collective *c, uint32_t subgroup)
{
    return c->credit.enabled ? tt_credit_limit(&c->credit, subgroup) : c->config.streams[subgroup].stripe.chunks;
}

static uint32_t own_chunks(const struct tt_collective *c, bool allowed_only)
{
    uint32_t sum = 0;

    for (uint32_t s = 0; s < c->config.terms.subgroups; s++) {
        sum += allowed_only ? tt_collective_send_limit(c, s) : c->config.streams[s].stripe.chunks;
    }
    return sum;
}

static void advance_sending(struct tt_collective *c, uint64_t now_ns, struct tt_actions *actions)
{
    uint32_t allowed;

    if (!has_own_block(c) || !c->activated || c->sent) {
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

/* A chain is done, as far as this rank knows; tells the right neighbour, unless it is the one that said so first, or
 * has everything already. */
static void learn_done(struct tt_collective *c, uint32_t chain, uint64_t now_ns, struct tt_actions *actions)
{
    const struct tt_collective_terms *terms = &c->config.terms;
    uint32_t roots = terms->kind == TT_ALLGATHER ? c->config.size : 1;
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
    if (!c->done_all_sent && !c->final_received && right_of(c) != origin) {
        send_frame(c, TT_FRAME_DONE, right_of(c), actions)->body.done.chain = chain;
    }
}

/* Every chain is done: this rank holds everything, or its left neighbour does. */
static void learn_all_done(struct tt_collective *c, uint64_t now_ns, struct tt_actions *actions)
{
    uint32_t unknown = c->config.terms.chains - c->chains_done;

    if (unknown > 1 && !c->done_all_sent && !c->final_received) {
        send_frame(c, TT_FRAME_DONE, right_of(c), actions)->body.done.chain = TT_DONE_ALL_CHAINS;
        c->done_all_sent = true;
    }
    for (uint32_t chain = 0; unknown > 0 && chain < c->config.terms.chains; chain++) {
        learn_done(c, chain, now_ns, actions);
    }
}

static void on_sent(struct tt_collective *c, uint64_t now_ns, struct tt_actions *actions)
{
    const struct tt_collective_terms *terms = &c->config.terms;
    uint32_t roots, chain;
    struct tt_chain range;

    c->sent = true;
    c->fetch.own_ready = true;
    c->stall_deadline_ns = UINT64_MAX;
    if (!terms->multicast || c->config.size == 1 || c->state == TT_COLLECTIVE_FAILING) {
        return;
    }
    roots = terms->kind == TT_ALLGATHER ? c->config.size : 1;
    chain = tt_chain_of(roots, terms->chains, c->own_root_index);
    range = tt_chain_at(roots, terms->chains, chain);
    if (c->own_root_index + 1 < range.first + range.length) {
        send_frame(c, TT_FRAME_ACTIVATE, right_of(c), actions); /* ranks of a chain are consecutive */
    } else {
        learn_done(c, chain, now_ns, actions);
    }
}

/* --- Receiving ---------------------------------------------------------------------------------------------------- */

static void enter_handshake(struct tt_collective *c, struct tt_actions *actions)
{
    c->state = TT_COLLECTIVE_HANDSHAKE;
    c->final_sent = true;
    c->fetched_chunks = c->fetch.fetched_chunks;
    if (c->config.size > 1) {
        send_frame(c, TT_FRAME_FINAL, left_of(c), actions);
    } else {
        c->final_received = true;
    }
#ifdef TT_FAULT_NO_HANDSHAKE
    c->final_received = true;
#endif
    freeze(c, actions);
}

static void enter_fetch(struct tt_collective *c, struct tt_actions *actions)
{
    c->state = TT_COLLECTIVE_FETCH;
    freeze(c, actions);
}

/* When the feeding threads should wake the control context. */
static void set_notify(struct tt_collective *c)
{
    for (uint32_t s = 0; s < c->config.terms.subgroups; s++) {
        struct tt_stream *stream = &c->config.streams[s];
        uint32_t at = stream->stripe.psn_count - (has_own_block(c) ? stream->stripe.chunks : 0);

        if (c->credit.enabled) {
            uint32_t soon = atomic_load_explicit(&stream->received, memory_order_relaxed) + c->credit.quantum / 2;

            at = soon < at ? soon : at;
        }
        atomic_store_explicit(&stream->notify_at, at, memory_order_relaxed);
    }
}

static void advance_receive(struct tt_collective *c, uint64_t now_ns, struct tt_actions *actions)
{
    uint32_t now_received = received(c);

    if (now_received == c->expected) {
        enter_handshake(c, actions);
    } else if (c->tail_deadline_ns <= now_ns) {
        if (now_received == c->last_received) {
            enter_fetch(c, actions);
            return;
        }
        c->last_received = now_received;
        c->tail_deadline_ns = now_ns + c->config.tail_ns;
    } else if (c->cutoff_deadline_ns <= now_ns) {
        /* Chunks that still come mean that the bandwidth was overrated, not that the rest is lost. */
        if (now_received == c->last_received) {
            c->cutoffs++;
            enter_fetch(c, actions);
            return;
        }
        c->last_received = now_received;
        c->cutoff_deadline_ns = now_ns + c->config.alpha_ns;
    }
}

/* --- The whole ---------------------------------------------------------------------------------------------------- */

static void finish(struct tt_collective *c, tutti_status status, uint32_t rank, struct tt_actions *actions)
{
    struct tt_action *action = tt_actions_add(actions, TT_ACTION_FINISH, c);

    c->state = TT_COLLECTIVE_FINISHED;
    c->status = status;
    c->failed_rank = rank;
    action->body.finish.status = status;
    action->body.finish.rank = rank;
}

static bool buffers_are_free(const struct tt_collective *c)
{
    return (c->frozen || !c->published) && (!c->transmitting || c->sent) && c->fetch.active_runs == 0;
}

static void advance(struct tt_collective *c, uint64_t now_ns, struct tt_actions *actions)
{
    if (c->state == TT_COLLECTIVE_BARRIER) {
        advance_barrier(c, now_ns, actions);
    }
    if (c->state == TT_COLLECTIVE_FAILING) {
        if (buffers_are_free(c)) {
            finish(c, c->status, c->failed_rank, actions);
        }
        return;
    }
    if (c->state < TT_COLLECTIVE_RECEIVE || c->state == TT_COLLECTIVE_FINISHED) {
        return;
    }
    if (c->state == TT_COLLECTIVE_RECEIVE) {
        advance_receive(c, now_ns, actions);
    }
    if (c->state == TT_COLLECTIVE_FETCH && c->frozen &&
        tt_fetch_pump(&c->fetch, &c->template, left_of(c), c, actions)) {
        enter_handshake(c, actions);
    }
    if (c->credit.enabled) {
        tt_credit_update(&c->credit, c->state != TT_COLLECTIVE_RECEIVE, &c->template, c, actions);
    }
    advance_sending(c, now_ns, actions);
    tt_fetch_serve(&c->fetch, &c->template, right_of(c), c, actions);
    if (c->state == TT_COLLECTIVE_HANDSHAKE && (!has_own_block(c) || c->sent)) {
        if (c->config.terms.multicast && c->config.size > 1) {
            learn_all_done(c, now_ns, actions);
        }
        if (c->final_received && buffers_are_free(c)) {
            finish(c, TUTTI_OK, TT_RANK_NONE, actions);
        }
    }
    if (c->state == TT_COLLECTIVE_RECEIVE) {
        set_notify(c);
    }
}

/* Notes a frame; false if it is out of turn. */
static bool note_frame(struct tt_collective *c, uint64_t now_ns, const struct tt_frame *frame,
                       struct tt_actions *actions)
{
    const struct tt_collective_terms *terms = &c->config.terms;

    switch (frame->type) {
    case TT_FRAME_ACTIVATE:
        if (!terms->multicast || !has_own_block(c) || terms->kind != TT_ALLGATHER || frame->source != left_of(c)) {
            return false;
        }
        c->activated = true;
        return true;
    case TT_FRAME_DONE:
        if (!terms->multicast || frame->source != left_of(c)) {
            return false;
        }
        if (frame->body.done.chain == TT_DONE_ALL_CHAINS) {
            learn_all_done(c, now_ns, actions);
            return true;
        }
        if (frame->body.done.chain >= terms->chains) {
            return false;
        }
        learn_done(c, frame->body.done.chain, now_ns, actions);
        return true;
    case TT_FRAME_CREDIT:
        return c->credit.enabled && tt_credit_child(&c->credit, frame->source, frame->body.credit.quanta);
    case TT_FRAME_GRANT:
        if (!c->credit.enabled) {
            return false;
        }
        tt_credit_grant(&c->credit, frame, &c->template, c, actions);
        return true;
    case TT_FRAME_FETCH:
        return frame->source == right_of(c) && tt_fetch_wanted(&c->fetch, frame);
    case TT_FRAME_AVAILABLE:
        return frame->source == left_of(c) && tt_fetch_available(&c->fetch, frame);
    case TT_FRAME_FINAL:
        if (frame->source != right_of(c)) {
            return false;
        }
        c->final_received = true;
        return true;
    default:
        return false;
    }
}

static bool note_barrier(struct tt_collective *c, const struct tt_frame *frame, bool *mismatch)
{
    uint32_t round = frame->body.barrier.round;

    if (!terms_agree(&frame->body.barrier.terms, &c->config.terms)) {
        *mismatch = true;
        return false;
    }
    if (round >= tt_dissemination_rounds(c->config.size) ||
        frame->source != tt_dissemination_from(c->config.rank, c->config.size, round)) {
        return false;
    }
    c->barrier_received |= UINT32_C(1) << round;
    return true;
}

static void on_fail(struct tt_collective *c, const struct tt_collective_event *event, struct tt_actions *actions)
{
    bool was_started = c->state != TT_COLLECTIVE_IDLE;

    if (c->state == TT_COLLECTIVE_FAILING || c->state == TT_COLLECTIVE_FINISHED) {
        return;
    }
    c->state = TT_COLLECTIVE_FAILING;
    c->status = event->status;
    c->failed_rank = event->rank;
    if (!was_started) {
        return;
    }
    freeze(c, actions);
    if (c->transmitting && !c->sent && !c->canceled) {
        c->canceled = true;
        tt_actions_add(actions, TT_ACTION_CANCEL, c);
    }
    if (c->fetch.active_runs > 0 && !c->abandoned) {
        c->abandoned = true;
        tt_actions_add(actions, TT_ACTION_ABANDON, c)->to = left_of(c);
    }
}

bool tt_collective_step(struct tt_collective *c, const struct tt_collective_event *event, struct tt_actions *actions,
                        bool *mismatch)
{
    bool fine = true;

    *mismatch = false;
    if (c->state == TT_COLLECTIVE_FINISHED) {
        return true; /* late */
    }
    switch (event->type) {
    case TT_EVENT_START:
        c->state = TT_COLLECTIVE_BARRIER;
        if (c->config.terms.multicast) {
            c->published = true;
            set_notify(c);
            tt_actions_add(actions, TT_ACTION_PUBLISH, c);
        }
        break;
    case TT_EVENT_FRAME:
        if (c->state == TT_COLLECTIVE_FAILING) {
            return true;
        }
        fine = event->frame->type == TT_FRAME_BARRIER ? note_barrier(c, event->frame, mismatch)
                                                      : note_frame(c, event->now_ns, event->frame, actions);
        break;
    case TT_EVENT_SENT:
        on_sent(c, event->now_ns, actions);
        break;
    case TT_EVENT_FROZEN:
        c->frozen = true;
        break;
    case TT_EVENT_GOT:
        fine = tt_fetch_got(&c->fetch, event->run, event->status);
        break;
    case TT_EVENT_FAIL:
        on_fail(c, event, actions);
        break;
    case TT_EVENT_TICK:
        break;
    }
    advance(c, event->now_ns, actions);
    return fine;
}

uint64_t tt_collective_deadline(const struct tt_collective *c)
{
    uint64_t deadline = UINT64_MAX;

    if (c->state == TT_COLLECTIVE_RECEIVE) {
        deadline = c->tail_deadline_ns < c->cutoff_deadline_ns ? c->tail_deadline_ns : c->cutoff_deadline_ns;
    }
    if (c->transmitting && !c->sent && c->stall_deadline_ns < deadline) {
        deadline = c->stall_deadline_ns;
    }
    return deadline;
}

uint32_t tt_collective_waits_for(const struct tt_collective *c)
{
    switch (c->state) {
    case TT_COLLECTIVE_BARRIER:
        for (uint32_t round = 0; round < tt_dissemination_rounds(c->config.size); round++) {
            if (!(c->barrier_received >> round & 1)) {
                return tt_dissemination_from(c->config.rank, c->config.size, round);
            }
        }
        return TT_RANK_NONE;
    case TT_COLLECTIVE_RECEIVE:
        return c->config.terms.kind == TT_BROADCAST ? c->config.terms.root : TT_RANK_NONE;
    case TT_COLLECTIVE_FETCH:
        return left_of(c);
    case TT_COLLECTIVE_HANDSHAKE:
        return right_of(c);
    default:
        return TT_RANK_NONE;
    }
}
