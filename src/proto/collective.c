/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The collective machine. Every event is noted first, and then advance() looks at the whole state and asks for whatever
 * has become possible; so the order in which things happen matters as little as it can.
 *
 * Normal path: publish the streams, barrier, receive by multicast (and send when the sequencer says so), freeze the
 * streams when everything is here, `final` to the left, `final` from the right, finish. Lost chunks: when all roots are
 * done and a tail time has passed, or the cutoff has, freeze early and fetch. Failure of the group: stop sending,
 * freeze, let gets end (a patience later: break their connection), say so to the left neighbour, and finish with the
 * error once nobody touches the buffers any more, the right neighbour included.
 */
#include "proto/collective.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "plan/dissemination.h"
#include "proto/collective_private.h"
#include "proto/eager.h"
#include "proto/sequencer.h"

void tt_collective_init(struct tt_collective *c, const struct tt_collective_config *config)
{
    const struct tt_collective_terms *terms = &config->terms;
    uint32_t roots = tt_terms_roots(terms, config->size), chunks = 0;

    memset(c, 0, sizeof *c);
    c->config = *config;
    c->own_root_index = roots > 1 ? config->rank : config->rank == terms->root ? 0 : TT_RANK_NONE;
    c->template.group = config->group;
    c->template.source = config->rank;
    for (uint32_t s = 0; s < terms->subgroups; s++) {
        const struct tt_stripe *stripe = &config->streams[s].stripe;

        chunks += stripe->psn_count;
        c->expected += stripe->psn_count - (c->own_root_index != TT_RANK_NONE ? stripe->chunks : 0);
    }
    c->nothing = chunks == 0;
    assert(terms->method != TT_METHOD_TREE || (roots == 1 && terms->block_bytes <= TT_TREE_MAX_BYTES));
    assert(terms->method != TT_METHOD_GATHER || terms->block_bytes == 0 ||
           (terms->kind == TT_ALLGATHER && terms->root == 0));
    if (tt_collective_gathers(c)) {
        tt_gather_init(c);
    }
    tt_fetch_init(&c->fetch, config->streams, terms->subgroups, c->own_root_index);
    if (terms->method == TT_METHOD_MULTICAST && !c->nothing) {
        struct tt_flow_config flow = {.size = config->size,
                                      .vertex = tt_rank_subtract(config->rank, terms->root, config->size),
                                      .base = terms->root,
                                      .root_count = roots,
                                      .lanes = terms->chains,
                                      .subgroups = terms->subgroups,
                                      .own_root_index = c->own_root_index,
                                      .chunk_bytes = terms->chunk_bytes,
                                      .heard = config->heard,
                                      .hosts = config->hosts,
                                      .streams = config->streams,
                                      .positions = config->positions,
                                      .link = config->link};
        tt_flow_init(&c->flow, &flow);
    }
}

void tt_collective_reset(struct tt_collective *c, uint64_t sequence)
{
    memset(&c->tree, 0, offsetof(struct tt_collective, fetch) - offsetof(struct tt_collective, tree));
    c->template.sequence = c->sequence = sequence;
    c->has_turn = c->may_keep = true;
    c->timeout_deadline_ns = c->cutoff_deadline_ns = c->done_deadline_ns = UINT64_MAX;
    c->tail_deadline_ns = UINT64_MAX; /* a `done` may come while the barrier is on */
    c->least = tt_release_of(0);
    c->failed_rank = TT_RANK_NONE;
    tt_fetch_reset(&c->fetch);
    memset(c->config.done, 0, c->config.terms.chains);
    tt_flow_reset(&c->flow);
    for (uint32_t s = 0; s < c->config.terms.subgroups; s++) {
        struct tt_stream *stream = &c->config.streams[s];

        tt_stream_reset(stream);
        if (c->own_root_index != TT_RANK_NONE) {
            /* Nobody sends us these; fetch serves them once they are in place. */
            tt_stream_mark(stream, c->own_root_index * stream->stripe.chunks, stream->stripe.chunks);
        }
    }
}

