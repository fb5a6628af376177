/* SPDX-License-Identifier: BSD-3-Clause */
/* The collective machine once its group has failed: it lets go of the buffers, and waits for whoever still uses them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "collective_world.h"
#include "proto/sequencer.h"

enum { LOOK_NS = TT_COLLECTIVE_PATIENCE_NS / 4 };

static void a_collective_that_waits_in_line_fails_at_once(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, &(struct shape){.rank = 0, .size = 2, .block_bytes = RECEIVER_BYTES});
    world_fail(&world, 1, TUTTI_ERR_TIMED_OUT, 1);
    next_finishes(&world, TUTTI_ERR_TIMED_OUT, 1);
}

static void a_failing_receiver_lets_go_once_its_streams_are_frozen(void **state)
{
    struct world world;

    (void)state;
    world_init_receiver(&world);
    world_fail(&world, 2, TUTTI_ERR_PEER_FAILED, 2);
    next_is(&world.script, TT_ACTION_FREEZE);
    no_more(&world.script);
    world_fail(&world, 3, TUTTI_ERR_TIMED_OUT, 0); /* the first word counts */
    world_step(&world, TT_EVENT_TICK, 4);
    no_more(&world.script);
    world_step(&world, TT_EVENT_FROZEN, 5);
    next_finishes(&world, TUTTI_ERR_PEER_FAILED, 2);
}

static void a_failing_root_lets_go_once_it_is_also_canceled(void **state)
{
    struct world world;

    (void)state;
    for (uint32_t sent_first = 0; sent_first < 2; sent_first++) {
        world_init(&world, &(struct shape){.kind = TT_ALLGATHER, .rank = 0, .size = 2, .block_bytes = RECEIVER_BYTES});
        world_pass_barrier(&world, 1);
        next_is(&world.script, TT_ACTION_TRANSMIT);
        no_more(&world.script);
        world_fail(&world, 2, TUTTI_ERR_PEER_FAILED, 1);
        next_is(&world.script, TT_ACTION_FREEZE);
        next_is(&world.script, TT_ACTION_CANCEL);
        no_more(&world.script);
        world_step(&world, sent_first ? TT_EVENT_SENT : TT_EVENT_FROZEN, 3);
        no_more(&world.script); /* nor ACTIVATE or DONE */
        world_step(&world, sent_first ? TT_EVENT_FROZEN : TT_EVENT_SENT, 4);
        next_finishes(&world, TUTTI_ERR_PEER_FAILED, 1);
    }
}

/* In front of multicast: nobody is released any more, by this rank or of it. */
static void failing_while_gathering_needs_nobody(void **state)
{
    struct world world;

    (void)state;
    for (uint32_t rank = 0; rank < 2; rank++) {
        world_init(&world, &(struct shape){.rank = rank, .size = 3, .block_bytes = RECEIVER_BYTES});
        world_step(&world, TT_EVENT_START, 0);
        world_fail(&world, 1, TUTTI_ERR_PEER_FAILED, 2);
        next_is(&world.script, TT_ACTION_FREEZE);
        no_more(&world.script);
        assert_true(tt_collective_deadline(&world.collective) == UINT64_MAX);
        if (rank == 0) {
            assert_true(world_hear_gather(&world, 2, 1));
            assert_true(world_hear_gather(&world, 2, 2));
        } else {
            assert_true(world_hear_remind(&world, 2, 0));
            world_release(&world, 2);
        }
        world_step(&world, TT_EVENT_TICK, TT_TREE_REMIND_NS);
        no_more(&world.script);
        world_step(&world, TT_EVENT_FROZEN, TT_TREE_REMIND_NS + 1);
        next_finishes(&world, TUTTI_ERR_PEER_FAILED, 2);
    }
}

static void what_was_held_back_is_not_told_any_more(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, &(struct shape){.rank = 0, .size = 2, .block_bytes = RECEIVER_BYTES});
    world_pass_barrier(&world, 1);
    world_step(&world, TT_EVENT_SENT, 2);
    assert_int_equal(tt_collective_deadline(&world.collective), 2 + TT_SEQUENCER_HOLD * MACHINE_TAIL_NS);
    world_fail(&world, 3, TUTTI_ERR_PEER_FAILED, 1);
    assert_true(tt_collective_deadline(&world.collective) == UINT64_MAX);
    world_step(&world, TT_EVENT_TICK, 2 + TT_SEQUENCER_HOLD * MACHINE_TAIL_NS);
    no_more(&world.script);
    world_step(&world, TT_EVENT_FROZEN, 400);
    next_finishes(&world, TUTTI_ERR_PEER_FAILED, 1);
}

