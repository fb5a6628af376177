/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Frames that carry the triggered engine's packets over p2p: the header of all frames (wire/frame_header.h), with a
 * magic of their own and the rank that sends, 4 bytes of offset, then the packet (wire/trigger_packet.h) and what is
 * behind its header. That is its payload; or a reference to it, which is the address of 8 bytes and the key of the
 * source's registration if it is to be read there, else the 8 bytes of the immediate with which it was put into a slot
 * of the reader's (there the packet goes with the immediate first, and in a frame if it is sent again); or, behind an
 * ACCEPTED, such a slot, which is free: its immediate, its address of 8 bytes and the key of its registration. A
 * payload that is longer than TT_TRIGGER_FRAME_PIECE_BYTES goes in as many frames as it takes, one behind the other,
 * each with the packet's header and a piece: offset is where in the payload that belongs.
 */
#ifndef TT_WIRE_TRIGGER_FRAME_H
#define TT_WIRE_TRIGGER_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/trigger_packet.h"

enum {
    TT_TRIGGER_FRAME_MAGIC = 0x7274, /* "tr" */
    TT_TRIGGER_FRAME_VERSION = 4,
    TT_TRIGGER_FRAME_HEADER_BYTES = 24 + 4,
    TT_TRIGGER_FRAME_MAX_BYTES = 2176,
    TT_TRIGGER_FRAME_PIECE_BYTES = 2048,
    TT_TRIGGER_FRAME_MAX_KEY_BYTES = TT_TRIGGER_MAX_REFERENCE_BYTES - 16
};

struct tt_trigger_frame {
    uint32_t source; /* rank */
    uint64_t group;  /* the party's key */
    struct tt_trigger_packet packet;
    uint32_t offset_bytes; /* a multiple of TT_TRIGGER_FRAME_PIECE_BYTES, within the payload or 0 */
    const void *payload;   /* from there on: tt_trigger_frame_piece_bytes of it */
};

/* How long the piece in a frame is. */
uint32_t tt_trigger_frame_piece_bytes(const struct tt_trigger_frame *frame);

/* A reference, both ways. Without a key (of 0 bytes) the address is an immediate. */
uint32_t tt_trigger_reference_encode(uint64_t address, const void *key, uint32_t key_bytes, void *bytes);
bool tt_trigger_reference_decode(const void *bytes, uint32_t length_bytes, uint64_t *address, const void **key,
                                 uint32_t *key_bytes);

/* A slot that data may be put into: what the put is to raise there, its address and the key of its memory. */
struct tt_trigger_slot {
    uint64_t immediate, address;
    const void *key;
    uint32_t key_bytes;
};

uint32_t tt_trigger_slot_encode(const struct tt_trigger_slot *slot, void *bytes);
bool tt_trigger_slot_decode(const void *bytes, uint32_t length_bytes, struct tt_trigger_slot *slot);

/* Writes the frame; returns its length, 0 if the capacity does not do (TT_TRIGGER_FRAME_MAX_BYTES always does). */
size_t tt_trigger_frame_encode(const struct tt_trigger_frame *frame, uint8_t *bytes, size_t capacity_bytes);

/* Reads a frame; false if it is malformed, or its packet names another node than the rank that sends it, and then
 * *frame is undefined. The payload points into `bytes`. */
bool tt_trigger_frame_decode(const uint8_t *bytes, size_t length_bytes, struct tt_trigger_frame *frame);

#endif
