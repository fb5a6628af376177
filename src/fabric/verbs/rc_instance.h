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

#define TT_RC_FAREWELL_NS     (2 * TT_NS_PER_S)    /* a farewell that takes longer is given up */
#define TT_RC_ABORT_NS        (200 * TT_NS_PER_MS) /* the same where gets or puts were under way */
#define TT_RC_FLUSH_NS        (300 * TT_NS_PER_MS) /* for a queue pair in the error state to give back what it holds */
#define TT_RC_LINGER_NS       (10 * TT_NS_PER_MS)  /* until the queue pair goes: the ACK of the last message has left */
#define TT_RC_KEEPALIVE_NS    (300 * TT_NS_PER_MS) /* after so long without a word the other side is probed */
#define TT_RC_GREETING_NS     (20 * TT_NS_PER_MS)  /* until a greeting is repeated for the first time */
#define TT_RC_GREETING_MAX_NS (160 * TT_NS_PER_MS) /* from one repetition to the next, in the end */
enum { TT_RC_GREETING_TRIES = 20 };                /* some three seconds, counted while progress is called */

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
    struct tt_rc_peer *peer;           /* whose queue pair holds it; NULL: the service's, or shared receives */
    struct tt_rc_operation *operation; /* the get or put that it is part of; NULL: none, or not any more */
    TAILQ_ENTRY(tt_rc_work) link;      /* in the peer's `posted` */
};

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
    uint8_t bytes[TT_RC_GRH_BYTES + TT_RC_GREETING_BYTES];
};

struct tt_rc_operation {
    STAILQ_ENTRY(tt_rc_operation) link; /* in the peer's `gets` or `puts`, or in `done` */
    struct tt_rc_peer *peer;
    bool put;
    bool bounces;    /* the local memory is not registered */
    bool all_posted; /* nothing is left to be posted, or will be */
    tutti_status status;
    uint64_t cookie;
    uint64_t immediate;
    uint32_t rkey, lkey;
    uint32_t under_way; /* pieces, and the immediate's message */
    uint64_t remote_address;
    uint8_t *local;
    uint64_t length_bytes, posted_bytes;
};

STAILQ_HEAD(tt_rc_operations, tt_rc_operation);

enum tt_rc_phase {
    TT_RC_GREETING,  /* the two ends do not know each other yet; what is sent waits */
    TT_RC_CONNECTED, /* everything moves */
    TT_RC_FAREWELL,  /* the last message is queued or sent */
    TT_RC_CLOSING,   /* the queue pair is in the error state and gives back what it holds */
    TT_RC_CLOSED     /* there is no queue pair any more */
};

/* A connection. The other side may begin it: then it has no owner until connect is called here, too. */
struct tt_rc_peer {
    struct tt_p2p_peer base;
    struct tt_rc *rc;
    struct tt_rc_remote *remote;
    uint32_t serial; /* which of the connections to the remote instance */
    uint64_t cookie; /* the owner's, for PEER_DOWN */
    enum tt_rc_phase phase;
    enum tt_rc_stage stage; /* of the greeting */
    bool claimed;           /* has an owner */
    bool released;          /* had one: disconnect was called */
    bool down;              /* failed or left: nothing new starts */
    bool in_down;           /* waits in `down_peers` */
    bool broken;            /* nothing gets through any more */
    bool remote_left;       /* its last message has come */
    bool farewell_sent;     /* our last message has been received */
    bool blocked;           /* waits in `blocked` of the instance for a bounce buffer */
    uint32_t greeting_tries;
    uint32_t psn; /* of the first packet that it sends */
    uint32_t reads_limit;
    uint32_t messages_out, reads_out, writes_out;
    uint32_t receives; /* of `buffers` that are posted, or in the caller's hands */
    uint64_t heard_ns; /* when the other side has last shown that it is there */
    uint64_t greet_ns; /* when the next greeting is due */
    uint64_t deadline_ns;
    struct ibv_qp *queue_pair; /* NULL once closed */
    struct tt_rc_work probe;
    STAILQ_HEAD(, tt_rc_message) waiting;
    struct tt_rc_operations gets, puts; /* not all posted */
    TAILQ_HEAD(, tt_rc_work) posted;
    struct tt_rc_pool buffers; /* of its own receives */
    struct tt_rc_piece pieces[TT_RC_PIECES_AT_ONCE];
    struct tt_rc_piece *free_pieces;
    TAILQ_ENTRY(tt_rc_peer) link; /* in `peers`, or `graves` */
    TAILQ_ENTRY(tt_rc_peer) down_link;
    TAILQ_ENTRY(tt_rc_peer) blocked_link;
    LIST_ENTRY(tt_rc_peer) remote_link;
    LIST_ENTRY(tt_rc_peer) bucket_link;
};

