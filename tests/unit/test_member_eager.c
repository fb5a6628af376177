/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Eager collectives in one rank's membership: without barrier and handshake, what it asks for, and what it answers from
 * copies. Times in ns; a rank asks after 5 ms, or a tail (100 ns here) after a sign.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "eager_world.h"
#include "proto/terms.h"

/* --- Nothing lost ------------------------------------------------------------------------------------------------- */

static void a_receiver_publishes_and_ends_when_everything_is_there(void **state)
{
    struct world world;

    (void)state;
    set_up(&world);
    receive_one(&world, 0, 0);
    receive_one(&world, 10, BYTES);
    assert_int_equal(tt_member_deadline(&world.member), UINT64_MAX);
    world_fini(&world);
}

static void a_root_sends_at_once_and_ends_when_it_has_sent(void **state)
{
    struct world world;
    struct tt_collective *collective;

    (void)state;
    set_up(&world);
    collective = world_post(&world, 0, from_1);
    next_is_for(&world, TT_ACTION_PUBLISH, collective);
    next_is_for(&world, TT_ACTION_FREEZE, collective); /* it has everything */
    next_is_for(&world, TT_ACTION_TRANSMIT, collective);
    no_more(&world.script);
    world_answer(&world, 5, TT_MEMBER_FROZEN, collective);
    no_more(&world.script);
    world_answer(&world, 6, TT_MEMBER_SENT, collective);
    next_is(&world.script, TT_ACTION_KEEP);
    next_finishes(&world, collective, TUTTI_OK, TT_RANK_NONE);
    no_more(&world.script);
    assert_true(tt_member_owes(&world.member));
    world_fini(&world);
}

/* --- Asking ------------------------------------------------------------------------------------------------------- */

static void a_rank_asks_its_left_neighbour_after_5_ms_and_fetches_when_that_has_everything(void **state)
{
    struct world world;
    struct tt_collective *collective;
    struct tt_frame available = {.type = TT_FRAME_AVAILABLE, .body.available = {.address = 0x1000}};
    const struct tt_frame *fetch;

    (void)state;
    set_up(&world);
    collective = world_post(&world, 0, from_0);
    next_is_for(&world, TT_ACTION_PUBLISH, collective);
    memory_receive(memory_of(collective), 0, 0, 2);
    assert_int_equal(tt_member_deadline(&world.member), MACHINE_TIMEOUT_NS - MACHINE_ROLLCALL_NS);
    collective->timeout.deadline_ns = UINT64_MAX; /* 1 ms in these worlds: too early here */
    assert_int_equal(tt_member_deadline(&world.member), ASK_NS);
    world_tick(&world, ASK_NS - 1);
    no_more(&world.script);
    world_tick(&world, ASK_NS);
    assert_true(tt_collective_terms_agree(&next_sends(&world.script, TT_FRAME_ASK, 0)->body.ask.terms,
                                          &collective->config.terms));
    no_more(&world.script);
    assert_int_equal(tt_member_deadline(&world.member), UINT64_MAX); /* once: the answer will come */
    world_hear_type(&world, ASK_NS + 5, TT_FRAME_KEPT, 0, 0);
    next_is_for(&world, TT_ACTION_FREEZE, collective);
    no_more(&world.script);
    world_answer(&world, ASK_NS + 6, TT_MEMBER_FROZEN, collective);
    fetch = next_sends(&world.script, TT_FRAME_FETCH, 0);
    assert_int_equal(fetch->body.fetch.window.bits[0], 4);
    available.body.available.slot = fetch->body.fetch.slot;
    available.body.available.window = fetch->body.fetch.window;
    no_more(&world.script);
    world_hear(&world, ASK_NS + 7, available, 0, 0);
    assert_int_equal(next_is(&world.script, TT_ACTION_GET)->body.get.remote_address, 0x1000 + 32);
    no_more(&world.script);
    world_step(&world, &(struct tt_member_event){
                           .type = TT_MEMBER_GOT, .now_ns = ASK_NS + 8, .collective = collective, .status = TUTTI_OK});
    next_sends(&world.script, TT_FRAME_FINAL, 0); /* it reads no more */
    next_is(&world.script, TT_ACTION_KEEP);
    next_finishes(&world, collective, TUTTI_OK, TT_RANK_NONE);
    no_more(&world.script);
    world_fini(&world);
}

