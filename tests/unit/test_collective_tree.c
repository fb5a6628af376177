/* SPDX-License-Identifier: BSD-3-Clause */
/* A Broadcast down the tree, as one rank's machine sees it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "collective_world.h"

enum { SMALL = 10, PIECE = TT_FRAME_DATA_BYTES, LARGE = 2 * PIECE + 1 };

static uint8_t buffer[TT_TREE_MAX_BYTES];
static uint8_t sent[TT_TREE_MAX_BYTES];

/* One rank of 8; the root is 6, so rank 6 is vertex 0, and its children are the ranks 7, 0 and 2. */
static void tree_init(struct world *world, uint32_t rank, uint64_t block_bytes)
{
    struct shape shape = {.rank = rank, .size = 8, .root = 6, .block_bytes = block_bytes, .chunk_bytes = 65536};

    memory_init(&world->memory, &shape);
    world->memory.config.terms.method = TT_METHOD_TREE;
    world->memory.streams[0].buffer = buffer;
    script_init(&world->script, 0);
    tt_collective_init(&world->collective, &world->memory.config);
    tt_collective_reset(&world->collective, COLLECTIVE_SEQUENCE);
    world->collective.sending.may_send = true;
    memset(buffer, 0xEE, sizeof buffer);
    for (size_t i = 0; i < sizeof sent; i++) {
        sent[i] = (uint8_t)(i * 7 + i / 256);
    }
}

static bool hear_remind(struct world *world, uint64_t now_ns, uint32_t source)
{
    struct tt_frame frame = {.type = TT_FRAME_REMIND, .body.ready.terms = world->memory.config.terms};

    return world_hear_frame(world, now_ns, frame, source);
}

static bool hear_ready(struct world *world, uint64_t now_ns, uint32_t source)
{
    struct tt_frame frame = {.type = TT_FRAME_READY, .body.ready.terms = world->memory.config.terms};

    return world_hear_frame(world, now_ns, frame, source);
}

static bool hear_data(struct world *world, uint64_t now_ns, uint32_t source, uint32_t offset, uint16_t length)
{
    struct tt_frame frame = {.type = TT_FRAME_DATA,
                             .body.data = {.terms = world->memory.config.terms,
                                           .offset_bytes = offset,
                                           .length_bytes = length,
                                           .bytes = sent + offset % sizeof sent}};

    return world_hear_frame(world, now_ns, frame, source);
}

static void sends_data(struct world *world, uint32_t to, uint32_t offset, uint32_t length)
{
    const struct tt_frame *frame = next_sends(&world->script, TT_FRAME_DATA, to);

    assert_int_equal(frame->body.data.offset_bytes, offset);
    assert_int_equal(frame->body.data.length_bytes, length);
}

static void a_leaf_says_ready_and_has_finished_when_its_data_is_here(void **state)
{
    struct world world;

    (void)state;
    tree_init(&world, 1, SMALL); /* vertex 3; its parent is vertex 2, rank 0 */
    assert_true(world_step(&world, TT_EVENT_START, 0));
    assert_true(tt_collective_terms_agree(&next_sends(&world.script, TT_FRAME_READY, 0)->body.ready.terms,
                                          &world.memory.config.terms));
    no_more(&world.script);
    assert_int_equal(tt_collective_waits_for(&world.collective), 0);
    assert_true(tt_collective_deadline(&world.collective) == UINT64_MAX);
    assert_true(hear_data(&world, 10, 0, 0, SMALL));
    next_finishes(&world, TUTTI_OK, TT_RANK_NONE);
    assert_memory_equal(buffer, sent, SMALL);
    assert_int_equal(buffer[SMALL], 0xEE);
}

static void the_root_sends_once_its_block_is_in_place_to_whoever_is_ready(void **state)
{
    struct world world;

    (void)state;
    tree_init(&world, 6, SMALL);
    assert_true(world_step(&world, TT_EVENT_START, 0));
    next_is(&world.script, TT_ACTION_TRANSMIT);
    no_more(&world.script);
    assert_true(hear_ready(&world, 1, 2)); /* vertex 4 */
    no_more(&world.script);
    assert_true(hear_ready(&world, 2, 7)); /* vertex 1 */
    no_more(&world.script);
    assert_true(world_step(&world, TT_EVENT_SENT, 3));
    sends_data(&world, 2, 0, SMALL); /* the largest subtree first */
    sends_data(&world, 7, 0, SMALL);
    no_more(&world.script);
    assert_int_equal(tt_collective_waits_for(&world.collective), 0);
    assert_true(hear_ready(&world, 4, 0)); /* vertex 2 */
    sends_data(&world, 0, 0, SMALL);
    next_finishes(&world, TUTTI_OK, TT_RANK_NONE);
}

