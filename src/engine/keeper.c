/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The keeper's thread. Normal path: it sleeps until an application thread leaves something owed behind; looks again
 * after the patience; takes turns of the engine, asleep on the descriptors, for as long as nobody comes. Who enters
 * rings it out of its sleep, and waits for the control context like for any other thread's. Failure: no thread to be
 * had.
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
    /* All with the engine's lock. */
    pthread_cond_t called;
    bool stop;
    bool idle;         /* in `called`, without a deadline */
    bool on;           /* it is the control context */
    uint32_t inside;   /* application threads */
    uint64_t empty_ns; /* since when there has been none */
};

static bool owes(const struct tt_engine *engine)
{
    for (const struct tt_group *group = engine->groups; group != NULL; group = group->next) {
        if (group->active != NULL || tt_member_owes(&group->member)) {
            return true;
        }
    }
    return tt_objects_owe(engine);
}

static void sleep_until(struct tt_keeper *keeper, uint64_t until_ns)
{
    struct timespec until = tt_clock_timespec(until_ns);

    pthread_cond_timedwait(&keeper->called, &keeper->engine->lock, &until);
}

static void *keep(void *argument)
{
    struct tt_keeper *keeper = argument;
    struct tt_engine *engine = keeper->engine;

    pthread_mutex_lock(&engine->lock);
    while (!keeper->stop) {
        uint64_t now_ns = tt_engine_now(engine);

        /* Whoever comes and goes would have to call it each time if it became idle before the patience is over. */
        if (now_ns < keeper->empty_ns + TT_KEEPER_PATIENCE_NS) {
            sleep_until(keeper, keeper->empty_ns + TT_KEEPER_PATIENCE_NS);
        } else if (keeper->inside > 0 || !owes(engine)) {
            keeper->idle = true;
            pthread_cond_wait(&keeper->called, &engine->lock);
            keeper->idle = false;
        } else if (engine->controlled) {
            sleep_until(keeper, now_ns + TT_KEEPER_PATIENCE_NS);
        } else {
            keeper->on = true;
            tt_engine_turn(engine, TT_NEVER);
            keeper->on = false;
            tt_engine_announce(engine);
            tt_engine_step_aside(engine);
        }
    }
    pthread_mutex_unlock(&engine->lock);
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
    tt_thread_condition_init(&made->called);
    error = tt_thread_start(&made->thread, keep, made);
    if (error != 0) {
        pthread_cond_destroy(&made->called);
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
    pthread_cond_signal(&keeper->called);
    tt_wakeup_ring_always(keeper->engine->wakeup);
    pthread_mutex_unlock(&keeper->engine->lock);
    pthread_join(keeper->thread, NULL);
    pthread_cond_destroy(&keeper->called);
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
    keeper->inside--;
    keeper->empty_ns = tt_engine_now(keeper->engine);
    if (keeper->idle && keeper->inside == 0 && owes(keeper->engine)) {
        pthread_cond_signal(&keeper->called);
    }
}
