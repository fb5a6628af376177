/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Any bytes as descriptors, packets and frames of the triggered engine, and an engine under a script of posts, packets,
 * answers and fetches from peers that hold to no rules. What decodes must encode to the very bytes it came from. The
 * engine's own check must hold after every step, nothing outside the buffers may change, and every sequence must end
 * once, in its turn.
 */
#include <string.h>

#include "check.h"
#include "offload/offload.h"
#include "script.h"
#include "wire/trigger_frame.h"

enum { PORTS = 4, QUEUE = 2, MOST = 4, BUFFER = 128, MARGIN = 32, PACKET = 64, SENT = 32, MEMORY = 40960 };

struct port {
    uint8_t descriptors[QUEUE][MOST * TT_DESCRIPTOR_BYTES];
    _Alignas(16) uint8_t memory[MARGIN + BUFFER + MARGIN];
    uint8_t source[BUFFER];
    uint64_t posted, ended;
    struct tt_offload_action fetch; /* under way, if it is one */
    bool is_fetching;
};

static struct world {
    struct tt_offload *offload;
    struct port ports[PORTS];
    struct tt_offload_action sent[SENT]; /* data packets, the latest ones */
    uint32_t sent_count;
    uint64_t now_ns;
    uint32_t capacity;
    _Alignas(16) uint8_t memory[MEMORY];
} world;

static void flip(void *destination, const void *left, const void *right, uint64_t count, void *context)
{
    uint8_t *results = destination;
    const uint8_t *bytes = left, *others = right;

    (void)context;
    for (uint64_t i = 0; i < 4 * count; i++) {
        results[i] = bytes[i] ^ others[i];
    }
}

static const struct tt_reduction reduction = {
    .type = TT_TYPE_OPAQUE, .element_bytes = 4, .is_commutative = true, .function = flip};

/* --- Decoders ----------------------------------------------------------------------------------------------------- */

static void check_frame(const uint8_t *data, size_t size)
{
    struct tt_trigger_frame frame;
    struct tt_trigger_slot slot;
    uint8_t again[TT_TRIGGER_MAX_REFERENCE_BYTES], head[TT_TRIGGER_FRAME_HEAD_BYTES];

    if (tt_trigger_slot_decode(data, (uint32_t)size, &slot)) {
        FUZZ_CHECK(tt_trigger_slot_encode(&slot, again) == size && memcmp(again, data, size) == 0);
    }
    if (tt_trigger_frame_decode(data, size, &frame)) {
        FUZZ_CHECK(frame.piece == data + sizeof(head) && sizeof(head) + frame.piece_bytes == size);
        FUZZ_CHECK((uint64_t)frame.offset_bytes + frame.piece_bytes <= tt_trigger_packet_payload_bytes(&frame.packet));
        tt_trigger_frame_encode(&frame, head);
        FUZZ_CHECK(memcmp(head, data, sizeof(head)) == 0);
    }
}

static void check_decoders(const uint8_t *data, size_t size)
{
    struct tt_descriptor descriptor;
    struct tt_trigger_packet packet;
    uint8_t again[TT_DESCRIPTOR_BYTES];

    if (size >= TT_DESCRIPTOR_BYTES && tt_descriptor_decode(data, &descriptor)) {
        tt_descriptor_encode(&descriptor, again);
        FUZZ_CHECK(memcmp(again, data, TT_DESCRIPTOR_BYTES) == 0);
    }
    if (tt_trigger_packet_decode(data, size, &packet)) {
        FUZZ_CHECK(size >= TT_TRIGGER_PACKET_BYTES);
        FUZZ_CHECK(tt_trigger_packet_payload_bytes(&packet) == size - TT_TRIGGER_PACKET_BYTES);
        tt_trigger_packet_encode(&packet, again);
        FUZZ_CHECK(memcmp(again, data, TT_TRIGGER_PACKET_BYTES) == 0);
    }
    check_frame(data, size);
}

