/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The collective machine where multicast does not reach everybody any more: who is deaf says so with its GATHER, is
 * told that the barrier is over by OPEN, and reads from its left neighbour at once; if all are, nothing is multicast.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "collective_world.h"
#include "proto/sequencer.h"

enum { CHUNKS = RECEIVER_BYTES / 16 };

/* Starts it at time 0, on a rank that hears nothing. */
static void start_deaf(struct world *world, const struct shape *shape)
{
    world_init(world, shape);
    world->collective.receiving.deaf = true;
    assert_true(world_step(world, TT_EVENT_START, 0));
    next_is(&world->script, TT_ACTION_PUBLISH);
}

static struct tt_frame open_frame(bool known, bool all_deaf)
{
    struct tt_frame frame = {.type = TT_FRAME_OPEN, .body.open = {.known = known, .least = tt_release_of(3)}};

    frame.body.open.least.some_deaf = true;
    frame.body.open.least.all_deaf = all_deaf;
    return frame;
}

static void hear_deaf_child(struct world *world, uint64_t now_ns, uint32_t source, bool all_deaf)
{
    struct tt_frame frame = {.type = TT_FRAME_GATHER,
                             .body.gather = {.terms = world->memory.config.terms, .least = tt_release_of(0)}};

    frame.body.gather.least.some_deaf = true;
    frame.body.gather.least.all_deaf = all_deaf;
    assert_true(world_hear_frame(world, now_ns, frame, source));
}

static void assert_fetches(struct world *world, uint64_t now_ns)
{
    const struct tt_frame *fetch;

    next_is(&world->script, TT_ACTION_FREEZE);
    no_more(&world->script);
    assert_int_equal(world->collective.state, TT_COLLECTIVE_FETCH);
    assert_true(world_step(world, TT_EVENT_FROZEN, now_ns));
    fetch = next_sends(&world->script, TT_FRAME_FETCH, 0);
    assert_int_equal(fetch->body.fetch.window.count, CHUNKS);
    no_more(&world->script);
}

static void who_is_deaf_says_so_and_reads_as_soon_as_the_parent_says_open(void **state)
{
    struct world world;
    const struct tt_frame *frame;

    (void)state;
    start_deaf(&world, &(struct shape){.rank = 1, .size = 3, .block_bytes = RECEIVER_BYTES});
    frame = next_sends(&world.script, TT_FRAME_GATHER, 0);
    assert_true(frame->body.gather.least.some_deaf && frame->body.gather.least.all_deaf);
    no_more(&world.script);
    /* That somebody is ahead is not all that the parent has to say. */
    assert_true(world_hear(&world, 1, TT_FRAME_FINAL, 2));
    no_more(&world.script);
    assert_int_equal(world.collective.state, TT_COLLECTIVE_BARRIER);
    assert_true(world_hear_frame(&world, 2, open_frame(true, false), 0));
    assert_true(world.collective.everybody);
    assert_int_equal(world.collective.least.finished, 0); /* as far as this rank has got itself */
    assert_fetches(&world, 3);
}

static void who_hears_says_so_too_and_waits_for_chunks(void **state)
{
    struct world world;
    const struct tt_frame *frame;

    (void)state;
    world_init(&world, &(struct shape){.rank = 1, .size = 3, .block_bytes = RECEIVER_BYTES});
    assert_true(world_step(&world, TT_EVENT_START, 0));
    next_is(&world.script, TT_ACTION_PUBLISH);
    frame = next_sends(&world.script, TT_FRAME_GATHER, 0);
    assert_false(frame->body.gather.least.some_deaf || frame->body.gather.least.all_deaf);
    assert_true(world_hear_frame(&world, 2, open_frame(false, false), 0)); /* somebody below it may be deaf */
    no_more(&world.script);
    assert_int_equal(world.collective.state, TT_COLLECTIVE_RECEIVE);
    assert_false(world.collective.everybody);
    assert_true(world_hear_frame(&world, 3, open_frame(true, false), 0)); /* again */
    no_more(&world.script);
}

static void open_comes_from_the_parent_and_after_this_rank_has_told_it(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, &(struct shape){.rank = 0, .size = 3, .block_bytes = RECEIVER_BYTES});
    assert_true(world_step(&world, TT_EVENT_START, 0));
    assert_false(world_hear_frame(&world, 1, open_frame(true, true), 2)); /* the root has none */
    world_init(&world, &(struct shape){.rank = 1, .size = 3, .block_bytes = RECEIVER_BYTES});
    assert_true(world_step(&world, TT_EVENT_START, 0));
    assert_false(world_hear_frame(&world, 1, open_frame(true, true), 2));
    assert_int_equal(world.collective.state, TT_COLLECTIVE_BARRIER);
    assert_false(world.collective.everybody);
    /* Rank 8 of 20 speaks for others, which have not told it. */
    world_init(&world, &(struct shape){.rank = 8, .size = 20, .block_bytes = RECEIVER_BYTES});
    assert_true(world_step(&world, TT_EVENT_START, 0));
    assert_false(world.collective.gather.told);
    assert_false(world_hear_frame(&world, 1, open_frame(true, true), world.collective.gather.place.parent));
    assert_false(world.collective.everybody);
}

