/* SPDX-License-Identifier: BSD-3-Clause */
/* The udp provider where the system says no: buffers, ports, memberships, devices that are slow, refuse or vanish. */
#include <arpa/inet.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/log.h"
#include "fabric/udp/queue.h"
#include "netns.h"
#include "patience.h"
#include "skip.h"
#include "udp_fixture.h"

/* Sends depth chunks to a queue that is not polled, reads a part, sends as many again. Everything must arrive. */
static void fill_to_depth(const char *interface, bool pair, uint32_t chunk_bytes, bool plain, uint32_t batch)
{
    struct udp_fixture fixture;

    udp_fixture_open(&fixture, &(struct udp_fixture_options){.interface = interface,
                                                             .chunk_bytes = chunk_bytes,
                                                             .receive_buffer_bytes = 512 << 10,
                                                             .pair = pair,
                                                             .plain_sender = plain,
                                                             .plain_receiver = plain});
    uint32_t depth = fixture.receiver->ops->depth_chunks(fixture.receiver);
    assert_in_range(depth, 1, 1 << 20);
    udp_fixture_send(&fixture, 0, depth, chunk_bytes, batch);
    uint32_t number = depth;
    uint32_t waiting = depth;
    /* What has been read is not free at once, see tt_udp_socket_depth. */
    for (uint32_t share = 8; share >= 1; share--) {
        uint32_t part = udp_fixture_drain(&fixture, 64, depth / share, NULL);
        assert_in_range(part, depth / share, depth);
        udp_fixture_send(&fixture, number, part, chunk_bytes, batch);
        number += part;
    }
    uint32_t came = udp_fixture_drain(&fixture, 64, 2 * depth, NULL);
    if (came != waiting) {
        fail_msg("of %u chunks of %u bytes (%s, %u a post) only %u arrived", waiting, chunk_bytes,
                 plain ? "plain" : "super-packets", batch, came);
    }
    udp_fixture_close(&fixture);
}

static void depth_fits_into_the_buffer_of_an_unpolled_queue(void **state)
{
    const uint32_t sizes[] = {0,     1,     64,    100,   500,   560,   561,   562,   564,   565,  566,  600,
                              1000,  1452,  1584,  1600,  2000,  3500,  3700,  4096,  7700,  7744, 7800, 8192,
                              12000, 15800, 15900, 16000, 16384, 20000, 32768, 33000, 50000, 65491};

    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        for (int pair = 0; pair < 2; pair++) {
            fill_to_depth("lo", pair, sizes[i], false, 64);
            fill_to_depth("lo", pair, sizes[i], false, 1);
            fill_to_depth("lo", pair, sizes[i], true, 64);
        }
    }
}

static void depth_fits_into_the_buffer_behind_an_ethernet_device_too(void **state)
{
    const uint32_t sizes[] = {1, 100, 1000, 1452, 2000, 4096, 7744, 8192, 8956};

    (void)state;
    NETNS_ENTER();
    netns_run("ip link add here type veth peer name there && ip link set there mtu 9000 up");
    netns_run("ip link set here mtu 9000 up && ip addr add 10.1.2.3/24 dev here");
    netns_await_carrier("here");
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        fill_to_depth("here", false, sizes[i], false, 64);
        fill_to_depth("here", false, sizes[i], false, 1);
        fill_to_depth("here", false, sizes[i], true, 64);
    }
}

static void depth_grows_with_the_buffer_and_is_never_zero(void **state)
{
    uint32_t previous = 0;

    (void)state;
    for (uint64_t bytes = 1; bytes <= 4 << 20; bytes *= 16) {
        struct udp_fixture fixture;
        udp_fixture_open(&fixture, &(struct udp_fixture_options){.chunk_bytes = 65491, .receive_buffer_bytes = bytes});
        uint32_t depth = fixture.receiver->ops->depth_chunks(fixture.receiver);
        assert_in_range(depth, previous > 0 ? previous : 1, 1000);
        previous = depth;
        udp_fixture_send(&fixture, 0, 1, 65491, 1);
        assert_int_equal(udp_fixture_drain(&fixture, 64, 1, NULL), 1);
        udp_fixture_close(&fixture);
    }
    assert_true(previous > 1);
}

