/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The simulator's provider of the p2p contract: what the software of a node calls.
 *
 * Normal path: connect makes the local side of a connection, at once; send copies the frame into a packet; get and put
 * hand an operation to the NIC (nic.c); progress tells what has happened since, from a ring.
 *
 * Failures: bad arguments are refused with the offending value. To a peer that is known to have failed nothing starts
 * (TUTTI_ERR_PEER_FAILED). Memory that is left registered at destroy is recorded as a violation, as is a body that is
 * not what it was when its batch ends.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/siphash.h"
#include "fabric/sim/internal.h"

#define KEY_MAGIC     UINT32_C(0x6B53434D)
#define ADDRESS_MAGIC UINT32_C(0x61534D49)

static const struct tt_p2p_ops p2p_ops;

static struct tt_sim_p2p *instance_of(struct tt_p2p *base)
{
    return (struct tt_sim_p2p *)base;
}

/* --- Instance --------------------------------------------------------------------------------------------------- */

struct tt_p2p *tt_sim_p2p(struct tt_sim *sim, uint32_t node)
{
    assert(node < sim->options.node_count);
    struct tt_sim_p2p *p2p = sim->nodes[node].p2p;
    if (p2p == NULL) {
        p2p = tt_sim_allocate(sizeof(*p2p));
        p2p->base.ops = &p2p_ops;
        p2p->base.frame_bytes = sim->options.frame_bytes;
        p2p->sim = sim;
        p2p->node = node;
        p2p->incarnation = ++sim->nodes[node].incarnation;
        sim->nodes[node].p2p = p2p;
    }
    return &p2p->base;
}

static tutti_status address(struct tt_p2p *base, void *buffer, size_t *length_bytes)
{
    const struct tt_sim_p2p *p2p = instance_of(base);
    const struct tt_sim_address own = {ADDRESS_MAGIC, p2p->node, p2p->incarnation};
    if (*length_bytes < sizeof(own)) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_TOO_LARGE, "sim: an address needs %zu bytes, there are %zu",
                        sizeof(own), *length_bytes);
    }
    memcpy(buffer, &own, sizeof(own));
    *length_bytes = sizeof(own);
    return TUTTI_OK;
}

void tt_sim_p2p_tell(struct tt_sim_p2p *p2p, const struct tt_p2p_event *event, struct tt_sim_packet *packet)
{
    if (p2p->count == p2p->capacity) {
        const size_t capacity = p2p->capacity > 0 ? 2 * p2p->capacity : 16;
        p2p->ring = tt_sim_reallocate(p2p->ring, capacity, sizeof(*p2p->ring));
        for (size_t i = 0; i < p2p->head; i++) {
            p2p->ring[p2p->capacity + i] = p2p->ring[i];
        }
        p2p->capacity = capacity;
    }
    p2p->ring[(p2p->head + p2p->count) & (p2p->capacity - 1)] =
        (struct tt_sim_incident){.event = *event, .packet = packet};
    p2p->count++;
    tt_sim_mark_ready(p2p->sim, p2p->node);
}

static void take_back_frames(struct tt_sim_p2p *p2p)
{
    while (p2p->lent != NULL) {
        struct tt_sim_packet *packet = p2p->lent;
        p2p->lent = packet->next;
        memset(packet->data, TT_SIM_POISON, packet->length_bytes);
        tt_sim_packet_release(p2p->sim, packet);
    }
}

/* No cookie: this side has not connected, or does not any more. */
static void note_sender(struct tt_sim *sim, struct tt_sim_packet *packet, struct tt_p2p_event *event)
{
    const struct tt_sim_connection *own = tt_sim_connection_other(sim, packet->connection);
    packet->from = (struct tt_sim_address){ADDRESS_MAGIC, packet->source, packet->connection->local_incarnation};
    event->address = &packet->from;
    event->address_bytes = sizeof(packet->from);
    event->peer_cookie = own != NULL && own->peer != NULL ? own->cookie : 0;
}

