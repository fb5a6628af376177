/* SPDX-License-Identifier: BSD-3-Clause */
/* The tcp provider where this side has no address or port to connect from: no fault of the peer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>

#include "netns.h"
#include "skip.h"
#include "tcp_raw.h"

static int end(void **state)
{
    int failed = raw_end(state);
    return netns_leave(state) != 0 || failed;
}

static void expect_want_of_this_side(void)
{
    raw_connect();
    assert_true(raw_reaches(&raw.downs, 1));
    assert_non_null(strstr(raw.down_text, "Cannot assign requested address (no port of this host is free, or its own "
                                          "address is gone)"));
    assert_int_equal(raw.down_status, TUTTI_ERR_NO_RESOURCE);
}

/* There is one port to connect from, and a connection to the peer has it. */
static void expect_want_without_a_port(void)
{
    struct tt_tcp_address address;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int other = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(tt_tcp_address_decode(raw_address, sizeof(raw_address), &address));
    to.sin_port = htons(address.port);
    netns_run("echo 20000 20000 > /proc/sys/net/ipv4/ip_local_port_range");
    assert_int_equal(connect(other, (struct sockaddr *)&to, sizeof(to)), 0);
    expect_want_of_this_side();
    close(other);
}

static void who_dials_first_without_a_free_port_lacks_something(void **state)
{
    NETNS_ENTER();
    netns_run("ip link set lo up");
    raw_begin_above(state);
    expect_want_without_a_port();
}

static void who_dials_later_without_a_free_port_lacks_something(void **state)
{
    NETNS_ENTER();
    netns_run("ip link set lo up");
    raw_begin_below(state);
    expect_want_without_a_port();
}

static void who_has_lost_its_address_lacks_something(void **state)
{
    NETNS_ENTER();
    netns_run("ip link set lo up");
    raw_begin_above(state);
    netns_run("ip addr del 127.0.0.1/8 dev lo");
    expect_want_of_this_side();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(who_dials_first_without_a_free_port_lacks_something, end),
        cmocka_unit_test_teardown(who_dials_later_without_a_free_port_lacks_something, end),
        cmocka_unit_test_teardown(who_has_lost_its_address_lacks_something, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
