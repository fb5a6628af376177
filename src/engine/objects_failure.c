/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Why an object group has failed, in a sentence: who it is about, and what is known of it here. Composed once, before
 * anybody can see that the group has failed.
 */
#include <assert.h>
#include <stdio.h>

#include "base/log.h"
#include "engine/objects.h"

static void describe_mismatch(struct tt_objects *objects, int rank)
{
    struct tt_object_terms here = tt_object_terms(&objects->machine.config), there = objects->machine.mismatch;
    const char *word = there.algorithm < TT_RDMC_ALGORITHM_COUNT ? tt_rdmc_word((enum tt_rdmc_algorithm)there.algorithm)
                                                                 : "an unknown algorithm";

    if (there.credit == 0) { /* another member found it out */
        snprintf(objects->failure_text, sizeof objects->failure_text,
                 "members disagree about an object group: rank %d has other options than another member", rank);
        return;
    }
    snprintf(
        objects->failure_text, sizeof objects->failure_text,
        "members disagree about an object group: rank %u has %s, blocks of %u bytes (0: by size), credit %u; rank %d "
        "has %s, blocks of %u bytes, credit %u%s",
        objects->group->rank, tt_rdmc_word(objects->machine.config.algorithm), here.block_bytes, here.credit, rank,
        word, there.block_bytes, there.credit, here.racks != there.racks ? ", and other racks" : "");
}

/* Why is known to who was connected to it; the others have heard of it from these. */
static void describe_member(struct tt_objects *objects, uint32_t member, int rank)
{
    const char *reason = "";

    for (uint32_t i = 0; i < objects->machine.config.peer_count; i++) {
        if (objects->machine.config.peers[i].member == member && objects->peers[i] != NULL) {
            reason = objects->peers[i]->reason;
        }
    }
    if (objects->machine.culprit == objects->machine.config.member && member != objects->machine.config.member) {
        snprintf(objects->failure_text, sizeof objects->failure_text,
                 "a member failed: rank %d cannot reach this rank, %u", rank, objects->group->rank);
        return;
    }
    snprintf(objects->failure_text, sizeof objects->failure_text, "a member failed: rank %d%s%s%s", rank,
             reason[0] != '\0' ? " (" : "", reason, reason[0] != '\0' ? ")" : "");
}

/* A member that has joined something else than what is waited for here does not come. */
static void describe_missing(struct tt_objects *objects, uint32_t member, int rank)
{
    const struct tt_object_config *config = &objects->machine.config;
    uint32_t index = tt_object_find_peer(&objects->machine, member);
    struct tt_stray_join stray = {0};
    int length;

    if (objects->machine.is_joining && rank == (int)objects->group->rank) {
        snprintf(objects->failure_text, sizeof objects->failure_text,
                 "timed out: the other members have waited for this rank, %d, in vain", rank);
        return;
    }
    length = snprintf(objects->failure_text, sizeof objects->failure_text, "timed out: missing rank %d", rank);
    if (objects->machine.is_joining && index != TT_OBJECT_NO_MEMBER) {
        stray = objects->peers[index]->stray;
    }
    if (stray.key != 0 && stray.members != config->members) {
        snprintf(objects->failure_text + length, sizeof objects->failure_text - (size_t)length,
                 ", which has joined an object group of other members, or in another order");
    } else if (stray.key != 0) {
        snprintf(objects->failure_text + length, sizeof objects->failure_text - (size_t)length,
                 ", which has joined object group %u of these members; here it is number %u", stray.created,
                 config->created);
    }
}

/* What the system did not give is known to the member that asked for it. */
static void describe_refusal(struct tt_objects *objects, tutti_status status, int rank)
{
    const char *reason = objects->refusal != NULL ? objects->refusal : "";
    char about[24] = "";

    if (rank >= 0) {
        snprintf(about, sizeof about, ", rank %d", rank);
    }
    for (uint32_t i = 0; i < objects->machine.config.peer_count; i++) {
        if (rank == (int)objects->group->rank && objects->peers[i] != NULL && objects->peers[i]->starved) {
            reason = objects->peers[i]->reason;
        }
    }
    snprintf(objects->failure_text, sizeof objects->failure_text, "the object group has failed: %s%s%s%s%s",
             tutti_status_text(status), about, reason[0] != '\0' ? " (" : "", reason, reason[0] != '\0' ? ")" : "");
}

void tt_objects_note_failure(struct tt_objects *objects, tutti_status status, uint32_t member)
{
    int rank;

    assert(status != TUTTI_OK);
    assert(member < objects->machine.config.member_count || member == TT_OBJECT_NO_MEMBER);
    rank = member == TT_OBJECT_NO_MEMBER ? -1 : (int)objects->members[member];
    switch (objects->refusal != NULL ? TUTTI_ERR_CANCELED : status) { /* what a user's status is about is not known */
    case TUTTI_ERR_PEER_FAILED:
        describe_member(objects, member, rank);
        break;
    case TUTTI_ERR_TIMED_OUT:
        describe_missing(objects, member, rank);
        break;
    case TUTTI_ERR_MISMATCH:
        describe_mismatch(objects, rank);
        break;
    default:
        describe_refusal(objects, status, rank);
        break;
    }
    atomic_store_explicit(&objects->failed_rank, rank, memory_order_release);
    if (objects->owner == NULL) { /* a relay's failure is its group's, which says so, or has */
        TT_LOG(TT_PART_ENGINE, TT_LOG_ERROR, "%s", objects->failure_text);
    }
}
