/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The simulator as a whole: its life, its time, its nodes and what is done to them.
 *
 * Normal path: the harness advances to the next event or to its own next deadline, whichever is earlier, then takes the
 * nodes that became ready and lets their software run.
 *
 * Failures: options that cannot be are refused with their value. A crash ends a node for good.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/least.h"
#include "base/log.h"
#include "fabric/sim/internal.h"

void tt_sim_options_init(struct tt_sim_options *options, uint32_t node_count)
{
    *options = (struct tt_sim_options){.node_count = node_count,
                                       .seed = 1,
                                       .uplink = {UINT64_C(100000000000), TT_NS_PER_US},
                                       .downlink = {UINT64_C(100000000000), TT_NS_PER_US},
                                       .max_chunk_bytes = 4096,
                                       .send_batch = 16,
                                       .send_queue_chunks = 128,
                                       .receive_depth = 1024,
                                       .header_bytes = 64,
                                       .p2p_packet_bytes = 4096,
                                       .frame_bytes = TT_P2P_LEAST_FRAME_BYTES,
                                       .detection_min_ns = TT_NS_PER_MS,
                                       .detection_max_ns = 10 * TT_NS_PER_MS,
                                       .faults = {.retransmit_ns = 100 * TT_NS_PER_US}};
}

static tutti_status check_number(const char *name, uint64_t value, uint64_t least, uint64_t most)
{
    if (value < least || value > most) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_INVALID_ARGUMENT, "sim: %s %llu, not %llu to %llu", name,
                        (unsigned long long)value, (unsigned long long)least, (unsigned long long)most);
    }
    return TUTTI_OK;
}

static bool are_valid(const struct tt_sim_options *options)
{
    const struct {
        const char *name;
        uint64_t value, least, most;
    } rules[] = {
        {"node_count", options->node_count, 1, TT_SIM_MAX_NODES},
        {"max_chunk_bytes", options->max_chunk_bytes, 1, UINT32_C(1) << 24},
        {"send_batch", options->send_batch, 1, options->send_queue_chunks},
        {"send_queue_chunks", options->send_queue_chunks, 1, UINT32_C(1) << 24},
        {"receive_depth", options->receive_depth, 1, UINT32_C(1) << 24},
        {"header_bytes", options->header_bytes, 0, UINT32_C(1) << 16},
        {"uc_packet_bytes", options->uc_packet_bytes, 0, options->max_chunk_bytes},
        {"p2p_packet_bytes", options->p2p_packet_bytes, 1, UINT32_C(1) << 24},
        {"frame_bytes", options->frame_bytes, TT_P2P_LEAST_FRAME_BYTES, TT_P2P_MAX_FRAME_BYTES},
        {"detection_max_ns", options->detection_max_ns, options->detection_min_ns, TT_NS_PER_S * 3600},
        {"loss_ppm", options->faults.loss_ppm, 0, 1000000},
        {"duplicate_ppm", options->faults.duplicate_ppm, 0, 1000000},
        {"reorder_ppm", options->faults.reorder_ppm, 0, 1000000},
        {"spike_ppm", options->faults.spike_ppm, 0, 1000000},
    };
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        if (check_number(rules[i].name, rules[i].value, rules[i].least, rules[i].most) != TUTTI_OK) {
            return false;
        }
    }
    return true;
}

struct tt_sim *tt_sim_create(const struct tt_sim_options *options)
{
    if (!are_valid(options)) {
        return NULL;
    }
    struct tt_sim *sim = tt_sim_allocate(sizeof(*sim));
    sim->options = *options;
    tt_random_init(&sim->random, options->seed);
    sim->large_bytes =
        (uint32_t)tt_most(options->frame_bytes, tt_most(options->max_chunk_bytes, options->p2p_packet_bytes));
    if (sim->large_bytes <= TT_P2P_LEAST_FRAME_BYTES) {
        sim->large_bytes = TT_P2P_LEAST_FRAME_BYTES + 1; /* the two pools are told apart by their size */
    }
    sim->ready = tt_sim_allocate(options->node_count * sizeof(*sim->ready));
    sim->nodes = tt_sim_allocate(options->node_count * sizeof(*sim->nodes));
    for (uint32_t i = 0; i < options->node_count; i++) {
        sim->nodes[i].uplink.link = options->uplink;
        sim->nodes[i].downlink.link = options->downlink;
        sim->nodes[i].faults = options->faults;
    }
    return sim;
}

