/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads that wait in one engine, where one of them, or of the engine's own, moves things along for all. Between ranks
 * it is in tests/integration/test_control.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <unistd.h>

#include "base/clock.h"
#include "engine/engine.h"
#include "engine/group.h"
#include "engine/thread.h"

#define LONG_NS (20 * TT_NS_PER_S) /* no test waits for this unless it fails */
#define EVER_NS (UINT64_MAX / 2)   /* who polls for this long never sleeps, and need not be woken */

enum { TICK_US = 1000 };

static struct tt_engine *create_engine(uint64_t workers, uint64_t poll_ns)
{
    struct tt_settings settings;
    struct tt_engine *engine;

    assert_int_equal(tt_settings_load(&settings), TUTTI_OK);
    settings.workers = workers;
    settings.poll_ns = poll_ns;
    assert_int_equal(tt_engine_create(&settings, &engine), TUTTI_OK);
    return engine;
}

/* --- Who takes over ----------------------------------------------------------------------------------------------- */

struct waiting {
    struct tt_engine *engine;
    _Atomic bool done, has_returned;
};

static void *wait_until_done(void *argument)
{
    struct waiting *waiting = argument;

    tt_engine_wait(waiting->engine, &waiting->done, TT_NEVER);
    waiting->has_returned = true;
    return NULL;
}

static bool has_waiter(const void *engine)
{
    return ((const struct tt_engine *)engine)->waiters == 1;
}

static bool is_controlled(struct tt_engine *engine)
{
    bool controlled;

    tt_engine_lock(engine);
    controlled = engine->controlled;
    tt_engine_unlock(engine);
    return controlled;
}

/* Others wait, who heard that somebody has control. */
static void who_leaves_leaves_control_to_another(void **state)
{
    struct waiting waiting = {.engine = create_engine(0, EVER_NS)};
    struct tt_engine *engine = waiting.engine;
    uint64_t until_ns = tt_clock_now_ns() + LONG_NS;
    pthread_t thread;

    (void)state;
    tt_engine_lock(engine);
    assert_int_equal(tt_thread_start(&thread, wait_until_done, &waiting), 0);
    tt_engine_wait_for(engine, has_waiter, engine, until_ns);
    assert_true(has_waiter(engine));
    assert_false(engine->controlled);
    tt_engine_unlock(engine);
    while (!is_controlled(engine)) {
        assert_true(tt_clock_now_ns() < until_ns);
        usleep(TICK_US);
    }
    waiting.done = true;
    pthread_join(thread, NULL);
    tt_engine_destroy(engine);
}

/* Ends what another waits for, as soon as it does. */
static bool has_let_go(const void *argument)
{
    struct waiting *waiting = (struct waiting *)(uintptr_t)argument;

    if (!waiting->done && has_waiter(waiting->engine)) {
        waiting->done = true;
        tt_engine_announce(waiting->engine);
    }
    return waiting->has_returned;
}

/* Who polls has the lock all the time, which whoever was told needs to see that. */
static void who_polls_lets_go_who_has_what_it_waited_for(void **state)
{
    struct waiting waiting = {.engine = create_engine(0, EVER_NS)};
    struct tt_engine *engine = waiting.engine;
    pthread_t thread;

    (void)state;
    tt_engine_lock(engine);
    assert_int_equal(tt_thread_start(&thread, wait_until_done, &waiting), 0);
    tt_engine_wait_for(engine, has_let_go, &waiting, tt_clock_now_ns() + LONG_NS);
    assert_true(waiting.has_returned);
    tt_engine_unlock(engine);
    pthread_join(thread, NULL);
    tt_engine_destroy(engine);
}

/* --- Who gets the lock -------------------------------------------------------------------------------------------- */

struct stepping {
    struct tt_engine *engine;
    _Atomic uint32_t steps;
};

/* Lets go of the lock once more than it may in vain. */
static void *step_aside_again_and_again(void *argument)
{
    struct stepping *stepping = argument;

    tt_engine_lock(stepping->engine);
    while (stepping->steps <= TT_ENGINE_MOST_ASIDE) {
        tt_engine_step_aside(stepping->engine);
        stepping->steps++;
    }
    tt_engine_unlock(stepping->engine);
    return NULL;
}

/* Somebody is woken for it, and takes longer to run than whoever polls to take it again. */
static void who_polls_hands_the_lock_over_at_last(void **state)
{
    struct stepping stepping = {.engine = create_engine(0, 0)};
    uint64_t until_ns = tt_clock_now_ns() + LONG_NS;
    pthread_t thread;

    (void)state;
    stepping.engine->lock_wanted++;
    assert_int_equal(tt_thread_start(&thread, step_aside_again_and_again, &stepping), 0);
    while (stepping.steps < TT_ENGINE_MOST_ASIDE) {
        assert_true(tt_clock_now_ns() < until_ns);
        usleep(TICK_US);
    }
    usleep(50 * TICK_US); /* who does not wait is through long before */
    assert_int_equal(stepping.steps, TT_ENGINE_MOST_ASIDE);
    stepping.engine->lock_wanted--;
    tt_engine_lock(stepping.engine);
    tt_engine_unlock(stepping.engine);
    pthread_join(thread, NULL);
    assert_int_equal(stepping.steps, TT_ENGINE_MOST_ASIDE + 1);
    tt_engine_destroy(stepping.engine);
}

