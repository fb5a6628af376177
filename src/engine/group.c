/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A group in the control context. Normal path of a step: the member machine gets an event, its actions are carried out
 * in order, and answers that are due at once (frozen, sent, canceled) become the next events until nothing is due.
 * Frames that do not decode, or are for no group, are dropped, and the log says so. A failure of the group puts a
 * sentence together once, which every request of the group then carries.
 */
#include "engine/group.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "engine/failure.h"
#include "engine/request.h"
#include "engine/share.h"
#include "engine/worker.h"

static void add(_Atomic uint64_t *counter, uint64_t more)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + more, memory_order_relaxed);
}

/* --- Actions ------------------------------------------------------------------------------------------------------ */

/* The request that an action is about; only of actions that are about one. */
static struct tt_request *request_of(const struct tt_action *action)
{
    assert(action->collective != NULL && action->collective->owner != NULL);
    return action->collective->owner;
}

static void send_frame(struct tt_group *group, const struct tt_action *action)
{
    struct tt_peer *peer = group->peers[action->to];
    struct tt_frame frame = action->body.frame;
    uint8_t bytes[TT_FRAME_MAX_BYTES];
    tutti_status status;
    size_t length;

    if (peer == NULL || peer->connection == NULL) {
        return; /* failed already; the machine has been told or will be */
    }
    if (frame.type == TT_FRAME_AVAILABLE && action->collective == NULL) {
        frame.body.available.address += (uint64_t)(uintptr_t)group->copies.memory;
        frame.body.available.key = group->copies.key;
        frame.body.available.key_bytes = (uint16_t)group->copies.key_bytes;
    } else if (frame.type == TT_FRAME_AVAILABLE) {
        const struct tt_request *request = request_of(action);

        frame.body.available.address = (uint64_t)(uintptr_t)request->options.receive;
        frame.body.available.key = request->key;
        frame.body.available.key_bytes = (uint16_t)request->key_bytes;
    }
    if (frame.type == TT_FRAME_DATA) {
        frame.body.data.bytes = (const uint8_t *)request_of(action)->options.receive + frame.body.data.offset_bytes;
    }
    length = tt_frame_encode(&frame, bytes, sizeof bytes);
    if (frame.type == TT_FRAME_FETCH && tt_method_is_multicast(request_of(action)->options.method)) {
        add(&group->repair_rounds, 1);
    }
    TT_LOG(TT_PART_PROTO, TT_LOG_TRACE, "%s %llu to rank %u", tt_frame_name(frame.type),
           (unsigned long long)frame.sequence, action->to);
    status = peer->connection->ops->send(peer->connection, bytes, (uint32_t)length);
    if (status == TUTTI_OK) {
        add(&group->frames_sent, 1);
        add(&group->frame_bytes_sent, length);
    } else if (status != TUTTI_ERR_PEER_FAILED) {
        group->trouble = status; /* a peer that has failed is another matter: its PEER_DOWN was or will be there */
    }
}

static uint32_t tag_of(const struct tt_request *request)
{
    return tt_tag_of_sequence(request->collective.sequence, request->options.method == TT_METHOD_EAGER);
}

static void publish(struct tt_group *group, struct tt_request *request)
{
    uint32_t tag = tag_of(request);

    for (uint32_t s = 0; s < request->collective.config.terms.subgroups; s++) {
        struct tt_queue *queue = &group->queues[s];

        if (!tt_queue_may_reuse(queue, request->collective.sequence)) {
            continue;
        }
        tt_receiver_publish(&queue->receiver, tag, &request->streams[s]);
        if (atomic_load_explicit(&queue->receiver.log.count, memory_order_seq_cst) > 0) {
            if (group->engine->workers != NULL) {
                tt_workers_wake_receiver(group->engine->workers, queue);
            } else {
                tt_queue_receive_early(queue);
            }
        }
    }
    group->stepping_needed = true;
}