/* That attach fails with this status and a text with these words, and sets nothing. */
static void expect_attach_fails(struct tt_mcast *mcast, const struct tt_mcast_queue_options *options,
                                tutti_status status, const char *words)
{
    struct tt_mcast_queue *const untouched = (struct tt_mcast_queue *)mcast;
    struct tt_mcast_queue *queue = untouched;

    assert_int_equal(mcast->ops->attach(mcast, options, &queue), status);
    assert_ptr_equal(queue, untouched);
    if (strstr(tt_last_error(), words) == NULL) {
        fail_msg("the error is \"%s\", expected \"%s\"", tt_last_error(), words);
    }
}

/* What a queue of the provider holds of such chunks. */
static uint64_t bytes_in_a_queue(const struct tt_interface *interface, uint64_t buffer_bytes, uint32_t chunk_bytes)
{
    struct tt_mcast *mcast = udp_fixture_provider(interface, buffer_bytes, false);
    struct tt_mcast_queue_options options = {.address = udp_fixture_address(), .chunk_bytes = chunk_bytes};
    struct tt_mcast_queue *queue;
    uint64_t bytes;

    assert_int_equal(mcast->ops->attach(mcast, &options, &queue), TUTTI_OK);
    bytes = (uint64_t)mcast->ops->depth_chunks(queue) * chunk_bytes;
    mcast->ops->detach(queue);
    mcast->ops->destroy(mcast);
    return bytes;
}

static void small_buffer_makes_chunks_a_little_shorter_so_that_it_holds_more(void **state)
{
    const struct {
        uint32_t mtu, buffer_bytes, good_bytes;
    } cases[] = {{9000, 212992, 7744},                                                 /* an ordinary user's */
                 {9000, 65536, 7744},  {65536, 212992, 7744}, {9000, 512 << 10, 8192}, /* it holds a window */
                 {4500, 212992, 3648}, {1500, 212992, 1456}, /* shorter ones would be half as long */
                 {8192, 212992, 7744}, {7780, 212992, 7736}, /* they fit */
                 {45, 212992, 1}};
    struct tt_interface interface;

    (void)state;
    assert_int_equal(tt_interface_find("lo", &interface), TUTTI_OK);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct tt_mcast_attributes attributes = udp_fixture_attributes(interface, cases[i].mtu, cases[i].buffer_bytes);

        interface.mtu = cases[i].mtu;
        if (cases[i].good_bytes < 8192 || bytes_in_a_queue(&interface, cases[i].buffer_bytes, 8192) >= 256 << 10) {
            assert_int_equal(attributes.good_chunk_bytes, cases[i].good_bytes);
        } /* else an ordinary user is not granted so much */
    }
    interface.mtu = 9000;
    assert_in_range(bytes_in_a_queue(&interface, 212992, 8192), 128 << 10, 160 << 10);
    assert_in_range(bytes_in_a_queue(&interface, 212992, 7744), 256 << 10, 300 << 10);
}

static void port_of_another_program_is_in_use_and_named(void **state)
{
    struct sockaddr_in any = {.sin_family = AF_INET};
    socklen_t length = sizeof(any);
    struct tt_interface interface;
    struct tt_mcast_queue_options options = {.address = udp_fixture_address(), .chunk_bytes = 100};
    char expected[64];

    (void)state;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&any, sizeof(any)), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&any, &length), 0);
    options.address.port = ntohs(any.sin_port);
    assert_int_equal(tt_interface_find("lo", &interface), TUTTI_OK);
    struct tt_mcast *mcast = udp_fixture_provider(&interface, TT_AUTO, false);
    snprintf(expected, sizeof(expected), "%s:%u on lo (127.0.0.1)",
             inet_ntoa((struct in_addr){options.address.group_be}), options.address.port);
    expect_attach_fails(mcast, &options, TUTTI_ERR_IN_USE, expected);
    close(fd);
    struct tt_mcast_queue *queue = NULL;
    assert_int_equal(mcast->ops->attach(mcast, &options, &queue), TUTTI_OK);
    mcast->ops->detach(queue);
    mcast->ops->destroy(mcast);
}

