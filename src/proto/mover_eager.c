/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What an eager collective does differently. Normal path: receive everything, leave a copy of it, finish; the member
 * serves the right neighbour from the copy. Loss: after a sign that somebody has finished, or after a while, ASK goes
 * left. KEPT comes back when the left neighbour has everything, and then the rest is fetched.
 *
 * In an Allgather it may be that nobody has everything. So the asker says what it has, and asks again; a left neighbour
 * that waits as well, and has something else, freezes, says KEPT, and serves piece by piece from the copy that it has
 * begun. Ranks that have the same wait on: what they miss has not been sent, or is somewhere to the left.
 *
 * An Allgather makes its copy only when the place is free. A rank that has everything, and not heard enough to know
 * that, asks to its left as well: KEPT says it.
 *
 * Why that ends: let nothing move any more, and everybody be posted and have sent. Who fetches misses nothing that its
 * left neighbour has; who waits has the same as its left neighbour. So around the ring everybody's left neighbour has
 * no more than oneself, so that all have the same; as each has its own block, that is everything.
 */
#include <assert.h>

#include "base/least.h"
#include "proto/collective_private.h"
#include "proto/eager.h"
#include "proto/sequencer.h"

/* Of the PSNs that are here, and that others may have too: own ones count once they are sent. */
static uint64_t digest_of(const struct tt_collective *c)
{
    uint64_t digest = 0;

    for (uint32_t s = 0; s < c->config.terms.subgroups; s++) {
        const struct tt_stream *stream = &c->config.streams[s];

        for (uint32_t psn = 0; psn < stream->stripe.psn_count; psn++) {
            bool own = tt_collective_has_block(c) && psn / stream->stripe.chunks == c->own_root_index;

            if ((tt_stream_word(stream, psn / 64) >> (psn % 64) & 1) != 0 && (!own || c->sending.sent)) {
                digest =
                    (digest ^ ((uint64_t)s << 32 | psn) ^ UINT64_C(0x8000000000000000)) * UINT64_C(0x9E3779B97F4A7C15);
            }
        }
    }
    return digest;
}

/* In an Allgather: both wait, and the right neighbour has something else than this rank. */
static void answer_right(struct tt_collective *c, struct tt_actions *actions)
{
    if (c->copy.right_asked && tt_collective_roots(c) > 1 && c->copy.asked && c->copy.may_keep &&
        c->state <= TT_COLLECTIVE_FETCH && c->copy.right_digest != digest_of(c)) {
        c->copy.right_asked = false;
        tt_collective_send(c, TT_FRAME_KEPT, tt_collective_right(c), actions);
        tt_collective_freeze(c, actions);
    }
}

static void ask_left(struct tt_collective *c, uint64_t now_ns, struct tt_actions *actions)
{
    struct tt_frame *frame = tt_collective_send(c, TT_FRAME_ASK, tt_collective_left(c), actions);

    frame->body.ask.terms = c->config.terms;
    frame->body.ask.digest = digest_of(c);
    c->copy.asked = true;
    answer_right(c, actions);
    c->receiving.tail_deadline_ns = c->receiving.cutoff_deadline_ns = UINT64_MAX;
    if (tt_collective_roots(c) > 1) {
        c->receiving.cutoff_deadline_ns = now_ns + c->copy.ask_interval_ns;
        if (c->copy.ask_interval_ns < TT_EAGER_ASK_MOST_NS) {
            c->copy.ask_interval_ns = tt_least(2 * c->copy.ask_interval_ns, TT_EAGER_ASK_MOST_NS);
        }
    }
}

static void advance_receive(struct tt_collective *c, uint64_t now_ns, struct tt_actions *actions)
{
    assert(tt_collective_received(c) <= c->expected);
    if (tt_collective_received(c) == c->expected) {
        tt_collective_enter_handshake(c, actions);
        if (!c->copy.may_keep && !tt_collective_awaits_block(c)) {
            ask_left(c, now_ns, actions); /* it may know that there is room; or else a round of acknowledgments tells */
        }
    } else if (c->receiving.tail_deadline_ns <= now_ns || c->receiving.cutoff_deadline_ns <= now_ns) {
        ask_left(c, now_ns, actions);
    }
}

