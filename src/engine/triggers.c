/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The triggered engine over p2p. Normal path of a step: operations post what they may, the engine gets its event, and
 * what it asks for is carried out (triggers_carry.c). Packets come in frames, or with what is put here.
 *
 * Failures: a connection that is gone fails the group, by its own event if the rank is a neighbour there, else if
 * something here needs that rank, now or later; gets that it ends say so to the engine, which closes the port. A get
 * that ends for want of something on this side is the group's trouble at once; what does not fit a collective is, once
 * all ranks have agreed on it. Where the group has failed, everything is closed; a get that does not end then is ended
 * with its connection.
 */
#include "engine/triggers.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/cache_line.h"
#include "base/least.h"
#include "base/log.h"
#include "base/pages.h"
#include "engine/locality.h"
#include "engine/request.h"

enum { WINDOW = TT_OFFLOAD_MOST_WINDOW, CREDITS = TT_PULSE_MOST_COUNTERS };

_Static_assert(TT_MEMBER_MAX_IN_FLIGHT *TT_TRIGGERS_PORTS <= CREDITS, "whoever is posted has its credits");

#define RETRY_NS       UINT64_C(100000)
#define PULSE_ELEMENTS (UINT64_C(1) << 48) /* more than any pulse has: here ports limit how many are in flight */

/* --- Steps -------------------------------------------------------------------------------------------------------- */

/* All ranks post pulses to ports in the same order: so one operation after the other. */
static void post_pulses(struct tt_triggers *triggers, uint64_t now_ns)
{
    struct tt_triggered *triggered = triggers->first;
    tutti_status status;

    while (triggered != NULL && triggered->is_started) {
        tt_operation_advance(&triggered->operation, triggers->offload, &triggers->pulses, now_ns);
        if (triggered->operation.next < triggered->operation.pulse_count &&
            !tt_operation_is_done(&triggered->operation, &status)) {
            return;
        }
        triggered = triggered->next;
    }
}

/* Those that are over go, wherever they are in the list. */
static void end_operations(struct tt_triggers *triggers)
{
    struct tt_triggered **link = &triggers->first;

    while (*link != NULL) {
        struct tt_triggered *triggered = *link;
        tutti_status status;

        if (!triggered->is_started || !tt_operation_is_done(&triggered->operation, &status) || triggered->putting > 0) {
            link = &triggered->next;
            continue;
        }
        *link = triggered->next;
        triggered->is_queued = false;
        tt_triggered_ended(triggered, status);
    }
    triggers->last = link;
}

/* A rank whose connection is gone, and without which something here would not end. */
static void look_for_the_missed(struct tt_triggers *triggers)
{
    if (triggers->down_count == 0 || triggers->group->member.status != TUTTI_OK) {
        return;
    }
    if (!triggers->misses && triggers->first == NULL && tt_offload_is_settled(triggers->offload)) {
        return; /* all leave when all has ended: nobody looks through all of them for each that does */
    }
    for (uint32_t rank = 0; rank < triggers->group->size; rank++) {
        const struct tt_triggers_peer *peer = &triggers->peers[rank];

        if (peer->is_down && (peer->is_missed || tt_offload_needs(triggers->offload, rank))) {
            bool starved = peer->peer != NULL && peer->peer->starved;

            tt_triggers_note_trouble(triggers, starved ? TUTTI_ERR_NO_RESOURCE : TUTTI_ERR_PEER_FAILED, rank);
            return;
        }
    }
}

/* Gives the engine an event, and carries out what it asks for; a slot that it has read is free for what is asked. */
static tutti_status pass(struct tt_triggers *triggers, const struct tt_offload_event *event,
                         struct tt_offload_actions *actions)
{
    tutti_status status;

    actions->count = 0;
    post_pulses(triggers, event->now_ns);
    status = tt_offload_step(triggers->offload, event, actions);
    if (event->kind == TT_OFFLOAD_FETCHED) {
        tt_triggers_slots_read(triggers, event->port);
    }
    tt_triggers_carry_out(triggers, actions);
    return status;
}

