/* SPDX-License-Identifier: BSD-3-Clause */
/* The arithmetic of `tutti doctor --job`: rounds of pairs, sizes, the rate of a train, figures of hosts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "cli/doctor_paths.h"

enum { HOSTS = 4 };

static struct tt_paths_host hosts[HOSTS];
static struct tt_path all_paths[HOSTS * HOSTS];
static struct tt_paths paths;

static int setup(void **state)
{
    (void)state;
    memset(hosts, 0, sizeof(hosts));
    memset(all_paths, 0, sizeof(all_paths));
    paths = (struct tt_paths){.rank_count = HOSTS, .host_count = HOSTS, .hosts = hosts, .paths = all_paths};
    return 0;
}

static void every_host_meets_every_other_once(void **state)
{
    (void)state;
    static uint8_t met[65][65];
    for (uint32_t count = 2; count <= 65; count++) {
        memset(met, 0, sizeof(met));
        for (uint32_t round = 0; round < tt_paths_round_count(count); round++) {
            for (uint32_t host = 0; host < count; host++) {
                uint32_t other = tt_paths_partner(count, round, host);
                assert_true(other <= count && other != host);
                if (other < count) {
                    assert_int_equal(tt_paths_partner(count, round, other), host);
                    met[host][other]++;
                }
            }
        }
        for (uint32_t i = 0; i < count; i++) {
            for (uint32_t j = 0; j < count; j++) {
                assert_int_equal(met[i][j], i != j);
            }
        }
    }
    assert_int_equal(tt_paths_round_count(64), 63);
    assert_int_equal(tt_paths_round_count(63), 63);
    assert_int_equal(tt_paths_round_count(1), 0);
    assert_int_equal(tt_paths_partner(1, 0, 0), 1);
}

static void sizes_rise_and_hold_each_interface_s_own(void **state)
{
    (void)state;
    uint32_t sizes[TT_PATHS_SIZE_LIMIT];
    hosts[0].mtu_bytes = 9000;
    hosts[1].mtu_bytes = 1500;
    hosts[2].mtu_bytes = 2044;
    hosts[3].mtu_bytes = 65536;
    uint32_t count = tt_paths_sizes(hosts, HOSTS, sizes);
    assert_int_equal(count, 10);
    for (uint32_t i = 1; i < count; i++) {
        assert_true(sizes[i - 1] < sizes[i]);
    }
    assert_int_equal(sizes[0], 548);
    assert_int_equal(sizes[5], 2016);
    assert_int_equal(sizes[9], 65507);
}

static void many_mtus_do_not_overflow_the_list(void **state)
{
    (void)state;
    static struct tt_paths_host many[TT_PATHS_HOST_LIMIT];
    uint32_t sizes[TT_PATHS_SIZE_LIMIT];
    for (uint32_t i = 0; i < TT_PATHS_HOST_LIMIT; i++) {
        many[i].mtu_bytes = 3000 - i;
    }
    assert_int_equal(tt_paths_sizes(many, TT_PATHS_HOST_LIMIT, sizes), TT_PATHS_SIZE_LIMIT);
}

static void rate_is_that_behind_the_first_quarter(void **state)
{
    (void)state;
    struct tt_arrivals arrivals;
    /* 25 datagrams of 1,000 bytes at once, as from a full bucket; then one every 80 us: 100 Mbit/s. */
    tt_arrivals_init(&arrivals, 100000);
    for (uint64_t i = 0; i < 100; i++) {
        tt_arrivals_add(&arrivals, 1000, i < 25 ? 5000 : 5000 + (i - 24) * 80000);
    }
    assert_int_equal(tt_arrivals_rate_kbit(&arrivals), 100000);
}

static void datagrams_that_come_merged_count_as_one_arrival(void **state)
{
    (void)state;
    struct tt_arrivals arrivals;
    tt_arrivals_init(&arrivals, 100000);
    for (uint64_t i = 0; i < 100; i++) {
        tt_arrivals_add(&arrivals, 1000, 5000 + i / 10 * 800000); /* ten at a time */
    }
    assert_int_equal(tt_arrivals_rate_kbit(&arrivals), 100000);
}

