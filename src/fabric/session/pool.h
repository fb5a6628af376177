/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A pool of equal objects with stable addresses. Taking and giving are a pointer swap; the pool grows by a block, and
 * so allocates, only when everything it has is in use.
 */
#ifndef TT_FABRIC_SESSION_POOL_H
#define TT_FABRIC_SESSION_POOL_H

#include <stddef.h>

#include "tutti/status.h"

struct tt_pool_link {
    struct tt_pool_link *next;
};

struct tt_pool {
    struct tt_pool_link *free;
    struct tt_pool_link *blocks;
    size_t object_bytes;
    size_t block_count; /* objects a block */
    size_t used_count;
};

/* Holds `block_count` objects from the start. */
tutti_status tt_pool_init(struct tt_pool *pool, size_t object_bytes, size_t block_count);
void tt_pool_fini(struct tt_pool *pool);

/* An object with undefined content, or NULL if there is no memory to grow. */
void *tt_pool_take(struct tt_pool *pool);
void tt_pool_give(struct tt_pool *pool, void *object);

#endif
