/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counts transmissions by looking at all requests in progress, which are few, so that no way in which one ends
 * can leave the count wrong. The largest count that a collective has seen goes into what it learns about the link.
 */
#include "engine/share.h"

#include "engine/group.h"
#include "engine/request.h"

static bool transmits(const struct tt_request *request)
{
    return request->options.method == TT_METHOD_MULTICAST &&
           atomic_load_explicit(&request->transmit.state, memory_order_relaxed) == TT_TRANSMIT_ACTIVE;
}

void tt_share_count(const struct tt_group *group)
{
    struct tt_network *network = group->network;
    uint32_t count = 0;

    for (const struct tt_group *other = group->engine->groups; other != NULL; other = other->next) {
        for (const struct tt_request *request = other->active; request != NULL; request = request->next) {
            count += other->network == network && transmits(request);
        }
    }
    atomic_store_explicit(&network->transmissions, count, memory_order_relaxed);
    for (const struct tt_group *other = group->engine->groups; other != NULL; other = other->next) {
        for (struct tt_request *request = other->active; request != NULL; request = request->next) {
            struct tt_pace_sample *sample = &request->collective.sample;

            if (other->network == network && transmits(request) && sample->share < count) {
                sample->share = count;
            }
        }
    }
}
