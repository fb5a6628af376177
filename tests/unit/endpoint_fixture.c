/* SPDX-License-Identifier: BSD-3-Clause */
/* What endpoint_fixture.h promises. */
#include "endpoint_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

char endpoint_buffer[64];
static struct ibv_device device = {.name = "fake0"};

struct tt_endpoint_options endpoint_options(enum tt_endpoint_category category, uint32_t threads, uint32_t queue_pairs)
{
    return (struct tt_endpoint_options){.device = &device,
                                        .category = category,
                                        .threads = threads,
                                        .queue_pairs_per_thread = queue_pairs,
                                        .queue_pair_type = IBV_QPT_RC,
                                        .send_depth = 128,
                                        .receive_depth = 16,
                                        .completion_depth = 300,
                                        .inline_bytes = 60};
}

struct tt_endpoints *endpoint_create(const struct tt_endpoint_options *options)
{
    struct tt_endpoints *endpoints = NULL;

    assert_int_equal(tt_endpoints_create(&fake_calls, options, &endpoints), TUTTI_OK);
    assert_non_null(endpoints);
    return endpoints;
}

tutti_status endpoint_create_badly(const struct tt_endpoint_options *options)
{
    struct tt_endpoints *untouched = (struct tt_endpoints *)(void *)endpoint_buffer, *endpoints = untouched;
    tutti_status status = tt_endpoints_create(&fake_calls, options, &endpoints);

    assert_int_not_equal(status, TUTTI_OK);
    assert_ptr_equal(endpoints, untouched);
    assert_int_equal(fake.living, 0);
    return status;
}

void endpoint_destroy(struct tt_endpoints *endpoints)
{
    tt_endpoints_destroy(endpoints);
    assert_int_equal(fake.living, 0);
}
