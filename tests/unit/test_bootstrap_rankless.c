/* SPDX-License-Identifier: BSD-3-Clause */
/* Processes that have no rank and are given one by rank 0, whatever else knocks at its port. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "bootstrap_fixture.h"

enum { RANKS = 5 };

static struct fixture_rank ranks[RANKS];
static uint16_t port;

static int setup(void **state)
{
    (void)state;
    fixture_init(ranks, RANKS, &port);
    for (uint32_t i = 1; i < RANKS; i++) {
        ranks[i].has_no_rank = true;
    }
    return 0;
}

/* The others come, and nothing has disturbed the job: every rank is there once. */
static void finish_job(void)
{
    bool seen[RANKS] = {false};
    fixture_start(ranks, RANKS, port, 20000, "x....");
    fixture_join(ranks, RANKS, NULL);
    for (uint32_t i = 0; i < RANKS; i++) {
        assert_string_equal(ranks[i].create_error, "");
        assert_string_equal(ranks[i].error, "");
        assert_false(ranks[i].wrong_data);
        assert_in_range(ranks[i].rank, 0, RANKS - 1);
        assert_false(seen[ranks[i].rank]);
        seen[ranks[i].rank] = true;
    }
}

static void start_rank_0(void)
{
    fixture_start(ranks, RANKS, port, 20000, ".xxxx");
}

/* Says hello by hand, and must be welcomed as `expected`. */
static int join_to_be(uint32_t expected, uint32_t rank, uint64_t nonce)
{
    return fixture_be_welcomed(port, rank, RANKS, nonce, expected);
}

static void assert_refused(uint32_t rank, uint32_t size, uint16_t version, tutti_status status, const char *expected)
{
    int fd = fixture_connect(port);
    fixture_say_hello(fd, rank, size, 1, version);
    fixture_be_refused(fd, status, expected);
}

/* Leaves, and returns once rank 0 has seen it: what it hears of a connection it sees in order. */
static void leave(int fd)
{
    shutdown(fd, SHUT_WR);
    assert_true(fixture_read_byte(fd) <= 0 && errno != EAGAIN);
    close(fd);
}

/* They come one by one, so that the order of arrival is known; rank 2 has one and comes first. */
static void the_lowest_rank_that_nobody_has_is_given_in_the_order_of_arrival(void **state)
{
    static const unsigned delays_ms[RANKS] = {0, 200, 0, 400, 600};
    (void)state;
    ranks[2].has_no_rank = false;
    for (uint32_t i = 0; i < RANKS; i++) {
        ranks[i].delay_ms = delays_ms[i];
    }
    start_rank_0();
    finish_job();
    for (uint32_t i = 0; i < RANKS; i++) {
        assert_int_equal(ranks[i].rank, i);
    }
}

static void another_version_or_size_is_refused_with_a_reason(void **state)
{
    (void)state;
    start_rank_0();
    assert_refused(TT_HELLO_NO_RANK, RANKS, 1, TUTTI_ERR_MISMATCH,
                   "a process without a rank speaks version 1 of the bootstrap, rank 0 version 3");
    assert_refused(TT_HELLO_NO_RANK, 7, TT_HELLO_VERSION, TUTTI_ERR_MISMATCH,
                   "a process without a rank was started for 7 in all (--size or TUTTI_SIZE), but rank 0 for 5");
    finish_job();
}

static void a_rank_is_given_once_and_to_the_same_process_again(void **state)
{
    (void)state;
    start_rank_0();
    int first = join_to_be(1, 1, 5);
    int broken = join_to_be(2, TT_HELLO_NO_RANK, 6);
    int again = join_to_be(2, TT_HELLO_NO_RANK, 6);
    assert_int_equal(fixture_read_byte(broken), 0);
    close(broken);
    assert_refused(2, RANKS, TT_HELLO_VERSION, TUTTI_ERR_BOOTSTRAP,
                   "rank 2 is here already: two processes have TUTTI_RANK=2");
    /* Who leaves, leaves its rank to the next, but comes back as what it was. */
    leave(first);
    leave(again);
    again = join_to_be(2, TT_HELLO_NO_RANK, 6);
    first = join_to_be(1, TT_HELLO_NO_RANK, 7);
    leave(first);
    leave(again);
    finish_job();
}

