/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What has been made of what is planned, in the order in which it was made, so that it can be destroyed in the opposite
 * one, and so that a refusal can say which one of how many it was.
 */
#ifndef TT_ENDPOINT_INVENTORY_H
#define TT_ENDPOINT_INVENTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "endpoint/create.h"
#include "endpoint/plan.h"

enum tt_object_kind {
    TT_OBJECT_CONTEXT,
    TT_OBJECT_PROTECTION_DOMAIN,
    TT_OBJECT_MEMORY_REGION,
    TT_OBJECT_THREAD_DOMAIN,
    TT_OBJECT_IDLE_DOMAIN,
    TT_OBJECT_PARENT_DOMAIN,
    TT_OBJECT_COMPLETION_QUEUE,
    TT_OBJECT_QUEUE_PAIR,
    TT_OBJECT_KIND_COUNT
};

struct tt_object {
    enum tt_object_kind kind;
    void *pointer;
};

struct tt_inventory {
    const struct tt_endpoint_calls *calls;
    const char *device; /* its name, for messages; the caller's */
    enum tt_endpoint_category category;
    uint32_t threads;
    uint64_t lanes; /* that are planned: one a queue pair, or a thread's only one where the caller makes these */
    uint64_t planned[TT_OBJECT_KIND_COUNT];
    uint32_t counts[TT_OBJECT_KIND_COUNT];
    struct tt_object *objects; /* room for all that were planned when it was reserved */
    size_t object_count;
    bool lacks_domains; /* the provider says that it has none */
};

/* What the category takes for so many threads; without queue pairs (0) that is what they are made on. Regions are made
 * only where there is a buffer to register. */
void tt_inventory_plan(struct tt_inventory *inventory, enum tt_endpoint_category category, uint32_t threads,
                       uint32_t queue_pairs_per_thread, bool has_regions);

/* Memory for as much as is planned; freed by fini, which destroys nothing. */
tutti_status tt_inventory_reserve(struct tt_inventory *inventory);
void tt_inventory_fini(struct tt_inventory *inventory);

/* "not supported", as opposed to "no more". */
bool tt_inventory_is_unsupported(int error);

/*
 * Every call of the provider ends here: what it made is noted; if it made nothing, errno says why. The error is told,
 * but not that thread domains are not supported: that sets lacks_domains.
 */
tutti_status tt_inventory_keep(struct tt_inventory *inventory, enum tt_object_kind kind, void *pointer);

/* Destroys all, the last one first. What the provider refuses to destroy is leaked, with a warning. */
void tt_inventory_undo(struct tt_inventory *inventory);

#endif
