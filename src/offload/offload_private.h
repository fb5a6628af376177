/* SPDX-License-Identifier: BSD-3-Clause */
/* The engine's parts: engine.c (memory, posting, steps), port.c (descriptors in order), arrival.c (packets and
 * answers), fetch.c (data that stayed where it came from), and check.c. Nobody else includes it. */
#ifndef TT_OFFLOAD_OFFLOAD_PRIVATE_H
#define TT_OFFLOAD_OFFLOAD_PRIVATE_H

#include "offload/buffer.h"
#include "offload/offload.h"

#define TT_PORT_NONE UINT32_MAX

/* A packet that has been sent and not been accepted. */
struct tt_open_send {
    bool is_open, is_refused;
    bool is_lying; /* there is no copy: what it sends must stay as it is until it is accepted */
    uint32_t tries, node;
    uint64_t due_ns; /* of a refused one: when it is sent again */
    struct tt_trigger_packet packet;
    const void *payload;
};

struct tt_port {
    uint32_t unit;       /* TT_PORT_NONE: of none; it is of one while it executes or a packet of it is kept */
    uint32_t next_ready; /* in the unit's list */
    bool is_ready, is_running;
    tutti_status status; /* not OK: closed */

    struct tt_sequence *queue; /* a ring of queue_length; the first is the one that is executed */
    uint32_t queue_first, queue_count;

    /* Of the sequence that is executed. */
    uint64_t at;                   /* which descriptor; the number of them: all have fired */
    struct tt_descriptor current;  /* that one, as it was replaced so far */
    uint32_t read_here;            /* of its sources */
    uint64_t read;                 /* packets, of the sequence */
    uint64_t reader;               /* the descriptor that reads next; the number of them: no packet is read any more */
    struct tt_descriptor awaiting; /* that one */

    struct tt_open_send sends[TT_OFFLOAD_MOST_WINDOW]; /* the first ones have a place in `copies` each */
    uint8_t *copies;
    uint32_t open, lying; /* of them */

    uint32_t kept; /* packets for it: in the unit's buffer, and apart */
    bool is_apart; /* the one that is read next is here, or is being fetched */
    struct tt_trigger_packet apart;
    uint8_t *apart_payload; /* its own place */
    bool is_fetching;       /* its data, to `destination`: the own place, or the operand */
    uint8_t *reference, *destination;
};

struct tt_unit {
    struct tt_buffer buffer;
    uint32_t first_ready, last_ready; /* ports, TT_PORT_NONE: none */
    uint32_t ports;                   /* that are its */
};

struct tt_offload {
    struct tt_offload_terms terms;
    struct tt_unit units[TT_OFFLOAD_MOST_UNITS];
    struct tt_port *ports;
    uint64_t refused_ports[TT_TRIGGER_PORTS / 64]; /* a bit a port with a refused packet */
    uint64_t retry_due_ns;                         /* not later than the first of them is due; UINT64_MAX: none */
    uint64_t now_ns;
    uint32_t next_unit; /* whose turn it is */
    struct tt_offload_counters counters;
};

static inline uint32_t tt_offload_port_index(const struct tt_offload *offload, const struct tt_port *port)
{
    return (uint32_t)(port - offload->ports);
}

static inline size_t tt_offload_aligned(size_t bytes)
{
    return (bytes + TT_OFFLOAD_ALIGNMENT - 1) / TT_OFFLOAD_ALIGNMENT * TT_OFFLOAD_ALIGNMENT;
}

static inline const struct tt_sequence *tt_port_sequence(const struct tt_port *port)
{
    return &port->queue[port->queue_first];
}

/* Whether a packet of the sequence is still to be read; which key it has. */
static inline bool tt_port_awaits(const struct tt_port *port)
{
    return port->is_running && port->reader < tt_port_sequence(port)->count;
}

static inline uint32_t tt_port_awaited_node(const struct tt_port *port)
{
    return port->awaiting.sources[port->reader == port->at ? port->read_here : 0];
}

uint64_t tt_port_awaited_key(const struct tt_offload *offload, const struct tt_port *port);

/* Whether a packet with this key is in the buffer, or apart. */
bool tt_port_keeps(const struct tt_offload *offload, const struct tt_port *port, uint64_t key);

/* Whether so many bytes from an address on lie in what the descriptor reads from and writes to. */
bool tt_sequence_reaches(const struct tt_sequence *sequence, const struct tt_descriptor *descriptor,
                         uint64_t address_bytes);

/* Makes a port a unit's, if it is none's. */
void tt_port_bind(struct tt_offload *offload, struct tt_port *port);

/* Makes it none's again if nothing of it is there. Between two sequences it may so change units, unless packets for the
 * next one are buffered. */
void tt_port_unbind(struct tt_offload *offload, struct tt_port *port);

/* Puts a port that is a unit's at the end of the unit's list, if it is not in it. */
void tt_port_wake(struct tt_offload *offload, struct tt_port *port);

/* Does one thing for a port that is taken off its list: reads or fires a descriptor, begins or ends a sequence. There
 * must be room for an action. It is in the list again if there is more to do. */
void tt_port_advance(struct tt_offload *offload, struct tt_port *port, struct tt_offload_actions *actions);

/* Whether the packet with the awaited key can be read at once; where, then, its data replaces what is there (NULL: it
 * does not); and reads it. The payload may be there already. */
bool tt_port_can_read(const struct tt_offload *offload, const struct tt_port *port,
                      const struct tt_trigger_packet *packet);
void *tt_port_replaced(const struct tt_port *port, const struct tt_trigger_packet *packet);
void tt_port_read(struct tt_offload *offload, struct tt_port *port, const struct tt_trigger_packet *packet,
                  const void *payload);

/* Forgets what a port has sent, and has its sequences end with this status; what is kept for it is dropped as it goes
 * on. */
void tt_port_close(struct tt_offload *offload, struct tt_port *port, tutti_status status);

void tt_offload_send(struct tt_offload_actions *actions, uint32_t node, const struct tt_trigger_packet *packet,
                     const void *payload);

/* Answers a packet. There must be room for an action. */
void tt_offload_answer(struct tt_offload *offload, const struct tt_trigger_packet *packet, bool accepted,
                       struct tt_offload_actions *actions);

/* Has the data fetched of the REMOTE packet that is read next, which becomes the port's one apart; there must be room
 * for an action. And what comes of it: the packet is answered. */
void tt_port_fetch(struct tt_offload *offload, struct tt_port *port, const struct tt_trigger_packet *packet,
                   const void *reference, struct tt_offload_actions *actions);
void tt_port_fetched(struct tt_offload *offload, struct tt_port *port, tutti_status status, const void *payload,
                     struct tt_offload_actions *actions);

/* One packet or answer that has come. There must be room for an action. */
tutti_status tt_offload_take(struct tt_offload *offload, const struct tt_trigger_packet *packet, const void *payload,
                             struct tt_offload_actions *actions);

/* Sends again what was refused and is due, while there is room for actions. */
void tt_offload_repeat(struct tt_offload *offload, struct tt_offload_actions *actions);

#endif
