/* SPDX-License-Identifier: BSD-3-Clause */
/* Which multicast provider TUTTI_MCAST=auto means, and whether there is multicast: functions of what all ranks said, so
 * that all take the same. */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/locality.h"

enum { RANKS = 3, ETHERNET = 0, FABRIC };

static struct tt_locality all[RANKS];

/* Three hosts on two networks, 10.1.0.0/24 of Ethernet and 10.2.0.0/24 of RDMA devices; rank 0's first is Ethernet. */
static int set_up(void **state)
{
    (void)state;
    memset(all, 0, sizeof all);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        all[rank].host = 100 + rank;
        all[rank].net_count = 2;
        all[rank].nets[ETHERNET].ip = tt_ip_from_ipv4(htonl(0x0A010001 + rank));
        all[rank].nets[FABRIC].ip = tt_ip_from_ipv4(htonl(0x0A020001 + rank));
        all[rank].nets[ETHERNET].prefix_bits = all[rank].nets[FABRIC].prefix_bits = 24;
        all[rank].nets[FABRIC].verbs = 1;
    }
    return 0;
}

static bool has_verbs(void)
{
    return tt_locality_has_verbs(all, sizeof(all[0]), RANKS);
}

static void swap_networks(uint32_t rank)
{
    struct tt_locality copy = all[rank];
    all[rank].nets[0] = copy.nets[1];
    all[rank].nets[1] = copy.nets[0];
}

static void the_network_that_all_would_choose_decides(void **state)
{
    (void)state;
    assert_false(has_verbs()); /* Ethernet comes first */
    swap_networks(0);
    assert_true(has_verbs());
    swap_networks(2); /* only rank 0's order counts */
    assert_true(has_verbs());
}

/* A peer's bytes: no shift by less than nothing, and no network. */
static void a_prefix_longer_than_an_address_is_no_network(void **state)
{
    static const uint8_t longer[] = {33, 56, 64, 255}; /* 56: what shifts by its remainder of 32 takes it for 24 */

    (void)state;
    swap_networks(0);
    for (size_t i = 0; i < sizeof longer; i++) {
        for (uint32_t rank = 0; rank < RANKS; rank++) {
            all[rank].nets[rank == 0 ? 0 : FABRIC].prefix_bits = longer[i];
        }
        assert_false(has_verbs());
    }
}

static void one_rank_without_a_device_there_is_enough_for_udp(void **state)
{
    (void)state;
    swap_networks(0);
    for (uint32_t rank = 1; rank < RANKS; rank++) {
        all[rank].nets[FABRIC].verbs = 0;
        assert_false(has_verbs());
        all[rank].nets[FABRIC].verbs = 1;
    }
    all[1].net_count = 1; /* no address in the fabric at all: then Ethernet is what all have */
    assert_false(has_verbs());
}

static void ranks_of_one_host_use_loopback_and_udp(void **state)
{
    (void)state;
    swap_networks(0);
    all[1].host = all[2].host = all[0].host;
    assert_false(has_verbs());
}

static void an_interface_that_is_named_counts_instead(void **state)
{
    (void)state;
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        all[rank].host = 100; /* and also on one host */
        all[rank].chosen = 7;
        all[rank].chosen_verbs = 1;
    }
    assert_true(has_verbs());
    all[2].chosen_verbs = 0;
    assert_false(has_verbs());
    all[2].chosen_verbs = 1;
    all[1].chosen = 0; /* it does not name one, and uses loopback */
    assert_false(has_verbs());
}

/* --- The flag MULTICAST ------------------------------------------------------------------------------------------- */

static uint32_t without_multicast(void)
{
    return tt_locality_without_multicast(all, sizeof(all[0]), RANKS);
}

static void set_flags(uint32_t net, uint32_t multicast)
{
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        all[rank].nets[net].multicast = multicast;
    }
}

static void the_network_with_multicast_is_taken_and_else_one_without(void **state)
{
    (void)state;
    assert_int_equal(without_multicast(), 0); /* nobody has the flag */
    set_flags(FABRIC, 1);
    assert_int_equal(without_multicast(), RANKS);
    all[1].nets[FABRIC].multicast = 0; /* no network is left in which all have it: Ethernet is first again */
    assert_int_equal(without_multicast(), 0);
    set_flags(ETHERNET, 1);
    assert_int_equal(without_multicast(), RANKS);
    set_flags(FABRIC, 0);
    assert_int_equal(without_multicast(), RANKS);
    all[2].nets[ETHERNET].multicast = 0;
    assert_int_equal(without_multicast(), 2);
}

static void the_flag_of_a_named_interface_counts(void **state)
{
    (void)state;
    set_flags(ETHERNET, 1);
    all[1].chosen = 7;
    assert_int_equal(without_multicast(), 1);
    all[1].chosen_multicast = 1;
    assert_int_equal(without_multicast(), RANKS);
}

static void loopback_needs_no_flag(void **state)
{
    (void)state;
    all[1].host = all[2].host = all[0].host;
    assert_int_equal(without_multicast(), RANKS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_network_that_all_would_choose_decides, set_up),
        cmocka_unit_test_setup(a_prefix_longer_than_an_address_is_no_network, set_up),
        cmocka_unit_test_setup(one_rank_without_a_device_there_is_enough_for_udp, set_up),
        cmocka_unit_test_setup(ranks_of_one_host_use_loopback_and_udp, set_up),
        cmocka_unit_test_setup(an_interface_that_is_named_counts_instead, set_up),
        cmocka_unit_test_setup(the_network_with_multicast_is_taken_and_else_one_without, set_up),
        cmocka_unit_test_setup(the_flag_of_a_named_interface_counts, set_up),
        cmocka_unit_test_setup(loopback_needs_no_flag, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
