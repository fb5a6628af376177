/* SPDX-License-Identifier: BSD-3-Clause */
/* The fixture of the ucx provider: four instances in one process. */
#include "fabric/ucx/ucx.h"
#include "fixture_members.h"

static tutti_status make_member(void *argument, uint32_t member, struct tt_p2p **p2p)
{
    (void)argument, (void)member;
    return tt_ucx_create(NULL, p2p);
}

static const char *create(void **world)
{
    return members_p2p_create(make_member, NULL, true, world);
}

const struct conformance_fixture conformance_ucx = {.name = "ucx",
                                                    .create = create,
                                                    .destroy = members_p2p_destroy,
                                                    .now_ns = members_now_ns,
                                                    .pump = members_pump,
                                                    .p2p = members_p2p,
                                                    .p2p_forget = members_p2p_forget};
