/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Frames for collectives that have not been started here yet. Normal path: what there can be of each kind is known, so
 * a slot remembers it in bits, with the terms and the least of the numbers that came along; only blocks that are
 * gathered, or go down an eager tree, have bytes, and these go to a log. A collective that starts gets all of it as if
 * it had just come. Failures: what is too far ahead, or from a rank that has no such frame to send, is dropped; blocks
 * for which there is no room are dropped too, and asked for again by proto/gather.h. Of terms that differ from the
 * first one's, the last are kept: one that disagrees is enough.
 */
#include <assert.h>

#include "proto/collective_private.h"
#include "proto/member_private.h"

/* NULL: it is too far away. */
static struct tt_member_slot *early_slot(struct tt_member *member, uint64_t sequence)
{
    struct tt_member_slot *slot;

    assert(sequence >= member->oldest);
    if (!tt_member_has_slot(member, sequence)) {
        return NULL;
    }
    slot = tt_member_slot_of(member, sequence);
    assert(slot->collective == NULL); /* then it is not early */
    if (!slot->early || slot->early_sequence != sequence) {
        *slot = (struct tt_member_slot){.collective = slot->collective,
                                        .early = true,
                                        .early_sequence = sequence,
                                        .early_least = tt_release_of(UINT64_MAX)};
    }
    return slot;
}

/* Whether these terms differ from the first ones that came for the slot. */
static bool keep_terms(struct tt_member_slot *slot, const struct tt_collective_terms *terms)
{
    if (!slot->early_has_terms) {
        slot->early_has_terms = true;
        slot->early_terms = *terms;
        return false;
    }
    if (tt_collective_terms_agree(&slot->early_terms, terms)) {
        return false;
    }
    slot->early_other = *terms;
    return true;
}

static const struct tt_collective_terms *kept_terms(const struct tt_member_slot *slot, bool other)
{
    return other ? &slot->early_other : &slot->early_terms;
}

static bool keep_barrier(const struct tt_member *member, struct tt_member_slot *slot, const struct tt_frame *frame)
{
    uint32_t round = frame->body.barrier.round;
    struct tt_release said = tt_release_of(frame->body.barrier.finished);

    if (!tt_rounds_is_from(member->config.rank, member->config.size, round, frame->source)) {
        return false;
    }
    slot->early_other_rounds |= (uint32_t)keep_terms(slot, &frame->body.barrier.terms) << round;
    slot->early_rounds |= UINT32_C(1) << round;
    tt_release_least(&slot->early_least, &said);
    return true;
}

/* Of a child in a tree, or of a parent that waits: what differs shows at the start. */
static bool keep_ready(const struct tt_member *member, struct tt_member_slot *slot, const struct tt_frame *frame)
{
    uint32_t neighbour = tt_member_neighbour_index(member, frame->source);

    if (neighbour == TT_RANK_NONE) {
        return false;
    }
    slot->early_other_ready |= (uint64_t)keep_terms(slot, &frame->body.ready.terms) << neighbour;
    *(frame->type == TT_FRAME_READY ? &slot->early_ready : &slot->early_reminded) |= UINT64_C(1) << neighbour;
    return true;
}

/* Keeps bytes that came in a frame; false if there is no room. */
static bool log_bytes(struct tt_early *log, const struct tt_frame *frame, uint32_t offset_bytes, uint32_t length_bytes,
                      const uint8_t *bytes)
{
    struct tt_receive_chunk piece = {
        .imm = offset_bytes, .length_bytes = length_bytes, .source = frame->source, .address = bytes};

    return tt_early_add(log, &piece, frame->sequence);
}

/* Of a tree: the account (proto/eager.h) sees to it that there is room. */
static bool keep_piece(struct tt_member *member, struct tt_member_slot *slot, const struct tt_frame *frame)
{
    uint32_t neighbour = tt_member_neighbour_index(member, frame->source);

    if (neighbour == TT_RANK_NONE || member->pieces.own == NULL ||
        !log_bytes(&member->pieces, frame, frame->body.data.offset_bytes, frame->body.data.length_bytes,
                   frame->body.data.bytes)) {
        return false;
    }
    slot->early_other_pieces |= (uint64_t)keep_terms(slot, &frame->body.data.terms) << neighbour;
    return true;
}

