/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two threads of a rank wait for different things: one of them has control, and moves everything along. The other takes
 * over when that one has what it waited for, and does not come back. What a thread waits for in an engine without peers
 * is in tests/unit/test_wait.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <pthread.h>
#include <unistd.h>

#include "api/handles.h"
#include "job.h"

enum { LIMIT_S = 20, TICK_US = 1000, SETUP_ROUNDS = 3 /* of an allgather, without multicast */ };

/* What the threads of a rank share. */
struct place {
    struct job_rank *rank;
    tutti_context *context;
    tutti_group *group, *other;
    tutti_request *byte; /* of `group`, from rank 1 */
    uint8_t value;
    uint32_t rounds; /* of the allgather that `other` is created with */
    _Atomic bool is_away;
};

/* What one thread of rank 0 is about, and rank 1 only later, which the other thread does not wait for. */
struct errand {
    void (*run)(struct place *place);
    bool begins_with_other;
    const char *settings[3];
};

static void create_other(struct place *place, tutti_oob_allgather allgather, void *argument)
{
    tutti_group_options members = {.struct_size = sizeof members,
                                   .rank = place->rank->rank,
                                   .size = place->rank->size,
                                   .allgather = allgather,
                                   .argument = argument};

    JOB_OK(place->rank, tutti_group_create(place->context, &members, &place->other));
}

/* What follows ends at rank 0 when it has begun at rank 1; there it begins once rank 0's threads are where they should
 * be. */
static void go_away(struct place *place)
{
    atomic_store(&place->is_away, true);
    if (place->rank->rank == 1) {
        job_barrier(place->rank);
    }
}

static int allgather_and_go_away(void *argument, const void *send, void *receive, size_t length_bytes)
{
    struct place *place = argument;
    int result = job_allgather(place->rank, send, receive, length_bytes);

    if (++place->rounds == SETUP_ROUNDS) { /* then ranks wait for each other's probe */
        go_away(place);
    }
    return result;
}

static void create_group(struct place *place)
{
    create_other(place, allgather_and_go_away, place);
}

/* A root that has sent may leave only when the others have it. */
static void destroy_group(struct place *place)
{
    tutti_request *request;
    uint8_t value = 0;

    JOB_OK(place->rank, tutti_broadcast_init(place->other, TUTTI_IN_PLACE, &value, 1, 0, NULL, &request));
    if (place->rank->rank == 1) {
        go_away(place);
    }
    JOB_OK(place->rank, tutti_post(request));
    JOB_OK(place->rank, tutti_wait(request));
    JOB_OK(place->rank, tutti_finalize(request));
    if (place->rank->rank == 0) {
        go_away(place);
    }
    JOB_OK(place->rank, tutti_group_destroy(place->other));
    place->other = NULL;
}

static void *run_errand(void *argument)
{
    struct place *place = argument;

    ((const struct errand *)place->rank->argument)->run(place);
    return NULL;
}

static void *await_byte(void *argument)
{
    struct place *place = argument;

    JOB_OK(place->rank, tutti_post(place->byte));
    JOB_OK(place->rank, tutti_wait(place->byte));
    JOB_CHECK(place->rank, place->value == 42, "%u", place->value);
    return NULL;
}

/* Until a thread is away and has control, and so many others wait. */
static void await_waiters(struct place *place, uint32_t count)
{
    struct tt_engine *engine = place->context->engine;
    bool there = false;

    while (!there) {
        usleep(TICK_US);
        pthread_mutex_lock(&engine->lock);
        there = atomic_load(&place->is_away) && engine->controlled && engine->waiters == count;
        pthread_mutex_unlock(&engine->lock);
    }
}

static void errand_body(struct job_rank *rank)
{
    const struct errand *errand = rank->argument;
    struct place place = {.rank = rank, .value = rank->rank == 1 ? 42 : 0};
    pthread_t away, waiting;

    job_group(rank, errand->settings, &place.context, &place.group);
    JOB_OK(rank, tutti_broadcast_init(place.group, TUTTI_IN_PLACE, &place.value, 1, 1, NULL, &place.byte));
    if (errand->begins_with_other) {
        create_other(&place, job_allgather, rank);
    }
    if (rank->rank == 0) {
        pthread_create(&away, NULL, run_errand, &place);
        await_waiters(&place, 0);
        pthread_create(&waiting, NULL, await_byte, &place);
        await_waiters(&place, 1);
        job_barrier(rank); /* rank 1 begins with the errand */
        pthread_join(away, NULL);
        job_barrier(rank); /* and only now with the byte */
        pthread_join(waiting, NULL);
    } else {
        run_errand(&place);
        job_barrier(rank);
        await_byte(&place);
    }
    JOB_OK(rank, tutti_finalize(place.byte));
    JOB_OK(rank, tutti_group_destroy(place.other));
    job_end(place.context, place.group);
}

static void who_waits_takes_over_when_another_thread_has_destroyed_a_group(void **state)
{
    static const struct errand errand = {.run = destroy_group, .begins_with_other = true};

    (void)state;
    assert_int_equal(job_run(2, errand_body, (void *)(uintptr_t)&errand, LIMIT_S), 0);
}

static void who_waits_takes_over_when_another_thread_has_created_a_group(void **state)
{
    static const struct errand errand = {.run = create_group, .settings = {"ALGORITHM", "ring"}};

    (void)state;
    assert_int_equal(job_run(2, errand_body, (void *)(uintptr_t)&errand, LIMIT_S), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_waits_takes_over_when_another_thread_has_destroyed_a_group),
        cmocka_unit_test(who_waits_takes_over_when_another_thread_has_created_a_group),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
