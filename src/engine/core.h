/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An engine as all of its files see it: what it has, what time it is, its lock, and those who wait for it. What it does
 * is in engine.h.
 */
#ifndef TT_ENGINE_CORE_H
#define TT_ENGINE_CORE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/settings.h"
#include "engine/choice_file.h"
#include "engine/network.h"
#include "engine/party.h"
#include "engine/task_queue.h"
#include "engine/wakeup.h"
#include "proto/action.h"
#include "proto/early.h"
#include "tutti/status.h"

struct tt_objects_word;
struct tt_progress_thread;
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
    uint32_t cores; /* of this machine */

    pthread_mutex_t lock;
    pthread_cond_t finished;  /* with lock: a request has finished, or the control context is free */
    uint32_t waiters;         /* with lock: application threads in `finished` */
    uint32_t told;            /* with lock: of these, those that were told something, and want the lock */
    bool controlled;          /* with lock: a thread has control, perhaps asleep and without the lock */
    pthread_cond_t entry;     /* with lock: a thread that wanted the lock, or was told something, has got it */
    uint32_t entries;         /* with lock: how many have, wraps */
    uint32_t asides;          /* with lock: since the last one, whoever polls has let go of the lock in vain */
    struct tt_tasks posted;   /* struct tt_post, from application threads */
    struct tt_wakeup *wakeup; /* NULL in the simulator */

    pthread_mutex_t networks_lock; /* taken before the lock: one thread at a time adds to them, also without the lock */
    struct tt_network *networks[TT_ENGINE_MAX_NETWORKS];
    uint32_t network_count;
    struct tt_parties parties;                  /* groups and object groups */
    uint64_t around_ns;                         /* when those that are not looked at were last asked about */
    struct tt_actions actions;                  /* of whatever group takes a step */
    bool carries_out;                           /* these actions, so that no other step may be taken */
    struct tt_workers *workers;                 /* NULL: none */
    struct tt_progress_thread *progress_thread; /* NULL: there are workers, or it is simulated */
    struct tt_early_pool early;                 /* memory for the groups' logs of early chunks */
    uint64_t last_work_ns;
    uint64_t steps_wait_ns;     /* for messages that ranks send in turn, on an average */
    bool awaits_steps;          /* now */
    uint64_t looked_ns;         /* at what has come */
    uint64_t frames_ns;         /* looked at those that have come */
    bool begun;                 /* something, and not looked since */
    bool ended;                 /* a request, in this progress */
    bool announced;             /* something, in this progress: whoever waits for it looks before anybody sleeps */
    bool chunks_wait;           /* in this progress, some were left where they were */
    bool sends;                 /* in this progress, frames have allowed chunks that this context sends */
    bool oversubscribed;        /* somebody else has wanted the core of late */
    uint64_t oversubscribed_ns; /* when somebody did, at last */
    uint64_t alone_ns;          /* when nobody did, or this rank tried to be moved, at last */
    uint32_t moved_in_vain;     /* tries since nobody has wanted the core for a while */
    uint64_t useful_wakeups;    /* of the p2p providers, at the last look */
    uint32_t vain_wakeups;      /* of the control context, one soon after the other and without anything to do */
    uint64_t groups_created;
    struct tt_objects_word *words; /* list, the latest first: object groups that failed while their members joined */
    uint64_t words_until_ns;       /* so long members that come late are expected */
    _Atomic uint32_t lock_wanted;  /* application threads that wait for the lock; see step_aside */
};

static inline uint64_t tt_engine_now(const struct tt_engine *engine)
{
    return engine->now_ns(engine->now_argument);
}

/* The lock, for an application thread. */
void tt_engine_lock(struct tt_engine *engine);
void tt_engine_unlock(struct tt_engine *engine);

/* With the lock: who has waited for it has got it, which whoever polls may wait for. */
void tt_engine_note_entry(struct tt_engine *engine);

/* Wakes up whoever has control and sleeps: what it knew of what there is to wait for, and until when, has changed. Any
 * thread. */
void tt_engine_ring(struct tt_engine *engine);

/* Control: a request has finished, or something else that a thread in `finished` may wait for has come about. */
void tt_engine_announce(struct tt_engine *engine);

/* Makes the action list long enough for a group of this size. */
tutti_status tt_engine_reserve(struct tt_engine *engine, uint32_t size);

#endif
