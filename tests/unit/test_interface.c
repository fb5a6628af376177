/* SPDX-License-Identifier: BSD-3-Clause */
/* Discovery of network interfaces: the loopback that every host has, and made-up ones in a namespace. */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "fabric/udp/interface.h"
#include "netns.h"
#include "skip.h"

enum { CAPACITY = 64 };

static void loopback_is_found_by_name_and_by_address(void **state)
{
    struct tt_interface by_name;
    struct tt_interface by_address;

    (void)state;
    assert_int_equal(tt_interface_find("lo", &by_name), TUTTI_OK);
    assert_string_equal(by_name.name, "lo");
    assert_int_equal(by_name.index, if_nametoindex("lo"));
    assert_int_equal(tt_ip_to_ipv4(by_name.ip), htonl(INADDR_LOOPBACK));
    assert_int_equal(by_name.prefix_bits, 8);
    assert_true(by_name.mtu >= 1500);
    assert_int_equal(by_name.speed_mbit, 0);
    assert_true(by_name.loopback);
    assert_true(by_name.up);
    assert_int_equal(tt_interface_find("127.0.0.1", &by_address), TUTTI_OK);
    assert_memory_equal(&by_name, &by_address, sizeof(by_name));
}

static void list_fills_no_more_than_its_capacity_and_counts_all(void **state)
{
    struct tt_interface interfaces[CAPACITY];
    size_t count = 0;
    size_t counted_only = 0;

    (void)state;
    assert_int_equal(tt_interface_list(interfaces, CAPACITY, &count), TUTTI_OK);
    assert_in_range(count, 1, CAPACITY);
    assert_int_equal(tt_interface_list(NULL, 0, &counted_only), TUTTI_OK);
    assert_int_equal(counted_only, count);
}

/* That `find` fails with this status and text, and leaves its output alone. */
static void expect_not_found(const char *text, tutti_status status, const char *message)
{
    struct tt_interface interface;
    struct tt_interface untouched;

    memset(&interface, 0x5A, sizeof(interface));
    untouched = interface;
    assert_int_equal(tt_interface_find(text, &interface), status);
    assert_memory_equal(&interface, &untouched, sizeof(interface));
    if (strstr(tt_last_error(), message) == NULL) {
        fail_msg("the error is \"%s\", expected \"%s\"", tt_last_error(), message);
    }
}

static void unknown_interface_is_refused_with_a_list_of_those_that_exist(void **state)
{
    (void)state;
    expect_not_found("eth99x", TUTTI_ERR_INVALID_ARGUMENT, "TUTTI_INTERFACE=eth99x: no such interface (there are lo");
    expect_not_found("203.0.113.9", TUTTI_ERR_INVALID_ARGUMENT,
                     "TUTTI_INTERFACE=203.0.113.9: no such interface (there are lo");
    expect_not_found("0.0.0.0", TUTTI_ERR_INVALID_ARGUMENT, "TUTTI_INTERFACE=0.0.0.0: no such interface");
    expect_not_found("", TUTTI_ERR_INVALID_ARGUMENT, "TUTTI_INTERFACE=: no such interface");
}

static void interface_that_cannot_be_used_is_refused_with_the_reason(void **state)
{

    (void)state;
    NETNS_ENTER();
    netns_run("ip addr add 127.0.0.1/8 dev lo 2>/dev/null || true");
    expect_not_found("lo", TUTTI_ERR_INVALID_ARGUMENT, "TUTTI_INTERFACE=lo: is down");
    netns_run("ip link add here type veth peer name there; ip link set here addrgenmode none 2>/dev/null || true");
    netns_run("ip link set here up");
    expect_not_found("here", TUTTI_ERR_INVALID_ARGUMENT, "TUTTI_INTERFACE=here: is down"); /* the other end is */
    netns_run("ip link set there up");
    netns_await_carrier("here");
    expect_not_found("here", TUTTI_ERR_INVALID_ARGUMENT, "TUTTI_INTERFACE=here: has no IPv4 or IPv6 address");
    netns_run("ip addr add 10.1.2.3/24 dev here");
    netns_run("ip link set here multicast off");
    struct tt_interface found;
    assert_int_equal(tt_interface_find("10.1.2.3", &found), TUTTI_OK); /* whoever needs multicast looks at the flag */
    assert_false(tt_interface_does_multicast(&found));
}

