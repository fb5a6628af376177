/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Encoding and decoding of control frames: one cursor each way over the same fields in the same order. A frame that is
 * too short, too long, of an unknown type, or with a field out of its range does not decode.
 */
#include "wire/frame.h"

#include <string.h>

#include "tutti/status.h"
#include "wire/cursor.h"
#include "wire/frame_header.h"

static const struct tt_frame_kind kind = {
    .magic = TT_FRAME_MAGIC, .version = TT_FRAME_VERSION, .type_count = TT_FRAME_TYPE_COUNT};

static void put_window(struct tt_writer *writer, uint8_t slot, const struct tt_window *window)
{
    tt_write(writer, slot, 1);
    tt_write(writer, window->subgroup, 2);
    tt_write(writer, window->base, 4);
    tt_write(writer, window->count, 2);
    for (uint32_t i = 0; i < (window->count + 63U) / 64; i++) {
        tt_write(writer, window->bits[i], 8);
    }
}

static bool get_window(struct tt_reader *reader, uint8_t *slot, struct tt_window *window)
{
    *slot = (uint8_t)tt_read(reader, 1);
    window->subgroup = (uint16_t)tt_read(reader, 2);
    window->base = (uint32_t)tt_read(reader, 4);
    window->count = (uint16_t)tt_read(reader, 2);
    if (reader->underflow || window->count == 0 || window->count > TT_FETCH_WINDOW) {
        return false;
    }
    memset(window->bits, 0, sizeof window->bits);
    for (uint32_t i = 0; i < (window->count + 63U) / 64; i++) {
        window->bits[i] = tt_read(reader, 8);
    }
    /* Bits past the count would name PSNs that were never meant. */
    return window->count % 64 == 0 || window->bits[window->count / 64] >> (window->count % 64) == 0;
}

static void put_terms(struct tt_writer *writer, const struct tt_collective_terms *terms)
{
    tt_write(writer, terms->kind, 1);
    tt_write(writer, terms->method, 1);
    tt_write(writer, terms->subgroups, 2);
    tt_write(writer, terms->root, 4);
    tt_write(writer, terms->chunk_bytes, 4);
    tt_write(writer, terms->chains, 2);
    tt_write(writer, terms->before, 2);
    tt_write(writer, terms->block_bytes, 8);
    if (tt_kind_row(terms->kind)->combines) {
        tt_write(writer, terms->type, 1);
        tt_write(writer, terms->operation, 1);
        tt_write(writer, terms->element_bytes, 4);
        tt_write(writer, terms->counts, 4);
    }
}

static void put_barrier(struct tt_writer *writer, const struct tt_frame *frame)
{
    tt_write(writer, frame->body.barrier.round, 1);
    put_terms(writer, &frame->body.barrier.terms);
    tt_write(writer, frame->body.barrier.finished, 8);
}

static void get_terms(struct tt_reader *reader, struct tt_collective_terms *terms)
{
    terms->kind = (uint8_t)tt_read(reader, 1);
    terms->method = (uint8_t)tt_read(reader, 1);
    terms->subgroups = (uint16_t)tt_read(reader, 2);
    terms->root = (uint32_t)tt_read(reader, 4);
    terms->chunk_bytes = (uint32_t)tt_read(reader, 4);
    terms->chains = (uint32_t)tt_read(reader, 2);
    terms->before = (uint16_t)tt_read(reader, 2);
    terms->block_bytes = tt_read(reader, 8);
    terms->type = terms->operation = 0;
    terms->element_bytes = terms->counts = 0;
    if (tt_kind_row(terms->kind)->combines) {
        terms->type = (uint8_t)tt_read(reader, 1);
        terms->operation = (uint8_t)tt_read(reader, 1);
        terms->element_bytes = (uint32_t)tt_read(reader, 4);
        terms->counts = (uint32_t)tt_read(reader, 4);
    }
}

/* What combines has elements, and whole ones; what goes by parts combines. */
static bool are_possible(const struct tt_collective_terms *terms)
{
    if (!tt_kind_row(terms->kind)->combines) {
        return !tt_method_row(terms->method)->by_parts;
    }
    return terms->element_bytes > 0 && terms->block_bytes % terms->element_bytes == 0;
}

static bool get_barrier(struct tt_reader *reader, struct tt_frame *frame)
{
    frame->body.barrier.round = (uint8_t)tt_read(reader, 1);
    get_terms(reader, &frame->body.barrier.terms);
    frame->body.barrier.finished = tt_read(reader, 8);
    return frame->body.barrier.round < 32 && are_possible(&frame->body.barrier.terms);
}

