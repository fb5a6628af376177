/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the simulated network cards do for p2p without any software: frames, gets, puts, farewells, and the death of a
 * peer.
 *
 * Normal path: a get is a request that, at the target, stands in line with the other bulk data for the initiator; it is
 * cut into packets one by one, each read from registered memory when it leaves. A put is cut up at the initiator, and
 * each packet is written to registered memory when it arrives; after the last one comes the immediate, and an answer.
 *
 * Failures: memory that is not registered (any more), or a key of somebody else, ends the operation with a refusal and
 * is recorded as a violation. Nothing is served by a side that has disconnected, is destroyed or has crashed; the
 * initiator learns that from the farewell or by the detection of the crash, which ends all its operations.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/sim/internal.h"

/* --- What one node has for another ------------------------------------------------------------------------------ */

struct tt_sim_pair *tt_sim_pair_of(struct tt_sim *sim, uint32_t source, uint32_t destination)
{
    struct tt_sim_node *node = &sim->nodes[source];
    if (node->pairs == NULL) {
        node->pairs = tt_sim_allocate(sim->options.node_count * sizeof(struct tt_sim_pair *));
    }
    struct tt_sim_pair *pair = node->pairs[destination];
    if (pair == NULL) {
        pair = tt_sim_allocate(sizeof(*pair));
        pair->sim = sim;
        pair->source = source;
        pair->destination = destination;
        pair->control_flow = (struct tt_sim_flow){.owner = pair, .kind = TT_SIM_FLOW_CONTROL};
        pair->bulk_flow = (struct tt_sim_flow){.owner = pair, .kind = TT_SIM_FLOW_BULK};
        node->pairs[destination] = pair;
    }
    return pair;
}

void tt_sim_pair_send(struct tt_sim_pair *pair, struct tt_sim_packet *packet)
{
    packet->destination = pair->destination;
    packet->next = NULL;
    if (pair->last_packet != NULL) {
        pair->last_packet->next = packet;
    } else {
        pair->first_packet = packet;
    }
    pair->last_packet = packet;
    tt_sim_flow_offer(pair->sim, pair->source, &pair->control_flow);
}

void tt_sim_pair_send_bulk(struct tt_sim_pair *pair, struct tt_sim_operation *operation)
{
    operation->references++;
    operation->queued = NULL;
    if (pair->last_operation != NULL) {
        pair->last_operation->queued = operation;
    } else {
        pair->first_operation = operation;
    }
    pair->last_operation = operation;
    tt_sim_flow_offer(pair->sim, pair->source, &pair->bulk_flow);
}

struct tt_sim_packet *tt_sim_pair_take_control(struct tt_sim_pair *pair, bool *more)
{
    struct tt_sim_packet *packet = pair->first_packet;
    if (packet != NULL) {
        pair->first_packet = packet->next;
        if (pair->first_packet == NULL) {
            pair->last_packet = NULL;
        }
        packet->next = NULL;
    }
    *more = pair->first_packet != NULL;
    return packet;
}

static void drop_first_operation(struct tt_sim_pair *pair)
{
    struct tt_sim_operation *operation = pair->first_operation;
    pair->first_operation = operation->queued;
    if (pair->first_operation == NULL) {
        pair->last_operation = NULL;
    }
    operation->queued = NULL;
    tt_sim_operation_release(pair->sim, operation);
}

struct tt_sim_packet *tt_sim_pair_take_bulk(struct tt_sim_pair *pair, bool *more)
{
    struct tt_sim *sim = pair->sim;
    struct tt_sim_packet *packet = NULL;
    while (pair->first_operation != NULL && packet == NULL) {
        struct tt_sim_operation *operation = pair->first_operation;
        const uint64_t left_bytes = operation->length_bytes - operation->cursor;
        if (operation->pending && !operation->refused && (left_bytes > 0 || !operation->taken)) {
            const uint32_t most_bytes = sim->options.p2p_packet_bytes;
            const uint32_t bytes = left_bytes < most_bytes ? (uint32_t)left_bytes : most_bytes;
            packet =
                tt_sim_packet_create(sim, operation->is_put ? TT_SIM_PUT_DATA : TT_SIM_GET_DATA, pair->source, bytes);
            packet->destination = pair->destination;
            packet->operation = operation;
            packet->offset = operation->cursor;
            operation->references++;
            operation->cursor += bytes;
            operation->taken = true;
            if (operation->is_put && operation->cursor == operation->length_bytes) {
                packet->behind_bytes = operation->immediate.data_bytes;
            }
        }
        if (packet == NULL || operation->cursor == operation->length_bytes) {
            drop_first_operation(pair);
        }
    }
    *more = pair->first_operation != NULL;
    return packet;
}

