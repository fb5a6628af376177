/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames for collectives that have not been started here: what is kept, for how long, and what is dropped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "member_world.h"
#include "proto/terms.h"

static const struct shape plain = {.block_bytes = WORLD_BYTES}, p2p = {.block_bytes = WORLD_BYTES, .p2p = true};
static const struct shape gather = {.kind = TT_ALLGATHER, .block_bytes = WORLD_BYTES, .gather = true};

static struct memory *memory_of(const struct tt_collective *collective)
{
    return &((struct request *)collective->owner)->memory;
}

/* The root, rank 0 of two, from the end of its barrier to its end. */
static void complete_root(struct world *world, struct tt_collective *collective)
{
    world_answer(world, 11, TT_MEMBER_FROZEN, collective);
    world_answer(world, 12, TT_MEMBER_SENT, collective);
    world_hear_type(world, 13, TT_FRAME_FINAL, 1, collective->sequence);
    assert_int_equal(collective->state, TT_COLLECTIVE_FINISHED);
}

static void barrier_frames_that_come_before_the_post_are_kept(void **state)
{
    struct world world;
    struct tt_collective *first, *second;

    (void)state;
    world_init(&world, 0, 3, 2);
    first = world_request(&world, p2p);
    second = world_request(&world, p2p);
    world_hear_barrier(&world, 1, first, 1, 1);
    world_hear_barrier(&world, 1, first, 0, 0);
    world_hear_barrier(&world, 1, first, 0, 1);
    world_hear_barrier(&world, 1, first, 0, 1); /* again */
    no_more(&world.script);
    assert_int_equal(world.member.drops_frame, 0);
    world_answer(&world, 2, TT_MEMBER_POST, first);
    next_sends(&world.script, TT_FRAME_BARRIER, 1);
    next_sends(&world.script, TT_FRAME_BARRIER, 2);
    assert_int_equal(first->state, TT_COLLECTIVE_HANDSHAKE); /* the root of a broadcast */
    world_answer(&world, 3, TT_MEMBER_POST, second);
    next_sends(&world.script, TT_FRAME_BARRIER, 1);
    no_more(&world.script);
    world_hear_barrier(&world, 4, second, 1, 0);
    next_sends(&world.script, TT_FRAME_BARRIER, 2);
    assert_int_equal(second->state, TT_COLLECTIVE_HANDSHAKE);
    world_fini(&world);
}

/* Its rounds would end it at once. */
static void early_ready_of_who_means_another_collective_than_a_barrier_is_not_missed(void **state)
{
    static const struct shape nothing = {.kind = TT_ALLGATHER, .p2p = true};
    struct tt_frame ready = {.type = TT_FRAME_READY};

    (void)state;
    for (uint32_t differs = 0; differs < 2; differs++) {
        struct world world;
        struct tt_collective *barrier;

        world_init(&world, 0, 3, 2);
        barrier = world_request(&world, nothing);
        world_hear_barrier(&world, 1, barrier, 0, 0);
        world_hear_barrier(&world, 1, barrier, 0, 1);
        ready.body.ready.terms = barrier->config.terms;
        ready.body.ready.terms.root += differs;
        world_hear(&world, 1, ready, 1, 0);
        world_answer(&world, 2, TT_MEMBER_POST, barrier);
        assert_int_equal(barrier->state, TT_COLLECTIVE_FINISHED);
        assert_int_equal(barrier->status, differs ? TUTTI_ERR_MISMATCH : TUTTI_OK);
        assert_int_equal(world.member.status, barrier->status);
        world_fini(&world);
    }
}

