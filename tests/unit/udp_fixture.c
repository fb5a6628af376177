/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fixture of the udp provider's tests.
 *
 * Normal path: two provider instances, a queue each. The payload of chunk n is the pattern memory from byte n % 251 on.
 * Failures: cmocka assertions.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "fabric/udp/queue.h"
#include "udp_fixture.h"

enum { PATTERN_BYTES = 65536 + 256, PATTERN_PERIOD = 251 };

struct tt_mcast_address udp_fixture_address(void)
{
    static uint16_t fixtures = 0;
    uint32_t process = (uint32_t)getpid();

    return (struct tt_mcast_address){.group_be = htonl(0xEFC30000U | (process & 0xFFFF)), /* 239.195.x.y */
                                     .port = (uint16_t)(48000 + fixtures++ % 1000),
                                     .key = UDP_FIXTURE_KEY ^ process};
}

struct tt_mcast *udp_fixture_provider(const struct tt_interface *interface, uint64_t receive_buffer_bytes, bool plain)
{
    struct tt_udp_options options = {
        .interface = *interface, .receive_buffer_bytes = receive_buffer_bytes, .ttl = 1, .loop = true, .plain = plain};
    struct tt_mcast *mcast = NULL;

    assert_int_equal(tt_udp_create(&options, &mcast), TUTTI_OK);
    return mcast;
}

struct tt_mcast_attributes udp_fixture_attributes(struct tt_interface interface, uint32_t mtu,
                                                  uint64_t receive_buffer_bytes)
{
    struct tt_mcast_attributes attributes;
    struct tt_mcast *mcast;

    interface.mtu = mtu;
    mcast = udp_fixture_provider(&interface, receive_buffer_bytes, false);
    mcast->ops->attributes(mcast, &attributes);
    mcast->ops->destroy(mcast);
    return attributes;
}

tutti_status udp_fixture_introduce(struct tt_mcast_queue *queue, struct tt_mcast_queue *const *members, uint32_t size)
{
    uint8_t names[UDP_FIXTURE_RANKS][TT_MCAST_NAME_BYTES] = {{0}};

    assert_in_range(size, 1, UDP_FIXTURE_RANKS);
    for (uint32_t rank = 0; rank < size; rank++) {
        if (members[rank] != NULL) {
            members[rank]->ops->describe(members[rank], names[rank]);
        }
    }
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): a member may be nobody, the queue itself is attached */
    return queue->ops->introduce(queue, names, TT_MCAST_NAME_BYTES, size);
}

void udp_fixture_open(struct udp_fixture *fixture, const struct udp_fixture_options *options)
{
    uint64_t buffer_bytes = options->receive_buffer_bytes != 0 ? options->receive_buffer_bytes : TT_AUTO;
    const char *name = options->interface != NULL ? options->interface : "lo";

    memset(fixture, 0, sizeof(*fixture));
    assert_int_equal(tt_interface_find(name, &fixture->interface), TUTTI_OK);
    fixture->sending = udp_fixture_provider(&fixture->interface, buffer_bytes, options->plain_sender);
    fixture->receiving = udp_fixture_provider(&fixture->interface, buffer_bytes, options->plain_receiver);
    fixture->options = (struct tt_mcast_queue_options){
        .address = udp_fixture_address(), .rank = 0, .chunk_bytes = options->chunk_bytes};
    assert_int_equal(fixture->sending->ops->attach(fixture->sending, &fixture->options, &fixture->sender), TUTTI_OK);
    fixture->options.rank = 1;
    assert_int_equal(fixture->receiving->ops->attach(fixture->receiving, &fixture->options, &fixture->receiver),
                     TUTTI_OK);
    struct tt_mcast_queue *const members[UDP_FIXTURE_RANKS] = {fixture->sender, fixture->receiver};
    uint32_t size = options->pair ? 2 : UDP_FIXTURE_RANKS;
    assert_int_equal(udp_fixture_introduce(fixture->sender, members, size), TUTTI_OK);
    assert_int_equal(udp_fixture_introduce(fixture->receiver, members, size), TUTTI_OK);
    fixture->memory = malloc(PATTERN_BYTES);
    assert_non_null(fixture->memory);
    for (uint32_t i = 0; i < PATTERN_BYTES; i++) {
        fixture->memory[i] = (uint8_t)(i % PATTERN_PERIOD);
    }
}

