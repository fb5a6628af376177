/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sending the own block of a collective (Khalilov et al., section III-A): cuts it into chunks without copying, posts
 * them in batches, subgroup by subgroup in turn, as far as credit allows, and copies each batch into the receive buffer
 * while it is in the cache. Belongs to the thread that sends; control sets limits and reads the state, by atomics.
 */
#ifndef TT_ENGINE_TRANSMIT_H
#define TT_ENGINE_TRANSMIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/task_queue.h"
#include "proto/pacer.h"
#include "proto/receive.h"

struct tt_queue;
struct tt_wakeup;

enum { TT_TRANSMIT_BATCH = 64 }; /* chunks of one post at most */

/* IDLE -> ACTIVE by control; -> DONE by the sender, when everything is sent and in place, or has been canceled. */
enum tt_transmit_state { TT_TRANSMIT_IDLE, TT_TRANSMIT_ACTIVE, TT_TRANSMIT_DONE };

struct tt_transmit {
    struct tt_task task; /* first: on its way to a send worker */
    struct tt_transmit *next;
    struct tt_queue *queues; /* NULL: nothing to send, only to copy */
    const struct tt_stream *streams;
    uint32_t subgroups;
    uint32_t imm;        /* of the first root's first chunk */
    uint32_t window_key; /* where chunks are written at the receivers; 0: they go to staging */
    uint32_t root_index;
    const uint8_t *source;          /* the own block */
    struct tt_mcast_memory *memory; /* its registration, or NULL */
    uint8_t *target;                /* where it belongs in the receive buffer; == source: it is there */
    uint64_t block_bytes;
    bool silent;   /* nobody hears it: only its first chunk is sent, by which others find out that they hear again */
    bool releases; /* the release is to be sent first */
    bool released; /* it has been posted */
    bool begun;    /* the pacer knows */
    uint8_t release[TT_RELEASE_BYTES];
    uint64_t copied_bytes;  /* of a block that is only copied */
    uint32_t turn;          /* subgroup whose turn it is */
    struct tt_pacer *pacer; /* the rank's on this network */
    uint32_t heard;         /* roots that share the rate */
    uint64_t chunk_ns;      /* what a chunk takes at the rate that all roots keep to together; 0: there is none */
    uint64_t due_ns;        /* when to look again though nothing wakes: there is news, or it is paced, or blocked for a
                               second; else TT_NEVER */
    uint32_t posted;        /* chunks, of all subgroups */
    uint32_t *cursors;      /* by subgroup: chunks posted */
    uint32_t *marks;        /* by subgroup: the queue's count after the last post */
    _Atomic uint32_t limit; /* chunks that may be posted, of all subgroups */
    _Atomic uint32_t state;
    _Atomic bool canceled;
};

enum tt_transmit_result {
    TT_TRANSMIT_MOVED,   /* there may be more to do at once */
    TT_TRANSMIT_BLOCKED, /* a send queue is full, or has not completed everything: wait for the send fd of *blocked */
    TT_TRANSMIT_PACED,   /* nothing may be sent before due_ns */
    TT_TRANSMIT_WAITING, /* for credit */
    TT_TRANSMIT_FINISHED /* it is DONE, and the control context's: do not touch it any more */
};

/* Sends at most `batches` batches. */
enum tt_transmit_result tt_transmit_progress(struct tt_transmit *transmit, uint64_t now_ns, uint32_t batches,
                                             struct tt_queue **blocked);

/* Asserts what holds of one that no other thread sends. */
void tt_transmit_check(const struct tt_transmit *transmit);

#endif
