/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Making the endpoints of a category.
 *
 * Normal path: the plan says how many of everything there will be, so that all memory is taken at once. Then, a context
 * for all threads or for each: the device is opened, a protection domain (or several, if so many threads share one as
 * the caller says) and a registration made; for each thread its completion queue; for each queue pair, where the recipe
 * has thread domains, ibv_alloc_td (twice, if the page is to be its own), a parent domain that ties the first to the
 * protection domain, and the queue pair on that. The paper's calls (section VI) are the same, but for its `sharing`
 * attribute, which Verbs does not have. Whatever is made goes to the end of one list; destroying walks that list back.
 *
 * Failures: "not supported" from a thread domain or parent domain, at whichever, undoes everything and starts again as
 * `static`. From a completion queue for one thread only: it gets an ordinary one. Any other failure undoes everything
 * and is reported with what could not be made, the how-manieth, and of how many.
 */
#include "endpoint/create.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "endpoint/calls.h"
#include "endpoint/inventory.h"

enum { MOST_ENTRIES = INT32_MAX, ENDPOINTS_OF_THREAD = 2 /* its own, and an idle one */ };

struct tt_endpoints {
    const struct tt_endpoint_calls *calls;
    struct tt_endpoint_options options;
    const struct tt_endpoint_recipe *recipe; /* of what is being made, or has been */
    struct tt_inventory inventory;
    struct tt_endpoint_lane *lanes; /* idle ones too, as planned */
    uint32_t lane_count;
    struct tt_endpoint_lane base; /* the context at hand, with its domain and registration */
    bool lock_free_queues;
    struct tt_endpoint_made made;
};

/* --- One thing after the other ------------------------------------------------------------------------------------ */

static tutti_status make_context(struct tt_endpoints *endpoints)
{
    const struct tt_endpoint_calls *calls = endpoints->calls;
    struct tt_endpoint_lane *base = &endpoints->base;

    memset(base, 0, sizeof(*base));
    errno = 0;
    base->context = calls->open_device(endpoints->options.device);
    return tt_inventory_keep(&endpoints->inventory, TT_OBJECT_CONTEXT, base->context);
}

