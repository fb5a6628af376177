/* SPDX-License-Identifier: BSD-3-Clause */
/* Flow control: how far a rank lets roots go, what of it goes up and down the tree, and what a root makes of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "flow_world.h"

/* A report for every 32 turns. */
enum {
    WINDOW = 64,
    STEP = WINDOW / TT_FLOW_REPORTS,
    CHUNKS = 300,
    LONG_NS = 20 * 1000 * 1000, /* windows stay */
    BRANCHED = 20               /* ranks, of which not all tell vertex 0 themselves */
};

static const struct shape receiver = {.rank = 1, .size = 2, .block_bytes = 16 * CHUNKS, .window_chunks = WINDOW};

static struct world world;

static void a_receiver_reports_a_window_beyond_what_has_come_in_steps_of_a_half(void **state)
{
    (void)state;
    world_init(&world, &receiver, NULL);
    world_update(&world, 1);
    no_more(&world.script); /* what all have agreed on needs no telling */
    world_receive(&world, 0, 0, STEP - 1, LONG_NS);
    no_more(&world.script);
    world_receive(&world, 0, STEP - 1, 1, LONG_NS);
    next_tells(&world, TT_FRAME_CREDIT, 0, WINDOW + STEP);
    no_more(&world.script);
    world_receive(&world, 0, STEP, 84, LONG_NS);
    next_tells(&world, TT_FRAME_CREDIT, 0, 160); /* of 164 */
    no_more(&world.script);
    world_update(&world, 1);
    no_more(&world.script);
}

static void what_is_missing_of_a_step_is_known_in_chunks(void **state)
{
    (void)state;
    world_init(&world, &receiver, NULL);
    assert_int_equal(tt_flow_due(&world.collective), STEP);
    world_receive(&world, 0, 0, 10, LONG_NS);
    assert_int_equal(tt_flow_due(&world.collective), STEP - 10);
    memory_receive(&world.memory, 0, 10, STEP); /* of which nobody has taken note */
    assert_int_equal(tt_flow_due(&world.collective), 0);
    world_update(&world, LONG_NS);
    next_tells(&world, TT_FRAME_CREDIT, 0, WINDOW + STEP);
    assert_int_equal(tt_flow_due(&world.collective), 2 * STEP - 42);
    world_receive(&world, 0, 42, CHUNKS - WINDOW - 42, LONG_NS);
    assert_int_equal(tt_flow_due(&world.collective), TT_FLOW_ALL); /* all has been told */
}

static void a_lost_chunk_holds_nobody_up(void **state)
{
    (void)state;
    world_init(&world, &receiver, NULL);
    world_receive(&world, 0, 31, 1, LONG_NS); /* and none before it */
    next_tells(&world, TT_FRAME_CREDIT, 0, WINDOW + 32);
    no_more(&world.script);
}

static void roots_may_go_to_the_end_once_no_more_than_a_window_is_missing(void **state)
{
    (void)state;
    world_init(&world, &receiver, NULL);
    world_receive(&world, 0, 0, CHUNKS - WINDOW - 1, LONG_NS);
    next_tells(&world, TT_FRAME_CREDIT, 0, 288);
    world_receive(&world, 0, CHUNKS - WINDOW - 1, 1, LONG_NS);
    next_tells(&world, TT_FRAME_CREDIT, 0, TT_FLOW_ALL);
    no_more(&world.script);
    world_receive(&world, 0, CHUNKS - WINDOW, WINDOW, LONG_NS);
    no_more(&world.script);
}

static void who_takes_nothing_more_allows_everything(void **state)
{
    (void)state;
    world_init(&world, &receiver, NULL);
    tt_flow_stop(&world.collective);
    world_update(&world, 1);
    next_tells(&world, TT_FRAME_CREDIT, 0, TT_FLOW_ALL);
    no_more(&world.script);
    assert_int_equal(world.memory.link.users, 0);
}

/* Of so many, rank 2 has the child 3 in a binomial tree. */
static void a_vertex_reports_the_least_of_those_it_speaks_for(void **state)
{
    (void)state;
    world_init(&world,
               &(struct shape){.rank = 2, .size = BRANCHED, .block_bytes = 16 * CHUNKS, .window_chunks = WINDOW}, NULL);
    world_receive(&world, 0, 0, 100, LONG_NS);
    no_more(&world.script); /* rank 3 has not said anything */
    assert_true(world_hear(&world, TT_FRAME_CREDIT, 3, 96));
    world_update(&world, 1);
    next_tells(&world, TT_FRAME_CREDIT, 0, 96);
    assert_true(world_hear(&world, TT_FRAME_CREDIT, 3, 80)); /* an old one */
    world_update(&world, 1);
    no_more(&world.script);
    assert_true(world_hear(&world, TT_FRAME_CREDIT, 3, 240));
    world_update(&world, 1);
    next_tells(&world, TT_FRAME_CREDIT, 0, 160);
    no_more(&world.script);
}

