/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives that combine what ranks give, and those that gather at one rank or scatter from it. Requests as in
 * tutti/tutti.h: an _init here, then tutti_post(), tutti_wait() or tutti_test(), tutti_finalize(), as often as wanted.
 *
 *     tutti_allreduce_init(group, TUTTI_IN_PLACE, gradient, count, TUTTI_FP32, TUTTI_SUM, NULL, &request);
 *
 * Results are the same bits whatever order data comes in; they depend on inputs, ranks, which of them share a host,
 * and algorithm. With the setting DETERMINISTIC=strict each element is combined along one tree of the ranks, so that
 * they depend on inputs and the number of ranks alone. What operations mean to the bit (overflow, NaN, signed zero,
 * fp8): docs/reductions.md. Each step of a reduction combines two elements and rounds to the type: fp8, fp16 and bf16
 * compute it in fp32, and round that to nearest even before the next step, so that a sum of many of them loses what is
 * below its last digit.
 *
 * Each rank must give the same kind of collective, root, count, type, operation and algorithm: what differs is
 * MISMATCH, on every rank, and tutti_last_error() has both; when, tutti_post() says. What a user's function does cannot
 * be compared.
 *
 * All functions: local, nothing is sent before tutti_post(). The caller owns buffers; they must stay allocated until
 * tutti_finalize(), and may be used between completion and the next tutti_post(). Buffers need no alignment. `options`
 * may be NULL. Thread safety as in tutti/tutti.h.
 *
 * Errors of all: INVALID_ARGUMENT (NULL with a count, root out of range, overlap, no such type or operation, an
 * operation that the type does not have, a missing function or factor, a vector or all blocks of more than 2^47 bytes,
 * memory that an RDMA device does not find), NOT_SUPPORTED (an algorithm that does not serve the collective, that
 * cannot keep the order of ranks, or that strict does not allow), TOO_LARGE, NO_MEMORY, NO_RESOURCE, IO (memory that
 * cannot be registered); a group that has failed: its error. Which algorithm serves which collective: tutti_algorithm.
 *
 * Protocol: Xu et al., "Order-preserving triggering mechanism and data buffering method for collective communication
 * hardware offloading", J. NUDT 47(6), 2025, sections 1.1 to 1.3 and 2.2; with multicast, Khalilov et al., SC'24.
 */
#ifndef TUTTI_REDUCTION_H
#define TUTTI_REDUCTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tutti/export.h"
#include "tutti/status.h"
#include "tutti/tutti.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Types of elements, in the machine's order of bytes. */
typedef enum tutti_type {
    TUTTI_INT8,
    TUTTI_INT16,
    TUTTI_INT32,
    TUTTI_INT64,
    TUTTI_UINT8,
    TUTTI_UINT16,
    TUTTI_UINT32,
    TUTTI_UINT64,
    TUTTI_FP8_E4M3, /* OFP8 */
    TUTTI_FP8_E5M2,
    TUTTI_FP16,
    TUTTI_BF16,
    TUTTI_FP32,
    TUTTI_FP64,
    TUTTI_OPAQUE /* elements that a user's function knows: tutti_reduction_options.element_bytes each */
} tutti_type;

typedef enum tutti_operation {
    TUTTI_SUM,
    TUTTI_PRODUCT,
    TUTTI_MIN, /* of IEEE 754-2019, section 9.6: NaN if an operand is one, and -0 is below +0 */
    TUTTI_MAX,
    TUTTI_AND, /* bit by bit; integers only, as OR and XOR */
    TUTTI_OR,
    TUTTI_XOR,
    TUTTI_AVERAGE,           /* the sum, divided by the number of ranks */
    TUTTI_PREMULTIPLIED_SUM, /* the sum of each rank's elements times its own factor */
    TUTTI_USER               /* a function of the user's */
} tutti_operation;

/*
 * destination[i] = left[i] operation right[i] for `count` elements. `destination` is `left`, `right`, or apart. Called
 * by whichever thread moves communication along; it must not call the library, and has to be associative. As long as it
 * runs, other threads' calls with the same context may wait for it, tutti_test() too.
 */
