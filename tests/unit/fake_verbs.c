/* SPDX-License-Identifier: BSD-3-Clause */
/* The provider of fake_verbs.h. */
#include "fake_verbs.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct fake fake;

static const char *const words[FAKE_KIND_COUNT] = {
    [FAKE_OPEN] = "open", [FAKE_PD] = "pd",     [FAKE_PARENT] = "parent", [FAKE_MR] = "mr",
    [FAKE_TD] = "td",     [FAKE_CQ_EX] = "cqx", [FAKE_CQ] = "cq",         [FAKE_QP] = "qp",
};

void fake_reset(void)
{
    memset(&fake, 0, sizeof(fake));
}

/* What the test wants this call to fail with, or 0. */
static int refusal(enum fake_kind kind)
{
    fake.call_count++;
    fake.last_kind = kind;
    if (fake.call_count == fake.refused_call) {
        return fake.refused_error;
    }
    if (fake.errors[kind] != 0) {
        return fake.errors[kind];
    }
    return fake.limits[kind] != 0 && fake.made[kind] == fake.limits[kind] ? ENOSPC : 0;
}

static struct fake_object *make(enum fake_kind kind, struct fake_object *context)
{
    int error = refusal(kind);

    if (error != 0) {
        errno = error == FAKE_NO_REASON ? errno : error;
        return NULL;
    }
    struct fake_object *object = calloc(1, sizeof(*object));
    assert_non_null(object);
    object->kind = kind;
    object->verbs.qp.qp_num = ++fake.numbers; /* replaced in a registration */
    object->context = context != NULL ? context : object;
    fake.made[kind]++;
    assert_true(strlen(fake.trace) + 8 < sizeof(fake.trace));
    strcat(fake.trace, words[kind]);
    strcat(fake.trace, " ");
    assert_true(fake.living < FAKE_OBJECT_LIMIT);
    fake.stack[fake.living++] = object;
    return object;
}

/* Only the youngest may go. */
static void destroy(const void *pointer, enum fake_kind kind)
{
    assert_true(fake.living > 0);
    struct fake_object *youngest = fake.stack[fake.living - 1];
    assert_ptr_equal(pointer, youngest);
    assert_int_equal(youngest->kind, kind);
    fake.living--;
    free(youngest->completions);
    free(youngest);
}

static struct ibv_context *open_device(struct ibv_device *device)
{
    assert_non_null(device);
    struct fake_object *context = make(FAKE_OPEN, NULL);
    if (context != NULL) {
        tt_registers_init(&context->registers, TT_ENDPOINT_CURRENT, TT_UUARS_DEFAULT, TT_UUARS_LOW_LATENCY_DEFAULT);
    }
    return (struct ibv_context *)(void *)context;
}

static int close_device(struct ibv_context *context)
{
    destroy(context, FAKE_OPEN);
    return 0;
}

static struct ibv_pd *alloc_pd(struct ibv_context *context)
{
    return (struct ibv_pd *)(void *)make(FAKE_PD, (struct fake_object *)(void *)context);
}

static struct ibv_pd *alloc_parent_domain(struct ibv_context *context, struct ibv_parent_domain_init_attr *attributes)
{
    struct fake_object *pd = (struct fake_object *)(void *)attributes->pd;

    assert_int_equal(pd->kind, FAKE_PD);
    assert_ptr_equal(pd->context, context);
    assert_int_equal(attributes->comp_mask, 0);
    struct fake_object *parent = make(FAKE_PARENT, (struct fake_object *)(void *)context);
    if (parent != NULL) {
        parent->parent = pd;
        parent->td = (struct fake_object *)(void *)attributes->td;
        assert_int_equal(parent->td->kind, FAKE_TD);
        assert_ptr_equal(parent->td->context, context);
    }
    return (struct ibv_pd *)(void *)parent;
}

