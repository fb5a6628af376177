/* SPDX-License-Identifier: BSD-3-Clause */
/* Deadlines, and the roll call that finds out who is missing before it blames somebody. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "member_world.h"
#include "proto/rollcall.h"

static const struct shape plain = {.block_bytes = WORLD_BYTES}, p2p = {.block_bytes = WORLD_BYTES, .p2p = true};

static void before_the_deadline_the_rank_asks_who_is_there_and_then_blames(void **state)
{
    enum { ASK = MACHINE_TIMEOUT_NS - MACHINE_ROLLCALL_NS };
    static const uint8_t all_but_three = 0x07;
    struct tt_frame answer = {.type = TT_FRAME_ROLLCALL, .body.rollcall = {.rank_count = 4, .present = &all_but_three}};
    const struct tt_frame *frame;
    struct world world;
    struct tt_collective *collective;

    (void)state;
    world_init(&world, 0, 4, 4);
    collective = world_post(&world, 0, plain);
    assert_true(tt_member_deadline(&world.member) == ASK);
    world_tick(&world, ASK - 1);
    no_more(&world.script);
    world_tick(&world, ASK);
    frame = next_sends(&world.script, TT_FRAME_ROLLCALL, 1);
    assert_int_equal(frame->sequence, 0);
    assert_int_equal(frame->body.rollcall.rank_count, 4);
    assert_int_equal(frame->body.rollcall.present[0], 1);
    next_sends(&world.script, TT_FRAME_ROLLCALL, 3);
    next_sends(&world.script, TT_FRAME_ROLLCALL, 2);
    no_more(&world.script);
    assert_true(tt_member_deadline(&world.member) == MACHINE_TIMEOUT_NS);
    world_hear(&world, ASK + 1, answer, 2, 0);
    next_sends(&world.script, TT_FRAME_ROLLCALL, 1); /* news for the others */
    next_sends(&world.script, TT_FRAME_ROLLCALL, 3);
    next_sends(&world.script, TT_FRAME_ROLLCALL, 2);
    no_more(&world.script);
    world_hear(&world, ASK + 2, answer, 1, 0);
    no_more(&world.script); /* no news */
    world_tick(&world, MACHINE_TIMEOUT_NS - 1);
    no_more(&world.script);
    world_tick(&world, MACHINE_TIMEOUT_NS);
    next_tells_failure(&world, 1, TUTTI_ERR_TIMED_OUT, 3);
    next_tells_failure(&world, 3, TUTTI_ERR_TIMED_OUT, 3);
    next_tells_failure(&world, 2, TUTTI_ERR_TIMED_OUT, 3);
    next_is_for(&world, TT_ACTION_FREEZE, collective);
    no_more(&world.script);
    world_fini(&world);
}

static void when_all_are_there_a_deadline_blames_nobody(void **state)
{
    static const uint8_t all = 0x0F;
    struct tt_frame answer = {.type = TT_FRAME_ROLLCALL, .body.rollcall = {.rank_count = 4, .present = &all}};
    struct world world;

    (void)state;
    world_init(&world, 0, 4, 4);
    world_post(&world, 0, plain);
    world_tick(&world, MACHINE_TIMEOUT_NS - MACHINE_ROLLCALL_NS);
    world_hear(&world, MACHINE_TIMEOUT_NS - 1000, answer, 2, 0);
    world_tick(&world, MACHINE_TIMEOUT_NS);
    next_tells_failure(&world, 1, TUTTI_ERR_TIMED_OUT, TT_RANK_NONE);
    world_fini(&world);
}

static struct tt_collective *post_with_timeout(struct world *world, uint64_t now_ns, struct shape shape,
                                               uint64_t timeout_ns)
{
    struct tt_collective *collective = world_request(world, shape);

    collective->config.timeout_ns = timeout_ns;
    world_answer(world, now_ns, TT_MEMBER_POST, collective);
    return collective;
}

