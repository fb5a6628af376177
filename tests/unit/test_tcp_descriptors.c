/* SPDX-License-Identifier: BSD-3-Clause */
/* The tcp provider where there is no descriptor left: who is told, in which words, and that nobody spins meanwhile. */
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/log.h"
#include "tcp_raw.h"

static struct rlimit before;

/* No descriptor can be opened any more: all below the limit are used. */
static void take_all_descriptors(void)
{
    int next = dup(STDERR_FILENO);
    assert_true(next >= 0);
    close(next);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    const struct rlimit now = {.rlim_cur = (rlim_t)next, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &now), 0);
}

static void give_descriptors_back(void)
{
    if (before.rlim_cur > 0) {
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        before.rlim_cur = 0;
    }
}

static int end(void **state)
{
    give_descriptors_back();
    return raw_end(state);
}

static void instance_cannot_be_made(void **state)
{
    struct tt_p2p *nothing = NULL;
    (void)state;
    take_all_descriptors();
    assert_int_equal(tt_tcp_create(NULL, &nothing), TUTTI_ERR_NO_RESOURCE);
    assert_non_null(strstr(tt_last_error(), "Too many open files"));
    assert_null(nothing);
}

/* Whichever side dials first, and the peer is not to blame. */
static void connect_ends_in_words(void **state)
{
    (void)state;
    take_all_descriptors();
    raw_connect();
    assert_true(raw_reaches(&raw.downs, 1));
    assert_non_null(strstr(raw.down_text, "Too many open files (this process may have "));
    assert_int_equal(raw.down_status, TUTTI_ERR_NO_RESOURCE);
    assert_int_equal(tt_p2p_send(raw.peer, "x", 1, false), TUTTI_ERR_PEER_FAILED);
    give_descriptors_back();
    raw.peer->ops->disconnect(raw.peer);
    raw.downs = 0;
    raw_connect(); /* the second connection, as at the other side, which has counted the first one, too */
    int dialed = raw_dial();
    raw_greet(dialed, TT_TCP_FOR_FRAMES, 1);
    enum tt_tcp_answer answer = raw_answer(dialed);
    assert_true(answer == TT_TCP_WELCOME || answer == TT_TCP_TWICE); /* not GONE: it is this one that it has */
    assert_int_equal(raw.downs, 0);
}

static void put_without_a_descriptor_for_bulk_ends_in_words(void **state)
{
    uint8_t key[TT_TCP_KEY_BYTES];
    (void)state;
    (void)raw_meet();
    take_all_descriptors();
    tt_tcp_key_encode(1, 2, key);
    assert_int_equal(raw_put(key, "x", 1, 2, 3), TUTTI_OK);
    assert_true(raw_reaches(&raw.downs, 1));
    assert_non_null(strstr(raw.down_text, "Too many open files"));
    assert_int_equal(raw.down_status, TUTTI_ERR_NO_RESOURCE);
    assert_int_equal(raw.dones, 1);
    assert_int_equal(raw.last_status, TUTTI_ERR_PEER_FAILED);
}

/* What it was short of a moment ago is not what ended it. */
static void death_of_a_peer_that_waits_for_a_descriptor_for_bulk_is_its_death(void **state)
{
    uint8_t key[TT_TCP_KEY_BYTES];
    (void)state;
    int frames = raw_meet();
    take_all_descriptors();
    tt_tcp_key_encode(1, 2, key);
    assert_int_equal(raw_put(key, "x", 1, 2, 3), TUTTI_OK);
    raw_turn();
    give_descriptors_back();
    raw_close(frames);
    assert_true(raw_reaches(&raw.downs, 1));
    assert_non_null(strstr(raw.down_text, "closed the connection"));
    assert_int_equal(raw.down_status, TUTTI_ERR_PEER_FAILED);
}

static void closing_the_descriptors_of_an_instance_ends_its_connections_in_words(void **state)
{
    (void)state;
    (void)raw_meet();
    int epoll = tt_tcp_of(raw.p2p)->epoll, kept = dup(epoll);
    close(epoll); /* as closefrom() does */
    assert_true(raw_reaches(&raw.downs, 1));
    assert_non_null(strstr(raw.down_text, "Bad file descriptor"));
    assert_int_equal(raw.down_status, TUTTI_ERR_NO_RESOURCE);
    assert_int_equal(dup2(kept, epoll), epoll); /* for raw_end */
    close(kept);
}

static void a_file_under_the_number_of_a_descriptor_ends_the_connections_in_words(void **state)
{
    (void)state;
    (void)raw_meet();
    int epoll = tt_tcp_of(raw.p2p)->epoll, kept = dup(epoll);
    assert_int_equal(dup2(STDERR_FILENO, epoll), epoll);
    assert_true(raw_reaches(&raw.downs, 1));
    assert_non_null(strstr(raw.down_text, "Invalid argument"));
    assert_int_equal(raw.down_status, TUTTI_ERR_NO_RESOURCE);
    assert_int_equal(dup2(kept, epoll), epoll);
    close(kept);
}

static void all_who_dial_are_told_and_later_ones_are_welcome(void **state)
{
    enum { DIALERS = 20 };
    int dialers[DIALERS];
    (void)state;
    for (int i = 0; i < DIALERS; i++) {
        dialers[i] = raw_dial();
        raw_greet(dialers[i], TT_TCP_FOR_FRAMES, (uint32_t)i);
    }
    take_all_descriptors();
    for (int i = 0; i < DIALERS; i++) {
        assert_int_equal(raw_answer(dialers[i]), TT_TCP_NO_ROOM);
    }
    give_descriptors_back();
    (void)raw_join(TT_TCP_FOR_FRAMES, 0);
}

