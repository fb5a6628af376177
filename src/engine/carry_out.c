/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Actions, carried out. Normal path: a frame is sent, a stream published or frozen, a block handed to whoever sends,
 * a read started, a request ended. Failures: what a connection that is gone was asked for is dropped, since the machine
 * hears of that otherwise; what the fabric refuses for a reason of its own becomes the group's `trouble`; a read that
 * cannot even start is answered as one that failed.
 */
#include "engine/carry_out.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "engine/failure.h"
#include "engine/network.h"
#include "engine/request.h"
#include "engine/worker.h"

/* Collectives in a row, and chunks of these: one may lose all that it has, and of small ones several may. With the one
 * that multicast stops in, which has heard something, three are slow. */
enum { UNHEARD = 2, UNHEARD_CHUNKS = 6 };

#define JOIN_AGAIN_NS (10 * TT_NS_PER_S)

/* The request that an action is about; only of actions that are about one. */
static struct tt_request *request_of(const struct tt_action *action)
{
    assert(action->collective != NULL);
    assert(action->collective->owner != NULL);
    return action->collective->owner;
}

static uint32_t tag_of(const struct tt_request *request)
{
    return tt_tag_of_sequence(request->collective.sequence, tt_method_row(request->options.method)->keeps_copies);
}

/* Of what may come before it is published, nothing can be written in place. */
static uint32_t window_key_of(const struct tt_request *request)
{
    return tt_method_row(request->options.method)->keeps_copies
               ? 0
               : tt_window_key_of_sequence(request->collective.sequence);
}

/* Chunks with the request's tag go to its stream from now on, those that came before first. */
static void offer(struct tt_queue *queue, struct tt_request *request, struct tt_stream *stream)
{
    struct tt_workers *workers = request->group->engine->workers;

    tt_queue_publish(queue, tag_of(request), stream, window_key_of(request));
    if (atomic_load_explicit(&queue->receiver.log.count, memory_order_seq_cst) == 0) {
        return;
    }
    if (workers != NULL) {
        tt_workers_wake_receiver(workers, queue);
    } else {
        request->group->stepping_needed |= tt_queue_receive_early(queue) > 0;
    }
}

/*
 * What this rank reports comes back from the root into the same place, unless it is combined: it has been read before a
 * chunk is placed that somebody sends because of it. Said again because it was late, and not because it could not be
 * kept, it may come back meanwhile; then it need not be said. What is combined has a place of its own, where it stays.
 * False: nothing is said.
 */
static bool encode_gathered(struct tt_request *request, const struct tt_frame *frame, uint8_t *bytes,
                            struct tt_p2p_frame *encoded)
{
    struct tt_queue *queue = &request->group->queues[0];
    uint32_t tag = tag_of(request);
    struct tt_stream *stream = atomic_load_explicit(&queue->receiver.streams[tag], memory_order_relaxed);

    if (request->vectors != NULL) {
        encoded->head_bytes = (uint32_t)tt_frame_encode_head(frame, bytes, TT_FRAME_MAX_BYTES);
        encoded->body = frame->body.gather.bytes;
        encoded->body_bytes = frame->body.gather.length_bytes;
        encoded->stays = true;
    } else if (!request->collective.gather.again || tt_queue_withhold(queue, tag, &request->streams[0])) {
        encoded->head_bytes = (uint32_t)tt_frame_encode(frame, bytes, TT_FRAME_MAX_BYTES);
    }
    offer(queue, request, stream);
    return encoded->head_bytes > 0;
}

/* Whom an action is to; NULL: no connection was ever made. */
static struct tt_peer *peer_of(const struct tt_group *group, const struct tt_action *action)
{
    assert(action->to < group->size);
    assert(action->to != group->rank);
    return group->peers[action->to];
}

/* Chunks are missing here, or at the neighbour that has asked for them. */
static bool is_repair(const struct tt_action *action)
{
    enum tt_frame_type type = action->body.frame.type;

    return (type == TT_FRAME_FETCH || (type == TT_FRAME_AVAILABLE && action->collective != NULL)) &&
           tt_method_row(request_of(action)->options.method)->multicasts;
}

