/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Loading libibverbs and librdmacm. Normal path: the libraries of the interface's version, once in a process, and each
 * function by its name. What an application loads or links of them itself is the same.
 *
 * Failures: what cannot be loaded is told, with the loader's reason, to everybody who asks.
 */
#include "endpoint/rdma_library.h"

#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>

#include "base/library.h"
#include "base/log.h"

/* What returns something, and what does not: RETURNS type, name, parameters, arguments; or NOTHING without the type. A
 * function that is used and missing here is not found by the linker. */
#define IBVERBS(RETURNS, NOTHING)                                                                                      \
    RETURNS(int, _ibv_query_gid_ex,                                                                                    \
            (struct ibv_context * context, uint32_t port_num, uint32_t gid_index, struct ibv_gid_entry * entry,        \
             uint32_t flags, size_t entry_size),                                                                       \
            (context, port_num, gid_index, entry, flags, entry_size))                                                  \
    RETURNS(ssize_t, _ibv_query_gid_table,                                                                             \
            (struct ibv_context * context, struct ibv_gid_entry * entries, size_t max_entries, uint32_t flags,         \
             size_t entry_size),                                                                                       \
            (context, entries, max_entries, flags, entry_size))                                                        \
    NOTHING(ibv_ack_async_event, (struct ibv_async_event * event), (event))                                            \
    NOTHING(ibv_ack_cq_events, (struct ibv_cq * cq, unsigned int nevents), (cq, nevents))                              \
    RETURNS(struct ibv_pd *, ibv_alloc_pd, (struct ibv_context * context), (context))                                  \
    RETURNS(int, ibv_attach_mcast, (struct ibv_qp * qp, const union ibv_gid *gid, uint16_t lid), (qp, gid, lid))       \
    RETURNS(int, ibv_close_device, (struct ibv_context * context), (context))                                          \
    RETURNS(struct ibv_ah *, ibv_create_ah, (struct ibv_pd * pd, struct ibv_ah_attr * attr), (pd, attr))               \
    RETURNS(struct ibv_comp_channel *, ibv_create_comp_channel, (struct ibv_context * context), (context))             \
    RETURNS(                                                                                                           \
        struct ibv_cq *, ibv_create_cq,                                                                                \
        (struct ibv_context * context, int cqe, void *cq_context, struct ibv_comp_channel *channel, int comp_vector),  \
        (context, cqe, cq_context, channel, comp_vector))                                                              \
    RETURNS(struct ibv_qp *, ibv_create_qp, (struct ibv_pd * pd, struct ibv_qp_init_attr * qp_init_attr),              \
            (pd, qp_init_attr))                                                                                        \
    RETURNS(struct ibv_srq *, ibv_create_srq, (struct ibv_pd * pd, struct ibv_srq_init_attr * srq_init_attr),          \
            (pd, srq_init_attr))                                                                                       \
    RETURNS(int, ibv_dealloc_pd, (struct ibv_pd * pd), (pd))                                                           \
    RETURNS(int, ibv_dereg_mr, (struct ibv_mr * mr), (mr))                                                             \
    RETURNS(int, ibv_destroy_ah, (struct ibv_ah * ah), (ah))                                                           \
    RETURNS(int, ibv_destroy_comp_channel, (struct ibv_comp_channel * channel), (channel))                             \
    RETURNS(int, ibv_destroy_cq, (struct ibv_cq * cq), (cq))                                                           \
    RETURNS(int, ibv_destroy_qp, (struct ibv_qp * qp), (qp))                                                           \
    RETURNS(int, ibv_destroy_srq, (struct ibv_srq * srq), (srq))                                                       \
    RETURNS(int, ibv_detach_mcast, (struct ibv_qp * qp, const union ibv_gid *gid, uint16_t lid), (qp, gid, lid))       \
    RETURNS(const char *, ibv_event_type_str, (enum ibv_event_type event), (event))                                    \
    NOTHING(ibv_free_device_list, (struct ibv_device * *list), (list))                                                 \
    RETURNS(int, ibv_get_async_event, (struct ibv_context * context, struct ibv_async_event * event),                  \
            (context, event))                                                                                          \
    RETURNS(int, ibv_get_cq_event, (struct ibv_comp_channel * channel, struct ibv_cq * *cq, void **cq_context),        \
            (channel, cq, cq_context))                                                                                 \
    RETURNS(struct ibv_device **, ibv_get_device_list, (int *num_devices), (num_devices))                              \
    RETURNS(const char *, ibv_get_device_name, (struct ibv_device * device), (device))                                 \
    RETURNS(int, ibv_modify_qp, (struct ibv_qp * qp, struct ibv_qp_attr * attr, int attr_mask), (qp, attr, attr_mask)) \
    RETURNS(struct ibv_context *, ibv_open_device, (struct ibv_device * device), (device))                             \
    RETURNS(const char *, ibv_port_state_str, (enum ibv_port_state port_state), (port_state))                          \
    RETURNS(int, ibv_query_device, (struct ibv_context * context, struct ibv_device_attr * device_attr),               \
            (context, device_attr))                                                                                    \
    RETURNS(int, ibv_query_gid, (struct ibv_context * context, uint8_t port_num, int index, union ibv_gid *gid),       \
            (context, port_num, index, gid))                                                                           \
    RETURNS(int, ibv_query_pkey, (struct ibv_context * context, uint8_t port_num, int index, __be16 *pkey),            \
            (context, port_num, index, pkey))                                                                          \
    RETURNS(int, ibv_query_port,                                                                                       \
            (struct ibv_context * context, uint8_t port_num, struct _compat_ibv_port_attr * port_attr),                \
            (context, port_num, port_attr))                                                                            \
    RETURNS(struct ibv_mr *, ibv_reg_mr, (struct ibv_pd * pd, void *addr, size_t length, int access),                  \
            (pd, addr, length, access))                                                                                \
    RETURNS(struct ibv_mr *, ibv_reg_mr_iova2,                                                                         \
            (struct ibv_pd * pd, void *addr, size_t length, uint64_t iova, unsigned int access),                       \
            (pd, addr, length, iova, access))                                                                          \
    RETURNS(int, ibv_resize_cq, (struct ibv_cq * cq, int cqe), (cq, cqe))                                              \
    RETURNS(const char *, ibv_wc_status_str, (enum ibv_wc_status status), (status))

