/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One rank's machine in a small Allgather whose blocks go up the tree: a leaf, an inner vertex, the root; what is
 * refused, and who is reminded.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "gather_world.h"
#include "plan/dissemination.h"

/* --- One rank -------------------------------------------------------------------------------------------------------
 */

static void a_leaf_sends_its_block_up_and_ends_when_all_blocks_have_come_down(void **state)
{
    struct world world;

    (void)state;
    gather_init(&world, 5, 8, SMALL); /* 80 bytes: 5 chunks */
    sends_piece(&world, 0, 5 * SMALL, SMALL);
    no_more(&world.script);
    assert_int_equal(tt_collective_waits_for(&world.collective), 0);
    assert_int_equal(tt_collective_deadline(&world.collective), TT_EAGER_ASK_NS);
    assert_int_equal(atomic_load(&world.memory.streams[0].notify_at), 5); /* only then there is anything to do */
    memory_receive(&world.memory, 0, 0, 4);
    world_step(&world, TT_EVENT_TICK, 1);
    no_more(&world.script);
    memory_receive(&world.memory, 0, 4, 1);
    world_step(&world, TT_EVENT_TICK, 2);
    next_is(&world.script, TT_ACTION_FREEZE);
    no_more(&world.script);
    world_step(&world, TT_EVENT_FROZEN, 3);
    keeps(&world, 8 * SMALL);
    next_finishes(&world, TUTTI_OK, TT_RANK_NONE);
    assert_false(world.collective.everybody); /* that the others have begun says nothing of before */
}

static void a_block_longer_than_a_frame_goes_in_several(void **state)
{
    struct world world;

    (void)state;
    gather_init(&world, 2, 4, 2 * PIECE + 1);
    sends_piece(&world, 0, 2 * (2 * PIECE + 1), PIECE);
    sends_piece(&world, 0, 2 * (2 * PIECE + 1) + PIECE, PIECE);
    sends_piece(&world, 0, 2 * (2 * PIECE + 1) + 2 * PIECE, 1);
    no_more(&world.script);
    gather_init(&world, 3, 4, 2 * PIECE);
    sends_piece(&world, 0, 6 * PIECE, PIECE);
    sends_piece(&world, 0, 7 * PIECE, PIECE);
    no_more(&world.script);
}

/* Rank 8 of 20 speaks for 6 to 10: one piece of the buffer, cut anew. */
static void an_inner_vertex_passes_its_run_on_once_all_children_are_complete(void **state)
{
    struct world world;

    (void)state;
    gather_init(&world, 8, 20, LARGE);
    assert_int_equal(tt_collective_waits_for(&world.collective), 9);
    hear_blocks(&world, 1, 10, 10, 1);
    hear_blocks(&world, 2, 7, 7, 1);
    hear_blocks(&world, 3, 9, 9, 1);
    assert_int_equal(tt_collective_waits_for(&world.collective), 6);
    assert_true(hear_piece(&world, 4, 6, 6 * LARGE, PIECE));
    no_more(&world.script);
    assert_int_equal(tt_collective_waits_for(&world.collective), 6);
    assert_true(hear_piece(&world, 5, 6, 6 * LARGE + PIECE, REST));
    for (uint32_t offset = 0; offset < 5 * LARGE; offset += PIECE) {
        sends_piece(&world, 0, 6 * LARGE + offset, 5 * LARGE - offset < PIECE ? 5 * LARGE - offset : PIECE);
    }
    no_more(&world.script);
    assert_int_equal(tt_collective_waits_for(&world.collective), 0);
    assert_guarded(world.memory.buffer, 6 * LARGE);
    assert_guarded(world.memory.buffer + 11 * LARGE, MACHINE_BUFFER_BYTES - 11 * LARGE);
}

/* Children's pieces may come in turns, and at the same time as each other's. */
static void pieces_of_several_children_interleave(void **state)
{
    static const uint32_t children[] = {9, 10, 7, 6};
    struct world world;

    (void)state;
    gather_init(&world, 8, 20, LARGE);
    for (uint32_t i = 0; i < 8; i++) {
        uint32_t child = children[i % 4];

        no_more(&world.script);
        assert_true(hear_piece(&world, i, child, child * LARGE + (i < 4 ? 0 : PIECE), i < 4 ? PIECE : REST));
    }
    sends_piece(&world, 0, 6 * LARGE, PIECE);
    assert_memory_equal(world.memory.buffer + 6 * LARGE, result + 6 * LARGE, 5 * LARGE);
}

