/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A group's membership. Normal path: a post takes the next sequence number and starts if it is within the window of
 * collectives in flight, else waits in line; frames go to the collective of their sequence number; a collective that
 * finishes makes room for the line. Failures: a dead neighbour, a mismatch, a deadline, or word of one from a neighbour
 * makes the group fail once, with one status and culprit, which is told to all neighbours and to all collectives.
 */
#include "proto/culprit.h"
#include "proto/member_private.h"

#include <assert.h>
#include <string.h>

#include "base/least.h"
#include "proto/collective_private.h"
#include "proto/rollcall.h"

_Static_assert(TT_MEMBER_MAX_NEIGHBOURS <= 64, "a bit a neighbour in 64 bits");
_Static_assert((int)TT_METHOD_COUNT <= 32, "a bit a method in 32 bits");
_Static_assert((int)TT_MEMBER_MAX_IN_FLIGHT < (int)TT_TAG_ORDINARY_COUNT, "each in progress has a tag of its own");

void tt_member_init(struct tt_member *member, const struct tt_member_config *config)
{
    memset(member, 0, sizeof *member);
    member->config = *config;
    assert(config->rank < config->size);
    assert(config->in_flight >= 1 && config->in_flight <= TT_MEMBER_MAX_IN_FLIGHT);
    member->line_end = &member->line;
    member->failed_rank = member->culprit = member->noticed_by = TT_RANK_NONE;
    member->neighbour_count = tt_dissemination_neighbours(config->rank, config->size, member->neighbours);
    memset(config->slots, 0, tt_member_slots(config->in_flight) * sizeof *config->slots);
    memset(config->present, 0, (config->size + 7) / 8);
    member->gathered.pool = member->pieces.pool = config->pool;
    member->pieces.own = config->own;
    tt_eager_init(&member->eager, config->rank, config->size, config->copies, tt_eager_capacity(config->in_flight));
    tt_probe_init(&member->probe, config->rank, config->size, config->group, config->multicast, config->speakers,
                  config->heard, config->heard_count, config->probe_timeout_ns);
}

void tt_member_fini(struct tt_member *member)
{
    tt_early_fini(&member->gathered);
    tt_early_fini(&member->pieces);
}

struct tt_collective *tt_member_running(const struct tt_member *member, uint64_t sequence)
{
    struct tt_collective *collective =
        tt_member_has_slot(member, sequence) ? tt_member_slot_of(member, sequence)->collective : NULL;

    assert(collective == NULL || collective->sequence == sequence);
    return collective;
}

uint32_t tt_member_neighbour_index(const struct tt_member *member, uint32_t rank)
{
    for (uint32_t i = 0; i < member->neighbour_count; i++) {
        if (member->neighbours[i] == rank) {
            return i;
        }
    }
    return TT_RANK_NONE;
}

void tt_member_tell(struct tt_member *member, const struct tt_frame *frame, uint32_t except, struct tt_actions *actions)
{
    for (uint32_t i = 0; i < member->neighbour_count; i++) {
        if (member->neighbours[i] != except && !member->departed[i]) {
            struct tt_frame *told = tt_actions_send(actions, NULL, frame->type, member->neighbours[i], frame);

            told->source = member->config.rank;
            told->group = member->config.group;
        }
    }
}

/* --- Failure ------------------------------------------------------------------------------------------------------ */

/* The news is passed on as it came. */
static void fail(struct tt_member *member, const struct tt_frame *frame, uint32_t told_by, struct tt_actions *actions)
{
    if (member->status != TUTTI_OK) {
        return;
    }
    member->status = (tutti_status)frame->body.fail.status;
    member->culprit = frame->body.fail.rank;
    member->noticed_by = frame->body.fail.noticed_by;
    member->failed_rank = tt_failed_rank(member->status, member->culprit, member->noticed_by, member->config.rank);
    if (member->status == TUTTI_ERR_MISMATCH) {
        member->mismatch_here = frame->body.fail.here;
        member->mismatch_there = frame->body.fail.there;
    }
    tt_member_tell(member, frame, told_by, actions);
}

