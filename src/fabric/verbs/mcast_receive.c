/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The receive side: a ring of registered staging, whose receives are described once and posted over and over.
 *
 * Normal path: each slot has a work request of its own that never changes but for its link. poll takes completions by
 * the batch, finds the sender from its queue pair and address, and hands the payload out where it landed, behind the
 * network header; repost links the slots' requests and posts them in one call. A poll that finds nothing asks for an
 * event and looks once more, so that whoever sleeps on the descriptor afterwards misses nothing. Now and then it also
 * looks at what the device has to say of itself (events.c).
 * Failures: what does not come from a member, the own datagrams that the fabric brings back, and lengths that the group
 * does not have are counted and their slots posted again. A receive queue that runs empty drops silently. Completions
 * with an error (the queue pair broke) are logged once; there is nothing more to come then.
 */
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/pages.h"
#include "fabric/verbs/mcast_queue.h"

enum {
    VAIN_POLLS = 16, /* until somebody looks at the clock whether the device's events are due */
    HEADER_OFFSET = TT_VERBS_SLOT_HEAD_BYTES - TT_VERBS_NETWORK_HEADER_BYTES, /* in a slot */
    GRH_SOURCE_OFFSET = 8,                                                    /* in a network header */
    IPV4_SOURCE_OFFSET = 20 + 12
};

/* What a call brought, put into the shared counters once. */
struct tally {
    uint64_t bytes, datagrams, key, length, own;
};

bool tt_verbs_receiver_init(struct tt_verbs_queue *queue)
{
    struct tt_verbs_receiver *receiver = &queue->receiver;
    const struct tt_verbs_mcast *mcast = queue->mcast;
    size_t staging_bytes = (size_t)mcast->receive_slots * mcast->slot_bytes;

    if (!tt_verbs_completions_init(&receiver->completions, mcast->device, receiver->lane, mcast->receive_slots)) {
        return false;
    }
    receiver->requests = calloc(mcast->receive_slots, sizeof(*receiver->requests));
    receiver->pieces = calloc(mcast->receive_slots, sizeof(*receiver->pieces));
    receiver->staging = tt_pages_allocate(staging_bytes);
    if (receiver->requests == NULL || receiver->pieces == NULL || receiver->staging == NULL) {
        errno = ENOMEM;
        return false;
    }
    receiver->region = tt_verbs_register(receiver->lane, receiver->staging, staging_bytes, IBV_ACCESS_LOCAL_WRITE);
    return receiver->region != NULL;
}

bool tt_verbs_receiver_start(struct tt_verbs_queue *queue)
{
    struct tt_verbs_receiver *receiver = &queue->receiver;
    const struct tt_verbs_mcast *mcast = queue->mcast;
    struct ibv_recv_wr *refused;

    for (uint32_t slot = 0; slot < mcast->receive_slots; slot++) {
        receiver->pieces[slot] =
            (struct ibv_sge){.addr = (uintptr_t)(receiver->staging + (size_t)slot * mcast->slot_bytes + HEADER_OFFSET),
                             .length = mcast->slot_bytes - HEADER_OFFSET,
                             .lkey = receiver->region->lkey};
        receiver->requests[slot] =
            (struct ibv_recv_wr){.wr_id = slot,
                                 .next = slot + 1 < mcast->receive_slots ? &receiver->requests[slot + 1] : NULL,
                                 .sg_list = &receiver->pieces[slot],
                                 .num_sge = 1};
    }
    errno = ibv_post_recv(receiver->pair, receiver->requests, &refused);
    if (errno == 0) {
        errno = ibv_req_notify_cq(receiver->completions.queue, 0);
    }
    return errno == 0;
}

void tt_verbs_receiver_fini(struct tt_verbs_queue *queue)
{
    struct tt_verbs_receiver *receiver = &queue->receiver;

    if (receiver->region != NULL) {
        ibv_dereg_mr(receiver->region);
    }
    free(receiver->staging);
    free(receiver->requests);
    free(receiver->pieces);
    free(atomic_load_explicit(&receiver->sources, memory_order_relaxed));
    tt_verbs_completions_fini(&receiver->completions);
}

