/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A group in the control context. Normal path of a step: the member machine gets an event, its actions are carried out
 * in order, and answers that are due at once (frozen, sent, canceled) become the next events until nothing is due. What
 * follows from a post is left to the progress behind it, which sends first.
 * A failure of the group puts a sentence together once, which every request of the group then carries.
 */
#include "engine/group.h"

#include <assert.h>

#include "base/log.h"
#include "engine/carry_out.h"
#include "engine/failure.h"
#include "engine/relay.h"
#include "engine/request.h"
#include "engine/triggers.h"

#define POLLED_NS (200 * TT_NS_PER_US)

/* --- Steps -------------------------------------------------------------------------------------------------------- */

static void step_once(struct tt_group *group, const struct tt_member_event *event)
{
    struct tt_actions *actions = &group->engine->actions;

    assert(!group->engine->carries_out);
    tt_member_step(&group->member, event, actions);
    assert(actions->count <= actions->capacity);
    group->engine->carries_out = true;
    for (uint32_t i = 0; i < actions->count; i++) {
        tt_group_carry_out(group, &actions->list[i]);
    }
    group->engine->carries_out = false;
    group->more |= actions->more;
}

static bool is_frozen(const struct tt_group *group, const struct tt_request *request)
{
    assert(request->collective.config.terms.subgroups <= group->queue_count);
    for (uint32_t s = 0; s < request->collective.config.terms.subgroups; s++) {
        if (!tt_queue_is_quiet(&group->queues[s], request->turns[s])) {
            return false;
        }
    }
    return true;
}

/* One answer that a request owes its machine; false: none. The request may have finished, and be gone, afterwards. */
static bool answer_one(struct tt_group *group, struct tt_request *request, uint64_t now_ns)
{
    enum tt_member_event_type type;
    uint32_t failed_run = 0;

    if (request->failed_runs != 0) {
        type = TT_MEMBER_GOT;
        failed_run = (uint32_t)__builtin_ctz(request->failed_runs);
        request->failed_runs &= request->failed_runs - 1;
    } else if (request->freezing && is_frozen(group, request)) {
        type = TT_MEMBER_FROZEN;
        request->freezing = false;
    } else if (!request->sent && request->collective.sending.transmitting &&
               atomic_load_explicit(&request->transmit.state, memory_order_acquire) == TT_TRANSMIT_DONE) {
        type = TT_MEMBER_SENT;
        request->sent = true;
    } else if (tt_request_is_carried(request) &&
               (group->member.status == TUTTI_OK || request->collective.status != TUTTI_OK)) {
        /* Once told of the group's failure, which ends what carries it, too: else it would end well. */
        type = TT_MEMBER_RELAYED;
    } else {
        return false;
    }
    step_once(group, &(struct tt_member_event){.type = type,
                                               .now_ns = now_ns,
                                               .collective = &request->collective,
                                               .run = failed_run,
                                               .status = type == TT_MEMBER_GOT ? TUTTI_ERR_PEER_FAILED : TUTTI_OK});
    return true;
}

/* All answers that are due. A step may finish requests, so the walk starts over after each. */
static bool answer_all(struct tt_group *group, uint64_t now_ns)
{
    bool any = false, again = true;

    while (again) {
        again = false;
        for (struct tt_request *request = tt_request_in_flight(group->active); request != NULL && !again;
             request = tt_request_in_flight(request->next)) {
            again = answer_one(group, request, now_ns);
        }
        any |= again;
    }
    return any;
}

/* The fabric refused something for a reason that lies here (memory, say), or a rank that is no neighbour is missed:
 * without it no collective can end. */
static void fail_for_trouble(struct tt_group *group, uint64_t now_ns)
{
    struct tt_member_event fail = {.type = TT_MEMBER_FAIL,
                                   .now_ns = now_ns,
                                   .status = group->trouble,
                                   .rank = group->rank,
                                   .noticed_by = group->rank};

    assert(group->trouble != TUTTI_OK);
    if (group->trouble == TUTTI_ERR_PROTOCOL || group->trouble == TUTTI_ERR_MISMATCH) {
        fail.rank = TT_RANK_NONE; /* who has sent it is not known */
    } else if (group->trouble == TUTTI_ERR_PEER_FAILED && group->trouble_rank != TT_RANK_NONE) {
        fail.rank = group->trouble_rank;
    }
    group->trouble = TUTTI_OK;
    tt_group_step(group, &fail);
}