static void freeze(struct tt_group *group, struct tt_request *request)
{
    uint32_t tag = tag_of(request);

    for (uint32_t s = 0; s < request->collective.config.terms.subgroups; s++) {
        tt_receiver_retire(&group->queues[s].receiver, tag);
        request->turns[s] = atomic_load_explicit(&group->queues[s].turn, memory_order_seq_cst);
    }
    request->freezing = true;
}

static void transmit(struct tt_group *group, struct tt_request *request)
{
    struct tt_transmit *job = &request->transmit;

    for (uint32_t s = 0; job->queues != NULL && s < job->subgroups; s++) {
        atomic_store_explicit(&job->limits[s], tt_collective_send_limit(&request->collective, s), memory_order_release);
    }
    if (atomic_load_explicit(&job->state, memory_order_relaxed) == TT_TRANSMIT_IDLE) {
        job->tag = tag_of(request);
        tt_collective_start_pacer(&request->collective, &job->pacer, tt_engine_now(group->engine));
        atomic_store_explicit(&job->state, TT_TRANSMIT_ACTIVE, memory_order_relaxed);
        tt_share_count(group);
        if (group->engine->workers != NULL && job->queues != NULL) {
            tt_workers_send(group->engine->workers, job);
        }
    } else if (group->engine->workers != NULL) {
        tt_workers_kick_sender(group->engine->workers);
    }
    group->stepping_needed = true;
}

static void cancel(struct tt_group *group, struct tt_request *request)
{
    atomic_store_explicit(&request->transmit.canceled, true, memory_order_release);
    if (group->engine->workers != NULL) {
        tt_workers_kick_sender(group->engine->workers);
    }
    group->stepping_needed = true;
}

/* Starts a one-sided read. One that cannot even start has failed: that answer comes with the next progress. */
static void get(struct tt_group *group, struct tt_request *request, const struct tt_action *action)
{
    struct tt_peer *peer = group->peers[action->to];
    tutti_status status = TUTTI_ERR_PEER_FAILED;

    if (peer != NULL && peer->connection != NULL) {
        status = peer->connection->ops->get(
            peer->connection, action->body.get.key, action->body.get.key_bytes, action->body.get.remote_address,
            (uint8_t *)request->options.receive + action->body.get.offset_bytes, action->body.get.length_bytes,
            tt_request_cookie(request, action->body.get.run));
    }
    if (status == TUTTI_OK) {
        request->gets++;
        add(&group->bytes_fetched, action->body.get.length_bytes);
    } else {
        request->failed_runs |= UINT32_C(1) << action->body.get.run;
        group->trouble = status != TUTTI_ERR_PEER_FAILED ? status : group->trouble;
        group->stepping_needed = true;
    }
}

static void keep(struct tt_group *group, const struct tt_request *request, const struct tt_action *action)
{
    memcpy(group->copies.memory + action->body.keep.offset_bytes, request->options.receive,
           action->body.keep.length_bytes);
}

static void send_probes(struct tt_group *group)
{
    struct tt_send_chunk probe = {.imm = tt_imm_encode(TT_TAG_PROBE, group->rank),
                                  .length_bytes = group->chunk_bytes,
                                  .address = group->probe_payload};

    for (uint32_t s = 0; s < group->queue_count; s++) {
        group->queues[s].posted += group->queues[s].mcast->ops->post(group->queues[s].mcast, &probe, 1);
    }
}

/* Says so when the group's idea of what its links take has changed. */
static void note_rate(struct tt_group *group, const struct tt_collective *collective)
{
    const struct tt_pace_sample *sample = &collective->sample;

    if (group->pace.limit_kbit != group->noted_kbit) {
        group->noted_kbit = group->pace.limit_kbit;
        TT_LOG(TT_PART_ENGINE, TT_LOG_DEBUG,
               "rank %u can take %u kbit/s; multicast brought %u of %u chunks at an agreed %u kbit/s in %llu us",
               group->rank, group->noted_kbit, sample->received, sample->expected, sample->rate_kbit,
               (unsigned long long)((sample->last_ns - sample->first_ns) / TT_NS_PER_US));
    }
}

