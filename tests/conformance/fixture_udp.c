/* SPDX-License-Identifier: BSD-3-Clause */
/* The fixtures of the udp provider: four providers of one process on the loopback interface. */
#include <arpa/inet.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/settings.h"
#include "fabric/udp/udp.h"
#include "fixture.h"

struct udp_world {
    struct tt_mcast *mcast[CONFORMANCE_MEMBERS];
};

static void destroy(void *argument)
{
    struct udp_world *world = argument;
    for (uint32_t i = 0; i < CONFORMANCE_MEMBERS; i++) {
        if (world->mcast[i] != NULL) {
            world->mcast[i]->ops->destroy(world->mcast[i]);
        }
    }
    free(world);
}

static const char *create_with(bool plain, void **result)
{
    struct tt_udp_options options = {.receive_buffer_bytes = TT_AUTO, .ttl = 1, .loop = true, .plain = plain};
    struct tt_udp_probe probe;
    if (tt_interface_find("127.0.0.1", &options.interface) != TUTTI_OK ||
        tt_udp_probe_loop(&options.interface, TT_NS_PER_S, &probe) != TUTTI_OK) {
        return "no multicast over loopback here";
    }
    struct udp_world *world = calloc(1, sizeof(*world));
    if (world == NULL) {
        return "out of memory";
    }
    for (uint32_t i = 0; i < CONFORMANCE_MEMBERS; i++) {
        if (tt_udp_create(&options, &world->mcast[i]) != TUTTI_OK) {
            destroy(world);
            return tt_last_error();
        }
    }
    *result = world;
    return NULL;
}

static const char *create(void **world)
{
    return create_with(false, world);
}

static const char *create_plain(void **world)
{
    return create_with(true, world);
}

static uint64_t now_ns(void *world)
{
    (void)world;
    return tt_clock_now_ns();
}

static void pump(void *world, uint64_t step_ns)
{
    (void)world;
    (void)poll(NULL, 0, step_ns >= TT_NS_PER_MS ? 1 : 0);
}

static struct tt_mcast *mcast(void *argument, uint32_t member)
{
    const struct udp_world *world = argument;
    return world->mcast[member];
}

/* Apart from other processes that run the same tests: port and key come from the process. */
static void mcast_address(void *world, uint32_t index, struct tt_mcast_address *address)
{
    (void)world;
    const uint32_t process = (uint32_t)getpid();
    address->group_be = htonl(UINT32_C(0xEFC00000) | ((process & 0xFF) << 8) | (index + 1)); /* 239.192.x.y */
    address->port = (uint16_t)(10000 + process % 20000);
    address->key = ((uint64_t)process << 32) | (index + 1);
}

const struct conformance_fixture conformance_udp = {.name = "udp",
                                                    .create = create,
                                                    .destroy = destroy,
                                                    .now_ns = now_ns,
                                                    .pump = pump,
                                                    .mcast = mcast,
                                                    .mcast_address = mcast_address};

const struct conformance_fixture conformance_udp_plain = {.name = "udp-plain",
                                                          .create = create_plain,
                                                          .destroy = destroy,
                                                          .now_ns = now_ns,
                                                          .pump = pump,
                                                          .mcast = mcast,
                                                          .mcast_address = mcast_address};