/* --- The engine --------------------------------------------------------------------------------------------------- */

static uint8_t reference[TT_TRIGGER_MAX_REFERENCE_BYTES + 1];

static bool lies_in(const uint8_t *memory, size_t bytes, const uint8_t *at, uint32_t length)
{
    return at >= memory && at + length <= memory + bytes;
}

/* In the port's buffer or in the engine's places, or what is sent in its source. */
static bool is_where(const struct port *port, const uint8_t *at, uint32_t length, bool is_sent)
{
    return lies_in(port->memory + MARGIN, BUFFER, at, length) || lies_in(world.memory, MEMORY, at, length) ||
           (is_sent && lies_in(port->source, BUFFER, at, length));
}

static void take_action(const struct tt_offload_action *action)
{
    if (action->kind == TT_OFFLOAD_COMPLETE) {
        struct port *port = &world.ports[action->port];

        FUZZ_CHECK(action->port < PORTS && port->ended < port->posted && action->cookie == port->ended);
        FUZZ_CHECK(!port->is_fetching);
        port->ended++;
    } else if (action->kind == TT_OFFLOAD_FETCH) {
        struct port *port = &world.ports[action->port];

        FUZZ_CHECK(!port->is_fetching && is_where(port, action->destination, action->packet.length_bytes, false));
        FUZZ_CHECK(memcmp(action->payload, reference, action->packet.reference_bytes) == 0);
        memset(action->destination, 0xDD, action->packet.length_bytes);
        port->fetch = *action;
        port->is_fetching = true;
    } else if (tt_trigger_packet_is_data(&action->packet)) {
        const struct port *port = &world.ports[action->packet.source_port];
        uint32_t length = action->packet.length_bytes;

        FUZZ_CHECK(length == 0 || is_where(port, action->payload, length, true));
        world.sent[world.sent_count++ % SENT] = *action;
    }
}

static void take_step(struct tt_offload_event event)
{
    struct tt_offload_action actions[8];
    struct tt_offload_actions list = {.actions = actions, .capacity = world.capacity};

    event.now_ns = world.now_ns;
    tt_offload_step(world.offload, &event, &list);
    tt_offload_check(world.offload);
    for (uint32_t i = 0; i < list.count; i++) {
        take_action(&actions[i]);
    }
    for (uint32_t i = 0; i < PORTS; i++) {
        for (uint32_t j = 0; j < MARGIN; j++) {
            FUZZ_CHECK(world.ports[i].memory[j] == 0xCA && world.ports[i].memory[MARGIN + BUFFER + j] == 0xCA);
        }
    }
}

static void step(const struct tt_trigger_packet *packet, const void *payload)
{
    take_step((struct tt_offload_event){
        .kind = packet == NULL ? TT_OFFLOAD_TICK : TT_OFFLOAD_PACKET, .packet = packet, .payload = payload});
}

static _Alignas(16) uint8_t fetched[PACKET]; /* as if in a slot */

static void answer_fetch(uint32_t index, tutti_status status)
{
    struct port *port = &world.ports[index];

    if (port->is_fetching) {
        FUZZ_CHECK(memcmp(port->fetch.payload, reference, port->fetch.packet.reference_bytes) == 0);
        const void *slot = index % 2 == 1 ? memset(fetched, 0x11, sizeof(fetched)) : NULL;
        if (slot == NULL) {
            memset(port->fetch.destination, 0x11, port->fetch.packet.length_bytes);
        }
        port->is_fetching = false;
        take_step((struct tt_offload_event){
            .kind = TT_OFFLOAD_FETCHED, .port = (uint16_t)index, .payload = slot, .status = status});
    }
}

