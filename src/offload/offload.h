/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The triggered engine of one node (Xu et al., sections 1.1 to 1.3): ports with queues of descriptor sequences, and up
 * to eight units that execute them and buffer packets for them. Pure: it asks for packets to be sent and says what has
 * ended in a list of actions, and everything else comes in as events; memory is the caller's, given at creation.
 *
 * A port executes its sequences one after the other, and the descriptors of one in order. A descriptor fires when its
 * packets have been read, in the order of its sources whatever order they come in: each is looked for by JobID + NodeID
 * + VP + SeqID. A port whose packet is not there is suspended, and its unit goes on with others. What is read replaces
 * data, address or port, or is reduced; then the descriptor's own packet is sent.
 *
 * Every packet is answered. ACCEPTED: it was read, or is kept; until then the sender does not write to what was sent,
 * so that it can still be sent from where it lies, unless there was a place to copy it to. REFUSED: there was no room;
 * it is sent again after a while. The packet that a port's sequence reads next is never refused: it is read at once, or
 * kept in the unit's buffer, or at the worst in the port's own place for one packet. docs/triggered.md has why that is
 * enough for no deadlock.
 *
 * A long operand is not sent but announced, by a packet with a reference to it (REMOTE). What is kept of it in a buffer
 * is the reference, unanswered. When it is the packet that the port reads next, and not before, its data is fetched:
 * straight to where it belongs if it replaces what is there and that is not being sent, else to the port's own place.
 * Only then is it ACCEPTED.
 *
 * What others must hold to: all ranks of a job post the same collectives in the same order to the job's ports; a node
 * is one rank of a job; packets are not lost, damaged or doubled, but may overtake each other.
 */
#ifndef TT_OFFLOAD_OFFLOAD_H
#define TT_OFFLOAD_OFFLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "offload/reduce.h"
#include "tutti/status.h"
#include "wire/descriptor.h"
#include "wire/trigger_packet.h"

enum {
    TT_OFFLOAD_MOST_UNITS = 8,
    TT_OFFLOAD_MOST_WINDOW = 16,
    TT_OFFLOAD_ALIGNMENT = 16 /* of memory, and of payloads that are reduced */
};

struct tt_offload_terms {
    uint32_t node;         /* the own NodeID */
    uint32_t unit_count;   /* 1 .. TT_OFFLOAD_MOST_UNITS */
    uint32_t port_count;   /* 1 .. TT_TRIGGER_PORTS */
    uint64_t unit_bytes;   /* packet memory of a unit, room for one packet as it is sent at least */
    uint32_t packet_bytes; /* the longest operand; each port has a place for one */
    uint32_t inline_bytes; /* longer ones are sent by reference; packet_bytes: none is. The same at all nodes */
    uint32_t window;       /* 1 .. TT_OFFLOAD_MOST_WINDOW: packets of a port that are not accepted yet */
    uint32_t copies;       /* of the window's packets, how many keep a copy of what they send: up to the window */
    uint32_t queue_length; /* sequences of a port, from 1 */
    uint64_t retry_ns;     /* a refused packet is sent again after this, then twice this, ... 64 times; not 0 */
};

/*
 * What is posted. All that it points at is the poster's, and the engine's until it says COMPLETE: all has been read,
 * and all that was sent is accepted, or copied. With a source, the result is as if it had been copied to the buffer
 * first (where the buffer reaches), for all that is sent or reduced.
 */
struct tt_sequence {
    const uint8_t *descriptors; /* TT_DESCRIPTOR_BYTES each */
    uint64_t count;
    void *buffer;          /* what is written */
    uint64_t buffer_first; /* the address of its first byte: it may be a part of what the sequence is about */
    uint64_t buffer_bytes;
    const void *source;    /* what operands of descriptors with FromSource are read from; NULL: the buffer */
    uint64_t source_bytes; /* from address 0 on */
    const struct tt_reduction *reduction; /* NULL if no descriptor reduces */
    uint64_t cookie;                      /* the poster's */
};

enum tt_offload_event_kind {
    TT_OFFLOAD_TICK,
    TT_OFFLOAD_PACKET,
    TT_OFFLOAD_FETCHED /* the one answer to a FETCH */
};

struct tt_offload_event {
    enum tt_offload_event_kind kind;
    uint64_t now_ns;
    const struct tt_trigger_packet *packet; /* of PACKET: for this node */
    const void *payload; /* its data, of REMOTE its reference; during the call only. Of FETCHED: where
                          * the data is, in the same way; NULL: at the destination */
    uint16_t port;       /* of FETCHED */
    tutti_status status; /* of FETCHED: not OK closes the port */
};

