/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank's membership where all goes well: sequence numbers, the line, and leaving. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "member_world.h"

static const struct shape plain = {.block_bytes = WORLD_BYTES};

static struct memory *memory_of(const struct tt_collective *collective)
{
    return &((struct request *)collective->owner)->memory;
}

/* Takes a receiver's collective of a group of two from the end of its barrier to its end. */
static void complete(struct world *world, struct tt_collective *collective)
{
    memory_receive_all(memory_of(collective));
    world_tick(world, 10);
    world_answer(world, 11, TT_MEMBER_FROZEN, collective);
    world_hear_type(world, 12, TT_FRAME_FINAL, 0, collective->sequence);
    assert_int_equal(collective->state, TT_COLLECTIVE_FINISHED);
}

/* The root, rank 0 of two: what is left from the step on that ended its barrier. */
static void next_begins(struct world *world, const struct tt_collective *collective, bool has_turn)
{
    if (has_turn) { /* else that comes with it */
        assert_int_equal(next_sends(&world->script, TT_FRAME_FINAL, 1)->sequence, collective->sequence);
    }
    next_is_for(world, TT_ACTION_FREEZE, collective);
    if (has_turn) {
        next_is_for(world, TT_ACTION_TRANSMIT, collective);
    }
}

/* And the rest of it, once its data has been sent. */
static void complete_root(struct world *world, struct tt_collective *collective)
{
    world_answer(world, 12, TT_MEMBER_FROZEN, collective);
    world_hear_type(world, 13, TT_FRAME_FINAL, 1, collective->sequence);
    assert_int_equal(collective->state, TT_COLLECTIVE_FINISHED);
}

static void posts_get_sequence_numbers_in_order(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, 1, 2, 4);
    for (uint32_t i = 0; i < 3; i++) {
        struct tt_collective *collective = world_post(&world, i, plain);

        assert_int_equal(collective->sequence, i);
        next_is_for(&world, TT_ACTION_PUBLISH, collective);
        assert_int_equal(next_sends(&world.script, TT_FRAME_GATHER, 0)->sequence, i);
        no_more(&world.script);
        assert_true(collective->timeout.deadline_ns == i + MACHINE_TIMEOUT_NS);
    }
    world_fini(&world);
}

static void a_timeout_beyond_the_end_of_time_is_none(void **state)
{
    struct world world;
    struct tt_collective *collective;

    (void)state;
    world_init(&world, 1, 2, 4);
    collective = world_request(&world, plain);
    collective->config.timeout_ns = UINT64_MAX;
    world_answer(&world, 5, TT_MEMBER_POST, collective);
    assert_true(collective->timeout.deadline_ns == UINT64_MAX);
    assert_true(tt_member_deadline(&world.member) == UINT64_MAX);
    world_tick(&world, UINT64_MAX - 1);
    assert_int_equal(world.member.status, TUTTI_OK);
    world_fini(&world);
}

static void posts_beyond_what_may_be_in_flight_wait_in_line(void **state)
{
    struct world world;
    struct tt_collective *collectives[5];

    (void)state;
    world_init(&world, 0, 2, 2);
    for (uint32_t i = 0; i < 5; i++) {
        collectives[i] = world_post(&world, 0, plain);
        if (i < 2) {
            next_is_for(&world, TT_ACTION_PUBLISH, collectives[i]);
        }
        no_more(&world.script);
    }
    for (uint32_t i = 2; i < 4; i++) { /* the other rank may be a whole flight ahead, but is not further */
        world_hear_gather(&world, 1, collectives[i], 1, i);
        no_more(&world.script);
    }
    for (uint32_t i = 0; i < 2; i++) {
        world_hear_gather(&world, 1, collectives[i], 1, i);
        next_begins(&world, collectives[i], i == 0);
        no_more(&world.script);
    }
    assert_int_equal(world.member.drops_frame, 0);
    world_answer(&world, 11, TT_MEMBER_SENT, collectives[0]); /* now it is the other one's turn */
    assert_int_equal(next_sends(&world.script, TT_FRAME_FINAL, 1)->sequence, 1);
    next_is_for(&world, TT_ACTION_TRANSMIT, collectives[1]);
    no_more(&world.script);
    world_answer(&world, 11, TT_MEMBER_SENT, collectives[1]);
    complete_root(&world, collectives[1]); /* out of order: no room before 0 has ended */
    next_finishes(&world, collectives[1], TUTTI_OK, TT_RANK_NONE);
    no_more(&world.script);
    assert_int_equal(collectives[2]->state, TT_COLLECTIVE_IDLE);
    complete_root(&world, collectives[0]);
    next_finishes(&world, collectives[0], TUTTI_OK, TT_RANK_NONE);
    for (uint32_t i = 2; i < 4; i++) { /* two at once, both with early frames */
        next_is_for(&world, TT_ACTION_PUBLISH, collectives[i]);
        next_begins(&world, collectives[i], i == 2);
        assert_int_equal(collectives[i]->state, TT_COLLECTIVE_HANDSHAKE);
    }
    no_more(&world.script);
    assert_int_equal(collectives[4]->state, TT_COLLECTIVE_IDLE);
    world_fini(&world);
}

