/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The member's part in eager collectives. Normal path: a start gives the collective its place among the copies and,
 * with room at every rank, leave to send; barriers and rounds of acknowledgment bring room to those that wait for it.
 * A tree takes part with a place of no bytes: only its credit matters.
 * Lost data: a sign that somebody has finished what is still missing here makes the collective ask; ASK and FETCH of
 * the right neighbour are answered from the copies. A neighbour that asks with other terms shows that ranks disagree.
 */
#include <assert.h>

#include "proto/collective_private.h"
#include "proto/member_private.h"

/* Whether word of how far all are comes with the collective itself, so that nobody has to ask for it: to the root of
 * what is gathered before it sends, and in an Allgather that may be sent with the chunks of all others (learn). */
static bool brings_word(const struct tt_collective *collective)
{
    return collective->way->mover->gathers || (collective->all_send && collective->sending.may_send);
}

void tt_member_start_eager(struct tt_member *member, struct tt_collective *collective)
{
    const struct tt_collective_terms *terms = &collective->config.terms;
    uint64_t bytes = collective->way->completion->keeps_copy ? tt_terms_bytes(terms, member->config.size) : 0;

    assert(tt_way_has_place(collective->way));
    if (member->config.size == 1) {
        collective->sending.may_send = collective->copy.may_keep = true;
        return;
    }
    collective->copy.offset = tt_eager_start(&member->eager, collective->sequence, terms, bytes);
    collective->sending.may_send =
        !collective->way->gate->is_open || tt_eager_may_send(&member->eager, collective->sequence);
    if (collective->all_send) { /* of others, the root has seen to it */
        collective->copy.may_keep = tt_eager_may_keep(&member->eager, collective->sequence);
    }
    if (tt_collective_has_block(collective) && !brings_word(collective)) {
        tt_eager_refresh(&member->eager, member->oldest);
    }
}

/* What the chunks of an eager Allgather say of their senders: how far all have got. What was fetched does not say it.
 */
static void learn(struct tt_member *member, const struct tt_collective *collective)
{
    uint64_t finished = member->oldest, behind;

    if (tt_collective_received(collective) < collective->expected) {
        return;
    }
    assert(collective->config.terms.subgroups == 1);
    behind = atomic_load_explicit(&collective->config.streams[0].behind, memory_order_relaxed);
    behind = behind < collective->sequence ? behind : collective->sequence; /* a sender may say anything */
    finished = collective->sequence - behind < finished ? collective->sequence - behind : finished;
    assert(finished <= member->oldest);
    tt_eager_learn(&member->eager, finished);
}

void tt_member_before_step(struct tt_member *member, struct tt_collective *collective)
{
    if (collective->all_send && !collective->copy.may_keep && collective->state != TT_COLLECTIVE_FAILING) {
        learn(member, collective);
        collective->copy.may_keep = tt_eager_may_keep(&member->eager, collective->sequence);
    }
}

void tt_member_ended_eager(struct tt_member *member, const struct tt_collective *collective)
{
    assert(collective->state == TT_COLLECTIVE_FINISHED && collective->status == TUTTI_OK);
    tt_eager_keep(&member->eager, collective->sequence);
    if (collective->all_send) {
        learn(member, collective);
        tt_eager_note_started(&member->eager, collective->sequence + 1);
    }
}

/* What an eager collective before this one still misses here may be lost. */
static void suspect(struct tt_member *member, uint64_t before, bool all, uint64_t now_ns)
{
    for (uint64_t sequence = member->oldest; sequence < tt_member_end(member); sequence++) {
        struct tt_collective *collective = tt_member_slot_of(member, sequence)->collective;

        if (collective != NULL && collective->way->completion->keeps_copy &&
            collective->state == TT_COLLECTIVE_RECEIVE && collective->sequence < before &&
            (all || collective->sending.may_send) && !collective->copy.asked &&
            !tt_collective_awaits_block(collective) && collective->receiving.tail_deadline_ns == UINT64_MAX) {
            collective->receiving.tail_deadline_ns = now_ns + collective->config.tail_ns;
        }
    }
}

void tt_member_on_evidence(struct tt_member *member, uint64_t finished, uint64_t now_ns)
{
    suspect(member, finished, true, now_ns);
}

void tt_member_on_barrier(struct tt_member *member, uint64_t sequence, uint64_t now_ns)
{
    suspect(member, sequence, false, now_ns);
}

static bool waits_for_credit(const struct tt_collective *collective)
{
    if (collective == NULL || !tt_way_has_place(collective->way) || collective->state == TT_COLLECTIVE_FAILING) {
        return false;
    }
    return (!collective->sending.may_send && tt_collective_has_block(collective)) ||
           (!collective->copy.may_keep && (collective->copy.asked || collective->state > TT_COLLECTIVE_RECEIVE));
}

/* Of one that waits for credit: whether that does not come by itself. What is gathered brings word, which is mostly
 * enough. */
static bool needs_round(const struct tt_member *member, const struct tt_collective *collective)
{
    return !collective->way->mover->gathers ||
           (collective->everybody && !tt_eager_may_send(&member->eager, collective->sequence));
}

