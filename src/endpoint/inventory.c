/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The list of what was made.
 *
 * Normal path: the plan gives the numbers and the room, keep() adds, undo() takes away from the end.
 *
 * Failures: a provider's refusal is told with what was refused, the how-manieth it would have been, of how many.
 */
#include "endpoint/inventory.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "endpoint/calls.h"

static const char *const kind_words[TT_OBJECT_KIND_COUNT] = {
    [TT_OBJECT_CONTEXT] = "context",
    [TT_OBJECT_PROTECTION_DOMAIN] = "protection domain",
    [TT_OBJECT_MEMORY_REGION] = "memory region",
    [TT_OBJECT_THREAD_DOMAIN] = "thread domain",
    [TT_OBJECT_IDLE_DOMAIN] = "idle thread domain",
    [TT_OBJECT_PARENT_DOMAIN] = "parent domain",
    [TT_OBJECT_COMPLETION_QUEUE] = "completion queue",
    [TT_OBJECT_QUEUE_PAIR] = "queue pair",
};

void tt_inventory_plan(struct tt_inventory *inventory, enum tt_endpoint_category category, uint32_t threads,
                       uint32_t queue_pairs_per_thread, bool has_regions)
{
    struct tt_endpoint_terms terms = {.category = category,
                                      .driver = TT_ENDPOINT_CURRENT, /* objects are the same in number with any */
                                      .threads = threads,
                                      .queue_pairs_per_thread = queue_pairs_per_thread > 0 ? queue_pairs_per_thread : 1,
                                      .total_uuars = TT_UUARS_DEFAULT,
                                      .low_latency_uuars = TT_UUARS_LOW_LATENCY_DEFAULT};
    struct tt_endpoint_plan plan;

    tt_endpoint_plan(&terms, 1, &plan);
    inventory->category = category;
    inventory->threads = threads;
    inventory->planned[TT_OBJECT_CONTEXT] = plan.contexts;
    inventory->planned[TT_OBJECT_PROTECTION_DOMAIN] = plan.protection_domains;
    inventory->planned[TT_OBJECT_MEMORY_REGION] = has_regions ? plan.memory_regions : 0;
    inventory->planned[TT_OBJECT_THREAD_DOMAIN] = plan.thread_domains;
    inventory->planned[TT_OBJECT_IDLE_DOMAIN] = plan.idle_domains;
    inventory->planned[TT_OBJECT_PARENT_DOMAIN] = plan.thread_domains;
    inventory->planned[TT_OBJECT_COMPLETION_QUEUE] = queue_pairs_per_thread > 0 ? plan.completion_queues : 0;
    inventory->planned[TT_OBJECT_QUEUE_PAIR] = queue_pairs_per_thread > 0 ? plan.queue_pairs : 0;
    inventory->lanes = plan.queue_pairs;
}

tutti_status tt_inventory_reserve(struct tt_inventory *inventory)
{
    uint64_t count = 0;

    for (unsigned kind = 0; kind < TT_OBJECT_KIND_COUNT; kind++) {
        count += inventory->planned[kind];
    }
    inventory->objects = calloc(count, sizeof(*inventory->objects));
    return inventory->objects != NULL ? TUTTI_OK
                                      : tt_error(TT_PART_FABRIC, TUTTI_ERR_NO_MEMORY,
                                                 "no memory to keep track of %" PRIu64 " verbs objects", count);
}

void tt_inventory_fini(struct tt_inventory *inventory)
{
    free(inventory->objects);
    inventory->objects = NULL;
}

bool tt_inventory_is_unsupported(int error)
{
    /* The last is what the kernel says of an object that it does not know. */
    return error == EOPNOTSUPP || error == ENOSYS || error == EPROTONOSUPPORT;
}

static tutti_status status_of(int error)
{
    if (tt_inventory_is_unsupported(error)) {
        return TUTTI_ERR_NOT_SUPPORTED;
    }
    switch (error) {
    case ENOMEM:
    case ENOSPC:
    case EAGAIN:
    case EMFILE:
    case ENFILE:
        return TUTTI_ERR_NO_RESOURCE;
    case EINVAL:
        return TUTTI_ERR_INVALID_ARGUMENT;
    default:
        return TUTTI_ERR_IO;
    }
}

static tutti_status refused(struct tt_inventory *inventory, enum tt_object_kind kind)
{
    int error = errno != 0 ? errno : EIO;
    bool is_domain =
        kind == TT_OBJECT_THREAD_DOMAIN || kind == TT_OBJECT_IDLE_DOMAIN || kind == TT_OBJECT_PARENT_DOMAIN;

    if (is_domain && tt_inventory_is_unsupported(error)) {
        inventory->lacks_domains = true;
        return TUTTI_ERR_NOT_SUPPORTED;
    }
    return tt_error(TT_PART_FABRIC, status_of(error), "%s: %s %" PRIu32 " of %" PRIu64 " (%s, %" PRIu32 " threads): %s",
                    inventory->device, kind_words[kind], inventory->counts[kind] + 1, inventory->planned[kind],
                    tt_endpoint_category_word(inventory->category), inventory->threads, strerror(error));
}

tutti_status tt_inventory_keep(struct tt_inventory *inventory, enum tt_object_kind kind, void *pointer)
{
    if (pointer == NULL) {
        return refused(inventory, kind);
    }
    assert(inventory->counts[kind] < inventory->planned[kind]);
    inventory->objects[inventory->object_count++] = (struct tt_object){kind, pointer};
    inventory->counts[kind]++;
    return TUTTI_OK;
}

static int destroy_object(const struct tt_endpoint_calls *calls, const struct tt_object *object)
{
    switch (object->kind) {
    case TT_OBJECT_CONTEXT:
        return calls->close_device(object->pointer) == 0 ? 0 : errno; /* this one returns -1 */
    case TT_OBJECT_PROTECTION_DOMAIN:
    case TT_OBJECT_PARENT_DOMAIN:
        return calls->dealloc_pd(object->pointer);
    case TT_OBJECT_MEMORY_REGION:
        return calls->dereg_mr(object->pointer);
    case TT_OBJECT_THREAD_DOMAIN:
    case TT_OBJECT_IDLE_DOMAIN:
        return calls->dealloc_td(object->pointer);
    case TT_OBJECT_COMPLETION_QUEUE:
        return calls->destroy_cq(object->pointer);
    default:
        return calls->destroy_qp(object->pointer);
    }
}

void tt_inventory_undo(struct tt_inventory *inventory)
{
    while (inventory->object_count > 0) {
        const struct tt_object *object = &inventory->objects[--inventory->object_count];
        int error = destroy_object(inventory->calls, object);

        if (error != 0) {
            TT_LOG(TT_PART_FABRIC, TT_LOG_WARN, "a %s cannot be destroyed: %s", kind_words[object->kind],
                   strerror(error));
        }
    }
    memset(inventory->counts, 0, sizeof(inventory->counts));
}