static uint32_t progress(struct tt_p2p *base, struct tt_p2p_event *events, uint32_t max)
{
    struct tt_sim_p2p *p2p = instance_of(base);
    if (!tt_sim_node_runs(p2p->sim, p2p->node)) {
        return 0;
    }
    take_back_frames(p2p);
    uint32_t count = 0;
    while (count < max && p2p->count > 0) {
        struct tt_sim_incident *incident = &p2p->ring[p2p->head];
        events[count++] = incident->event;
        if (incident->packet != NULL && incident->event.type == TT_P2P_FRAME) {
            note_sender(p2p->sim, incident->packet, &events[count - 1]);
            p2p->counters.frames_received++;
            p2p->counters.bytes_received += incident->packet->length_bytes;
        }
        if (incident->packet != NULL) {
            incident->packet->next = p2p->lent;
            p2p->lent = incident->packet;
        }
        p2p->head = (p2p->head + 1) & (p2p->capacity - 1);
        p2p->count--;
    }
    return count;
}

/* A link of the simulator delivers frames without repeating any. */
static uint64_t tend(struct tt_p2p *base, uint64_t now_ns)
{
    (void)base, (void)now_ns;
    return TT_NEVER;
}

static int no_fd(struct tt_p2p *base)
{
    (void)base;
    return -1;
}

static bool arm(struct tt_p2p *base)
{
    return instance_of(base)->count == 0;
}

static void counters(struct tt_p2p *base, struct tt_p2p_counters *result)
{
    *result = instance_of(base)->counters;
}

/* --- Connections ------------------------------------------------------------------------------------------------ */

static tutti_status connect_to(struct tt_p2p *base, const void *remote, size_t length_bytes, uint64_t peer_cookie,
                               struct tt_p2p_peer **result)
{
    struct tt_sim_p2p *p2p = instance_of(base);
    struct tt_sim *sim = p2p->sim;
    struct tt_sim_address to = {0};
    if (length_bytes == sizeof(to)) {
        memcpy(&to, remote, sizeof(to));
    }
    if (to.magic != ADDRESS_MAGIC || to.node >= sim->options.node_count) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_INVALID_ARGUMENT, "sim: %zu bytes that are no address of a node",
                        length_bytes);
    }
    if (to.node == p2p->node) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_INVALID_ARGUMENT, "sim: node %u connects to itself", to.node);
    }
    struct tt_sim_pair *pair = tt_sim_pair_of(sim, p2p->node, to.node);
    struct tt_sim_connection *connection = tt_sim_allocate(sizeof(*connection));
    connection->pair = pair;
    connection->local_incarnation = p2p->incarnation;
    connection->remote_incarnation = to.incarnation;
    connection->cookie = peer_cookie;
    for (const struct tt_sim_connection *at = pair->connections; at != NULL; at = at->next) {
        if (at->local_incarnation == p2p->incarnation && at->remote_incarnation == to.incarnation) {
            connection->ordinal++;
        }
    }
    connection->next = pair->connections;
    pair->connections = connection;
    connection->peer = tt_sim_allocate(sizeof(*connection->peer));
    connection->peer->base.ops = &p2p_ops;
    connection->peer->connection = connection;

    const struct tt_sim_connection *other = tt_sim_connection_other(sim, connection);
    const struct tt_sim_p2p *there = sim->nodes[to.node].p2p;
    connection->severed = other != NULL && other->severed;
    if (there == NULL || there->incarnation != to.incarnation || sim->nodes[to.node].crashed || connection->severed ||
        (other != NULL && other->farewell_arrived)) {
        tt_sim_connection_down_later(sim, connection);
    }
    *result = &connection->peer->base;
    return TUTTI_OK;
}

static void disconnect(struct tt_p2p_peer *base)
{
    struct tt_sim_peer *peer = (struct tt_sim_peer *)base;
    struct tt_sim_connection *connection = peer->connection;
    const bool was_up = connection->state == TT_SIM_UP;
    free(peer);
    connection->peer = NULL;
    while (connection->operations != NULL) {
        tt_sim_operation_complete(connection->operations, TUTTI_ERR_CANCELED);
    }
    connection->state = TT_SIM_DISCONNECTED;
    if (was_up) {
        struct tt_sim_pair *pair = connection->pair;
        struct tt_sim_packet *packet = tt_sim_packet_create(pair->sim, TT_SIM_FAREWELL, pair->source, 0);
        packet->connection = connection;
        tt_sim_pair_send(pair, packet);
    }
}

