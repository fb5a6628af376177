/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fixtures of the "verbs" p2p provider: four instances in one process. In one of them they are spread over all RDMA
 * devices, and their connections share receives where the devices can; in the other they are on the first device, and
 * each connection has receives of its own.
 */
#include <stdio.h>

#include "base/log.h"
#include "base/settings.h"
#include "fabric/verbs/rc.h"
#include "fixture_members.h"

enum { PORTS = 8 };

/* The devices that can be used, looked for once. */
static struct tt_verbs_port devices[PORTS];
static size_t device_count;

static void find_devices(void)
{
    struct tt_verbs_port ports[PORTS];
    size_t count = 0;
    if (device_count > 0 || tt_verbs_list(NULL, ports, PORTS, &count) != TUTTI_OK) {
        return;
    }
    for (size_t i = 0; i < count && i < PORTS; i++) {
        if (ports[i].active && ports[i].usable) {
            devices[device_count++] = ports[i];
        }
    }
}

static tutti_status make_member(const char *name, bool own_receives, struct tt_p2p **p2p)
{
    const struct tt_verbs_device_options options = {.name = name, .gid_index = TT_AUTO};
    struct tt_verbs_device *device = NULL;
    tutti_status status = tt_verbs_device_open(&options, &device);
    if (status == TUTTI_OK) {
        status = tt_rc_create(&(struct tt_rc_options){.device = device, .own_receives = own_receives}, p2p);
        tt_verbs_device_close(device);
    }
    if (status != TUTTI_OK) { /* no reason to skip */
        fprintf(stderr, "there is an RDMA device, but: %s\n", tt_last_error());
    }
    return status;
}

static tutti_status make_spread(void *argument, uint32_t member, struct tt_p2p **p2p)
{
    (void)argument;
    return make_member(devices[member % device_count].device, false, p2p);
}

static tutti_status make_on_one(void *argument, uint32_t member, struct tt_p2p **p2p)
{
    (void)argument, (void)member;
    return make_member(devices[0].device, true, p2p);
}

static const char *create_with(members_make_p2p *make, void **world)
{
    find_devices();
    return device_count > 0 ? members_p2p_create(make, NULL, false, world)
                            : "no RDMA device is active here; tests/guest has some";
}

static const char *create_spread(void **world)
{
    return create_with(make_spread, world);
}

static const char *create_on_one(void **world)
{
    return create_with(make_on_one, world);
}

const struct conformance_fixture conformance_verbs_p2p = {.name = "verbs",
                                                          .create = create_spread,
                                                          .destroy = members_p2p_destroy,
                                                          .now_ns = members_now_ns,
                                                          .pump = members_pump,
                                                          .p2p = members_p2p,
                                                          .p2p_forget = members_p2p_forget};

const struct conformance_fixture conformance_verbs_p2p_own = {.name = "verbs-own",
                                                              .create = create_on_one,
                                                              .destroy = members_p2p_destroy,
                                                              .now_ns = members_now_ns,
                                                              .pump = members_pump,
                                                              .p2p = members_p2p,
                                                              .p2p_forget = members_p2p_forget};
