/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A group in the engine: the member machine, the multicast queues with their receive kernels, the connections, and the
 * requests in progress. Everything here belongs to the control context, but for what worker.h says about queues.
 */
#ifndef TT_ENGINE_GROUP_H
#define TT_ENGINE_GROUP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/copies.h"
#include "engine/engine.h"
#include "plan/choice.h"
#include "proto/member.h"
#include "tutti/tutti.h"

struct tt_request;

enum { TT_QUEUE_BATCH = 256 }; /* chunks polled at once */
_Static_assert((int)TT_QUEUE_BATCH >= (int)TT_MCAST_POLL_LEAST, "what a system hands over in one piece fits");

/* One multicast subgroup of a group. */
struct tt_queue {
    _Alignas(64) struct tt_mcast_queue *mcast; /* queues of different workers share no cache line */
    struct tt_receiver receiver;
    uint32_t posted; /* chunks accepted so far; the sending thread's */
    /* Odd while a thread is inside the kernel with this queue: see tt_queue_is_quiet. */
    _Atomic uint32_t turn;
    _Atomic uint64_t frontier; /* control: the collectives before this one have ended here */
    _Atomic uint64_t drained;  /* the feeding thread: of those before this one nothing waits in the queue any more */
};

struct tt_group {
    struct tt_engine *engine;
    struct tt_group *next;
    struct tt_network *network;
    uint32_t rank, size, local_ranks;
    uint64_t key;
    uint32_t chunk_bytes, depth_chunks, chains;
    struct tt_choice choice; /* which method serves which size: rank 0's table */
    bool multicast;          /* gets through to everybody */
    bool probed;
    uint32_t probe_failed_rank; /* a rank whose multicast did not get through to somebody, or TT_RANK_NONE */
    void *probe_payload;        /* chunk_bytes of zeros */
    struct tt_member member;
    struct tt_pace pace;
    uint32_t noted_kbit;  /* of the pace, in the log */
    uint32_t queue_count; /* subgroups */
    struct tt_queue *queues;
    struct tt_peer **peers;    /* by rank; NULL for those that are not connected */
    struct tt_request *active; /* list of posted requests that have not finished */
    uint32_t request_count;    /* initialized and not finalized */
    uint64_t deadline_ns;      /* of the member, after its last step */
    bool more;                 /* the member has more to ask for */
    tutti_status trouble;      /* of the fabric, on this side: fails the group at the end of the step */
    bool stepping_needed;      /* chunks came, or an answer is due */
    _Atomic int failed_rank;   /* for tutti_group_failed_rank; -1: none */
    char failure_text[512];    /* set with failed, before any request ends with it */
    _Atomic bool failed;

    /* Memory of the member. */
    struct tt_member_slot *slots;
    uint8_t *present;
    _Atomic uint64_t *heard; /* queue_count * words */
    struct tt_eager_entry *copy_entries;
    struct tt_copies copies; /* where there is multicast */

    /* Counters that are not somebody else's. */
    _Atomic uint64_t frames_sent, frames_received, frame_bytes_sent, frame_bytes_received, bytes_served, bytes_fetched;
    _Atomic uint64_t chunks_repaired, chunks_fetched, cutoffs, repair_rounds, credit_stalls, drops_frame;
};

/* One member step and all that follows from it. */
void tt_group_step(struct tt_group *group, const struct tt_member_event *event);

/* A frame's bytes, from any peer: hands it to the group that it is for. Returns false if there is none. */
bool tt_group_dispatch(struct tt_engine *engine, const void *bytes, uint32_t length_bytes);

/* Feeds the chunks that came before their collective was published. The feeding thread's. */
uint32_t tt_queue_receive_early(struct tt_queue *queue);

/* Feeds chunks to the kernel until the queue is dry; returns how many were polled. One thread a queue. */
uint32_t tt_queue_receive(struct tt_queue *queue, uint32_t limit);

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

/* Moves the group along; returns whether anything happened. */
bool tt_group_progress(struct tt_group *group, uint64_t now_ns);

/* With workers: whether a kernel asked for attention since the last call. */
bool tt_group_take_attention(struct tt_group *group);

/* Says goodbye, takes the group out of the engine, and frees it. */
void tt_group_leave(struct tt_group *group);

/* Frees a group that is not in the engine's list; any of its parts may be missing. */
void tt_group_free(struct tt_group *group);

void tt_group_read_counters(const struct tt_group *group, struct tutti_counters *counters);

#endif
