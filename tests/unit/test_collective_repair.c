/* SPDX-License-Identifier: BSD-3-Clause */
/* The collective machine where things go wrong: lost chunks, the two timers, and fetching. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "collective_world.h"
#include "proto/eager.h"
#include "proto/sequencer.h"

enum { HELD = TT_SEQUENCER_HOLD * MACHINE_TAIL_NS };

/* --- Timers ------------------------------------------------------------------------------------------------------- */

static void a_lost_tail_is_fetched_a_tail_time_after_done(void **state)
{
    struct world world;

    (void)state;
    world_init_receiver(&world);
    memory_receive(&world.memory, 0, 0, 9);
    world_step(&world, TT_EVENT_TICK, 5);
    assert_int_equal(tt_collective_deadline(&world.collective), 1 + MACHINE_WIRE_NS + MACHINE_ALPHA_NS);
    assert_true(world_hear_done(&world, 10, 0, 0));
    next_sends(&world.script, TT_FRAME_DONE, 2);
    no_more(&world.script);
    assert_int_equal(tt_collective_deadline(&world.collective), 10 + MACHINE_TAIL_NS);
    world_step(&world, TT_EVENT_TICK, 9 + MACHINE_TAIL_NS);
    no_more(&world.script);
    world_step(&world, TT_EVENT_TICK, 10 + MACHINE_TAIL_NS); /* nine came since the last look of a timer */
    no_more(&world.script);
    assert_int_equal(tt_collective_deadline(&world.collective), 10 + 2 * MACHINE_TAIL_NS);
    world_step(&world, TT_EVENT_TICK, 10 + 2 * MACHINE_TAIL_NS);
    next_is(&world.script, TT_ACTION_FREEZE);
    no_more(&world.script);
    assert_int_equal(world.collective.counters.cutoffs, 0);
    world_step(&world, TT_EVENT_FROZEN, 300);
    assert_int_equal(next_sends(&world.script, TT_FRAME_FETCH, 0)->body.fetch.window.bits[0], 1 << 9);
    no_more(&world.script);
}

static void chunks_that_still_come_put_the_tail_off(void **state)
{
    struct world world;

    (void)state;
    world_init_receiver(&world);
    world_hear_done(&world, 10, 0, 0);
    for (uint32_t i = 0; i < 9; i++) {
        memory_receive(&world.memory, 0, i, 1);
        world_step(&world, TT_EVENT_TICK, 10 + (i + 1) * MACHINE_TAIL_NS);
        no_more(&world.script);
    }
    world_step(&world, TT_EVENT_TICK, 10 + 10 * MACHINE_TAIL_NS);
    next_is(&world.script, TT_ACTION_FREEZE);
    no_more(&world.script);
}

/* The release may be lost: what is sent only after the barrier says that it is over. */
static void done_without_a_release_ends_the_barrier_and_starts_the_tail_time(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, &(struct shape){.rank = 1, .size = 3, .block_bytes = RECEIVER_BYTES});
    world_step(&world, TT_EVENT_START, 0);
    next_is(&world.script, TT_ACTION_PUBLISH);
    next_sends(&world.script, TT_FRAME_GATHER, 0);
    assert_true(tt_collective_deadline(&world.collective) == UINT64_MAX); /* a barrier has none */
    assert_true(world_hear_done(&world, 2, 0, 0));
    next_sends(&world.script, TT_FRAME_DONE, 2);
    no_more(&world.script);
    assert_int_equal(world.collective.state, TT_COLLECTIVE_RECEIVE);
    assert_false(world.collective.everybody); /* how far all have got nobody has said */
    assert_int_equal(tt_collective_deadline(&world.collective), 2 + MACHINE_TAIL_NS);
    world_step(&world, TT_EVENT_TICK, 2 + MACHINE_TAIL_NS);
    next_is(&world.script, TT_ACTION_FREEZE);
    no_more(&world.script);
    world_step(&world, TT_EVENT_FROZEN, 200);
    assert_int_equal(next_sends(&world.script, TT_FRAME_FETCH, 0)->body.fetch.window.bits[0], 0x3FF);
    no_more(&world.script);
}

