/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A chunk on its way through an unreliable multicast queue, and the 32 bits of immediate data that name it.
 *
 * The packet sequence number (PSN) sits in the low bits of the immediate, the tag of the collective in the rest
 * (Khalilov et al., section III-A and footnote 3). Eager collectives are small: there the upper bits of the PSN say how
 * far the sender has got, which is all that an Allgather needs to know that its ranks have room for the next one.
 */
#ifndef TT_WIRE_CHUNK_H
#define TT_WIRE_CHUNK_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/cursor.h"

enum {
    TT_IMM_PSN_BITS = 24,
    TT_IMM_TAG_BITS = 32 - TT_IMM_PSN_BITS,
    TT_IMM_EAGER_PSN_BITS = 16,
    TT_BEHIND_LIMIT = 1 << (TT_IMM_PSN_BITS - TT_IMM_EAGER_PSN_BITS),
    TT_TAG_COUNT = 1 << TT_IMM_TAG_BITS,
    TT_PSN_RELEASE = (1 << TT_IMM_PSN_BITS) - 1, /* no chunk of data: the barrier is over; its payload is a release */
    TT_PSN_LIMIT = TT_PSN_RELEASE,               /* PSNs of one subgroup of one collective are below this */
    TT_TAG_PROBE = 0,                            /* the start-up probe; its PSN is the sender's rank */
    TT_TAG_EAGER = TT_TAG_COUNT / 2,             /* from here on: eager collectives, whose chunks may come early */
    TT_TAG_EAGER_COUNT = TT_TAG_COUNT - TT_TAG_EAGER,
    TT_TAG_ORDINARY_COUNT = TT_TAG_EAGER - 1
};

/*
 * What the rank that everybody has reported to tells all: how far all have got, what all can take, and whom multicast
 * reaches. Little-endian.
 */
struct tt_release {
    uint64_t finished;      /* the collectives before this one have ended everywhere */
    uint32_t rate_kbit;     /* the least bandwidth that any rank can take */
    uint32_t window_chunks; /* the least window of any rank: how many chunks may be on their way to it */
    bool some_deaf;         /* some rank hears nothing from other hosts */
    bool all_deaf;          /* and so do all that are to hear something from there */
};

enum { TT_RELEASE_BYTES = 17, TT_RELEASE_SOME_DEAF = 1, TT_RELEASE_ALL_DEAF = 2 };

/* Says nothing about what can be taken, and nothing about anybody's hearing. */
static inline struct tt_release tt_release_of(uint64_t finished)
{
    return (struct tt_release){
        .finished = finished, .rate_kbit = UINT32_MAX, .window_chunks = UINT32_MAX, .all_deaf = true};
}

static inline void tt_release_least(struct tt_release *least, const struct tt_release *other)
{
    least->finished = other->finished < least->finished ? other->finished : least->finished;
    least->rate_kbit = other->rate_kbit < least->rate_kbit ? other->rate_kbit : least->rate_kbit;
    least->window_chunks = other->window_chunks < least->window_chunks ? other->window_chunks : least->window_chunks;
    least->some_deaf |= other->some_deaf;
    least->all_deaf &= other->all_deaf;
}

static inline uint8_t tt_release_flags(const struct tt_release *release)
{
    return (uint8_t)((release->some_deaf ? TT_RELEASE_SOME_DEAF : 0) | (release->all_deaf ? TT_RELEASE_ALL_DEAF : 0));
}

static inline void tt_release_set_flags(struct tt_release *release, uint8_t flags)
{
    release->some_deaf = (flags & TT_RELEASE_SOME_DEAF) != 0;
    release->all_deaf = (flags & TT_RELEASE_ALL_DEAF) != 0;
}

static inline void tt_release_encode(const struct tt_release *release, uint8_t *bytes)
{
    tt_bytes_put(bytes, release->finished, 8);
    tt_bytes_put(bytes + 8, release->rate_kbit, 4);
    tt_bytes_put(bytes + 12, release->window_chunks, 4);
    bytes[16] = tt_release_flags(release);
}

static inline void tt_release_decode(const uint8_t *bytes, struct tt_release *release)
{
    *release = (struct tt_release){.finished = tt_bytes_get(bytes, 8),
                                   .rate_kbit = (uint32_t)tt_bytes_get(bytes + 8, 4),
                                   .window_chunks = (uint32_t)tt_bytes_get(bytes + 12, 4)};
    tt_release_set_flags(release, bytes[16]);
}

static inline uint32_t tt_imm_encode(uint32_t tag, uint32_t psn)
{
    return (tag << TT_IMM_PSN_BITS) | psn;
}

/* `behind`, below TT_BEHIND_LIMIT: by how many collectives the oldest that has not ended at the sender is older. */
static inline uint32_t tt_imm_encode_eager(uint32_t tag, uint32_t psn, uint32_t behind)
{
    return tt_imm_encode(tag, behind << TT_IMM_EAGER_PSN_BITS | psn);
}

static inline uint32_t tt_imm_tag(uint32_t imm)
{
    return imm >> TT_IMM_PSN_BITS;
}

static inline uint32_t tt_imm_psn(uint32_t imm)
{
    return imm & ((1U << (tt_imm_tag(imm) >= TT_TAG_EAGER ? TT_IMM_EAGER_PSN_BITS : TT_IMM_PSN_BITS)) - 1);
}

/* Of an eager collective's. */
static inline uint32_t tt_imm_behind(uint32_t imm)
{
    return imm >> TT_IMM_EAGER_PSN_BITS & (TT_BEHIND_LIMIT - 1);
}

/* The tag of the collective with this sequence number: 1 .. 127, or 128 .. 255 of an eager one; 0 is the probe's. */
static inline uint32_t tt_tag_of_sequence(uint64_t sequence, bool eager)
{
    return eager ? TT_TAG_EAGER + (uint32_t)(sequence % TT_TAG_EAGER_COUNT)
                 : 1U + (uint32_t)(sequence % TT_TAG_ORDINARY_COUNT);
}

struct tt_mcast_memory;

/* The key of the memory that the chunks of the collective with this sequence number are written to; never 0. */
static inline uint32_t tt_window_key_of_sequence(uint64_t sequence)
{
    return 1 + (uint32_t)(sequence % UINT32_MAX);
}

/* A chunk to send. The memory at `address` is read before the send completes, and not afterwards. */
struct tt_send_chunk {
    uint32_t imm;
    uint32_t length_bytes;
    const void *address;
    const struct tt_mcast_memory *memory; /* the registration that it lies in; NULL: none */
    uint32_t window_key;                  /* of the receivers' memory, for a fabric that writes there; 0: to staging */
    uint64_t window_offset_bytes;         /* where in that memory */
};

/* A received chunk, still in staging memory that belongs to the queue until it is reposted, or written in place. */
struct tt_receive_chunk {
    uint32_t imm;
    uint32_t length_bytes;
    uint32_t source;  /* rank of the sender in the group */
    uint32_t staging; /* the provider's handle, for reposting */
    const void *address;
};

#endif