static tutti_status check_peer(const struct tt_sim_connection *connection)
{
    if (connection->state != TT_SIM_UP) {
        return tt_error_note(TUTTI_ERR_PEER_FAILED, "sim: node %u has failed", connection->pair->destination);
    }
    return TUTTI_OK;
}

/* The packet has a copy; that the body is as it was is looked at when the batch ends. */
static void note_body(struct tt_sim_p2p *p2p, const struct tt_p2p_frame *frame)
{
    if (!p2p->base.batches || !frame->stays || frame->body_bytes == 0) {
        return;
    }
    if (p2p->body_count == p2p->body_capacity) {
        p2p->body_capacity = p2p->body_capacity > 0 ? 2 * p2p->body_capacity : 16;
        p2p->bodies = tt_sim_reallocate(p2p->bodies, p2p->body_capacity, sizeof(*p2p->bodies));
    }
    p2p->bodies[p2p->body_count++] = (struct tt_sim_body){.bytes = frame->body,
                                                          .length_bytes = frame->body_bytes,
                                                          .digest = tt_siphash(0, 0, frame->body, frame->body_bytes)};
    p2p->base.has_batch = true;
}

static void flush(struct tt_p2p *base)
{
    struct tt_sim_p2p *p2p = instance_of(base);
    for (uint32_t i = 0; i < p2p->body_count; i++) {
        const struct tt_sim_body *body = &p2p->bodies[i];
        if (tt_siphash(0, 0, body->bytes, body->length_bytes) != body->digest) {
            tt_sim_violation(p2p->sim, "node %u changes a frame's body of %u bytes before its batch has ended",
                             p2p->node, body->length_bytes);
        }
    }
    p2p->body_count = 0;
    p2p->base.has_batch = false;
}

static tutti_status send_frame(struct tt_p2p_peer *base, const struct tt_p2p_frame *frame, bool more)
{
    const uint32_t length_bytes = tt_p2p_frame_bytes(frame);
    (void)more; /* it is advice */
    struct tt_sim_connection *connection = ((struct tt_sim_peer *)base)->connection;
    struct tt_sim_pair *pair = connection->pair;
    if (!tt_p2p_frame_is_sound(frame, pair->sim->options.frame_bytes)) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_INVALID_ARGUMENT, "sim: a frame of %u bytes, not 1 to %u",
                        length_bytes, pair->sim->options.frame_bytes);
    }
    const tutti_status status = check_peer(connection);
    if (status != TUTTI_OK) {
        return status;
    }
    struct tt_sim_packet *packet = tt_sim_packet_create(pair->sim, TT_SIM_FRAME, pair->source, length_bytes);
    packet->connection = connection;
    tt_p2p_frame_copy(frame, packet->data);
    struct tt_sim_p2p *p2p = pair->sim->nodes[pair->source].p2p;
    note_body(p2p, frame);
    p2p->counters.frames_sent++;
    p2p->counters.bytes_sent += length_bytes;
    tt_sim_pair_send(pair, packet);
    return TUTTI_OK;
}

/* --- Memory ----------------------------------------------------------------------------------------------------- */

