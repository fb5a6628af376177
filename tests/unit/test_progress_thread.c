/* SPDX-License-Identifier: BSD-3-Clause */
/* How often the progress thread of a context is woken by an application that comes and goes. What it does when the
 * application stays away is in tests/integration/test_away.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <unistd.h>

#include "base/clock.h"
#include "engine/engine.h"
#include "engine/group.h"
#include "engine/progress_thread.h"
#include "engine/thread.h"
#include "threads.h"

enum { THREADS = 32 };

static uint32_t threads_of_process(int *ids)
{
    uint32_t count = tt_threads_list(ids, THREADS);

    assert_in_range(count, 1, THREADS);
    return count;
}

/* The thread that has come since there were only these. */
static int new_thread(const int *old, uint32_t old_count)
{
    int ids[THREADS], found = 0;
    uint32_t count = threads_of_process(ids);

    for (uint32_t i = 0; i < count; i++) {
        bool is_old = false;

        for (uint32_t k = 0; k < old_count; k++) {
            is_old |= ids[i] == old[k];
        }
        if (!is_old) {
            assert_int_equal(found, 0);
            found = ids[i];
        }
    }
    assert_int_not_equal(found, 0);
    return found;
}

/* How often it has gone to sleep. */
static uint64_t sleeps_of(int thread)
{
    uint64_t sleeps = tt_thread_sleeps(thread);

    assert_true(sleeps != UINT64_MAX);
    return sleeps;
}

static void *ask_for_mask(void *mask)
{
    pthread_sigmask(SIG_SETMASK, NULL, mask);
    return NULL;
}

/* Memory of the application may be such that its first use is a fault, which a handler of its own mends. */
static void signals_of_faults_come_to_the_thread_that_makes_them_and_no_others(void **state)
{
    static const int others[] = {SIGTERM, SIGINT, SIGCHLD, SIGUSR1, SIGALRM, SIGPIPE};
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
    pthread_t thread;
    sigset_t mask;

    (void)state;
    assert_int_equal(tt_thread_start(&thread, ask_for_mask, &mask), 0);
    pthread_join(thread, NULL);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        assert_int_equal(sigismember(&mask, others[i]), 1);
        assert_int_equal(sigismember(&mask, faults[i]), 0);
    }
}

static void *nothing(void *unused)
{
    return unused;
}

/* A sanitizer has a thread of its own, from the first one that a program starts on. */
static int start_a_thread(void **state)
{
    pthread_t thread;

    (void)state;
    return tt_thread_start(&thread, nothing, NULL) == 0 ? pthread_join(thread, NULL) : -1;
}

/* As between tutti_post and tutti_wait, with something owed all the time. Who polls has the engine's lock meanwhile. */
static void come_and_go(bool polls)
{
    enum { TIMES = 1000, INSIDE_US = 100, OTHERS = 10 /* its start, and locks that it finds taken */ };
    static struct tt_group group;
    static char posted;
    int old[THREADS];
    uint32_t old_count = threads_of_process(old);
    uint64_t begun_ns, sleeps, patiences;
    struct tt_settings settings;
    struct tt_engine *engine;
    int progress;

    assert_int_equal(tt_settings_load(&settings), TUTTI_OK);
    settings.workers = 0;
    assert_int_equal(tt_engine_create(&settings, &engine), TUTTI_OK);
    progress = new_thread(old, old_count);
    group.engine = engine;
    group.active = (struct tt_request *)(void *)&posted; /* that there is one is all that it looks at */
    pthread_mutex_lock(&engine->lock);
    tt_group_list(&group);
    tt_progress_thread_enter(engine->progress_thread);
    begun_ns = tt_clock_now_ns();
    sleeps = sleeps_of(progress);
    for (uint32_t i = 0; i < TIMES; i++) {
        tt_progress_thread_leave(engine->progress_thread);
        tt_progress_thread_enter(engine->progress_thread);
        if (polls) {
            usleep(INSIDE_US);
        }
        pthread_mutex_unlock(&engine->lock);
        if (!polls) {
            usleep(INSIDE_US);
        }
        pthread_mutex_lock(&engine->lock);
        tt_progress_thread_check(engine->progress_thread);
    }
    sleeps = sleeps_of(progress) - sleeps;
    patiences = (tt_clock_now_ns() - begun_ns) / TT_PROGRESS_THREAD_PATIENCE_NS;
    tt_group_unlist(&group);
    tt_progress_thread_leave(engine->progress_thread);
    pthread_mutex_unlock(&engine->lock);
    tt_engine_destroy(engine);
    assert_true(sleeps >= 1); /* it was called once */
    if (sleeps > 2 * patiences + OTHERS) {
        fail_msg("%llu times in %u, and %llu patiences", (unsigned long long)sleeps, TIMES,
                 (unsigned long long)patiences);
    }
}

static void who_comes_and_goes_does_not_wake_the_thread_each_time(void **state)
{
    (void)state;
    come_and_go(false);
}

static void who_polls_does_not_wake_a_thread_that_wants_the_lock(void **state)
{
    (void)state;
    come_and_go(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(signals_of_faults_come_to_the_thread_that_makes_them_and_no_others),
        cmocka_unit_test(who_comes_and_goes_does_not_wake_the_thread_each_time),
        cmocka_unit_test(who_polls_does_not_wake_a_thread_that_wants_the_lock),
    };

    return cmocka_run_group_tests(tests, start_a_thread, NULL);
}