static void what_is_sent_already_is_not_canceled(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, &(struct shape){.rank = 0, .size = 2, .block_bytes = RECEIVER_BYTES});
    world_pass_barrier(&world, 1);
    world_step(&world, TT_EVENT_SENT, 2);
    world_fail(&world, 3, TUTTI_ERR_PEER_FAILED, 1);
    no_more(&world.script); /* FREEZE was asked for before, too */
    world_step(&world, TT_EVENT_FROZEN, 4);
    next_finishes(&world, TUTTI_ERR_PEER_FAILED, 1);
}

/* Past the cutoff: asks at 30,001 and is told at 30,002 that these chunks may be read. */
static void fetch_what_is_missing(struct world *world, uint64_t bits)
{
    struct tt_frame fetch;

    world_step(world, TT_EVENT_TICK, 20000);
    world_step(world, TT_EVENT_TICK, 30000);
    world_step(world, TT_EVENT_FROZEN, 30001);
    fetch = *next_sends(&world->script, TT_FRAME_FETCH, 0);
    world_hear_frame(world, 30002, world_available(&fetch, bits), 0);
}

static void a_failing_collective_waits_for_the_end_of_every_get(void **state)
{
    struct world world;
    uint32_t runs[2];

    (void)state;
    world_init_receiver(&world);
    memory_receive(&world.memory, 0, 5, 1);
    fetch_what_is_missing(&world, 0x3DF);
    runs[0] = next_is(&world.script, TT_ACTION_GET)->body.get.run;
    runs[1] = next_is(&world.script, TT_ACTION_GET)->body.get.run;
    no_more(&world.script);
    world_fail(&world, 30003, TUTTI_ERR_PEER_FAILED, 0);
    no_more(&world.script);
    world_got(&world, 30004, runs[1], TUTTI_OK);
    no_more(&world.script);
    assert_false(world_got(&world, 30004, runs[1], TUTTI_OK)); /* not under way any more */
    no_more(&world.script);
    assert_int_equal(tt_collective_deadline(&world.collective), 30003 + TT_COLLECTIVE_PATIENCE_NS);
    world_got(&world, 30005, runs[0], TUTTI_ERR_PEER_FAILED);
    next_sends(&world.script, TT_FRAME_FINAL, 0); /* reads nothing more: the left neighbour may let go, too */
    next_finishes(&world, TUTTI_ERR_PEER_FAILED, 0);
}

static void final_is_said_once(void **state)
{
    struct world world;

    (void)state;
    world_init_receiver(&world);
    memory_receive(&world.memory, 0, 0, 9);
    fetch_what_is_missing(&world, 1 << 9);
    world_got(&world, 30003, next_is(&world.script, TT_ACTION_GET)->body.get.run, TUTTI_OK);
    next_sends(&world.script, TT_FRAME_FINAL, 0);
    world_fail(&world, 30004, TUTTI_ERR_PEER_FAILED, 2);
    next_finishes(&world, TUTTI_ERR_PEER_FAILED, 2);
}

static void a_get_that_does_not_end_costs_its_connection_when_patience_does(void **state)
{
    struct world world;
    uint32_t run;

    (void)state;
    world_init_receiver(&world);
    memory_receive(&world.memory, 0, 5, 1);
    fetch_what_is_missing(&world, 0x1);
    run = next_is(&world.script, TT_ACTION_GET)->body.get.run;
    no_more(&world.script);
    world_fail(&world, 30003, TUTTI_ERR_TIMED_OUT, 0);
    world_step(&world, TT_EVENT_TICK, 30003 + TT_COLLECTIVE_PATIENCE_NS);
    world_step(&world, TT_EVENT_TICK, 30002 + TT_COLLECTIVE_PATIENCE_NS + LOOK_NS);
    no_more(&world.script);
    world_step(&world, TT_EVENT_TICK, 30003 + TT_COLLECTIVE_PATIENCE_NS + LOOK_NS);
    assert_int_equal(next_is(&world.script, TT_ACTION_ABANDON)->to, 0);
    no_more(&world.script);
    assert_true(tt_collective_deadline(&world.collective) == UINT64_MAX);
    world_got(&world, 30004 + TT_COLLECTIVE_PATIENCE_NS + LOOK_NS, run, TUTTI_ERR_CANCELED);
    next_sends(&world.script, TT_FRAME_FINAL, 0);
    next_finishes(&world, TUTTI_ERR_TIMED_OUT, 0);
}

