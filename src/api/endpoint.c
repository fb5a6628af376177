/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Public functions of endpoints: arguments are checked, the rest is src/endpoint's.
 *
 * Normal path: a plan is counted by the model of today's driver; a set is created on the device of that name, and keeps
 * what it was asked for, as its resources are those of the plan for the category that became effective.
 *
 * Failures: arguments that cannot be; and what creation reports.
 */
#include "tutti/endpoint.h"

#include <stdlib.h>

#include "base/log.h"
#include "endpoint/create.h"
#include "endpoint/plan.h"
#include "endpoint/rdma_library.h"

_Static_assert((int)TUTTI_ENDPOINT_MPI_EVERYWHERE == (int)TT_ENDPOINT_MPI_EVERYWHERE &&
                   (int)TUTTI_ENDPOINT_2XDYNAMIC == (int)TT_ENDPOINT_2XDYNAMIC &&
                   (int)TUTTI_ENDPOINT_DYNAMIC == (int)TT_ENDPOINT_DYNAMIC &&
                   (int)TUTTI_ENDPOINT_SHARED_DYNAMIC == (int)TT_ENDPOINT_SHARED_DYNAMIC &&
                   (int)TUTTI_ENDPOINT_STATIC == (int)TT_ENDPOINT_STATIC &&
                   (int)TUTTI_ENDPOINT_MPI_THREADS == (int)TT_ENDPOINT_MPI_THREADS,
               "categories have the same numbers inside and outside");

struct tutti_endpoints {
    struct tt_endpoints *endpoints;
    uint32_t threads, queue_pairs_per_thread;
};

static tutti_status check_pointer(const void *pointer, const char *name)
{
    return pointer != NULL ? TUTTI_OK : tt_error(TT_PART_API, TUTTI_ERR_INVALID_ARGUMENT, "%s is NULL", name);
}

static tutti_status check_size(size_t struct_size, size_t needed, const char *name)
{
    return struct_size >= needed
               ? TUTTI_OK
               : tt_error(TT_PART_API, TUTTI_ERR_INVALID_ARGUMENT, "struct_size of the endpoint %s is %zu, not %zu",
                          name, struct_size, needed);
}

static tutti_status check_shape(tutti_endpoint_category category, uint32_t threads, uint32_t queue_pairs)
{
    if ((unsigned)category >= TT_ENDPOINT_CATEGORY_COUNT) {
        return tt_error(TT_PART_API, TUTTI_ERR_INVALID_ARGUMENT, "%d is no category of endpoints", (int)category);
    }
    if (threads < 1 || threads > TT_ENDPOINT_THREADS_MAX) {
        return tt_error(TT_PART_API, TUTTI_ERR_INVALID_ARGUMENT, "endpoints for %u threads: there may be 1 to %d",
                        threads, TT_ENDPOINT_THREADS_MAX);
    }
    if (queue_pairs < 1 || queue_pairs > TT_ENDPOINT_QUEUE_PAIRS_MAX) {
        return tt_error(TT_PART_API, TUTTI_ERR_INVALID_ARGUMENT, "%u queue pairs a thread: there may be 1 to %d",
                        queue_pairs, TT_ENDPOINT_QUEUE_PAIRS_MAX);
    }
    return TUTTI_OK;
}

/* All but what only creation knows. */
static void fill_in(enum tt_endpoint_category category, uint32_t threads, uint32_t queue_pairs,
                    tutti_endpoint_resources *resources)
{
    struct tt_endpoint_terms terms = {.category = category,
                                      .driver = TT_ENDPOINT_CURRENT,
                                      .threads = threads,
                                      .queue_pairs_per_thread = queue_pairs,
                                      .total_uuars = TT_UUARS_DEFAULT,
                                      .low_latency_uuars = TT_UUARS_LOW_LATENCY_DEFAULT};
    struct tt_endpoint_plan plan;

    tt_endpoint_plan(&terms, 1, &plan);
    *resources = (tutti_endpoint_resources){.struct_size = resources->struct_size,
                                            .category = (tutti_endpoint_category)category,
                                            .contexts = plan.contexts,
                                            .protection_domains = plan.protection_domains,
                                            .memory_regions = plan.memory_regions,
                                            .queue_pairs = plan.queue_pairs,
                                            .completion_queues = plan.completion_queues,
                                            .thread_domains = plan.thread_domains + plan.idle_domains,
                                            .uar_pages = plan.uar_pages,
                                            .uuars_allocated = plan.uuars_allocated,
                                            .uuars_used = plan.uuars_used,
                                            .uuars_wasted = plan.uuars_wasted,
                                            .bytes = plan.bytes};
}

tutti_status tutti_endpoints_plan(tutti_endpoint_category category, uint32_t threads, uint32_t queue_pairs_per_thread,
                                  tutti_endpoint_resources *resources)
{
    tutti_status status;

    tt_clear_error();
    status = check_pointer(resources, "resources");
    if (status == TUTTI_OK) {
        status = check_size(resources->struct_size, sizeof *resources, "resources");
    }
    if (status == TUTTI_OK) {
        status = check_shape(category, threads, queue_pairs_per_thread);
    }
    if (status == TUTTI_OK) {
        fill_in((enum tt_endpoint_category)category, threads, queue_pairs_per_thread, resources);
    }
    return status;
}