/* A rank that leaves has stayed for others as long as it does: nobody gives what is missing here any more. */
static void asking_who_has_left_or_leaves_ends_the_group(void **state)
{
    for (uint32_t leaves_first = 0; leaves_first < 2; leaves_first++) {
        uint64_t begun_ns = leaves_first ? ASK_NS : ASK_NS + 1;
        struct world world;
        struct tt_collective *collective;

        (void)state;
        set_up(&world);
        if (leaves_first) {
            world_hear_type(&world, 0, TT_FRAME_BYE, 0, 1); /* it took part in what is posted now */
            no_more(&world.script);
        }
        collective = world_post(&world, 0, from_0);
        collective->timeout.deadline_ns = UINT64_MAX; /* 1 ms in these worlds: too early here */
        next_is_for(&world, TT_ACTION_PUBLISH, collective);
        memory_receive(memory_of(collective), 0, 0, 2);
        world_tick(&world, ASK_NS - 1);
        no_more(&world.script);
        world_tick(&world, ASK_NS);
        next_sends(&world.script, TT_FRAME_ASK, 0);
        no_more(&world.script);
        if (!leaves_first) {
            world_hear_type(&world, ASK_NS + 1, TT_FRAME_BYE, 0, 1);
            no_more(&world.script);
            assert_true(world.script.actions.more);
            world_tick(&world, ASK_NS + 1);
            no_more(&world.script);
        }
        assert_int_equal(tt_member_deadline(&world.member), begun_ns + TT_COLLECTIVE_PATIENCE_NS);
        world_tick(&world, begun_ns + TT_COLLECTIVE_PATIENCE_NS - 1);
        no_more(&world.script);
        world_tick(&world, begun_ns + TT_COLLECTIVE_PATIENCE_NS);
        next_tells_failure(&world, 2, TUTTI_ERR_PEER_FAILED, 0);
        next_tells_failure(&world, 3, TUTTI_ERR_PEER_FAILED, 0);
        next_is_for(&world, TT_ACTION_FREEZE, collective);
        no_more(&world.script);
        world_answer(&world, begun_ns + TT_COLLECTIVE_PATIENCE_NS + 1, TT_MEMBER_FROZEN, collective);
        next_finishes(&world, collective, TUTTI_ERR_PEER_FAILED, 0);
        no_more(&world.script);
        world_fini(&world);
    }
}

/* It was here, and nobody had looked. */
static void what_comes_meanwhile_needs_nobody_who_has_left(void **state)
{
    struct world world;
    struct tt_collective *collective;

    (void)state;
    set_up(&world);
    collective = world_post(&world, 0, from_0);
    collective->timeout.deadline_ns = UINT64_MAX;
    next_is_for(&world, TT_ACTION_PUBLISH, collective);
    world_tick(&world, ASK_NS);
    next_sends(&world.script, TT_FRAME_ASK, 0);
    world_hear_type(&world, ASK_NS + 1, TT_FRAME_BYE, 0, 1);
    no_more(&world.script);
    world_tick(&world, ASK_NS + 1);
    no_more(&world.script);
    memory_receive_all(memory_of(collective));
    world_tick(&world, ASK_NS + 2 + TT_COLLECTIVE_PATIENCE_NS); /* late itself */
    next_is_for(&world, TT_ACTION_FREEZE, collective);
    no_more(&world.script);
    world_answer(&world, ASK_NS + 3 + TT_COLLECTIVE_PATIENCE_NS, TT_MEMBER_FROZEN, collective);
    next_is(&world.script, TT_ACTION_KEEP);
    next_finishes(&world, collective, TUTTI_OK, TT_RANK_NONE);
    no_more(&world.script);
    world_fini(&world);
}

