/* SPDX-License-Identifier: BSD-3-Clause */
/* Object groups, step by step: offers, memory, places, puts, completion, closing, and who is connected to whom. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "object_machine.h"

static struct object_machine machine;

static tutti_status send_object(uint64_t size_bytes)
{
    return machine_step(&machine, (struct tt_object_event){.type = TT_OBJECT_SEND, .size_bytes = size_bytes});
}

static tutti_status close_group(void)
{
    return machine_step(&machine, (struct tt_object_event){.type = TT_OBJECT_CLOSE});
}

static void next_puts(uint32_t to, uint64_t sequence, uint64_t block, uint64_t length_bytes)
{
    const struct tt_object_action *put = next_is(&machine, TT_OBJECT_DO_PUT, to, sequence);

    assert_true(put->body.put.offset_bytes == block * MACHINE_BLOCK);
    assert_true(put->body.put.length_bytes == length_bytes);
    assert_true(put->body.put.remote_address == 0x10000 + block * MACHINE_BLOCK);
    assert_true(put->body.put.immediate == 0x500 + block);
    assert_int_equal(put->body.put.key_bytes, 3);
    assert_memory_equal(put->body.put.key, "\7\10\11", 3);
}

static void a_sender_puts_a_block_when_its_target_is_ready_for_it(void **state)
{
    (void)state;
    machine_init(&machine, TT_RDMC_CHAIN, 0, 2, 1);
    assert_int_equal(send_object(1500), TUTTI_OK);
    assert_int_equal(next_sends(&machine, TT_OBJECT_FRAME_OFFER, 1, 0)->body.offer.size_bytes, 1500);
    no_more(&machine);
    machine_ready(&machine, 1, 0, 0);
    next_puts(1, 0, 0, 1000);
    no_more(&machine);
    machine_put_done(&machine, 1, 0, TUTTI_OK);
    no_more(&machine);
    machine_ready(&machine, 1, 0, 1);
    next_puts(1, 0, 1, 500); /* the short last one */
    no_more(&machine);
    machine_put_done(&machine, 1, 0, TUTTI_OK);
    next_is(&machine, TT_OBJECT_DO_COMPLETE, 0, 0);
    no_more(&machine);
}

static void a_receiver_gets_memory_tells_places_and_completes(void **state)
{
    const struct tt_object_frame *ready;

    (void)state;
    machine_init(&machine, TT_RDMC_CHAIN, 1, 2, 1);
    machine_offer(&machine, 0, 0, 1500);
    assert_int_equal(next_is(&machine, TT_OBJECT_DO_INCOMING, 1, 0)->body.incoming.size_bytes, 1500);
    no_more(&machine);
    machine_gives_memory(&machine, 0);
    ready = next_sends(&machine, TT_OBJECT_FRAME_READY, 0, 0);
    assert_int_equal(ready->body.ready.block, 0);
    assert_true(ready->body.ready.immediate == machine_immediate(0, 0));
    no_more(&machine);
    machine_block_comes(&machine, 0, 0);
    ready = next_sends(&machine, TT_OBJECT_FRAME_READY, 0, 0);
    assert_int_equal(ready->body.ready.block, 1);
    assert_int_equal(ready->body.ready.address, MACHINE_BLOCK); /* the surroundings add the memory's */
    no_more(&machine);
    machine_block_comes(&machine, 0, 1);
    next_is(&machine, TT_OBJECT_DO_COMPLETE, 1, 0);
    next_sends(&machine, TT_OBJECT_FRAME_REACHED, 0, 1);
    no_more(&machine);
}

static void a_relay_completes_when_it_has_passed_on_what_it_has(void **state)
{
    (void)state;
    machine_init(&machine, TT_RDMC_CHAIN, 1, 3, 1);
    machine_offer(&machine, 0, 0, 1);
    next_is(&machine, TT_OBJECT_DO_INCOMING, 1, 0);
    machine_ready(&machine, 2, 0, 0); /* before the block is here */
    no_more(&machine);
    machine_gives_memory(&machine, 0);
    next_grants(&machine, 0, 0, 0);
    machine_block_comes(&machine, 0, 0);
    next_puts(2, 0, 0, 1);
    no_more(&machine);
    machine_put_done(&machine, 2, 0, TUTTI_OK);
    next_is(&machine, TT_OBJECT_DO_COMPLETE, 1, 0);
    next_sends(&machine, TT_OBJECT_FRAME_REACHED, 0, 1);
    no_more(&machine);
}

