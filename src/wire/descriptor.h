/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A descriptor of the triggered engine, as the host writes it (Xu et al., figure 2). Words of 64 bits, the highest byte
 * first, so that the bits lie in memory in the order in which the figure draws them:
 *
 *     word 0      63..59 SourceCount  58..51 JobID  50..46 SeqID  45..35 SourceVP  34..24 DestVP  23..0 DestID
 *     word 1      63..18 zero  17 FromSource  16 ReduceBefore  15 C  14 CH  13 CT  12 CP  11..6 CPCount
 *                 5 SwapLocalData  4 SwapLocalVP  3 SwapRemoteData  2 SwapRemoteAddr  1 ReduceFlag  0 CollEndFlag
 *     word 2      address of the operand, in bytes from the beginning of the buffer that its sequence is about
 *     word 3      its length in bytes
 *     words 4..11 whose packets it waits for, in the order in which they are read: two NodeIDs a word, 63..56 zero,
 *                 55..32 NodeID, 31..24 zero, 23..0 NodeID
 *
 * SourceCount, ReduceBefore, FromSource and words 4 and on are what this project keeps in the figure's "Other Fields"
 * and payload. What CPCount means is decided in docs/triggered.md.
 */
#ifndef TT_WIRE_DESCRIPTOR_H
#define TT_WIRE_DESCRIPTOR_H

#include <stdbool.h>
#include <stdint.h>

enum {
    TT_DESCRIPTOR_MAX_SOURCES = 16, /* Xu et al., section 2.2: nodes whose packets a job waits for at a unit */
    TT_DESCRIPTOR_BYTES = 96,

    TT_TRIGGER_JOBS = 1 << 8, /* Xu et al., section 1.2 */
    TT_TRIGGER_NODES = 1 << 24,
    TT_TRIGGER_PORTS = 1 << 11,
    TT_TRIGGER_STEPS = 1 << 5,
    TT_TRIGGER_COUNTS = 1 << 6 /* of CPCount */
};

struct tt_descriptor {
    bool collective;                     /* C */
    bool head, tail;                     /* CH, CT: the first and the last of its sequence */
    bool triggers;                       /* CP: its packet triggers the collective at the destination */
    uint8_t count;                       /* CPCount: packets of the sequence that have been read before it fires */
    bool swap_local_data, swap_local_vp; /* what its packets bring replaces its operand; its DestVP */
    bool swap_remote_data, swap_remote_address; /* the same at the destination, with its operand; its address */
    bool reduce;                                /* ReduceFlag: what its packets bring is reduced with its operand */
    bool reduce_before;                         /* and stands before it, where the operation does not commute */
    bool from_source;                           /* the sequence has not written its operand before */
    bool collective_end;                        /* CollEndFlag: with its packet the destination has finished */
    uint8_t job;                                /* JobID */
    uint8_t sequence;                           /* SeqID: of its packet, at the destination */
    uint16_t source_port;                       /* SourceVP: the own one */
    uint16_t destination_port;                  /* DestVP */
    uint32_t destination_node;                  /* DestID */
    uint64_t address_bytes, length_bytes;
    uint32_t source_count; /* packets that it reads itself: its CPCount less that of the one before */
    uint32_t sources[TT_DESCRIPTOR_MAX_SOURCES];
};

/* Writes TT_DESCRIPTOR_BYTES bytes. Fields must be in their ranges. */
void tt_descriptor_encode(const struct tt_descriptor *descriptor, void *bytes);

/* Reads TT_DESCRIPTOR_BYTES bytes. False, and *descriptor is not set: bits that must be zero are not, more sources than
 * there may be, or data that is both replaced and reduced. */
bool tt_descriptor_decode(const void *bytes, struct tt_descriptor *descriptor);

#endif