static struct tt_descriptor draw_descriptor(struct script *script, uint32_t port, uint32_t *read)
{
    uint32_t bits = (uint32_t)script_take(script, 2);
    struct tt_descriptor d = {
        .collective = true,
        .triggers = bits & 1,
        .swap_local_data = bits >> 1 & 1,
        .swap_local_vp = bits >> 2 & 1,
        .swap_remote_data = bits >> 3 & 1,
        .swap_remote_address = bits >> 4 & 1,
        .reduce = (bits >> 5 & 1) && !(bits >> 1 & 1),
        .reduce_before = bits >> 6 & 1,
        .collective_end = bits >> 7 & 1,
        .source_count = bits >> 8 & 3,
        .job = (uint8_t)(bits >> 10 & 1),
        .sequence = (uint8_t)(bits >> 11 & 3),
        .source_port = (uint16_t)port,
        .destination_node = bits >> 13 & 3,
        .destination_port = bits >> 15 & 1,
        .from_source = bits >> 12 & 1,
        .length_bytes = 4 * (uint64_t)script_below(script, 18),
    };

    d.address_bytes = script_below(script, 132);
    for (uint32_t i = 0; i < d.source_count; i++) {
        d.sources[i] = script_below(script, 4);
    }
    *read += d.source_count;
    d.count = *read % TT_TRIGGER_COUNTS;
    return d;
}

static void post(struct script *script)
{
    uint32_t index = script_below(script, PORTS), count = 1 + script_below(script, MOST), read = 0;
    struct port *port = &world.ports[index];
    uint8_t *descriptors = port->descriptors[port->posted % QUEUE];

    if (port->posted - port->ended == QUEUE) {
        return; /* the engine still reads them */
    }
    for (uint32_t i = 0; i < count; i++) {
        struct tt_descriptor d = draw_descriptor(script, index, &read);

        d.head = i == 0;
        d.tail = i + 1 == count;
        tt_descriptor_encode(&d, descriptors + (size_t)i * TT_DESCRIPTOR_BYTES);
    }
    if (script_below(script, 8) == 0) { /* a bit that may be anything */
        descriptors[script_below(script, count * TT_DESCRIPTOR_BYTES)] ^= (uint8_t)(1U << script_below(script, 8));
    }
    struct tt_sequence sequence = {.descriptors = descriptors,
                                   .count = count,
                                   .buffer = port->memory + MARGIN,
                                   .buffer_bytes = BUFFER,
                                   .source_bytes = BUFFER,
                                   .reduction = script_below(script, 8) == 0 ? NULL : &reduction,
                                   .cookie = port->posted};

    if (script_below(script, 2) == 0) {
        sequence.source = port->source;
    }
    if (script_below(script, 4) == 0) { /* a part of it */
        sequence.buffer_first = script_below(script, BUFFER);
        sequence.buffer = port->memory + MARGIN + sequence.buffer_first;
        sequence.buffer_bytes -= sequence.buffer_first;
    }
    port->posted += tt_offload_post(world.offload, (uint16_t)index, &sequence) == TUTTI_OK;
    step(NULL, NULL);
}

static void send_data(struct script *script)
{
    static _Alignas(16) uint8_t payload[2 * PACKET];
    uint32_t bits = (uint32_t)script_take(script, 2);
    struct tt_trigger_packet packet = {
        .kind = TT_TRIGGER_DATA,
        .job = bits & 1,
        .node = bits >> 1 & 3,
        .port = (uint16_t)((bits >> 3 & 7) == 7 ? 2047 : bits >> 3 & 3),
        .sequence = (uint8_t)(bits >> 6 & 3),
        .source_port = (uint16_t)(bits >> 8 & 1),
        .triggers = (bits >> 9 & 7) != 7,
        .swap_data = bits >> 12 & 1,
        .swap_address = bits >> 13 & 1,
        .collective_end = bits >> 14 & 1,
        .is_copied = bits >> 15 & 1,
        .length_bytes = 4 * script_below(script, 18),
    };

    if (packet.swap_address) {
        packet.address_bytes = script_below(script, 8) == 0 ? script_take(script, 8) : script_below(script, 132);
    }
    if (script_below(script, 2) == 0) {
        packet.kind = TT_TRIGGER_REMOTE;
        packet.reference_bytes = (uint16_t)script_below(script, TT_TRIGGER_MAX_REFERENCE_BYTES + 2);
    }
    step(&packet, packet.kind == TT_TRIGGER_REMOTE ? reference : payload);
}

