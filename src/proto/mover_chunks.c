/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Chunks by multicast, and reads around the ring: what is the same in both is the second half of the first. Normal
 * path: chunks arrive through the kernel while roots send in the sequencer's order; when all are here, the handshake.
 * Lost chunks: when all roots are done and a tail time has passed, or the cutoff has, the streams are frozen early and
 * the rest is fetched from the left neighbour, who serves it from its receive buffer as it comes in. Ring and chain
 * fetch everything.
 */
#include <assert.h>

#include "proto/collective_private.h"
#include "proto/sequencer.h"

/* --- Receiving ---------------------------------------------------------------------------------------------------- */

static void begin_chunks(struct tt_collective *c, uint64_t now_ns, struct tt_actions *actions)
{
    (void)actions;
    c->state = TT_COLLECTIVE_RECEIVE;
    tt_collective_set_cutoff(c, now_ns);
    c->sending.activated |= tt_sequencer_starts(c) || (tt_collective_is_silent(c) && tt_collective_has_block(c));
    tt_flow_start(c, c->everybody ? &c->least : NULL);
}

static void begin_reads(struct tt_collective *c, uint64_t now_ns, struct tt_actions *actions)
{
    (void)now_ns;
    c->sending.activated |= tt_collective_has_block(c); /* it only copies */
    tt_collective_enter_fetch(c, actions);
}

static void advance_receive(struct tt_collective *c, uint64_t now_ns, struct tt_actions *actions)
{
    uint32_t now_received = tt_collective_received(c);

    assert(now_received <= c->expected);
    assert(now_received >= c->receiving.last_received);
    if (now_received == c->expected) {
        tt_collective_enter_handshake(c, actions);
    } else if (tt_collective_is_silent(c) || (tt_collective_is_deaf(c) && !tt_collective_has_heard(c))) {
        tt_collective_enter_fetch(c, actions);
    } else if (c->receiving.tail_deadline_ns <= now_ns) {
        if (now_received == c->receiving.last_received) {
            tt_collective_enter_fetch(c, actions);
            return;
        }
        c->receiving.last_received = now_received;
        c->receiving.tail_deadline_ns = now_ns + c->config.tail_ns;
    } else if (c->receiving.cutoff_deadline_ns <= now_ns) {
        /* Chunks that still come mean that the bandwidth was overrated, not that the rest is lost. */
        if (now_received == c->receiving.last_received) {
            c->counters.cutoffs++;
            tt_collective_enter_fetch(c, actions);
            return;
        }
        c->receiving.last_received = now_received;
        c->receiving.cutoff_deadline_ns = now_ns + c->config.alpha_ns;
    }
}

void tt_collective_move_chunks(struct tt_collective *c, uint64_t now_ns, struct tt_actions *actions)
{
    assert(c->state >= TT_COLLECTIVE_RECEIVE && c->state < TT_COLLECTIVE_FAILING);
    if (c->state == TT_COLLECTIVE_FETCH && c->receiving.frozen &&
        tt_fetch_pump(&c->fetch, &c->template, tt_collective_left(c), c, actions)) {
        tt_collective_enter_handshake(c, actions);
    }
    if (c->flow.enabled) {
        if (c->state != TT_COLLECTIVE_RECEIVE) {
            tt_flow_stop(c);
        }
        tt_flow_update(c, now_ns, actions);
    }
    tt_sequencer_advance(c, now_ns, actions);
    tt_sequencer_tell(c, now_ns, actions);
}

void tt_collective_end_chunks(struct tt_collective *c, uint64_t now_ns, struct tt_actions *actions)
{
    if (c->state == TT_COLLECTIVE_HANDSHAKE && (!tt_collective_has_block(c) || c->sending.sent)) {
        c->way->completion->advance(c, now_ns, actions);
    }
    if (c->state == TT_COLLECTIVE_RECEIVE) {
        tt_collective_set_notify(c);
    }
}

static void advance(struct tt_collective *c, uint64_t now_ns, struct tt_actions *actions)
{
    tt_collective_note_release(c, now_ns);
    if (c->state == TT_COLLECTIVE_RECEIVE) {
        advance_receive(c, now_ns, actions);
    }
    tt_collective_move_chunks(c, now_ns, actions);
    tt_fetch_serve(&c->fetch, &c->template, tt_collective_right(c), c, actions);
    tt_collective_end_chunks(c, now_ns, actions);
}

/* --- Frames ------------------------------------------------------------------------------------------------------- */

bool tt_collective_note_fetch(struct tt_collective *c, const struct tt_frame *frame)
{
    switch (frame->type) {
    case TT_FRAME_FETCH:
        return frame->source == tt_collective_right(c) && tt_fetch_wanted(&c->fetch, frame);
    case TT_FRAME_AVAILABLE:
        return frame->source == tt_collective_left(c) && tt_fetch_available(&c->fetch, frame);
    default:
        return false;
    }
}

