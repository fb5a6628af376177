/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Flow control. Normal path: update() follows each lane's highest chunk, and says how far roots may go in steps of half
 * a window; the least of the subtree goes to the parent, and vertex 0 grants the least of all, which every
 * vertex passes on. All ranks round to the same steps, so that no level of the tree adds a delay of its own.
 *
 * Failures: lost reports cost time only, as a root that hears nothing goes on by itself.
 */
#include "proto/flow.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "base/least.h"
#include "plan/chain.h"
#include "plan/dissemination.h"
#include "plan/report.h"
#include "plan/tree.h"
#include "proto/collective_private.h"

enum {
    MOST_CHUNKS = 1 << 20, /* in a window that somebody says it has */
    LEAST_CHUNKS = 8,      /* in a window of one collective, whoever shares it */
    REACH_CHUNKS = 128,    /* a longer gap is looked for only if nothing else has come */
    LEAST_PATIENCE = 50    /* part of the patience: a report takes its time */
};

#define MOST_TURN_BYTES (UINT64_C(64) << 20) /* of a collective that others wait for */

static uint32_t own_vertex(const struct tt_collective *c)
{
    return tt_collective_vertex(c, c->config.rank);
}

/* --- Turns -------------------------------------------------------------------------------------------------------- */

/* How many chunks of a lane come within so many turns. */
static uint32_t lane_limit(const struct tt_collective *c, uint32_t lane, uint32_t turns)
{
    assert(lane < c->config.terms.chains);
    return turns <= lane ? 0 : (turns - lane - 1) / c->config.terms.chains + 1;
}

/* Whether a lane is of this host while others come over the link. */
static bool is_left_out(const struct tt_collective *c, const struct tt_chain *roots)
{
    return roots->length == 1 && c->remote > 0 && tt_collective_root_is_near(c, roots->first);
}

void tt_flow_init(struct tt_collective *c)
{
    uint32_t longest = tt_chain_at(tt_collective_roots(c), c->config.terms.chains, 0).length;
    bool spans_hosts = false;

    assert(c->config.terms.chains >= 1 && c->config.terms.chains <= tt_collective_roots(c));
    assert(!c->flow.enabled); /* nothing is known yet */
    c->flow.turns = (uint64_t)longest * c->block_chunks * c->config.terms.chains;
    for (uint32_t rank = 0; rank < c->config.size; rank++) {
        spans_hosts |= !tt_is_same_host(c->config.hosts, rank, c->config.rank);
    }
    c->flow.watches = c->remote > 0 || !spans_hosts;
    c->flow.enabled = c->config.link != NULL && c->config.size > 1 && c->flow.turns < TT_FLOW_ALL &&
                      c->flow.turns > c->config.link->least_bytes / tt_flow_wire_bytes(c);
}

void tt_flow_reset(struct tt_collective *c)
{
    assert(!c->flow.counted && !c->flow.turn.is_on && !c->flow.turn.waits); /* the last run has ended */
    if (!c->flow.enabled) {
        return;
    }
    memset(&c->flow.agreed, 0, sizeof c->flow - offsetof(struct tt_flow, agreed));
    for (uint32_t lane = 0; lane < c->config.terms.chains; lane++) {
        uint32_t first = tt_chain_at(tt_collective_roots(c), c->config.terms.chains, lane).first;

        for (uint32_t s = 0; s < c->config.terms.subgroups; s++) {
            c->config.positions[lane * c->config.terms.subgroups + s] = first * c->config.streams[s].stripe.chunks;
        }
    }
}

/* Of a window; two at least, so that something is always on its way. */
static uint32_t chunks_in(const struct tt_collective *c, uint32_t window_bytes)
{
    return tt_most(window_bytes / tt_flow_wire_bytes(c), 2);
}

uint32_t tt_flow_window(const struct tt_collective *c)
{
    const struct tt_link *link = c->config.link;
    uint32_t all, share;

    if (link == NULL) {
        return TT_FLOW_ALL;
    }
    all = chunks_in(c, link->window_bytes);
    share = all / tt_flow_users(c);
    return tt_most(share, tt_least(all, LEAST_CHUNKS));
}

/* In which a window of chunks passes the busiest port. */
static uint32_t turns_of_window(const struct tt_collective *c, uint32_t chunks)
{
    return (uint32_t)((uint64_t)chunks * c->config.terms.chains / tt_most(c->config.heard, 1));
}

static bool takes_turns(const struct tt_collective *c)
{
    return c->flow.enabled && c->flow.turns * c->config.terms.chunk_bytes <= MOST_TURN_BYTES;
}

