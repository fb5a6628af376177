/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How sockets become connections of the tcp provider: what strangers may send, and what the side that is dialed may
 * answer. The other side is the test, over plain sockets.
 */
#include <errno.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "patience.h"
#include "tcp_raw.h"

#define MS TT_NS_PER_MS

/* Nothing that was sent by strangers has changed what the instance is there for. */
static void expect_good_as_before(uint32_t serial)
{
    uint32_t frames = raw.frames;
    int fd = raw_join(TT_TCP_FOR_FRAMES, serial);
    raw_message(fd, TT_TCP_FRAME, "x", 1);
    assert_true(raw_reaches(&raw.frames, frames + 1));
}

static void send_greeting(int fd, const struct tt_tcp_greeting *greeting)
{
    uint8_t bytes[TT_TCP_GREETING_BYTES];
    tt_tcp_greeting_encode(greeting, bytes);
    raw_send(fd, bytes, sizeof(bytes));
}

static struct tt_tcp_greeting good_greeting(void)
{
    struct tt_tcp_greeting greeting = {.purpose = TT_TCP_FOR_FRAMES, .version = TT_TCP_VERSION};
    memcpy(greeting.to, raw.address, sizeof(greeting.to));
    memcpy(greeting.from, raw_address, sizeof(greeting.from));
    return greeting;
}

/* --- Strangers -------------------------------------------------------------------------------------------------- */

static void garbage_is_closed_and_counted_without_an_answer(void **state)
{
    uint8_t garbage[1000];
    (void)state;
    memset(garbage, 'x', sizeof(garbage));
    int fd = raw_dial();
    raw_send(fd, garbage, sizeof(garbage));
    assert_int_equal(raw_answer(fd), TT_TCP_ANSWER_LIMIT);
    assert_int_equal(raw_dropped(), 1);
    expect_good_as_before(0);
}

static void greeting_that_comes_byte_by_byte_is_welcome(void **state)
{
    uint8_t bytes[TT_TCP_GREETING_BYTES];
    struct tt_tcp_greeting greeting = good_greeting();
    (void)state;
    tt_tcp_greeting_encode(&greeting, bytes);
    int fd = raw_dial();
    for (size_t i = 0; i < sizeof(bytes); i++) {
        raw_send(fd, bytes + i, 1);
        raw_turn();
    }
    assert_int_equal(raw_answer(fd), TT_TCP_WELCOME);
}

static void frames_behind_a_greeting_that_come_with_it_are_not_lost(void **state)
{
    uint8_t bytes[TT_TCP_GREETING_BYTES + TT_TCP_MESSAGE_ALIGNMENT] = {0};
    struct tt_tcp_greeting greeting = good_greeting();
    (void)state;
    tt_tcp_greeting_encode(&greeting, bytes);
    tt_tcp_header_encode(TT_TCP_FRAME, 1, bytes + TT_TCP_GREETING_BYTES);
    bytes[TT_TCP_GREETING_BYTES + TT_TCP_HEADER_BYTES] = 'x';
    raw_send(raw_dial(), bytes, sizeof(bytes));
    assert_true(raw_reaches(&raw.frames, 1));
    assert_true(raw.frame_cookie == 0); /* nobody has connected */
}

/* Sleeps as the engine does, so what does not wake the descriptor is not seen. */
static void half_a_greeting_is_given_up_after_five_seconds_without_being_polled(void **state)
{
    struct tt_tcp_greeting greeting = good_greeting();
    uint8_t bytes[TT_TCP_GREETING_BYTES], byte;
    uint64_t start_ns = tt_clock_now_ns(), now_ns = start_ns;
    bool closed = false;
    (void)state;
    tt_tcp_greeting_encode(&greeting, bytes);
    int fd = raw_dial();
    raw_send(fd, bytes, sizeof(bytes) / 2);
    uint32_t turns = 0;
    while (!closed && now_ns - start_ns < 20 * TT_NS_PER_S) {
        struct pollfd wait = {.fd = raw.p2p->ops->fd(raw.p2p), .events = POLLIN};
        raw_turn();
        turns++;
        closed = recv(fd, &byte, 1, MSG_DONTWAIT) == 0;
        if (!closed && raw.p2p->ops->arm(raw.p2p)) {
            assert_int_equal(poll(&wait, 1, 20000), 1);
        }
        now_ns = tt_clock_now_ns();
    }
    assert_true(closed && now_ns - start_ns >= TT_TCP_STRANGER_NS);
    assert_true(now_ns - start_ns < TT_TCP_STRANGER_NS + TT_NS_PER_S * TT_PATIENCE);
    assert_in_range(turns, 1, 100);
    expect_good_as_before(0);
}

