/* SPDX-License-Identifier: BSD-3-Clause */
/* The log: its masks, its lines as they stand in a real file, and the last error of a thread. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"

static char message[256];
static char directory[] = "/tmp/tutti-test-log-XXXXXX";
static char path[128];
static char content[1 << 18];

static int setup(void **state)
{
    (void)state;
    snprintf(path, sizeof(path), "%s/log", directory);
    return tt_log_configure("trace", path, message, sizeof(message)) == TUTTI_OK ? 0 : -1;
}

/* Ends logging to the file and deletes it. */
static int teardown(void **state)
{
    (void)state;
    tt_log_rank(-1);
    unlink(path);
    return tt_log_configure("none", NULL, message, sizeof(message)) == TUTTI_OK ? 0 : -1;
}

static const char *read_log(void)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    ssize_t length = read(fd, content, sizeof(content) - 1);
    assert_true(length >= 0 && (size_t)length < sizeof(content) - 1);
    content[length] = '\0';
    close(fd);
    return content;
}

/* "[host:pid", with the rank if it is not negative, and the bracket. */
static const char *line_start(int rank)
{
    static char start[128];
    char host[65] = "";
    gethostname(host, sizeof(host) - 1);
    host[strcspn(host, ".")] = '\0';
    if (rank < 0) {
        snprintf(start, sizeof(start), "[%s:%d]", host, (int)getpid());
    } else {
        snprintf(start, sizeof(start), "[%s:%d %d]", host, (int)getpid(), rank);
    }
    return start;
}

static void configure(const char *levels)
{
    assert_int_equal(tt_log_configure(levels, path, message, sizeof(message)), TUTTI_OK);
}

static void a_line_names_host_process_rank_level_and_part(void **state)
{
    char expected[512];
    (void)state;
    tt_log_write(TT_PART_FABRIC, TT_LOG_INFO, "chunk of %d bytes", 8192);
    tt_log_rank(3);
    TT_LOG(TT_PART_CLI, TT_LOG_WARN, "second");
    snprintf(expected, sizeof(expected), "%s info fabric: chunk of 8192 bytes\n", line_start(-1));
    snprintf(expected + strlen(expected), sizeof(expected) - strlen(expected), "%s warn cli: second\n", line_start(3));
    assert_string_equal(read_log(), expected);
}

static void levels_hold_for_all_parts_but_those_that_are_named(void **state)
{
    (void)state;
    configure("fabric:debug,info,engine:none");
    assert_true(tt_log_enabled(TT_PART_BASE, TT_LOG_INFO));
    assert_false(tt_log_enabled(TT_PART_BASE, TT_LOG_DEBUG));
    assert_true(tt_log_enabled(TT_PART_FABRIC, TT_LOG_DEBUG));
    assert_false(tt_log_enabled(TT_PART_FABRIC, TT_LOG_TRACE));
    assert_false(tt_log_enabled(TT_PART_ENGINE, TT_LOG_ERROR));
    configure("api:trace");
    assert_true(tt_log_enabled(TT_PART_API, TT_LOG_TRACE));
    assert_false(tt_log_enabled(TT_PART_PROTO, TT_LOG_ERROR));
    assert_false(tt_log_enabled(TT_PART_API, TT_LOG_NONE));
}

/* Whoever has read standard error has gone: that loses lines, and nothing else. */
static void a_pipe_that_nobody_reads_ends_nobody(void **state)
{
    int ends[2], status;

    (void)state;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", ends[1]);
    assert_int_equal(tt_log_configure("trace", path, message, sizeof(message)), TUTTI_OK);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        close(ends[0]);
        signal(SIGPIPE, SIG_DFL);
        TT_LOG(TT_PART_BASE, TT_LOG_ERROR, "nobody reads this");
        _exit(0);
    }
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    close(ends[1]);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void a_level_that_is_off_writes_nothing(void **state)
{
    (void)state;
    configure("warn");
    TT_LOG(TT_PART_BASE, TT_LOG_INFO, "not this");
    assert_string_equal(read_log(), "");
}

