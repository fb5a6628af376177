/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Multicast over unreliable connections, which no hardware has: chunks of several packets, written by the network to
 * where they belong (Khalilov et al., sections II-B and V-B, appendix C).
 *
 * Normal path: a chunk is cut into packets when its turn on the uplink comes. One message holds its bytes, which come
 * there as the packets leave the node; the packets point to it. At a receiver every packet of a chunk with a window's
 * key is written to the window when it arrives, and the last one brings the completion with the immediate. A chunk
 * without a key is a send: it completes in the same way, and is copied to staging when it is polled.
 *
 * Failures: as UC, a receiver takes the packets of a chunk in their order only. One that is missing, doubled or late
 * ends the chunk: nothing tells of it, and what was written stays. So does a packet that finds no window, or would be
 * written beyond its end. A hardware's UC connection would break there; a multicast group has one receiver too many
 * for that, so here the packet is dropped and counted.
 *
 * The window is looked up for each packet: what is invalidated between two of them gets nothing more.
 */
#include <stdlib.h>
#include <string.h>

#include "fabric/sim/mcast_queue.h"

/* --- Sending ---------------------------------------------------------------------------------------------------- */

static struct tt_sim_packet *create_message(struct tt_sim_queue *queue, const struct tt_send_chunk *chunk)
{
    struct tt_sim *sim = queue->mcast->sim;
    struct tt_sim_packet *message = tt_sim_packet_create(sim, TT_SIM_CHUNK, queue->mcast->node, chunk->length_bytes);
    message->number = ++sim->next_message;
    message->imm = chunk->imm;
    message->rank = queue->options.rank;
    message->window_key = chunk->window_key;
    message->offset = chunk->window_offset_bytes;
    return message;
}

struct tt_sim_packet *tt_sim_uc_take(struct tt_sim_queue *queue, bool *is_last)
{
    struct tt_sim *sim = queue->mcast->sim;
    const struct tt_send_chunk *chunk = &queue->sends[queue->send_head];
    if (queue->message == NULL) {
        queue->message = create_message(queue, chunk);
        queue->taken_bytes = 0;
    }
    struct tt_sim_packet *message = queue->message;
    const uint64_t rest_bytes = message->length_bytes - queue->taken_bytes;
    const uint32_t most_bytes = sim->options.uc_packet_bytes;
    struct tt_sim_packet *packet = tt_sim_packet_create(sim, TT_SIM_CHUNK, queue->mcast->node,
                                                        rest_bytes < most_bytes ? (uint32_t)rest_bytes : most_bytes);
    packet->message = message;
    tt_sim_packet_hold(message);
    packet->offset = queue->taken_bytes;
    if (packet->length_bytes > 0) { /* a chunk of nothing may have no address */
        packet->memory = (const uint8_t *)chunk->address + queue->taken_bytes;
    }
    queue->taken_bytes += packet->length_bytes;
    *is_last = tt_sim_uc_is_last(packet);
    if (*is_last) {
        tt_sim_packet_release(sim, message);
        queue->message = NULL;
    }
    return packet;
}

bool tt_sim_uc_is_last(const struct tt_sim_packet *packet)
{
    return packet->offset + packet->length_bytes == packet->message->length_bytes;
}

/* --- Receiving -------------------------------------------------------------------------------------------------- */

static struct tt_sim_window *window_of(const struct tt_sim_queue *queue, uint32_t key)
{
    for (uint32_t i = 0; i < queue->options.windows; i++) {
        if (queue->windows[i].key == key) {
            return &queue->windows[i];
        }
    }
    return NULL;
}

static struct tt_sim_arrival *arrival_from(struct tt_sim_queue *queue, uint32_t rank)
{
    if (rank >= queue->arrival_count) {
        queue->arrivals = tt_sim_reallocate(queue->arrivals, rank + 1, sizeof(*queue->arrivals));
        memset(&queue->arrivals[queue->arrival_count], 0, (rank + 1 - queue->arrival_count) * sizeof(*queue->arrivals));
        queue->arrival_count = rank + 1;
    }
    return &queue->arrivals[rank];
}

/* Where the message's first byte belongs; NULL: nowhere. */
static uint8_t *place_of(const struct tt_sim_queue *queue, const struct tt_sim_packet *message)
{
    const struct tt_sim_window *window = window_of(queue, message->window_key);
    if (window == NULL || message->offset > window->length_bytes ||
        message->length_bytes > window->length_bytes - message->offset) {
        return NULL;
    }
    return window->address + message->offset;
}

bool tt_sim_uc_receive(struct tt_sim_queue *queue, const struct tt_sim_packet *packet, uint8_t **place)
{
    struct tt_sim *sim = queue->mcast->sim;
    struct tt_sim_port *port = &sim->nodes[queue->mcast->node].port;
    const struct tt_sim_packet *message = packet->message;
    struct tt_sim_arrival *arrival = arrival_from(queue, packet->rank);

    if (packet->offset == 0) {
        *arrival = (struct tt_sim_arrival){.message = message->number};
    }
    if (arrival->message != message->number || arrival->bytes != packet->offset) {
        arrival->message = 0;
        port->broken_packets++;
        tt_sim_note(sim, "out of its order at node %u", queue->mcast->node);
        return false;
    }
    *place = NULL;
    if (message->window_key != 0) {
        *place = place_of(queue, message);
        if (*place == NULL) {
            arrival->message = 0;
            port->refused_packets++;
            tt_sim_note(sim, "nothing is bound at node %u", queue->mcast->node);
            return false;
        }
        if (packet->length_bytes > 0) {
            memcpy(*place + packet->offset, message->data + packet->offset, packet->length_bytes);
        }
    }
    arrival->bytes += packet->length_bytes;
    return tt_sim_uc_is_last(packet);
}

/* --- Windows ---------------------------------------------------------------------------------------------------- */

void tt_sim_uc_bind(struct tt_mcast_queue *base, uint32_t window_key, void *address, uint64_t length_bytes)
{
    struct tt_sim_queue *queue = (struct tt_sim_queue *)base;
    struct tt_sim_window *window = window_of(queue, 0);
    if (window_key == 0 || window == NULL || window_of(queue, window_key) != NULL) {
        tt_sim_violation(queue->mcast->sim, "node %u binds key %u, of %u windows", queue->mcast->node, window_key,
                         queue->options.windows);
        return;
    }
    *window = (struct tt_sim_window){.key = window_key, .address = address, .length_bytes = length_bytes};
}

void tt_sim_uc_invalidate(struct tt_mcast_queue *base, uint32_t window_key)
{
    struct tt_sim_queue *queue = (struct tt_sim_queue *)base;
    struct tt_sim_window *window = window_key != 0 ? window_of(queue, window_key) : NULL;
    if (window == NULL) {
        tt_sim_violation(queue->mcast->sim, "node %u invalidates key %u, which is not bound", queue->mcast->node,
                         window_key);
        return;
    }
    window->key = 0;
}

void tt_sim_uc_fini(struct tt_sim_queue *queue)
{
    if (queue->message != NULL) {
        tt_sim_packet_release(queue->mcast->sim, queue->message);
    }
    free(queue->windows);
    free(queue->arrivals);
}
