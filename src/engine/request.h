/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A request in the engine: one collective on fixed buffers, with all the memory that its runs need, and its sending.
 */
#ifndef TT_ENGINE_REQUEST_H
#define TT_ENGINE_REQUEST_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/combine.h"
#include "engine/group.h"
#include "engine/transmit.h"
#include "proto/collective.h"

struct tt_triggered;

struct tt_request_options {
    enum tt_collective_kind kind;
    const void *send; /* what this rank gives; NULL if it is in place or there is none */
    void *receive;
    uint64_t block_bytes;   /* that a rank gives; of a scatter, that it gets */
    uint32_t root;          /* 0 where there is none */
    const uint64_t *counts; /* of a reduce-scatter: elements of each rank, copied; NULL: the same of all */
    struct tt_combining combining;
    enum tt_method method;
    uint64_t timeout_ns;
};

/* Who moves a request's data, where its method says that somebody else does (proto/mover_relay.c). relay_done is set,
 * and the group's stepping_needed, when it is moved, or given up. */
struct tt_carrier {
    void (*post)(struct tt_request *request);
    void (*start)(struct tt_request *request);  /* RELAY */
    void (*cancel)(struct tt_request *request); /* UNRELAY */
    void (*end)(struct tt_request *request);    /* it has ended, with its status; NULL: nothing to do */
};

struct tt_request {
    struct tt_post post; /* first: in the queue from application threads */
    struct tt_group *group;
    struct tt_request *next; /* in group->active */
    struct tt_request_options options;
    struct tt_collective collective;
    struct tt_transmit transmit;
    struct tt_stream *streams;
    uint8_t *buffer;    /* what chunks are placed in: options.receive, the record of a release, or scratch */
    uint8_t *scratch;   /* the request's own: vectors of all ranks, a result that is not all for this rank, parts, or
                           a schedule's vector; NULL */
    uint8_t *vectors;   /* in it: those that come together and are combined here; NULL */
    const void *source; /* what this rank gives, in place or not */
    uint32_t element_bytes; /* 1 where nothing is combined */
    enum tt_vectors vectors_are;
    struct tt_reduction reduction; /* of a kind that combines */
    uint64_t factor;               /* bytes of the one that combining.factor pointed at when it was posted */
    uint8_t record[TT_RELEASE_BYTES];
    struct tt_p2p_memory *memory;
    uint32_t key_bytes;
    uint8_t key[TT_P2P_MAX_KEY_BYTES];
    void *block; /* one allocation for streams, bitmaps, positions, cursors */

    const struct tt_carrier *carrier; /* NULL: its method has none */
    struct tt_triggered *triggered;   /* NULL: its carrier is not the triggered engine */
    struct tt_relay *relay;           /* NULL: its carrier is no object group */
    uint64_t relay_number;            /* which of the relay's objects it is */
    bool relay_started;               /* RELAY has been asked for */
    bool relay_offered;               /* its data would come, and waits for that */
    bool relay_done;                  /* its data is moved, or will never be */

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

/* Of the terms kind, method, bytes of a block and of an element: whether that can be served in a group of `size`; a
 * status other than OK has its sentence. */
tutti_status tt_request_check_method(const struct tt_collective_terms *terms, uint32_t size);

/* The terms that say how much there is to be moved, and how, in a group of `size`. */
struct tt_collective_terms tt_request_terms(const struct tt_request_options *options, enum tt_method method,
                                            uint32_t size);

/* Whether there are PSNs for it, with the group's chunks and subgroups. */
bool tt_request_fits(const struct tt_group *group, const struct tt_request_options *options);

tutti_status tt_request_create(struct tt_group *group, const struct tt_request_options *options,
                               struct tt_request **request);
void tt_request_destroy(struct tt_request *request);

/* Asserts what holds between two calls. */
void tt_request_check(const struct tt_request *request);

/* Whether a worker sends it, and not the control context. */
static inline bool tt_request_has_sender(const struct tt_request *request)
{
    return request->group->engine->workers != NULL && request->transmit.queues != NULL;
}

/* Whether the control context may send chunks of it that it might not when it last tried. */
static inline bool tt_request_is_allowed(const struct tt_request *request)
{
    return !tt_request_has_sender(request) && request->transmit.queues != NULL && request->transmit.due_ns == 0;
}

/* Of a group's list: this one, or NULL if it waits in line, as all behind it do. However many those are, they cost
 * nothing at each event. */
static inline struct tt_request *tt_request_in_flight(struct tt_request *request)
{
    return request != NULL && request->collective.state != TT_COLLECTIVE_IDLE ? request : NULL;
}

/* Whether its carrier's answer is to be handed on. */
static inline bool tt_request_is_carried(const struct tt_request *request)
{
    return request->carrier != NULL && request->relay_started && request->relay_done &&
           !request->collective.relay.relayed;
}

/* The cookie of a get: the collective's number, as far as there is room, and the run. */
enum { TT_REQUEST_RUN_BITS = 6 };

static inline uint64_t tt_request_cookie(const struct tt_request *request, uint32_t run)
{
    return tt_party_cookie(&request->group->party,
                           tt_party_payload(request->collective.sequence << TT_REQUEST_RUN_BITS | run));
}

#endif
