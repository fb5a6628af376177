/* SPDX-License-Identifier: BSD-3-Clause */
/* Room and copies of eager collectives in one rank's membership: how roots wait for credit, and what leaving has to
 * wait for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "eager_world.h"

/* --- Credit ------------------------------------------------------------------------------------------------------- */

/* Ends a collective whose root this rank is, and that may send. */
static void end_own(struct world *world, struct tt_collective *collective)
{
    world_answer(world, 1, TT_MEMBER_FROZEN, collective);
    world_answer(world, 1, TT_MEMBER_SENT, collective);
    assert_int_equal(collective->state, TT_COLLECTIVE_FINISHED);
}

/* Three of half the ring: the third waits. What the first rounds sent is left unread. */
static struct tt_collective *fill_the_ring(struct world *world)
{
    struct shape shape = {.eager = true, .root = 1, .block_bytes = HALF, .chunk_bytes = 4096};
    struct tt_collective *own[3];

    for (uint32_t i = 0; i < 3; i++) {
        own[i] = world_post(world, 0, shape);
        own[i]->timeout.deadline_ns = UINT64_MAX;
        assert_int_equal(own[i]->sending.transmitting, i < 2);
    }
    end_own(world, own[0]);
    end_own(world, own[1]);
    assert_false(own[2]->sending.transmitting);
    return own[2];
}

static void a_root_without_credit_is_released_by_a_round(void **state)
{
    struct world world;
    struct tt_collective *third;
    struct tt_frame ack = {.type = TT_FRAME_ACK};

    (void)state;
    set_up(&world);
    third = fill_the_ring(&world);
    assert_int_equal(world.member.eager.wanted, 1); /* from when the first had ended */
    world_hear(&world, 10, ack, 0, 1);              /* round 0 comes from rank 0, round 1 from rank 3 */
    next_sends(&world.script, TT_FRAME_ACK, 3);
    no_more(&world.script);
    ack.body.ack.round = 1;
    world_hear(&world, 11, ack, 3, 1);
    assert_int_equal(world.member.eager.all_finished, 1);
    assert_int_equal(next_sends(&world.script, TT_FRAME_ACK, 0)->sequence, 2); /* the next round */
    next_is_for(&world, TT_ACTION_TRANSMIT, third);
    no_more(&world.script);
    world_fini(&world);
}

static void a_root_without_credit_is_released_by_a_barrier(void **state)
{
    struct world world;
    struct tt_collective *third, *barrier;
    struct tt_frame frame = {.type = TT_FRAME_BARRIER};

    (void)state;
    set_up(&world);
    third = fill_the_ring(&world);
    barrier = world_post(&world, 1, (struct shape){.p2p = true, .block_bytes = BYTES});
    assert_int_equal(next_sends(&world.script, TT_FRAME_BARRIER, 0)->body.barrier.finished, 2); /* here */
    frame.body.barrier.terms = barrier->config.terms;
    frame.body.barrier.finished = 1; /* at rank 0 */
    world_hear(&world, 2, frame, 0, 3);
    assert_int_equal(next_sends(&world.script, TT_FRAME_BARRIER, 3)->body.barrier.finished, 1);
    assert_false(third->sending.transmitting);
    frame.body.barrier.round = 1;
    frame.body.barrier.finished = 2;
    world_hear(&world, 3, frame, 3, 3);
    assert_int_equal(world.member.eager.all_finished, 1); /* the least of all */
    assert_int_equal(world.member.eager.agreed, 1);
    assert_true(third->sending.transmitting);
    world_fini(&world);
}

/* Others may not have got it: where this rank leaves it takes part in a round all the same. */
static void a_root_without_credit_is_released_by_a_release(void **state)
{
    struct world world;
    struct tt_collective *third, *barrier;

    (void)state;
    set_up(&world);
    third = fill_the_ring(&world);
    barrier = world_post(&world, 1, ordinary);
    next_is_for(&world, TT_ACTION_PUBLISH, barrier);
    assert_int_equal(next_sends(&world.script, TT_FRAME_GATHER, 0)->body.gather.least.finished, 2); /* here */
    no_more(&world.script);
    assert_false(third->sending.transmitting);
    world_release(&world, 2, barrier, 1);
    assert_int_equal(world.member.eager.all_finished, 1);
    assert_int_equal(world.member.eager.agreed, 0);
    assert_true(third->sending.transmitting);
    world_fini(&world);
}

/* The root of a barrier hears it first, and not by a datagram. */
static void a_root_without_credit_is_released_by_what_is_gathered_here(void **state)
{
    struct world world;
    struct tt_collective *third, *barrier;
    struct tt_frame frame = {.type = TT_FRAME_GATHER};

    (void)state;
    set_up(&world);
    third = fill_the_ring(&world);
    barrier = world_post(&world, 1, (struct shape){.root = 1, .block_bytes = BYTES});
    frame.body.gather.terms = barrier->config.terms;
    for (uint32_t rank = 0; rank < 4; rank++) {
        assert_false(third->sending.transmitting);
        frame.body.gather.least = tt_release_of(rank == 2 ? 1 : 2);
        if (rank != 1) {
            world_hear(&world, 2, frame, rank, 3);
        }
    }
    assert_int_equal(world.member.eager.all_finished, 1);
    assert_true(third->sending.transmitting);
    world_fini(&world);
}

/* Three ranks report to this one, for a barrier behind two Broadcasts of its own that fill the ring. Rank 2
 * says that it has finished `finished`. */
static struct tt_collective *gather_behind_a_full_ring(struct world *world, uint64_t finished)
{
    struct tt_collective *barrier;
    struct tt_frame frame = {.type = TT_FRAME_GATHER};