static void a_root_without_credit_waits_for_it(void **state)
{
    struct world world;

    (void)state;
    tree_init(&world, 6, SMALL);
    world.collective.sending.may_send = false;
    assert_true(world_step(&world, TT_EVENT_START, 0));
    assert_true(hear_ready(&world, 1, 7));
    no_more(&world.script);
    world.collective.sending.may_send = true;
    assert_true(world_step(&world, TT_EVENT_TICK, 2));
    next_is(&world.script, TT_ACTION_TRANSMIT);
    no_more(&world.script);
}

static void pieces_are_passed_on_as_they_come(void **state)
{
    struct world world;

    (void)state;
    tree_init(&world, 0, LARGE); /* vertex 2; its child is vertex 3, rank 1 */
    assert_true(world_step(&world, TT_EVENT_START, 0));
    next_sends(&world.script, TT_FRAME_READY, 6);
    assert_true(hear_data(&world, 1, 6, 0, PIECE));
    no_more(&world.script);
    assert_true(hear_ready(&world, 2, 1));
    sends_data(&world, 1, 0, PIECE);
    no_more(&world.script);
    assert_true(hear_data(&world, 3, 6, PIECE, PIECE));
    sends_data(&world, 1, PIECE, PIECE);
    no_more(&world.script);
    assert_true(hear_data(&world, 4, 6, 2 * PIECE, 1));
    sends_data(&world, 1, 2 * PIECE, 1);
    next_finishes(&world, TUTTI_OK, TT_RANK_NONE);
    assert_memory_equal(buffer, sent, LARGE);
}

static void a_rank_does_not_finish_before_its_children_are_ready(void **state)
{
    struct world world;

    (void)state;
    tree_init(&world, 0, SMALL);
    assert_true(world_step(&world, TT_EVENT_START, 0));
    assert_true(hear_data(&world, 1, 6, 0, SMALL));
    assert_int_equal(world.collective.state, TT_COLLECTIVE_RECEIVE);
    assert_int_equal(tt_collective_waits_for(&world.collective), 1);
    assert_true(hear_ready(&world, 2, 1));
    sends_data(&world, 1, 0, SMALL);
    next_finishes(&world, TUTTI_OK, TT_RANK_NONE);
}

static void only_what_is_due_from_the_parent_is_placed(void **state)
{
    struct world world;
    uint8_t untouched[LARGE];

    (void)state;
    tree_init(&world, 0, LARGE);
    memset(untouched, 0xEE, sizeof untouched);
    assert_true(world_step(&world, TT_EVENT_START, 0));
    assert_false(hear_data(&world, 1, 1, 0, PIECE));      /* from a child */
    assert_false(hear_data(&world, 1, 7, 0, PIECE));      /* from a stranger */
    assert_false(hear_data(&world, 1, 6, 1, PIECE));      /* not from the front */
    assert_false(hear_data(&world, 1, 6, PIECE, PIECE));  /* not yet */
    assert_false(hear_data(&world, 1, 6, 0, PIECE - 1));  /* short */
    assert_false(hear_data(&world, 1, 6, 0xFFFFFFF0, 1)); /* far outside */
    assert_memory_equal(buffer, untouched, LARGE);
    assert_true(hear_data(&world, 2, 6, 0, PIECE));
    assert_false(hear_data(&world, 3, 6, 0, PIECE)); /* again */
    assert_true(hear_data(&world, 4, 6, PIECE, PIECE));
    assert_false(hear_data(&world, 5, 6, 2 * PIECE, 2)); /* past the end */
    assert_true(hear_data(&world, 6, 6, 2 * PIECE, 1));
    assert_false(hear_data(&world, 7, 6, LARGE, 1));
    assert_int_equal(world.collective.tree.received_bytes, LARGE);
}

static void ready_counts_from_children_only(void **state)
{
    struct world world;

    (void)state;
    tree_init(&world, 0, SMALL);
    assert_true(world_step(&world, TT_EVENT_START, 0));
    assert_false(hear_ready(&world, 1, 2)); /* a neighbour, but vertex 4 is the root's child */
    assert_true(hear_remind(&world, 1, 6)); /* its parent reminds it */
    assert_false(hear_remind(&world, 1, 2));
    assert_false(hear_ready(&world, 1, 6));
    assert_int_equal(world.collective.tree.ready, 0);
    assert_false(world_hear(&world, 1, TT_FRAME_FINAL, 7));
    assert_false(world_hear_barrier(&world, 1, 0));
    assert_false(world.mismatch);
}