#define RDMACM(RETURNS, NOTHING)                                                                                       \
    RETURNS(int, rdma_ack_cm_event, (struct rdma_cm_event * event), (event))                                           \
    RETURNS(int, rdma_bind_addr, (struct rdma_cm_id * id, struct sockaddr * addr), (id, addr))                         \
    RETURNS(struct rdma_event_channel *, rdma_create_event_channel, (void), ())                                        \
    RETURNS(int, rdma_create_id,                                                                                       \
            (struct rdma_event_channel * channel, struct rdma_cm_id * *id, void *context, enum rdma_port_space ps),    \
            (channel, id, context, ps))                                                                                \
    NOTHING(rdma_destroy_event_channel, (struct rdma_event_channel * channel), (channel))                              \
    RETURNS(int, rdma_destroy_id, (struct rdma_cm_id * id), (id))                                                      \
    RETURNS(const char *, rdma_event_str, (enum rdma_cm_event_type event), (event))                                    \
    RETURNS(int, rdma_get_cm_event, (struct rdma_event_channel * channel, struct rdma_cm_event * *event),              \
            (channel, event))                                                                                          \
    RETURNS(int, rdma_join_multicast, (struct rdma_cm_id * id, struct sockaddr * addr, void *context),                 \
            (id, addr, context))                                                                                       \
    RETURNS(int, rdma_leave_multicast, (struct rdma_cm_id * id, struct sockaddr * addr), (id, addr))

#define MEMBER(type, name, parameters, arguments) type(*name) parameters;
#define VOID_MEMBER(name, parameters, arguments)  void(*name) parameters;
#define ENTRY(type, name, parameters, arguments)  {#name, &library.name},
#define VOID_ENTRY(name, parameters, arguments)   {#name, &library.name},
/* Some names are macros, too: they are not where no parenthesis follows. */
#define WRAPPER(type, name, parameters, arguments)                                                                     \
    WEAK type(name) parameters                                                                                         \
    {                                                                                                                  \
        return (library.name)arguments;                                                                                \
    }
#define VOID_WRAPPER(name, parameters, arguments)                                                                      \
    WEAK void(name) parameters                                                                                         \
    {                                                                                                                  \
        (library.name) arguments;                                                                                      \
    }
#define WEAK __attribute__((weak)) /* a test may have its own in their place */

static struct {
    IBVERBS(MEMBER, VOID_MEMBER)
    RDMACM(MEMBER, VOID_MEMBER)
} library;

IBVERBS(WRAPPER, VOID_WRAPPER)
RDMACM(WRAPPER, VOID_WRAPPER)

static char why_not[256]; /* empty: they are loaded */

static void load_one(const char *file, const struct tt_library_function *functions, size_t count)
{
    const char *why = tt_library_load(file, RTLD_NOW | RTLD_LOCAL, functions, count);

    if (why != NULL) {
        snprintf(why_not, sizeof why_not, "%s", why);
    }
}

static void load(void)
{
    static const struct tt_library_function ibverbs[] = {IBVERBS(ENTRY, VOID_ENTRY)},
                                            rdmacm[] = {RDMACM(ENTRY, VOID_ENTRY)};

    load_one("librdmacm.so.1", rdmacm, sizeof rdmacm / sizeof rdmacm[0]);
    load_one("libibverbs.so.1", ibverbs, sizeof ibverbs / sizeof ibverbs[0]);
}

tutti_status tt_rdma_library_load(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, load);
    return why_not[0] == '\0'
               ? TUTTI_OK
               : tt_error_note(TUTTI_ERR_NOT_SUPPORTED, "RDMA: its libraries cannot be loaded: %s", why_not);
}
