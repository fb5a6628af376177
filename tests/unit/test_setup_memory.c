/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory is refused at one rank while it creates its engine and a group, at each request in turn: it says so, the
 * others are told, and nothing is left. Ranks of one process, first stepped by hand, then threads that call the
 * library's functions. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/log.h"
#include "engine/engine.h"
#include "engine/setup_private.h"
#include "patience.h"
#include "refuse.h"
#include "tutti/tutti.h"

enum { RANKS = 3, SHORT = 1, MOST = 1000 };

#define LATE_NS (10 * TT_NS_PER_S * TT_PATIENCE)

/* --- Ranks -------------------------------------------------------------------------------------------------------- */

static struct tt_settings settings;
static bool is_probing; /* connections come about, for which memory is taken as they do */
static struct rank {
    struct tt_engine *engine;
    struct tt_setup *setup; /* until it has ended, either way */
    struct tt_group *group;
    tutti_status status;
} ranks[RANKS];

static void enter(uint32_t rank)
{
    refuse_counts = rank == SHORT;
}

static void leave(void)
{
    refuse_counts = false;
}

static void end_setup(struct rank *rank, tutti_status status)
{
    tt_engine_lock(rank->engine);
    tt_setup_give_up(rank->setup, status);
    tt_engine_unlock(rank->engine);
    rank->setup = NULL;
    rank->status = status;
}

/* As if an allgather carried it. Who has ended sends nothing more, and nobody may expect it to. */
static void play_round(void)
{
    size_t bytes = tt_setup_bytes(ranks[0].setup);
    uint8_t *all = calloc(RANKS, bytes);

    assert_non_null(all);
    for (uint32_t i = 0; i < RANKS; i++) {
        if (i == SHORT && ranks[i].setup == NULL) { /* it could not even begin */
            assert_int_equal(bytes, TT_SETUP_FIRST_BYTES);
            tt_setup_decline(i, ranks[i].status, all + i * bytes);
            continue;
        }
        assert_non_null(ranks[i].setup);
        assert_int_equal(tt_setup_bytes(ranks[i].setup), bytes);
        enter(i);
        tt_setup_produce(ranks[i].setup, all + i * bytes);
        leave();
    }
    for (uint32_t i = 0; i < RANKS; i++) {
        if (ranks[i].setup == NULL) {
            continue;
        }
        enter(i);
        tutti_status status = tt_setup_consume(ranks[i].setup, all);
        leave();
        if (status != TUTTI_OK) {
            end_setup(&ranks[i], status);
        }
    }
    free(all);
}

static void probe(void)
{
    uint64_t until_ns = tt_clock_now_ns() + LATE_NS;
    uint32_t probing = 0;

    for (uint32_t i = 0; i < RANKS; i++) {
        if (ranks[i].setup != NULL) {
            enter(i);
            tt_engine_lock(ranks[i].engine);
            tt_setup_probe(ranks[i].setup);
            tt_engine_unlock(ranks[i].engine);
            leave();
            probing++;
        }
    }
    while (probing > 0) {
        assert_true(tt_clock_now_ns() < until_ns);
        for (uint32_t i = 0; i < RANKS; i++) {
            struct rank *rank = &ranks[i];

            enter(i);
            tt_engine_lock(rank->engine);
            (void)tt_engine_progress(rank->engine);
            if (rank->setup != NULL && tt_setup_probed(rank->setup)) {
                rank->status = tt_setup_take(rank->setup, &rank->group);
                rank->setup = NULL;
                probing--;
            }
            tt_engine_unlock(rank->engine);
            leave();
        }
    }
}

/* Until one rank has nothing to say any more; then nobody has. */
static void create_group(void)
{
    for (uint32_t i = 0; i < RANKS; i++) {
        tt_engine_lock(ranks[i].engine);
        enter(i);
        ranks[i].status = tt_setup_begin(ranks[i].engine, i, RANKS, &ranks[i].setup);
        leave();
        tt_engine_unlock(ranks[i].engine);
    }
    while (ranks[0].setup != NULL && !tt_setup_done(ranks[0].setup)) {
        play_round();
    }
    is_probing = ranks[0].setup != NULL;
    probe();
}