/* Another instance that this one has heard of; kept so that connections pair up by their serial numbers. */
struct tt_rc_remote {
    LIST_ENTRY(tt_rc_remote) link;
    LIST_HEAD(, tt_rc_peer) peers;
    struct tt_rc_address address;
    uint8_t encoded[TT_RC_ADDRESS_BYTES]; /* the address, as frames have it */
    struct ibv_ah *handle;                /* NULL: the network knows no way to it */
    uint32_t next_serial;                 /* of the next connect to it */
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
    struct tt_p2p base;
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
    uint64_t due_ns;   /* when some peer wants attention */
    uint64_t now_ns;   /* of the progress that runs, or ran last */
    bool attention;    /* some peer has changed, and wants it now */
    bool armed;        /* arm said true, and no progress since */
    bool ending;       /* destroy has been called */
    uint32_t inline_bytes;
    uint64_t ack_timeout_ns; /* 0: as the device is */
    bool soft;               /* the device is software (rc_resources.c) */
    uint32_t piece_bytes;    /* of a get or put */
    uint32_t writes_limit;   /* of what puts are made of, in a queue pair */
    uint32_t queue_pairs;    /* connections that have one */
    uint32_t unheard;        /* receives that the service's broken queue pair has given back */
    bool deaf;               /* completions cannot be polled any more */
    struct tt_rc_stash stashed_sends, stashed_receives;
    struct tt_rc_pool messages, operations, bounces;
    struct tt_rc_pool buffers, datagrams_in, datagrams_out;
    struct tt_rc_buffers used; /* to be posted again in the next progress */
    struct tt_rc_operations done;
    struct tt_rc_peers peers, down_peers, blocked;
    struct tt_rc_peers graves; /* peers whose queue pair never gave everything back; freed at the end */
    LIST_HEAD(, tt_rc_remote) remotes;
    LIST_HEAD(, tt_rc_memory) memories;
    LIST_HEAD(, tt_rc_peer) buckets[TT_RC_BUCKETS];
    struct tt_p2p_counters counters;
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
tutti_status tt_rc_address_handle(struct tt_rc *rc, const struct tt_rc_address *address, struct ibv_ah **handle);

/* rc_greeting.c: how the two ends find each other. */
void tt_rc_greet(struct tt_rc_peer *peer);
void tt_rc_heard_greeting(struct tt_rc *rc, struct tt_rc_datagram *datagram, uint32_t length_bytes);
void tt_rc_hear_again(struct tt_rc *rc, struct tt_rc_datagram *datagram); /* posts it */

/* rc_connect.c: the life of a connection. */
tutti_status tt_rc_address_of(struct tt_p2p *p2p, void *buffer, size_t *length_bytes);
tutti_status tt_rc_connect(struct tt_p2p *p2p, const void *address, size_t length_bytes, uint64_t peer_cookie,
                           struct tt_p2p_peer **result);
void tt_rc_disconnect(struct tt_p2p_peer *base);
struct tt_rc_remote *tt_rc_remote_find(const struct tt_rc *rc, uint64_t instance); /* NULL: none */
tutti_status tt_rc_remote_of(struct tt_rc *rc, const struct tt_rc_address *address, struct tt_rc_remote **result);
tutti_status tt_rc_peer_create(struct tt_rc *rc, struct tt_rc_remote *remote, uint32_t serial,
                               struct tt_rc_peer **result);
struct tt_rc_peer *tt_rc_peer_find(const struct tt_rc_remote *remote, uint32_t serial); /* NULL: none */
void tt_rc_peer_opened(struct tt_rc_peer *peer);                                        /* both ends receive */
void tt_rc_peer_failed(struct tt_rc_peer *peer);
void tt_rc_peer_left(struct tt_rc_peer *peer);

/* rc_ending.c: farewells, and what is left of a connection. */
void tt_rc_mark_down(struct tt_rc_peer *peer);
void tt_rc_begin_closing(struct tt_rc_peer *peer);
void tt_rc_tend(struct tt_rc *rc); /* does what is due at each peer */
void tt_rc_peer_free(struct tt_rc_peer *peer);

/* rc_send.c: messages, and the completions of everything that was sent. */
tutti_status tt_rc_send(struct tt_p2p_peer *base, const void *frame, uint32_t length_bytes,
                        enum tt_p2p_follows follows);
tutti_status tt_rc_queue_message(struct tt_rc_peer *peer, enum tt_rc_message_kind kind, const void *payload,
                                 uint32_t length_bytes);
struct tt_rc_message *tt_rc_message_take(struct tt_rc_peer *peer, enum tt_rc_message_kind kind, const void *payload,
                                         uint32_t length_bytes);                                /* NULL: no memory */
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
                          const void *local, uint64_t length_bytes, uint64_t immediate, uint64_t cookie);
void tt_rc_operations_start(struct tt_rc_peer *peer); /* posts what there is room for */
void tt_rc_operations_end(struct tt_rc_peer *peer);   /* nothing more is posted */
void tt_rc_unblock(struct tt_rc *rc);                 /* bounce buffers have come back */
void tt_rc_bounce_give(struct tt_rc_piece *piece);    /* if it has one */
void tt_rc_piece_done(struct tt_rc_piece *piece, tutti_status status);
/* One part of it has ended; the last one makes it done. */
void tt_rc_operation_part_done(struct tt_rc_operation *operation, tutti_status status);
tutti_status tt_rc_cause(const struct tt_rc_peer *peer); /* why what is under way to it ends */

#endif
