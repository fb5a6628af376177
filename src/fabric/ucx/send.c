/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sends frames and the provider's own messages.
 *
 * Nothing is sent from a callback of UCX: a send that fails closes its connection at once, and UCX 1.13 ends the
 * process by an assertion of its own (tcp_iface.c, conn_state) when a closed one is still in the batch of events that
 * it is handing out. That happens where a dead process had two connections to this one. What a callback has to answer
 * waits until the worker has been moved.
 *
 * Normal path: the message is built in an object of the pool; UCX nearly always takes it at once (copies it into its
 * own buffer) and the object goes back before the call returns. If the connection is not established or the peer does
 * not drain, the object stays until UCX has taken it; the pool grows only then, and for answers.
 *
 * Failures: a peer that is down takes nothing (PEER_FAILED). A message that UCX had accepted and then gives back with
 * an error needs no report: the endpoint's error handler runs as well.
 */
#include <string.h>

#include "base/log.h"
#include "fabric/ucx/instance.h"

/*
 * TCP may have lost it, and finds out soon only if it sends something behind it (tail.h); queue pairs repeat by
 * themselves, much faster.
 */
void tt_ucx_sent(struct tt_ucx_peer *peer)
{
    struct tt_ucx *ucx = peer->ucx;
    if (!ucx->lossless && !peer->session.down && (!ucx->hardware || (peer->heard && !tt_ucx_is_hardware(peer)))) {
        tt_tail_sent(&ucx->tails, &peer->tail);
    }
}

static void sent(void *request, ucs_status_t status, void *user_data)
{
    struct tt_ucx_message *message = user_data;
    struct tt_ucx_peer *peer = message->peer;
    (void)status;
    peer->messages--;
    if (!message->is_probe) {
        tt_ucx_sent(peer); /* only now */
    }
    tt_pool_give(&peer->ucx->messages, message);
    ucp_request_free(request);
}

static const struct tt_p2p_frame nothing;

/* NULL: no memory. */
static struct tt_ucx_message *build(struct tt_ucx_peer *peer, enum tt_ucx_message_kind kind, uint64_t value,
                                    const struct tt_p2p_frame *payload)
{
    uint32_t length_bytes = tt_p2p_frame_bytes(payload);
    struct tt_ucx *ucx = peer->ucx;
    struct tt_ucx_message *message = tt_pool_take(&ucx->messages);
    if (message == NULL) {
        tt_error(TT_PART_FABRIC, TUTTI_ERR_NO_MEMORY, "ucx: no memory to queue a frame, %zu are queued",
                 ucx->messages.used_count);
        return NULL;
    }
    struct tt_ucx_header header = {.kind = kind, .payload_bytes = length_bytes, .value = value};
    message->peer = peer;
    message->is_probe = kind == TT_UCX_PROBE;
    message->length_bytes = TT_UCX_HEADER_BYTES + length_bytes;
    tt_ucx_header_encode(&header, message->bytes);
    tt_p2p_frame_copy(payload, message->bytes + TT_UCX_HEADER_BYTES);
    return message;
}

/* Hands the message to UCX, which gives it back now or later. */
static tutti_status post(struct tt_ucx_message *message)
{
    struct tt_ucx_peer *peer = message->peer;
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS,
        .flags = UCP_AM_SEND_FLAG_EAGER,
        .cb.send = sent,
        .user_data = message,
    };
    ucs_status_ptr_t request =
        ucp_am_send_nbx(peer->ep, TT_UCX_AM_ID, NULL, 0, message->bytes, message->length_bytes, &param);
    if (UCS_PTR_IS_PTR(request)) {
        peer->messages++;
        return TUTTI_OK;
    }
    tt_pool_give(&peer->ucx->messages, message);
    if (UCS_PTR_IS_ERR(request)) {
        /* The error handler has run or is about to; PEER_DOWN is the report. */
        TT_LOG(TT_PART_FABRIC, TT_LOG_DEBUG, "ucx: send: %s", ucs_status_string(UCS_PTR_STATUS(request)));
        tt_session_fail(&peer->session, "UCX says: %s", ucs_status_string(UCS_PTR_STATUS(request)));
        return TUTTI_ERR_PEER_FAILED;
    }
    return TUTTI_OK;
}

static tutti_status send_message(struct tt_ucx_peer *peer, enum tt_ucx_message_kind kind, uint64_t value,
                                 const struct tt_p2p_frame *payload)
{
    struct tt_ucx_message *message = build(peer, kind, value, payload);
    tt_ucx_sent(peer);
    return message != NULL ? post(message) : TUTTI_ERR_NO_MEMORY;
}

tutti_status tt_ucx_send_message(struct tt_ucx_peer *peer, enum tt_ucx_message_kind kind, uint64_t value,
                                 const void *payload, uint32_t length_bytes)
{
    return send_message(peer, kind, value, &(struct tt_p2p_frame){.head = payload, .head_bytes = length_bytes});
}

/* What UCX still holds for the peer will be behind what was sent, without a probe. */
void tt_ucx_send_probe(struct tt_ucx_peer *peer)
{
    struct tt_ucx_message *message = peer->messages == 0 ? build(peer, TT_UCX_PROBE, 0, &nothing) : NULL;
    if (message != NULL && post(message) == TUTTI_OK) {
        peer->ucx->session.counters.probes_sent++;
    }
}

void tt_ucx_answer(struct tt_ucx_peer *peer, enum tt_ucx_message_kind kind, uint64_t id)
{
    struct tt_ucx_message *message = build(peer, kind, id, &nothing);
    if (message == NULL) {
        peer->ucx->lost = true; /* who asked would wait for ever */
        return;
    }
    peer->messages++; /* the peer stays until it has left */
    STAILQ_INSERT_TAIL(&peer->ucx->answers, message, link);
}

void tt_ucx_send_answers(struct tt_ucx *ucx)
{
    struct tt_ucx_message *message;
    while ((message = STAILQ_FIRST(&ucx->answers)) != NULL) {
        STAILQ_REMOVE_HEAD(&ucx->answers, link);
        message->peer->messages--;
        if (message->peer->session.down) {
            tt_pool_give(&ucx->messages, message);
        } else {
            tt_ucx_sent(message->peer);
            post(message);
        }
    }
}

tutti_status tt_ucx_send(struct tt_session_peer *base, const struct tt_p2p_frame *frame, bool more)
{
    (void)more; /* it is advice */
    struct tt_ucx_peer *peer = (struct tt_ucx_peer *)base;
    return send_message(peer, TT_UCX_FRAME, peer->ucx->id, frame);
}
