/* SPDX-License-Identifier: BSD-3-Clause */
/* A build without libibverbs and librdmacm: there is no device, and whoever asks for one by name is told why. */
#include "base/log.h"
#include "fabric/verbs/mcast.h"
#include "fabric/verbs/verbs.h"

tutti_status tt_verbs_device_open(const struct tt_verbs_device_options *options, struct tt_verbs_device **device)
{
    (void)device;
    return tt_error(TT_PART_FABRIC, TUTTI_ERR_NOT_SUPPORTED, "TUTTI_DEVICE=%s: this build has no libibverbs",
                    options->name);
}

const char *tt_verbs_device_endpoints(const struct tt_verbs_device *device)
{
    (void)device;
    return "none";
}

void tt_verbs_device_hold(struct tt_verbs_device *device)
{
    (void)device;
}

void tt_verbs_device_close(struct tt_verbs_device *device)
{
    (void)device;
}

bool tt_verbs_device_exists(const struct tt_verbs_device_options *options, struct tt_verbs_found *found)
{
    (void)options;
    (void)found;
    return false;
}

tutti_status tt_verbs_find(const struct tt_verbs_device_options *options, struct tt_verbs_port *port)
{
    (void)port;
    return tt_verbs_device_open(options, NULL);
}

tutti_status tt_verbs_list(const struct tt_verbs_device_options *options, struct tt_verbs_port *ports, size_t capacity,
                           size_t *count)
{
    (void)options;
    (void)ports;
    (void)capacity;
    (void)count;
    return tt_error(TT_PART_FABRIC, TUTTI_ERR_NOT_SUPPORTED, "this build has no libibverbs");
}

tutti_status tt_verbs_mcast_create(const struct tt_verbs_mcast_options *options, struct tt_mcast **mcast)
{
    (void)options;
    (void)mcast;
    return tt_error(TT_PART_FABRIC, TUTTI_ERR_NOT_SUPPORTED, "this build has no libibverbs");
}
