/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory is refused at one rank while it creates its engine and a group, at each request in turn: it says so, the
 * others are told, and nothing is left. Ranks of one process; the linker puts the functions below in the place of
 * libc's. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/log.h"
#include "engine/engine.h"
#include "engine/setup_private.h"
#include "patience.h"

enum { RANKS = 3, SHORT = 1, MOST = 1000 };

#define LATE_NS (10 * TT_NS_PER_S * TT_PATIENCE)

static bool is_counting;
static uint32_t until_refused; /* of the short rank's requests; 0: none is any more */

static bool is_refused(void)
{
    return is_counting && until_refused > 0 && --until_refused == 0;
}

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
int __real_posix_memalign(void **memory, size_t alignment, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
int __wrap_posix_memalign(void **memory, size_t alignment, size_t bytes);

void *__wrap_malloc(size_t bytes)
{
    return is_refused() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    return is_refused() ? NULL : __real_calloc(count, bytes);
}

void *__wrap_realloc(void *memory, size_t bytes)
{
    return is_refused() ? NULL : __real_realloc(memory, bytes);
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
    return is_refused() ? NULL : __real_aligned_alloc(alignment, bytes);
}

int __wrap_posix_memalign(void **memory, size_t alignment, size_t bytes)
{
    return is_refused() ? ENOMEM : __real_posix_memalign(memory, alignment, bytes);
}

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
    is_counting = rank == SHORT;
}

static void leave(void)
{
    is_counting = false;
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
        assert_non_null(ranks[i].setup);
        assert_int_equal(tt_setup_bytes(ranks[i].setup), bytes);
        enter(i);
        tt_setup_produce(ranks[i].setup, all + i * bytes);
        leave();
    }
    for (uint32_t i = 0; i < RANKS; i++) {
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
    if (ranks[SHORT].status != TUTTI_OK) { /* its allgather will tell the others, or its end */
        for (uint32_t i = 0; i < RANKS; i++) {
            if (i != SHORT) {
                end_setup(&ranks[i], ranks[SHORT].status);
            }
        }
        return;
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
        until_refused = refusals + 1;
        is_probing = false;
        create_engines();
        if (ranks[SHORT].status == TUTTI_OK) {
            create_group();
        }
        was_refused = until_refused == 0;
        until_refused = 0;
        check_statuses(was_refused);
        exact += ranks[SHORT].status == TUTTI_ERR_NO_MEMORY;
        destroy();
    }
    print_message("%u requests, %u ended with NO_MEMORY\n", refusals, exact);
    assert_true(exact > 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rank_without_memory_says_so_and_the_others_end_with_it),
    };
    char message[128];

    tt_log_configure("none", NULL, message, sizeof message);
    if (tt_settings_load(&settings) != TUTTI_OK || tt_settings_set(&settings, "MCAST", "udp") != TUTTI_OK ||
        tt_settings_set(&settings, "P2P", "tcp") != TUTTI_OK) {
        return 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