enum { MOST_TERMS_BYTES = 24 + 10, GATHER_FIXED_BYTES = TT_RELEASE_BYTES + 4 + 2 };
_Static_assert(TT_FRAME_HEADER_BYTES + MOST_TERMS_BYTES + GATHER_FIXED_BYTES <= TT_FRAME_GATHER_HEAD_BYTES,
               "what is before a GATHER's bytes has room");

static void put_release(struct tt_writer *writer, const struct tt_release *release)
{
    uint8_t bytes[TT_RELEASE_BYTES];

    tt_release_encode(release, bytes);
    tt_write_bytes(writer, bytes, sizeof bytes);
}

/* False: it is not there, or has a flag that means nothing. */
static bool get_release(struct tt_reader *reader, struct tt_release *release)
{
    const uint8_t *bytes = tt_read_bytes(reader, TT_RELEASE_BYTES);

    if (bytes == NULL) {
        return false;
    }
    tt_release_decode(bytes, release);
    return tt_release_flags(release) == bytes[TT_RELEASE_BYTES - 1];
}

static void put_place(struct tt_writer *writer, uint32_t offset_bytes, uint16_t length_bytes)
{
    tt_write(writer, offset_bytes, 4);
    tt_write(writer, length_bytes, 2);
}

static void put_gather(struct tt_writer *writer, const struct tt_frame *frame)
{
    put_terms(writer, &frame->body.gather.terms);
    put_release(writer, &frame->body.gather.least);
    put_place(writer, frame->body.gather.offset_bytes, frame->body.gather.length_bytes);
}

static void put_data(struct tt_writer *writer, const struct tt_frame *frame)
{
    put_terms(writer, &frame->body.data.terms);
    put_place(writer, frame->body.data.offset_bytes, frame->body.data.length_bytes);
    tt_write_bytes(writer, frame->body.data.bytes, frame->body.data.length_bytes);
}

static void put_available(struct tt_writer *writer, const struct tt_frame *frame)
{
    put_window(writer, frame->body.available.slot, &frame->body.available.window);
    tt_write(writer, frame->body.available.address, 8);
    tt_write(writer, frame->body.available.key_bytes, 2);
    tt_write_bytes(writer, frame->body.available.key, frame->body.available.key_bytes);
}

static void put_fail(struct tt_writer *writer, const struct tt_frame *frame)
{
    tt_write(writer, (uint32_t)frame->body.fail.status, 4);
    tt_write(writer, frame->body.fail.rank, 4);
    tt_write(writer, frame->body.fail.noticed_by, 4);
    if (frame->body.fail.status == TUTTI_ERR_MISMATCH) {
        put_terms(writer, &frame->body.fail.here);
        put_terms(writer, &frame->body.fail.there);
    }
}

static void put_probe(struct tt_writer *writer, const struct tt_frame *frame)
{
    tt_write(writer, frame->body.probe.phase, 1);
    tt_write(writer, frame->body.probe.heard_all, 1);
    tt_write(writer, frame->body.probe.failed_rank, 4);
    tt_write(writer, frame->body.probe.deaf_rank, 4);
    tt_write(writer, frame->body.probe.deaf_count, 4);
}

static void put_rollcall(struct tt_writer *writer, const struct tt_frame *frame)
{
    uint32_t rank_count = frame->body.rollcall.rank_count, first = frame->body.rollcall.first;

    tt_write(writer, rank_count, 4);
    tt_write(writer, first, 4);
    tt_write_bytes(writer, frame->body.rollcall.present, (tt_rollcall_ranks(rank_count, first) + 7U) / 8);
}

static void put_body(struct tt_writer *writer, const struct tt_frame *frame)
{
    switch (frame->type) {
    case TT_FRAME_BARRIER:
        put_barrier(writer, frame);
        break;
    case TT_FRAME_DONE:
        tt_write(writer, frame->body.done.chain, 4);
        break;
    case TT_FRAME_CREDIT:
    case TT_FRAME_GRANT:
        tt_write(writer, frame->body.credit.turns, 4);
        break;
    case TT_FRAME_FETCH:
        put_window(writer, frame->body.fetch.slot, &frame->body.fetch.window);
        break;
    case TT_FRAME_AVAILABLE:
        put_available(writer, frame);
        break;
    case TT_FRAME_PROBE:
        put_probe(writer, frame);
        break;
    case TT_FRAME_FAIL:
        put_fail(writer, frame);
        break;
    case TT_FRAME_ROLLCALL:
        put_rollcall(writer, frame);
        break;
    case TT_FRAME_ASK:
        put_terms(writer, &frame->body.ask.terms);
        tt_write(writer, frame->body.ask.digest, 8);
        break;
    case TT_FRAME_ACK:
        tt_write(writer, frame->body.ack.round, 1);
        put_terms(writer, &frame->body.ack.terms);
        break;
    case TT_FRAME_READY:
    case TT_FRAME_REMIND:
        put_terms(writer, &frame->body.ready.terms);
        break;
    case TT_FRAME_DATA:
        put_data(writer, frame);
        break;
    case TT_FRAME_GATHER:
        put_gather(writer, frame);
        break;
    case TT_FRAME_OPEN:
        tt_write(writer, frame->body.open.known, 1);
        put_release(writer, &frame->body.open.least);
        break;
    case TT_FRAME_ACTIVATE:
    case TT_FRAME_FINAL:
    case TT_FRAME_KEPT:
    case TT_FRAME_BYE:
    case TT_FRAME_TYPE_COUNT:
        break;
    }
}

