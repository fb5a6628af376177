/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of the UCX provider share: the instance, its peers, and the objects of the data path.
 */
#ifndef TT_FABRIC_UCX_INSTANCE_H
#define TT_FABRIC_UCX_INSTANCE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "fabric/p2p.h"
#include "fabric/session/pool.h"
#include "fabric/session/registry.h"
#include "fabric/session/session.h"
#include "fabric/session/tail.h"
#include "fabric/ucx/inbox.h"
#include "fabric/ucx/library.h"
#include "fabric/ucx/message.h"

enum {
    TT_UCX_KEYS_PER_PEER = 16,     /* unpacked keys that a peer keeps */
    TT_UCX_SLOTS_PER_PEER = 16,    /* gets and puts by messages that run at once; more wait in line */
    TT_UCX_BULK_BYTES = 64 * 1024, /* data of a bulk message; over TCP it goes in one piece */
    TT_UCX_BULK_WINDOW = 2,        /* bulk messages to a peer that UCX holds; frames wait behind them */
    TT_UCX_BULK_BURST = 8,         /* bulk messages to a peer in one progress, if the socket takes them */
    TT_UCX_IDENTITY_BYTES = 8,     /* of an address, in front of UCX's own: the instance */
    TT_UCX_AM_ID = 0x2a,           /* the active message of tutti */
    TT_UCX_AM_WATCHED = 64 /* ids below this, but for tutti's, are counted as foreign; UCX drops the others itself */
};

struct tt_ucx_peer;

/* A message on its way out. */
struct tt_ucx_message {
    STAILQ_ENTRY(tt_ucx_message) link; /* among the answers that are due */
    struct tt_ucx_peer *peer;
    uint32_t length_bytes;
    bool is_probe;
    uint8_t bytes[TT_UCX_HEADER_BYTES + TT_P2P_LEAST_FRAME_BYTES];
};

STAILQ_HEAD(tt_ucx_messages, tt_ucx_message);

/* A bulk message on its way out: a copy of the data, so that neither a released registration nor the end of a put
 * has to wait for what UCX holds. */
struct tt_ucx_bulk_message {
    struct tt_ucx_peer *peer;
    uint8_t header[TT_UCX_BULK_HEADER_MAX_BYTES];
    uint8_t data[TT_UCX_BULK_BYTES];
};

/* Bytes that go to a peer as bulk messages: what it reads here, or what a put writes there. */
struct tt_ucx_stream {
    STAILQ_ENTRY(tt_ucx_stream) link;
    struct tt_ucx_memory *memory;       /* what the peer reads; NULL: a put's, or not in use */
    struct tt_ucx_operation *operation; /* the put; NULL: a read */
    const uint8_t *source;
    uint64_t id;
    uint64_t length_bytes;
    uint64_t sent_bytes;
};

/* An unpacked key of UCX. Entries of a peer's cache are evicted only while unused. */
struct tt_ucx_key {
    ucp_rkey_h rkey; /* NULL: the entry is free */
    uint64_t last_use;
    uint32_t users;
    bool cached; /* part of a peer's cache, else it lives as long as its only user */
    uint16_t packed_bytes;
    uint8_t packed[TT_P2P_MAX_KEY_BYTES];
};

enum tt_ucx_operation_kind { TT_UCX_GET, TT_UCX_PUT };

/* A get or put under way. */
struct tt_ucx_operation {
    struct tt_session_event event;       /* its DONE */
    STAILQ_ENTRY(tt_ucx_operation) link; /* in `placed` or a peer's `waiting` */
    struct tt_ucx_peer *peer;
    enum tt_ucx_operation_kind kind;
    struct tt_p2p_immediate immediate;
    struct tt_ucx_place place; /* the remote side */
    /* By hardware: */
    struct tt_ucx_key *key;
    uint32_t steps; /* requests that UCX has not completed yet */
    /* By messages: */
    uint64_t id;
    void *local;          /* of a get */
    uint64_t moved_bytes; /* of a get */
    struct tt_ucx_stream stream;
};

STAILQ_HEAD(tt_ucx_operations, tt_ucx_operation);

enum tt_ucx_path {
    TT_UCX_PATH_UNKNOWN,
    TT_UCX_PATH_HARDWARE, /* gets and puts are UCX's */
    TT_UCX_PATH_MESSAGES  /* gets and puts are messages of ours */
};

