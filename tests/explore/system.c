/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Locks, conditions and descriptors of the explorer. Normal path: a point, then the operation; what would block lets
 * others go on until it does not. Failures: what a program must not do (unlocking what it has not locked, closing what
 * is not open) is a violation; none of the system's errors is played. A signal wakes the waiting thread that came first
 * in the scenario.
 */
#include "system.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>

#include "explore.h"

#define HERE          __builtin_return_address(0)
#define NS_PER_S      UINT64_C(1000000000)
#define LENGTH(array) (sizeof(array) / sizeof(array)[0])

/* --- Threads ------------------------------------------------------------------------------------------------------ */

int explore_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument)
{
    (void)attributes;
    *thread = explore_start("started", run, argument);
    explore_point("pthread_create", HERE);
    return 0;
}

int explore_pthread_join(pthread_t thread, void **result)
{
    (void)result;
    explore_join((uint32_t)thread, HERE);
    return 0;
}

/* --- Locks -------------------------------------------------------------------------------------------------------- */

struct mutex {
    int owner; /* a thread's number and 1; 0: it is free */
};

struct condition {
    uint32_t waiting, told; /* a bit a thread */
};

_Static_assert(sizeof(struct mutex) <= sizeof(pthread_mutex_t) && sizeof(struct condition) <= sizeof(pthread_cond_t),
               "they lie in the memory of those that they replace");

static bool is_free(void *mutex)
{
    return ((struct mutex *)mutex)->owner == 0;
}

int explore_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes)
{
    (void)attributes;
    ((struct mutex *)mutex)->owner = 0;
    return 0;
}

int explore_mutex_destroy(pthread_mutex_t *mutex)
{
    if (!is_free(mutex)) {
        explore_fail("a mutex is destroyed that thread %d holds", ((struct mutex *)mutex)->owner - 1);
    }
    return 0;
}

static void lock(const char *operation, const void *where, pthread_mutex_t *mutex)
{
    struct mutex *own = (struct mutex *)mutex;

    if (own->owner == explore_self() + 1 && own->owner > 0) {
        explore_fail("thread %d locks a mutex that it holds", explore_self());
    }
    explore_block(operation, where, is_free, mutex, EXPLORE_NEVER);
    own->owner = explore_self() + 1;
    explore_acquire(mutex);
}

int explore_mutex_lock(pthread_mutex_t *mutex)
{
    lock("pthread_mutex_lock", HERE, mutex);
    return 0;
}

int explore_mutex_trylock(pthread_mutex_t *mutex)
{
    explore_point("pthread_mutex_trylock", HERE);
    if (!is_free(mutex)) {
        return EBUSY;
    }
    ((struct mutex *)mutex)->owner = explore_self() + 1;
    explore_acquire(mutex);
    return 0;
}

static void unlock(pthread_mutex_t *mutex)
{
    struct mutex *own = (struct mutex *)mutex;

    if (own->owner != explore_self() + 1) {
        explore_fail("thread %d unlocks a mutex that it does not hold", explore_self());
    }
    own->owner = 0;
    explore_release(mutex);
}

int explore_mutex_unlock(pthread_mutex_t *mutex)
{
    explore_point("pthread_mutex_unlock", HERE);
    unlock(mutex);
    return 0;
}

int explore_cond_init(pthread_cond_t *condition, const pthread_condattr_t *attributes)
{
    (void)attributes;
    *(struct condition *)condition = (struct condition){0};
    return 0;
}

int explore_cond_destroy(pthread_cond_t *condition)
{
    if (((struct condition *)condition)->waiting != 0) {
        explore_fail("a condition is destroyed that threads wait for");
    }
    return 0;
}

/* By thread, as others ask whether it may go on. */
struct waiting {
    struct condition *condition;
    uint32_t bit;
};

static bool was_told(void *argument)
{
    const struct waiting *waiting = argument;

    return waiting->condition->told & waiting->bit;
}

