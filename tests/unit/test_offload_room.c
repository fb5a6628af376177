/* SPDX-License-Identifier: BSD-3-Clause */
/* The triggered engine when there is little of something: packet memory, units, room for actions; and what is sent
 * again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "offload_fixture.h"

static struct offload_fixture f;

static void open_units(uint32_t unit_count, uint32_t slots)
{
    offload_fixture_init(&f, unit_count, slots);
    offload_fixture_open(&f);
}

static enum tt_trigger_kind packet(struct tt_trigger_packet packet, const void *payload)
{
    enum tt_trigger_kind reply = 0;

    assert_int_equal(offload_fixture_packet(&f, &packet, payload, &reply), TUTTI_OK);
    return reply;
}

static struct tt_trigger_packet last(struct tt_trigger_packet packet)
{
    packet.collective_end = true;
    return packet;
}

static void full_buffer_refuses_early_packets_but_never_the_next_one(void **state)
{
    struct tt_descriptor d[2] = {{.triggers = true, .destination_node = 12, .length_bytes = 8},
                                 {.source_count = 2, .sources = {12, 13}, .reduce = true, .length_bytes = 8}};
    int64_t sum = 1, first = 2, second = 4;

    (void)state;
    open_units(1, 1);
    assert_int_equal(packet(offload_fixture_data(50, 9, 0, 0), NULL), TT_TRIGGER_ACCEPTED); /* the only slot */
    assert_int_equal(packet(offload_fixture_data(51, 8, 0, 0), NULL), TT_TRIGGER_REFUSED);
    assert_int_equal(offload_fixture_post(&f, 0, d, 2, &sum, 8, 1), TUTTI_OK);
    struct tt_offload_action sent = *offload_fixture_sent(&f, 0);

    /* Not accepted yet, so it cannot reduce; the next packet has its place, the one after that has none. */
    assert_int_equal(packet(last(offload_fixture_data(13, 0, 1, 8)), &second), TT_TRIGGER_REFUSED);
    assert_int_equal(packet(offload_fixture_data(12, 0, 0, 8), &first), TT_TRIGGER_ACCEPTED);
    assert_int_equal(packet(last(offload_fixture_data(13, 0, 1, 8)), &second), TT_TRIGGER_REFUSED);
    assert_true(sum == 1);
    assert_int_equal(tt_offload_counters(f.offload)->kept_apart, 1);
    assert_int_equal(offload_fixture_answer(&f, &sent, TT_TRIGGER_ACCEPTED), TUTTI_OK);
    assert_true(sum == 3);
    assert_int_equal(packet(last(offload_fixture_data(13, 0, 1, 8)), &second), TT_TRIGGER_ACCEPTED);
    assert_true(sum == 7);
    assert_int_equal(offload_fixture_ended(&f, 0)->status, TUTTI_OK);
    offload_fixture_close(&f);
}

/* The first of two packets with one key is still here when the second, of the next sequence, comes. */
static void second_packet_with_a_key_is_refused_while_the_first_is_here(void **state)
{
    struct tt_descriptor d = {.source_count = 1, .sources = {11}, .swap_local_data = true, .length_bytes = 4};
    char data[4];

    (void)state;
    open_units(1, 20);
    assert_int_equal(packet(last(offload_fixture_data(11, 0, 0, 4)), "one"), TT_TRIGGER_ACCEPTED);
    assert_int_equal(packet(last(offload_fixture_data(11, 0, 0, 4)), "two"), TT_TRIGGER_REFUSED);
    assert_int_equal(offload_fixture_post(&f, 0, &d, 1, data, 4, 1), TUTTI_OK);
    assert_string_equal(data, "one");
    assert_int_equal(packet(last(offload_fixture_data(11, 0, 0, 4)), "two"), TT_TRIGGER_ACCEPTED);
    assert_int_equal(offload_fixture_post(&f, 0, &d, 1, data, 4, 2), TUTTI_OK);
    assert_string_equal(data, "two");
    offload_fixture_close(&f);
}

