/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A connection's queue pair.
 *
 * Normal path: created in INIT when either side begins a connection; RTR and RTS at once when the other end is known.
 * Whether the other end receives already is the greeting's business. The error state makes it give back what it holds.
 *
 * Failures: what the device refuses is named. A peer that does not answer is reported after a try and six repetitions:
 * seven would mean for ever to some devices. A peer that has no receive posted is waited for without limit, as its
 * device answers; a process that dies meanwhile takes its queue pair along, and then nobody answers.
 */
#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "base/log.h"
#include "fabric/verbs/rc_instance.h"

enum {
    ACK_TIMEOUT = 14,      /* 4.096 us << 14 = 67 ms, and up to four times as long on some devices */
    SOFT_ACK_TIMEOUT = 15, /* 134 ms */
    RETRIES = 6,           /* 7 would never end on some */
    RNR_RETRIES = 7,       /* this is how "for ever" is written */
    RNR_TIMER = 12,        /* 0.64 ms until a message that found no receive is sent again */
    LONGEST_ACK_TIMEOUT = 31,
    HOP_LIMIT = 64,  /* of routed RoCE */
    SUBNET_BYTES = 8 /* of a GID; peers of another subnet are behind a router */
};

#define ACK_UNIT_NS UINT64_C(4096)

static tutti_status refuse(const struct tt_rc_peer *peer, int error, const char *what)
{
    return tt_error(TT_PART_FABRIC, error == ENOMEM ? TUTTI_ERR_NO_MEMORY : TUTTI_ERR_NO_RESOURCE,
                    "verbs: device %s: %s to instance %016llx (there are %u): %s", peer->rc->device->name, what,
                    (unsigned long long)peer->address.instance, peer->rc->queue_pairs, strerror(error));
}

static struct ibv_ah_attr path_to(const struct tt_rc *rc, const struct tt_rc_address *address)
{
    const struct tt_verbs_device *device = rc->device;
    struct ibv_ah_attr path = {.dlid = address->lid, .sl = device->service_level, .port_num = device->port};
    if (device->roce || memcmp(address->gid, device->gid.raw, SUBNET_BYTES) != 0) {
        path.is_global = 1;
        path.grh.sgid_index = device->gid_index;
        path.grh.hop_limit = HOP_LIMIT;
        path.grh.traffic_class = device->traffic_class;
        memcpy(path.grh.dgid.raw, address->gid, TT_RC_GID_BYTES);
    }
    return path;
}

struct ibv_ah *tt_rc_address_handle(const struct tt_rc *rc, const struct tt_rc_address *address)
{
    struct ibv_ah_attr path = path_to(rc, address);
    return ibv_create_ah(rc->lane->pd, &path);
}

static struct ibv_qp *create(const struct tt_rc *rc, uint32_t inline_bytes)
{
    struct ibv_qp_init_attr wish = {.send_cq = rc->sends,
                                    .recv_cq = rc->receives,
                                    .srq = rc->shared,
                                    .qp_type = IBV_QPT_RC,
                                    .sq_sig_all = 1, /* so that a queue pair is never closed over what has not left */
                                    .cap = {.max_send_wr = TT_RC_SEND_DEPTH,
                                            .max_recv_wr = rc->shared != NULL ? 0 : TT_RC_OWN_RECEIVES,
                                            .max_send_sge = 1,
                                            .max_recv_sge = rc->shared != NULL ? 0 : 1,
                                            .max_inline_data = inline_bytes}};
    return ibv_create_qp(rc->lane->domain, &wish);
}

/* The wish for inline data is what some devices refuse; then there is none. */
static struct ibv_qp *create_with_inline(struct tt_rc *rc)
{
    enum { SHORT_MESSAGE_BYTES = 128 }; /* most frames */
    static const uint32_t wishes[] = {SHORT_MESSAGE_BYTES, 64, 0};
    for (uint32_t i = 0; i < sizeof(wishes) / sizeof(wishes[0]); i++) {
        struct ibv_qp *queue_pair = create(rc, wishes[i]);
        if (queue_pair != NULL) {
            rc->inline_bytes = wishes[i];
            return queue_pair;
        }
        if (errno != EINVAL) {
            break;
        }
    }
    return NULL;
}

