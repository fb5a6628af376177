/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How sockets become connections.
 *
 * Normal path: the side with the lower address dials, and sends its greeting as soon as it is connected: whom it has
 * dialed, who it is, which of their connections this is, and what the socket is for. The other side answers WELCOME.
 * The socket for bulk follows when it is first needed, dialed by the same side: a way that is known to be open.
 *
 * The side with the higher address waits for a moment and dials, too: the lower one may not know of the connection yet.
 * If both have greeted, the lower one's socket is used.
 *
 * Failures: a try that is not answered is given up for another one, since TCP itself would wait for a second; after the
 * eighth nobody is there, or something drops what is sent to it. A refusal is final at once, and has its reason
 * in words. Of strangers nothing is kept but a few sockets for a few seconds.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/least.h"
#include "base/log.h"
#include "base/shortage.h"
#include "base/socket.h"
#include "fabric/tcp/instance.h"

static struct tt_tcp_peer *of(struct tt_session_peer *peer)
{
    return (struct tt_tcp_peer *)peer;
}

/* The text stays until the next call. */
static const char *name_of(const struct tt_tcp_peer *peer)
{
    static _Thread_local char text[TT_TCP_TEXT_BYTES];
    return tt_tcp_address_format(peer->session.remote->address, text);
}

/* Whether this side's address is the lower one: it dials first. */
static bool is_lower(const struct tt_tcp_peer *peer)
{
    return memcmp(peer->tcp->session.address, peer->session.remote->address, TT_TCP_ADDRESS_BYTES) < 0;
}

static void open_socket(struct tt_tcp_peer *peer, struct tt_tcp_socket *socket)
{
    socket->stage = TT_TCP_OPEN;
    if (!tt_tcp_watch(peer->tcp, socket, EPOLLIN)) {
        char why[TT_SHORTAGE_TEXT_BYTES];
        tt_session_starve(&peer->session, "%s: watch its socket: %s", name_of(peer), tt_shortage_text(errno, why));
    } else if (socket->role == TT_TCP_FRAMES) {
        peer->dial_ns = TT_NEVER;
        tt_session_opened(&peer->session);
        tt_tcp_flush(peer);
        if (!STAILQ_EMPTY(&peer->streams)) {
            tt_tcp_dial_bulk(peer);
        }
    } else {
        tt_tcp_size_writes(peer);
        if (!STAILQ_EMPTY(&peer->streams)) {
            tt_tcp_peer_due(peer);
        }
    }
}

/* --- Dialing ------------------------------------------------------------------------------------------------------ */

/* How long to wait for what a try brings, or before the next one. */
static uint64_t redial_ns(const struct tt_tcp_peer *peer)
{
    enum { MOST_DOUBLINGS = 5 };
    assert(peer->quick <= MOST_DOUBLINGS);
    return TT_TCP_REDIAL_NS >> peer->quick << tt_least(peer->tries, MOST_DOUBLINGS + peer->quick);
}

static bool may_try(const struct tt_tcp_peer *peer)
{
    return peer->tries < TT_TCP_TRIES + peer->quick;
}

/* Returns the system's error, or 0. */
static int dial(struct tt_tcp_peer *peer, struct tt_tcp_socket *socket)
{
    uint64_t now_ns = peer->tcp->session.now_ns;
    socket->fd = tt_tcp_call(peer);
    if (socket->fd < 0) {
        return errno;
    }
    if (peer->tries == 0) {
        peer->begun_ns = now_ns;
    }
    socket->stage = TT_TCP_DIALING;
    socket->due_ns = now_ns + redial_ns(peer);
    peer->tries++;
    tt_session_unsettle(&peer->session);
    if (!tt_tcp_watch(peer->tcp, socket, EPOLLOUT)) {
        int error = errno;
        tt_tcp_close(peer->tcp, socket);
        return error;
    }
    return 0;
}

