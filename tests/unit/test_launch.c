/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The launcher, with real processes: each test runs it in a process of its own, and adopts whatever that leaves behind.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "base/log.h"
#include "base/settings.h"
#include "bootstrap_fixture.h"
#include "launcher.h"
#include "skip.h"

static const char *own_program;

/* --- What ranks get ----------------------------------------------------------------------------------------------- */

static void every_rank_gets_the_job_in_its_environment(void **state)
{
    unsigned port;
    char expected[128];
    (void)state;
    setenv("TUTTI_RANK", "99", 1);
    setenv("TUTTI_ROOT_FD", "99", 1);
    int status = run(3, "echo \"$TUTTI_RANK of $TUTTI_SIZE at $TUTTI_ROOT, ${TUTTI_ROOT_FD:-none}.\"");
    unsetenv("TUTTI_RANK");
    unsetenv("TUTTI_ROOT_FD");
    assert_int_equal(status, 0);
    assert_string_equal(launcher.error_text, "");
    assert_int_equal(occurrences(launcher.output_text, "\n"), 3);
    assert_int_equal(sscanf(strstr(launcher.output_text, "127.0.0.1:"), "127.0.0.1:%u", &port), 1);
    for (int rank = 0; rank < 3; rank++) {
        int length = snprintf(expected, sizeof(expected), "%d of 3 at 127.0.0.1:%u, ", rank, port);
        const char *found = strstr(launcher.output_text, expected);
        assert_non_null(found);
        assert_int_equal(strncmp(found + length, "none.", 5) == 0, rank != 0);
        assert_int_equal(found[length] >= '3' && found[length] <= '9', rank == 0);
    }
}

static void further_variables_win_over_inherited_ones_but_not_over_the_job(void **state)
{
    static const char *const environment[] = {"TUTTI_CHUNK=4K", "PONY=", "TUTTI_SIZE=77", NULL};
    (void)state;
    setenv("TUTTI_CHUNK", "1K", 1);
    setenv("TUTTI_CHUNKY", "inherited", 1);
    launcher.options.environment = environment;
    int status = run(1, "env | grep -c ^TUTTI_CHUNK=; echo $TUTTI_CHUNK,${PONY-unset},$TUTTI_SIZE,$TUTTI_CHUNKY");
    unsetenv("TUTTI_CHUNK");
    unsetenv("TUTTI_CHUNKY");
    assert_int_equal(status, 0);
    assert_string_equal(launcher.output_text, "1\n4K,,1,inherited\n");
}

static void only_rank_0_inherits_a_descriptor_and_it_listens(void **state)
{
    (void)state;
    launcher.options.prefix_output = true;
    assert_int_equal(run(2, "for fd in /proc/$$/fd/*; do readlink $fd; done | grep -c socket: || true"), 0);
    assert_int_equal(strlen(launcher.output_text), strlen("[0] 1\n[1] 0\n"));
    assert_non_null(strstr(launcher.output_text, "[0] 1\n"));
    assert_non_null(strstr(launcher.output_text, "[1] 0\n"));
}

static void ignore_child_signals(void)
{
    signal(SIGCHLD, SIG_IGN);
}

static void ranks_have_no_signal_blocked_and_statuses_survive_an_ignored_child_signal(void **state)
{
    (void)state;
    launcher.before = ignore_child_signals;
    assert_int_equal(run(2, "grep SigBlk /proc/self/status; exit 9"), 9);
    assert_string_equal(launcher.output_text, "SigBlk:\t0000000000000000\nSigBlk:\t0000000000000000\n");
}

static void provide_input(void)
{
    int fd = temporary_file();
    assert_int_equal(write(fd, "the input\n", 10), 10);
    lseek(fd, 0, SEEK_SET);
    dup2(fd, STDIN_FILENO);
    close(fd);
}

static void rank_0_reads_standard_input_and_the_others_nothing(void **state)
{
    (void)state;
    launcher.before = provide_input;
    launcher.options.prefix_output = true;
    assert_int_equal(run(3, "cat"), 0);
    assert_string_equal(launcher.output_text, "[0] the input\n");
}

static void close_standard_descriptors(void)
{
    close(STDIN_FILENO);
    close(STDOUT_FILENO);
}

static void closed_standard_descriptors_do_not_mix_with_the_jobs(void **state)
{
    (void)state;
    launcher.before = close_standard_descriptors;
    assert_int_equal(run(2, "cat; readlink /proc/$$/fd/0 >&2; exec 3>&1; test \"${TUTTI_ROOT_FD:-3}\" -ge 3"), 0);
    assert_string_equal(launcher.error_text, "/dev/null\n/dev/null\n");
}

