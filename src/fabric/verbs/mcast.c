/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The verbs mcast provider: its instance, and the life of its queues.
 *
 * Normal path: attach has memory registered; join joins the group, makes the queue pairs, posts every receive and only
 * then attaches to the group the queue pair that receives, so that what comes has somewhere to land. The queue key
 * comes from the port of the address, so that jobs on one group with different ports do not cost each other anything;
 * what tells the members of a group from strangers with the same port is the table of names (sources.h). Failures:
 * every step says which group on which device it was about; what was made is undone, the membership too. Drain waits
 * until what was posted has left, which depends on no other host, but on the device.
 */
#include "fabric/verbs/mcast.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/settings.h"
#include "fabric/verbs/mcast_queue.h"

enum {
    AUTO_RECEIVE_BUFFER_BYTES = 4 << 20, /* enough for 200 Gbit/s (Khalilov et al., section IV) */
    MOST_RECEIVE_SLOTS = 8192,           /* what adapters take, as there */
    LEAST_RECEIVE_SLOTS = 2 * TT_MCAST_POLL_LEAST,
    QUEUE_KEY_BASE = 0x54550000, /* without the highest bit, which is the system's */
    NAME_QUEUE_PAIR_OFFSET = 16,
    NAME_MAGIC_OFFSET = 20
};

static const uint8_t name_magic[4] = {'U', 'D', 0, 1};

static void verbs_attributes(struct tt_mcast *mcast, struct tt_mcast_attributes *attributes)
{
    const struct tt_verbs_mcast *verbs = (const struct tt_verbs_mcast *)mcast;

    *attributes = (struct tt_mcast_attributes){.max_chunk_bytes = verbs->device->mtu_bytes,
                                               .good_chunk_bytes = verbs->device->mtu_bytes,
                                               .send_batch = TT_VERBS_SEND_BATCH};
}

/* --- The life of a queue ------------------------------------------------------------------------------------------ */

static void queue_free(struct tt_verbs_queue *queue)
{
    if (queue->attached &&
        (errno = ibv_detach_mcast(queue->receiver.pair, &queue->membership.gid, queue->membership.lid)) != 0) {
        char text[TT_VERBS_GROUP_TEXT_BYTES];
        TT_LOG(TT_PART_FABRIC, TT_LOG_WARN, "%s: detaching the queue pair: %s", tt_verbs_format_group(queue, text),
               strerror(errno));
    }
    tt_verbs_mcast_drain(&queue->base);
    tt_verbs_pairs_destroy(queue);
    tt_verbs_leave(queue);
    tt_verbs_sender_fini(queue);
    tt_verbs_receiver_fini(queue);
    free(queue);
}

/* InfiniBand's groups have one that the subnet's manager knows. A given group is all queues', and so their addresses,
 * which are in no packet then, make their keys differ. */
static uint32_t choose_queue_key(const struct tt_verbs_queue *queue)
{
    const struct tt_mcast_address *address = &queue->options.address;
    uint32_t group = queue->mcast->given.is_set ? ntohl(address->group_be) & UINT16_MAX : 0;

    return queue->mcast->device->roce || queue->mcast->given.is_set ? (uint32_t)QUEUE_KEY_BASE | (address->port ^ group)
                                                                    : queue->membership.queue_key;
}