static void the_least_of_all_goes_up_the_tree_with_the_blocks(void **state)
{
    struct world world;
    struct tt_frame frame;
    const struct tt_frame *told;

    (void)state;
    gather_init(&world, 4, 20, SMALL); /* speaks for 3 and 5 */
    frame = piece_of(&world, 3 * SMALL, SMALL);
    frame.body.gather.least = (struct tt_release){3, 900, 70, false, false};
    assert_true(world_hear_frame(&world, 1, frame, 3));
    no_more(&world.script);
    frame = piece_of(&world, 5 * SMALL, SMALL);
    frame.body.gather.least = (struct tt_release){4, 800, 80, false, false};
    assert_true(world_hear_frame(&world, 1, frame, 5));
    told = next_sends(&world.script, TT_FRAME_GATHER, 0);
    assert_true(told->body.gather.least.finished == 3 && told->body.gather.least.rate_kbit == 800);
    assert_int_equal(told->body.gather.least.window_chunks, 70);
    no_more(&world.script);
}

/* It hears nobody by multicast, so its streams go at once. */
static void the_root_multicasts_once_all_blocks_are_there(void **state)
{
    struct world world;

    (void)state;
    gather_init(&world, 0, 3, SMALL);
    next_is(&world.script, TT_ACTION_FREEZE);
    no_more(&world.script);
    world_step(&world, TT_EVENT_FROZEN, 1);
    no_more(&world.script);
    hear_blocks(&world, 2, 2, 2, 1);
    no_more(&world.script);
    assert_int_equal(tt_collective_waits_for(&world.collective), 1);
    assert_false(world.collective.everybody);
    hear_blocks(&world, 3, 1, 1, 1);
    next_is(&world.script, TT_ACTION_TRANSMIT);
    no_more(&world.script);
    assert_memory_equal(world.memory.buffer, result, 3 * SMALL);
    assert_guarded(world.memory.buffer + 3 * SMALL, MACHINE_BUFFER_BYTES - 3 * SMALL);
    assert_int_equal(tt_collective_send_limit(&world.collective), 2);
    assert_true(world.collective.everybody && world.collective.least.finished == 5);
    assert_int_equal(tt_collective_waits_for(&world.collective), TT_RANK_NONE);
    assert_true(tt_collective_deadline(&world.collective) == UINT64_MAX);
    world_step(&world, TT_EVENT_SENT, 4);
    keeps(&world, 3 * SMALL);
    next_finishes(&world, TUTTI_OK, TT_RANK_NONE);
}

/* What comes together is not where the result comes. */
static void start_combined(struct world *world, enum tt_collective_kind kind, uint32_t rank, uint32_t size)
{
    make_world(world, &(struct shape){.kind = kind, .rank = rank, .size = size, .block_bytes = SMALL, .gather = true});
    memcpy(world->memory.gathered + rank * SMALL, result + rank * SMALL, SMALL);
    assert_true(world_step(world, TT_EVENT_START, 0));
    next_is(&world->script, TT_ACTION_PUBLISH);
}

static void the_root_combines_before_it_multicasts(void **state)
{
    static const enum tt_collective_kind kinds[] = {TT_ALLREDUCE, TT_REDUCE_SCATTER, TT_REDUCE};

    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        struct world world;
        struct tt_release release;

        start_combined(&world, kinds[i], 0, 3);
        next_is(&world.script, TT_ACTION_FREEZE);
        hear_blocks(&world, 1, 2, 2, 1);
        no_more(&world.script);
        hear_blocks(&world, 2, 1, 1, 1);
        next_is(&world.script, TT_ACTION_COMBINE);
        next_is(&world.script, TT_ACTION_TRANSMIT);
        assert_int_equal(world.collective.block_chunks, kinds[i] == TT_REDUCE ? 2 : 1); /* of 16 bytes */
        assert_memory_equal(world.memory.gathered, result, 3 * SMALL);
        if (kinds[i] == TT_REDUCE) { /* nobody else gets it */
            tt_release_decode(world.memory.buffer, &release);
            assert_int_equal(release.finished, 5);
            assert_guarded(world.memory.buffer + TT_RELEASE_BYTES, MACHINE_BUFFER_BYTES - TT_RELEASE_BYTES);
        } else {
            assert_guarded(world.memory.buffer, MACHINE_BUFFER_BYTES);
        }
    }
}