/* What a child speaks for may be deaf though it hears itself. */
static void a_parent_says_open_to_children_with_deaf_ranks_only(void **state)
{
    struct world world;
    const struct tt_frame *frame;

    (void)state;
    world_init(&world, &(struct shape){.rank = 0, .size = 3, .block_bytes = RECEIVER_BYTES});
    assert_true(world_step(&world, TT_EVENT_START, 0));
    next_is(&world.script, TT_ACTION_PUBLISH);
    hear_deaf_child(&world, 1, 2, false);
    no_more(&world.script);
    assert_true(world_hear_gather(&world, 2, 1));
    next_is(&world.script, TT_ACTION_FREEZE);
    next_sends(&world.script, TT_FRAME_FINAL, 2);
    frame = next_sends(&world.script, TT_FRAME_OPEN, 2);
    assert_true(frame->body.open.known && frame->body.open.least.some_deaf && !frame->body.open.least.all_deaf);
    next_is(&world.script, TT_ACTION_TRANSMIT);
    no_more(&world.script);
    assert_false(world.collective.least.all_deaf);
}

static void init_allgather_of_deaf_ranks(struct world *world, uint32_t rank)
{
    start_deaf(world, &(struct shape){.kind = TT_ALLGATHER,
                                      .rank = rank,
                                      .size = 3,
                                      .block_bytes = RECEIVER_BYTES,
                                      .chains = 1,
                                      .window_chunks = 2});
}

/* Nobody waits for its turn in a chain, nor for credit: nothing is sent but a chunk, to be heard when it can be. */
static void where_all_are_deaf_every_root_may_serve_its_block_at_once(void **state)
{
    struct world world;

    (void)state;
    init_allgather_of_deaf_ranks(&world, 2);
    next_sends(&world.script, TT_FRAME_GATHER, 0);
    assert_true(world_hear_frame(&world, 1, open_frame(true, true), 0));
    next_is(&world.script, TT_ACTION_FREEZE);
    next_sends(&world.script, TT_FRAME_CREDIT, 0);
    next_is(&world.script, TT_ACTION_TRANSMIT);
    no_more(&world.script);
    assert_int_equal(tt_collective_send_limit(&world.collective), CHUNKS);
    assert_int_equal(world.collective.state, TT_COLLECTIVE_FETCH);

    init_allgather_of_deaf_ranks(&world, 2);
    assert_true(world_hear_frame(&world, 1, open_frame(true, false), 0)); /* somebody hears */
    next_is(&world.script, TT_ACTION_FREEZE);
    next_sends(&world.script, TT_FRAME_CREDIT, 0);
    no_more(&world.script); /* the chain begins with rank 0 */
}

static void the_root_finds_out_that_all_are_deaf(void **state)
{
    struct world world;

    (void)state;
    init_allgather_of_deaf_ranks(&world, 0);
    hear_deaf_child(&world, 1, 1, true);
    hear_deaf_child(&world, 2, 2, true);
    assert_true(next_sends(&world.script, TT_FRAME_OPEN, 1)->body.open.least.all_deaf);
    assert_true(next_sends(&world.script, TT_FRAME_OPEN, 2)->body.open.least.all_deaf);
    assert_int_equal(tt_collective_send_limit(&world.collective), CHUNKS);
}

/* In a chain others come after it, one of which its parent may need to know of anything. */
static void the_next_root_of_a_chain_does_not_wait_for_its_parent(void **state)
{
    struct world world;

    (void)state;
    init_allgather_of_deaf_ranks(&world, 1);
    next_sends(&world.script, TT_FRAME_GATHER, 0);
    assert_true(world_hear(&world, 1, TT_FRAME_ACTIVATE, 0));
    next_is(&world.script, TT_ACTION_FREEZE);
    next_sends(&world.script, TT_FRAME_CREDIT, 0);
    next_is(&world.script, TT_ACTION_TRANSMIT);
    no_more(&world.script);
    assert_int_equal(world.collective.state, TT_COLLECTIVE_FETCH);
}

/* Of a broadcast its root hears nothing anyway, and who is on its host does not need the network. */
static void who_is_owed_nothing_by_other_hosts_does_not_keep_others_from_being_deaf(void **state)
{
    static const uint64_t hosts[] = {7, 7, 8};
    struct world world;
    const struct tt_frame *frame;

    (void)state;
    world_init(&world, &(struct shape){.rank = 1, .size = 3, .block_bytes = RECEIVER_BYTES});
    world.memory.config.hosts = hosts;
    tt_collective_init(&world.collective, &world.memory.config);
    tt_collective_reset(&world.collective, COLLECTIVE_SEQUENCE);
    assert_int_equal(world.collective.remote, 0);
    assert_true(world_step(&world, TT_EVENT_START, 0));
    next_is(&world.script, TT_ACTION_PUBLISH);
    frame = next_sends(&world.script, TT_FRAME_GATHER, 0);
    assert_true(!frame->body.gather.least.some_deaf && frame->body.gather.least.all_deaf);
    /* If then nothing is multicast, it reads like the others. */
    memory_release(
        &world.memory,
        &(struct tt_release){.rate_kbit = UINT32_MAX, .window_chunks = 8, .some_deaf = true, .all_deaf = true});
    assert_true(world_step(&world, TT_EVENT_TICK, 1));
    assert_fetches(&world, 2);
}