void tt_member_fail(struct tt_member *member, tutti_status status, uint32_t rank, uint32_t told_by,
                    struct tt_actions *actions)
{
    struct tt_frame frame = {.type = TT_FRAME_FAIL,
                             .body.fail = {.status = status, .rank = rank, .noticed_by = member->config.rank}};

    fail(member, &frame, told_by, actions);
}

static void on_given_up(struct tt_member *member, const struct tt_member_event *event, struct tt_actions *actions)
{
    struct tt_frame frame = {
        .type = TT_FRAME_FAIL,
        .body.fail = {.status = event->status, .rank = event->rank, .noticed_by = event->noticed_by}};

    assert(event->status != TUTTI_OK);
    fail(member, &frame, TT_RANK_NONE, actions);
}

static void on_fail(struct tt_member *member, const struct tt_frame *frame, struct tt_actions *actions)
{
    uint32_t rank = frame->body.fail.rank;

    if ((rank >= member->config.size && rank != TT_RANK_NONE) || frame->body.fail.noticed_by >= member->config.size) {
        member->drops_frame++;
        return;
    }
    fail(member, frame, frame->source, actions);
}

static void finished(struct tt_member *member, struct tt_collective *collective, uint64_t now_ns)
{
    uint32_t slots = tt_member_slots(member->config.in_flight);

    assert(collective->sequence >= member->oldest && collective->sequence < member->next_sequence);
    if (tt_member_running(member, collective->sequence) == collective) { /* else it was in line */
        tt_member_slot_of(member, collective->sequence)->collective = NULL;
    }
    while (member->oldest < member->next_sequence && tt_member_slot_of(member, member->oldest)->collective == NULL &&
           (member->line == NULL || member->line->sequence > member->oldest)) {
        member->oldest++;
        member->oldest_slot = member->oldest_slot + 1 < slots ? member->oldest_slot + 1 : 0;
        member->moved_ns = now_ns;
    }
    if (member->rollcall_active && member->rollcall_sequence < member->oldest) {
        member->rollcall_end_ns = now_ns; /* nobody is missing there any more: other questions need not wait */
    }
}

void tt_member_disagree(struct tt_member *member, const struct tt_collective_terms *here,
                        const struct tt_collective_terms *there, uint32_t rank, struct tt_actions *actions)
{
    struct tt_frame frame = {.type = TT_FRAME_FAIL,
                             .body.fail = {.status = TUTTI_ERR_MISMATCH,
                                           .rank = rank,
                                           .noticed_by = member->config.rank,
                                           .here = *here,
                                           .there = *there}};

    fail(member, &frame, TT_RANK_NONE, actions);
}

/* Whom a rank needs follows from kind, root and method, and where parts are made from how, which may depend on the
 * length. It is connected to them when it posts. */
static uint32_t bit_of(const struct tt_collective_config *config)
{
    uint32_t way = config->parts_by > 0 ? (uint32_t)TT_METHOD_COUNT + config->parts_by : (uint32_t)config->terms.method;

    assert(way < 32);
    return UINT32_C(1) << way;
}

static void meet(struct tt_member *member, const struct tt_collective_config *config)
{
    const struct tt_collective_terms *terms = &config->terms;

    member->met[terms->kind].ways &= member->met[terms->kind].root == terms->root ? UINT32_MAX : 0;
    member->met[terms->kind].ways |= bit_of(config);
    member->met[terms->kind].root = terms->root;
}

static bool has_met(const struct tt_member *member, const struct tt_collective_config *config)
{
    const struct tt_collective_terms *terms = &config->terms;

    return member->met[terms->kind].root == terms->root && (member->met[terms->kind].ways & bit_of(config)) != 0;
}

static bool needs_who_has_left(const struct tt_member *member, const struct tt_collective *collective)
{
    return tt_collective_needs_left(collective) && tt_member_has_left(member, tt_collective_left(collective));
}

/* What is missing in it only the left neighbour has, which has stayed as long as whoever leaves does. But it may be
 * here, and not have been looked at. */
