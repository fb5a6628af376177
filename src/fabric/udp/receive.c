/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The receive side: many datagrams a system call, split and judged in place.
 *
 * Normal path: recvmmsg() fills slots of the staging ring, each with a super-packet (UDP_GRO, whose segment size comes
 * as a control message) or with a single datagram. poll walks through the slots, datagram by datagram, and hands out
 * those that are the group's. A super-packet may hold more than the caller asked for: slot and offset remember where
 * the next poll goes on. Slots are filled from the first again once all have been split, because by then every chunk
 * has been reposted (mcast.h); so few slots are in use, and stay in the cache, while messages are large.
 * Failures: foreign and damaged datagrams are counted and skipped. Errors of the socket are logged once; the next poll
 * tries again.
 */
#include <assert.h>
#include <errno.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "fabric/udp/queue.h"

enum { PAGE_BYTES = 4096 };

static uint8_t *slot_address(const struct tt_udp_receiver *receiver, uint32_t slot)
{
    return receiver->staging + (size_t)slot * TT_UDP_SLOT_STRIDE_BYTES;
}

tutti_status tt_udp_receiver_init(struct tt_udp_queue *queue, int fd)
{
    struct tt_udp_receiver *receiver = &queue->receiver;
    size_t staging_bytes = (size_t)TT_UDP_RECEIVE_MESSAGES * TT_UDP_SLOT_STRIDE_BYTES;
    void *staging = NULL;

    if (posix_memalign(&staging, PAGE_BYTES, staging_bytes) != 0) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_NO_MEMORY, "no memory for a staging ring of %zu bytes",
                        staging_bytes);
    }
    receiver->fd = fd;
    receiver->staging = staging;
    receiver->per_message = 1;
    for (uint32_t i = 0; i < TT_UDP_RECEIVE_MESSAGES; i++) {
        receiver->vectors[i] = (struct iovec){slot_address(receiver, i), TT_UDP_SLOT_BYTES};
        receiver->messages[i].msg_hdr = (struct msghdr){
            .msg_iov = &receiver->vectors[i], .msg_iovlen = 1, .msg_control = receiver->controls[i].bytes};
    }
    return TUTTI_OK;
}

/* The length of a message's datagrams but the last; its own if it is a single one. */
static uint32_t segment_size(struct mmsghdr *message)
{
    for (struct cmsghdr *header = CMSG_FIRSTHDR(&message->msg_hdr); header != NULL;
         header = CMSG_NXTHDR(&message->msg_hdr, header)) {
        if (header->cmsg_level == SOL_UDP && header->cmsg_type == UDP_GRO) {
            int size = 0;
            memcpy(&size, CMSG_DATA(header), sizeof(size));
            if (size > 0 && (uint32_t)size < message->msg_len) {
                return (uint32_t)size;
            }
        }
    }
    return message->msg_len;
}

/* The datagram in the current slot at the current offset: true if it is a chunk of this group's other members. */
static bool judge(struct tt_udp_queue *queue, uint32_t length_bytes, struct tt_receive_chunk *chunk)
{
    struct tt_udp_receiver *receiver = &queue->receiver;
    const uint8_t *bytes = slot_address(receiver, receiver->slot) + receiver->offset_bytes;
    struct tt_datagram datagram;

    enum tt_datagram_verdict verdict = tt_datagram_decode(bytes, length_bytes, queue->options.address.key, &datagram);
    if (verdict == TT_DATAGRAM_FOREIGN) {
        tt_udp_count(&receiver->drops_key, 1);
        return false;
    }
    bool cut = (receiver->messages[receiver->slot].msg_hdr.msg_flags & MSG_TRUNC) != 0;
    if (verdict == TT_DATAGRAM_WRONG_LENGTH || cut || datagram.length_bytes > queue->options.chunk_bytes) {
        tt_udp_count(&receiver->drops_length, 1);
        return false;
    }
    if (datagram.source == queue->options.rank) {
        tt_udp_count(&receiver->drops_own, 1);
        return false;
    }
    *chunk = (struct tt_receive_chunk){.imm = datagram.imm,
                                       .length_bytes = datagram.length_bytes,
                                       .source = datagram.source,
                                       .staging = receiver->slot,
                                       .address = bytes + TT_DATAGRAM_HEADER_BYTES};
    return true;
}

