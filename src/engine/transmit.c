/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Transmission of a block. Normal path: batches go out round robin over the subgroups until each has reached its limit;
 * when all chunks are posted and the fabric has completed the last of them, the state becomes DONE. A full send queue
 * stops it until later, and so does its pace; a cancelation lets what was posted complete and posts no more. What
 * nobody hears is copied, but for one chunk.
 */
#include "engine/transmit.h"

#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/least.h"
#include "engine/group.h"
#include "wire/chunk.h"

#define LOOK_NS TT_NS_PER_S /* a provider that nothing wakes finds out by being asked that its device is silent */

/* How many chunks may go now, in whatever subgroup. None: due_ns says when, or is TT_NEVER before there is credit. */
static uint32_t allowance(struct tt_transmit *transmit, uint64_t now_ns)
{
    uint32_t limit = atomic_load_explicit(&transmit->limit, memory_order_acquire);
    uint32_t count;

    assert(limit >= transmit->posted); /* limits grow */
    limit -= transmit->posted;
    count = tt_pacer_allowed(transmit->pacer, transmit->chunk_ns, limit, now_ns);
    if (count == 0 && limit > 0) {
        transmit->due_ns = tt_pacer_due(transmit->pacer, transmit->chunk_ns, limit);
    }
    return count;
}

/* Posts one batch on a subgroup; returns how many chunks were accepted. */
static uint32_t post_batch(struct tt_transmit *transmit, uint32_t subgroup, uint32_t count)
{
    const struct tt_stripe *stripe = &transmit->streams[subgroup].stripe;
    struct tt_mcast_queue *mcast = transmit->queues[subgroup].mcast;
    struct tt_send_chunk chunks[TT_TRANSMIT_BATCH];
    uint32_t first = transmit->cursors[subgroup], accepted;
    uint64_t start = tt_stripe_offset(stripe, 0, first), end = start;

    assert(count > 0);
    assert(count <= TT_TRANSMIT_BATCH);
    assert(first + count <= stripe->chunks);
    for (uint32_t i = 0; i < count; i++) {
        chunks[i].imm = transmit->imm + transmit->root_index * stripe->chunks + first + i;
        chunks[i].length_bytes = tt_stripe_length(stripe, first + i);
        chunks[i].address = transmit->source + tt_stripe_offset(stripe, 0, first + i);
        chunks[i].memory = transmit->memory;
        chunks[i].window_key = transmit->window_key;
        chunks[i].window_offset_bytes = tt_stripe_offset(stripe, transmit->root_index, first + i);
    }
    accepted = mcast->ops->post(mcast, chunks, count);
    assert(accepted <= count);
    for (uint32_t i = 0; i < accepted; i++) {
        end += chunks[i].length_bytes;
    }
    if (transmit->source != transmit->target && end > start) {
        memcpy(transmit->target + start, transmit->source + start, end - start);
    }
    transmit->queues[subgroup].posted += accepted;
    transmit->marks[subgroup] = transmit->queues[subgroup].posted;
    transmit->cursors[subgroup] = first + accepted;
    transmit->posted += accepted;
    return accepted;
}

/* Tells everybody that the barrier is over; false if the queue is full. */
static bool post_release(struct tt_transmit *transmit)
{
    struct tt_queue *queue = &transmit->queues[0];
    struct tt_send_chunk chunk = {
        .imm = transmit->imm + TT_PSN_RELEASE, .length_bytes = TT_RELEASE_BYTES, .address = transmit->release};

    assert(!transmit->released);
    assert(transmit->posted == 0); /* it goes first */
    if (queue->mcast->ops->post(queue->mcast, &chunk, 1) == 0) {
        return false;
    }
    queue->posted++;
    transmit->marks[0] = queue->posted;
    transmit->releases = false;
    transmit->released = true;
    return true;
}

/* A queue that has not completed what was posted, or NULL. */
static struct tt_queue *incomplete_queue(const struct tt_transmit *transmit)
{
    for (uint32_t s = 0; s < transmit->subgroups; s++) {
        struct tt_mcast_queue *mcast = transmit->queues[s].mcast;
        bool posted = transmit->cursors[s] > 0 || (s == 0 && transmit->released);

        assert(!posted || (int32_t)(transmit->queues[s].posted - transmit->marks[s]) >= 0);
        if (posted && (int32_t)(mcast->ops->sent(mcast) - transmit->marks[s]) < 0) {
            return &transmit->queues[s];
        }
    }
    return NULL;
}

static enum tt_transmit_result block(struct tt_transmit *transmit, struct tt_queue *queue, uint64_t now_ns,
                                     struct tt_queue **blocked)
{
    transmit->due_ns = now_ns + LOOK_NS;
    *blocked = queue;
    return TT_TRANSMIT_BLOCKED;
}

