/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Encoding and decoding of frames with packets. Normal path: the header, the packet's header, then bytes as they are.
 * Failures: what is too short, too long, of another kind or version, or names two sources does not decode.
 */
#include "wire/trigger_frame.h"

#include <string.h>

#include "wire/cursor.h"
#include "wire/frame_header.h"
#include "wire/word.h"

enum { TYPE_PACKET = 1, TYPE_COUNT, ADDRESS_BYTES = 8 };

static const struct tt_frame_kind kind = {
    .magic = TT_TRIGGER_FRAME_MAGIC, .version = TT_TRIGGER_FRAME_VERSION, .type_count = TYPE_COUNT};

uint32_t tt_trigger_reference_encode(uint64_t address, const void *key, uint32_t key_bytes, void *bytes)
{
    tt_word_put_64(bytes, address);
    memcpy((uint8_t *)bytes + ADDRESS_BYTES, key, key_bytes);
    return ADDRESS_BYTES + key_bytes;
}

bool tt_trigger_reference_decode(const void *bytes, uint32_t length_bytes, uint64_t *address, const void **key,
                                 uint32_t *key_bytes)
{
    if (length_bytes < ADDRESS_BYTES || length_bytes > TT_TRIGGER_MAX_REFERENCE_BYTES) {
        return false;
    }
    *address = tt_word_get_64(bytes);
    *key = (const uint8_t *)bytes + ADDRESS_BYTES;
    *key_bytes = length_bytes - ADDRESS_BYTES;
    return true;
}

size_t tt_trigger_frame_encode(const struct tt_trigger_frame *frame, uint8_t *bytes, size_t capacity_bytes)
{
    struct tt_writer writer = {.at = bytes, .end = bytes + capacity_bytes};
    const struct tt_frame_header header = {.type = TYPE_PACKET, .source = frame->source, .group = frame->group};
    uint32_t payload_bytes = tt_trigger_packet_payload_bytes(&frame->packet);
    uint8_t packet[TT_TRIGGER_PACKET_BYTES];

    tt_frame_header_write(&writer, &kind, &header);
    tt_trigger_packet_encode(&frame->packet, packet);
    tt_write_bytes(&writer, packet, sizeof packet);
    if (payload_bytes > 0) {
        tt_write_bytes(&writer, frame->payload, payload_bytes);
    }
    return writer.overflow ? 0 : (size_t)(writer.at - bytes);
}

bool tt_trigger_frame_decode(const uint8_t *bytes, size_t length_bytes, struct tt_trigger_frame *frame)
{
    struct tt_reader reader = {.at = bytes, .end = bytes + length_bytes};
    struct tt_frame_header header;

    if (length_bytes > TT_TRIGGER_FRAME_MAX_BYTES || !tt_frame_header_read(&reader, &kind, &header) ||
        reader.underflow || !tt_trigger_packet_decode(reader.at, (size_t)(reader.end - reader.at), &frame->packet)) {
        return false;
    }
    frame->source = header.source;
    frame->group = header.group;
    frame->payload = reader.at + TT_TRIGGER_PACKET_BYTES;
    return header.sequence == 0 && frame->packet.node == frame->source;
}