static void free_pairs(struct tt_sim *sim, struct tt_sim_node *node)
{
    for (uint32_t i = 0; node->pairs != NULL && i < sim->options.node_count; i++) {
        struct tt_sim_pair *pair = node->pairs[i];
        while (pair != NULL && pair->connections != NULL) {
            struct tt_sim_connection *connection = pair->connections;
            pair->connections = connection->next;
            free(connection);
        }
        free(pair);
    }
    free(node->pairs);
}

void tt_sim_destroy(struct tt_sim *sim)
{
    if (sim == NULL) {
        return;
    }
    for (uint32_t i = 0; i < sim->options.node_count; i++) {
        tt_sim_mcast_free(sim->nodes[i].mcast);
        tt_sim_p2p_free(sim->nodes[i].p2p);
    }
    for (uint32_t i = 0; i < sim->options.node_count; i++) {
        free_pairs(sim, &sim->nodes[i]);
        free(sim->nodes[i].registrations);
        free(sim->nodes[i].downlink.ring);
    }
    tt_sim_groups_fini(sim);
    tt_sim_packets_fini(sim);
    while (sim->all_operations != NULL) {
        struct tt_sim_operation *operation = sim->all_operations;
        sim->all_operations = operation->all;
        free(operation);
    }
    while (sim->drops != NULL) {
        struct tt_sim_drop *drop = sim->drops;
        sim->drops = drop->next;
        free(drop);
    }
    free(sim->heap.events);
    free(sim->ready);
    free(sim->nodes);
    free(sim);
}

/* --- Time ------------------------------------------------------------------------------------------------------- */

uint64_t tt_sim_now(const struct tt_sim *sim)
{
    return sim->now_ns;
}

uint64_t tt_sim_next_event_time(const struct tt_sim *sim)
{
    return sim->heap.count > 0 ? sim->heap.events[0].time_ns : TT_NEVER;
}

static void crash_now(struct tt_sim *sim, uint32_t node)
{
    struct tt_sim_node *dead = &sim->nodes[node];
    if (!dead->crashed) {
        dead->crashed = true;
        tt_sim_node_gone(sim, node, dead->incarnation);
    }
}

static void fire(struct tt_sim *sim, const struct tt_sim_event *event)
{
    switch (event->type) {
    case TT_SIM_EVENT_UPLINK:
        tt_sim_uplink_end(sim, event->node);
        break;
    case TT_SIM_EVENT_SWITCH:
        tt_sim_switch_forward(sim, event->object);
        break;
    case TT_SIM_EVENT_DELIVER: {
        struct tt_sim_packet *packet = event->object;
        if (!sim->nodes[event->node].crashed) {
            if (packet->kind == TT_SIM_CHUNK) {
                tt_sim_chunk_deliver(event->node, packet);
            } else {
                tt_sim_p2p_deliver(sim, event->node, packet);
            }
        }
        tt_sim_packet_release(sim, packet);
        break;
    }
    case TT_SIM_EVENT_DOWN:
        tt_sim_connection_down(sim, event->object);
        break;
    case TT_SIM_EVENT_CRASH:
        crash_now(sim, event->node);
        break;
    case TT_SIM_EVENT_WAKE:
        tt_sim_mark_ready(sim, event->node);
        break;
    }
}

uint64_t tt_sim_advance(struct tt_sim *sim, uint64_t until_ns)
{
    struct tt_sim_event event;
    uint64_t count = 0;
    while (tt_sim_event_pop(sim, until_ns, &event)) {
        sim->now_ns = event.time_ns;
        tt_sim_event_record(sim, &event);
        fire(sim, &event);
        count++;
    }
    if (until_ns > sim->now_ns && until_ns != TT_NEVER) {
        sim->now_ns = until_ns;
    }
    return count;
}

