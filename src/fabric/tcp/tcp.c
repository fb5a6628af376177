/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An instance of the tcp transport: its progress, and its begin and end.
 *
 * Normal path: progress sends the bulk that is due, asks epoll which sockets are ready, reads messages into the arena
 * and bulk into place, and hands out what has come of it. Bulk that was asked for just now goes in the next progress,
 * unless there is nothing to hand out: what the caller says to that, as the reads that it asks for, would wait in the
 * host's queue behind all that bulk, and two ranks that read from each other would take turns on a link that has room
 * for both. Sleep is on the same epoll, which a timer wakes for what is due without a socket: greetings and goodbyes.
 *
 * Failures: those of a socket are its connection's. Creating one reports what is missing.
 */
#include "fabric/tcp/tcp.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/least.h"
#include "base/log.h"
#include "base/pages.h"
#include "base/shortage.h"
#include "fabric/tcp/instance.h"

/* How long the owner may stay away while something waits for room: the socket's descriptor tells who sleeps on it. */
#define ROOM_NS TT_NS_PER_S

enum { DEFAULT_PEER_TIMEOUT_S = 5, READY_AT_ONCE = 32, OPERATIONS_AT_ONCE = 64, STREAMS_AT_ONCE = 64 };

/* --- Connections -------------------------------------------------------------------------------------------------- */

static tutti_status connect_to(struct tt_p2p *p2p, const void *address, size_t length_bytes, uint64_t peer_cookie,
                               struct tt_p2p_peer **peer)
{
    struct tt_tcp *tcp = tt_tcp_of(p2p);
    struct tt_tcp_address read;
    char text[TT_TCP_TEXT_BYTES];
    if (!tt_tcp_address_decode(address, length_bytes, &read)) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_INVALID_ARGUMENT, "tcp: %zu bytes that are no address", length_bytes);
    }
    if (read.family != tcp->address.family) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_INVALID_ARGUMENT,
                        "tcp: %s is not of this side's family of addresses, IPv%u",
                        tt_tcp_address_format(address, text), tcp->address.family);
    }
    return tt_session_connect(&tcp->session, address, peer_cookie, peer);
}

static bool farewell(struct tt_session_peer *base, bool heard)
{
    tt_tcp_post((struct tt_tcp_peer *)base, heard ? TT_TCP_BYE_HEARD : TT_TCP_BYE, NULL, 0);
    return true;
}

static bool is_flushed(struct tt_session_peer *base, bool received)
{
    const struct tt_tcp_peer *peer = (const struct tt_tcp_peer *)base;
    return peer->out.begin == peer->out.end && (!received || tt_tcp_unreceived(&peer->frames) == 0);
}

static uint64_t close_peer(struct tt_session_peer *base, uint64_t now_ns)
{
    (void)now_ns;
    struct tt_tcp_peer *peer = (struct tt_tcp_peer *)base;
    tt_tcp_close(peer->tcp, &peer->frames);
    tt_tcp_close(peer->tcp, &peer->bulk);
    tt_tail_forget(&peer->tcp->tails, &peer->tail);
    tt_tcp_frames_end(peer);
    return TT_NEVER;
}

static void fini_peer(struct tt_session_peer *base)
{
    struct tt_tcp_peer *peer = (struct tt_tcp_peer *)base;
    if (peer->tcp->rest.peer == peer) {
        peer->tcp->rest = (struct tt_tcp_rest){0}; /* who has disconnected does not wait for frames */
    }
    if (peer->part != NULL) {
        tt_pool_give(&peer->tcp->parts, peer->part);
    }
    free(peer);
}

static const struct tt_session_ops session_ops = {
    .peer_bytes = sizeof(struct tt_tcp_peer),
    .identity_bytes = TT_TCP_ADDRESS_BYTES,
    .frame_bytes = TT_P2P_MAX_FRAME_BYTES,
    .init = tt_tcp_init,
    .begin = tt_tcp_begin,
    .send = tt_tcp_send,
    .farewell = farewell,
    .is_flushed = is_flushed,
    .cancel = tt_tcp_cancel,
    .tend = tt_tcp_tend_greeting,
    .close = close_peer,
    .fini = fini_peer,
    .told = tt_tcp_told,
};

