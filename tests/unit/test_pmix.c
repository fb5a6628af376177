/* SPDX-License-Identifier: BSD-3-Clause */
/* A launcher's PMIx server that does not answer in time, by a libpmix of this test's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pmix.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/library.h"
#include "base/log.h"
#include "base/settings.h"
#include "engine/pmix.h"
#include "engine/thread.h"
#include "patience.h"
#include "skip.h"

enum { RANK = 1, SIZE = 2, TEXT_BYTES = 64 };

#define TIMEOUT_NS (TT_NS_PER_S * TT_PATIENCE)
#define HANG_NS    (20 * TT_NS_PER_S * TT_PATIENCE)

/* The last question for rank 0's address, which has no answer. */
static struct {
    pthread_mutex_t lock;
    bool refreshes_hang; /* and to a question without one the answer is that there is no address yet */
    bool inits_hang, commits_hang;
    char put[TEXT_BYTES];
    uint32_t initialized, finalized;
    const pmix_info_t *info;
    size_t info_count;
    pmix_value_cbfunc_t answer;
    void *data;
} server = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* --- The library -------------------------------------------------------------------------------------------------- */

/* Until it is no longer so. */
static void hang(const bool *hangs)
{
    const struct timespec pause = {.tv_nsec = TT_NS_PER_MS};
    uint64_t deadline_ns = tt_clock_now_ns() + HANG_NS;
    bool goes_on = true;
    while (goes_on && tt_clock_now_ns() < deadline_ns) {
        nanosleep(&pause, NULL);
        pthread_mutex_lock(&server.lock);
        goes_on = *hangs;
        pthread_mutex_unlock(&server.lock);
    }
}

static void set_hanging(bool *hangs, bool value)
{
    pthread_mutex_lock(&server.lock);
    *hangs = value;
    pthread_mutex_unlock(&server.lock);
}

static pmix_status_t init(pmix_proc_t *self, pmix_info_t info[], size_t count)
{
    (void)info;
    (void)count;
    snprintf(self->nspace, sizeof(self->nspace), "job");
    self->rank = RANK;
    pthread_mutex_lock(&server.lock);
    bool hangs = server.inits_hang;
    server.initialized++;
    pthread_mutex_unlock(&server.lock);
    if (hangs) {
        hang(&server.inits_hang);
    }
    return PMIX_SUCCESS;
}

static pmix_status_t finalize(const pmix_info_t info[], size_t count)
{
    (void)info;
    (void)count;
    pthread_mutex_lock(&server.lock);
    server.finalized++;
    pthread_mutex_unlock(&server.lock);
    return PMIX_SUCCESS;
}

static pmix_status_t get_nb(const pmix_proc_t *who, const char *key, const pmix_info_t info[], size_t count,
                            pmix_value_cbfunc_t answer, void *data)
{
    pmix_value_t size = {.type = PMIX_UINT32, .data.uint32 = SIZE};
    (void)who;
    if (strcmp(key, PMIX_JOB_SIZE) == 0) {
        answer(PMIX_SUCCESS, &size, data);
        return PMIX_SUCCESS;
    }
    pthread_mutex_lock(&server.lock);
    bool hangs = server.refreshes_hang;
    pthread_mutex_unlock(&server.lock);
    if (hangs && count == 1) {
        answer(PMIX_ERR_NOT_FOUND, NULL, data);
        return PMIX_SUCCESS;
    }
    if (hangs) {
        hang(&server.refreshes_hang);
        return PMIX_ERR_NOT_FOUND;
    }
    pthread_mutex_lock(&server.lock);
    server.info = info;
    server.info_count = count;
    server.answer = answer;
    server.data = data;
    pthread_mutex_unlock(&server.lock);
    return PMIX_SUCCESS;
}

static pmix_status_t put(pmix_scope_t scope, const char key[], pmix_value_t *value)
{
    (void)scope;
    (void)key;
    snprintf(server.put, sizeof(server.put), "%s", value->data.string);
    return PMIX_SUCCESS;
}

static pmix_status_t commit(void)
{
    hang(&server.commits_hang);
    return PMIX_SUCCESS;
}

static const char *error_string(pmix_status_t status)
{
    return status == PMIX_ERR_TIMEOUT ? "TIMEOUT" : "another one";
}

static void nothing(void)
{
}

/* Of the functions' own types where they are called. */
static const struct {
    const char *name;
    void (*function)(void);
} functions[] = {
    {"PMIx_Init", (void (*)(void))init},     {"PMIx_Finalize", (void (*)(void))finalize},
    {"PMIx_Put", (void (*)(void))put},       {"PMIx_Commit", (void (*)(void))commit},
    {"PMIx_Get_nb", (void (*)(void))get_nb}, {"PMIx_Error_string", (void (*)(void))error_string},
};

const char *__wrap_tt_library_load(const char *file, int flags, const struct tt_library_function *wanted, size_t count);

