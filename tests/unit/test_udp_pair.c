/* SPDX-License-Identifier: BSD-3-Clause */
/* The udp provider's queues where a subgroup has two members, which send by unicast, and where it has more. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/log.h"
#include "fabric/udp/queue.h"
#include "netns.h"
#include "patience.h"
#include "skip.h"
#include "udp_fixture.h"

static struct tt_udp_queue *udp_of(struct tt_mcast_queue *queue)
{
    return (struct tt_udp_queue *)queue;
}

static struct udp_fixture open_pair(uint32_t chunk_bytes)
{
    struct udp_fixture fixture;

    udp_fixture_open(&fixture, &(struct udp_fixture_options){.chunk_bytes = chunk_bytes, .pair = true});
    return fixture;
}

/* A member of the fixture's subgroup that has not been introduced. */
static struct tt_mcast_queue *attach(const struct udp_fixture *fixture, uint32_t rank)
{
    struct tt_mcast_queue_options options = fixture->options;
    struct tt_mcast_queue *queue = NULL;

    options.rank = rank;
    assert_int_equal(fixture->sending->ops->attach(fixture->sending, &options, &queue), TUTTI_OK);
    return queue;
}

static void post(const struct udp_fixture *fixture, struct tt_mcast_queue *queue, uint32_t first, uint32_t count,
                 uint32_t length_bytes)
{
    struct tt_send_chunk chunks[UDP_FIXTURE_MAX];
    uint64_t deadline_ns = tt_clock_now_ns() + 5 * TT_NS_PER_S * TT_PATIENCE;

    assert_in_range(count, 1, UDP_FIXTURE_MAX);
    for (uint32_t i = 0; i < count; i++) {
        chunks[i] = udp_fixture_chunk(fixture, first + i, length_bytes);
    }
    for (uint32_t accepted = 0; accepted < count;) {
        accepted += queue->ops->post(queue, chunks + accepted, count - accepted);
        assert_in_range(tt_clock_now_ns(), 0, deadline_ns);
    }
}

/* That `count` chunks of this source wait, numbered from `first` on, and no more. */
static void expect(const struct udp_fixture *fixture, struct tt_mcast_queue *queue, uint32_t source, uint32_t first,
                   uint32_t count)
{
    struct tt_receive_chunk chunks[UDP_FIXTURE_MAX];
    uint32_t came = 0;

    for (uint32_t n; (n = queue->ops->poll(queue, chunks, UDP_FIXTURE_MAX)) > 0; came += n) {
        for (uint32_t i = 0; i < n; i++) {
            assert_int_equal(chunks[i].source, source);
            assert_int_equal(chunks[i].imm, first + came + i);
            assert_memory_equal(chunks[i].address, udp_fixture_chunk(fixture, chunks[i].imm, 0).address,
                                chunks[i].length_bytes);
        }
        queue->ops->repost(queue, chunks, n);
    }
    assert_int_equal(came, count);
}

static bool is_quiet(struct tt_mcast_queue *queue)
{
    struct pollfd wait = {.fd = queue->ops->receive_fd(queue), .events = POLLIN};

    return poll(&wait, 1, 0) == 0;
}

static struct sockaddr_in destination_of(struct tt_mcast_queue *queue)
{
    struct sockaddr_in address = {0};
    socklen_t length = sizeof(address);

    assert_int_equal(getpeername(queue->ops->send_fd(queue), (struct sockaddr *)&address, &length), 0);
    return address;
}

static void pair_sends_to_each_other_and_to_nobody_else(void **state)
{
    struct udp_fixture fixture = open_pair(1000);

    (void)state;
    struct sockaddr_in to = destination_of(fixture.sender);
    assert_int_equal(to.sin_addr.s_addr, tt_ip_to_ipv4(fixture.interface.ip));
    assert_int_equal(to.sin_port, udp_of(fixture.receiver)->port_be);
    to = destination_of(fixture.receiver);
    assert_int_equal(to.sin_port, udp_of(fixture.sender)->port_be);
    assert_int_not_equal(fixture.sender->ops->send_fd(fixture.sender),
                         fixture.sender->ops->receive_fd(fixture.sender)); /* epoll knows a number once */
    udp_fixture_close(&fixture);
}

