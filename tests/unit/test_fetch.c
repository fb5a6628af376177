/* SPDX-License-Identifier: BSD-3-Clause */
/* The fetch ring: what one rank asks its left neighbour for, and what it answers its right one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "machine.h"
#include "proto/fetch.h"

enum { LEFT = 7, RIGHT = 9 };
#define ADDRESS UINT64_C(0x7F0000000000)

struct world {
    struct memory memory;
    struct tt_fetch fetch;
    struct tt_frame template;
    struct script script;
};

static void set_up(struct world *world, const struct shape *shape, uint32_t own_root_index)
{
    memory_init(&world->memory, shape);
    script_init(&world->script, 0);
    world->template = (struct tt_frame){.source = 8, .group = 77, .sequence = 5};
    tt_fetch_init(&world->fetch, world->memory.streams, world->memory.config.terms.subgroups, own_root_index);
}

static bool pump(struct world *world)
{
    script_clear(&world->script);
    return tt_fetch_pump(&world->fetch, &world->template, LEFT, NULL, &world->script.actions);
}

static void serve(struct world *world)
{
    script_clear(&world->script);
    tt_fetch_serve(&world->fetch, &world->template, RIGHT, NULL, &world->script.actions);
}

static uint32_t count_bits(const struct tt_window *window)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < TT_FETCH_WINDOW_WORDS; i++) {
        count += (uint32_t)__builtin_popcountll(window->bits[i]);
    }
    return count;
}

static bool has_bit(const struct tt_window *window, uint32_t index)
{
    return window->bits[index / 64] >> (index % 64) & 1;
}

/* The next action must ask for this window, with this many holes. */
static struct tt_window next_asks(struct world *world, uint8_t slot, uint32_t subgroup, uint32_t base, uint32_t count,
                                  uint32_t holes)
{
    const struct tt_frame *frame = next_sends(&world->script, TT_FRAME_FETCH, LEFT);

    assert_true(frame->source == 8 && frame->group == 77 && frame->sequence == 5);
    assert_int_equal(frame->body.fetch.slot, slot);
    assert_int_equal(frame->body.fetch.window.subgroup, subgroup);
    assert_int_equal(frame->body.fetch.window.base, base);
    assert_int_equal(frame->body.fetch.window.count, count);
    assert_int_equal(count_bits(&frame->body.fetch.window), holes);
    return frame->body.fetch.window;
}

static uint32_t next_gets(struct world *world, uint64_t offset_bytes, uint64_t length_bytes)
{
    const struct tt_action *action = next_is(&world->script, TT_ACTION_GET);

    assert_int_equal(action->to, LEFT);
    assert_int_equal(action->body.get.offset_bytes, offset_bytes);
    assert_int_equal(action->body.get.length_bytes, length_bytes);
    assert_true(action->body.get.remote_address == ADDRESS + offset_bytes);
    assert_int_equal(action->body.get.key_bytes, 3);
    assert_memory_equal(action->body.get.key, "abc", 3);
    return action->body.get.run;
}

static struct tt_frame available_frame(uint8_t slot, const struct tt_window *window)
{
    return (struct tt_frame){
        .type = TT_FRAME_AVAILABLE,
        .source = LEFT,
        .body.available = {
            .slot = slot, .window = *window, .address = ADDRESS, .key_bytes = 3, .key = (const uint8_t *)"abc"}};
}

static bool tell(struct world *world, uint8_t slot, const struct tt_window *window)
{
    struct tt_frame frame = available_frame(slot, window);

    return tt_fetch_available(&world->fetch, &frame);
}

static bool want(struct world *world, uint8_t slot, const struct tt_window *window)
{
    struct tt_frame frame = {.type = TT_FRAME_FETCH, .source = RIGHT, .body.fetch = {.slot = slot, .window = *window}};

    return tt_fetch_wanted(&world->fetch, &frame);
}

static void got(struct world *world, uint32_t run)
{
    assert_true(tt_fetch_got(&world->fetch, run, TUTTI_OK));
}

/* --- Asking ------------------------------------------------------------------------------------------------------- */

