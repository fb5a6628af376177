/* SPDX-License-Identifier: BSD-3-Clause */
/* The send side of a queue of the verbs mcast provider. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/log.h"
#include "rdma_loaded.h"
#include "verbs_world.h"

static void complete_send(uint32_t count_before, enum ibv_wc_status status)
{
    fake.completions[0][fake.completion_count[0]++] = (struct ibv_wc){.wr_id = count_before, .status = status};
}

static uint32_t post(uint32_t first, uint32_t count, uint32_t length_bytes, const struct tt_mcast_memory *memory)
{
    static uint8_t bytes[CHUNK_BYTES];
    struct tt_send_chunk chunks[600];
    for (uint32_t i = 0; i < count; i++) {
        chunks[i] =
            (struct tt_send_chunk){.imm = first + i, .length_bytes = length_bytes, .address = bytes, .memory = memory};
    }
    return tt_verbs_mcast_post(&world.queue.base, chunks, count);
}

static void short_chunks_travel_in_the_request_and_others_from_registered_memory_or_a_copy(void **state)
{
    static uint8_t bytes[CHUNK_BYTES] = "as it was";
    struct ibv_mr region = {.lkey = 5};
    struct tt_verbs_memory memory = {.region = &region};
    const struct tt_send_chunk chunks[] = {
        {.imm = 0xA1, .length_bytes = INLINE_BYTES, .address = bytes},
        {.imm = 0xA2, .length_bytes = INLINE_BYTES, .address = bytes, .memory = &memory.base},
        {.imm = 0xA3, .length_bytes = CHUNK_BYTES, .address = bytes, .memory = &memory.base},
        {.imm = 0xA4, .length_bytes = CHUNK_BYTES, .address = bytes},
        {.imm = 0xA5, .length_bytes = 0, .address = NULL}};
    (void)state;
    assert_int_equal(tt_verbs_mcast_post(&world.queue.base, chunks, 5), 5);
    assert_int_equal(fake.lists, 1);
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(fake.sends[i].imm, chunks[i].imm);
        assert_int_equal(fake.sends[i].length_bytes, chunks[i].length_bytes);
        assert_int_equal(fake.sends[i].id, i + 1);
    }
    assert_int_equal(fake.sends[0].flags, IBV_SEND_INLINE);
    assert_int_equal(fake.sends[1].flags, IBV_SEND_INLINE);
    assert_int_equal(fake.sends[2].flags, 0);
    assert_ptr_equal(fake.sends[2].address, bytes);
    assert_int_equal(fake.sends[2].lkey, 5);
    assert_int_equal(fake.sends[3].lkey, 77);
    assert_ptr_equal(fake.sends[3].address, world.copies + 3 * CHUNK_BYTES);
    assert_memory_equal(fake.sends[3].address, "as it was", 10);
    assert_true(fake.sends[4].flags & IBV_SEND_SIGNALED);
}

static void only_the_last_of_a_list_is_signalled(void **state)
{
    (void)state;
    assert_int_equal(post(0, 150, 100, NULL), 150);
    assert_int_equal(fake.lists, 3);
    assert_int_equal(fake.longest_list, TT_VERBS_SEND_BATCH);
    for (uint32_t i = 0; i < 150; i++) {
        const bool last = i == 63 || i == 127 || i == 149;
        assert_int_equal((fake.sends[i].flags & IBV_SEND_SIGNALED) != 0, last);
        assert_int_equal(fake.sends[i].imm, i);
    }
}

static void full_queue_takes_fewer_and_is_armed_once(void **state)
{
    (void)state;
    assert_int_equal(post(0, 300, 100, NULL), TT_VERBS_SEND_DEPTH);
    assert_int_equal(fake.notifies[0], 1);
    assert_int_equal(post(256, 44, 100, NULL), 0);
    assert_int_equal(fake.notifies[0], 1); /* it stands */
    assert_int_equal(tt_verbs_mcast_sent(&world.queue.base), 0);
    assert_int_equal(fake.notifies[0], 1);
    complete_send(64, IBV_WC_SUCCESS);
    fake.events[0] = 1;
    assert_int_equal(post(256, 44, 100, NULL), 44);
    assert_int_equal(fake.send_count, 300);
    assert_int_equal(tt_verbs_mcast_sent(&world.queue.base), 64);
    assert_int_equal(fake.events[0], 0); /* taken when it was armed again */
    assert_int_equal(fake.notifies[0], 2);
    complete_send(128, IBV_WC_SUCCESS);
    complete_send(192, IBV_WC_SUCCESS);
    complete_send(256, IBV_WC_SUCCESS);
    complete_send(300, IBV_WC_SUCCESS);
    assert_int_equal(tt_verbs_mcast_sent(&world.queue.base), 300);
    assert_int_equal(fake.notifies[0], 2); /* nothing more to wait for */
}