static void group_of_three_multicasts(void **state)
{
    struct udp_fixture fixture;

    (void)state;
    udp_fixture_open(&fixture, &(struct udp_fixture_options){.chunk_bytes = 1000});
    struct tt_mcast_queue *const members[] = {fixture.sender, fixture.receiver, attach(&fixture, 2)};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(udp_fixture_introduce(members[i], members, 3), TUTTI_OK);
        struct sockaddr_in to = destination_of(members[i]);
        assert_int_equal(to.sin_addr.s_addr, fixture.options.address.group_be);
        assert_int_equal(to.sin_port, htons(fixture.options.address.port));
    }
    for (uint32_t i = 0; i < 3; i++) {
        post(&fixture, members[i], 0, 100, 1000);
        expect(&fixture, members[(i + 1) % 3], i, 0, 100);
        expect(&fixture, members[(i + 2) % 3], i, 0, 100);
        expect(&fixture, members[i], i, 0, 0);
    }
    members[2]->ops->detach(members[2]);
    udp_fixture_close(&fixture);
}

static void pair_exchanges_chunks_and_super_packets_both_ways(void **state)
{
    const uint32_t sizes[] = {0, 1, 1024, 1025, 1452, 8192};

    (void)state;
    for (size_t i = 0; i < 2 * sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct udp_fixture fixture;
        struct tt_receive_chunk chunks[UDP_FIXTURE_MAX];
        uint32_t size = sizes[i / 2];
        bool plain = i % 2 != 0;
        udp_fixture_open(&fixture,
                         &(struct udp_fixture_options){
                             .chunk_bytes = 8192, .pair = true, .plain_sender = plain, .plain_receiver = plain});
        for (uint32_t round = 0; round < 50; round++) {
            uint32_t count = round % 2 == 0 ? 1 : 5 * round;
            post(&fixture, fixture.sender, 7, count, size);
            expect(&fixture, fixture.receiver, 0, 7, count);
            post(&fixture, fixture.receiver, 9, count, size);
            expect(&fixture, fixture.sender, 1, 9, count);
            assert_true(is_quiet(fixture.sender) && is_quiet(fixture.receiver));
        }
        /* One message brings as many as a super-packet has. */
        post(&fixture, fixture.receiver, 0, 7, size);
        assert_int_equal(fixture.sender->ops->poll(fixture.sender, chunks, UDP_FIXTURE_MAX), plain ? 1 : 7);
        assert_int_equal(udp_fixture_counters(fixture.sender).drops_own, 0);
        assert_int_equal(udp_fixture_counters(fixture.receiver).send_errors, 0);
        udp_fixture_close(&fixture);
    }
}

/* By a member that nobody has been introduced to. */
static void replace_receiver(struct udp_fixture *fixture, struct tt_mcast_queue *members[2])
{
    fixture->receiver->ops->detach(fixture->receiver);
    fixture->receiver = attach(fixture, 1);
    members[0] = fixture->sender;
    members[1] = fixture->receiver;
}

static void what_was_sent_before_the_introduction_waits(void **state)
{
    struct udp_fixture fixture = open_pair(1000);
    struct tt_receive_chunk chunk;

    (void)state;
    struct tt_mcast_queue *members[2];
    replace_receiver(&fixture, members);
    uint32_t depth = fixture.receiver->ops->depth_chunks(fixture.receiver);
    assert_int_equal(udp_fixture_introduce(fixture.sender, members, 2), TUTTI_OK);
    assert_int_equal(udp_fixture_poll_one(fixture.receiver, &chunk), 0);
    for (uint32_t i = 0; i < depth; i += 50) {
        post(&fixture, fixture.sender, i, depth - i < 50 ? depth - i : 50, 1000);
    }
    assert_int_equal(udp_fixture_poll_one(fixture.receiver, &chunk), 0);
    assert_int_equal(udp_fixture_introduce(fixture.receiver, members, 2), TUTTI_OK);
    assert_false(is_quiet(fixture.receiver));
    expect(&fixture, fixture.receiver, 0, 0, depth);
    udp_fixture_close(&fixture);
}

