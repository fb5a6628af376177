/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a provider brings along to be held to its contract: a world of providers that reach each other, and a way to let
 * time pass in it. The bodies (conformance_mcast.c, conformance_p2p.c) are the same for all.
 */
#ifndef TT_TESTS_CONFORMANCE_FIXTURE_H
#define TT_TESTS_CONFORMANCE_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fabric/mcast.h"
#include "fabric/p2p.h"

enum {
    CONFORMANCE_MEMBERS = 4, /* providers in a world */
    CONFORMANCE_THREADS = 6  /* that a provider of mcast is told of, where it wants to know */
};

/* What not every provider has. A body that needs it is not registered for those without. */
enum conformance_ability {
    CONFORMANCE_WINDOWS = 1,     /* mcast: the network writes chunks where they belong */
    CONFORMANCE_DESCRIPTORS = 2, /* mcast: what waits can be slept on */
    CONFORMANCE_FULL = 4,        /* mcast: a send queue is full when enough has been posted at once */
    CONFORMANCE_KILL = 8         /* p2p: a member can be killed without the test */
};

struct conformance_fixture {
    const char *name;
    unsigned abilities; /* of enum conformance_ability; the bodies look whether they are told the truth */

    /* Makes a world for CONFORMANCE_MEMBERS providers. NULL on success, or why it cannot run here: it lacks a device or
     * a library. What else goes wrong fails the test. */
    const char *(*create)(void **world);
    /* Ends it with what is left of its providers. */
    void (*destroy)(void *world);

    uint64_t (*now_ns)(void *world);
    /* Lets up to step_ns pass, less if something may have happened. */
    void (*pump)(void *world, uint64_t step_ns);

    /* For mcast: a member's provider, and an address of its own for every index in a world. */
    struct tt_mcast *(*mcast)(void *world, uint32_t member);
    void (*mcast_address)(void *world, uint32_t index, struct tt_mcast_address *address);

    /* For p2p: a member's provider, which is made when it is first asked for (NULL: it cannot be); forget that it was
     * destroyed by the body; its violent end, for those with CONFORMANCE_KILL. Members of real providers share a
     * process: tests/unit/test_pair_processes.c and tests/guest/rc_kills.c kill real ones. */
    struct tt_p2p *(*p2p)(void *world, uint32_t member);
    void (*p2p_forget)(void *world, uint32_t member);
    void (*kill)(void *world, uint32_t member);
};

extern const struct conformance_fixture conformance_sim;
extern const struct conformance_fixture conformance_sim_late; /* late and overtaking packets, copies, spikes */
extern const struct conformance_fixture conformance_sim_uc;   /* chunks of several packets, written in place */
extern const struct conformance_fixture conformance_lossy;    /* the decorator, losing nothing */
extern const struct conformance_fixture conformance_udp;
extern const struct conformance_fixture conformance_udp_plain; /* without segmentation offload */
extern const struct conformance_fixture conformance_tcp;       /* on 127.0.0.1 */
extern const struct conformance_fixture conformance_tcp_ipv6;  /* on ::1, with probes */
extern const struct conformance_fixture conformance_ucx;
extern const struct conformance_fixture conformance_verbs_mcast;   /* on all of the host's RDMA devices in turn */
extern const struct conformance_fixture conformance_verbs_p2p;     /* over all RDMA devices, shared receives */
extern const struct conformance_fixture conformance_verbs_p2p_own; /* on one device, a receive queue each */

#endif
