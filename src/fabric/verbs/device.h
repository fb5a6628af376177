/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An open port of an RDMA device, as the providers of this directory use it. Nothing in it changes while it is open but
 * the time at which its events are looked at.
 *
 * Its threads are counted from 0, and each has what its category of endpoints gives it (section VI of the paper on
 * scalable endpoints), on which the providers make its queue pairs: a queue pair is used by the thread that it was made
 * for, unless the category is one where all threads share theirs. All queue pairs of a thread are in one thread domain,
 * so that they ring at one register. What belongs together (queue pair, completion queues, registrations, address
 * handles) is made in one context; contexts differ with mpi-everywhere.
 */
#ifndef TT_FABRIC_VERBS_DEVICE_H
#define TT_FABRIC_VERBS_DEVICE_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "endpoint/create.h"
#include "fabric/verbs/verbs.h"

struct tt_verbs_device {
    const struct tt_endpoint_calls *calls;
    struct tt_endpoints *endpoints; /* without queue pairs */
    uint32_t threads;
    bool shares_queue_pairs;           /* between threads */
    struct ibv_device_attr attributes; /* the device's limits */
    char name[TT_VERBS_NAME_BYTES];
    uint8_t port;
    bool roce; /* else InfiniBand: peers have LIDs, and a global routing header is not needed within a subnet */
    uint16_t lid;
    uint8_t gid_index;
    uint8_t traffic_class, service_level;
    uint16_t pkey_index;
    union ibv_gid gid;
    bool gid_is_ipv4;    /* the network header in front of a datagram is IPv4's then, not a GRH */
    uint32_t address_be; /* the port's IPv4 address: of the GID (RoCE), or of the interface (IPoIB); 0: none is known */
    enum ibv_mtu mtu;
    uint32_t mtu_bytes;
    uint32_t users;
    struct ibv_context *events_of; /* whose asynchronous events are looked at; NULL: nobody's */
    _Atomic uint64_t events_ns;    /* when they are looked at next */
};

/* A GID of `::ffff:a.b.c.d`. */
bool tt_verbs_gid_is_ipv4(const union ibv_gid *gid);

/* Soft-RoCE (rdma_rxe), the one kind that the providers have been tried on. */
bool tt_verbs_is_soft(const struct ibv_device_attr *attributes);

/* events.c. From then on the asynchronous events of an opened device can be looked at, by any thread. Looking never
 * waits, does so ten times a second at most, and tells the log of those that matter. */
void tt_verbs_events_start(struct tt_verbs_device *device);
void tt_verbs_events_look(struct tt_verbs_device *device);

/* endpoints.c. Makes the endpoints of an opened port's device; errors are logged. They go with the device. */
tutti_status tt_verbs_endpoints_open(struct tt_verbs_device *device, struct ibv_device *of,
                                     const struct tt_verbs_device_options *options);

/* pkey.c. Sets the index of the P_Key that is wished for among the port's `count`: "0x8001"; NULL or "auto": the first.
 * Errors, which are logged: INVALID_ARGUMENT. */
tutti_status tt_verbs_find_pkey(struct tt_verbs_device *device, uint16_t count, const char *wish);

/* What a thread makes its queue pairs on. */
const struct tt_endpoint_lane *tt_verbs_lane(const struct tt_verbs_device *device, uint32_t thread);

/* Shows in the log where a thread's new queue pair rings, where that is known (mlx5). */
void tt_verbs_show_doorbell(const struct tt_verbs_device *device, uint32_t thread, struct ibv_qp *pair);

#endif
