/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Frames that carry the triggered engine's packets over p2p: the header of all frames (wire/frame_header.h), with a
 * magic of their own and the rank that sends, then the packet (wire/trigger_packet.h) and what is behind its header:
 * its payload, or a reference to it, which is the address of 8 bytes and the key of the source's registration.
 */
#ifndef TT_WIRE_TRIGGER_FRAME_H
#define TT_WIRE_TRIGGER_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/trigger_packet.h"

enum {
    TT_TRIGGER_FRAME_MAGIC = 0x7274, /* "tr" */
    TT_TRIGGER_FRAME_VERSION = 1,
    TT_TRIGGER_FRAME_HEADER_BYTES = 24,
    TT_TRIGGER_FRAME_MAX_BYTES = 2176,
    TT_TRIGGER_FRAME_INLINE_BYTES = 2048, /* the longest payload in a frame */
    TT_TRIGGER_FRAME_MAX_KEY_BYTES = TT_TRIGGER_MAX_REFERENCE_BYTES - 8
};

struct tt_trigger_frame {
    uint32_t source; /* rank */
    uint64_t group;  /* the party's key */
    struct tt_trigger_packet packet;
    const void *payload; /* tt_trigger_packet_payload_bytes of it */
};

/* A reference, both ways. */
uint32_t tt_trigger_reference_encode(uint64_t address, const void *key, uint32_t key_bytes, void *bytes);
bool tt_trigger_reference_decode(const void *bytes, uint32_t length_bytes, uint64_t *address, const void **key,
                                 uint32_t *key_bytes);

/* Writes the frame; returns its length, 0 if the capacity does not do (TT_TRIGGER_FRAME_MAX_BYTES always does). */
size_t tt_trigger_frame_encode(const struct tt_trigger_frame *frame, uint8_t *bytes, size_t capacity_bytes);

/* Reads a frame; false if it is malformed, or its packet names another node than the rank that sends it, and then
 * *frame is undefined. The payload points into `bytes`. */
bool tt_trigger_frame_decode(const uint8_t *bytes, size_t length_bytes, struct tt_trigger_frame *frame);

#endif
