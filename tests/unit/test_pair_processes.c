/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A p2p provider among real processes that sleep, stop and die.
 *
 * Each test forks its ranks before any of them touches the provider; they find each other through shared memory. A rank
 * ends with status 0 if it saw what it should; it prints what it missed. Ranks die with their parent and by an alarm.
 */
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "lives_on.h"
#include "pair_fixture.h"
#include "patience.h"
#include "rank_check.h"
#include "skip.h"

enum { MAX_RANKS = 4, DATA_BYTES = 1 << 20, RANK_SECONDS = 55, STEPS = 8 };

#define LATE_NS (20 * TT_NS_PER_S) /* for what must come, however busy the machine is */

/* Between the ranks of a test and their parent. */
static struct shared {
    atomic_int arrived[STEPS]; /* ranks that have come to a step */
    uint8_t address[MAX_RANKS][TT_P2P_MAX_ADDRESS_BYTES];
    size_t address_bytes[MAX_RANKS];
    uint8_t key[MAX_RANKS][TT_P2P_MAX_KEY_BYTES];
    size_t key_bytes[MAX_RANKS];
    uint64_t data[MAX_RANKS];
    _Atomic pid_t left_behind; /* a child of a rank that was killed */
    _Atomic uint64_t event_ns; /* when the parent did what the test is about */
} * shared;

/* A rank's own. */
static int ranks;
static struct tt_p2p *p2p;
static struct tt_p2p_peer *peers[MAX_RANKS];
static struct tt_p2p_memory *memory;
static uint8_t data[DATA_BYTES], copy[DATA_BYTES];
static int frames[MAX_RANKS], downs, dones, down_rank;
static tutti_status done_status[8];

/* --- What a rank does ------------------------------------------------------------------------------------------- */

static uint32_t turn(void)
{
    struct tt_p2p_event events[32];
    uint32_t count = p2p->ops->progress(p2p, events, 32);
    for (uint32_t i = 0; i < count; i++) {
        switch (events[i].type) {
        case TT_P2P_FRAME:
            CHECK(events[i].length_bytes >= 1);
            frames[*(const uint8_t *)events[i].data]++;
            break;
        case TT_P2P_DONE:
            CHECK(dones < 8);
            done_status[dones++] = events[i].status;
            break;
        case TT_P2P_PEER_DOWN:
            downs++;
            down_rank = (int)events[i].peer_cookie;
            break;
        case TT_P2P_IMMEDIATE:
            break;
        }
    }
    return count;
}

/* One turn; sleeps on the descriptor if nothing was there. Returns whether it was worth it. */
static bool turn_or_sleep(int timeout_ms)
{
    if (turn() > 0) {
        return true;
    }
    if (!p2p->ops->arm(p2p)) {
        return true;
    }
    struct pollfd wait = {.fd = p2p->ops->fd(p2p), .events = POLLIN};
    return poll(&wait, 1, timeout_ms) > 0;
}

/* Sleeps until *counter reaches `wanted`. No time-outs in between: what does not wake the descriptor is not seen. */
static bool reaches(const int *counter, int wanted, uint64_t limit_ns)
{
    uint64_t start_ns = tt_clock_now_ns(), now_ns = start_ns;
    while (*counter < wanted && now_ns - start_ns < limit_ns) {
        turn_or_sleep((int)((limit_ns - (now_ns - start_ns)) / TT_NS_PER_MS) + 1);
        now_ns = tt_clock_now_ns();
    }
    return *counter >= wanted;
}

static void turn_for(uint64_t duration_ns)
{
    uint64_t end_ns = tt_clock_now_ns() + duration_ns;
    while (tt_clock_now_ns() < end_ns) {
        turn_or_sleep(5);
    }
}

/* Waits, without the provider, until `count` ranks came here. */
static void meet(int step, int count)
{
    uint64_t deadline_ns = tt_clock_now_ns() + LATE_NS;
    atomic_fetch_add(&shared->arrived[step], 1);
    while (atomic_load(&shared->arrived[step]) < count) {
        CHECK(tt_clock_now_ns() < deadline_ns);
        usleep(200);
    }
}

