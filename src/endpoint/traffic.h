/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RDMA writes and reads by several threads over the endpoints of a category, whose reliable queue pairs are connected
 * to each other on one port: what the paper on scalable endpoints measures (sections V and VII), with both ends on one
 * device.
 *
 * The endpoints that are measured are `sets`, each what one process would have. Threads are counted through all of
 * them. A thread has a lane for each of its queue pairs; it alone may use it, also where the queue pair is another's as
 * well.
 */
#ifndef TT_ENDPOINT_TRAFFIC_H
#define TT_ENDPOINT_TRAFFIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "endpoint/create.h"

struct tt_traffic;
struct tt_traffic_lane;

enum tt_traffic_shape {
    /* Each queue pair is connected to a passive one, whose context has the far buffer and is not counted. */
    TT_TRAFFIC_TO_TARGET,
    /* Lane 1 of a thread leads to lane 0 of the same thread of the next set, behind the last set is the first. */
    TT_TRAFFIC_RING
};

struct tt_traffic_options {
    const struct tt_endpoint_calls *calls;
    const char *device; /* "mlx5_0" */
    uint32_t port;
    uint32_t gid_index, pkey_index;
    enum tt_traffic_shape shape;
    enum tt_endpoint_category category;
    uint32_t sets;
    uint32_t threads; /* of a set */
    uint32_t lanes;   /* of a thread: 1, or 2 in a ring */
    /* The x of x-way sharing, each a divisor of `threads`; 1: as the category has it. At most one of the last two is
     * more, and then there is one lane. A queue pair is not shared in a thread domain: the provider would do without
     * its lock. */
    uint32_t threads_per_domain; /* protection domain; 0: one for all of a context */
    uint32_t threads_per_completion_queue;
    uint32_t threads_per_queue_pair;
    uint32_t depth;        /* work requests of a queue pair: a multiple of the two that follow */
    uint32_t postlist;     /* work requests posted with one call */
    uint32_t unsignalled;  /* of this many one is signalled; divides `postlist` or is a multiple of it */
    uint32_t inline_bytes; /* all writes carry their data in the work request; 0: none does */
    /* What is registered in every protection domain: near_bytes of each set, sets are near_stride apart (0: the same
     * for all); NULL: nothing is. And at the target; NULL in a ring. Both must outlive the traffic. */
    void *near;
    size_t near_bytes, near_stride;
    void *far;
    size_t far_bytes;
    bool yields; /* who waits gives up its core: there are more threads than cores */
};

/*
 * Makes everything and connects it, or nothing. NOT_SUPPORTED if there is no such device; else as
 * tt_endpoints_create(). One thread at a time, as all functions here but those of lanes.
 */
tutti_status tt_traffic_create(const struct tt_traffic_options *options, struct tt_traffic **traffic);

/* No thread uses a lane any more; NULL is allowed. */
void tt_traffic_destroy(struct tt_traffic *traffic);

/* Of all sets together, with what was registered since. */
const struct tt_endpoint_made *tt_traffic_made(const struct tt_traffic *traffic);

/* Another registration for the lanes of a thread, which is counted. The memory is the caller's and outlives it. */
tutti_status tt_traffic_register(struct tt_traffic *traffic, uint32_t thread, void *address, size_t bytes,
                                 uint32_t *local_key);

struct tt_traffic_lane *tt_traffic_lane(struct tt_traffic *traffic, uint32_t thread, uint32_t lane);
uint32_t tt_traffic_local_key(const struct tt_traffic_lane *lane);  /* of the near buffer */
uint32_t tt_traffic_remote_key(const struct tt_traffic_lane *lane); /* of the far one; in a ring the next set's near */

struct tt_traffic_work {
    bool is_read; /* else a write */
    void *local;  /* written from, read to; nobody else may touch it until it is completed */
    uint32_t local_key;
    void *remote;
    uint32_t remote_key;
    uint32_t bytes;
};

/*
 * Posts the work `count` times, in lists and with completions as the options say; waits where the queue pair is full.
 * The last of `count` is signalled always. IO if the device refuses it or ends it with an error, TIMED_OUT if nothing
 * was completed for half a minute, CANCELED if another lane has failed. Nothing can be done after an error.
 */
tutti_status tt_traffic_post(struct tt_traffic_lane *lane, const struct tt_traffic_work *work, uint64_t count);

/* Waits until all that this lane posted is completed; the same errors. */
tutti_status tt_traffic_finish(struct tt_traffic_lane *lane);

#endif