static void other_terms_in_ready_are_a_mismatch(void **state)
{
    struct world world;
    struct tt_frame frame = {.type = TT_FRAME_READY};

    (void)state;
    for (uint32_t source = 0; source < 8; source++) {
        tree_init(&world, 6, SMALL);
        assert_true(world_step(&world, TT_EVENT_START, 0));
        frame.body.ready.terms = world.memory.config.terms;
        frame.body.ready.terms.root = 7;
        assert_false(world_hear_frame(&world, 1, frame, source));
        assert_true(world.mismatch);
    }
}

static void ready_shows_a_rank_with_a_barrier_that_others_mean_a_tree(void **state)
{
    struct world world;
    struct tt_frame frame = {.type = TT_FRAME_READY};

    (void)state;
    world_init(&world, &(struct shape){.rank = 6, .size = 8, .root = 6, .block_bytes = SMALL});
    assert_true(world_step(&world, TT_EVENT_START, 0));
    frame.body.ready.terms = world.memory.config.terms;
    assert_false(world_hear_frame(&world, 1, frame, 7)); /* out of turn, even if the terms are right */
    assert_false(world.mismatch);
    frame.body.ready.terms.method = TT_METHOD_TREE;
    assert_false(world_hear_frame(&world, 1, frame, 7));
    assert_true(world.mismatch);
}

static void children_that_do_not_come_are_reminded_ever_less_often(void **state)
{
    struct world world;
    uint64_t due_ns = 20000000, wait_ns = 20000000;

    (void)state;
    tree_init(&world, 6, SMALL);
    assert_true(world_step(&world, TT_EVENT_START, 0));
    assert_true(world_step(&world, TT_EVENT_SENT, 1));
    assert_true(hear_ready(&world, 2, 0));
    for (uint32_t i = 0; i < 9; i++) {
        assert_true(tt_collective_deadline(&world.collective) == due_ns);
        assert_true(world_step(&world, TT_EVENT_TICK, due_ns - 1));
        no_more(&world.script);
        assert_true(world_step(&world, TT_EVENT_TICK, due_ns));
        next_sends(&world.script, TT_FRAME_REMIND, 7);
        next_sends(&world.script, TT_FRAME_REMIND, 2);
        no_more(&world.script);
        wait_ns = wait_ns < 1280000000 ? 2 * wait_ns : wait_ns;
        due_ns += wait_ns;
    }
    assert_true(hear_ready(&world, due_ns, 7));
    sends_data(&world, 7, 0, SMALL);
    next_sends(&world.script, TT_FRAME_REMIND, 2); /* it was due */
    no_more(&world.script);
}

/* The parent may take this rank for the root. */
static void who_waits_in_an_eager_tree_says_ready_ever_less_often(void **state)
{
    struct world world;
    uint64_t due_ns = 20000000, wait_ns = 20000000;

    (void)state;
    tree_init(&world, 0, LARGE); /* its parent is rank 6, its child rank 1 */
    world.collective.config.tree_is_eager = true;
    assert_true(world_step(&world, TT_EVENT_START, 0));
    no_more(&world.script);
    for (uint32_t i = 0; i < 9; i++) {
        assert_true(tt_collective_deadline(&world.collective) == due_ns);
        assert_true(world_step(&world, TT_EVENT_TICK, due_ns - 1));
        no_more(&world.script);
        assert_true(world_step(&world, TT_EVENT_TICK, due_ns));
        assert_true(tt_collective_terms_agree(&next_sends(&world.script, TT_FRAME_READY, 6)->body.ready.terms,
                                              &world.memory.config.terms));
        no_more(&world.script);
        wait_ns = wait_ns < 1280000000 ? 2 * wait_ns : wait_ns;
        due_ns += wait_ns;
    }
    assert_true(hear_data(&world, due_ns - 1, 6, 0, PIECE));
    sends_data(&world, 1, 0, PIECE);
    assert_true(tt_collective_deadline(&world.collective) == due_ns);
    assert_true(hear_data(&world, due_ns - 1, 6, PIECE, PIECE));
    sends_data(&world, 1, PIECE, PIECE);
    assert_true(hear_data(&world, due_ns, 6, 2 * PIECE, 1));
    sends_data(&world, 1, 2 * PIECE, 1);
    next_finishes(&world, TUTTI_OK, TT_RANK_NONE);
}

