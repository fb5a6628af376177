/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The header that every multicast datagram of the udp provider begins with: 14 bytes, network byte order.
 *
 *     byte   0       magic, 0xC7: keeps other programs' datagrams out
 *     byte   1       version of this layout, 2
 *     bytes  2 ..  3 length of the payload, which is all that follows the header; 0 is legal
 *     bytes  4 ..  5 rank of the sender in the group
 *     bytes  6 ..  9 immediate data (wire/chunk.h)
 *     bytes 10 .. 13 key of the job and group (tt_datagram_key)
 *
 * The length is stated although UDP knows it, so that a datagram that was cut or padded on its way, or split wrongly
 * out of a super-packet, is found. With 14 bytes a 1,500-byte Ethernet frame carries 1,458 bytes of payload.
 */
#ifndef TT_WIRE_DATAGRAM_H
#define TT_WIRE_DATAGRAM_H

#include <stddef.h>
#include <stdint.h>

enum {
    TT_DATAGRAM_MAGIC = 0xC7,
    TT_DATAGRAM_VERSION = 2,
    TT_DATAGRAM_HEADER_BYTES = 14,
    TT_DATAGRAM_MAX_PAYLOAD_BYTES = 65507 - TT_DATAGRAM_HEADER_BYTES, /* of a UDP datagram over IPv4 */

    /* Offsets for packet filters. */
    TT_DATAGRAM_OFFSET_MAGIC = 0,
    TT_DATAGRAM_OFFSET_LENGTH = 2,
    TT_DATAGRAM_OFFSET_SOURCE = 4,
    TT_DATAGRAM_OFFSET_IMM = 6,
    TT_DATAGRAM_OFFSET_KEY = 10
};

struct tt_datagram {
    uint32_t key;
    uint32_t imm;
    uint32_t source;       /* below TT_MAX_RANKS */
    uint32_t length_bytes; /* of the payload, at most TT_DATAGRAM_MAX_PAYLOAD_BYTES */
};

enum tt_datagram_verdict {
    TT_DATAGRAM_VALID,
    TT_DATAGRAM_FOREIGN,     /* shorter than a header, or another magic, version or key */
    TT_DATAGRAM_WRONG_LENGTH /* ours, but the payload is not as long as the header says, or longer than UDP can carry */
};

/* What a header has of an address's key: both halves, one upon the other, so that each bit of it counts. */
static inline uint32_t tt_datagram_key(uint64_t key)
{
    return (uint32_t)(key ^ key >> 32);
}

/* Writes the TT_DATAGRAM_HEADER_BYTES bytes of the header. */
void tt_datagram_encode(const struct tt_datagram *datagram, void *header);

/*
 * Judges the `length_bytes` bytes of a whole datagram, header and payload, of which no more is read than there is; the
 * payload is not looked at. *datagram is set only if the verdict is VALID. Any bytes at all are legal input.
 */
enum tt_datagram_verdict tt_datagram_decode(const void *bytes, size_t length_bytes, uint32_t key,
                                            struct tt_datagram *datagram);

#endif
