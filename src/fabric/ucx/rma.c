/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One-sided access: registrations, the keys of peers, get, and put with an immediate.
 *
 * Normal path: a key is unpacked when it is first used and then found by its bytes. A get is done when UCX says so. A
 * put is followed by a flush, which ends when the data is visible at the target; then the immediate goes out as a
 * message, and the put is done.
 *
 * Failures: when a connection breaks or is torn down, UCX completes what was under way with an error. The cause,
 * PEER_FAILED or (after disconnect) CANCELED, is taken from the state of the peer.
 */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "fabric/ucx/instance.h"

/* --- Registrations ---------------------------------------------------------------------------------------------- */

tutti_status tt_ucx_memory_register(struct tt_p2p *p2p, void *address, size_t length_bytes,
                                    struct tt_p2p_memory **result)
{
    struct tt_ucx *ucx = tt_ucx_of(p2p);
    struct tt_ucx_memory *memory = calloc(1, sizeof(*memory));
    if (memory == NULL) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_NO_MEMORY, "ucx: no memory for a registration");
    }
    ucp_mem_map_params_t params = {
        .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
        .address = address,
        .length = length_bytes,
    };
    ucs_status_t status = ucp_mem_map(ucx->context, &params, &memory->handle);
    if (status != UCS_OK) {
        free(memory);
        return tt_error(TT_PART_FABRIC, tt_ucx_status(status), "ucx: register %zu bytes at %p: %s", length_bytes,
                        address, ucs_status_string(status));
    }
    memory->base.ops = p2p->ops;
    memory->ucx = ucx;
    *result = &memory->base;
    return TUTTI_OK;
}

void tt_ucx_memory_release(struct tt_p2p_memory *base)
{
    struct tt_ucx_memory *memory = (struct tt_ucx_memory *)base;
    if (memory != NULL) {
        ucp_mem_unmap(memory->ucx->context, memory->handle);
        free(memory);
    }
}

tutti_status tt_ucx_memory_pack(struct tt_p2p_memory *base, void *buffer, size_t *length_bytes)
{
    struct tt_ucx_memory *memory = (struct tt_ucx_memory *)base;
    void *packed;
    size_t packed_bytes;
    ucs_status_t status = ucp_rkey_pack(memory->ucx->context, memory->handle, &packed, &packed_bytes);
    if (status != UCS_OK) {
        return tt_error(TT_PART_FABRIC, tt_ucx_status(status), "ucx: pack a key: %s", ucs_status_string(status));
    }
    bool fits = packed_bytes <= TT_P2P_MAX_KEY_BYTES && packed_bytes <= *length_bytes;
    if (fits) {
        memcpy(buffer, packed, packed_bytes);
        *length_bytes = packed_bytes;
    }
    ucp_rkey_buffer_release(packed);
    if (!fits) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_TOO_LARGE, "ucx: the key has %zu bytes, there is room for %zu",
                        packed_bytes, *length_bytes < TT_P2P_MAX_KEY_BYTES ? *length_bytes : TT_P2P_MAX_KEY_BYTES);
    }
    return TUTTI_OK;
}

/* --- Keys of peers ---------------------------------------------------------------------------------------------- */

static void forget_key(struct tt_ucx_key *key)
{
    if (key->rkey != NULL) {
        ucp_rkey_destroy(key->rkey);
        key->rkey = NULL;
    }
}

void tt_ucx_drop_keys(struct tt_ucx_peer *peer)
{
    for (int i = 0; i < TT_UCX_KEYS_PER_PEER; i++) {
        forget_key(&peer->keys[i]);
    }
}

static struct tt_ucx_key *cached_key(struct tt_ucx_peer *peer, const void *packed, size_t packed_bytes)
{
    for (int i = 0; i < TT_UCX_KEYS_PER_PEER; i++) {
        struct tt_ucx_key *key = &peer->keys[i];
        if (key->rkey != NULL && key->packed_bytes == packed_bytes && memcmp(key->packed, packed, packed_bytes) == 0) {
            return key;
        }
    }
    return NULL;
}

