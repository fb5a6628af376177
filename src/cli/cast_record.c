/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: records of a cast to and from bytes.
 *
 * Normal path: fixed offsets, in the order of the fields.
 *
 * Failures: the bytes come from another process, so that whatever is used as a size, an index or a text is checked
 * here.
 */
#include "cli/cast_record.h"

#include <string.h>

enum { MAGIC = 0x74736163 /* "cast" */, MODE_BITS = 0777 };

enum offer_offset {
    OFFER_MAGIC = 0,
    OFFER_VERSION = 4,
    OFFER_IS_SENDER = 6,
    OFFER_BY = 7,
    OFFER_MODE = 8,
    OFFER_AHEAD = 12,
    OFFER_SIZE = 16,
    OFFER_SEGMENT = 24,
    OFFER_FIRST = 32,
    OFFER_HOST = OFFER_FIRST + 8 * TT_CAST_AHEAD,
    OFFER_NAME = OFFER_HOST + TT_CAST_HOST_BYTES,
    OFFER_END = OFFER_NAME + TT_CAST_NAME_BYTES
};

enum report_offset {
    REPORT_FAILED = 0,
    REPORT_BYTES = 8,
    REPORT_DURATION = 16,
    REPORT_DIGEST = 24,
    REPORT_TEXT = REPORT_DIGEST + TT_CAST_DIGEST_BYTES,
    REPORT_END = REPORT_TEXT + TT_CAST_TEXT_BYTES
};

_Static_assert((int)OFFER_END <= (int)TT_OFFER_BYTES && (int)REPORT_END <= (int)TT_REPORT_BYTES, "records fit");

static void put(uint8_t *bytes, uint64_t value, int count)
{
    for (int i = 0; i < count; i++) {
        bytes[i] = (uint8_t)(value >> (8 * i));
    }
}

static uint64_t get(const uint8_t *bytes, int count)
{
    uint64_t value = 0;
    for (int i = 0; i < count; i++) {
        value |= (uint64_t)bytes[i] << (8 * i);
    }
    return value;
}

static bool is_terminated(const char *text, size_t text_bytes)
{
    return memchr(text, '\0', text_bytes) != NULL;
}

/* A file that runs with its owner's rights is nothing that another host may ask for. */
static bool is_mode(uint32_t mode)
{
    return mode <= MODE_BITS || mode == TT_CAST_MODE_UNKNOWN;
}

static bool is_segment_size(uint64_t bytes, uint64_t segment_bytes)
{
    return bytes <= segment_bytes || bytes == TT_CAST_END;
}

const char *tt_cast_way_name(enum tt_cast_way way)
{
    static const char *const names[] = {"multicast", "pipeline", "auto"};
    return names[way];
}

void tt_cast_offer_encode(const struct tt_cast_offer *offer, uint8_t bytes[TT_OFFER_BYTES])
{
    memset(bytes, 0, TT_OFFER_BYTES);
    put(bytes + OFFER_MAGIC, MAGIC, 4);
    put(bytes + OFFER_VERSION, TT_CAST_VERSION, 2);
    put(bytes + OFFER_IS_SENDER, offer->is_sender, 1);
    put(bytes + OFFER_BY, (uint64_t)offer->by, 1);
    put(bytes + OFFER_MODE, offer->mode, 4);
    put(bytes + OFFER_AHEAD, offer->ahead, 4);
    put(bytes + OFFER_SIZE, offer->size_bytes, 8);
    put(bytes + OFFER_SEGMENT, offer->segment_bytes, 8);
    for (int i = 0; i < TT_CAST_AHEAD; i++) {
        put(bytes + OFFER_FIRST + 8 * (size_t)i, offer->first_bytes[i], 8);
    }
    memcpy(bytes + OFFER_HOST, offer->host, TT_CAST_HOST_BYTES);
    memcpy(bytes + OFFER_NAME, offer->name, TT_CAST_NAME_BYTES);
}

/* What only a sender's offer has to be. */
static bool is_sendable(const struct tt_cast_offer *offer, uint64_t by)
{
    bool is_good = by < TT_CAST_BY_AUTO && is_mode(offer->mode) && offer->segment_bytes >= TT_CAST_MIN_SEGMENT_BYTES &&
                   offer->segment_bytes <= TT_CAST_MAX_SEGMENT_BYTES && offer->ahead >= 1 &&
                   offer->ahead <= TT_CAST_AHEAD;
    for (uint32_t i = 0; i < TT_CAST_AHEAD && is_good; i++) {
        is_good = is_segment_size(offer->first_bytes[i], offer->segment_bytes);
    }
    return is_good;
}

