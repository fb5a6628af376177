/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Slots: memory of a rank that the one before it around the ring puts long operands into, so that they need not be
 * announced first, asked for, and only then sent.
 *
 * Normal path: each answer to an operand that was not in its packet brings a slot that is free. Whoever has one puts
 * the next such operand there, and the packet goes with the immediate of the put; when its turn comes the operand is
 * read from the slot, which is free again with the answer. Without a slot it is announced, so the first ones are.
 *
 * Failures: what names no slot that was given to its sender, and has been filled, is none of a schedule's, and an
 * immediate that no slot has is nobody's. A packet that the engine does not take stays in its slot: a rank at fault has
 * fewer of them. A put that ends badly fails the group, as a get does, or its rank has. Where there is no memory for
 * slots, what is long is announced.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/pages.h"
#include "engine/triggers.h"

_Static_assert((int)TT_TRIGGER_PACKET_BYTES <= (int)TT_P2P_MAX_IMMEDIATE_BYTES, "a packet goes with an immediate");

#define PAYLOAD_MASK ((UINT64_C(1) << TT_PARTY_PAYLOAD_BITS) - 1)

static uint32_t bit_of(uint32_t index)
{
    return UINT32_C(1) << index;
}

static const uint8_t *slot_at(const struct tt_triggers_slots *slots, uint32_t slot)
{
    return slots->bytes + (size_t)slot * TT_TRIGGERS_MESSAGE_BYTES;
}

/* --- Slots of this rank ------------------------------------------------------------------------------------------- */

/* Returns false where there are none to be had, and then nothing is left of them. */
static bool make(struct tt_triggers_slots *slots, struct tt_p2p *p2p)
{
    const size_t bytes = (size_t)TT_TRIGGERS_SLOTS * TT_TRIGGERS_MESSAGE_BYTES;
    size_t key_bytes = sizeof slots->key;
    bool fine;

    slots->bytes = tt_pages_allocate(bytes);
    if (slots->bytes == NULL || p2p->ops->memory_register(p2p, slots->bytes, bytes, &slots->memory) != TUTTI_OK) {
        slots->memory = NULL;
    }
    fine = slots->memory != NULL && p2p->ops->memory_pack(slots->memory, slots->key, &key_bytes) == TUTTI_OK &&
           key_bytes <= TT_TRIGGER_FRAME_MAX_KEY_BYTES;
    if (!fine) {
        if (slots->memory != NULL) {
            p2p->ops->memory_release(slots->memory);
        }
        free(slots->bytes);
        slots->bytes = NULL;
        slots->memory = NULL;
    }
    slots->key_bytes = (uint32_t)key_bytes;
    return fine;
}

void tt_triggers_slots_make(struct tt_triggers *triggers, uint32_t source)
{
    struct tt_triggers_slots *slots = &triggers->slots;

    if (slots->memory != NULL) {
        return;
    }
    if (!make(slots, triggers->group->network->p2p)) {
        TT_LOG(TT_PART_ENGINE, TT_LOG_INFO,
               "rank %u: no memory for %d messages of %d bytes that others put here: what is long is announced",
               triggers->group->rank, TT_TRIGGERS_SLOTS, TT_TRIGGERS_MESSAGE_BYTES);
        tt_clear_error(); /* nothing fails for that */
        return;
    }
    slots->source = source;
    slots->loans = triggers->party.key; /* which only the group's ranks know */
}

void tt_triggers_slots_end(struct tt_triggers *triggers)
{
    if (triggers->slots.memory != NULL) {
        triggers->slots.memory->ops->memory_release(triggers->slots.memory);
    }
    free(triggers->slots.bytes);
}

