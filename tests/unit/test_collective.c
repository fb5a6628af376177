/* SPDX-License-Identifier: BSD-3-Clause */
/* The collective machine where all goes well: receiving and handshake; and the least groups and blocks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "collective_world.h"
#include "proto/sequencer.h"

enum { BYTES = 16 * 10, HELD = TT_SEQUENCER_HOLD * MACHINE_TAIL_NS };

static void a_roots_broadcast_is_transmit_final_and_finish_with_done_for_who_is_late(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, &(struct shape){.rank = 0, .size = 3, .block_bytes = BYTES});
    world_pass_barrier(&world, 1);
    next_sends(&world.script, TT_FRAME_FINAL, 2); /* it has everything */
    next_is(&world.script, TT_ACTION_FREEZE);
    next_is(&world.script, TT_ACTION_TRANSMIT);
    no_more(&world.script);
    assert_int_equal(tt_collective_send_limit(&world.collective), 10);
    world_step(&world, TT_EVENT_SENT, 2);
    no_more(&world.script);
    world_step(&world, TT_EVENT_FROZEN, 3);
    no_more(&world.script);
    assert_int_equal(tt_collective_waits_for(&world.collective), 1);
    assert_int_equal(tt_collective_deadline(&world.collective), 2 + HELD);
    world_step(&world, TT_EVENT_TICK, 2 + HELD); /* a neighbour that is through by then is told nothing */
    assert_int_equal(next_sends(&world.script, TT_FRAME_DONE, 1)->body.done.chain, 0);
    no_more(&world.script);
    assert_true(tt_collective_deadline(&world.collective) == UINT64_MAX);
    assert_true(world_hear(&world, 3 + HELD, TT_FRAME_FINAL, 1));
    next_finishes(&world, TUTTI_OK, TT_RANK_NONE);
}

static void a_receivers_broadcast_ends_when_all_is_here_and_the_right_neighbour_is_done(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, &(struct shape){.rank = 1, .size = 3, .block_bytes = BYTES});
    world_pass_barrier(&world, 1);
    no_more(&world.script);
    assert_int_equal(world.collective.state, TT_COLLECTIVE_RECEIVE);
    memory_receive(&world.memory, 0, 0, 9);
    world_step(&world, TT_EVENT_TICK, 2);
    no_more(&world.script);
    memory_receive(&world.memory, 0, 9, 1);
    world_step(&world, TT_EVENT_TICK, 3);
    next_sends(&world.script, TT_FRAME_FINAL, 0);
    next_is(&world.script, TT_ACTION_FREEZE);
    no_more(&world.script);
    world_step(&world, TT_EVENT_FROZEN, 4);
    no_more(&world.script);
    assert_int_equal(tt_collective_waits_for(&world.collective), 2);
    world_step(&world, TT_EVENT_TICK, 2 + HELD);
    no_more(&world.script);
    world_step(&world, TT_EVENT_TICK, 3 + HELD);
    next_sends(&world.script, TT_FRAME_DONE, 2); /* who has everything knows that the root has sent it */
    no_more(&world.script);
    world_hear(&world, 4 + HELD, TT_FRAME_FINAL, 2);
    next_finishes(&world, TUTTI_OK, TT_RANK_NONE);
}

/* FROZEN, SENT and the neighbour's FINAL may come in any order; only the last of them ends it. */
static void the_end_needs_frozen_sent_and_final_in_any_order(void **state)
{
    static const char orders[][4] = {"zsf", "zfs", "szf", "sfz", "fzs", "fsz"};
    struct world world;

    (void)state;
    for (size_t i = 0; i < 6; i++) {
        world_init(&world, &(struct shape){.rank = 0, .size = 2, .block_bytes = BYTES});
        world_pass_barrier(&world, 1);
        for (uint32_t k = 0; k < 3; k++) {
            assert_true(world.collective.state != TT_COLLECTIVE_FINISHED);
            if (orders[i][k] == 'f') {
                assert_true(world_hear(&world, 2, TT_FRAME_FINAL, 1));
            } else {
                world_step(&world, orders[i][k] == 'z' ? TT_EVENT_FROZEN : TT_EVENT_SENT, 2);
            }
        }
        next_finishes(&world, TUTTI_OK, TT_RANK_NONE);
    }
}

/* A rank that can take 8 Mbit/s, as the wire's time says, has a chunk, and not the release. */
static void begin_before_release(struct world *world)
{
    world_init(world, &(struct shape){.rank = 1, .size = 3, .block_bytes = BYTES});
    world->collective.config.bandwidth_kbit = 8000;
    world->collective.least = (struct tt_release){9, 8000, UINT32_MAX, false, false};
    world_step(world, TT_EVENT_START, 0);
    memory_receive(&world->memory, 0, 0, 1);
}

