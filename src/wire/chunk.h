/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A chunk on its way through an unreliable multicast queue, and the 32 bits of immediate data that name it.
 *
 * The packet sequence number (PSN) sits in the low bits of the immediate, the tag of the collective in the rest
 * (Khalilov et al., section III-A and footnote 3).
 */
#ifndef TT_WIRE_CHUNK_H
#define TT_WIRE_CHUNK_H

#include <stdbool.h>
#include <stdint.h>

enum {
    TT_IMM_PSN_BITS = 24,
    TT_IMM_TAG_BITS = 32 - TT_IMM_PSN_BITS,
    TT_TAG_COUNT = 1 << TT_IMM_TAG_BITS,
    TT_PSN_LIMIT = 1 << TT_IMM_PSN_BITS, /* PSNs of one subgroup of one collective are below this */
    TT_TAG_PROBE = 0,                    /* the start-up probe; its PSN is the sender's rank */
    TT_TAG_EAGER = TT_TAG_COUNT / 2,     /* from here on: eager collectives, whose chunks may come early */
    TT_TAG_EAGER_COUNT = TT_TAG_COUNT - TT_TAG_EAGER,
    TT_TAG_ORDINARY_COUNT = TT_TAG_EAGER - 1
};

static inline uint32_t tt_imm_encode(uint32_t tag, uint32_t psn)
{
    return (tag << TT_IMM_PSN_BITS) | psn;
}

static inline uint32_t tt_imm_tag(uint32_t imm)
{
    return imm >> TT_IMM_PSN_BITS;
}

static inline uint32_t tt_imm_psn(uint32_t imm)
{
    return imm & (TT_PSN_LIMIT - 1U);
}

/* The tag of the collective with this sequence number: 1 .. 127, or 128 .. 255 of an eager one; 0 is the probe's. */
static inline uint32_t tt_tag_of_sequence(uint64_t sequence, bool eager)
{
    return eager ? TT_TAG_EAGER + (uint32_t)(sequence % TT_TAG_EAGER_COUNT)
                 : 1U + (uint32_t)(sequence % TT_TAG_ORDINARY_COUNT);
}

/* A chunk to send. The memory at `address` is read before the send completes, and not afterwards. */
struct tt_send_chunk {
    uint32_t imm;
    uint32_t length_bytes;
    const void *address;
};

/* A received chunk, still in staging memory that belongs to the queue until it is reposted. */
struct tt_receive_chunk {
    uint32_t imm;
    uint32_t length_bytes;
    uint32_t source;  /* rank of the sender in the group */
    uint32_t staging; /* the provider's handle, for reposting */
    const void *address;
};

#endif
