/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sleeping and waking. Normal path: prepare, a last look, epoll_pwait2 with nanoseconds (or epoll_wait, rounded up,
 * where the kernel lacks it), drain the bell. Failures: no descriptors left.
 */
#include "engine/wakeup.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/shortage.h"

static tutti_status add(int set, int fd, void *owner)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = owner};

    if (fd >= 0 && epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) != 0 && errno != EEXIST) {
        char why[TT_SHORTAGE_TEXT_BYTES];

        return tt_error(TT_PART_ENGINE, tt_shortage_status_or(errno, TUTTI_ERR_IO), "cannot watch descriptor %d: %s",
                        fd, tt_shortage_text(errno, why));
    }
    return TUTTI_OK;
}

tutti_status tt_wakeup_create(struct tt_wakeup **wakeup)
{
    struct tt_wakeup *made = calloc(1, sizeof *made);
    tutti_status status;

    if (made == NULL) {
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_NO_MEMORY, "no memory for a context");
    }
    made->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    made->moderated_fd = epoll_create1(EPOLL_CLOEXEC);
    made->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (made->epoll_fd < 0 || made->moderated_fd < 0 || made->event_fd < 0) {
        char why[TT_SHORTAGE_TEXT_BYTES];

        status = tt_error(TT_PART_ENGINE, tt_shortage_status_or(errno, TUTTI_ERR_IO), "no descriptor for sleeping: %s",
                          tt_shortage_text(errno, why));
        tt_wakeup_destroy(made);
        return status;
    }
    status = add(made->epoll_fd, made->event_fd, made);
    if (status == TUTTI_OK) {
        status = add(made->moderated_fd, made->event_fd, made);
    }
    if (status != TUTTI_OK) {
        tt_wakeup_destroy(made);
        return status;
    }
    tt_wakeup_check(made);
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
    if (wakeup->moderated_fd >= 0) {
        close(wakeup->moderated_fd);
    }
    if (wakeup->event_fd >= 0) {
        close(wakeup->event_fd);
    }
    free(wakeup);
}

tutti_status tt_wakeup_add(struct tt_wakeup *wakeup, int fd)
{
    tutti_status status = add(wakeup->epoll_fd, fd, NULL);

    return status == TUTTI_OK ? add(wakeup->moderated_fd, fd, NULL) : status;
}

tutti_status tt_wakeup_add_chunks(struct tt_wakeup *wakeup, int fd, void *owner)
{
    return add(wakeup->epoll_fd, fd, owner);
}

void tt_wakeup_remove(struct tt_wakeup *wakeup, int fd)
{
    if (fd >= 0) {
        epoll_ctl(wakeup->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
        epoll_ctl(wakeup->moderated_fd, EPOLL_CTL_DEL, fd, NULL); /* which may never have had it */
    }
}

static void add_once(int set, int fd)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLONESHOT, .data.ptr = NULL};

    if (fd >= 0 && epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) != 0 && errno == EEXIST) {
        epoll_ctl(set, EPOLL_CTL_MOD, fd, &event);
    }
}

void tt_wakeup_once(struct tt_wakeup *wakeup, int fd)
{
    add_once(wakeup->epoll_fd, fd);
    add_once(wakeup->moderated_fd, fd);
}

void tt_wakeup_ring(struct tt_wakeup *wakeup)
{
#ifdef TT_FAULT_CLEARED_AFTER_RING
    if (atomic_load_explicit(&wakeup->sleeping, memory_order_seq_cst)) {
        tt_wakeup_ring_always(wakeup);
        tt_wakeup_call_off(wakeup);
    }
    return;
#endif
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
    struct epoll_event events[TT_WAKEUP_EVENTS];
    struct timespec limit = tt_clock_timespec(timeout_ns);
    int count;

    assert(set == wakeup->epoll_fd || set == wakeup->moderated_fd);
    wakeup->ready_count = 0;
#ifdef TT_FAULT_DRAINED_BEFORE_SLEEP
    drain_bell(wakeup);
#endif
    count = epoll_pwait2(set, events, TT_WAKEUP_EVENTS, timeout_ns == UINT64_MAX ? NULL : &limit, NULL);

    if (count < 0 && errno != EINTR) { /* an old kernel, or a sandbox that does not know the call */
        uint64_t ms = timeout_ns / TT_NS_PER_MS + 1;

        wakeup->is_coarse = true;
        count = epoll_wait(set, events, TT_WAKEUP_EVENTS, timeout_ns == UINT64_MAX ? -1 : ms > 60000 ? 60000 : (int)ms);
    }
    assert(count <= TT_WAKEUP_EVENTS);
    for (int i = 0; i < count; i++) {
        if (events[i].data.ptr == wakeup) {
            drain_bell(wakeup);
        } else if (events[i].data.ptr != NULL) {
            wakeup->ready[wakeup->ready_count++] = events[i].data.ptr;
        }
    }
}

uint32_t tt_wakeup_look(const struct tt_wakeup *wakeup, void *ready[TT_WAKEUP_EVENTS])
{
    struct epoll_event events[TT_WAKEUP_EVENTS];
    int count = epoll_wait(wakeup->epoll_fd, events, TT_WAKEUP_EVENTS, 0);
    uint32_t ready_count = 0;

    for (int i = 0; i < count; i++) {
        if (events[i].data.ptr != wakeup && events[i].data.ptr != NULL) { /* the bell is for who sleeps */
            ready[ready_count++] = events[i].data.ptr;
        }
    }
    return ready_count;
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

void tt_wakeup_sleep_moderated(struct tt_wakeup *wakeup, uint64_t timeout_ns)
{
    sleep_on(wakeup, wakeup->moderated_fd, timeout_ns);
}

void tt_wakeup_sleep_until_rung(struct tt_wakeup *wakeup, uint64_t timeout_ns)
{
    struct pollfd bell = {.fd = wakeup->event_fd, .events = POLLIN};
    struct timespec limit = tt_clock_timespec(timeout_ns);

    wakeup->ready_count = 0;
    if (ppoll(&bell, 1, &limit, NULL) > 0) {
        drain_bell(wakeup);
    }
    awake(wakeup);
}

void tt_wakeup_check(const struct tt_wakeup *wakeup)
{
    assert(wakeup->epoll_fd >= 0);
    assert(wakeup->moderated_fd >= 0);
    assert(wakeup->event_fd >= 0);
    assert(wakeup->epoll_fd != wakeup->moderated_fd);
    assert(wakeup->ready_count <= TT_WAKEUP_EVENTS);
    for (uint32_t i = 0; i < wakeup->ready_count; i++) {
        assert(wakeup->ready[i] != NULL);
        assert(wakeup->ready[i] != wakeup); /* the bell */
    }
}
