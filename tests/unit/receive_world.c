/* SPDX-License-Identifier: BSD-3-Clause */
/* Setting up a receive kernel, and what it has counted and touched. */
#include "receive_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

void make_stream(struct tt_stream *stream, uint64_t block_bytes, uint32_t chunk_bytes, uint32_t roots,
                 uint32_t first_source, uint8_t *buffer, _Atomic uint64_t *bitmap)
{
    struct tt_layout layout;

    assert_true(tt_layout_init(&layout, block_bytes, chunk_bytes, roots, 1, 256));
    tt_layout_stripe(&layout, 0, &stream->stripe);
    stream->first_source = first_source;
    stream->buffer = buffer;
    stream->bitmap = bitmap;
    atomic_store(&stream->notify_at, 1000);
}

void set_up(struct world *world)
{
    memset(world, 0, sizeof *world);
    memset(world->memory, GUARD, sizeof world->memory);
    memset(world->other_memory, GUARD, sizeof world->other_memory);
    for (uint32_t i = 0; i < sizeof world->payload; i++) {
        world->payload[i] = (uint8_t)(i + 1);
    }
    world->receiver.rank = RANK;
    world->receiver.size = SIZE;
    world->receiver.probe_bytes = 4;
    world->receiver.heard = world->heard;
    make_stream(&world->stream, 10, 4, 2, 2, world->memory + MARGIN, world->bitmap);
    tt_receiver_publish(&world->receiver, TAG, &world->stream);
}

uint32_t receive_early(struct world *world)
{
    uint32_t placed = tt_receive_early(&world->receiver);

    tt_stream_check(&world->stream);
    tt_receiver_check(&world->receiver);
    return placed;
}

uint32_t receive(struct world *world, uint32_t tag, uint32_t psn, uint32_t source, uint32_t length_bytes,
                 uint8_t first_byte)
{
    struct tt_receive_chunk chunk = {.imm = tt_imm_encode(tag, psn),
                                     .length_bytes = length_bytes,
                                     .source = source,
                                     .address = world->payload + first_byte - 1};
    uint32_t placed = tt_receive(&world->receiver, &chunk, 1);

    tt_stream_check(&world->stream);
    tt_receiver_check(&world->receiver);
    return placed;
}

void assert_counters(struct world *world, const uint64_t *expected)
{
    uint32_t i = 0;

#define CHECK(name) assert_int_equal(atomic_load(&world->receiver.name), expected[i++]);
    TT_RECEIVE_COUNTERS(CHECK)
#undef CHECK
}

void assert_untouched(const uint8_t *bytes, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(bytes[i], GUARD);
    }
}

void assert_nothing_changed(struct world *world)
{
    assert_untouched(world->memory, sizeof world->memory);
    assert_int_equal(atomic_load(&world->bitmap[0]), 0);
    assert_int_equal(atomic_load(&world->stream.received), 0);
    /* What fits no collective is looked into. */
    assert_int_equal(atomic_load(&world->receiver.attention), atomic_load(&world->receiver.doubt));
}