uint32_t tt_collective_received(const struct tt_collective *c)
{
    return tt_streams_received(c->config.streams, c->config.terms.subgroups);
}

void tt_collective_freeze(struct tt_collective *c, struct tt_actions *actions)
{
    if (!c->published) {
        c->frozen = true;
    } else if (!c->freezing) {
        c->freezing = true;
        tt_actions_add(actions, TT_ACTION_FREEZE, c);
    }
}

bool tt_collective_terms_agree(const struct tt_collective_terms *a, const struct tt_collective_terms *b)
{
    return a->kind == b->kind && a->method == b->method && a->subgroups == b->subgroups && a->root == b->root &&
           a->chunk_bytes == b->chunk_bytes && a->chains == b->chains && a->block_bytes == b->block_bytes;
}

/* --- Receiving ---------------------------------------------------------------------------------------------------- */

void tt_collective_enter_handshake(struct tt_collective *c, struct tt_actions *actions)
{
    c->state = TT_COLLECTIVE_HANDSHAKE;
    /* Without a turn it goes with the release: it says that the barrier is over. */
    c->final_sent = c->has_turn || c->config.size == 1;
    c->fetched_chunks = c->fetch.fetched_chunks;
    if (tt_collective_is_eager(c)) {
        c->final_received = true; /* nobody reads here */
        if (tt_collective_has_fetched(c)) {
            tt_collective_send(c, TT_FRAME_FINAL, tt_collective_left(c), actions);
        }
    } else if (c->config.size == 1) {
        c->final_received = true;
    } else if (c->final_sent) {
        tt_collective_send(c, TT_FRAME_FINAL, tt_collective_left(c), actions);
    }
#ifdef TT_FAULT_NO_HANDSHAKE
    c->final_received = true;
#endif
    tt_collective_freeze(c, actions);
}

void tt_collective_enter_fetch(struct tt_collective *c, struct tt_actions *actions)
{
    c->state = TT_COLLECTIVE_FETCH;
    tt_collective_freeze(c, actions);
}

/* When the feeding threads should wake the control context. */
static void set_notify(struct tt_collective *c)
{
    for (uint32_t s = 0; s < c->config.terms.subgroups; s++) {
        struct tt_stream *stream = &c->config.streams[s];
        uint32_t at = stream->stripe.psn_count - (tt_collective_has_block(c) ? stream->stripe.chunks : 0);

        if (c->flow.enabled) {
            uint32_t soon = atomic_load_explicit(&stream->received, memory_order_relaxed) + tt_flow_step(&c->flow);

            at = soon < at ? soon : at;
        }
        at = c->state == TT_COLLECTIVE_BARRIER && at > 1 ? 1 : at; /* the first chunk ends it */
        atomic_store_explicit(&stream->notify_at, at, memory_order_relaxed);
    }
}

static void advance_receive(struct tt_collective *c, uint64_t now_ns, struct tt_actions *actions)
{
    uint32_t now_received = tt_collective_received(c);

    if (now_received == c->expected) {
        tt_collective_enter_handshake(c, actions);
    } else if (c->tail_deadline_ns <= now_ns) {
        if (now_received == c->last_received) {
            tt_collective_enter_fetch(c, actions);
            return;
        }
        c->last_received = now_received;
        c->tail_deadline_ns = now_ns + c->config.tail_ns;
    } else if (c->cutoff_deadline_ns <= now_ns) {
        /* Chunks that still come mean that the bandwidth was overrated, not that the rest is lost. */
        if (now_received == c->last_received) {
            c->cutoffs++;
            tt_collective_enter_fetch(c, actions);
            return;
        }
        c->last_received = now_received;
        c->cutoff_deadline_ns = now_ns + c->config.alpha_ns;
    }
}

