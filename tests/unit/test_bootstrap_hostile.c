/* SPDX-License-Identifier: BSD-3-Clause */
/* The bootstrap with strangers on its port, ranks that lie, and frames that stop in the middle. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/random.h"
#include "bootstrap_fixture.h"

enum { RANKS = 4, FLOOD = 600, SPARE = 64 };

static struct fixture_rank ranks[RANKS];
static uint16_t port;

static int setup(void **state)
{
    (void)state;
    fixture_init(ranks, RANKS, &port);
    return 0;
}

static void start_but(const char *left_out)
{
    fixture_start(ranks, RANKS, port, 30000, left_out);
}

static void assert_gathered(const char *left_out)
{
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        if (left_out[rank] != 'x') {
            assert_string_equal(ranks[rank].create_error, "");
            assert_string_equal(ranks[rank].error, "");
            assert_int_equal(ranks[rank].result, 0);
            assert_false(ranks[rank].wrong_data);
        }
    }
}

/* Starts the ranks that were left out so far, waits for all, and expects that the job was not disturbed. Rank 0's
 * count of strangers is *strangers. */
static void finish_job(const char *left_out, uint64_t *strangers)
{
    char others[RANKS + 1];
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        others[rank] = left_out[rank] == 'x' ? '.' : 'x';
    }
    others[RANKS] = '\0';
    unsigned start_ms = fixture_now_ms();
    start_but(others);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        pthread_join(ranks[rank].thread, NULL);
    }
    assert_in_range(fixture_now_ms() - start_ms, 0, 15000);
    *strangers = tt_bootstrap_strangers(ranks[0].bootstrap);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        tt_bootstrap_destroy(ranks[rank].bootstrap);
    }
    assert_gathered("....");
}

/* --- Strangers ---------------------------------------------------------------------------------------------------- */

static void silent_and_half_finished_strangers_delay_nobody_and_are_counted(void **state)
{
    const char half[20] = "tttb";
    uint64_t strangers;
    int silent[5], halved[5];
    (void)state;
    start_but("..xx");
    for (int i = 0; i < 5; i++) {
        silent[i] = fixture_connect(port);
        halved[i] = fixture_connect(port);
        assert_int_equal(send(halved[i], half, sizeof(half), MSG_NOSIGNAL), sizeof(half));
    }
    fixture_sleep_ms(30);
    finish_job("..xx", &strangers);
    assert_int_equal(strangers, 10);
    for (int i = 0; i < 5; i++) {
        assert_true(fixture_read_byte(silent[i]) <= 0 && errno != EAGAIN);
        close(silent[i]);
        close(halved[i]);
    }
}

static int inherited_stranger;

/* Ends the stranger while rank 0 waits for this rank. */
static void end_stranger_and_play(struct fixture_rank *self)
{
    close(inherited_stranger);
    fixture_sleep_ms(50);
    fixture_play_once(self);
}

static void a_stranger_that_a_child_has_inherited_does_not_disturb_the_job(void **state)
{
    uint64_t strangers;
    pid_t child;
    (void)state;
    ranks[3].play = end_stranger_and_play;
    start_but(".xxx");
    inherited_stranger = fixture_connect(port);
    int later = fixture_connect(port);
    assert_int_equal(shutdown(later, SHUT_WR), 0);
    assert_int_equal(fixture_read_byte(later), 0); /* so that the one before has been accepted */
    child = _Fork();
    assert_true(child >= 0);
    if (child == 0) { /* with rank 0's end of its connection, which fork() would close */
        close(inherited_stranger);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        pause();
        _exit(0);
    }
    finish_job(".xxx", &strangers);
    assert_int_equal(strangers, 2);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    close(later);
}

static void arbitrary_bytes_change_nothing(void **state)
{
    struct tt_random random;
    uint64_t strangers;
    (void)state;
    tt_random_init(&random, 7);
    start_but("..xx");
    for (int i = 0; i < 200; i++) {
        uint8_t bytes[400];
        size_t length = 1 + (size_t)tt_random_below(&random, sizeof(bytes));
        for (size_t j = 0; j < length; j++) {
            bytes[j] = (uint8_t)tt_random_next(&random);
        }
        if (i % 3 == 0 && length >= 8) {
            memcpy(bytes, "tttb\3\0\1", 8); /* a hello, but for the rest of it */
        }
        int fd = fixture_connect(port);
        send(fd, bytes, length, MSG_NOSIGNAL);
        if (i % 2 == 0) {
            fixture_reset(fd);
        } else {
            close(fd);
        }
    }
    finish_job("..xx", &strangers);
    /* A rank whose place was taken before its hello was read came again. */
    assert_in_range(strangers, 200, 200 + RANKS * 4);
}