/* With the same address, port and even key, for which nothing else keeps the datagrams apart. */
static void pair_and_other_members_of_its_subgroup_do_not_hear_each_other(void **state)
{
    struct udp_fixture fixture = open_pair(1000);
    struct tt_mcast_queue *others[UDP_FIXTURE_RANKS] = {NULL, attach(&fixture, 1), attach(&fixture, 2)};

    (void)state;
    for (int i = 1; i < 3; i++) {
        assert_int_equal(udp_fixture_introduce(others[i], others, 3), TUTTI_OK);
    }
    post(&fixture, fixture.sender, 0, 10, 1000);
    post(&fixture, fixture.receiver, 0, 10, 1000);
    post(&fixture, others[1], 0, 20, 1000);
    expect(&fixture, others[2], 1, 0, 20);
    assert_int_equal(udp_fixture_counters(others[2]).datagrams_received, 20);
    expect(&fixture, others[1], 0, 0, 0);
    expect(&fixture, fixture.sender, 1, 0, 10);
    expect(&fixture, fixture.receiver, 0, 0, 10);
    assert_int_equal(udp_fixture_counters(fixture.sender).datagrams_received, 10);
    assert_int_equal(udp_fixture_counters(fixture.receiver).datagrams_received, 10);
    others[1]->ops->detach(others[1]);
    others[2]->ops->detach(others[2]);
    udp_fixture_close(&fixture);
}

/* Nothing is said, counted or waited for though every datagram is answered by an error. */
static void expect_no_complaint(struct tt_mcast_queue *queue, uint32_t sent)
{
    assert_int_equal(queue->ops->sent(queue), sent);
    assert_int_equal(udp_fixture_counters(queue).send_errors, 0);
    assert_int_equal(udp_fixture_counters(queue).datagrams_sent, sent);
    assert_false(udp_of(queue)->sender.complained);
    assert_false(udp_of(queue)->receiver.complained);
}

static void peer_that_has_gone_disturbs_nobody(void **state)
{
    struct udp_fixture fixture = open_pair(1500);
    uint32_t sent = 0;

    (void)state;
    post(&fixture, fixture.receiver, 0, 5, 1000);
    fixture.receiver->ops->detach(fixture.receiver);
    fixture.receiver = NULL;
    post(&fixture, fixture.sender, 0, 1, 1000);
    sent++;
    expect(&fixture, fixture.sender, 1, 0, 5); /* which the error does not hide */
    assert_true(is_quiet(fixture.sender));
    for (uint32_t round = 0; round < 300; round++) {
        uint32_t count = round % 3 == 0 ? 1 : round % 100 + 1;
        udp_of(fixture.sender)->sender.segmentation = round % 2 == 0;
        post(&fixture, fixture.sender, 0, count, round % 4 == 0 ? 1500 : 10);
        sent += count;
        if (round % 5 != 0) { /* what is only sent reports no less */
            expect(&fixture, fixture.sender, 1, 0, 0);
            assert_true(is_quiet(fixture.sender));
        }
    }
    expect_no_complaint(fixture.sender, sent);
    udp_fixture_close(&fixture);
}

/* What became of one datagram is told to whoever sends the next, which may be the last for long: no report of it may
 * stay, for which the descriptor would be readable. Short datagrams vanish here without a report. */
