/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: trying the TCP ports of another host, and being tried.
 *
 * Normal path: one side listens at three ports; the other connects to all of them at once, sends a key and then more
 * than a few full packets, since a path on which the MTU is wrong lets the handshake through, and gets the key back.
 *
 * Failures: everything ends at a deadline. A connection that does not begin with the key is closed without an answer;
 * so is what comes beyond as many connections as there is room for.
 */
#include "cli/doctor_ports.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/shortage.h"

enum { STREAM_BYTES = 64 << 10, GUEST_LIMIT = 8, BIND_TRIES = 256, UDP_KNOCKS = 3 };

#define UDP_KNOCK_NS (100 * TT_NS_PER_MS)

/* --- Listening ---------------------------------------------------------------------------------------------------- */

/* A listening socket at this port; -1 with errno if there is none to be had. */
static int listen_at(const struct tt_interface *interface, uint16_t port)
{
    struct sockaddr_in own = {
        .sin_family = AF_INET, .sin_addr.s_addr = tt_ip_to_ipv4(interface->ip), .sin_port = htons(port)};
    const int yes = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0) {
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)); /* as jobs do: not every port in TIME_WAIT */
    }
    if (fd >= 0 && (bind(fd, (const struct sockaddr *)&own, sizeof(own)) != 0 || listen(fd, GUEST_LIMIT) != 0)) {
        int error = errno;
        close(fd);
        errno = error;
        fd = -1;
    }
    return fd;
}

tutti_status tt_doctor_ports_open(struct tt_doctor_ports *ports, const struct tt_settings *settings,
                                  const struct tt_interface *interface)
{
    uint16_t first, last;
    tutti_status status = tt_parse_ports(settings->ports, &first, &last);
    for (int i = 0; i < TT_DOCTOR_PORTS; i++) {
        ports->fd[i] = -1;
        ports->port[i] = 0;
    }
    if (status != TUTTI_OK) {
        return status;
    }
    uint32_t count = (uint32_t)last - first + 1;
    int open = 0;
    for (uint32_t i = 0; i < TT_DOCTOR_PORTS && i < count; i++) {
        /* From the first and the middle upwards, from the last downwards, past those that are in use. */
        for (uint32_t step = 0; step < count && step < BIND_TRIES && ports->fd[i] < 0; step++) {
            uint32_t offset = i < 2 ? (count / 2 * i + step) % count : count - 1 - step;
            ports->port[i] = (uint16_t)(first + offset);
            ports->fd[i] = listen_at(interface, ports->port[i]);
            if (ports->fd[i] < 0 && errno != EADDRINUSE) {
                int error = errno;
                char why[TT_SHORTAGE_TEXT_BYTES];
                tt_doctor_ports_close(ports);
                return tt_error(TT_PART_CLI, tt_shortage_status_or(error, TUTTI_ERR_IO), "listening at TCP port %u: %s",
                                first + offset, tt_shortage_text(error, why));
            }
        }
        ports->port[i] = ports->fd[i] >= 0 ? ports->port[i] : 0;
        open += ports->fd[i] >= 0 ? 1 : 0;
    }
    return open > 0
               ? TUTTI_OK
               : tt_error(TT_PART_CLI, TUTTI_ERR_IN_USE, "TUTTI_PORTS=%s: every TCP port is in use", settings->ports);
}

void tt_doctor_ports_close(struct tt_doctor_ports *ports)
{
    for (int i = 0; i < TT_DOCTOR_PORTS; i++) {
        if (ports->fd[i] >= 0) {
            close(ports->fd[i]);
        }
        ports->fd[i] = -1;
    }
}

/* --- Being tried -------------------------------------------------------------------------------------------------- */

struct guest {
    int fd; /* -1: free */
    uint32_t key;
    uint32_t received_bytes;
};

static void dismiss(struct guest *guest)
{
    close(guest->fd);
    guest->fd = -1;
}

static void take_in(struct guest *guests, int fd)
{
    for (int i = 0; i < GUEST_LIMIT; i++) {
        if (guests[i].fd < 0) {
            guests[i] = (struct guest){.fd = fd};
            return;
        }
    }
    close(fd);
}

