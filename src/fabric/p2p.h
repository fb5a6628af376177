/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The p2p contract: reliable, ordered connections between processes, with one-sided access to registered memory.
 *
 * A provider instance belongs to one context and is used by one thread at a time (the control context). Peers are
 * identified by the handle that connect returned; both sides connect to each other. Frames between two instances
 * arrive whole, once and in the order in which they were sent. Nothing is guaranteed about the order of frames against
 * gets and puts, but for a put's own immediate.
 *
 * A frame comes with the cookie of the connection that was made here to the instance that sent it (of the last one, if
 * there are several), or with 0 while there is none: the other side may have connected first, and what it sends is not
 * held back until this side does. There is none any more after PEER_DOWN and after disconnect, so that a cookie never
 * comes after them. Whom an instance is, it says itself where the fabric does not know (ucx); where connections are
 * queue pairs of their own, they tell (verbs). A frame also has the address of the instance at the other end of its
 * connection, for whoever has to know of whom a frame without a cookie is.
 *
 * Events come out of progress. When a peer fails (its process died, the connection broke, a keepalive ran out) there is
 * exactly one PEER_DOWN event for it, within two seconds of the death of a process on a reachable host, also when
 * nothing is being sent to it; gets and puts that were under way to it complete with TUTTI_ERR_PEER_FAILED before or
 * after that. A process that had died before its end of the connection was made may take longer, as it cannot be told
 * from one that is slow: so long as it is greeted. A peer that was disconnected raises no event.
 */
#ifndef TT_FABRIC_P2P_H
#define TT_FABRIC_P2P_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "tutti/status.h"

struct tt_p2p;        /* a provider instance */
struct tt_p2p_peer;   /* a connection to one remote instance */
struct tt_p2p_memory; /* a registration of local memory */

enum {
    TT_P2P_LEAST_FRAME_BYTES = 2176, /* send takes frames of so many bytes, whatever the provider */
    TT_P2P_MAX_FRAME_BYTES = 32896,  /* none takes longer ones */
    TT_P2P_MAX_ADDRESS_BYTES = 2048, /* the largest address of an instance */
    TT_P2P_MAX_KEY_BYTES = 256,      /* the largest packed key of a registration */
    TT_P2P_MAX_IMMEDIATE_BYTES = 24  /* the most data that goes with an immediate */
};

/* What a put raises at its target when it has been placed: a number, and data that goes with it. */
struct tt_p2p_immediate {
    uint64_t value;
    uint32_t data_bytes; /* up to TT_P2P_MAX_IMMEDIATE_BYTES, which is the caller's to see to */
    uint8_t data[TT_P2P_MAX_IMMEDIATE_BYTES];
};

/* Of one that has come: whether there is no more data than there can be, and zeros behind it. */
static inline bool tt_p2p_immediate_is_sound(const struct tt_p2p_immediate *immediate)
{
    bool is_sound = immediate->data_bytes <= TT_P2P_MAX_IMMEDIATE_BYTES;

    for (uint32_t i = immediate->data_bytes; i < TT_P2P_MAX_IMMEDIATE_BYTES; i++) {
        is_sound = is_sound && immediate->data[i] == 0;
    }
    return is_sound;
}

/* A frame to be sent: the head, and the body behind it, which may be elsewhere, or empty. */
struct tt_p2p_frame {
    const void *head, *body;
    uint32_t head_bytes, body_bytes;
    bool stays; /* the body is where it is, and as it is, until the batch ends, and need not be copied */
};

/* Writes all of it, one piece behind the other. */
static inline void tt_p2p_frame_copy(const struct tt_p2p_frame *frame, void *bytes)
{
    if (frame->head_bytes > 0) {
        memcpy(bytes, frame->head, frame->head_bytes);
    }
    if (frame->body_bytes > 0) {
        memcpy((unsigned char *)bytes + frame->head_bytes, frame->body, frame->body_bytes);
    }
}

static inline uint32_t tt_p2p_frame_bytes(const struct tt_p2p_frame *frame)
{
    return frame->head_bytes + frame->body_bytes;
}

