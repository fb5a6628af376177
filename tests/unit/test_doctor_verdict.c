/* SPDX-License-Identifier: BSD-3-Clause */
/* What `tutti doctor --job` says of a job's hosts: who is named, for what, and how badly it is taken. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "cli/doctor_job.h"

enum { MOST = 12 };

static struct tt_paths_host hosts[MOST];
static struct tt_path all_paths[MOST * MOST];
static struct tt_paths paths;
static struct tt_findings findings;

/* So many hosts between which all is well. */
static void make(uint32_t host_count)
{
    memset(hosts, 0, sizeof(hosts));
    memset(all_paths, 0, sizeof(all_paths));
    memset(&findings, 0, sizeof(findings));
    paths = (struct tt_paths){.rank_count = host_count,
                              .host_count = host_count,
                              .group_multicast = true,
                              .hosts = hosts,
                              .paths = all_paths};
    for (uint32_t i = 0; i < host_count; i++) {
        hosts[i] =
            (struct tt_paths_host){.rank = i, .rank_count = 1, .mtu_bytes = 9000, .multicast = 1, .interface = "eth0"};
        snprintf(hosts[i].name, sizeof(hosts[i].name), "n%u", i);
        for (uint32_t j = 0; j < host_count; j++) {
            if (i != j) {
                *tt_paths_at(&paths, i, j) = (struct tt_path){.tried = true,
                                                              .measured = true,
                                                              .multicast_tried = true,
                                                              .multicast_heard = true,
                                                              .round_trip_ns = 20000,
                                                              .payload_bytes = 8972,
                                                              .rate_kbit = 1000000,
                                                              .sent = 2000};
            }
        }
    }
}

/* Something for every path from a host, and for every one to it. */
#define FOR_PATHS_FROM(host, path)                                                                                     \
    for (uint32_t to_ = 0; to_ < paths.host_count; to_++)                                                              \
        for (struct tt_path *path = tt_paths_at(&paths, host, to_); path != NULL && to_ != (host); path = NULL)
#define FOR_PATHS_TO(host, path)                                                                                       \
    for (uint32_t from_ = 0; from_ < paths.host_count; from_++)                                                        \
        for (struct tt_path *path = tt_paths_at(&paths, from_, host); path != NULL && from_ != (host); path = NULL)

static void contains(const char *text, const char *words)
{
    assert_non_null(strstr(text, words));
}

/* There must be just one finding: of this check, about this subject, with this verdict, with these words, and advice.
 */
static void assert_one(const char *check, enum tt_verdict verdict, const char *subject, const char *words)
{
    tt_doctor_judge_paths(&paths, &findings);
    for (size_t i = 0; i < findings.count; i++) {
        print_message("%s of %s: %s\n", findings.items[i].check, findings.items[i].subject, findings.items[i].found);
    }
    assert_int_equal(findings.count, 1);
    assert_string_equal(findings.items[0].check, check);
    assert_string_equal(findings.items[0].subject, subject);
    assert_int_equal(findings.items[0].verdict, verdict);
    assert_int_equal(findings.worst, verdict);
    assert_non_null(strstr(findings.items[0].found, words));
    assert_true(findings.items[0].advice[0] != '\0');
}

static void nothing_is_said_where_all_is_well(void **state)
{
    (void)state;
    for (uint32_t count = 1; count <= MOST; count++) {
        make(count);
        tt_doctor_judge_paths(&paths, &findings);
        assert_int_equal(findings.count, 0);
        assert_int_equal(findings.worst, TT_VERDICT_OK);
    }
}

static void slow_host_is_named_and_its_partners_are_not(void **state)
{
    (void)state;
    for (uint32_t count = 3; count <= MOST; count++) {
        make(count);
        FOR_PATHS_FROM(2, path)
        {
            path->rate_kbit = 100000;
        }
        FOR_PATHS_TO(2, path)
        {
            path->rate_kbit = 100000;
        }
        assert_one("rate", TT_VERDICT_WARN, "n2 (rank 2)", "100.0 Mbit/s out and 100.0 in; the median is 1000 out");
    }
}

