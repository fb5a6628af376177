/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: one triggered engine, stepped by hand, see the header.
 *
 * Normal path: every step is followed by the engine's check, and its actions replace those of the step before.
 *
 * Failures: cmocka's.
 */
#include "offload_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST_PORTS = 16 };

static uint8_t written[MOST_PORTS][FIXTURE_MOST_DESCRIPTORS * TT_DESCRIPTOR_BYTES];

struct tt_reduction offload_fixture_sums;

void offload_fixture_init(struct offload_fixture *fixture, uint32_t unit_count, uint32_t slots)
{
    assert_int_equal(tt_reduction_init(&offload_fixture_sums, TT_TYPE_INT64, TT_REDUCE_SUM), TUTTI_OK);
    *fixture = (struct offload_fixture){.capacity = 64};
    fixture->terms = (struct tt_offload_terms){
        .node = FIXTURE_NODE,
        .unit_count = unit_count,
        .port_count = MOST_PORTS,
        .unit_bytes = (uint64_t)slots * (TT_TRIGGER_PACKET_BYTES + FIXTURE_PACKET_BYTES),
        .packet_bytes = FIXTURE_PACKET_BYTES,
        .inline_bytes = FIXTURE_PACKET_BYTES,
        .window = 4,
        .queue_length = 2,
        .retry_ns = 1000,
    };
}

void offload_fixture_open(struct offload_fixture *fixture)
{
    size_t bytes = tt_offload_memory_bytes(&fixture->terms);
    void *memory = malloc(bytes);

    assert_true(bytes > 0 && memory != NULL);
    if (memory == NULL) {
        return;
    }
    memset(memory, 0xEE, bytes); /* it relies on nothing that was there */
    fixture->offload = tt_offload_init(&fixture->terms, memory);
    tt_offload_check(fixture->offload);
}

void offload_fixture_close(struct offload_fixture *fixture)
{
    free(fixture->offload);
}

static tutti_status take_step(struct offload_fixture *fixture, struct tt_offload_event event)
{
    struct tt_offload_actions list = {.actions = fixture->actions, .capacity = fixture->capacity};

    event.now_ns = fixture->now_ns;
    tutti_status status = tt_offload_step(fixture->offload, &event, &list);

    fixture->action_count = list.count;
    tt_offload_check(fixture->offload);
    return status;
}

static tutti_status step(struct offload_fixture *fixture, const struct tt_trigger_packet *packet, const void *payload)
{
    return take_step(fixture, (struct tt_offload_event){.kind = packet == NULL ? TT_OFFLOAD_TICK : TT_OFFLOAD_PACKET,
                                                        .packet = packet,
                                                        .payload = payload});
}

void offload_fixture_tick(struct offload_fixture *fixture, uint64_t now_ns)
{
    fixture->now_ns = now_ns;
    assert_int_equal(step(fixture, NULL, NULL), TUTTI_OK);
}

void offload_fixture_write(struct tt_descriptor *descriptors, uint64_t count, uint16_t port, uint8_t *bytes)
{
    uint64_t read = 0;

    for (uint64_t i = 0; i < count; i++) {
        struct tt_descriptor *d = &descriptors[i];

        read += d->source_count;
        d->collective = true;
        d->head = i == 0;
        d->tail = i + 1 == count;
        d->count = read % TT_TRIGGER_COUNTS;
        d->job = FIXTURE_JOB;
        d->source_port = port;
        tt_descriptor_encode(d, bytes + i * TT_DESCRIPTOR_BYTES);
    }
}

tutti_status offload_fixture_post(struct offload_fixture *fixture, uint16_t port, struct tt_descriptor *descriptors,
                                  uint64_t count, void *buffer, uint64_t buffer_bytes, uint64_t cookie)
{
    assert_true(count <= FIXTURE_MOST_DESCRIPTORS && port < MOST_PORTS);
    offload_fixture_write(descriptors, count, port, written[port]);
    struct tt_sequence sequence = {.descriptors = written[port],
                                   .count = count,
                                   .buffer = buffer,
                                   .buffer_bytes = buffer_bytes,
                                   .reduction = &offload_fixture_sums,
                                   .cookie = cookie};
    tutti_status status = tt_offload_post(fixture->offload, port, &sequence);

    tt_offload_check(fixture->offload);
    if (status == TUTTI_OK) {
        offload_fixture_tick(fixture, fixture->now_ns);
    }
    return status;
}