/* It has a datagram and a queue of its own. */
static void a_release_that_comes_behind_a_chunk_is_noted_and_the_cutoff_counts_from_there(void **state)
{
    struct world world;

    (void)state;
    begin_before_release(&world);
    world_step(&world, TT_EVENT_TICK, 2);
    assert_false(world.collective.everybody);
    assert_int_equal(tt_collective_deadline(&world.collective), 2 + MACHINE_WIRE_NS + MACHINE_ALPHA_NS);
    memory_release(&world.memory, &(struct tt_release){7, 4000, UINT32_MAX, false, false});
    world_step(&world, TT_EVENT_TICK, 50);
    no_more(&world.script);
    assert_true(world.collective.everybody && world.collective.least.finished == 7);
    assert_int_equal(world.collective.least.rate_kbit, 4000);
    assert_int_equal(tt_collective_deadline(&world.collective), 50 + 2 * MACHINE_WIRE_NS + MACHINE_ALPHA_NS);
    world_step(&world, TT_EVENT_TICK, 60);
    assert_int_equal(tt_collective_deadline(&world.collective), 50 + 2 * MACHINE_WIRE_NS + MACHINE_ALPHA_NS); /* once */
}

/* Who makes a release up may slow a group down, but does not put its repair off for ever. */
static void a_rate_that_no_rank_has_counts_as_the_least_that_one_may_have(void **state)
{
    struct world world;

    (void)state;
    begin_before_release(&world);
    memory_release(&world.memory, &(struct tt_release){7, 1, UINT32_MAX, false, false});
    world_step(&world, TT_EVENT_TICK, 50);
    no_more(&world.script);
    assert_int_equal(tt_collective_deadline(&world.collective), 50 + 8 * MACHINE_WIRE_NS + MACHINE_ALPHA_NS);
}

static void a_release_that_comes_behind_everything_else_is_still_noted(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, &(struct shape){.rank = 1, .size = 3, .block_bytes = BYTES});
    world.collective.least.finished = 9;
    world_step(&world, TT_EVENT_START, 0);
    memory_receive_all(&world.memory);
    world_step(&world, TT_EVENT_TICK, 2);
    next_sends(&world.script, TT_FRAME_FINAL, 0);
    next_is(&world.script, TT_ACTION_FREEZE);
    no_more(&world.script);
    assert_false(world.collective.everybody);
    memory_release(&world.memory, &(struct tt_release){7, 9000, UINT32_MAX, false, false});
    world_step(&world, TT_EVENT_TICK, 3);
    no_more(&world.script);
    assert_true(world.collective.everybody && world.collective.least.finished == 7);
    assert_int_equal(tt_collective_deadline(&world.collective), 2 + HELD);
}

static void a_neighbour_that_is_done_first_is_remembered(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, &(struct shape){.rank = 1, .size = 3, .block_bytes = BYTES});
    world_pass_barrier(&world, 1);
    assert_true(world_hear(&world, 2, TT_FRAME_FINAL, 2));
    no_more(&world.script);
    memory_receive_all(&world.memory);
    world_step(&world, TT_EVENT_TICK, 3);
    next_sends(&world.script, TT_FRAME_FINAL, 0);
    next_is(&world.script, TT_ACTION_FREEZE);
    no_more(&world.script); /* no DONE for a neighbour that has everything */
    world_step(&world, TT_EVENT_FROZEN, 4);
    next_finishes(&world, TUTTI_OK, TT_RANK_NONE);
}

static void final_counts_from_the_right_neighbour_only(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, &(struct shape){.rank = 1, .size = 4, .block_bytes = BYTES});
    world_pass_barrier(&world, 1);
    memory_receive_all(&world.memory);
    world_step(&world, TT_EVENT_TICK, 2);
    world_step(&world, TT_EVENT_FROZEN, 2);
    assert_false(world_hear(&world, 3, TT_FRAME_FINAL, 0));
    assert_false(world_hear(&world, 3, TT_FRAME_FINAL, 3));
    no_more(&world.script);
    assert_true(world_hear(&world, 4, TT_FRAME_FINAL, 2));
    next_finishes(&world, TUTTI_OK, TT_RANK_NONE);
}

static void frames_after_the_end_are_ignored(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, &(struct shape){.rank = 0, .size = 1, .block_bytes = BYTES});
    world_step(&world, TT_EVENT_START, 0);
    world_step(&world, TT_EVENT_SENT, 1);
    world_step(&world, TT_EVENT_FROZEN, 1);
    assert_int_equal(world.collective.state, TT_COLLECTIVE_FINISHED);
    for (uint32_t type = 1; type < TT_FRAME_TYPE_COUNT; type++) {
        assert_true(world_hear(&world, 9, (enum tt_frame_type)type, 0));
        no_more(&world.script);
    }
    world_fail(&world, 9, TUTTI_ERR_PEER_FAILED, 0);
    no_more(&world.script);
    assert_int_equal(world.collective.status, TUTTI_OK);
}

