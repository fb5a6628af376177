/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of the tcp transport share: the instance, its connections and sockets, gets, puts and registrations.
 */
#ifndef TT_FABRIC_TCP_INSTANCE_H
#define TT_FABRIC_TCP_INSTANCE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "fabric/p2p.h"
#include "fabric/session/pool.h"
#include "fabric/session/registry.h"
#include "fabric/session/session.h"
#include "fabric/session/tail.h"
#include "fabric/tcp/message.h"

enum {
    TT_TCP_ARENA_BYTES = 256 * 1024, /* frames that one progress reads */
    TT_TCP_GULP_BYTES = 64 * 1024,   /* of them from one socket at a time */
    TT_TCP_PIECE_BYTES = 1 << 20,    /* of a read, behind one header */
    TT_TCP_BURST_BYTES = 1 << 20,    /* bulk from or to a socket in one progress */
    TT_TCP_SCRATCH_BYTES = 64 * 1024,
    TT_TCP_READS_AT_ONCE = 64,    /* that a peer has been asked for; more wait */
    TT_TCP_TRIES = 8,             /* to connect: some six seconds of a process that looks all the time. A process that
                                     has not looked for long has used up one of them at most */
    TT_TCP_STRANGERS_AT_ONCE = 64 /* sockets whose greeting has not come; more push out the oldest */
};

#define TT_TCP_POLITE_NS   (20 * TT_NS_PER_MS)  /* the side with the higher address lets the other one dial first */
#define TT_TCP_REDIAL_NS   (50 * TT_NS_PER_MS)  /* the first try; each further one has twice as long */
#define TT_TCP_NEAR_NS     (3 * TT_NS_PER_MS)   /* there and back: who is known to be nearer is tried quickly first */
#define TT_TCP_TWICE_NS    (300 * TT_NS_PER_MS) /* until the other side's socket comes, where both have dialed */
#define TT_TCP_STRANGER_NS (5 * TT_NS_PER_S)    /* for a greeting to come */
#define TT_TCP_REFUSED_NS  (300 * TT_NS_PER_MS) /* for the other side to dial, where this side's dialing was refused */
#define TT_TCP_OVER_NS     (1 * TT_NS_PER_S)    /* for the socket for frames to say why the one for bulk is closed */
#define TT_TCP_WATCH_NS    TT_NS_PER_S          /* between looks at who is silent */
#define TT_TCP_DEAF_NS     (100 * TT_NS_PER_MS) /* without accepting, where there is no descriptor for it */

struct tt_tcp;
struct tt_tcp_peer;

enum tt_tcp_role {
    TT_TCP_LISTENER,
    TT_TCP_TIMER,
    TT_TCP_STRANGER, /* accepted; whom it is from its greeting will say */
    TT_TCP_FRAMES,
    TT_TCP_BULK
};

enum tt_tcp_stage {
    TT_TCP_CLOSED,    /* fd is -1 */
    TT_TCP_DIALING,   /* not connected yet */
    TT_TCP_GREETED,   /* the greeting is sent, its answer awaited */
    TT_TCP_LISTENING, /* accepted; the greeting is awaited */
    TT_TCP_OPEN,
    TT_TCP_OVER /* refused or closed; a better one may come, or the socket for frames say why the one for bulk is */
};

/* What epoll points at. */
struct tt_tcp_socket {
    int fd;
    enum tt_tcp_role role;
    enum tt_tcp_stage stage;
    uint32_t watched;         /* events of epoll */
    struct tt_tcp_peer *peer; /* of FRAMES and BULK */
    uint64_t due_ns;          /* DIALING: to be dialed again; LISTENING, OVER: to be given up */
    uint32_t lost;            /* segments, when that was looked at last */
    uint32_t later;           /* segments that had come then, behind a missing one */
    uint16_t error;           /* errno that a send has met: the system says it once */
    uint16_t greeting_bytes;  /* of it, or of its answer, that have come */
    uint8_t greeting[TT_TCP_GREETING_BYTES];
    TAILQ_ENTRY(tt_tcp_socket) link; /* of a STRANGER */
};

TAILQ_HEAD(tt_tcp_sockets, tt_tcp_socket);

enum {
    TT_TCP_QUEUE_KEPT_BYTES = 4096, /* of a peer's empty queue */
    TT_TCP_QUEUE_BYTES = 128 * 1024 /* of the one that an instance has to spare: half of it goes together */
};

/* Bytes that wait for a socket. */
struct tt_tcp_queue {
    uint8_t *bytes;
    size_t begin, end, capacity;
};

/* And those of frames that are left where they lie until the batch ends. */
struct tt_tcp_body {
    const uint8_t *bytes;
    size_t length_bytes;
    size_t at; /* where in the queue they belong; what is before them has not been sent either */
};

