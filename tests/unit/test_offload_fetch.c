/* SPDX-License-Identifier: BSD-3-Clause */
/* The triggered engine and data that stays where it is: announced and fetched, or read from a source. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "offload_fixture.h"

enum { INLINE_BYTES = 16, LONG_BYTES = 64 };

static struct offload_fixture f;
static int64_t buffer[3 * LONG_BYTES / 8];

static void open_with(uint32_t slots, uint32_t window)
{
    offload_fixture_init(&f, 1, slots);
    f.terms.inline_bytes = INLINE_BYTES;
    f.terms.unit_bytes = (uint64_t)slots * (TT_TRIGGER_PACKET_BYTES + TT_TRIGGER_MAX_REFERENCE_BYTES);
    f.terms.window = window;
    offload_fixture_open(&f);
    for (size_t i = 0; i < sizeof buffer / 8; i++) {
        buffer[i] = (int64_t)i;
    }
}

static int open_with_room(void **state)
{
    (void)state;
    open_with(20, 4);
    return 0;
}

static int close_fixture(void **state)
{
    (void)state;
    offload_fixture_close(&f);
    return 0;
}

static struct tt_trigger_packet remote(uint32_t node, uint8_t sequence, bool ends)
{
    struct tt_trigger_packet packet = offload_fixture_data(node, 0, sequence, LONG_BYTES);

    packet.kind = TT_TRIGGER_REMOTE;
    packet.reference_bytes = 5;
    packet.collective_end = ends;
    return packet;
}

static enum tt_trigger_kind take(struct tt_trigger_packet packet, const void *payload)
{
    enum tt_trigger_kind reply = 0;

    assert_int_equal(offload_fixture_packet(&f, &packet, payload, &reply), TUTTI_OK);
    return reply;
}

static enum tt_trigger_kind fetched(const struct tt_offload_action *fetch, tutti_status status)
{
    enum tt_trigger_kind reply = 0;

    offload_fixture_fetched(&f, fetch, NULL, status, &reply);
    return reply;
}

/* Its data lies there, for as long as the step takes. */
static enum tt_trigger_kind fetched_at(const struct tt_offload_action *fetch, int64_t *data)
{
    enum tt_trigger_kind reply = 0;

    offload_fixture_fetched(&f, fetch, data, TUTTI_OK, &reply);
    memset(data, 0xEE, LONG_BYTES);
    return reply;
}

static const struct tt_descriptor copies = {
    .source_count = 1, .sources = {11}, .swap_local_data = true, .length_bytes = LONG_BYTES};
static const struct tt_descriptor sums = {
    .source_count = 1, .sources = {11}, .reduce = true, .length_bytes = LONG_BYTES};
static const struct tt_descriptor sends = {.triggers = true, .destination_node = 12, .length_bytes = LONG_BYTES};

static void post(const struct tt_descriptor *descriptors, uint32_t count)
{
    struct tt_descriptor d[4];

    memcpy(d, descriptors, count * sizeof d[0]);
    assert_int_equal(offload_fixture_post(&f, 0, d, count, buffer, sizeof buffer, 1), TUTTI_OK);
}

static void long_operand_is_announced_and_a_short_one_sent(void **state)
{
    struct tt_descriptor d[2] = {sends, sends};

    (void)state;
    d[0].length_bytes = INLINE_BYTES;
    d[0].destination_node = 13;
    d[1].length_bytes = INLINE_BYTES + 1;
    d[1].address_bytes = 8;
    post(d, 2);
    const struct tt_offload_action *first = offload_fixture_sent(&f, 0), *second = offload_fixture_sent(&f, 1);

    assert_true(first->packet.kind == TT_TRIGGER_DATA && first->payload == buffer);
    assert_true(second->packet.kind == TT_TRIGGER_REMOTE && second->payload == buffer + 1);
    assert_int_equal(second->packet.length_bytes, INLINE_BYTES + 1);
}