struct counting {
    struct tt_party party;
    uint32_t turns;
};

static bool count_turn(struct tt_party *party, uint64_t now_ns, bool looked)
{
    (void)now_ns, (void)looked;
    ((struct counting *)party)->turns++;
    return false;
}

static uint64_t deadline_of(const struct tt_party *party)
{
    return party->deadline_ns;
}

static bool stays_awake(const struct tt_party *party)
{
    (void)party;
    return false;
}

static const struct tt_party_ops counting_ops = {
    .after_frames = count_turn, .deadline = deadline_of, .may_sleep = stays_awake};

static void who_only_tests_does_not_take_the_lock_from_who_waits_for_it(void **state)
{
    struct tt_engine *engine = create_engine(0, 0);
    struct counting counting = {.party = {.ops = &counting_ops, .deadline_ns = TT_NEVER}};

    (void)state;
    tt_engine_lock(engine);
    assert_int_equal(tt_party_list(&engine->parties, &counting.party, NULL), TUTTI_OK);
    tt_engine_unlock(engine);
    tt_engine_poke(engine);
    assert_int_equal(counting.turns, 1);
    engine->lock_wanted++;
    tt_engine_poke(engine);
    assert_int_equal(counting.turns, 1);
    engine->lock_wanted--;
    tt_engine_poke(engine);
    assert_int_equal(counting.turns, 2);
    tt_engine_lock(engine);
    tt_party_unlist(&engine->parties, &counting.party);
    tt_engine_unlock(engine);
    tt_engine_destroy(engine);
}

/* --- Who is asleep ------------------------------------------------------------------------------------------------ */

static bool has_ticked(const void *group)
{
    return ((const struct tt_group *)group)->party.deadline_ns == TT_NEVER;
}

/* The control thread, which knew of no deadline when it fell asleep. */
static void who_sleeps_is_told_of_a_deadline_that_another_waits_for(void **state)
{
    struct tt_engine *engine = create_engine(1, 0);
    struct tt_group group = {.engine = engine};

    (void)state;
    while (!engine->wakeup->sleeping) {
        usleep(TICK_US);
    }
    tt_engine_lock(engine);
    tt_group_list(&group);
    group.party.deadline_ns = tt_engine_now(engine) + TT_NS_PER_MS;
    tt_engine_wait_for(engine, has_ticked, &group, tt_clock_now_ns() + LONG_NS);
    assert_true(has_ticked(&group));
    tt_group_unlist(&group);
    tt_engine_unlock(engine);
    tt_engine_destroy(engine);
}

/* --- What ends while nothing comes -------------------------------------------------------------------------------- */

struct ending {
    struct tt_party party;
    struct waiting waiting;
};

/* A step for which nothing has come, and the last one: afterwards there is nothing to wait for. */
static bool end_quietly(struct tt_party *party, uint64_t now_ns, bool looked)
{
    struct ending *ending = (struct ending *)party;

    (void)looked;
    if (party->deadline_ns > now_ns) {
        return false;
    }
    party->deadline_ns = TT_NEVER;
    ending->waiting.done = true;
    tt_engine_announce(ending->waiting.engine);
    return false;
}

static bool has_ended(const struct tt_party *party)
{
    return ((const struct ending *)party)->waiting.done;
}

static const struct tt_party_ops ending_ops = {
    .after_frames = end_quietly, .deadline = deadline_of, .may_sleep = has_ended};

static void who_waits_sees_what_has_ended_without_anything_coming(void **state)
{
    struct tt_engine *engine = create_engine(0, 0);
    struct ending ending = {.party.ops = &ending_ops, .waiting.engine = engine};
    uint64_t until_ns = tt_clock_now_ns() + LONG_NS;

    (void)state;
    ending.party.deadline_ns = tt_clock_now_ns() + TT_NS_PER_MS;
    tt_engine_lock(engine);
    assert_int_equal(tt_party_list(&engine->parties, &ending.party, NULL), TUTTI_OK);
    tt_engine_unlock(engine);
    tt_engine_wait(engine, &ending.waiting.done, until_ns);
    assert_true(ending.waiting.done);
    assert_true(tt_clock_now_ns() < until_ns);
    tt_engine_lock(engine);
    tt_party_unlist(&engine->parties, &ending.party);
    tt_engine_unlock(engine);
    tt_engine_destroy(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_leaves_leaves_control_to_another),
        cmocka_unit_test(who_polls_lets_go_who_has_what_it_waited_for),
        cmocka_unit_test(who_polls_hands_the_lock_over_at_last),
        cmocka_unit_test(who_only_tests_does_not_take_the_lock_from_who_waits_for_it),
        cmocka_unit_test(who_sleeps_is_told_of_a_deadline_that_another_waits_for),
        cmocka_unit_test(who_waits_sees_what_has_ended_without_anything_coming),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
