/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: the triggered engine's memory, its queues, and its steps.
 *
 * Normal path: a step takes the packet that came, sends again what is due, and then lets the units go on in turn, each
 * with the first port of its list, one descriptor's packet at a time, until nobody can do more or there is no room for
 * actions.
 *
 * Failures: sequences are looked at as a whole when they are posted, and refused before anything of them is executed.
 */
#include <assert.h>
#include <string.h>

#include "offload/offload_private.h"

/* --- Memory ------------------------------------------------------------------------------------------------------- */

/* Whether operands may be sent by reference; what a slot of a buffer then has to hold. */
static bool has_references(const struct tt_offload_terms *terms)
{
    return terms->inline_bytes < terms->packet_bytes;
}

static uint32_t slot_bytes(const struct tt_offload_terms *terms)
{
    return has_references(terms) && terms->inline_bytes < TT_TRIGGER_MAX_REFERENCE_BYTES
               ? TT_TRIGGER_MAX_REFERENCE_BYTES
               : terms->inline_bytes;
}

static size_t copies_bytes(const struct tt_offload_terms *terms)
{
    return terms->copies * tt_offload_aligned(terms->inline_bytes);
}

/* Of a port. */
static size_t place_bytes(const struct tt_offload_terms *terms)
{
    return copies_bytes(terms) + tt_offload_aligned(terms->packet_bytes) +
           (has_references(terms) ? tt_offload_aligned(TT_TRIGGER_MAX_REFERENCE_BYTES) : 0);
}

static bool make_sense(const struct tt_offload_terms *t)
{
    return t->node < TT_TRIGGER_NODES && t->unit_count >= 1 && t->unit_count <= TT_OFFLOAD_MOST_UNITS &&
           t->port_count >= 1 && t->port_count <= TT_TRIGGER_PORTS && t->window >= 1 &&
           t->window <= TT_OFFLOAD_MOST_WINDOW && t->copies <= t->window && t->queue_length >= 1 && t->retry_ns > 0 &&
           t->packet_bytes <= UINT32_MAX / 2 && t->inline_bytes <= t->packet_bytes && t->unit_bytes <= UINT32_MAX &&
           tt_buffer_slot_count(t->unit_bytes, slot_bytes(t)) >= 1;
}

size_t tt_offload_memory_bytes(const struct tt_offload_terms *terms)
{
    if (!make_sense(terms)) {
        return 0;
    }
    return tt_offload_aligned(sizeof(struct tt_offload)) +
           tt_offload_aligned(terms->port_count * sizeof(struct tt_port)) +
           tt_offload_aligned((size_t)terms->port_count * terms->queue_length * sizeof(struct tt_sequence)) +
           terms->port_count * place_bytes(terms) +
           terms->unit_count * tt_buffer_memory_bytes(terms->unit_bytes, slot_bytes(terms));
}

struct tt_offload *tt_offload_init(const struct tt_offload_terms *terms, void *memory)
{
    struct tt_offload *offload = memory;
    uint8_t *at = memory;

    assert(make_sense(terms) && (uintptr_t)memory % TT_OFFLOAD_ALIGNMENT == 0);
    at += tt_offload_aligned(sizeof(*offload));
    *offload = (struct tt_offload){.terms = *terms, .retry_due_ns = UINT64_MAX, .ports = (struct tt_port *)(void *)at};
    at += tt_offload_aligned(terms->port_count * sizeof(struct tt_port));
    struct tt_sequence *queues = (struct tt_sequence *)(void *)at;
    at += tt_offload_aligned((size_t)terms->port_count * terms->queue_length * sizeof(struct tt_sequence));
    for (uint32_t i = 0; i < terms->port_count; i++) {
        offload->ports[i] =
            (struct tt_port){.unit = TT_PORT_NONE,
                             .next_ready = TT_PORT_NONE,
                             .queue = queues + (size_t)i * terms->queue_length,
                             .copies = at,
                             .apart_payload = at + copies_bytes(terms),
                             .reference = at + copies_bytes(terms) + tt_offload_aligned(terms->packet_bytes)};
        at += place_bytes(terms);
    }
    for (uint32_t i = 0; i < terms->unit_count; i++) {
        offload->units[i] = (struct tt_unit){.first_ready = TT_PORT_NONE, .last_ready = TT_PORT_NONE};
        tt_buffer_init(&offload->units[i].buffer, terms->unit_bytes, slot_bytes(terms), at);
        at += tt_buffer_memory_bytes(terms->unit_bytes, slot_bytes(terms));
    }
    return offload;
}

