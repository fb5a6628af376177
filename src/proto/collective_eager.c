/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What an eager collective does differently. Normal path: receive everything, leave a copy of it, finish; the member
 * serves the right neighbour from the copy. Loss: after a sign that somebody has finished, or after a while, ASK goes
 * left. DONE comes back when the left neighbour has everything, and then the rest is fetched.
 *
 * In an Allgather it may be that nobody has everything. So the asker says what it has, and asks again; a left neighbour
 * that waits as well, and has something else, freezes, says DONE, and serves piece by piece from the copy that it has
 * begun. Ranks that have the same wait on: what they miss has not been sent, or is somewhere to the left.
 *
 * An Allgather makes its copy only when the place is free. A rank that has everything, and not heard enough to know
 * that, asks to its left as well: DONE says it.
 *
 * Why that ends: let nothing move any more, and everybody be posted and have sent. Who fetches misses nothing that its
 * left neighbour has; who waits has the same as its left neighbour. So around the ring everybody's left neighbour has
 * no more than oneself, so that all have the same; as each has its own block, that is everything.
 */
#include "proto/collective_private.h"
#include "proto/eager.h"

/* Of the PSNs that are here, and that others may have too: own ones count once they are sent. */
static uint64_t digest_of(const struct tt_collective *c)
{
    uint64_t digest = 0;

    for (uint32_t s = 0; s < c->config.terms.subgroups; s++) {
        const struct tt_stream *stream = &c->config.streams[s];

        for (uint32_t psn = 0; psn < stream->stripe.psn_count; psn++) {
            bool own = tt_collective_has_block(c) && psn / stream->stripe.chunks == c->own_root_index;

            if ((tt_stream_word(stream, psn / 64) >> (psn % 64) & 1) != 0 && (!own || c->sent)) {
                digest =
                    (digest ^ ((uint64_t)s << 32 | psn) ^ UINT64_C(0x8000000000000000)) * UINT64_C(0x9E3779B97F4A7C15);
            }
        }
    }
    return digest;
}

static void ask_left(struct tt_collective *c, uint64_t now_ns, struct tt_actions *actions)
{
    struct tt_frame *frame = tt_collective_send(c, TT_FRAME_ASK, tt_collective_left(c), actions);

    frame->body.ask.terms = c->config.terms;
    frame->body.ask.digest = digest_of(c);
    c->asked = true;
    c->tail_deadline_ns = c->cutoff_deadline_ns = UINT64_MAX;
    if (tt_collective_roots(c) > 1) {
        c->cutoff_deadline_ns = now_ns + c->ask_interval_ns;
        c->ask_interval_ns =
            c->ask_interval_ns < TT_EAGER_ASK_MOST_NS / 2 ? 2 * c->ask_interval_ns : TT_EAGER_ASK_MOST_NS;
    }
}

void tt_collective_advance_eager(struct tt_collective *c, uint64_t now_ns, struct tt_actions *actions)
{
    if (tt_collective_received(c) == c->expected) {
        tt_collective_enter_handshake(c, actions);
        if (!c->may_keep) {
            ask_left(c, now_ns, actions); /* it may know that there is room; or else a round of acknowledgments tells */
        }
    } else if (c->tail_deadline_ns <= now_ns || c->cutoff_deadline_ns <= now_ns) {
        ask_left(c, now_ns, actions);
    }
}

static void note_ask(struct tt_collective *c, const struct tt_frame *frame, struct tt_actions *actions)
{
    c->right_asked = true;
    if (tt_collective_roots(c) > 1 && c->asked && c->may_keep && c->state <= TT_COLLECTIVE_FETCH &&
        frame->body.ask.digest != digest_of(c)) {
        c->right_asked = false;
        tt_collective_send(c, TT_FRAME_DONE, tt_collective_right(c), actions)->body.done.chain = 0;
        tt_collective_freeze(c, actions);
    }
}

bool tt_collective_note_eager(struct tt_collective *c, const struct tt_frame *frame, struct tt_actions *actions)
{
    switch (frame->type) {
    case TT_FRAME_ASK:
        if (frame->source != tt_collective_right(c)) {
            return false;
        }
        note_ask(c, frame, actions);
        return true;
    case TT_FRAME_DONE:
        if (!c->asked || frame->source != tt_collective_left(c)) {
            return false;
        }
        c->may_keep = true; /* there it is kept, or about to be */
        if (c->state == TT_COLLECTIVE_RECEIVE) {
            tt_collective_enter_fetch(c, actions);
        }
        return true;
    case TT_FRAME_FETCH:
        return frame->source == tt_collective_right(c) && tt_fetch_wanted(&c->fetch, frame);
    case TT_FRAME_AVAILABLE:
        return frame->source == tt_collective_left(c) && tt_fetch_available(&c->fetch, frame);
    case TT_FRAME_GATHER:
    case TT_FRAME_READY:
        return tt_collective_is_gathered(c) && tt_gather_frame(c, frame, actions);
    default:
        return false;
    }
}

static void keep(struct tt_collective *c, struct tt_actions *actions)
{
    struct tt_action *action = tt_actions_add(actions, TT_ACTION_KEEP, c);

    action->body.keep.offset_bytes = c->copy_offset;
    action->body.keep.length_bytes = tt_terms_bytes(&c->config.terms, c->config.size);
}

static void serve(struct tt_collective *c, struct tt_actions *actions)
{
    struct tt_frame template = c->template;

    template.body.available.address = c->copy_offset;
    tt_fetch_serve(&c->fetch, &template, tt_collective_right(c), NULL, actions);
}

/* From a copy of what is here, so only where its place is free. */
void tt_collective_serve_eager(struct tt_collective *c, struct tt_actions *actions)
{
    if (c->frozen && c->may_keep && tt_fetch_can_serve(&c->fetch)) {
        keep(c, actions);
        serve(c, actions);
    }
}

void tt_collective_finish_eager(struct tt_collective *c, struct tt_actions *actions)
{
    if (tt_collective_is_gathered(c) && c->config.terms.block_bytes == 0) {
        struct tt_release release;

        tt_release_decode(c->config.streams[0].buffer, &release);
        tt_gather_note(c, &release);
    }
    keep(c, actions);
    serve(c, actions);
    if (c->right_asked) {
        tt_collective_send(c, TT_FRAME_DONE, tt_collective_right(c), actions)->body.done.chain = 0;
    }
    tt_collective_finish(c, TUTTI_OK, TT_RANK_NONE, actions);
}