static void host_that_is_slow_one_way_is_named(void **state)
{
    (void)state;
    make(4);
    FOR_PATHS_TO(1, path)
    {
        path->rate_kbit = 899000;
    }
    assert_one("rate", TT_VERDICT_WARN, "n1 (rank 1)", "1000 Mbit/s out and 899.0 in");
    make(4);
    FOR_PATHS_TO(1, path)
    {
        path->rate_kbit = 901000;
    }
    tt_doctor_judge_paths(&paths, &findings);
    assert_int_equal(findings.count, 0);
}

static void slow_path_between_fast_hosts_is_named_as_a_pair(void **state)
{
    (void)state;
    make(4);
    tt_paths_at(&paths, 3, 1)->rate_kbit = 700000;
    assert_one("rate", TT_VERDICT_WARN, "n3 (rank 3) to n1 (rank 1)", "700.0 Mbit/s, both do 1000");
}

static void two_hosts_are_compared_one_way_with_the_other(void **state)
{
    (void)state;
    make(2);
    tt_paths_at(&paths, 1, 0)->rate_kbit = 500000;
    assert_one("rate", TT_VERDICT_WARN, "n1 (rank 1) to n0 (rank 0)", "500.0 Mbit/s, 1000 the other way");
}

static void ranks_of_one_host_are_not_compared(void **state)
{
    (void)state;
    make(4);
    paths.one_host = true;
    FOR_PATHS_FROM(2, path)
    {
        path->rate_kbit = 100000;
    }
    tt_doctor_judge_paths(&paths, &findings);
    assert_int_equal(findings.count, 0);
}

static void lossy_host_is_named_by_direction(void **state)
{
    (void)state;
    for (uint32_t count = 3; count <= MOST; count++) {
        make(count);
        FOR_PATHS_TO(1, path)
        {
            path->lost = 20;
        }
        assert_one("loss", TT_VERDICT_WARN, "n1 (rank 1)", "10000 ppm of what is sent to it");
        make(count);
        FOR_PATHS_FROM(1, path)
        {
            path->lost = 300;
        }
        assert_one("loss", TT_VERDICT_FAIL, "n1 (rank 1)", "150000 ppm of what it sends");
    }
}

static void lossy_pair_and_lossy_network_are_told_apart(void **state)
{
    (void)state;
    make(5);
    tt_paths_at(&paths, 0, 4)->lost = 20;
    assert_one("loss", TT_VERDICT_WARN, "n0 (rank 0) to n4 (rank 4)", "20 of 2000");
    make(5);
    for (uint32_t host = 0; host < 5; host++) {
        FOR_PATHS_TO(host, path)
        {
            path->lost = 2 + host;
        }
    }
    assert_one("loss", TT_VERDICT_WARN, "", "5 of 5 hosts are lost, 1000 to 3000 ppm");
}

/* Each path is the only one of its two hosts that loses, and the ninth is the worst. */
static void of_lossy_paths_that_are_not_named_the_worst_counts(void **state)
{
    static const uint32_t from[] = {0, 1, 2, 3, 4, 5, 6, 7, 8}, to[] = {6, 7, 8, 9, 10, 11, 0, 1, 2};

    (void)state;
    make(12);
    for (uint32_t i = 0; i < 9; i++) {
        tt_paths_at(&paths, from[i], to[i])->lost = i < 8 ? 3 : 1000;
    }
    tt_doctor_judge_paths(&paths, &findings);
    assert_int_equal(findings.count, 9);
    assert_non_null(strstr(findings.items[8].found, "1 more pairs"));
    assert_int_equal(findings.items[8].verdict, TT_VERDICT_FAIL);
    assert_int_equal(findings.worst, TT_VERDICT_FAIL);
}

