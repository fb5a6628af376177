/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What application threads do with an engine: they post, look in passing, and wait. Normal path: a thread that waits
 * becomes the control context if nobody else is, and takes turns until what it waits for has come; the others sleep
 * until that one is done or a request ends. Never fails.
 */
#include <assert.h>

#include "engine/engine.h"
#include "engine/progress_thread.h"

/* Moves things along without blocking, if this thread may; false: it may not. Who tests and tests would take the lock
 * again and again before somebody who is woken for it runs. */
static bool move_if_free(struct tt_engine *engine, bool (*progress)(struct tt_engine *engine))
{
    if (engine->workers != NULL || atomic_load_explicit(&engine->lock_wanted, memory_order_seq_cst) > 0 ||
        pthread_mutex_trylock(&engine->lock) != 0) {
        return false;
    }
    tt_progress_thread_enter(engine->progress_thread);
    if (progress(engine)) {
        tt_engine_ring(engine);
    }
    tt_progress_thread_leave(engine->progress_thread);
    pthread_mutex_unlock(&engine->lock);
    return true;
}

void tt_engine_post(struct tt_engine *engine, struct tt_post *post)
{
    assert(post->party != NULL);
    assert(post->party->ops->post != NULL);
    tt_tasks_push(&engine->posted, &post->task);
    tt_engine_ring(engine);
    if (!move_if_free(engine, tt_engine_begin)) {
        tt_progress_thread_posted(engine->progress_thread);
    }
}

/* Who has control and sleeps is woken by what comes, and looks. Whoever looked instead would take that away, and what
 * providers were armed for, and leave it asleep. The progress thread has been rung and lets go. */
static bool progress_unless_looked_after(struct tt_engine *engine)
{
    return (!engine->controlled || tt_progress_thread_has_control(engine->progress_thread)) &&
           tt_engine_progress(engine);
}

void tt_engine_poke(struct tt_engine *engine)
{
    move_if_free(engine, progress_unless_looked_after);
}

/* Sleeps until a request has ended or the control context is free; holds the lock before and after. */
static void wait_for_others(struct tt_engine *engine, uint64_t until_ns)
{
    struct timespec until = tt_clock_timespec(until_ns);

    engine->waiters++;
    if (until_ns == TT_NEVER) {
        pthread_cond_wait(&engine->finished, &engine->lock);
    } else {
        pthread_cond_timedwait(&engine->finished, &engine->lock, &until);
    }
    assert(engine->waiters > 0);
    engine->waiters--;
    engine->told -= engine->told > 0;
    tt_engine_note_entry(engine);
    assert(engine->told <= engine->waiters);
}

static void control(struct tt_engine *engine, tt_engine_condition *is_over, const void *argument, uint64_t until_ns)
{
    assert(engine->workers == NULL); /* else the control thread has it */
    tt_engine_take_control(engine);
    do {
        tt_engine_turn(engine, until_ns);
        tt_engine_step_aside(engine);
    } while (!is_over(argument) && tt_engine_now(engine) < until_ns);
    tt_engine_leave_control(engine);
}

/* Holds the lock. While another thread has control this one looks after `look_ns`, or when something is announced. */
static void wait_until(struct tt_engine *engine, tt_engine_condition *is_over, const void *argument, uint64_t until_ns,
                       uint64_t look_ns)
{
    uint64_t now_ns;

    tt_progress_thread_enter(engine->progress_thread);
    while (!is_over(argument) && (now_ns = tt_engine_now(engine)) < until_ns) {
        if (engine->workers != NULL || engine->controlled) {
            wait_for_others(engine, look_ns < until_ns - now_ns ? now_ns + look_ns : until_ns);
        } else {
            control(engine, is_over, argument, until_ns);
        }
    }
    tt_progress_thread_leave(engine->progress_thread);
}

void tt_engine_wait_for(struct tt_engine *engine, tt_engine_condition *is_over, const void *argument, uint64_t until_ns)
{
    assert(engine->wakeup != NULL); /* in virtual time nothing moves in here */
    tt_engine_ring(engine);         /* for what the caller has begun */
    wait_until(engine, is_over, argument, until_ns, TT_NS_PER_MS);
}

static bool is_set(const void *flag)
{
    return atomic_load_explicit((const _Atomic bool *)flag, memory_order_acquire);
}

void tt_engine_wait(struct tt_engine *engine, const _Atomic bool *done, uint64_t until_ns)
{
    tt_engine_lock(engine);
    wait_until(engine, is_set, (const void *)done, until_ns, TT_NEVER);
    pthread_mutex_unlock(&engine->lock);
}
