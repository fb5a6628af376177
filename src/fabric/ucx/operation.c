/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gets and puts: begun here, and carried out by hardware (rma.c) or by messages.
 *
 * Normal path: a get or put waits until the other side has connected, since only then can it answer, and until one of
 * the peer's slots is free. A get then sends READ, and the data that comes back is copied into place (READ_DATA). A put
 * is sent as a stream and is done when its target says WRITTEN. The id that both sides use names the peer's line, the
 * slot, and a serial number, so that what comes late for an operation that has ended finds nothing.
 *
 * Failures: REFUSED ends an operation with TUTTI_ERR_PROTOCOL. When the connection breaks, or either side disconnects,
 * everything that waits or is under way ends at once with PEER_FAILED or CANCELED: no memory of the caller is in UCX's
 * hands. Data that does not continue what has come so far is dropped.
 */
#include <assert.h>
#include <string.h>

#include "base/log.h"
#include "fabric/ucx/instance.h"

/* --- Ids -------------------------------------------------------------------------------------------------------- */

enum { SLOT_BITS = 8, LINE_BITS = 24 };

_Static_assert(TT_UCX_SLOTS_PER_PEER <= 1 << SLOT_BITS, "slots fit their bits of an id");

static uint64_t make_id(struct tt_ucx_peer *peer, uint32_t slot)
{
    return (uint64_t)++peer->ucx->id_count << (SLOT_BITS + LINE_BITS) | (uint64_t)peer->line << SLOT_BITS | slot;
}

/* The operation under way with this id; NULL: none, or not any more. */
static struct tt_ucx_operation *find(const struct tt_ucx *ucx, uint64_t id)
{
    uint32_t slot = (uint32_t)id & ((1U << SLOT_BITS) - 1);
    uint32_t line = (uint32_t)(id >> SLOT_BITS) & ((1U << LINE_BITS) - 1);
    const struct tt_ucx_peer *peer = line < ucx->line_count ? ucx->lines[line] : NULL;
    struct tt_ucx_operation *operation = peer != NULL && slot < TT_UCX_SLOTS_PER_PEER ? peer->slots[slot] : NULL;
    return operation != NULL && operation->id == id ? operation : NULL;
}

static void free_slot(const struct tt_ucx_operation *operation)
{
    operation->peer->slots[operation->id & ((1U << SLOT_BITS) - 1)] = NULL;
}

/* --- Ends ------------------------------------------------------------------------------------------------------- */

tutti_status tt_ucx_cause(const struct tt_ucx_peer *peer, ucs_status_t status)
{
    if (peer->session.released) {
        return TUTTI_ERR_CANCELED;
    }
    return peer->session.down || status == UCS_ERR_CANCELED ? TUTTI_ERR_PEER_FAILED : tt_ucx_status(status);
}

static void end(struct tt_ucx_operation *operation, tutti_status status)
{
    operation->event.status = status;
    tt_session_tell(&operation->peer->ucx->session, &operation->event);
}

void tt_ucx_operations_end(struct tt_ucx_peer *peer, tutti_status status)
{
    for (uint32_t slot = 0; slot < TT_UCX_SLOTS_PER_PEER; slot++) {
        if (peer->slots[slot] != NULL) {
            end(peer->slots[slot], status);
            peer->slots[slot] = NULL;
        }
    }
    struct tt_ucx_operation *operation;
    while ((operation = STAILQ_FIRST(&peer->waiting)) != NULL) {
        STAILQ_REMOVE_HEAD(&peer->waiting, link);
        end(operation, status);
    }
}

/* One that was under way has ended: the next may have its slot. */
static void finish(struct tt_ucx_operation *operation, tutti_status status)
{
    struct tt_ucx_peer *peer = operation->peer;
    free_slot(operation);
    end(operation, status);
    if (!STAILQ_EMPTY(&peer->waiting)) {
        tt_ucx_peer_due(peer);
    }
}

bool tt_ucx_read_arrived(struct tt_ucx *ucx, const struct tt_ucx_bulk *bulk, const void *data, size_t data_bytes)
{
    struct tt_ucx_operation *operation = find(ucx, bulk->id);
    if (operation == NULL) {
        return true; /* it was canceled */
    }
    if (operation->kind != TT_UCX_GET || bulk->offset_bytes != operation->moved_bytes ||
        data_bytes > operation->place.length_bytes - operation->moved_bytes) {
        return false;
    }
    memcpy((uint8_t *)operation->local + operation->moved_bytes, data, data_bytes);
    operation->moved_bytes += data_bytes;
    if (operation->moved_bytes == operation->place.length_bytes) {
        ucx->session.counters.bytes_received += operation->place.length_bytes;
        finish(operation, TUTTI_OK);
    }
    return true;
}

bool tt_ucx_operation_answered(struct tt_ucx *ucx, uint64_t id, bool refused)
{
    struct tt_ucx_operation *operation = find(ucx, id);
    if (operation == NULL) {
        return true;
    }
    bool put = operation->kind == TT_UCX_PUT;
    if (put ? operation->stream.sent_bytes < operation->place.length_bytes : !refused) {
        return false; /* an answer to what was not said yet, or to a get, which data answers */
    }
    tutti_status status = TUTTI_OK;
    if (refused) {
        status =
            tt_error(TT_PART_FABRIC, TUTTI_ERR_PROTOCOL,
                     "ucx: instance %016llx refused a %s of %llu bytes at %#llx: not registered there",
                     (unsigned long long)operation->peer->remote_id, put ? "put" : "get",
                     (unsigned long long)operation->place.length_bytes, (unsigned long long)operation->place.address);
    }
    finish(operation, status);
    return true;
}

/* --- Starts ----------------------------------------------------------------------------------------------------- */

