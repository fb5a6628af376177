/* SPDX-License-Identifier: BSD-3-Clause */
/* Flow control by credit: quanta, the minimum over a subtree, and how far grants let a root send. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "machine.h"
#include "plan/dissemination.h"
#include "proto/credit.h"

struct world {
    struct memory memory;
    struct tt_credit credit;
    struct tt_frame template;
    struct script script;
};

static void set_up(struct world *world, const struct shape *shape)
{
    bool allgather = shape->kind == TT_ALLGATHER;
    struct tt_credit_config config;

    memory_init(&world->memory, shape);
    script_init(&world->script, 0);
    world->template = (struct tt_frame){.source = shape->rank, .group = 77, .sequence = 5};
    config = (struct tt_credit_config){
        .size = shape->size,
        .vertex = tt_rank_subtract(shape->rank, shape->root, shape->size),
        .base = shape->root,
        .root_count = allgather ? shape->size : 1,
        .chains = world->memory.config.terms.chains,
        .subgroups = world->memory.config.terms.subgroups,
        .own_root_index = allgather                    ? shape->rank
                          : shape->rank == shape->root ? 0
                                                       : TT_RANK_NONE,
        .depth_chunks = shape->depth_chunks,
        .streams = world->memory.streams,
        .positions = world->memory.positions,
    };
    tt_credit_init(&world->credit, &config);
}

/* A broadcast of 1,000 chunks from rank 1 among four; the tree is 1 - (2, 3 - 0). Quantum: 32. */
static void set_up_broadcast(struct world *world, uint32_t rank)
{
    set_up(world, &(struct shape){.rank = rank, .size = 4, .root = 1, .block_bytes = 16000, .depth_chunks = 64});
}

static void update(struct world *world, bool finished)
{
    script_clear(&world->script);
    tt_credit_update(&world->credit, finished, &world->template, NULL, &world->script.actions);
}

static void next_reports(struct world *world, uint32_t to, uint32_t quanta)
{
    const struct tt_frame *frame = next_sends(&world->script, TT_FRAME_CREDIT, to);

    assert_true(frame->group == 77 && frame->sequence == 5);
    assert_int_equal(frame->body.credit.quanta, quanta);
    no_more(&world->script);
}

static void next_grants(struct world *world, uint32_t to, uint32_t target, uint32_t quanta)
{
    const struct tt_frame *frame = next_sends(&world->script, TT_FRAME_GRANT, to);

    assert_true(frame->group == 77 && frame->sequence == 5 && frame->source == world->template.source);
    assert_int_equal(frame->body.grant.target, target);
    assert_int_equal(frame->body.grant.quanta, quanta);
}

static void hear_grant(struct world *world, uint32_t target, uint32_t quanta)
{
    struct tt_frame frame = {.type = TT_FRAME_GRANT, .body.grant = {.target = target, .quanta = quanta}};

    script_clear(&world->script);
    tt_credit_grant(&world->credit, &frame, &world->template, NULL, &world->script.actions);
}

static void a_quantum_is_half_a_queue_shared_by_the_chains_but_not_too_small(void **state)
{
    struct world world;
    struct shape shape = {.kind = TT_ALLGATHER, .size = 4, .block_bytes = 16 * 2000, .depth_chunks = 1000};

    (void)state;
    set_up(&world, &shape);
    assert_int_equal(world.credit.quantum, 500);
    shape.chains = 2;
    set_up(&world, &shape);
    assert_int_equal(world.credit.quantum, 250);
    shape.depth_chunks = 3;
    set_up(&world, &shape);
    assert_int_equal(world.credit.quantum, TT_CREDIT_MIN_QUANTUM);
}

static void what_fits_the_queues_needs_no_credit(void **state)
{
    struct world world;
    struct shape shape = {.rank = 1, .size = 2, .block_bytes = 16 * 64, .depth_chunks = 64};

    (void)state;
    set_up(&world, &shape);
    assert_false(world.credit.enabled);
    assert_false(tt_credit_child(&world.credit, 0, 5));
    memory_receive_all(&world.memory);
    update(&world, true);
    no_more(&world.script);
    shape.rank = 0;
    set_up(&world, &shape);
    assert_int_equal(tt_credit_limit(&world.credit, 0), 64);
    shape.block_bytes += 1;
    set_up(&world, &shape);
    assert_true(world.credit.enabled);
    shape.size = 1;
    set_up(&world, &shape);
    assert_false(world.credit.enabled);
}

