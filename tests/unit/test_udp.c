/* SPDX-License-Identifier: BSD-3-Clause */
/* The udp provider's data path over real sockets on loopback: sizes, super-packets, strangers, full buffers. */
#include <netinet/udp.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/random.h"
#include "fabric/udp/queue.h"
#include "udp_fixture.h"

static bool is_readable(int fd)
{
    struct pollfd readable = {.fd = fd, .events = POLLIN};
    return poll(&readable, 1, 0) == 1;
}

static void chunks_of_boundary_sizes_arrive_unchanged(void **state)
{
    const uint32_t sizes[] = {0, 1, 2, 1451, 1452, 1453, 8192, 32741, 32742, 65490, TT_DATAGRAM_MAX_PAYLOAD_BYTES};
    const uint32_t count = sizeof(sizes) / sizeof(sizes[0]);

    (void)state;
    for (int mode = 0; mode < 4; mode++) {
        struct udp_fixture fixture;
        udp_fixture_open(&fixture, &(struct udp_fixture_options){.chunk_bytes = TT_DATAGRAM_MAX_PAYLOAD_BYTES,
                                                                 .pair = (mode & 2) != 0,
                                                                 .plain_sender = (mode & 1) != 0});
        for (uint32_t i = 0; i < count; i++) {
            struct tt_receive_chunk chunk;
            struct tt_send_chunk sent = udp_fixture_chunk(&fixture, i + 0xFFFFFF00, sizes[i]);
            assert_int_equal(fixture.sender->ops->post(fixture.sender, &sent, 1), 1);
            assert_int_equal(udp_fixture_poll_one(fixture.receiver, &chunk), 1);
            assert_int_equal(chunk.imm, i + 0xFFFFFF00);
            assert_int_equal(chunk.length_bytes, sizes[i]);
            udp_fixture_check(&fixture, &chunk);
            fixture.receiver->ops->repost(fixture.receiver, &chunk, 1);
        }
        assert_int_equal(fixture.sender->ops->sent(fixture.sender), count);
        struct tt_mcast_counters sender = udp_fixture_counters(fixture.sender);
        struct tt_mcast_counters receiver = udp_fixture_counters(fixture.receiver);
        assert_int_equal(sender.datagrams_sent, count);
        assert_int_equal(receiver.datagrams_received, count);
        assert_int_equal(sender.bytes_sent, receiver.bytes_received);
        assert_int_equal(sender.send_errors, 0);
        udp_fixture_close(&fixture);
    }
}

static void poll_says_when_it_has_brought_all_that_waited(void **state)
{
    enum { MAX = 4 * TT_MCAST_POLL_LEAST }; /* so that a call may ask for four messages */
    static const uint32_t posted[] = {4, 0, 0, 1, 0}, brought[] = {1, 1, 2, 1, 0};
    static const bool dry[] = {false, false, true, false, true}; /* single messages are asked for first, then more */
    struct udp_fixture fixture;
    struct tt_receive_chunk chunks[MAX];
    struct tt_send_chunk sent;

    (void)state;
    udp_fixture_open(&fixture, &(struct udp_fixture_options){.chunk_bytes = 1024, .plain_sender = true});
    sent = udp_fixture_chunk(&fixture, 1, 100);
    for (uint32_t i = 0; i < sizeof(posted) / sizeof(posted[0]); i++) {
        for (uint32_t n = 0; n < posted[i]; n++) {
            assert_int_equal(fixture.sender->ops->post(fixture.sender, &sent, 1), 1);
        }
        assert_int_equal(fixture.receiver->ops->poll(fixture.receiver, chunks, MAX), brought[i]);
        fixture.receiver->ops->repost(fixture.receiver, chunks, brought[i]);
        assert_int_equal(fixture.receiver->dry, dry[i]);
    }
    udp_fixture_close(&fixture);
}

