/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A network namespace of a test's own, where it may change interfaces: needs privileges, so tests call
 * NETNS_ENTER() first, which skips them where there are none, and have netns_leave as teardown. After <cmocka.h> and
 * "skip.h".
 */
#ifndef TT_TESTS_NETNS_H
#define TT_TESTS_NETNS_H

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Where the test program started; -1 while it is there. */
static int netns_home_fd = -1;

static inline int netns_enter(void)
{
    netns_home_fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    if (netns_home_fd < 0) {
        return errno;
    }
    if (unshare(CLONE_NEWNET) != 0) {
        int error = errno;
        close(netns_home_fd);
        netns_home_fd = -1;
        return error;
    }
    return 0;
}

#define NETNS_ENTER()                                                                                                  \
    do {                                                                                                               \
        int netns_error = netns_enter();                                                                               \
        if (netns_error != 0) {                                                                                        \
            TT_SKIP("no network namespace of its own: %s", strerror(netns_error));                                     \
        }                                                                                                              \
    } while (0)

#define NETNS_ENTER_WITH_IPV6()                                                                                        \
    do {                                                                                                               \
        NETNS_ENTER();                                                                                                 \
        if (access("/proc/sys/net/ipv6", F_OK) != 0) {                                                                 \
            TT_SKIP("this system has no IPv6");                                                                        \
        }                                                                                                              \
    } while (0)

/* Back home, also after a failure; the namespace ends with its last descriptor. For cmocka_unit_test_teardown. */
static inline int netns_leave(void **state)
{
    (void)state;
    int failed = netns_home_fd >= 0 && setns(netns_home_fd, CLONE_NEWNET) != 0;
    if (netns_home_fd >= 0) {
        close(netns_home_fd);
        netns_home_fd = -1;
    }
    return failed;
}

/* Runs a shell command that must succeed. */
static inline void netns_run(const char *command)
{
    if (system(command) != 0) {
        fail_msg("failed: %s", command);
    }
}

/* Waits until an interface that is up has its carrier: the system notes one a little after it is there. */
static inline void netns_await_carrier(const char *name)
{
    char command[256];

    snprintf(command, sizeof command,
             "for try in $(seq 500); do ip -o link show dev %s | grep -q LOWER_UP && exit 0; sleep 0.01; done; exit 1",
             name);
    netns_run(command);
}

#endif