/* What was not fetched from afar: it is in a slot, or could not be fetched. */
static struct tt_offload_event take_answered(struct tt_triggers *triggers, uint64_t now_ns)
{
    struct tt_offload_event event = {
        .kind = TT_OFFLOAD_FETCHED, .now_ns = now_ns, .port = (uint16_t)__builtin_ctz(triggers->answered)};

    triggers->answered &= triggers->answered - 1;
    event.payload = tt_triggers_slots_data(triggers, event.port);
    event.status = event.payload != NULL ? TUTTI_OK : TUTTI_ERR_PEER_FAILED;
    return event;
}

static void step(struct tt_triggers *triggers, const struct tt_offload_event *event)
{
    struct tt_offload_actions actions = {.actions = triggers->actions, .capacity = TT_TRIGGERS_ACTIONS};
    const struct tt_offload_event tick = {.kind = TT_OFFLOAD_TICK, .now_ns = event->now_ns};
    tutti_status status;

    assert(!triggers->steps);
    triggers->steps = true;
    status = pass(triggers, event, &actions);
    if (status != TUTTI_OK) {
        triggers->group->member.drops_frame++;
        TT_LOG(TT_PART_ENGINE, TT_LOG_DEBUG, "rank %u: dropped a packet of no collective: %s", triggers->group->rank,
               tutti_status_text(status));
    }
    while (tt_offload_deadline(triggers->offload) == 0 || actions.count > 0 || triggers->answered != 0) {
        const struct tt_offload_event fetched = triggers->answered != 0 ? take_answered(triggers, event->now_ns) : tick;

        (void)pass(triggers, &fetched, &actions);
    }
    end_operations(triggers);
    triggers->party.deadline_ns =
        tt_least(tt_least(tt_offload_deadline(triggers->offload), triggers->patience_ns), triggers->held_due_ns);
    triggers->steps = false;
    look_for_the_missed(triggers);
    tt_group_note_owes(triggers->group);
    tt_party_wake(&triggers->group->engine->parties, &triggers->party);
}

static void tick(struct tt_triggers *triggers)
{
    step(triggers,
         &(struct tt_offload_event){.kind = TT_OFFLOAD_TICK, .now_ns = tt_engine_now(triggers->group->engine)});
}

void tt_triggers_queue(struct tt_triggers *triggers, struct tt_triggered *triggered)
{
    assert(!triggered->is_queued);
    triggered->is_queued = true;
    triggered->is_started = false;
    triggered->next = NULL;
    triggered->terms.compile.job = triggers->next_job++; /* modulo 256 */
    triggered->terms.first_lane = triggers->next_lane;
    triggers->next_lane = (triggers->next_lane + 1) % TT_TRIGGERS_PORTS;
    *triggers->last = triggered;
    triggers->last = &triggered->next;
}

void tt_triggers_start(struct tt_triggers *triggers, struct tt_triggered *triggered)
{
    assert(triggered->is_queued && !triggered->is_started);
    triggered->is_started = true;
    tick(triggers);
}

void tt_triggers_forget(struct tt_triggers *triggers, struct tt_triggered *triggered)
{
    struct tt_triggered **link = &triggers->first;

    assert(triggered->is_queued && !triggered->is_started);
    while (*link != triggered) {
        link = &(*link)->next;
    }
    *link = triggered->next;
    triggers->last = triggers->last == &triggered->next ? link : triggers->last;
    triggered->is_queued = false;
}

/* Its operations end when nothing is fetched or put any more. */
void tt_triggers_cancel(struct tt_triggers *triggers, tutti_status status)
{
    assert(status != TUTTI_OK);
    for (uint16_t port = 0; port < TT_TRIGGERS_PORTS; port++) {
        tt_offload_close_port(triggers->offload, port, status);
    }
    if (triggers->patience_ns == TT_NEVER) {
        triggers->patience_ns = tt_engine_now(triggers->group->engine) + TT_COLLECTIVE_PATIENCE_NS;
    }
    tick(triggers);
}

/* --- A party of the engine ---------------------------------------------------------------------------------------- */

static struct tt_triggers *triggers_of(struct tt_party *party)
{
    return (struct tt_triggers *)party;
}

/* Operands are aligned as well as memory of malloc's is, as a user's function may rely on that. */
static bool is_aligned(const void *bytes)
{
    return (uintptr_t)bytes % _Alignof(max_align_t) == 0;
}