static bool keep_gathered(struct tt_member *member, struct tt_member_slot *slot, const struct tt_frame *frame)
{
    uint32_t neighbour = tt_member_neighbour_index(member, frame->source);

    if (neighbour == TT_RANK_NONE) {
        return false;
    }
    slot->early_other_pieces |= (uint64_t)keep_terms(slot, &frame->body.gather.terms) << neighbour;
    tt_release_least(&slot->early_least, &frame->body.gather.least);
    if (frame->body.gather.length_bytes == 0) {
        slot->early_gathered |= UINT64_C(1) << neighbour;
        return true;
    }
    if (!log_bytes(&member->gathered, frame, frame->body.gather.offset_bytes, frame->body.gather.length_bytes,
                   frame->body.gather.bytes)) {
        slot->early_lost |= UINT64_C(1) << neighbour;
        return false;
    }
    return true;
}

void tt_member_keep_early(struct tt_member *member, const struct tt_frame *frame)
{
    struct tt_member_slot *slot = early_slot(member, frame->sequence);
    bool kept = slot != NULL;

    if (kept) {
        switch (frame->type) {
        case TT_FRAME_ASK:
            slot->early_asked = true;
            slot->early_other_asked = keep_terms(slot, &frame->body.ask.terms);
            break;
        case TT_FRAME_READY:
        case TT_FRAME_REMIND:
            kept = keep_ready(member, slot, frame);
            break;
        case TT_FRAME_DATA:
            kept = keep_piece(member, slot, frame);
            break;
        case TT_FRAME_GATHER:
            kept = keep_gathered(member, slot, frame);
            break;
        case TT_FRAME_BARRIER:
            kept = keep_barrier(member, slot, frame);
            break;
        default:
            kept = false;
            break;
        }
    }
    member->drops_frame += !kept;
}

/* --- Replay ------------------------------------------------------------------------------------------------------- */

static void replay(struct tt_member *member, struct tt_collective *collective, struct tt_frame *frame, uint64_t now_ns,
                   struct tt_actions *actions)
{
    struct tt_collective_event event = {.type = TT_EVENT_FRAME, .now_ns = now_ns, .frame = frame};

    assert(tt_member_slot_of(member, collective->sequence)->early_sequence == collective->sequence);
    if (collective->state == TT_COLLECTIVE_FINISHED || member->status != TUTTI_OK) {
        return; /* what came before has ended it */
    }
    frame->sequence = collective->sequence;
    tt_member_step_collective(member, collective, &event, actions);
}

static void replay_rounds(struct tt_member *member, struct tt_collective *collective, uint64_t now_ns,
                          struct tt_actions *actions)
{
    const struct tt_member_slot *slot = tt_member_slot_of(member, collective->sequence);

    for (uint32_t rounds = slot->early_rounds; rounds != 0; rounds &= rounds - 1) {
        uint32_t round = (uint32_t)__builtin_ctz(rounds);
        struct tt_frame frame = {.type = TT_FRAME_BARRIER,
                                 .source = tt_dissemination_from(member->config.rank, member->config.size, round),
                                 .body.barrier = {.round = (uint8_t)round,
                                                  .terms = *kept_terms(slot, slot->early_other_rounds >> round & 1),
                                                  .finished = slot->early_least.finished}};

        replay(member, collective, &frame, now_ns, actions);
    }
}

/* A reminder, now that this rank has just said what it has to say, only shows what the sender means. */
static void replay_ready(struct tt_member *member, struct tt_collective *collective, uint64_t now_ns,
                         struct tt_actions *actions)
{
    const struct tt_member_slot *slot = tt_member_slot_of(member, collective->sequence);

    for (uint64_t said = slot->early_ready | slot->early_reminded; said != 0; said &= said - 1) {
        uint32_t neighbour = (uint32_t)__builtin_ctzll(said);
        bool ready = slot->early_ready >> neighbour & 1;
        struct tt_frame frame = {.type = ready ? TT_FRAME_READY : TT_FRAME_REMIND,
                                 .source = member->neighbours[neighbour],
                                 .body.ready.terms = *kept_terms(slot, slot->early_other_ready >> neighbour & 1)};

        if (ready || !tt_collective_terms_agree(&collective->config.terms, &frame.body.ready.terms)) {
            replay(member, collective, &frame, now_ns, actions);
        }
    }
}

