/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The simulator's links and its switch.
 *
 * Normal path: flows with packets stand in the round of their node's uplink. The one whose turn it is gives a packet;
 * when its last bit has left, its payload is read and it is on its way to the switch. There it is copied to the
 * downlink of every receiver, which serves first come, first served: so the time of arrival is known at once and one
 * event a receiver is enough.
 *
 * Failures: a chunk that finds the downlink's queue full is dropped; the dice of the receiver lose, double or delay
 * what comes down. Packets of p2p are only delayed, and frames never overtake each other.
 */
#include <stdlib.h>

#include "fabric/sim/internal.h"

static uint64_t serialization_ns(const struct tt_sim_link *link, uint64_t bytes)
{
    if (link->bits_per_second == 0) {
        return 0;
    }
    return (bytes * 8 * TT_NS_PER_S + link->bits_per_second - 1) / link->bits_per_second;
}

static uint32_t wire_bytes(const struct tt_sim *sim, const struct tt_sim_packet *packet)
{
    return sim->options.header_bytes + packet->length_bytes + packet->behind_bytes;
}

/* --- Uplink ----------------------------------------------------------------------------------------------------- */

static void append(struct tt_sim_uplink *uplink, struct tt_sim_flow *flow)
{
    flow->next = NULL;
    flow->active = true;
    if (uplink->last != NULL) {
        uplink->last->next = flow;
    } else {
        uplink->first = flow;
    }
    uplink->last = flow;
}

static struct tt_sim_packet *take(struct tt_sim_flow *flow, bool *more)
{
    switch (flow->kind) {
    case TT_SIM_FLOW_CHUNKS:
        return tt_sim_queue_take(flow->owner, more);
    case TT_SIM_FLOW_CONTROL:
        return tt_sim_pair_take_control(flow->owner, more);
    default:
        return tt_sim_pair_take_bulk(flow->owner, more);
    }
}

static void start(struct tt_sim *sim, uint32_t node)
{
    struct tt_sim_uplink *uplink = &sim->nodes[node].uplink;
    while (uplink->packet == NULL && uplink->first != NULL && !sim->nodes[node].crashed) {
        struct tt_sim_flow *flow = uplink->first;
        uplink->first = flow->next;
        if (uplink->first == NULL) {
            uplink->last = NULL;
        }
        flow->active = false;
        bool more = false;
        uplink->packet = take(flow, &more);
        if (more) {
            append(uplink, flow);
        }
        if (uplink->packet != NULL) {
            const uint64_t end_ns = sim->now_ns + serialization_ns(&uplink->link, wire_bytes(sim, uplink->packet));
            tt_sim_event_push(sim, end_ns, TT_SIM_EVENT_UPLINK, node, NULL);
        }
    }
}

void tt_sim_flow_offer(struct tt_sim *sim, uint32_t node, struct tt_sim_flow *flow)
{
    if (!flow->active) {
        append(&sim->nodes[node].uplink, flow);
    }
    start(sim, node);
}

void tt_sim_flow_remove(struct tt_sim *sim, uint32_t node, struct tt_sim_flow *flow)
{
    struct tt_sim_uplink *uplink = &sim->nodes[node].uplink;
    struct tt_sim_flow *previous = NULL;
    for (struct tt_sim_flow *at = uplink->first; at != NULL; previous = at, at = at->next) {
        if (at != flow) {
            continue;
        }
        if (previous != NULL) {
            previous->next = flow->next;
        } else {
            uplink->first = flow->next;
        }
        if (uplink->last == flow) {
            uplink->last = previous;
        }
        flow->active = false;
        return;
    }
}

