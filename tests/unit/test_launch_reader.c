/* SPDX-License-Identifier: BSD-3-Clause */
/* Output with prefixes while its reader stands still: signals, ends and deadlines do not wait for it, and the ranks do.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "launcher.h"
#include "skip.h"

/* What waits in a full pipe, at least: of lines that are longer than a page it takes less. */
enum { FULL_BYTES = 50000, FULL_OF_LONG_BYTES = 20000 };

enum {
    OTHER_USER = 65534,
    OUTPUT_BYTES = 1 << 20,
    LINES = 30000,
    LETTERS = 300000,
    REST_BYTES = 200000,
    SLOW_BYTES = 800000
};

/* What the launcher writes to, and its reader. */
static int writer, reader;
static bool takes_errors;
static char output[OUTPUT_BYTES];

static void write_there(void)
{
    dup2(writer, STDOUT_FILENO);
    if (takes_errors) {
        dup2(writer, STDERR_FILENO);
    }
    close(writer);
    close(reader);
}

static void write_there_and_ignore_interrupts(void)
{
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGINT);
    sigprocmask(SIG_BLOCK, &mask, NULL); /* for the time after the launch */
    write_there();
}

static bool become_another_user(void)
{
    return setgid(OTHER_USER) == 0 && setuid(OTHER_USER) == 0;
}

static bool may_become_another_user(void)
{
    int status = -1;
    pid_t pid = fork();
    if (pid == 0) {
        _exit(become_another_user() ? 0 : 1);
    }
    return waitpid(pid, &status, 0) == pid && status == 0;
}

static void write_there_as_another_user(void)
{
    write_there();
    if (!become_another_user()) {
        _exit(LAUNCH_FAILED);
    }
}

static void make_pipe(void)
{
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    reader = ends[0];
    writer = ends[1];
}

static void start_there(uint32_t rank_count, const char *script, void (*before)(void))
{
    launcher.options.prefix_output = true;
    launcher.before = before;
    command(rank_count, "sh", "-c", script);
    start();
    close(writer);
}

/* Waits until so much waits for the reader, for twenty seconds at most. */
static void wait_until_unread(int bytes)
{
    int unread = 0;
    for (int i = 0; i < 10000 && ioctl(reader, FIONREAD, &unread) == 0 && unread < bytes; i++) {
        fixture_sleep_ms(2);
    }
    assert_true(unread >= bytes);
}

/* Waits until no more comes, though so much does at least: nothing has for 200 ms. Twenty seconds at most. */
static void wait_until_full(int bytes)
{
    int unread = 0, before = 0, same = 0;
    for (int i = 0; i < 1000 && same < 10; i++) {
        fixture_sleep_ms(20);
        assert_int_equal(ioctl(reader, FIONREAD, &unread), 0);
        same = unread == before && unread >= bytes ? same + 1 : 0;
        before = unread;
    }
    assert_int_equal(same, 10);
}

/* Waits until the launcher has reaped all ranks, for twenty seconds at most: it waits for the reader alone then. */
static void wait_until_ranks_are_gone(void)
{
    int dead;
    for (int i = 0; i < 10000 && count_children(&dead) > 0; i++) {
        fixture_sleep_ms(2);
    }
    assert_int_equal(count_children(&dead), 0);
}

static void read_output(void)
{
    size_t length = 0;
    ssize_t got;
    while ((got = read(reader, output + length, sizeof(output) - 1 - length)) > 0) {
        length += (size_t)got;
    }
    output[length] = '\0';
    close(reader);
}

static bool launcher_goes_on(void)
{
    return waitpid(launcher.pid, NULL, WNOHANG) == 0;
}

/* Rank 0 writes numbers, of which so many lines arrive: all from 1 on. The last one may have been cut off. */
static void check_numbers(void)
{
    int number = 0, used;
    for (const char *line = output; *line != '\0'; line += used) {
        int said = -1;
        used = 0;
        (void)sscanf(line, "[0] %d%n", &said, &used);
        assert_true(used > 0 && line[used] == '\n');
        used++;
        number++;
        assert_true(said == number || line[used] == '\0');
    }
    assert_true(number > 1000);
}

static const char numbers_and_a_trap[] = "if [ $TUTTI_RANK = 0 ]; then exec seq 1000000; fi; "
                                         "trap 'exit 5' INT; echo ready >&2; while :; do sleep 0.02; done";