static int dealloc_pd(struct ibv_pd *pd)
{
    const struct fake_object *object = (const struct fake_object *)(const void *)pd;
    enum fake_kind kind = object->kind;

    assert_true(kind == FAKE_PD || kind == FAKE_PARENT);
    destroy(pd, kind);
    return kind == FAKE_PD ? fake.busy_error : 0;
}

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *address, size_t length_bytes, int access)
{
    const struct fake_object *domain = (const struct fake_object *)(const void *)pd;

    assert_int_equal(domain->kind, FAKE_PD);
    assert_non_null(address);
    assert_int_not_equal(length_bytes, 0);
    assert_int_equal(access, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
    struct fake_object *region = make(FAKE_MR, domain->context);
    if (region != NULL) {
        region->parent = (struct fake_object *)(void *)pd;
        region->verbs.mr =
            (struct ibv_mr){.addr = address, .length = length_bytes, .lkey = fake.numbers, .rkey = ~fake.numbers};
    }
    return (struct ibv_mr *)(void *)region;
}

static int dereg_mr(struct ibv_mr *mr)
{
    destroy(mr, FAKE_MR);
    return 0;
}

static struct ibv_td *alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attributes)
{
    assert_int_equal(attributes->comp_mask, 0);
    struct fake_object *td = make(FAKE_TD, (struct fake_object *)(void *)context);
    if (td != NULL) {
        tt_registers_take_domain(&td->context->registers, &td->place);
    }
    return (struct ibv_td *)(void *)td;
}

static int dealloc_td(struct ibv_td *td)
{
    destroy(td, FAKE_TD);
    return 0;
}

static struct fake_object *make_completion_queue(enum fake_kind kind, struct ibv_context *context, uint32_t entries)
{
    struct fake_object *cq = make(kind, (struct fake_object *)(void *)context);

    if (cq != NULL) {
        cq->capacity = entries;
        cq->completions = calloc(FAKE_COMPLETION_LIMIT, sizeof(*cq->completions));
        assert_non_null(cq->completions);
    }
    return cq;
}

static struct ibv_cq_ex *create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attributes)
{
    fake.completion_queue = *attributes;
    return (struct ibv_cq_ex *)(void *)make_completion_queue(FAKE_CQ_EX, context, attributes->cqe);
}

static struct ibv_cq *create_cq(struct ibv_context *context, int entries, void *cq_context,
                                struct ibv_comp_channel *channel, int vector)
{
    assert_null(cq_context);
    assert_int_equal(vector, 0);
    fake.completion_queue = (struct ibv_cq_init_attr_ex){.cqe = (uint32_t)entries, .channel = channel};
    return (struct ibv_cq *)(void *)make_completion_queue(FAKE_CQ, context, (uint32_t)entries);
}

static int destroy_cq(struct ibv_cq *cq)
{
    destroy(cq, ((const struct fake_object *)(const void *)cq)->kind);
    return 0;
}

static struct ibv_qp *create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attributes)
{
    struct fake_object *domain = (struct fake_object *)(void *)pd;
    struct fake_object *qp = make(FAKE_QP, domain->context);

    fake.queue_pair = *attributes;
    if (qp == NULL) {
        return NULL;
    }
    qp->parent = domain;
    qp->depth = attributes->cap.max_send_wr;
    qp->cq = (struct fake_object *)(void *)attributes->send_cq;
    qp->receive_cq = (struct fake_object *)(void *)attributes->recv_cq;
    assert_ptr_equal(qp->cq->context, domain->context);
    assert_ptr_equal(qp->receive_cq->context, domain->context);
    if (domain->kind == FAKE_PARENT) {
        qp->place = domain->td->place;
    } else {
        assert_int_equal(domain->kind, FAKE_PD);
        tt_registers_take(&domain->context->registers, &qp->place);
    }
    return (struct ibv_qp *)(void *)qp;
}

static int destroy_qp(struct ibv_qp *qp)
{
    destroy(qp, FAKE_QP);
    return 0;
}

/* Contexts map their pages far apart. */
static void find_doorbell(struct ibv_qp *qp, struct tt_endpoint_doorbell *doorbell)
{
    const struct fake_object *object = (const struct fake_object *)(const void *)qp;

    if (!fake.has_doorbells) {
        return;
    }
    doorbell->known = true;
    doorbell->blueflame = true;
    doorbell->page = ((uint64_t)(uintptr_t)object->context << 16) + (uint64_t)object->place.page * 4096;
    doorbell->offset = 2048 + object->place.uuar % 2 * 256;
}

