/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: what is below both sides of the bootstrap: failures and deadlines, and sockets: addresses, listening,
 * connecting, and frames that move in pieces.
 *
 * Normal path: everything is non-blocking; a channel remembers how far its frame has come, so that its owner can wait
 * for many at once. Payloads move straight between the socket and the caller's buffers.
 *
 * Failures: an address that is malformed or taken is an error here, since here its text is known. A connection that
 * breaks is told to the caller, who knows whose it was.
 */
#include "engine/bootstrap_private.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/socket.h"

/* Of newer systems than these headers: how soon TCP repeats what was not acknowledged, at the least. */
#ifndef TCP_RTO_MIN_US
#define TCP_RTO_MIN_US 45
#endif

enum { REPEAT_US = 20000 };

/* Where some link takes small packets only, and says nothing about the larger ones, the ranks still find each other,
 * and what is wrong can be told. */
enum { SEGMENT_BYTES = 1200 };

/* --- What both sides say, and how long they wait ------------------------------------------------------------------ */

bool tt_bootstrap_is_late(int timeout_ms, uint32_t missing, uint32_t *least)
{
    bool late = timeout_ms == 0 && missing >= *least;
    *least = timeout_ms == 0 ? missing : UINT32_MAX;
    return late;
}

int tt_bootstrap_poll_ms(uint64_t deadline_ns)
{
    uint64_t now_ns = tt_clock_now_ns();
    if (now_ns >= deadline_ns) {
        return 0;
    }
    uint64_t wait_ms = (deadline_ns - now_ns + TT_NS_PER_MS - 1) / TT_NS_PER_MS;
    return wait_ms > INT_MAX ? INT_MAX : (int)wait_ms;
}

const char *tt_bootstrap_name(uint32_t rank, char text[TT_BOOTSTRAP_NAME_BYTES])
{
    snprintf(text, TT_BOOTSTRAP_NAME_BYTES, rank == TT_HELLO_NO_RANK ? "a process without a rank" : "rank %u", rank);
    return text;
}

tutti_status tt_bootstrap_fail(struct tt_bootstrap *bootstrap, tutti_status status, int failed_rank, const char *format,
                               ...)
{
    va_list arguments;
    assert(status != TUTTI_OK);
    assert(bootstrap->failure == TUTTI_OK); /* the first one is kept */
    va_start(arguments, format);
    vsnprintf(bootstrap->failure_text, sizeof(bootstrap->failure_text), format, arguments);
    va_end(arguments);
    bootstrap->failure = status;
    bootstrap->failed_rank = failed_rank;
    return tt_error(TT_PART_ENGINE, status, "%s", bootstrap->failure_text);
}

/* --- Addresses ---------------------------------------------------------------------------------------------------- */

static tutti_status refuse_root(const char *text, const char *reason)
{
    return tt_error(TT_PART_ENGINE, TUTTI_ERR_INVALID_ARGUMENT, "TUTTI_ROOT=%s: %s", text, reason);
}

tutti_status tt_bootstrap_parse_root(const char *text, char host[TT_BOOTSTRAP_HOST_BYTES], uint16_t *port)
{
    const char *start = text;
    const char *end;
    uint16_t last;

    if (*text == '[') {
        start++;
        end = strchr(start, ']');
        if (end == NULL || end[1] != ':') {
            return refuse_root(text, "an address in brackets must end in ']:' and a port");
        }
    } else {
        end = strchr(start, ':');
        if (end == NULL) {
            return refuse_root(text, "not host:port");
        }
        if (strchr(end + 1, ':') != NULL) {
            return refuse_root(text, "not host:port (an IPv6 address needs brackets)");
        }
    }
    size_t length = (size_t)(end - start);
    if (length == 0) {
        return refuse_root(text, "the host is missing");
    }
    if (length >= TT_BOOTSTRAP_HOST_BYTES || strcspn(start, " \t\r\n/") < length) {
        return refuse_root(text, "that is no host name");
    }
    const char *digits = end + (*end == ']' ? 2 : 1);
    if (strchr(digits, '-') != NULL || tt_parse_ports(digits, port, &last) != TUTTI_OK) {
        return refuse_root(text, "the port must be a number from 1 to 65535");
    }
    assert(*port > 0);
    memcpy(host, start, length);
    host[length] = '\0';
    return TUTTI_OK;
}

void tt_bootstrap_tune(const struct tt_bootstrap *bootstrap, int fd)
{
    static const int on = 1, repeat_us = REPEAT_US;
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(fd, IPPROTO_TCP, TCP_RTO_MIN_US, &repeat_us, sizeof(repeat_us)); /* where there is that */
    if (bootstrap->traffic_class != 0) { /* by either name, of which a socket of IPv6 may need both */
        setsockopt(fd, IPPROTO_IP, IP_TOS, &bootstrap->traffic_class, sizeof(bootstrap->traffic_class));
        setsockopt(fd, IPPROTO_IPV6, IPV6_TCLASS, &bootstrap->traffic_class, sizeof(bootstrap->traffic_class));
    }
}