static void consider_who_has_left(struct tt_member *member, struct tt_collective *collective, uint64_t now_ns,
                                  struct tt_actions *actions)
{
    if (!needs_who_has_left(member, collective)) {
        collective->alone_ns = 0;
    } else if (collective->alone_ns == 0) {
        collective->alone_ns = now_ns + TT_COLLECTIVE_PATIENCE_NS;
    } else if (collective->alone_ns <= now_ns) {
        uint32_t left = tt_collective_left(collective);

        tt_member_fail(member, TUTTI_ERR_PEER_FAILED, left, left, actions);
    }
}

void tt_member_step_collective(struct tt_member *member, struct tt_collective *collective,
                               const struct tt_collective_event *event, struct tt_actions *actions)
{
    bool waited = collective->state <= TT_COLLECTIVE_BARRIER, was_sent = collective->sending.sent, mismatch, fine;

    tt_member_before_step(member, collective);
    tt_member_give_turn(member, collective);
    fine = tt_collective_step(collective, event, actions, &mismatch);
    if (mismatch) {
        assert(event->frame != NULL); /* only a frame with terms shows one */
        tt_member_disagree(member, &collective->config.terms, tt_frame_terms(event->frame), event->frame->source,
                           actions);
    } else if (!fine) {
        member->drops_frame++;
    }
    consider_who_has_left(member, collective, event->now_ns, actions);
    if (waited && collective->state > TT_COLLECTIVE_BARRIER && !collective->way->gate->is_open) {
        tt_member_on_barrier(member, collective->sequence, event->now_ns);
        if (collective->way->mover->ahead != NULL && collective->state < TT_COLLECTIVE_FAILING) {
            meet(member, &collective->config);
        }
    }
    if (collective->everybody && collective->state != TT_COLLECTIVE_FAILING) { /* the barrier is over */
        (tt_collective_gathers(collective) ? tt_eager_learn : tt_eager_advance)(&member->eager,
                                                                                collective->least.finished);
        tt_eager_note_started(&member->eager, collective->sequence + 1);
    }
    member->turn_passes |= collective->sending.sent && !was_sent;
    if (collective->way->completion->keeps_copy && collective->fetch.served_bytes > 0) {
        tt_eager_tell(&member->eager, collective->sequence);
    }
    if (collective->state == TT_COLLECTIVE_FINISHED) {
        if (tt_way_has_place(collective->way) && collective->status == TUTTI_OK && member->config.size > 1) {
            tt_member_ended_eager(member, collective);
        }
        finished(member, collective, event->now_ns);
    }
}

/* Ends every collective of a group that has failed. */
static void advance_failure(struct tt_member *member, uint64_t now_ns, struct tt_actions *actions)
{
    enum { WORST = 8 }; /* what a failing collective asks for */
    struct tt_collective_event event = {.type = TT_EVENT_FAIL,
                                        .now_ns = now_ns,
                                        .status = member->status,
                                        .rank = member->failed_rank,
                                        .right_gone = member->right_gone};
    uint64_t end = tt_member_end(member);

    for (uint64_t sequence = member->oldest; sequence < end && tt_member_has_room(actions, WORST); sequence++) {
        struct tt_collective *collective = tt_member_slot_of(member, sequence)->collective;

        if (collective != NULL &&
            (collective->state != TT_COLLECTIVE_FAILING || (member->right_gone && !collective->final.received))) {
            tt_member_step_collective(member, collective, &event, actions);
        }
    }
    while (member->line != NULL && tt_member_has_room(actions, WORST)) {
        struct tt_collective *collective = member->line;

        member->line = collective->next;
        tt_member_step_collective(member, collective, &event, actions);
    }
    if (member->line == NULL) {
        member->line_end = &member->line;
    }
    actions->more = !tt_member_has_room(actions, WORST);
}

