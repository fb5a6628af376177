/* SPDX-License-Identifier: BSD-3-Clause */
/* A build without libibverbs: there is no traffic, so nobody has a lane. */
#include <assert.h>
#include <stddef.h>

#include "base/log.h"
#include "endpoint/traffic.h"

static tutti_status no_verbs(void)
{
    return tt_error(TT_PART_FABRIC, TUTTI_ERR_NOT_SUPPORTED, "this build has no libibverbs");
}

tutti_status tt_traffic_create(const struct tt_traffic_options *options, struct tt_traffic **traffic)
{
    (void)options;
    (void)traffic;
    return no_verbs();
}

void tt_traffic_destroy(struct tt_traffic *traffic)
{
    (void)traffic;
    assert(traffic == NULL);
}

const struct tt_endpoint_made *tt_traffic_made(const struct tt_traffic *traffic)
{
    (void)traffic;
    return NULL;
}

tutti_status tt_traffic_register(struct tt_traffic *traffic, uint32_t thread, void *address, size_t bytes,
                                 uint32_t *local_key)
{
    (void)traffic;
    (void)thread;
    (void)address;
    (void)bytes;
    (void)local_key;
    return no_verbs();
}

struct tt_traffic_lane *tt_traffic_lane(struct tt_traffic *traffic, uint32_t thread, uint32_t lane)
{
    (void)traffic;
    (void)thread;
    (void)lane;
    return NULL;
}

uint32_t tt_traffic_local_key(const struct tt_traffic_lane *lane)
{
    (void)lane;
    return 0;
}

uint32_t tt_traffic_remote_key(const struct tt_traffic_lane *lane)
{
    (void)lane;
    return 0;
}

tutti_status tt_traffic_post(struct tt_traffic_lane *lane, const struct tt_traffic_work *work, uint64_t count)
{
    (void)lane;
    (void)work;
    (void)count;
    return no_verbs();
}

tutti_status tt_traffic_finish(struct tt_traffic_lane *lane)
{
    (void)lane;
    return no_verbs();
}