static void bad_levels_are_named_and_change_nothing(void **state)
{
    static const char *const bad[][2] = {
        {"loud", "'loud' is no level (none, error, warn, info, debug, trace)"},
        {"", "'' is no level (none, error, warn, info, debug, trace)"},
        {"info,", "'' is no level (none, error, warn, info, debug, trace)"},
        {"infos", "'infos' is no level (none, error, warn, info, debug, trace)"},
        {"info,fabric:", "'' is no level (none, error, warn, info, debug, trace)"},
        {"fabrik:info", "'fabrik' is no part of the library (base, proto, fabric, engine, api, cli)"},
        {"fabric:debug:info", "'debug:info' is no level (none, error, warn, info, debug, trace)"},
    };
    (void)state;
    configure("warn");
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(tt_log_configure(bad[i][0], NULL, message, sizeof(message)), TUTTI_ERR_INVALID_ARGUMENT);
        assert_string_equal(message, bad[i][1]);
        assert_int_equal(tt_log_check(bad[i][0], message, sizeof(message)), TUTTI_ERR_INVALID_ARGUMENT);
    }
    TT_LOG(TT_PART_BASE, TT_LOG_WARN, "still there");
    assert_false(tt_log_enabled(TT_PART_BASE, TT_LOG_INFO));
    assert_non_null(strstr(read_log(), "warn base: still there\n"));
}

static void a_file_that_cannot_be_opened_is_named_and_changes_nothing(void **state)
{
    (void)state;
    assert_int_equal(tt_log_configure("none", "/nonexistent/log", message, sizeof(message)), TUTTI_ERR_IO);
    assert_string_equal(message, "the log file '/nonexistent/log' cannot be opened: No such file or directory");
    assert_int_equal(tt_log_configure("none", "a%x", message, sizeof(message)), TUTTI_ERR_INVALID_ARGUMENT);
    assert_string_equal(message, "the log file 'a%x' has a % without h or p behind it");
    assert_int_equal(tt_log_configure("none", "a%", message, sizeof(message)), TUTTI_ERR_INVALID_ARGUMENT);
    TT_LOG(TT_PART_BASE, TT_LOG_TRACE, "still there");
    assert_non_null(strstr(read_log(), "still there\n"));
}

static void host_and_process_stand_in_the_file_name(void **state)
{
    char pattern[160], expected[256], host[65] = "";
    (void)state;
    gethostname(host, sizeof(host) - 1);
    host[strcspn(host, ".")] = '\0';
    snprintf(pattern, sizeof(pattern), "%s/%%h-%%p-%%%%", directory);
    snprintf(expected, sizeof(expected), "%s/%s-%d-%%", directory, host, (int)getpid());
    assert_int_equal(tt_log_configure("info", pattern, message, sizeof(message)), TUTTI_OK);
    assert_int_equal(access(expected, F_OK), 0);
    unlink(expected);
}

static void a_long_line_is_cut_and_still_one_line(void **state)
{
    static char text[5000];
    (void)state;
    memset(text, 'x', sizeof(text) - 1);
    TT_LOG(TT_PART_BASE, TT_LOG_INFO, "%s", text);
    const char *log = read_log();
    size_t length = strlen(log);
    assert_true(length > 1500 && length <= 2048);
    assert_string_equal(log + length - 6, "xx...\n");
    assert_ptr_equal(strchr(log, '\n'), log + length - 1);
}

static void control_characters_cannot_forge_a_line(void **state)
{
    (void)state;
    TT_LOG(TT_PART_BASE, TT_LOG_INFO, "%s",
           "a\n[forged] \x1b[31mred\x7f \x9b"
           "0m");
    assert_non_null(strstr(read_log(), "info base: a?[forged] ?[31mred? ?0m\n"));
    tt_error(TT_PART_BASE, TUTTI_ERR_IO, "%s", "b\nc");
    assert_string_equal(tt_last_error(), "b?c");
}

static void errno_survives_a_line(void **state)
{
    (void)state;
    errno = EXDEV;
    TT_LOG(TT_PART_BASE, TT_LOG_INFO, "%m");
    assert_int_equal(errno, EXDEV);
    assert_non_null(strstr(read_log(), strerror(EXDEV)));
    tt_error_note(TUTTI_ERR_IO, "x");
    assert_int_equal(errno, EXDEV);
}

