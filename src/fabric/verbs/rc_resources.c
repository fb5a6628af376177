/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What an instance takes from its device, but for connections.
 *
 * Normal path: one completion queue for what is sent and one for what is received, by all queue pairs; one completion
 * channel for both; a shared receive queue; the UD queue pair of the service, with receives posted. The channel and a
 * timer are behind one epoll descriptor, which is the provider's. Completion queues have room for many connections from
 * the beginning and grow beyond that with their number, so that they cannot overflow.
 *
 * Failures: each names the device, what could not be had, and how much of it.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/log.h"
#include "endpoint/calls.h"
#include "fabric/verbs/rc_instance.h"

enum {
    INITIAL_MESSAGES = 64,    /* about 75 KiB */
    INITIAL_OPERATIONS = 256, /* gets and puts under way */
    INITIAL_CONNECTIONS = 64  /* that the completion queues have room for, as not every driver can resize them */
};

static tutti_status refuse(const struct tt_rc *rc, int error, const char *what, uint64_t how_many)
{
    return tt_error(TT_PART_FABRIC, error == ENOMEM ? TUTTI_ERR_NO_MEMORY : TUTTI_ERR_NO_RESOURCE,
                    "verbs: device %s: %s (%llu): %s", rc->device->name, what, (unsigned long long)how_many,
                    strerror(error));
}

/* --- Completion queues -------------------------------------------------------------------------------------------- */

static int sends_needed(uint32_t connections)
{
    return (int)(connections * TT_RC_SEND_DEPTH + TT_RC_GREETINGS_OUT);
}

static int receives_needed(const struct tt_rc *rc, uint32_t connections)
{
    uint32_t frames = rc->shared != NULL ? TT_RC_SHARED_RECEIVES : connections * TT_RC_OWN_RECEIVES;
    return (int)(frames + TT_RC_GREETINGS_IN);
}

static tutti_status grow(const struct tt_rc *rc, struct ibv_cq *queue, int needed)
{
    if (queue->cqe >= needed) {
        return TUTTI_OK;
    }
    int wished = 2 * needed < rc->device->attributes.max_cqe ? 2 * needed : needed;
    int error = wished > rc->device->attributes.max_cqe ? ENOSPC : ibv_resize_cq(queue, wished);
    if (error == 0) {
        return TUTTI_OK;
    }
    return tt_error(TT_PART_FABRIC, error == ENOMEM ? TUTTI_ERR_NO_MEMORY : TUTTI_ERR_NO_RESOURCE,
                    "verbs: device %s: room for %d completions, of %u connections, where there is room for %d: %s; "
                    "TUTTI_P2P=tcp needs none",
                    rc->device->name, needed, rc->queue_pairs + 1, queue->cqe, strerror(error));
}

tutti_status tt_rc_make_room(struct tt_rc *rc)
{
    uint32_t connections = rc->queue_pairs + 1;
    tutti_status status = grow(rc, rc->sends, sends_needed(connections));
    return status == TUTTI_OK ? grow(rc, rc->receives, receives_needed(rc, connections)) : status;
}

/* As large as wished, or as the device has them: connections beyond that are refused when they come. */
static struct ibv_cq *create_queue(const struct tt_rc *rc, int wished)
{
    int entries = wished < rc->device->attributes.max_cqe ? wished : rc->device->attributes.max_cqe;
    bool one_thread = !rc->device->shares_queue_pairs;
    return tt_endpoint_create_cq(rc->device->calls, rc->lane->context, (uint32_t)entries, rc->channel, &one_thread);
}

static tutti_status create_completions(struct tt_rc *rc)
{
    rc->channel = ibv_create_comp_channel(rc->lane->context);
    if (rc->channel == NULL) {
        return refuse(rc, errno, "completion channel", 1);
    }
    int flags = fcntl(rc->channel->fd, F_GETFL);
    if (flags < 0 || fcntl(rc->channel->fd, F_SETFL, flags | O_NONBLOCK) < 0) {
        return refuse(rc, errno, "completion channel that does not block", 1);
    }
    int sends = sends_needed(INITIAL_CONNECTIONS), receives = receives_needed(rc, INITIAL_CONNECTIONS);
    rc->sends = create_queue(rc, sends);
    if (rc->sends == NULL) {
        return refuse(rc, errno, "completion queue for sends", (uint64_t)sends);
    }
    rc->receives = create_queue(rc, receives);
    if (rc->receives == NULL) {
        return refuse(rc, errno, "completion queue for receives", (uint64_t)receives);
    }
    return TUTTI_OK;
}

