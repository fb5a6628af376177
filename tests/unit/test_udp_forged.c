/* SPDX-License-Identifier: BSD-3-Clause */
/* Reports of the network on a group's datagrams, which nobody but a stranger sends: multicast is not reported on. */
#include <arpa/inet.h>
#include <netinet/ip.h>
#include <netinet/ip_icmp.h>
#include <netinet/udp.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "fabric/udp/queue.h"
#include "netns.h"
#include "skip.h"
#include "udp_fixture.h"

/* What a router or host would say of a datagram that the queue has sent to its group. */
static void forge_report(struct tt_mcast_queue *queue, uint8_t code)
{
    struct sockaddr_in from = {0}, to = {0};
    socklen_t length = sizeof(from);
    struct {
        struct icmphdr icmp;
        struct iphdr ip;
        struct udphdr udp;
    } report = {.icmp = {.type = ICMP_DEST_UNREACH, .code = code}};
    uint16_t words[sizeof(report) / 2];
    uint32_t sum = 0;
    int fd = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMP);

    assert_true(fd >= 0);
    assert_int_equal(getsockname(queue->ops->send_fd(queue), (struct sockaddr *)&from, &length), 0);
    assert_int_equal(getpeername(queue->ops->send_fd(queue), (struct sockaddr *)&to, &length), 0);
    report.icmp.un.frag.mtu = code == ICMP_FRAG_NEEDED ? htons(UINT16_MAX) : 0;
    report.ip = (struct iphdr){.version = 4,
                               .ihl = 5,
                               .tot_len = htons(1000),
                               .ttl = 1,
                               .protocol = IPPROTO_UDP,
                               .saddr = from.sin_addr.s_addr,
                               .daddr = to.sin_addr.s_addr};
    report.udp = (struct udphdr){.source = from.sin_port, .dest = to.sin_port, .len = htons(980)};
    memcpy(words, &report, sizeof(report));
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        sum += words[i];
    }
    sum = (sum & UINT16_MAX) + (sum >> 16);
    report.icmp.checksum = (uint16_t) ~(sum + (sum >> 16));
    from.sin_port = 0;
    assert_int_equal(sendto(fd, &report, sizeof(report), 0, (struct sockaddr *)&from, sizeof(from)), sizeof(report));
    close(fd);
}

/* It is one packet that anybody can send, against whole batches of chunks, and against super-packets for good. */
static void report_that_somebody_makes_up_costs_a_group_no_chunk(void **state)
{
    const uint8_t codes[] = {ICMP_PORT_UNREACH, ICMP_FRAG_NEEDED, ICMP_PROT_UNREACH};
    struct udp_fixture fixture;
    struct pollfd told;

    (void)state;
    NETNS_ENTER();
    netns_run("ip link set lo up");
    udp_fixture_open(&fixture, &(struct udp_fixture_options){.chunk_bytes = 1000});
    for (uint32_t i = 0; i < 2 * sizeof(codes); i++) {
        uint32_t count = i % 2 == 0 ? 64 : 1;
        forge_report(fixture.sender, codes[i / 2]);
        told = (struct pollfd){.fd = fixture.sender->ops->send_fd(fixture.sender), .events = POLLOUT};
        assert_int_equal(poll(&told, 1, 1000), 1);
        assert_true(told.revents & POLLERR); /* it has been taken for one */
        udp_fixture_send(&fixture, 100 * i, count, 1000, count);
        assert_int_equal(udp_fixture_drain(&fixture, UDP_FIXTURE_MAX, count, NULL), count);
        assert_int_equal(poll(&told, 1, 0), 1);
        assert_false(told.revents & POLLERR);
    }
    const struct tt_udp_sender *sender = &((struct tt_udp_queue *)fixture.sender)->sender;
    assert_int_equal(udp_fixture_counters(fixture.sender).send_errors, 0);
    assert_true(sender->segmentation);
    assert_false(sender->complained);
    udp_fixture_close(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(report_that_somebody_makes_up_costs_a_group_no_chunk, netns_leave),
    };

    tt_log_configure("none", NULL, (char[64]){0}, 64);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
