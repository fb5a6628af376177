/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The hash buffer of a unit (Xu et al., section 1.3, figure 4): packets that came before they were wanted, found by
 * JobID + NodeID + VP + SeqID. Open addressing: a key's places are the next ones from its hash on, up to a limit, in
 * nine tenths of the slots; when those are taken, any slot of the last tenth, which is kept for such collisions. A
 * bitmap says which slots hold a packet. Packets are read once and in any order, so a slot is simply free again: the
 * number of places is fixed, and a search that looks at all of them needs no marks of what was there.
 */
#ifndef TT_OFFLOAD_BUFFER_H
#define TT_OFFLOAD_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/trigger_packet.h"

enum { TT_BUFFER_PLACES = 8 };

#define TT_BUFFER_NO_SLOT UINT32_MAX

struct tt_buffer {
    uint32_t slot_count, home_count; /* the slots from home_count on are for collisions */
    uint32_t payload_bytes;          /* of a slot */
    uint32_t used, reserve_used;
    uint32_t most_used; /* ever */
    uint64_t *valid;    /* a bit a slot */
    uint64_t *keys;     /* of valid slots */
    struct tt_trigger_packet *packets;
    uint8_t *payloads;
};

/* How many slots there are in so much packet memory; each takes a header and a payload. */
static inline uint32_t tt_buffer_slot_count(uint64_t buffer_bytes, uint32_t payload_bytes)
{
    return (uint32_t)(buffer_bytes / (TT_TRIGGER_PACKET_BYTES + (uint64_t)payload_bytes));
}

/* Memory that it needs, a multiple of 16. There must be at least one slot. */
size_t tt_buffer_memory_bytes(uint64_t buffer_bytes, uint32_t payload_bytes);

/* `memory` is the caller's, aligned to 16, and the buffer's as long as it is used. */
void tt_buffer_init(struct tt_buffer *buffer, uint64_t buffer_bytes, uint32_t payload_bytes, void *memory);

static inline bool tt_buffer_is_valid(const struct tt_buffer *buffer, uint32_t slot)
{
    return (buffer->valid[slot / 64] >> (slot % 64) & 1) != 0;
}

/* The slot that holds the packet with a key, or TT_BUFFER_NO_SLOT. */
uint32_t tt_buffer_find(const struct tt_buffer *buffer, uint64_t key);

/* Keeps a copy. False: there is no room for this key. It must not be there already. */
bool tt_buffer_put(struct tt_buffer *buffer, const struct tt_trigger_packet *packet, const void *payload);

static inline const void *tt_buffer_payload(const struct tt_buffer *buffer, uint32_t slot)
{
    return buffer->payloads + (size_t)slot * ((buffer->payload_bytes + 15) / 16 * 16);
}

void tt_buffer_free_slot(struct tt_buffer *buffer, uint32_t slot);

/* Asserts that bitmap, counts and places agree, and that no key is there twice. */
void tt_buffer_check(const struct tt_buffer *buffer);

#endif