static void a_done_that_was_not_asked_for_is_refused(void **state)
{
    struct world world;

    (void)state;
    set_up(&world);
    world_post(&world, 0, from_0);
    world_hear_type(&world, 1, TT_FRAME_KEPT, 0, 0);
    no_more(&world.script);
    assert_int_equal(world.member.drops_frame, 1);
    world_fini(&world);
}

/* Nobody can have finished more than the slots that there are: a round about it would never end, nor let another begin.
 */
static void an_acknowledgment_of_what_nobody_can_have_finished_is_dropped(void **state)
{
    struct tt_frame ack = {.type = TT_FRAME_ACK};
    struct world world;

    (void)state;
    set_up(&world);
    world_post(&world, 0, from_0);
    world_post(&world, 0, from_0);
    world_hear(&world, 1, ack, 0, tt_member_slots(world.member.config.in_flight) + 1);
    assert_int_equal(world.member.drops_frame, 1);
    assert_int_equal(world.member.eager.wanted, 0);
    world_hear(&world, 1, ack, 0, tt_member_slots(world.member.config.in_flight));
    assert_int_equal(world.member.drops_frame, 1);
    assert_int_equal(world.member.eager.wanted, tt_member_slots(world.member.config.in_flight));
    world_fini(&world);
}

/* A barrier's frame and an acknowledgment both say what their sender has finished. */
static void a_sign_that_somebody_has_finished_makes_a_rank_ask_after_a_tail(void **state)
{
    static const enum tt_frame_type types[] = {TT_FRAME_BARRIER, TT_FRAME_ACK};

    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        struct world world;
        struct tt_collective *first, *second;
        struct tt_frame sign = {.type = types[i]};

        set_up(&world);
        first = world_post(&world, 0, from_0);
        second = world_post(&world, 0, from_0);
        first->timeout.deadline_ns = second->timeout.deadline_ns = UINT64_MAX;
        if (types[i] == TT_FRAME_BARRIER) {
            sign.body.barrier.terms = world_request(&world, ordinary)->config.terms;
            sign.body.barrier.finished = 1; /* of the third; the second may not have ended anywhere */
        }
        world_hear(&world, 1000, sign, 0, types[i] == TT_FRAME_BARRIER ? 2 : 1);
        no_more(&world.script);
        assert_int_equal(tt_member_deadline(&world.member), 1000 + MACHINE_TAIL_NS);
        world_hear(&world, 1050, sign, 0, types[i] == TT_FRAME_BARRIER ? 2 : 1); /* once more: no delay */
        world_tick(&world, 1000 + MACHINE_TAIL_NS);
        assert_int_equal(next_sends(&world.script, TT_FRAME_ASK, 0)->sequence, 0);
        no_more(&world.script);
        assert_int_equal(tt_member_deadline(&world.member), ASK_NS); /* the second's */
        world_fini(&world);
    }
}

/* Everybody has posted what comes after it, so who had room for its data has sent it. */
static void the_end_of_a_barrier_behind_it_makes_a_rank_ask_after_a_tail(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        struct world world;
        struct tt_collective *before, *barrier, *behind;

        set_up(&world);
        before = world_post(&world, 0, from_0);
        barrier = world_post(&world, 0, ordinary);
        behind = world_post(&world, 0, from_0);
        before->timeout.deadline_ns = barrier->timeout.deadline_ns = behind->timeout.deadline_ns = UINT64_MAX;
        before->sending.may_send = i < 2; /* as far as is known here */
        if (i == 0) {
            world_release(&world, 1000, barrier, 0);
        } else {
            memory_receive(memory_of(barrier), 0, 0, 1); /* the release is lost */
            world_tick(&world, 1000);
        }
        assert_int_equal(barrier->state, TT_COLLECTIVE_RECEIVE);
        if (i < 2) {
            assert_int_equal(tt_member_deadline(&world.member), 1000 + MACHINE_TAIL_NS);
            world_tick(&world, 1000 + MACHINE_TAIL_NS);
            assert_int_equal(next_sends(&world.script, TT_FRAME_ASK, 0)->sequence, 0);
        } else {
            world_tick(&world, 1000 + MACHINE_TAIL_NS);
        }
        no_more(&world.script);
        assert_true(behind->receiving.tail_deadline_ns == UINT64_MAX);
        world_fini(&world);
    }
}

