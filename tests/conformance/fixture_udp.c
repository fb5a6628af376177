/* SPDX-License-Identifier: BSD-3-Clause */
/* The fixtures of the udp provider: four providers of one process on the loopback interface. */
#include "base/clock.h"
#include "base/settings.h"
#include "fabric/udp/udp.h"
#include "fixture_members.h"

static tutti_status make_member(void *options, uint32_t member, struct tt_mcast **mcast)
{
    (void)member;
    return tt_udp_create(options, mcast);
}

static const char *create_with(bool plain, void **world)
{
    struct tt_udp_options options = {.receive_buffer_bytes = TT_AUTO, .ttl = 1, .loop = true, .plain = plain};
    struct tt_udp_probe probe;
    tutti_status status = tt_interface_find("127.0.0.1", &options.interface);
    if (status == TUTTI_OK) {
        status = tt_udp_probe_loop(&options.interface, 20 * TT_NS_PER_S, &probe);
    }
    return status == TUTTI_OK ? members_mcast_create(make_member, &options, world) : members_reason(status);
}

static const char *create(void **world)
{
    return create_with(false, world);
}

static const char *create_plain(void **world)
{
    return create_with(true, world);
}

static void mcast_address(void *world, uint32_t index, struct tt_mcast_address *address)
{
    (void)world;
    members_mcast_address(UINT32_C(0xEFC00000), index, address); /* 239.192.x.y */
}

const struct conformance_fixture conformance_udp = {.name = "udp",
                                                    .abilities = CONFORMANCE_DESCRIPTORS,
                                                    .create = create,
                                                    .destroy = members_mcast_destroy,
                                                    .now_ns = members_now_ns,
                                                    .pump = members_pump,
                                                    .mcast = members_mcast,
                                                    .mcast_address = mcast_address};

const struct conformance_fixture conformance_udp_plain = {.name = "udp-plain",
                                                          .abilities = CONFORMANCE_DESCRIPTORS,
                                                          .create = create_plain,
                                                          .destroy = members_mcast_destroy,
                                                          .now_ns = members_now_ns,
                                                          .pump = members_pump,
                                                          .mcast = members_mcast,
                                                          .mcast_address = mcast_address};