typedef void (*tutti_function)(void *destination, const void *left, const void *right, uint64_t count, void *context);

/* What some operations need beside their name. */
typedef struct tutti_reduction_options {
    size_t struct_size;      /* sizeof(tutti_reduction_options) */
    tutti_function function; /* USER: called until tutti_finalize() */
    void *context;           /* USER: handed to the function */
    bool is_not_commutative; /* USER: operands are combined in the order of ranks, left is what lower ranks gave */
    uint32_t element_bytes;  /* OPAQUE: 1 to 32768, by recursive-halving 65536 divided by the ranks, if that is less;
                                otherwise 0, or what an element of the type has */
    const void *factor; /* PREMULTIPLIED_SUM: this rank's, one fp32 for fp8, fp16 and bf16, else one element; read at
                           each tutti_post() */
} tutti_reduction_options;

/*
 * Combines `count` elements of every rank (any number from 0 up), element by element, into `receive` of rank `root`.
 * There, `send` is TUTTI_IN_PLACE or equal to `receive` if the own elements are there already; the others' `send` is
 * only read, and their `receive` is not looked at. Otherwise `send` and `receive` do not overlap. `reduction` may be
 * NULL where the operation needs nothing.
 */
TUTTI_EXPORT tutti_status tutti_reduce_init(tutti_group *group, const void *send, void *receive, uint64_t count,
                                            tutti_type type, tutti_operation operation,
                                            const tutti_reduction_options *reduction, uint32_t root,
                                            const tutti_request_options *options, tutti_request **request);

/* As tutti_reduce_init(), and every rank gets the result; `send` may be TUTTI_IN_PLACE at each of them. */
TUTTI_EXPORT tutti_status tutti_allreduce_init(tutti_group *group, const void *send, void *receive, uint64_t count,
                                               tutti_type type, tutti_operation operation,
                                               const tutti_reduction_options *reduction,
                                               const tutti_request_options *options, tutti_request **request);

/*
 * Combines a vector of size * `count` elements of every rank, of which rank r gets the r-th `count` elements in
 * `receive`. `send` is the whole vector, and is only read; `receive` may be the own part of it (then that part is
 * overwritten), and does not overlap it otherwise.
 */
TUTTI_EXPORT tutti_status tutti_reduce_scatter_init(tutti_group *group, const void *send, void *receive, uint64_t count,
                                                    tutti_type type, tutti_operation operation,
                                                    const tutti_reduction_options *reduction,
                                                    const tutti_request_options *options, tutti_request **request);

/* The same with parts of different lengths: rank r gets counts[r] elements, which follow those of the ranks before it.
 * The same counts at all ranks; they are copied. */
TUTTI_EXPORT tutti_status tutti_reduce_scatter_counts_init(tutti_group *group, const void *send, void *receive,
                                                           const uint64_t *counts, tutti_type type,
                                                           tutti_operation operation,
                                                           const tutti_reduction_options *reduction,
                                                           const tutti_request_options *options,
                                                           tutti_request **request);

/*
 * Rank `root` gets `length_bytes` of every rank, in the order of ranks, at `receive` (size * length_bytes; not looked
 * at elsewhere). At the root `send` may be TUTTI_IN_PLACE, or the own block of `receive`. Otherwise they do not
 * overlap.
 */
TUTTI_EXPORT tutti_status tutti_gather_init(tutti_group *group, const void *send, void *receive, uint64_t length_bytes,
                                            uint32_t root, const tutti_request_options *options,
                                            tutti_request **request);

/*
 * Rank r gets the r-th `length_bytes` of rank `root`'s `send` (size * length_bytes; not looked at elsewhere). At the
 * root `receive` may be the own block of `send`, and otherwise does not overlap it.
 */
TUTTI_EXPORT tutti_status tutti_scatter_init(tutti_group *group, const void *send, void *receive, uint64_t length_bytes,
                                             uint32_t root, const tutti_request_options *options,
                                             tutti_request **request);

/* Ends at no rank before it has been posted at every rank. */
TUTTI_EXPORT tutti_status tutti_barrier_init(tutti_group *group, const tutti_request_options *options,
                                             tutti_request **request);

#ifdef __cplusplus
}
#endif

#endif