static void a_large_block_is_sent_in_several_steps(void **state)
{
    struct world world;
    uint32_t frames = 0, steps = 0;

    (void)state;
    tree_init(&world, 6, TT_TREE_MAX_BYTES);
    assert_true(world_step(&world, TT_EVENT_START, 0));
    assert_true(hear_ready(&world, 1, 7));
    assert_true(hear_ready(&world, 1, 0));
    assert_true(hear_ready(&world, 1, 2));
    assert_true(world_step(&world, TT_EVENT_SENT, 2));
    while (world.script.actions.more) {
        assert_true(world.script.actions.count <= tt_actions_worst(8));
        frames += world.script.actions.count;
        steps++;
        assert_true(world_step(&world, TT_EVENT_TICK, 2));
    }
    frames += world.script.actions.count - 1; /* the last one ends it */
    assert_int_equal(frames, 3 * ((TT_TREE_MAX_BYTES + PIECE - 1) / PIECE));
    assert_true(steps > 1);
    assert_int_equal(world.collective.state, TT_COLLECTIVE_FINISHED);
}

static void a_failure_cancels_the_copy_and_waits_for_it(void **state)
{
    struct world world;

    (void)state;
    tree_init(&world, 6, SMALL);
    assert_true(world_step(&world, TT_EVENT_START, 0));
    world_fail(&world, 5, TUTTI_ERR_PEER_FAILED, 3);
    next_is(&world.script, TT_ACTION_CANCEL);
    no_more(&world.script);
    assert_true(hear_ready(&world, 6, 7)); /* of no interest any more */
    no_more(&world.script);
    assert_true(world_step(&world, TT_EVENT_SENT, 7));
    next_finishes(&world, TUTTI_ERR_PEER_FAILED, 3);
}

static void nothing_is_placed_in_a_buffer_that_a_failure_has_given_back(void **state)
{
    struct world world;

    (void)state;
    tree_init(&world, 1, SMALL);
    assert_true(world_step(&world, TT_EVENT_START, 0));
    world_fail(&world, 5, TUTTI_ERR_TIMED_OUT, 4);
    next_finishes(&world, TUTTI_ERR_TIMED_OUT, 4);
    assert_true(hear_data(&world, 6, 0, 0, SMALL)); /* late */
    assert_int_equal(buffer[0], 0xEE);
}

static void a_tree_without_bytes_is_a_barrier(void **state)
{
    struct world world;

    (void)state;
    tree_init(&world, 1, 0);
    world_pass_barrier(&world, 5);
    next_finishes(&world, TUTTI_OK, TT_RANK_NONE);
}

static void a_group_of_one_copies_and_has_finished(void **state)
{
    struct world world;
    struct shape shape = {.size = 1, .block_bytes = SMALL};

    (void)state;
    memory_init(&world.memory, &shape);
    world.memory.config.terms.method = TT_METHOD_TREE;
    script_init(&world.script, 0);
    tt_collective_init(&world.collective, &world.memory.config);
    tt_collective_reset(&world.collective, COLLECTIVE_SEQUENCE);
    world.collective.sending.may_send = true;
    assert_true(world_step(&world, TT_EVENT_START, 0));
    next_is(&world.script, TT_ACTION_TRANSMIT);
    no_more(&world.script);
    assert_true(world_step(&world, TT_EVENT_SENT, 1));
    next_finishes(&world, TUTTI_OK, TT_RANK_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_leaf_says_ready_and_has_finished_when_its_data_is_here),
        cmocka_unit_test(the_root_sends_once_its_block_is_in_place_to_whoever_is_ready),
        cmocka_unit_test(a_root_without_credit_waits_for_it),
        cmocka_unit_test(pieces_are_passed_on_as_they_come),
        cmocka_unit_test(a_rank_does_not_finish_before_its_children_are_ready),
        cmocka_unit_test(only_what_is_due_from_the_parent_is_placed),
        cmocka_unit_test(ready_counts_from_children_only),
        cmocka_unit_test(other_terms_in_ready_are_a_mismatch),
        cmocka_unit_test(ready_shows_a_rank_with_a_barrier_that_others_mean_a_tree),
        cmocka_unit_test(children_that_do_not_come_are_reminded_ever_less_often),
        cmocka_unit_test(who_waits_in_an_eager_tree_says_ready_ever_less_often),
        cmocka_unit_test(a_large_block_is_sent_in_several_steps),
        cmocka_unit_test(a_failure_cancels_the_copy_and_waits_for_it),
        cmocka_unit_test(nothing_is_placed_in_a_buffer_that_a_failure_has_given_back),
        cmocka_unit_test(a_tree_without_bytes_is_a_barrier),
        cmocka_unit_test(a_group_of_one_copies_and_has_finished),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