static void in_an_allgather_a_rank_asks_again_and_says_what_it_has(void **state)
{
    static const uint64_t at_ms[] = {5, 10, 20, 40, 80, 160, 240};
    struct world world;
    struct tt_collective *collective;
    uint64_t digests[7];

    (void)state;
    set_up(&world);
    collective = world_post(&world, 0, gather);
    collective->timeout.deadline_ns = UINT64_MAX;
    for (uint32_t i = 0; i < 7; i++) {
        assert_int_equal(tt_member_deadline(&world.member), at_ms[i] * 1000000);
        world_tick(&world, at_ms[i] * 1000000);
        digests[i] = next_sends(&world.script, TT_FRAME_ASK, 0)->body.ask.digest;
        no_more(&world.script);
        if (i == 3) {
            memory_receive(memory_of(collective), 0, 3, 1);
        }
    }
    assert_int_equal(digests[0], 0); /* its own block is not sent: nobody else can have it */
    assert_int_equal(digests[3], 0);
    assert_int_not_equal(digests[4], 0);
    assert_int_equal(digests[6], digests[4]);
    world_fini(&world);
}

/* --- Being asked -------------------------------------------------------------------------------------------------- */

static void who_is_asked_answers_when_it_has_everything(void **state)
{
    struct world world;
    struct tt_collective *collective;

    (void)state;
    set_up(&world);
    collective = world_post(&world, 0, from_0);
    world_hear(&world, 1, ask_like(collective), 2, 0);
    no_more(&world.script);
    memory_receive_all(memory_of(collective));
    world_tick(&world, 2);
    next_is_for(&world, TT_ACTION_FREEZE, collective);
    world_answer(&world, 3, TT_MEMBER_FROZEN, collective);
    next_is(&world.script, TT_ACTION_KEEP);
    next_sends(&world.script, TT_FRAME_KEPT, 2);
    next_finishes(&world, collective, TUTTI_OK, TT_RANK_NONE);
    no_more(&world.script);
    world_fini(&world);
}

static void a_question_that_comes_before_the_post_is_kept(void **state)
{
    struct world world;
    struct tt_collective *collective;

    (void)state;
    set_up(&world);
    collective = world_request(&world, from_0);
    world_hear(&world, 1, ask_like(collective), 2, 0);
    no_more(&world.script);
    world_answer(&world, 2, TT_MEMBER_POST, collective);
    next_is_for(&world, TT_ACTION_PUBLISH, collective);
    memory_receive_all(memory_of(collective));
    world_tick(&world, 3);
    world_answer(&world, 4, TT_MEMBER_FROZEN, collective);
    next_is(&world.script, TT_ACTION_KEEP);
    next_sends(&world.script, TT_FRAME_KEPT, 2);
    next_finishes(&world, collective, TUTTI_OK, TT_RANK_NONE);
    assert_int_equal(world.member.drops_frame, 0);
    world_fini(&world);
}

