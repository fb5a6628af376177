/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The endpoints of a category, made through libibverbs: for every thread a completion queue and its queue pairs, which
 * are in state RESET and are the caller's to connect. Who makes queue pairs later, and in numbers that are not known
 * before, asks for none, and gets what a category gives each thread to make them on.
 *
 * Where a provider has no thread domains, or lacks them in part, the dynamic categories become `static`: plain queue
 * pairs in one context. What was made is reported as the effective category. Running out of something is a failure.
 */
#ifndef TT_ENDPOINT_CREATE_H
#define TT_ENDPOINT_CREATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "endpoint/category.h"
#include "tutti/status.h"

struct ibv_context;
struct ibv_cq;
struct ibv_device;
struct ibv_mr;
struct ibv_pd;
struct ibv_qp;
struct tt_endpoint_calls;
struct tt_endpoints;

struct tt_endpoint_options {
    struct ibv_device *device; /* the caller's; as ibv_get_device_list() lends it, needed while this is created only */
    enum tt_endpoint_category category;
    uint32_t threads;
    uint32_t queue_pairs_per_thread; /* 0: the caller makes them, and the completion queues, on the lane's domain */
    uint32_t threads_per_domain;     /* of a context, that share a protection domain and its registration; 0: all */
    bool shared_queues;              /* several threads poll a completion queue, whatever the category */
    int queue_pair_type;             /* enum ibv_qp_type */
    uint32_t send_depth;             /* work requests of a queue pair */
    uint32_t receive_depth;          /* the same; may be 0 */
    uint32_t completion_depth;       /* entries of a completion queue */
    uint32_t inline_bytes;           /* that a send may carry in its work request */
    void *buffer; /* registered in each protection domain, for writing from near and far; NULL: nothing
                     is. The caller's; it must outlive the endpoints */
    size_t buffer_bytes;
};

/* Where on the NIC a queue pair rings: known on mlx5 only. */
struct tt_endpoint_doorbell {
    bool known;
    bool blueflame;  /* else it can only be rung */
    uint64_t page;   /* the address at which the page is mapped: queue pairs of one context share it, or do not */
    uint32_t offset; /* of the register in the page */
};

/* A queue pair and what it lives on. All are the endpoints', and valid until these are destroyed. */
struct tt_endpoint_lane {
    struct ibv_context *context;
    struct ibv_pd *pd;     /* for further registrations: the one below that of a thread domain */
    struct ibv_pd *domain; /* what queue pairs are made on: pd, or the parent domain above it */
    struct ibv_mr *mr;     /* NULL without a buffer */
    struct ibv_cq *cq;     /* NULL without queue pairs */
    struct ibv_qp *qp;     /* the same */
    struct tt_endpoint_doorbell doorbell;
};

/* What was made, in the words of plan.h. */
struct tt_endpoint_made {
    enum tt_endpoint_category effective;
    bool lock_free_queues; /* completion queues know that only one thread polls them */
    uint32_t contexts;
    uint32_t protection_domains;
    uint32_t memory_regions;
    uint32_t queue_pairs;
    uint32_t completion_queues;
    uint32_t thread_domains;
    uint32_t idle_domains;
    uint32_t parent_domains;
    uint32_t doorbell_pages; /* different ones that queue pairs ring at; 0: not known */
};

/* The real functions, for whoever has loaded them (rdma_library.h); NULL in a build without libibverbs. */
const struct tt_endpoint_calls *tt_endpoint_libibverbs(void);

/*
 * Makes all, or nothing: INVALID_ARGUMENT for options that cannot be, NO_RESOURCE if the device or the system has no
 * more of something (the text says of what, which one and of how many), NOT_SUPPORTED, NO_MEMORY, else IO.
 */
tutti_status tt_endpoints_create(const struct tt_endpoint_calls *calls, const struct tt_endpoint_options *options,
                                 struct tt_endpoints **endpoints);

/* The same on the device of this name (NULL: the first), whatever the options say of one; NOT_SUPPORTED if there is
 * none. */
tutti_status tt_endpoints_create_on(const struct tt_endpoint_calls *calls, const char *name,
                                    const struct tt_endpoint_options *options, struct tt_endpoints **endpoints);

/* Destroys everything in the opposite order. No queue pair may be in use; NULL is allowed. */
void tt_endpoints_destroy(struct tt_endpoints *endpoints);

const struct tt_endpoint_made *tt_endpoints_made(const struct tt_endpoints *endpoints);

/* A thread's queue pair, or without queue pairs its only lane, 0; with mpi+threads the same for all threads. The struct
 * is the endpoints'. */
const struct tt_endpoint_lane *tt_endpoints_lane(const struct tt_endpoints *endpoints, uint32_t thread,
                                                 uint32_t queue_pair);

#endif
