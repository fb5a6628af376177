/* SPDX-License-Identifier: BSD-3-Clause */
/* The fetch ring, the side that answers, and a whole ring of ranks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "fetch_world.h"

static struct tt_window window_of(uint32_t subgroup, uint32_t base, uint16_t count, uint64_t bits)
{
    return (struct tt_window){.subgroup = (uint16_t)subgroup, .base = base, .count = count, .bits[0] = bits};
}

static void next_tells(struct world *world, uint8_t slot, uint32_t base, uint64_t bits)
{
    const struct tt_frame *frame = next_sends(&world->script, TT_FRAME_AVAILABLE, RIGHT);

    assert_true(frame->source == 8 && frame->group == 77 && frame->sequence == 5);
    assert_int_equal(frame->body.available.slot, slot);
    assert_int_equal(frame->body.available.window.base, base);
    assert_int_equal(frame->body.available.window.bits[0], bits);
}

static void wants_are_answered_as_far_as_chunks_are_here_and_later_as_they_come(void **state)
{
    struct world world;
    struct tt_window window = window_of(0, 64, 20, 0xFF);

    (void)state;
    world_init(&world, &(struct shape){.size = 2, .block_bytes = 16 * 83 + 1}, TT_RANK_NONE); /* 84 chunks */
    memory_receive(&world.memory, 0, 64, 2);
    memory_receive(&world.memory, 0, 80, 4); /* not wanted */
    assert_true(world_want(&world, 3, &window));
    world_serve(&world);
    next_tells(&world, 3, 64, 0x03);
    no_more(&world.script);
    world_serve(&world);
    no_more(&world.script); /* nothing new */
    memory_receive(&world.memory, 0, 71, 1);
    world_serve(&world);
    next_tells(&world, 3, 64, 0x80);
    memory_receive(&world.memory, 0, 66, 5);
    world_serve(&world);
    next_tells(&world, 3, 64, 0x7C);
    no_more(&world.script);
    assert_int_equal(world.fetch.wanted_count, 0);
    assert_int_equal(world.fetch.served_bytes, 8 * 16);
    window = window_of(0, 64, 20, 1 << 19);
    assert_true(world_want(&world, 3, &window)); /* the slot is free again */
    world_serve(&world);
    next_tells(&world, 3, 64, 1 << 19);
    no_more(&world.script);
    assert_int_equal(world.fetch.served_bytes, 8 * 16 + 1); /* the last chunk has one byte */
}

static void own_chunks_are_told_only_once_they_are_in_place(void **state)
{
    struct world world;
    struct tt_window window = window_of(0, 0, 15, 0x7FFF);

    (void)state;
    world_init(&world, &(struct shape){.kind = TT_ALLGATHER, .rank = 1, .size = 3, .block_bytes = 16 * 5}, 1);
    tt_stream_mark(&world.memory.streams[0], 5, 5); /* as a reset does */
    memory_receive(&world.memory, 0, 4, 1);
    memory_receive(&world.memory, 0, 10, 1);
    assert_true(world_want(&world, 0, &window));
    world_serve(&world);
    next_tells(&world, 0, 0, 1 << 4 | 1 << 10);
    no_more(&world.script);
    world.fetch.own_ready = true;
    world_serve(&world);
    next_tells(&world, 0, 0, 0x1F << 5);
    no_more(&world.script);
}

static void own_chunks_in_the_middle_of_words_are_told_apart(void **state)
{
    struct world world;
    struct tt_window window = {
        .base = 0,
        .count = 300,
        .bits = {~UINT64_C(0), ~UINT64_C(0), ~UINT64_C(0), ~UINT64_C(0), (UINT64_C(1) << 44) - 1}};
    const struct tt_frame *frame;

    (void)state;
    world_init(&world, &(struct shape){.kind = TT_ALLGATHER, .rank = 1, .size = 3, .block_bytes = 16 * 100}, 1);
    memory_receive_all(&world.memory);
    assert_true(world_want(&world, 0, &window));
    world_serve(&world);
    frame = next_sends(&world.script, TT_FRAME_AVAILABLE, RIGHT);
    for (uint32_t psn = 0; psn < 300; psn++) {
        assert_int_equal(window_has(&frame->body.available.window, psn), psn < 100 || psn >= 200);
    }
    no_more(&world.script);
}