static void done_of_some_chains_does_not_start_the_tail_time(void **state)
{
    struct world world;

    (void)state;
    world_init(&world,
               &(struct shape){.kind = TT_ALLGATHER, .rank = 2, .size = 4, .block_bytes = RECEIVER_BYTES, .chains = 2});
    world_pass_barrier(&world, 1);
    world_hear_done(&world, 2, 1, 0);
    assert_int_equal(tt_collective_deadline(&world.collective), 1 + MACHINE_WIRE_NS + MACHINE_ALPHA_NS);
    world_hear_done(&world, 3, 1, 1);
    assert_int_equal(tt_collective_deadline(&world.collective), 3 + MACHINE_TAIL_NS);
}

static void the_cutoff_is_wire_time_plus_alpha_and_is_put_off_by_progress(void **state)
{
    enum { CUTOFF = 1 + MACHINE_WIRE_NS + MACHINE_ALPHA_NS };
    struct world world;

    (void)state;
    world_init_receiver(&world);
    memory_receive(&world.memory, 0, 0, 3);
    world_step(&world, TT_EVENT_TICK, CUTOFF - 1);
    no_more(&world.script);
    world_step(&world, TT_EVENT_TICK, CUTOFF);
    no_more(&world.script);
    assert_int_equal(world.collective.counters.cutoffs, 0);
    assert_int_equal(tt_collective_deadline(&world.collective), CUTOFF + MACHINE_ALPHA_NS);
    world_step(&world, TT_EVENT_TICK, CUTOFF + MACHINE_ALPHA_NS);
    next_is(&world.script, TT_ACTION_FREEZE);
    no_more(&world.script);
    assert_int_equal(world.collective.counters.cutoffs, 1);
    assert_true(tt_collective_deadline(&world.collective) == UINT64_MAX);
    assert_int_equal(tt_collective_waits_for(&world.collective), 0);
}

static void chunks_that_come_while_freezing_are_not_fetched(void **state)
{
    struct world world;

    (void)state;
    world_init_receiver(&world);
    world_step(&world, TT_EVENT_TICK, 20000);
    next_is(&world.script, TT_ACTION_FREEZE);
    no_more(&world.script);
    memory_receive_all(&world.memory);
    world_step(&world, TT_EVENT_TICK, 20001);
    no_more(&world.script); /* not while a kernel may still write */
    world_step(&world, TT_EVENT_FROZEN, 20002);
    next_sends(&world.script, TT_FRAME_FINAL, 0);
    no_more(&world.script);
    assert_int_equal(world.collective.fetch.fetched_chunks, 0);
    assert_int_equal(tt_collective_deadline(&world.collective), 20002 + HELD);
    world_step(&world, TT_EVENT_TICK, 20002 + HELD);
    next_sends(&world.script, TT_FRAME_DONE, 2); /* it still waits, perhaps for just that */
    no_more(&world.script);
}

/* --- Fetching ----------------------------------------------------------------------------------------------------- */

static void holes_are_fetched_from_the_left_neighbour_after_the_cutoff(void **state)
{
    struct world world;
    struct tt_frame told;
    const struct tt_action *get;

    (void)state;
    world_init_receiver(&world);
    memory_receive(&world.memory, 0, 0, 2);
    memory_receive(&world.memory, 0, 4, 6);
    world_step(&world, TT_EVENT_TICK, 11001);
    world_step(&world, TT_EVENT_TICK, 12001);
    next_is(&world.script, TT_ACTION_FREEZE);
    world_step(&world, TT_EVENT_FROZEN, 12002);
    told = *next_sends(&world.script, TT_FRAME_FETCH, 0);
    no_more(&world.script);
    told = world_available(&told, 0xC);
    assert_false(world_hear_frame(&world, 12003, told, 2)); /* the right neighbour was not asked */
    no_more(&world.script);
    assert_true(world_hear_frame(&world, 12003, told, 0));
    get = next_is(&world.script, TT_ACTION_GET);
    assert_int_equal(get->to, 0);
    assert_int_equal(get->body.get.offset_bytes, 32);
    assert_int_equal(get->body.get.length_bytes, 32);
    assert_int_equal(get->body.get.remote_address, 0x1020);
    no_more(&world.script);
    assert_true(world_got(&world, 12004, get->body.get.run, TUTTI_OK));
    next_sends(&world.script, TT_FRAME_FINAL, 0);
    no_more(&world.script);
    assert_int_equal(tt_collective_deadline(&world.collective), 12004 + HELD);
    assert_true(world_hear(&world, 12005, TT_FRAME_FINAL, 2));
    next_finishes(&world, TUTTI_OK, TT_RANK_NONE);
    assert_int_equal(world.collective.fetch.fetched_chunks, 2);
}

