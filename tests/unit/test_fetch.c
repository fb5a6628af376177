/* SPDX-License-Identifier: BSD-3-Clause */
/* The fetch ring, the side that asks: windows of holes, gets for runs of chunks, and answers that are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "fetch_world.h"

static uint32_t count_bits(const struct tt_window *window)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < TT_FETCH_WINDOW_WORDS; i++) {
        count += (uint32_t)__builtin_popcountll(window->bits[i]);
    }
    return count;
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

static void nothing_is_asked_for_when_nothing_is_missing(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, &(struct shape){.size = 2, .block_bytes = 16 * 3000, .subgroups = 3}, TT_RANK_NONE);
    memory_receive_all(&world.memory);
    assert_true(world_pump(&world));
    no_more(&world.script);
    world_init(&world, &(struct shape){.size = 2, .block_bytes = 0}, TT_RANK_NONE);
    assert_true(world_pump(&world));
    no_more(&world.script);
}

static void holes_are_asked_for_in_windows_of_1024(void **state)
{
    struct world world;
    struct tt_window window;

    (void)state;
    world_init(&world, &(struct shape){.size = 2, .block_bytes = 16 * 3000}, TT_RANK_NONE);
    memory_receive(&world.memory, 0, 1, 1000);
    memory_receive(&world.memory, 0, 2048, 951);
    assert_false(world_pump(&world));
    window = next_asks(&world, 0, 0, 0, 1024, 24);
    assert_true(window_has(&window, 0) && !window_has(&window, 1) && !window_has(&window, 1000) &&
                window_has(&window, 1001));
    next_asks(&world, 1, 0, 1024, 1024, 1024);
    window = next_asks(&world, 2, 0, 2048, 952, 1);
    assert_true(window_has(&window, 951));
    no_more(&world.script);
    assert_false(world_pump(&world)); /* each only once */
    no_more(&world.script);
}

static void windows_without_holes_are_left_out(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, &(struct shape){.size = 2, .block_bytes = 16 * 4096}, TT_RANK_NONE);
    memory_receive(&world.memory, 0, 0, 2048);
    memory_receive(&world.memory, 0, 3072, 1024);
    assert_false(world_pump(&world));
    next_asks(&world, 0, 0, 2048, 1024, 1024);
    no_more(&world.script);
}

static void subgroups_follow_one_another_and_empty_ones_are_skipped(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, &(struct shape){.size = 2, .block_bytes = 16 * 3 + 5, .subgroups = 4}, TT_RANK_NONE);
    memory_receive(&world.memory, 1, 0, 1);
    assert_false(world_pump(&world));
    next_asks(&world, 0, 0, 0, 1, 1);
    next_asks(&world, 1, 2, 0, 1, 1);
    next_asks(&world, 2, 3, 0, 1, 1);
    no_more(&world.script);
    world_init(&world, &(struct shape){.size = 2, .block_bytes = 16 * 2, .subgroups = 4}, TT_RANK_NONE);
    assert_false(world_pump(&world));
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
    world_init(&world, &(struct shape){.size = 2, .block_bytes = 16 * 10 * 1024}, TT_RANK_NONE);
    assert_false(world_pump(&world));
    for (uint8_t i = 0; i < 8; i++) {
        windows[i] = next_asks(&world, i, 0, i * 1024U, 1024, 1024);
    }
    no_more(&world.script);
    assert_true(world_tell(&world, 5, &windows[5]));
    assert_false(world_pump(&world));
    run = next_gets(&world, 5 * 1024 * 16, 1024 * 16);
    no_more(&world.script);
    world_got(&world, run);
    assert_false(world_pump(&world));
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
    world_init(&world, &(struct shape){.kind = TT_ALLGATHER, .size = 3, .block_bytes = 67}, TT_RANK_NONE);
    assert_false(world_pump(&world));
    window = next_asks(&world, 0, 0, 0, 15, 15);
    assert_true(world_tell(&world, 0, &window));
    assert_false(world_pump(&world));
    world_got(&world, next_gets(&world, 0, 67));
    world_got(&world, next_gets(&world, 67, 67));
    assert_int_equal(world.fetch.active_slots, 1);
    world_got(&world, next_gets(&world, 134, 67));
    no_more(&world.script);
    assert_int_equal(tt_stream_word(&world.memory.streams[0], 0), 0x7FFF);
    assert_true(world_pump(&world));
    no_more(&world.script);
}

