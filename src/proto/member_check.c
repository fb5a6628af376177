/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What always holds of a membership between two steps: of its line, of its slots, of the frames that came early, and of
 * what all of these have to do with each other. The surroundings of tests call it after every step; nothing is changed.
 */
#include <assert.h>

#include "proto/collective_private.h"
#include "proto/member_private.h"
#include "proto/rollcall.h"

/* All before this one have been started here. */
static uint64_t first_not_started(const struct tt_member *member)
{
    return member->line != NULL ? member->line->sequence : member->next_sequence;
}

/* Posted, in the order of the sequence numbers up to the last one that was given out. */
static void check_line(const struct tt_member *member)
{
    struct tt_collective *const *end = &member->line;
    uint64_t sequence = first_not_started(member);

    assert(sequence >= member->oldest && sequence <= member->next_sequence);
    while (*end != NULL) {
        assert((*end)->state == TT_COLLECTIVE_IDLE);
        assert((*end)->sequence == sequence);
        tt_collective_check(*end);
        end = &(*end)->next;
        sequence++;
    }
    assert(sequence == member->next_sequence || member->status != TUTTI_OK);
    assert(member->line_end == end);
}

/* It has a place among the copies, and none is kept before it has ended. */
static void check_place(const struct tt_member *member, const struct tt_collective *collective)
{
    const struct tt_eager_entry *entry = tt_eager_find(&member->eager, collective->sequence);

    assert(entry != NULL);
    assert(!entry->kept);
    assert(tt_collective_terms_agree(&entry->terms, &collective->config.terms));
    assert(!collective->way->completion->keeps_copy || entry->start % TT_EAGER_RING_BYTES == collective->copy.offset);
}

static void check_running(const struct tt_member *member, uint64_t sequence)
{
    const struct tt_collective *collective = tt_member_slot_of(member, sequence)->collective;

    assert(collective->sequence == sequence);
    assert(sequence < tt_member_end(member));
    assert(sequence < first_not_started(member));
    assert(collective->state > TT_COLLECTIVE_IDLE && collective->state < TT_COLLECTIVE_FINISHED);
    assert(collective->config.rank == member->config.rank && collective->config.size == member->config.size);
    assert(collective->least.finished <= member->oldest);
    assert(collective->state != TT_COLLECTIVE_FAILING || collective->status == member->status);
    if (tt_way_has_place(collective->way) && member->config.size > 1) {
        check_place(member, collective);
    }
    tt_collective_check(collective);
}

/* Bits of those that mean other terms than the first are among all, and say so only of terms that are there. */
static void check_early(const struct tt_member *member, uint64_t sequence)
{
    const struct tt_member_slot *slot = tt_member_slot_of(member, sequence);

    assert(slot->early_sequence == sequence || member->status != TUTTI_OK);
    assert(sequence >= first_not_started(member) || member->status != TUTTI_OK);
    assert(slot->early_rounds >> tt_dissemination_rounds(member->config.size) == 0);
    assert((slot->early_other_rounds & ~slot->early_rounds) == 0);
    assert((slot->early_other_ready & ~(slot->early_ready | slot->early_reminded)) == 0);
    assert((slot->early_ready | slot->early_reminded | slot->early_gathered | slot->early_lost) >>
               member->neighbour_count ==
           0);
    assert(!slot->early_other_asked || slot->early_asked);
    assert(slot->early_has_terms || !slot->early_asked);
    assert(slot->early_has_terms ||
           (slot->early_rounds | slot->early_ready | slot->early_reminded | slot->early_gathered) == 0);
}

/* Those in progress, and a flight ahead of them, which is as far as others mostly are. */
static void check_slots(const struct tt_member *member)
{
    uint32_t in_flight = member->config.in_flight;
    uint64_t end = member->oldest + 2 * (uint64_t)in_flight;

    assert(first_not_started(member) <= member->oldest + in_flight || member->status != TUTTI_OK);
    for (uint64_t sequence = member->oldest; sequence < end; sequence++) {
        const struct tt_member_slot *slot = tt_member_slot_of(member, sequence);

        if (slot->collective != NULL) {
            check_running(member, sequence);
        }
        if (slot->early) {
            check_early(member, sequence);
        }
    }
}

/* Blocks are kept for a collective whose other frames are, too, and which has not been started. */
static void check_log(const struct tt_member *member, const struct tt_early *log)
{
    uint32_t sequence;

    tt_early_check(log);
    for (uint32_t offset = 0; offset < log->used_bytes && member->status == TUTTI_OK;) {
        struct tt_receive_chunk piece;
        const struct tt_member_slot *slot;

        offset = tt_early_read(log, offset, &piece, &sequence);
        slot = tt_member_slot_of(member, first_not_started(member) + (sequence - (uint32_t)first_not_started(member)));
        assert(slot->early && (uint32_t)slot->early_sequence == sequence);
        assert(tt_member_neighbour_index(member, piece.source) != TT_RANK_NONE);
    }
}

/* Everything before `oldest` has ended, and `oldest` has not. */
static void check_oldest(const struct tt_member *member)
{
    assert(member->oldest <= member->next_sequence);
    assert(member->oldest_slot < tt_member_slots(member->config.in_flight));
    assert(member->oldest == member->next_sequence || member->oldest == first_not_started(member) ||
           tt_member_slot_of(member, member->oldest)->collective != NULL);
    assert(member->tick_from <= tt_member_end(member));
    /* What all have finished is finished here, and what all have started was posted here. */
    assert(member->eager.all_finished <= member->oldest);
    assert(member->eager.all_started <= member->next_sequence);
    assert(member->eager.rounds.sent == 0 || member->eager.wanted <= member->oldest);
}

/* The first of the neighbours is the right one in the ring. */
static void check_neighbours(const struct tt_member *member)
{
    assert(member->neighbour_count <= TT_MEMBER_MAX_NEIGHBOURS);
    assert(member->neighbour_count >= 1 || member->config.size == 1);
    if (member->neighbour_count > 0) {
        assert(member->neighbours[0] == tt_rank_add(member->config.rank, 1, member->config.size));
        assert(!member->departed[0] || member->right_gone);
    }
}

void tt_member_check(const struct tt_member *member)
{
    assert(member->status != TUTTI_OK || member->failed_rank == TT_RANK_NONE);
    assert(member->failed_rank < member->config.size || member->failed_rank == TT_RANK_NONE);
    assert(member->culprit < member->config.size || member->culprit == TT_RANK_NONE);
    assert((member->status == TUTTI_OK) == (member->noticed_by == TT_RANK_NONE));
    assert(member->noticed_by < member->config.size || member->noticed_by == TT_RANK_NONE);
    check_oldest(member);
    check_line(member);
    check_slots(member);
    check_log(member, &member->gathered);
    check_log(member, &member->pieces);
    check_neighbours(member);
    tt_rollcall_check(member);
    tt_eager_check(&member->eager);
    tt_probe_check(&member->probe);
}
