/* SPDX-License-Identifier: BSD-3-Clause */
/* The fixtures of the tcp provider: four instances in one process, on IPv4 and on IPv6. */
#include "fabric/tcp/tcp.h"
#include "fixture_members.h"

static const char why_no_kill[] = "its members share a process; tests/unit/test_pair_processes.c kills real ones";

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

static const char *create_ipv6(void **world)
{
    static struct tt_tcp_options options = {.address = "::1"};
    return members_p2p_create(make_member, &options, true, world);
}

const struct conformance_fixture conformance_tcp = {.name = "tcp",
                                                    .create = create_ipv4,
                                                    .destroy = members_p2p_destroy,
                                                    .now_ns = members_now_ns,
                                                    .pump = members_pump,
                                                    .p2p = members_p2p,
                                                    .p2p_forget = members_p2p_forget,
                                                    .why_no_kill = why_no_kill};

const struct conformance_fixture conformance_tcp_ipv6 = {.name = "tcp_ipv6",
                                                         .create = create_ipv6,
                                                         .destroy = members_p2p_destroy,
                                                         .now_ns = members_now_ns,
                                                         .pump = members_pump,
                                                         .p2p = members_p2p,
                                                         .p2p_forget = members_p2p_forget,
                                                         .why_no_kill = why_no_kill};