static void refused_packet_is_sent_again_after_a_time_that_doubles(void **state)
{
    struct tt_descriptor d = {.triggers = true, .destination_node = 12, .length_bytes = 4};
    char data[4] = "abc";
    uint64_t waits_ns = 1000;

    (void)state;
    open_units(1, 4);
    assert_int_equal(offload_fixture_post(&f, 0, &d, 1, data, 4, 1), TUTTI_OK);
    for (int i = 0; i < 9; i++) {
        struct tt_offload_action sent = *offload_fixture_sent(&f, 0);

        assert_true(sent.payload == data);
        assert_int_equal(offload_fixture_answer(&f, &sent, TT_TRIGGER_REFUSED), TUTTI_OK);
        assert_int_equal(tt_offload_deadline(f.offload), f.now_ns + waits_ns);
        offload_fixture_tick(&f, f.now_ns + waits_ns - 1);
        assert_null(offload_fixture_sent(&f, 0));
        offload_fixture_tick(&f, f.now_ns + 1);
        assert_non_null(offload_fixture_sent(&f, 0));
        assert_int_equal(tt_offload_deadline(f.offload), UINT64_MAX);
        waits_ns = waits_ns < 64000 ? 2 * waits_ns : waits_ns;
    }
    assert_int_equal(tt_offload_counters(f.offload)->repeated, 9);
    struct tt_offload_action sent = *offload_fixture_sent(&f, 0);

    assert_int_equal(offload_fixture_answer(&f, &sent, TT_TRIGGER_ACCEPTED), TUTTI_OK);
    assert_non_null(offload_fixture_ended(&f, 0));
    /* It is answered once. */
    assert_int_equal(offload_fixture_answer(&f, &sent, TT_TRIGGER_ACCEPTED), TUTTI_ERR_PROTOCOL);
    offload_fixture_close(&f);
}

/* As many packets as there are copies go out without anybody having to wait for the answers. */
static void what_is_copied_may_be_overwritten_and_is_sent_again_as_it_was(void **state)
{
    struct tt_descriptor d[] = {{.triggers = true, .destination_node = 12, .length_bytes = 8},
                                {.source_count = 1, .sources = {12}, .reduce = true, .length_bytes = 8},
                                {.triggers = true, .destination_node = 13, .sequence = 1, .length_bytes = 8},
                                {.source_count = 1, .sources = {13}, .reduce = true, .length_bytes = 8}};
    int64_t sum = 1, first = 2, second = 4;

    (void)state;
    offload_fixture_init(&f, 1, 20);
    f.terms.copies = 1;
    offload_fixture_open(&f);
    assert_int_equal(offload_fixture_post(&f, 0, d, 4, &sum, 8, 1), TUTTI_OK);
    struct tt_offload_action copied = *offload_fixture_sent(&f, 0), lies;

    assert_true(copied.packet.is_copied && copied.payload != &sum);
    assert_int_equal(packet(offload_fixture_data(12, 0, 0, 8), &first), TT_TRIGGER_ACCEPTED);
    assert_true(sum == 3); /* though the first has not been accepted */
    lies = *offload_fixture_sent(&f, 0);
    assert_true(lies.node == 13 && lies.payload == &sum && !lies.packet.is_copied);
    assert_int_equal(packet(last(offload_fixture_data(13, 0, 1, 8)), &second), TT_TRIGGER_ACCEPTED);
    assert_true(sum == 3); /* of that one there is no copy */
    assert_int_equal(offload_fixture_answer(&f, &copied, TT_TRIGGER_REFUSED), TUTTI_OK);
    assert_null(offload_fixture_ended(&f, 0));
    assert_int_equal(offload_fixture_answer(&f, &lies, TT_TRIGGER_ACCEPTED), TUTTI_OK);
    assert_true(sum == 7);
    assert_int_equal(offload_fixture_ended(&f, 0)->status, TUTTI_OK);
    sum = 0; /* it is the poster's again */
    assert_false(tt_offload_is_settled(f.offload));
    offload_fixture_tick(&f, tt_offload_deadline(f.offload));
    copied = *offload_fixture_sent(&f, 0);
    assert_int_equal(copied.node, 12);
    assert_true(*(const int64_t *)copied.payload == 1);
    assert_int_equal(offload_fixture_answer(&f, &copied, TT_TRIGGER_ACCEPTED), TUTTI_OK);
    assert_true(tt_offload_is_settled(f.offload));
    offload_fixture_close(&f);
}