static void answer(struct script *script)
{
    const struct tt_offload_action *sent = &world.sent[script_below(script, SENT)];
    uint32_t bits = script_below(script, 256);
    struct tt_trigger_packet reply = {
        .kind = (bits & 1) != 0 ? TT_TRIGGER_ACCEPTED : TT_TRIGGER_REFUSED,
        .job = sent->packet.job,
        .node = sent->node,
        .port = sent->packet.source_port,
        .sequence = sent->packet.sequence ^ ((bits >> 1 & 15) == 15),
        .source_port = sent->packet.port,
    };

    step(&reply, NULL);
}

static void command(struct script *script)
{
    uint16_t port;

    switch (script_below(script, 10)) {
    case 0:
    case 1:
        post(script);
        break;
    case 2:
    case 3:
    case 4:
        send_data(script);
        break;
    case 5:
        answer(script);
        break;
    case 6:
    case 7:
        answer_fetch(script_below(script, PORTS), script_below(script, 4) == 0 ? TUTTI_ERR_IO : TUTTI_OK);
        break;
    case 8:
        world.now_ns += script_below(script, 1000);
        step(NULL, NULL);
        break;
    default:
        port = (uint16_t)script_below(script, PORTS);
        if (script_below(script, 2) == 0) {
            tt_offload_close_port(world.offload, port, TUTTI_ERR_CANCELED);
        } else {
            tt_offload_open_port(world.offload, port);
        }
        step(NULL, NULL);
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct script script = {data, data + size};

    check_decoders(data, size);
    memset(reference, 0x5A, sizeof(reference));
    memset(&world, 0, sizeof(world));
    struct tt_offload_terms terms = {.node = 9,
                                     .unit_count = 1 + script_below(&script, 2),
                                     .port_count = PORTS,
                                     .unit_bytes = (TT_TRIGGER_PACKET_BYTES + TT_TRIGGER_MAX_REFERENCE_BYTES) *
                                                   (1 + (uint64_t)script_below(&script, 4)),
                                     .packet_bytes = PACKET,
                                     .inline_bytes =
                                         script_below(&script, 2) == 0 ? PACKET : script_below(&script, PACKET),
                                     .window = 1 + script_below(&script, 3),
                                     .queue_length = QUEUE,
                                     .retry_ns = 100};

    terms.copies = script_below(&script, terms.window + 1);
    FUZZ_CHECK(tt_offload_memory_bytes(&terms) <= MEMORY && tt_offload_memory_bytes(&terms) > 0);
    world.capacity = 1 + script_below(&script, 8);
    world.offload = tt_offload_init(&terms, world.memory);
    for (uint32_t i = 0; i < PORTS; i++) {
        memset(world.ports[i].memory, 0xCA, sizeof(world.ports[i].memory));
        memset(world.ports[i].source, 0xAC, sizeof(world.ports[i].source));
    }
    while (!script_ended(&script)) {
        command(&script);
    }
    for (uint16_t port = 0; port < PORTS; port++) {
        tt_offload_close_port(world.offload, port, TUTTI_ERR_CANCELED);
    }
    for (uint32_t port = 0; port < PORTS; port++) {
        answer_fetch(port, TUTTI_OK);
    }
    while (tt_offload_deadline(world.offload) == 0) {
        step(NULL, NULL);
    }
    for (uint32_t port = 0; port < PORTS; port++) {
        FUZZ_CHECK(world.ports[port].ended == world.ports[port].posted);
        for (uint32_t i = 0; i < BUFFER; i++) {
            FUZZ_CHECK(world.ports[port].source[i] == 0xAC);
        }
    }
    return 0;
}
