/* SPDX-License-Identifier: BSD-3-Clause */
/* The bootstrap among ranks that behave, or fail as ranks do: real sockets on loopback, real processes that die. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "bootstrap_fixture.h"
#include "free_port.h"
#include "lives_on.h"

enum { MANY = 96 };

static struct fixture_rank ranks[MANY];

static int setup(void **state)
{
    (void)state;
    memset(ranks, 0, sizeof(ranks));
    return 0;
}

static void assert_all_created(uint32_t size)
{
    for (uint32_t rank = 0; rank < size; rank++) {
        assert_string_equal(ranks[rank].create_error, "");
        assert_int_equal(ranks[rank].created, TUTTI_OK);
    }
}

static void assert_all_gathered(uint32_t size)
{
    assert_all_created(size);
    for (uint32_t rank = 0; rank < size; rank++) {
        assert_string_equal(ranks[rank].error, "");
        assert_int_equal(ranks[rank].result, 0);
        assert_false(ranks[rank].wrong_data);
    }
}

static void play_all_lengths(struct fixture_rank *self)
{
    static const size_t lengths[] = {1, 0, 64, 4096, 7, 100000, 3};
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        fixture_allgather(self, lengths[i], i % 2 == 1);
        if (self->result != 0 || self->wrong_data) {
            return;
        }
    }
}

static void every_rank_gets_all_contributions_in_the_order_of_ranks(void **state)
{
    static const uint32_t sizes[] = {2, 3, 8};
    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        setup(NULL);
        for (uint32_t rank = 0; rank < sizes[i]; rank++) {
            ranks[rank].play = play_all_lengths;
        }
        fixture_start(ranks, sizes[i], tt_free_port(), 20000, NULL);
        fixture_join(ranks, sizes[i], NULL);
        assert_all_gathered(sizes[i]);
    }
}

static void contributions_may_be_larger_than_any_socket_buffer(void **state)
{
    static const size_t length = 6 << 20;
    (void)state;
    for (uint32_t rank = 0; rank < 3; rank++) {
        ranks[rank].play = fixture_play_once;
        ranks[rank].argument = &length;
    }
    fixture_start(ranks, 3, tt_free_port(), 20000, NULL);
    fixture_join(ranks, 3, NULL);
    assert_all_gathered(3);
}

static void many_ranks_gather(void **state)
{
    static const size_t length = 2048;
    (void)state;
    for (uint32_t rank = 0; rank < MANY; rank++) {
        ranks[rank].play = fixture_play_once;
        ranks[rank].argument = &length;
    }
    fixture_start(ranks, MANY, tt_free_port(), 20000, NULL);
    fixture_join(ranks, MANY, NULL);
    assert_all_gathered(MANY);
}

static void a_group_of_one_needs_no_network(void **state)
{
    struct tt_bootstrap *bootstrap;
    struct tt_settings settings;
    char receive[4] = "";
    (void)state;
    fixture_settings(&settings, 0, 1, 1, 1000);
    settings.root[0] = '\0';
    settings.rank = settings.size = TT_AUTO;
    assert_int_equal(tt_bootstrap_create(&settings, &bootstrap), TUTTI_OK);
    assert_int_equal(tt_bootstrap_allgather(bootstrap, "abc", receive, 4), 0);
    assert_string_equal(receive, "abc");
    assert_int_equal(tt_bootstrap_allgather(bootstrap, receive, receive, 4), 0);
    assert_int_equal(tt_bootstrap_allgather(bootstrap, NULL, NULL, 0), 0);
    assert_int_equal(tt_bootstrap_failed_rank(bootstrap), -1);
    assert_int_equal(tt_bootstrap_strangers(bootstrap), 0);
    tt_bootstrap_destroy(bootstrap);
    tt_bootstrap_destroy(NULL);
}

static void ranks_that_are_early_wait_for_rank_0(void **state)
{
    (void)state;
    for (uint32_t rank = 0; rank < 4; rank++) {
        ranks[rank].play = fixture_play_once;
    }
    ranks[0].delay_ms = 200;
    fixture_start(ranks, 4, tt_free_port(), 20000, NULL);
    fixture_join(ranks, 4, NULL);
    assert_all_gathered(4);
    for (uint32_t rank = 1; rank < 4; rank++) { /* however late they were themselves */
        assert_in_range(ranks[rank].begun_ms + ranks[rank].create_ms, ranks[0].begun_ms, ranks[0].begun_ms + 15000);
    }
}

