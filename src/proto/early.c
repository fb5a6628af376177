/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The log of early chunks: records one after the other, each with the chunk's header and bytes, in order of arrival. It
 * is short and rarely holds anything, so that taking a record out of the middle may move the rest. Fails when full.
 */
#include "proto/early.h"

#include <assert.h>
#include <string.h>

struct record {
    uint32_t imm, length_bytes, source, sequence;
};

_Static_assert(sizeof(struct record) == 16, "tt_early_bytes counts on it");

void tt_early_pool_init(struct tt_early_pool *pool, uint8_t *memory, uint32_t slab_bytes)
{
    pool->memory = memory;
    pool->slab_bytes = slab_bytes;
    atomic_store_explicit(&pool->taken, 0, memory_order_relaxed);
}

static uint8_t *take_slab(struct tt_early_pool *pool)
{
    uint32_t taken = atomic_load_explicit(&pool->taken, memory_order_relaxed), slab;

    do {
        for (slab = 0; slab < TT_EARLY_SLABS && (taken >> slab & 1); slab++) {
        }
        if (slab == TT_EARLY_SLABS) {
            return NULL;
        }
#ifdef TT_FAULT_SLAB_TAKEN_TWICE
        atomic_fetch_or_explicit(&pool->taken, UINT32_C(1) << slab, memory_order_acquire);
        break;
#endif
    } while (!atomic_compare_exchange_weak_explicit(&pool->taken, &taken, taken | UINT32_C(1) << slab,
                                                    memory_order_acquire, memory_order_relaxed));
    return pool->memory + (size_t)slab * pool->slab_bytes;
}

static void give_slab(struct tt_early_pool *pool, const uint8_t *memory)
{
    uint32_t slab = (uint32_t)((size_t)(memory - pool->memory) / pool->slab_bytes);

    assert(slab < TT_EARLY_SLABS);
    assert(atomic_load_explicit(&pool->taken, memory_order_relaxed) >> slab & 1);
    atomic_fetch_and_explicit(&pool->taken, ~(UINT32_C(1) << slab), memory_order_release);
}

void tt_early_fini(struct tt_early *early)
{
    if (early->memory != NULL && early->memory != early->own) {
        give_slab(early->pool, early->memory);
    }
    early->memory = NULL;
    early->used_bytes = 0;
}

void tt_early_drop(struct tt_early *early)
{
    tt_early_fini(early);
    atomic_store_explicit(&early->count, 0, memory_order_relaxed);
}

void tt_early_disown(struct tt_early *early)
{
    if (early->own != NULL && early->memory == early->own) {
        tt_early_drop(early);
    }
    early->own = NULL;
}

bool tt_early_add(struct tt_early *early, const struct tt_receive_chunk *chunk, uint64_t sequence)
{
    struct record record = {.imm = chunk->imm,
                            .length_bytes = chunk->length_bytes,
                            .source = chunk->source,
                            .sequence = (uint32_t)sequence};
    uint32_t room;

    if (early->pool == NULL) {
        return false;
    }
    assert(early->used_bytes <= early->pool->slab_bytes);
    room = early->pool->slab_bytes - early->used_bytes;
    if (chunk->length_bytes > room || tt_early_bytes(chunk->length_bytes) > room) {
        return false;
    }
    if (early->memory == NULL) {
        early->memory = early->own != NULL ? early->own : take_slab(early->pool);
        if (early->memory == NULL) {
            return false;
        }
    }
    memcpy(early->memory + early->used_bytes, &record, sizeof record);
    if (chunk->length_bytes > 0) {
        memcpy(early->memory + early->used_bytes + sizeof record, chunk->address, chunk->length_bytes);
    }
    early->used_bytes += tt_early_bytes(chunk->length_bytes);
    atomic_store_explicit(&early->count, atomic_load_explicit(&early->count, memory_order_relaxed) + 1,
                          memory_order_seq_cst);
    return true;
}

uint32_t tt_early_read(const struct tt_early *early, uint32_t offset_bytes, struct tt_receive_chunk *chunk,
                       uint32_t *sequence)
{
    struct record record;

    assert(offset_bytes + sizeof record <= early->used_bytes);
    memcpy(&record, early->memory + offset_bytes, sizeof record);
    *chunk = (struct tt_receive_chunk){.imm = record.imm,
                                       .length_bytes = record.length_bytes,
                                       .source = record.source,
                                       .address = early->memory + offset_bytes + sizeof record};
    *sequence = record.sequence;
    return offset_bytes + tt_early_bytes(record.length_bytes);
}

void tt_early_remove(struct tt_early *early, uint32_t offset_bytes, uint32_t next_bytes)
{
    assert(offset_bytes < next_bytes && next_bytes <= early->used_bytes);
    assert(atomic_load_explicit(&early->count, memory_order_relaxed) > 0);
    memmove(early->memory + offset_bytes, early->memory + next_bytes, early->used_bytes - next_bytes);
    early->used_bytes -= next_bytes - offset_bytes;
    if (early->used_bytes == 0) {
        tt_early_fini(early);
    }
    atomic_store_explicit(&early->count, atomic_load_explicit(&early->count, memory_order_relaxed) - 1,
                          memory_order_seq_cst);
}

/* --- Checks ------------------------------------------------------------------------------------------------------- */

void tt_early_pool_check(const struct tt_early_pool *pool)
{
    assert(pool->slab_bytes % 8 == 0); /* every slab is aligned */
    assert(atomic_load_explicit(&pool->taken, memory_order_relaxed) >> TT_EARLY_SLABS == 0);
}

/* A log has a slab of its own as long as something is in it. */
static void check_slab(const struct tt_early *early)
{
    size_t offset;

    assert((early->memory != NULL) == (early->used_bytes > 0));
    if (early->memory == NULL) {
        return;
    }
    assert(early->used_bytes <= early->pool->slab_bytes);
    if (early->memory == early->own) {
        return;
    }
    offset = (size_t)(early->memory - early->pool->memory);
    assert(offset % early->pool->slab_bytes == 0);
    assert(offset / early->pool->slab_bytes < TT_EARLY_SLABS);
    assert(atomic_load_explicit(&early->pool->taken, memory_order_relaxed) >> (offset / early->pool->slab_bytes) & 1);
}

void tt_early_check(const struct tt_early *early)
{
    struct tt_receive_chunk chunk;
    uint32_t sequence, count = 0, offset = 0;

    check_slab(early);
    while (offset < early->used_bytes) {
        offset = tt_early_read(early, offset, &chunk, &sequence);
        count++;
    }
    assert(offset == early->used_bytes); /* the last record ends where the log does */
    assert(count == atomic_load_explicit(&early->count, memory_order_relaxed));
}