static void send_that_is_told_of_a_gone_peer_keeps_no_report(void **state)
{
    const uint32_t posts[][2] = {{1500, 0}, {10, 0}, {10, 10}, {1500, 10}};

    (void)state;
    NETNS_ENTER();
    netns_run("ip link set lo up && nft add table ip t");
    netns_run("nft 'add chain ip t in { type filter hook input priority 0; }'");
    netns_run("nft add rule ip t in udp length '<' 500 drop");
    for (size_t i = 0; i < sizeof(posts) / sizeof(posts[0]); i++) {
        struct udp_fixture fixture = open_pair(1500);
        struct tt_send_chunk chunks[2];
        uint32_t count = posts[i][1] > 0 ? 2 : 1;
        udp_of(fixture.sender)->sender.segmentation = false;
        fixture.receiver->ops->detach(fixture.receiver);
        fixture.receiver = NULL;
        if (posts[i][0] < 1500) {
            post(&fixture, fixture.sender, 0, 1, 1500);
        }
        for (uint32_t c = 0; c < count; c++) {
            chunks[c] = udp_fixture_chunk(&fixture, c, posts[i][c]);
        }
        assert_int_equal(fixture.sender->ops->post(fixture.sender, chunks, count), count);
        assert_int_equal(is_quiet(fixture.sender), posts[i][count - 1] < 1500);
        expect(&fixture, fixture.sender, 1, 0, 0);
        assert_true(is_quiet(fixture.sender));
        expect_no_complaint(fixture.sender, count + (posts[i][0] < 1500));
        udp_fixture_close(&fixture);
    }
}

/* Reports of datagrams that nobody takes keep coming, from a child that sends with the queue's socket. */
static pid_t keep_sending_to_nobody(struct tt_mcast_queue *queue)
{
    int fd = fcntl(queue->ops->send_fd(queue), F_DUPFD_CLOEXEC, 0); /* a child has lost the queue's own */
    pid_t child = fork();

    assert_true(fd >= 0);
    assert_true(child >= 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        while (send(fd, "nobody", 6, MSG_DONTWAIT) >= 0 || errno != EBADF) {
        }
        _exit(1);
    }
    close(fd);
    return child;
}

static void reports_between_chunks_do_not_make_a_queue_dry(void **state)
{
    enum { ROUNDS = 100, COUNT = 200 };
    int ended;

    (void)state;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        struct udp_fixture fixture;
        struct tt_receive_chunk chunks[UDP_FIXTURE_MAX];
        uint32_t came = 0;
        udp_fixture_open(&fixture, &(struct udp_fixture_options){
                                       .chunk_bytes = 100, .pair = true, .plain_sender = true, .plain_receiver = true});
        post(&fixture, fixture.receiver, 0, COUNT, 100);
        fixture.receiver->ops->detach(fixture.receiver);
        fixture.receiver = NULL;
        pid_t child = keep_sending_to_nobody(fixture.sender);
        for (uint32_t n = 1; n > 0 && !fixture.sender->dry; came += n) {
            n = fixture.sender->ops->poll(fixture.sender, chunks, TT_MCAST_POLL_LEAST);
            fixture.sender->ops->repost(fixture.sender, chunks, n);
        }
        assert_int_equal(kill(child, SIGKILL), 0);
        assert_int_equal(waitpid(child, &ended, 0), child);
        assert_true(WIFSIGNALED(ended)); /* and has sent until then */
        assert_int_equal(came, COUNT);
        udp_fixture_close(&fixture);
    }
}

