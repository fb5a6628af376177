/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of the simulator share. Objects that events point to live until the simulator is destroyed. */
#ifndef TT_FABRIC_SIM_INTERNAL_H
#define TT_FABRIC_SIM_INTERNAL_H

#include "base/clock.h"
#include "base/random.h"
#include "fabric/sim/sim.h"

enum { TT_SIM_VIOLATIONS_KEPT = 16, TT_SIM_VIOLATION_BYTES = 160, TT_SIM_POISON = 0xDB };

/* --- Events (event.c) ------------------------------------------------------------------------------------------- */

enum tt_sim_event_type {
    TT_SIM_EVENT_UPLINK,  /* node: the last bit of the packet on its uplink has left */
    TT_SIM_EVENT_SWITCH,  /* packet: has arrived at the switch */
    TT_SIM_EVENT_DELIVER, /* packet, node: has arrived at the node */
    TT_SIM_EVENT_DOWN,    /* connection: its owner notices that the other side is gone */
    TT_SIM_EVENT_CRASH,   /* node */
    TT_SIM_EVENT_WAKE     /* node: a stall may be over */
};

struct tt_sim_event {
    uint64_t time_ns;
    uint64_t sequence;
    void *object;
    uint32_t node;
    enum tt_sim_event_type type;
};

struct tt_sim_heap {
    struct tt_sim_event *events;
    size_t count, capacity;
    uint64_t next_sequence;
};

