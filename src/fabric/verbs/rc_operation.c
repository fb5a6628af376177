/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gets and puts.
 *
 * Normal path: a get is cut into RDMA reads, a put into RDMA writes, of limited length; a queue pair holds a limited
 * number of each, and the rest waits in line, so that frames get through. Local memory that is not registered here is
 * reached through bounce buffers; those are few, and a connection that finds none waits for the next that comes back.
 * The last write of a put carries the immediate if it fits into the 32 bits of one and has no data; else a message
 * follows, which arrives after what was written before it, as all that a queue pair sends.
 *
 * Failures: a key that is none, or does not cover the range, is refused. What has not been posted when a peer goes ends
 * at once, if nothing of it is under way; else when the queue pair has given back its pieces.
 */
#include <arpa/inet.h>
#include <assert.h>
#include <string.h>

#include "base/log.h"
#include "fabric/verbs/rc_instance.h"
#include "wire/cursor.h"

/* --- Ends --------------------------------------------------------------------------------------------------------- */

tutti_status tt_rc_cause(const struct tt_rc_peer *peer)
{
    const struct tt_session_peer *session = &peer->session;
    return session->released && !session->broken && !session->remote_left ? TUTTI_ERR_CANCELED : TUTTI_ERR_PEER_FAILED;
}

static void end_if_over(struct tt_rc_operation *operation)
{
    struct tt_rc *rc = operation->peer->rc;
    if (!operation->all_posted || operation->under_way > 0) {
        return;
    }
    if (operation->event.status == TUTTI_OK && !operation->put) {
        rc->session.counters.bytes_received += operation->length_bytes;
    }
    tt_session_tell(&rc->session, &operation->event);
}

void tt_rc_operation_part_done(struct tt_rc_operation *operation, tutti_status status)
{
    operation->under_way--;
    if (operation->event.status == TUTTI_OK) {
        operation->event.status = status;
    }
    end_if_over(operation);
}

static void end_all(struct tt_rc_operations *operations, tutti_status status)
{
    struct tt_rc_operation *operation;
    while ((operation = STAILQ_FIRST(operations)) != NULL) {
        STAILQ_REMOVE_HEAD(operations, link);
        operation->all_posted = true;
        operation->event.status = status;
        end_if_over(operation);
    }
}

void tt_rc_operations_end(struct tt_rc_peer *peer, tutti_status status)
{
    end_all(&peer->gets, status);
    end_all(&peer->puts, status);
    if (peer->blocked) {
        peer->blocked = false;
        TAILQ_REMOVE(&peer->rc->blocked, peer, link);
    }
}

void tt_rc_bounce_give(struct tt_rc_piece *piece)
{
    if (piece->bounce != NULL) {
        tt_rc_pool_give(&piece->work.peer->rc->bounces, piece->bounce);
        piece->bounce = NULL;
    }
}

static void give_back(struct tt_rc_piece *piece)
{
    struct tt_rc_peer *peer = piece->work.peer;
    tt_rc_bounce_give(piece);
    piece->next_free = peer->free_pieces;
    peer->free_pieces = piece;
}

void tt_rc_piece_done(struct tt_rc_piece *piece, tutti_status status)
{
    struct tt_rc_peer *peer = piece->work.peer;
    struct tt_rc_operation *operation = piece->work.operation;
    bool bounced = piece->bounce != NULL;
    if (piece->read) {
        peer->reads_out--;
    } else {
        peer->writes_out--;
    }
    if (piece->read && bounced && status == TUTTI_OK && operation != NULL) {
        memcpy(operation->local + piece->offset_bytes, piece->bounce, piece->length_bytes);
    }
    give_back(piece);
    if (operation != NULL) {
        tt_rc_operation_part_done(operation, status);
    }
    if (bounced) {
        tt_rc_unblock(peer->rc);
    }
}

/* --- Starts ------------------------------------------------------------------------------------------------------- */

static void wait_for_bounce(struct tt_rc_peer *peer)
{
    if (!peer->blocked) {
        peer->blocked = true;
        TAILQ_INSERT_TAIL(&peer->rc->blocked, peer, link);
    }
}

void tt_rc_unblock(struct tt_rc *rc)
{
    struct tt_rc_peer *peer;
    while (rc->bounces.free != NULL && (peer = TAILQ_FIRST(&rc->blocked)) != NULL) {
        peer->blocked = false;
        TAILQ_REMOVE(&rc->blocked, peer, link);
        tt_rc_operations_start(peer);
    }
}

