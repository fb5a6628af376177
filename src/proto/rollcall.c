/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The roll call. Normal path: a little before a deadline a rank asks who has posted the collective that is stuck; every
 * rank adds itself and what it hears to a bitmap and passes on what is news, until nothing is; at the deadline whoever
 * is not in the bitmap is missing. Several questions at once: the oldest wins everywhere, until what it is about has
 * ended. A rank that itself stood still while its time came asks and listens first, and blames later.
 */
#include "proto/rollcall.h"

#include <assert.h>
#include <string.h>

#include "base/least.h"
#include "proto/member_private.h"

/* Returns what is news: a bit for the frame that tells of this rank. */
static uint32_t mark_present(struct tt_member *member, uint32_t rank)
{
    uint8_t bit = (uint8_t)(1U << (rank % 8));

    assert(member->rollcall_active);
    assert(rank < member->config.size);
    if (member->config.present[rank / 8] & bit) {
        return 0;
    }
    member->config.present[rank / 8] |= bit;
    return UINT32_C(1) << rank / TT_ROLLCALL_RANKS;
}

bool tt_member_present(const struct tt_member *member, uint32_t rank)
{
    assert(rank < member->config.size);
    return member->config.present[rank / 8] >> (rank % 8) & 1;
}

#define ALL_NEWS UINT32_MAX

static void send_rollcall(struct tt_member *member, uint32_t news, struct tt_actions *actions)
{
    struct tt_frame frame = {.type = TT_FRAME_ROLLCALL,
                             .sequence = member->rollcall_sequence,
                             .body.rollcall = {.rank_count = member->config.size}};

    assert(member->rollcall_active);
    for (uint32_t first = 0; first < member->config.size; first += TT_ROLLCALL_RANKS) {
        if (news >> first / TT_ROLLCALL_RANKS & 1) {
            frame.body.rollcall.first = first;
            frame.body.rollcall.present = member->config.present + first / 8;
            tt_member_tell(member, &frame, TT_RANK_NONE, actions);
        }
    }
}

/* Whether a roll call for this sequence number replaces the one that is on: the lowest that anybody asks about wins,
 * and an old one is over. Only ever going down keeps ranks with different questions from answering each other for ever.
 */
static bool replaces_rollcall(const struct tt_member *member, uint64_t sequence, uint64_t now_ns)
{
    return !member->rollcall_active || now_ns >= member->rollcall_end_ns || sequence < member->rollcall_sequence;
}

/* Adds what is known here to the roll call; returns what of that is news. */
static uint32_t answer_rollcall(struct tt_member *member)
{
    uint32_t news = 0;

    if (member->next_sequence > member->rollcall_sequence) {
        news = mark_present(member, member->config.rank);
    }
    for (uint32_t i = 0; i < member->neighbour_count; i++) {
        if (member->departed[i] && member->departed_sequence[i] > member->rollcall_sequence) {
            news |= mark_present(member, member->neighbours[i]); /* took part, and cannot answer any more */
        }
    }
    return news;
}

static void start_rollcall(struct tt_member *member, uint64_t sequence, uint64_t now_ns)
{
    member->rollcall_active = true;
    member->rollcall_sequence = sequence;
    member->rollcall_end_ns = now_ns + TT_MEMBER_ROLLCALL_NS;
    memset(member->config.present, 0, (member->config.size + 7) / 8);
    answer_rollcall(member);
}

void tt_rollcall_frame(struct tt_member *member, const struct tt_frame *frame, uint64_t now_ns,
                       struct tt_actions *actions)
{
    uint32_t news = 0;

    if (frame->body.rollcall.rank_count != member->config.size) {
        member->drops_frame++;
        return;
    }
    if (replaces_rollcall(member, frame->sequence, now_ns)) {
        news = ALL_NEWS;
        start_rollcall(member, frame->sequence, now_ns);
    } else if (frame->sequence > member->rollcall_sequence) {
        return; /* the oldest question comes first */
    }
    news |= answer_rollcall(member);
    for (uint32_t i = 0; i < tt_rollcall_ranks(member->config.size, frame->body.rollcall.first); i++) {
        if (frame->body.rollcall.present[i / 8] >> (i % 8) & 1) {
            news |= mark_present(member, frame->body.rollcall.first + i);
        }
    }
    if (news != 0) {
        send_rollcall(member, news, actions);
    }
}

