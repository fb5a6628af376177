/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The engine: the only place where protocol machines meet a fabric.
 *
 * An engine belongs to a context. Its *control context* is whoever holds `lock`: it owns the p2p providers and runs the
 * machines. Without worker threads that is any application thread inside tutti_test or tutti_wait, and it also feeds
 * the receive kernels and sends; with worker threads it is the control thread, and receive and send workers do the rest
 * (worker.h). Application threads hand requests over through a lock-free queue.
 */
#ifndef TT_ENGINE_ENGINE_H
#define TT_ENGINE_ENGINE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/settings.h"
#include "engine/choice_file.h"
#include "engine/network.h"
#include "engine/task_queue.h"
#include "engine/wakeup.h"
#include "proto/action.h"
#include "proto/early.h"
#include "tutti/status.h"

struct tt_group;
struct tt_keeper;
struct tt_objects;
struct tt_request;
struct tt_workers;

enum { TT_ENGINE_MAX_NETWORKS = 8 };

/* Who has looked at what has come so short a time ago need not look again to begin something, or to end it. */
#define TT_ENGINE_LOOK_NS (200 * TT_NS_PER_US)

struct tt_engine {
    struct tt_settings settings;
    struct tt_choice_source table; /* this rank's; a group uses that of its rank 0 */
    uint64_t context_id;           /* random; names this engine to its peers */
    uint64_t (*now_ns)(void *argument);
    void *now_argument;

    pthread_mutex_t lock;
    pthread_cond_t finished;  /* with lock: a request has finished, or the control context is free */
    uint32_t waiters;         /* with lock: application threads in `finished` */
    uint32_t told;            /* with lock: of these, those that were told something, and want the lock */
    bool controlled;          /* with lock: a thread has control, perhaps asleep and without the lock */
    struct tt_tasks posted;   /* requests, from application threads */
    struct tt_wakeup *wakeup; /* NULL in the simulator */

    struct tt_network *networks[TT_ENGINE_MAX_NETWORKS];
    uint32_t network_count;
    struct tt_p2p *prepared; /* made ahead of the first network (prepare.h); NULL */
    struct tt_interface prepared_for;
    struct tt_group *groups;    /* list */
    struct tt_objects *objects; /* list: object groups */
    uint16_t objects_created;   /* as far as their numbers go */
    struct tt_actions actions;
    struct tt_workers *workers; /* NULL: none */
    struct tt_keeper *keeper;   /* NULL: there are workers, or it is simulated */
    struct tt_early_pool early; /* memory for the groups' logs of early chunks */
    uint64_t last_work_ns;
    uint64_t looked_ns;      /* at what has come */
    uint64_t frames_ns;      /* looked at those that have come */
    bool begun;              /* something, and not looked since */
    bool ended;              /* a request, in this progress */
    bool chunks_wait;        /* in this progress, some were left where they were */
    bool crowded;            /* somebody else has wanted the core of late */
    uint64_t crowded_ns;     /* when somebody did, at last */
    uint64_t alone_ns;       /* when nobody did, or this rank tried to be moved, at last */
    uint32_t moved_in_vain;  /* tries since nobody has wanted the core for a while */
    uint64_t useful_wakeups; /* of the p2p providers, at the last look */
    uint32_t vain_wakeups;   /* of the control context, one soon after the other and without anything to do */
    uint64_t groups_created;
    _Atomic uint32_t lock_wanted; /* application threads that wait for the lock; see step_aside */
};

/* Reads nothing but `settings`; starts the worker threads that they ask for. */
tutti_status tt_engine_create(const struct tt_settings *settings, struct tt_engine **engine);

/* For the simulator: an engine in virtual time, without threads and without sleeping, on one given network. */
tutti_status tt_engine_create_simulated(const struct tt_settings *settings, uint64_t context_id, struct tt_mcast *mcast,
                                        struct tt_p2p *p2p, uint64_t (*now_ns)(void *argument), void *now_argument,
                                        struct tt_engine **engine);

/* All groups must be gone. NULL is allowed. */
void tt_engine_destroy(struct tt_engine *engine);

static inline uint64_t tt_engine_now(const struct tt_engine *engine)
{
    return engine->now_ns(engine->now_argument);
}

/* The lock, for an application thread. */
void tt_engine_lock(struct tt_engine *engine);
void tt_engine_unlock(struct tt_engine *engine);

/* Makes the action list long enough for a group of this size. */
tutti_status tt_engine_reserve(struct tt_engine *engine, uint32_t size);

/* Moves everything that can move; the caller holds the lock. Returns whether anything did. */
bool tt_engine_progress(struct tt_engine *engine);

/* What was posted is taken over, and sent as far as that is possible at once. At what has come it does not look, if
 * that was done just now. The caller holds the lock. */
bool tt_engine_begin(struct tt_engine *engine);

/* When progress is due at the latest, if nothing arrives; the caller holds the lock. */
uint64_t tt_engine_deadline(const struct tt_engine *engine);

/* Hands a request over to be posted. Any thread. */
void tt_engine_post(struct tt_engine *engine, struct tt_request *request);

/* Moves things along without blocking, if this thread may. Any thread. */
void tt_engine_poke(struct tt_engine *engine);

/* Control: whoever has it takes turns, and all others that wait rely on it. So there is one way to leave it, which
 * tells them that one of them has to take it. Only who has seen that nobody has it may take it. The caller holds the
 * lock. */
void tt_engine_take_control(struct tt_engine *engine);
void tt_engine_leave_control(struct tt_engine *engine);

/* Progress, or else sleep until something can move or it is `until_ns`. The caller has control, and holds the lock,
 * which is released while it sleeps. */
void tt_engine_turn(struct tt_engine *engine, uint64_t until_ns);

/* Lets an application thread have the lock if one wants it, or has to have it to see what it was told; the caller holds
 * it before and after. */
void tt_engine_step_aside(struct tt_engine *engine);

typedef bool tt_engine_condition(const void *argument);

/* Returns once is_over(argument), which need not be announced, or it is `until_ns`; sleeps when nothing moves. The
 * caller holds the lock, which may be released meanwhile; is_over is called with it. */
void tt_engine_wait_for(struct tt_engine *engine, tt_engine_condition *is_over, const void *argument,
                        uint64_t until_ns);

/* Returns once *done is set (acquire) or it is `until_ns`; sleeps when nothing moves. Any thread. */
void tt_engine_wait(struct tt_engine *engine, const _Atomic bool *done, uint64_t until_ns);

/* Control: a request has finished. */
void tt_engine_announce(struct tt_engine *engine);

#endif
