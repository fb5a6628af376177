/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tree. Normal path: READY goes to the parent, READY comes from the children, unless there is room for what comes
 * before; DATA comes in and goes out again, to the child with the largest subtree first. Data is placed as the receive
 * kernel places chunks: only what has exactly the offset and the length that are due, from the parent, is copied.
 * Failures: what is not due is refused, and a child that does not come is reminded, as is a parent of which data comes
 * unasked; all else is the collective's.
 */
#include "proto/tree.h"

#include <assert.h>
#include <string.h>

#include "base/least.h"
#include "plan/tree.h"
#include "proto/collective_private.h"
#include "proto/sequencer.h"

enum { FRAMES_A_STEP = 64 }; /* within tt_actions_worst */

static uint32_t own_vertex(const struct tt_collective *c)
{
    return tt_collective_vertex(c, c->config.rank);
}

/* Child number `index` as a vertex; 0: there is none. */
static uint32_t child_of(const struct tt_collective *c, uint32_t index)
{
    return tt_tree_child(own_vertex(c), c->config.size, index);
}

static uint32_t child_count(const struct tt_collective *c)
{
    uint32_t count = 0;

    while (count < TT_DISSEMINATION_MAX_ROUNDS && child_of(c, count) != 0) {
        count++;
    }
    return count;
}

static uint32_t all_ready(const struct tt_collective *c)
{
    return (uint32_t)((UINT64_C(1) << child_count(c)) - 1);
}

static bool is_child(const struct tt_collective *c, uint32_t rank, uint32_t *index)
{
    uint32_t vertex = tt_collective_vertex(c, rank);

    if (vertex == 0 || tt_tree_parent(vertex) != own_vertex(c)) {
        return false;
    }
    *index = tt_tree_child_index(vertex);
    return true;
}

static bool is_parent(const struct tt_collective *c, uint32_t rank)
{
    uint32_t vertex = own_vertex(c);

    return vertex != 0 && rank == tt_collective_rank(c, tt_tree_parent(vertex));
}

/* Whether data is missing that comes without being asked for. */
static bool awaits_data(const struct tt_collective *c)
{
    return c->config.tree_is_eager && own_vertex(c) != 0 && c->tree.received_bytes < c->config.terms.block_bytes;
}

static void say_ready(struct tt_collective *c, struct tt_actions *actions)
{
    uint32_t parent = tt_collective_rank(c, tt_tree_parent(own_vertex(c)));

    tt_collective_send(c, TT_FRAME_READY, parent, actions)->body.ready.terms = c->config.terms;
}

static void begin(struct tt_collective *c, uint64_t now_ns, struct tt_actions *actions)
{
    assert(tt_collective_roots(c) == 1);
    assert(c->config.terms.block_bytes <= TT_TREE_MAX_BYTES);
    c->state = TT_COLLECTIVE_RECEIVE;
    c->sending.activated = tt_collective_has_block(c);
    c->tree.remind_ns = TT_TREE_REMIND_NS;
    c->tree.remind_deadline_ns = now_ns + c->tree.remind_ns;
    if (c->config.tree_is_eager) {
        c->tree.ready = all_ready(c);
    } else if (own_vertex(c) != 0) {
        say_ready(c, actions);
    }
}

/* What the next DATA frame from `offset` on carries. */
static uint32_t piece_at(const struct tt_collective *c, uint32_t offset_bytes)
{
    assert(offset_bytes < c->config.terms.block_bytes);
    return tt_least(c->config.terms.block_bytes - offset_bytes, TT_FRAME_DATA_BYTES);
}

static bool place(struct tt_collective *c, const struct tt_frame *frame)
{
    uint32_t offset = frame->body.data.offset_bytes, length = frame->body.data.length_bytes;

    if (!is_parent(c, frame->source) || offset != c->tree.received_bytes || offset >= c->config.terms.block_bytes ||
        length != piece_at(c, offset)) {
        return false;
    }
    memcpy(c->config.streams[0].buffer + offset, frame->body.data.bytes, length);
    c->tree.received_bytes += length;
    return true;
}

static bool note_frame(struct tt_collective *c, uint64_t now_ns, const struct tt_frame *frame,
                       struct tt_actions *actions)
{
    uint32_t child;

    (void)now_ns;
    (void)actions;
    if (frame->type == TT_FRAME_DATA) {
        return place(c, frame);
    }
    if (frame->type == TT_FRAME_REMIND) {
        return is_parent(c, frame->source); /* READY was said, or the terms have told the difference */
    }
    if (frame->type != TT_FRAME_READY || !is_child(c, frame->source, &child)) {
        return false;
    }
    c->tree.ready |= UINT32_C(1) << child;
    return true;
}

/* Everything that is here, for one child; false if the list is too short for it. */
static bool feed(struct tt_collective *c, uint32_t child, uint32_t here_bytes, uint32_t *budget,
                 struct tt_actions *actions)
{
    uint32_t to = tt_collective_rank(c, child_of(c, child));

