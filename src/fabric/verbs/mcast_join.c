/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Membership in a multicast group.
 *
 * Normal path: an identifier of librdmacm, bound to the port's address, joins; the system sends the IGMP report (RoCE)
 * or asks the subnet's manager (InfiniBand), and the event says what the group is called on the fabric and how to reach
 * it. A queue pair is attached to the group by that name. Leaving undoes both, in the opposite order.
 * Failures: each names the group and the device. A join that is not answered in time is an error as well, and so is an
 * address that the system takes for another device's or port's, which would join there.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "fabric/verbs/mcast_queue.h"

enum { WHAT_BYTES = 256 };

#define JOIN_PATIENCE_NS (5 * TT_NS_PER_S) /* a subnet's manager takes milliseconds, a system none */

const char *tt_verbs_format_group(const struct tt_verbs_queue *queue, char text[TT_VERBS_GROUP_TEXT_BYTES])
{
    const struct tt_verbs_device *device = queue->mcast->device;
    char group[INET6_ADDRSTRLEN] = "", own[INET_ADDRSTRLEN] = "";

    if (queue->mcast->given.is_set) {
        inet_ntop(AF_INET6, queue->mcast->given.gid.raw, group, sizeof group);
    } else {
        inet_ntop(AF_INET, &queue->options.address.group_be, group, sizeof group);
    }
    inet_ntop(AF_INET, &device->address_be, own, sizeof own);
    snprintf(text, TT_VERBS_GROUP_TEXT_BYTES, "%s on %s (%s)", group, device->name, own);
    return text;
}

tutti_status tt_verbs_queue_error(const struct tt_verbs_queue *queue, const char *what, int error)
{
    char text[TT_VERBS_GROUP_TEXT_BYTES];
    bool exhausted =
        error == ENOMEM || error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOSPC || error == EAGAIN;

    return tt_error(TT_PART_FABRIC, exhausted ? TUTTI_ERR_NO_RESOURCE : TUTTI_ERR_IO, "%s: %s: %s",
                    tt_verbs_format_group(queue, text), what, strerror(error));
}

/* Keeps what the event says of the group. */
static void note_group(struct tt_verbs_queue *queue, const struct rdma_ud_param *param)
{
    struct tt_verbs_membership *membership = &queue->membership;
    const struct tt_verbs_device *device = queue->mcast->device;

    membership->joined = true;
    membership->gid = param->ah_attr.grh.dgid;
    membership->lid = param->ah_attr.dlid;
    membership->queue_key = param->qkey;
    membership->path = param->ah_attr;
    membership->path.port_num = device->port;
    if (device->roce) { /* else the subnet's manager has said all of it, the service level too */
        membership->path.is_global = 1;
        membership->path.sl = device->service_level;
        membership->path.grh.sgid_index = device->gid_index; /* what the others know this member by */
        membership->path.grh.hop_limit = queue->mcast->ttl;  /* as udp's */
        membership->path.grh.traffic_class = device->traffic_class;
        membership->lid = 0;
    }
}

/* Waits for the answer to this queue's join; answers to none are thrown away. */
static tutti_status await_join(struct tt_verbs_queue *queue)
{
    struct rdma_event_channel *events = queue->mcast->events;
    uint64_t deadline_ns = tt_clock_now_ns() + JOIN_PATIENCE_NS, now_ns;

    while ((now_ns = tt_clock_now_ns()) < deadline_ns) {
        struct pollfd wait = {.fd = events->fd, .events = POLLIN};
        struct rdma_cm_event *event;

        if (poll(&wait, 1, (int)((deadline_ns - now_ns) / TT_NS_PER_MS) + 1) <= 0 ||
            rdma_get_cm_event(events, &event) != 0) {
            continue;
        }
        bool own = event->id == queue->membership.id;
        bool joined = own && event->event == RDMA_CM_EVENT_MULTICAST_JOIN && event->status == 0;
        int error = event->status < 0 ? -event->status : event->status;
        const char *name = rdma_event_str(event->event);
        if (joined) {
            note_group(queue, &event->param.ud);
        }
        rdma_ack_cm_event(event);
        if (joined) {
            return TUTTI_OK;
        }
        if (own) {
            return tt_verbs_queue_error(queue, name, error != 0 ? error : EIO);
        }
    }
    return tt_verbs_queue_error(queue, "joining the group", ETIMEDOUT);
}

/* Two devices may have one address, and an IPoIB interface is on a port of its own. */
static tutti_status check_bound(const struct tt_verbs_queue *queue)
{
    const struct tt_verbs_device *device = queue->mcast->device;
    const struct rdma_cm_id *id = queue->membership.id;
    const char *name = id->verbs != NULL ? ibv_get_device_name(id->verbs->device) : "no RDMA device";
    char what[WHAT_BYTES];

    if (id->verbs != NULL && id->port_num == device->port && strcmp(name, device->name) == 0) {
        return TUTTI_OK;
    }
    snprintf(what, sizeof what, "the address is of %s, port %u, for the system, and not of %s, port %u", name,
             id->port_num, device->name, device->port);
    return tt_verbs_queue_error(queue, what, ENODEV);
}

tutti_status tt_verbs_join(struct tt_verbs_queue *queue)
{
    struct tt_verbs_membership *membership = &queue->membership;
    struct tt_verbs_mcast *mcast = queue->mcast;
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = mcast->device->address_be};
    char text[TT_VERBS_GROUP_TEXT_BYTES];

    if (mcast->given.is_set) {
        return tt_verbs_given_join(queue);
    }
    membership->group = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = queue->options.address.group_be};
    if (!IN_MULTICAST(ntohl(queue->options.address.group_be))) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_INVALID_ARGUMENT, "%s: not a multicast address",
                        tt_verbs_format_group(queue, text));
    }
    if (rdma_create_id(mcast->events, &membership->id, NULL, RDMA_PS_UDP) != 0) {
        return tt_verbs_queue_error(queue, "an identifier of librdmacm", errno);
    }
    if (rdma_bind_addr(membership->id, (struct sockaddr *)&own) != 0) {
        return tt_verbs_queue_error(queue, "binding to the port's address", errno);
    }
    tutti_status status = check_bound(queue);
    if (status != TUTTI_OK) {
        return status;
    }
    pthread_mutex_lock(&mcast->joins);
    status = rdma_join_multicast(membership->id, (struct sockaddr *)&membership->group, queue) != 0
                 ? tt_verbs_queue_error(queue, "joining the group", errno)
                 : await_join(queue);
    pthread_mutex_unlock(&mcast->joins);
    return status;
}

void tt_verbs_leave(struct tt_verbs_queue *queue)
{
    struct tt_verbs_membership *membership = &queue->membership;

    tt_verbs_given_leave(queue);
    if (membership->id == NULL) {
        return;
    }
    if (membership->joined && rdma_leave_multicast(membership->id, (struct sockaddr *)&membership->group) != 0) {
        char text[TT_VERBS_GROUP_TEXT_BYTES];
        TT_LOG(TT_PART_FABRIC, TT_LOG_WARN, "%s: leaving the group: %s", tt_verbs_format_group(queue, text),
               strerror(errno));
    }
    rdma_destroy_id(membership->id); /* ends a join that is under way, too */
}
