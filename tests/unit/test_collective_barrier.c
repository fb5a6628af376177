/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The collective machine's barrier: gathering at the root in front of multicast, what ends it, and what it refuses; and
 * the rounds where nothing is multicast.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "collective_world.h"
#include "plan/dissemination.h"

enum { BYTES = 16 * 10 };

/* --- Gathering ---------------------------------------------------------------------------------------------------- */

static void assert_is_gather_of(const struct tt_frame *frame, const struct world *world)
{
    assert_true(tt_collective_terms_agree(&frame->body.gather.terms, &world->memory.config.terms));
    assert_true(frame->source == world->memory.config.rank && frame->group == MACHINE_GROUP);
    assert_true(frame->sequence == COLLECTIVE_SEQUENCE);
    assert_int_equal(frame->body.gather.offset_bytes, 0);
    assert_int_equal(frame->body.gather.length_bytes, 0);
    assert_null(frame->body.gather.bytes);
}

static void streams_are_published_before_anybody_hears_of_it(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, &(struct shape){.rank = 1, .size = 2, .block_bytes = BYTES});
    assert_true(world_step(&world, TT_EVENT_START, 0));
    next_is(&world.script, TT_ACTION_PUBLISH);
    assert_is_gather_of(next_sends(&world.script, TT_FRAME_GATHER, 0), &world);
    no_more(&world.script);
    assert_int_equal(world.collective.state, TT_COLLECTIVE_BARRIER);
}

static uint32_t rank_of(const struct world *world, uint32_t vertex)
{
    const struct tt_collective_config *config = &world->memory.config;

    return tt_rank_add(vertex, config->terms.root, config->size);
}

/* The children report in order or in reverse; only after the last one the parent hears of it, or all are released. */
static void check_gathering(uint32_t rank, uint32_t size, bool reverse)
{
    struct world world;
    struct tt_gather_place place, child;
    uint32_t root = size - 1, children;

    world_init(&world, &(struct shape){.rank = rank, .size = size, .block_bytes = BYTES, .root = root});
    tt_gather_place(size, (rank + 1) % size, &place);
    children = tt_gather_child_count(size, &place);
    world_step(&world, TT_EVENT_START, 0);
    next_is(&world.script, TT_ACTION_PUBLISH);
    for (uint32_t i = 0; i < children; i++) {
        no_more(&world.script);
        assert_int_equal(world.collective.state, TT_COLLECTIVE_BARRIER);
        tt_gather_child(size, &place, reverse ? children - 1 - i : i, &child);
        assert_true(world_hear_gather(&world, 1, rank_of(&world, child.vertex)));
    }
    if (rank == root) {
        next_sends(&world.script, TT_FRAME_FINAL, rank - 1);
        next_is(&world.script, TT_ACTION_FREEZE);
        next_is(&world.script, TT_ACTION_TRANSMIT);
        no_more(&world.script);
        return;
    }
    assert_is_gather_of(next_sends(&world.script, TT_FRAME_GATHER, rank_of(&world, place.parent)), &world);
    no_more(&world.script);
    assert_int_equal(world.collective.state, TT_COLLECTIVE_BARRIER);
    world_release(&world, 2);
    no_more(&world.script);
    assert_int_equal(world.collective.state, TT_COLLECTIVE_RECEIVE);
    assert_true(world.collective.everybody);
}

static void every_rank_tells_its_parent_once_all_its_children_have(void **state)
{
    static const uint32_t sizes[] = {2, 3, 5, 16, 17, 20, 33};

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (uint32_t rank = 0; rank < sizes[i]; rank++) {
            check_gathering(rank, sizes[i], false);
            check_gathering(rank, sizes[i], true);
        }
    }
}