/* What it waits for is the oldest in flight: who is missing there is to blame, not who has not come this far. */
static void a_request_in_line_has_the_time_of_what_it_waits_for(void **state)
{
    struct world world;
    struct tt_collective *running, *waiting;

    (void)state;
    world_init(&world, 1, 2, 1);
    running = world_post(&world, 0, p2p);
    waiting = post_with_timeout(&world, 100, p2p, 400000);
    assert_true(tt_member_deadline(&world.member) == MACHINE_TIMEOUT_NS - MACHINE_ROLLCALL_NS);
    world_tick(&world, 400100);
    no_more(&world.script);
    world_tick(&world, MACHINE_TIMEOUT_NS - MACHINE_ROLLCALL_NS);
    assert_int_equal(next_sends(&world.script, TT_FRAME_ROLLCALL, 0)->sequence, 0);
    no_more(&world.script);
    assert_true(tt_member_deadline(&world.member) == MACHINE_TIMEOUT_NS);
    world_tick(&world, MACHINE_TIMEOUT_NS);
    next_tells_failure(&world, 0, TUTTI_ERR_TIMED_OUT, 0);
    next_finishes(&world, running, TUTTI_ERR_TIMED_OUT, 0);
    next_finishes(&world, waiting, TUTTI_ERR_TIMED_OUT, 0);
    no_more(&world.script);
    world_fini(&world);
}

/* Its own is longer, and begins when the oldest ends. */
static void a_request_in_line_keeps_a_longer_time(void **state)
{
    struct world world;
    struct tt_collective *waiting;

    (void)state;
    world_init(&world, 1, 2, 1);
    world_post(&world, 0, p2p);
    waiting = post_with_timeout(&world, 100, p2p, 2 * MACHINE_TIMEOUT_NS);
    assert_true(tt_rollcall_deadline(&world.member, waiting) == 2 * MACHINE_TIMEOUT_NS + 100);
    world_fini(&world);
}

static void roll_calls_of_another_size_are_dropped(void **state)
{
    static const uint8_t bits[2] = {0xFF, 0xFF};
    struct tt_frame frame = {.type = TT_FRAME_ROLLCALL, .body.rollcall = {.rank_count = 5, .present = bits}};
    struct world world;

    (void)state;
    world_init(&world, 0, 4, 4);
    world_post(&world, 0, plain);
    world_hear(&world, 1, frame, 1, 0);
    frame.body.rollcall.rank_count = 3;
    world_hear(&world, 1, frame, 1, 0);
    no_more(&world.script);
    assert_int_equal(world.member.drops_frame, 2);
    assert_false(world.member.rollcall_active);
    world_fini(&world);
}

/* A frame has room for 7,680 ranks. */
static void roll_call_of_twenty_thousand_ranks_goes_in_three_frames(void **state)
{
    enum { SIZE = 20000, TOLD = 15363 };
    static const uint8_t three[TT_ROLLCALL_RANKS / 8] = {0x08};
    struct tt_frame frame = {.type = TT_FRAME_ROLLCALL, .body.rollcall = {SIZE, three, 2 * TT_ROLLCALL_RANKS}};
    struct world world;

    (void)state;
    world_init(&world, 0, SIZE, 4);
    world_hear(&world, 1, frame, 1, 1); /* about the second, of which there is none here */
    for (uint32_t piece = 0; piece < 3; piece++) {
        for (uint32_t i = 0; i < world.member.neighbour_count; i++) {
            const struct tt_frame *told = next_sends(&world.script, TT_FRAME_ROLLCALL, world.member.neighbours[i]);

            assert_int_equal(told->body.rollcall.rank_count, SIZE);
            assert_int_equal(told->body.rollcall.first, piece * TT_ROLLCALL_RANKS);
            assert_int_equal(told->body.rollcall.present[0], piece == 2 ? 0x08 : 0);
        }
    }
    no_more(&world.script);
    for (uint32_t rank = 0; rank < SIZE; rank++) {
        assert_true(tt_member_present(&world.member, rank) == (rank == TOLD));
    }
    world_hear(&world, 2, frame, 2, 1);
    no_more(&world.script); /* no news */
    frame.body.rollcall.first = TT_ROLLCALL_RANKS;
    world_hear(&world, 3, frame, 1, 1); /* what is news goes alone */
    for (uint32_t i = 0; i < world.member.neighbour_count; i++) {
        const struct tt_frame *told = next_sends(&world.script, TT_FRAME_ROLLCALL, world.member.neighbours[i]);

        assert_int_equal(told->body.rollcall.first, TT_ROLLCALL_RANKS);
        assert_int_equal(told->body.rollcall.present[0], 0x08);
    }
    no_more(&world.script);
    world_fini(&world);
}

