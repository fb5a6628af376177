/* SPDX-License-Identifier: BSD-3-Clause */
/* The fixture of the verbs mcast provider: four providers of one process, on the host's RDMA devices in turn. */
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/settings.h"
#include "fabric/verbs/mcast.h"
#include "fixture_members.h"

enum { MOST_PORTS = 16 };

/* The ports that can be used, looked for once; members take them in turn. */
struct ports {
    struct tt_verbs_port list[MOST_PORTS];
    size_t count;
};

static void find_ports(struct ports *ports)
{
    size_t count = 0;
    if (ports->count > 0 || tt_verbs_list(NULL, ports->list, MOST_PORTS, &count) != TUTTI_OK) {
        return;
    }
    for (size_t i = 0; i < count && i < MOST_PORTS; i++) {
        if (ports->list[i].usable) {
            ports->list[ports->count++] = ports->list[i];
        }
    }
}

static tutti_status make_member(void *argument, uint32_t member, struct tt_mcast **mcast)
{
    const struct ports *ports = argument;
    const struct tt_verbs_port *port = &ports->list[member % ports->count];
    char name[TT_VERBS_NAME_BYTES + sizeof(":255")];
    struct tt_verbs_device_options options = {.name = name, .gid_index = TT_AUTO, .threads = CONFORMANCE_THREADS};
    struct tt_verbs_mcast_options mcast_options = {.receive_buffer_bytes = TT_AUTO};

    snprintf(name, sizeof name, "%s:%u", port->device, port->port);
    tutti_status status = tt_verbs_device_open(&options, &mcast_options.device);
    if (status == TUTTI_OK) {
        status = tt_verbs_mcast_create(&mcast_options, mcast);
        tt_verbs_device_close(mcast_options.device); /* the provider has a reference of its own */
    }
    if (status != TUTTI_OK) {
        fprintf(stderr, "there is an RDMA device, but: %s\n", tt_last_error());
        abort(); /* no reason to skip */
    }
    return status;
}

static const char *create(void **world)
{
    static struct ports ports;
    find_ports(&ports);
    return ports.count > 0 ? members_mcast_create(make_member, &ports, world) : "no RDMA device is active here";
}

static void mcast_address(void *world, uint32_t index, struct tt_mcast_address *address)
{
    (void)world;
    members_mcast_address(UINT32_C(0xEFC10000), index, address); /* 239.193.x.y */
}

const struct conformance_fixture conformance_verbs_mcast = {.name = "verbs",
                                                            .abilities = CONFORMANCE_DESCRIPTORS | CONFORMANCE_FULL,
                                                            .create = create,
                                                            .destroy = members_mcast_destroy,
                                                            .now_ns = members_now_ns,
                                                            .pump = members_pump,
                                                            .mcast = members_mcast,
                                                            .mcast_address = mcast_address};