static void send_frame(struct tt_group *group, const struct tt_action *action)
{
    struct tt_peer *peer = peer_of(group, action);
    struct tt_frame frame = action->body.frame;
    uint8_t bytes[TT_FRAME_MAX_BYTES];
    struct tt_p2p_frame encoded = {.head = bytes};
    tutti_status status;

    assert(frame.source == group->rank);
    assert(frame.group == group->party.key);
    if (peer == NULL || peer->connection == NULL) {
        return; /* failed already; the machine has been told or will be */
    }
    if (frame.type == TT_FRAME_AVAILABLE && action->collective == NULL) {
        assert(group->copies.memory != NULL);
        frame.body.available.address += (uint64_t)(uintptr_t)group->copies.memory;
        frame.body.available.key = group->copies.key;
        frame.body.available.key_bytes = (uint16_t)group->copies.key_bytes;
    } else if (frame.type == TT_FRAME_AVAILABLE) {
        const struct tt_request *request = request_of(action);

        frame.body.available.address = (uint64_t)(uintptr_t)request->buffer;
        frame.body.available.key = request->key;
        frame.body.available.key_bytes = (uint16_t)request->key_bytes;
    }
    if (frame.type == TT_FRAME_GATHER && frame.body.gather.length_bytes > 0) {
        if (!encode_gathered(request_of(action), &frame, bytes, &encoded)) {
            return;
        }
    } else {
        encoded.head_bytes = (uint32_t)tt_frame_encode(&frame, bytes, sizeof bytes);
    }
    assert(encoded.head_bytes > 0); /* whatever the machine says has a form */
    if (is_repair(action)) {
        tt_group_count(&group->repair_rounds, frame.type == TT_FRAME_FETCH);
        if (group->network->p2p->ops->expect_loss != NULL) {
            group->network->p2p->ops->expect_loss(group->network->p2p);
        }
    }
    TT_LOG(TT_PART_PROTO, TT_LOG_TRACE, "%s %llu to rank %u", tt_frame_name(frame.type),
           (unsigned long long)frame.sequence, action->to);
    status = peer->connection->ops->send(peer->connection, &encoded, false);
    if (status == TUTTI_OK) {
        tt_group_count(&group->frames_sent, 1);
        tt_group_count(&group->frame_bytes_sent, tt_p2p_frame_bytes(&encoded));
    } else if (status != TUTTI_ERR_PEER_FAILED) {
        group->trouble = status; /* a peer that has failed is another matter: its PEER_DOWN was or will be there */
    }
}

static void publish(struct tt_group *group, struct tt_request *request)
{
    const struct tt_request_options *options = &request->options;

    assert(!request->freezing);
    assert(request->collective.config.terms.subgroups <= group->queue_count);
    if (tt_method_row(options->method)->gathers && options->send != NULL && request->vectors == NULL) {
        memcpy(request->buffer + group->rank * options->block_bytes, options->send, options->block_bytes);
    }
    for (uint32_t s = 0; s < request->collective.config.terms.subgroups; s++) {
        struct tt_queue *queue = &group->queues[s];

        if (tt_queue_may_reuse(queue, request->collective.sequence)) {
            offer(queue, request, &request->streams[s]);
        }
    }
}

static void freeze(struct tt_group *group, struct tt_request *request)
{
    uint32_t tag = tag_of(request);

    assert(!request->freezing);
    for (uint32_t s = 0; s < request->collective.config.terms.subgroups; s++) {
        request->turns[s] = tt_queue_retire(&group->queues[s], tag, window_key_of(request));
    }
    request->freezing = true;
}

/* The immediate value of the collective's first chunk. */
static uint32_t first_imm(const struct tt_group *group, const struct tt_request *request)
{
    uint64_t behind = request->collective.sequence - group->member.oldest;

    return tt_method_row(request->options.method)->keeps_copies
               ? tt_imm_encode_eager(tag_of(request), 0, (uint32_t)behind)
               : tt_imm_encode(tag_of(request), 0);
}