size_t tt_frame_encode_head(const struct tt_frame *frame, uint8_t *bytes, size_t capacity_bytes)
{
    struct tt_writer writer = {.at = bytes, .end = bytes + capacity_bytes};
    const struct tt_frame_header header = {
        .type = frame->type, .source = frame->source, .group = frame->group, .sequence = frame->sequence};

    tt_frame_header_write(&writer, &kind, &header);
    put_body(&writer, frame);
    return writer.overflow ? 0 : (size_t)(writer.at - bytes);
}

size_t tt_frame_encode(const struct tt_frame *frame, uint8_t *bytes, size_t capacity_bytes)
{
    size_t length = tt_frame_encode_head(frame, bytes, capacity_bytes);
    uint32_t behind_bytes = frame->type == TT_FRAME_GATHER ? frame->body.gather.length_bytes : 0;

    if (length == 0 || behind_bytes > capacity_bytes - length) {
        return 0;
    }
    if (behind_bytes > 0) {
        memcpy(bytes + length, frame->body.gather.bytes, behind_bytes);
    }
    return length + behind_bytes;
}

static bool get_available(struct tt_reader *reader, struct tt_frame *frame)
{
    if (!get_window(reader, &frame->body.available.slot, &frame->body.available.window)) {
        return false;
    }
    frame->body.available.address = tt_read(reader, 8);
    frame->body.available.key_bytes = (uint16_t)tt_read(reader, 2);
    frame->body.available.key = tt_read_bytes(reader, frame->body.available.key_bytes);
    return frame->body.available.key_bytes <= TT_FRAME_MAX_KEY_BYTES;
}

static bool get_probe(struct tt_reader *reader, struct tt_frame *frame)
{
    frame->body.probe.phase = (uint8_t)tt_read(reader, 1);
    frame->body.probe.heard_all = (uint8_t)tt_read(reader, 1);
    frame->body.probe.failed_rank = (uint32_t)tt_read(reader, 4);
    frame->body.probe.deaf_rank = (uint32_t)tt_read(reader, 4);
    frame->body.probe.deaf_count = (uint32_t)tt_read(reader, 4);
    return frame->body.probe.phase < TT_PHASE_COUNT && frame->body.probe.heard_all < 2;
}

static bool get_rollcall(struct tt_reader *reader, struct tt_frame *frame)
{
    uint32_t rank_count = (uint32_t)tt_read(reader, 4), first = (uint32_t)tt_read(reader, 4);

    if (first % TT_ROLLCALL_RANKS != 0 || (first >= rank_count && first > 0)) {
        return false;
    }
    frame->body.rollcall.rank_count = rank_count;
    frame->body.rollcall.first = first;
    frame->body.rollcall.present = tt_read_bytes(reader, (tt_rollcall_ranks(rank_count, first) + 7U) / 8);
    return true;
}

static bool get_data(struct tt_reader *reader, struct tt_frame *frame)
{
    get_terms(reader, &frame->body.data.terms);
    frame->body.data.offset_bytes = (uint32_t)tt_read(reader, 4);
    frame->body.data.length_bytes = (uint16_t)tt_read(reader, 2);
    frame->body.data.bytes = tt_read_bytes(reader, frame->body.data.length_bytes);
    return frame->body.data.length_bytes > 0 && frame->body.data.length_bytes <= TT_FRAME_DATA_BYTES &&
           are_possible(&frame->body.data.terms);
}

static bool get_gather(struct tt_reader *reader, struct tt_frame *frame)
{
    get_terms(reader, &frame->body.gather.terms);
    bool fine = get_release(reader, &frame->body.gather.least);

    frame->body.gather.offset_bytes = (uint32_t)tt_read(reader, 4);
    frame->body.gather.length_bytes = (uint16_t)tt_read(reader, 2);
    frame->body.gather.bytes = tt_read_bytes(reader, frame->body.gather.length_bytes);
    return fine && are_possible(&frame->body.gather.terms);
}

