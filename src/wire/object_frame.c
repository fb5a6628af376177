/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Encoding and decoding of object groups' frames: one cursor each way over the same fields in the same order. A frame
 * that is too short, too long, of an unknown type, or with a field out of its range does not decode.
 */
#include "wire/object_frame.h"

#include "wire/cursor.h"
#include "wire/frame_header.h"

static const struct tt_frame_kind kind = {
    .magic = TT_OBJECT_FRAME_MAGIC, .version = TT_OBJECT_FRAME_VERSION, .type_count = TT_OBJECT_FRAME_TYPE_COUNT};

static bool get_ready(struct tt_reader *reader, struct tt_object_frame *frame)
{
    frame->body.ready.block = tt_read(reader, 8);
    frame->body.ready.address = tt_read(reader, 8);
    frame->body.ready.immediate = tt_read(reader, 8);
    frame->body.ready.key_bytes = (uint16_t)tt_read(reader, 2);
    frame->body.ready.key = tt_read_bytes(reader, frame->body.ready.key_bytes);
    return frame->body.ready.key_bytes <= TT_OBJECT_FRAME_MAX_KEY_BYTES;
}

static void put_body(struct tt_writer *writer, const struct tt_object_frame *frame)
{
    switch (frame->type) {
    case TT_OBJECT_FRAME_OFFER:
        tt_write(writer, frame->body.offer.size_bytes, 8);
        break;
    case TT_OBJECT_FRAME_READY:
        tt_write(writer, frame->body.ready.block, 8);
        tt_write(writer, frame->body.ready.address, 8);
        tt_write(writer, frame->body.ready.immediate, 8);
        tt_write(writer, frame->body.ready.key_bytes, 2);
        tt_write_bytes(writer, frame->body.ready.key, frame->body.ready.key_bytes);
        break;
    case TT_OBJECT_FRAME_BARRIER:
        tt_write(writer, frame->body.barrier.round, 1);
        break;
    case TT_OBJECT_FRAME_JOIN:
        tt_write(writer, frame->body.join.wants, 1);
        tt_write(writer, frame->body.join.terms.algorithm, 1);
        tt_write(writer, frame->body.join.terms.credit, 1);
        tt_write(writer, frame->body.join.terms.block_bytes, 4);
        tt_write(writer, frame->body.join.terms.racks, 8);
        tt_write(writer, frame->body.join.members, 8);
        tt_write(writer, frame->body.join.created, 4);
        break;
    case TT_OBJECT_FRAME_FAIL:
        tt_write(writer, (uint32_t)frame->body.fail.status, 4);
        tt_write(writer, frame->body.fail.member, 4);
        tt_write(writer, frame->body.fail.noticed_by, 4);
        tt_write(writer, frame->body.fail.puts, 8);
        break;
    default:
        break; /* the header says it all */
    }
}

size_t tt_object_frame_encode(const struct tt_object_frame *frame, uint8_t *bytes, size_t capacity_bytes)
{
    struct tt_writer writer = {.at = bytes, .end = bytes + capacity_bytes};
    const struct tt_frame_header header = {
        .type = frame->type, .source = frame->source, .group = frame->group, .sequence = frame->sequence};

    tt_frame_header_write(&writer, &kind, &header);
    put_body(&writer, frame);
    return writer.overflow ? 0 : (size_t)(writer.at - bytes);
}

static bool get_body(struct tt_reader *reader, struct tt_object_frame *frame)
{
    switch (frame->type) {
    case TT_OBJECT_FRAME_OFFER:
        frame->body.offer.size_bytes = tt_read(reader, 8);
        return true;
    case TT_OBJECT_FRAME_READY:
        return get_ready(reader, frame);
    case TT_OBJECT_FRAME_BARRIER:
        frame->body.barrier.round = (uint8_t)tt_read(reader, 1);
        return frame->body.barrier.round < 32;
    case TT_OBJECT_FRAME_JOIN:
        frame->body.join.wants = (uint8_t)tt_read(reader, 1);
        frame->body.join.terms.algorithm = (uint8_t)tt_read(reader, 1);
        frame->body.join.terms.credit = (uint8_t)tt_read(reader, 1);
        frame->body.join.terms.block_bytes = (uint32_t)tt_read(reader, 4);
        frame->body.join.terms.racks = tt_read(reader, 8);
        frame->body.join.members = tt_read(reader, 8);
        frame->body.join.created = (uint32_t)tt_read(reader, 4);
        return frame->body.join.wants <= 1;
    case TT_OBJECT_FRAME_FAIL:
        frame->body.fail.status = (int32_t)(uint32_t)tt_read(reader, 4);
        frame->body.fail.member = (uint32_t)tt_read(reader, 4);
        frame->body.fail.noticed_by = (uint32_t)tt_read(reader, 4);
        frame->body.fail.puts = tt_read(reader, 8);
        return frame->body.fail.status < 0;
    default:
        return true;
    }
}

bool tt_object_frame_decode(const uint8_t *bytes, size_t length_bytes, struct tt_object_frame *frame)
{
    struct tt_reader reader = {.at = bytes, .end = bytes + length_bytes};
    struct tt_frame_header header;

    if (!tt_frame_header_read(&reader, &kind, &header)) {
        return false;
    }
    frame->type = (enum tt_object_frame_type)header.type;
    frame->source = header.source;
    frame->group = header.group;
    frame->sequence = header.sequence;
    return get_body(&reader, frame) && tt_reader_is_done(&reader);
}

const char *tt_object_frame_name(enum tt_object_frame_type type)
{
    static const char *const names[TT_OBJECT_FRAME_TYPE_COUNT] = {
        [TT_OBJECT_FRAME_OFFER] = "offer",     [TT_OBJECT_FRAME_END] = "end",
        [TT_OBJECT_FRAME_READY] = "ready",     [TT_OBJECT_FRAME_REACHED] = "reached",
        [TT_OBJECT_FRAME_CLOSING] = "closing", [TT_OBJECT_FRAME_BARRIER] = "barrier",
        [TT_OBJECT_FRAME_BYE] = "bye",         [TT_OBJECT_FRAME_FAIL] = "fail",
        [TT_OBJECT_FRAME_ASK] = "ask",         [TT_OBJECT_FRAME_ANSWER] = "answer",
        [TT_OBJECT_FRAME_JOIN] = "join",       [TT_OBJECT_FRAME_THERE] = "there"};

    return type > 0 && type < TT_OBJECT_FRAME_TYPE_COUNT ? names[type] : "unknown";
}
