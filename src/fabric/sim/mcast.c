/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The simulator's provider of the mcast contract.
 *
 * Normal path: post puts chunks into the queue's ring, from which the uplink takes them; the payload is read when the
 * chunk has left, and then it counts as sent. At the receiver a chunk waits in a bounded ring; poll copies it to
 * staging, repost overwrites that staging, so that whoever reads it too late reads rubbish. Over UC (uc.c) a chunk
 * leaves in several packets, and may have been written elsewhere by then.
 *
 * A simulated packet names its sender, but a queue brings nothing before it was introduced, as where the names are
 * needed.
 *
 * Failures: no room means a dropped chunk. What breaks the contract (a chunk that is too long or outside its
 * registration, a poll before the last one's chunks were reposted, a foreign staging handle) is recorded as a violation
 * of the calling software.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/least.h"
#include "base/log.h"
#include "fabric/sim/mcast_queue.h"

struct tt_sim_mcast_memory {
    struct tt_mcast_memory base;
    uint32_t sender;
    const unsigned char *address;
    size_t length_bytes;
};

static const struct tt_mcast_ops mcast_ops;

static struct tt_sim_queue *queue_of(const struct tt_mcast_queue *queue)
{
    return (struct tt_sim_queue *)(uintptr_t)queue;
}

static struct tt_sim *sim_of(const struct tt_sim_queue *queue)
{
    return queue->mcast->sim;
}

/* --- Instance --------------------------------------------------------------------------------------------------- */

struct tt_mcast *tt_sim_mcast(struct tt_sim *sim, uint32_t node)
{
    assert(node < sim->options.node_count);
    struct tt_sim_mcast *mcast = sim->nodes[node].mcast;
    if (mcast == NULL) {
        mcast = tt_sim_allocate(sizeof(*mcast));
        mcast->base.ops = &mcast_ops;
        mcast->sim = sim;
        mcast->node = node;
        sim->nodes[node].mcast = mcast;
    }
    return &mcast->base;
}

static void attributes(struct tt_mcast *base, struct tt_mcast_attributes *result)
{
    const struct tt_sim_mcast *mcast = (struct tt_sim_mcast *)base;
    *result = (struct tt_mcast_attributes){
        .max_chunk_bytes = mcast->sim->options.max_chunk_bytes,
        .good_chunk_bytes = (uint32_t)tt_least(mcast->sim->options.max_chunk_bytes, TT_MCAST_GOOD_CHUNK_BYTES),
        .send_batch = mcast->sim->options.send_batch,
        .writes = tt_sim_is_uc(mcast->sim)};
}

static void leave_and_free(struct tt_sim_queue *queue);

void tt_sim_mcast_free(struct tt_sim_mcast *mcast)
{
    if (mcast == NULL) {
        return;
    }
    while (mcast->queues != NULL) {
        struct tt_sim_queue *queue = mcast->queues;
        mcast->queues = queue->next;
        leave_and_free(queue);
    }
    mcast->sim->nodes[mcast->node].mcast = NULL;
    free(mcast);
}

static void destroy(struct tt_mcast *base)
{
    struct tt_sim_mcast *mcast = (struct tt_sim_mcast *)base;
    if (mcast->queues != NULL) {
        tt_sim_violation(mcast->sim, "node %u destroys mcast with a queue attached", mcast->node);
    }
    tt_sim_mcast_free(mcast);
}

/* --- Membership ------------------------------------------------------------------------------------------------- */

static struct tt_sim_group *group_of(struct tt_sim *sim, const struct tt_mcast_address *address)
{
    struct tt_sim_group **at = &sim->groups;
    for (; *at != NULL; at = &(*at)->next) {
        if ((*at)->group_be == address->group_be && (*at)->port == address->port) {
            return *at;
        }
    }
    struct tt_sim_group *group = tt_sim_allocate(sizeof(*group));
    group->group_be = address->group_be;
    group->port = address->port;
    group->members = tt_sim_allocate(sim->options.node_count * sizeof(*group->members));
    group->queues = tt_sim_allocate(sim->options.node_count * sizeof(struct tt_sim_queue *));
    *at = group;
    return group;
}

void tt_sim_groups_fini(struct tt_sim *sim)
{
    while (sim->groups != NULL) {
        struct tt_sim_group *group = sim->groups;
        sim->groups = group->next;
        free(group->members);
        free(group->queues);
        free(group);
    }
}

static void join(struct tt_sim_group *group, struct tt_sim_queue *queue)
{
    const uint32_t node = queue->mcast->node;
    if (group->queues[node] == NULL) {
        group->members[group->member_count++] = node;
    }
    struct tt_sim_queue **at = &group->queues[node];
    while (*at != NULL) {
        at = &(*at)->next_in_group;
    }
    *at = queue;
}

static void leave(struct tt_sim_group *group, struct tt_sim_queue *queue)
{
    const uint32_t node = queue->mcast->node;
    struct tt_sim_queue **at = &group->queues[node];
    while (*at != queue) {
        at = &(*at)->next_in_group;
    }
    *at = queue->next_in_group;
    if (group->queues[node] != NULL) {
        return;
    }
    uint32_t index = 0;
    while (group->members[index] != node) {
        index++;
    }
    group->member_count--;
    memmove(&group->members[index], &group->members[index + 1],
            (group->member_count - index) * sizeof(*group->members));
}

static tutti_status attach(struct tt_mcast *base, const struct tt_mcast_queue_options *options,
                           struct tt_mcast_queue **result)
{
    struct tt_sim_mcast *mcast = (struct tt_sim_mcast *)base;
    struct tt_sim *sim = mcast->sim;
    if (options->chunk_bytes > sim->options.max_chunk_bytes) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_INVALID_ARGUMENT, "sim: chunks of %u bytes, the most is %u",
                        options->chunk_bytes, sim->options.max_chunk_bytes);
    }
    struct tt_sim_queue *queue = tt_sim_allocate(sizeof(*queue));
    queue->base.ops = &mcast_ops;
    queue->flow.owner = queue;
    queue->flow.kind = TT_SIM_FLOW_CHUNKS;
    queue->mcast = mcast;
    queue->options = *options;
    queue->id = ++sim->next_queue_id;
    queue->sends = tt_sim_allocate(sim->options.send_queue_chunks * sizeof(*queue->sends));
    queue->waiting = tt_sim_allocate(sim->options.receive_depth * sizeof(*queue->waiting));
    queue->windows = tt_sim_allocate(options->windows * sizeof(*queue->windows));
    queue->group = group_of(sim, &options->address);
    join(queue->group, queue);
    queue->next = mcast->queues;
    mcast->queues = queue;
    *result = &queue->base;
    return TUTTI_OK;
}

