/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The log of early chunks: records one after the other, each with the chunk's header and bytes, in order of arrival. It
 * is short and rarely holds anything, so that taking a record out of the middle may move the rest. Fails when full.
 */
#include "proto/early.h"

#include <string.h>

struct record {
    uint32_t imm, length_bytes, source, unused;
};

_Static_assert(sizeof(struct record) == 16, "tt_early_bytes counts on it");

bool tt_early_add(struct tt_early *early, const struct tt_receive_chunk *chunk)
{
    struct record record = {.imm = chunk->imm, .length_bytes = chunk->length_bytes, .source = chunk->source};
    uint32_t room = early->capacity_bytes - early->used_bytes;

    if (early->memory == NULL || chunk->length_bytes > room || tt_early_bytes(chunk->length_bytes) > room) {
        return false;
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

uint32_t tt_early_read(const struct tt_early *early, uint32_t offset_bytes, struct tt_receive_chunk *chunk)
{
    struct record record;

    memcpy(&record, early->memory + offset_bytes, sizeof record);
    *chunk = (struct tt_receive_chunk){.imm = record.imm,
                                       .length_bytes = record.length_bytes,
                                       .source = record.source,
                                       .address = early->memory + offset_bytes + sizeof record};
    return offset_bytes + tt_early_bytes(record.length_bytes);
}

void tt_early_remove(struct tt_early *early, uint32_t offset_bytes, uint32_t next_bytes)
{
    memmove(early->memory + offset_bytes, early->memory + next_bytes, early->used_bytes - next_bytes);
    early->used_bytes -= next_bytes - offset_bytes;
    atomic_store_explicit(&early->count, atomic_load_explicit(&early->count, memory_order_relaxed) - 1,
                          memory_order_seq_cst);
}
