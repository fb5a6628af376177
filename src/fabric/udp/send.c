/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The send side: as many datagrams a system call as possible, payload straight from the caller's memory.
 *
 * Normal path: chunks of equal length become super-packets (UDP_SEGMENT), each of which the network stack carries as
 * one packet and cuts into datagrams as late as it can, perhaps in the adapter; the last datagram of a super-packet
 * may be shorter. sendmmsg() takes many super-packets. The system copies the payload, so that what is accepted is
 * also complete.
 * Failures: a full send queue ends the call early (accepted fewer). Some devices report everything that they drop as a
 * full queue, for ever (veth, if the other end's MTU is smaller): once that has lasted too long it is a loss. A system
 * or device that refuses super-packets is not asked again: the queue goes on with single datagrams. Any other refusal
 * loses the message's datagrams, which is legal for multicast; they are counted, the first is logged. What a pair's
 * socket says of the peer instead of sending (pair.c) refuses nothing: the next try sends.
 */
#include <assert.h>
#include <errno.h>
#include <netinet/udp.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "fabric/udp/queue.h"

/*
 * One system call's messages. A message is a super-packet or a single datagram. On the stack of whoever posts: a queue
 * needs it during a call only, and there are more queues than threads.
 */
struct batch {
    struct mmsghdr messages[TT_UDP_SEND_BATCH];
    union tt_udp_control controls[TT_UDP_SEND_BATCH];
    uint32_t chunks[TT_UDP_SEND_BATCH]; /* how many a message carries */
    struct iovec vectors[2 * TT_UDP_SEND_BATCH];
    uint8_t headers[TT_UDP_SEND_BATCH][TT_DATAGRAM_HEADER_BYTES];
};

enum { SMALL_BYTES = 4096 }; /* to copy so much costs less than to describe it */

/* Much longer than a device's queue needs to drain, and shorter than what a user notices; spent once a queue. */
#define FULL_LIMIT_NS (100 * TT_NS_PER_MS)

void tt_udp_sender_init(struct tt_udp_queue *queue, int fd)
{
    queue->sender.fd = fd;
    queue->sender.segmentation = !queue->udp->options.plain;
    queue->sender.patient = true;
}

/* How many chunks from the front can be one super-packet, 1 if none: the first length, and once a shorter one. */
static uint32_t count_segments(const struct tt_send_chunk *chunks, uint32_t count)
{
    uint32_t segment_bytes = chunks[0].length_bytes;
    uint32_t total_bytes = TT_DATAGRAM_HEADER_BYTES + segment_bytes;
    uint32_t segments = 1;

    while (segments < count && segments < TT_UDP_SEGMENTS) {
        uint32_t length_bytes = chunks[segments].length_bytes;
        total_bytes += TT_DATAGRAM_HEADER_BYTES + length_bytes;
        if (length_bytes > segment_bytes || total_bytes > TT_UDP_MAX_DATAGRAM_BYTES) {
            break;
        }
        segments++;
        if (length_bytes < segment_bytes) {
            break;
        }
    }
    return segments;
}

static void set_segment_size(struct msghdr *message, union tt_udp_control *control, uint32_t datagram_bytes)
{
    uint16_t size = (uint16_t)datagram_bytes;

    message->msg_control = control->bytes;
    message->msg_controllen = CMSG_SPACE(sizeof(size));
    struct cmsghdr *header = CMSG_FIRSTHDR(message);
    header->cmsg_level = SOL_UDP;
    header->cmsg_type = UDP_SEGMENT;
    header->cmsg_len = CMSG_LEN(sizeof(size));
    memcpy(CMSG_DATA(header), &size, sizeof(size));
}

static struct tt_datagram describe(const struct tt_udp_queue *queue, const struct tt_send_chunk *chunk)
{
    assert(chunk->length_bytes <= queue->options.chunk_bytes);
    return (struct tt_datagram){.key = queue->options.address.key,
                                .imm = chunk->imm,
                                .source = queue->options.rank,
                                .length_bytes = chunk->length_bytes};
}

/* Describes the chunks from the front as messages, as many as one system call takes; returns the number of these. */
static uint32_t build_messages(const struct tt_udp_queue *queue, struct batch *batch,
                               const struct tt_send_chunk *chunks, uint32_t count)
{
    uint32_t built = 0; /* chunks */
    uint32_t vector = 0;
    uint32_t messages = 0;

    if (count > TT_UDP_SEND_BATCH) {
        count = TT_UDP_SEND_BATCH;
    }
    for (; built < count; messages++) {
        struct msghdr *message = &batch->messages[messages].msg_hdr;
        uint32_t segments = queue->sender.segmentation ? count_segments(chunks + built, count - built) : 1;
        uint32_t first_vector = vector;

        *message = (struct msghdr){.msg_iov = &batch->vectors[first_vector]};
        if (segments > 1) {
            set_segment_size(message, &batch->controls[messages],
                             TT_DATAGRAM_HEADER_BYTES + chunks[built].length_bytes);
        }
        for (uint32_t end = built + segments; built < end; built++) {
            const struct tt_send_chunk *chunk = &chunks[built];
            struct tt_datagram datagram = describe(queue, chunk);
            tt_datagram_encode(&datagram, batch->headers[built]);
            batch->vectors[vector++] = (struct iovec){batch->headers[built], TT_DATAGRAM_HEADER_BYTES};
            if (chunk->length_bytes > 0) {
                batch->vectors[vector++] = (struct iovec){(void *)(uintptr_t)chunk->address, chunk->length_bytes};
            }
        }
        message->msg_iovlen = vector - first_vector;
        batch->chunks[messages] = segments;
    }
    return messages;
}

/* Accounts for messages that were sent; returns how many chunks they carried. */
static uint32_t account_sent(struct tt_udp_sender *sender, const struct batch *batch, uint32_t messages)
{
    uint32_t chunks = 0;
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < messages; i++) {
        chunks += batch->chunks[i];
        bytes += batch->messages[i].msg_len;
    }
    tt_udp_count(&sender->datagrams, chunks);
    tt_udp_count(&sender->bytes, bytes);
    return chunks;
}

