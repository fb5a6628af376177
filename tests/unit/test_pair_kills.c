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
#include "base/random.h"
#include "pair_fixture.h"
#include "patience.h"
#include "rank_check.h"

enum {
    STEADY = 2,
    VICTIM = STEADY,
    RANKS = STEADY + 1,
    KILLS = 50 / TT_PATIENCE,
    PIECES = 24, /* gets or puts at once to each of the others: more than the provider runs at once */
    PIECE_BYTES = 200000,
    RANK_SECONDS = 90
};

/* What a rank shows the others. The victim's is written anew for each life. */
struct shown {
    uint8_t address[TT_P2P_MAX_ADDRESS_BYTES], key[TT_P2P_MAX_KEY_BYTES];
    size_t address_bytes, key_bytes;
    uint64_t source, target; /* PIECE_BYTES to read; RANKS * PIECE_BYTES to write */
};

static struct shared {
    struct shown shown[RANKS];
    atomic_int ready[RANKS];   /* the life for which a rank has shown itself and its connections stand */
    atomic_int moving[STEADY]; /* the life in which data from the victim has arrived at a rank */
    atomic_int over[STEADY];   /* the life that a rank has seen the end of */
    atomic_int last;           /* no victim comes after this life; 0: not known yet */
    _Atomic uint64_t killed_ns;
} * shared;

static struct tt_p2p *p2p;
static struct tt_p2p_peer *peers[RANKS];
static struct tt_p2p_memory *memory;
static uint8_t *block, *copies; /* block: source, then targets */
static uint32_t pending[RANKS], done_well[RANKS], downs;
static bool down[RANKS];

/* --- A rank ----------------------------------------------------------------------------------------------------- */

static uint8_t *copy_of(uint64_t cookie)
{
    return copies + cookie * PIECE_BYTES;
}

/* Every other piece is a get, the rest are puts of this rank's source to its place at the other side. */
static void start_piece(uint64_t cookie)
{
    uint32_t other = (uint32_t)cookie / PIECES;
    const struct shown *shown = &shared->shown[other];
    struct tt_p2p_peer *peer = peers[other];
    tutti_status status;
    if (cookie % 2 == 0) {
        memset(copy_of(cookie), 0xee, PIECE_BYTES);
        status =
            peer->ops->get(peer, shown->key, shown->key_bytes, shown->source, copy_of(cookie), PIECE_BYTES, cookie);
    } else {
        status = peer->ops->put(peer, shown->key, shown->key_bytes, shown->target + (uint64_t)rank * PIECE_BYTES, block,
                                PIECE_BYTES, cookie, cookie);
    }
    CHECK(status == TUTTI_OK || status == TUTTI_ERR_PEER_FAILED);
    pending[other] += status == TUTTI_OK;
}

static void start_pieces(uint32_t other)
{
    for (uint64_t i = 0; i < PIECES; i++) {
        start_piece((uint64_t)other * PIECES + i);
    }
}

static void check_copy(uint64_t cookie)
{
    const uint8_t *copy = copy_of(cookie);
    for (uint32_t i = 0; i < PIECE_BYTES; i++) {
        CHECK(copy[i] == (uint8_t)(i * 7 + cookie / PIECES));
    }
}

static void piece_done(uint64_t cookie, tutti_status status)
{
    uint32_t other = (uint32_t)cookie / PIECES;
    CHECK(pending[other] > 0);
    pending[other]--;
    CHECK(status == TUTTI_OK || (status == TUTTI_ERR_PEER_FAILED && other == VICTIM));
    if (status == TUTTI_OK) {
        done_well[other]++;
        if (cookie % 2 == 0) {
            check_copy(cookie);
        }
        start_piece(cookie);
    }
}

static void turn(void)
{
    struct tt_p2p_event events[16];
    uint32_t count = p2p->ops->progress(p2p, events, 16);
    for (uint32_t i = 0; i < count; i++) {
        if (events[i].type == TT_P2P_DONE) {
            piece_done(events[i].cookie, events[i].status);
        } else if (events[i].type == TT_P2P_PEER_DOWN) {
            CHECK(events[i].peer_cookie == VICTIM && !down[VICTIM]);
            down[VICTIM] = true;
            downs++;
        }
    }
    struct pollfd wait = {.fd = p2p->ops->fd(p2p), .events = POLLIN};
    if (count == 0 && p2p->ops->arm(p2p)) {
        poll(&wait, 1, 5);
    }
}