/* All to one host lose something, and one of them nearly a third. */
static void a_path_that_is_worse_than_its_host_is_named_too(void **state)
{
    (void)state;
    make(5);
    tt_paths_at(&paths, 0, 4)->lost = 600;
    tt_paths_at(&paths, 1, 4)->lost = tt_paths_at(&paths, 2, 4)->lost = 4;
    tt_doctor_judge_paths(&paths, &findings);
    assert_int_equal(findings.count, 2);
    assert_string_equal(findings.items[0].subject, "n0 (rank 0) to n4 (rank 4)");
    assert_int_equal(findings.items[0].verdict, TT_VERDICT_FAIL);
    assert_string_equal(findings.items[1].subject, "n4 (rank 4)");
    assert_int_equal(findings.items[1].verdict, TT_VERDICT_WARN);
}

static void one_lost_datagram_is_no_finding(void **state)
{
    (void)state;
    make(4);
    tt_paths_at(&paths, 0, 3)->lost = 2;
    tt_doctor_judge_paths(&paths, &findings);
    assert_int_equal(findings.count, 0);
}

static void full_socket_is_not_the_network_s_loss(void **state)
{
    (void)state;
    make(4);
    FOR_PATHS_TO(3, path)
    {
        path->overflowed = 100;
    }
    assert_one("receive buffer", TT_VERDICT_WARN, "n3 (rank 3)", "50000 ppm");
}

static void deaf_host_is_named_with_whom_it_does_not_hear(void **state)
{
    (void)state;
    make(4);
    FOR_PATHS_TO(1, path)
    {
        path->multicast_heard = false;
    }
    assert_one("multicast", TT_VERDICT_FAIL, "n1 (rank 1)", "none of the others: not of n0 (rank 0), n2 (rank 2), n3");
    make(4);
    tt_paths_at(&paths, 2, 1)->multicast_heard = false;
    assert_one("multicast", TT_VERDICT_FAIL, "n1 (rank 1)", "does not hear the multicast of n2 (rank 2)");
}

static void mute_host_is_named_once(void **state)
{
    (void)state;
    make(4);
    FOR_PATHS_FROM(3, path)
    {
        path->multicast_heard = false;
    }
    assert_one("multicast", TT_VERDICT_FAIL, "n3 (rank 3)", "none of the others hears its multicast");
}

static void network_without_multicast_is_one_finding(void **state)
{
    (void)state;
    make(4);
    for (uint32_t host = 0; host < 4; host++) {
        FOR_PATHS_TO(host, path)
        {
            path->multicast_heard = false;
        }
    }
    assert_one("multicast", TT_VERDICT_FAIL, "", "no host hears another one's");
}

static void group_that_does_without_multicast_for_no_reason_is_said(void **state)
{
    (void)state;
    make(4);
    paths.group_multicast = false;
    assert_one("multicast", TT_VERDICT_WARN, "", "the job's own group does without");
}

static void interface_with_another_mtu_is_named(void **state)
{
    (void)state;
    make(4);
    hosts[1].mtu_bytes = 1500;
    FOR_PATHS_FROM(1, path)
    {
        path->payload_bytes = 1472;
    }
    FOR_PATHS_TO(1, path)
    {
        path->payload_bytes = 1472;
    }
    assert_one("MTU", TT_VERDICT_WARN, "n1 (rank 1)", "its interface has 1500, those of 3 of 4 hosts have 9000");
}

static void port_that_swallows_large_packets_is_named(void **state)
{
    (void)state;
    make(4);
    FOR_PATHS_TO(3, path)
    {
        path->payload_bytes = 1472;
    }
    FOR_PATHS_FROM(3, path)
    {
        path->payload_bytes = 1472;
    }
    assert_one("MTU", TT_VERDICT_FAIL, "n3 (rank 3)", "at most 1500 bytes pass, but its interface has MTU 9000");
    assert_non_null(strstr(findings.items[0].advice, "mtu 1500"));
    make(4);
    tt_paths_at(&paths, 0, 3)->payload_bytes = 4052;
    assert_one("MTU", TT_VERDICT_FAIL, "n0 (rank 0) to n3 (rank 3)", "at most 4080 bytes");
    make(3);
    for (uint32_t host = 0; host < 3; host++) {
        FOR_PATHS_TO(host, path)
        {
            path->payload_bytes = 1472;
        }
    }
    assert_one("MTU", TT_VERDICT_FAIL, "", "at most 1500 bytes pass, less than the interfaces'");
}

