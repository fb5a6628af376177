/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The mcast contract: unreliable datagrams from one member of a group to all the others.
 *
 * A queue is one member's attachment to one multicast subgroup. What is posted to it may reach any subset of the
 * members, in any order, any number of times; it never arrives changed, cut, or at another key. A datagram that does
 * not carry the queue's key, or whose length contradicts its header, is dropped and counted. A queue never hands its
 * owner the owner's own datagrams.
 *
 * Threads: a queue's send side (post, sent) and its receive side (poll, repost) may each be used by one thread at a
 * time, and these two may differ. Queues share nothing, but for the receive sides of those with the same feeder.
 * attach and detach are the control thread's; whoever polls the queue, or its feeder, may do so meanwhile.
 */
#ifndef TT_FABRIC_MCAST_H
#define TT_FABRIC_MCAST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tutti/status.h"
#include "wire/chunk.h"

/* The least that may be asked of poll: as many chunks as a system hands over in one piece. */
enum { TT_MCAST_POLL_LEAST = 64 };

struct tt_mcast;       /* a provider instance */
struct tt_mcast_queue; /* an attachment to one subgroup */

/* Where a subgroup lives; agreed by all its members. Plain bytes, the same on every host. */
struct tt_mcast_address {
    uint32_t group_be; /* IPv4 multicast address, network order (udp); any identifier (sim) */
    uint16_t port;     /* host order */
    uint64_t key;      /* of the job and group; datagrams without it are dropped */
};

struct tt_mcast_attributes {
    uint32_t max_chunk_bytes; /* largest payload that a datagram carries on this path */
    uint32_t send_batch;      /* a good number of chunks for one post */
};

struct tt_mcast_queue_options {
    struct tt_mcast_address address;
    uint32_t rank;        /* own rank in the group, the source of what is sent */
    uint32_t chunk_bytes; /* the largest chunk that this group sends; <= max_chunk_bytes */
    /* Which thread polls the queue: an index that the caller chooses. Queues of an instance with the same feeder are
     * polled by one thread at a time and share their staging: it is there once a thread, not once a group. */
    uint32_t feeder;
};

/* Monotone counters of a queue. Safe to read from any thread. */
struct tt_mcast_counters {
    uint64_t datagrams_sent;
    uint64_t bytes_sent; /* at the socket: payload and tutti's header, not IP's */
    uint64_t datagrams_received;
    uint64_t bytes_received; /* as bytes_sent */
    uint64_t drops_key;      /* no header, wrong magic, version or key */
    uint64_t drops_length;   /* the header's length is not the datagram's */
    uint64_t drops_own;      /* own datagrams that came back and were not filtered by the kernel */
    uint64_t drops_injected; /* dropped on purpose (TUTTI_LOSS) */
    uint64_t send_errors;    /* sends that the system refused for a reason other than a full queue */
};

struct tt_mcast_ops {
    const char *name; /* "udp", "sim" */

    void (*attributes)(struct tt_mcast *mcast, struct tt_mcast_attributes *attributes);

    /*
     * Joins the subgroup; on return datagrams that are sent to it from now on have somewhere to land.
     * TUTTI_ERR_IN_USE: the port belongs to somebody else (choose another); TUTTI_ERR_NO_RESOURCE: too many
     * memberships or descriptors; TUTTI_ERR_IO: the interface cannot (logged with its name and the reason).
     */
    tutti_status (*attach)(struct tt_mcast *mcast, const struct tt_mcast_queue_options *options,
                           struct tt_mcast_queue **queue);

    /* Leaves the subgroup and frees the queue; chunks polled from it are no longer valid. NULL is allowed. */
    void (*detach)(struct tt_mcast_queue *queue);

    /* How many chunks of the group's size a member may have on their way to a queue that is not being polled. */
    uint32_t (*depth_chunks)(const struct tt_mcast_queue *queue);

    /*
     * Sends up to `count` chunks, in order, without blocking. Returns how many were accepted; fewer means that the
     * send queue is full: wait until the send descriptor is writable, or try again soon. A send that fails for good is
     * accepted and counted: it is a lost datagram.
     */
    uint32_t (*post)(struct tt_mcast_queue *queue, const struct tt_send_chunk *chunks, uint32_t count);

    /* How many of the accepted chunks have completed so far (their memory may change again); monotone, wraps. */
    uint32_t (*sent)(struct tt_mcast_queue *queue);

    /*
     * Up to `max` received chunks, without blocking; `max` is at least TT_MCAST_POLL_LEAST. Their staging belongs to
     * the caller until it reposts them. 0: no chunk of this group waited when poll was called.
     */
    uint32_t (*poll)(struct tt_mcast_queue *queue, struct tt_receive_chunk *chunks, uint32_t max);

    /* Gives staging back. Every polled chunk must be reposted before the next poll of any queue of the same feeder. */
    void (*repost)(struct tt_mcast_queue *queue, const struct tt_receive_chunk *chunks, uint32_t count);

    /* A descriptor that polls readable while chunks wait, for epoll; -1 where there is none (sim). */
    int (*receive_fd)(const struct tt_mcast_queue *queue);
    /* A descriptor that polls writable when post may accept again; -1 where there is none. */
    int (*send_fd)(const struct tt_mcast_queue *queue);

    void (*counters)(const struct tt_mcast_queue *queue, struct tt_mcast_counters *counters);

    /* Destroys the provider; every queue must have been detached. */
    void (*destroy)(struct tt_mcast *mcast);
};

/* Every provider's instance and queue begin with these. */
struct tt_mcast {
    const struct tt_mcast_ops *ops;
};
struct tt_mcast_queue {
    const struct tt_mcast_ops *ops;
};

#endif
