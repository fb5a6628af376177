/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of the "verbs" p2p provider share: the instance, its connections, and the objects of the data path.
 */
#ifndef TT_FABRIC_VERBS_RC_INSTANCE_H
#define TT_FABRIC_VERBS_RC_INSTANCE_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/clock.h"
#include "fabric/p2p.h"
#include "fabric/session/pool.h"
#include "fabric/session/session.h"
#include "fabric/verbs/device.h"
#include "fabric/verbs/rc_message.h"
#include "fabric/verbs/rc_pool.h"

enum {
    TT_RC_MESSAGES_AT_ONCE = 32, /* messages that a queue pair holds; more wait in line */
    TT_RC_READS_AT_ONCE = 8,     /* the same for RDMA reads, if both devices serve as many, ... */
    TT_RC_WRITES_AT_ONCE = 8,    /* ... and for what puts are made of */
    TT_RC_PIECES_AT_ONCE = TT_RC_READS_AT_ONCE + TT_RC_WRITES_AT_ONCE,
    TT_RC_SEND_DEPTH = TT_RC_MESSAGES_AT_ONCE + TT_RC_PIECES_AT_ONCE + 1, /* and a probe */
    TT_RC_PIECE_BYTES = 256 * 1024,     /* of a get or put; small enough that a frame need not wait for long */
    TT_RC_SOFT_PIECE_BYTES = 64 * 1024, /* the same with a device of software, ... */
    TT_RC_SOFT_AT_ONCE = 2,             /* ... and as many reads, and writes, at once */
    TT_RC_BOUNCE_BYTES = 64 * 1024,     /* the same through a buffer of the instance */
    TT_RC_BOUNCES = 16,
    TT_RC_SHARED_RECEIVES = 1024, /* frames that wait for progress; then their senders do */
    TT_RC_OWN_RECEIVES = 128,     /* the same for one connection, where receives are not shared */
    TT_RC_GREETINGS_OUT = 32,     /* greetings on their way out; more are left to be repeated */
    TT_RC_GREETINGS_IN = 128,     /* greetings that wait for progress; more are lost, and repeated */
    TT_RC_POLL_BATCH = 32,
    TT_RC_BUCKETS = 256 /* of connections by their queue pair */
};

#define TT_RC_ABORT_NS        (200 * TT_NS_PER_MS) /* a goodbye gets no more where gets or puts were under way */
#define TT_RC_FLUSH_NS        (300 * TT_NS_PER_MS) /* for a queue pair in the error state to give back what it holds */
#define TT_RC_LINGER_NS       (10 * TT_NS_PER_MS)  /* until the queue pair goes: the ACK of the last message has left */
#define TT_RC_KEEPALIVE_NS    (300 * TT_NS_PER_MS) /* after so long without a word the other side is probed */
#define TT_RC_GREETING_NS     (20 * TT_NS_PER_MS)  /* until a greeting is repeated; doubled three times, then ... */
#define TT_RC_GREETING_MAX_NS TT_NS_PER_S          /* ... this long, to who may be busy with other things */
enum {
    TT_RC_GREETING_FAST_TRIES = 20, /* some three seconds, ... */
    TT_RC_GREETING_TRIES = 45       /* ... some 28 in all, counted while progress is called */
};

struct tt_rc;
struct tt_rc_peer;
struct tt_rc_operation;

enum tt_rc_work_kind {
    TT_RC_WORK_MESSAGE,  /* struct tt_rc_message */
    TT_RC_WORK_PIECE,    /* struct tt_rc_piece */
    TT_RC_WORK_PROBE,    /* the peer's `probe` */
    TT_RC_WORK_GREETING, /* struct tt_rc_datagram, on its way out */
    TT_RC_WORK_HEAR,     /* struct tt_rc_datagram, posted to receive */
    TT_RC_WORK_RECEIVE   /* struct tt_rc_buffer */
};

/* What every posted work request's id points at. */
struct tt_rc_work {
    enum tt_rc_work_kind kind;
    struct tt_rc_peer *peer;           /* whose it is; NULL: the instance's */
    struct tt_rc_operation *operation; /* the get or put that it is part of; NULL: none, or not any more */
    TAILQ_ENTRY(tt_rc_work) link;      /* in the peer's `posted` or `greetings`, or in `refusals` of the instance */
};