/* The socket is over, and for a while something else may be the connection or say why. */
static void wait_for_better(struct tt_tcp_peer *peer, struct tt_tcp_socket *socket, uint64_t time_ns)
{
    (void)tt_tcp_watch(peer->tcp, socket, 0);
    socket->stage = TT_TCP_OVER;
    socket->due_ns = peer->tcp->session.now_ns + time_ns;
    tt_session_unsettle(&peer->session);
}

/* It is no connection, and will not be one. Without bulk the frames that are on their way are handed out all the same,
 * and mostly they say why: the other side has left. */
static void __attribute__((format(printf, 3, 4)))
fail(struct tt_tcp_peer *peer, struct tt_tcp_socket *socket, const char *format, ...)
{
    char reason[TT_SESSION_REASON_BYTES];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(reason, sizeof(reason), format, arguments);
    va_end(arguments);
    if (socket->role == TT_TCP_FRAMES) {
        tt_session_fail(&peer->session, "%s", reason);
        return;
    }
    tt_tcp_close(peer->tcp, socket);
    memcpy(peer->over_reason, reason, sizeof(reason));
    peer->over_starved = false;
    wait_for_better(peer, socket, TT_TCP_OVER_NS);
}

/* Where a firewall lets only one side connect, the other side may. */
static void dial_failed(struct tt_tcp_peer *peer, struct tt_tcp_socket *socket, int error)
{
    char why[TT_SHORTAGE_TEXT_BYTES];
    const char *meaning = "";
    bool is_own = error == EADDRNOTAVAIL; /* nothing has been asked of the peer */
    tt_tcp_close(peer->tcp, socket);
    if (error == ECONNREFUSED) {
        meaning = " (its process has ended, or a firewall rejects TCP to it)";
    } else if (is_own) {
        meaning = " (no port of this host is free, or its own address is gone)";
    }
    peer->over_starved = is_own || tt_shortage_status(error) != TUTTI_OK;
    (void)snprintf(peer->over_reason, sizeof(peer->over_reason), "connect to %s: %s%s", name_of(peer),
                   tt_shortage_text(error, why), meaning);
    wait_for_better(peer, socket, socket->role == TT_TCP_FRAMES ? TT_TCP_REFUSED_NS : TT_TCP_OVER_NS);
}

void tt_tcp_init(struct tt_session_peer *base)
{
    struct tt_tcp_peer *peer = of(base);
    peer->tcp = (struct tt_tcp *)base->session;
    peer->frames = (struct tt_tcp_socket){.fd = -1, .role = TT_TCP_FRAMES, .peer = peer};
    peer->bulk = (struct tt_tcp_socket){.fd = -1, .role = TT_TCP_BULK, .peer = peer};
    peer->dial_ns = TT_NEVER;
    peer->part = tt_pool_take(&peer->tcp->parts);
    TAILQ_INIT(&peer->gets);
    TAILQ_INIT(&peer->puts);
    STAILQ_INIT(&peer->streams);
}

tutti_status tt_tcp_begin(struct tt_session_peer *base, const void *address, bool begun)
{
    (void)address; /* it is the remote instance's */
    struct tt_tcp_peer *peer = of(base);
    if (peer->part == NULL) { /* the other side has not begun it: it would have been refused */
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_NO_MEMORY, "tcp: no memory for a connection");
    }
    if (begun) {
        return TUTTI_OK;
    }
    if (!is_lower(peer)) {
        peer->dial_ns = base->session->now_ns + TT_TCP_POLITE_NS;
        return TUTTI_OK;
    }
    int error = dial(peer, &peer->frames);
    if (error != 0) { /* the owner learns of it as of any other peer that cannot be reached */
        dial_failed(peer, &peer->frames, error);
    }
    return TUTTI_OK;
}

/* It is dialed when data is waited for, of which a lost segment would cost a round trip or two. */
void tt_tcp_dial_bulk(struct tt_tcp_peer *peer)
{
    enum { QUICK = 2 };
    uint64_t round_trip_ns;
    if (peer->wants_bulk || peer->bulk.fd >= 0 || peer->frames.stage != TT_TCP_OPEN) {
        return; /* who dials is known once the socket for frames is open */
    }
    peer->wants_bulk = true;
    if (!peer->dialer) {
        tt_tcp_post(peer, TT_TCP_WANT_BULK, NULL, 0);
        return;
    }
    round_trip_ns = tt_tcp_round_trip_ns(&peer->frames);
    peer->tries = 0;
    peer->quick = round_trip_ns > 0 && round_trip_ns <= TT_TCP_NEAR_NS ? QUICK : 0;
    int error = dial(peer, &peer->bulk);
    if (error != 0) {
        dial_failed(peer, &peer->bulk, error);
    }
}

