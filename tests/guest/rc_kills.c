/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processes that are killed, over the "verbs" p2p provider: who is connected to them is told, in time and once.
 *
 * In every test two survivors and a victim, each on a device of its own, connect to each other; the parent kills the
 * victim at the moment that the test is about. Ranks find each other through shared memory, report through it, and die
 * with their parent. For the guest (tests/guest): it needs RDMA devices.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/settings.h"
#include "fabric/verbs/rc.h"
#include "skip.h"
#include "unit/rank_check.h"
#include "unit/rank_moves.h"

enum {
    PIECES = 8,     /* gets or puts at once to each of the others */
    TURN_MS = 5000, /* the provider wakes itself for what is due */
    FLOOD = 1500,   /* frames: with two senders, more than the victim has receives for */
    RANK_SECONDS = 60,
    PORTS = 8
};

/* Of the contract; and of who has died before, whose greetings are not answered for some 28 seconds
 * (fabric/verbs/rc.h). */
#define LIMIT_NS             (2 * TT_NS_PER_S)
#define UNCONNECTED_LIMIT_NS (32 * TT_NS_PER_S)

enum when {
    WHILE_IDLE,        /* connections stand, nobody sends */
    WHILE_MOVING,      /* everyone reads from and writes to everyone */
    WHILE_STOPPED,     /* the victim stands still, and frames to it have filled its receives */
    BEFORE_CONNECTING, /* it has shown its address, and that is all */
};

static struct shared {
    struct moves_shared moves;
    atomic_int ready[RANKS]; /* 1: has shown itself; 2: the moment to kill the victim has come */
    _Atomic uint64_t told_ns[SURVIVORS];
} * shared;

/* --- A rank ------------------------------------------------------------------------------------------------------- */

static void show(const char *device_name)
{
    const struct tt_verbs_device_options options = {.name = device_name, .gid_index = TT_AUTO};
    struct tt_verbs_device *device = NULL;
    struct tt_p2p *p2p;
    CHECK(tt_verbs_device_open(&options, &device) == TUTTI_OK);
    CHECK(tt_rc_create(&(struct tt_rc_options){.device = device}, &p2p) == TUTTI_OK);
    tt_verbs_device_close(device);
    moves_show(rank, p2p, PIECES, &shared->moves);
    atomic_store(&shared->ready[rank], 1);
}

static void join_all(void)
{
    for (int other = 0; other < RANKS; other++) {
        while (atomic_load(&shared->ready[other]) == 0) {
            usleep(200);
        }
        if (other != rank) {
            moves_connect(other);
        }
    }
}

static void send_to_all(void)
{
    for (int other = 0; other < RANKS; other++) {
        CHECK(other == rank || tt_p2p_send(moves.peers[other], "here", 4, false) == TUTTI_OK);
    }
}

/* Until the moment that the test is about. */
static void come_to_the_moment(enum when when)
{
    send_to_all();
    while (when != BEFORE_CONNECTING && moves.frames < RANKS - 1) {
        moves_turn(TURN_MS);
    }
    for (int other = 0; other < RANKS && when == WHILE_MOVING; other++) {
        if (other != rank) {
            moves_start(other);
        }
    }
    while (when == WHILE_MOVING && rank != VICTIM &&
           (moves.done_well[1 - rank] + moves.done_well[VICTIM] < 2 * PIECES || moves.done_well[VICTIM] < 2)) {
        moves_turn(TURN_MS);
    }
    atomic_store(&shared->ready[rank], 2);
}

static void flood_the_stopped_victim(void)
{
    char frame[TT_P2P_LEAST_FRAME_BYTES] = {0};
    while (atomic_load(&shared->ready[VICTIM]) != 3) { /* the parent has stopped it */
        moves_turn(TURN_MS);
    }
    for (int i = 0; i < FLOOD; i++) {
        CHECK(tt_p2p_send(moves.peers[VICTIM], frame, sizeof(frame), false) == TUTTI_OK);
    }
    atomic_store(&shared->ready[rank], 3);
}

/* From the kill to the end of all that was under way, and a while longer. */
static void outlive(enum when when)
{
    while (!moves.down || moves.pending[VICTIM] > 0) {
        moves_turn(TURN_MS);
    }
    atomic_store(&shared->told_ns[rank], tt_clock_now_ns());
    CHECK(tt_p2p_send(moves.peers[VICTIM], "x", 1, false) == TUTTI_ERR_PEER_FAILED);
    const uint32_t well_before = moves.done_well[1 - rank];
    const uint32_t all_frames = when == BEFORE_CONNECTING ? 2 : 3; /* "here" of each, and "alive" */
    CHECK(tt_p2p_send(moves.peers[1 - rank], "alive", 5, false) == TUTTI_OK);
    while (moves.frames < all_frames || (when == WHILE_MOVING && moves.done_well[1 - rank] == well_before)) {
        moves_turn(TURN_MS);
    }
    moves.peers[VICTIM]->ops->disconnect(moves.peers[VICTIM]);
    atomic_store(&shared->ready[rank], 4);
    while (atomic_load(&shared->ready[1 - rank]) != 4) { /* who leaves first would be taken down, too */
        moves_last_turn();
    }
}

