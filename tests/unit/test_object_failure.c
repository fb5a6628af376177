/* SPDX-License-Identifier: BSD-3-Clause */
/* How an object group fails, step by step: who is told what, when memory is released, who is asked and given up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "object_machine.h"

static struct object_machine machine;

/* Member 1 of a chain of three with one object under way, for whose first block it is ready. */
static void begin_relay(void)
{
    machine_init(&machine, TT_RDMC_CHAIN, 1, 3, 1);
    machine_offer(&machine, 0, 0, 3000);
    next_is(&machine, TT_OBJECT_DO_INCOMING, 1, 0);
    machine_gives_memory(&machine, 0);
    next_grants(&machine, 0, 0, 0);
}

static void next_fail_frame_of(uint32_t noticed_by, uint32_t to, tutti_status status, uint32_t about, uint64_t puts)
{
    const struct tt_object_frame *frame = next_sends(&machine, TT_OBJECT_FRAME_FAIL, to, 0);

    assert_int_equal(frame->body.fail.noticed_by, noticed_by);
    assert_int_equal(frame->body.fail.status, status);
    assert_int_equal(frame->body.fail.member, about);
    assert_int_equal(frame->body.fail.puts, puts);
}

/* Noticed here. */
static void next_fail_frame(uint32_t to, tutti_status status, uint32_t about, uint64_t puts)
{
    next_fail_frame_of(1, to, status, about, puts);
}

static void a_neighbours_death_is_told_once_and_memory_comes_back(void **state)
{
    (void)state;
    begin_relay();
    machine_peer_down(&machine, 0);
    next_ends(&machine, TT_OBJECT_DO_FAIL, TUTTI_ERR_PEER_FAILED, 0);
    next_fail_frame(2, TUTTI_ERR_PEER_FAILED, 0, 0);
    next_is(&machine, TT_OBJECT_DO_RELEASE, 1, 0); /* who had leave to put is dead */
    next_ends(&machine, TT_OBJECT_DO_FINISH, TUTTI_ERR_PEER_FAILED, 0);
    no_more(&machine);
    machine_peer_down(&machine, 2);
    machine_fails(&machine, 2, TUTTI_ERR_PEER_FAILED, 0, 0);
    no_more(&machine);
}

/* What connects members 0 and 1 broke, and both live; member 2 brings the word. */
static void word_of_the_own_failure_is_about_who_cannot_reach_this_member(void **state)
{
    struct tt_object_frame word = {.type = TT_OBJECT_FRAME_FAIL,
                                   .source = 2,
                                   .body.fail = {.status = TUTTI_ERR_PEER_FAILED, .member = 1, .noticed_by = 0}};

    (void)state;
    begin_relay();
    machine_frame(&machine, word);
    next_ends(&machine, TT_OBJECT_DO_FAIL, TUTTI_ERR_PEER_FAILED, 0);
    next_fail_frame_of(0, 0, TUTTI_ERR_PEER_FAILED, 1, 0);
    next_fail_frame_of(0, 2, TUTTI_ERR_PEER_FAILED, 1, 0);
    no_more(&machine);
}

static void memory_is_kept_until_the_puts_that_were_told_of_have_come_in(void **state)
{
    (void)state;
    begin_relay();
    machine_fails(&machine, 2, TUTTI_ERR_TIMED_OUT, 2, 0);
    next_ends(&machine, TT_OBJECT_DO_FAIL, TUTTI_ERR_TIMED_OUT, 2);
    next_fail_frame_of(2, 0, TUTTI_ERR_TIMED_OUT, 2, 0);
    next_fail_frame_of(2, 2, TUTTI_ERR_TIMED_OUT, 2, 0);
    no_more(&machine);
    machine_fails(&machine, 0, TUTTI_ERR_TIMED_OUT, 2, 1); /* has started one */
    no_more(&machine);
    machine_block_comes(&machine, 0, 0);
    next_is(&machine, TT_OBJECT_DO_RELEASE, 1, 0);
    next_ends(&machine, TT_OBJECT_DO_FINISH, TUTTI_ERR_TIMED_OUT, 2);
    no_more(&machine);
}

