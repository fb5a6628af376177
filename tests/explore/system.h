/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What stands in for the system's calls while a schedule is explored; each is its namesake, as far as the library uses
 * it. A lock or a condition is a few words in the memory of the one that it replaces. Descriptors are event descriptors
 * and sets of epoll, numbered from EXPLORE_FIRST_FD on.
 */
#ifndef TT_TESTS_EXPLORE_SYSTEM_H
#define TT_TESTS_EXPLORE_SYSTEM_H

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/types.h>
#include <time.h>

enum { EXPLORE_FIRST_FD = 1000 };

/* Nothing is open: at the beginning of each schedule. */
void explore_system_begin(void);

int explore_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument);
int explore_pthread_join(pthread_t thread, void **result);
int explore_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes);
int explore_mutex_destroy(pthread_mutex_t *mutex);
int explore_mutex_lock(pthread_mutex_t *mutex);
int explore_mutex_trylock(pthread_mutex_t *mutex);
int explore_mutex_unlock(pthread_mutex_t *mutex);
int explore_cond_init(pthread_cond_t *condition, const pthread_condattr_t *attributes);
int explore_cond_destroy(pthread_cond_t *condition);
int explore_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex);
int explore_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until);
int explore_cond_signal(pthread_cond_t *condition);
int explore_cond_broadcast(pthread_cond_t *condition);

int explore_sched_yield(void);
int explore_nanosleep(const struct timespec *time, struct timespec *left);
int explore_clock_gettime(clockid_t clock, struct timespec *now);

int explore_eventfd(unsigned count, int flags);
int explore_epoll_create1(int flags);
int explore_epoll_ctl(int set, int operation, int fd, struct epoll_event *event);
int explore_epoll_pwait2(int set, struct epoll_event *events, int most, const struct timespec *limit,
                         const sigset_t *signals);
int explore_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *limit, const sigset_t *signals);
ssize_t explore_read(int fd, void *buffer, size_t bytes);
ssize_t explore_write(int fd, const void *buffer, size_t bytes);
int explore_close(int fd);

void *explore_memcpy(void *to, const void *from, size_t bytes);
void *explore_memmove(void *to, const void *from, size_t bytes);
void *explore_memset(void *to, int value, size_t bytes);

#endif
