/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The two sockets of a queue.
 *
 * Normal path: the receiving socket is bound to the subgroup's address and port, which keeps other groups' and all
 * unicast datagrams out, shares the port with other members on this host, joins on one interface, filters own
 * datagrams in the kernel, and takes super-packets whole. The sending socket is bound to the interface's address with
 * a port of its own, which matters: datagrams of different senders never merge into one super-packet. Introduced, it
 * is connected to the subgroup, or, where that has two members, to the other one's sending socket, and receives too:
 * for a multicast destination the system looks the route up with every send, for a unicast one once.
 * Failures: each names the step, the address and the interface. A buffer smaller than asked for is a warning only.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/settings.h"
#include "base/shortage.h"
#include "base/socket.h"
#include "fabric/udp/queue.h"

enum { SUBGROUP_TEXT_BYTES = 96 };

/* "239.192.0.1:47000 on eth0 (10.0.0.1)" */
static const char *format_subgroup(const struct tt_udp *udp, const struct tt_mcast_queue_options *options,
                                   char text[SUBGROUP_TEXT_BYTES])
{
    char group[INET_ADDRSTRLEN] = "";
    char interface[TT_INTERFACE_TEXT_BYTES];

    inet_ntop(AF_INET, &options->address.group_be, group, sizeof(group));
    snprintf(text, SUBGROUP_TEXT_BYTES, "%s:%u on %s", group, options->address.port,
             tt_interface_format(&udp->options.interface, interface));
    return text;
}

/* Reports the failed step `what` of opening a socket and closes it. */
static tutti_status fail(int fd, const struct tt_udp *udp, const struct tt_mcast_queue_options *options,
                         const char *what)
{
    int error = errno;
    char subgroup[SUBGROUP_TEXT_BYTES];
    char why[TT_SHORTAGE_TEXT_BYTES];

    tt_socket_close(fd);
    return tt_error(TT_PART_FABRIC, tt_shortage_status_or(error, TUTTI_ERR_IO), "%s: %s: %s",
                    format_subgroup(udp, options, subgroup), what, tt_shortage_text(error, why));
}

static tutti_status fail_bind(int fd, const struct tt_udp *udp, const struct tt_mcast_queue_options *options)
{
    char subgroup[SUBGROUP_TEXT_BYTES];

    if (errno != EADDRINUSE) {
        return fail(fd, udp, options, "bind");
    }
    tt_socket_close(fd);
    tt_error_note(TUTTI_ERR_IN_USE, "%s: another program has the port for itself",
                  format_subgroup(udp, options, subgroup));
    TT_LOG(TT_PART_FABRIC, TT_LOG_INFO, "%s", tt_last_error()); /* there are others */
    return TUTTI_ERR_IN_USE;
}

static tutti_status fail_join(int fd, const struct tt_udp *udp, const struct tt_mcast_queue_options *options)
{
    char subgroup[SUBGROUP_TEXT_BYTES];

    if (errno != ENOBUFS) {
        return fail(fd, udp, options, "join");
    }
    tt_socket_close(fd);
    return tt_error(TT_PART_FABRIC, TUTTI_ERR_NO_RESOURCE,
                    "%s: too many multicast memberships (sysctl net.ipv4.igmp_max_memberships)",
                    format_subgroup(udp, options, subgroup));
}

static bool set_int(int fd, int level, int name, int value)
{
    return setsockopt(fd, level, name, &value, sizeof(value)) == 0;
}

static int socket_open(void)
{
    return tt_socket_open(AF_INET, SOCK_DGRAM);
}

/*
 * Drops the queue's own datagrams before they are charged to the buffer and wake the receiver. A filter sees a packet
 * from its UDP header on. All datagrams of a super-packet have one sender, so the first one's header is enough. What is
 * shorter than a header is let through, for poll to count; a load beyond the end would drop it silently.
 */
