/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of traffic share. */
#ifndef TT_ENDPOINT_TRAFFIC_PRIVATE_H
#define TT_ENDPOINT_TRAFFIC_PRIVATE_H

#include <stdalign.h>
#include <stdatomic.h>

#include "base/cache_line.h"
#include "endpoint/calls.h"
#include "endpoint/traffic.h"

/* The room of a queue pair. */
struct tt_traffic_queue {
    alignas(TT_CACHE_LINE_BYTES) atomic_uint room;
    struct ibv_qp *qp;
};

struct tt_traffic_lane {
    /* Another thread that polls the same completion queue counts it down. */
    alignas(TT_CACHE_LINE_BYTES) atomic_uint outstanding;
    struct tt_traffic *traffic;
    struct tt_traffic_queue *queue;
    const struct tt_endpoint_lane *endpoint;
    bool is_shared;             /* other threads use the completion queue, or the queue pair too */
    uint32_t index;             /* in traffic->lanes: who posted, in the work requests' ids */
    uint32_t remote_key;        /* of the near buffer at the other end */
    struct ibv_send_wr *list;   /* options.postlist of them */
    struct ibv_sge *parts;      /* the same */
    struct ibv_wc *completions; /* traffic->poll_capacity of them */
};

struct tt_traffic {
    struct tt_traffic_options options;
    struct ibv_device **devices;
    struct tt_endpoints **sets; /* the target behind them */
    uint32_t set_count;         /* made so far, with the target */
    struct tt_endpoint_made made;
    struct ibv_mr **regions; /* registered since */
    uint32_t region_count;
    struct tt_traffic_lane *lanes;
    uint32_t lane_count;
    struct tt_traffic_queue *queues;
    uint32_t queue_count;
    uint32_t unit; /* work requests that get room together: their last one is signalled */
    uint32_t poll_capacity;
    struct ibv_send_wr *list_memory;
    struct ibv_sge *part_memory;
    struct ibv_wc *completion_memory;
    atomic_bool has_failed;
};

/* What a queue pair has to know of the device to be connected. */
struct tt_traffic_path {
    const char *device;
    uint8_t port;
    uint8_t gid_index;
    uint16_t pkey_index;
    struct ibv_port_attr attributes;
    union ibv_gid gid;
    uint8_t reads; /* that a queue pair may have in flight, either way */
};

tutti_status tt_traffic_find_path(const struct tt_traffic_options *options, struct ibv_context *context,
                                  struct tt_traffic_path *path);

/* Connects two queue pairs in state RESET with each other. */
tutti_status tt_traffic_connect(const struct tt_endpoint_calls *calls, const struct tt_traffic_path *path,
                                struct ibv_qp *one, struct ibv_qp *other);

#endif
