/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The send side: chunks as linked lists of work requests, payload straight from registered memory.
 *
 * Normal path: a list of up to TT_VERBS_SEND_BATCH requests is handed to the device in one call; only its last is
 * signalled, and since a queue pair completes in order, that completion stands for all of them. Short chunks travel in
 * the request itself; chunks from memory without a registration are copied into the sender's own. A request carries the
 * count of chunks that are complete when it is.
 * Failures: a queue of requests that are all under way ends the call early. What the device refuses for good, or
 * completes with an error, or not within five seconds, or whose completions cannot be polled, breaks the queue pair: it
 * is put into its error state, so that every request completes and no memory is read any more, and from then on
 * everything is lost and counted. What a silent device does not complete even then counts as lost at once.
 */
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/pages.h"
#include "fabric/verbs/mcast_queue.h"

#define SILENCE_NS                                                                                                     \
    (5 * TT_NS_PER_S) /* without a completion, though some are due: longer than any pause of a lossless network */
#define STOP_PATIENCE_NS                                                                                               \
    TT_NS_PER_S /* a queue of 256 datagrams is gone in microseconds, unless nobody carries them                        \
                 */

enum { MULTICAST_QUEUE_PAIR = 0xFFFFFF };

bool tt_verbs_sender_init(struct tt_verbs_queue *queue)
{
    struct tt_verbs_sender *sender = &queue->sender;
    size_t copies_bytes = (size_t)TT_VERBS_SEND_DEPTH * queue->options.chunk_bytes;

    if (!tt_verbs_completions_init(&sender->completions, queue->mcast->device, sender->lane, TT_VERBS_SEND_DEPTH)) {
        return false;
    }
    sender->copies = tt_pages_allocate(copies_bytes);
    if (sender->copies == NULL) {
        return false;
    }
    sender->copies_region = tt_verbs_register(sender->lane, sender->copies, copies_bytes, 0);
    return sender->copies_region != NULL;
}

bool tt_verbs_sender_start(struct tt_verbs_queue *queue)
{
    struct tt_verbs_sender *sender = &queue->sender;

    sender->path = ibv_create_ah(sender->lane->pd, &queue->membership.path);
    if (sender->path == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < TT_VERBS_SEND_BATCH; i++) {
        struct ibv_send_wr *request = &sender->requests[i];
        *request = (struct ibv_send_wr){.sg_list = &sender->pieces[i], .opcode = IBV_WR_SEND_WITH_IMM};
        request->wr.ud.ah = sender->path;
        request->wr.ud.remote_qpn = MULTICAST_QUEUE_PAIR;
        request->wr.ud.remote_qkey = sender->queue_key;
    }
    return true;
}

void tt_verbs_sender_fini(struct tt_verbs_queue *queue)
{
    struct tt_verbs_sender *sender = &queue->sender;

    if (sender->path != NULL) {
        ibv_destroy_ah(sender->path);
    }
    if (sender->copies_region != NULL) {
        ibv_dereg_mr(sender->copies_region);
    }
    free(sender->copies);
    tt_verbs_completions_fini(&sender->completions);
}

/* From now on every request completes at once, those under way too. */
static void give_up(struct tt_verbs_queue *queue, const char *what, const char *reason)
{
    struct ibv_qp_attr attributes = {.qp_state = IBV_QPS_ERR};
    char text[TT_VERBS_GROUP_TEXT_BYTES];

    if (!queue->sender.broken) {
        queue->sender.broken = true;
        TT_LOG(TT_PART_FABRIC, TT_LOG_WARN, "%s: %s: %s; nothing is sent%s by multicast any more",
               tt_verbs_format_group(queue, text), what, reason,
               queue->sender.pair == queue->receiver.pair ? " or received" : "");
        ibv_modify_qp(queue->sender.pair, &attributes, IBV_QP_STATE);
    }
}