static void greeting_to_another_instance_is_answered_as_foreign(void **state)
{
    struct tt_tcp_greeting greeting = good_greeting();
    (void)state;
    greeting.to[2] ^= 1;
    int fd = raw_dial();
    send_greeting(fd, &greeting);
    assert_int_equal(raw_answer(fd), TT_TCP_FOREIGN);
    raw_expect_closed(fd);
    greeting = good_greeting(); /* and so is one from itself */
    memcpy(greeting.from, raw.address, sizeof(greeting.from));
    fd = raw_dial();
    send_greeting(fd, &greeting);
    assert_int_equal(raw_answer(fd), TT_TCP_FOREIGN);
    raw_expect_closed(fd);
    assert_int_equal(raw_dropped(), 2);
    expect_good_as_before(0);
}

static void greeting_of_another_version_is_told_so_whatever_else_it_says(void **state)
{
    struct tt_tcp_greeting greeting = good_greeting();
    uint8_t bytes[TT_TCP_GREETING_BYTES];
    (void)state;
    greeting.version = TT_TCP_VERSION + 1;
    tt_tcp_greeting_encode(&greeting, bytes);
    memset(bytes + 5, 0xff, sizeof(bytes) - 5);
    int fd = raw_dial();
    raw_send(fd, bytes, sizeof(bytes));
    assert_int_equal(raw_answer(fd), TT_TCP_OTHER_VERSION);
    raw_expect_closed(fd);
    expect_good_as_before(0);
}

static void serial_that_is_taken_or_gone_or_far_ahead_is_refused(void **state)
{
    (void)state;
    int first = raw_join(TT_TCP_FOR_FRAMES, 0), fd = raw_dial();
    raw_greet(fd, TT_TCP_FOR_FRAMES, 0);
    assert_int_equal(raw_answer(fd), TT_TCP_GONE);
    raw_expect_closed(fd);
    fd = raw_dial();
    raw_greet(fd, TT_TCP_FOR_FRAMES, TT_SESSION_SERIALS_AHEAD);
    assert_int_equal(raw_answer(fd), TT_TCP_GONE);
    raw_join(TT_TCP_FOR_FRAMES, TT_SESSION_SERIALS_AHEAD - 1);
    raw_connect(); /* takes the first */
    raw_message(first, TT_TCP_FRAME, "x", 1);
    assert_true(raw_reaches(&raw.frames, 1));
    assert_true(raw.frame_cookie == RAW_COOKIE);
    raw_message(first, TT_TCP_BYE, NULL, 0);
    assert_true(raw_reaches(&raw.downs, 1));
    raw.peer->ops->disconnect(raw.peer);
    raw_expect_closed(first);
    fd = raw_dial();
    raw_greet(fd, TT_TCP_FOR_FRAMES, 0);
    assert_int_equal(raw_answer(fd), TT_TCP_GONE);
    expect_good_as_before(1);
}

/* The address is what the greeting says, so each could have another one. */
static void greeting_that_is_refused_leaves_nothing(void **state)
{
    struct tt_tcp_greeting greeting = good_greeting();
    const struct tt_session *session = &((const struct tt_tcp *)raw.p2p)->session;
    (void)state;
    greeting.serial = TT_SESSION_SERIALS_AHEAD;
    for (uint8_t i = 0; i < 10; i++) {
        greeting.from[1] = i;
        int fd = raw_dial();
        send_greeting(fd, &greeting);
        assert_int_equal(raw_answer(fd), TT_TCP_GONE);
        raw_expect_closed(fd);
    }
    assert_int_equal(session->strangers, 0);
    for (uint32_t i = 0; i < TT_SESSION_BUCKETS; i++) {
        assert_true(LIST_EMPTY(&session->remotes[i]));
    }
    expect_good_as_before(0);
    assert_int_equal(session->strangers, 1);
    raw_connect();
    assert_int_equal(session->strangers, 0);
}