static void send_to(int other)
{
    uint8_t frame[16] = {(uint8_t)rank};
    CHECK(tt_p2p_send(peers[other], frame, sizeof(frame), false) == TUTTI_OK);
}

static void begin(void)
{
    CHECK(pair_provider->create(false, &p2p) == TUTTI_OK);
    shared->address_bytes[rank] = TT_P2P_MAX_ADDRESS_BYTES;
    shared->key_bytes[rank] = TT_P2P_MAX_KEY_BYTES;
    CHECK(p2p->ops->address(p2p, shared->address[rank], &shared->address_bytes[rank]) == TUTTI_OK);
    CHECK(p2p->ops->memory_register(p2p, data, DATA_BYTES, &memory) == TUTTI_OK);
    CHECK(p2p->ops->memory_pack(memory, shared->key[rank], &shared->key_bytes[rank]) == TUTTI_OK);
    shared->data[rank] = (uintptr_t)data;
    meet(0, ranks);
}

static void connect_to(int other)
{
    CHECK(p2p->ops->connect(p2p, shared->address[other], shared->address_bytes[other], (uint64_t)other,
                            &peers[other]) == TUTTI_OK);
}

static void connect_all(void)
{
    for (int other = 0; other < ranks; other++) {
        if (other != rank) {
            connect_to(other);
        }
    }
}

/* Everybody is connected and idle: each had a frame from each, so that none needs another one to turn. */
static void begin_connected(void)
{
    begin();
    connect_all();
    for (int other = 0; other < ranks; other++) {
        if (other != rank) {
            send_to(other);
        }
    }
    for (int other = 0; other < ranks; other++) {
        CHECK(other == rank || reaches(&frames[other], 1, LATE_NS));
    }
    turn_for(100 * TT_NS_PER_MS);
    memset(frames, 0, sizeof(frames));
    meet(2, ranks);
}

/* Returns how long it took. */
static uint64_t end(void)
{
    uint64_t start_ns = tt_clock_now_ns();
    for (int other = 0; other < ranks; other++) {
        if (peers[other] != NULL) {
            peers[other]->ops->disconnect(peers[other]);
        }
    }
    CHECK(tt_clock_now_ns() - start_ns < TT_NS_PER_S * TT_PATIENCE); /* a disconnect that blocks takes two */
    p2p->ops->memory_release(memory);
    p2p->ops->destroy(p2p);
    uint64_t took_ns = tt_clock_now_ns() - start_ns;
    CHECK(took_ns < 4 * TT_NS_PER_S * TT_PATIENCE); /* two, and what a busy machine makes of them */
    return took_ns;
}

/* --- What the parent does --------------------------------------------------------------------------------------- */

static pid_t pids[MAX_RANKS];

static void start(int count, void (*body)(void))
{
    memset(shared, 0, sizeof(*shared));
    ranks = count;
    fflush(NULL);
    for (rank = 0; rank < count; rank++) {
        pids[rank] = fork();
        assert_true(pids[rank] >= 0);
        if (pids[rank] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            alarm(RANK_SECONDS);
            body();
            exit(0); /* so that a leak checker runs */
        }
    }
}

static void wait_for_step(int step, int count)
{
    uint64_t deadline_ns = tt_clock_now_ns() + LATE_NS;
    while (atomic_load(&shared->arrived[step]) < count) {
        assert_true(tt_clock_now_ns() < deadline_ns);
        usleep(200);
    }
}

static void signal_rank(int which, int signal_number)
{
    atomic_store(&shared->event_ns, tt_clock_now_ns());
    assert_int_equal(kill(pids[which], signal_number), 0);
}

/* Collects the ranks; all but `killed` (-1: none) must have ended well. */
static void collect(int killed)
{
    bool good = true;
    for (int i = 0; i < ranks; i++) {
        int status;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        good &= i == killed ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL
                            : WIFEXITED(status) && WEXITSTATUS(status) == 0;
    }
    assert_true(good);
}