/* A try that TCP has not answered in its time. */
static void dial_again(struct tt_tcp_peer *peer, struct tt_tcp_socket *socket, uint64_t now_ns)
{
    tt_tcp_close(peer->tcp, socket);
    if (!may_try(peer)) {
        fail(peer, socket,
             "connect to %s: no answer to %u tries in %u s (its host is not there, or a firewall drops TCP to it)",
             name_of(peer), peer->tries, (uint32_t)((now_ns - peer->begun_ns) / TT_NS_PER_S));
        return;
    }
    int error = dial(peer, socket);
    if (error != 0) {
        dial_failed(peer, socket, error);
    }
}

void tt_tcp_bulk_over(struct tt_tcp_peer *peer, int error)
{
    bool closed = error == 0 || error == ECONNRESET;
    (void)snprintf(peer->over_reason, sizeof(peer->over_reason), "%s: its socket for gets and puts%s%s", name_of(peer),
                   closed ? " was closed" : ": ", closed ? "" : strerror(error));
    peer->over_starved = false;
    wait_for_better(peer, &peer->bulk, TT_TCP_OVER_NS);
}

/* Returns when the socket wants to be looked at next. */
static uint64_t tend_socket(struct tt_tcp_peer *peer, struct tt_tcp_socket *socket, uint64_t now_ns)
{
    if (socket->stage == TT_TCP_DIALING && now_ns >= socket->due_ns) {
        dial_again(peer, socket, now_ns);
    } else if (socket->stage == TT_TCP_OVER && now_ns >= socket->due_ns) {
        if (peer->over_starved) {
            tt_session_starve(&peer->session, "%s", peer->over_reason);
        } else {
            tt_session_fail(&peer->session, "%s", peer->over_reason);
        }
    }
    return socket->stage == TT_TCP_DIALING || socket->stage == TT_TCP_OVER ? socket->due_ns : TT_NEVER;
}

uint64_t tt_tcp_tend_greeting(struct tt_session_peer *base, uint64_t now_ns)
{
    struct tt_tcp_peer *peer = of(base);
    if (base->broken) {
        return TT_NEVER;
    }
    struct tt_tcp_socket *socket = base->phase == TT_SESSION_GREETING ? &peer->frames : &peer->bulk;
    if (now_ns >= peer->dial_ns) {
        peer->dial_ns = TT_NEVER;
        int error = dial(peer, socket);
        if (error != 0) {
            dial_failed(peer, socket, error);
        }
    }
    uint64_t due_ns = tend_socket(peer, socket, now_ns);
    return due_ns < peer->dial_ns ? due_ns : peer->dial_ns;
}

/* --- What the dialed side answers --------------------------------------------------------------------------------- */

/* Closed without a word: others may have pushed this greeting out, or this side has not looked for so long that nobody
 * waits for it any more. Returns whether there is another try. */
static bool dial_later(struct tt_tcp_peer *peer, struct tt_tcp_socket *socket)
{
    if (socket->greeting_bytes > 0 || !may_try(peer)) {
        return false;
    }
    tt_tcp_close(peer->tcp, socket);
    peer->dial_ns = peer->tcp->session.now_ns + redial_ns(peer);
    tt_session_unsettle(&peer->session);
    return true;
}