static void a_rank_that_has_not_posted_does_not_count_itself_present(void **state)
{
    static const uint8_t one = 0x02;
    struct tt_frame frame = {.type = TT_FRAME_ROLLCALL, .body.rollcall = {.rank_count = 4, .present = &one}};
    struct world world;

    (void)state;
    world_init(&world, 0, 4, 4);
    world_post(&world, 0, plain);
    world_hear(&world, 1, frame, 1, 1); /* about the second, of which there is none here */
    assert_int_equal(next_sends(&world.script, TT_FRAME_ROLLCALL, 1)->body.rollcall.present[0], 2);
    assert_false(tt_member_present(&world.member, 0));
    assert_true(tt_member_present(&world.member, 1));
    world_fini(&world);
}

static void a_neighbour_that_took_part_before_it_left_counts_as_present(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, 0, 4, 4);
    world_post(&world, 0, plain);
    world_hear_type(&world, 1, TT_FRAME_BYE, 2, 1);
    world_tick(&world, MACHINE_TIMEOUT_NS - MACHINE_ROLLCALL_NS);
    assert_int_equal(next_sends(&world.script, TT_FRAME_ROLLCALL, 1)->body.rollcall.present[0], 5);
    world_fini(&world);
}

static void one_that_runs_asks_and_blames_about_itself(void **state)
{
    struct world world;
    struct tt_collective *fast;

    (void)state;
    world_init(&world, 0, 4, 4);
    world_post(&world, 0, plain);
    fast = world_request(&world, plain);
    fast->config.timeout_ns = 400000;
    world_answer(&world, 0, TT_MEMBER_POST, fast);
    world_tick(&world, 400000 - MACHINE_ROLLCALL_NS);
    assert_int_equal(next_sends(&world.script, TT_FRAME_ROLLCALL, 1)->sequence, 1);
    world_fini(&world);
}

static void the_rank_that_is_waited_for_is_blamed_before_lower_ones(void **state)
{
    static const uint8_t some = 0x0D; /* 1 and 4 are missing, and round 0 of the barrier is 4's */
    struct tt_frame answer = {.type = TT_FRAME_ROLLCALL, .body.rollcall = {.rank_count = 5, .present = &some}};
    struct world world;

    (void)state;
    world_init(&world, 0, 5, 4);
    world_post(&world, 0, p2p);
    world_tick(&world, MACHINE_TIMEOUT_NS - MACHINE_ROLLCALL_NS);
    world_hear(&world, MACHINE_TIMEOUT_NS - 1000, answer, 2, 0);
    world_tick(&world, MACHINE_TIMEOUT_NS);
    next_tells_failure(&world, 1, TUTTI_ERR_TIMED_OUT, 4);
    world_fini(&world);
}

/* Rank 8 of 20 speaks for 6 to 10, to rank 0. */
static void of_a_tree_a_missing_child_is_blamed_and_then_the_parent(void **state)
{
    static const uint8_t all_but[2][3] = {{0xFD, 0xFB, 0x0F}, {0xFE, 0xFD, 0x0F}}; /* 1 and 10; 0 and 9 */
    struct tt_frame answer = {.type = TT_FRAME_ROLLCALL, .body.rollcall = {.rank_count = 20}};

    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        struct world world;
        struct tt_collective *collective;

        world_init(&world, 8, 20, 4);
        collective = world_post(&world, 0, plain);
        for (uint32_t rank = 6; rank <= 10; rank++) {
            if (rank != 8 && (i == 1 || rank != 10)) {
                world_hear_gather(&world, 1, collective, rank, 0);
            }
        }
        world_tick(&world, MACHINE_TIMEOUT_NS - MACHINE_ROLLCALL_NS);
        answer.body.rollcall.present = all_but[i];
        world_hear(&world, MACHINE_TIMEOUT_NS - 1000, answer, 7, 0);
        world_tick(&world, MACHINE_TIMEOUT_NS);
        next_tells_failure(&world, 9, TUTTI_ERR_TIMED_OUT, i == 0 ? 10 : 0);
        world_fini(&world);
    }
}

static void a_post_after_the_question_is_news(void **state)
{
    static const uint8_t one = 0x02;
    struct tt_frame question = {.type = TT_FRAME_ROLLCALL, .body.rollcall = {.rank_count = 4, .present = &one}};
    struct world world;

    (void)state;
    world_init(&world, 0, 4, 4);
    world_hear(&world, 1, question, 1, 0);
    assert_int_equal(next_sends(&world.script, TT_FRAME_ROLLCALL, 1)->body.rollcall.present[0], 2);
    world_post(&world, 2, plain);
    world_hear(&world, 3, question, 1, 0);
    assert_int_equal(next_sends(&world.script, TT_FRAME_ROLLCALL, 1)->body.rollcall.present[0], 3);
    world_fini(&world);
}

