/* SPDX-License-Identifier: BSD-3-Clause */
/* Rank 1 of 4 and its eager collectives, in few words. */
#include "eager_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

const struct shape from_0 = {.eager = true, .root = 0, .block_bytes = BYTES};
const struct shape from_1 = {.eager = true, .root = 1, .block_bytes = BYTES};
const struct shape gather = {.eager = true, .kind = TT_ALLGATHER, .block_bytes = 16};
const struct shape ordinary = {.root = 0, .block_bytes = BYTES};

void set_up(struct world *world)
{
    world_init(world, 1, 4, 4);
}

struct memory *memory_of(const struct tt_collective *collective)
{
    return &((struct request *)collective->owner)->memory;
}

struct tt_frame ask_like(const struct tt_collective *collective)
{
    return (struct tt_frame){.type = TT_FRAME_ASK, .body.ask.terms = collective->config.terms};
}

struct tt_frame fetch_of(uint32_t base, uint16_t count, uint64_t bits)
{
    struct tt_frame frame = {.type = TT_FRAME_FETCH, .body.fetch = {.slot = 3}};

    frame.body.fetch.window = (struct tt_window){.base = base, .count = count, .bits = {bits}};
    return frame;
}

struct tt_collective *receive_one(struct world *world, uint64_t now_ns, uint64_t place)
{
    struct tt_collective *collective = world_post(world, now_ns, from_0);
    const struct tt_action *keep;

    next_is_for(world, TT_ACTION_PUBLISH, collective);
    no_more(&world->script);
    memory_receive_all(memory_of(collective));
    world_tick(world, now_ns + 1);
    next_is_for(world, TT_ACTION_FREEZE, collective);
    no_more(&world->script);
    world_answer(world, now_ns + 2, TT_MEMBER_FROZEN, collective);
    keep = next_is(&world->script, TT_ACTION_KEEP);
    assert_int_equal(keep->body.keep.offset_bytes, place);
    assert_int_equal(keep->body.keep.length_bytes, BYTES);
    next_finishes(world, collective, TUTTI_OK, TT_RANK_NONE);
    no_more(&world->script);
    return collective;
}