static bool note_read(struct tt_collective *c, uint64_t now_ns, const struct tt_frame *frame,
                      struct tt_actions *actions)
{
    (void)now_ns;
    (void)actions;
    if (frame->type != TT_FRAME_FINAL) {
        return tt_collective_note_fetch(c, frame);
    }
    if (frame->source != tt_collective_right(c)) {
        return false;
    }
    c->final.received = true;
    return true;
}

static bool note_chunks(struct tt_collective *c, uint64_t now_ns, const struct tt_frame *frame,
                        struct tt_actions *actions)
{
    const struct tt_collective_terms *terms = &c->config.terms;

    switch (frame->type) {
    case TT_FRAME_ACTIVATE:
        if (!tt_collective_has_block(c) || tt_collective_roots(c) == 1 || frame->source != tt_collective_left(c)) {
            return false;
        }
        c->sending.activated = true;
        return true;
    case TT_FRAME_DONE:
        if (frame->source != tt_collective_left(c)) {
            return false;
        }
        if (frame->body.done.chain >= terms->chains && frame->body.done.chain != TT_DONE_ALL_CHAINS) {
            return false;
        }
        tt_sequencer_done(c, frame->body.done.chain, now_ns, actions);
        return true;
    case TT_FRAME_CREDIT:
        return tt_flow_credit(c, frame);
    case TT_FRAME_GRANT:
        return tt_flow_grant(c, frame, actions);
    default:
        return note_read(c, now_ns, frame, actions);
    }
}

/* Nobody sends these before the barrier is over. */
static bool note_chunks_frame(struct tt_collective *c, uint64_t now_ns, const struct tt_frame *frame,
                              struct tt_actions *actions)
{
    bool fine = note_chunks(c, now_ns, frame, actions);

    c->over.overtaken |= fine;
    return fine;
}

/* --- The handshake ------------------------------------------------------------------------------------------------ */

static void enter_handshake(struct tt_collective *c, struct tt_actions *actions)
{
    if (c->config.size == 1) {
        c->final.received = true;
    } else if (c->final.sent) {
        tt_collective_send(c, TT_FRAME_FINAL, tt_collective_left(c), actions);
    }
}

static void advance_handshake(struct tt_collective *c, uint64_t now_ns, struct tt_actions *actions)
{
    assert(c->state == TT_COLLECTIVE_HANDSHAKE);
    if (c->way->mover->multicasts && c->config.size > 1) {
        tt_sequencer_complete(c, now_ns);
    }
    if (c->final.received && tt_collective_buffers_are_free(c)) {
        tt_collective_finish(c, TUTTI_OK, TT_RANK_NONE, actions);
    }
}

const struct tt_mover tt_mover_chunks = {.multicasts = true,
                                         .begin = begin_chunks,
                                         .advance = advance,
                                         .frame = note_chunks_frame,
                                         .sent = tt_sequencer_pass_on};

/* --- Parts -------------------------------------------------------------------------------------------------------- */

/* Somebody else makes the own block (TT_ACTION_RELAY), which is multicast when it is there; the others' come meanwhile,
 * each when its root has it. No chunk comes before all take part in making the blocks: that the barrier is over is said
 * to the right neighbour, for whom a release that was lost would else be made up for by nothing. */
static void begin_parts(struct tt_collective *c, uint64_t now_ns, struct tt_actions *actions)
{
    if (c->config.size > 1) {
        tt_collective_send_open(c, tt_collective_right(c), actions);
    }
    tt_collective_relay(c, actions);
    begin_chunks(c, now_ns, actions);
}

/* Of long ones others may fill the link until it is their turn, which the release waits for. */
static void make_ahead(struct tt_collective *c, struct tt_actions *actions)
{
    if (!c->flow.enabled) {
        tt_collective_relay(c, actions);
    }
}

static void check_parts(const struct tt_collective *c)
{
    assert(c->relay.relaying || c->state <= TT_COLLECTIVE_BARRIER);
    assert(!c->relay.relaying || c->state > TT_COLLECTIVE_BARRIER || (c->relay.may_go_ahead && !c->flow.enabled));
}

const struct tt_mover tt_mover_parts = {.multicasts = true,
                                        .makes_block = true,
                                        .ahead = make_ahead,
                                        .begin = begin_parts,
                                        .advance = advance,
                                        .frame = note_chunks_frame,
                                        .sent = tt_sequencer_pass_on,
                                        .check = check_parts};

const struct tt_mover tt_mover_reads = {.begin = begin_reads, .advance = advance, .frame = note_read};

const struct tt_completion tt_completion_handshake = {.enter = enter_handshake, .advance = advance_handshake};
