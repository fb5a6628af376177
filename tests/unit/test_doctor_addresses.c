/* SPDX-License-Identifier: BSD-3-Clause */
/* What `tutti doctor` says of the addresses of this host's interfaces: whether ranks find each other by them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "cli/doctor_checks.h"

enum { MOST = 64 };

static struct tt_interface interfaces[MOST];
static struct tt_findings findings;

/* lo and tb0, both up, with these addresses; 0: with none. */
static void make(uint32_t loopback, uint32_t other)
{
    memset(&findings, 0, sizeof(findings));
    memset(interfaces, 0, sizeof(interfaces));
    interfaces[0] = (struct tt_interface){
        .name = "lo", .up = true, .loopback = true, .mtu = 65536, .ip = tt_ip_from_ipv4(htonl(loopback))};
    interfaces[1] = (struct tt_interface){.name = "tb0", .up = true, .mtu = 1500, .ip = tt_ip_from_ipv4(htonl(other))};
}

/* There must be just one finding: of this check, with this verdict, and these words and advice. */
static void assert_one(const char *check, enum tt_verdict verdict, const char *words, const char *advice)
{
    assert_int_equal(findings.count, 1);
    print_message("%s: %s: %s\n", findings.items[0].check, findings.items[0].found, findings.items[0].advice);
    assert_string_equal(findings.items[0].check, check);
    assert_int_equal(findings.items[0].verdict, verdict);
    assert_non_null(strstr(findings.items[0].found, words));
    assert_non_null(strstr(findings.items[0].advice, advice));
}

static void interface_with_an_address_needs_no_word(void **state)
{
    (void)state;
    make(0x7f000001, 0x0a540701);
    tt_doctor_judge_addresses(interfaces, 2, &findings);
    assert_int_equal(findings.count, 0);
    interfaces[2] = (struct tt_interface){.name = "tb1", .up = true};
    tt_doctor_judge_addresses(interfaces, 3, &findings);
    assert_int_equal(findings.count, 0);
}

static void host_without_an_address_but_loopback_s_is_warned_with_what_is_up(void **state)
{
    (void)state;
    make(0x7f000001, 0);
    tt_doctor_judge_addresses(interfaces, 2, &findings);
    assert_one(
        "interfaces", TT_VERDICT_WARN,
        "up without an address (IPv4, or IPv6 that is not link-local): tb0; only jobs on this one host will work",
        "ip addr add ADDRESS/PREFIX dev tb0: ");
    make(0x7f000001, 0);
    interfaces[2] = (struct tt_interface){.name = "tb1", .up = true};
    interfaces[3] = (struct tt_interface){.name = "tb2", .ip = tt_ip_from_ipv4(htonl(0x0a540701))}; /* down */
    tt_doctor_judge_addresses(interfaces, 4, &findings);
    assert_one("interfaces", TT_VERDICT_WARN, "not link-local): tb0, tb1; only", "dev INTERFACE: ");
    make(0x7f000001, 0);
    assert_true(tt_ip_parse("fd00::1", &interfaces[1].ip));
    tt_doctor_judge_addresses(interfaces, 2, &findings);
    assert_int_equal(findings.count, 0);
    make(0x7f000001, 0);
    interfaces[1].up = false; /* a host without a network is no surprise to whom it belongs */
    tt_doctor_judge_addresses(interfaces, 2, &findings);
    assert_int_equal(findings.count, 0);
}

static void interfaces_that_are_too_many_to_name_are_counted(void **state)
{
    (void)state;
    make(0x7f000001, 0);
    for (int i = 1; i < MOST; i++) {
        interfaces[i] = (struct tt_interface){.up = true};
        snprintf(interfaces[i].name, sizeof(interfaces[i].name), "interface-nr-%d", 10 + i);
    }
    tt_doctor_judge_addresses(interfaces, MOST, &findings);
    assert_one("interfaces", TT_VERDICT_WARN,
               ": interface-nr-11, interface-nr-12, interface-nr-13, interface-nr-14, "
               "interface-nr-15, 58 more; ",
               "dev INTERFACE: ");
}