/* --- Traffic ------------------------------------------------------------------------------------------------------ */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ibv_device device = {.name = "fake0"};

static struct ibv_device **get_device_list(int *count)
{
    static struct ibv_device *devices[] = {&device, NULL};

    *count = 1;
    return devices;
}

static void free_device_list(struct ibv_device **devices)
{
    assert_ptr_equal(devices[0], &device);
}

static int query_device(struct ibv_context *context, struct ibv_device_attr *attributes)
{
    assert_non_null(context);
    *attributes = (struct ibv_device_attr){.max_qp_rd_atom = 128, .max_qp_init_rd_atom = 4};
    return 0;
}

static int query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attributes)
{
    assert_non_null(context);
    assert_int_equal(port, 1);
    *attributes = (struct ibv_port_attr){
        .state = IBV_PORT_ACTIVE, .active_mtu = IBV_MTU_4096, .link_layer = IBV_LINK_LAYER_ETHERNET};
    return 0;
}

static int query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
    assert_non_null(context);
    assert_int_equal(port, 1);
    memset(gid, index, sizeof(*gid));
    return 0;
}

static int modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attributes, int mask)
{
    struct fake_object *object = (struct fake_object *)(void *)qp;

    assert_int_equal(object->kind, FAKE_QP);
    assert_true(mask & IBV_QP_STATE);
    switch (attributes->qp_state) {
    case IBV_QPS_INIT:
        assert_int_equal(object->state, IBV_QPS_RESET);
        assert_true(mask & IBV_QP_PKEY_INDEX);
        fake.pkey_indices += attributes->pkey_index;
        break;
    case IBV_QPS_RTR:
        assert_int_equal(object->state, IBV_QPS_INIT);
        assert_int_equal(attributes->max_dest_rd_atomic, 4);
        assert_true(attributes->ah_attr.is_global);
        object->other = attributes->dest_qp_num;
        break;
    default:
        assert_int_equal(attributes->qp_state, IBV_QPS_RTS);
        assert_int_equal(object->state, IBV_QPS_RTR);
        break;
    }
    object->state = attributes->qp_state;
    return 0;
}

/* Where both know each other, and are ready. */
static struct fake_object *other_end(const struct fake_object *qp)
{
    for (uint32_t i = 0; i < fake.living; i++) {
        struct fake_object *other = fake.stack[i];
        if (other->kind == FAKE_QP && other->verbs.qp.qp_num == qp->other && other->other == qp->verbs.qp.qp_num &&
            other->state == IBV_QPS_RTS) {
            return other;
        }
    }
    return NULL;
}

/* Whether the key is one for this memory in the queue pair's protection domain. */
static bool may_touch(const struct fake_object *qp, uint32_t key, bool is_remote, uint64_t address, uint32_t length)
{
    const struct fake_object *pd = qp->parent->kind == FAKE_PARENT ? qp->parent->parent : qp->parent;

    for (uint32_t i = 0; i < fake.living; i++) {
        const struct fake_object *region = fake.stack[i];
        if (region->kind == FAKE_MR && region->parent == pd &&
            (is_remote ? region->verbs.mr.rkey : region->verbs.mr.lkey) == key) {
            uint64_t begin = (uintptr_t)region->verbs.mr.addr;
            return address >= begin && address + length <= begin + region->verbs.mr.length;
        }
    }
    return false;
}

static enum ibv_wc_status carry_out(const struct fake_object *qp, const struct ibv_send_wr *request)
{
    const struct fake_object *other = other_end(qp);
    const struct ibv_sge *part = request->sg_list;
    bool is_read = request->opcode == IBV_WR_RDMA_READ;
    char *near = (char *)(uintptr_t)part->addr, *far = (char *)(uintptr_t)request->wr.rdma.remote_addr;