uint32_t tt_triggers_slots_give(struct tt_triggers *triggers, uint32_t rank, void *reference)
{
    struct tt_triggers_slots *slots = &triggers->slots;
    uint32_t slot = 0;

    if (slots->memory == NULL || rank != slots->source) {
        return 0;
    }
#ifdef TT_FAULT_TRIGGERS_SLOT_TWICE
    while (slot < TT_TRIGGERS_SLOTS && (slots->given & ~slots->landed & bit_of(slot)) != 0) {
#else
    while (slot < TT_TRIGGERS_SLOTS && (slots->given & bit_of(slot)) != 0) {
#endif
        slot++;
    }
    if (slot == TT_TRIGGERS_SLOTS) {
        return 0;
    }
    slots->given |= bit_of(slot);
    slots->immediates[slot] =
        tt_party_cookie(&triggers->party, (slots->loans++ * TT_TRIGGERS_SLOTS + slot) & PAYLOAD_MASK);
    return tt_trigger_slot_encode(&(struct tt_trigger_slot){.immediate = slots->immediates[slot],
                                                            .address = (uint64_t)(uintptr_t)slot_at(slots, slot),
                                                            .key = slots->key,
                                                            .key_bytes = slots->key_bytes},
                                  reference);
}

/* TT_TRIGGERS_SLOTS: none of the slots that are given has it. */
static uint32_t find_slot(const struct tt_triggers_slots *slots, uint64_t immediate)
{
    uint32_t slot = (uint32_t)(immediate % TT_TRIGGERS_SLOTS);

    return (slots->given & bit_of(slot)) != 0 && slots->immediates[slot] == immediate ? slot : TT_TRIGGERS_SLOTS;
}

static bool is_read(const struct tt_triggers_slots *slots, uint32_t slot)
{
    bool is = false;

    for (uint32_t port = 0; port < TT_TRIGGERS_PORTS; port++) {
        is = is || slots->of_port[port] == slot + 1;
    }
    return is;
}

bool tt_triggers_slots_landed(struct tt_triggers *triggers, uint64_t immediate, const uint8_t *bytes,
                              uint32_t length_bytes, uint8_t whole[TT_TRIGGERS_SLOT_PACKET_BYTES],
                              struct tt_trigger_packet *packet)
{
    struct tt_triggers_slots *slots = &triggers->slots;
    uint32_t slot = find_slot(slots, immediate);

    if (slot == TT_TRIGGERS_SLOTS || (slots->landed & bit_of(slot)) != 0 || length_bytes != TT_TRIGGER_PACKET_BYTES) {
        return false;
    }
    memcpy(whole, bytes, TT_TRIGGER_PACKET_BYTES);
    (void)tt_trigger_reference_encode(immediate, NULL, 0, whole + TT_TRIGGER_PACKET_BYTES);
    if (!tt_trigger_packet_decode(whole, TT_TRIGGERS_SLOT_PACKET_BYTES, packet) || packet->kind != TT_TRIGGER_REMOTE ||
        packet->node != slots->source) {
        return false;
    }
    slots->landed |= bit_of(slot);
    return true;
}

bool tt_triggers_slots_fetch(struct tt_triggers *triggers, uint32_t port, uint32_t rank, uint64_t immediate)
{
    struct tt_triggers_slots *slots = &triggers->slots;
    uint32_t slot = find_slot(slots, immediate);

    if (slot == TT_TRIGGERS_SLOTS || rank != slots->source || (slots->landed & bit_of(slot)) == 0 ||
        is_read(slots, slot)) {
        return false;
    }
    slots->of_port[port] = (uint8_t)(slot + 1);
    triggers->answered |= bit_of(port);
    return true;
}

const void *tt_triggers_slots_data(const struct tt_triggers *triggers, uint32_t port)
{
    uint32_t slot = triggers->slots.of_port[port];

    return slot > 0 ? slot_at(&triggers->slots, slot - 1) : NULL;
}

void tt_triggers_slots_read(struct tt_triggers *triggers, uint32_t port)
{
    struct tt_triggers_slots *slots = &triggers->slots;

    if (slots->of_port[port] > 0) {
        uint32_t bit = bit_of(slots->of_port[port] - 1U);

        slots->given &= ~bit;
        slots->landed &= ~bit;
        slots->of_port[port] = 0;
    }
}

/* --- Slots of the next rank --------------------------------------------------------------------------------------- */

void tt_triggers_slots_take(struct tt_triggers *triggers, uint32_t rank, const void *reference, uint32_t length_bytes)
{
    struct tt_triggers_targets *targets = &triggers->targets;
    struct tt_trigger_slot slot;

    if (targets->rank == triggers->group->rank) {
        targets->rank =
            rank; /* it has made what goes around the ring before this rank did, and knows who is before it */
    }
    if (!tt_trigger_slot_decode(reference, length_bytes, &slot) || slot.key_bytes > sizeof targets->key ||
        rank != targets->rank || targets->count == TT_TRIGGERS_SLOTS) {
        triggers->group->member.drops_frame++;
        return;
    }
    targets->free[targets->count].immediate = slot.immediate;
    targets->free[targets->count++].address = slot.address;
    memcpy(targets->key, slot.key, slot.key_bytes);
    targets->key_bytes = slot.key_bytes;
}

static struct tt_triggers_put *find_put(struct tt_triggers *triggers, uint32_t rank, uint64_t key)
{
    for (uint32_t i = 0; i < TT_TRIGGERS_PUTS; i++) {
        struct tt_triggers_put *put = &triggers->puts[i];

        if (put->is_unanswered && put->rank == rank && put->key == key) {
            return put;
        }
    }
    return NULL;
}

bool tt_triggers_slots_hold(struct tt_triggers *triggers, uint32_t rank, const struct tt_trigger_packet *packet,
                            uint64_t *immediate)
{
    const struct tt_triggers_put *put = find_put(triggers, rank, tt_trigger_packet_key(packet));

    if (put != NULL) {
        *immediate = put->immediate;
    }
    return put != NULL;
}

static struct tt_triggers_put *find_free(struct tt_triggers *triggers)
{
    for (uint32_t i = 0; i < TT_TRIGGERS_PUTS; i++) {
        if (!triggers->puts[i].is_unanswered && triggers->puts[i].of == NULL) {
            return &triggers->puts[i];
        }
    }
    return NULL;
}

bool tt_triggers_slots_put(struct tt_triggers *triggers, const struct tt_offload_action *action,
                           struct tt_triggered *triggered)
{
    struct tt_triggers_targets *targets = &triggers->targets;
    struct tt_peer *peer = triggers->peers[action->node].peer;
    struct tt_triggers_put *put = find_free(triggers);
    struct tt_p2p_immediate immediate = {0};
    tutti_status status;

    if (put == NULL || targets->count == 0 || targets->rank != action->node || peer == NULL ||
        peer->connection == NULL) {
        return false;
    }
    immediate.value = targets->free[targets->count - 1].immediate;
    immediate.data_bytes = TT_TRIGGER_PACKET_BYTES; /* what it refers to is the immediate */
    tt_trigger_packet_encode(&action->packet, immediate.data);
    status = peer->connection->ops->put(
        peer->connection, targets->key, targets->key_bytes, targets->free[targets->count - 1].address, action->payload,
        action->packet.length_bytes, &immediate,
        tt_party_cookie(&triggers->party, TT_TRIGGERS_PORTS + (uint64_t)(put - triggers->puts)));
    if (status != TUTTI_OK) {
        if (status != TUTTI_ERR_PEER_FAILED) {
            tt_triggers_note_trouble(triggers, status, TT_RANK_NONE);
        }
        return false;
    }
    *put = (struct tt_triggers_put){.rank = action->node,
                                    .key = tt_trigger_packet_key(&action->packet),
                                    .immediate = immediate.value,
                                    .is_unanswered = true,
                                    .of = triggered};
    triggered->putting++;
    targets->count--;
    return true;
}

void tt_triggers_slots_answered(struct tt_triggers *triggers, const struct tt_trigger_packet *reply)
{
    struct tt_triggers_put *put = find_put(
        triggers, reply->node, tt_trigger_key(reply->job, triggers->group->rank, reply->source_port, reply->sequence));

    if (put != NULL) {
        put->is_unanswered = false;
    }
}

void tt_triggers_slots_put_done(struct tt_triggers *triggers, uint64_t index, tutti_status status)
{
    struct tt_triggers_put *put = &triggers->puts[index];

    assert(index < TT_TRIGGERS_PUTS && put->of != NULL && put->of->putting > 0);
    put->of->putting--;
    put->of = NULL;
    if (status == TUTTI_ERR_PEER_FAILED || status == TUTTI_ERR_PROTOCOL) {
        tt_triggers_miss(triggers, put->rank); /* its word of that is on another way, as with gets */
    } else if (status != TUTTI_OK && status != TUTTI_ERR_CANCELED) {
        tt_triggers_note_trouble(triggers, status, TT_RANK_NONE);
    }
}

void tt_triggers_slots_abandon(struct tt_triggers *triggers)
{
    for (uint32_t i = 0; i < TT_TRIGGERS_PUTS; i++) {
        struct tt_peer *peer = triggers->peers[triggers->puts[i].rank].peer;

        if (triggers->puts[i].of != NULL && peer->connection != NULL) {
            tt_network_abandon(triggers->group->network, peer);
        }
    }
}

/* --- Checks ------------------------------------------------------------------------------------------------------- */

void tt_triggers_slots_check(const struct tt_triggers *triggers)
{
    const struct tt_triggers_slots *slots = &triggers->slots;
    uint32_t putting = 0;

    assert((slots->landed & ~slots->given) == 0 && slots->given >> TT_TRIGGERS_SLOTS == 0);
    assert(slots->memory != NULL || slots->given == 0);
    for (uint32_t port = 0; port < TT_TRIGGERS_PORTS; port++) {
        assert(slots->of_port[port] == 0); /* it is read in the step in which it is fetched */
    }
    assert(triggers->targets.count <= TT_TRIGGERS_SLOTS);
    for (uint32_t i = 0; i < TT_TRIGGERS_PUTS; i++) {
        putting += triggers->puts[i].of != NULL;
    }
    for (const struct tt_triggered *t = triggers->first; t != NULL; t = t->next) {
        putting -= t->putting;
    }
    assert(putting == 0);
}
