/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Encodes and decodes what instances of the provider exchange.
 *
 * Normal path: what one instance encodes, another decodes.
 *
 * Failures: decode refuses bytes that no instance of this version wrote: an address that was cut or mixed up on its way
 * through the bootstrap, a datagram of somebody else, another provider's key.
 */
#include "fabric/verbs/rc_message.h"

#include <string.h>

#include "wire/cursor.h"
#define ADDRESS_MAGIC  UINT32_C(0x32617674) /* "tva2" */
#define GREETING_MAGIC UINT32_C(0x31677674) /* "tvg1" */
#define KEY_MAGIC      UINT32_C(0x316b7674) /* "tvk1" */
#define MESSAGE_MAGIC  UINT32_C(0x316d7674) /* "tvm1" */

enum { CHECKSUM_AT = TT_RC_IDENTITY_BYTES, CHECKSUM_BYTES = 4, MTU_LEAST = 1, MTU_MOST = 5 };

/* Of an address, but for the checksum itself. FNV-1a: finds accidents, not attacks. */
static uint32_t checksum(const uint8_t bytes[TT_RC_ADDRESS_BYTES])
{
    uint32_t hash = UINT32_C(2166136261);
    for (size_t i = 0; i < TT_RC_ADDRESS_BYTES; i++) {
        if (i < CHECKSUM_AT || i >= CHECKSUM_AT + CHECKSUM_BYTES) {
            hash = (hash ^ bytes[i]) * UINT32_C(16777619);
        }
    }
    return hash;
}

void tt_rc_address_encode(const struct tt_rc_address *address, uint8_t bytes[TT_RC_ADDRESS_BYTES])
{
    tt_bytes_put(bytes, ADDRESS_MAGIC, 4);
    tt_bytes_put(bytes + 4, address->instance, 8);
    memcpy(bytes + 16, address->gid, TT_RC_GID_BYTES);
    tt_bytes_put(bytes + 32, address->queue_pair, 4);
    tt_bytes_put(bytes + 36, address->queue_key, 4);
    tt_bytes_put(bytes + 40, address->lid, 2);
    bytes[42] = address->mtu;
    bytes[43] = address->roce;
    bytes[44] = address->reads_out;
    bytes[45] = address->reads_in;
    tt_bytes_put(bytes + 46, 0, 2);
    tt_bytes_put(bytes + CHECKSUM_AT, checksum(bytes), CHECKSUM_BYTES);
}

bool tt_rc_address_decode(const void *bytes, size_t length_bytes, struct tt_rc_address *address)
{
    const uint8_t *raw = bytes;
    if (length_bytes != TT_RC_ADDRESS_BYTES || tt_bytes_get(raw, 4) != ADDRESS_MAGIC ||
        tt_bytes_get(raw + CHECKSUM_AT, CHECKSUM_BYTES) != checksum(raw) || raw[42] < MTU_LEAST || raw[42] > MTU_MOST ||
        raw[43] > 1 || raw[44] == 0 || raw[45] == 0 || tt_bytes_get(raw + 32, 4) > TT_RC_PSN_MASK) {
        return false;
    }
    *address = (struct tt_rc_address){
        .instance = tt_bytes_get(raw + 4, 8),
        .queue_pair = (uint32_t)tt_bytes_get(raw + 32, 4),
        .queue_key = (uint32_t)tt_bytes_get(raw + 36, 4),
        .lid = (uint16_t)tt_bytes_get(raw + 40, 2),
        .mtu = raw[42],
        .roce = raw[43] != 0,
        .reads_out = raw[44],
        .reads_in = raw[45],
    };
    memcpy(address->gid, raw + 16, TT_RC_GID_BYTES);
    return true;
}

void tt_rc_greeting_encode(const struct tt_rc_greeting *greeting, uint8_t bytes[TT_RC_GREETING_BYTES])
{
    tt_bytes_put(bytes, GREETING_MAGIC, 4);
    bytes[4] = (uint8_t)greeting->kind;
    bytes[5] = (uint8_t)greeting->stage;
    tt_bytes_put(bytes + 6, 0, 2);
    tt_bytes_put(bytes + 8, greeting->to, 8);
    tt_bytes_put(bytes + 16, greeting->serial, 4);
    tt_bytes_put(bytes + 20, greeting->queue_pair, 4);
    tt_bytes_put(bytes + 24, greeting->psn, 4);
    tt_rc_address_encode(&greeting->from, bytes + 28);
}