static void finish(struct tt_group *group, struct tt_request *request, const struct tt_action *action)
{
    struct tt_collective *collective = &request->collective;
    struct tt_request **link = &group->active;

    add(&group->cutoffs, collective->cutoffs);
    add(&group->credit_stalls, collective->credit_stalls);
    add(&group->bytes_served, collective->fetch.served_bytes);
    add(tt_method_is_multicast(request->options.method) ? &group->chunks_repaired : &group->chunks_fetched,
        collective->fetch.fetched_chunks);
    note_rate(group, collective);
    while (*link != request) {
        link = &(*link)->next;
    }
    *link = request->next;
    if (action->body.finish.status != TUTTI_OK && request->memory != NULL) {
        /* No handshake ended this: the right neighbour may still be reading, and must not see what the application does
         * with the buffer from now on. */
        request->memory->ops->memory_release(request->memory);
        request->memory = NULL;
    }
    request->status = action->body.finish.status;
    request->failed_rank = action->body.finish.rank;
    if (request->status != TUTTI_OK) {
        tt_failure_note(group, request->status, request->failed_rank);
        snprintf(request->error, sizeof request->error, "%s", group->failure_text);
    }
    atomic_store_explicit(&request->done, true, memory_order_release);
    tt_engine_announce(group->engine);
}

static void carry_out(struct tt_group *group, const struct tt_action *action)
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
        cancel(group, request_of(action));
        break;
    case TT_ACTION_FREEZE:
        freeze(group, request_of(action));
        break;
    case TT_ACTION_GET:
        get(group, request_of(action), action);
        break;
    case TT_ACTION_ABANDON:
        tt_network_abandon(group->network, group->peers[action->to]);
        break;
    case TT_ACTION_KEEP:
        keep(group, request_of(action), action);
        break;
    case TT_ACTION_PROBE:
        send_probes(group);
        break;
    case TT_ACTION_PROBED:
        group->multicast = action->body.probe.multicast;
        group->probe_failed_rank = action->body.probe.failed_rank;
        group->probed = true;
        break;
    case TT_ACTION_FINISH:
        finish(group, request_of(action), action);
        break;
    }
}

static void step_once(struct tt_group *group, const struct tt_member_event *event)
{
    struct tt_actions *actions = &group->engine->actions;

    tt_member_step(&group->member, event, actions);
    for (uint32_t i = 0; i < actions->count; i++) {
        carry_out(group, &actions->list[i]);
    }
    group->more |= actions->more;
}

static bool is_frozen(const struct tt_group *group, const struct tt_request *request)
{
    for (uint32_t s = 0; s < request->collective.config.terms.subgroups; s++) {
        if (!tt_queue_is_quiet(&group->queues[s], request->turns[s])) {
            return false;
        }
    }
    return true;
}

/* One answer that a request owes its machine; false: none. The request may have finished, and be gone, afterwards. */
static bool answer_one(struct tt_group *group, struct tt_request *request, uint64_t now_ns)
{
    struct tt_member_event event = {.now_ns = now_ns, .collective = &request->collective};

    if (request->failed_runs != 0) {
        event.type = TT_MEMBER_GOT;
        event.run = (uint32_t)__builtin_ctz(request->failed_runs);
        event.status = TUTTI_ERR_PEER_FAILED;
        request->failed_runs &= request->failed_runs - 1;
    } else if (request->freezing && is_frozen(group, request)) {
        event.type = TT_MEMBER_FROZEN;
        request->freezing = false;
    } else if (!request->sent && request->collective.transmitting &&
               atomic_load_explicit(&request->transmit.state, memory_order_acquire) == TT_TRANSMIT_DONE) {
        event.type = TT_MEMBER_SENT;
        request->sent = true;
        tt_share_count(group);
    } else {
        return false;
    }
    step_once(group, &event);
    return true;
}

/* All answers that are due. A step may finish requests, so the walk starts over after each. */
static bool answer_all(struct tt_group *group, uint64_t now_ns)
{
    bool any = false, again = true;

    while (again) {
        again = false;
        for (struct tt_request *request = group->active; request != NULL && !again; request = request->next) {
            again = answer_one(group, request, now_ns);
        }
        any |= again;
    }
    return any;
}

