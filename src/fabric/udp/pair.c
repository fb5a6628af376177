/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Introducing the members of a subgroup to each other, and what is different where there are two.
 *
 * Normal path: the name of a queue is address and port of its sending socket. With more or fewer than two members that
 * socket is connected to the subgroup, and the names are not needed: a datagram says who sent it. Two connect to each
 * other, and each receives from the socket that it sends with; the subgroup is left. What the other one sent before
 * waits in the socket by then, which takes everything until it is connected; what strangers sent too, for poll to drop.
 * Failures: names of other providers; a peer to which the system knows no way. A peer that has gone is none: the
 * network says so as errors of later calls, which are forgotten. Who has gone is for the reliable side to find out.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "fabric/udp/queue.h"

enum { NAME_PORT_OFFSET = 4, NAME_MAGIC_OFFSET = 20, MAGIC_BYTES = 4, PAIR = 2 };

/* Where other providers have theirs. */
static const uint8_t name_magic[MAGIC_BYTES] = {'I', 'P', 0, 1};

/* --- Names -------------------------------------------------------------------------------------------------------- */

void tt_udp_describe(const struct tt_mcast_queue *queue, uint8_t *name)
{
    const struct tt_udp_queue *udp_queue = (const struct tt_udp_queue *)queue;
    uint32_t address_be = tt_ip_to_ipv4(udp_queue->udp->options.interface.ip);

    memset(name, 0, TT_MCAST_NAME_BYTES);
    memcpy(name, &address_be, sizeof(address_be));
    memcpy(name + NAME_PORT_OFFSET, &udp_queue->port_be, sizeof(udp_queue->port_be));
    memcpy(name + NAME_MAGIC_OFFSET, name_magic, MAGIC_BYTES);
}

static bool is_nobody(const uint8_t *name)
{
    static const uint8_t nobody[TT_MCAST_NAME_BYTES];

    return memcmp(name, nobody, sizeof(nobody)) == 0;
}

/* --- Introduction ------------------------------------------------------------------------------------------------- */

/* Connects to the other member, if there is one by now. */
static tutti_status connect_pair(struct tt_udp_queue *queue, const uint8_t *name)
{
    uint8_t own[TT_MCAST_NAME_BYTES];
    uint32_t address_be;
    uint16_t port_be;

    if (is_nobody(name)) {
        return TUTTI_OK;
    }
    tt_udp_describe(&queue->base, own);
    if (memcmp(name, own, sizeof(own)) == 0) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_MISMATCH, "ranks 0 and 1 have the same address and port %u",
                        ntohs(queue->port_be));
    }
    memcpy(&address_be, name, sizeof(address_be));
    memcpy(&port_be, name + NAME_PORT_OFFSET, sizeof(port_be));
    return tt_udp_socket_connect(queue->udp, &queue->options, queue->sender.fd, address_be, port_be);
}

/* Receives from the socket that sends, under the number that the socket of the subgroup had: one number may be waited
 * for room, the other for chunks. */
static tutti_status receive_from_sender(struct tt_udp_queue *queue)
{
    struct tt_udp_receiver *receiver = &queue->receiver;

    if (dup3(queue->sender.fd, receiver->fd, O_CLOEXEC) < 0) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_NO_RESOURCE, "receiving on %s from the other rank: %s",
                        queue->udp->options.interface.name, strerror(errno));
    }
    receiver->merging = receiver->mergeable && tt_udp_socket_merge(receiver->fd, true);
    queue->pair = true;
    return TUTTI_OK;
}

tutti_status tt_udp_introduce(struct tt_mcast_queue *queue, const void *names, uint32_t stride_bytes, uint32_t size)
{
    struct tt_udp_queue *udp_queue = (struct tt_udp_queue *)queue;
    const struct tt_mcast_queue_options *options = &udp_queue->options;
    tutti_status status;

    assert(!udp_queue->introduced || udp_queue->pair == (size == PAIR));
    for (uint32_t rank = 0; rank < size; rank++) {
        const uint8_t *name = (const uint8_t *)names + (size_t)rank * stride_bytes;
        if (!is_nobody(name) && memcmp(name + NAME_MAGIC_OFFSET, name_magic, MAGIC_BYTES) != 0) {
            return tt_error(TT_PART_FABRIC, TUTTI_ERR_MISMATCH, "rank %u does not use the multicast provider udp",
                            rank);
        }
    }
    if (size == PAIR) {
        assert(options->rank < PAIR);
        status = connect_pair(udp_queue, (const uint8_t *)names + (size_t)(1 - options->rank) * stride_bytes);
        if (status == TUTTI_OK && !udp_queue->introduced) {
            status = receive_from_sender(udp_queue);
        }
    } else {
        status = tt_udp_socket_connect(udp_queue->udp, options, udp_queue->sender.fd, options->address.group_be,
                                       htons(options->address.port));
    }
    udp_queue->introduced |= status == TUTTI_OK;
    return status;
}

/* --- News of the peer, and what somebody forges as such ----------------------------------------------------------- */

void tt_udp_forget_news(const struct tt_udp_queue *queue)
{
    struct msghdr nothing = {0};

    for (uint32_t i = 0; i < queue->receiver.capacity; i++) {
        if (recvmsg(queue->sender.fd, &nothing, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) {
            break;
        }
    }
}

bool tt_udp_is_news(const struct tt_udp_queue *queue, int error)
{
    if (error == EAGAIN || error == ENOBUFS || error == ENOMEM) {
        return false;
    }
    tt_udp_forget_news(queue);
    return true;
}

bool tt_udp_is_absence(int error)
{
    return error == ECONNREFUSED || error == EDESTADDRREQ;
}