const char *__wrap_tt_library_load(const char *file, int flags, const struct tt_library_function *wanted, size_t count)
{
    (void)file;
    (void)flags;
    for (size_t i = 0; i < count; i++) {
        void (*function)(void) = nothing; /* what is not called here */
        for (size_t j = 0; j < sizeof(functions) / sizeof(functions[0]); j++) {
            function = strcmp(functions[j].name, wanted[i].name) == 0 ? functions[j].function : function;
        }
        memcpy(wanted[i].place, &function, sizeof(function));
    }
    return NULL;
}

/* --- What is refused ---------------------------------------------------------------------------------------------- */

static struct {
    bool is_memory;
    int32_t after; /* so many more are given; negative: none is refused */
} refused = {.after = -1};

static bool is_refused(bool is_memory)
{
    return refused.is_memory == is_memory && refused.after >= 0 && refused.after-- == 0;
}

void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
int __real_tt_thread_start(pthread_t *thread, void *(*run)(void *), void *argument);
int __wrap_tt_thread_start(pthread_t *thread, void *(*run)(void *), void *argument);

void *__wrap_calloc(size_t count, size_t bytes)
{
    return is_refused(true) ? NULL : __real_calloc(count, bytes);
}

int __wrap_tt_thread_start(pthread_t *thread, void *(*run)(void *), void *argument)
{
    return is_refused(false) ? EAGAIN : __real_tt_thread_start(thread, run, argument);
}

/* --- Tests -------------------------------------------------------------------------------------------------------- */

static void enter(void)
{
    uint32_t rank = 0, size = 0;
    assert_int_equal(tt_pmix_enter(20 * TT_NS_PER_S, &rank, &size), TUTTI_OK);
    assert_int_equal(rank, RANK);
    assert_int_equal(size, SIZE);
}

static void wait_a_little(void)
{
    const struct timespec pause = {.tv_nsec = TT_NS_PER_MS};
    nanosleep(&pause, NULL);
}

static uint32_t initialized(void)
{
    pthread_mutex_lock(&server.lock);
    uint32_t count = server.initialized - server.finalized;
    pthread_mutex_unlock(&server.lock);
    return count;
}

/* By a user that comes when the calls that took too long have returned. */
static void assert_is_finalized_at_last(void)
{
    uint64_t deadline_ns = tt_clock_now_ns() + HANG_NS / 2;
    uint32_t rank, size;
    while (initialized() > 0 && tt_clock_now_ns() < deadline_ns) {
        wait_a_little();
        if (tt_pmix_enter(HANG_NS, &rank, &size) == TUTTI_OK) {
            tt_pmix_leave();
        }
    }
    assert_int_equal(initialized(), 0);
}

static void assert_not_called(void)
{
    uint32_t rank, size;
    assert_int_equal(tt_pmix_enter(HANG_NS, &rank, &size), TUTTI_ERR_TIMED_OUT);
    assert_string_equal(tt_last_error(), "the launcher's PMIx server (PMIX_NAMESPACE=): PMIx_Init: not called, because "
                                         "an earlier call has not returned");
}

/* The thread that asks may be slower than the time-out. */
static void wait_for_the_question(void)
{
    uint64_t deadline_ns = tt_clock_now_ns() + HANG_NS;
    bool is_there = false;
    while (!is_there && tt_clock_now_ns() < deadline_ns) {
        wait_a_little();
        pthread_mutex_lock(&server.lock);
        is_there = server.answer != NULL;
        pthread_mutex_unlock(&server.lock);
    }
    assert_true(is_there);
}

/* As far down as the functions that have returned were. */
static void __attribute__((noinline)) use_the_stack(void)
{
    volatile char bytes[1 << 15];
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = 0;
    }
}

/* The library reads it when the answer has come, and answers to what was given with it. */
static void what_a_question_is_about_stays_when_its_time_is_over(void **state)
{
    pmix_value_t late = {.type = PMIX_STRING, .data.string = (char[]){"10.0.0.1:47000"}};
    char text[TEXT_BYTES] = "unchanged", waited[48], expected[128];
    (void)state;
    snprintf(expected, sizeof(expected),
             "rank 1 waited %s: rank 0 has not published its address through PMIx (TIMEOUT)",
             tt_format_time(TIMEOUT_NS, waited, sizeof(waited)));
    enter();
    assert_int_equal(tt_pmix_lookup(TIMEOUT_NS, text, sizeof(text)), TUTTI_ERR_TIMED_OUT);
    assert_string_equal(tt_last_error(), expected);
    wait_for_the_question();
    use_the_stack();
    pthread_mutex_lock(&server.lock);
    assert_int_equal(server.info_count, 1);
    assert_string_equal(server.info[0].key, PMIX_TIMEOUT);
    assert_int_equal(server.info[0].value.type, PMIX_INT);
    server.answer(PMIX_SUCCESS, &late, server.data);
    pthread_mutex_unlock(&server.lock);
    assert_string_equal(text, "unchanged");
    tt_pmix_leave();
    assert_is_finalized_at_last();
}