/* --- Progress ----------------------------------------------------------------------------------------------------- */

static bool has_rest(const struct tt_tcp *tcp)
{
    return tcp->rest.at != tcp->rest.end;
}

static void timer_fired(struct tt_tcp *tcp)
{
    uint64_t times;
    (void)!read(tcp->timer.fd, &times, sizeof(times));
    tcp->timer_ns = TT_NEVER;
}

/* A socket that is open: what has come on it, and room for what waits. */
static uint32_t open_ready(struct tt_tcp *tcp, struct tt_tcp_socket *socket, uint32_t ready,
                           struct tt_p2p_event *events, uint32_t max)
{
    struct tt_tcp_peer *peer = socket->peer;
    if ((ready & EPOLLOUT) != 0 && socket->role == TT_TCP_FRAMES) {
        tt_tcp_flush(peer);
    } else if ((ready & EPOLLOUT) != 0) {
        tt_tcp_peer_due(peer);
    }
    if ((ready & ~(uint32_t)EPOLLOUT) == 0) {
        return 0;
    }
    if (socket->role == TT_TCP_BULK) {
        tt_tcp_receive_bulk(peer);
        return 0;
    }
    tt_tcp_receive(peer);
    return tt_tcp_read_rest(tcp, events, max);
}

/* `ready` was true when epoll was asked; the socket may have been closed since. */
static uint32_t socket_ready(struct tt_tcp *tcp, struct tt_tcp_socket *socket, uint32_t ready,
                             struct tt_p2p_event *events, uint32_t max)
{
    if (socket->fd < 0) {
        return 0;
    }
    if (socket->role == TT_TCP_LISTENER) {
        tt_tcp_accept(tcp);
    } else if (socket->role == TT_TCP_TIMER) {
        timer_fired(tcp);
    } else if (socket->stage == TT_TCP_OPEN) {
        return open_ready(tcp, socket, ready, events, max);
    } else {
        tt_tcp_greeting_ready(tcp, socket, ready);
    }
    return 0;
}

/* The process has closed descriptors that are not its own, with closefrom() for instance, and goes on, perhaps with
 * files of its own under their numbers: nothing would come any more, and the others would be taken for silent. */
static void fail_all(struct tt_tcp *tcp, int error)
{
    struct tt_session_peer *peer;
    TAILQ_FOREACH(peer, &tcp->session.peers, link)
    {
        if (!peer->broken) {
            tt_session_starve(peer, "epoll_wait here: %s (this process has closed the library's descriptors)",
                              strerror(error));
        }
    }
}

/* What epoll says is ready; stops when there is no room for more frames. */
static uint32_t look(struct tt_tcp *tcp, struct tt_p2p_event *events, uint32_t max, bool *moved)
{
    struct epoll_event ready[READY_AT_ONCE];
    uint32_t count = 0;
    int ready_count = epoll_wait(tcp->epoll, ready, READY_AT_ONCE, 0);
    if (ready_count < 0 && errno != EINTR) {
        fail_all(tcp, errno);
    }
    uint32_t first =
        ready_count < READY_AT_ONCE ? tcp->turn : 0; /* of more than those epoll changes the order itself */
    int seen = 0;
    for (; seen < ready_count && count < max && !has_rest(tcp); seen++) {
        const struct epoll_event *next = &ready[(first + (uint32_t)seen) % (uint32_t)ready_count];
        if (TT_TCP_ARENA_BYTES - tcp->arena_bytes < TT_TCP_GULP_BYTES) {
            break;
        }
        count += socket_ready(tcp, next->data.ptr, next->events, events + count, max - count);
    }
    tcp->turn += (uint32_t)seen;
    *moved = *moved || ready_count > 0;
    return count;
}