/* A name server is asked in the resolver's own time, which its configuration bounds; addresses are not looked up. */
static int resolve(const struct tt_bootstrap *bootstrap, const char *host, int flags, struct addrinfo **addresses)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = flags | AI_NUMERICSERV};
    char port[8];
    snprintf(port, sizeof(port), "%u", bootstrap->port);
    return getaddrinfo(host, port, &hints, addresses);
}

static const char *resolve_error_text(int error)
{
    return error == EAI_SYSTEM ? strerror(errno) : gai_strerror(error);
}

/* As numbers; "" if there are none for it. */
static void write_address(const struct addrinfo *address, char text[TT_BOOTSTRAP_ADDRESS_BYTES])
{
    if (getnameinfo(address->ai_addr, address->ai_addrlen, text, TT_BOOTSTRAP_ADDRESS_BYTES, NULL, 0, NI_NUMERICHOST) !=
        0) {
        text[0] = '\0';
    }
}

const char *tt_bootstrap_describe_address(const struct tt_bootstrap *bootstrap, const char *address,
                                          char text[TT_BOOTSTRAP_ADDRESS_BYTES + 3])
{
    text[0] = '\0';
    if (address[0] != '\0' && strstr(bootstrap->host, address) == NULL) {
        snprintf(text, TT_BOOTSTRAP_ADDRESS_BYTES + 3, " (%s)", address);
    }
    return text;
}

static tutti_status adopt_listener(struct tt_bootstrap *bootstrap, int fd)
{
    int listens = 0;
    socklen_t length = sizeof(listens);
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) != 0) {
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_INVALID_ARGUMENT, "TUTTI_ROOT_FD=%d: %s", fd, strerror(errno));
    }
    if (!listens) {
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_INVALID_ARGUMENT, "TUTTI_ROOT_FD=%d: the socket does not listen", fd);
    }
    tt_bootstrap_tune(bootstrap, fd);
    bootstrap->listener = fd;
    bootstrap->listener_is_inherited = true;
    return TUTTI_OK;
}

/* Returns the socket, or -1 with errno. */
static int listen_at(const struct addrinfo *address)
{
    static const int on = 1;
    int fd = tt_socket_open(address->ai_family, SOCK_STREAM);
    if (fd < 0) {
        return -1;
    }
    /* Connections of an earlier group on this port may still be closing. */
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, address->ai_addr, address->ai_addrlen) != 0 || listen(fd, SOMAXCONN) != 0) {
        tt_socket_close(fd);
        return -1;
    }
    return fd;
}

/* Listens at the first of the addresses that is this host's, and returns 0, or the system's error; *text: the last one
 * that was tried. Past one that is not here the others go on, too; but where another process has the port they would
 * talk to that one, which may be the rank 0 of another job. */
static int listen_at_first(struct tt_bootstrap *bootstrap, const struct addrinfo *addresses,
                           char text[TT_BOOTSTRAP_ADDRESS_BYTES])
{
    int reason = EADDRNOTAVAIL;
    for (const struct addrinfo *a = addresses; a != NULL && reason != EADDRINUSE; a = a->ai_next) {
        write_address(a, text);
        bootstrap->listener = listen_at(a);
        if (bootstrap->listener >= 0) {
            return 0;
        }
        reason = errno;
        TT_LOG(TT_PART_ENGINE, TT_LOG_INFO, "TUTTI_ROOT=%s: rank 0 cannot listen at %s: %s", bootstrap->root, text,
               strerror(reason));
    }
    return reason;
}

tutti_status tt_bootstrap_listen(struct tt_bootstrap *bootstrap, const struct tt_settings *settings)
{
    struct addrinfo *addresses;

    assert(bootstrap->rank == 0);
    assert(bootstrap->listener < 0);
    if (settings->root_fd != TT_AUTO) {
        return adopt_listener(bootstrap, (int)settings->root_fd);
    }
    int error = resolve(bootstrap, bootstrap->host, AI_PASSIVE, &addresses);
    if (error != 0) {
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_INVALID_ARGUMENT, "TUTTI_ROOT=%s: %s", bootstrap->root,
                        resolve_error_text(error));
    }
    char address[TT_BOOTSTRAP_ADDRESS_BYTES] = "", described[TT_BOOTSTRAP_ADDRESS_BYTES + 3];
    int reason = listen_at_first(bootstrap, addresses, address);
    freeaddrinfo(addresses);
    if (reason == 0) {
        tt_bootstrap_tune(bootstrap, bootstrap->listener);
        return TUTTI_OK;
    }
    tt_bootstrap_describe_address(bootstrap, address, described);
    if (reason == EADDRINUSE) {
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_IN_USE, "TUTTI_ROOT=%s%s: another process listens there already",
                        bootstrap->root, described);
    }
    char text[TT_SHORTAGE_TEXT_BYTES];
    return tt_error(TT_PART_ENGINE, tt_shortage_status_or(reason, TUTTI_ERR_IO),
                    "TUTTI_ROOT=%s%s: rank 0 cannot listen there: %s", bootstrap->root, described,
                    tt_shortage_text(reason, text));
}