/* A receiver that told its right neighbour of chunks to read, and then fails. */
static void set_up_read_from(struct world *world)
{
    struct tt_frame fetch = {.type = TT_FRAME_FETCH, .body.fetch = {.window = {.count = 10, .bits[0] = 0xF}}};

    world_init_receiver(world);
    memory_receive(&world->memory, 0, 0, 2);
    assert_true(world_hear_frame(world, 2, fetch, 2));
    next_sends(&world->script, TT_FRAME_AVAILABLE, 2);
    no_more(&world->script);
}

static void a_failing_collective_keeps_the_buffer_until_the_right_neighbour_reads_no_more(void **state)
{
    struct world world;

    (void)state;
    set_up_read_from(&world);
    world_fail(&world, 3, TUTTI_ERR_TIMED_OUT, 0);
    next_is(&world.script, TT_ACTION_FREEZE);
    world_step(&world, TT_EVENT_FROZEN, 4);
    no_more(&world.script);
    assert_int_equal(tt_collective_deadline(&world.collective), 3 + TT_COLLECTIVE_PATIENCE_NS);
    assert_true(world_hear(&world, 5, TT_FRAME_FINAL, 2));
    next_finishes(&world, TUTTI_ERR_TIMED_OUT, 0);
}

static void a_right_neighbour_that_never_says_so_loses_its_connection(void **state)
{
    struct world world;

    (void)state;
    set_up_read_from(&world);
    world_fail(&world, 3, TUTTI_ERR_TIMED_OUT, 0);
    world_step(&world, TT_EVENT_FROZEN, 4);
    world_step(&world, TT_EVENT_TICK, 2 + TT_COLLECTIVE_PATIENCE_NS);
    assert_int_equal(tt_collective_deadline(&world.collective), 3 + TT_COLLECTIVE_PATIENCE_NS);
    world_step(&world, TT_EVENT_TICK, 3 + TT_COLLECTIVE_PATIENCE_NS);
    assert_int_equal(tt_collective_deadline(&world.collective), 3 + TT_COLLECTIVE_PATIENCE_NS + LOOK_NS);
    world_step(&world, TT_EVENT_TICK, 2 + TT_COLLECTIVE_PATIENCE_NS + LOOK_NS);
    no_more(&world.script);
    world_step(&world, TT_EVENT_TICK, 3 + TT_COLLECTIVE_PATIENCE_NS + LOOK_NS);
    assert_int_equal(next_is(&world.script, TT_ACTION_ABANDON)->to, 2);
    next_finishes(&world, TUTTI_ERR_TIMED_OUT, 0);
}

/* Nothing ran here for a while, perhaps since long before the end of patience, and the word of that may have come
 * before: it is waited for once more, just once. */
static void a_rank_that_stood_still_looks_before_it_breaks_a_connection(void **state)
{
    static const uint64_t late_ns[] = {0, 1, 100000000, 1000000000};

    (void)state;
    for (uint32_t i = 0; i < 2 * sizeof late_ns / sizeof late_ns[0]; i++) {
        const uint64_t woken_ns = 3 + TT_COLLECTIVE_PATIENCE_NS + late_ns[i / 2];
        struct world world;

        set_up_read_from(&world);
        world_fail(&world, 3, TUTTI_ERR_TIMED_OUT, 0);
        world_step(&world, TT_EVENT_FROZEN, 4);
        world_step(&world, TT_EVENT_TICK, woken_ns);
        no_more(&world.script);
        assert_int_equal(tt_collective_deadline(&world.collective), woken_ns + LOOK_NS);
        if (i % 2 == 0) {
            assert_true(world_hear(&world, woken_ns, TT_FRAME_FINAL, 2));
        } else {
            world_step(&world, TT_EVENT_TICK, 2 * woken_ns);
            assert_int_equal(next_is(&world.script, TT_ACTION_ABANDON)->to, 2);
        }
        next_finishes(&world, TUTTI_ERR_TIMED_OUT, 0);
    }
}

