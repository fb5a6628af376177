/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gets and puts of this side. Normal path: a get asks by a message and its bytes come as bulk; a put sends its bytes as
 * bulk, and a message says that they have been placed. So many gets are asked for at once, and more wait.
 *
 * Failures: the other side refuses what is not registered there. When the connection ends, so does all that is under
 * way, and the memory is the caller's with its DONE.
 */
#include <assert.h>

#include "base/log.h"
#include "fabric/tcp/instance.h"

static tutti_status start(struct tt_tcp_peer *peer, const void *key, size_t key_bytes, uint64_t remote_address,
                          uint64_t length_bytes, struct tt_tcp_operation **result)
{
    struct tt_tcp *tcp = peer->tcp;
    struct tt_tcp_place place = {.address = remote_address, .length_bytes = length_bytes};
    tutti_status status = tt_session_sendable(&peer->session);
    if (status != TUTTI_OK) {
        return status;
    }
    if (length_bytes > 0 && !tt_tcp_key_decode(key, key_bytes, &place)) { /* a put of nothing goes nowhere */
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_INVALID_ARGUMENT, "tcp: %zu bytes that are no key", key_bytes);
    }
    struct tt_tcp_operation *operation = tt_pool_take(&tcp->operations);
    if (operation == NULL) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_NO_MEMORY, "tcp: no memory for a get or put");
    }
    *operation = (struct tt_tcp_operation){.id = ++tcp->ids, .place = place};
    *result = operation;
    return TUTTI_OK;
}

static void end(struct tt_tcp_peer *peer, struct tt_tcp_operation *operation, tutti_status status)
{
    operation->event.status = status;
    tt_session_tell(&peer->tcp->session, &operation->event);
}

void tt_tcp_told(struct tt_session *session, struct tt_session_event *event)
{
    tt_pool_give(&((struct tt_tcp *)session)->operations, event);
}

/* --- Gets --------------------------------------------------------------------------------------------------------- */

void tt_tcp_ask(struct tt_tcp_peer *peer)
{
    uint8_t bytes[TT_TCP_READ_BYTES];
    while (peer->next_get != NULL && peer->asked < TT_TCP_READS_AT_ONCE) {
        struct tt_tcp_operation *get = peer->next_get;
        peer->next_get = TAILQ_NEXT(get, link);
        peer->asked++;
        get->sent = true;
        tt_tcp_read_encode(get->id, &get->place, bytes);
        tt_tcp_post(peer, TT_TCP_READ, bytes, sizeof(bytes));
    }
}

tutti_status tt_tcp_get(struct tt_p2p_peer *base, const void *key, size_t key_bytes, uint64_t remote_address,
                        void *local, uint64_t length_bytes, uint64_t cookie)
{
    struct tt_tcp_peer *peer = tt_tcp_peer_of(base);
    struct tt_tcp_operation *get = NULL;
    if (length_bytes == 0) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_INVALID_ARGUMENT, "tcp: get of no bytes");
    }
    tutti_status status = start(peer, key, key_bytes, remote_address, length_bytes, &get);
    if (status != TUTTI_OK) {
        return status;
    }
    get->event = (struct tt_session_event){.type = TT_P2P_DONE, .value = cookie};
    get->local = local;
    TAILQ_INSERT_TAIL(&peer->gets, get, link);
    if (peer->next_get == NULL) {
        peer->next_get = get;
    }
    tt_tcp_ask(peer);
    return TUTTI_OK;
}

void tt_tcp_get_end(struct tt_tcp_peer *peer, struct tt_tcp_operation *get, tutti_status status)
{
    if (peer->inbound.operation == get) {
        peer->inbound.operation = NULL;
        peer->inbound.to = NULL;
    }
    TAILQ_REMOVE(&peer->gets, get, link);
    peer->asked--;
    end(peer, get, status);
    tt_tcp_ask(peer);
}

/* --- Puts --------------------------------------------------------------------------------------------------------- */

tutti_status tt_tcp_put(struct tt_p2p_peer *base, const void *key, size_t key_bytes, uint64_t remote_address,
                        const void *local, uint64_t length_bytes, const struct tt_p2p_immediate *immediate,
                        uint64_t cookie)
{
    struct tt_tcp_peer *peer = tt_tcp_peer_of(base);
    struct tt_tcp_operation *put = NULL;
    tutti_status status = start(peer, key, key_bytes, remote_address, length_bytes, &put);
    if (status != TUTTI_OK) {
        return status;
    }
    put->event = (struct tt_session_event){.type = TT_P2P_DONE, .value = cookie};
    assert(immediate->data_bytes <= TT_P2P_MAX_IMMEDIATE_BYTES);
    put->immediate = *immediate;
    const struct tt_tcp_stream stream = {
        .kind = TT_TCP_WRITE, .id = put->id, .operation = put, .source = local, .left_bytes = length_bytes};
    TAILQ_INSERT_TAIL(&peer->puts, put, link);
    if (!tt_tcp_stream(peer, &stream)) {
        TAILQ_REMOVE(&peer->puts, put, link);
        tt_pool_give(&peer->tcp->operations, put);
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_NO_MEMORY, "tcp: no memory for a put");
    }
    peer->tcp->session.counters.bytes_sent += length_bytes;
    return TUTTI_OK;
}

/* --- Answers ------------------------------------------------------------------------------------------------------ */

/* The text of a get or put that its owner is told of by its status only. */
static tutti_status refused_by(const struct tt_tcp_peer *peer, const struct tt_tcp_operation *operation,
                               const char *what)
{
    char text[TT_TCP_TEXT_BYTES];
    return tt_error(TT_PART_FABRIC, TUTTI_ERR_PROTOCOL,
                    "tcp: %s refused a %s of %llu bytes at %#llx: not registered there",
                    tt_tcp_address_format(peer->session.remote->address, text), what,
                    (unsigned long long)operation->place.length_bytes, (unsigned long long)operation->place.address);
}

bool tt_tcp_answered(struct tt_tcp_peer *peer, uint64_t id, bool refused)
{
    struct tt_tcp_operation *operation;
    TAILQ_FOREACH(operation, &peer->puts, link)
    {
        if (operation->id == id && operation->sent) {
            TAILQ_REMOVE(&peer->puts, operation, link);
            end(peer, operation, refused ? refused_by(peer, operation, "put") : TUTTI_OK);
            return true;
        }
    }
    TAILQ_FOREACH(operation, &peer->gets, link)
    {
        if (operation->id == id && operation->sent && refused) {
            tt_tcp_get_end(peer, operation, refused_by(peer, operation, "get"));
            return true;
        }
    }
    return false;
}

static void cancel_all(struct tt_tcp_peer *peer, struct tt_tcp_operations *operations, tutti_status status)
{
    struct tt_tcp_operation *operation;
    while ((operation = TAILQ_FIRST(operations)) != NULL) {
        TAILQ_REMOVE(operations, operation, link);
        end(peer, operation, status);
    }
}

void tt_tcp_cancel(struct tt_session_peer *base, tutti_status status)
{
    struct tt_tcp_peer *peer = (struct tt_tcp_peer *)base;
    tt_tcp_bulk_end(peer);
    cancel_all(peer, &peer->gets, status);
    cancel_all(peer, &peer->puts, status);
    peer->next_get = NULL;
    peer->asked = 0;
}