static void with_credit_for_two_a_second_block_waits_behind_the_first(void **state)
{
    (void)state;
    machine_init(&machine, TT_RDMC_CHAIN, 1, 2, 2);
    machine_offer(&machine, 0, 0, 3000);
    next_is(&machine, TT_OBJECT_DO_INCOMING, 1, 0);
    machine_gives_memory(&machine, 0);
    next_grants(&machine, 0, 0, 0);
    next_grants(&machine, 0, 0, 1);
    no_more(&machine);
    machine_block_comes(&machine, 0, 0);
    next_grants(&machine, 0, 0, 2);
    no_more(&machine);

    machine_init(&machine, TT_RDMC_CHAIN, 0, 2, 2);
    (void)send_object(3000);
    next_sends(&machine, TT_OBJECT_FRAME_OFFER, 1, 0);
    machine_ready(&machine, 1, 0, 0);
    next_puts(1, 0, 0, 1000);
    machine_ready(&machine, 1, 0, 1);
    next_puts(1, 0, 1, 1000);
    machine_put_done(&machine, 1, 0, TUTTI_OK);
    no_more(&machine);
}

/* Four members: 0 sends to 1 at step 0 and to 2 at step 1, when 1 sends to 3. */
static void puts_to_two_targets_go_one_after_the_other_in_the_plans_order(void **state)
{
    (void)state;
    machine_init(&machine, TT_RDMC_BINOMIAL_PIPELINE, 0, 4, 2);
    (void)send_object(2000);
    next_sends(&machine, TT_OBJECT_FRAME_OFFER, 1, 0);
    next_sends(&machine, TT_OBJECT_FRAME_OFFER, 2, 0);
    machine_ready(&machine, 2, 0, 1); /* is not the next one */
    no_more(&machine);
    machine_ready(&machine, 1, 0, 0);
    next_puts(1, 0, 0, 1000);
    no_more(&machine);
    machine_put_done(&machine, 1, 0, TUTTI_OK);
    next_puts(2, 0, 1, 1000);
    no_more(&machine);
}

static void one_neighbour_at_a_time_has_leave_to_put(void **state)
{
    (void)state;
    machine_init(&machine, TT_RDMC_BINOMIAL_PIPELINE, 2, 4, 2);
    machine_offer(&machine, 0, 0, 2000);
    next_sends(&machine, TT_OBJECT_FRAME_OFFER, 3, 0);
    next_is(&machine, TT_OBJECT_DO_INCOMING, 2, 0);
    machine_gives_memory(&machine, 0);
    next_grants(&machine, 0, 0, 1); /* at step 1; block 0 comes from 3 at step 2 */
    no_more(&machine);
    machine_block_comes(&machine, 0, 1);
    next_grants(&machine, 3, 0, 0);
    no_more(&machine);
}

static void objects_beyond_4_gib_have_their_offsets(void **state)
{
    const uint64_t block = UINT64_C(5000000), size = block * MACHINE_BLOCK + 7;

    (void)state;
    machine_init(&machine, TT_RDMC_CHAIN, 0, 2, 1);
    assert_int_equal(send_object(size), TUTTI_OK);
    assert_true(next_sends(&machine, TT_OBJECT_FRAME_OFFER, 1, 0)->body.offer.size_bytes == size);
    for (uint64_t at = 0; at <= block; at++) {
        machine_ready(&machine, 1, 0, at);
        next_puts(1, 0, at, at < block ? MACHINE_BLOCK : 7);
        machine_put_done(&machine, 1, 0, TUTTI_OK);
    }
    next_is(&machine, TT_OBJECT_DO_COMPLETE, 0, 0);
    no_more(&machine);
}