static tutti_status create_set(const tutti_endpoint_options *options, struct tt_endpoints **endpoints)
{
    struct tt_endpoint_options inner = {.category = (enum tt_endpoint_category)options->category,
                                        .threads = options->threads,
                                        .queue_pairs_per_thread = options->queue_pairs_per_thread,
                                        .queue_pair_type = options->queue_pair_type,
                                        .send_depth = options->send_depth,
                                        .receive_depth = options->receive_depth,
                                        .completion_depth = options->completion_depth,
                                        .inline_bytes = options->inline_bytes,
                                        .buffer = options->buffer,
                                        .buffer_bytes = options->buffer_bytes};

    tutti_status status = tt_rdma_library_load();
    if (status != TUTTI_OK) {
        TT_LOG(TT_PART_API, TT_LOG_ERROR, "%s", tt_last_error());
        return status;
    }
    return tt_endpoints_create_on(tt_endpoint_libibverbs(), options->device, &inner, endpoints);
}

tutti_status tutti_endpoints_create(const tutti_endpoint_options *options, tutti_endpoints **endpoints)
{
    tutti_status status;

    tt_clear_error();
    status = options == NULL ? check_pointer(options, "options") : check_pointer(endpoints, "endpoints");
    if (status == TUTTI_OK) {
        status = check_size(options->struct_size, sizeof *options, "options");
    }
    if (status == TUTTI_OK) {
        status = check_shape(options->category, options->threads, options->queue_pairs_per_thread);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    tutti_endpoints *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return tt_error(TT_PART_API, TUTTI_ERR_NO_MEMORY, "no memory for endpoints");
    }
    made->threads = options->threads;
    made->queue_pairs_per_thread = options->queue_pairs_per_thread;
    status = create_set(options, &made->endpoints);
    if (status != TUTTI_OK) {
        free(made);
        return status;
    }
    *endpoints = made;
    return TUTTI_OK;
}

void tutti_endpoints_destroy(tutti_endpoints *endpoints)
{
    tt_clear_error();
    if (endpoints != NULL) {
        tt_endpoints_destroy(endpoints->endpoints);
        free(endpoints);
    }
}

tutti_status tutti_endpoints_query(const tutti_endpoints *endpoints, tutti_endpoint_resources *resources)
{
    tutti_status status;

    tt_clear_error();
    status = endpoints == NULL ? check_pointer(endpoints, "endpoints") : check_pointer(resources, "resources");
    if (status == TUTTI_OK) {
        status = check_size(resources->struct_size, sizeof *resources, "resources");
    }
    if (status == TUTTI_OK) {
        const struct tt_endpoint_made *made = tt_endpoints_made(endpoints->endpoints);

        fill_in(made->effective, endpoints->threads, endpoints->queue_pairs_per_thread, resources);
        /* One is planned for each context; without a buffer there is none. */
        resources->bytes -= (resources->memory_regions - made->memory_regions) * (uint64_t)TT_ENDPOINT_REGION_BYTES;
        resources->memory_regions = made->memory_regions;
        resources->doorbell_pages = made->doorbell_pages;
    }
    return status;
}

tutti_status tutti_endpoints_lane(const tutti_endpoints *endpoints, uint32_t thread, uint32_t queue_pair,
                                  tutti_endpoint_lane *lane)
{
    const struct tt_endpoint_lane *inner;
    tutti_status status;

    tt_clear_error();
    status = endpoints == NULL ? check_pointer(endpoints, "endpoints") : check_pointer(lane, "lane");
    if (status == TUTTI_OK) {
        status = check_size(lane->struct_size, sizeof *lane, "lane");
    }
    if (status != TUTTI_OK) {
        return status;
    }
    if (thread >= endpoints->threads || queue_pair >= endpoints->queue_pairs_per_thread) {
        return tt_error(TT_PART_API, TUTTI_ERR_INVALID_ARGUMENT,
                        "queue pair %u of thread %u: there are %u threads with %u queue pairs", queue_pair, thread,
                        endpoints->threads, endpoints->queue_pairs_per_thread);
    }
    inner = tt_endpoints_lane(endpoints->endpoints, thread, queue_pair);
    *lane = (tutti_endpoint_lane){.struct_size = lane->struct_size,
                                  .context = inner->context,
                                  .pd = inner->pd,
                                  .mr = inner->mr,
                                  .cq = inner->cq,
                                  .qp = inner->qp,
                                  .doorbell_known = inner->doorbell.known,
                                  .blueflame = inner->doorbell.blueflame,
                                  .doorbell_page = inner->doorbell.page,
                                  .doorbell_offset = inner->doorbell.offset};
    return TUTTI_OK;
}