/* --- Output ------------------------------------------------------------------------------------------------------- */

static void lines_carry_their_rank_and_stay_whole(void **state)
{
    (void)state;
    launcher.options.prefix_output = true;
    assert_int_equal(
        run(4, "i=0; while [ $i -lt 50 ]; do printf 'abc '; echo \"def $i\"; echo err >&2; i=$((i+1)); done"), 0);
    for (int rank = 0; rank < 4; rank++) {
        char line[64];
        for (int i = 0; i < 50; i++) {
            snprintf(line, sizeof(line), "[%d] abc def %d\n", rank, i);
            assert_int_equal(occurrences(launcher.output_text, line), 1);
        }
        snprintf(line, sizeof(line), "[%d] err\n", rank);
        assert_int_equal(occurrences(launcher.error_text, line), 50);
    }
    assert_int_equal(occurrences(launcher.output_text, "\n"), 200);
    assert_int_equal(occurrences(launcher.error_text, "\n"), 200);
}

static void a_last_line_without_an_end_is_completed(void **state)
{
    (void)state;
    launcher.options.prefix_output = true;
    assert_int_equal(run(1, "printf 'one\\n\\nlast'"), 0);
    assert_string_equal(launcher.output_text, "[0] one\n[0] \n[0] last\n");
}

static void a_long_line_is_passed_on_in_pieces_without_loss(void **state)
{
    (void)state;
    launcher.options.prefix_output = true;
    assert_int_equal(run(1, "head -c 10000 /dev/zero | tr '\\0' x; echo; echo y"), 0);
    assert_int_equal(occurrences(launcher.output_text, "x"), 10000);
    assert_int_equal(occurrences(launcher.output_text, "[0] x"), 3);
    assert_int_equal(occurrences(launcher.output_text, "[0] y\n"), 1);
    assert_int_equal(strlen(launcher.output_text), 10000 + 3 * 5 + 6);
}

static void write_to_full(int standard)
{
    int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
    dup2(fd, standard);
    close(fd);
}

static void fill_standard_output(void)
{
    write_to_full(STDOUT_FILENO);
}

static void fill_standard_error(void)
{
    write_to_full(STDERR_FILENO);
}

static void output_that_cannot_be_written_is_a_failure_of_which_no_rank_ends(void **state)
{
    static const char lost[] = "tutti run: standard output: No space left on device\n";
    (void)state;
    launcher.options.prefix_output = true;
    launcher.before = fill_standard_output;
    assert_int_equal(run(2, "head -c 300000 /dev/zero | tr '\\0' x; echo; echo done >&2"), 1);
    assert_string_equal(launcher.output_text, "");
    assert_int_equal(occurrences(launcher.error_text, "] done\n"), 2);
    assert_int_equal(occurrences(launcher.error_text, "\n"), 3);
    assert_int_equal(occurrences(launcher.error_text, lost), 1);
    assert_string_equal(launcher.error_text + strlen(launcher.error_text) - strlen(lost), lost);
    assert_int_equal(run(1, "echo lost; exit 7"), 7);
    assert_int_equal(occurrences(launcher.error_text, lost), 1);
    assert_int_equal(run(1, "echo written >&2"), 0);
    assert_string_equal(launcher.error_text, "[0] written\n");
    launcher.before = fill_standard_error;
    assert_int_equal(run(1, "echo written; echo lost >&2"), 1);
    assert_string_equal(launcher.output_text, "[0] written\n");
}

/* As by >&0. */
static void give_output_that_is_for_reading(void)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) == 0) {
        dup2(ends[0], STDOUT_FILENO); /* whose other end stays open */
        close(ends[0]);
    }
}

static void output_that_is_for_reading_is_a_failure_and_not_waited_for(void **state)
{
    (void)state;
    launcher.options.prefix_output = true;
    launcher.before = give_output_that_is_for_reading;
    assert_int_equal(run(1, "echo lost; echo written >&2"), 1);
    assert_int_equal(occurrences(launcher.error_text, "[0] written\n"), 1);
    assert_int_equal(occurrences(launcher.error_text, "tutti run: standard output: Bad file descriptor\n"), 1);
}