uint64_t tt_rollcall_deadline(const struct tt_member *member, const struct tt_collective *collective)
{
    return tt_most(collective->timeout.deadline_ns, tt_later(member->moved_ns, collective->config.timeout_ns));
}

/* Asks, and gives the others their time to answer, however late that is. Returns the deadline. */
static uint64_t ask(struct tt_member *member, struct tt_collective *collective, uint64_t due_ns, uint64_t now_ns,
                    struct tt_actions *actions)
{
    uint64_t deadline_ns = tt_later(now_ns, collective->config.rollcall_ns);

    collective->timeout.overslept |= now_ns - due_ns > collective->config.rollcall_ns;
    collective->timeout.asked_ns = collective->timeout.deadline_ns = deadline_ns;
    if (replaces_rollcall(member, collective->sequence, now_ns)) {
        start_rollcall(member, collective->sequence, now_ns);
        send_rollcall(member, ALL_NEWS, actions);
    }
    return deadline_ns;
}

/* Whether this rank is to look first, for as long again as it is late: if it itself stood still while the time came, it
 * may not blame others for what it did not listen to. */
static bool looks_first(struct tt_collective *collective, uint64_t deadline_ns, uint64_t now_ns)
{
    if (collective->timeout.overslept || now_ns == deadline_ns) {
        return false;
    }
    collective->timeout.overslept = true;
    collective->timeout.asked_ns = collective->timeout.deadline_ns =
        now_ns + tt_least(now_ns - deadline_ns, collective->config.rollcall_ns);
    return true;
}

bool tt_rollcall_is_unanswered(const struct tt_member *member)
{
    for (uint32_t rank = 0; rank < member->config.size; rank++) {
        if (rank != member->config.rank && tt_member_present(member, rank)) {
            return false;
        }
    }
    return member->config.size > 2;
}

/* Whether this rank is to wait for what others say: if nobody answers, of two or more, it is more likely that nothing
 * gets through to it than that all of them are missing, and they know of each other. */
static bool lets_others_speak(const struct tt_member *member, struct tt_collective *collective, uint64_t now_ns)
{
    if (collective->timeout.let_others_speak || !tt_rollcall_is_unanswered(member)) {
        return false;
    }
    collective->timeout.let_others_speak = true;
    collective->timeout.asked_ns = collective->timeout.deadline_ns =
        tt_later(now_ns, collective->config.rollcall_ns / 2);
    return true;
}

void tt_rollcall_tick(struct tt_member *member, struct tt_collective *collective, uint64_t now_ns,
                      struct tt_actions *actions)
{
    uint64_t deadline_ns = tt_rollcall_deadline(member, collective), ask_ns;
    uint32_t culprit;

    if (deadline_ns == UINT64_MAX || member->status != TUTTI_OK) {
        return;
    }
    ask_ns = deadline_ns - collective->config.rollcall_ns;
    if (collective->timeout.asked_ns != deadline_ns && now_ns >= ask_ns) {
        deadline_ns = ask(member, collective, ask_ns, now_ns, actions);
    }
    if (now_ns < deadline_ns || looks_first(collective, deadline_ns, now_ns) ||
        lets_others_speak(member, collective, now_ns)) {
        return;
    }
    culprit = tt_collective_waits_for(collective);
    assert(culprit != member->config.rank); /* who waits for itself has gone wrong */
    if (culprit == TT_RANK_NONE || tt_member_present(member, culprit)) {
        for (culprit = 0; culprit < member->config.size && tt_member_present(member, culprit);) {
            culprit++;
        }
        culprit = culprit == member->config.size ? TT_RANK_NONE : culprit;
    }
    tt_member_fail(member, TUTTI_ERR_TIMED_OUT, culprit, TT_RANK_NONE, actions);
}

/* Nobody is present who does not exist, or before anybody has asked. */
void tt_rollcall_check(const struct tt_member *member)
{
    uint32_t size = member->config.size;

    assert(size % 8 == 0 || member->config.present[size / 8] >> (size % 8) == 0);
    assert(member->rollcall_active || !tt_member_present(member, member->config.rank));
    assert(member->rollcall_active || member->rollcall_end_ns == 0);
}