static void packet_that_is_read_next_is_fetched_into_its_operand_and_then_accepted(void **state)
{
    char reference[5] = "here";

    (void)state;
    post(&copies, 1);
    assert_int_equal(take(remote(11, 0, true), reference), 0);
    memset(reference, 0, sizeof reference); /* it has a copy */
    struct tt_offload_action fetch = *offload_fixture_fetch(&f, 0);

    assert_true(fetch.destination == buffer && fetch.node == 11 && fetch.port == 0);
    assert_true(fetch.packet.length_bytes == LONG_BYTES && fetch.packet.reference_bytes == 5);
    assert_string_equal(fetch.payload, "here");
    assert_int_equal(take(remote(11, 0, true), "more"), TT_TRIGGER_REFUSED); /* the same key */
    assert_string_equal(fetch.payload, "here");
    buffer[0] = 77;
    assert_int_equal(fetched(&fetch, TUTTI_OK), TT_TRIGGER_ACCEPTED);
    assert_int_equal(buffer[0], 77);
    assert_int_equal(offload_fixture_ended(&f, 0)->status, TUTTI_OK);
}

static void early_references_are_kept_unanswered_and_fetched_in_their_turn(void **state)
{
    struct tt_descriptor d[2] = {copies, copies};

    (void)state;
    d[1].address_bytes = LONG_BYTES;
    assert_int_equal(take(remote(11, 1, true), "two."), 0);
    assert_int_equal(take(remote(11, 0, false), "one."), 0);
    assert_int_equal(f.action_count, 0);
    post(d, 2);
    assert_null(offload_fixture_fetch(&f, 1));
    struct tt_offload_action fetch = *offload_fixture_fetch(&f, 0);

    assert_string_equal(fetch.payload, "one.");
    assert_int_equal(fetched(&fetch, TUTTI_OK), TT_TRIGGER_ACCEPTED);
    fetch = *offload_fixture_fetch(&f, 0);
    assert_string_equal(fetch.payload, "two.");
    assert_true(fetch.destination == buffer + LONG_BYTES / 8);
    assert_int_equal(fetched(&fetch, TUTTI_OK), TT_TRIGGER_ACCEPTED);
    assert_non_null(offload_fixture_ended(&f, 0));
}

static void operand_of_a_reduction_is_fetched_apart(void **state)
{
    (void)state;
    post(&sums, 1);
    assert_int_equal(take(remote(11, 0, true), "here"), 0);
    struct tt_offload_action fetch = *offload_fixture_fetch(&f, 0);
    int64_t *apart = fetch.destination;

    assert_true(apart < buffer || apart >= buffer + sizeof buffer / 8);
    for (int i = 0; i < LONG_BYTES / 8; i++) {
        apart[i] = 100;
    }
    assert_int_equal(fetched(&fetch, TUTTI_OK), TT_TRIGGER_ACCEPTED);
    assert_true(buffer[0] == 100 && buffer[7] == 107 && buffer[8] == 8);
    assert_non_null(offload_fixture_ended(&f, 0));
    assert_int_equal(tt_offload_counters(f.offload)->fetched_apart, 1);
}

static void data_that_lies_elsewhere_is_read_from_there(void **state)
{
    static _Alignas(16) int64_t data[LONG_BYTES / 8];
    static const struct tt_descriptor *const kinds[] = {&sums, &copies};

    (void)state;
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < LONG_BYTES / 8; k++) {
            data[k] = 100;
        }
        post(kinds[i], 1);
        assert_int_equal(take(remote(11, 0, true), "here"), 0);
        struct tt_offload_action fetch = *offload_fixture_fetch(&f, 0);
        uint8_t untouched[LONG_BYTES];

        memset(untouched, 0x33, sizeof untouched);
        memset(fetch.destination, 0x33, i == 0 ? LONG_BYTES : 0); /* the port's own place */
        assert_int_equal(fetched_at(&fetch, data), TT_TRIGGER_ACCEPTED);
        assert_true(i == 1 || memcmp(fetch.destination, untouched, LONG_BYTES) == 0);
        assert_true(buffer[0] == 100 && buffer[7] == (i == 0 ? 107 : 100) && buffer[8] == 8);
        assert_non_null(offload_fixture_ended(&f, 0));
    }
}

