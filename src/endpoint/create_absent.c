/* SPDX-License-Identifier: BSD-3-Clause */
/* A build without libibverbs: endpoints can be planned, but not made. */
#include <assert.h>

#include "base/log.h"
#include "endpoint/create.h"
#include "endpoint/rdma_library.h"

tutti_status tt_rdma_library_load(void)
{
    return tt_error_note(TUTTI_ERR_NOT_SUPPORTED, "this build has no libibverbs");
}

const struct tt_endpoint_calls *tt_endpoint_libibverbs(void)
{
    return NULL;
}

tutti_status tt_endpoints_create(const struct tt_endpoint_calls *calls, const struct tt_endpoint_options *options,
                                 struct tt_endpoints **endpoints)
{
    (void)calls;
    (void)endpoints;
    return tt_error(TT_PART_FABRIC, TUTTI_ERR_NOT_SUPPORTED, "endpoints of %s: this build has no libibverbs",
                    tt_endpoint_category_word(options->category));
}

tutti_status tt_endpoints_create_on(const struct tt_endpoint_calls *calls, const char *name,
                                    const struct tt_endpoint_options *options, struct tt_endpoints **endpoints)
{
    (void)name;
    return tt_endpoints_create(calls, options, endpoints);
}

void tt_endpoints_destroy(struct tt_endpoints *endpoints)
{
    (void)endpoints;
    assert(endpoints == NULL);
}

const struct tt_endpoint_made *tt_endpoints_made(const struct tt_endpoints *endpoints)
{
    (void)endpoints;
    return NULL;
}

const struct tt_endpoint_lane *tt_endpoints_lane(const struct tt_endpoints *endpoints, uint32_t thread,
                                                 uint32_t queue_pair)
{
    (void)endpoints;
    (void)thread;
    (void)queue_pair;
    return NULL;
}
