/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A job of real processes on this host for tests: forks the ranks, gives them an out-of-band allgather through shared
 * memory, and collects what went wrong. A rank fails by JOB_CHECK, which prints where and why and ends its process; the
 * job is given a time limit, and no process outlives it.
 */
#ifndef TT_TESTS_JOB_H
#define TT_TESTS_JOB_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "tutti/tutti.h"

struct job; /* what the ranks share */

struct job_rank {
    struct job *job;
    uint32_t rank, size;
    void *argument;
};

/* Runs `size` processes of body; returns how many failed (exited with another status than 0, or were killed). The
 * limit is TT_PATIENCE times as long. */
uint32_t job_run(uint32_t size, void (*body)(struct job_rank *rank), void *argument, unsigned limit_s);

/* The same, and ends rank `victim` with `signal` when it calls job_ready; the victim does not count. */
uint32_t job_run_with_victim(uint32_t size, void (*body)(struct job_rank *rank), void *argument, unsigned limit_s,
                             uint32_t victim, int signal);

/* The same, and kills rank `victim` so long after its job has begun, wherever that is. */
uint32_t job_run_with_victim_at(uint32_t size, void (*body)(struct job_rank *rank), void *argument, unsigned limit_s,
                                uint32_t victim, uint64_t after_us);

/* When the victim got its signal, of job_now_s's clock; 0: it has not. */
double job_signaled_s(const struct job_rank *rank);

/* A rank is ready for the signal that its job has for one of them; `after_us` later the victim gets it. */
void job_ready(struct job_rank *rank);

/* Calls share(0 .. shares - 1, argument) in a process each, at once: jobs wait more than they compute. A share returns
 * how many of its jobs have failed; the result is how many shares had one that did. */
uint32_t job_run_shares(uint32_t shares, int (*share)(uint32_t share, void *argument), void *argument);

/* Of some monotonic clock. */
double job_now_s(void);

/* What a rank leaves behind when it dies. */
enum job_child {
    JOB_NO_CHILD,
    JOB_PROGRAM, /* that it has started */
    JOB_FORK,    /* which has all that close-on-exec would have closed: a worker of a data loader */
    JOB_CHILDREN
};

/* Has a child when this returns, which outlives this rank and ends with the job. */
void job_leave_child(struct job_rank *rank, enum job_child child);

/* What a rank whose job has a victim gets as its argument. */
struct job_death {
    uint32_t victim;
    bool stops; /* and does not die */
    enum job_child child;
    const char *const *settings;
    double limit_s; /* how long after the signal all have to know; 0: within 5 s of their own beginning */
};

/* A timeout for requests of such a job: where nobody dies it is the deadline that tells. */
uint64_t job_death_timeout_ns(const struct job_death *death);

/* Says that it is ready, and posts the request until that fails, which must be because of the victim, by name, and
 * soon. Ends the request, the group and the context. */
void job_meet_death(struct job_rank *rank, tutti_context *context, tutti_group *group, tutti_request *request);

/* Fits tutti_oob_allgather; the argument is the struct job_rank. */
int job_allgather(void *argument, const void *send, void *receive, size_t length_bytes);

/* Waits for all ranks. */
void job_barrier(struct job_rank *rank);

/* A context with these settings (NULL-terminated names and values), and a group of all ranks. */
void job_group(struct job_rank *rank, const char *const *settings, tutti_context **context, tutti_group **group);
void job_end(tutti_context *context, tutti_group *group);

/* Fills and checks `bytes` bytes with a pattern of rank, iteration and offset; the check prints the first wrong byte.
 */
void job_fill(uint8_t *buffer, uint64_t bytes, uint32_t rank, uint32_t iteration);
bool job_check(const uint8_t *buffer, uint64_t bytes, uint32_t rank, uint32_t iteration);

#define JOB_CHECK(rank_, condition, ...)                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: rank %u: %s: ", __FILE__, __LINE__, (rank_)->rank, #condition);                    \
            fprintf(stderr, __VA_ARGS__);                                                                              \
            fputc('\n', stderr);                                                                                       \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

#define JOB_OK(rank_, call)                                                                                            \
    do {                                                                                                               \
        tutti_status job_status = (call);                                                                              \
        JOB_CHECK(rank_, job_status == TUTTI_OK, "%s: %s: %s", #call, tutti_status_name(job_status),                   \
                  tutti_last_error());                                                                                 \
    } while (0)

#endif
