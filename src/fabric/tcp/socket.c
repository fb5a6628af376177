/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sockets of the tcp transport: all non-blocking and closed on exec, all watched by one epoll.
 *
 * Normal path: an instance listens on the first free port of its range, at its own address; who dials does so from its
 * own address, so that both directions use the interface that the instance was made for.
 *
 * Failures: what the system says is said to the caller, with the address.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/log.h"
#include "base/shortage.h"
#include "base/socket.h"
#include "fabric/tcp/instance.h"

/* Since Linux 6.15; this system's headers may be older than it is. */
#ifndef TCP_RTO_MIN_US
#define TCP_RTO_MIN_US 45
#endif
#ifndef TCP_DELACK_MAX_US
#define TCP_DELACK_MAX_US 46
#endif

union socket_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

const char *tt_tcp_address_format(const uint8_t address[TT_TCP_ADDRESS_BYTES], char text[TT_TCP_TEXT_BYTES])
{
    struct tt_tcp_address read;
    char ip[INET6_ADDRSTRLEN] = "?";
    if (tt_tcp_address_decode(address, TT_TCP_ADDRESS_BYTES, &read)) {
        (void)inet_ntop(read.family == 4 ? AF_INET : AF_INET6, read.ip, ip, sizeof(ip));
        (void)snprintf(text, TT_TCP_TEXT_BYTES, read.family == 4 ? "%s:%u" : "[%s]:%u", ip, read.port);
    } else {
        (void)snprintf(text, TT_TCP_TEXT_BYTES, "?");
    }
    return text;
}

/* Returns its length. */
static socklen_t to_system(const struct tt_tcp_address *address, uint16_t port, uint32_t scope,
                           union socket_address *system)
{
    memset(system, 0, sizeof(*system));
    if (address->family == 4) {
        system->v4.sin_family = AF_INET;
        system->v4.sin_port = htons(port);
        memcpy(&system->v4.sin_addr, address->ip, 4);
        return sizeof(system->v4);
    }
    system->v6.sin6_family = AF_INET6;
    system->v6.sin6_port = htons(port);
    memcpy(&system->v6.sin6_addr, address->ip, 16);
    if (IN6_IS_ADDR_LINKLOCAL(&system->v6.sin6_addr)) {
        system->v6.sin6_scope_id = scope;
    }
    return sizeof(system->v6);
}

/* Connections of earlier ranks stay in TIME_WAIT at their ports for a minute, those that were dialed too: without
 * SO_REUSEADDR at both, a launch of 1,000 ranks leaves none of TUTTI_PORTS to the next one. */
static int open_socket(const struct tt_tcp_address *address)
{
    const int yes = 1;
    int fd = tt_socket_open(address->family == 4 ? AF_INET : AF_INET6, SOCK_STREAM);
    if (fd >= 0) {
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    }
    return fd;
}

void tt_tcp_tune(const struct tt_tcp *tcp, int fd)
{
    /* A segment that is lost again when it is repeated waits for a time-out, for which 200 ms are the least elsewhere;
     * acknowledgments come before it. */
    enum { REPEAT_US = 5000, ACKNOWLEDGE_US = 1000, PROBES = 3, PARTS = PROBES + 2 };
    /* Two fifths of the time without a word, and three probes; in the full seconds that TCP has for each. */
    const int total_s = (int)tcp->peer_timeout_s;
    const int interval_s = total_s >= PARTS ? total_s / PARTS : 1;
    const int probes = total_s > PROBES ? PROBES : total_s - 1;
    const struct {
        int level, name, value;
    } options[] = {{IPPROTO_TCP, TCP_NODELAY, 1},
                   {IPPROTO_TCP, TCP_RTO_MIN_US, REPEAT_US},
                   {IPPROTO_TCP, TCP_DELACK_MAX_US, ACKNOWLEDGE_US},
                   {SOL_SOCKET, SO_KEEPALIVE, 1},
                   {IPPROTO_TCP, TCP_KEEPIDLE, total_s - probes * interval_s},
                   {IPPROTO_TCP, TCP_KEEPINTVL, interval_s},
                   {IPPROTO_TCP, TCP_KEEPCNT, probes}};
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        (void)setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof(options[i].value));
    }
    if (tcp->traffic_class != 0) {
        const int class = (int)tcp->traffic_class;
        (void)setsockopt(fd, tcp->address.family == 4 ? IPPROTO_IP : IPPROTO_IPV6,
                         tcp->address.family == 4 ? IP_TOS : IPV6_TCLASS, &class, sizeof(class));
    }
}

