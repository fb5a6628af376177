/* SPDX-License-Identifier: BSD-3-Clause */
/* Which network ranks on several hosts take where some of them, or all, have addresses of IPv6 only: this host is a
 * network namespace, the others are what they would say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/log.h"
#include "engine/locality.h"
#include "netns.h"
#include "skip.h"

enum { RANKS = 3 };

static struct tt_settings settings;
static struct tt_locality all[RANKS];

static int set_up(void **state)
{
    (void)state;
    memset(all, 0, sizeof all);
    return tt_settings_load(&settings) == TUTTI_OK ? 0 : 1;
}

/* eth0 and ib0, both up and without an address. */
static void make_interfaces(void)
{
    netns_run("ip link set lo up;"
              "for i in eth0 ib0; do"
              "  ip link add $i type veth peer name q-$i && ip link set $i up && ip link set q-$i up || exit 1;"
              "done");
    netns_await_carrier("eth0");
    netns_await_carrier("ib0");
}

#define ENTER()                                                                                                        \
    do {                                                                                                               \
        NETNS_ENTER_WITH_IPV6();                                                                                       \
        make_interfaces();                                                                                             \
    } while (0)

static void add_net(uint32_t rank, const char *address, uint32_t prefix_bits)
{
    struct tt_locality *place = &all[rank];

    assert_true(place->net_count < TT_LOCALITY_NETS);
    assert_true(tt_ip_parse(address, &place->nets[place->net_count].ip));
    place->nets[place->net_count].prefix_bits = prefix_bits;
    place->nets[place->net_count].multicast = !tt_ip_is_ipv6(place->nets[place->net_count].ip);
    place->net_count++;
}

/* Of ranks 1 and 2. */
static void add_to_others(const char *one, const char *other, uint32_t prefix_bits)
{
    add_net(1, one, prefix_bits);
    add_net(2, other, prefix_bits);
}

/* This host is `own`'s, and the other ranks are on hosts of their own. */
static void read_own(uint32_t own)
{
    assert_int_equal(tt_locality_read(&settings, &all[own]), TUTTI_OK);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        if (rank != own) {
            all[rank].host = all[own].host + 1 + rank;
        }
    }
}

static void assert_chosen(uint32_t own, const char *expected)
{
    struct tt_interface interface;
    char text[TT_INTERFACE_TEXT_BYTES];

    assert_int_equal(tt_locality_choose(&settings, all, sizeof all[0], RANKS, own, &interface), TUTTI_OK);
    assert_string_equal(tt_interface_format(&interface, text), expected);
}

/* Whether there is multicast, and if not whether that is for IPv6 at rank 0. */
static void assert_multicast(bool multicast)
{
    assert_int_equal(tt_locality_without_multicast(all, sizeof all[0], RANKS), multicast ? RANKS : 0);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        assert_int_equal(tt_locality_uses_ipv6(all, sizeof all[0], RANKS, rank), !multicast);
    }
}

static void add_ipv6_to_both(void)
{
    netns_run("ip -6 addr add fd00:1::1/64 dev eth0 nodad && ip -6 addr add fd00:2::1/64 dev ib0 nodad");
}

static void networks_of_ipv6_are_chosen_as_those_of_ipv4(void **state)
{
    (void)state;
    ENTER();
    add_ipv6_to_both();
    netns_run("ip -6 route add default via fd00:2::99 dev ib0");
    add_to_others("fd00:1::2", "fd00:1::3", 64);
    add_to_others("fd00:2::2", "fd00:2::3", 64);
    read_own(0);
    assert_int_equal(all[0].net_count, 2);
    assert_chosen(0, "ib0 (fd00:2::1)"); /* the default route's */
    assert_multicast(false);
    strcpy(settings.root, "[fd00:1::1]:29500");
    settings.rank = 0;
    read_own(0);
    assert_chosen(0, "eth0 (fd00:1::1)");
    settings.rank = 1; /* only rank 0's is its own */
    read_own(0);
    assert_chosen(0, "ib0 (fd00:2::1)");
    all[2].net_count = 1; /* of the networks one is in common */
    assert_chosen(0, "eth0 (fd00:1::1)");
    all[2].nets[0].prefix_bits = 63; /* and now none: each takes its first */
    assert_chosen(0, "ib0 (fd00:2::1)");
    assert_multicast(false);
}

static void network_of_ipv4_that_all_have_comes_first(void **state)
{
    (void)state;
    ENTER();
    add_ipv6_to_both();
    netns_run("ip addr add 10.1.0.1/24 dev eth0; ip -6 route add default via fd00:2::99 dev ib0");
    strcpy(settings.root, "[fd00:2::1]:29500");
    settings.rank = 0;
    add_to_others("10.1.0.2", "10.1.0.3", 24);
    add_to_others("fd00:2::2", "fd00:2::3", 64);
    read_own(0);
    assert_chosen(0, "eth0 (10.1.0.1)");
    assert_multicast(true);
    all[1].nets[0].multicast = 0; /* also without multicast */
    assert_chosen(0, "eth0 (10.1.0.1)");
    assert_int_equal(tt_locality_without_multicast(all, sizeof all[0], RANKS), 1);
    assert_false(tt_locality_uses_ipv6(all, sizeof all[0], RANKS, 1));
}

static void one_host_without_ipv4_has_all_take_the_network_of_ipv6(void **state)
{
    (void)state;
    ENTER();
    netns_run("ip addr add 10.1.0.2/24 dev eth0; ip -6 addr add fd00:2::2/64 dev eth0 nodad");
    add_net(0, "10.1.0.1", 24);
    add_net(0, "fd00:2::1", 64);
    add_net(2, "fd00:2::3", 64);
    read_own(1);
    assert_chosen(1, "eth0 (fd00:2::2)");
    assert_multicast(false);
    all[2].nets[0].prefix_bits = 128; /* an address without a network: routers lead there */
    assert_chosen(1, "eth0 (fd00:2::2)");
    assert_multicast(false);
}