/* The advice must hold these words, and not the MTU that the interfaces have already. */
static void assert_advice(const char *words)
{
    print_message("%s\n", findings.items[0].advice);
    assert_non_null(strstr(findings.items[0].advice, words));
    assert_null(strstr(findings.items[0].advice, "mtu 9000"));
}

static void large_packets_that_vanish_one_way_are_said_with_the_way(void **state)
{
    (void)state;
    for (uint32_t count = 3; count <= MOST; count++) {
        make(count);
        FOR_PATHS_TO(1, path)
        {
            path->payload_bytes = 1472;
        }
        assert_one("MTU", TT_VERDICT_FAIL, "n1 (rank 1)",
                   "to it packets of at most 1500 bytes pass, from it up to 9000");
        assert_advice("a packet filter that drops long packets this way");
        assert_advice("`ip link set eth0 mtu 1500` at n1 (rank 1)");
        make(count);
        FOR_PATHS_FROM(1, path)
        {
            path->payload_bytes = 1472;
        }
        assert_one("MTU", TT_VERDICT_FAIL, "n1 (rank 1)",
                   "from it packets of at most 1500 bytes pass, to it up to 9000");
    }
    make(2);
    tt_paths_at(&paths, 0, 1)->payload_bytes = 1472;
    assert_one("MTU", TT_VERDICT_FAIL, "n0 (rank 0) to n1 (rank 1)",
               "packets of at most 1500 bytes pass, less than the interfaces' 9000; the other way up to 9000");
    assert_advice("a packet filter that drops long packets this way");
}

static void smaller_of_two_sizes_that_pass_is_said_with_its_way(void **state)
{
    (void)state;
    make(4);
    FOR_PATHS_TO(1, path)
    {
        path->payload_bytes = 1472;
    }
    FOR_PATHS_FROM(1, path)
    {
        path->payload_bytes = 4052;
    }
    assert_one("MTU", TT_VERDICT_FAIL, "n1 (rank 1)", "to it packets of at most 1500 bytes pass, from it up to 4080");
    assert_advice("`ip link set eth0 mtu 1500` at the hosts");
    make(2);
    tt_paths_at(&paths, 0, 1)->payload_bytes = 1472;
    tt_paths_at(&paths, 1, 0)->payload_bytes = 4052;
    assert_one("MTU", TT_VERDICT_FAIL, "",
               "at most 4080 bytes pass, less than the interfaces' 9000; n0 (rank 0) to n1 (rank 1) at most 1500");
    assert_advice("`ip link set eth0 mtu 1500` at the hosts");
}

static void host_without_udp_is_named_once(void **state)
{
    (void)state;
    make(4);
    FOR_PATHS_TO(2, path)
    {
        *path = (struct tt_path){.tried = true, .multicast_tried = true, .multicast_heard = true};
    }
    FOR_PATHS_FROM(2, path)
    {
        *path = (struct tt_path){.tried = true, .multicast_tried = true, .multicast_heard = true};
    }
    assert_one("reach", TT_VERDICT_FAIL, "n2 (rank 2)", "with none of the others");
    make(4);
    tt_paths_at(&paths, 0, 1)->round_trip_ns = 0;
    assert_one("reach", TT_VERDICT_FAIL, "n0 (rank 0) and n1 (rank 1)", "does not get through, neither way");
}