static void connected(struct tt_tcp_peer *peer, struct tt_tcp_socket *socket)
{
    uint8_t bytes[TT_TCP_GREETING_BYTES];
    struct tt_tcp_greeting greeting = {.purpose = socket->role == TT_TCP_FRAMES ? TT_TCP_FOR_FRAMES : TT_TCP_FOR_BULK,
                                       .version = TT_TCP_VERSION,
                                       .serial = peer->session.serial};
    int error = 0;
    socklen_t length_bytes = sizeof(error);
    if (getsockopt(socket->fd, SOL_SOCKET, SO_ERROR, &error, &length_bytes) != 0) {
        error = errno;
    }
    if (error == 0) {
        memcpy(greeting.to, peer->session.remote->address, TT_TCP_ADDRESS_BYTES);
        memcpy(greeting.from, peer->tcp->session.address, TT_TCP_ADDRESS_BYTES);
        tt_tcp_greeting_encode(&greeting, bytes);
        socket->stage = TT_TCP_GREETED;
        if (send(socket->fd, bytes, sizeof(bytes), MSG_NOSIGNAL) != sizeof(bytes) ||
            !tt_tcp_watch(peer->tcp, socket, EPOLLIN)) {
            error = errno;
        }
    }
    if (error != 0) {
        if ((error != EPIPE && error != ECONNRESET) || !dial_later(peer, socket)) { /* else it was, and is over */
            dial_failed(peer, socket, error);
        }
        return;
    }
    tt_tcp_sent(peer, socket->role == TT_TCP_BULK);
}

static void take_answer(struct tt_tcp_peer *peer, struct tt_tcp_socket *socket)
{
    static const char *const refusals[TT_TCP_ANSWER_LIMIT] = {
        [TT_TCP_GONE] = "it has left",
        [TT_TCP_FOREIGN] = "its process has ended, and another one listens there",
        [TT_TCP_OTHER_VERSION] = "another version of tutti answers there",
        [TT_TCP_NO_ROOM] = "its process has no descriptor or memory left for a connection",
    };
    enum tt_tcp_answer answer;
    if (!tt_tcp_answer_decode(socket->greeting, &answer)) {
        fail(peer, socket, "%s: what answers there is not tutti", name_of(peer));
    } else if (answer == TT_TCP_WELCOME) {
        peer->dialer = true;
        open_socket(peer, socket);
    } else if (answer == TT_TCP_TWICE && socket->role == TT_TCP_FRAMES) { /* its own socket is on its way */
        tt_tcp_close(peer->tcp, socket);
        peer->tries = 0; /* who answers is there */
        peer->dial_ns = peer->tcp->session.now_ns + TT_TCP_TWICE_NS;
        tt_session_unsettle(&peer->session);
    } else {
        fail(peer, socket, "%s: %s", name_of(peer),
             answer == TT_TCP_TWICE ? "it mistakes bulk for frames" : refusals[answer]);
    }
}

/* Reads up to `length_bytes` of the other side's first bytes. Returns 1 when all are there, 0 if not yet, -1 when the
 * socket is over, with errno (0: closed), which a probe behind the greeting may have met before. */
static int read_first(struct tt_tcp_socket *socket, uint32_t length_bytes)
{
    ssize_t count = recv(socket->fd, socket->greeting + socket->greeting_bytes, length_bytes - socket->greeting_bytes,
                         MSG_DONTWAIT);
    if (count <= 0) {
        if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
            return 0;
        }
        errno = count == 0 ? socket->error : errno;
        return -1;
    }
    socket->greeting_bytes += (uint32_t)count;
    return socket->greeting_bytes == length_bytes;
}

static void read_answer(struct tt_tcp_peer *peer, struct tt_tcp_socket *socket)
{
    int result = read_first(socket, TT_TCP_ANSWER_BYTES);
    if (result > 0) {
        take_answer(peer, socket);
    } else if (result < 0 && ((errno != 0 && errno != ECONNRESET) || !dial_later(peer, socket))) {
        fail(peer, socket, "%s: %s while connecting", name_of(peer),
             errno == 0 ? "it closed the connection" : strerror(errno));
    }
}

/* --- Strangers ---------------------------------------------------------------------------------------------------- */

static void dismiss(struct tt_tcp *tcp, struct tt_tcp_socket *stranger)
{
    tt_tcp_close(tcp, stranger);
    TAILQ_REMOVE(&tcp->strangers, stranger, link);
    tcp->stranger_count--;
    TAILQ_INSERT_TAIL(&tcp->graves, stranger, link);
}