/* TCP's keepalive does not ask while something is under way, and what is under way to nobody is repeated for minutes.
 */
static void look_for_the_silent(struct tt_tcp *tcp)
{
    struct tt_session_peer *peer;
    bool waits = false;
    TAILQ_FOREACH(peer, &tcp->session.peers, link)
    {
        waits |= !peer->broken && tt_tcp_look_whether_silent((struct tt_tcp_peer *)peer);
    }
    tcp->watch_ns = waits ? tcp->session.now_ns + TT_TCP_WATCH_NS : TT_NEVER;
}

static uint32_t progress(struct tt_p2p *p2p, struct tt_p2p_event *events, uint32_t max)
{
    struct tt_tcp *tcp = tt_tcp_of(p2p);
    /* Frames of one that sends without end leave room for what else is to be told, and are not read while somebody is
     * down, which is told behind what has been read. */
    uint32_t count = 0, room = tt_session_has_events(&tcp->session) ? (max + 1) / 2 : max;
    tcp->session.now_ns = tt_clock_now_ns();
    tt_tcp_flush_batch(p2p);
    bool moved = tt_tcp_send_due(tcp);
    if (has_rest(tcp)) {
        count = tt_tcp_read_rest(tcp, events, room);
    } else {
        tcp->arena_bytes = 0;
    }
    if (count < room && !has_rest(tcp) && TAILQ_EMPTY(&tcp->session.down_peers)) {
        count += look(tcp, events + count, room - count, &moved);
    }
    if (count == 0 && !tt_session_has_events(&tcp->session)) {
        moved = tt_tcp_send_due(tcp) || moved;
    }
    if (tcp->watch_ns <= tcp->session.now_ns) {
        look_for_the_silent(tcp);
    }
    tt_tcp_bury(tcp);
    tt_tcp_tend_strangers(tcp);
    tt_session_tend(&tcp->session);
    tcp->session.counters.wakeups += moved && tcp->armed;
    tcp->armed = false;
    return count + tt_session_take(&tcp->session, has_rest(tcp), events + count, max - count);
}

static uint64_t tend(struct tt_p2p *p2p, uint64_t now_ns)
{
    struct tt_tcp *tcp = tt_tcp_of(p2p);
    struct tt_tail *tail;
    while ((tail = tt_tails_due(&tcp->tails, now_ns)) != NULL) {
        tt_tcp_probe((struct tt_tcp_peer *)((char *)tail - offsetof(struct tt_tcp_peer, tail)), now_ns);
    }
    uint64_t due_ns = tt_least(tt_tails_due_ns(&tcp->tails), tt_session_opening_ns(&tcp->session, now_ns));
    bool waits = tcp->blocked_count > 0 || tcp->streams.used_count > 0;
    return waits ? tt_least(due_ns, now_ns + ROOM_NS) : due_ns;
}

/* --- Waiting ------------------------------------------------------------------------------------------------------ */

static uint64_t due_ns(const struct tt_tcp *tcp)
{
    const struct tt_tcp_socket *stranger = TAILQ_FIRST(&tcp->strangers);
    uint64_t due_ns = tcp->session.due_ns;
    if (stranger != NULL && stranger->due_ns < due_ns) {
        due_ns = stranger->due_ns;
    }
    due_ns = tcp->deaf_ns != 0 ? tt_least(tcp->deaf_ns, due_ns) : due_ns;
    return tt_least(tcp->watch_ns, due_ns);
}

static bool set_timer(struct tt_tcp *tcp)
{
    uint64_t wake_ns = due_ns(tcp);
    struct itimerspec when = {.it_value = tt_clock_timespec(wake_ns == TT_NEVER ? 0 : wake_ns)};
    if (wake_ns == tcp->timer_ns || (wake_ns > tcp->timer_ns && tcp->timer_ns > tcp->session.now_ns)) {
        return true; /* an earlier wake-up does no harm */
    }
    if (timerfd_settime(tcp->timer.fd, TFD_TIMER_ABSTIME, &when, NULL) != 0) {
        return false;
    }
    tcp->timer_ns = wake_ns;
    return true;
}