/* The queue is out of its instance's list already. */
static void leave_and_free(struct tt_sim_queue *queue)
{
    struct tt_sim *sim = sim_of(queue);
    struct tt_sim_packet *on_uplink = sim->nodes[queue->mcast->node].uplink.packet;

    leave(queue->group, queue);
    tt_sim_flow_remove(sim, queue->mcast->node, &queue->flow);
    if (on_uplink != NULL && on_uplink->queue == queue) {
        on_uplink->canceled = true; /* its memory is the caller's again from now on */
    }
    for (uint32_t i = 0; i < queue->waiting_count; i++) {
        tt_sim_packet_release(sim, queue->waiting[(queue->waiting_head + i) % sim->options.receive_depth].chunk);
    }
    tt_sim_uc_fini(queue);
    free(queue->sends);
    free(queue->waiting);
    free(queue->staging);
    free(queue->is_out);
    free(queue->staged_bytes);
    free(queue);
}

static void detach(struct tt_mcast_queue *base)
{
    if (base == NULL) {
        return;
    }
    struct tt_sim_queue *queue = queue_of(base);
    struct tt_sim_queue **at = &queue->mcast->queues;
    while (*at != queue) {
        at = &(*at)->next;
    }
    *at = queue->next;
    leave_and_free(queue);
}