static void an_inner_vertex_passes_on_what_has_come_together_as_it_is(void **state)
{
    const struct tt_frame *frame;
    struct world world;

    (void)state;
    start_combined(&world, TT_ALLREDUCE, 4, 20);
    hear_blocks(&world, 1, 3, 3, 1);
    hear_blocks(&world, 2, 5, 5, 1);
    frame = next_sends(&world.script, TT_FRAME_GATHER, 0);
    assert_int_equal(frame->body.gather.length_bytes, 3 * SMALL);
    assert_ptr_equal(frame->body.gather.bytes, world.memory.gathered + 3 * SMALL);
    assert_memory_equal(world.memory.gathered + 3 * SMALL, result + 3 * SMALL, 3 * SMALL);
    no_more(&world.script);
    assert_guarded(world.memory.buffer, MACHINE_BUFFER_BYTES);
    ends_well(&world, 3, 1, SMALL); /* one block comes down */
}

static void the_root_of_a_larger_group_hears_from_its_branches(void **state)
{
    static const struct {
        uint32_t child, first, count;
    } branches[] = {{12, 11, 4}, {1, 1, 1}, {8, 6, 5}, {18, 18, 1}, {2, 2, 1}, {16, 15, 3}, {4, 3, 3}, {19, 19, 1}};
    struct world world;

    (void)state;
    gather_init(&world, 0, 20, LARGE);
    next_is(&world.script, TT_ACTION_FREEZE);
    for (size_t i = 0; i < sizeof branches / sizeof branches[0]; i++) {
        hear_blocks(&world, i, branches[i].child, branches[i].first, branches[i].count);
    }
    next_is(&world.script, TT_ACTION_TRANSMIT);
    no_more(&world.script);
    assert_memory_equal(world.memory.buffer, result, 20 * LARGE);
    assert_guarded(world.memory.buffer + 20 * LARGE, MACHINE_BUFFER_BYTES - 20 * LARGE);
}

static void the_root_waits_for_room_at_the_others(void **state)
{
    struct world world;

    (void)state;
    gather_init(&world, 0, 2, SMALL);
    world.collective.sending.may_send = false;
    next_is(&world.script, TT_ACTION_FREEZE);
    assert_true(hear_piece(&world, 1, 1, SMALL, SMALL));
    no_more(&world.script);
    world_step(&world, TT_EVENT_FROZEN, 2);
    no_more(&world.script);
    world.collective.sending.may_send = true; /* the member has heard that there is some */
    world_step(&world, TT_EVENT_TICK, 3);
    next_is(&world.script, TT_ACTION_TRANSMIT);
    no_more(&world.script);
}

static void a_request_can_be_run_again(void **state)
{
    struct world world;

    (void)state;
    gather_init(&world, 4, 20, LARGE);
    for (uint32_t run = 0; run < 3; run++) {
        hear_blocks(&world, 1, 3, 3, 1);
        hear_blocks(&world, 1, 5, 5, 1);
        for (uint32_t i = 0; i < 4; i++) {
            sends_piece(&world, 0, 3 * LARGE + i * PIECE, i < 3 ? PIECE : 3 * REST);
        }
        no_more(&world.script);
        memory_receive_all(&world.memory);
        world_step(&world, TT_EVENT_TICK, 2);
        world_step(&world, TT_EVENT_FROZEN, 3);
        keeps(&world, 20 * LARGE);
        next_finishes(&world, TUTTI_OK, TT_RANK_NONE);
        memset(world.memory.buffer, MACHINE_GUARD, sizeof world.memory.buffer);
        tt_collective_reset(&world.collective, COLLECTIVE_SEQUENCE);
        world.collective.sending.may_send = true;
        world.collective.copy.offset = PLACE;
        start(&world);
    }
}