bool tt_sim_take_ready(struct tt_sim *sim, uint32_t *node)
{
    while (sim->ready_count > 0) {
        const uint32_t next = sim->ready[sim->ready_head];
        sim->ready_head = (sim->ready_head + 1) % sim->options.node_count;
        sim->ready_count--;
        sim->nodes[next].ready = false;
        /* It may have been stalled or have crashed since; the end of a stall makes it ready again. */
        if (tt_sim_node_runs(sim, next)) {
            *node = next;
            return true;
        }
    }
    return false;
}

void tt_sim_mark_ready(struct tt_sim *sim, uint32_t node)
{
    if (!sim->nodes[node].ready && tt_sim_node_runs(sim, node)) {
        sim->nodes[node].ready = true;
        sim->ready[(sim->ready_head + sim->ready_count) % sim->options.node_count] = node;
        sim->ready_count++;
    }
}

/* --- Faults ----------------------------------------------------------------------------------------------------- */

void tt_sim_set_links(struct tt_sim *sim, uint32_t node, struct tt_sim_link uplink, struct tt_sim_link downlink)
{
    assert(node < sim->options.node_count || node == TT_SIM_ALL_NODES);
    for (uint32_t i = 0; i < sim->options.node_count; i++) {
        if (node == i || node == TT_SIM_ALL_NODES) {
            sim->nodes[i].uplink.link = uplink;
            sim->nodes[i].downlink.link = downlink;
        }
    }
}

void tt_sim_set_faults(struct tt_sim *sim, uint32_t node, const struct tt_sim_faults *faults)
{
    assert(node < sim->options.node_count || node == TT_SIM_ALL_NODES);
    for (uint32_t i = 0; i < sim->options.node_count; i++) {
        if (node == i || node == TT_SIM_ALL_NODES) {
            sim->nodes[i].faults = *faults;
        }
    }
}

bool tt_sim_refuses(const struct tt_sim *sim, uint32_t node)
{
    return sim->nodes[node].faults.refused_ppm > 0 && !sim->healed;
}

void tt_sim_set_healed(struct tt_sim *sim, bool healed)
{
    sim->healed = healed;
}

void tt_sim_set_part(struct tt_sim *sim, uint32_t node, uint32_t part)
{
    assert(node < sim->options.node_count);
    sim->nodes[node].part = part;
}

void tt_sim_drop_chunk(struct tt_sim *sim, uint32_t node, uint32_t imm, uint32_t times)
{
    struct tt_sim_drop *drop = tt_sim_allocate(sizeof(*drop));
    *drop = (struct tt_sim_drop){.next = sim->drops, .node = node, .imm = imm, .times = times};
    sim->drops = drop;
}

void tt_sim_stall(struct tt_sim *sim, uint32_t node, uint64_t until_ns)
{
    if (until_ns > sim->nodes[node].stalled_until_ns && until_ns > sim->now_ns) {
        sim->nodes[node].stalled_until_ns = until_ns;
        tt_sim_event_push(sim, until_ns, TT_SIM_EVENT_WAKE, node, NULL);
    }
}

bool tt_sim_is_stalled(const struct tt_sim *sim, uint32_t node)
{
    return sim->nodes[node].stalled_until_ns > sim->now_ns;
}

void tt_sim_crash(struct tt_sim *sim, uint32_t node, uint64_t at_ns)
{
    if (at_ns <= sim->now_ns) {
        crash_now(sim, node);
    } else {
        tt_sim_event_push(sim, at_ns, TT_SIM_EVENT_CRASH, node, NULL);
    }
}

bool tt_sim_is_crashed(const struct tt_sim *sim, uint32_t node)
{
    return sim->nodes[node].crashed;
}

/* --- What happened ---------------------------------------------------------------------------------------------- */

void tt_sim_port_counters(const struct tt_sim *sim, uint32_t node, struct tt_sim_port *port)
{
    *port = sim->nodes[node].port;
}

uint64_t tt_sim_violations(const struct tt_sim *sim)
{
    return sim->violation_count;
}

const char *tt_sim_violation_text(const struct tt_sim *sim, uint64_t index)
{
    return index < sim->violation_count && index < TT_SIM_VIOLATIONS_KEPT ? sim->violations[index] : "";
}

uint64_t tt_sim_digest(const struct tt_sim *sim)
{
    return sim->digest;
}
