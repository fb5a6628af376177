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

#include "base/least.h"
#include "plan/dissemination.h"
#include "proto/collective_private.h"
#include "proto/eager.h"
#include "proto/sequencer.h"

static uint32_t remote_chunks(const struct tt_collective *c)
{
    uint32_t roots = tt_collective_roots(c), sum = 0;

    for (uint32_t i = 0; i < roots; i++) {
        sum += tt_collective_root_is_near(c, i) ? 0 : c->block_chunks;
    }
    return sum;
}

void tt_collective_init(struct tt_collective *c, const struct tt_collective_config *config)
{
    const struct tt_collective_terms *terms = &config->terms;
    uint32_t size = config->size, roots = tt_terms_roots(terms, size);

    assert(config->rank < size);
    assert(terms->root < size);
    assert(terms->subgroups >= 1);
    assert(terms->chains >= 1);
    memset(c, 0, sizeof *c);
    c->config = *config;
    c->own_root_index = roots > 1 ? config->rank : roots == 1 && config->rank == terms->root ? 0 : TT_RANK_NONE;
    c->template.group = config->group;
    c->template.source = config->rank;
    for (uint32_t s = 0; s < terms->subgroups; s++) {
        c->block_chunks += config->streams[s].stripe.chunks;
    }
    c->expected = c->block_chunks * (roots - tt_collective_has_block(c));
    c->remote = remote_chunks(c);
    c->way = tt_way_of(terms->method, terms->block_bytes == 0 && c->block_chunks == 0);
    c->all_send = tt_terms_all_send(terms);
    if (tt_collective_gathers(c)) {
        tt_gather_init(c);
    }
    tt_fetch_init(&c->fetch, config->streams, terms->subgroups, c->own_root_index);
    if (c->way->gate->releases) {
        tt_flow_init(c);
    }
}

void tt_collective_reset(struct tt_collective *c, uint64_t sequence)
{
    assert(c->state == TT_COLLECTIVE_IDLE || c->state == TT_COLLECTIVE_FINISHED);
    memset(&c->tree, 0, offsetof(struct tt_collective, fetch) - offsetof(struct tt_collective, tree));
    c->template.sequence = c->sequence = sequence;
    c->sending.has_turn = c->copy.may_keep = true;
    c->timeout.deadline_ns = c->receiving.cutoff_deadline_ns = c->sending.done_deadline_ns = UINT64_MAX;
    c->receiving.tail_deadline_ns = UINT64_MAX; /* a `done` may come while the barrier is on */
    c->least = tt_release_of(0);
    c->barrier.far_first = tt_method_row(c->config.terms.method)->far_first;
    c->failed_rank = TT_RANK_NONE;
    tt_fetch_reset(&c->fetch);
    memset(c->config.done, 0, c->config.terms.chains);
    tt_flow_reset(c);
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
    uint32_t sum = 0;

    for (uint32_t s = 0; s < c->config.terms.subgroups; s++) {
        sum += atomic_load_explicit(&c->config.streams[s].received, memory_order_acquire);
    }
    return sum;
}

bool tt_collective_has_heard(const struct tt_collective *c)
{
    uint32_t roots = tt_collective_roots(c);
    bool heard = false;

    if (tt_collective_received(c) == c->expected) {
        return true;
    }
    for (uint32_t i = 0; i < roots && !heard; i++) {
        if (tt_collective_root_is_near(c, i)) {
            continue;
        }
        for (uint32_t s = 0; s < c->config.terms.subgroups && !heard; s++) {
            uint32_t first = i * c->config.streams[s].stripe.chunks;

            heard = tt_stream_highest(&c->config.streams[s], first, first + c->config.streams[s].stripe.chunks) > first;
        }
    }
    return heard;
}

void tt_collective_freeze(struct tt_collective *c, struct tt_actions *actions)
{
    if (!c->receiving.published) {
        c->receiving.frozen = true;
    } else if (!c->receiving.freezing) {
        c->receiving.freezing = true;
        tt_actions_add(actions, TT_ACTION_FREEZE, c);
    }
}

