/* SPDX-License-Identifier: BSD-3-Clause */
/* Flow control by credit: quanta, what a rank has consumed, and the minimum over a subtree. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "credit_world.h"

/* A broadcast of 1,000 chunks from rank 1 among four; the tree is 1 - (2, 3 - 0). Quantum: 32. */
static void set_up_broadcast(struct world *world, uint32_t rank)
{
    world_init(world, &(struct shape){.rank = rank, .size = 4, .root = 1, .block_bytes = 16000, .depth_chunks = 64});
}

static void a_quantum_is_half_a_queue_shared_by_the_chains_but_not_too_small(void **state)
{
    struct world world;
    struct shape shape = {.kind = TT_ALLGATHER, .size = 4, .block_bytes = 16 * 2000, .depth_chunks = 1000};

    (void)state;
    world_init(&world, &shape);
    assert_int_equal(world.credit.quantum, 500);
    shape.chains = 2;
    world_init(&world, &shape);
    assert_int_equal(world.credit.quantum, 250);
    shape.depth_chunks = 3;
    world_init(&world, &shape);
    assert_int_equal(world.credit.quantum, TT_CREDIT_MIN_QUANTUM);
}

static void what_fits_the_queues_needs_no_credit(void **state)
{
    struct world world;
    struct shape shape = {.rank = 1, .size = 2, .block_bytes = 16 * 64, .depth_chunks = 64};

    (void)state;
    world_init(&world, &shape);
    assert_false(world.credit.enabled);
    assert_false(tt_credit_child(&world.credit, 0, 5));
    memory_receive_all(&world.memory);
    world_update(&world, true);
    no_more(&world.script);
    shape.rank = 0;
    world_init(&world, &shape);
    assert_int_equal(tt_credit_limit(&world.credit, 0), 64);
    shape.block_bytes += 1;
    world_init(&world, &shape);
    assert_true(world.credit.enabled);
    shape.size = 1;
    world_init(&world, &shape);
    assert_false(world.credit.enabled);
}

static void a_whole_chain_counts_for_whether_credit_is_needed(void **state)
{
    struct world world;
    struct shape shape = {.kind = TT_ALLGATHER, .size = 5, .block_bytes = 16 * 22, .depth_chunks = 64, .chains = 2};

    (void)state;
    world_init(&world, &shape); /* 3 blocks of 22 chunks in the longer chain, quantum 16 */
    assert_true(world.credit.enabled);
    shape.block_bytes = 16 * 10;
    world_init(&world, &shape); /* 30 chunks */
    assert_false(world.credit.enabled);
}

static void a_leaf_reports_each_quantum_that_it_has_consumed(void **state)
{
    struct world world;

    (void)state;
    set_up_broadcast(&world, 2);
    world_expect_nothing(&world);
    memory_receive(&world.memory, 0, 0, 31);
    world_expect_nothing(&world);
    memory_receive(&world.memory, 0, 31, 1);
    world_update(&world, false);
    world_next_report(&world, 1, 1);
    world_expect_nothing(&world);
    memory_receive(&world.memory, 0, 32, 70);
    world_update(&world, false);
    world_next_report(&world, 1, 3);
}

static void lost_chunks_hold_nobody_up(void **state)
{
    struct world world;

    (void)state;
    set_up_broadcast(&world, 2);
    memory_receive(&world.memory, 0, 63, 1);
    world_update(&world, false);
    world_next_report(&world, 1, 2);
    memory_receive(&world.memory, 0, 3, 40); /* late ones, below */
    world_expect_nothing(&world);
    memory_receive(&world.memory, 0, 159, 1); /* a whole three quanta on */
    world_update(&world, false);
    world_next_report(&world, 1, 5);
    world_expect_nothing(&world);
}

