/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Elements in and out. Normal path: where vectors come together, the own one goes to its place among them when the
 * request is posted, and when all are there they are combined along the one tree: by the root, whose result all get; by
 * each rank on the way to it; or, of what is eager, by all. The result goes to the user. A rank that is not the root
 * may have others' vectors to pass on. Two ranks that get a part each need no more of each other's vector than that.
 *
 * Failures: no memory; an operation that the type does not have.
 */
#include "engine/combine.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/cache_line.h"
#include "base/log.h"
#include "base/pages.h"
#include "engine/request.h"
#include "offload/fold.h"
#include "plan/fold_tree.h"
#include "proto/terms.h"

static enum tt_vectors vectors_of(const struct tt_request *request)
{
    const struct tt_request_options *options = &request->options;
    const uint32_t size = request->group->size;
    const struct tt_collective_terms terms = tt_request_terms(options, options->method, size);

    if (tt_terms_fold(&terms, size)) {
        return TT_VECTORS_OF_CHILDREN;
    }
    return tt_terms_swap(&terms, size) ? TT_VECTORS_SWAPPED : TT_VECTORS_OF_ALL;
}

static uint32_t child_count(const struct tt_request *request)
{
    return tt_fold_tree_child_count(request->group->size, request->options.root, request->group->rank);
}

/* Of each vector that comes together. */
static uint64_t vector_bytes(const struct tt_request *request)
{
    return request->vectors_are == TT_VECTORS_SWAPPED ? request->options.block_bytes / 2 : request->options.block_bytes;
}

static uint64_t part_bytes(const struct tt_request *request)
{
    const struct tt_collective_terms terms = {.block_bytes = request->options.block_bytes,
                                              .element_bytes = request->element_bytes};

    return tt_terms_part_bytes(&terms, request->group->size);
}

/* What is needed besides the vectors of all ranks: where a result comes of which this rank keeps a part. */
static uint64_t result_bytes(const struct tt_request *request)
{
    const struct tt_request_options *options = &request->options;
    bool comes = tt_method_row(options->method)->gathers && tt_kind_row(options->kind)->gets == TT_SHARE_OWN;

    return comes ? tt_whole_lines(options->block_bytes) : 0; /* what is behind it is aligned */
}

/* All parts, if they are not whole; else they are in the user's buffer. */
static uint64_t parts_bytes(const struct tt_request *request)
{
    uint64_t bytes = part_bytes(request) * request->group->size;

    return bytes == request->options.block_bytes ? 0 : bytes;
}

static tutti_status allocate(struct tt_request *request)
{
    const struct tt_request_options *options = &request->options;
    const struct tt_method_row *row = tt_method_row(options->method);
    uint64_t vectors = request->vectors_are == TT_VECTORS_OF_CHILDREN ? 1 + child_count(request) : request->group->size;
    uint64_t all = row->keeps_copies && !row->by_parts ? vector_bytes(request) * vectors : 0,
             result = result_bytes(request);
    uint64_t bytes = row->by_parts ? parts_bytes(request) : all + result;

    if (bytes == 0 || options->block_bytes == 0) {
        return TUTTI_OK;
    }
    request->scratch = tt_pages_allocate(bytes);
    if (request->scratch == NULL) {
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_NO_MEMORY, "no memory for %llu bytes of %u ranks",
                        (unsigned long long)bytes, request->group->size);
    }
    request->vectors = all > 0 ? request->scratch + result : NULL;
    request->buffer = !row->gathers || result > 0 ? request->scratch : request->buffer;
    return TUTTI_OK;
}

tutti_status tt_combine_create(struct tt_request *request)
{
    const struct tt_combining *combining = &request->options.combining;
    tutti_status status;

    if (!tt_kind_row(request->options.kind)->combines) {
        return TUTTI_OK;
    }
    if (combining->operation == TT_REDUCE_USER) {
        status = tt_reduction_init_user(&request->reduction, combining->type, combining->element_bytes,
                                        combining->function, combining->context, !combining->keeps_order);
    } else {
        status = tt_reduction_init(&request->reduction, combining->type, combining->operation);
    }
    request->vectors_are = vectors_of(request);
    return status == TUTTI_OK ? allocate(request) : status;
}

void tt_combine_read(struct tt_request *request)
{
    const struct tt_combining *combining = &request->options.combining;

    if (combining->factor != NULL) {
        uint32_t bytes = tt_type_row(tt_type_row(combining->type)->accumulator)->bytes;

        assert(bytes <= sizeof request->factor);
        memcpy(&request->factor, combining->factor, bytes);
    }
}

void tt_combine_give(const struct tt_request *request, void *destination, const void *source, uint64_t count)
{
    const struct tt_combining *combining = &request->options.combining;

    if (combining->factor != NULL) {
        tt_reduce_scale(combining->type, destination, source, &request->factor, count);
    } else if (destination != source) {
        memcpy(destination, source, count * request->element_bytes);
    }
}

void tt_combine_take(const struct tt_request *request, void *destination, const void *source, uint64_t count)
{
    if (tt_kind_row(request->options.kind)->combines && request->options.combining.operation == TT_REDUCE_AVERAGE) {
        tt_reduce_divide(request->options.combining.type, destination, source, request->group->size, count);
    } else if (destination != source) {
        memcpy(destination, source, count * request->element_bytes);
    }
}

