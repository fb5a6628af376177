/* SPDX-License-Identifier: BSD-3-Clause */
/* The device that does nothing by itself, and the functions of libibverbs that an instance calls. */
#include "rc_world.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "endpoint/calls.h"

struct rc_world world;
static struct ibv_context hollow;
static struct ibv_cq *sends, *receives; /* in the order of their creation */

/* --- Objects ------------------------------------------------------------------------------------------------------ */

static void *make(size_t bytes)
{
    if (++world.creations == world.refused_creation) {
        errno = ENOMEM;
        return NULL;
    }
    void *object = calloc(1, bytes);
    assert_non_null(object);
    world.living++;
    return object;
}

static int unmake(void *object)
{
    assert_true(world.living > 0);
    world.living--;
    free(object);
    return 0;
}

static struct ibv_context *open_device(struct ibv_device *device)
{
    (void)device;
    world.living++;
    return &hollow;
}

static int close_device(struct ibv_context *closed)
{
    assert_ptr_equal(closed, &hollow);
    world.living--;
    return 0;
}

static struct ibv_pd *alloc_pd(struct ibv_context *of)
{
    struct ibv_pd *pd = make(sizeof(*pd));
    if (pd != NULL) {
        pd->context = of;
    }
    return pd;
}

static int dealloc_pd(struct ibv_pd *pd)
{
    return unmake(pd);
}

static struct ibv_cq *create_cq(struct ibv_context *of, int entries, void *cq_context, struct ibv_comp_channel *channel,
                                int vector)
{
    struct ibv_cq *cq = make(sizeof(*cq));
    (void)cq_context;
    (void)channel;
    (void)vector;
    if (cq != NULL) {
        cq->context = of;
        cq->cqe = entries;
        receives = sends != NULL ? cq : NULL;
        sends = sends != NULL ? sends : cq;
    }
    return cq;
}

static struct ibv_cq_ex *create_cq_ex(struct ibv_context *of, struct ibv_cq_init_attr_ex *attributes)
{
    (void)of;
    (void)attributes;
    errno = EOPNOTSUPP;
    return NULL;
}

static void find_doorbell(struct ibv_qp *qp, struct tt_endpoint_doorbell *doorbell)
{
    (void)qp;
    doorbell->known = false;
}

static const struct tt_endpoint_calls calls = {.open_device = open_device,
                                               .close_device = close_device,
                                               .alloc_pd = alloc_pd,
                                               .dealloc_pd = dealloc_pd,
                                               .create_cq = create_cq,
                                               .create_cq_ex = create_cq_ex,
                                               .find_doorbell = find_doorbell};

/* --- These take the place of the library's own functions of the same names ---------------------------------------- */

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
    struct ibv_comp_channel *channel = make(sizeof(*channel));
    if (channel != NULL) {
        *channel = (struct ibv_comp_channel){.context = context, .fd = eventfd(0, EFD_NONBLOCK)};
        assert_true(channel->fd >= 0);
    }
    return channel;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
    close(channel->fd);
    return unmake(channel);
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
    sends = cq == sends ? NULL : sends;
    return unmake(cq);
}

int ibv_resize_cq(struct ibv_cq *cq, int cqe)
{
    if (++world.creations == world.refused_creation) {
        return ENOMEM;
    }
    if (world.resize_error == 0) {
        cq->cqe = cqe;
    }
    return world.resize_error;
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *srq_init_attr)
{
    struct ibv_srq *srq = make(sizeof(*srq));
    (void)srq_init_attr;
    if (srq != NULL) {
        srq->context = pd->context;
    }
    return srq;
}

int ibv_destroy_srq(struct ibv_srq *srq)
{
    return unmake(srq);
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *qp_init_attr)
{
    struct ibv_qp *qp = make(sizeof(*qp));
    if (qp != NULL) {
        qp->context = pd->context;
        qp->qp_type = qp_init_attr->qp_type;
        qp->qp_num = ++world.numbers;
    }
    return qp;
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
    for (uint32_t i = 0; i < world.posted_count; i++) { /* what it held goes with it */
        if (world.posted[i].queue_pair == qp->qp_num) {
            world.posted[i].handle = NULL;
        }
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < world.received_count; i++) { /* and what nobody has looked at, as with mlx5 */
        if (world.received[i].qp_num != qp->qp_num) {
            world.received[kept++] = world.received[i];
        }
    }
    world.received_count = kept;
    return unmake(qp);
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask)
{
    if (++world.creations == world.refused_creation) {
        return ENOMEM;
    }
    assert_true(attr_mask & IBV_QP_STATE);
    world.restarts += attr->qp_state == IBV_QPS_RESET;
    qp->state = attr->qp_state;
    if (attr_mask & IBV_QP_TIMEOUT) {
        world.ack_timeout = attr->timeout;
    }
    if (attr_mask & IBV_QP_AV) {
        world.traffic_class = attr->ah_attr.grh.traffic_class;
        world.service_level = attr->ah_attr.sl;
    }
    if (attr_mask & IBV_QP_PKEY_INDEX) {
        world.pkey_index = attr->pkey_index;
    }
    return 0;
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
    (void)pd;
    (void)attr;
    if (world.knows_no_way) {
        errno = EHOSTUNREACH;
        return NULL;
    }
    struct ibv_ah *handle = make(sizeof(*handle));
    world.handles += handle != NULL;
    return handle;
}

