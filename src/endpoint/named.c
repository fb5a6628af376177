/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Endpoints on a device that is known by its name.
 *
 * Normal path: libibverbs' list is searched, and lent to creation.
 *
 * Failures: no device of that name, or none at all; the text says which there are.
 */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "endpoint/calls.h"

enum { NAMES_BYTES = 256 };

static tutti_status explain(const char *name, struct ibv_device **devices, int count)
{
    char names[NAMES_BYTES] = "none";
    size_t length = 0;

    for (int i = 0; i < count && length < sizeof names; i++) {
        length += (size_t)snprintf(names + length, sizeof names - length, "%s%s", i == 0 ? "" : ", ", devices[i]->name);
    }
    return tt_error(TT_PART_FABRIC, TUTTI_ERR_NOT_SUPPORTED, "%s: no such RDMA device (there are: %s)",
                    name != NULL ? name : "the first", names);
}

tutti_status tt_endpoints_create_on(const struct tt_endpoint_calls *calls, const char *name,
                                    const struct tt_endpoint_options *options, struct tt_endpoints **endpoints)
{
    struct tt_endpoint_options on_device = *options;
    int count = 0;
    struct ibv_device **devices = calls->get_device_list(&count);

    on_device.device = NULL;
    for (int i = 0; devices != NULL && i < count && on_device.device == NULL; i++) {
        on_device.device = name == NULL || strcmp(devices[i]->name, name) == 0 ? devices[i] : NULL;
    }
    tutti_status status = on_device.device != NULL ? tt_endpoints_create(calls, &on_device, endpoints)
                                                   : explain(name, devices, devices != NULL ? count : 0);
    if (devices != NULL) {
        calls->free_device_list(devices);
    }
    return status;
}
