/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The engine's lock and bell. Normal path: an application thread says that it wants the lock, so that whoever polls
 * with it lets go, for a moment at first and then until somebody has got it; who unlocks rings, since what the sleeper
 * waits for may have changed, and calls the progress thread if that has to see to something now. Failure: no memory for
 * a longer list of actions.
 */
#include "engine/core.h"

#include <assert.h>
#include <stdlib.h>

#include "base/log.h"
#include "engine/progress_thread.h"

void tt_engine_lock(struct tt_engine *engine)
{
    atomic_fetch_add_explicit(&engine->lock_wanted, 1, memory_order_seq_cst);
    pthread_mutex_lock(&engine->lock);
    atomic_fetch_sub_explicit(&engine->lock_wanted, 1, memory_order_seq_cst);
    tt_engine_note_entry(engine);
}

void tt_engine_note_entry(struct tt_engine *engine)
{
    engine->entries++;
    if (engine->asides > 0) {
        engine->asides = 0;
#ifndef TT_FAULT_ENTERED_IN_SILENCE
        pthread_cond_broadcast(&engine->entry);
#endif
    }
}

void tt_engine_ring(struct tt_engine *engine)
{
    if (engine->wakeup != NULL) {
        tt_wakeup_ring(engine->wakeup);
    }
}

void tt_engine_unlock(struct tt_engine *engine)
{
#ifndef TT_FAULT_UNLOCKED_IN_SILENCE
    tt_progress_thread_unlocked(engine->progress_thread);
#endif
    pthread_mutex_unlock(&engine->lock);
    tt_engine_ring(engine);
}

tutti_status tt_engine_reserve(struct tt_engine *engine, uint32_t size)
{
    uint32_t capacity = tt_actions_capacity(size);
    struct tt_action *list;

    assert(size > 0);
    assert(!engine->carries_out); /* the list may move */
    if (engine->actions.capacity >= capacity) {
        return TUTTI_OK;
    }
    list = realloc(engine->actions.list, capacity * sizeof *list);
    if (list == NULL) {
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_NO_MEMORY, "no memory for a group of %u ranks", size);
    }
    engine->actions.list = list;
    engine->actions.capacity = capacity;
    return TUTTI_OK;
}

void tt_engine_announce(struct tt_engine *engine)
{
    assert(engine->told <= engine->waiters);
    engine->announced = true;
    if (engine->waiters > 0) {
        engine->told = engine->waiters;
        pthread_cond_broadcast(&engine->finished);
    }
}