enum { TT_TCP_BODIES = 4 };

/* A message that comes bit by bit, and is handed out from here; what links free ones overwrites nothing of it. */
struct tt_tcp_part {
    struct tt_pool_link link;
    _Alignas(TT_TCP_MESSAGE_ALIGNMENT) uint8_t bytes[TT_TCP_MESSAGE_MAX_BYTES];
};

struct tt_tcp_memory {
    struct tt_p2p_memory base;
    struct tt_tcp *tcp;
    struct tt_registration registration;
    uint32_t users; /* streams that send it, and puts that are coming into it */
};

/* A get or put of this side, or a put of the other's that has been placed. */
struct tt_tcp_operation {
    struct tt_session_event event; /* its DONE, or IMMEDIATE */
    TAILQ_ENTRY(tt_tcp_operation) link;
    uint64_t id;
    struct tt_tcp_place place; /* the remote side */
    struct tt_p2p_immediate immediate;
    uint8_t *local;
    uint64_t moved_bytes; /* of a get */
    bool sent;            /* a get was asked for; all of a put has left */
};

TAILQ_HEAD(tt_tcp_operations, tt_tcp_operation);

/* Bulk on its way out: the other side's get, a put of this side's, or a probe. */
struct tt_tcp_stream {
    STAILQ_ENTRY(tt_tcp_stream) link;
    enum tt_tcp_kind kind;
    uint64_t id;
    struct tt_tcp_memory *memory;       /* of a get; NULL once it was released */
    struct tt_tcp_operation *operation; /* the put */
    const uint8_t *source;
    uint8_t *copy;        /* of the rest of the piece of a get, if its memory was released in the middle; else NULL */
    uint64_t left_bytes;  /* not behind a header yet */
    uint64_t piece_bytes; /* behind the header, not sent yet */
    uint32_t header_sent; /* of the header */
    bool begun;           /* `header` is that of the piece */
    uint8_t header[TT_TCP_BULK_HEADER_BYTES];
};

/* Bulk on its way in. */
struct tt_tcp_inbound {
    uint32_t header_bytes; /* that have come */
    uint8_t header[TT_TCP_BULK_HEADER_BYTES];
    enum tt_tcp_kind kind; /* of what comes, while `left_bytes` > 0 */
    uint64_t id;
    uint64_t length_bytes; /* all of it */
    uint64_t left_bytes;
    uint8_t *to;                        /* NULL: nobody wants it any more */
    struct tt_tcp_operation *operation; /* the get */
    struct tt_tcp_memory *memory;       /* that a put goes into; NULL: refused, or released */
    struct tt_tcp_operation *placed;    /* its IMMEDIATE */
};

struct tt_tcp_peer {
    struct tt_session_peer session;
    struct tt_tcp *tcp;
    bool dialer;     /* of the socket for frames; dials the one for bulk, too */
    bool wants_bulk; /* has said so, or dialed */
    uint32_t tries;
    uint32_t quick;    /* of these: before those that TT_TCP_TRIES counts, each with half the time of the next */
    uint64_t begun_ns; /* the first try */
    uint64_t dial_ns;  /* when it is to be dialed; TT_NEVER: not */
    struct tt_tcp_socket frames, bulk;
    char over_reason[TT_SESSION_REASON_BYTES]; /* OVER: why, if nothing better comes */
    bool over_starved;                         /* and whether it was for want of something here */
    struct tt_tcp_queue out;                   /* of messages */
    struct tt_tcp_body bodies[TT_TCP_BODIES];  /* and where in it these belong, from first to last */
    uint32_t body_count;
    bool in_batch; /* waits in `batched` of the instance: messages do, to go together */
    TAILQ_ENTRY(tt_tcp_peer) batch_link;
    struct tt_tail tail;
    uint32_t part_bytes, whole_bytes; /* see tt_tcp_size_writes */
    bool frames_sent, bulk_sent;      /* since the last probe */
    bool blocked;                     /* messages wait for room in its socket */
    bool in_due;                      /* waits in `due` of the instance: it has bulk to send, and may */
    TAILQ_ENTRY(tt_tcp_peer) due_link;
    struct tt_tcp_operations gets, puts;
    struct tt_tcp_operation *next_get; /* the first that has not been asked for; NULL: all have */
    uint32_t asked;                    /* gets that the other side has been asked for */
    uint32_t reads;                    /* that the other side has asked for */
    STAILQ_HEAD(, tt_tcp_stream) streams;
    struct tt_tcp_inbound inbound;
    uint32_t come_bytes;      /* of a message that has come in part */
    struct tt_tcp_part *part; /* room for it; NULL: there was no memory, and the connection comes to nothing */
};

