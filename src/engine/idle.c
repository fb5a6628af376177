/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the control context does while nothing moves. Normal path: it polls for a while, then sleeps on the descriptors
 * of all networks until the next deadline; while nobody misses the chunks that come, sleeps are moderated: they are
 * left where they are. Failures: a provider that cannot be armed is polled; one that wakes it up again and again for
 * nothing is looked at less often.
 */
#include "engine/idle.h"

#include <assert.h>
#include <sched.h>
#include <time.h>

#include "engine/engine.h"
#include "proto/moderation.h"

#define AUTO_POLL_NS   (50 * TT_NS_PER_US)
#define LITTLE_POLL_NS (100 * TT_NS_PER_US)
#define STEPS_POLL_NS  (400 * TT_NS_PER_US)
#define LONG_WAIT_NS   (4 * STEPS_POLL_NS)  /* any longer one counts as this: one alone says little */
#define VAIN_NS        (200 * TT_NS_PER_US) /* a sleep that is shorter may have been in vain */
#define BACKOFF_NS     TT_NS_PER_MS
#define SHARED_NS      TT_NS_PER_MS
#define OVERSUBSCRIBED_NS                                                                                              \
    (2 * TT_NS_PER_US) /* to come back from a yield: longer than the call, shorter than two switches */

enum { VAIN_WAKEUPS = 16, MOST_IN_VAIN = 10, WAITS_BITS = 3 /* log2 of the waits that the average is of */ };

/*
 * Sleeps for as short a time as there is, so that the kernel looks for a core that is idle when it wakes this rank. Two
 * ranks that take turns on one core by yielding are never moved: each has run there too short a time ago. Where all
 * cores are shared it only costs time, so each time that did not help makes the next one come twice as late.
 */
static void try_to_move(struct tt_engine *engine)
{
    const struct timespec least = {.tv_nsec = 1};

    nanosleep(&least, NULL);
    engine->moved_in_vain += engine->moved_in_vain < MOST_IN_VAIN;
    engine->alone_ns = tt_engine_now(engine);
}

void tt_engine_yield(struct tt_engine *engine)
{
    uint64_t begun_ns = tt_engine_now(engine), ended_ns;

    assert(engine->moved_in_vain <= MOST_IN_VAIN);
    if (engine->oversubscribed && begun_ns - engine->alone_ns >= SHARED_NS << engine->moved_in_vain) {
        try_to_move(engine);
        return;
    }
    sched_yield();
    ended_ns = tt_engine_now(engine);
    engine->oversubscribed = ended_ns - begun_ns >= OVERSUBSCRIBED_NS;
    if (engine->oversubscribed) {
        engine->oversubscribed_ns = ended_ns;
        return;
    }
    engine->alone_ns = ended_ns;
    if (ended_ns - engine->oversubscribed_ns >= SHARED_NS) {
        engine->moved_in_vain = 0;
    }
}

/* Whether a worker has something for the control context. */
static bool workers_want(const struct tt_engine *engine)
{
    for (const struct tt_party *party = engine->parties.awake; engine->workers != NULL && party != NULL;
         party = party->next_awake) {
        if (party->ops->workers_want != NULL && party->ops->workers_want(party)) {
            return true;
        }
    }
    return false;
}

/* How long nobody here misses what chunks may come (proto/moderation.h). Whoever asks for a time to poll gets that
 * instead, and with workers these take the chunks. */
static uint64_t moderation_of(struct tt_engine *engine, uint64_t now_ns)
{
    uint64_t moderated_ns = TT_MODERATION_NONE;

    if (engine->workers != NULL || engine->settings.poll_ns != TT_AUTO || engine->wakeup->is_coarse) {
        return 0;
    }
    for (struct tt_party *party = engine->parties.awake; party != NULL && moderated_ns > 0; party = party->next_awake) {
        uint64_t own_ns = party->ops->moderation == NULL ? TT_MODERATION_NONE : party->ops->moderation(party, now_ns);

        moderated_ns = own_ns < moderated_ns ? own_ns : moderated_ns;
    }
    return moderated_ns == TT_MODERATION_NONE ? 0 : moderated_ns;
}

/* Whether a provider has moved bytes since the last look, though nothing has come of it yet. */
static bool has_moved(struct tt_engine *engine)
{
    uint64_t useful = 0;

    for (uint32_t i = 0; i < engine->network_count; i++) {
        struct tt_p2p_counters counters;

        engine->networks[i]->p2p->ops->counters(engine->networks[i]->p2p, &counters);
        useful += counters.wakeups;
    }
    assert(useful >= engine->useful_wakeups); /* counters grow, and networks stay */
    if (useful == engine->useful_wakeups) {
        return false;
    }
    engine->useful_wakeups = useful;
    return true;
}

void tt_engine_note_work(struct tt_engine *engine, uint64_t now_ns)
{
    uint64_t wait_ns = now_ns - engine->last_work_ns;

    if (engine->awaits_steps && engine->oversubscribed_ns <= engine->last_work_ns) {
        wait_ns = wait_ns < LONG_WAIT_NS ? wait_ns : LONG_WAIT_NS;
        engine->steps_wait_ns += (wait_ns >> WAITS_BITS) - (engine->steps_wait_ns >> WAITS_BITS);
    }
    engine->awaits_steps = false;
    engine->last_work_ns = now_ns;
}

/* How long to poll since there was work. Small collectives are over within a few rounds of all ranks. Messages of large
 * ones come as fast as the network carries them, so it takes too long until there is the next. */
