/* SPDX-License-Identifier: BSD-3-Clause */
/* Bootstraps that cannot be: ranks that never come, addresses that are none, settings that are missing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "bootstrap_fixture.h"
#include "free_port.h"

enum { RANKS = 8 };

static struct fixture_rank ranks[RANKS];

static int setup(void **state)
{
    (void)state;
    memset(ranks, 0, sizeof(ranks));
    return 0;
}

/* --- Who is missing ----------------------------------------------------------------------------------------------- */

static void assert_all_failed(uint32_t size, const char *left_out, tutti_status status, const char *text)
{
    for (uint32_t rank = 0; rank < size; rank++) {
        if (left_out[rank] != 'x') {
            assert_string_equal(ranks[rank].create_error, text);
            assert_int_equal(ranks[rank].created, status);
            assert_null(ranks[rank].bootstrap);
        }
    }
}

static void every_rank_that_came_names_those_that_never_came(void **state)
{
    (void)state;
    fixture_start(ranks, 8, tt_free_port(), 2500, "..x..xxx");
    fixture_join(ranks, 8, "..x..xxx");
    assert_all_failed(8, "..x..xxx", TUTTI_ERR_TIMED_OUT, "rank 0 waited 2500 ms: ranks 2, 5-7 never came");
    assert_in_range(ranks[0].create_ms, 2000, 15000);
    assert_in_range(ranks[1].create_ms, 1000, 15000);
}

static void one_missing_rank_is_named_alone(void **state)
{
    (void)state;
    ranks[0].delay_ms = 500; /* rank 0 counts from its own start, and the others go by that */
    fixture_start(ranks, 3, tt_free_port(), 2500, "..x");
    fixture_join(ranks, 3, "..x");
    assert_all_failed(3, "..x", TUTTI_ERR_TIMED_OUT, "rank 0 waited 2500 ms: rank 2 never came");
}

/* Rank 2 came, but not as it was to: rank 0 says so, and not only that it never came. */
static void assert_turned_away(uint32_t rank, uint32_t size, tutti_status status, const char *reason)
{
    uint16_t port = tt_free_port();
    struct tt_bootstrap *bootstrap = NULL;
    struct tt_settings settings;
    char expected[256];

    fixture_start(ranks, 3, port, 1500, "..x");
    fixture_sleep_ms(200); /* so that the other process of rank 1 has come */
    fixture_settings(&settings, rank, size, port, 1500);
    assert_int_equal(tt_bootstrap_create(&settings, &bootstrap), status);
    assert_null(bootstrap);
    assert_string_equal(tt_last_error(), reason);
    fixture_join(ranks, 3, "..x");
    snprintf(expected, sizeof expected, "rank 0 waited 1500 ms: rank 2 never came; 127.0.0.1 was turned away: %s",
             reason);
    assert_all_failed(3, "..x", TUTTI_ERR_TIMED_OUT, expected);
}

static void a_rank_of_another_size_is_named_by_rank_0_too(void **state)
{
    (void)state;
    assert_turned_away(2, 4, TUTTI_ERR_MISMATCH, "rank 2 was started with TUTTI_SIZE=4, but rank 0 with TUTTI_SIZE=3");
}

static void a_rank_that_two_processes_have_is_named_by_rank_0_too(void **state)
{
    (void)state;
    assert_turned_away(1, 3, TUTTI_ERR_BOOTSTRAP, "rank 1 is here already: two processes have TUTTI_RANK=1");
}

static void who_cannot_reach_rank_0_says_where_and_why(void **state)
{
    char expected[256];
    uint16_t port = tt_free_port();
    (void)state;
    fixture_start(ranks, 2, port, 700, "x.");
    fixture_join(ranks, 2, "x.");
    snprintf(expected, sizeof(expected), "rank 1 cannot reach rank 0 at 127.0.0.1:%u in 700 ms: Connection refused",
             port);
    assert_all_failed(2, "x.", TUTTI_ERR_TIMED_OUT, expected);
    assert_in_range(ranks[1].create_ms, 695, 15000);
}