/* The fabric refused something for a reason that lies here (memory, say): without it no collective can end. */
static void fail_for_trouble(struct tt_group *group, uint64_t now_ns)
{
    struct tt_member_event fail = {
        .type = TT_MEMBER_FAIL, .now_ns = now_ns, .status = group->trouble, .rank = group->rank};

    group->trouble = TUTTI_OK;
    tt_group_step(group, &fail);
}

void tt_group_step(struct tt_group *group, const struct tt_member_event *event)
{
    struct tt_member_event tick = {.type = TT_MEMBER_TICK, .now_ns = event->now_ns};

    step_once(group, event);
    answer_all(group, event->now_ns);
    while (group->more) {
        group->more = false;
        step_once(group, &tick);
        answer_all(group, event->now_ns);
    }
    if (group->member.status != TUTTI_OK) {
        tt_failure_note(group, group->member.status, group->member.failed_rank);
    } else if (group->trouble != TUTTI_OK) {
        fail_for_trouble(group, event->now_ns);
    }
    atomic_store_explicit(&group->drops_frame, group->member.drops_frame, memory_order_relaxed);
    for (uint32_t s = 0; s < group->queue_count; s++) {
        atomic_store_explicit(&group->queues[s].frontier, group->member.oldest, memory_order_release);
    }
    group->deadline_ns = tt_member_deadline(&group->member);
}

/* --- Progress ----------------------------------------------------------------------------------------------------- */

uint32_t tt_queue_receive_early(struct tt_queue *queue)
{
    uint32_t turn = atomic_load_explicit(&queue->turn, memory_order_relaxed), placed;

    if (queue->receiver.log.used_bytes == 0) {
        return 0;
    }
    queue->receiver.frontier = atomic_load_explicit(&queue->frontier, memory_order_acquire);
    queue->receiver.drained = atomic_load_explicit(&queue->drained, memory_order_relaxed);
    atomic_store_explicit(&queue->turn, turn + 1, memory_order_seq_cst);
    placed = tt_receive_early(&queue->receiver);
    atomic_store_explicit(&queue->turn, turn + 2, memory_order_seq_cst);
    return placed;
}

uint32_t tt_queue_receive(struct tt_queue *queue, uint32_t limit)
{
    struct tt_receive_chunk chunks[TT_QUEUE_BATCH];
    const struct tt_mcast_ops *ops = queue->mcast->ops;
    uint32_t total = tt_queue_receive_early(queue), count, turn;

    do {
        uint64_t frontier = atomic_load_explicit(&queue->frontier, memory_order_acquire);

        count = ops->poll(queue->mcast, chunks, TT_QUEUE_BATCH);
        if (count == 0) {
            atomic_store_explicit(&queue->drained, frontier, memory_order_release);
            break;
        }
        turn = atomic_load_explicit(&queue->turn, memory_order_relaxed);
        atomic_store_explicit(&queue->turn, turn + 1, memory_order_seq_cst);
        queue->receiver.frontier = frontier;
        queue->receiver.drained = atomic_load_explicit(&queue->drained, memory_order_relaxed);
        tt_receive(&queue->receiver, chunks, count);
        atomic_store_explicit(&queue->turn, turn + 2, memory_order_seq_cst);
        ops->repost(queue->mcast, chunks, count);
        total += count;
    } while (total < limit);
    return total;
}

static bool receive_all(struct tt_group *group)
{
    bool any = false;

    for (uint32_t s = 0; s < group->queue_count; s++) {
        /* A group that is being created has none yet, and other threads may use the context meanwhile. */
        any |= group->queues[s].mcast != NULL && tt_queue_receive(&group->queues[s], 4 * TT_QUEUE_BATCH) > 0;
    }
    return any;
}