/* A pipe that does not block, and is full before its reader begins, who says how much it was. */
static void give_output_that_does_not_block(void)
{
    char buffer[8192];
    int ends[2];
    if (pipe(ends) != 0 || fork() != 0) {
        dup2(ends[1], STDOUT_FILENO);
        fcntl(STDOUT_FILENO, F_SETFL, O_NONBLOCK);
        close(ends[0]);
        close(ends[1]);
        return;
    }
    close(ends[1]);
    int unread = 0;
    long bytes = 0;
    for (int i = 0; i < 10000 && ioctl(ends[0], FIONREAD, &unread) == 0 && unread < PIPE_FULL_BYTES; i++) {
        fixture_sleep_ms(2);
    }
    for (ssize_t got; (got = read(ends[0], buffer, sizeof(buffer))) > 0;) {
        bytes += got;
    }
    dprintf(launcher.output, "%ld bytes\n", bytes);
    _exit(0);
}

static void output_that_does_not_block_is_waited_for(void **state)
{
    (void)state;
    launcher.options.prefix_output = true;
    launcher.before = give_output_that_does_not_block;
    command(1, "sh", "-c", "head -c 40000 /dev/zero | tr '\\0' '\\n'");
    start();
    assert_int_equal(waitpid(launcher.pid, &launcher.status, 0), launcher.pid);
    assert_int_equal(launcher.status, 0);
    assert_true(nothing_is_left()); /* the reader, too */
    read_text(launcher.output, launcher.output_text);
    assert_string_equal(launcher.output_text, "200000 bytes\n"); /* "[0] \n" */
}

static int terminal_master;

static void write_to_the_master(void)
{
    dup2(terminal_master, STDOUT_FILENO);
}

/* As of a program that shows what the ranks say on a terminal of its own. */
static void output_to_a_terminal_s_master_reaches_that_terminal(void **state)
{
    static const char expected[] = "[0] one\n";
    enum { LENGTH = sizeof(expected) - 1 };
    char text[LENGTH];
    struct termios raw;
    (void)state;
    terminal_master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (terminal_master < 0 || grantpt(terminal_master) != 0 || unlockpt(terminal_master) != 0) {
        TT_SKIP("no terminals here");
    }
    struct pollfd terminal = {.fd = open(ptsname(terminal_master), O_RDWR | O_NOCTTY | O_CLOEXEC), .events = POLLIN};
    assert_int_equal(tcgetattr(terminal.fd, &raw), 0);
    cfmakeraw(&raw);
    raw.c_cc[VMIN] = LENGTH;
    assert_int_equal(tcsetattr(terminal.fd, TCSANOW, &raw), 0);
    launcher.options.prefix_output = true;
    launcher.before = write_to_the_master;
    assert_int_equal(run(1, "echo one"), 0);
    assert_int_equal(poll(&terminal, 1, 10000), 1); /* it gets there after the launcher's end, but it does */
    assert_int_equal(read(terminal.fd, text, LENGTH), LENGTH);
    assert_memory_equal(text, expected, LENGTH);
    close(terminal.fd);
    close(terminal_master);
}

static void break_standard_output(void)
{
    int ends[2];
    signal(SIGPIPE, SIG_DFL);
    if (pipe(ends) == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
    }
}

/* As by `| head`. */
static void ranks_go_on_when_nobody_reads_their_output_any_more(void **state)
{
    (void)state;
    launcher.options.prefix_output = true;
    launcher.before = break_standard_output;
    assert_int_equal(run(1, "echo lost; sleep 0.2; echo done >&2"), 1);
    assert_string_equal(launcher.error_text, "[0] done\ntutti run: standard output: Broken pipe\n");
    assert_int_equal(run(1, "kill -PIPE $$"), 128 + SIGPIPE); /* what the launcher ignores, ranks do not */
}

static void lower_the_soft_limit_of_descriptors(void)
{
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = 40;
    setrlimit(RLIMIT_NOFILE, &limit);
}

static void prefixes_need_no_higher_soft_limit_of_descriptors_and_ranks_keep_theirs(void **state)
{
    (void)state;
    launcher.options.prefix_output = true;
    launcher.before = lower_the_soft_limit_of_descriptors;
    assert_int_equal(run(64, "ulimit -n"), 0);
    assert_int_equal(occurrences(launcher.output_text, "] 40\n"), 64);
    assert_string_equal(launcher.error_text, "");
}

/* --- Ends --------------------------------------------------------------------------------------------------------- */

static void the_first_rank_that_fails_decides_the_status(void **state)
{
    (void)state;
    assert_int_equal(run(4, "case $TUTTI_RANK in 2) exit 7;; 1) sleep 1; exit 3;; esac"), 7);
    assert_string_equal(launcher.error_text, "rank 2: exit status 7\nrank 1: exit status 3\n");
}

static void a_killed_rank_is_reported_with_its_signal(void **state)
{
    (void)state;
    assert_int_equal(run(4, "[ $TUTTI_RANK != 3 ] || kill -9 $$"), 128 + 9);
    assert_string_equal(launcher.error_text, "rank 3: killed by signal 9 (Killed)\n");
}