/* Rank 8 of 20 speaks for 6 to 10; each says what holds for itself. */
static void the_least_of_all_goes_up_the_tree(void **state)
{
    static const struct {
        uint32_t source;
        struct tt_release least;
    } children[] = {{6, {4, 9000, 500, false, false}},
                    {7, {3, 7000, 300, false, false}},
                    {9, {9, 8000, 200, false, false}},
                    {10, {5, 6000, 400, false, false}}};
    struct world world;
    const struct tt_frame *told;

    (void)state;
    world_init(&world, &(struct shape){.rank = 8, .size = 20, .block_bytes = BYTES});
    world.collective.least.finished = 4;
    world_step(&world, TT_EVENT_START, 0);
    next_is(&world.script, TT_ACTION_PUBLISH);
    for (size_t i = 0; i < sizeof children / sizeof children[0]; i++) {
        struct tt_frame frame = {.type = TT_FRAME_GATHER,
                                 .body.gather = {.terms = world.memory.config.terms, .least = children[i].least}};

        no_more(&world.script);
        assert_true(world_hear_frame(&world, 1, frame, children[i].source));
    }
    told = next_sends(&world.script, TT_FRAME_GATHER, 0);
    assert_true(told->body.gather.least.finished == 3);
    assert_int_equal(told->body.gather.least.rate_kbit, 6000);
    assert_int_equal(told->body.gather.least.window_chunks, 200);
}

/* The others have said what they can take when they posted; meanwhile another collective has begun. */
static void who_releases_divides_the_window_with_what_it_has_released_before(void **state)
{
    struct world world;
    struct tt_frame frame = {.type = TT_FRAME_GATHER};

    (void)state;
    world_init(&world, &(struct shape){
                           .kind = TT_ALLGATHER, .rank = 0, .size = 2, .block_bytes = 16 * 400, .window_chunks = 64});
    world_step(&world, TT_EVENT_START, 0);
    assert_int_equal(world.collective.least.window_chunks, 64);
    world.memory.link.users = 1;
    frame.body.gather.terms = world.memory.config.terms;
    frame.body.gather.least = (struct tt_release){.rate_kbit = UINT32_MAX, .window_chunks = 64};
    assert_true(world_hear_frame(&world, 1, frame, 1));
    assert_int_equal(world.collective.state, TT_COLLECTIVE_RECEIVE);
    assert_int_equal(world.collective.least.window_chunks, 32);
    assert_int_equal(world.memory.link.users, 2);
    world.memory.link.users--; /* which is over */
}

/* It cannot say so twice: a child that is reminded does not know what has got here. */
static void a_child_counts_once_however_often_it_says_so(void **state)
{
    struct tt_frame frame = {.type = TT_FRAME_GATHER};
    struct world world;

    (void)state;
    world_init(&world, &(struct shape){.rank = 0, .size = 3, .block_bytes = BYTES});
    world.collective.least.finished = 7;
    world_step(&world, TT_EVENT_START, 0);
    frame.body.gather.terms = world.memory.config.terms;
    frame.body.gather.least = tt_release_of(6);
    assert_true(world_hear_frame(&world, 1, frame, 1));
    frame.body.gather.least.finished = 5; /* it has said what counts */
    assert_true(world_hear_frame(&world, 2, frame, 1));
    assert_int_equal(world.collective.least.finished, 6);
    no_more(&world.script);
    assert_int_equal(world.collective.state, TT_COLLECTIVE_BARRIER);
    assert_true(world_hear_gather(&world, 3, 2));
    assert_int_equal(world.collective.state, TT_COLLECTIVE_HANDSHAKE);
}

static void gather_from_who_is_no_child_does_not_count(void **state)
{
    struct world world;
    struct tt_frame frame = {.type = TT_FRAME_GATHER};

    (void)state;
    world_init(&world, &(struct shape){.rank = 8, .size = 20, .block_bytes = BYTES});
    world_step(&world, TT_EVENT_START, 0);
    next_is(&world.script, TT_ACTION_PUBLISH);
    assert_false(world_hear_gather(&world, 1, 0));  /* the parent */
    assert_false(world_hear_gather(&world, 1, 12)); /* a neighbour, but not of this branch */
    assert_false(world_hear_gather(&world, 1, 5));  /* no neighbour at all */
    assert_false(world_hear_gather(&world, 1, 8));
    frame.body.gather.terms = world.memory.config.terms;
    frame.body.gather.offset_bytes = 1;
    assert_false(world_hear_frame(&world, 1, frame, 9));
    frame.body.gather.offset_bytes = 0;
    frame.body.gather.length_bytes = 1; /* nothing is to be gathered */
    frame.body.gather.bytes = (const uint8_t *)"x";
    assert_false(world_hear_frame(&world, 1, frame, 9));
    assert_false(world.mismatch);
    no_more(&world.script);
    assert_int_equal(world.collective.gather.complete, 0);
    assert_false(world_hear_barrier(&world, 1, 0));
    assert_int_equal(world.collective.barrier.heard, 0);
}