/* Sends in the control context: everything without workers, and what is only to be copied. */
static bool transmit_all(struct tt_group *group, uint64_t now_ns)
{
    enum { BATCHES = 4 }; /* then look at the receive queues again */
    bool any = false;

    for (struct tt_request *request = group->active; request != NULL; request = request->next) {
        struct tt_transmit *job = &request->transmit;
        struct tt_queue *blocked = NULL;

        if (atomic_load_explicit(&job->state, memory_order_relaxed) != TT_TRANSMIT_ACTIVE ||
            (group->engine->workers != NULL && job->queues != NULL)) {
            continue;
        }
        switch (tt_transmit_progress(job, now_ns, BATCHES, &blocked)) {
        case TT_TRANSMIT_MOVED:
            any = true;
            break;
        case TT_TRANSMIT_BLOCKED:
            if (group->engine->wakeup != NULL) {
                tt_wakeup_when_writable(group->engine->wakeup, blocked->mcast->ops->send_fd(blocked->mcast));
            }
            break;
        case TT_TRANSMIT_FINISHED:
            any = true;
            break;
        case TT_TRANSMIT_PACED:
        case TT_TRANSMIT_WAITING:
            break;
        }
    }
    return any;
}

bool tt_group_progress(struct tt_group *group, uint64_t now_ns)
{
    struct tt_member_event tick = {.type = TT_MEMBER_TICK, .now_ns = now_ns};
    bool moved = false;

    if (group->engine->workers == NULL) {
        moved |= receive_all(group);
    } else {
        moved |= tt_group_take_attention(group);
    }
    moved |= transmit_all(group, now_ns);
    if (group->active != NULL) {
        moved |= answer_all(group, now_ns);
    }
    if (moved || group->stepping_needed || group->deadline_ns <= now_ns) {
        group->stepping_needed = false;
        tt_group_step(group, &tick);
    }
    return moved;
}

bool tt_group_dispatch(struct tt_engine *engine, const void *bytes, uint32_t length_bytes)
{
    struct tt_frame frame;
    struct tt_member_event event = {.type = TT_MEMBER_FRAME, .now_ns = tt_engine_now(engine), .frame = &frame};

    if (!tt_frame_decode(bytes, length_bytes, &frame)) {
        TT_LOG(TT_PART_ENGINE, TT_LOG_DEBUG, "dropped a malformed frame of %u bytes", length_bytes);
        return false;
    }
    for (struct tt_group *group = engine->groups; group != NULL; group = group->next) {
        if (group->key == frame.group) {
            add(&group->frames_received, 1);
            add(&group->frame_bytes_received, length_bytes);
            tt_group_step(group, &event);
            return true;
        }
    }
    TT_LOG(TT_PART_ENGINE, TT_LOG_DEBUG, "dropped a %s frame for a group that is not here", tt_frame_name(frame.type));
    return false;
}

bool tt_group_take_attention(struct tt_group *group)
{
    bool any = false;

    for (uint32_t s = 0; s < group->queue_count; s++) {
        _Atomic uint32_t *attention = &group->queues[s].receiver.attention;

        any |= atomic_load_explicit(attention, memory_order_relaxed) != 0 &&
               atomic_exchange_explicit(attention, 0, memory_order_acquire) != 0;
    }
    return any;
}

/* --- The end ------------------------------------------------------------------------------------------------------ */

void tt_group_free(struct tt_group *group)
{
    for (uint32_t s = 0; s < group->queue_count && group->queues != NULL; s++) {
        if (group->queues[s].mcast != NULL) {
            group->queues[s].mcast->ops->detach(group->queues[s].mcast);
        }
        tt_early_fini(&group->queues[s].receiver.log);
    }
    for (uint32_t rank = 0; rank < group->size && group->peers != NULL; rank++) {
        if (group->peers[rank] != NULL) {
            tt_network_disconnect(group->network, group->peers[rank]);
        }
    }
    tt_copies_fini(&group->copies);
    free(group->copy_entries);
    free(group->probe_payload);
    free(group->queues);
    free(group->peers);
    free(group->slots);
    free(group->present);
    free(group->heard);
    free(group);
}
