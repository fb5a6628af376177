/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bulk messages: the data of gets and puts where there is no hardware for them.
 *
 * Normal path: a peer asks to read a place (READ). The place is looked up among the registrations, and its bytes go to
 * the peer as a stream of bulk messages. Each is a copy, as UCX may keep it until the memory is somebody else's (over
 * TCP it copies it once more: setup.c). UCX holds no more than TT_UCX_BULK_WINDOW of them for a peer, so that frames
 * get in between; the next ones follow when those have left, and other peers have their turn after TT_UCX_BULK_BURST. A
 * put sends the same way. What a peer writes here is placed as it arrives; the last message of a put raises its
 * immediate and is answered.
 *
 * Failures: a place that is not registered, or not any more, is refused, and nothing outside of registrations is read
 * or written. A connection that breaks takes its streams with it and nothing else: all that UCX holds are copies.
 */
#include <string.h>

#include "base/log.h"
#include "fabric/ucx/instance.h"

void tt_ucx_peer_due(struct tt_ucx_peer *peer)
{
    if (!peer->in_due && !peer->session.down) {
        peer->in_due = true;
        TAILQ_INSERT_TAIL(&peer->ucx->due, peer, due_link);
    }
}

/* --- Sending ---------------------------------------------------------------------------------------------------- */

/* The stream has nothing more to do; it must be out of the peer's list. */
static void close_stream(struct tt_ucx_stream *stream)
{
    if (stream->memory != NULL) {
        stream->memory->readers--;
        stream->memory = NULL;
    }
}

static void bulk_sent(void *request, ucs_status_t status, void *user_data)
{
    struct tt_ucx_bulk_message *message = user_data;
    struct tt_ucx_peer *peer = message->peer;
    (void)status; /* of an error the endpoint's error handler tells */
    peer->messages--;
    peer->bulk_messages--;
    tt_ucx_sent(peer); /* only now */
    tt_pool_give(&peer->ucx->bulk_messages, message);
    ucp_request_free(request);
    if (!STAILQ_EMPTY(&peer->streams)) {
        tt_ucx_peer_due(peer);
    }
}

static size_t encode_header(const struct tt_ucx_peer *peer, const struct tt_ucx_stream *stream, uint8_t *bytes)
{
    struct tt_ucx_bulk bulk = {.kind = TT_UCX_READ_DATA, .id = stream->id, .offset_bytes = stream->sent_bytes};
    if (stream->operation != NULL) {
        bulk.kind = TT_UCX_WRITE_DATA;
        bulk.connection = (struct tt_ucx_connection){.instance = peer->ucx->id, .serial = peer->session.serial};
        bulk.place = stream->operation->place;
        bulk.immediate = stream->operation->immediate;
    }
    return tt_ucx_bulk_encode(&bulk, bytes);
}

/* Sends the next bytes of a stream; false: the peer has failed, or (tried again later) there is no memory. */
static bool send_bulk(struct tt_ucx_peer *peer, struct tt_ucx_stream *stream)
{
    struct tt_ucx *ucx = peer->ucx;
    struct tt_ucx_bulk_message *message = tt_pool_take(&ucx->bulk_messages);
    if (message == NULL) {
        return false;
    }
    uint64_t left_bytes = stream->length_bytes - stream->sent_bytes;
    size_t length_bytes = left_bytes < TT_UCX_BULK_BYTES ? (size_t)left_bytes : TT_UCX_BULK_BYTES;
    size_t header_bytes = encode_header(peer, stream, message->header);
    message->peer = peer;
    memcpy(message->data, stream->source + stream->sent_bytes, length_bytes);
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS,
        .flags = UCP_AM_SEND_FLAG_EAGER,
        .cb.send = bulk_sent,
        .user_data = message,
    };
    ucs_status_ptr_t request =
        ucp_am_send_nbx(peer->ep, TT_UCX_AM_ID, message->header, header_bytes, message->data, length_bytes, &param);
    if (UCS_PTR_IS_PTR(request)) {
        peer->messages++;
        peer->bulk_messages++;
    } else {
        tt_pool_give(&ucx->bulk_messages, message);
        if (UCS_PTR_IS_ERR(request)) {
            tt_session_fail(&peer->session, "UCX says: %s", ucs_status_string(UCS_PTR_STATUS(request)));
            return false;
        }
    }
    stream->sent_bytes += length_bytes;
    tt_ucx_sent(peer);
    return true;
}

/* Sends what a peer is due, up to the burst; returns whether there was anything. */
static bool send_streams(struct tt_ucx_peer *peer)
{
    struct tt_ucx_stream *stream;
    uint32_t count = 0;
    while (!peer->session.down && peer->bulk_messages < TT_UCX_BULK_WINDOW &&
           (stream = STAILQ_FIRST(&peer->streams)) != NULL) {
        if (count == TT_UCX_BULK_BURST) {
            tt_ucx_peer_due(peer);
            break;
        }
        if (!send_bulk(peer, stream)) {
            tt_ucx_peer_due(peer); /* which does nothing if it has failed */
            break;
        }
        count++;
        if (stream->sent_bytes == stream->length_bytes) {
            STAILQ_REMOVE_HEAD(&peer->streams, link);
            close_stream(stream);
        }
    }
    return count > 0;
}

