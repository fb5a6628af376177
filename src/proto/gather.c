/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gathering. Normal path: GATHER comes from every child, its bytes are placed where the blocks belong, and when all are
 * complete the whole run of blocks goes to the parent; at the root the multicast begins. Failures: only what has
 * exactly the offset and the length that are due is placed, and a child that does not come is reminded; what a reminder
 * brings twice is ignored; all else is the collective's.
 */
#include "proto/gather.h"

#include <string.h>

#include "proto/collective_private.h"
#include "proto/tree.h"

static uint32_t rank_of(const struct tt_collective *c, uint32_t vertex)
{
    return tt_rank_add(vertex, c->config.terms.root, c->config.size);
}

/* What each rank brings. */
static uint64_t block_of(const struct tt_collective *c)
{
    return tt_collective_is_gathered(c) ? c->config.terms.block_bytes : 0;
}

/* Where the blocks of a place begin in the receive buffer, and how long they are. An Allgather's root is rank 0, so
 * that only the root's own run wraps around, and that goes nowhere. */
static uint64_t start_of(const struct tt_collective *c, const struct tt_gather_place *place)
{
    return rank_of(c, tt_rank_subtract(place->vertex, place->before, c->config.size)) * block_of(c);
}

static uint32_t length_of(const struct tt_collective *c, const struct tt_gather_place *place)
{
    return (uint32_t)((place->before + place->after + 1) * block_of(c));
}

static uint32_t piece_of(uint32_t rest_bytes)
{
    return rest_bytes < TT_FRAME_GATHER_BYTES ? rest_bytes : TT_FRAME_GATHER_BYTES;
}

static bool is_root(const struct tt_collective *c)
{
    return c->gather.place.vertex == 0;
}

static uint64_t missing_children(const struct tt_collective *c)
{
    return tt_gather_all_children(c->gather.child_count) & ~c->gather.complete;
}

static bool is_child(const struct tt_collective *c, uint32_t rank, uint32_t *index, struct tt_gather_place *child)
{
    return tt_gather_find_child(c->config.size, c->config.terms.root, &c->gather.place, rank, index, child);
}

void tt_gather_init(struct tt_collective *c)
{
    uint32_t vertex = tt_rank_subtract(c->config.rank, c->config.terms.root, c->config.size);

    tt_gather_place(c->config.size, vertex, &c->gather.place);
    c->gather.child_count = tt_gather_child_count(c->config.size, &c->gather.place);
}

void tt_gather_start(struct tt_collective *c, uint64_t now_ns)
{
    c->gather.complete = 0;
    c->gather.told = false;
    memset(c->gather.received_bytes, 0, sizeof c->gather.received_bytes);
    c->gather.remind_ns = TT_TREE_REMIND_NS;
    c->gather.remind_deadline_ns = now_ns + c->gather.remind_ns;
}

static void tell_parent(struct tt_collective *c, struct tt_actions *actions)
{
    uint64_t start = start_of(c, &c->gather.place);
    uint32_t length = length_of(c, &c->gather.place), offset = 0;

    do {
        struct tt_frame *frame = tt_collective_send(c, TT_FRAME_GATHER, rank_of(c, c->gather.place.parent), actions);

        frame->body.gather.terms = c->config.terms;
        frame->body.gather.least = c->least;
        frame->body.gather.offset_bytes = (uint32_t)start + offset;
        frame->body.gather.length_bytes = (uint16_t)piece_of(length - offset);
        frame->body.gather.bytes = length > 0 ? c->config.streams[0].buffer + start + offset : NULL;
        offset += frame->body.gather.length_bytes;
    } while (offset < length);
}

static bool place(struct tt_collective *c, const struct tt_frame *frame)
{
    uint32_t offset = frame->body.gather.offset_bytes, bytes = frame->body.gather.length_bytes, index, length, here;
    struct tt_gather_place child;
    uint64_t start;

    if (!is_child(c, frame->source, &index, &child)) {
        return false;
    }
    start = start_of(c, &child);
    length = length_of(c, &child);
    here = c->gather.received_bytes[index];
    if ((c->gather.complete >> index & 1) != 0 || (offset >= start && offset < start + here)) {
        return true; /* said again */
    }
    if (offset != (length == 0 ? 0 : start + here) || bytes != piece_of(length - here)) {
        return false;
    }
    if (bytes > 0) {
        memcpy(c->config.streams[0].buffer + offset, frame->body.gather.bytes, bytes);
    }
    here += bytes;
    c->gather.received_bytes[index] = here;
    c->gather.complete |= (uint64_t)(here == length) << index;
    tt_release_least(&c->least, &frame->body.gather.least);
    return true;
}

bool tt_gather_frame(struct tt_collective *c, const struct tt_frame *frame, struct tt_actions *actions)
{
    if (frame->type == TT_FRAME_GATHER) {
        return place(c, frame);
    }
    if (is_root(c) || frame->source != rank_of(c, c->gather.place.parent)) {
        return false;
    }
    /* The parent had not posted, nor room to keep it. Once chunks come everybody has been heard, and they are written
     * where this would be read. */
    if (c->gather.told && tt_collective_received(c) == 0) {
        tell_parent(c, actions);
    }
    return true;
}

void tt_gather_ask_again(struct tt_collective *c, uint32_t rank, struct tt_actions *actions)
{
    struct tt_gather_place child;
    uint32_t index;

    if (tt_collective_gathers(c) && c->state < TT_COLLECTIVE_FAILING && is_child(c, rank, &index, &child) &&
        (c->gather.complete >> index & 1) == 0) {
        tt_collective_send(c, TT_FRAME_READY, rank, actions)->body.ready.terms = c->config.terms;
    }
}

static void remind(struct tt_collective *c, uint64_t now_ns, struct tt_actions *actions)
{
    if (now_ns < c->gather.remind_deadline_ns) {
        return;
    }
    for (uint64_t missing = missing_children(c); missing != 0; missing &= missing - 1) {
        struct tt_gather_place child;

        tt_gather_child(c->config.size, &c->gather.place, (uint32_t)__builtin_ctzll(missing), &child);
        tt_collective_send(c, TT_FRAME_READY, rank_of(c, child.vertex), actions)->body.ready.terms = c->config.terms;
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
    if (!is_root(c)) {
        tell_parent(c, actions);
        return;
    }
    if (tt_collective_is_gathered(c) && c->config.terms.block_bytes == 0) {
        tt_release_encode(&c->least, c->config.streams[0].buffer);
    }
    c->everybody = c->activated = true;
}

void tt_gather_note(struct tt_collective *c, const struct tt_release *release)
{
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
    struct tt_gather_place child;

    if (missing == 0) {
        return is_root(c) ? TT_RANK_NONE : rank_of(c, c->gather.place.parent);
    }
    tt_gather_child(c->config.size, &c->gather.place, (uint32_t)__builtin_ctzll(missing), &child);
    return rank_of(c, child.vertex);
}
