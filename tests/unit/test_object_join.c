/* SPDX-License-Identifier: BSD-3-Clause */
/* How members of an object group find each other, in whatever order they come, and what becomes of those that do not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "object_machine.h"

static void joins(struct object_machine *machine, uint32_t from, uint8_t wants)
{
    machine_frame(machine, (struct tt_object_frame){
                               .type = TT_OBJECT_FRAME_JOIN,
                               .source = from,
                               .body.join = {.wants = wants, .terms = tt_object_terms(&machine->group.config)}});
}

static void starts(struct object_machine *machine)
{
    (void)machine_step(machine, (struct tt_object_event){.type = TT_OBJECT_JOIN});
}

static void next_joins(struct object_machine *machine, uint32_t to, uint8_t wants)
{
    const struct tt_object_frame *frame = next_sends(machine, TT_OBJECT_FRAME_JOIN, to, 0);

    assert_int_equal(frame->body.join.wants, wants);
    assert_int_equal(frame->body.join.terms.block_bytes, MACHINE_BLOCK);
}

/* Of three members of a chain, which are all neighbours of one another. */
static void start_member_1(struct object_machine *machine)
{
    machine_init(machine, TT_RDMC_CHAIN, 1, 3, 1);
    starts(machine);
    next_joins(machine, 0, 1);
    next_joins(machine, 2, 1);
}

/* Three members of a chain are all neighbours of one another; 1 and 2 are member 0's children in the tree. */
static void member_0_sends_when_everybody_is_there(void **state)
{
    struct object_machine machine;

    (void)state;
    machine_init(&machine, TT_RDMC_CHAIN, 0, 3, 1);
    starts(&machine);
    next_joins(&machine, 1, 1);
    next_joins(&machine, 2, 1);
    no_more(&machine);
    joins(&machine, 1, 1);
    next_joins(&machine, 1, 0);
    joins(&machine, 2, 0); /* it was there already */
    machine_says(&machine, TT_OBJECT_FRAME_THERE, 2, 0);
    assert_int_equal(machine_step(&machine, (struct tt_object_event){.type = TT_OBJECT_SEND, .size_bytes = 1}),
                     TUTTI_ERR_BUSY);
    machine_says(&machine, TT_OBJECT_FRAME_THERE, 1, 0);
    next_is(&machine, TT_OBJECT_DO_JOINED, 0, 0);
    no_more(&machine);
    assert_int_equal(machine_step(&machine, (struct tt_object_event){.type = TT_OBJECT_SEND, .size_bytes = 1}),
                     TUTTI_OK);
    (void)next_sends(&machine, TT_OBJECT_FRAME_OFFER, 1, 0);
    (void)next_sends(&machine, TT_OBJECT_FRAME_OFFER, 2, 0);
    no_more(&machine);
}

/* Its parent is 0, its child 3. */
static void begin_between(struct object_machine *machine)
{
    machine_init(machine, TT_RDMC_CHAIN, 2, 4, 1);
    starts(machine);
    next_joins(machine, 0, 1);
    next_joins(machine, 1, 1);
    next_joins(machine, 3, 1);
}

static void a_member_speaks_for_those_below_it(void **state)
{
    struct object_machine machine;

    (void)state;
    begin_between(&machine);
    joins(&machine, 3, 1);
    next_joins(&machine, 3, 0);
    joins(&machine, 0, 0);
    joins(&machine, 1, 0);
    no_more(&machine);
    machine_says(&machine, TT_OBJECT_FRAME_THERE, 3, 0);
    (void)next_sends(&machine, TT_OBJECT_FRAME_THERE, 0, 0);
    next_is(&machine, TT_OBJECT_DO_JOINED, 2, 0);
    joins(&machine, 1, 1); /* the two crossed */
    next_joins(&machine, 1, 0);
    no_more(&machine);
}

