/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: sending and receiving the datagrams of `tutti doctor --job`.
 *
 * Normal path: one unicast socket that forbids fragments and ignores what the kernel believes of the path's MTU, lets
 * the kernel cut and merge trains, and stamps arrivals, so that a process that waits for its core does not change a
 * rate; one socket that hears multicast. Sending is by the unicast socket in both cases.
 *
 * Failures: opening says which step failed. A kernel that does not cut gets single datagrams. A datagram that is
 * refused counts as not sent; a full queue is waited for, up to a time limit of the socket.
 */
#include "cli/doctor_socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/udp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/shortage.h"
#include "engine/locality.h"
#include "fabric/mcast.h"

enum { RECEIVE_BUFFER_BYTES = 16 << 20, SEND_BUFFER_BYTES = 1 << 20, SEND_PATIENCE_MS = 400, CONTROL_BYTES = 256 };

static bool set_int(int fd, int level, int name, int value)
{
    return setsockopt(fd, level, name, &value, sizeof(value)) == 0;
}

static tutti_status fail(int fd, const char *what)
{
    int error = errno;
    if (fd >= 0) {
        close(fd);
    }
    char why[TT_SHORTAGE_TEXT_BYTES];
    return tt_error(TT_PART_CLI, tt_shortage_status_or(error, TUTTI_ERR_IO), "a socket for measuring: %s: %s", what,
                    tt_shortage_text(error, why));
}

static void size_buffer(int fd, int force_option, int option, int bytes)
{
    if (!set_int(fd, SOL_SOCKET, force_option, bytes)) {
        set_int(fd, SOL_SOCKET, option, bytes);
    }
}

static bool set_options(int fd)
{
    struct timeval patience = {.tv_usec = SEND_PATIENCE_MS * 1000};
    size_buffer(fd, SO_RCVBUFFORCE, SO_RCVBUF, RECEIVE_BUFFER_BYTES);
    size_buffer(fd, SO_SNDBUFFORCE, SO_SNDBUF, SEND_BUFFER_BYTES);
    set_int(fd, SOL_UDP, UDP_GRO, 1); /* an older kernel hands over single datagrams */
    return set_int(fd, SOL_SOCKET, SO_TIMESTAMPNS, 1) && set_int(fd, SOL_SOCKET, SO_RXQ_OVFL, 1) &&
           set_int(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE) &&
           setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) == 0;
}

/* Binds to one of the ports that the settings allow, since those may be the only ones that a packet filter lets
 * through. Which is tried first differs, so that many find theirs soon. */
static bool bind_to_any(int fd, const struct tt_settings *settings, const struct tt_interface *interface,
                        uint16_t *port)
{
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = tt_ip_to_ipv4(interface->ip)};
    uint16_t first, last;
    if (tt_parse_ports(settings->ports, &first, &last) != TUTTI_OK) {
        errno = EINVAL;
        return false;
    }
    uint32_t count = (uint32_t)last - first + 1;
    uint32_t start = (uint32_t)(tt_clock_now_ns() / TT_NS_PER_US + (uint64_t)getpid());
    for (uint32_t i = 0; i < count; i++) {
        *port = (uint16_t)(first + (start + i) % count);
        own.sin_port = htons(*port);
        if (bind(fd, (const struct sockaddr *)&own, sizeof(own)) == 0) {
            return true;
        }
        if (errno != EADDRINUSE) {
            return false;
        }
    }
    return false;
}

tutti_status tt_doctor_socket_open(struct tt_doctor_socket *doctor, const struct tt_settings *settings,
                                   const struct tt_interface *interface, uint16_t *port)
{
    struct ip_mreqn out = {.imr_address.s_addr = tt_ip_to_ipv4(interface->ip), .imr_ifindex = (int)interface->index};
    *doctor = (struct tt_doctor_socket){.fd = -1, .multicast_fd = -1, .interface = interface, .segments = true};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return fail(fd, "socket");
    }
    if (!set_options(fd) || !set_int(fd, IPPROTO_IP, IP_MULTICAST_TTL, (int)settings->ttl) ||
        (settings->traffic_class != 0 && !set_int(fd, IPPROTO_IP, IP_TOS, (int)settings->traffic_class)) ||
        setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &out, sizeof(out)) != 0) {
        return fail(fd, "options");
    }
    if (!bind_to_any(fd, settings, interface, port)) {
        return fail(fd, "bind to one of TUTTI_PORTS");
    }
    doctor->fd = fd;
    return TUTTI_OK;
}