static void frames_that_are_no_hello_change_nothing(void **state)
{
    uint64_t strangers;
    (void)state;
    start_but("..xx");
    for (int type = TT_HELLO_WELCOME; type <= TT_HELLO_RESULT; type++) {
        struct tt_hello hello = {
            .type = (enum tt_hello_type)type, .version = TT_HELLO_VERSION, .rank = 2, .size = RANKS};
        uint8_t bytes[TT_HELLO_BYTES];
        hello.sequence = type >= TT_HELLO_GATHER ? 1 : 0;
        hello.status = type == TT_HELLO_REFUSE || type == TT_HELLO_FAIL ? TUTTI_ERR_IO : TUTTI_OK;
        tt_hello_encode(&hello, bytes);
        int fd = fixture_connect(port);
        assert_int_equal(send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL), sizeof(bytes));
        assert_int_equal(fixture_read_byte(fd), 0);
        close(fd);
    }
    finish_job("..xx", &strangers);
    assert_int_equal(strangers, 6);
}

/* Whether rank 0 has hung up. */
static bool is_closed(int fd)
{
    struct pollfd waiting = {.fd = fd, .events = POLLIN};
    return poll(&waiting, 1, 0) > 0;
}

static void in_a_flood_the_oldest_silent_strangers_are_dropped(void **state)
{
    static int flood[FLOOD];
    uint64_t strangers;
    int closed = 0;
    (void)state;
    start_but(".xxx");
    for (int i = 0; i < FLOOD; i++) {
        flood[i] = fixture_connect(port);
    }
    for (int i = 0; i < 30000 && closed < FLOOD - (RANKS + SPARE); i++) {
        fixture_sleep_ms(1);
        closed += is_closed(flood[closed]);
    }
    for (int i = closed; i < FLOOD; i++) {
        assert_false(is_closed(flood[i]));
    }
    assert_int_equal(closed, FLOOD - (RANKS + SPARE));
    finish_job(".xxx", &strangers);
    assert_int_equal(strangers, FLOOD);
    for (int i = 0; i < FLOOD; i++) {
        close(flood[i]);
    }
}

static atomic_bool flooding;

/* Does not wait for connections: when the job has started and nobody accepts any more, the kernel's queue is full. */
static void *flood_port(void *argument)
{
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct timeval limit = {.tv_usec = 50000};
    unsigned *count = argument;
    while (flooding) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_true(fd >= 0);
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)); /* of connect */
        (void)connect(fd, (const struct sockaddr *)&address, sizeof(address));
        fixture_reset(fd);
        (*count)++;
    }
    return NULL;
}

static void a_flood_without_end_does_not_keep_ranks_out(void **state)
{
    uint64_t strangers;
    unsigned count = 0, start_ms = fixture_now_ms();
    uint16_t listening_port;
    pthread_t thread;
    (void)state;
    /* An inherited socket, which still accepts when the job has started. */
    int listener = fixture_listen(&listening_port);
    port = listening_port;
    ranks[0].settings.root_fd = (uint64_t)listener;
    flooding = true;
    assert_int_equal(pthread_create(&thread, NULL, flood_port, &count), 0);
    start_but(".xxx");
    fixture_sleep_ms(100);
    finish_job(".xxx", &strangers);
    flooding = false;
    pthread_join(thread, NULL);
    close(listener);
    assert_true(strangers > 20);
    /* A rank whose place was taken before its hello was read is a stranger, too, and comes again after 2.5 ms. */
    assert_true(strangers <= count + (RANKS - 1) * ((fixture_now_ms() - start_ms) / 2 + 1));
}