static void what_has_ended_is_answered_from_the_copy(void **state)
{
    struct world world;
    const struct tt_frame *answer;
    struct tt_collective *second;

    (void)state;
    set_up(&world);
    receive_one(&world, 0, 0);
    receive_one(&world, 10, BYTES);
    second = world_request(&world, from_0);
    second->config.terms.before = tt_terms_behind(&second->config.terms); /* of the first, which was as it is */
    world_hear(&world, 20, ask_like(second), 2, 1);
    assert_int_equal(next_sends(&world.script, TT_FRAME_KEPT, 2)->sequence, 1);
    no_more(&world.script);
    assert_false(tt_member_is_read(&world.member));
    world_hear(&world, 21, fetch_of(0, CHUNKS, 5), 2, 1);
    answer = next_sends(&world.script, TT_FRAME_AVAILABLE, 2);
    assert_null(world.script.list[0].collective); /* the surroundings add the address of the copies */
    assert_int_equal(answer->sequence, 1);
    assert_int_equal(answer->body.available.slot, 3);
    assert_int_equal(answer->body.available.window.bits[0], 5);
    assert_int_equal(answer->body.available.address, BYTES);
    no_more(&world.script);
    assert_true(tt_member_is_read(&world.member));
    world_hear_type(&world, 22, TT_FRAME_FINAL, 2, 1);
    no_more(&world.script);
    assert_false(tt_member_is_read(&world.member));
    assert_int_equal(world.member.drops_frame, 0);
    world_fini(&world);
}

static void questions_from_others_than_the_right_neighbour_and_windows_out_of_range_are_refused(void **state)
{
    struct world world;
    struct tt_frame ask, fetch;

    (void)state;
    set_up(&world);
    receive_one(&world, 0, 0);
    ask = ask_like(world_request(&world, from_0));
    world_hear(&world, 20, ask, 3, 0);
    world_hear(&world, 20, ask, 0, 0);
    world_hear(&world, 20, fetch_of(0, CHUNKS, 1), 0, 0);
    world_hear(&world, 20, fetch_of(0, CHUNKS + 1, 1), 2, 0);
    world_hear(&world, 20, fetch_of(64, 1, 1), 2, 0);
    world_hear(&world, 20, fetch_of(0xFFFFFFC0, 1024, 1), 2, 0);
    fetch = fetch_of(0, CHUNKS, 1);
    fetch.body.fetch.window.subgroup = 1;
    world_hear(&world, 20, fetch, 2, 0);
    no_more(&world.script);
    assert_int_equal(world.member.drops_frame, 7);
    assert_false(tt_member_is_read(&world.member));
    world_fini(&world);
}

static void where_very_many_share_a_core_each_waits_for_all_of_them(void **state)
{
    static const struct {
        uint32_t ranks_a_core;
        uint64_t ms;
    } cases[] = {{1, 5}, {4, 20}, {16, 80}, {17, 80}, {160, 80}, {256, 128}, {512, 256}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(tt_eager_ask_ns(cases[i].ranks_a_core), cases[i].ms * 1000000);
    }
}

static void a_question_is_repeated_half_as_often_each_time_down_to_once_in_80_ms(void **state)
{
    static const struct {
        uint64_t first_ms, then_ms[5];
    } cases[] = {{5, {5, 10, 20, 40, 80}}, {20, {20, 40, 80, 80, 80}}, {60, {60, 80, 80}}, {128, {128, 128, 128}}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct world world;
        struct shape shape = gather;
        struct tt_collective *collective;
        uint64_t now_ns = cases[i].first_ms * 1000000;

        set_up(&world);
        shape.ask_ns = now_ns;
        collective = world_post(&world, 0, shape);
        collective->timeout.deadline_ns = UINT64_MAX;
        world_answer(&world, 1, TT_MEMBER_SENT, collective);
        for (size_t k = 0; k < 5 && cases[i].then_ms[k] > 0; k++) {
            world_tick(&world, now_ns - 1);
            no_more(&world.script);
            world_tick(&world, now_ns);
            next_sends(&world.script, TT_FRAME_ASK, 0);
            no_more(&world.script);
            now_ns += cases[i].then_ms[k] * 1000000;
        }
        assert_int_equal(tt_member_deadline(&world.member), now_ns);
        world_fini(&world);
    }
}

/* Allgather, rank 1 of 4 has its own block (sent), and that of 0. */
static struct tt_collective *post_and_receive_one(struct world *world)
{
    struct tt_collective *collective = world_post(world, 0, gather);