tutti_status tt_doctor_socket_join(struct tt_doctor_socket *doctor, const struct tt_settings *settings)
{
    struct ip_mreqn membership = {.imr_address.s_addr = tt_ip_to_ipv4(doctor->interface->ip),
                                  .imr_ifindex = (int)doctor->interface->index};
    struct tt_mcast_address address;
    tutti_status status = tt_locality_address(settings, doctor->key, 0, 0, &address);
    if (status != TUTTI_OK) {
        return status;
    }
    doctor->multicast = (struct sockaddr_in){
        .sin_family = AF_INET, .sin_addr.s_addr = address.group_be, .sin_port = htons(address.port)};
    membership.imr_multiaddr.s_addr = address.group_be;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return fail(fd, "socket");
    }
    if (!set_int(fd, SOL_SOCKET, SO_REUSEADDR, 1) || !set_int(fd, IPPROTO_IP, IP_MULTICAST_ALL, 0)) {
        return fail(fd, "options");
    }
    if (bind(fd, (const struct sockaddr *)&doctor->multicast, sizeof(doctor->multicast)) != 0) {
        return fail(fd, "bind to a multicast group");
    }
    if (setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &membership, sizeof(membership)) != 0) {
        return fail(fd, "join a multicast group");
    }
    doctor->multicast_fd = fd;
    return TUTTI_OK;
}

void tt_doctor_socket_close(struct tt_doctor_socket *doctor)
{
    if (doctor->fd >= 0) {
        close(doctor->fd);
    }
    if (doctor->multicast_fd >= 0) {
        close(doctor->multicast_fd);
    }
    doctor->fd = -1;
    doctor->multicast_fd = -1;
}

/* --- Receiving ---------------------------------------------------------------------------------------------------- */

static void read_control(struct tt_doctor_socket *doctor, struct msghdr *message)
{
    doctor->segment_bytes = doctor->filled_bytes;
    for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part != NULL; part = CMSG_NXTHDR(message, part)) {
        if (part->cmsg_level == SOL_UDP && part->cmsg_type == UDP_GRO) {
            int bytes;
            memcpy(&bytes, CMSG_DATA(part), sizeof(bytes));
            doctor->segment_bytes = bytes > 0 ? (uint32_t)bytes : doctor->segment_bytes;
        } else if (part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_TIMESTAMPNS) {
            struct timespec stamp;
            memcpy(&stamp, CMSG_DATA(part), sizeof(stamp));
            doctor->stamp_ns = (uint64_t)stamp.tv_sec * TT_NS_PER_S + (uint64_t)stamp.tv_nsec;
        } else if (part->cmsg_level == SOL_SOCKET && part->cmsg_type == SO_RXQ_OVFL) {
            memcpy(&doctor->overflowed, CMSG_DATA(part), sizeof(doctor->overflowed));
        }
    }
}

/* Receives once, without waiting. */
static bool fill(struct tt_doctor_socket *doctor, int fd)
{
    union {
        char bytes[CONTROL_BYTES];
        struct cmsghdr align;
    } control;
    struct iovec part = {.iov_base = doctor->received, .iov_len = sizeof(doctor->received)};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control.bytes)};
    ssize_t length = recvmsg(fd, &message, MSG_DONTWAIT);
    if (length < 0) {
        return false;
    }
    doctor->filled_bytes = (uint32_t)length;
    doctor->used_bytes = 0;
    read_control(doctor, &message);
    return true;
}

