/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank 0 that is stopped until its time is over: what has come meanwhile counts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "bootstrap_fixture.h"
#include "free_port.h"

/* As rank 0 of two: 0 if the other one came, and took part in an allgather of so many bytes, if any. */
static int be_rank_0(uint16_t port, size_t length_bytes)
{
    struct fixture_rank self = {.delay_ms = 0};
    fixture_settings(&self.settings, 0, 2, port, 2500);
    if (tt_bootstrap_create(&self.settings, &self.bootstrap) != TUTTI_OK) {
        return 1;
    }
    if (length_bytes > 0) {
        fixture_allgather(&self, length_bytes, false);
    }
    tt_bootstrap_destroy(self.bootstrap);
    return self.result == 0 && !self.wrong_data ? 0 : 2;
}

static pid_t start_rank_0(uint16_t port, size_t length_bytes)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        _exit(be_rank_0(port, length_bytes));
    }
    return pid;
}

static void stop(pid_t pid)
{
    int status;
    kill(pid, SIGSTOP);
    assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
    assert_true(WIFSTOPPED(status));
}

/* Lets it go on when its time is over. */
static void go_on_too_late(pid_t pid)
{
    fixture_sleep_ms(2600);
    kill(pid, SIGCONT);
}

static void assert_frame(int fd, enum tt_hello_type type)
{
    struct tt_hello hello;
    char text[FIXTURE_TEXT_BYTES];
    assert_true(fixture_read_frame(fd, &hello, text));
    assert_int_equal(hello.type, type);
}

static void assert_ended_well(pid_t pid)
{
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void who_came_while_rank_0_was_stopped_past_its_time_is_let_in(void **state)
{
    uint16_t port = tt_free_port();
    pid_t rank_0 = start_rank_0(port, 0);
    int fd = fixture_connect(port);
    (void)state;
    close(fd);
    fixture_sleep_ms(200); /* so that it waits for more */
    stop(rank_0);
    fd = fixture_connect(port);
    fixture_say_hello(fd, 1, 2, 7, TT_HELLO_VERSION);
    go_on_too_late(rank_0);
    assert_frame(fd, TT_HELLO_WELCOME);
    assert_frame(fd, TT_HELLO_READY);
    close(fd);
    assert_ended_well(rank_0);
}

/* Rank 1's part of an allgather. */
static void contribute(int fd, size_t length_bytes)
{
    const struct tt_hello hello = {.type = TT_HELLO_GATHER,
                                   .version = TT_HELLO_VERSION,
                                   .rank = 1,
                                   .size = 2,
                                   .sequence = 1,
                                   .length_bytes = length_bytes};
    size_t frame_bytes = TT_HELLO_BYTES + length_bytes;
    uint8_t *frame = malloc(frame_bytes);
    assert_non_null(frame);
    tt_hello_encode(&hello, frame);
    for (size_t i = 0; i < length_bytes; i++) {
        frame[TT_HELLO_BYTES + i] = (uint8_t)(131 + i * 7 + (i >> 8)); /* the fixture's */
    }
    assert_int_equal(send(fd, frame, frame_bytes, MSG_NOSIGNAL), frame_bytes);
    free(frame);
}

static void what_came_while_rank_0_was_stopped_past_its_time_is_gathered(void **state)
{
    uint16_t port = tt_free_port();
    pid_t rank_0 = start_rank_0(port, 64);
    int fd = fixture_be_welcomed(port, 1, 2, 7, 1);
    (void)state;
    assert_frame(fd, TT_HELLO_READY);
    fixture_sleep_ms(200); /* so that it waits for the contribution */
    stop(rank_0);
    contribute(fd, 64);
    go_on_too_late(rank_0);
    assert_frame(fd, TT_HELLO_RESULT);
    close(fd);
    assert_ended_well(rank_0);
}

/* What it takes of what is not read does not grow. */
static void fix_capacity(int fd)
{
    const int bytes = 1 << 16;
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes)), 0);
}