static void nothing_is_asked_for_when_nothing_is_missing(void **state)
{
    struct world world;

    (void)state;
    set_up(&world, &(struct shape){.size = 2, .block_bytes = 16 * 3000, .subgroups = 3}, TT_RANK_NONE);
    memory_receive_all(&world.memory);
    assert_true(pump(&world));
    no_more(&world.script);
    set_up(&world, &(struct shape){.size = 2, .block_bytes = 0}, TT_RANK_NONE);
    assert_true(pump(&world));
    no_more(&world.script);
}

static void holes_are_asked_for_in_windows_of_1024(void **state)
{
    struct world world;
    struct tt_window window;

    (void)state;
    set_up(&world, &(struct shape){.size = 2, .block_bytes = 16 * 3000}, TT_RANK_NONE);
    memory_receive(&world.memory, 0, 1, 1000);
    memory_receive(&world.memory, 0, 2048, 951);
    assert_false(pump(&world));
    window = next_asks(&world, 0, 0, 0, 1024, 24);
    assert_true(has_bit(&window, 0) && !has_bit(&window, 1) && !has_bit(&window, 1000) && has_bit(&window, 1001));
    next_asks(&world, 1, 0, 1024, 1024, 1024);
    window = next_asks(&world, 2, 0, 2048, 952, 1);
    assert_true(has_bit(&window, 951));
    no_more(&world.script);
    assert_false(pump(&world)); /* each only once */
    no_more(&world.script);
}

static void windows_without_holes_are_left_out(void **state)
{
    struct world world;

    (void)state;
    set_up(&world, &(struct shape){.size = 2, .block_bytes = 16 * 4096}, TT_RANK_NONE);
    memory_receive(&world.memory, 0, 0, 2048);
    memory_receive(&world.memory, 0, 3072, 1024);
    assert_false(pump(&world));
    next_asks(&world, 0, 0, 2048, 1024, 1024);
    no_more(&world.script);
}

static void subgroups_follow_one_another_and_empty_ones_are_skipped(void **state)
{
    struct world world;

    (void)state;
    set_up(&world, &(struct shape){.size = 2, .block_bytes = 16 * 3 + 5, .subgroups = 4}, TT_RANK_NONE);
    memory_receive(&world.memory, 1, 0, 1);
    assert_false(pump(&world));
    next_asks(&world, 0, 0, 0, 1, 1);
    next_asks(&world, 1, 2, 0, 1, 1);
    next_asks(&world, 2, 3, 0, 1, 1);
    no_more(&world.script);
    set_up(&world, &(struct shape){.size = 2, .block_bytes = 16 * 2, .subgroups = 4}, TT_RANK_NONE);
    assert_false(pump(&world));
    next_asks(&world, 0, 0, 0, 1, 1);
    next_asks(&world, 1, 1, 0, 1, 1);
    no_more(&world.script); /* subgroups 2 and 3 carry nothing */
}

static void eight_windows_are_under_request_and_the_lowest_next_one_takes_a_free_slot(void **state)
{
    struct world world;
    struct tt_window windows[8];
    uint32_t run;

    (void)state;
    set_up(&world, &(struct shape){.size = 2, .block_bytes = 16 * 10 * 1024}, TT_RANK_NONE);
    assert_false(pump(&world));
    for (uint8_t i = 0; i < 8; i++) {
        windows[i] = next_asks(&world, i, 0, i * 1024U, 1024, 1024);
    }
    no_more(&world.script);
    assert_true(tell(&world, 5, &windows[5]));
    assert_false(pump(&world));
    run = next_gets(&world, 5 * 1024 * 16, 1024 * 16);
    no_more(&world.script);
    got(&world, run);
    assert_false(pump(&world));
    next_asks(&world, 5, 0, 8 * 1024, 1024, 1024);
    no_more(&world.script);
    assert_int_equal(world.fetch.fetched_chunks, 1024);
}

/* Three roots' blocks of 5 chunks, the last one of 3 bytes: three places in the buffer. */
static void runs_end_at_the_ends_of_blocks(void **state)
{
    struct world world;
    struct tt_window window;

    (void)state;
    set_up(&world, &(struct shape){.kind = TT_ALLGATHER, .size = 3, .block_bytes = 67}, TT_RANK_NONE);
    assert_false(pump(&world));
    window = next_asks(&world, 0, 0, 0, 15, 15);
    assert_true(tell(&world, 0, &window));
    assert_false(pump(&world));
    got(&world, next_gets(&world, 0, 67));
    got(&world, next_gets(&world, 67, 67));
    assert_int_equal(world.fetch.active_slots, 1);
    got(&world, next_gets(&world, 134, 67));
    no_more(&world.script);
    assert_int_equal(tt_stream_word(&world.memory.streams[0], 0), 0x7FFF);
    assert_true(pump(&world));
    no_more(&world.script);
}

