/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank 0 that is stopped until its time is over: what has come meanwhile counts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "bootstrap_fixture.h"
#include "free_port.h"

/* As rank 0 of two: 0 if the other one came, and took part in an allgather if there is one. */
static int be_rank_0(uint16_t port, bool gathers)
{
    struct fixture_rank self = {.delay_ms = 0};
    fixture_settings(&self.settings, 0, 2, port, 2500);
    if (tt_bootstrap_create(&self.settings, &self.bootstrap) != TUTTI_OK) {
        return 1;
    }
    if (gathers) {
        fixture_allgather(&self, 64, false);
    }
    tt_bootstrap_destroy(self.bootstrap);
    return self.result == 0 && !self.wrong_data ? 0 : 2;
}

static pid_t start_rank_0(uint16_t port, bool gathers)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        _exit(be_rank_0(port, gathers));
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
    pid_t rank_0 = start_rank_0(port, false);
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

static void what_came_while_rank_0_was_stopped_past_its_time_is_gathered(void **state)
{
    const struct tt_hello hello = {
        .type = TT_HELLO_GATHER, .version = TT_HELLO_VERSION, .rank = 1, .size = 2, .sequence = 1, .length_bytes = 64};
    uint8_t frame[TT_HELLO_BYTES + 64];
    uint16_t port = tt_free_port();
    pid_t rank_0 = start_rank_0(port, true);
    int fd = fixture_be_welcomed(port, 1, 2, 7, 1);
    (void)state;
    assert_frame(fd, TT_HELLO_READY);
    fixture_sleep_ms(200); /* so that it waits for the contribution */
    stop(rank_0);
    tt_hello_encode(&hello, frame);
    for (int i = 0; i < 64; i++) {
        frame[TT_HELLO_BYTES + i] = (uint8_t)(131 + i * 7); /* the fixture's */
    }
    assert_int_equal(send(fd, frame, sizeof(frame), MSG_NOSIGNAL), sizeof(frame));
    go_on_too_late(rank_0);
    assert_frame(fd, TT_HELLO_RESULT);
    close(fd);
    assert_ended_well(rank_0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_came_while_rank_0_was_stopped_past_its_time_is_let_in),
        cmocka_unit_test(what_came_while_rank_0_was_stopped_past_its_time_is_gathered),
    };
    char message[128];
    tt_log_configure("none", NULL, message, sizeof(message));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