struct tt_ucx_peer {
    struct tt_session_peer session;
    struct tt_ucx *ucx;
    ucp_ep_h ep;        /* NULL before connect, and once closed */
    uint64_t remote_id; /* the instance at the other end */
    bool joined;        /* connect has been called for it */
    bool heard;         /* the other side has connected: it can answer reads and writes */
    bool flushed;       /* the farewell left this host */
    bool in_due;        /* waits in `due` */
    enum tt_ucx_path path;
    uint32_t line;          /* its place in the instance's `lines`, part of the ids of its gets and puts */
    uint32_t messages;      /* on their way out */
    uint32_t bulk_messages; /* those of them that are bulk */
    uint32_t operations;    /* by hardware and under way, up to the completion by UCX */
    struct tt_tail tail;
    void *flush; /* the farewell's flush request */
    TAILQ_ENTRY(tt_ucx_peer) due_link;
    struct tt_ucx_operations waiting;                      /* gets and puts that have no slot yet */
    struct tt_ucx_operation *slots[TT_UCX_SLOTS_PER_PEER]; /* gets and puts that are under way */
    STAILQ_HEAD(, tt_ucx_stream) streams;                  /* being sent, one after the other */
    struct tt_ucx_stream reads[TT_UCX_SLOTS_PER_PEER];     /* the other side's gets */
    struct tt_ucx_key keys[TT_UCX_KEYS_PER_PEER];
};

struct tt_ucx_memory {
    struct tt_p2p_memory base;
    struct tt_ucx *ucx;
    ucp_mem_h handle; /* NULL: there is no hardware to register with */
    struct tt_registration registration;
    uint32_t readers; /* streams that send it */
};

TAILQ_HEAD(tt_ucx_peers, tt_ucx_peer);

struct tt_ucx {
    struct tt_session session;
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_address_t *address;
    size_t address_bytes;
    uint64_t id; /* random; names this instance in messages */
    int fd;
    bool hardware;       /* there may be devices that get and put by themselves */
    bool lossless;       /* nothing is lost on the way */
    bool armed;          /* arm said true, and no progress since */
    bool lost;           /* a received message found no memory */
    uint32_t vain_looks; /* of destroy, at a descriptor that says nothing */
    uint64_t key_clock;
    struct tt_pool messages;
    struct tt_pool bulk_messages;
    struct tt_pool operations;
    struct tt_inbox inbox;
    struct tt_ucx_messages answers;  /* to what has arrived; not sent yet */
    struct tt_ucx_operations placed; /* puts whose data has arrived, and whose immediate is due */
    struct tt_ucx_peers due;         /* peers with gets or puts to start, or a stream to send */
    struct tt_tails tails;
    struct tt_ucx_peer **lines; /* peers by their line; NULL: free */
    uint32_t line_count;
    uint32_t id_count; /* ids given so far */
    struct tt_registry memories;
};

static inline struct tt_ucx *tt_ucx_of(struct tt_p2p *p2p)
{
    return (struct tt_ucx *)p2p;
}

static inline struct tt_ucx_peer *tt_ucx_peer_of(struct tt_p2p_peer *peer)
{
    return (struct tt_ucx_peer *)peer;
}

/* setup.c: the UCX context and worker of an instance. */
tutti_status tt_ucx_open(struct tt_ucx *ucx, const char *interface, const char *tls);
void tt_ucx_close(struct tt_ucx *ucx);
tutti_status tt_ucx_status(ucs_status_t status);

/* receive.c */
void tt_ucx_keep(struct tt_ucx *ucx, enum tt_ucx_message_kind kind, uint64_t value, const void *payload,
                 uint32_t length_bytes); /* for the caller of progress */
tutti_status tt_ucx_listen(struct tt_ucx *ucx);

/* connect.c: opening and closing a connection. */
tutti_status tt_ucx_address(struct tt_p2p *p2p, void *buffer, size_t *length_bytes);
tutti_status tt_ucx_connect(struct tt_p2p *p2p, const void *address, size_t length_bytes, uint64_t peer_cookie,
                            struct tt_p2p_peer **result);
void tt_ucx_init(struct tt_session_peer *base);
tutti_status tt_ucx_begin(struct tt_session_peer *base, const void *address, bool begun);
uint64_t tt_ucx_tend_peer(struct tt_session_peer *base, uint64_t now_ns);
bool tt_ucx_farewell(struct tt_session_peer *base, bool heard);
bool tt_ucx_is_flushed(struct tt_session_peer *base, bool received);
void tt_ucx_cancel(struct tt_session_peer *base, tutti_status status);
uint64_t tt_ucx_close_peer(struct tt_session_peer *base, uint64_t now_ns);
void tt_ucx_abandon_peers(struct tt_ucx *ucx); /* before their worker goes */
void tt_ucx_fini_peer(struct tt_session_peer *base);
void tt_ucx_peer_heard(struct tt_ucx *ucx, uint64_t remote_id, uint32_t serial);
void tt_ucx_peer_left(struct tt_ucx *ucx, uint64_t remote_id, uint32_t serial);
/* One that this side has made, or had; NULL: none. */
struct tt_ucx_peer *tt_ucx_peer_find(struct tt_ucx *ucx, const struct tt_ucx_connection *connection);

