/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Public functions of collectives that combine, gather or scatter. Normal path: the arguments are checked, all of them,
 * and become the engine's options of a request. Failures: what is wrong is said before anything is made.
 */
#include "tutti/reduction.h"

#include "api/create.h"
#include "base/log.h"

enum { MOST_ELEMENT_BYTES = 32768 /* two of them are the longest operand of a triggered message */ };

/* Who asks for TUTTI_IN_PLACE where it cannot be is told what can. */
static const char at_root[] = "only the root may say so", by_part[] = "in place, receive is the own part of send";

/* A buffer that is read as a whole. */
static tutti_status check_source(const void *send, uint64_t bytes, const char *in_place)
{
    if (bytes > 0 && send == NULL) {
        return tt_error(TT_PART_API, TUTTI_ERR_INVALID_ARGUMENT, "send is NULL for %llu bytes",
                        (unsigned long long)bytes);
    }
    if (bytes > 0 && send == TUTTI_IN_PLACE) {
        return tt_error(TT_PART_API, TUTTI_ERR_INVALID_ARGUMENT, "send is TUTTI_IN_PLACE for %llu bytes: %s",
                        (unsigned long long)bytes, in_place);
    }
    return TUTTI_OK;
}

/* The own part of a vector that is read, or apart from it. */
static tutti_status check_part(const void *send, uint64_t send_bytes, const void *part, const void *receive,
                               uint64_t receive_bytes)
{
    if (receive != part && tt_api_overlaps(send, send_bytes, receive, receive_bytes)) {
        return tt_error(TT_PART_API, TUTTI_ERR_INVALID_ARGUMENT,
                        "receive (%llu bytes at %p) overlaps send (%llu bytes at %p), and is not the own part of it",
                        (unsigned long long)receive_bytes, receive, (unsigned long long)send_bytes, send);
    }
    return TUTTI_OK;
}

/* --- What combines ------------------------------------------------------------------------------------------------ */

static tutti_status check_options(tutti_type type, tutti_operation operation, const tutti_reduction_options *options)
{
    if ((unsigned)type >= TT_TYPE_COUNT) {
        return tt_error(TT_PART_API, TUTTI_ERR_INVALID_ARGUMENT, "type %d does not exist", (int)type);
    }
    if ((unsigned)operation >= TT_REDUCE_OPERATION_COUNT) {
        return tt_error(TT_PART_API, TUTTI_ERR_INVALID_ARGUMENT, "operation %d does not exist", (int)operation);
    }
    if (options != NULL && options->struct_size < sizeof *options) {
        return tt_error(TT_PART_API, TUTTI_ERR_INVALID_ARGUMENT, "struct_size of the reduction options is %zu, not %zu",
                        options->struct_size, sizeof *options);
    }
    if (operation == TUTTI_USER && (options == NULL || options->function == NULL)) {
        return tt_error(TT_PART_API, TUTTI_ERR_INVALID_ARGUMENT, "operation user without a function");
    }
    if (operation == TUTTI_PREMULTIPLIED_SUM && (options == NULL || options->factor == NULL)) {
        return tt_error(TT_PART_API, TUTTI_ERR_INVALID_ARGUMENT, "operation premultiplied-sum without a factor");
    }
    return TUTTI_OK;
}

/* INVALID_ARGUMENT for a size that the type does not have, TOO_LARGE for one that no algorithm has room for. */
static tutti_status element_bytes_of(tutti_type type, const tutti_reduction_options *options, uint32_t *element_bytes)
{
    uint32_t given = options == NULL ? 0 : options->element_bytes, own = tt_type_row(type)->bytes;

    if (type == TUTTI_OPAQUE ? given == 0 : given != 0 && given != own) {
        return tt_error(TT_PART_API, TUTTI_ERR_INVALID_ARGUMENT, "elements of %u bytes, of type %s", given,
                        tt_type_row(type)->name);
    }
    if (type == TUTTI_OPAQUE && given > MOST_ELEMENT_BYTES) {
        return tt_error(TT_PART_API, TUTTI_ERR_TOO_LARGE, "elements of %u bytes: %d is the most", given,
                        MOST_ELEMENT_BYTES);
    }
    *element_bytes = type == TUTTI_OPAQUE ? given : own;
    return TUTTI_OK;
}