static void a_right_neighbour_that_is_gone_reads_no_more(void **state)
{
    struct world world;

    (void)state;
    set_up_read_from(&world);
    world_fail_without_right(&world, 3, TUTTI_ERR_PEER_FAILED, 2);
    next_is(&world.script, TT_ACTION_FREEZE);
    no_more(&world.script);
    world_step(&world, TT_EVENT_FROZEN, 4);
    next_finishes(&world, TUTTI_ERR_PEER_FAILED, 2);
    set_up_read_from(&world);
    world_fail(&world, 3, TUTTI_ERR_TIMED_OUT, 0);
    world_step(&world, TT_EVENT_FROZEN, 4);
    no_more(&world.script);
    world_fail_without_right(&world, 5, TUTTI_ERR_PEER_FAILED, 2); /* it went later */
    next_finishes(&world, TUTTI_ERR_TIMED_OUT, 0);
}

static void a_failing_collective_hears_nothing_more_and_has_no_deadline(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, &(struct shape){
                           .kind = TT_ALLGATHER, .rank = 0, .size = 2, .block_bytes = 16 * 100, .window_chunks = 64});
    world_pass_barrier(&world, 1);
    assert_int_equal(tt_collective_deadline(&world.collective), 1 + MACHINE_STALL_NS);
    world_fail(&world, 2, TUTTI_ERR_PEER_FAILED, 1);
    /* A deadline that no step moves would keep the engine from sleeping. */
    assert_true(tt_collective_deadline(&world.collective) == UINT64_MAX);
    for (uint32_t type = 1; type < TT_FRAME_TYPE_COUNT; type++) {
        assert_true(world_hear(&world, 3, (enum tt_frame_type)type, 1));
        no_more(&world.script);
    }
    world_step(&world, TT_EVENT_TICK, 100000000);
    no_more(&world.script);
    assert_int_equal(tt_collective_waits_for(&world.collective), TT_RANK_NONE);
}

static void without_multicast_failing_waits_for_the_copy_only(void **state)
{
    struct world world;

    (void)state;
    world_init(&world,
               &(struct shape){.kind = TT_ALLGATHER, .rank = 1, .size = 2, .block_bytes = RECEIVER_BYTES, .p2p = true});
    world_step(&world, TT_EVENT_START, 0);
    world_fail(&world, 1, TUTTI_ERR_PEER_FAILED, 0);
    next_finishes(&world, TUTTI_ERR_PEER_FAILED, 0);
    world_init(&world,
               &(struct shape){.kind = TT_ALLGATHER, .rank = 1, .size = 2, .block_bytes = RECEIVER_BYTES, .p2p = true});
    world_pass_barrier(&world, 1);
    world_fail(&world, 2, TUTTI_ERR_PEER_FAILED, 0);
    next_is(&world.script, TT_ACTION_CANCEL);
    next_sends(&world.script, TT_FRAME_FINAL, 0); /* it had asked, and asks for nothing more */
    no_more(&world.script);
    world_step(&world, TT_EVENT_SENT, 3);
    next_finishes(&world, TUTTI_ERR_PEER_FAILED, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_collective_that_waits_in_line_fails_at_once),
        cmocka_unit_test(a_failing_receiver_lets_go_once_its_streams_are_frozen),
        cmocka_unit_test(a_failing_root_lets_go_once_it_is_also_canceled),
        cmocka_unit_test(failing_while_gathering_needs_nobody),
        cmocka_unit_test(what_was_held_back_is_not_told_any_more),
        cmocka_unit_test(what_is_sent_already_is_not_canceled),
        cmocka_unit_test(a_failing_collective_waits_for_the_end_of_every_get),
        cmocka_unit_test(final_is_said_once),
        cmocka_unit_test(a_get_that_does_not_end_costs_its_connection_when_patience_does),
        cmocka_unit_test(a_failing_collective_keeps_the_buffer_until_the_right_neighbour_reads_no_more),
        cmocka_unit_test(a_right_neighbour_that_never_says_so_loses_its_connection),
        cmocka_unit_test(a_rank_that_stood_still_looks_before_it_breaks_a_connection),
        cmocka_unit_test(a_right_neighbour_that_is_gone_reads_no_more),
        cmocka_unit_test(a_failing_collective_hears_nothing_more_and_has_no_deadline),
        cmocka_unit_test(without_multicast_failing_waits_for_the_copy_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
