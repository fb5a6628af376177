/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks that are needed while they do not call the library, or only now and then: the progress thread does their part.
 * How often it may be woken for nothing is in tests/unit/test_progress_thread.c, too.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "api/handles.h"
#include "engine/progress_thread.h"
#include "fabric/ucx/ucx.h"
#include "job.h"
#include "patience.h"
#include "skip.h"
#include "threads.h"
#include "tutti/reduction.h"

enum {
    LIMIT_S = 60,
    THREADS = 32,
    IDLE_US = 50000 /* then a progress thread sleeps until it is called, or is at work */
};

/* A byte from rank 0. */
struct byte {
    tutti_context *context;
    tutti_group *group;
    tutti_request *request;
    uint8_t value;
};

/* In a group of all ranks, who are all there; not posted yet. */
static void begin_byte(struct job_rank *rank, const char *const *settings, struct byte *byte)
{
    job_group(rank, settings, &byte->context, &byte->group);
    byte->value = rank->rank == 0 ? 42 : 0;
    JOB_OK(rank, tutti_broadcast_init(byte->group, TUTTI_IN_PLACE, &byte->value, 1, 0, NULL, &byte->request));
    job_barrier(rank);
}

static void await_byte(struct job_rank *rank, struct byte *byte)
{
    JOB_OK(rank, tutti_wait(byte->request));
    JOB_CHECK(rank, byte->value == 42, "%u", byte->value);
    JOB_OK(rank, tutti_finalize(byte->request));
}

/* The root has sent, and computes until the others have it; everything was lost on the way. */
static void away_body(struct job_rank *rank)
{
    static const char *const settings[] = {"LOSS", "100", NULL};
    struct byte byte;

    begin_byte(rank, settings, &byte);
    JOB_OK(rank, tutti_post(byte.request));
    await_byte(rank, &byte);
    job_barrier(rank); /* knows nothing of the library: if the root served nobody meanwhile, nobody would come here */
    job_end(byte.context, byte.group);
}

static void a_rank_that_stays_away_still_serves_its_neighbour(void **state)
{
    (void)state;
    assert_int_equal(job_run(3, away_body, NULL, LIMIT_S), 0);
}

/* This process stands still from soon on, for so long. Returns who does that. */
static pid_t stand_still(unsigned still_s)
{
    enum { SOON_US = 500000 };
    pid_t self = getpid(), other = fork();

    if (other == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        usleep(SOON_US);
        kill(self, SIGSTOP);
        sleep(still_s);
        kill(self, SIGCONT);
        _exit(0);
    }
    return other;
}

/* The others want it while the root, which has left its group, stands still. */
static void stopped_body(struct job_rank *rank)
{
    enum { LATE_US = 1500000 };
    static const char *const settings[] = {"LOSS", "100", NULL};
    struct byte byte;
    pid_t other = -1;

    begin_byte(rank, settings, &byte);
    if (rank->rank != 0) {
        usleep(LATE_US);
    }
    JOB_OK(rank, tutti_post(byte.request));
    await_byte(rank, &byte);
    if (rank->rank == 0) {
        other = stand_still(*(const unsigned *)rank->argument);
    }
    job_end(byte.context, byte.group);
    JOB_CHECK(rank, other < 0 || waitpid(other, NULL, 0) == other, "nobody has stopped it");
}

/* Until just after it would have left, and for longer. */
static int run_stopped(uint32_t share, void *argument)
{
    static unsigned still_s[] = {5, 7};

    (void)argument;
    return job_run(2, stopped_body, &still_s[share], LIMIT_S) == 0 ? 0 : 1;
}

static void a_rank_that_stood_still_while_it_left_serves_who_came_meanwhile(void **state)
{
    (void)state;
    assert_int_equal(job_run_shares(2, run_stopped, NULL), 0);
}

/* Rank 0 has left, after as long as a rank stays for others; what it sent is lost. */
static void late_body(struct job_rank *rank)
{
    static const char *const settings[] = {"LOSS", "100", "TIMEOUT", "20s", NULL};
    struct byte byte;
    tutti_status status;

    begin_byte(rank, settings, &byte);
    if (rank->rank == 0) {
        JOB_OK(rank, tutti_post(byte.request));
        await_byte(rank, &byte);
        job_end(byte.context, byte.group);
        job_barrier(rank);
        return;
    }
    job_barrier(rank);
    status = tutti_post(byte.request);
    status = status == TUTTI_OK ? tutti_wait(byte.request) : status;
    JOB_CHECK(rank, status == TUTTI_ERR_PEER_FAILED && strstr(tutti_last_error(), "has left the group") != NULL,
              "%s: %s", tutti_status_name(status), tutti_last_error());
    JOB_OK(rank, tutti_finalize(byte.request));
    job_end(byte.context, byte.group);
}

static void a_rank_that_posts_when_its_neighbour_has_left_is_told_so(void **state)
{
    (void)state;
    assert_int_equal(job_run(2, late_body, NULL, LIMIT_S), 0);
}

/* The root posts while another thread has the engine, which has looked at what is posted already, and stays away. */
static void busy_body(struct job_rank *rank)
{
    static const char *const settings[] = {"TIMEOUT", "5s", NULL};
    struct byte byte;

    begin_byte(rank, settings, &byte);
    usleep(IDLE_US);
    job_barrier(rank);
    if (rank->rank == 0) {
        pthread_mutex_lock(&byte.context->engine->lock);
        JOB_OK(rank, tutti_post(byte.request));
        pthread_mutex_unlock(&byte.context->engine->lock);
    } else {
        JOB_OK(rank, tutti_post(byte.request));
        JOB_OK(rank, tutti_wait(byte.request));
    }
    job_barrier(rank);
    await_byte(rank, &byte);
    job_end(byte.context, byte.group);
}