static int live(int which, const char *device_name, enum when when)
{
    rank = which;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(RANK_SECONDS);
    show(device_name);
    if (rank == VICTIM && when == BEFORE_CONNECTING) {
        atomic_store(&shared->ready[rank], 2);
        pause();
    }
    while (when == BEFORE_CONNECTING && atomic_load(&shared->moves.killed_ns) == 0) {
        usleep(200);
    }
    join_all();
    come_to_the_moment(when);
    if (when == WHILE_STOPPED && rank != VICTIM) {
        flood_the_stopped_victim();
    }
    while (rank == VICTIM) {
        moves_turn(TURN_MS);
    }
    outlive(when);
    moves_end();
    return 0;
}

/* --- The parent --------------------------------------------------------------------------------------------------- */

static size_t find_devices(struct tt_verbs_port ports[PORTS], const char *names[PORTS])
{
    size_t count = 0, usable = 0;
    if (tt_verbs_list(NULL, ports, PORTS, &count) != TUTTI_OK) {
        return 0;
    }
    for (size_t i = 0; i < count && i < PORTS; i++) {
        if (ports[i].active && ports[i].usable) {
            names[usable++] = ports[i].device;
        }
    }
    return usable;
}

static void wait_for(int which, int stage)
{
    const uint64_t deadline_ns = tt_clock_now_ns() + RANK_SECONDS * TT_NS_PER_S;
    while (atomic_load(&shared->ready[which]) < stage) {
        assert_true(tt_clock_now_ns() < deadline_ns);
        usleep(500);
    }
}

static void stop_and_let_the_others_flood(pid_t victim)
{
    assert_int_equal(kill(victim, SIGSTOP), 0);
    atomic_store(&shared->ready[VICTIM], 3);
    wait_for(0, 3);
    wait_for(1, 3);
    usleep(1500000); /* nobody may take it for dead meanwhile: moves_turn() checks that it is not told too early */
}

static void kill_one(enum when when)
{
    struct tt_verbs_port ports[PORTS];
    const char *names[PORTS];
    const size_t device_count = find_devices(ports, names);
    pid_t children[RANKS];
    int status;
    if (device_count == 0) {
        TT_SKIP("no RDMA device is active here");
        return;
    }
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(shared, MAP_FAILED);
    for (int i = 0; i < RANKS; i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] == 0) {
            _exit(live(i, names[(size_t)i % device_count], when));
        }
    }
    for (int i = when == BEFORE_CONNECTING ? VICTIM : 0; i < RANKS; i++) {
        wait_for(i, 2);
    }
    if (when == WHILE_STOPPED) {
        stop_and_let_the_others_flood(children[VICTIM]);
    }
    atomic_store(&shared->moves.killed_ns, tt_clock_now_ns());
    kill(children[VICTIM], SIGKILL);
    for (int i = 0; i < RANKS; i++) {
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_true(i == VICTIM || (WIFEXITED(status) && WEXITSTATUS(status) == 0));
    }
    for (int i = 0; i < SURVIVORS; i++) {
        const uint64_t took_ns = shared->told_ns[i] - shared->moves.killed_ns;
        print_message("survivor %d was told after %u ms\n", i, (unsigned)(took_ns / TT_NS_PER_MS));
        assert_true(took_ns <= (when == BEFORE_CONNECTING ? UNCONNECTED_LIMIT_NS : LIMIT_NS));
    }
    munmap(shared, sizeof(*shared));
}

static void idle_survivors_are_told_in_time(void **state)
{
    (void)state;
    kill_one(WHILE_IDLE);
}

static void reads_and_writes_under_way_to_the_killed_end_once(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        kill_one(WHILE_MOVING);
    }
}

static void stopped_process_is_waited_for_until_it_is_killed(void **state)
{
    (void)state;
    kill_one(WHILE_STOPPED);
}

static void process_that_died_before_it_was_connected_to_is_missed_in_time(void **state)
{
    (void)state;
    kill_one(BEFORE_CONNECTING);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(idle_survivors_are_told_in_time),
        cmocka_unit_test(reads_and_writes_under_way_to_the_killed_end_once),
        cmocka_unit_test(stopped_process_is_waited_for_until_it_is_killed),
        cmocka_unit_test(process_that_died_before_it_was_connected_to_is_missed_in_time),
    };
    return cmocka_run_group_tests_name("rc_kills", tests, NULL, NULL);
}