static void memory_is_kept_until_the_own_puts_are_done(void **state)
{
    (void)state;
    begin_relay();
    machine_ready(&machine, 2, 0, 0);
    machine_block_comes(&machine, 0, 0);
    next_grants(&machine, 0, 0, 1);
    next_is(&machine, TT_OBJECT_DO_PUT, 2, 0);
    machine_fails(&machine, 0, TUTTI_ERR_CANCELED, 0, 1);
    next_ends(&machine, TT_OBJECT_DO_FAIL, TUTTI_ERR_CANCELED, 0);
    next_fail_frame_of(0, 0, TUTTI_ERR_CANCELED, 0, 0);
    next_fail_frame_of(0, 2, TUTTI_ERR_CANCELED, 0, 1); /* that one */
    no_more(&machine);
    machine_put_done(&machine, 2, 0, TUTTI_OK);
    next_is(&machine, TT_OBJECT_DO_RELEASE, 1, 0);
    next_ends(&machine, TT_OBJECT_DO_FINISH, TUTTI_ERR_CANCELED, 0);
    no_more(&machine);
}

static void whoever_does_not_let_go_is_ended_with_its_connection(void **state)
{
    enum { PATIENCE_NS = 500100000 }; /* 500 ms, and a block of 1000 bytes at 10 MB/s */

    (void)state;
    begin_relay();
    machine_fails(&machine, 2, TUTTI_ERR_TIMED_OUT, 0, 0);
    next_ends(&machine, TT_OBJECT_DO_FAIL, TUTTI_ERR_TIMED_OUT, 0);
    next_fail_frame_of(2, 0, TUTTI_ERR_TIMED_OUT, 0, 0);
    next_fail_frame_of(2, 2, TUTTI_ERR_TIMED_OUT, 0, 0);
    assert_true(tt_object_group_deadline(&machine.group) == 1 + PATIENCE_NS);
    machine_tick(&machine, PATIENCE_NS);
    no_more(&machine);
    machine_tick(&machine, 1 + PATIENCE_NS);
    next_is(&machine, TT_OBJECT_DO_ABANDON, 0, 0);
    next_is(&machine, TT_OBJECT_DO_RELEASE, 1, 0);
    next_ends(&machine, TT_OBJECT_DO_FINISH, TUTTI_ERR_TIMED_OUT, 0);
    no_more(&machine);
}

/* Nothing ran here for longer than that, and the ends of two puts are read one after the other. */
static void whoever_has_let_go_in_time_keeps_its_connection(void **state)
{
    enum { LONG_NS = 1000000000 };

    (void)state;
    machine_init(&machine, TT_RDMC_CHAIN, 1, 3, 2);
    machine_offer(&machine, 0, 0, 3000);
    next_is(&machine, TT_OBJECT_DO_INCOMING, 1, 0);
    machine_gives_memory(&machine, 0);
    for (uint64_t block = 0; block < 2; block++) {
        next_grants(&machine, 0, 0, block);
    }
    for (uint64_t block = 0; block < 2; block++) {
        machine_ready(&machine, 2, 0, block);
        machine_block_comes(&machine, 0, block);
        machine.at = machine.actions.count;
    }
    machine_fails(&machine, 0, TUTTI_ERR_CANCELED, 0, 2);
    next_ends(&machine, TT_OBJECT_DO_FAIL, TUTTI_ERR_CANCELED, 0);
    next_fail_frame_of(0, 0, TUTTI_ERR_CANCELED, 0, 0);
    next_fail_frame_of(0, 2, TUTTI_ERR_CANCELED, 0, 2);
    machine.now_ns += LONG_NS;
    machine_put_done(&machine, 2, 0, TUTTI_OK);
    no_more(&machine);
    assert_true(tt_object_group_deadline(&machine.group) <= machine.now_ns);
    machine_put_done(&machine, 2, 0, TUTTI_OK);
    next_is(&machine, TT_OBJECT_DO_RELEASE, 1, 0);
    next_ends(&machine, TT_OBJECT_DO_FINISH, TUTTI_ERR_CANCELED, 0);
    no_more(&machine);
}