/* In a process of its own, with few descriptors; `firmly`: it may not have more. */
static int play_with_few_descriptors(int spare, bool firmly)
{
    int probe = open("/dev/null", O_RDONLY | O_CLOEXEC);
    struct rlimit limit = {.rlim_cur = (rlim_t)(probe + spare), .rlim_max = (rlim_t)(probe + (firmly ? spare : 20))};
    struct fixture_rank self = {.delay_ms = 0};
    close(probe);
    setrlimit(RLIMIT_NOFILE, &limit);
    fixture_settings(&self.settings, 0, RANKS, port, 20000);
    tutti_status status = tt_bootstrap_create(&self.settings, &self.bootstrap);
    if (status != TUTTI_OK) {
        char text[256];
        snprintf(text, sizeof(text),
                 "rank 0 needs a connection to each of 3 ranks, but has no more than 2: Too many open files (this "
                 "process may have %d: ulimit -n)",
                 probe + spare);
        return status == TUTTI_ERR_NO_RESOURCE && strcmp(tt_last_error(), text) == 0 ? 1 : 2;
    }
    fixture_play_once(&self);
    tt_bootstrap_destroy(self.bootstrap);
    return self.result == 0 && !self.wrong_data ? 0 : 3;
}

/* Forks rank 0 and returns its exit status when all ranks have ended; `silent` strangers come first. */
static int run_with_few_descriptors(int spare, bool firmly, int silent, unsigned timeout_ms)
{
    int strangers[16], status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        _exit(play_with_few_descriptors(spare, firmly));
    }
    for (int i = 0; i < silent; i++) {
        strangers[i] = fixture_connect(port);
    }
    fixture_start(ranks, RANKS, port, timeout_ms, "x...");
    fixture_join(ranks, RANKS, "x...");
    assert_int_equal(waitpid(child, &status, 0), child);
    for (int i = 0; i < silent; i++) {
        close(strangers[i]);
    }
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void strangers_take_no_descriptor_from_a_rank(void **state)
{
    (void)state;
    /* For the listening socket, epoll and three ranks. */
    assert_int_equal(run_with_few_descriptors(5, true, 10, 10000), 0);
    assert_gathered("x...");
}

static void rank_0_has_as_many_descriptors_as_it_may_have(void **state)
{
    (void)state;
    assert_int_equal(run_with_few_descriptors(3, false, 0, 10000), 0);
    assert_gathered("x...");
}

static void too_few_descriptors_are_told_with_how_many_were_needed(void **state)
{
    (void)state;
    assert_int_equal(run_with_few_descriptors(4, true, 0, 2500), 1);
    int told = 0;
    for (uint32_t rank = 1; rank < RANKS; rank++) {
        /* Two were let in; the third found the door closed. */
        told += strncmp(ranks[rank].create_error, "rank 0 needs a connection to each of 3 ranks", 44) == 0;
        assert_int_not_equal(ranks[rank].created, TUTTI_OK);
    }
    assert_int_equal(told, 2);
}

/* Joins as a rank, by hand. */
static int join_as(uint32_t rank, uint64_t nonce)
{
    return fixture_be_welcomed(port, rank, RANKS, nonce, rank);
}

/* --- Hellos that cannot be accepted ------------------------------------------------------------------------------- */

static void another_version_or_a_taken_rank_is_refused_with_a_reason(void **state)
{
    uint64_t strangers;
    (void)state;
    start_but(".xxx");
    int taken = join_as(1, 5);
    int fd = fixture_connect(port);
    fixture_say_hello(fd, 2, RANKS, 1, 9);
    fixture_be_refused(fd, TUTTI_ERR_MISMATCH, "rank 2 speaks version 9 of the bootstrap, rank 0 version 3");
    fd = fixture_connect(port);
    fixture_say_hello(fd, 1, RANKS, 1, TT_HELLO_VERSION);
    fixture_be_refused(fd, TUTTI_ERR_BOOTSTRAP, "rank 1 is here already: two processes have TUTTI_RANK=1");
    fd = fixture_connect(port);
    fixture_say_hello(fd, 0, RANKS, 1, TT_HELLO_VERSION);
    fixture_be_refused(fd, TUTTI_ERR_BOOTSTRAP, "rank 0 is here already: two processes have TUTTI_RANK=0");
    close(taken);
    finish_job(".xxx", &strangers);
    assert_int_equal(strangers, 0);
}