static void reports_that_come_before_the_root_has_posted_are_kept(void **state)
{
    struct world world;
    struct tt_collective *first, *second;

    (void)state;
    world_init(&world, 0, 3, 2);
    first = world_request(&world, plain);
    second = world_request(&world, plain);
    world_hear_gather(&world, 1, first, 1, 1);
    world_hear_gather(&world, 1, first, 1, 0);
    world_hear_gather(&world, 1, first, 2, 0);
    world_hear_gather(&world, 1, first, 2, 0); /* again */
    no_more(&world.script);
    assert_int_equal(world.member.drops_frame, 0);
    world_answer(&world, 2, TT_MEMBER_POST, first);
    next_is_for(&world, TT_ACTION_PUBLISH, first);
    next_sends(&world.script, TT_FRAME_FINAL, 2);
    assert_int_equal(first->state, TT_COLLECTIVE_HANDSHAKE); /* the root of a broadcast */
    world_answer(&world, 3, TT_MEMBER_POST, second);
    next_is_for(&world, TT_ACTION_PUBLISH, second);
    no_more(&world.script);
    world_hear_gather(&world, 4, second, 2, 1);
    next_is_for(&world, TT_ACTION_FREEZE, second); /* to be sent in its turn */
    no_more(&world.script);
    assert_int_equal(second->state, TT_COLLECTIVE_HANDSHAKE);
    world_fini(&world);
}

/* Rank 0 of three, and what rank 1 brings, a byte a place from `value` on. */
static void hear_block(struct world *world, const struct tt_collective *like, uint64_t sequence, uint32_t source,
                       uint8_t value)
{
    static uint8_t bytes[WORLD_BYTES];
    struct tt_frame frame = {.type = TT_FRAME_GATHER,
                             .body.gather = {.terms = like->config.terms,
                                             .least = {0, UINT32_MAX, UINT32_MAX, false, false},
                                             .offset_bytes = source * WORLD_BYTES,
                                             .length_bytes = WORLD_BYTES,
                                             .bytes = bytes}};

    for (uint32_t i = 0; i < WORLD_BYTES; i++) {
        bytes[i] = (uint8_t)(value + i);
    }
    world_hear(world, 1, frame, source, sequence);
    memset(bytes, 0, sizeof bytes); /* a frame's memory is not the member's to keep */
}

static void expect_block(const struct tt_collective *collective, uint32_t source, uint8_t value)
{
    for (uint32_t i = 0; i < WORLD_BYTES; i++) {
        assert_int_equal(memory_of(collective)->buffer[source * WORLD_BYTES + i], (uint8_t)(value + i));
    }
}

static void blocks_that_come_before_the_root_has_posted_are_kept(void **state)
{
    static struct world world;
    struct tt_collective *first, *second;

    (void)state;
    world_init(&world, 0, 3, 2);
    first = world_request(&world, gather);
    second = world_request(&world, gather);
    second->config.terms.before = tt_terms_behind(&first->config.terms);
    hear_block(&world, second, 1, 2, 40);
    hear_block(&world, first, 0, 1, 10);
    hear_block(&world, first, 0, 2, 20);
    hear_block(&world, second, 1, 1, 30);
    no_more(&world.script);
    assert_int_equal(world.member.drops_frame, 0);
    assert_int_equal(world.member.gathered.count, 4);
    world_answer(&world, 2, TT_MEMBER_POST, first);
    next_is_for(&world, TT_ACTION_PUBLISH, first);
    next_is_for(&world, TT_ACTION_FREEZE, first);
    next_is_for(&world, TT_ACTION_TRANSMIT, first);
    no_more(&world.script);
    expect_block(first, 1, 10);
    expect_block(first, 2, 20);
    assert_int_equal(world.member.gathered.count, 2);
    assert_int_equal(world.pool.taken, 1);
    world_answer(&world, 3, TT_MEMBER_POST, second);
    next_is_for(&world, TT_ACTION_PUBLISH, second);
    next_is_for(&world, TT_ACTION_FREEZE, second);
    next_is_for(&world, TT_ACTION_TRANSMIT, second);
    no_more(&world.script);
    expect_block(second, 1, 30);
    expect_block(second, 2, 40);
    assert_int_equal(world.pool.taken, 0); /* given back */
    world_fini(&world);
}

