/* SPDX-License-Identifier: BSD-3-Clause */
/* The sequencer: which root sends when, how far credit lets it, and how all learn that a chain is done. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "collective_world.h"
#include "proto/sequencer.h"

enum { BYTES = 16 * 10, HELD = TT_SEQUENCER_HOLD * MACHINE_TAIL_NS };

static void set_up_allgather(struct world *world, uint32_t rank)
{
    world_init(world,
               &(struct shape){.kind = TT_ALLGATHER, .rank = rank, .size = 4, .block_bytes = BYTES, .chains = 2});
}

static void first_roots_of_chains_send_at_once_and_activate_the_next(void **state)
{
    struct world world;

    (void)state;
    for (uint32_t rank = 0; rank < 4; rank += 2) {
        set_up_allgather(&world, rank);
        world_pass_barrier(&world, 1);
        next_is(&world.script, TT_ACTION_TRANSMIT);
        no_more(&world.script);
        world_step(&world, TT_EVENT_SENT, 2);
        next_sends(&world.script, TT_FRAME_ACTIVATE, rank + 1);
        no_more(&world.script);
    }
}

static void later_roots_wait_for_their_activation_and_the_last_says_done_when_it_is_needed(void **state)
{
    struct world world;

    (void)state;
    set_up_allgather(&world, 1);
    world_pass_barrier(&world, 1);
    no_more(&world.script);
    assert_false(world_hear(&world, 2, TT_FRAME_ACTIVATE, 2)); /* not its predecessor */
    no_more(&world.script);
    assert_true(world_hear(&world, 3, TT_FRAME_ACTIVATE, 0));
    next_is(&world.script, TT_ACTION_TRANSMIT);
    no_more(&world.script);
    assert_true(world_hear(&world, 3, TT_FRAME_ACTIVATE, 0));
    no_more(&world.script); /* once */
    world_step(&world, TT_EVENT_SENT, 4);
    no_more(&world.script); /* mostly everybody has everything soon, and nobody needs to hear of it */
    assert_int_equal(tt_collective_deadline(&world.collective), 4 + HELD);
    world_step(&world, TT_EVENT_TICK, 3 + HELD);
    no_more(&world.script);
    world_step(&world, TT_EVENT_TICK, 4 + HELD);
    assert_int_equal(next_sends(&world.script, TT_FRAME_DONE, 2)->body.done.chain, 0);
    no_more(&world.script);
    assert_int_equal(tt_collective_deadline(&world.collective), 1 + MACHINE_WIRE_NS + MACHINE_ALPHA_NS);
    world_step(&world, TT_EVENT_TICK, 5 + HELD);
    no_more(&world.script); /* once */
}

/* Nobody activates before the barrier is over. */
static void an_activation_during_the_barrier_ends_it(void **state)
{
    struct world world;

    (void)state;
    set_up_allgather(&world, 3);
    world_step(&world, TT_EVENT_START, 0);
    next_is(&world.script, TT_ACTION_PUBLISH);
    next_sends(&world.script, TT_FRAME_GATHER, 0);
    no_more(&world.script);
    assert_true(world_hear(&world, 1, TT_FRAME_ACTIVATE, 2));
    next_is(&world.script, TT_ACTION_TRANSMIT);
    no_more(&world.script);
    assert_int_equal(world.collective.state, TT_COLLECTIVE_RECEIVE);
    assert_int_equal(tt_collective_deadline(&world.collective), 1 + MACHINE_WIRE_NS + MACHINE_ALPHA_NS);
    world_release(&world, 2);
    no_more(&world.script);
}

