/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Multicast groups that are given, not found: for ports that librdmacm cannot serve, as those of InfiniBand without
 * IPoIB.
 *
 * Normal path: all queues use the one group that the setting MGID names; their queue keys keep most of what is others'
 * from them, the names of their members the rest. On InfiniBand the subnet's manager is expected to have made the group
 * and to deliver it to this port. On RoCE the system has to listen to the group's IP address, which a socket does that
 * receives nothing.
 *
 * Failures: a text that is no multicast GID, or one that this port cannot use; each names the setting.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/log.h"
#include "base/socket.h"
#include "fabric/verbs/mcast_queue.h"

enum { IPV4_OFFSET = 12, MLID_LEAST = 0xC000, MLID_MOST = 0xFFFE };

static bool is_multicast(const union ibv_gid *gid)
{
    return gid->raw[0] == 0xFF || (tt_verbs_gid_is_ipv4(gid) && (gid->raw[IPV4_OFFSET] & 0xF0) == 0xE0);
}

/* "0xc001" behind the slash. */
static bool read_lid(const char *text, uint16_t *lid)
{
    char *end;
    unsigned long value = strtoul(text, &end, 0);

    *lid = (uint16_t)value;
    return *text != '\0' && *end == '\0' && value >= MLID_LEAST && value <= MLID_MOST;
}

tutti_status tt_verbs_given_parse(const struct tt_verbs_device *device, const char *text, struct tt_verbs_given *given)
{
    char gid[INET6_ADDRSTRLEN];
    size_t length = strcspn(text, "/");
    bool has_lid = text[length] == '/';

    *given = (struct tt_verbs_given){.is_set = text[0] != '\0'};
    if (!given->is_set) {
        return TUTTI_OK;
    }
    memcpy(gid, text, length < sizeof gid ? length : 0);
    gid[length < sizeof gid ? length : 0] = '\0';
    if (inet_pton(AF_INET6, gid, given->gid.raw) != 1 || !is_multicast(&given->gid) ||
        (has_lid && !read_lid(text + length + 1, &given->lid))) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_INVALID_ARGUMENT,
                        "TUTTI_MGID=%s: not a multicast GID, as ff12:401b::1, or with its LID ff12:401b::1/0xc001",
                        text);
    }
    if (!device->roce && !has_lid) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_INVALID_ARGUMENT,
                        "TUTTI_MGID=%s: port %u of %s is InfiniBand's and needs the group's LID too, as %s/0xc001",
                        text, device->port, device->name, text);
    }
    if (device->roce && tt_verbs_gid_is_ipv4(&given->gid) != device->gid_is_ipv4) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_INVALID_ARGUMENT,
                        "TUTTI_MGID=%s: the GID of %s, which TUTTI_GID chooses, is IPv%d's", text, device->name,
                        device->gid_is_ipv4 ? 4 : 6);
    }
    return TUTTI_OK;
}

/* The system accepts the group's datagrams at the port's interface until the socket is closed. */
static bool listen_to_group(struct tt_verbs_queue *queue)
{
    struct tt_verbs_membership *membership = &queue->membership;
    const struct tt_verbs_device *device = queue->mcast->device;
    bool is_ipv4 = tt_verbs_gid_is_ipv4(&membership->gid);
    struct ibv_gid_entry entry;

    membership->socket = tt_socket_open(is_ipv4 ? AF_INET : AF_INET6, SOCK_DGRAM);
    membership->listens = membership->socket >= 0;
    if (!membership->listens) {
        return false;
    }
    errno = ibv_query_gid_ex(queue->receiver.lane->context, device->port, device->gid_index, &entry, 0);
    if (errno != 0) {
        return false;
    }
    if (is_ipv4) {
        struct ip_mreqn group = {.imr_ifindex = (int)entry.ndev_ifindex};
        memcpy(&group.imr_multiaddr, membership->gid.raw + IPV4_OFFSET, sizeof group.imr_multiaddr);
        return setsockopt(membership->socket, IPPROTO_IP, IP_ADD_MEMBERSHIP, &group, sizeof group) == 0;
    }
    struct ipv6_mreq group = {.ipv6mr_interface = entry.ndev_ifindex};
    memcpy(&group.ipv6mr_multiaddr, membership->gid.raw, sizeof group.ipv6mr_multiaddr);
    return setsockopt(membership->socket, IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP, &group, sizeof group) == 0;
}

tutti_status tt_verbs_given_join(struct tt_verbs_queue *queue)
{
    struct tt_verbs_membership *membership = &queue->membership;
    const struct tt_verbs_device *device = queue->mcast->device;

    membership->gid = queue->mcast->given.gid;
    membership->lid = device->roce ? 0 : queue->mcast->given.lid;
    membership->path = (struct ibv_ah_attr){.dlid = membership->lid,
                                            .sl = device->service_level,
                                            .is_global = 1,
                                            .port_num = device->port,
                                            .grh = {.dgid = membership->gid,
                                                    .sgid_index = device->gid_index,
                                                    .hop_limit = queue->mcast->ttl,
                                                    .traffic_class = device->traffic_class}};
    if (device->roce && !listen_to_group(queue)) {
        return tt_verbs_queue_error(queue, "listening to the group's address", errno);
    }
    return TUTTI_OK;
}

void tt_verbs_given_leave(struct tt_verbs_queue *queue)
{
    if (queue->membership.listens) {
        tt_socket_close(queue->membership.socket);
    }
}