/* The pool is all groups'. Once by another rank's word, once because the post shows that one of them means another. */
static void what_came_early_is_given_back_when_the_group_fails(void **state)
{
    (void)state;
    for (uint32_t disagrees = 0; disagrees < 2; disagrees++) {
        static struct world world;
        struct tt_collective *first;

        world_init(&world, 0, 3, 2);
        first = world_request(&world, gather);
        hear_block(&world, first, 0, 1, 10);
        hear_block(&world, first, 0, 2, 20);
        assert_int_equal(world.pool.taken, 1);
        if (disagrees) {
            first->config.terms.root++;
            world_answer(&world, 2, TT_MEMBER_POST, first);
        } else {
            world_peer_down(&world, 2, 1);
        }
        assert_int_equal(world.member.status, disagrees ? TUTTI_ERR_MISMATCH : TUTTI_ERR_PEER_FAILED);
        assert_int_equal(world.pool.taken, 0);
        assert_int_equal(world.member.gathered.count, 0);
        world_fini(&world);
    }
}

static void blocks_without_room_are_dropped_and_asked_for_at_the_post(void **state)
{
    static struct world world;
    struct tt_collective *collective, *full;
    uint32_t kept = 0;

    (void)state;
    world_init(&world, 0, 3, 2);
    full = world_request(&world, gather);
    collective = world_request(&world, gather);
    collective->config.timeout_ns = UINT64_MAX;
    hear_block(&world, full, 0, 1, 10);
    while (world.member.drops_frame == 0) { /* of collectives that are still far away */
        hear_block(&world, full, 1 + kept % 4, 1 + kept / 4 % 2, 50);
        kept++;
    }
    assert_int_equal(kept, WORLD_SLAB / tt_early_bytes(WORLD_BYTES));
    hear_block(&world, full, 0, 2, 20);
    assert_int_equal(world.member.drops_frame, 2);
    world_answer(&world, 2, TT_MEMBER_POST, collective);
    next_is_for(&world, TT_ACTION_PUBLISH, collective);
    next_is_for(&world, TT_ACTION_FREEZE, collective);
    assert_int_equal(next_sends(&world.script, TT_FRAME_REMIND, 2)->sequence, 0); /* rank 1 is here */
    no_more(&world.script);
    assert_int_equal(tt_member_deadline(&world.member), 2 + TT_TREE_REMIND_NS); /* and again, if need be */
    hear_block(&world, collective, 0, 2, 20);
    next_is_for(&world, TT_ACTION_TRANSMIT, collective);
    no_more(&world.script);
    expect_block(collective, 1, 10);
    expect_block(collective, 2, 20);
    world_fini(&world);
}

static void what_was_kept_for_one_collective_does_not_leak_into_the_next_of_its_slot(void **state)
{
    enum { SLOTS = 2 + TT_EAGER_WINDOW };
    static struct world world;
    struct tt_collective *collectives[SLOTS + 1];

    (void)state;
    world_init(&world, 0, 2, 1);
    assert_int_equal(tt_member_slots(1), SLOTS); /* so that the first and the last here share one */
    for (uint32_t i = 0; i <= SLOTS; i++) {
        collectives[i] = world_request(&world, plain);
    }
    world_hear_gather(&world, 1, collectives[0], 1, 0);
    for (uint32_t i = 0; i < SLOTS; i++) {
        world_answer(&world, 2, TT_MEMBER_POST, collectives[i]);
        if (i > 0) {
            assert_int_equal(collectives[i]->state, TT_COLLECTIVE_BARRIER);
            world_hear_gather(&world, 2, collectives[i], 1, i);
        }
        complete_root(&world, collectives[i]);
    }
    world_answer(&world, 20, TT_MEMBER_POST, collectives[SLOTS]);
    assert_int_equal(collectives[SLOTS]->state, TT_COLLECTIVE_BARRIER);
    world_fini(&world);
}