static bool filter_own(int fd, const struct tt_mcast_queue_options *options)
{
    enum { HEADER = 8 }; /* of UDP */
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_LEN, 0),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, HEADER + TT_DATAGRAM_HEADER_BYTES, 0, 7),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, HEADER + TT_DATAGRAM_OFFSET_KEY),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(options->address.key >> 32), 0, 5),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, HEADER + TT_DATAGRAM_OFFSET_KEY + 4),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)options->address.key, 0, 3),
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, HEADER + TT_DATAGRAM_OFFSET_SOURCE),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, options->rank, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, 0),          /* own: drop */
        BPF_STMT(BPF_RET | BPF_K, UINT32_MAX), /* else keep all of it */
    };
    struct sock_fprog program = {.len = sizeof(code) / sizeof(code[0]), .filter = code};

    return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) == 0;
}

bool tt_udp_socket_merge(int fd, bool merge)
{
    if (!set_int(fd, SOL_UDP, UDP_GRO, merge)) {
        TT_LOG(TT_PART_FABRIC, TT_LOG_INFO, "UDP_GRO: %s; this system receives single datagrams only", strerror(errno));
        return false;
    }
    return true;
}

static int wanted_receive_buffer(const struct tt_udp *udp)
{
    uint64_t wanted_bytes = udp->options.receive_buffer_bytes;

    return wanted_bytes == TT_AUTO ? TT_UDP_RECEIVE_BUFFER_BYTES : (int)wanted_bytes;
}

static void size_receive_buffer(int fd, const struct tt_udp *udp)
{
    int asked = wanted_receive_buffer(udp);

    if (!set_int(fd, SOL_SOCKET, SO_RCVBUFFORCE, asked)) {
        set_int(fd, SOL_SOCKET, SO_RCVBUF, asked);
    }
}

/* As the system accounts: twice what was asked for. */
static bool granted_buffer(int fd, int *granted_bytes)
{
    socklen_t length = sizeof(*granted_bytes);

    return getsockopt(fd, SOL_SOCKET, SO_RCVBUF, granted_bytes, &length) == 0;
}

/* Once a queue: its sockets are granted the same. */
static void report_receive_buffer(int fd, const struct tt_udp *udp)
{
    bool automatic = udp->options.receive_buffer_bytes == TT_AUTO;
    int asked = wanted_receive_buffer(udp), granted = 0;

    if (granted_buffer(fd, &granted) && granted / 2 < asked) {
        TT_LOG(TT_PART_FABRIC, automatic ? TT_LOG_INFO : TT_LOG_WARN,
               "receive buffer: asked for %d bytes, got %d (sysctl net.core.rmem_max)", asked, granted / 2);
    }
}

static struct ip_mreqn membership_of(const struct tt_udp *udp, const struct tt_mcast_queue_options *options)
{
    return (struct ip_mreqn){.imr_multiaddr.s_addr = options->address.group_be,
                             .imr_address.s_addr = tt_ip_to_ipv4(udp->options.interface.ip),
                             .imr_ifindex = (int)udp->options.interface.index};
}

tutti_status tt_udp_socket_receive(const struct tt_udp *udp, const struct tt_mcast_queue_options *options, int *fd)
{
    char subgroup[SUBGROUP_TEXT_BYTES];
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_addr.s_addr = options->address.group_be, .sin_port = htons(options->address.port)};
    struct ip_mreqn membership = membership_of(udp, options);

    if (!IN_MULTICAST(ntohl(options->address.group_be)) || options->address.port == 0) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_INVALID_ARGUMENT, "%s: not a multicast address and port",
                        format_subgroup(udp, options, subgroup));
    }
    int opened = socket_open();
    if (opened < 0) {
        return fail(-1, udp, options, "socket");
    }
    /* IP_MULTICAST_ALL=0: only what came through the interface that this socket joined on. */
    if (!set_int(opened, SOL_SOCKET, SO_REUSEADDR, 1) || !set_int(opened, IPPROTO_IP, IP_MULTICAST_ALL, 0)) {
        return fail(opened, udp, options, "socket options");
    }
    if (!filter_own(opened, options)) {
        return fail(opened, udp, options, "packet filter");
    }
    size_receive_buffer(opened, udp);
    report_receive_buffer(opened, udp);
    if (bind(opened, (const struct sockaddr *)&address, sizeof(address)) != 0) {
        return fail_bind(opened, udp, options);
    }
    if (setsockopt(opened, IPPROTO_IP, IP_ADD_MEMBERSHIP, &membership, sizeof(membership)) != 0) {
        return fail_join(opened, udp, options);
    }
    *fd = opened;
    return TUTTI_OK;
}

