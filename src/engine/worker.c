/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Worker threads. Normal path of a receive worker: poll its queues in turn, a batch each; when all are dry, keep
 * polling for a while, then sleep on their descriptors. The send worker takes transmissions from its queue and posts a
 * few batches of each in turn. The control thread takes turns of the engine until the end. Failures: threads or
 * descriptors that are not to be had.
 */
#include "engine/worker.h"

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "engine/engine.h"
#include "engine/group.h"
#include "engine/thread.h"
#include "engine/transmit.h"
#include "engine/wakeup.h"

enum { MAX_QUEUES = 256, SEND_BATCHES = 4 };

struct receive_worker {
    struct tt_engine *engine;
    struct tt_wakeup *wakeup;
    pthread_t thread;
    pthread_mutex_t queues_lock; /* the worker holds it but while it sleeps; control takes it to change the list */
    _Atomic bool wanted;         /* control waits for queues_lock */
    _Atomic bool stop;
    uint32_t places; /* control: of queues, given or still to come */
    uint32_t queue_count;
    struct tt_queue *queues[MAX_QUEUES];
};

struct tt_workers {
    struct tt_engine *engine;
    uint32_t count, started;
    struct receive_worker *receivers;
    bool send_started, control_started;
    pthread_t send_thread, control_thread;
    struct tt_wakeup *send_wakeup;
    struct tt_tasks send_tasks;
    _Atomic bool send_stop, control_stop;
    _Atomic uint32_t kicks; /* something changed for the sender */
};

/* --- Receiving ---------------------------------------------------------------------------------------------------- */

static bool receive_round(struct receive_worker *worker)
{
    bool any = false;

    for (uint32_t i = 0; i < worker->queue_count; i++) {
        struct tt_queue *queue = worker->queues[i];

        if (tt_queue_receive(queue, TT_QUEUE_BATCH) > 0) {
            any = true;
            if (atomic_load_explicit(&queue->receiver.attention, memory_order_seq_cst) != 0) {
                tt_wakeup_ring(worker->engine->wakeup);
            }
        }
    }
    return any;
}

static uint64_t poll_time(const struct tt_engine *engine)
{
    /* AUTO: threads beside the ranks' own do better to sleep early than to compete with them. */
    return engine->settings.poll_ns == TT_AUTO ? 0 : engine->settings.poll_ns;
}

static void *receive_thread(void *argument)
{
    struct receive_worker *worker = argument;
    uint64_t last_work_ns = tt_clock_now_ns();

    pthread_mutex_lock(&worker->queues_lock);
    while (!atomic_load_explicit(&worker->stop, memory_order_acquire)) {
        if (receive_round(worker)) {
            last_work_ns = tt_clock_now_ns();
        } else if (tt_clock_now_ns() - last_work_ns >= poll_time(worker->engine)) {
            tt_wakeup_prepare(worker->wakeup);
            pthread_mutex_unlock(&worker->queues_lock);
            if (atomic_load_explicit(&worker->stop, memory_order_seq_cst) ||
                atomic_load_explicit(&worker->wanted, memory_order_seq_cst)) {
                tt_wakeup_call_off(worker->wakeup);
            } else {
                tt_wakeup_sleep(worker->wakeup, UINT64_MAX); /* descriptors are level-triggered: nothing is missed */
            }
            pthread_mutex_lock(&worker->queues_lock);
        }
        if (atomic_load_explicit(&worker->wanted, memory_order_seq_cst)) {
            pthread_mutex_unlock(&worker->queues_lock);
            sched_yield();
            pthread_mutex_lock(&worker->queues_lock);
        }
    }
    pthread_mutex_unlock(&worker->queues_lock);
    return NULL;
}

static void pause_worker(struct receive_worker *worker)
{
    atomic_store_explicit(&worker->wanted, true, memory_order_seq_cst);
    tt_wakeup_ring(worker->wakeup);
#ifdef TT_FAULT_LIST_UNLOCKED
    return;
#endif
    pthread_mutex_lock(&worker->queues_lock);
    atomic_store_explicit(&worker->wanted, false, memory_order_seq_cst);
}

