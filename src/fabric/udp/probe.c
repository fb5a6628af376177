/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether multicast works on one interface of this host, for `tutti doctor`.
 *
 * Normal path: a receiving socket joins a group at a port that the system chooses; a sending socket sends one datagram
 * with TTL 0, which the system loops back and does not put on the wire; it comes back unchanged.
 * Failures: the first step that fails is named. Datagrams of others at the same group and port are skipped.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/socket.h"
#include "fabric/udp/udp.h"
#include "wire/datagram.h"

#define PROBE_GROUP "239.195.255.254" /* the last but one of the default range, 239.192.0.0/14 */

enum { PROBE_PAYLOAD_BYTES = 64, PROBE_BYTES = TT_DATAGRAM_HEADER_BYTES + PROBE_PAYLOAD_BYTES };

struct probe_sockets {
    int receive_fd;
    int send_fd;
};

/* Each step sets errno; the result is the step that failed, or NULL. */
static const char *open_receive(const struct tt_interface *interface, struct sockaddr_in *group, int *fd)
{
    struct ip_mreqn membership = {.imr_multiaddr = group->sin_addr,
                                  .imr_address.s_addr = tt_ip_to_ipv4(interface->ip),
                                  .imr_ifindex = (int)interface->index};
    socklen_t length = sizeof(*group);
    int off = 0;

    *fd = tt_socket_open(AF_INET, SOCK_DGRAM);
    if (*fd < 0) {
        return "socket";
    }
    if (setsockopt(*fd, IPPROTO_IP, IP_MULTICAST_ALL, &off, sizeof(off)) != 0) {
        return "socket options";
    }
    if (bind(*fd, (const struct sockaddr *)group, sizeof(*group)) != 0 ||
        getsockname(*fd, (struct sockaddr *)group, &length) != 0) {
        return "bind";
    }
    return setsockopt(*fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &membership, sizeof(membership)) == 0 ? NULL : "join";
}

static const char *open_send(const struct tt_interface *interface, const struct sockaddr_in *group, int *fd)
{
    struct ip_mreqn out = {.imr_address.s_addr = tt_ip_to_ipv4(interface->ip), .imr_ifindex = (int)interface->index};
    int ttl = 0;
    int loop = 1;

    *fd = tt_socket_open(AF_INET, SOCK_DGRAM);
    if (*fd < 0) {
        return "socket";
    }
    if (setsockopt(*fd, IPPROTO_IP, IP_MULTICAST_IF, &out, sizeof(out)) != 0) {
        return "choosing the interface for sending";
    }
    if (setsockopt(*fd, IPPROTO_IP, IP_MULTICAST_TTL, &ttl, sizeof(ttl)) != 0 ||
        setsockopt(*fd, IPPROTO_IP, IP_MULTICAST_LOOP, &loop, sizeof(loop)) != 0) {
        return "socket options";
    }
    return connect(*fd, (const struct sockaddr *)group, sizeof(*group)) == 0 ? NULL : "connect";
}

/* Waits for exactly these bytes. False with errno, which is 0 if the time ran out. */
static bool wait_for(int fd, const uint8_t *sent, uint64_t deadline_ns)
{
    for (;;) {
        uint8_t bytes[PROBE_BYTES + 1];
        ssize_t length = recv(fd, bytes, sizeof(bytes), 0);
        if (length == PROBE_BYTES && memcmp(bytes, sent, PROBE_BYTES) == 0) {
            return true;
        }
        if (length < 0 && errno != EAGAIN && errno != EINTR) {
            return false;
        }
        uint64_t now_ns = tt_clock_now_ns();
        if (now_ns >= deadline_ns) {
            errno = 0;
            return false;
        }
        if (length < 0) {
            uint64_t left_ns = deadline_ns - now_ns;
            struct timespec left = tt_clock_timespec(left_ns);
            struct pollfd readable = {.fd = fd, .events = POLLIN};
            ppoll(&readable, 1, &left, NULL);
        }
    }
}

/* Sends and waits; the result is the step that failed, or NULL with *round_trip_ns set. */
static const char *exchange(const struct probe_sockets *sockets, uint64_t timeout_ns, uint64_t *round_trip_ns)
{
    uint8_t bytes[PROBE_BYTES] = {0};
    struct tt_datagram datagram = {.length_bytes = PROBE_PAYLOAD_BYTES};

    if (getrandom(&datagram.key, sizeof(datagram.key), 0) != sizeof(datagram.key)) {
        return "random key";
    }
    tt_datagram_encode(&datagram, bytes);
    uint64_t start_ns = tt_clock_now_ns();
    if (send(sockets->send_fd, bytes, sizeof(bytes), 0) < 0) {
        return "send";
    }
    uint64_t deadline_ns = timeout_ns > TT_NEVER - start_ns ? TT_NEVER : start_ns + timeout_ns;
    if (!wait_for(sockets->receive_fd, bytes, deadline_ns)) {
        return "receive";
    }
    *round_trip_ns = tt_clock_now_ns() - start_ns;
    return NULL;
}

tutti_status tt_udp_probe_loop(const struct tt_interface *interface, uint64_t timeout_ns, struct tt_udp_probe *probe)
{
    struct probe_sockets sockets = {-1, -1};
    struct sockaddr_in group = {.sin_family = AF_INET};
    char text[TT_INTERFACE_TEXT_BYTES];

    inet_pton(AF_INET, PROBE_GROUP, &group.sin_addr);
    memset(probe, 0, sizeof(*probe));
    probe->step = open_receive(interface, &group, &sockets.receive_fd);
    if (probe->step == NULL) {
        probe->step = open_send(interface, &group, &sockets.send_fd);
    }
    if (probe->step == NULL) {
        probe->step = exchange(&sockets, timeout_ns, &probe->round_trip_ns);
    }
    probe->error = probe->step != NULL ? errno : 0;
    tt_socket_close(sockets.receive_fd);
    tt_socket_close(sockets.send_fd);
    if (probe->step == NULL) {
        return TUTTI_OK;
    }
    tt_interface_format(interface, text);
    if (probe->error == 0) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_TIMED_OUT,
                        "multicast on %s: nothing came back within %.3f s (a packet filter?)", text,
                        (double)timeout_ns / TT_NS_PER_S);
    }
    return tt_error(TT_PART_FABRIC, TUTTI_ERR_IO, "multicast on %s: %s: %s", text, probe->step, strerror(probe->error));
}
