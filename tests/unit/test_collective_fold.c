/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One rank's machine in a gathered reduction whose vectors are combined on the way up: a leaf, an inner vertex, the
 * root; which vectors go this way, what is refused, and what is said again.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "gather_world.h"

/* --- Steps ---------------------------------------------------------------------------------------------------------
 */

static void fold_init(struct world *world, enum tt_collective_kind kind, uint32_t rank, uint32_t size, uint32_t root,
                      uint64_t block_bytes)
{
    make_world(world, &(struct shape){.kind = kind,
                                      .rank = rank,
                                      .size = size,
                                      .root = root,
                                      .block_bytes = block_bytes,
                                      .chunk_bytes = 1024,
                                      .gather = true});
    assert_true(world_step(world, TT_EVENT_START, 0));
    next_is(&world->script, TT_ACTION_PUBLISH);
}

/* A whole vector of LARGE bytes, whose two pieces begin with these of the result. */
static void hear_vector(struct world *world, uint64_t now_ns, uint32_t source)
{
    no_more(&world->script);
    assert_true(hear_piece(world, now_ns, source, 0, PIECE));
    no_more(&world->script);
    assert_true(hear_piece(world, now_ns, source, PIECE, REST));
}

/* The two pieces of the first vector there. */
static void sends_vector(struct world *world, uint32_t to)
{
    for (uint32_t offset = 0; offset < LARGE; offset += PIECE) {
        const struct tt_frame *frame = next_sends(&world->script, TT_FRAME_GATHER, to);

        assert_int_equal(frame->body.gather.offset_bytes, offset);
        assert_int_equal(frame->body.gather.length_bytes, offset == 0 ? PIECE : REST);
        assert_ptr_equal(frame->body.gather.bytes, world->memory.gathered + offset);
    }
    no_more(&world->script);
}

/* --- Which vectors --------------------------------------------------------------------------------------------------
 */

static void a_vector_of_a_frame_goes_up_as_it_is_and_a_longer_one_is_combined(void **state)
{
    static const struct {
        enum tt_collective_kind kind;
        uint32_t size, root, block_bytes;
        bool folds;
    } known[] = {{TT_ALLREDUCE, 8, 0, PIECE, false},
                 {TT_ALLREDUCE, 8, 0, PIECE + 1, true},
                 {TT_REDUCE_SCATTER, 8, 0, PIECE + 1, true},
                 {TT_REDUCE, 8, 5, PIECE + 1, true},
                 {TT_ALLGATHER, 8, 0, PIECE + 1, false},
                 {TT_ALLREDUCE, 2, 0, PIECE + 1, true},
                 {TT_ALLREDUCE, 1, 0, PIECE + 1, true},
                 {TT_ALLREDUCE, 16, 0, TT_EAGER_MAX_BYTES / 16, false},
                 {TT_ALLREDUCE, 32, 0, TT_EAGER_MAX_BYTES / 32, false}, /* 32 KiB of all ranks */
                 {TT_ALLREDUCE, 32, 0, TT_EAGER_MAX_BYTES / 32 + 1, true},
                 {TT_REDUCE, 32, 5, TT_EAGER_MAX_BYTES / 32 + 1, true},
                 {TT_ALLREDUCE, 20, 0, PIECE + 1, true},
                 {TT_REDUCE, 20, 0, PIECE + 1, false}, /* as if it were another root's */
                 {TT_REDUCE, 20, 5, PIECE + 1, false}};

    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        const struct tt_collective_terms terms = {.kind = (uint8_t)known[i].kind,
                                                  .method = TT_METHOD_GATHER,
                                                  .root = known[i].root,
                                                  .block_bytes = known[i].block_bytes};

        assert_int_equal(tt_terms_fold(&terms, known[i].size), known[i].folds);
    }
}

/* --- One rank -------------------------------------------------------------------------------------------------------
 */