static void a_second_process_with_the_same_rank_fails_and_the_job_goes_on(void **state)
{
    struct tt_bootstrap *bootstrap = NULL;
    struct tt_settings settings;
    uint64_t strangers;
    (void)state;
    start_but(".xxx");
    int taken = join_as(2, 5);
    fixture_settings(&settings, 2, RANKS, port, 5000);
    assert_int_equal(tt_bootstrap_create(&settings, &bootstrap), TUTTI_ERR_BOOTSTRAP);
    assert_string_equal(tt_last_error(), "rank 2 is here already: two processes have TUTTI_RANK=2");
    assert_null(bootstrap);
    close(taken);
    finish_job(".xxx", &strangers);
}

static void another_size_fails_with_both_sizes_and_the_job_goes_on(void **state)
{
    struct tt_bootstrap *bootstrap = NULL;
    struct tt_settings settings;
    uint64_t strangers;
    (void)state;
    start_but("...x");
    fixture_settings(&settings, 3, 7, port, 5000);
    assert_int_equal(tt_bootstrap_create(&settings, &bootstrap), TUTTI_ERR_MISMATCH);
    assert_string_equal(tt_last_error(), "rank 3 was started with TUTTI_SIZE=7, but rank 0 with TUTTI_SIZE=4");
    assert_null(bootstrap);
    finish_job("...x", &strangers);
}

/* --- Members that do not behave ----------------------------------------------------------------------------------- */

static void a_rank_that_left_before_the_start_may_come_back(void **state)
{
    uint64_t strangers;
    (void)state;
    start_but("..xx");
    fixture_reset(join_as(2, 5));
    close(join_as(2, 6));
    finish_job("..xx", &strangers);
}

/* All ranks, the real rank 3 last, come to a listener at which a first rank 3 has been already: the job waits. */
static void join_behind_who_is_gone(int listener)
{
    ranks[0].settings.root_fd = (uint64_t)listener;
    ranks[0].delay_ms = 100;
    ranks[3].delay_ms = 500;
    fixture_start(ranks, RANKS, port, 30000, NULL);
    fixture_join(ranks, RANKS, NULL);
    assert_gathered("....");
}

/* Rank 3 did not wait for rank 0, which listened but was busy, and comes again: its first connection is no rank. */
static void a_hello_of_who_has_left_completes_no_job(void **state)
{
    (void)state;
    int listener = fixture_listen(&port);
    int gone = fixture_connect(port);
    fixture_say_hello(gone, 3, RANKS, 5, TT_HELLO_VERSION);
    close(gone);
    join_behind_who_is_gone(listener);
    close(listener);
}

/* A first rank 3 is let in and then is no rank after all, before rank 0 has seen to the two that come behind it: its
 * place is empty again, and the job waits for the other rank 3. */
static void who_leaves_again_while_others_come_completes_no_job(void **state)
{
    (void)state;
    int listener = fixture_listen(&port);
    int gone = fixture_connect(port);
    fixture_say_hello(gone, 3, RANKS, 5, TT_HELLO_VERSION);
    assert_int_equal(send(gone, "x", 1, MSG_NOSIGNAL), 1); /* which no member says */
    join_behind_who_is_gone(listener);
    close(gone);
    close(listener);
}

static void the_same_process_may_replace_its_broken_connection(void **state)
{
    uint64_t strangers;
    (void)state;
    start_but("..xx");
    int first = join_as(2, 5);
    int second = join_as(2, 5);
    assert_int_equal(fixture_read_byte(first), 0);
    close(first);
    close(second);
    finish_job("..xx", &strangers);
}

static void a_member_that_talks_out_of_turn_is_put_out(void **state)
{
    uint64_t strangers;
    (void)state;
    start_but("..xx");
    int fd = join_as(2, 5);
    assert_int_equal(send(fd, "x", 1, MSG_NOSIGNAL), 1);
    assert_true(fixture_read_byte(fd) <= 0 && errno != EAGAIN);
    close(fd);
    finish_job("..xx", &strangers);
}

static void who_came_and_left_is_told_apart_from_who_never_came(void **state)
{
    (void)state;
    fixture_start(ranks, RANKS, port, 2500, "..xx");
    close(join_as(3, 5));
    fixture_join(ranks, RANKS, "..xx");
    for (uint32_t rank = 0; rank < 2; rank++) {
        assert_string_equal(ranks[rank].create_error, "rank 0 waited 2500 ms: rank 2 never came; rank 3 came and left");
        assert_int_equal(ranks[rank].created, TUTTI_ERR_TIMED_OUT);
    }
}