static void late_frames_are_ignored(void **state)
{
    struct world world;
    struct tt_collective *first;

    (void)state;
    world_init(&world, 1, 2, 2);
    first = world_post(&world, 0, plain);
    complete(&world, first);
    for (uint32_t type = 1; type < TT_FRAME_TYPE_COUNT; type++) {
        if (type < TT_FRAME_PROBE) {
            world_hear_type(&world, 20, (enum tt_frame_type)type, 0, 0);
            no_more(&world.script);
        }
    }
    assert_int_equal(world.member.drops_frame, 0);
    world_fini(&world);
}

static void frames_from_nobody_or_oneself_are_dropped(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, 1, 4, 2);
    for (uint32_t type = 1; type < TT_FRAME_TYPE_COUNT; type++) {
        world_hear_type(&world, 1, (enum tt_frame_type)type, 4, 0);
        world_hear_type(&world, 1, (enum tt_frame_type)type, 1, 0);
        world_hear_type(&world, 1, (enum tt_frame_type)type, TT_RANK_NONE, 0);
        no_more(&world.script);
        assert_int_equal(world.member.drops_frame, 3 * type);
    }
    assert_int_equal(world.member.status, TUTTI_OK);
    world_fini(&world);
}

static void the_deadline_is_the_earliest_of_all(void **state)
{
    struct world world;
    struct tt_collective *slow, *fast;

    (void)state;
    world_init(&world, 1, 2, 4);
    assert_true(tt_member_deadline(&world.member) == UINT64_MAX);
    slow = world_post(&world, 100, plain);
    assert_true(tt_member_deadline(&world.member) == 100 + MACHINE_TIMEOUT_NS - MACHINE_ROLLCALL_NS);
    fast = world_post(&world, 200, plain);
    world_release(&world, 300, fast, 0);
    assert_true(tt_member_deadline(&world.member) == 300 + MACHINE_WIRE_NS + MACHINE_ALPHA_NS);
    world_release(&world, 250, slow, 0);
    assert_true(tt_member_deadline(&world.member) == 250 + MACHINE_WIRE_NS + MACHINE_ALPHA_NS);
    world_fini(&world);
}

static void the_start_up_probe_is_the_members_too(void **state)
{
    struct world world;
    struct tt_frame frame = {.type = TT_FRAME_PROBE,
                             .body.probe = {.phase = TT_PHASE_RESULT, .heard_all = 1, .failed_rank = TT_RANK_NONE}};

    (void)state;
    world_init(&world, 1, 2, 4);
    atomic_store(&world.heard[0], 1);
    world_step(&world, &(struct tt_member_event){.type = TT_MEMBER_PROBE, .now_ns = 5});
    next_is(&world.script, TT_ACTION_PROBE);
    assert_int_equal(next_sends(&world.script, TT_FRAME_PROBE, 0)->body.probe.phase, TT_PHASE_VOTE);
    no_more(&world.script); /* it has heard everybody */
    assert_true(tt_member_deadline(&world.member) == 5 + TT_PROBE_INTERVAL_NS);
    world_tick(&world, 5 + TT_PROBE_INTERVAL_NS);
    next_is(&world.script, TT_ACTION_PROBE);
    no_more(&world.script);
    world_hear(&world, 6 + TT_PROBE_INTERVAL_NS, frame, 0, 0);
    next_is(&world.script, TT_ACTION_PROBED);
    no_more(&world.script);
    assert_int_equal(world.member.drops_frame, 0);
    frame.body.probe.phase = TT_PHASE_VOTE; /* of its parent, to whom it votes */
    world_hear(&world, 7 + TT_PROBE_INTERVAL_NS, frame, 0, 0);
    no_more(&world.script);
    assert_int_equal(world.member.drops_frame, 1);
    world_fini(&world);
}

static void frames_that_a_collective_refuses_are_counted(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, 1, 4, 2);
    world_post(&world, 0, plain);
    world_hear_type(&world, 1, TT_FRAME_FINAL, 3, 0);
    assert_int_equal(world.member.drops_frame, 1);
    no_more(&world.script);
    world_fini(&world);
}

/* --- Leaving ------------------------------------------------------------------------------------------------------ */

