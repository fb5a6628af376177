/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a group's triggered engine asks for, carried out. Normal path: packets and answers become frames, long packets
 * several; answers that nobody waits for are held until another frame goes to the same rank; what is to be fetched
 * becomes a get, or is in a slot (triggers_slots.c), as is what goes with a put; and a sequence that has ended is its
 * operation's to count.
 *
 * Failures: what goes to a rank whose connection is gone is dropped, and a get that cannot start is answered as one
 * that failed, since who needs that rank is told (triggers.c); what the fabric refuses for another reason is the
 * group's trouble.
 */
#include <assert.h>

#include "base/least.h"
#include "engine/triggers.h"

#define HOLD_NS UINT64_C(5000000) /* an answer, for what else may go to the same rank */

/* Whose sequence a port executes: they end in the order in which they were posted, and the next one begins when all
 * that this one has sent is accepted. */
static struct tt_triggered *runs_on(const struct tt_triggers *triggers, uint16_t port)
{
    struct tt_triggered *triggered = triggers->first;

    while (!triggered->operation.lanes[port].is_busy) {
        triggered = triggered->next;
        assert(triggered != NULL);
    }
    return triggered;
}

/* Only in the memory of whoever sends: others may read the same buffer under keys that go before. */
static const struct tt_triggers_region *region_of(const struct tt_triggered *triggered, const uint8_t *address,
                                                  uint32_t length_bytes)
{
    for (uint32_t i = 0; i < TT_TRIGGERS_REGIONS; i++) {
        const struct tt_triggers_region *region = &triggered->regions[i];

        if (region->memory != NULL && address >= region->address &&
            (uint64_t)(address - region->address) + length_bytes <= region->length_bytes) {
            return region;
        }
    }
    assert(!"an operand that is not registered");
    return NULL;
}

void tt_triggers_note_trouble(struct tt_triggers *triggers, tutti_status status, uint32_t rank)
{
    triggers->group->trouble = status;
    triggers->group->trouble_rank = rank;
    triggers->group->stepping_needed = true;
    tt_party_wake(&triggers->group->engine->parties, &triggers->group->party);
}

static void send_bytes(struct tt_triggers *triggers, uint32_t rank, const struct tt_p2p_frame *bytes, bool more)
{
    struct tt_peer *peer = triggers->peers[rank].peer;
    tutti_status status;

    if (peer == NULL || peer->connection == NULL) {
        return; /* gone: whoever needs it will be told */
    }
    status = peer->connection->ops->send(peer->connection, bytes, more);
    if (status == TUTTI_OK) {
        tt_group_count(&triggers->group->frames_sent, 1);
        tt_group_count(&triggers->group->frame_bytes_sent, tt_p2p_frame_bytes(bytes));
    } else if (status != TUTTI_ERR_PEER_FAILED) {
        tt_triggers_note_trouble(triggers, status, TT_RANK_NONE);
    }
}

/* `stays`: the piece is where it is until what is sent has left. */
static void send_frame(struct tt_triggers *triggers, uint32_t rank, const struct tt_trigger_frame *frame, bool stays,
                       bool more)
{
    uint8_t head[TT_TRIGGER_FRAME_HEAD_BYTES];

    tt_trigger_frame_encode(frame, head);
    send_bytes(triggers, rank,
               &(struct tt_p2p_frame){.head = head,
                                      .head_bytes = sizeof head,
                                      .body = frame->piece,
                                      .body_bytes = frame->piece_bytes,
                                      .stays = stays},
               more);
}

/* All of a packet's payload, in as many frames as it takes. */
static void send_pieces(struct tt_triggers *triggers, uint32_t rank, struct tt_trigger_frame *frame, bool stays)
{
    uint32_t left_bytes = tt_trigger_packet_payload_bytes(&frame->packet);

    while (left_bytes > triggers->piece_bytes) {
        frame->piece_bytes = triggers->piece_bytes;
        send_frame(triggers, rank, frame, stays, true);
        left_bytes -= frame->piece_bytes;
        frame->offset_bytes += frame->piece_bytes;
        frame->piece = (const uint8_t *)frame->piece + frame->piece_bytes;
    }
    frame->piece_bytes = left_bytes;
    send_frame(triggers, rank, frame, stays, false);
}

