/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fixtures of the "verbs" p2p provider: four instances in one process. In one of them they are spread over all RDMA
 * devices, and their connections share receives where the devices can; in the other they are on the first device, and
 * each connection has receives of its own.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/settings.h"
#include "fabric/verbs/rc.h"
#include "fixture.h"

enum { PORTS = 8 };

struct verbs_world {
    const char *names[CONFORMANCE_MEMBERS]; /* of the members' devices */
    bool own_receives;
    struct tt_p2p *p2p[CONFORMANCE_MEMBERS];
};

static void destroy(void *argument)
{
    struct verbs_world *world = argument;
    for (uint32_t i = 0; i < CONFORMANCE_MEMBERS; i++) {
        if (world->p2p[i] != NULL) {
            world->p2p[i]->ops->destroy(world->p2p[i]);
        }
    }
    free(world);
}

/* The devices that can be used, looked for once. */
static const struct tt_verbs_port *find_devices(size_t *usable)
{
    static struct tt_verbs_port ports[PORTS];
    static size_t found;
    size_t count = 0;
    if (found == 0 && tt_verbs_list(NULL, ports, PORTS, &count) == TUTTI_OK) {
        for (size_t i = 0; i < count && i < PORTS; i++) {
            if (ports[i].active && ports[i].usable) {
                ports[found++] = ports[i];
            }
        }
    }
    *usable = found;
    return ports;
}

static tutti_status create_member(const char *name, bool own_receives, struct tt_p2p **p2p)
{
    const struct tt_verbs_device_options options = {.name = name, .gid_index = TT_AUTO};
    struct tt_verbs_device *device = NULL;
    tutti_status status = tt_verbs_device_open(&options, &device);
    if (status == TUTTI_OK) {
        status = tt_rc_create(&(struct tt_rc_options){.device = device, .own_receives = own_receives}, p2p);
        tt_verbs_device_close(device);
    }
    return status;
}

static const char *create_from(bool spread, void **result)
{
    size_t count = 0;
    const struct tt_verbs_port *ports = find_devices(&count);
    if (count == 0) {
        return "no RDMA device is active here; tests/guest has some";
    }
    struct verbs_world *world = calloc(1, sizeof(*world));
    if (world == NULL) {
        return "out of memory";
    }
    for (uint32_t i = 0; i < CONFORMANCE_MEMBERS; i++) {
        world->names[i] = ports[spread ? i % count : 0].device;
    }
    world->own_receives = !spread;
    *result = world;
    return NULL;
}

static const char *create_spread(void **result)
{
    return create_from(true, result);
}

static const char *create_on_one(void **result)
{
    return create_from(false, result);
}

static uint64_t now_ns(void *world)
{
    (void)world;
    return tt_clock_now_ns();
}

static void pump(void *world, uint64_t step_ns)
{
    (void)world;
    const struct timespec nap = {.tv_nsec = step_ns < 50000 ? (long)step_ns : 50000};
    (void)ppoll(NULL, 0, &nap, NULL);
}

static struct tt_p2p *p2p(void *argument, uint32_t member)
{
    struct verbs_world *world = argument;
    if (world->p2p[member] == NULL &&
        create_member(world->names[member], world->own_receives, &world->p2p[member]) != TUTTI_OK) {
        fprintf(stderr, "there is an RDMA device, but: %s\n", tt_last_error());
        return NULL; /* no reason to skip */
    }
    return world->p2p[member];
}

static void p2p_forget(void *argument, uint32_t member)
{
    struct verbs_world *world = argument;
    world->p2p[member] = NULL;
}

const struct conformance_fixture conformance_verbs_p2p = {
    .name = "verbs",
    .create = create_spread,
    .destroy = destroy,
    .now_ns = now_ns,
    .pump = pump,
    .p2p = p2p,
    .p2p_forget = p2p_forget,
    .why_no_kill = "its members share a process; tests/guest/rc_kills.c kills real ones"};

const struct conformance_fixture conformance_verbs_p2p_own = {
    .name = "verbs-own",
    .create = create_on_one,
    .destroy = destroy,
    .now_ns = now_ns,
    .pump = pump,
    .p2p = p2p,
    .p2p_forget = p2p_forget,
    .why_no_kill = "its members share a process; tests/guest/rc_kills.c kills real ones"};