/* After the system refused the first message: true if it is to be built again, as single datagrams. */
static bool give_up_segmentation(struct tt_udp_queue *queue, const struct batch *batch, int error)
{
    struct tt_udp_sender *sender = &queue->sender;
    bool refusal = error == EIO || error == EINVAL || error == EOPNOTSUPP || error == EMSGSIZE || error == ENOPROTOOPT;

    if (!refusal || batch->chunks[0] == 1) {
        return false;
    }
    sender->segmentation = false;
    TT_LOG(TT_PART_FABRIC, TT_LOG_INFO, "%s takes no super-packets (%s); going on with single datagrams",
           queue->udp->options.interface.name, strerror(error));
    return true;
}

/* Whether the system's refusal of the first message means that it may take it later. */
static bool is_full(struct tt_udp_sender *sender, uint32_t chunk_bytes, int error)
{
    if (error == EAGAIN) {
        return true; /* the socket's own buffer, which polls writable again */
    }
    if ((error != ENOBUFS && error != ENOMEM) || !sender->patient) {
        return false;
    }
    uint64_t now_ns = tt_clock_now_ns();
    if (sender->full_since_ns == 0) {
        sender->full_since_ns = now_ns;
    }
    sender->patient = now_ns - sender->full_since_ns < FULL_LIMIT_NS;
    sender->refused_bytes = chunk_bytes;
    return sender->patient;
}

/* The device takes messages. One that passes on only short ones (a veth whose other end has a smaller MTU) says for
 * ever that it is full, so short ones are no reason to wait for it with long ones again. */
static void note_taken(struct tt_udp_sender *sender, uint32_t chunk_bytes)
{
    sender->full_since_ns = 0;
    sender->patient |= chunk_bytes >= sender->refused_bytes;
}

/* Accounts for a first message that the system refused for good; returns how many chunks it carried. */
static uint32_t account_lost(struct tt_udp_queue *queue, const struct batch *batch, int error)
{
    struct tt_udp_sender *sender = &queue->sender;

    if (!sender->complained && !tt_udp_is_absence(error)) {
        sender->complained = true;
        TT_LOG(TT_PART_FABRIC, TT_LOG_WARN, "sending on %s: %s; this and further lost datagrams are only counted",
               queue->udp->options.interface.name, strerror(error));
    }
    tt_udp_count(&sender->errors, batch->chunks[0]);
    return batch->chunks[0];
}

/* A single small datagram, as most of those are that somebody waits for; false: refused, for a reason that the other
 * way finds out, unless it was news. */
static bool send_small(struct tt_udp_queue *queue, const struct tt_send_chunk *chunk)
{
    struct tt_datagram datagram = describe(queue, chunk);
    uint8_t bytes[TT_DATAGRAM_HEADER_BYTES + SMALL_BYTES];
    ssize_t sent;

    tt_datagram_encode(&datagram, bytes);
    if (chunk->length_bytes > 0) {
        memcpy(bytes + TT_DATAGRAM_HEADER_BYTES, chunk->address, chunk->length_bytes);
    }
    sent = send(queue->sender.fd, bytes, TT_DATAGRAM_HEADER_BYTES + chunk->length_bytes, MSG_DONTWAIT);
    if (sent < 0) {
        tt_udp_forget_news(queue);
        return false;
    }
    tt_udp_count(&queue->sender.datagrams, 1);
    tt_udp_count(&queue->sender.bytes, (uint64_t)sent);
    note_taken(&queue->sender, chunk->length_bytes);
    return true;
}

uint32_t tt_udp_post(struct tt_mcast_queue *queue, const struct tt_send_chunk *chunks, uint32_t count)
{
    struct tt_udp_queue *udp_queue = (struct tt_udp_queue *)queue;
    struct tt_udp_sender *sender = &udp_queue->sender;
    struct batch batch;
    uint32_t accepted = 0;
    bool told = false; /* the last try brought news: what is said now is meant */

    if (count == 1 && chunks->length_bytes <= SMALL_BYTES && send_small(udp_queue, chunks)) {
        accepted = 1;
    }
    while (accepted < count) {
        uint32_t messages = build_messages(udp_queue, &batch, chunks + accepted, count - accepted);
        int sent = sendmmsg(sender->fd, batch.messages, messages, MSG_DONTWAIT);
        if (sent > 0) {
            note_taken(sender, chunks[accepted].length_bytes);
            accepted += account_sent(sender, &batch, (uint32_t)sent);
            told = false;
            if ((uint32_t)sent < messages) {
                tt_udp_forget_news(udp_queue); /* this call has been told, but does not say so */
            }
            continue; /* if it was not all of them, and was no news, the next call says why */
        }
        int error = errno;
        if (error != EINTR && !told && tt_udp_is_news(udp_queue, error)) {
            told = true;
            continue;
        }
        if (error == EINTR || give_up_segmentation(udp_queue, &batch, error)) {
            continue;
        }
        if (is_full(sender, chunks[accepted].length_bytes, error)) {
            break;
        }
        accepted += account_lost(udp_queue, &batch, error);
    }
    sender->sent += accepted;
    return accepted;
}