static void replay_gathered(struct tt_member *member, struct tt_collective *collective, uint32_t source,
                            const struct tt_receive_chunk *piece, uint64_t now_ns, struct tt_actions *actions)
{
    const struct tt_member_slot *slot = tt_member_slot_of(member, collective->sequence);
    uint32_t neighbour = tt_member_neighbour_index(member, source);
    struct tt_frame frame = {.type = TT_FRAME_GATHER,
                             .source = source,
                             .body.gather = {.terms = *kept_terms(slot, slot->early_other_pieces >> neighbour & 1),
                                             .least = slot->early_least}};

    assert(neighbour != TT_RANK_NONE); /* nobody else's was kept */
    if (piece != NULL) {
        frame.body.gather.offset_bytes = piece->imm;
        frame.body.gather.length_bytes = (uint16_t)piece->length_bytes;
        frame.body.gather.bytes = piece->address;
    }
    replay(member, collective, &frame, now_ns, actions);
}

static void replay_piece(struct tt_member *member, struct tt_collective *collective,
                         const struct tt_receive_chunk *piece, uint64_t now_ns, struct tt_actions *actions)
{
    const struct tt_member_slot *slot = tt_member_slot_of(member, collective->sequence);
    uint32_t neighbour = tt_member_neighbour_index(member, piece->source);
    struct tt_frame frame = {.type = TT_FRAME_DATA,
                             .source = piece->source,
                             .body.data = {.terms = *kept_terms(slot, slot->early_other_pieces >> neighbour & 1),
                                           .offset_bytes = piece->imm,
                                           .length_bytes = (uint16_t)piece->length_bytes,
                                           .bytes = piece->address}};

    assert(neighbour != TT_RANK_NONE); /* nobody else's was kept */
    replay(member, collective, &frame, now_ns, actions);
}

/* Takes what is the collective's out of a log. */
static void replay_log(struct tt_member *member, struct tt_early *log, struct tt_collective *collective,
                       uint64_t now_ns, struct tt_actions *actions)
{
    struct tt_receive_chunk piece;
    uint32_t sequence, offset = 0, next;

    while (offset < log->used_bytes) {
        next = tt_early_read(log, offset, &piece, &sequence);
        if (sequence != (uint32_t)collective->sequence) {
            offset = next;
            continue;
        }
        if (log == &member->pieces) {
            replay_piece(member, collective, &piece, now_ns, actions);
        } else {
            replay_gathered(member, collective, piece.source, &piece, now_ns, actions);
        }
        tt_early_remove(log, offset, next);
    }
}

void tt_member_replay_early(struct tt_member *member, struct tt_collective *collective, uint64_t now_ns,
                            struct tt_actions *actions)
{
    struct tt_member_slot *slot = tt_member_slot_of(member, collective->sequence);

    if (!slot->early || slot->early_sequence != collective->sequence) {
        return;
    }
    if (slot->early_asked) {
        struct tt_frame frame = {.type = TT_FRAME_ASK,
                                 .source = tt_rank_add(member->config.rank, 1, member->config.size),
                                 .body.ask.terms = *kept_terms(slot, slot->early_other_asked)};

        replay(member, collective, &frame, now_ns, actions);
    }
    replay_ready(member, collective, now_ns, actions); /* before what may end it: it may show that ranks disagree */
    replay_rounds(member, collective, now_ns, actions);
    for (uint64_t gathered = slot->early_gathered; gathered != 0; gathered &= gathered - 1) {
        replay_gathered(member, collective, member->neighbours[__builtin_ctzll(gathered)], NULL, now_ns, actions);
    }
    replay_log(member, &member->gathered, collective, now_ns, actions);
    replay_log(member, &member->pieces, collective, now_ns, actions);
    for (uint64_t lost = slot->early_lost; lost != 0; lost &= lost - 1) {
        tt_gather_ask_again(collective, member->neighbours[__builtin_ctzll(lost)], actions);
    }
    slot->early = false;
}
