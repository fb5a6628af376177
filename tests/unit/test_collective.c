/* SPDX-License-Identifier: BSD-3-Clause */
/* The collective machine where all goes well: barrier, receiving, handshake. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "collective_world.h"
#include "plan/dissemination.h"

enum { BYTES = 16 * 10 };

/* --- Barrier ------------------------------------------------------------------------------------------------------ */

static void streams_are_published_before_the_barrier_says_so(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, &(struct shape){.rank = 1, .size = 2, .block_bytes = BYTES});
    assert_true(world_step(&world, TT_EVENT_START, 0));
    next_is(&world.script, TT_ACTION_PUBLISH);
    next_sends(&world.script, TT_FRAME_BARRIER, 0);
    no_more(&world.script);
}

static void every_round_waits_for_the_rounds_before_it(void **state)
{
    static const uint32_t sizes[] = {2, 3, 5, 8};
    struct world world;

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint32_t size = sizes[i], rounds = tt_dissemination_rounds(size);

        for (uint32_t rank = 0; rank < size; rank++) {
            world_init(&world, &(struct shape){.rank = rank, .size = size, .block_bytes = BYTES, .root = size - 1});
            world_step(&world, TT_EVENT_START, 0);
            next_is(&world.script, TT_ACTION_PUBLISH);
            for (uint32_t round = 0; round < rounds; round++) {
                const struct tt_frame *frame =
                    next_sends(&world.script, TT_FRAME_BARRIER, (rank + (1U << round)) % size);

                assert_int_equal(frame->body.barrier.round, round);
                assert_memory_equal(&frame->body.barrier.terms, &world.memory.config.terms,
                                    sizeof frame->body.barrier.terms);
                assert_true(frame->source == rank && frame->group == MACHINE_GROUP);
                assert_true(frame->sequence == COLLECTIVE_SEQUENCE);
                no_more(&world.script);
                assert_int_equal(world.collective.state, TT_COLLECTIVE_BARRIER);
                assert_true(world_hear_barrier(&world, 1, round));
            }
            assert_true(world.collective.state > TT_COLLECTIVE_BARRIER);
        }
    }
}

static void rounds_that_come_early_count_once_the_earlier_ones_are_in(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, &(struct shape){.rank = 4, .size = 5, .block_bytes = BYTES});
    world_step(&world, TT_EVENT_START, 0);
    assert_true(world_hear_barrier(&world, 1, 2));
    no_more(&world.script);
    assert_true(world_hear_barrier(&world, 2, 1));
    no_more(&world.script);
    assert_true(world_hear_barrier(&world, 3, 0));
    next_sends(&world.script, TT_FRAME_BARRIER, 1);
    next_sends(&world.script, TT_FRAME_BARRIER, 3);
    no_more(&world.script);
    assert_int_equal(world.collective.state, TT_COLLECTIVE_RECEIVE);
}

static void barrier_frames_from_the_wrong_rank_or_round_do_not_count(void **state)
{
    struct world world;
    struct tt_frame frame = {.type = TT_FRAME_BARRIER};

    (void)state;
    world_init(&world, &(struct shape){.rank = 1, .size = 3, .block_bytes = BYTES});
    world_step(&world, TT_EVENT_START, 0);
    frame.body.barrier.terms = world.memory.config.terms;
    assert_false(world_hear_frame(&world, 1, frame, 2)); /* round 0 comes from 0 */
    assert_false(world.mismatch);
    frame.body.barrier.round = 2;
    assert_false(world_hear_frame(&world, 1, frame, 0)); /* there are two rounds */
    frame.body.barrier.round = 31;
    assert_false(world_hear_frame(&world, 1, frame, 0));
    no_more(&world.script);
    assert_int_equal(world.collective.barrier_received, 0);
}