/* Nothing is awaited any more; what has not completed by now is lost. */
static void write_off(struct tt_verbs_sender *sender)
{
    tt_verbs_count(&sender->errors, sender->accepted - sender->completed);
    sender->completed = sender->accepted;
    sender->written_off = true;
}

/* Takes completions; returns whether there were any. */
static bool drain(struct tt_verbs_queue *queue)
{
    struct tt_verbs_sender *sender = &queue->sender;
    struct ibv_wc completions[TT_VERBS_POLL_BATCH];
    bool any = false;
    int count;

    if (sender->written_off) {
        return false;
    }

    do {
        count = ibv_poll_cq(sender->completions.queue, TT_VERBS_POLL_BATCH, completions);
        for (int i = 0; i < count; i++) {
            sender->completed = (uint32_t)completions[i].wr_id;
            if (completions[i].status != IBV_WC_SUCCESS) {
                tt_verbs_count(&sender->errors, 1);
                give_up(queue, "sending", ibv_wc_status_str(completions[i].status));
            }
        }
        any = any || count > 0;
    } while (count == TT_VERBS_POLL_BATCH);
    if (count < 0) { /* nothing will complete any more */
        write_off(sender);
        give_up(queue, "polling for completions", strerror(EIO));
    }
    sender->armed = sender->armed && !any;
    sender->silent_since_ns = any ? 0 : sender->silent_since_ns;
    return any;
}

/* After a look that found nothing, though completions are due: a device that is silent for too long is given up. */
static void note_silence(struct tt_verbs_queue *queue)
{
    struct tt_verbs_sender *sender = &queue->sender;
    uint64_t now_ns = tt_clock_now_ns();

    if (sender->silent_since_ns == 0) {
        sender->silent_since_ns = now_ns;
    }
    if (now_ns - sender->silent_since_ns >= SILENCE_NS) {
        give_up(queue, "sending", "nothing has completed for 5 s");
        drain(queue);
        write_off(sender);
    }
}

/* Makes the descriptor tell of the next completion; true if one came meanwhile. */
static bool arm(struct tt_verbs_queue *queue)
{
    struct tt_verbs_sender *sender = &queue->sender;

    if (sender->armed) {
        return false;
    }
    tt_verbs_completions_quiet(&sender->completions);
    sender->armed = ibv_req_notify_cq(sender->completions.queue, 0) == 0;
    return drain(queue);
}

/* Describes one chunk; `number` counts the chunks before it. */
static void describe(struct tt_verbs_queue *queue, uint32_t place, const struct tt_send_chunk *chunk, uint32_t number)
{
    struct tt_verbs_sender *sender = &queue->sender;
    struct ibv_send_wr *request = &sender->requests[place];
    struct ibv_sge *piece = &sender->pieces[place];

    assert(chunk->length_bytes <= queue->options.chunk_bytes);
    request->wr_id = number + 1;
    request->imm_data = htonl(chunk->imm);
    request->num_sge = chunk->length_bytes > 0;
    request->send_flags = 0;
    *piece = (struct ibv_sge){.addr = (uintptr_t)chunk->address, .length = chunk->length_bytes};
    if (chunk->length_bytes <= sender->max_inline_bytes) {
        request->send_flags = IBV_SEND_INLINE;
    } else if (chunk->memory != NULL) {
        const struct tt_verbs_memory *memory = (const struct tt_verbs_memory *)chunk->memory;
        assert(memory->lane == sender->lane);
        piece->lkey = memory->region->lkey;
    } else {
        uint8_t *copy = sender->copies + (size_t)(number % TT_VERBS_SEND_DEPTH) * queue->options.chunk_bytes;
        memcpy(copy, chunk->address, chunk->length_bytes);
        piece->addr = (uintptr_t)copy;
        piece->lkey = sender->copies_region->lkey;
    }
}

