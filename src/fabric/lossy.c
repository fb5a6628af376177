/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Drops received chunks on purpose.
 *
 * Normal path: every operation goes to the inner provider; poll throws the dice for each chunk that came, keeps what
 * survives in its order and reposts the rest itself.
 * Failures: those of the inner provider. A poll whose chunks were all dropped polls again, so that 0 still means what
 * it means with the inner provider: nothing waits, the caller may sleep.
 */
#include "fabric/lossy.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/random.h"

enum { PARTS = 1000000 };

struct lossy {
    struct tt_mcast base;
    struct tt_mcast *inner;
    uint32_t loss_ppm;
    uint64_t seed;
    uint32_t attached; /* queues so far */
};

struct lossy_queue {
    struct tt_mcast_queue base;
    struct tt_mcast_queue *inner;
    struct tt_random random;
    uint32_t loss_ppm;
    _Atomic uint64_t drops; /* written by the polling thread only */
};

static void lossy_attributes(struct tt_mcast *mcast, struct tt_mcast_attributes *attributes)
{
    struct tt_mcast *inner = ((struct lossy *)mcast)->inner;
    inner->ops->attributes(inner, attributes);
}

/*
 * The generator's seed of one queue: ranks and subgroups must not lose the same chunks. The address is no part of it:
 * it is another one in every job, and the same seed shall lose the same chunks.
 */
static uint64_t queue_seed(uint64_t seed, uint32_t rank, uint32_t attached_before)
{
    struct tt_random random;

    tt_random_init(&random, seed);
    tt_random_init(&random, tt_random_next(&random) ^ rank);
    tt_random_init(&random, tt_random_next(&random) ^ attached_before);
    return tt_random_next(&random);
}

static tutti_status lossy_attach(struct tt_mcast *mcast, const struct tt_mcast_queue_options *options,
                                 struct tt_mcast_queue **queue)
{
    struct lossy *lossy = (struct lossy *)mcast;
    struct lossy_queue *wrapper = calloc(1, sizeof(*wrapper));

    if (wrapper == NULL) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_NO_MEMORY, "no memory for a lossy queue of rank %u", options->rank);
    }
    tutti_status status = lossy->inner->ops->attach(lossy->inner, options, &wrapper->inner);
    if (status != TUTTI_OK) {
        free(wrapper);
        return status;
    }
    wrapper->base.ops = mcast->ops;
    wrapper->loss_ppm = lossy->loss_ppm;
    tt_random_init(&wrapper->random, queue_seed(lossy->seed, options->rank, lossy->attached++));
    *queue = &wrapper->base;
    return TUTTI_OK;
}

static struct tt_mcast_queue *inner_of(const struct tt_mcast_queue *queue)
{
    return ((const struct lossy_queue *)queue)->inner;
}

static tutti_status lossy_join(struct tt_mcast_queue *queue)
{
    return tt_mcast_join(inner_of(queue));
}

static void lossy_join_again(struct tt_mcast_queue *queue)
{
    if (inner_of(queue)->ops->join_again != NULL) {
        inner_of(queue)->ops->join_again(inner_of(queue));
    }
}

static void lossy_drain(struct tt_mcast_queue *queue)
{
    tt_mcast_drain(inner_of(queue));
}

static void lossy_detach(struct tt_mcast_queue *queue)
{
    if (queue != NULL) {
        inner_of(queue)->ops->detach(inner_of(queue));
        free(queue);
    }
}

static uint32_t lossy_depth_chunks(const struct tt_mcast_queue *queue)
{
    return inner_of(queue)->ops->depth_chunks(inner_of(queue));
}

static void lossy_describe(const struct tt_mcast_queue *queue, uint8_t *name)
{
    inner_of(queue)->ops->describe(inner_of(queue), name);
}

static tutti_status lossy_introduce(struct tt_mcast_queue *queue, const void *names, uint32_t stride_bytes,
                                    uint32_t size)
{
    return inner_of(queue)->ops->introduce(inner_of(queue), names, stride_bytes, size);
}

/* What comes back is the inner provider's, and is released there. */
static struct tt_mcast_memory *lossy_memory_register(struct tt_mcast *mcast, uint32_t sender, const void *address,
                                                     size_t length_bytes)
{
    struct tt_mcast *inner = ((struct lossy *)mcast)->inner;
    return inner->ops->memory_register(inner, sender, address, length_bytes);
}

static void lossy_memory_release(struct tt_mcast_memory *memory)
{
    if (memory != NULL) {
        memory->ops->memory_release(memory);
    }
}

static void lossy_bind(struct tt_mcast_queue *queue, uint32_t window_key, void *address, uint64_t length_bytes)
{
    inner_of(queue)->ops->bind(inner_of(queue), window_key, address, length_bytes);
}

