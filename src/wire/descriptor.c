/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: descriptors of the triggered engine, to words and back.
 *
 * Normal path: every field is shifted to its place, and masked out of it.
 *
 * Failures: words that no encoder writes are refused as a whole; nothing of them is used.
 */
#include "wire/descriptor.h"

#include <assert.h>
#include <string.h>

#include "wire/word.h"

enum { WORD_BYTES = 8, FIRST_SOURCE = 32, SOURCE_BYTES = 4 };

/* Bits of word 1. */
enum {
    COLLECTIVE_END = 0,
    REDUCE = 1,
    SWAP_REMOTE_ADDRESS = 2,
    SWAP_REMOTE_DATA = 3,
    SWAP_LOCAL_VP = 4,
    SWAP_LOCAL_DATA = 5,
    COUNT = 6,
    TRIGGERS = 12,
    TAIL = 13,
    HEAD = 14,
    COLLECTIVE = 15,
    REDUCE_BEFORE = 16,
    FROM_SOURCE = 17,
    FLAGS_END = 18
};

static uint64_t place_of(const struct tt_descriptor *d)
{
    assert(d->source_count <= TT_DESCRIPTOR_MAX_SOURCES && d->sequence < TT_TRIGGER_STEPS);
    assert(d->source_port < TT_TRIGGER_PORTS && d->destination_port < TT_TRIGGER_PORTS);
    assert(d->destination_node < TT_TRIGGER_NODES);
    return (uint64_t)d->source_count << 59 | (uint64_t)d->job << 51 | (uint64_t)d->sequence << 46 |
           (uint64_t)d->source_port << 35 | (uint64_t)d->destination_port << 24 | d->destination_node;
}

static uint64_t flags_of(const struct tt_descriptor *d)
{
    assert(d->count < TT_TRIGGER_COUNTS);
    return (uint64_t)d->from_source << FROM_SOURCE | (uint64_t)d->reduce_before << REDUCE_BEFORE |
           (uint64_t)d->collective << COLLECTIVE | (uint64_t)d->head << HEAD | (uint64_t)d->tail << TAIL |
           (uint64_t)d->triggers << TRIGGERS | (uint64_t)d->count << COUNT |
           (uint64_t)d->swap_local_data << SWAP_LOCAL_DATA | (uint64_t)d->swap_local_vp << SWAP_LOCAL_VP |
           (uint64_t)d->swap_remote_data << SWAP_REMOTE_DATA | (uint64_t)d->swap_remote_address << SWAP_REMOTE_ADDRESS |
           (uint64_t)d->reduce << REDUCE | (uint64_t)d->collective_end << COLLECTIVE_END;
}

void tt_descriptor_encode(const struct tt_descriptor *descriptor, void *bytes)
{
    uint8_t *to = bytes;

    memset(to, 0, TT_DESCRIPTOR_BYTES);
    tt_word_put_64(to, place_of(descriptor));
    tt_word_put_64(to + WORD_BYTES, flags_of(descriptor));
    tt_word_put_64(to + 2 * WORD_BYTES, descriptor->address_bytes);
    tt_word_put_64(to + 3 * WORD_BYTES, descriptor->length_bytes);
    for (uint32_t i = 0; i < descriptor->source_count; i++) {
        assert(descriptor->sources[i] < TT_TRIGGER_NODES);
        tt_word_put_32(to + FIRST_SOURCE + (size_t)i * SOURCE_BYTES, descriptor->sources[i]);
    }
}

/* False: a source that there must not be, or that is none. */
static bool read_sources(const uint8_t *from, uint32_t source_count, uint32_t *sources)
{
    uint64_t excess = 0;

    for (uint32_t i = 0; i < source_count; i++) {
        sources[i] = tt_word_get_32(from + (size_t)i * SOURCE_BYTES);
        excess |= sources[i] & ~(uint32_t)(TT_TRIGGER_NODES - 1);
    }
    if (source_count % 2 == 1) {
        excess |= tt_word_get_32(from + (size_t)source_count * SOURCE_BYTES);
    }
    for (uint32_t i = (source_count + 1) / 2; i < TT_DESCRIPTOR_MAX_SOURCES / 2; i++) {
        excess |= tt_word_get_64(from + (size_t)i * WORD_BYTES);
    }
    return excess == 0;
}

static bool bit(uint64_t word, unsigned index)
{
    return (word >> index & 1) != 0;
}

bool tt_descriptor_decode(const void *bytes, struct tt_descriptor *descriptor)
{
    const uint8_t *from = bytes;
    uint64_t place = tt_word_get_64(from), flags = tt_word_get_64(from + WORD_BYTES);
    struct tt_descriptor d = {
        .collective = bit(flags, COLLECTIVE),
        .head = bit(flags, HEAD),
        .tail = bit(flags, TAIL),
        .triggers = bit(flags, TRIGGERS),
        .count = flags >> COUNT & (TT_TRIGGER_COUNTS - 1),
        .swap_local_data = bit(flags, SWAP_LOCAL_DATA),
        .swap_local_vp = bit(flags, SWAP_LOCAL_VP),
        .swap_remote_data = bit(flags, SWAP_REMOTE_DATA),
        .swap_remote_address = bit(flags, SWAP_REMOTE_ADDRESS),
        .reduce = bit(flags, REDUCE),
        .reduce_before = bit(flags, REDUCE_BEFORE),
        .from_source = bit(flags, FROM_SOURCE),
        .collective_end = bit(flags, COLLECTIVE_END),
        .job = place >> 51 & (TT_TRIGGER_JOBS - 1),
        .sequence = place >> 46 & (TT_TRIGGER_STEPS - 1),
        .source_port = place >> 35 & (TT_TRIGGER_PORTS - 1),
        .destination_port = place >> 24 & (TT_TRIGGER_PORTS - 1),
        .destination_node = place & (TT_TRIGGER_NODES - 1),
        .address_bytes = tt_word_get_64(from + 2 * WORD_BYTES),
        .length_bytes = tt_word_get_64(from + 3 * WORD_BYTES),
        .source_count = (uint32_t)(place >> 59),
    };

    if (flags >> FLAGS_END != 0 || d.source_count > TT_DESCRIPTOR_MAX_SOURCES || (d.reduce && d.swap_local_data) ||
        !read_sources(from + FIRST_SOURCE, d.source_count, d.sources)) {
        return false;
    }
    *descriptor = d;
    return true;
}
