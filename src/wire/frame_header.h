/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The header that both kinds of frames begin with, control frames (wire/frame.h) and those of object groups
 * (wire/object_frame.h): magic 2, version 1, type 1, source 4, group 8, sequence 8.
 */
#ifndef TT_WIRE_FRAME_HEADER_H
#define TT_WIRE_FRAME_HEADER_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/cursor.h"

/* What tells the kinds of frames apart. */
struct tt_frame_kind {
    uint16_t magic;
    uint8_t version, type_count; /* types are 1 .. type_count - 1 */
};

struct tt_frame_header {
    uint32_t type, source;
    uint64_t group, sequence;
};

static inline void tt_frame_header_write(struct tt_writer *writer, const struct tt_frame_kind *kind,
                                         const struct tt_frame_header *header)
{
    tt_write(writer, kind->magic, 2);
    tt_write(writer, kind->version, 1);
    tt_write(writer, header->type, 1);
    tt_write(writer, header->source, 4);
    tt_write(writer, header->group, 8);
    tt_write(writer, header->sequence, 8);
}

/* Whom a frame of any kind is for: its magic and its group. False: it is too short for a header. */
static inline bool tt_frame_header_address(const uint8_t *bytes, size_t length_bytes, uint16_t *magic, uint64_t *group)
{
    struct tt_reader reader = {.at = bytes, .end = bytes + length_bytes};

    *magic = (uint16_t)tt_read(&reader, 2);
    (void)tt_read(&reader, 2 + 4); /* version, type, source */
    *group = tt_read(&reader, 8);
    return !reader.underflow;
}

/* False if the frame is of another kind, or of no type that there is; that it was too short the reader remembers. */
static inline bool tt_frame_header_read(struct tt_reader *reader, const struct tt_frame_kind *kind,
                                        struct tt_frame_header *header)
{
    uint64_t magic = tt_read(reader, 2), version = tt_read(reader, 1);

    header->type = (uint32_t)tt_read(reader, 1);
    header->source = (uint32_t)tt_read(reader, 4);
    header->group = tt_read(reader, 8);
    header->sequence = tt_read(reader, 8);
    return magic == kind->magic && version == kind->version && header->type > 0 && header->type < kind->type_count;
}

#endif