void tt_sim_event_push(struct tt_sim *sim, uint64_t time_ns, enum tt_sim_event_type type, uint32_t node, void *object);
bool tt_sim_event_pop(struct tt_sim *sim, uint64_t until_ns, struct tt_sim_event *event);
/* Writes the event to the log and folds it into the digest. */
void tt_sim_event_record(struct tt_sim *sim, const struct tt_sim_event *event);
/* A remark in the log below the event that is being handled. */
void tt_sim_note(struct tt_sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));
void tt_sim_violation(struct tt_sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Memory for a test vehicle: there is no way on without it, so running out ends the process with a message. */
void *tt_sim_allocate(size_t bytes);
void *tt_sim_reallocate(void *memory, size_t count, size_t bytes);

/* --- Packets (packet.c) ----------------------------------------------------------------------------------------- */

enum tt_sim_packet_kind {
    TT_SIM_CHUNK,
    TT_SIM_FRAME,
    TT_SIM_FAREWELL, /* behind the last frame of a connection */
    TT_SIM_GET_REQUEST,
    TT_SIM_GET_DATA,
    TT_SIM_PUT_DATA,
    TT_SIM_ANSWER /* how a put ended at the target, or why a get cannot be served */
};

/* A p2p instance's address. */
struct tt_sim_address {
    uint32_t magic, node, incarnation;
};

struct tt_sim_packet {
    struct tt_sim_packet *next; /* in a list of free ones, or of a flow */
    struct tt_sim_packet *all;  /* every packet that was ever allocated, to free them */
    uint32_t references;
    enum tt_sim_packet_kind kind;
    uint32_t source, destination; /* nodes; a chunk has no destination */
    uint32_t length_bytes;        /* payload */
    uint32_t behind_bytes;        /* of the immediate's data, of a put's last packet: on the wire only */
    uint32_t capacity_bytes;
    bool canceled; /* what it was to carry is gone; it only keeps the uplink busy */

    struct tt_sim_group *group; /* of a chunk, with its sender's data; the queue may be gone after the uplink */
    struct tt_sim_queue *queue;
    const void *memory;
    uint64_t queue_id, key;
    uint32_t imm, rank;
    struct tt_sim_packet *message; /* UC: the chunk that this is a packet of; held. `offset` is the packet's there */
    uint64_t number;               /* of a message; its `offset` is the window's */
    uint32_t window_key;           /* of a message */

    struct tt_sim_connection *connection; /* of FRAME and FAREWELL: the sender's */
    struct tt_sim_address from;           /* of a FRAME that has been handed out */
    struct tt_sim_operation *operation;   /* of the others; the packet holds a reference */
    uint64_t offset;
    tutti_status status;

    unsigned char data[];
};

/* One reference, no operation, everything else zero. */
struct tt_sim_packet *tt_sim_packet_create(struct tt_sim *sim, enum tt_sim_packet_kind kind, uint32_t source,
                                           uint32_t length_bytes);
void tt_sim_packet_hold(struct tt_sim_packet *packet);
void tt_sim_packet_release(struct tt_sim *sim, struct tt_sim_packet *packet);
void tt_sim_packets_fini(struct tt_sim *sim);
const char *tt_sim_packet_name(const struct tt_sim_packet *packet);

/* --- Links (link.c) --------------------------------------------------------------------------------------------- */

enum tt_sim_flow_kind { TT_SIM_FLOW_CHUNKS, TT_SIM_FLOW_CONTROL, TT_SIM_FLOW_BULK };

/* Something that has packets for an uplink. */
struct tt_sim_flow {
    struct tt_sim_flow *next; /* in the round of the uplink */
    void *owner;              /* struct tt_sim_queue for CHUNKS, struct tt_sim_pair for the others */
    enum tt_sim_flow_kind kind;
    bool active;
};

struct tt_sim_uplink {
    struct tt_sim_link link;
    struct tt_sim_flow *first, *last;
    struct tt_sim_packet *packet; /* being sent */
    uint64_t arrival_ns;          /* of the last packet that has left, at the switch */
};

struct tt_sim_queued {
    uint64_t end_ns;
    uint32_t bytes;
};

struct tt_sim_downlink {
    struct tt_sim_link link;
    uint64_t busy_until_ns;
    uint64_t queued_bytes; /* kept only if downlinks are bounded, with a ring of what waits */
    struct tt_sim_queued *ring;
    size_t head, count, capacity;
};

/* The flow has a packet (again). */
void tt_sim_flow_offer(struct tt_sim *sim, uint32_t node, struct tt_sim_flow *flow);
/* The flow's owner goes away. */
void tt_sim_flow_remove(struct tt_sim *sim, uint32_t node, struct tt_sim_flow *flow);
void tt_sim_uplink_end(struct tt_sim *sim, uint32_t node);
void tt_sim_switch_forward(struct tt_sim *sim, struct tt_sim_packet *packet);

/* --- Multicast (mcast.c) ---------------------------------------------------------------------------------------- */

/* A subgroup as the switch knows it. */
struct tt_sim_group {
    struct tt_sim_group *next;
    uint32_t group_be;
    uint16_t port;
    uint32_t member_count;
    uint32_t *members;            /* nodes, in the order in which they came */
    struct tt_sim_queue **queues; /* by node: its queues here */
};

struct tt_sim_mcast {
    struct tt_mcast base;
    struct tt_sim *sim;
    uint32_t node;
    struct tt_sim_queue *queues;
};

/* The next packet of a queue for the uplink, NULL: none; *more: another one waits. */
struct tt_sim_packet *tt_sim_queue_take(struct tt_sim_queue *queue, bool *more);
void tt_sim_chunk_leave(struct tt_sim *sim, struct tt_sim_packet *packet);
void tt_sim_chunk_deliver(uint32_t node, struct tt_sim_packet *packet);
void tt_sim_mcast_free(struct tt_sim_mcast *mcast);
void tt_sim_groups_fini(struct tt_sim *sim);

/* --- Point to point (p2p.c: the provider, nic.c: what the hardware does) ---------------------------------------- */

enum tt_sim_connection_state { TT_SIM_UP, TT_SIM_DOWN, TT_SIM_DISCONNECTED };

/* One side's view of a connection; stays when the handle is gone, for what is on its way. */
struct tt_sim_connection {
    struct tt_sim_connection *next; /* of the pair */
    struct tt_sim_pair *pair;
    uint32_t local_incarnation, remote_incarnation;
    uint32_t ordinal; /* the how-manieth between these two incarnations */
    enum tt_sim_connection_state state;
    bool farewell_arrived; /* its farewell has reached the other node */
    bool severed;          /* nothing gets through any more; it goes down after the detection time */
    uint64_t cookie;
    struct tt_sim_operation *operations; /* under way */
    struct tt_sim_peer *peer;            /* the handle; NULL after disconnect */
};

/* What goes from one node to another. */
struct tt_sim_pair {
    struct tt_sim *sim;
    uint32_t source, destination;
    uint64_t ordered_ns; /* when the last frame so far arrives */
    struct tt_sim_flow control_flow, bulk_flow;
    struct tt_sim_packet *first_packet, *last_packet;
    struct tt_sim_operation *first_operation, *last_operation;
    struct tt_sim_connection *connections;
};

struct tt_sim_key {
    uint32_t magic, node, slot, generation;
};

struct tt_sim_operation {
    struct tt_sim_operation *next, *previous; /* of the connection */
    struct tt_sim_operation *queued;          /* of the pair that carries the data */
    struct tt_sim_operation *all;
    struct tt_sim_connection *connection;
    uint32_t references; /* packets, a queue of a pair, and the initiator until DONE */
    bool is_put, pending, refused, taken;
    struct tt_sim_key key;
    uint64_t cookie, remote_address, length_bytes;
    struct tt_p2p_immediate immediate;
    uint64_t cursor; /* how much has been cut into packets */
    uint64_t arrived_bytes;
    unsigned char *local;
};

struct tt_sim_registration {
    unsigned char *address;
    size_t length_bytes;
    uint32_t generation;
    struct tt_sim_memory *handle; /* NULL: not live */
};

struct tt_sim_incident {
    struct tt_p2p_event event;
    struct tt_sim_packet *packet; /* a frame's */
};

/* A frame's body that is to stay until the batch ends. */
struct tt_sim_body {
    const void *bytes;
    uint32_t length_bytes;
    uint64_t digest;
};

struct tt_sim_p2p {
    struct tt_p2p base;
    struct tt_sim *sim;
    uint32_t node, incarnation;
    struct tt_sim_incident *ring; /* what progress will tell */
    size_t head, count, capacity; /* capacity is a power of two */
    struct tt_sim_packet *lent;   /* frames that the last progress handed out */
    struct tt_sim_body *bodies;   /* of the batch */
    uint32_t body_count, body_capacity;
    struct tt_p2p_counters counters;
};

struct tt_sim_peer {
    struct tt_p2p_peer base;
    struct tt_sim_connection *connection;
};

struct tt_sim_memory {
    struct tt_p2p_memory base;
    struct tt_sim *sim;
    uint32_t node, slot;
};

struct tt_sim_pair *tt_sim_pair_of(struct tt_sim *sim, uint32_t source, uint32_t destination);
void tt_sim_pair_send(struct tt_sim_pair *pair, struct tt_sim_packet *packet);
void tt_sim_pair_send_bulk(struct tt_sim_pair *pair, struct tt_sim_operation *operation);
struct tt_sim_packet *tt_sim_pair_take_control(struct tt_sim_pair *pair, bool *more);
struct tt_sim_packet *tt_sim_pair_take_bulk(struct tt_sim_pair *pair, bool *more);
void tt_sim_p2p_leave(struct tt_sim *sim, struct tt_sim_packet *packet);
void tt_sim_p2p_deliver(struct tt_sim *sim, uint32_t node, struct tt_sim_packet *packet);
void tt_sim_p2p_tell(struct tt_sim_p2p *p2p, const struct tt_p2p_event *event, struct tt_sim_packet *packet);
void tt_sim_p2p_free(struct tt_sim_p2p *p2p);
void tt_sim_operation_complete(struct tt_sim_operation *operation, tutti_status status);
void tt_sim_operation_release(struct tt_sim *sim, struct tt_sim_operation *operation);
/* The side that owns the connection notices that the other one is gone. */
void tt_sim_connection_down(struct tt_sim *sim, struct tt_sim_connection *connection);
void tt_sim_connection_down_later(struct tt_sim *sim, struct tt_sim_connection *connection);
struct tt_sim_connection *tt_sim_connection_other(struct tt_sim *sim, const struct tt_sim_connection *connection);
/* The node has crashed, or this incarnation of it was destroyed: all who are connected to it will notice. */
void tt_sim_node_gone(struct tt_sim *sim, uint32_t node, uint32_t incarnation);

/* --- The whole (sim.c) ------------------------------------------------------------------------------------------ */

struct tt_sim_node {
    struct tt_sim_uplink uplink;
    struct tt_sim_downlink downlink;
    struct tt_sim_faults faults;
    struct tt_sim_port port;
    struct tt_sim_mcast *mcast;
    struct tt_sim_p2p *p2p;
    struct tt_sim_pair **pairs; /* by destination; NULL before the first: 8 MiB in all where 1,024 nodes all send */
    struct tt_sim_registration *registrations;
    uint32_t registration_count;
    uint32_t incarnation; /* of the p2p instance; counts up */
    uint32_t part;        /* of the network, as far as chunks are concerned */
    uint64_t stalled_until_ns;
    bool crashed, ready;
};

/* A chunk to lose. */
struct tt_sim_drop {
    struct tt_sim_drop *next;
    uint32_t node, imm, times;
};

struct tt_sim {
    struct tt_sim_options options;
    struct tt_random random;
    uint64_t now_ns;
    uint64_t digest;
    bool healed;
    struct tt_sim_heap heap;
    struct tt_sim_node *nodes;
    uint32_t *ready; /* a ring of node_count */
    uint32_t ready_head, ready_count;
    struct tt_sim_packet *free_small, *free_large, *all_packets;
    uint32_t large_bytes;
    struct tt_sim_group *groups;
    struct tt_sim_operation *free_operations, *all_operations;
    struct tt_sim_drop *drops;
    uint64_t next_queue_id;
    uint64_t next_message;
    uint64_t violation_count;
    char violations[TT_SIM_VIOLATIONS_KEPT][TT_SIM_VIOLATION_BYTES];
};

/* Whether the node's software may see something now. */
static inline bool tt_sim_node_runs(const struct tt_sim *sim, uint32_t node)
{
    return !sim->nodes[node].crashed && sim->nodes[node].stalled_until_ns <= sim->now_ns;
}

#endif
