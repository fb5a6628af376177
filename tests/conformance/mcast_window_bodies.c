/* SPDX-License-Identifier: BSD-3-Clause */
/* Windows: memory that the network writes chunks to. Where the provider has none, a key must change nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "mcast_bodies.h"
#include "mcast_world.h"

enum { KEY = 77, OTHER_KEY = 78, CHUNKS = 5, LAST_BYTES = 700, UNTOUCHED = 0x5C, OFFSET = 13 };
enum { BLOCK_BYTES = (CHUNKS - 1) * CHUNK_BYTES + LAST_BYTES, WINDOW_BYTES = OFFSET + BLOCK_BYTES };

struct window_world {
    struct mcast_world mcast;
    bool writes;
    struct tt_mcast_queue *sender, *receiver;
    unsigned char *bytes;                   /* the block that is sent */
    unsigned char memory[WINDOW_BYTES + 1]; /* the receiver's, and a byte behind it */
};

static struct window_world begin(void **state)
{
    struct window_world world = {.mcast = mcast_begin(state, CHUNK_BYTES)};
    struct tt_mcast *mcast = world.mcast.fixture->mcast(world.mcast.world, 1);
    struct tt_mcast_attributes attributes;

    mcast->ops->attributes(mcast, &attributes);
    world.writes = attributes.writes;
    assert_int_equal(world.writes, (world.mcast.fixture->abilities & CONFORMANCE_WINDOWS) != 0);
    world.sender = world.mcast.inboxes[0].queue;
    world.receiver = world.mcast.inboxes[1].queue;
    world.bytes = mcast_pattern(BLOCK_BYTES, 21);
    memset(world.memory, UNTOUCHED, sizeof(world.memory));
    return world;
}

static void end(struct window_world *world)
{
    free(world->bytes);
    mcast_end(&world->mcast);
}

static void bind_window(struct window_world *world, uint32_t key)
{
    if (world->writes) {
        world->receiver->ops->bind(world->receiver, key, world->memory, WINDOW_BYTES);
    }
}

static struct tt_send_chunk chunk_of(const struct window_world *world, uint32_t index, uint32_t key)
{
    return (struct tt_send_chunk){.imm = 0xB0000000U + index,
                                  .length_bytes = index + 1 < CHUNKS ? CHUNK_BYTES : LAST_BYTES,
                                  .address = world->bytes + (size_t)index * CHUNK_BYTES,
                                  .window_key = key,
                                  .window_offset_bytes = OFFSET + (uint64_t)index * CHUNK_BYTES};
}

static void post(struct window_world *world, const struct tt_send_chunk *chunk)
{
    mcast_post_all(&world->mcast, world->sender, chunk, 1);
}

static void assert_all(const unsigned char *bytes, size_t count, unsigned char value)
{
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(bytes[i], value);
    }
}

/* One poll of what waits; every chunk must lie at its place, in the window or in staging. */
static uint32_t poll_and_look(struct window_world *world)
{
    struct tt_receive_chunk chunks[MAX_BATCH];
    const uint32_t count = world->receiver->ops->poll(world->receiver, chunks, MAX_BATCH);
    for (uint32_t i = 0; i < count; i++) {
        const unsigned char *place = world->memory + OFFSET + (size_t)(chunks[i].imm & 0xFF) * CHUNK_BYTES;
        assert_int_equal(chunks[i].address == place, world->writes);
        mcast_keep(&world->mcast.inboxes[1], &chunks[i]);
    }
    world->receiver->ops->repost(world->receiver, chunks, count);
    return count;
}

static void keyed_chunks_are_where_they_belong_or_in_staging(void **state)
{
    struct window_world world = begin(state);
    const uint64_t deadline_ns = world.mcast.fixture->now_ns(world.mcast.world) + PATIENCE_NS;

    bind_window(&world, KEY);
    for (uint32_t i = 0; i < CHUNKS; i++) {
        const struct tt_send_chunk chunk = chunk_of(&world, CHUNKS - 1 - i, KEY);
        post(&world, &chunk);
    }
    while (world.mcast.inboxes[1].count < CHUNKS && world.mcast.fixture->now_ns(world.mcast.world) < deadline_ns) {
        if (poll_and_look(&world) == 0) {
            world.mcast.fixture->pump(world.mcast.world, STEP_NS);
        }
    }
    assert_int_equal(world.mcast.inboxes[1].count, CHUNKS);
    for (uint32_t i = 0; i < CHUNKS; i++) {
        const struct tt_send_chunk chunk = chunk_of(&world, i, KEY);
        mcast_assert_received(&world.mcast.inboxes[1], &chunk, 0);
    }
    assert_all(world.memory, OFFSET, UNTOUCHED);
    if (world.writes) {
        assert_memory_equal(world.memory + OFFSET, world.bytes, BLOCK_BYTES); /* reposting leaves it alone */
    } else {
        assert_all(world.memory, WINDOW_BYTES, UNTOUCHED);
    }
    assert_int_equal(world.memory[WINDOW_BYTES], UNTOUCHED);
    end(&world);
}