static void a_rank_that_is_reminded_says_again_what_it_has_said(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, &(struct shape){.rank = 8, .size = 20, .block_bytes = BYTES});
    world_step(&world, TT_EVENT_START, 0);
    assert_true(world_hear_remind(&world, 1, 0));
    no_more(&world.script); /* it has not said anything yet */
    for (uint32_t source = 6; source <= 10; source++) {
        assert_int_equal(world_hear_gather(&world, 2, source), source != 8);
    }
    next_sends(&world.script, TT_FRAME_GATHER, 0);
    no_more(&world.script);
    assert_false(world_hear_remind(&world, 3, 6)); /* a child does not remind */
    assert_false(world_hear_remind(&world, 3, 16));
    no_more(&world.script);
    assert_true(world_hear_remind(&world, 4, 0));
    assert_is_gather_of(next_sends(&world.script, TT_FRAME_GATHER, 0), &world);
    no_more(&world.script);
    world_init(&world, &(struct shape){.rank = 0, .size = 20, .block_bytes = BYTES});
    world_step(&world, TT_EVENT_START, 0);
    assert_false(world_hear_remind(&world, 1, 8)); /* nobody reminds the root */
}

static void children_that_are_missing_are_reminded_after_20_ms_then_twice_as_long_each_time(void **state)
{
    static const uint64_t due_ms[] = {20, 60, 140, 300, 620, 1260, 2540, 3820, 5100};
    struct world world;

    (void)state;
    world_init(&world, &(struct shape){.rank = 3, .size = 4, .block_bytes = BYTES, .root = 3});
    world_step(&world, TT_EVENT_START, 0);
    assert_true(world_hear_gather(&world, 1, 1));
    for (size_t i = 0; i < sizeof due_ms / sizeof due_ms[0]; i++) {
        uint64_t due_ns = due_ms[i] * 1000000;

        assert_int_equal(tt_collective_deadline(&world.collective), due_ns);
        world_step(&world, TT_EVENT_TICK, due_ns - 1);
        no_more(&world.script);
        world_step(&world, TT_EVENT_TICK, due_ns);
        assert_true(tt_collective_terms_agree(&next_sends(&world.script, TT_FRAME_REMIND, 0)->body.ready.terms,
                                              &world.memory.config.terms));
        next_sends(&world.script, TT_FRAME_REMIND, 2);
        no_more(&world.script);
    }
    world_hear_gather(&world, UINT64_C(6000000000), 0);
    world_hear_gather(&world, UINT64_C(6000000000), 2);
    assert_int_equal(world.collective.state, TT_COLLECTIVE_HANDSHAKE);
    assert_true(tt_collective_deadline(&world.collective) == UINT64_MAX);
}

static void a_rank_without_children_reminds_nobody(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, &(struct shape){.rank = 1, .size = 4, .block_bytes = BYTES});
    world_step(&world, TT_EVENT_START, 0);
    assert_true(tt_collective_deadline(&world.collective) == UINT64_MAX);
    world_step(&world, TT_EVENT_TICK, 100000000);
    no_more(&world.script);
}

static void the_release_says_how_far_all_have_got(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, &(struct shape){.rank = 1, .size = 3, .block_bytes = BYTES});
    world.collective.least = (struct tt_release){9, 8000, UINT32_MAX, false, false};
    world_step(&world, TT_EVENT_START, 0);
    world_step(&world, TT_EVENT_TICK, 1);
    assert_int_equal(world.collective.state, TT_COLLECTIVE_BARRIER);
    memory_release(&world.memory, &(struct tt_release){7, 9000, UINT32_MAX, false, false});
    world_step(&world, TT_EVENT_TICK, 2);
    no_more(&world.script);
    assert_true(world.collective.everybody);
    assert_true(world.collective.least.finished == 7 && world.collective.least.rate_kbit == 8000);
    assert_int_equal(tt_collective_deadline(&world.collective), 2 + MACHINE_WIRE_NS + MACHINE_ALPHA_NS);
}

