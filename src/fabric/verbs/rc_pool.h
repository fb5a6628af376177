/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A pool of equal objects with stable addresses, in memory that is registered with a device. Taking and giving are a
 * pointer swap; a pool that may grow does so, and allocates, only when everything it has is in use.
 */
#ifndef TT_FABRIC_VERBS_RC_POOL_H
#define TT_FABRIC_VERBS_RC_POOL_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tutti/status.h"

struct tt_rc_block;
struct tt_rc_object;

struct tt_rc_pool {
    struct ibv_pd *pd;
    bool grows;
    size_t object_bytes;
    size_t block_count; /* objects a block */
    struct tt_rc_block *blocks;
    struct tt_rc_object *free;
};

/* Holds `block_count` objects from the start. Errors: NO_MEMORY, NO_RESOURCE (the registration). */
tutti_status tt_rc_pool_init(struct tt_rc_pool *pool, struct ibv_pd *pd, size_t object_bytes, size_t block_count,
                             bool grows);
void tt_rc_pool_fini(struct tt_rc_pool *pool); /* also of a pool that is all zero */

/* An object with undefined content; NULL if none is free and the pool does not grow, or cannot. */
void *tt_rc_pool_take(struct tt_rc_pool *pool);
void tt_rc_pool_give(struct tt_rc_pool *pool, void *object);

/* The local key of an object's memory. */
uint32_t tt_rc_pool_lkey(const void *object);

#endif