static void a_leaf_sends_its_vector_and_ends_when_the_result_has_come_down(void **state)
{
    struct world world;

    (void)state;
    fold_init(&world, TT_ALLREDUCE, 5, 8, 0, LARGE);
    sends_vector(&world, 4);
    assert_int_equal(tt_collective_waits_for(&world.collective), 4);
    ends_well(&world, 1, 3, LARGE); /* of 1,024 bytes */
}

/* Rank 4 of 8 speaks for 4 to 7: 5 is its first child, and 6 its second. */
static void an_inner_vertex_passes_on_what_it_has_combined(void **state)
{
    struct world world;

    (void)state;
    fold_init(&world, TT_ALLREDUCE, 4, 8, 0, LARGE);
    no_more(&world.script);
    assert_int_equal(tt_collective_waits_for(&world.collective), 5);
    assert_true(hear_piece(&world, 1, 6, 0, PIECE));
    hear_vector(&world, 2, 5);
    assert_int_equal(tt_collective_waits_for(&world.collective), 6);
    assert_guarded(world.memory.gathered, LARGE); /* the own one is the surroundings' */
    assert_memory_equal(world.memory.gathered + LARGE, result, LARGE);
    assert_memory_equal(world.memory.gathered + 2 * LARGE, result, PIECE);
    assert_guarded(world.memory.gathered + 2 * LARGE + PIECE, MACHINE_VECTORS_BYTES - 2 * LARGE - PIECE);
    no_more(&world.script);
    assert_true(hear_piece(&world, 3, 6, PIECE, REST));
    next_is(&world.script, TT_ACTION_COMBINE);
    sends_vector(&world, 0);
    assert_int_equal(tt_collective_waits_for(&world.collective), 0);
    assert_guarded(world.memory.buffer, MACHINE_BUFFER_BYTES);
}

static void the_root_combines_its_children_s_and_multicasts(void **state)
{
    static const enum tt_collective_kind kinds[] = {TT_ALLREDUCE, TT_REDUCE_SCATTER};

    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        struct world world;

        fold_init(&world, kinds[i], 0, 8, 0, LARGE);
        next_is(&world.script, TT_ACTION_FREEZE);
        hear_vector(&world, 1, 4);
        hear_vector(&world, 2, 1);
        assert_int_equal(tt_collective_waits_for(&world.collective), 2);
        assert_false(world.collective.everybody);
        hear_vector(&world, 3, 2);
        next_is(&world.script, TT_ACTION_COMBINE);
        next_is(&world.script, TT_ACTION_TRANSMIT);
        no_more(&world.script);
        assert_true(world.collective.everybody);
        assert_int_equal(world.collective.block_chunks, 3);
    }
}

/* Of six, the first four are pairs, of which 2 speaks for its own, as it is the root, and 1 for the other. */
static void a_reduce_goes_up_to_its_root(void **state)
{
    struct tt_release release;
    struct world world;

    (void)state;
    fold_init(&world, TT_REDUCE, 2, 6, 2, LARGE);
    next_is(&world.script, TT_ACTION_FREEZE);
    hear_vector(&world, 1, 1);
    hear_vector(&world, 2, 3);
    assert_int_equal(tt_collective_waits_for(&world.collective), 5);
    hear_vector(&world, 3, 5);
    next_is(&world.script, TT_ACTION_COMBINE);
    next_is(&world.script, TT_ACTION_TRANSMIT);
    tt_release_decode(world.memory.buffer, &release);
    assert_int_equal(release.finished, 5);
    fold_init(&world, TT_REDUCE, 0, 6, 2, LARGE);
    sends_vector(&world, 1);
    fold_init(&world, TT_REDUCE, 4, 6, 2, LARGE);
    sends_vector(&world, 5);
}

static void one_rank_is_its_own_root(void **state)
{
    struct world world;

    (void)state;
    fold_init(&world, TT_ALLREDUCE, 0, 1, 0, LARGE);
    next_is(&world.script, TT_ACTION_COMBINE);
}

