/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tcp provider asks of its sockets: after how long a silent host is gone, and the traffic class. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/socket.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(silence_is_cut_into_idle_time_and_probes),
        cmocka_unit_test(traffic_class_is_set_where_it_is_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
