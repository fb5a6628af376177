/* SPDX-License-Identifier: BSD-3-Clause */
/* The fixture of the verbs mcast provider: four providers of one process, on the host's RDMA devices in turn. */
#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/settings.h"
#include "fabric/verbs/mcast.h"
#include "fixture.h"

enum { MOST_PORTS = 16 };

struct verbs_world {
    struct tt_mcast *mcast[CONFORMANCE_MEMBERS];
};

static void destroy(void *argument)
{
    struct verbs_world *world = argument;
    for (uint32_t i = 0; i < CONFORMANCE_MEMBERS; i++) {
        if (world->mcast[i] != NULL) {
            world->mcast[i]->ops->destroy(world->mcast[i]);
        }
    }
    free(world);
}

/* The ports that can be used, looked for once. */
static const struct tt_verbs_port *find_ports(size_t *usable)
{
    static struct tt_verbs_port ports[MOST_PORTS];
    static size_t found;
    size_t count = 0;
    if (found == 0 && tt_verbs_list(NULL, ports, MOST_PORTS, &count) == TUTTI_OK) {
        for (size_t i = 0; i < count && i < MOST_PORTS; i++) {
            if (ports[i].usable) {
                ports[found++] = ports[i];
            }
        }
    }
    *usable = found;
    return ports;
}

static tutti_status create_member(const struct tt_verbs_port *port, struct tt_mcast **mcast)
{
    char name[TT_VERBS_NAME_BYTES + sizeof(":255")];
    struct tt_verbs_device_options options = {.name = name, .gid_index = TT_AUTO, .threads = CONFORMANCE_THREADS};
    struct tt_verbs_mcast_options mcast_options = {.receive_buffer_bytes = TT_AUTO};

    snprintf(name, sizeof name, "%s:%u", port->device, port->port);
    tutti_status status = tt_verbs_device_open(&options, &mcast_options.device);
    if (status == TUTTI_OK) {
        status = tt_verbs_mcast_create(&mcast_options, mcast);
        tt_verbs_device_close(mcast_options.device); /* the provider has a reference of its own */
    }
    return status;
}

static const char *create(void **result)
{
    size_t count = 0;
    const struct tt_verbs_port *ports = find_ports(&count);
    if (count == 0) {
        return "no RDMA device is active here";
    }
    struct verbs_world *world = calloc(1, sizeof(*world));
    if (world == NULL) {
        return "out of memory";
    }
    for (uint32_t i = 0; i < CONFORMANCE_MEMBERS; i++) {
        if (create_member(&ports[i % count], &world->mcast[i]) != TUTTI_OK) {
            fprintf(stderr, "there is an RDMA device, but: %s\n", tt_last_error());
            abort(); /* no reason to skip */
        }
    }
    *result = world;
    return NULL;
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
    const struct verbs_world *world = argument;
    return world->mcast[member];
}

/* Apart from other processes that run the same tests: group and port come from the process. */
static void mcast_address(void *world, uint32_t index, struct tt_mcast_address *address)
{
    (void)world;
    const uint32_t process = (uint32_t)getpid();
    address->group_be = htonl(UINT32_C(0xEFC10000) | ((process & 0xFF) << 8) | (index + 1)); /* 239.193.x.y */
    address->port = (uint16_t)(10000 + process % 20000);
    address->key = ((uint64_t)process << 32) | (index + 1);
}

const struct conformance_fixture conformance_verbs_mcast = {.name = "verbs",
                                                            .create = create,
                                                            .destroy = destroy,
                                                            .now_ns = now_ns,
                                                            .pump = pump,
                                                            .mcast = mcast,
                                                            .mcast_address = mcast_address};