static void reports_of_others_than_children_are_refused(void **state)
{
    (void)state;
    world_init(&world,
               &(struct shape){.rank = 2, .size = BRANCHED, .block_bytes = 16 * CHUNKS, .window_chunks = WINDOW}, NULL);
    assert_false(world_hear(&world, TT_FRAME_CREDIT, 0, 96));
    assert_false(world_hear(&world, TT_FRAME_CREDIT, 1, 96));
    assert_true(world_hear(&world, TT_FRAME_CREDIT, 3, 96));
    assert_false(world_hear(&world, TT_FRAME_GRANT, 0, 96)); /* a broadcast's root is told by reports */
}

static void a_broadcasts_root_may_go_as_far_as_the_least_report(void **state)
{
    (void)state;
    world_init(&world, &(struct shape){.rank = 0, .size = 3, .block_bytes = 16 * CHUNKS, .window_chunks = WINDOW},
               NULL);
    tt_flow_stop(&world.collective); /* it receives nothing */
    assert_int_equal(tt_flow_limit(&world.collective), WINDOW);
    world_hear(&world, TT_FRAME_CREDIT, 1, 200);
    world_update(&world, 1);
    assert_int_equal(tt_flow_limit(&world.collective), WINDOW);
    world_hear(&world, TT_FRAME_CREDIT, 2, 112);
    world_update(&world, 1);
    no_more(&world.script); /* there is nobody to tell */
    assert_int_equal(tt_flow_limit(&world.collective), 112);
    world_hear(&world, TT_FRAME_CREDIT, 1, TT_FLOW_ALL);
    world_hear(&world, TT_FRAME_CREDIT, 2, TT_FLOW_ALL);
    world_update(&world, 1);
    assert_int_equal(tt_flow_limit(&world.collective), CHUNKS);
}

/* --- Several roots ------------------------------------------------------------------------------------------------ */

static struct shape allgather(uint32_t rank, uint32_t size, uint32_t chains)
{
    return (struct shape){.kind = TT_ALLGATHER,
                          .rank = rank,
                          .size = size,
                          .chains = chains,
                          .block_bytes = 16 * CHUNKS,
                          .window_chunks = WINDOW};
}

static void turns_go_round_robin_over_the_roots(void **state)
{
    static const struct {
        uint32_t turns, limits[3];
    } cases[] = {{64, {22, 21, 21}},
                 {65, {22, 22, 21}},
                 {66, {22, 22, 22}},
                 {67, {23, 22, 22}},
                 {899, {300, 300, 299}},
                 {900, {300, 300, 300}},
                 {TT_FLOW_ALL, {300, 300, 300}}};

    (void)state;
    for (uint32_t rank = 0; rank < 3; rank++) {
        struct shape shape = allgather(rank, 3, 3);

        for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
            world_init(&world, &shape, NULL);
            world.collective.flow.granted = cases[i].turns;
            assert_int_equal(tt_flow_limit(&world.collective), cases[i].limits[rank]);
        }
    }
}

/* A window may be smaller than a chunk a root: they take turns then. */
static void more_roots_than_fit_a_window_take_turns(void **state)
{
    (void)state;
    for (uint32_t rank = 0; rank < 16; rank++) {
        struct shape shape = allgather(rank, 16, 16);

        shape.window_chunks = 8;
        world_init(&world, &shape, NULL);
        assert_int_equal(tt_flow_limit(&world.collective), rank < 8 ? 1 : 0);
        world.collective.flow.granted = 20;
        assert_int_equal(tt_flow_limit(&world.collective), rank < 4 ? 2 : 1);
    }
}

/* Of two others' chunks a window may be on the way: 64 more of 300 turns are 96, as this rank's own chunks do not come.
 */
static void the_own_block_is_not_waited_for(void **state)
{
    struct shape shape = allgather(1, 3, 3);

    (void)state;
    world_init(&world, &shape, NULL);
    world_receive(&world, 0, 0, 20, LONG_NS);
    next_tells(&world, TT_FRAME_CREDIT, 0, 96); /* (20 + 64) * 3 / 2 = 126 */
    world_receive(&world, 2, 0, 20, LONG_NS);
    next_tells(&world, TT_FRAME_CREDIT, 0, 128); /* (40 + 64) * 3 / 2 = 156 */
    no_more(&world.script);
}

