/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Chunks of eager collectives that this rank has not posted yet. Without a barrier the root may be ahead: what comes
 * early is copied here, out of staging, and goes through the kernel once its collective has been published. Credit
 * (proto/eager.h) sees to it that there is room; what comes without room is dropped, and repaired like a lost chunk.
 *
 * Few groups have early chunks at any time: a log borrows its memory, a slab, from a pool that all groups of a context
 * share, and gives it back once it is empty. Where the pool is empty there is no room.
 */
#ifndef TT_PROTO_EARLY_H
#define TT_PROTO_EARLY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "wire/chunk.h"

/* Sequence numbers from the oldest unfinished collective on that an early chunk may belong to. */
enum { TT_EARLY_AHEAD = TT_TAG_EAGER_COUNT / 2 };

enum { TT_EARLY_SLABS = 16 };

/* Any thread's. */
struct tt_early_pool {
    uint8_t *memory; /* TT_EARLY_SLABS * slab_bytes, 8-byte aligned */
    uint32_t slab_bytes;
    _Atomic uint32_t taken; /* a bit a slab */
};

/* The feeding thread's, but for `count`, which any may read. */
struct tt_early {
    struct tt_early_pool *pool; /* NULL: nothing is kept */
    uint8_t *own;               /* memory as long as a slab, that is used instead of one: there is always room; NULL */
    uint8_t *memory;            /* the slab, while used_bytes > 0 */
    uint32_t used_bytes;
    _Atomic uint32_t count;
};

void tt_early_pool_init(struct tt_early_pool *pool, uint8_t *memory, uint32_t slab_bytes);

/* Gives the slab back, with whatever is in it; nobody may be feeding. */
void tt_early_fini(struct tt_early *early);

/* Room that a chunk of this length takes. */
static inline uint32_t tt_early_bytes(uint32_t length_bytes)
{
    return 16 + (length_bytes + 7) / 8 * 8;
}

/* Drops all that is there. */
void tt_early_drop(struct tt_early *early);

/* Does without its own memory from now on; what is there is dropped. */
void tt_early_disown(struct tt_early *early);

/* Copies a chunk of the collective with this sequence number; false if there is no room. */
bool tt_early_add(struct tt_early *early, const struct tt_receive_chunk *chunk, uint64_t sequence);

/* The chunk at this offset, valid until the log changes, and the low bits of its sequence number; returns the offset of
 * the next one. */
uint32_t tt_early_read(const struct tt_early *early, uint32_t offset_bytes, struct tt_receive_chunk *chunk,
                       uint32_t *sequence);

/* Takes out the record between two offsets. */
void tt_early_remove(struct tt_early *early, uint32_t offset_bytes, uint32_t next_bytes);

/* Assert what always holds, while no thread feeds. */
void tt_early_pool_check(const struct tt_early_pool *pool);
void tt_early_check(const struct tt_early *early);

#endif