/* Takes one datagram of what has been received; false if it is not one of this job and step. */
static bool take(struct tt_doctor_socket *doctor, struct tt_doctor_datagram *datagram)
{
    uint32_t left_bytes = doctor->filled_bytes - doctor->used_bytes;
    uint32_t length = left_bytes < doctor->segment_bytes ? left_bytes : doctor->segment_bytes;
    const uint8_t *bytes = doctor->received + doctor->used_bytes;
    doctor->used_bytes += length;
    if (length < sizeof(datagram->header)) {
        return false;
    }
    memcpy(&datagram->header, bytes, sizeof(datagram->header));
    datagram->payload_bytes = length;
    datagram->stamp_ns = doctor->stamp_ns;
    return datagram->header.key == doctor->key && datagram->header.step == doctor->step &&
           datagram->header.from != doctor->self;
}

bool tt_doctor_next(struct tt_doctor_socket *doctor, int fd, uint64_t deadline_ns, struct tt_doctor_datagram *datagram)
{
    bool late = false;
    for (;;) {
        while (doctor->used_bytes < doctor->filled_bytes) {
            if (take(doctor, datagram)) {
                return true;
            }
        }
        if (late) {
            return false; /* also while strangers send without end */
        }
        uint64_t now_ns = tt_clock_now_ns();
        late = now_ns >= deadline_ns;
        if (!fill(doctor, fd) && !late) {
            struct timespec left = tt_clock_timespec(deadline_ns - now_ns);
            struct pollfd readable = {.fd = fd, .events = POLLIN};
            ppoll(&readable, 1, &left, NULL);
        }
    }
}

/* --- Sending ------------------------------------------------------------------------------------------------------ */

static void write_header(struct tt_doctor_socket *doctor, uint8_t *bytes, const struct tt_doctor_header *header)
{
    struct tt_doctor_header whole = *header;
    whole.key = doctor->key;
    whole.step = doctor->step;
    whole.from = doctor->self;
    memcpy(bytes, &whole, sizeof(whole));
}

bool tt_doctor_send(struct tt_doctor_socket *doctor, const struct sockaddr_in *to,
                    const struct tt_doctor_header *header, uint32_t payload_bytes)
{
    uint32_t length = payload_bytes < sizeof(*header) ? sizeof(*header) : payload_bytes;
    write_header(doctor, doctor->sending, header);
    return sendto(doctor->fd, doctor->sending, length, 0, (const struct sockaddr *)to, sizeof(*to)) == (ssize_t)length;
}

static bool send_segments(struct tt_doctor_socket *doctor, const struct sockaddr_in *to, uint32_t payload_bytes,
                          uint32_t count)
{
    union {
        char bytes[CMSG_SPACE(sizeof(uint16_t))];
        struct cmsghdr align;
    } control = {{0}};
    struct sockaddr_in destination = *to;
    uint16_t segment = (uint16_t)payload_bytes;
    struct iovec part = {.iov_base = doctor->sending, .iov_len = (size_t)count * payload_bytes};
    struct msghdr message = {.msg_name = &destination,
                             .msg_namelen = sizeof(destination),
                             .msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
    struct cmsghdr *cut = CMSG_FIRSTHDR(&message);
    cut->cmsg_level = SOL_UDP;
    cut->cmsg_type = UDP_SEGMENT;
    cut->cmsg_len = CMSG_LEN(sizeof(segment));
    memcpy(CMSG_DATA(cut), &segment, sizeof(segment));
    return sendmsg(doctor->fd, &message, 0) >= 0;
}

uint32_t tt_doctor_send_many(struct tt_doctor_socket *doctor, const struct sockaddr_in *to,
                             const struct tt_doctor_header *header, uint32_t payload_bytes, uint32_t count)
{
    uint32_t accepted = 0;
    if (doctor->segments && count > 1) {
        for (uint32_t i = 0; i < count; i++) {
            write_header(doctor, doctor->sending + (size_t)i * payload_bytes, header);
        }
        if (send_segments(doctor, to, payload_bytes, count)) {
            return count;
        }
        if (errno != EIO && errno != EINVAL && errno != EOPNOTSUPP && errno != EMSGSIZE) {
            return 0;
        }
        doctor->segments = false; /* this kernel, or this interface, does not cut */
    }
    for (uint32_t i = 0; i < count; i++) {
        accepted += tt_doctor_send(doctor, to, header, payload_bytes) ? 1 : 0;
    }
    return accepted;
}