void tt_sim_uplink_end(struct tt_sim *sim, uint32_t node)
{
    struct tt_sim_uplink *uplink = &sim->nodes[node].uplink;
    struct tt_sim_packet *packet = uplink->packet;
    uplink->packet = NULL;
    if (sim->nodes[node].crashed) {
        tt_sim_packet_release(sim, packet);
        return;
    }
    if (!packet->canceled) {
        if (packet->kind == TT_SIM_CHUNK) {
            tt_sim_chunk_leave(sim, packet);
        } else {
            tt_sim_p2p_leave(sim, packet);
        }
    }
    if (packet->canceled) {
        tt_sim_packet_release(sim, packet);
    } else {
        /* A latency that was lowered in between lets nothing overtake. */
        const uint64_t arrival_ns = sim->now_ns + uplink->link.latency_ns;
        uplink->arrival_ns = arrival_ns > uplink->arrival_ns ? arrival_ns : uplink->arrival_ns;
        tt_sim_event_push(sim, uplink->arrival_ns, TT_SIM_EVENT_SWITCH, node, packet);
    }
    start(sim, node);
}

/* --- Downlink --------------------------------------------------------------------------------------------------- */

static void remember_queued(struct tt_sim_downlink *downlink, uint32_t bytes, uint64_t end_ns)
{
    if (downlink->count == downlink->capacity) {
        const size_t capacity = downlink->capacity > 0 ? 2 * downlink->capacity : 64;
        downlink->ring = tt_sim_reallocate(downlink->ring, capacity, sizeof(*downlink->ring));
        /* What had wrapped around moves behind the old end. */
        for (size_t i = 0; i < downlink->head; i++) {
            downlink->ring[downlink->capacity + i] = downlink->ring[i];
        }
        downlink->capacity = capacity;
    }
    const size_t tail = (downlink->head + downlink->count) & (downlink->capacity - 1);
    downlink->ring[tail] = (struct tt_sim_queued){.end_ns = end_ns, .bytes = bytes};
    downlink->count++;
    downlink->queued_bytes += bytes;
}

static void forget_sent(struct tt_sim_downlink *downlink, uint64_t now_ns)
{
    while (downlink->count > 0 && downlink->ring[downlink->head].end_ns <= now_ns) {
        downlink->queued_bytes -= downlink->ring[downlink->head].bytes;
        downlink->head = (downlink->head + 1) & (downlink->capacity - 1);
        downlink->count--;
    }
}

static bool is_dropped_by_rule(struct tt_sim *sim, uint32_t node, uint32_t imm)
{
    for (struct tt_sim_drop *drop = sim->drops; drop != NULL; drop = drop->next) {
        if (drop->node == node && drop->imm == imm && drop->times > 0) {
            drop->times--;
            return true;
        }
    }
    return false;
}

static uint64_t late_by(struct tt_sim *sim, const struct tt_sim_faults *faults)
{
    return 1 + (faults->reorder_ns > 0 ? tt_random_below(&sim->random, faults->reorder_ns) : 0);
}

/* An event for each receiver: a chunk waits in the queue of each one's port, so it comes to each at another time. */
static void deliver_chunk(struct tt_sim *sim, uint32_t node, struct tt_sim_packet *packet, uint64_t arrival_ns)
{
    struct tt_sim_port *port = &sim->nodes[node].port;
    if (!sim->healed) {
        const struct tt_sim_faults *faults = &sim->nodes[node].faults;
        const bool is_lost = faults->loss_ppm > 0 && tt_random_chance(&sim->random, faults->loss_ppm);
        if (is_lost || (sim->drops != NULL && is_dropped_by_rule(sim, node, packet->imm))) {
            port->lost++;
            tt_sim_note(sim, "lost on the way to node %u", node);
            return;
        }
        if (faults->reorder_ppm > 0 && tt_random_chance(&sim->random, faults->reorder_ppm)) {
            port->reordered++;
            arrival_ns += late_by(sim, faults);
        }
        if (faults->duplicate_ppm > 0 && tt_random_chance(&sim->random, faults->duplicate_ppm)) {
            port->duplicated++;
            tt_sim_packet_hold(packet);
            tt_sim_event_push(sim, arrival_ns + late_by(sim, faults), TT_SIM_EVENT_DELIVER, node, packet);
        }
    }
    tt_sim_packet_hold(packet);
    tt_sim_event_push(sim, arrival_ns, TT_SIM_EVENT_DELIVER, node, packet);
}