static void resume_worker(struct receive_worker *worker)
{
#ifdef TT_FAULT_LIST_UNLOCKED
    return;
#endif
    pthread_mutex_unlock(&worker->queues_lock);
    tt_wakeup_ring(worker->wakeup);
}

tutti_status tt_workers_reserve(struct tt_workers *workers, uint32_t *index)
{
    uint32_t least = 0;

    assert(workers->count > 0);
    for (uint32_t i = 1; i < workers->count; i++) {
        least = workers->receivers[i].places < workers->receivers[least].places ? i : least;
    }
    if (workers->receivers[least].places == MAX_QUEUES) {
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_NO_RESOURCE, "a receive worker serves %d subgroups, not more",
                        MAX_QUEUES);
    }
    workers->receivers[least].places++;
    *index = least;
    return TUTTI_OK;
}

void tt_workers_release(struct tt_workers *workers, uint32_t index)
{
    assert(index < workers->count);
    assert(workers->receivers[index].places > workers->receivers[index].queue_count); /* the queue was taken back */
    workers->receivers[index].places--;
}

tutti_status tt_workers_add_queue(struct tt_workers *workers, uint32_t index, struct tt_queue *queue)
{
    struct receive_worker *worker = &workers->receivers[index];
    tutti_status status;

    assert(index < workers->count);
    assert(queue->feeder == index);
    assert(worker->queue_count < MAX_QUEUES);
    pause_worker(worker);
    /* Not sooner: what has come would wake it up, again and again, before it has the queue. */
    status = tt_wakeup_add_chunks(worker->wakeup, queue->mcast->ops->receive_fd(queue->mcast), NULL);
    if (status == TUTTI_OK) {
        worker->queues[worker->queue_count++] = queue;
    }
    resume_worker(worker);
    return status;
}

void tt_workers_remove_queue(struct tt_workers *workers, uint32_t index, struct tt_queue *queue)
{
    struct receive_worker *worker = &workers->receivers[index];

    assert(index < workers->count);
    pause_worker(worker);
    for (uint32_t q = 0; q < worker->queue_count; q++) {
        if (worker->queues[q] == queue) {
            tt_wakeup_remove(worker->wakeup, queue->mcast->ops->receive_fd(queue->mcast));
            worker->queues[q] = worker->queues[--worker->queue_count];
        }
    }
    resume_worker(worker);
}

void tt_workers_wake_receiver(struct tt_workers *workers, const struct tt_queue *queue)
{
    for (uint32_t i = 0; i < workers->count; i++) {
        for (uint32_t q = 0; q < workers->receivers[i].queue_count; q++) {
            if (workers->receivers[i].queues[q] == queue) {
#ifdef TT_FAULT_RINGS_ONCE_ANNOUNCED
                tt_wakeup_ring(workers->receivers[i].wakeup);
                return;
#endif
                tt_wakeup_ring_always(workers->receivers[i].wakeup); /* it may be about to sleep */
            }
        }
    }
}

/* --- Sending ------------------------------------------------------------------------------------------------------ */

void tt_workers_kick_sender(struct tt_workers *workers)
{
    atomic_fetch_add_explicit(&workers->kicks, 1, memory_order_seq_cst);
    tt_wakeup_ring(workers->send_wakeup);
}

void tt_workers_send(struct tt_workers *workers, struct tt_transmit *transmit)
{
    assert(transmit->queues != NULL); /* what is only copied control does */
    assert(atomic_load_explicit(&transmit->state, memory_order_relaxed) == TT_TRANSMIT_ACTIVE);
    tt_tasks_push(&workers->send_tasks, &transmit->task);
    tt_workers_kick_sender(workers);
}

/* Posts a few batches of every transmission in the list, and unlinks those that are done. Returns whether any moved;
 * if none did, *until_ns says when to look again though nobody rings. */
