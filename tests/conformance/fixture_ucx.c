/* SPDX-License-Identifier: BSD-3-Clause */
/* The fixture of the ucx provider: four instances in one process. */
#include <poll.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "fabric/ucx/ucx.h"
#include "fixture.h"

struct ucx_world {
    struct tt_p2p *p2p[CONFORMANCE_MEMBERS];
};

static void destroy(void *argument)
{
    struct ucx_world *world = argument;
    for (uint32_t i = 0; i < CONFORMANCE_MEMBERS; i++) {
        if (world->p2p[i] != NULL) {
            world->p2p[i]->ops->destroy(world->p2p[i]);
        }
    }
    free(world);
}

static const char *create(void **result)
{
    struct ucx_world *world = calloc(1, sizeof(*world));
    if (world == NULL) {
        return "out of memory";
    }
    if (tt_ucx_create(NULL, &world->p2p[0]) != TUTTI_OK) { /* the first says whether it can be had here */
        destroy(world);
        return tt_last_error();
    }
    *result = world;
    return NULL;
}

static uint64_t now_ns(void *world)
{
    (void)world;
    return tt_clock_now_ns();
}

static void pump(void *world, uint64_t step_ns)
{
    (void)world;
    const struct timespec nap = {.tv_nsec = step_ns < 50000 ? (long)step_ns : 50000};
    (void)ppoll(NULL, 0, &nap, NULL);
}

static struct tt_p2p *p2p(void *argument, uint32_t member)
{
    struct ucx_world *world = argument;
    if (world->p2p[member] == NULL && tt_ucx_create(NULL, &world->p2p[member]) != TUTTI_OK) {
        return NULL;
    }
    return world->p2p[member];
}

static void p2p_forget(void *argument, uint32_t member)
{
    struct ucx_world *world = argument;
    world->p2p[member] = NULL;
}

const struct conformance_fixture conformance_ucx = {.name = "ucx",
                                                    .create = create,
                                                    .destroy = destroy,
                                                    .now_ns = now_ns,
                                                    .pump = pump,
                                                    .p2p = p2p,
                                                    .p2p_forget = p2p_forget,
                                                    .why_no_kill = "its members share a process; tests/unit/test_ucx.c "
                                                                   "kills real ones"};