void tt_tcp_bury(struct tt_tcp *tcp)
{
    struct tt_tcp_socket *grave;
    while ((grave = TAILQ_FIRST(&tcp->graves)) != NULL) {
        TAILQ_REMOVE(&tcp->graves, grave, link);
        free(grave);
    }
}

static void answer(int fd, enum tt_tcp_answer what)
{
    uint8_t bytes[TT_TCP_ANSWER_BYTES];
    tt_tcp_answer_encode(what, bytes);
    (void)send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL | MSG_DONTWAIT); /* a fresh socket has room for it */
}

static void refuse(struct tt_tcp *tcp, struct tt_tcp_socket *stranger, enum tt_tcp_answer why)
{
    answer(stranger->fd, why);
    dismiss(tcp, stranger);
}

/* The stranger's descriptor becomes one of the peer's. */
static void adopt(struct tt_tcp *tcp, struct tt_tcp_socket *stranger, struct tt_tcp_peer *peer,
                  struct tt_tcp_socket *socket)
{
    int fd = stranger->fd;
    (void)tt_tcp_watch(tcp, stranger, 0);
    stranger->fd = -1;
    dismiss(tcp, stranger);
    tt_tcp_close(tcp, socket); /* a try of this side's */
    socket->fd = fd;
    peer->dialer = false;
    answer(fd, TT_TCP_WELCOME);
    open_socket(peer, socket);
    tt_tcp_sent(peer, socket->role == TT_TCP_BULK);
}

static void take_greeting(struct tt_tcp *tcp, struct tt_tcp_socket *stranger)
{
    struct tt_tcp_greeting greeting;
    if (!tt_tcp_greeting_decode(stranger->greeting, &greeting)) {
        tcp->session.counters.frames_dropped++;
        dismiss(tcp, stranger);
        return;
    }
    if (greeting.version != TT_TCP_VERSION) {
        refuse(tcp, stranger, TT_TCP_OTHER_VERSION);
        return;
    }
    if (memcmp(greeting.to, tcp->session.address, TT_TCP_ADDRESS_BYTES) != 0 ||
        memcmp(greeting.from, tcp->session.address, TT_TCP_ADDRESS_BYTES) == 0) {
        tcp->session.counters.frames_dropped++;
        refuse(tcp, stranger, TT_TCP_FOREIGN);
        return;
    }
    bool bulk = greeting.purpose == TT_TCP_FOR_BULK;
    struct tt_session_peer *base = bulk ? tt_session_find(&tcp->session, greeting.from, greeting.serial)
                                        : tt_session_greeted(&tcp->session, greeting.from, greeting.serial);
    struct tt_tcp_peer *peer = base != NULL ? of(base) : NULL;
    if (peer == NULL ||
        (bulk && (base->phase != TT_SESSION_OPEN || base->down || peer->dialer || peer->bulk.fd >= 0))) {
        refuse(tcp, stranger, TT_TCP_GONE);
    } else if (peer->part == NULL) { /* greeted() has just made it */
        tt_session_drop(base);
        refuse(tcp, stranger, TT_TCP_NO_ROOM);
        tcp->session.counters.refused++;
    } else if (!bulk && peer->frames.stage == TT_TCP_GREETED && is_lower(peer)) {
        refuse(tcp, stranger, TT_TCP_TWICE);
    } else {
        adopt(tcp, stranger, peer, bulk ? &peer->bulk : &peer->frames);
    }
}

/* What has come of its greeting; it may not be a stranger any more afterwards. */
static void listen_to(struct tt_tcp *tcp, struct tt_tcp_socket *stranger)
{
    int result = read_first(stranger, TT_TCP_GREETING_BYTES);
    if (result > 0) {
        take_greeting(tcp, stranger);
    } else if (result < 0) {
        dismiss(tcp, stranger);
    }
}

/* Mostly those who dial at the same time have greeted by the time that they are accepted, and none is pushed out
 * unheard. */