/* --- Operations ------------------------------------------------------------------------------------------------- */

void tt_sim_operation_release(struct tt_sim *sim, struct tt_sim_operation *operation)
{
    assert(operation->references > 0);
    if (--operation->references == 0) {
        operation->next = sim->free_operations;
        sim->free_operations = operation;
    }
}

/* The instance that this incarnation of a node was, NULL if it is gone. */
static struct tt_sim_p2p *instance_of(struct tt_sim *sim, uint32_t node, uint32_t incarnation)
{
    struct tt_sim_p2p *p2p = sim->nodes[node].p2p;
    return p2p != NULL && p2p->incarnation == incarnation && !sim->nodes[node].crashed ? p2p : NULL;
}

void tt_sim_operation_complete(struct tt_sim_operation *operation, tutti_status status)
{
    struct tt_sim_connection *connection = operation->connection;
    struct tt_sim *sim = connection->pair->sim;
    assert(operation->pending);
    operation->pending = false;
    if (operation->previous != NULL) {
        operation->previous->next = operation->next;
    } else {
        connection->operations = operation->next;
    }
    if (operation->next != NULL) {
        operation->next->previous = operation->previous;
    }
    struct tt_sim_p2p *p2p = instance_of(sim, connection->pair->source, connection->local_incarnation);
    if (p2p != NULL) {
        const struct tt_p2p_event event = {.type = TT_P2P_DONE, .status = status, .cookie = operation->cookie};
        if (!operation->is_put && status == TUTTI_OK) {
            p2p->counters.bytes_received += operation->length_bytes;
        }
        tt_sim_p2p_tell(p2p, &event, NULL);
    }
    tt_sim_operation_release(sim, operation);
}

static unsigned char *registered(struct tt_sim *sim, const struct tt_sim_operation *operation, uint32_t node,
                                 uint64_t offset, uint32_t length_bytes)
{
    const struct tt_sim_key *key = &operation->key;
    const char *verb = operation->is_put ? "put" : "get";
    const uint32_t initiator = operation->connection->pair->source;
    const uint64_t begin = operation->remote_address + offset;
    if (key->node != node || key->slot >= sim->nodes[node].registration_count) {
        tt_sim_violation(sim, "node %u's %s at node %u has the key of node %u", initiator, verb, node, key->node);
        return NULL;
    }
    const struct tt_sim_registration *registration = &sim->nodes[node].registrations[key->slot];
    if (registration->handle == NULL || registration->generation != key->generation) {
        tt_sim_violation(sim, "node %u's %s at node %u finds registration %u released", initiator, verb, node,
                         key->slot);
        return NULL;
    }
    const uint64_t low = (uintptr_t)registration->address;
    if (begin < low || begin - low > registration->length_bytes ||
        length_bytes > registration->length_bytes - (begin - low)) {
        tt_sim_violation(sim, "node %u's %s of %u bytes at node %u leaves registration %u of %zu bytes", initiator,
                         verb, length_bytes, node, key->slot, registration->length_bytes);
        return NULL;
    }
    return registration->address + (begin - low);
}

/* Whether the target side of the connection still stands. */
static bool is_served(struct tt_sim *sim, const struct tt_sim_connection *connection)
{
    if (connection->severed ||
        instance_of(sim, connection->pair->destination, connection->remote_incarnation) == NULL) {
        return false;
    }
    const struct tt_sim_connection *other = tt_sim_connection_other(sim, connection);
    return other == NULL || other->state == TT_SIM_UP;
}

static void refuse(struct tt_sim_packet *packet)
{
    packet->operation->refused = true;
    packet->kind = TT_SIM_ANSWER;
    packet->status = TUTTI_ERR_PROTOCOL;
    packet->length_bytes = 0;
}