static void the_right_neighbour_is_served_from_multicast_chunks_as_they_come(void **state)
{
    struct world world;
    struct tt_frame fetch = {.type = TT_FRAME_FETCH,
                             .body.fetch = {.slot = 2, .window = {.count = 10, .bits[0] = 0x3FF}}};

    (void)state;
    world_init(&world, &(struct shape){.rank = 1, .size = 3, .block_bytes = RECEIVER_BYTES});
    world_step(&world, TT_EVENT_START, 0);
    assert_true(world_hear_frame(&world, 1, fetch, 2)); /* that neighbour left the barrier, and gave up, first */
    no_more(&world.script);
    assert_int_equal(world.collective.state, TT_COLLECTIVE_RECEIVE);
    world_release(&world, 2);
    no_more(&world.script);
    memory_receive(&world.memory, 0, 3, 2);
    world_step(&world, TT_EVENT_TICK, 3);
    assert_int_equal(next_sends(&world.script, TT_FRAME_AVAILABLE, 2)->body.available.window.bits[0], 0x18);
    no_more(&world.script);
    assert_false(world_hear_frame(&world, 4, fetch, 0)); /* not the right neighbour */
    assert_false(world_hear_frame(&world, 4, fetch, 2)); /* the slot is taken */
    no_more(&world.script);
    memory_receive_all(&world.memory);
    world_step(&world, TT_EVENT_TICK, 5);
    next_sends(&world.script, TT_FRAME_FINAL, 0);
    next_is(&world.script, TT_ACTION_FREEZE);
    assert_int_equal(next_sends(&world.script, TT_FRAME_AVAILABLE, 2)->body.available.window.bits[0], 0x3E7);
    no_more(&world.script);
    assert_int_equal(tt_collective_deadline(&world.collective), 5 + HELD);
}

static void without_multicast_everything_is_fetched_and_nothing_published(void **state)
{
    struct world world;
    struct tt_frame told;

    (void)state;
    world_init(&world,
               &(struct shape){.kind = TT_ALLGATHER, .rank = 1, .size = 2, .block_bytes = RECEIVER_BYTES, .p2p = true});
    world_step(&world, TT_EVENT_START, 0);
    next_sends(&world.script, TT_FRAME_BARRIER, 0);
    no_more(&world.script);
    world_hear_barrier(&world, 1, 0);
    told = *next_sends(&world.script, TT_FRAME_FETCH, 0);
    next_is(&world.script, TT_ACTION_TRANSMIT); /* which puts the own block in place */
    no_more(&world.script);
    assert_int_equal(told.body.fetch.window.bits[0], 0x3FF);
    world_step(&world, TT_EVENT_SENT, 2);
    no_more(&world.script);
    told = world_available(&told, 0x3FF);
    assert_true(world_hear_frame(&world, 3, told, 0));
    assert_true(world_got(&world, 4, next_is(&world.script, TT_ACTION_GET)->body.get.run, TUTTI_OK));
    next_sends(&world.script, TT_FRAME_FINAL, 0);
    no_more(&world.script);
    world_hear(&world, 5, TT_FRAME_FINAL, 0);
    next_finishes(&world, TUTTI_OK, TT_RANK_NONE);
}