struct tt_combine_range tt_combine_all(const struct tt_request *request)
{
    uint64_t count = request->options.block_bytes / request->element_bytes;

    return (struct tt_combine_range){.count = count *
                                              (tt_kind_has_blocks(request->options.kind) ? request->group->size : 1)};
}

struct tt_combine_range tt_combine_part(const struct tt_request *request, uint32_t rank)
{
    const struct tt_request_options *options = &request->options;
    uint64_t all = tt_combine_all(request).count;
    struct tt_combine_range range = {.count = all / request->group->size};

    if (options->counts != NULL) {
        for (uint32_t before = 0; before < rank; before++) {
            range.first += options->counts[before];
        }
        range.count = options->counts[rank];
        return range;
    }
    if (tt_method_row(options->method)->by_parts) {
        range.count = part_bytes(request) / request->element_bytes;
    }
    range.first = rank * range.count < all ? rank * range.count : all;
    range.count = range.count < all - range.first ? range.count : all - range.first;
    return range;
}

static struct tt_combine_range share(const struct tt_request *request, enum tt_share share, bool root_alone)
{
    if (root_alone && request->group->rank != request->options.root) {
        return (struct tt_combine_range){0};
    }
    return share == TT_SHARE_OWN ? tt_combine_part(request, request->group->rank) : tt_combine_all(request);
}

struct tt_combine_range tt_combine_gives(const struct tt_request *request)
{
    const struct tt_kind_row *row = tt_kind_row(request->options.kind);

    return share(request, row->gives, row->root_gives);
}

struct tt_combine_range tt_combine_gets(const struct tt_request *request)
{
    const struct tt_kind_row *row = tt_kind_row(request->options.kind);

    return share(request, row->gets, row->root_gets);
}

/* Elements of the own vector, where this rank's are among those that come together. */
static void give(const struct tt_request *request, struct tt_combine_range range)
{
    uint32_t place = request->vectors_are == TT_VECTORS_OF_CHILDREN ? 0 : request->group->rank;
    uint8_t *own = request->vectors + place * vector_bytes(request);

    tt_combine_give(request, own, (const uint8_t *)request->source + range.first * request->element_bytes, range.count);
}

void tt_combine_post(struct tt_request *request)
{
    if (request->vectors != NULL) {
        give(request, request->vectors_are == TT_VECTORS_SWAPPED ? tt_combine_part(request, 1 - request->group->rank)
                                                                 : tt_combine_all(request));
    }
}

static const uint8_t *fold(struct tt_request *request, struct tt_combine_range range)
{
    return tt_fold(&request->reduction, request->vectors + range.first * request->element_bytes, vector_bytes(request),
                   request->group->size, range.count);
}

/* What the other rank has sent is of this one's part, and its own of that takes the place of what it has sent. */
static const uint8_t *fold_swapped(struct tt_request *request, struct tt_combine_range part)
{
    give(request, part);
    return fold(request, (struct tt_combine_range){.count = part.count});
}

/* The own vector becomes that of all ranks that this one speaks for. */
static const uint8_t *fold_children(struct tt_request *request, uint64_t count)
{
    const uint32_t rank = request->group->rank, children = child_count(request);
    uint8_t *own = request->vectors;

    for (uint32_t i = 0; i < children; i++) {
        const uint8_t *its = own + (1 + i) * request->options.block_bytes;
        bool is_lower = tt_fold_tree_child(request->group->size, request->options.root, rank, i) < rank;

#ifdef TT_FAULT_CHILD_SWAPPED
        is_lower = false;
#endif
        tt_reduction_combine(&request->reduction, own, is_lower ? its : own, is_lower ? own : its, count);
    }
    return own;
}

void tt_combine_gathered(struct tt_request *request)
{
    const struct tt_request_options *options = &request->options;
    struct tt_combine_range all = tt_combine_all(request);
    const uint8_t *result =
        request->vectors_are == TT_VECTORS_OF_CHILDREN ? fold_children(request, all.count) : fold(request, all);

    if (request->group->rank != options->root) {
        return; /* it is passed on */
    }
    if (tt_kind_row(options->kind)->root_gets) {
        tt_combine_take(request, options->receive, result, all.count);
    } else {
        memcpy(request->buffer, result, options->block_bytes);
    }
}

static const uint8_t *result_of(struct tt_request *request, struct tt_combine_range range)
{
    if (tt_method_row(request->options.method)->gathers) {
        return request->buffer + range.first * request->element_bytes;
    }
    return request->vectors_are == TT_VECTORS_SWAPPED ? fold_swapped(request, range) : fold(request, range);
}

static void end_combined(struct tt_request *request)
{
    const struct tt_request_options *options = &request->options;
    struct tt_combine_range range = tt_combine_gets(request);
    bool is_here = tt_method_row(options->method)->gathers && tt_kind_row(options->kind)->root_gets;

    if (range.count > 0 && !is_here) {
        tt_combine_take(request, options->receive, result_of(request, range), range.count);
    }
}

void tt_combine_end(struct tt_request *request)
{
    if (request->vectors != NULL) {
        end_combined(request);
    } else if (tt_method_row(request->options.method)->by_parts && request->buffer == request->scratch) {
        memcpy(request->options.receive, request->scratch, request->options.block_bytes);
    }
}
