/* SPDX-License-Identifier: BSD-3-Clause */
/* The sequencer: which root sends when, how far credit lets it, and how all learn that a chain is done. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "collective_world.h"
#include "plan/dissemination.h"

enum { BYTES = 16 * 10 };

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

static void later_roots_wait_for_their_activation_and_the_last_says_done(void **state)
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
    assert_int_equal(next_sends(&world.script, TT_FRAME_DONE, 2)->body.done.chain, 0);
    no_more(&world.script);
}

static void an_activation_during_the_barrier_is_kept(void **state)
{
    struct world world;

    (void)state;
    set_up_allgather(&world, 3);
    world_step(&world, TT_EVENT_START, 0);
    assert_true(world_hear(&world, 1, TT_FRAME_ACTIVATE, 2));
    no_more(&world.script);
    world_hear_barrier(&world, 2, 0);
    world_hear_barrier(&world, 3, 1);
    next_is(&world.script, TT_ACTION_TRANSMIT);
    no_more(&world.script);
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
    assert_int_equal(world.collective.chains_done, 2);
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

static void who_has_everything_says_all_done_in_one_frame(void **state)
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
    no_more(&world.script); /* but not before its own block is out */
    world_step(&world, TT_EVENT_SENT, 3);
    next_sends(&world.script, TT_FRAME_ACTIVATE, 1);
    assert_int_equal(next_sends(&world.script, TT_FRAME_DONE, 1)->body.done.chain, TT_DONE_ALL_CHAINS);
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
    assert_int_equal(world.collective.chains_done, 2);
    assert_true(world_hear_done(&world, 3, 1, TT_DONE_ALL_CHAINS));
    assert_true(world_hear_done(&world, 3, 1, 0));
    no_more(&world.script);
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
    struct tt_frame credit = {.type = TT_FRAME_CREDIT, .body.credit.quanta = 1};

    (void)state;
    world_init(&world, &(struct shape){.rank = 0, .size = 2, .block_bytes = 16 * 100, .depth_chunks = 64});
    world_pass_barrier(&world, 1);
    next_sends(&world.script, TT_FRAME_FINAL, 1);
    next_is(&world.script, TT_ACTION_FREEZE);
    next_is(&world.script, TT_ACTION_TRANSMIT);
    no_more(&world.script);
    assert_int_equal(tt_collective_send_limit(&world.collective, 0), 64);
    assert_true(world_hear_frame(&world, 2, credit, 1));
    next_is(&world.script, TT_ACTION_TRANSMIT);
    no_more(&world.script);
    assert_int_equal(tt_collective_send_limit(&world.collective, 0), 96);
    assert_true(world_hear_frame(&world, 3, credit, 1));
    no_more(&world.script);
    assert_int_equal(tt_collective_deadline(&world.collective), 2 + MACHINE_STALL_NS);
}

static void a_root_without_credit_goes_on_by_one_quantum_after_the_stall_time(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, &(struct shape){.rank = 0, .size = 2, .block_bytes = 16 * 100, .depth_chunks = 64});
    world_pass_barrier(&world, 10);
    assert_int_equal(tt_collective_deadline(&world.collective), 10 + MACHINE_STALL_NS);
    world_step(&world, TT_EVENT_TICK, 9 + MACHINE_STALL_NS);
    no_more(&world.script);
    world_step(&world, TT_EVENT_TICK, 10 + MACHINE_STALL_NS);
    next_is(&world.script, TT_ACTION_TRANSMIT);
    no_more(&world.script);
    assert_int_equal(tt_collective_send_limit(&world.collective, 0), 96);
    assert_int_equal(world.collective.credit_stalls, 1);
    world_step(&world, TT_EVENT_TICK, 10 + 2 * MACHINE_STALL_NS);
    next_is(&world.script, TT_ACTION_TRANSMIT);
    assert_int_equal(tt_collective_send_limit(&world.collective, 0), 100);
    assert_true(tt_collective_deadline(&world.collective) == UINT64_MAX); /* nothing more to wait for */
}

static void a_root_far_from_its_turn_gets_a_new_stall_time_each_time(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, &(struct shape){
                           .kind = TT_ALLGATHER, .rank = 1, .size = 2, .block_bytes = 16 * 100, .depth_chunks = 64});
    world_pass_barrier(&world, 1);
    world_hear(&world, 2, TT_FRAME_ACTIVATE, 0);
    next_is(&world.script, TT_ACTION_TRANSMIT);
    assert_int_equal(tt_collective_send_limit(&world.collective, 0),
                     0); /* 64 chunks of the chain, 100 are the other's */
    world_step(&world, TT_EVENT_TICK, 2 + MACHINE_STALL_NS);
    no_more(&world.script);
    assert_int_equal(world.collective.credit_stalls, 1);
    assert_int_equal(tt_collective_deadline(&world.collective), 2 + 2 * MACHINE_STALL_NS);
    world_step(&world, TT_EVENT_TICK, 2 + 2 * MACHINE_STALL_NS);
    next_is(&world.script, TT_ACTION_TRANSMIT);
    no_more(&world.script);
    assert_int_equal(tt_collective_send_limit(&world.collective, 0), 28);
}

static void the_kernels_are_asked_to_report_half_a_quantum_on(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, &(struct shape){.rank = 1, .size = 2, .block_bytes = 16 * 100, .depth_chunks = 64});
    world_pass_barrier(&world, 1);
    assert_int_equal(atomic_load(&world.memory.streams[0].notify_at), 16);
    memory_receive(&world.memory, 0, 0, 90);
    world_step(&world, TT_EVENT_TICK, 2);
    assert_int_equal(next_sends(&world.script, TT_FRAME_CREDIT, 0)->body.credit.quanta, 2);
    assert_int_equal(atomic_load(&world.memory.streams[0].notify_at), 100);
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
        cmocka_unit_test(later_roots_wait_for_their_activation_and_the_last_says_done),
        cmocka_unit_test(an_activation_during_the_barrier_is_kept),
        cmocka_unit_test(activations_have_no_place_in_a_broadcast_or_without_multicast),
        cmocka_unit_test(done_goes_around_the_ring_once_and_not_to_the_chains_last_root),
        cmocka_unit_test(done_is_not_sent_to_a_neighbour_that_has_everything),
        cmocka_unit_test(who_has_everything_says_all_done_in_one_frame),
        cmocka_unit_test(all_done_is_forwarded_as_one_frame_once),
        cmocka_unit_test(sending_goes_on_after_everything_was_received),
        cmocka_unit_test(a_root_transmits_again_when_credit_grows),
        cmocka_unit_test(a_root_without_credit_goes_on_by_one_quantum_after_the_stall_time),
        cmocka_unit_test(a_root_far_from_its_turn_gets_a_new_stall_time_each_time),
        cmocka_unit_test(the_kernels_are_asked_to_report_half_a_quantum_on),
        cmocka_unit_test(credit_frames_without_credit_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
