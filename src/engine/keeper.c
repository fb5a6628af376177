/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The keeper's thread. Normal path: it sleeps until an application thread leaves something owed behind; looks again
 * after the patience; takes turns of the engine, asleep on the descriptors, for as long as nobody comes. Who enters
 * rings it out of its sleep, and waits for the control context like for any other thread's. It asks for the engine's
 * lock only while nobody else is here: an application thread that polls has that lock nearly all the time, and would
 * have to wake the keeper each time that it lets go for a moment. Failure: no thread to be had.
 */
#include "engine/keeper.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "engine/engine.h"
#include "engine/group.h"
#include "engine/objects.h"
#include "engine/thread.h"

struct tt_keeper {
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
    if (!tt_tasks_empty(&engine->posted)) {
        return true;
    }
    for (const struct tt_group *group = engine->groups; group != NULL; group = group->next) {
        if (group->active != NULL || tt_member_owes(&group->member)) {
            return true;
        }
    }
    for (uint32_t i = 0; i < engine->network_count; i++) {
        if (engine->networks[i]->tend_ns != TT_NEVER) {
            return true; /* the last frame of all may have been lost, and then others wait for it */
        }
    }
    return tt_objects_owe(engine);
}

static void sleep_until(struct tt_keeper *keeper, uint64_t until_ns)
{
    struct timespec until = tt_clock_timespec(until_ns);

    pthread_mutex_lock(&keeper->lock);
    if (!keeper->stop) {
        pthread_cond_timedwait(&keeper->called, &keeper->lock, &until);
    }
    pthread_mutex_unlock(&keeper->lock);
}

static void sleep_until_called(struct tt_keeper *keeper)
{
    pthread_mutex_lock(&keeper->lock);
    while (keeper->idle && !keeper->stop) {
        pthread_cond_wait(&keeper->called, &keeper->lock);
    }
    pthread_mutex_unlock(&keeper->lock);
}

static void call(struct tt_keeper *keeper)
{
    pthread_mutex_lock(&keeper->lock);
    keeper->idle = false;
    pthread_cond_signal(&keeper->called);
    pthread_mutex_unlock(&keeper->lock);
}

/* Whether there is nothing to do until it is called. It says that it is idle before it looks, and those who leave or
 * post look whether it is afterwards. */
static bool becomes_idle(struct tt_keeper *keeper)
{
    bool idle;

    keeper->idle = true;
    idle = keeper->inside > 0;
    if (!idle) {
        pthread_mutex_lock(&keeper->engine->lock);
        idle = !owes(keeper->engine);
        pthread_mutex_unlock(&keeper->engine->lock);
    }
    if (!idle) {
        keeper->idle = false;
    }
    return idle;
}

/* Whoever comes and goes would have to call the keeper each time if it did not wait a while. */
static bool is_patient(const struct tt_keeper *keeper)
{
    return tt_engine_now(keeper->engine) < keeper->empty_ns + TT_KEEPER_PATIENCE_NS;
}

/* Turns of the engine until somebody comes or nothing is owed any more. */
static void keep_engine(struct tt_keeper *keeper)
{
    struct tt_engine *engine = keeper->engine;

    pthread_mutex_lock(&engine->lock);
    while (!keeper->stop && keeper->inside == 0 && !is_patient(keeper) && owes(engine)) {
        keeper->on = true;
        tt_engine_take_control(engine); /* nobody else has it: whoever takes turns is inside */
        tt_engine_turn(engine, TT_NEVER);
        tt_engine_leave_control(engine);
        keeper->on = false;
        tt_engine_step_aside(engine);
    }
    pthread_mutex_unlock(&engine->lock);
}

static void *keep(void *argument)
{
    struct tt_keeper *keeper = argument;

    while (!keeper->stop) {
        if (is_patient(keeper)) {
            sleep_until(keeper, keeper->empty_ns + TT_KEEPER_PATIENCE_NS);
        } else if (becomes_idle(keeper)) {
            sleep_until_called(keeper);
        } else {
            keep_engine(keeper);
        }
    }
    return NULL;
}

tutti_status tt_keeper_create(struct tt_engine *engine, struct tt_keeper **keeper)
{
    struct tt_keeper *made = calloc(1, sizeof *made);
    int error;

    if (made == NULL) {
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_NO_MEMORY, "no memory for a context");
    }
    made->engine = engine;
    pthread_mutex_init(&made->lock, NULL);
    tt_thread_condition_init(&made->called);
    error = tt_thread_start(&made->thread, keep, made);
    if (error != 0) {
        pthread_cond_destroy(&made->called);
        pthread_mutex_destroy(&made->lock);
        free(made);
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_NO_RESOURCE, "no thread to keep a context: %s", strerror(error));
    }
    *keeper = made;
    return TUTTI_OK;
}

void tt_keeper_destroy(struct tt_keeper *keeper)
{
    if (keeper == NULL) {
        return;
    }
    pthread_mutex_lock(&keeper->engine->lock);
    keeper->stop = true;
    call(keeper);
    tt_wakeup_ring_always(keeper->engine->wakeup);
    pthread_mutex_unlock(&keeper->engine->lock);
    pthread_join(keeper->thread, NULL);
    pthread_cond_destroy(&keeper->called);
    pthread_mutex_destroy(&keeper->lock);
    free(keeper);
}

void tt_keeper_enter(struct tt_keeper *keeper)
{
    if (keeper == NULL) {
        return;
    }
    keeper->inside++;
    if (keeper->on) {
        tt_wakeup_ring_always(keeper->engine->wakeup);
    }
}

void tt_keeper_leave(struct tt_keeper *keeper)
{
    if (keeper == NULL) {
        return;
    }
    keeper->empty_ns = tt_engine_now(keeper->engine);
    if (--keeper->inside == 0 && keeper->idle && owes(keeper->engine)) {
        call(keeper);
    }
}

void tt_keeper_posted(struct tt_keeper *keeper)
{
    if (keeper != NULL && keeper->idle) {
        call(keeper);
    }
}