static uint64_t poll_time(struct tt_engine *engine)
{
    bool little = false, steps = false, much = false;

    for (const struct tt_party *party = engine->parties.awake; party != NULL; party = party->next_awake) {
        enum tt_party_awaits awaits = party->ops->awaits == NULL ? TT_PARTY_AWAITS_NOTHING : party->ops->awaits(party);

        if (awaits == TT_PARTY_AWAITS_WORKER) {
            return TT_NEVER;
        }
        little |= awaits == TT_PARTY_AWAITS_LITTLE;
        steps |= awaits == TT_PARTY_AWAITS_STEPS;
        much |= awaits == TT_PARTY_AWAITS_MUCH;
    }
    if (engine->settings.poll_ns != TT_AUTO) {
        return engine->settings.poll_ns;
    }
    engine->awaits_steps = steps && !much;
    if (engine->awaits_steps && engine->steps_wait_ns <= STEPS_POLL_NS) {
        return STEPS_POLL_NS;
    }
    return little && !much && !steps ? LITTLE_POLL_NS : AUTO_POLL_NS;
}

/* Those whose chunks have ended a sleep, or would. */
static void wake_parties(struct tt_engine *engine, void *const *ready, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct tt_party *party = ready[i];

        assert(party->number < engine->parties.capacity);
        assert(engine->parties.numbered[party->number] == party); /* who has gone has taken its descriptors along */
        tt_party_wake(&engine->parties, party);
    }
}

void tt_engine_look_around(struct tt_engine *engine)
{
    void *ready[TT_WAKEUP_EVENTS]; /* what the wakeup has is the sleeper's, who may be another thread */

    wake_parties(engine, ready, tt_wakeup_look(engine->wakeup, ready));
}

/* A connection that UCX is still making may wake this rank up all the time, for a second where a packet was lost,
 * without anything that could be done (1.13). */
static void sleep_on(struct tt_wakeup *wakeup, uint64_t moderated_ns, uint64_t timeout_ns, bool in_vain)
{
    assert(timeout_ns > 0);
    assert(moderated_ns != TT_MODERATION_NONE);
    if (in_vain) {
        tt_wakeup_sleep_until_rung(wakeup, timeout_ns < BACKOFF_NS ? timeout_ns : BACKOFF_NS);
    } else if (moderated_ns > 0) {
        tt_wakeup_sleep_moderated(wakeup, timeout_ns < moderated_ns ? timeout_ns : moderated_ns);
    } else {
        tt_wakeup_sleep(wakeup, timeout_ns);
    }
}

/* Others may have the lock meanwhile, and change what it is for. */
static void sleep_without_lock(struct tt_engine *engine, uint64_t now_ns, uint64_t moderated_ns, uint64_t timeout_ns)
{
    uint32_t removals = engine->parties.removals;
    bool in_vain = engine->vain_wakeups >= VAIN_WAKEUPS;
    uint64_t ended_ns;

    pthread_mutex_unlock(&engine->lock);
    sleep_on(engine->wakeup, moderated_ns, timeout_ns, in_vain);
    ended_ns = tt_engine_now(engine);
    pthread_mutex_lock(&engine->lock);
    if (in_vain) {
        engine->vain_wakeups--;
    } else {
        engine->vain_wakeups = ended_ns - now_ns < VAIN_NS ? engine->vain_wakeups + 1 : 0;
    }
    if (!in_vain && moderated_ns == 0) {
        engine->around_ns = ended_ns; /* it tells of everybody for whom something has come */
    }
    if (engine->parties.removals == removals) {
        wake_parties(engine, engine->wakeup->ready, engine->wakeup->ready_count);
    } /* else it may have been one that is gone: chunks that are left where they are end the next sleep, too */
}

/*
 * Polls for a while first. With more ranks than cores that would only delay what is waited for, if whoever polls did
 * not let others have the core after each look; and to be runnable already when they are through costs less than to be
 * woken for each message.
 */
void tt_engine_idle(struct tt_engine *engine, uint64_t until_ns)
{
    uint64_t now_ns = tt_engine_now(engine), deadline_ns = tt_engine_deadline(engine), moderated_ns;
    bool armed = true;

    assert(engine->wakeup != NULL); /* in virtual time nobody sleeps */
    deadline_ns = until_ns < deadline_ns ? until_ns : deadline_ns;
    if (deadline_ns <= now_ns) {
        return;
    }
    moderated_ns = moderation_of(engine, now_ns);
    if (moderated_ns == 0 && now_ns - engine->last_work_ns < poll_time(engine)) {
        tt_engine_yield(engine);
        return;
    }
    if (engine->vain_wakeups >= VAIN_WAKEUPS && has_moved(engine)) {
        engine->vain_wakeups = 0;
    }
#ifndef TT_FAULT_ANNOUNCED_AFTER_LOOK
    tt_wakeup_prepare(engine->wakeup);
#endif
    for (uint32_t i = 0; i < engine->network_count && armed; i++) {
        armed = engine->networks[i]->p2p->ops->arm(engine->networks[i]->p2p);
    }
    if (!armed || !tt_tasks_empty(&engine->posted) || workers_want(engine)) {
        tt_wakeup_call_off(engine->wakeup);
        return;
    }
#ifdef TT_FAULT_ANNOUNCED_AFTER_LOOK
    tt_wakeup_prepare(engine->wakeup);
#endif
    sleep_without_lock(engine, now_ns, moderated_ns, deadline_ns == TT_NEVER ? UINT64_MAX : deadline_ns - now_ns);
}