/* It cannot be read at once, and is not there for longer. */
static void data_that_lies_elsewhere_is_kept_apart_while_the_own_operand_is_being_sent(void **state)
{
    static _Alignas(16) int64_t data[LONG_BYTES / 8];
    struct tt_descriptor d[2] = {sends, copies};

    (void)state;
    post(d, 2);
    struct tt_offload_action sent = *offload_fixture_sent(&f, 0);

    assert_int_equal(take(remote(11, 0, true), "here"), 0);
    struct tt_offload_action fetch = *offload_fixture_fetch(&f, 0);

    data[1] = 55;
    assert_int_equal(fetched_at(&fetch, data), TT_TRIGGER_ACCEPTED);
    assert_int_equal(buffer[1], 1);
    assert_int_equal(offload_fixture_answer(&f, &sent, TT_TRIGGER_ACCEPTED), TUTTI_OK);
    assert_int_equal(buffer[1], 55);
    assert_non_null(offload_fixture_ended(&f, 0));
}

/* Two ranks that exchange would wait for each other otherwise. */
static void data_is_fetched_and_accepted_while_the_own_operand_is_still_being_sent(void **state)
{
    struct tt_descriptor d[2] = {sends, copies};

    (void)state;
    post(d, 2);
    struct tt_offload_action sent = *offload_fixture_sent(&f, 0);

    assert_int_equal(take(remote(11, 0, true), "here"), 0);
    struct tt_offload_action fetch = *offload_fixture_fetch(&f, 0);

    assert_true(fetch.destination != buffer);
    memset(fetch.destination, 0, LONG_BYTES);
    assert_int_equal(fetched(&fetch, TUTTI_OK), TT_TRIGGER_ACCEPTED);
    assert_int_equal(buffer[1], 1);
    assert_int_equal(offload_fixture_answer(&f, &sent, TT_TRIGGER_ACCEPTED), TUTTI_OK);
    assert_int_equal(buffer[1], 0);
    assert_non_null(offload_fixture_ended(&f, 0));
}

static void what_is_apart_from_all_that_is_being_sent_is_read_at_once(void **state)
{
    struct tt_descriptor d[2] = {sends, {.source_count = 1, .sources = {11}, .reduce = true, .length_bytes = 8}};
    struct tt_trigger_packet packet = offload_fixture_data(11, 0, 0, 8);
    int64_t operand = 1000;

    (void)state;
    d[1].address_bytes = LONG_BYTES;
    post(d, 2);
    struct tt_offload_action sent = *offload_fixture_sent(&f, 0);

    packet.collective_end = true;
    assert_int_equal(take(packet, &operand), TT_TRIGGER_ACCEPTED);
    assert_int_equal(buffer[8], 1008);
    assert_int_equal(offload_fixture_answer(&f, &sent, TT_TRIGGER_ACCEPTED), TUTTI_OK);
    /* One element earlier it has to wait. */
    d[1].address_bytes -= 8;
    post(d, 2);
    sent = *offload_fixture_sent(&f, 0);
    assert_int_equal(take(packet, &operand), TT_TRIGGER_ACCEPTED);
    assert_int_equal(buffer[7], 7);
    assert_int_equal(offload_fixture_answer(&f, &sent, TT_TRIGGER_ACCEPTED), TUTTI_OK);
    assert_int_equal(buffer[7], 1007);
}

static void port_that_waits_to_send_fetches_what_it_reads_next(void **state)
{
    struct tt_descriptor d[3] = {sends, sends, copies};

    (void)state;
    for (int early = 0; early < 2; early++) {
        open_with(20, 1);
        d[1].destination_node = 13;
        d[2].address_bytes = LONG_BYTES;
        if (early == 1) {
            assert_int_equal(take(remote(11, 0, true), "here"), 0);
        }
        post(d, 3);
        struct tt_offload_action sent = *offload_fixture_sent(&f, 0);

        if (early == 0) {
            assert_int_equal(take(remote(11, 0, true), "here"), 0);
        }
        struct tt_offload_action fetch = *offload_fixture_fetch(&f, 0);

        /* The descriptor has not come to its turn: what is sent before might lie where it writes. */
        assert_true(fetch.destination < (void *)buffer || fetch.destination >= (void *)(buffer + sizeof buffer / 8));
        assert_int_equal(fetched(&fetch, TUTTI_OK), TT_TRIGGER_ACCEPTED);
        assert_int_equal(offload_fixture_answer(&f, &sent, TT_TRIGGER_ACCEPTED), TUTTI_OK);
        sent = *offload_fixture_sent(&f, 0);
        assert_int_equal(sent.node, 13);
        assert_int_equal(offload_fixture_answer(&f, &sent, TT_TRIGGER_ACCEPTED), TUTTI_OK);
        assert_non_null(offload_fixture_ended(&f, 0));
        offload_fixture_close(&f);
    }
}

