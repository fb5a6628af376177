/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the tcp provider sends in segments or super-packets of its own: probes, of as many segments as TCP needs to take
 * for lost what was sent before them; and bulk, in parts, or whole where that is short. The system's words about the
 * connection are the test's here: that something has not been acknowledged, how many segments have come behind it, and
 * how much a call takes.
 */
#include <linux/tcp.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/least.h"
#include "tcp_joined.h"

static struct {
    bool counts;
    uint32_t come;               /* behind what is missing */
    uint32_t segments, together; /* sent each for itself, or with others */
    size_t bytes;
    size_t takes; /* the most that a call does; 0: as the system likes */
} told;

ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);
int __real_getsockopt(int fd, int level, int name, void *value, socklen_t *length);
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *length);
uint32_t __wrap_tt_tcp_unreceived(const struct tt_tcp_socket *socket);

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
    struct iovec pieces[2];
    struct msghdr part = {.msg_iov = pieces};
    size_t left = told.takes;
    for (size_t i = 0; i < message->msg_iovlen && left > 0; i++) {
        pieces[i] = message->msg_iov[i];
        pieces[i].iov_len = tt_least(left, pieces[i].iov_len);
        left -= pieces[i].iov_len;
        part.msg_iovlen = i + 1;
    }
    ssize_t sent = __real_sendmsg(fd, told.takes > 0 ? &part : message, flags);
    if (told.counts && sent > 0) {
        told.segments += (flags & MSG_EOR) != 0;
        told.together += (flags & MSG_EOR) == 0;
        told.bytes += (size_t)sent;
    }
    return sent;
}

int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *length)
{
    int result = __real_getsockopt(fd, level, name, value, length);
    if (result == 0 && level == IPPROTO_TCP && name == TCP_INFO) {
        ((struct tcp_info *)value)->tcpi_sacked = told.come;
    }
    return result;
}

uint32_t __wrap_tt_tcp_unreceived(const struct tt_tcp_socket *socket)
{
    return socket->fd >= 0 ? 1 : 0;
}

static void begin_to_count(void)
{
    told.segments = told.together = 0;
    told.bytes = 0;
    told.counts = true;
}

/* By the end of this progress. */
static void expect_counted(uint32_t segments, size_t bytes)
{
    raw_turn();
    told.counts = false;
    assert_int_equal(told.segments, segments);
    assert_int_equal(told.together, 0);
    assert_int_equal(told.bytes, bytes);
}

static void expect_probe(uint32_t come, uint32_t segments, size_t message_bytes)
{
    struct tt_tcp_peer *peer = (struct tt_tcp_peer *)raw.peer;
    told.come = come;
    begin_to_count();
    tt_tcp_probe(peer, tt_clock_now_ns());
    expect_counted(segments, segments * message_bytes);
}

static void expect_probes(size_t message_bytes)
{
    expect_probe(0, 3, message_bytes);
    expect_probe(1, 2, message_bytes);
    expect_probe(2, 1, message_bytes);
    expect_probe(3, 1, message_bytes); /* it is being repeated, and that may be lost as well */
    expect_probe(40, 1, message_bytes);
}

static void probe_behind_frames_brings_the_segments_that_are_missing(void **state)
{
    struct tt_tcp_peer *peer = (struct tt_tcp_peer *)raw.peer;
    (void)state;
    peer->frames_sent = true;
    expect_probes(TT_TCP_MESSAGE_ALIGNMENT);
    expect_going_on(frames);
}

static void probe_behind_bulk_brings_the_segments_that_are_missing(void **state)
{
    struct tt_tcp_peer *peer = (struct tt_tcp_peer *)raw.peer;
    (void)state;
    (void)raw_join(TT_TCP_FOR_BULK, 0);
    peer->frames_sent = false;
    peer->bulk_sent = true;
    expect_probes(TT_TCP_BULK_HEADER_BYTES);
    expect_going_on(frames);
}

static uint8_t source[100000];

static void put(uint64_t length_bytes)
{
    uint8_t key[TT_TCP_KEY_BYTES];
    tt_tcp_key_encode(3, 4, key);
    assert_int_equal(raw_put(key, source, length_bytes, 5, 6), TUTTI_OK);
}

/* All of it, behind its header. */
static void take(int fd, uint64_t length_bytes)
{
    static uint8_t bytes[TT_TCP_BULK_HEADER_BYTES + sizeof(source)];
    assert_true(raw_receive(fd, bytes, TT_TCP_BULK_HEADER_BYTES + length_bytes));
    assert_memory_equal(bytes + TT_TCP_BULK_HEADER_BYTES, source, length_bytes);
}

static void expect_super_packets(int fd, uint64_t put_bytes, uint32_t super_packets)
{
    begin_to_count();
    put(put_bytes);
    expect_counted(super_packets, TT_TCP_BULK_HEADER_BYTES + put_bytes);
    take(fd, put_bytes);
}

static void bulk_that_is_longer_than_a_super_packet_goes_in_parts(void **state)
{
    struct tt_tcp_peer *peer = (struct tt_tcp_peer *)raw.peer;
    enum { PART = 36000, WHOLE = 62000 };
    (void)state;
    int bulk = raw_join(TT_TCP_FOR_BULK, 0);
    peer->part_bytes = PART; /* as where segments are short; the loopback interface's are long */
    peer->whole_bytes = WHOLE;
    expect_super_packets(bulk, 1, 1);
    expect_super_packets(bulk, WHOLE - TT_TCP_BULK_HEADER_BYTES, 1);
    expect_super_packets(bulk, WHOLE - TT_TCP_BULK_HEADER_BYTES + 1, 2);
    expect_super_packets(bulk, PART + WHOLE - TT_TCP_BULK_HEADER_BYTES, 2);
    expect_super_packets(bulk, PART + WHOLE - TT_TCP_BULK_HEADER_BYTES + 1, 3);
}

/* Of headers as well. */
static void bulk_of_which_a_call_takes_a_part_goes_on_where_that_ended(void **state)
{
    struct tt_tcp_peer *peer = (struct tt_tcp_peer *)raw.peer;
    static const size_t takes[] = {
        1, TT_TCP_BULK_HEADER_BYTES - 1, TT_TCP_BULK_HEADER_BYTES, TT_TCP_BULK_HEADER_BYTES + 1, 7001, 35999, 61999};
    (void)state;
    int bulk = raw_join(TT_TCP_FOR_BULK, 0);
    peer->part_bytes = 36000;
    peer->whole_bytes = 62000;
    for (size_t i = 0; i < sizeof(source); i++) {
        source[i] = (uint8_t)(i * 7 + i / 251);
    }
    for (size_t i = 0; i < sizeof(takes) / sizeof(takes[0]); i++) {
        uint64_t first = takes[i] < 1000 ? 100 : 61000, second = takes[i] < 1000 ? 1 : sizeof(source);
        told.takes = takes[i];
        put(first);
        put(second);
        take(bulk, first);
        take(bulk, second);
    }
    told.takes = 0;
    expect_going_on(frames);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(probe_behind_frames_brings_the_segments_that_are_missing, join_both, raw_end),
        cmocka_unit_test_setup_teardown(probe_behind_bulk_brings_the_segments_that_are_missing, join_both, raw_end),
        cmocka_unit_test_setup_teardown(bulk_that_is_longer_than_a_super_packet_goes_in_parts, join_both, raw_end),
        cmocka_unit_test_setup_teardown(bulk_of_which_a_call_takes_a_part_goes_on_where_that_ended, join_both, raw_end),
    };
    return cmocka_run_group_tests_name("tcp_segments", tests, NULL, NULL);
}
