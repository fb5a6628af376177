/* SPDX-License-Identifier: BSD-3-Clause */
/* A group's counters, put together from the queues, the kernels, the member machine and the group's own. Never fails.
 */
#include <assert.h>

#include "engine/group.h"
#include "engine/network.h"

static uint64_t read_counter(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static void add_queue(const struct tt_queue *queue, struct tutti_counters *counters)
{
    struct tt_mcast_counters mcast = {0};

    assert(queue->mcast != NULL);
    queue->mcast->ops->counters(queue->mcast, &mcast);
    counters->mcast_datagrams_sent += mcast.datagrams_sent;
    counters->mcast_bytes_sent += mcast.bytes_sent;
    counters->mcast_datagrams_received += mcast.datagrams_received;
    counters->mcast_bytes_received += mcast.bytes_received;
    counters->drops_key += mcast.drops_key;
    counters->drops_length += mcast.drops_length + read_counter(&queue->receiver.length);
    counters->drops_own += mcast.drops_own;
    counters->drops_injected += mcast.drops_injected;
    counters->chunks_multicast += read_counter(&queue->receiver.placed);
    counters->drops_stale += read_counter(&queue->receiver.stale);
    counters->drops_range += read_counter(&queue->receiver.range);
    counters->drops_source += read_counter(&queue->receiver.source);
    counters->drops_duplicate += read_counter(&queue->receiver.duplicate);
}

void tt_group_read_counters(const struct tt_group *group, struct tutti_counters *counters)
{
    *counters = (struct tutti_counters){.struct_size = counters->struct_size};
    for (uint32_t s = 0; s < group->queue_count; s++) {
        add_queue(&group->queues[s], counters);
    }
    counters->p2p_frames_sent = read_counter(&group->frames_sent);
    counters->p2p_frames_received = read_counter(&group->frames_received);
    counters->p2p_bytes_sent = read_counter(&group->frame_bytes_sent) + read_counter(&group->bytes_served);
    counters->p2p_bytes_received = read_counter(&group->frame_bytes_received) + read_counter(&group->bytes_fetched);
    counters->chunks_repaired = read_counter(&group->chunks_repaired);
    counters->chunks_fetched = read_counter(&group->chunks_fetched);
    counters->cutoffs = read_counter(&group->cutoffs);
    counters->repair_rounds = read_counter(&group->repair_rounds);
    counters->credit_stalls = read_counter(&group->credit_stalls);
    counters->p2p_probes_sent = read_counter(&group->network->probes_sent);
    counters->drops_frame = read_counter(&group->drops_frame) + read_counter(&group->drops_sender);
    if (group->engine->wakeup != NULL) {
        counters->wakeups = read_counter(&group->engine->wakeup->wakeups);
    }
}