static void every_address_of_an_interface_leads_to_it(void **state)
{
    struct tt_interface first;
    struct tt_interface second;

    (void)state;
    NETNS_ENTER();
    netns_run("ip link add here type veth peer name there");
    netns_run("ip link set here mtu 9000 up; ip link set there up");
    netns_await_carrier("here");
    netns_run("ip addr add 10.1.2.3/24 dev here");
    netns_run("ip addr add 10.9.0.1/16 dev here label here:second");
    assert_int_equal(tt_interface_find("here", &first), TUTTI_OK);
    assert_int_equal(tt_interface_find("10.9.0.1", &second), TUTTI_OK);
    assert_string_equal(second.name, "here");
    assert_int_equal(first.index, second.index);
    assert_int_equal(tt_ip_to_ipv4(first.ip), inet_addr("10.1.2.3"));
    assert_int_equal(tt_ip_to_ipv4(second.ip), inet_addr("10.9.0.1"));
    assert_int_equal(first.prefix_bits, 24);
    assert_int_equal(second.prefix_bits, 16);
    assert_int_equal(first.mtu, 9000);
    assert_int_equal(first.speed_mbit, 10000); /* what veth says */
    assert_true(first.multicast);
    assert_false(first.loopback);

    struct tt_interface interfaces[CAPACITY];
    size_t count = 0;
    assert_int_equal(tt_interface_list(interfaces, CAPACITY, &count), TUTTI_OK);
    size_t with_address = 0;
    size_t without = 0;
    for (size_t i = 0; i < count; i++) {
        if (interfaces[i].index == first.index) {
            with_address += tt_ip_to_ipv4(interfaces[i].ip) != 0;
            without += tt_ip_is_none(interfaces[i].ip);
        }
    }
    assert_int_equal(with_address, 2);
    assert_int_equal(without, 0);
}

/* --- IPv6 --------------------------------------------------------------------------------------------------------- */

#define ENTER_WITH_IPV6()                                                                                              \
    do {                                                                                                               \
        NETNS_ENTER_WITH_IPV6();                                                                                       \
        netns_run("ip link add here type veth peer name there && ip link set here addrgenmode none &&"                 \
                  "ip link set here up && ip link set there up");                                                      \
        netns_await_carrier("here");                                                                                   \
    } while (0)

static void interface_with_ipv6_only_is_found_by_name_and_by_address(void **state)
{
    struct tt_interface by_name, by_address;
    char text[TT_INTERFACE_TEXT_BYTES];

    (void)state;
    ENTER_WITH_IPV6();
    netns_run("ip -6 addr add fe80::7/64 dev here nodad; ip -6 addr add fd00::5/112 dev here nodad");
    assert_int_equal(tt_interface_find("here", &by_name), TUTTI_OK);
    assert_string_equal(tt_interface_format(&by_name, text), "here (fd00::5)");
    assert_int_equal(tt_ip_to_ipv4(by_name.ip), 0);
    assert_int_equal(by_name.prefix_bits, 112);
    assert_false(by_name.default_route);
    assert_false(by_name.link_local);
    assert_false(tt_interface_does_multicast(&by_name)); /* though it has the flag */
    assert_int_equal(tt_interface_find("fd00:0::5", &by_address), TUTTI_OK);
    assert_memory_equal(&by_name, &by_address, sizeof(by_name));
    netns_run("ip -6 route add default via fd00::9 dev here");
    assert_int_equal(tt_interface_find("here", &by_name), TUTTI_OK);
    assert_true(by_name.default_route);
    expect_not_found("fd00::6", TUTTI_ERR_INVALID_ARGUMENT, "TUTTI_INTERFACE=fd00::6: no such interface");
}

static void address_of_ipv4_is_an_interface_s_first(void **state)
{
    struct tt_interface ipv4, ipv6;

    (void)state;
    ENTER_WITH_IPV6();
    netns_run("ip -6 addr add fd00::5/64 dev here nodad; ip addr add 10.1.2.3/24 dev here");
    netns_run("ip route add default via 10.1.2.1 dev here");
    assert_int_equal(tt_interface_find("here", &ipv4), TUTTI_OK);
    assert_int_equal(tt_ip_to_ipv4(ipv4.ip), inet_addr("10.1.2.3"));
    assert_true(tt_interface_does_multicast(&ipv4));
    assert_true(ipv4.default_route);
    assert_int_equal(tt_interface_find("fd00::5", &ipv6), TUTTI_OK);
    assert_int_equal(ipv6.index, ipv4.index);
    assert_false(tt_interface_does_multicast(&ipv6));
    assert_false(ipv6.default_route); /* that one is IPv4's */
}

static void address_that_does_not_leave_its_link_is_none(void **state)
{
    (void)state;
    ENTER_WITH_IPV6();
    netns_run("ip -6 addr add fe80::7/64 dev here nodad");
    expect_not_found("here", TUTTI_ERR_INVALID_ARGUMENT,
                     "TUTTI_INTERFACE=here: has no address but a link-local one of IPv6, which other hosts cannot use");
    expect_not_found("fe80::7", TUTTI_ERR_INVALID_ARGUMENT,
                     "TUTTI_INTERFACE=fe80::7: is a link-local address, which other hosts cannot use");
}

static void assert_can_be_bound(struct tt_ip ip)
{
    struct sockaddr_in6 address = {.sin6_family = AF_INET6};
    int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    memcpy(&address.sin6_addr, ip.bytes, sizeof ip.bytes);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    close(fd);
}

/* The system looks for a second whether another host has it. */
static void only_address_is_waited_for_until_it_can_be_bound(void **state)
{
    struct tt_interface found;
    char text[TT_INTERFACE_TEXT_BYTES];

    (void)state;
    ENTER_WITH_IPV6();
    netns_run("ip -6 addr add fd00::5/64 dev here");
    assert_int_equal(tt_interface_find("here", &found), TUTTI_OK);
    assert_string_equal(tt_interface_format(&found, text), "here (fd00::5)");
    assert_can_be_bound(found.ip);
}