/* The first root releases everybody, whether it is the only one or not. */
static void the_root_that_all_have_reported_to_begins_with_a_release(void **state)
{
    struct world world;

    (void)state;
    for (uint32_t rank = 0; rank < 4; rank++) {
        set_up_allgather(&world, rank);
        assert_int_equal(tt_collective_releases(&world.collective), rank == 0);
        world_init(&world, &(struct shape){.rank = rank, .size = 4, .block_bytes = BYTES, .root = 2});
        assert_int_equal(tt_collective_releases(&world.collective), rank == 2);
        world_init(&world, &(struct shape){.rank = rank, .size = 4, .root = rank});
        assert_false(tt_collective_releases(&world.collective)); /* no bytes: everybody knows by the barrier itself */
        world_init(&world, &(struct shape){.rank = rank, .size = 4, .block_bytes = BYTES, .root = rank, .p2p = true});
        assert_false(tt_collective_releases(&world.collective));
        world_init(&world, &(struct shape){.rank = rank, .size = 4, .block_bytes = BYTES, .root = rank, .eager = true});
        assert_false(tt_collective_releases(&world.collective));
        world_init(&world, &(struct shape){
                               .kind = TT_ALLGATHER, .rank = rank, .size = 4, .block_bytes = BYTES, .gather = true});
        assert_false(tt_collective_releases(&world.collective)); /* its data says as much */
    }
    world_init(&world, &(struct shape){.size = 1, .block_bytes = BYTES});
    assert_false(tt_collective_releases(&world.collective));
}

static void activations_have_no_place_in_a_broadcast_or_without_multicast(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, &(struct shape){.rank = 1, .size = 3, .block_bytes = BYTES, .root = 1});
    world_pass_barrier(&world, 1);
    assert_false(world_hear(&world, 2, TT_FRAME_ACTIVATE, 0));
    world_init(&world, &(struct shape){.kind = TT_ALLGATHER, .rank = 1, .size = 3, .block_bytes = BYTES, .p2p = true});
    world_pass_barrier(&world, 1);
    assert_false(world_hear(&world, 2, TT_FRAME_ACTIVATE, 0));
    assert_false(world_hear_done(&world, 2, 0, 0));
}

static void done_goes_around_the_ring_once_and_not_to_the_chains_last_root(void **state)
{
    struct world world;

    (void)state;
    set_up_allgather(&world, 2);
    world_pass_barrier(&world, 1);
    next_is(&world.script, TT_ACTION_TRANSMIT);
    assert_false(world_hear_done(&world, 2, 3, 0)); /* from the wrong side */
    assert_false(world_hear_done(&world, 2, 1, 2)); /* no such chain */
    no_more(&world.script);
    assert_true(world_hear_done(&world, 2, 1, 0));
    assert_int_equal(next_sends(&world.script, TT_FRAME_DONE, 3)->body.done.chain, 0);
    no_more(&world.script);
    assert_true(world_hear_done(&world, 3, 1, 0));
    no_more(&world.script);
    assert_true(world_hear_done(&world, 3, 1, 1)); /* said by 3, who is next */
    no_more(&world.script);
    assert_int_equal(world.collective.sending.chains_done, 2);
}

static void done_is_not_sent_to_a_neighbour_that_has_everything(void **state)
{
    struct world world;

    (void)state;
    set_up_allgather(&world, 2);
    world_pass_barrier(&world, 1);
    assert_true(world_hear(&world, 2, TT_FRAME_FINAL, 3));
    assert_true(world_hear_done(&world, 3, 1, 0));
    no_more(&world.script);
}

static void who_has_everything_says_all_done_in_one_frame_when_it_is_needed(void **state)
{
    struct world world;

    (void)state;
    set_up_allgather(&world, 0);
    world_pass_barrier(&world, 1);
    next_is(&world.script, TT_ACTION_TRANSMIT);
    memory_receive(&world.memory, 0, 10, 30);
    world_step(&world, TT_EVENT_TICK, 2);
    next_sends(&world.script, TT_FRAME_FINAL, 3);
    next_is(&world.script, TT_ACTION_FREEZE);
    no_more(&world.script);
    assert_true(tt_collective_deadline(&world.collective) == UINT64_MAX); /* not before its own block is out */
    world_step(&world, TT_EVENT_SENT, 3);
    next_sends(&world.script, TT_FRAME_ACTIVATE, 1);
    no_more(&world.script);
    assert_int_equal(tt_collective_deadline(&world.collective), 3 + HELD);
    world_step(&world, TT_EVENT_FROZEN, 4);
    world_step(&world, TT_EVENT_TICK, 2 + HELD);
    no_more(&world.script);
    world_step(&world, TT_EVENT_TICK, 3 + HELD);
    assert_int_equal(next_sends(&world.script, TT_FRAME_DONE, 1)->body.done.chain, TT_DONE_ALL_CHAINS);
    no_more(&world.script);
    assert_true(tt_collective_deadline(&world.collective) == UINT64_MAX);
    world_step(&world, TT_EVENT_TICK, 4 + HELD);
    no_more(&world.script); /* once */
}

