/* SPDX-License-Identifier: BSD-3-Clause */
/* The lock-free task queue: order, and two threads that push while a third takes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <pthread.h>
#include <sched.h>

#include <cmocka.h>

#include "engine/task_queue.h"

enum { PRODUCERS = 2, EACH = 20000, BURST = 50 };

struct job {
    struct tt_task task; /* first */
    uint32_t producer, number;
};

static void an_empty_queue_gives_nothing(void **state)
{
    struct tt_tasks tasks = {NULL};

    (void)state;
    assert_true(tt_tasks_empty(&tasks));
    assert_null(tt_tasks_take(&tasks));
}

static void tasks_come_out_in_the_order_they_went_in(void **state)
{
    struct tt_tasks tasks = {NULL};
    struct job jobs[5];
    struct tt_task *task;

    (void)state;
    for (uint32_t i = 0; i < 5; i++) {
        tt_tasks_push(&tasks, &jobs[i].task);
        assert_false(tt_tasks_empty(&tasks));
    }
    task = tt_tasks_take(&tasks);
    for (uint32_t i = 0; i < 5; i++) {
        assert_ptr_equal(task, &jobs[i].task);
        task = task->next;
    }
    assert_null(task);
    assert_true(tt_tasks_empty(&tasks));
    assert_null(tt_tasks_take(&tasks));
}

static void a_task_that_was_taken_may_be_pushed_again(void **state)
{
    struct tt_tasks tasks = {NULL};
    struct job jobs[2];

    (void)state;
    tt_tasks_push(&tasks, &jobs[0].task);
    assert_ptr_equal(tt_tasks_take(&tasks), &jobs[0].task);
    tt_tasks_push(&tasks, &jobs[1].task);
    tt_tasks_push(&tasks, &jobs[0].task);
    assert_ptr_equal(tt_tasks_take(&tasks), &jobs[1].task);
    assert_ptr_equal(jobs[1].task.next, &jobs[0].task);
    assert_null(jobs[0].task.next);
}

struct producer {
    struct tt_tasks *tasks;
    struct job *jobs;
    _Atomic uint32_t *begun;
};

static void *produce(void *argument)
{
    struct producer *producer = argument;

    atomic_fetch_add(producer->begun, 1);
    while (atomic_load(producer->begun) < PRODUCERS) {
        sched_yield();
    }
    for (uint32_t i = 0; i < EACH; i++) {
        tt_tasks_push(producer->tasks, &producer->jobs[i].task);
        if (i % BURST == 0) {
            sched_yield(); /* so that takes fall between pushes on one core, too */
        }
    }
    return NULL;
}

/* Returns how many takes brought something. */
static uint32_t push_and_take(void)
{
    static struct job jobs[PRODUCERS][EACH];
    struct producer producers[PRODUCERS];
    pthread_t threads[PRODUCERS];
    struct tt_tasks tasks = {NULL};
    _Atomic uint32_t begun = 0;
    uint32_t next[PRODUCERS] = {0}, total = 0, takes = 0;

    for (uint32_t p = 0; p < PRODUCERS; p++) {
        for (uint32_t i = 0; i < EACH; i++) {
            jobs[p][i].producer = p;
            jobs[p][i].number = i;
        }
        producers[p] = (struct producer){&tasks, jobs[p], &begun};
        assert_int_equal(pthread_create(&threads[p], NULL, produce, &producers[p]), 0);
    }
    while (total < PRODUCERS * EACH) {
        struct tt_task *task = tt_tasks_take(&tasks);

        takes += task != NULL;
        while (task != NULL) {
            struct job *job = (struct job *)task;

            task = task->next;
            assert_int_equal(job->number, next[job->producer]);
            next[job->producer]++;
            total++;
        }
        sched_yield();
    }
    for (uint32_t p = 0; p < PRODUCERS; p++) {
        assert_int_equal(pthread_join(threads[p], NULL), 0);
        assert_int_equal(next[p], EACH);
    }
    assert_true(tt_tasks_empty(&tasks));
    return takes;
}

static void nothing_is_lost_and_each_threads_order_is_kept_while_two_threads_push(void **state)
{
    enum { TRIES = 50 }; /* on a busy machine all may have been pushed before the first take */
    uint32_t tries = 1;

    (void)state;
    while (push_and_take() == 1) {
        assert_true(tries++ < TRIES);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_queue_gives_nothing),
        cmocka_unit_test(tasks_come_out_in_the_order_they_went_in),
        cmocka_unit_test(a_task_that_was_taken_may_be_pushed_again),
        cmocka_unit_test(nothing_is_lost_and_each_threads_order_is_kept_while_two_threads_push),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