void tt_udp_socket_join_again(const struct tt_udp *udp, const struct tt_mcast_queue_options *options, int fd)
{
    struct ip_mreqn membership = membership_of(udp, options);
    char subgroup[SUBGROUP_TEXT_BYTES];

    (void)setsockopt(fd, IPPROTO_IP, IP_DROP_MEMBERSHIP, &membership, sizeof(membership));
    if (setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &membership, sizeof(membership)) != 0) {
        TT_LOG(TT_PART_FABRIC, TT_LOG_WARN, "%s: joining again: %s", format_subgroup(udp, options, subgroup),
               strerror(errno));
    }
}

tutti_status tt_udp_socket_send(const struct tt_udp *udp, const struct tt_mcast_queue_options *options, int *fd,
                                uint16_t *port_be)
{
    struct sockaddr_in local = {.sin_family = AF_INET, .sin_addr.s_addr = tt_ip_to_ipv4(udp->options.interface.ip)};
    socklen_t length = sizeof(local);
    struct ip_mreqn interface = {.imr_address = local.sin_addr, .imr_ifindex = (int)udp->options.interface.index};
    bool loop = udp->options.loop || udp->options.interface.loopback;

    int opened = socket_open();
    if (opened < 0) {
        return fail(-1, udp, options, "socket");
    }
    /* Either kind of datagram leaves by this interface, whatever the routes say. */
    if (setsockopt(opened, IPPROTO_IP, IP_MULTICAST_IF, &interface, sizeof(interface)) != 0 ||
        !set_int(opened, IPPROTO_IP, IP_UNICAST_IF, (int)htonl(udp->options.interface.index))) {
        return fail(opened, udp, options, "choosing the interface for sending");
    }
    /* IP_RECVERR makes a full queue of the network device an error of the send instead of a silent loss. */
    if (!set_int(opened, IPPROTO_IP, IP_MULTICAST_LOOP, loop) ||
        !set_int(opened, IPPROTO_IP, IP_MULTICAST_TTL, (int)udp->options.ttl) ||
        !set_int(opened, IPPROTO_IP, IP_RECVERR, 1) ||
        (udp->options.traffic_class != 0 && !set_int(opened, IPPROTO_IP, IP_TOS, (int)udp->options.traffic_class))) {
        return fail(opened, udp, options, "socket options");
    }
    if (!set_int(opened, SOL_SOCKET, SO_SNDBUFFORCE, TT_UDP_SEND_BUFFER_BYTES)) {
        set_int(opened, SOL_SOCKET, SO_SNDBUF,
                TT_UDP_SEND_BUFFER_BYTES); /* cut to what the system allows: fewer calls' worth */
    }
    /* Until it is connected it takes whatever comes: a member that was introduced sooner may send already. */
    size_receive_buffer(opened, udp);
    if (bind(opened, (const struct sockaddr *)&local, sizeof(local)) != 0 ||
        getsockname(opened, (struct sockaddr *)&local, &length) != 0) {
        return fail(opened, udp, options, "bind to the interface's address");
    }
    *fd = opened;
    *port_be = local.sin_port;
    return TUTTI_OK;
}

tutti_status tt_udp_socket_connect(const struct tt_udp *udp, const struct tt_mcast_queue_options *options, int fd,
                                   uint32_t address_be, uint16_t port_be)
{
    struct sockaddr_in peer = {.sin_family = AF_INET, .sin_addr.s_addr = address_be, .sin_port = port_be};

    return connect(fd, (const struct sockaddr *)&peer, sizeof(peer)) == 0 ? TUTTI_OK
                                                                          : fail(-1, udp, options, "connect");
}

/*
 * What the system charges to the receive buffer for one datagram that carries `chunk_bytes`: the memory that holds it,
 * not its length. Found by filling the buffer of a queue that nobody polls, on loopback and through veth (Linux 6.18,
 * headers of 20 bytes); charge of a chunk of 100, 512, 1000, 1452, 4096, 8192, 16384, 65487 bytes:
 *     as a datagram of its own   832  1280  2304  2304  8448  16640  17332  67650
 *     in a super-packet          133   546  1040  1498  4203   8355  16777  67650
 * A datagram of its own lies in one allocation, rounded up to a power of two, with 256 bytes for its descriptor; from
 * 16 KiB on in pages, which are charged as far as they are used, but for the rest of every 32 KiB. Whether datagrams
 * arrive as super-packets depends on the sender, the path and the adapter, so that nothing may be built on it. Network
 * adapters' drivers commonly give a page to each frame.
 */
