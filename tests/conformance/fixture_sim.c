/* SPDX-License-Identifier: BSD-3-Clause */
/* The simulator's fixtures: a quiet network, one that delays and doubles, as the contracts allow, and one with UC. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/log.h"
#include "fabric/sim/sim.h"
#include "fixture.h"

static const char *create_from(const struct tt_sim_options *options, void **world)
{
    struct tt_sim *sim = tt_sim_create(options);
    if (sim == NULL) {
        fail_msg("%s", tt_last_error());
    }
    *world = sim;
    return NULL;
}

static const char *create(void **world)
{
    struct tt_sim_options options;
    tt_sim_options_init(&options, CONFORMANCE_MEMBERS);
    return create_from(&options, world);
}

static const char *create_late(void **world)
{
    struct tt_sim_options options;
    tt_sim_options_init(&options, CONFORMANCE_MEMBERS);
    options.seed = 3;
    options.p2p_packet_bytes = 1500;
    options.frame_bytes = TT_P2P_MAX_FRAME_BYTES;
    options.faults = (struct tt_sim_faults){
        .reorder_ppm = 200000, .spike_ppm = 10000, .reorder_ns = 50 * TT_NS_PER_US, .spike_ns = 20 * TT_NS_PER_US};
    return create_from(&options, world);
}

static const char *create_uc(void **world)
{
    struct tt_sim_options options;
    tt_sim_options_init(&options, CONFORMANCE_MEMBERS);
    options.uc_packet_bytes = 300;
    return create_from(&options, world);
}

/* The bodies keep to the contracts themselves; the simulator watches them. */
static void destroy(void *world)
{
    if (tt_sim_violations(world) > 0) {
        fail_msg("%s", tt_sim_violation_text(world, 0));
    }
    tt_sim_destroy(world);
}

static uint64_t now_ns(void *world)
{
    return tt_sim_now(world);
}

static void pump(void *world, uint64_t step_ns)
{
    const uint64_t next_ns = tt_sim_next_event_time(world);
    const uint64_t end_ns = tt_sim_now(world) + step_ns;
    tt_sim_advance(world, next_ns < end_ns ? next_ns : end_ns);
}

static struct tt_mcast *mcast(void *world, uint32_t member)
{
    return tt_sim_mcast(world, member);
}

static void mcast_address(void *world, uint32_t index, struct tt_mcast_address *address)
{
    (void)world;
    *address = (struct tt_mcast_address){.group_be = 100 + index, .port = 4000, .key = 0x1234 + index};
}

static struct tt_p2p *p2p(void *world, uint32_t member)
{
    return tt_sim_p2p(world, member);
}

static void p2p_forget(void *world, uint32_t member)
{
    (void)world;
    (void)member; /* the simulator knows */
}

static void kill_member(void *world, uint32_t member)
{
    tt_sim_crash(world, member, 0);
}

const struct conformance_fixture conformance_sim = {.name = "sim",
                                                    .abilities = CONFORMANCE_FULL | CONFORMANCE_KILL,
                                                    .create = create,
                                                    .destroy = destroy,
                                                    .now_ns = now_ns,
                                                    .pump = pump,
                                                    .mcast = mcast,
                                                    .mcast_address = mcast_address,
                                                    .p2p = p2p,
                                                    .p2p_forget = p2p_forget,
                                                    .kill = kill_member};

const struct conformance_fixture conformance_sim_late = {.name = "sim-late",
                                                         .abilities = CONFORMANCE_FULL | CONFORMANCE_KILL,
                                                         .create = create_late,
                                                         .destroy = destroy,
                                                         .now_ns = now_ns,
                                                         .pump = pump,
                                                         .mcast = mcast,
                                                         .mcast_address = mcast_address,
                                                         .p2p = p2p,
                                                         .p2p_forget = p2p_forget,
                                                         .kill = kill_member};

const struct conformance_fixture conformance_sim_uc = {.name = "sim-uc",
                                                       .abilities = CONFORMANCE_WINDOWS | CONFORMANCE_FULL,
                                                       .create = create_uc,
                                                       .destroy = destroy,
                                                       .now_ns = now_ns,
                                                       .pump = pump,
                                                       .mcast = mcast,
                                                       .mcast_address = mcast_address};