/* Rank 1 stands still; the others may go on until all of the window would be its chunks. */
static void a_root_that_stands_still_does_not_hold_the_others_up_at_once(void **state)
{
    struct shape shape = allgather(2, 4, 4);
    uint32_t granted = WINDOW, come = 0;

    (void)state;
    world_init(&world, &shape, NULL);
    world_hear(&world, TT_FRAME_CREDIT, 3, TT_FLOW_ALL);
    for (uint32_t i = 0; i < 20 && granted / 4 > come; i++) {
        come = granted / 4;
        world_receive(&world, 0, 0, come, LONG_NS);
        world_receive(&world, 3, 0, come, LONG_NS);
        granted = world.collective.flow.own;
    }
    /* 3 lanes' limit is k where 2 k + 64 = 3 k. */
    assert_in_range(come, 40, 64);
    world_receive(&world, 1, 0, 16, LONG_NS); /* and when it goes on, so do they */
    assert_true(world.collective.flow.own > granted);
}

static void lanes_that_are_through_leave_the_window_to_the_others(void **state)
{
    struct shape shape = allgather(0, 3, 3);

    (void)state;
    world_init(&world, &shape, NULL);
    world_receive(&world, 1, 0, CHUNKS, LONG_NS);
    world_receive(&world, 2, 0, 100, LONG_NS);
    assert_int_equal(world.collective.flow.own, (100 + WINDOW) * 3);
    world_receive(&world, 2, 100, CHUNKS - 100, LONG_NS);
    assert_int_equal(world.collective.flow.own, TT_FLOW_ALL);
}

/* What vertex 0 grants is the least of what its children say, all others, and of its own. */
static void vertex_0_of_a_small_group_hears_all_others_and_grants_its_children(void **state)
{
    struct shape shape = allgather(0, 6, 6);

    (void)state;
    world_init(&world, &shape, NULL);
    world_hear(&world, TT_FRAME_CREDIT, 1, 96);
    world_hear(&world, TT_FRAME_CREDIT, 2, 112);
    world_hear(&world, TT_FRAME_CREDIT, 4, TT_FLOW_ALL);
    world_hear(&world, TT_FRAME_CREDIT, 5, TT_FLOW_ALL);
    world_receive(&world, 1, 0, 100, LONG_NS);
    no_more(&world.script); /* 3 has not said anything */
    assert_true(world_hear(&world, TT_FRAME_CREDIT, 3, 192));
    world_update(&world, 1);
    for (uint32_t rank = 1; rank < 6; rank *= 2) { /* they go down another tree */
        next_tells(&world, TT_FRAME_GRANT, rank, 96);
    }
    no_more(&world.script);
    assert_int_equal(tt_flow_limit(&world.collective), 16);
    shape.rank = 4;
    world_init(&world, &shape, NULL);
    assert_false(world_hear(&world, TT_FRAME_CREDIT, 5, 96));
    assert_true(world_hear(&world, TT_FRAME_GRANT, 0, 96));
    next_tells(&world, TT_FRAME_GRANT, 5, 96);
    no_more(&world.script);
    assert_int_equal(tt_flow_limit(&world.collective), 16); /* turns 4, 10, ... 94 */
    assert_false(world_hear(&world, TT_FRAME_GRANT, 5, 200));
    assert_false(world_hear(&world, TT_FRAME_GRANT, 1, 200));
    assert_int_equal(tt_flow_limit(&world.collective), 16);
    assert_true(world_hear(&world, TT_FRAME_GRANT, 0, 64)); /* an old one */
    assert_int_equal(tt_flow_limit(&world.collective), 16);
}

/* Of so many, vertex 0's children are 1, 2, 4, 8 and 16, and 4's are 5 and 6. */
static void vertex_0_of_a_large_group_grants_and_each_vertex_passes_it_on(void **state)
{
    struct shape shape = allgather(0, BRANCHED, 4);

    (void)state;
    world_init(&world, &shape, NULL);
    for (uint32_t rank = 1; rank < BRANCHED; rank *= 2) {
        world_hear(&world, TT_FRAME_CREDIT, rank, 60 + 32 * rank);
    }
    world_receive(&world, 1, 0, 100, LONG_NS);
    for (uint32_t rank = 1; rank < BRANCHED; rank *= 2) {
        next_tells(&world, TT_FRAME_GRANT, rank, 92);
    }
    no_more(&world.script);
    assert_int_equal(tt_flow_limit(&world.collective), 23); /* turns 0, 4, ... 88 */
    shape.rank = 4;
    world_init(&world, &shape, NULL);
    assert_true(world_hear(&world, TT_FRAME_GRANT, 0, 96));
    next_tells(&world, TT_FRAME_GRANT, 5, 96);
    next_tells(&world, TT_FRAME_GRANT, 6, 96);
    no_more(&world.script);
    assert_int_equal(tt_flow_limit(&world.collective), 0); /* behind the four before it in its lane */
}

