/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Making endpoints that are connected, with a lane for each thread and queue pair.
 *
 * Normal path: the endpoints of each set are created; what several threads share becomes endpoints that are made for
 * fewer threads (a queue pair), or with more queue pairs each (a completion queue). Then each thread gets its lanes,
 * each queue pair its room, and an other end: one of a passive set that is made last, or one of the next set.
 *
 * Failures: everything made so far is destroyed again, in the opposite order.
 */
#include "endpoint/traffic.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "endpoint/traffic_private.h"

/* --- Memory ------------------------------------------------------------------------------------------------------- */

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static void *lines_of(size_t count, size_t bytes)
{
    void *memory = aligned_alloc(TT_CACHE_LINE_BYTES, count * bytes);

    return memory != NULL ? memset(memory, 0, count * bytes) : NULL;
}

static tutti_status reserve(struct tt_traffic *traffic)
{
    const struct tt_traffic_options *options = &traffic->options;
    size_t lanes = (size_t)options->sets * options->threads * options->lanes;

    traffic->unit = larger(options->postlist, options->unsignalled);
    traffic->poll_capacity = options->depth / options->unsignalled;
    traffic->sets = calloc(options->sets + 1, sizeof(struct tt_endpoints *));
    traffic->lanes = lines_of(lanes, sizeof(*traffic->lanes));
    traffic->queues = lines_of(lanes, sizeof(*traffic->queues));
    traffic->list_memory = calloc(lanes * options->postlist, sizeof(*traffic->list_memory));
    traffic->part_memory = calloc(lanes * options->postlist, sizeof(*traffic->part_memory));
    traffic->completion_memory = calloc(lanes * traffic->poll_capacity, sizeof(*traffic->completion_memory));
    if (traffic->sets == NULL || traffic->lanes == NULL || traffic->queues == NULL || traffic->list_memory == NULL ||
        traffic->part_memory == NULL || traffic->completion_memory == NULL) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_NO_MEMORY, "no memory for %zu lanes", lanes);
    }
    return TUTTI_OK;
}

/* --- Endpoints ---------------------------------------------------------------------------------------------------- */

static tutti_status find_device(struct tt_traffic *traffic, struct ibv_device **device)
{
    int count = 0;

    traffic->devices = traffic->options.calls->get_device_list(&count);
    for (int i = 0; traffic->devices != NULL && i < count; i++) {
        if (strcmp(traffic->devices[i]->name, traffic->options.device) == 0) {
            *device = traffic->devices[i];
            return TUTTI_OK;
        }
    }
    return tt_error(TT_PART_FABRIC, TUTTI_ERR_NOT_SUPPORTED, "%s: no such RDMA device", traffic->options.device);
}

static tutti_status create_set(struct tt_traffic *traffic, const struct tt_endpoint_options *set)
{
    tutti_status status = tt_endpoints_create(traffic->options.calls, set, &traffic->sets[traffic->set_count]);

    traffic->set_count += status == TUTTI_OK;
    return status;
}

static void sum_up(struct tt_endpoint_made *sum, const struct tt_endpoint_made *set)
{
    sum->effective = set->effective;
    sum->lock_free_queues = set->lock_free_queues;
    sum->contexts += set->contexts;
    sum->protection_domains += set->protection_domains;
    sum->memory_regions += set->memory_regions;
    sum->queue_pairs += set->queue_pairs;
    sum->completion_queues += set->completion_queues;
    sum->thread_domains += set->thread_domains;
    sum->idle_domains += set->idle_domains;
    sum->parent_domains += set->parent_domains;
    sum->doorbell_pages += set->doorbell_pages;
}

/* The x-way sharing of a queue pair is a matter of fewer "threads", that of a completion queue of more queue pairs. */
static tutti_status create_sets(struct tt_traffic *traffic, struct ibv_device *device)
{
    const struct tt_traffic_options *options = &traffic->options;
    uint32_t sharers = larger(options->threads_per_completion_queue, options->threads_per_queue_pair);
    struct tt_endpoint_options set = {.device = device,
                                      .category = options->category,
                                      .threads = options->threads / sharers,
                                      .queue_pairs_per_thread = options->lanes * options->threads_per_completion_queue,
                                      .threads_per_domain = options->threads_per_domain,
                                      .shared_queues = sharers > 1,
                                      .queue_pair_type = IBV_QPT_RC,
                                      .send_depth = options->depth,
                                      .inline_bytes = options->inline_bytes,
                                      .buffer_bytes = options->near_bytes};
    tutti_status status = TUTTI_OK;

    set.completion_depth = options->depth * set.queue_pairs_per_thread;
    for (uint32_t i = 0; i < options->sets && status == TUTTI_OK; i++) {
        set.buffer = options->near != NULL ? (char *)options->near + i * options->near_stride : NULL;
        status = create_set(traffic, &set);
        if (status == TUTTI_OK) {
            sum_up(&traffic->made, tt_endpoints_made(traffic->sets[i]));
        }
    }
    return status;
}