static void note_ask(struct tt_collective *c, const struct tt_frame *frame, struct tt_actions *actions)
{
    c->copy.right_asked = true;
    c->copy.right_digest = frame->body.ask.digest;
    answer_right(c, actions);
}

static bool note_frame(struct tt_collective *c, uint64_t now_ns, const struct tt_frame *frame,
                       struct tt_actions *actions)
{
    (void)now_ns;
    switch (frame->type) {
    case TT_FRAME_ASK:
        if (frame->source != tt_collective_right(c)) {
            return false;
        }
        note_ask(c, frame, actions);
        return true;
    case TT_FRAME_KEPT:
        if (!c->copy.asked || frame->source != tt_collective_left(c)) {
            return false;
        }
        c->copy.may_keep = true; /* there it is kept, or about to be */
        if (c->state == TT_COLLECTIVE_RECEIVE) {
            tt_collective_enter_fetch(c, actions);
        }
        return true;
    default:
        return tt_collective_note_fetch(c, frame);
    }
}

static void keep(struct tt_collective *c, struct tt_actions *actions)
{
    struct tt_action *action = tt_actions_add(actions, TT_ACTION_KEEP, c);

    assert(c->receiving.frozen); /* it does not change while it is copied */
    assert(c->copy.may_keep);    /* nor does the copy overwrite what somebody may still read */
    action->body.keep.offset_bytes = c->copy.offset;
    action->body.keep.length_bytes = tt_terms_bytes(&c->config.terms, c->config.size);
}

static void serve(struct tt_collective *c, struct tt_actions *actions)
{
    struct tt_frame template = c->template;

    template.body.available.address = c->copy.offset;
    tt_fetch_serve(&c->fetch, &template, tt_collective_right(c), NULL, actions);
}

/* What the right neighbour fetches while this rank is not complete either: from a copy of what is here, so only where
 * its place is free. */
static void serve_early(struct tt_collective *c, struct tt_actions *actions)
{
    if (c->receiving.frozen && c->copy.may_keep && tt_fetch_can_serve(&c->fetch)) {
        keep(c, actions);
        serve(c, actions);
    }
}

/* --- Moving ------------------------------------------------------------------------------------------------------- */

static void begin(struct tt_collective *c, uint64_t now_ns)
{
    c->state = TT_COLLECTIVE_RECEIVE;
    c->receiving.cutoff_deadline_ns =
        tt_collective_is_deaf(c) && tt_collective_roots(c) == 1 ? now_ns : now_ns + c->config.ask_ns;
    c->copy.ask_interval_ns = c->config.ask_ns;
}

static void begin_eager(struct tt_collective *c, uint64_t now_ns, struct tt_actions *actions)
{
    (void)actions;
    begin(c, now_ns);
    c->sending.activated = tt_collective_has_block(c);
}

/* Others' parts come while the own one is made. Nobody has all before that, and nothing is asked for. */
static void begin_parts(struct tt_collective *c, uint64_t now_ns, struct tt_actions *actions)
{
    begin(c, now_ns);
    c->receiving.cutoff_deadline_ns = UINT64_MAX;
    tt_collective_relay(c, actions);
}

/* In an Allgather a deaf rank asks then: before it would have nothing that others lack. */
static void note_sent(struct tt_collective *c, uint64_t now_ns, struct tt_actions *actions)
{
    (void)actions;
    if (c->state == TT_COLLECTIVE_RECEIVE && tt_collective_is_deaf(c) && !c->copy.asked) {
        c->receiving.cutoff_deadline_ns = now_ns;
    }
}

/* The root sends when everything is there. */
static void begin_gathered(struct tt_collective *c, uint64_t now_ns, struct tt_actions *actions)
{
    (void)actions;
    begin(c, now_ns);
    tt_gather_start(c, now_ns);
}