static void largest_chunk_follows_from_the_mtu(void **state)
{
    const struct {
        uint32_t mtu;
        uint32_t chunk_bytes;
        uint32_t batch; /* whole super-packets of 44, 7, 64 and 1 datagrams */
    } cases[] = {{1500, 1456, 44},
                 {9000, 8956, 63},
                 {45, 1, 64},
                 {65536, TT_DATAGRAM_MAX_PAYLOAD_BYTES, 64},
                 {65535, 65491, 64}};
    struct tt_interface interface;

    (void)state;
    assert_int_equal(tt_interface_find("lo", &interface), TUTTI_OK);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct tt_mcast_attributes attributes = udp_fixture_attributes(interface, cases[i].mtu, TT_AUTO);

        assert_int_equal(attributes.max_chunk_bytes, cases[i].chunk_bytes);
        assert_int_equal(attributes.send_batch, cases[i].batch);
    }
}

/* Lengths as no sane group sends them: equal runs, a shorter one at the end of a run, longer ones, empty ones. */
static uint32_t make_mixed_lengths(uint32_t *lengths, uint32_t capacity)
{
    struct tt_random random;
    uint32_t count = 0;

    tt_random_init(&random, 7);
    while (count < capacity) {
        uint32_t run = 1 + (uint32_t)tt_random_below(&random, 100);
        uint32_t length_bytes = (uint32_t)tt_random_below(&random, tt_random_chance(&random, 300000) ? 9000 : 700);
        length_bytes = tt_random_chance(&random, 100000) ? 0 : length_bytes;
        for (uint32_t i = 0; i < run && count < capacity; i++) {
            lengths[count++] = length_bytes;
        }
    }
    return count;
}

static void super_packets_and_single_datagrams_give_the_same_chunks(void **state)
{
    enum { COUNT = 1500 };
    static uint32_t lengths[COUNT];
    static struct tt_send_chunk sent[COUNT];

    (void)state;
    make_mixed_lengths(lengths, COUNT);
    for (int mode = 0; mode < 8; mode++) {
        struct udp_fixture fixture;
        struct tt_receive_chunk chunks[UDP_FIXTURE_MAX];
        uint32_t came = 0;
        udp_fixture_open(&fixture, &(struct udp_fixture_options){.chunk_bytes = 9000,
                                                                 .receive_buffer_bytes = 32 << 20,
                                                                 .pair = (mode & 4) != 0,
                                                                 .plain_sender = (mode & 1) != 0,
                                                                 .plain_receiver = (mode & 2) != 0});
        for (uint32_t i = 0; i < COUNT; i++) {
            sent[i] = udp_fixture_chunk(&fixture, i, lengths[i]);
        }
        for (uint32_t posted = 0; posted < COUNT;) {
            /* More than one system call takes, to begin with. */
            posted += fixture.sender->ops->post(fixture.sender, sent + posted, COUNT - posted);
            for (uint32_t n; (n = fixture.receiver->ops->poll(fixture.receiver, chunks, UDP_FIXTURE_MAX)) > 0;) {
                for (uint32_t i = 0; i < n; i++, came++) {
                    assert_int_equal(chunks[i].imm, came);
                    assert_int_equal(chunks[i].length_bytes, lengths[came]);
                    udp_fixture_check(&fixture, &chunks[i]);
                }
                fixture.receiver->ops->repost(fixture.receiver, chunks, n);
            }
        }
        assert_int_equal(came, COUNT);
        assert_int_equal(udp_fixture_counters(fixture.receiver).datagrams_received, COUNT);
        assert_int_equal(udp_fixture_counters(fixture.sender).datagrams_sent, COUNT);
        udp_fixture_close(&fixture);
    }
}

static void super_packets_are_handed_out_whole_whatever_is_asked_for(void **state)
{
    const uint32_t limits[] = {64, 65, 127, 128, 200, 256};

    (void)state;
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        struct udp_fixture fixture;
        uint8_t seen[1000] = {0};
        udp_fixture_open(&fixture, &(struct udp_fixture_options){.chunk_bytes = 1452});
        udp_fixture_send(&fixture, 0, 500, 1452, 250);
        udp_fixture_send(&fixture, 500, 500, 20, 250); /* 64 to a super-packet */
        assert_int_equal(udp_fixture_drain(&fixture, limits[i], 1000, seen), 1000);
        assert_int_equal(udp_fixture_drain(&fixture, limits[i], 1, seen), 0);
        udp_fixture_close(&fixture);
    }
}

