/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The mcast contract: unreliable datagrams from one member of a group to all the others.
 *
 * A queue is one member's attachment to one multicast subgroup. What is posted to it may reach any subset of the
 * members, in any order, any number of times; it never arrives changed, cut, or at another key. A datagram that does
 * not carry the queue's key, or whose length contradicts its header, is dropped and counted. A queue never hands its
 * owner the owner's own datagrams.
 *
 * A datagram need not say who sent it: the fabric may know, in words of its own. So a queue has a name, which its owner
 * tells the other members out of band, and is introduced to all members before it sends anything. Others may have been
 * introduced sooner: what they send to it meanwhile waits for that, as far as there is room.
 *
 * Threads: a queue's send side (post, sent) and its receive side (poll, repost) may each be used by one thread at a
 * time, and these two may differ; attach says which threads these are, by indices that the caller chooses, and no other
 * thread may be either. A provider may give each thread resources of its own (Zambre et al., section VI); one that does
 * is told at its creation how many threads there are, and the indices are below that number. Queues share nothing, but
 * what is a thread's. All other operations are the control thread's; feeder and sender may go on with their queues
 * meanwhile, but for detach.
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

enum { TT_MCAST_NAME_BYTES = 24 }; /* of a queue's name */

struct tt_mcast;        /* a provider instance */
struct tt_mcast_queue;  /* an attachment to one subgroup */
struct tt_mcast_memory; /* a registration of local memory; named in wire/chunk.h too */

/* Where a subgroup lives; agreed by all its members. Plain bytes, the same on every host. */
struct tt_mcast_address {
    uint32_t group_be; /* IPv4 multicast address, network order (udp); any identifier (sim) */
    uint16_t port;     /* host order */
    uint64_t key;      /* of the job and group; datagrams without it are dropped */
};

/* Longer chunks cost hardly less a byte, and roots that take turns would wait longer for each other. */
enum { TT_MCAST_GOOD_CHUNK_BYTES = 8192 };

struct tt_mcast_attributes {
    uint32_t max_chunk_bytes;  /* largest payload that a datagram carries on this path */
    uint32_t good_chunk_bytes; /* for who asks for no other; <= max_chunk_bytes */
    uint32_t send_batch;       /* a good number of chunks for one post */
    bool writes;               /* chunks with a window's key are written where they belong: see bind */
    bool names_in_pairs_only;  /* with more than two members names of queues are not asked for: zeros do */
};

struct tt_mcast_queue_options {
    struct tt_mcast_address address;
    uint32_t rank;        /* own rank in the group, the source of what is sent */
    uint32_t chunk_bytes; /* the largest chunk that this group sends; <= max_chunk_bytes */
    /* Which thread polls the queue. Queues of an instance with the same feeder are polled by one thread at a time and
     * may share their staging: it is there once a thread then, not once a group. */
    uint32_t feeder;
    uint32_t sender;  /* which thread posts to it; may be the same */
    uint32_t windows; /* how many may be bound at once */
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
    const char *name; /* "udp", "verbs", "sim" */

    void (*attributes)(struct tt_mcast *mcast, struct tt_mcast_attributes *attributes);

    /*
     * Joins the subgroup; when join has returned, too, datagrams that are sent to it from now on have somewhere to
     * land. TUTTI_ERR_IN_USE: the port belongs to somebody else (choose another); TUTTI_ERR_NO_RESOURCE: too many
     * memberships, descriptors or queues; TUTTI_ERR_IO: the interface cannot (logged with its name and the reason);
     * TUTTI_ERR_INVALID_ARGUMENT: a thread that the provider was not told of, or chunks longer than max_chunk_bytes.
     */
    tutti_status (*attach)(struct tt_mcast *mcast, const struct tt_mcast_queue_options *options,
                           struct tt_mcast_queue **queue);

    /*
     * The rest of attach, where it may take seconds: a subnet's manager is asked. So this one operation may be called
     * while the control thread does something else, with other queues of the instance, too; nothing else is done with
     * this queue meanwhile, and after an error nothing but detach. NULL: attach has done all. Errors as attach's.
     */
    tutti_status (*join)(struct tt_mcast_queue *queue);

    /* The queue's name, TT_MCAST_NAME_BYTES bytes that mean something to the same provider at the other members. */
    void (*describe)(const struct tt_mcast_queue *queue, uint8_t *name);

    /*
     * Tells the queue who the members of its subgroup are: `names` has one name a rank, the own one too, `stride_bytes`
     * apart, and is not kept; a name of zeros is nobody's. Until then nothing may be posted, and poll may bring nothing
     * though chunks wait. Done while nobody polls; again, with the same size, when a member has been replaced: what the
     * new one sent before that may be lost. With two members a provider may send by unicast. Errors: MISMATCH (a name
     * is not one of this provider's, or two ranks have the same), NO_MEMORY, NO_RESOURCE, IO (no way to the members).
     */
    tutti_status (*introduce)(struct tt_mcast_queue *queue, const void *names, uint32_t stride_bytes, uint32_t size);