/* As many as there is credit for, of the object that has the largest. */
static void the_blocks_that_may_be_under_way_are_given_their_time(void **state)
{
    (void)state;
    machine_init(&machine, TT_RDMC_CHAIN, 1, 3, 2);
    machine_offer(&machine, 0, 0, 10);
    next_is(&machine, TT_OBJECT_DO_INCOMING, 1, 0);
    machine_gives_memory(&machine, 0);
    next_grants(&machine, 0, 0, 0);
    machine_offer(&machine, 0, 1, 300);
    next_is(&machine, TT_OBJECT_DO_INCOMING, 1, 1);
    machine_offer(&machine, 0, 2, 20);
    machine_fails(&machine, 2, TUTTI_ERR_CANCELED, 2, 0);
    next_ends(&machine, TT_OBJECT_DO_FAIL, TUTTI_ERR_CANCELED, 2);
    assert_true(tt_object_group_deadline(&machine.group) == 1 + 500000000 + 2 * 300 * 100);
}

static void a_refusal_is_the_members_own_error_and_the_others_learn_its_number(void **state)
{
    (void)state;
    machine_init(&machine, TT_RDMC_CHAIN, 1, 3, 1);
    machine_offer(&machine, 0, 0, 3000);
    next_is(&machine, TT_OBJECT_DO_INCOMING, 1, 0);
    (void)machine_step(
        &machine, (struct tt_object_event){.type = TT_OBJECT_REFUSE, .sequence = 0, .status = TUTTI_ERR_NO_MEMORY});
    next_ends(&machine, TT_OBJECT_DO_FAIL, TUTTI_ERR_NO_MEMORY, 1);
    next_fail_frame(0, TUTTI_ERR_PEER_FAILED, 1, 0);
    next_fail_frame(2, TUTTI_ERR_PEER_FAILED, 1, 0);
    next_ends(&machine, TT_OBJECT_DO_FINISH, TUTTI_ERR_NO_MEMORY, 1);
    no_more(&machine);
}

static void memory_that_is_given_while_the_group_fails_comes_back(void **state)
{
    (void)state;
    begin_relay();
    machine_offer(&machine, 0, 1, 1000);
    next_is(&machine, TT_OBJECT_DO_INCOMING, 1, 1);
    machine_fails(&machine, 2, TUTTI_ERR_CANCELED, 2, 0);
    next_ends(&machine, TT_OBJECT_DO_FAIL, TUTTI_ERR_CANCELED, 2);
    next_fail_frame_of(2, 0, TUTTI_ERR_CANCELED, 2, 0);
    next_fail_frame_of(2, 2, TUTTI_ERR_CANCELED, 2, 0);
    machine_gives_memory(&machine, 1);
    no_more(&machine);
    machine_fails(&machine, 0, TUTTI_ERR_CANCELED, 2, 0);
    next_is(&machine, TT_OBJECT_DO_RELEASE, 1, 0);
    next_is(&machine, TT_OBJECT_DO_RELEASE, 1, 1);
    next_ends(&machine, TT_OBJECT_DO_FINISH, TUTTI_ERR_CANCELED, 2);
    no_more(&machine);
}

static void what_a_sender_has_queued_comes_back_too(void **state)
{
    (void)state;
    machine_init(&machine, TT_RDMC_CHAIN, 0, 2, 1);
    for (uint64_t i = 0; i < 3; i++) {
        (void)machine_step(&machine, (struct tt_object_event){.type = TT_OBJECT_SEND, .size_bytes = 10});
        next_sends(&machine, TT_OBJECT_FRAME_OFFER, 1, i);
    }
    machine_peer_down(&machine, 1);
    next_ends(&machine, TT_OBJECT_DO_FAIL, TUTTI_ERR_PEER_FAILED, 1);
    for (uint64_t i = 0; i < 3; i++) {
        next_is(&machine, TT_OBJECT_DO_RELEASE, 0, i);
    }
    next_ends(&machine, TT_OBJECT_DO_FINISH, TUTTI_ERR_PEER_FAILED, 1);
    no_more(&machine);
    assert_int_equal(machine_step(&machine, (struct tt_object_event){.type = TT_OBJECT_SEND}), TUTTI_ERR_PEER_FAILED);
}