static void bad_addresses_and_sizes_are_refused(void **state)
{
    struct tt_interface interface;
    struct tt_mcast_queue_options options = {.address = udp_fixture_address(), .chunk_bytes = 1457};

    (void)state;
    assert_int_equal(tt_interface_find("lo", &interface), TUTTI_OK);
    interface.mtu = 1500;
    struct tt_mcast *mcast = udp_fixture_provider(&interface, TT_AUTO, false);
    expect_attach_fails(mcast, &options, TUTTI_ERR_INVALID_ARGUMENT, "1457");
    options.chunk_bytes = 1456;
    options.address.group_be = inet_addr("10.0.0.1");
    expect_attach_fails(mcast, &options, TUTTI_ERR_INVALID_ARGUMENT, "10.0.0.1");
    options.address = udp_fixture_address();
    options.address.port = 0;
    expect_attach_fails(mcast, &options, TUTTI_ERR_INVALID_ARGUMENT, ":0 on lo");
    mcast->ops->destroy(mcast);

    struct tt_interface gone = interface;
    gone.index = 0x7FFFFFF0;
    mcast = udp_fixture_provider(&gone, TT_AUTO, false);
    options.address = udp_fixture_address();
    expect_attach_fails(mcast, &options, TUTTI_ERR_IO, "join: No such device");
    mcast->ops->destroy(mcast);
}

static void bad_provider_options_are_refused_with_their_values(void **state)
{
    struct tt_interface interface;
    struct tt_mcast *mcast = NULL;

    (void)state;
    assert_int_equal(tt_interface_find("lo", &interface), TUTTI_OK);
    const struct tt_udp_options good = {.interface = interface, .receive_buffer_bytes = TT_AUTO, .ttl = 1};
    struct tt_udp_options bad = good;
    bad.ttl = 256;
    assert_int_equal(tt_udp_create(&bad, &mcast), TUTTI_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(tt_last_error(), "256"));
    bad = good;
    bad.receive_buffer_bytes = 0;
    assert_int_equal(tt_udp_create(&bad, &mcast), TUTTI_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(tt_last_error(), "TUTTI_RECEIVE_BUFFER=0"));
    bad.receive_buffer_bytes = UINT64_C(1) << 31;
    assert_int_equal(tt_udp_create(&bad, &mcast), TUTTI_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(tt_last_error(), "TUTTI_RECEIVE_BUFFER=2147483648"));
    bad = good;
    bad.interface.mtu = 44;
    assert_int_equal(tt_udp_create(&bad, &mcast), TUTTI_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(tt_last_error(), "44"));
    assert_null(mcast);
}

static void no_descriptors_left_is_no_resource(void **state)
{
    struct tt_interface interface;
    struct tt_mcast_queue_options options = {.address = udp_fixture_address(), .chunk_bytes = 100};
    struct rlimit before;

    (void)state;
    assert_int_equal(tt_interface_find("lo", &interface), TUTTI_OK);
    struct tt_mcast *mcast = udp_fixture_provider(&interface, TT_AUTO, false);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    int next = dup(0);
    assert_true(next >= 0);
    close(next);
    for (rlim_t room = 0; room < 2; room++) { /* not even the first socket, then not the second */
        struct rlimit tight = {.rlim_cur = (rlim_t)next + room, .rlim_max = before.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &tight), 0);
        expect_attach_fails(mcast, &options, TUTTI_ERR_NO_RESOURCE,
                            "socket: Too many open files (this process may have ");
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    }
    int after = dup(0);
    assert_int_equal(after, next); /* nothing was left open */
    close(after);
    mcast->ops->destroy(mcast);
}

