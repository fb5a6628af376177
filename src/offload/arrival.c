/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: packets and answers that come from other nodes, and packets that have to be sent again.
 *
 * Normal path: the packet that a port waits for is read from where it arrived; one that is early goes to the hash
 * buffer of the port's unit, which the first packet or descriptor chooses for both. Either is ACCEPTED.
 *
 * A REMOTE packet is kept the same way, but answered only when its data has been fetched.
 *
 * Failures: no room, or an earlier packet with the same key is still here: REFUSED, unless the port's sequence reads it
 * next, for which it has a place of its own. A refused packet waits for longer each time. What is for no port, or
 * answers nothing, is a stray.
 */
#include <assert.h>
#include <string.h>

#include "offload/offload_private.h"

enum { MOST_DOUBLINGS = 6 };

void tt_offload_send(struct tt_offload_actions *actions, uint32_t node, const struct tt_trigger_packet *packet,
                     const void *payload)
{
    assert(actions->count < actions->capacity);
    actions->actions[actions->count++] =
        (struct tt_offload_action){.kind = TT_OFFLOAD_SEND, .node = node, .packet = *packet, .payload = payload};
}

void tt_offload_answer(struct tt_offload *offload, const struct tt_trigger_packet *packet, bool accepted,
                       struct tt_offload_actions *actions)
{
    const struct tt_trigger_packet reply = {
        .kind = accepted ? TT_TRIGGER_ACCEPTED : TT_TRIGGER_REFUSED,
        .job = packet->job,
        .node = offload->terms.node,
        .port = packet->source_port,
        .sequence = packet->sequence,
        .source_port = packet->port,
        .is_copied = packet->is_copied,
        .length_bytes = packet->length_bytes,
    };

    offload->counters.accepted += accepted;
    offload->counters.refused += !accepted;
    tt_offload_send(actions, packet->node, &reply, NULL);
}

bool tt_port_keeps(const struct tt_offload *offload, const struct tt_port *port, uint64_t key)
{
    return port->kept > 0 && ((port->is_apart && tt_trigger_packet_key(&port->apart) == key) ||
                              tt_buffer_find(&offload->units[port->unit].buffer, key) != TT_BUFFER_NO_SLOT);
}

/* Keeps a packet in the buffer, or in the port's own place if it may. */
static bool keep(struct tt_offload *offload, struct tt_port *port, const struct tt_trigger_packet *packet,
                 const void *payload, bool may_be_apart)
{
    tt_port_bind(offload, port);
    if (!tt_buffer_put(&offload->units[port->unit].buffer, packet, payload)) {
#ifdef TT_FAULT_OFFLOAD_NO_OWN_PLACE
        return false;
#endif
        if (!may_be_apart || port->is_apart) {
            return false;
        }
        port->is_apart = true;
        port->apart = *packet;
        if (packet->length_bytes > 0) {
            memcpy(port->apart_payload, payload, packet->length_bytes);
        }
        offload->counters.kept_apart++;
    }
    port->kept++;
    return true;
}

/* What a packet is answered with now. */
enum reply { ACCEPT, REFUSE, NOTHING_YET };

/* The reference that comes instead of data. */
static enum reply take_reference(struct tt_offload *offload, struct tt_port *port,
                                 const struct tt_trigger_packet *packet, const void *reference, bool is_next,
                                 struct tt_offload_actions *actions)
{
#ifdef TT_FAULT_OFFLOAD_EARLY_ACCEPT
    if (keep(offload, port, packet, reference, false)) {
        tt_port_wake(offload, port);
        return ACCEPT;
    }
    return REFUSE;
#endif
    if (is_next && !port->is_apart) {
        tt_port_fetch(offload, port, packet, reference, actions);
        return NOTHING_YET;
    }
    return keep(offload, port, packet, reference, false) ? NOTHING_YET : REFUSE;
}

static enum reply take_data(struct tt_offload *offload, const struct tt_trigger_packet *packet, const void *payload,
                            struct tt_offload_actions *actions)
{
    struct tt_port *port = &offload->ports[packet->port];
    uint64_t key = tt_trigger_packet_key(packet);

#ifdef TT_FAULT_NODES_OF_SIX_BITS
    key = tt_trigger_key(packet->job, packet->node % 64, packet->port, packet->sequence);
#endif
    if (port->status != TUTTI_OK) {
        return ACCEPT;
    }
    bool is_next = tt_port_awaits(port) && key == tt_port_awaited_key(offload, port);

#ifndef TT_FAULT_OFFLOAD_SAME_KEY
    if (tt_port_keeps(offload, port, key)) {
        return REFUSE;
    }
#endif
    if (packet->kind == TT_TRIGGER_REMOTE) {
        return take_reference(offload, port, packet, payload, is_next, actions);
    }
    if (is_next && tt_port_can_read(offload, port, packet)) {
        tt_port_read(offload, port, packet, payload);
        offload->counters.read_at_once++;
    } else if (!keep(offload, port, packet, payload, is_next)) {
#ifdef TT_FAULT_OFFLOAD_DROPS_WHEN_FULL
        return ACCEPT;
#endif
        return REFUSE;
    }
#ifndef TT_FAULT_OFFLOAD_LOST_WAKE
    if (is_next) {
        tt_port_wake(offload, port);
    }
#endif
    return ACCEPT;
}