static void full_buffer_refuses_references_but_never_the_next_one(void **state)
{
    (void)state;
    open_with(1, 4);
    assert_int_equal(take(remote(20, 3, false), "full"), 0);
    assert_int_equal(take(remote(21, 3, false), "next"), TT_TRIGGER_REFUSED);
    post(&copies, 1);
    assert_int_equal(take(remote(21, 3, false), "next"), TT_TRIGGER_REFUSED);
    assert_int_equal(take(remote(11, 0, true), "here"), 0);
    assert_non_null(offload_fixture_fetch(&f, 0));
    offload_fixture_close(&f);
}

static void port_that_is_closed_while_it_fetches_ends_afterwards(void **state)
{
    (void)state;
    post(&copies, 1);
    assert_int_equal(take(remote(11, 0, true), "here"), 0);
    struct tt_offload_action fetch = *offload_fixture_fetch(&f, 0);

    tt_offload_close_port(f.offload, 0, TUTTI_ERR_PEER_FAILED);
    offload_fixture_tick(&f, 5);
    assert_int_equal(f.action_count, 0);
    assert_int_equal(tt_offload_open_port(f.offload, 0), TUTTI_ERR_BUSY);
    assert_int_equal(fetched(&fetch, TUTTI_OK), TT_TRIGGER_ACCEPTED);
    assert_int_equal(offload_fixture_ended(&f, 0)->status, TUTTI_ERR_PEER_FAILED);
    assert_int_equal(tt_offload_open_port(f.offload, 0), TUTTI_OK);
    post(&copies, 1);
}

static void data_that_cannot_be_fetched_closes_the_port(void **state)
{
    (void)state;
    post(&sums, 1);
    assert_int_equal(take(remote(11, 0, true), "here"), 0);
    struct tt_offload_action fetch = *offload_fixture_fetch(&f, 0);

    assert_int_equal(fetched(&fetch, TUTTI_ERR_IO), TT_TRIGGER_ACCEPTED);
    assert_int_equal(offload_fixture_ended(&f, 0)->status, TUTTI_ERR_IO);
    assert_int_equal(tt_offload_open_port(f.offload, 0), TUTTI_OK);
}

/* Nobody waits for ever to be answered by a closed port. */
static void references_that_a_closed_port_has_kept_are_accepted(void **state)
{
    uint32_t answered = 0;

    (void)state;
    assert_int_equal(take(offload_fixture_data(11, 0, 5, 0), NULL), TT_TRIGGER_ACCEPTED);
    assert_int_equal(take(remote(11, 1, false), "one."), 0);
    assert_int_equal(take(remote(12, 2, false), "two."), 0);
    tt_offload_close_port(f.offload, 0, TUTTI_ERR_PEER_FAILED);
    assert_int_equal(tt_offload_open_port(f.offload, 0), TUTTI_ERR_BUSY);
    offload_fixture_tick(&f, 5);
    for (uint32_t i = 0; i < f.action_count; i++) {
        answered += f.actions[i].packet.kind == TT_TRIGGER_ACCEPTED ? f.actions[i].node : 0;
    }
    assert_int_equal(answered, 11 + 12);
    assert_int_equal(take(remote(13, 2, false), "late"), TT_TRIGGER_ACCEPTED);
    assert_int_equal(tt_offload_open_port(f.offload, 0), TUTTI_OK);
}

static void ranks_that_disagree_are_found_when_the_packet_is_read(void **state)
{
    struct tt_trigger_packet wrong = remote(11, 0, true);

    (void)state;
    wrong.length_bytes--;
    post(&copies, 1);
    assert_int_equal(take(wrong, "here"), 0);
    struct tt_offload_action fetch = *offload_fixture_fetch(&f, 0);

    assert_true(fetch.destination < (void *)buffer || fetch.destination >= (void *)(buffer + sizeof buffer / 8));
    assert_int_equal(fetched(&fetch, TUTTI_OK), TT_TRIGGER_ACCEPTED);
    assert_int_equal(offload_fixture_ended(&f, 0)->status, TUTTI_ERR_MISMATCH);
}