/* The next sequence begins meanwhile, but sends nothing with a key that is under way. */
static void a_key_whose_sequence_has_ended_is_still_under_way(void **state)
{
    struct tt_descriptor d = {.triggers = true, .destination_node = 12, .length_bytes = 4};
    char first[4] = "one", second[4] = "two";

    (void)state;
    offload_fixture_init(&f, 1, 20);
    f.terms.copies = 2;
    f.terms.queue_length = 2;
    offload_fixture_open(&f);
    assert_int_equal(offload_fixture_post(&f, 0, &d, 1, first, 4, 1), TUTTI_OK);
    struct tt_offload_action sent = *offload_fixture_sent(&f, 0);

    assert_int_equal(offload_fixture_ended(&f, 0)->cookie, 1);
    memcpy(first, "xxx", 4);
    assert_string_equal(sent.payload, "one");
    assert_int_equal(offload_fixture_post(&f, 0, &d, 1, second, 4, 2), TUTTI_OK);
    assert_null(offload_fixture_sent(&f, 0));
    assert_int_equal(offload_fixture_answer(&f, &sent, TT_TRIGGER_ACCEPTED), TUTTI_OK);
    assert_string_equal(offload_fixture_sent(&f, 0)->payload, "two");
    assert_int_equal(offload_fixture_ended(&f, 0)->cookie, 2);
    offload_fixture_close(&f);
}

static void window_bounds_what_is_sent_and_not_accepted(void **state)
{
    struct tt_descriptor d[6];

    (void)state;
    open_units(1, 4);
    for (uint32_t i = 0; i < 6; i++) {
        d[i] = (struct tt_descriptor){.triggers = true, .destination_node = 20 + i};
    }
    assert_int_equal(offload_fixture_post(&f, 0, d, 6, NULL, 0, 1), TUTTI_OK);
    assert_true(offload_fixture_sent(&f, 3) != NULL && offload_fixture_sent(&f, 4) == NULL);
    struct tt_offload_action sent = *offload_fixture_sent(&f, 2);

    assert_int_equal(offload_fixture_answer(&f, &sent, TT_TRIGGER_ACCEPTED), TUTTI_OK);
    assert_true(offload_fixture_sent(&f, 0)->node == 24 && offload_fixture_sent(&f, 1) == NULL);
    offload_fixture_close(&f);
}

/* Numbers that came around: the second would be taken for the first. */
static void two_packets_with_one_key_are_not_under_way_together(void **state)
{
    struct tt_descriptor d[2] = {{.triggers = true, .destination_node = 12, .sequence = 3},
                                 {.triggers = true, .destination_node = 12, .sequence = 3}};

    (void)state;
    open_units(1, 4);
    assert_int_equal(offload_fixture_post(&f, 0, d, 2, NULL, 0, 1), TUTTI_OK);
    assert_true(offload_fixture_sent(&f, 0) != NULL && offload_fixture_sent(&f, 1) == NULL);
    struct tt_offload_action sent = *offload_fixture_sent(&f, 0);

    assert_int_equal(offload_fixture_answer(&f, &sent, TT_TRIGGER_ACCEPTED), TUTTI_OK);
    assert_non_null(offload_fixture_sent(&f, 0));
    offload_fixture_close(&f);
}

static void steps_with_room_for_one_action_do_everything_in_turn(void **state)
{
    struct tt_descriptor d[3];
    uint32_t sent = 0;

    (void)state;
    open_units(1, 4);
    f.capacity = 1;
    for (uint32_t i = 0; i < 3; i++) {
        d[i] = (struct tt_descriptor){.triggers = true, .destination_node = 20 + i};
    }
    assert_int_equal(offload_fixture_post(&f, 0, d, 3, NULL, 0, 1), TUTTI_OK);
    while (offload_fixture_sent(&f, 0) != NULL) {
        assert_int_equal(offload_fixture_sent(&f, 0)->node, 20 + sent);
        sent++;
        assert_true(sent == 3 || tt_offload_deadline(f.offload) == 0);
        offload_fixture_tick(&f, 0);
    }
    assert_int_equal(sent, 3);
    assert_int_equal(tt_offload_deadline(f.offload), UINT64_MAX);
    offload_fixture_close(&f);
}

static void units_are_shared_by_load_and_a_sequence_stays_in_one(void **state)
{
    struct tt_descriptor d[2] = {{.source_count = 1, .sources = {11}}, {.source_count = 1, .sources = {11}}};
    struct tt_offload_use use;

    (void)state;
    open_units(4, 10);
    for (uint16_t port = 0; port < 8; port++) {
        assert_int_equal(offload_fixture_post(&f, port, d, 2, NULL, 0, port), TUTTI_OK);
    }
    for (uint32_t unit = 0; unit < 4; unit++) {
        tt_offload_use(f.offload, unit, &use);
        assert_int_equal(use.ports, 2);
    }
    /* Early packets of one port stay in its unit, though it has the most by then. */
    for (uint8_t i = 1; i < 5; i++) {
        assert_int_equal(packet(offload_fixture_data(11, 2, i, 0), NULL), TT_TRIGGER_ACCEPTED);
    }
    uint32_t busiest = 4;

    for (uint32_t unit = 0; unit < 4; unit++) {
        tt_offload_use(f.offload, unit, &use);
        assert_true(use.used == 0 || use.used == 4);
        busiest = use.used == 4 ? unit : busiest;
    }
    assert_true(busiest < 4);
    /* And the next ports go elsewhere. */
    for (uint16_t port = 8; port < 11; port++) {
        assert_int_equal(offload_fixture_post(&f, port, d, 2, NULL, 0, port), TUTTI_OK);
    }
    tt_offload_use(f.offload, busiest, &use);
    assert_int_equal(use.ports, 2);
    offload_fixture_close(&f);
}

