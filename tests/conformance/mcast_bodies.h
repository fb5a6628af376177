/* SPDX-License-Identifier: BSD-3-Clause */
/* The bodies of the mcast contract that are not in conformance_mcast.c. */
#ifndef TT_TESTS_CONFORMANCE_MCAST_BODIES_H
#define TT_TESTS_CONFORMANCE_MCAST_BODIES_H

#include "body.h"

extern const struct conformance_body mcast_window_bodies[]; /* chunks that the network writes to where they belong */
extern const size_t mcast_window_bodies_count;

#endif