    world_init(world, 0, 4, 4);
    for (uint32_t i = 0; i < 2; i++) {
        end_own(world, world_post(world, 0, (struct shape){.eager = true, .block_bytes = HALF, .chunk_bytes = 4096}));
    }
    world->member.eager.wanted = world->member.eager.rounds.sent = 0; /* the Broadcasts' own round does not count */
    barrier = world_post(world, 1, (struct shape){.gather = true});
    next_is_for(world, TT_ACTION_PUBLISH, barrier);
    next_is_for(world, TT_ACTION_FREEZE, barrier);
    no_more(&world->script);
    frame.body.gather.terms = barrier->config.terms;
    for (uint32_t rank = 1; rank < 4; rank++) {
        no_more(&world->script);
        frame.body.gather.least = tt_release_of(rank == 2 ? finished : 2);
        world_hear(world, 2, frame, rank, 2);
    }
    return barrier;
}

/* A frame for every rank that reports anyway, and nothing else. */
static void a_root_that_hears_from_all_asks_for_no_round(void **state)
{
    struct world world;
    struct tt_collective *barrier;

    (void)state;
    barrier = gather_behind_a_full_ring(&world, 2);
    next_is_for(&world, TT_ACTION_TRANSMIT, barrier);
    no_more(&world.script);
    assert_int_equal(world.member.eager.all_finished, 2);
    assert_int_equal(world.member.eager.wanted, 0);
    world_fini(&world);
}

/* It was in flight before the Broadcasts had ended there. */
static void a_root_that_hears_of_too_little_asks_for_a_round(void **state)
{
    struct world world;
    struct tt_collective *barrier;
    struct tt_frame ack = {.type = TT_FRAME_ACK};

    (void)state;
    barrier = gather_behind_a_full_ring(&world, 0);
    assert_int_equal(next_sends(&world.script, TT_FRAME_ACK, 1)->sequence, 2);
    no_more(&world.script);
    assert_false(barrier->sending.transmitting);
    world_hear(&world, 3, ack, 1, 2);
    next_sends(&world.script, TT_FRAME_ACK, 2);
    no_more(&world.script);
    ack.body.ack.round = 1;
    world_hear(&world, 4, ack, 2, 2);
    next_is_for(&world, TT_ACTION_TRANSMIT, barrier);
    no_more(&world.script);
    world_fini(&world);
}

static void acknowledgments_out_of_turn_are_dropped(void **state)
{
    struct world world;
    struct tt_frame ack = {.type = TT_FRAME_ACK};

    (void)state;
    set_up(&world);
    receive_one(&world, 0, 0);
    world_hear(&world, 1, ack, 2, 1);
    ack.body.ack.round = 2;
    world_hear(&world, 1, ack, 1, 1); /* from itself */
    world_hear(&world, 1, ack, 0, 1);
    no_more(&world.script);
    assert_int_equal(world.member.drops_frame, 3);
    assert_int_equal(world.member.eager.wanted, 0);
    world_fini(&world);
}

/* --- Leaving ------------------------------------------------------------------------------------------------------ */

static void who_flushes_finds_out_whether_all_have_finished(void **state)
{
    struct world world;
    struct tt_frame ack = {.type = TT_FRAME_ACK};

    (void)state;
    set_up(&world);
    assert_false(tt_member_owes(&world.member)); /* nothing was */
    receive_one(&world, 0, 0);
    assert_true(tt_member_owes(&world.member));
    world_answer(&world, 10, TT_MEMBER_FLUSH, NULL);
    assert_int_equal(next_sends(&world.script, TT_FRAME_ACK, 0)->sequence, 1);
    no_more(&world.script);
    world_hear(&world, 11, ack, 0, 1);
    next_sends(&world.script, TT_FRAME_ACK, 3);
    ack.body.ack.round = 1;
    assert_true(tt_member_owes(&world.member));
    world_hear(&world, 12, ack, 3, 1);
    no_more(&world.script);
    assert_false(tt_member_owes(&world.member));
    world_answer(&world, 13, TT_MEMBER_FLUSH, NULL); /* nothing to find out */
    no_more(&world.script);
    world_fini(&world);
}

static void in_a_group_that_has_failed_only_reads_that_have_begun_are_owed(void **state)
{
    struct world world;

    (void)state;
    set_up(&world);
    receive_one(&world, 0, 0);
    receive_one(&world, 0, BYTES);
    world_hear(&world, 21, fetch_of(0, CHUNKS, 1), 2, 1);
    world_peer_down(&world, 30, 3);
    assert_int_equal(world.member.status, TUTTI_ERR_PEER_FAILED);
    assert_true(tt_member_owes(&world.member));
    world_hear_type(&world, 31, TT_FRAME_FINAL, 2, 1);
    assert_false(tt_member_owes(&world.member));
    world_fini(&world);
    set_up(&world); /* the reader is dead */
    receive_one(&world, 0, 0);
    world_hear(&world, 21, fetch_of(0, CHUNKS, 1), 2, 0);
    world_peer_down(&world, 30, 2);
    assert_false(tt_member_owes(&world.member));
    world_fini(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_root_without_credit_is_released_by_a_round),
        cmocka_unit_test(a_root_without_credit_is_released_by_a_barrier),
        cmocka_unit_test(a_root_without_credit_is_released_by_a_release),
        cmocka_unit_test(a_root_without_credit_is_released_by_what_is_gathered_here),
        cmocka_unit_test(a_root_that_hears_from_all_asks_for_no_round),
        cmocka_unit_test(a_root_that_hears_of_too_little_asks_for_a_round),
        cmocka_unit_test(acknowledgments_out_of_turn_are_dropped),
        cmocka_unit_test(who_flushes_finds_out_whether_all_have_finished),
        cmocka_unit_test(in_a_group_that_has_failed_only_reads_that_have_begun_are_owed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
