/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: a port's descriptors, in order: reading packets, aggregation (copy, replace, reduce), sending, and the end
 * of the sequence (Xu et al., sections 1.1 and 1.2).
 *
 * Normal path: the first descriptor's packets are read one after the other, each as soon as it is there and nothing
 * that was sent has still to be read from its operand; then its own packet is sent, and the next descriptor has its
 * turn. When all have fired and all that was sent is accepted or copied, the sequence is complete.
 *
 * Failures: a packet that is not what the descriptor is about (length, what is to be done with it, where the
 * collective ends) means that ranks disagree: the port closes.
 */
#include <assert.h>
#include <string.h>

#include "offload/offload_private.h"

uint64_t tt_port_awaited_key(const struct tt_offload *offload, const struct tt_port *port)
{
    return tt_trigger_key(port->awaiting.job, tt_port_awaited_node(port),
                          (uint16_t)tt_offload_port_index(offload, port), port->read % TT_TRIGGER_STEPS);
}

/* --- Units and their lists ---------------------------------------------------------------------------------------- */

static uint64_t load_of(const struct tt_unit *unit)
{
    return (uint64_t)unit->ports + unit->buffer.used;
}

void tt_port_bind(struct tt_offload *offload, struct tt_port *port)
{
    uint32_t least = 0;

    if (port->unit != TT_PORT_NONE) {
        return;
    }
    for (uint32_t i = 1; i < offload->terms.unit_count; i++) {
        if (load_of(&offload->units[i]) < load_of(&offload->units[least])) {
            least = i;
        }
    }
    port->unit = least;
    offload->units[least].ports++;
}

void tt_port_unbind(struct tt_offload *offload, struct tt_port *port)
{
    if (!port->is_ready && !port->is_running && port->kept == 0 && port->unit != TT_PORT_NONE) {
        offload->units[port->unit].ports--;
        port->unit = TT_PORT_NONE;
    }
}

void tt_port_wake(struct tt_offload *offload, struct tt_port *port)
{
    uint32_t index = tt_offload_port_index(offload, port);
    struct tt_unit *unit = &offload->units[port->unit];

    if (port->is_ready) {
        return;
    }
    port->is_ready = true;
    port->next_ready = TT_PORT_NONE;
    if (unit->first_ready == TT_PORT_NONE) {
        unit->first_ready = index;
    } else {
        offload->ports[unit->last_ready].next_ready = index;
    }
    unit->last_ready = index;
}

/* --- One packet --------------------------------------------------------------------------------------------------- */

static bool moves_data(const struct tt_descriptor *descriptor)
{
    return descriptor->reduce || descriptor->swap_local_data;
}

static uint8_t *operand_at(const struct tt_sequence *sequence, uint64_t address_bytes)
{
    return (uint8_t *)sequence->buffer + (address_bytes - sequence->buffer_first);
}

/* Whether what is sent, or reduced with a packet, is still what the source has. */
static bool is_in_source(const struct tt_sequence *sequence, const struct tt_descriptor *descriptor)
{
    return descriptor->from_source && sequence->source != NULL;
}

static const uint8_t *own_data(const struct tt_sequence *sequence, const struct tt_descriptor *descriptor)
{
    return is_in_source(sequence, descriptor) ? (const uint8_t *)sequence->source + descriptor->address_bytes
                                              : operand_at(sequence, descriptor->address_bytes);
}

bool tt_sequence_reaches(const struct tt_sequence *sequence, const struct tt_descriptor *descriptor,
                         uint64_t address_bytes)
{
    uint64_t length_bytes = descriptor->length_bytes;
    bool in_source = length_bytes <= sequence->source_bytes && address_bytes <= sequence->source_bytes - length_bytes;
    bool in_buffer = length_bytes <= sequence->buffer_bytes && address_bytes >= sequence->buffer_first &&
                     address_bytes - sequence->buffer_first <= sequence->buffer_bytes - length_bytes;

    if (is_in_source(sequence, descriptor)) { /* and what it reads is written to the buffer */
        return length_bytes == 0 || (in_source && (in_buffer || descriptor->source_count == 0));
    }
    return length_bytes == 0 || in_buffer;
}

