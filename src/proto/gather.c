/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gathering. Normal path: GATHER comes from every child, its bytes are placed where the blocks belong, and when all are
 * complete the whole run of blocks, or the vector that came of all, goes to the parent; at the root the multicast
 * begins. Failures: only what has exactly the offset and the length that are due is placed, and a child that does not
 * come is reminded; what a reminder brings twice is ignored; all else is the collective's.
 */
#include "proto/gather.h"

#include <assert.h>
#include <string.h>

#include "base/least.h"
#include "plan/fold_tree.h"
#include "proto/collective_private.h"
#include "proto/tree.h"

#define LONG_FRAME_BYTE_NS 160

/* What each rank brings. */
static uint64_t block_of(const struct tt_collective *c)
{
    return c->way->mover->gathers ? c->config.terms.block_bytes : 0;
}

/* Where they come together. */
static uint8_t *gathered_of(const struct tt_collective *c)
{
    return c->config.gathered != NULL ? c->config.gathered : c->config.streams[0].buffer;
}

/* What a rank brings: `length` bytes of a buffer of `all`, from `start` on. Where the root is not rank 0 (a
 * reduction's may be any) the run of some ranks goes on at the buffer's beginning. */
struct run {
    uint8_t *buffer;
    uint64_t start, all;
    uint32_t length;
};

/* The blocks that a place speaks for, in the order of ranks. */
static struct run run_of(const struct tt_collective *c, const struct tt_gather_place *place)
{
    uint32_t first = tt_collective_rank(c, tt_rank_subtract(place->vertex, place->before, c->config.size));

    return (struct run){.buffer = gathered_of(c),
                        .start = first * block_of(c),
                        .all = c->config.size * block_of(c),
                        .length = (uint32_t)((place->before + place->after + 1) * block_of(c))};
}

/* A vector that is combined here, or has been: the own one is the first, then come the children's. */
static struct run vector_of(const struct tt_collective *c, uint32_t index)
{
    uint64_t bytes = block_of(c);

    return (struct run){.buffer = gathered_of(c) + index * bytes, .all = bytes, .length = (uint32_t)bytes};
}

/* What goes to the parent. */
static struct run own_run(const struct tt_collective *c)
{
    return c->gather.folds ? vector_of(c, 0) : run_of(c, &c->gather.place);
}

/* What child number `index` brings. */
static struct run child_run(const struct tt_collective *c, uint32_t index)
{
    struct tt_gather_place child;

    if (c->gather.folds) {
        return vector_of(c, 1 + index);
    }
    tt_gather_child(c->config.size, &c->gather.place, index, &child);
    return run_of(c, &child);
}

/* Of a run, in one frame. Blocks lie where they come back to, so they are copied into their frames. */
static uint32_t longest_piece(const struct tt_collective *c)
{
    return c->config.gathered == NULL ? TT_FRAME_GATHER_BYTES
                                      : (uint32_t)tt_most(c->config.vector_bytes, TT_FRAME_GATHER_BYTES);
}

/* The piece of a run that begins `here` bytes into it: it ends where the buffer does, and the next one begins there. */
static uint32_t piece_of(const struct tt_collective *c, const struct run *run, uint32_t here, uint32_t *offset)
{
    uint64_t at = run->start + here < run->all ? run->start + here : run->start + here - run->all;
    uint32_t most = (uint32_t)tt_least(run->all - at, longest_piece(c));

    *offset = run->length == 0 ? 0 : (uint32_t)at;
    return run->length - here < most ? run->length - here : most;
}

/* Whether a piece that begins there is among the first `here` bytes of a run. */
static bool is_before(const struct run *run, uint32_t here, uint32_t offset)
{
    return offset < run->all && (offset >= run->start ? offset - run->start : offset + run->all - run->start) < here;
}

static bool is_root(const struct tt_collective *c)
{
    return c->gather.place.vertex == 0;
}

static uint64_t missing_children(const struct tt_collective *c)
{
    return tt_gather_all_children(c->gather.child_count) & ~c->gather.complete;
}

static uint32_t rank_of_child(const struct tt_collective *c, uint32_t index)
{
    struct tt_gather_place child;

    if (c->gather.folds) {
        return tt_fold_tree_child(c->config.size, c->config.terms.root, c->config.rank, index);
    }
    tt_gather_child(c->config.size, &c->gather.place, index, &child);
    return tt_collective_rank(c, child.vertex);
}

static bool is_child(const struct tt_collective *c, uint32_t rank, uint32_t *index)
{
    for (*index = 0; *index < c->gather.child_count; ++*index) {
        if (rank_of_child(c, *index) == rank) {
            return true;
        }
    }
    return false;
}

