/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What every packet of the triggered engine begins with (Xu et al., section 1.2): three words of 64 bits, the highest
 * byte first. The first 48 bits are what packets are matched by.
 *
 *     word 0   63..56 JobID  55..32 NodeID  31..21 VP  20..16 SeqID  15..5 SourceVP
 *              4 CP  3 SwapRemoteData  2 SwapRemoteAddr  1 zero  0 CollEndFlag
 *     word 1   63..56 kind  55..33 zero  32 Copied  31..0 length of the data in bytes
 *     word 2   address that SwapRemoteAddr puts in the place of the destination's; else zero
 *
 * NodeID is the node that sends the packet, VP the port that it is for, and SeqID its place among the packets that the
 * sequence there reads. Copied: nobody waits for the answer, since the data is kept for as long as it may have to be
 * sent again; the answer says it too. Behind the header of a DATA packet comes its data. A REMOTE packet is one whose
 * data stays where it is until its reader fetches it: behind the header come 1 to TT_TRIGGER_MAX_REFERENCE_BYTES bytes
 * that say where, to the end of the packet. What they mean is between the fabrics of the two nodes. The answer to
 * either has its JobID, SeqID and length, and no flags of word 0; its NodeID is the node that answers, its VP the port
 * that sent the data and its SourceVP the one that the data was for. Behind the header of an ACCEPTED may come bytes
 * that say where the data of another REMOTE packet may be put; behind that of a REFUSED comes nothing.
 */
#ifndef TT_WIRE_TRIGGER_PACKET_H
#define TT_WIRE_TRIGGER_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TT_TRIGGER_PACKET_BYTES = 24,
    TT_TRIGGER_MAX_REFERENCE_BYTES = 8 + 8 + 256 /* an immediate, an address and a key */
};

enum tt_trigger_kind {
    TT_TRIGGER_DATA = 1,
    TT_TRIGGER_ACCEPTED = 2, /* the data is read or kept: it may be overwritten where it came from */
    TT_TRIGGER_REFUSED = 3,  /* no room: to be sent again */
    TT_TRIGGER_REMOTE = 4    /* data that is to be fetched */
};

struct tt_trigger_packet {
    enum tt_trigger_kind kind;
    uint8_t job;          /* JobID */
    uint32_t node;        /* NodeID: the source */
    uint16_t port;        /* VP: at the destination */
    uint8_t sequence;     /* SeqID */
    uint16_t source_port; /* SourceVP */
    bool triggers;        /* CP */
    bool swap_data;       /* SwapRemoteData */
    bool swap_address;    /* SwapRemoteAddr */
    bool collective_end;  /* CollEndFlag */
    bool is_copied;       /* Copied */
    uint32_t length_bytes;
    uint64_t address_bytes;
    uint16_t reference_bytes; /* of REMOTE and ACCEPTED, as it came: what is behind the header. Not written by encode */
};

/* Whether it brings or announces data, rather than answers. */
static inline bool tt_trigger_packet_is_data(const struct tt_trigger_packet *packet)
{
    return packet->kind == TT_TRIGGER_DATA || packet->kind == TT_TRIGGER_REMOTE;
}

/* What is behind the header. */
static inline uint32_t tt_trigger_packet_payload_bytes(const struct tt_trigger_packet *packet)
{
    return packet->kind == TT_TRIGGER_DATA ? packet->length_bytes : packet->reference_bytes;
}

/* JobID, NodeID, VP and SeqID: 48 bits. */
static inline uint64_t tt_trigger_key(uint8_t job, uint32_t node, uint16_t port, uint8_t sequence)
{
    return (uint64_t)job << 40 | (uint64_t)node << 16 | (uint64_t)port << 5 | sequence;
}

static inline uint64_t tt_trigger_packet_key(const struct tt_trigger_packet *packet)
{
    return tt_trigger_key(packet->job, packet->node, packet->port, packet->sequence);
}

/* Writes TT_TRIGGER_PACKET_BYTES bytes. Fields must be in their ranges. */
void tt_trigger_packet_encode(const struct tt_trigger_packet *packet, void *bytes);

/* Reads the header of a whole packet of `length_bytes`. False, and *packet is not set: too short, bits that must be
 * zero are not, no known kind, a payload that is not as long as it says (a REFUSED has none), or a reference that is
 * empty or too long. */
bool tt_trigger_packet_decode(const void *bytes, size_t length_bytes, struct tt_trigger_packet *packet);

/* The same of a header with a piece of a DATA packet's data behind it, or all of any packet: it is for the caller to
 * see to it that the piece is not longer than the packet. */
bool tt_trigger_packet_decode_piece(const void *bytes, size_t length_bytes, struct tt_trigger_packet *packet);

#endif