/* Whether it is more than a window; else nobody has anything to report. Known with the release. */
static bool is_limited(const struct tt_collective *c)
{
    return c->flow.agreed < c->flow.turns;
}

bool tt_flow_is_long(const struct tt_collective *c)
{
    return c->flow.enabled && is_limited(c);
}

bool tt_flow_begin(struct tt_collective *c)
{
    return !takes_turns(c) || tt_link_take_turn(c->config.link, &c->flow.turn);
}

void tt_flow_end(struct tt_collective *c)
{
    tt_flow_stop(c);
    if (takes_turns(c)) {
        tt_link_end_turn(c->config.link, &c->flow.turn);
    }
}

void tt_flow_start(struct tt_collective *c, const struct tt_release *least_of_all)
{
    uint32_t window;

    if (!c->flow.enabled) {
        return;
    }
    window = chunks_in(c, c->config.link->least_bytes);
    if (!c->flow.counted) {
        c->flow.counted = true;
        tt_link_join(c->config.link);
    }
    if (least_of_all != NULL) {
        c->flow.agreed = turns_of_window(c, tt_least(least_of_all->window_chunks, MOST_CHUNKS));
        window = c->flow.agreed;
        c->flow.reported = tt_most(c->flow.reported, is_limited(c) ? window : TT_FLOW_ALL);
    }
    c->flow.own = tt_most(c->flow.own, window);
    c->flow.granted = tt_most(c->flow.granted, is_limited(c) ? window : TT_FLOW_ALL);
    if (!is_limited(c)) {
        c->flow.due = TT_FLOW_ALL;
    } else if (c->flow.looked == 0) { /* else the next look says */
        c->flow.due = tt_flow_step(c);
    }
}

void tt_flow_stop(struct tt_collective *c)
{
    c->flow.own = TT_FLOW_ALL;
    if (c->flow.counted) {
        c->flow.counted = false;
        tt_flow_note_dry(c, false);
        tt_link_leave(c->config.link);
    }
}

uint32_t tt_flow_step(const struct tt_collective *c)
{
    uint32_t step = c->flow.agreed / TT_FLOW_REPORTS,
             most_step = turns_of_window(c, tt_flow_window(c)) / TT_FLOW_REPORTS;

    while (step > most_step) { /* the own window has become smaller: steps that others' are multiples of */
        step /= 2;
    }
    return tt_most(step, 1);
}

uint32_t tt_flow_due(const struct tt_collective *c)
{
    uint32_t received = tt_collective_received(c);

    return c->flow.due == TT_FLOW_ALL ? TT_FLOW_ALL : c->flow.due > received ? c->flow.due - received : 0;
}

/* --- Receiving ---------------------------------------------------------------------------------------------------- */

/* Moves a position over what has been seen since, and over the own block, which nobody receives. */
static uint32_t advance(const struct tt_collective *c, const struct tt_stream *stream, uint32_t position,
                        uint32_t limit)
{
    uint32_t chunks = stream->stripe.chunks, own_first = c->own_root_index * chunks;
    uint32_t own_end = own_first + chunks, before, after;

    if (c->own_root_index == TT_RANK_NONE || position >= own_end || limit <= own_first) {
        return tt_stream_highest(stream, position, limit);
    }
    before = position >= own_first ? own_first : tt_stream_highest(stream, position, own_first);
    after = limit > own_end ? tt_stream_highest(stream, own_end, limit) : own_end;
    return after > own_end || before == own_first ? tt_most(after, own_end) : before;
}

/* Of one lane, with no gap of more than `reach` chunks: how many have come, the own ones that it went past included. */
static uint32_t look_at_lane(const struct tt_collective *c, uint32_t lane, const struct tt_chain *roots, uint32_t reach)
{
    uint32_t come = 0;

    for (uint32_t s = 0; s < c->config.terms.subgroups; s++) {
        const struct tt_stream *stream = &c->config.streams[s];
        uint32_t first = roots->first * stream->stripe.chunks, end = first + roots->length * stream->stripe.chunks;
        uint32_t *position = &c->config.positions[lane * c->config.terms.subgroups + s];

        for (uint32_t before = end; *position < end && *position != before;) {
            before = *position;
            *position = advance(c, stream, before, reach < end - before ? before + reach : end);
        }
        come += *position - first;
    }
    return come;
}

/* Own chunks among those of a lane that count as come. */
static uint32_t own_among(const struct tt_collective *c, const struct tt_chain *roots, uint32_t come)
{
    uint32_t before = (c->own_root_index - roots->first) * c->block_chunks;

    if (c->own_root_index == TT_RANK_NONE || c->own_root_index < roots->first ||
        c->own_root_index >= roots->first + roots->length || come <= before) {
        return 0;
    }
    return tt_least(come - before, c->block_chunks);
}