static void packets_that_are_not_as_the_terms_have_it_are_strays(void **state)
{
    struct tt_trigger_packet packet = remote(11, 0, true);
    enum tt_trigger_kind reply;

    (void)state;
    packet.length_bytes = INLINE_BYTES; /* would have been sent */
    assert_int_equal(offload_fixture_packet(&f, &packet, "here", &reply), TUTTI_ERR_PROTOCOL);
    packet.length_bytes = LONG_BYTES + 1;
    assert_int_equal(offload_fixture_packet(&f, &packet, "here", &reply), TUTTI_ERR_PROTOCOL);
    packet = remote(11, 0, true);
    packet.reference_bytes = 0;
    assert_int_equal(offload_fixture_packet(&f, &packet, "here", &reply), TUTTI_ERR_PROTOCOL);
    packet.reference_bytes = TT_TRIGGER_MAX_REFERENCE_BYTES + 1;
    assert_int_equal(offload_fixture_packet(&f, &packet, "here", &reply), TUTTI_ERR_PROTOCOL);
    packet.kind = TT_TRIGGER_DATA; /* would have been announced */
    assert_int_equal(offload_fixture_packet(&f, &packet, buffer, &reply), TUTTI_ERR_PROTOCOL);
    assert_int_equal(tt_offload_counters(f.offload)->stray, 5);
}

static void memory_of_units_does_not_grow_with_packets_that_are_announced(void **state)
{
    struct tt_offload_terms terms = f.terms;

    (void)state;
    terms.inline_bytes = 2048;
    terms.unit_bytes = 512 << 10;
    terms.packet_bytes = 64 << 10;
    size_t bytes = tt_offload_memory_bytes(&terms);

    terms.packet_bytes = 128 << 10;
    assert_true(tt_offload_memory_bytes(&terms) - bytes == terms.port_count * (size_t)(64 << 10));
    terms.inline_bytes = terms.packet_bytes + 1;
    assert_int_equal(tt_offload_memory_bytes(&terms), 0);
    terms.inline_bytes = 0; /* a slot holds a reference */
    terms.unit_bytes = TT_TRIGGER_PACKET_BYTES + TT_TRIGGER_MAX_REFERENCE_BYTES;
    assert_true(tt_offload_memory_bytes(&terms) > 0);
    terms.unit_bytes--;
    assert_int_equal(tt_offload_memory_bytes(&terms), 0);
}

/* --- Sources ------------------------------------------------------------------------------------------------------ */

static tutti_status post_from(const int64_t *source, struct tt_descriptor *d, uint64_t count, uint64_t first,
                              uint64_t bytes)
{
    static uint8_t descriptors[4 * TT_DESCRIPTOR_BYTES];
    struct tt_sequence sequence = {.descriptors = descriptors,
                                   .count = count,
                                   .buffer = buffer,
                                   .buffer_first = first,
                                   .buffer_bytes = bytes,
                                   .source = source,
                                   .source_bytes = 24,
                                   .reduction = &offload_fixture_sums};

    offload_fixture_write(d, count, 0, descriptors);
    tutti_status status = tt_offload_post(f.offload, 0, &sequence);

    offload_fixture_tick(&f, 0);
    return status;
}

static void what_has_not_been_written_is_read_from_the_source(void **state)
{
    static const int64_t source[3] = {10, 20, 30};
    struct tt_descriptor d[2] = {
        {.triggers = true, .destination_node = 12, .address_bytes = 8, .length_bytes = 8, .from_source = true},
        {.source_count = 2,
         .sources = {11, 13},
         .reduce = true,
         .triggers = true,
         .destination_node = 14,
         .address_bytes = 16,
         .length_bytes = 8,
         .from_source = true}};
    int64_t operand = 5;

    (void)state;
    /* The buffer is the third element only, and nothing of it is sent or added before it has been written. */
    assert_int_equal(post_from(source, d, 2, 16, 8), TUTTI_OK);
    struct tt_offload_action sent = *offload_fixture_sent(&f, 0);

    assert_true(sent.payload == source + 1);
    buffer[0] = -1;
    assert_int_equal(take(offload_fixture_data(11, 0, 0, 8), &operand), TT_TRIGGER_ACCEPTED);
    assert_int_equal(buffer[0], 35);
    assert_int_equal(take(offload_fixture_data(13, 0, 1, 8), &operand), TT_TRIGGER_ACCEPTED);
    assert_true(buffer[0] == 40 && buffer[1] == 1 && source[2] == 30);
    struct tt_offload_action second = *offload_fixture_sent(&f, 0);

    assert_true(second.payload == buffer && second.node == 14);
    assert_int_equal(offload_fixture_answer(&f, &sent, TT_TRIGGER_ACCEPTED), TUTTI_OK);
    assert_int_equal(offload_fixture_answer(&f, &second, TT_TRIGGER_ACCEPTED), TUTTI_OK);
    assert_int_equal(offload_fixture_ended(&f, 0)->status, TUTTI_OK);
}