/* --- The tests -------------------------------------------------------------------------------------------------- */

static void body_sleeps_until_peer_dies(void)
{
    begin_connected();
    if (rank == ranks - 1) {
        pause();
    }
    CHECK(reaches(&downs, 1, LATE_NS));
    uint64_t now_ns = tt_clock_now_ns();
    printf("# rank %d knew after %.1f ms\n", rank, (double)(now_ns - atomic_load(&shared->event_ns)) / 1e6);
    CHECK(now_ns - atomic_load(&shared->event_ns) < 2 * TT_NS_PER_S * TT_PATIENCE);
    CHECK(down_rank == ranks - 1);
    CHECK(tt_p2p_send(peers[ranks - 1], "x", 1, false) == TUTTI_ERR_PEER_FAILED);
    turn_for(100 * TT_NS_PER_MS);
    CHECK(downs == 1);
    meet(3, ranks - 1);
    end();
}

static void death_of_an_idle_process_is_known_to_every_sleeper_within_two_seconds(void **state)
{
    (void)state;
    start(4, body_sleeps_until_peer_dies);
    wait_for_step(2, 4);
    usleep(300000);
    signal_rank(3, SIGKILL); /* and it stays a zombie until the others have ended */
    collect(3);
}

static bool child_is_a_fork; /* else it runs another program */

static void body_dies_and_leaves_a_child(void)
{
    begin_connected();
    if (rank == 1) {
        send_to(0);
        pid_t child = child_is_a_fork ? tt_fork_that_lives_on() : tt_program_that_lives_on();
        CHECK(child > 0);
        atomic_store(&shared->left_behind, child);
        meet(3, 1);
        pause();
    }
    CHECK(reaches(&downs, 1, LATE_NS));
    CHECK(tt_clock_now_ns() - atomic_load(&shared->event_ns) < 2 * TT_NS_PER_S * TT_PATIENCE);
    CHECK(frames[1] == 1);
    CHECK(kill(atomic_load(&shared->left_behind), 0) == 0); /* it still is there */
    end();
}

static void lose_a_process_whose_child_lives_on(bool by_fork)
{
    if (!pair_provider->children_lose_sockets) {
        TT_SKIP("%s leaves its sockets to the children of a process", pair_provider->name);
    }
    child_is_a_fork = by_fork;
    start(2, body_dies_and_leaves_a_child);
    wait_for_step(3, 1);
    signal_rank(1, SIGKILL);
    collect(1);
    assert_int_equal(kill(atomic_load(&shared->left_behind), SIGKILL), 0);
}

static void death_of_a_process_is_known_within_two_seconds_though_a_program_that_it_started_lives_on(void **state)
{
    (void)state;
    lose_a_process_whose_child_lives_on(false);
}

static void death_of_a_process_is_known_within_two_seconds_though_its_fork_lives_on(void **state)
{
    (void)state;
    lose_a_process_whose_child_lives_on(true);
}

static void body_streams_until_peer_dies(void)
{
    begin_connected();
    uint64_t deadline_ns = tt_clock_now_ns() + LATE_NS;
    uint8_t frame[TT_P2P_LEAST_FRAME_BYTES] = {(uint8_t)rank};
    meet(3, ranks);
    while (downs == 0 && tt_clock_now_ns() < deadline_ns) {
        for (int other = 0; other < ranks; other++) {
            if (other != rank) {
                tutti_status status = tt_p2p_send(peers[other], frame, sizeof(frame), false);
                CHECK(status == TUTTI_OK || (status == TUTTI_ERR_PEER_FAILED && other == ranks - 1));
            }
        }
        turn();
    }
    CHECK(downs == 1 && down_rank == ranks - 1);
    CHECK(tt_clock_now_ns() - atomic_load(&shared->event_ns) < 2 * TT_NS_PER_S * TT_PATIENCE);
    for (int other = 0; other < ranks - 1; other++) {
        CHECK(other == rank || reaches(&frames[other], 1, LATE_NS)); /* who is starved may see the death first */
    }
    meet(4, ranks - 1);
    end();
}

