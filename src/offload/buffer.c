/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: the hash buffer of a unit.
 *
 * Normal path: a packet goes to the first free one of its key's places, and is found by looking at all of them.
 *
 * Failures: none of the places is free, nor any slot kept for collisions: the packet is refused, and nothing changes.
 */
#include "offload/buffer.h"

#include <assert.h>
#include <string.h>

enum { RESERVE_SHARE = 10, ALIGNMENT = 16 };

static size_t aligned(size_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

size_t tt_buffer_memory_bytes(uint64_t buffer_bytes, uint32_t payload_bytes)
{
    size_t slots = tt_buffer_slot_count(buffer_bytes, payload_bytes);

    return aligned((slots + 63) / 64 * sizeof(uint64_t)) + aligned(slots * sizeof(uint64_t)) +
           aligned(slots * sizeof(struct tt_trigger_packet)) + slots * aligned(payload_bytes);
}

void tt_buffer_init(struct tt_buffer *buffer, uint64_t buffer_bytes, uint32_t payload_bytes, void *memory)
{
    uint32_t slots = tt_buffer_slot_count(buffer_bytes, payload_bytes);
    uint32_t reserve = slots / RESERVE_SHARE;
    uint8_t *at = memory;

    assert(slots > 0);
    reserve += reserve == 0 && slots > 1;
    *buffer = (struct tt_buffer){
        .slot_count = slots, .home_count = slots - reserve, .payload_bytes = payload_bytes, .valid = memory};
    at += aligned((slots + 63) / 64 * sizeof(uint64_t));
    buffer->keys = (uint64_t *)(void *)at;
    at += aligned(slots * sizeof(uint64_t));
    buffer->packets = (struct tt_trigger_packet *)(void *)at;
    buffer->payloads = at + aligned(slots * sizeof(struct tt_trigger_packet));
    memset(buffer->valid, 0, (slots + 63) / 64 * sizeof(uint64_t));
}

/* The key's first place. The multiplications are SplitMix64's. */
static uint32_t home_of(const struct tt_buffer *buffer, uint64_t key)
{
    assert(buffer->home_count > 0);
    key = (key ^ (key >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    key = (key ^ (key >> 27)) * UINT64_C(0x94D049BB133111EB);
    return (uint32_t)((key ^ (key >> 31)) % buffer->home_count);
}

static uint32_t place_count(const struct tt_buffer *buffer)
{
    return buffer->home_count < TT_BUFFER_PLACES ? buffer->home_count : TT_BUFFER_PLACES;
}

static bool holds(const struct tt_buffer *buffer, uint32_t slot, uint64_t key)
{
    return tt_buffer_is_valid(buffer, slot) && buffer->keys[slot] == key;
}

uint32_t tt_buffer_find(const struct tt_buffer *buffer, uint64_t key)
{
    uint32_t home = home_of(buffer, key);

    if (buffer->used == 0) {
        return TT_BUFFER_NO_SLOT;
    }
    for (uint32_t i = 0; i < place_count(buffer); i++) {
        uint32_t slot = (home + i) % buffer->home_count;

        if (holds(buffer, slot, key)) {
            return slot;
        }
    }
    for (uint32_t slot = buffer->home_count; buffer->reserve_used > 0 && slot < buffer->slot_count; slot++) {
        if (holds(buffer, slot, key)) {
            return slot;
        }
    }
    return TT_BUFFER_NO_SLOT;
}

static uint32_t find_free(const struct tt_buffer *buffer, uint64_t key)
{
    uint32_t home = home_of(buffer, key);

    for (uint32_t i = 0; i < place_count(buffer); i++) {
        uint32_t slot = (home + i) % buffer->home_count;

        if (!tt_buffer_is_valid(buffer, slot)) {
            return slot;
        }
    }
    for (uint32_t slot = buffer->home_count; slot < buffer->slot_count; slot++) {
        if (!tt_buffer_is_valid(buffer, slot)) {
            return slot;
        }
    }
    return TT_BUFFER_NO_SLOT;
}

bool tt_buffer_put(struct tt_buffer *buffer, const struct tt_trigger_packet *packet, const void *payload)
{
    uint64_t key = tt_trigger_packet_key(packet);
    uint32_t slot = find_free(buffer, key);
    uint32_t payload_bytes = tt_trigger_packet_payload_bytes(packet);

    assert(payload_bytes <= buffer->payload_bytes);
    if (slot == TT_BUFFER_NO_SLOT) {
        return false;
    }
    buffer->valid[slot / 64] |= UINT64_C(1) << (slot % 64);
    buffer->keys[slot] = key;
    buffer->packets[slot] = *packet;
    if (payload_bytes > 0) {
        memcpy(buffer->payloads + (size_t)slot * aligned(buffer->payload_bytes), payload, payload_bytes);
    }
    buffer->used++;
    buffer->reserve_used += slot >= buffer->home_count;
    buffer->most_used = buffer->used > buffer->most_used ? buffer->used : buffer->most_used;
    return true;
}

void tt_buffer_free_slot(struct tt_buffer *buffer, uint32_t slot)
{
    assert(tt_buffer_is_valid(buffer, slot));
    buffer->valid[slot / 64] &= ~(UINT64_C(1) << (slot % 64));
    buffer->used--;
    buffer->reserve_used -= slot >= buffer->home_count;
}

void tt_buffer_check(const struct tt_buffer *buffer)
{
    uint32_t used = 0, reserve_used = 0;

    for (uint32_t slot = 0; slot < buffer->slot_count; slot++) {
        if (tt_buffer_is_valid(buffer, slot)) {
            used++;
            reserve_used += slot >= buffer->home_count;
            assert(buffer->keys[slot] == tt_trigger_packet_key(&buffer->packets[slot]));
            /* Found where it is: so it is at one of its places, and no other slot before has the key. */
            assert(tt_buffer_find(buffer, buffer->keys[slot]) == slot);
        }
    }
    assert(used == buffer->used && reserve_used == buffer->reserve_used);
    assert(buffer->used <= buffer->most_used && buffer->most_used <= buffer->slot_count);
    (void)used;
    (void)reserve_used;
}
