/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completion queues. Normal path: one with a channel of its own, whose descriptor does not block; without a lock,
 * unless threads share their queue pairs, and so what these refer to. Failures carry errno.
 */
#include <errno.h>
#include <fcntl.h>

#include "endpoint/calls.h"
#include "fabric/verbs/mcast_queue.h"

bool tt_verbs_completions_init(struct tt_verbs_completions *completions, const struct tt_verbs_device *device,
                               const struct tt_endpoint_lane *lane, uint32_t entries)
{
    bool one_thread = !device->shares_queue_pairs;

    completions->channel = ibv_create_comp_channel(lane->context);
    if (completions->channel == NULL) {
        return false;
    }
    int flags = fcntl(completions->channel->fd, F_GETFL);
    if (flags < 0 || fcntl(completions->channel->fd, F_SETFL, flags | O_NONBLOCK) != 0) {
        return false;
    }
    completions->queue =
        tt_endpoint_create_cq(device->calls, lane->context, entries, completions->channel, &one_thread);
    return completions->queue != NULL;
}

void tt_verbs_completions_fini(struct tt_verbs_completions *completions)
{
    if (completions->queue != NULL) {
        ibv_destroy_cq(completions->queue);
    }
    if (completions->channel != NULL) {
        ibv_destroy_comp_channel(completions->channel);
    }
}

uint32_t tt_verbs_completions_quiet(struct tt_verbs_completions *completions)
{
    struct ibv_cq *queue;
    void *context;
    uint32_t events = 0;

    while (ibv_get_cq_event(completions->channel, &queue, &context) == 0) {
        events++;
    }
    if (events > 0) {
        ibv_ack_cq_events(completions->queue, events);
    }
    return events;
}