/* epoll says again what it has said: what has come to a socket by now ends the sleep at once. */
static bool arm(struct tt_p2p *p2p)
{
    struct tt_tcp *tcp = tt_tcp_of(p2p);
    tt_tcp_flush_batch(p2p);
    if (has_rest(tcp) || tt_session_has_events(&tcp->session) || !TAILQ_EMPTY(&tcp->due) ||
        due_ns(tcp) <= tcp->session.now_ns || !set_timer(tcp)) {
        return false;
    }
    tcp->armed = true;
    return true;
}

static int get_fd(struct tt_p2p *p2p)
{
    return tt_tcp_of(p2p)->epoll;
}

static void wait_for(struct tt_session *session, uint32_t timeout_ms)
{
    struct pollfd ready = {.fd = ((struct tt_tcp *)session)->epoll, .events = POLLIN};
    (void)poll(&ready, 1, (int)timeout_ms);
}

/* --- Begin and end ------------------------------------------------------------------------------------------------ */

static void close_instance(struct tt_tcp *tcp)
{
    while (!TAILQ_EMPTY(&tcp->strangers)) {
        struct tt_tcp_socket *stranger = TAILQ_FIRST(&tcp->strangers);
        TAILQ_REMOVE(&tcp->strangers, stranger, link);
        tt_tcp_close(tcp, stranger);
        free(stranger);
    }
    tt_tcp_bury(tcp);
    tt_tcp_close(tcp, &tcp->listener);
    if (tcp->timer.fd >= 0) {
        close(tcp->timer.fd);
    }
    if (tcp->spare >= 0) {
        close(tcp->spare);
    }
    if (tcp->epoll >= 0) {
        close(tcp->epoll);
    }
    tt_pool_fini(&tcp->operations);
    tt_pool_fini(&tcp->streams);
    tt_pool_fini(&tcp->parts);
    tt_registry_fini(&tcp->memories);
    free(tcp->arena);
    free(tcp->waste);
    free(tcp->spare_queue.bytes);
    free(tcp);
}

static void destroy(struct tt_p2p *p2p)
{
    struct tt_tcp *tcp = tt_tcp_of(p2p);
    tt_session_drain(&tcp->session, wait_for);
    tt_session_fini(&tcp->session);
    close_instance(tcp);
}

static void expect_loss(struct tt_p2p *p2p)
{
    struct tt_tcp *tcp = tt_tcp_of(p2p);
    if (tt_tails_lost(&tcp->tails, tcp->session.now_ns)) {
        TT_LOG(TT_PART_FABRIC, TT_LOG_DEBUG, "tcp: multicast loses datagrams: probes go out sooner for a while");
    }
}

static const struct tt_p2p_ops ops = {
    .name = "tcp",
    .address = tt_session_address,
    .connect = connect_to,
    .disconnect = tt_session_disconnect,
    .send = tt_session_send,
    .flush = tt_tcp_flush_batch,
    .expect_loss = expect_loss,
    .memory_register = tt_tcp_memory_register,
    .memory_release = tt_tcp_memory_release,
    .memory_pack = tt_tcp_memory_pack,
    .get = tt_tcp_get,
    .put = tt_tcp_put,
    .progress = progress,
    .tend = tend,
    .fd = get_fd,
    .arm = arm,
    .counters = tt_session_counters,
    .destroy = destroy,
};