static void the_others_are_ended_after_the_grace(void **state)
{
    (void)state;
    launcher.options.grace_ns = 200000000;
    assert_int_equal(run(4, "[ $TUTTI_RANK = 1 ] && exit 5; exec sleep 100"), 5);
    assert_int_equal(occurrences(launcher.error_text, "rank 1: exit status 5\n"), 1);
    assert_int_equal(
        occurrences(launcher.error_text, "ranks 0, 2-3: still running 200 ms after the first failure, ended\n"), 1);
    assert_int_equal(occurrences(launcher.error_text, ": killed by signal 15 (Terminated)\n"), 3);
    assert_in_range(launcher.took_ms, 200, 15000);
}

static void who_ignores_the_request_to_end_is_killed(void **state)
{
    (void)state;
    char flag[] = "/tmp/tutti-test-launch-XXXXXX", script[256];
    temporary_flag(flag);
    snprintf(script, sizeof(script),
             "if [ $TUTTI_RANK = 1 ]; then while [ -e %s ]; do sleep 0.02; done; exit 5; fi; "
             "trap '' TERM; rm %s; while :; do sleep 0.1; done",
             flag, flag);
    launcher.options.grace_ns = 100000000;
    assert_int_equal(run(2, script), 5);
    assert_non_null(strstr(launcher.error_text, "rank 0: killed by signal 9 (Killed)\n"));
    assert_in_range(launcher.took_ms, 2100, 15000);
}

static void ranks_that_end_within_the_grace_are_left_alone(void **state)
{
    (void)state;
    launcher.options.grace_ns = UINT64_C(5000000000);
    assert_int_equal(run(2, "[ $TUTTI_RANK = 1 ] && exit 5; sleep 0.3; echo done"), 5);
    assert_string_equal(launcher.output_text, "done\n");
    assert_string_equal(launcher.error_text, "rank 1: exit status 5\n");
}

static void many_ranks_start_and_end(void **state)
{
    (void)state;
    launcher.options.prefix_output = true;
    assert_int_equal(run(64, "echo here"), 0);
    assert_int_equal(occurrences(launcher.output_text, "] here\n"), 64);
}

/* The shell reads such a file; exec copies its arguments. */
static void a_script_that_names_no_interpreter_gets_all_of_its_arguments(void **state)
{
    enum { ARGUMENTS = 20000 };
    static const char script[] = "[ $# = 20000 ] && exit 5\n";
    static const char *words[ARGUMENTS + 2];
    char path[] = "/tmp/tutti-test-launch-XXXXXX";
    (void)state;
    temporary_flag(path);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, script, sizeof(script) - 1), sizeof(script) - 1);
    assert_int_equal(fchmod(fd, 0700), 0);
    close(fd);
    words[0] = path;
    for (int i = 0; i < ARGUMENTS; i++) {
        words[i + 1] = "a";
    }
    launcher.options.rank_count = 2;
    launcher.options.argv = (char *const *)words;
    start();
    finish();
    unlink(path);
    assert_int_equal(WEXITSTATUS(launcher.status), 5);
}

static void a_program_that_is_not_there_is_named(void **state)
{
    (void)state;
    command(3, "no-such-program", NULL, NULL);
    start();
    finish();
    assert_true(nothing_is_left());
    assert_int_equal(WEXITSTATUS(launcher.status), LAUNCH_FAILED);
    assert_string_equal(launcher.error_text, "error: cannot run 'no-such-program': No such file or directory\n");
    setup(NULL);
    command(1, "/etc/passwd", NULL, NULL);
    start();
    finish();
    assert_string_equal(launcher.error_text, "error: cannot run '/etc/passwd': Permission denied\n");
}

/* --- Signals ------------------------------------------------------------------------------------------------------ */

static void signals_are_passed_on_to_all_ranks(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(passed_on) / sizeof(passed_on[0]); i++) {
        setup(NULL);
        start_script(3, "trap 'echo got; exit 5' INT TERM HUP; echo ready; while :; do sleep 0.02; done");
        kill(launcher.pid, passed_on[i]);
        finish();
        assert_true(nothing_is_left());
        assert_int_equal(WEXITSTATUS(launcher.status), 5);
        assert_int_equal(occurrences(launcher.output_text, "got\n"), 3);
    }
}