/* Whoever sends it is to look at once. */
static void kick_sender(struct tt_request *request)
{
    if (tt_request_has_sender(request)) {
        tt_workers_kick_sender(request->group->engine->workers);
    } else if (atomic_load_explicit(&request->transmit.state, memory_order_relaxed) == TT_TRANSMIT_ACTIVE) {
        request->transmit.due_ns = 0;
        request->group->engine->sends |= tt_request_is_allowed(request);
    }
}

static void transmit(struct tt_group *group, struct tt_request *request)
{
    struct tt_transmit *job = &request->transmit;

    assert(!request->sent);
    assert(tt_collective_send_limit(&request->collective) >=
           atomic_load_explicit(&job->limit, memory_order_relaxed)); /* the sender relies on it */
    atomic_store_explicit(&job->limit, tt_collective_send_limit(&request->collective), memory_order_release);
    if (atomic_load_explicit(&job->state, memory_order_relaxed) == TT_TRANSMIT_IDLE) {
        job->imm = first_imm(group, request);
        job->silent = request->collective.sending.silent;
        job->window_key =
            job->silent ? 0 : window_key_of(request); /* nobody has bound it: it is to be found in staging */
        job->chunk_ns =
            job->silent ? 0 : tt_pacer_chunk_ns(request->collective.least.rate_kbit, job->heard, group->chunk_bytes);
        job->begun = false;
        job->releases = tt_collective_releases(&request->collective);
        job->released = false;
        tt_release_encode(&request->collective.least, job->release);
        atomic_store_explicit(&job->state, TT_TRANSMIT_ACTIVE, memory_order_relaxed);
        if (tt_request_has_sender(request)) {
            tt_workers_send(group->engine->workers, job);
            return;
        }
    }
    kick_sender(request);
}

static void cancel(struct tt_request *request)
{
    assert(request->collective.sending.transmitting);
    assert(!request->sent);
    atomic_store_explicit(&request->transmit.canceled, true, memory_order_release);
    kick_sender(request);
}

/* Starts a one-sided read. One that cannot even start has failed: that answer comes with the next progress. */
static void get(struct tt_group *group, struct tt_request *request, const struct tt_action *action)
{
    struct tt_peer *peer = peer_of(group, action);
    tutti_status status = TUTTI_ERR_PEER_FAILED;

    assert(action->body.get.run < TT_FETCH_RUNS);
    assert(action->body.get.length_bytes > 0);
    assert((request->failed_runs >> action->body.get.run & 1) == 0); /* it was answered before it is used again */
    assert(request->gets < TT_FETCH_RUNS);
    if (peer != NULL && peer->connection != NULL) {
        status =
            peer->connection->ops->get(peer->connection, action->body.get.key, action->body.get.key_bytes,
                                       action->body.get.remote_address, request->buffer + action->body.get.offset_bytes,
                                       action->body.get.length_bytes, tt_request_cookie(request, action->body.get.run));
    }
    if (status == TUTTI_OK) {
        request->gets++;
        tt_group_count(&group->bytes_fetched, action->body.get.length_bytes);
    } else {
        request->failed_runs |= UINT32_C(1) << action->body.get.run;
        group->trouble = status != TUTTI_ERR_PEER_FAILED ? status : group->trouble;
        group->stepping_needed = true;
    }
}

static void keep(struct tt_group *group, const struct tt_request *request, const struct tt_action *action)
{
    assert(group->copies.memory != NULL);
    assert(action->body.keep.offset_bytes + action->body.keep.length_bytes <= TT_EAGER_RING_BYTES);
    memcpy(group->copies.memory + action->body.keep.offset_bytes, request->buffer, action->body.keep.length_bytes);
}

static void send_probes(struct tt_group *group)
{
    struct tt_send_chunk probe = {.imm = tt_imm_encode(TT_TAG_PROBE, group->rank),
                                  .length_bytes = group->chunk_bytes,
                                  .address = group->probe_payload};

    assert(!group->probed);
    for (uint32_t s = 0; s < group->queue_count; s++) {
        assert(group->queues[s].mcast != NULL);
        group->queues[s].posted += group->queues[s].mcast->ops->post(group->queues[s].mcast, &probe, 1);
    }
}