/* Without one the connections have receive queues of their own. */
static void create_shared_receives(struct tt_rc *rc)
{
    const struct ibv_device_attr *attributes = &rc->device->attributes;
    struct ibv_srq_init_attr wish = {.attr = {.max_wr = TT_RC_SHARED_RECEIVES, .max_sge = 1}};
    if (attributes->max_srq > 0 && attributes->max_srq_wr >= TT_RC_SHARED_RECEIVES) {
        rc->shared = ibv_create_srq(rc->lane->pd, &wish);
    }
    TT_LOG(TT_PART_FABRIC, TT_LOG_DEBUG, "verbs: device %s: receives are %s", rc->device->name,
           rc->shared != NULL ? "shared" : "each connection's own");
}

/* --- The service -------------------------------------------------------------------------------------------------- */

static tutti_status start_service(struct tt_rc *rc)
{
    struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT,
                               .pkey_index = rc->device->pkey_index,
                               .port_num = rc->device->port,
                               .qkey = rc->address.queue_key};
    struct ibv_qp_attr receive = {.qp_state = IBV_QPS_RTR};
    struct ibv_qp_attr send = {.qp_state = IBV_QPS_RTS};
    int error = ibv_modify_qp(rc->service, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
    if (error == 0) {
        error = ibv_modify_qp(rc->service, &receive, IBV_QP_STATE);
    }
    if (error == 0) {
        error = ibv_modify_qp(rc->service, &send, IBV_QP_STATE | IBV_QP_SQ_PSN);
    }
    if (error != 0) {
        return refuse(rc, error, "starting the service's queue pair", rc->service->qp_num);
    }
    for (int i = 0; i < TT_RC_GREETINGS_IN; i++) {
        tt_rc_hear_again(rc, tt_rc_pool_take(&rc->datagrams_in));
    }
    return TUTTI_OK;
}

/*
 * Some devices break a datagram queue pair over a datagram that is too long. It then gives back all receives, and is
 * started again with the last of them: posted any earlier, they would come back at once. Greetings are repeated anyway.
 */
void tt_rc_hear_failed(struct tt_rc *rc, struct tt_rc_datagram *datagram, enum ibv_wc_status reason)
{
    struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
    if (rc->unheard == 0) {
        TT_LOG(TT_PART_FABRIC, TT_LOG_WARN, "verbs: device %s: the queue pair for greetings broke: %s",
               rc->device->name, ibv_wc_status_str(reason));
    }
    tt_rc_pool_give(&rc->datagrams_in, datagram);
    rc->unheard++;
    if (rc->unheard == TT_RC_GREETINGS_IN) {
        rc->unheard = 0;
        int error = ibv_modify_qp(rc->service, &reset, IBV_QP_STATE);
        /* In vain, it is said: no connection begins any more, and those that stand go on. */
        (void)(error != 0 ? refuse(rc, error, "resetting the service's queue pair", rc->service->qp_num)
                          : start_service(rc));
    }
}

static tutti_status create_service(struct tt_rc *rc)
{
    struct ibv_qp_init_attr wish = {.send_cq = rc->sends,
                                    .recv_cq = rc->receives,
                                    .qp_type = IBV_QPT_UD,
                                    .sq_sig_all = 1,
                                    .cap = {.max_send_wr = TT_RC_GREETINGS_OUT,
                                            .max_recv_wr = TT_RC_GREETINGS_IN,
                                            .max_send_sge = 1,
                                            .max_recv_sge = 1}};
    rc->service = ibv_create_qp(rc->lane->domain, &wish);
    return rc->service != NULL ? start_service(rc) : refuse(rc, errno, "datagram queue pair", 1);
}

/* --- The descriptor ----------------------------------------------------------------------------------------------- */

static tutti_status create_descriptors(struct tt_rc *rc)
{
    struct epoll_event readable = {.events = EPOLLIN};
    rc->fd = epoll_create1(EPOLL_CLOEXEC);
    rc->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    rc->timer_ns = TT_NEVER;
    if (rc->fd < 0 || rc->timer < 0 || epoll_ctl(rc->fd, EPOLL_CTL_ADD, rc->channel->fd, &readable) != 0 ||
        epoll_ctl(rc->fd, EPOLL_CTL_ADD, rc->timer, &readable) != 0) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_NO_RESOURCE, "verbs: descriptors to sleep on: %s", strerror(errno));
    }
    return TUTTI_OK;
}

/* --- All together ------------------------------------------------------------------------------------------------- */

/* Of the device's number of reads at once, what this provider makes use of; at least one. */
static uint8_t limit_reads(const struct tt_rc *rc, int reads)
{
    int most = rc->soft ? TT_RC_SOFT_AT_ONCE : TT_RC_READS_AT_ONCE;
    if (reads < 1) {
        return 1;
    }
    return (uint8_t)(reads < most ? reads : most);
}