/* --- Posting ------------------------------------------------------------------------------------------------------ */

/* One descriptor of a sequence, behind `read` packets that those before it read. */
static tutti_status check_descriptor(const struct tt_offload *offload, uint16_t port,
                                     const struct tt_sequence *sequence, uint64_t index, const struct tt_descriptor *d,
                                     uint64_t read)
{
    if (!d->collective || d->head != (index == 0) || d->tail != (index + 1 == sequence->count) ||
        d->source_port != port || d->count != (read + d->source_count) % TT_TRIGGER_COUNTS ||
        !tt_sequence_reaches(sequence, d, d->address_bytes)) {
        return TUTTI_ERR_INVALID_ARGUMENT;
    }
    if (d->reduce && (sequence->reduction == NULL || d->length_bytes % sequence->reduction->element_bytes != 0)) {
        return TUTTI_ERR_INVALID_ARGUMENT;
    }
    return d->length_bytes > offload->terms.packet_bytes ? TUTTI_ERR_TOO_LARGE : TUTTI_OK;
}

static tutti_status check_sequence(const struct tt_offload *offload, uint16_t port, const struct tt_sequence *sequence)
{
    struct tt_descriptor d;
    uint64_t read = 0;
    unsigned job = 0;

    for (uint64_t i = 0; i < sequence->count; i++) {
        if (!tt_descriptor_decode(sequence->descriptors + i * TT_DESCRIPTOR_BYTES, &d) || (i > 0 && d.job != job)) {
            return TUTTI_ERR_INVALID_ARGUMENT;
        }
        tutti_status status = check_descriptor(offload, port, sequence, i, &d, read);

        if (status != TUTTI_OK) {
            return status;
        }
        job = d.job;
        read += d.source_count;
    }
    return sequence->count > 0 ? TUTTI_OK : TUTTI_ERR_INVALID_ARGUMENT;
}

tutti_status tt_offload_post(struct tt_offload *offload, uint16_t port, const struct tt_sequence *sequence)
{
    if (port >= offload->terms.port_count) {
        return TUTTI_ERR_INVALID_ARGUMENT;
    }
    struct tt_port *p = &offload->ports[port];
    tutti_status status = p->status != TUTTI_OK ? p->status : check_sequence(offload, port, sequence);

    if (status != TUTTI_OK) {
        return status;
    }
    if (p->queue_count == offload->terms.queue_length) {
        return TUTTI_ERR_BUSY;
    }
    p->queue[(p->queue_first + p->queue_count) % offload->terms.queue_length] = *sequence;
    p->queue_count++;
    if (p->queue_count == 1) {
        tt_port_bind(offload, p);
        tt_port_wake(offload, p);
    }
    return TUTTI_OK;
}

/* --- Steps -------------------------------------------------------------------------------------------------------- */

static struct tt_port *pop_ready(struct tt_offload *offload, struct tt_unit *unit)
{
    if (unit->first_ready == TT_PORT_NONE) {
        return NULL;
    }
    struct tt_port *port = &offload->ports[unit->first_ready];

    unit->first_ready = port->next_ready;
    unit->last_ready = unit->first_ready == TT_PORT_NONE ? TT_PORT_NONE : unit->last_ready;
    port->next_ready = TT_PORT_NONE;
    port->is_ready = false;
    return port;
}