/* Says what the network was found to take: in the first collective that was large enough to tell, and whenever that has
 * become another. */
static void note_link(struct tt_group *group, const struct tt_collective *collective)
{
    struct tt_link *link = &group->network->link;
    uint32_t rate_kbit = link->come_kbit;

    if (collective->flow.found_ns == 0 ||
        (rate_kbit / 5 * 4 < link->noted_kbit && link->noted_kbit < rate_kbit / 4 * 5)) {
        return;
    }
    link->noted_kbit = rate_kbit;
    TT_LOG(TT_PART_ENGINE, TT_LOG_INFO,
           "rank %u: chunks come at %u kbit/s, %llu us after the first one; window %u bytes", group->rank, rate_kbit,
           (unsigned long long)(collective->flow.found_ns / TT_NS_PER_US), link->window_bytes);
}

static void say_hearing(const struct tt_group *group, bool hears)
{
    char own[TT_RANK_TEXT_BYTES], interface[TT_INTERFACE_TEXT_BYTES] = "simulated";

    if (group->engine->wakeup != NULL) {
        tt_interface_format(&group->network->interface, interface);
    }
    tt_failure_rank(group, group->rank, own);
    if (hears) {
        TT_LOG(TT_PART_ENGINE, TT_LOG_WARN, "group of %u: multicast on %s gets through to %s again", group->size,
               interface, own);
    } else {
        TT_LOG(
            TT_PART_ENGINE, TT_LOG_WARN,
            "group of %u: multicast on %s does not get through to %s any more: all of the last %u collectives was "
            "repaired over %s, and what follows is read over that at once; snooping without a querier, or a firewall "
            "(`tutti doctor --job` looks for the cause)",
            group->size, interface, own, group->unheard_count, group->network->p2p->ops->name);
    }
}

/* Chunks that had no stream to go to: what is still heard while nothing is waited for. */
static uint64_t count_afar(const struct tt_group *group)
{
    uint64_t sum = 0;

    for (uint32_t s = 0; s < group->queue_count; s++) {
        sum += atomic_load_explicit(&group->queues[s].receiver.afar, memory_order_relaxed);
    }
    return sum;
}

/* Who has been forgotten by a switch that nobody asks who listens is heard of again so. */
static void join_again(struct tt_group *group)
{
    uint64_t now_ns = tt_engine_now(group->engine);

    if (now_ns < group->join_again_ns) {
        return;
    }
    group->join_again_ns = now_ns + JOIN_AGAIN_NS;
    for (uint32_t s = 0; s < group->queue_count; s++) {
        struct tt_mcast_queue *mcast = group->queues[s].mcast;

        if (mcast->ops->join_again != NULL) {
            mcast->ops->join_again(mcast);
        }
    }
}

/* A switch may forget who listens, a firewall be changed: multicast that got through when the group was created stops,
 * and all is repaired, slowly. Whoever hears nothing any more goes without until it hears something. What ranks of the
 * same host send says nothing about the network, and what was not waited for says nothing against it. */
static void note_hearing(struct tt_group *group, const struct tt_collective *collective)
{
    bool waited = !tt_collective_is_deaf(collective) && !tt_collective_is_silent(collective);
    bool hears = collective->receiving.heard, was_deaf = group->member.deaf;

    if (!tt_method_row(collective->config.terms.method)->multicasts || collective->remote == 0 ||
        collective->status != TUTTI_OK) {
        return;
    }
    hears |= was_deaf && count_afar(group) != group->afar;
    if (hears) {
        group->unheard_count = group->unheard_chunks = 0;
    } else if (waited) {
        group->unheard_count++;
        group->unheard_chunks += collective->remote;
    }
    group->member.deaf = group->unheard_count >= UNHEARD && group->unheard_chunks >= UNHEARD_CHUNKS;
    if (group->member.deaf != was_deaf) {
        group->afar = count_afar(group);
        say_hearing(group, hears);
    }
    if (group->member.deaf) {
        join_again(group);
    }
}