/* TUTTI_OK: the packet is what this descriptor waits for. Sets the address that its data goes to. */
static tutti_status judge(const struct tt_port *port, const struct tt_trigger_packet *packet, uint64_t *address_bytes)
{
    const struct tt_descriptor *d = &port->current;
    bool has_data = moves_data(d) || packet->swap_data;
    /* With CollEndFlag nothing is left to be sent to others (Xu et al., section 1.2). */
    bool ends = d->tail && !d->triggers && port->read_here + 1 == d->source_count;

    if (packet->length_bytes != (has_data ? d->length_bytes : 0) || (d->reduce && packet->swap_data) ||
        packet->collective_end != ends) {
        return TUTTI_ERR_MISMATCH;
    }
    *address_bytes = packet->swap_address ? packet->address_bytes : d->address_bytes;
    if (packet->swap_address && !tt_sequence_reaches(tt_port_sequence(port), d, packet->address_bytes)) {
        return TUTTI_ERR_PROTOCOL;
    }
    return TUTTI_OK;
}

/* Whether a packet that is not accepted yet is read from there. */
static bool is_being_sent(const struct tt_offload *offload, const struct tt_port *port, const void *begin,
                          uint64_t length_bytes)
{
#ifdef TT_FAULT_OFFLOAD_OVERWRITES
    return false;
#endif
    for (uint32_t i = 0; i < offload->terms.window && port->lying > 0; i++) {
        const struct tt_open_send *send = &port->sends[i];

        if (send->is_open && send->is_lying && (uintptr_t)send->payload < (uintptr_t)begin + length_bytes &&
            (uintptr_t)begin < (uintptr_t)send->payload + send->packet.length_bytes) {
            return true;
        }
    }
    return false;
}

bool tt_port_can_read(const struct tt_offload *offload, const struct tt_port *port,
                      const struct tt_trigger_packet *packet)
{
    uint64_t address_bytes;

    if (port->reader != port->at || port->lying == 0 || packet->length_bytes == 0) {
        return port->reader == port->at;
    }
    /* What is none of this descriptor's writes nothing: it closes the port. */
    return judge(port, packet, &address_bytes) != TUTTI_OK ||
           !is_being_sent(offload, port, operand_at(tt_port_sequence(port), address_bytes), packet->length_bytes);
}

void *tt_port_replaced(const struct tt_port *port, const struct tt_trigger_packet *packet)
{
    uint64_t address_bytes;

    if (port->current.reduce || packet->length_bytes == 0 || judge(port, packet, &address_bytes) != TUTTI_OK) {
        return NULL;
    }
    return operand_at(tt_port_sequence(port), address_bytes);
}

static void decode(const struct tt_sequence *sequence, uint64_t index, struct tt_descriptor *descriptor)
{
    if (!tt_descriptor_decode(sequence->descriptors + index * TT_DESCRIPTOR_BYTES, descriptor)) {
        assert(!"the poster changed a descriptor");
    }
}

/* Finds the next descriptor that reads, from `from` on. */
static void find_reader(struct tt_port *port, uint64_t from)
{
    const struct tt_sequence *sequence = tt_port_sequence(port);

    for (port->reader = from; port->reader < sequence->count; port->reader++) {
        decode(sequence, port->reader, &port->awaiting);
        if (port->awaiting.source_count > 0) {
            return;
        }
    }
}

static void take_in(const struct tt_sequence *sequence, struct tt_descriptor *d, const void *payload)
{
    uint8_t *operand = operand_at(sequence, d->address_bytes);
    const void *own = own_data(sequence, d);

    if (d->reduce) {
        tt_reduction_combine(sequence->reduction, operand, d->reduce_before ? payload : own,
                             d->reduce_before ? own : payload, d->length_bytes / sequence->reduction->element_bytes);
    } else if (operand != payload) {
        memcpy(operand, payload, d->length_bytes);
    }
    d->from_source = false;
}

void tt_port_read(struct tt_offload *offload, struct tt_port *port, const struct tt_trigger_packet *packet,
                  const void *payload)
{
    struct tt_descriptor *d = &port->current;
    uint64_t address_bytes;
    tutti_status status = judge(port, packet, &address_bytes);

    if (status != TUTTI_OK) {
        tt_port_close(offload, port, status);
        return;
    }
    d->address_bytes = address_bytes;
    if (d->swap_local_vp) {
        d->destination_port = packet->source_port;
    }
    if (packet->length_bytes > 0) {
        take_in(tt_port_sequence(port), d, payload);
    }
    offload->counters.read++;
    port->read_here++;
    port->read++;
    if (port->read_here == d->source_count) {
        find_reader(port, port->at + 1);
    }
}

static bool find_awaited(const struct tt_offload *offload, const struct tt_port *port, uint32_t *slot)
{
    uint64_t key = tt_port_awaited_key(offload, port);

    *slot = TT_BUFFER_NO_SLOT;
    if (port->is_apart && tt_trigger_packet_key(&port->apart) == key) {
        return true;
    }
    *slot = tt_buffer_find(&offload->units[port->unit].buffer, key);
#ifdef TT_FAULT_OFFLOAD_ANY_ORDER
    const struct tt_buffer *buffer = &offload->units[port->unit].buffer;

    for (uint32_t i = 0; i < buffer->slot_count; i++) {
        if (tt_buffer_is_valid(buffer, i) && buffer->packets[i].port == tt_offload_port_index(offload, port) &&
            buffer->packets[i].kind == TT_TRIGGER_DATA) {
            *slot = i;
        }
    }
#endif
    return *slot != TT_BUFFER_NO_SLOT;
}

