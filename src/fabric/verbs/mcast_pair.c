/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The queue pairs of a multicast queue.
 *
 * Normal path: where the sender and the feeder are two threads, each has a queue pair of its own, made on what the
 * category gives that thread; one only sends, the other one only receives and is attached to the group. A thread domain
 * says that nobody else uses its queue pairs, so one cannot serve both. It does where one thread does both, and where
 * the category has all threads share (mpi+threads).
 *
 * Failures: a device that takes no more queue pairs; how many there are is said.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/log.h"
#include "endpoint/calls.h"
#include "fabric/verbs/mcast_queue.h"

enum { MOST_INLINE_BYTES = 256, WHAT_BYTES = 128 };

/* A side that a queue pair does not have takes no work requests. */
static struct ibv_qp *create_pair(struct tt_verbs_queue *queue, const struct tt_endpoint_lane *lane, bool sends,
                                  bool receives)
{
    const struct tt_verbs_mcast *mcast = queue->mcast;
    struct ibv_cq *of_sends = queue->sender.completions.queue, *of_receives = queue->receiver.completions.queue;
    uint32_t inline_bytes = sends ? MOST_INLINE_BYTES : 0;

    /* Asks for as much inline data as may be useful, and takes what there is. */
    for (;; inline_bytes /= 2) {
        struct ibv_qp_init_attr attributes = {.qp_type = IBV_QPT_UD,
                                              .send_cq = sends ? of_sends : of_receives,
                                              .recv_cq = receives ? of_receives : of_sends,
                                              .cap = {.max_send_wr = sends ? TT_VERBS_SEND_DEPTH : 0,
                                                      .max_recv_wr = receives ? mcast->receive_slots : 0,
                                                      .max_send_sge = sends,
                                                      .max_recv_sge = receives,
                                                      .max_inline_data = inline_bytes}};
        struct ibv_qp *pair = mcast->device->calls->create_qp(lane->domain, &attributes);
        if (pair != NULL && sends) {
            queue->sender.max_inline_bytes = attributes.cap.max_inline_data;
        }
        if (pair != NULL || inline_bytes == 0) {
            return pair;
        }
    }
}

static tutti_status refuse(const struct tt_verbs_queue *queue, const char *purpose)
{
    const struct tt_verbs_mcast *mcast = queue->mcast;
    char what[WHAT_BYTES];
    int error = errno;

    snprintf(what, sizeof what, "a queue pair %s, number %u (endpoints %s, %u threads)", purpose,
             atomic_load(&mcast->pairs) + 1, tt_verbs_device_endpoints(mcast->device), mcast->device->threads);
    return tt_verbs_queue_error(queue, what, error);
}

tutti_status tt_verbs_pairs_create(struct tt_verbs_queue *queue)
{
    struct tt_verbs_sender *sender = &queue->sender;
    struct tt_verbs_receiver *receiver = &queue->receiver;
    struct tt_verbs_mcast *mcast = queue->mcast;
    bool is_one = sender->lane == receiver->lane;

    receiver->pair = create_pair(queue, receiver->lane, is_one, true);
    if (receiver->pair == NULL) {
        return refuse(queue, is_one ? "to send and receive" : "to receive");
    }
    atomic_fetch_add(&mcast->pairs, 1);
    tt_verbs_show_doorbell(mcast->device, queue->options.feeder, receiver->pair);
    if (is_one) {
        sender->pair = receiver->pair;
        return TUTTI_OK;
    }
    sender->pair = create_pair(queue, sender->lane, true, false);
    if (sender->pair == NULL) {
        return refuse(queue, "to send");
    }
    atomic_fetch_add(&mcast->pairs, 1);
    tt_verbs_show_doorbell(mcast->device, queue->options.sender, sender->pair);
    return TUTTI_OK;
}

static int start_pair(const struct tt_verbs_queue *queue, struct ibv_qp *pair)
{
    struct ibv_qp_attr attributes = {.qp_state = IBV_QPS_INIT,
                                     .pkey_index = queue->mcast->device->pkey_index,
                                     .port_num = queue->mcast->device->port,
                                     .qkey = queue->sender.queue_key};
    int error = ibv_modify_qp(pair, &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);

    if (error == 0) {
        attributes.qp_state = IBV_QPS_RTR;
        error = ibv_modify_qp(pair, &attributes, IBV_QP_STATE);
    }
    if (error == 0) {
        attributes.qp_state = IBV_QPS_RTS;
        error = ibv_modify_qp(pair, &attributes, IBV_QP_STATE | IBV_QP_SQ_PSN);
    }
    return error;
}

tutti_status tt_verbs_pairs_start(struct tt_verbs_queue *queue)
{
    int error = start_pair(queue, queue->receiver.pair);

    if (error == 0 && queue->sender.pair != queue->receiver.pair) {
        error = start_pair(queue, queue->sender.pair);
    }
    return error == 0 ? TUTTI_OK : tt_verbs_queue_error(queue, "starting the queue pairs", error);
}

void tt_verbs_pairs_destroy(struct tt_verbs_queue *queue)
{
    const struct tt_endpoint_calls *calls = queue->mcast->device->calls;

    if (queue->sender.pair != NULL && queue->sender.pair != queue->receiver.pair) {
        calls->destroy_qp(queue->sender.pair);
        atomic_fetch_sub(&queue->mcast->pairs, 1);
    }
    if (queue->receiver.pair != NULL) {
        calls->destroy_qp(queue->receiver.pair);
        atomic_fetch_sub(&queue->mcast->pairs, 1);
    }
}
