/* SPDX-License-Identifier: BSD-3-Clause */
/* IP addresses of both families as one value. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/ip.h"

static struct tt_ip ip_of(const char *text)
{
    struct tt_ip ip = {{0}};

    assert_true(tt_ip_parse(text, &ip));
    return ip;
}

static void address_is_read_and_written_in_its_family_s_form(void **state)
{
    static const struct {
        const char *text, *written;
        bool is_ipv6;
        uint32_t bits;
    } cases[] = {{"10.84.7.1", "10.84.7.1", false, 32},
                 {"255.255.255.255", "255.255.255.255", false, 32},
                 {"::ffff:10.84.7.1", "10.84.7.1", false, 32},
                 {"fd00:0:0::5", "fd00::5", true, 128},
                 {"::1", "::1", true, 128},
                 {"fd11:2233:4455:6677:8899:aabb:ccdd:eeff", "fd11:2233:4455:6677:8899:aabb:ccdd:eeff", true, 128}};
    char text[TT_IP_TEXT_BYTES];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct tt_ip ip = ip_of(cases[i].text);

        assert_string_equal(tt_ip_format(ip, text), cases[i].written);
        assert_int_equal(tt_ip_is_ipv6(ip), cases[i].is_ipv6);
        assert_int_equal(tt_ip_bits(ip), cases[i].bits);
        assert_false(tt_ip_is_none(ip));
    }
    assert_string_equal(tt_ip_format((struct tt_ip){{0}}, text), "-");
}

static void text_that_is_no_address_of_a_host_is_refused(void **state)
{
    static const char *const bad[] = {"",   "eth0",     "10.1.2",       "10.1.2.3/8", "10.1.2.256", "0.0.0.0",
                                      "::", "fd00:::1", "fd00::1%eth0", "[fd00::1]",  "fd00::1/64", "fd00::12345"};
    struct tt_ip ip = ip_of("fd00::7"), untouched = ip;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(tt_ip_parse(bad[i], &ip));
        assert_true(tt_ip_is_equal(ip, untouched));
    }
}

static void address_of_ipv4_is_found_again_and_there_is_none_in_others(void **state)
{
    (void)state;
    assert_int_equal(tt_ip_to_ipv4(ip_of("10.84.7.1")), htonl(0x0A540701));
    assert_true(tt_ip_is_equal(tt_ip_from_ipv4(htonl(0x0A540701)), ip_of("10.84.7.1")));
    assert_int_equal(tt_ip_to_ipv4(ip_of("fd00::10.84.7.1")), 0);
    assert_int_equal(tt_ip_to_ipv4(ip_of("::1")), 0);
    assert_true(tt_ip_is_none(tt_ip_from_ipv4(0)));
    assert_false(tt_ip_is_ipv6(tt_ip_from_ipv4(0)));
    assert_int_equal(tt_ip_to_ipv4(tt_ip_from_ipv4(0)), 0);
}

static void address_of_a_socket_is_taken_in_both_families(void **state)
{
    struct sockaddr_in ipv4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x0A540701)};
    struct sockaddr_in6 ipv6 = {.sin6_family = AF_INET6};
    struct sockaddr other = {.sa_family = AF_UNIX};

    (void)state;
    assert_int_equal(inet_pton(AF_INET6, "fd00::5", &ipv6.sin6_addr), 1);
    assert_true(tt_ip_is_equal(tt_ip_from_socket((struct sockaddr *)&ipv4), ip_of("10.84.7.1")));
    assert_true(tt_ip_is_equal(tt_ip_from_socket((struct sockaddr *)&ipv6), ip_of("fd00::5")));
    assert_int_equal(inet_pton(AF_INET6, "::ffff:10.84.7.1", &ipv6.sin6_addr), 1); /* an interface may have it */
    assert_true(tt_ip_is_none(tt_ip_from_socket((struct sockaddr *)&ipv6)));
    assert_true(tt_ip_is_none(tt_ip_from_socket(&other)));
    assert_true(tt_ip_is_none(tt_ip_from_socket(NULL)));
}

static void addresses_of_one_network_agree_in_its_prefix(void **state)
{
    static const struct {
        const char *one, *other;
        uint32_t bits; /* in which they agree, and not in one more */
    } cases[] = {{"10.1.2.3", "10.1.2.77", 25}, {"10.1.2.3", "10.1.3.3", 23},     {"10.1.2.3", "138.1.2.3", 0},
                 {"fd00::1", "fd00::2", 126},   {"fd00::1", "fd00:0:0:1::1", 63}, {"fd00::1", "7d00::1", 0}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct tt_ip one = ip_of(cases[i].one), other = ip_of(cases[i].other);

        for (uint32_t bits = 0; bits <= tt_ip_bits(one); bits++) {
            assert_int_equal(tt_ip_share_prefix(one, other, bits), bits <= cases[i].bits);
            assert_true(tt_ip_share_prefix(one, one, bits));
        }
    }
}

/* Prefixes come from other processes. */
static void families_and_prefixes_beyond_an_address_share_no_network(void **state)
{
    static const uint32_t beyond[] = {33, 56, 96, 128, 129, 160, 255, UINT32_MAX};
    struct tt_ip ipv4 = ip_of("10.1.2.3"), ipv6 = ip_of("fd00::1");

    (void)state;
    assert_false(tt_ip_share_prefix(ipv4, ipv6, 0));
    assert_false(tt_ip_share_prefix(ipv6, ipv4, 0));
    for (size_t i = 0; i < sizeof beyond / sizeof beyond[0]; i++) {
        assert_false(tt_ip_share_prefix(ipv4, ipv4, beyond[i]));
        assert_int_equal(tt_ip_share_prefix(ipv6, ipv6, beyond[i]), beyond[i] <= 128);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(address_is_read_and_written_in_its_family_s_form),
        cmocka_unit_test(text_that_is_no_address_of_a_host_is_refused),
        cmocka_unit_test(address_of_ipv4_is_found_again_and_there_is_none_in_others),
        cmocka_unit_test(address_of_a_socket_is_taken_in_both_families),
        cmocka_unit_test(addresses_of_one_network_agree_in_its_prefix),
        cmocka_unit_test(families_and_prefixes_beyond_an_address_share_no_network),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
