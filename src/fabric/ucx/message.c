/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Encodes and decodes the headers of messages, keys and addresses.
 *
 * Normal path: what one instance encodes, another decodes.
 *
 * Failures: decode refuses bytes that no instance of this version wrote. A foreign program that uses the same UCX
 * message id, or an address that was cut or mixed up on its way through the bootstrap, ends here.
 */
#include "fabric/ucx/message.h"

#include <string.h>

#include "wire/cursor.h"

#define MESSAGE_MAGIC UINT32_C(0x31707474) /* "ttp1" */
#define BULK_MAGIC    UINT32_C(0x31627474) /* "ttb1" */
#define KEY_MAGIC     UINT32_C(0x316b7474) /* "ttk1" */
#define ADDRESS_MAGIC UINT32_C(0x31617474) /* "tta1" */

enum { BULK_HEADER_BYTES = 24 }; /* what both kinds have */

/* FNV-1a: finds accidents, not attacks. */
static uint32_t checksum(const uint8_t *bytes, size_t length_bytes)
{
    uint32_t hash = UINT32_C(2166136261);
    for (size_t i = 0; i < length_bytes; i++) {
        hash = (hash ^ bytes[i]) * UINT32_C(16777619);
    }
    return hash;
}

void tt_ucx_header_encode(const struct tt_ucx_header *header, uint8_t bytes[TT_UCX_HEADER_BYTES])
{
    tt_bytes_put(bytes, MESSAGE_MAGIC, 4);
    tt_bytes_put(bytes + 4, (uint32_t)header->kind | header->payload_bytes << 16, 4);
    tt_bytes_put(bytes + 8, header->value, 8);
}

static bool payload_fits(uint32_t kind, uint32_t payload_bytes)
{
    switch (kind) {
    case TT_UCX_FRAME:
        return payload_bytes > 0;
    case TT_UCX_IMMEDIATE:
        return payload_bytes <= TT_P2P_MAX_IMMEDIATE_BYTES;
    case TT_UCX_WRITTEN:
    case TT_UCX_REFUSED:
    case TT_UCX_PROBE:
        return payload_bytes == 0;
    case TT_UCX_HELLO:
    case TT_UCX_BYE:
    case TT_UCX_BYE_HEARD:
        return payload_bytes == 4;
    case TT_UCX_READ:
        return payload_bytes == TT_UCX_READ_BYTES;
    default: /* not a kind, or a kind of bulk */
        return false;
    }
}

bool tt_ucx_header_decode(const void *bytes, size_t length_bytes, struct tt_ucx_header *header)
{
    const uint8_t *raw = bytes;
    if (length_bytes < TT_UCX_HEADER_BYTES || length_bytes > TT_UCX_HEADER_BYTES + TT_P2P_LEAST_FRAME_BYTES ||
        tt_bytes_get(raw, 4) != MESSAGE_MAGIC) {
        return false;
    }
    uint32_t kind_and_length = tt_bytes_get(raw + 4, 4);
    uint32_t kind = kind_and_length & 0xffff;
    uint32_t payload_bytes = kind_and_length >> 16;
    if (payload_bytes != length_bytes - TT_UCX_HEADER_BYTES || !payload_fits(kind, payload_bytes)) {
        return false;
    }
    header->kind = (enum tt_ucx_message_kind)kind;
    header->payload_bytes = payload_bytes;
    header->value = tt_bytes_get(raw + 8, 8);
    return true;
}

static void put_connection(uint8_t *bytes, const struct tt_ucx_connection *connection)
{
    tt_bytes_put(bytes, connection->instance, 8);
    tt_bytes_put(bytes + 8, connection->serial, 4);
}

static struct tt_ucx_connection get_connection(const uint8_t *bytes)
{
    return (struct tt_ucx_connection){.instance = tt_bytes_get(bytes, 8), .serial = tt_bytes_get(bytes + 8, 4)};
}

static void put_place(uint8_t *bytes, const struct tt_ucx_place *place)
{
    tt_bytes_put(bytes, place->index, 4);
    tt_bytes_put(bytes + 4, place->token, 8);
    tt_bytes_put(bytes + 12, place->address, 8);
    tt_bytes_put(bytes + 20, place->length_bytes, 8);
}

static struct tt_ucx_place get_place(const uint8_t *bytes)
{
    return (struct tt_ucx_place){.index = tt_bytes_get(bytes, 4),
                                 .token = tt_bytes_get(bytes + 4, 8),
                                 .address = tt_bytes_get(bytes + 12, 8),
                                 .length_bytes = tt_bytes_get(bytes + 20, 8)};
}

void tt_ucx_read_encode(const struct tt_ucx_connection *connection, const struct tt_ucx_place *place,
                        uint8_t bytes[TT_UCX_READ_BYTES])
{
    put_connection(bytes, connection);
    put_place(bytes + 12, place);
}