static void assert_lacks(tutti_status status, tutti_status expected, uint64_t begun_ns)
{
    assert_int_equal(status, expected);
    assert_int_equal(refused.after, -1);
    assert_string_equal(tt_last_error(), expected == TUTTI_ERR_NO_MEMORY
                                             ? "no memory to talk to the launcher"
                                             : "no thread to talk to the launcher: Resource temporarily unavailable");
    assert_true(tt_clock_now_ns() - begun_ns < HANG_NS / 2);
}

static void what_is_missing_here_is_no_answer_of_the_launcher(void **state)
{
    char text[TEXT_BYTES];
    uint32_t rank, size;
    (void)state;
    for (int i = 0; i < 2; i++) {
        tutti_status expected = i == 0 ? TUTTI_ERR_NO_MEMORY : TUTTI_ERR_NO_RESOURCE;
        uint64_t begun_ns = tt_clock_now_ns();
        refused.is_memory = i == 0;
        refused.after = i == 0; /* PMIx_Init has its memory, and a thread that the system gives */
        assert_lacks(tt_pmix_enter(HANG_NS, &rank, &size), expected, begun_ns);
        assert_int_equal(initialized(), 0);
        enter();
        refused.after = 0;
        assert_lacks(tt_pmix_lookup(HANG_NS, text, sizeof(text)), expected, begun_ns);
        refused.after = 0;
        assert_lacks(tt_pmix_publish(HANG_NS, "10.0.0.1:47000"), expected, begun_ns);
        tt_pmix_leave();
        assert_int_equal(initialized(), 0);
    }
}

static void refreshing_that_does_not_end_has_a_deadline(void **state)
{
    char text[TEXT_BYTES];
    uint64_t begun_ns = tt_clock_now_ns();
    (void)state;
#ifndef PMIX_GET_REFRESH_CACHE
    TT_SKIP("PMIx %s cannot be asked to refresh its cache", tt_pmix_built_version());
#endif
    enter();
    set_hanging(&server.refreshes_hang, true);
    assert_int_equal(tt_pmix_lookup(TIMEOUT_NS, text, sizeof(text)), TUTTI_ERR_TIMED_OUT);
    assert_in_range(tt_clock_now_ns() - begun_ns, TIMEOUT_NS, HANG_NS / 2);
    tt_pmix_leave();
    assert_int_equal(initialized(), 1); /* a thread is in it */
    assert_not_called();
    set_hanging(&server.refreshes_hang, false);
    assert_is_finalized_at_last();
}

static void publishing_that_does_not_end_has_a_deadline(void **state)
{
    char waited[48], expected[128];
    (void)state;
    snprintf(expected, sizeof(expected), "the launcher's PMIx server (PMIX_NAMESPACE=): PMIx_Commit: no answer in %s",
             tt_format_time(TIMEOUT_NS, waited, sizeof(waited)));
    enter();
    assert_int_equal(tt_pmix_publish(HANG_NS, "10.0.0.1:47000"), TUTTI_OK);
    assert_string_equal(server.put, "10.0.0.1:47000");
    set_hanging(&server.commits_hang, true);
    uint64_t begun_ns = tt_clock_now_ns();
    assert_int_equal(tt_pmix_publish(TIMEOUT_NS, "10.0.0.1:47001"), TUTTI_ERR_TIMED_OUT);
    assert_in_range(tt_clock_now_ns() - begun_ns, TIMEOUT_NS, HANG_NS / 2);
    assert_string_equal(tt_last_error(), expected);
    assert_int_equal(tt_pmix_publish(HANG_NS, "10.0.0.1:47002"), TUTTI_ERR_TIMED_OUT);
    assert_string_equal(tt_last_error(), "the launcher's PMIx server (PMIX_NAMESPACE=): PMIx_Put: not called, because "
                                         "an earlier call has not returned");
    tt_pmix_leave();
    assert_int_equal(initialized(), 1); /* a thread is in it */
    assert_not_called();
    set_hanging(&server.commits_hang, false);
    assert_is_finalized_at_last();
    assert_string_equal(server.put, "10.0.0.1:47001");
}

static void a_beginning_that_ends_late_is_finalized_by_the_next(void **state)
{
    uint32_t rank, size;
    (void)state;
    set_hanging(&server.inits_hang, true);
    assert_int_equal(tt_pmix_enter(TIMEOUT_NS, &rank, &size), TUTTI_ERR_TIMED_OUT);
    assert_not_called();
    set_hanging(&server.inits_hang, false);
    assert_is_finalized_at_last();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_question_is_about_stays_when_its_time_is_over),
        cmocka_unit_test(what_is_missing_here_is_no_answer_of_the_launcher),
        cmocka_unit_test(refreshing_that_does_not_end_has_a_deadline),
        cmocka_unit_test(publishing_that_does_not_end_has_a_deadline),
        cmocka_unit_test(a_beginning_that_ends_late_is_finalized_by_the_next),
    };
    char message[128];
    unsetenv("PMIX_NAMESPACE");
    tt_log_configure("none", NULL, message, sizeof(message));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
