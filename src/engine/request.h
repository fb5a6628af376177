/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A request in the engine: one collective on fixed buffers, with all the memory that its runs need, and its sending.
 */
#ifndef TT_ENGINE_REQUEST_H
#define TT_ENGINE_REQUEST_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/group.h"
#include "engine/task_queue.h"
#include "engine/transmit.h"
#include "proto/collective.h"

struct tt_request_options {
    enum tt_collective_kind kind;
    const void *send; /* the own block; NULL if it is in place or there is none */
    void *receive;
    uint64_t block_bytes;
    uint32_t root; /* 0 for an allgather */
    enum tt_method method;
    uint64_t timeout_ns;
};

struct tt_request {
    struct tt_task task; /* first: in the queue from application threads */
    struct tt_group *group;
    struct tt_request *next; /* in group->active */
    struct tt_request_options options;
    struct tt_collective collective;
    struct tt_transmit transmit;
    struct tt_stream *streams;
    uint8_t *buffer; /* what chunks are placed in: options.receive, or the record of a barrier that is gathered */
    uint8_t record[TT_RELEASE_BYTES];
    struct tt_p2p_memory *memory;
    uint32_t key_bytes;
    uint8_t key[TT_P2P_MAX_KEY_BYTES];
    void *block; /* one allocation for streams, bitmaps, positions, cursors */

    struct tt_relay *relay; /* NULL: its method has none */
    uint64_t relay_number;  /* which of the relay's objects it is */
    bool relay_started;     /* RELAY has been asked for */
    bool relay_done;        /* its object is complete, or will never be */

    bool freezing;        /* FREEZE is not answered yet */
    bool sent;            /* the end of the transmission is answered */
    uint32_t *turns;      /* by queue: the turn that was on at the freeze */
    uint32_t gets;        /* under way in the fabric */
    uint32_t failed_runs; /* a bit a run: gets that could not even start */

    _Atomic bool done; /* release: status and failed_rank are set */
    tutti_status status;
    uint32_t failed_rank;
    char error[512]; /* sentence for tutti_last_error */
};

/* Gets have the request and the run in one cookie. */
enum { TT_REQUEST_ALIGNMENT = 64 };

tutti_status tt_request_create(struct tt_group *group, const struct tt_request_options *options,
                               struct tt_request **request);
void tt_request_destroy(struct tt_request *request);

static inline uint64_t tt_request_cookie(const struct tt_request *request, uint32_t run)
{
    return (uint64_t)(uintptr_t)request | run;
}

#endif