bool tt_collective_terms_agree(const struct tt_collective_terms *a, const struct tt_collective_terms *b)
{
    return a->kind == b->kind && a->method == b->method && a->subgroups == b->subgroups && a->root == b->root &&
           a->chunk_bytes == b->chunk_bytes && a->chains == b->chains && a->block_bytes == b->block_bytes &&
           a->type == b->type && a->operation == b->operation && a->element_bytes == b->element_bytes &&
           a->counts == b->counts && a->before == b->before;
}

/* --- States ------------------------------------------------------------------------------------------------------- */

void tt_collective_open(struct tt_collective *c, uint64_t now_ns, struct tt_actions *actions)
{
    assert(c->state == TT_COLLECTIVE_BARRIER);
    c->way->mover->begin(c, now_ns, actions);
    assert(c->state > TT_COLLECTIVE_BARRIER); /* or this would be called again */
}

void tt_collective_enter_handshake(struct tt_collective *c, struct tt_actions *actions)
{
    assert(c->state == TT_COLLECTIVE_RECEIVE || c->state == TT_COLLECTIVE_FETCH);
    assert(!c->final.sent);
    c->state = TT_COLLECTIVE_HANDSHAKE;
    /* Without a turn it goes with the release: it says that the barrier is over. */
    c->final.sent = c->sending.has_turn || c->config.size == 1;
    c->counters.fetched_chunks = c->fetch.fetched_chunks;
    c->way->completion->enter(c, actions);
#ifdef TT_FAULT_NO_HANDSHAKE
    c->final.received = true;
#endif
    tt_collective_freeze(c, actions);
}

void tt_collective_enter_fetch(struct tt_collective *c, struct tt_actions *actions)
{
    assert(c->state < TT_COLLECTIVE_FETCH);
    c->state = TT_COLLECTIVE_FETCH;
    tt_collective_freeze(c, actions);
}

/* When the feeding threads should wake the control context. */
void tt_collective_set_notify(struct tt_collective *c)
{
    uint32_t due = c->flow.enabled ? tt_flow_due(c) : TT_FLOW_ALL;

    for (uint32_t s = 0; s < c->config.terms.subgroups; s++) {
        struct tt_stream *stream = &c->config.streams[s];
        uint32_t at = stream->stripe.psn_count - (tt_collective_has_block(c) ? stream->stripe.chunks : 0);

        if (due != TT_FLOW_ALL) {
            uint64_t soon = atomic_load_explicit(&stream->received, memory_order_relaxed) +
                            tt_most(due / c->config.terms.subgroups, 1);

            at = (uint32_t)tt_least(soon, at);
        }
        at = c->state == TT_COLLECTIVE_BARRIER && at > 1 ? 1 : at; /* the first chunk ends it */
        atomic_store_explicit(&stream->notify_at, at, memory_order_relaxed);
    }
}

/* --- The whole ---------------------------------------------------------------------------------------------------- */

void tt_collective_finish(struct tt_collective *c, tutti_status status, uint32_t rank, struct tt_actions *actions)
{
    struct tt_action *action = tt_actions_add(actions, TT_ACTION_FINISH, c);

    assert(c->state != TT_COLLECTIVE_FINISHED);
    assert(tt_collective_buffers_are_free(c)); /* they are the user's from now on */
    assert(c->status == TUTTI_OK || c->status == status);
    tt_flow_end(c);
    c->state = TT_COLLECTIVE_FINISHED;
    c->status = status;
    c->failed_rank = rank;
    action->body.finish.status = status;
    action->body.finish.rank = rank;
}

static void advance(struct tt_collective *c, uint64_t now_ns, struct tt_actions *actions)
{
    if (c->state == TT_COLLECTIVE_BARRIER) {
        c->way->gate->advance(c, now_ns, actions);
    }
    if (c->state == TT_COLLECTIVE_FAILING) {
        tt_collective_advance_failing(c, now_ns, actions);
    } else if (c->state >= TT_COLLECTIVE_RECEIVE && c->state < TT_COLLECTIVE_FAILING) {
        c->way->mover->advance(c, now_ns, actions);
    }
}