/* --- Lanes -------------------------------------------------------------------------------------------------------- */

static const struct tt_endpoint_lane *endpoint_of(const struct tt_traffic *traffic, uint32_t thread, uint32_t lane)
{
    const struct tt_traffic_options *options = &traffic->options;
    const struct tt_endpoints *set = traffic->sets[thread / options->threads];
    uint32_t number = thread % options->threads, polling = options->threads_per_completion_queue;

    return tt_endpoints_lane(set, number / polling / options->threads_per_queue_pair,
                             number % polling * options->lanes + lane);
}

static void init_lane(struct tt_traffic *traffic, uint32_t thread, uint32_t number)
{
    const struct tt_traffic_options *options = &traffic->options;
    uint32_t index = thread * options->lanes + number;
    struct tt_traffic_lane *lane = &traffic->lanes[index];
    /* Whoever shares a queue pair comes right before. */
    struct tt_traffic_lane *before = thread > 0 ? lane - options->lanes : NULL;
    bool is_shared = options->threads_per_completion_queue > 1 || options->threads_per_queue_pair > 1 ||
                     traffic->made.effective == TT_ENDPOINT_MPI_THREADS;

    *lane =
        (struct tt_traffic_lane){.traffic = traffic,
                                 .endpoint = endpoint_of(traffic, thread, number),
                                 .is_shared = is_shared,
                                 .index = index,
                                 .list = &traffic->list_memory[(size_t)index * options->postlist],
                                 .parts = &traffic->part_memory[(size_t)index * options->postlist],
                                 .completions = &traffic->completion_memory[(size_t)index * traffic->poll_capacity]};
    for (uint32_t i = 0; i < options->postlist; i++) {
        lane->list[i].next = i + 1 < options->postlist ? &lane->list[i + 1] : NULL;
        lane->list[i].sg_list = &lane->parts[i];
        lane->list[i].num_sge = 1;
    }
    if (before != NULL && before->queue->qp == lane->endpoint->qp) {
        lane->queue = before->queue;
        return;
    }
    lane->queue = &traffic->queues[traffic->queue_count++];
    lane->queue->qp = lane->endpoint->qp;
    atomic_init(&lane->queue->room, options->depth);
}

static void init_lanes(struct tt_traffic *traffic)
{
    const struct tt_traffic_options *options = &traffic->options;

    for (uint32_t thread = 0; thread < options->sets * options->threads; thread++) {
        for (uint32_t number = 0; number < options->lanes; number++) {
            init_lane(traffic, thread, number);
            traffic->lane_count++;
        }
    }
}

/* --- The other ends ----------------------------------------------------------------------------------------------- */

static bool is_first_of_queue(const struct tt_traffic *traffic, uint32_t index)
{
    uint32_t stride = traffic->options.lanes;

    return index < stride || traffic->lanes[index].queue != traffic->lanes[index - stride].queue;
}

static tutti_status connect_to_target(struct tt_traffic *traffic, struct ibv_device *device,
                                      const struct tt_traffic_path *path)
{
    const struct tt_traffic_options *options = &traffic->options;
    struct tt_endpoint_options target = {.device = device,
                                         .category = TT_ENDPOINT_STATIC,
                                         .threads = traffic->queue_count,
                                         .queue_pairs_per_thread = 1,
                                         .queue_pair_type = IBV_QPT_RC,
                                         .send_depth = 1,
                                         .completion_depth = 1,
                                         .buffer = options->far,
                                         .buffer_bytes = options->far_bytes};
    uint32_t connected = 0;
    tutti_status status = create_set(traffic, &target);

    for (uint32_t i = 0; i < traffic->lane_count && status == TUTTI_OK; i++) {
        struct tt_traffic_lane *lane = &traffic->lanes[i];
        if (is_first_of_queue(traffic, i)) {
            const struct tt_endpoint_lane *end = tt_endpoints_lane(traffic->sets[options->sets], connected++, 0);
            status = tt_traffic_connect(options->calls, path, lane->queue->qp, end->qp);
        }
        lane->remote_key = tt_endpoints_lane(traffic->sets[options->sets], 0, 0)->mr->rkey;
    }
    return status;
}

static tutti_status connect_ring(struct tt_traffic *traffic, const struct tt_traffic_path *path)
{
    const struct tt_traffic_options *options = &traffic->options;
    uint32_t threads = options->sets * options->threads;
    tutti_status status = TUTTI_OK;

    for (uint32_t thread = 0; thread < threads && status == TUTTI_OK; thread++) {
        struct tt_traffic_lane *onward = tt_traffic_lane(traffic, thread, 1);
        struct tt_traffic_lane *back = tt_traffic_lane(traffic, (thread + options->threads) % threads, 0);
        if (is_first_of_queue(traffic, onward->index)) {
            status = tt_traffic_connect(options->calls, path, onward->queue->qp, back->queue->qp);
        }
        onward->remote_key = back->endpoint->mr->rkey;
        back->remote_key = onward->endpoint->mr->rkey;
    }
    return status;
}

