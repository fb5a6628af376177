/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a request does with elements beside moving them: what this rank gives goes in (times its factor, if the sum is a
 * pre-multiplied one), and the result comes out (divided by the ranks, if it is an average). Where every rank, or the
 * root, has all vectors, they are combined here too.
 */
#ifndef TT_ENGINE_COMBINE_H
#define TT_ENGINE_COMBINE_H

#include <stdint.h>

#include "offload/reduce.h"
#include "tutti/status.h"

struct tt_request;

/* Of a request whose kind combines; zeros in others. */
struct tt_combining {
    enum tt_type type;
    enum tt_reduce_operation operation;
    uint32_t element_bytes;
    tt_reduce_function *function; /* USER */
    void *context;
    bool keeps_order;   /* the function is not commutative */
    const void *factor; /* PREMULTIPLIED_SUM: the user's */
};

/* What comes together in the memory of a request that combines: a vector of each rank; the own one, and those of the
 * children that it is combined with on the way up (tt_terms_fold()); of two ranks what each sends the other
 * (tt_terms_swap()). */
enum tt_vectors { TT_VECTORS_OF_ALL, TT_VECTORS_OF_CHILDREN, TT_VECTORS_SWAPPED };

/* Of the collective's vector, in elements. */
struct tt_combine_range {
    uint64_t first, count;
};

/* Checks type and operation, and allocates what the method needs. */
tutti_status tt_combine_create(struct tt_request *request);

/* Before it is posted, in the thread that does: reads the factor. */
void tt_combine_read(struct tt_request *request);

/* `count` elements that this rank gives. */
void tt_combine_give(const struct tt_request *request, void *destination, const void *source, uint64_t count);

/* `count` elements of the result; destination and source are the same or apart. */
void tt_combine_take(const struct tt_request *request, void *destination, const void *source, uint64_t count);

/* All of it; the part or block that is a rank's; and what this rank gives and gets, which may be nothing. */
struct tt_combine_range tt_combine_all(const struct tt_request *request);
struct tt_combine_range tt_combine_part(const struct tt_request *request, uint32_t rank);
struct tt_combine_range tt_combine_gives(const struct tt_request *request);
struct tt_combine_range tt_combine_gets(const struct tt_request *request);

/* Being posted, and ended well: where vectors come together the own one goes in, and what comes of all goes out; where
 * parts are in memory of the request's own, they go to the user. */
void tt_combine_post(struct tt_request *request);
void tt_combine_end(struct tt_request *request);

/* At the root, which has all vectors: what comes of them is what it sends to all, or its own result. */
void tt_combine_gathered(struct tt_request *request);

#endif
