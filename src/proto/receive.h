/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The receive kernel: what happens to every chunk (Khalilov et al., section III-B, steps 3 to 5, and appendix C). It is
 * freestanding C over arrays of completions, so that it runs on the control thread, on receive workers, in the
 * simulator, and later on a SmartNIC's cores.
 *
 * One receiver belongs to one multicast queue (subgroup) and is fed by one thread. The control context publishes the
 * streams of the collectives in progress in its table, and takes them back (see tt_receiver_retire).
 */
#ifndef TT_PROTO_RECEIVE_H
#define TT_PROTO_RECEIVE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plan/layout.h"
#include "proto/early.h"
#include "wire/chunk.h"

/* Whether two ranks are on one host. `hosts`: by rank, the same for ranks of one host; NULL: all differ. */
static inline bool tt_is_same_host(const uint64_t *hosts, uint32_t one, uint32_t other)
{
    return one == other || (hosts != NULL && hosts[one] == hosts[other]);
}

/*
 * One collective's traffic on one subgroup. The bitmap is written by the feeding thread alone while the stream is
 * published, by the control context alone otherwise; a set bit is stored with release order after the chunk's bytes, so
 * that whoever sees the bit sees the bytes.
 */
struct tt_stream {
    struct tt_stripe stripe;
    uint32_t first_source; /* rank of root index 0; root index i is rank first_source + i */
    uint8_t *buffer;       /* the whole receive buffer */
    _Atomic uint64_t *bitmap;
    _Atomic uint32_t received;  /* chunks that the kernel placed */
    _Atomic uint32_t behind;    /* eager: the most that a sender of theirs is behind; see tt_imm_encode_eager */
    _Atomic bool released;      /* release order: `release` is there */
    struct tt_release release;  /* written once, by the feeding thread */
    _Atomic uint32_t notify_at; /* the kernel asks for attention when `received` gets here */
};

static inline uint32_t tt_stream_words(const struct tt_stream *stream)
{
    return (stream->stripe.psn_count + 63) / 64;
}

/* X(name): what became of chunks, and of how many. Single writer: the feeding thread. */
#define TT_RECEIVE_COUNTERS(X) X(placed) X(stale) X(range) X(source) X(length) X(duplicate) X(early)

struct tt_receiver {
    _Atomic(struct tt_stream *) streams[TT_TAG_COUNT];
    uint32_t rank, size;
    const uint64_t *hosts;      /* by rank: the same for ranks of one host; NULL: all differ */
    uint32_t probe_bytes;       /* length of a probe chunk */
    _Atomic uint64_t *heard;    /* one bit a rank: whose probe came */
    _Atomic uint32_t attention; /* raised by the kernel, lowered by the control context */
    _Atomic uint32_t doubt;     /* a chunk of an eager collective fits none of that sequence number; likewise */
    struct tt_early log;        /* chunks of eager collectives that are not published yet */
    _Atomic uint64_t afar;      /* of the stale and early ones, those that have come from another host */
    uint64_t frontier;          /* feeding thread: the collectives before this one have ended here */
    uint64_t drained;           /* feeding thread: of those before this one nothing waits in the queue any more */
#define TT_RECEIVE_COUNTER(name) _Atomic uint64_t name;
    TT_RECEIVE_COUNTERS(TT_RECEIVE_COUNTER)
#undef TT_RECEIVE_COUNTER
};

/* Checks, marks, places and counts `count` chunks; returns how many were placed. */
uint32_t tt_receive(struct tt_receiver *receiver, const struct tt_receive_chunk *chunks, uint32_t count);

/* Places the early chunks whose collective has been published since, and drops those that are out of date. Costs
 * nothing while there are none. Returns how many were placed. */
uint32_t tt_receive_early(struct tt_receiver *receiver);

/* Control: from now on chunks with this tag go to this stream. */
static inline void tt_receiver_publish(struct tt_receiver *receiver, uint32_t tag, struct tt_stream *stream)
{
    atomic_store_explicit(&receiver->streams[tag], stream, memory_order_seq_cst);
}

/* Control: takes the stream away. The feeding thread may still be inside tt_receive with it: it is the control
 * context's only after that thread has passed a point outside of tt_receive. Sequentially consistent, as the
 * kernel's load: whoever enters the kernel after the retirement does not see the stream any more. */
static inline void tt_receiver_retire(struct tt_receiver *receiver, uint32_t tag)
{
    atomic_store_explicit(&receiver->streams[tag], NULL, memory_order_seq_cst);
}

/* --- The bitmap, for control ------------------------------------------------------------------------------------- */

static inline uint64_t tt_stream_word(const struct tt_stream *stream, uint32_t word)
{
    return atomic_load_explicit(&stream->bitmap[word], memory_order_acquire);
}

/* Marks PSNs first .. first + count - 1; only while the stream is not published. */
void tt_stream_mark(struct tt_stream *stream, uint32_t first, uint32_t count);

/* Clears the bitmap and the count; only while the stream is not published. */
void tt_stream_reset(struct tt_stream *stream);

/*
 * One past the highest marked PSN in [first, limit), or `first` if none is marked.
 */
uint32_t tt_stream_highest(const struct tt_stream *stream, uint32_t first, uint32_t limit);

/* How many PSNs are marked. */
uint32_t tt_stream_marked(const struct tt_stream *stream);

/* Assert what always holds, while no thread feeds. */
void tt_stream_check(const struct tt_stream *stream);
void tt_receiver_check(const struct tt_receiver *receiver);

#endif