static void on_peer_down(struct tt_member *member, uint32_t rank, struct tt_actions *actions)
{
    uint32_t index = tt_member_neighbour_index(member, rank);

    member->right_gone |= rank == tt_rank_add(member->config.rank, 1, member->config.size);
    if (index == TT_RANK_NONE || member->departed[index]) {
        return;
    }
    tt_member_fail(member, TUTTI_ERR_PEER_FAILED, rank, rank, actions);
}

bool tt_member_has_left(const struct tt_member *member, uint32_t rank)
{
    uint32_t index = tt_member_neighbour_index(member, rank);

    return index != TT_RANK_NONE && member->departed[index];
}

/* A neighbour left in an orderly way; that is a failure only if a collective here still needs it. */
static void on_bye(struct tt_member *member, const struct tt_frame *frame, struct tt_actions *actions)
{
    uint32_t index = tt_member_neighbour_index(member, frame->source);

    if (index == TT_RANK_NONE) {
        member->drops_frame++;
        return;
    }
    member->departed[index] = true;
    member->departed_sequence[index] = frame->sequence;
    member->right_gone |= frame->source == tt_rank_add(member->config.rank, 1, member->config.size);
#ifndef TT_FAULT_BYE_IN_VAIN
    if (member->next_sequence > frame->sequence && member->oldest < member->next_sequence) {
        tt_member_fail(member, TUTTI_ERR_PEER_FAILED, frame->source, frame->source, actions);
    }
#endif
    /* Who needs it begins to count in a step. */
    for (uint64_t sequence = member->oldest; sequence < tt_member_end(member) && !actions->more; sequence++) {
        const struct tt_collective *collective = tt_member_slot_of(member, sequence)->collective;

        actions->more = collective != NULL && needs_who_has_left(member, collective);
    }
}

/* --- Collectives -------------------------------------------------------------------------------------------------- */

static void start(struct tt_member *member, struct tt_collective *collective, uint64_t now_ns,
                  struct tt_actions *actions)
{
    struct tt_collective_event event = {.type = TT_EVENT_START, .now_ns = now_ns};

    assert(tt_member_slot_of(member, collective->sequence)->collective == NULL);
    assert(collective->sequence < tt_member_end(member));
    tt_member_slot_of(member, collective->sequence)->collective = collective;
    collective->config.terms.before = member->eager.before;
    collective->receiving.deaf = member->deaf;
    collective->relay.may_go_ahead = collective->way->mover->ahead != NULL && has_met(member, &collective->config);
#ifdef TT_FAULT_AHEAD_AT_ONCE
    collective->relay.may_go_ahead = collective->way->mover->ahead != NULL;
#endif
    if (tt_way_has_place(collective->way)) {
        tt_member_start_eager(member, collective);
    }
    collective->least.finished = member->oldest;
    tt_member_step_collective(member, collective, &event, actions);
    tt_member_replay_early(member, collective, now_ns, actions);
}

/* Starts what waits in line, as far as the window allows. */
static void advance_line(struct tt_member *member, uint64_t now_ns, struct tt_actions *actions)
{
    while (member->line != NULL && member->line->sequence < member->oldest + member->config.in_flight) {
        struct tt_collective *collective = member->line;

        if (!tt_member_has_room(actions, tt_actions_worst(member->config.size))) {
            actions->more = true;
            return;
        }
        assert(collective->sequence >= member->oldest);
        member->line = collective->next;
        if (member->line == NULL) {
            member->line_end = &member->line;
        }
        collective->next = NULL;
        start(member, collective, now_ns, actions);
    }
}

static void on_post(struct tt_member *member, const struct tt_member_event *event, struct tt_actions *actions)
{
    struct tt_collective *collective = event->collective;

    assert(collective->config.rank == member->config.rank && collective->config.size == member->config.size);
    assert(collective->config.rollcall_ns <= collective->config.timeout_ns);
    tt_collective_reset(collective, member->next_sequence++);
    collective->timeout.deadline_ns = tt_later(event->now_ns, collective->config.timeout_ns);
#ifdef TT_FAULT_CLOCKS_FROM_ZERO
    collective->timeout.deadline_ns = 3 * collective->config.timeout_ns;
#endif
    collective->next = NULL;
    *member->line_end = collective;
    member->line_end = &collective->next;
    for (uint32_t i = 0; i < member->neighbour_count; i++) {
        if (member->departed[i] && member->departed_sequence[i] <= collective->sequence) {
            tt_member_fail(member, TUTTI_ERR_PEER_FAILED, member->neighbours[i], TT_RANK_NONE, actions);
        }
    }
}