static void bulk_without_frames_or_twice_is_refused(void **state)
{
    (void)state;
    int fd = raw_dial();
    raw_greet(fd, TT_TCP_FOR_BULK, 0);
    assert_int_equal(raw_answer(fd), TT_TCP_GONE);
    raw_expect_closed(fd);
    raw_join(TT_TCP_FOR_FRAMES, 0);
    raw_join(TT_TCP_FOR_BULK, 0);
    fd = raw_dial();
    raw_greet(fd, TT_TCP_FOR_BULK, 0);
    assert_int_equal(raw_answer(fd), TT_TCP_GONE);
    fd = raw_dial();
    raw_greet(fd, TT_TCP_FOR_BULK, 1);
    assert_int_equal(raw_answer(fd), TT_TCP_GONE);
    expect_good_as_before(1);
}

/* Where the instance has dialed for frames, it dials for bulk, too. */
static void bulk_from_the_side_that_was_dialed_is_refused(void **state)
{
    (void)state;
    int frames = raw_meet();
    int fd = raw_dial();
    raw_greet(fd, TT_TCP_FOR_BULK, 0);
    assert_int_equal(raw_answer(fd), TT_TCP_GONE);
    raw_message(frames, TT_TCP_FRAME, "x", 1);
    assert_true(raw_reaches(&raw.frames, 2));
}

static void two_hundred_silent_strangers_leave_room_for_who_greets(void **state)
{
    enum { STRANGERS = 200 };
    int strangers[STRANGERS];
    uint32_t closed = 0;
    uint8_t byte;
    (void)state;
    for (int i = 0; i < STRANGERS; i++) {
        strangers[i] = raw_dial();
        if (i % 2 == 0) {
            raw_send(strangers[i], "ttcp", 4);
        }
    }
    expect_good_as_before(0);
    for (int i = 0; i < STRANGERS; i++) {
        ssize_t count = recv(strangers[i], &byte, 1, MSG_DONTWAIT);
        closed += count == 0 || (count < 0 && errno == ECONNRESET);
    }
    assert_in_range(closed, STRANGERS - TT_TCP_STRANGERS_AT_ONCE, STRANGERS);
    for (int i = 0; i < STRANGERS; i++) {
        raw_close(strangers[i]);
    }
    expect_good_as_before(1);
}

static void two_hundred_who_greet_at_once_are_all_answered(void **state)
{
    enum { GREETERS = 200 };
    int greeters[GREETERS];
    struct tt_tcp_greeting greeting = good_greeting();
    (void)state;
    for (int i = 0; i < GREETERS; i++) { /* nobody turns the instance until all are there */
        uint8_t bytes[TT_TCP_GREETING_BYTES];
        greeting.from[1] = (uint8_t)i;
        tt_tcp_greeting_encode(&greeting, bytes);
        greeters[i] = raw_dial();
        assert_int_equal(send(greeters[i], bytes, sizeof(bytes), MSG_NOSIGNAL), sizeof(bytes));
    }
    uint32_t welcome = 0;
    for (int i = 0; i < GREETERS; i++) {
        welcome += raw_answer(greeters[i]) == TT_TCP_WELCOME;
    }
    assert_int_equal(welcome, GREETERS);
}

/* --- Who is dialed ---------------------------------------------------------------------------------------------- */

static void expect_down(const char *part)
{
    assert_true(raw_reaches(&raw.downs, 1));
    if (strstr(raw.down_text, part) == NULL) {
        fail_msg("'%s' does not say '%s'", raw.down_text, part);
    }
    for (int i = 0; i < 10; i++) {
        raw_turn();
    }
    assert_int_equal(raw.downs, 1);
    assert_int_equal(tt_p2p_send(raw.peer, "x", 1, false), TUTTI_ERR_PEER_FAILED);
}

static void expect_down_after(const void *answer, size_t length_bytes, const char *part)
{
    raw_connect();
    int fd = raw_accept();
    raw_send(fd, answer, length_bytes);
    shutdown(fd, SHUT_WR);
    expect_down(part);
    raw_expect_closed(fd);
}