static void zero_chunks_may_be_posted(void **state)
{
    struct udp_fixture fixture;
    struct tt_receive_chunk chunk;

    (void)state;
    udp_fixture_open(&fixture, &(struct udp_fixture_options){.chunk_bytes = 100});
    assert_int_equal(fixture.sender->ops->post(fixture.sender, NULL, 0), 0);
    udp_fixture_send(&fixture, 0, 1, 100, 1);
    assert_int_equal(udp_fixture_poll_one(fixture.receiver, &chunk), 1);
    udp_fixture_close(&fixture);
}

static void own_datagrams_do_not_come_back(void **state)
{
    struct udp_fixture fixture;
    struct tt_receive_chunk chunk;

    (void)state;
    udp_fixture_open(&fixture, &(struct udp_fixture_options){.chunk_bytes = 1000});
    udp_fixture_send(&fixture, 0, 100, 1000, 50);
    assert_int_equal(udp_fixture_drain(&fixture, 64, 100, NULL), 100);
    assert_false(is_readable(fixture.sender->ops->receive_fd(fixture.sender)));
    assert_int_equal(udp_fixture_poll_one(fixture.sender, &chunk), 0);
    assert_int_equal(udp_fixture_counters(fixture.sender).datagrams_received, 0);

    /* Without the kernel's filter the queue notices them itself. */
    int fd = fixture.sender->ops->receive_fd(fixture.sender);
    int unused = 0;
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_DETACH_FILTER, &unused, sizeof(unused)), 0);
    udp_fixture_send(&fixture, 0, 100, 1000, 50);
    assert_int_equal(udp_fixture_poll_one(fixture.sender, &chunk), 0);
    struct tt_mcast_counters counters = udp_fixture_counters(fixture.sender);
    assert_int_equal(counters.drops_own, 100);
    assert_int_equal(counters.datagrams_received, 100);
    udp_fixture_close(&fixture);
}

static void who_joins_again_receives_as_before(void **state)
{
    struct udp_fixture fixture;

    (void)state;
    udp_fixture_open(&fixture, &(struct udp_fixture_options){.chunk_bytes = 1000});
    udp_fixture_send(&fixture, 0, 3, 1000, 3);
    fixture.receiver->ops->join_again(fixture.receiver);
    udp_fixture_send(&fixture, 3, 4, 1000, 4);
    assert_int_equal(udp_fixture_drain(&fixture, 64, 7, NULL), 7);
    udp_fixture_close(&fixture);
}

static void receive_descriptor_is_readable_while_chunks_wait(void **state)
{
    struct udp_fixture fixture;

    (void)state;
    udp_fixture_open(&fixture, &(struct udp_fixture_options){.chunk_bytes = 1000});
    int fd = fixture.receiver->ops->receive_fd(fixture.receiver);
    assert_false(is_readable(fd));
    udp_fixture_send(&fixture, 0, 3, 1000, 3);
    assert_true(is_readable(fd));
    assert_int_equal(udp_fixture_drain(&fixture, 64, 4, NULL), 3);
    assert_false(is_readable(fd));
    struct pollfd writable = {.fd = fixture.sender->ops->send_fd(fixture.sender), .events = POLLOUT};
    assert_int_equal(poll(&writable, 1, 0), 1);
    udp_fixture_close(&fixture);
}

/* Sends bytes from outside; the result must be nothing but counters. */
static void expect_dropped(struct udp_fixture *fixture, int fd, const void *bytes, size_t length_bytes, uint64_t key,
                           uint64_t length)
{
    struct tt_mcast_counters before = udp_fixture_counters(fixture->receiver);
    struct tt_receive_chunk chunk;

    assert_int_equal(send(fd, bytes, length_bytes, 0), length_bytes);
    assert_int_equal(udp_fixture_poll_one(fixture->receiver, &chunk), 0);
    struct tt_mcast_counters after = udp_fixture_counters(fixture->receiver);
    assert_int_equal(after.drops_key - before.drops_key, key);
    assert_int_equal(after.drops_length - before.drops_length, length);
    assert_int_equal(after.drops_own - before.drops_own, 0);
}

