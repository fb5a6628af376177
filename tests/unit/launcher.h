/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the tests of the launcher are made of: the launcher in a process of its own, and what it has left behind, which
 * the test's process adopts. For a program of one file, after <cmocka.h>.
 */
#ifndef TT_TESTS_LAUNCHER_H
#define TT_TESTS_LAUNCHER_H

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "bootstrap_fixture.h"
#include "cli/launch.h"

enum { LAUNCH_FAILED = 200, TEXT_BYTES = 1 << 16, PIPE_FULL_BYTES = 60 << 10 };

/* A launcher in a process of its own. */
struct launcher {
    struct tt_launch_options options;
    void (*before)(void); /* in that process */
    pid_t pid;
    int output, error, asked; /* unlinked files */
    int status;               /* waitpid's */
    bool was_asked_to_end;
    unsigned start_ms, took_ms;
    char output_text[TEXT_BYTES], error_text[TEXT_BYTES];
};

static struct launcher launcher;

static inline int temporary_file(void)
{
    char path[] = "/tmp/tutti-test-launch-XXXXXX";
    int fd = mkostemp(path, O_CLOEXEC | O_APPEND);
    assert_true(fd >= 0);
    unlink(path);
    return fd;
}

/* Makes a file whose end the ranks wait for, or that they take away. */
static inline void temporary_flag(char *path)
{
    int fd = mkostemp(path, O_CLOEXEC);
    assert_true(fd >= 0);
    close(fd);
}

static const int passed_on[] = {SIGINT, SIGTERM, SIGHUP};

static inline void start(void)
{
    launcher.output = temporary_file();
    launcher.error = temporary_file();
    launcher.asked = temporary_file();
    launcher.start_ms = fixture_now_ms();
    launcher.pid = fork();
    assert_true(launcher.pid >= 0);
    if (launcher.pid > 0) {
        return;
    }
    struct tt_launch_end end = {.exit_status = -1};
    for (size_t i = 0; i < sizeof(passed_on) / sizeof(passed_on[0]); i++) {
        signal(passed_on[i], SIG_DFL); /* under nohup one is ignored, and no shell could trap it */
    }
    dup2(launcher.output, STDOUT_FILENO);
    dup2(launcher.error, STDERR_FILENO);
    if (launcher.before != NULL) {
        launcher.before();
    }
    if (tt_launch(&launcher.options, &end) != TUTTI_OK) {
        dprintf(STDERR_FILENO, "error: %s\n", tt_last_error());
        end.exit_status = LAUNCH_FAILED;
    }
    if (end.was_asked_to_end) {
        dprintf(launcher.asked, "asked\n");
    }
    _exit(end.exit_status);
}

static inline void read_text(int fd, char text[TEXT_BYTES])
{
    ssize_t length = pread(fd, text, TEXT_BYTES - 1, 0);
    assert_true(length >= 0 && length < TEXT_BYTES - 1);
    text[length] = '\0';
}

/* Waits until the output has `count` lines, for twenty seconds at most. */
static inline void wait_for_lines(int count)
{
    for (int i = 0; i < 10000; i++) {
        int lines = 0;
        read_text(launcher.output, launcher.output_text);
        for (const char *c = launcher.output_text; *c != '\0'; c++) {
            lines += *c == '\n';
        }
        if (lines >= count) {
            return;
        }
        fixture_sleep_ms(2);
    }
    fail_msg("no %d lines in the output: %s", count, launcher.output_text);
}

/* Waits until there is such a text on standard error, for twenty seconds at most. */
static inline void wait_for_error(const char *text)
{
    for (int i = 0; i < 10000; i++) {
        read_text(launcher.error, launcher.error_text);
        if (strstr(launcher.error_text, text) != NULL) {
            return;
        }
        fixture_sleep_ms(2);
    }
    fail_msg("no '%s' on standard error: %s", text, launcher.error_text);
}

/* Whether a process has ended, and its parent has not looked. */
static inline bool is_dead(int pid)
{
    char path[64], state = '?';
    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    FILE *file = fopen(path, "re");
    if (file != NULL) {
        if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1) {
            state = '?';
        }
        fclose(file);
    }
    return state == 'Z';
}

/* How many children the launcher has, `*dead` of which have ended. */
static inline int count_children(int *dead)
{
    char path[64];
    int count = 0, pid;
    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)launcher.pid, (int)launcher.pid);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    for (*dead = 0; fscanf(file, "%d", &pid) == 1; count++) {
        *dead += is_dead(pid);
    }
    fclose(file);
    return count;
}

/* Waits until so many children of a launcher that does not look have ended, for twenty seconds at most. */
static inline void wait_for_dead_ranks(int count)
{
    for (int i = 0; i < 10000; i++) {
        int dead;
        (void)count_children(&dead);
        if (dead >= count) {
            return;
        }
        fixture_sleep_ms(2);
    }
    fail_msg("no %d ranks have ended", count);
}

/* Waits for the launcher's end, and until everything that it left behind has ended; false if that takes ten seconds. */
static inline bool nothing_is_left(void)
{
    for (int i = 0; i < 5000; i++) {
        pid_t pid = waitpid(-1, NULL, WNOHANG);
        if (pid < 0 && errno == ECHILD) {
            return true;
        }
        if (pid == 0) {
            fixture_sleep_ms(2);
        }
    }
    return false;
}

/* Waits for the launcher's end, for twenty seconds at most. */
static inline void finish(void)
{
    pid_t ended = 0;
    for (int i = 0; i < 10000 && ended == 0; i++) {
        ended = waitpid(launcher.pid, &launcher.status, WNOHANG);
        if (ended == 0) {
            fixture_sleep_ms(2);
        }
    }
    if (ended == 0) {
        kill(launcher.pid, SIGKILL);
        fail_msg("the launcher does not end");
    }
    assert_int_equal(ended, launcher.pid);
    launcher.took_ms = fixture_now_ms() - launcher.start_ms;
    read_text(launcher.output, launcher.output_text);
    read_text(launcher.error, launcher.error_text);
    launcher.was_asked_to_end = lseek(launcher.asked, 0, SEEK_END) > 0;
    close(launcher.output);
    close(launcher.error);
    close(launcher.asked);
}

/* What to launch: a program with up to two arguments. */
static inline void command(uint32_t rank_count, const char *program, const char *first, const char *second)
{
    static const char *words[4];
    words[0] = program;
    words[1] = first;
    words[2] = second;
    launcher.options.rank_count = rank_count;
    launcher.options.argv = (char *const *)words;
}

/* Runs `script` in a shell as each rank; returns the launcher's exit status. Nothing may be left at its end. */
static inline int run(uint32_t rank_count, const char *script)
{
    command(rank_count, "sh", "-c", script);
    start();
    finish();
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
    assert_true(WIFEXITED(launcher.status));
    return WEXITSTATUS(launcher.status);
}

static inline int setup(void **state)
{
    (void)state;
    memset(&launcher, 0, sizeof(launcher));
    return 0;
}

/* Ends what a failed test has left. */
static inline int teardown(void **state)
{
    (void)state;
    if (!nothing_is_left()) {
        kill(launcher.pid, SIGKILL);
    }
    return 0;
}

static inline int occurrences(const char *text, const char *word)
{
    int count = 0;
    for (const char *c = strstr(text, word); c != NULL; c = strstr(c + 1, word)) {
        count++;
    }
    return count;
}

/* Starts, and waits until every rank has said a line. */
static inline void start_script(uint32_t rank_count, const char *script)
{
    command(rank_count, "sh", "-c", script);
    start();
    wait_for_lines((int)rank_count);
}

#endif