void tt_tcp_size_writes(struct tt_tcp_peer *peer)
{
    enum { PART_BYTES = 36 * 1024, WHOLE_BYTES = 64 * 1024 - 512 /* the system's limit, less all headers */ };
    int segment_bytes = 0;
    socklen_t length = sizeof(segment_bytes);

    peer->part_bytes = peer->whole_bytes = TT_TCP_BURST_BYTES;
    if (getsockopt(peer->bulk.fd, IPPROTO_TCP, TCP_MAXSEG, &segment_bytes, &length) == 0 && segment_bytes >= 1 &&
        segment_bytes <= PART_BYTES / 2) {
        peer->part_bytes = (uint32_t)(PART_BYTES / segment_bytes * segment_bytes);
        peer->whole_bytes = (uint32_t)(WHOLE_BYTES / segment_bytes * segment_bytes);
    }
}

/* --- Listening ---------------------------------------------------------------------------------------------------- */

/* Returns 0, or the system's error. */
static int listen_at(int fd, const struct tt_tcp_address *address, uint16_t port, uint32_t scope)
{
    union socket_address system;
    socklen_t length_bytes = to_system(address, port, scope, &system);
    return bind(fd, &system.any, length_bytes) == 0 && listen(fd, SOMAXCONN) == 0 ? 0 : errno;
}

static uint16_t port_of(int fd)
{
    union socket_address system;
    socklen_t length_bytes = sizeof(system);
    memset(&system, 0, sizeof(system));
    if (getsockname(fd, &system.any, &length_bytes) != 0) {
        return 0;
    }
    return ntohs(system.any.sa_family == AF_INET ? system.v4.sin_port : system.v6.sin6_port);
}

static tutti_status parse(const char *text, struct tt_tcp_address *address)
{
    if (inet_pton(AF_INET, text, address->ip) == 1) {
        address->family = 4;
        return TUTTI_OK;
    }
    if (inet_pton(AF_INET6, text, address->ip) == 1) {
        address->family = 6;
        return TUTTI_OK;
    }
    return tt_error(TT_PART_FABRIC, TUTTI_ERR_INVALID_ARGUMENT, "tcp: '%s' is no IPv4 or IPv6 address", text);
}

/* Many ranks of a host listen on one range, so each begins somewhere else in it. A socket whose listen found its port
 * taken in the last moment cannot be bound again: each try has a new one. */
static tutti_status try_ports(struct tt_tcp *tcp, const char *text, uint16_t first_port, uint16_t last_port)
{
    uint32_t count = (uint32_t)last_port - first_port + 1;
    uint32_t begin = (uint32_t)(tcp->address.instance % count);
    int error = EADDRINUSE;
    for (uint32_t i = 0; i < count && error == EADDRINUSE; i++) {
        uint32_t port = first_port + (begin + i) % count;
        int fd = open_socket(&tcp->address);
        if (fd < 0) {
            error = errno;
            break;
        }
        tt_tcp_tune(tcp, fd); /* what answers a connection inherits the traffic class */
        error = listen_at(fd, &tcp->address, (uint16_t)port, tcp->scope);
        if (error == 0) {
            tcp->listener.fd = fd;
            tcp->address.port = port_of(fd);
            return TUTTI_OK;
        }
        tt_socket_close(fd);
    }
    if (error == EADDRINUSE) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_IN_USE,
                        "tcp: none of the TCP ports %u to %u of %s is free (TUTTI_PORTS)", first_port, last_port, text);
    }
    char why[TT_SHORTAGE_TEXT_BYTES];
    return tt_error(TT_PART_FABRIC, tt_shortage_status_or(error, TUTTI_ERR_IO), "tcp: listen at %s, ports %u to %u: %s",
                    text, first_port, last_port, tt_shortage_text(error, why));
}