/* What a name came to may be the very fault: here one that is not written as its address. */
static void who_cannot_reach_rank_0_by_a_name_says_which_address_that_is(void **state)
{
    char expected[256];
    uint16_t port = tt_free_port();
    (void)state;
    ranks[1].host = "127.1";
    fixture_start(ranks, 2, port, 700, "x.");
    fixture_join(ranks, 2, "x.");
    snprintf(expected, sizeof(expected),
             "rank 1 cannot reach rank 0 at 127.1:%u (127.0.0.1) in 700 ms: Connection refused", port);
    assert_all_failed(2, "x.", TUTTI_ERR_TIMED_OUT, expected);
}

static void rank_0_says_that_it_listens_where_no_other_host_can_reach_it(void **state)
{
    (void)state;
    ranks[0].host = ranks[1].host = "127.1";
    fixture_start(ranks, 3, tt_free_port(), 1500, "..x");
    fixture_join(ranks, 3, "..x");
    assert_all_failed(3, "..x", TUTTI_ERR_TIMED_OUT,
                      "rank 0 waited 1500 ms: rank 2 never came; it listens at 127.1 (127.0.0.1), which no other host "
                      "reaches");
}

static void who_is_not_answered_says_so(void **state)
{
    char expected[256];
    uint16_t port;
    int silent = fixture_listen(&port);
    (void)state;
    fixture_start(ranks, 2, port, 700, "x.");
    fixture_join(ranks, 2, "x.");
    close(silent);
    snprintf(expected, sizeof(expected), "rank 1 cannot reach rank 0 at 127.0.0.1:%u in 700 ms: it does not answer",
             port);
    assert_all_failed(2, "x.", TUTTI_ERR_TIMED_OUT, expected);
}

/* A socket that listens beside rank 0's address, at the same port, and never answers. */
static int listen_beside(uint16_t *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    *port = tt_free_port();
    address.sin_port = htons(*port);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(fd, 8), 0);
    return fd;
}

static void who_is_not_answered_tries_the_next_address(void **state)
{
    struct tt_bootstrap *bootstrap = NULL;
    struct tt_settings settings;
    uint16_t port;
    int silent = listen_beside(&port);
    (void)state;
    fixture_start(ranks, 2, port, 20000, ".x");
    fixture_settings(&settings, 1, 2, port, 20000);
    snprintf(settings.root, sizeof(settings.root), "127.0.0.2,127.0.0.1:%u", port);
    unsigned start_ms = fixture_now_ms();
    assert_int_equal(tt_bootstrap_create(&settings, &bootstrap), TUTTI_OK);
    assert_in_range(fixture_now_ms() - start_ms, 4900, 15000); /* a quarter of the time */
    tt_bootstrap_destroy(bootstrap);
    fixture_join(ranks, 2, ".x");
    assert_int_equal(ranks[0].created, TUTTI_OK);
    close(silent);
}

/* --- Nothing to reach anybody with -------------------------------------------------------------------------------- */

/* In a process of its own, which has no descriptor left: 0 if that is what it says, at once. */
static int create_without_descriptors(uint32_t rank, const char *words)
{
    int probe = open("/dev/null", O_RDONLY | O_CLOEXEC);
    struct rlimit limit = {.rlim_cur = (rlim_t)probe, .rlim_max = (rlim_t)probe};
    struct tt_bootstrap *bootstrap = NULL;
    struct tt_settings settings;
    char expected[256];
    uint16_t port = tt_free_port();
    close(probe);
    setrlimit(RLIMIT_NOFILE, &limit);
    fixture_settings(&settings, rank, 2, port, 30000);
    snprintf(expected, sizeof(expected), words, port, probe);
    unsigned start_ms = fixture_now_ms();
    if (tt_bootstrap_create(&settings, &bootstrap) != TUTTI_ERR_NO_RESOURCE) {
        return 1;
    }
    return strcmp(tt_last_error(), expected) != 0 ? 2 : fixture_now_ms() - start_ms > 15000 ? 3 : 0;
}