static void without_multicast_the_own_block_is_told_only_once_it_is_in_place(void **state)
{
    struct world world;
    struct tt_frame fetch = {.type = TT_FRAME_FETCH, .body.fetch = {.window = {.count = 10, .bits[0] = 0x3FF}}};

    (void)state;
    world_init(&world, &(struct shape){.rank = 0, .size = 2, .block_bytes = RECEIVER_BYTES, .p2p = true});
    world_pass_barrier(&world, 1);
    next_sends(&world.script, TT_FRAME_FINAL, 1);
    next_is(&world.script, TT_ACTION_TRANSMIT);
    no_more(&world.script);
    assert_true(world_hear_frame(&world, 2, fetch, 1));
    no_more(&world.script);
    world_step(&world, TT_EVENT_SENT, 3);
    assert_int_equal(next_sends(&world.script, TT_FRAME_AVAILABLE, 1)->body.available.window.bits[0], 0x3FF);
    no_more(&world.script);
    world_hear(&world, 4, TT_FRAME_FINAL, 1);
    next_finishes(&world, TUTTI_OK, TT_RANK_NONE);
}

/* --- Parts -------------------------------------------------------------------------------------------------------- */

/* Rank 1 of 3 in an allreduce, whose barrier is not over. */
static void init_parts(struct world *world)
{
    world_init(world, &(struct shape){
                          .kind = TT_ALLREDUCE, .parts = true, .rank = 1, .size = 3, .block_bytes = RECEIVER_BYTES});
    world_step(world, TT_EVENT_START, 0);
    next_is(&world->script, TT_ACTION_PUBLISH);
    next_sends(&world->script, TT_FRAME_GATHER, 0);
    no_more(&world->script);
}

static void opens(struct world *world)
{
    next_sends(&world->script, TT_FRAME_OPEN, 2);
    next_is(&world->script, TT_ACTION_RELAY);
    no_more(&world->script);
    assert_int_equal(world->collective.state, TT_COLLECTIVE_RECEIVE);
}

/* Making them takes as long as it takes: until the own one is made nothing is taken for lost. */
static void the_cutoff_of_parts_counts_from_when_the_own_one_is_made(void **state)
{
    struct world world;

    (void)state;
    init_parts(&world);
    world_release(&world, 5);
    opens(&world);
    assert_true(tt_collective_deadline(&world.collective) == UINT64_MAX);
    world_step(&world, TT_EVENT_TICK, 5 + 10 * (MACHINE_WIRE_NS + MACHINE_ALPHA_NS));
    no_more(&world.script);
    world_step(&world, TT_EVENT_RELAYED, 200000);
    assert_int_equal(tt_collective_deadline(&world.collective), 200000 + MACHINE_WIRE_NS + MACHINE_ALPHA_NS);
    assert_int_equal(world.collective.counters.cutoffs, 0);
}

/* Without a release and a handshake: behind the barrier's two rounds. */
static void make_eager_part(struct world *world)
{
    world_init(world,
               &(struct shape){
                   .kind = TT_ALLREDUCE, .eager_parts = true, .rank = 1, .size = 3, .block_bytes = RECEIVER_BYTES});
    world_step(world, TT_EVENT_START, 0);
    next_is(&world->script, TT_ACTION_PUBLISH);
    next_sends(&world->script, TT_FRAME_BARRIER, 2);
    world_hear_barrier(world, 1, 0);
    next_sends(&world->script, TT_FRAME_BARRIER, 0);
    no_more(&world->script);
    world_hear_barrier(world, 2, 1);
    next_is(&world->script, TT_ACTION_RELAY);
    no_more(&world->script);
}

/* And then as an eager block. */
static void nothing_is_asked_for_before_the_own_eager_part_is_made(void **state)
{
    const uint64_t late_ns = 10 * TT_EAGER_ASK_NS;
    struct world world;

    (void)state;
    make_eager_part(&world);
    assert_true(tt_collective_deadline(&world.collective) == UINT64_MAX);
    world_step(&world, TT_EVENT_TICK, late_ns);
    no_more(&world.script);
    world_step(&world, TT_EVENT_RELAYED, late_ns);
    next_is(&world.script, TT_ACTION_TRANSMIT);
    no_more(&world.script);
    world_step(&world, TT_EVENT_SENT, late_ns);
    assert_int_equal(tt_collective_deadline(&world.collective), late_ns + TT_EAGER_ASK_NS);
    world_step(&world, TT_EVENT_TICK, late_ns + TT_EAGER_ASK_NS);
    next_sends(&world.script, TT_FRAME_ASK, 0);
    no_more(&world.script);
}