/* For the threads that follow, with its registration. */
static tutti_status make_protection_domain(struct tt_endpoints *endpoints)
{
    const struct tt_endpoint_calls *calls = endpoints->calls;
    const struct tt_endpoint_options *options = &endpoints->options;
    struct tt_endpoint_lane *base = &endpoints->base;

    errno = 0;
    base->pd = calls->alloc_pd(base->context);
    tutti_status status = tt_inventory_keep(&endpoints->inventory, TT_OBJECT_PROTECTION_DOMAIN, base->pd);
    if (status != TUTTI_OK || options->buffer == NULL) {
        return status;
    }
    errno = 0;
    base->mr = calls->reg_mr(base->pd, options->buffer, options->buffer_bytes,
                             IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
    return tt_inventory_keep(&endpoints->inventory, TT_OBJECT_MEMORY_REGION, base->mr);
}

static tutti_status make_completion_queue(struct tt_endpoints *endpoints, struct ibv_cq **cq)
{
    const struct tt_endpoint_options *options = &endpoints->options;
    bool one_thread = !endpoints->recipe->one_for_all && !options->shared_queues;
    struct ibv_cq *made =
        tt_endpoint_create_cq(endpoints->calls, endpoints->base.context, options->completion_depth, NULL, &one_thread);
    tutti_status status = tt_inventory_keep(&endpoints->inventory, TT_OBJECT_COMPLETION_QUEUE, made);

    endpoints->lock_free_queues = endpoints->lock_free_queues && one_thread;
    if (status == TUTTI_OK) {
        *cq = made;
    }
    return status;
}

/* A parent domain whose queue pairs all ring at the register of a new thread domain. */
static tutti_status make_domain(struct tt_endpoints *endpoints, struct ibv_pd **pd)
{
    const struct tt_endpoint_calls *calls = endpoints->calls;
    struct ibv_context *context = endpoints->base.context;
    struct ibv_td_init_attr none = {0};

    errno = 0;
    struct ibv_td *td = calls->alloc_td(context, &none);
    tutti_status status = tt_inventory_keep(&endpoints->inventory, TT_OBJECT_THREAD_DOMAIN, td);
    if (status == TUTTI_OK && endpoints->recipe->domains == TT_ENDPOINT_WHOLE_PAGE_DOMAINS) {
        errno = 0;
        status = tt_inventory_keep(&endpoints->inventory, TT_OBJECT_IDLE_DOMAIN, calls->alloc_td(context, &none));
    }
    if (status != TUTTI_OK) {
        return status;
    }
    struct ibv_parent_domain_init_attr attributes = {.pd = endpoints->base.pd, .td = td};
    errno = 0;
    struct ibv_pd *parent = calls->alloc_parent_domain(context, &attributes);
    status = tt_inventory_keep(&endpoints->inventory, TT_OBJECT_PARENT_DOMAIN, parent);
    if (status == TUTTI_OK) {
        *pd = parent;
    }
    return status;
}

static tutti_status make_queue_pair(struct tt_endpoints *endpoints, struct tt_endpoint_lane *lane)
{
    const struct tt_endpoint_options *options = &endpoints->options;
    struct ibv_qp_init_attr attributes = {.send_cq = lane->cq,
                                          .recv_cq = lane->cq,
                                          .cap = {.max_send_wr = options->send_depth,
                                                  .max_recv_wr = options->receive_depth,
                                                  .max_send_sge = 1,
                                                  .max_recv_sge = 1,
                                                  .max_inline_data = options->inline_bytes},
                                          .qp_type = (enum ibv_qp_type)options->queue_pair_type};

    errno = 0;
    lane->qp = endpoints->calls->create_qp(lane->domain, &attributes);
    tutti_status status = tt_inventory_keep(&endpoints->inventory, TT_OBJECT_QUEUE_PAIR, lane->qp);
    if (status == TUTTI_OK) {
        endpoints->calls->find_doorbell(lane->qp, &lane->doorbell);
    }
    return status;
}

/* What a queue pair is made on, and the queue pair itself, where there is a completion queue for it. */
static tutti_status make_lane(struct tt_endpoints *endpoints, struct ibv_cq *cq)
{
    struct tt_endpoint_lane *lane = &endpoints->lanes[endpoints->lane_count];
    tutti_status status = TUTTI_OK;

    *lane = endpoints->base;
    lane->domain = lane->pd;
    lane->cq = cq;
    if (endpoints->recipe->domains != TT_ENDPOINT_NO_DOMAINS) {
        status = make_domain(endpoints, &lane->domain);
    }
    if (status == TUTTI_OK && cq != NULL) {
        status = make_queue_pair(endpoints, lane);
    }
    endpoints->lane_count += status == TUTTI_OK;
    return status;
}

static uint32_t lanes_per_thread(const struct tt_endpoints *endpoints)
{
    return endpoints->options.queue_pairs_per_thread > 0 ? endpoints->options.queue_pairs_per_thread : 1;
}

/* A thread's completion queue with its queue pairs, and the idle ones between them, in the order of assignment.c. */
static tutti_status make_thread(struct tt_endpoints *endpoints)
{
    uint32_t width = endpoints->recipe->twice ? ENDPOINTS_OF_THREAD : 1;
    struct ibv_cq *cqs[ENDPOINTS_OF_THREAD] = {NULL, NULL};
    tutti_status status = TUTTI_OK;

    for (uint32_t i = 0; i < width && endpoints->options.queue_pairs_per_thread > 0 && status == TUTTI_OK; i++) {
        status = make_completion_queue(endpoints, &cqs[i]);
    }
    for (uint32_t i = 0; i < width * lanes_per_thread(endpoints) && status == TUTTI_OK; i++) {
        status = make_lane(endpoints, cqs[i % width]);
    }
    return status;
}

static tutti_status make_all(struct tt_endpoints *endpoints)
{
    uint32_t threads = endpoints->recipe->one_for_all ? 1 : endpoints->options.threads;
    uint32_t per_domain = endpoints->options.threads_per_domain;
    tutti_status status = TUTTI_OK;

    endpoints->lock_free_queues = true;
    for (uint32_t thread = 0; thread < threads && status == TUTTI_OK; thread++) {
        bool has_context = thread > 0 && !endpoints->recipe->context_per_thread;
        bool has_domain = has_context && (per_domain == 0 || thread % per_domain != 0);

        if (!has_context) {
            status = make_context(endpoints);
        }
        if (status == TUTTI_OK && !has_domain) {
            status = make_protection_domain(endpoints);
        }
        if (status == TUTTI_OK) {
            status = make_thread(endpoints);
        }
    }
    return status;
}

/* --- Creation as a whole ------------------------------------------------------------------------------------------ */

/* Decides for a category, and so for how much of everything there will be. */
static void choose(struct tt_endpoints *endpoints, enum tt_endpoint_category category)
{
    const struct tt_endpoint_options *options = &endpoints->options;
    uint64_t *planned = endpoints->inventory.planned;

    endpoints->recipe = tt_endpoint_recipe_of(category);
    endpoints->lane_count = 0;
    tt_inventory_plan(&endpoints->inventory, category, options->threads, options->queue_pairs_per_thread,
                      options->buffer != NULL);
    if (options->threads_per_domain > 0 && !endpoints->recipe->one_for_all && !endpoints->recipe->context_per_thread) {
        planned[TT_OBJECT_PROTECTION_DOMAIN] =
            (options->threads + options->threads_per_domain - 1) / options->threads_per_domain;
        planned[TT_OBJECT_MEMORY_REGION] = options->buffer != NULL ? planned[TT_OBJECT_PROTECTION_DOMAIN] : 0;
    }
}

static tutti_status reserve(struct tt_endpoints *endpoints)
{
    uint64_t lane_count = endpoints->inventory.lanes;

    endpoints->lanes = calloc(lane_count, sizeof(*endpoints->lanes));
    if (endpoints->lanes == NULL) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_NO_MEMORY, "no memory for %" PRIu64 " queue pairs", lane_count);
    }
    return tt_inventory_reserve(&endpoints->inventory);
}

