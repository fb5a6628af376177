/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank's membership where things go wrong: dead peers, words of failure, disagreement, full lists. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "member_world.h"

static const struct shape plain = {.block_bytes = WORLD_BYTES}, p2p = {.block_bytes = WORLD_BYTES, .p2p = true};

static struct tt_frame fail_frame(tutti_status status, uint32_t rank)
{
    return (struct tt_frame){.type = TT_FRAME_FAIL, .body.fail = {.status = status, .rank = rank}};
}

/* --- Words of failure --------------------------------------------------------------------------------------------- */

static void a_dead_neighbour_is_told_to_every_other_one_once(void **state)
{
    struct world world;
    struct tt_collective *first, *second;

    (void)state;
    world_init(&world, 0, 20, 4); /* neighbours 1, 19, 2, 18, 4, 16, 8, 12; 3, 5 */
    first = world_post(&world, 0, plain);
    second = world_post(&world, 0, p2p);
    world_peer_down(&world, 1, 2);
    next_tells_failure(&world, 1, TUTTI_ERR_PEER_FAILED, 2);
    next_tells_failure(&world, 19, TUTTI_ERR_PEER_FAILED, 2);
    next_tells_failure(&world, 18, TUTTI_ERR_PEER_FAILED, 2);
    next_tells_failure(&world, 4, TUTTI_ERR_PEER_FAILED, 2);
    next_tells_failure(&world, 16, TUTTI_ERR_PEER_FAILED, 2);
    next_tells_failure(&world, 8, TUTTI_ERR_PEER_FAILED, 2);
    next_tells_failure(&world, 12, TUTTI_ERR_PEER_FAILED, 2);
    next_tells_failure(&world, 3, TUTTI_ERR_PEER_FAILED, 2);
    next_tells_failure(&world, 5, TUTTI_ERR_PEER_FAILED, 2);
    next_is_for(&world, TT_ACTION_FREEZE, first);
    next_finishes(&world, second, TUTTI_ERR_PEER_FAILED, 2);
    no_more(&world.script);
    world_peer_down(&world, 2, 4);
    no_more(&world.script);
    world_hear(&world, 3, fail_frame(TUTTI_ERR_TIMED_OUT, 5), 8, 0);
    no_more(&world.script);
    world_answer(&world, 4, TT_MEMBER_FROZEN, first);
    next_finishes(&world, first, TUTTI_ERR_PEER_FAILED, 2);
    no_more(&world.script);
    assert_int_equal(world.member.status, TUTTI_ERR_PEER_FAILED);
    assert_int_equal(world.member.failed_rank, 2);
    world_fini(&world);
}

static void word_of_a_failure_goes_on_but_not_back(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, 0, 4, 4);
    world_hear(&world, 1, fail_frame(TUTTI_ERR_IO, TT_RANK_NONE), 3, 0);
    next_tells_failure(&world, 1, TUTTI_ERR_IO, TT_RANK_NONE);
    next_tells_failure(&world, 2, TUTTI_ERR_IO, TT_RANK_NONE);
    no_more(&world.script);
    world_fini(&world);
}

/* Rank 3 tells of what 2 has seen at 1: both values go along, here and further. */
static void word_of_a_mismatch_says_what_both_posted(void **state)
{
    struct tt_frame frame = fail_frame(TUTTI_ERR_MISMATCH, 1);
    struct world world;

    (void)state;
    world_init(&world, 0, 4, 4);
    frame.body.fail.noticed_by = 2;
    frame.body.fail.here.block_bytes = 8;
    frame.body.fail.there.block_bytes = 9;
    world_hear(&world, 1, frame, 3, 0);
    for (uint32_t to = 1; to <= 2; to++) {
        const struct tt_frame *told = script_next_send(&world.script, TT_FRAME_FAIL, to, __FILE__, __LINE__);

        assert_true(told->body.fail.here.block_bytes == 8);
        assert_true(told->body.fail.there.block_bytes == 9);
    }
    no_more(&world.script);
    assert_true(world.member.mismatch_here.block_bytes == 8);
    assert_true(world.member.mismatch_there.block_bytes == 9);
    world_fini(&world);
}