static tutti_status verbs_join(struct tt_mcast_queue *mcast_queue)
{
    struct tt_verbs_queue *queue = (struct tt_verbs_queue *)mcast_queue;
    tutti_status status = tt_verbs_join(queue);

    if (status != TUTTI_OK) {
        return status;
    }
    queue->sender.queue_key = choose_queue_key(queue);
    status = tt_verbs_pairs_create(queue);
    if (status == TUTTI_OK) {
        status = tt_verbs_pairs_start(queue);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    if (!tt_verbs_sender_start(queue)) {
        return tt_verbs_queue_error(queue, "the path to the group", errno);
    }
    if (!tt_verbs_receiver_start(queue)) {
        return tt_verbs_queue_error(queue, "posting receives", errno);
    }
    int error = ibv_attach_mcast(queue->receiver.pair, &queue->membership.gid, queue->membership.lid);
    if (error != 0) {
        return tt_verbs_queue_error(queue, "attaching the queue pair (a device takes so many to a group, and groups)",
                                    error);
    }
    queue->attached = true;
    return TUTTI_OK;
}

static tutti_status verbs_attach(struct tt_mcast *mcast, const struct tt_mcast_queue_options *options,
                                 struct tt_mcast_queue **queue)
{
    struct tt_verbs_mcast *verbs = (struct tt_verbs_mcast *)mcast;

    if (options->chunk_bytes > verbs->device->mtu_bytes) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_INVALID_ARGUMENT,
                        "chunks of %u bytes do not fit through %s, whose MTU is %u", options->chunk_bytes,
                        verbs->device->name, verbs->device->mtu_bytes);
    }
    if (options->feeder >= verbs->device->threads || options->sender >= verbs->device->threads) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_INVALID_ARGUMENT,
                        "feeder %u and sender %u: device %s has been opened for %u threads", options->feeder,
                        options->sender, verbs->device->name, verbs->device->threads);
    }
    struct tt_verbs_queue *created = NULL;
    if (posix_memalign((void **)&created, _Alignof(struct tt_verbs_queue), sizeof(*created)) != 0) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_NO_MEMORY, "no memory for a multicast queue of %zu bytes",
                        sizeof(*created));
    }
    memset(created, 0, sizeof(*created));
    created->base.ops = mcast->ops;
    created->mcast = verbs;
    created->options = *options;
    created->sender.lane = tt_verbs_lane(verbs->device, options->sender);
    created->receiver.lane = tt_verbs_lane(verbs->device, options->feeder);
    if (!tt_verbs_receiver_init(created) || !tt_verbs_sender_init(created)) {
        tutti_status status =
            tt_verbs_queue_error(created, "registered memory and completion queues (ulimit -l, ulimit -n)", errno);
        queue_free(created);
        return status;
    }
    verbs->queues++;
    *queue = &created->base;
    return TUTTI_OK;
}

static void verbs_detach(struct tt_mcast_queue *queue)
{
    if (queue != NULL) {
        struct tt_verbs_queue *verbs_queue = (struct tt_verbs_queue *)queue;
        verbs_queue->mcast->queues--;
        queue_free(verbs_queue);
    }
}

/* --- Names -------------------------------------------------------------------------------------------------------- */

/* The GID, the number of the queue pair that sends in network order, and what tells such a name from those of other
 * providers. */
static void verbs_describe(const struct tt_mcast_queue *queue, uint8_t *name)
{
    const struct tt_verbs_queue *verbs_queue = (const struct tt_verbs_queue *)queue;
    uint32_t number_be = htonl(verbs_queue->sender.pair->qp_num);

    memcpy(name, verbs_queue->mcast->device->gid.raw, NAME_QUEUE_PAIR_OFFSET);
    memcpy(name + NAME_QUEUE_PAIR_OFFSET, &number_be, sizeof number_be);
    memcpy(name + NAME_MAGIC_OFFSET, name_magic, sizeof name_magic);
}

