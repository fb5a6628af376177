/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fixed-size objects of data paths.
 *
 * Normal path: objects go round between the free list and their users. Free objects hold the link of the list in
 * their first bytes.
 *
 * Failures: growing may find no memory; the caller gets NULL and nothing has changed.
 */
#include "fabric/session/pool.h"

#include <assert.h>
#include <stdlib.h>

enum { ALIGN_BYTES = 16 };

static size_t round_up(size_t bytes)
{
    return (bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
}

static tutti_status grow(struct tt_pool *pool)
{
    size_t header_bytes = round_up(sizeof(struct tt_pool_link));
    struct tt_pool_link *block = malloc(header_bytes + pool->block_count * pool->object_bytes);
    if (block == NULL) {
        return TUTTI_ERR_NO_MEMORY;
    }
    block->next = pool->blocks;
    pool->blocks = block;
    for (size_t i = 0; i < pool->block_count; i++) {
        struct tt_pool_link *link = (struct tt_pool_link *)((char *)block + header_bytes + i * pool->object_bytes);
        link->next = pool->free;
        pool->free = link;
    }
    return TUTTI_OK;
}

tutti_status tt_pool_init(struct tt_pool *pool, size_t object_bytes, size_t block_count)
{
    assert(object_bytes >= sizeof(struct tt_pool_link) && block_count > 0);
    *pool = (struct tt_pool){.object_bytes = round_up(object_bytes), .block_count = block_count};
    return grow(pool);
}

void tt_pool_fini(struct tt_pool *pool)
{
    while (pool->blocks != NULL) {
        struct tt_pool_link *block = pool->blocks;
        pool->blocks = block->next;
        free(block);
    }
    pool->free = NULL;
}

void *tt_pool_take(struct tt_pool *pool)
{
    if (pool->free == NULL) {
        (void)grow(pool); /* the list tells whether it did */
    }
    struct tt_pool_link *link = pool->free;
    if (link == NULL) {
        return NULL;
    }
    pool->free = link->next;
    pool->used_count++;
    return link;
}

void tt_pool_give(struct tt_pool *pool, void *object)
{
    struct tt_pool_link *link = object;
    assert(pool->used_count > 0);
    pool->used_count--;
    link->next = pool->free;
    pool->free = link;
}