static tutti_status memory_register(struct tt_p2p *base, void *memory_address, size_t length_bytes,
                                    struct tt_p2p_memory **result)
{
    struct tt_sim_p2p *p2p = instance_of(base);
    struct tt_sim_node *node = &p2p->sim->nodes[p2p->node];
    uint32_t slot = 0;
    if (memory_address == NULL && length_bytes > 0) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_INVALID_ARGUMENT, "sim: registers %zu bytes at NULL", length_bytes);
    }
    if (tt_sim_refuses(p2p->sim, p2p->node) && tt_random_below(&p2p->sim->random, 1000000) < node->faults.refused_ppm) {
        return tt_error_note(TUTTI_ERR_NO_MEMORY, "sim: no memory for a registration of %zu bytes", length_bytes);
    }
    while (slot < node->registration_count && node->registrations[slot].handle != NULL) {
        slot++;
    }
    if (slot == node->registration_count) {
        node->registrations =
            tt_sim_reallocate(node->registrations, node->registration_count + 1U, sizeof(*node->registrations));
        node->registrations[slot] = (struct tt_sim_registration){0};
        node->registration_count++;
    }
    struct tt_sim_memory *memory = tt_sim_allocate(sizeof(*memory));
    memory->base.ops = &p2p_ops;
    memory->sim = p2p->sim;
    memory->node = p2p->node;
    memory->slot = slot;
    struct tt_sim_registration *registration = &node->registrations[slot];
    registration->address = memory_address;
    registration->length_bytes = length_bytes;
    registration->generation++;
    registration->handle = memory;
    *result = &memory->base;
    return TUTTI_OK;
}

static void memory_release(struct tt_p2p_memory *base)
{
    struct tt_sim_memory *memory = (struct tt_sim_memory *)base;
    if (memory == NULL) {
        return;
    }
    memory->sim->nodes[memory->node].registrations[memory->slot].handle = NULL;
    free(memory);
}

static tutti_status memory_pack(struct tt_p2p_memory *base, void *buffer, size_t *length_bytes)
{
    const struct tt_sim_memory *memory = (struct tt_sim_memory *)base;
    const struct tt_sim_key key = {KEY_MAGIC, memory->node, memory->slot,
                                   memory->sim->nodes[memory->node].registrations[memory->slot].generation};
    if (*length_bytes < sizeof(key)) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_TOO_LARGE, "sim: a key needs %zu bytes, there are %zu", sizeof(key),
                        *length_bytes);
    }
    memcpy(buffer, &key, sizeof(key));
    *length_bytes = sizeof(key);
    return TUTTI_OK;
}

/* --- Get and put ------------------------------------------------------------------------------------------------ */

static struct tt_sim_operation *create_operation(struct tt_sim *sim)
{
    struct tt_sim_operation *operation = sim->free_operations;
    if (operation != NULL) {
        sim->free_operations = operation->next;
        struct tt_sim_operation *all = operation->all;
        memset(operation, 0, sizeof(*operation));
        operation->all = all;
    } else {
        operation = tt_sim_allocate(sizeof(*operation));
        operation->all = sim->all_operations;
        sim->all_operations = operation;
    }
    return operation;
}

static tutti_status begin(struct tt_p2p_peer *base, const void *key, size_t key_bytes,
                          const struct tt_sim_operation *what, struct tt_sim_operation **result)
{
    struct tt_sim_connection *connection = ((struct tt_sim_peer *)base)->connection;
    struct tt_sim_key unpacked = {0};
    if (key_bytes == sizeof(unpacked)) {
        memcpy(&unpacked, key, sizeof(unpacked));
    }
    if (what->length_bytes > 0 && unpacked.magic != KEY_MAGIC) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_INVALID_ARGUMENT, "sim: %zu bytes that are no key", key_bytes);
    }
    const tutti_status status = check_peer(connection);
    if (status != TUTTI_OK) {
        return status;
    }
    struct tt_sim_operation *operation = create_operation(connection->pair->sim);
    struct tt_sim_operation *all = operation->all;
    *operation = *what;
    operation->all = all;
    operation->key = unpacked;
    operation->connection = connection;
    operation->references = 1;
    operation->pending = true;
    operation->next = connection->operations;
    if (operation->next != NULL) {
        operation->next->previous = operation;
    }
    connection->operations = operation;
    *result = operation;
    return TUTTI_OK;
}