static void describe(const struct tt_mcast_queue *base, uint8_t *name)
{
    const struct tt_sim_queue *queue = queue_of(base);

    memset(name, 0, TT_MCAST_NAME_BYTES);
    memcpy(name, &queue->id, sizeof queue->id);
}

static tutti_status introduce(struct tt_mcast_queue *base, const void *names, uint32_t stride_bytes, uint32_t size)
{
    struct tt_sim_queue *queue = queue_of(base);
    uint8_t own[TT_MCAST_NAME_BYTES];

    describe(base, own);
    if (queue->options.rank >= size ||
        memcmp((const uint8_t *)names + (size_t)queue->options.rank * stride_bytes, own, sizeof own) != 0) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_MISMATCH, "sim: rank %u is introduced by the name of another queue",
                        queue->options.rank);
    }
    queue->introduced = true;
    return TUTTI_OK;
}

static uint32_t depth_chunks(const struct tt_mcast_queue *base)
{
    return sim_of(queue_of(base))->options.receive_depth;
}

/* --- Sending ---------------------------------------------------------------------------------------------------- */

static struct tt_mcast_memory *memory_register(struct tt_mcast *base, uint32_t sender, const void *address,
                                               size_t length_bytes)
{
    struct tt_sim_mcast_memory *memory = tt_sim_allocate(sizeof(*memory));

    memory->base.ops = base->ops;
    memory->sender = sender;
    memory->address = address;
    memory->length_bytes = length_bytes;
    return &memory->base;
}

static void memory_release(struct tt_mcast_memory *base)
{
    free(base);
}

static void check_registration(struct tt_sim *sim, const struct tt_sim_queue *queue, const struct tt_send_chunk *chunk)
{
    const struct tt_sim_mcast_memory *memory = (const struct tt_sim_mcast_memory *)chunk->memory;
    uintptr_t first = (uintptr_t)chunk->address;

    if (memory != NULL && (first < (uintptr_t)memory->address ||
                           first + chunk->length_bytes > (uintptr_t)memory->address + memory->length_bytes)) {
        tt_sim_violation(sim, "node %u posts a chunk of %u bytes that lies outside its registration of %zu",
                         queue->mcast->node, chunk->length_bytes, memory->length_bytes);
    }
    if (memory != NULL && memory->sender != queue->options.sender) {
        tt_sim_violation(sim, "node %u posts to a queue of sender %u from a registration for sender %u",
                         queue->mcast->node, queue->options.sender, memory->sender);
    }
}

static uint32_t post(struct tt_mcast_queue *base, const struct tt_send_chunk *chunks, uint32_t count)
{
    struct tt_sim_queue *queue = queue_of(base);
    struct tt_sim *sim = sim_of(queue);
    const uint32_t room = sim->options.send_queue_chunks - (queue->accepted - queue->sent);
    if (sim->nodes[queue->mcast->node].crashed) {
        return 0;
    }
    if (count > room) {
        count = room;
    }
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t tail = (queue->send_head + queue->send_count) % sim->options.send_queue_chunks;
        queue->sends[tail] = chunks[i];
        check_registration(sim, queue, &chunks[i]);
        if (chunks[i].length_bytes > queue->options.chunk_bytes) {
            tt_sim_violation(sim, "node %u posts a chunk of %u bytes, the group's are %u", queue->mcast->node,
                             chunks[i].length_bytes, queue->options.chunk_bytes);
            queue->sends[tail].length_bytes = queue->options.chunk_bytes;
        }
        queue->send_count++;
    }
    queue->accepted += count;
    if (count > 0) {
        tt_sim_flow_offer(sim, queue->mcast->node, &queue->flow);
    }
    return count;
}

static uint32_t sent(struct tt_mcast_queue *base)
{
    return queue_of(base)->sent;
}

