/* SPDX-License-Identifier: BSD-3-Clause */
/* The fixture of the lossy decorator: with a loss of zero it must be what is below it, here the simulator with UC. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "fabric/lossy.h"
#include "fixture_members.h"

struct lossy_world {
    void *sim;
    void *members; /* the decorators */
};

static void destroy(void *argument)
{
    struct lossy_world *world = argument;
    if (world->members != NULL) {
        members_mcast_destroy(world->members);
    }
    conformance_sim_uc.destroy(world->sim);
    free(world);
}

static tutti_status make_member(void *sim, uint32_t member, struct tt_mcast **mcast)
{
    return tt_lossy_create(conformance_sim_uc.mcast(sim, member), 0, 1, mcast);
}

static const char *create(void **result)
{
    struct lossy_world *world = calloc(1, sizeof(*world));
    assert_non_null(world);
    const char *reason = conformance_sim_uc.create(&world->sim);
    if (reason != NULL) {
        free(world);
        return reason;
    }
    reason = members_mcast_create(make_member, world->sim, &world->members);
    if (reason != NULL) {
        destroy(world);
        return reason;
    }
    *result = world;
    return NULL;
}

static uint64_t now_ns(void *argument)
{
    const struct lossy_world *world = argument;
    return conformance_sim_uc.now_ns(world->sim);
}

static void pump(void *argument, uint64_t step_ns)
{
    const struct lossy_world *world = argument;
    conformance_sim_uc.pump(world->sim, step_ns);
}

static struct tt_mcast *mcast(void *argument, uint32_t member)
{
    const struct lossy_world *world = argument;
    return members_mcast(world->members, member);
}

static void mcast_address(void *argument, uint32_t index, struct tt_mcast_address *address)
{
    const struct lossy_world *world = argument;
    conformance_sim_uc.mcast_address(world->sim, index, address);
}

const struct conformance_fixture conformance_lossy = {.name = "lossy",
                                                      .abilities = CONFORMANCE_WINDOWS | CONFORMANCE_FULL,
                                                      .create = create,
                                                      .destroy = destroy,
                                                      .now_ns = now_ns,
                                                      .pump = pump,
                                                      .mcast = mcast,
                                                      .mcast_address = mcast_address};
