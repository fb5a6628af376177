/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A lock-free queue with many producers and one consumer (Khalilov et al., section V-A: C11 atomics between the
 * application thread and the workers). Producers push onto a stack; the consumer takes the whole stack at once and
 * turns it around, so what one thread pushed comes out in its order. Intrusive: a task is in at most one queue.
 */
#ifndef TT_ENGINE_TASK_QUEUE_H
#define TT_ENGINE_TASK_QUEUE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct tt_task {
    struct tt_task *next;
};

struct tt_tasks {
    _Atomic(struct tt_task *) top;
};

static inline void tt_tasks_push(struct tt_tasks *tasks, struct tt_task *task)
{
    struct tt_task *top = atomic_load_explicit(&tasks->top, memory_order_relaxed);

    do {
        task->next = top;
    } while (
        !atomic_compare_exchange_weak_explicit(&tasks->top, &top, task, memory_order_seq_cst, memory_order_relaxed));
}

static inline bool tt_tasks_empty(struct tt_tasks *tasks)
{
    return atomic_load_explicit(&tasks->top, memory_order_seq_cst) == NULL;
}

/* All tasks so far, oldest first, linked by next; NULL: none. */
static inline struct tt_task *tt_tasks_take(struct tt_tasks *tasks)
{
    struct tt_task *task, *oldest = NULL;

    if (tt_tasks_empty(tasks)) {
        return NULL;
    }
#ifdef TT_FAULT_TAKE_IN_TWO_STEPS
    task = atomic_load_explicit(&tasks->top, memory_order_acquire);
    atomic_store_explicit(&tasks->top, NULL, memory_order_relaxed);
#else
    task = atomic_exchange_explicit(&tasks->top, NULL, memory_order_acquire);
#endif
    while (task != NULL) {
        struct tt_task *next = task->next;

        task->next = oldest;
        oldest = task;
        task = next;
    }
    return oldest;
}

#endif