static tutti_status add_source(const struct tt_verbs_queue *queue, struct tt_verbs_sources *sources,
                               const uint8_t *name, uint32_t rank)
{
    static const uint8_t nobody[TT_MCAST_NAME_BYTES];
    struct tt_verbs_source source = {.rank = rank};
    uint32_t number_be, other;
    union ibv_gid gid;

    if (memcmp(name, nobody, sizeof nobody) == 0) {
        return TUTTI_OK;
    }
    memcpy(gid.raw, name, sizeof gid.raw);
    if (memcmp(name + NAME_MAGIC_OFFSET, name_magic, sizeof name_magic) != 0 ||
        tt_verbs_gid_is_ipv4(&gid) != queue->mcast->device->gid_is_ipv4) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_MISMATCH,
                        "rank %u does not use the multicast provider verbs on the same kind of network as rank %u",
                        rank, queue->options.rank);
    }
    memcpy(source.gid, name, sizeof source.gid);
    memcpy(&number_be, name + NAME_QUEUE_PAIR_OFFSET, sizeof number_be);
    source.queue_pair = ntohl(number_be);
    if (!tt_verbs_sources_add(sources, &source, &other)) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_MISMATCH, "ranks %u and %u have the same queue pair 0x%x", other,
                        rank, source.queue_pair);
    }
    return TUTTI_OK;
}

static tutti_status verbs_introduce(struct tt_mcast_queue *queue, const void *names, uint32_t stride_bytes,
                                    uint32_t size)
{
    struct tt_verbs_queue *verbs_queue = (struct tt_verbs_queue *)queue;
    void *memory = malloc(tt_verbs_sources_bytes(size));
    tutti_status status = TUTTI_OK;

    if (memory == NULL) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_NO_MEMORY, "no memory for the names of %u ranks", size);
    }
    struct tt_verbs_sources *sources = tt_verbs_sources_init(memory, size);
    for (uint32_t rank = 0; rank < size && status == TUTTI_OK; rank++) {
        status = add_source(verbs_queue, sources, (const uint8_t *)names + (size_t)rank * stride_bytes, rank);
    }
    if (status != TUTTI_OK) {
        free(memory);
        return status;
    }
    free(atomic_exchange_explicit(&verbs_queue->receiver.sources, sources, memory_order_acq_rel));
    return TUTTI_OK;
}

/* --- The rest ----------------------------------------------------------------------------------------------------- */

/* What is polled and not reposted is not there for the next: a quarter is left for that. */
static uint32_t verbs_depth_chunks(const struct tt_mcast_queue *queue)
{
    return ((const struct tt_verbs_queue *)queue)->mcast->receive_slots / 4 * 3;
}

static int verbs_receive_fd(const struct tt_mcast_queue *queue)
{
    return ((const struct tt_verbs_queue *)queue)->receiver.completions.channel->fd;
}

static int verbs_send_fd(const struct tt_mcast_queue *queue)
{
    return ((const struct tt_verbs_queue *)queue)->sender.completions.channel->fd;
}

static uint64_t counter_value(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static void verbs_counters(const struct tt_mcast_queue *queue, struct tt_mcast_counters *counters)
{
    const struct tt_verbs_sender *sender = &((const struct tt_verbs_queue *)queue)->sender;
    const struct tt_verbs_receiver *receiver = &((const struct tt_verbs_queue *)queue)->receiver;

    *counters = (struct tt_mcast_counters){.datagrams_sent = counter_value(&sender->datagrams),
                                           .bytes_sent = counter_value(&sender->bytes),
                                           .datagrams_received = counter_value(&receiver->datagrams),
                                           .bytes_received = counter_value(&receiver->bytes),
                                           .drops_key = counter_value(&receiver->drops_key),
                                           .drops_length = counter_value(&receiver->drops_length),
                                           .drops_own = counter_value(&receiver->drops_own),
                                           .send_errors = counter_value(&sender->errors)};
}

static void verbs_destroy(struct tt_mcast *mcast)
{
    struct tt_verbs_mcast *verbs = (struct tt_verbs_mcast *)mcast;

    assert(verbs->queues == 0);
    if (verbs->events != NULL) {
        rdma_destroy_event_channel(verbs->events);
    }
    pthread_mutex_destroy(&verbs->joins);
    tt_verbs_device_close(verbs->device);
    free(verbs);
}

/* How many slots a queue has: as much memory as was asked for, as far as the device goes. */
static tutti_status choose_slots(const struct tt_verbs_mcast_options *options, uint32_t slot_bytes, uint32_t *slots)
{
    const struct ibv_device_attr *limits = &options->device->attributes;
    uint64_t bytes =
        options->receive_buffer_bytes == TT_AUTO ? AUTO_RECEIVE_BUFFER_BYTES : options->receive_buffer_bytes;
    uint64_t most = MOST_RECEIVE_SLOTS, chosen = bytes / slot_bytes;

    most = most < (uint64_t)limits->max_qp_wr ? most : (uint64_t)limits->max_qp_wr;
    most = most < (uint64_t)limits->max_cqe ? most : (uint64_t)limits->max_cqe;
    chosen = chosen < most ? chosen : most;
    if (chosen < LEAST_RECEIVE_SLOTS) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_INVALID_ARGUMENT,
                        "TUTTI_RECEIVE_BUFFER=%llu: %s needs at least %d receives of %u bytes, and takes at most %llu",
                        (unsigned long long)bytes, options->device->name, LEAST_RECEIVE_SLOTS, slot_bytes,
                        (unsigned long long)most);
    }
    *slots = (uint32_t)chosen;
    return TUTTI_OK;
}