/* --- The whole ---------------------------------------------------------------------------------------------------- */

void tt_collective_finish(struct tt_collective *c, tutti_status status, uint32_t rank, struct tt_actions *actions)
{
    struct tt_action *action = tt_actions_add(actions, TT_ACTION_FINISH, c);

    tt_flow_end(&c->flow);
    c->state = TT_COLLECTIVE_FINISHED;
    c->status = status;
    c->failed_rank = rank;
    action->body.finish.status = status;
    action->body.finish.rank = rank;
}

/* The root copies its block into place, if it is not there. */
static void advance_relayed(struct tt_collective *c, uint64_t now_ns, struct tt_actions *actions)
{
    tt_sequencer_advance(c, now_ns, actions);
    if (c->relayed && (!tt_collective_has_block(c) || c->sent) && tt_collective_buffers_are_free(c)) {
        tt_collective_finish(c, TUTTI_OK, TT_RANK_NONE, actions);
    }
}

static void advance_tree(struct tt_collective *c, uint64_t now_ns, struct tt_actions *actions)
{
    tt_sequencer_advance(c, now_ns, actions);
    if (tt_tree_advance(c, now_ns, actions) && tt_collective_buffers_are_free(c)) {
        tt_collective_finish(c, TUTTI_OK, TT_RANK_NONE, actions);
    }
}

/* Everything is here, and sent. */
static void advance_handshake(struct tt_collective *c, uint64_t now_ns, struct tt_actions *actions)
{
    if (tt_collective_is_eager(c)) {
        if (c->may_keep && tt_collective_buffers_are_free(c)) {
            tt_collective_finish_eager(c, actions);
        }
        return;
    }
    if (tt_collective_multicasts(c) && c->config.size > 1) {
        tt_sequencer_complete(c, now_ns);
    }
    if (c->final_received && tt_collective_buffers_are_free(c)) {
        tt_collective_finish(c, TUTTI_OK, TT_RANK_NONE, actions);
    }
}

static void advance(struct tt_collective *c, uint64_t now_ns, struct tt_actions *actions)
{
    tt_collective_note_release(c, now_ns);
    if (c->state == TT_COLLECTIVE_BARRIER) {
        tt_collective_advance_barrier(c, now_ns, actions);
    }
    if (c->state == TT_COLLECTIVE_FAILING) {
        tt_collective_advance_failing(c, now_ns, actions);
        return;
    }
    if (c->state < TT_COLLECTIVE_RECEIVE || c->state == TT_COLLECTIVE_FINISHED) {
        return;
    }
    if (tt_collective_is_tree(c)) {
        advance_tree(c, now_ns, actions);
        return;
    }
    if (tt_collective_is_relayed(c) && c->state == TT_COLLECTIVE_RECEIVE) {
        advance_relayed(c, now_ns, actions);
        return;
    }
    if (tt_collective_is_gathered(c)) {
        tt_gather_advance(c, now_ns, actions);
    }
    if (c->state == TT_COLLECTIVE_RECEIVE) {
        (tt_collective_is_eager(c) ? tt_collective_advance_eager : advance_receive)(c, now_ns, actions);
    }
    if (c->state == TT_COLLECTIVE_FETCH && c->frozen &&
        tt_fetch_pump(&c->fetch, &c->template, tt_collective_left(c), c, actions)) {
        tt_collective_enter_handshake(c, actions);
    }
    if (c->nothing) {
        tt_collective_finish(c, TUTTI_OK, TT_RANK_NONE, actions);
        return;
    }
    if (c->state != TT_COLLECTIVE_RECEIVE) {
        tt_flow_stop(&c->flow);
    }
    tt_flow_update(&c->flow, now_ns, &c->template, c, actions);
    tt_sequencer_advance(c, now_ns, actions);
    tt_sequencer_tell(c, now_ns, actions);
    if (tt_collective_is_eager(c)) {
        tt_collective_serve_eager(c, actions);
    } else {
        tt_fetch_serve(&c->fetch, &c->template, tt_collective_right(c), c, actions);
    }
    if (c->state == TT_COLLECTIVE_HANDSHAKE && (!tt_collective_has_block(c) || c->sent)) {
        advance_handshake(c, now_ns, actions);
    }
    if (c->state == TT_COLLECTIVE_RECEIVE) {
        set_notify(c);
    }
}