static void a_whole_chain_counts_for_whether_credit_is_needed(void **state)
{
    struct world world;
    struct shape shape = {.kind = TT_ALLGATHER, .size = 5, .block_bytes = 16 * 22, .depth_chunks = 64, .chains = 2};

    (void)state;
    set_up(&world, &shape); /* 3 blocks of 22 chunks in the longer chain, quantum 16 */
    assert_true(world.credit.enabled);
    shape.block_bytes = 16 * 10;
    set_up(&world, &shape); /* 30 chunks */
    assert_false(world.credit.enabled);
}

static void a_leaf_reports_each_quantum_that_it_has_consumed(void **state)
{
    struct world world;

    (void)state;
    set_up_broadcast(&world, 2);
    update(&world, false);
    no_more(&world.script);
    memory_receive(&world.memory, 0, 0, 31);
    update(&world, false);
    no_more(&world.script);
    memory_receive(&world.memory, 0, 31, 1);
    update(&world, false);
    next_reports(&world, 1, 1);
    update(&world, false);
    no_more(&world.script);
    memory_receive(&world.memory, 0, 32, 70);
    update(&world, false);
    next_reports(&world, 1, 3);
}

static void lost_chunks_hold_nobody_up(void **state)
{
    struct world world;

    (void)state;
    set_up_broadcast(&world, 2);
    memory_receive(&world.memory, 0, 63, 1);
    update(&world, false);
    next_reports(&world, 1, 2);
    memory_receive(&world.memory, 0, 3, 40); /* late ones, below */
    update(&world, false);
    no_more(&world.script);
    memory_receive(&world.memory, 0, 159, 1); /* a whole three quanta on */
    update(&world, false);
    next_reports(&world, 1, 5);
    update(&world, false);
    no_more(&world.script);
}

static void an_inner_rank_reports_the_least_of_its_subtree(void **state)
{
    struct world world;

    (void)state;
    set_up_broadcast(&world, 3);
    memory_receive(&world.memory, 0, 0, 96);
    update(&world, false);
    no_more(&world.script);
    assert_true(tt_credit_child(&world.credit, 0, 2));
    update(&world, false);
    next_reports(&world, 1, 2);
    assert_true(tt_credit_child(&world.credit, 0, 1)); /* overtaken by the other */
    update(&world, false);
    no_more(&world.script);
    assert_true(tt_credit_child(&world.credit, 0, 7));
    update(&world, false);
    next_reports(&world, 1, 3);
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
    update(&world, true);
    no_more(&world.script);
    assert_true(tt_credit_child(&world.credit, 0, 9));
    update(&world, true);
    next_reports(&world, 1, 9);
    assert_true(tt_credit_child(&world.credit, 0, TT_CREDIT_ALL));
    update(&world, true);
    next_reports(&world, 1, TT_CREDIT_ALL);
    update(&world, true);
    no_more(&world.script);
}

static void a_broadcasts_root_is_granted_what_all_others_have_consumed(void **state)
{
    struct world world;

    (void)state;
    set_up_broadcast(&world, 1);
    assert_int_equal(tt_credit_limit(&world.credit, 0), 64);
    update(&world, true); /* it has everything itself */
    tt_credit_child(&world.credit, 2, 3);
    update(&world, true);
    no_more(&world.script);
    assert_int_equal(tt_credit_limit(&world.credit, 0), 64);
    tt_credit_child(&world.credit, 3, 1);
    update(&world, true);
    no_more(&world.script); /* nobody else is a root */
    assert_int_equal(tt_credit_limit(&world.credit, 0), 96);
    tt_credit_child(&world.credit, 3, TT_CREDIT_ALL);
    update(&world, true);
    assert_int_equal(tt_credit_limit(&world.credit, 0), 160);
    tt_credit_child(&world.credit, 2, TT_CREDIT_ALL);
    update(&world, true);
    assert_int_equal(tt_credit_limit(&world.credit, 0), 1000);
}

/* Four roots with 40 chunks each in two chains of two; quantum 16. The tree is 0 - (1, 2 - 3). */
static void set_up_allgather(struct world *world, uint32_t rank)
{
    set_up(world,
           &(struct shape){
               .kind = TT_ALLGATHER, .rank = rank, .size = 4, .block_bytes = 16 * 40, .chains = 2, .depth_chunks = 64});
}

static void children_say(struct world *world, uint32_t quanta)
{
    tt_credit_child(&world->credit, 1, quanta);
    tt_credit_child(&world->credit, 2, quanta);
}