/* What connects ranks 2 and 0 broke, and both live: rank 0 blames the one that cannot reach it, not itself. */
static void word_of_the_own_failure_is_about_who_cannot_reach_this_rank(void **state)
{
    struct tt_frame frame = fail_frame(TUTTI_ERR_PEER_FAILED, 0);
    struct tt_collective *collective;
    struct world world;

    (void)state;
    world_init(&world, 0, 4, 4);
    collective = world_post(&world, 0, p2p);
    frame.body.fail.noticed_by = 2;
    world_hear(&world, 1, frame, 3, 0);
    for (uint32_t to = 1; to <= 2; to++) {
        const struct tt_frame *told = script_next_send(&world.script, TT_FRAME_FAIL, to, __FILE__, __LINE__);

        assert_int_equal(told->body.fail.rank, 0);
        assert_int_equal(told->body.fail.noticed_by, 2);
    }
    next_finishes(&world, collective, TUTTI_ERR_PEER_FAILED, 2);
    no_more(&world.script);
    assert_int_equal(world.member.failed_rank, 2);
    world_fini(&world);
}

/* It was late, and knows best. */
static void word_that_this_rank_is_missing_is_about_itself(void **state)
{
    struct tt_frame frame = fail_frame(TUTTI_ERR_TIMED_OUT, 1);
    struct world world;

    (void)state;
    world_init(&world, 1, 2, 4);
    world_hear(&world, 1, frame, 0, 0);
    no_more(&world.script);
    assert_int_equal(world.member.failed_rank, 1);
    world_fini(&world);
}

static void word_of_a_failure_reaches_those_who_have_not_left(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, 0, 4, 4);
    world_hear_type(&world, 1, TT_FRAME_BYE, 2, 0);
    world_step(&world, &(struct tt_member_event){.type = TT_MEMBER_FAIL, .status = TUTTI_ERR_IO, .rank = 1});
    next_tells_failure(&world, 1, TUTTI_ERR_IO, 1);
    next_tells_failure(&world, 3, TUTTI_ERR_IO, 1);
    no_more(&world.script);
    world_fini(&world);
}

/* Whoever names the culprit in a sentence looks up its bit in the roll call. */
static void a_failure_about_a_rank_that_does_not_exist_is_dropped(void **state)
{
    struct tt_frame frame = fail_frame(TUTTI_ERR_TIMED_OUT, 2);
    struct world world;

    (void)state;
    world_init(&world, 0, 4, 4);
    world_hear(&world, 1, fail_frame(TUTTI_ERR_TIMED_OUT, 4), 1, 0);
    world_hear(&world, 1, fail_frame(TUTTI_ERR_TIMED_OUT, 0xFFFFFFFE), 1, 0);
    frame.body.fail.noticed_by = 4; /* nor who noticed */
    world_hear(&world, 1, frame, 1, 0);
    no_more(&world.script);
    assert_int_equal(world.member.status, TUTTI_OK);
    assert_int_equal(world.member.drops_frame, 3);
    world_fini(&world);
}

static void posting_after_the_failure_ends_with_the_failure(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, 1, 2, 4);
    world_peer_down(&world, 1, 0);
    no_more(&world.script); /* there is nobody to tell */
    for (uint32_t i = 0; i < 10; i++) {
        struct tt_collective *collective = world_post(&world, 2, i % 2 ? plain : p2p);

        next_finishes(&world, collective, TUTTI_ERR_PEER_FAILED, 0);
        no_more(&world.script);
    }
    world_fini(&world);
}

static void frames_of_collectives_are_ignored_after_the_failure(void **state)
{
    struct world world;
    struct tt_collective *collective;

    (void)state;
    world_init(&world, 1, 2, 4);
    collective = world_post(&world, 0, plain);
    world_peer_down(&world, 1, 0);
    for (uint32_t type = TT_FRAME_BARRIER; type < TT_FRAME_PROBE; type++) {
        for (uint64_t sequence = 0; sequence < 3; sequence++) {
            world_hear_type(&world, 2, (enum tt_frame_type)type, 0, sequence);
            no_more(&world.script);
        }
    }
    world_tick(&world, UINT64_MAX);
    no_more(&world.script);
    assert_true(tt_member_deadline(&world.member) == UINT64_MAX);
    world_answer(&world, 3, TT_MEMBER_FROZEN, collective);
    next_finishes(&world, collective, TUTTI_ERR_PEER_FAILED, 0);
    world_fini(&world);
}

