/* SPDX-License-Identifier: BSD-3-Clause */
/* The receive side of a queue of the verbs mcast provider. */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "rdma_loaded.h"
#include "verbs_world.h"

static struct ibv_wc *arrive(uint32_t slot, uint32_t address_be, uint32_t queue_pair, uint32_t imm,
                             uint32_t length_bytes)
{
    struct ibv_wc *completion = &fake.completions[1][fake.completion_count[1]++];
    uint8_t *base = world.staging + (size_t)slot * world.mcast.slot_bytes;
    memcpy(base + TT_VERBS_SLOT_HEAD_BYTES - TT_VERBS_NETWORK_HEADER_BYTES + 20 + 12, &address_be, sizeof address_be);
    base[TT_VERBS_SLOT_HEAD_BYTES] = (uint8_t)imm;
    *completion = (struct ibv_wc){.wr_id = slot,
                                  .status = IBV_WC_SUCCESS,
                                  .byte_len = length_bytes + TT_VERBS_NETWORK_HEADER_BYTES,
                                  .src_qp = queue_pair,
                                  .imm_data = htonl(imm),
                                  .wc_flags = IBV_WC_GRH | IBV_WC_WITH_IMM};
    return completion;
}

static uint32_t poll_all(void)
{
    return tt_verbs_mcast_poll(&world.queue.base, world.chunks, SLOTS);
}

static void chunk_of_a_member_is_handed_out_with_its_rank_where_it_landed(void **state)
{
    (void)state;
    arrive(9, OTHER_ADDRESS, 0x11, 0x12345678, CHUNK_BYTES);
    assert_int_equal(poll_all(), 1);
    assert_int_equal(world.chunks[0].source, OTHER_RANK);
    assert_int_equal(world.chunks[0].imm, 0x12345678);
    assert_int_equal(world.chunks[0].length_bytes, CHUNK_BYTES);
    assert_ptr_equal(world.chunks[0].address, world.staging + 9 * world.mcast.slot_bytes + TT_VERBS_SLOT_HEAD_BYTES);
    assert_int_equal(fake.receive_count, 0);
    tt_verbs_mcast_repost(&world.queue.base, world.chunks, 1);
    assert_int_equal(fake.receive_count, 1);
    assert_int_equal(fake.receives[0], 9);
}

static void strangers_own_and_longer_datagrams_are_counted_and_their_slots_posted_again(void **state)
{
    const struct tt_verbs_receiver *receiver = &world.queue.receiver;
    (void)state;
    arrive(0, STRANGER_ADDRESS, 0x11, 1, 10);
    arrive(1, OTHER_ADDRESS, 0x99, 1, 10);
    arrive(2, OWN_ADDRESS, 0x12, 1, 10);
    arrive(3, OTHER_ADDRESS, 0x11, 1, CHUNK_BYTES + 1);
    arrive(4, OTHER_ADDRESS, 0x11, 1, 10)->wc_flags = IBV_WC_GRH;
    arrive(5, OTHER_ADDRESS, 0x11, 1, 10)->wc_flags = IBV_WC_WITH_IMM;
    arrive(6, OTHER_ADDRESS, 0x11, 2, 0);
    assert_int_equal(poll_all(), 1);
    assert_int_equal(world.chunks[0].imm, 2);
    assert_int_equal(world.chunks[0].length_bytes, 0);
    assert_int_equal(receiver->drops_key, 4);
    assert_int_equal(receiver->drops_own, 1);
    assert_int_equal(receiver->drops_length, 1);
    assert_int_equal(fake.receive_count, 6);
    assert_int_equal(fake.receive_lists, 1);
    for (uint32_t i = 0; i < 6; i++) {
        assert_int_equal(fake.receives[i], i);
    }
}

static void gid_of_the_global_routing_header_counts_where_the_network_is_not_ipv4(void **state)
{
    uint8_t *header = world.staging + TT_VERBS_SLOT_HEAD_BYTES - TT_VERBS_NETWORK_HEADER_BYTES;
    uint64_t gid[2] = {0x1111, 0x2222};
    uint32_t nobody;
    (void)state;
    world.device.gid_is_ipv4 = false;
    struct tt_verbs_sources *sources = tt_verbs_sources_init(world.table, 2);
    assert_true(tt_verbs_sources_add(sources, &(struct tt_verbs_source){{gid[0], gid[1]}, 0x11, 7}, &nobody));
    arrive(0, 0, 0x11, 3, 10);
    memcpy(header + 8, gid, sizeof gid);
    assert_int_equal(poll_all(), 1);
    assert_int_equal(world.chunks[0].source, 7);
}

