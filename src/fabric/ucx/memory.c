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
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "fabric/ucx/instance.h"

static tutti_status map(struct tt_ucx_memory *memory)
{
    ucp_mem_map_params_t params = {
        .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
        .address = memory->registration.address,
        .length = memory->registration.length_bytes,
    };
    ucs_status_t status = ucp_mem_map(memory->ucx->context, &params, &memory->handle);
    if (status != UCS_OK) {
        memory->handle = NULL;
        return tt_error(TT_PART_FABRIC, tt_ucx_status(status), "ucx: register %zu bytes at %p: %s",
                        memory->registration.length_bytes, (void *)memory->registration.address,
                        ucs_status_string(status));
    }
    return TUTTI_OK;
}

tutti_status tt_ucx_memory_register(struct tt_p2p *p2p, void *address, size_t length_bytes,
                                    struct tt_p2p_memory **result)
{
    struct tt_ucx *ucx = tt_ucx_of(p2p);
    struct tt_ucx_memory *memory = calloc(1, sizeof(*memory));
    if (memory == NULL) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_NO_MEMORY, "ucx: no memory for a registration");
    }
    memory->base.ops = p2p->ops;
    memory->ucx = ucx;
    tutti_status status = tt_registry_add(&ucx->memories, &memory->registration, address, length_bytes);
    if (status != TUTTI_OK) {
        free(memory);
        return status;
    }
    status = ucx->hardware ? map(memory) : TUTTI_OK;
    if (status != TUTTI_OK) {
        tt_registry_remove(&ucx->memories, &memory->registration);
        free(memory);
        return status;
    }
    *result = &memory->base;
    return TUTTI_OK;
}

void tt_ucx_memory_release(struct tt_p2p_memory *base)
{
    struct tt_ucx_memory *memory = (struct tt_ucx_memory *)base;
    if (memory == NULL) {
        return;
    }
    tt_registry_remove(&memory->ucx->memories, &memory->registration);
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
    tt_ucx_key_encode(bytes, memory->registration.index, memory->registration.token);
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
    struct tt_registration *found =
        tt_registry_find(&ucx->memories, place->index, place->token, place->address, place->length_bytes);
    return found != NULL ? (struct tt_ucx_memory *)((char *)found - offsetof(struct tt_ucx_memory, registration))
                         : NULL;
}
