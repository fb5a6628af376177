/* SPDX-License-Identifier: BSD-3-Clause */
/* The progress thread: what an application has posted and does not wait for ends all the same. */
#include "engine/progress_thread.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine_world.h"
#include "explore.h"

static int ended_fd, left_fd; /* readable when all requests have ended, and when the other thread has left */

static void begin(void)
{
    world_begin(0);
    ended_fd = eventfd(0, 0);
    left_fd = eventfd(0, 0);
    world_rings_at_end(ended_fd);
    EXPLORE_CHECK(tt_progress_thread_create(&world_engine, &world_engine.progress_thread) == TUTTI_OK);
}

static void leave(void)
{
    uint64_t one = 1;

    EXPLORE_CHECK(write(left_fd, &one, sizeof one) == sizeof one);
}

static void wait_until_readable(int fd)
{
    struct pollfd readable = {.fd = fd, .events = POLLIN};

    ppoll(&readable, 1, NULL, NULL);
}

/* Without tutti: only the progress thread, or the other one, can end what is in progress. */
static void stay_away_until_all_has_ended(void)
{
    wait_until_readable(ended_fd);
    wait_until_readable(left_fd);
    tt_progress_thread_destroy(world_engine.progress_thread);
    world_engine.progress_thread = NULL;
}

static void post_first(void)
{
    tt_engine_post(&world_engine, &world_requests[0].post);
}

static void post_and_stay_away(void)
{
    post_first();
    stay_away_until_all_has_ended();
}

/* Without waiting: as who gives an object group up, of which others may ask. */
static void leave_something_owed(void)
{
    tt_engine_lock(&world_engine);
    tt_tasks_push(&world_engine.posted, &world_requests[0].post.task);
    tt_engine_unlock(&world_engine);
    stay_away_until_all_has_ended();
}

static void bring_one(void)
{
    world_arrive();
}

static void bring_one_alone(void)
{
    world_arrive();
    leave();
}

/* Keeps the lock from who posts, and has nothing to do with what is in progress. */
static void lock_and_unlock(void)
{
    tt_engine_lock(&world_engine);
    tt_engine_unlock(&world_engine);
    leave();
}

/* An application thread that comes back, waits and leaves what the other has posted. */
static void test_once(void)
{
    tt_engine_poke(&world_engine);
    leave();
}

/* Takes control over from the progress thread, if that has it. */
static void wait_for_first(void)
{
    tt_engine_wait(&world_engine, &world_requests[0].done, TT_NEVER);
    EXPLORE_CHECK(world_requests[0].done);
    leave();
}

static const struct explore_scenario scenarios[] = {
    {.name = "what_is_posted_and_left_ends",
     .preemptions = 2,
     .time_helps = true,
     .begin = begin,
     .end = world_end,
     .threads = {{"application", post_and_stay_away}, {"network", bring_one_alone}}},
    {.name = "what_is_owed_once_the_lock_is_let_go_of_ends",
     .preemptions = 2,
     .time_helps = true,
     .begin = begin,
     .end = world_end,
     .threads = {{"application", leave_something_owed}, {"network", bring_one_alone}}},
    {.name = "what_is_posted_while_another_has_the_lock_ends",
     .preemptions = 2,
     .counts_all = true,
     .time_helps = true,
     .begin = begin,
     .end = world_end,
     .threads = {{"application", post_and_stay_away}, {"other", lock_and_unlock}, {"network", bring_one}}},
    {.name = "what_another_leaves_behind_ends",
     .preemptions = 2,
     .counts_all = true,
     .time_helps = true,
     .begin = begin,
     .end = world_end,
     .threads = {{"application", post_and_stay_away}, {"tester", test_once}, {"network", bring_one}}},
    {.name = "who_comes_back_waits_beside_the_progress_thread",
     .preemptions = 2,
     .counts_all = true,
     .time_helps = true,
     .begin = begin,
     .end = world_end,
     .threads = {{"application", post_and_stay_away}, {"waiter", wait_for_first}, {"network", bring_one}}},
};

int main(int argc, char **argv)
{
    return explore_main(argc, argv, scenarios, sizeof scenarios / sizeof scenarios[0]);
}