/* The packet that is read next, if it is kept: it is read, or, if it is a REMOTE one, its data is fetched. False: it is
 * not here, or must wait. */
static bool take_kept(struct tt_offload *offload, struct tt_port *port, struct tt_offload_actions *actions)
{
    struct tt_buffer *buffer = &offload->units[port->unit].buffer;
    uint32_t slot;

    if (port->kept == 0 || port->is_fetching || !find_awaited(offload, port, &slot)) {
        return false;
    }
    bool is_apart = slot == TT_BUFFER_NO_SLOT;
    const struct tt_trigger_packet *packet = is_apart ? &port->apart : &buffer->packets[slot];
    const void *payload = is_apart ? port->apart_payload : tt_buffer_payload(buffer, slot);
    bool is_reference = packet->kind == TT_TRIGGER_REMOTE && !is_apart;

    if (!is_reference && !tt_port_can_read(offload, port, packet)) {
        return false;
    }
    /* It is no longer kept when it is read, as closing drops what is; its bytes stay where they are. */
    port->kept--;
    if (is_apart) {
        port->is_apart = false;
    } else {
        tt_buffer_free_slot(buffer, slot);
    }
    if (is_reference) {
        tt_port_fetch(offload, port, packet, payload, actions);
        return false;
    }
    tt_port_read(offload, port, packet, payload);
    return true;
}

/* --- One descriptor ----------------------------------------------------------------------------------------------- */

static void begin(struct tt_port *port)
{
    port->is_running = true;
    port->at = 0;
    port->read_here = 0;
    port->read = 0;
    find_reader(port, 0);
    if (port->reader == 0) {
        port->current = port->awaiting;
    } else {
        decode(tt_port_sequence(port), 0, &port->current);
    }
}

static void go_on(struct tt_offload *offload, struct tt_port *port)
{
    const struct tt_sequence *sequence = tt_port_sequence(port);

    offload->counters.fired++;
    port->at++;
    port->read_here = 0;
    if (port->at == port->reader && port->at < sequence->count) {
        port->current = port->awaiting;
    } else if (port->at < sequence->count) {
        decode(sequence, port->at, &port->current);
    }
}

/* A place for a packet that may be sent now, or NULL. Two packets with one key must not be under way together: the
 * second might be taken for the first. */
static struct tt_open_send *find_place(const struct tt_offload *offload, struct tt_port *port,
                                       const struct tt_trigger_packet *packet, uint32_t node)
{
    struct tt_open_send *place = NULL;

    for (uint32_t i = 0; i < offload->terms.window; i++) {
        struct tt_open_send *send = &port->sends[i];

        if (!send->is_open) {
            place = place == NULL ? send : place;
        } else if (send->node == node && tt_trigger_packet_key(&send->packet) == tt_trigger_packet_key(packet)) {
            return NULL;
        }
    }
    return place;
}

/* Notes a packet of the current descriptor that is under way. If there is a place for a copy of it, it may be sent
 * again from there, and nobody waits for the answer but the next packet with its key; what is longer is read by others
 * from where it is. */
static void open_send(struct tt_offload *offload, struct tt_port *port, struct tt_open_send *send,
                      const struct tt_trigger_packet *packet)
{
    uint64_t length_bytes = port->current.length_bytes, index = (uint64_t)(send - port->sends);
    bool is_copied = length_bytes <= offload->terms.inline_bytes && index < offload->terms.copies;
    const void *data = length_bytes > 0 ? own_data(tt_port_sequence(port), &port->current) : NULL;
    uint8_t *copy = port->copies + index * tt_offload_aligned(offload->terms.inline_bytes);

    *send = (struct tt_open_send){.is_open = true, .node = port->current.destination_node, .packet = *packet};
    send->packet.is_copied = is_copied;
    send->is_lying = !is_copied;
    send->payload = data;
    if (is_copied && data != NULL) {
        memcpy(copy, data, length_bytes);
        send->payload = copy;
    }
    port->open++;
    port->lying += send->is_lying;
    offload->counters.sent++;
}

