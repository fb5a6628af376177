/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The session layer: what the connections of tcp, of UCX and of queue pairs have in common, once. It pairs the two
 * ends, says goodbye, drains, raises exactly one PEER_DOWN with its reason, and hands out what has completed. A
 * transport below it moves bytes: it embeds struct tt_session in its instance, struct tt_session_peer in its connection
 * and struct tt_session_event in its gets and puts, each as the first member, and is called through struct
 * tt_session_ops.
 *
 * Two instances may be connected more than once. Both ends count their connections to each other, and those with the
 * same number belong together; so both sides must connect in the same order. The other side may begin a connection
 * first: then it has no owner here until connect is called, and its frames come without a cookie. One that it began and
 * that is over is passed by where it has begun another since.
 *
 * The end of a connection: who disconnects sends BYE behind all frames, and waits for the other side's BYE or
 * BYE_HEARD, two seconds at most; who hears BYE raises PEER_DOWN and answers BYE_HEARD. After both, nothing is under
 * way any more. A connection that breaks ends at once. Then the transport lets go of it, at once or when a device has
 * given back what it held.
 */
#ifndef TT_FABRIC_SESSION_SESSION_H
#define TT_FABRIC_SESSION_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/clock.h"
#include "fabric/p2p.h"

enum {
    TT_SESSION_ADDRESS_BYTES = 64, /* the most that is kept of a transport's address */
    TT_SESSION_REASON_BYTES = 160, /* why a peer is down, in words */
    TT_SESSION_SERIALS_AHEAD = 64, /* so many connections may the other side have begun that this one has not */
    TT_SESSION_STRANGERS = 65536,  /* so many instances that this one has not connected to may have begun; more than a
                                      job has ranks, and an address is but what a greeting says */
    TT_SESSION_BUCKETS = 256       /* of remote instances */
};

#define TT_SESSION_FAREWELL_NS (2 * TT_NS_PER_S) /* a goodbye that is not answered in this time is given up */

struct tt_session;
struct tt_session_remote;

enum tt_session_phase {
    TT_SESSION_GREETING, /* the two ends do not know each other yet; what is sent waits */
    TT_SESSION_OPEN,     /* everything moves */
    TT_SESSION_FAREWELL, /* the last message is queued or sent */
    TT_SESSION_CLOSING,  /* it is over, and the transport lets go of it */
    TT_SESSION_CLOSED    /* the transport has let go of it */
};

struct tt_session_peer {
    struct tt_p2p_peer base;
    struct tt_session *session;
    struct tt_session_remote *remote;
    uint32_t serial; /* which of the connections to the remote instance */
    uint64_t cookie; /* the owner's, for FRAME and PEER_DOWN */
    enum tt_session_phase phase;
    bool claimed;                         /* has an owner, or had one */
    bool released;                        /* disconnect was called */
    bool down;                            /* failed or left: nothing new starts */
    bool in_down;                         /* waits in `down_peers` for its PEER_DOWN */
    bool broken;                          /* nothing gets through any more */
    bool remote_left;                     /* its last message has come */
    bool unsettled;                       /* in `unsettled` of the session */
    bool starved;                         /* what it needs is not to be had on this side: NO_RESOURCE, once down */
    uint64_t deadline_ns;                 /* of the goodbye, once down; a transport may bring it forward */
    char reason[TT_SESSION_REASON_BYTES]; /* once down */
    TAILQ_ENTRY(tt_session_peer) link;
    TAILQ_ENTRY(tt_session_peer) down_link;
    TAILQ_ENTRY(tt_session_peer) unsettled_link;
    LIST_ENTRY(tt_session_peer) remote_link;
};

/* Another instance that this one has heard of; kept so that connections pair up by their serial numbers. */
struct tt_session_remote {
    LIST_ENTRY(tt_session_remote) link;
    LIST_HEAD(, tt_session_peer) peers;
    uint32_t next_serial; /* of the next connect to it */
    bool known;           /* there has been one */
    uint8_t address[TT_SESSION_ADDRESS_BYTES];
};

/* Something that is to be told to the caller of progress: DONE or IMMEDIATE. */
struct tt_session_event {
    STAILQ_ENTRY(tt_session_event) link;
    enum tt_p2p_event_type type;
    tutti_status status;
    uint64_t value;   /* the cookie, or the immediate */
    const void *data; /* what goes with that, in what the event is a member of */
    uint32_t data_bytes;
};

/* What a transport does for its session. None of them blocks. */
struct tt_session_ops {
    size_t peer_bytes;       /* of its connection, the session's part included */
    uint32_t identity_bytes; /* of an address, from its beginning: they alone name the instance */
    uint32_t frame_bytes;    /* of the longest frame that `send` takes */

    /* Makes its part of a connection, which is all zero. */
    void (*init)(struct tt_session_peer *peer);
    /* Connect was called for it, with this address: begins to open it from this side. `begun`: the other side has
     * begun it already, and should this fail, it stays as that has left it. */
    tutti_status (*begin)(struct tt_session_peer *peer, const void *address, bool begun);
    /* Sends a frame, of 1 to frame_bytes bytes, to a peer that is not down; see tt_p2p_ops. */
    tutti_status (*send)(struct tt_session_peer *peer, const struct tt_p2p_frame *frame, bool more);
    /* Sends the last message behind all frames; false: something has to end before, and tt_session_unsettle follows. */
    bool (*farewell)(struct tt_session_peer *peer, bool heard);
    /* Whether all that was sent has left, and with `received` also whether the other host has it. */
    bool (*is_flushed)(struct tt_session_peer *peer, bool received);
    /* Ends what is under way: gets and puts are told with `status`, and no memory of theirs is touched after that. Is
     * called when the peer goes down, and again when its owner lets go of it. */
    void (*cancel)(struct tt_session_peer *peer, tutti_status status);
    /* What of opening is due, the greeting or more; returns when it wants to be called next (TT_NEVER: not before
     * tt_session_unsettle). */
    uint64_t (*tend)(struct tt_session_peer *peer, uint64_t now_ns);
    /* Lets go of all that it has. Returns TT_NEVER, or when to ask again: a device has something of it. Frames that
     * have arrived may still be handed out. */
    uint64_t (*close)(struct tt_session_peer *peer, uint64_t now_ns);
    /* Frees the connection's memory, and what close has not got back yet; nothing of the session points to it any
     * more. */
    void (*fini)(struct tt_session_peer *peer);
    /* An event was handed out by the progress before, or is not wanted any more. */
    void (*told)(struct tt_session *session, struct tt_session_event *event);
};