static tutti_status check(const struct tt_endpoint_options *options)
{
    bool has_queue_pairs = options->queue_pairs_per_thread > 0;
    const struct {
        const char *name;
        uint64_t value, least, most;
    } limits[] = {
        {"threads", options->threads, 1, TT_ENDPOINT_THREADS_MAX},
        {"queue pairs a thread", options->queue_pairs_per_thread, 0, TT_ENDPOINT_QUEUE_PAIRS_MAX},
        {"work requests to send", options->send_depth, has_queue_pairs, MOST_ENTRIES},
        {"work requests to receive", options->receive_depth, 0, MOST_ENTRIES},
        {"completions", options->completion_depth, has_queue_pairs, MOST_ENTRIES},
        {"bytes of a buffer", options->buffer_bytes, options->buffer != NULL, UINT64_MAX},
    };

    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        if (limits[i].value < limits[i].least || limits[i].value > limits[i].most) {
            return tt_error(TT_PART_FABRIC, TUTTI_ERR_INVALID_ARGUMENT,
                            "endpoints: %" PRIu64 " %s: must be from %" PRIu64 " to %" PRIu64, limits[i].value,
                            limits[i].name, limits[i].least, limits[i].most);
        }
    }
    return TUTTI_OK;
}

static int compare_pages(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

    return (a > b) - (a < b);
}