/* Though all others' are here, and whether the left neighbour has room is what would be asked. */
static void nor_whether_there_is_room_for_it(void **state)
{
    struct world world;
    uint32_t chunks;

    (void)state;
    make_eager_part(&world);
    world.collective.copy.may_keep = false;
    chunks = world.memory.streams[0].stripe.chunks;
    memory_receive(&world.memory, 0, 0, chunks);
    memory_receive(&world.memory, 0, 2 * chunks, chunks);
    world_step(&world, TT_EVENT_TICK, 10);
    next_is(&world.script, TT_ACTION_FREEZE);
    no_more(&world.script);
    assert_false(world.collective.copy.asked);
    assert_false(tt_collective_needs_left(&world.collective));
    world_step(&world, TT_EVENT_FROZEN, 15);
    no_more(&world.script);
    world_step(&world, TT_EVENT_RELAYED, 20); /* then it is, and nothing else would tell */
    next_sends(&world.script, TT_FRAME_ASK, 0);
    next_is(&world.script, TT_ACTION_TRANSMIT);
    no_more(&world.script);
    world_step(&world, TT_EVENT_SENT, 30);
    no_more(&world.script);
    assert_true(tt_collective_needs_left(&world.collective)); /* if that has left, nobody tells */
    assert_true(world_hear(&world, 40, TT_FRAME_KEPT, 0));
    next_is(&world.script, TT_ACTION_KEEP);
    next_finishes(&world, TUTTI_OK, TT_RANK_NONE);
    no_more(&world.script);
}

/* As nobody makes a part without the others, no chunk would. */
static void open_of_the_left_neighbour_makes_up_for_a_lost_release(void **state)
{
    struct world world;

    (void)state;
    init_parts(&world);
    assert_false(world_hear(&world, 5, TT_FRAME_OPEN, 2));
    assert_int_equal(world.collective.state, TT_COLLECTIVE_BARRIER);
    assert_true(world_hear(&world, 6, TT_FRAME_OPEN, 0));
    opens(&world);
    assert_false(world.collective.everybody);
    world_release(&world, 7); /* it was only late */
    assert_true(world.collective.everybody);
    assert_true(tt_collective_deadline(&world.collective) == UINT64_MAX);
    assert_true(world_hear(&world, 8, TT_FRAME_OPEN, 0)); /* a copy */
    no_more(&world.script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lost_tail_is_fetched_a_tail_time_after_done),
        cmocka_unit_test(chunks_that_still_come_put_the_tail_off),
        cmocka_unit_test(done_without_a_release_ends_the_barrier_and_starts_the_tail_time),
        cmocka_unit_test(done_of_some_chains_does_not_start_the_tail_time),
        cmocka_unit_test(the_cutoff_is_wire_time_plus_alpha_and_is_put_off_by_progress),
        cmocka_unit_test(chunks_that_come_while_freezing_are_not_fetched),
        cmocka_unit_test(holes_are_fetched_from_the_left_neighbour_after_the_cutoff),
        cmocka_unit_test(the_right_neighbour_is_served_from_multicast_chunks_as_they_come),
        cmocka_unit_test(without_multicast_everything_is_fetched_and_nothing_published),
        cmocka_unit_test(without_multicast_the_own_block_is_told_only_once_it_is_in_place),
        cmocka_unit_test(the_cutoff_of_parts_counts_from_when_the_own_one_is_made),
        cmocka_unit_test(nothing_is_asked_for_before_the_own_eager_part_is_made),
        cmocka_unit_test(nor_whether_there_is_room_for_it),
        cmocka_unit_test(open_of_the_left_neighbour_makes_up_for_a_lost_release),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
