/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The engine. Normal path of progress: take over what applications posted, let every group receive, send and step, and
 * hand out the events of the p2p providers. A thread that waits becomes the control context if nobody else is, polls
 * for a while, and then sleeps on the descriptors of all networks; the others sleep until it is done or a request ends.
 */
#include "engine/engine.h"

#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/log.h"
#include "engine/group.h"
#include "engine/keeper.h"
#include "engine/objects.h"
#include "engine/relay.h"
#include "engine/request.h"
#include "engine/rest.h"
#include "engine/thread.h"
#include "engine/worker.h"
#include "proto/eager.h"

enum { P2P_EVENTS = 64, P2P_ROUNDS = 4 };

/* --- Life --------------------------------------------------------------------------------------------------------- */

static uint64_t system_now(void *argument)
{
    (void)argument;
    return tt_clock_now_ns();
}

static tutti_status allocate(const struct tt_settings *settings, struct tt_engine **engine)
{
    struct tt_engine *made = calloc(1, sizeof *made);
    uint8_t *slabs = aligned_alloc(64, (size_t)TT_EARLY_SLABS * TT_EAGER_LOG_BYTES);
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
    tt_early_pool_init(&made->early, slabs, TT_EAGER_LOG_BYTES);
    pthread_mutex_init(&made->lock, NULL);
    tt_thread_condition_init(&made->finished);
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
        status = tt_keeper_create(made, &made->keeper);
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
    *engine = made;
    return TUTTI_OK;
}

void tt_engine_destroy(struct tt_engine *engine)
{
    if (engine == NULL) {
        return;
    }
    tt_keeper_destroy(engine->keeper);
    tt_workers_destroy(engine->workers);
    for (uint32_t i = 0; i < engine->network_count; i++) {
        tt_network_destroy(engine->networks[i]);
    }
    if (engine->prepared != NULL) {
        engine->prepared->ops->destroy(engine->prepared);
    }
    tt_wakeup_destroy(engine->wakeup);
    free(engine->early.memory);
    free(engine->actions.list);
    pthread_cond_destroy(&engine->finished);
    pthread_mutex_destroy(&engine->lock);
    free(engine);
}

void tt_engine_lock(struct tt_engine *engine)
{
    atomic_fetch_add_explicit(&engine->lock_wanted, 1, memory_order_seq_cst);
    pthread_mutex_lock(&engine->lock);
    atomic_fetch_sub_explicit(&engine->lock_wanted, 1, memory_order_seq_cst);
}

/* Whoever sleeps has an old idea of what there is to wait for, and until when. */
static void ring(struct tt_engine *engine)
{
    if (engine->wakeup != NULL) {
        tt_wakeup_ring(engine->wakeup);
    }
}

void tt_engine_unlock(struct tt_engine *engine)
{
    pthread_mutex_unlock(&engine->lock);
    ring(engine);
}