/* False: it has to wait until an earlier packet is accepted. */
static bool send_own(struct tt_offload *offload, struct tt_port *port, struct tt_offload_actions *actions)
{
    const struct tt_descriptor *d = &port->current;
    struct tt_trigger_packet packet = {
        .kind = d->length_bytes > offload->terms.inline_bytes ? TT_TRIGGER_REMOTE : TT_TRIGGER_DATA,
        .job = d->job,
        .node = offload->terms.node,
        .port = d->destination_port,
        .sequence = d->sequence,
        .source_port = d->source_port,
        .triggers = true,
        .swap_data = d->swap_remote_data,
        .swap_address = d->swap_remote_address,
        .collective_end = d->collective_end,
        .length_bytes = (uint32_t)d->length_bytes,
        .address_bytes = d->swap_remote_address ? d->address_bytes : 0,
    };
    struct tt_open_send *send = find_place(offload, port, &packet, d->destination_node);

    if (send == NULL) {
        return false;
    }
    open_send(offload, port, send, &packet);
    tt_offload_send(actions, send->node, &send->packet, send->payload);
    return true;
}

static void end_first(struct tt_offload *offload, struct tt_port *port, struct tt_offload_actions *actions)
{
    actions->actions[actions->count++] = (struct tt_offload_action){
        .kind = TT_OFFLOAD_COMPLETE,
        .port = (uint16_t)tt_offload_port_index(offload, port),
        .cookie = tt_port_sequence(port)->cookie,
        .status = port->status,
    };
    offload->counters.completed++;
    port->is_running = false;
    port->queue_first = (port->queue_first + 1) % offload->terms.queue_length;
    port->queue_count--;
}

/* Drops what is kept in the buffer for a closed port, up to one that has still to be answered. */
static void drop_kept(struct tt_offload *offload, struct tt_port *port, struct tt_offload_actions *actions)
{
    struct tt_buffer *buffer = &offload->units[port->unit].buffer;

    for (uint32_t slot = 0; slot < buffer->slot_count; slot++) {
        if (tt_buffer_is_valid(buffer, slot) && buffer->packets[slot].port == tt_offload_port_index(offload, port)) {
            tt_buffer_free_slot(buffer, slot);
            port->kept--;
            if (buffer->packets[slot].kind == TT_TRIGGER_REMOTE) {
                tt_offload_answer(offload, &buffer->packets[slot], true, actions);
                return;
            }
        }
    }
}

static bool advance_closed(struct tt_offload *offload, struct tt_port *port, struct tt_offload_actions *actions)
{
    if (port->kept > port->is_apart) {
        drop_kept(offload, port, actions);
        return true;
    }
    if (port->is_fetching || port->queue_count == 0) {
        return false;
    }
    end_first(offload, port, actions);
    return true;
}

/* True: something was done, and there may be more to do at once. */
static bool advance(struct tt_offload *offload, struct tt_port *port, struct tt_offload_actions *actions)
{
    if (port->status != TUTTI_OK) {
        return advance_closed(offload, port, actions);
    }
    if (port->queue_count == 0) {
        return false;
    }
    if (!port->is_running) {
        begin(port);
        return true;
    }
    if (port->at == tt_port_sequence(port)->count) {
#ifndef TT_FAULT_OFFLOAD_EARLY_END
        if (port->lying > 0) {
            return false;
        }
#endif
        end_first(offload, port, actions);
        return true;
    }
    if (port->read_here < port->current.source_count) {
        return take_kept(offload, port, actions);
    }
    if (port->current.triggers && !send_own(offload, port, actions)) {
        /* Whoever waits to be accepted here must not be kept waiting, or all may wait in a circle. */
        return tt_port_awaits(port) && take_kept(offload, port, actions);
    }
    go_on(offload, port);
    return true;
}

void tt_port_advance(struct tt_offload *offload, struct tt_port *port, struct tt_offload_actions *actions)
{
    bool moved = advance(offload, port, actions);

    tt_port_unbind(offload, port);
    if (moved && (port->queue_count > 0 || port->kept > 0)) {
        tt_port_bind(offload, port);
        tt_port_wake(offload, port);
    } else if (port->is_running) {
        offload->counters.suspended++;
    }
}

/* --- Closing ------------------------------------------------------------------------------------------------------ */

void tt_port_close(struct tt_offload *offload, struct tt_port *port, tutti_status status)
{
    port->status = status;
    if (!port->is_fetching) {
        port->kept -= port->is_apart;
        port->is_apart = false;
    }
    for (uint32_t i = 0; i < offload->terms.window; i++) {
        port->sends[i].is_open = port->sends[i].is_refused = false;
    }
    port->open = port->lying = 0;
    if (port->queue_count > 0 || port->kept > 0) {
        tt_port_bind(offload, port);
        tt_port_wake(offload, port);
    } else {
        tt_port_unbind(offload, port);
    }
}
