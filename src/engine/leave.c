/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The end of a group. Normal path: others may still need what this rank has ended, so it stays until they do not; then
 * it says goodbye, and all that the group had goes. Failures: others that do not finish are left behind, and the log
 * says so; in a group that has failed nobody is waited for any longer than its collectives would.
 */
#include <assert.h>
#include <stdlib.h>

#include "base/log.h"
#include "engine/group.h"
#include "engine/objects.h"
#include "engine/relay.h"
#include "engine/triggers.h"

#define SETTLE_NS (5 * TT_NS_PER_S)
/* Who is so late was stopped, and has not looked at what came meanwhile. */
#define STOOD_STILL_NS (100 * TT_NS_PER_MS)

static bool owes_nothing(const void *group)
{
    return !tt_group_is_needed(group);
}

void tt_group_settle(struct tt_group *group)
{
    struct tt_engine *engine = group->engine;
    struct tt_member_event flush = {.type = TT_MEMBER_FLUSH, .now_ns = tt_engine_now(engine)};
    bool failed = group->member.status != TUTTI_OK;
    uint64_t patience_ns = failed ? TT_COLLECTIVE_PATIENCE_NS : SETTLE_NS, until_ns = flush.now_ns + patience_ns;

    tt_triggers_flush(group->triggers);
    if (owes_nothing(group)) {
        return;
    }
    tt_group_step(group, &flush);
    tt_engine_wait_for(engine, owes_nothing, group, until_ns);
    if (!owes_nothing(group) && tt_engine_now(engine) >= until_ns + STOOD_STILL_NS) {
        tt_engine_wait_for(engine, owes_nothing, group, tt_engine_now(engine) + patience_ns);
    }
    if (!owes_nothing(group) && !failed) {
        TT_LOG(TT_PART_ENGINE, TT_LOG_WARN, "rank %u leaves its group although others have not finished", group->rank);
    }
}

/* What a device has not sent yet it may keep for a while, in which others go on; it is not theirs any more. */
static void drain_queues(struct tt_group *group)
{
    struct tt_engine *engine = group->engine;

    assert(!group->party.awake);
    for (uint32_t s = 0; s < group->queue_count && group->queues != NULL; s++) {
        tt_queue_withdraw(&group->queues[s], engine);
    }
    for (uint32_t s = 0; s < group->queue_count && group->queues != NULL; s++) {
        struct tt_mcast_queue *queue = group->queues[s].mcast;

        if (queue != NULL && queue->ops->drain != NULL) {
            tt_engine_unlock(engine);
            queue->ops->drain(queue);
            tt_engine_lock(engine);
        }
    }
}

void tt_group_leave(struct tt_group *group)
{
    struct tt_engine *engine = group->engine;
    struct tt_member_event bye = {.type = TT_MEMBER_LEAVE, .now_ns = tt_engine_now(engine)};

    assert(group->objects_count == 0); /* they need it */
    if (tt_member_owes(&group->member) && tt_member_is_read(&group->member)) {
        /* The copies go: a read that is refused would break the connection in a less orderly way. */
        tt_network_abandon(group->network, group->peers[tt_rank_add(group->rank, 1, group->size)]);
    }
    tt_relays_leave(group);
    tt_triggers_leave(group->triggers);
    tt_group_step(group, &bye);
    tt_objects_forget(group);
    tt_group_unlist(group);
    drain_queues(group);
    tt_group_free(group);
}

void tt_group_free(struct tt_group *group)
{
    assert(!group->party.awake);
    assert(group->relays == NULL);
    while (group->objects_counts != NULL) {
        struct tt_objects_count *count = group->objects_counts;

        group->objects_counts = count->next;
        free(count);
    }
    for (uint32_t s = 0; s < group->queue_count && group->queues != NULL; s++) {
        tt_queue_detach(&group->queues[s], group->engine);
        tt_early_fini(&group->queues[s].receiver.log);
    }
    tt_member_fini(&group->member);
    for (uint32_t rank = 0; rank < group->size && group->peers != NULL; rank++) {
        if (group->peers[rank] != NULL) {
            tt_network_disconnect(group->network, group->peers[rank]);
        }
    }
    tt_directory_fini(&group->directory);
    tt_copies_fini(&group->copies);
    free(group->copy_entries);
    free(group->probe_payload);
    free(group->queues);
    free(group->peers);
    free(group->hosts);
    free(group->around);
    free(group->names);
    free(group->slots);
    free(group->present);
    free(group->heard);
    free(group->speakers);
    free(group);
}