    collective->timeout.deadline_ns = UINT64_MAX;
    world_answer(world, 1, TT_MEMBER_SENT, collective);
    memory_receive(memory_of(collective), 0, 0, 1);
    return collective;
}

/* That its right neighbour waits for something else it finds out when it waits itself. */
static void who_was_asked_before_it_waits_answers_when_it_does(void **state)
{
    struct world world;
    struct tt_collective *collective;
    struct tt_frame ask;

    (void)state;
    set_up(&world);
    collective = post_and_receive_one(&world);
    ask = ask_like(collective);
    ask.body.ask.digest = 4711;
    world_hear(&world, ASK_NS - 5, ask, 2, 0); /* it hopes still that all will come */
    no_more(&world.script);
    world_tick(&world, ASK_NS);
    next_sends(&world.script, TT_FRAME_ASK, 0);
    next_sends(&world.script, TT_FRAME_KEPT, 2);
    next_is_for(&world, TT_ACTION_FREEZE, collective);
    no_more(&world.script);
    world_fini(&world);
}

/* It has the block of 3, too; its right neighbour lacks what it has. */
static void two_that_miss_different_blocks_of_an_allgather_help_each_other(void **state)
{
    struct world world;
    struct tt_collective *collective;
    struct tt_frame ask;
    const struct tt_frame *answer;

    (void)state;
    set_up(&world);
    collective = post_and_receive_one(&world);
    memory_receive(memory_of(collective), 0, 3, 1);
    world_tick(&world, ASK_NS - 10);
    ask = ask_like(collective);
    world_tick(&world, ASK_NS);
    ask.body.ask.digest = next_sends(&world.script, TT_FRAME_ASK, 0)->body.ask.digest;
    world_hear(&world, ASK_NS + 5, ask, 2, 0); /* the same as here: nothing to give */
    no_more(&world.script);
    ask.body.ask.digest++;
    world_hear(&world, ASK_NS + 6, ask, 2, 0);
    next_sends(&world.script, TT_FRAME_KEPT, 2);
    next_is_for(&world, TT_ACTION_FREEZE, collective);
    no_more(&world.script);
    world_hear(&world, ASK_NS + 7, fetch_of(0, 4, 5), 2, 0); /* blocks 0 and 2, of which this rank has 0 */
    no_more(&world.script);
    world_answer(&world, ASK_NS + 8, TT_MEMBER_FROZEN, collective);
    next_is_for(&world, TT_ACTION_KEEP, collective);
    answer = next_sends(&world.script, TT_FRAME_AVAILABLE, 2);
    assert_int_equal(answer->body.available.window.bits[0], 1);
    assert_int_equal(answer->body.available.address, 0);
    assert_null(world.script.list[1].collective);
    no_more(&world.script);
    assert_true(tt_member_is_read(&world.member));
    world_fini(&world);
}

/* What a sender says of how far it is behind counts from the Allgather's own number: there is none before the first. */
static void who_is_behind_by_more_than_there_has_been_has_finished_nothing(void **state)
{
    struct world world;
    struct tt_collective *collective;

    (void)state;
    set_up(&world);
    receive_one(&world, 0, 0);
    receive_one(&world, 1, BYTES);
    collective = world_post(&world, 2, gather);
    memory_receive_all(memory_of(collective));
    atomic_store(&collective->config.streams[0].behind, 9);
    world_answer(&world, 3, TT_MEMBER_SENT, collective);
    world_tick(&world, 4);
    world_answer(&world, 5, TT_MEMBER_FROZEN, collective);
    assert_int_equal(collective->state, TT_COLLECTIVE_FINISHED);
    assert_int_equal(world.member.oldest, 3);
    assert_true(world.member.eager.all_finished == 0);
    world_fini(&world);
}

/* --- Disagreement ------------------------------------------------------------------------------------------------- */

static void expect_mismatch(struct world *world, uint32_t with)
{
    assert_int_equal(world->member.status, TUTTI_ERR_MISMATCH);
    assert_int_equal(world->member.failed_rank, with);
}

