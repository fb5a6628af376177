/* SPDX-License-Identifier: BSD-3-Clause */
/* The world of chunk_world.h: a provider that has a count of chunks, and hands out one a poll, so that the feeder
 * enters the kernel for each. */
#include "chunk_world.h"

#include <string.h>
#include <unistd.h>

#include "explore.h"
#include "system.h"
#include "wire/chunk.h"

enum { SLAB_BYTES = 256 };

struct tt_queue world_queue;
struct tt_early_pool world_pool;
struct world_stream world_stream;
const uint8_t world_sent[WORLD_BYTES] = {1, 2, 3, 4};
uint32_t world_tag, world_polled, world_posted;
_Atomic uint32_t world_brought;

static struct tt_mcast_queue mcast;
static int receive_fd; /* 0: none */
static uint8_t slabs[TT_EARLY_SLABS * SLAB_BYTES];

static bool is_dry(void)
{
    return world_polled == atomic_load_explicit(&world_brought, memory_order_acquire);
}

static uint32_t poll_one(struct tt_mcast_queue *from, struct tt_receive_chunk *chunks, uint32_t most)
{
    uint64_t count;

    (void)from;
    (void)most;
    if (is_dry()) {
        if (receive_fd == 0) {
            return 0;
        }
        (void)read(receive_fd, &count, sizeof count);
        if (is_dry()) {
            return 0;
        }
    }
    chunks[0] = (struct tt_receive_chunk){.imm = tt_imm_encode(world_tag, world_polled),
                                          .length_bytes = WORLD_CHUNK_BYTES,
                                          .source = 1,
                                          .address = &world_sent[world_polled * WORLD_CHUNK_BYTES]};
    world_polled++;
    return 1;
}

static void repost(struct tt_mcast_queue *to, const struct tt_receive_chunk *chunks, uint32_t count)
{
    (void)to;
    (void)chunks;
    (void)count;
}

static int fd_of(const struct tt_mcast_queue *of)
{
    (void)of;
    return receive_fd;
}

static uint32_t post(struct tt_mcast_queue *to, const struct tt_send_chunk *chunks, uint32_t count)
{
    (void)to;
    (void)chunks;
    world_posted += count;
    return count;
}

static uint32_t count_sent(struct tt_mcast_queue *of)
{
    (void)of;
    return world_posted;
}

static const struct tt_mcast_ops provider = {
    .name = "fake", .poll = poll_one, .repost = repost, .receive_fd = fd_of, .post = post, .sent = count_sent};

void world_init_stream(struct world_stream *made)
{
    struct tt_layout layout;

    made->stream = (struct tt_stream){
        .first_source = 1, .buffer = made->buffer, .bitmap = made->bitmap, .notify_at = WORLD_CHUNKS};
    EXPLORE_CHECK(tt_layout_init(&layout, WORLD_BYTES, WORLD_CHUNK_BYTES, 1, 1, TT_PSN_LIMIT));
    tt_layout_stripe(&layout, 0, &made->stream.stripe);
    made->bitmap[0] = 0;
    memset(made->buffer, 0, sizeof made->buffer);
}

void world_begin_chunks(bool eager, int fd)
{
    receive_fd = fd;
    mcast = (struct tt_mcast_queue){.ops = &provider};
    memset(&world_queue, 0, sizeof world_queue);
    world_queue.mcast = &mcast;
    world_queue.receiver.size = 2;
    world_queue.batch = 1;
    tt_early_pool_init(&world_pool, slabs, SLAB_BYTES);
    world_queue.receiver.log.pool = &world_pool;
    world_init_stream(&world_stream);
    world_tag = tt_tag_of_sequence(0, eager);
    world_brought = 0;
    world_polled = world_posted = 0;
}