void tt_gather_init(struct tt_collective *c)
{
    const uint32_t size = c->config.size, root = c->config.terms.root, rank = c->config.rank;

    tt_gather_place(size, tt_collective_vertex(c, rank), &c->gather.place);
    c->gather.folds = c->way->mover->gathers && tt_terms_fold(&c->config.terms, size);
    c->gather.parent =
        c->gather.folds ? tt_fold_tree_parent(size, root, rank) : tt_collective_rank(c, c->gather.place.parent);
    c->gather.child_count =
        c->gather.folds ? tt_fold_tree_child_count(size, root, rank) : tt_gather_child_count(size, &c->gather.place);
    assert(c->gather.child_count <= TT_GATHER_MAX_CHILDREN);
}

/* Of a vector that is one frame nothing is seen before all of it is here, and who is told to say it again makes that
 * later: so they have the time that all children's take on a link of 50 Mbit/s. */
static uint64_t remind_time(const struct tt_collective *c)
{
    bool is_long = tt_least(block_of(c), longest_piece(c)) > TT_FRAME_GATHER_BYTES;

    return TT_TREE_REMIND_NS + (is_long ? c->gather.child_count * block_of(c) * LONG_FRAME_BYTE_NS : 0);
}

void tt_gather_start(struct tt_collective *c, uint64_t now_ns)
{
    c->gather.complete = c->gather.deaf = 0;
    c->least.some_deaf = tt_collective_is_deaf(c);
    c->least.all_deaf = tt_collective_is_deaf(c) || c->remote == 0;
    c->gather.told = c->gather.again = false;
    memset(c->gather.received_bytes, 0, sizeof c->gather.received_bytes);
    memset(c->gather.reminded_at_bytes, 0, sizeof c->gather.reminded_at_bytes);
    c->gather.remind_ns = remind_time(c);
    c->gather.remind_deadline_ns = now_ns + c->gather.remind_ns;
}

static void tell_parent(struct tt_collective *c, struct tt_actions *actions)
{
    const struct run run = own_run(c);
    uint32_t here = 0, offset;

    assert(!is_root(c));
    assert(c->gather.told);
    do {
        struct tt_frame *frame = tt_collective_send(c, TT_FRAME_GATHER, c->gather.parent, actions);

        frame->body.gather.terms = c->config.terms;
        frame->body.gather.least = c->least;
        frame->body.gather.length_bytes = (uint16_t)piece_of(c, &run, here, &offset);
        frame->body.gather.offset_bytes = offset;
        frame->body.gather.bytes = run.length > 0 ? run.buffer + offset : NULL;
        here += frame->body.gather.length_bytes;
    } while (here < run.length);
}

static bool place(struct tt_collective *c, const struct tt_frame *frame)
{
    uint32_t offset = frame->body.gather.offset_bytes, bytes = frame->body.gather.length_bytes, index, here;
    uint32_t due_bytes, due;
    struct run run;

    if (!is_child(c, frame->source, &index)) {
        return false;
    }
    run = child_run(c, index);
    here = c->gather.received_bytes[index];
    assert(here <= run.length);
    if ((c->gather.complete >> index & 1) != 0 || is_before(&run, here, offset)) {
        return true; /* said again */
    }
    due_bytes = piece_of(c, &run, here, &due);
    if (offset != due || bytes != due_bytes) {
        return false;
    }
    assert(here + bytes <= run.length); /* the next pieces begin behind it */
    if (bytes > 0) {
        memcpy(run.buffer + offset, frame->body.gather.bytes, bytes);
    }
    here += bytes;
    c->gather.received_bytes[index] = here;
    c->gather.complete |= (uint64_t)(here == run.length) << index;
    c->gather.deaf |= (uint64_t)frame->body.gather.least.some_deaf << index;
    tt_release_least(&c->least, &frame->body.gather.least);
    return true;
}

bool tt_gather_is_parent(const struct tt_collective *c, uint32_t rank)
{
    return !is_root(c) && rank == c->gather.parent;
}

bool tt_gather_frame(struct tt_collective *c, const struct tt_frame *frame, struct tt_actions *actions)
{
    if (frame->type == TT_FRAME_GATHER) {
        return place(c, frame);
    }
    if (frame->type != TT_FRAME_REMIND || !tt_gather_is_parent(c, frame->source)) {
        return false;
    }
    /* The parent had not posted, nor room to keep it. Once chunks come everybody has been heard, and they are written
     * where this would be read. */
    if (c->gather.told && tt_collective_received(c) == 0) {
        c->gather.again = true;
        tell_parent(c, actions);
    }
    return true;
}