static void what_is_held_back_is_never_said_to_a_neighbour_that_has_everything_by_then(void **state)
{
    struct world world;

    (void)state;
    set_up_allgather(&world, 1);
    world_pass_barrier(&world, 1);
    world_hear(&world, 2, TT_FRAME_ACTIVATE, 0);
    world_step(&world, TT_EVENT_SENT, 3);
    assert_int_equal(tt_collective_deadline(&world.collective), 3 + HELD);
    assert_true(world_hear(&world, 4, TT_FRAME_FINAL, 2));
    assert_int_equal(tt_collective_deadline(&world.collective), 1 + MACHINE_WIRE_NS + MACHINE_ALPHA_NS);
    world_step(&world, TT_EVENT_TICK, 3 + HELD);
    no_more(&world.script);
}

/* At the time that the own chain's end has set: one frame, and no second one for the rest. */
static void everything_that_comes_while_the_own_chain_is_held_back_makes_it_all_done(void **state)
{
    struct world world;

    (void)state;
    set_up_allgather(&world, 1);
    world_pass_barrier(&world, 1);
    world_hear(&world, 2, TT_FRAME_ACTIVATE, 0);
    world_step(&world, TT_EVENT_SENT, 3);
    memory_receive(&world.memory, 0, 0, 10);
    memory_receive(&world.memory, 0, 20, 20);
    world_step(&world, TT_EVENT_TICK, 50);
    next_sends(&world.script, TT_FRAME_FINAL, 0);
    next_is(&world.script, TT_ACTION_FREEZE);
    no_more(&world.script);
    assert_int_equal(tt_collective_deadline(&world.collective), 3 + HELD);
    world_step(&world, TT_EVENT_TICK, 3 + HELD);
    assert_int_equal(next_sends(&world.script, TT_FRAME_DONE, 2)->body.done.chain, TT_DONE_ALL_CHAINS);
    no_more(&world.script);
    assert_true(tt_collective_deadline(&world.collective) == UINT64_MAX);
}

static void everything_that_comes_after_the_own_chain_was_told_is_held_back_anew(void **state)
{
    struct world world;

    (void)state;
    set_up_allgather(&world, 1);
    world_pass_barrier(&world, 1);
    world_hear(&world, 2, TT_FRAME_ACTIVATE, 0);
    world_step(&world, TT_EVENT_SENT, 3);
    world_step(&world, TT_EVENT_TICK, 3 + HELD);
    assert_int_equal(next_sends(&world.script, TT_FRAME_DONE, 2)->body.done.chain, 0);
    memory_receive(&world.memory, 0, 0, 10);
    memory_receive(&world.memory, 0, 20, 20);
    world_step(&world, TT_EVENT_TICK, 1000);
    next_sends(&world.script, TT_FRAME_FINAL, 0);
    next_is(&world.script, TT_ACTION_FREEZE);
    no_more(&world.script);
    assert_int_equal(tt_collective_deadline(&world.collective), 1000 + HELD);
    world_step(&world, TT_EVENT_TICK, 1000 + HELD);
    assert_int_equal(next_sends(&world.script, TT_FRAME_DONE, 2)->body.done.chain, TT_DONE_ALL_CHAINS);
    no_more(&world.script);
}

static void all_done_is_forwarded_as_one_frame_once(void **state)
{
    struct world world;

    (void)state;
    set_up_allgather(&world, 2);
    world_pass_barrier(&world, 1);
    assert_true(world_hear_done(&world, 2, 1, TT_DONE_ALL_CHAINS));
    assert_int_equal(next_sends(&world.script, TT_FRAME_DONE, 3)->body.done.chain, TT_DONE_ALL_CHAINS);
    no_more(&world.script);
    assert_int_equal(world.collective.sending.chains_done, 2);
    assert_true(world_hear_done(&world, 3, 1, TT_DONE_ALL_CHAINS));
    assert_true(world_hear_done(&world, 3, 1, 0));
    no_more(&world.script);
    world_step(&world, TT_EVENT_SENT, 4);
    next_sends(&world.script, TT_FRAME_ACTIVATE, 3);
    world_step(&world, TT_EVENT_TICK, 4 + HELD);
    next_is(&world.script, TT_ACTION_FREEZE); /* the tail time is over, too */
    no_more(&world.script);                   /* nothing is left to tell */
}