static void a_group_of_one_copies_and_finishes(void **state)
{
    struct world world;

    (void)state;
    for (uint32_t p2p = 0; p2p < 2; p2p++) {
        world_init(&world, &(struct shape){.kind = TT_ALLGATHER, .size = 1, .block_bytes = BYTES, .p2p = p2p});
        world_step(&world, TT_EVENT_START, 0);
        if (!p2p) {
            next_is(&world.script, TT_ACTION_PUBLISH);
            next_is(&world.script, TT_ACTION_FREEZE);
        }
        next_is(&world.script, TT_ACTION_TRANSMIT);
        no_more(&world.script);
        if (!p2p) {
            world_step(&world, TT_EVENT_FROZEN, 1);
            no_more(&world.script);
        }
        world_step(&world, TT_EVENT_SENT, 2);
        next_finishes(&world, TUTTI_OK, TT_RANK_NONE);
    }
}

/* Nobody has anything to say about a buffer of no bytes: once all are there, all may go. */
static void nothing_at_all_is_a_barrier(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, &(struct shape){.rank = 1, .size = 2, .block_bytes = 0});
    world_step(&world, TT_EVENT_START, 0);
    next_sends(&world.script, TT_FRAME_BARRIER, 0);
    no_more(&world.script);
    world_hear_barrier(&world, 1, 0);
    next_finishes(&world, TUTTI_OK, TT_RANK_NONE);
}

static void a_request_can_be_run_again(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, &(struct shape){.rank = 1, .size = 2, .block_bytes = BYTES});
    for (uint32_t run = 0; run < 3; run++) {
        tt_collective_reset(&world.collective, COLLECTIVE_SEQUENCE);
        world_pass_barrier(&world, 1);
        no_more(&world.script);
        world_hear_done(&world, 2, 0, 0);
        memory_receive_all(&world.memory);
        world_step(&world, TT_EVENT_TICK, 3);
        next_sends(&world.script, TT_FRAME_FINAL, 0);
        next_is(&world.script, TT_ACTION_FREEZE);
        no_more(&world.script);
        world_hear(&world, 3, TT_FRAME_FINAL, 0);
        world_step(&world, TT_EVENT_FROZEN, 4);
        next_finishes(&world, TUTTI_OK, TT_RANK_NONE);
    }
}

/* Until it has sent its block a root waits for its own fabric or object group, for which no rank is to blame. */
static void a_root_does_not_name_itself(void **state)
{
    (void)state;
    for (uint32_t rank = 0; rank < 2; rank++) {
        struct world world;

        memory_init(&world.memory, &(struct shape){.rank = rank, .size = 2, .block_bytes = 16});
        world.memory.config.terms.method = TT_METHOD_SEQUENTIAL;
        script_init(&world.script, 0);
        tt_collective_init(&world.collective, &world.memory.config);
        tt_collective_reset(&world.collective, COLLECTIVE_SEQUENCE);
        world_pass_barrier(&world, 1);
        assert_int_equal(world.collective.state, TT_COLLECTIVE_RECEIVE);
        assert_int_equal(tt_collective_waits_for(&world.collective), rank == 0 ? TT_RANK_NONE : 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_roots_broadcast_is_transmit_final_and_finish_with_done_for_who_is_late),
        cmocka_unit_test(a_receivers_broadcast_ends_when_all_is_here_and_the_right_neighbour_is_done),
        cmocka_unit_test(the_end_needs_frozen_sent_and_final_in_any_order),
        cmocka_unit_test(a_rate_that_no_rank_has_counts_as_the_least_that_one_may_have),
        cmocka_unit_test(a_release_that_comes_behind_a_chunk_is_noted_and_the_cutoff_counts_from_there),
        cmocka_unit_test(a_release_that_comes_behind_everything_else_is_still_noted),
        cmocka_unit_test(a_neighbour_that_is_done_first_is_remembered),
        cmocka_unit_test(final_counts_from_the_right_neighbour_only),
        cmocka_unit_test(frames_after_the_end_are_ignored),
        cmocka_unit_test(a_group_of_one_copies_and_finishes),
        cmocka_unit_test(nothing_at_all_is_a_barrier),
        cmocka_unit_test(a_request_can_be_run_again),
        cmocka_unit_test(a_root_does_not_name_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
