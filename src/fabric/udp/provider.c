/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The udp provider: its instance, and the life of its queues.
 *
 * Normal path: create checks the options and derives the largest chunk from the MTU; attach opens a receiving socket
 * (bound, joined, filtered) and a sending one, which the introduction connects (pair.c); the staging is its feeder's,
 * allocated with the first queue of it and freed with the last.
 * Failures: every step of attach says which address on which interface it was about; what was opened is closed.
 */
#include <assert.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/settings.h"
#include "base/socket.h"
#include "fabric/udp/queue.h"

/* Whole super-packets: what is left over would cost every receiver as much as a whole one. */
static uint32_t batch_of(uint32_t chunk_bytes)
{
    uint32_t segments = TT_UDP_MAX_DATAGRAM_BYTES / (TT_DATAGRAM_HEADER_BYTES + chunk_bytes);

    segments = segments < TT_UDP_SEGMENTS ? segments : TT_UDP_SEGMENTS;
    return segments > 0 ? TT_UDP_SEND_BATCH / segments * segments : TT_UDP_SEND_BATCH;
}

static void udp_attributes(struct tt_mcast *mcast, struct tt_mcast_attributes *attributes)
{
    const struct tt_udp *udp = (const struct tt_udp *)mcast;

    *attributes = (struct tt_mcast_attributes){.max_chunk_bytes = udp->max_chunk_bytes,
                                               .good_chunk_bytes = udp->good_chunk_bytes,
                                               .send_batch = batch_of(udp->max_chunk_bytes),
                                               .names_in_pairs_only = true};
}

static void queue_free(struct tt_udp_queue *queue)
{
    tt_socket_close(queue->receiver.fd); /* also leaves the subgroup, unless a pair has left it */
    tt_socket_close(queue->sender.fd);
    tt_udp_receiver_fini(queue);
    free(queue);
}

/* Opens what the queue needs, in the order in which failures are likeliest. On an error the caller frees the rest. */
static tutti_status queue_open(struct tt_udp_queue *queue)
{
    const struct tt_udp *udp = queue->udp;
    int fd = -1;

    tutti_status status = tt_udp_socket_receive(udp, &queue->options, &fd);
    if (status != TUTTI_OK) {
        return status;
    }
    queue->receiver.fd = fd;
    status = tt_udp_socket_depth(udp, &queue->options, fd, &queue->depth_chunks, &queue->receiver.capacity);
    if (status != TUTTI_OK) {
        return status;
    }
    status = tt_udp_receiver_init(queue);
    if (status != TUTTI_OK) {
        return status;
    }
    status = tt_udp_socket_send(udp, &queue->options, &fd, &queue->port_be);
    if (status == TUTTI_OK) {
        tt_udp_sender_init(queue, fd);
    }
    return status;
}

static tutti_status udp_attach(struct tt_mcast *mcast, const struct tt_mcast_queue_options *options,
                               struct tt_mcast_queue **queue)
{
    struct tt_udp *udp = (struct tt_udp *)mcast;

    if (options->chunk_bytes > udp->max_chunk_bytes) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_INVALID_ARGUMENT,
                        "chunks of %u bytes do not fit through %s, whose MTU of %u carries %u", options->chunk_bytes,
                        udp->options.interface.name, udp->options.interface.mtu, udp->max_chunk_bytes);
    }
    struct tt_udp_queue *created = NULL;
    if (posix_memalign((void **)&created, _Alignof(struct tt_udp_queue), sizeof(*created)) != 0) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_NO_MEMORY, "no memory for a multicast queue of %zu bytes",
                        sizeof(*created));
    }
    memset(created, 0, sizeof(*created));
    created->base.ops = mcast->ops;
    created->udp = udp;
    created->options = *options;
    created->sender.fd = -1;
    created->receiver.fd = -1;
    tutti_status status = queue_open(created);
    if (status != TUTTI_OK) {
        queue_free(created);
        return status;
    }
    udp->queues++;
    *queue = &created->base;
    return TUTTI_OK;
}

static void udp_detach(struct tt_mcast_queue *queue)
{
    if (queue != NULL) {
        struct tt_udp_queue *udp_queue = (struct tt_udp_queue *)queue;
        udp_queue->udp->queues--;
        queue_free(udp_queue);
    }
}

/* A pair is sent to by unicast. */
static void udp_join_again(struct tt_mcast_queue *queue)
{
    const struct tt_udp_queue *udp_queue = (const struct tt_udp_queue *)queue;

    if (!udp_queue->pair) {
        tt_udp_socket_join_again(udp_queue->udp, &udp_queue->options, udp_queue->receiver.fd);
    }
}