static void an_inner_rank_reports_the_least_of_its_subtree(void **state)
{
    struct world world;

    (void)state;
    set_up_broadcast(&world, 3);
    memory_receive(&world.memory, 0, 0, 96);
    world_expect_nothing(&world);
    assert_true(tt_credit_child(&world.credit, 0, 2));
    world_update(&world, false);
    world_next_report(&world, 1, 2);
    assert_true(tt_credit_child(&world.credit, 0, 1)); /* overtaken by the other */
    world_expect_nothing(&world);
    assert_true(tt_credit_child(&world.credit, 0, 7));
    world_update(&world, false);
    world_next_report(&world, 1, 3);
}

static void reports_of_ranks_that_are_no_children_are_refused(void **state)
{
    struct world world;

    (void)state;
    set_up_broadcast(&world, 3);
    assert_false(tt_credit_child(&world.credit, 1, 5)); /* the parent, vertex 0 */
    assert_false(tt_credit_child(&world.credit, 2, 5));
    assert_false(tt_credit_child(&world.credit, 3, 5));
    set_up_broadcast(&world, 1);
    assert_false(tt_credit_child(&world.credit, 0, 5)); /* a grandchild */
    assert_true(tt_credit_child(&world.credit, 2, 5));
    assert_true(tt_credit_child(&world.credit, 3, 5));
}

static void a_finished_rank_reports_all_as_soon_as_its_children_have(void **state)
{
    struct world world;

    (void)state;
    set_up_broadcast(&world, 3);
    world_update(&world, true);
    no_more(&world.script);
    assert_true(tt_credit_child(&world.credit, 0, 9));
    world_update(&world, true);
    world_next_report(&world, 1, 9);
    assert_true(tt_credit_child(&world.credit, 0, TT_CREDIT_ALL));
    world_update(&world, true);
    world_next_report(&world, 1, TT_CREDIT_ALL);
    world_update(&world, true);
    no_more(&world.script);
}

static void a_broadcasts_root_is_granted_what_all_others_have_consumed(void **state)
{
    struct world world;

    (void)state;
    set_up_broadcast(&world, 1);
    assert_int_equal(tt_credit_limit(&world.credit, 0), 64);
    world_update(&world, true); /* it has everything itself */
    tt_credit_child(&world.credit, 2, 3);
    world_update(&world, true);
    no_more(&world.script);
    assert_int_equal(tt_credit_limit(&world.credit, 0), 64);
    tt_credit_child(&world.credit, 3, 1);
    world_update(&world, true);
    no_more(&world.script); /* nobody else is a root */
    assert_int_equal(tt_credit_limit(&world.credit, 0), 96);
    tt_credit_child(&world.credit, 3, TT_CREDIT_ALL);
    world_update(&world, true);
    assert_int_equal(tt_credit_limit(&world.credit, 0), 160);
    tt_credit_child(&world.credit, 2, TT_CREDIT_ALL);
    world_update(&world, true);
    assert_int_equal(tt_credit_limit(&world.credit, 0), 1000);
}

/* Four roots with 40 chunks each in two chains of two; quantum 16. The tree is 0 - (1, 2 - 3). */
static void set_up_allgather(struct world *world, uint32_t rank)
{
    world_init(
        world,
        &(struct shape){
            .kind = TT_ALLGATHER, .rank = rank, .size = 4, .block_bytes = 16 * 40, .chains = 2, .depth_chunks = 64});
}

/* Three roots of 40 chunks in one chain; this rank's block is the second one, chunks 40 .. 79; quantum 16. */
static void set_up_middle(struct world *world)
{
    world_init(world,
               &(struct shape){.kind = TT_ALLGATHER, .rank = 1, .size = 3, .block_bytes = 16 * 40, .depth_chunks = 32});
    tt_stream_mark(&world->memory.streams[0], 40, 40); /* as a reset does */
}

static void the_own_block_is_not_waited_for(void **state)
{
    struct world world;

    (void)state;
    set_up_middle(&world);
    world_update(&world, false);
    no_more(&world.script); /* the own block is marked, but nothing has come */
    memory_receive(&world.memory, 0, 0, 39);
    world_update(&world, false);
    world_next_report(&world, 0, 2);
    memory_receive(&world.memory, 0, 39, 1);
    world_update(&world, false);
    world_next_report(&world, 0, 5);
    memory_receive(&world.memory, 0, 80, 15);
    world_update(&world, false);
    no_more(&world.script); /* 95 of 96 */
    memory_receive(&world.memory, 0, 95, 1);
    world_update(&world, false);
    world_next_report(&world, 0, 6);
}

