/* SPDX-License-Identifier: BSD-3-Clause */
/* How ranks on several hosts, which are network namespaces here, choose addresses and interfaces. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "engine/locality.h"
#include "engine/meeting.h"
#include "netns.h"
#include "skip.h"

enum { ELSEWHERE_HOST = 0x1234 };

static struct tt_settings settings;

static int setup(void **state)
{
    (void)state;
    return tt_settings_load(&settings) == TUTTI_OK ? 0 : 1;
}

/* A bridge for containers first, as the system lists it, then two networks, of which the second has the route. */
static void make_interfaces(void)
{
    netns_run("ip link set lo up;"
              "ip link add docker0 type bridge && ip link add eth0 type bridge && ip link add ib0 type bridge &&"
              "ip link add p0 type veth peer name q0 && ip link add p1 type veth peer name q1 &&"
              "ip link add p2 type veth peer name q2 &&"
              "ip link set p0 master docker0 && ip link set p1 master eth0 && ip link set p2 master ib0 &&"
              "for i in docker0 eth0 ib0 p0 p1 p2 q0 q1 q2; do ip link set $i up || exit 1; done;"
              "ip addr add 172.17.0.1/16 dev docker0 && ip addr add 10.1.0.5/24 dev eth0 &&"
              "ip addr add 10.2.0.5/24 dev ib0 && ip route add default via 10.2.0.1 dev ib0");
    netns_await_carrier("docker0");
    netns_await_carrier("eth0");
    netns_await_carrier("ib0");
}

static void describe(const char *expected_addresses)
{
    char text[TT_SETTING_TEXT_BYTES], expected[TT_SETTING_TEXT_BYTES];
    assert_int_equal(tt_meeting_describe(&settings, 4711, text, sizeof(text)), TUTTI_OK);
    snprintf(expected, sizeof(expected), "4711 %016" PRIx64 "%s", tt_locality_host(), expected_addresses);
    assert_string_equal(text, expected);
}

static void choose(uint64_t host, const char *addresses, const char *expected)
{
    char text[TT_SETTING_TEXT_BYTES], root[TT_SETTING_TEXT_BYTES];
    snprintf(text, sizeof(text), "4711 %016" PRIx64 "%s", host, addresses);
    assert_int_equal(tt_meeting_choose(&settings, text, root, sizeof(root)), TUTTI_OK);
    assert_string_equal(root, expected);
}

static void rank_0_describes_the_default_routes_interface_first(void **state)
{
    (void)state;
    NETNS_ENTER();
    make_interfaces();
    describe(" 10.2.0.5/24 172.17.0.1/16 10.1.0.5/24");
    strcpy(settings.interface, "eth0");
    describe(" 10.1.0.5/24");
    strcpy(settings.interface, "eth7");
    char text[TT_SETTING_TEXT_BYTES] = "unchanged";
    assert_int_equal(tt_meeting_describe(&settings, 4711, text, sizeof(text)), TUTTI_ERR_INVALID_ARGUMENT);
    assert_string_equal(text, "unchanged");
    strcpy(settings.interface, "auto");
    assert_int_equal(tt_meeting_describe(&settings, 4711, text, 30), TUTTI_ERR_TOO_LARGE);
}

static void others_try_common_networks_first_and_what_only_leads_home_last(void **state)
{
    (void)state;
    NETNS_ENTER();
    make_interfaces();
    choose(ELSEWHERE_HOST, " 192.168.7.1/24 172.17.0.1/16 10.1.0.9/24", "10.1.0.9,192.168.7.1,172.17.0.1:4711");
    choose(ELSEWHERE_HOST, " 10.1.0.9/16", "10.1.0.9:4711"); /* another network, but the only way */
    choose(tt_locality_host(), " 10.1.0.9/24", "127.0.0.1:4711");
    choose(tt_locality_host(), "", "127.0.0.1:4711");
}