/* A place for a new key: free, or else the one that was not used for the longest time, or else of its own. */
static struct tt_ucx_key *place_for_key(struct tt_ucx_peer *peer)
{
    struct tt_ucx_key *oldest = NULL;
    for (int i = 0; i < TT_UCX_KEYS_PER_PEER; i++) {
        struct tt_ucx_key *key = &peer->keys[i];
        if (key->users == 0 && (oldest == NULL || key->rkey == NULL || key->last_use < oldest->last_use)) {
            oldest = key;
            if (key->rkey == NULL) {
                break;
            }
        }
    }
    if (oldest == NULL) {
        return calloc(1, sizeof(*oldest));
    }
    forget_key(oldest);
    memset(oldest, 0, sizeof(*oldest));
    oldest->cached = true;
    return oldest;
}

static void give_key(struct tt_ucx_key *key)
{
    key->users--;
    if (!key->cached) {
        forget_key(key);
        free(key);
    }
}

static tutti_status take_key(struct tt_ucx_peer *peer, const void *packed, size_t packed_bytes,
                             struct tt_ucx_key **result)
{
    if (packed_bytes == 0 || packed_bytes > TT_P2P_MAX_KEY_BYTES) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_INVALID_ARGUMENT, "ucx: a key of %zu bytes", packed_bytes);
    }
    struct tt_ucx_key *key = cached_key(peer, packed, packed_bytes);
    if (key == NULL) {
        key = place_for_key(peer);
        if (key == NULL) {
            return tt_error(TT_PART_FABRIC, TUTTI_ERR_NO_MEMORY, "ucx: no memory for a key");
        }
        memcpy(key->packed, packed, packed_bytes);
        key->packed_bytes = (uint16_t)packed_bytes;
        ucs_status_t status = ucp_ep_rkey_unpack(peer->ep, key->packed, &key->rkey);
        if (status != UCS_OK) {
            key->rkey = NULL;
            if (!key->cached) {
                free(key);
            }
            return tt_error(TT_PART_FABRIC, tt_ucx_status(status), "ucx: unpack a key of %zu bytes: %s", packed_bytes,
                            ucs_status_string(status));
        }
    }
    key->users++;
    key->last_use = ++peer->ucx->key_clock;
    *result = key;
    return TUTTI_OK;
}

/* --- Operations ------------------------------------------------------------------------------------------------- */

static tutti_status cause(const struct tt_ucx_peer *peer, ucs_status_t status)
{
    if (peer->released && !peer->broken && !peer->remote_left) {
        return TUTTI_ERR_CANCELED;
    }
    return peer->down || status == UCS_ERR_CANCELED ? TUTTI_ERR_PEER_FAILED : tt_ucx_status(status);
}

/* UCX has no more to do with the operation. */
static void settle(struct tt_ucx_operation *operation)
{
    struct tt_ucx_peer *peer = operation->peer;
    struct tt_ucx *ucx = peer->ucx;
    if (operation->key != NULL) {
        give_key(operation->key);
        operation->key = NULL;
    }
    if (operation->status != TUTTI_OK || operation->kind == TT_UCX_GET) {
        peer->operations--;
        ucx->counters.bytes_received += operation->status == TUTTI_OK ? operation->length_bytes : 0;
        STAILQ_INSERT_TAIL(&ucx->done, operation, link);
    } else {
        STAILQ_INSERT_TAIL(&ucx->placed, operation, link);
    }
}

static void completed(void *request, ucs_status_t status, void *user_data)
{
    struct tt_ucx_operation *operation = user_data;
    if (status != UCS_OK && operation->status == TUTTI_OK) {
        operation->status = cause(operation->peer, status);
    }
    ucp_request_free(request);
    if (--operation->steps == 0) {
        settle(operation);
    }
}