static struct tt_flow_view look(const struct tt_collective *c, uint32_t reach)
{
    struct tt_flow_view view = {0};

    for (uint32_t lane = 0; lane < c->config.terms.chains; lane++) {
        struct tt_chain roots = tt_chain_at(tt_collective_roots(c), c->config.terms.chains, lane);
        uint32_t all = roots.length * c->block_chunks, come, others;

        if (roots.length == 1 && roots.first == c->own_root_index) {
            continue;
        }
        come = look_at_lane(c, lane, &roots, reach);
        others = come - own_among(c, &roots, come);
        view.come += others;
        view.active += come < all;
        if (is_left_out(c, &roots)) {
            continue;
        }
        view.remote += others;
        if (come < all) {
            view.lanes++;
            view.sum += come;
            view.dry += come >= tt_least(lane_limit(c, lane, c->flow.own), all);
        }
    }
    return view;
}

/* How far roots may go: each of the lanes that are not through as far as the others, and all together a window further
 * than they have come. */
static uint32_t turns_of(const struct tt_collective *c, const struct tt_flow_view *view)
{
    uint64_t turns;

    if (view->lanes == 0) {
        return TT_FLOW_ALL;
    }
    turns = (view->sum + tt_flow_window(c)) * c->config.terms.chains / view->lanes;
    return turns < c->flow.turns ? (uint32_t)turns : TT_FLOW_ALL;
}

/* How many chunks have been received when the next step is complete, if they go on coming in all lanes alike. */
static uint32_t due_of(const struct tt_collective *c, const struct tt_flow_view *view, uint32_t turns, uint32_t step)
{
    uint64_t next = ((uint64_t)c->flow.own / step + 1) * step;

    if (c->flow.own == TT_FLOW_ALL) {
        return TT_FLOW_ALL;
    }
    assert(turns < next); /* else it had been allowed */
    return (uint32_t)tt_least(c->flow.looked + tt_most((next - turns) * view->active / c->config.terms.chains, 1),
                              TT_FLOW_ALL);
}

/* What this rank allows, if chunks have come. */
static void allow(struct tt_collective *c, uint32_t step, uint64_t now_ns)
{
    uint32_t here = tt_collective_received(c), turns;
    bool is_last = here == c->expected;
    struct tt_flow_view view;

    assert(here >= c->flow.looked);
    assert(here <= c->expected);
    if (here == c->flow.looked) {
        return;
    }
    c->flow.looked = here;
    view = look(c, REACH_CHUNKS);
    if (view.come == c->flow.come) {
        view = look(c, UINT32_MAX);
    }
    tt_flow_note_come(c, &view, now_ns);
    turns = turns_of(c, &view);
    if (is_last || (c->flow.own != TT_FLOW_ALL && (turns == TT_FLOW_ALL || turns / step > c->flow.own / step))) {
        tt_flow_adapt(c, &view, now_ns);
        turns = turns_of(c, &view); /* by another window, perhaps */
        c->flow.own = tt_most(c->flow.own, turns);
    }
    c->flow.due = due_of(c, &view, turns, step);
}

/* --- Reports ------------------------------------------------------------------------------------------------------ */

bool tt_flow_credit(struct tt_collective *c, const struct tt_frame *frame)
{
    uint32_t vertex, index;

    if (!c->flow.enabled) {
        return false;
    }
    vertex = tt_collective_vertex(c, frame->source);
    if (vertex == 0 || tt_report_parent(vertex, c->config.size) != own_vertex(c)) {
        return false;
    }
    index = tt_report_child_index(vertex, c->config.size);
    c->flow.children[index] = tt_most(c->flow.children[index], frame->body.credit.turns);
    return true;
}

static void tell(struct tt_collective *c, uint32_t vertex, enum tt_frame_type type, uint32_t turns,
                 struct tt_actions *actions)
{
    tt_collective_send(c, type, tt_collective_rank(c, vertex), actions)->body.credit.turns = turns;
}

/* Down the tree, where there are other roots to tell. */
static void grant(struct tt_collective *c, uint32_t turns, struct tt_actions *actions)
{
    uint32_t child;

    c->flow.granted = tt_most(c->flow.granted, turns);
    for (uint32_t i = 0; tt_collective_roots(c) > 1 && (child = tt_tree_child(own_vertex(c), c->config.size, i)) != 0;
         i++) {
        tell(c, child, TT_FRAME_GRANT, turns, actions);
    }
}