static void advance_eager(struct tt_collective *c, uint64_t now_ns, struct tt_actions *actions)
{
    if (c->state == TT_COLLECTIVE_RECEIVE) {
        advance_receive(c, now_ns, actions);
    }
    tt_collective_move_chunks(c, now_ns, actions);
    serve_early(c, actions);
    tt_collective_end_chunks(c, now_ns, actions);
}

static void advance_parts(struct tt_collective *c, uint64_t now_ns, struct tt_actions *actions)
{
    if (c->relay.relayed && !c->sending.activated) {
        c->sending.activated = true;
        c->receiving.cutoff_deadline_ns = now_ns + c->config.ask_ns;
        if (c->state == TT_COLLECTIVE_HANDSHAKE && !c->copy.may_keep && !c->copy.asked) {
            ask_left(c, now_ns, actions); /* everything came before the own part was made */
        }
    }
    advance_eager(c, now_ns, actions);
}

static void advance_gathered(struct tt_collective *c, uint64_t now_ns, struct tt_actions *actions)
{
    tt_gather_advance(c, now_ns, actions);
    advance_eager(c, now_ns, actions);
}

static bool note_gathered_frame(struct tt_collective *c, uint64_t now_ns, const struct tt_frame *frame,
                                struct tt_actions *actions)
{
    return tt_gather_frame(c, frame, actions) || note_frame(c, now_ns, frame, actions);
}

/* Whoever asked before its own part is made would ask for what nobody can have. */
static void check_eager_parts(const struct tt_collective *c)
{
    assert(!c->copy.asked || !tt_collective_awaits_block(c));
}

/* --- The copy ----------------------------------------------------------------------------------------------------- */

static void enter_copy(struct tt_collective *c, struct tt_actions *actions)
{
    assert(!c->final.received);
    c->final.received = true; /* nobody reads here */
    if (tt_collective_has_fetched(c)) {
        tt_collective_send(c, TT_FRAME_FINAL, tt_collective_left(c), actions);
    }
}

/* Everything is here, and nothing touches the buffers any more: a copy stays for the right neighbour. */
static void advance_copy(struct tt_collective *c, uint64_t now_ns, struct tt_actions *actions)
{
    struct tt_release release;

    (void)now_ns;
    if (!c->copy.may_keep || !tt_collective_buffers_are_free(c)) {
        return;
    }
    if (tt_terms_releases(&c->config.terms)) {
        tt_release_decode(c->config.streams[0].buffer, &release);
        tt_gather_note(c, &release);
    }
    keep(c, actions);
    serve(c, actions);
    if (c->copy.right_asked) {
        tt_collective_send(c, TT_FRAME_KEPT, tt_collective_right(c), actions);
    }
    tt_collective_finish(c, TUTTI_OK, TT_RANK_NONE, actions);
}

const struct tt_mover tt_mover_eager = {.multicasts = true,
                                        .most_bytes = tt_eager_most_bytes,
                                        .begin = begin_eager,
                                        .advance = advance_eager,
                                        .frame = note_frame,
                                        .sent = note_sent};

const struct tt_mover tt_mover_eager_parts = {.multicasts = true,
                                              .makes_block = true,
                                              .most_bytes = tt_eager_most_bytes,
                                              .ahead = tt_collective_relay,
                                              .begin = begin_parts,
                                              .advance = advance_parts,
                                              .frame = note_frame,
                                              .sent = note_sent,
                                              .check = check_eager_parts};

const struct tt_mover tt_mover_gathered = {.multicasts = true,
                                           .gathers = true,
                                           .most_bytes = tt_gather_most_bytes,
                                           .begin = begin_gathered,
                                           .advance = advance_gathered,
                                           .frame = note_gathered_frame,
                                           .deadline = tt_gather_deadline,
                                           .waits_for = tt_gather_waits_for,
                                           .check = tt_gather_check};

const struct tt_completion tt_completion_copy = {.keeps_copy = true, .enter = enter_copy, .advance = advance_copy};