/* --- What is refused ------------------------------------------------------------------------------------------------
 */

static void pieces_that_are_not_due_are_refused(void **state)
{
    static const struct {
        uint32_t source, offset, length;
    } bads[] = {
        {9, 9 * LARGE + PIECE, REST},    /* not the first one */
        {9, 9 * LARGE, PIECE - 1},       /* too short for one that another follows */
        {9, 9 * LARGE, 0},               /* no bytes of it */
        {9, 9 * LARGE + 1, PIECE},       /* beside its place */
        {9, 9 * LARGE - 1, PIECE},       /* and on the other side */
        {9, 10 * LARGE, PIECE},          /* another one's place */
        {9, 0, PIECE},                   /* the root's place */
        {10, 9 * LARGE, PIECE},          /* another one's piece */
        {8, 8 * LARGE, PIECE},           /* the own one */
        {0, 9 * LARGE, PIECE},           /* from the parent */
        {5, 5 * LARGE, PIECE},           /* from the child of another one */
        {11, 9 * LARGE, PIECE},          /* from anybody */
        {9, UINT32_MAX, PIECE},          /* nowhere */
        {9, 9 * LARGE + 2 * PIECE, REST} /* past the end */
    };
    struct world world;

    (void)state;
    gather_init(&world, 8, 20, LARGE);
    for (size_t i = 0; i < sizeof bads / sizeof bads[0]; i++) {
        struct tt_frame frame = piece_of(&world, 0, bads[i].length);

        frame.body.gather.offset_bytes = bads[i].offset;
        if (world_hear_frame(&world, 1, frame, bads[i].source) || world.mismatch) {
            fail_msg("piece %zu was taken", i);
        }
        no_more(&world.script);
    }
    assert_int_equal(world.collective.gather.complete, 0);
    assert_guarded(world.memory.buffer, 8 * LARGE);
    assert_guarded(world.memory.buffer + 9 * LARGE, MACHINE_BUFFER_BYTES - 9 * LARGE);
}

static void a_last_piece_of_another_length_is_refused(void **state)
{
    struct world world;

    (void)state;
    gather_init(&world, 8, 20, LARGE);
    assert_true(hear_piece(&world, 1, 9, 9 * LARGE, PIECE));
    assert_false(hear_piece(&world, 2, 9, 9 * LARGE + PIECE, REST - 1));
    assert_false(hear_piece(&world, 2, 9, 9 * LARGE + PIECE, REST + 1));
    assert_false(hear_piece(&world, 2, 9, 9 * LARGE + PIECE, 0));
    assert_guarded(world.memory.buffer + 9 * LARGE + PIECE, REST);
    assert_int_equal(world.collective.gather.complete, 0);
    assert_true(hear_piece(&world, 3, 9, 9 * LARGE + PIECE, REST));
    assert_int_equal(world.collective.gather.complete, 1);
}

/* A child that is reminded does not know how much has got here. */
static void what_is_said_again_is_not_placed_again(void **state)
{
    struct world world;
    struct tt_frame again;

    (void)state;
    gather_init(&world, 8, 20, LARGE);
    assert_true(hear_piece(&world, 1, 9, 9 * LARGE, PIECE));
    again = piece_of(&world, 9 * LARGE, PIECE);
    again.body.gather.bytes = result + 1; /* so that it would be seen */
    assert_true(world_hear_frame(&world, 2, again, 9));
    assert_memory_equal(world.memory.buffer + 9 * LARGE, result + 9 * LARGE, PIECE);
    assert_true(hear_piece(&world, 3, 9, 9 * LARGE + PIECE, REST));
    assert_true(world_hear_frame(&world, 4, again, 9));
    again.body.gather.offset_bytes += PIECE;
    again.body.gather.length_bytes = REST;
    assert_true(world_hear_frame(&world, 4, again, 9));
    no_more(&world.script);
    assert_memory_equal(world.memory.buffer + 9 * LARGE, result + 9 * LARGE, LARGE);
    assert_guarded(world.memory.buffer + 10 * LARGE, MACHINE_BUFFER_BYTES - 10 * LARGE);
}

