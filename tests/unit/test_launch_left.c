/* SPDX-License-Identifier: BSD-3-Clause */
/* What ranks leave behind that does not end with them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "launcher.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(orphans_that_end_are_reaped_while_ranks_run, setup, teardown),
        cmocka_unit_test_setup_teardown(what_goes_on_writing_when_the_ranks_have_ended_is_not_read_for_ever, setup,
                                        teardown),
    };
    /* What a launcher leaves behind comes here, where it is found. */
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
