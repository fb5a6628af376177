/* SPDX-License-Identifier: BSD-3-Clause */
/* Steps of one machine where blocks are gathered, in few words. */
#include "gather_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

uint8_t result[MACHINE_BUFFER_BYTES];

void make_world(struct world *world, const struct shape *shape)
{
    world_init(world, shape);
    world->collective.sending.may_send = true; /* the member's part */
    world->collective.copy.offset = PLACE;
    world->collective.least.finished = 5;
    for (size_t i = 0; i < sizeof result; i++) {
        result[i] = (uint8_t)(i * 7 + i / 256);
    }
}

void start(struct world *world)
{
    const struct tt_collective_config *config = &world->memory.config;
    uint64_t block = config->terms.block_bytes;

    assert_true(world_step(world, TT_EVENT_START, 0));
    next_is(&world->script, TT_ACTION_PUBLISH);
    if (block > 0) {
        memcpy(world->memory.buffer + config->rank * block, result + config->rank * block, block);
    }
}

void gather_init(struct world *world, uint32_t rank, uint32_t size, uint32_t block_bytes)
{
    make_world(
        world,
        &(struct shape){.kind = TT_ALLGATHER, .rank = rank, .size = size, .block_bytes = block_bytes, .gather = true});
    start(world);
}

struct tt_frame piece_of(const struct world *world, uint32_t offset, uint32_t length)
{
    return (struct tt_frame){.type = TT_FRAME_GATHER,
                             .body.gather = {.terms = world->memory.config.terms,
                                             .least = tt_release_of(5),
                                             .offset_bytes = offset,
                                             .length_bytes = (uint16_t)length,
                                             .bytes = result + offset}};
}

bool hear_piece(struct world *world, uint64_t now_ns, uint32_t source, uint32_t offset, uint32_t length)
{
    return world_hear_frame(world, now_ns, piece_of(world, offset, length), source);
}

void hear_blocks(struct world *world, uint64_t now_ns, uint32_t source, uint32_t first, uint32_t count)
{
    uint32_t block = (uint32_t)world->memory.config.terms.block_bytes, end = (first + count) * block;

    for (uint32_t offset = first * block; offset < end; offset += PIECE) {
        no_more(&world->script);
        assert_true(hear_piece(world, now_ns, source, offset, end - offset < PIECE ? end - offset : PIECE));
    }
}

void sends_piece(struct world *world, uint32_t to, uint32_t offset, uint32_t length)
{
    const struct tt_frame *frame = next_sends(&world->script, TT_FRAME_GATHER, to);

    assert_true(tt_collective_terms_agree(&frame->body.gather.terms, &world->memory.config.terms));
    assert_true(frame->source == world->memory.config.rank && frame->group == MACHINE_GROUP);
    assert_true(frame->sequence == COLLECTIVE_SEQUENCE);
    assert_int_equal(frame->body.gather.offset_bytes, offset);
    assert_int_equal(frame->body.gather.length_bytes, length);
    assert_ptr_equal(frame->body.gather.bytes, world->memory.buffer + offset);
    assert_memory_equal(frame->body.gather.bytes, result + offset, length);
}

void assert_guarded(const uint8_t *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(bytes[i], MACHINE_GUARD);
    }
}

void keeps(struct world *world, uint64_t length_bytes)
{
    const struct tt_action *keep = next_is(&world->script, TT_ACTION_KEEP);

    assert_ptr_equal(keep->collective, &world->collective);
    assert_true(keep->body.keep.offset_bytes == PLACE && keep->body.keep.length_bytes == length_bytes);
}

void ends_well(struct world *world, uint64_t now_ns, uint32_t chunks, uint64_t length_bytes)
{
    memory_receive(&world->memory, 0, 0, chunks);
    world_step(world, TT_EVENT_TICK, now_ns);
    next_is(&world->script, TT_ACTION_FREEZE);
    world_step(world, TT_EVENT_FROZEN, now_ns + 1);
    keeps(world, length_bytes);
    next_finishes(world, TUTTI_OK, TT_RANK_NONE);
}