static void the_oldest_question_comes_first_until_it_is_over(void **state)
{
    static const uint8_t one = 0x02, two = 0x0A;
    struct tt_frame question = {.type = TT_FRAME_ROLLCALL, .body.rollcall = {.rank_count = 4, .present = &two}};
    struct world world;

    (void)state;
    world_init(&world, 0, 4, 4);
    world_hear(&world, 1, question, 1, 5);
    assert_int_equal(next_sends(&world.script, TT_FRAME_ROLLCALL, 1)->sequence, 5);
    question.body.rollcall.present = &one;
    world_hear(&world, 2, question, 1, 4);
    assert_int_equal(next_sends(&world.script, TT_FRAME_ROLLCALL, 1)->sequence, 4);
    assert_false(tt_member_present(&world.member, 3)); /* that was about the other one */
    world_hear(&world, 3, question, 1, 5);
    no_more(&world.script);
    world_hear(&world, 1 + TT_MEMBER_ROLLCALL_NS, question, 1, 5);
    no_more(&world.script);
    world_hear(&world, 2 + TT_MEMBER_ROLLCALL_NS, question, 1, 5);
    assert_int_equal(next_sends(&world.script, TT_FRAME_ROLLCALL, 1)->sequence, 5);
    world_fini(&world);
}

/* It slept through the time in which the others would have answered. */
static void a_rank_that_overslept_gives_the_others_time_once(void **state)
{
    enum { LATE = MACHINE_TIMEOUT_NS + 1000 };
    struct world world;

    (void)state;
    world_init(&world, 1, 2, 4);
    world_post(&world, 0, p2p);
    world_tick(&world, LATE);
    next_sends(&world.script, TT_FRAME_ROLLCALL, 0);
    no_more(&world.script);
    assert_true(tt_member_deadline(&world.member) == LATE + MACHINE_ROLLCALL_NS);
    world_tick(&world, LATE + 5 * MACHINE_ROLLCALL_NS); /* again, but that is its own fault now */
    next_tells_failure(&world, 0, TUTTI_ERR_TIMED_OUT, 0);
    world_fini(&world);
}

/* Nothing gets through to it, perhaps, while the others hear each other. */
static void a_rank_that_nobody_answers_lets_the_others_speak_before_it_blames_them(void **state)
{
    enum { END = MACHINE_TIMEOUT_NS + MACHINE_ROLLCALL_NS / 2 };
    struct tt_frame verdict = {.type = TT_FRAME_FAIL,
                               .body.fail = {.status = TUTTI_ERR_TIMED_OUT, .rank = TT_RANK_NONE, .noticed_by = 2}};
    struct world world;

    (void)state;
    for (uint32_t told = 0; told < 2; told++) {
        world_init(&world, 1, 3, 4);
        world_post(&world, 0, plain);
        world_tick(&world, MACHINE_TIMEOUT_NS - MACHINE_ROLLCALL_NS);
        world_tick(&world, MACHINE_TIMEOUT_NS);
        assert_int_equal(world.member.status, TUTTI_OK);
        assert_true(tt_member_deadline(&world.member) == END);
        if (told) {
            world_hear(&world, END - 1, verdict, 2, 0);
        }
        world_tick(&world, END - 1);
        assert_int_equal(world.member.status, told ? TUTTI_ERR_TIMED_OUT : TUTTI_OK);
        world_tick(&world, END);
        assert_int_equal(world.member.status, TUTTI_ERR_TIMED_OUT);
        assert_int_equal(world.member.failed_rank, told ? TT_RANK_NONE : 0);
        world_fini(&world);
    }
}

/* It asked, and what the others have said since waits to be heard. */
static void a_rank_that_stood_still_hears_the_answers_before_it_blames(void **state)
{
    enum { LATE = MACHINE_TIMEOUT_NS + MACHINE_ROLLCALL_NS / 2, END = LATE + MACHINE_ROLLCALL_NS / 2 };
    static const uint8_t all_but_three = 0x07;
    struct tt_frame answer = {.type = TT_FRAME_ROLLCALL, .body.rollcall = {.rank_count = 4, .present = &all_but_three}};
    struct world world;

    (void)state;
    world_init(&world, 0, 4, 4);
    world_post(&world, 0, plain);
    world_tick(&world, MACHINE_TIMEOUT_NS - MACHINE_ROLLCALL_NS);
    world_tick(&world, LATE);
    assert_int_equal(world.member.status, TUTTI_OK);
    assert_true(tt_member_deadline(&world.member) == END);
    world_hear(&world, LATE + 1, answer, 2, 0);
    world_tick(&world, END - 1);
    assert_int_equal(world.member.status, TUTTI_OK);
    world_tick(&world, END);
    next_tells_failure(&world, 1, TUTTI_ERR_TIMED_OUT, 3);
    world_fini(&world);
}