/* A bridge for containers has the same address on each host. */
static void address_of_ipv4_that_every_host_has_does_not_count(void **state)
{
    (void)state;
    ENTER();
    netns_run("ip addr add 172.17.0.1/16 dev ib0; ip -6 addr add fd00:2::1/64 dev eth0 nodad");
    add_to_others("172.17.0.1", "172.17.0.1", 16);
    add_to_others("fd00:2::2", "fd00:2::3", 64);
    read_own(0);
    assert_chosen(0, "eth0 (fd00:2::1)");
    assert_multicast(false);
}

static void addresses_of_ipv4_that_routers_join_are_preferred_to_a_network_of_ipv6(void **state)
{
    (void)state;
    ENTER();
    netns_run("ip addr add 10.1.0.1/24 dev ib0; ip -6 addr add fd00:2::1/64 dev eth0 nodad");
    add_to_others("10.2.0.1", "10.3.0.1", 24);
    add_to_others("fd00:2::2", "fd00:2::3", 64);
    read_own(0);
    assert_chosen(0, "ib0 (10.1.0.1)");
    assert_multicast(true);
}

static void named_interface_is_used_by_the_family_that_all_have(void **state)
{
    (void)state;
    ENTER();
    netns_run("ip addr add 10.1.0.1/24 dev eth0; ip -6 addr add fd00:2::1/64 dev eth0 nodad");
    strcpy(settings.interface, "eth0");
    read_own(0);
    all[1].chosen = all[2].chosen = 7;
    all[1].chosen_multicast = all[2].chosen_multicast = 1;
    assert_chosen(0, "eth0 (10.1.0.1)");
    assert_multicast(true);
    all[2].chosen_ipv6 = 1; /* there it has no other */
    all[2].chosen_multicast = 0;
    assert_chosen(0, "eth0 (fd00:2::1)");
    assert_int_equal(tt_locality_without_multicast(all, sizeof all[0], RANKS), 2);
    assert_true(tt_locality_uses_ipv6(all, sizeof all[0], RANKS, 2));
    strcpy(settings.interface, "10.1.0.1"); /* said is said */
    assert_chosen(0, "eth0 (10.1.0.1)");
    strcpy(settings.interface, "fd00:2::1");
    read_own(0);
    assert_true(all[0].chosen_ipv6 != 0 && all[0].chosen_multicast == 0);
    assert_chosen(0, "eth0 (fd00:2::1)");
}

static void one_host_uses_loopback_by_ipv4(void **state)
{
    (void)state;
    ENTER();
    add_ipv6_to_both();
    read_own(0);
    all[1] = all[2] = all[0];
    assert_chosen(0, "lo (127.0.0.1)");
    assert_multicast(true);
}

static void addresses_that_do_not_leave_their_link_are_none(void **state)
{
    struct tt_interface interface;

    (void)state;
    ENTER();
    netns_run("ip -6 addr add fe80::1/64 dev eth0 nodad");
    read_own(0);
    assert_int_equal(all[0].net_count, 0);
    assert_int_equal(tt_locality_choose(&settings, all, sizeof all[0], RANKS, 0, &interface), TUTTI_ERR_NOT_SUPPORTED);
    assert_non_null(strstr(tt_last_error(), "has an IPv4 address, or one of IPv6 that is not link-local"));
}

/* As with a bridge for each of many containers. */
static void many_addresses_of_ipv4_leave_a_place_to_one_of_ipv6(void **state)
{
    (void)state;
    ENTER();
    netns_run("for i in 1 2 3 4 5 6 7 8 9; do ip addr add 10.$i.0.1/24 dev ib0 || exit 1; done");
    read_own(0);
    assert_int_equal(all[0].net_count, TT_LOCALITY_NETS);
    assert_false(tt_ip_is_ipv6(all[0].nets[TT_LOCALITY_NETS - 1].ip));
    add_ipv6_to_both();
    add_to_others("fd00:1::2", "fd00:1::3", 64);
    read_own(0);
    assert_int_equal(all[0].net_count, TT_LOCALITY_NETS);
    assert_false(tt_ip_is_ipv6(all[0].nets[TT_LOCALITY_NETS - 2].ip));
    assert_chosen(0, "eth0 (fd00:1::1)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(networks_of_ipv6_are_chosen_as_those_of_ipv4, set_up, netns_leave),
        cmocka_unit_test_setup_teardown(network_of_ipv4_that_all_have_comes_first, set_up, netns_leave),
        cmocka_unit_test_setup_teardown(one_host_without_ipv4_has_all_take_the_network_of_ipv6, set_up, netns_leave),
        cmocka_unit_test_setup_teardown(address_of_ipv4_that_every_host_has_does_not_count, set_up, netns_leave),
        cmocka_unit_test_setup_teardown(addresses_of_ipv4_that_routers_join_are_preferred_to_a_network_of_ipv6, set_up,
                                        netns_leave),
        cmocka_unit_test_setup_teardown(named_interface_is_used_by_the_family_that_all_have, set_up, netns_leave),
        cmocka_unit_test_setup_teardown(one_host_uses_loopback_by_ipv4, set_up, netns_leave),
        cmocka_unit_test_setup_teardown(addresses_that_do_not_leave_their_link_are_none, set_up, netns_leave),
        cmocka_unit_test_setup_teardown(many_addresses_of_ipv4_leave_a_place_to_one_of_ipv6, set_up, netns_leave),
    };

    tt_log_configure("none", NULL, (char[64]){0}, 64);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