tutti_status tt_verbs_mcast_create(const struct tt_verbs_mcast_options *options, struct tt_mcast **mcast)
{
    static const struct tt_mcast_ops ops = {.name = "verbs",
                                            .attributes = verbs_attributes,
                                            .attach = verbs_attach,
                                            .join = verbs_join,
                                            .describe = verbs_describe,
                                            .introduce = verbs_introduce,
                                            .drain = tt_verbs_mcast_drain,
                                            .detach = verbs_detach,
                                            .depth_chunks = verbs_depth_chunks,
                                            .memory_register = tt_verbs_memory_register,
                                            .memory_release = tt_verbs_memory_release,
                                            .post = tt_verbs_mcast_post,
                                            .sent = tt_verbs_mcast_sent,
                                            .poll = tt_verbs_mcast_poll,
                                            .repost = tt_verbs_mcast_repost,
                                            .receive_fd = verbs_receive_fd,
                                            .send_fd = verbs_send_fd,
                                            .counters = verbs_counters,
                                            .destroy = verbs_destroy};
    uint32_t slot_bytes = TT_VERBS_SLOT_HEAD_BYTES + options->device->mtu_bytes, slots = 0;
    struct tt_verbs_given given;

    tutti_status status = tt_verbs_given_parse(options->device, options->mgid != NULL ? options->mgid : "", &given);
    if (status != TUTTI_OK) {
        return status;
    }
    if (options->device->address_be == 0 && !given.is_set) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_NOT_SUPPORTED,
                        "RDMA device %s, port %u: without an IPv4 address it joins no multicast group (see TUTTI_MGID)",
                        options->device->name, options->device->port);
    }
    status = choose_slots(options, slot_bytes, &slots);
    if (status != TUTTI_OK) {
        return status;
    }
    struct tt_verbs_mcast *verbs = calloc(1, sizeof(*verbs));
    if (verbs == NULL) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_NO_MEMORY, "no memory for the verbs multicast provider");
    }
    verbs->given = given;
    verbs->ttl = options->ttl != 0 ? options->ttl : 1;
    verbs->events = given.is_set ? NULL : rdma_create_event_channel();
    if (verbs->events == NULL && !given.is_set) {
        free(verbs);
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_NO_RESOURCE,
                        "RDMA device %s: librdmacm has no event channel (is the kernel module rdma_ucm loaded?): %s",
                        options->device->name, strerror(errno));
    }
    pthread_mutex_init(&verbs->joins, NULL);
    verbs->base.ops = &ops;
    verbs->device = options->device;
    verbs->receive_slots = slots;
    verbs->slot_bytes = slot_bytes;
    tt_verbs_device_hold(verbs->device);
    *mcast = &verbs->base;
    return TUTTI_OK;
}