struct tt_trigger_packet offload_fixture_data(uint32_t node, uint16_t port, uint8_t sequence, uint32_t length_bytes)
{
    return (struct tt_trigger_packet){.kind = TT_TRIGGER_DATA,
                                      .job = FIXTURE_JOB,
                                      .node = node,
                                      .port = port,
                                      .sequence = sequence,
                                      .triggers = true,
                                      .length_bytes = length_bytes};
}

static bool is_answer(const struct tt_offload_action *action)
{
    return action->kind == TT_OFFLOAD_SEND && !tt_trigger_packet_is_data(&action->packet);
}

tutti_status offload_fixture_packet(struct offload_fixture *fixture, const struct tt_trigger_packet *packet,
                                    const void *payload, enum tt_trigger_kind *reply)
{
    tutti_status status = step(fixture, packet, payload);

    *reply = 0;
    if (status == TUTTI_OK &&
        (packet->kind == TT_TRIGGER_DATA || (fixture->action_count > 0 && is_answer(&fixture->actions[0])))) {
        const struct tt_offload_action *action = &fixture->actions[0];

        assert_true(fixture->action_count > 0 && action->kind == TT_OFFLOAD_SEND);
        assert_true(is_answer(action) && action->node == packet->node);
        assert_true(action->packet.job == packet->job && action->packet.sequence == packet->sequence);
        assert_true(action->packet.node == fixture->terms.node && action->packet.port == packet->source_port);
        assert_true(action->packet.source_port == packet->port && !action->packet.triggers);
        *reply = action->packet.kind;
    }
    return status;
}

tutti_status offload_fixture_answer(struct offload_fixture *fixture, const struct tt_offload_action *sent,
                                    enum tt_trigger_kind kind)
{
    struct tt_trigger_packet reply = {.kind = kind,
                                      .job = sent->packet.job,
                                      .node = sent->node,
                                      .port = sent->packet.source_port,
                                      .sequence = sent->packet.sequence,
                                      .source_port = sent->packet.port,
                                      .length_bytes = sent->packet.length_bytes};

    return step(fixture, &reply, NULL);
}

const struct tt_offload_action *offload_fixture_sent(const struct offload_fixture *fixture, uint32_t index)
{
    for (uint32_t i = 0; i < fixture->action_count; i++) {
        const struct tt_offload_action *action = &fixture->actions[i];

        if (action->kind == TT_OFFLOAD_SEND && !is_answer(action) && index-- == 0) {
            return action;
        }
    }
    return NULL;
}

void offload_fixture_fetched(struct offload_fixture *fixture, const struct tt_offload_action *fetch,
                             const void *payload, tutti_status status, enum tt_trigger_kind *reply)
{
    struct tt_offload_action asked = *fetch;

    assert_int_equal(take_step(fixture, (struct tt_offload_event){.kind = TT_OFFLOAD_FETCHED,
                                                                  .port = asked.port,
                                                                  .payload = payload,
                                                                  .status = status}),
                     TUTTI_OK);
    assert_true(fixture->action_count > 0 && is_answer(&fixture->actions[0]));
    assert_int_equal(fixture->actions[0].node, asked.node);
    assert_int_equal(fixture->actions[0].packet.sequence, asked.packet.sequence);
    *reply = fixture->actions[0].packet.kind;
}

const struct tt_offload_action *offload_fixture_fetch(const struct offload_fixture *fixture, uint32_t index)
{
    for (uint32_t i = 0; i < fixture->action_count; i++) {
        if (fixture->actions[i].kind == TT_OFFLOAD_FETCH && index-- == 0) {
            return &fixture->actions[i];
        }
    }
    return NULL;
}

const struct tt_offload_action *offload_fixture_ended(const struct offload_fixture *fixture, uint32_t index)
{
    for (uint32_t i = 0; i < fixture->action_count; i++) {
        if (fixture->actions[i].kind == TT_OFFLOAD_COMPLETE && index-- == 0) {
            return &fixture->actions[i];
        }
    }
    return NULL;
}