/* Messages that have been read and not been looked at, as progress was asked for so many events only. */
struct tt_tcp_rest {
    struct tt_tcp_peer *peer;
    uint8_t *at, *end;
};

struct tt_tcp {
    struct tt_session session;
    struct tt_tcp_address address;
    uint32_t scope, traffic_class, peer_timeout_s;
    int epoll;
    int spare; /* a descriptor to refuse with when there is no other */
    struct tt_tcp_socket listener, timer;
    uint64_t timer_ns; /* when it fires; TT_NEVER: it does not */
    uint64_t deaf_ns;  /* until then nobody is accepted; 0: all are */
    uint64_t watch_ns; /* when it looks for hosts that are silent; TT_NEVER: all that was sent has been received */
    uint32_t turn; /* which of the sockets that are ready is looked at first: the one at which the last look ended */
    bool lossless;
    bool armed;                              /* arm said true, and no progress since */
    struct tt_tcp_sockets strangers, graves; /* graves: closed in this progress */
    uint32_t stranger_count;
    TAILQ_HEAD(, tt_tcp_peer) due;
    struct tt_tcp_queue spare_queue; /* empty, with TT_TCP_QUEUE_BYTES; or without, while a peer has these */
    TAILQ_HEAD(, tt_tcp_peer) batched;
    uint32_t blocked_count; /* peers */
    struct tt_tails tails;
    struct tt_pool operations, streams, parts;
    struct tt_registry memories;
    uint64_t ids; /* given to gets and puts so far */
    struct tt_tcp_rest rest;
    uint8_t *arena; /* what a progress has read */
    size_t arena_bytes;
    uint8_t *waste; /* what nobody wants */
};

static inline struct tt_tcp *tt_tcp_of(struct tt_p2p *p2p)
{
    return (struct tt_tcp *)p2p;
}

static inline struct tt_tcp_peer *tt_tcp_peer_of(struct tt_p2p_peer *peer)
{
    return (struct tt_tcp_peer *)peer;
}

/* socket.c: sockets, and what the system calls them. */
enum { TT_TCP_TEXT_BYTES = 56 };
const char *tt_tcp_address_format(const uint8_t address[TT_TCP_ADDRESS_BYTES], char text[TT_TCP_TEXT_BYTES]);
tutti_status tt_tcp_listen(struct tt_tcp *tcp, const char *address, uint16_t first_port, uint16_t last_port);
/* Begins to connect to the peer's address: a new descriptor, or -1 with errno. */
int tt_tcp_call(const struct tt_tcp_peer *peer);
void tt_tcp_tune(const struct tt_tcp *tcp, int fd); /* an accepted one */

/*
 * The most that one call may hand to the connected socket for bulk, as a super-packet of its own (MSG_EOR): of what
 * needs several, a part; of what ends with it, all of that. TT_TCP_BURST_BYTES: there is no need for super-packets of
 * one's own. By itself TCP makes them of up to 64 KiB, as long as what shapers often let through at once: one that
 * waits for the tokens of so much has room for no more, and each moment that it is late is lost, which BBR takes for
 * the path's rate. So parts are little more than half of that, in whole segments. A message that needs no
 * more than one costs both hosts' stacks half of what two would, which is more than a shaper's moments are worth. Where
 * segments are nearly as long, on the loopback interface, nothing shapes.
 */
void tt_tcp_size_writes(struct tt_tcp_peer *peer);
/* Has epoll watch for these events; returns false (and errno) if it cannot. */
bool tt_tcp_watch(struct tt_tcp *tcp, struct tt_tcp_socket *socket, uint32_t events);
void tt_tcp_close(struct tt_tcp *tcp, struct tt_tcp_socket *socket);
/* After a send that failed: keeps errno, if the socket is over. Returns whether it is. */
bool tt_tcp_note_error(struct tt_tcp_socket *socket);
uint32_t tt_tcp_unreceived(const struct tt_tcp_socket *socket); /* bytes that the other host has not acknowledged */
/* losses.c: whether a segment has been lost since the last call; also notes how many have come behind one that is
 * missing. And for how long nothing has come back, though TCP has asked for it again and again, as it does for many
 * minutes. 0: something has, or there was nothing to ask for. And how long it is there and back; 0: not known. */
bool tt_tcp_has_lost(struct tt_tcp_socket *socket);
uint32_t tt_tcp_silent_ms(const struct tt_tcp_socket *socket);
uint64_t tt_tcp_round_trip_ns(const struct tt_tcp_socket *socket);