/* Of what comes after the barrier; false if it is out of turn. */
static bool note_of_data(struct tt_collective *c, uint64_t now_ns, const struct tt_frame *frame,
                         struct tt_actions *actions)
{
    const struct tt_collective_terms *terms = &c->config.terms;

    switch (frame->type) {
    case TT_FRAME_ACTIVATE:
        if (!tt_collective_multicasts(c) || !tt_collective_has_block(c) || terms->kind != TT_ALLGATHER ||
            frame->source != tt_collective_left(c)) {
            return false;
        }
        c->activated = true;
        return true;
    case TT_FRAME_DONE:
        if (!tt_collective_multicasts(c) || frame->source != tt_collective_left(c)) {
            return false;
        }
        if (frame->body.done.chain >= terms->chains && frame->body.done.chain != TT_DONE_ALL_CHAINS) {
            return false;
        }
        tt_sequencer_done(c, frame->body.done.chain, now_ns, actions);
        return true;
    case TT_FRAME_CREDIT:
        return tt_flow_credit(&c->flow, frame);
    case TT_FRAME_GRANT:
        return tt_flow_grant(&c->flow, frame, &c->template, c, actions);
    case TT_FRAME_FETCH:
        return frame->source == tt_collective_right(c) && tt_fetch_wanted(&c->fetch, frame);
    case TT_FRAME_AVAILABLE:
        return frame->source == tt_collective_left(c) && tt_fetch_available(&c->fetch, frame);
    case TT_FRAME_FINAL:
        if (frame->source != tt_collective_right(c)) {
            return false;
        }
        c->final_received = true;
        return true;
    default:
        return false;
    }
}

/* Notes a frame; false if it is out of turn. */
static bool note_frame(struct tt_collective *c, uint64_t now_ns, const struct tt_frame *frame,
                       struct tt_actions *actions)
{
    if (tt_collective_is_eager(c)) {
        return tt_collective_note_eager(c, frame, actions);
    }
    if (tt_collective_is_tree(c)) {
        return tt_tree_frame(c, frame);
    }
    if (tt_collective_is_relayed(c)) {
        return false; /* that is the object group's */
    }
    if (frame->type == TT_FRAME_GATHER || frame->type == TT_FRAME_READY) {
        return tt_collective_gathers(c) && tt_gather_frame(c, frame, actions);
    }
    if (!note_of_data(c, now_ns, frame, actions)) {
        return false;
    }
    c->overtaken = true;
    return true;
}

static void start(struct tt_collective *c, uint64_t now_ns, struct tt_actions *actions)
{
    c->state = TT_COLLECTIVE_BARRIER;
    if (tt_collective_is_released(c) && c->config.link != NULL) {
        c->least.window_chunks = tt_flow_window(&c->flow);
        c->least.rate_kbit = c->config.link->rate_kbit;
    }
    if (tt_collective_multicasts(c) && !c->nothing) {
        c->published = true;
        set_notify(c);
        tt_actions_add(actions, TT_ACTION_PUBLISH, c);
    }
    if (tt_collective_gathers(c)) {
        tt_gather_start(c, now_ns);
    }
    if (tt_collective_is_eager(c)) {
        c->state = TT_COLLECTIVE_RECEIVE;
        c->activated = tt_sequencer_starts(c);
        c->cutoff_deadline_ns = now_ns + TT_EAGER_ASK_NS;
        c->ask_interval_ns = TT_EAGER_ASK_NS;
    }
    if (tt_collective_is_tree(c)) {
        c->state = TT_COLLECTIVE_RECEIVE;
        c->activated = tt_sequencer_starts(c);
        tt_tree_start(c, now_ns, actions);
    }
}

