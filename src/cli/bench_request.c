/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: from a benchmark's buffers to the library's call.
 *
 * Normal path: which of the buffers there are says where the source is: none to send from, and it is in place.
 *
 * Failures: the library's, with its own sentence.
 */
#include "cli/bench_request.h"

#include <assert.h>
#include <stddef.h>

#include "tutti/reduction.h"

/* The benchmark's enumerations are those of the header. */
#define SAME_TYPE(type, ...) static_assert((int)TT_TYPE_##type == (int)TUTTI_##type, "types of tutti/reduction.h");
TT_TYPES(SAME_TYPE)
#undef SAME_TYPE
#define SAME_OPERATION(operation, ...)                                                                                 \
    static_assert((int)TT_REDUCE_##operation == (int)TUTTI_##operation, "operations of tutti/reduction.h");
TT_REDUCE_OPERATIONS(SAME_OPERATION)
#undef SAME_OPERATION

static tutti_status init_reduction(tutti_group *group, const struct tt_bench_buffers *buffers, const void *send,
                                   void *factor, const tutti_request_options *options, tutti_request **request)
{
    const struct tt_bench_job *job = &buffers->job;
    const tutti_type type = (tutti_type)job->type;
    const tutti_operation operation = (tutti_operation)job->operation;
    uint64_t count = buffers->block_bytes / buffers->results.elements.element_bytes;
    tutti_reduction_options reduction = {.struct_size = sizeof(reduction)};
    if (job->operation == TT_REDUCE_USER) {
        reduction.function = tt_bench_compose;
        reduction.is_not_commutative = true;
        reduction.element_bytes = buffers->results.elements.element_bytes;
    }
    if (job->operation == TT_REDUCE_PREMULTIPLIED_SUM) {
        tt_bench_factor_encode(job->type, buffers->rank, factor);
        reduction.factor = factor;
    }
    switch (job->collective) {
    case TT_BENCH_REDUCE:
        return tutti_reduce_init(group, send, buffers->receive, count, type, operation, &reduction, job->root, options,
                                 request);
    case TT_BENCH_ALLREDUCE:
        return tutti_allreduce_init(group, send, buffers->receive, count, type, operation, &reduction, options,
                                    request);
    default:
        return tutti_reduce_scatter_init(group, send, buffers->receive, count, type, operation, &reduction, options,
                                         request);
    }
}

tutti_status tt_bench_request_init(tutti_group *group, const struct tt_bench_buffers *buffers, void *factor,
                                   const tutti_request_options *options, tutti_request **request)
{
    const struct tt_bench_job *job = &buffers->job;
    const void *send = buffers->send != NULL ? buffers->send : TUTTI_IN_PLACE;
    const uint64_t block = buffers->block_bytes;
    switch (job->collective) {
    case TT_BENCH_BARRIER:
        return tutti_barrier_init(group, options, request);
    case TT_BENCH_BROADCAST:
        return tutti_broadcast_init(group, send, buffers->receive, block, job->root, options, request);
    case TT_BENCH_ALLGATHER:
        return tutti_allgather_init(group, send, buffers->receive, block, options, request);
    case TT_BENCH_GATHER:
        return tutti_gather_init(group, send, buffers->receive, block, job->root, options, request);
    case TT_BENCH_SCATTER: /* in place it is the root's result that lies in the source */
        return tutti_scatter_init(group, buffers->send, buffers->receive, block, job->root, options, request);
    default:
        return init_reduction(group, buffers, send, factor, options, request);
    }
}