/* --- Posting receives --------------------------------------------------------------------------------------------- */

static void link_slot(struct tt_verbs_receiver *receiver, uint32_t slot)
{
    struct ibv_recv_wr *request = &receiver->requests[slot];

    request->next = NULL;
    if (receiver->free_first == NULL) {
        receiver->free_first = request;
    } else {
        receiver->free_last->next = request;
    }
    receiver->free_last = request;
}

static void complain(struct tt_verbs_queue *queue, const char *what, const char *reason)
{
    char text[TT_VERBS_GROUP_TEXT_BYTES];

    if (!queue->receiver.complained) {
        queue->receiver.complained = true;
        TT_LOG(TT_PART_FABRIC, TT_LOG_WARN, "%s: %s: %s", tt_verbs_format_group(queue, text), what, reason);
    }
}

static void post_linked(struct tt_verbs_queue *queue)
{
    struct tt_verbs_receiver *receiver = &queue->receiver;
    struct ibv_recv_wr *refused;

    if (receiver->free_first == NULL) {
        return;
    }
    int error = ibv_post_recv(receiver->pair, receiver->free_first, &refused);
    receiver->free_first = NULL;
    if (error != 0) {
        complain(queue, "posting receives", strerror(error));
    }
}

/* --- Receiving ---------------------------------------------------------------------------------------------------- */

/* The sender's rank, or TT_VERBS_NOBODY. */
static uint32_t find_source(const struct tt_verbs_queue *queue, const struct tt_verbs_sources *sources,
                            const uint8_t *header, uint32_t queue_pair)
{
    uint64_t gid[2] = {0, 0};

    if (queue->mcast->device->gid_is_ipv4) {
        uint32_t words[2] = {htonl(0xFFFF), 0}; /* ::ffff:a.b.c.d */
        memcpy(&words[1], header + IPV4_SOURCE_OFFSET, sizeof words[1]);
        memcpy(&gid[1], words, sizeof gid[1]);
    } else {
        memcpy(gid, header + GRH_SOURCE_OFFSET, sizeof gid);
    }
    return tt_verbs_sources_find(sources, gid, queue_pair);
}

/* One datagram: true, and the chunk is set, if it is one of this group's other members. */
static bool judge(const struct tt_verbs_queue *queue, const struct tt_verbs_sources *sources,
                  const struct ibv_wc *completion, struct tally *tally, struct tt_receive_chunk *chunk)
{
    uint32_t slot = (uint32_t)completion->wr_id;
    const uint8_t *base = queue->receiver.staging + (size_t)slot * queue->mcast->slot_bytes;
    unsigned needed = IBV_WC_GRH | IBV_WC_WITH_IMM;

    if ((completion->wc_flags & needed) != needed || completion->byte_len < TT_VERBS_NETWORK_HEADER_BYTES) {
        tally->key++;
        return false;
    }
    uint32_t length_bytes = completion->byte_len - TT_VERBS_NETWORK_HEADER_BYTES;
    uint32_t rank = find_source(queue, sources, base + HEADER_OFFSET, completion->src_qp);
    if (rank == queue->options.rank) {
        tally->own++;
        return false;
    }
    tally->datagrams++;
    tally->bytes += length_bytes;
    if (rank == (uint32_t)TT_VERBS_NOBODY) {
        tally->key++;
        return false;
    }
    if (length_bytes > queue->options.chunk_bytes) {
        tally->length++;
        return false;
    }
    *chunk = (struct tt_receive_chunk){.imm = ntohl(completion->imm_data),
                                       .length_bytes = length_bytes,
                                       .source = rank,
                                       .staging = slot,
                                       .address = base + TT_VERBS_SLOT_HEAD_BYTES};
    return true;
}

