/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of the verbs mcast provider share: the queue, made of a membership, and a send side and a receive
 * side. Each side is made on what the endpoints' category gives the thread that uses it: it has a completion queue,
 * which it shares with nobody, and a queue pair, which is one and the same where one thread uses both sides, or all
 * threads share theirs (mpi+threads: Verbs' locks are there then).
 */
#ifndef TT_FABRIC_VERBS_MCAST_QUEUE_H
#define TT_FABRIC_VERBS_MCAST_QUEUE_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "fabric/verbs/device.h"
#include "fabric/verbs/mcast.h"
#include "fabric/verbs/sources.h"

enum {
    TT_VERBS_NETWORK_HEADER_BYTES = 40, /* in front of each received payload: a GRH, or IPv4's header in its last 20 */
    TT_VERBS_SLOT_HEAD_BYTES = 64,      /* room for it, so that payloads are aligned to cache lines */
    TT_VERBS_SEND_DEPTH = 256,          /* chunks between acceptance and completion */
    TT_VERBS_SEND_BATCH = 64,           /* chunks of one list, the last of which is signalled */
    TT_VERBS_POLL_BATCH = 64            /* completions of one poll of the completion queue */
};

/* The one group that all queues use, where it is given. */
struct tt_verbs_given {
    bool is_set;
    union ibv_gid gid;
    uint16_t lid; /* InfiniBand only */
};

struct tt_verbs_mcast {
    struct tt_mcast base;
    struct tt_verbs_device *device;
    struct tt_verbs_given given;
    uint8_t ttl;
    struct rdma_event_channel *events; /* of joins; NULL where the group is given */
    pthread_mutex_t joins;             /* who waits for an event; one after the other */
    uint32_t receive_slots;            /* of each queue */
    uint32_t slot_bytes;               /* head and the largest payload, whatever the group's chunks are: a longer
                                          datagram of a stranger would take the queue pair down on some devices */
    uint32_t queues;                   /* attached */
    _Atomic uint32_t pairs;            /* queue pairs of all queues */
};

struct tt_verbs_memory {
    struct tt_mcast_memory base;
    const struct tt_endpoint_lane *lane; /* of the thread that sends from there */
    struct ibv_mr *region;
};

/* A membership in a group, through librdmacm where the group is not given: the system, or the subnet's manager,
 * delivers its datagrams to the port until it ends. */
struct tt_verbs_membership {
    struct rdma_cm_id *id;
    struct sockaddr_in group;
    bool joined;
    union ibv_gid gid;       /* of the group */
    uint16_t lid;            /* of the group; InfiniBand only */
    uint32_t queue_key;      /* that the subnet's manager gave the group; InfiniBand only */
    struct ibv_ah_attr path; /* to the group */
    bool listens;            /* the system does for us, through the socket: of a given group, on RoCE */
    int socket;
};

/* A completion queue and where its events come. */
struct tt_verbs_completions {
    struct ibv_comp_channel *channel;
    struct ibv_cq *queue;
};

/* Used by one thread at a time, the sender; the counters are read by any. */
struct tt_verbs_sender {
    const struct tt_endpoint_lane *lane; /* the sender's */
    struct ibv_qp *pair;
    struct tt_verbs_completions completions;
    struct ibv_ah *path;
    uint32_t queue_key;
    uint32_t max_inline_bytes;
    uint32_t accepted; /* chunks posted, wraps */
    uint32_t completed;
    uint32_t lost;            /* chunks that were accepted and could not be posted */
    bool armed;               /* an event will come with the next completion */
    bool broken;              /* the queue pair is in its error state: everything is lost */
    bool written_off;         /* nor are completions awaited or looked at any more */
    uint64_t silent_since_ns; /* the first look without a completion since the last one, though some are due; 0: none */
    uint8_t *copies;          /* TT_VERBS_SEND_DEPTH chunks, for memory that is not registered */
    struct ibv_mr *copies_region;
    struct ibv_send_wr requests[TT_VERBS_SEND_BATCH]; /* what does not change from send to send is there already */
    struct ibv_sge pieces[TT_VERBS_SEND_BATCH];
    _Atomic uint64_t datagrams;
    _Atomic uint64_t bytes;
    _Atomic uint64_t errors;
};

/* Used by one thread at a time, the feeder; the counters are read by any. */
struct tt_verbs_receiver {
    const struct tt_endpoint_lane *lane; /* the feeder's */
    struct ibv_qp *pair;
    struct tt_verbs_completions completions;
    uint8_t *staging;
    struct ibv_mr *region;
    struct ibv_recv_wr *requests;               /* one a slot, as it is posted each time; linked for one call */
    struct ibv_sge *pieces;                     /* one a slot */
    struct ibv_recv_wr *free_first, *free_last; /* slots whose chunks were dropped, to be posted */
    uint32_t lent;                              /* chunks polled and not yet reposted */
    bool dirty;                                 /* completions have come since an event was last asked for */
    bool owed;                                  /* an event may come for completions that were seen already */
    bool complained;
    uint32_t vain;                              /* polls that found nothing */
    _Atomic(struct tt_verbs_sources *) sources; /* NULL: not introduced */
    _Atomic uint64_t datagrams;
    _Atomic uint64_t bytes;
    _Atomic uint64_t drops_key;
    _Atomic uint64_t drops_length;
    _Atomic uint64_t drops_own;
};

struct tt_verbs_queue {
    struct tt_mcast_queue base;
    struct tt_verbs_mcast *mcast;
    struct tt_mcast_queue_options options;
    struct tt_verbs_membership membership;
    bool attached; /* the receiver's queue pair is in the group */
    /* A cache line and its neighbour apart: two threads write to these. */
    _Alignas(128) struct tt_verbs_sender sender;
    _Alignas(128) struct tt_verbs_receiver receiver;
};

/* A counter with one writer: needs no locked instruction. */
static inline void tt_verbs_count(_Atomic uint64_t *counter, uint64_t more)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + more, memory_order_relaxed);
}