static void what_was_posted_while_the_engine_was_busy_moves_although_its_rank_stays_away(void **state)
{
    (void)state;
    assert_int_equal(job_run(3, busy_body, NULL, LIMIT_S), 0);
}

/* How often the threads other than this process's first one have gone to sleep. */
static uint64_t sleeps_of_others(struct job_rank *rank)
{
    int threads[THREADS];
    uint32_t count = tt_threads_list(threads, THREADS);
    uint64_t sum = 0;

    JOB_CHECK(rank, count >= 1 && count <= THREADS, "%u threads", count);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t sleeps = threads[i] == getpid() ? 0 : tt_thread_sleeps(threads[i]);

        JOB_CHECK(rank, sleeps != UINT64_MAX, "thread %d", threads[i]);
        sum += sleeps;
    }
    return sum;
}

/* A rank stays away until its progress thread is at work, and then looks again and again whether the root has sent. */
static void visits_body(struct job_rank *rank)
{
    enum { VISITS = 1000, BETWEEN_US = 100, OTHERS = 100 };
    static const char *const settings[] = {"WORKERS", "0", NULL};
    struct byte byte;

    begin_byte(rank, settings, &byte);
    if (rank->rank == 1) {
        double begun_s;
        uint64_t sleeps, patiences;
        bool done = false;

        JOB_OK(rank, tutti_post(byte.request));
        usleep(IDLE_US);
        begun_s = job_now_s();
        sleeps = sleeps_of_others(rank);
        for (uint32_t i = 0; i < VISITS; i++) {
            JOB_OK(rank, tutti_test(byte.request, &done));
            JOB_CHECK(rank, !done, "nobody has sent yet");
            usleep(BETWEEN_US);
        }
        sleeps = sleeps_of_others(rank) - sleeps;
        patiences = (uint64_t)((job_now_s() - begun_s) * TT_NS_PER_S) / TT_PROGRESS_THREAD_PATIENCE_NS;
        JOB_CHECK(rank, sleeps <= 4 * patiences + OTHERS, "%llu sleeps in %llu patiences", (unsigned long long)sleeps,
                  (unsigned long long)patiences);
    }
    job_barrier(rank);
    if (rank->rank != 1) {
        JOB_OK(rank, tutti_post(byte.request));
    }
    await_byte(rank, &byte);
    job_end(byte.context, byte.group);
}

static void a_progress_thread_at_work_goes_when_its_rank_comes_back_and_waits_a_while(void **state)
{
    (void)state;
    assert_int_equal(job_run(2, visits_body, NULL, LIMIT_S), 0);
}

/* --- Triggered messages ------------------------------------------------------------------------------------------- */

/* By a process of its own: it may leave its process with more than it found. */
static bool has_ucx(void)
{
    struct tt_p2p *p2p;
    pid_t pid = fork();
    int status = -1;

    if (pid == 0) {
        _exit(tt_ucx_create(NULL, &p2p) == TUTTI_OK ? 0 : 1);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

/* The root has what rank 1 sent, holds the answer, and computes; rank 1 leaves, and has to know that it may. Over tcp
 * the progress thread would be at work for other reasons for a while. */
static void held_body(struct job_rank *rank)
{
    enum { LEAVES_S = 2, BLOCK = 100 };
    static const char *const settings[] = {"P2P", "ucx", NULL};
    tutti_request_options options = {.struct_size = sizeof options, .algorithm = TUTTI_ALGORITHM_DIRECT};
    uint8_t send[BLOCK] = {0}, receive[2 * BLOCK];
    tutti_context *context;
    tutti_group *group;
    tutti_request *request;

    job_group(rank, settings, &context, &group);
    JOB_OK(rank, tutti_gather_init(group, send, receive, BLOCK, 0, &options, &request));
    job_barrier(rank);
    JOB_OK(rank, tutti_post(request));
    JOB_OK(rank, tutti_wait(request));
    JOB_OK(rank, tutti_finalize(request));
    if (rank->rank == 1) {
        double begun_s = job_now_s();

        JOB_OK(rank, tutti_group_destroy(group));
        JOB_CHECK(rank, job_now_s() - begun_s < LEAVES_S * TT_PATIENCE, "left after %.1f s", job_now_s() - begun_s);
    }
    job_barrier(rank); /* knows nothing of the library */
    if (rank->rank != 1) {
        JOB_OK(rank, tutti_group_destroy(group));
    }
    JOB_OK(rank, tutti_context_destroy(context));
}

static void an_answer_that_a_rank_holds_goes_although_it_stays_away(void **state)
{
    (void)state;
    if (!has_ucx()) {
        TT_SKIP("UCX cannot be loaded");
    }
    assert_int_equal(job_run(2, held_body, NULL, LIMIT_S), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_that_stays_away_still_serves_its_neighbour),
        cmocka_unit_test(a_rank_that_stood_still_while_it_left_serves_who_came_meanwhile),
        cmocka_unit_test(a_rank_that_posts_when_its_neighbour_has_left_is_told_so),
        cmocka_unit_test(what_was_posted_while_the_engine_was_busy_moves_although_its_rank_stays_away),
        cmocka_unit_test(a_progress_thread_at_work_goes_when_its_rank_comes_back_and_waits_a_while),
        cmocka_unit_test(an_answer_that_a_rank_holds_goes_although_it_stays_away),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