static void account(struct tt_verbs_receiver *receiver, const struct tally *tally)
{
    tt_verbs_count(&receiver->bytes, tally->bytes);
    tt_verbs_count(&receiver->datagrams, tally->datagrams);
    if (tally->key + tally->length + tally->own > 0) {
        tt_verbs_count(&receiver->drops_key, tally->key);
        tt_verbs_count(&receiver->drops_length, tally->length);
        tt_verbs_count(&receiver->drops_own, tally->own);
    }
}

/* Takes what has completed, up to `max` chunks. If nothing is the group's it goes on, but not beyond what can have
 * waited: strangers may be sending faster than their datagrams can be thrown away. */
static uint32_t collect(struct tt_verbs_queue *queue, const struct tt_verbs_sources *sources,
                        struct tt_receive_chunk *chunks, uint32_t max)
{
    struct tt_verbs_receiver *receiver = &queue->receiver;
    struct ibv_wc completions[TT_VERBS_POLL_BATCH];
    struct tally tally = {0};
    uint32_t produced = 0, seen = 0, wanted;
    int count;

    do {
        wanted = max - produced < TT_VERBS_POLL_BATCH ? max - produced : TT_VERBS_POLL_BATCH;
        count = ibv_poll_cq(receiver->completions.queue, (int)wanted, completions);
        for (int i = 0; i < count; i++) {
            if (completions[i].status != IBV_WC_SUCCESS) {
                complain(queue, "receiving", ibv_wc_status_str(completions[i].status));
            } else if (judge(queue, sources, &completions[i], &tally, &chunks[produced])) {
                produced++;
            } else {
                link_slot(receiver, (uint32_t)completions[i].wr_id);
            }
        }
        if (count < 0) {
            complain(queue, "polling for chunks", strerror(EIO));
        }
        post_linked(queue);
        seen += count > 0 ? (uint32_t)count : 0;
    } while (count == (int)wanted && produced < max && (produced > 0 || seen < queue->mcast->receive_slots));
    if (seen > 0) {
        receiver->dirty = true;
        account(receiver, &tally);
    }
    return produced;
}

/* Asks for an event with the next completion, unless that stands; true if a completion may have come meanwhile. */
static bool rearm(struct tt_verbs_receiver *receiver)
{
    if (!receiver->dirty && !receiver->owed) {
        return false;
    }
    uint32_t events = tt_verbs_completions_quiet(&receiver->completions);
    if (!receiver->dirty && events == 0) {
        return false;
    }
    /* A device may show a completion before it tells of it; then its event comes later, for nothing. */
    receiver->owed = receiver->dirty && events == 0;
    receiver->dirty = false;
    return ibv_req_notify_cq(receiver->completions.queue, 0) == 0;
}

uint32_t tt_verbs_mcast_poll(struct tt_mcast_queue *base, struct tt_receive_chunk *chunks, uint32_t max)
{
    struct tt_verbs_queue *queue = (struct tt_verbs_queue *)base;
    struct tt_verbs_receiver *receiver = &queue->receiver;
    const struct tt_verbs_sources *sources = atomic_load_explicit(&receiver->sources, memory_order_acquire);

    assert(max >= TT_MCAST_POLL_LEAST);
    assert(receiver->lent == 0);
    if (sources == NULL) {
        return 0;
    }
    uint32_t produced = collect(queue, sources, chunks, max);
    if (produced == 0 && rearm(receiver)) {
        produced = collect(queue, sources, chunks, max);
    }
    if (produced == 0 && ++receiver->vain % VAIN_POLLS == 0) {
        tt_verbs_events_look(queue->mcast->device);
    }
    receiver->lent = produced;
    return produced;
}

void tt_verbs_mcast_repost(struct tt_mcast_queue *base, const struct tt_receive_chunk *chunks, uint32_t count)
{
    struct tt_verbs_queue *queue = (struct tt_verbs_queue *)base;

    assert(count <= queue->receiver.lent);
    queue->receiver.lent -= count;
    for (uint32_t i = 0; i < count; i++) {
        link_slot(&queue->receiver, chunks[i].staging);
    }
    post_linked(queue);
}
