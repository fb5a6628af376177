/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of the udp provider share: the queue, made of a send side and a receive side that share nothing, and
 * the staging of a feeder. A queue is small, for there are many: what one call alone needs is the feeder's, or lies on
 * the stack of the sending thread.
 */
#ifndef TT_FABRIC_UDP_QUEUE_H
#define TT_FABRIC_UDP_QUEUE_H

#include <netinet/in.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "fabric/mcast.h"
#include "fabric/udp/udp.h"
#include "wire/datagram.h"

/* glibc 2.36 has these, older ones only the kernel's headers, which cannot be included beside netinet/in.h. */
#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

enum {
    TT_UDP_IP_HEADERS_BYTES = 28, /* IPv4 without options, and UDP */
    TT_UDP_MAX_DATAGRAM_BYTES = 65507,
    TT_UDP_SEND_BATCH = 64, /* chunks of one system call, and what attributes recommends */
    TT_UDP_SEGMENTS =
        TT_MCAST_POLL_LEAST,       /* datagrams of one super-packet: the limit of the oldest kernels with them */
    TT_UDP_RECEIVE_MESSAGES = 64,  /* messages of one system call */
    TT_UDP_SLOT_BYTES = 64 * 1024, /* holds the largest super-packet */
    /* Slots a power of two apart would all fall into the same few sets of the processor's caches. */
    TT_UDP_SLOT_STRIDE_BYTES = TT_UDP_SLOT_BYTES + 33 * 64,
    TT_UDP_STAGING_BYTES = 4 * TT_UDP_SLOT_STRIDE_BYTES
};

/* Room for one control message with an int or less, aligned for its header. */
union tt_udp_control {
    char bytes[CMSG_SPACE(sizeof(int))];
    struct cmsghdr align;
};

struct tt_udp {
    struct tt_mcast base;
    struct tt_udp_options options;
    uint32_t max_chunk_bytes, good_chunk_bytes;
    uint32_t queues;                 /* attached */
    struct tt_udp_staging *stagings; /* list, one a feeder */
};

/*
 * Where the queues of one feeder receive, one poll at a time: what a poll brings is handed out at once and reposted
 * before the next, whichever queue's that is. The first three members are the control thread's, the rest the feeder's.
 */
struct tt_udp_staging {
    struct tt_udp_staging *next;
    uint32_t feeder;
    uint32_t queues;     /* that receive here */
    uint32_t lent;       /* chunks polled and not yet reposted */
    uint32_t slot_bytes; /* how the memory is cut at present; 0: not yet */
    uint32_t slots;
    struct mmsghdr messages[TT_UDP_RECEIVE_MESSAGES];
    union tt_udp_control controls[TT_UDP_RECEIVE_MESSAGES];
    struct iovec vectors[TT_UDP_RECEIVE_MESSAGES];
    _Alignas(64) uint8_t memory[TT_UDP_STAGING_BYTES];
};

/* Used by one thread at a time; the counters are read by any. */
struct tt_udp_sender {
    int fd;                 /* once introduced connected to the subgroup, or to the other member of a pair */
    bool segmentation;      /* until the system refuses it once */
    bool complained;        /* a send error has been logged; the others are only counted */
    bool patient;           /* until a device's queue has been full for too long: such refusals are losses then */
    uint32_t refused_bytes; /* what was refused last for good: once the device takes that much it is waited for again */
    uint64_t full_since_ns; /* the device's queue has been full since; 0: it is not */
    uint32_t sent;          /* accepted chunks: the system has copied them when it accepts them */
    _Atomic uint64_t datagrams;
    _Atomic uint64_t bytes;
    _Atomic uint64_t errors;
};

/* Used by one thread at a time, the feeder; the counters are read by any. */
struct tt_udp_receiver {
    int fd; /* of the subgroup's address; of a pair the sender's socket, under a number of its own for epoll's sake */
    bool complained;
    uint32_t filled;   /* calls in a row that brought as many messages as they asked for, up to two */
    bool mergeable;    /* this system has UDP_GRO, and nobody asked to do without */
    bool merging;      /* UDP_GRO is on: a message may be a super-packet */
    uint32_t evidence; /* merging: pairs in a row that a path with super-packets would have merged */
    uint32_t singles;  /* not merging: datagrams since that was decided */
    uint32_t capacity; /* messages that the system's buffer holds at most */
    struct tt_udp_staging *staging;
    _Atomic uint64_t datagrams;
    _Atomic uint64_t bytes;
    _Atomic uint64_t drops_key;
    _Atomic uint64_t drops_length;
    _Atomic uint64_t drops_own;
};