static void a_chunk_behind_the_own_block_shows_that_those_before_it_are_lost(void **state)
{
    struct world world;

    (void)state;
    set_up_middle(&world);
    memory_receive(&world.memory, 0, 0, 20);
    memory_receive(&world.memory, 0, 97, 1);
    world_update(&world, false);
    world_next_report(&world, 0, 6);
}

static void a_chunk_is_looked_for_three_quanta_behind_the_own_block(void **state)
{
    struct world world;

    (void)state;
    world_init(&world,
               &(struct shape){.kind = TT_ALLGATHER, .rank = 1, .size = 4, .block_bytes = 16 * 40, .depth_chunks = 32});
    tt_stream_mark(&world.memory.streams[0], 40, 40);
    tt_credit_child(&world.credit, 0, 100);
    memory_receive(&world.memory, 0, 127, 1); /* 80 + 48 - 1 */
    world_update(&world, false);
    world_next_report(&world, 0, 8);
}

static void a_rank_that_opens_the_chain_starts_behind_its_block(void **state)
{
    struct world world;

    (void)state;
    set_up_allgather(&world, 2);
    tt_stream_mark(&world.memory.streams[0], 80, 40);
    memory_receive(&world.memory, 0, 0, 80);
    tt_credit_child(&world.credit, 3, 100);
    world_update(&world, false);
    world_next_report(&world, 0, 2); /* (120 - 80) / 16 of its own chain; the other one is complete */
}

static void subgroups_count_by_the_slowest(void **state)
{
    struct world world;

    (void)state;
    world_init(&world,
               &(struct shape){.rank = 1, .size = 2, .block_bytes = 16 * 201, .subgroups = 2, .depth_chunks = 32});
    assert_int_equal(world.credit.quantum, 16);
    memory_receive(&world.memory, 0, 0, 48);
    world_expect_nothing(&world);
    memory_receive(&world.memory, 1, 0, 17);
    world_update(&world, false);
    world_next_report(&world, 0, 1);
    memory_receive(&world.memory, 0, 48, 53);
    memory_receive(&world.memory, 1, 17, 83);
    world_update(&world, false);
    world_update(&world, false); /* a step looks three quanta ahead */
    /* Both at their ends, which says all without being finished. */
    assert_int_equal(world.credit.reported, TT_CREDIT_ALL);
}

static void what_is_reported_is_a_fourth_of_how_far_roots_may_be_ahead(void **state)
{
    static const struct {
        uint32_t ahead_chunks, quanta, step;
    } cases[] = {{0, 2, 1}, {95, 2, 1}, {96, 3, 1}, {7 * 32, 7, 1}, {8 * 32, 8, 2}, {13 * 32 - 1, 12, 3}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct world world;

        set_up_broadcast(&world, 2);
        tt_credit_open(&world.credit, cases[i].ahead_chunks, true);
        assert_int_equal(world.credit.ahead, cases[i].quanta);
        memory_receive(&world.memory, 0, 0, cases[i].step * 32 - 1);
        world_expect_nothing(&world);
        memory_receive(&world.memory, 0, cases[i].step * 32 - 1, 1);
        world_update(&world, false);
        world_next_report(&world, 1, cases[i].step);
        memory_receive(&world.memory, 0, (cases[i].step + cases[i].quanta + 1) * 32 - 1, 1);
        world_update(&world, false); /* as far as a root can be, and one more quantum */
        world_next_report(&world, 1, cases[i].step + cases[i].quanta + 1);
    }
}