tutti_status tt_cast_offer_decode(const uint8_t bytes[TT_OFFER_BYTES], struct tt_cast_offer *offer)
{
    struct tt_cast_offer decoded;
    uint64_t by = get(bytes + OFFER_BY, 1);
    if (get(bytes + OFFER_MAGIC, 4) != MAGIC) {
        return TUTTI_ERR_PROTOCOL;
    }
    if (get(bytes + OFFER_VERSION, 2) != TT_CAST_VERSION) {
        return TUTTI_ERR_MISMATCH;
    }
    decoded.is_sender = get(bytes + OFFER_IS_SENDER, 1) != 0;
    decoded.by = by < TT_CAST_BY_AUTO ? (enum tt_cast_way)by : TT_CAST_BY_AUTO;
    decoded.mode = (uint32_t)get(bytes + OFFER_MODE, 4);
    decoded.ahead = (uint32_t)get(bytes + OFFER_AHEAD, 4);
    decoded.size_bytes = get(bytes + OFFER_SIZE, 8);
    decoded.segment_bytes = get(bytes + OFFER_SEGMENT, 8);
    for (int i = 0; i < TT_CAST_AHEAD; i++) {
        decoded.first_bytes[i] = get(bytes + OFFER_FIRST + 8 * (size_t)i, 8);
    }
    memcpy(decoded.host, bytes + OFFER_HOST, TT_CAST_HOST_BYTES);
    memcpy(decoded.name, bytes + OFFER_NAME, TT_CAST_NAME_BYTES);
    if (!is_terminated(decoded.host, TT_CAST_HOST_BYTES) || !is_terminated(decoded.name, TT_CAST_NAME_BYTES) ||
        (decoded.is_sender && !is_sendable(&decoded, by))) {
        return TUTTI_ERR_PROTOCOL;
    }
    *offer = decoded;
    return TUTTI_OK;
}

void tt_cast_report_encode(const struct tt_cast_report *report, uint8_t bytes[TT_REPORT_BYTES])
{
    memset(bytes, 0, TT_REPORT_BYTES);
    put(bytes + REPORT_FAILED, report->failed, 1);
    put(bytes + REPORT_BYTES, report->bytes, 8);
    put(bytes + REPORT_DURATION, report->duration_ns, 8);
    memcpy(bytes + REPORT_DIGEST, report->digest, TT_CAST_DIGEST_BYTES);
    memcpy(bytes + REPORT_TEXT, report->text, TT_CAST_TEXT_BYTES);
}

tutti_status tt_cast_report_decode(const uint8_t bytes[TT_REPORT_BYTES], struct tt_cast_report *report)
{
    struct tt_cast_report decoded = {.failed = get(bytes + REPORT_FAILED, 1) != 0,
                                     .bytes = get(bytes + REPORT_BYTES, 8),
                                     .duration_ns = get(bytes + REPORT_DURATION, 8)};
    memcpy(decoded.digest, bytes + REPORT_DIGEST, TT_CAST_DIGEST_BYTES);
    memcpy(decoded.text, bytes + REPORT_TEXT, TT_CAST_TEXT_BYTES);
    if (!is_terminated(decoded.text, TT_CAST_TEXT_BYTES)) {
        return TUTTI_ERR_PROTOCOL;
    }
    *report = decoded;
    return TUTTI_OK;
}

void tt_segment_header_encode(const struct tt_segment_header *header, uint8_t bytes[TT_SEGMENT_HEADER_BYTES])
{
    put(bytes, header->number, 8);
    put(bytes + 8, header->later_bytes, 8);
}

tutti_status tt_segment_header_decode(const uint8_t bytes[TT_SEGMENT_HEADER_BYTES], uint64_t number,
                                      uint64_t segment_bytes, struct tt_segment_header *header)
{
    struct tt_segment_header decoded = {.number = get(bytes, 8), .later_bytes = get(bytes + 8, 8)};
    if (decoded.number != number || !is_segment_size(decoded.later_bytes, segment_bytes)) {
        return TUTTI_ERR_PROTOCOL;
    }
    *header = decoded;
    return TUTTI_OK;
}
