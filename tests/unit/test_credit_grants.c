/* SPDX-License-Identifier: BSD-3-Clause */
/* Credit on its way to the roots: whom a grant is for, how it gets there, and how far it lets a root send. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "credit_world.h"

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

/* Four roots with 40 chunks each in two chains of two; quantum 16. The tree is 0 - (1, 2 - 3). */
static void set_up_allgather(struct world *world, uint32_t rank)
{
    world_init(
        world,
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
    world_update(&world, false);
    next_grants(&world, 1, 1, 1); /* chunks 32 .. 48 of a chain: the end of its first block, and its second */
    next_grants(&world, 2, 2, 1);
    next_grants(&world, 2, 3, 1); /* by way of 2 */
    no_more(&world.script);
    assert_int_equal(world.credit.granted, 1);
    memory_receive(&world.memory, 0, 40, 1);
    memory_receive(&world.memory, 0, 96, 16);
    children_say(&world, 2);
    world_update(&world, false);
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
    world_update(&world, true);
    next_grants(&world, 1, 1, TT_CREDIT_ALL);
    next_grants(&world, 2, 2, TT_CREDIT_ALL);
    next_grants(&world, 2, 3, TT_CREDIT_ALL);
    no_more(&world.script);
    world_update(&world, true);
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

static void a_root_may_be_as_far_ahead_as_all_have_agreed_on(void **state)
{
    struct world first, second;

    (void)state;
    set_up_allgather(&first, 2); /* two chains, whose blocks are 40 chunks; quantum 16 */
    set_up_allgather(&second, 3);
    tt_credit_open(&first.credit, 127, true); /* three quanta each */
    tt_credit_open(&second.credit, 127, true);
    assert_int_equal(tt_credit_limit(&first.credit, 0), 40);
    assert_int_equal(tt_credit_limit(&second.credit, 0), 8);
    hear_grant(&second, 3, 1);
    assert_int_equal(tt_credit_limit(&second.credit, 0), 24);
    hear_grant(&second, 3, TT_CREDIT_ALL - 3);
    assert_int_equal(tt_credit_limit(&second.credit, 0), 40);
}

static void grants_reach_the_roots_that_may_be_further_ahead(void **state)
{
    struct world world;

    (void)state;
    /* One chain of ten roots with 40 chunks each; quantum 16. */
    world_init(&world, &(struct shape){.kind = TT_ALLGATHER, .size = 10, .block_bytes = 16 * 40, .depth_chunks = 32});
    tt_stream_mark(&world.memory.streams[0], 0, 40); /* the own block, as a reset does */
    tt_credit_open(&world.credit, 8 * 16, true);
    for (uint32_t child = 1; child < 10; child *= 2) {
        assert_true(tt_credit_child(&world.credit, child, 2));
    }
    world_update(&world, false);
    next_grants(&world, 1, 1, 2); /* from chunk 32, as far as a root that knows of nothing has got, */
    next_grants(&world, 2, 2, 2);
    next_grants(&world, 2, 3, 2);
    next_grants(&world, 4, 4, 2); /* to chunk 160 */
    no_more(&world.script);
}

static void subgroups_without_chunks_do_not_count(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, &(struct shape){
                           .kind = TT_ALLGATHER, .size = 40, .block_bytes = 16, .subgroups = 2, .depth_chunks = 32});
    assert_true(world.credit.enabled); /* 40 chunks in one chain, all in subgroup 0 */
    memory_receive(&world.memory, 0, 1, 20);
    for (uint32_t child = 1; child < 40; child *= 2) {
        assert_true(tt_credit_child(&world.credit, child, 1));
    }
    world_update(&world, false);
    /* Subgroup 1 gives no bound, so everybody from chunk 32 on is told. */
    for (uint32_t root = 32; root < 40; root++) {
        next_grants(&world, 32, root, 1);
    }
    no_more(&world.script);
    assert_int_equal(tt_credit_limit(&world.credit, 1), 0);
    assert_int_equal(tt_credit_limit(&world.credit, 0), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grants_reach_the_roots_that_the_new_allowance_is_for),
        cmocka_unit_test(the_last_grant_reaches_every_root_that_may_still_send),
        cmocka_unit_test(grants_travel_down_the_tree_to_their_root),
        cmocka_unit_test(grants_that_lead_nowhere_go_nowhere),
        cmocka_unit_test(a_limit_counts_the_blocks_before_it_in_the_chain),
        cmocka_unit_test(a_root_may_be_as_far_ahead_as_all_have_agreed_on),
        cmocka_unit_test(grants_reach_the_roots_that_may_be_further_ahead),
        cmocka_unit_test(subgroups_without_chunks_do_not_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
