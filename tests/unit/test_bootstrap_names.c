/* SPDX-License-Identifier: BSD-3-Clause */
/* A name of rank 0's host that has several addresses, and where rank 0 listens then. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "bootstrap_fixture.h"
#include "engine/bootstrap_private.h"
#include "two_addresses.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_port_that_is_taken_at_the_first_address_is_an_error_with_that_address),
        cmocka_unit_test(a_port_that_is_taken_at_the_first_own_address_is_an_error_with_that_address),
        cmocka_unit_test(an_address_of_another_host_is_passed_over_for_an_own_one),
        cmocka_unit_test(addresses_of_other_hosts_are_an_error_with_the_last_one),
    };
    char message[128];
    tt_log_configure("none", NULL, message, sizeof(message));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