static tutti_status name_instance(struct tt_rc *rc)
{
    const struct tt_verbs_device *device = rc->device;
    uint32_t queue_key;
    if (getrandom(&rc->address.instance, sizeof(rc->address.instance), 0) != sizeof(rc->address.instance) ||
        getrandom(&queue_key, sizeof(queue_key), 0) != sizeof(queue_key)) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_IO, "verbs: no random number for the instance");
    }
    rc->address.queue_key = queue_key & INT32_MAX; /* the highest bit means "the sender's own key" */
    memcpy(rc->address.gid, device->gid.raw, TT_RC_GID_BYTES);
    rc->address.lid = device->lid;
    rc->address.mtu = (uint8_t)device->mtu;
    rc->address.roce = device->roce;
    rc->address.reads_out = limit_reads(rc, device->attributes.max_qp_init_rd_atom);
    rc->address.reads_in = limit_reads(rc, device->attributes.max_qp_rd_atom);
    return TUTTI_OK;
}

static tutti_status create_pools(struct tt_rc *rc)
{
    struct ibv_pd *pd = rc->lane->pd;
    tutti_status status = tt_rc_pool_init(&rc->messages, pd, sizeof(struct tt_rc_message), INITIAL_MESSAGES, true);
    if (status == TUTTI_OK) {
        status = tt_pool_init(&rc->operations, sizeof(struct tt_rc_operation), INITIAL_OPERATIONS);
    }
    if (status == TUTTI_OK) {
        status = tt_rc_pool_init(&rc->bounces, pd, TT_RC_BOUNCE_BYTES, TT_RC_BOUNCES, false);
    }
    if (status == TUTTI_OK) {
        status = tt_rc_pool_init(&rc->datagrams_in, pd, sizeof(struct tt_rc_datagram), TT_RC_GREETINGS_IN, false);
    }
    if (status == TUTTI_OK) {
        status = tt_rc_pool_init(&rc->datagrams_out, pd, sizeof(struct tt_rc_datagram), TT_RC_GREETINGS_OUT, false);
    }
    return status;
}

/*
 * Soft-RoCE (rdma_rxe, seen in Linux 6.1) breaks a connection with "invalid request" now and then if its retransmission
 * timer fires while acknowledgements are only late. So a queue pair gets little to do at once there, and a longer
 * timeout (rc_queue.c), which this device keeps exactly while others may take four times as long.
 */
static void adapt_to_device(struct tt_rc *rc)
{
    rc->soft = tt_verbs_is_soft(&rc->device->attributes);
    rc->piece_bytes = rc->soft ? TT_RC_SOFT_PIECE_BYTES : TT_RC_PIECE_BYTES;
    rc->writes_limit = rc->soft ? TT_RC_SOFT_AT_ONCE : TT_RC_WRITES_AT_ONCE;
}

tutti_status tt_rc_open(struct tt_rc *rc, bool own_receives)
{
    adapt_to_device(rc);
    tutti_status status = name_instance(rc);
    if (status == TUTTI_OK) {
        status = create_pools(rc);
    }
    if (status == TUTTI_OK && !own_receives) {
        create_shared_receives(rc);
    }
    if (status == TUTTI_OK) {
        status = create_completions(rc);
    }
    if (status == TUTTI_OK && rc->shared != NULL) {
        status = tt_rc_receives_start(rc, NULL);
    }
    if (status == TUTTI_OK) {
        status = create_service(rc);
    }
    if (status == TUTTI_OK) {
        status = create_descriptors(rc);
        rc->address.queue_pair = rc->service->qp_num;
    }
    return status;
}

/* What the device has not said a last word about. */
static void forget_posted(struct tt_rc *rc)
{
    struct tt_rc_peer *grave;
    struct tt_rc_work *refusal;
    while ((grave = TAILQ_FIRST(&rc->graves)) != NULL) {
        TAILQ_REMOVE(&rc->graves, grave, link);
        tt_rc_bury(grave);
    }
    while ((refusal = TAILQ_FIRST(&rc->refusals)) != NULL) {
        tt_rc_greeting_sent(rc, (struct tt_rc_datagram *)refusal);
    }
}

void tt_rc_close(struct tt_rc *rc)
{
    if (rc->service != NULL) {
        ibv_destroy_qp(rc->service);
    }
    forget_posted(rc);
    if (rc->shared != NULL) {
        ibv_destroy_srq(rc->shared);
    }
    if (rc->sends != NULL) {
        ibv_destroy_cq(rc->sends);
    }
    if (rc->receives != NULL) {
        ibv_destroy_cq(rc->receives);
    }
    if (rc->channel != NULL) {
        ibv_destroy_comp_channel(rc->channel);
    }
    if (rc->timer >= 0) {
        close(rc->timer);
    }
    if (rc->fd >= 0) {
        close(rc->fd);
    }
    tt_rc_pool_fini(&rc->messages);
    tt_pool_fini(&rc->operations);
    tt_rc_pool_fini(&rc->bounces);
    tt_rc_pool_fini(&rc->buffers);
    tt_rc_pool_fini(&rc->datagrams_in);
    tt_rc_pool_fini(&rc->datagrams_out);
    tt_verbs_device_close(rc->device);
}