static void send_frame(int fd, enum tt_hello_type type, uint32_t rank, uint32_t sequence, uint64_t length_bytes)
{
    const struct tt_hello hello = {.type = type,
                                   .version = TT_HELLO_VERSION,
                                   .rank = rank,
                                   .size = RANKS,
                                   .sequence = sequence,
                                   .length_bytes = length_bytes};
    uint8_t bytes[TT_HELLO_BYTES];
    tt_hello_encode(&hello, bytes);
    assert_int_equal(send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL), sizeof(bytes));
}

/* Is rank 2 until the job has started. */
static int start_as_rank_2(void)
{
    struct tt_hello hello;
    char text[FIXTURE_TEXT_BYTES];
    start_but("..x.");
    int fd = join_as(2, 5);
    assert_true(fixture_read_frame(fd, &hello, text));
    assert_int_equal(hello.type, TT_HELLO_READY);
    return fd;
}

static void assert_all_blame_rank_2(tutti_status status, const char *text)
{
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        if (rank != 2) {
            pthread_join(ranks[rank].thread, NULL);
        }
    }
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        if (rank != 2) {
            assert_string_equal(ranks[rank].error, text);
            assert_int_equal(ranks[rank].result, status);
            assert_int_equal(tt_bootstrap_failed_rank(ranks[rank].bootstrap), 2);
            assert_in_range(ranks[rank].last_ms, 0, 15000);
            tt_bootstrap_destroy(ranks[rank].bootstrap);
        }
    }
}

static void a_rank_that_dies_in_mid_contribution_is_named(void **state)
{
    char half[32] = "";
    (void)state;
    int fd = start_as_rank_2();
    send_frame(fd, TT_HELLO_GATHER, 2, 1, 64);
    assert_int_equal(send(fd, half, sizeof(half), MSG_NOSIGNAL), sizeof(half));
    fixture_sleep_ms(50);
    fixture_reset(fd);
    assert_all_blame_rank_2(TUTTI_ERR_PEER_FAILED, "rank 2 died or left during allgather 1 (Connection reset by peer)");
}

static void play_late(struct fixture_rank *self)
{
    fixture_sleep_ms(400);
    fixture_play_once(self);
}

static void a_rank_that_dies_after_its_contribution_is_named(void **state)
{
    char contribution[64] = "";
    (void)state;
    ranks[3].play = play_late; /* whom the others still wait for */
    int fd = start_as_rank_2();
    send_frame(fd, TT_HELLO_GATHER, 2, 1, sizeof(contribution));
    assert_int_equal(send(fd, contribution, sizeof(contribution), MSG_NOSIGNAL), sizeof(contribution));
    fixture_sleep_ms(100);
    close(fd);
    assert_all_blame_rank_2(TUTTI_ERR_PEER_FAILED, "rank 2 died or left during allgather 1");
}

static void a_frame_that_makes_no_sense_is_blamed_on_its_sender(void **state)
{
    static const struct {
        enum tt_hello_type type;
        uint32_t rank, sequence;
    } frames[] = {{TT_HELLO_GATHER, 1, 1},
                  {TT_HELLO_GATHER, 2, 2},
                  {TT_HELLO_RESULT, 2, 1},
                  {TT_HELLO_READY, 2, 0},
                  {TT_HELLO_GATHER, 9, 1}};
    (void)state;
    for (size_t i = 0; i < sizeof(frames) / sizeof(frames[0]); i++) {
        setup(NULL);
        int fd = start_as_rank_2();
        send_frame(fd, frames[i].type, frames[i].rank, frames[i].sequence, 0);
        struct tt_hello hello;
        char text[FIXTURE_TEXT_BYTES];
        assert_true(fixture_read_frame(fd, &hello, text));
        assert_int_equal(hello.type, TT_HELLO_FAIL);
        close(fd);
        assert_all_blame_rank_2(TUTTI_ERR_PROTOCOL, "rank 2 sent what makes no sense in allgather 1");
    }
}

