/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Scalable endpoints: the queue pairs that the threads of a process take from a NIC for RDMA of their own, in one of
 * six categories, from all of one's own to all shared. The context's own threads choose by the setting ENDPOINTS.
 *
 *     tutti_endpoint_options options = {.struct_size = sizeof options, .category = TUTTI_ENDPOINT_DYNAMIC, .threads =
 * 16, .queue_pairs_per_thread = 1, .queue_pair_type = IBV_QPT_RC, .send_depth = 128, .completion_depth = 128};
 *     tutti_endpoint_lane lane = {.struct_size = sizeof lane};
 *     tutti_endpoints *endpoints;
 *
 *     tutti_endpoints_create(&options, &endpoints);
 *     tutti_endpoints_lane(endpoints, thread, 0, &lane);           in each thread: lane.qp, to be connected and used
 *     tutti_endpoints_destroy(endpoints);
 *
 * What they are made of are objects of libibverbs, which are used with its functions; a program that only hands them on
 * needs no header of it. What a category costs can be had before (tutti_endpoints_plan(), and `tutti plan endpoints`).
 *
 * Sizes are in bytes. A function that fails returns a negative status, sets no output, and leaves a sentence with the
 * offending value in tutti_last_error().
 *
 * Threads: all functions may be called from several threads at once, but tutti_endpoints_destroy() only when nobody
 * uses the endpoints any more. A lane is for the thread that it is of: with a thread domain its queue pair has no lock.
 * With TUTTI_ENDPOINT_MPI_THREADS there is one for all threads, and libibverbs' locks are there.
 *
 * Source: Zambre, Chandramowlishwaran and Balaji, "Scalable Communication Endpoints for MPI+Threads Applications",
 * ICPADS'18, sections V and VI, Table I and appendix B.
 */
#ifndef TUTTI_ENDPOINT_H
#define TUTTI_ENDPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tutti/export.h"
#include "tutti/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Of libibverbs. */
struct ibv_context;
struct ibv_cq;
struct ibv_mr;
struct ibv_pd;
struct ibv_qp;

typedef struct tutti_endpoints tutti_endpoints;

/* Section VI. */
typedef enum tutti_endpoint_category {
    TUTTI_ENDPOINT_MPI_EVERYWHERE, /* a context a thread */
    TUTTI_ENDPOINT_2XDYNAMIC,      /* one context; twice as many thread domains and queue pairs as are used */
    TUTTI_ENDPOINT_DYNAMIC, /* one context; a thread domain with a doorbell page of its own for each queue pair */
    TUTTI_ENDPOINT_SHARED_DYNAMIC, /* one context; a thread domain for each queue pair, two of them on a page */
    TUTTI_ENDPOINT_STATIC,         /* one context, no thread domains: the driver chooses registers */
    TUTTI_ENDPOINT_MPI_THREADS     /* all threads share one thread's worth of queue pairs, and the completion queue */
} tutti_endpoint_category;

/* What a set of endpoints takes. The pages with doorbell registers (UARs), the registers (uUARs) and the bytes are
 * those of an mlx5 NIC under the driver of today, by the model of `tutti plan endpoints`. */
typedef struct tutti_endpoint_resources {
    size_t struct_size;               /* sizeof(tutti_endpoint_resources), set by the caller */
    tutti_endpoint_category category; /* of what was created: the effective one, which may not be the one asked for */
    uint64_t contexts;
    uint64_t protection_domains;
    uint64_t memory_regions;
    uint64_t queue_pairs; /* idle ones too */
    uint64_t completion_queues;
    uint64_t thread_domains; /* idle ones too */
    uint64_t uar_pages;
    uint64_t uuars_allocated;
    uint64_t uuars_used;
    uint64_t uuars_wasted;   /* allocated, but not used */
    uint64_t bytes;          /* of main memory (Table I) */
    uint64_t doorbell_pages; /* of what was created: different ones that its queue pairs really ring at; 0: not known,
                                as on all but mlx5 */
} tutti_endpoint_resources;

