/* SPDX-License-Identifier: BSD-3-Clause */
/* The triggered engine, one step at a time: order, aggregation, what ends a sequence, and units. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "offload_fixture.h"

static struct offload_fixture f;

static int open_with_room(void **state)
{
    (void)state;
    offload_fixture_init(&f, 1, 20);
    offload_fixture_open(&f);
    return 0;
}

static int close_fixture(void **state)
{
    (void)state;
    offload_fixture_close(&f);
    return 0;
}

static enum tt_trigger_kind packet(struct tt_trigger_packet packet, const void *payload)
{
    enum tt_trigger_kind reply = 0;

    assert_int_equal(offload_fixture_packet(&f, &packet, payload, &reply), TUTTI_OK);
    return reply;
}

/* A packet that is the last one that its sequence reads. */
static struct tt_trigger_packet last(struct tt_trigger_packet packet)
{
    packet.collective_end = true;
    return packet;
}

static void packets_are_reduced_in_the_order_of_sources_whatever_order_they_come_in(void **state)
{
    static const uint8_t orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    static const uint32_t sources[3] = {11, 12, 13};

    (void)state;
    for (int order = 0; order < 6; order++) {
        struct tt_descriptor d = {.source_count = 3, .sources = {11, 12, 13}, .reduce = true, .length_bytes = 8};
        int64_t sum = 1000;

        assert_int_equal(offload_fixture_post(&f, 0, &d, 1, &sum, 8, 1), TUTTI_OK);
        for (int i = 0; i < 3; i++) {
            uint8_t which = orders[order][i];
            int64_t operand = INT64_C(1) << which;
            struct tt_trigger_packet p = offload_fixture_data(sources[which], 0, which, 8);

            p.collective_end = which == 2;
            assert_int_equal(packet(p, &operand), TT_TRIGGER_ACCEPTED);
            /* What has been reduced so far is what those before it allow. */
            bool came[3] = {false, false, false};

            for (int j = 0; j <= i; j++) {
                came[orders[order][j]] = true;
            }
            int64_t expected = 1000 + came[0] + (came[0] && came[1] ? 2 : 0) + (came[0] && came[1] && came[2] ? 4 : 0);

            assert_true(sum == expected);
        }
        const struct tt_offload_action *end = offload_fixture_ended(&f, 0);

        assert_true(end != NULL && end->status == TUTTI_OK && end->port == 0 && end->cookie == 1);
    }
    assert_int_equal(tt_offload_counters(f.offload)->read, 18);
}

static void packets_of_other_jobs_nodes_ports_and_steps_do_not_trigger(void **state)
{
    struct tt_descriptor d = {.source_count = 1, .sources = {11}};

    (void)state;
    assert_int_equal(offload_fixture_post(&f, 2, &d, 1, NULL, 0, 1), TUTTI_OK);
    struct tt_trigger_packet right = last(offload_fixture_data(11, 2, 0, 0)), wrong = right;

    wrong.job++;
    assert_int_equal(packet(wrong, NULL), TT_TRIGGER_ACCEPTED);
    assert_null(offload_fixture_ended(&f, 0));
    wrong = right;
    wrong.node++;
    assert_int_equal(packet(wrong, NULL), TT_TRIGGER_ACCEPTED);
    assert_null(offload_fixture_ended(&f, 0));
    wrong = right;
    wrong.port++;
    assert_int_equal(packet(wrong, NULL), TT_TRIGGER_ACCEPTED);
    assert_null(offload_fixture_ended(&f, 0));
    wrong = right;
    wrong.sequence++;
    assert_int_equal(packet(wrong, NULL), TT_TRIGGER_ACCEPTED);
    assert_null(offload_fixture_ended(&f, 0));
    assert_int_equal(packet(right, NULL), TT_TRIGGER_ACCEPTED);
    assert_non_null(offload_fixture_ended(&f, 0));
}