static void too_many_memberships_names_the_limit(void **state)
{
    struct tt_interface interface;
    struct tt_mcast_queue_options options = {.address = udp_fixture_address(), .chunk_bytes = 100};

    (void)state;
    NETNS_ENTER();
    netns_run("ip link set lo up && echo 0 > /proc/sys/net/ipv4/igmp_max_memberships");
    assert_int_equal(tt_interface_find("lo", &interface), TUTTI_OK);
    struct tt_mcast *mcast = udp_fixture_provider(&interface, TT_AUTO, false);
    expect_attach_fails(mcast, &options, TUTTI_ERR_NO_RESOURCE, "net.ipv4.igmp_max_memberships");
    mcast->ops->destroy(mcast);
}

static void refused_super_packets_are_sent_as_single_datagrams(void **state)
{
    struct udp_fixture fixture;
    uint8_t seen[200] = {0};

    (void)state;
    NETNS_ENTER();
    netns_run("ip link set lo up");
    udp_fixture_open(&fixture, &(struct udp_fixture_options){.chunk_bytes = 8000});
    /* A segment must fit the MTU, whereas a datagram is fragmented. */
    netns_run("ip link set lo mtu 1500");
    udp_fixture_send(&fixture, 0, 100, 8000, 50);
    assert_false(((struct tt_udp_queue *)fixture.sender)->sender.segmentation);
    assert_int_equal(udp_fixture_drain(&fixture, 64, 200, seen), 100);
    udp_fixture_send(&fixture, 100, 100, 500, 50);
    assert_int_equal(udp_fixture_drain(&fixture, 64, 200, seen), 100);
    struct tt_mcast_counters counters = udp_fixture_counters(fixture.sender);
    assert_int_equal(counters.datagrams_sent, 200);
    assert_int_equal(counters.send_errors, 0);
    assert_int_equal(fixture.sender->ops->sent(fixture.sender), 200);
    udp_fixture_close(&fixture);
}

static void datagrams_that_cannot_be_sent_are_lost_and_counted(void **state)
{
    struct udp_fixture fixture;

    (void)state;
    NETNS_ENTER();
    netns_run("ip link set lo up");
    udp_fixture_open(&fixture, &(struct udp_fixture_options){.chunk_bytes = 1000});
    netns_run("ip link set lo down");
    udp_fixture_send(&fixture, 0, 300, 1000, 100);
    struct tt_mcast_counters counters = udp_fixture_counters(fixture.sender);
    assert_int_equal(counters.send_errors, 300);
    assert_int_equal(counters.datagrams_sent, 0);
    assert_int_equal(fixture.sender->ops->sent(fixture.sender), 300);
    assert_true(((struct tt_udp_queue *)fixture.sender)->sender.segmentation);
    udp_fixture_close(&fixture);
}

/* Posts until the provider takes no more, at most 16 MiB; returns how many chunks it took. */
static uint32_t post_until_full(struct udp_fixture *fixture)
{
    uint32_t accepted = 0;

    while (accepted < 2048) {
        struct tt_send_chunk chunks[32];
        for (uint32_t i = 0; i < 32; i++) {
            chunks[i] = udp_fixture_chunk(fixture, accepted + i, 8192);
        }
        uint32_t count = fixture->sender->ops->post(fixture->sender, chunks, 32);
        accepted += count;
        if (count < 32) {
            break;
        }
    }
    return accepted;
}