static bool send_round(struct tt_workers *workers, struct tt_transmit **list, uint64_t *until_ns)
{
    uint64_t now_ns = tt_clock_now_ns();
    bool any = false;

    *until_ns = TT_NEVER;
    while (*list != NULL) {
        struct tt_transmit *transmit = *list, *next = transmit->next;
        struct tt_queue *full = NULL;
        enum tt_transmit_result result = tt_transmit_progress(transmit, now_ns, SEND_BATCHES, &full);

        any |= result == TT_TRANSMIT_MOVED;
        if (result == TT_TRANSMIT_BLOCKED) {
            assert(full != NULL);
            tt_wakeup_once(workers->send_wakeup, full->mcast->ops->send_fd(full->mcast));
        }
        if (result == TT_TRANSMIT_FINISHED) { /* the control context's: nothing of it is looked at any more */
            *list = next;
            tt_wakeup_ring(workers->engine->wakeup);
        } else {
            assert(result != TT_TRANSMIT_PACED || transmit->due_ns != TT_NEVER);
            *until_ns = transmit->due_ns < *until_ns ? transmit->due_ns : *until_ns;
            list = &transmit->next;
        }
    }
    return any;
}

static void *send_thread(void *argument)
{
    struct tt_workers *workers = argument;
    struct tt_transmit *list = NULL;

    while (!atomic_load_explicit(&workers->send_stop, memory_order_acquire)) {
        uint32_t kicks = atomic_load_explicit(&workers->kicks, memory_order_seq_cst);
        uint64_t until_ns, now_ns;

        for (struct tt_task *task = tt_tasks_take(&workers->send_tasks), *next; task != NULL; task = next) {
            struct tt_transmit *transmit = (struct tt_transmit *)task;

            next = task->next;
            transmit->next = list;
            list = transmit;
        }
        if (send_round(workers, &list, &until_ns)) {
            continue;
        }
#ifdef TT_FAULT_KICKS_READ_LATE
        kicks = atomic_load_explicit(&workers->kicks, memory_order_seq_cst);
#endif
        tt_wakeup_prepare(workers->send_wakeup);
        now_ns = tt_clock_now_ns();
        if (atomic_load_explicit(&workers->kicks, memory_order_seq_cst) != kicks ||
            atomic_load_explicit(&workers->send_stop, memory_order_seq_cst) || until_ns <= now_ns) {
            tt_wakeup_call_off(workers->send_wakeup);
        } else {
            tt_wakeup_sleep(workers->send_wakeup, until_ns == TT_NEVER ? UINT64_MAX : until_ns - now_ns);
        }
    }
    return NULL;
}

/* --- Control ------------------------------------------------------------------------------------------------------ */

static void *control_thread(void *argument)
{
    struct tt_workers *workers = argument;

    pthread_mutex_lock(&workers->engine->lock);
    tt_engine_take_control(workers->engine);
    while (!atomic_load_explicit(&workers->control_stop, memory_order_acquire)) {
        tt_engine_turn(workers->engine, TT_NEVER);
        tt_engine_step_aside(workers->engine);
    }
    tt_engine_leave_control(workers->engine);
    pthread_mutex_unlock(&workers->engine->lock);
    return NULL;
}

/* --- Life --------------------------------------------------------------------------------------------------------- */

static tutti_status start_receiver(struct tt_workers *workers, uint32_t index)
{
    struct receive_worker *worker = &workers->receivers[index];
    tutti_status status = tt_wakeup_create(&worker->wakeup);
    int error;

    if (status != TUTTI_OK) {
        return status;
    }
    worker->engine = workers->engine;
    pthread_mutex_init(&worker->queues_lock, NULL);
    error = tt_thread_start(&worker->thread, receive_thread, worker);
    if (error != 0) {
        tt_wakeup_destroy(worker->wakeup);
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_NO_RESOURCE, "no thread for receive worker %u: %s", index,
                        strerror(error));
    }
    workers->started++;
    return TUTTI_OK;
}