static void the_least_of_all_goes_up_with_the_vectors(void **state)
{
    const struct tt_frame *told;
    struct tt_frame frame;
    struct world world;

    (void)state;
    fold_init(&world, TT_ALLREDUCE, 2, 8, 0, LARGE);
    frame = piece_of(&world, 0, PIECE);
    frame.body.gather.least = (struct tt_release){3, 900, 70, false, false};
    assert_true(world_hear_frame(&world, 1, frame, 3));
    assert_true(hear_piece(&world, 2, 3, PIECE, REST));
    next_is(&world.script, TT_ACTION_COMBINE);
    told = next_sends(&world.script, TT_FRAME_GATHER, 0);
    assert_true(told->body.gather.least.finished == 3 && told->body.gather.least.rate_kbit == 900);
    assert_int_equal(told->body.gather.least.window_chunks, 70);
}

/* --- What is refused, and what is said again ------------------------------------------------------------------------
 */

static void pieces_that_are_not_due_are_refused(void **state)
{
    static const struct {
        uint32_t source, offset, length;
    } bads[] = {
        {5, PIECE, REST},  /* not the first one */
        {5, 0, PIECE - 1}, /* too short for one that another follows */
        {5, 0, 0},         /* no bytes of it */
        {5, 1, PIECE},     /* beside its place */
        {5, LARGE, PIECE}, /* in the next vector */
        {5, UINT32_MAX, REST} /* nowhere */,
        {7, 0, PIECE}, /* from the child of another one */
        {0, 0, PIECE}, /* from the parent */
        {3, 0, PIECE}  /* from anybody */
    };
    struct world world;

    (void)state;
    fold_init(&world, TT_ALLREDUCE, 4, 8, 0, LARGE);
    for (size_t i = 0; i < sizeof bads / sizeof bads[0]; i++) {
        struct tt_frame frame = piece_of(&world, 0, bads[i].length);

        frame.body.gather.offset_bytes = bads[i].offset;
        if (world_hear_frame(&world, 1, frame, bads[i].source) || world.mismatch) {
            fail_msg("piece %zu was taken", i);
        }
        no_more(&world.script);
    }
    assert_true(hear_piece(&world, 2, 5, 0, PIECE));
    assert_false(hear_piece(&world, 3, 5, PIECE, REST - 1));
    assert_false(hear_piece(&world, 3, 5, PIECE, REST + 1));
    assert_int_equal(world.collective.gather.complete, 0);
    assert_guarded(world.memory.gathered + LARGE + PIECE, MACHINE_VECTORS_BYTES - LARGE - PIECE);
}

static void what_is_said_again_changes_nothing(void **state)
{
    struct tt_frame again;
    struct world world;

    (void)state;
    fold_init(&world, TT_ALLREDUCE, 4, 8, 0, LARGE);
    again = piece_of(&world, 0, PIECE);
    again.body.gather.bytes = result + 1; /* so that it would be seen */
    assert_true(hear_piece(&world, 1, 5, 0, PIECE));
    assert_true(world_hear_frame(&world, 2, again, 5));
    assert_true(hear_piece(&world, 3, 5, PIECE, REST));
    hear_vector(&world, 4, 6);
    next_is(&world.script, TT_ACTION_COMBINE);
    sends_vector(&world, 0);
    assert_true(world_hear_frame(&world, 5, again, 6));
    no_more(&world.script);
    assert_memory_equal(world.memory.gathered + LARGE, result, LARGE);
    assert_memory_equal(world.memory.gathered + 2 * LARGE, result, LARGE);
}

/* What has been combined is sent again, not combined again. */
static void a_rank_that_is_reminded_says_what_it_has_combined_again(void **state)
{
    struct world world;

    (void)state;
    fold_init(&world, TT_ALLREDUCE, 2, 8, 0, LARGE);
    assert_true(world_hear_remind(&world, 1, 0));
    no_more(&world.script);
    hear_vector(&world, 2, 3);
    next_is(&world.script, TT_ACTION_COMBINE);
    sends_vector(&world, 0);
    for (uint32_t reminder = 0; reminder < 2; reminder++) {
        assert_true(world_hear_remind(&world, 3 + reminder, 0));
        sends_vector(&world, 0);
    }
    assert_false(world_hear_remind(&world, 5, 3)); /* a child does not remind */
}