static void runs_end_at_the_ends_of_a_subgroups_stripe(void **state)
{
    struct world world;
    struct tt_window window;

    (void)state;
    world_init(&world, &(struct shape){.kind = TT_ALLGATHER, .size = 2, .block_bytes = 67, .subgroups = 2},
               TT_RANK_NONE);
    assert_false(world_pump(&world));
    window = next_asks(&world, 0, 0, 0, 6, 6);
    assert_true(world_tell(&world, 0, &window));
    window = next_asks(&world, 1, 1, 0, 4, 4);
    assert_true(world_tell(&world, 1, &window));
    world_pump(&world);
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
    world_init(&world, &(struct shape){.size = 2, .block_bytes = 65536 * 9 + 1, .chunk_bytes = 65536}, TT_RANK_NONE);
    world_pump(&world);
    window = next_asks(&world, 0, 0, 0, 10, 10);
    assert_true(world_tell(&world, 0, &window));
    world_pump(&world);
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
    world_init(&world, &(struct shape){.size = 2, .block_bytes = 1200000, .chunk_bytes = 524288}, TT_RANK_NONE);
    world_pump(&world);
    window = next_asks(&world, 0, 0, 0, 3, 3);
    assert_true(world_tell(&world, 0, &window));
    world_pump(&world);
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
    world_init(&world, &(struct shape){.size = 2, .block_bytes = 16 * 200}, TT_RANK_NONE);
    world_pump(&world);
    window = next_asks(&world, 0, 0, 0, 200, 200);
    part = window;
    memset(part.bits, 0, sizeof part.bits);
    part.bits[0] = UINT64_C(0xC000000000000001); /* 0, 62, 63 */
    part.bits[1] = 3;                            /* 64, 65 */
    assert_true(world_tell(&world, 0, &part));
    assert_false(world_pump(&world));
    world_got(&world, next_gets(&world, 0, 16));
    world_got(&world, next_gets(&world, 62 * 16, 4 * 16)); /* across words of the bitmap */
    no_more(&world.script);
    assert_false(world_pump(&world));
    no_more(&world.script);
    for (uint32_t i = 0; i < TT_FETCH_WINDOW_WORDS; i++) {
        part.bits[i] = window.bits[i] & ~part.bits[i];
    }
    assert_true(world_tell(&world, 0, &part));
    assert_false(world_pump(&world));
    world_got(&world, next_gets(&world, 16, 61 * 16));
    world_got(&world, next_gets(&world, 66 * 16, 134 * 16));
    no_more(&world.script);
    assert_true(world_pump(&world));
    assert_int_equal(world.fetch.fetched_chunks, 200);
}

static void at_most_32_gets_are_under_way(void **state)
{
    struct world world;
    struct tt_window window;
    uint32_t runs[32], seen = 0;

    (void)state;
    world_init(&world, &(struct shape){.size = 2, .block_bytes = 16 * 80}, TT_RANK_NONE);
    for (uint32_t psn = 1; psn < 80; psn += 2) {
        memory_receive(&world.memory, 0, psn, 1);
    }
    world_pump(&world);
    window = next_asks(&world, 0, 0, 0, 80, 40);
    assert_true(world_tell(&world, 0, &window));
    world_pump(&world);
    for (uint32_t i = 0; i < 32; i++) {
        runs[i] = next_gets(&world, i * 32, 16);
        assert_true(runs[i] < TT_FETCH_RUNS);
        assert_int_equal(seen >> runs[i] & 1, 0);
        seen |= 1U << runs[i];
    }
    no_more(&world.script);
    world_got(&world, runs[9]);
    world_pump(&world);
    assert_int_equal(next_gets(&world, 32 * 32, 16), runs[9]);
    no_more(&world.script);
}

