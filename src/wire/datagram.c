/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Header of the udp provider's datagrams.
 *
 * Normal path: encode writes the 16 bytes, decode finds the key to be right and the length to agree.
 * Failures: decode tells what is not ours (and says nothing about its length) from what is ours but damaged.
 */
#include "wire/datagram.h"

#include <assert.h>

static void put_u16(uint8_t *bytes, uint32_t value)
{
    bytes[0] = (uint8_t)(value >> 8);
    bytes[1] = (uint8_t)value;
}

static void put_u32(uint8_t *bytes, uint32_t value)
{
    put_u16(bytes, value >> 16);
    put_u16(bytes + 2, value);
}

static uint32_t get_u16(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] << 8 | bytes[1];
}

static uint32_t get_u32(const uint8_t *bytes)
{
    return get_u16(bytes) << 16 | get_u16(bytes + 2);
}

static uint64_t get_u64(const uint8_t *bytes)
{
    return (uint64_t)get_u32(bytes) << 32 | get_u32(bytes + 4);
}

void tt_datagram_encode(const struct tt_datagram *datagram, void *header)
{
    uint8_t *bytes = header;

    assert(datagram->length_bytes <= TT_DATAGRAM_MAX_PAYLOAD_BYTES && datagram->source <= UINT16_MAX);
    put_u16(bytes + TT_DATAGRAM_OFFSET_LENGTH, datagram->length_bytes);
    put_u16(bytes + TT_DATAGRAM_OFFSET_SOURCE, datagram->source);
    put_u32(bytes + TT_DATAGRAM_OFFSET_IMM, datagram->imm);
    put_u32(bytes + TT_DATAGRAM_OFFSET_KEY, (uint32_t)(datagram->key >> 32));
    put_u32(bytes + TT_DATAGRAM_OFFSET_KEY + 4, (uint32_t)datagram->key);
}

enum tt_datagram_verdict tt_datagram_decode(const void *bytes, size_t length_bytes, uint64_t key,
                                            struct tt_datagram *datagram)
{
    const uint8_t *header = bytes;

    if (length_bytes < TT_DATAGRAM_HEADER_BYTES || get_u64(header + TT_DATAGRAM_OFFSET_KEY) != key) {
        return TT_DATAGRAM_FOREIGN;
    }
    uint32_t stated_bytes = get_u16(header + TT_DATAGRAM_OFFSET_LENGTH);
    if (stated_bytes != length_bytes - TT_DATAGRAM_HEADER_BYTES || stated_bytes > TT_DATAGRAM_MAX_PAYLOAD_BYTES) {
        return TT_DATAGRAM_WRONG_LENGTH;
    }
    *datagram = (struct tt_datagram){.key = key,
                                     .imm = get_u32(header + TT_DATAGRAM_OFFSET_IMM),
                                     .source = get_u16(header + TT_DATAGRAM_OFFSET_SOURCE),
                                     .length_bytes = stated_bytes};
    return TT_DATAGRAM_VALID;
}