static void assert_says_without_descriptors(uint32_t rank, const char *words)
{
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        _exit(create_without_descriptors(rank, words));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void want_of_descriptors_is_told_at_once_and_not_taken_for_a_missing_rank(void **state)
{
    (void)state;
    assert_says_without_descriptors(1, "rank 1 cannot reach rank 0 at 127.0.0.1:%u: Too many open files (this process "
                                       "may have %d: ulimit -n)");
    assert_says_without_descriptors(0, "TUTTI_ROOT=127.0.0.1:%u: rank 0 cannot listen there: Too many open files (this "
                                       "process may have %d: ulimit -n)");
}

static void a_name_that_does_not_resolve_is_in_the_error(void **state)
{
    struct tt_bootstrap *bootstrap = NULL;
    struct tt_settings settings;
    (void)state;
    fixture_settings(&settings, 1, 2, 1, 100);
    snprintf(settings.root, sizeof(settings.root), "[::g]:47000");
    assert_int_equal(tt_bootstrap_create(&settings, &bootstrap), TUTTI_ERR_TIMED_OUT);
    assert_non_null(strstr(tt_last_error(), "rank 1 cannot reach rank 0 at [::g]:47000 in 100 ms: "));
    settings.rank = 0;
    assert_int_equal(tt_bootstrap_create(&settings, &bootstrap), TUTTI_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(tt_last_error(), "TUTTI_ROOT=[::g]:47000: "));
    assert_null(bootstrap);
}

/* --- Settings that cannot be -------------------------------------------------------------------------------------- */

static void assert_create_fails(const struct tt_settings *settings, tutti_status status, const char *text)
{
    struct tt_bootstrap *bootstrap = NULL;
    tt_clear_error();
    assert_int_equal(tt_bootstrap_create(settings, &bootstrap), status);
    assert_string_equal(tt_last_error(), text);
    assert_null(bootstrap);
}

static void a_malformed_address_is_refused_with_its_text(void **state)
{
    static const char *const bad[][2] = {
        {"localhost", "TUTTI_ROOT=localhost: not host:port"},
        {":47000", "TUTTI_ROOT=:47000: the host is missing"},
        {"[]:47000", "TUTTI_ROOT=[]:47000: the host is missing"},
        {"host:", "TUTTI_ROOT=host:: the port must be a number from 1 to 65535"},
        {"host:0", "TUTTI_ROOT=host:0: the port must be a number from 1 to 65535"},
        {"host:65536", "TUTTI_ROOT=host:65536: the port must be a number from 1 to 65535"},
        {"host:1-2", "TUTTI_ROOT=host:1-2: the port must be a number from 1 to 65535"},
        {"host:http", "TUTTI_ROOT=host:http: the port must be a number from 1 to 65535"},
        {"host:+1", "TUTTI_ROOT=host:+1: the port must be a number from 1 to 65535"},
        {"::1:47000", "TUTTI_ROOT=::1:47000: not host:port (an IPv6 address needs brackets)"},
        {"[::1]", "TUTTI_ROOT=[::1]: an address in brackets must end in ']:' and a port"},
        {"[::1:47000", "TUTTI_ROOT=[::1:47000: an address in brackets must end in ']:' and a port"},
        {"a host:47000", "TUTTI_ROOT=a host:47000: that is no host name"},
        {"http//host:80", "TUTTI_ROOT=http//host:80: that is no host name"},
    };
    struct tt_settings settings;
    (void)state;
    for (uint32_t rank = 0; rank < 2; rank++) {
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
            fixture_settings(&settings, rank, 2, 1, 1000);
            snprintf(settings.root, sizeof(settings.root), "%s", bad[i][0]);
            assert_create_fails(&settings, TUTTI_ERR_INVALID_ARGUMENT, bad[i][1]);
        }
    }
}