struct tt_sim_packet *tt_sim_queue_take(struct tt_sim_queue *queue, bool *more)
{
    struct tt_sim *sim = sim_of(queue);
    const struct tt_send_chunk *chunk = &queue->sends[queue->send_head];
    struct tt_sim_packet *packet;
    bool is_last = true;
    if (tt_sim_is_uc(sim)) {
        packet = tt_sim_uc_take(queue, &is_last);
    } else {
        packet = tt_sim_packet_create(sim, TT_SIM_CHUNK, queue->mcast->node, chunk->length_bytes);
        packet->memory = chunk->address;
    }
    packet->group = queue->group;
    packet->queue = queue;
    packet->queue_id = queue->id;
    packet->imm = chunk->imm;
    packet->key = queue->options.address.key;
    packet->rank = queue->options.rank;
    if (is_last) {
        queue->send_head = (queue->send_head + 1) % sim->options.send_queue_chunks;
        queue->send_count--;
    }
    *more = queue->send_count > 0;
    return packet;
}

void tt_sim_chunk_leave(struct tt_sim *sim, struct tt_sim_packet *packet)
{
    struct tt_sim_queue *queue = packet->queue;
    packet->queue = NULL;
    if (packet->length_bytes > 0) {
        unsigned char *data = packet->message != NULL ? packet->message->data + packet->offset : packet->data;
        memcpy(data, packet->memory, packet->length_bytes);
    }
    queue->sent += packet->message == NULL || tt_sim_uc_is_last(packet);
    queue->counters.datagrams_sent++;
    queue->counters.bytes_sent += packet->length_bytes + sim->options.header_bytes;
    tt_sim_mark_ready(sim, packet->source);
    /* Other queues of this node in the same subgroup get it from their own NIC, not from the switch. */
    const struct tt_sim_queue *local = queue->group->queues[packet->source];
    if (local != NULL && local->next_in_group != NULL) {
        tt_sim_packet_hold(packet);
        tt_sim_event_push(sim, sim->now_ns, TT_SIM_EVENT_DELIVER, packet->source, packet);
    }
}

/* --- Receiving -------------------------------------------------------------------------------------------------- */

static uint32_t packets_of(const struct tt_sim *sim, const struct tt_sim_packet *chunk)
{
    const uint32_t most_bytes = tt_sim_is_uc(sim) ? sim->options.uc_packet_bytes : UINT32_MAX;
    return chunk->length_bytes <= most_bytes ? 1 : (chunk->length_bytes - 1) / most_bytes + 1;
}

/* The chunk is complete: it waits for being polled, if there is room. */
static void complete(struct tt_sim_queue *queue, struct tt_sim_packet *chunk, uint8_t *place)
{
    struct tt_sim *sim = sim_of(queue);
    const uint32_t depth = sim->options.receive_depth;
    if (queue->waiting_count + queue->polled >= depth) {
        sim->nodes[queue->mcast->node].port.overflow_drops++;
        tt_sim_note(sim, "receive queue of node %u is full", queue->mcast->node);
        return;
    }
    tt_sim_packet_hold(chunk);
    queue->waiting[(queue->waiting_head + queue->waiting_count) % depth] =
        (struct tt_sim_waiting){.chunk = chunk, .place = place};
    queue->waiting_count++;
    queue->counters.datagrams_received += packets_of(sim, chunk);
    queue->counters.bytes_received += chunk->length_bytes + packets_of(sim, chunk) * sim->options.header_bytes;
    tt_sim_mark_ready(sim, queue->mcast->node);
}

static void receive(struct tt_sim_queue *queue, struct tt_sim_packet *packet)
{
    struct tt_sim_packet *chunk = packet->message != NULL ? packet->message : packet;
    uint8_t *place = NULL;
    if (packet->key != queue->options.address.key) {
        queue->counters.drops_key++;
    } else if (packet->rank == queue->options.rank) {
        queue->counters.drops_own++;
    } else if (chunk->length_bytes > queue->options.chunk_bytes) {
        queue->counters.drops_length++;
    } else if (packet->message == NULL || tt_sim_uc_receive(queue, packet, &place)) {
        complete(queue, chunk, place);
    }
}