static void host_without_any_address_fails_with_what_to_do(void **state)
{
    (void)state;
    make(0, 0);
    interfaces[0].up = false;
    interfaces[1].up = false;
    tt_doctor_judge_addresses(interfaces, 2, &findings);
    assert_one("interfaces", TT_VERDICT_FAIL, "none is up and has an address that a job could use",
               "ip link set lo up, or bring up the interface of the cluster");
    make(0, 0);
    tt_doctor_judge_addresses(interfaces, 2, &findings);
    assert_one("interfaces", TT_VERDICT_FAIL, "none is up and has an address that a job could use",
               "ip addr add 127.0.0.1/8 dev lo, or an IPv4 address for tb0");
    make(0, 0);
    assert_true(tt_ip_parse("::1", &interfaces[0].ip)); /* jobs on one host have multicast */
    tt_doctor_judge_addresses(interfaces, 2, &findings);
    assert_one("interfaces", TT_VERDICT_FAIL, "none is up",
               "ip addr add 127.0.0.1/8 dev lo, or an IPv4 address for tb0");
}

static void loopback_is_told_what_it_lacks(void **state)
{
    (void)state;
    make(0x7f000001, 0x0a540701);
    tt_doctor_judge_loopback(interfaces, 2, &findings);
    assert_one("loopback", TT_VERDICT_OK, "has 127.0.0.1", "");
    make(0, 0x0a540701);
    tt_doctor_judge_loopback(interfaces, 2, &findings);
    assert_one("loopback", TT_VERDICT_WARN, "no interface that is up has 127.0.0.1",
               "ip addr add 127.0.0.1/8 dev lo: ");
    make(0x7f000002, 0x0a540701);
    tt_doctor_judge_loopback(interfaces, 2, &findings);
    assert_one("loopback", TT_VERDICT_WARN, "no interface that is up has 127.0.0.1",
               "ip addr add 127.0.0.1/8 dev lo: ");
    make(0, 0x0a540701);
    interfaces[0].up = false;
    tt_doctor_judge_loopback(interfaces, 2, &findings);
    assert_one("loopback", TT_VERDICT_WARN, "no interface that is up has 127.0.0.1", "ip link set lo up: ");
}

/* The ports found by the interface's index. */
static void device_that_joins_no_group_for_want_of_ipv4_fails_with_what_to_do(void **state)
{
    struct tt_settings settings;
    struct tt_verbs_port port = {.device = "mlx5_0", .port = 1, .gid = "fd00::5"};
    struct tt_verbs_device_options options = {.name = "auto", .interface_index = 7};
    static const char no_group[] = "mlx5_0, port 1, is active, but without an IPv4 address of eth0 it joins no";

    (void)state;
    assert_int_equal(tt_settings_load(&settings), TUTTI_OK);
    assert_int_equal(tt_settings_set(&settings, "INTERFACE", "eth0"), TUTTI_OK);
    assert_int_equal(tt_settings_set(&settings, "MCAST", "verbs"), TUTTI_OK);
    make(0, 0);
    tt_doctor_judge_device(&settings, &options, &port, &findings);
    assert_one("RDMA device", TT_VERDICT_FAIL, no_group, "TUTTI_MGID");
    make(0, 0);
    assert_int_equal(tt_settings_set(&settings, "MCAST", "auto"), TUTTI_OK);
    assert_int_equal(tt_settings_set(&settings, "DEVICE", "mlx5_0"), TUTTI_OK);
    tt_doctor_judge_device(&settings, &options, &port, &findings);
    assert_one("RDMA device", TT_VERDICT_FAIL, no_group, "TUTTI_MGID");
    for (int i = 0; i < 4; i++) {
        struct tt_settings other = settings;
        struct tt_verbs_port other_port = port;

        options.address_be = i == 0 ? htonl(0x0a540701) : 0;
        snprintf(other_port.gid, sizeof(other_port.gid), "%s", i == 1 ? "::ffff:10.84.7.1" : "fd00::5");
        assert_int_equal(tt_settings_set(&other, "MGID", i == 2 ? "ff0e::1" : ""), TUTTI_OK);
        assert_int_equal(tt_settings_set(&other, "MCAST", i == 3 ? "udp" : "auto"), TUTTI_OK);
        make(0, 0);
        tt_doctor_judge_device(&other, &options, &other_port, &findings);
        assert_one("RDMA device", TT_VERDICT_OK, "TUTTI_DEVICE: mlx5_0, port 1, is active", "");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(interface_with_an_address_needs_no_word),
        cmocka_unit_test(host_without_an_address_but_loopback_s_is_warned_with_what_is_up),
        cmocka_unit_test(interfaces_that_are_too_many_to_name_are_counted),
        cmocka_unit_test(host_without_any_address_fails_with_what_to_do),
        cmocka_unit_test(loopback_is_told_what_it_lacks),
        cmocka_unit_test(device_that_joins_no_group_for_want_of_ipv4_fails_with_what_to_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