static void try_hostile_datagrams(bool pair)
{
    struct udp_fixture fixture;
    struct tt_random random;
    uint8_t bytes[2000] = {0};

    udp_fixture_open(&fixture, &(struct udp_fixture_options){.chunk_bytes = 1000, .pair = pair});
    int fd = udp_fixture_stranger(&fixture);
    struct tt_datagram header = {.key = fixture.options.address.key, .imm = 1, .source = 0, .length_bytes = 1000};
    tt_datagram_encode(&header, bytes);
    expect_dropped(&fixture, fd, bytes, 0, 1, 0); /* an empty datagram */
    for (size_t cut = 1; cut < TT_DATAGRAM_HEADER_BYTES; cut++) {
        expect_dropped(&fixture, fd, bytes, cut, 1, 0);
    }
    expect_dropped(&fixture, fd, bytes, TT_DATAGRAM_HEADER_BYTES, 0, 1);        /* the payload is missing */
    expect_dropped(&fixture, fd, bytes, TT_DATAGRAM_HEADER_BYTES + 999, 0, 1);  /* cut */
    expect_dropped(&fixture, fd, bytes, TT_DATAGRAM_HEADER_BYTES + 1001, 0, 1); /* padded */
    header.length_bytes = 1001;                                                 /* more than the group's chunks have */
    tt_datagram_encode(&header, bytes);
    expect_dropped(&fixture, fd, bytes, TT_DATAGRAM_HEADER_BYTES + 1001, 0, 1);
    header.length_bytes = 1000;
    header.key++;
    tt_datagram_encode(&header, bytes);
    expect_dropped(&fixture, fd, bytes, TT_DATAGRAM_HEADER_BYTES + 1000, 1, 0);
    tt_random_init(&random, 3);
    for (int round = 0; round < 300; round++) {
        for (size_t i = 0; i < sizeof(bytes); i++) {
            bytes[i] = (uint8_t)tt_random_next(&random);
        }
        expect_dropped(&fixture, fd, bytes, tt_random_below(&random, sizeof(bytes)), 1, 0);
    }
    udp_fixture_send(&fixture, 0, 200, 1000, 64);
    assert_int_equal(udp_fixture_drain(&fixture, 64, 200, NULL), 200);
    close(fd);
    udp_fixture_close(&fixture);
}

static void hostile_datagrams_change_only_counters(void **state)
{
    (void)state;
    try_hostile_datagrams(false);
    try_hostile_datagrams(true);
}

static void super_packet_that_is_split_wrongly_changes_only_counters(void **state)
{
    struct udp_fixture fixture;
    uint8_t bytes[10 * (TT_DATAGRAM_HEADER_BYTES + 100)] = {0};
    uint16_t sizes[] = {TT_DATAGRAM_HEADER_BYTES + 100, TT_DATAGRAM_HEADER_BYTES + 99, 7,
                        5 * (TT_DATAGRAM_HEADER_BYTES + 100)};
    uint32_t came = 0;

    (void)state;
    udp_fixture_open(&fixture, &(struct udp_fixture_options){.chunk_bytes = 100});
    int fd = udp_fixture_stranger(&fixture);
    for (uint32_t i = 0; i < 10; i++) {
        struct tt_datagram header = {.key = fixture.options.address.key, .imm = i, .source = 0, .length_bytes = 100};
        uint8_t *start = bytes + i * (TT_DATAGRAM_HEADER_BYTES + 100);
        tt_datagram_encode(&header, start);
        memcpy(start + TT_DATAGRAM_HEADER_BYTES, udp_fixture_chunk(&fixture, i, 100).address, 100);
    }
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        int size = sizes[i];
        size_t length_bytes = size == 7 ? 60 * 7 : sizeof(bytes); /* at most 64 segments */
        assert_int_equal(setsockopt(fd, SOL_UDP, UDP_SEGMENT, &size, sizeof(size)), 0);
        assert_int_equal(send(fd, bytes, length_bytes, 0), length_bytes);
        uint32_t now = udp_fixture_drain(&fixture, 64, 100, NULL);
        assert_int_equal(now, i == 0 ? 10 : 0);
        came += now;
    }
    struct tt_mcast_counters counters = udp_fixture_counters(fixture.receiver);
    assert_int_equal(counters.datagrams_received, 10 + 11 + 60 + 2);
    assert_int_equal(counters.drops_length, 1 + 2); /* those that begin with a header */
    assert_int_equal(counters.drops_key, 10 + 60);
    assert_int_equal(came, 10);
    close(fd);
    udp_fixture_close(&fixture);
}