    /*
     * Leaves the subgroup and joins it at once, so that switches hear of a listener whom they may have forgotten
     * (snooping without a querier). What is sent meanwhile may be lost. Where other queues of this host are in the
     * subgroup nothing is said on the network. From any thread. NULL: the provider cannot.
     */
    void (*join_again)(struct tt_mcast_queue *queue);

    /*
     * The beginning of detach, where it may take seconds: what was posted leaves, as memory may be read until then. As
     * join this one operation may be called while the control thread does something else; nothing else is done with
     * this queue meanwhile, and after it nothing but detach. NULL: detach takes no time.
     */
    void (*drain)(struct tt_mcast_queue *queue);

    /* Leaves the subgroup and frees the queue; chunks polled from it are no longer valid. What has not been drained is
     * now. NULL is allowed. */
    void (*detach)(struct tt_mcast_queue *queue);

    /*
     * Windows, only where attributes.writes is true; elsewhere a chunk's window_key means nothing. From bind on the
     * network itself writes chunks with this key to the memory from `address` on, at their offset, and poll brings them
     * with the address at which they lie. The key is the members' choice, for memory of the same length and meaning at
     * all of them; it is not 0, nor bound here already. A chunk whose key is not bound, or that would end beyond the
     * memory, is lost. Of a chunk that poll has not brought, any part may have been written; one that poll has brought
     * may be written again, if the network doubles it, with the same bytes.
     *
     * When invalidate returns nothing is written there any more, whatever is still under way. Chunks that wait to be
     * polled still come, with their address; what is there is the caller's business. Detaching invalidates all.
     */
    void (*bind)(struct tt_mcast_queue *queue, uint32_t window_key, void *address, uint64_t length_bytes);
    void (*invalidate)(struct tt_mcast_queue *queue, uint32_t window_key);

    /* How many chunks of the group's size a member may have on their way to a queue that is not being polled. */
    uint32_t (*depth_chunks)(const struct tt_mcast_queue *queue);

    /*
     * Prepares memory for being sent from without a copy, by queues of this sender, until it is released; the contents
     * may change meanwhile but not while they are being sent. NULL where that is not needed or not possible: then
     * chunks are sent from there all the same, without a registration. Released with memory_release before the instance
     * is destroyed.
     */
    struct tt_mcast_memory *(*memory_register)(struct tt_mcast *mcast, uint32_t sender, const void *address,
                                               size_t length_bytes);
    void (*memory_release)(struct tt_mcast_memory *memory); /* NULL is allowed */

    /*
     * Sends up to `count` chunks, in order, without blocking. Returns how many were accepted; fewer means that the
     * send queue is full: wait for the send descriptor, or try again soon. A send that fails for good is accepted and
     * counted: it is a lost datagram.
     */
    uint32_t (*post)(struct tt_mcast_queue *queue, const struct tt_send_chunk *chunks, uint32_t count);

    /* How many of the accepted chunks have completed so far (their memory may change again); monotone, wraps. */
    uint32_t (*sent)(struct tt_mcast_queue *queue);

    /*
     * Up to `max` received chunks, without blocking; `max` is at least TT_MCAST_POLL_LEAST. Their staging belongs to
     * the caller until it reposts them, those that were written to a window too. 0: no chunk of this group waited when
     * poll was called. Where a provider can tell that what it brings was the last that waited, it says so in `dry` of
     * the queue: another call would have brought 0.
     */
    uint32_t (*poll)(struct tt_mcast_queue *queue, struct tt_receive_chunk *chunks, uint32_t max);

    /* Gives staging back. Every polled chunk must be reposted before the next poll of any queue of the same feeder. */
    void (*repost)(struct tt_mcast_queue *queue, const struct tt_receive_chunk *chunks, uint32_t count);

    /* A descriptor for epoll, final from the first introduce on, that polls readable when chunks have come since
     * attach, or since poll last returned 0: it may be slept on after such a poll only. May be readable for nothing,
     * until the next poll. -1 where there is none (sim). */
    int (*receive_fd)(const struct tt_mcast_queue *queue);
    /* A descriptor that polls readable or writable when post may accept again after it accepted fewer, or when more
     * has completed since sent last returned less than was accepted; -1 where there is none. */
    int (*send_fd)(const struct tt_mcast_queue *queue);

    void (*counters)(const struct tt_mcast_queue *queue, struct tt_mcast_counters *counters);

    /* Destroys the provider; every queue must have been detached. */
    void (*destroy)(struct tt_mcast *mcast);
};

/* Every provider's instance, queue and registration begin with these. */
struct tt_mcast {
    const struct tt_mcast_ops *ops;
};
struct tt_mcast_queue {
    const struct tt_mcast_ops *ops;
    bool dry; /* the last poll brought all that waited; the feeder's */
};
struct tt_mcast_memory {
    const struct tt_mcast_ops *ops;
};

static inline tutti_status tt_mcast_join(struct tt_mcast_queue *queue)
{
    return queue->ops->join == NULL ? TUTTI_OK : queue->ops->join(queue);
}

static inline void tt_mcast_drain(struct tt_mcast_queue *queue)
{
    if (queue->ops->drain != NULL) {
        queue->ops->drain(queue);
    }
}

#endif