    assert(c->tree.ready >> child & 1); /* else there may be no place for it there */
    while (c->tree.sent_bytes[child] < here_bytes) {
        struct tt_frame *frame;

        if (*budget == 0) {
            return false;
        }
        --*budget;
        frame = tt_collective_send(c, TT_FRAME_DATA, to, actions);
        frame->body.data.terms = c->config.terms;
        frame->body.data.offset_bytes = c->tree.sent_bytes[child];
        frame->body.data.length_bytes = (uint16_t)piece_at(c, c->tree.sent_bytes[child]);
        frame->body.data.bytes = c->config.streams[0].buffer + c->tree.sent_bytes[child];
        c->tree.sent_bytes[child] += frame->body.data.length_bytes;
    }
    return true;
}

/* For somebody who can be reminded. */
static bool waits(const struct tt_collective *c)
{
    return c->tree.ready != all_ready(c) || awaits_data(c);
}

static void remind(struct tt_collective *c, uint64_t now_ns, struct tt_actions *actions)
{
    if (now_ns < c->tree.remind_deadline_ns) {
        return;
    }
    for (uint32_t missing = all_ready(c) & ~c->tree.ready; missing != 0; missing &= missing - 1) {
        tt_collective_send(c, TT_FRAME_REMIND, tt_collective_rank(c, child_of(c, (uint32_t)__builtin_ctz(missing))),
                           actions)
            ->body.ready.terms = c->config.terms;
    }
    if (awaits_data(c)) { /* the parent may mean that it is its child */
        say_ready(c, actions);
    }
    c->tree.remind_ns *= c->tree.remind_ns < TT_TREE_REMIND_LAST_NS ? 2 : 1;
    c->tree.remind_deadline_ns = now_ns + c->tree.remind_ns;
}

/* How many frames may be added now. What came early is gone through piece by piece in one step, which has to leave room
 * for whatever else that step does. */
static uint32_t budget_of(const struct tt_collective *c, const struct tt_actions *actions)
{
    uint32_t left = actions->capacity - actions->count, worst = tt_actions_worst(c->config.size);

    return left > worst ? (uint32_t)tt_least(left - worst, FRAMES_A_STEP) : 0;
}

/* Passes on what is here, as far as the list has room (actions->more). Whether all is here and has been passed on. */
static bool pass_on(struct tt_collective *c, uint64_t now_ns, struct tt_actions *actions)
{
    uint32_t children = child_count(c), budget = budget_of(c, actions), total = (uint32_t)c->config.terms.block_bytes;
    uint32_t here = own_vertex(c) == 0 ? (c->sending.sent ? total : 0) : c->tree.received_bytes;
    bool passed_on = here == total;

    for (uint32_t child = children; child-- > 0;) {
        if (!(c->tree.ready >> child & 1)) {
            passed_on = false;
        } else if (!feed(c, child, here, &budget, actions)) {
            actions->more = true;
            return false;
        }
    }
    if (waits(c)) {
        remind(c, now_ns, actions);
    }
    return passed_on;
}

static void advance(struct tt_collective *c, uint64_t now_ns, struct tt_actions *actions)
{
    tt_sequencer_advance(c, now_ns, actions);
    if (pass_on(c, now_ns, actions)) {
        c->way->completion->advance(c, now_ns, actions);
    }
}

static uint64_t deadline_of(const struct tt_collective *c)
{
    return waits(c) ? c->tree.remind_deadline_ns : UINT64_MAX;
}

static uint32_t waits_for(const struct tt_collective *c)
{
    uint32_t vertex = own_vertex(c), missing = all_ready(c) & ~c->tree.ready;

    if (vertex != 0 && c->tree.received_bytes < c->config.terms.block_bytes) {
        return tt_collective_rank(c, tt_tree_parent(vertex));
    }
    return missing == 0 ? TT_RANK_NONE : tt_collective_rank(c, child_of(c, (uint32_t)__builtin_ctz(missing)));
}

/* Pieces come in order from the front, and go on to children that are ready for them. */
static void check(const struct tt_collective *c)
{
    uint64_t block = c->config.terms.block_bytes;

    assert(c->state == TT_COLLECTIVE_RECEIVE || c->state == TT_COLLECTIVE_FINISHED);
    assert((c->tree.ready & ~all_ready(c)) == 0);
    assert(c->tree.received_bytes <= block);
    assert(c->tree.received_bytes == block || c->tree.received_bytes % TT_FRAME_DATA_BYTES == 0);
    assert(own_vertex(c) != 0 || c->tree.received_bytes == 0);
    for (uint32_t child = 0; child < child_count(c); child++) {
        assert(c->tree.sent_bytes[child] == 0 || c->tree.ready >> child & 1);
        assert(c->tree.sent_bytes[child] <= (own_vertex(c) == 0 ? c->sending.sent * block : c->tree.received_bytes));
        assert(c->state != TT_COLLECTIVE_FINISHED || c->tree.sent_bytes[child] == block);
    }
    assert(c->state != TT_COLLECTIVE_FINISHED || own_vertex(c) == 0 || c->tree.received_bytes == block);
}

static uint64_t most_bytes(enum tt_collective_kind kind, uint32_t size)
{
    (void)kind;
    (void)size;
    return TT_TREE_MAX_BYTES;
}

const struct tt_mover tt_mover_tree = {.most_bytes = most_bytes,
                                       .begin = begin,
                                       .advance = advance,
                                       .frame = note_frame,
                                       .deadline = deadline_of,
                                       .waits_for = waits_for,
                                       .check = check};