static void nothing_comes_before_the_introduction(void **state)
{
    (void)state;
    struct tt_verbs_sources *sources = atomic_exchange(&world.queue.receiver.sources, NULL);
    arrive(0, OTHER_ADDRESS, 0x11, 3, 10);
    assert_int_equal(poll_all(), 0);
    assert_int_equal(fake.completion_count[1], 1);
    atomic_store(&world.queue.receiver.sources, sources);
    assert_int_equal(poll_all(), 1);
}

/* An event is asked for only when completions have come since the last one. */
static void dry_poll_takes_the_event_and_asks_for_the_next(void **state)
{
    (void)state;
    assert_int_equal(poll_all(), 0);
    assert_int_equal(fake.notifies[1], 0); /* the one that attach asked for stands */
    arrive(0, OTHER_ADDRESS, 0x11, 3, 10);
    fake.events[1] = 1;
    assert_int_equal(poll_all(), 1);
    assert_int_equal(fake.events[1], 1); /* readable until a poll was dry */
    tt_verbs_mcast_repost(&world.queue.base, world.chunks, 1);
    assert_int_equal(poll_all(), 0);
    assert_int_equal(fake.events[1], 0);
    assert_int_equal(fake.notifies[1], 1);
    assert_int_equal(poll_all(), 0);
    assert_int_equal(fake.notifies[1], 1);
}

static void arrive_meanwhile(void)
{
    arrive(1, OTHER_ADDRESS, 0x11, 4, 10);
}

static void chunk_that_comes_while_arming_is_handed_out(void **state)
{
    (void)state;
    arrive(0, OTHER_ADDRESS, 0x11, 3, 10);
    fake.events[1] = 1;
    assert_int_equal(poll_all(), 1);
    tt_verbs_mcast_repost(&world.queue.base, world.chunks, 1);
    fake.between = arrive_meanwhile;
    assert_int_equal(poll_all(), 1);
    assert_int_equal(world.chunks[0].imm, 4);
}

/* The device showed the completion first: the late event must not leave the descriptor readable for ever, and may have
 * used up the request that was made meanwhile. */
static void late_event_is_taken_and_another_one_asked_for(void **state)
{
    (void)state;
    arrive(0, OTHER_ADDRESS, 0x11, 3, 10);
    assert_int_equal(poll_all(), 1);
    tt_verbs_mcast_repost(&world.queue.base, world.chunks, 1);
    assert_int_equal(poll_all(), 0);
    assert_int_equal(fake.notifies[1], 1);
    assert_int_equal(poll_all(), 0);
    assert_int_equal(fake.notifies[1], 1);
    fake.events[1] = 1; /* now it comes */
    assert_int_equal(poll_all(), 0);
    assert_int_equal(fake.events[1], 0);
    assert_int_equal(fake.notifies[1], 2);
    assert_int_equal(poll_all(), 0);
    assert_int_equal(fake.notifies[1], 2);
}

static void poll_goes_on_past_foreign_datagrams_but_not_for_ever(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 200; i++) {
        arrive(i, STRANGER_ADDRESS, 0x11, 1, 10);
    }
    arrive(200, OTHER_ADDRESS, 0x11, 2, 10);
    assert_int_equal(tt_verbs_mcast_poll(&world.queue.base, world.chunks, TT_MCAST_POLL_LEAST), 1);
    tt_verbs_mcast_repost(&world.queue.base, world.chunks, 1);
    for (uint32_t i = 0; i < 3 * SLOTS; i++) {
        arrive(i % SLOTS, STRANGER_ADDRESS, 0x11, 1, 10);
    }
    assert_int_equal(tt_verbs_mcast_poll(&world.queue.base, world.chunks, TT_MCAST_POLL_LEAST), 0);
    assert_true(fake.completion_count[1] > 0);
}

static void poll_of_fewer_leaves_the_rest(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 100; i++) {
        arrive(i, OTHER_ADDRESS, 0x11, i, 10);
    }
    assert_int_equal(tt_verbs_mcast_poll(&world.queue.base, world.chunks, 70), 70);
    assert_int_equal(fake.completion_count[1], 30);
    tt_verbs_mcast_repost(&world.queue.base, world.chunks, 70);
    assert_int_equal(fake.receive_count, 70);
    assert_int_equal(fake.receive_lists, 1);
    assert_int_equal(tt_verbs_mcast_poll(&world.queue.base, world.chunks, 70), 30);
    assert_int_equal(world.chunks[29].imm, 99);
}

static void completion_with_an_error_is_no_chunk_and_its_slot_is_not_posted(void **state)
{
    (void)state;
    arrive(0, OTHER_ADDRESS, 0x11, 3, 10)->status = IBV_WC_WR_FLUSH_ERR;
    assert_int_equal(poll_all(), 0);
    assert_int_equal(fake.receive_count, 0);
    assert_int_equal(world.queue.receiver.datagrams, 0);
}