static void runs_end_at_the_ends_of_a_subgroups_stripe(void **state)
{
    struct world world;
    struct tt_window window;

    (void)state;
    set_up(&world, &(struct shape){.kind = TT_ALLGATHER, .size = 2, .block_bytes = 67, .subgroups = 2}, TT_RANK_NONE);
    assert_false(pump(&world));
    window = next_asks(&world, 0, 0, 0, 6, 6);
    assert_true(tell(&world, 0, &window));
    window = next_asks(&world, 1, 1, 0, 4, 4);
    assert_true(tell(&world, 1, &window));
    pump(&world);
    next_gets(&world, 0, 48);
    next_gets(&world, 67, 48);
    next_gets(&world, 48, 19);
    next_gets(&world, 67 + 48, 19);
    no_more(&world.script);
}

static void runs_end_at_256_kib(void **state)
{
    struct world world;
    struct tt_window window;

    (void)state;
    set_up(&world, &(struct shape){.size = 2, .block_bytes = 65536 * 9 + 1, .chunk_bytes = 65536}, TT_RANK_NONE);
    pump(&world);
    window = next_asks(&world, 0, 0, 0, 10, 10);
    assert_true(tell(&world, 0, &window));
    pump(&world);
    next_gets(&world, 0, 262144);
    next_gets(&world, 262144, 262144);
    next_gets(&world, 524288, 65537);
    no_more(&world.script);
}

static void a_chunk_above_256_kib_is_a_run_of_its_own(void **state)
{
    struct world world;
    struct tt_window window;

    (void)state;
    set_up(&world, &(struct shape){.size = 2, .block_bytes = 1200000, .chunk_bytes = 524288}, TT_RANK_NONE);
    pump(&world);
    window = next_asks(&world, 0, 0, 0, 3, 3);
    assert_true(tell(&world, 0, &window));
    pump(&world);
    next_gets(&world, 0, 524288);
    next_gets(&world, 524288, 524288);
    next_gets(&world, 1048576, 151424);
    no_more(&world.script);
}

static void what_is_available_is_read_and_the_rest_later(void **state)
{
    struct world world;
    struct tt_window window, part;

    (void)state;
    set_up(&world, &(struct shape){.size = 2, .block_bytes = 16 * 200}, TT_RANK_NONE);
    pump(&world);
    window = next_asks(&world, 0, 0, 0, 200, 200);
    part = window;
    memset(part.bits, 0, sizeof part.bits);
    part.bits[0] = UINT64_C(0xC000000000000001); /* 0, 62, 63 */
    part.bits[1] = 3;                            /* 64, 65 */
    assert_true(tell(&world, 0, &part));
    assert_false(pump(&world));
    got(&world, next_gets(&world, 0, 16));
    got(&world, next_gets(&world, 62 * 16, 4 * 16)); /* across words of the bitmap */
    no_more(&world.script);
    assert_false(pump(&world));
    no_more(&world.script);
    for (uint32_t i = 0; i < TT_FETCH_WINDOW_WORDS; i++) {
        part.bits[i] = window.bits[i] & ~part.bits[i];
    }
    assert_true(tell(&world, 0, &part));
    assert_false(pump(&world));
    got(&world, next_gets(&world, 16, 61 * 16));
    got(&world, next_gets(&world, 66 * 16, 134 * 16));
    no_more(&world.script);
    assert_true(pump(&world));
    assert_int_equal(world.fetch.fetched_chunks, 200);
}