static void expect_down_after_answer(enum tt_tcp_answer answer, const char *part)
{
    uint8_t bytes[TT_TCP_ANSWER_BYTES];
    tt_tcp_answer_encode(answer, bytes);
    expect_down_after(bytes, sizeof(bytes), part);
}

static void answer_that_it_is_gone_is_final(void **state)
{
    (void)state;
    expect_down_after_answer(TT_TCP_GONE, "it has left");
}

static void answer_that_it_is_another_is_final(void **state)
{
    (void)state;
    expect_down_after_answer(TT_TCP_FOREIGN, "another one listens there");
}

static void answer_of_another_version_is_final(void **state)
{
    (void)state;
    expect_down_after_answer(TT_TCP_OTHER_VERSION, "another version of tutti");
}

static void answer_that_there_is_no_room_is_final_and_speaks_of_descriptors(void **state)
{
    (void)state;
    expect_down_after_answer(TT_TCP_NO_ROOM, "no descriptor");
}

static void answer_of_something_else_is_final(void **state)
{
    (void)state;
    expect_down_after("HTTP/1.1 400 Bad Request\r\n", 26, "not tutti");
}

static void end_in_the_middle_of_the_answer_is_final(void **state)
{
    (void)state;
    expect_down_after("ttcp", 4, "closed the connection");
}

static void expect_another_try(void)
{
    int fd = raw_accept();
    raw_say(fd, TT_TCP_WELCOME);
    raw_message(fd, TT_TCP_FRAME, "x", 1);
    assert_true(raw_reaches(&raw.frames, 1));
    assert_int_equal(raw.downs, 0);
}

static void who_closes_without_an_answer_is_dialed_again(void **state)
{
    (void)state;
    raw_connect();
    for (int i = 0; i < 3; i++) {
        raw_close(raw_accept());
    }
    expect_another_try();
}

/* It has not looked for ten seconds since it dialed: its own time is over, but it was not the other side's fault. */
static void who_has_been_away_dials_again(void **state)
{
    (void)state;
    raw_connect();
    ((struct tt_tcp_peer *)raw.peer)->begun_ns -= 10 * TT_NS_PER_S;
    raw_close(raw_accept());
    expect_another_try();
}

/* For so long that the system itself has found out, which it does by keepalive. */
static void who_finds_the_socket_broken_dials_again(void **state)
{
    const struct linger at_once = {.l_onoff = 1};
    (void)state;
    raw_connect();
    int fd = accept4(raw_listener, NULL, NULL, SOCK_CLOEXEC); /* it has not looked since */
    assert_true(fd >= 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)), 0);
    close(fd);
    expect_another_try();
}

static void who_closes_without_an_answer_each_time_is_down(void **state)
{
    uint64_t deadline_ns = tt_clock_now_ns() + 20 * TT_NS_PER_S;
    uint32_t tries = 0;
    (void)state;
    raw_connect();
    while (raw.downs == 0 && tt_clock_now_ns() < deadline_ns) {
        raw_turn();
        int fd = accept4(raw_listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            tries++;
            close(fd);
        }
    }
    assert_int_equal(tries, TT_TCP_TRIES);
    expect_down("closed the connection");
}

static void answer_that_both_have_dialed_leaves_the_word_to_the_other_side(void **state)
{
    (void)state;
    raw_connect();
    int mine = raw_accept();
    raw_say(mine, TT_TCP_TWICE);
    raw_expect_closed(mine);
    expect_good_as_before(0);
    assert_true(raw.frame_cookie == RAW_COOKIE);
}

static void who_said_that_both_have_dialed_and_does_not_come_is_dialed_again(void **state)
{
    uint8_t bytes[TT_TCP_ANSWER_BYTES];
    (void)state;
    raw_connect();
    tt_tcp_answer_encode(TT_TCP_TWICE, bytes);
    raw_send(raw_accept(), bytes, sizeof(bytes));
    uint64_t start_ns = tt_clock_now_ns();
    int again = raw_accept();
    assert_true(tt_clock_now_ns() - start_ns >= TT_TCP_TWICE_NS - 100 * MS);
    raw_say(again, TT_TCP_WELCOME);
    raw_message(again, TT_TCP_FRAME, "x", 1);
    assert_true(raw_reaches(&raw.frames, 1));
}