/* Whether it is a frame, of at most so many bytes. */
static inline bool tt_p2p_frame_is_sound(const struct tt_p2p_frame *frame, uint32_t longest)
{
    return frame->head_bytes > 0 && frame->head_bytes <= longest && frame->body_bytes <= longest - frame->head_bytes;
}

enum tt_p2p_event_type {
    TT_P2P_FRAME, /* data, length_bytes: a received frame, valid until the next progress; peer_cookie, or 0; address,
                   * address_bytes: of who sent it, valid as long; NULL where that is not known (ucx) */
    TT_P2P_DONE,  /* cookie, status: a get or put has completed; the local memory is the caller's again */
    TT_P2P_IMMEDIATE, /* immediate; data, length_bytes: what goes with it, valid until the next progress. A put has been
                       * placed here, all of its bytes are visible */
    TT_P2P_PEER_DOWN  /* peer_cookie: this peer failed; data, length_bytes: why, in words, valid until the next
                       * progress. status: PEER_FAILED, or NO_RESOURCE where the want of a descriptor, of memory, or of
                       * an address and port to connect from on this side is why, and the peer is not to blame */
};

struct tt_p2p_event {
    enum tt_p2p_event_type type;
    tutti_status status;
    uint32_t length_bytes, address_bytes;
    const void *data, *address;
    uint64_t cookie;
    uint64_t peer_cookie;
    uint64_t immediate;
};

struct tt_p2p_counters {
    uint64_t frames_sent;
    uint64_t frames_received;
    uint64_t frames_dropped; /* foreign, malformed or over the limit */
    uint64_t bytes_sent;     /* frames and puts, payload bytes as handed over */
    uint64_t bytes_received; /* frames and gets */
    uint64_t wakeups;        /* returns from sleep that this provider's descriptor caused, where known */
    uint64_t probes_sent;    /* by tend, whatever number of segments each has */
    uint64_t refused;        /* connections of others, for want of a descriptor or memory here */
};

struct tt_p2p_ops {
    const char *name; /* "ucx", "sim" */

    /* This instance's address: out-of-band bytes for the others' connect. *length_bytes: capacity in, length out;
     * TUTTI_ERR_TOO_LARGE if it does not fit. */
    tutti_status (*address)(struct tt_p2p *p2p, void *buffer, size_t *length_bytes);

    /*
     * Connects to the instance with this address; does not block, and what is sent before the connection stands is
     * queued. `peer_cookie` is not 0, and comes back in FRAME and PEER_DOWN. The peer lives until disconnect.
     */
    tutti_status (*connect)(struct tt_p2p *p2p, const void *address, size_t length_bytes, uint64_t peer_cookie,
                            struct tt_p2p_peer **peer);

    /*
     * Ends the connection. Frames that were sent are delivered first if the peer is alive; this may take progress
     * calls, which destroy makes (bounded, at most two seconds), so a disconnect never blocks. Frees the handle. The
     * other side gets PEER_DOWN (unless it disconnects too): saying goodbye first is the caller's protocol. Gets and
     * puts that are under way to the peer end: each raises its DONE, with TUTTI_ERR_CANCELED if it had not completed,
     * in one of the next progress calls, and after that DONE its local memory is not touched any more.
     */
    void (*disconnect)(struct tt_p2p_peer *peer);

    /* Sends a frame of 1 .. frame_bytes bytes, of which the head is at least one. Both are copied, but for a body that
     * stays: that may be read until `batches` is off and flush has returned, or until send has where it was off. Never
     * blocks. To a peer that has failed: TUTTI_ERR_PEER_FAILED (and there is, or was, a PEER_DOWN). `more`: another
     * frame to the same peer follows at once, and both may go together; advice, which a provider may leave alone. */
    tutti_status (*send)(struct tt_p2p_peer *peer, const struct tt_p2p_frame *frame, bool more);

    /* Sends what waits for others, where has_batch says so. NULL: that never becomes true. */
    void (*flush)(struct tt_p2p *p2p);

    /* Multicast loses datagrams on this network, so what this provider sends may be lost as well: it is to be expected
     * for some seconds. Advice; NULL: it makes no difference. */
    void (*expect_loss)(struct tt_p2p *p2p);