static void a_get_that_fails_marks_nothing_and_ends_its_run(void **state)
{
    struct world world;
    struct tt_window window;
    uint32_t run;

    (void)state;
    world_init(&world, &(struct shape){.size = 2, .block_bytes = 64}, TT_RANK_NONE);
    world_pump(&world);
    window = next_asks(&world, 0, 0, 0, 4, 4);
    world_tell(&world, 0, &window);
    world_pump(&world);
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
    world_init(&world, &(struct shape){.size = 2, .block_bytes = 64}, TT_RANK_NONE);
    world_pump(&world);
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
    world_init(&world, &(struct shape){.size = 2, .block_bytes = 16 * 100}, TT_RANK_NONE);
    memory_receive(&world.memory, 0, 0, 1);
    world_pump(&world);
    window = next_asks(&world, 0, 0, 0, 100, 99);
    assert_false(world_tell(&world, TT_FETCH_SLOTS, &window));
    assert_false(world_tell(&world, 255, &window));
    assert_false(world_tell(&world, 1, &window)); /* nothing is under request there */
    wrong = window;
    wrong.base = 64;
    assert_false(world_tell(&world, 0, &wrong));
    wrong = window;
    wrong.count = 99;
    assert_false(world_tell(&world, 0, &wrong));
    wrong = window;
    wrong.subgroup = 1;
    assert_false(world_tell(&world, 0, &wrong));
    wrong = window;
    wrong.bits[0] |= 1; /* received by multicast */
    assert_false(world_tell(&world, 0, &wrong));
    world_pump(&world);
    no_more(&world.script);
    assert_true(world_tell(&world, 0, &window));
    world_pump(&world);
    world_got(&world, next_gets(&world, 16, 99 * 16));
    assert_false(world_tell(&world, 0, &window)); /* it has it all */
    assert_true(world_pump(&world));
    no_more(&world.script);
}

/* Or they would be read, and counted, twice. */
static void word_of_chunks_that_are_being_read_is_refused(void **state)
{
    struct world world;
    struct tt_window window, part;
    uint32_t run;

    (void)state;
    world_init(&world, &(struct shape){.size = 2, .block_bytes = 16 * 10}, TT_RANK_NONE);
    world_pump(&world);
    window = part = next_asks(&world, 0, 0, 0, 10, 10);
    part.bits[0] = 7;
    assert_true(world_tell(&world, 0, &part));
    assert_false(world_tell(&world, 0, &part)); /* not read yet */
    world_pump(&world);
    run = next_gets(&world, 0, 3 * 16);
    assert_false(world_tell(&world, 0, &part));
    assert_false(world_tell(&world, 0, &window));
    world_pump(&world);
    no_more(&world.script);
    world_got(&world, run);
    assert_int_equal(world.fetch.fetched_chunks, 3);
}

static void word_of_chunks_that_were_fetched_already_is_refused(void **state)
{
    struct world world;
    struct tt_window window, part;

    (void)state;
    world_init(&world, &(struct shape){.size = 2, .block_bytes = 16 * 10}, TT_RANK_NONE);
    world_pump(&world);
    part = window = next_asks(&world, 0, 0, 0, 10, 10);
    part.bits[0] = 1;
    assert_true(world_tell(&world, 0, &part));
    world_pump(&world);
    world_got(&world, next_gets(&world, 0, 16));
    assert_false(world_tell(&world, 0, &part));
    assert_false(world_tell(&world, 0, &window));
    world_pump(&world);
    no_more(&world.script);
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
        cmocka_unit_test(word_of_chunks_that_are_being_read_is_refused),
        cmocka_unit_test(word_of_chunks_that_were_fetched_already_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
