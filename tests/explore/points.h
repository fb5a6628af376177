/* SPDX-License-Identifier: BSD-3-Clause */
/* Included before everything else in the code under test: threads, locks, sleeping and descriptors are the explorer's
 * (explore.h). The system's headers come first, which know these by their names. */
#ifndef TT_TESTS_EXPLORE_POINTS_H
#define TT_TESTS_EXPLORE_POINTS_H

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "system.h"

#define pthread_create         explore_pthread_create
#define pthread_join           explore_pthread_join
#define pthread_mutex_init     explore_mutex_init
#define pthread_mutex_destroy  explore_mutex_destroy
#define pthread_mutex_lock     explore_mutex_lock
#define pthread_mutex_trylock  explore_mutex_trylock
#define pthread_mutex_unlock   explore_mutex_unlock
#define pthread_cond_init      explore_cond_init
#define pthread_cond_destroy   explore_cond_destroy
#define pthread_cond_wait      explore_cond_wait
#define pthread_cond_timedwait explore_cond_timedwait
#define pthread_cond_signal    explore_cond_signal
#define pthread_cond_broadcast explore_cond_broadcast

#define sched_yield   explore_sched_yield
#define nanosleep     explore_nanosleep
#define clock_gettime explore_clock_gettime

#define eventfd       explore_eventfd
#define epoll_create1 explore_epoll_create1
#define epoll_ctl     explore_epoll_ctl
#define epoll_pwait2  explore_epoll_pwait2
#define ppoll         explore_ppoll
#define read          explore_read
#define write         explore_write
#define close         explore_close

#define memcpy  explore_memcpy
#define memmove explore_memmove
#define memset  explore_memset

#endif