static void the_end_of_the_own_chain_is_not_told_to_who_knows_that_all_are_done(void **state)
{
    struct world world;

    (void)state;
    set_up_allgather(&world, 1);
    world_pass_barrier(&world, 1);
    memory_receive(&world.memory, 0, 0, 10);
    memory_receive(&world.memory, 0, 20, 20);
    world_step(&world, TT_EVENT_TICK, 2);
    world_hear(&world, 3, TT_FRAME_ACTIVATE, 0);
    next_is(&world.script, TT_ACTION_TRANSMIT);
    assert_true(world_hear_done(&world, 4, 0, TT_DONE_ALL_CHAINS));
    next_sends(&world.script, TT_FRAME_DONE, 2);
    no_more(&world.script);
    world_step(&world, TT_EVENT_SENT, 5);
    no_more(&world.script);
    world_step(&world, TT_EVENT_TICK, 5 + HELD);
    no_more(&world.script);
    assert_true(tt_collective_deadline(&world.collective) == UINT64_MAX);
}

static void sending_goes_on_after_everything_was_received(void **state)
{
    struct world world;

    (void)state;
    set_up_allgather(&world, 1);
    world_pass_barrier(&world, 1);
    memory_receive(&world.memory, 0, 0, 10);
    memory_receive(&world.memory, 0, 20, 20);
    world_step(&world, TT_EVENT_TICK, 2);
    next_sends(&world.script, TT_FRAME_FINAL, 0);
    next_is(&world.script, TT_ACTION_FREEZE);
    no_more(&world.script);
    world_step(&world, TT_EVENT_FROZEN, 3);
    world_hear(&world, 3, TT_FRAME_FINAL, 2);
    no_more(&world.script);
    world_hear(&world, 4, TT_FRAME_ACTIVATE, 0);
    next_is(&world.script, TT_ACTION_TRANSMIT);
    no_more(&world.script);
    world_step(&world, TT_EVENT_SENT, 5);
    next_finishes(&world, TUTTI_OK, TT_RANK_NONE);
}

/* --- Credit ------------------------------------------------------------------------------------------------------- */

static void a_root_transmits_again_when_credit_grows(void **state)
{
    struct world world;
    struct tt_frame credit = {.type = TT_FRAME_CREDIT, .body.credit.turns = 80};

    (void)state;
    world_init(&world, &(struct shape){.rank = 0, .size = 2, .block_bytes = 16 * 100, .window_chunks = 64});
    world_pass_barrier(&world, 1);
    next_sends(&world.script, TT_FRAME_FINAL, 1);
    next_is(&world.script, TT_ACTION_FREEZE);
    next_is(&world.script, TT_ACTION_TRANSMIT);
    no_more(&world.script);
    assert_int_equal(tt_collective_send_limit(&world.collective), 64);
    assert_true(world_hear_frame(&world, 2, credit, 1));
    next_is(&world.script, TT_ACTION_TRANSMIT);
    no_more(&world.script);
    assert_int_equal(tt_collective_send_limit(&world.collective), 80);
    assert_true(world_hear_frame(&world, 3, credit, 1));
    no_more(&world.script);
    assert_int_equal(tt_collective_deadline(&world.collective), 2 + MACHINE_STALL_NS);
}

static void a_root_without_credit_goes_on_by_a_window_after_the_stall_time(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, &(struct shape){.rank = 0, .size = 2, .block_bytes = 16 * 150, .window_chunks = 64});
    world_pass_barrier(&world, 10);
    assert_int_equal(tt_collective_deadline(&world.collective), 10 + MACHINE_STALL_NS);
    world_step(&world, TT_EVENT_TICK, 9 + MACHINE_STALL_NS);
    no_more(&world.script);
    world_step(&world, TT_EVENT_TICK, 10 + MACHINE_STALL_NS);
    next_is(&world.script, TT_ACTION_TRANSMIT);
    no_more(&world.script);
    assert_int_equal(tt_collective_send_limit(&world.collective), 128);
    assert_int_equal(world.collective.counters.credit_stalls, 1);
    world_step(&world, TT_EVENT_TICK, 10 + 2 * MACHINE_STALL_NS);
    next_is(&world.script, TT_ACTION_TRANSMIT);
    assert_int_equal(tt_collective_send_limit(&world.collective), 150);
    assert_true(tt_collective_deadline(&world.collective) == UINT64_MAX); /* nothing more to wait for */
}