static void a_killed_rank_counts_as_first_when_the_order_is_not_known(void **state)
{
    char trigger[] = "/tmp/tutti-test-launch-XXXXXX";
    char script[256];
    (void)state;
    temporary_flag(trigger);
    snprintf(script, sizeof(script),
             "echo ready; while [ -e %s ]; do sleep 0.02; done; echo; [ $TUTTI_RANK = 0 ] && exit 3; kill -9 $$",
             trigger);
    start_script(2, script);
    /* A launcher that is not scheduled until both ranks have failed. */
    kill(launcher.pid, SIGSTOP);
    unlink(trigger);
    wait_for_dead_ranks(2);
    kill(launcher.pid, SIGCONT);
    finish();
    assert_true(nothing_is_left());
    assert_int_equal(WEXITSTATUS(launcher.status), 128 + 9);
    assert_string_equal(launcher.error_text, "rank 1: killed by signal 9 (Killed)\nrank 0: exit status 3\n");
}

/* The launcher's exit status if rank 1 is killed so long after it was seen that rank 0 had ended with 3; with a signal
 * to the launcher between the two, unless that is 0. */
static int status_if_killed_later(unsigned after_ms, int signal)
{
    setup(NULL);
    command(2, "sh", "-c", "trap '' INT; [ $TUTTI_RANK = 0 ] && exit 3; echo $$; exec sleep 100");
    start();
    wait_for_lines(1);
    int pid = (int)strtol(launcher.output_text, NULL, 10);
    assert_true(pid > 1);
    wait_for_error("rank 0: exit status 3\n");
    if (signal != 0) {
        kill(launcher.pid, signal);
    }
    fixture_sleep_ms(after_ms);
    kill(pid, SIGKILL);
    finish();
    assert_true(nothing_is_left());
    assert_string_equal(launcher.error_text, "rank 0: exit status 3\nrank 1: killed by signal 9 (Killed)\n");
    return WEXITSTATUS(launcher.status);
}

static void a_killed_rank_counts_as_first_if_it_is_seen_soon_after_the_first(void **state)
{
    int status = 0;
    (void)state;
    for (int i = 0; i < 20 && status != 128 + 9; i++) { /* on a machine that is busy it may be seen too late */
        status = status_if_killed_later(30, 0);
    }
    assert_int_equal(status, 128 + 9);
}

static void a_rank_that_is_killed_later_does_not_count_as_first(void **state)
{
    (void)state;
    assert_int_equal(status_if_killed_later(400, 0), 3);
}

static void a_rank_that_is_killed_after_a_request_to_end_does_not_count_as_first(void **state)
{
    (void)state;
    assert_int_equal(status_if_killed_later(30, SIGINT), 3);
}

/* Rank 0 ends by itself, as it may when it hears of another one's end. */
static void a_rank_that_the_request_to_end_has_killed_counts_as_first_if_it_is_seen_soon_after(void **state)
{
    int status = 0;
    (void)state;
    for (int i = 0; i < 20 && status != 128 + SIGTERM; i++) {
        setup(NULL);
        start_script(2,
                     "trap '[ $TUTTI_RANK = 0 ] && exit 3; sleep 0.03; trap - TERM; kill -TERM $$' TERM; echo ready; "
                     "while :; do sleep 0.01; done");
        kill(launcher.pid, SIGTERM);
        finish();
        assert_true(nothing_is_left());
        status = WEXITSTATUS(launcher.status);
    }
    assert_int_equal(status, 128 + SIGTERM);
    assert_true(launcher.was_asked_to_end);
}

static void a_rank_that_ended_before_the_request_to_end_was_not_asked(void **state)
{
    (void)state;
    command(2, "sh", "-c", "[ $TUTTI_RANK = 1 ] && exec sleep 100; ulimit -c 0; kill -SEGV $$");
    start();
    wait_for_error("rank 0: killed by signal 11 (Segmentation fault)\n");
    kill(launcher.pid, SIGINT);
    finish();
    assert_true(nothing_is_left());
    assert_int_equal(WEXITSTATUS(launcher.status), 128 + SIGSEGV);
    assert_non_null(strstr(launcher.error_text, "rank 1: killed by signal 2 (Interrupt)\n"));
    assert_false(launcher.was_asked_to_end);
}

/* One that comes when the launch is over does not end the launcher. */
static void block_interrupts(void)
{
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGINT);
    sigprocmask(SIG_BLOCK, &mask, NULL);
}

