/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counts transmissions by looking at all requests in progress, so that no way in which one ends can leave the count
 * wrong. That is little beside a transmission that is large enough for a barrier, and nothing is done for a smaller
 * one; there the number of requests in progress would be part of every latency. The largest count that a collective has
 * seen goes into what it learns about the link.
 */
#include "engine/share.h"

#include "engine/group.h"
#include "engine/request.h"

static bool transmits(const struct tt_request *request)
{
    return request->options.method == TT_METHOD_MULTICAST &&
           atomic_load_explicit(&request->transmit.state, memory_order_relaxed) == TT_TRANSMIT_ACTIVE;
}

void tt_share_count(const struct tt_request *request)
{
    struct tt_network *network = request->group->network;
    struct tt_group *groups = request->group->engine->groups;
    uint32_t count = 0;

    if (request->options.method != TT_METHOD_MULTICAST) {
        return;
    }
    for (const struct tt_group *group = groups; group != NULL; group = group->next) {
        for (const struct tt_request *other = group->active; other != NULL; other = other->next) {
            count += group->network == network && transmits(other);
        }
    }
    atomic_store_explicit(&network->transmissions, count, memory_order_relaxed);
    for (struct tt_group *group = groups; group != NULL; group = group->next) {
        for (struct tt_request *other = group->active; other != NULL; other = other->next) {
            struct tt_pace_sample *sample = &other->collective.sample;

            if (group->network == network && transmits(other) && sample->share < count) {
                sample->share = count;
            }
        }
    }
}