/* --- Disagreement ------------------------------------------------------------------------------------------------- */

static void different_terms_end_the_group_and_are_both_remembered(void **state)
{
    struct world world;
    struct tt_collective *collective, *other;

    (void)state;
    world_init(&world, 0, 4, 4);
    collective = world_post(&world, 0, plain);
    other = world_request(&world, (struct shape){.block_bytes = WORLD_BYTES + 1});
    world_hear_barrier(&world, 1, other, 0, 1);
    next_tells_failure(&world, 1, TUTTI_ERR_MISMATCH, 2);
    next_tells_failure(&world, 3, TUTTI_ERR_MISMATCH, 2);
    next_tells_failure(&world, 2, TUTTI_ERR_MISMATCH, 2); /* who is wrong must know, too */
    next_is_for(&world, TT_ACTION_FREEZE, collective);
    no_more(&world.script);
    assert_true(world.member.mismatch_here.block_bytes == WORLD_BYTES);
    assert_true(world.member.mismatch_there.block_bytes == WORLD_BYTES + 1);
    world_fini(&world);
}

static void reports_with_different_terms_end_the_group(void **state)
{
    struct world world;
    struct tt_collective *collective, *other;

    (void)state;
    world_init(&world, 0, 4, 4);
    collective = world_post(&world, 0, plain);
    other = world_request(&world, (struct shape){.block_bytes = WORLD_BYTES + 1});
    world_hear_gather(&world, 1, collective, 1, 0);
    no_more(&world.script);
    world_hear_gather(&world, 1, other, 2, 0);
    next_tells_failure(&world, 1, TUTTI_ERR_MISMATCH, 2);
    next_tells_failure(&world, 3, TUTTI_ERR_MISMATCH, 2);
    next_tells_failure(&world, 2, TUTTI_ERR_MISMATCH, 2);
    next_is_for(&world, TT_ACTION_FREEZE, collective);
    no_more(&world.script);
    assert_true(world.member.mismatch_here.block_bytes == WORLD_BYTES);
    assert_true(world.member.mismatch_there.block_bytes == WORLD_BYTES + 1);
    world_fini(&world);
}

/* Rank 1 means to be the root, and so does rank 0, which has waited 20 ms. */
static void a_reminder_with_another_root_ends_the_group(void **state)
{
    struct tt_frame ready = {.type = TT_FRAME_READY};
    struct world world;
    struct tt_collective *collective;

    (void)state;
    world_init(&world, 1, 4, 4);
    collective = world_post(&world, 0, (struct shape){.root = 1, .block_bytes = WORLD_BYTES});
    ready.body.ready.terms = collective->config.terms;
    ready.body.ready.terms.root = 0;
    world_hear(&world, 1, ready, 0, 0);
    next_tells_failure(&world, 2, TUTTI_ERR_MISMATCH, 0);
    next_tells_failure(&world, 0, TUTTI_ERR_MISMATCH, 0);
    next_tells_failure(&world, 3, TUTTI_ERR_MISMATCH, 0);
    next_is_for(&world, TT_ACTION_FREEZE, collective);
    no_more(&world.script);
    world_fini(&world);
}

static void an_early_report_with_different_terms_ends_the_group_at_the_post(void **state)
{
    (void)state;
    for (uint32_t first = 0; first < 2; first++) { /* the one that differs comes before or after another */
        struct world world;
        struct tt_collective *collective, *same, *other;

        world_init(&world, 0, 3, 4);
        same = world_request(&world, plain);
        other = world_request(&world, (struct shape){.block_bytes = 7});
        world_hear_gather(&world, 1, first == 0 ? other : same, 1, 0);
        world_hear_gather(&world, 1, first == 0 ? same : other, 2, 0);
        no_more(&world.script);
        collective = world_post(&world, 2, plain);
        next_is_for(&world, TT_ACTION_PUBLISH, collective);
        assert_int_equal(world.member.status, TUTTI_ERR_MISMATCH);
        assert_int_equal(world.member.failed_rank, 1 + first);
        next_tells_failure(&world, 1, TUTTI_ERR_MISMATCH, 1 + first);
        next_tells_failure(&world, 2, TUTTI_ERR_MISMATCH, 1 + first);
        next_is_for(&world, TT_ACTION_FREEZE, collective);
        no_more(&world.script);
        world_fini(&world);
    }
}

