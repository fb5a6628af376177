/* SPDX-License-Identifier: BSD-3-Clause */
/* Sleeping and waking: whoever rings after having left something to do is heard, whatever the sleeper is about to do.
 */
#include <stdlib.h>

#include "engine/task_queue.h"
#include "engine/wakeup.h"
#include "explore.h"
#include "system.h"

enum { RINGERS = 2 };

static struct tt_wakeup bell;
static struct tt_tasks tasks;
static struct tt_task task_of[RINGERS];
static _Atomic bool stop;

static void begin(void)
{
    struct tt_wakeup *made;

    explore_system_begin();
    EXPLORE_CHECK(tt_wakeup_create(&made) == TUTTI_OK);
    bell = *made;
    free(made);
    /* The descriptors' owner is told by its address. */
    for (int set = 0; set < 2; set++) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &bell};

        explore_epoll_ctl(set == 0 ? bell.epoll_fd : bell.moderated_fd, EPOLL_CTL_MOD, bell.event_fd, &event);
    }
    tasks.top = NULL;
    stop = false;
}

static void end(void)
{
}

static void ring(uint32_t ringer)
{
    tt_tasks_push(&tasks, &task_of[ringer]);
    tt_wakeup_ring(&bell);
}

static void ring_first(void)
{
    ring(0);
}

static void ring_second(void)
{
    ring(1);
}

/* As those do that sleep: announce, look once more, and sleep or call off. */
static void take_all(void (*sleep)(struct tt_wakeup *wakeup, uint64_t timeout_ns), uint64_t timeout_ns)
{
    for (uint32_t taken = 0; taken < RINGERS;) {
        const struct tt_task *task = tt_tasks_take(&tasks);

        for (; task != NULL; task = task->next) {
            taken++;
        }
        if (taken < RINGERS) {
            tt_wakeup_prepare(&bell);
            if (tt_tasks_empty(&tasks)) {
                sleep(&bell, timeout_ns);
            } else {
                tt_wakeup_call_off(&bell);
            }
        }
    }
}

static void sleep_for_any(void)
{
    take_all(tt_wakeup_sleep, UINT64_MAX);
}

static void sleep_moderated(void)
{
    take_all(tt_wakeup_sleep_moderated, UINT64_MAX);
}

static void sleep_until_rung(void)
{
    take_all(tt_wakeup_sleep_until_rung, 1000000);
}

/* Whoever has looked already, and sleeps without another look, is woken by a bell that always rings. */
static void ring_always(void)
{
    atomic_store_explicit(&stop, true, memory_order_seq_cst);
    tt_wakeup_ring_always(&bell);
}

static void sleep_until_stopped(void)
{
    while (!atomic_load_explicit(&stop, memory_order_seq_cst)) {
        tt_wakeup_prepare(&bell);
        tt_wakeup_sleep(&bell, UINT64_MAX);
    }
}

static const struct explore_scenario scenarios[] = {
    {.name = "a_ring_is_heard",
     .preemptions = 4,
     .begin = begin,
     .end = end,
     .threads = {{"sleeper", sleep_for_any}, {"first", ring_first}, {"second", ring_second}}},
    {.name = "a_ring_is_heard_in_a_moderated_sleep",
     .preemptions = 4,
     .begin = begin,
     .end = end,
     .threads = {{"sleeper", sleep_moderated}, {"first", ring_first}, {"second", ring_second}}},
    {.name = "a_ring_is_heard_by_who_hears_nothing_else",
     .preemptions = 4,
     .begin = begin,
     .end = end,
     .threads = {{"sleeper", sleep_until_rung}, {"first", ring_first}, {"second", ring_second}}},
    {.name = "a_bell_that_always_rings_needs_no_look",
     .preemptions = 4,
     .begin = begin,
     .end = end,
     .threads = {{"sleeper", sleep_until_stopped}, {"ringer", ring_always}}},
};

int main(int argc, char **argv)
{
    return explore_main(argc, argv, scenarios, sizeof scenarios / sizeof scenarios[0]);
}
