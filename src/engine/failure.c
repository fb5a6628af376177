/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Failure sentences: which rank, what it did or did not do, and for a mismatch what the two ranks said. Composed by the
 * control context before any request of the group ends with the error.
 */
#include "engine/failure.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/element.h"
#include "base/log.h"
#include "base/ranks.h"
#include "engine/network.h"
#include "engine/triggers.h"
#include "proto/rollcall.h"

enum { USUAL_MTU = 1500 };

const char *tt_failure_rank(const struct tt_group *group, uint32_t rank, char text[TT_RANK_TEXT_BYTES])
{
    const char *name = group->names != NULL && rank < group->size ? group->names[rank].text : "";

    (void)snprintf(text, TT_RANK_TEXT_BYTES, "rank %u%s%s", rank, name[0] != '\0' ? " on " : "", name);
    return text;
}

const char *tt_failure_mtu(const struct tt_group *group, char text[TT_MTU_TEXT_BYTES])
{
    text[0] = '\0';
    if (group->names != NULL && group->network->interface.mtu > USUAL_MTU) {
        (void)snprintf(
            text, TT_MTU_TEXT_BYTES,
            "; short messages do get through: packets as long as the MTU of %s, %u bytes, may vanish on the way "
            "(`tutti doctor --peer` says which pass)",
            group->network->interface.name, group->network->interface.mtu);
    }
    return text;
}

static int describe_combining(char *text, size_t capacity, const struct tt_collective_terms *terms)
{
    char root[24] = "", counts[32] = "";

    if (tt_kind_has_root(terms->kind)) {
        snprintf(root, sizeof root, " to root %u", terms->root);
    }
    if (terms->counts != 0) {
        snprintf(counts, sizeof counts, ", counts with digest %x", terms->counts);
    }
    return snprintf(text, capacity, "%s of %llu bytes%s (%s of %s, %u bytes an element%s; %s)",
                    tt_kind_word(terms->kind), (unsigned long long)terms->block_bytes, root,
                    tt_reduce_operation_row(terms->operation)->name, tt_type_row(terms->type)->name,
                    terms->element_bytes, counts, tt_method_row(terms->method)->name);
}

static int describe_terms(char *text, size_t capacity, const struct tt_collective_terms *terms)
{
    const char *word = tt_kind_word(terms->kind);

    if (tt_kind_row(terms->kind)->combines) {
        return describe_combining(text, capacity, terms);
    }
    if (terms->kind == TT_ALLGATHER && terms->block_bytes == 0) {
        return snprintf(text, capacity, "barrier, or allgather of 0 bytes a rank (%s)",
                        tt_method_row(terms->method)->name);
    }
    if (tt_kind_has_root(terms->kind) && tt_kind_has_blocks(terms->kind)) {
        return snprintf(text, capacity, "%s of %llu bytes a rank, root %u (%s)", word,
                        (unsigned long long)terms->block_bytes, terms->root, tt_method_row(terms->method)->name);
    }
    if (tt_kind_has_root(terms->kind)) {
        return snprintf(text, capacity, "%s of %llu bytes from root %u (%s, chunks of %u bytes)", word,
                        (unsigned long long)terms->block_bytes, terms->root, tt_method_row(terms->method)->name,
                        terms->chunk_bytes);
    }
    return snprintf(text, capacity, "%s of %llu bytes a rank (%s, %u chains, chunks of %u bytes)", word,
                    (unsigned long long)terms->block_bytes, tt_method_row(terms->method)->name, terms->chains,
                    terms->chunk_bytes);
}

/* Of a description, which begins with the collective's word. */
static const char *article_of(const char *description)
{
    return strchr("aeiou", description[0]) != NULL ? "an" : "a";
}