static void address_that_cannot_be_bound_is_none(void **state)
{
    struct tt_interface found;
    char text[TT_INTERFACE_TEXT_BYTES];

    (void)state;
    ENTER_WITH_IPV6();
    netns_run(
        "ip -6 addr add fd00::5/64 dev there nodad; ip -6 addr add fd00::5/64 dev here;"
        "for try in $(seq 1000); do ip addr show dev here | grep -q dadfailed && exit 0; sleep 0.01; done; exit 1");
    expect_not_found("here", TUTTI_ERR_INVALID_ARGUMENT, "TUTTI_INTERFACE=here: has no IPv4 or IPv6 address");
    netns_run("echo 300 >/proc/sys/net/ipv6/conf/here/dad_transmits; ip -6 addr add fd00::6/64 dev here");
    netns_run("ip addr add 10.1.2.3/24 dev there"); /* so that none is waited for */
    expect_not_found("fd00::6", TUTTI_ERR_INVALID_ARGUMENT, "TUTTI_INTERFACE=fd00::6: no such interface");
    netns_run("ip -6 addr add fd00::7/64 dev here nodad");
    assert_int_equal(tt_interface_find("here", &found), TUTTI_OK);
    assert_string_equal(tt_interface_format(&found, text), "here (fd00::7)");
}

/* The system lists the one that came last first. */
static void deprecated_address_comes_last(void **state)
{
    struct tt_interface found;
    char text[TT_INTERFACE_TEXT_BYTES];

    (void)state;
    ENTER_WITH_IPV6();
    netns_run("ip -6 addr add fd00::5/64 dev here nodad; ip -6 addr add fd00::6/64 dev here nodad preferred_lft 0");
    assert_int_equal(tt_interface_find("here", &found), TUTTI_OK);
    assert_string_equal(tt_interface_format(&found, text), "here (fd00::5)");
    assert_int_equal(tt_interface_find("fd00::6", &found), TUTTI_OK); /* said is said */
    assert_int_equal(found.preference, TT_INTERFACE_DEPRECATED);
}

/* Of which a host with containers has many. */
static void interfaces_without_an_address_take_no_place_from_one_with(void **state)
{
    struct tt_interface interfaces[CAPACITY];
    size_t count = 0, found = 0;

    (void)state;
    NETNS_ENTER();
    netns_run("for i in $(seq 80); do ip link add b$i type bridge || exit 1; done; ip addr add 10.1.2.3/24 dev b80");
    assert_int_equal(tt_interface_list(interfaces, CAPACITY, &count), TUTTI_OK);
    assert_in_range(count, 81, 90);
    for (size_t i = 0; i < CAPACITY; i++) {
        found += tt_ip_to_ipv4(interfaces[i].ip) == inet_addr("10.1.2.3");
    }
    assert_int_equal(found, 1);
}

static void long_list_of_interfaces_in_an_error_is_cut(void **state)
{
    char text[TT_INTERFACE_TEXT_BYTES];
    struct tt_interface interface = {.name = "fifteen-letters", .ip = tt_ip_from_ipv4(inet_addr("255.255.255.255"))};

    (void)state;
    assert_string_equal(tt_interface_format(&interface, text), "fifteen-letters (255.255.255.255)");
    NETNS_ENTER();
    netns_run("for i in $(seq 100 140); do ip link add long-name-$i type bridge || exit 1; done");
    expect_not_found("eth9", TUTTI_ERR_INVALID_ARGUMENT, ", ...)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loopback_is_found_by_name_and_by_address),
        cmocka_unit_test(list_fills_no_more_than_its_capacity_and_counts_all),
        cmocka_unit_test(unknown_interface_is_refused_with_a_list_of_those_that_exist),
        cmocka_unit_test_teardown(interface_that_cannot_be_used_is_refused_with_the_reason, netns_leave),
        cmocka_unit_test_teardown(every_address_of_an_interface_leads_to_it, netns_leave),
        cmocka_unit_test_teardown(interface_with_ipv6_only_is_found_by_name_and_by_address, netns_leave),
        cmocka_unit_test_teardown(address_of_ipv4_is_an_interface_s_first, netns_leave),
        cmocka_unit_test_teardown(address_that_does_not_leave_its_link_is_none, netns_leave),
        cmocka_unit_test_teardown(only_address_is_waited_for_until_it_can_be_bound, netns_leave),
        cmocka_unit_test_teardown(address_that_cannot_be_bound_is_none, netns_leave),
        cmocka_unit_test_teardown(deprecated_address_comes_last, netns_leave),
        cmocka_unit_test_teardown(interfaces_without_an_address_take_no_place_from_one_with, netns_leave),
        cmocka_unit_test_teardown(long_list_of_interfaces_in_an_error_is_cut, netns_leave),
    };
    tt_log_configure("none", NULL, (char[64]){0}, 64);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