tutti_status tt_tcp_listen(struct tt_tcp *tcp, const char *address, uint16_t first_port, uint16_t last_port)
{
    tutti_status status = parse(address, &tcp->address);
    if (status == TUTTI_OK) {
        status = try_ports(tcp, address, first_port, last_port);
    }
    if (status == TUTTI_OK && !tt_tcp_watch(tcp, &tcp->listener, EPOLLIN)) {
        char why[TT_SHORTAGE_TEXT_BYTES];
        status = tt_error(TT_PART_FABRIC, tt_shortage_status_or(errno, TUTTI_ERR_IO), "tcp: watch a socket: %s",
                          tt_shortage_text(errno, why));
    }
    return status;
}

/* --- Dialing ------------------------------------------------------------------------------------------------------ */

int tt_tcp_call(const struct tt_tcp_peer *peer)
{
    const struct tt_tcp *tcp = peer->tcp;
    struct tt_tcp_address to;
    union socket_address system;
    const int yes = 1;
    if (!tt_tcp_address_decode(peer->session.remote->address, TT_TCP_ADDRESS_BYTES, &to)) {
        errno = EINVAL;
        return -1;
    }
    int fd = open_socket(&to);
    if (fd < 0) {
        return -1;
    }
    tt_tcp_tune(tcp, fd);
    (void)setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &yes, sizeof(yes));
    socklen_t length_bytes = to_system(&tcp->address, 0, tcp->scope, &system);
    if (to.family != tcp->address.family || bind(fd, &system.any, length_bytes) == 0) {
        length_bytes = to_system(&to, to.port, tcp->scope, &system);
        if (connect(fd, &system.any, length_bytes) == 0 || errno == EINPROGRESS) {
            return fd;
        }
    }
    tt_socket_close(fd);
    return -1;
}

/* --- Any socket --------------------------------------------------------------------------------------------------- */

bool tt_tcp_watch(struct tt_tcp *tcp, struct tt_tcp_socket *socket, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = socket};
    if (socket->watched == events) {
        return true;
    }
    int operation = socket->watched == 0 ? EPOLL_CTL_ADD : events == 0 ? EPOLL_CTL_DEL : EPOLL_CTL_MOD;
    if (epoll_ctl(tcp->epoll, operation, socket->fd, &event) != 0) {
        return false;
    }
    socket->watched = events;
    return true;
}

void tt_tcp_close(struct tt_tcp *tcp, struct tt_tcp_socket *socket)
{
    if (socket->fd >= 0) {
        (void)tt_tcp_watch(tcp, socket, 0); /* closing is not enough while a child of vfork() has it too */
        tt_socket_close(socket->fd);
    }
    socket->fd = -1;
    socket->watched = 0;
    socket->stage = TT_TCP_CLOSED;
    socket->greeting_bytes = 0;
    socket->lost = 0;
    socket->error = 0;
}

bool tt_tcp_note_error(struct tt_tcp_socket *socket)
{
    if (errno == EAGAIN || errno == EINTR || errno == ENOBUFS || errno == ENOMEM) {
        return false;
    }
    socket->error = errno == EPIPE ? socket->error : (uint16_t)errno; /* EPIPE: after it has been said */
    return true;
}

uint32_t tt_tcp_unreceived(const struct tt_tcp_socket *socket)
{
    int bytes = 0;
    return socket->fd >= 0 && ioctl(socket->fd, SIOCOUTQ, &bytes) == 0 && bytes > 0 ? (uint32_t)bytes : 0;
}