/* --- Creation as a whole ------------------------------------------------------------------------------------------ */

static void check(const struct tt_traffic_options *options)
{
    assert(options->sets >= 1 && options->lanes >= 1 && options->threads >= 1);
    assert(options->postlist >= 1 && options->unsignalled >= 1 &&
           larger(options->postlist, options->unsignalled) %
                   (options->postlist < options->unsignalled ? options->postlist : options->unsignalled) ==
               0);
    assert(options->depth > 0 && options->depth % larger(options->postlist, options->unsignalled) == 0);
    assert(options->threads_per_completion_queue == 1 || options->threads_per_queue_pair == 1);
    assert(options->lanes == 1 || (options->threads_per_completion_queue == 1 && options->threads_per_queue_pair == 1));
    assert(options->threads % (options->threads_per_completion_queue * options->threads_per_queue_pair) == 0);
    assert(options->shape == TT_TRAFFIC_RING ? options->lanes == 2 && options->near != NULL : options->far != NULL);
    (void)options;
}

tutti_status tt_traffic_create(const struct tt_traffic_options *options, struct tt_traffic **traffic)
{
    struct tt_traffic *made = calloc(1, sizeof(*made));
    struct ibv_device *device = NULL;
    struct tt_traffic_path path;

    check(options);
    if (made == NULL) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_NO_MEMORY, "no memory for RDMA traffic");
    }
    made->options = *options;
    tutti_status status = reserve(made);
    if (status == TUTTI_OK) {
        status = find_device(made, &device);
    }
    if (status == TUTTI_OK) {
        status = create_sets(made, device);
    }
    if (status == TUTTI_OK) {
        init_lanes(made);
        status = tt_traffic_find_path(options, made->lanes[0].endpoint->context, &path);
    }
    if (status == TUTTI_OK) {
        status = options->shape == TT_TRAFFIC_RING ? connect_ring(made, &path) : connect_to_target(made, device, &path);
    }
    if (status != TUTTI_OK) {
        tt_traffic_destroy(made);
        return status;
    }
    *traffic = made;
    return TUTTI_OK;
}

void tt_traffic_destroy(struct tt_traffic *traffic)
{
    if (traffic == NULL) {
        return;
    }
    while (traffic->region_count > 0) {
        if (traffic->options.calls->dereg_mr(traffic->regions[--traffic->region_count]) != 0) {
            TT_LOG(TT_PART_FABRIC, TT_LOG_WARN, "a memory region cannot be destroyed");
        }
    }
    while (traffic->set_count > 0) {
        tt_endpoints_destroy(traffic->sets[--traffic->set_count]);
    }
    if (traffic->devices != NULL) {
        traffic->options.calls->free_device_list(traffic->devices);
    }
    free(traffic->regions);
    free(traffic->sets);
    free(traffic->lanes);
    free(traffic->queues);
    free(traffic->list_memory);
    free(traffic->part_memory);
    free(traffic->completion_memory);
    free(traffic);
}

const struct tt_endpoint_made *tt_traffic_made(const struct tt_traffic *traffic)
{
    return &traffic->made;
}

tutti_status tt_traffic_register(struct tt_traffic *traffic, uint32_t thread, void *address, size_t bytes,
                                 uint32_t *local_key)
{
    struct ibv_pd *pd = tt_traffic_lane(traffic, thread, 0)->endpoint->pd;
    struct ibv_mr **regions = realloc(traffic->regions, ((size_t)traffic->region_count + 1) * sizeof(struct ibv_mr *));

    if (regions == NULL) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_NO_MEMORY, "no memory for memory region %" PRIu32,
                        traffic->region_count + 1);
    }
    traffic->regions = regions;
    errno = 0;
    struct ibv_mr *region = traffic->options.calls->reg_mr(
        pd, address, bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
    if (region == NULL) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_NO_RESOURCE, "%s: memory region %" PRIu32 " of a thread's own: %s",
                        traffic->options.device, traffic->region_count + 1, strerror(errno));
    }
    regions[traffic->region_count++] = region;
    traffic->made.memory_regions++;
    *local_key = region->lkey;
    return TUTTI_OK;
}

struct tt_traffic_lane *tt_traffic_lane(struct tt_traffic *traffic, uint32_t thread, uint32_t lane)
{
    assert(thread < traffic->options.sets * traffic->options.threads && lane < traffic->options.lanes);
    return &traffic->lanes[thread * traffic->options.lanes + lane];
}

uint32_t tt_traffic_local_key(const struct tt_traffic_lane *lane)
{
    return lane->endpoint->mr->lkey;
}

uint32_t tt_traffic_remote_key(const struct tt_traffic_lane *lane)
{
    return lane->remote_key;
}
