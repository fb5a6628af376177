/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank that yields: whether somebody else wants its core, and what it does about that. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "base/clock.h"
#include "engine/engine.h"
#include "engine/idle.h"

#define LIMIT_NS (60 * TT_NS_PER_S) /* no test takes that long */

static _Atomic bool stop;

static void *spin(void *nothing)
{
    while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
    }
    return nothing;
}

/* Somebody who wants the core that this thread is bound to, as its child is. */
static pthread_t start_other(cpu_set_t *before)
{
    cpu_set_t one;
    pthread_t other;
    int cpu = 0;

    assert_int_equal(sched_getaffinity(0, sizeof *before, before), 0);
    while (!CPU_ISSET(cpu, before)) {
        cpu++;
    }
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    stop = false;
    assert_int_equal(pthread_create(&other, NULL, spin, NULL), 0);
    return other;
}

static void stop_other(pthread_t other, const cpu_set_t *before)
{
    stop = true;
    pthread_join(other, NULL);
    assert_int_equal(sched_setaffinity(0, sizeof *before, before), 0);
}

static uint64_t read_system_time(void *nothing)
{
    (void)nothing;
    return tt_clock_now_ns();
}

static void a_yield_shows_that_somebody_else_wants_the_core(void **state)
{
    struct tt_engine engine = {.now_ns = read_system_time};
    uint64_t limit_ns = tt_clock_now_ns() + LIMIT_NS;
    cpu_set_t before;
    pthread_t other;

    (void)state;
    assert_false(engine.oversubscribed);
    other = start_other(&before);
    while (!engine.oversubscribed && tt_clock_now_ns() < limit_ns) {
        tt_engine_yield(&engine);
    }
    assert_true(engine.oversubscribed);
    stop_other(other, &before);
    while (engine.oversubscribed && tt_clock_now_ns() < limit_ns) {
        tt_engine_yield(&engine);
    }
    assert_false(engine.oversubscribed);
}

static long sleeps;

/* Instead of the C library's. The system's own count of sleeps leaves out those that were over before they began. */
/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): the system's header has reserved names */
int nanosleep(const struct timespec *requested, struct timespec *remaining)
{
    assert_int_equal(requested->tv_sec, 0);
    assert_int_equal(requested->tv_nsec, 1);
    assert_null(remaining);
    sleeps++;
    return 0;
}

struct fake_clock {
    uint64_t now_ns, step_ns; /* it takes this long from one look at it to the next */
};

static uint64_t read_time(void *argument)
{
    struct fake_clock *clock = argument;

    return clock->now_ns += clock->step_ns;
}

static void who_shares_a_core_sleeps_ever_more_seldom_and_begins_anew_when_alone(void **state)
{
    enum { TRIES = 14 };
    struct fake_clock clock = {.now_ns = TT_NS_PER_S, .step_ns = 5 * TT_NS_PER_US};
    struct tt_engine engine = {.now_ns = read_time, .now_argument = &clock, .alone_ns = clock.now_ns};

    (void)state;
    sleeps = 0;
    for (uint32_t i = 0; i < TRIES; i++) {
        uint64_t last_ns = clock.now_ns, apart_ns = TT_NS_PER_MS << (i < 10 ? i : 10);

        assert_int_equal(sleeps, i);
        while (sleeps == i && clock.now_ns < last_ns + 2 * apart_ns) {
            tt_engine_yield(&engine);
        }
        assert_in_range(clock.now_ns - last_ns, apart_ns, apart_ns + 4 * clock.step_ns);
    }
    clock.step_ns = 1000; /* nobody else: one moment of that is not enough */
    tt_engine_yield(&engine);
    assert_true(engine.moved_in_vain > 0);
    for (uint32_t i = 0; i < 600; i++) {
        tt_engine_yield(&engine);
    }
    assert_int_equal(engine.moved_in_vain, 0);
    assert_int_equal(sleeps, TRIES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_yield_shows_that_somebody_else_wants_the_core),
        cmocka_unit_test(who_shares_a_core_sleeps_ever_more_seldom_and_begins_anew_when_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