static bool get_fail(struct tt_reader *reader, struct tt_frame *frame)
{
    frame->body.fail.status = (int32_t)(uint32_t)tt_read(reader, 4);
    frame->body.fail.rank = (uint32_t)tt_read(reader, 4);
    frame->body.fail.noticed_by = (uint32_t)tt_read(reader, 4);
    if (frame->body.fail.status != TUTTI_ERR_MISMATCH) {
        return frame->body.fail.status < 0;
    }
    get_terms(reader, &frame->body.fail.here);
    get_terms(reader, &frame->body.fail.there);
    return are_possible(&frame->body.fail.here) && are_possible(&frame->body.fail.there);
}

static bool get_open(struct tt_reader *reader, struct tt_frame *frame)
{
    uint8_t known = (uint8_t)tt_read(reader, 1);

    frame->body.open.known = known != 0;
    return get_release(reader, &frame->body.open.least) && known < 2;
}

static bool get_body(struct tt_reader *reader, struct tt_frame *frame)
{
    switch (frame->type) {
    case TT_FRAME_BARRIER:
        return get_barrier(reader, frame);
    case TT_FRAME_DONE:
        frame->body.done.chain = (uint32_t)tt_read(reader, 4);
        return true;
    case TT_FRAME_CREDIT:
    case TT_FRAME_GRANT:
        frame->body.credit.turns = (uint32_t)tt_read(reader, 4);
        return true;
    case TT_FRAME_FETCH:
        return get_window(reader, &frame->body.fetch.slot, &frame->body.fetch.window);
    case TT_FRAME_AVAILABLE:
        return get_available(reader, frame);
    case TT_FRAME_PROBE:
        return get_probe(reader, frame);
    case TT_FRAME_FAIL:
        return get_fail(reader, frame);
    case TT_FRAME_ROLLCALL:
        return get_rollcall(reader, frame);
    case TT_FRAME_ASK:
        get_terms(reader, &frame->body.ask.terms);
        frame->body.ask.digest = tt_read(reader, 8);
        return are_possible(&frame->body.ask.terms);
    case TT_FRAME_ACK:
        frame->body.ack.round = (uint8_t)tt_read(reader, 1);
        get_terms(reader, &frame->body.ack.terms);
        return frame->body.ack.round < 32 && are_possible(&frame->body.ack.terms);
    case TT_FRAME_READY:
    case TT_FRAME_REMIND:
        get_terms(reader, &frame->body.ready.terms);
        return are_possible(&frame->body.ready.terms);
    case TT_FRAME_DATA:
        return get_data(reader, frame);
    case TT_FRAME_GATHER:
        return get_gather(reader, frame);
    case TT_FRAME_OPEN:
        return get_open(reader, frame);
    case TT_FRAME_ACTIVATE:
    case TT_FRAME_FINAL:
    case TT_FRAME_KEPT:
    case TT_FRAME_BYE:
        return true;
    case TT_FRAME_TYPE_COUNT:
        break;
    }
    return false;
}

bool tt_frame_decode(const uint8_t *bytes, size_t length_bytes, struct tt_frame *frame)
{
    struct tt_reader reader = {.at = bytes, .end = bytes + length_bytes};
    struct tt_frame_header header;

    if (!tt_frame_header_read(&reader, &kind, &header)) {
        return false;
    }
    frame->type = (enum tt_frame_type)header.type;
    frame->source = header.source;
    frame->group = header.group;
    frame->sequence = header.sequence;
    return get_body(&reader, frame) && tt_reader_is_done(&reader);
}

const char *tt_frame_name(enum tt_frame_type type)
{
    static const char *const names[TT_FRAME_TYPE_COUNT] = {[TT_FRAME_BARRIER] = "barrier",
                                                           [TT_FRAME_ACTIVATE] = "activate",
                                                           [TT_FRAME_DONE] = "done",
                                                           [TT_FRAME_CREDIT] = "credit",
                                                           [TT_FRAME_GRANT] = "grant",
                                                           [TT_FRAME_FETCH] = "fetch",
                                                           [TT_FRAME_AVAILABLE] = "available",
                                                           [TT_FRAME_FINAL] = "final",
                                                           [TT_FRAME_PROBE] = "probe",
                                                           [TT_FRAME_FAIL] = "fail",
                                                           [TT_FRAME_ROLLCALL] = "rollcall",
                                                           [TT_FRAME_BYE] = "bye",
                                                           [TT_FRAME_ASK] = "ask",
                                                           [TT_FRAME_ACK] = "ack",
                                                           [TT_FRAME_READY] = "ready",
                                                           [TT_FRAME_REMIND] = "remind",
                                                           [TT_FRAME_KEPT] = "kept",
                                                           [TT_FRAME_DATA] = "data",
                                                           [TT_FRAME_GATHER] = "gather",
                                                           [TT_FRAME_OPEN] = "open"};

    return type > 0 && type < TT_FRAME_TYPE_COUNT ? names[type] : "unknown";
}