static void immediates_that_nobody_waits_for_change_nothing(void **state)
{
    (void)state;
    machine_init(&machine, TT_RDMC_CHAIN, 1, 2, 1);
    machine_block_comes(&machine, 0, 0); /* before the offer */
    machine_offer(&machine, 0, 0, 3000);
    next_is(&machine, TT_OBJECT_DO_INCOMING, 1, 0);
    machine_gives_memory(&machine, 0);
    next_grants(&machine, 0, 0, 0);
    machine_block_comes(&machine, 0, 1); /* not granted */
    machine_block_comes(&machine, 1, 0); /* another object */
    machine_block_comes(&machine, 0, 0);
    next_grants(&machine, 0, 0, 1);
    machine_block_comes(&machine, 0, 0);       /* again */
    machine_block_comes(&machine, 0, 1 << 20); /* out of range */
    (void)machine_step(&machine, (struct tt_object_event){.type = TT_OBJECT_IMMEDIATE, .immediate = 1}); /* foreign */
    no_more(&machine);
    assert_int_equal(machine.group.drops, 6);
}

static void memory_is_asked_for_two_objects_ahead(void **state)
{
    (void)state;
    machine_init(&machine, TT_RDMC_CHAIN, 1, 2, 1);
    machine_offer(&machine, 0, 0, 1);
    next_is(&machine, TT_OBJECT_DO_INCOMING, 1, 0);
    machine_offer(&machine, 0, 1, 0);
    next_is(&machine, TT_OBJECT_DO_INCOMING, 1, 1);
    machine_offer(&machine, 0, 2, 1);
    no_more(&machine);
    machine_gives_memory(&machine, 1); /* in any order */
    no_more(&machine);
    machine_gives_memory(&machine, 0);
    next_grants(&machine, 0, 0, 0);
    no_more(&machine); /* one credit */
    machine_block_comes(&machine, 0, 0);
    next_grants(&machine, 0, 1, 0);
    next_is(&machine, TT_OBJECT_DO_COMPLETE, 1, 0);
    next_is(&machine, TT_OBJECT_DO_INCOMING, 1, 2);
    next_sends(&machine, TT_OBJECT_FRAME_REACHED, 0, 1);
    no_more(&machine);
}

static void a_full_queue_refuses_until_everybody_has_the_oldest_object(void **state)
{
    (void)state;
    machine_init(&machine, TT_RDMC_CHAIN, 0, 2, 1);
    for (uint64_t i = 0; i < MACHINE_OBJECTS; i++) {
        assert_int_equal(send_object(0), TUTTI_OK);
        next_sends(&machine, TT_OBJECT_FRAME_OFFER, 1, i);
    }
    assert_int_equal(send_object(0), TUTTI_ERR_BUSY);
    machine_ready(&machine, 1, 0, 0);
    next_puts(1, 0, 0, 0);
    machine_put_done(&machine, 1, 0, TUTTI_OK);
    next_is(&machine, TT_OBJECT_DO_COMPLETE, 0, 0);
    assert_int_equal(send_object(0), TUTTI_ERR_BUSY); /* sent, and not yet known to be there */
    machine_says(&machine, TT_OBJECT_FRAME_REACHED, 1, 1);
    assert_int_equal(send_object(0), TUTTI_OK);
    next_sends(&machine, TT_OBJECT_FRAME_OFFER, 1, MACHINE_OBJECTS);
    no_more(&machine);
}

static void what_cannot_be_sent_is_refused(void **state)
{
    (void)state;
    machine_init(&machine, TT_RDMC_CHAIN, 1, 2, 1);
    assert_int_equal(send_object(1), TUTTI_ERR_INVALID_ARGUMENT);
    machine_init(&machine, TT_RDMC_CHAIN, 0, 2, 1);
    assert_int_equal(send_object(TT_RDMC_MOST_BLOCKS * MACHINE_BLOCK + 1), TUTTI_ERR_TOO_LARGE);
    assert_int_equal(close_group(), TUTTI_OK);
    next_sends(&machine, TT_OBJECT_FRAME_END, 1, 0);
    next_sends(&machine, TT_OBJECT_FRAME_BARRIER, 1, 0);
    assert_int_equal(send_object(1), TUTTI_ERR_INVALID_ARGUMENT);
    assert_int_equal(close_group(), TUTTI_ERR_INVALID_ARGUMENT);
    no_more(&machine);
}

