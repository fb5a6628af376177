/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Frames of object groups: what their members say to each other over p2p, beside the blocks. Little-endian, a header of
 * 24 bytes and a body by type; the magic differs from that of control frames (wire/frame.h), which use the same
 * connections. Decoding checks everything that can be checked without knowing the group, and never reads past the end.
 */
#ifndef TT_WIRE_OBJECT_FRAME_H
#define TT_WIRE_OBJECT_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TT_OBJECT_FRAME_MAGIC = 0x6F74, /* "to" */
    TT_OBJECT_FRAME_VERSION = 4,
    TT_OBJECT_FRAME_HEADER_BYTES = 24,
    TT_OBJECT_FRAME_MAX_BYTES = 512,
    TT_OBJECT_FRAME_MAX_KEY_BYTES = 256
};

enum tt_object_frame_type {
    TT_OBJECT_FRAME_OFFER = 1, /* down the tree: member 0 has an object with this number, of this size */
    TT_OBJECT_FRAME_END,       /* down the tree: `sequence` objects are all there will be */
    TT_OBJECT_FRAME_READY,     /* ready for this block of object `sequence`, here, under this key */
    TT_OBJECT_FRAME_REACHED,   /* up the tree: whomever the sender speaks for has the first `sequence` objects */
    TT_OBJECT_FRAME_CLOSING,   /* up the tree: the sender, or somebody for whom it speaks, has been closed */
    TT_OBJECT_FRAME_BARRIER,   /* closing, a round of it */
    TT_OBJECT_FRAME_BYE,       /* the sender has closed, with success */
    TT_OBJECT_FRAME_FAIL,      /* the group has failed; the sender puts no more to the receiver */
    TT_OBJECT_FRAME_ASK,       /* are you there? */
    TT_OBJECT_FRAME_ANSWER,
    TT_OBJECT_FRAME_JOIN,  /* the sender has created the group, on these terms */
    TT_OBJECT_FRAME_THERE, /* up the tree: so have the sender's neighbours, and all for whom it speaks */
    TT_OBJECT_FRAME_TYPE_COUNT
};

#define TT_OBJECT_NO_MEMBER UINT32_MAX

/* What all members must have in common. */
struct tt_object_terms {
    uint8_t algorithm, credit;
    uint32_t block_bytes;
    uint64_t racks; /* a digest */
};

struct tt_object_frame {
    enum tt_object_frame_type type;
    uint32_t source;   /* member */
    uint64_t group;    /* the group's key */
    uint64_t sequence; /* of an object, from 0, or a number of objects */
    union {
        struct {
            uint64_t size_bytes;
        } offer;
        struct {
            uint64_t block;
            uint64_t address;   /* of the block's place, at the sender */
            uint64_t immediate; /* what the put is to raise there */
            uint16_t key_bytes;
            const uint8_t *key; /* decoded: inside the frame's bytes */
        } ready;
        struct {
            uint8_t round;
        } barrier;
        struct {
            uint8_t wants; /* 1: the sender has not had the receiver's, which may have come before it was there */
            struct tt_object_terms terms;
            uint64_t members; /* a digest of them, in their order */
            uint32_t created; /* which of the sender's groups of just these members it is, from 1 */
        } join;
        struct {
            int32_t status;      /* a negative tutti_status */
            uint32_t member;     /* whom it is about, or TT_OBJECT_NO_MEMBER */
            uint32_t noticed_by; /* the member that has noticed it */
            uint64_t puts;       /* that the sender has started to the receiver, in all */
        } fail;
    } body;
};

/* Writes the frame; returns its length, 0 if the capacity does not do (TT_OBJECT_FRAME_MAX_BYTES always does). */
size_t tt_object_frame_encode(const struct tt_object_frame *frame, uint8_t *bytes, size_t capacity_bytes);

/* Reads a frame; false if it is malformed, and then *frame is undefined. Pointers in *frame point into `bytes`. */
bool tt_object_frame_decode(const uint8_t *bytes, size_t length_bytes, struct tt_object_frame *frame);

const char *tt_object_frame_name(enum tt_object_frame_type type);

#endif