static void death_amid_traffic_is_known_and_the_others_go_on(void **state)
{
    (void)state;
    start(4, body_streams_until_peer_dies);
    wait_for_step(3, 4);
    usleep(100000);
    signal_rank(3, SIGKILL);
    collect(3);
}

static void body_reads_from_a_dying_peer(void)
{
    begin_connected();
    if (rank == 1) {
        pause(); /* makes no progress, so nothing is served over TCP */
    }
    struct tt_p2p_peer *peer = peers[1];
    CHECK(peer->ops->get(peer, shared->key[1], shared->key_bytes[1], shared->data[1], copy, DATA_BYTES, 1) == TUTTI_OK);
    CHECK(peer->ops->put(peer, shared->key[1], shared->key_bytes[1], shared->data[1], copy, DATA_BYTES,
                         &(struct tt_p2p_immediate){.value = 7}, 2) == TUTTI_OK);
    turn_for(100 * TT_NS_PER_MS);
    CHECK(dones == 0 && downs == 0);
    meet(3, 1);
    CHECK(reaches(&dones, 2, LATE_NS));
    CHECK(reaches(&downs, 1, LATE_NS));
    CHECK(done_status[0] == TUTTI_ERR_PEER_FAILED && done_status[1] == TUTTI_ERR_PEER_FAILED);
    turn_for(50 * TT_NS_PER_MS);
    CHECK(dones == 2 && downs == 1);
    end();
}

static void get_and_put_under_way_to_a_process_that_dies_end_as_peer_failed(void **state)
{
    (void)state;
    start(2, body_reads_from_a_dying_peer);
    wait_for_step(3, 1);
    signal_rank(1, SIGKILL);
    collect(1);
}

static void body_waits_out_a_stopped_peer(void)
{
    begin_connected();
    if (rank == 1) {
        CHECK(reaches(&frames[0], 100, LATE_NS));
        meet(4, 2);
        meet(6, 2); /* it leaves when the other one has looked */
    } else {
        meet(3, 1);
        turn_for(200 * TT_NS_PER_MS); /* by now it has stopped */
        for (int i = 0; i < 100; i++) {
            send_to(1);
        }
        turn_for(4 * TT_NS_PER_S); /* four rounds of keepalive */
        CHECK(downs == 0);
        meet(5, 1);
        meet(4, 2);
        CHECK(downs == 0);
        meet(6, 2);
    }
    turn_for(50 * TT_NS_PER_MS);
    end();
}

static void stopped_process_is_not_reported_down_and_gets_its_frames_later(void **state)
{
    (void)state;
    start(2, body_waits_out_a_stopped_peer);
    wait_for_step(3, 1);
    signal_rank(1, SIGSTOP);
    wait_for_step(5, 1);
    signal_rank(1, SIGCONT);
    collect(-1);
}

static void body_leaves_a_stopped_peer(void)
{
    begin_connected();
    if (rank == 1) {
        pause();
    }
    meet(3, 1);
    turn_for(100 * TT_NS_PER_MS);
    struct tt_p2p_peer *peer = peers[1];
    CHECK(peer->ops->get(peer, shared->key[1], shared->key_bytes[1], shared->data[1], copy, DATA_BYTES, 1) == TUTTI_OK);
    CHECK(peer->ops->get(peer, shared->key[1], shared->key_bytes[1], shared->data[1], copy, DATA_BYTES, 2) == TUTTI_OK);
    turn_for(50 * TT_NS_PER_MS);
    peer->ops->disconnect(peer);
    peers[1] = NULL;
    CHECK(reaches(&dones, 2, LATE_NS));
    CHECK(done_status[0] == TUTTI_ERR_CANCELED && done_status[1] == TUTTI_ERR_CANCELED);
    CHECK(downs == 0);
    connect_to(1); /* and leaves again, with a goodbye that nobody hears */
    send_to(1);
    end();
    meet(4, 1);
}