static void frames_of_other_methods_have_no_place_here(void **state)
{
    struct world world;

    (void)state;
    gather_init(&world, 8, 20, SMALL);
    for (uint32_t source = 0; source < 20; source++) {
        assert_false(world_hear(&world, 1, TT_FRAME_ACTIVATE, source));
        assert_false(world_hear_done(&world, 1, source, 0));
        assert_false(world_hear(&world, 1, TT_FRAME_KEPT, source)); /* nobody was asked */
        assert_false(world_hear(&world, 1, TT_FRAME_FINAL, source));
        assert_false(world_hear(&world, 1, TT_FRAME_CREDIT, source));
        assert_false(world_hear(&world, 1, TT_FRAME_GRANT, source));
        assert_false(world_hear(&world, 1, TT_FRAME_DATA, source));
    }
    for (uint32_t round = 0; round < tt_dissemination_rounds(20); round++) {
        assert_false(world_hear_barrier(&world, 1, round));
    }
    no_more(&world.script);
}

static void other_terms_are_a_mismatch_whoever_says_so(void **state)
{
    struct world world;
    struct tt_frame frame;

    (void)state;
    gather_init(&world, 8, 20, SMALL);
    frame = piece_of(&world, 18 * SMALL, SMALL);
    frame.body.gather.terms.block_bytes++;
    assert_false(world_hear_frame(&world, 1, frame, 9));
    assert_true(world.mismatch);
    frame = piece_of(&world, 12 * SMALL, SMALL);
    frame.body.gather.terms.root = 8; /* a barrier of nothing, perhaps */
    assert_false(world_hear_frame(&world, 1, frame, 12));
    assert_true(world.mismatch);
    frame = (struct tt_frame){.type = TT_FRAME_REMIND, .body.ready.terms = world.memory.config.terms};
    frame.body.ready.terms.method = TT_METHOD_TREE;
    assert_false(world_hear_frame(&world, 1, frame, 0));
    assert_true(world.mismatch);
    no_more(&world.script);
    assert_int_equal(world.collective.gather.complete, 0);
}

/* --- Reminders ------------------------------------------------------------------------------------------------------
 */

static void a_rank_that_is_reminded_says_everything_again(void **state)
{
    struct world world;

    (void)state;
    gather_init(&world, 4, 20, LARGE);
    hear_blocks(&world, 1, 3, 3, 1);
    assert_true(world_hear_remind(&world, 2, 0));
    no_more(&world.script); /* it is not complete itself */
    hear_blocks(&world, 3, 5, 5, 1);
    for (uint32_t reminder = 0; reminder < 3; reminder++) {
        for (uint32_t i = 0; i < 4; i++) {
            sends_piece(&world, 0, 3 * LARGE + i * PIECE, i < 3 ? PIECE : 3 * REST);
        }
        no_more(&world.script);
        assert_int_equal(world.collective.gather.again, reminder > 0);
        assert_true(world_hear_remind(&world, 4 + reminder, 0));
    }
    assert_false(world_hear_remind(&world, 9, 3)); /* a child does not remind */
    no_more(&world.script);
    memory_receive(&world.memory, 0, 0, 1); /* what would be sent is being written */
    assert_true(world_hear_remind(&world, 10, 0));
    no_more(&world.script);
}