static void early_frames_with_different_terms_end_the_group_at_the_post(void **state)
{
    struct world world;
    struct tt_collective *collective, *other;

    (void)state;
    world_init(&world, 1, 2, 4);
    other = world_request(&world, (struct shape){.block_bytes = 7, .p2p = true});
    world_hear_barrier(&world, 1, other, 0, 0);
    no_more(&world.script);
    collective = world_post(&world, 2, p2p);
    next_sends(&world.script, TT_FRAME_BARRIER, 0);
    next_tells_failure(&world, 0, TUTTI_ERR_MISMATCH, 0);
    next_finishes(&world, collective, TUTTI_ERR_MISMATCH, 0); /* in this step: nothing else may ever come */
    no_more(&world.script);
    world_fini(&world);
}

/* Of what is asked for now: the chunks with these bits come from the left neighbour, in one piece. */
static void fetch_from_0(struct world *world, struct tt_collective *collective, uint64_t bits)
{
    const struct tt_frame *fetch = next_sends(&world->script, TT_FRAME_FETCH, 0);
    struct tt_frame available = {.type = TT_FRAME_AVAILABLE, .body.available.slot = fetch->body.fetch.slot};
    struct tt_member_event got = {.type = TT_MEMBER_GOT, .now_ns = 2, .collective = collective};

    available.body.available.window = fetch->body.fetch.window;
    available.body.available.window.bits[0] &= bits;
    world_hear(world, 2, available, 0, 0);
    got.run = next_is(&world->script, TT_ACTION_GET)->body.get.run;
    no_more(&world->script);
    world_step(world, &got);
}

static void a_disagreement_found_while_the_line_moves_ends_the_line(void **state)
{
    struct world world;
    struct tt_collective *running, *waiting[3], *other;

    (void)state;
    world_init(&world, 1, 2, 1);
    running = world_post(&world, 0, p2p);
    for (uint32_t i = 0; i < 3; i++) {
        waiting[i] = world_post(&world, 0, p2p);
    }
    other = world_request(&world, (struct shape){.block_bytes = 7, .p2p = true});
    world_hear_barrier(&world, 1, other, 1, 0);
    world_hear_barrier(&world, 1, running, 0, 0);
    fetch_from_0(&world, running, UINT64_MAX);
    next_sends(&world.script, TT_FRAME_FINAL, 0);
    world_hear_type(&world, 3, TT_FRAME_FINAL, 0, 0);
    next_finishes(&world, running, TUTTI_OK, TT_RANK_NONE);
    next_sends(&world.script, TT_FRAME_BARRIER, 0); /* of the next; the others never start */
    next_tells_failure(&world, 0, TUTTI_ERR_MISMATCH, 0);
    for (uint32_t i = 0; i < 3; i++) {
        next_finishes(&world, waiting[i], TUTTI_ERR_MISMATCH, 0);
    }
    no_more(&world.script);
    world_fini(&world);
}

/* --- Readers ------------------------------------------------------------------------------------------------------ */

/* Neighbour 2 of 0, 1, 2 was told that it may read here. */
static struct tt_collective *post_and_serve(struct world *world)
{
    struct tt_frame fetch = {.type = TT_FRAME_FETCH, .body.fetch = {.window = {.count = 10, .bits[0] = 1}}};
    struct tt_collective *collective = world_post(world, 0, p2p);

    world_hear_barrier(world, 1, collective, 0, 0);
    world_hear_barrier(world, 1, collective, 0, 1);
    fetch_from_0(world, collective, 1);
    world_hear(world, 2, fetch, 2, 0);
    next_sends(&world->script, TT_FRAME_AVAILABLE, 2);
    no_more(&world->script);
    return collective;
}