bool tt_collective_step(struct tt_collective *c, const struct tt_collective_event *event, struct tt_actions *actions,
                        bool *mismatch)
{
    const struct tt_collective_terms *terms;
    bool fine = true;

    *mismatch = false;
    if (c->state == TT_COLLECTIVE_FINISHED) {
        return true; /* late */
    }
    switch (event->type) {
    case TT_EVENT_START:
        start(c, event->now_ns, actions);
        break;
    case TT_EVENT_FRAME:
        if (c->state == TT_COLLECTIVE_FAILING && event->frame->type != TT_FRAME_FINAL) {
            return true;
        }
        terms = tt_frame_terms(event->frame);
        *mismatch = terms != NULL && !tt_collective_terms_agree(terms, &c->config.terms);
        fine = !*mismatch &&
               (event->frame->type == TT_FRAME_BARRIER ? tt_collective_note_barrier(c, event->frame)
                                                       : note_frame(c, event->now_ns, event->frame, actions));
        break;
    case TT_EVENT_SENT:
        tt_sequencer_sent(c, event->now_ns, actions);
        break;
    case TT_EVENT_FROZEN:
        c->frozen = true;
        break;
    case TT_EVENT_GOT:
        fine = tt_fetch_got(&c->fetch, event->run, event->status);
        break;
    case TT_EVENT_RELAYED:
        c->relayed = true;
        break;
    case TT_EVENT_FAIL:
        tt_collective_on_fail(c, event, actions);
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

    if (c->state == TT_COLLECTIVE_FAILING) { /* ends by answers, unless they do not come */
        return tt_collective_needs_patience(c) ? c->patience_deadline_ns : deadline;
    }
    if (c->state == TT_COLLECTIVE_RECEIVE) {
        deadline = c->tail_deadline_ns < c->cutoff_deadline_ns ? c->tail_deadline_ns : c->cutoff_deadline_ns;
        if (tt_collective_is_tree(c)) {
            return tt_tree_deadline(c);
        }
    }
    if (!c->final_received && c->done_deadline_ns < deadline) {
        deadline = c->done_deadline_ns;
    }
    if (tt_collective_gathers(c) && tt_gather_deadline(c) < deadline) {
        deadline = tt_gather_deadline(c);
    }
    if (c->transmitting && !c->sent && c->stall_deadline_ns < deadline) {
        deadline = c->stall_deadline_ns;
    }
    return deadline;
}

uint32_t tt_collective_waits_for(const struct tt_collective *c)
{
    if (tt_collective_is_gathered(c) ? c->state <= TT_COLLECTIVE_HANDSHAKE && c->state != TT_COLLECTIVE_FETCH
                                     : tt_collective_gathers(c) && c->state == TT_COLLECTIVE_BARRIER) {
        return tt_gather_waits_for(c);
    }
    switch (c->state) {
    case TT_COLLECTIVE_BARRIER:
        for (uint32_t round = 0; round < tt_dissemination_rounds(c->config.size); round++) {
            if (!(c->barrier_received >> round & 1)) {
                return tt_dissemination_from(c->config.rank, c->config.size, round);
            }
        }
        return TT_RANK_NONE;
    case TT_COLLECTIVE_RECEIVE:
        if (tt_collective_is_tree(c)) {
            return tt_tree_waits_for(c);
        }
        return c->config.terms.kind == TT_BROADCAST ? c->config.terms.root : TT_RANK_NONE;
    case TT_COLLECTIVE_FETCH:
        return tt_collective_left(c);
    case TT_COLLECTIVE_HANDSHAKE:
        return tt_collective_right(c);
    default:
        return TT_RANK_NONE;
    }
}