int ibv_destroy_ah(struct ibv_ah *ah)
{
    for (uint32_t i = 0; i < world.posted_count; i++) {
        assert_ptr_not_equal(world.posted[i].handle, ah);
    }
    world.handles--;
    return unmake(ah);
}

#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
    struct ibv_mr *region = make(sizeof(*region));
    (void)access;
    if (region != NULL) {
        *region = (struct ibv_mr){.pd = pd, .addr = addr, .length = length, .lkey = 1};
    }
    return region;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access)
{
    (void)iova;
    return ibv_reg_mr(pd, addr, length, (int)access);
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
    return unmake(mr);
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
    (void)channel;
    (void)cq;
    (void)cq_context;
    return -1;
}

/* --- Posting and polling ------------------------------------------------------------------------------------------ */

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *request, struct ibv_send_wr **refused)
{
    (void)refused;
    assert_null(request->next);
    assert_true(world.posted_count < RC_MOST_POSTED);
    struct rc_posted *posted = &world.posted[world.posted_count++];
    *posted = (struct rc_posted){.queue_pair = qp->qp_num, .opcode = request->opcode, .id = request->wr_id};
    if (qp->qp_type == IBV_QPT_UD) {
        memcpy(posted->bytes, (const void *)(uintptr_t)request->sg_list->addr, sizeof(posted->bytes));
        posted->handle = request->wr.ud.ah;
    }
    return 0;
}

static void offer(const struct ibv_recv_wr *request)
{
    for (; request != NULL && world.offered_count < TT_RC_SHARED_RECEIVES; request = request->next) {
        world.offered[world.offered_count++] = (struct tt_rc_buffer *)(uintptr_t)request->wr_id;
    }
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *request, struct ibv_recv_wr **refused)
{
    (void)refused;
    if (qp->qp_type != IBV_QPT_UD) {
        offer(request);
        return 0;
    }
    for (; request != NULL; request = request->next) {
        assert_true(world.hearing_count < sizeof(world.hearing) / sizeof(world.hearing[0]));
        world.hearing[world.hearing_count++] = (struct tt_rc_datagram *)(uintptr_t)request->wr_id;
    }
    return 0;
}

static int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *request, struct ibv_recv_wr **refused)
{
    (void)srq;
    (void)refused;
    offer(request);
    return 0;
}

static int poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *completions)
{
    struct ibv_wc *queue = cq == sends ? world.sent : world.received;
    uint32_t *waiting = cq == sends ? &world.sent_count : &world.received_count;
    uint32_t taken = *waiting < (uint32_t)count ? *waiting : (uint32_t)count;

    assert_true(cq == sends || cq == receives);
    if (world.polls_fail) {
        return -1;
    }
    memcpy(completions, queue, taken * sizeof(*queue));
    *waiting -= taken;
    memmove(queue, queue + taken, *waiting * sizeof(*queue));
    return (int)taken;
}

static int req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
    (void)cq;
    (void)solicited_only;
    return 0;
}

/* --- What tests do with it ---------------------------------------------------------------------------------------- */

void rc_reset(void)
{
    struct tt_endpoint_options options = {.device = (struct ibv_device *)(void *)&world, /* only its name is read */
                                          .category = TT_ENDPOINT_STATIC,
                                          .threads = 1};

    memset(&world, 0, sizeof(world));
    sends = receives = NULL;
    hollow.ops.post_send = post_send;
    hollow.ops.post_recv = post_recv;
    hollow.ops.post_srq_recv = post_srq_recv;
    hollow.ops.poll_cq = poll_cq;
    hollow.ops.req_notify_cq = req_notify_cq;
    world.device = (struct tt_verbs_device){.calls = &calls,
                                            .threads = 1,
                                            .attributes = {.max_cqe = 1 << 20,
                                                           .max_srq = 1,
                                                           .max_srq_wr = 1 << 14,
                                                           .max_qp_rd_atom = 16,
                                                           .max_qp_init_rd_atom = 16},
                                            .name = "hollow0",
                                            .port = 1,
                                            .roce = true,
                                            .mtu = IBV_MTU_4096,
                                            .mtu_bytes = 4096,
                                            .users = 1};
    assert_int_equal(tt_endpoints_create(&calls, &options, &world.device.endpoints), TUTTI_OK);
    world.creations = 0;
}

void rc_forget_device(void)
{
    assert_int_equal(world.device.users, 1);
    tt_endpoints_destroy(world.device.endpoints);
    assert_int_equal(world.living, 0);
}