static void a_reader_that_dies_or_leaves_is_not_waited_for(void **state)
{
    for (uint32_t way = 0; way < 4; way++) {
        struct world world;
        struct tt_collective *collective;

        (void)state;
        world_init(&world, 1, 3, 4);
        collective = post_and_serve(&world);
        world_hear(&world, 3, fail_frame(TUTTI_ERR_IO, 0), 0, 0);
        next_tells_failure(&world, 2, TUTTI_ERR_IO, 0);
        next_sends(&world.script, TT_FRAME_FINAL, 0);
        no_more(&world.script);
        if (way == 0) {
            world_peer_down(&world, 4, 2);
        } else if (way == 1) {
            world_hear_type(&world, 4, TT_FRAME_BYE, 2, 1);
        } else if (way == 2) {
            world_hear_type(&world, 4, TT_FRAME_FINAL, 2, 0);
        } else {
            world_peer_down(&world, 4, 0);
            no_more(&world.script); /* another one */
            world_tick(&world, 3 + TT_COLLECTIVE_PATIENCE_NS);
            no_more(&world.script);
            world_tick(&world, 3 + TT_COLLECTIVE_PATIENCE_NS + TT_COLLECTIVE_PATIENCE_NS / 4);
            assert_int_equal(next_is(&world.script, TT_ACTION_ABANDON)->to, 2);
        }
        next_finishes(&world, collective, TUTTI_ERR_IO, 0);
        no_more(&world.script);
        world_fini(&world);
    }
}

/* It is rank 0, which has said that it serves this rank no longer. */
static void a_neighbour_that_leaves_before_it_has_been_read_ends_the_group(void **state)
{
    struct world world;
    struct tt_collective *collective;

    (void)state;
    world_init(&world, 1, 3, 4);
    collective = world_post(&world, 0, p2p);
    world_hear_barrier(&world, 1, collective, 0, 0);
    world_hear_barrier(&world, 1, collective, 0, 1);
    next_sends(&world.script, TT_FRAME_FETCH, 0);
    no_more(&world.script);
    collective->timeout.deadline_ns = UINT64_MAX; /* 1 ms in these worlds: too early here */
    world_hear_type(&world, 2, TT_FRAME_BYE, 0, 1);
    no_more(&world.script);
    assert_true(world.script.actions.more);
    world_tick(&world, 2);
    no_more(&world.script);
    assert_int_equal(tt_member_deadline(&world.member), 2 + TT_COLLECTIVE_PATIENCE_NS);
    world_tick(&world, 2 + TT_COLLECTIVE_PATIENCE_NS);
    next_tells_failure(&world, 2, TUTTI_ERR_PEER_FAILED, 0);
    next_sends(&world.script, TT_FRAME_FINAL, 0);
    next_finishes(&world, collective, TUTTI_ERR_PEER_FAILED, 0);
    no_more(&world.script);
    world_fini(&world);
}

/* --- Lists that are too short ------------------------------------------------------------------------------------- */

/* Steps until nothing more is to be done; answers FREEZE at once. Returns how many collectives finished. */
static uint32_t run_down(struct world *world, uint64_t now_ns, tutti_status status)
{
    struct tt_collective *frozen[2 * WORLD_IN_FLIGHT];
    uint32_t finishes = 0, frozen_count = 0, steps = 0;

    for (;;) {
        bool more = world->script.actions.more;

        assert_true(world->script.actions.count <= world->script.actions.capacity);
        for (uint32_t i = 0; i < world->script.actions.count; i++) {
            const struct tt_action *action = &world->script.list[i];

            if (action->type == TT_ACTION_FREEZE) {
                frozen[frozen_count++] = action->collective;
            } else if (action->type == TT_ACTION_FINISH) {
                assert_int_equal(action->body.finish.status, status);
                finishes++;
            }
        }
        assert_true(++steps < 1000);
        if (more) {
            world_tick(world, now_ns);
        } else if (frozen_count > 0) {
            world_answer(world, now_ns, TT_MEMBER_FROZEN, frozen[--frozen_count]);
        } else {
            return finishes;
        }
    }
}