static void lossy_invalidate(struct tt_mcast_queue *queue, uint32_t window_key)
{
    inner_of(queue)->ops->invalidate(inner_of(queue), window_key);
}

static uint32_t lossy_post(struct tt_mcast_queue *queue, const struct tt_send_chunk *chunks, uint32_t count)
{
    return inner_of(queue)->ops->post(inner_of(queue), chunks, count);
}

static uint32_t lossy_sent(struct tt_mcast_queue *queue)
{
    return inner_of(queue)->ops->sent(inner_of(queue));
}

/* Moves the survivors to the front and reposts the others, in runs; returns the number of survivors. */
static uint32_t thin_out(struct lossy_queue *queue, struct tt_receive_chunk *chunks, uint32_t count)
{
    const struct tt_mcast_ops *ops = queue->inner->ops;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < count; i++) {
        bool probe = tt_imm_tag(chunks[i].imm) == TT_TAG_PROBE;
        if (!probe && tt_random_chance(&queue->random, queue->loss_ppm)) {
            ops->repost(queue->inner, &chunks[i], 1);
        } else {
            chunks[kept++] = chunks[i];
        }
    }
    uint64_t drops = atomic_load_explicit(&queue->drops, memory_order_relaxed);
    atomic_store_explicit(&queue->drops, drops + (count - kept), memory_order_relaxed);
    return kept;
}

static uint32_t lossy_poll(struct tt_mcast_queue *queue, struct tt_receive_chunk *chunks, uint32_t max)
{
    struct lossy_queue *lossy = (struct lossy_queue *)queue;
    uint32_t came;
    uint32_t kept = 0;

    do {
        came = lossy->inner->ops->poll(lossy->inner, chunks, max);
        kept = thin_out(lossy, chunks, came);
    } while (came > 0 && kept == 0);
    queue->dry = lossy->inner->dry;
    return kept;
}

static void lossy_repost(struct tt_mcast_queue *queue, const struct tt_receive_chunk *chunks, uint32_t count)
{
    inner_of(queue)->ops->repost(inner_of(queue), chunks, count);
}

static int lossy_receive_fd(const struct tt_mcast_queue *queue)
{
    return inner_of(queue)->ops->receive_fd(inner_of(queue));
}

static int lossy_send_fd(const struct tt_mcast_queue *queue)
{
    return inner_of(queue)->ops->send_fd(inner_of(queue));
}

static void lossy_counters(const struct tt_mcast_queue *queue, struct tt_mcast_counters *counters)
{
    const struct lossy_queue *lossy = (const struct lossy_queue *)queue;

    lossy->inner->ops->counters(lossy->inner, counters);
    counters->drops_injected += atomic_load_explicit(&lossy->drops, memory_order_relaxed);
}

static void lossy_destroy(struct tt_mcast *mcast)
{
    struct lossy *lossy = (struct lossy *)mcast;

    lossy->inner->ops->destroy(lossy->inner);
    free(lossy);
}

tutti_status tt_lossy_create(struct tt_mcast *inner, uint32_t loss_ppm, uint64_t seed, struct tt_mcast **mcast)
{
    static const struct tt_mcast_ops ops = {.name = "lossy",
                                            .attributes = lossy_attributes,
                                            .attach = lossy_attach,
                                            .join = lossy_join,
                                            .describe = lossy_describe,
                                            .introduce = lossy_introduce,
                                            .join_again = lossy_join_again,
                                            .drain = lossy_drain,
                                            .detach = lossy_detach,
                                            .depth_chunks = lossy_depth_chunks,
                                            .memory_register = lossy_memory_register,
                                            .memory_release = lossy_memory_release,
                                            .bind = lossy_bind,
                                            .invalidate = lossy_invalidate,
                                            .post = lossy_post,
                                            .sent = lossy_sent,
                                            .poll = lossy_poll,
                                            .repost = lossy_repost,
                                            .receive_fd = lossy_receive_fd,
                                            .send_fd = lossy_send_fd,
                                            .counters = lossy_counters,
                                            .destroy = lossy_destroy};

    if (loss_ppm > PARTS) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_INVALID_ARGUMENT, "loss of %u parts per million is more than all",
                        loss_ppm);
    }
    struct lossy *lossy = calloc(1, sizeof(*lossy));
    if (lossy == NULL) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_NO_MEMORY, "no memory for the lossy provider");
    }
    *lossy = (struct lossy){.base.ops = &ops, .inner = inner, .loss_ppm = loss_ppm, .seed = seed};
    *mcast = &lossy->base;
    return TUTTI_OK;
}