TAILQ_HEAD(tt_rc_works, tt_rc_work);

struct tt_rc_message {
    struct tt_rc_work work;
    STAILQ_ENTRY(tt_rc_message) next; /* in the peer's `waiting` */
    enum tt_rc_message_kind kind;
    uint32_t length_bytes; /* with the header */
    uint8_t bytes[TT_RC_MESSAGE_MAX_BYTES];
};

/* A read or write under way. */
struct tt_rc_piece {
    struct tt_rc_work work;
    struct tt_rc_piece *next_free;
    bool read;
    uint8_t *bounce; /* NULL: straight from or to the caller's memory */
    uint64_t offset_bytes, length_bytes;
};

struct tt_rc_buffer {
    struct tt_rc_work work;
    STAILQ_ENTRY(tt_rc_buffer) next; /* in `used` */
    uint8_t bytes[TT_RC_MESSAGE_MAX_BYTES];
};

enum { TT_RC_GRH_BYTES = 40 }; /* a UD queue pair puts it in front of what it receives */

struct tt_rc_datagram {
    struct tt_rc_work work;
    struct ibv_ah *handle; /* of one of no peer's, on its way out */
    uint8_t bytes[TT_RC_GRH_BYTES + TT_RC_GREETING_BYTES];
};

struct tt_rc_operation {
    struct tt_session_event event;      /* its DONE */
    STAILQ_ENTRY(tt_rc_operation) link; /* in the peer's `gets` or `puts` */
    struct tt_rc_peer *peer;
    bool put;
    bool bounces;    /* the local memory is not registered */
    bool all_posted; /* nothing is left to be posted, or will be */
    struct tt_p2p_immediate immediate;
    uint32_t rkey, lkey;
    uint32_t under_way; /* pieces, and the immediate's message */
    uint64_t remote_address;
    uint8_t *local;
    uint64_t length_bytes, posted_bytes;
};

STAILQ_HEAD(tt_rc_operations, tt_rc_operation);

struct tt_rc_peer {
    struct tt_session_peer session;
    struct tt_rc *rc;
    struct tt_rc_address address; /* of the other instance */
    struct ibv_ah *handle;        /* of the way to its service */
    enum tt_rc_stage stage;       /* of the greeting */
    bool farewell_sent;           /* our last message has been received */
    bool blocked;                 /* waits in `blocked` of the instance for a bounce buffer */
    bool flushing;                /* the queue pair is in the error state and gives back what it holds */
    uint32_t greeting_tries;
    uint32_t psn; /* of the first packet that it sends */
    uint32_t reads_limit;
    uint32_t messages_out, reads_out, writes_out;
    uint32_t receives;         /* of `buffers` that are posted, or in the caller's hands */
    uint64_t heard_ns;         /* when the other side has last shown that it is there */
    uint64_t greet_ns;         /* when the next greeting is due */
    uint64_t close_ns;         /* closing: when it began; */
    uint64_t left_ns;          /* when it was seen that the other side has left; */
    uint64_t flush_ns;         /* until when the queue pair has time to give back what it holds */
    struct ibv_qp *queue_pair; /* NULL before and after */
    struct tt_rc_work probe;
    STAILQ_HEAD(, tt_rc_message) waiting;
    struct tt_rc_operations gets, puts; /* not all posted */
    struct tt_rc_works posted;          /* to its queue pair */
    struct tt_rc_works greetings;       /* on their way out */
    struct tt_rc_pool buffers;          /* of its own receives */
    struct tt_rc_piece pieces[TT_RC_PIECES_AT_ONCE];
    struct tt_rc_piece *free_pieces;
    TAILQ_ENTRY(tt_rc_peer) link; /* in `blocked`, or `graves` */
    LIST_ENTRY(tt_rc_peer) bucket_link;
};

struct tt_rc_memory {
    struct tt_p2p_memory base;
    LIST_ENTRY(tt_rc_memory) link;
    struct tt_rc *rc;
    struct ibv_mr *registration; /* NULL: of zero bytes */
    uint8_t *address;
    size_t length_bytes;
};