/* Splits filled slots into chunks until these are `max` or no slot is left. */
static uint32_t split(struct tt_udp_queue *queue, struct tt_receive_chunk *chunks, uint32_t max)
{
    struct tt_udp_receiver *receiver = &queue->receiver;
    uint32_t produced = 0;

    while (produced < max && receiver->slot < receiver->filled) {
        struct mmsghdr *message = &receiver->messages[receiver->slot];
        if (receiver->offset_bytes == 0) {
            receiver->segment_bytes = segment_size(message);
        }
        uint32_t length_bytes = message->msg_len - receiver->offset_bytes;
        if (length_bytes > receiver->segment_bytes) {
            length_bytes = receiver->segment_bytes;
        }
        if (judge(queue, length_bytes, &chunks[produced])) {
            produced++;
        }
        receiver->offset_bytes += length_bytes;
        if (receiver->offset_bytes >= message->msg_len) {
            receiver->offset_bytes = 0;
            receiver->slot++;
        }
    }
    return produced;
}

/* Counts what has come in slots first .. first+count-1, and learns how much a message carries. */
static void account_received(struct tt_udp_receiver *receiver, uint32_t first, uint32_t count)
{
    uint64_t bytes = 0;
    uint64_t datagrams = 0;
    uint32_t most = 1;

    for (uint32_t i = first; i < first + count; i++) {
        struct mmsghdr *message = &receiver->messages[i];
        uint32_t segment_bytes = segment_size(message);
        uint32_t here = message->msg_len == 0 ? 1 : (message->msg_len + segment_bytes - 1) / segment_bytes;
        bytes += message->msg_len;
        datagrams += here;
        most = here > most ? here : most;
    }
    receiver->per_message = most;
    tt_udp_count(&receiver->bytes, bytes);
    tt_udp_count(&receiver->datagrams, datagrams);
}

/*
 * Receives into the free slots about as many messages as carry `datagrams`: more would only wait in staging, outside
 * the cache. True if there may be more to receive and room for it.
 */
static bool fetch(struct tt_udp_queue *queue, uint32_t datagrams)
{
    struct tt_udp_receiver *receiver = &queue->receiver;
    uint32_t first = receiver->filled;
    uint32_t wanted = datagrams / receiver->per_message + (datagrams % receiver->per_message != 0);

    if (wanted > TT_UDP_RECEIVE_MESSAGES - first) {
        wanted = TT_UDP_RECEIVE_MESSAGES - first;
    }
    if (wanted == 0) {
        return false;
    }
    for (uint32_t i = first; i < first + wanted; i++) {
        receiver->messages[i].msg_hdr.msg_controllen = sizeof(receiver->controls[i].bytes);
    }
    int count;
    do {
        count = recvmmsg(receiver->fd, &receiver->messages[first], wanted, MSG_DONTWAIT, NULL);
    } while (count < 0 && errno == EINTR);
    if (count <= 0) {
        if (count < 0 && errno != EAGAIN && !receiver->complained) {
            receiver->complained = true;
            TT_LOG(TT_PART_FABRIC, TT_LOG_WARN, "receiving on %s: %s", queue->udp->options.interface.name,
                   strerror(errno));
        }
        return false;
    }
    receiver->filled += (uint32_t)count;
    account_received(receiver, first, (uint32_t)count);
    return true;
}

uint32_t tt_udp_poll(struct tt_mcast_queue *queue, struct tt_receive_chunk *chunks, uint32_t max)
{
    struct tt_udp_queue *udp_queue = (struct tt_udp_queue *)queue;
    struct tt_udp_receiver *receiver = &udp_queue->receiver;

    assert(receiver->lent == 0);
    if (receiver->slot == receiver->filled) {
        receiver->slot = 0;
        receiver->filled = 0;
    }
    uint32_t produced = split(udp_queue, chunks, max);
    /* What was left over is handed out alone, so that the slots are free again at the next poll. Only a call that
     * brought nothing of the group is repeated, while there is room: 0 means that no chunk waits in the ring. */
    while (produced == 0 && max > 0 && fetch(udp_queue, max)) {
        produced = split(udp_queue, chunks, max);
    }
    receiver->lent = produced;
    return produced;
}

void tt_udp_repost(struct tt_mcast_queue *queue, const struct tt_receive_chunk *chunks, uint32_t count)
{
    struct tt_udp_receiver *receiver = &((struct tt_udp_queue *)queue)->receiver;

    (void)chunks; /* all at once, when the next poll finds every slot split */
    assert(count <= receiver->lent);
    receiver->lent -= count;
}