static void wants_that_contradict_the_layout_are_refused(void **state)
{
    struct world world;
    struct tt_window window;

    (void)state;
    world_init(&world, &(struct shape){.size = 2, .block_bytes = 16 * 200, .subgroups = 2}, TT_RANK_NONE);
    window = window_of(0, 0, 64, 1);
    assert_false(world_want(&world, TT_FETCH_SLOTS, &window));
    assert_false(world_want(&world, 255, &window));
    window = window_of(2, 0, 64, 1);
    assert_false(world_want(&world, 0, &window));
    window = window_of(0, 1, 63, 1); /* not at a word of the bitmap */
    assert_false(world_want(&world, 0, &window));
    window = window_of(0, 128, 64, 1); /* past the end */
    assert_false(world_want(&world, 0, &window));
    window = window_of(0, 0xFFFFFFC0, 64, 1); /* the end overflows */
    assert_false(world_want(&world, 0, &window));
    window = window_of(0, 64, 37, 1); /* 64 .. 100 of 100 */
    assert_false(world_want(&world, 0, &window));
    window = window_of(0, 0, 64, 0); /* would never be answered, and keep its slot */
    assert_false(world_want(&world, 0, &window));
    memory_receive_all(&world.memory);
    world_serve(&world);
    no_more(&world.script);
    window = window_of(0, 64, 36, 1);
    assert_true(world_want(&world, 0, &window));
}

static void a_slot_is_not_taken_twice(void **state)
{
    struct world world;
    struct tt_window window = window_of(0, 0, 10, 1), other = window_of(0, 0, 10, 2);

    (void)state;
    world_init(&world, &(struct shape){.size = 2, .block_bytes = 16 * 10}, TT_RANK_NONE);
    assert_true(world_want(&world, 4, &window));
    assert_false(world_want(&world, 4, &other));
    assert_true(world_want(&world, 5, &other));
    memory_receive_all(&world.memory);
    world_serve(&world);
    next_tells(&world, 4, 0, 1);
    next_tells(&world, 5, 0, 2);
    no_more(&world.script);
}

static void a_window_of_a_stripe_without_chunks_is_refused(void **state)
{
    struct world world;
    struct tt_window window = window_of(3, 0, 1, 1);

    (void)state;
    world_init(&world, &(struct shape){.size = 2, .block_bytes = 16 * 3, .subgroups = 4}, TT_RANK_NONE);
    assert_false(world_want(&world, 0, &window));
}

static void a_reset_after_a_run_that_missed_nothing_looks_at_everything_again(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, &(struct shape){.size = 2, .block_bytes = 16 * 10}, TT_RANK_NONE);
    memory_receive_all(&world.memory);
    assert_true(world_pump(&world));
    no_more(&world.script);
    world.fetch.own_ready = true;
    tt_fetch_reset(&world.fetch);
    tt_stream_reset(&world.memory.streams[0]);
    assert_false(world.fetch.own_ready);
    assert_false(world_pump(&world));
    next_sends(&world.script, TT_FRAME_FETCH, LEFT);
    no_more(&world.script);
}

static void a_reset_forgets_the_last_run(void **state)
{
    struct world world;
    struct tt_window window = window_of(0, 0, 10, 1);

    (void)state;
    world_init(&world, &(struct shape){.size = 2, .block_bytes = 16 * 10}, TT_RANK_NONE);
    world_want(&world, 0, &window);
    world_pump(&world);
    world.fetch.own_ready = true;
    tt_fetch_reset(&world.fetch);
    assert_int_equal(world.fetch.active_slots, 0);
    assert_int_equal(world.fetch.wanted_count, 0);
    assert_false(world.fetch.own_ready);
    assert_true(world_want(&world, 0, &window));
    world_pump(&world);
    next_sends(&world.script, TT_FRAME_FETCH, LEFT);
    no_more(&world.script);
}