/* Completions that arm has found, and progress has not looked at yet. */
struct tt_rc_stash {
    int count, next;
    struct ibv_wc completions[TT_RC_POLL_BATCH];
};

TAILQ_HEAD(tt_rc_peers, tt_rc_peer);
STAILQ_HEAD(tt_rc_buffers, tt_rc_buffer);

struct tt_rc {
    struct tt_session session;
    struct tt_verbs_device *device;
    const struct tt_endpoint_lane *lane; /* what its thread makes queue pairs on */
    struct tt_rc_address address;
    struct ibv_comp_channel *channel;
    struct ibv_cq *sends, *receives; /* completions of all queue pairs, the service's too */
    struct ibv_srq *shared;          /* NULL: each connection has a receive queue of its own */
    struct ibv_qp *service;          /* UD: greetings */
    int fd;                          /* epoll: the channel and the timer */
    int timer;
    uint64_t timer_ns; /* when the timer fires; TT_NEVER: it does not */
    bool armed;        /* arm said true, and no progress since */
    uint32_t inline_bytes;
    uint64_t ack_timeout_ns; /* 0: as the device is */
    bool soft;               /* the device is software (rc_resources.c) */
    uint32_t piece_bytes;    /* of a get or put */
    uint32_t writes_limit;   /* of what puts are made of, in a queue pair */
    uint64_t polled_ns;      /* when progress has last looked at all completions */
    uint32_t queue_pairs;    /* connections that have one */
    uint32_t unheard;        /* receives that the service's broken queue pair has given back */
    bool deaf;               /* completions cannot be polled any more */
    struct tt_rc_stash stashed_sends, stashed_receives;
    struct tt_pool operations;
    struct tt_rc_pool messages, bounces;
    struct tt_rc_pool buffers, datagrams_in, datagrams_out;
    struct tt_rc_buffers used;   /* to be posted again in the next progress */
    struct tt_rc_works refusals; /* greetings of no peer's, on their way out */
    struct tt_rc_peers blocked;
    struct tt_rc_peers graves; /* peers whose queue pair never gave everything back; freed at the end */
    LIST_HEAD(, tt_rc_memory) memories;
    LIST_HEAD(, tt_rc_peer) buckets[TT_RC_BUCKETS];
};

static inline struct tt_rc *tt_rc_of(struct tt_p2p *p2p)
{
    return (struct tt_rc *)p2p;
}

static inline struct tt_rc_peer *tt_rc_peer_of(struct tt_p2p_peer *peer)
{
    return (struct tt_rc_peer *)peer;
}

/* rc_resources.c: what an instance takes from its device. */
tutti_status tt_rc_open(struct tt_rc *rc, bool own_receives);
void tt_rc_close(struct tt_rc *rc);
/* A receive of the service that failed. */
void tt_rc_hear_failed(struct tt_rc *rc, struct tt_rc_datagram *datagram, enum ibv_wc_status reason);
tutti_status tt_rc_make_room(struct tt_rc *rc); /* for the completions of one more connection */

/* rc_queue.c: a connection's queue pair, and its states. */
tutti_status tt_rc_queue_create(struct tt_rc_peer *peer);
tutti_status tt_rc_queue_connect(struct tt_rc_peer *peer, const struct tt_rc_greeting *greeting);
void tt_rc_queue_fail(struct tt_rc_peer *peer); /* what it holds comes back as flushed */
void tt_rc_queue_destroy(struct tt_rc_peer *peer);
struct tt_rc_peer *tt_rc_queue_find(const struct tt_rc *rc, uint32_t queue_pair); /* NULL: none */
/* Of the way to an instance; NULL with errno: the network knows none, or there is no memory. */
struct ibv_ah *tt_rc_address_handle(const struct tt_rc *rc, const struct tt_rc_address *address);