static void addresses_of_ipv6_come_behind_those_of_ipv4_and_in_brackets(void **state)
{
    (void)state;
    NETNS_ENTER();
    if (access("/proc/sys/net/ipv6", F_OK) != 0) {
        TT_SKIP("this system has no IPv6");
    }
    make_interfaces();
    netns_run("ip -6 addr add fd00:1::5/64 dev eth0 nodad && ip -6 addr add fd00:2::5/64 dev ib0 nodad &&"
              "ip -6 route add default via fd00:1::1 dev eth0");
    describe(" 10.2.0.5/24 172.17.0.1/16 10.1.0.5/24 fd00:1::5/64 fd00:2::5/64");
    choose(ELSEWHERE_HOST, " fd00:7::9/64 fd00:2::9/64", "[fd00:2::9,fd00:7::9]:4711");
    choose(ELSEWHERE_HOST, " 10.7.0.9/24 fd00:2::9/64", "[fd00:2::9,10.7.0.9]:4711");
    choose(tt_locality_host(), " fd00:2::5/64", "127.0.0.1:4711");
    netns_run("for i in 1 2 3 4 5 6 7; do"
              "  ip -6 addr add fd00:1111:2222:3333:4444:5555:6666:000$i/128 dev ib0 nodad || exit 1;"
              "done; ip addr flush dev docker0; ip addr flush dev eth0; ip -4 addr flush dev ib0");
    char text[TT_SETTING_TEXT_BYTES];
    assert_int_equal(tt_meeting_describe(&settings, 4711, text, sizeof(text)), TUTTI_OK); /* as many as fit */
    assert_non_null(strstr(text, " fd00:2::5/64"));
    assert_true(strlen(text) > sizeof(text) - 64);
    char root[TT_SETTING_TEXT_BYTES];
    assert_int_equal(tt_meeting_choose(&settings, text, root, sizeof(root)), TUTTI_OK);
    assert_string_equal(root, "127.0.0.1:4711");
    text[5] = text[5] == '0' ? '1' : '0'; /* another host */
    assert_int_equal(tt_meeting_choose(&settings, text, root, sizeof(root)), TUTTI_OK);
    assert_non_null(strstr(root, "fd00:2::5"));
    assert_non_null(strstr(root, "]:4711"));
}

static void what_is_no_description_is_refused(void **state)
{
    static const char *const wrong[] = {"",
                                        "x",
                                        "0 12",
                                        "4711",
                                        "65536 12 10.0.0.1/8",
                                        "1 12 x",
                                        "1 12 1.2.3.4",
                                        "1 12 1.2.3/8",
                                        "1 12 1.2.3.4/8x",
                                        "1 12 1.2.3.4/33",
                                        "1 12 fd00::1/129",
                                        "1 12 [fd00::1]/64",
                                        "1 12 fd00::1",
                                        "1 12 1.2.3.4/8 "};
    char root[TT_SETTING_TEXT_BYTES] = "unchanged";
    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(tt_meeting_choose(&settings, wrong[i], root, sizeof(root)), TUTTI_ERR_BOOTSTRAP);
        assert_non_null(strstr(tt_last_error(), wrong[i]));
        assert_string_equal(root, "unchanged");
    }
    /* On another host, and without an address. */
    assert_int_equal(tt_meeting_choose(&settings, "4711 1234", root, sizeof(root)), TUTTI_ERR_BOOTSTRAP);
    assert_int_equal(tt_meeting_choose(&settings, "4711 1234 10.0.0.1/8", root, 10), TUTTI_ERR_TOO_LARGE);
    assert_string_equal(root, "unchanged");
}

