/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A multicast queue of a group, and its receive kernel. One thread feeds it, the control context or a receive worker
 * (worker.h); the two meet in the turn, the frontier and what is drained.
 */
#ifndef TT_ENGINE_QUEUE_H
#define TT_ENGINE_QUEUE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "fabric/mcast.h"
#include "proto/receive.h"
#include "tutti/status.h"

struct tt_engine;
struct tt_party;

enum { TT_QUEUE_BATCH = 256 }; /* chunks polled at once */
_Static_assert((int)TT_QUEUE_BATCH >= (int)TT_MCAST_POLL_LEAST, "what a system hands over in one piece fits");

/* One multicast subgroup of a group. */
struct tt_queue {
    _Alignas(64) struct tt_mcast_queue *mcast; /* queues of different workers share no cache line */
    struct tt_receiver receiver;
    bool writes;     /* the fabric writes chunks to where they belong */
    uint32_t batch;  /* chunks that the fabric likes to be given at once */
    uint32_t posted; /* chunks accepted so far; the sending thread's */
    uint32_t feeder; /* control: the receive worker that has a place for it; without workers 0 */
    bool fed;        /* control: it has that place, or without workers may be watched */
    bool more;       /* the feeding thread's: its last look left some behind */
    bool empty;      /* the feeding thread's: its last look found nothing, so its descriptor tells of what comes */
    /* Odd while a thread is inside the kernel with this queue: see tt_queue_is_quiet. */
    _Atomic uint32_t turn;
    _Atomic uint64_t frontier; /* control: the collectives before this one have ended here */
    _Atomic uint64_t drained;  /* the feeding thread: of those before this one nothing waits in the queue any more */
};

/*
 * Joins the subgroup that the options name; who feeds and who sends, and how many windows there can be, the provider is
 * told here. On an error the queue is as before.
 */
tutti_status tt_queue_attach(struct tt_queue *queue, struct tt_engine *engine, struct tt_mcast *mcast,
                             const struct tt_mcast_queue_options *options);

/* Tells an attached queue, once, who its members are, as fabric/mcast.h says, and has whoever is to feed it do so:
 * without workers the control context, which wakes `party` up when chunks have come. */
tutti_status tt_queue_introduce(struct tt_queue *queue, struct tt_engine *engine, struct tt_party *party,
                                const void *names, uint32_t stride_bytes, uint32_t size);

/* After that nobody feeds the queue. Nothing to do for one that is not attached. */
void tt_queue_withdraw(struct tt_queue *queue, struct tt_engine *engine);

/* Leaves the subgroup, withdrawn or not; after that no thread touches the queue. Nothing to do as before. */
void tt_queue_detach(struct tt_queue *queue, struct tt_engine *engine);

/* Asserts what holds while nobody feeds the queue. */
void tt_queue_check(const struct tt_queue *queue);

/*
 * Control: from now on chunks with the tag go to the stream. Where the fabric writes, those with the key (0: none) are
 * written to its buffer.
 */
void tt_queue_publish(struct tt_queue *queue, uint32_t tag, struct tt_stream *stream, uint32_t window_key);

/* Control: keeps chunks with the tag out of the stream's buffer until it is published again; they wait as if they had
 * come early. False if a thread may be placing one just now, or one is placed already: then it must be published, too.
 * Not where the fabric writes. */
bool tt_queue_withhold(struct tt_queue *queue, uint32_t tag, const struct tt_stream *stream);

/* Control: takes the stream away, if there is one, and the fabric's way to its buffer. Returns the turn after which no
 * thread can be inside the kernel with the stream: see tt_queue_is_quiet. */
uint32_t tt_queue_retire(struct tt_queue *queue, uint32_t tag, uint32_t window_key);

/* Feeds the chunks that came before their collective was published. The feeding thread's. */
uint32_t tt_queue_receive_early(struct tt_queue *queue);

/* Feeds chunks to the kernel until the queue is dry, or `limit` have come; returns how many were polled. One thread a
 * queue. */
uint32_t tt_queue_receive(struct tt_queue *queue, uint32_t limit);

/* The same, but no further than to where the kernel asks for attention, which is the caller's to lower before. */
uint32_t tt_queue_receive_until_attention(struct tt_queue *queue, uint32_t limit);

/*
 * Whether no thread can be inside the kernel with a stream that was retired before this call. Pass a turn that was read
 * after the retirement; while the same odd turn is still on, the answer is no.
 */
static inline bool tt_queue_is_quiet(const struct tt_queue *queue, uint32_t turn)
{
    return (turn & 1) == 0 || atomic_load_explicit(&queue->turn, memory_order_seq_cst) != turn;
}

/*
 * Whether a tag may be used again: nothing may wait in the queue of the collective that had it before. A queue that has
 * not been polled dry for 127 collectives (its worker starves) gets no stream; what it would have received is fetched.
 */
static inline bool tt_queue_may_reuse(const struct tt_queue *queue, uint64_t sequence)
{
    return sequence < atomic_load_explicit(&queue->drained, memory_order_acquire) + TT_TAG_ORDINARY_COUNT;
}

#endif