bool tt_ucx_send_due(struct tt_ucx *ucx)
{
    struct tt_ucx_peer *peer, *last = TAILQ_LAST(&ucx->due, tt_ucx_peers);
    bool sent = false;
    do {
        peer = TAILQ_FIRST(&ucx->due);
        TAILQ_REMOVE(&ucx->due, peer, due_link);
        peer->in_due = false;
        tt_ucx_operations_start(peer);
        sent |= send_streams(peer);
    } while (peer != last && !TAILQ_EMPTY(&ucx->due));
    return sent;
}

void tt_ucx_stream_put(struct tt_ucx_operation *operation, const void *local)
{
    operation->stream =
        (struct tt_ucx_stream){.operation = operation, .source = local, .length_bytes = operation->place.length_bytes};
}

/* --- Ending ----------------------------------------------------------------------------------------------------- */

void tt_ucx_streams_end(struct tt_ucx_peer *peer)
{
    struct tt_ucx_stream *stream;
    while ((stream = STAILQ_FIRST(&peer->streams)) != NULL) {
        STAILQ_REMOVE_HEAD(&peer->streams, link);
        close_stream(stream);
    }
    if (peer->in_due) {
        peer->in_due = false;
        TAILQ_REMOVE(&peer->ucx->due, peer, due_link);
    }
}

static void refuse(struct tt_ucx_peer *peer, uint64_t id, const struct tt_ucx_place *place)
{
    TT_LOG(TT_PART_FABRIC, TT_LOG_WARN, "ucx: refused instance %016llx %llu bytes at %#llx: not registered",
           (unsigned long long)peer->remote_id, (unsigned long long)place->length_bytes,
           (unsigned long long)place->address);
    tt_ucx_answer(peer, TT_UCX_REFUSED, id);
}

/* Rare: a registration is released only when nobody reads it any more, unless something went wrong. */
void tt_ucx_memory_unread(struct tt_ucx_memory *memory)
{
    struct tt_session_peer *base;
    TAILQ_FOREACH(base, &memory->ucx->session.peers, link)
    {
        struct tt_ucx_peer *peer = (struct tt_ucx_peer *)base;
        for (int i = 0; i < TT_UCX_SLOTS_PER_PEER && memory->readers > 0; i++) {
            struct tt_ucx_stream *stream = &peer->reads[i];
            if (stream->memory == memory) {
                struct tt_ucx_place place = {.address = (uintptr_t)stream->source,
                                             .length_bytes = stream->length_bytes};
                STAILQ_REMOVE(&peer->streams, stream, tt_ucx_stream, link);
                close_stream(stream);
                refuse(peer, stream->id, &place);
            }
        }
    }
}

/* --- What peers ask for ----------------------------------------------------------------------------------------- */

bool tt_ucx_read_asked(struct tt_ucx *ucx, uint64_t id, const uint8_t bytes[TT_UCX_READ_BYTES])
{
    struct tt_ucx_connection connection;
    struct tt_ucx_place place;
    tt_ucx_read_decode(bytes, &connection, &place);
    struct tt_ucx_peer *peer = tt_ucx_peer_find(ucx, &connection);
    if (peer == NULL || place.length_bytes == 0) {
        return false;
    }
    if (peer->session.down) {
        return true; /* it is told, or will be, that the connection has ended */
    }
    struct tt_ucx_memory *memory = tt_ucx_memory_find(ucx, &place);
    if (memory == NULL) {
        refuse(peer, id, &place);
        return true;
    }
    for (int i = 0; i < TT_UCX_SLOTS_PER_PEER; i++) {
        struct tt_ucx_stream *stream = &peer->reads[i];
        if (stream->memory == NULL) {
            *stream = (struct tt_ucx_stream){.memory = memory,
                                             .id = id,
                                             .length_bytes = place.length_bytes,
                                             .source = (const uint8_t *)(uintptr_t)place.address};
            memory->readers++;
            STAILQ_INSERT_TAIL(&peer->streams, stream, link);
            tt_ucx_peer_due(peer);
            return true;
        }
    }
    return false; /* no instance of this version asks for more at once */
}

bool tt_ucx_write_arrived(struct tt_ucx *ucx, const struct tt_ucx_bulk *bulk, const void *data, size_t data_bytes)
{
    const struct tt_ucx_place *place = &bulk->place;
    bool allowed = tt_ucx_memory_find(ucx, place) != NULL;
    if (allowed) {
        memcpy((uint8_t *)(uintptr_t)place->address + bulk->offset_bytes, data, data_bytes);
    }
    if (bulk->offset_bytes + data_bytes < place->length_bytes) {
        return true;
    }
    if (allowed) {
        tt_ucx_keep(ucx, TT_UCX_IMMEDIATE, bulk->immediate.value, bulk->immediate.data, bulk->immediate.data_bytes);
    }
    struct tt_ucx_peer *peer = tt_ucx_peer_find(ucx, &bulk->connection);
    if (peer == NULL || peer->session.down) {
        return peer != NULL;
    }
    if (allowed) {
        tt_ucx_answer(peer, TT_UCX_WRITTEN, bulk->id);
    } else {
        refuse(peer, bulk->id, place);
    }
    return true;
}