static void create_engines(void)
{
    for (uint32_t i = 0; i < RANKS; i++) {
        ranks[i] = (struct rank){0};
        enter(i);
        ranks[i].status = tt_engine_create(&settings, &ranks[i].engine);
        leave();
        assert_true(ranks[i].status == TUTTI_OK || i == SHORT);
    }
}

static void *destroy_engine(void *engine)
{
    tt_engine_destroy(engine);
    return NULL;
}

/* All at the same time: connections that end wait for each other's goodbye. */
static void destroy(void)
{
    pthread_t threads[RANKS];

    for (uint32_t i = 0; i < RANKS; i++) {
        if (ranks[i].group != NULL) {
            tt_engine_lock(ranks[i].engine);
            tt_group_leave(ranks[i].group);
            tt_engine_unlock(ranks[i].engine);
        }
    }
    for (uint32_t i = 0; i < RANKS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, destroy_engine, ranks[i].engine), 0);
    }
    for (uint32_t i = 0; i < RANKS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
}

/* While connections come about it may be one of them that fails, and others may have the group by then. */
static void check_statuses(bool was_refused)
{
    for (uint32_t i = 0; i < RANKS && ranks[SHORT].engine != NULL; i++) {
        if (!is_probing) {
            assert_int_equal(ranks[i].status, was_refused ? TUTTI_ERR_NO_MEMORY : TUTTI_OK);
        }
        assert_true(was_refused || ranks[i].status == TUTTI_OK);
        assert_true((ranks[i].status == TUTTI_OK) == (ranks[i].group != NULL));
    }
}

static void rank_without_memory_says_so_and_the_others_end_with_it(void **state)
{
    uint32_t refusals = 0, exact = 0;

    (void)state;
    for (bool was_refused = true; was_refused; refusals += was_refused) {
        assert_true(refusals < MOST);
        refuse_after = refusals + 1;
        is_probing = false;
        create_engines();
        if (ranks[SHORT].status == TUTTI_OK) {
            create_group();
        }
        was_refused = refuse_after == 0;
        refuse_after = 0;
        check_statuses(was_refused);
        exact += ranks[SHORT].status == TUTTI_ERR_NO_MEMORY;
        destroy();
    }
    print_message("%u requests, %u ended with NO_MEMORY\n", refusals, exact);
    assert_true(exact > 30);
}

/* --- Ranks that are threads ----------------------------------------------------------------------------------------
 */

enum { ROUNDS = 3, ROUND_BYTES = 4096, ERROR_BYTES = 256 }; /* HELLO, ADDRESS, ATTACH: all are on one host */

static struct meeting {
    pthread_mutex_t lock;
    pthread_cond_t everybody_came;
    uint8_t bytes[2][RANKS * ROUND_BYTES]; /* of every other round: who is fast is one ahead */
    uint32_t came, rounds;
    bool is_late; /* somebody did not come */
} meeting = {.lock = PTHREAD_MUTEX_INITIALIZER, .everybody_came = PTHREAD_COND_INITIALIZER};

static struct caller {
    pthread_t thread;
    uint32_t rank;
    tutti_context *context;
    tutti_group *group;
    tutti_status status;
    char error[ERROR_BYTES];
} callers[RANKS];

static uint32_t rounds_before_refusal;

static int allgather(void *argument, const void *send, void *receive, size_t bytes)
{
    const struct caller *caller = argument;
    struct timespec until;
    bool was_counting = refuse_counts, is_late;
    uint32_t round;

    refuse_counts = false;
    assert_true(bytes <= ROUND_BYTES);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (time_t)(LATE_NS / TT_NS_PER_S);
    pthread_mutex_lock(&meeting.lock);
    round = meeting.rounds;
    memcpy(meeting.bytes[round % 2] + caller->rank * bytes, send, bytes);
    if (++meeting.came == RANKS) {
        meeting.came = 0;
        meeting.rounds++;
        pthread_cond_broadcast(&meeting.everybody_came);
    }
    while (meeting.rounds == round && !meeting.is_late) {
        meeting.is_late = pthread_cond_timedwait(&meeting.everybody_came, &meeting.lock, &until) != 0;
    }
    memcpy(receive, meeting.bytes[round % 2], RANKS * bytes);
    if (refuse_after > 0) {
        rounds_before_refusal = meeting.rounds;
    }
    is_late = meeting.is_late;
    pthread_mutex_unlock(&meeting.lock);
    refuse_counts = was_counting;
    return is_late;
}