static void early_packets_wait_for_a_sequence_that_is_not_posted_yet(void **state)
{
    struct tt_descriptor d[2] = {{.source_count = 1, .sources = {11}, .swap_local_data = true, .length_bytes = 4},
                                 {.triggers = true, .destination_node = 12, .length_bytes = 4}};
    char data[4] = "old", came[4] = "new";
    struct tt_offload_use use;

    (void)state;
    assert_int_equal(packet(offload_fixture_data(11, 0, 0, 4), came), TT_TRIGGER_ACCEPTED);
    memset(came, 0, sizeof came); /* it was kept, not remembered */
    tt_offload_use(f.offload, 0, &use);
    assert_true(use.used == 1 && use.ports == 1);
    assert_int_equal(offload_fixture_post(&f, 0, d, 2, data, 4, 1), TUTTI_OK);
    assert_string_equal(data, "new");
    const struct tt_offload_action *sent = offload_fixture_sent(&f, 0);

    assert_true(sent != NULL && sent->payload == data && sent->node == 12);
    tt_offload_use(f.offload, 0, &use);
    assert_int_equal(use.used, 0);
    assert_null(offload_fixture_ended(&f, 0));
    assert_int_equal(offload_fixture_answer(&f, sent, TT_TRIGGER_ACCEPTED), TUTTI_OK);
    assert_non_null(offload_fixture_ended(&f, 0));
    tt_offload_use(f.offload, 0, &use);
    assert_int_equal(use.ports, 0);
}

static void suspended_sequence_does_not_hold_up_others_of_its_unit(void **state)
{
    struct tt_descriptor waits = {.source_count = 1, .sources = {11}}, goes = {.source_count = 1, .sources = {12}};

    (void)state;
    assert_int_equal(offload_fixture_post(&f, 0, &waits, 1, NULL, 0, 1), TUTTI_OK);
    assert_int_equal(offload_fixture_post(&f, 1, &goes, 1, NULL, 0, 2), TUTTI_OK);
    assert_int_equal(tt_offload_deadline(f.offload), UINT64_MAX);
    assert_int_equal(packet(last(offload_fixture_data(12, 1, 0, 0)), NULL), TT_TRIGGER_ACCEPTED);
    assert_int_equal(offload_fixture_ended(&f, 0)->cookie, 2);
    assert_int_equal(packet(last(offload_fixture_data(11, 0, 0, 0)), NULL), TT_TRIGGER_ACCEPTED);
    assert_int_equal(offload_fixture_ended(&f, 0)->cookie, 1);
}

static void nothing_is_overwritten_before_it_is_accepted(void **state)
{
    struct tt_descriptor d[2] = {{.triggers = true, .destination_node = 12, .length_bytes = 8},
                                 {.source_count = 1, .sources = {12}, .reduce = true, .length_bytes = 8}};
    int64_t sum = 3, operand = 4;

    (void)state;
    assert_int_equal(offload_fixture_post(&f, 0, d, 2, &sum, 8, 1), TUTTI_OK);
    struct tt_offload_action sent = *offload_fixture_sent(&f, 0);

    assert_int_equal(packet(last(offload_fixture_data(12, 0, 0, 8)), &operand), TT_TRIGGER_ACCEPTED);
    assert_true(sum == 3);
    assert_int_equal(offload_fixture_answer(&f, &sent, TT_TRIGGER_ACCEPTED), TUTTI_OK);
    assert_true(sum == 7);
    assert_non_null(offload_fixture_ended(&f, 0));
}