/* completions.c: a completion queue of a thread, with a descriptor; errors carry errno. */
bool tt_verbs_completions_init(struct tt_verbs_completions *completions, const struct tt_verbs_device *device,
                               const struct tt_endpoint_lane *lane, uint32_t entries);
void tt_verbs_completions_fini(struct tt_verbs_completions *completions); /* of one that is all zeros too */
/* Takes the events that have come; returns how many. */
uint32_t tt_verbs_completions_quiet(struct tt_verbs_completions *completions);

/* mcast_join.c. Errors are logged with the group's address and the device. */
tutti_status tt_verbs_join(struct tt_verbs_queue *queue);
void tt_verbs_leave(struct tt_verbs_queue *queue); /* of a queue that joined nothing too */
/* "239.192.0.1 on rxe0 (10.0.0.1)". */
enum { TT_VERBS_GROUP_TEXT_BYTES = 160 }; /* two addresses and a name of 64 */
const char *tt_verbs_format_group(const struct tt_verbs_queue *queue, char text[TT_VERBS_GROUP_TEXT_BYTES]);
/* Says so, and returns the status: NO_RESOURCE where `error`, an errno value, is about too much of something, else IO.
 */
tutti_status tt_verbs_queue_error(const struct tt_verbs_queue *queue, const char *what, int error);

/* mcast_given.c. A group that is given: the setting's text, "" for none, and what takes the place of joining and
 * leaving. Errors are logged. */
tutti_status tt_verbs_given_parse(const struct tt_verbs_device *device, const char *text, struct tt_verbs_given *given);
tutti_status tt_verbs_given_join(struct tt_verbs_queue *queue);
void tt_verbs_given_leave(struct tt_verbs_queue *queue);

/* mcast_pair.c. The queue pairs of the two sides: created, and brought to where they send and receive; errors are
 * logged, and then the caller destroys what there is. */
tutti_status tt_verbs_pairs_create(struct tt_verbs_queue *queue);
tutti_status tt_verbs_pairs_start(struct tt_verbs_queue *queue);
void tt_verbs_pairs_destroy(struct tt_verbs_queue *queue); /* of a queue that has none too */

/* mcast_memory.c. A region in a thread's protection domain; NULL with errno. */
struct ibv_mr *tt_verbs_register(const struct tt_endpoint_lane *lane, const void *address, size_t length_bytes,
                                 int access);
struct tt_mcast_memory *tt_verbs_memory_register(struct tt_mcast *mcast, uint32_t sender, const void *address,
                                                 size_t length_bytes);
void tt_verbs_memory_release(struct tt_mcast_memory *memory);

/* mcast_send.c, mcast_receive.c: the operations of the same names, and the life of the two sides. An init that fails
 * has set errno, and is undone by fini. */
bool tt_verbs_sender_init(struct tt_verbs_queue *queue);
/* Once the queue pair is there. */
bool tt_verbs_sender_start(struct tt_verbs_queue *queue);
void tt_verbs_sender_fini(struct tt_verbs_queue *queue);
uint32_t tt_verbs_mcast_post(struct tt_mcast_queue *base, const struct tt_send_chunk *chunks, uint32_t count);
uint32_t tt_verbs_mcast_sent(struct tt_mcast_queue *base);
/* Waits, for a bounded time, until nothing is read from the callers' memory any more; of a queue without queue pairs,
 * and again, too. */
void tt_verbs_mcast_drain(struct tt_mcast_queue *base);

bool tt_verbs_receiver_init(struct tt_verbs_queue *queue);
/* Once the queue pair is there: posts every receive. */
bool tt_verbs_receiver_start(struct tt_verbs_queue *queue);
void tt_verbs_receiver_fini(struct tt_verbs_queue *queue);
uint32_t tt_verbs_mcast_poll(struct tt_mcast_queue *base, struct tt_receive_chunk *chunks, uint32_t max);
void tt_verbs_mcast_repost(struct tt_mcast_queue *base, const struct tt_receive_chunk *chunks, uint32_t count);

#endif