bool tt_flow_grant(struct tt_collective *c, const struct tt_frame *frame, struct tt_actions *actions)
{
    uint32_t vertex = own_vertex(c);

    if (!c->flow.enabled || tt_collective_roots(c) == 1 || vertex == 0 ||
        frame->source != tt_collective_rank(c, tt_tree_parent(vertex))) {
        return false;
    }
    grant(c, frame->body.credit.turns, actions);
    return true;
}

void tt_flow_update(struct tt_collective *c, uint64_t now_ns, struct tt_actions *actions)
{
    uint32_t vertex, step, all;

    if (!c->flow.enabled) {
        return;
    }
    vertex = own_vertex(c);
    step = tt_flow_step(c);
    allow(c, step, now_ns);
    if (c->flow.reported == TT_FLOW_ALL) {
        return;
    }
    all = c->flow.own == TT_FLOW_ALL ? TT_FLOW_ALL : c->flow.own / step * step;
    for (uint32_t i = 0; tt_report_child(vertex, c->config.size, i) != 0; i++) {
        all = tt_least(all, c->flow.children[i]);
    }
    if (all <= c->flow.reported) {
        return;
    }
    c->flow.reported = all;
    if (vertex == 0) {
        grant(c, all, actions);
    } else {
        tell(c, tt_report_parent(vertex, c->config.size), TT_FRAME_CREDIT, all, actions);
    }
}

/* --- Sending ------------------------------------------------------------------------------------------------------ */

uint64_t tt_flow_patience(const struct tt_collective *c)
{
    uint32_t queue_bytes = c->config.link == NULL ? UINT32_MAX : c->config.link->queue_bytes;

    if (queue_bytes >= TT_LINK_LEAST_BYTES) {
        return c->config.stall_ns;
    }
    return tt_most(c->config.stall_ns * queue_bytes / TT_LINK_LEAST_BYTES, c->config.stall_ns / LEAST_PATIENCE);
}

void tt_flow_stalled(struct tt_collective *c)
{
    uint32_t window = tt_flow_window(c);

    c->flow.granted = c->flow.granted < TT_FLOW_ALL - window ? c->flow.granted + window : TT_FLOW_ALL;
}

uint32_t tt_flow_limit(const struct tt_collective *c)
{
    uint32_t lane, before, allowed;

    if (!c->flow.enabled || c->flow.granted == TT_FLOW_ALL) {
        return c->block_chunks;
    }
    assert(c->own_root_index < tt_collective_roots(c)); /* only roots are limited */
    lane = tt_chain_of(tt_collective_roots(c), c->config.terms.chains, c->own_root_index);
    before =
        (c->own_root_index - tt_chain_at(tt_collective_roots(c), c->config.terms.chains, lane).first) * c->block_chunks;
    allowed = lane_limit(c, lane, c->flow.granted);
    return allowed <= before ? 0 : tt_least(allowed - before, c->block_chunks);
}

/* --- Checks ------------------------------------------------------------------------------------------------------- */

/* Positions are in their lanes. */
static void check_positions(const struct tt_collective *c)
{
    for (uint32_t lane = 0; lane < c->config.terms.chains; lane++) {
        struct tt_chain roots = tt_chain_at(tt_collective_roots(c), c->config.terms.chains, lane);

        for (uint32_t s = 0; s < c->config.terms.subgroups; s++) {
            uint32_t position = c->config.positions[lane * c->config.terms.subgroups + s];

            assert(position >= roots.first * c->config.streams[s].stripe.chunks);
            assert(position <= (roots.first + roots.length) * c->config.streams[s].stripe.chunks);
        }
    }
}

void tt_flow_check(const struct tt_collective *c)
{
    if (!c->flow.enabled) {
        assert(!c->flow.counted && !c->flow.turn.is_on && !c->flow.turn.waits);
        return;
    }
    tt_link_check(c->config.link);
    assert(!c->flow.counted || c->config.link->users > 0);
    assert(!c->flow.turn.is_on || c->config.link->turns > 0);
    /* Own turns are among those that the least is taken of, where any are reported. */
    assert(c->flow.reported <= c->flow.own || !is_limited(c));
    assert(own_vertex(c) != 0 || c->flow.reported <= c->flow.granted);
    assert(c->flow.looked <= tt_collective_received(c));
    assert(c->flow.come <= c->expected);
    assert(c->flow.seen <= c->flow.come && c->flow.remote <= c->flow.come);
    assert(!c->flow.is_dry || c->flow.counted);
    assert(c->own_root_index == TT_RANK_NONE || tt_flow_limit(c) <= c->block_chunks);
    check_positions(c);
}