static void swap_fields_replace_port_data_and_address(void **state)
{
    struct tt_descriptor d[2] = {{.source_count = 1,
                                  .sources = {11},
                                  .swap_local_vp = true,
                                  .triggers = true,
                                  .destination_node = 11,
                                  .destination_port = 1,
                                  .sequence = 9,
                                  .swap_remote_data = true,
                                  .swap_remote_address = true,
                                  .address_bytes = 4,
                                  .length_bytes = 4},
                                 {.source_count = 1, .sources = {12}, .address_bytes = 0, .length_bytes = 4}};
    char data[13] = "abcdefghijkl";

    (void)state;
    assert_int_equal(offload_fixture_post(&f, 0, d, 2, data, 12, 1), TUTTI_OK);
    /* A signal from port 5 there: it is answered to port 5, with what replaces data and address. */
    struct tt_trigger_packet signal = offload_fixture_data(11, 0, 0, 0);

    signal.source_port = 5;
    assert_int_equal(packet(signal, NULL), TT_TRIGGER_ACCEPTED);
    struct tt_offload_action sent = *offload_fixture_sent(&f, 0);

    assert_true(sent.packet.port == 5 && sent.packet.sequence == 9 && sent.packet.swap_data);
    assert_true(sent.packet.swap_address && sent.packet.address_bytes == 4 && sent.payload == data + 4);
    assert_int_equal(offload_fixture_answer(&f, &sent, TT_TRIGGER_ACCEPTED), TUTTI_OK);
    /* The same the other way: what comes says that it is data, and where it goes. */
    struct tt_trigger_packet remote = last(offload_fixture_data(12, 0, 1, 4));

    remote.swap_data = remote.swap_address = true;
    remote.address_bytes = 8;
    assert_int_equal(packet(remote, "WXYZ"), TT_TRIGGER_ACCEPTED);
    assert_string_equal(data, "abcdefghWXYZ");
    assert_int_equal(offload_fixture_ended(&f, 0)->status, TUTTI_OK);
}

/* Posts a reduction of eight bytes, and gives it one packet that it does not want. */
static void must_end_with(struct tt_trigger_packet wrong, tutti_status status)
{
    struct tt_descriptor d = {.source_count = 1, .sources = {11}, .reduce = true, .length_bytes = 8};
    int64_t sum = 3, operands[2] = {4, 4};

    assert_int_equal(offload_fixture_post(&f, 0, &d, 1, &sum, 8, 1), TUTTI_OK);
    packet(wrong, operands);
    assert_true(sum == 3);
    assert_int_equal(offload_fixture_ended(&f, 0)->status, status);
    assert_int_equal(offload_fixture_post(&f, 0, &d, 1, &sum, 8, 1), status);
    assert_int_equal(tt_offload_open_port(f.offload, 0), TUTTI_OK);
}

static void ranks_that_disagree_close_the_port(void **state)
{
    struct tt_trigger_packet right = last(offload_fixture_data(11, 0, 0, 8)), wrong = right;

    (void)state;
    wrong.length_bytes = 16;
    must_end_with(wrong, TUTTI_ERR_MISMATCH);
    wrong = right;
    wrong.collective_end = false;
    must_end_with(wrong, TUTTI_ERR_MISMATCH);
    wrong = right;
    wrong.swap_data = true; /* replace what is to be reduced */
    must_end_with(wrong, TUTTI_ERR_MISMATCH);
    wrong = right;
    wrong.swap_address = true;
    wrong.address_bytes = 1;
    must_end_with(wrong, TUTTI_ERR_PROTOCOL);
    wrong.address_bytes = UINT64_MAX;
    must_end_with(wrong, TUTTI_ERR_PROTOCOL);
}

