/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Jobs of forked ranks. The parent keeps a time limit and kills what is left; ranks die with the parent. The allgather
 * is two barriers around a shared buffer.
 */
#include "job.h"
#include "lives_on.h"
#include "patience.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "patience.h"

enum { SHARED_BYTES = 8 * 1024 * 1024, TICK_US = 2000, READY_DELAY_US = 20000 };

#define WHEN_READY UINT64_MAX

struct job {
    pthread_barrier_t barrier;
    _Atomic uint32_t ready;
    _Atomic uint64_t signaled_us; /* when the victim got its signal */
    _Atomic pid_t left_child;     /* a process that the victim has started; 0: none */
    uint8_t exchange[SHARED_BYTES];
};

int job_allgather(void *argument, const void *send, void *receive, size_t length_bytes)
{
    struct job_rank *rank = argument;

    if (length_bytes * rank->size > SHARED_BYTES) {
        return -1;
    }
    memcpy(rank->job->exchange + rank->rank * length_bytes, send, length_bytes);
    pthread_barrier_wait(&rank->job->barrier);
    memcpy(receive, rank->job->exchange, length_bytes * rank->size);
    pthread_barrier_wait(&rank->job->barrier);
    return 0;
}

void job_barrier(struct job_rank *rank)
{
    pthread_barrier_wait(&rank->job->barrier);
}

void job_ready(struct job_rank *rank)
{
    atomic_fetch_add(&rank->job->ready, 1);
}

static struct job *create_job(uint32_t size)
{
    struct job *job = mmap(NULL, sizeof *job, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_barrierattr_t attributes;

    if (job == MAP_FAILED) {
        return NULL;
    }
    pthread_barrierattr_init(&attributes);
    pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&job->barrier, &attributes, size);
    pthread_barrierattr_destroy(&attributes);
    return job;
}

static pid_t start_rank(struct job *job, uint32_t index, uint32_t size, void (*body)(struct job_rank *), void *argument)
{
    struct job_rank rank = {.job = job, .rank = index, .size = size, .argument = argument};
    pid_t parent = getpid(), pid;

    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) {
            _exit(1);
        }
        body(&rank);
        exit(0); /* with leak checks and coverage, where they are on */
    }
    return pid;
}

static uint64_t now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* Waits for one process until `until_us`; false: it is still running. */
static bool reap(pid_t pid, uint64_t until_us, int *status)
{
    while (waitpid(pid, status, WNOHANG) == 0) {
        if (now_us() >= until_us) {
            return false;
        }
        usleep(TICK_US);
    }
    return true;
}

/* What happens to rank `victim`; to none if there is no such rank. */
struct blow {
    uint32_t victim;
    int signal;
    uint64_t after_us; /* the beginning; WHEN_READY: all are */
};

static void signal_victim(struct job *job, pid_t pid, uint32_t size, const struct blow *blow, uint64_t until_us)
{
    uint64_t begun_us = now_us();

    if (blow->after_us == WHEN_READY) {
        while (atomic_load(&job->ready) < size && now_us() < until_us) {
            usleep(TICK_US);
        }
        usleep(READY_DELAY_US);
    } else {
        while (now_us() - begun_us < blow->after_us) {
            usleep(TICK_US / 4);
        }
    }
    atomic_store(&job->signaled_us, now_us());
    kill(pid, blow->signal);
}

static uint32_t run(uint32_t size, void (*body)(struct job_rank *rank), void *argument, unsigned limit_s,
                    const struct blow *blow)
{
    uint32_t victim = blow->victim;
    struct job *job = create_job(size);
    uint64_t until_us = now_us() + limit_s * UINT64_C(1000000) * TT_PATIENCE;
    pid_t *pids = calloc(size, sizeof *pids);
    uint32_t failed = 0;

    if (job == NULL || pids == NULL) {
        free(pids);
        return size;
    }
    prctl(PR_SET_CHILD_SUBREAPER, 1); /* what the victim leaves comes here */
    for (uint32_t i = 0; i < size; i++) {
        pids[i] = start_rank(job, i, size, body, argument);
    }
    if (victim < size) {
        signal_victim(job, pids[victim], size, blow, until_us);
    }
    for (uint32_t i = 0; i < size; i++) {
        int status = 0;

        if (i == victim) {
            continue;
        }
        if (!reap(pids[i], until_us, &status)) {
            fprintf(stderr, "rank %u is still running after %u s\n", i, limit_s);
            kill(pids[i], SIGKILL);
            waitpid(pids[i], &status, 0);
            failed++;
        } else if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
            fprintf(stderr, "rank %u: %s %d\n", i, WIFEXITED(status) ? "exit status" : "signal",
                    WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
            failed++;
        }
    }
    if (victim < size) {
        kill(pids[victim], SIGKILL);
        waitpid(pids[victim], NULL, 0);
    }
    if (atomic_load(&job->left_child) > 0) {
        kill(atomic_load(&job->left_child), SIGKILL);
        waitpid(atomic_load(&job->left_child), NULL, 0);
    }
    munmap(job, sizeof *job);
    free(pids);
    return failed;
}

uint32_t job_run_with_victim(uint32_t size, void (*body)(struct job_rank *rank), void *argument, unsigned limit_s,
                             uint32_t victim, int signal)
{
    return run(size, body, argument, limit_s, &(struct blow){victim, signal, WHEN_READY});
}

uint32_t job_run_with_victim_at(uint32_t size, void (*body)(struct job_rank *rank), void *argument, unsigned limit_s,
                                uint32_t victim, uint64_t after_us)
{
    return run(size, body, argument, limit_s, &(struct blow){victim, SIGKILL, after_us});
}

