/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of the UCX provider share: the instance, its peers, and the objects of the data path.
 */
#ifndef TT_FABRIC_UCX_INSTANCE_H
#define TT_FABRIC_UCX_INSTANCE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <ucp/api/ucp.h>

#include "fabric/p2p.h"
#include "fabric/ucx/inbox.h"
#include "fabric/ucx/message.h"
#include "fabric/ucx/pool.h"

enum {
    TT_UCX_KEYS_PER_PEER = 16, /* unpacked keys that a peer keeps */
    TT_UCX_AM_ID = 0x2a,       /* the active message of tutti */
    TT_UCX_AM_WATCHED = 64 /* ids below this, but for tutti's, are counted as foreign; UCX drops the others itself */
};

/* How long a farewell may take until the peer is given up. */
#define TT_UCX_FAREWELL_NS UINT64_C(2000000000)

struct tt_ucx_peer;

/* A message on its way out. */
struct tt_ucx_message {
    struct tt_ucx_peer *peer;
    uint32_t length_bytes;
    uint8_t bytes[TT_UCX_HEADER_BYTES + TT_P2P_MAX_FRAME_BYTES];
};

/* An unpacked key. Entries of a peer's cache are evicted only while unused. */
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
    STAILQ_ENTRY(tt_ucx_operation) link; /* in `placed` or `done` */
    struct tt_ucx_peer *peer;
    struct tt_ucx_key *key; /* NULL for a put of zero bytes */
    enum tt_ucx_operation_kind kind;
    tutti_status status;
    uint32_t steps; /* requests that UCX has not completed yet */
    uint64_t length_bytes;
    uint64_t cookie;
    uint64_t immediate;
};

enum tt_ucx_peer_phase {
    TT_UCX_OPEN,     /* sends and operations are accepted */
    TT_UCX_FAREWELL, /* a last message was sent; waiting until it got through */
    TT_UCX_CLOSED    /* the endpoint is gone, what was under way is being canceled */
};

struct tt_ucx_peer {
    struct tt_p2p_peer base;
    struct tt_ucx *ucx;
    ucp_ep_h ep;        /* NULL once closed */
    uint64_t cookie;    /* the owner's, for PEER_DOWN */
    uint64_t remote_id; /* the instance at the other end */
    uint32_t serial;    /* which of the connections to it this is */
    enum tt_ucx_peer_phase phase;
    bool down;           /* failed or left: no more sends */
    bool broken;         /* UCX reported an error: nothing gets through any more */
    bool released;       /* disconnect was called */
    bool in_down;        /* waits in `down_peers` for its PEER_DOWN */
    bool in_attention;   /* waits in `attention` */
    bool remote_left;    /* a BYE or its confirmation arrived */
    bool flushed;        /* the farewell left this host */
    uint32_t messages;   /* on their way out */
    uint32_t operations; /* under way, up to the completion by UCX */
    uint64_t deadline_ns;
    void *flush; /* the farewell's flush request */
    TAILQ_ENTRY(tt_ucx_peer) all_link;
    TAILQ_ENTRY(tt_ucx_peer) down_link;
    TAILQ_ENTRY(tt_ucx_peer) attention_link;
    struct tt_ucx_key keys[TT_UCX_KEYS_PER_PEER];
};

/* Another instance that this one has heard of; kept so that connections pair up by their serial numbers. */
struct tt_ucx_remote {
    LIST_ENTRY(tt_ucx_remote) link;
    uint64_t id;
    uint32_t next_serial; /* of the next connect to it */
    uint64_t left_mask;   /* bit k: it has left connection next_serial + k already */
};

struct tt_ucx_memory {
    struct tt_p2p_memory base;
    struct tt_ucx *ucx;
    ucp_mem_h handle;
};

TAILQ_HEAD(tt_ucx_peers, tt_ucx_peer);
STAILQ_HEAD(tt_ucx_operations, tt_ucx_operation);
LIST_HEAD(tt_ucx_remotes, tt_ucx_remote);

struct tt_ucx {
    struct tt_p2p base;
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_address_t *address;
    size_t address_bytes;
    uint64_t id; /* random; names this instance in messages */
    int fd;
    bool armed; /* arm said true, and no progress since */
    bool lost;  /* a received message found no memory */
    uint64_t key_clock;
    struct tt_pool messages;
    struct tt_pool operations;
    struct tt_inbox inbox;
    struct tt_ucx_operations placed; /* puts whose data has arrived, and whose immediate is due */
    struct tt_ucx_operations done;
    struct tt_ucx_peers peers;
    struct tt_ucx_peers down_peers; /* PEER_DOWN is due */
    struct tt_ucx_peers attention;  /* peers that are being closed */
    struct tt_ucx_remotes remotes;
    struct tt_p2p_counters counters;
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
tutti_status tt_ucx_listen(struct tt_ucx *ucx);

/* connect.c: opening and closing a connection. */
tutti_status tt_ucx_address(struct tt_p2p *p2p, void *buffer, size_t *length_bytes);
tutti_status tt_ucx_connect(struct tt_p2p *p2p, const void *address, size_t length_bytes, uint64_t peer_cookie,
                            struct tt_p2p_peer **peer);
void tt_ucx_disconnect(struct tt_p2p_peer *peer);
void tt_ucx_peer_fail(struct tt_ucx_peer *peer); /* UCX says so */
void tt_ucx_peer_left(struct tt_ucx *ucx, uint64_t remote_id, uint32_t serial, bool confirmation);
void tt_ucx_attend(struct tt_ucx *ucx);      /* moves on every peer that is being closed */
void tt_ucx_give_up_all(struct tt_ucx *ucx); /* closes every endpoint now */
void tt_ucx_free_peers(struct tt_ucx *ucx);

/* send.c */
tutti_status tt_ucx_send(struct tt_p2p_peer *peer, const void *frame, uint32_t length_bytes);
tutti_status tt_ucx_send_message(struct tt_ucx_peer *peer, enum tt_ucx_message_kind kind, uint64_t value,
                                 const void *payload, uint32_t length_bytes);

/* rma.c */
tutti_status tt_ucx_memory_register(struct tt_p2p *p2p, void *address, size_t length_bytes,
                                    struct tt_p2p_memory **memory);
void tt_ucx_memory_release(struct tt_p2p_memory *memory);
tutti_status tt_ucx_memory_pack(struct tt_p2p_memory *memory, void *buffer, size_t *length_bytes);
tutti_status tt_ucx_get(struct tt_p2p_peer *peer, const void *key, size_t key_bytes, uint64_t remote_address,
                        void *local, uint64_t length_bytes, uint64_t cookie);
tutti_status tt_ucx_put(struct tt_p2p_peer *peer, const void *key, size_t key_bytes, uint64_t remote_address,
                        const void *local, uint64_t length_bytes, uint64_t immediate, uint64_t cookie);
void tt_ucx_send_due_immediates(struct tt_ucx *ucx);
void tt_ucx_drop_keys(struct tt_ucx_peer *peer);

#endif