static void who_leaves_tells_its_neighbours_how_far_it_took_part(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, 0, 4, 4);
    world_post(&world, 0, plain);
    world_post(&world, 0, plain);
    world_hear_type(&world, 1, TT_FRAME_BYE, 2, 9);
    no_more(&world.script);
    world_step(&world, &(struct tt_member_event){.type = TT_MEMBER_LEAVE, .now_ns = 2});
    assert_int_equal(next_sends(&world.script, TT_FRAME_BYE, 1)->sequence, 2);
    assert_int_equal(next_sends(&world.script, TT_FRAME_BYE, 3)->sequence, 2);
    no_more(&world.script); /* 2 has left before */
    world_fini(&world);
}

static void a_neighbour_that_took_part_in_all_may_leave(void **state)
{
    struct world world;
    struct tt_collective *first;

    (void)state;
    world_init(&world, 1, 2, 4);
    first = world_post(&world, 0, plain);
    world_release(&world, 1, first, 0);
    memory_receive_all(memory_of(first));
    world_tick(&world, 2);
    world_hear_type(&world, 3, TT_FRAME_FINAL, 0, 0);
    world_hear_type(&world, 4, TT_FRAME_BYE, 0, 1); /* it has finished, this rank has not yet */
    no_more(&world.script);
    world_peer_down(&world, 5, 0); /* the connection of one that left ends */
    no_more(&world.script);
    assert_int_equal(world.member.status, TUTTI_OK);
    world_answer(&world, 6, TT_MEMBER_FROZEN, first);
    next_finishes(&world, first, TUTTI_OK, TT_RANK_NONE);
    no_more(&world.script);
    world_fini(&world);
}

static void a_neighbour_that_leaves_what_is_posted_here_ends_the_group(void **state)
{
    struct world world;
    struct tt_collective *first;

    (void)state;
    world_init(&world, 0, 4, 4);
    first = world_post(&world, 0, plain);
    world_hear_type(&world, 1, TT_FRAME_BYE, 1, 0);
    next_tells_failure(&world, 3, TUTTI_ERR_PEER_FAILED, 1);
    next_tells_failure(&world, 2, TUTTI_ERR_PEER_FAILED, 1);
    next_is_for(&world, TT_ACTION_FREEZE, first);
    no_more(&world.script);
    world_fini(&world);
}

static void posting_what_a_neighbour_has_left_ends_the_group(void **state)
{
    struct world world;
    struct tt_collective *first;

    (void)state;
    world_init(&world, 0, 4, 4);
    world_hear_type(&world, 1, TT_FRAME_BYE, 2, 0);
    no_more(&world.script);
    assert_int_equal(world.member.status, TUTTI_OK);
    first = world_post(&world, 2, plain);
    next_tells_failure(&world, 1, TUTTI_ERR_PEER_FAILED, 2);
    next_tells_failure(&world, 3, TUTTI_ERR_PEER_FAILED, 2);
    next_finishes(&world, first, TUTTI_ERR_PEER_FAILED, 2);
    no_more(&world.script);
    world_fini(&world);
}

static void goodbyes_from_ranks_that_are_no_neighbours_are_dropped(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, 0, 20, 4); /* 1, 19, 2, 18, 4, 16, 8, 12; 3, 5 */
    world_post(&world, 0, plain);
    world_hear_type(&world, 1, TT_FRAME_BYE, 7, 0);
    world_peer_down(&world, 1, 6);
    no_more(&world.script);
    assert_int_equal(world.member.drops_frame, 1);
    assert_int_equal(world.member.status, TUTTI_OK);
    world_fini(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(posts_get_sequence_numbers_in_order),
        cmocka_unit_test(a_timeout_beyond_the_end_of_time_is_none),
        cmocka_unit_test(posts_beyond_what_may_be_in_flight_wait_in_line),
        cmocka_unit_test(late_frames_are_ignored),
        cmocka_unit_test(frames_from_nobody_or_oneself_are_dropped),
        cmocka_unit_test(the_deadline_is_the_earliest_of_all),
        cmocka_unit_test(the_start_up_probe_is_the_members_too),
        cmocka_unit_test(who_leaves_tells_its_neighbours_how_far_it_took_part),
        cmocka_unit_test(a_neighbour_that_took_part_in_all_may_leave),
        cmocka_unit_test(a_neighbour_that_leaves_what_is_posted_here_ends_the_group),
        cmocka_unit_test(posting_what_a_neighbour_has_left_ends_the_group),
        cmocka_unit_test(goodbyes_from_ranks_that_are_no_neighbours_are_dropped),
        cmocka_unit_test(frames_that_a_collective_refuses_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