static int wait_for(const char *operation, const void *where, pthread_cond_t *condition, pthread_mutex_t *mutex,
                    uint64_t until_ns)
{
    struct waiting waiting = {.condition = (struct condition *)condition, .bit = UINT32_C(1) << explore_self()};
    bool told;

    explore_point(operation, where);
    waiting.condition->waiting |= waiting.bit;
    unlock(mutex);
    told = explore_block(operation, where, was_told, &waiting, until_ns);
    waiting.condition->waiting &= ~waiting.bit;
    waiting.condition->told &= ~waiting.bit;
    lock(operation, where, mutex);
    return told ? 0 : ETIMEDOUT;
}

int explore_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex)
{
    return wait_for("pthread_cond_wait", HERE, condition, mutex, EXPLORE_NEVER);
}

int explore_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until)
{
    return wait_for("pthread_cond_timedwait", HERE, condition, mutex,
                    (uint64_t)until->tv_sec * NS_PER_S + (uint64_t)until->tv_nsec);
}

int explore_cond_signal(pthread_cond_t *condition)
{
    struct condition *own = (struct condition *)condition;
    uint32_t untold;

    explore_point("pthread_cond_signal", HERE);
    untold = own->waiting & ~own->told;
    own->told |= untold & -untold;
    return 0;
}

int explore_cond_broadcast(pthread_cond_t *condition)
{
    struct condition *own = (struct condition *)condition;

    explore_point("pthread_cond_broadcast", HERE);
    own->told = own->waiting;
    return 0;
}

/* --- Time --------------------------------------------------------------------------------------------------------- */

int explore_sched_yield(void)
{
    explore_yield("sched_yield", HERE);
    return 0;
}

int explore_nanosleep(const struct timespec *time, struct timespec *left)
{
    (void)time;
    (void)left;
    explore_yield("nanosleep", HERE);
    return 0;
}

int explore_clock_gettime(clockid_t clock, struct timespec *now)
{
    (void)clock;
    *now = (struct timespec){.tv_sec = (time_t)(explore_now_ns() / NS_PER_S),
                             .tv_nsec = (long)(explore_now_ns() % NS_PER_S)};
    return 0;
}

static uint64_t time_after(const struct timespec *limit)
{
    return limit == NULL ? EXPLORE_NEVER
                         : explore_now_ns() + (uint64_t)limit->tv_sec * NS_PER_S + (uint64_t)limit->tv_nsec;
}

/* --- Descriptors -------------------------------------------------------------------------------------------------- */

struct watch {
    int fd; /* 0: none */
    struct epoll_event event;
};

static struct descriptor {
    enum { CLOSED, EVENT, SET } kind;
    uint64_t count;
    struct watch watches[8];
} descriptors[16];

void explore_system_begin(void)
{
    memset(descriptors, 0, sizeof descriptors);
}

static struct descriptor *descriptor_of(int fd)
{
    size_t index = (size_t)(fd - EXPLORE_FIRST_FD);

    if (index >= LENGTH(descriptors) || descriptors[index].kind == CLOSED) {
        explore_fail("descriptor %d is not open", fd);
    }
    return &descriptors[index];
}

static int open_one(int kind)
{
    for (size_t i = 0; i < LENGTH(descriptors); i++) {
        if (descriptors[i].kind == CLOSED) {
            descriptors[i] = (struct descriptor){.kind = kind};
            return EXPLORE_FIRST_FD + (int)i;
        }
    }
    explore_fail("no descriptor is left");
}

int explore_eventfd(unsigned count, int flags)
{
    int fd = open_one(EVENT);

    (void)flags;
    descriptor_of(fd)->count = count;
    return fd;
}

int explore_epoll_create1(int flags)
{
    (void)flags;
    return open_one(SET);
}

int explore_close(int fd)
{
    explore_point("close", HERE);
    descriptor_of(fd)->kind = CLOSED;
    return 0;
}