static void a_claimed_length_is_not_believed(void **state)
{
    (void)state;
    int fd = start_as_rank_2();
    send_frame(fd, TT_HELLO_GATHER, 2, 1, UINT64_MAX);
    struct tt_hello hello;
    char text[FIXTURE_TEXT_BYTES];
    assert_true(fixture_read_frame(fd, &hello, text));
    close(fd);
    assert_all_blame_rank_2(TUTTI_ERR_MISMATCH, "rank 2 gave 18446744073709551615 bytes to allgather 1, rank 0 64");
}

/* --- A rank 0 that does not behave -------------------------------------------------------------------------------- */

enum { LIES = 5 };

static void *play_false_root(void *argument)
{
    int listener = *(int *)argument;
    for (int i = 0; i < LIES; i++) {
        char hello[TT_HELLO_BYTES];
        static const char other[] = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0) {
            return NULL;
        }
        recv(fd, hello, sizeof(hello), MSG_WAITALL);
        if (i == 0) {
            send(fd, other, sizeof(other) - 1, MSG_NOSIGNAL);
        } else if (i == 1) {
            send(fd, hello, sizeof(hello), MSG_NOSIGNAL); /* an echo */
        } else if (i == 2) {
            send(fd, hello, 20, MSG_NOSIGNAL);
        } else if (i == 3) {
            fixture_reset(fd);
            continue;
        }
        close(fd);
    }
    return NULL;
}

static void what_answers_but_is_not_rank_0_is_tried_again_and_named(void **state)
{
    struct tt_bootstrap *bootstrap = NULL;
    struct tt_settings settings;
    char expected[256];
    uint16_t false_port;
    pthread_t thread;
    int listener = fixture_listen(&false_port);
    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, play_false_root, &listener), 0);
    fixture_settings(&settings, 1, 2, false_port, 700);
    assert_int_equal(tt_bootstrap_create(&settings, &bootstrap), TUTTI_ERR_TIMED_OUT);
    pthread_join(thread, NULL); /* it was lied to five times */
    close(listener);
    snprintf(expected, sizeof(expected), "rank 1 cannot reach rank 0 at 127.0.0.1:%u in 700 ms: ", false_port);
    assert_memory_equal(tt_last_error(), expected, strlen(expected));
    assert_null(bootstrap);
}

static void say(int fd, enum tt_hello_type type, uint32_t rank, uint32_t size, uint64_t nonce)
{
    struct tt_hello hello = {.type = type, .version = TT_HELLO_VERSION, .rank = rank, .size = size, .nonce = nonce};
    uint8_t bytes[TT_HELLO_BYTES];
    if (type == TT_HELLO_FAIL) {
        hello.status = TUTTI_ERR_PEER_FAILED;
    }
    tt_hello_encode(&hello, bytes);
    send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL);
}

/* In a process of its own, which has a descriptor for one connection: 0 if it blames the rank that has ended. */
static int meet_with_one_descriptor(int listener)
{
    int probe = open("/dev/null", O_RDONLY | O_CLOEXEC);
    struct rlimit limit = {.rlim_cur = (rlim_t)probe + 2, .rlim_max = (rlim_t)probe + 2}; /* and for epoll */
    struct tt_bootstrap *bootstrap = NULL;
    struct tt_settings settings;
    close(probe);
    setrlimit(RLIMIT_NOFILE, &limit);
    fixture_settings(&settings, 0, RANKS, port, 20000);
    settings.root_fd = (uint64_t)listener;
    if (tt_bootstrap_create(&settings, &bootstrap) != TUTTI_ERR_PEER_FAILED) {
        return 1;
    }
    return strstr(tt_last_error(), "rank 3") != NULL ? 0 : 2;
}

/* The launcher's word and ranks wait in one line, of whom the second finds no descriptor. */
static void nobody_is_accepted_any_more_when_a_rank_has_ended(void **state)
{
    int listener = fixture_listen(&port), status;
    int fds[3];
    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        fds[i] = fixture_connect(port);
        say(fds[i], i == 0 ? TT_HELLO_FAIL : TT_HELLO_HELLO, i == 0 ? 3 : i, RANKS, i);
    }
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        _exit(meet_with_one_descriptor(listener));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    for (uint32_t i = 0; i < 3; i++) {
        close(fds[i]);
    }
    close(listener);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* Starts a job of two, whose first allgather fails for a rank of a larger job. */