static void at_most_32_gets_are_under_way(void **state)
{
    struct world world;
    struct tt_window window;
    uint32_t runs[32], seen = 0;

    (void)state;
    set_up(&world, &(struct shape){.size = 2, .block_bytes = 16 * 80}, TT_RANK_NONE);
    for (uint32_t psn = 1; psn < 80; psn += 2) {
        memory_receive(&world.memory, 0, psn, 1);
    }
    pump(&world);
    window = next_asks(&world, 0, 0, 0, 80, 40);
    assert_true(tell(&world, 0, &window));
    pump(&world);
    for (uint32_t i = 0; i < 32; i++) {
        runs[i] = next_gets(&world, i * 32, 16);
        assert_true(runs[i] < TT_FETCH_RUNS);
        assert_int_equal(seen >> runs[i] & 1, 0);
        seen |= 1U << runs[i];
    }
    no_more(&world.script);
    got(&world, runs[9]);
    pump(&world);
    assert_int_equal(next_gets(&world, 32 * 32, 16), runs[9]);
    no_more(&world.script);
}

static void a_get_that_fails_marks_nothing_and_ends_its_run(void **state)
{
    struct world world;
    struct tt_window window;
    uint32_t run;

    (void)state;
    set_up(&world, &(struct shape){.size = 2, .block_bytes = 64}, TT_RANK_NONE);
    pump(&world);
    window = next_asks(&world, 0, 0, 0, 4, 4);
    tell(&world, 0, &window);
    pump(&world);
    run = next_gets(&world, 0, 64);
    assert_int_equal(world.fetch.active_runs, 1);
    assert_true(tt_fetch_got(&world.fetch, run, TUTTI_ERR_PEER_FAILED));
    assert_int_equal(world.fetch.active_runs, 0);
    assert_int_equal(world.fetch.active_slots, 1);
    assert_int_equal(world.fetch.fetched_chunks, 0);
    assert_int_equal(tt_stream_word(&world.memory.streams[0], 0), 0);
}

static void answers_to_gets_that_were_never_started_are_refused(void **state)
{
    struct world world;

    (void)state;
    set_up(&world, &(struct shape){.size = 2, .block_bytes = 64}, TT_RANK_NONE);
    pump(&world);
    assert_false(tt_fetch_got(&world.fetch, 0, TUTTI_OK));
    assert_false(tt_fetch_got(&world.fetch, TT_FETCH_RUNS, TUTTI_OK));
    assert_false(tt_fetch_got(&world.fetch, 0xFFFFFFFF, TUTTI_OK));
    assert_int_equal(tt_stream_word(&world.memory.streams[0], 0), 0);
}

static void word_of_what_was_not_asked_for_is_refused(void **state)
{
    struct world world;
    struct tt_window window, wrong;

    (void)state;
    set_up(&world, &(struct shape){.size = 2, .block_bytes = 16 * 100}, TT_RANK_NONE);
    memory_receive(&world.memory, 0, 0, 1);
    pump(&world);
    window = next_asks(&world, 0, 0, 0, 100, 99);
    assert_false(tell(&world, TT_FETCH_SLOTS, &window));
    assert_false(tell(&world, 255, &window));
    assert_false(tell(&world, 1, &window)); /* nothing is under request there */
    wrong = window;
    wrong.base = 64;
    assert_false(tell(&world, 0, &wrong));
    wrong = window;
    wrong.count = 99;
    assert_false(tell(&world, 0, &wrong));
    wrong = window;
    wrong.subgroup = 1;
    assert_false(tell(&world, 0, &wrong));
    wrong = window;
    wrong.bits[0] |= 1; /* received by multicast */
    assert_false(tell(&world, 0, &wrong));
    pump(&world);
    no_more(&world.script);
    assert_true(tell(&world, 0, &window));
    pump(&world);
    got(&world, next_gets(&world, 16, 99 * 16));
    assert_false(tell(&world, 0, &window)); /* it has it all */
    assert_true(pump(&world));
    no_more(&world.script);
}

static void word_of_chunks_that_were_fetched_already_is_refused(void **state)
{
    struct world world;
    struct tt_window window, part;

    (void)state;
    set_up(&world, &(struct shape){.size = 2, .block_bytes = 16 * 10}, TT_RANK_NONE);
    pump(&world);
    part = window = next_asks(&world, 0, 0, 0, 10, 10);
    part.bits[0] = 1;
    assert_true(tell(&world, 0, &part));
    pump(&world);
    got(&world, next_gets(&world, 0, 16));
    assert_false(tell(&world, 0, &part));
    assert_false(tell(&world, 0, &window));
    pump(&world);
    no_more(&world.script);
}