static void frames_too_far_ahead_are_dropped(void **state)
{
    struct world world;
    struct tt_collective *like;

    (void)state;
    world_init(&world, 1, 2, 2);
    like = world_request(&world, plain);
    world_hear_barrier(&world, 1, like, 35, 0); /* 2 that run here, 32 eager ones, 2 that run there */
    assert_int_equal(world.member.drops_frame, 0);
    world_hear_barrier(&world, 1, like, 36, 0);
    assert_int_equal(world.member.drops_frame, 1);
    world_hear_barrier(&world, 1, like, UINT64_MAX, 0);
    assert_int_equal(world.member.drops_frame, 2);
    world_hear_gather(&world, 1, like, 0, 35);
    assert_int_equal(world.member.drops_frame, 2);
    world_hear_gather(&world, 1, like, 0, 36);
    world_hear_gather(&world, 1, like, 0, UINT64_MAX);
    assert_int_equal(world.member.drops_frame, 4);
    world_fini(&world);
}

static void what_nobody_sends_before_the_barrier_is_over_is_dropped(void **state)
{
    struct world world;
    static const enum tt_frame_type types[] = {TT_FRAME_ACTIVATE, TT_FRAME_DONE,  TT_FRAME_CREDIT,   TT_FRAME_GRANT,
                                               TT_FRAME_FETCH,    TT_FRAME_FINAL, TT_FRAME_AVAILABLE};

    (void)state;
    world_init(&world, 1, 2, 2);
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        world_hear_type(&world, 1, types[i], 0, 0);
        no_more(&world.script);
        assert_int_equal(world.member.drops_frame, i + 1);
    }
    world_fini(&world);
}

static void early_barrier_frames_from_the_wrong_rank_or_round_are_dropped(void **state)
{
    struct world world;
    struct tt_frame frame = {.type = TT_FRAME_BARRIER};

    (void)state;
    world_init(&world, 1, 5, 2);
    world_hear(&world, 1, frame, 2, 0);
    frame.body.barrier.round = 3;
    world_hear(&world, 1, frame, 0, 0);
    frame.body.barrier.round = 31;
    world_hear(&world, 1, frame, 0, 0);
    assert_int_equal(world.member.drops_frame, 3);
    world_fini(&world);
}

static void early_reports_from_ranks_that_are_no_neighbours_are_dropped(void **state)
{
    struct world world;
    struct tt_collective *like;

    (void)state;
    world_init(&world, 0, 20, 4); /* 1, 19, 2, 18, 4, 16, 8, 12; 3, 5 */
    like = world_request(&world, plain);
    world_hear_gather(&world, 1, like, 6, 0);
    world_hear_gather(&world, 1, like, 10, 0);
    assert_int_equal(world.member.drops_frame, 2);
    world_hear_gather(&world, 1, like, 12, 0);
    assert_int_equal(world.member.drops_frame, 2);
    world_fini(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(barrier_frames_that_come_before_the_post_are_kept),
        cmocka_unit_test(early_ready_of_who_means_another_collective_than_a_barrier_is_not_missed),
        cmocka_unit_test(reports_that_come_before_the_root_has_posted_are_kept),
        cmocka_unit_test(blocks_that_come_before_the_root_has_posted_are_kept),
        cmocka_unit_test(what_came_early_is_given_back_when_the_group_fails),
        cmocka_unit_test(blocks_without_room_are_dropped_and_asked_for_at_the_post),
        cmocka_unit_test(what_was_kept_for_one_collective_does_not_leak_into_the_next_of_its_slot),
        cmocka_unit_test(frames_too_far_ahead_are_dropped),
        cmocka_unit_test(what_nobody_sends_before_the_barrier_is_over_is_dropped),
        cmocka_unit_test(early_barrier_frames_from_the_wrong_rank_or_round_are_dropped),
        cmocka_unit_test(early_reports_from_ranks_that_are_no_neighbours_are_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