/* send.c */
tutti_status tt_ucx_send(struct tt_session_peer *base, const struct tt_p2p_frame *frame, bool more);
tutti_status tt_ucx_send_message(struct tt_ucx_peer *peer, enum tt_ucx_message_kind kind, uint64_t value,
                                 const void *payload, uint32_t length_bytes);
void tt_ucx_sent(struct tt_ucx_peer *peer); /* something that may be lost; also from a callback */
void tt_ucx_send_probe(struct tt_ucx_peer *peer);
void tt_ucx_answer(struct tt_ucx_peer *peer, enum tt_ucx_message_kind kind, uint64_t id); /* also from a callback */
void tt_ucx_send_answers(struct tt_ucx *ucx);

/* memory.c */
tutti_status tt_ucx_memory_register(struct tt_p2p *p2p, void *address, size_t length_bytes,
                                    struct tt_p2p_memory **result);
void tt_ucx_memory_release(struct tt_p2p_memory *base);
tutti_status tt_ucx_memory_pack(struct tt_p2p_memory *base, void *buffer, size_t *length_bytes);
/* The registration that the place lies in; NULL: none. */
struct tt_ucx_memory *tt_ucx_memory_find(const struct tt_ucx *ucx, const struct tt_ucx_place *place);

/* operation.c: gets and puts, and how they go by messages. */
tutti_status tt_ucx_get(struct tt_p2p_peer *base, const void *key, size_t key_bytes, uint64_t remote_address,
                        void *local, uint64_t length_bytes, uint64_t cookie);
tutti_status tt_ucx_put(struct tt_p2p_peer *base, const void *key, size_t key_bytes, uint64_t remote_address,
                        const void *local, uint64_t length_bytes, const struct tt_p2p_immediate *immediate,
                        uint64_t cookie);
tutti_status tt_ucx_cause(const struct tt_ucx_peer *peer, ucs_status_t status); /* why an operation has failed */
void tt_ucx_operations_start(struct tt_ucx_peer *peer); /* those that wait, as far as there are slots */
void tt_ucx_operations_end(struct tt_ucx_peer *peer, tutti_status status);
bool tt_ucx_read_arrived(struct tt_ucx *ucx, const struct tt_ucx_bulk *bulk, const void *data, size_t data_bytes);
bool tt_ucx_operation_answered(struct tt_ucx *ucx, uint64_t id, bool refused);

/* stream.c: bulk messages to a peer, and the service of its reads. */
void tt_ucx_peer_due(struct tt_ucx_peer *peer);
bool tt_ucx_send_due(struct tt_ucx *ucx); /* returns whether anything was sent */
void tt_ucx_stream_put(struct tt_ucx_operation *operation, const void *local);
void tt_ucx_streams_end(struct tt_ucx_peer *peer);
void tt_ucx_memory_unread(struct tt_ucx_memory *memory); /* ends the streams that send it */
bool tt_ucx_read_asked(struct tt_ucx *ucx, uint64_t id, const uint8_t bytes[TT_UCX_READ_BYTES]);
bool tt_ucx_write_arrived(struct tt_ucx *ucx, const struct tt_ucx_bulk *bulk, const void *data, size_t data_bytes);

/* rma.c: gets and puts that UCX leaves to hardware. */
tutti_status tt_ucx_hardware_key(struct tt_ucx_peer *peer, const void *packed, size_t packed_bytes,
                                 struct tt_ucx_key **result);
void tt_ucx_hardware_get(struct tt_ucx_operation *operation, void *local);
void tt_ucx_hardware_put(struct tt_ucx_operation *operation, const void *local);
void tt_ucx_send_due_immediates(struct tt_ucx *ucx);
void tt_ucx_drop_keys(struct tt_ucx_peer *peer);

/* lanes.c */
bool tt_ucx_is_hardware(struct tt_ucx_peer *peer); /* asks UCX, once */
enum tt_ucx_path tt_ucx_path_of(ucp_ep_h ep);
/* Of the text that ucp_ep_print_info() prints. */
enum tt_ucx_path tt_ucx_path_of_text(const char *text);

#endif