static void slow_device_makes_post_accept_fewer(void **state)
{
    /* First the send buffer is full, then, as the queue of the device is short, that queue. */
    const char *const queues[] = {"tbf rate 100mbit burst 64k limit 64m", "tbf rate 100mbit burst 64k limit 200k"};
    char command[160];

    (void)state;
    NETNS_ENTER();
    netns_run("ip link add here type veth peer name there && ip link set there mtu 9000 up");
    netns_run("ip link set here mtu 9000 up && ip addr add 10.1.2.3/24 dev here");
    netns_await_carrier("here");
    for (int i = 0; i < 2; i++) {
        struct udp_fixture fixture;
        snprintf(command, sizeof(command), "%s tc qdisc add dev here root %s",
                 i > 0 ? "tc qdisc del dev here root &&" : "", queues[i]);
        netns_run(command);
        udp_fixture_open(&fixture, &(struct udp_fixture_options){
                                       .interface = "here", .chunk_bytes = 8192, .receive_buffer_bytes = 32 << 20});
        uint32_t accepted = post_until_full(&fixture);
        assert_in_range(accepted, 7, 2047);
        struct tt_mcast_counters counters = udp_fixture_counters(fixture.sender);
        assert_int_equal(counters.datagrams_sent, accepted);
        assert_int_equal(counters.send_errors, 0);
        assert_int_equal(fixture.sender->ops->sent(fixture.sender), accepted);
        struct pollfd writable = {.fd = fixture.sender->ops->send_fd(fixture.sender), .events = POLLOUT};
        assert_int_equal(poll(&writable, 1, 5000), 1);
        udp_fixture_close(&fixture);
    }
}

static void device_that_claims_to_be_full_for_ever_loses_datagrams_in_bounded_time(void **state)
{
    struct udp_fixture fixture;

    (void)state;
    NETNS_ENTER();
    netns_run("ip link add here type veth peer name there && ip link set there mtu 1500 up");
    netns_run("ip link set here mtu 9000 up && ip addr add 10.1.2.3/24 dev here");
    netns_await_carrier("here");
    udp_fixture_open(&fixture,
                     &(struct udp_fixture_options){.interface = "here", .chunk_bytes = 8192, .plain_sender = true});
    uint64_t start_ns = tt_clock_now_ns();
    udp_fixture_send(&fixture, 0, 500, 8192, 64); /* returns when all are accepted */
    uint64_t elapsed_ns = tt_clock_now_ns() - start_ns;
    assert_in_range(elapsed_ns, 0, 5 * TT_NS_PER_S * TT_PATIENCE);
    struct tt_mcast_counters counters = udp_fixture_counters(fixture.sender);
    assert_int_equal(counters.send_errors + counters.datagrams_sent, 500);
    if (counters.send_errors == 0) {
        print_message("this system's veth drops silently\n");
    }
    udp_fixture_close(&fixture);
}

/* The device's queue is full for longer than it is waited for, once: what follows is as patient as before. */
static void device_that_was_full_for_too_long_is_waited_for_again_once_it_takes_as_much(void **state)
{
    struct udp_fixture fixture;

    (void)state;
    NETNS_ENTER();
    netns_run("ip link add here type veth peer name there && ip link set there mtu 1500 up");
    netns_run("ip link set here mtu 9000 up && ip addr add 10.1.2.3/24 dev here");
    netns_await_carrier("here");
    udp_fixture_open(&fixture,
                     &(struct udp_fixture_options){.interface = "here", .chunk_bytes = 8192, .plain_sender = true});
    const struct tt_udp_sender *sender = &((struct tt_udp_queue *)fixture.sender)->sender;
    udp_fixture_send(&fixture, 0, 10, 8192, 10);
    if (udp_fixture_counters(fixture.sender).send_errors == 0) {
        udp_fixture_close(&fixture);
        print_message("this system's veth drops silently\n");
        skip();
    }
    assert_false(sender->patient);
    udp_fixture_send(&fixture, 10, 10, 1000, 10);
    assert_false(sender->patient);
    netns_run("ip link set there mtu 9000");
    udp_fixture_send(&fixture, 20, 10, 8192, 10);
    assert_true(sender->patient);
    netns_run("tc qdisc add dev here root tbf rate 8mbit burst 16k limit 32k");
    uint64_t errors = udp_fixture_counters(fixture.sender).send_errors;
    udp_fixture_send(&fixture, 30, 10, 8192, 10); /* 8 ms each */
    assert_int_equal(udp_fixture_counters(fixture.sender).send_errors, errors);
    udp_fixture_close(&fixture);
}

