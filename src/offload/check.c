/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: what holds in the triggered engine between two steps.
 *
 * Normal path: every port agrees with its unit's list and buffer, every unit with its ports.
 *
 * Failures: an assertion; the library itself calls none of this.
 */
#include <assert.h>

#include "offload/offload_private.h"

static void check_sends(const struct tt_offload *offload, const struct tt_port *port)
{
    uint32_t open = 0, lying = 0, index = tt_offload_port_index(offload, port);

    for (uint32_t i = 0; i < offload->terms.window; i++) {
        const struct tt_open_send *send = &port->sends[i];

        open += send->is_open;
        lying += send->is_open && send->is_lying;
        assert(!send->is_refused || send->is_open);
        assert(!send->is_refused || (offload->refused_ports[index / 64] >> (index % 64) & 1) != 0);
        assert(!send->is_refused || send->due_ns >= offload->retry_due_ns);
        for (uint32_t j = 0; j < i && send->is_open; j++) {
            assert(!port->sends[j].is_open || port->sends[j].node != send->node ||
                   tt_trigger_packet_key(&port->sends[j].packet) != tt_trigger_packet_key(&send->packet));
        }
    }
    assert(open == port->open && lying == port->lying);
    assert(lying == 0 || port->is_running); /* what has ended needs nothing of the poster's */
    (void)open;
    (void)lying;
    (void)index;
}

static void check_sequence(const struct tt_port *port)
{
    if (!port->is_running) {
        return;
    }
    const struct tt_sequence *sequence = tt_port_sequence(port);

    assert(port->queue_count > 0 && port->at <= sequence->count && port->reader <= sequence->count);
    assert(port->reader >= port->at);
    assert(port->at == sequence->count || port->read_here <= port->current.source_count);
    /* CPCount: what has been read is what it says, less what is still to be read here. */
    assert(port->at == sequence->count ||
           (port->read + port->current.source_count - port->read_here) % TT_TRIGGER_COUNTS == port->current.count);
    (void)sequence;
}

/* Packets for a port in the buffer of its unit. */
static uint32_t count_kept(const struct tt_offload *offload, const struct tt_port *port)
{
    const struct tt_buffer *buffer = &offload->units[port->unit].buffer;
    uint32_t kept = 0;

    for (uint32_t slot = 0; slot < buffer->slot_count; slot++) {
        kept += tt_buffer_is_valid(buffer, slot) && buffer->packets[slot].port == tt_offload_port_index(offload, port);
    }
    return kept;
}

/* What is apart is read next; nobody sleeps beside the packet that he waits for. */
static void check_awaited(const struct tt_offload *offload, const struct tt_port *port)
{
    if (port->status != TUTTI_OK) {
        return;
    }
    if (port->is_apart) {
        assert(tt_port_awaits(port) && tt_trigger_packet_key(&port->apart) == tt_port_awaited_key(offload, port));
        assert(port->is_fetching || port->is_ready || !tt_port_can_read(offload, port, &port->apart));
    } else if (tt_port_awaits(port) && !port->is_ready) {
        const struct tt_buffer *buffer = &offload->units[port->unit].buffer;
        uint32_t slot = tt_buffer_find(buffer, tt_port_awaited_key(offload, port));

        assert(slot == TT_BUFFER_NO_SLOT || (buffer->packets[slot].kind == TT_TRIGGER_DATA &&
                                             !tt_port_can_read(offload, port, &buffer->packets[slot])));
        (void)slot;
    }
}

/* What is being fetched goes to the own place, or to where its data may be written at once. */
static void check_fetch(const struct tt_offload *offload, const struct tt_port *port)
{
    if (!port->is_fetching) {
        return;
    }
    assert(port->is_apart && port->is_running && port->apart.kind == TT_TRIGGER_REMOTE);
    assert(
        port->destination == port->apart_payload || port->status != TUTTI_OK ||
        (tt_port_can_read(offload, port, &port->apart) && tt_port_replaced(port, &port->apart) == port->destination));
    (void)offload;
}

static void check_port(const struct tt_offload *offload, const struct tt_port *port)
{
    uint32_t kept = port->is_apart + (port->unit == TT_PORT_NONE || port->kept == 0 ? 0 : count_kept(offload, port));

    assert(kept == port->kept);
    assert((port->unit != TT_PORT_NONE) == (port->is_ready || port->is_running || kept > 0));
    assert(port->queue_count <= offload->terms.queue_length);
    assert(port->queue_count == 0 || port->is_ready || (port->is_running && port->status == TUTTI_OK) ||
           port->is_fetching);
    assert(port->status == TUTTI_OK || (port->open == 0 && (kept == port->is_fetching || port->is_ready)));
    check_awaited(offload, port);
    check_fetch(offload, port);
    check_sends(offload, port);
    check_sequence(port);
    (void)kept;
}

static void check_unit(const struct tt_offload *offload, uint32_t index)
{
    const struct tt_unit *unit = &offload->units[index];
    uint32_t ports = 0, ready = 0, kept = 0, listed = 0, last = TT_PORT_NONE;

    for (uint32_t i = 0; i < offload->terms.port_count; i++) {
        const struct tt_port *port = &offload->ports[i];

        ports += port->unit == index;
        ready += port->unit == index && port->is_ready;
        kept += port->unit == index ? port->kept - port->is_apart : 0;
    }
    for (uint32_t i = unit->first_ready; i != TT_PORT_NONE && listed <= ready; i = offload->ports[i].next_ready) {
        assert(offload->ports[i].is_ready && offload->ports[i].unit == index);
        listed++;
        last = i;
    }
    assert(ports == unit->ports && listed == ready && last == unit->last_ready);
    assert(kept == unit->buffer.used); /* so nobody else's packet is in it */
    tt_buffer_check(&unit->buffer);
    (void)kept;
    (void)ports;
    (void)last;
}

void tt_offload_check(const struct tt_offload *offload)
{
    for (uint32_t i = 0; i < offload->terms.port_count; i++) {
        check_port(offload, &offload->ports[i]);
    }
    for (uint32_t i = 0; i < offload->terms.unit_count; i++) {
        check_unit(offload, i);
    }
}
