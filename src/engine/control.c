/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Control, and its turns. Normal path: progress, or else whatever idle.c finds right; between turns others may have the
 * lock. Never fails.
 */
#include <assert.h>
#include <sched.h>

#include "engine/engine.h"
#include "engine/idle.h"

void tt_engine_take_control(struct tt_engine *engine)
{
    assert(!engine->controlled);
    engine->controlled = true;
}

void tt_engine_leave_control(struct tt_engine *engine)
{
    assert(engine->controlled);
    engine->controlled = false;
#ifndef TT_FAULT_LEFT_IN_SILENCE
    tt_engine_announce(engine);
#endif
}

void tt_engine_turn(struct tt_engine *engine, uint64_t until_ns)
{
    assert(engine->controlled);
    assert(engine->wakeup != NULL); /* in virtual time nobody takes turns */
    if (engine->begun && engine->oversubscribed) {
        tt_engine_yield(engine); /* others have to do their part before anything comes of it, perhaps on this core */
    }
    if (tt_engine_progress(engine)) {
        engine->vain_wakeups = 0;
    } else {
        tt_engine_idle(engine, until_ns);
    }
}

/* A lock that is free for a moment goes to whoever runs then, and who is woken for it takes longer than that to run: so
 * after a few moments in vain it is handed over. That comes late, as it costs whoever polls a sleep. */
void tt_engine_step_aside(struct tt_engine *engine)
{
    uint32_t entries = engine->entries;

    assert(engine->told <= engine->waiters);
    assert(engine->asides <= TT_ENGINE_MOST_ASIDE);
    if (engine->told == 0 && atomic_load_explicit(&engine->lock_wanted, memory_order_seq_cst) == 0) {
        return;
    }
    if (engine->asides < TT_ENGINE_MOST_ASIDE) {
        engine->asides++;
        pthread_mutex_unlock(&engine->lock);
        sched_yield();
        pthread_mutex_lock(&engine->lock);
        return;
    }
    while (engine->entries == entries) { /* who was told something is awake, and who wants the lock waits for it */
        pthread_cond_wait(&engine->entry, &engine->lock);
    }
}