static void closed_port_ends_what_is_queued_and_drops_what_comes(void **state)
{
    struct tt_descriptor d = {.source_count = 1, .sources = {11}};
    struct tt_offload_use use;

    (void)state;
    assert_int_equal(packet(offload_fixture_data(11, 0, 3, 0), NULL), TT_TRIGGER_ACCEPTED);
    assert_int_equal(offload_fixture_post(&f, 0, &d, 1, NULL, 0, 1), TUTTI_OK);
    assert_int_equal(offload_fixture_post(&f, 0, &d, 1, NULL, 0, 2), TUTTI_OK);
    tt_offload_close_port(f.offload, 0, TUTTI_ERR_PEER_FAILED);
    tt_offload_check(f.offload);
    assert_int_equal(tt_offload_open_port(f.offload, 0), TUTTI_ERR_BUSY);
    offload_fixture_tick(&f, 5);
    assert_true(offload_fixture_ended(&f, 0)->cookie == 1 && offload_fixture_ended(&f, 1)->cookie == 2);
    assert_int_equal(offload_fixture_ended(&f, 1)->status, TUTTI_ERR_PEER_FAILED);
    assert_int_equal(packet(offload_fixture_data(11, 0, 0, 0), NULL), TT_TRIGGER_ACCEPTED);
    tt_offload_use(f.offload, 0, &use);
    assert_true(use.used == 0 && use.ports == 0);
    assert_int_equal(tt_offload_open_port(f.offload, 0), TUTTI_OK);
    assert_int_equal(offload_fixture_post(&f, 0, &d, 1, NULL, 0, 3), TUTTI_OK);
}

static void what_no_peer_sends_is_a_stray(void **state)
{
    struct tt_trigger_packet p = offload_fixture_data(11, 16, 0, 0);
    enum tt_trigger_kind reply;

    (void)state;
    assert_int_equal(offload_fixture_packet(&f, &p, NULL, &reply), TUTTI_ERR_PROTOCOL); /* no such port */
    p.port = 0;
    p.length_bytes = FIXTURE_PACKET_BYTES + 1;
    assert_int_equal(offload_fixture_packet(&f, &p, NULL, &reply), TUTTI_ERR_PROTOCOL);
    p.length_bytes = 0;
    p.triggers = false;
    assert_int_equal(offload_fixture_packet(&f, &p, NULL, &reply), TUTTI_ERR_PROTOCOL);
    p.kind = TT_TRIGGER_ACCEPTED; /* of nothing */
    assert_int_equal(offload_fixture_packet(&f, &p, NULL, &reply), TUTTI_ERR_PROTOCOL);
    assert_int_equal(tt_offload_counters(f.offload)->stray, 4);
    assert_int_equal(f.action_count, 0);
}

static void posts_that_are_no_sequence_are_refused(void **state)
{
    static uint8_t bytes[2 * TT_DESCRIPTOR_BYTES];
    struct tt_descriptor d[2] = {{.triggers = true, .length_bytes = 8}, {.triggers = true, .length_bytes = 8}};
    char buffer[80];
    struct tt_sequence sequence = {.descriptors = bytes, .count = 2, .buffer = buffer, .buffer_bytes = 8};

    (void)state;
    offload_fixture_write(d, 2, 0, bytes);
    assert_int_equal(tt_offload_post(f.offload, 0, &sequence), TUTTI_OK);
    assert_int_equal(tt_offload_post(f.offload, 1, &sequence), TUTTI_ERR_INVALID_ARGUMENT); /* another's port */
    assert_int_equal(tt_offload_post(f.offload, 16, &sequence), TUTTI_ERR_INVALID_ARGUMENT);
    sequence.count = 1; /* without its tail */
    assert_int_equal(tt_offload_post(f.offload, 0, &sequence), TUTTI_ERR_INVALID_ARGUMENT);
    sequence.count = 0;
    assert_int_equal(tt_offload_post(f.offload, 0, &sequence), TUTTI_ERR_INVALID_ARGUMENT);
    sequence.count = 2;
    sequence.buffer_bytes = 7;
    assert_int_equal(tt_offload_post(f.offload, 0, &sequence), TUTTI_ERR_INVALID_ARGUMENT);
    sequence.buffer_bytes = 80;
    d[1].length_bytes = FIXTURE_PACKET_BYTES + 1;
    offload_fixture_write(d, 2, 0, bytes);
    assert_int_equal(tt_offload_post(f.offload, 0, &sequence), TUTTI_ERR_TOO_LARGE);
    d[1] = (struct tt_descriptor){.reduce = true, .length_bytes = 8};
    offload_fixture_write(d, 2, 0, bytes);
    assert_int_equal(tt_offload_post(f.offload, 0, &sequence), TUTTI_ERR_INVALID_ARGUMENT); /* with what? */
    sequence.reduction = &offload_fixture_sums;
    assert_int_equal(tt_offload_post(f.offload, 0, &sequence), TUTTI_OK);
    assert_int_equal(tt_offload_post(f.offload, 0, &sequence), TUTTI_ERR_BUSY);
    bytes[TT_DESCRIPTOR_BYTES + 8] = 1; /* a bit that must be zero */
    assert_int_equal(tt_offload_post(f.offload, 0, &sequence), TUTTI_ERR_INVALID_ARGUMENT);
}