/* Puts a piece to those before it; a payload that is here as a whole is left where it is. NULL: it is none that comes
 * next, or of a packet that is longer than any, or in pieces where none is. Else the payload's beginning. */
static const uint8_t *take_piece(const struct tt_triggers *triggers, struct tt_triggers_peer *from,
                                 const struct tt_trigger_frame *frame)
{
    uint32_t all_bytes = tt_trigger_packet_payload_bytes(&frame->packet);

    from->come = frame->offset_bytes == 0 ? 0 : from->come;
    if (from->peer == NULL || frame->offset_bytes != from->come || all_bytes > triggers->inline_bytes) {
        from->come = 0;
        return NULL;
    }
    from->come += frame->piece_bytes;
    if (frame->piece_bytes == all_bytes && is_aligned(frame->piece)) {
        return frame->piece;
    }
    if (from->bytes == NULL) {
        from->come = 0;
        return NULL;
    }
#ifdef TT_FAULT_TRIGGERS_PIECE_IN_FRONT
    memcpy(from->bytes, frame->piece, frame->piece_bytes);
#else
    memcpy(from->bytes + frame->offset_bytes, frame->piece, frame->piece_bytes);
#endif
    return from->bytes;
}

static void take_frame(struct tt_party *party, const struct tt_origin *origin, const uint8_t *bytes,
                       uint32_t length_bytes)
{
    struct tt_triggers *triggers = triggers_of(party);
    struct tt_group *group = triggers->group;
    struct tt_trigger_frame frame;
    struct tt_triggers_peer *from;
    const uint8_t *payload;
    struct tt_offload_event event = {.kind = TT_OFFLOAD_PACKET, .now_ns = tt_engine_now(group->engine)};

    if (!tt_trigger_frame_decode(bytes, length_bytes, &frame)) {
        TT_LOG(TT_PART_ENGINE, TT_LOG_DEBUG, "dropped a malformed frame of %u bytes", length_bytes);
        return;
    }
    tt_group_count(&group->frames_received, 1);
    tt_group_count(&group->frame_bytes_received, length_bytes);
    if (!tt_directory_trusts(&group->directory, origin, frame.source)) {
        tt_group_count(&group->drops_sender, 1);
        return;
    }
    from = &triggers->peers[frame.source];
    payload = take_piece(triggers, from, &frame);
    if (payload == NULL) {
        group->member.drops_frame++; /* nothing by any schedule here */
        return;
    }
    if (from->come < tt_trigger_packet_payload_bytes(&frame.packet)) {
        return;
    }
    from->come = 0;
    if (frame.packet.kind == TT_TRIGGER_ACCEPTED && frame.packet.length_bytes > triggers->inline_bytes &&
        tt_offload_awaits(triggers->offload, &frame.packet)) {
        tt_triggers_slots_answered(triggers, &frame.packet);
        if (frame.packet.reference_bytes > 0) {
            tt_triggers_slots_take(triggers, frame.source, payload, frame.packet.reference_bytes);
        }
    }
    event.packet = &frame.packet;
    event.payload = payload;
    step(triggers, &event);
}

/* Who refuses a get has released what was announced: it has failed, and its word of that, which is on another way, says
 * why. */
static void get_done(struct tt_triggers *triggers, uint16_t port, tutti_status status)
{
    bool is_gone = status == TUTTI_ERR_CANCELED || status == TUTTI_ERR_PROTOCOL;
    struct tt_offload_event event = {.kind = TT_OFFLOAD_FETCHED,
                                     .now_ns = tt_engine_now(triggers->group->engine),
                                     .port = port,
                                     .status = is_gone ? TUTTI_ERR_PEER_FAILED : status};

    assert((triggers->fetching >> port & 1) != 0);
    triggers->fetching &= ~(UINT32_C(1) << port);
    if (event.status == TUTTI_ERR_PEER_FAILED) {
        tt_triggers_miss(triggers, triggers->sources[port]);
    } else if (event.status != TUTTI_OK) {
        tt_triggers_note_trouble(triggers, event.status, TT_RANK_NONE); /* which need not wait, as a misfit does */
    }
    step(triggers, &event);
}