static void a_question_with_other_terms_ends_the_group(void **state)
{
    struct world world;
    struct tt_frame ask;

    (void)state;
    set_up(&world); /* it runs */
    ask = ask_like(world_post(&world, 0, from_0));
    ask.body.ask.terms.block_bytes++;
    world_hear(&world, 1, ask, 2, 0);
    expect_mismatch(&world, 2);
    world_fini(&world);
    set_up(&world); /* it has ended */
    receive_one(&world, 0, 0);
    world_hear(&world, 5, ask, 2, 0);
    expect_mismatch(&world, 2);
    world_fini(&world);
    set_up(&world); /* it has not been posted */
    world_hear(&world, 0, ask, 2, 0);
    assert_int_equal(world.member.status, TUTTI_OK);
    world_post(&world, 1, from_0);
    expect_mismatch(&world, 2);
    world_fini(&world);
    set_up(&world); /* it is an ordinary one here */
    world_post(&world, 0, ordinary);
    world_hear(&world, 1, ask, 2, 0);
    expect_mismatch(&world, 2);
    world_fini(&world);
}

/* For another size another way is chosen: the other rank waits in a barrier. */
static void a_barrier_for_an_eager_collective_ends_the_group(void **state)
{
    struct world world;
    struct tt_collective *like;

    (void)state;
    set_up(&world);
    world_post(&world, 0, from_0);
    like = world_request(&world, ordinary);
    world_hear_barrier(&world, 1, like, 0, 0);
    expect_mismatch(&world, 0);
    world_fini(&world);
    set_up(&world);
    receive_one(&world, 0, 0);
    like = world_request(&world, ordinary);
    world_hear_barrier(&world, 5, like, 0, 1);
    expect_mismatch(&world, 3);
    world_fini(&world);
    set_up(&world);
    like = world_request(&world, ordinary);
    world_hear_barrier(&world, 0, like, 0, 0);
    world_post(&world, 1, from_0);
    expect_mismatch(&world, 0);
    world_fini(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_is_behind_by_more_than_there_has_been_has_finished_nothing),
        cmocka_unit_test(a_receiver_publishes_and_ends_when_everything_is_there),
        cmocka_unit_test(a_root_sends_at_once_and_ends_when_it_has_sent),
        cmocka_unit_test(a_rank_asks_its_left_neighbour_after_5_ms_and_fetches_when_that_has_everything),
        cmocka_unit_test(asking_who_has_left_or_leaves_ends_the_group),
        cmocka_unit_test(what_comes_meanwhile_needs_nobody_who_has_left),
        cmocka_unit_test(a_done_that_was_not_asked_for_is_refused),
        cmocka_unit_test(an_acknowledgment_of_what_nobody_can_have_finished_is_dropped),
        cmocka_unit_test(a_sign_that_somebody_has_finished_makes_a_rank_ask_after_a_tail),
        cmocka_unit_test(the_end_of_a_barrier_behind_it_makes_a_rank_ask_after_a_tail),
        cmocka_unit_test(in_an_allgather_a_rank_asks_again_and_says_what_it_has),
        cmocka_unit_test(who_is_asked_answers_when_it_has_everything),
        cmocka_unit_test(a_question_that_comes_before_the_post_is_kept),
        cmocka_unit_test(what_has_ended_is_answered_from_the_copy),
        cmocka_unit_test(questions_from_others_than_the_right_neighbour_and_windows_out_of_range_are_refused),
        cmocka_unit_test(where_very_many_share_a_core_each_waits_for_all_of_them),
        cmocka_unit_test(a_question_is_repeated_half_as_often_each_time_down_to_once_in_80_ms),
        cmocka_unit_test(who_was_asked_before_it_waits_answers_when_it_does),
        cmocka_unit_test(two_that_miss_different_blocks_of_an_allgather_help_each_other),
        cmocka_unit_test(a_question_with_other_terms_ends_the_group),
        cmocka_unit_test(a_barrier_for_an_eager_collective_ends_the_group),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