static void show(void)
{
    struct shown *shown = &shared->shown[rank];
    block = malloc((size_t)(1 + RANKS) * PIECE_BYTES);
    copies = malloc((size_t)RANKS * PIECES * PIECE_BYTES);
    CHECK(block != NULL && copies != NULL);
    for (uint32_t i = 0; i < PIECE_BYTES; i++) {
        block[i] = (uint8_t)(i * 7 + (uint32_t)rank);
    }
    shown->address_bytes = sizeof(shown->address);
    shown->key_bytes = sizeof(shown->key);
    shown->source = (uintptr_t)block;
    shown->target = (uintptr_t)block + PIECE_BYTES;
    CHECK(pair_provider->create(false, &p2p) == TUTTI_OK);
    CHECK(p2p->ops->address(p2p, shown->address, &shown->address_bytes) == TUTTI_OK);
    CHECK(p2p->ops->memory_register(p2p, block, (size_t)(1 + RANKS) * PIECE_BYTES, &memory) == TUTTI_OK);
    CHECK(p2p->ops->memory_pack(memory, shown->key, &shown->key_bytes) == TUTTI_OK);
}

static void join(int other)
{
    const struct shown *shown = &shared->shown[other];
    CHECK(p2p->ops->connect(p2p, shown->address, shown->address_bytes, (uint64_t)other, &peers[other]) == TUTTI_OK);
    start_pieces((uint32_t)other);
}

static void live_as_victim(int life)
{
    show();
    atomic_store(&shared->ready[rank], life);
    for (int other = 0; other < STEADY; other++) {
        join(other);
    }
    for (;;) {
        turn();
    }
}

/* From the victim's arrival to the end of all that was under way to it. */
static void outlive(int life)
{
    uint32_t downs_before = downs;
    down[VICTIM] = false;
    done_well[VICTIM] = 0;
    uint32_t well_before = done_well[1 - rank];
    join(VICTIM);
    while (!down[VICTIM] || pending[VICTIM] > 0) {
        turn();
        if (done_well[VICTIM] > 0) {
            atomic_store(&shared->moving[rank], life);
        }
        uint64_t killed_ns = atomic_load(&shared->killed_ns);
        CHECK(killed_ns == 0 || tt_clock_now_ns() - killed_ns < 2 * TT_NS_PER_S * TT_PATIENCE);
    }
    while (done_well[1 - rank] == well_before) { /* life goes on between the others */
        turn();
    }
    CHECK(downs == downs_before + 1);
    peers[VICTIM]->ops->disconnect(peers[VICTIM]);
    peers[VICTIM] = NULL;
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
        turn();
        if (atomic_load(&shared->ready[VICTIM]) == life) {
            outlive(life++);
        }
    }
    CHECK(life == KILLS + 1 && downs == KILLS);
    while (pending[1 - rank] > 0 && !down[1 - rank]) { /* no cancellation here: that is tested elsewhere */
        struct tt_p2p_event events[16];
        uint32_t count = p2p->ops->progress(p2p, events, 16);
        for (uint32_t i = 0; i < count; i++) {
            pending[1 - rank] -= events[i].type == TT_P2P_DONE;
        }
    }
    atomic_fetch_add(&shared->last, 1);
    while (atomic_load(&shared->last) < 1 + STEADY) {
        struct tt_p2p_event events[16];
        p2p->ops->progress(p2p, events, 16);
    }
    peers[1 - rank]->ops->disconnect(peers[1 - rank]);
    p2p->ops->memory_release(memory);
    p2p->ops->destroy(p2p);
    free(block);
    free(copies);
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
static void wait_for(atomic_int *counters, int count, int life, const pid_t pids[STEADY])
{
    uint64_t deadline_ns = tt_clock_now_ns() + 20 * TT_NS_PER_S;
    int reached = 0;
    while (reached < count) {
        reached += atomic_load(&counters[reached]) >= life;
        for (int i = 0; i < STEADY; i++) {
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
    pid_t steady[STEADY];
    tt_random_init(&random, seed);
    printf("# seed %llu\n", (unsigned long long)seed);
    for (int i = 0; i < STEADY; i++) {
        steady[i] = start(i, 0);
    }
    wait_for(shared->ready, STEADY, 1, steady);
    for (int life = 1; life <= KILLS; life++) {
        atomic_store(&shared->killed_ns, 0);
        pid_t victim = start(VICTIM, life);
        wait_for(&shared->ready[VICTIM], 1, life, steady);
        if (pair_provider->must_be_moving || tt_random_chance(&random, 250000)) {
            /* UCX 1.13 ends the process by an assertion of its own (wireup_ep.c, pending_count) where the other side
             * dies between accepting the connection and the first message on it. */
            wait_for(shared->moving, STEADY, life, steady);
        }
        usleep((useconds_t)tt_random_below(&random, tt_random_chance(&random, 500000) ? 20000 : 1000));
        if (tt_random_chance(&random, 250000)) {
            kill(victim, SIGSTOP);
            usleep(20000);
        }
        kill(victim, SIGKILL);
        atomic_store(&shared->killed_ns, tt_clock_now_ns());
        assert_int_equal(waitpid(victim, NULL, 0), victim);
        wait_for(shared->over, STEADY, life, steady);
    }
    atomic_store(&shared->last, 1);
    for (int i = 0; i < STEADY; i++) {
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