static void who_comes_when_all_ranks_are_taken_does_not_disturb_the_job(void **state)
{
    struct fixture_rank late = {.bootstrap = NULL};
    char expected[160];
    (void)state;
    start_rank_0();
    finish_job();
    fixture_settings(&late.settings, 0, RANKS, port, 300);
    late.settings.rank = TT_AUTO;
    assert_int_equal(tt_bootstrap_create(&late.settings, &late.bootstrap), TUTTI_ERR_TIMED_OUT);
    snprintf(expected, sizeof(expected),
             "a process without a rank cannot reach rank 0 at 127.0.0.1:%u in 300 ms: Connection refused", port);
    assert_string_equal(tt_last_error(), expected);
}

/* A rank 0 that welcomes a rank that it was not asked for. */
struct false_root {
    int listener;
    uint32_t rank, size;
};

static void *welcome_falsely(void *argument)
{
    const struct false_root *root = argument;
    struct tt_hello hello;
    char text[FIXTURE_TEXT_BYTES];
    uint8_t bytes[TT_HELLO_BYTES];
    int fd = accept(root->listener, NULL, NULL);
    if (fd >= 0 && fixture_read_frame(fd, &hello, text)) {
        const struct tt_hello welcome = {.type = TT_HELLO_WELCOME,
                                         .version = TT_HELLO_VERSION,
                                         .rank = root->rank,
                                         .size = root->size,
                                         .nonce = hello.nonce};
        tt_hello_encode(&welcome, bytes);
        send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL);
        shutdown(fd, SHUT_WR);
        recv(fd, bytes, 1, 0); /* until it has hung up */
    }
    close(fd);
    return NULL;
}

static void a_welcome_that_was_not_asked_for_is_none(void **state)
{
    static const struct {
        uint64_t own_rank;
        uint32_t rank, size;
        const char *name;
    } lies[] = {{TT_AUTO, 0, RANKS, "a process without a rank"},
                {TT_AUTO, 6, 9, "a process without a rank"},
                {2, 3, RANKS, "rank 2"}};
    (void)state;
    for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        struct tt_bootstrap *bootstrap = NULL;
        struct tt_settings settings;
        char expected[160];
        pthread_t thread;
        struct false_root root = {.rank = lies[i].rank, .size = lies[i].size};
        root.listener = fixture_listen(&port);
        assert_int_equal(pthread_create(&thread, NULL, welcome_falsely, &root), 0);
        fixture_settings(&settings, 2, RANKS, port, 300);
        settings.rank = lies[i].own_rank;
        assert_int_equal(tt_bootstrap_create(&settings, &bootstrap), TUTTI_ERR_TIMED_OUT);
        pthread_join(thread, NULL);
        close(root.listener);
        snprintf(expected, sizeof(expected), "%s cannot reach rank 0 at 127.0.0.1:%u in 300 ms: ", lies[i].name, port);
        assert_memory_equal(tt_last_error(), expected, strlen(expected));
        assert_null(bootstrap);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_lowest_rank_that_nobody_has_is_given_in_the_order_of_arrival, setup),
        cmocka_unit_test_setup(another_version_or_size_is_refused_with_a_reason, setup),
        cmocka_unit_test_setup(a_rank_is_given_once_and_to_the_same_process_again, setup),
        cmocka_unit_test_setup(who_comes_when_all_ranks_are_taken_does_not_disturb_the_job, setup),
        cmocka_unit_test_setup(a_welcome_that_was_not_asked_for_is_none, setup),
    };
    char message[128];
    tt_log_configure("none", NULL, message, sizeof(message));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
