/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registrations: memory that peers may read and write, and the keys to it.
 *
 * Normal path: a registration has a place in a table and a random token. Its key holds both, and UCX's own key where
 * hardware could use it. What peers ask for by messages is looked up here, by index, token and range.
 *
 * Failures: what no registration covers is not found. A registration that is released while a peer reads it takes the
 * rest of that read with it, which the peer is told.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/log.h"
#include "fabric/ucx/instance.h"

enum { FIRST_MEMORIES = 16 };

/* A free place in the table, which grows if there is none. */
static tutti_status find_index(struct tt_ucx *ucx, uint32_t *result)
{
    for (uint32_t i = 0; i < ucx->memory_count; i++) {
        if (ucx->memories[i] == NULL) {
            *result = i;
            return TUTTI_OK;
        }
    }
    uint32_t count = ucx->memory_count > 0 ? 2 * ucx->memory_count : FIRST_MEMORIES;
    struct tt_ucx_memory **memories = realloc(ucx->memories, count * sizeof(struct tt_ucx_memory *));
    if (memories == NULL) {
        return TUTTI_ERR_NO_MEMORY;
    }
    memset(memories + ucx->memory_count, 0, (count - ucx->memory_count) * sizeof(struct tt_ucx_memory *));
    *result = ucx->memory_count;
    ucx->memories = memories;
    ucx->memory_count = count;
    return TUTTI_OK;
}

static tutti_status map(struct tt_ucx_memory *memory)
{
    ucp_mem_map_params_t params = {
        .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
        .address = memory->address,
        .length = memory->length_bytes,
    };
    ucs_status_t status = ucp_mem_map(memory->ucx->context, &params, &memory->handle);
    if (status != UCS_OK) {
        memory->handle = NULL;
        return tt_error(TT_PART_FABRIC, tt_ucx_status(status), "ucx: register %zu bytes at %p: %s",
                        memory->length_bytes, (void *)memory->address, ucs_status_string(status));
    }
    return TUTTI_OK;
}

tutti_status tt_ucx_memory_register(struct tt_p2p *p2p, void *address, size_t length_bytes,
                                    struct tt_p2p_memory **result)
{
    struct tt_ucx *ucx = tt_ucx_of(p2p);
    struct tt_ucx_memory *memory = calloc(1, sizeof(*memory));
    if (memory == NULL || find_index(ucx, &memory->index) != TUTTI_OK) {
        free(memory);
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_NO_MEMORY, "ucx: no memory for a registration");
    }
    memory->base.ops = p2p->ops;
    memory->ucx = ucx;
    memory->address = address;
    memory->length_bytes = length_bytes;
    if (getrandom(&memory->token, sizeof(memory->token), 0) != sizeof(memory->token)) {
        free(memory);
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_IO, "ucx: no random number for a registration");
    }
    tutti_status status = ucx->hardware ? map(memory) : TUTTI_OK;
    if (status != TUTTI_OK) {
        free(memory);
        return status;
    }
    ucx->memories[memory->index] = memory;
    *result = &memory->base;
    return TUTTI_OK;
}

void tt_ucx_memory_release(struct tt_p2p_memory *base)
{
    struct tt_ucx_memory *memory = (struct tt_ucx_memory *)base;
    if (memory == NULL) {
        return;
    }
    memory->ucx->memories[memory->index] = NULL;
    if (memory->readers > 0) {
        tt_ucx_memory_unread(memory);
    }
    if (memory->handle != NULL) {
        ucp_mem_unmap(memory->ucx->context, memory->handle);
    }
    free(memory);
}

/* Appends UCX's key for hardware. Without it, peers use messages. */
static tutti_status pack_hardware_key(const struct tt_ucx_memory *memory, uint8_t *bytes, size_t *length_bytes)
{
    void *packed;
    size_t packed_bytes;
    ucs_status_t status = ucp_rkey_pack(memory->ucx->context, memory->handle, &packed, &packed_bytes);
    if (status != UCS_OK) {
        return tt_error(TT_PART_FABRIC, tt_ucx_status(status), "ucx: pack a key: %s", ucs_status_string(status));
    }
    if (*length_bytes + packed_bytes <= TT_P2P_MAX_KEY_BYTES) {
        memcpy(bytes + *length_bytes, packed, packed_bytes);
        *length_bytes += packed_bytes;
    } else {
        TT_LOG(TT_PART_FABRIC, TT_LOG_WARN,
               "ucx: a hardware key of %zu bytes is too large, gets and puts go by messages; restrict the devices "
               "(UCX_NET_DEVICES)",
               packed_bytes);
    }
    ucp_rkey_buffer_release(packed);
    return TUTTI_OK;
}

tutti_status tt_ucx_memory_pack(struct tt_p2p_memory *base, void *buffer, size_t *length_bytes)
{
    const struct tt_ucx_memory *memory = (const struct tt_ucx_memory *)base;
    uint8_t bytes[TT_P2P_MAX_KEY_BYTES];
    size_t key_bytes = TT_UCX_KEY_HEADER_BYTES;
    tt_ucx_key_encode(bytes, memory->index, memory->token);
    tutti_status status = memory->handle != NULL ? pack_hardware_key(memory, bytes, &key_bytes) : TUTTI_OK;
    if (status != TUTTI_OK) {
        return status;
    }
    if (key_bytes > *length_bytes) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_TOO_LARGE, "ucx: the key has %zu bytes, there is room for %zu",
                        key_bytes, *length_bytes);
    }
    memcpy(buffer, bytes, key_bytes);
    *length_bytes = key_bytes;
    return TUTTI_OK;
}

struct tt_ucx_memory *tt_ucx_memory_find(const struct tt_ucx *ucx, const struct tt_ucx_place *place)
{
    struct tt_ucx_memory *memory = place->index < ucx->memory_count ? ucx->memories[place->index] : NULL;
    if (memory == NULL || memory->token != place->token || place->address < (uintptr_t)memory->address) {
        return NULL;
    }
    uint64_t offset_bytes = place->address - (uintptr_t)memory->address;
    if (offset_bytes > memory->length_bytes || place->length_bytes > memory->length_bytes - offset_bytes) {
        return NULL;
    }
    return memory;
}