/* On loopback a socket that looks for a free port can meet itself. */
static bool is_connected_to_itself(int fd)
{
    struct sockaddr_storage own = {0}, other = {0};
    socklen_t own_length = sizeof(own), other_length = sizeof(other);
    return getsockname(fd, (struct sockaddr *)&own, &own_length) == 0 &&
           getpeername(fd, (struct sockaddr *)&other, &other_length) == 0 && own_length == other_length &&
           memcmp(&own, &other, own_length) == 0;
}

/* 0, or the error. */
static int wait_connected(int fd, uint64_t deadline_ns)
{
    struct pollfd waiting = {.fd = fd, .events = POLLOUT};
    int error = 0;
    socklen_t length = sizeof(error);

    for (;;) {
        int timeout_ms = tt_bootstrap_poll_ms(deadline_ns);
        int ready = poll(&waiting, 1, timeout_ms);
        if (ready > 0) {
            break;
        }
        if (ready == 0 && timeout_ms == 0) {
            return ETIMEDOUT;
        }
    }
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0) {
        return errno;
    }
    return error == 0 && is_connected_to_itself(fd) ? ECONNREFUSED : error;
}

/* Returns the socket, or -1 with errno. */
static int connect_to(const struct tt_bootstrap *bootstrap, const struct addrinfo *address, uint64_t attempt_ns,
                      uint64_t deadline_ns)
{
    static const int segment_bytes = SEGMENT_BYTES /* both ways */, on = 1;
    int fd = tt_socket_open(address->ai_family, SOCK_STREAM);
    if (fd < 0) {
        return -1;
    }
    tt_bootstrap_tune(bootstrap, fd);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)); /* its port may be one of TUTTI_PORTS, and stays free */
    setsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &segment_bytes, sizeof(segment_bytes));
    int error = connect(fd, address->ai_addr, address->ai_addrlen) == 0 ? 0 : errno;
    if (error == 0 || error == EINPROGRESS || error == EINTR) {
        uint64_t until_ns = tt_clock_now_ns() + attempt_ns;
        error = wait_connected(fd, until_ns < deadline_ns ? until_ns : deadline_ns);
    }
    if (error != 0) {
        tt_socket_close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

static void note_reason(struct tt_bootstrap_search *search, int error, const char *text)
{
    search->error = error;
    snprintf(search->reason, sizeof(search->reason), "%s", text);
}

/* Tries the addresses of one host, whose first one is *number, up to which they are counted; `is_last`: of the list.
 * The name is resolved each time that it is tried: what is not there yet may come. */
static int connect_to_host(const struct tt_bootstrap *bootstrap, const char *host, bool is_last, uint32_t *number,
                           struct tt_bootstrap_search *search, uint64_t attempt_ns, uint64_t deadline_ns)
{
    struct addrinfo *addresses;
    char text[TT_SHORTAGE_TEXT_BYTES], address[TT_BOOTSTRAP_ADDRESS_BYTES];
    int fd = -1, tried = 0;
    int error = resolve(bootstrap, host, 0, &addresses);
    if (error != 0) {
        note_reason(search, error == EAI_SYSTEM ? errno : 0, resolve_error_text(error));
        return -1;
    }
    for (const struct addrinfo *a = addresses;
         a != NULL && fd < 0 && tried < TT_BOOTSTRAP_ADDRESSES && tt_shortage_status(search->error) == TUTTI_OK;
         a = a->ai_next, tried++) {
        search->number = (*number)++;
        if (search->number < search->skip) {
            continue;
        }
        write_address(a, address);
        search->has_others = search->number > 0 || a->ai_next != NULL || !is_last;
        fd = connect_to(bootstrap, a, attempt_ns, deadline_ns);
        if (fd < 0 && errno == EADDRNOTAVAIL && (search->error != 0 || search->skip > 0)) {
            continue; /* nothing was asked there: what another one has said says more */
        }
        memcpy(search->address, address, sizeof(address));
        if (fd < 0) {
            note_reason(search, errno, tt_shortage_text(errno, text));
        } else {
            search->error = 0;
        }
    }
    freeaddrinfo(addresses);
    return fd;
}

int tt_bootstrap_connect(const struct tt_bootstrap *bootstrap, struct tt_bootstrap_search *search, uint64_t attempt_ns,
                         uint64_t deadline_ns)
{
    char hosts[TT_BOOTSTRAP_HOST_BYTES];
    char *rest = NULL;
    uint32_t number = 0;
    int fd = -1;

    search->error = 0;
    memcpy(hosts, bootstrap->host, sizeof(hosts));
    for (char *host = strtok_r(hosts, ",", &rest);
         host != NULL && fd < 0 && tt_shortage_status(search->error) == TUTTI_OK; host = strtok_r(NULL, ",", &rest)) {
        bool is_last = rest == NULL || rest[0] == '\0';
        fd = connect_to_host(bootstrap, host, is_last, &number, search, attempt_ns, deadline_ns);
    }
    return fd;
}

/* --- Channels ------------------------------------------------------------------------------------------------------
 */

void tt_channel_open(struct tt_bootstrap_channel *channel, int fd)
{
    assert(fd >= 0);
    memset(channel, 0, sizeof(*channel));
    channel->fd = fd;
}

void tt_channel_close(struct tt_bootstrap_channel *channel)
{
    tt_socket_close(channel->fd);
    channel->fd = -1;
}

void tt_channel_begin_send(struct tt_bootstrap_channel *channel, const struct tt_hello *hello)
{
    tt_hello_encode(hello, channel->out_header);
    channel->out_bytes = 0;
}

enum tt_bootstrap_io tt_channel_send(struct tt_bootstrap_channel *channel, const void *payload, uint64_t length_bytes)
{
    const uint64_t total = TT_HELLO_BYTES + length_bytes;
    assert(channel->fd >= 0);
    assert(channel->out_bytes <= total); /* it is the frame that was begun */
    while (channel->out_bytes < total) {
        struct iovec parts[2];
        size_t count = 0;
        size_t payload_sent = 0;
        if (channel->out_bytes < TT_HELLO_BYTES) {
            parts[count].iov_base = channel->out_header + channel->out_bytes;
            parts[count++].iov_len = TT_HELLO_BYTES - channel->out_bytes;
        } else {
            payload_sent = channel->out_bytes - TT_HELLO_BYTES;
        }
        if (payload_sent < length_bytes) {
            parts[count].iov_base = (uint8_t *)(uintptr_t)payload + payload_sent;
            parts[count++].iov_len = length_bytes - payload_sent;
        }
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = count};
        ssize_t sent = sendmsg(channel->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent >= 0) {
            channel->out_bytes += (size_t)sent;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            return TT_IO_AGAIN;
        } else if (errno != EINTR) {
            return TT_IO_CLOSED;
        }
    }
    return TT_IO_DONE;
}