static void full_receive_buffer_loses_only_whole_chunks(void **state)
{
    enum { COUNT = 2000 };
    const uint32_t sizes[] = {64, 1452, 8192, 30000};

    (void)state;
    for (size_t i = 0; i < 2 * sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct udp_fixture fixture;
        static uint8_t seen[2 * COUNT];
        memset(seen, 0, sizeof(seen));
        udp_fixture_open(&fixture, &(struct udp_fixture_options){.chunk_bytes = sizes[i / 2],
                                                                 .receive_buffer_bytes = 32 << 10,
                                                                 .plain_sender = i % 2 != 0});
        udp_fixture_send(&fixture, 0, COUNT, sizes[i / 2], 64);
        uint32_t came = udp_fixture_drain(&fixture, 64, COUNT, seen);
        assert_in_range(came, 1, COUNT - 1);
        assert_int_equal(udp_fixture_counters(fixture.receiver).datagrams_received, came);
        /* And there is room again. */
        udp_fixture_send(&fixture, COUNT, 1, sizes[i / 2], 1);
        assert_int_equal(udp_fixture_drain(&fixture, 64, 2, seen), 1);
        udp_fixture_close(&fixture);
    }
}

static void subgroups_and_keys_are_kept_apart(void **state)
{
    struct udp_fixture fixture;
    struct tt_mcast_queue *queues[2];
    struct tt_receive_chunk chunk;

    (void)state;
    udp_fixture_open(&fixture, &(struct udp_fixture_options){.chunk_bytes = 1000});
    struct tt_mcast_queue_options other_group = fixture.options;
    struct tt_mcast_queue_options other_key = fixture.options;
    other_group.address.group_be ^= htonl(1U << 16); /* 239.194 instead of 239.195 */
    other_key.address.key ^= 1;
    other_group.rank = 2;
    other_key.rank = 3;
    assert_int_equal(fixture.receiving->ops->attach(fixture.receiving, &other_group, &queues[0]), TUTTI_OK);
    assert_int_equal(fixture.receiving->ops->attach(fixture.receiving, &other_key, &queues[1]), TUTTI_OK);
    udp_fixture_send(&fixture, 0, 10, 1000, 10);
    assert_int_equal(udp_fixture_poll_one(queues[0], &chunk), 0);
    assert_int_equal(udp_fixture_poll_one(queues[1], &chunk), 0);
    assert_int_equal(udp_fixture_counters(queues[0]).datagrams_received, 0);
    assert_int_equal(udp_fixture_counters(queues[1]).drops_key, 10);
    assert_int_equal(udp_fixture_drain(&fixture, 64, 11, NULL), 10);
    queues[0]->ops->detach(queues[0]);
    queues[1]->ops->detach(queues[1]);
    fixture.receiver->ops->detach(NULL);
    udp_fixture_close(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_of_boundary_sizes_arrive_unchanged),
        cmocka_unit_test(poll_says_when_it_has_brought_all_that_waited),
        cmocka_unit_test(largest_chunk_follows_from_the_mtu),
        cmocka_unit_test(super_packets_and_single_datagrams_give_the_same_chunks),
        cmocka_unit_test(super_packets_are_handed_out_whole_whatever_is_asked_for),
        cmocka_unit_test(zero_chunks_may_be_posted),
        cmocka_unit_test(own_datagrams_do_not_come_back),
        cmocka_unit_test(who_joins_again_receives_as_before),
        cmocka_unit_test(receive_descriptor_is_readable_while_chunks_wait),
        cmocka_unit_test(hostile_datagrams_change_only_counters),
        cmocka_unit_test(super_packet_that_is_split_wrongly_changes_only_counters),
        cmocka_unit_test(full_receive_buffer_loses_only_whole_chunks),
        cmocka_unit_test(subgroups_and_keys_are_kept_apart),
    };
    tt_log_configure("none", NULL, (char[64]){0}, 64);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