/* --- A ring ------------------------------------------------------------------------------------------------------- */

enum { RANKS = 4, CHUNKS = 5000 };

struct ring {
    struct world worlds[RANKS];
    struct tt_random random;
};

/* Carries out the actions of one rank; gets are answered at once, frames reach the neighbour's machine. */
static void carry_out(struct ring *ring, uint32_t rank)
{
    struct script *script = &ring->worlds[rank].script;
    struct tt_action list[64];
    uint32_t count = script->actions.count;

    assert_true(count <= 64);
    memcpy(list, script->list, count * sizeof *list);
    for (uint32_t i = 0; i < count; i++) {
        if (list[i].type == TT_ACTION_GET) {
            const struct tt_stream *left = &ring->worlds[rank - 1].memory.streams[0];
            uint64_t first = list[i].body.get.offset_bytes / 16, chunks = (list[i].body.get.length_bytes + 15) / 16;

            for (uint64_t psn = first; psn < first + chunks; psn++) {
                assert_true(tt_stream_word(left, (uint32_t)psn / 64) >> (psn % 64) & 1); /* told before it was here */
            }
            world_got(&ring->worlds[rank], list[i].body.get.run);
        } else if (list[i].body.frame.type == TT_FRAME_FETCH) {
            assert_true(tt_fetch_wanted(&ring->worlds[rank - 1].fetch, &list[i].body.frame));
        } else {
            assert_true(world_tell(&ring->worlds[rank + 1], list[i].body.frame.body.available.slot,
                                   &list[i].body.frame.body.available.window));
        }
    }
}

static void holes_at_every_rank_are_filled_through_the_ring_from_the_root(void **state)
{
    static struct ring ring;
    bool done[RANKS] = {0};
    uint32_t steps = 0;

    (void)state;
    tt_random_init(&ring.random, 1234);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        struct world *world = &ring.worlds[rank];

        world_init(world, &(struct shape){.size = RANKS, .block_bytes = 16 * CHUNKS - 9}, rank == 0 ? 0 : TT_RANK_NONE);
        for (uint32_t psn = 0; psn < CHUNKS; psn++) {
            if (rank == 0 || tt_random_chance(&ring.random, 300000)) {
                memory_receive(&world->memory, 0, psn, 1);
            }
        }
        world->fetch.own_ready = rank == 0;
    }
    while (!done[0] || !done[1] || !done[2] || !done[3]) {
        uint32_t rank = (uint32_t)tt_random_below(&ring.random, RANKS);

        assert_true(++steps < 100000);
        done[rank] = world_pump(&ring.worlds[rank]);
        carry_out(&ring, rank);
        world_serve(&ring.worlds[rank]);
        carry_out(&ring, rank);
    }
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        for (uint32_t psn = 0; psn < CHUNKS; psn++) {
            assert_true(tt_stream_word(&ring.worlds[rank].memory.streams[0], psn / 64) >> (psn % 64) & 1);
        }
        assert_int_equal(ring.worlds[rank].fetch.wanted_count, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wants_are_answered_as_far_as_chunks_are_here_and_later_as_they_come),
        cmocka_unit_test(own_chunks_are_told_only_once_they_are_in_place),
        cmocka_unit_test(own_chunks_in_the_middle_of_words_are_told_apart),
        cmocka_unit_test(wants_that_contradict_the_layout_are_refused),
        cmocka_unit_test(a_slot_is_not_taken_twice),
        cmocka_unit_test(a_window_of_a_stripe_without_chunks_is_refused),
        cmocka_unit_test(a_reset_forgets_the_last_run),
        cmocka_unit_test(a_reset_after_a_run_that_missed_nothing_looks_at_everything_again),
        cmocka_unit_test(holes_at_every_rank_are_filled_through_the_ring_from_the_root),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