static void one_socket_serves_all_groups_of_a_process(void **state)
{
    uint16_t first = 0, second = 0;
    int first_fd = -1, second_fd = -1;
    (void)state;
    assert_int_equal(tt_meeting_listen(&first, &first_fd), TUTTI_OK);
    assert_int_equal(tt_meeting_listen(&second, &second_fd), TUTTI_OK);
    assert_true(first > 0 && first == second && first_fd == second_fd);
    assert_int_equal(fcntl(first_fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
}

/* --- Interfaces of a job over several hosts ----------------------------------------------------------------------- */

/* What this host would say, and what another one, made from it, would: on each network the address `plus` higher. */
static void make_two_hosts(struct tt_locality all[2], uint32_t plus)
{
    assert_int_equal(tt_locality_read(&settings, &all[0]), TUTTI_OK);
    all[1] = all[0];
    all[1].host = ELSEWHERE_HOST;
    for (uint32_t i = 0; i < all[1].net_count; i++) {
        if (all[1].nets[i].prefix_bits != 16) { /* the bridge is the same everywhere */
            all[1].nets[i].ip = tt_ip_from_ipv4(htonl(ntohl(tt_ip_to_ipv4(all[1].nets[i].ip)) + plus));
        }
    }
}

static void assert_interface(const struct tt_locality all[2], const char *expected)
{
    struct tt_interface interface;
    assert_int_equal(tt_locality_choose(&settings, all, sizeof(all[0]), 2, 0, &interface), TUTTI_OK);
    assert_string_equal(interface.name, expected);
}

static void jobs_over_several_hosts_use_the_default_routes_interface(void **state)
{
    struct tt_locality all[2];
    (void)state;
    NETNS_ENTER();
    make_interfaces();
    make_two_hosts(all, 1);
    assert_int_equal(all[0].net_count, 3);
    assert_interface(all, "ib0");
    all[1].host = all[0].host;
    assert_interface(all, "lo");
}

static void the_network_of_an_address_that_was_given_comes_first(void **state)
{
    struct tt_locality all[2];
    (void)state;
    NETNS_ENTER();
    make_interfaces();
    strcpy(settings.root, "10.1.0.5:7000");
    settings.rank = 0;
    make_two_hosts(all, 1);
    assert_interface(all, "eth0");
    settings.rank = 1; /* only rank 0's order counts, and there the address is its own */
    make_two_hosts(all, 1);
    assert_interface(all, "ib0");
}

static void a_bridge_that_every_host_has_connects_no_hosts(void **state)
{
    struct tt_locality all[2];
    (void)state;
    NETNS_ENTER();
    make_interfaces();
    netns_run("ip route del default && ip route add default via 172.17.0.2 dev docker0");
    make_two_hosts(all, 1);
    assert_int_equal(all[0].nets[0].prefix_bits, 16);
    assert_interface(all, "eth0");
}

static void hosts_without_a_common_network_use_their_first(void **state)
{
    struct tt_locality all[2];
    (void)state;
    NETNS_ENTER();
    make_interfaces();
    make_two_hosts(all, 1 << 16);
    assert_interface(all, "ib0");
}

static void namespaces_are_hosts_of_their_own(void **state)
{
    struct tt_locality here, there;
    (void)state;
    assert_int_equal(tt_locality_read(&settings, &here), TUTTI_OK);
    NETNS_ENTER();
    netns_run("ip link set lo up");
    assert_int_equal(tt_locality_read(&settings, &there), TUTTI_OK);
    assert_true(here.host != there.host);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(rank_0_describes_the_default_routes_interface_first, setup, netns_leave),
        cmocka_unit_test_setup_teardown(others_try_common_networks_first_and_what_only_leads_home_last, setup,
                                        netns_leave),
        cmocka_unit_test_setup_teardown(addresses_of_ipv6_come_behind_those_of_ipv4_and_in_brackets, setup,
                                        netns_leave),
        cmocka_unit_test_setup(what_is_no_description_is_refused, setup),
        cmocka_unit_test_setup(one_socket_serves_all_groups_of_a_process, setup),
        cmocka_unit_test_setup_teardown(jobs_over_several_hosts_use_the_default_routes_interface, setup, netns_leave),
        cmocka_unit_test_setup_teardown(the_network_of_an_address_that_was_given_comes_first, setup, netns_leave),
        cmocka_unit_test_setup_teardown(a_bridge_that_every_host_has_connects_no_hosts, setup, netns_leave),
        cmocka_unit_test_setup_teardown(hosts_without_a_common_network_use_their_first, setup, netns_leave),
        cmocka_unit_test_setup_teardown(namespaces_are_hosts_of_their_own, setup, netns_leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