static void probe_measures_a_round_trip_on_loopback(void **state)
{
    struct tt_interface interface;
    struct tt_udp_probe probe;

    (void)state;
    assert_int_equal(tt_interface_find("lo", &interface), TUTTI_OK);
    assert_int_equal(tt_udp_probe_loop(&interface, 5000000000, &probe), TUTTI_OK);
    assert_in_range(probe.round_trip_ns, 1, 5000000000);
    assert_null(probe.step);
}

static void probe_names_the_step_that_fails(void **state)
{
    struct tt_interface interface;
    struct tt_udp_probe probe;

    (void)state;
    assert_int_equal(tt_interface_find("lo", &interface), TUTTI_OK);
    interface.index = 0x7FFFFFF0;
    assert_int_equal(tt_udp_probe_loop(&interface, 1000000, &probe), TUTTI_ERR_IO);
    assert_string_equal(probe.step, "join");
    assert_int_equal(probe.error, ENODEV);
    assert_string_equal(tt_last_error(), "multicast on lo (127.0.0.1): join: No such device");
}

static void probe_says_that_nothing_came_back(void **state)
{
    struct tt_interface interface;
    struct tt_udp_probe probe;

    (void)state;
    NETNS_ENTER();
    netns_run("ip link set lo up && nft add table ip probe");
    netns_run("nft 'add chain ip probe in { type filter hook input priority 0; policy drop; }'");
    assert_int_equal(tt_interface_find("lo", &interface), TUTTI_OK);
    assert_int_equal(tt_udp_probe_loop(&interface, 20000000, &probe), TUTTI_ERR_TIMED_OUT);
    assert_string_equal(probe.step, "receive");
    assert_int_equal(probe.error, 0);
    assert_non_null(strstr(tt_last_error(), "nothing came back within 0.020 s"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(depth_fits_into_the_buffer_of_an_unpolled_queue),
        cmocka_unit_test_teardown(depth_fits_into_the_buffer_behind_an_ethernet_device_too, netns_leave),
        cmocka_unit_test(depth_grows_with_the_buffer_and_is_never_zero),
        cmocka_unit_test(small_buffer_makes_chunks_a_little_shorter_so_that_it_holds_more),
        cmocka_unit_test(port_of_another_program_is_in_use_and_named),
        cmocka_unit_test(bad_addresses_and_sizes_are_refused),
        cmocka_unit_test(bad_provider_options_are_refused_with_their_values),
        cmocka_unit_test(no_descriptors_left_is_no_resource),
        cmocka_unit_test_teardown(too_many_memberships_names_the_limit, netns_leave),
        cmocka_unit_test_teardown(refused_super_packets_are_sent_as_single_datagrams, netns_leave),
        cmocka_unit_test_teardown(datagrams_that_cannot_be_sent_are_lost_and_counted, netns_leave),
        cmocka_unit_test_teardown(slow_device_makes_post_accept_fewer, netns_leave),
        cmocka_unit_test_teardown(device_that_claims_to_be_full_for_ever_loses_datagrams_in_bounded_time, netns_leave),
        cmocka_unit_test_teardown(device_that_was_full_for_too_long_is_waited_for_again_once_it_takes_as_much,
                                  netns_leave),
        cmocka_unit_test(probe_measures_a_round_trip_on_loopback),
        cmocka_unit_test(probe_names_the_step_that_fails),
        cmocka_unit_test_teardown(probe_says_that_nothing_came_back, netns_leave),
    };
    tt_log_configure("none", NULL, (char[64]){0}, 64);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
