/* SPDX-License-Identifier: BSD-3-Clause */
/* A name of rank 0's host that has several addresses, where rank 0 listens then, and what is said of them elsewhere. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"
#include "bootstrap_fixture.h"
#include "engine/bootstrap_private.h"
#include "two_addresses.h"

static int connect_errors[ADDRESSES]; /* of 127.0.0.1 and 127.0.0.2; 0: the system's */

/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): the system's header has reserved names */
int connect(int fd, const struct sockaddr *address, socklen_t length)
{
    struct sockaddr_in to = {0};
    memcpy(&to, address, length < sizeof(to) ? length : sizeof(to));
    uint32_t number = ntohl(to.sin_addr.s_addr) - INADDR_LOOPBACK;
    if (to.sin_family == AF_INET && number < ADDRESSES && connect_errors[number] != 0) {
        errno = connect_errors[number];
        return -1;
    }
    return (int)syscall(SYS_connect, fd, address, length);
}

/* Rank 0's, at a name with these addresses. */
static tutti_status open_rank_0(const char *first, const char *second, uint16_t port, struct tt_bootstrap **bootstrap)
{
    struct tt_settings settings;
    addresses[0] = first;
    addresses[1] = second;
    fixture_settings(&settings, 0, 2, port, 1000);
    snprintf(settings.root, sizeof(settings.root), "two.example:%u", port);
    tt_clear_error();
    return tt_bootstrap_open(&settings, bootstrap);
}

static void assert_in_use(const char *first, const char *second)
{
    struct tt_bootstrap *bootstrap = NULL;
    char expected[128];
    uint16_t port;
    int other = fixture_listen(&port); /* at 127.0.0.1 */
    snprintf(expected, sizeof(expected), "TUTTI_ROOT=two.example:%u (127.0.0.1): another process listens there already",
             port);
    assert_int_equal(open_rank_0(first, second, port, &bootstrap), TUTTI_ERR_IN_USE);
    assert_string_equal(tt_last_error(), expected);
    assert_null(bootstrap);
    close(other);
}

/* The others would connect to that process, and not look any further while it does not answer. */
static void a_port_that_is_taken_at_the_first_address_is_an_error_with_that_address(void **state)
{
    (void)state;
    assert_in_use("127.0.0.1", "127.0.0.2");
}

static void a_port_that_is_taken_at_the_first_own_address_is_an_error_with_that_address(void **state)
{
    (void)state;
    assert_in_use("192.0.2.1", "127.0.0.1");
}

static void an_address_of_another_host_is_passed_over_for_an_own_one(void **state)
{
    struct tt_bootstrap *bootstrap = NULL;
    struct sockaddr_in own = {0};
    socklen_t length = sizeof(own);
    uint16_t port;
    (void)state;
    close(fixture_listen(&port));
    assert_int_equal(open_rank_0("192.0.2.1", "127.0.0.2", port, &bootstrap), TUTTI_OK);
    assert_int_equal(getsockname(bootstrap->listener, (struct sockaddr *)&own, &length), 0);
    assert_int_equal(ntohl(own.sin_addr.s_addr), INADDR_LOOPBACK + 1);
    tt_bootstrap_destroy(bootstrap);
}

static void addresses_of_other_hosts_are_an_error_with_the_last_one(void **state)
{
    struct tt_bootstrap *bootstrap = NULL;
    (void)state;
    assert_int_equal(open_rank_0("192.0.2.1", "198.51.100.1", 47000, &bootstrap), TUTTI_ERR_IO);
    assert_string_equal(tt_last_error(),
                        "TUTTI_ROOT=two.example:47000 (198.51.100.1): rank 0 cannot listen there: Cannot "
                        "assign requested address");
    assert_null(bootstrap);
}

/* Rank 1, where connecting to the one address and to the other fails in this way. */
static void assert_cannot_reach(int first_error, int second_error, tutti_status expected, const char *address,
                                const char *reason)
{
    struct tt_bootstrap *bootstrap = NULL;
    struct tt_settings settings;
    char text[256];
    addresses[0] = "127.0.0.1";
    addresses[1] = "127.0.0.2";
    connect_errors[0] = first_error;
    connect_errors[1] = second_error;
    fixture_settings(&settings, 1, 2, 47000, 100);
    snprintf(settings.root, sizeof(settings.root), "two.example:47000");
    snprintf(text, sizeof(text), "rank 1 cannot reach rank 0 at two.example:47000 (%s) in 100 ms: %s", address, reason);
    tt_clear_error();
    assert_int_equal(tt_bootstrap_create(&settings, &bootstrap), expected);
    assert_string_equal(tt_last_error(), text);
    assert_null(bootstrap);
    memset(connect_errors, 0, sizeof(connect_errors));
}

/* As ::1 of a host without IPv6, whose localhost it still is. */
static void an_address_that_cannot_be_asked_does_not_hide_what_another_says(void **state)
{
    (void)state;
    assert_cannot_reach(ECONNREFUSED, EADDRNOTAVAIL, TUTTI_ERR_TIMED_OUT, "127.0.0.1", "Connection refused");
    assert_cannot_reach(EADDRNOTAVAIL, ECONNREFUSED, TUTTI_ERR_TIMED_OUT, "127.0.0.2", "Connection refused");
}

static void where_no_address_can_be_asked_this_host_lacks_something(void **state)
{
    (void)state;
    assert_cannot_reach(EADDRNOTAVAIL, EADDRNOTAVAIL, TUTTI_ERR_NO_RESOURCE, "127.0.0.1",
                        "Cannot assign requested address (no port of this host is free, or its own address is gone)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_port_that_is_taken_at_the_first_address_is_an_error_with_that_address),
        cmocka_unit_test(a_port_that_is_taken_at_the_first_own_address_is_an_error_with_that_address),
        cmocka_unit_test(an_address_of_another_host_is_passed_over_for_an_own_one),
        cmocka_unit_test(addresses_of_other_hosts_are_an_error_with_the_last_one),
        cmocka_unit_test(an_address_that_cannot_be_asked_does_not_hide_what_another_says),
        cmocka_unit_test(where_no_address_can_be_asked_this_host_lacks_something),
    };
    char message[128];
    tt_log_configure("none", NULL, message, sizeof(message));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