/* Who answers is there, so no try is used up. */
static void who_says_again_and_again_that_both_have_dialed_is_not_given_up(void **state)
{
    uint8_t bytes[TT_TCP_ANSWER_BYTES];
    (void)state;
    raw_connect();
    tt_tcp_answer_encode(TT_TCP_TWICE, bytes);
    for (int i = 0; i <= TT_TCP_TRIES; i++) {
        int fd = raw_accept();
        raw_send(fd, bytes, sizeof(bytes));
        close(fd);
    }
    close(raw_accept());
    int again = raw_accept();
    raw_say(again, TT_TCP_WELCOME);
    raw_message(again, TT_TCP_FRAME, "x", 1);
    assert_true(raw_reaches(&raw.frames, 1));
}

/* The instance is below, so its own socket is used. */
static void lower_side_that_has_greeted_refuses_the_other_greeting(void **state)
{
    (void)state;
    raw_connect();
    int theirs = raw_accept(), mine = raw_dial();
    raw_greet(mine, TT_TCP_FOR_FRAMES, 0);
    assert_int_equal(raw_answer(mine), TT_TCP_TWICE);
    raw_say(theirs, TT_TCP_WELCOME);
    raw_message(theirs, TT_TCP_FRAME, "x", 1);
    assert_true(raw_reaches(&raw.frames, 1));
}

/* The instance is above, so the other side's socket is used, and its own one is closed. */
static void higher_side_that_has_greeted_takes_the_other_greeting(void **state)
{
    (void)state;
    raw_connect();
    int theirs = raw_accept();
    expect_good_as_before(0);
    raw_expect_closed(theirs);
    assert_int_equal(raw.downs, 0);
}

static void nobody_at_the_port_is_said_with_the_address(void **state)
{
    char address[TT_TCP_TEXT_BYTES];
    (void)state;
    raw_close(raw_listener);
    raw_connect();
    expect_down("Connection refused");
    tt_tcp_address_format(raw_address, address);
    assert_non_null(strstr(address, "127.0.0.1:"));
    assert_non_null(strstr(raw.down_text, address));
}

static void host_that_answers_nothing_is_given_up_after_eight_tries(void **state)
{
    char address[TT_TCP_TEXT_BYTES];
    (void)state;
    raw_fill();
    uint64_t start_ns = tt_clock_now_ns();
    raw_connect();
    assert_true(raw_reaches(&raw.downs, 1));
    uint64_t took_ns = tt_clock_now_ns() - start_ns;
    tt_tcp_address_format(raw_address, address);
    expect_down("no answer to");
    assert_non_null(strstr(raw.down_text, address));
    uint64_t all_ns = (1 + 2 + 4 + 8 + 16 + 3 * 32) * TT_TCP_REDIAL_NS;
    assert_true(took_ns >= all_ns && took_ns < all_ns + 3 * TT_NS_PER_S * TT_PATIENCE);
}

/* The other host, or what answers for it, takes connections and then nothing. */
static void let_no_data_come(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 12), /* X: of the TCP header, from where the filter begins */
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xF0),
        BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, 2),
        BPF_STMT(BPF_MISC | BPF_TAX, 0),
        BPF_STMT(BPF_LD | BPF_W | BPF_LEN, 0),
        BPF_JUMP(BPF_JMP | BPF_JGT | BPF_X, 0, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, 0), /* longer than that: it has data */
        BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
    };
    const struct sock_fprog no_data = {.len = sizeof(code) / sizeof(code[0]), .filter = code};
    assert_int_equal(setsockopt(raw_listener, SOL_SOCKET, SO_ATTACH_FILTER, &no_data, sizeof(no_data)), 0);
}

static void who_does_not_receive_the_greeting_is_given_up_like_a_connection(void **state)
{
    uint64_t begun_ns = tt_clock_now_ns();
    (void)state;
    let_no_data_come();
    raw_connect();
    expect_down("nothing has come back for");
    assert_true(tt_clock_now_ns() - begun_ns >= 5 * TT_NS_PER_S);
    assert_true(tt_clock_now_ns() - begun_ns < 5 * TT_NS_PER_S + 2 * TT_NS_PER_S * TT_PATIENCE);
}

