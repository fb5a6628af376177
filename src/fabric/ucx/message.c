/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Encodes and decodes message headers and addresses.
 *
 * Normal path: what one instance encodes, another decodes.
 *
 * Failures: decode refuses bytes that no instance of this version wrote. A foreign program that uses the same UCX
 * message id, or an address that was cut or mixed up on its way through the bootstrap, ends here.
 */
#include "fabric/ucx/message.h"

#include "fabric/p2p.h"

#define MESSAGE_MAGIC UINT32_C(0x31707474) /* "ttp1" */
#define ADDRESS_MAGIC UINT32_C(0x31617474) /* "tta1" */

static void put_u64(uint8_t *bytes, uint64_t value)
{
    tt_ucx_put_u32(bytes, (uint32_t)value);
    tt_ucx_put_u32(bytes + 4, (uint32_t)(value >> 32));
}

static uint64_t get_u64(const uint8_t *bytes)
{
    return tt_ucx_get_u32(bytes) | (uint64_t)tt_ucx_get_u32(bytes + 4) << 32;
}

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
    tt_ucx_put_u32(bytes, MESSAGE_MAGIC);
    tt_ucx_put_u32(bytes + 4, (uint32_t)header->kind | header->payload_bytes << 16);
    put_u64(bytes + 8, header->value);
}

bool tt_ucx_header_decode(const void *bytes, size_t length_bytes, struct tt_ucx_header *header)
{
    const uint8_t *raw = bytes;
    if (length_bytes < TT_UCX_HEADER_BYTES || length_bytes > TT_UCX_HEADER_BYTES + TT_P2P_MAX_FRAME_BYTES ||
        tt_ucx_get_u32(raw) != MESSAGE_MAGIC) {
        return false;
    }
    uint32_t kind_and_length = tt_ucx_get_u32(raw + 4);
    uint32_t kind = kind_and_length & 0xffff;
    uint32_t payload_bytes = kind_and_length >> 16;
    bool farewell = kind == TT_UCX_BYE || kind == TT_UCX_BYE_HEARD;
    if (kind == 0 || kind >= TT_UCX_KIND_LIMIT || payload_bytes != length_bytes - TT_UCX_HEADER_BYTES ||
        (farewell && payload_bytes != 4) || (kind == TT_UCX_FRAME && payload_bytes == 0)) {
        return false;
    }
    header->kind = (enum tt_ucx_message_kind)kind;
    header->payload_bytes = payload_bytes;
    header->value = get_u64(raw + 8);
    return true;
}

void tt_ucx_address_encode(uint8_t *bytes, uint64_t instance, size_t worker_bytes)
{
    tt_ucx_put_u32(bytes, ADDRESS_MAGIC);
    put_u64(bytes + 8, instance);
    tt_ucx_put_u32(bytes + 4, checksum(bytes + 8, 8 + worker_bytes));
}

bool tt_ucx_address_decode(const uint8_t *bytes, size_t length_bytes, uint64_t *instance)
{
    if (length_bytes <= TT_UCX_ADDRESS_HEADER_BYTES || length_bytes > TT_P2P_MAX_ADDRESS_BYTES ||
        tt_ucx_get_u32(bytes) != ADDRESS_MAGIC || tt_ucx_get_u32(bytes + 4) != checksum(bytes + 8, length_bytes - 8)) {
        return false;
    }
    *instance = get_u64(bytes + 8);
    return true;
}