/* With more posted than the member has slots: who waits in line has none, and does not ask for a turn either. */
static void a_long_line_ends_with_the_failure(void **state)
{
    enum { LINE = 40 };
    struct world world;
    struct tt_collective *first, *line[LINE];

    (void)state;
    assert_true(LINE > (int)tt_member_slots(1));
    world_init(&world, 0, 2, 1);
    first = world_post(&world, 0, plain);
    next_is_for(&world, TT_ACTION_PUBLISH, first);
    for (uint32_t i = 0; i < LINE; i++) {
        line[i] = world_post(&world, 0, plain); /* broadcasts of this rank's */
    }
    no_more(&world.script);
    world_peer_down(&world, 1, 1);
    next_is_for(&world, TT_ACTION_FREEZE, first);
    for (uint32_t i = 0; i < LINE; i++) {
        next_finishes(&world, line[i], TUTTI_ERR_PEER_FAILED, 1);
    }
    no_more(&world.script);
    world_answer(&world, 2, TT_MEMBER_FROZEN, first);
    next_finishes(&world, first, TUTTI_ERR_PEER_FAILED, 1);
    no_more(&world.script);
    world_fini(&world);
}

static void many_requests_fail_over_several_steps_of_a_short_list(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, 1, 2, WORLD_IN_FLIGHT);
    script_init(&world.script, 16);
    world.script.actions.capacity = tt_actions_capacity(2);
    for (uint32_t i = 0; i < WORLD_REQUESTS; i++) {
        world_post(&world, 0, plain);
    }
    world.script.actions.capacity = 16; /* less than ever in use, so that it must resume often */
    world_step(&world, &(struct tt_member_event){.type = TT_MEMBER_FAIL, .status = TUTTI_ERR_IO, .rank = 0});
    assert_true(world.script.actions.more);
    assert_int_equal(run_down(&world, 1, TUTTI_ERR_IO), WORLD_REQUESTS);
    assert_true(world.member.oldest == WORLD_REQUESTS);
    assert_null(world.member.line);
    world_tick(&world, 2);
    no_more(&world.script);
    world_fini(&world);
}

static void ticks_resume_where_the_list_was_full(void **state)
{
    struct world world;
    struct tt_collective *collectives[WORLD_IN_FLIGHT];
    uint32_t finals = 0, steps = 0;

    (void)state;
    world_init(&world, 1, 2, WORLD_IN_FLIGHT);
    world.script.actions.capacity = tt_actions_capacity(2);
    for (uint32_t i = 0; i < WORLD_IN_FLIGHT; i++) {
        collectives[i] = world_post(&world, 0, plain);
        memory_receive_all(&((struct request *)collectives[i]->owner)->memory);
    }
    do {
        world_tick(&world, 2);
        for (uint32_t i = 0; i < world.script.actions.count; i++) {
            finals +=
                world.script.list[i].type == TT_ACTION_SEND && world.script.list[i].body.frame.type == TT_FRAME_FINAL;
        }
        assert_true(++steps < 100);
    } while (world.script.actions.more);
    assert_true(steps > 1); /* two actions each; one step has room for a hundred */
    assert_int_equal(finals, WORLD_IN_FLIGHT);
    world_fini(&world);
}

/* A tree's root has more pieces than there is room for, and what comes behind it fills the list, too: the step that
 * takes up that rest has to come back to the tree. */