static void a_put_that_fails_with_its_connection_waits_for_word_of_it(void **state)
{
    (void)state;
    begin_relay();
    machine_ready(&machine, 2, 0, 0);
    machine_block_comes(&machine, 0, 0);
    next_grants(&machine, 0, 0, 1);
    next_is(&machine, TT_OBJECT_DO_PUT, 2, 0);
    machine_put_done(&machine, 2, 0, TUTTI_ERR_PEER_FAILED);
    no_more(&machine);
    machine_fails(&machine, 2, TUTTI_ERR_PEER_FAILED, 0, 0); /* it left for a reason */
    next_ends(&machine, TT_OBJECT_DO_FAIL, TUTTI_ERR_PEER_FAILED, 0);
    next_fail_frame_of(2, 0, TUTTI_ERR_PEER_FAILED, 0, 0);
    next_fail_frame_of(2, 2, TUTTI_ERR_PEER_FAILED, 0, 0);
    no_more(&machine);
}

/* Who refuses it is to blame; a shortage of its own is nobody else's. No neighbour waits for the put that failed. */
static void a_put_that_fails_is_blamed_on_who_has_let_it_fail(void **state)
{
    static const struct {
        tutti_status status;
        uint32_t culprit;
    } cases[] = {{TUTTI_ERR_PROTOCOL, 2}, {TUTTI_ERR_NO_MEMORY, 1}, {TUTTI_ERR_NO_RESOURCE, 1}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        begin_relay();
        machine_ready(&machine, 2, 0, 0);
        machine_block_comes(&machine, 0, 0);
        next_grants(&machine, 0, 0, 1);
        next_is(&machine, TT_OBJECT_DO_PUT, 2, 0);
        machine_put_done(&machine, 2, 0, cases[i].status);
        next_ends(&machine, TT_OBJECT_DO_FAIL, cases[i].status, cases[i].culprit);
        assert_int_equal(machine.group.culprit, cases[i].culprit);
        next_fail_frame(0, cases[i].status, cases[i].culprit, 0);
        next_fail_frame(2, cases[i].status, cases[i].culprit, 0);
        no_more(&machine);
    }
}

static void of_two_puts_that_fail_the_receiver_waits_for_neither(void **state)
{
    (void)state;
    machine_init(&machine, TT_RDMC_CHAIN, 1, 3, 2);
    machine_offer(&machine, 0, 0, 3000);
    next_is(&machine, TT_OBJECT_DO_INCOMING, 1, 0);
    machine_gives_memory(&machine, 0);
    next_grants(&machine, 0, 0, 0);
    next_grants(&machine, 0, 0, 1);
    for (uint64_t block = 0; block < 2; block++) {
        machine_ready(&machine, 2, 0, block);
        machine_block_comes(&machine, 0, block);
        machine.at = machine.actions.count;
    }
    machine_put_done(&machine, 2, 0, TUTTI_ERR_NO_MEMORY);
    next_ends(&machine, TT_OBJECT_DO_FAIL, TUTTI_ERR_NO_MEMORY, 1);
    next_fail_frame(0, TUTTI_ERR_NO_MEMORY, 1, 0);
    next_fail_frame(2, TUTTI_ERR_NO_MEMORY, 1, 1);
    no_more(&machine);
    machine_put_done(&machine, 2, 0, TUTTI_ERR_NO_MEMORY);
    next_fail_frame(2, TUTTI_ERR_NO_MEMORY, 1, 0);
    no_more(&machine);
}

/* Each step is out of turn, and the group fails because of its sender. */
static void fails_because_of(uint32_t member)
{
    next_ends(&machine, TT_OBJECT_DO_FAIL, TUTTI_ERR_PROTOCOL, member);
    assert_int_equal(machine.group.status, TUTTI_ERR_PROTOCOL);
    machine.at = machine.actions.count;
}