static tutti_status get(struct tt_p2p_peer *base, const void *key, size_t key_bytes, uint64_t remote_address,
                        void *local, uint64_t length_bytes, uint64_t cookie)
{
    const struct tt_sim_operation what = {
        .remote_address = remote_address, .local = local, .length_bytes = length_bytes, .cookie = cookie};
    struct tt_sim_operation *operation = NULL;
    if (length_bytes == 0) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_INVALID_ARGUMENT, "sim: a get of 0 bytes");
    }
    const tutti_status status = begin(base, key, key_bytes, &what, &operation);
    if (status != TUTTI_OK) {
        return status;
    }
    struct tt_sim_pair *pair = operation->connection->pair;
    struct tt_sim_packet *packet = tt_sim_packet_create(pair->sim, TT_SIM_GET_REQUEST, pair->source, 0);
    packet->operation = operation;
    operation->references++;
    tt_sim_pair_send(pair, packet);
    return TUTTI_OK;
}

static tutti_status put(struct tt_p2p_peer *base, const void *key, size_t key_bytes, uint64_t remote_address,
                        const void *local, uint64_t length_bytes, const struct tt_p2p_immediate *immediate,
                        uint64_t cookie)
{
    const struct tt_sim_operation what = {.is_put = true,
                                          .remote_address = remote_address,
                                          .local = (unsigned char *)(uintptr_t)local,
                                          .length_bytes = length_bytes,
                                          .immediate = *immediate,
                                          .cookie = cookie};
    struct tt_sim_operation *operation = NULL;
    assert(immediate->data_bytes <= TT_P2P_MAX_IMMEDIATE_BYTES);
    const tutti_status status = begin(base, key, key_bytes, &what, &operation);
    if (status != TUTTI_OK) {
        return status;
    }
    struct tt_sim_pair *pair = operation->connection->pair;
    pair->sim->nodes[pair->source].p2p->counters.bytes_sent += length_bytes;
    tt_sim_pair_send_bulk(pair, operation);
    return TUTTI_OK;
}

/* --- The end ---------------------------------------------------------------------------------------------------- */

void tt_sim_p2p_free(struct tt_sim_p2p *p2p)
{
    if (p2p == NULL) {
        return;
    }
    struct tt_sim *sim = p2p->sim;
    struct tt_sim_node *node = &sim->nodes[p2p->node];
    for (uint32_t i = 0; node->pairs != NULL && i < sim->options.node_count; i++) {
        struct tt_sim_connection *connection = node->pairs[i] != NULL ? node->pairs[i]->connections : NULL;
        for (; connection != NULL; connection = connection->next) {
            if (connection->peer != NULL) {
                disconnect(&connection->peer->base);
            }
        }
    }
    for (uint32_t i = 0; i < node->registration_count; i++) {
        if (node->registrations[i].handle != NULL) {
            memory_release(&node->registrations[i].handle->base);
        }
    }
    take_back_frames(p2p);
    for (size_t i = 0; i < p2p->count; i++) {
        struct tt_sim_packet *packet = p2p->ring[(p2p->head + i) & (p2p->capacity - 1)].packet;
        if (packet != NULL) {
            tt_sim_packet_release(sim, packet);
        }
    }
    node->p2p = NULL;
    free(p2p->ring);
    free(p2p->bodies);
    free(p2p);
}

static void destroy(struct tt_p2p *base)
{
    struct tt_sim_p2p *p2p = instance_of(base);
    struct tt_sim *sim = p2p->sim;
    const uint32_t number = p2p->node;
    const uint32_t incarnation = p2p->incarnation;
    const struct tt_sim_node *node = &sim->nodes[number];
    for (uint32_t i = 0; i < node->registration_count; i++) {
        if (node->registrations[i].handle != NULL) {
            tt_sim_violation(sim, "node %u destroys p2p with registration %u", number, i);
        }
    }
    tt_sim_p2p_free(p2p);
    if (!node->crashed) {
        tt_sim_node_gone(sim, number, incarnation);
    }
}

static const struct tt_p2p_ops p2p_ops = {.name = "sim",
                                          .address = address,
                                          .connect = connect_to,
                                          .disconnect = disconnect,
                                          .send = send_frame,
                                          .flush = flush,
                                          .memory_register = memory_register,
                                          .memory_release = memory_release,
                                          .memory_pack = memory_pack,
                                          .get = get,
                                          .put = put,
                                          .progress = progress,
                                          .fd = no_fd,
                                          .tend = tend,
                                          .arm = arm,
                                          .counters = counters,
                                          .destroy = destroy};