void tt_gather_ask_again(struct tt_collective *c, uint32_t rank, struct tt_actions *actions)
{
    uint32_t index;

    if (tt_collective_gathers(c) && c->state < TT_COLLECTIVE_FAILING && is_child(c, rank, &index) &&
        (c->gather.complete >> index & 1) == 0) {
        tt_collective_send(c, TT_FRAME_REMIND, rank, actions)->body.ready.terms = c->config.terms;
    }
}

static void remind(struct tt_collective *c, uint64_t now_ns, struct tt_actions *actions)
{
    if (now_ns < c->gather.remind_deadline_ns) {
        return;
    }
    for (uint64_t missing = missing_children(c); missing != 0; missing &= missing - 1) {
        uint32_t index = (uint32_t)__builtin_ctzll(missing);
        bool comes = c->gather.received_bytes[index] > c->gather.reminded_at_bytes[index];

        c->gather.reminded_at_bytes[index] = c->gather.received_bytes[index];
        if (!comes) {
            tt_collective_send(c, TT_FRAME_REMIND, rank_of_child(c, index), actions)->body.ready.terms =
                c->config.terms;
        }
    }
    c->gather.remind_ns *= c->gather.remind_ns < TT_TREE_REMIND_LAST_NS ? 2 : 1;
    c->gather.remind_deadline_ns = now_ns + c->gather.remind_ns;
}

void tt_gather_advance(struct tt_collective *c, uint64_t now_ns, struct tt_actions *actions)
{
    bool complete = missing_children(c) == 0;

#ifdef TT_FAULT_GATHER_INCOMPLETE
    complete = true;
#endif
    if (c->gather.told) {
        return;
    }
    if (!complete) {
        remind(c, now_ns, actions);
        return;
    }
    c->gather.told = true;
    if (is_root(c) ? tt_terms_combine(&c->config.terms) : c->gather.folds && c->gather.child_count > 0) {
        tt_actions_add(actions, TT_ACTION_COMBINE, c);
    }
    if (!is_root(c)) {
        tell_parent(c, actions);
        return;
    }
    if (tt_terms_releases(&c->config.terms)) {
        tt_release_encode(&c->least, c->config.streams[0].buffer);
    }
    c->everybody = c->sending.activated = true;
}

void tt_gather_open(struct tt_collective *c, struct tt_actions *actions)
{
#ifdef TT_FAULT_DEAF_NOT_TOLD
    return;
#endif
    for (uint64_t deaf = c->gather.deaf; deaf != 0; deaf &= deaf - 1) {
        tt_collective_send_open(c, rank_of_child(c, (uint32_t)__builtin_ctzll(deaf)), actions);
    }
}

void tt_gather_note(struct tt_collective *c, const struct tt_release *release)
{
    assert(tt_collective_gathers(c));
    tt_release_least(&c->least, release);
    c->everybody = true;
}

uint64_t tt_gather_deadline(const struct tt_collective *c)
{
    return c->gather.told ? UINT64_MAX : c->gather.remind_deadline_ns;
}

uint32_t tt_gather_waits_for(const struct tt_collective *c)
{
    uint64_t missing = missing_children(c);

    assert(tt_collective_gathers(c));
    if (missing == 0) {
        return is_root(c) ? TT_RANK_NONE : c->gather.parent;
    }
    return rank_of_child(c, (uint32_t)__builtin_ctzll(missing));
}

/* --- Checks ------------------------------------------------------------------------------------------------------- */

/* A child is complete when all that it speaks for is here. */
static void check_child(const struct tt_collective *c, uint32_t index)
{
    bool complete = c->gather.complete >> index & 1;
    uint32_t length = child_run(c, index).length;

    assert(c->gather.received_bytes[index] <= length);
    assert(!complete || c->gather.received_bytes[index] == length);
    assert(complete || c->gather.received_bytes[index] < length || length == 0);
}

void tt_gather_check(const struct tt_collective *c)
{
    assert((c->config.gathered != NULL) == tt_terms_combine(&c->config.terms));
    assert((c->gather.complete & ~tt_gather_all_children(c->gather.child_count)) == 0);
    assert((c->gather.deaf & ~tt_gather_all_children(c->gather.child_count)) == 0);
    assert(c->gather.deaf == 0 || c->least.some_deaf);
    assert(!c->gather.told || missing_children(c) == 0);
    assert(!c->gather.again || (c->gather.told && !is_root(c)));
    if (is_root(c)) { /* it is who finds out that everybody has posted, and sends only then */
        assert(c->everybody == c->gather.told);
        assert(tt_collective_roots(c) > 1 || c->sending.activated == c->gather.told);
    }
    for (uint32_t i = 0; i < c->gather.child_count && block_of(c) > 0; i++) {
        check_child(c, i);
    }
}