static void grants_reach_the_roots_that_the_new_allowance_is_for(void **state)
{
    struct world world;

    (void)state;
    set_up_allgather(&world, 0);
    memory_receive(&world.memory, 0, 80, 16); /* chain 1; chain 0 begins with the own block and stands at 40 */
    children_say(&world, 1);
    update(&world, false);
    next_grants(&world, 1, 1, 1); /* chunks 32 .. 48 of a chain: the end of its first block, and its second */
    next_grants(&world, 2, 2, 1);
    next_grants(&world, 2, 3, 1); /* by way of 2 */
    no_more(&world.script);
    assert_int_equal(world.credit.granted, 1);
    memory_receive(&world.memory, 0, 40, 1);
    memory_receive(&world.memory, 0, 96, 16);
    children_say(&world, 2);
    update(&world, false);
    next_grants(&world, 1, 1, 2); /* 48 .. 64: only the second roots */
    next_grants(&world, 2, 3, 2);
    no_more(&world.script);
}

static void the_last_grant_reaches_every_root_that_may_still_send(void **state)
{
    struct world world;

    (void)state;
    set_up_allgather(&world, 0);
    children_say(&world, TT_CREDIT_ALL);
    update(&world, true);
    next_grants(&world, 1, 1, TT_CREDIT_ALL);
    next_grants(&world, 2, 2, TT_CREDIT_ALL);
    next_grants(&world, 2, 3, TT_CREDIT_ALL);
    no_more(&world.script);
    update(&world, true);
    no_more(&world.script);
}

static void grants_travel_down_the_tree_to_their_root(void **state)
{
    struct world world;

    (void)state;
    set_up_allgather(&world, 2);
    hear_grant(&world, 3, 1);
    next_grants(&world, 3, 3, 1);
    no_more(&world.script);
    assert_int_equal(world.credit.granted, 0);
    hear_grant(&world, 2, 4);
    no_more(&world.script);
    assert_int_equal(world.credit.granted, 4);
    hear_grant(&world, 2, 3); /* overtaken */
    assert_int_equal(world.credit.granted, 4);
}

static void grants_that_lead_nowhere_go_nowhere(void **state)
{
    struct world world;

    (void)state;
    set_up_allgather(&world, 2);
    hear_grant(&world, 1, 1); /* above */
    hear_grant(&world, 4, 1); /* there is none */
    hear_grant(&world, TT_RANK_NONE, 1);
    no_more(&world.script);
    assert_int_equal(world.credit.granted, 0);
}

static void a_limit_counts_the_blocks_before_it_in_the_chain(void **state)
{
    static const struct {
        uint32_t granted, first_root, second_root;
    } steps[] = {{0, 32, 0},
                 {1, 40, 8},
                 {2, 40, 24},
                 {3, 40, 40},
                 {100, 40, 40},
                 {TT_CREDIT_ALL - 3, 40, 40},
                 {TT_CREDIT_ALL - 2, 40, 40},
                 {TT_CREDIT_ALL - 1, 40, 40},
                 {TT_CREDIT_ALL, 40, 40}};
    struct world first, second;

    (void)state;
    set_up_allgather(&first, 2);
    set_up_allgather(&second, 3);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        hear_grant(&first, 2, steps[i].granted);
        hear_grant(&second, 3, steps[i].granted);
        assert_int_equal(tt_credit_limit(&first.credit, 0), steps[i].first_root);
        assert_int_equal(tt_credit_limit(&second.credit, 0), steps[i].second_root);
    }
}

/* Three roots of 40 chunks in one chain; this rank's block is the second one, chunks 40 .. 79; quantum 16. */
static void set_up_middle(struct world *world)
{
    set_up(world,
           &(struct shape){.kind = TT_ALLGATHER, .rank = 1, .size = 3, .block_bytes = 16 * 40, .depth_chunks = 32});
    tt_stream_mark(&world->memory.streams[0], 40, 40); /* as a reset does */
}

static void the_own_block_is_not_waited_for(void **state)
{
    struct world world;

    (void)state;
    set_up_middle(&world);
    update(&world, false);
    no_more(&world.script); /* the own block is marked, but nothing has come */
    memory_receive(&world.memory, 0, 0, 39);
    update(&world, false);
    next_reports(&world, 0, 2);
    memory_receive(&world.memory, 0, 39, 1);
    update(&world, false);
    next_reports(&world, 0, 5);
    memory_receive(&world.memory, 0, 80, 15);
    update(&world, false);
    no_more(&world.script); /* 95 of 96 */
    memory_receive(&world.memory, 0, 95, 1);
    update(&world, false);
    next_reports(&world, 0, 6);
}

