/* SPDX-License-Identifier: BSD-3-Clause */
/* Worlds that are arrays of providers of this process; see the header. */
#include "fixture_members.h"

#include <arpa/inet.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/log.h"

enum { NAP_NS = 50000 };

struct mcast_members {
    struct tt_mcast *mcast[CONFORMANCE_MEMBERS];
};

struct p2p_members {
    members_make_p2p *make;
    void *argument;
    struct tt_p2p *p2p[CONFORMANCE_MEMBERS];
};

const char *members_reason(tutti_status status)
{
    if (status != TUTTI_ERR_NOT_SUPPORTED) {
        fail_msg("%s: %s", tutti_status_text(status), tt_last_error());
    }
    return tt_last_error();
}

const char *members_mcast_create(members_make_mcast *make, void *argument, void **world)
{
    struct mcast_members *members = calloc(1, sizeof(*members));
    assert_non_null(members);
    for (uint32_t i = 0; i < CONFORMANCE_MEMBERS; i++) {
        tutti_status status = make(argument, i, &members->mcast[i]);
        if (status != TUTTI_OK) {
            const char *reason = members_reason(status);
            members_mcast_destroy(members);
            return reason;
        }
    }
    *world = members;
    return NULL;
}

void members_mcast_destroy(void *world)
{
    struct mcast_members *members = world;
    for (uint32_t i = 0; i < CONFORMANCE_MEMBERS; i++) {
        if (members->mcast[i] != NULL) {
            members->mcast[i]->ops->destroy(members->mcast[i]);
        }
    }
    free(members);
}

struct tt_mcast *members_mcast(void *world, uint32_t member)
{
    const struct mcast_members *members = world;
    return members->mcast[member];
}

const char *members_p2p_create(members_make_p2p *make, void *argument, bool first, void **world)
{
    struct p2p_members *members = calloc(1, sizeof(*members));
    assert_non_null(members);
    members->make = make;
    members->argument = argument;
    tutti_status status = first ? make(argument, 0, &members->p2p[0]) : TUTTI_OK;
    if (status != TUTTI_OK) {
        const char *reason = members_reason(status);
        members_p2p_destroy(members);
        return reason;
    }
    *world = members;
    return NULL;
}

void members_p2p_destroy(void *world)
{
    struct p2p_members *members = world;
    for (uint32_t i = 0; i < CONFORMANCE_MEMBERS; i++) {
        if (members->p2p[i] != NULL) {
            members->p2p[i]->ops->destroy(members->p2p[i]);
        }
    }
    free(members);
}

struct tt_p2p *members_p2p(void *world, uint32_t member)
{
    struct p2p_members *members = world;
    struct tt_p2p **p2p = &members->p2p[member];
    return *p2p != NULL || members->make(members->argument, member, p2p) == TUTTI_OK ? *p2p : NULL;
}

void members_p2p_forget(void *world, uint32_t member)
{
    struct p2p_members *members = world;
    members->p2p[member] = NULL;
}

uint64_t members_now_ns(void *world)
{
    (void)world;
    return tt_clock_now_ns();
}

void members_pump(void *world, uint64_t step_ns)
{
    (void)world;
    const struct timespec nap = {.tv_nsec = step_ns < NAP_NS ? (long)step_ns : NAP_NS};
    (void)ppoll(NULL, 0, &nap, NULL);
}

void members_mcast_address(uint32_t range, uint32_t index, struct tt_mcast_address *address)
{
    const uint32_t process = (uint32_t)getpid();
    address->group_be = htonl(range | ((process & 0xFF) << 8) | (index + 1));
    address->port = (uint16_t)(10000 + process % 20000);
    address->key = ((uint64_t)process << 32) | (index + 1);
}