void tt_sim_p2p_leave(struct tt_sim *sim, struct tt_sim_packet *packet)
{
    struct tt_sim_operation *operation = packet->operation;
    if (packet->kind == TT_SIM_PUT_DATA) {
        if (!operation->pending) {
            packet->canceled = true; /* the local memory is the caller's again */
        } else if (packet->length_bytes > 0) {
            memcpy(packet->data, operation->local + packet->offset, packet->length_bytes);
        }
    } else if (packet->kind == TT_SIM_GET_DATA) {
        if (!operation->pending || operation->refused || !is_served(sim, operation->connection)) {
            packet->canceled = true;
            return;
        }
        const unsigned char *memory = registered(sim, operation, packet->source, packet->offset, packet->length_bytes);
        if (memory == NULL) {
            refuse(packet);
            return;
        }
        memcpy(packet->data, memory, packet->length_bytes);
    }
}

static void answer(struct tt_sim *sim, struct tt_sim_operation *operation, tutti_status status)
{
    const struct tt_sim_pair *pair = operation->connection->pair;
    struct tt_sim_packet *packet = tt_sim_packet_create(sim, TT_SIM_ANSWER, pair->destination, 0);
    packet->operation = operation;
    packet->status = status;
    operation->references++;
    tt_sim_pair_send(tt_sim_pair_of(sim, pair->destination, pair->source), packet);
}

static void raise_immediate(struct tt_sim *sim, uint32_t node, const struct tt_p2p_immediate *immediate)
{
    struct tt_p2p_event event = {
        .type = TT_P2P_IMMEDIATE, .immediate = immediate->value, .length_bytes = immediate->data_bytes};
    struct tt_sim_packet *packet = NULL;
    if (immediate->data_bytes > 0) {
        packet = tt_sim_packet_create(sim, TT_SIM_FRAME, node, immediate->data_bytes);
        memcpy(packet->data, immediate->data, immediate->data_bytes);
        event.data = packet->data;
    }
    tt_sim_p2p_tell(sim->nodes[node].p2p, &event, packet);
}

static void place_put(struct tt_sim *sim, struct tt_sim_packet *packet)
{
    struct tt_sim_operation *operation = packet->operation;
    const struct tt_sim_connection *connection = operation->connection;
    if (operation->refused || !is_served(sim, connection)) {
        return;
    }
    if (packet->length_bytes > 0) {
        unsigned char *memory = registered(sim, operation, packet->destination, packet->offset, packet->length_bytes);
        if (memory == NULL) {
            operation->refused = true;
            answer(sim, operation, TUTTI_ERR_PROTOCOL);
            return;
        }
        memcpy(memory, packet->data, packet->length_bytes);
    }
    operation->arrived_bytes += packet->length_bytes;
    if (operation->arrived_bytes == operation->length_bytes) {
        raise_immediate(sim, packet->destination, &operation->immediate);
        answer(sim, operation, TUTTI_OK);
    }
}

static void place_get(struct tt_sim_packet *packet)
{
    struct tt_sim_operation *operation = packet->operation;
    if (!operation->pending || operation->connection->severed) { /* then it ends with that */
        return;
    }
    memcpy(operation->local + packet->offset, packet->data, packet->length_bytes);
    operation->arrived_bytes += packet->length_bytes;
    if (operation->arrived_bytes == operation->length_bytes) {
        tt_sim_operation_complete(operation, TUTTI_OK);
    }
}

/* --- Frames and farewells --------------------------------------------------------------------------------------- */

struct tt_sim_connection *tt_sim_connection_other(struct tt_sim *sim, const struct tt_sim_connection *connection)
{
    struct tt_sim_pair **pairs = sim->nodes[connection->pair->destination].pairs;
    const struct tt_sim_pair *pair = pairs != NULL ? pairs[connection->pair->source] : NULL;
    struct tt_sim_connection *other = pair != NULL ? pair->connections : NULL;
    while (other != NULL &&
           (other->ordinal != connection->ordinal || other->local_incarnation != connection->remote_incarnation ||
            other->remote_incarnation != connection->local_incarnation)) {
        other = other->next;
    }
    return other;
}

static void receive_frame(struct tt_sim *sim, struct tt_sim_packet *packet)
{
    const struct tt_sim_connection *connection = packet->connection;
    if (!is_served(sim, connection)) {
        tt_sim_note(sim, "frame for a connection that has ended");
        return;
    }
    const struct tt_p2p_event event = {
        .type = TT_P2P_FRAME, .length_bytes = packet->length_bytes, .data = packet->data};
    tt_sim_packet_hold(packet);
    tt_sim_p2p_tell(sim->nodes[packet->destination].p2p, &event, packet);
}

