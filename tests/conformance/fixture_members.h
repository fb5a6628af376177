/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What fixtures have in common: a world that is an array of providers of this process, made one after the other; the
 * system's clock; and addresses apart from those of other processes that run the same tests.
 */
#ifndef TT_TESTS_CONFORMANCE_FIXTURE_MEMBERS_H
#define TT_TESTS_CONFORMANCE_FIXTURE_MEMBERS_H

#include "fixture.h"

/* Makes the provider of one member; on an error tt_last_error() says why. `argument` is that of the call; for p2p it
 * stays as long as the world. */
typedef tutti_status members_make_mcast(void *argument, uint32_t member, struct tt_mcast **mcast);
typedef tutti_status members_make_p2p(void *argument, uint32_t member, struct tt_p2p **p2p);

/* As fixture.create: NULL on success, or why the provider cannot be had here (TUTTI_ERR_NOT_SUPPORTED); any other error
 * fails the test. All members of mcast are made; those of p2p when they are first asked for, the first one now where
 * `first` says so, to see whether the provider can be had. */
const char *members_mcast_create(members_make_mcast *make, void *argument, void **world);
const char *members_p2p_create(members_make_p2p *make, void *argument, bool first, void **world);

/* The text of a NOT_SUPPORTED, which is a reason to skip; fails the test with the text of any other error. */
const char *members_reason(tutti_status status);

/* As the fields of these names. */
void members_mcast_destroy(void *world);
struct tt_mcast *members_mcast(void *world, uint32_t member);
void members_p2p_destroy(void *world);
struct tt_p2p *members_p2p(void *world, uint32_t member); /* NULL: it cannot be made */
void members_p2p_forget(void *world, uint32_t member);
uint64_t members_now_ns(void *world);
void members_pump(void *world, uint64_t step_ns);

/* An address in 239.192.0.0/16 and the like, of which `range` is the beginning: port and key come from the process. */
void members_mcast_address(uint32_t range, uint32_t index, struct tt_mcast_address *address);

#endif
