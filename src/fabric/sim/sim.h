/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The simulator: a network of nodes in one process, in virtual time, with providers for both fabric contracts.
 *
 * Everything that happens follows from the options, the seed and the calls that are made: no clock, no thread, no
 * address enters a decision. The event with the lowest time fires first; of two with the same time the one that was
 * scheduled first (a sequence number). Times are virtual nanoseconds from 0.
 *
 * Topology: a star. Every node has an uplink to the one switch and a downlink from it, each with a rate and a latency.
 *   - The uplink serves its flows round robin, a packet each: every multicast queue is a flow, and every remote node is
 *     two, one for frames and other small packets and one for the data of gets and puts. A packet is read from the
 *     sender's memory when its last bit leaves the node; then the chunk counts as sent.
 *   - The switch stores and forwards. A chunk crosses the uplink once and the downlink of every node that is attached
 *     to its subgroup but the sender's once. The queue of a downlink is bounded for chunks (tail drop); packets of
 *     p2p are never dropped, as on a lossless network, and take their place in the queue.
 *   - A node receives chunks into queues of receive_depth chunks. What finds no room (waiting, or polled and not yet
 *     reposted, count alike) is dropped without a trace at the receiver, as UD and UDP do.
 *   - Multicast is UD, a packet a chunk, or UC: then a chunk may take several packets, of which a receiver takes all in
 *     their order or drops the rest, and what is sent with a window's key is written to memory that the receivers have
 *     bound, packet by packet as it arrives.
 *
 * p2p is modelled on RDMA: the NIC serves a get, or places a put, without the software of the target. Memory is read
 * packet by packet when the packet leaves the target's uplink, and written when the packet arrives; at that moment the
 * registration must be live and hold the range, or the operation ends in TUTTI_ERR_PROTOCOL and a violation is
 * recorded. So a protocol that lets go of its memory too early is caught. DONE of a put comes after the target has
 * placed it. An operation that is under way when its own side disconnects ends in TUTTI_ERR_CANCELED.
 *
 * Faults hit a packet on its way to a receiver, each receiver by its own dice: see struct tt_sim_faults.
 *
 * Stall: the node's software does not run. poll and progress of the node return nothing, it is not reported ready, and
 * the harness makes no other call for it. Its NIC goes on: it receives into queues until they are full, sends what was
 * posted, serves gets. When the stall ends the node is ready.
 *
 * Crash, final: from that moment nothing leaves the node (the packet on its uplink is lost, what has passed the uplink
 * arrives), nothing reaches it, its calls return nothing, and every node that is connected to it, or connects later,
 * gets one PEER_DOWN after a random time between detection_min_ns and detection_max_ns, drawn for each connection.
 * Operations to it end in TUTTI_ERR_PEER_FAILED at that time, in DONE events before or after PEER_DOWN (by dice). After
 * PEER_DOWN nothing comes from that connection any more.
 *
 * Partition: chunks do not pass between nodes in different parts, until random faults end. p2p is not concerned; what
 * connects the parts is severed where it is to break, too.
 *
 * Severed: connections of two nodes that are alive break; what is on its way on them is lost, as is all that is sent
 * until both have got their PEER_DOWN, as after a crash, each of the other.
 *
 * Disconnect: a farewell follows the frames that were sent; when it arrives the other side gets its one PEER_DOWN,
 * unless it has disconnected too. The k-th connection from A to B belongs to the k-th from B to A; a node that makes
 * its k-th connection after the other has ended its own gets PEER_DOWN after the detection time. Destroying an instance
 * disconnects what is left and returns at once; the frames are still delivered.
 */
#ifndef TT_FABRIC_SIM_H
#define TT_FABRIC_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "fabric/mcast.h"
#include "fabric/p2p.h"

struct tt_sim;

enum { TT_SIM_MAX_NODES = 65536 };
#define TT_SIM_ALL_NODES UINT32_MAX

struct tt_sim_link {
    uint64_t bits_per_second; /* 0: serialization takes no time */
    uint64_t latency_ns;      /* from the last bit out to the last bit in */
};

/*
 * What can happen to a packet on its way to a receiver. The shares are parts per million of the packets.
 * A chunk that is lost or late has taken its time on the downlink. Of p2p packets a lost one is retransmitted: it comes
 * retransmit_ns later (up to eight times over), and frames behind it wait for it; duplicates do not exist; late ones
 * overtake nothing where the contract promises order.
 */
struct tt_sim_faults {
    uint32_t loss_ppm;
    uint32_t duplicate_ppm; /* the copy comes 1 .. reorder_ns later (at least 1), and takes no time on the link */
    uint32_t reorder_ppm;   /* comes 1 .. reorder_ns late, so that later ones overtake it: adaptive routing */
    uint32_t spike_ppm;     /* the downlink stands still for spike_ns before this packet */
    uint32_t refused_ppm;   /* not of packets: registrations of memory at the node that end with NO_MEMORY */
    uint64_t reorder_ns;
    uint64_t spike_ns;
    uint64_t retransmit_ns;
};

struct tt_sim_options {
    uint32_t node_count; /* 1 .. TT_SIM_MAX_NODES */
    uint64_t seed;
    struct tt_sim_link uplink, downlink; /* of every node; tt_sim_set_links changes them for one */
    uint64_t downlink_queue_bytes;       /* of wire bytes waiting at the switch for one node; 0: no bound */
    uint32_t max_chunk_bytes;
    uint32_t send_batch;
    uint32_t send_queue_chunks;  /* accepted by post and not yet sent, a queue */
    uint32_t receive_depth;      /* chunks, a queue */
    uint32_t header_bytes;       /* of every packet, on the wire and in the counters */
    uint32_t uc_packet_bytes;    /* 0: multicast is UD. Else it is UC, in packets of this payload at most */
    uint32_t p2p_packet_bytes;   /* the data of gets and puts travels in packets of this payload */
    uint32_t frame_bytes;        /* the longest frame, TT_P2P_LEAST_FRAME_BYTES to TT_P2P_MAX_FRAME_BYTES */
    uint64_t detection_min_ns;   /* how long it takes until a crash is noticed */
    uint64_t detection_max_ns;   /* at least detection_min_ns */
    struct tt_sim_faults faults; /* for every node; tt_sim_set_faults changes them for one */
    FILE *log;                   /* a line of text for every event; NULL: none. Stays the caller's. */
};

