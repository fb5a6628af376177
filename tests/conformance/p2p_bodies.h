/* SPDX-License-Identifier: BSD-3-Clause */
/* The bodies of the p2p contract, by what they are about. */
#ifndef TT_TESTS_CONFORMANCE_P2P_BODIES_H
#define TT_TESTS_CONFORMANCE_P2P_BODIES_H

#include "body.h"

extern const struct conformance_body p2p_memory_bodies[]; /* gets, puts, registrations */
extern const size_t p2p_memory_bodies_count;
extern const struct conformance_body p2p_ending_bodies[]; /* disconnect, destroy, failure */
extern const size_t p2p_ending_bodies_count;

#endif
