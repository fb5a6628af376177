/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: the header of the triggered engine's packets, to bytes and back.
 *
 * Normal path: every field is shifted to its place, and masked out of it.
 *
 * Failures: any bytes are legal input; what no encoder writes, or is not as long as it says, is refused.
 */
#include "wire/trigger_packet.h"

#include <assert.h>

#include "wire/descriptor.h"
#include "wire/word.h"

enum { WORD_BYTES = 8 };

void tt_trigger_packet_encode(const struct tt_trigger_packet *packet, void *bytes)
{
    uint8_t *to = bytes;

    assert(packet->node < TT_TRIGGER_NODES && packet->port < TT_TRIGGER_PORTS);
    assert(packet->source_port < TT_TRIGGER_PORTS && packet->sequence < TT_TRIGGER_STEPS);
    tt_word_put_64(to, (uint64_t)packet->job << 56 | (uint64_t)packet->node << 32 | (uint64_t)packet->port << 21 |
                           (uint64_t)packet->sequence << 16 | (uint64_t)packet->source_port << 5 |
                           (uint64_t)packet->triggers << 4 | (uint64_t)packet->swap_data << 3 |
                           (uint64_t)packet->swap_address << 2 | packet->collective_end);
    tt_word_put_64(to + WORD_BYTES,
                   (uint64_t)packet->kind << 56 | (uint64_t)packet->is_copied << 32 | packet->length_bytes);
    tt_word_put_64(to + 2 * WORD_BYTES, packet->address_bytes);
}

bool tt_trigger_packet_decode_piece(const void *bytes, size_t length_bytes, struct tt_trigger_packet *packet)
{
    const uint8_t *from = bytes;

    if (length_bytes < TT_TRIGGER_PACKET_BYTES) {
        return false;
    }
    uint64_t key = tt_word_get_64(from), kind = tt_word_get_64(from + WORD_BYTES);
    struct tt_trigger_packet read = {
        .kind = (enum tt_trigger_kind)(kind >> 56),
        .job = (uint8_t)(key >> 56),
        .node = key >> 32 & (TT_TRIGGER_NODES - 1),
        .port = key >> 21 & (TT_TRIGGER_PORTS - 1),
        .sequence = key >> 16 & (TT_TRIGGER_STEPS - 1),
        .source_port = key >> 5 & (TT_TRIGGER_PORTS - 1),
        .triggers = (key >> 4 & 1) != 0,
        .swap_data = (key >> 3 & 1) != 0,
        .swap_address = (key >> 2 & 1) != 0,
        .collective_end = (key & 1) != 0,
        .is_copied = (kind >> 32 & 1) != 0,
        .length_bytes = (uint32_t)kind,
        .address_bytes = tt_word_get_64(from + 2 * WORD_BYTES),
    };
    size_t behind_bytes = length_bytes - TT_TRIGGER_PACKET_BYTES;

    if ((read.kind == TT_TRIGGER_REMOTE || read.kind == TT_TRIGGER_ACCEPTED) &&
        behind_bytes <= TT_TRIGGER_MAX_REFERENCE_BYTES) {
        read.reference_bytes = (uint16_t)behind_bytes;
    }
    if ((key >> 1 & 1) != 0 || read.kind < TT_TRIGGER_DATA || read.kind > TT_TRIGGER_REMOTE ||
        (kind >> 33 & ((TT_TRIGGER_NODES - 1) >> 1)) != 0 || (!read.swap_address && read.address_bytes != 0) ||
        (read.kind == TT_TRIGGER_REMOTE && read.reference_bytes == 0) ||
        (read.kind != TT_TRIGGER_DATA && tt_trigger_packet_payload_bytes(&read) != behind_bytes)) {
        return false;
    }
    *packet = read;
    return true;
}

bool tt_trigger_packet_decode(const void *bytes, size_t length_bytes, struct tt_trigger_packet *packet)
{
    struct tt_trigger_packet read;

    if (!tt_trigger_packet_decode_piece(bytes, length_bytes, &read) ||
        tt_trigger_packet_payload_bytes(&read) != length_bytes - TT_TRIGGER_PACKET_BYTES) {
        return false;
    }
    *packet = read;
    return true;
}
