/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Transmission of a block. Normal path: batches go out round robin over the subgroups until each has reached its limit;
 * when all chunks are posted and the fabric has completed the last of them, the state becomes DONE. A full send queue
 * stops it until later, and so does its pace; a cancelation lets what was posted complete and posts no more.
 */
#include "engine/transmit.h"

#include <string.h>

#include "base/clock.h"
#include "engine/group.h"
#include "wire/chunk.h"

/* How many chunks of a subgroup the next batch may have; none: due_ns says when. */
static uint32_t batch_size(struct tt_transmit *transmit, uint32_t subgroup, uint32_t limit, uint64_t now_ns)
{
    uint32_t chunk_bytes = transmit->streams[subgroup].stripe.chunk_bytes, rest = limit - transmit->cursors[subgroup];
    uint32_t count = tt_pacer_allowed(&transmit->pacer, chunk_bytes, rest, now_ns);

    if (count == 0) {
        transmit->due_ns = tt_pacer_due(&transmit->pacer, chunk_bytes, rest);
    }
    return count < transmit->queues[subgroup].batch ? count : transmit->queues[subgroup].batch;
}

/* Posts one batch on a subgroup; returns how many chunks were accepted. */
static uint32_t post_batch(struct tt_transmit *transmit, uint32_t subgroup, uint32_t count)
{
    const struct tt_stripe *stripe = &transmit->streams[subgroup].stripe;
    struct tt_mcast_queue *mcast = transmit->queues[subgroup].mcast;
    struct tt_send_chunk chunks[TT_TRANSMIT_BATCH];
    uint32_t first = transmit->cursors[subgroup], accepted;
    uint64_t start = tt_stripe_offset(stripe, 0, first), end = start;

    for (uint32_t i = 0; i < count; i++) {
        chunks[i].imm = transmit->imm + transmit->root_index * stripe->chunks + first + i;
        chunks[i].length_bytes = tt_stripe_length(stripe, first + i);
        chunks[i].address = transmit->source + tt_stripe_offset(stripe, 0, first + i);
        chunks[i].memory = transmit->memory;
        chunks[i].window_key = transmit->window_key;
        chunks[i].window_offset_bytes = tt_stripe_offset(stripe, transmit->root_index, first + i);
    }
    accepted = mcast->ops->post(mcast, chunks, count);
    for (uint32_t i = 0; i < accepted; i++) {
        end += chunks[i].length_bytes;
    }
    if (transmit->source != transmit->target && end > start) {
        memcpy(transmit->target + start, transmit->source + start, end - start);
    }
    transmit->queues[subgroup].posted += accepted;
    transmit->marks[subgroup] = transmit->queues[subgroup].posted;
    transmit->cursors[subgroup] = first + accepted;
    return accepted;
}

/* Tells everybody that the barrier is over; false if the queue is full. */
static bool post_release(struct tt_transmit *transmit)
{
    struct tt_queue *queue = &transmit->queues[0];
    struct tt_send_chunk chunk = {
        .imm = transmit->imm + TT_PSN_RELEASE, .length_bytes = TT_RELEASE_BYTES, .address = transmit->release};

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

        if (posted && (int32_t)(mcast->ops->sent(mcast) - transmit->marks[s]) < 0) {
            return &transmit->queues[s];
        }
    }
    return NULL;
}

static bool all_posted(const struct tt_transmit *transmit)
{
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

/* Without multicast the block is only copied, a slice at a time so that nobody waits long for the control context. */
static enum tt_transmit_result copy_slice(struct tt_transmit *transmit, bool canceled)
{
    enum { SLICE_BYTES = 1024 * 1024 };
    uint64_t offset = transmit->copied_bytes, rest = transmit->block_bytes - offset;
    uint64_t slice = rest < SLICE_BYTES ? rest : SLICE_BYTES;

    if (canceled || transmit->source == transmit->target || rest == 0) {
        return finish(transmit);
    }
    memcpy(transmit->target + offset, transmit->source + offset, slice);
    transmit->copied_bytes += slice;
    return slice == rest ? finish(transmit) : TT_TRANSMIT_MOVED;
}

enum tt_transmit_result tt_transmit_progress(struct tt_transmit *transmit, uint64_t now_ns, uint32_t batches,
                                             struct tt_queue **blocked)
{
    uint32_t idle = 0;
    bool canceled = atomic_load_explicit(&transmit->canceled, memory_order_acquire);

    transmit->due_ns = TT_NEVER;
    if (transmit->queues == NULL) {
        return copy_slice(transmit, canceled);
    }
    if (transmit->transmissions != NULL) {
        tt_pacer_share(&transmit->pacer, atomic_load_explicit(transmit->transmissions, memory_order_relaxed));
    }
    if (transmit->releases && !canceled && !post_release(transmit)) {
        *blocked = &transmit->queues[0];
        return TT_TRANSMIT_BLOCKED;
    }
    while (!canceled && batches > 0 && idle < transmit->subgroups) {
        uint32_t s = transmit->turn, count, accepted;
        uint32_t limit = atomic_load_explicit(&transmit->limits[s], memory_order_acquire);

        if (transmit->cursors[s] >= limit) {
            transmit->turn = (s + 1) % transmit->subgroups;
            idle++;
            continue;
        }
        idle = 0;
        batches--;
        count = batch_size(transmit, s, limit, now_ns);
        if (count == 0) {
            return TT_TRANSMIT_PACED;
        }
        accepted = post_batch(transmit, s, count);
        tt_pacer_took(&transmit->pacer, transmit->streams[s].stripe.chunk_bytes, accepted, now_ns);
        if (accepted < count) {
            *blocked = &transmit->queues[s];
            return TT_TRANSMIT_BLOCKED;
        }
        transmit->turn = (s + 1) % transmit->subgroups;
    }
    if (!canceled && !all_posted(transmit)) {
        return idle < transmit->subgroups ? TT_TRANSMIT_MOVED : TT_TRANSMIT_WAITING;
    }
    struct tt_queue *incomplete = incomplete_queue(transmit);
    if (incomplete == NULL) {
        return finish(transmit);
    }
    *blocked = incomplete;
    return TT_TRANSMIT_BLOCKED;
}