static void train_that_lost_most_of_its_datagrams_still_has_a_rate(void **state)
{
    (void)state;
    struct tt_arrivals arrivals;
    tt_arrivals_init(&arrivals, 10000000);
    for (uint64_t i = 0; i < 1000; i++) {
        tt_arrivals_add(&arrivals, 1000, 5000 + i * 80000);
    }
    assert_int_equal(tt_arrivals_rate_kbit(&arrivals), 100000);
}

static void train_that_comes_at_once_tells_nothing(void **state)
{
    (void)state;
    struct tt_arrivals arrivals;
    tt_arrivals_init(&arrivals, 8000);
    assert_int_equal(tt_arrivals_rate_kbit(&arrivals), 0);
    for (int i = 0; i < 8; i++) {
        tt_arrivals_add(&arrivals, 1000, 5000);
    }
    assert_int_equal(tt_arrivals_rate_kbit(&arrivals), 0);
}

static void trains_grow_eightfold_at_most(void **state)
{
    (void)state;
    assert_int_equal(tt_train_next_bytes(65536, 0, 100000000), 524288);
    assert_int_equal(tt_train_next_bytes(65536, UINT32_MAX, 100000000), 524288);
    assert_int_equal(tt_train_next_bytes(65536, 8000, 100000000), 100000); /* 8 Mbit/s for 100 ms */
    assert_int_equal(tt_train_next_bytes(1000000, 8000, 100000000), 100000);
}

static void host_is_as_fast_as_with_its_best_partner_and_loses_what_all_lose(void **state)
{
    (void)state;
    struct tt_paths_figures figures;
    *tt_paths_at(&paths, 1, 0) =
        (struct tt_path){.rate_kbit = 500, .sent = 1000, .lost = 10, .multicast_tried = true, .multicast_heard = true};
    *tt_paths_at(&paths, 2, 0) =
        (struct tt_path){.rate_kbit = 900, .sent = 3000, .lost = 10, .overflowed = 40, .multicast_tried = true};
    *tt_paths_at(&paths, 0, 1) = (struct tt_path){.rate_kbit = 700, .round_trip_ns = 30, .payload_bytes = 1472};
    *tt_paths_at(&paths, 0, 2) = (struct tt_path){.round_trip_ns = 10, .payload_bytes = 8972};
    *tt_paths_at(&paths, 0, 3) = (struct tt_path){.round_trip_ns = 20};
    tt_paths_figure(&paths, 0, &figures);
    assert_int_equal(figures.rate_in_kbit, 900);
    assert_int_equal(figures.rate_out_kbit, 700);
    assert_int_equal(figures.loss_in_ppm, 5000);
    assert_int_equal(figures.overflow_ppm, 10000);
    assert_int_equal(figures.sent_out, 0);
    assert_int_equal(figures.heard, 1);
    assert_int_equal(figures.heard_of, 2);
    assert_int_equal(figures.payload_bytes, 8972);
    assert_int_equal(figures.round_trip_ns, 20);
}

static void slow_paths_are_doubtful_and_fast_ones_are_not(void **state)
{
    (void)state;
    struct tt_paths_pair pairs[HOSTS * HOSTS];
    for (uint32_t from = 0; from < HOSTS; from++) {
        for (uint32_t to = 0; to < HOSTS; to++) {
            *tt_paths_at(&paths, from, to) =
                (struct tt_path){.measured = from != to, .rate_kbit = from != to ? 1000 : 0};
        }
    }
    assert_int_equal(tt_paths_doubtful(&paths, pairs, HOSTS * HOSTS), 0);
    tt_paths_at(&paths, 1, 2)->rate_kbit = 919;
    tt_paths_at(&paths, 3, 0)->rate_kbit = 921;
    assert_int_equal(tt_paths_doubtful(&paths, pairs, HOSTS * HOSTS), 1);
    assert_int_equal(pairs[0].from, 1);
    assert_int_equal(pairs[0].to, 2);
    tt_paths_at(&paths, 0, 2)->rate_kbit = 0; /* measured, but nothing came */
    assert_int_equal(tt_paths_doubtful(&paths, pairs, HOSTS * HOSTS), 2);
    assert_int_equal(tt_paths_doubtful(&paths, pairs, 1), 1);
}

