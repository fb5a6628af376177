/* SPDX-License-Identifier: BSD-3-Clause */
/* The verbs that creation and traffic use, as a table, so that a test can play the provider. Each is as libibverbs
 * documents it: NULL and errno, or 0 and an errno value. */
#ifndef TT_ENDPOINT_CALLS_H
#define TT_ENDPOINT_CALLS_H

#include <infiniband/verbs.h>

#include "endpoint/create.h"

struct tt_endpoint_calls {
    struct ibv_context *(*open_device)(struct ibv_device *device);
    int (*close_device)(struct ibv_context *context);
    struct ibv_pd *(*alloc_pd)(struct ibv_context *context);
    struct ibv_pd *(*alloc_parent_domain)(struct ibv_context *context, struct ibv_parent_domain_init_attr *attributes);
    int (*dealloc_pd)(struct ibv_pd *pd); /* of both kinds */
    struct ibv_mr *(*reg_mr)(struct ibv_pd *pd, void *address, size_t length_bytes, int access);
    int (*dereg_mr)(struct ibv_mr *mr);
    struct ibv_td *(*alloc_td)(struct ibv_context *context, struct ibv_td_init_attr *attributes);
    int (*dealloc_td)(struct ibv_td *td);
    struct ibv_cq_ex *(*create_cq_ex)(struct ibv_context *context, struct ibv_cq_init_attr_ex *attributes);
    struct ibv_cq *(*create_cq)(struct ibv_context *context, int entries, void *cq_context,
                                struct ibv_comp_channel *channel, int vector);
    int (*destroy_cq)(struct ibv_cq *cq);
    struct ibv_qp *(*create_qp)(struct ibv_pd *pd, struct ibv_qp_init_attr *attributes);
    int (*destroy_qp)(struct ibv_qp *qp);
    struct ibv_device **(*get_device_list)(int *count);
    void (*free_device_list)(struct ibv_device **devices);
    int (*query_device)(struct ibv_context *context, struct ibv_device_attr *attributes);
    int (*query_port)(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attributes);
    int (*query_gid)(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid);
    int (*modify_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attributes, int mask);
    int (*post_send)(struct ibv_qp *qp, struct ibv_send_wr *requests, struct ibv_send_wr **bad);
    int (*poll_cq)(struct ibv_cq *cq, int capacity, struct ibv_wc *completions);
    const char *(*wc_status_str)(enum ibv_wc_status status);
    /* Not of libibverbs: reads back where the queue pair rings, or leaves `known` false. */
    void (*find_doorbell)(struct ibv_qp *qp, struct tt_endpoint_doorbell *doorbell);
};

/*
 * A completion queue, which tells `channel` (NULL: nobody) of its events. If *one_thread says that only one thread will
 * poll it, it has no lock (section V-E), or, where the provider knows no such queues, *one_thread becomes false and it
 * is an ordinary one. NULL and errno, as libibverbs.
 */
struct ibv_cq *tt_endpoint_create_cq(const struct tt_endpoint_calls *calls, struct ibv_context *context,
                                     uint32_t entries, struct ibv_comp_channel *channel, bool *one_thread);

#endif
