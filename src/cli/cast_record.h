/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the processes of a cast tell one another in allgathers, before and after the data: bytes of a fixed length,
 * little-endian. Pure.
 */
#ifndef TT_CLI_CAST_RECORD_H
#define TT_CLI_CAST_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tutti/status.h"

enum {
    TT_CAST_VERSION = 3,
    TT_CAST_HOST_BYTES = 65,  /* with the terminator, as all of these */
    TT_CAST_NAME_BYTES = 256, /* a file name */
    TT_CAST_TEXT_BYTES = 200, /* why something failed */
    TT_CAST_DIGEST_BYTES = 16,
    TT_CAST_AHEAD = 6,        /* segments whose size is known before they come, and that may be in progress, at most */
    TT_CAST_AHEAD_PAUSES = 2, /* of a source that may pause: all that wait for others' sizes are late by its pauses */
    TT_OFFER_BYTES = 424,
    TT_REPORT_BYTES = 240,
    TT_SEGMENT_HEADER_BYTES = 16
};

#define TT_CAST_MIN_SEGMENT_BYTES (UINT64_C(4) << 10)
#define TT_CAST_MAX_SEGMENT_BYTES (UINT64_C(256) << 20)
#define TT_CAST_UNKNOWN           UINT64_MAX /* a size that the sender does not know either */
#define TT_CAST_MODE_UNKNOWN      UINT32_MAX /* a mode that there is none of: what is sent is no regular file */
#define TT_CAST_END               UINT64_MAX /* instead of a segment's size: there is none */

enum tt_cast_way { TT_CAST_BY_MULTICAST, TT_CAST_BY_PIPELINE, TT_CAST_BY_AUTO };

/* Before the data: who everybody is, and what the sender has. */
struct tt_cast_offer {
    bool is_sender;
    char host[TT_CAST_HOST_BYTES];
    /* Of the sender only. */
    enum tt_cast_way by; /* never AUTO */
    uint32_t mode;       /* permission bits, up to 0777, or MODE_UNKNOWN */
    uint64_t size_bytes; /* or UNKNOWN; no more than a hint: a file may grow */
    uint64_t segment_bytes;
    uint32_t ahead;                      /* 1 to TT_CAST_AHEAD */
    uint64_t first_bytes[TT_CAST_AHEAD]; /* sizes of the first `ahead` segments, or END */
    char name[TT_CAST_NAME_BYTES];       /* of its file, without directories; "": it has none */
};

/* Later: how far somebody has come, three times. */
struct tt_cast_report {
    bool failed;
    char text[TT_CAST_TEXT_BYTES]; /* why */
    uint64_t bytes;                /* read or written */
    uint64_t duration_ns;
    uint8_t digest[TT_CAST_DIGEST_BYTES]; /* of these bytes */
};

/* In front of each segment that goes by multicast. */
struct tt_segment_header {
    uint64_t number;
    uint64_t later_bytes; /* size of the segment `ahead` after this one, or END */
};

void tt_cast_offer_encode(const struct tt_cast_offer *offer, uint8_t bytes[TT_OFFER_BYTES]);
void tt_cast_report_encode(const struct tt_cast_report *report, uint8_t bytes[TT_REPORT_BYTES]);
void tt_segment_header_encode(const struct tt_segment_header *header, uint8_t bytes[TT_SEGMENT_HEADER_BYTES]);

/* PROTOCOL for what encode cannot have written, MISMATCH for an offer of another version; neither says so itself. */
tutti_status tt_cast_offer_decode(const uint8_t bytes[TT_OFFER_BYTES], struct tt_cast_offer *offer);
tutti_status tt_cast_report_decode(const uint8_t bytes[TT_REPORT_BYTES], struct tt_cast_report *report);
/* Of the segment `number`, in a cast with segments of `segment_bytes`. */
tutti_status tt_segment_header_decode(const uint8_t bytes[TT_SEGMENT_HEADER_BYTES], uint64_t number,
                                      uint64_t segment_bytes, struct tt_segment_header *header);

/* "multicast", "pipeline" or "auto". */
const char *tt_cast_way_name(enum tt_cast_way way);

#endif
