/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sends messages, and takes the completions of all that was posted to queue pairs.
 *
 * Normal path: a frame is copied into a message of the pool and posted; short ones go inline. While the connection is
 * being made, or the queue pair holds enough messages, they wait in line; the pool grows only then. Every work request
 * is signalled, so what a queue pair holds is known. A completion means that the other side's device has what was sent.
 *
 * Failures: a peer that is down takes nothing (PEER_FAILED). An error completion breaks the connection: the rest comes
 * back as flushed.
 */
#include <string.h>

#include "base/log.h"
#include "fabric/verbs/rc_instance.h"

struct tt_rc_message *tt_rc_message_take(struct tt_rc_peer *peer, enum tt_rc_message_kind kind,
                                         const struct tt_p2p_frame *payload)
{
    uint32_t length_bytes = tt_p2p_frame_bytes(payload);
    struct tt_rc_message *message = tt_rc_pool_take(&peer->rc->messages);
    if (message == NULL) {
        return NULL;
    }
    message->work = (struct tt_rc_work){.kind = TT_RC_WORK_MESSAGE, .peer = peer};
    message->kind = kind;
    message->length_bytes = TT_RC_HEADER_BYTES + length_bytes;
    tt_rc_header_encode(kind, length_bytes, message->bytes);
    tt_p2p_frame_copy(payload, message->bytes + TT_RC_HEADER_BYTES);
    return message;
}

bool tt_rc_post(struct tt_rc_peer *peer, struct tt_rc_work *work, struct ibv_send_wr *request)
{
    struct ibv_send_wr *refused;
    request->wr_id = (uintptr_t)work;
    request->send_flags |= IBV_SEND_SIGNALED;
    int error = ibv_post_send(peer->queue_pair, request, &refused);
    if (error != 0) {
        tt_session_fail(&peer->session, "device %s: post to queue pair %u: %s", peer->rc->device->name,
                        peer->queue_pair->qp_num, strerror(error));
        return false;
    }
    TAILQ_INSERT_TAIL(&peer->posted, work, link);
    return true;
}

bool tt_rc_post_message(struct tt_rc_peer *peer, struct tt_rc_message *message)
{
    struct ibv_sge place = {
        .addr = (uintptr_t)message->bytes, .length = message->length_bytes, .lkey = tt_rc_pool_lkey(message)};
    struct ibv_send_wr request = {.sg_list = &place,
                                  .num_sge = 1,
                                  .opcode = IBV_WR_SEND,
                                  .send_flags = message->length_bytes <= peer->rc->inline_bytes ? IBV_SEND_INLINE : 0};
    if (!tt_rc_post(peer, &message->work, &request)) {
        tt_rc_pool_give(&peer->rc->messages, message);
        return false;
    }
    return true;
}

void tt_rc_send_waiting(struct tt_rc_peer *peer)
{
    while (!peer->session.broken &&
           (peer->session.phase == TT_SESSION_OPEN || peer->session.phase == TT_SESSION_FAREWELL) &&
           peer->messages_out < TT_RC_MESSAGES_AT_ONCE && !STAILQ_EMPTY(&peer->waiting)) {
        struct tt_rc_message *message = STAILQ_FIRST(&peer->waiting);
        STAILQ_REMOVE_HEAD(&peer->waiting, next);
        peer->messages_out++;
        if (!tt_rc_post_message(peer, message)) {
            peer->messages_out--;
            return;
        }
    }
}

void tt_rc_drop_waiting(struct tt_rc_peer *peer)
{
    struct tt_rc_message *message;
    while ((message = STAILQ_FIRST(&peer->waiting)) != NULL) {
        STAILQ_REMOVE_HEAD(&peer->waiting, next);
        tt_rc_pool_give(&peer->rc->messages, message);
    }
}

tutti_status tt_rc_queue_message(struct tt_rc_peer *peer, enum tt_rc_message_kind kind,
                                 const struct tt_p2p_frame *payload)
{
    struct tt_rc_message *message = tt_rc_message_take(peer, kind, payload);
    if (message == NULL) {
        return TUTTI_ERR_NO_MEMORY;
    }
    STAILQ_INSERT_TAIL(&peer->waiting, message, next);
    tt_rc_send_waiting(peer);
    return TUTTI_OK;
}

tutti_status tt_rc_send(struct tt_session_peer *base, const struct tt_p2p_frame *frame, bool more)
{
    (void)more; /* it is advice */
    return tt_rc_queue_message((struct tt_rc_peer *)base, TT_RC_FRAME, frame);
}

/* The rkey is not looked at where no byte is written. */
void tt_rc_probe(struct tt_rc_peer *peer)
{
    struct ibv_send_wr request = {.opcode = IBV_WR_RDMA_WRITE};
    (void)tt_rc_post(peer, &peer->probe, &request); /* a failure ends the connection */
}

/* --- Completions -------------------------------------------------------------------------------------------------- */

/* A device that refuses access is no exception: a dying process loses its registrations before its queue pairs. */
static tutti_status break_connection(struct tt_rc_peer *peer, enum ibv_wc_status reason)
{
    if (peer->session.phase < TT_SESSION_CLOSING) {
        tt_session_fail(&peer->session, "device %s: %s", peer->rc->device->name, ibv_wc_status_str(reason));
    }
    return tt_rc_cause(peer);
}

static void message_done(struct tt_rc_message *message, tutti_status status)
{
    struct tt_rc_peer *peer = message->work.peer;
    if (message->kind == TT_RC_IMMEDIATE) {
        peer->writes_out--;
    } else {
        peer->messages_out--;
    }
    if (message->work.operation != NULL) {
        tt_rc_operation_part_done(message->work.operation, status);
    }
    if (status == TUTTI_OK && (message->kind == TT_RC_BYE || message->kind == TT_RC_BYE_HEARD)) {
        peer->farewell_sent = true;
    }
    tt_rc_pool_give(&peer->rc->messages, message);
}

void tt_rc_sent(struct tt_rc *rc, const struct ibv_wc *completion)
{
    struct tt_rc_work *work = (struct tt_rc_work *)(uintptr_t)completion->wr_id;
    struct tt_rc_peer *peer = work->peer;
    if (work->kind == TT_RC_WORK_GREETING) {
        tt_rc_greeting_sent(rc, (struct tt_rc_datagram *)work);
        return;
    }
    TAILQ_REMOVE(&peer->posted, work, link);
    tutti_status status = completion->status == IBV_WC_SUCCESS ? TUTTI_OK : break_connection(peer, completion->status);
    if (status == TUTTI_OK) {
        peer->heard_ns = rc->session.now_ns;
    }
    if (work->kind == TT_RC_WORK_MESSAGE) {
        message_done((struct tt_rc_message *)work, status);
    } else if (work->kind == TT_RC_WORK_PIECE) {
        tt_rc_piece_done((struct tt_rc_piece *)work, status);
    }
    if (peer->session.phase == TT_SESSION_CLOSED) {
        return; /* its queue pair is gone, and the session has forgotten it, or will */
    }
    if (peer->session.down) {
        tt_session_unsettle(&peer->session);
    }
    tt_rc_send_waiting(peer);
    tt_rc_operations_start(peer);
}