static void missing_settings_are_named(void **state)
{
    struct tt_settings settings;
    (void)state;
    fixture_settings(&settings, 1, 4, 1, 1000);
    settings.root[0] = '\0';
    assert_create_fails(&settings, TUTTI_ERR_INVALID_ARGUMENT, "TUTTI_ROOT is not set, but TUTTI_SIZE=4");
    settings.rank = TT_AUTO;
    assert_create_fails(&settings, TUTTI_ERR_INVALID_ARGUMENT, "TUTTI_ROOT is not set, but TUTTI_SIZE=4");
    settings.rank = 4;
    assert_create_fails(&settings, TUTTI_ERR_INVALID_ARGUMENT, "TUTTI_RANK=4: must be below TUTTI_SIZE=4");
}

static void a_port_that_is_taken_is_named(void **state)
{
    struct tt_settings settings;
    char expected[128];
    uint16_t port;
    int listener = fixture_listen(&port);
    (void)state;
    fixture_settings(&settings, 0, 2, port, 1000);
    snprintf(expected, sizeof(expected), "TUTTI_ROOT=127.0.0.1:%u: another process listens there already", port);
    assert_create_fails(&settings, TUTTI_ERR_IN_USE, expected);
    close(listener);
}

static void an_address_of_another_host_is_named(void **state)
{
    struct tt_settings settings;
    (void)state;
    fixture_settings(&settings, 0, 2, 1, 1000);
    snprintf(settings.root, sizeof(settings.root), "192.0.2.1:47000");
    assert_create_fails(&settings, TUTTI_ERR_IO,
                        "TUTTI_ROOT=192.0.2.1:47000: rank 0 cannot listen there: Cannot assign requested address");
}

static void an_inherited_descriptor_must_listen(void **state)
{
    struct tt_settings settings;
    char expected[128];
    int pipes[2];
    (void)state;
    fixture_settings(&settings, 0, 2, 1, 1000);
    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    settings.root_fd = (uint64_t)pipes[0];
    snprintf(expected, sizeof(expected), "TUTTI_ROOT_FD=%d: Socket operation on non-socket", pipes[0]);
    assert_create_fails(&settings, TUTTI_ERR_INVALID_ARGUMENT, expected);
    close(pipes[0]);
    close(pipes[1]);
    snprintf(expected, sizeof(expected), "TUTTI_ROOT_FD=%d: Bad file descriptor", pipes[0]);
    assert_create_fails(&settings, TUTTI_ERR_INVALID_ARGUMENT, expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(every_rank_that_came_names_those_that_never_came, setup),
        cmocka_unit_test_setup(one_missing_rank_is_named_alone, setup),
        cmocka_unit_test_setup(a_rank_of_another_size_is_named_by_rank_0_too, setup),
        cmocka_unit_test_setup(a_rank_that_two_processes_have_is_named_by_rank_0_too, setup),
        cmocka_unit_test_setup(who_cannot_reach_rank_0_says_where_and_why, setup),
        cmocka_unit_test_setup(who_cannot_reach_rank_0_by_a_name_says_which_address_that_is, setup),
        cmocka_unit_test_setup(rank_0_says_that_it_listens_where_no_other_host_can_reach_it, setup),
        cmocka_unit_test_setup(who_is_not_answered_says_so, setup),
        cmocka_unit_test_setup(who_is_not_answered_tries_the_next_address, setup),
        cmocka_unit_test_setup(want_of_descriptors_is_told_at_once_and_not_taken_for_a_missing_rank, setup),
        cmocka_unit_test_setup(a_name_that_does_not_resolve_is_in_the_error, setup),
        cmocka_unit_test_setup(a_malformed_address_is_refused_with_its_text, setup),
        cmocka_unit_test_setup(missing_settings_are_named, setup),
        cmocka_unit_test_setup(a_port_that_is_taken_is_named, setup),
        cmocka_unit_test_setup(an_address_of_another_host_is_named, setup),
        cmocka_unit_test_setup(an_inherited_descriptor_must_listen, setup),
    };
    char message[128];
    tt_log_configure("none", NULL, message, sizeof(message));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