static void *name_a_strange_rank(void *argument)
{
    char text[FIXTURE_TEXT_BYTES];
    struct tt_hello hello;
    int fd = accept4(*(int *)argument, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0 && fixture_read_frame(fd, &hello, text)) {
        say(fd, TT_HELLO_WELCOME, 1, 2, hello.nonce);
        say(fd, TT_HELLO_READY, 0, 2, 0);
        say(fd, TT_HELLO_FAIL, 700, 1000, 0);
        fixture_read_byte(fd); /* until it has hung up */
    }
    close(fd);
    return NULL;
}

static void a_failure_about_a_rank_that_the_job_has_not_is_about_nobody(void **state)
{
    struct tt_bootstrap *bootstrap = NULL;
    struct tt_settings settings;
    uint8_t own = 0, all[2];
    uint16_t false_port;
    pthread_t thread;
    int listener = fixture_listen(&false_port);
    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, name_a_strange_rank, &listener), 0);
    fixture_settings(&settings, 1, 2, false_port, 5000);
    assert_int_equal(tt_bootstrap_create(&settings, &bootstrap), TUTTI_OK);
    assert_int_equal(tt_bootstrap_allgather(bootstrap, &own, all, 1), TUTTI_ERR_PEER_FAILED);
    assert_int_equal(tt_bootstrap_failed_rank(bootstrap), -1);
    tt_bootstrap_destroy(bootstrap);
    pthread_join(thread, NULL);
    close(listener);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(silent_and_half_finished_strangers_delay_nobody_and_are_counted, setup),
        cmocka_unit_test_setup(a_stranger_that_a_child_has_inherited_does_not_disturb_the_job, setup),
        cmocka_unit_test_setup(arbitrary_bytes_change_nothing, setup),
        cmocka_unit_test_setup(frames_that_are_no_hello_change_nothing, setup),
        cmocka_unit_test_setup(in_a_flood_the_oldest_silent_strangers_are_dropped, setup),
        cmocka_unit_test_setup(a_flood_without_end_does_not_keep_ranks_out, setup),
        cmocka_unit_test_setup(strangers_take_no_descriptor_from_a_rank, setup),
        cmocka_unit_test_setup(rank_0_has_as_many_descriptors_as_it_may_have, setup),
        cmocka_unit_test_setup(too_few_descriptors_are_told_with_how_many_were_needed, setup),
        cmocka_unit_test_setup(another_version_or_a_taken_rank_is_refused_with_a_reason, setup),
        cmocka_unit_test_setup(a_second_process_with_the_same_rank_fails_and_the_job_goes_on, setup),
        cmocka_unit_test_setup(another_size_fails_with_both_sizes_and_the_job_goes_on, setup),
        cmocka_unit_test_setup(a_rank_that_left_before_the_start_may_come_back, setup),
        cmocka_unit_test_setup(a_hello_of_who_has_left_completes_no_job, setup),
        cmocka_unit_test_setup(who_leaves_again_while_others_come_completes_no_job, setup),
        cmocka_unit_test_setup(the_same_process_may_replace_its_broken_connection, setup),
        cmocka_unit_test_setup(a_member_that_talks_out_of_turn_is_put_out, setup),
        cmocka_unit_test_setup(who_came_and_left_is_told_apart_from_who_never_came, setup),
        cmocka_unit_test_setup(a_rank_that_dies_in_mid_contribution_is_named, setup),
        cmocka_unit_test_setup(a_rank_that_dies_after_its_contribution_is_named, setup),
        cmocka_unit_test_setup(a_frame_that_makes_no_sense_is_blamed_on_its_sender, setup),
        cmocka_unit_test_setup(a_claimed_length_is_not_believed, setup),
        cmocka_unit_test_setup(nobody_is_accepted_any_more_when_a_rank_has_ended, setup),
        cmocka_unit_test_setup(what_answers_but_is_not_rank_0_is_tried_again_and_named, setup),
        cmocka_unit_test_setup(a_failure_about_a_rank_that_the_job_has_not_is_about_nobody, setup),
    };
    char message[128];
    tt_log_configure("none", NULL, message, sizeof(message));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
