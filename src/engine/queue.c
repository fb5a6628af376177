/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Feeding a receive kernel. Normal path: what came early and has been published since, then batches of what the
 * provider has, until that is dry; who feeds is inside the kernel between two steps of the turn. Failures are those of
 * attaching and introducing: the provider's, a worker that has too many queues already, no descriptor to watch with.
 */
#include "engine/queue.h"

#include <assert.h>

#include "engine/engine.h"
#include "engine/transmit.h"
#include "engine/wakeup.h"
#include "engine/worker.h"

enum { MOST_BEHIND = 16 }; /* collectives that a queue is left undrained for */

/* --- Life --------------------------------------------------------------------------------------------------------- */

/* The provider is told at once who will feed the queue: it has its place there before it is fed. */
static tutti_status choose_feeder(struct tt_queue *queue, struct tt_engine *engine)
{
    queue->feeder = 0;
    return engine->workers == NULL ? TUTTI_OK : tt_workers_reserve(engine->workers, &queue->feeder);
}

tutti_status tt_queue_attach(struct tt_queue *queue, struct tt_engine *engine, struct tt_mcast *mcast,
                             const struct tt_mcast_queue_options *options)
{
    struct tt_mcast_queue_options completed = *options;
    struct tt_mcast_attributes attributes;
    tutti_status status;

    assert(queue->mcast == NULL);
    status = choose_feeder(queue, engine);
    if (status != TUTTI_OK) {
        return status;
    }
    mcast->ops->attributes(mcast, &attributes);
    assert(attributes.send_batch > 0);
    assert(options->chunk_bytes <= attributes.max_chunk_bytes);
    queue->writes = attributes.writes;
    queue->batch = attributes.send_batch < TT_TRANSMIT_BATCH ? attributes.send_batch : TT_TRANSMIT_BATCH;
    completed.feeder = queue->feeder;
    completed.sender = tt_workers_sender_index(engine->settings.workers);
    completed.windows = (uint32_t)engine->settings.in_flight;
    status = mcast->ops->attach(mcast, &completed, &queue->mcast);
    queue->fed = status == TUTTI_OK;
    if (status != TUTTI_OK && engine->workers != NULL) {
        tt_workers_release(engine->workers, queue->feeder);
    }
    return status;
}

tutti_status tt_queue_introduce(struct tt_queue *queue, struct tt_engine *engine, struct tt_party *party,
                                const void *names, uint32_t stride_bytes, uint32_t size)
{
    const struct tt_mcast_ops *ops;
    tutti_status status;

    assert(queue->mcast != NULL);
    assert(size > 0);
    ops = queue->mcast->ops;
    status = ops->introduce(queue->mcast, names, stride_bytes, size);
    if (status != TUTTI_OK) {
        return status;
    }
    if (engine->workers != NULL) {
        return tt_workers_add_queue(engine->workers, queue->feeder, queue);
    }
    return engine->wakeup == NULL ? TUTTI_OK
                                  : tt_wakeup_add_chunks(engine->wakeup, ops->receive_fd(queue->mcast), party);
}

void tt_queue_withdraw(struct tt_queue *queue, struct tt_engine *engine)
{
    if (!queue->fed) {
        return;
    }
    assert(queue->mcast != NULL);
    queue->fed = false;
    if (engine->workers != NULL) {
        tt_workers_remove_queue(engine->workers, queue->feeder, queue);
        tt_workers_release(engine->workers, queue->feeder);
    } else if (engine->wakeup != NULL) {
        tt_wakeup_remove(engine->wakeup, queue->mcast->ops->receive_fd(queue->mcast)); /* which may never have had it */
    }
}

void tt_queue_detach(struct tt_queue *queue, struct tt_engine *engine)
{
    if (queue->mcast == NULL) {
        return;
    }
    tt_queue_withdraw(queue, engine);
    queue->mcast->ops->detach(queue->mcast);
    queue->mcast = NULL;
}

/* --- Streams ------------------------------------------------------------------------------------------------------ */

/* The stream comes first and goes last, so that nothing is written that nobody asks for. */
void tt_queue_publish(struct tt_queue *queue, uint32_t tag, struct tt_stream *stream, uint32_t window_key)
{
    assert(tag < TT_TAG_COUNT);
    assert(stream != NULL || window_key == 0);
    tt_receiver_publish(&queue->receiver, tag, stream);
    if (queue->writes && window_key != 0) {
        queue->mcast->ops->bind(queue->mcast, window_key, stream->buffer, tt_stripe_buffer_bytes(&stream->stripe));
    }
}

uint32_t tt_queue_retire(struct tt_queue *queue, uint32_t tag, uint32_t window_key)
{
    bool is_published;

    assert(tag < TT_TAG_COUNT);
    is_published = atomic_load_explicit(&queue->receiver.streams[tag], memory_order_relaxed) != NULL;
    if (queue->writes && window_key != 0 && is_published) {
        queue->mcast->ops->invalidate(queue->mcast, window_key);
    }
#ifdef TT_FAULT_TURN_BEFORE_RETIREMENT
    uint32_t turn = atomic_load_explicit(&queue->turn, memory_order_seq_cst);
    tt_receiver_retire(&queue->receiver, tag);
    return turn;
#endif
    tt_receiver_retire(&queue->receiver, tag);
    return atomic_load_explicit(&queue->turn, memory_order_seq_cst);
}

