/* SPDX-License-Identifier: BSD-3-Clause */
/* Sockets that children do not keep. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/socket.h"
#include "skip.h"

enum { CHILD_SECONDS = 20, LATE_MS = 10000 };

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

/* What `child` returns in a child made by fork(). */
static int in_a_child(int (*child)(const int *fds), const int *fds)
{
    int status;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        alarm(CHILD_SECONDS);
        _exit(child(fds));
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int count_open(const int *fds)
{
    int count = 0;
    for (; *fds >= 0; fds++) {
        count += is_open(*fds);
    }
    return count;
}

/* A listener, and both ends of a connection to it; then -1. */
static void open_three(int fds[4])
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(address);
    fds[0] = tt_socket_open(AF_INET, SOCK_STREAM);
    fds[1] = tt_socket_open(AF_INET, SOCK_STREAM);
    assert_int_equal(bind(fds[0], (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(fds[0], 1), 0);
    assert_int_equal(getsockname(fds[0], (struct sockaddr *)&address, &length), 0);
    assert_true(connect(fds[1], (struct sockaddr *)&address, length) == 0 || errno == EINPROGRESS);
    assert_int_equal(poll(&(struct pollfd){.fd = fds[0], .events = POLLIN}, 1, LATE_MS), 1);
    fds[2] = tt_socket_accept(fds[0]);
    assert_true(fds[2] >= 0);
    fds[3] = -1;
}

static void close_all(const int *fds)
{
    for (; *fds >= 0; fds++) {
        tt_socket_close(*fds);
        assert_false(is_open(*fds));
    }
}

static void none_blocks_or_survives_exec(void **state)
{
    int fds[4];
    (void)state;
    open_three(fds);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(fcntl(fds[i], F_GETFD), FD_CLOEXEC);
        assert_true((fcntl(fds[i], F_GETFL) & O_NONBLOCK) != 0);
    }
    close_all(fds);
}

static void a_child_has_none_and_its_parent_keeps_all(void **state)
{
    int fds[4];
    (void)state;
    open_three(fds);
    assert_int_equal(in_a_child(count_open, fds), 0);
    assert_int_equal(count_open(fds), 3);
    close_all(fds);
}

static void what_has_the_number_of_one_that_was_closed_stays_open_in_a_child(void **state)
{
    int fds[2] = {tt_socket_open(AF_INET, SOCK_DGRAM), -1};
    (void)state;
    tt_socket_close(fds[0]);
    assert_int_equal(open("/dev/null", O_RDONLY | O_CLOEXEC), fds[0]);
    assert_int_equal(in_a_child(count_open, fds), 1);
    close(fds[0]);
}

static int close_what_it_has_lost(const int *fds)
{
    int other = open("/dev/null", O_RDONLY | O_CLOEXEC);
    tt_socket_close(fds[0]);
    return other == fds[0] && is_open(other) ? 0 : 1;
}

static void a_child_that_closes_what_it_has_lost_closes_nothing_else(void **state)
{
    const int fds[] = {tt_socket_open(AF_INET, SOCK_DGRAM), -1};
    (void)state;
    assert_int_equal(in_a_child(close_what_it_has_lost, fds), 0);
    close_all(fds);
}

static int its_own_is_not_kept_by_its_child(const int *fds)
{
    const int own[] = {tt_socket_open(AF_INET, SOCK_DGRAM), -1};
    (void)fds;
    return own[0] < 0 || in_a_child(count_open, own) != 0;
}

static void a_child_opens_its_own(void **state)
{
    (void)state;
    assert_int_equal(in_a_child(its_own_is_not_kept_by_its_child, NULL), 0);
}

static void errors_are_the_systems(void **state)
{
    (void)state;
    assert_int_equal(tt_socket_open(AF_INET, 77), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(tt_socket_accept(-1), -1);
    assert_int_equal(errno, EBADF);
    errno = E2BIG;
    tt_socket_close(-1);
    tt_socket_close(1 << 30);
    assert_int_equal(errno, E2BIG);
}

static void there_may_be_thousands(void **state)
{
    enum { COUNT = 3000 };
    static int fds[COUNT + 1];
    struct rlimit before, limit;
    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    limit = before;
    limit.rlim_cur = before.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_cur < COUNT + 100) {
        TT_SKIP("this process may have only %llu descriptors", (unsigned long long)limit.rlim_cur);
    }
    for (int i = 0; i < COUNT; i++) {
        fds[i] = tt_socket_open(AF_INET, SOCK_DGRAM);
        assert_true(fds[i] >= 0);
    }
    fds[COUNT] = -1;
    assert_int_equal(in_a_child(count_open, fds), 0);
    close_all(fds);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

static atomic_bool enough;

static void *open_and_close(void *unused)
{
    (void)unused;
    while (!atomic_load(&enough)) {
        int fd = tt_socket_open(AF_INET, SOCK_DGRAM);
        tt_socket_close(fd);
    }
    return NULL;
}

static int count_sockets(const int *fds)
{
    int count = 0;
    (void)fds;
    for (int fd = 0; fd < 128; fd++) {
        int type;
        socklen_t length = sizeof(type);
        count += getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) == 0;
    }
    return count;
}

static void a_fork_finds_no_socket_that_a_thread_is_just_opening(void **state)
{
    pthread_t threads[2];
    const int others = count_sockets(NULL); /* this process may have been given one */
    (void)state;
    atomic_store(&enough, false);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, open_and_close, NULL), 0);
    }
    for (int i = 0; i < 200; i++) {
        assert_int_equal(in_a_child(count_sockets, NULL), others);
    }
    atomic_store(&enough, true);
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(none_blocks_or_survives_exec),
        cmocka_unit_test(a_child_has_none_and_its_parent_keeps_all),
        cmocka_unit_test(what_has_the_number_of_one_that_was_closed_stays_open_in_a_child),
        cmocka_unit_test(a_child_that_closes_what_it_has_lost_closes_nothing_else),
        cmocka_unit_test(a_child_opens_its_own),
        cmocka_unit_test(errors_are_the_systems),
        cmocka_unit_test(there_may_be_thousands),
        cmocka_unit_test(a_fork_finds_no_socket_that_a_thread_is_just_opening),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