static void a_member_alone_completes_and_closes_at_once(void **state)
{
    (void)state;
    machine_init(&machine, TT_RDMC_BINOMIAL_PIPELINE, 0, 1, 1);
    assert_int_equal(send_object(12345), TUTTI_OK);
    next_is(&machine, TT_OBJECT_DO_COMPLETE, 0, 0);
    assert_int_equal(close_group(), TUTTI_OK);
    next_ends(&machine, TT_OBJECT_DO_FINISH, TUTTI_OK, TT_OBJECT_NO_MEMBER);
    no_more(&machine);
}

static void closing_waits_for_the_end_the_objects_and_the_barrier(void **state)
{
    (void)state;
    machine_init(&machine, TT_RDMC_CHAIN, 2, 3, 1);
    machine_offer(&machine, 0, 0, 0);
    next_is(&machine, TT_OBJECT_DO_INCOMING, 2, 0);
    (void)close_group();
    next_sends(&machine, TT_OBJECT_FRAME_CLOSING, 0, 1);
    machine_says(&machine, TT_OBJECT_FRAME_END, 0, 1);
    no_more(&machine);
    machine_gives_memory(&machine, 0);
    next_grants(&machine, 1, 0, 0);
    machine_block_comes(&machine, 0, 0);
    next_is(&machine, TT_OBJECT_DO_COMPLETE, 2, 0);
    next_sends(&machine, TT_OBJECT_FRAME_REACHED, 0, 1);
    next_sends(&machine, TT_OBJECT_FRAME_BARRIER, 0, 1);
    no_more(&machine);
    machine_frame(&machine, (struct tt_object_frame){
                                .type = TT_OBJECT_FRAME_BARRIER, .source = 0, .sequence = 1, .body.barrier.round = 1});
    no_more(&machine); /* round 0 first */
    machine_says(&machine, TT_OBJECT_FRAME_BARRIER, 1, 1);
    next_sends(&machine, TT_OBJECT_FRAME_BARRIER, 1, 1);
    next_sends(&machine, TT_OBJECT_FRAME_BYE, 0, 1);
    next_sends(&machine, TT_OBJECT_FRAME_BYE, 1, 1);
    next_ends(&machine, TT_OBJECT_DO_FINISH, TUTTI_OK, TT_OBJECT_NO_MEMBER);
    no_more(&machine);
    machine_peer_down(&machine, 0);
    no_more(&machine);
}

static bool contains(const uint32_t *members, uint32_t count, uint32_t member)
{
    for (uint32_t i = 0; i < count; i++) {
        if (members[i] == member) {
            return true;
        }
    }
    return false;
}

static void check_neighbours(const struct tt_object_config *config, uint64_t blocks)
{
    uint32_t members[128], count = tt_object_neighbours(config, members);
    struct tt_rdmc plan;
    struct tt_rdmc_transfer transfer;

    assert_true(
        tt_rdmc_init(&plan, config->algorithm, config->member_count, blocks, config->rack_firsts, config->rack_count));
    for (uint32_t i = 1; i < count; i++) {
        assert_true(members[i - 1] < members[i]);
    }
    for (uint64_t step = 0; step < plan.step_count; step++) {
        for (unsigned lane = 0; lane < TT_RDMC_LANE_COUNT; lane++) {
            if (tt_rdmc_send(&plan, config->member, (enum tt_rdmc_lane)lane, step, &transfer)) {
                assert_true(contains(members, count, transfer.peer));
            }
        }
        if (tt_rdmc_receive(&plan, config->member, step, &transfer)) {
            assert_true(contains(members, count, transfer.peer));
        }
    }
}

static void every_transfer_of_every_plan_is_between_neighbours(void **state)
{
    static const uint32_t racks[] = {0, 3, 4, 11, 24};

    (void)state;
    for (unsigned algorithm = 0; algorithm < TT_RDMC_ALGORITHM_COUNT; algorithm++) {
        for (uint32_t n = 1; n <= 70; n++) {
            for (uint32_t member = 0; member < n; member++) {
                struct tt_object_config config = {
                    .member = member, .member_count = n, .algorithm = (enum tt_rdmc_algorithm)algorithm};

                if (algorithm == TT_RDMC_HYBRID) {
                    config.rack_firsts = racks;
                    while (config.rack_count < 5 && racks[config.rack_count] < n) {
                        config.rack_count++;
                    }
                }
                for (uint64_t blocks = 1; blocks <= 40; blocks += blocks < 4 ? 1 : 12) {
                    check_neighbours(&config, blocks);
                }
            }
        }
    }
}