static void introduced_again_it_talks_to_the_new_peer(void **state)
{
    struct udp_fixture fixture = open_pair(1000);

    (void)state;
    for (uint32_t round = 0; round < 3; round++) {
        post(&fixture, fixture.receiver, 0, 3, 1000);
        fixture.receiver->ops->detach(fixture.receiver);
        post(&fixture, fixture.sender, 0, 1, 1000); /* an error that the new peer's first datagram meets */
        fixture.receiver = attach(&fixture, 1);
        struct tt_mcast_queue *const members[] = {fixture.sender, fixture.receiver};
        int fd = fixture.sender->ops->receive_fd(fixture.sender);
        assert_int_equal(udp_fixture_introduce(fixture.sender, members, 2), TUTTI_OK);
        assert_int_equal(fixture.sender->ops->receive_fd(fixture.sender), fd);
        post(&fixture, fixture.sender, 100, 1, 1000);
        assert_int_equal(udp_fixture_introduce(fixture.receiver, members, 2), TUTTI_OK);
        expect(&fixture, fixture.receiver, 0, 100, 1);
        expect(&fixture, fixture.sender, 1, 0, 3); /* of the old one */
        assert_true(is_quiet(fixture.sender));
        post(&fixture, fixture.receiver, 50, 70, 1000);
        expect(&fixture, fixture.sender, 1, 50, 70);
    }
    udp_fixture_close(&fixture);
}

static void strangers_are_counted_before_the_introduction_and_kept_out_after_it(void **state)
{
    struct udp_fixture fixture = open_pair(1000);
    struct tt_receive_chunk chunk;

    (void)state;
    struct tt_mcast_queue *members[2];
    replace_receiver(&fixture, members);
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_addr.s_addr = tt_ip_to_ipv4(fixture.interface.ip),
                             .sin_port = udp_of(fixture.receiver)->port_be};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&to, sizeof(to)), 0);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(send(fd, "foreign", 7, 0), 7);
    }
    assert_int_equal(udp_fixture_introduce(fixture.sender, members, 2), TUTTI_OK);
    post(&fixture, fixture.sender, 0, 2, 1000);
    assert_int_equal(udp_fixture_introduce(fixture.receiver, members, 2), TUTTI_OK);
    expect(&fixture, fixture.receiver, 0, 0, 2);
    assert_int_equal(udp_fixture_counters(fixture.receiver).drops_key, 20);
    assert_int_equal(send(fd, "foreign", 7, 0), 7);
    assert_true(is_quiet(fixture.receiver));
    assert_int_equal(udp_fixture_poll_one(fixture.receiver, &chunk), 0);
    assert_int_equal(udp_fixture_counters(fixture.receiver).drops_key, 20);
    close(fd);
    udp_fixture_close(&fixture);
}

static void names_of_others_are_refused_and_nobody_may_come_later(void **state)
{
    struct udp_fixture fixture = open_pair(1000);
    struct tt_mcast_queue *late = attach(&fixture, 0);
    uint8_t names[3][TT_MCAST_NAME_BYTES] = {{0}};

    (void)state;
    late->ops->describe(late, names[0]);
    memset(names[1], 7, TT_MCAST_NAME_BYTES);
    for (uint32_t size = 2; size <= 3; size++) {
        assert_int_equal(late->ops->introduce(late, names, TT_MCAST_NAME_BYTES, size), TUTTI_ERR_MISMATCH);
        assert_string_equal(tt_last_error(), "rank 1 does not use the multicast provider udp");
    }
    memcpy(names[1], names[0], TT_MCAST_NAME_BYTES);
    assert_int_equal(late->ops->introduce(late, names, TT_MCAST_NAME_BYTES, 2), TUTTI_ERR_MISMATCH);
    assert_non_null(strstr(tt_last_error(), "ranks 0 and 1 have the same address and port"));

    /* What is sent to nobody is lost, and that is all. */
    assert_int_equal(udp_fixture_introduce(late, (struct tt_mcast_queue *const[]){late, NULL}, 2), TUTTI_OK);
    post(&fixture, late, 0, 3, 1000);
    post(&fixture, late, 0, 1, 10);
    expect(&fixture, late, 1, 0, 0);
    assert_int_equal(late->ops->sent(late), 4);
    assert_int_equal(udp_fixture_counters(late).send_errors, 4);
    assert_false(udp_of(late)->sender.complained);
    struct tt_mcast_queue *const members[] = {late, fixture.receiver};
    assert_int_equal(udp_fixture_introduce(fixture.receiver, members, 2), TUTTI_OK);
    post(&fixture, fixture.receiver, 0, 4, 1000); /* sooner than the other one knows */
    assert_int_equal(udp_fixture_introduce(late, members, 2), TUTTI_OK);
    expect(&fixture, late, 1, 0, 4);
    post(&fixture, late, 0, 6, 1000);
    expect(&fixture, fixture.receiver, 0, 0, 6);
    late->ops->detach(late);
    udp_fixture_close(&fixture);
}