static void frames_out_of_turn_are_their_senders_failure(void **state)
{
    (void)state;
    begin_relay();
    machine_offer(&machine, 0, 2, 10); /* not the next one */
    fails_because_of(0);
    begin_relay();
    machine_offer(&machine, 2, 1, 10); /* not from the parent */
    fails_because_of(2);
    begin_relay();
    machine_offer(&machine, 0, 1, UINT64_MAX); /* more blocks than there are numbers */
    fails_because_of(0);
    begin_relay();
    machine_ready(&machine, 2, 0, 1); /* not the block that is due */
    fails_because_of(2);
    begin_relay();
    machine_ready(&machine, 2, 0, 0);
    machine_ready(&machine, 2, 0, 1); /* more than there is credit for */
    fails_because_of(2);
    begin_relay();
    machine_says(&machine, TT_OBJECT_FRAME_REACHED, 2, 1); /* not a child */
    fails_because_of(2);
    begin_relay();
    machine_says(&machine, TT_OBJECT_FRAME_END, 0, 3); /* there was one */
    fails_because_of(0);
    begin_relay();
    machine_says(&machine, TT_OBJECT_FRAME_BYE, 0, 1);
    fails_because_of(0);
    begin_relay();
    machine_says(&machine, TT_OBJECT_FRAME_BARRIER, 2, 1); /* round 0 comes from 0 */
    fails_because_of(2);
    begin_relay();
    machine_fails(&machine, 2, TUTTI_ERR_PEER_FAILED, 3, 0); /* about nobody */
    fails_because_of(2);
}

static void strangers_are_not_heard(void **state)
{
    (void)state;
    begin_relay();
    machine_says(&machine, TT_OBJECT_FRAME_BYE, 7, 0);
    machine_says(&machine, TT_OBJECT_FRAME_BYE, 1, 0);
    machine_peer_down(&machine, 7);
    no_more(&machine);
    assert_int_equal(machine.group.drops, 2);
}

static void who_is_awaited_and_silent_is_asked_and_then_given_up(void **state)
{
    (void)state;
    begin_relay();
    assert_true(tt_object_group_deadline(&machine.group) == 1 + MACHINE_SILENCE_NS);
    machine_tick(&machine, MACHINE_SILENCE_NS);
    no_more(&machine);
    machine_tick(&machine, 1 + MACHINE_SILENCE_NS);
    next_sends(&machine, TT_OBJECT_FRAME_ASK, 0, 0);
    no_more(&machine);
    machine_tick(&machine, 2 * MACHINE_SILENCE_NS);
    no_more(&machine);
    machine_tick(&machine, 1 + 2 * MACHINE_SILENCE_NS);
    next_ends(&machine, TT_OBJECT_DO_FAIL, TUTTI_ERR_TIMED_OUT, 0);
    next_fail_frame(0, TUTTI_ERR_TIMED_OUT, 0, 0);
    next_fail_frame(2, TUTTI_ERR_TIMED_OUT, 0, 0);
    no_more(&machine);
}

static void who_answers_is_waited_for_however_long_it_takes(void **state)
{
    (void)state;
    begin_relay();
    for (uint64_t turn = 0; turn < 1000; turn++) {
        machine_tick(&machine, tt_object_group_deadline(&machine.group));
        next_sends(&machine, TT_OBJECT_FRAME_ASK, 0, 0);
        machine.now_ns += MACHINE_SILENCE_NS - 1;
        machine_says(&machine, TT_OBJECT_FRAME_ANSWER, 0, 0);
    }
    no_more(&machine);
}

/* Nothing ran here for a while, and what another neighbour has said is read first. */
static void an_answer_that_came_in_time_is_read_before_anybody_is_given_up(void **state)
{
    (void)state;
    begin_relay();
    machine_tick(&machine, 1 + MACHINE_SILENCE_NS);
    next_sends(&machine, TT_OBJECT_FRAME_ASK, 0, 0);
    machine.now_ns = 1 + 5 * MACHINE_SILENCE_NS;
    machine_says(&machine, TT_OBJECT_FRAME_ASK, 2, 5);
    next_sends(&machine, TT_OBJECT_FRAME_ANSWER, 2, 5);
    no_more(&machine);
    assert_true(tt_object_group_deadline(&machine.group) <= machine.now_ns);
    machine_says(&machine, TT_OBJECT_FRAME_ANSWER, 0, 0);
    machine_tick(&machine, machine.now_ns);
    no_more(&machine);
    assert_int_equal(machine.group.status, TUTTI_OK);
}

static void a_question_is_answered(void **state)
{
    (void)state;
    begin_relay();
    machine_says(&machine, TT_OBJECT_FRAME_ASK, 2, 5);
    next_sends(&machine, TT_OBJECT_FRAME_ANSWER, 2, 5);
    no_more(&machine);
}