static tutti_status start_sender_and_control(struct tt_workers *workers)
{
    tutti_status status = tt_wakeup_create(&workers->send_wakeup);
    int error;

    if (status != TUTTI_OK) {
        return status;
    }
    error = tt_thread_start(&workers->send_thread, send_thread, workers);
    workers->send_started = error == 0;
    if (error == 0) {
        error = tt_thread_start(&workers->control_thread, control_thread, workers);
        workers->control_started = error == 0;
    }
    if (error != 0) {
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_NO_RESOURCE, "no thread for %s: %s",
                        workers->send_started ? "control" : "the send worker", strerror(error));
    }
    return TUTTI_OK;
}

tutti_status tt_workers_create(struct tt_engine *engine, uint32_t count)
{
    struct tt_workers *made = calloc(1, sizeof *made);
    tutti_status status = TUTTI_OK;

    assert(count > 0);
    assert(engine->workers == NULL);
    assert(engine->wakeup != NULL);
    if (made != NULL) {
        made->receivers = calloc(count, sizeof *made->receivers);
    }
    if (made == NULL || made->receivers == NULL) {
        free(made);
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_NO_MEMORY, "no memory for %u workers", count);
    }
    made->engine = engine;
    made->count = count;
    engine->workers = made;
    for (uint32_t i = 0; i < count && status == TUTTI_OK; i++) {
        status = start_receiver(made, i);
    }
    if (status == TUTTI_OK) {
        status = start_sender_and_control(made);
    }
    if (status != TUTTI_OK) {
        tt_workers_destroy(made);
        engine->workers = NULL;
    }
    return status;
}

void tt_workers_destroy(struct tt_workers *workers)
{
    if (workers == NULL) {
        return;
    }
    if (workers->control_started) {
        atomic_store_explicit(&workers->control_stop, true, memory_order_seq_cst);
        tt_wakeup_ring_always(workers->engine->wakeup);
        pthread_join(workers->control_thread, NULL);
    }
    if (workers->send_started) {
        atomic_store_explicit(&workers->send_stop, true, memory_order_seq_cst);
        tt_wakeup_ring(workers->send_wakeup);
        pthread_join(workers->send_thread, NULL);
    }
    for (uint32_t i = 0; i < workers->started; i++) {
        struct receive_worker *worker = &workers->receivers[i];

#ifdef TT_FAULT_RUNG_BEFORE_STOP
        tt_wakeup_ring(worker->wakeup);
        atomic_store_explicit(&worker->stop, true, memory_order_seq_cst);
#else
        atomic_store_explicit(&worker->stop, true, memory_order_seq_cst);
        tt_wakeup_ring(worker->wakeup);
#endif
        pthread_join(worker->thread, NULL);
        pthread_mutex_destroy(&worker->queues_lock);
        tt_wakeup_destroy(worker->wakeup);
    }
    assert(tt_tasks_empty(&workers->send_tasks));
    tt_wakeup_destroy(workers->send_wakeup);
    free(workers->receivers);
    free(workers);
}

static void check_receiver(const struct receive_worker *worker, uint32_t index)
{
    assert(worker->places <= MAX_QUEUES);
    assert(worker->queue_count <= worker->places); /* a queue has its place before it is fed */
    for (uint32_t q = 0; q < worker->queue_count; q++) {
        assert(worker->queues[q]->mcast != NULL);
        assert(worker->queues[q]->feeder == index);
        for (uint32_t other = 0; other < q; other++) {
            assert(worker->queues[other] != worker->queues[q]);
        }
    }
}

void tt_workers_check(const struct tt_workers *workers)
{
    assert(workers->engine->workers == workers);
    assert(workers->started <= workers->count);
    assert(!workers->send_started || workers->started == workers->count);
    assert(!workers->control_started || workers->send_started);
    for (uint32_t i = 0; i < workers->started; i++) {
        check_receiver(&workers->receivers[i], i);
    }
}