/* 256 jobs, 2048 ports, 2^24 nodes, 32 steps, 8 units of 512 KB (Xu et al., sections 1.2 and 2.2). */
static void the_papers_limits_are_reached(void **state)
{
    struct tt_trigger_packet packet = {.kind = TT_TRIGGER_DATA, .triggers = true, .port = 2047, .collective_end = true};
    struct tt_descriptor d = {.collective = true, .head = true, .tail = true, .job = 255, .source_port = 2047};
    uint8_t bytes[TT_DESCRIPTOR_BYTES];
    enum tt_trigger_kind reply;

    (void)state;
    offload_fixture_init(&f, 8, 4);
    f.terms.port_count = 2048;
    f.terms.unit_bytes = 512 << 10;
    f.terms.node = 0xFFFFFF;
    offload_fixture_open(&f);
    for (uint32_t i = 0; i < 256; i++) { /* all jobs are early at one port */
        packet.job = (uint8_t)i;
        packet.node = 0xFFFFFE;
        packet.collective_end = i == 255;
        assert_int_equal(offload_fixture_packet(&f, &packet, NULL, &reply), TUTTI_OK);
        assert_int_equal(reply, TT_TRIGGER_ACCEPTED);
    }
    d.source_count = d.count = 1;
    d.sources[0] = 0xFFFFFE;
    tt_descriptor_encode(&d, bytes);
    struct tt_sequence sequence = {.descriptors = bytes, .count = 1};

    assert_int_equal(tt_offload_post(f.offload, 2047, &sequence), TUTTI_OK);
    offload_fixture_tick(&f, 0);
    assert_int_equal(offload_fixture_ended(&f, 0)->port, 2047);
    offload_fixture_close(&f);
}

static void terms_that_make_no_sense_need_no_memory(void **state)
{
    struct tt_offload_terms good, bad;

    (void)state;
    offload_fixture_init(&f, 8, 4);
    good = f.terms;
    assert_true(tt_offload_memory_bytes(&good) > 0);
    bad = good;
    bad.unit_count = 9;
    assert_int_equal(tt_offload_memory_bytes(&bad), 0);
    bad = good;
    bad.port_count = 2049;
    assert_int_equal(tt_offload_memory_bytes(&bad), 0);
    bad = good;
    bad.node = 1 << 24;
    assert_int_equal(tt_offload_memory_bytes(&bad), 0);
    bad = good;
    bad.window = 17;
    assert_int_equal(tt_offload_memory_bytes(&bad), 0);
    bad = good;
    bad.unit_bytes = TT_TRIGGER_PACKET_BYTES + FIXTURE_PACKET_BYTES - 1;
    assert_int_equal(tt_offload_memory_bytes(&bad), 0);
    bad = good;
    bad.retry_ns = 0;
    assert_int_equal(tt_offload_memory_bytes(&bad), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_buffer_refuses_early_packets_but_never_the_next_one),
        cmocka_unit_test(second_packet_with_a_key_is_refused_while_the_first_is_here),
        cmocka_unit_test(refused_packet_is_sent_again_after_a_time_that_doubles),
        cmocka_unit_test(what_is_copied_may_be_overwritten_and_is_sent_again_as_it_was),
        cmocka_unit_test(a_key_whose_sequence_has_ended_is_still_under_way),
        cmocka_unit_test(window_bounds_what_is_sent_and_not_accepted),
        cmocka_unit_test(two_packets_with_one_key_are_not_under_way_together),
        cmocka_unit_test(steps_with_room_for_one_action_do_everything_in_turn),
        cmocka_unit_test(units_are_shared_by_load_and_a_sequence_stays_in_one),
        cmocka_unit_test(the_papers_limits_are_reached),
        cmocka_unit_test(terms_that_make_no_sense_need_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
