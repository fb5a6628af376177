/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The headers of the provider's messages, the bytes of a key, and the bytes of an instance's address.
 *
 * Message, little endian:  magic 4, kind 2, payload length 2, value 8, payload.
 * Bulk, little endian, the user header of UCX's message, whose data is the bulk data itself:
 *     magic 4, kind 2, 0 2, id 8, offset 8; WRITE_DATA goes on with connection 12, place 28, immediate 8, length 4 of
 *     the immediate's data, its data 24, of which the rest is 0.
 * Connection: instance 8 (the sender's), serial 4. Place: index 4, token 8, address 8, length 8.
 * Key: magic 4, index 4, token 8, then UCX's own key, if there is hardware that could use it.
 * Address, little endian:  magic 4, checksum 4 (of what follows), instance 8, UCX's worker address.
 */
#ifndef TT_FABRIC_UCX_MESSAGE_H
#define TT_FABRIC_UCX_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fabric/p2p.h"

enum {
    TT_UCX_HEADER_BYTES = 16,
    TT_UCX_ADDRESS_HEADER_BYTES = 16,
    TT_UCX_KEY_HEADER_BYTES = 16,
    TT_UCX_READ_BYTES = 12 + 28, /* the payload of READ: connection, place */
    TT_UCX_BULK_HEADER_MAX_BYTES = 24 + 12 + 28 + 8 + 4 + TT_P2P_MAX_IMMEDIATE_BYTES
};

enum tt_ucx_message_kind {
    TT_UCX_FRAME = 1,  /* value: the sender's instance, payload: a frame of the caller */
    TT_UCX_IMMEDIATE,  /* value: the immediate of a put that has been placed, payload: its data */
    TT_UCX_HELLO,      /* value: the sender's instance, payload: serial (4); the first message of a connection */
    TT_UCX_BYE,        /* as HELLO; the last message of a connection */
    TT_UCX_BYE_HEARD,  /* as BYE, its confirmation, and the last message of the confirming side */
    TT_UCX_READ,       /* value: id of a get, payload: connection and place; asks for the bytes there */
    TT_UCX_READ_DATA,  /* bulk: some of the bytes that a READ asked for, in order */
    TT_UCX_WRITE_DATA, /* bulk: some of the bytes of a put, in order */
    TT_UCX_WRITTEN,    /* value: id of a put; all of it has been placed */
    TT_UCX_REFUSED,    /* value: id of a get or put; its place is not registered */
    TT_UCX_PROBE,      /* nothing, behind something that may have been lost */
    TT_UCX_KIND_LIMIT
};

struct tt_ucx_header {
    enum tt_ucx_message_kind kind;
    uint32_t payload_bytes;
    uint64_t value;
};

/* One of the connections of an instance, as both ends name it. */
struct tt_ucx_connection {
    uint64_t instance;
    uint32_t serial;
};

/* Remote memory: a range in the registration that an index and a token name. */
struct tt_ucx_place {
    uint32_t index;
    uint64_t token;
    uint64_t address;
    uint64_t length_bytes;
};

struct tt_ucx_bulk {
    enum tt_ucx_message_kind kind; /* READ_DATA or WRITE_DATA */
    uint64_t id;                   /* of the get or put, chosen by who asked for it */
    uint64_t offset_bytes;         /* of the data in the place */
    /* Only in WRITE_DATA: */
    struct tt_ucx_connection connection;
    struct tt_ucx_place place; /* of the whole put */
    struct tt_p2p_immediate immediate;
};

void tt_ucx_header_encode(const struct tt_ucx_header *header, uint8_t bytes[TT_UCX_HEADER_BYTES]);

/* Whether the `length_bytes` bytes are a message of tutti: magic, kind, and length as the header says. */
bool tt_ucx_header_decode(const void *bytes, size_t length_bytes, struct tt_ucx_header *header);

void tt_ucx_read_encode(const struct tt_ucx_connection *connection, const struct tt_ucx_place *place,
                        uint8_t bytes[TT_UCX_READ_BYTES]);
void tt_ucx_read_decode(const uint8_t bytes[TT_UCX_READ_BYTES], struct tt_ucx_connection *connection,
                        struct tt_ucx_place *place);

/* Returns the length of the header. */
size_t tt_ucx_bulk_encode(const struct tt_ucx_bulk *bulk, uint8_t bytes[TT_UCX_BULK_HEADER_MAX_BYTES]);

/* Whether the header, and `data_bytes` bytes of data after it, are what tutti sends as bulk. */
bool tt_ucx_bulk_decode(const void *bytes, size_t length_bytes, size_t data_bytes, struct tt_ucx_bulk *bulk);

/* Writes the TT_UCX_KEY_HEADER_BYTES that a key begins with. */
void tt_ucx_key_encode(uint8_t *bytes, uint32_t index, uint64_t token);
/* Whether the bytes are a key; sets index and token of *place. */
bool tt_ucx_key_decode(const uint8_t *bytes, size_t length_bytes, struct tt_ucx_place *place);

/* Writes the header in front of the `worker_bytes` bytes of worker address that already are in place. */
void tt_ucx_address_encode(uint8_t *bytes, uint64_t instance, size_t worker_bytes);

/* Whether the bytes are an unharmed address; UCX itself would crash on others. */
bool tt_ucx_address_decode(const uint8_t *bytes, size_t length_bytes, uint64_t *instance);

#endif