static void host_is_cut_off_if_none_of_several_answers(void **state)
{
    (void)state;
    for (uint32_t other = 1; other < HOSTS; other++) {
        tt_paths_at(&paths, 0, other)->tried = true;
        tt_paths_at(&paths, other, 0)->tried = other < 3;
    }
    assert_true(tt_paths_is_cut_off(&paths, 0, 2));
    assert_false(tt_paths_is_cut_off(&paths, 0, 3)); /* one direction of the third was not tried */
    assert_false(tt_paths_is_cut_off(&paths, 1, 2));
    *tt_paths_at(&paths, 0, 2) = (struct tt_path){.tried = true, .round_trip_ns = 1, .payload_bytes = 548};
    assert_true(tt_paths_is_cut_off(&paths, 0, 2)); /* one way is not enough */
    *tt_paths_at(&paths, 2, 0) = (struct tt_path){.tried = true, .round_trip_ns = 1, .payload_bytes = 548};
    assert_false(tt_paths_is_cut_off(&paths, 0, 2));
}

static void medians_take_the_lower_or_the_upper_of_two(void **state)
{
    (void)state;
    uint32_t values[] = {9, 1, 5, 3};
    assert_int_equal(tt_paths_median(values, 4), 3);
    assert_int_equal(tt_paths_upper_median(values, 4), 5);
    assert_int_equal(tt_paths_median(values, 3), 3);
    assert_int_equal(tt_paths_upper_median(values, 3), 3);
    assert_int_equal(tt_paths_median(values, 0), 0);
    assert_int_equal(tt_paths_upper_median(values, 0), 0);
    assert_int_equal(tt_paths_ppm(1, 3), 333333);
    assert_int_equal(tt_paths_ppm(0, 0), 0);
}

static void ipv6_address_is_written_in_brackets_before_its_port(void **state)
{
    (void)state;
    char text[TT_PATHS_PEER_TEXT_BYTES], name[256];
    assert_false(tt_paths_peer_text("node17", 29500, text));
    assert_string_equal(text, "node17:29500");
    assert_false(tt_paths_peer_text("10.84.7.1", 1, text));
    assert_string_equal(text, "10.84.7.1:1");
    assert_true(tt_paths_peer_text("fd00::1", 29500, text));
    assert_string_equal(text, "[fd00::1]:29500");
    assert_true(tt_paths_peer_text("fe80::1%eth0", 29500, text));
    assert_string_equal(text, "[fe80::1%eth0]:29500");
    assert_true(tt_paths_peer_text("[fd00::1]", 29500, text));
    assert_string_equal(text, "[fd00::1]:29500");
    memset(name, ':', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    assert_true(tt_paths_peer_text(name, 65535, text));
    assert_string_equal(text + strlen(text) - strlen(":]:65535"), ":]:65535");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_host_meets_every_other_once),
        cmocka_unit_test_setup(sizes_rise_and_hold_each_interface_s_own, setup),
        cmocka_unit_test(many_mtus_do_not_overflow_the_list),
        cmocka_unit_test(rate_is_that_behind_the_first_quarter),
        cmocka_unit_test(datagrams_that_come_merged_count_as_one_arrival),
        cmocka_unit_test(train_that_lost_most_of_its_datagrams_still_has_a_rate),
        cmocka_unit_test(train_that_comes_at_once_tells_nothing),
        cmocka_unit_test(trains_grow_eightfold_at_most),
        cmocka_unit_test_setup(host_is_as_fast_as_with_its_best_partner_and_loses_what_all_lose, setup),
        cmocka_unit_test_setup(slow_paths_are_doubtful_and_fast_ones_are_not, setup),
        cmocka_unit_test_setup(host_is_cut_off_if_none_of_several_answers, setup),
        cmocka_unit_test(medians_take_the_lower_or_the_upper_of_two),
        cmocka_unit_test(ipv6_address_is_written_in_brackets_before_its_port),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
