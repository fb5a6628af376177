/* SPDX-License-Identifier: BSD-3-Clause */
/* A multicast queue of the simulator, for the provider (mcast.c) and for what UC does with its packets (uc.c). */
#ifndef TT_FABRIC_SIM_MCAST_QUEUE_H
#define TT_FABRIC_SIM_MCAST_QUEUE_H

#include "fabric/sim/internal.h"

/* A received chunk that has not been polled. */
struct tt_sim_waiting {
    struct tt_sim_packet *chunk; /* held; over UC its message */
    uint8_t *place;              /* where it has been written; NULL: it goes to staging */
};

/* Memory of the node's software that UC writes to. */
struct tt_sim_window {
    uint32_t key; /* 0: free */
    uint8_t *address;
    uint64_t length_bytes;
};

/* The chunk that is coming from one sender, packet by packet. */
struct tt_sim_arrival {
    uint64_t message; /* 0: none */
    uint64_t bytes;   /* of it that have come */
};

struct tt_sim_queue {
    struct tt_mcast_queue base;
    struct tt_sim_flow flow;
    struct tt_sim_mcast *mcast;
    struct tt_sim_queue *next;          /* of the same instance */
    struct tt_sim_queue *next_in_group; /* of the same node and subgroup */
    struct tt_sim_group *group;
    struct tt_mcast_queue_options options;
    uint64_t id;
    bool introduced;

    struct tt_send_chunk *sends; /* a ring of send_queue_chunks */
    uint32_t send_head, send_count;
    uint32_t accepted, sent;
    struct tt_sim_packet *message; /* UC: the chunk at the head, once its first packet was taken; held */
    uint64_t taken_bytes;          /* of it */

    struct tt_sim_waiting *waiting; /* a ring of receive_depth */
    uint32_t waiting_head, waiting_count;
    uint32_t polled;        /* handed out and not reposted */
    unsigned char *staging; /* slots of the largest chunk; grows with what is polled at once */
    uint32_t slot_count;
    bool *is_out;           /* by slot, as is staged_bytes */
    uint32_t *staged_bytes; /* the length of the chunk there */

    struct tt_sim_window *windows;   /* UC: options.windows */
    struct tt_sim_arrival *arrivals; /* UC: by rank */
    uint32_t arrival_count;

    struct tt_mcast_counters counters;
};

static inline bool tt_sim_is_uc(const struct tt_sim *sim)
{
    return sim->options.uc_packet_bytes > 0;
}

/* The next packet of the chunk at the head of the queue; *is_last: the next one is of another chunk. */
struct tt_sim_packet *tt_sim_uc_take(struct tt_sim_queue *queue, bool *is_last);

/* Whether no packet of the chunk follows this one. */
bool tt_sim_uc_is_last(const struct tt_sim_packet *packet);

/* A packet for this queue has come. True if its chunk is complete; *place is where it was written, NULL: nowhere. */
bool tt_sim_uc_receive(struct tt_sim_queue *queue, const struct tt_sim_packet *packet, uint8_t **place);

void tt_sim_uc_bind(struct tt_mcast_queue *base, uint32_t window_key, void *address, uint64_t length_bytes);
void tt_sim_uc_invalidate(struct tt_mcast_queue *base, uint32_t window_key);

/* When the queue goes. */
void tt_sim_uc_fini(struct tt_sim_queue *queue);

#endif
