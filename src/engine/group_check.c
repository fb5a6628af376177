/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What holds in a group between two calls, for tests that look after every progress. Normal path: the group's own
 * state, its connections, then each queue, request and relay. Never fails; what does not hold ends the process.
 */
#include <assert.h>

#include "engine/group.h"
#include "engine/relay.h"
#include "engine/request.h"

/* What a step leaves behind. */
static void check_step(const struct tt_group *group)
{
    assert(!group->more && !group->unsettled);
    assert(group->trouble == TUTTI_OK || group->member.status != TUTTI_OK || group->stepping_needed);
    assert(group->party.owes == tt_group_owes(group));
    if (atomic_load_explicit(&group->failed, memory_order_relaxed)) {
        assert(group->failure_text[0] != '\0');
    } else {
        assert(group->member.status == TUTTI_OK);
        assert(atomic_load_explicit(&group->failed_rank, memory_order_relaxed) == -1);
    }
}

static void check_peers(const struct tt_group *group)
{
    assert(group->directory.size == group->size);
    assert(group->peers[group->rank] == NULL);
    for (uint32_t rank = 0; rank < group->size; rank++) {
        const struct tt_peer *peer = group->peers[rank];

        assert(peer == NULL || peer->users > 0);
        assert(peer == NULL || peer->context_id == group->directory.contexts[rank]);
    }
    for (uint32_t i = 0; i < group->member.neighbour_count; i++) {
        assert(group->peers[group->member.neighbours[i]] != NULL);
    }
}

static void check_queues(const struct tt_group *group)
{
    for (uint32_t s = 0; s < group->queue_count; s++) {
        const struct tt_queue *queue = &group->queues[s];

        tt_queue_check(queue);
        assert(queue->receiver.rank == group->rank);
        assert(queue->receiver.size == group->size);
        assert(queue->mcast != NULL || !group->probed);
        assert(atomic_load_explicit(&queue->frontier, memory_order_relaxed) == group->member.oldest);
    }
}

/* A tag is of one collective at a time: what is published under a request's is its own. */
static void check_streams(const struct tt_group *group, const struct tt_request *request)
{
    const struct tt_collective *collective = &request->collective;
    uint32_t tag = tt_tag_of_sequence(collective->sequence, tt_method_row(request->options.method)->keeps_copies);

    for (uint32_t s = 0; collective->receiving.published && s < collective->config.terms.subgroups; s++) {
        const struct tt_stream *stream =
            atomic_load_explicit(&group->queues[s].receiver.streams[tag], memory_order_relaxed);

        assert(stream == NULL || stream == &request->streams[s]);
        assert(stream == NULL || !collective->receiving.freezing);
    }
}

static void check_requests(const struct tt_group *group)
{
    struct tt_request *const *end = &group->active;
    bool in_line = false;
    uint32_t active = 0;

    for (const struct tt_request *request = group->active; request != NULL; request = request->next) {
        end = &request->next;
        active++;
        assert(!in_line || request->collective.state == TT_COLLECTIVE_IDLE);
        in_line = request->collective.state == TT_COLLECTIVE_IDLE;
        assert(active <= group->request_count); /* nobody twice, and no circle */
        assert(request->group == group);
        assert(!atomic_load_explicit(&request->done, memory_order_relaxed));
        assert(request->collective.sequence >= group->member.oldest);
        assert(request->collective.sequence < group->member.next_sequence);
        tt_request_check(request);
        check_streams(group, request);
    }
    assert(end == group->active_end);
}

void tt_group_check(const struct tt_group *group)
{
    assert(group->engine != NULL);
    assert(group->network != NULL);
    assert(group->chunk_bytes > 0);
    assert(group->chains <= group->size);
    assert(group->member.config.rank == group->rank);
    assert(group->member.config.size == group->size);
    assert(group->member.config.group == group->party.key);
    tt_member_check(&group->member);
    tt_copies_check(&group->copies);
    check_step(group);
    check_peers(group);
    check_queues(group);
    check_requests(group);
    for (const struct tt_relay *relay = group->relays; relay != NULL; relay = relay->next) {
        assert(relay->group == group);
        tt_relay_check(relay);
    }
}