/* Cookies: a get's is its port, those of puts are behind them. */
static void done(struct tt_party *party, uint64_t payload, tutti_status status)
{
    struct tt_triggers *triggers = triggers_of(party);

    if (payload < TT_TRIGGERS_PORTS) {
        get_done(triggers, (uint16_t)payload, status);
        return;
    }
    tt_triggers_slots_put_done(triggers, payload - TT_TRIGGERS_PORTS, status);
    tick(triggers);
}

/* Of the rank that the slot was given to: only ranks of the group know what immediates are made of, and these trust one
 * another. */
static void take_immediate(struct tt_party *party, uint64_t immediate, const uint8_t *bytes, uint32_t length_bytes)
{
    struct tt_triggers *triggers = triggers_of(party);
    uint8_t whole[TT_TRIGGERS_SLOT_PACKET_BYTES];
    struct tt_trigger_packet packet;
    const struct tt_offload_event event = {.kind = TT_OFFLOAD_PACKET,
                                           .now_ns = tt_engine_now(triggers->group->engine),
                                           .packet = &packet,
                                           .payload = whole + TT_TRIGGER_PACKET_BYTES};

    if (!tt_triggers_slots_landed(triggers, immediate, bytes, length_bytes, whole, &packet)) {
        triggers->group->member.drops_frame++;
        return;
    }
    step(triggers, &event);
}

/* Of its neighbours the group hears itself. Others may have left, with nothing to do here any more. */
static void peer_down(struct tt_party *party, const struct tt_peer *peer)
{
    struct tt_triggers *triggers = triggers_of(party);

    for (uint32_t rank = 0; rank < triggers->group->size; rank++) {
        struct tt_triggers_peer *down = &triggers->peers[rank];

        if (down->peer == peer && !down->is_down) {
            down->is_down = true;
            triggers->down_count++;
        }
    }
    look_for_the_missed(triggers);
}

const struct tt_peer *tt_triggers_peer(const struct tt_triggers *triggers, uint32_t rank)
{
    return triggers != NULL ? triggers->peers[rank].peer : NULL;
}

static void lose_patience(struct tt_triggers *triggers)
{
    triggers->patience_ns = TT_NEVER - 1; /* once */
    for (uint32_t port = 0; port < TT_TRIGGERS_PORTS; port++) {
        struct tt_peer *source = triggers->peers[triggers->sources[port]].peer;

        if ((triggers->fetching >> port & 1) != 0 && source->connection != NULL) {
            tt_network_abandon(triggers->group->network, source);
        }
    }
    tt_triggers_slots_abandon(triggers);
}

static bool after_frames(struct tt_party *party, uint64_t now_ns, bool looked)
{
    struct tt_triggers *triggers = triggers_of(party);

    if (looked && triggers->patience_ns <= now_ns) {
        lose_patience(triggers);
    }
    if (triggers->held_due_ns <= now_ns) {
        tt_triggers_flush_due(triggers, now_ns);
    }
    if (party->deadline_ns <= now_ns) {
        tick(triggers);
    }
    return false;
}

static uint64_t deadline(const struct tt_party *party)
{
    return party->deadline_ns;
}

static bool may_sleep(const struct tt_party *party)
{
    return party->deadline_ns >= TT_NEVER - 1;
}

static void check(const struct tt_party *party)
{
    tt_triggers_check((const struct tt_triggers *)party);
}

static const struct tt_party_ops ops = {.magic = TT_TRIGGER_FRAME_MAGIC,
                                        .frame = take_frame,
                                        .done = done,
                                        .immediate = take_immediate,
                                        .peer_down = peer_down,
                                        .after_frames = after_frames,
                                        .deadline = deadline,
                                        .may_sleep = may_sleep,
                                        .check = check};

/* --- Life --------------------------------------------------------------------------------------------------------- */

uint32_t tt_triggers_piece_bytes(uint32_t frame_bytes)
{
    uint32_t room_bytes = frame_bytes - TT_TRIGGER_FRAME_HEAD_BYTES;

    return room_bytes - room_bytes % TT_CACHE_LINE_BYTES;
}