static void a_rank_that_asks_late_gives_the_others_as_much_time(void **state)
{
    enum { LATE = MACHINE_TIMEOUT_NS - 1 };
    struct world world;

    (void)state;
    world_init(&world, 1, 2, 4);
    world_post(&world, 0, p2p);
    world_tick(&world, LATE);
    next_sends(&world.script, TT_FRAME_ROLLCALL, 0);
    assert_true(tt_member_deadline(&world.member) == LATE + MACHINE_ROLLCALL_NS);
    world_tick(&world, LATE + MACHINE_ROLLCALL_NS - 1);
    no_more(&world.script);
    world_tick(&world, LATE + MACHINE_ROLLCALL_NS);
    next_tells_failure(&world, 0, TUTTI_ERR_TIMED_OUT, 0);
    world_fini(&world);
}

/* With all that it is to receive. */
static void end_first(struct world *world, struct tt_collective *first, uint64_t end_ns)
{
    world_release(world, end_ns - 3, first, 0);
    memory_receive_all(&world->requests[0]->memory);
    world_tick(world, end_ns - 2);
    world_hear_type(world, end_ns - 1, TT_FRAME_FINAL, 0, 0);
    world_answer(world, end_ns, TT_MEMBER_FROZEN, first);
    assert_int_equal(first->status, TUTTI_OK);
}

/* What it waits for others is not taken from its time, and it asks again. */
static void the_time_of_a_request_begins_again_when_one_before_it_ends(void **state)
{
    const uint64_t timeout_ns = 3 * TT_MEMBER_ROLLCALL_NS, ask_ns = timeout_ns - MACHINE_ROLLCALL_NS;
    const uint64_t end_ns = timeout_ns - 10;
    struct world world;
    struct tt_collective *first, *second, *in_line;

    (void)state;
    world_init(&world, 1, 2, 2);
    first = post_with_timeout(&world, 0, plain, timeout_ns);
    second = post_with_timeout(&world, 0, plain, timeout_ns);
    in_line = post_with_timeout(&world, 0, plain, timeout_ns);
    assert_int_equal(in_line->state, TT_COLLECTIVE_IDLE);
    world_tick(&world, ask_ns);
    end_first(&world, first, end_ns);
    assert_int_equal(world.member.oldest, 1);
    assert_true(tt_rollcall_deadline(&world.member, second) == end_ns + timeout_ns);
    assert_true(tt_rollcall_deadline(&world.member, in_line) == end_ns + timeout_ns);
    world_tick(&world, timeout_ns + 1);
    assert_int_equal(world.member.status, TUTTI_OK);
    world_tick(&world, end_ns + ask_ns - 1);
    assert_int_equal(world.member.rollcall_sequence, 0);
    world_tick(&world, end_ns + ask_ns);
    assert_int_equal(world.member.rollcall_sequence, 1);
    world_tick(&world, end_ns + timeout_ns - 1);
    assert_int_equal(world.member.status, TUTTI_OK);
    world_tick(&world, end_ns + timeout_ns);
    next_tells_failure(&world, 0, TUTTI_ERR_TIMED_OUT, 0);
    world_fini(&world);
}

/* With a timeout of less than a roll call's time, of which much has passed when the one before ends. */
static void a_question_about_what_has_ended_holds_back_no_other_one(void **state)
{
    static const uint8_t both = 0x03;
    const uint64_t ask_ns = MACHINE_TIMEOUT_NS - MACHINE_ROLLCALL_NS, end_ns = MACHINE_TIMEOUT_NS - 10;
    struct tt_frame answer = {.type = TT_FRAME_ROLLCALL, .body.rollcall = {.rank_count = 2, .present = &both}};
    struct world world;
    struct tt_collective *first;

    (void)state;
    world_init(&world, 1, 2, 2);
    first = world_post(&world, 0, plain);
    world_post(&world, 0, plain);
    world_tick(&world, ask_ns);
    world_hear(&world, ask_ns + 1, answer, 0, 0);
    assert_true(tt_member_present(&world.member, 0));
    end_first(&world, first, end_ns);
    world_tick(&world, end_ns + ask_ns - 1);
    assert_int_equal(world.member.rollcall_sequence, 0);
    world_tick(&world, end_ns + ask_ns);
    assert_int_equal(world.member.rollcall_sequence, 1);
    assert_false(tt_member_present(&world.member, 0));
    world_tick(&world, end_ns + MACHINE_TIMEOUT_NS - 1);
    assert_int_equal(world.member.status, TUTTI_OK);
    world_tick(&world, end_ns + MACHINE_TIMEOUT_NS);
    next_tells_failure(&world, 0, TUTTI_ERR_TIMED_OUT, 0);
    world_fini(&world);
}