/* It is forged, or one of 128 collectives ago: the parent has yet to hear of this rank and its children. */
static void a_release_before_all_children_have_reported_changes_nothing(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, &(struct shape){.rank = 8, .size = 20, .block_bytes = BYTES});
    world_step(&world, TT_EVENT_START, 0);
    next_is(&world.script, TT_ACTION_PUBLISH);
    world_release(&world, 1);
    no_more(&world.script);
    assert_int_equal(world.collective.state, TT_COLLECTIVE_BARRIER);
    assert_true(tt_collective_deadline(&world.collective) > 1);
    for (uint32_t source = 6; source <= 10; source++) {
        assert_int_equal(world_hear_gather(&world, 2, source), source != 8);
    }
    next_sends(&world.script, TT_FRAME_GATHER, 0);
    no_more(&world.script);
    world_release(&world, 3);
    assert_int_equal(world.collective.state, TT_COLLECTIVE_RECEIVE);
}

static void the_cutoff_counts_on_the_least_bandwidth_that_was_found(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, &(struct shape){.rank = 1, .size = 3, .block_bytes = BYTES});
    world.collective.config.bandwidth_kbit = 8000;
    world_step(&world, TT_EVENT_START, 0);
    memory_release(&world.memory, &(struct tt_release){7, 2000, UINT32_MAX, false, false});
    world_step(&world, TT_EVENT_TICK, 2);
    assert_int_equal(tt_collective_deadline(&world.collective), 2 + 4 * MACHINE_WIRE_NS + MACHINE_ALPHA_NS);
}

static void a_chunk_without_a_release_ends_the_barrier(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, &(struct shape){.rank = 1, .size = 3, .block_bytes = BYTES});
    world_step(&world, TT_EVENT_START, 0);
    assert_int_equal(atomic_load(&world.memory.streams[0].notify_at), 1); /* the kernel says so at once */
    memory_receive(&world.memory, 0, 7, 1);
    world_step(&world, TT_EVENT_TICK, 2);
    no_more(&world.script);
    assert_int_equal(world.collective.state, TT_COLLECTIVE_RECEIVE);
    assert_false(world.collective.everybody);
    assert_int_equal(atomic_load(&world.memory.streams[0].notify_at), 10);
    assert_int_equal(tt_collective_deadline(&world.collective), 2 + MACHINE_WIRE_NS + MACHINE_ALPHA_NS);
}

/* Of a rank that has everything, and whose neighbour has neither heard the release nor a chunk. */
static void final_of_the_right_neighbour_ends_the_barrier(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, &(struct shape){.rank = 1, .size = 3, .block_bytes = BYTES});
    world_step(&world, TT_EVENT_START, 0);
    assert_false(world_hear(&world, 1, TT_FRAME_FINAL, 0)); /* out of turn: says nothing */
    assert_int_equal(world.collective.state, TT_COLLECTIVE_BARRIER);
    assert_true(world_hear(&world, 2, TT_FRAME_FINAL, 2));
    no_more(&world.script);
    assert_int_equal(world.collective.state, TT_COLLECTIVE_RECEIVE);
}

static void terms_that_differ_in_any_field_are_a_mismatch(void **state)
{
    struct world world;

    (void)state;
    for (uint32_t field = 0; field < 3 * 7; field++) {
        uint32_t way = field / 7; /* a child, the parent, a round of a barrier of another method */
        struct tt_frame frame = {.type = way == 0 ? TT_FRAME_GATHER : way == 1 ? TT_FRAME_REMIND : TT_FRAME_BARRIER};
        struct tt_collective_terms *terms = way == 0   ? &frame.body.gather.terms
                                            : way == 1 ? &frame.body.ready.terms
                                                       : &frame.body.barrier.terms;

        world_init(&world, &(struct shape){.rank = 1, .size = 2, .block_bytes = BYTES, .root = way == 0});
        world_step(&world, TT_EVENT_START, 0);
        *terms = world.memory.config.terms;
        terms->kind += field % 7 == 0;
        terms->method ^= field % 7 == 1;
        terms->subgroups += field % 7 == 2;
        terms->root += field % 7 == 3;
        terms->chunk_bytes += field % 7 == 4;
        terms->chains += field % 7 == 5;
        terms->block_bytes += field % 7 == 6;
        assert_false(world_hear_frame(&world, 1, frame, 0));
        assert_true(world.mismatch);
        no_more(&world.script);
        assert_int_equal(world.collective.state, TT_COLLECTIVE_BARRIER);
    }
}

