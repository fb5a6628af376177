/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Preloaded into a program: threads are held up at random before and after what they do to one another and to sockets,
 * so that orders of events come about which are rare otherwise, or need more processors than there are.
 *
 * Normal path: DELAYS says SEED:ONE_IN:LONGEST_US. One in so many calls is delayed, by up to that time; which ones, the
 * seed says, as far as the order of the threads is the same. Without DELAYS nothing is.
 *
 * Failures: none of its own, and errno stays what the call has made it.
 */
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/random.h"

static _Atomic uint64_t state;
static unsigned one_in, longest_us;

static void __attribute__((constructor)) read_environment(void)
{
    const char *text = getenv("DELAYS");
    unsigned long long seed;

    if (text != NULL && sscanf(text, "%llu:%u:%u", &seed, &one_in, &longest_us) == 3) {
        state = seed;
    }
}

static void delay(void)
{
    int before = errno;

    if (one_in > 0 && longest_us > 0) {
        struct tt_random random = {.state = atomic_fetch_add(&state, 1)}; /* for whichever thread comes first */

        if (tt_random_below(&random, one_in) == 0) {
            struct timespec time = tt_clock_timespec(tt_random_below(&random, longest_us) * TT_NS_PER_US);

            nanosleep(&time, NULL);
        }
    }
    errno = before;
}

/* The system's function of this name; of those that have several versions the one that programs use. */
static void *find(const char *name)
{
    void *latest = dlvsym(RTLD_NEXT, name, "GLIBC_2.3.2"); /* conditions */

    return latest != NULL ? latest : dlsym(RTLD_NEXT, name);
}

#define DELAYED(type, name, parameters, arguments)                                                                     \
    type name parameters                                                                                               \
    {                                                                                                                  \
        static _Atomic(void *) found;                                                                                  \
        type(*function) parameters;                                                                                    \
        type result;                                                                                                   \
                                                                                                                       \
        if (atomic_load(&found) == NULL) {                                                                             \
            atomic_store(&found, find(#name));                                                                         \
        }                                                                                                              \
        *(void **)(&function) = atomic_load(&found);                                                                   \
        delay();                                                                                                       \
        result = function arguments;                                                                                   \
        delay();                                                                                                       \
        return result;                                                                                                 \
    }

/* NOLINTBEGIN(readability-inconsistent-declaration-parameter-name): the system's headers have reserved names */
DELAYED(int, pthread_mutex_lock, (pthread_mutex_t * lock), (lock))
DELAYED(int, pthread_mutex_unlock, (pthread_mutex_t * lock), (lock))
DELAYED(int, pthread_cond_wait, (pthread_cond_t * condition, pthread_mutex_t *lock), (condition, lock))
DELAYED(int, pthread_cond_timedwait, (pthread_cond_t * condition, pthread_mutex_t *lock, const struct timespec *until),
        (condition, lock, until))
DELAYED(int, pthread_cond_signal, (pthread_cond_t * condition), (condition))
DELAYED(int, pthread_cond_broadcast, (pthread_cond_t * condition), (condition))
DELAYED(int, sched_yield, (void), ())
DELAYED(int, poll, (struct pollfd * all, nfds_t count, int timeout_ms), (all, count, timeout_ms))
DELAYED(int, epoll_wait, (int fd, struct epoll_event *events, int limit, int timeout_ms),
        (fd, events, limit, timeout_ms))
DELAYED(int, epoll_pwait2,
        (int fd, struct epoll_event *events, int limit, const struct timespec *timeout, const sigset_t *mask),
        (fd, events, limit, timeout, mask))
DELAYED(ssize_t, read, (int fd, void *buffer, size_t bytes), (fd, buffer, bytes))
DELAYED(ssize_t, write, (int fd, const void *buffer, size_t bytes), (fd, buffer, bytes))
DELAYED(ssize_t, send, (int fd, const void *buffer, size_t bytes, int flags), (fd, buffer, bytes, flags))
DELAYED(ssize_t, recv, (int fd, void *buffer, size_t bytes, int flags), (fd, buffer, bytes, flags))
DELAYED(ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags), (fd, message, flags))
DELAYED(ssize_t, recvmsg, (int fd, struct msghdr *message, int flags), (fd, message, flags))
DELAYED(int, sendmmsg, (int fd, struct mmsghdr *messages, unsigned count, int flags), (fd, messages, count, flags))
DELAYED(int, recvmmsg, (int fd, struct mmsghdr *messages, unsigned count, int flags, struct timespec *timeout),
        (fd, messages, count, flags, timeout))
/* NOLINTEND(readability-inconsistent-declaration-parameter-name) */
