/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Any bytes as what the processes of a cast tell one another: offers, reports, headers of segments. What decodes must
 * hold what is used as a size, an index or a text within its bounds, and must encode to bytes that decode and encode to
 * the same. What does not decode must leave the output alone. The first byte chooses the record; each is given exactly
 * its length, in a block of that size, so that a read past its end is seen.
 */
#include <string.h>

#include "check.h"
#include "cli/cast_record.h"

static bool is_segment_size(uint64_t bytes, uint64_t segment_bytes)
{
    return bytes == TT_CAST_END || bytes <= segment_bytes;
}

static void fuzz_offer(const uint8_t *data)
{
    uint8_t first[TT_OFFER_BYTES], second[TT_OFFER_BYTES];
    struct tt_cast_offer offer, same, untouched;

    memset(&offer, 0xA5, sizeof offer);
    memcpy(&untouched, &offer, sizeof offer);
    if (tt_cast_offer_decode(data, &offer) != TUTTI_OK) {
        FUZZ_CHECK(memcmp(&offer, &untouched, sizeof offer) == 0);
        return;
    }
    FUZZ_CHECK(strnlen(offer.host, sizeof offer.host) < sizeof offer.host);
    FUZZ_CHECK(strnlen(offer.name, sizeof offer.name) < sizeof offer.name);
    FUZZ_CHECK(tt_cast_way_name(offer.by) != NULL);
    if (offer.is_sender) {
        FUZZ_CHECK(offer.by == TT_CAST_BY_MULTICAST || offer.by == TT_CAST_BY_PIPELINE);
        FUZZ_CHECK(offer.mode <= 0777 || offer.mode == TT_CAST_MODE_UNKNOWN);
        FUZZ_CHECK(offer.ahead >= 1 && offer.ahead <= TT_CAST_AHEAD);
        FUZZ_CHECK(offer.segment_bytes >= TT_CAST_MIN_SEGMENT_BYTES);
        FUZZ_CHECK(offer.segment_bytes <= TT_CAST_MAX_SEGMENT_BYTES);
        for (int i = 0; i < TT_CAST_AHEAD; i++) {
            FUZZ_CHECK(is_segment_size(offer.first_bytes[i], offer.segment_bytes));
        }
    }
    tt_cast_offer_encode(&offer, first);
    FUZZ_CHECK(tt_cast_offer_decode(first, &same) == TUTTI_OK);
    tt_cast_offer_encode(&same, second);
    FUZZ_CHECK(memcmp(first, second, sizeof first) == 0);
}

static void fuzz_report(const uint8_t *data)
{
    uint8_t first[TT_REPORT_BYTES], second[TT_REPORT_BYTES];
    struct tt_cast_report report, same, untouched;

    memset(&report, 0xA5, sizeof report);
    memcpy(&untouched, &report, sizeof report);
    if (tt_cast_report_decode(data, &report) != TUTTI_OK) {
        FUZZ_CHECK(memcmp(&report, &untouched, sizeof report) == 0);
        return;
    }
    FUZZ_CHECK(strnlen(report.text, sizeof report.text) < sizeof report.text);
    tt_cast_report_encode(&report, first);
    FUZZ_CHECK(tt_cast_report_decode(first, &same) == TUTTI_OK);
    tt_cast_report_encode(&same, second);
    FUZZ_CHECK(memcmp(first, second, sizeof first) == 0);
}

/* Of the segment that the header itself says, and of another one, for which it must not be taken. */
static void fuzz_segment_header(const uint8_t *data, uint64_t segment_bytes)
{
    uint8_t again[TT_SEGMENT_HEADER_BYTES];
    struct tt_segment_header header = {.number = 7, .later_bytes = 7};
    uint64_t number = 0;

    for (int i = 0; i < 8; i++) {
        number |= (uint64_t)data[i] << (8 * i);
    }
    FUZZ_CHECK(tt_segment_header_decode(data, number + 1, segment_bytes, &header) == TUTTI_ERR_PROTOCOL);
    if (tt_segment_header_decode(data, number, segment_bytes, &header) != TUTTI_OK) {
        FUZZ_CHECK(header.number == 7 && header.later_bytes == 7);
        return;
    }
    FUZZ_CHECK(header.number == number && is_segment_size(header.later_bytes, segment_bytes));
    tt_segment_header_encode(&header, again);
    FUZZ_CHECK(memcmp(again, data, sizeof again) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const size_t sizes[] = {TT_OFFER_BYTES, TT_REPORT_BYTES, TT_SEGMENT_HEADER_BYTES};

    if (size < 1) {
        return 0;
    }
    uint32_t form = data[0] % 3;
    if (size - 1 < sizes[form]) {
        return 0;
    }
    uint8_t *bytes = malloc(sizes[form]);
    FUZZ_CHECK(bytes != NULL);
    memcpy(bytes, data + 1, sizes[form]);
    if (form == 0) {
        fuzz_offer(bytes);
    } else if (form == 1) {
        fuzz_report(bytes);
    } else {
        fuzz_segment_header(bytes, TT_CAST_MIN_SEGMENT_BYTES << (data[0] / 3 % 17));
    }
    free(bytes);
    return 0;
}