/* With a reader of which `bytes` at least wait until it stands in the way. */
static void check_that_signals_and_ends_are_seen(void (*before)(void), int bytes)
{
    start_there(2, numbers_and_a_trap, before);
    wait_until_unread(bytes);
    wait_for_error("[1] ready\n");
    fixture_sleep_ms(100);
    kill(launcher.pid, SIGINT);
    wait_for_error("rank 1: exit status 5\n");
    wait_for_error("rank 0: killed by signal 2 (Interrupt)\n");
    assert_true(launcher_goes_on());
    read_output();
    check_numbers();
    finish();
    assert_true(nothing_is_left());
    assert_true(WEXITSTATUS(launcher.status) == 5 || WEXITSTATUS(launcher.status) == 128 + SIGINT);
}

/* --- Who does not wait -------------------------------------------------------------------------------------------- */

static void signals_are_passed_on_and_ends_seen_at_a_full_pipe(void **state)
{
    (void)state;
    make_pipe();
    check_that_signals_and_ends_are_seen(write_there, FULL_BYTES);
}

static void signals_are_passed_on_and_ends_seen_at_a_full_pipe_that_blocks_from_later_on(void **state)
{
    (void)state;
    make_pipe();
    int shared = fcntl(writer, F_DUPFD_CLOEXEC, 0);
    assert_int_equal(fcntl(shared, F_SETFL, O_NONBLOCK), 0);
    start_there(2, numbers_and_a_trap, write_there);
    wait_until_unread(FULL_BYTES);
    wait_for_error("[1] ready\n");
    assert_int_equal(fcntl(shared, F_SETFL, 0), 0);
    close(shared);
    assert_int_equal(read(reader, output, 1 << 14), 1 << 14); /* which is filled again */
    wait_until_unread(FULL_BYTES);
    fixture_sleep_ms(100);
    kill(launcher.pid, SIGINT);
    wait_for_error("rank 1: exit status 5\n");
    wait_for_error("rank 0: killed by signal 2 (Interrupt)\n");
    close(reader);
    finish();
    assert_true(nothing_is_left());
}

static void signals_are_passed_on_and_ends_seen_at_a_full_pipe_of_another_user(void **state)
{
    (void)state;
    if (!may_become_another_user()) {
        TT_SKIP("who runs this may not become another user");
    }
    make_pipe(); /* which cannot be opened once more */
    check_that_signals_and_ends_are_seen(write_there_as_another_user, FULL_BYTES);
}

static void signals_are_passed_on_and_ends_seen_at_a_full_socket(void **state)
{
    int ends[2];
    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    reader = ends[0];
    writer = ends[1];
    check_that_signals_and_ends_are_seen(write_there, 1000);
}