/* Who is not there yet would not hear it, and it is said once. */
static void that_somebody_below_is_closed_is_told_when_the_parent_is_there(void **state)
{
    struct object_machine machine;

    (void)state;
    begin_between(&machine);
    joins(&machine, 3, 0);
    joins(&machine, 1, 0);
    machine_says(&machine, TT_OBJECT_FRAME_THERE, 3, 0);
    machine_says(&machine, TT_OBJECT_FRAME_CLOSING, 3, 0);
    no_more(&machine);
    joins(&machine, 0, 0);
    (void)next_sends(&machine, TT_OBJECT_FRAME_THERE, 0, 0);
    next_is(&machine, TT_OBJECT_DO_JOINED, 2, 0);
    (void)next_sends(&machine, TT_OBJECT_FRAME_CLOSING, 0, 0);
    no_more(&machine);
}

/* Member 0 begins when everybody is there, and END of nothing comes no earlier than an offer. */
static void what_member_0_begins_is_out_of_turn_before_the_group_is_there(void **state)
{
    static const enum tt_object_frame_type types[] = {TT_OBJECT_FRAME_OFFER, TT_OBJECT_FRAME_END};

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct object_machine machine;

        machine_init(&machine, TT_RDMC_CHAIN, 1, 2, 1);
        starts(&machine);
        next_joins(&machine, 0, 1);
        machine_says(&machine, types[i], 0, 0);
        next_ends(&machine, TT_OBJECT_DO_FAIL, TUTTI_ERR_PROTOCOL, 0);
        (void)next_sends(&machine, TT_OBJECT_FRAME_FAIL, 0, 0);
        next_ends(&machine, TT_OBJECT_DO_FINISH, TUTTI_ERR_PROTOCOL, 0);
        no_more(&machine);
        assert_int_equal(machine.group.offered, 0);
    }
}

static void a_group_of_one_is_there_at_once(void **state)
{
    struct object_machine machine;

    (void)state;
    machine_init(&machine, TT_RDMC_BINOMIAL_PIPELINE, 0, 1, 1);
    starts(&machine);
    next_is(&machine, TT_OBJECT_DO_JOINED, 0, 0);
    no_more(&machine);
}

static void other_terms_fail_the_group_on_both_sides(void **state)
{
    struct object_machine machine;
    struct tt_object_frame join = {.type = TT_OBJECT_FRAME_JOIN, .source = 1};

    (void)state;
    for (int what = 0; what < 4; what++) {
        machine_init(&machine, TT_RDMC_CHAIN, 0, 2, 1);
        starts(&machine);
        next_joins(&machine, 1, 1);
        join.body.join.terms = tt_object_terms(&machine.group.config);
        join.body.join.terms.algorithm += what == 0;
        join.body.join.terms.credit += what == 1;
        join.body.join.terms.block_bytes += what == 2;
        join.body.join.terms.racks += what == 3;
        machine_frame(&machine, join);
        next_ends(&machine, TT_OBJECT_DO_FAIL, TUTTI_ERR_MISMATCH, 1);
        next_joins(&machine, 1, 0); /* for one that has not heard it */
        assert_int_equal(next_sends(&machine, TT_OBJECT_FRAME_FAIL, 1, 0)->body.fail.status, TUTTI_ERR_MISMATCH);
        next_ends(&machine, TT_OBJECT_DO_FINISH, TUTTI_ERR_MISMATCH, 1);
        no_more(&machine);
        assert_memory_equal(&machine.group.mismatch, &join.body.join.terms, sizeof join.body.join.terms);
    }
}

static void who_comes_to_a_failed_group_is_told(void **state)
{
    struct object_machine machine;
    const struct tt_object_frame *fail;

    (void)state;
    machine_init(&machine, TT_RDMC_CHAIN, 0, 3, 1);
    starts(&machine);
    next_joins(&machine, 1, 1);
    next_joins(&machine, 2, 1);
    machine_peer_down(&machine, 1);
    next_ends(&machine, TT_OBJECT_DO_FAIL, TUTTI_ERR_PEER_FAILED, 1);
    (void)next_sends(&machine, TT_OBJECT_FRAME_FAIL, 2, 0); /* which is not there */
    next_ends(&machine, TT_OBJECT_DO_FINISH, TUTTI_ERR_PEER_FAILED, 1);
    joins(&machine, 2, 1);
    fail = next_sends(&machine, TT_OBJECT_FRAME_FAIL, 2, 0);
    assert_int_equal(fail->body.fail.status, TUTTI_ERR_PEER_FAILED);
    assert_int_equal(fail->body.fail.member, 1);
    no_more(&machine);
}