static void *end_call(void *argument)
{
    struct caller *caller = argument;

    (void)tutti_group_destroy(caller->group);
    (void)tutti_context_destroy(caller->context);
    caller->group = NULL;
    caller->context = NULL;
    return NULL;
}

static void *call(void *argument)
{
    struct caller *caller = argument;
    const tutti_group_options options = {
        .struct_size = sizeof options, .rank = caller->rank, .size = RANKS, .allgather = allgather, .argument = caller};

    enter(caller->rank);
    caller->status = tutti_group_create(caller->context, &options, &caller->group);
    leave();
    (void)snprintf(caller->error, sizeof caller->error, "%s", tutti_last_error());
    return NULL;
}

static void on_all_threads(void *(*function)(void *))
{
    for (uint32_t i = 0; i < RANKS; i++) {
        assert_int_equal(pthread_create(&callers[i].thread, NULL, function, &callers[i]), 0);
    }
    for (uint32_t i = 0; i < RANKS; i++) {
        assert_int_equal(pthread_join(callers[i].thread, NULL), 0);
    }
}

/* Of what is refused before the last round all are told in one; later it may be a connection that fails. Those hear of
 * it who wait, though who failed has gone and calls nothing. */
static void check_calls(bool was_refused)
{
    assert_false(meeting.is_late);
    for (uint32_t i = 0; i < RANKS; i++) {
        if (was_refused && rounds_before_refusal < ROUNDS) {
            assert_int_equal(callers[i].status, TUTTI_ERR_NO_MEMORY);
            assert_non_null(strstr(callers[i].error, i == SHORT ? "no memory" : "rank 1 "));
        }
        assert_true(was_refused || callers[i].status == TUTTI_OK);
        assert_int_not_equal(callers[i].status, TUTTI_ERR_TIMED_OUT);
    }
}

static void rank_without_memory_takes_part_in_the_allgather_of_its_caller(void **state)
{
    const tutti_setting wanted[] = {{"MCAST", "udp"}, {"P2P", "tcp"}, {"LOG", "none"}};
    const tutti_context_options options = {
        .struct_size = sizeof options, .settings = wanted, .setting_count = sizeof wanted / sizeof wanted[0]};
    uint32_t refusals = 0;

    (void)state;
    for (bool was_refused = true; was_refused; refusals += was_refused) {
        assert_true(refusals < MOST);
        meeting.came = meeting.rounds = rounds_before_refusal = 0;
        for (uint32_t i = 0; i < RANKS; i++) {
            callers[i] = (struct caller){.rank = i};
            assert_int_equal(tutti_context_create(&options, &callers[i].context), TUTTI_OK);
        }
        refuse_after = refusals + 1;
        on_all_threads(call);
        was_refused = refuse_after == 0;
        refuse_after = 0;
        check_calls(was_refused);
        on_all_threads(end_call);
    }
    print_message("%u requests\n", refusals);
    assert_true(refusals > 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rank_without_memory_says_so_and_the_others_end_with_it),
        cmocka_unit_test(rank_without_memory_takes_part_in_the_allgather_of_its_caller),
    };
    char message[128];

    tt_log_configure("none", NULL, message, sizeof message);
    if (tt_settings_load(&settings) != TUTTI_OK || tt_settings_set(&settings, "MCAST", "udp") != TUTTI_OK ||
        tt_settings_set(&settings, "P2P", "tcp") != TUTTI_OK) {
        return 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