/* As by Ctrl-S. */
static void signals_are_passed_on_and_ends_seen_at_a_terminal_that_is_stopped(void **state)
{
    static const char expected[] = "[0] one\r\n[0] two\r\n";
    (void)state;
    reader = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (reader < 0 || grantpt(reader) != 0 || unlockpt(reader) != 0) {
        TT_SKIP("no terminals here");
    }
    writer = open(ptsname(reader), O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(writer >= 0);
    int terminal = dup(writer);
    assert_int_equal(tcflow(terminal, TCOOFF), 0);
    start_there(2,
                "trap 'exit 5' INT; [ $TUTTI_RANK = 1 ] || { echo one; echo two; }; echo ready >&2; "
                "while :; do sleep 0.02; done",
                write_there);
    wait_for_error("[0] ready\n");
    wait_for_error("[1] ready\n");
    kill(launcher.pid, SIGINT);
    wait_for_error("rank 0: exit status 5\n");
    wait_for_error("rank 1: exit status 5\n");
    assert_true(launcher_goes_on());
    assert_int_equal(tcflow(terminal, TCOON), 0);
    finish();
    assert_true(nothing_is_left());
    assert_int_equal(WEXITSTATUS(launcher.status), 5);
    size_t length = 0;
    while (length < strlen(expected)) { /* a terminal may give one line at a time */
        struct pollfd some = {.fd = reader, .events = POLLIN};
        assert_int_equal(poll(&some, 1, 20000), 1);
        ssize_t got = read(reader, output + length, sizeof(output) - 1 - length);
        assert_true(got > 0);
        length += (size_t)got;
    }
    assert_int_equal(length, strlen(expected));
    assert_memory_equal(output, expected, strlen(expected));
    close(terminal);
    close(reader);
}

static void deadlines_hold_at_a_full_pipe(void **state)
{
    char flag[] = "/tmp/tutti-test-launch-XXXXXX", script[256];
    (void)state;
    temporary_flag(flag);
    snprintf(script, sizeof(script),
             "[ $TUTTI_RANK = 0 ] && exec seq 1000000; while [ -e %s ]; do sleep 0.02; done; exit 7", flag);
    launcher.options.grace_ns = 300000000;
    make_pipe();
    start_there(2, script, write_there);
    wait_until_unread(FULL_BYTES);
    unlink(flag);
    wait_for_error("rank 1: exit status 7\n");
    wait_for_error("rank 0: still running 300 ms after the first failure, ended\n");
    wait_for_error("rank 0: killed by signal 15 (Terminated)\n");
    close(reader);
    finish();
    assert_true(nothing_is_left());
    assert_int_equal(WEXITSTATUS(launcher.status), 7);
    assert_int_equal(occurrences(launcher.error_text, "tutti run: standard output: Broken pipe\n"), 1);
}

/* As by 2>&1. */
static void what_the_launcher_says_waits_too_and_tears_no_line(void **state)
{
    static const char said[] = "rank 1: exit status 7\nrank 0: still running 300 ms after the first failure, ended\n"
                               "rank 0: killed by signal 15 (Terminated)\n";
    char flag[] = "/tmp/tutti-test-launch-XXXXXX", script[256];
    (void)state;
    temporary_flag(flag);
    /* Lines of more than a pipe takes whole. */
    snprintf(script, sizeof(script),
             "[ $TUTTI_RANK = 0 ] && exec yes $(printf %%05000d 7); while [ -e %s ]; do sleep 0.02; done; exit 7",
             flag);
    launcher.options.grace_ns = 300000000;
    takes_errors = true;
    make_pipe();
    start_there(2, script, write_there);
    takes_errors = false;
    wait_until_full(FULL_OF_LONG_BYTES);
    unlink(flag);
    wait_until_ranks_are_gone();
    read_output();
    finish();
    assert_true(nothing_is_left());
    assert_int_equal(WEXITSTATUS(launcher.status), 7);
    char *begin = strstr(output, "rank 1");
    assert_non_null(begin);
    assert_int_equal(strncmp(begin, said, strlen(said)), 0);
    int lines = occurrences(output, "\n"), own = occurrences(output, "\n[0] ") + 1;
    assert_int_equal(lines, own + 3);
}

/* --- Who waits ---------------------------------------------------------------------------------------------------- */

static void ranks_wait_for_the_reader_and_nothing_is_lost_or_changes_places(void **state)
{
    char script[256];
    int number = 0, letters = 0;
    (void)state;
    snprintf(script, sizeof(script),
             "if [ $TUTTI_RANK = 0 ]; then seq %d; else head -c %d /dev/zero | tr '\\0' x; echo; fi; echo done >&2",
             LINES, LETTERS);
    make_pipe();
    start_there(2, script, write_there);
    wait_until_unread(FULL_OF_LONG_BYTES);
    fixture_sleep_ms(300);
    read_text(launcher.error, launcher.error_text);
    assert_string_equal(launcher.error_text, "");
    read_output();
    finish();
    assert_int_equal(launcher.status, 0);
    assert_int_equal(occurrences(launcher.error_text, "] done\n"), 2);
    for (char *line = strtok(output, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        if (strncmp(line, "[0] ", 4) == 0) {
            assert_int_equal(strtol(line + 4, NULL, 10), ++number);
        } else {
            assert_int_equal(strncmp(line, "[1] ", 4), 0);
            assert_int_equal(strspn(line + 4, "x"), strlen(line + 4));
            letters += (int)strlen(line + 4);
        }
    }
    assert_int_equal(number, LINES);
    assert_int_equal(letters, LETTERS);
}

static void all_ranks_have_turns_at_a_slow_reader(void **state)
{
    size_t length = 0;
    (void)state;
    make_pipe();
    start_there(3, "echo ready >&2; exec yes", write_there);
    wait_for_error("[0] ready\n");
    wait_for_error("[1] ready\n");
    wait_for_error("[2] ready\n");
    wait_until_unread(FULL_BYTES);
    while (length < SLOW_BYTES) {
        ssize_t got = read(reader, output + length, 4096);
        assert_true(got > 0);
        length += (size_t)got;
        fixture_sleep_ms(1);
    }
    output[length] = '\0';
    kill(launcher.pid, SIGTERM);
    close(reader);
    finish();
    assert_true(nothing_is_left());
    int lines = occurrences(output, "\n");
    for (int rank = 0; rank < 3; rank++) {
        char line[16];
        snprintf(line, sizeof(line), "[%d] y\n", rank);
        assert_true(occurrences(output, line) > lines / 6);
    }
}

/* Rank 0 ends, and leaves in pipes what the reader has not taken. */
static void start_and_leave_a_rest(void)
{
    make_pipe();
    start_there(1, "head -c 40000 /dev/zero | tr '\\0' '\\n'; echo done >&2", write_there_and_ignore_interrupts);
    wait_for_error("[0] done\n");
    wait_until_ranks_are_gone();
    assert_true(launcher_goes_on());
}

static void the_rest_is_waited_for_when_the_ranks_have_ended(void **state)
{
    (void)state;
    start_and_leave_a_rest();
    read_output();
    finish();
    assert_int_equal(launcher.status, 0);
    assert_int_equal(strlen(output), REST_BYTES); /* "[0] \n" */
    assert_string_equal(launcher.error_text, "[0] done\n");
}

static void check_that_the_rest_is_lost(void)
{
    finish();
    assert_true(nothing_is_left());
    close(reader);
    assert_int_equal(WEXITSTATUS(launcher.status), 1);
    assert_false(launcher.was_asked_to_end); /* while there were ranks */
    assert_string_equal(launcher.error_text,
                        "[0] done\ntutti run: standard output: the rest has not been read in time\n");
}

static void who_is_asked_to_end_waits_for_the_reader_for_the_grace_alone(void **state)
{
    (void)state;
    launcher.options.grace_ns = 300000000;
    start_and_leave_a_rest();
    kill(launcher.pid, SIGTERM);
    check_that_the_rest_is_lost();
}

static void the_third_signal_ends_the_wait_for_the_reader(void **state)
{
    siginfo_t end = {.si_pid = 0};
    (void)state;
    start_and_leave_a_rest();
    for (int i = 0; i < 2; i++) {
        kill(launcher.pid, SIGINT);
        fixture_sleep_ms(100);
        assert_true(launcher_goes_on());
    }
    /* The third; signals that come before the launcher has seen the last one are none. */
    for (int i = 0; i < 200 && end.si_pid == 0; i++) {
        kill(launcher.pid, SIGINT);
        fixture_sleep_ms(100);
        assert_int_equal(waitid(P_PID, (id_t)launcher.pid, &end, WEXITED | WNOHANG | WNOWAIT), 0);
    }
    check_that_the_rest_is_lost();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(signals_are_passed_on_and_ends_seen_at_a_full_pipe, setup, teardown),
        cmocka_unit_test_setup_teardown(signals_are_passed_on_and_ends_seen_at_a_full_pipe_that_blocks_from_later_on,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(signals_are_passed_on_and_ends_seen_at_a_full_pipe_of_another_user, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(signals_are_passed_on_and_ends_seen_at_a_full_socket, setup, teardown),
        cmocka_unit_test_setup_teardown(signals_are_passed_on_and_ends_seen_at_a_terminal_that_is_stopped, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(deadlines_hold_at_a_full_pipe, setup, teardown),
        cmocka_unit_test_setup_teardown(what_the_launcher_says_waits_too_and_tears_no_line, setup, teardown),
        cmocka_unit_test_setup_teardown(ranks_wait_for_the_reader_and_nothing_is_lost_or_changes_places, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(all_ranks_have_turns_at_a_slow_reader, setup, teardown),
        cmocka_unit_test_setup_teardown(the_rest_is_waited_for_when_the_ranks_have_ended, setup, teardown),
        cmocka_unit_test_setup_teardown(who_is_asked_to_end_waits_for_the_reader_for_the_grace_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(the_third_signal_ends_the_wait_for_the_reader, setup, teardown),
    };
    /* What a launcher leaves behind comes here, where it is found. */
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
