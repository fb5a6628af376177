/* SPDX-License-Identifier: BSD-3-Clause */
/* The queue of tasks: nothing is lost, nothing comes twice, and what one thread pushed comes in its order. */
#include "engine/task_queue.h"

#include "explore.h"

enum { PRODUCERS = 2, EACH = 2, TASKS = PRODUCERS * EACH };

struct item {
    struct tt_task task;
    uint32_t producer, number;
};

static struct tt_tasks tasks;
static struct item items[PRODUCERS][EACH];
static uint32_t taken[PRODUCERS]; /* the consumer's */

static void begin(void)
{
    tasks.top = NULL;
    for (uint32_t p = 0; p < PRODUCERS; p++) {
        taken[p] = 0;
    }
}

static void produce(uint32_t producer)
{
    for (uint32_t i = 0; i < EACH; i++) {
        items[producer][i].producer = producer;
        items[producer][i].number = i;
        tt_tasks_push(&tasks, &items[producer][i].task);
    }
}

static void produce_first(void)
{
    produce(0);
}

static void produce_second(void)
{
    produce(1);
}

static void take_all(void)
{
    for (struct tt_task *task = tt_tasks_take(&tasks), *next; task != NULL; task = next) {
        const struct item *item = (const struct item *)task;

        next = task->next;
        EXPLORE_CHECK(item->number == taken[item->producer]);
        taken[item->producer]++;
    }
}

/* Less often than there are tasks: what is left is taken at the end. */
static void consume(void)
{
    for (uint32_t i = 0; i < TASKS - 1; i++) {
        take_all();
    }
}

static void end(void)
{
    take_all();
    for (uint32_t p = 0; p < PRODUCERS; p++) {
        EXPLORE_CHECK(taken[p] == EACH);
    }
}

/* What is taken may be pushed again at once: by who took it, while another is about to push. */
static void give_back(void)
{
    for (uint32_t i = 0; i < EACH; i++) {
        struct tt_task *task = tt_tasks_take(&tasks), *next;

        for (; task != NULL; task = next) {
            next = task->next;
            tt_tasks_push(&tasks, task);
        }
    }
}

static void end_given_back(void)
{
    uint32_t count = 0, seen[PRODUCERS] = {0};

    for (const struct tt_task *task = tt_tasks_take(&tasks); task != NULL; task = task->next) {
        const struct item *item = (const struct item *)task;

        count++;
        EXPLORE_CHECK(count <= TASKS && !(seen[item->producer] & UINT32_C(1) << item->number));
        seen[item->producer] |= UINT32_C(1) << item->number;
    }
    EXPLORE_CHECK(count == TASKS);
}

static const struct explore_scenario scenarios[] = {
    {.name = "two_push_and_one_takes",
     .preemptions = 5,
     .begin = begin,
     .end = end,
     .threads = {{"first", produce_first}, {"second", produce_second}, {"consumer", consume}}},
    {.name = "what_is_taken_is_pushed_again",
     .preemptions = 4,
     .begin = begin,
     .end = end_given_back,
     .threads = {{"first", produce_first}, {"second", produce_second}, {"consumer", give_back}}},
};

int main(int argc, char **argv)
{
    return explore_main(argc, argv, scenarios, sizeof scenarios / sizeof scenarios[0]);
}