static void the_third_signal_kills_ranks_that_ignore_it(void **state)
{
    (void)state;
    launcher.before = block_interrupts;
    start_script(2, "trap '' INT; echo ready; while :; do sleep 0.05; done");
    for (int i = 0; i < 2; i++) {
        kill(launcher.pid, SIGINT);
        fixture_sleep_ms(100);
        assert_int_equal(waitpid(launcher.pid, NULL, WNOHANG), 0);
    }
    /* The third; signals that come before the launcher has seen the last one are none. */
    siginfo_t end = {.si_pid = 0};
    for (int i = 0; i < 200 && end.si_pid == 0; i++) {
        kill(launcher.pid, SIGINT);
        fixture_sleep_ms(100);
        assert_int_equal(waitid(P_PID, (id_t)launcher.pid, &end, WEXITED | WNOHANG | WNOWAIT), 0);
    }
    assert_int_equal(end.si_pid, launcher.pid);
    finish();
    assert_true(nothing_is_left());
    assert_int_equal(WEXITSTATUS(launcher.status), 128 + SIGKILL);
}

static void who_ignores_a_request_to_end_from_outside_is_killed_after_the_grace(void **state)
{
    static const int asking[] = {SIGTERM, SIGHUP};
    (void)state;
    for (size_t i = 0; i < sizeof(asking) / sizeof(asking[0]); i++) {
        setup(NULL);
        launcher.options.grace_ns = 300000000;
        start_script(2, "trap '' TERM HUP; echo ready; while :; do sleep 0.05; done");
        unsigned asked_ms = fixture_now_ms();
        kill(launcher.pid, asking[i]);
        finish();
        assert_true(nothing_is_left());
        assert_true(fixture_now_ms() - asked_ms >= 300);
        assert_int_equal(WEXITSTATUS(launcher.status), 128 + SIGKILL);
    }
}

static void ignore_hang_ups(void)
{
    signal(SIGHUP, SIG_IGN);
}

/* As under nohup. */
static void a_signal_that_was_ignored_at_the_start_stays_so(void **state)
{
    (void)state;
    launcher.before = ignore_hang_ups;
    launcher.options.grace_ns = 300000000;
    start_script(2, "echo ready; sleep 1; echo done");
    kill(launcher.pid, SIGHUP);
    finish();
    assert_true(nothing_is_left());
    assert_int_equal(launcher.status, 0);
    assert_int_equal(occurrences(launcher.output_text, "done\n"), 2);
}

static void ranks_die_with_the_launcher(void **state)
{
    (void)state;
    start_script(4, "echo ready; exec sleep 100");
    kill(launcher.pid, SIGKILL);
    finish();
    assert_true(nothing_is_left());
}

/* --- What ranks leave behind -------------------------------------------------------------------------------------- */

static void children_that_ranks_leave_behind_are_ended(void **state)
{
    (void)state;
    assert_int_equal(run(2, "sleep 100 & echo"), 0);
    assert_in_range(launcher.took_ms, 0, 15000);
}

static void children_that_leave_group_and_session_are_ended_too(void **state)
{
    (void)state;
    launcher.options.prefix_output = true; /* and the pipe that they hold open is not waited for */
    assert_int_equal(run(2, "setsid sh -c 'sleep 100 & sleep 100' & sleep 0.2"), 0);
    assert_in_range(launcher.took_ms, 0, 15000);
}

static void start_own_child(void)
{
    if (fork() == 0) {
        fixture_sleep_ms(700);
        dprintf(STDOUT_FILENO, "still here\n");
        _exit(0);
    }
}

static void earlier_children_of_the_process_are_left_alone(void **state)
{
    (void)state;
    launcher.before = start_own_child;
    command(2, "true", NULL, NULL);
    start();
    assert_int_equal(waitpid(launcher.pid, &launcher.status, 0), launcher.pid);
    assert_int_equal(launcher.status, 0);
    assert_true(nothing_is_left());
    read_text(launcher.output, launcher.output_text);
    assert_string_equal(launcher.output_text, "still here\n");
}

/* --- With the bootstrap ------------------------------------------------------------------------------------------- */

/* This program as a rank: bootstraps from its environment; rank 2 may die before the second allgather. */
static int play_rank(bool dies)
{
    struct fixture_rank self = {.delay_ms = 0};
    if (tt_settings_load(&self.settings) != TUTTI_OK ||
        tt_bootstrap_create(&self.settings, &self.bootstrap) != TUTTI_OK) {
        return 20;
    }
    fixture_allgather(&self, 100, false);
    if (self.result != 0 || self.wrong_data) {
        return 21;
    }
    if (dies && self.settings.rank == 2) {
        raise(SIGKILL);
    }
    fixture_allgather(&self, 1 << 20, true);
    int failed_rank = tt_bootstrap_failed_rank(self.bootstrap);
    tt_bootstrap_destroy(self.bootstrap);
    if (dies) {
        return failed_rank == 2 ? 22 : 23;
    }
    return self.result == 0 && !self.wrong_data ? 0 : 24;
}