/* A root that has not heard of the last doubling is still told in time. */
static void reports_come_in_time_for_a_root_that_may_be_half_as_far_ahead(void **state)
{
    struct world leaf, root;

    (void)state;
    set_up_broadcast(&leaf, 2);
    set_up_broadcast(&root, 1);
    for (uint32_t ahead = 2; ahead <= 31; ahead++) {
        tt_credit_reset(&root.credit);
        tt_credit_open(&root.credit, ahead / 2 * 32, true);
        tt_credit_reset(&leaf.credit);
        tt_credit_open(&leaf.credit, ahead * 32, true);
        tt_stream_reset(&leaf.memory.streams[0]);
        memory_receive(&leaf.memory, 0, 0, tt_credit_limit(&root.credit, 0));
        world_update(&leaf, false);
        world_next_report(&leaf, 1, root.credit.ahead);
    }
}

static void nobody_reports_where_all_of_a_chain_may_be_sent_at_once(void **state)
{
    struct world world;

    (void)state;
    set_up_broadcast(&world, 2);
    tt_credit_open(&world.credit, 2000, true); /* 62 quanta; half of them are 992 chunks of 1,000 */
    memory_receive(&world.memory, 0, 0, 32 * 16);
    world_update(&world, false);
    world_next_report(&world, 1, 16);
    set_up_broadcast(&world, 2);
    tt_credit_open(&world.credit, 64 * 32, true);
    memory_receive_all(&world.memory);
    world_expect_nothing(&world);
    world_update(&world, true);
    no_more(&world.script);
    set_up_broadcast(&world, 1);
    tt_credit_open(&world.credit, 64 * 32, true);
    assert_int_equal(tt_credit_limit(&world.credit, 0), 1000);
}

static void a_reset_starts_from_nothing(void **state)
{
    struct world world;

    (void)state;
    set_up_broadcast(&world, 3);
    memory_receive(&world.memory, 0, 0, 96);
    tt_credit_child(&world.credit, 0, TT_CREDIT_ALL);
    world_update(&world, true);
    tt_credit_open(&world.credit, 320, true);
    tt_credit_reset(&world.credit);
    tt_stream_reset(&world.memory.streams[0]);
    memory_receive(&world.memory, 0, 0, 32);
    assert_int_equal(world.credit.ahead, TT_CREDIT_AHEAD);
    world_expect_nothing(&world); /* what the child said was about the last run */
    tt_credit_child(&world.credit, 0, 1);
    world_update(&world, false);
    world_next_report(&world, 1, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_quantum_is_half_a_queue_shared_by_the_chains_but_not_too_small),
        cmocka_unit_test(what_fits_the_queues_needs_no_credit),
        cmocka_unit_test(a_whole_chain_counts_for_whether_credit_is_needed),
        cmocka_unit_test(a_leaf_reports_each_quantum_that_it_has_consumed),
        cmocka_unit_test(lost_chunks_hold_nobody_up),
        cmocka_unit_test(an_inner_rank_reports_the_least_of_its_subtree),
        cmocka_unit_test(reports_of_ranks_that_are_no_children_are_refused),
        cmocka_unit_test(a_finished_rank_reports_all_as_soon_as_its_children_have),
        cmocka_unit_test(a_broadcasts_root_is_granted_what_all_others_have_consumed),
        cmocka_unit_test(the_own_block_is_not_waited_for),
        cmocka_unit_test(a_chunk_behind_the_own_block_shows_that_those_before_it_are_lost),
        cmocka_unit_test(a_chunk_is_looked_for_three_quanta_behind_the_own_block),
        cmocka_unit_test(a_rank_that_opens_the_chain_starts_behind_its_block),
        cmocka_unit_test(subgroups_count_by_the_slowest),
        cmocka_unit_test(what_is_reported_is_a_fourth_of_how_far_roots_may_be_ahead),
        cmocka_unit_test(reports_come_in_time_for_a_root_that_may_be_half_as_far_ahead),
        cmocka_unit_test(nobody_reports_where_all_of_a_chain_may_be_sent_at_once),
        cmocka_unit_test(a_reset_starts_from_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
