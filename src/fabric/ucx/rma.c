/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gets and puts that UCX leaves to hardware, and UCX's keys for them.
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

tutti_status tt_ucx_hardware_key(struct tt_ucx_peer *peer, const void *packed, size_t packed_bytes,
                                 struct tt_ucx_key **result)
{
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

/* UCX has no more to do with the operation. */
static void settle(struct tt_ucx_operation *operation)
{
    struct tt_ucx_peer *peer = operation->peer;
    struct tt_ucx *ucx = peer->ucx;
    give_key(operation->key);
    operation->key = NULL;
    if (operation->event.status != TUTTI_OK || operation->kind == TT_UCX_GET) {
        peer->operations--;
        ucx->session.counters.bytes_received += operation->event.status == TUTTI_OK ? operation->place.length_bytes : 0;
        tt_session_tell(&ucx->session, &operation->event);
    } else {
        STAILQ_INSERT_TAIL(&ucx->placed, operation, link);
    }
}

static void completed(void *request, ucs_status_t status, void *user_data)
{
    struct tt_ucx_operation *operation = user_data;
    if (status != UCS_OK && operation->event.status == TUTTI_OK) {
        operation->event.status = tt_ucx_cause(operation->peer, status);
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
    } else if (UCS_PTR_IS_ERR(request) && operation->event.status == TUTTI_OK) {
        operation->event.status = tt_ucx_cause(operation->peer, UCS_PTR_STATUS(request));
    }
}

void tt_ucx_hardware_get(struct tt_ucx_operation *operation, void *local)
{
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
        .cb.send = completed,
        .user_data = operation,
    };
    struct tt_ucx_peer *peer = operation->peer;
    peer->operations++;
    account(operation, ucp_get_nbx(peer->ep, local, operation->place.length_bytes, operation->place.address,
                                   operation->key->rkey, &param));
    if (operation->steps == 0) {
        settle(operation);
    }
}

void tt_ucx_hardware_put(struct tt_ucx_operation *operation, const void *local)
{
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
        .cb.send = completed,
        .user_data = operation,
    };
    struct tt_ucx_peer *peer = operation->peer;
    peer->operations++;
    account(operation, ucp_put_nbx(peer->ep, local, operation->place.length_bytes, operation->place.address,
                                   operation->key->rkey, &param));
    if (operation->event.status == TUTTI_OK) {
        account(operation, ucp_ep_flush_nbx(peer->ep, &param));
    }
    if (operation->steps == 0) {
        settle(operation);
        tt_ucx_send_due_immediates(peer->ucx);
    }
}

void tt_ucx_send_due_immediates(struct tt_ucx *ucx)
{
    struct tt_ucx_operation *operation;
    while ((operation = STAILQ_FIRST(&ucx->placed)) != NULL) {
        struct tt_ucx_peer *peer = operation->peer;
        STAILQ_REMOVE_HEAD(&ucx->placed, link);
        const struct tt_p2p_immediate *immediate = &operation->immediate;
        operation->event.status = peer->ep == NULL ? tt_ucx_cause(peer, UCS_ERR_CANCELED)
                                                   : tt_ucx_send_message(peer, TT_UCX_IMMEDIATE, immediate->value,
                                                                         immediate->data, immediate->data_bytes);
        peer->operations--;
        tt_session_tell(&ucx->session, &operation->event);
    }
}
