/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ports of this host's RDMA devices, for `tutti info -d` and for who makes queue pairs by himself.
 *
 * Normal path: each port is described; what open would choose there is found by opening it by its name.
 * Failures: a device that cannot be opened is listed as down, without the rest.
 */
#include <arpa/inet.h>
#include <limits.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/settings.h"
#include "endpoint/rdma_library.h"
#include "fabric/verbs/device.h"

/* The kernel's driver of the hardware behind the device; what software makes has no hardware. */
static void find_driver(const struct ibv_device *device, char *driver)
{
    char path[IBV_SYSFS_PATH_MAX + sizeof("/device/driver")], target[PATH_MAX];

    snprintf(path, sizeof path, "%s/device/driver", device->ibdev_path);
    ssize_t length = readlink(path, target, sizeof target - 1);
    if (length <= 0) {
        snprintf(driver, TT_VERBS_NAME_BYTES, "software");
        return;
    }
    target[length] = '\0';
    const char *slash = strrchr(target, '/');
    snprintf(driver, TT_VERBS_NAME_BYTES, "%.*s", TT_VERBS_NAME_BYTES - 1, slash != NULL ? slash + 1 : target);
}

static const char *transport_name(uint32_t gid_type)
{
    return gid_type == IBV_GID_TYPE_IB ? "InfiniBand" : gid_type == IBV_GID_TYPE_ROCE_V2 ? "RoCE v2" : "RoCE v1";
}

/* The GID that an open port uses. */
static void describe_open(const struct tt_verbs_device *device, struct tt_verbs_port *port)
{
    char interface[IF_NAMESIZE];
    struct ibv_gid_entry entry;

    port->usable = true;
    port->gid_index = device->gid_index;
    port->pkey_index = device->pkey_index;
    inet_ntop(AF_INET6, &device->gid, port->gid, sizeof port->gid);
    port->mtu_bytes = device->mtu_bytes;
    port->endpoints = tt_verbs_device_endpoints(device);
    if (ibv_query_gid_ex(tt_verbs_lane(device, 0)->context, port->port, port->gid_index, &entry, 0) == 0) {
        port->transport = transport_name(entry.gid_type);
        if (entry.ndev_ifindex != 0 && if_indextoname(entry.ndev_ifindex, interface) != NULL) {
            snprintf(port->interface, sizeof port->interface, "%s", interface);
        }
    }
}

/* What open would take at this port. */
static void describe_gid(const struct tt_verbs_device_options *wish, struct tt_verbs_port *port)
{
    char name[TT_VERBS_NAME_BYTES + sizeof(":255")];
    struct tt_verbs_device_options options = {
        .name = name, .gid_index = TT_AUTO, .endpoints = wish->endpoints, .threads = wish->threads};
    struct tt_verbs_device *device = NULL;

    snprintf(name, sizeof name, "%s:%u", port->device, port->port);
    if (!tt_verbs_device_exists(&options, NULL) || tt_verbs_device_open(&options, &device) != TUTTI_OK) {
        return;
    }
    describe_open(device, port);
    tt_verbs_device_close(device);
}

static void describe(const struct tt_verbs_device_options *wish, struct ibv_device *device, struct ibv_context *context,
                     struct tt_verbs_port *port)
{
    struct ibv_port_attr attributes;
    uint32_t index = port->port;

    *port = (struct tt_verbs_port){.port = index, .state = "down", .transport = "-", .endpoints = "-"};
    snprintf(port->device, sizeof port->device, "%s", ibv_get_device_name(device));
    find_driver(device, port->driver);
    if (context == NULL || ibv_query_port(context, (uint8_t)index, &attributes) != 0) {
        return;
    }
    port->state = ibv_port_state_str(attributes.state);
    port->active = attributes.state == IBV_PORT_ACTIVE;
    port->mtu_bytes = UINT32_C(128) << attributes.active_mtu;
    if (port->active) {
        port->state = "active";
        describe_gid(wish, port);
    }
}

tutti_status tt_verbs_find(const struct tt_verbs_device_options *options, struct tt_verbs_port *port)
{
    struct tt_verbs_device *device = NULL;
    tutti_status status = tt_verbs_device_open(options, &device);

    if (status != TUTTI_OK) {
        return status;
    }
    *port = (struct tt_verbs_port){.port = device->port, .active = true, .state = "active", .transport = "-"};
    snprintf(port->device, sizeof port->device, "%s", device->name);
    find_driver(tt_verbs_lane(device, 0)->context->device, port->driver);
    describe_open(device, port);
    tt_verbs_device_close(device);
    return TUTTI_OK;
}

tutti_status tt_verbs_list(const struct tt_verbs_device_options *options, struct tt_verbs_port *ports, size_t capacity,
                           size_t *count)
{
    static const struct tt_verbs_device_options no_wish;
    int device_count = 0;
    size_t found = 0;
    tutti_status status = tt_rdma_library_load();
    if (status != TUTTI_OK) {
        return status;
    }
    struct ibv_device **devices = ibv_get_device_list(&device_count);

    for (int i = 0; devices != NULL && i < device_count; i++) {
        struct ibv_device_attr attributes = {.phys_port_cnt = 1};
        struct ibv_context *context = ibv_open_device(devices[i]);
        if (context != NULL && ibv_query_device(context, &attributes) != 0) {
            attributes.phys_port_cnt = 1;
        }
        for (uint32_t port = 1; port <= attributes.phys_port_cnt; port++, found++) {
            if (found < capacity) {
                ports[found].port = port;
                describe(options != NULL ? options : &no_wish, devices[i], context, &ports[found]);
            }
        }
        if (context != NULL) {
            ibv_close_device(context);
        }
    }
    if (devices != NULL) {
        ibv_free_device_list(devices);
    }
    *count = found;
    return TUTTI_OK;
}