/* Counts a step that UCX was asked for. An error at once is like one later. */
static void account(struct tt_ucx_operation *operation, ucs_status_ptr_t request)
{
    if (UCS_PTR_IS_PTR(request)) {
        operation->steps++;
    } else if (UCS_PTR_IS_ERR(request) && operation->status == TUTTI_OK) {
        operation->status = cause(operation->peer, UCS_PTR_STATUS(request));
    }
}

static tutti_status begin(struct tt_ucx_peer *peer, enum tt_ucx_operation_kind kind, const void *key, size_t key_bytes,
                          uint64_t length_bytes, struct tt_ucx_operation **result)
{
    if (peer->down) {
        return TUTTI_ERR_PEER_FAILED;
    }
    struct tt_ucx_operation *operation = tt_pool_take(&peer->ucx->operations);
    if (operation == NULL) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_NO_MEMORY, "ucx: no memory for a get or put");
    }
    *operation = (struct tt_ucx_operation){.peer = peer, .kind = kind, .length_bytes = length_bytes};
    if (length_bytes > 0) {
        tutti_status status = take_key(peer, key, key_bytes, &operation->key);
        if (status != TUTTI_OK) {
            tt_pool_give(&peer->ucx->operations, operation);
            return status;
        }
    }
    peer->operations++;
    *result = operation;
    return TUTTI_OK;
}

tutti_status tt_ucx_get(struct tt_p2p_peer *base, const void *key, size_t key_bytes, uint64_t remote_address,
                        void *local, uint64_t length_bytes, uint64_t cookie)
{
    struct tt_ucx_peer *peer = tt_ucx_peer_of(base);
    struct tt_ucx_operation *operation;
    if (length_bytes == 0) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_INVALID_ARGUMENT, "ucx: a get of 0 bytes");
    }
    tutti_status status = begin(peer, TT_UCX_GET, key, key_bytes, length_bytes, &operation);
    if (status != TUTTI_OK) {
        return status;
    }
    operation->cookie = cookie;
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
        .cb.send = completed,
        .user_data = operation,
    };
    account(operation, ucp_get_nbx(peer->ep, local, length_bytes, remote_address, operation->key->rkey, &param));
    if (operation->steps == 0) {
        settle(operation);
    }
    return TUTTI_OK;
}

tutti_status tt_ucx_put(struct tt_p2p_peer *base, const void *key, size_t key_bytes, uint64_t remote_address,
                        const void *local, uint64_t length_bytes, uint64_t immediate, uint64_t cookie)
{
    struct tt_ucx_peer *peer = tt_ucx_peer_of(base);
    struct tt_ucx_operation *operation;
    tutti_status status = begin(peer, TT_UCX_PUT, key, key_bytes, length_bytes, &operation);
    if (status != TUTTI_OK) {
        return status;
    }
    operation->cookie = cookie;
    operation->immediate = immediate;
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
        .cb.send = completed,
        .user_data = operation,
    };
    if (length_bytes > 0) {
        account(operation, ucp_put_nbx(peer->ep, local, length_bytes, remote_address, operation->key->rkey, &param));
        if (operation->status == TUTTI_OK) {
            account(operation, ucp_ep_flush_nbx(peer->ep, &param));
        }
    }
    peer->ucx->counters.bytes_sent += length_bytes;
    if (operation->steps == 0) {
        settle(operation);
        tt_ucx_send_due_immediates(peer->ucx);
    }
    return TUTTI_OK;
}

void tt_ucx_send_due_immediates(struct tt_ucx *ucx)
{
    struct tt_ucx_operation *operation;
    while ((operation = STAILQ_FIRST(&ucx->placed)) != NULL) {
        struct tt_ucx_peer *peer = operation->peer;
        STAILQ_REMOVE_HEAD(&ucx->placed, link);
        operation->status = peer->phase == TT_UCX_CLOSED
                                ? cause(peer, UCS_ERR_CANCELED)
                                : tt_ucx_send_message(peer, TT_UCX_IMMEDIATE, operation->immediate, NULL, 0);
        peer->operations--;
        STAILQ_INSERT_TAIL(&ucx->done, operation, link);
    }
}