void udp_fixture_close(struct udp_fixture *fixture)
{
    fixture->sending->ops->detach(fixture->sender);
    fixture->receiving->ops->detach(fixture->receiver);
    fixture->sending->ops->destroy(fixture->sending);
    fixture->receiving->ops->destroy(fixture->receiving);
    free(fixture->memory);
}

struct tt_send_chunk udp_fixture_chunk(const struct udp_fixture *fixture, uint32_t number, uint32_t length_bytes)
{
    return (struct tt_send_chunk){
        .imm = number, .length_bytes = length_bytes, .address = fixture->memory + number % PATTERN_PERIOD};
}

void udp_fixture_send(struct udp_fixture *fixture, uint32_t first_number, uint32_t count, uint32_t length_bytes,
                      uint32_t batch)
{
    struct tt_send_chunk chunks[UDP_FIXTURE_MAX];
    uint32_t accepted = 0;

    assert_in_range(batch, 1, UDP_FIXTURE_MAX);
    while (accepted < count) {
        uint32_t now = count - accepted < batch ? count - accepted : batch;
        for (uint32_t i = 0; i < now; i++) {
            chunks[i] = udp_fixture_chunk(fixture, first_number + accepted + i, length_bytes);
        }
        accepted += fixture->sender->ops->post(fixture->sender, chunks, now);
    }
}

void udp_fixture_check(const struct udp_fixture *fixture, const struct tt_receive_chunk *chunk)
{
    assert_int_equal(chunk->source, 0);
    if (memcmp(chunk->address, fixture->memory + chunk->imm % PATTERN_PERIOD, chunk->length_bytes) != 0) {
        fail_msg("the payload of chunk %u (%u bytes) has changed", chunk->imm, chunk->length_bytes);
    }
}

uint32_t udp_fixture_drain(struct udp_fixture *fixture, uint32_t max, uint32_t limit, uint8_t *seen)
{
    struct tt_receive_chunk chunks[UDP_FIXTURE_MAX];
    uint32_t came = 0;

    assert_in_range(max, TT_MCAST_POLL_LEAST, UDP_FIXTURE_MAX);
    while (came < limit) {
        uint32_t count = fixture->receiver->ops->poll(fixture->receiver, chunks, max);
        if (count == 0) {
            break;
        }
        assert_in_range(count, 1, max);
        for (uint32_t i = 0; i < count; i++) {
            udp_fixture_check(fixture, &chunks[i]);
            if (seen != NULL) {
                assert_int_equal(seen[chunks[i].imm], 0);
                seen[chunks[i].imm] = 1;
            }
        }
        fixture->receiver->ops->repost(fixture->receiver, chunks, count);
        came += count;
    }
    return came;
}

uint32_t udp_fixture_poll_one(struct tt_mcast_queue *queue, struct tt_receive_chunk *chunk)
{
    struct tt_receive_chunk chunks[TT_MCAST_POLL_LEAST];
    uint32_t count = queue->ops->poll(queue, chunks, TT_MCAST_POLL_LEAST);

    assert_in_range(count, 0, 1);
    if (count == 1) {
        *chunk = chunks[0];
    }
    return count;
}

struct tt_mcast_counters udp_fixture_counters(const struct tt_mcast_queue *queue)
{
    struct tt_mcast_counters counters;

    queue->ops->counters(queue, &counters);
    return counters;
}

int udp_fixture_stranger(const struct udp_fixture *fixture)
{
    struct ip_mreqn interface = {.imr_address.s_addr = tt_ip_to_ipv4(fixture->interface.ip),
                                 .imr_ifindex = (int)fixture->interface.index};
    struct sockaddr_in group = {.sin_family = AF_INET,
                                .sin_addr.s_addr = fixture->options.address.group_be,
                                .sin_port = htons(fixture->options.address.port)};

    const struct tt_udp_queue *sender = (const struct tt_udp_queue *)fixture->sender;
    if (sender->pair) {
        int copy = fcntl(sender->sender.fd, F_DUPFD_CLOEXEC, 0);
        assert_true(copy >= 0);
        return copy;
    }
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &interface, sizeof(interface)), 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&group, sizeof(group)), 0);
    return fd;
}