/* Gives it the slot and tells the other side; false: the peer has failed, and so have its operations. */
static bool start(struct tt_ucx_operation *operation, uint32_t slot)
{
    struct tt_ucx_peer *peer = operation->peer;
    operation->id = make_id(peer, slot);
    peer->slots[slot] = operation;
    if (operation->kind == TT_UCX_PUT) {
        operation->stream.id = operation->id;
        STAILQ_INSERT_TAIL(&peer->streams, &operation->stream, link);
        tt_ucx_peer_due(peer);
        return true;
    }
    uint8_t bytes[TT_UCX_READ_BYTES];
    struct tt_ucx_connection connection = {.instance = peer->ucx->id, .serial = peer->session.serial};
    tt_ucx_read_encode(&connection, &operation->place, bytes);
    tutti_status status = tt_ucx_send_message(peer, TT_UCX_READ, operation->id, bytes, sizeof(bytes));
    if (status == TUTTI_ERR_NO_MEMORY) {
        finish(operation, status);
    }
    return status != TUTTI_ERR_PEER_FAILED;
}

void tt_ucx_operations_start(struct tt_ucx_peer *peer)
{
    for (uint32_t slot = 0; slot < TT_UCX_SLOTS_PER_PEER && peer->heard && !peer->session.down; slot++) {
        struct tt_ucx_operation *operation = STAILQ_FIRST(&peer->waiting);
        if (operation == NULL) {
            return;
        }
        if (peer->slots[slot] == NULL) {
            STAILQ_REMOVE_HEAD(&peer->waiting, link);
            if (!start(operation, slot)) {
                return;
            }
        }
    }
}

/* --- The contract's get and put --------------------------------------------------------------------------------- */

static bool goes_by_hardware(struct tt_ucx_peer *peer, size_t hardware_key_bytes)
{
    return hardware_key_bytes > 0 && tt_ucx_is_hardware(peer);
}

/* Takes an operation from the pool, with its place and, if it goes by hardware, its key. */
static tutti_status begin(struct tt_ucx_peer *peer, const void *key, size_t key_bytes, uint64_t length_bytes,
                          uint64_t cookie, struct tt_ucx_operation **result)
{
    tutti_status status = tt_session_sendable(&peer->session);
    if (status != TUTTI_OK) {
        return status;
    }
    struct tt_ucx_place place = {.length_bytes = length_bytes};
    if (length_bytes > 0 && !tt_ucx_key_decode(key, key_bytes, &place)) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_INVALID_ARGUMENT, "ucx: %zu bytes that are no key", key_bytes);
    }
    struct tt_ucx_operation *operation = tt_pool_take(&peer->ucx->operations);
    if (operation == NULL) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_NO_MEMORY, "ucx: no memory for a get or put");
    }
    *operation =
        (struct tt_ucx_operation){.event = {.type = TT_P2P_DONE, .value = cookie}, .peer = peer, .place = place};
    if (length_bytes > 0 && goes_by_hardware(peer, key_bytes - TT_UCX_KEY_HEADER_BYTES)) {
        status = tt_ucx_hardware_key(peer, (const uint8_t *)key + TT_UCX_KEY_HEADER_BYTES,
                                     key_bytes - TT_UCX_KEY_HEADER_BYTES, &operation->key);
        if (status != TUTTI_OK) {
            tt_pool_give(&peer->ucx->operations, operation);
            return status;
        }
    }
    *result = operation;
    return TUTTI_OK;
}

static void wait_in_line(struct tt_ucx_operation *operation)
{
    STAILQ_INSERT_TAIL(&operation->peer->waiting, operation, link);
    tt_ucx_operations_start(operation->peer);
}

tutti_status tt_ucx_get(struct tt_p2p_peer *base, const void *key, size_t key_bytes, uint64_t remote_address,
                        void *local, uint64_t length_bytes, uint64_t cookie)
{
    struct tt_ucx_peer *peer = tt_ucx_peer_of(base);
    struct tt_ucx_operation *operation = NULL;
    if (length_bytes == 0) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_INVALID_ARGUMENT, "ucx: a get of 0 bytes");
    }
    tutti_status status = begin(peer, key, key_bytes, length_bytes, cookie, &operation);
    if (status != TUTTI_OK) {
        return status;
    }
    operation->kind = TT_UCX_GET;
    operation->place.address = remote_address;
    operation->local = local;
    if (operation->key != NULL) {
        tt_ucx_hardware_get(operation, local);
        return TUTTI_OK;
    }
    wait_in_line(operation);
    return TUTTI_OK;
}

tutti_status tt_ucx_put(struct tt_p2p_peer *base, const void *key, size_t key_bytes, uint64_t remote_address,
                        const void *local, uint64_t length_bytes, const struct tt_p2p_immediate *immediate,
                        uint64_t cookie)
{
    struct tt_ucx_peer *peer = tt_ucx_peer_of(base);
    struct tt_ucx_operation *operation = NULL;
    tutti_status status = begin(peer, key, key_bytes, length_bytes, cookie, &operation);
    if (status != TUTTI_OK) {
        return status;
    }
    operation->kind = TT_UCX_PUT;
    assert(immediate->data_bytes <= TT_P2P_MAX_IMMEDIATE_BYTES);
    operation->immediate = *immediate;
    operation->place.address = remote_address;
    peer->ucx->session.counters.bytes_sent += length_bytes;
    if (length_bytes == 0) {
        end(operation,
            tt_ucx_send_message(peer, TT_UCX_IMMEDIATE, immediate->value, immediate->data, immediate->data_bytes));
    } else if (operation->key != NULL) {
        tt_ucx_hardware_put(operation, local);
    } else {
        tt_ucx_stream_put(operation, local);
        wait_in_line(operation);
    }
    return TUTTI_OK;
}