static void describe_mismatch(struct tt_group *group, uint32_t rank, char *text, size_t capacity)
{
    const struct tt_member *member = &group->member;
    char here[160], there[160];

    if (rank == TT_RANK_NONE) {
        snprintf(text, capacity, "ranks disagree about a collective: messages came that it does not have");
        return;
    }
    if (member->mismatch_here.kind == TT_KIND_NONE) {
        snprintf(text, capacity,
                 "ranks disagree about a collective: rank %u saw that rank %u posted a different one at the same place "
                 "in the order",
                 member->noticed_by, rank);
        return;
    }
    if (member->mismatch_here.before != member->mismatch_there.before) {
        describe_terms(here, sizeof here, &member->mismatch_here);
        snprintf(text, capacity,
                 "ranks disagree about a collective: rank %u and rank %u posted different ones in an order, none of "
                 "which begins with a barrier, before %s %s",
                 member->noticed_by, rank, article_of(here), here);
        return;
    }
    describe_terms(here, sizeof here, &member->mismatch_here);
    describe_terms(there, sizeof there, &member->mismatch_there);
    snprintf(text, capacity, "ranks disagree about a collective: rank %u posted %s %s, rank %u %s %s",
             member->noticed_by, article_of(here), here, rank, article_of(there), there);
}

static bool is_missing(const void *set, uint32_t rank)
{
    return !tt_member_present(set, rank);
}

/* Names who did not answer the roll call; a rank that held none itself knows only whom it was told about. */
static void describe_timeout(struct tt_group *group, uint32_t rank, char *text, size_t capacity)
{
    const struct tt_member *member = &group->member;
    char missing[256], name[TT_RANK_TEXT_BYTES], by[TT_RANK_TEXT_BYTES], mtu[TT_MTU_TEXT_BYTES];

    if (rank == TT_RANK_NONE) {
        snprintf(text, capacity, "timed out: all ranks are there, but the collective did not end in time%s",
                 tt_failure_mtu(group, mtu));
    } else if (member->rollcall_active && !tt_member_present(member, rank)) {
        tt_ranks_format(is_missing, member, group->size, missing, sizeof missing);
        if (tt_rollcall_is_unanswered(member)) {
            snprintf(text, capacity, "timed out: missing %s: nobody answers %s, whose own network may be at fault%s",
                     missing, tt_failure_rank(group, group->rank, name), tt_failure_mtu(group, mtu));
        } else {
            snprintf(text, capacity, "timed out: missing %s", missing);
        }
    } else if (rank == group->rank && member->noticed_by != rank) { /* it was away too long, or stopped */
        snprintf(text, capacity, "timed out: %s waited for this rank, %s",
                 tt_failure_rank(group, member->noticed_by, by), tt_failure_rank(group, rank, name));
    } else {
        snprintf(text, capacity, "timed out: missing %s", tt_failure_rank(group, rank, name));
    }
}

static uint64_t count_refused(const struct tt_group *group)
{
    struct tt_p2p_counters counters = {0};

    if (group->network != NULL) {
        group->network->p2p->ops->counters(group->network->p2p, &counters);
    }
    return counters.refused;
}

static bool has_refused(const struct tt_group *group)
{
    return count_refused(group) > group->refused_before;
}

void tt_failure_begin(struct tt_group *group)
{
    group->refused_before = count_refused(group);
}

/* NULL: not connected. */
static const struct tt_peer *peer_of(const struct tt_group *group, uint32_t rank)
{
    const struct tt_peer *peer = rank < group->size && group->peers != NULL ? group->peers[rank] : NULL;

    return peer == NULL && rank < group->size ? tt_triggers_peer(group->triggers, rank) : peer;
}

/* Another rank says that it cannot reach this one. */
static bool is_accused(const struct tt_group *group)
{
    return group->member.status == TUTTI_ERR_PEER_FAILED && group->member.culprit == group->rank &&
           group->member.noticed_by != group->rank;
}

uint32_t tt_failure_about(const struct tt_group *group, uint32_t rank)
{
    return is_accused(group) && has_refused(group) ? group->rank : rank;
}