tutti_status tt_rc_queue_create(struct tt_rc_peer *peer)
{
    struct tt_rc *rc = peer->rc;
    struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT,
                               .pkey_index = rc->device->pkey_index,
                               .port_num = rc->device->port,
                               .qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE};
    if (getrandom(&peer->psn, sizeof(peer->psn), 0) != sizeof(peer->psn)) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_IO, "verbs: no random number for a connection");
    }
    peer->psn &= TT_RC_PSN_MASK;
    tutti_status status = tt_rc_make_room(rc);
    if (status != TUTTI_OK) {
        return status;
    }
    peer->queue_pair = create_with_inline(rc);
    if (peer->queue_pair == NULL) {
        return refuse(peer, errno, "a queue pair");
    }
    rc->queue_pairs++;
    LIST_INSERT_HEAD(&rc->buckets[peer->queue_pair->qp_num % TT_RC_BUCKETS], peer, bucket_link);
    int error =
        ibv_modify_qp(peer->queue_pair, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    status = error != 0 ? refuse(peer, error, "INIT of a queue pair") : TUTTI_OK;
    if (status == TUTTI_OK && rc->shared == NULL) {
        status = tt_rc_receives_start(rc, peer);
    }
    if (status != TUTTI_OK) {
        tt_rc_queue_destroy(peer);
    }
    return status;
}

/* In the power of two that queue pairs have for it: 4.096 us << code. */
static uint8_t ack_timeout(const struct tt_rc *rc)
{
    uint8_t code = 1; /* 0 would be for ever */
    if (rc->ack_timeout_ns == 0) {
        return rc->soft ? SOFT_ACK_TIMEOUT : ACK_TIMEOUT;
    }
    while (code < LONGEST_ACK_TIMEOUT && (ACK_UNIT_NS << code) < rc->ack_timeout_ns) {
        code++;
    }
    return code;
}

tutti_status tt_rc_queue_connect(struct tt_rc_peer *peer, const struct tt_rc_greeting *greeting)
{
    const struct tt_rc_address *own = &peer->rc->address, *other = &greeting->from;
    uint8_t mtu = own->mtu < other->mtu ? own->mtu : other->mtu;
    struct ibv_qp_attr receive = {.qp_state = IBV_QPS_RTR,
                                  .path_mtu = (enum ibv_mtu)mtu,
                                  .dest_qp_num = greeting->queue_pair,
                                  .rq_psn = greeting->psn,
                                  .max_dest_rd_atomic =
                                      own->reads_in < other->reads_out ? own->reads_in : other->reads_out,
                                  .min_rnr_timer = RNR_TIMER,
                                  .ah_attr = path_to(peer->rc, other)};
    struct ibv_qp_attr send = {.qp_state = IBV_QPS_RTS,
                               .timeout = ack_timeout(peer->rc),
                               .retry_cnt = RETRIES,
                               .rnr_retry = RNR_RETRIES,
                               .sq_psn = peer->psn,
                               .max_rd_atomic = own->reads_out < other->reads_in ? own->reads_out : other->reads_in};
    peer->reads_limit = send.max_rd_atomic;
    int error = ibv_modify_qp(peer->queue_pair, &receive,
                              IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    if (error != 0) {
        return refuse(peer, error, "RTR of a queue pair");
    }
    error = ibv_modify_qp(peer->queue_pair, &send,
                          IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                              IBV_QP_MAX_QP_RD_ATOMIC);
    return error != 0 ? refuse(peer, error, "RTS of a queue pair") : TUTTI_OK;
}

void tt_rc_queue_fail(struct tt_rc_peer *peer)
{
    struct ibv_qp_attr error_state = {.qp_state = IBV_QPS_ERR};
    int error = ibv_modify_qp(peer->queue_pair, &error_state, IBV_QP_STATE);
    if (error != 0) {
        TT_LOG(TT_PART_FABRIC, TT_LOG_WARN, "verbs: queue pair %u does not go to the error state: %s",
               peer->queue_pair->qp_num, strerror(error));
    }
}

void tt_rc_queue_destroy(struct tt_rc_peer *peer)
{
    uint32_t number = peer->queue_pair->qp_num;
    int error = ibv_destroy_qp(peer->queue_pair);
    if (error != 0) {
        TT_LOG(TT_PART_FABRIC, TT_LOG_WARN, "verbs: queue pair %u cannot be destroyed: %s", number, strerror(error));
    }
    LIST_REMOVE(peer, bucket_link);
    peer->queue_pair = NULL;
    peer->rc->queue_pairs--;
}

struct tt_rc_peer *tt_rc_queue_find(const struct tt_rc *rc, uint32_t queue_pair)
{
    struct tt_rc_peer *peer;
    LIST_FOREACH(peer, &rc->buckets[queue_pair % TT_RC_BUCKETS], bucket_link)
    {
        if (peer->queue_pair->qp_num == queue_pair) {
            return peer;
        }
    }
    return NULL;
}