/* Reads what there is; answers once all of it has come. */
static void attend(struct guest *guest, uint32_t key)
{
    static uint8_t room[STREAM_BYTES];
    ssize_t length = recv(guest->fd, room, sizeof(room), MSG_DONTWAIT);
    if (length <= 0) {
        if (length == 0 || (errno != EAGAIN && errno != EINTR)) {
            dismiss(guest);
        }
        return;
    }
    for (ssize_t i = 0; i < length && guest->received_bytes + i < (ssize_t)sizeof(key); i++) {
        ((uint8_t *)&guest->key)[guest->received_bytes + i] = room[i];
    }
    bool had_all = guest->received_bytes >= STREAM_BYTES;
    guest->received_bytes += (uint32_t)length;
    if (guest->received_bytes >= sizeof(key) && (guest->key != key || guest->received_bytes > STREAM_BYTES)) {
        dismiss(guest);
    } else if (!had_all && guest->received_bytes == STREAM_BYTES) {
        send(guest->fd, &key, sizeof(key), MSG_NOSIGNAL | MSG_DONTWAIT);
    }
}

static int wait_for(struct pollfd *descriptors, nfds_t count, uint64_t deadline_ns)
{
    uint64_t now_ns = tt_clock_now_ns();
    struct timespec left = tt_clock_timespec(deadline_ns > now_ns ? deadline_ns - now_ns : 0);
    return ppoll(descriptors, count, &left, NULL);
}

void tt_doctor_ports_serve(const struct tt_doctor_ports *ports, uint32_t key, int until_fd, uint64_t deadline_ns)
{
    enum { UNTIL = TT_DOCTOR_PORTS + GUEST_LIMIT, ALL };
    struct guest guests[GUEST_LIMIT];
    for (int i = 0; i < GUEST_LIMIT; i++) {
        guests[i].fd = -1;
    }
    while (tt_clock_now_ns() < deadline_ns) {
        struct pollfd descriptors[ALL];
        for (int i = 0; i < ALL; i++) {
            int fd = i < TT_DOCTOR_PORTS ? ports->fd[i] : i < UNTIL ? guests[i - TT_DOCTOR_PORTS].fd : until_fd;
            descriptors[i] = (struct pollfd){.fd = fd, .events = POLLIN};
        }
        if (wait_for(descriptors, ALL, deadline_ns) < 0 && errno != EINTR) {
            break;
        }
        for (int i = TT_DOCTOR_PORTS; i < UNTIL; i++) {
            if (descriptors[i].revents != 0) {
                attend(&guests[i - TT_DOCTOR_PORTS], key);
            }
        }
        for (int i = 0; i < TT_DOCTOR_PORTS; i++) {
            int fd = descriptors[i].revents != 0 ? accept4(ports->fd[i], NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK) : -1;
            if (fd >= 0) {
                take_in(guests, fd);
            }
        }
        if (descriptors[UNTIL].revents != 0) {
            break;
        }
    }
    for (int i = 0; i < GUEST_LIMIT; i++) {
        if (guests[i].fd >= 0) {
            dismiss(&guests[i]);
        }
    }
}

/* --- Trying ------------------------------------------------------------------------------------------------------- */

static enum tt_knock knock_of(int error)
{
    return error == ECONNREFUSED ? TT_KNOCK_REFUSED : error == ETIMEDOUT ? TT_KNOCK_SILENT : TT_KNOCK_REJECTED;
}

struct visit {
    int fd; /* -1: over */
    uint16_t port;
    bool connected;
    uint32_t sent_bytes;
    enum tt_knock knock;
};

static void conclude(struct visit *visit, enum tt_knock knock)
{
    visit->knock = knock;
    if (visit->fd >= 0) {
        close(visit->fd);
    }
    visit->fd = -1;
}

static void begin(struct visit *visit, const struct tt_interface *interface, uint32_t address_be)
{
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = tt_ip_to_ipv4(interface->ip)};
    struct sockaddr_in there = {.sin_family = AF_INET, .sin_addr.s_addr = address_be, .sin_port = htons(visit->port)};
    visit->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (visit->fd < 0 || bind(visit->fd, (const struct sockaddr *)&own, sizeof(own)) != 0) {
        conclude(visit, TT_KNOCK_BROKEN);
    } else if (connect(visit->fd, (const struct sockaddr *)&there, sizeof(there)) != 0 && errno != EINPROGRESS) {
        conclude(visit, knock_of(errno));
    } else {
        visit->knock = TT_KNOCK_SILENT;
    }
}