/* The system says it to the probe behind the greeting, and then no more. */
static void an_error_that_a_probe_of_the_greeting_meets_is_the_reason(void **state)
{
    const uint64_t deadline_ns = tt_clock_now_ns() + 20 * TT_NS_PER_S;
    const int soon_ms = 200;
    (void)state;
    let_no_data_come();
    raw_connect();
    const struct tt_tcp_peer *peer = (const struct tt_tcp_peer *)raw.peer;
    while (peer->frames.stage != TT_TCP_GREETED) {
        assert_true(raw.downs == 0 && tt_clock_now_ns() < deadline_ns);
        raw_turn();
    }
    struct pollfd error = {.fd = peer->frames.fd};
    assert_int_equal(setsockopt(error.fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &soon_ms, sizeof(soon_ms)), 0);
    assert_int_equal(poll(&error, 1, 20000), 1);
    for (uint64_t ms = 0; ms < 100; ms++) {
        (void)raw.p2p->ops->tend(raw.p2p, tt_clock_now_ns() + ms * MS);
    }
    expect_down(strerror(ETIMEDOUT));
}

#define WITH_LOWER(name)  cmocka_unit_test_setup_teardown(name, raw_begin_below, raw_end)
#define WITH_HIGHER(name) cmocka_unit_test_setup_teardown(name, raw_begin_above, raw_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_LOWER(garbage_is_closed_and_counted_without_an_answer),
        WITH_LOWER(greeting_that_comes_byte_by_byte_is_welcome),
        WITH_LOWER(frames_behind_a_greeting_that_come_with_it_are_not_lost),
        WITH_LOWER(half_a_greeting_is_given_up_after_five_seconds_without_being_polled),
        WITH_LOWER(greeting_to_another_instance_is_answered_as_foreign),
        WITH_LOWER(greeting_of_another_version_is_told_so_whatever_else_it_says),
        WITH_LOWER(serial_that_is_taken_or_gone_or_far_ahead_is_refused),
        WITH_HIGHER(greeting_that_is_refused_leaves_nothing),
        WITH_LOWER(bulk_without_frames_or_twice_is_refused),
        WITH_HIGHER(bulk_from_the_side_that_was_dialed_is_refused),
        WITH_LOWER(two_hundred_silent_strangers_leave_room_for_who_greets),
        WITH_LOWER(two_hundred_who_greet_at_once_are_all_answered),
        WITH_HIGHER(who_does_not_receive_the_greeting_is_given_up_like_a_connection),
        WITH_HIGHER(an_error_that_a_probe_of_the_greeting_meets_is_the_reason),
        WITH_HIGHER(answer_that_it_is_gone_is_final),
        WITH_HIGHER(answer_that_it_is_another_is_final),
        WITH_HIGHER(answer_of_another_version_is_final),
        WITH_HIGHER(answer_that_there_is_no_room_is_final_and_speaks_of_descriptors),
        WITH_LOWER(answer_of_something_else_is_final),
        WITH_LOWER(end_in_the_middle_of_the_answer_is_final),
        WITH_HIGHER(who_closes_without_an_answer_is_dialed_again),
        WITH_HIGHER(who_has_been_away_dials_again),
        WITH_HIGHER(who_finds_the_socket_broken_dials_again),
        WITH_HIGHER(who_closes_without_an_answer_each_time_is_down),
        WITH_LOWER(answer_that_both_have_dialed_leaves_the_word_to_the_other_side),
        WITH_LOWER(who_said_that_both_have_dialed_and_does_not_come_is_dialed_again),
        WITH_LOWER(who_says_again_and_again_that_both_have_dialed_is_not_given_up),
        WITH_HIGHER(lower_side_that_has_greeted_refuses_the_other_greeting),
        WITH_LOWER(higher_side_that_has_greeted_takes_the_other_greeting),
        WITH_HIGHER(nobody_at_the_port_is_said_with_the_address),
        WITH_HIGHER(host_that_answers_nothing_is_given_up_after_eight_tries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
