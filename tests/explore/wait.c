/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads that wait in one engine without workers: one has control, and whoever leaves it leaves it to another. */
#include "engine_world.h"
#include "explore.h"

static void wait_for(uint32_t request)
{
    tt_engine_wait(&world_engine, &world_requests[request].done, TT_NEVER);
    EXPLORE_CHECK(world_requests[request].done);
}

static void wait_for_first(void)
{
    wait_for(0);
}

static void wait_for_second(void)
{
    wait_for(1);
}

static void bring_both(void)
{
    world_arrive();
    world_arrive();
}

static void bring_one(void)
{
    world_arrive();
}

static void begin_in_progress(void)
{
    world_begin(2);
}

static void begin_unposted(void)
{
    world_begin(0);
}

static void post_first(void)
{
    tt_engine_post(&world_engine, &world_requests[0].post);
}

static void post_and_wait(void)
{
    post_first();
    wait_for_first();
}

/* Posts while another may be about to sleep, and leaves the rest to it. */
static void bring_and_post(void)
{
    world_arrive();
    post_first();
}

static bool is_done(const void *request)
{
    return atomic_load_explicit(&((const struct world_request *)request)->done, memory_order_acquire);
}

/* What the public functions do that hold the lock. */
static void wait_with_lock(void)
{
    tt_engine_lock(&world_engine);
    tt_engine_wait_for(&world_engine, is_done, &world_requests[1], TT_NEVER);
    EXPLORE_CHECK(world_requests[1].done);
    tt_engine_unlock(&world_engine);
}

static void test_first(void)
{
    tt_engine_poke(&world_engine);
}

static const struct explore_scenario scenarios[] = {
    {.name = "who_leaves_control_leaves_it_to_another",
     .preemptions = 3,
     .begin = begin_in_progress,
     .end = world_end,
     .threads = {{"first", wait_for_first}, {"second", wait_for_second}, {"network", bring_both}}},
    {.name = "who_waits_with_the_lock_is_one_of_them",
     .preemptions = 2,
     .begin = begin_in_progress,
     .end = world_end,
     .threads = {{"first", wait_for_first}, {"second", wait_with_lock}, {"network", bring_both}}},
    {.name = "who_tests_does_not_keep_what_others_wait_for",
     .preemptions = 2,
     .counts_all = true,
     .begin = begin_in_progress,
     .end = world_end,
     .threads =
         {{"first", wait_for_first}, {"second", wait_for_second}, {"tester", test_first}, {"network", bring_both}}},
    {.name = "what_is_posted_is_seen_by_who_has_control",
     .preemptions = 3,
     .begin = begin_unposted,
     .end = world_end,
     .threads = {{"waiter", wait_for_first}, {"poster", bring_and_post}}},
    {.name = "who_posts_and_waits_gets_it_done",
     .preemptions = 2,
     .begin = begin_unposted,
     .end = world_end,
     .threads = {{"poster", post_and_wait}, {"waiter", wait_for_first}, {"network", bring_one}}},
};

int main(int argc, char **argv)
{
    return explore_main(argc, argv, scenarios, sizeof scenarios / sizeof scenarios[0]);
}
