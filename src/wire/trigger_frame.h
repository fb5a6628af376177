/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Frames that carry the triggered engine's packets over p2p: the header of all frames (wire/frame_header.h), with a
 * magic of their own and the rank that sends, 4 bytes of offset, 8 that are 0, so that what is behind 60 bytes lies
 * aligned behind a transport's own 4, then the packet (wire/trigger_packet.h) and what is behind its header. That is
 * its payload; or a reference to it, which is the address of 8 bytes and the key of the source's registration if it is
 * to be read there, else the 8 bytes of the immediate with which it was put into a slot of the reader's (there the
 * packet goes with the immediate first, and in a frame if it is sent again); or, behind an ACCEPTED, such a slot, which
 * is free: its immediate, its address of 8 bytes and the key of its registration. A payload that is longer than what a
 * frame may be goes in as many frames as it takes, one behind the other, each with the packet's header and a piece,
 * which ends with the frame: offset is where in the payload that belongs.
 */
#ifndef TT_WIRE_TRIGGER_FRAME_H
#define TT_WIRE_TRIGGER_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/trigger_packet.h"

enum {
    TT_TRIGGER_FRAME_MAGIC = 0x7274, /* "tr" */
    TT_TRIGGER_FRAME_VERSION = 5,
    TT_TRIGGER_FRAME_HEAD_BYTES = 24 + 4 + 8 + TT_TRIGGER_PACKET_BYTES, /* all that is before the piece */
    TT_TRIGGER_FRAME_MAX_KEY_BYTES = TT_TRIGGER_MAX_REFERENCE_BYTES - 16
};

struct tt_trigger_frame {
    uint32_t source; /* rank */
    uint64_t group;  /* the party's key */
    struct tt_trigger_packet packet;
    uint32_t offset_bytes, piece_bytes; /* of the payload; the piece is not empty unless that is */
    const void *piece;
};

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

/* Writes what is before the piece, which is to follow at once. */
void tt_trigger_frame_encode(const struct tt_trigger_frame *frame, uint8_t head[TT_TRIGGER_FRAME_HEAD_BYTES]);

/* Reads a frame; false if it is malformed, or its packet names another node than the rank that sends it, and then
 * *frame is undefined. The piece points into `bytes`. */
bool tt_trigger_frame_decode(const uint8_t *bytes, size_t length_bytes, struct tt_trigger_frame *frame);

#endif