/* --- Answering ---------------------------------------------------------------------------------------------------- */

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
    set_up(&world, &(struct shape){.size = 2, .block_bytes = 16 * 83 + 1}, TT_RANK_NONE); /* 84 chunks */
    memory_receive(&world.memory, 0, 64, 2);
    memory_receive(&world.memory, 0, 80, 4); /* not wanted */
    assert_true(want(&world, 3, &window));
    serve(&world);
    next_tells(&world, 3, 64, 0x03);
    no_more(&world.script);
    serve(&world);
    no_more(&world.script); /* nothing new */
    memory_receive(&world.memory, 0, 71, 1);
    serve(&world);
    next_tells(&world, 3, 64, 0x80);
    memory_receive(&world.memory, 0, 66, 5);
    serve(&world);
    next_tells(&world, 3, 64, 0x7C);
    no_more(&world.script);
    assert_int_equal(world.fetch.wanted_count, 0);
    assert_int_equal(world.fetch.served_bytes, 8 * 16);
    window = window_of(0, 64, 20, 1 << 19);
    assert_true(want(&world, 3, &window)); /* the slot is free again */
    serve(&world);
    next_tells(&world, 3, 64, 1 << 19);
    no_more(&world.script);
    assert_int_equal(world.fetch.served_bytes, 8 * 16 + 1); /* the last chunk has one byte */
}

static void own_chunks_are_told_only_once_they_are_in_place(void **state)
{
    struct world world;
    struct tt_window window = window_of(0, 0, 15, 0x7FFF);

    (void)state;
    set_up(&world, &(struct shape){.kind = TT_ALLGATHER, .rank = 1, .size = 3, .block_bytes = 16 * 5}, 1);
    tt_stream_mark(&world.memory.streams[0], 5, 5); /* as a reset does */
    memory_receive(&world.memory, 0, 4, 1);
    memory_receive(&world.memory, 0, 10, 1);
    assert_true(want(&world, 0, &window));
    serve(&world);
    next_tells(&world, 0, 0, 1 << 4 | 1 << 10);
    no_more(&world.script);
    world.fetch.own_ready = true;
    serve(&world);
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
    set_up(&world, &(struct shape){.kind = TT_ALLGATHER, .rank = 1, .size = 3, .block_bytes = 16 * 100}, 1);
    memory_receive_all(&world.memory);
    assert_true(want(&world, 0, &window));
    serve(&world);
    frame = next_sends(&world.script, TT_FRAME_AVAILABLE, RIGHT);
    for (uint32_t psn = 0; psn < 300; psn++) {
        assert_int_equal(has_bit(&frame->body.available.window, psn), psn < 100 || psn >= 200);
    }
    no_more(&world.script);
}

static void wants_that_contradict_the_layout_are_refused(void **state)
{
    struct world world;
    struct tt_window window;

    (void)state;
    set_up(&world, &(struct shape){.size = 2, .block_bytes = 16 * 200, .subgroups = 2}, TT_RANK_NONE);
    window = window_of(0, 0, 64, 1);
    assert_false(want(&world, TT_FETCH_SLOTS, &window));
    assert_false(want(&world, 255, &window));
    window = window_of(2, 0, 64, 1);
    assert_false(want(&world, 0, &window));
    window = window_of(0, 1, 63, 1); /* not at a word of the bitmap */
    assert_false(want(&world, 0, &window));
    window = window_of(0, 128, 64, 1); /* past the end */
    assert_false(want(&world, 0, &window));
    window = window_of(0, 0xFFFFFFC0, 64, 1); /* the end overflows */
    assert_false(want(&world, 0, &window));
    window = window_of(0, 64, 37, 1); /* 64 .. 100 of 100 */
    assert_false(want(&world, 0, &window));
    window = window_of(0, 0, 64, 0); /* would never be answered, and keep its slot */
    assert_false(want(&world, 0, &window));
    memory_receive_all(&world.memory);
    serve(&world);
    no_more(&world.script);
    window = window_of(0, 64, 36, 1);
    assert_true(want(&world, 0, &window));
}