static void run_this_program(const char *part)
{
    command(5, own_program, part, NULL);
    start();
    finish();
    assert_true(nothing_is_left());
}

static void launched_ranks_bootstrap(void **state)
{
    (void)state;
    run_this_program("--rank");
    assert_string_equal(launcher.error_text, "");
    assert_int_equal(launcher.status, 0);
}

static void the_death_of_a_launched_rank_is_told_to_the_others_and_reported(void **state)
{
    static const char *const environment[] = {"TUTTI_LOG=error", NULL};
    (void)state;
    launcher.options.environment = environment;
    run_this_program("--dying-rank");
    assert_int_equal(WEXITSTATUS(launcher.status), 128 + SIGKILL);
    assert_int_equal(occurrences(launcher.error_text, "rank 2: killed by signal 9 (Killed)\n"), 1);
    assert_int_equal(occurrences(launcher.error_text, ": exit status 22\n"), 4);
    assert_int_equal(occurrences(launcher.error_text, "error engine: rank 2 died or left during allgather 2\n"), 4);
    assert_in_range(launcher.took_ms, 0, 15000);
}

/* This program as a rank that dies before it has come, or as another one: half of them come later than that. Of an
 * `exposed` death another rank learns, and ends of it, before the launcher can see it. */
static int play_early(uint32_t victim, bool exposed)
{
    struct fixture_rank self = {.delay_ms = 0};
    char expected[96];
    const char *flag = getenv("EXPOSED_FLAG"); /* there until that other rank ends */
    if (flag == NULL || tt_settings_load(&self.settings) != TUTTI_OK) {
        return 20;
    }
    if (self.settings.rank == victim) {
        while (exposed && access(flag, F_OK) == 0) {
            fixture_sleep_ms(1);
        }
        fixture_sleep_ms(exposed ? 5 : 0); /* the launcher waits 100 for who was killed */
        raise(SIGKILL);
    }
    if (exposed && self.settings.rank == 3) {
        unlink(flag);
        return 28;
    }
    fixture_sleep_ms(self.settings.rank % 2 == 1 ? 500 : 0);
    if (tt_bootstrap_create(&self.settings, &self.bootstrap) != TUTTI_ERR_PEER_FAILED) {
        return 26;
    }
    snprintf(expected, sizeof(expected), "rank %u ended before all ranks had come together", victim);
    return strcmp(tt_last_error(), expected) == 0 ? 25 : 27;
}

static void run_early(const char *part, const char *victim, int told)
{
    char flag[] = "/tmp/tutti-test-launch-XXXXXX", variable[64], killed[64];
    const char *const environment[] = {"TUTTI_LOG=none", "TUTTI_BOOTSTRAP_TIMEOUT=60s", variable, NULL};
    temporary_flag(flag);
    snprintf(variable, sizeof(variable), "EXPOSED_FLAG=%s", flag);
    launcher.options.environment = environment;
    command(5, own_program, part, victim);
    start();
    finish();
    assert_true(nothing_is_left());
    (void)unlink(flag);
    snprintf(killed, sizeof(killed), "rank %s: killed by signal 9 (Killed)\n", victim);
    assert_int_equal(occurrences(launcher.error_text, killed), 1);
    assert_int_equal(occurrences(launcher.error_text, ": exit status 25\n"), told);
    assert_in_range(launcher.took_ms, 400, 8000); /* not the grace, let alone the time-out */
}

static void a_rank_that_dies_before_it_has_come_is_told_to_all(void **state)
{
    (void)state;
    run_early("--early", "2", 4);
}

static void the_last_rank_that_dies_before_it_has_come_is_told_to_all(void **state)
{
    (void)state;
    run_early("--early", "4", 4);
}

static void rank_0_that_dies_before_it_has_come_is_told_to_all(void **state)
{
    (void)state;
    run_early("--early", "0", 4);
}