/* The collective that waits for its turn on the network may be of any group. */
static void pass_turn(struct tt_network *network, struct tt_engine *engine)
{
    network->link.turn_passes = false;
    for (struct tt_party *party = engine->parties.awake; party != NULL; party = party->next_awake) {
        if (party->ops->pass_turn != NULL) {
            party->ops->pass_turn(party, network);
        }
    }
}

/* Messages that do not fit are trouble once no gate is shut behind what went ahead. Until then ranks may mean different
 * collectives, which the gate finds out and has words for; and they end all that the engine executes. */
static void note_misfit(struct tt_group *group)
{
    if (group->misfit == TUTTI_OK) {
        return;
    }
    for (const struct tt_request *request = tt_request_in_flight(group->active); request != NULL;
         request = tt_request_in_flight(request->next)) {
        if (request->collective.relay.relaying && request->collective.state == TT_COLLECTIVE_BARRIER) {
            return;
        }
    }
    group->trouble = group->misfit;
    group->misfit = TUTTI_OK;
}

/* What follows a step, and the answers to what it asked for. */
static void settle(struct tt_group *group, uint64_t now_ns)
{
    group->unsettled = false;
    answer_all(group, now_ns);
    while (group->more) {
        group->more = false;
        step_once(group, &(struct tt_member_event){.type = TT_MEMBER_TICK, .now_ns = now_ns});
        answer_all(group, now_ns);
    }
    note_misfit(group);
    if (group->member.status != TUTTI_OK) {
        tt_triggers_tell_failure(group->triggers);
        tt_failure_note(group, group->member.status, group->member.failed_rank);
    } else if (group->trouble != TUTTI_OK) {
        fail_for_trouble(group, now_ns);
    }
    if (group->network != NULL && group->network->link.turn_passes) {
        pass_turn(group->network, group->engine);
    }
    atomic_store_explicit(&group->drops_frame, group->member.drops_frame, memory_order_relaxed);
    for (uint32_t s = 0; s < group->queue_count; s++) {
        atomic_store_explicit(&group->queues[s].frontier, group->member.oldest, memory_order_release);
    }
    group->party.deadline_ns = tt_member_deadline(&group->member);
    tt_group_note_owes(group);
    tt_party_wake(&group->engine->parties, &group->party);
}

void tt_group_step(struct tt_group *group, const struct tt_member_event *event)
{
    step_once(group, event);
    settle(group, event->now_ns);
}

/* --- Progress ----------------------------------------------------------------------------------------------------- */

bool tt_group_awaits_little(const struct tt_group *group)
{
    for (const struct tt_request *request = tt_request_in_flight(group->active); request != NULL;
         request = tt_request_in_flight(request->next)) {
        if (!tt_method_row(request->collective.config.terms.method)->keeps_copies) {
            return false;
        }
    }
    return group->active != NULL;
}

/* A small collective ends with its last chunk, and what else there is may wait. Of others all chunks are to be here
 * before somebody asks what is missing, or looks at a frame that says that all are sent. */
bool tt_group_receive(struct tt_group *group, uint64_t now_ns)
{
    bool only_little = now_ns - group->engine->frames_ns < TT_ENGINE_LOOK_NS && tt_group_awaits_little(group),
         any = false;

    for (uint32_t s = 0; s < group->queue_count; s++) {
        struct tt_queue *queue = &group->queues[s];

        if (queue->mcast == NULL) { /* the group is being created, and another thread uses the context meanwhile */
            continue;
        }
        atomic_store_explicit(&queue->receiver.attention, 0, memory_order_relaxed);
        any |= (only_little ? tt_queue_receive_until_attention : tt_queue_receive)(queue, 4 * TT_QUEUE_BATCH) > 0;
        group->engine->chunks_wait |= only_little && queue->more;
    }
    return any;
}

/* Whether a kernel has raised it; it is down again. Mostly it is not, which costs no exchange. */
static bool take_flag(_Atomic uint32_t *flag)
{
    return atomic_load_explicit(flag, memory_order_relaxed) != 0 &&
           atomic_exchange_explicit(flag, 0, memory_order_acquire) != 0;
}

/* With workers: whether a kernel asked for attention since the last call. */
static bool take_attention(struct tt_group *group)
{
    bool any = false;

    for (uint32_t s = 0; s < group->queue_count; s++) {
        any |= take_flag(&group->queues[s].receiver.attention);
    }
    return any;
}

