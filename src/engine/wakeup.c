/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sleeping and waking. Normal path: prepare, a last look, epoll_pwait2 with nanoseconds (or epoll_wait, rounded up,
 * where the kernel lacks it), drain the bell. Failures: no descriptors left.
 */
#include "engine/wakeup.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

enum { WAKEUP_EVENTS = 16 };

tutti_status tt_wakeup_create(struct tt_wakeup **wakeup)
{
    struct tt_wakeup *made = calloc(1, sizeof *made);
    tutti_status status;

    if (made == NULL) {
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_NO_MEMORY, "no memory for a context");
    }
    made->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    made->nap_fd = epoll_create1(EPOLL_CLOEXEC);
    made->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (made->epoll_fd < 0 || made->nap_fd < 0 || made->event_fd < 0) {
        status = tt_error(TT_PART_ENGINE, TUTTI_ERR_NO_RESOURCE, "no descriptor for sleeping: %s", strerror(errno));
        tt_wakeup_destroy(made);
        return status;
    }
    status = tt_wakeup_add(made, made->event_fd);
    if (status != TUTTI_OK) {
        tt_wakeup_destroy(made);
        return status;
    }
    *wakeup = made;
    return TUTTI_OK;
}

void tt_wakeup_destroy(struct tt_wakeup *wakeup)
{
    if (wakeup == NULL) {
        return;
    }
    if (wakeup->epoll_fd >= 0) {
        close(wakeup->epoll_fd);
    }
    if (wakeup->nap_fd >= 0) {
        close(wakeup->nap_fd);
    }
    if (wakeup->event_fd >= 0) {
        close(wakeup->event_fd);
    }
    free(wakeup);
}

static tutti_status add(int set, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

    if (fd >= 0 && epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) != 0 && errno != EEXIST) {
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_NO_RESOURCE, "cannot watch descriptor %d: %s", fd, strerror(errno));
    }
    return TUTTI_OK;
}

tutti_status tt_wakeup_add(struct tt_wakeup *wakeup, int fd)
{
    tutti_status status = add(wakeup->epoll_fd, fd);

    return status == TUTTI_OK ? add(wakeup->nap_fd, fd) : status;
}

tutti_status tt_wakeup_add_chunks(struct tt_wakeup *wakeup, int fd)
{
    return add(wakeup->epoll_fd, fd);
}

void tt_wakeup_remove(struct tt_wakeup *wakeup, int fd)
{
    if (fd >= 0) {
        epoll_ctl(wakeup->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
        epoll_ctl(wakeup->nap_fd, EPOLL_CTL_DEL, fd, NULL); /* which may never have had it */
    }
}

static void add_once(int set, int fd)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLONESHOT, .data.fd = fd};

    if (fd >= 0 && epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) != 0 && errno == EEXIST) {
        epoll_ctl(set, EPOLL_CTL_MOD, fd, &event);
    }
}

void tt_wakeup_once(struct tt_wakeup *wakeup, int fd)
{
    add_once(wakeup->epoll_fd, fd);
    add_once(wakeup->nap_fd, fd);
}

void tt_wakeup_ring(struct tt_wakeup *wakeup)
{
    /* Only the first of several rings makes a system call. */
    if (atomic_exchange_explicit(&wakeup->sleeping, false, memory_order_seq_cst)) {
        tt_wakeup_ring_always(wakeup);
    }
}

void tt_wakeup_ring_always(struct tt_wakeup *wakeup)
{
    uint64_t one = 1;

    while (write(wakeup->event_fd, &one, sizeof one) < 0 && errno == EINTR) {
    }
}

static void drain_bell(struct tt_wakeup *wakeup)
{
    uint64_t rings;

    while (read(wakeup->event_fd, &rings, sizeof rings) < 0 && errno == EINTR) {
    }
}

static void wait_for_events(struct tt_wakeup *wakeup, int set, uint64_t timeout_ns)
{
    struct epoll_event events[WAKEUP_EVENTS];
    struct timespec limit = tt_clock_timespec(timeout_ns);
    int count = epoll_pwait2(set, events, WAKEUP_EVENTS, timeout_ns == UINT64_MAX ? NULL : &limit, NULL);

    if (count < 0 && errno != EINTR) { /* an old kernel, or a sandbox that does not know the call */
        uint64_t ms = timeout_ns / TT_NS_PER_MS + 1;

        wakeup->is_coarse = true;
        count = epoll_wait(set, events, WAKEUP_EVENTS, timeout_ns == UINT64_MAX ? -1 : ms > 60000 ? 60000 : (int)ms);
    }
    for (int i = 0; i < count; i++) {
        if (events[i].data.fd == wakeup->event_fd) {
            drain_bell(wakeup);
        }
    }
}

static void awake(struct tt_wakeup *wakeup)
{
    atomic_fetch_add_explicit(&wakeup->wakeups, 1, memory_order_relaxed);
    tt_wakeup_call_off(wakeup);
}

static void sleep_on(struct tt_wakeup *wakeup, int set, uint64_t timeout_ns)
{
    wait_for_events(wakeup, set, timeout_ns);
    awake(wakeup);
}

void tt_wakeup_sleep(struct tt_wakeup *wakeup, uint64_t timeout_ns)
{
    sleep_on(wakeup, wakeup->epoll_fd, timeout_ns);
}

void tt_wakeup_nap(struct tt_wakeup *wakeup, uint64_t timeout_ns)
{
    sleep_on(wakeup, wakeup->nap_fd, timeout_ns);
}

void tt_wakeup_doze(struct tt_wakeup *wakeup, uint64_t timeout_ns)
{
    struct pollfd bell = {.fd = wakeup->event_fd, .events = POLLIN};
    struct timespec limit = tt_clock_timespec(timeout_ns);

    if (ppoll(&bell, 1, &limit, NULL) > 0) {
        drain_bell(wakeup);
    }
    awake(wakeup);
}