TAILQ_HEAD(tt_session_peers, tt_session_peer);

struct tt_session {
    struct tt_p2p base;
    const struct tt_session_ops *ops;
    uint64_t now_ns;    /* of the progress that runs, or ran last */
    uint64_t due_ns;    /* when some peer wants attention; 0: now */
    bool ending;        /* destroy has been called */
    uint32_t strangers; /* remote instances that are not known */
    uint32_t opening;   /* peers that have been connected to, and are not open yet */
    uint32_t address_bytes;
    uint8_t address[TT_SESSION_ADDRESS_BYTES];
    struct tt_session_peers peers;
    struct tt_session_peers down_peers;
    struct tt_session_peers unsettled; /* to be looked at */
    struct tt_session_peers over;      /* freed by the next progress: until then its owner may read why one was down */
    STAILQ_HEAD(tt_session_events, tt_session_event) events;
    struct tt_session_events told; /* by the last progress: until the next one the caller may look at their data */
    LIST_HEAD(, tt_session_remote) remotes[TT_SESSION_BUCKETS];
    struct tt_p2p_counters counters;
};

void tt_session_init(struct tt_session *session, const struct tt_p2p_ops *p2p, const struct tt_session_ops *ops,
                     const void *address, size_t address_bytes);

/* Lets go of all connections, and frees them. */
void tt_session_fini(struct tt_session *session);

/* --- For the owner: operations of the contract (fabric/p2p.h) ------------------------------------------------------
 */

tutti_status tt_session_address(struct tt_p2p *p2p, void *buffer, size_t *length_bytes);
/* To an address that the transport has found to be one. It may be longer than what the session keeps of it. */
tutti_status tt_session_connect(struct tt_session *session, const void *address, uint64_t peer_cookie,
                                struct tt_p2p_peer **result);
void tt_session_disconnect(struct tt_p2p_peer *base);
tutti_status tt_session_send(struct tt_p2p_peer *base, const struct tt_p2p_frame *frame, bool more);
/* When tend wants to be called again at the latest, as long as a connection is coming about; TT_NEVER: none is. */
uint64_t tt_session_opening_ns(const struct tt_session *session, uint64_t now_ns);
void tt_session_counters(struct tt_p2p *p2p, struct tt_p2p_counters *counters);

/* Disconnects all and waits until what was sent is received, by calling `wait` (at most 10 ms a time) in between. */
void tt_session_drain(struct tt_session *session, void (*wait)(struct tt_session *session, uint32_t timeout_ms));

/* OK, or PEER_FAILED without a text, since its PEER_DOWN has it: whether something may be sent to the peer. */
tutti_status tt_session_sendable(const struct tt_session_peer *peer);

/* --- For the transport ---------------------------------------------------------------------------------------------
 */

/* The connection that a greeting of the instance with this address is for, made without an owner if the other side
 * begins it; NULL: it has been and gone, or there is no memory, or there are too many strangers, and the greeting is to
 * be refused. */
struct tt_session_peer *tt_session_greeted(struct tt_session *session, const void *address, uint32_t serial);

/* What that has just made, without an owner, comes to nothing here: it goes at once, and may be greeted for again. */
void tt_session_drop(struct tt_session_peer *peer);

struct tt_session_peer *tt_session_find(struct tt_session *session, const void *address, uint32_t serial); /* or NULL */

void tt_session_unsettle(struct tt_session_peer *peer); /* `tend` has something to do */
void tt_session_opened(struct tt_session_peer *peer);   /* both ends know each other */
void tt_session_left(struct tt_session_peer *peer);     /* BYE or BYE_HEARD has come */
/* It broke: `reason` in words. Nothing is sent or awaited any more. */
void tt_session_fail(struct tt_session_peer *peer, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same, for want of a descriptor or of memory here: the peer is not to blame. */
void tt_session_starve(struct tt_session_peer *peer, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* For FRAME: 0 when there is no owner (any more). */
static inline uint64_t tt_session_cookie(const struct tt_session_peer *peer)
{
    return peer->claimed && !peer->released && (!peer->down || peer->in_down) ? peer->cookie : 0;
}

/* The same where the transport knows of a frame only which instance has sent it: of the last connection to it that has
 * an owner. */
uint64_t tt_session_cookie_of(const struct tt_session *session, const void *address);

void tt_session_tell(struct tt_session *session, struct tt_session_event *event); /* hands it to progress */

/* The middle of progress: does what is due at the peers. Peers may be freed. */
void tt_session_tend(struct tt_session *session);
/* The end of progress: up to `max` events. `frames`: frames have arrived that are not handed out yet, and PEER_DOWN
 * comes behind them. */
uint32_t tt_session_take(struct tt_session *session, bool frames, struct tt_p2p_event *events, uint32_t max);
bool tt_session_has_events(const struct tt_session *session);

/* Asserts what holds between two calls. */
void tt_session_check(const struct tt_session *session);

#endif