/* Member 2 finds out by itself that it is member 1 whose terms differ, whatever the others say of each other. */
static void who_comes_to_a_group_that_failed_for_its_terms_is_told_these(void **state)
{
    struct object_machine machine;
    struct tt_object_frame join = {.type = TT_OBJECT_FRAME_JOIN, .source = 1};

    (void)state;
    machine_init(&machine, TT_RDMC_CHAIN, 0, 3, 1);
    starts(&machine);
    next_joins(&machine, 1, 1);
    next_joins(&machine, 2, 1);
    join.body.join.terms = tt_object_terms(&machine.group.config);
    join.body.join.terms.block_bytes++;
    machine_frame(&machine, join);
    next_ends(&machine, TT_OBJECT_DO_FAIL, TUTTI_ERR_MISMATCH, 1);
    for (uint32_t member = 1; member < 3; member++) {
        next_joins(&machine, member, 0);
        assert_int_equal(next_sends(&machine, TT_OBJECT_FRAME_FAIL, member, 0)->body.fail.member, 1);
    }
    next_ends(&machine, TT_OBJECT_DO_FINISH, TUTTI_ERR_MISMATCH, 1);
    joins(&machine, 2, 1);
    next_joins(&machine, 2, 0);
    assert_int_equal(next_sends(&machine, TT_OBJECT_FRAME_FAIL, 2, 0)->body.fail.status, TUTTI_ERR_MISMATCH);
    joins(&machine, 2, 0); /* said while it failed as well: no word is answered for ever */
    no_more(&machine);
}

/* Everybody was there, so whatever comes is nobody's first word; it must not turn success into failure. */
static void a_group_that_has_closed_hears_nobody_join(void **state)
{
    struct object_machine machine;
    struct tt_object_frame join = {.type = TT_OBJECT_FRAME_JOIN, .source = 1};

    (void)state;
    machine_init(&machine, TT_RDMC_CHAIN, 0, 2, 1);
    assert_int_equal(machine_step(&machine, (struct tt_object_event){.type = TT_OBJECT_CLOSE}), TUTTI_OK);
    (void)next_sends(&machine, TT_OBJECT_FRAME_END, 1, 0);
    (void)next_sends(&machine, TT_OBJECT_FRAME_BARRIER, 1, 0);
    machine_says(&machine, TT_OBJECT_FRAME_BARRIER, 1, 0);
    (void)next_sends(&machine, TT_OBJECT_FRAME_BYE, 1, 0);
    next_ends(&machine, TT_OBJECT_DO_FINISH, TUTTI_OK, TT_OBJECT_NO_MEMBER);
    for (uint8_t other_credit = 0; other_credit < 2; other_credit++) {
        join.body.join.terms = tt_object_terms(&machine.group.config);
        join.body.join.terms.credit += other_credit;
        machine_frame(&machine, join);
        no_more(&machine);
        assert_int_equal(machine.group.status, TUTTI_OK);
        assert_int_equal(machine.group.state, TT_OBJECT_FINISHED);
    }
}

static void a_neighbour_that_does_not_come_is_named_at_the_deadline(void **state)
{
    struct object_machine machine;

    (void)state;
    start_member_1(&machine);
    joins(&machine, 0, 0);
    assert_int_equal(tt_object_group_deadline(&machine.group), 1 + MACHINE_DEADLINE_NS);
    machine_tick(&machine, MACHINE_DEADLINE_NS);
    no_more(&machine);
    machine_tick(&machine, 1 + MACHINE_DEADLINE_NS);
    next_ends(&machine, TT_OBJECT_DO_FAIL, TUTTI_ERR_TIMED_OUT, 2);
    (void)next_sends(&machine, TT_OBJECT_FRAME_FAIL, 0, 0);
    (void)next_sends(&machine, TT_OBJECT_FRAME_FAIL, 2, 0);
    next_ends(&machine, TT_OBJECT_DO_FINISH, TUTTI_ERR_TIMED_OUT, 2);
    no_more(&machine);
}