/* Until it is here; whom a later source is does not matter yet. */
static void a_port_needs_the_node_whose_packet_it_reads_next_until_that_is_here(void **state)
{
    struct tt_descriptor d = {.source_count = 2, .sources = {11, 12}, .reduce = true, .length_bytes = 8};
    int64_t sum = 1, operand = 2;

    (void)state;
    assert_false(tt_offload_needs(f.offload, 11));
    assert_int_equal(offload_fixture_post(&f, 0, &d, 1, &sum, 8, 1), TUTTI_OK);
    assert_true(tt_offload_needs(f.offload, 11));
    assert_false(tt_offload_needs(f.offload, 12));
    assert_int_equal(packet(last(offload_fixture_data(12, 0, 1, 8)), &operand), TT_TRIGGER_ACCEPTED);
    assert_int_equal(packet(offload_fixture_data(11, 0, 0, 8), &operand), TT_TRIGGER_ACCEPTED);
    assert_false(tt_offload_needs(f.offload, 11));
    assert_false(tt_offload_needs(f.offload, 12)); /* it was here before its turn */
    assert_int_equal(sum, 5);
}

static void a_port_needs_a_node_that_has_not_accepted_its_packet(void **state)
{
    struct tt_descriptor d = {.triggers = true, .destination_node = 14, .length_bytes = 8};
    int64_t operand = 2;

    (void)state;
    assert_int_equal(offload_fixture_post(&f, 0, &d, 1, &operand, 8, 1), TUTTI_OK);
    const struct tt_offload_action sent = *offload_fixture_sent(&f, 0);

    assert_true(tt_offload_needs(f.offload, 14));
    assert_int_equal(offload_fixture_answer(&f, &sent, TT_TRIGGER_REFUSED), TUTTI_OK);
    assert_true(tt_offload_needs(f.offload, 14));
    offload_fixture_tick(&f, UINT64_C(1000000000000));
    assert_int_equal(offload_fixture_answer(&f, &sent, TT_TRIGGER_ACCEPTED), TUTTI_OK);
    assert_false(tt_offload_needs(f.offload, 14));
}

int main(void)
{
#define WITH_ROOM(test) cmocka_unit_test_setup_teardown(test, open_with_room, close_fixture)
    const struct CMUnitTest tests[] = {
        WITH_ROOM(packets_are_reduced_in_the_order_of_sources_whatever_order_they_come_in),
        WITH_ROOM(packets_of_other_jobs_nodes_ports_and_steps_do_not_trigger),
        WITH_ROOM(early_packets_wait_for_a_sequence_that_is_not_posted_yet),
        WITH_ROOM(suspended_sequence_does_not_hold_up_others_of_its_unit),
        WITH_ROOM(nothing_is_overwritten_before_it_is_accepted),
        WITH_ROOM(swap_fields_replace_port_data_and_address),
        WITH_ROOM(ranks_that_disagree_close_the_port),
        WITH_ROOM(closed_port_ends_what_is_queued_and_drops_what_comes),
        WITH_ROOM(what_no_peer_sends_is_a_stray),
        WITH_ROOM(posts_that_are_no_sequence_are_refused),
        WITH_ROOM(a_port_needs_the_node_whose_packet_it_reads_next_until_that_is_here),
        WITH_ROOM(a_port_needs_a_node_that_has_not_accepted_its_packet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