/* Why is known to who was connected to it; the others have heard of it from these. */
static void describe_peer(const struct tt_group *group, uint32_t rank, char *text, size_t capacity)
{
    const struct tt_peer *peer = peer_of(group, rank);
    const char *reason = peer != NULL ? peer->reason : "";
    char name[TT_RANK_TEXT_BYTES], own[TT_RANK_TEXT_BYTES], noticed_by[TT_RANK_TEXT_BYTES];

    tt_failure_rank(group, rank, name);
    tt_failure_rank(group, group->member.noticed_by, noticed_by);
    if (is_accused(group)) {
        snprintf(text, capacity, "a peer failed: %s cannot reach this rank, %s%s", name,
                 tt_failure_rank(group, group->rank, own),
                 has_refused(group) ? ": no descriptor or memory was left here for its connection (ulimit -n, -v)"
                                    : "");
    } else if (tt_member_has_left(&group->member, rank)) {
        snprintf(text, capacity, "a peer failed: %s has left the group, in which it is needed", name);
    } else if (group->names == NULL) { /* all are on one host */
        snprintf(text, capacity, "a peer failed: %s%s%s%s", name, reason[0] != '\0' ? " (" : "", reason,
                 reason[0] != '\0' ? ")" : "");
    } else if (reason[0] == '\0') {
        snprintf(text, capacity, "a peer failed: %s cannot reach %s", noticed_by, name);
    } else {
        snprintf(text, capacity, "a peer failed: %s cannot reach %s: %s", tt_failure_rank(group, group->rank, own),
                 name, reason);
    }
}

/* What the system did not give is known to the rank that asked for it. */
static void describe_refusal(const struct tt_group *group, tutti_status status, uint32_t rank, char *text,
                             size_t capacity)
{
    char name[TT_RANK_TEXT_BYTES], peer_name[TT_RANK_TEXT_BYTES];
    const struct tt_peer *starved = NULL;
    uint32_t other = 0;

    for (uint32_t i = 0; rank == group->rank && starved == NULL && i < group->size; i++) {
        const struct tt_peer *peer = peer_of(group, i);

        starved = peer != NULL && peer->starved ? peer : NULL;
        other = i;
    }
    if (rank == TT_RANK_NONE) {
        snprintf(text, capacity, "the group has failed: %s", tutti_status_text(status));
    } else if (starved == NULL) {
        snprintf(text, capacity, "the group has failed: %s, at %s", tutti_status_text(status),
                 tt_failure_rank(group, rank, name));
    } else {
        snprintf(text, capacity, "the group has failed: %s, at %s, for a connection to %s: %s",
                 tutti_status_text(status), tt_failure_rank(group, rank, name),
                 tt_failure_rank(group, other, peer_name), starved->reason);
    }
}

void tt_failure_note(struct tt_group *group, tutti_status status, uint32_t rank)
{
    assert(status != TUTTI_OK);
    assert(rank < group->size || rank == TT_RANK_NONE);
    if (atomic_load_explicit(&group->failed, memory_order_relaxed)) {
        return;
    }
    switch (status) {
    case TUTTI_ERR_PEER_FAILED:
        describe_peer(group, rank, group->failure_text, sizeof group->failure_text);
        break;
    case TUTTI_ERR_MISMATCH:
        describe_mismatch(group, rank, group->failure_text, sizeof group->failure_text);
        break;
    case TUTTI_ERR_TIMED_OUT:
        describe_timeout(group, rank, group->failure_text, sizeof group->failure_text);
        break;
    default:
        describe_refusal(group, status, rank, group->failure_text, sizeof group->failure_text);
        break;
    }
    rank = tt_failure_about(group, rank);
    atomic_store_explicit(&group->failed_rank, rank == TT_RANK_NONE ? -1 : (int)rank, memory_order_release);
    atomic_store_explicit(&group->failed, true, memory_order_release);
    TT_LOG(TT_PART_ENGINE, TT_LOG_ERROR, "%s", group->failure_text);
}