static tutti_status init_memory(struct tt_tcp *tcp)
{
    tcp->arena = tt_pages_allocate(TT_TCP_ARENA_BYTES);
    tcp->waste = tt_pages_allocate(TT_TCP_SCRATCH_BYTES);
    tcp->spare_queue =
        (struct tt_tcp_queue){.bytes = tt_pages_allocate(TT_TCP_QUEUE_BYTES), .capacity = TT_TCP_QUEUE_BYTES};
    if (tcp->arena == NULL || tcp->waste == NULL || tcp->spare_queue.bytes == NULL ||
        tt_pool_init(&tcp->operations, sizeof(struct tt_tcp_operation), OPERATIONS_AT_ONCE) != TUTTI_OK ||
        tt_pool_init(&tcp->streams, sizeof(struct tt_tcp_stream), STREAMS_AT_ONCE) != TUTTI_OK ||
        tt_pool_init(&tcp->parts, sizeof(struct tt_tcp_part), 1) != TUTTI_OK) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_NO_MEMORY, "tcp: no memory for an instance");
    }
    return TUTTI_OK;
}

static tutti_status init_descriptors(struct tt_tcp *tcp)
{
    tcp->epoll = epoll_create1(EPOLL_CLOEXEC);
    tcp->timer.fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    tcp->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (tcp->epoll < 0 || tcp->timer.fd < 0 || !tt_tcp_watch(tcp, &tcp->timer, EPOLLIN)) {
        char why[TT_SHORTAGE_TEXT_BYTES];
        return tt_error(TT_PART_FABRIC, tt_shortage_status_or(errno, TUTTI_ERR_IO),
                        "tcp: descriptors for an instance: %s", tt_shortage_text(errno, why));
    }
    return TUTTI_OK;
}

static tutti_status init(struct tt_tcp *tcp, const struct tt_tcp_options *options)
{
    uint8_t address[TT_TCP_ADDRESS_BYTES];
    tutti_status status = init_memory(tcp);
    if (status == TUTTI_OK) {
        status = init_descriptors(tcp);
    }
    if (status == TUTTI_OK && getrandom(&tcp->address.instance, 5, 0) != 5) {
        status = tt_error(TT_PART_FABRIC, TUTTI_ERR_IO, "tcp: no random number for the instance");
    }
    if (status == TUTTI_OK) {
        status = tt_tcp_listen(tcp, options->address != NULL ? options->address : "127.0.0.1", options->first_port,
                               options->last_port);
    }
    if (status == TUTTI_OK) {
        tt_tcp_address_encode(&tcp->address, address);
        tt_session_init(&tcp->session, &ops, &session_ops, address, sizeof(address));
        tcp->session.base.aligns = true;
    }
    return status;
}

tutti_status tt_tcp_create(const struct tt_tcp_options *options, struct tt_p2p **p2p)
{
    static const struct tt_tcp_options defaults = {0};
    struct tt_tcp *tcp = calloc(1, sizeof(*tcp));
    if (tcp == NULL) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_NO_MEMORY, "tcp: no memory for an instance");
    }
    if (options == NULL) {
        options = &defaults;
    }
    tcp->epoll = tcp->spare = -1;
    tcp->listener = (struct tt_tcp_socket){.fd = -1, .role = TT_TCP_LISTENER};
    tcp->timer = (struct tt_tcp_socket){.fd = -1, .role = TT_TCP_TIMER};
    tcp->timer_ns = tcp->watch_ns = TT_NEVER;
    tcp->scope = options->scope;
    tcp->lossless = options->lossless;
    tcp->traffic_class = options->traffic_class;
    tcp->peer_timeout_s = options->peer_timeout_s != 0 ? options->peer_timeout_s : DEFAULT_PEER_TIMEOUT_S;
    TAILQ_INIT(&tcp->strangers);
    TAILQ_INIT(&tcp->graves);
    TAILQ_INIT(&tcp->due);
    TAILQ_INIT(&tcp->batched);
    tt_tails_init(&tcp->tails, true);
    tutti_status status = init(tcp, options);
    if (status != TUTTI_OK) {
        close_instance(tcp);
        return status;
    }
    *p2p = &tcp->session.base;
    return TUTTI_OK;
}
