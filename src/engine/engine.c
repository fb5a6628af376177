/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The life of an engine. Normal path: memory, something to sleep on, and its threads, in the order in which they need
 * each other; they go in the other one. Failures: no memory, no descriptors, no threads, a table of methods that cannot
 * be read; nothing is left behind.
 */
#include "engine/engine.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/cache_line.h"
#include "base/log.h"
#include "engine/progress_thread.h"
#include "engine/thread.h"
#include "engine/worker.h"
#include "proto/eager.h"

static uint64_t system_now(void *argument)
{
    (void)argument;
    return tt_clock_now_ns();
}

/* Of the whole machine, which its ranks share: a launcher may have bound each of them to a core of its own. */
static uint32_t count_cores(void)
{
    long online = sysconf(_SC_NPROCESSORS_ONLN);

    return online > 0 ? (uint32_t)online : 1;
}

static tutti_status allocate(const struct tt_settings *settings, struct tt_engine **engine)
{
    struct tt_engine *made = calloc(1, sizeof *made);
    uint8_t *slabs = aligned_alloc(TT_CACHE_LINE_BYTES, (size_t)TT_EARLY_SLABS * TT_EAGER_LOG_BYTES);
    tutti_status status = TUTTI_OK;

    if (made == NULL || slabs == NULL) {
        status = tt_error(TT_PART_ENGINE, TUTTI_ERR_NO_MEMORY, "no memory for a context");
    } else {
        status = tt_choice_load(settings->table, &made->table);
    }
    if (status != TUTTI_OK) {
        free(made);
        free(slabs);
        return status;
    }
    made->settings = *settings;
    made->now_ns = system_now;
    made->cores = count_cores();
    tt_early_pool_init(&made->early, slabs, TT_EAGER_LOG_BYTES);
    pthread_mutex_init(&made->lock, NULL);
    pthread_mutex_init(&made->networks_lock, NULL);
    tt_thread_condition_init(&made->finished);
    tt_thread_condition_init(&made->entry);
    *engine = made;
    return TUTTI_OK;
}

tutti_status tt_engine_create(const struct tt_settings *settings, struct tt_engine **engine)
{
    struct tt_engine *made;
    tutti_status status = allocate(settings, &made);

    if (status != TUTTI_OK) {
        return status;
    }
    if (getrandom(&made->context_id, sizeof made->context_id, 0) != sizeof made->context_id) {
        status = tt_error(TT_PART_ENGINE, TUTTI_ERR_IO, "no random numbers: %s", strerror(errno));
    }
    if (status == TUTTI_OK) {
        status = tt_wakeup_create(&made->wakeup);
    }
    if (status == TUTTI_OK && settings->workers > 0) {
        status = tt_workers_create(made, (uint32_t)settings->workers);
    }
    if (status == TUTTI_OK && settings->workers == 0) {
        status = tt_progress_thread_create(made, &made->progress_thread);
    }
    if (status != TUTTI_OK) {
        tt_engine_destroy(made);
        return status;
    }
    *engine = made;
    return TUTTI_OK;
}

tutti_status tt_engine_create_simulated(const struct tt_settings *settings, uint64_t context_id, struct tt_mcast *mcast,
                                        struct tt_p2p *p2p, uint64_t (*now_ns)(void *argument), void *now_argument,
                                        struct tt_engine **engine)
{
    struct tt_engine *made;
    tutti_status status = allocate(settings, &made);

    if (status != TUTTI_OK) {
        return status;
    }
    made->context_id = context_id;
    made->now_ns = now_ns;
    made->now_argument = now_argument;
    status = tt_network_borrow(settings, mcast, p2p, &made->networks[0]);
    if (status != TUTTI_OK) {
        tt_engine_destroy(made);
        return status;
    }
    made->network_count = 1;
    tt_engine_check(made);
    *engine = made;
    return TUTTI_OK;
}

void tt_engine_destroy(struct tt_engine *engine)
{
    if (engine == NULL) {
        return;
    }
    tt_progress_thread_destroy(engine->progress_thread);
    engine->progress_thread = NULL;
    tt_workers_destroy(engine->workers);
    engine->workers = NULL;
    tt_engine_check(engine);
    assert(!engine->controlled);
    assert(engine->waiters == 0);
    assert(tt_tasks_empty(&engine->posted));
    assert(atomic_load_explicit(&engine->early.taken, memory_order_relaxed) == 0); /* groups have given slabs back */
    for (uint32_t i = 0; i < engine->network_count; i++) {
        tt_network_destroy(engine->networks[i]);
    }
    tt_wakeup_destroy(engine->wakeup);
    tt_parties_fini(&engine->parties);
    free(engine->early.memory);
    free(engine->actions.list);
    pthread_cond_destroy(&engine->finished);
    pthread_cond_destroy(&engine->entry);
    pthread_mutex_destroy(&engine->lock);
    pthread_mutex_destroy(&engine->networks_lock);
    free(engine);
}

/* --- Checks ------------------------------------------------------------------------------------------------------- */

/* Who may have control, and sleep. */
static void check_threads(const struct tt_engine *engine)
{
    assert(engine->told <= engine->waiters);
    if (engine->wakeup == NULL) {
        assert(engine->workers == NULL);
        assert(engine->progress_thread == NULL);
        assert(!engine->controlled);
        return;
    }
    if (!engine->controlled) { /* who has control sleeps without the lock */
        tt_wakeup_check(engine->wakeup);
    }
    if (engine->workers != NULL) {
        assert(engine->progress_thread == NULL);
        tt_workers_check(engine->workers);
    }
    if (engine->progress_thread != NULL) {
        tt_progress_thread_check(engine->progress_thread);
    }
}

void tt_engine_check(const struct tt_engine *engine)
{
    assert(!engine->carries_out);
    assert(engine->actions.count <= engine->actions.capacity);
    assert(engine->actions.list != NULL || engine->actions.capacity == 0);
    assert(engine->network_count <= TT_ENGINE_MAX_NETWORKS);
    for (uint32_t i = 0; i < engine->network_count; i++) {
        tt_network_check(engine->networks[i]);
    }
    check_threads(engine);
    tt_early_pool_check(&engine->early);
    tt_parties_check(&engine->parties);
    for (const struct tt_party *party = engine->parties.first; party != NULL; party = party->next) {
        assert(party->awake || engine->wakeup != NULL); /* in virtual time nobody sleeps */
    }
}