static void the_root_reminds_who_is_missing_or_incomplete(void **state)
{
    struct world world;

    (void)state;
    gather_init(&world, 0, 4, LARGE);
    next_is(&world.script, TT_ACTION_FREEZE);
    hear_blocks(&world, 1, 2, 2, 1);
    assert_true(hear_piece(&world, 1, 3, 3 * LARGE, PIECE));
    assert_int_equal(tt_collective_deadline(&world.collective), TT_TREE_REMIND_NS);
    world_step(&world, TT_EVENT_TICK, TT_TREE_REMIND_NS - 1);
    no_more(&world.script);
    world_step(&world, TT_EVENT_TICK, TT_TREE_REMIND_NS);
    assert_true(tt_collective_terms_agree(&next_sends(&world.script, TT_FRAME_REMIND, 1)->body.ready.terms,
                                          &world.memory.config.terms));
    no_more(&world.script); /* from rank 3 something has come */
    assert_int_equal(tt_collective_deadline(&world.collective), 3 * TT_TREE_REMIND_NS);
    world_step(&world, TT_EVENT_TICK, 3 * TT_TREE_REMIND_NS);
    next_sends(&world.script, TT_FRAME_REMIND, 1);
    next_sends(&world.script, TT_FRAME_REMIND, 3); /* and nothing since */
    no_more(&world.script);
    assert_int_equal(tt_collective_deadline(&world.collective), 7 * TT_TREE_REMIND_NS);
    /* Says all of it again, of which the second part is new. */
    assert_true(hear_piece(&world, 7 * TT_TREE_REMIND_NS - 2, 3, 3 * LARGE, PIECE));
    assert_true(hear_piece(&world, 7 * TT_TREE_REMIND_NS - 1, 3, 3 * LARGE + PIECE, REST));
    world_step(&world, TT_EVENT_TICK, 7 * TT_TREE_REMIND_NS);
    next_sends(&world.script, TT_FRAME_REMIND, 1);
    no_more(&world.script);
    hear_blocks(&world, 8 * TT_TREE_REMIND_NS, 1, 1, 1);
    next_is(&world.script, TT_ACTION_TRANSMIT);
    no_more(&world.script);
    assert_true(tt_collective_deadline(&world.collective) == UINT64_MAX);
}

/* It asks, as whoever waits, and reminds besides. */
static void an_inner_vertex_asks_to_the_left_and_reminds_its_children(void **state)
{
    struct world world;

    (void)state;
    gather_init(&world, 4, 20, SMALL);
    hear_blocks(&world, 1, 5, 5, 1);
    assert_int_equal(tt_collective_deadline(&world.collective), TT_EAGER_ASK_NS);
    world_step(&world, TT_EVENT_TICK, TT_EAGER_ASK_NS);
    next_sends(&world.script, TT_FRAME_ASK, 3);
    no_more(&world.script);
    assert_int_equal(tt_collective_deadline(&world.collective), TT_TREE_REMIND_NS);
    world_step(&world, TT_EVENT_TICK, TT_TREE_REMIND_NS);
    next_sends(&world.script, TT_FRAME_REMIND, 3);
    no_more(&world.script);
    hear_blocks(&world, TT_TREE_REMIND_NS + 1, 3, 3, 1);
    sends_piece(&world, 0, 3 * SMALL, 3 * SMALL);
    no_more(&world.script);
    assert_true(tt_collective_deadline(&world.collective) == UINT64_MAX); /* one root: it has asked for everything */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_leaf_sends_its_block_up_and_ends_when_all_blocks_have_come_down),
        cmocka_unit_test(a_block_longer_than_a_frame_goes_in_several),
        cmocka_unit_test(an_inner_vertex_passes_its_run_on_once_all_children_are_complete),
        cmocka_unit_test(pieces_of_several_children_interleave),
        cmocka_unit_test(the_least_of_all_goes_up_the_tree_with_the_blocks),
        cmocka_unit_test(the_root_multicasts_once_all_blocks_are_there),
        cmocka_unit_test(the_root_combines_before_it_multicasts),
        cmocka_unit_test(an_inner_vertex_passes_on_what_has_come_together_as_it_is),
        cmocka_unit_test(the_root_of_a_larger_group_hears_from_its_branches),
        cmocka_unit_test(the_root_waits_for_room_at_the_others),
        cmocka_unit_test(a_request_can_be_run_again),
        cmocka_unit_test(pieces_that_are_not_due_are_refused),
        cmocka_unit_test(a_last_piece_of_another_length_is_refused),
        cmocka_unit_test(what_is_said_again_is_not_placed_again),
        cmocka_unit_test(frames_of_other_methods_have_no_place_here),
        cmocka_unit_test(other_terms_are_a_mismatch_whoever_says_so),
        cmocka_unit_test(a_rank_that_is_reminded_says_everything_again),
        cmocka_unit_test(the_root_reminds_who_is_missing_or_incomplete),
        cmocka_unit_test(an_inner_vertex_asks_to_the_left_and_reminds_its_children),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