/* Contexts map their pages at different addresses, so that these tell pages apart. */
static uint32_t count_pages(const struct tt_endpoints *endpoints)
{
    uint64_t *pages = calloc(endpoints->lane_count, sizeof(*pages));
    uint32_t count = 0;

    if (pages == NULL) {
        return 0;
    }
    for (uint32_t i = 0; i < endpoints->lane_count; i++) {
        if (!endpoints->lanes[i].doorbell.known) {
            free(pages);
            return 0;
        }
        pages[i] = endpoints->lanes[i].doorbell.page;
    }
    qsort(pages, endpoints->lane_count, sizeof(*pages), compare_pages);
    for (uint32_t i = 0; i < endpoints->lane_count; i++) {
        count += i == 0 || pages[i] != pages[i - 1];
    }
    free(pages);
    return count;
}

static void sum_up(struct tt_endpoints *endpoints)
{
    const uint32_t *counts = endpoints->inventory.counts;

    endpoints->made = (struct tt_endpoint_made){
        .effective = endpoints->inventory.category,
        .lock_free_queues = endpoints->lock_free_queues,
        .contexts = counts[TT_OBJECT_CONTEXT],
        .protection_domains = counts[TT_OBJECT_PROTECTION_DOMAIN],
        .memory_regions = counts[TT_OBJECT_MEMORY_REGION],
        .queue_pairs = counts[TT_OBJECT_QUEUE_PAIR],
        .completion_queues = counts[TT_OBJECT_COMPLETION_QUEUE],
        .thread_domains = counts[TT_OBJECT_THREAD_DOMAIN],
        .idle_domains = counts[TT_OBJECT_IDLE_DOMAIN],
        .parent_domains = counts[TT_OBJECT_PARENT_DOMAIN],
        .doorbell_pages = count_pages(endpoints),
    };
}

tutti_status tt_endpoints_create(const struct tt_endpoint_calls *calls, const struct tt_endpoint_options *options,
                                 struct tt_endpoints **endpoints)
{
    tutti_status status = check(options);
    struct tt_endpoints *made;

    if (status != TUTTI_OK) {
        return status;
    }
    made = calloc(1, sizeof(*made));
    if (made == NULL) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_NO_MEMORY, "no memory for endpoints");
    }
    made->calls = calls;
    made->options = *options;
    made->inventory.calls = calls;
    made->inventory.device = options->device->name;
    choose(made, options->category);
    status = reserve(made);
    if (status == TUTTI_OK) {
        status = make_all(made);
    }
    if (status != TUTTI_OK && made->inventory.lacks_domains) {
        TT_LOG(TT_PART_FABRIC, TT_LOG_INFO, "%s has no thread domains: %s becomes static", options->device->name,
               tt_endpoint_category_word(options->category));
        tt_inventory_undo(&made->inventory);
        choose(made, TT_ENDPOINT_STATIC); /* takes less of everything */
        status = make_all(made);
    }
    if (status != TUTTI_OK) {
        tt_endpoints_destroy(made);
        return status;
    }
    sum_up(made);
    *endpoints = made;
    return TUTTI_OK;
}

void tt_endpoints_destroy(struct tt_endpoints *endpoints)
{
    if (endpoints == NULL) {
        return;
    }
    tt_inventory_undo(&endpoints->inventory);
    tt_inventory_fini(&endpoints->inventory);
    free(endpoints->lanes);
    free(endpoints);
}

const struct tt_endpoint_made *tt_endpoints_made(const struct tt_endpoints *endpoints)
{
    return &endpoints->made;
}

const struct tt_endpoint_lane *tt_endpoints_lane(const struct tt_endpoints *endpoints, uint32_t thread,
                                                 uint32_t queue_pair)
{
    uint32_t width = endpoints->recipe->twice ? ENDPOINTS_OF_THREAD : 1;
    uint32_t owner = endpoints->recipe->one_for_all ? 0 : thread;

    assert(thread < endpoints->options.threads && queue_pair < lanes_per_thread(endpoints));
    return &endpoints->lanes[(owner * lanes_per_thread(endpoints) + queue_pair) * width];
}