tutti_status rc_create(bool own_receives, struct tt_p2p **p2p)
{
    const struct tt_rc_options options = {.device = &world.device, .own_receives = own_receives};

    return tt_rc_create(&options, p2p);
}

tutti_status rc_create_patient(uint64_t ack_timeout_ns, struct tt_p2p **p2p)
{
    const struct tt_rc_options options = {.device = &world.device, .ack_timeout_ns = ack_timeout_ns};

    return tt_rc_create(&options, p2p);
}

struct tt_rc *rc_begin(bool own_receives)
{
    struct tt_p2p *p2p = NULL;

    rc_reset();
    assert_int_equal(rc_create(own_receives, &p2p), TUTTI_OK);
    return tt_rc_of(p2p);
}

void rc_end(struct tt_rc *rc)
{
    struct tt_session_peer *peer;

    TAILQ_FOREACH(peer, &rc->session.peers, link)
    {
        tt_session_fail(peer, "the test ends");
    }
    rc_greetings_leave(rc);
    rc->session.base.ops->destroy(&rc->session.base);
    rc_forget_device();
}

uint32_t rc_turn(struct tt_rc *rc, enum tt_p2p_event_type wanted)
{
    struct tt_p2p_event events[64];
    uint32_t count = rc->session.base.ops->progress(&rc->session.base, events, 64), found = 0;

    for (uint32_t i = 0; i < count; i++) {
        found += events[i].type == wanted;
    }
    return found;
}

void rc_greetings_leave(const struct tt_rc *rc)
{
    for (uint32_t i = 0; i < world.posted_count; i++) {
        if (world.posted[i].queue_pair == rc->service->qp_num) {
            world.sent[world.sent_count++] =
                (struct ibv_wc){.wr_id = world.posted[i].id, .status = IBV_WC_SUCCESS, .opcode = IBV_WC_SEND};
        }
    }
    world.posted_count = 0;
}

struct tt_rc_address rc_stranger(uint64_t instance)
{
    return (struct tt_rc_address){.instance = instance,
                                  .queue_pair = 77,
                                  .queue_key = 78,
                                  .mtu = IBV_MTU_4096,
                                  .roce = true,
                                  .reads_out = 8,
                                  .reads_in = 8};
}

void rc_hear(struct tt_rc *rc, const struct tt_rc_greeting *greeting)
{
    struct tt_rc_greeting heard = *greeting;
    struct tt_p2p_event event;

    heard.to = rc->address.instance;
    assert_true(world.hearing_count > 0);
    struct tt_rc_datagram *datagram = world.hearing[--world.hearing_count];
    tt_rc_greeting_encode(&heard, datagram->bytes + TT_RC_GRH_BYTES);
    world.received[world.received_count++] = (struct ibv_wc){.wr_id = (uintptr_t)&datagram->work,
                                                             .status = IBV_WC_SUCCESS,
                                                             .byte_len = TT_RC_GRH_BYTES + TT_RC_GREETING_BYTES};
    (void)rc->session.base.ops->progress(&rc->session.base, &event, 1); /* it may have been the end of a peer */
}

struct tt_p2p_peer *rc_connected(struct tt_rc *rc, uint64_t instance)
{
    const struct tt_rc_greeting hello = {.kind = TT_RC_HELLO,
                                         .stage = TT_RC_OPEN,
                                         .queue_pair = (uint32_t)(1000 + instance),
                                         .from = rc_stranger(instance)};
    uint8_t address[TT_RC_ADDRESS_BYTES];
    struct tt_p2p_peer *peer = NULL;

    tt_rc_address_encode(&hello.from, address);
    assert_int_equal(rc->session.base.ops->connect(&rc->session.base, address, sizeof(address), instance, &peer),
                     TUTTI_OK);
    rc_hear(rc, &hello);
    assert_int_equal(tt_rc_peer_of(peer)->session.phase, TT_SESSION_OPEN);
    return peer;
}

void rc_message(const struct tt_p2p_peer *peer, enum tt_rc_message_kind kind, uint32_t payload_bytes)
{
    assert_true(world.offered_count > 0 && world.received_count < RC_MOST_COMPLETIONS);
    struct tt_rc_buffer *buffer = world.offered[--world.offered_count];
    tt_rc_header_encode(kind, payload_bytes, buffer->bytes);
    memset(buffer->bytes + TT_RC_HEADER_BYTES, 0, payload_bytes);
    world.received[world.received_count++] =
        (struct ibv_wc){.wr_id = (uintptr_t)&buffer->work,
                        .status = IBV_WC_SUCCESS,
                        .opcode = IBV_WC_RECV,
                        .byte_len = TT_RC_HEADER_BYTES + payload_bytes,
                        .qp_num = ((const struct tt_rc_peer *)peer)->queue_pair->qp_num};
}

uint32_t rc_count_posted(enum ibv_wr_opcode opcode)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < world.posted_count; i++) {
        count += world.posted[i].opcode == opcode;
    }
    return count;
}