static void meet(struct tt_tcp *tcp, int fd)
{
    struct tt_tcp_socket *stranger = calloc(1, sizeof(*stranger));
    if (stranger == NULL) {
        answer(fd, TT_TCP_NO_ROOM);
        tt_socket_close(fd);
        tcp->session.counters.refused++;
        return;
    }
    tt_tcp_tune(tcp, fd);
    if (tcp->stranger_count == TT_TCP_STRANGERS_AT_ONCE) {
        listen_to(tcp, TAILQ_FIRST(&tcp->strangers));
    }
    if (tcp->stranger_count == TT_TCP_STRANGERS_AT_ONCE) {
        dismiss(tcp, TAILQ_FIRST(&tcp->strangers));
    }
    *stranger = (struct tt_tcp_socket){.fd = fd,
                                       .role = TT_TCP_STRANGER,
                                       .stage = TT_TCP_LISTENING,
                                       .due_ns = tcp->session.now_ns + TT_TCP_STRANGER_NS};
    TAILQ_INSERT_TAIL(&tcp->strangers, stranger, link);
    tcp->stranger_count++;
    if (!tt_tcp_watch(tcp, stranger, EPOLLIN)) {
        refuse(tcp, stranger, TT_TCP_NO_ROOM);
        tcp->session.counters.refused++;
        return;
    }
    listen_to(tcp, stranger);
}

/* There is no descriptor to accept with. The spare one serves to tell those who wait; then nobody is accepted for a
 * moment, since what waits to be accepted would wake this side all the time. */
static void refuse_all(struct tt_tcp *tcp)
{
    enum { AT_ONCE = 64 };
    if (tcp->spare >= 0) {
        close(tcp->spare);
        tcp->spare = -1;
        for (int i = 0; i < AT_ONCE; i++) {
            int fd = tt_socket_accept(tcp->listener.fd);
            if (fd < 0) {
                break;
            }
            TT_LOG(TT_PART_FABRIC, TT_LOG_WARN, "tcp: no descriptor is left to accept a connection with");
            answer(fd, TT_TCP_NO_ROOM);
            tt_socket_close(fd);
            tcp->session.counters.refused++;
        }
        tcp->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
    }
    (void)tt_tcp_watch(tcp, &tcp->listener, 0);
    tcp->deaf_ns = tcp->session.now_ns + TT_TCP_DEAF_NS;
}

void tt_tcp_accept(struct tt_tcp *tcp)
{
    enum { AT_ONCE = 64 };
    for (int i = 0; i < AT_ONCE; i++) {
        int fd = tt_socket_accept(tcp->listener.fd);
        if (fd >= 0) {
            meet(tcp, fd);
        } else if (tt_shortage_status(errno) != TUTTI_OK) {
            refuse_all(tcp);
            return;
        } else if (errno != ECONNABORTED && errno != EINTR) {
            return;
        }
    }
}

void tt_tcp_tend_strangers(struct tt_tcp *tcp)
{
    struct tt_tcp_socket *stranger;
    uint64_t now_ns = tcp->session.now_ns;
    while ((stranger = TAILQ_FIRST(&tcp->strangers)) != NULL && now_ns >= stranger->due_ns) {
        dismiss(tcp, stranger);
    }
    if (tcp->deaf_ns != 0 && now_ns >= tcp->deaf_ns) {
        if (tcp->spare < 0) { /* another thread was faster to have it */
            tcp->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
        }
        tcp->deaf_ns = tt_tcp_watch(tcp, &tcp->listener, EPOLLIN) ? 0 : now_ns + TT_TCP_DEAF_NS;
    }
}

void tt_tcp_greeting_ready(struct tt_tcp *tcp, struct tt_tcp_socket *socket, uint32_t events)
{
    if (socket->stage == TT_TCP_LISTENING) {
        listen_to(tcp, socket);
    } else if (socket->stage == TT_TCP_DIALING && (events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) != 0) {
        connected(socket->peer, socket);
    } else if (socket->stage == TT_TCP_GREETED) {
        read_answer(socket->peer, socket);
    }
}