static void on_frame(struct tt_member *member, const struct tt_member_event *event, struct tt_actions *actions)
{
    const struct tt_frame *frame = event->frame;
    struct tt_collective *collective;

    if (frame->source >= member->config.size || frame->source == member->config.rank) {
        member->drops_frame++;
        return;
    }
    switch (frame->type) {
    case TT_FRAME_PROBE:
        member->drops_frame += !tt_probe_frame(&member->probe, event->now_ns, frame, actions);
        return;
    case TT_FRAME_FAIL:
        on_fail(member, frame, actions);
        return;
    case TT_FRAME_ROLLCALL:
        tt_rollcall_frame(member, frame, event->now_ns, actions);
        return;
    case TT_FRAME_BYE:
        on_bye(member, frame, actions);
        return;
    case TT_FRAME_ACK:
        if (frame->sequence > member->oldest + tt_member_slots(member->config.in_flight)) {
            member->drops_frame++; /* nobody can have got so far: a round about it would never end */
            return;
        }
        tt_member_on_evidence(member, frame->sequence, event->now_ns);
        member->drops_frame += !tt_eager_frame(&member->eager, frame);
        return;
    case TT_FRAME_FINAL:
        if (tt_member_ends_copy(member, frame)) {
            return;
        }
        break;
    case TT_FRAME_BARRIER:
        tt_member_on_evidence(member, frame->body.barrier.finished, event->now_ns);
        break;
    case TT_FRAME_GATHER:
        tt_member_on_evidence(member, frame->body.gather.least.finished, event->now_ns);
        break;
    default:
        break;
    }
    if (member->status == TUTTI_OK && tt_member_has_copy(member, frame)) {
        tt_member_serve_copy(member, frame, actions);
        return;
    }
    if (frame->sequence < member->oldest || (member->status != TUTTI_OK && frame->type != TT_FRAME_FINAL)) {
        return; /* late */
    }
    collective = tt_member_running(member, frame->sequence);
    if (collective != NULL) {
        struct tt_collective_event step = {.type = TT_EVENT_FRAME, .now_ns = event->now_ns, .frame = frame};

        tt_member_step_collective(member, collective, &step, actions);
    } else if (frame->sequence >= member->next_sequence ||
               (member->line != NULL && frame->sequence >= member->line->sequence)) {
        tt_member_keep_early(member, frame);
    }
}

static void tick(struct tt_member *member, uint64_t now_ns, struct tt_actions *actions)
{
    uint64_t end = tt_member_end(member);
    bool resumes = member->tick_from > 0; /* those before it may have asked for more in the step that was full */
    struct tt_collective_event event = {.type = TT_EVENT_TICK, .now_ns = now_ns};

    tt_probe_tick(&member->probe, now_ns, actions);
    for (uint64_t sequence = member->oldest; sequence < end; sequence++) {
        struct tt_collective *collective = tt_member_slot_of(member, sequence)->collective;

        if (collective == NULL || sequence < member->tick_from) {
            continue;
        }
        if (!tt_member_has_room(actions, tt_actions_worst(member->config.size))) {
            actions->more = true;
            member->tick_from = sequence;
            return;
        }
        tt_member_step_collective(member, collective, &event, actions);
        if (collective->state != TT_COLLECTIVE_FINISHED) {
            tt_rollcall_tick(member, collective, now_ns, actions);
        }
    }
    member->tick_from = 0;
    actions->more |= resumes;
}

static void on_answer(struct tt_member *member, const struct tt_member_event *event, enum tt_collective_event_type type,
                      struct tt_actions *actions)
{
    struct tt_collective_event step = {
        .type = type, .now_ns = event->now_ns, .run = event->run, .status = event->status};