/* The next piece of an operation; NULL: it has to wait for a bounce buffer. */
static struct tt_rc_piece *take_piece(struct tt_rc_operation *operation)
{
    struct tt_rc_peer *peer = operation->peer;
    uint64_t left_bytes = operation->length_bytes - operation->posted_bytes;
    /* Inline data is taken from anywhere. */
    bool bounces = operation->bounces && !(operation->put && left_bytes <= peer->rc->inline_bytes);
    uint64_t most_bytes = bounces ? TT_RC_BOUNCE_BYTES : peer->rc->piece_bytes;
    uint8_t *bounce = bounces ? tt_rc_pool_take(&peer->rc->bounces) : NULL;
    if (bounces && bounce == NULL) {
        wait_for_bounce(peer);
        return NULL;
    }
    struct tt_rc_piece *piece = peer->free_pieces;
    assert(piece != NULL); /* there are as many as may be under way */
    peer->free_pieces = piece->next_free;
    *piece = (struct tt_rc_piece){
        .work = {.kind = TT_RC_WORK_PIECE, .peer = peer, .operation = operation},
        .read = !operation->put,
        .bounce = bounce,
        .offset_bytes = operation->posted_bytes,
        .length_bytes = left_bytes < most_bytes ? left_bytes : most_bytes,
    };
    return piece;
}

/* Posts it; false: the connection has failed, and the operation is not the caller's any more. */
static bool post_piece(struct tt_rc_operation *operation, struct tt_rc_piece *piece, struct ibv_send_wr *request)
{
    struct tt_rc_peer *peer = operation->peer;
    const uint8_t *local = operation->local + piece->offset_bytes;
    struct ibv_sge place = {.addr = (uintptr_t)local, .length = (uint32_t)piece->length_bytes, .lkey = operation->lkey};
    if (piece->bounce != NULL) {
        place.addr = (uintptr_t)piece->bounce;
        place.lkey = tt_rc_pool_lkey(piece->bounce);
        if (operation->put) {
            memcpy(piece->bounce, local, piece->length_bytes);
        }
    }
    if (operation->put && piece->length_bytes <= peer->rc->inline_bytes) {
        request->send_flags |= IBV_SEND_INLINE;
    }
    request->sg_list = &place;
    request->num_sge = piece->length_bytes > 0;
    request->wr.rdma.remote_addr = operation->remote_address + piece->offset_bytes;
    request->wr.rdma.rkey = operation->rkey;
    if (!tt_rc_post(peer, &piece->work, request)) {
        give_back(piece);
        return false;
    }
    operation->posted_bytes += piece->length_bytes;
    operation->under_way++;
    return true;
}

static void all_posted(struct tt_rc_operations *operations)
{
    struct tt_rc_operation *operation = STAILQ_FIRST(operations);
    STAILQ_REMOVE_HEAD(operations, link);
    operation->all_posted = true;
}

/* Each of these posts one work request, and returns whether it makes sense to call again. */

static bool post_read(struct tt_rc_peer *peer)
{
    struct tt_rc_operation *operation = STAILQ_FIRST(&peer->gets);
    if (operation == NULL || peer->reads_out == peer->reads_limit) {
        return false;
    }
    struct tt_rc_piece *piece = take_piece(operation);
    struct ibv_send_wr request = {.opcode = IBV_WR_RDMA_READ};
    if (piece == NULL || !post_piece(operation, piece, &request)) {
        return false;
    }
    peer->reads_out++;
    if (operation->posted_bytes == operation->length_bytes) {
        all_posted(&peer->gets);
    }
    return true;
}

static bool post_immediate(struct tt_rc_peer *peer, struct tt_rc_operation *operation)
{
    const struct tt_p2p_immediate *immediate = &operation->immediate;
    uint8_t bytes[TT_RC_NUMBER_BYTES + TT_P2P_MAX_IMMEDIATE_BYTES];
    tt_bytes_put(bytes, immediate->value, TT_RC_NUMBER_BYTES);
    memcpy(bytes + TT_RC_NUMBER_BYTES, immediate->data, immediate->data_bytes);
    struct tt_rc_message *message = tt_rc_message_take(
        peer, TT_RC_IMMEDIATE,
        &(struct tt_p2p_frame){.head = bytes, .head_bytes = TT_RC_NUMBER_BYTES + immediate->data_bytes});
    if (message == NULL) {
        all_posted(&peer->puts);
        operation->event.status = TUTTI_ERR_NO_MEMORY;
        end_if_over(operation);
        return true;
    }
    message->work.operation = operation;
    if (!tt_rc_post_message(peer, message)) {
        return false;
    }
    operation->under_way++;
    peer->writes_out++;
    all_posted(&peer->puts);
    return true;
}