    fake.requests++;
    if (fake.requests == fake.failing_request || other == NULL || request->num_sge != 1 ||
        !may_touch(other, request->wr.rdma.rkey, true, request->wr.rdma.remote_addr, part->length)) {
        return IBV_WC_REM_ACCESS_ERR;
    }
    if (!(request->send_flags & IBV_SEND_INLINE) && !may_touch(qp, part->lkey, false, part->addr, part->length)) {
        return IBV_WC_LOC_PROT_ERR;
    }
    memcpy(is_read ? near : far, is_read ? far : near, part->length);
    if (fake.requests == fake.altered_request) {
        (is_read ? near : far)[part->length - 1] ^= 0x40; /* of a floating-point number the exponent */
    }
    return IBV_WC_SUCCESS;
}

/* Of what only one thread may use. */
static void note_user(struct fake_object *object)
{
    fake.breaches += object->has_user && !pthread_equal(object->user, pthread_self());
    object->user = pthread_self();
    object->has_user = true;
}

static void add_completion(struct fake_object *qp, uint64_t id, enum ibv_wc_status status)
{
    struct fake_object *cq = qp->cq;

    if (cq->completion_count == cq->capacity || cq->completion_count == FAKE_COMPLETION_LIMIT) {
        fake.breaches++;
        return;
    }
    cq->completions[cq->completion_count++] = (struct fake_completion){qp, id, status, qp->unsignalled};
    qp->unsignalled = 0;
}

static int post_one(struct fake_object *qp, const struct ibv_send_wr *request)
{
    if (qp->state != IBV_QPS_RTS || qp->posted == qp->depth) {
        fake.breaches++;
        return ENOMEM;
    }
    enum ibv_wc_status status = carry_out(qp, request);
    qp->posted++;
    qp->unsignalled++;
    if (status != IBV_WC_SUCCESS || (request->send_flags & IBV_SEND_SIGNALED)) {
        add_completion(qp, request->wr_id, status);
    }
    return 0;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *requests, struct ibv_send_wr **bad)
{
    struct fake_object *object = (struct fake_object *)(void *)qp;
    int error = 0;

    pthread_mutex_lock(&lock);
    fake.calls_to_post++;
    if (object->parent->kind == FAKE_PARENT) {
        note_user(object);
    }
    for (*bad = requests; *bad != NULL && error == 0;) {
        error = post_one(object, *bad);
        *bad = error == 0 ? (*bad)->next : *bad;
    }
    pthread_mutex_unlock(&lock);
    return error;
}

static const char *wc_status_str(enum ibv_wc_status status)
{
    return status == IBV_WC_REM_ACCESS_ERR ? "remote access error" : "another error";
}

static int poll_cq(struct ibv_cq *cq, int capacity, struct ibv_wc *completions)
{
    struct fake_object *object = (struct fake_object *)(void *)cq;
    int count = 0;

    pthread_mutex_lock(&lock);
    if (object->kind == FAKE_CQ_EX) {
        note_user(object);
    }
    while (count < capacity && object->completion_count > 0) {
        const struct fake_completion *oldest = &object->completions[0];
        completions[count++] = (struct ibv_wc){.wr_id = oldest->id, .status = oldest->status};
        oldest->qp->posted -= oldest->frees;
        fake.completions++;
        object->completion_count--;
        memmove(&object->completions[0], &object->completions[1],
                object->completion_count * sizeof(object->completions[0]));
    }
    pthread_mutex_unlock(&lock);
    return count;
}

const struct tt_endpoint_calls fake_calls = {
    .open_device = open_device,
    .close_device = close_device,
    .alloc_pd = alloc_pd,
    .alloc_parent_domain = alloc_parent_domain,
    .dealloc_pd = dealloc_pd,
    .reg_mr = reg_mr,
    .dereg_mr = dereg_mr,
    .alloc_td = alloc_td,
    .dealloc_td = dealloc_td,
    .create_cq_ex = create_cq_ex,
    .create_cq = create_cq,
    .destroy_cq = destroy_cq,
    .create_qp = create_qp,
    .destroy_qp = destroy_qp,
    .get_device_list = get_device_list,
    .free_device_list = free_device_list,
    .query_device = query_device,
    .query_port = query_port,
    .query_gid = query_gid,
    .modify_qp = modify_qp,
    .post_send = post_send,
    .poll_cq = poll_cq,
    .wc_status_str = wc_status_str,
    .find_doorbell = find_doorbell,
};