/*
 * What `threads` threads (1 to 4096) of one process would take, with so many queue pairs each (1 to 64) that share a
 * completion queue, and one memory region a context. Nothing is opened; works without libibverbs and without a NIC.
 * Errors: INVALID_ARGUMENT.
 */
TUTTI_EXPORT tutti_status tutti_endpoints_plan(tutti_endpoint_category category, uint32_t threads,
                                               uint32_t queue_pairs_per_thread, tutti_endpoint_resources *resources);

typedef struct tutti_endpoint_options {
    size_t struct_size; /* sizeof(tutti_endpoint_options) */
    const char *device; /* "mlx5_0", as `tutti info -d` lists them, read during the call only; NULL: the first */
    tutti_endpoint_category category;
    uint32_t threads;                /* 1 to 4096 */
    uint32_t queue_pairs_per_thread; /* 1 to 64; they share a completion queue */
    int queue_pair_type;             /* enum ibv_qp_type of libibverbs */
    uint32_t send_depth;             /* work requests of a queue pair, at least 1 */
    uint32_t receive_depth;          /* the same; may be 0 */
    uint32_t completion_depth;       /* entries of a completion queue, at least 1 */
    uint32_t inline_bytes;           /* that a send may carry in its work request; may be 0 */
    void *buffer; /* registered in each context, for reading and writing from here and from remote; NULL: nothing is.
                     The caller's, and must stay allocated until tutti_endpoints_destroy() */
    size_t buffer_bytes;
} tutti_endpoint_options;

/*
 * Creates a set of endpoints: for each thread a completion queue, without a lock where only that thread polls it, and
 * its queue pairs, in state RESET. All or nothing. Where the device's provider has no thread domains the dynamic
 * categories become TUTTI_ENDPOINT_STATIC; tutti_endpoints_query() tells. The caller owns the set until
 * tutti_endpoints_destroy().
 * Errors: INVALID_ARGUMENT; NOT_SUPPORTED (a build without libibverbs, or a host without rdma-core's libraries, no such
 * device, a type of queue pair that it does not have); NO_RESOURCE (the device or the system has no more: the sentence
 * says of what, which one it would have been, and of how many); NO_MEMORY; IO.
 */
TUTTI_EXPORT tutti_status tutti_endpoints_create(const tutti_endpoint_options *options, tutti_endpoints **endpoints);

/* Destroys all that was created, the last first. What the caller made of it (registrations) must be gone. NULL is
 * allowed. */
TUTTI_EXPORT void tutti_endpoints_destroy(tutti_endpoints *endpoints);

/* What the set takes, and its effective category. Errors: INVALID_ARGUMENT. */
TUTTI_EXPORT tutti_status tutti_endpoints_query(const tutti_endpoints *endpoints, tutti_endpoint_resources *resources);

/* A thread's queue pair, and what belongs to it. The objects are the set's, and valid until it is destroyed. */
typedef struct tutti_endpoint_lane {
    size_t struct_size; /* sizeof(tutti_endpoint_lane), set by the caller */
    struct ibv_context *context;
    struct ibv_pd *pd; /* for registrations that the queue pair is to use */
    struct ibv_mr *mr; /* of the buffer; NULL without one */
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    bool doorbell_known;      /* whether the provider says where the queue pair rings: mlx5 does; else the rest is 0 */
    bool blueflame;           /* work requests may be written there, too */
    uint64_t doorbell_page;   /* the address at which the page is mapped */
    uint32_t doorbell_offset; /* of the register in it */
} tutti_endpoint_lane;

/* `thread` and `queue_pair` are counted from 0. With TUTTI_ENDPOINT_MPI_THREADS it is the same for all threads.
 * Errors: INVALID_ARGUMENT. */
TUTTI_EXPORT tutti_status tutti_endpoints_lane(const tutti_endpoints *endpoints, uint32_t thread, uint32_t queue_pair,
                                               tutti_endpoint_lane *lane);

#ifdef __cplusplus
}
#endif

#endif