struct tt_udp_queue {
    struct tt_mcast_queue base;
    struct tt_udp *udp;
    struct tt_mcast_queue_options options;
    uint32_t depth_chunks;
    uint16_t port_be; /* of the sender's socket */
    bool introduced;
    bool pair; /* introduced as one of two: unicast both ways */
    /* A cache line and its neighbour apart: two threads write to these. */
    _Alignas(128) struct tt_udp_sender sender;
    _Alignas(128) struct tt_udp_receiver receiver;
};

/* A counter with one writer: needs no locked instruction. */
static inline void tt_udp_count(_Atomic uint64_t *counter, uint64_t more)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + more, memory_order_relaxed);
}

/* socket.c: the sockets of a queue. Errors are logged with the address and the interface. */
tutti_status tt_udp_socket_receive(const struct tt_udp *udp, const struct tt_mcast_queue_options *options, int *fd);
/* A membership that cannot be had again is a warning: nothing is received any more. */
void tt_udp_socket_join_again(const struct tt_udp *udp, const struct tt_mcast_queue_options *options, int fd);
tutti_status tt_udp_socket_send(const struct tt_udp *udp, const struct tt_mcast_queue_options *options, int *fd,
                                uint16_t *port_be);
/* What else has come by then stays; may be done again. */
tutti_status tt_udp_socket_connect(const struct tt_udp *udp, const struct tt_mcast_queue_options *options, int fd,
                                   uint32_t address_be, uint16_t port_be);
/* How many chunks of the group's size are sure to fit into the buffer that the system granted, and how many datagrams
 * of any size can be in it at most. */
/* A good length for chunks, with the receive buffer that sockets are granted here. */
uint32_t tt_udp_socket_good_chunk(const struct tt_udp *udp);

tutti_status tt_udp_socket_depth(const struct tt_udp *udp, const struct tt_mcast_queue_options *options, int fd,
                                 uint32_t *depth_chunks, uint32_t *capacity);
/* Whether super-packets are to be received whole (UDP_GRO); false if the system cannot. */
bool tt_udp_socket_merge(int fd, bool merge);

/* pair.c: the operations of the same names. */
void tt_udp_describe(const struct tt_mcast_queue *queue, uint8_t *name);
tutti_status tt_udp_introduce(struct tt_mcast_queue *queue, const void *names, uint32_t stride_bytes, uint32_t size);
/*
 * A socket that sends hears from the network what became of its datagrams: a pair's that the peer has gone, or that
 * there is no way to it, and any what somebody makes up. It tells that as the error of whatever call comes next, send
 * or receive, which it does not carry out, and keeps a report, for which it polls readable: whoever is told throws the
 * reports away. Only a pair receives from such a socket.
 */
void tt_udp_forget_news(const struct tt_udp_queue *queue);
/* Whether an error may be news, which is forgotten then: the call is to be made again. */
bool tt_udp_is_news(const struct tt_udp_queue *queue, int error);
/* Whether it says no more than that nobody is there: not a failure of the network. */
bool tt_udp_is_absence(int error);

/* send.c, receive.c: the operations of the same names. */
void tt_udp_sender_init(struct tt_udp_queue *queue, int fd);
uint32_t tt_udp_post(struct tt_mcast_queue *queue, const struct tt_send_chunk *chunks, uint32_t count);
/* After the receiver's fd and capacity are set: takes part in the staging of its feeder, allocated for the first. */
tutti_status tt_udp_receiver_init(struct tt_udp_queue *queue);
/* Undoes it; also where it was not done. */
void tt_udp_receiver_fini(struct tt_udp_queue *queue);
uint32_t tt_udp_poll(struct tt_mcast_queue *queue, struct tt_receive_chunk *chunks, uint32_t max);
void tt_udp_repost(struct tt_mcast_queue *queue, const struct tt_receive_chunk *chunks, uint32_t count);

#endif