tutti_status tt_engine_reserve(struct tt_engine *engine, uint32_t size)
{
    uint32_t capacity = tt_actions_capacity(size);
    struct tt_action *list;

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

/* --- Progress ----------------------------------------------------------------------------------------------------- */

static bool take_posted(struct tt_engine *engine)
{
    struct tt_task *task = tt_tasks_take(&engine->posted);
    bool any = task != NULL;

    while (task != NULL) {
        struct tt_request *request = (struct tt_request *)task;
        struct tt_member_event event = {
            .type = TT_MEMBER_POST, .now_ns = tt_engine_now(engine), .collective = &request->collective};

        task = task->next;
        request->freezing = request->sent = false;
        request->failed_runs = 0;
        request->transmit.turn = 0;
        request->transmit.posted = 0;
        atomic_store_explicit(&request->transmit.limit, 0, memory_order_relaxed);
        request->transmit.copied_bytes = 0;
        request->transmit.due_ns = TT_NEVER;
        for (uint32_t s = 0; s < request->transmit.subgroups; s++) {
            request->transmit.cursors[s] = 0;
        }
        atomic_store_explicit(&request->transmit.state, TT_TRANSMIT_IDLE, memory_order_relaxed);
        atomic_store_explicit(&request->transmit.canceled, false, memory_order_relaxed);
        if (request->relay != NULL) {
            tt_relay_post(request);
        }
        request->next = request->group->active;
        request->group->active = request;
        tt_group_step(request->group, &event);
    }
    return any;
}

static void peer_down(struct tt_engine *engine, struct tt_network *network, struct tt_peer *peer)
{
    peer->down = true; /* a group that is created meanwhile makes a new connection */
    for (struct tt_group *group = engine->groups; group != NULL; group = group->next) {
        for (uint32_t rank = 0; rank < group->size; rank++) {
            if (group->peers[rank] == peer) {
                struct tt_member_event event = {
                    .type = TT_MEMBER_PEER_DOWN, .now_ns = tt_engine_now(engine), .rank = rank};

                tt_group_step(group, &event);
            }
        }
    }
    tt_objects_peer_down(engine, peer);
    tt_network_peer_down(network, peer);
}

/* Groups that share a connection which another one gave up hear of it as of a peer that is down. */
static bool tell_abandoned(struct tt_engine *engine, struct tt_network *network)
{
    bool any = network->abandons;

    while (network->abandons) {
        struct tt_peer *peer = network->peers;

        while (peer != NULL && !peer->abandoned) {
            peer = peer->next;
        }
        if (peer == NULL) {
            network->abandons = false;
        } else {
            peer->abandoned = false;
            peer_down(engine, network, peer);
        }
    }
    return any;
}

static void get_done(struct tt_engine *engine, const struct tt_p2p_event *done)
{
    uint64_t run = done->cookie % TT_REQUEST_ALIGNMENT;
    struct tt_request *request = (struct tt_request *)(uintptr_t)(done->cookie - run);
    struct tt_member_event event = {.type = TT_MEMBER_GOT,
                                    .now_ns = tt_engine_now(engine),
                                    .collective = &request->collective,
                                    .run = (uint32_t)run,
                                    .status = done->status};

    request->gets--;
    if (done->status != TUTTI_OK && done->status != TUTTI_ERR_PEER_FAILED && done->status != TUTTI_ERR_CANCELED) {
        request->group->trouble = done->status; /* nobody else says so, and those chunks will not come */
    }
    tt_group_step(request->group, &event);
}

static bool take_p2p_events(struct tt_engine *engine, struct tt_network *network)
{
    struct tt_p2p_event events[P2P_EVENTS];
    uint32_t count = P2P_EVENTS;
    bool any = false;

    for (uint32_t round = 0; round < P2P_ROUNDS && count > 0 && !engine->ended; round++) {
        count = network->p2p->ops->progress(network->p2p, events, P2P_EVENTS);
        for (uint32_t i = 0; i < count; i++) {
            any = true;
            switch (events[i].type) {
            case TT_P2P_FRAME:
                if (!tt_objects_dispatch(engine, events[i].data, events[i].length_bytes)) {
                    tt_group_dispatch(engine, events[i].data, events[i].length_bytes);
                }
                break;
            case TT_P2P_DONE:
                if (tt_objects_owns(events[i].cookie)) {
                    tt_objects_put_done(engine, events[i].cookie, events[i].status);
                } else {
                    get_done(engine, &events[i]);
                }
                break;
            case TT_P2P_PEER_DOWN:
                peer_down(engine, network, (struct tt_peer *)(uintptr_t)events[i].peer_cookie);
                break;
            case TT_P2P_IMMEDIATE:
                tt_objects_immediate(engine, events[i].immediate);
                break;
            }
        }
    }
    return any;
}

/* What nobody asks the p2p providers for. */
static void tend(struct tt_engine *engine, uint64_t now_ns)
{
    for (uint32_t i = 0; i < engine->network_count; i++) {
        struct tt_network *network = engine->networks[i];
        bool was_due = network->tend_ns <= now_ns;

        network->tend_ns = network->p2p->ops->tend(network->p2p, now_ns);
        if (was_due) {
            struct tt_p2p_counters counters;

            network->p2p->ops->counters(network->p2p, &counters);
            atomic_store_explicit(&network->probes_sent, counters.probes_sent, memory_order_relaxed);
        }
    }
}

/* `looks`: at what has come, too. */
static bool move(struct tt_engine *engine, uint64_t now_ns, bool looks)
{
    bool any, frames;

    engine->ended = engine->chunks_wait = false;
    any = take_posted(engine);
    /* Chunks before frames: when the frame that says "all is sent" is looked at, what came before it has been placed.
     */
    for (struct tt_group *group = engine->groups; group != NULL; group = group->next) {
        any |= tt_group_progress(group, now_ns, looks);
    }
    /* And whoever waits for a request that has ended is not kept by what else may have come. */
    frames = looks && !engine->chunks_wait && (!engine->ended || now_ns - engine->frames_ns >= TT_ENGINE_LOOK_NS);
    if (frames) {
        engine->ended = false;
        engine->frames_ns = now_ns;
    }
    for (uint32_t i = 0; i < engine->network_count; i++) {
        any |= frames && take_p2p_events(engine, engine->networks[i]);
        any |= tell_abandoned(engine, engine->networks[i]);
    }
    tt_objects_progress(engine, now_ns);
    any |= tt_relays_progress(engine);
    tend(engine, now_ns);
    if (any) {
        engine->last_work_ns = now_ns;
    }
    return any;
}

bool tt_engine_progress(struct tt_engine *engine)
{
    engine->looked_ns = tt_engine_now(engine);
    engine->begun = false;
    return move(engine, engine->looked_ns, true);
}

bool tt_engine_begin(struct tt_engine *engine)
{
    uint64_t now_ns = tt_engine_now(engine);

    if (engine->wakeup == NULL || now_ns - engine->looked_ns >= TT_ENGINE_LOOK_NS) {
        return tt_engine_progress(engine);
    }
    engine->begun = true;
    return move(engine, now_ns, false);
}

uint64_t tt_engine_deadline(const struct tt_engine *engine)
{
    uint64_t deadline = tt_objects_deadline(engine);

    for (uint32_t i = 0; i < engine->network_count; i++) {
        deadline = engine->networks[i]->tend_ns < deadline ? engine->networks[i]->tend_ns : deadline;
    }
    for (const struct tt_group *group = engine->groups; group != NULL; group = group->next) {
        deadline = group->deadline_ns < deadline ? group->deadline_ns : deadline;
        if (group->stepping_needed) {
            return 0;
        }
        for (const struct tt_request *request = group->active; request != NULL; request = request->next) {
            if (request->freezing) {
                return 0; /* a worker is about to leave the kernel */
            }
            if (engine->workers == NULL && request->transmit.due_ns < deadline) {
                deadline = request->transmit.due_ns;
            }
        }
    }
    return deadline;
}

/* --- Application threads ------------------------------------------------------------------------------------------ */

void tt_engine_announce(struct tt_engine *engine)
{
    if (engine->waiters > 0) {
        engine->told = engine->waiters;
        pthread_cond_broadcast(&engine->finished);
    }
}

/* Moves things along without blocking, if this thread may; false: it may not. */
static bool move_if_free(struct tt_engine *engine, bool (*progress)(struct tt_engine *engine))
{
    if (engine->workers != NULL || pthread_mutex_trylock(&engine->lock) != 0) {
        return false;
    }
    tt_keeper_enter(engine->keeper);
    if (progress(engine)) {
        ring(engine);
    }
    tt_keeper_leave(engine->keeper);
    pthread_mutex_unlock(&engine->lock);
    return true;
}

void tt_engine_post(struct tt_engine *engine, struct tt_request *request)
{
    tt_tasks_push(&engine->posted, &request->task);
    ring(engine);
    if (!move_if_free(engine, tt_engine_begin)) {
        tt_keeper_posted(engine->keeper);
    }
}

void tt_engine_poke(struct tt_engine *engine)
{
    move_if_free(engine, tt_engine_progress);
}

void tt_engine_take_control(struct tt_engine *engine)
{
    assert(!engine->controlled);
    engine->controlled = true;
}

void tt_engine_leave_control(struct tt_engine *engine)
{
    assert(engine->controlled);
    engine->controlled = false;
    tt_engine_announce(engine);
}

void tt_engine_turn(struct tt_engine *engine, uint64_t until_ns)
{
    assert(engine->controlled);
    if (engine->begun && engine->crowded) {
        tt_engine_yield(engine); /* others have to do their part before anything comes of it, perhaps on this core */
    }
    if (tt_engine_progress(engine)) {
        engine->vain_wakeups = 0;
    } else {
        tt_engine_rest(engine, until_ns);
    }
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
    engine->waiters--;
    engine->told -= engine->told > 0;
}

void tt_engine_step_aside(struct tt_engine *engine)
{
    if (engine->told > 0 || atomic_load_explicit(&engine->lock_wanted, memory_order_seq_cst) > 0) {
        pthread_mutex_unlock(&engine->lock);
        sched_yield();
        pthread_mutex_lock(&engine->lock);
    }
}

static void control(struct tt_engine *engine, tt_engine_condition *is_over, const void *argument, uint64_t until_ns)
{
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

    tt_keeper_enter(engine->keeper);
    while (!is_over(argument) && (now_ns = tt_engine_now(engine)) < until_ns) {
        if (engine->workers != NULL || engine->controlled) {
            wait_for_others(engine, look_ns < until_ns - now_ns ? now_ns + look_ns : until_ns);
        } else {
            control(engine, is_over, argument, until_ns);
        }
    }
    tt_keeper_leave(engine->keeper);
}

void tt_engine_wait_for(struct tt_engine *engine, tt_engine_condition *is_over, const void *argument, uint64_t until_ns)
{
    ring(engine); /* for what the caller has begun */
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