    /* A collective that has ended is owed no answer. */
    assert(tt_member_slot_of(member, event->collective->sequence)->collective == event->collective);
    tt_member_step_collective(member, event->collective, &step, actions);
}

static void leave(struct tt_member *member, struct tt_actions *actions)
{
    struct tt_frame bye = {.type = TT_FRAME_BYE, .sequence = member->next_sequence};

    tt_member_tell(member, &bye, TT_RANK_NONE, actions);
}

void tt_member_step(struct tt_member *member, const struct tt_member_event *event, struct tt_actions *actions)
{
    actions->count = 0;
    actions->more = false;
    switch (event->type) {
    case TT_MEMBER_PROBE:
        tt_probe_start(&member->probe, event->now_ns, actions);
        break;
    case TT_MEMBER_POST:
        on_post(member, event, actions);
        break;
    case TT_MEMBER_FRAME:
        on_frame(member, event, actions);
        break;
    case TT_MEMBER_SENT:
        on_answer(member, event, TT_EVENT_SENT, actions);
        break;
    case TT_MEMBER_FROZEN:
        on_answer(member, event, TT_EVENT_FROZEN, actions);
        break;
    case TT_MEMBER_GOT:
        on_answer(member, event, TT_EVENT_GOT, actions);
        break;
    case TT_MEMBER_RELAYED:
        on_answer(member, event, TT_EVENT_RELAYED, actions);
        break;
    case TT_MEMBER_PEER_DOWN:
        on_peer_down(member, event->rank, actions);
        break;
    case TT_MEMBER_FAIL:
        on_given_up(member, event, actions);
        break;
    case TT_MEMBER_FLUSH:
        tt_eager_want(&member->eager, member->next_sequence);
        break;
    case TT_MEMBER_DOUBT:
        member->doubted = member->next_sequence;
        break;
    case TT_MEMBER_LEAVE:
        leave(member, actions);
        break;
    case TT_MEMBER_TICK:
        tick(member, event->now_ns, actions);
        break;
    }
    if (member->status == TUTTI_OK) {
        advance_line(member, event->now_ns, actions);
        tt_member_advance_eager(member, event->now_ns, actions);
        tt_member_advance_turns(member, event->now_ns, actions);
    }
    if (member->status != TUTTI_OK) { /* perhaps since the line moved: an early frame may disagree */
        advance_failure(member, event->now_ns, actions);
        tt_early_drop(&member->gathered); /* other groups have a use for the room */
        tt_early_drop(&member->pieces);
    }
    if (member->pieces.own != NULL && member->probe.state == TT_PROBE_DONE && member->probe.heard_all) {
        /* Copies are kept there from now on. */
        tt_early_disown(&member->pieces);
    }
}

/* When the timeout of a collective wants attention next: the roll call first. */
static uint64_t timeout_attention(const struct tt_member *member, const struct tt_collective *collective)
{
    uint64_t deadline_ns = tt_rollcall_deadline(member, collective);

    assert(deadline_ns >= collective->config.rollcall_ns);
    if (deadline_ns == UINT64_MAX || member->status != TUTTI_OK) {
        return UINT64_MAX;
    }
    return collective->timeout.asked_ns == deadline_ns ? deadline_ns : deadline_ns - collective->config.rollcall_ns;
}

uint64_t tt_member_deadline(const struct tt_member *member)
{
    uint64_t deadline = tt_probe_deadline(&member->probe);

    for (uint64_t sequence = member->oldest; sequence < tt_member_end(member); sequence++) {
        const struct tt_collective *collective = tt_member_slot_of(member, sequence)->collective;

        if (collective != NULL) {
            deadline = tt_least(deadline, tt_collective_deadline(collective));
            deadline = tt_least(deadline, timeout_attention(member, collective));
            deadline = tt_least(deadline, collective->alone_ns > 0 ? collective->alone_ns : UINT64_MAX);
        }
    }
    return deadline; /* what waits in line has the time of the oldest, and perhaps more */
}