/* Of what nobody hears, one chunk. */
static bool all_posted(const struct tt_transmit *transmit)
{
    if (transmit->silent) {
        return transmit->posted > 0;
    }
    for (uint32_t s = 0; s < transmit->subgroups; s++) {
        if (transmit->cursors[s] < transmit->streams[s].stripe.chunks) {
            return false;
        }
    }
    return true;
}

static enum tt_transmit_result finish(struct tt_transmit *transmit)
{
    atomic_store_explicit(&transmit->state, TT_TRANSMIT_DONE, memory_order_release);
    return TT_TRANSMIT_FINISHED;
}

/* Without multicast the block is only copied, a slice at a time so that nobody waits long for the control context.
 * Returns whether there is more to copy. */
static bool copy_slice(struct tt_transmit *transmit)
{
    enum { SLICE_BYTES = 1024 * 1024 };
    uint64_t offset = transmit->copied_bytes, rest = transmit->block_bytes - offset;
    uint64_t slice = rest < SLICE_BYTES ? rest : SLICE_BYTES;

    assert(offset <= transmit->block_bytes);
    if (transmit->source == transmit->target || rest == 0) {
        return false;
    }
    memcpy(transmit->target + offset, transmit->source + offset, slice);
    transmit->copied_bytes += slice;
    return slice < rest;
}

enum tt_transmit_result tt_transmit_progress(struct tt_transmit *transmit, uint64_t now_ns, uint32_t batches,
                                             struct tt_queue **blocked)
{
    bool canceled = atomic_load_explicit(&transmit->canceled, memory_order_acquire);
    uint32_t idle = 0;

    assert(atomic_load_explicit(&transmit->state, memory_order_relaxed) == TT_TRANSMIT_ACTIVE);
    transmit->due_ns = TT_NEVER;
    if (transmit->queues == NULL) {
        return !canceled && copy_slice(transmit) ? TT_TRANSMIT_MOVED : finish(transmit);
    }
    if (transmit->releases && !canceled && !post_release(transmit)) {
        return block(transmit, &transmit->queues[0], now_ns, blocked);
    }
    if (!transmit->begun) {
        tt_pacer_start(transmit->pacer, transmit->chunk_ns, transmit->root_index, transmit->heard, now_ns);
        transmit->begun = true;
    }
    while (!canceled && batches > 0 && idle < transmit->subgroups && !(transmit->silent && all_posted(transmit))) {
        uint32_t s = transmit->turn, rest = transmit->streams[s].stripe.chunks - transmit->cursors[s];
        uint32_t allowed, count, accepted;

        if (rest == 0) {
            transmit->turn = (s + 1) % transmit->subgroups;
            idle++;
            continue;
        }
        allowed = allowance(transmit, now_ns);
        if (allowed == 0) {
            return transmit->due_ns == TT_NEVER ? TT_TRANSMIT_WAITING : TT_TRANSMIT_PACED;
        }
        idle = 0;
        batches--;
        count = tt_least(tt_least(allowed, rest), transmit->silent ? 1 : transmit->queues[s].batch);
        accepted = post_batch(transmit, s, count);
        tt_pacer_took(transmit->pacer, transmit->chunk_ns, accepted, now_ns);
        if (accepted < count) {
            return block(transmit, &transmit->queues[s], now_ns, blocked);
        }
        transmit->turn = (s + 1) % transmit->subgroups;
    }
    if (!canceled && (!all_posted(transmit) || (transmit->silent && copy_slice(transmit)))) {
        return TT_TRANSMIT_MOVED;
    }
    struct tt_queue *incomplete = incomplete_queue(transmit);
    return incomplete == NULL ? finish(transmit) : block(transmit, incomplete, now_ns, blocked);
}

/* --- Checks ------------------------------------------------------------------------------------------------------- */

static void check_cursors(const struct tt_transmit *transmit)
{
    uint32_t posted = 0;

    for (uint32_t s = 0; s < transmit->subgroups; s++) {
        assert(transmit->cursors[s] <= transmit->streams[s].stripe.chunks);
        posted += transmit->cursors[s];
    }
    assert(posted == transmit->posted);
}

void tt_transmit_check(const struct tt_transmit *transmit)
{
    uint32_t state = atomic_load_explicit(&transmit->state, memory_order_relaxed);
    bool canceled = atomic_load_explicit(&transmit->canceled, memory_order_relaxed);

    assert(state <= TT_TRANSMIT_DONE);
    assert(transmit->subgroups > 0);
    assert(transmit->turn < transmit->subgroups);
    assert(transmit->copied_bytes <= transmit->block_bytes);
    assert(transmit->posted <= atomic_load_explicit(&transmit->limit, memory_order_relaxed));
    check_cursors(transmit);
    if (transmit->queues == NULL) {
        assert(transmit->posted == 0);
        return;
    }
    assert(transmit->pacer != NULL);
    assert(transmit->heard > 0);
    assert(state == TT_TRANSMIT_IDLE || !transmit->releases || !transmit->released);
    if (state == TT_TRANSMIT_DONE && !canceled) {
        assert(all_posted(transmit));
        assert(!transmit->releases);
    }
}