static void posts_that_reach_outside_a_part_or_the_source_are_refused(void **state)
{
    static const int64_t source[3] = {10, 20, 30};
    struct tt_descriptor d = {
        .source_count = 1, .sources = {11}, .reduce = true, .address_bytes = 8, .length_bytes = 8, .from_source = true};

    (void)state;
    assert_int_equal(post_from(source, &d, 1, 16, 8), TUTTI_ERR_INVALID_ARGUMENT); /* below */
    assert_int_equal(post_from(source, &d, 1, 0, 8), TUTTI_ERR_INVALID_ARGUMENT);  /* behind */
    assert_int_equal(post_from(source, &d, 1, 12, 8), TUTTI_ERR_INVALID_ARGUMENT); /* across its begin */
    d.address_bytes = 24;
    assert_int_equal(post_from(source, &d, 1, 24, 8), TUTTI_ERR_INVALID_ARGUMENT); /* behind the source */
    d.from_source = false;
    assert_int_equal(post_from(source, &d, 1, 24, 8), TUTTI_OK);
    tt_offload_close_port(f.offload, 0, TUTTI_ERR_CANCELED);
    offload_fixture_tick(&f, 0);
    assert_int_equal(tt_offload_open_port(f.offload, 0), TUTTI_OK);
    /* An address that comes with a packet must be inside too. */
    d.address_bytes = 8;
    assert_int_equal(post_from(source, &d, 1, 8, 8), TUTTI_OK);
    struct tt_trigger_packet packet = offload_fixture_data(11, 0, 0, 8);

    packet.collective_end = packet.swap_address = true;
    assert_int_equal(take(packet, source), TT_TRIGGER_ACCEPTED);
    assert_int_equal(offload_fixture_ended(&f, 0)->status, TUTTI_ERR_PROTOCOL);
}

int main(void)
{
#define WITH_ROOM(test) cmocka_unit_test_setup_teardown(test, open_with_room, close_fixture)
    const struct CMUnitTest tests[] = {
        WITH_ROOM(long_operand_is_announced_and_a_short_one_sent),
        WITH_ROOM(packet_that_is_read_next_is_fetched_into_its_operand_and_then_accepted),
        WITH_ROOM(early_references_are_kept_unanswered_and_fetched_in_their_turn),
        WITH_ROOM(operand_of_a_reduction_is_fetched_apart),
        WITH_ROOM(data_that_lies_elsewhere_is_read_from_there),
        WITH_ROOM(data_that_lies_elsewhere_is_kept_apart_while_the_own_operand_is_being_sent),
        WITH_ROOM(data_is_fetched_and_accepted_while_the_own_operand_is_still_being_sent),
        WITH_ROOM(what_is_apart_from_all_that_is_being_sent_is_read_at_once),
        cmocka_unit_test(port_that_waits_to_send_fetches_what_it_reads_next),
        cmocka_unit_test(full_buffer_refuses_references_but_never_the_next_one),
        WITH_ROOM(port_that_is_closed_while_it_fetches_ends_afterwards),
        WITH_ROOM(data_that_cannot_be_fetched_closes_the_port),
        WITH_ROOM(references_that_a_closed_port_has_kept_are_accepted),
        WITH_ROOM(ranks_that_disagree_are_found_when_the_packet_is_read),
        WITH_ROOM(packets_that_are_not_as_the_terms_have_it_are_strays),
        WITH_ROOM(memory_of_units_does_not_grow_with_packets_that_are_announced),
        WITH_ROOM(what_has_not_been_written_is_read_from_the_source),
        WITH_ROOM(posts_that_reach_outside_a_part_or_the_source_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
