/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The receive side: many datagrams a system call, split and judged in place.
 *
 * Normal path: recvmmsg() fills slots of the feeder's staging, each with a super-packet (UDP_GRO, whose segment size
 * comes as a control message) or with a single datagram; poll splits them and hands out what is the group's. All that
 * was received is handed out by the same call, so that the staging is free for the feeder's next queue: no more
 * messages are taken than fit into the caller's array if each is as many datagrams as a super-packet can be. So few
 * slots are enough, and they stay in the cache.
 * On a path that never merges datagrams (many adapters) four slots of 64 KiB would mean four datagrams a call. Once it
 * is plain that what could have been merged was not, the queue turns UDP_GRO off for itself, cuts the staging into
 * slots of one datagram each, and looks again every now and then. Failures: foreign and damaged datagrams are counted
 * and skipped. Errors of the socket are logged once; the next poll tries again. News of a pair's peer (pair.c) hides
 * what waits behind it: the call is repeated.
 */
#include <assert.h>
#include <errno.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/pages.h"
#include "fabric/udp/queue.h"

enum {
    PAGE_BYTES = 4096,
    LINE_BYTES = 64,
    EVIDENCE_ENOUGH = 1024, /* unmerged pairs in a row: more than an unlucky rhythm of the sender gives */
    FILLED = 2,             /* calls in a row that brought all they asked for: more will be waiting */
    MOST_NEWS = 512,        /* in a row: each takes a datagram that did not arrive, or that somebody forges */
    SINGLES_ENOUGH = 65536  /* until the next look whether the path merges: costs a per cent or two of the calls */
};

/* What a call brought, put into the shared counters once. */
struct tally {
    uint64_t bytes, datagrams, key, length, own;
};

tutti_status tt_udp_receiver_init(struct tt_udp_queue *queue)
{
    struct tt_udp_receiver *receiver = &queue->receiver;
    struct tt_udp *udp = queue->udp;
    struct tt_udp_staging *staging = udp->stagings;

    while (staging != NULL && staging->feeder != queue->options.feeder) {
        staging = staging->next;
    }
    if (staging == NULL) {
        staging = tt_pages_allocate(sizeof(*staging));
        if (staging == NULL) {
            return tt_error(TT_PART_FABRIC, TUTTI_ERR_NO_MEMORY, "no memory for %zu bytes of staging",
                            sizeof(*staging));
        }
        for (uint32_t i = 0; i < TT_UDP_RECEIVE_MESSAGES; i++) {
            staging->messages[i].msg_hdr = (struct msghdr){
                .msg_iov = &staging->vectors[i], .msg_iovlen = 1, .msg_control = staging->controls[i].bytes};
        }
        staging->feeder = queue->options.feeder;
        staging->next = udp->stagings;
        udp->stagings = staging;
    }
    staging->queues++;
    receiver->staging = staging;
    receiver->mergeable = !udp->options.plain && tt_udp_socket_merge(receiver->fd, true);
    receiver->merging = receiver->mergeable;
    return TUTTI_OK;
}

void tt_udp_receiver_fini(struct tt_udp_queue *queue)
{
    struct tt_udp_staging *staging = queue->receiver.staging;
    struct tt_udp_staging **link = &queue->udp->stagings;

    if (staging == NULL || --staging->queues > 0) {
        return;
    }
    while (*link != staging) {
        link = &(*link)->next;
    }
    *link = staging->next;
    free(staging);
}

