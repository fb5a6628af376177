/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Objects for the data path of the "verbs" p2p provider.
 *
 * Normal path: objects go round between the free list and their users. In front of each is a link, which also holds the
 * key of the block's registration.
 *
 * Failures: growing may find no memory, or none that can be registered; the caller gets NULL and nothing has changed.
 */
#include "fabric/verbs/rc_pool.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cache_line.h"
#include "base/log.h"

/* Neighbours share no cache line. */
struct tt_rc_object {
    struct tt_rc_object *next;
    uint32_t lkey;
    _Alignas(TT_CACHE_LINE_BYTES) uint8_t bytes[];
};

struct tt_rc_block {
    struct tt_rc_block *next;
    struct ibv_mr *mr;
    _Alignas(TT_CACHE_LINE_BYTES) uint8_t bytes[];
};

static struct tt_rc_object *object_of(const void *bytes)
{
    return (struct tt_rc_object *)((uintptr_t)bytes - offsetof(struct tt_rc_object, bytes));
}

static tutti_status grow(struct tt_rc_pool *pool)
{
    size_t stride_bytes = offsetof(struct tt_rc_object, bytes) + pool->object_bytes;
    size_t block_bytes = pool->block_count * stride_bytes;
    struct tt_rc_block *block =
        aligned_alloc(TT_CACHE_LINE_BYTES, tt_whole_lines(offsetof(struct tt_rc_block, bytes) + block_bytes));
    if (block == NULL) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_NO_MEMORY, "verbs: no memory for %zu objects of %zu bytes",
                        pool->block_count, pool->object_bytes);
    }
    *block = (struct tt_rc_block){.next = pool->blocks};
    memset(block->bytes, 0, block_bytes);
    block->mr = ibv_reg_mr(pool->pd, block->bytes, block_bytes, IBV_ACCESS_LOCAL_WRITE);
    if (block->mr == NULL) {
        int error = errno;
        free(block);
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_NO_RESOURCE, "verbs: register %zu bytes of buffers: %s", block_bytes,
                        strerror(error));
    }
    pool->blocks = block;
    for (size_t i = pool->block_count; i-- > 0;) {
        struct tt_rc_object *object = (struct tt_rc_object *)(block->bytes + i * stride_bytes);
        object->lkey = block->mr->lkey;
        object->next = pool->free;
        pool->free = object;
    }
    return TUTTI_OK;
}

tutti_status tt_rc_pool_init(struct tt_rc_pool *pool, struct ibv_pd *pd, size_t object_bytes, size_t block_count,
                             bool grows)
{
    assert(pd != NULL && object_bytes > 0 && block_count > 0);
    *pool = (struct tt_rc_pool){
        .pd = pd, .grows = grows, .object_bytes = tt_whole_lines(object_bytes), .block_count = block_count};
    return grow(pool);
}

void tt_rc_pool_fini(struct tt_rc_pool *pool)
{
    while (pool->blocks != NULL) {
        struct tt_rc_block *block = pool->blocks;
        pool->blocks = block->next;
        ibv_dereg_mr(block->mr);
        free(block);
    }
    pool->free = NULL;
}

void *tt_rc_pool_take(struct tt_rc_pool *pool)
{
    if (pool->free == NULL && pool->grows) {
        (void)grow(pool); /* the list tells whether it did */
    }
    struct tt_rc_object *object = pool->free;
    if (object == NULL) {
        return NULL;
    }
    pool->free = object->next;
    return object->bytes;
}

void tt_rc_pool_give(struct tt_rc_pool *pool, void *object)
{
    struct tt_rc_object *given = object_of(object);
    given->next = pool->free;
    pool->free = given;
}

uint32_t tt_rc_pool_lkey(const void *object)
{
    return object_of(object)->lkey;
}