/* Whether a chunk has come since the last call that fits no collective of its sequence number. */
static bool take_doubt(struct tt_group *group)
{
    bool any = false;

    for (uint32_t s = 0; s < group->queue_count; s++) {
        any |= take_flag(&group->queues[s].receiver.doubt);
    }
    return any;
}

/* Sends in the control context: everything without workers, and what is only to be copied. `allowed`: only chunks that
 * have been allowed since. */
static bool transmit_all(struct tt_group *group, uint64_t now_ns, bool allowed)
{
    enum { BATCHES = 1 }; /* then look at the receive queues again: what others have sent is still in the cache */
    bool any = false;

    for (struct tt_request *request = tt_request_in_flight(group->active); request != NULL;
         request = tt_request_in_flight(request->next)) {
        struct tt_transmit *job = &request->transmit;
        struct tt_queue *blocked = NULL;
        enum tt_transmit_result result;

        if (atomic_load_explicit(&job->state, memory_order_relaxed) != TT_TRANSMIT_ACTIVE ||
            tt_request_has_sender(request) || (allowed && !tt_request_is_allowed(request))) {
            continue;
        }
        result = tt_transmit_progress(job, now_ns, BATCHES, &blocked);
        assert((result == TT_TRANSMIT_BLOCKED) == (blocked != NULL));
        assert(result != TT_TRANSMIT_PACED || job->due_ns != TT_NEVER);
        any |= result == TT_TRANSMIT_MOVED || result == TT_TRANSMIT_FINISHED;
        if (blocked != NULL && group->engine->wakeup != NULL) {
            tt_wakeup_once(group->engine->wakeup, blocked->mcast->ops->send_fd(blocked->mcast));
        }
    }
    return any;
}

bool tt_group_is_empty(const struct tt_group *group)
{
    for (uint32_t s = 0; s < group->queue_count; s++) {
        const struct tt_queue *queue = &group->queues[s];

        if (queue->mcast == NULL || !queue->empty || queue->mcast->ops->receive_fd(queue->mcast) < 0) {
            return false;
        }
    }
    return true;
}

/* There are others to look at, and nothing has come for a while: what comes is found by tt_engine_look_around, or ends
 * a sleep. Who asks for a time to poll gets that, and small collectives are polled for. */
static bool need_not_poll(const struct tt_group *group, uint64_t now_ns)
{
    const struct tt_engine *engine = group->engine;

    return tt_parties_has_others_awake(&engine->parties, &group->party) && engine->wakeup != NULL &&
           engine->settings.poll_ns == TT_AUTO && now_ns - group->heard_ns >= POLLED_NS &&
           !tt_group_awaits_little(group);
}

/* Without workers. What is due is judged by what has come. */
static bool look_at_queues(struct tt_group *group, uint64_t now_ns)
{
    bool may_skip = need_not_poll(group, now_ns);

    if (may_skip && group->party.event_driven && !group->stepping_needed && now_ns < group->party.deadline_ns) {
        return false;
    }
    if (!tt_group_receive(group, now_ns)) {
        group->party.event_driven = may_skip && tt_group_is_empty(group);
        return false;
    }
    group->heard_ns = now_ns;
    return true;
}

void tt_group_begin(struct tt_group *group, const struct tt_member_event *event)
{
    step_once(group, event);
    group->unsettled = true;
    tt_party_wake(&group->engine->parties, &group->party);
}

bool tt_group_send(struct tt_group *group, uint64_t now_ns)
{
    bool moved = transmit_all(group, now_ns, true), answered = answer_all(group, now_ns);

    if (answered) {
        settle(group, now_ns);
    }
    return moved || answered;
}

bool tt_group_progress(struct tt_group *group, uint64_t now_ns, bool looks)
{
    bool come = group->engine->workers == NULL ? looks && look_at_queues(group, now_ns) : take_attention(group);
    bool moved = transmit_all(group, now_ns, false), answered = group->active != NULL && answer_all(group, now_ns);

    group->unsettled |= answered;
    if (group->unsettled && !come) {
        settle(group, now_ns);
    }
    if (take_doubt(group)) {
        struct tt_member_event doubt = {.type = TT_MEMBER_DOUBT, .now_ns = now_ns};

        tt_group_step(group, &doubt);
    }
    if (come || group->stepping_needed || group->party.deadline_ns <= now_ns) {
        group->stepping_needed = false;
        tt_group_step(group, &(struct tt_member_event){.type = TT_MEMBER_TICK, .now_ns = now_ns});
    }
    return come || moved || answered;
}