static void go_on(struct visit *visit, uint32_t key)
{
    static uint8_t stream[STREAM_BYTES];
    int error = 0;
    socklen_t error_bytes = sizeof(error);
    uint32_t answer = 0;
    if (getsockopt(visit->fd, SOL_SOCKET, SO_ERROR, &error, &error_bytes) != 0 || error != 0) {
        conclude(visit, visit->connected ? TT_KNOCK_BROKEN : knock_of(error));
        return;
    }
    visit->connected = true;
    visit->knock = TT_KNOCK_STALLED;
    memcpy(stream, &key, sizeof(key));
    if (visit->sent_bytes < STREAM_BYTES) {
        ssize_t sent = send(visit->fd, stream + visit->sent_bytes, STREAM_BYTES - visit->sent_bytes, MSG_NOSIGNAL);
        visit->sent_bytes += sent > 0 ? (uint32_t)sent : 0;
    }
    ssize_t length = recv(visit->fd, &answer, sizeof(answer), MSG_DONTWAIT);
    if (length == sizeof(answer) && answer == key) {
        conclude(visit, TT_KNOCK_OPEN);
    } else if (length >= 0 || (errno != EAGAIN && errno != EINTR)) {
        conclude(visit, TT_KNOCK_BROKEN);
    }
}

void tt_doctor_ports_try(const uint16_t port[TT_DOCTOR_PORTS], const struct tt_interface *interface,
                         uint32_t address_be, uint32_t key, uint8_t knocks[TT_DOCTOR_PORTS])
{
    uint64_t deadline_ns = tt_clock_now_ns() + TT_DOCTOR_KNOCK_NS;
    struct visit visits[TT_DOCTOR_PORTS];
    for (int i = 0; i < TT_DOCTOR_PORTS; i++) {
        visits[i] = (struct visit){.fd = -1, .port = port[i]};
        if (port[i] != 0) {
            begin(&visits[i], interface, address_be);
        }
    }
    while (tt_clock_now_ns() < deadline_ns) {
        struct pollfd descriptors[TT_DOCTOR_PORTS];
        int waiting = 0;
        for (int i = 0; i < TT_DOCTOR_PORTS; i++) {
            bool sends = !visits[i].connected || visits[i].sent_bytes < STREAM_BYTES;
            descriptors[i] = (struct pollfd){.fd = visits[i].fd, .events = (short)(POLLIN | (sends ? POLLOUT : 0))};
            waiting += visits[i].fd >= 0 ? 1 : 0;
        }
        if (waiting == 0 || (wait_for(descriptors, TT_DOCTOR_PORTS, deadline_ns) < 0 && errno != EINTR)) {
            break;
        }
        for (int i = 0; i < TT_DOCTOR_PORTS; i++) {
            if (visits[i].fd >= 0 && descriptors[i].revents != 0) {
                go_on(&visits[i], key);
            }
        }
    }
    for (int i = 0; i < TT_DOCTOR_PORTS; i++) {
        knocks[i] = (uint8_t)visits[i].knock;
        conclude(&visits[i], visits[i].knock);
    }
}

/* --- UDP ---------------------------------------------------------------------------------------------------------- */

enum tt_knock tt_doctor_knock_udp(const struct tt_interface *interface, uint32_t address_be, uint16_t port)
{
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = tt_ip_to_ipv4(interface->ip)};
    struct sockaddr_in there = {.sin_family = AF_INET, .sin_addr.s_addr = address_be, .sin_port = htons(port)};
    static const uint8_t nothing[8];
    enum tt_knock knock = TT_KNOCK_SILENT;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool ready = fd >= 0 && bind(fd, (const struct sockaddr *)&own, sizeof(own)) == 0 &&
                 connect(fd, (const struct sockaddr *)&there, sizeof(there)) == 0;
    for (int i = 0; ready && i < UDP_KNOCKS && knock == TT_KNOCK_SILENT; i++) {
        struct pollfd answered = {.fd = fd, .events = POLLIN};
        int error = 0;
        socklen_t error_bytes = sizeof(error);
        if (send(fd, nothing, sizeof(nothing), MSG_NOSIGNAL) < 0) {
            knock = knock_of(errno); /* the own firewall's word, or the answer to the last one */
        } else if (wait_for(&answered, 1, tt_clock_now_ns() + UDP_KNOCK_NS) > 0 &&
                   getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &error_bytes) == 0 && error != 0) {
            knock = knock_of(error);
        }
    }
    if (fd >= 0) {
        close(fd);
    }
    return ready ? knock : TT_KNOCK_NONE;
}
