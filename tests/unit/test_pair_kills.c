/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processes that are killed while they and others read and write each other's memory by a p2p provider.
 *
 * Two steady ranks live through the whole test. One victim after the other joins them; all three get from and put to
 * one another, many at a time, until the victim is killed at a random moment, also while connections to
 * it are made (some are stopped first, so that sockets to them fill up). The steady ranks must end every operation to
 * it, be told of it once, keep their data right, and go on with each other. Ranks find each other through shared memory
 * and die with their parent.
 */
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
#include "base/random.h"
#include "pair_fixture.h"
#include "patience.h"
#include "rank_check.h"
#include "rank_moves.h"

enum {
    KILLS = 50 / TT_PATIENCE,
    PIECES = 24, /* gets or puts at once to each of the others: more than the provider runs at once */
    TURN_MS = 5, /* shared memory wakes nobody */
    RANK_SECONDS = 90
};

static struct shared {
    struct moves_shared moves;
    atomic_int ready[RANKS];      /* the life for which a rank has shown itself and its connections stand */
    atomic_int moving[SURVIVORS]; /* the life in which data from the victim has arrived at a rank */
    atomic_int over[SURVIVORS];   /* the life that a rank has seen the end of */
    atomic_int last;              /* no victim comes after this life; 0: not known yet */
} * shared;

/* --- A rank ----------------------------------------------------------------------------------------------------- */

static void show(void)
{
    struct tt_p2p *p2p;
    CHECK(pair_provider->create(false, &p2p) == TUTTI_OK);
    moves_show(rank, p2p, PIECES, &shared->moves);
}

static void join(int other)
{
    moves_connect(other);
    moves_start(other);
}

static void live_as_victim(int life)
{
    show();
    atomic_store(&shared->ready[rank], life);
    for (int other = 0; other < SURVIVORS; other++) {
        join(other);
    }
    for (;;) {
        moves_turn(TURN_MS);
    }
}

/* From the victim's arrival to the end of all that was under way to it. */
static void outlive(int life)
{
    uint32_t well_before = moves.done_well[1 - rank];
    join(VICTIM);
    while (!moves.down || moves.pending[VICTIM] > 0) {
        moves_turn(TURN_MS);
        if (moves.done_well[VICTIM] > 0) {
            atomic_store(&shared->moving[rank], life);
        }
        uint64_t killed_ns = atomic_load(&shared->moves.killed_ns);
        CHECK(killed_ns == 0 || tt_clock_now_ns() - killed_ns < 2 * TT_NS_PER_S * TT_PATIENCE);
    }
    while (moves.done_well[1 - rank] == well_before) { /* life goes on between the others */
        moves_turn(TURN_MS);
    }
    moves.peers[VICTIM]->ops->disconnect(moves.peers[VICTIM]);
    atomic_store(&shared->over[rank], life);
}

static void live_steadily(void)
{
    int life = 1;
    show();
    atomic_store(&shared->ready[rank], 1);
    while (atomic_load(&shared->ready[1 - rank]) == 0) {
        usleep(200);
    }
    join(1 - rank);
    while (atomic_load(&shared->last) == 0) {
        moves_turn(TURN_MS);
        if (atomic_load(&shared->ready[VICTIM]) == life) {
            outlive(life++);
        }
    }
    CHECK(life == KILLS + 1);
    while (moves.pending[1 - rank] > 0) { /* no cancellation here: that is tested elsewhere */
        moves_last_turn();
    }
    atomic_fetch_add(&shared->last, 1);
    while (atomic_load(&shared->last) < 1 + SURVIVORS) {
        moves_last_turn();
    }
    moves.peers[1 - rank]->ops->disconnect(moves.peers[1 - rank]);
    moves_end();
}

/* --- The parent ------------------------------------------------------------------------------------------------- */

static pid_t start(int which, int life)
{
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        rank = which;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        alarm(RANK_SECONDS);
        if (which == VICTIM) {
            live_as_victim(life);
        }
        live_steadily();
        exit(0); /* so that a leak checker runs */
    }
    return pid;
}

/* Waits until all the counters have come to `life`; a steady rank that ends meanwhile fails the test. */
static void wait_for(atomic_int *counters, int count, int life, const pid_t pids[SURVIVORS])
{
    uint64_t deadline_ns = tt_clock_now_ns() + 20 * TT_NS_PER_S;
    int reached = 0;
    while (reached < count) {
        reached += atomic_load(&counters[reached]) >= life;
        for (int i = 0; i < SURVIVORS; i++) {
            int status = 0;
            if (waitpid(pids[i], &status, WNOHANG) == pids[i]) {
                fail_msg("rank %d ended with status %#x in life %d", i, (unsigned)status, life);
            }
        }
        if (tt_clock_now_ns() > deadline_ns) {
            fail_msg("no progress in life %d", life);
        }
        usleep(200);
    }
}

static void who_serves_or_uses_a_process_that_is_killed_lives_on(void **state)
{
    (void)state;
    struct tt_random random;
    memset(shared, 0, sizeof(*shared));
    uint64_t seed = tt_clock_now_ns();
    pid_t steady[SURVIVORS];
    tt_random_init(&random, seed);
    printf("# seed %llu\n", (unsigned long long)seed);
    for (int i = 0; i < SURVIVORS; i++) {
        steady[i] = start(i, 0);
    }
    wait_for(shared->ready, SURVIVORS, 1, steady);
    for (int life = 1; life <= KILLS; life++) {
        atomic_store(&shared->moves.killed_ns, 0);
        pid_t victim = start(VICTIM, life);
        wait_for(&shared->ready[VICTIM], 1, life, steady);
        if (pair_provider->must_be_moving || tt_random_chance(&random, 250000)) {
            /* UCX 1.13 ends the process by an assertion of its own (wireup_ep.c, pending_count) where the other side
             * dies between accepting the connection and the first message on it. */
            wait_for(shared->moving, SURVIVORS, life, steady);
        }
        usleep((useconds_t)tt_random_below(&random, tt_random_chance(&random, 500000) ? 20000 : 1000));
        if (tt_random_chance(&random, 250000)) {
            kill(victim, SIGSTOP);
            usleep(20000);
        }
        atomic_store(&shared->moves.killed_ns, tt_clock_now_ns());
        kill(victim, SIGKILL);
        assert_int_equal(waitpid(victim, NULL, 0), victim);
        wait_for(shared->over, SURVIVORS, life, steady);
    }
    atomic_store(&shared->last, 1);
    for (int i = 0; i < SURVIVORS; i++) {
        int status = 0;
        assert_int_equal(waitpid(steady[i], &status, 0), steady[i]);
        assert_int_equal(status, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(who_serves_or_uses_a_process_that_is_killed_lives_on, pair_choose),
    };
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        return 1;
    }
    return pair_run(NULL, "pair_kills", tests, sizeof(tests) / sizeof(tests[0]));
}