static void the_roots_of_a_chain_send_one_after_the_other(void **state)
{
    static const uint32_t limits[4] = {300, 100, 300, 100};

    (void)state;
    for (uint32_t rank = 0; rank < 4; rank++) {
        struct shape shape = allgather(rank, 4, 2);

        world_init(&world, &shape, NULL);
        world.collective.flow.granted = 800; /* 400 of each chain */
        assert_int_equal(tt_flow_limit(&world.collective), limits[rank]);
        world.collective.flow.granted = 600;
        assert_int_equal(tt_flow_limit(&world.collective), rank % 2 == 0 ? 300 : 0);
    }
}

static void a_lane_goes_past_the_own_block(void **state)
{
    struct shape shape = allgather(1, 4, 2);

    (void)state;
    world_init(&world, &shape, NULL);
    world_receive(&world, 0, 0, CHUNKS, LONG_NS);
    assert_int_equal(world.collective.flow.own, 2 * WINDOW); /* it is through; the window is the other's */
}

/* --- Subgroups ---------------------------------------------------------------------------------------------------- */

static void chunks_of_all_subgroups_count_together(void **state)
{
    struct shape shape = receiver;

    (void)state;
    shape.subgroups = 3;
    world_init(&world, &shape, NULL);
    memory_receive(&world.memory, 0, 0, 11);
    memory_receive(&world.memory, 1, 0, 11);
    world_update(&world, 1);
    no_more(&world.script);
    memory_receive(&world.memory, 2, 0, 10);
    world_update(&world, 1);
    next_tells(&world, TT_FRAME_CREDIT, 0, WINDOW + STEP);
    no_more(&world.script);
}

/* --- What is not heard -------------------------------------------------------------------------------------------- */

static void a_root_that_hears_nothing_goes_on_by_a_window(void **state)
{
    struct shape shape = allgather(1, 3, 3);

    (void)state;
    world_init(&world, &shape, NULL);
    tt_flow_stalled(&world.collective);
    assert_int_equal(world.collective.flow.granted, 2 * WINDOW);
    world_hear(&world, TT_FRAME_GRANT, 0, WINDOW + STEP); /* late */
    assert_int_equal(world.collective.flow.granted, 2 * WINDOW);
    world.collective.flow.granted = TT_FLOW_ALL - 1;
    tt_flow_stalled(&world.collective);
    assert_int_equal(world.collective.flow.granted, TT_FLOW_ALL);
}

static void where_receive_queues_hold_little_a_root_waits_for_a_shorter_time(void **state)
{
    struct shape shape = allgather(1, 3, 3);

    (void)state;
    world_init(&world, &shape, NULL);
    assert_int_equal(tt_flow_patience(&world.collective), MACHINE_STALL_NS);
    world.memory.link.queue_bytes = TT_LINK_LEAST_BYTES;
    assert_int_equal(tt_flow_patience(&world.collective), MACHINE_STALL_NS);
    world.memory.link.queue_bytes = TT_LINK_LEAST_BYTES / 4;
    assert_int_equal(tt_flow_patience(&world.collective), MACHINE_STALL_NS / 4);
    world.memory.link.queue_bytes = 2304; /* the least that Linux gives */
    assert_int_equal(tt_flow_patience(&world.collective), MACHINE_STALL_NS / 50);
}

/* The others may have agreed on less than this rank's window: it counts on the least there is, and tells every turn. */
static void without_the_release_every_turn_is_told(void **state)
{
    struct tt_release agreed = tt_release_of(0);

    (void)state;
    world_init(&world, &receiver, NULL);
    tt_flow_stop(&world.collective);
    tt_flow_reset(&world.collective);
    world.memory.link.window_bytes *= 4;
    tt_flow_start(&world.collective, NULL);
    assert_int_equal(world.collective.flow.own, WINDOW);
    world_receive(&world, 0, 0, 1, LONG_NS);
    next_tells(&world, TT_FRAME_CREDIT, 0, 4 * WINDOW + 1);
    world_receive(&world, 0, 1, 1, LONG_NS);
    next_tells(&world, TT_FRAME_CREDIT, 0, 4 * WINDOW + 2);
    agreed.window_chunks = WINDOW;
    tt_flow_start(&world.collective, &agreed); /* it comes after all */
    world_receive(&world, 0, 2, 1, LONG_NS);
    no_more(&world.script);
    world_receive(&world, 0, 3, 29, LONG_NS);
    next_tells(&world, TT_FRAME_CREDIT, 0, 4 * WINDOW + STEP);
    assert_int_equal(world.memory.link.users, 1);
}

