/* SPDX-License-Identifier: BSD-3-Clause */
/* The fixtures of the tcp provider: four instances in one process, on IPv4 and on IPv6. */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fabric/tcp/tcp.h"
#include "fixture_members.h"

static tutti_status make_member(void *argument, uint32_t member, struct tt_p2p **p2p)
{
    const struct tt_tcp_options *options = argument;
    (void)member;
    return tt_tcp_create(options, p2p);
}

static const char *create_ipv4(void **world)
{
    static struct tt_tcp_options options = {.address = "127.0.0.1", .lossless = true};
    return members_p2p_create(make_member, &options, true, world);
}

/* NULL, or what the system says where it has no address ::1. */
static const char *why_no_ipv6(void)
{
    const struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool fits = fd >= 0 && bind(fd, (const struct sockaddr *)&address, sizeof(address)) == 0;
    bool lacks = !fits && (errno == EAFNOSUPPORT || errno == EADDRNOTAVAIL);
    const char *reason = lacks ? strerror(errno) : NULL;
    if (fd >= 0) {
        close(fd);
    }
    return reason;
}

static const char *create_ipv6(void **world)
{
    static struct tt_tcp_options options = {.address = "::1"};
    const char *reason = why_no_ipv6();
    if (reason != NULL) {
        return reason;
    }
    return members_p2p_create(make_member, &options, true, world);
}

const struct conformance_fixture conformance_tcp = {.name = "tcp",
                                                    .create = create_ipv4,
                                                    .destroy = members_p2p_destroy,
                                                    .now_ns = members_now_ns,
                                                    .pump = members_pump,
                                                    .p2p = members_p2p,
                                                    .p2p_forget = members_p2p_forget};

const struct conformance_fixture conformance_tcp_ipv6 = {.name = "tcp_ipv6",
                                                         .create = create_ipv6,
                                                         .destroy = members_p2p_destroy,
                                                         .now_ns = members_now_ns,
                                                         .pump = members_pump,
                                                         .p2p = members_p2p,
                                                         .p2p_forget = members_p2p_forget};
