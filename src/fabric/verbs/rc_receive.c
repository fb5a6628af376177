/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What arrives at an instance.
 *
 * Normal path: receives are posted from the start, shared by all connections where the device can, else for each of
 * them. A frame is handed out where it lies; the buffers that a progress has used are posted again, together, by the
 * next. When all are used, the senders' devices wait and try again.
 *
 * Failures: what is not a message of this provider is dropped and counted. A receive that fails says that its
 * connection broke, or is the last that a closing queue pair gives back.
 */
#include <arpa/inet.h>
#include <assert.h>
#include <string.h>

#include "base/log.h"
#include "fabric/verbs/rc_instance.h"
#include "wire/cursor.h"

/* Of one queue; they are posted together. */
struct batch {
    struct ibv_srq *shared;
    struct ibv_qp *queue_pair; /* where `shared` is NULL */
    uint32_t count;
    struct ibv_sge places[TT_RC_POLL_BATCH];
    struct ibv_recv_wr requests[TT_RC_POLL_BATCH];
};

static int post(struct batch *batch)
{
    struct ibv_recv_wr *refused;
    if (batch->count == 0) {
        return 0;
    }
    assert(batch->shared != NULL || batch->queue_pair != NULL);
    batch->requests[batch->count - 1].next = NULL;
    batch->count = 0;
    return batch->shared != NULL ? ibv_post_srq_recv(batch->shared, batch->requests, &refused)
                                 : ibv_post_recv(batch->queue_pair, batch->requests, &refused);
}

static void add(struct batch *batch, struct tt_rc_buffer *buffer)
{
    uint32_t i = batch->count++;
    batch->places[i] = (struct ibv_sge){
        .addr = (uintptr_t)buffer->bytes, .length = sizeof(buffer->bytes), .lkey = tt_rc_pool_lkey(buffer)};
    batch->requests[i] = (struct ibv_recv_wr){
        .wr_id = (uintptr_t)&buffer->work, .next = &batch->requests[i + 1], .sg_list = &batch->places[i], .num_sge = 1};
}

tutti_status tt_rc_receives_start(struct tt_rc *rc, struct tt_rc_peer *peer)
{
    uint32_t count = peer != NULL ? TT_RC_OWN_RECEIVES : TT_RC_SHARED_RECEIVES;
    struct tt_rc_pool *pool = peer != NULL ? &peer->buffers : &rc->buffers;
    struct batch batch = {.shared = rc->shared, .queue_pair = peer != NULL ? peer->queue_pair : NULL};
    tutti_status status = tt_rc_pool_init(pool, rc->lane->pd, sizeof(struct tt_rc_buffer), count, false);
    int error = 0;
    for (uint32_t i = 0; i < count && status == TUTTI_OK && error == 0; i++) {
        struct tt_rc_buffer *buffer = tt_rc_pool_take(pool);
        buffer->work = (struct tt_rc_work){.kind = TT_RC_WORK_RECEIVE, .peer = peer};
        add(&batch, buffer);
        if (batch.count == TT_RC_POLL_BATCH || i + 1 == count) {
            error = post(&batch);
        }
    }
    if (error != 0) {
        status = tt_error(TT_PART_FABRIC, TUTTI_ERR_NO_RESOURCE, "verbs: post %u receives: %s", count, strerror(error));
    }
    if (status == TUTTI_OK && peer != NULL) {
        peer->receives = count;
    }
    return status;
}

/* The end of the batch: it is full, or the next buffer is another connection's. */
static void flush(struct batch *batch)
{
    int error = post(batch);
    if (error != 0) {
        TT_LOG(TT_PART_FABRIC, TT_LOG_WARN, "verbs: post receives again: %s", strerror(error));
    }
}

/* The queue pair has given it back, at its end. */
static void count_off(struct tt_rc_peer *owner)
{
    owner->receives--;
    if (owner->session.phase == TT_SESSION_CLOSING) {
        tt_session_unsettle(&owner->session);
    }
}

void tt_rc_receive_again(struct tt_rc *rc)
{
    struct batch batch;
    struct tt_rc_buffer *buffer;
    batch.shared = rc->shared;
    batch.queue_pair = NULL;
    batch.count = 0;
    while ((buffer = STAILQ_FIRST(&rc->used)) != NULL) {
        struct tt_rc_peer *owner = buffer->work.peer;
        STAILQ_REMOVE_HEAD(&rc->used, next);
        if (owner != NULL && (owner->flushing || owner->queue_pair == NULL)) {
            count_off(owner);
            continue;
        }
        if (batch.count == TT_RC_POLL_BATCH || (owner != NULL && batch.queue_pair != owner->queue_pair)) {
            flush(&batch);
        }
        batch.queue_pair = owner != NULL ? owner->queue_pair : NULL;
        add(&batch, buffer);
    }
    flush(&batch);
}

