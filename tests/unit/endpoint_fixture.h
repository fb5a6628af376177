/* SPDX-License-Identifier: BSD-3-Clause */
/* Endpoints over the provider of fake_verbs.h, which fake_reset() prepares. */
#ifndef TT_TESTS_ENDPOINT_FIXTURE_H
#define TT_TESTS_ENDPOINT_FIXTURE_H

#include "fake_verbs.h"

extern char endpoint_buffer[64]; /* to register */

/* On a device "fake0", without a buffer. */
struct tt_endpoint_options endpoint_options(enum tt_endpoint_category category, uint32_t threads, uint32_t queue_pairs);

struct tt_endpoints *endpoint_create(const struct tt_endpoint_options *options);

/* Creates what must fail, and expects that nothing is left of it. */
tutti_status endpoint_create_badly(const struct tt_endpoint_options *options);

/* Expects that nothing is left. */
void endpoint_destroy(struct tt_endpoints *endpoints);

#endif