/* Nothing ran here until long after the deadline, and both had come before. */
static void a_neighbour_whose_join_has_come_is_read_before_it_is_given_up(void **state)
{
    struct object_machine machine;

    (void)state;
    start_member_1(&machine);
    machine.now_ns = 1 + 2 * MACHINE_DEADLINE_NS;
    joins(&machine, 0, 0);
    no_more(&machine);
    assert_true(tt_object_group_deadline(&machine.group) <= machine.now_ns);
    joins(&machine, 2, 0);
    (void)next_sends(&machine, TT_OBJECT_FRAME_THERE, 0, 0);
    next_is(&machine, TT_OBJECT_DO_JOINED, 1, 0);
    no_more(&machine);
    assert_int_equal(machine.group.status, TUTTI_OK);
}

/* Member 0's neighbours are there, but not all of those below member 1 are: a neighbour of that one knows who. */
static void who_only_knows_whom_it_waits_for_waits_longer(void **state)
{
    struct object_machine machine;

    (void)state;
    machine_init(&machine, TT_RDMC_CHAIN, 0, 2, 1);
    starts(&machine);
    next_joins(&machine, 1, 1);
    joins(&machine, 1, 0);
    machine_tick(&machine, 1 + MACHINE_DEADLINE_NS);
    no_more(&machine);
    machine_tick(&machine, 1 + MACHINE_DEADLINE_NS + MACHINE_DEADLINE_NS / 4);
    next_ends(&machine, TT_OBJECT_DO_FAIL, TUTTI_ERR_TIMED_OUT, 1);
    (void)next_sends(&machine, TT_OBJECT_FRAME_FAIL, 1, 0);
    next_ends(&machine, TT_OBJECT_DO_FINISH, TUTTI_ERR_TIMED_OUT, 1);
    no_more(&machine);
}

static void there_of_who_has_not_joined_or_is_no_child_is_out_of_turn(void **state)
{
    struct object_machine machine;

    (void)state;
    for (uint32_t from = 0; from < 4; from += 3) { /* member 2's child 3 has not joined, and 0 is none */
        machine_init(&machine, TT_RDMC_CHAIN, 2, 4, 1);
        starts(&machine);
        next_joins(&machine, 0, 1);
        next_joins(&machine, 1, 1);
        next_joins(&machine, 3, 1);
        joins(&machine, 0, 0);
        machine_says(&machine, TT_OBJECT_FRAME_THERE, from, 0);
        next_ends(&machine, TT_OBJECT_DO_FAIL, TUTTI_ERR_PROTOCOL, from);
        for (uint32_t to = 0; to < 4; to += to == 1 ? 2 : 1) {
            (void)next_sends(&machine, TT_OBJECT_FRAME_FAIL, to, 0);
        }
        next_ends(&machine, TT_OBJECT_DO_FINISH, TUTTI_ERR_PROTOCOL, from);
        no_more(&machine);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(member_0_sends_when_everybody_is_there),
        cmocka_unit_test(a_member_speaks_for_those_below_it),
        cmocka_unit_test(that_somebody_below_is_closed_is_told_when_the_parent_is_there),
        cmocka_unit_test(what_member_0_begins_is_out_of_turn_before_the_group_is_there),
        cmocka_unit_test(a_group_of_one_is_there_at_once),
        cmocka_unit_test(other_terms_fail_the_group_on_both_sides),
        cmocka_unit_test(who_comes_to_a_failed_group_is_told),
        cmocka_unit_test(who_comes_to_a_group_that_failed_for_its_terms_is_told_these),
        cmocka_unit_test(a_group_that_has_closed_hears_nobody_join),
        cmocka_unit_test(a_neighbour_that_does_not_come_is_named_at_the_deadline),
        cmocka_unit_test(a_neighbour_whose_join_has_come_is_read_before_it_is_given_up),
        cmocka_unit_test(who_only_knows_whom_it_waits_for_waits_longer),
        cmocka_unit_test(there_of_who_has_not_joined_or_is_no_child_is_out_of_turn),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