/* Whether an IP packet of more than 500 bytes comes out of this end within the time. */
static bool comes_out_of(const char *interface, struct tt_mcast_queue *queue, const struct udp_fixture *fixture)
{
    struct sockaddr_ll end = {
        .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_IP), .sll_ifindex = (int)if_nametoindex(interface)};
    struct pollfd wait = {.fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_IP)), .events = POLLIN};
    uint8_t bytes[2000];
    bool came = false;

    assert_true(wait.fd >= 0);
    assert_int_equal(bind(wait.fd, (const struct sockaddr *)&end, sizeof(end)), 0);
    post(fixture, queue, 0, 1, 1000);
    while (!came && poll(&wait, 1, 1000) == 1) {
        came = recv(wait.fd, bytes, sizeof(bytes), 0) > 500;
    }
    close(wait.fd);
    return came;
}

static void unicast_leaves_by_the_interface_of_the_group(void **state)
{
    struct udp_fixture fixture;
    uint8_t names[2][TT_MCAST_NAME_BYTES];
    uint32_t elsewhere_be = inet_addr("10.1.2.99");

    (void)state;
    NETNS_ENTER();
    netns_run("ip link set lo up");
    netns_run("ip link add first type veth peer name there && ip link add here type veth peer name end");
    netns_run("for name in first there here end; do ip link set $name up; done");
    netns_run("ip addr add 10.1.2.1/24 dev first && ip addr add 10.1.2.2/24 dev here"); /* a route prefers the first */
    netns_run("for name in first here; do ip neigh add 10.1.2.99 lladdr 02:00:00:00:00:63 dev $name; done");
    netns_await_carrier("here");
    netns_await_carrier("first");
    udp_fixture_open(&fixture, &(struct udp_fixture_options){.interface = "here", .chunk_bytes = 1000, .pair = true});
    fixture.sender->ops->describe(fixture.sender, names[0]);
    fixture.receiver->ops->describe(fixture.receiver, names[1]);
    memcpy(names[1], &elsewhere_be, sizeof(elsewhere_be)); /* where a name has the address */
    assert_int_equal(fixture.sender->ops->introduce(fixture.sender, names, TT_MCAST_NAME_BYTES, 2), TUTTI_OK);
    assert_true(comes_out_of("end", fixture.sender, &fixture));
    udp_fixture_close(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pair_sends_to_each_other_and_to_nobody_else),
        cmocka_unit_test(group_of_three_multicasts),
        cmocka_unit_test(pair_exchanges_chunks_and_super_packets_both_ways),
        cmocka_unit_test(what_was_sent_before_the_introduction_waits),
        cmocka_unit_test(pair_and_other_members_of_its_subgroup_do_not_hear_each_other),
        cmocka_unit_test(peer_that_has_gone_disturbs_nobody),
        cmocka_unit_test_teardown(send_that_is_told_of_a_gone_peer_keeps_no_report, netns_leave),
        cmocka_unit_test(reports_between_chunks_do_not_make_a_queue_dry),
        cmocka_unit_test(introduced_again_it_talks_to_the_new_peer),
        cmocka_unit_test(strangers_are_counted_before_the_introduction_and_kept_out_after_it),
        cmocka_unit_test(names_of_others_are_refused_and_nobody_may_come_later),
        cmocka_unit_test_teardown(unicast_leaves_by_the_interface_of_the_group, netns_leave),
    };
    tt_log_configure("none", NULL, (char[64]){0}, 64);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