static void what_gets_through_at_times_is_lost_and_not_kept_out(void **state)
{
    (void)state;
    make(4);
    tt_paths_at(&paths, 0, 1)->arrived = tt_paths_at(&paths, 1, 0)->arrived = true;
    tt_paths_at(&paths, 0, 1)->payload_bytes = 0;
    assert_one("reach", TT_VERDICT_FAIL, "n0 (rank 0) and n1 (rank 1)",
               "gets through both ways, but of the datagrams of all lengths that are tried next none is answered");
    assert_advice("`ip -s link`");
    make(4);
    tt_paths_at(&paths, 0, 1)->arrived = tt_paths_at(&paths, 1, 0)->arrived = true;
    tt_paths_at(&paths, 0, 1)->round_trip_ns = 0;
    assert_one("reach", TT_VERDICT_FAIL, "n0 (rank 0) and n1 (rank 1)",
               "gets through both ways, but so much is lost that one waits in vain for an answer");
    assert_advice("`ip -s link`");
}

/* What is said of a check, subject, sentence and advice in one; "" if nothing is. */
static const char *said_of(const char *check)
{
    static char text[sizeof(struct tt_finding) + 8];
    text[0] = '\0';
    for (size_t i = 0; i < findings.count; i++) {
        const struct tt_finding *finding = &findings.items[i];
        if (strcmp(finding->check, check) == 0 && finding->verdict != TT_VERDICT_OK) {
            snprintf(text, sizeof(text), "%s: %s: %s", finding->subject, finding->found, finding->advice);
        }
    }
    print_message("%s\n", text);
    return text;
}

static void make_namesakes(void)
{
    make(2);
    paths.rankless = true;
    for (uint32_t host = 0; host < 2; host++) {
        struct tt_path *path = tt_paths_at(&paths, host, 1 - host);
        hosts[host].rankless = 1;
        hosts[host].address_be = htonl(0x0a540701 + host);
        hosts[host].first_port = 47000;
        hosts[host].last_port = 49999;
        snprintf(hosts[host].name, sizeof(hosts[host].name), "vm");
        path->arrived = true;
        path->tcp[0] = TT_KNOCK_OPEN;
        path->tcp_port[0] = 47000;
    }
}

static void two_hosts_of_one_name_are_told_apart_by_their_addresses(void **state)
{
    (void)state;
    make_namesakes();
    tt_paths_at(&paths, 0, 1)->arrived = false;
    tt_paths_at(&paths, 0, 1)->round_trip_ns = 0;
    tt_paths_at(&paths, 1, 0)->tcp[0] = TT_KNOCK_REFUSED;
    hosts[1].last_port = 48000;
    tt_doctor_judge_pair(&paths, &findings);
    contains(said_of("reach"),
             "vm (10.84.7.1) and vm (10.84.7.2): UDP does not get through to vm (10.84.7.2); the other way");
    contains(said_of("reach"), "accept` at vm (10.84.7.2)");
    contains(said_of("TCP"),
             "vm (10.84.7.2) to vm (10.84.7.1): port 47000: refused, though vm (10.84.7.1) listens there");
    contains(said_of("TCP"), "TUTTI_ROOT in at vm (10.84.7.1), for example");
    contains(said_of("settings"), "47000-49999 at vm (10.84.7.1), 47000-48000 at vm (10.84.7.2)");
    make_namesakes();
    tt_paths_at(&paths, 0, 1)->payload_bytes = 1472;
    tt_paths_at(&paths, 1, 0)->rate_kbit = 100000;
    tt_doctor_judge_pair(&paths, &findings);
    contains(said_of("MTU"), "vm (10.84.7.1) to vm (10.84.7.2): packets of at most 1500 bytes pass");
    contains(said_of("rate"), "vm (10.84.7.2) to vm (10.84.7.1): ");
}