/* Where nobody is owed anything by another host nobody is deaf, and all is multicast. */
static void on_one_host_nobody_is_deaf(void **state)
{
    static const uint64_t hosts[] = {7, 7, 7};
    struct world world;

    (void)state;
    world_init(&world, &(struct shape){.rank = 1, .size = 3, .block_bytes = RECEIVER_BYTES});
    world.memory.config.hosts = hosts;
    tt_collective_init(&world.collective, &world.memory.config);
    tt_collective_reset(&world.collective, COLLECTIVE_SEQUENCE);
    assert_true(world_step(&world, TT_EVENT_START, 0));
    memory_release(&world.memory, &(struct tt_release){.rate_kbit = UINT32_MAX, .window_chunks = 8, .all_deaf = true});
    assert_true(world_step(&world, TT_EVENT_TICK, 1));
    no_more(&world.script);
    assert_int_equal(world.collective.state, TT_COLLECTIVE_RECEIVE);
    assert_false(tt_collective_is_silent(&world.collective));
}

/* Rank 1 of 3, whose host has rank 0 too: its chunk comes whatever the network does, and often before OPEN. */
static void a_chunk_of_its_own_host_does_not_keep_a_deaf_rank_from_reading(void **state)
{
    static const uint64_t hosts[] = {7, 7, 8};
    struct world world;

    (void)state;
    world_init(&world,
               &(struct shape){.kind = TT_ALLGATHER, .rank = 1, .size = 3, .block_bytes = RECEIVER_BYTES, .chains = 3});
    world.memory.config.hosts = hosts;
    tt_collective_init(&world.collective, &world.memory.config);
    tt_collective_reset(&world.collective, COLLECTIVE_SEQUENCE);
    world.collective.receiving.deaf = true;
    assert_true(world_step(&world, TT_EVENT_START, 0));
    memory_receive(&world.memory, 0, 0, 1);
    assert_true(world_step(&world, TT_EVENT_TICK, 1));
    assert_int_equal(world.collective.state, TT_COLLECTIVE_FETCH);
    assert_false(world.collective.everybody);
    assert_true(world_hear_frame(&world, 2, open_frame(true, true), 0)); /* only now */
    assert_true(world.collective.everybody);
    assert_true(world_step(&world, TT_EVENT_FROZEN, 3));
    assert_false(world.collective.receiving.heard);
}

static void chunks_that_come_all_the_same_are_waited_for(void **state)
{
    struct world world;

    (void)state;
    start_deaf(&world, &(struct shape){.rank = 1, .size = 3, .block_bytes = RECEIVER_BYTES});
    next_sends(&world.script, TT_FRAME_GATHER, 0);
    memory_receive(&world.memory, 0, 0, 1);
    assert_true(world_step(&world, TT_EVENT_TICK, 1));
    no_more(&world.script);
    assert_int_equal(world.collective.state, TT_COLLECTIVE_RECEIVE);
}

static void a_small_one_asks_its_left_neighbour_at_once(void **state)
{
    struct world world;

    (void)state;
    start_deaf(&world, &(struct shape){.rank = 1, .size = 3, .block_bytes = RECEIVER_BYTES, .eager = true});
    next_sends(&world.script, TT_FRAME_ASK, 0);
    no_more(&world.script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_is_deaf_says_so_and_reads_as_soon_as_the_parent_says_open),
        cmocka_unit_test(who_hears_says_so_too_and_waits_for_chunks),
        cmocka_unit_test(open_comes_from_the_parent_and_after_this_rank_has_told_it),
        cmocka_unit_test(a_parent_says_open_to_children_with_deaf_ranks_only),
        cmocka_unit_test(where_all_are_deaf_every_root_may_serve_its_block_at_once),
        cmocka_unit_test(the_next_root_of_a_chain_does_not_wait_for_its_parent),
        cmocka_unit_test(the_root_finds_out_that_all_are_deaf),
        cmocka_unit_test(who_is_owed_nothing_by_other_hosts_does_not_keep_others_from_being_deaf),
        cmocka_unit_test(on_one_host_nobody_is_deaf),
        cmocka_unit_test(a_chunk_of_its_own_host_does_not_keep_a_deaf_rank_from_reading),
        cmocka_unit_test(chunks_that_come_all_the_same_are_waited_for),
        cmocka_unit_test(a_small_one_asks_its_left_neighbour_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
