/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: makes MPICH wait instead of poll where there are more ranks than cores, so that a comparison is with MPICH
 * at its best. Debian's build has no such mode: a rank that waits for a peer keeps the core which the peer needs.
 *
 * Normal path: preloaded (LD_PRELOAD), it stands before epoll_wait, which UCX's TCP transport calls without a time-out
 * whenever MPICH makes progress. After some calls that found nothing it gives the core away, and then sleeps in the
 * call until there is something, or for a millisecond at most, as progress may be due for other reasons.
 *
 * Failures: those of the system call.
 */
#include <sched.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { POLLS_BEFORE_SLEEP = 20, SLEEP_MS = 1 };

static int wait_events(int fd, struct epoll_event *events, int event_limit, int timeout_ms)
{
    return (int)syscall(SYS_epoll_pwait, fd, events, event_limit, timeout_ms, NULL, 0);
}

/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): the system's header has reserved names */
int epoll_wait(int fd, struct epoll_event *events, int event_limit, int timeout_ms)
{
    static _Thread_local unsigned empty_polls;
    int found = wait_events(fd, events, event_limit, timeout_ms);
    if (timeout_ms != 0 || found < 0) {
        return found;
    }
    if (found == 0 && ++empty_polls <= POLLS_BEFORE_SLEEP) {
        sched_yield();
    } else if (found == 0) {
        found = wait_events(fd, events, event_limit, SLEEP_MS);
    }
    if (found > 0) {
        empty_polls = 0;
    }
    return found;
}