static void finish(struct tt_group *group, struct tt_request *request, const struct tt_action *action)
{
    struct tt_collective *collective = &request->collective;
    struct tt_request **link = &group->active;

    /* The buffers are the user's from now on. */
    assert(!atomic_load_explicit(&request->done, memory_order_relaxed));
    assert(request->gets == 0);
    assert(!request->freezing);
    assert(atomic_load_explicit(&request->transmit.state, memory_order_acquire) != TT_TRANSMIT_ACTIVE);
    assert(request->carrier == NULL || !request->relay_started || request->relay_done);
    tt_group_count(&group->cutoffs, collective->counters.cutoffs);
    tt_group_count(&group->credit_stalls, collective->counters.credit_stalls);
    tt_group_count(&group->bytes_served, collective->fetch.served_bytes);
    tt_group_count(tt_method_row(request->options.method)->multicasts ? &group->chunks_repaired
                                                                      : &group->chunks_fetched,
                   collective->fetch.fetched_chunks);
    note_link(group, collective);
    note_hearing(group, collective);
    while (*link != request) {
        assert(*link != NULL);
        link = &(*link)->next;
    }
    *link = request->next;
    if (request->next == NULL) {
        group->active_end = link;
    }
    if (action->body.finish.status != TUTTI_OK && request->memory != NULL) {
        /* No handshake ended this: the right neighbour may still be reading, and must not see what the application does
         * with the buffer from now on. */
        request->memory->ops->memory_release(request->memory);
        request->memory = NULL;
    }
    request->status = action->body.finish.status;
    if (request->carrier != NULL && request->carrier->end != NULL) {
        request->carrier->end(request);
    }
    if (action->body.finish.status == TUTTI_OK) {
        tt_combine_end(request);
    }
    request->failed_rank = tt_failure_about(group, action->body.finish.rank);
    if (request->status != TUTTI_OK) {
        tt_failure_note(group, request->status, action->body.finish.rank);
        snprintf(request->error, sizeof request->error, "%s", group->failure_text);
    }
    atomic_store_explicit(&request->done, true, memory_order_release);
    group->engine->ended = true;
    tt_engine_announce(group->engine);
}

void tt_group_carry_out(struct tt_group *group, const struct tt_action *action)
{
    switch (action->type) {
    case TT_ACTION_SEND:
        send_frame(group, action);
        break;
    case TT_ACTION_PUBLISH:
        publish(group, request_of(action));
        break;
    case TT_ACTION_TRANSMIT:
        transmit(group, request_of(action));
        break;
    case TT_ACTION_CANCEL:
        cancel(request_of(action));
        break;
    case TT_ACTION_FREEZE:
        freeze(group, request_of(action));
        break;
    case TT_ACTION_GET:
        get(group, request_of(action), action);
        break;
    case TT_ACTION_ABANDON:
        tt_network_abandon(group->network, peer_of(group, action));
        break;
    case TT_ACTION_COMBINE:
        tt_combine_gathered(request_of(action));
        break;
    case TT_ACTION_KEEP:
        keep(group, request_of(action), action);
        break;
    case TT_ACTION_RELAY:
        request_of(action)->carrier->start(request_of(action));
        break;
    case TT_ACTION_UNRELAY:
        request_of(action)->carrier->cancel(request_of(action));
        break;
    case TT_ACTION_PROBE:
        send_probes(group);
        break;
    case TT_ACTION_PROBED:
        assert(!group->probed);
        group->multicast = action->body.probe.multicast;
        group->probe_failed_rank = action->body.probe.failed_rank;
        group->probe_deaf_rank = action->body.probe.deaf_rank;
        group->probe_deaf_count = action->body.probe.deaf_count;
        group->probed = true;
        tt_engine_announce(group->engine);
        break;
    case TT_ACTION_FINISH:
        finish(group, request_of(action), action);
        break;
    }
}