void tt_channel_begin_receive(struct tt_bootstrap_channel *channel)
{
    channel->in_bytes = 0;
}

/* Reads until `channel` has `total` bytes of its frame; `base` is where byte `base_offset` of the frame belongs. */
static enum tt_bootstrap_io receive_up_to(struct tt_bootstrap_channel *channel, uint8_t *base, size_t base_offset,
                                          uint64_t total)
{
    assert(channel->fd >= 0);
    assert(channel->in_bytes >= base_offset);
    while (channel->in_bytes < total) {
        ssize_t received =
            recv(channel->fd, base + (channel->in_bytes - base_offset), total - channel->in_bytes, MSG_DONTWAIT);
        if (received > 0) {
            channel->in_bytes += (size_t)received;
        } else if (received == 0) {
            errno = 0;
            return TT_IO_CLOSED;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            return TT_IO_AGAIN;
        } else if (errno != EINTR) {
            return TT_IO_CLOSED;
        }
    }
    return TT_IO_DONE;
}

enum tt_bootstrap_io tt_channel_receive_header(struct tt_bootstrap_channel *channel)
{
    return receive_up_to(channel, channel->in_header, 0, TT_HELLO_BYTES);
}

enum tt_bootstrap_io tt_channel_receive_payload(struct tt_bootstrap_channel *channel, void *payload,
                                                uint64_t length_bytes)
{
    return receive_up_to(channel, payload, TT_HELLO_BYTES, TT_HELLO_BYTES + length_bytes);
}

bool tt_channel_send_text(struct tt_bootstrap_channel *channel, struct tt_hello *hello, const char *text)
{
    hello->length_bytes = strnlen(text, TT_HELLO_MAX_TEXT_BYTES);
    tt_channel_begin_send(channel, hello);
    return tt_channel_send(channel, text, hello->length_bytes) == TT_IO_DONE;
}