static void an_error_is_remembered_logged_once_and_returned(void **state)
{
    (void)state;
    assert_int_equal(tt_error(TT_PART_ENGINE, TUTTI_ERR_BUSY, "request %d", 7), TUTTI_ERR_BUSY);
    assert_string_equal(tt_last_error(), "request 7");
    const char *log = read_log();
    assert_non_null(strstr(log, "error engine: request 7\n"));
    assert_null(strstr(strchr(log, '\n') + 1, "request"));
    /* The old text may be an argument of the new one. */
    tt_error(TT_PART_ENGINE, TUTTI_ERR_BUSY, "because of %s", tt_last_error());
    assert_string_equal(tt_last_error(), "because of request 7");
    tt_clear_error();
    assert_string_equal(tt_last_error(), "");
}

static void a_noted_error_is_not_logged(void **state)
{
    (void)state;
    assert_int_equal(tt_error_note(TUTTI_ERR_INVALID_ARGUMENT, "%s: bad", "x"), TUTTI_ERR_INVALID_ARGUMENT);
    assert_string_equal(tt_last_error(), "x: bad");
    assert_string_equal(read_log(), "");
}

static void *fail_elsewhere(void *argument)
{
    (void)argument;
    tt_error(TT_PART_BASE, TUTTI_ERR_IO, "of the other thread");
    return strcmp(tt_last_error(), "of the other thread") == 0 ? argument : NULL;
}

static void the_last_error_belongs_to_its_thread(void **state)
{
    static char token;
    pthread_t thread;
    void *result;
    (void)state;
    tt_error(TT_PART_BASE, TUTTI_ERR_IO, "of this thread");
    assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, &token), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_ptr_equal(result, &token);
    assert_string_equal(tt_last_error(), "of this thread");
}

enum { WRITERS = 4, LINES_EACH = 200 };

static void *write_lines(void *argument)
{
    for (int i = 0; i < LINES_EACH; i++) {
        TT_LOG(TT_PART_BASE, TT_LOG_INFO, "writer %s line %d of a fair length, to be seen if it is torn",
               (char *)argument, i);
        if (i % 20 == 0) {
            char ignored[256];
            tt_log_configure("info", path, ignored, sizeof(ignored));
        }
    }
    return NULL;
}

static void threads_that_write_and_configure_tear_no_line(void **state)
{
    static char names[WRITERS][2] = {"a", "b", "c", "d"};
    pthread_t threads[WRITERS];
    int seen = 0;
    (void)state;
    for (int i = 0; i < WRITERS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, write_lines, names[i]), 0);
    }
    for (int i = 0; i < WRITERS; i++) {
        pthread_join(threads[i], NULL);
    }
    const char *start = line_start(-1);
    read_log();
    for (char *line = strtok(content, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        char writer;
        int number, end = 0;
        assert_memory_equal(line, start, strlen(start));
        assert_int_equal(sscanf(line + strlen(start),
                                " info base: writer %c line %d of a fair length, to be seen if it is torn%n", &writer,
                                &number, &end),
                         2);
        assert_int_equal(line[strlen(start) + (size_t)end], '\0');
        seen++;
    }
    assert_int_equal(seen, WRITERS * LINES_EACH);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_line_names_host_process_rank_level_and_part, setup, teardown),
        cmocka_unit_test_setup_teardown(levels_hold_for_all_parts_but_those_that_are_named, setup, teardown),
        cmocka_unit_test_setup_teardown(a_pipe_that_nobody_reads_ends_nobody, setup, teardown),
        cmocka_unit_test_setup_teardown(a_level_that_is_off_writes_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(bad_levels_are_named_and_change_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(a_file_that_cannot_be_opened_is_named_and_changes_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(host_and_process_stand_in_the_file_name, setup, teardown),
        cmocka_unit_test_setup_teardown(a_long_line_is_cut_and_still_one_line, setup, teardown),
        cmocka_unit_test_setup_teardown(control_characters_cannot_forge_a_line, setup, teardown),
        cmocka_unit_test_setup_teardown(errno_survives_a_line, setup, teardown),
        cmocka_unit_test_setup_teardown(an_error_is_remembered_logged_once_and_returned, setup, teardown),
        cmocka_unit_test_setup_teardown(a_noted_error_is_not_logged, setup, teardown),
        cmocka_unit_test_setup_teardown(the_last_error_belongs_to_its_thread, setup, teardown),
        cmocka_unit_test_setup_teardown(threads_that_write_and_configure_tear_no_line, setup, teardown),
    };
    if (mkdtemp(directory) == NULL) {
        return 1;
    }
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rmdir(directory);
    return failed;
}