/* --- Answers ------------------------------------------------------------------------------------------------------ */

static struct tt_open_send *find_send(const struct tt_offload *offload, struct tt_port *port,
                                      const struct tt_trigger_packet *reply)
{
    for (uint32_t i = 0; i < offload->terms.window; i++) {
        struct tt_open_send *send = &port->sends[i];

        if (send->is_open && !send->is_refused && send->node == reply->node && send->packet.job == reply->job &&
            send->packet.port == reply->source_port && send->packet.sequence == reply->sequence) {
            return send;
        }
    }
    return NULL;
}

bool tt_offload_awaits(const struct tt_offload *offload, const struct tt_trigger_packet *answer)
{
    return answer->port < offload->terms.port_count &&
           find_send(offload, &offload->ports[answer->port], answer) != NULL;
}

static tutti_status take_answer(struct tt_offload *offload, const struct tt_trigger_packet *reply)
{
    struct tt_port *port = &offload->ports[reply->port];
    struct tt_open_send *send = find_send(offload, port, reply);

    if (send == NULL) {
        /* A closed port has forgotten what it sent. */
        offload->counters.stray++;
        return port->status == TUTTI_OK ? TUTTI_ERR_PROTOCOL : TUTTI_OK;
    }
    if (reply->kind == TT_TRIGGER_ACCEPTED) {
        send->is_open = false;
        port->open--;
        port->lying -= send->is_lying;
        if (port->is_running) { /* else it was of a sequence that has ended */
            tt_port_wake(offload, port);
        }
        return TUTTI_OK;
    }
    uint32_t index = tt_offload_port_index(offload, port);

    send->is_refused = true;
    send->due_ns =
        offload->now_ns + (offload->terms.retry_ns << (send->tries < MOST_DOUBLINGS ? send->tries : MOST_DOUBLINGS));
    send->tries++;
    offload->refused_ports[index / 64] |= UINT64_C(1) << (index % 64);
    offload->retry_due_ns = send->due_ns < offload->retry_due_ns ? send->due_ns : offload->retry_due_ns;
    return TUTTI_OK;
}

/* Whether it is as this node's terms have it: what is longer than inline_bytes comes by reference, and only that. */
static bool is_expected(const struct tt_offload_terms *terms, const struct tt_trigger_packet *packet)
{
    bool is_remote = packet->kind == TT_TRIGGER_REMOTE, is_data = tt_trigger_packet_is_data(packet);

    return packet->port < terms->port_count && packet->length_bytes <= terms->packet_bytes &&
           packet->triggers == is_data && (!is_data || is_remote == (packet->length_bytes > terms->inline_bytes)) &&
           (!is_remote || (packet->reference_bytes >= 1 && packet->reference_bytes <= TT_TRIGGER_MAX_REFERENCE_BYTES));
}

tutti_status tt_offload_take(struct tt_offload *offload, const struct tt_trigger_packet *packet, const void *payload,
                             struct tt_offload_actions *actions)
{
    if (!is_expected(&offload->terms, packet)) {
        offload->counters.stray++;
        return TUTTI_ERR_PROTOCOL;
    }
    if (!tt_trigger_packet_is_data(packet)) {
        return take_answer(offload, packet);
    }
    enum reply reply = take_data(offload, packet, payload, actions);

    tt_port_unbind(offload, &offload->ports[packet->port]);
    if (reply != NOTHING_YET) {
        tt_offload_answer(offload, packet, reply == ACCEPT, actions);
    }
    return TUTTI_OK;
}

/* --- Again -------------------------------------------------------------------------------------------------------- */

/* Sends a port's packets that are due. Returns when the next one is, or 0 if there is no room for more actions. */
static uint64_t repeat_port(struct tt_offload *offload, struct tt_port *port, struct tt_offload_actions *actions)
{
    uint64_t due_ns = UINT64_MAX;

    for (uint32_t i = 0; i < offload->terms.window; i++) {
        struct tt_open_send *send = &port->sends[i];

        if (!send->is_refused) {
            continue;
        }
        if (send->due_ns > offload->now_ns) {
            due_ns = send->due_ns < due_ns ? send->due_ns : due_ns;
        } else if (actions->count == actions->capacity) {
            return 0;
        } else {
            send->is_refused = false;
            offload->counters.repeated++;
            tt_offload_send(actions, send->node, &send->packet, send->payload);
        }
    }
    return due_ns;
}

void tt_offload_repeat(struct tt_offload *offload, struct tt_offload_actions *actions)
{
    uint64_t next_ns = UINT64_MAX;

    if (offload->now_ns < offload->retry_due_ns) {
        return;
    }
    for (uint32_t word = 0; word < TT_TRIGGER_PORTS / 64; word++) {
        for (uint64_t bits = offload->refused_ports[word]; bits != 0; bits &= bits - 1) {
            uint32_t bit = (uint32_t)__builtin_ctzll(bits);
            uint64_t due_ns = repeat_port(offload, &offload->ports[word * 64 + bit], actions);

            if (due_ns == UINT64_MAX) {
                offload->refused_ports[word] &= ~(UINT64_C(1) << bit);
            }
            next_ns = due_ns < next_ns ? due_ns : next_ns;
        }
    }
    offload->retry_due_ns = next_ns;
}
