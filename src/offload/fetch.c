/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: data that is not in its packet, fetched when the packet is the one that its port reads next.
 *
 * Normal path: the action FETCH, with a copy of the reference that stays until it is answered, and a destination: the
 * operand if the data merely replaces it and nobody reads it any more, else the port's own place, which is free as only
 * the packet that is read next is ever in it. FETCHED: the packet is accepted, and read or waits to be read.
 *
 * Failures: what cannot be fetched closes the port. A port that is closed meanwhile waits, as its buffer is written.
 */
#include <assert.h>
#include <string.h>

#include "offload/offload_private.h"

void tt_port_fetch(struct tt_offload *offload, struct tt_port *port, const struct tt_trigger_packet *packet,
                   const void *reference, struct tt_offload_actions *actions)
{
    void *operand = tt_port_can_read(offload, port, packet) ? tt_port_replaced(port, packet) : NULL;

    assert(!port->is_apart && actions->count < actions->capacity);
    port->kept++;
    port->is_apart = port->is_fetching = true;
    port->apart = *packet;
    port->destination = operand != NULL ? operand : port->apart_payload;
    memcpy(port->reference, reference, packet->reference_bytes);
    offload->counters.fetched++;
    offload->counters.fetched_apart += operand == NULL;
    actions->actions[actions->count++] = (struct tt_offload_action){
        .kind = TT_OFFLOAD_FETCH,
        .node = packet->node,
        .packet = *packet,
        .payload = port->reference,
        .destination = port->destination,
        .port = (uint16_t)tt_offload_port_index(offload, port),
    };
}

void tt_port_fetched(struct tt_offload *offload, struct tt_port *port, tutti_status status, const void *payload,
                     struct tt_offload_actions *actions)
{
    assert(port->is_fetching && port->is_apart);
    port->is_fetching = false;
#ifndef TT_FAULT_OFFLOAD_EARLY_ACCEPT
    tt_offload_answer(offload, &port->apart, true, actions);
#endif
    if (port->status != TUTTI_OK || status != TUTTI_OK) {
        tt_port_close(offload, port, port->status != TUTTI_OK ? port->status : status);
        return;
    }
    if (payload == NULL) {
        payload = port->destination;
    } else if (port->destination == port->apart_payload && !tt_port_can_read(offload, port, &port->apart)) {
        payload = memcpy(port->apart_payload, payload, port->apart.length_bytes);
    }
    if (payload != port->apart_payload) {
        port->is_apart = false;
        port->kept--;
        tt_port_read(offload, port, &port->apart, payload);
    }
    tt_port_wake(offload, port);
}