void tt_ucx_read_decode(const uint8_t bytes[TT_UCX_READ_BYTES], struct tt_ucx_connection *connection,
                        struct tt_ucx_place *place)
{
    *connection = get_connection(bytes);
    *place = get_place(bytes + 12);
}

size_t tt_ucx_bulk_encode(const struct tt_ucx_bulk *bulk, uint8_t bytes[TT_UCX_BULK_HEADER_MAX_BYTES])
{
    tt_bytes_put(bytes, BULK_MAGIC, 4);
    tt_bytes_put(bytes + 4, bulk->kind, 4);
    tt_bytes_put(bytes + 8, bulk->id, 8);
    tt_bytes_put(bytes + 16, bulk->offset_bytes, 8);
    if (bulk->kind == TT_UCX_READ_DATA) {
        return BULK_HEADER_BYTES;
    }
    put_connection(bytes + BULK_HEADER_BYTES, &bulk->connection);
    put_place(bytes + BULK_HEADER_BYTES + 12, &bulk->place);
    tt_bytes_put(bytes + BULK_HEADER_BYTES + 40, bulk->immediate.value, 8);
    tt_bytes_put(bytes + BULK_HEADER_BYTES + 48, bulk->immediate.data_bytes, 4);
    memset(bytes + BULK_HEADER_BYTES + 52, 0, TT_P2P_MAX_IMMEDIATE_BYTES);
    memcpy(bytes + BULK_HEADER_BYTES + 52, bulk->immediate.data, bulk->immediate.data_bytes);
    return TT_UCX_BULK_HEADER_MAX_BYTES;
}

bool tt_ucx_bulk_decode(const void *bytes, size_t length_bytes, size_t data_bytes, struct tt_ucx_bulk *bulk)
{
    const uint8_t *raw = bytes;
    if (length_bytes < BULK_HEADER_BYTES || tt_bytes_get(raw, 4) != BULK_MAGIC || data_bytes == 0) {
        return false;
    }
    uint32_t kind = tt_bytes_get(raw + 4, 4);
    struct tt_ucx_bulk read = {.id = tt_bytes_get(raw + 8, 8), .offset_bytes = tt_bytes_get(raw + 16, 8)};
    if (kind == TT_UCX_READ_DATA && length_bytes == BULK_HEADER_BYTES) {
        read.kind = TT_UCX_READ_DATA;
    } else if (kind == TT_UCX_WRITE_DATA && length_bytes == TT_UCX_BULK_HEADER_MAX_BYTES) {
        read.kind = TT_UCX_WRITE_DATA;
        read.connection = get_connection(raw + BULK_HEADER_BYTES);
        read.place = get_place(raw + BULK_HEADER_BYTES + 12);
        read.immediate.value = tt_bytes_get(raw + BULK_HEADER_BYTES + 40, 8);
        read.immediate.data_bytes = (uint32_t)tt_bytes_get(raw + BULK_HEADER_BYTES + 48, 4);
        memcpy(read.immediate.data, raw + BULK_HEADER_BYTES + 52, sizeof(read.immediate.data));
        if (!tt_p2p_immediate_is_sound(&read.immediate) || read.offset_bytes > read.place.length_bytes ||
            data_bytes > read.place.length_bytes - read.offset_bytes) {
            return false;
        }
    } else {
        return false;
    }
    *bulk = read;
    return true;
}

void tt_ucx_key_encode(uint8_t *bytes, uint32_t index, uint64_t token)
{
    tt_bytes_put(bytes, KEY_MAGIC, 4);
    tt_bytes_put(bytes + 4, index, 4);
    tt_bytes_put(bytes + 8, token, 8);
}

bool tt_ucx_key_decode(const uint8_t *bytes, size_t length_bytes, struct tt_ucx_place *place)
{
    if (length_bytes < TT_UCX_KEY_HEADER_BYTES || length_bytes > TT_P2P_MAX_KEY_BYTES ||
        tt_bytes_get(bytes, 4) != KEY_MAGIC) {
        return false;
    }
    place->index = tt_bytes_get(bytes + 4, 4);
    place->token = tt_bytes_get(bytes + 8, 8);
    return true;
}

void tt_ucx_address_encode(uint8_t *bytes, uint64_t instance, size_t worker_bytes)
{
    tt_bytes_put(bytes, ADDRESS_MAGIC, 4);
    tt_bytes_put(bytes + 8, instance, 8);
    tt_bytes_put(bytes + 4, checksum(bytes + 8, 8 + worker_bytes), 4);
}

bool tt_ucx_address_decode(const uint8_t *bytes, size_t length_bytes, uint64_t *instance)
{
    if (length_bytes <= TT_UCX_ADDRESS_HEADER_BYTES || length_bytes > TT_P2P_MAX_ADDRESS_BYTES ||
        tt_bytes_get(bytes, 4) != ADDRESS_MAGIC ||
        tt_bytes_get(bytes + 4, 4) != checksum(bytes + 8, length_bytes - 8)) {
        return false;
    }
    *instance = tt_bytes_get(bytes + 8, 8);
    return true;
}
