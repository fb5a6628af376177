/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Failure sentences: which rank, what it did or did not do, and for a mismatch what the two ranks said. Composed by the
 * control context before any request of the group ends with the error.
 */
#include "engine/failure.h"

#include <stdio.h>

#include "base/log.h"
#include "base/ranks.h"

static const char *kind_name(uint8_t kind)
{
    return kind == TT_BROADCAST ? "broadcast" : kind == TT_ALLGATHER ? "allgather" : "unknown collective";
}

static int describe_terms(char *text, size_t capacity, const struct tt_collective_terms *terms)
{
    if (terms->kind == TT_BROADCAST) {
        return snprintf(text, capacity, "broadcast of %llu bytes from root %u (%s, chunks of %u bytes)",
                        (unsigned long long)terms->block_bytes, terms->root, tt_method_name(terms->method),
                        terms->chunk_bytes);
    }
    return snprintf(text, capacity, "%s of %llu bytes a rank (%s, %u chains, chunks of %u bytes)",
                    kind_name(terms->kind), (unsigned long long)terms->block_bytes, tt_method_name(terms->method),
                    terms->chains, terms->chunk_bytes);
}

static void describe_mismatch(struct tt_group *group, uint32_t rank, char *text, size_t capacity)
{
    const struct tt_member *member = &group->member;
    char here[160], there[160];

    if (member->mismatch_here.kind == 0) {
        snprintf(text, capacity,
                 "ranks disagree about a collective: another rank saw that rank %u posted a different "
                 "one at the same place in the order",
                 rank);
        return;
    }
    describe_terms(here, sizeof here, &member->mismatch_here);
    describe_terms(there, sizeof there, &member->mismatch_there);
    snprintf(text, capacity, "ranks disagree about a collective: rank %u posted a %s, rank %u a %s", group->rank, here,
             rank, there);
}

static bool is_missing(const void *set, uint32_t rank)
{
    return !tt_member_present(set, rank);
}

/* Names who did not answer the roll call; a rank that held none itself knows only whom it was told about. */
static void describe_timeout(struct tt_group *group, uint32_t rank, char *text, size_t capacity)
{
    const struct tt_member *member = &group->member;
    char missing[256];

    if (rank == TT_RANK_NONE) {
        snprintf(text, capacity, "timed out: all ranks are there, but the collective did not end in time");
    } else if (member->rollcall_active && !tt_member_present(member, rank)) {
        snprintf(text, capacity, "timed out: missing %s",
                 tt_ranks_format(is_missing, member, group->size, missing, sizeof missing));
    } else {
        snprintf(text, capacity, "timed out: missing rank %u", rank);
    }
}

void tt_failure_note(struct tt_group *group, tutti_status status, uint32_t rank)
{
    if (atomic_load_explicit(&group->failed, memory_order_relaxed)) {
        return;
    }
    switch (status) {
    case TUTTI_ERR_PEER_FAILED:
        snprintf(group->failure_text, sizeof group->failure_text, "a peer failed: rank %u", rank);
        break;
    case TUTTI_ERR_MISMATCH:
        describe_mismatch(group, rank, group->failure_text, sizeof group->failure_text);
        break;
    case TUTTI_ERR_TIMED_OUT:
        describe_timeout(group, rank, group->failure_text, sizeof group->failure_text);
        break;
    default:
        snprintf(group->failure_text, sizeof group->failure_text, "the group has failed: %s",
                 tutti_status_text(status));
        break;
    }
    atomic_store_explicit(&group->failed_rank, rank == TT_RANK_NONE ? -1 : (int)rank, memory_order_release);
    atomic_store_explicit(&group->failed, true, memory_order_release);
    TT_LOG(TT_PART_ENGINE, TT_LOG_ERROR, "%s", group->failure_text);
}