static void who_ended_because_of_a_killed_rank_is_not_blamed(void **state)
{
    (void)state;
    run_early("--exposed", "2", 3);
    run_early("--exposed", "0", 3);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_rank_gets_the_job_in_its_environment, setup, teardown),
        cmocka_unit_test_setup_teardown(further_variables_win_over_inherited_ones_but_not_over_the_job, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(only_rank_0_inherits_a_descriptor_and_it_listens, setup, teardown),
        cmocka_unit_test_setup_teardown(ranks_have_no_signal_blocked_and_statuses_survive_an_ignored_child_signal,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(rank_0_reads_standard_input_and_the_others_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(closed_standard_descriptors_do_not_mix_with_the_jobs, setup, teardown),
        cmocka_unit_test_setup_teardown(lines_carry_their_rank_and_stay_whole, setup, teardown),
        cmocka_unit_test_setup_teardown(a_last_line_without_an_end_is_completed, setup, teardown),
        cmocka_unit_test_setup_teardown(a_long_line_is_passed_on_in_pieces_without_loss, setup, teardown),
        cmocka_unit_test_setup_teardown(output_that_cannot_be_written_is_a_failure_of_which_no_rank_ends, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(output_that_is_for_reading_is_a_failure_and_not_waited_for, setup, teardown),
        cmocka_unit_test_setup_teardown(output_that_does_not_block_is_waited_for, setup, teardown),
        cmocka_unit_test_setup_teardown(output_to_a_terminal_s_master_reaches_that_terminal, setup, teardown),
        cmocka_unit_test_setup_teardown(ranks_go_on_when_nobody_reads_their_output_any_more, setup, teardown),
        cmocka_unit_test_setup_teardown(prefixes_need_no_higher_soft_limit_of_descriptors_and_ranks_keep_theirs, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(the_first_rank_that_fails_decides_the_status, setup, teardown),
        cmocka_unit_test_setup_teardown(a_killed_rank_is_reported_with_its_signal, setup, teardown),
        cmocka_unit_test_setup_teardown(a_killed_rank_counts_as_first_when_the_order_is_not_known, setup, teardown),
        cmocka_unit_test_setup_teardown(a_killed_rank_counts_as_first_if_it_is_seen_soon_after_the_first, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_rank_that_is_killed_later_does_not_count_as_first, setup, teardown),
        cmocka_unit_test_setup_teardown(a_rank_that_is_killed_after_a_request_to_end_does_not_count_as_first, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(the_others_are_ended_after_the_grace, setup, teardown),
        cmocka_unit_test_setup_teardown(who_ignores_the_request_to_end_is_killed, setup, teardown),
        cmocka_unit_test_setup_teardown(ranks_that_end_within_the_grace_are_left_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(many_ranks_start_and_end, setup, teardown),
        cmocka_unit_test_setup_teardown(a_script_that_names_no_interpreter_gets_all_of_its_arguments, setup, teardown),
        cmocka_unit_test_setup_teardown(a_program_that_is_not_there_is_named, setup, teardown),
        cmocka_unit_test_setup_teardown(signals_are_passed_on_to_all_ranks, setup, teardown),
        cmocka_unit_test_setup_teardown(
            a_rank_that_the_request_to_end_has_killed_counts_as_first_if_it_is_seen_soon_after, setup, teardown),
        cmocka_unit_test_setup_teardown(a_rank_that_ended_before_the_request_to_end_was_not_asked, setup, teardown),
        cmocka_unit_test_setup_teardown(the_third_signal_kills_ranks_that_ignore_it, setup, teardown),
        cmocka_unit_test_setup_teardown(who_ignores_a_request_to_end_from_outside_is_killed_after_the_grace, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_signal_that_was_ignored_at_the_start_stays_so, setup, teardown),
        cmocka_unit_test_setup_teardown(ranks_die_with_the_launcher, setup, teardown),
        cmocka_unit_test_setup_teardown(children_that_ranks_leave_behind_are_ended, setup, teardown),
        cmocka_unit_test_setup_teardown(children_that_leave_group_and_session_are_ended_too, setup, teardown),
        cmocka_unit_test_setup_teardown(earlier_children_of_the_process_are_left_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(launched_ranks_bootstrap, setup, teardown),
        cmocka_unit_test_setup_teardown(the_death_of_a_launched_rank_is_told_to_the_others_and_reported, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_rank_that_dies_before_it_has_come_is_told_to_all, setup, teardown),
        cmocka_unit_test_setup_teardown(the_last_rank_that_dies_before_it_has_come_is_told_to_all, setup, teardown),
        cmocka_unit_test_setup_teardown(rank_0_that_dies_before_it_has_come_is_told_to_all, setup, teardown),
        cmocka_unit_test_setup_teardown(who_ended_because_of_a_killed_rank_is_not_blamed, setup, teardown),
    };
    own_program = argv[0];
    if (argc > 2) {
        return play_early((uint32_t)strtoul(argv[2], NULL, 10), strcmp(argv[1], "--exposed") == 0);
    }
    if (argc > 1) {
        return play_rank(strcmp(argv[1], "--dying-rank") == 0);
    }
    /* What a launcher leaves behind comes here, where it is found. */
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