/* As many packets as there are ranks find room when they come early. */
uint32_t tt_triggers_inline_bytes(uint32_t frame_bytes, uint32_t size)
{
    uint32_t bytes = tt_triggers_piece_bytes(frame_bytes) >= TT_TRIGGERS_INLINE_BYTES ? TT_TRIGGERS_INLINE_BYTES
                                                                                      : TT_TRIGGERS_PIECED_BYTES;

    while (bytes > TT_TRIGGERS_LEAST_BYTES && (uint64_t)bytes * size > TT_TRIGGERS_ROOM_BYTES) {
        bytes /= 2;
    }
    return bytes;
}

static struct tt_offload_terms terms_for(const struct tt_group *group)
{
    struct tt_offload_terms terms = {.node = group->rank,
                                     .unit_count = 1,
                                     .port_count = TT_TRIGGERS_PORTS,
                                     .packet_bytes = TT_TRIGGERS_MESSAGE_BYTES,
                                     .inline_bytes =
                                         tt_triggers_inline_bytes(group->network->p2p->frame_bytes, group->size),
                                     .window = WINDOW,
                                     .copies = TT_TRIGGERS_COPIES,
                                     .queue_length = TT_MEMBER_MAX_IN_FLIGHT,
                                     .retry_ns = RETRY_NS};

    terms.unit_bytes = TT_TRIGGERS_ROOM_BYTES;
    return terms;
}

static tutti_status prepare(struct tt_triggers *triggers)
{
    struct tt_offload_terms terms = terms_for(triggers->group);
    size_t bytes = tt_offload_memory_bytes(&terms);

    assert(bytes > 0);
    triggers->inline_bytes = terms.inline_bytes;
    triggers->piece_bytes = tt_triggers_piece_bytes(triggers->group->network->p2p->frame_bytes);
    triggers->peers = calloc(triggers->group->size, sizeof *triggers->peers);
    triggers->memory = tt_pages_allocate(bytes);
    if (triggers->peers == NULL || triggers->memory == NULL) {
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_NO_MEMORY, "no memory for a triggered engine of %zu bytes", bytes);
    }
    triggers->offload = tt_offload_init(&terms, triggers->memory);
    tt_pulses_init(&triggers->pulses, PULSE_ELEMENTS * CREDITS, CREDITS);
    return tt_party_list(&triggers->group->engine->parties, &triggers->party, &triggers->group->party);
}

static void destroy(struct tt_triggers *triggers)
{
    for (uint32_t rank = 0; triggers->peers != NULL && rank < triggers->group->size; rank++) {
        if (triggers->peers[rank].peer != NULL) {
            tt_network_disconnect(triggers->group->network, triggers->peers[rank].peer);
        }
        free(triggers->peers[rank].bytes);
    }
    tt_triggers_slots_end(triggers);
    free(triggers->peers);
    free(triggers->memory);
    free(triggers);
}

tutti_status tt_triggers_find(struct tt_group *group, struct tt_triggers **triggers)
{
    struct tt_triggers *made;
    tutti_status status;

    if (group->triggers != NULL) {
        *triggers = group->triggers;
        return TUTTI_OK;
    }
    if (group->size > TT_TRIGGER_NODES) {
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_NOT_SUPPORTED, "%u ranks: packets have room for %u", group->size,
                        TT_TRIGGER_NODES);
    }
    made = aligned_alloc(TT_CACHE_LINE_BYTES, tt_whole_lines(sizeof *made));
    if (made == NULL) {
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_NO_MEMORY, "no memory for a triggered engine");
    }
    memset(made, 0, sizeof *made);
    made->group = group;
    made->party = (struct tt_party){
        .ops = &ops, .key = tt_locality_key(group->party.key, TT_TRIGGER_FRAME_MAGIC), .deadline_ns = TT_NEVER};
    made->patience_ns = made->held_due_ns = TT_NEVER;
    made->last = &made->first;
    made->targets.rank = group->rank;
    status = prepare(made);
    if (status != TUTTI_OK) {
        destroy(made);
        return status;
    }
    *triggers = group->triggers = made;
    return TUTTI_OK;
}

/* Whether packets come in pieces, or where they may not lie aligned. */
static bool copies_what_comes(const struct tt_triggers *triggers)
{
    return triggers->piece_bytes < triggers->inline_bytes || !triggers->group->network->p2p->aligns;
}

