/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the tcp provider asks of its sockets: after how long a silent host is gone, the traffic class, which ports are
 * free, and how long its super-packets are.
 */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "fabric/tcp/instance.h"
#include "fabric/tcp/tcp.h"

static int option_of(int fd, int level, int name)
{
    int value = -1;
    socklen_t length = sizeof(value);
    assert_int_equal(getsockopt(fd, level, name, &value, &length), 0);
    return value;
}

static void silence_is_cut_into_idle_time_and_probes(void **state)
{
    static const struct {
        int timeout_s, idle_s, interval_s, probes;
    } cases[] = {{0, 2, 1, 3}, {2, 1, 1, 1},  {3, 1, 1, 2},        {4, 1, 1, 3},
                 {5, 2, 1, 3}, {10, 4, 2, 3}, {3600, 1440, 720, 3}};
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct tt_tcp_options options = {.peer_timeout_s = (uint32_t)cases[i].timeout_s};
        struct tt_p2p *p2p;
        assert_int_equal(tt_tcp_create(&options, &p2p), TUTTI_OK);
        int fd = tt_tcp_of(p2p)->listener.fd; /* from which accepted ones have theirs; those that dial get the same */
        assert_int_equal(option_of(fd, SOL_SOCKET, SO_KEEPALIVE), 1);
        assert_int_equal(option_of(fd, IPPROTO_TCP, TCP_KEEPIDLE), cases[i].idle_s);
        assert_int_equal(option_of(fd, IPPROTO_TCP, TCP_KEEPINTVL), cases[i].interval_s);
        assert_int_equal(option_of(fd, IPPROTO_TCP, TCP_KEEPCNT), cases[i].probes);
        p2p->ops->destroy(p2p);
    }
}

static void traffic_class_is_set_where_it_is_asked_for(void **state)
{
    (void)state;
    for (int asked = 0; asked <= 104; asked += 104) {
        for (int v6 = 0; v6 <= 1; v6++) {
            const struct tt_tcp_options options = {.address = v6 ? "::1" : "127.0.0.1",
                                                   .traffic_class = (uint32_t)asked};
            struct tt_p2p *p2p;
            if (tt_tcp_create(&options, &p2p) != TUTTI_OK) {
                assert_int_equal(v6, 1); /* a machine without IPv6 */
                continue;
            }
            int fd = tt_tcp_of(p2p)->listener.fd;
            assert_int_equal(v6 ? option_of(fd, IPPROTO_IPV6, IPV6_TCLASS) : option_of(fd, IPPROTO_IP, IP_TOS), asked);
            p2p->ops->destroy(p2p);
        }
    }
}

static tutti_status listen_at(uint16_t port, struct tt_p2p **p2p)
{
    const struct tt_tcp_options options = {.first_port = port, .last_port = port};
    return tt_tcp_create(&options, p2p);
}

/* The instance ends before who has dialed it, so its end of the connection is what stays in TIME_WAIT. */
static void port_of_an_instance_that_has_ended_is_free_at_once(void **state)
{
    struct tt_p2p *first, *second = NULL, *third = NULL;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct tt_p2p_event event;
    char byte;
    (void)state;
    assert_int_equal(listen_at(0, &first), TUTTI_OK);
    uint16_t port = tt_tcp_of(first)->address.port;
    address.sin_port = htons(port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(first->ops->progress(first, &event, 1), 0);  /* accepts it */
    assert_int_equal(listen_at(port, &second), TUTTI_ERR_IN_USE); /* as long as it lives */
    first->ops->destroy(first);
    assert_int_equal(recv(fd, &byte, 1, 0), 0);
    close(fd);
    assert_int_equal(listen_at(port, &third), TUTTI_OK);
    third->ops->destroy(third);
}

/* Two connected sockets; the first one's segments have so many bytes, or as many as the interface likes: 0. */
static void connect_two(int segment_bytes, int pair[2])
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    pair[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(listener >= 0 && pair[0] >= 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &length), 0);
    if (segment_bytes > 0) {
        assert_int_equal(setsockopt(pair[0], IPPROTO_TCP, TCP_MAXSEG, &segment_bytes, sizeof(segment_bytes)), 0);
    }
    assert_int_equal(connect(pair[0], (struct sockaddr *)&address, sizeof(address)), 0);
    pair[1] = accept(listener, NULL, NULL);
    assert_true(pair[1] >= 0);
    close(listener);
}

static struct tt_tcp_peer sized(int fd)
{
    struct tt_tcp_peer peer = {.bulk.fd = fd};
    tt_tcp_size_writes(&peer);
    return peer;
}

static void parts_are_whole_segments_of_half_a_bucket_and_what_needs_none_is_a_whole_one(void **state)
{
    (void)state;
    for (int asked = 536; asked <= 18000; asked += 1111) {
        int pair[2];
        connect_two(asked, pair);
        uint64_t segment_bytes = (uint64_t)option_of(pair[0], IPPROTO_TCP, TCP_MAXSEG);
        struct tt_tcp_peer peer = sized(pair[0]);
        assert_in_range(segment_bytes, asked - 40, asked); /* less options */
        assert_int_equal(peer.part_bytes % segment_bytes, 0);
        assert_in_range(peer.part_bytes, 36864 - segment_bytes + 1, 36864);
        assert_int_equal(peer.whole_bytes % segment_bytes, 0);
        assert_in_range(peer.whole_bytes, 65024 - segment_bytes + 1, 65024);
        close(pair[0]);
        close(pair[1]);
    }
}

static void segments_as_long_as_super_packets_are_left_alone(void **state)
{
    int pair[2];
    (void)state;
    connect_two(0, pair); /* the loopback interface's */
    for (int i = 0; i < 2; i++) {
        struct tt_tcp_peer peer = sized(i == 0 ? pair[0] : -1);
        assert_int_equal(peer.part_bytes, TT_TCP_BURST_BYTES);
        assert_int_equal(peer.whole_bytes, TT_TCP_BURST_BYTES);
    }
    close(pair[0]);
    close(pair[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(silence_is_cut_into_idle_time_and_probes),
        cmocka_unit_test(traffic_class_is_set_where_it_is_asked_for),
        cmocka_unit_test(port_of_an_instance_that_has_ended_is_free_at_once),
        cmocka_unit_test(parts_are_whole_segments_of_half_a_bucket_and_what_needs_none_is_a_whole_one),
        cmocka_unit_test(segments_as_long_as_super_packets_are_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