/* Fills in defaults: 100 Gbit/s, 1 us a link, 4 KiB chunks, no faults, no bound on downlink queues, no log. */
void tt_sim_options_init(struct tt_sim_options *options, uint32_t node_count);

/* NULL on an error, which tt_last_error() tells. The caller owns the simulator; tt_sim_destroy also frees all providers
 * that were not destroyed, with their queues, connections and registrations. NULL is allowed. */
struct tt_sim *tt_sim_create(const struct tt_sim_options *options);
void tt_sim_destroy(struct tt_sim *sim);

/* The node's instances, made at the first call and again at the first call after a destroy; NULL: out of memory. */
struct tt_mcast *tt_sim_mcast(struct tt_sim *sim, uint32_t node);
struct tt_p2p *tt_sim_p2p(struct tt_sim *sim, uint32_t node);

/* --- Time ------------------------------------------------------------------------------------------------------- */

uint64_t tt_sim_now(const struct tt_sim *sim);

/* When the next event fires; TT_NEVER if none is left. */
uint64_t tt_sim_next_event_time(const struct tt_sim *sim);

/* Fires all events up to and at until_ns; then it is until_ns (or stays later). Returns how many fired. */
uint64_t tt_sim_advance(struct tt_sim *sim, uint64_t until_ns);

/*
 * Takes the next node that has had something new since it was last taken: a chunk, an event of p2p, a chunk sent, the
 * end of a stall. In the order in which they became ready; a node is in line only once. Whoever takes a node polls it
 * until it is dry or marks it again. False: none.
 */
bool tt_sim_take_ready(struct tt_sim *sim, uint32_t *node);
void tt_sim_mark_ready(struct tt_sim *sim, uint32_t node);

/* --- Faults ----------------------------------------------------------------------------------------------------- */

/* `node` may be TT_SIM_ALL_NODES. Packets that are past the switch are not affected. */
void tt_sim_set_links(struct tt_sim *sim, uint32_t node, struct tt_sim_link uplink, struct tt_sim_link downlink);
void tt_sim_set_faults(struct tt_sim *sim, uint32_t node, const struct tt_sim_faults *faults);

/* Whether some registrations of memory are refused there, now. */
bool tt_sim_refuses(const struct tt_sim *sim, uint32_t node);

/* Healed: no random faults and no dropped chunks from now on. Stalls end when they end, the dead stay dead. */
void tt_sim_set_healed(struct tt_sim *sim, bool healed);

/* The next `times` chunks with this immediate that would reach the node are lost; over UC packets of such chunks. */
void tt_sim_drop_chunk(struct tt_sim *sim, uint32_t node, uint32_t imm, uint32_t times);

/* Chunks that reach the switch from now on go to nodes in the same part only. All begin in part 0. */
void tt_sim_set_part(struct tt_sim *sim, uint32_t node, uint32_t part);

/* From now until until_ns, or longer if it is stalled for longer already. */
void tt_sim_stall(struct tt_sim *sim, uint32_t node, uint64_t until_ns);
bool tt_sim_is_stalled(const struct tt_sim *sim, uint32_t node);

/* At this time, or now if it has passed. */
void tt_sim_crash(struct tt_sim *sim, uint32_t node, uint64_t at_ns);
bool tt_sim_is_crashed(const struct tt_sim *sim, uint32_t node);

/* Breaks what connections there are between two nodes, now: both get PEER_DOWN, each after a detection time of its own.
 * What they connect afterwards stands, and chunks come as before. False: there was none. */
bool tt_sim_sever(struct tt_sim *sim, uint32_t one, uint32_t other);

/* --- What happened ---------------------------------------------------------------------------------------------- */

/* The switch's port to a node, and what the dice did to the packets that left there. Bytes are on the wire. */
struct tt_sim_port {
    uint64_t received_packets, received_bytes; /* from the node's uplink; chunks and p2p */
    uint64_t received_chunk_bytes;             /* of these: chunks */
    uint64_t sent_packets, sent_bytes;         /* to the node's downlink */
    uint64_t sent_chunk_bytes;
    uint64_t tail_drops;    /* chunks that found the downlink's queue full */
    uint64_t lost;          /* by dice, by tt_sim_drop_chunk, or for coming from another part */
    uint64_t retransmitted; /* p2p packets that were late for a loss, each loss */
    uint64_t duplicated, reordered, spikes;
    uint64_t overflow_drops;  /* chunks that found a receive queue full */
    uint64_t broken_packets;  /* of UC: of a chunk that an earlier packet is missing of */
    uint64_t refused_packets; /* of UC: that would have been written where no window is */
};
void tt_sim_port_counters(const struct tt_sim *sim, uint32_t node, struct tt_sim_port *port);

/* How often the software broke a rule of a contract, and what the first ones were ("" beyond the ones kept). */
uint64_t tt_sim_violations(const struct tt_sim *sim);
const char *tt_sim_violation_text(const struct tt_sim *sim, uint64_t index);

/* Of all events so far with their times and what they carried: the same for runs that were the same. */
uint64_t tt_sim_digest(const struct tt_sim *sim);

#endif