/* More than the least window that there is, but not more than all have. */
static void what_fits_the_agreed_window_is_allowed_at_once(void **state)
{
    struct tt_release agreed = tt_release_of(0);
    struct shape shape = receiver;

    (void)state;
    agreed.window_chunks = CHUNKS;
    for (shape.rank = 0; shape.rank < 2; shape.rank++) {
        world_init(&world, &shape, NULL);
        assert_true(tt_flow_is_long(&world.collective));
        tt_flow_stop(&world.collective);
        tt_flow_reset(&world.collective);
        world.memory.link.window_bytes *= 5;
        tt_flow_start(&world.collective, &agreed);
        assert_false(tt_flow_is_long(&world.collective));
        assert_true(shape.rank != 0 || tt_flow_limit(&world.collective) == CHUNKS);
    }
    for (uint32_t i = 0; i < CHUNKS; i++) {
        world_receive(&world, 0, i, 1, 1);
        no_more(&world.script);
    }
}

static void what_fits_the_least_window_needs_no_credit(void **state)
{
    struct shape shape = receiver;

    (void)state;
    shape.block_bytes = 16 * WINDOW;
    world_init(&world, &shape, NULL);
    assert_false(world.collective.flow.enabled);
    world_receive(&world, 0, 0, WINDOW, LONG_NS);
    no_more(&world.script);
    assert_false(world_hear(&world, TT_FRAME_CREDIT, 1, 5));
    assert_int_equal(world.memory.link.users, 0);
    shape.rank = 0;
    world_init(&world, &shape, NULL);
    assert_int_equal(tt_flow_limit(&world.collective), WINDOW);
}

/* What is lost in a row is longer than the part in which chunks are looked for. */
static void a_long_gap_is_found_in_the_end(void **state)
{
    enum { MANY = 9000 };
    struct shape shape = receiver;
    uint32_t before;

    (void)state;
    shape.block_bytes = 16 * MANY;
    world_init(&world, &shape, NULL);
    world_receive(&world, 0, 8000, 1, LONG_NS);
    for (uint32_t i = 1; i < 100; i++) {
        before = world.collective.flow.own;
        world_receive(&world, 0, 8000 + i, 1, LONG_NS);
        assert_true(world.collective.flow.own >= before);
    }
    assert_true(world.collective.flow.own >= 8000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_receiver_reports_a_window_beyond_what_has_come_in_steps_of_a_half),
        cmocka_unit_test(what_is_missing_of_a_step_is_known_in_chunks),
        cmocka_unit_test(a_lost_chunk_holds_nobody_up),
        cmocka_unit_test(roots_may_go_to_the_end_once_no_more_than_a_window_is_missing),
        cmocka_unit_test(who_takes_nothing_more_allows_everything),
        cmocka_unit_test(a_vertex_reports_the_least_of_those_it_speaks_for),
        cmocka_unit_test(reports_of_others_than_children_are_refused),
        cmocka_unit_test(a_broadcasts_root_may_go_as_far_as_the_least_report),
        cmocka_unit_test(turns_go_round_robin_over_the_roots),
        cmocka_unit_test(more_roots_than_fit_a_window_take_turns),
        cmocka_unit_test(the_own_block_is_not_waited_for),
        cmocka_unit_test(a_root_that_stands_still_does_not_hold_the_others_up_at_once),
        cmocka_unit_test(lanes_that_are_through_leave_the_window_to_the_others),
        cmocka_unit_test(vertex_0_of_a_small_group_hears_all_others_and_grants_its_children),
        cmocka_unit_test(vertex_0_of_a_large_group_grants_and_each_vertex_passes_it_on),
        cmocka_unit_test(the_roots_of_a_chain_send_one_after_the_other),
        cmocka_unit_test(a_lane_goes_past_the_own_block),
        cmocka_unit_test(chunks_of_all_subgroups_count_together),
        cmocka_unit_test(a_root_that_hears_nothing_goes_on_by_a_window),
        cmocka_unit_test(where_receive_queues_hold_little_a_root_waits_for_a_shorter_time),
        cmocka_unit_test(without_the_release_every_turn_is_told),
        cmocka_unit_test(what_fits_the_agreed_window_is_allowed_at_once),
        cmocka_unit_test(what_fits_the_least_window_needs_no_credit),
        cmocka_unit_test(a_long_gap_is_found_in_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