static bool post_write(struct tt_rc_peer *peer)
{
    struct tt_rc_operation *operation = STAILQ_FIRST(&peer->puts);
    if (operation == NULL || peer->writes_out == peer->rc->writes_limit) {
        return false;
    }
    bool carries = operation->immediate.value <= UINT32_MAX && operation->immediate.data_bytes == 0;
    if (operation->posted_bytes == operation->length_bytes && !carries) {
        return post_immediate(peer, operation);
    }
    struct tt_rc_piece *piece = take_piece(operation);
    if (piece == NULL) {
        return false;
    }
    bool last = carries && piece->offset_bytes + piece->length_bytes == operation->length_bytes;
    struct ibv_send_wr request = {.opcode = last ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE,
                                  .imm_data = last ? htonl((uint32_t)operation->immediate.value) : 0};
    if (!post_piece(operation, piece, &request)) {
        return false;
    }
    peer->writes_out++;
    if (last) {
        all_posted(&peer->puts);
    }
    return true;
}

void tt_rc_operations_start(struct tt_rc_peer *peer)
{
    bool more = true;
    while (more && peer->session.phase == TT_SESSION_OPEN && !peer->session.down) {
        more = post_read(peer);
    }
    more = true;
    while (more && peer->session.phase == TT_SESSION_OPEN && !peer->session.down) {
        more = post_write(peer);
    }
}

/* --- The contract's get and put ----------------------------------------------------------------------------------- */

/* Takes an operation from the pool, if the range is the key's. */
static tutti_status begin(struct tt_rc_peer *peer, const void *packed, size_t key_bytes, uint64_t remote_address,
                          const void *local, uint64_t length_bytes, struct tt_rc_operation **result)
{
    struct tt_rc_key key = {0};
    if (peer->session.down) {
        return TUTTI_ERR_PEER_FAILED;
    }
    if (length_bytes > 0 && !tt_rc_key_decode(packed, key_bytes, &key)) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_INVALID_ARGUMENT, "verbs: %zu bytes that are no key", key_bytes);
    }
    if (length_bytes > 0 && !tt_rc_key_covers(&key, remote_address, length_bytes)) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_INVALID_ARGUMENT,
                        "verbs: %llu bytes at %#llx are outside of the key's %llu at %#llx",
                        (unsigned long long)length_bytes, (unsigned long long)remote_address,
                        (unsigned long long)key.length_bytes, (unsigned long long)key.address);
    }
    struct tt_rc_operation *operation = tt_pool_take(&peer->rc->operations);
    if (operation == NULL) {
        return TUTTI_ERR_NO_MEMORY;
    }
    *operation = (struct tt_rc_operation){.event = {.type = TT_P2P_DONE},
                                          .peer = peer,
                                          .rkey = key.rkey,
                                          .remote_address = remote_address,
                                          .local = (uint8_t *)(uintptr_t)local,
                                          .length_bytes = length_bytes};
    operation->bounces = length_bytes > 0 && !tt_rc_memory_find(peer->rc, local, length_bytes, &operation->lkey);
    *result = operation;
    return TUTTI_OK;
}

tutti_status tt_rc_get_from(struct tt_p2p_peer *base, const void *key, size_t key_bytes, uint64_t remote_address,
                            void *local, uint64_t length_bytes, uint64_t cookie)
{
    struct tt_rc_peer *peer = tt_rc_peer_of(base);
    struct tt_rc_operation *operation = NULL;
    if (length_bytes == 0) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_INVALID_ARGUMENT, "verbs: a get of 0 bytes");
    }
    tutti_status status = begin(peer, key, key_bytes, remote_address, local, length_bytes, &operation);
    if (status != TUTTI_OK) {
        return status;
    }
    operation->event.value = cookie;
    STAILQ_INSERT_TAIL(&peer->gets, operation, link);
    tt_rc_operations_start(peer);
    return TUTTI_OK;
}

tutti_status tt_rc_put_to(struct tt_p2p_peer *base, const void *key, size_t key_bytes, uint64_t remote_address,
                          const void *local, uint64_t length_bytes, const struct tt_p2p_immediate *immediate,
                          uint64_t cookie)
{
    struct tt_rc_peer *peer = tt_rc_peer_of(base);
    struct tt_rc_operation *operation = NULL;
    tutti_status status = begin(peer, key, key_bytes, remote_address, local, length_bytes, &operation);
    if (status != TUTTI_OK) {
        return status;
    }
    operation->put = true;
    operation->event.value = cookie;
    assert(immediate->data_bytes <= TT_P2P_MAX_IMMEDIATE_BYTES);
    operation->immediate = *immediate;
    peer->rc->session.counters.bytes_sent += length_bytes;
    STAILQ_INSERT_TAIL(&peer->puts, operation, link);
    tt_rc_operations_start(peer);
    return TUTTI_OK;
}