/* The system copies what is sent. */
static struct tt_mcast_memory *udp_memory_register(struct tt_mcast *mcast, uint32_t sender, const void *address,
                                                   size_t length_bytes)
{
    (void)mcast;
    (void)sender;
    (void)address;
    (void)length_bytes;
    return NULL;
}

static void udp_memory_release(struct tt_mcast_memory *memory)
{
    (void)memory;
}

static uint32_t udp_depth_chunks(const struct tt_mcast_queue *queue)
{
    return ((const struct tt_udp_queue *)queue)->depth_chunks;
}

static uint32_t udp_sent(struct tt_mcast_queue *queue)
{
    return ((struct tt_udp_queue *)queue)->sender.sent;
}

static int udp_receive_fd(const struct tt_mcast_queue *queue)
{
    return ((const struct tt_udp_queue *)queue)->receiver.fd;
}

static int udp_send_fd(const struct tt_mcast_queue *queue)
{
    return ((const struct tt_udp_queue *)queue)->sender.fd;
}

static uint64_t counter_value(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static void udp_counters(const struct tt_mcast_queue *queue, struct tt_mcast_counters *counters)
{
    const struct tt_udp_sender *sender = &((const struct tt_udp_queue *)queue)->sender;
    const struct tt_udp_receiver *receiver = &((const struct tt_udp_queue *)queue)->receiver;

    *counters = (struct tt_mcast_counters){.datagrams_sent = counter_value(&sender->datagrams),
                                           .bytes_sent = counter_value(&sender->bytes),
                                           .datagrams_received = counter_value(&receiver->datagrams),
                                           .bytes_received = counter_value(&receiver->bytes),
                                           .drops_key = counter_value(&receiver->drops_key),
                                           .drops_length = counter_value(&receiver->drops_length),
                                           .drops_own = counter_value(&receiver->drops_own),
                                           .send_errors = counter_value(&sender->errors)};
}

static void udp_destroy(struct tt_mcast *mcast)
{
    struct tt_udp *udp = (struct tt_udp *)mcast;

    assert(udp->queues == 0 && udp->stagings == NULL);
    free(udp);
}

static tutti_status check_options(const struct tt_udp_options *options)
{
    if (options->ttl > 255) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_INVALID_ARGUMENT, "a multicast TTL of %u is above 255", options->ttl);
    }
    /* The kernel doubles the number and keeps it in an int. */
    if (options->receive_buffer_bytes != TT_AUTO &&
        (options->receive_buffer_bytes == 0 || options->receive_buffer_bytes > INT_MAX / 2)) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_INVALID_ARGUMENT,
                        "TUTTI_RECEIVE_BUFFER=%llu: must be from 1 to %d bytes",
                        (unsigned long long)options->receive_buffer_bytes, INT_MAX / 2);
    }
    if (options->interface.mtu <= TT_UDP_IP_HEADERS_BYTES + TT_DATAGRAM_HEADER_BYTES) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_INVALID_ARGUMENT, "%s has an MTU of %u, which holds no datagram",
                        options->interface.name, options->interface.mtu);
    }
    return TUTTI_OK;
}

tutti_status tt_udp_create(const struct tt_udp_options *options, struct tt_mcast **mcast)
{
    static const struct tt_mcast_ops ops = {.name = "udp",
                                            .attributes = udp_attributes,
                                            .attach = udp_attach,
                                            .describe = tt_udp_describe,
                                            .introduce = tt_udp_introduce,
                                            .join_again = udp_join_again,
                                            .detach = udp_detach,
                                            .depth_chunks = udp_depth_chunks,
                                            .memory_register = udp_memory_register,
                                            .memory_release = udp_memory_release,
                                            .post = tt_udp_post,
                                            .sent = udp_sent,
                                            .poll = tt_udp_poll,
                                            .repost = tt_udp_repost,
                                            .receive_fd = udp_receive_fd,
                                            .send_fd = udp_send_fd,
                                            .counters = udp_counters,
                                            .destroy = udp_destroy};

    tutti_status status = check_options(options);
    if (status != TUTTI_OK) {
        return status;
    }
    struct tt_udp *udp = calloc(1, sizeof(*udp));
    if (udp == NULL) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_NO_MEMORY, "no memory for the udp provider");
    }
    uint32_t datagram_bytes = options->interface.mtu - TT_UDP_IP_HEADERS_BYTES;
    if (datagram_bytes > TT_UDP_MAX_DATAGRAM_BYTES) {
        datagram_bytes = TT_UDP_MAX_DATAGRAM_BYTES;
    }
    udp->base.ops = &ops;
    udp->options = *options;
    udp->max_chunk_bytes = datagram_bytes - TT_DATAGRAM_HEADER_BYTES;
    udp->good_chunk_bytes = tt_udp_socket_good_chunk(udp);
    *mcast = &udp->base;
    return TUTTI_OK;
}