bool tt_queue_withhold(struct tt_queue *queue, uint32_t tag, const struct tt_stream *stream)
{
    assert(tag < TT_TAG_COUNT);
    tt_receiver_retire(&queue->receiver, tag);
#ifdef TT_FAULT_WITHHELD_WITHOUT_TURN
    return atomic_load_explicit(&stream->received, memory_order_acquire) == 0;
#endif
    return tt_queue_is_quiet(queue, atomic_load_explicit(&queue->turn, memory_order_seq_cst)) &&
           atomic_load_explicit(&stream->received, memory_order_acquire) == 0;
}

/* --- Receiving ---------------------------------------------------------------------------------------------------- */

/* With every turn the kernel hears anew what is over by now. */
static void enter_kernel(struct tt_queue *queue, uint64_t frontier)
{
    uint32_t turn = atomic_load_explicit(&queue->turn, memory_order_relaxed);

    assert((turn & 1) == 0); /* one thread feeds it */
    assert(frontier >= queue->receiver.frontier);
    queue->receiver.frontier = frontier;
    queue->receiver.drained = atomic_load_explicit(&queue->drained, memory_order_relaxed);
    atomic_store_explicit(&queue->turn, turn + 1, memory_order_seq_cst);
}

static void leave_kernel(struct tt_queue *queue)
{
    uint32_t turn = atomic_load_explicit(&queue->turn, memory_order_relaxed);

    assert((turn & 1) == 1);
    atomic_store_explicit(&queue->turn, turn + 1, memory_order_seq_cst);
}

uint32_t tt_queue_receive_early(struct tt_queue *queue)
{
    uint32_t placed;

    if (queue->receiver.log.used_bytes == 0) {
        return 0;
    }
    enter_kernel(queue, atomic_load_explicit(&queue->frontier, memory_order_acquire));
    placed = tt_receive_early(&queue->receiver);
    leave_kernel(queue);
    return placed;
}

/* What it has asked attention for comes first, but for the rare looks that tags are free again after. */
static bool has_done_enough(const struct tt_queue *queue)
{
    uint64_t frontier = atomic_load_explicit(&queue->frontier, memory_order_relaxed);
    uint64_t drained = atomic_load_explicit(&queue->drained, memory_order_relaxed);

    return atomic_load_explicit(&queue->receiver.attention, memory_order_relaxed) != 0 &&
           frontier - drained < MOST_BEHIND;
}

static uint32_t receive(struct tt_queue *queue, uint32_t limit, bool until_attention)
{
    struct tt_receive_chunk chunks[TT_QUEUE_BATCH];
    const struct tt_mcast_ops *ops = queue->mcast->ops;
    uint32_t total = tt_queue_receive_early(queue), count;
    bool dry;

    do {
        uint64_t frontier = atomic_load_explicit(&queue->frontier, memory_order_acquire);

        count = ops->poll(queue->mcast, chunks, TT_QUEUE_BATCH);
        assert(count <= TT_QUEUE_BATCH);
#ifdef TT_FAULT_FRONTIER_AFTER_POLL
        frontier = atomic_load_explicit(&queue->frontier, memory_order_acquire);
#endif
        dry = count == 0 || queue->mcast->dry;
        if (count > 0) {
            enter_kernel(queue, frontier);
            tt_receive(&queue->receiver, chunks, count);
            leave_kernel(queue);
            ops->repost(queue->mcast, chunks, count);
            total += count;
        }
        if (dry) {
            atomic_store_explicit(&queue->drained, frontier, memory_order_release);
        }
    } while (!dry && total < limit && !(until_attention && has_done_enough(queue)));
    queue->more = !dry;
    queue->empty = count == 0;
    return total;
}

uint32_t tt_queue_receive(struct tt_queue *queue, uint32_t limit)
{
    return receive(queue, limit, false);
}

uint32_t tt_queue_receive_until_attention(struct tt_queue *queue, uint32_t limit)
{
    return receive(queue, limit, true);
}

/* --- Checks ------------------------------------------------------------------------------------------------------- */

void tt_queue_check(const struct tt_queue *queue)
{
    const struct tt_receiver *receiver = &queue->receiver;
    uint64_t frontier = atomic_load_explicit(&queue->frontier, memory_order_relaxed);
    uint64_t drained = atomic_load_explicit(&queue->drained, memory_order_relaxed);

    assert((atomic_load_explicit(&queue->turn, memory_order_relaxed) & 1) == 0);
    assert(drained <= frontier);
    assert(receiver->frontier <= frontier);
    assert(receiver->drained <= drained);
    assert(receiver->heard != NULL);
    assert(!queue->more || !queue->empty);
    assert(queue->mcast == NULL || (queue->batch > 0 && queue->batch <= TT_TRANSMIT_BATCH));
    tt_receiver_check(receiver);
}