enum tt_offload_action_kind {
    TT_OFFLOAD_SEND,    /* a packet or an answer to a node; the payload may be read until it is answered */
    TT_OFFLOAD_FETCH,   /* data is to be fetched from where a REMOTE packet of the node says */
    TT_OFFLOAD_COMPLETE /* a sequence has ended: the completion event */
};

struct tt_offload_action {
    enum tt_offload_action_kind kind;
    uint32_t node;                   /* of SEND: where it goes; of FETCH: where the data is */
    struct tt_trigger_packet packet; /* of FETCH: the one that announced it; so many bytes are fetched as it says */
    /* Of SEND, and of a REMOTE one the operand, to which whoever sends it makes the reference. Of FETCH the reference,
     * packet.reference_bytes long, until FETCHED. */
    const void *payload;
    void *destination; /* of FETCH: written until FETCHED */
    uint16_t port;     /* of FETCH and COMPLETE */
    uint64_t cookie;   /* of COMPLETE, and the rest */
    tutti_status status;
};

/* The caller's; a step adds to it and stops before it is full, and goes on with the next. */
struct tt_offload_actions {
    struct tt_offload_action *actions;
    uint32_t count, capacity;
};

struct tt_offload_counters {
    uint64_t fired, read, sent, accepted, refused, repeated, completed, stray;
    uint64_t read_at_once; /* of those read: without having been kept */
    uint64_t kept_apart;   /* in a port's own place, as the buffer had no room */
    uint64_t suspended;
    uint64_t fetched, fetched_apart; /* of all: to the port's own place, not to the operand */
};

struct tt_offload;

/* 0: terms that make no sense. */
size_t tt_offload_memory_bytes(const struct tt_offload_terms *terms);

/* `memory` of so many bytes, aligned to TT_OFFLOAD_ALIGNMENT, becomes the engine; the caller may free it any time. */
struct tt_offload *tt_offload_init(const struct tt_offload_terms *terms, void *memory);

/*
 * Queues a sequence; the next step may begin it. TUTTI_ERR_BUSY: the port's queue is full. TUTTI_ERR_INVALID_ARGUMENT:
 * descriptors that are no sequence, or not this port's, or reach outside the buffer or the source. TUTTI_ERR_TOO_LARGE:
 * an operand that is longer than a packet. Otherwise the status that the port was closed with.
 */
tutti_status tt_offload_post(struct tt_offload *offload, uint16_t port, const struct tt_sequence *sequence);

/*
 * `actions` must have room for one at least. TUTTI_ERR_PROTOCOL: a packet that no peer that holds to the rules sends;
 * it is counted as a stray and changes nothing. FETCHED must be of a port that was told to FETCH and has not had it.
 */
tutti_status tt_offload_step(struct tt_offload *offload, const struct tt_offload_event *event,
                             struct tt_offload_actions *actions);

/* When the next TICK is due; 0: now, UINT64_MAX: never. */
uint64_t tt_offload_deadline(const struct tt_offload *offload);

/*
 * Ends what is queued at a port with this status, and refuses what is posted; packets for it are accepted and dropped,
 * so that nobody waits for it for ever. A port closes itself if its ranks disagree: the status then is
 * TUTTI_ERR_MISMATCH or TUTTI_ERR_PROTOCOL. What it fetches is still written, so nothing ends before FETCHED. Packets
 * of it that are not answered may still be read from after COMPLETE, which is for whoever sends and serves them to end.
 */
void tt_offload_close_port(struct tt_offload *offload, uint16_t port, tutti_status status);

/* Lets a closed port, of which everything has ended, be posted to again. TUTTI_ERR_BUSY: not everything has. */
tutti_status tt_offload_open_port(struct tt_offload *offload, uint16_t port);

/* Whether all that was sent is accepted. Until then it may have to be sent again, also when its sequence has ended. */
bool tt_offload_is_settled(const struct tt_offload *offload);

/* Whether something does not go on without the node: a port reads a packet of it next that is not here, or fetches from
 * it, or it has not accepted what was sent to it. */
bool tt_offload_needs(const struct tt_offload *offload, uint32_t node);

/* Whether a packet that was sent waits for this answer. */
bool tt_offload_awaits(const struct tt_offload *offload, const struct tt_trigger_packet *answer);

const struct tt_offload_counters *tt_offload_counters(const struct tt_offload *offload);

/* Packets that are buffered now, and have been at most, and slots outside the collision reserve, of a unit. */
struct tt_offload_use {
    uint32_t used, most_used, home_count, ports;
};

void tt_offload_use(const struct tt_offload *offload, uint32_t unit, struct tt_offload_use *use);

/* Asserts what holds between two steps. */
void tt_offload_check(const struct tt_offload *offload);

#endif
