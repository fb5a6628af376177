/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The header that every multicast datagram of the udp provider begins with: 16 bytes, network byte order.
 *
 *     bytes  0 ..  7 key of the job and group, random: keeps other groups' and other programs' datagrams out
 *     bytes  8 .. 11 immediate data (wire/chunk.h)
 *     bytes 12 .. 13 rank of the sender in the group
 *     bytes 14 .. 15 length of the payload, which is all that follows the header; 0 is legal
 *
 * There is no version: the ranks have compared theirs before they knew the key. The length is stated although UDP knows
 * it, so that a datagram that was cut or padded on its way, or split wrongly out of a super-packet, is found. With 16
 * bytes a 1,500-byte Ethernet frame carries 1,456 bytes of payload.
 */
#ifndef TT_WIRE_DATAGRAM_H
#define TT_WIRE_DATAGRAM_H

#include <stddef.h>
#include <stdint.h>

enum {
    TT_DATAGRAM_HEADER_BYTES = 16,
    TT_DATAGRAM_MAX_PAYLOAD_BYTES = 65507 - TT_DATAGRAM_HEADER_BYTES, /* of a UDP datagram over IPv4 */

    /* Offsets for packet filters. */
    TT_DATAGRAM_OFFSET_KEY = 0,
    TT_DATAGRAM_OFFSET_IMM = 8,
    TT_DATAGRAM_OFFSET_SOURCE = 12,
    TT_DATAGRAM_OFFSET_LENGTH = 14
};

struct tt_datagram {
    uint64_t key;
    uint32_t imm;
    uint32_t source;       /* below TT_MAX_RANKS */
    uint32_t length_bytes; /* of the payload, at most TT_DATAGRAM_MAX_PAYLOAD_BYTES */
};

enum tt_datagram_verdict {
    TT_DATAGRAM_VALID,
    TT_DATAGRAM_FOREIGN,     /* shorter than a header, or another key */
    TT_DATAGRAM_WRONG_LENGTH /* ours, but the payload is not as long as the header says, or longer than UDP can carry */
};

/* Writes the TT_DATAGRAM_HEADER_BYTES bytes of the header. */
void tt_datagram_encode(const struct tt_datagram *datagram, void *header);

/*
 * Judges the `length_bytes` bytes of a whole datagram, header and payload, of which no more is read than there is; the
 * payload is not looked at. *datagram is set only if the verdict is VALID. Any bytes at all are legal input.
 */
enum tt_datagram_verdict tt_datagram_decode(const void *bytes, size_t length_bytes, uint64_t key,
                                            struct tt_datagram *datagram);

#endif