void tt_sim_chunk_deliver(uint32_t node, struct tt_sim_packet *packet)
{
    for (struct tt_sim_queue *queue = packet->group->queues[node]; queue != NULL; queue = queue->next_in_group) {
        if (queue->id != packet->queue_id) {
            receive(queue, packet);
        }
    }
}

static size_t slot_bytes(const struct tt_sim_queue *queue)
{
    return queue->options.chunk_bytes > 0 ? queue->options.chunk_bytes : 1;
}

static uint32_t poll(struct tt_mcast_queue *base, struct tt_receive_chunk *chunks, uint32_t max)
{
    struct tt_sim_queue *queue = queue_of(base);
    struct tt_sim *sim = sim_of(queue);
    if (queue->polled > 0) {
        tt_sim_violation(sim, "node %u polls with %u chunks not reposted", queue->mcast->node, queue->polled);
        return 0;
    }
    if (!tt_sim_node_runs(sim, queue->mcast->node) || !queue->introduced) {
        return 0;
    }
    const uint32_t count = queue->waiting_count < max ? queue->waiting_count : max;
    if (count > queue->slot_count) {
        queue->staging = tt_sim_reallocate(queue->staging, count, slot_bytes(queue));
        queue->is_out = tt_sim_reallocate(queue->is_out, count, sizeof(*queue->is_out));
        queue->staged_bytes = tt_sim_reallocate(queue->staged_bytes, count, sizeof(*queue->staged_bytes));
        queue->slot_count = count;
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct tt_sim_waiting *waiting = &queue->waiting[queue->waiting_head];
        struct tt_sim_packet *packet = waiting->chunk;
        unsigned char *slot = queue->staging + i * slot_bytes(queue);
        if (waiting->place == NULL) {
            memcpy(slot, packet->data, packet->length_bytes);
        }
        chunks[i] = (struct tt_receive_chunk){.imm = packet->imm,
                                              .length_bytes = packet->length_bytes,
                                              .source = packet->rank,
                                              .staging = i,
                                              .address = waiting->place != NULL ? waiting->place : slot};
        queue->is_out[i] = true;
        queue->staged_bytes[i] = waiting->place != NULL ? 0 : packet->length_bytes;
        queue->waiting_head = (queue->waiting_head + 1) % sim->options.receive_depth;
        tt_sim_packet_release(sim, packet);
    }
    queue->waiting_count -= count;
    queue->polled = count;
    return count;
}

static void repost(struct tt_mcast_queue *base, const struct tt_receive_chunk *chunks, uint32_t count)
{
    struct tt_sim_queue *queue = queue_of(base);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t slot = chunks[i].staging;
        if (slot >= queue->slot_count || !queue->is_out[slot]) {
            tt_sim_violation(sim_of(queue), "node %u reposts staging %u, which it does not have", queue->mcast->node,
                             slot);
            continue;
        }
        queue->is_out[slot] = false;
        queue->polled--;
        memset(queue->staging + slot * slot_bytes(queue), TT_SIM_POISON, queue->staged_bytes[slot]);
    }
}

static int no_fd(const struct tt_mcast_queue *base)
{
    (void)base;
    return -1;
}

static void counters(const struct tt_mcast_queue *base, struct tt_mcast_counters *result)
{
    *result = queue_of(base)->counters;
}

static const struct tt_mcast_ops mcast_ops = {.name = "sim",
                                              .attributes = attributes,
                                              .attach = attach,
                                              .describe = describe,
                                              .introduce = introduce,
                                              .detach = detach,
                                              .bind = tt_sim_uc_bind,
                                              .invalidate = tt_sim_uc_invalidate,
                                              .depth_chunks = depth_chunks,
                                              .memory_register = memory_register,
                                              .memory_release = memory_release,
                                              .post = post,
                                              .sent = sent,
                                              .poll = poll,
                                              .repost = repost,
                                              .receive_fd = no_fd,
                                              .send_fd = no_fd,
                                              .counters = counters,
                                              .destroy = destroy};