bool tt_rc_greeting_decode(const void *bytes, size_t length_bytes, struct tt_rc_greeting *greeting)
{
    const uint8_t *raw = bytes;
    struct tt_rc_address from;
    if (length_bytes != TT_RC_GREETING_BYTES || tt_bytes_get(raw, 4) != GREETING_MAGIC ||
        (raw[4] != TT_RC_HELLO && raw[4] != TT_RC_GONE) || raw[5] > TT_RC_OPEN ||
        tt_bytes_get(raw + 20, 4) > TT_RC_PSN_MASK || tt_bytes_get(raw + 24, 4) > TT_RC_PSN_MASK ||
        !tt_rc_address_decode(raw + 28, TT_RC_ADDRESS_BYTES, &from)) {
        return false;
    }
    *greeting = (struct tt_rc_greeting){
        .kind = raw[4],
        .stage = raw[5],
        .to = tt_bytes_get(raw + 8, 8),
        .serial = (uint32_t)tt_bytes_get(raw + 16, 4),
        .queue_pair = (uint32_t)tt_bytes_get(raw + 20, 4),
        .psn = (uint32_t)tt_bytes_get(raw + 24, 4),
        .from = from,
    };
    return true;
}

void tt_rc_key_encode(const struct tt_rc_key *key, uint8_t bytes[TT_RC_KEY_BYTES])
{
    tt_bytes_put(bytes, KEY_MAGIC, 4);
    tt_bytes_put(bytes + 4, key->rkey, 4);
    tt_bytes_put(bytes + 8, key->address, 8);
    tt_bytes_put(bytes + 16, key->length_bytes, 8);
}

bool tt_rc_key_decode(const void *bytes, size_t length_bytes, struct tt_rc_key *key)
{
    const uint8_t *raw = bytes;
    if (length_bytes != TT_RC_KEY_BYTES || tt_bytes_get(raw, 4) != KEY_MAGIC) {
        return false;
    }
    *key = (struct tt_rc_key){.rkey = (uint32_t)tt_bytes_get(raw + 4, 4),
                              .address = tt_bytes_get(raw + 8, 8),
                              .length_bytes = tt_bytes_get(raw + 16, 8)};
    return true;
}

bool tt_rc_key_covers(const struct tt_rc_key *key, uint64_t address, uint64_t length_bytes)
{
    return address >= key->address && address - key->address <= key->length_bytes &&
           length_bytes <= key->length_bytes - (address - key->address);
}

static bool payload_fits(uint32_t kind, uint32_t payload_bytes)
{
    switch (kind) {
    case TT_RC_FRAME:
        return payload_bytes > 0 && payload_bytes <= TT_P2P_LEAST_FRAME_BYTES;
    case TT_RC_IMMEDIATE:
        return payload_bytes >= TT_RC_NUMBER_BYTES && payload_bytes <= TT_RC_NUMBER_BYTES + TT_P2P_MAX_IMMEDIATE_BYTES;
    case TT_RC_BYE:
    case TT_RC_BYE_HEARD:
        return payload_bytes == 0;
    default:
        return false;
    }
}

void tt_rc_header_encode(enum tt_rc_message_kind kind, uint32_t payload_bytes, uint8_t bytes[TT_RC_HEADER_BYTES])
{
    tt_bytes_put(bytes, MESSAGE_MAGIC, 4);
    tt_bytes_put(bytes + 4, (uint64_t)kind, 2);
    tt_bytes_put(bytes + 6, payload_bytes, 2);
}

bool tt_rc_header_decode(const void *bytes, size_t length_bytes, enum tt_rc_message_kind *kind, uint32_t *payload_bytes)
{
    const uint8_t *raw = bytes;
    if (length_bytes < TT_RC_HEADER_BYTES || tt_bytes_get(raw, 4) != MESSAGE_MAGIC) {
        return false;
    }
    uint32_t found_kind = (uint32_t)tt_bytes_get(raw + 4, 2);
    uint32_t found_bytes = (uint32_t)tt_bytes_get(raw + 6, 2);
    if (found_bytes != length_bytes - TT_RC_HEADER_BYTES || !payload_fits(found_kind, found_bytes)) {
        return false;
    }
    *kind = (enum tt_rc_message_kind)found_kind;
    *payload_bytes = found_bytes;
    return true;
}
