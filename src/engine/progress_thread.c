/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The progress thread. Normal path: it sleeps until an application thread leaves something owed behind; looks again
 * after the patience; takes turns of the engine, asleep on the descriptors, for as long as nobody comes. Who enters
 * rings it out of its sleep, and waits for the control context like for any other thread's. It asks for the engine's
 * lock only while nobody else is here: an application thread that polls has that lock nearly all the time, and would
 * have to wake this one each time that it lets go for a moment. Failure: no thread to be had.
 */
#include "engine/progress_thread.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "engine/engine.h"
#include "engine/thread.h"

struct tt_progress_thread {
    struct tt_engine *engine;
    pthread_t thread;
    bool on;                   /* with the engine's lock: it is the control context */
    _Atomic uint32_t inside;   /* application threads; changes with the engine's lock */
    _Atomic uint64_t empty_ns; /* since when there has been none */
    _Atomic bool idle;         /* it sleeps until it is called, or is about to */
    _Atomic bool stop;         /* changes with both locks */

    pthread_mutex_t lock; /* for sleeping; after the engine's */
    pthread_cond_t called;
};

/* With the engine's lock. */
static bool owes(struct tt_engine *engine)
{
    if (!tt_tasks_empty(&engine->posted) || engine->parties.owing > 0) {
        return true;
    }
    if (engine->words != NULL && tt_engine_now(engine) < engine->words_until_ns) {
        return true; /* for who asks */
    }
    for (uint32_t i = 0; i < engine->network_count; i++) {
        if (engine->networks[i]->tend_ns != TT_NEVER) {
            return true; /* the last frame of all may have been lost, and then others wait for it */
        }
    }
    return false;
}

static void sleep_until(struct tt_progress_thread *progress, uint64_t until_ns)
{
    struct timespec until = tt_clock_timespec(until_ns);

    pthread_mutex_lock(&progress->lock);
    if (!progress->stop) {
        pthread_cond_timedwait(&progress->called, &progress->lock, &until);
    }
    pthread_mutex_unlock(&progress->lock);
}

static void sleep_until_called(struct tt_progress_thread *progress)
{
    pthread_mutex_lock(&progress->lock);
    while (progress->idle && !progress->stop) {
        pthread_cond_wait(&progress->called, &progress->lock);
    }
    pthread_mutex_unlock(&progress->lock);
}

static void call(struct tt_progress_thread *progress)
{
    pthread_mutex_lock(&progress->lock);
    progress->idle = false;
    pthread_cond_signal(&progress->called);
    pthread_mutex_unlock(&progress->lock);
}

/* Whether there is nothing to do until it is called. It says that it is idle before it looks, and those who leave or
 * post look whether it is afterwards. */
static bool becomes_idle(struct tt_progress_thread *progress)
{
    bool idle;

#ifndef TT_FAULT_IDLE_AFTER_LOOK
    progress->idle = true;
#endif
    idle = progress->inside > 0;
    if (!idle) {
        pthread_mutex_lock(&progress->engine->lock);
        idle = !owes(progress->engine);
        pthread_mutex_unlock(&progress->engine->lock);
    }
#ifdef TT_FAULT_IDLE_AFTER_LOOK
    progress->idle = idle;
#endif
    if (!idle) {
        progress->idle = false;
    }
    return idle;
}

/* Whoever comes and goes would have to call it each time if it did not wait a while. */
static bool is_patient(const struct tt_progress_thread *progress)
{
    return tt_engine_now(progress->engine) < progress->empty_ns + TT_PROGRESS_THREAD_PATIENCE_NS;
}

/* Turns of the engine until somebody comes or nothing is owed any more. */
static void take_turns(struct tt_progress_thread *progress)
{
    struct tt_engine *engine = progress->engine;

    pthread_mutex_lock(&engine->lock);
    while (!progress->stop && progress->inside == 0 && !is_patient(progress) && owes(engine)) {
        assert(!progress->on);
        progress->on = true;
        tt_engine_take_control(engine); /* nobody else has it: whoever takes turns is inside */
        tt_engine_turn(engine, TT_NEVER);
        tt_engine_leave_control(engine);
        progress->on = false;
        tt_engine_step_aside(engine);
    }
    pthread_mutex_unlock(&engine->lock);
}

static void *run(void *argument)
{
    struct tt_progress_thread *progress = argument;

    while (!progress->stop) {
        if (is_patient(progress)) {
            sleep_until(progress, progress->empty_ns + TT_PROGRESS_THREAD_PATIENCE_NS);
        } else if (becomes_idle(progress)) {
            sleep_until_called(progress);
        } else {
            take_turns(progress);
        }
    }
    return NULL;
}

tutti_status tt_progress_thread_create(struct tt_engine *engine, struct tt_progress_thread **progress)
{
    struct tt_progress_thread *made = calloc(1, sizeof *made);
    int error;

    assert(engine->wakeup != NULL);
    assert(engine->workers == NULL); /* they have a control thread */
    if (made == NULL) {
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_NO_MEMORY, "no memory for a context");
    }
    made->engine = engine;
    pthread_mutex_init(&made->lock, NULL);
    tt_thread_condition_init(&made->called);
    error = tt_thread_start(&made->thread, run, made);
    if (error != 0) {
        pthread_cond_destroy(&made->called);
        pthread_mutex_destroy(&made->lock);
        free(made);
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_NO_RESOURCE, "no progress thread: %s", strerror(error));
    }
    *progress = made;
    return TUTTI_OK;
}

void tt_progress_thread_destroy(struct tt_progress_thread *progress)
{
    if (progress == NULL) {
        return;
    }
    pthread_mutex_lock(&progress->engine->lock);
    progress->stop = true;
    call(progress);
    tt_wakeup_ring_always(progress->engine->wakeup);
    pthread_mutex_unlock(&progress->engine->lock);
    pthread_join(progress->thread, NULL);
    assert(!progress->on);
    assert(progress->inside == 0);
    pthread_cond_destroy(&progress->called);
    pthread_mutex_destroy(&progress->lock);
    free(progress);
}

void tt_progress_thread_enter(struct tt_progress_thread *progress)
{
    if (progress == NULL) {
        return;
    }
    progress->inside++;
    if (progress->on) {
        tt_wakeup_ring_always(progress->engine->wakeup);
    }
}

void tt_progress_thread_leave(struct tt_progress_thread *progress)
{
    if (progress == NULL) {
        return;
    }
    assert(progress->inside > 0);
    progress->empty_ns = tt_engine_now(progress->engine);
    progress->inside--;
    tt_progress_thread_unlocked(progress);
}

void tt_progress_thread_unlocked(struct tt_progress_thread *progress)
{
    if (progress != NULL && progress->inside == 0 && progress->idle && owes(progress->engine)) {
        call(progress);
    }
}

void tt_progress_thread_posted(struct tt_progress_thread *progress)
{
    if (progress != NULL && progress->idle) {
        call(progress);
    }
}

bool tt_progress_thread_has_control(const struct tt_progress_thread *progress)
{
    return progress != NULL && progress->on;
}

void tt_progress_thread_check(const struct tt_progress_thread *progress)
{
    assert(progress->engine->workers == NULL);
    assert(!progress->on || progress->engine->controlled);
}