static void a_chunk_behind_the_own_block_shows_that_those_before_it_are_lost(void **state)
{
    struct world world;

    (void)state;
    set_up_middle(&world);
    memory_receive(&world.memory, 0, 0, 20);
    memory_receive(&world.memory, 0, 97, 1);
    update(&world, false);
    next_reports(&world, 0, 6);
}

static void a_rank_that_opens_the_chain_starts_behind_its_block(void **state)
{
    struct world world;

    (void)state;
    set_up_allgather(&world, 2);
    tt_stream_mark(&world.memory.streams[0], 80, 40);
    memory_receive(&world.memory, 0, 0, 80);
    tt_credit_child(&world.credit, 3, 100);
    update(&world, false);
    next_reports(&world, 0, 2); /* (120 - 80) / 16 of its own chain; the other one is complete */
}

static void subgroups_count_by_the_slowest(void **state)
{
    struct world world;

    (void)state;
    set_up(&world, &(struct shape){.rank = 1, .size = 2, .block_bytes = 16 * 201, .subgroups = 2, .depth_chunks = 32});
    assert_int_equal(world.credit.quantum, 16);
    memory_receive(&world.memory, 0, 0, 48);
    update(&world, false);
    no_more(&world.script);
    memory_receive(&world.memory, 1, 0, 17);
    update(&world, false);
    next_reports(&world, 0, 1);
    memory_receive(&world.memory, 0, 48, 53);
    memory_receive(&world.memory, 1, 17, 83);
    update(&world, false);
    update(&world, false); /* a step looks three quanta ahead */
    /* Both at their ends, which says all without being finished. */
    assert_int_equal(world.credit.reported, TT_CREDIT_ALL);
}

static void subgroups_without_chunks_do_not_count(void **state)
{
    struct world world;

    (void)state;
    set_up(&world,
           &(struct shape){.kind = TT_ALLGATHER, .size = 40, .block_bytes = 16, .subgroups = 2, .depth_chunks = 32});
    assert_true(world.credit.enabled); /* 40 chunks in one chain, all in subgroup 0 */
    memory_receive(&world.memory, 0, 1, 20);
    for (uint32_t child = 1; child < 40; child *= 2) {
        assert_true(tt_credit_child(&world.credit, child, 1));
    }
    update(&world, false);
    /* Subgroup 1 gives no bound, so everybody from chunk 32 on is told. */
    for (uint32_t root = 32; root < 40; root++) {
        next_grants(&world, 32, root, 1);
    }
    no_more(&world.script);
    assert_int_equal(tt_credit_limit(&world.credit, 1), 0);
    assert_int_equal(tt_credit_limit(&world.credit, 0), 1);
}

static void a_reset_starts_from_nothing(void **state)
{
    struct world world;

    (void)state;
    set_up_broadcast(&world, 3);
    memory_receive(&world.memory, 0, 0, 96);
    tt_credit_child(&world.credit, 0, TT_CREDIT_ALL);
    update(&world, true);
    tt_credit_reset(&world.credit);
    tt_stream_reset(&world.memory.streams[0]);
    update(&world, false);
    no_more(&world.script);
    memory_receive(&world.memory, 0, 0, 32);
    tt_credit_child(&world.credit, 0, 1);
    update(&world, false);
    next_reports(&world, 1, 1);
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
        cmocka_unit_test(grants_reach_the_roots_that_the_new_allowance_is_for),
        cmocka_unit_test(the_last_grant_reaches_every_root_that_may_still_send),
        cmocka_unit_test(grants_travel_down_the_tree_to_their_root),
        cmocka_unit_test(grants_that_lead_nowhere_go_nowhere),
        cmocka_unit_test(a_limit_counts_the_blocks_before_it_in_the_chain),
        cmocka_unit_test(the_own_block_is_not_waited_for),
        cmocka_unit_test(a_chunk_behind_the_own_block_shows_that_those_before_it_are_lost),
        cmocka_unit_test(a_rank_that_opens_the_chain_starts_behind_its_block),
        cmocka_unit_test(subgroups_count_by_the_slowest),
        cmocka_unit_test(subgroups_without_chunks_do_not_count),
        cmocka_unit_test(a_reset_starts_from_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
