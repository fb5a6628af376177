/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What goes over the sockets of the tcp transport, byte by byte, little endian.
 *
 * Address, 24:  family 1 (4 or 6), instance 5 (random), port 2, IP address 16 (IPv4: 4, then zeros).
 * Greeting, 60, the first bytes from who has dialed:  magic 4, version 1, purpose 1, 0 2, to 24, from 24, serial 4.
 * Answer, 8, to a greeting:  magic 4, answer 1, version 1, 0 2.
 * Then, on a socket for frames, messages:  kind 1, 0 1, payload length 2, payload, and as many bytes more as there are
 *     to a multiple of 16, so that all of them lie as well aligned as the first one:
 *     FRAME: a frame of the caller; READ: id 8, place 28; WRITTEN, REFUSED: id 8; the others: nothing.
 * On one for bulk, headers of 72 with what they announce behind them:
 *     kind 1, 0 2, length 1 of the immediate's data, id 8, place 28 (index 4, token 8, address 8, length 8),
 *     immediate 8, its data 24, of which the rest is 0.
 *     DATA: the place's length is of the bytes that follow; index, token, address and immediate are 0.
 *     WRITE: all of a put, whose bytes follow. PROBE: nothing follows.
 * Key, 16:  magic 4, index 4, token 8.
 */
#ifndef TT_FABRIC_TCP_MESSAGE_H
#define TT_FABRIC_TCP_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fabric/p2p.h"

enum {
    TT_TCP_VERSION = 3,
    TT_TCP_ADDRESS_BYTES = 24,
    TT_TCP_GREETING_BYTES = 60,
    TT_TCP_ANSWER_BYTES = 8,
    TT_TCP_HEADER_BYTES = 4,
    TT_TCP_READ_BYTES = 36,
    TT_TCP_ID_BYTES = 8,
    TT_TCP_MESSAGE_ALIGNMENT = 16,
    TT_TCP_MESSAGE_MAX_BYTES = TT_TCP_HEADER_BYTES + TT_P2P_MAX_FRAME_BYTES + TT_TCP_MESSAGE_ALIGNMENT,
    TT_TCP_BULK_HEADER_BYTES = 48 + TT_P2P_MAX_IMMEDIATE_BYTES,
    TT_TCP_KEY_BYTES = 16
};

enum tt_tcp_purpose { TT_TCP_FOR_FRAMES = 1, TT_TCP_FOR_BULK };

enum tt_tcp_answer {
    TT_TCP_WELCOME = 1,
    TT_TCP_TWICE,   /* both have dialed, and this side's socket is used */
    TT_TCP_GONE,    /* the connection has been and gone, or the instance is ending */
    TT_TCP_FOREIGN, /* not who was dialed: that one has ended, and another process listens there now */
    TT_TCP_OTHER_VERSION,
    TT_TCP_NO_ROOM, /* no descriptor or memory is left for it */
    TT_TCP_ANSWER_LIMIT
};

enum tt_tcp_kind {
    TT_TCP_FRAME = 1,
    TT_TCP_BYE,       /* the last message */
    TT_TCP_BYE_HEARD, /* the same, in answer to a BYE */
    TT_TCP_PROBE,     /* behind something that may have been lost */
    TT_TCP_WANT_BULK, /* from who was dialed: dial for bulk, too */
    TT_TCP_READ,      /* asks for the bytes of a place */
    TT_TCP_WRITTEN,   /* a put has been placed */
    TT_TCP_REFUSED,   /* the place of a get or put is not registered */
    TT_TCP_DATA,      /* bulk: some of what a READ asked for, in order */
    TT_TCP_WRITE,     /* bulk: a put */
    TT_TCP_KIND_LIMIT
};

struct tt_tcp_address {
    uint8_t family; /* 4 or 6 */
    uint64_t instance;
    uint16_t port;
    uint8_t ip[16];
};

struct tt_tcp_greeting {
    enum tt_tcp_purpose purpose;
    uint8_t version;
    uint8_t to[TT_TCP_ADDRESS_BYTES];
    uint8_t from[TT_TCP_ADDRESS_BYTES];
    uint32_t serial; /* of the connection */
};

/* Remote memory: a range in the registration that an index and a token name. */
struct tt_tcp_place {
    uint32_t index;
    uint64_t token;
    uint64_t address;
    uint64_t length_bytes;
};

struct tt_tcp_bulk_header {
    enum tt_tcp_kind kind; /* DATA, WRITE or PROBE */
    uint64_t id;           /* of the get or put, chosen by who asked for it */
    struct tt_tcp_place place;
    struct tt_p2p_immediate immediate;
};

/* Of a message with such a payload. */
static inline uint32_t tt_tcp_message_bytes(uint32_t payload_bytes)
{
    return (TT_TCP_HEADER_BYTES + payload_bytes + TT_TCP_MESSAGE_ALIGNMENT - 1U) & ~(TT_TCP_MESSAGE_ALIGNMENT - 1U);
}

void tt_tcp_address_encode(const struct tt_tcp_address *address, uint8_t bytes[TT_TCP_ADDRESS_BYTES]);
/* Each decode says whether the bytes are what they should be; only then is its result set. */
bool tt_tcp_address_decode(const void *bytes, size_t length_bytes, struct tt_tcp_address *address);

void tt_tcp_greeting_encode(const struct tt_tcp_greeting *greeting, uint8_t bytes[TT_TCP_GREETING_BYTES]);
/* Of another version only `version` is set. */
bool tt_tcp_greeting_decode(const uint8_t bytes[TT_TCP_GREETING_BYTES], struct tt_tcp_greeting *greeting);

void tt_tcp_answer_encode(enum tt_tcp_answer answer, uint8_t bytes[TT_TCP_ANSWER_BYTES]);
bool tt_tcp_answer_decode(const uint8_t bytes[TT_TCP_ANSWER_BYTES], enum tt_tcp_answer *answer);

void tt_tcp_header_encode(enum tt_tcp_kind kind, uint32_t payload_bytes, uint8_t bytes[TT_TCP_HEADER_BYTES]);
/* A kind of frame sockets, with a payload of the length that it has. */
bool tt_tcp_header_decode(const uint8_t bytes[TT_TCP_HEADER_BYTES], enum tt_tcp_kind *kind, uint32_t *payload_bytes);

void tt_tcp_read_encode(uint64_t id, const struct tt_tcp_place *place, uint8_t bytes[TT_TCP_READ_BYTES]);
void tt_tcp_read_decode(const uint8_t bytes[TT_TCP_READ_BYTES], uint64_t *id, struct tt_tcp_place *place);

void tt_tcp_bulk_encode(const struct tt_tcp_bulk_header *header, uint8_t bytes[TT_TCP_BULK_HEADER_BYTES]);
bool tt_tcp_bulk_decode(const uint8_t bytes[TT_TCP_BULK_HEADER_BYTES], struct tt_tcp_bulk_header *header);

void tt_tcp_key_encode(uint32_t index, uint64_t token, uint8_t bytes[TT_TCP_KEY_BYTES]);
/* Sets index and token. */
bool tt_tcp_key_decode(const void *bytes, size_t length_bytes, struct tt_tcp_place *place);

#endif