static tutti_status connect_rank(struct tt_triggers *triggers, uint32_t rank)
{
    const struct tt_group *group = triggers->group;
    struct tt_triggers_peer *peer = &triggers->peers[rank];

    if (peer->peer != NULL) {
        return TUTTI_OK;
    }
    if (peer->bytes == NULL && copies_what_comes(triggers)) {
        peer->bytes = tt_pages_allocate(triggers->inline_bytes);
        if (peer->bytes == NULL) {
            return tt_error(TT_PART_ENGINE, TUTTI_ERR_NO_MEMORY, "no memory for packets of %u bytes",
                            triggers->inline_bytes);
        }
    }
    return tt_directory_connect(&group->directory, group->network, rank, &peer->peer);
}

/* Around a ring all that is received comes from one rank. */
static bool wants_slots(const struct tt_triggers *triggers, const struct tt_triggered *triggered)
{
    const struct tt_compile_terms *terms = &triggered->terms.compile;
    uint64_t pulse_bytes = triggered->terms.pulse_elements * terms->element_bytes;

    return terms->schedule->algorithm == TT_SCHEDULE_RING &&
           pulse_bytes > (uint64_t)triggers->inline_bytes * terms->schedule->size;
}

static void meet_in_ring(struct tt_triggers *triggers, uint32_t rank, bool is_next)
{
    if (is_next) {
        triggers->targets.rank = rank;
    } else {
        tt_triggers_slots_make(triggers, rank);
    }
}

tutti_status tt_triggers_connect(struct tt_triggers *triggers, const struct tt_triggered *triggered)
{
    const struct tt_compile_terms *terms = &triggered->terms.compile;
    uint64_t count = tt_schedule_write(terms->schedule, terms->blocks, terms->rank, NULL, 0);
    struct tt_schedule_step *steps = calloc(count + 1, sizeof *steps);
    tutti_status status = TUTTI_OK;

    if (steps == NULL) {
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_NO_MEMORY, "no memory for a schedule of %llu messages",
                        (unsigned long long)count);
    }
    tt_schedule_write(terms->schedule, terms->blocks, terms->rank, steps, count);
    for (uint64_t i = 0; i < count && status == TUTTI_OK; i++) {
        status = connect_rank(triggers, tt_compile_node(terms, steps[i].peer));
        if (status == TUTTI_OK && wants_slots(triggers, triggered)) {
            meet_in_ring(triggers, tt_compile_node(terms, steps[i].peer), steps[i].kind == TT_SCHEDULE_SEND);
        }
    }
    free(steps);
    return status;
}

void tt_triggers_leave(struct tt_triggers *triggers)
{
    if (triggers == NULL) {
        return;
    }
    assert(triggers->first == NULL && triggers->fetching == 0);
    tt_triggers_flush(triggers);
    triggers->group->triggers = NULL;
    tt_party_unlist(&triggers->group->engine->parties, &triggers->party);
    destroy(triggers);
}

void tt_triggers_check(const struct tt_triggers *triggers)
{
    uint32_t ports = (UINT32_C(1) << TT_TRIGGERS_PORTS) - 1, down = 0;

    assert(triggers->group->triggers == triggers);
    assert(!triggers->steps && triggers->answered == 0);
    assert((triggers->fetching & ~ports) == 0);
    assert((triggers->first == NULL) == (triggers->last == &triggers->first));
    assert(triggers->peers[triggers->group->rank].peer == NULL);
    assert((triggers->held_count > 0) == (triggers->held_due_ns != TT_NEVER));
    for (uint32_t rank = 0; rank < triggers->group->size; rank++) {
        assert(triggers->peers[rank].come < triggers->inline_bytes);
        assert(triggers->peers[rank].held_count < TT_TRIGGERS_HELD);
        assert(triggers->peers[rank].peer == NULL || triggers->peers[rank].bytes != NULL ||
               !copies_what_comes(triggers));
        down += triggers->peers[rank].is_down;
    }
    assert(down == triggers->down_count);
    tt_triggers_slots_check(triggers);
    tt_offload_check(triggers->offload);
    tt_pulses_check(&triggers->pulses);
}