static void complete_meanwhile(void)
{
    complete_send(64, IBV_WC_SUCCESS);
}

static void completion_that_comes_while_arming_is_not_missed(void **state)
{
    (void)state;
    assert_int_equal(post(0, 64, 100, NULL), 64);
    fake.between = complete_meanwhile;
    assert_int_equal(tt_verbs_mcast_sent(&world.queue.base), 64);
}

static void counts_go_on_where_32_bits_wrap(void **state)
{
    (void)state;
    world.queue.sender.accepted = world.queue.sender.completed = UINT32_MAX - 9;
    assert_int_equal(post(0, 20, 100, NULL), 20);
    assert_int_equal(tt_verbs_mcast_sent(&world.queue.base), UINT32_MAX - 9);
    complete_send(10, IBV_WC_SUCCESS);
    assert_int_equal(tt_verbs_mcast_sent(&world.queue.base), 10);
}

static void refused_list_breaks_the_queue_and_everything_is_lost_but_complete(void **state)
{
    (void)state;
    fake.refuse_from = 3;
    assert_int_equal(post(0, 10, 100, NULL), 10);
    assert_int_equal(fake.modified, 1);
    assert_int_equal(world.queue.sender.errors, 7);
    assert_int_equal(world.queue.sender.datagrams, 3);
    complete_send(1, IBV_WC_WR_FLUSH_ERR);
    complete_send(2, IBV_WC_WR_FLUSH_ERR);
    complete_send(3, IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(tt_verbs_mcast_sent(&world.queue.base), 10);
    assert_int_equal(post(10, 5, 100, NULL), 5);
    assert_int_equal(fake.send_count, 3);
    assert_int_equal(tt_verbs_mcast_sent(&world.queue.base), 15);
    assert_int_equal(fake.modified, 1);
}

/* The device may still read those of an earlier transmission. */
static void what_a_broken_queue_takes_does_not_complete_what_was_posted_before(void **state)
{
    (void)state;
    assert_int_equal(post(0, 64, 100, NULL), 64);
    complete_send(10, IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(tt_verbs_mcast_sent(&world.queue.base), 10);
    assert_int_equal(fake.modified, 1);
    assert_int_equal(post(64, 64, 100, NULL), 64);
    assert_int_equal(tt_verbs_mcast_sent(&world.queue.base), 10);
    complete_send(64, IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(tt_verbs_mcast_sent(&world.queue.base), 128);
}

static void everything_is_lost_but_complete_where_completions_cannot_be_polled(void **state)
{
    (void)state;
    assert_int_equal(post(0, 100, 100, NULL), 100);
    complete_send(64, IBV_WC_SUCCESS);
    assert_int_equal(tt_verbs_mcast_sent(&world.queue.base), 64);
    fake.polls_fail = true;
    assert_int_equal(tt_verbs_mcast_sent(&world.queue.base), 100);
    assert_int_equal(fake.modified, 1);
    assert_int_equal(world.queue.sender.errors, 36);
    assert_int_equal(post(100, 5, 100, NULL), 5);
    assert_int_equal(tt_verbs_mcast_sent(&world.queue.base), 105);
    assert_int_equal(fake.send_count, 100);
}

/* Nor does it say that anything is wrong; the look that finds that out is the first one in five seconds. */
static void device_that_never_completes_is_given_up_after_five_seconds(void **state)
{
    (void)state;
    assert_int_equal(post(0, 100, 100, NULL), 100);
    complete_send(64, IBV_WC_SUCCESS);
    assert_int_equal(tt_verbs_mcast_sent(&world.queue.base), 64);
    assert_true(world.queue.sender.silent_since_ns > 0);
    world.queue.sender.silent_since_ns -= 4 * TT_NS_PER_S;
    assert_int_equal(tt_verbs_mcast_sent(&world.queue.base), 64);
    assert_int_equal(fake.modified, 0);
    world.queue.sender.silent_since_ns -= TT_NS_PER_S;
    assert_int_equal(tt_verbs_mcast_sent(&world.queue.base), 100);
    assert_int_equal(fake.modified, 1);
    assert_int_equal(world.queue.sender.errors, 36);
    complete_send(100, IBV_WC_WR_FLUSH_ERR); /* too late */
    assert_int_equal(post(100, 5, 100, NULL), 5);
    assert_int_equal(tt_verbs_mcast_sent(&world.queue.base), 105);
    assert_int_equal(fake.send_count, 100);
    assert_int_equal(world.queue.sender.errors, 41);
}

static void full_queue_of_a_silent_device_is_given_up_too(void **state)
{
    (void)state;
    assert_int_equal(post(0, 300, 100, NULL), TT_VERBS_SEND_DEPTH);
    world.queue.sender.silent_since_ns -= 5 * TT_NS_PER_S;
    assert_int_equal(post(256, 44, 100, NULL), 0);
    assert_int_equal(post(256, 44, 100, NULL), 44);
    assert_int_equal(tt_verbs_mcast_sent(&world.queue.base), 300);
    assert_int_equal(fake.modified, 1);
}

static void completion_ends_a_silence(void **state)
{
    (void)state;
    assert_int_equal(post(0, 128, 100, NULL), 128);
    assert_int_equal(tt_verbs_mcast_sent(&world.queue.base), 0);
    world.queue.sender.silent_since_ns -= 4 * TT_NS_PER_S;
    complete_send(64, IBV_WC_SUCCESS);
    assert_int_equal(tt_verbs_mcast_sent(&world.queue.base), 64);
    world.queue.sender.silent_since_ns -= 4 * TT_NS_PER_S;
    assert_int_equal(tt_verbs_mcast_sent(&world.queue.base), 64);
    assert_int_equal(fake.modified, 0);
}

/* Who leaves waits for what it has sent, but once, and not for ever. */
static void what_a_silent_device_keeps_is_written_off_when_the_queue_is_drained(void **state)
{
    struct tt_mcast_queue *queue = &world.queue.base;

    (void)state;
    assert_int_equal(post(0, 20, 100, NULL), 20);
    complete_send(20, IBV_WC_SUCCESS);
    tt_verbs_mcast_drain(queue);
    assert_int_equal(fake.modified, 0);
    assert_int_equal(tt_verbs_mcast_sent(queue), 20);

    assert_int_equal(post(20, 10, 100, NULL), 10);
    tt_verbs_mcast_drain(queue);
    assert_int_equal(fake.modified, 1); /* into the error state, where it would complete all */
    uint32_t polls = fake.polls;
    tt_verbs_mcast_drain(queue);
    assert_int_equal(tt_verbs_mcast_sent(queue), 30);
    assert_int_equal(fake.polls, polls);
    assert_int_equal(atomic_load(&world.queue.sender.errors), 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(short_chunks_travel_in_the_request_and_others_from_registered_memory_or_a_copy,
                               verbs_set_up),
        cmocka_unit_test_setup(only_the_last_of_a_list_is_signalled, verbs_set_up),
        cmocka_unit_test_setup(full_queue_takes_fewer_and_is_armed_once, verbs_set_up),
        cmocka_unit_test_setup(completion_that_comes_while_arming_is_not_missed, verbs_set_up),
        cmocka_unit_test_setup(counts_go_on_where_32_bits_wrap, verbs_set_up),
        cmocka_unit_test_setup(refused_list_breaks_the_queue_and_everything_is_lost_but_complete, verbs_set_up),
        cmocka_unit_test_setup(what_a_broken_queue_takes_does_not_complete_what_was_posted_before, verbs_set_up),
        cmocka_unit_test_setup(everything_is_lost_but_complete_where_completions_cannot_be_polled, verbs_set_up),
        cmocka_unit_test_setup(device_that_never_completes_is_given_up_after_five_seconds, verbs_set_up),
        cmocka_unit_test_setup(full_queue_of_a_silent_device_is_given_up_too, verbs_set_up),
        cmocka_unit_test_setup(completion_ends_a_silence, verbs_set_up),
        cmocka_unit_test_setup(what_a_silent_device_keeps_is_written_off_when_the_queue_is_drained, verbs_set_up),
    };

    return cmocka_run_group_tests(tests, rdma_load, NULL);
}
