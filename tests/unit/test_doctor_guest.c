/* SPDX-License-Identifier: BSD-3-Clause */
/* `tutti doctor --peer` with a name that has several addresses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/doctor_guest.h"
#include "cli/doctor_hello.h"
#include "free_port.h"
#include "two_addresses.h"

enum { LATE_S = 60 };

static const char first[] = "127.0.0.2", second[] = "127.0.0.1";
static uint16_t port;
static pid_t children[ADDRESSES];
static uint32_t child_count;
static struct tt_findings findings;

/* In a process of its own: answers one connection, and waits for its end. STRANGER: hangs up. */
static void answer(int listener, enum tt_doctor_hello hello)
{
    uint8_t bytes[TT_DOCTOR_HELLO_BYTES];
    int fd = accept(listener, NULL, NULL);
    if (hello != TT_DOCTOR_STRANGER && recv(fd, bytes, sizeof(bytes), MSG_WAITALL) == sizeof(bytes) &&
        tt_doctor_hello_decode(bytes) == TT_DOCTOR_GUEST) {
        tt_doctor_hello_encode(hello, bytes);
        send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL);
        recv(fd, bytes, 1, 0);
    }
}

static void listen_at(const char *address, enum tt_doctor_hello hello)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(inet_pton(AF_INET, address, &at.sin_addr), 1);
    assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(listen(listener, 8), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        alarm(LATE_S);
        answer(listener, hello);
        _exit(0);
    }
    children[child_count++] = child;
    close(listener);
}

static int setup(void **state)
{
    (void)state;
    addresses[0] = first;
    addresses[1] = second;
    port = tt_free_port();
    memset(&findings, 0, sizeof(findings));
    return 0;
}

static int end(void **state)
{
    (void)state;
    for (; child_count > 0; child_count--) {
        kill(children[child_count - 1], SIGKILL);
        waitpid(children[child_count - 1], NULL, 0);
    }
    return 0;
}

static void assert_found(size_t place, const char *words, const char *advice)
{
    char subject[64];
    snprintf(subject, sizeof(subject), "two.example:%u", port);
    assert_in_range(place, 0, findings.count - 1);
    assert_string_equal(findings.items[place].subject, subject);
    assert_string_equal(findings.items[place].found, words);
    assert_non_null(strstr(findings.items[place].advice, advice));
}

static void assert_welcomed_at(const char *address)
{
    struct in_addr there = {0};
    char text[INET_ADDRSTRLEN] = "";
    int fd = tt_doctor_guest_call("two.example", port, &findings, &there.s_addr);
    assert_true(fd >= 0);
    inet_ntop(AF_INET, &there, text, sizeof(text));
    assert_string_equal(text, address);
    close(fd);
}

static void assert_turned_away(void)
{
    uint32_t there_be = 0;
    assert_int_equal(tt_doctor_guest_call("two.example", port, &findings, &there_be), -1);
}

static void host_that_listens_at_the_second_address_is_met(void **state)
{
    (void)state;
    listen_at(second, TT_DOCTOR_WELCOME);
    assert_welcomed_at(second);
    assert_int_equal(findings.count, 1);
    assert_found(0, "127.0.0.2: Connection refused", "start `tutti doctor --listen` there first");
}

static void host_that_listens_at_the_first_address_is_met_there(void **state)
{
    (void)state;
    listen_at(first, TT_DOCTOR_WELCOME);
    listen_at(second, TT_DOCTOR_BUSY);
    assert_welcomed_at(first);
    assert_int_equal(findings.count, 0);
}

static void every_address_where_nobody_listens_is_named(void **state)
{
    (void)state;
    assert_turned_away();
    assert_int_equal(findings.count, 2);
    assert_found(0, "127.0.0.2: Connection refused", "start `tutti doctor --listen` there first");
    assert_found(1, "127.0.0.1: Connection refused", "start `tutti doctor --listen` there first");
}

static void something_else_that_listens_at_the_first_address_is_passed_over(void **state)
{
    (void)state;
    listen_at(first, TT_DOCTOR_STRANGER);
    listen_at(second, TT_DOCTOR_WELCOME);
    assert_welcomed_at(second);
    assert_int_equal(findings.count, 1);
    assert_found(0, "127.0.0.2 hangs up at once", "nothing else at this port");
}

static void host_that_listens_and_is_busy_is_not_passed_over(void **state)
{
    (void)state;
    listen_at(first, TT_DOCTOR_BUSY);
    listen_at(second, TT_DOCTOR_WELCOME);
    assert_turned_away();
    assert_int_equal(findings.count, 1);
    assert_found(0, "127.0.0.2 is busy with another host", "when it is done");
}

#define WITH_PORT(name) cmocka_unit_test_setup_teardown(name, setup, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_PORT(host_that_listens_at_the_second_address_is_met),
        WITH_PORT(host_that_listens_at_the_first_address_is_met_there),
        WITH_PORT(every_address_where_nobody_listens_is_named),
        WITH_PORT(something_else_that_listens_at_the_first_address_is_passed_over),
        WITH_PORT(host_that_listens_and_is_busy_is_not_passed_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