/* Somebody else has not heard yet that it has: a question about the next one, which that rank has not posted, and to
 * which others say nothing as long as they answer the first, would have them missing. */
static void a_late_question_about_what_has_ended_is_not_replaced(void **state)
{
    static const uint8_t two = 0x06, one = 0x08;
    const uint64_t ask_ns = MACHINE_TIMEOUT_NS - MACHINE_ROLLCALL_NS, end_ns = MACHINE_TIMEOUT_NS - 10;
    struct tt_frame answer = {.type = TT_FRAME_ROLLCALL, .body.rollcall = {.rank_count = 4, .present = &two}};
    struct world world;
    struct tt_collective *first;

    (void)state;
    world_init(&world, 1, 4, 2);
    first = world_post(&world, 0, plain);
    world_post(&world, 0, plain);
    end_first(&world, first, end_ns);
    world_hear_type(&world, end_ns, TT_FRAME_FINAL, 2, 0);
    assert_int_equal(world.member.oldest, 1);
    world_hear(&world, end_ns + 1, answer, 2, 0);
    world_tick(&world, end_ns + ask_ns);
    for (uint32_t a = 0; a < world.script.actions.count; a++) {
        assert_true(world.script.list[a].body.frame.type != TT_FRAME_ROLLCALL);
    }
    answer.body.rollcall.present = &one;
    world_hear(&world, end_ns + ask_ns + 1, answer, 3, 0);
    assert_int_equal(world.member.rollcall_sequence, 0);
    for (uint32_t rank = 0; rank < 4; rank++) {
        assert_true(tt_member_present(&world.member, rank) == (rank != 0));
    }
    world_tick(&world, end_ns + MACHINE_TIMEOUT_NS);
    assert_int_equal(world.member.status, TUTTI_ERR_TIMED_OUT);
    assert_int_equal(world.member.failed_rank, 0);
    world_fini(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(before_the_deadline_the_rank_asks_who_is_there_and_then_blames),
        cmocka_unit_test(when_all_are_there_a_deadline_blames_nobody),
        cmocka_unit_test(a_request_in_line_has_the_time_of_what_it_waits_for),
        cmocka_unit_test(a_request_in_line_keeps_a_longer_time),
        cmocka_unit_test(the_time_of_a_request_begins_again_when_one_before_it_ends),
        cmocka_unit_test(a_question_about_what_has_ended_holds_back_no_other_one),
        cmocka_unit_test(a_late_question_about_what_has_ended_is_not_replaced),
        cmocka_unit_test(roll_calls_of_another_size_are_dropped),
        cmocka_unit_test(roll_call_of_twenty_thousand_ranks_goes_in_three_frames),
        cmocka_unit_test(a_rank_that_has_not_posted_does_not_count_itself_present),
        cmocka_unit_test(a_neighbour_that_took_part_before_it_left_counts_as_present),
        cmocka_unit_test(one_that_runs_asks_and_blames_about_itself),
        cmocka_unit_test(the_rank_that_is_waited_for_is_blamed_before_lower_ones),
        cmocka_unit_test(of_a_tree_a_missing_child_is_blamed_and_then_the_parent),
        cmocka_unit_test(a_post_after_the_question_is_news),
        cmocka_unit_test(the_oldest_question_comes_first_until_it_is_over),
        cmocka_unit_test(a_rank_that_overslept_gives_the_others_time_once),
        cmocka_unit_test(a_rank_that_nobody_answers_lets_the_others_speak_before_it_blames_them),
        cmocka_unit_test(a_rank_that_stood_still_hears_the_answers_before_it_blames),
        cmocka_unit_test(a_rank_that_asks_late_gives_the_others_as_much_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
