/* SPDX-License-Identifier: BSD-3-Clause */
/* What ranks leave behind that does not end with them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <linux/capability.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher.h"
#include "skip.h"

enum { OTHER_USER = 65534, CANNOT = 77 };

static const char *own_program;

static void orphans_that_end_are_reaped_while_ranks_run(void **state)
{
    char flag[] = "/tmp/tutti-test-launch-XXXXXX", script[256];
    int children = 0, dead = 0;
    (void)state;
    temporary_flag(flag);
    snprintf(script, sizeof(script),
             "for i in 1 2 3 4 5 6 7 8 9 10; do (sh -c 'echo left' &); done; "
             "[ $TUTTI_RANK = 1 ] && exit; while [ -e %s ]; do sleep 0.02; done",
             flag);
    command(2, "sh", "-c", script);
    start();
    wait_for_lines(20);
    /* A rank that has ended stays, as its number names a group. */
    for (int i = 0; i < 10000 && !(children == 2 && dead == 1); i++) {
        fixture_sleep_ms(2);
        children = count_children(&dead);
    }
    unlink(flag);
    assert_int_equal(children, 2);
    assert_int_equal(dead, 1);
    finish();
    assert_int_equal(launcher.status, 0);
    assert_true(nothing_is_left());
}

/* Whose orphans nothing would tell from those of the ranks, so that the launcher adopts none. It reads the output so
 * slowly that there is always something more to read. */
static void have_a_child_that_reads_slowly(void)
{
    char buffer[8192];
    int ends[2];
    if (pipe(ends) != 0 || fork() != 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        return;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(ends[1]);
    while (read(ends[0], buffer, sizeof(buffer)) > 0) {
        fixture_sleep_ms(1);
    }
    _exit(0);
}

static void what_goes_on_writing_when_the_ranks_have_ended_is_not_read_for_ever(void **state)
{
    char flag[] = "/tmp/tutti-test-launch-XXXXXX", script[256];
    (void)state;
    temporary_flag(flag);
    snprintf(script, sizeof(script), "setsid sh -c 'rm %s; exec yes' & while [ -e %s ]; do sleep 0.02; done; sleep 0.3",
             flag, flag);
    launcher.options.prefix_output = true;
    launcher.before = have_a_child_that_reads_slowly;
    command(1, "sh", "-c", script);
    start();
    finish();
    assert_int_equal(launcher.status, 0);
    assert_string_equal(launcher.error_text, "");
    assert_true(nothing_is_left()); /* nobody reads what it writes */
}

/* Starts a process in a session of its own, which goes on as that user and says its number; false if it cannot. */
static bool leave_behind(uid_t user)
{
    char byte = 'r';
    int ends[2];
    if (pipe(ends) != 0) {
        return false;
    }
    if (fork() == 0) {
        setsid();
        if (setresuid(user, user, user) != 0) {
            _exit(1);
        }
        if (user != 0) {
            dprintf(STDOUT_FILENO, "%d\n", (int)getpid());
        }
        alarm(60);
        (void)!write(ends[1], &byte, 1);
        close(ends[0]);
        close(ends[1]);
        pause();
        _exit(0);
    }
    close(ends[1]);
    bool is_there = read(ends[0], &byte, 1) == 1;
    close(ends[0]);
    return is_there;
}

/* This program as a rank that runs as root. */
static int play_rank(void)
{
    return leave_behind(OTHER_USER) && leave_behind(0) ? 0 : CANNOT;
}

/* Leaves root no right to kill others' processes; its ranks have it again. */
static void lose_the_right_to_kill(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
    if (syscall(SYS_capget, &header, data) == 0) {
        data[CAP_TO_INDEX(CAP_KILL)].effective &= ~CAP_TO_MASK(CAP_KILL);
        (void)syscall(SYS_capset, &header, data);
    }
}

static void what_may_not_be_killed_is_said_and_not_waited_for(void **state)
{
    int pids[2], said, end = 0;
    (void)state;
    if (geteuid() != 0) {
        TT_SKIP("only root may become another user");
    }
    launcher.before = lose_the_right_to_kill;
    command(2, own_program, "--rank", NULL);
    start();
    finish();
    if (WEXITSTATUS(launcher.status) == CANNOT) {
        TT_SKIP("root may not become another user here");
    }
    assert_int_equal(sscanf(launcher.output_text, "%d\n%d\n", &pids[0], &pids[1]), 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(kill(pids[i], SIGKILL), 0);
    }
    assert_true(nothing_is_left()); /* what could be killed was */
    assert_int_equal(launcher.status, 0);
    (void)sscanf(launcher.error_text, "process %d and 1 more: cannot be ended: Operation not permitted\n%n", &said,
                 &end);
    assert_int_equal(end, strlen(launcher.error_text));
    assert_true(end > 0 && (said == pids[0] || said == pids[1]));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(orphans_that_end_are_reaped_while_ranks_run, setup, teardown),
        cmocka_unit_test_setup_teardown(what_may_not_be_killed_is_said_and_not_waited_for, setup, teardown),
        cmocka_unit_test_setup_teardown(what_goes_on_writing_when_the_ranks_have_ended_is_not_read_for_ever, setup,
                                        teardown),
    };
    own_program = argv[0];
    if (argc > 1) {
        return play_rank();
    }
    /* What a launcher leaves behind comes here, where it is found. */
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