static void who_is_missing_is_reminded(void **state)
{
    struct world world;

    (void)state;
    fold_init(&world, TT_ALLREDUCE, 0, 8, 0, LARGE);
    next_is(&world.script, TT_ACTION_FREEZE);
    hear_vector(&world, 1, 4);
    assert_true(hear_piece(&world, 2, 2, 0, PIECE));
    world_step(&world, TT_EVENT_TICK, TT_TREE_REMIND_NS);
    next_sends(&world.script, TT_FRAME_REMIND, 1);
    no_more(&world.script); /* rank 2's is on its way */
    world_step(&world, TT_EVENT_TICK, 3 * TT_TREE_REMIND_NS);
    next_sends(&world.script, TT_FRAME_REMIND, 1);
    next_sends(&world.script, TT_FRAME_REMIND, 2);
    no_more(&world.script);
}

static void long_frames_init(struct world *world, uint32_t rank)
{
    make_world(
        world,
        &(struct shape){
            .kind = TT_ALLREDUCE, .rank = rank, .size = 8, .block_bytes = LARGE, .chunk_bytes = 1024, .gather = true});
    world->collective.config.vector_bytes = LARGE + 1;
    assert_true(world_step(world, TT_EVENT_START, 0));
    next_is(&world->script, TT_ACTION_PUBLISH);
}

static void a_vector_is_one_frame_where_frames_are_that_long(void **state)
{
    const struct tt_frame *frame;
    struct world world;

    (void)state;
    long_frames_init(&world, 5);
    frame = next_sends(&world.script, TT_FRAME_GATHER, 4);
    assert_int_equal(frame->body.gather.length_bytes, LARGE);
    assert_ptr_equal(frame->body.gather.bytes, world.memory.gathered);
    no_more(&world.script);
    long_frames_init(&world, 4);
    assert_false(hear_piece(&world, 1, 5, 0, PIECE));
    assert_true(hear_piece(&world, 2, 5, 0, LARGE));
    assert_int_equal(world.collective.gather.complete, 1);
}

/* Of which nothing is seen before all of it is here: who is silent has the time that three take on a slow link. */
static void who_sends_long_frames_is_reminded_later(void **state)
{
    const uint64_t remind_ns = TT_TREE_REMIND_NS + UINT64_C(3) * LARGE * 160;
    struct world world;

    (void)state;
    long_frames_init(&world, 0);
    next_is(&world.script, TT_ACTION_FREEZE);
    assert_true(hear_piece(&world, 1, 4, 0, LARGE));
    world_step(&world, TT_EVENT_TICK, remind_ns - 1);
    no_more(&world.script);
    world_step(&world, TT_EVENT_TICK, remind_ns);
    next_sends(&world.script, TT_FRAME_REMIND, 1);
    next_sends(&world.script, TT_FRAME_REMIND, 2);
    no_more(&world.script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_vector_of_a_frame_goes_up_as_it_is_and_a_longer_one_is_combined),
        cmocka_unit_test(a_leaf_sends_its_vector_and_ends_when_the_result_has_come_down),
        cmocka_unit_test(an_inner_vertex_passes_on_what_it_has_combined),
        cmocka_unit_test(the_root_combines_its_children_s_and_multicasts),
        cmocka_unit_test(a_reduce_goes_up_to_its_root),
        cmocka_unit_test(one_rank_is_its_own_root),
        cmocka_unit_test(the_least_of_all_goes_up_with_the_vectors),
        cmocka_unit_test(pieces_that_are_not_due_are_refused),
        cmocka_unit_test(what_is_said_again_changes_nothing),
        cmocka_unit_test(a_rank_that_is_reminded_says_what_it_has_combined_again),
        cmocka_unit_test(who_is_missing_is_reminded),
        cmocka_unit_test(a_vector_is_one_frame_where_frames_are_that_long),
        cmocka_unit_test(who_sends_long_frames_is_reminded_later),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