/* --- Completions -------------------------------------------------------------------------------------------------- */

static void drop(struct tt_rc *rc, uint32_t length_bytes)
{
    rc->session.counters.frames_dropped++;
    TT_LOG(TT_PART_FABRIC, TT_LOG_DEBUG, "verbs: dropped a foreign message of %u bytes", length_bytes);
}

/* Returns whether there is an event of it. */
static bool take_message(struct tt_rc *rc, struct tt_rc_peer *peer, const uint8_t *bytes, uint32_t length_bytes,
                         struct tt_p2p_event *event)
{
    enum tt_rc_message_kind kind;
    uint32_t payload_bytes;
    if (!tt_rc_header_decode(bytes, length_bytes, &kind, &payload_bytes)) {
        drop(rc, length_bytes);
        return false;
    }
    const uint8_t *payload = bytes + TT_RC_HEADER_BYTES;
    switch (kind) {
    case TT_RC_FRAME:
        rc->session.counters.frames_received++;
        rc->session.counters.bytes_received += payload_bytes;
        *event = (struct tt_p2p_event){.type = TT_P2P_FRAME,
                                       .data = payload,
                                       .length_bytes = payload_bytes,
                                       .address = peer != NULL ? peer->session.remote->address : NULL,
                                       .address_bytes = TT_RC_ADDRESS_BYTES,
                                       .peer_cookie = peer != NULL ? tt_session_cookie(&peer->session) : 0};
        return true;
    case TT_RC_IMMEDIATE:
        *event = (struct tt_p2p_event){.type = TT_P2P_IMMEDIATE,
                                       .data = payload + TT_RC_NUMBER_BYTES,
                                       .length_bytes = payload_bytes - TT_RC_NUMBER_BYTES,
                                       .immediate = tt_bytes_get(payload, TT_RC_NUMBER_BYTES)};
        return true;
    case TT_RC_BYE:
    case TT_RC_BYE_HEARD:
        if (peer != NULL) {
            tt_session_left(&peer->session);
        }
        return false;
    }
    return false;
}

/* A receive that the queue pair gave back unused, or could not fill. */
static void receive_failed(struct tt_rc *rc, struct tt_rc_buffer *buffer, struct tt_rc_peer *peer,
                           enum ibv_wc_status reason)
{
    if (peer != NULL && peer->session.phase < TT_SESSION_CLOSING) {
        tt_session_fail(&peer->session, "device %s: %s", rc->device->name,
                        reason == IBV_WC_WR_FLUSH_ERR ? "the queue pair broke" : ibv_wc_status_str(reason));
    }
    STAILQ_INSERT_TAIL(&rc->used, buffer, next); /* a shared one is needed again; others are counted off */
}

bool tt_rc_received(struct tt_rc *rc, const struct ibv_wc *completion, struct tt_p2p_event *event)
{
    struct tt_rc_work *work = (struct tt_rc_work *)(uintptr_t)completion->wr_id;
    if (work->kind == TT_RC_WORK_HEAR) {
        struct tt_rc_datagram *datagram = (struct tt_rc_datagram *)work;
        if (completion->status == IBV_WC_SUCCESS) {
            tt_rc_heard_greeting(rc, datagram, completion->byte_len);
            tt_rc_hear_again(rc, datagram);
        } else {
            tt_rc_hear_failed(rc, datagram, completion->status);
        }
        return false;
    }
    struct tt_rc_buffer *buffer = (struct tt_rc_buffer *)work;
    struct tt_rc_peer *peer = tt_rc_queue_find(rc, completion->qp_num);
    if (completion->status != IBV_WC_SUCCESS) {
        receive_failed(rc, buffer, peer, completion->status);
        return false;
    }
    STAILQ_INSERT_TAIL(&rc->used, buffer, next);
    if (peer != NULL) {
        peer->heard_ns = rc->session.now_ns;
        if (peer->session.phase == TT_SESSION_GREETING && !peer->session.broken) {
            tt_rc_peer_opened(peer); /* it sends, so it has heard of this end */
        }
    }
    if (completion->opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
        *event = (struct tt_p2p_event){.type = TT_P2P_IMMEDIATE, .immediate = ntohl(completion->imm_data)};
        return true;
    }
    return take_message(rc, peer, buffer->bytes, completion->byte_len, event);
}