static uint64_t packet_of(uint32_t chunk_bytes)
{
    return (uint64_t)chunk_bytes + TT_DATAGRAM_HEADER_BYTES + TT_UDP_IP_HEADERS_BYTES;
}

enum { LINEAR_OVERHEAD = 400, MOST_LINEAR = 16384 };

/* The allocation that holds the packet, or its beginning. */
static uint64_t linear_of(uint32_t chunk_bytes)
{
    uint64_t linear = 1024;

    while (linear < packet_of(chunk_bytes) + LINEAR_OVERHEAD && linear < MOST_LINEAR) {
        linear *= 2;
    }
    return linear;
}

static uint64_t charge_of(uint32_t chunk_bytes, bool loopback)
{
    enum { DESCRIPTOR = 256, PAGED_OVERHEAD = 1024, PAGED_SHARE = 32, ADAPTER_MINIMUM = 4096 + 768 };
    uint64_t packet_bytes = packet_of(chunk_bytes), linear = linear_of(chunk_bytes);
    uint64_t paged = packet_bytes + PAGED_OVERHEAD + packet_bytes / PAGED_SHARE;
    uint64_t charge = linear + DESCRIPTOR > paged ? linear + DESCRIPTOR : paged;
    return loopback || charge > ADAPTER_MINIMUM ? charge : ADAPTER_MINIMUM;
}

/* The system gives back what has been read only once that is a quarter of the buffer: three quarters count. */
static uint64_t depth_of(const struct tt_udp *udp, int granted_bytes, uint32_t chunk_bytes)
{
    uint64_t usable_bytes = (uint64_t)granted_bytes / 4 * 3;

    return usable_bytes / charge_of(chunk_bytes, udp->options.interface.loopback);
}

/*
 * Where the buffer holds less than a window begins with (docs/flow.md), chunks that just fit into an allocation make it
 * hold more: of 208 KiB, what an ordinary user gets, 37 chunks of 7,744 bytes, but 19 of 8,192. For a little: they are
 * not much shorter.
 */
uint32_t tt_udp_socket_good_chunk(const struct tt_udp *udp)
{
    enum { ENOUGH_BYTES = 256 * 1024, LINE_BYTES = 64 };
    uint32_t longest =
        udp->max_chunk_bytes < TT_MCAST_GOOD_CHUNK_BYTES ? udp->max_chunk_bytes : TT_MCAST_GOOD_CHUNK_BYTES;
    uint64_t fits = linear_of(longest) / 2 - packet_of(0) - LINEAR_OVERHEAD;
    int granted_bytes = 0, fd;
    bool is_enough;

    fits = fits / LINE_BYTES * LINE_BYTES;
    if (fits < longest / 4 * 3 || fits > longest || (fd = tt_socket_open(AF_INET, SOCK_DGRAM)) < 0) {
        return longest; /* without a descriptor a queue will say why */
    }
    size_receive_buffer(fd, udp);
    is_enough = granted_buffer(fd, &granted_bytes) && depth_of(udp, granted_bytes, longest) * longest >= ENOUGH_BYTES;
    tt_socket_close(fd);
    return is_enough ? longest : (uint32_t)fits;
}

tutti_status tt_udp_socket_depth(const struct tt_udp *udp, const struct tt_mcast_queue_options *options, int fd,
                                 uint32_t *depth_chunks, uint32_t *capacity)
{
    enum { LEAST_CHARGE = 512 }; /* of an empty datagram: its descriptor and the smallest buffer */
    int granted_bytes = 0;

    if (!granted_buffer(fd, &granted_bytes)) {
        return fail(-1, udp, options, "asking for the receive buffer's size");
    }
    uint64_t depth = depth_of(udp, granted_bytes, options->chunk_bytes);
    *depth_chunks = depth > 0 ? (uint32_t)depth : 1; /* an empty buffer takes one datagram of any size */
    *capacity = (uint32_t)granted_bytes / LEAST_CHARGE + 1;
    return TUTTI_OK;
}