static void long_names_leave_room_for_what_is_said(void **state)
{
    (void)state;
    make_namesakes();
    for (uint32_t host = 0; host < 2; host++) {
        hosts[host].address_be = htonl(0xc8c8c8c8 + host);
        snprintf(hosts[host].name, sizeof(hosts[host].name), "a-host-with-a-name-of-40-bytes-or-longer");
        snprintf(hosts[host].interface, sizeof(hosts[host].interface), "an-interface-15");
    }
    for (int i = 0; i < TT_DOCTOR_PORTS; i++) {
        tt_paths_at(&paths, 0, 1)->tcp_port[i] = 47000;
        tt_paths_at(&paths, 0, 1)->tcp[i] = TT_KNOCK_REFUSED;
    }
    tt_paths_at(&paths, 0, 1)->payload_bytes = 1472;
    tt_paths_at(&paths, 0, 1)->udp = TT_KNOCK_SILENT;
    tt_doctor_judge_pair(&paths, &findings);
    contains(said_of("TCP"), "is enough for two ranks: ");
    contains(said_of("TCP"), "47000-49999 accept`");
    contains(said_of("TCP"), " to a-host-with-a-name-of-40-byt (200.200.200.201): ");
    contains(said_of("MTU"), "those of TCP, too");
    tt_paths_at(&paths, 0, 1)->arrived = false;
    tt_paths_at(&paths, 0, 1)->round_trip_ns = 0;
    memset(&findings, 0, sizeof(findings));
    tt_doctor_judge_pair(&paths, &findings);
    contains(said_of("reach"), "accept` at a-host-with-a-name-of-40-byt (200.200.200.201)");
}

static void many_pairs_are_counted_not_listed(void **state)
{
    (void)state;
    make(6);
    for (uint32_t from = 0; from < 6; from++) {
        tt_paths_at(&paths, from, (from + 1) % 6)->rate_kbit = 500000;
        tt_paths_at(&paths, from, (from + 2) % 6)->rate_kbit = 500000;
    }
    tt_doctor_judge_paths(&paths, &findings);
    assert_int_equal(findings.count, 9);
    assert_string_equal(findings.items[8].found, "4 more pairs");
}

static void slow_answers_and_a_limit_that_was_too_short_are_said(void **state)
{
    (void)state;
    make(4);
    FOR_PATHS_FROM(0, path)
    {
        path->round_trip_ns = 2000000;
    }
    assert_one("round trip", TT_VERDICT_WARN, "n0 (rank 0)", "2000 us");
    make(4);
    paths.stopped = true;
    paths.duration_ns = 61000000000;
    assert_one("time", TT_VERDICT_WARN, "", "61 s");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_said_where_all_is_well),
        cmocka_unit_test(slow_host_is_named_and_its_partners_are_not),
        cmocka_unit_test(host_that_is_slow_one_way_is_named),
        cmocka_unit_test(slow_path_between_fast_hosts_is_named_as_a_pair),
        cmocka_unit_test(two_hosts_are_compared_one_way_with_the_other),
        cmocka_unit_test(ranks_of_one_host_are_not_compared),
        cmocka_unit_test(lossy_host_is_named_by_direction),
        cmocka_unit_test(lossy_pair_and_lossy_network_are_told_apart),
        cmocka_unit_test(of_lossy_paths_that_are_not_named_the_worst_counts),
        cmocka_unit_test(a_path_that_is_worse_than_its_host_is_named_too),
        cmocka_unit_test(one_lost_datagram_is_no_finding),
        cmocka_unit_test(full_socket_is_not_the_network_s_loss),
        cmocka_unit_test(deaf_host_is_named_with_whom_it_does_not_hear),
        cmocka_unit_test(mute_host_is_named_once),
        cmocka_unit_test(network_without_multicast_is_one_finding),
        cmocka_unit_test(group_that_does_without_multicast_for_no_reason_is_said),
        cmocka_unit_test(interface_with_another_mtu_is_named),
        cmocka_unit_test(port_that_swallows_large_packets_is_named),
        cmocka_unit_test(large_packets_that_vanish_one_way_are_said_with_the_way),
        cmocka_unit_test(smaller_of_two_sizes_that_pass_is_said_with_its_way),
        cmocka_unit_test(host_without_udp_is_named_once),
        cmocka_unit_test(what_gets_through_at_times_is_lost_and_not_kept_out),
        cmocka_unit_test(two_hosts_of_one_name_are_told_apart_by_their_addresses),
        cmocka_unit_test(long_names_leave_room_for_what_is_said),
        cmocka_unit_test(many_pairs_are_counted_not_listed),
        cmocka_unit_test(slow_answers_and_a_limit_that_was_too_short_are_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