/* Cuts the staging as this queue needs it, unless it is cut like that: another queue may have had it since. */
static void cut_staging(const struct tt_udp_queue *queue, struct tt_udp_staging *staging)
{
    uint32_t slot_bytes = TT_UDP_SLOT_BYTES, stride_bytes = TT_UDP_SLOT_STRIDE_BYTES;

    if (!queue->receiver.merging) {
        slot_bytes = queue->options.chunk_bytes + TT_DATAGRAM_HEADER_BYTES;
        stride_bytes = (slot_bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
        stride_bytes += stride_bytes % PAGE_BYTES == 0 ? LINE_BYTES : 0; /* as with large slots */
    }
    if (staging->slot_bytes == slot_bytes) {
        return;
    }
    uint32_t slots = TT_UDP_STAGING_BYTES / stride_bytes;
    staging->slots = slots < TT_UDP_RECEIVE_MESSAGES ? slots : TT_UDP_RECEIVE_MESSAGES;
    staging->slot_bytes = slot_bytes;
    for (uint32_t i = 0; i < staging->slots; i++) {
        staging->vectors[i] = (struct iovec){staging->memory + (size_t)i * stride_bytes, slot_bytes};
    }
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

/* One datagram: true, and the chunk is set, if it is one of this group's other members. */
static bool judge(const struct tt_udp_queue *queue, const uint8_t *bytes, uint32_t length_bytes, bool cut,
                  struct tally *tally, struct tt_receive_chunk *chunk)
{
    struct tt_datagram datagram;

    enum tt_datagram_verdict verdict = tt_datagram_decode(bytes, length_bytes, queue->options.address.key, &datagram);
    if (verdict == TT_DATAGRAM_FOREIGN) {
        tally->key++;
        return false;
    }
    if (verdict == TT_DATAGRAM_WRONG_LENGTH || cut || datagram.length_bytes > queue->options.chunk_bytes) {
        tally->length++;
        return false;
    }
    if (datagram.source == queue->options.rank) {
        tally->own++;
        return false;
    }
    *chunk = (struct tt_receive_chunk){.imm = datagram.imm,
                                       .length_bytes = datagram.length_bytes,
                                       .source = datagram.source,
                                       .address = bytes + TT_DATAGRAM_HEADER_BYTES};
    return true;
}

/* Splits one message into chunks, at most TT_UDP_SEGMENTS. No member sends super-packets of more; what there is beyond
 * is not worth room that is needed for nothing else. */
static uint32_t split(const struct tt_udp_queue *queue, struct mmsghdr *message, struct tally *tally,
                      struct tt_receive_chunk *chunks)
{
    const uint8_t *bytes = message->msg_hdr.msg_iov->iov_base;
    uint32_t rest_bytes = message->msg_len, segment_bytes = segment_size(message);
    bool cut = (message->msg_hdr.msg_flags & MSG_TRUNC) != 0;
    uint32_t produced = 0;

    tally->bytes += rest_bytes;
    do {
        uint32_t length_bytes = rest_bytes < segment_bytes ? rest_bytes : segment_bytes;
        tally->datagrams++;
        if (produced == TT_UDP_SEGMENTS) {
            tally->length++;
        } else {
            produced += judge(queue, bytes, length_bytes, cut, tally, &chunks[produced]);
        }
        bytes += length_bytes;
        rest_bytes -= length_bytes;
    } while (rest_bytes > 0);
    return produced;
}

/* A single message costs less to ask for than several. */
static int receive(int fd, struct mmsghdr *messages, uint32_t count)
{
    ssize_t length;

    if (count > 1) {
        return recvmmsg(fd, messages, count, MSG_DONTWAIT, NULL);
    }
    length = recvmsg(fd, &messages->msg_hdr, MSG_DONTWAIT);
    messages->msg_len = length > 0 ? (uint32_t)length : 0;
    return length < 0 ? -1 : 1;
}

/* Receives up to `wanted` messages; *dry: no more wait. */
static int receive_some(struct tt_udp_queue *queue, struct mmsghdr *messages, uint32_t wanted, bool *dry)
{
    struct tt_udp_receiver *receiver = &queue->receiver;
    uint32_t news = 0;
    int count;

    do {
        count = receive(receiver->fd, messages, wanted);
    } while (count < 0 && (errno == EINTR || (queue->pair && news++ < MOST_NEWS && tt_udp_is_news(queue, errno))));
    if (count < 0 && errno != EAGAIN && !tt_udp_is_absence(errno) && !receiver->complained) {
        receiver->complained = true;
        TT_LOG(TT_PART_FABRIC, TT_LOG_WARN, "receiving on %s: %s", queue->udp->options.interface.name, strerror(errno));
    }
    receiver->filled = count < (int)wanted ? 0 : receiver->filled + (receiver->filled < FILLED ? 1 : 0);
    /* A pair's call may have ended early for news, which the next one is told. */
    *dry = queue->pair ? count < 0 : count < (int)wanted;
    return count > 0 ? count : 0;
}

/* Receives messages that carry no more than `max` datagrams; returns how many came. *dry: no more wait. */
static uint32_t fetch(struct tt_udp_queue *queue, uint32_t max, bool *dry)
{
    struct tt_udp_receiver *receiver = &queue->receiver;
    struct tt_udp_staging *staging = receiver->staging;
    uint32_t wanted = receiver->merging ? max / TT_UDP_SEGMENTS : max;

    cut_staging(queue, staging);
    if (receiver->filled < FILLED) { /* mostly one is all there is, and asking for more costs as much as it does */
        wanted = 1;
    }
    wanted = wanted < staging->slots ? wanted : staging->slots;
    for (uint32_t i = 0; i < wanted; i++) {
        staging->messages[i].msg_hdr.msg_controllen = receiver->merging ? sizeof(staging->controls[i].bytes) : 0;
    }
    return (uint32_t)receive_some(queue, staging->messages, wanted, dry);
}

static void account(struct tt_udp_receiver *receiver, const struct tally *tally)
{
    tt_udp_count(&receiver->bytes, tally->bytes);
    tt_udp_count(&receiver->datagrams, tally->datagrams);
    if (tally->key + tally->length + tally->own > 0) {
        tt_udp_count(&receiver->drops_key, tally->key);
        tt_udp_count(&receiver->drops_length, tally->length);
        tt_udp_count(&receiver->drops_own, tally->own);
    }
}

/* How many neighbours of these chunks a path that merges would have delivered in one message: full ones that one sender
 * sent one after the other. */
static uint32_t count_unmerged(const struct tt_udp_queue *queue, const struct tt_receive_chunk *chunks, uint32_t count)
{
    uint32_t pairs = 0;

    for (uint32_t i = 1; i < count; i++) {
        pairs += chunks[i].source == chunks[i - 1].source && chunks[i].imm == chunks[i - 1].imm + 1 &&
                 chunks[i].length_bytes == queue->options.chunk_bytes &&
                 chunks[i - 1].length_bytes == queue->options.chunk_bytes;
    }
    return pairs;
}

/*
 * Decides whether the next calls take super-packets. `dry`: nothing more waits; only then may the answer become no,
 * because a super-packet that waited would be cut to the length of a slot. One that comes in that very moment is lost
 * and repaired.
 */
static void consider_merging(struct tt_udp_queue *queue, const struct tt_receive_chunk *chunks, uint32_t produced,
                             uint64_t messages, uint64_t datagrams, bool dry)
{
    struct tt_udp_receiver *receiver = &queue->receiver;

    if (!receiver->mergeable) {
        return;
    }
    if (!receiver->merging) {
        receiver->singles += (uint32_t)datagrams;
        receiver->merging = receiver->singles >= SINGLES_ENOUGH && tt_udp_socket_merge(receiver->fd, true);
        return;
    }
    if (datagrams > messages) {
        receiver->evidence = 0;
    } else if (receiver->evidence < EVIDENCE_ENOUGH) {
        receiver->evidence += count_unmerged(queue, chunks, produced);
    }
    if (receiver->evidence >= EVIDENCE_ENOUGH && dry && tt_udp_socket_merge(receiver->fd, false)) {
        TT_LOG(TT_PART_FABRIC, TT_LOG_INFO, "%s delivers single datagrams; going on without UDP_GRO",
               queue->udp->options.interface.name);
        receiver->merging = false;
        receiver->evidence = 0;
        receiver->singles = 0;
    }
}

uint32_t tt_udp_poll(struct tt_mcast_queue *queue, struct tt_receive_chunk *chunks, uint32_t max)
{
    struct tt_udp_queue *udp_queue = (struct tt_udp_queue *)queue;
    struct tt_udp_receiver *receiver = &udp_queue->receiver;
    struct tt_udp_staging *staging = receiver->staging;
    uint32_t produced = 0, seen = 0;
    bool dry;

    assert(max >= TT_MCAST_POLL_LEAST);
    assert(staging->lent == 0);
    /* A call that brought nothing of the group is repeated, but not beyond what can have waited when poll was called:
     * somebody may be sending foreign datagrams faster than they can be thrown away. */
    do {
        struct tally tally = {0};
        uint32_t messages = fetch(udp_queue, max, &dry);
        for (uint32_t i = 0; i < messages; i++) {
            produced += split(udp_queue, &staging->messages[i], &tally, chunks + produced);
        }
        account(receiver, &tally);
        consider_merging(udp_queue, chunks, produced, messages, tally.datagrams, dry);
        seen += messages;
    } while (produced == 0 && !dry && seen < receiver->capacity);
    staging->lent = produced;
    queue->dry = dry;
    return produced;
}

void tt_udp_repost(struct tt_mcast_queue *queue, const struct tt_receive_chunk *chunks, uint32_t count)
{
    struct tt_udp_staging *staging = ((struct tt_udp_queue *)queue)->receiver.staging;

    (void)chunks; /* all at once: the next poll finds nothing lent */
    assert(count <= staging->lent);
    staging->lent -= count;
}