static void a_tree_goes_on_though_the_tick_was_resumed_behind_it(void **state)
{
    enum { PIECES = 12, OTHERS = 24 };
    static uint8_t bytes[PIECES * TT_FRAME_DATA_BYTES];
    struct shape shape = {.block_bytes = sizeof bytes, .chunk_bytes = 65536};
    const struct shape from_1 = {.block_bytes = WORLD_BYTES, .root = 1};
    struct tt_frame ready = {.type = TT_FRAME_READY};
    struct world world;
    struct tt_collective *tree;
    struct memory *memory;
    uint32_t steps = 0;

    (void)state;
    world_init(&world, 0, 2, WORLD_IN_FLIGHT);
    tree = world_request(&world, shape);
    memory = &((struct request *)tree->owner)->memory;
    memory->config.terms.method = TT_METHOD_TREE;
    memory->streams[0].buffer = bytes;
    tt_collective_init(tree, &memory->config);
    tree->owner = world.requests[0];
    world.script.actions.capacity = tt_actions_worst(2) + 1;
    ready.body.ready.terms = tree->config.terms;
    world_answer(&world, 0, TT_MEMBER_POST, tree);
    world_answer(&world, 0, TT_MEMBER_SENT, tree);
    world_hear(&world, 1, ready, 1, 0);
    for (uint32_t i = 0; i < OTHERS; i++) {
        memory_receive_all(&((struct request *)world_post(&world, 1, from_1)->owner)->memory);
    }
    do {
        world_tick(&world, 2);
        assert_true(++steps < 100);
    } while (world.script.actions.more);
    assert_int_equal(tree->tree.sent_bytes[0], sizeof bytes);
    world_fini(&world);
}

static void a_line_that_moves_at_once_resumes_where_the_list_was_full(void **state)
{
    struct world world;
    uint32_t published = 0, steps = 0;

    (void)state;
    world_init(&world, 1, 2, WORLD_IN_FLIGHT);
    world.script.actions.capacity = tt_actions_capacity(2);
    for (uint32_t i = 0; i < 2 * WORLD_IN_FLIGHT; i++) {
        world_post(&world, 0, plain);
    }
    /* As if everything in flight had ended but for the notice. */
    for (uint32_t i = 0; i < WORLD_IN_FLIGHT; i++) {
        world.slots[i].collective->state = TT_COLLECTIVE_FINISHED;
        world.slots[i].collective = NULL;
    }
    world.member.oldest = world.member.oldest_slot = WORLD_IN_FLIGHT;
    do {
        world_tick(&world, 2);
        for (uint32_t i = 0; i < world.script.actions.count; i++) {
            published += world.script.list[i].type == TT_ACTION_PUBLISH;
        }
        assert_true(++steps < 100);
    } while (world.script.actions.more);
    assert_true(steps > 1);
    assert_int_equal(published, WORLD_IN_FLIGHT);
    world_fini(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_dead_neighbour_is_told_to_every_other_one_once),
        cmocka_unit_test(word_of_a_failure_goes_on_but_not_back),
        cmocka_unit_test(word_of_a_mismatch_says_what_both_posted),
        cmocka_unit_test(word_of_the_own_failure_is_about_who_cannot_reach_this_rank),
        cmocka_unit_test(word_that_this_rank_is_missing_is_about_itself),
        cmocka_unit_test(word_of_a_failure_reaches_those_who_have_not_left),
        cmocka_unit_test(a_failure_about_a_rank_that_does_not_exist_is_dropped),
        cmocka_unit_test(posting_after_the_failure_ends_with_the_failure),
        cmocka_unit_test(frames_of_collectives_are_ignored_after_the_failure),
        cmocka_unit_test(different_terms_end_the_group_and_are_both_remembered),
        cmocka_unit_test(reports_with_different_terms_end_the_group),
        cmocka_unit_test(a_reminder_with_another_root_ends_the_group),
        cmocka_unit_test(an_early_report_with_different_terms_ends_the_group_at_the_post),
        cmocka_unit_test(early_frames_with_different_terms_end_the_group_at_the_post),
        cmocka_unit_test(a_disagreement_found_while_the_line_moves_ends_the_line),
        cmocka_unit_test(a_reader_that_dies_or_leaves_is_not_waited_for),
        cmocka_unit_test(a_neighbour_that_leaves_before_it_has_been_read_ends_the_group),
        cmocka_unit_test(a_long_line_ends_with_the_failure),
        cmocka_unit_test(many_requests_fail_over_several_steps_of_a_short_list),
        cmocka_unit_test(ticks_resume_where_the_list_was_full),
        cmocka_unit_test(a_tree_goes_on_though_the_tick_was_resumed_behind_it),
        cmocka_unit_test(a_line_that_moves_at_once_resumes_where_the_list_was_full),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
