/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Numbers and bytes of messages, the lowest byte first. A writer and a reader go through a message field by field; past
 * its end nothing is written or read, and they say so at the end, so that fields need no checks of their own.
 */
#ifndef TT_WIRE_CURSOR_H
#define TT_WIRE_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A number of `count` bytes, up to 8, at `bytes`. */
static inline void tt_bytes_put(uint8_t *bytes, uint64_t value, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        bytes[i] = (uint8_t)(value >> (8 * i));
    }
}

static inline uint64_t tt_bytes_get(const uint8_t *bytes, size_t count)
{
    uint64_t value = 0;

    for (size_t i = 0; i < count; i++) {
        value |= (uint64_t)bytes[i] << (8 * i);
    }
    return value;
}

struct tt_writer {
    uint8_t *at, *end;
    bool overflow; /* something did not fit */
};

static inline void tt_write(struct tt_writer *writer, uint64_t value, size_t count)
{
    if ((size_t)(writer->end - writer->at) < count) {
        writer->overflow = true;
        return;
    }
    tt_bytes_put(writer->at, value, count);
    writer->at += count;
}

/* `bytes` may be NULL if the count is 0. */
static inline void tt_write_bytes(struct tt_writer *writer, const uint8_t *bytes, size_t count)
{
    if ((size_t)(writer->end - writer->at) < count) {
        writer->overflow = true;
        return;
    }
    if (count > 0) {
        memcpy(writer->at, bytes, count);
        writer->at += count;
    }
}

struct tt_reader {
    const uint8_t *at, *end;
    bool underflow; /* something was not there; it was read as 0 or NULL */
};

static inline uint64_t tt_read(struct tt_reader *reader, size_t count)
{
    uint64_t value;

    if ((size_t)(reader->end - reader->at) < count) {
        reader->underflow = true;
        return 0;
    }
    value = tt_bytes_get(reader->at, count);
    reader->at += count;
    return value;
}

/* The next bytes, in the message itself. */
static inline const uint8_t *tt_read_bytes(struct tt_reader *reader, size_t count)
{
    const uint8_t *bytes = reader->at;

    if ((size_t)(reader->end - reader->at) < count) {
        reader->underflow = true;
        return NULL;
    }
    reader->at += count;
    return bytes;
}

/* All of the message has been read, and nothing past it. */
static inline bool tt_reader_is_done(const struct tt_reader *reader)
{
    return !reader->underflow && reader->at == reader->end;
}

#endif