/* Posts one list; returns how many chunks the device took. */
static uint32_t post_list(struct tt_verbs_queue *queue, const struct tt_send_chunk *chunks, uint32_t count)
{
    struct tt_verbs_sender *sender = &queue->sender;
    struct ibv_send_wr *refused = NULL;
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < count; i++) {
        describe(queue, i, &chunks[i], sender->accepted + i);
        sender->requests[i].next = &sender->requests[i + 1];
    }
    sender->requests[count - 1].next = NULL;
    sender->requests[count - 1].send_flags |= IBV_SEND_SIGNALED;
    int error = ibv_post_send(sender->pair, sender->requests, &refused);
    uint32_t taken = error == 0 ? count : (uint32_t)(refused - sender->requests);
    for (uint32_t i = 0; i < taken; i++) {
        bytes += chunks[i].length_bytes;
    }
    sender->accepted += taken;
    tt_verbs_count(&sender->datagrams, taken);
    tt_verbs_count(&sender->bytes, bytes);
    if (error != 0) {
        give_up(queue, "posting a send", strerror(error));
    }
    return taken;
}

/* How many of `wanted` chunks fit into the queue of requests now; none: the descriptor will tell. */
static uint32_t find_room(struct tt_verbs_queue *queue, uint32_t wanted)
{
    const struct tt_verbs_sender *sender = &queue->sender;
    uint32_t room = TT_VERBS_SEND_DEPTH - (sender->accepted - sender->completed);

    if (room < wanted) {
        drain(queue);
        room = TT_VERBS_SEND_DEPTH - (sender->accepted - sender->completed);
        if (room == 0 && arm(queue)) {
            room = TT_VERBS_SEND_DEPTH - (sender->accepted - sender->completed);
        }
        if (room == 0) {
            note_silence(queue);
        }
    }
    return room < wanted ? room : wanted;
}

uint32_t tt_verbs_mcast_post(struct tt_mcast_queue *base, const struct tt_send_chunk *chunks, uint32_t count)
{
    struct tt_verbs_queue *queue = (struct tt_verbs_queue *)base;
    struct tt_verbs_sender *sender = &queue->sender;
    uint32_t accepted = 0;

    while (accepted < count && !sender->broken) {
        uint32_t rest = count - accepted;
        uint32_t room = find_room(queue, rest < TT_VERBS_SEND_BATCH ? rest : TT_VERBS_SEND_BATCH);
        if (room == 0) {
            return accepted;
        }
        accepted += post_list(queue, chunks + accepted, room);
    }
    if (accepted < count) {
        tt_verbs_count(&sender->errors, count - accepted);
        sender->lost += count - accepted;
    }
    return count;
}

uint32_t tt_verbs_mcast_sent(struct tt_mcast_queue *base)
{
    struct tt_verbs_queue *queue = (struct tt_verbs_queue *)base;
    struct tt_verbs_sender *sender = &queue->sender;

    if (sender->completed != sender->accepted) {
        drain(queue);
    }
    while (sender->completed != sender->accepted && arm(queue)) {
    }
    if (sender->completed != sender->accepted) {
        note_silence(queue);
    }
    /* What is lost was posted behind all that the device has. */
    return sender->completed == sender->accepted ? sender->completed + sender->lost : sender->completed;
}

/* Destroying a queue pair drops what it has not sent, and a device may still read the memory of it. Only one that is
 * silent is waited for: for as long as there is patience, and then as long again in the error state. */
void tt_verbs_mcast_drain(struct tt_mcast_queue *base)
{
    struct tt_verbs_queue *queue = (struct tt_verbs_queue *)base;
    struct tt_verbs_sender *sender = &queue->sender;

    for (uint32_t attempt = 0; attempt < 2 && sender->completed != sender->accepted; attempt++) {
        uint64_t deadline_ns = tt_clock_now_ns() + STOP_PATIENCE_NS;
        while (sender->completed != sender->accepted && tt_clock_now_ns() < deadline_ns) {
            drain(queue);
        }
        if (sender->completed != sender->accepted) {
            give_up(queue, "leaving", "what was sent does not complete");
        }
    }
    if (sender->completed != sender->accepted) {
        write_off(sender);
    }
}