/* Notes a frame; false if it is out of turn. */
static bool note_frame(struct tt_collective *c, uint64_t now_ns, const struct tt_frame *frame,
                       struct tt_actions *actions)
{
    const struct tt_way *way = c->way;

    return (way->gate->frame != NULL && way->gate->frame(c, now_ns, frame, actions)) ||
           (way->mover->frame != NULL && way->mover->frame(c, now_ns, frame, actions));
}

static void start(struct tt_collective *c, uint64_t now_ns, struct tt_actions *actions)
{
    assert(c->state == TT_COLLECTIVE_IDLE);
    c->state = TT_COLLECTIVE_BARRIER;
    if (c->way->mover->multicasts) {
        c->receiving.published = true;
        tt_collective_set_notify(c);
        tt_actions_add(actions, TT_ACTION_PUBLISH, c);
    }
    if (c->relay.may_go_ahead) {
        c->way->mover->ahead(c, actions);
    }
    if (c->way->gate->start != NULL) {
        c->way->gate->start(c, now_ns, actions);
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
        fine = !*mismatch && note_frame(c, event->now_ns, event->frame, actions);
        break;
    case TT_EVENT_SENT:
        tt_sequencer_sent(c, event->now_ns, actions);
        break;
    case TT_EVENT_FROZEN:
        assert(c->receiving.freezing);
        c->receiving.frozen = true;
        c->receiving.heard = tt_collective_has_heard(c);
        break;
    case TT_EVENT_GOT:
        fine = tt_fetch_got(&c->fetch, event->run, event->status);
        break;
    case TT_EVENT_RELAYED:
        assert(c->relay.relaying);
        c->relay.relayed = true;
        if (c->way->mover->multicasts && c->state == TT_COLLECTIVE_RECEIVE) {
            tt_collective_set_cutoff(c, event->now_ns);
        }
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
        return tt_collective_needs_patience(c) ? c->failing.patience_deadline_ns : deadline;
    }
    if (c->state == TT_COLLECTIVE_RECEIVE) {
        deadline = tt_least(c->receiving.tail_deadline_ns, c->receiving.cutoff_deadline_ns);
    }
    if (!c->final.received) {
        deadline = tt_least(deadline, c->sending.done_deadline_ns);
    }
    if (c->way->gate->deadline != NULL) {
        deadline = tt_least(deadline, c->way->gate->deadline(c));
    }
    if (c->way->mover->deadline != NULL) {
        deadline = tt_least(deadline, c->way->mover->deadline(c));
    }
    if (c->sending.transmitting && !c->sending.sent) {
        deadline = tt_least(deadline, c->sending.stall_deadline_ns);
    }
    return deadline;
}

static uint32_t waits_for(const struct tt_collective *c)
{
    if (c->state == TT_COLLECTIVE_BARRIER) {
        return c->way->gate->waits_for(c);
    }
    if (c->way->mover->waits_for != NULL &&
        (c->state == TT_COLLECTIVE_RECEIVE || c->state == TT_COLLECTIVE_HANDSHAKE)) {
        return c->way->mover->waits_for(c);
    }
    switch (c->state) {
    case TT_COLLECTIVE_RECEIVE:
        return tt_collective_roots(c) == 1 ? c->config.terms.root : TT_RANK_NONE;
    case TT_COLLECTIVE_FETCH:
        return tt_collective_left(c);
    case TT_COLLECTIVE_HANDSHAKE:
        return tt_collective_right(c);
    default:
        return TT_RANK_NONE;
    }
}

uint32_t tt_collective_waits_for(const struct tt_collective *c)
{
    uint32_t rank = waits_for(c);

    return rank != c->config.rank ? rank : TT_RANK_NONE; /* a root waits for its own surroundings */
}