static void a_root_far_from_its_turn_gets_a_new_stall_time_each_time(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, &(struct shape){
                           .kind = TT_ALLGATHER, .rank = 1, .size = 2, .block_bytes = 16 * 100, .window_chunks = 64});
    world_pass_barrier(&world, 1);
    world_hear(&world, 2, TT_FRAME_ACTIVATE, 0);
    next_is(&world.script, TT_ACTION_TRANSMIT);
    assert_int_equal(tt_collective_send_limit(&world.collective), 0); /* 64 chunks of the chain, 100 are the other's */
    world_step(&world, TT_EVENT_TICK, 2 + MACHINE_STALL_NS);
    next_is(&world.script, TT_ACTION_TRANSMIT);
    no_more(&world.script);
    assert_int_equal(tt_collective_send_limit(&world.collective), 28);
    assert_int_equal(world.collective.counters.credit_stalls, 1);
    assert_int_equal(tt_collective_deadline(&world.collective), 2 + 2 * MACHINE_STALL_NS);
}

static void the_kernels_are_asked_to_report_when_a_step_is_complete(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, &(struct shape){.rank = 1, .size = 2, .block_bytes = 16 * 150, .window_chunks = 64});
    world_pass_barrier(&world, 1);
    assert_int_equal(atomic_load(&world.memory.streams[0].notify_at), 32);
    memory_receive(&world.memory, 0, 0, 50);
    world_step(&world, TT_EVENT_TICK, 2);
    assert_int_equal(next_sends(&world.script, TT_FRAME_CREDIT, 0)->body.credit.turns, 96); /* of 114 */
    assert_int_equal(atomic_load(&world.memory.streams[0].notify_at), 64);                  /* which would be 128 */
    set_up_allgather(&world, 1);
    world_pass_barrier(&world, 1);
    assert_int_equal(atomic_load(&world.memory.streams[0].notify_at), 30); /* without the own block */
}

static void credit_frames_without_credit_are_refused(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, &(struct shape){.rank = 0, .size = 2, .block_bytes = 16 * 100});
    world_pass_barrier(&world, 1);
    assert_false(world_hear(&world, 2, TT_FRAME_CREDIT, 1));
    assert_false(world_hear(&world, 2, TT_FRAME_GRANT, 1));
    assert_false(world_hear(&world, 2, TT_FRAME_PROBE, 1)); /* not a collective's at all */
    no_more(&world.script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_roots_of_chains_send_at_once_and_activate_the_next),
        cmocka_unit_test(later_roots_wait_for_their_activation_and_the_last_says_done_when_it_is_needed),
        cmocka_unit_test(an_activation_during_the_barrier_ends_it),
        cmocka_unit_test(the_root_that_all_have_reported_to_begins_with_a_release),
        cmocka_unit_test(activations_have_no_place_in_a_broadcast_or_without_multicast),
        cmocka_unit_test(done_goes_around_the_ring_once_and_not_to_the_chains_last_root),
        cmocka_unit_test(done_is_not_sent_to_a_neighbour_that_has_everything),
        cmocka_unit_test(who_has_everything_says_all_done_in_one_frame_when_it_is_needed),
        cmocka_unit_test(what_is_held_back_is_never_said_to_a_neighbour_that_has_everything_by_then),
        cmocka_unit_test(everything_that_comes_while_the_own_chain_is_held_back_makes_it_all_done),
        cmocka_unit_test(everything_that_comes_after_the_own_chain_was_told_is_held_back_anew),
        cmocka_unit_test(all_done_is_forwarded_as_one_frame_once),
        cmocka_unit_test(the_end_of_the_own_chain_is_not_told_to_who_knows_that_all_are_done),
        cmocka_unit_test(sending_goes_on_after_everything_was_received),
        cmocka_unit_test(a_root_transmits_again_when_credit_grows),
        cmocka_unit_test(a_root_without_credit_goes_on_by_a_window_after_the_stall_time),
        cmocka_unit_test(a_root_far_from_its_turn_gets_a_new_stall_time_each_time),
        cmocka_unit_test(the_kernels_are_asked_to_report_when_a_step_is_complete),
        cmocka_unit_test(credit_frames_without_credit_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