static void surroundings_without_an_answer_fail_the_group_at_the_deadline(void **state)
{
    (void)state;
    machine_init(&machine, TT_RDMC_CHAIN, 1, 2, 1);
    machine_offer(&machine, 0, 0, 3000);
    next_is(&machine, TT_OBJECT_DO_INCOMING, 1, 0);
    assert_true(tt_object_group_deadline(&machine.group) == 1 + MACHINE_DEADLINE_NS);
    machine_tick(&machine, 1 + MACHINE_DEADLINE_NS);
    next_ends(&machine, TT_OBJECT_DO_FAIL, TUTTI_ERR_TIMED_OUT, 1);
    next_fail_frame(0, TUTTI_ERR_TIMED_OUT, 1, 0);
    next_ends(&machine, TT_OBJECT_DO_FINISH, TUTTI_ERR_TIMED_OUT, 1);
    no_more(&machine);
}

/* Nothing ran here for a while, and what is read first says nothing of why. */
static void word_of_a_failure_is_read_before_a_member_gives_itself_up(void **state)
{
    (void)state;
    machine_init(&machine, TT_RDMC_CHAIN, 1, 3, 1);
    machine_offer(&machine, 0, 0, 3000);
    next_is(&machine, TT_OBJECT_DO_INCOMING, 1, 0);
    machine.now_ns = 2 * MACHINE_DEADLINE_NS;
    machine_says(&machine, TT_OBJECT_FRAME_ASK, 2, 5);
    next_sends(&machine, TT_OBJECT_FRAME_ANSWER, 2, 5);
    no_more(&machine);
    assert_true(tt_object_group_deadline(&machine.group) <= machine.now_ns);
    machine_fails(&machine, 0, TUTTI_ERR_PEER_FAILED, 2, 0);
    next_ends(&machine, TT_OBJECT_DO_FAIL, TUTTI_ERR_PEER_FAILED, 2);
}

static void an_idle_group_waits_for_nobody(void **state)
{
    (void)state;
    machine_init(&machine, TT_RDMC_CHAIN, 1, 3, 1);
    machine_tick(&machine, UINT64_C(1) << 40);
    no_more(&machine);
    assert_true(tt_object_group_deadline(&machine.group) == UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_neighbours_death_is_told_once_and_memory_comes_back),
        cmocka_unit_test(word_of_the_own_failure_is_about_who_cannot_reach_this_member),
        cmocka_unit_test(memory_is_kept_until_the_puts_that_were_told_of_have_come_in),
        cmocka_unit_test(memory_is_kept_until_the_own_puts_are_done),
        cmocka_unit_test(whoever_does_not_let_go_is_ended_with_its_connection),
        cmocka_unit_test(whoever_has_let_go_in_time_keeps_its_connection),
        cmocka_unit_test(the_blocks_that_may_be_under_way_are_given_their_time),
        cmocka_unit_test(a_refusal_is_the_members_own_error_and_the_others_learn_its_number),
        cmocka_unit_test(memory_that_is_given_while_the_group_fails_comes_back),
        cmocka_unit_test(what_a_sender_has_queued_comes_back_too),
        cmocka_unit_test(a_put_that_fails_is_blamed_on_who_has_let_it_fail),
        cmocka_unit_test(of_two_puts_that_fail_the_receiver_waits_for_neither),
        cmocka_unit_test(a_put_that_fails_with_its_connection_waits_for_word_of_it),
        cmocka_unit_test(frames_out_of_turn_are_their_senders_failure),
        cmocka_unit_test(strangers_are_not_heard),
        cmocka_unit_test(who_is_awaited_and_silent_is_asked_and_then_given_up),
        cmocka_unit_test(who_answers_is_waited_for_however_long_it_takes),
        cmocka_unit_test(an_answer_that_came_in_time_is_read_before_anybody_is_given_up),
        cmocka_unit_test(a_question_is_answered),
        cmocka_unit_test(surroundings_without_an_answer_fail_the_group_at_the_deadline),
        cmocka_unit_test(word_of_a_failure_is_read_before_a_member_gives_itself_up),
        cmocka_unit_test(an_idle_group_waits_for_nobody),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