/* Both wait for the other's report; who reminds first is told of it. */
static void ranks_that_mean_different_roots_find_out_by_a_reminder(void **state)
{
    struct world one, other;
    struct tt_frame ready;

    (void)state;
    world_init(&one, &(struct shape){.rank = 0, .size = 2, .block_bytes = BYTES, .root = 0});
    world_init(&other, &(struct shape){.rank = 1, .size = 2, .block_bytes = BYTES, .root = 1});
    world_step(&one, TT_EVENT_START, 0);
    next_is(&one.script, TT_ACTION_PUBLISH);
    no_more(&one.script);
    world_step(&other, TT_EVENT_START, 5);
    next_is(&other.script, TT_ACTION_PUBLISH);
    no_more(&other.script);
    world_step(&one, TT_EVENT_TICK, 20000000);
    ready = *next_sends(&one.script, TT_FRAME_REMIND, 1);
    assert_false(world_hear_frame(&other, 20000001, ready, 0));
    assert_true(other.mismatch);
}

static void gathering_waits_for_a_child_or_else_for_the_parent(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, &(struct shape){.rank = 8, .size = 20, .block_bytes = BYTES});
    world_step(&world, TT_EVENT_START, 0);
    assert_int_equal(tt_collective_waits_for(&world.collective), 9); /* +1, +2, -1, -2 */
    world_hear_gather(&world, 1, 9);
    assert_int_equal(tt_collective_waits_for(&world.collective), 10);
    world_hear_gather(&world, 1, 7);
    assert_int_equal(tt_collective_waits_for(&world.collective), 10);
    world_hear_gather(&world, 1, 10);
    assert_int_equal(tt_collective_waits_for(&world.collective), 6);
    world_hear_gather(&world, 1, 6);
    assert_int_equal(tt_collective_waits_for(&world.collective), 0);
    world_init(&world, &(struct shape){.rank = 4, .size = 8, .block_bytes = BYTES, .root = 4});
    world_step(&world, TT_EVENT_START, 0);
    assert_int_equal(tt_collective_waits_for(&world.collective), 5);
    world_init(&world, &(struct shape){.rank = 5, .size = 8, .block_bytes = BYTES, .root = 4});
    world_step(&world, TT_EVENT_START, 0);
    assert_int_equal(tt_collective_waits_for(&world.collective), 4);
    world_release(&world, 1);
    assert_int_equal(tt_collective_waits_for(&world.collective), 4); /* for the data now */
}

/* --- Rounds, where nothing is multicast ----------------------------------------------------------------------------
 */

static void every_round_waits_for_the_rounds_before_it(void **state)
{
    static const uint32_t sizes[] = {2, 3, 5, 8};
    struct world world;

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint32_t size = sizes[i], rounds = tt_dissemination_rounds(size);

        for (uint32_t variant = 0; variant < 2 * size; variant++) {
            uint32_t rank = variant / 2;
            bool p2p = variant % 2; /* or multicast, of nothing */

            world_init(&world,
                       &(struct shape){
                           .rank = rank, .size = size, .block_bytes = p2p ? BYTES : 0, .root = size - 1, .p2p = p2p});
            world_step(&world, TT_EVENT_START, 0);
            for (uint32_t round = 0; round < rounds; round++) {
                uint32_t to = (size & (size - 1)) == 0 ? rank ^ 1U << round : (rank + (1U << round)) % size;
                const struct tt_frame *frame = next_sends(&world.script, TT_FRAME_BARRIER, to);

                assert_int_equal(frame->body.barrier.round, round);
                assert_memory_equal(&frame->body.barrier.terms, &world.memory.config.terms,
                                    sizeof frame->body.barrier.terms);
                assert_true(frame->source == rank && frame->group == MACHINE_GROUP);
                assert_true(frame->sequence == COLLECTIVE_SEQUENCE);
                no_more(&world.script);
                assert_int_equal(world.collective.state, TT_COLLECTIVE_BARRIER);
                assert_true(world_hear_barrier(&world, 1, round));
            }
            assert_true(world.collective.state > TT_COLLECTIVE_BARRIER);
            assert_true(world.collective.everybody);
        }
    }
}