static void leaving_a_stopped_process_cancels_what_is_under_way_and_ends_within_two_seconds(void **state)
{
    (void)state;
    start(2, body_leaves_a_stopped_peer);
    wait_for_step(3, 1);
    signal_rank(1, SIGSTOP);
    wait_for_step(4, 1);
    signal_rank(1, SIGKILL);
    collect(1);
}

static void body_connects_to_the_dead(void)
{
    begin();
    if (rank == 1) {
        pause();
    }
    meet(3, 1);
    usleep(200000); /* by now it is dead */
    connect_to(1);
    tutti_status status = tt_p2p_send(peers[1], "x", 1, false); /* queued, if the death is not known yet */
    CHECK(status == TUTTI_OK || status == TUTTI_ERR_PEER_FAILED);
    CHECK(reaches(&downs, 1, LATE_NS));
    CHECK(down_rank == 1);
    turn_for(50 * TT_NS_PER_MS);
    CHECK(downs == 1);
    end();
}

static void connect_to_a_process_that_died_before_raises_peer_down(void **state)
{
    (void)state;
    start(2, body_connects_to_the_dead);
    wait_for_step(3, 1);
    signal_rank(1, SIGKILL);
    collect(1);
}

static void body_leaves_with_the_others(void)
{
    begin_connected();
    for (int other = 0; other < ranks; other++) {
        for (int i = 0; i < 500 && other != rank; i++) {
            send_to(other);
        }
    }
    for (int other = 0; other < ranks; other++) {
        CHECK(other == rank || reaches(&frames[other], 500, LATE_NS));
    }
    CHECK(end() < 1800 * TT_NS_PER_MS * TT_PATIENCE); /* who waits for somebody waits for two seconds */
}

static void processes_that_leave_together_do_not_wait_for_each_other(void **state)
{
    (void)state;
    start(4, body_leaves_with_the_others);
    collect(-1);
}

static void body_keeps_meeting_asleep(void)
{
    begin_connected();
    for (int round = 1; round <= 300; round++) {
        for (int distance = 1; distance < ranks; distance++) {
            send_to((rank + distance) % ranks);
        }
        for (int other = 0; other < ranks; other++) {
            CHECK(other == rank || reaches(&frames[other], round, LATE_NS));
        }
    }
    CHECK(downs == 0);
    meet(3, ranks);
    end();
}

static void sleepers_never_miss_a_frame(void **state)
{
    (void)state;
    start(4, body_keeps_meeting_asleep);
    collect(-1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(death_of_an_idle_process_is_known_to_every_sleeper_within_two_seconds, pair_choose),
        cmocka_unit_test_setup(death_of_a_process_is_known_within_two_seconds_though_a_program_that_it_started_lives_on,
                               pair_choose),
        cmocka_unit_test_setup(death_of_a_process_is_known_within_two_seconds_though_its_fork_lives_on, pair_choose),
        cmocka_unit_test_setup(death_amid_traffic_is_known_and_the_others_go_on, pair_choose),
        cmocka_unit_test_setup(get_and_put_under_way_to_a_process_that_dies_end_as_peer_failed, pair_choose),
        cmocka_unit_test_setup(stopped_process_is_not_reported_down_and_gets_its_frames_later, pair_choose),
        cmocka_unit_test_setup(leaving_a_stopped_process_cancels_what_is_under_way_and_ends_within_two_seconds,
                               pair_choose),
        cmocka_unit_test_setup(connect_to_a_process_that_died_before_raises_peer_down, pair_choose),
        cmocka_unit_test_setup(processes_that_leave_together_do_not_wait_for_each_other, pair_choose),
        cmocka_unit_test_setup(sleepers_never_miss_a_frame, pair_choose),
    };
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        return 1;
    }
    return pair_run(NULL, "pair_processes", tests, sizeof(tests) / sizeof(tests[0]));
}