static void chunks_without_a_key_go_to_staging_though_a_window_is_bound(void **state)
{
    struct window_world world = begin(state);
    const struct tt_send_chunk chunk = chunk_of(&world, 1, 0);

    bind_window(&world, KEY);
    post(&world, &chunk);
    mcast_await(&world.mcast, &world.mcast.inboxes[1], 1);
    mcast_assert_received(&world.mcast.inboxes[1], &chunk, 0);
    assert_all(world.memory, sizeof(world.memory), UNTOUCHED);
    end(&world);
}

static void keys_that_are_not_bound_and_places_outside_bring_nothing(void **state)
{
    struct window_world world = begin(state);
    struct tt_send_chunk chunk = chunk_of(&world, 0, OTHER_KEY);

    bind_window(&world, KEY);
    post(&world, &chunk);
    chunk = chunk_of(&world, CHUNKS - 1, KEY);
    chunk.window_offset_bytes++; /* ends one byte behind the window */
    post(&world, &chunk);
    chunk.window_offset_bytes = UINT64_MAX - 5;
    post(&world, &chunk);
    mcast_assert_quiet(&world.mcast, &world.mcast.inboxes[1]);
    assert_all(world.memory, sizeof(world.memory), UNTOUCHED);

    chunk = chunk_of(&world, CHUNKS - 1, KEY); /* and the window stands */
    post(&world, &chunk);
    mcast_await(&world.mcast, &world.mcast.inboxes[1], 1);
    mcast_assert_received(&world.mcast.inboxes[1], &chunk, 0);
    end(&world);
}

static void nothing_is_written_once_a_window_is_invalidated(void **state)
{
    struct window_world world = begin(state);
    struct tt_send_chunk chunk = chunk_of(&world, 0, KEY);

    bind_window(&world, KEY);
    post(&world, &chunk);
    mcast_await_sent(&world.mcast, world.sender, 1); /* under way, or written already */
    world.receiver->ops->invalidate(world.receiver, KEY);
    memset(world.memory, UNTOUCHED, sizeof(world.memory));
    chunk = chunk_of(&world, 1, KEY);
    post(&world, &chunk);
    mcast_wait_quietly(&world.mcast);
    assert_all(world.memory, sizeof(world.memory), UNTOUCHED);
    while (mcast_poll_once(&world.mcast.inboxes[1], MAX_BATCH) > 0) {
    }
    assert_null(mcast_find(&world.mcast.inboxes[1], chunk.imm));
    end(&world);
}

static void as_many_windows_as_were_asked_for_are_bound_at_once_over_and_over(void **state)
{
    enum { ROUNDS = 20 };
    struct window_world world = begin(state);

    for (uint32_t i = 0; i < ROUNDS; i++) {
        const struct tt_send_chunk chunk = chunk_of(&world, i % CHUNKS, KEY + i);
        if (i >= MAX_WINDOWS) {
            world.receiver->ops->invalidate(world.receiver, KEY + i - MAX_WINDOWS);
        }
        bind_window(&world, KEY + i);
        post(&world, &chunk);
        mcast_await(&world.mcast, &world.mcast.inboxes[1], i + 1);
    }
    assert_memory_equal(world.memory + OFFSET, world.bytes, BLOCK_BYTES);
    end(&world); /* with windows that are still bound */
}

const struct conformance_body mcast_window_bodies[] = {
    CONFORMANCE_BODY(keyed_chunks_are_where_they_belong_or_in_staging),
    CONFORMANCE_BODY_NEEDS(chunks_without_a_key_go_to_staging_though_a_window_is_bound, CONFORMANCE_WINDOWS),
    CONFORMANCE_BODY_NEEDS(keys_that_are_not_bound_and_places_outside_bring_nothing, CONFORMANCE_WINDOWS),
    CONFORMANCE_BODY_NEEDS(nothing_is_written_once_a_window_is_invalidated, CONFORMANCE_WINDOWS),
    CONFORMANCE_BODY_NEEDS(as_many_windows_as_were_asked_for_are_bound_at_once_over_and_over, CONFORMANCE_WINDOWS),
};
const size_t mcast_window_bodies_count = sizeof(mcast_window_bodies) / sizeof(mcast_window_bodies[0]);