    /* Registers memory for remote access, and for local use in get and put. Zero bytes are allowed. */
    tutti_status (*memory_register)(struct tt_p2p *p2p, void *address, size_t length_bytes,
                                    struct tt_p2p_memory **memory);
    void (*memory_release)(struct tt_p2p_memory *memory); /* NULL is allowed */

    /* Packs the key that peers need. *length_bytes: capacity in, length out (at most TT_P2P_MAX_KEY_BYTES);
     * TUTTI_ERR_TOO_LARGE if it does not fit. */
    tutti_status (*memory_pack)(struct tt_p2p_memory *memory, void *buffer, size_t *length_bytes);

    /*
     * Reads `length_bytes` (> 0) at `remote_address` of the peer, under the key that the peer packed, into local memory
     * that is registered or not. The local memory is the provider's until the DONE event with `cookie`. The key is
     * copied. The provider keeps unpacked keys per peer, so that giving the same key again costs little.
     */
    tutti_status (*get)(struct tt_p2p_peer *peer, const void *key, size_t key_bytes, uint64_t remote_address,
                        void *local, uint64_t length_bytes, uint64_t cookie);

    /* Writes, then raises IMMEDIATE at the peer; what it raises is copied. DONE here means that the local
     * memory is free again; it may wait for the peer's next call of progress or arm after that in which it was told.
     * Length may be zero: only the immediate. */
    tutti_status (*put)(struct tt_p2p_peer *peer, const void *key, size_t key_bytes, uint64_t remote_address,
                        const void *local, uint64_t length_bytes, const struct tt_p2p_immediate *immediate,
                        uint64_t cookie);

    /* Moves everything that can move without blocking; returns up to `max` events. */
    uint32_t (*progress)(struct tt_p2p *p2p, struct tt_p2p_event *events, uint32_t max);

    /*
     * Sends what is due though nothing arrives and nobody asks for it: probes behind what may have been lost on its
     * way. To be called before every sleep, and when the time comes that it returns; who is late only has that later.
     * TT_NEVER: neither frames nor the bytes of gets and puts wait for a connection or for room, as far as the provider
     * knows, and nothing will be due before something is sent or progress has moved something; within 100 ms of the
     * last of that it says so, if it is called in time and the peers have taken it. `now_ns` is tt_clock_now_ns(), or
     * was a moment ago, and does not go back.
     */
    uint64_t (*tend)(struct tt_p2p *p2p, uint64_t now_ns);

    /* A descriptor for epoll, readable when progress is wanted after arm; -1 where there is none (sim). */
    int (*fd)(struct tt_p2p *p2p);
    /* Prepares to sleep on fd. False: something is waiting already, call progress again instead of sleeping. */
    bool (*arm)(struct tt_p2p *p2p);

    void (*counters)(struct tt_p2p *p2p, struct tt_p2p_counters *counters);

    /* Delivers what disconnect left (bounded), closes the rest, frees everything. Memory must have been released. */
    void (*destroy)(struct tt_p2p *p2p);
};

/* Every provider's instance, peer and memory begin with these. */
struct tt_p2p {
    const struct tt_p2p_ops *ops;
    bool batches; /* the user's: frames and requests may wait for others to the same peer, to go with them. Who turns it
                     off, which has to be soon, flushes; a call each time is more than most have to send */
    bool has_batch;       /* some do */
    bool aligns;          /* frames are handed out 4 bytes behind a multiple of 16 */
    uint32_t frame_bytes; /* the longest frame that send takes, the same at all instances of a provider: at least
                             TT_P2P_LEAST_FRAME_BYTES */
};
struct tt_p2p_peer {
    const struct tt_p2p_ops *ops;
};
struct tt_p2p_memory {
    const struct tt_p2p_ops *ops;
};

/* Sends a frame that lies in one piece, all of which is copied. */
static inline tutti_status tt_p2p_send(struct tt_p2p_peer *peer, const void *bytes, uint32_t length_bytes, bool more)
{
    return peer->ops->send(peer, &(struct tt_p2p_frame){.head = bytes, .head_bytes = length_bytes}, more);
}

#endif