static void run(struct tt_offload *offload, struct tt_offload_actions *actions)
{
    uint32_t idle = 0; /* units in a row */

    while (idle < offload->terms.unit_count && actions->count < actions->capacity) {
        struct tt_port *port = pop_ready(offload, &offload->units[offload->next_unit]);

        offload->next_unit = (offload->next_unit + 1) % offload->terms.unit_count;
        idle = port == NULL ? idle + 1 : 0;
        if (port != NULL) {
            tt_port_advance(offload, port, actions);
        }
    }
}

tutti_status tt_offload_step(struct tt_offload *offload, const struct tt_offload_event *event,
                             struct tt_offload_actions *actions)
{
    tutti_status status = TUTTI_OK;

    assert(actions->count < actions->capacity);
    offload->now_ns = event->now_ns;
    if (event->kind == TT_OFFLOAD_PACKET) {
        status = tt_offload_take(offload, event->packet, event->payload, actions);
    } else if (event->kind == TT_OFFLOAD_FETCHED) {
        assert(event->port < offload->terms.port_count);
        tt_port_fetched(offload, &offload->ports[event->port], event->status, event->payload, actions);
    }
    tt_offload_repeat(offload, actions);
    run(offload, actions);
    return status;
}

uint64_t tt_offload_deadline(const struct tt_offload *offload)
{
    for (uint32_t i = 0; i < offload->terms.unit_count; i++) {
        if (offload->units[i].first_ready != TT_PORT_NONE) {
            return 0;
        }
    }
    return offload->retry_due_ns;
}

void tt_offload_close_port(struct tt_offload *offload, uint16_t port, tutti_status status)
{
    assert(port < offload->terms.port_count && status != TUTTI_OK);
    if (offload->ports[port].status == TUTTI_OK) {
        tt_port_close(offload, &offload->ports[port], status);
    }
}

tutti_status tt_offload_open_port(struct tt_offload *offload, uint16_t port)
{
    assert(port < offload->terms.port_count);
    if (offload->ports[port].queue_count > 0 ||
        (offload->ports[port].status != TUTTI_OK && offload->ports[port].kept > 0)) {
        return TUTTI_ERR_BUSY;
    }
    offload->ports[port].status = TUTTI_OK;
    return TUTTI_OK;
}

bool tt_offload_is_settled(const struct tt_offload *offload)
{
    for (uint32_t i = 0; i < offload->terms.port_count; i++) {
        if (offload->ports[i].open > 0) {
            return false;
        }
    }
    return true;
}

static bool port_needs(const struct tt_offload *offload, const struct tt_port *port, uint32_t node)
{
    if (port->is_fetching && port->apart.node == node) {
        return true;
    }
    for (uint32_t i = 0; i < offload->terms.window && port->open > 0; i++) {
        if (port->sends[i].is_open && port->sends[i].node == node) {
            return true;
        }
    }
    return port->status == TUTTI_OK && tt_port_awaits(port) && tt_port_awaited_node(port) == node &&
           !tt_port_keeps(offload, port, tt_port_awaited_key(offload, port));
}

bool tt_offload_needs(const struct tt_offload *offload, uint32_t node)
{
    for (uint32_t i = 0; i < offload->terms.port_count; i++) {
        if (port_needs(offload, &offload->ports[i], node)) {
            return true;
        }
    }
    return false;
}

const struct tt_offload_counters *tt_offload_counters(const struct tt_offload *offload)
{
    return &offload->counters;
}

void tt_offload_use(const struct tt_offload *offload, uint32_t unit, struct tt_offload_use *use)
{
    const struct tt_unit *u = &offload->units[unit];

    assert(unit < offload->terms.unit_count);
    *use = (struct tt_offload_use){.used = u->buffer.used,
                                   .most_used = u->buffer.most_used,
                                   .home_count = u->buffer.home_count,
                                   .ports = u->ports};
}