/* How much such a connection takes of what is not read. */
static size_t bytes_that_wait(void)
{
    static const uint8_t bytes[1 << 16];
    size_t count = 0;
    ssize_t sent;
    uint16_t port;
    int listener = fixture_listen(&port), reader = fixture_connect(port), writer = accept(listener, NULL, NULL);
    fix_capacity(reader);
    while ((sent = send(writer, bytes, sizeof(bytes), MSG_NOSIGNAL | MSG_DONTWAIT)) > 0) {
        count += (size_t)sent;
    }
    assert_true(count > 0);
    close(writer);
    close(reader);
    close(listener);
    return count;
}

/* Whether it waits for something, and is not merely without a processor. */
static bool sleeps(pid_t pid)
{
    char path[32], text[256] = "";
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t length = fread(text, 1, sizeof(text) - 1, file);
    fclose(file);
    text[length] = '\0';
    const char *name_end = strrchr(text, ')'); /* its state comes next */
    assert_non_null(name_end);
    return strncmp(name_end, ") S", 3) == 0;
}

/* Until the process that has begun to send there waits for room, or for a second and a half of its time. */
static void wait_until_full(int fd, pid_t sender)
{
    unsigned begun_ms = fixture_now_ms();
    int before = 0, now = 0;
    for (unsigned times = 0; times < 5 && fixture_now_ms() - begun_ms < 1500;) {
        fixture_sleep_ms(20);
        assert_int_equal(ioctl(fd, FIONREAD, &now), 0);
        times = now == before && sleeps(sender) ? times + 1 : 0;
        before = now;
    }
}

/* Reads what comes, until nothing more does for a while; returns how much. */
static size_t read_what_comes(int fd, uint8_t *to, size_t room_bytes)
{
    struct pollfd readable = {.fd = fd, .events = POLLIN};
    size_t count = 0;
    while (count < room_bytes && poll(&readable, 1, 300) > 0) {
        ssize_t received = recv(fd, to + count, room_bytes - count, MSG_DONTWAIT);
        assert_true(received > 0);
        count += (size_t)received;
    }
    return count;
}

/* What was sent before is read, so there is room for the rest of the result, which is less. */
static void who_takes_the_result_while_rank_0_is_stopped_past_its_time_gets_all_of_it(void **state)
{
    size_t length_bytes = bytes_that_wait() / 4 * 3, frame_bytes = TT_HELLO_BYTES + 2 * length_bytes;
    uint8_t *frame = malloc(frame_bytes);
    struct tt_hello hello;
    uint16_t port = tt_free_port();
    pid_t rank_0 = start_rank_0(port, length_bytes);
    int fd = fixture_be_welcomed(port, 1, 2, 7, 1);
    (void)state;
    assert_non_null(frame);
    fix_capacity(fd);
    assert_frame(fd, TT_HELLO_READY);
    contribute(fd, length_bytes);
    assert_int_equal(recv(fd, frame, 1, MSG_PEEK), 1);
    wait_until_full(fd, rank_0);
    stop(rank_0);
    size_t count = read_what_comes(fd, frame, frame_bytes);
    assert_in_range(count, frame_bytes / 2, frame_bytes - 1);
    go_on_too_late(rank_0);
    assert_int_equal(recv(fd, frame + count, frame_bytes - count, MSG_WAITALL), frame_bytes - count);
    assert_int_equal(tt_hello_decode(frame, &hello), TUTTI_OK);
    assert_int_equal(hello.type, TT_HELLO_RESULT);
    close(fd);
    free(frame);
    assert_ended_well(rank_0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_came_while_rank_0_was_stopped_past_its_time_is_let_in),
        cmocka_unit_test(what_came_while_rank_0_was_stopped_past_its_time_is_gathered),
        cmocka_unit_test(who_takes_the_result_while_rank_0_is_stopped_past_its_time_gets_all_of_it),
    };
    char message[128];
    tt_log_configure("none", NULL, message, sizeof(message));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
