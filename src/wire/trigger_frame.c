/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Encoding and decoding of frames with packets. Normal path: the header, the packet's header, then bytes as they are.
 * Failures: what is too short, too long, of another kind or version, or names two sources does not decode.
 */
#include "wire/trigger_frame.h"

#include <assert.h>
#include <string.h>

#include "wire/cursor.h"
#include "wire/frame_header.h"
#include "wire/word.h"

enum { TYPE_PACKET = 1, TYPE_COUNT, ADDRESS_BYTES = 8, PADDING_BYTES = 8 };

_Static_assert((4 + TT_TRIGGER_FRAME_HEAD_BYTES) % 16 == 0, "a piece is aligned behind a transport's 4 bytes");

static const struct tt_frame_kind kind = {
    .magic = TT_TRIGGER_FRAME_MAGIC, .version = TT_TRIGGER_FRAME_VERSION, .type_count = TYPE_COUNT};

uint32_t tt_trigger_reference_encode(uint64_t address, const void *key, uint32_t key_bytes, void *bytes)
{
    tt_word_put_64(bytes, address);
    if (key_bytes > 0) {
        memcpy((uint8_t *)bytes + ADDRESS_BYTES, key, key_bytes);
    }
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

uint32_t tt_trigger_slot_encode(const struct tt_trigger_slot *slot, void *bytes)
{
    tt_word_put_64(bytes, slot->immediate);
    return ADDRESS_BYTES +
           tt_trigger_reference_encode(slot->address, slot->key, slot->key_bytes, (uint8_t *)bytes + ADDRESS_BYTES);
}

bool tt_trigger_slot_decode(const void *bytes, uint32_t length_bytes, struct tt_trigger_slot *slot)
{
    if (length_bytes <= 2 * ADDRESS_BYTES || length_bytes > TT_TRIGGER_MAX_REFERENCE_BYTES) {
        return false;
    }
    slot->immediate = tt_word_get_64(bytes);
    return tt_trigger_reference_decode((const uint8_t *)bytes + ADDRESS_BYTES, length_bytes - ADDRESS_BYTES,
                                       &slot->address, &slot->key, &slot->key_bytes);
}

void tt_trigger_frame_encode(const struct tt_trigger_frame *frame, uint8_t head[TT_TRIGGER_FRAME_HEAD_BYTES])
{
    struct tt_writer writer = {.at = head, .end = head + TT_TRIGGER_FRAME_HEAD_BYTES - TT_TRIGGER_PACKET_BYTES};
    const struct tt_frame_header header = {.type = TYPE_PACKET, .source = frame->source, .group = frame->group};

    tt_frame_header_write(&writer, &kind, &header);
    tt_write(&writer, frame->offset_bytes, 4);
    tt_write(&writer, 0, PADDING_BYTES);
    assert(!writer.overflow && writer.at == writer.end);
    tt_trigger_packet_encode(&frame->packet, writer.end);
}

bool tt_trigger_frame_decode(const uint8_t *bytes, size_t length_bytes, struct tt_trigger_frame *frame)
{
    struct tt_reader reader = {.at = bytes, .end = bytes + length_bytes};
    struct tt_frame_header header;
    bool is_known = length_bytes <= UINT32_MAX && tt_frame_header_read(&reader, &kind, &header);
    uint32_t all_bytes;

    frame->offset_bytes = (uint32_t)tt_read(&reader, 4);
    is_known = tt_read(&reader, PADDING_BYTES) == 0 && is_known;
    if (!is_known || header.sequence != 0 || reader.underflow ||
        !tt_trigger_packet_decode_piece(reader.at, (size_t)(reader.end - reader.at), &frame->packet)) {
        return false;
    }
    frame->source = header.source;
    frame->group = header.group;
    frame->piece = reader.at + TT_TRIGGER_PACKET_BYTES;
    frame->piece_bytes = (uint32_t)(reader.end - reader.at) - TT_TRIGGER_PACKET_BYTES;
    all_bytes = tt_trigger_packet_payload_bytes(&frame->packet);
    return frame->packet.node == frame->source && frame->offset_bytes <= all_bytes &&
           frame->piece_bytes <= all_bytes - frame->offset_bytes && (frame->piece_bytes > 0) == (all_bytes > 0);
}