static void a_slot_is_not_taken_twice(void **state)
{
    struct world world;
    struct tt_window window = window_of(0, 0, 10, 1), other = window_of(0, 0, 10, 2);

    (void)state;
    set_up(&world, &(struct shape){.size = 2, .block_bytes = 16 * 10}, TT_RANK_NONE);
    assert_true(want(&world, 4, &window));
    assert_false(want(&world, 4, &other));
    assert_true(want(&world, 5, &other));
    memory_receive_all(&world.memory);
    serve(&world);
    next_tells(&world, 4, 0, 1);
    next_tells(&world, 5, 0, 2);
    no_more(&world.script);
}

static void a_window_of_a_stripe_without_chunks_is_refused(void **state)
{
    struct world world;
    struct tt_window window = window_of(3, 0, 1, 1);

    (void)state;
    set_up(&world, &(struct shape){.size = 2, .block_bytes = 16 * 3, .subgroups = 4}, TT_RANK_NONE);
    assert_false(want(&world, 0, &window));
}

static void a_reset_forgets_the_last_run(void **state)
{
    struct world world;
    struct tt_window window = window_of(0, 0, 10, 1);

    (void)state;
    set_up(&world, &(struct shape){.size = 2, .block_bytes = 16 * 10}, TT_RANK_NONE);
    want(&world, 0, &window);
    pump(&world);
    world.fetch.own_ready = true;
    tt_fetch_reset(&world.fetch);
    assert_int_equal(world.fetch.active_slots, 0);
    assert_int_equal(world.fetch.wanted_count, 0);
    assert_false(world.fetch.own_ready);
    assert_true(want(&world, 0, &window));
    pump(&world);
    next_asks(&world, 0, 0, 0, 10, 10);
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
            got(&ring->worlds[rank], list[i].body.get.run);
        } else if (list[i].body.frame.type == TT_FRAME_FETCH) {
            assert_true(tt_fetch_wanted(&ring->worlds[rank - 1].fetch, &list[i].body.frame));
        } else {
            struct tt_frame frame =
                available_frame(list[i].body.frame.body.available.slot, &list[i].body.frame.body.available.window);

            assert_true(tt_fetch_available(&ring->worlds[rank + 1].fetch, &frame));
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

        set_up(world, &(struct shape){.size = RANKS, .block_bytes = 16 * CHUNKS - 9}, rank == 0 ? 0 : TT_RANK_NONE);
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
        done[rank] = pump(&ring.worlds[rank]);
        carry_out(&ring, rank);
        serve(&ring.worlds[rank]);
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
        cmocka_unit_test(nothing_is_asked_for_when_nothing_is_missing),
        cmocka_unit_test(holes_are_asked_for_in_windows_of_1024),
        cmocka_unit_test(windows_without_holes_are_left_out),
        cmocka_unit_test(subgroups_follow_one_another_and_empty_ones_are_skipped),
        cmocka_unit_test(eight_windows_are_under_request_and_the_lowest_next_one_takes_a_free_slot),
        cmocka_unit_test(runs_end_at_the_ends_of_blocks),
        cmocka_unit_test(runs_end_at_the_ends_of_a_subgroups_stripe),
        cmocka_unit_test(runs_end_at_256_kib),
        cmocka_unit_test(a_chunk_above_256_kib_is_a_run_of_its_own),
        cmocka_unit_test(what_is_available_is_read_and_the_rest_later),
        cmocka_unit_test(at_most_32_gets_are_under_way),
        cmocka_unit_test(a_get_that_fails_marks_nothing_and_ends_its_run),
        cmocka_unit_test(answers_to_gets_that_were_never_started_are_refused),
        cmocka_unit_test(word_of_what_was_not_asked_for_is_refused),
        cmocka_unit_test(word_of_chunks_that_were_fetched_already_is_refused),
        cmocka_unit_test(wants_are_answered_as_far_as_chunks_are_here_and_later_as_they_come),
        cmocka_unit_test(own_chunks_are_told_only_once_they_are_in_place),
        cmocka_unit_test(own_chunks_in_the_middle_of_words_are_told_apart),
        cmocka_unit_test(wants_that_contradict_the_layout_are_refused),
        cmocka_unit_test(a_slot_is_not_taken_twice),
        cmocka_unit_test(a_window_of_a_stripe_without_chunks_is_refused),
        cmocka_unit_test(a_reset_forgets_the_last_run),
        cmocka_unit_test(holes_at_every_rank_are_filled_through_the_ring_from_the_root),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