static void rounds_that_come_early_count_once_the_earlier_ones_are_in(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, &(struct shape){.rank = 4, .size = 5, .block_bytes = BYTES, .p2p = true});
    world_step(&world, TT_EVENT_START, 0);
    assert_true(world_hear_barrier(&world, 1, 2));
    no_more(&world.script);
    assert_true(world_hear_barrier(&world, 2, 1));
    no_more(&world.script);
    assert_true(world_hear_barrier(&world, 3, 0));
    next_sends(&world.script, TT_FRAME_BARRIER, 1);
    next_sends(&world.script, TT_FRAME_BARRIER, 3);
    next_sends(&world.script, TT_FRAME_FETCH, 3);
    no_more(&world.script);
    assert_int_equal(world.collective.state, TT_COLLECTIVE_FETCH);
}

static void frames_of_a_barrier_from_the_wrong_rank_or_round_do_not_count(void **state)
{
    struct world world;
    struct tt_frame frame = {.type = TT_FRAME_BARRIER};

    (void)state;
    world_init(&world, &(struct shape){.rank = 1, .size = 3, .block_bytes = BYTES, .p2p = true});
    world_step(&world, TT_EVENT_START, 0);
    frame.body.barrier.terms = world.memory.config.terms;
    assert_false(world_hear_frame(&world, 1, frame, 2)); /* round 0 comes from 0 */
    assert_false(world.mismatch);
    frame.body.barrier.round = 2;
    assert_false(world_hear_frame(&world, 1, frame, 0)); /* there are two rounds */
    frame.body.barrier.round = 31;
    assert_false(world_hear_frame(&world, 1, frame, 0));
    no_more(&world.script);
    assert_int_equal(world.collective.barrier.heard, 0);
    assert_false(world_hear_gather(&world, 1, 2)); /* nothing is gathered here */
    assert_false(world_hear_remind(&world, 1, 0));
    no_more(&world.script);
}

static void the_barrier_names_the_rank_that_it_waits_for(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, &(struct shape){.rank = 4, .size = 8, .block_bytes = BYTES, .p2p = true});
    world_step(&world, TT_EVENT_START, 0);
    assert_int_equal(tt_collective_waits_for(&world.collective), 5);
    world_hear_barrier(&world, 1, 0);
    assert_int_equal(tt_collective_waits_for(&world.collective), 6);
    world_hear_barrier(&world, 1, 2);
    assert_int_equal(tt_collective_waits_for(&world.collective), 6);
    world_hear_barrier(&world, 1, 1);
    assert_int_equal(tt_collective_waits_for(&world.collective), 3); /* who has the data for it */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams_are_published_before_anybody_hears_of_it),
        cmocka_unit_test(every_rank_tells_its_parent_once_all_its_children_have),
        cmocka_unit_test(the_least_of_all_goes_up_the_tree),
        cmocka_unit_test(who_releases_divides_the_window_with_what_it_has_released_before),
        cmocka_unit_test(a_child_counts_once_however_often_it_says_so),
        cmocka_unit_test(gather_from_who_is_no_child_does_not_count),
        cmocka_unit_test(a_rank_that_is_reminded_says_again_what_it_has_said),
        cmocka_unit_test(children_that_are_missing_are_reminded_after_20_ms_then_twice_as_long_each_time),
        cmocka_unit_test(a_rank_without_children_reminds_nobody),
        cmocka_unit_test(the_release_says_how_far_all_have_got),
        cmocka_unit_test(a_release_before_all_children_have_reported_changes_nothing),
        cmocka_unit_test(the_cutoff_counts_on_the_least_bandwidth_that_was_found),
        cmocka_unit_test(a_chunk_without_a_release_ends_the_barrier),
        cmocka_unit_test(final_of_the_right_neighbour_ends_the_barrier),
        cmocka_unit_test(terms_that_differ_in_any_field_are_a_mismatch),
        cmocka_unit_test(ranks_that_mean_different_roots_find_out_by_a_reminder),
        cmocka_unit_test(gathering_waits_for_a_child_or_else_for_the_parent),
        cmocka_unit_test(every_round_waits_for_the_rounds_before_it),
        cmocka_unit_test(rounds_that_come_early_count_once_the_earlier_ones_are_in),
        cmocka_unit_test(frames_of_a_barrier_from_the_wrong_rank_or_round_do_not_count),
        cmocka_unit_test(the_barrier_names_the_rank_that_it_waits_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