uint32_t job_run(uint32_t size, void (*body)(struct job_rank *rank), void *argument, unsigned limit_s)
{
    return run(size, body, argument, limit_s, &(struct blow){size, 0, WHEN_READY});
}

uint32_t job_run_shares(uint32_t shares, int (*share)(uint32_t share, void *argument), void *argument)
{
    pid_t *workers = calloc(shares, sizeof *workers);
    uint32_t failed = 0;

    if (workers == NULL) {
        return shares;
    }
    fflush(NULL);
    for (uint32_t i = 0; i < shares; i++) {
        workers[i] = fork();
        if (workers[i] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            _exit(share(i, argument) > 0 ? 1 : 0);
        }
    }
    for (uint32_t i = 0; i < shares; i++) {
        int status = -1;

        failed += workers[i] < 0 || waitpid(workers[i], &status, 0) != workers[i] || status != 0;
    }
    free(workers);
    return failed;
}

void job_group(struct job_rank *rank, const char *const *settings, tutti_context **context, tutti_group **group)
{
    tutti_setting list[16];
    tutti_context_options options = {.struct_size = sizeof options, .settings = list};
    tutti_group_options members = {.struct_size = sizeof members,
                                   .rank = rank->rank,
                                   .size = rank->size,
                                   .allgather = job_allgather,
                                   .argument = rank};

    for (size_t i = 0; settings != NULL && settings[2 * i] != NULL; i++) {
        list[options.setting_count++] = (tutti_setting){settings[2 * i], settings[2 * i + 1]};
    }
    JOB_OK(rank, tutti_context_create(&options, context));
    JOB_OK(rank, tutti_group_create(*context, &members, group));
}

void job_end(tutti_context *context, tutti_group *group)
{
    if (tutti_group_destroy(group) != TUTTI_OK || tutti_context_destroy(context) != TUTTI_OK) {
        fprintf(stderr, "cannot end: %s\n", tutti_last_error());
        exit(1);
    }
}

static uint8_t pattern(uint64_t offset, uint32_t rank, uint32_t iteration)
{
    uint64_t x = (offset + 1) * UINT64_C(0x9E3779B97F4A7C15) + rank * UINT64_C(0xBF58476D1CE4E5B9) +
                 iteration * UINT64_C(0x94D049BB133111EB);

    return (uint8_t)(x >> 56);
}

void job_fill(uint8_t *buffer, uint64_t bytes, uint32_t rank, uint32_t iteration)
{
    for (uint64_t i = 0; i < bytes; i++) {
        buffer[i] = pattern(i, rank, iteration);
    }
}

bool job_check(const uint8_t *buffer, uint64_t bytes, uint32_t rank, uint32_t iteration)
{
    for (uint64_t i = 0; i < bytes; i++) {
        if (buffer[i] != pattern(i, rank, iteration)) {
            fprintf(stderr, "byte %llu of rank %u in iteration %u is %u, not %u\n", (unsigned long long)i, rank,
                    iteration, buffer[i], pattern(i, rank, iteration));
            return false;
        }
    }
    return true;
}

double job_now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

uint64_t job_death_timeout_ns(const struct job_death *death)
{
    return death->stops ? 1500000000 : 0;
}

double job_signaled_s(const struct job_rank *rank)
{
    return (double)atomic_load(&rank->job->signaled_us) / 1e6;
}

static void check_death(struct job_rank *rank, const struct job_death *death, double start_s)
{
    double limit_s = death->limit_s > 0 ? death->limit_s : 5;
    double took_s = job_now_s() - (death->limit_s > 0 ? job_signaled_s(rank) : start_s);
    char name[24];

    snprintf(name, sizeof name, "rank %u", death->victim);
    JOB_CHECK(rank, strstr(tutti_last_error(), name) != NULL, "rank %u is not in: %s", death->victim,
              tutti_last_error());
    JOB_CHECK(rank, took_s < limit_s * TT_PATIENCE, "took %.1f s: %s", took_s, tutti_last_error());
}

void job_leave_child(struct job_rank *rank, enum job_child child)
{
    pid_t pid = child == JOB_FORK ? tt_fork_that_lives_on() : child == JOB_PROGRAM ? tt_program_that_lives_on() : 0;

    JOB_CHECK(rank, pid >= 0, "no child: %d", errno);
    atomic_store(&rank->job->left_child, pid);
}

void job_meet_death(struct job_rank *rank, tutti_context *context, tutti_group *group, tutti_request *request)
{
    const struct job_death *death = rank->argument;
    tutti_status status = TUTTI_OK, expected = death->stops ? TUTTI_ERR_TIMED_OUT : TUTTI_ERR_PEER_FAILED;
    double start;

    if (rank->rank == death->victim) {
        job_leave_child(rank, death->child);
    }
    job_ready(rank);
    start = job_now_s();
    while (status == TUTTI_OK && job_now_s() - start < 20 * TT_PATIENCE) {
        status = tutti_post(request);
        status = status == TUTTI_OK ? tutti_wait(request) : status;
    }
    JOB_CHECK(rank, status == expected, "%s: %s", tutti_status_name(status), tutti_last_error());
    JOB_CHECK(rank, tutti_group_failed_rank(group) == (int)death->victim, "rank %d is named: %s",
              tutti_group_failed_rank(group), tutti_last_error());
    check_death(rank, death, start);
    JOB_OK(rank, tutti_finalize(request));
    job_end(context, group);
}