static void who_waits_to_be_accepted_does_not_keep_the_instance_awake(void **state)
{
    struct pollfd wait = {.fd = raw.p2p->ops->fd(raw.p2p), .events = POLLIN};
    uint64_t start_ns = tt_clock_now_ns();
    uint32_t turns = 0;
    (void)state;
    int first = raw_dial(), second = raw_dial();
    take_all_descriptors();
    raw_greet(first, TT_TCP_FOR_FRAMES, 0);
    assert_int_equal(raw_answer(first), TT_TCP_NO_ROOM);
    assert_int_equal(raw_answer(second), TT_TCP_NO_ROOM);
    give_descriptors_back();
    int third = raw_dial(), fourth = raw_dial(); /* while it is deaf, or a moment later */
    take_all_descriptors();
    while (tt_clock_now_ns() - start_ns < 500 * TT_NS_PER_MS) {
        raw_turn();
        turns++;
        if (raw.p2p->ops->arm(raw.p2p)) {
            (void)poll(&wait, 1, 100);
        }
    }
    assert_in_range(turns, 1, 60); /* it is deaf for a tenth of a second each time */
    assert_int_equal(raw_answer(third), TT_TCP_NO_ROOM);
    assert_int_equal(raw_answer(fourth), TT_TCP_NO_ROOM);
}

/* Where another thread has taken the spare descriptor, who dials cannot even be told. */
static void who_cannot_be_told_does_not_keep_the_instance_awake_and_is_welcome_later(void **state)
{
    struct tt_tcp *tcp = tt_tcp_of(raw.p2p);
    struct pollfd wait = {.fd = raw.p2p->ops->fd(raw.p2p), .events = POLLIN};
    uint64_t start_ns = tt_clock_now_ns();
    uint32_t turns = 0;
    (void)state;
    int fd = raw_dial();
    close(tcp->spare);
    tcp->spare = -1;
    take_all_descriptors();
    while (tt_clock_now_ns() - start_ns < 500 * TT_NS_PER_MS) {
        raw_turn();
        turns++;
        if (raw.p2p->ops->arm(raw.p2p)) {
            (void)poll(&wait, 1, 100);
        }
    }
    assert_in_range(turns, 1, 60);
    give_descriptors_back();
    raw_greet(fd, TT_TCP_FOR_FRAMES, 0);
    assert_int_equal(raw_answer(fd), TT_TCP_WELCOME);
    assert_true(tcp->spare >= 0); /* to tell those of the next shortage */
}

static bool is_open[1024];

static int note_what_is_open(void **state)
{
    for (int fd = 0; fd < 1024; fd++) {
        is_open[fd] = fcntl(fd, F_GETFD) >= 0;
    }
    return raw_begin_above(state);
}

/* Else a program that a process starts keeps its connections alive when it dies. The test's own sockets are so, too. */
static void every_descriptor_is_closed_on_exec(void **state)
{
    struct tt_tcp_place place;
    uint8_t byte = 0;
    uint32_t count = 0;
    (void)state;
    struct tt_p2p_memory *memory = raw_expose(&byte, 1, &place);
    raw_connect(); /* one that the instance dials, with bulk */
    int dialed = raw_accept();
    raw_say(dialed, TT_TCP_WELCOME);
    raw_read(dialed, 1, &place);
    (void)raw_accept();
    (void)raw_join(TT_TCP_FOR_FRAMES, 1); /* and one that it accepts */
    (void)raw_join(TT_TCP_FOR_BULK, 1);
    (void)raw_dial();
    raw_turn();
    for (int fd = 0; fd < 1024; fd++) {
        int flags = fcntl(fd, F_GETFD);
        if (flags >= 0 && !is_open[fd]) {
            assert_true((flags & FD_CLOEXEC) != 0);
            count++;
        }
    }
    assert_in_range(count, 9, 100); /* epoll, timer, spare, listener, 2 dialed, 3 accepted; and the test's */
    raw.p2p->ops->memory_release(memory);
}

#define WITH_LOWER(name)  cmocka_unit_test_setup_teardown(name, raw_begin_below, end)
#define WITH_HIGHER(name) cmocka_unit_test_setup_teardown(name, raw_begin_above, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_LOWER(instance_cannot_be_made),
        WITH_HIGHER(connect_ends_in_words),
        WITH_LOWER(connect_ends_in_words),
        WITH_HIGHER(put_without_a_descriptor_for_bulk_ends_in_words),
        WITH_HIGHER(death_of_a_peer_that_waits_for_a_descriptor_for_bulk_is_its_death),
        WITH_HIGHER(closing_the_descriptors_of_an_instance_ends_its_connections_in_words),
        WITH_HIGHER(a_file_under_the_number_of_a_descriptor_ends_the_connections_in_words),
        WITH_LOWER(all_who_dial_are_told_and_later_ones_are_welcome),
        WITH_LOWER(who_waits_to_be_accepted_does_not_keep_the_instance_awake),
        WITH_LOWER(who_cannot_be_told_does_not_keep_the_instance_awake_and_is_welcome_later),
        cmocka_unit_test_setup_teardown(every_descriptor_is_closed_on_exec, note_what_is_open, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
