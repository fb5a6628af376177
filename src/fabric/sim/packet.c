/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets of the simulator, pooled in two sizes: one for frames and smaller, one for chunks and the data of gets and
 * puts. One packet is shared by all receivers of a chunk, and counts its references.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/sim/internal.h"

struct tt_sim_packet *tt_sim_packet_create(struct tt_sim *sim, enum tt_sim_packet_kind kind, uint32_t source,
                                           uint32_t length_bytes)
{
    const bool is_small = length_bytes <= TT_P2P_LEAST_FRAME_BYTES;
    struct tt_sim_packet **pool = is_small ? &sim->free_small : &sim->free_large;
    struct tt_sim_packet *packet = *pool;
    if (packet != NULL) {
        *pool = packet->next;
        struct tt_sim_packet *all = packet->all;
        const uint32_t capacity_bytes = packet->capacity_bytes;
        memset(packet, 0, sizeof(*packet));
        packet->all = all;
        packet->capacity_bytes = capacity_bytes;
    } else {
        const uint32_t capacity_bytes = is_small ? TT_P2P_LEAST_FRAME_BYTES : sim->large_bytes;
        packet = tt_sim_allocate(sizeof(*packet) + capacity_bytes);
        packet->capacity_bytes = capacity_bytes;
        packet->all = sim->all_packets;
        sim->all_packets = packet;
    }
    assert(length_bytes <= packet->capacity_bytes);
    packet->references = 1;
    packet->kind = kind;
    packet->source = source;
    packet->length_bytes = length_bytes;
    return packet;
}

void tt_sim_packet_hold(struct tt_sim_packet *packet)
{
    packet->references++;
}

void tt_sim_packet_release(struct tt_sim *sim, struct tt_sim_packet *packet)
{
    assert(packet->references > 0);
    if (--packet->references > 0) {
        return;
    }
    if (packet->operation != NULL) {
        tt_sim_operation_release(sim, packet->operation);
        packet->operation = NULL;
    }
    if (packet->message != NULL) {
        tt_sim_packet_release(sim, packet->message);
        packet->message = NULL;
    }
    struct tt_sim_packet **pool =
        packet->capacity_bytes == TT_P2P_LEAST_FRAME_BYTES ? &sim->free_small : &sim->free_large;
    packet->next = *pool;
    *pool = packet;
}

void tt_sim_packets_fini(struct tt_sim *sim)
{
    while (sim->all_packets != NULL) {
        struct tt_sim_packet *packet = sim->all_packets;
        sim->all_packets = packet->all;
        free(packet);
    }
}

const char *tt_sim_packet_name(const struct tt_sim_packet *packet)
{
    static const char *const names[] = {"chunk", "frame", "farewell", "get-request", "get-data", "put-data", "answer"};
    return names[packet->kind];
}
