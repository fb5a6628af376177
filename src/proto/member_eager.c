/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The member's part in eager collectives. Normal path: a start gives the collective its place among the copies and,
 * with room at every rank, leave to send; barriers and rounds of acknowledgment bring room to those that wait for it.
 * A tree takes part with a place of no bytes: only its credit matters.
 * Lost data: a sign that somebody has finished what is still missing here makes the collective ask; ASK and FETCH of
 * the right neighbour are answered from the copies. A neighbour that asks with other terms shows that ranks disagree.
 */
#include "proto/collective_private.h"
#include "proto/member_private.h"

/* Whether the terms that a right neighbour asks with are these; else the group fails. */
bool tt_member_asks_for(struct tt_member *member, const struct tt_collective_terms *here,
                        const struct tt_collective_terms *there, struct tt_actions *actions)
{
    if (tt_collective_terms_agree(here, there)) {
        return true;
    }
    tt_member_disagree(member, here, there, tt_rank_add(member->config.rank, 1, member->config.size), actions);
    return false;
}

void tt_member_start_eager(struct tt_member *member, struct tt_collective *collective)
{
    const struct tt_collective_terms *terms = &collective->config.terms;
    uint64_t blocks = terms->kind == TT_ALLGATHER ? member->config.size : 1;
    uint64_t bytes = tt_collective_is_eager(collective) ? terms->block_bytes * blocks : 0;

    if (member->config.size == 1) {
        collective->may_send = true;
        return;
    }
    collective->copy_offset = tt_eager_start(&member->eager, collective->sequence, terms, bytes);
    collective->may_send = tt_eager_may_send(&member->eager, collective->sequence);
    if (collective->own_root_index != TT_RANK_NONE) {
        tt_eager_refresh(&member->eager, member->oldest);
    }
}

/* Somebody has finished all collectives before this one, so that whatever of their data is not here may be lost. */
void tt_member_on_evidence(struct tt_member *member, uint64_t finished, uint64_t now_ns)
{
    for (uint32_t i = 0; i < member->config.in_flight; i++) {
        struct tt_collective *collective = tt_member_slot_of(member, member->oldest + i)->collective;

        if (collective != NULL && collective->config.terms.method == TT_METHOD_EAGER &&
            collective->state == TT_COLLECTIVE_RECEIVE && collective->sequence < finished && !collective->asked &&
            collective->tail_deadline_ns == UINT64_MAX) {
            collective->tail_deadline_ns = now_ns + collective->config.tail_ns;
        }
    }
}

static bool waits_for_credit(const struct tt_collective *collective)
{
    return collective != NULL && tt_collective_needs_credit(collective) && !collective->may_send &&
           collective->own_root_index != TT_RANK_NONE && collective->state != TT_COLLECTIVE_FAILING;
}

static bool anybody_waits_for_credit(struct tt_member *member)
{
    for (uint32_t i = 0; i < member->config.in_flight; i++) {
        if (waits_for_credit(tt_member_slot_of(member, member->oldest + i)->collective)) {
            return true;
        }
    }
    return false;
}

/* Lets roots send that have got credit, and takes part in a round of acknowledgments. */
void tt_member_advance_eager(struct tt_member *member, uint64_t now_ns, struct tt_actions *actions)
{
    struct tt_collective_event tick = {.type = TT_EVENT_TICK, .now_ns = now_ns};
    uint64_t first = member->oldest;

    if (member->eager.count == 0) {
        return;
    }
    if (anybody_waits_for_credit(member)) {
        tt_eager_refresh(&member->eager, member->oldest); /* more has ended here, perhaps */
    }
    while (tt_eager_round(&member->eager, member->oldest, member->config.group, actions)) {
        tt_eager_refresh(&member->eager, member->oldest);
    }
    for (uint32_t i = 0; i < member->config.in_flight; i++) {
        struct tt_collective *collective = tt_member_slot_of(member, first + i)->collective;

        if (!waits_for_credit(collective)) {
            continue;
        }
        if (!tt_member_has_room(actions, tt_actions_worst(member->config.size))) {
            actions->more = true;
            return;
        }
        if (tt_eager_may_send(&member->eager, collective->sequence)) {
            collective->may_send = true;
            tt_member_step_collective(member, collective, &tick, actions);
        }
    }
}

bool tt_member_has_copy(const struct tt_member *member, const struct tt_frame *frame)
{
    const struct tt_eager_entry *entry;

    if ((frame->type != TT_FRAME_ASK && frame->type != TT_FRAME_FETCH && frame->type != TT_FRAME_BARRIER &&
         frame->type != TT_FRAME_READY) ||
        frame->sequence >= member->next_sequence) {
        return false;
    }
    entry = tt_eager_find(&member->eager, frame->sequence);
    return entry != NULL && entry->kept;
}

/* ASK and FETCH of the right neighbour for a collective that has ended here. */
void tt_member_serve_copy(struct tt_member *member, const struct tt_frame *frame, struct tt_actions *actions)
{
    uint32_t right = tt_rank_add(member->config.rank, 1, member->config.size);
    const struct tt_eager_entry *entry = tt_eager_find(&member->eager, frame->sequence);
    const struct tt_window *window = &frame->body.fetch.window;
    struct tt_frame answer = {
        .group = member->config.group, .source = member->config.rank, .sequence = frame->sequence};
    struct tt_action *action;

    if (frame->type == TT_FRAME_BARRIER || frame->type == TT_FRAME_READY) { /* neither is due after the end */
        if (tt_collective_terms_agree(&entry->terms, tt_frame_terms(frame))) {
            member->drops_frame++;
        } else {
            tt_member_disagree(member, &entry->terms, tt_frame_terms(frame), frame->source, actions);
        }
        return;
    }
    if (frame->source != right || (frame->type == TT_FRAME_FETCH && entry->terms.method != TT_METHOD_EAGER)) {
        member->drops_frame++;
        return;
    }
    if (frame->type == TT_FRAME_ASK) {
        if (!tt_member_asks_for(member, &entry->terms, &frame->body.ask.terms, actions)) {
            return;
        }
        answer.type = TT_FRAME_DONE;
    } else {
        uint64_t blocks = entry->terms.kind == TT_ALLGATHER ? member->config.size : 1;
        uint64_t chunks = (entry->terms.block_bytes + entry->terms.chunk_bytes - 1) / entry->terms.chunk_bytes * blocks;

        if (window->subgroup != 0 || (uint64_t)window->base + window->count > chunks) {
            member->drops_frame++;
            return;
        }
        answer.type = TT_FRAME_AVAILABLE;
        answer.body.available.slot = frame->body.fetch.slot;
        answer.body.available.window = *window;
        answer.body.available.address = entry->start % TT_EAGER_RING_BYTES;
        tt_eager_tell(&member->eager, frame->sequence);
    }
    action = tt_actions_add(actions, TT_ACTION_SEND, NULL);
    action->to = right;
    action->body.frame = answer;
}

bool tt_member_ends_copy(struct tt_member *member, const struct tt_frame *frame)
{
    return frame->source == tt_rank_add(member->config.rank, 1, member->config.size) &&
           tt_eager_read_over(&member->eager, frame->sequence);
}

/* A group that has failed owes nothing more but that reads end which have begun. */
bool tt_member_owes(const struct tt_member *member)
{
    return member->status == TUTTI_OK ? tt_eager_owes(&member->eager) : tt_member_is_read(member);
}

bool tt_member_is_read(const struct tt_member *member)
{
    return !member->right_gone && tt_eager_is_read(&member->eager);
}