/* --- Events of the device ----------------------------------------------------------------------------------------- */

static void begin_events(enum ibv_event_type type, int port)
{
    snprintf(world.device.name, sizeof world.device.name, "mlx5_0");
    world.device.port = 1;
    world.device.events_of = &fake.context;
    fake.async[0] = (struct ibv_async_event){.element.port_num = port, .event_type = type};
    fake.async_count = 1;
}

/* What the log says meanwhile. */
static const char *poll_in_vain(uint32_t polls)
{
    static char text[4096];
    char directory[] = "/tmp/tutti-test-verbs-XXXXXX", path[64], message[128];

    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/log", directory);
    assert_int_equal(tt_log_configure("warn", path, message, sizeof message), TUTTI_OK);
    for (uint32_t i = 0; i < polls; i++) {
        assert_int_equal(poll_all(), 0);
    }
    assert_int_equal(tt_log_configure("none", NULL, message, sizeof message), TUTTI_OK);
    FILE *log = fopen(path, "re");
    size_t length = log != NULL ? fread(text, 1, sizeof text - 1, log) : 0;
    text[length] = '\0';
    if (log != NULL) {
        fclose(log);
    }
    unlink(path);
    rmdir(directory);
    return text;
}

static void event_that_takes_memberships_is_told_with_its_device_by_who_polls_in_vain(void **state)
{
    static const enum ibv_event_type types[] = {IBV_EVENT_PORT_ERR, IBV_EVENT_CLIENT_REREGISTER, IBV_EVENT_SM_CHANGE,
                                                IBV_EVENT_LID_CHANGE};
    (void)state;
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        verbs_set_up(NULL);
        begin_events(types[i], 1);
        const char *text = poll_in_vain(100);
        assert_int_equal(fake.async_acks, 1);
        assert_non_null(strstr(text, "RDMA device mlx5_0, port 1: "));
        assert_non_null(strstr(text, ibv_event_type_str(types[i])));
    }
}

static void events_are_looked_for_ten_times_a_second_at_most(void **state)
{
    (void)state;
    begin_events(IBV_EVENT_PORT_ERR, 1);
    (void)poll_in_vain(20);
    assert_int_equal(fake.async_reads, 2); /* the event, and that there is no other */
    fake.async_count = 1;
    world.device.events_ns = UINT64_MAX; /* this machine may be slow */
    (void)poll_in_vain(1000);
    assert_int_equal(fake.async_reads, 2);
    world.device.events_ns = 0;
    assert_non_null(strstr(poll_in_vain(20), "mlx5_0"));
    assert_int_equal(fake.async_acks, 2);
}

static void event_of_another_port_is_taken_and_not_told(void **state)
{
    (void)state;
    begin_events(IBV_EVENT_PORT_ERR, 2);
    assert_string_equal(poll_in_vain(20), "");
    assert_int_equal(fake.async_acks, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(chunk_of_a_member_is_handed_out_with_its_rank_where_it_landed, verbs_set_up),
        cmocka_unit_test_setup(strangers_own_and_longer_datagrams_are_counted_and_their_slots_posted_again,
                               verbs_set_up),
        cmocka_unit_test_setup(gid_of_the_global_routing_header_counts_where_the_network_is_not_ipv4, verbs_set_up),
        cmocka_unit_test_setup(nothing_comes_before_the_introduction, verbs_set_up),
        cmocka_unit_test_setup(dry_poll_takes_the_event_and_asks_for_the_next, verbs_set_up),
        cmocka_unit_test_setup(chunk_that_comes_while_arming_is_handed_out, verbs_set_up),
        cmocka_unit_test_setup(late_event_is_taken_and_another_one_asked_for, verbs_set_up),
        cmocka_unit_test_setup(poll_goes_on_past_foreign_datagrams_but_not_for_ever, verbs_set_up),
        cmocka_unit_test_setup(poll_of_fewer_leaves_the_rest, verbs_set_up),
        cmocka_unit_test_setup(completion_with_an_error_is_no_chunk_and_its_slot_is_not_posted, verbs_set_up),
        cmocka_unit_test_setup(event_that_takes_memberships_is_told_with_its_device_by_who_polls_in_vain, verbs_set_up),
        cmocka_unit_test_setup(events_are_looked_for_ten_times_a_second_at_most, verbs_set_up),
        cmocka_unit_test_setup(event_of_another_port_is_taken_and_not_told, verbs_set_up),
    };

    return cmocka_run_group_tests(tests, rdma_load, NULL);
}