/* Whether anything waits for credit. */
static bool anybody_waits(const struct tt_member *member, bool *some_need_round)
{
    uint64_t end = tt_member_end(member);
    bool any = false;

    *some_need_round = false;
    for (uint64_t sequence = member->oldest; sequence < end; sequence++) {
        const struct tt_collective *collective = tt_member_slot_of(member, sequence)->collective;

        if (waits_for_credit(collective)) {
            any = true;
            *some_need_round |= needs_round(member, collective);
        }
    }
    return any;
}

/* Whether somebody turns out to mean another collective than this rank: the group fails. */
static bool disagrees(struct tt_member *member, struct tt_actions *actions)
{
    struct tt_collective_terms here, there;
    uint32_t odd = tt_eager_disagrees(&member->eager, member->oldest, &here, &there);

    if (odd != TT_RANK_NONE) {
        tt_member_disagree(member, &here, &there, odd, actions);
    }
    return odd != TT_RANK_NONE;
}

/* Lets roots send that have got credit, and takes part in a round of acknowledgments. */
void tt_member_advance_eager(struct tt_member *member, uint64_t now_ns, struct tt_actions *actions)
{
    bool waits, round;

    if (member->eager.count == 0) {
        return;
    }
    if (tt_eager_has_unjudged(&member->eager) && disagrees(member, actions)) {
        return;
    }
    if (member->doubted > 0 && member->oldest >= member->doubted) { /* others can have ended as much as this rank has */
        tt_eager_want(&member->eager, member->oldest);
        member->doubted = 0;
    }
    waits = anybody_waits(member, &round);
    if (round) {
        tt_eager_refresh(&member->eager, member->oldest); /* more has ended here, perhaps */
    }
    while (tt_eager_round(&member->eager, member->oldest, member->config.group, actions)) {
        tt_eager_refresh(&member->eager, member->oldest);
    }
    for (uint64_t sequence = member->oldest, end = tt_member_end(member); waits && sequence < end; sequence++) {
        struct tt_collective *collective = tt_member_slot_of(member, sequence)->collective;
        bool may_send, may_keep;

        if (!waits_for_credit(collective)) {
            continue;
        }
        if (!tt_member_has_room(actions, tt_actions_worst(member->config.size))) {
            actions->more = true;
            return;
        }
        may_send = collective->sending.may_send || tt_eager_may_send(&member->eager, collective->sequence);
        may_keep = collective->copy.may_keep || tt_eager_may_keep(&member->eager, collective->sequence);
        if (may_send != collective->sending.may_send || may_keep != collective->copy.may_keep) {
            collective->sending.may_send = may_send;
            collective->copy.may_keep = may_keep;
            tt_member_step_collective(member, collective,
                                      &(struct tt_collective_event){.type = TT_EVENT_TICK, .now_ns = now_ns}, actions);
        }
    }
}

bool tt_member_has_copy(const struct tt_member *member, const struct tt_frame *frame)
{
    const struct tt_eager_entry *entry;

    if ((tt_frame_terms(frame) == NULL && frame->type != TT_FRAME_FETCH) || frame->sequence >= member->next_sequence) {
        return false;
    }
    entry = tt_eager_find(&member->eager, frame->sequence);
    return entry != NULL && entry->kept;
}

/* Chunks that the copy is made of. */
static uint64_t copied_chunks(const struct tt_member *member, const struct tt_collective_terms *terms)
{
    uint64_t bytes = tt_terms_root_bytes(terms, member->config.size);

    if (tt_terms_is_exchange(terms)) {
        return tt_terms_roots(terms, member->config.size);
    }
    return (bytes + terms->chunk_bytes - 1) / terms->chunk_bytes * tt_terms_roots(terms, member->config.size);
}

/* ASK and FETCH of the right neighbour for a collective that has ended here. */
void tt_member_serve_copy(struct tt_member *member, const struct tt_frame *frame, struct tt_actions *actions)
{
    uint32_t right = tt_rank_add(member->config.rank, 1, member->config.size);
    const struct tt_eager_entry *entry = tt_eager_find(&member->eager, frame->sequence);
    const struct tt_collective_terms *there = tt_frame_terms(frame);
    const struct tt_window *window = &frame->body.fetch.window;
    struct tt_frame answer = {
        .group = member->config.group, .source = member->config.rank, .sequence = frame->sequence};

    assert(entry != NULL && entry->kept);
    if (there != NULL && !tt_collective_terms_agree(&entry->terms, there)) {
        tt_member_disagree(member, &entry->terms, there, frame->source, actions);
        return;
    }
    if (frame->type == TT_FRAME_READY) {
        return; /* a child that has waited for what is on its way */
    }
    if (frame->source != right || (frame->type != TT_FRAME_ASK && frame->type != TT_FRAME_FETCH) ||
        (frame->type == TT_FRAME_FETCH && !tt_method_row(entry->terms.method)->keeps_copies)) {
        member->drops_frame++; /* nothing else is due after the end */
        return;
    }
    if (frame->type == TT_FRAME_ASK) {
        answer.type = TT_FRAME_KEPT;
    } else {
        if (window->subgroup != 0 || (uint64_t)window->base + window->count > copied_chunks(member, &entry->terms)) {
            member->drops_frame++;
            return;
        }
        answer.type = TT_FRAME_AVAILABLE;
        answer.body.available.slot = frame->body.fetch.slot;
        answer.body.available.window = *window;
        answer.body.available.address = entry->start % TT_EAGER_RING_BYTES;
        tt_eager_tell(&member->eager, frame->sequence);
    }
    tt_actions_send(actions, NULL, answer.type, right, &answer);
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