/* Whoever comes once rank 0 has opened connects at the first try, and waits until rank 0 has time. */
static void rank_0_may_do_something_between_listening_and_meeting(void **state)
{
    (void)state;
    uint16_t port = tt_free_port();
    fixture_settings(&ranks[0].settings, 0, 3, port, 20000);
    assert_int_equal(tt_bootstrap_open(&ranks[0].settings, &ranks[0].bootstrap), TUTTI_OK);
    close(fixture_connect(port)); /* it listens */
    ranks[1].play = ranks[2].play = fixture_play_once;
    fixture_start(ranks, 3, port, 20000, "x..");
    fixture_sleep_ms(100);
    assert_int_equal(tt_bootstrap_meet(ranks[0].bootstrap), TUTTI_OK);
    fixture_play_once(&ranks[0]);
    fixture_join(ranks, 3, "x..");
    assert_all_gathered(3);
    assert_in_range(ranks[1].create_ms, 20, 15000);
}

static void what_was_opened_and_meets_nobody_says_who_is_missing(void **state)
{
    (void)state;
    fixture_settings(&ranks[0].settings, 0, 3, tt_free_port(), 50);
    assert_int_equal(tt_bootstrap_open(&ranks[0].settings, &ranks[0].bootstrap), TUTTI_OK);
    assert_int_equal(tt_bootstrap_meet(ranks[0].bootstrap), TUTTI_ERR_TIMED_OUT);
    assert_non_null(strstr(tt_last_error(), "ranks 1-2"));
    tt_bootstrap_destroy(ranks[0].bootstrap);
}

static void play_and_leave(struct fixture_rank *self)
{
    play_all_lengths(self);
    tt_bootstrap_destroy(self->bootstrap);
    self->bootstrap = NULL;
}

static void who_leaves_after_the_last_allgather_disturbs_nobody(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++) {
        setup(NULL);
        for (uint32_t rank = 0; rank < 6; rank++) {
            ranks[rank].play = play_and_leave;
        }
        fixture_start(ranks, 6, tt_free_port(), 20000, NULL);
        fixture_join(ranks, 6, NULL);
        assert_all_gathered(6);
    }
}

/* Creates a second bootstrap while the first is still there. */
static void play_twice(struct fixture_rank *self)
{
    struct tt_bootstrap *first = self->bootstrap;
    fixture_play_once(self);
    self->created = tt_bootstrap_create(&self->settings, &self->bootstrap);
    if (self->created == TUTTI_OK) {
        fixture_play_once(self);
    } else {
        self->bootstrap = NULL;
    }
    tt_bootstrap_destroy(first);
}

static void the_same_ranks_meet_again_at_the_same_address(void **state)
{
    (void)state;
    for (uint32_t rank = 0; rank < 4; rank++) {
        ranks[rank].play = play_twice;
    }
    fixture_start(ranks, 4, tt_free_port(), 20000, NULL);
    fixture_join(ranks, 4, NULL);
    assert_all_gathered(4);
}

static void an_inherited_socket_serves_and_stays_for_the_next_time(void **state)
{
    uint16_t port;
    int listener = fixture_listen(&port);
    (void)state;
    for (uint32_t rank = 0; rank < 4; rank++) {
        ranks[rank].play = play_twice;
    }
    ranks[0].settings.root_fd = (uint64_t)listener;
    fixture_start(ranks, 4, port, 20000, NULL);
    fixture_join(ranks, 4, NULL);
    assert_all_gathered(4);
    assert_int_equal(fcntl(listener, F_GETFD), FD_CLOEXEC);
    close(listener);
}