static tutti_status describe(struct tt_request_options *inner, tutti_type type, tutti_operation operation,
                             const tutti_reduction_options *options)
{
    struct tt_combining *combining = &inner->combining;
    tutti_status status = check_options(type, operation, options);

    if (status == TUTTI_OK) {
        status = element_bytes_of(type, options, &combining->element_bytes);
    }
    if (status == TUTTI_OK && operation != TUTTI_USER) {
        status = tt_reduce_supported(type, operation);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    combining->type = (enum tt_type)type;
    combining->operation = (enum tt_reduce_operation)operation;
    if (operation == TUTTI_USER) {
        combining->function = options->function;
        combining->context = options->context;
        combining->keeps_order = options->is_not_commutative;
    }
    combining->factor = operation == TUTTI_PREMULTIPLIED_SUM ? options->factor : NULL;
    return TUTTI_OK;
}

/* Bytes of `count` elements; INVALID_ARGUMENT for more than memory. */
static tutti_status measure(uint64_t count, uint32_t element_bytes, uint64_t *bytes)
{
    if (count > (UINT64_C(1) << 47) / element_bytes) {
        return tt_error(TT_PART_API, TUTTI_ERR_INVALID_ARGUMENT, "%llu elements of %u bytes: more than memory",
                        (unsigned long long)count, element_bytes);
    }
    *bytes = count * element_bytes;
    return TUTTI_OK;
}

static tutti_status begin(const tutti_group *group, tutti_type type, tutti_operation operation,
                          const tutti_reduction_options *reduction, const tutti_request_options *options,
                          tutti_request **request, struct tt_request_options *inner)
{
    tutti_status status;

    tt_clear_error();
    status = tt_api_check_common(group, options, request);
    return status == TUTTI_OK ? describe(inner, type, operation, reduction) : status;
}

tutti_status tutti_reduce_init(tutti_group *group, const void *send, void *receive, uint64_t count, tutti_type type,
                               tutti_operation operation, const tutti_reduction_options *reduction, uint32_t root,
                               const tutti_request_options *options, tutti_request **request)
{
    struct tt_request_options inner = {.kind = TT_REDUCE, .root = root};
    tutti_status status = begin(group, type, operation, reduction, options, request, &inner);

    if (status == TUTTI_OK) {
        status = tt_api_check_root(group, root);
    }
    if (status == TUTTI_OK) {
        status = measure(count, inner.combining.element_bytes, &inner.block_bytes);
    }
    if (status == TUTTI_OK && root != group->group->rank) {
        inner.send = send;
        status = check_source(send, inner.block_bytes, at_root);
    } else if (status == TUTTI_OK) {
        inner.receive = receive;
        status = tt_api_check_receive(receive, inner.block_bytes, 1);
        if (status == TUTTI_OK) {
            status = tt_api_check_send(send, receive, receive, inner.block_bytes, inner.block_bytes, &inner.send);
        }
    }
    return status == TUTTI_OK ? tt_api_create_request(group, &inner, options, request) : status;
}

tutti_status tutti_allreduce_init(tutti_group *group, const void *send, void *receive, uint64_t count, tutti_type type,
                                  tutti_operation operation, const tutti_reduction_options *reduction,
                                  const tutti_request_options *options, tutti_request **request)
{
    struct tt_request_options inner = {.kind = TT_ALLREDUCE, .receive = receive};
    tutti_status status = begin(group, type, operation, reduction, options, request, &inner);

    if (status == TUTTI_OK) {
        status = measure(count, inner.combining.element_bytes, &inner.block_bytes);
    }
    if (status == TUTTI_OK) {
        status = tt_api_check_receive(receive, inner.block_bytes, 1);
    }
    if (status == TUTTI_OK) {
        status = tt_api_check_send(send, receive, receive, inner.block_bytes, inner.block_bytes, &inner.send);
    }
    return status == TUTTI_OK ? tt_api_create_request(group, &inner, options, request) : status;
}

/* With the parts in elements: the own one's beginning and length, and all. */
static tutti_status reduce_scatter(tutti_group *group, struct tt_request_options *inner, uint64_t first, uint64_t own,
                                   uint64_t count, const tutti_request_options *options, tutti_request **request)
{
    uint64_t element_bytes = inner->combining.element_bytes;
    tutti_status status = measure(count, inner->combining.element_bytes, &inner->block_bytes);

    if (status == TUTTI_OK) {
        status = check_source(inner->send, inner->block_bytes, by_part);
    }
    if (status == TUTTI_OK) {
        status = tt_api_check_receive(inner->receive, own * element_bytes, 1);
    }
    if (status == TUTTI_OK && own > 0) {
        status = check_part(inner->send, inner->block_bytes, (const uint8_t *)inner->send + first * element_bytes,
                            inner->receive, own * element_bytes);
    }
    return status == TUTTI_OK ? tt_api_create_request(group, inner, options, request) : status;
}

tutti_status tutti_reduce_scatter_init(tutti_group *group, const void *send, void *receive, uint64_t count,
                                       tutti_type type, tutti_operation operation,
                                       const tutti_reduction_options *reduction, const tutti_request_options *options,
                                       tutti_request **request)
{
    struct tt_request_options inner = {.kind = TT_REDUCE_SCATTER, .send = send, .receive = receive};
    tutti_status status = begin(group, type, operation, reduction, options, request, &inner);
    uint64_t bytes;

    if (status == TUTTI_OK) {
        status = measure(count, inner.combining.element_bytes, &bytes);
    }
    if (status == TUTTI_OK) { /* size <= TT_MAX_RANKS, so the product is a number */
        status = reduce_scatter(group, &inner, count * group->group->rank, count, count * group->group->size, options,
                                request);
    }
    return status;
}

tutti_status tutti_reduce_scatter_counts_init(tutti_group *group, const void *send, void *receive,
                                              const uint64_t *counts, tutti_type type, tutti_operation operation,
                                              const tutti_reduction_options *reduction,
                                              const tutti_request_options *options, tutti_request **request)
{
    struct tt_request_options inner = {.kind = TT_REDUCE_SCATTER, .send = send, .receive = receive, .counts = counts};
    tutti_status status = begin(group, type, operation, reduction, options, request, &inner);
    uint64_t first = 0, sum = 0, bytes;

    if (status == TUTTI_OK && counts == NULL) {
        status = tt_error(TT_PART_API, TUTTI_ERR_INVALID_ARGUMENT, "counts is NULL");
    }
    for (uint32_t rank = 0; status == TUTTI_OK && rank < group->group->size; rank++) {
        status = measure(counts[rank], inner.combining.element_bytes, &bytes);
        first = rank == group->group->rank ? sum : first;
        sum += counts[rank];
    }
    return status == TUTTI_OK ? reduce_scatter(group, &inner, first, counts[group->group->rank], sum, options, request)
                              : status;
}

/* --- What only moves ---------------------------------------------------------------------------------------------- */

tutti_status tutti_gather_init(tutti_group *group, const void *send, void *receive, uint64_t length_bytes,
                               uint32_t root, const tutti_request_options *options, tutti_request **request)
{
    struct tt_request_options inner = {.kind = TT_GATHER, .block_bytes = length_bytes, .root = root};
    tutti_status status;

    tt_clear_error();
    status = tt_api_check_common(group, options, request);
    if (status == TUTTI_OK) {
        status = tt_api_check_root(group, root);
    }
    if (status == TUTTI_OK && root != group->group->rank) {
        inner.send = send;
        status = tt_api_check_length(length_bytes, group->group->size);
        status = status == TUTTI_OK ? check_source(send, length_bytes, at_root) : status;
    } else if (status == TUTTI_OK) {
        inner.receive = receive;
        status = tt_api_check_receive(receive, length_bytes, group->group->size);
        if (status == TUTTI_OK) {
            const uint8_t *block = length_bytes > 0 ? (const uint8_t *)receive + root * length_bytes : receive;

            status =
                tt_api_check_send(send, block, receive, length_bytes * group->group->size, length_bytes, &inner.send);
        }
    }
    return status == TUTTI_OK ? tt_api_create_request(group, &inner, options, request) : status;
}

tutti_status tutti_scatter_init(tutti_group *group, const void *send, void *receive, uint64_t length_bytes,
                                uint32_t root, const tutti_request_options *options, tutti_request **request)
{
    struct tt_request_options inner = {
        .kind = TT_SCATTER, .receive = receive, .block_bytes = length_bytes, .root = root};
    tutti_status status;

    tt_clear_error();
    status = tt_api_check_common(group, options, request);
    if (status == TUTTI_OK) {
        status = tt_api_check_root(group, root);
    }
    if (status == TUTTI_OK) {
        status = tt_api_check_receive(receive, length_bytes, group->group->size);
    }
    if (status == TUTTI_OK && root == group->group->rank) {
        uint64_t all = length_bytes * group->group->size;

        inner.send = send;
        status = check_source(send, all, by_part);
        if (status == TUTTI_OK && length_bytes > 0) {
            status = check_part(send, all, (const uint8_t *)send + root * length_bytes, receive, length_bytes);
        }
    }
    return status == TUTTI_OK ? tt_api_create_request(group, &inner, options, request) : status;
}

tutti_status tutti_barrier_init(tutti_group *group, const tutti_request_options *options, tutti_request **request)
{
    return tutti_allgather_init(group, NULL, NULL, 0, options, request);
}