/* greeting.c: how sockets become connections. */
void tt_tcp_init(struct tt_session_peer *base);
tutti_status tt_tcp_begin(struct tt_session_peer *base, const void *address, bool begun);
uint64_t tt_tcp_tend_greeting(struct tt_session_peer *base, uint64_t now_ns);
void tt_tcp_dial_bulk(struct tt_tcp_peer *peer);
void tt_tcp_bulk_over(struct tt_tcp_peer *peer, int error); /* 0: it was closed */
void tt_tcp_accept(struct tt_tcp *tcp);
void tt_tcp_greeting_ready(struct tt_tcp *tcp, struct tt_tcp_socket *socket, uint32_t events);
void tt_tcp_tend_strangers(struct tt_tcp *tcp);
void tt_tcp_bury(struct tt_tcp *tcp); /* frees the graves */

/* frames.c: messages out and in. */
tutti_status tt_tcp_send(struct tt_session_peer *base, const struct tt_p2p_frame *frame, bool more);
void tt_tcp_post(struct tt_tcp_peer *peer, enum tt_tcp_kind kind, const void *payload, uint32_t payload_bytes);
void tt_tcp_post_id(struct tt_tcp_peer *peer, enum tt_tcp_kind kind, uint64_t id);
void tt_tcp_flush(struct tt_tcp_peer *peer);
void tt_tcp_flush_batch(struct tt_p2p *p2p);      /* what waits for others, of all peers, unless a batch is on */
void tt_tcp_frames_end(struct tt_tcp_peer *peer); /* what waits is given up */
void tt_tcp_receive(struct tt_tcp_peer *peer);    /* into the arena, which has room; sets the rest */
/* Looks at the rest; up to `max` frames come out. */
uint32_t tt_tcp_read_rest(struct tt_tcp *tcp, struct tt_p2p_event *events, uint32_t max);
void tt_tcp_sent(struct tt_tcp_peer *peer, bool bulk); /* something that may be lost */
void tt_tcp_watch_for_silence(struct tt_tcp *tcp);     /* something is to be received by others, if only a probe */
void tt_tcp_probe(struct tt_tcp_peer *peer, uint64_t now_ns);

/* Fails a peer from whose host nothing has come back for too long. Returns whether something is still under way. */
bool tt_tcp_look_whether_silent(struct tt_tcp_peer *peer);

/* operation.c: gets and puts of this side. */
tutti_status tt_tcp_get(struct tt_p2p_peer *base, const void *key, size_t key_bytes, uint64_t remote_address,
                        void *local, uint64_t length_bytes, uint64_t cookie);
tutti_status tt_tcp_put(struct tt_p2p_peer *base, const void *key, size_t key_bytes, uint64_t remote_address,
                        const void *local, uint64_t length_bytes, const struct tt_p2p_immediate *immediate,
                        uint64_t cookie);
void tt_tcp_ask(struct tt_tcp_peer *peer); /* for gets that wait, as many as may be */
void tt_tcp_get_end(struct tt_tcp_peer *peer, struct tt_tcp_operation *get, tutti_status status);
/* WRITTEN or REFUSED; returns whether the message makes sense. */
bool tt_tcp_answered(struct tt_tcp_peer *peer, uint64_t id, bool refused);
void tt_tcp_cancel(struct tt_session_peer *base, tutti_status status);
void tt_tcp_told(struct tt_session *session, struct tt_session_event *event);

/* bulk.c: streams out and in. */
bool tt_tcp_stream(struct tt_tcp_peer *peer, const struct tt_tcp_stream *stream); /* a copy; false: no memory */
/* A READ has come; returns whether it is to be served. */
bool tt_tcp_asked(struct tt_tcp_peer *peer, uint64_t id, const struct tt_tcp_place *place);
void tt_tcp_peer_due(struct tt_tcp_peer *peer); /* it has bulk to send */
bool tt_tcp_send_due(struct tt_tcp *tcp);       /* returns whether anything was sent */
void tt_tcp_receive_bulk(struct tt_tcp_peer *peer);
void tt_tcp_bulk_end(struct tt_tcp_peer *peer); /* streams, and what comes in */
/* What reads or writes a registration goes on without it. */
void tt_tcp_take_memory(struct tt_tcp_peer *peer, struct tt_tcp_memory *memory);

/* memory.c */
tutti_status tt_tcp_memory_register(struct tt_p2p *p2p, void *address, size_t length_bytes,
                                    struct tt_p2p_memory **result);
void tt_tcp_memory_release(struct tt_p2p_memory *base);
tutti_status tt_tcp_memory_pack(struct tt_p2p_memory *base, void *buffer, size_t *length_bytes);
/* The registration that the place lies in; NULL: none. */
struct tt_tcp_memory *tt_tcp_memory_find(const struct tt_tcp *tcp, const struct tt_tcp_place *place);

#endif