/* --- Failures during allgathers ----------------------------------------------------------------------------------- */

struct script {
    volatile sig_atomic_t first_done;
    bool leaves_a_fork; /* when it is killed, a child of its own lives on: */
    volatile pid_t left_behind;
};

/* A rank in a process of its own: takes part in one allgather, then waits to be killed. */
static pid_t fork_rank(uint32_t rank, uint32_t size, uint16_t port, struct script *shared)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct fixture_rank self = {.delay_ms = 0};
        fixture_settings(&self.settings, rank, size, port, 20000);
        if (tt_bootstrap_create(&self.settings, &self.bootstrap) == TUTTI_OK) {
            fixture_play_once(&self);
            shared->left_behind = shared->leaves_a_fork ? tt_fork_that_lives_on() : 0;
            shared->first_done = self.result == 0 && shared->left_behind >= 0;
        }
        pause();
        _exit(0);
    }
    return child;
}

static void play_twice_on_one(struct fixture_rank *self)
{
    fixture_play_once(self);
    if (self->result == 0) {
        fixture_play_once(self);
    }
}

static struct script *shared_script(void)
{
    struct script *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(shared, MAP_FAILED);
    memset(shared, 0, sizeof(*shared));
    return shared;
}

static void kill_when_done(pid_t child, struct script *shared)
{
    unsigned start_ms = fixture_now_ms();
    while (!shared->first_done) {
        assert_in_range(fixture_now_ms() - start_ms, 0, 15000);
        fixture_sleep_ms(2);
    }
    fixture_sleep_ms(50); /* the others are in the second one by now */
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

static void play_twice_and_once_more(struct fixture_rank *self)
{
    char first[FIXTURE_TEXT_BYTES];
    play_twice_on_one(self);
    snprintf(first, sizeof(first), "%s", self->error);
    unsigned last_ms = self->last_ms;
    fixture_play_once(self);
    self->wrong_data = strcmp(first, self->error) != 0 || self->result != TUTTI_ERR_PEER_FAILED;
    self->last_ms = last_ms;
    self->failed_rank = tt_bootstrap_failed_rank(self->bootstrap);
}

static void kill_rank_2_of_4(struct script *shared)
{
    uint16_t port = tt_free_port();
    pid_t child = fork_rank(2, 4, port, shared);
    for (uint32_t rank = 0; rank < 4; rank++) {
        ranks[rank].play = play_twice_and_once_more;
    }
    fixture_start(ranks, 4, port, 20000, "..x.");
    kill_when_done(child, shared);
    fixture_join(ranks, 4, "..x.");
    for (uint32_t rank = 0; rank < 4; rank++) {
        if (rank != 2) {
            assert_string_equal(ranks[rank].error, "rank 2 died or left during allgather 2");
            assert_int_equal(ranks[rank].result, TUTTI_ERR_PEER_FAILED);
            assert_false(ranks[rank].wrong_data); /* the third one failed in the same way */
            assert_int_equal(ranks[rank].failed_rank, 2);
            assert_in_range(ranks[rank].last_ms, 0, 10000);
        }
    }
}

static void a_killed_rank_is_named_by_every_other_rank(void **state)
{
    struct script *shared = shared_script();
    (void)state;
    kill_rank_2_of_4(shared);
    munmap(shared, sizeof(*shared));
}

static void a_killed_rank_is_named_though_its_fork_lives_on(void **state)
{
    struct script *shared = shared_script();
    (void)state;
    shared->leaves_a_fork = true;
    kill_rank_2_of_4(shared);
    assert_true(shared->left_behind > 0);
    assert_int_equal(kill(shared->left_behind, SIGKILL), 0); /* it still was there */
    munmap(shared, sizeof(*shared));
}

static void the_death_of_rank_0_is_seen_by_all(void **state)
{
    struct script *shared = shared_script();
    uint16_t port = tt_free_port();
    char expected[128];
    (void)state;
    pid_t child = fork_rank(0, 4, port, shared);
    for (uint32_t rank = 1; rank < 4; rank++) {
        ranks[rank].play = play_twice_on_one;
    }
    fixture_start(ranks, 4, port, 20000, "x...");
    kill_when_done(child, shared);
    munmap(shared, sizeof(*shared));
    fixture_join(ranks, 4, "x...");
    snprintf(expected, sizeof(expected), "rank 0 at 127.0.0.1:%u died or left during allgather 2", port);
    for (uint32_t rank = 1; rank < 4; rank++) {
        /* With its last contribution unread, its end is a reset. */
        assert_memory_equal(ranks[rank].error, expected, strlen(expected));
        assert_int_equal(ranks[rank].result, TUTTI_ERR_PEER_FAILED);
        assert_in_range(ranks[rank].last_ms, 0, 10000);
    }
}

static void play_with_own_length(struct fixture_rank *self)
{
    fixture_allgather(self, self->settings.rank == 2 ? 65 : 64, false);
}

static void another_length_is_named_with_both_lengths(void **state)
{
    (void)state;
    for (uint32_t rank = 0; rank < 4; rank++) {
        ranks[rank].play = play_with_own_length;
    }
    fixture_start(ranks, 4, tt_free_port(), 20000, NULL);
    fixture_join(ranks, 4, NULL);
    assert_all_created(4);
    for (uint32_t rank = 0; rank < 4; rank++) {
        assert_string_equal(ranks[rank].error, "rank 2 gave 65 bytes to allgather 1, rank 0 64");
        assert_int_equal(ranks[rank].result, TUTTI_ERR_MISMATCH);
    }
}

static void ranks_that_do_not_take_part_are_named_at_the_deadline(void **state)
{
    static const size_t length = 8 << 20; /* more than sockets buffer, so that the others are stuck in sending */
    (void)state;
    for (uint32_t rank = 0; rank < 5; rank++) {
        ranks[rank].play = rank == 2 || rank == 3 ? NULL : fixture_play_once;
        ranks[rank].argument = &length;
    }
    fixture_start(ranks, 5, tt_free_port(), 3000, NULL);
    fixture_join(ranks, 5, NULL);
    assert_all_created(5);
    for (uint32_t rank = 0; rank < 5; rank++) {
        if (rank != 2 && rank != 3) {
            assert_string_equal(ranks[rank].error, "rank 0 waited 3 s: ranks 2-3 did not take part in allgather 1");
            assert_int_equal(ranks[rank].result, TUTTI_ERR_TIMED_OUT);
            assert_in_range(ranks[rank].last_ms, 2500, 20000);
        }
    }
}

static void a_rank_0_that_does_not_take_part_is_named(void **state)
{
    char expected[256];
    uint16_t port = tt_free_port();
    (void)state;
    ranks[1].play = fixture_play_once;
    fixture_start(ranks, 2, port, 600, NULL);
    fixture_join(ranks, 2, NULL);
    assert_all_created(2);
    snprintf(expected, sizeof(expected), "rank 1 waited 2900 ms: rank 0 at 127.0.0.1:%u did not finish allgather 1",
             port);
    assert_string_equal(ranks[1].error, expected);
    assert_int_equal(ranks[1].result, TUTTI_ERR_TIMED_OUT);
}

static void a_total_that_no_memory_holds_is_refused(void **state)
{
    (void)state;
    fixture_start(ranks, 2, tt_free_port(), 5000, NULL);
    for (uint32_t rank = 0; rank < 2; rank++) {
        pthread_join(ranks[rank].thread, NULL);
    }
    assert_all_created(2);
    assert_int_equal(tt_bootstrap_allgather(ranks[0].bootstrap, "", NULL, SIZE_MAX / 2 + 1), TUTTI_ERR_TOO_LARGE);
    assert_int_equal(tt_bootstrap_allgather(ranks[0].bootstrap, "", NULL, SIZE_MAX / 3), TUTTI_ERR_TOO_LARGE);
    for (uint32_t rank = 0; rank < 2; rank++) {
        tt_bootstrap_destroy(ranks[rank].bootstrap);
    }
}

/* --- Descriptors -------------------------------------------------------------------------------------------------- */

/* How many descriptors are open; *inheritable of them would survive exec. */
static int count_descriptors(int *inheritable)
{
    DIR *directory = opendir("/proc/self/fd");
    int count = 0;
    assert_non_null(directory);
    *inheritable = 0;
    for (struct dirent *entry = readdir(directory); entry != NULL; entry = readdir(directory)) {
        int fd = atoi(entry->d_name);
        if (entry->d_name[0] != '.' && fd != dirfd(directory)) {
            count++;
            *inheritable += (fcntl(fd, F_GETFD) & FD_CLOEXEC) == 0;
        }
    }
    closedir(directory);
    return count;
}

static void all_descriptors_are_close_on_exec_and_closed_in_the_end(void **state)
{
    int inheritable_before, inheritable;
    int before = count_descriptors(&inheritable_before);
    (void)state;
    fixture_start(ranks, 5, tt_free_port(), 5000, NULL);
    for (uint32_t rank = 0; rank < 5; rank++) {
        pthread_join(ranks[rank].thread, NULL);
    }
    assert_all_created(5);
    /* Two ends of four connections, and rank 0's epoll: it listens no more. */
    assert_int_equal(count_descriptors(&inheritable), before + 9);
    assert_int_equal(inheritable, inheritable_before);
    for (uint32_t rank = 0; rank < 5; rank++) {
        tt_bootstrap_destroy(ranks[rank].bootstrap);
    }
    assert_int_equal(count_descriptors(&inheritable), before);
    setup(NULL);
    fixture_start(ranks, 3, tt_free_port(), 100, ".x.");
    fixture_join(ranks, 3, ".x.");
    assert_int_equal(count_descriptors(&inheritable), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(every_rank_gets_all_contributions_in_the_order_of_ranks, setup),
        cmocka_unit_test_setup(contributions_may_be_larger_than_any_socket_buffer, setup),
        cmocka_unit_test_setup(many_ranks_gather, setup),
        cmocka_unit_test_setup(a_group_of_one_needs_no_network, setup),
        cmocka_unit_test_setup(ranks_that_are_early_wait_for_rank_0, setup),
        cmocka_unit_test_setup(rank_0_may_do_something_between_listening_and_meeting, setup),
        cmocka_unit_test_setup(what_was_opened_and_meets_nobody_says_who_is_missing, setup),
        cmocka_unit_test_setup(who_leaves_after_the_last_allgather_disturbs_nobody, setup),
        cmocka_unit_test_setup(the_same_ranks_meet_again_at_the_same_address, setup),
        cmocka_unit_test_setup(an_inherited_socket_serves_and_stays_for_the_next_time, setup),
        cmocka_unit_test_setup(a_killed_rank_is_named_by_every_other_rank, setup),
        cmocka_unit_test_setup(a_killed_rank_is_named_though_its_fork_lives_on, setup),
        cmocka_unit_test_setup(the_death_of_rank_0_is_seen_by_all, setup),
        cmocka_unit_test_setup(another_length_is_named_with_both_lengths, setup),
        cmocka_unit_test_setup(ranks_that_do_not_take_part_are_named_at_the_deadline, setup),
        cmocka_unit_test_setup(a_rank_0_that_does_not_take_part_is_named, setup),
        cmocka_unit_test_setup(a_total_that_no_memory_holds_is_refused, setup),
        cmocka_unit_test_setup(all_descriptors_are_close_on_exec_and_closed_in_the_end, setup),
    };
    char message[128];
    tt_log_configure("none", NULL, message, sizeof(message));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