static void terms_that_differ_in_any_field_are_a_mismatch(void **state)
{
    struct world world;

    (void)state;
    for (uint32_t field = 0; field < 7; field++) {
        struct tt_frame frame = {.type = TT_FRAME_BARRIER};
        struct tt_collective_terms *terms = &frame.body.barrier.terms;

        world_init(&world, &(struct shape){.rank = 1, .size = 2, .block_bytes = BYTES});
        world_step(&world, TT_EVENT_START, 0);
        *terms = world.memory.config.terms;
        terms->kind += field == 0;
        terms->method ^= field == 1;
        terms->subgroups += field == 2;
        terms->root += field == 3;
        terms->chunk_bytes += field == 4;
        terms->chains += field == 5;
        terms->block_bytes += field == 6;
        assert_false(world_hear_frame(&world, 1, frame, 0));
        assert_true(world.mismatch);
        no_more(&world.script);
        assert_int_equal(world.collective.state, TT_COLLECTIVE_BARRIER);
    }
}

static void the_barrier_names_the_rank_that_it_waits_for(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, &(struct shape){.rank = 4, .size = 8, .block_bytes = BYTES});
    world_step(&world, TT_EVENT_START, 0);
    assert_int_equal(tt_collective_waits_for(&world.collective), 3);
    world_hear_barrier(&world, 1, 0);
    assert_int_equal(tt_collective_waits_for(&world.collective), 2);
    world_hear_barrier(&world, 1, 2);
    assert_int_equal(tt_collective_waits_for(&world.collective), 2);
    world_hear_barrier(&world, 1, 1);
    assert_int_equal(tt_collective_waits_for(&world.collective), 0); /* the root */
}

/* --- Broadcast ---------------------------------------------------------------------------------------------------- */

static void a_roots_broadcast_is_transmit_done_final_finish(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, &(struct shape){.rank = 0, .size = 3, .block_bytes = BYTES});
    world_pass_barrier(&world, 1);
    next_sends(&world.script, TT_FRAME_FINAL, 2); /* it has everything */
    next_is(&world.script, TT_ACTION_FREEZE);
    next_is(&world.script, TT_ACTION_TRANSMIT);
    no_more(&world.script);
    assert_int_equal(tt_collective_send_limit(&world.collective, 0), 10);
    world_step(&world, TT_EVENT_SENT, 2);
    assert_int_equal(next_sends(&world.script, TT_FRAME_DONE, 1)->body.done.chain, 0);
    no_more(&world.script);
    world_step(&world, TT_EVENT_FROZEN, 3);
    no_more(&world.script);
    assert_int_equal(tt_collective_waits_for(&world.collective), 1);
    assert_true(world_hear(&world, 4, TT_FRAME_FINAL, 1));
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
    next_sends(&world.script, TT_FRAME_DONE, 2); /* who has everything knows that the root has sent it */
    no_more(&world.script);
    world_step(&world, TT_EVENT_FROZEN, 4);
    no_more(&world.script);
    assert_int_equal(tt_collective_waits_for(&world.collective), 2);
    world_hear(&world, 5, TT_FRAME_FINAL, 2);
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
        world.script.at = world.script.actions.count - 1; /* before it perhaps DONE */
        next_finishes(&world, TUTTI_OK, TT_RANK_NONE);
    }
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams_are_published_before_the_barrier_says_so),
        cmocka_unit_test(every_round_waits_for_the_rounds_before_it),
        cmocka_unit_test(rounds_that_come_early_count_once_the_earlier_ones_are_in),
        cmocka_unit_test(barrier_frames_from_the_wrong_rank_or_round_do_not_count),
        cmocka_unit_test(terms_that_differ_in_any_field_are_a_mismatch),
        cmocka_unit_test(the_barrier_names_the_rank_that_it_waits_for),
        cmocka_unit_test(a_roots_broadcast_is_transmit_done_final_finish),
        cmocka_unit_test(a_receivers_broadcast_ends_when_all_is_here_and_the_right_neighbour_is_done),
        cmocka_unit_test(the_end_needs_frozen_sent_and_final_in_any_order),
        cmocka_unit_test(a_neighbour_that_is_done_first_is_remembered),
        cmocka_unit_test(final_counts_from_the_right_neighbour_only),
        cmocka_unit_test(frames_after_the_end_are_ignored),
        cmocka_unit_test(a_group_of_one_copies_and_finishes),
        cmocka_unit_test(nothing_at_all_is_a_barrier),
        cmocka_unit_test(a_request_can_be_run_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
