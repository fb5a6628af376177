/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The header of the provider's messages, and the bytes of an instance's address.
 *
 * Message, little endian:  magic 4, kind 2, payload length 2, value 8, payload.
 * Address, little endian:  magic 4, checksum 4 (of what follows), instance 8, UCX's worker address.
 */
#ifndef TT_FABRIC_UCX_MESSAGE_H
#define TT_FABRIC_UCX_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TT_UCX_HEADER_BYTES = 16, TT_UCX_ADDRESS_HEADER_BYTES = 16 };

enum tt_ucx_message_kind {
    TT_UCX_FRAME = 1, /* a frame of the caller */
    TT_UCX_IMMEDIATE, /* value: the immediate of a put that has been placed */
    TT_UCX_HELLO,     /* value: the sender's instance; makes UCX establish the connection now */
    TT_UCX_BYE,       /* value: the sender's instance, payload: serial (4); the last message of a connection */
    TT_UCX_BYE_HEARD, /* as BYE, its confirmation, and the last message of the confirming side */
    TT_UCX_KIND_LIMIT
};

struct tt_ucx_header {
    enum tt_ucx_message_kind kind;
    uint32_t payload_bytes;
    uint64_t value;
};

void tt_ucx_header_encode(const struct tt_ucx_header *header, uint8_t bytes[TT_UCX_HEADER_BYTES]);

/* Whether the `length_bytes` bytes are a message of tutti: magic, kind, and length as the header says. */
bool tt_ucx_header_decode(const void *bytes, size_t length_bytes, struct tt_ucx_header *header);

/* Writes the header in front of the `worker_bytes` bytes of worker address that already are in place. */
void tt_ucx_address_encode(uint8_t *bytes, uint64_t instance, size_t worker_bytes);

/* Whether the bytes are an unharmed address; UCX itself would crash on others. */
bool tt_ucx_address_decode(const uint8_t *bytes, size_t length_bytes, uint64_t *instance);

static inline void tt_ucx_put_u32(uint8_t *bytes, uint32_t value)
{
    for (int i = 0; i < 4; i++) {
        bytes[i] = (uint8_t)(value >> (8 * i));
    }
}

static inline uint32_t tt_ucx_get_u32(const uint8_t *bytes)
{
    uint32_t value = 0;
    for (int i = 0; i < 4; i++) {
        value |= (uint32_t)bytes[i] << (8 * i);
    }
    return value;
}

#endif
