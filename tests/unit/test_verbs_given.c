/* SPDX-License-Identifier: BSD-3-Clause */
/* The setting MGID: what is a multicast GID that a port can use. That one serves: tests/guest/verbs_collectives.sh. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "fabric/verbs/mcast_queue.h"

static const struct tt_verbs_device infiniband = {.name = "mlx5_0", .port = 1};
static const struct tt_verbs_device roce_ipv4 = {.name = "mlx5_1", .port = 1, .roce = true, .gid_is_ipv4 = true};
static const struct tt_verbs_device roce_ipv6 = {.name = "mlx5_2", .port = 1, .roce = true};

static void refused(const struct tt_verbs_device *device, const char *text, const char *reason)
{
    struct tt_verbs_given given;

    assert_int_equal(tt_verbs_given_parse(device, text, &given), TUTTI_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(tt_last_error(), text));
    assert_non_null(strstr(tt_last_error(), reason));
}

static struct tt_verbs_given taken(const struct tt_verbs_device *device, const char *text)
{
    struct tt_verbs_given given;

    assert_int_equal(tt_verbs_given_parse(device, text, &given), TUTTI_OK);
    return given;
}

static void group_and_its_lid_are_read(void **state)
{
    static const uint8_t bytes[16] = {0xFF, 0x12, 0x40, 0x1B, [15] = 1};
    struct tt_verbs_given given = taken(&infiniband, "ff12:401b::1/0xc001");

    (void)state;
    assert_true(given.is_set);
    assert_int_equal(given.lid, 0xC001);
    assert_memory_equal(given.gid.raw, bytes, sizeof bytes);
    assert_true(taken(&roce_ipv6, "ff0e::7").is_set);
    assert_true(taken(&roce_ipv4, "::ffff:239.1.2.3").is_set);
    assert_false(taken(&roce_ipv4, "").is_set);
}

static void what_is_no_group_or_not_the_ports_is_named(void **state)
{
    static const char *const bad[] = {
        "fe80::1",        "::ffff:10.0.0.1", "ff12::1/",
        "ff12::1/0xbfff", "ff12::1/0xffff",  "ff12::1/c001x",
        "239.1.2.3",      "/0xc001",         "ff12:401b:0000:0000:0000:0000:0000:0000:0000:0000:0000:0001"};

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        refused(&infiniband, bad[i], "not a multicast GID");
    }
    refused(&infiniband, "ff12:401b::1", "needs the group's LID");
    refused(&roce_ipv4, "ff0e::7", "is IPv4's");
    refused(&roce_ipv6, "::ffff:239.1.2.3", "is IPv6's");
}

static void path_to_a_given_group_goes_as_far_as_ttl_says_with_the_traffic_class(void **state)
{
    struct tt_verbs_device device = infiniband;
    struct tt_verbs_mcast mcast = {.device = &device, .ttl = 7};
    static struct tt_verbs_queue queue;

    (void)state;
    device.traffic_class = 104;
    device.service_level = 5;
    device.gid_index = 3;
    mcast.given = taken(&device, "ff12:401b::1/0xc001");
    queue.mcast = &mcast;
    assert_int_equal(tt_verbs_given_join(&queue), TUTTI_OK);
    assert_int_equal(queue.membership.path.dlid, 0xC001);
    assert_int_equal(queue.membership.path.sl, 5);
    assert_int_equal(queue.membership.path.port_num, 1);
    assert_true(queue.membership.path.is_global);
    assert_int_equal(queue.membership.path.grh.sgid_index, 3);
    assert_int_equal(queue.membership.path.grh.hop_limit, 7);
    assert_int_equal(queue.membership.path.grh.traffic_class, 104);
    assert_memory_equal(queue.membership.path.grh.dgid.raw, mcast.given.gid.raw, sizeof mcast.given.gid.raw);
    tt_verbs_given_leave(&queue);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(group_and_its_lid_are_read),
        cmocka_unit_test(what_is_no_group_or_not_the_ports_is_named),
        cmocka_unit_test(path_to_a_given_group_goes_as_far_as_ttl_says_with_the_traffic_class),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