/* rc_greeting.c: how the two ends find each other. */
tutti_status tt_rc_begin(struct tt_session_peer *base, const void *address, bool begun);
void tt_rc_greet(struct tt_rc_peer *peer);
void tt_rc_heard_greeting(struct tt_rc *rc, struct tt_rc_datagram *datagram, uint32_t length_bytes);
void tt_rc_hear_again(struct tt_rc *rc, struct tt_rc_datagram *datagram); /* posts it */
void tt_rc_greeting_sent(struct tt_rc *rc, struct tt_rc_datagram *datagram);
void tt_rc_peer_opened(struct tt_rc_peer *peer); /* both ends receive */

/* rc_ending.c: farewells, and what is left of a connection. */
bool tt_rc_farewell(struct tt_session_peer *base, bool heard);
void tt_rc_cancel(struct tt_session_peer *base, tutti_status status);
uint64_t tt_rc_close_peer(struct tt_session_peer *base, uint64_t now_ns);
void tt_rc_fini_peer(struct tt_session_peer *base);
void tt_rc_bury(struct tt_rc_peer *grave); /* at the end of the instance */

/* rc_send.c: messages, and the completions of everything that was sent. */
tutti_status tt_rc_send(struct tt_session_peer *base, const struct tt_p2p_frame *frame, bool more);
tutti_status tt_rc_queue_message(struct tt_rc_peer *peer, enum tt_rc_message_kind kind,
                                 const struct tt_p2p_frame *payload);
struct tt_rc_message *tt_rc_message_take(struct tt_rc_peer *peer, enum tt_rc_message_kind kind,
                                         const struct tt_p2p_frame *payload);                   /* NULL: no memory */
bool tt_rc_post(struct tt_rc_peer *peer, struct tt_rc_work *work, struct ibv_send_wr *request); /* false: it failed */
bool tt_rc_post_message(struct tt_rc_peer *peer, struct tt_rc_message *message);
void tt_rc_send_waiting(struct tt_rc_peer *peer);
void tt_rc_drop_waiting(struct tt_rc_peer *peer);
void tt_rc_probe(struct tt_rc_peer *peer);
void tt_rc_sent(struct tt_rc *rc, const struct ibv_wc *completion);

/* rc_receive.c */
tutti_status tt_rc_receives_start(struct tt_rc *rc, struct tt_rc_peer *peer); /* a NULL peer: the shared ones */
void tt_rc_receive_again(struct tt_rc *rc);                                   /* posts what was used */
/* Returns whether *event was set. */
bool tt_rc_received(struct tt_rc *rc, const struct ibv_wc *completion, struct tt_p2p_event *event);

/* rc_memory.c */
tutti_status tt_rc_memory_register(struct tt_p2p *p2p, void *address, size_t length_bytes,
                                   struct tt_p2p_memory **result);
void tt_rc_memory_release(struct tt_p2p_memory *base);
tutti_status tt_rc_memory_pack(struct tt_p2p_memory *base, void *buffer, size_t *length_bytes);
/* Whether the range is registered here; sets *lkey then. */
bool tt_rc_memory_find(const struct tt_rc *rc, const void *address, uint64_t length_bytes, uint32_t *lkey);

/* rc_operation.c: gets and puts. */
tutti_status tt_rc_get_from(struct tt_p2p_peer *base, const void *key, size_t key_bytes, uint64_t remote_address,
                            void *local, uint64_t length_bytes, uint64_t cookie);
tutti_status tt_rc_put_to(struct tt_p2p_peer *base, const void *key, size_t key_bytes, uint64_t remote_address,
                          const void *local, uint64_t length_bytes, const struct tt_p2p_immediate *immediate,
                          uint64_t cookie);
void tt_rc_operations_start(struct tt_rc_peer *peer);                    /* posts what there is room for */
void tt_rc_operations_end(struct tt_rc_peer *peer, tutti_status status); /* nothing more is posted */
void tt_rc_unblock(struct tt_rc *rc);                                    /* bounce buffers have come back */
void tt_rc_bounce_give(struct tt_rc_piece *piece);                       /* if it has one */
void tt_rc_piece_done(struct tt_rc_piece *piece, tutti_status status);
/* One part of it has ended; the last one makes it done. */
void tt_rc_operation_part_done(struct tt_rc_operation *operation, tutti_status status);
tutti_status tt_rc_cause(const struct tt_rc_peer *peer); /* why what is under way to it ends */

#endif
