/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bytes that instances of the "verbs" p2p provider exchange. Pure; all little endian.
 *
 * Address:  magic 4, instance 8, checksum 4 (of the rest), gid 16, queue pair 4, queue key 4, lid 2, mtu 1, roce 1,
 *           reads at once as requester 1, as responder 1, zero 2.
 * Greeting (a datagram between service queue pairs):  magic 4, kind 1, stage 1, zero 2, to 8, serial 4, queue pair 4,
 *           PSN 4, the sender's address.
 * Key:      magic 4, rkey 4, address 8, length 8.
 * Message (a send over a connection):  magic 4, kind 2, payload length 2, payload.
 */
#ifndef TT_FABRIC_VERBS_RC_MESSAGE_H
#define TT_FABRIC_VERBS_RC_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fabric/p2p.h"

enum {
    TT_RC_GID_BYTES = 16,
    TT_RC_ADDRESS_BYTES = 48,
    TT_RC_IDENTITY_BYTES = 12, /* of an address: they name the instance */
    TT_RC_GREETING_BYTES = 28 + TT_RC_ADDRESS_BYTES,
    TT_RC_KEY_BYTES = 24,
    TT_RC_HEADER_BYTES = 8,
    TT_RC_NUMBER_BYTES = 8, /* of an immediate */
    TT_RC_MESSAGE_MAX_BYTES = TT_RC_HEADER_BYTES + TT_P2P_LEAST_FRAME_BYTES,
    TT_RC_PSN_MASK = 0xffffff /* PSNs and queue pair numbers have 24 bits */
};

/* Where an instance is reached, and what a connection to it can be like. */
struct tt_rc_address {
    uint64_t instance; /* random; names it in greetings */
    uint8_t gid[TT_RC_GID_BYTES];
    uint32_t queue_pair; /* its service queue pair (UD) */
    uint32_t queue_key;
    uint16_t lid;      /* 0 on RoCE */
    uint8_t mtu;       /* as in enum ibv_mtu: 256 << (mtu - 1) bytes */
    bool roce;         /* else InfiniBand */
    uint8_t reads_out; /* RDMA reads that it may have under way over a connection, at least one */
    uint8_t reads_in;  /* RDMA reads of the other side that it serves at once, the same: else a get would never start */
};

enum tt_rc_greeting_kind {
    TT_RC_HELLO = 1, /* here is my end of this connection */
    TT_RC_GONE       /* there is no such connection here any more */
};

/* How far the sender of a HELLO is. */
enum tt_rc_stage {
    TT_RC_CALLING, /* it knows its own end only */
    TT_RC_READY,   /* it has heard the other side: its end receives */
    TT_RC_OPEN     /* it knows that the other end receives, too: it sends */
};

struct tt_rc_greeting {
    enum tt_rc_greeting_kind kind;
    enum tt_rc_stage stage;
    uint64_t to;     /* the instance that it is for */
    uint32_t serial; /* which of the connections between the two */
    uint32_t queue_pair, psn;
    struct tt_rc_address from;
};

/* Registered memory: what to present with a read or write, and where it may go. */
struct tt_rc_key {
    uint32_t rkey;
    uint64_t address, length_bytes;
};

enum tt_rc_message_kind {
    TT_RC_FRAME = 1, /* a frame of the caller */
    TT_RC_IMMEDIATE, /* payload: an immediate of more than 32 bits, or with data: number 8, data */
    TT_RC_BYE,       /* the last message of a connection */
    TT_RC_BYE_HEARD  /* the same, of a side that leaves because of a BYE */
};

void tt_rc_address_encode(const struct tt_rc_address *address, uint8_t bytes[TT_RC_ADDRESS_BYTES]);
/* Whether the bytes are an unharmed address. */
bool tt_rc_address_decode(const void *bytes, size_t length_bytes, struct tt_rc_address *address);

void tt_rc_greeting_encode(const struct tt_rc_greeting *greeting, uint8_t bytes[TT_RC_GREETING_BYTES]);
bool tt_rc_greeting_decode(const void *bytes, size_t length_bytes, struct tt_rc_greeting *greeting);

void tt_rc_key_encode(const struct tt_rc_key *key, uint8_t bytes[TT_RC_KEY_BYTES]);
bool tt_rc_key_decode(const void *bytes, size_t length_bytes, struct tt_rc_key *key);
/* Whether the range lies in the memory that the key is for. */
bool tt_rc_key_covers(const struct tt_rc_key *key, uint64_t address, uint64_t length_bytes);

void tt_rc_header_encode(enum tt_rc_message_kind kind, uint32_t payload_bytes, uint8_t bytes[TT_RC_HEADER_BYTES]);
/* Whether the bytes are a message of this version, of a length that its kind has. */
bool tt_rc_header_decode(const void *bytes, size_t length_bytes, enum tt_rc_message_kind *kind,
                         uint32_t *payload_bytes);

#endif