static void receive_farewell(struct tt_sim *sim, struct tt_sim_packet *packet)
{
    struct tt_sim_connection *other = tt_sim_connection_other(sim, packet->connection);
    if (packet->connection->severed) {
        return;
    }
    packet->connection->farewell_arrived = true;
    if (other != NULL) {
        tt_sim_connection_down(sim, other);
    }
}

void tt_sim_p2p_deliver(struct tt_sim *sim, uint32_t node, struct tt_sim_packet *packet)
{
    struct tt_sim_operation *operation = packet->operation;
    switch (packet->kind) {
    case TT_SIM_FRAME:
        receive_frame(sim, packet);
        break;
    case TT_SIM_FAREWELL:
        receive_farewell(sim, packet);
        break;
    case TT_SIM_GET_REQUEST:
        if (is_served(sim, operation->connection)) {
            tt_sim_pair_send_bulk(tt_sim_pair_of(sim, node, packet->source), operation);
        }
        break;
    case TT_SIM_PUT_DATA:
        place_put(sim, packet);
        break;
    case TT_SIM_GET_DATA:
        place_get(packet);
        break;
    default:
        if (operation->pending && !operation->connection->severed) {
            tt_sim_operation_complete(operation, packet->status);
        }
        break;
    }
}

/* --- The end of a peer ------------------------------------------------------------------------------------------ */

void tt_sim_connection_down(struct tt_sim *sim, struct tt_sim_connection *connection)
{
    struct tt_sim_p2p *p2p = instance_of(sim, connection->pair->source, connection->local_incarnation);
    if (connection->state != TT_SIM_UP || p2p == NULL) {
        return;
    }
    connection->state = TT_SIM_DOWN;
    const struct tt_p2p_event event = {
        .type = TT_P2P_PEER_DOWN, .status = TUTTI_ERR_PEER_FAILED, .peer_cookie = connection->cookie};
    const bool event_first = connection->operations != NULL && tt_random_below(&sim->random, 2) == 0;
    if (event_first) {
        tt_sim_p2p_tell(p2p, &event, NULL);
    }
    while (connection->operations != NULL) {
        tt_sim_operation_complete(connection->operations, TUTTI_ERR_PEER_FAILED);
    }
    if (!event_first) {
        tt_sim_p2p_tell(p2p, &event, NULL);
    }
}

void tt_sim_connection_down_later(struct tt_sim *sim, struct tt_sim_connection *connection)
{
    const uint64_t range_ns = sim->options.detection_max_ns - sim->options.detection_min_ns;
    const uint64_t delay_ns = sim->options.detection_min_ns + tt_random_below(&sim->random, range_ns + 1);
    tt_sim_event_push(sim, sim->now_ns + delay_ns, TT_SIM_EVENT_DOWN, connection->pair->source, connection);
}

void tt_sim_node_gone(struct tt_sim *sim, uint32_t node, uint32_t incarnation)
{
    for (uint32_t i = 0; i < sim->options.node_count; i++) {
        struct tt_sim_pair *pair = sim->nodes[i].pairs != NULL ? sim->nodes[i].pairs[node] : NULL;
        struct tt_sim_connection *connection = pair != NULL ? pair->connections : NULL;
        for (; connection != NULL; connection = connection->next) {
            if (connection->state != TT_SIM_UP || connection->remote_incarnation != incarnation) {
                continue;
            }
            /* Who leaves orderly has sent a farewell to those it was connected to, behind its last frames. */
            if (sim->nodes[node].crashed || tt_sim_connection_other(sim, connection) == NULL) {
                tt_sim_connection_down_later(sim, connection);
            }
        }
    }
}

static bool sever(struct tt_sim *sim, uint32_t source, uint32_t destination)
{
    bool any = false;
    struct tt_sim_pair **pairs = sim->nodes[source].pairs;
    struct tt_sim_pair *pair = pairs != NULL ? pairs[destination] : NULL;
    struct tt_sim_connection *connection = pair != NULL ? pair->connections : NULL;
    for (; connection != NULL; connection = connection->next) {
        if (!connection->severed && connection->state == TT_SIM_UP) {
            tt_sim_connection_down_later(sim, connection);
            any = true;
        }
        connection->severed = true;
    }
    return any;
}

bool tt_sim_sever(struct tt_sim *sim, uint32_t one, uint32_t other)
{
    bool any;

    assert(one < sim->options.node_count && other < sim->options.node_count && one != other);
    any = sever(sim, one, other);
    return sever(sim, other, one) || any;
}