static void deliver_p2p(struct tt_sim *sim, uint32_t node, struct tt_sim_packet *packet, uint64_t arrival_ns)
{
    enum { MAX_RETRANSMISSIONS = 8 };
    if (!sim->healed) {
        const struct tt_sim_faults *faults = &sim->nodes[node].faults;
        for (int i = 0; i < MAX_RETRANSMISSIONS && faults->loss_ppm > 0; i++) {
            if (!tt_random_chance(&sim->random, faults->loss_ppm)) {
                break;
            }
            sim->nodes[node].port.retransmitted++;
            arrival_ns += faults->retransmit_ns;
        }
        if (faults->reorder_ppm > 0 && tt_random_chance(&sim->random, faults->reorder_ppm)) {
            sim->nodes[node].port.reordered++;
            arrival_ns += late_by(sim, faults);
        }
    }
    if (packet->kind == TT_SIM_FRAME || packet->kind == TT_SIM_FAREWELL) {
        struct tt_sim_pair *pair = packet->connection->pair;
        if (arrival_ns < pair->ordered_ns) {
            arrival_ns = pair->ordered_ns;
        }
        pair->ordered_ns = arrival_ns;
    }
    tt_sim_packet_hold(packet);
    tt_sim_event_push(sim, arrival_ns, TT_SIM_EVENT_DELIVER, node, packet);
}

static void send_down(struct tt_sim *sim, uint32_t node, struct tt_sim_packet *packet)
{
    struct tt_sim_downlink *downlink = &sim->nodes[node].downlink;
    struct tt_sim_port *port = &sim->nodes[node].port;
    const struct tt_sim_faults *faults = &sim->nodes[node].faults;
    const uint32_t bytes = wire_bytes(sim, packet);
    const bool is_chunk = packet->kind == TT_SIM_CHUNK;
    const uint64_t limit = sim->options.downlink_queue_bytes;

    if (sim->nodes[node].crashed) {
        return;
    }
    if (limit > 0) {
        forget_sent(downlink, sim->now_ns);
        if (is_chunk && downlink->queued_bytes + bytes > limit) {
            port->tail_drops++;
            tt_sim_note(sim, "downlink of node %u is full", node);
            return;
        }
    }
    uint64_t begin_ns = downlink->busy_until_ns > sim->now_ns ? downlink->busy_until_ns : sim->now_ns;
    if (!sim->healed && faults->spike_ppm > 0 && tt_random_chance(&sim->random, faults->spike_ppm)) {
        port->spikes++;
        begin_ns += faults->spike_ns;
    }
    downlink->busy_until_ns = begin_ns + serialization_ns(&downlink->link, bytes);
    if (limit > 0) {
        remember_queued(downlink, bytes, downlink->busy_until_ns);
    }
    port->sent_packets++;
    port->sent_bytes += bytes;
    const uint64_t arrival_ns = downlink->busy_until_ns + downlink->link.latency_ns;
    if (is_chunk) {
        port->sent_chunk_bytes += bytes;
        deliver_chunk(sim, node, packet, arrival_ns);
    } else {
        deliver_p2p(sim, node, packet, arrival_ns);
    }
}

/* Whether a chunk gets from the switch to the node at all. */
static bool gets_through(struct tt_sim *sim, uint32_t source, uint32_t node)
{
    if (sim->healed || sim->nodes[source].part == sim->nodes[node].part) {
        return true;
    }
    sim->nodes[node].port.lost++;
    tt_sim_note(sim, "lost between node %u and node %u, in another part", source, node);
    return false;
}

void tt_sim_switch_forward(struct tt_sim *sim, struct tt_sim_packet *packet)
{
    struct tt_sim_port *port = &sim->nodes[packet->source].port;
    const uint32_t bytes = wire_bytes(sim, packet);
    port->received_packets++;
    port->received_bytes += bytes;
    if (packet->kind == TT_SIM_CHUNK) {
        port->received_chunk_bytes += bytes;
        const struct tt_sim_group *group = packet->group;
        for (uint32_t i = 0; i < group->member_count; i++) {
            if (group->members[i] != packet->source && gets_through(sim, packet->source, group->members[i])) {
                send_down(sim, group->members[i], packet);
            }
        }
    } else {
        send_down(sim, packet->destination, packet);
    }
    tt_sim_packet_release(sim, packet);
}