int explore_epoll_ctl(int set, int operation, int fd, struct epoll_event *event)
{
    struct descriptor *own = descriptor_of(set);
    struct watch *found = NULL, *empty = NULL;

    explore_point("epoll_ctl", HERE);
    descriptor_of(fd);
    for (size_t i = 0; i < LENGTH(own->watches); i++) {
        found = own->watches[i].fd == fd ? &own->watches[i] : found;
        empty = own->watches[i].fd == 0 ? &own->watches[i] : empty;
    }
    if ((found != NULL) == (operation == EPOLL_CTL_ADD)) {
        errno = found != NULL ? EEXIST : ENOENT;
        return -1;
    }
    found = found != NULL ? found : empty;
    if (found == NULL) {
        explore_fail("too many descriptors are watched");
    }
    *found = operation == EPOLL_CTL_DEL ? (struct watch){0} : (struct watch){.fd = fd, .event = *event};
    return 0;
}

static bool is_ready(const struct watch *watch)
{
    return watch->fd != 0 && watch->event.events != 0 && descriptor_of(watch->fd)->count > 0;
}

static bool has_ready(void *set)
{
    struct descriptor *own = set;

    for (size_t i = 0; i < LENGTH(own->watches); i++) {
        if (is_ready(&own->watches[i])) {
            return true;
        }
    }
    return false;
}

int explore_epoll_pwait2(int set, struct epoll_event *events, int most, const struct timespec *limit,
                         const sigset_t *signals)
{
    struct descriptor *own = descriptor_of(set);
    int count = 0;

    (void)signals;
    explore_block("epoll_pwait2", HERE, has_ready, own, time_after(limit));
    for (size_t i = 0; i < LENGTH(own->watches) && count < most; i++) {
        struct watch *watch = &own->watches[i];

        if (is_ready(watch)) {
            events[count++] = (struct epoll_event){.events = EPOLLIN, .data = watch->event.data};
            watch->event.events = watch->event.events & EPOLLONESHOT ? 0 : watch->event.events;
            explore_acquire(descriptor_of(watch->fd));
        }
    }
    return count;
}

static bool is_readable(void *event)
{
    return ((struct descriptor *)event)->count > 0;
}

int explore_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *limit, const sigset_t *signals)
{
    (void)count;
    (void)signals;
    if (!explore_block("ppoll", HERE, is_readable, descriptor_of(fds->fd), time_after(limit))) {
        return 0;
    }
    fds->revents = POLLIN;
    return 1;
}

ssize_t explore_read(int fd, void *buffer, size_t bytes)
{
    struct descriptor *own;

    explore_point("read", HERE);
    own = descriptor_of(fd);
    if (own->count == 0) {
        errno = EAGAIN;
        return -1;
    }
    memcpy(buffer, &own->count, sizeof own->count);
    own->count = 0;
    explore_acquire(own);
    return (ssize_t)bytes;
}

ssize_t explore_write(int fd, const void *buffer, size_t bytes)
{
    struct descriptor *own;
    uint64_t more;

    explore_point("write", HERE);
    own = descriptor_of(fd);
    memcpy(&more, buffer, sizeof more);
    own->count += more;
    explore_release(own);
    return (ssize_t)bytes;
}

/* --- Memory ------------------------------------------------------------------------------------------------------- */

void *explore_memcpy(void *to, const void *from, size_t bytes)
{
    explore_access(from, bytes, false, HERE);
    explore_access(to, bytes, true, HERE);
    return memcpy(to, from, bytes);
}

void *explore_memmove(void *to, const void *from, size_t bytes)
{
    explore_access(from, bytes, false, HERE);
    explore_access(to, bytes, true, HERE);
    return memmove(to, from, bytes);
}

void *explore_memset(void *to, int value, size_t bytes)
{
    explore_access(to, bytes, true, HERE);
    return memset(to, value, bytes);
}