void tt_triggers_tell_failure(struct tt_triggers *triggers)
{
    const struct tt_group *group;
    uint8_t bytes[TT_FRAME_MAX_BYTES];

    if (triggers == NULL || triggers->has_told) {
        return;
    }
    group = triggers->group;
    triggers->has_told = true;
    for (uint32_t to = 0; to < group->size; to++) {
        struct tt_frame frame = {.type = TT_FRAME_FAIL,
                                 .source = group->rank,
                                 .group = group->party.key,
                                 .body.fail = {.status = group->member.status,
                                               .rank = group->member.culprit,
                                               .noticed_by = group->member.noticed_by,
                                               .here = group->member.mismatch_here,
                                               .there = group->member.mismatch_there}};

        if (group->peers[to] == NULL) {
            const uint32_t length = (uint32_t)tt_frame_encode(&frame, bytes, sizeof bytes);

            send_bytes(triggers, to, &(struct tt_p2p_frame){.head = bytes, .head_bytes = length}, false);
        }
    }
}

/* `more`: something else follows at once. */
static void send_held(struct tt_triggers *triggers, uint32_t rank, bool more)
{
    struct tt_triggers_peer *peer = &triggers->peers[rank];

#ifdef TT_FAULT_TRIGGERS_HELD_LOST
    for (uint32_t i = 1; i < peer->held_count; i++) {
#else
    for (uint32_t i = 0; i < peer->held_count; i++) {
#endif
        const struct tt_trigger_frame frame = {
            .source = triggers->group->rank, .group = triggers->party.key, .packet = peer->held[i]};

        send_frame(triggers, rank, &frame, false, more || i + 1 < peer->held_count);
    }
    triggers->held_count -= peer->held_count;
    peer->held_count = 0;
    triggers->held_due_ns = triggers->held_count > 0 ? triggers->held_due_ns : TT_NEVER;
}

static uint64_t held_due(const struct tt_triggers_peer *peer)
{
    return peer->held_count > 0 ? peer->held_since_ns + HOLD_NS : TT_NEVER;
}

/* An answer to what its sender has a copy of. */
static void hold(struct tt_triggers *triggers, const struct tt_offload_action *action)
{
    struct tt_triggers_peer *peer = &triggers->peers[action->node];

    triggers->held_count++;
    peer->held[peer->held_count++] = action->packet;
    if (peer->held_count == 1) {
        peer->held_since_ns = tt_engine_now(triggers->group->engine);
        triggers->held_due_ns = tt_least(triggers->held_due_ns, held_due(peer));
    }
    if (peer->held_count == TT_TRIGGERS_HELD) {
        send_held(triggers, action->node, false);
    }
}

void tt_triggers_flush_due(struct tt_triggers *triggers, uint64_t due_ns)
{
    triggers->held_due_ns = TT_NEVER;
    for (uint32_t rank = 0; rank < triggers->group->size; rank++) {
        if (held_due(&triggers->peers[rank]) <= due_ns) {
            send_held(triggers, rank, false);
        }
        triggers->held_due_ns = tt_least(triggers->held_due_ns, held_due(&triggers->peers[rank]));
    }
    tt_group_note_owes(triggers->group);
}

void tt_triggers_flush(struct tt_triggers *triggers)
{
    if (triggers != NULL && triggers->held_count > 0) {
        tt_triggers_flush_due(triggers, TT_NEVER - 1);
    }
}

bool tt_triggers_are_settled(const struct tt_triggers *triggers)
{
    return triggers == NULL || (triggers->held_count == 0 && tt_offload_is_settled(triggers->offload));
}

/* What the packet refers to: where the operand was put, else where its reader gets it from. Returns its bytes; 0: the
 * operand is put now, and the packet goes with it. */
static uint32_t refer(struct tt_triggers *triggers, const struct tt_offload_action *action, void *reference)
{
    struct tt_triggered *triggered = runs_on(triggers, action->packet.source_port);
    const struct tt_triggers_region *region;
    uint64_t immediate;

    tt_group_count(&triggers->group->bytes_served, action->packet.length_bytes);
    if (tt_triggers_slots_hold(triggers, action->node, &action->packet, &immediate)) {
        return tt_trigger_reference_encode(immediate, NULL, 0, reference);
    }
    if (tt_triggers_slots_put(triggers, action, triggered)) {
        return 0;
    }
    region = region_of(triggered, action->payload, action->packet.length_bytes);
    return tt_trigger_reference_encode((uint64_t)(uintptr_t)action->payload, region->key, region->key_bytes, reference);
}

static void send_packet(struct tt_triggers *triggers, const struct tt_offload_action *action)
{
    struct tt_trigger_frame frame = {.source = triggers->group->rank,
                                     .group = triggers->party.key,
                                     .packet = action->packet,
                                     .piece = action->payload};
    uint8_t reference[TT_TRIGGER_MAX_REFERENCE_BYTES];
    bool stays = action->packet.is_copied; /* else it lies in the user's memory, who may have it back if this fails */

    if (action->packet.kind == TT_TRIGGER_ACCEPTED && action->packet.is_copied) {
        hold(triggers, action);
        return;
    }
    if (action->packet.kind == TT_TRIGGER_REMOTE) {
        frame.piece = reference;
        stays = false;
        frame.packet.reference_bytes = (uint16_t)refer(triggers, action, reference);
        if (frame.packet.reference_bytes == 0) {
            return;
        }
    } else if (action->packet.kind == TT_TRIGGER_ACCEPTED && action->packet.length_bytes > triggers->inline_bytes) {
        frame.piece = reference;
        stays = false;
        frame.packet.reference_bytes = (uint16_t)tt_triggers_slots_give(triggers, action->node, reference);
    }
    send_held(triggers, action->node, true);
#ifdef TT_FAULT_TRIGGERS_REFERENCE_STAYS
    stays = true;
#endif
    send_pieces(triggers, action->node, &frame, stays);
}

static void fetch(struct tt_triggers *triggers, const struct tt_offload_action *action)
{
    struct tt_peer *peer = triggers->peers[action->node].peer;
    tutti_status status = TUTTI_ERR_PEER_FAILED;
    const void *key;
    uint32_t key_bytes;
    uint64_t address;

    assert((triggers->fetching >> action->port & 1) == 0);
    if (!tt_trigger_reference_decode(action->payload, action->packet.reference_bytes, &address, &key, &key_bytes)) {
        status = TUTTI_ERR_PROTOCOL;
    } else if (key_bytes == 0) {
        status = tt_triggers_slots_fetch(triggers, action->port, action->node, address) ? TUTTI_OK : TUTTI_ERR_PROTOCOL;
    } else if (peer != NULL && peer->connection != NULL) {
        status =
            peer->connection->ops->get(peer->connection, key, key_bytes, address, action->destination,
                                       action->packet.length_bytes, tt_party_cookie(&triggers->party, action->port));
        triggers->fetching |= (status == TUTTI_OK ? UINT32_C(1) : 0) << action->port;
        triggers->sources[action->port] = action->node;
    }
    if (status == TUTTI_OK) {
        tt_group_count(&triggers->group->bytes_fetched, action->packet.length_bytes);
        return;
    }
    triggers->answered |= UINT32_C(1) << action->port;
    if (status == TUTTI_ERR_PEER_FAILED) {
        tt_triggers_miss(triggers, action->node);
    } else {
        tt_triggers_note_trouble(triggers, status, TT_RANK_NONE);
    }
}

static void complete(struct tt_triggers *triggers, const struct tt_offload_action *action)
{
    tt_operation_ended(&runs_on(triggers, action->port)->operation, triggers->offload, &triggers->pulses, action);
}

void tt_triggers_carry_out(struct tt_triggers *triggers, const struct tt_offload_actions *actions)
{
    for (uint32_t i = 0; i < actions->count; i++) {
        const struct tt_offload_action *action = &actions->actions[i];

        switch (action->kind) {
        case TT_OFFLOAD_SEND:
            send_packet(triggers, action);
            break;
        case TT_OFFLOAD_FETCH:
            fetch(triggers, action);
            break;
        case TT_OFFLOAD_COMPLETE:
            complete(triggers, action);
            break;
        }
    }
}