static void neighbours_are_so_to_each_other(void **state)
{
    (void)state;
    for (uint32_t n = 2; n <= 70; n++) {
        uint32_t counts[70], members[70][128];

        for (uint32_t member = 0; member < n; member++) {
            struct tt_object_config config = {
                .member = member, .member_count = n, .algorithm = TT_RDMC_BINOMIAL_PIPELINE};

            counts[member] = tt_object_neighbours(&config, members[member]);
        }
        for (uint32_t member = 0; member < n; member++) {
            for (uint32_t i = 0; i < counts[member]; i++) {
                assert_int_not_equal(members[member][i], member);
                assert_true(contains(members[members[member][i]], counts[members[member][i]], member));
            }
        }
    }
}

/* A group that is not closed: who is through says so, and that its connection ends afterwards is no failure. */
static void members_that_may_leave_say_bye_without_a_close(void **state)
{
    (void)state;
    machine_init(&machine, TT_RDMC_CHAIN, 1, 3, 1);
    machine.group.config.may_leave = true;
    machine_says(&machine, TT_OBJECT_FRAME_BYE, 2, 0);
    no_more(&machine);
    machine_peer_down(&machine, 2);
    no_more(&machine);
    assert_int_equal(machine.group.status, TUTTI_OK);
    assert_int_equal(machine_step(&machine, (struct tt_object_event){.type = TT_OBJECT_LEAVE}), TUTTI_OK);
    next_sends(&machine, TT_OBJECT_FRAME_BYE, 0, 0);
    next_ends(&machine, TT_OBJECT_DO_FINISH, TUTTI_OK, TT_OBJECT_NO_MEMBER);
    no_more(&machine);
}

static void without_a_block_size_each_objects_follows_from_its_own(void **state)
{
    uint64_t bytes = UINT64_C(64) << 20;

    (void)state;
    machine_init(&machine, TT_RDMC_CHAIN, 1, 8, 1);
    machine.group.config.block_bytes = 0;
    for (uint64_t sequence = 0; sequence < 2; sequence++) {
        machine_offer(&machine, 0, sequence, bytes >> (6 * sequence));
        next_is(&machine, TT_OBJECT_DO_INCOMING, 1, sequence);
    }
    assert_int_equal(machine.objects[0].block_bytes, tt_rdmc_block_bytes(TT_RDMC_CHAIN, 8, bytes));
    assert_int_equal(machine.objects[1].block_bytes, tt_rdmc_block_bytes(TT_RDMC_CHAIN, 8, bytes >> 6));
    assert_int_not_equal(machine.objects[0].block_bytes, machine.objects[1].block_bytes);
    assert_int_equal(machine.objects[0].plan.block_count, bytes / machine.objects[0].block_bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sender_puts_a_block_when_its_target_is_ready_for_it),
        cmocka_unit_test(a_receiver_gets_memory_tells_places_and_completes),
        cmocka_unit_test(a_relay_completes_when_it_has_passed_on_what_it_has),
        cmocka_unit_test(with_credit_for_two_a_second_block_waits_behind_the_first),
        cmocka_unit_test(puts_to_two_targets_go_one_after_the_other_in_the_plans_order),
        cmocka_unit_test(one_neighbour_at_a_time_has_leave_to_put),
        cmocka_unit_test(objects_beyond_4_gib_have_their_offsets),
        cmocka_unit_test(immediates_that_nobody_waits_for_change_nothing),
        cmocka_unit_test(memory_is_asked_for_two_objects_ahead),
        cmocka_unit_test(a_full_queue_refuses_until_everybody_has_the_oldest_object),
        cmocka_unit_test(what_cannot_be_sent_is_refused),
        cmocka_unit_test(a_member_alone_completes_and_closes_at_once),
        cmocka_unit_test(closing_waits_for_the_end_the_objects_and_the_barrier),
        cmocka_unit_test(every_transfer_of_every_plan_is_between_neighbours),
        cmocka_unit_test(neighbours_are_so_to_each_other),
        cmocka_unit_test(members_that_may_leave_say_bye_without_a_close),
        cmocka_unit_test(without_a_block_size_each_objects_follows_from_its_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
