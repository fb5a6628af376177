/* SPDX-License-Identifier: BSD-3-Clause */
/* A group that takes long to create, in a context in which another thread has a group already. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <netdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/handles.h"
#include "base/clock.h"
#include "engine/core.h"
#include "tutti/reduction.h"
#include "tutti/tutti.h"

#define LIMIT_NS (20 * TT_NS_PER_S)

static _Atomic bool asked, went_on;

/* Instead of the C library's: a name server that answers when the other thread has gone on, or after a long while. */
/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): the system's header has reserved names */
int getaddrinfo(const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **found)
{
    uint64_t until_ns = tt_clock_now_ns() + LIMIT_NS;

    (void)host;
    (void)service;
    (void)hints;
    (void)found;
    atomic_store(&asked, true);
    while (!atomic_load(&went_on) && tt_clock_now_ns() < until_ns) {
        usleep(1000);
    }
    return EAI_AGAIN;
}

static int allgather_alone(void *argument, const void *mine, void *all, size_t bytes)
{
    (void)argument;
    memcpy(all, mine, bytes);
    return 0;
}

static tutti_group *create_alone(tutti_context *context)
{
    const tutti_group_options options = {.struct_size = sizeof options, .size = 1, .allgather = allgather_alone};
    tutti_group *group = NULL;

    assert_int_equal(tutti_group_create(context, &options, &group), TUTTI_OK);
    return group;
}

static void *create_slowly(void *context)
{
    return create_alone(context);
}

static void run_barrier(tutti_group *group)
{
    tutti_request *request = NULL;

    assert_int_equal(tutti_barrier_init(group, NULL, &request), TUTTI_OK);
    assert_int_equal(tutti_post(request), TUTTI_OK);
    assert_int_equal(tutti_wait(request), TUTTI_OK);
    assert_int_equal(tutti_finalize(request), TUTTI_OK);
}

static void other_groups_go_on_while_a_name_is_looked_up_for_one(void **state)
{
    uint64_t until_ns = tt_clock_now_ns() + LIMIT_NS, begun_ns;
    tutti_context *context = NULL;
    tutti_group *group;
    pthread_t creator;
    void *created = NULL;

    (void)state;
    atomic_store(&went_on, true);
    assert_int_equal(tutti_context_create(NULL, &context), TUTTI_OK);
    group = create_alone(context);
    atomic_store(&asked, false);
    atomic_store(&went_on, false);
    assert_int_equal(pthread_create(&creator, NULL, create_slowly, context), 0);
    while (!atomic_load(&asked) && tt_clock_now_ns() < until_ns) {
        usleep(1000);
    }
    assert_true(atomic_load(&asked));
    begun_ns = tt_clock_now_ns();
    run_barrier(group);
    atomic_store(&went_on, true);
    assert_true(tt_clock_now_ns() - begun_ns < LIMIT_NS / 2);
    assert_int_equal(pthread_join(creator, &created), 0);
    assert_int_equal(tutti_group_destroy(created), TUTTI_OK);
    assert_int_equal(tutti_group_destroy(group), TUTTI_OK);
    assert_int_equal(tutti_context_destroy(context), TUTTI_OK);
}

/* What both need is made once. */
static void two_groups_that_are_created_at_once_share_a_network(void **state)
{
    enum { ROUNDS = 20 };

    (void)state;
    atomic_store(&went_on, true);
    for (int round = 0; round < ROUNDS; round++) {
        tutti_context *context = NULL;
        tutti_group *group;
        pthread_t creator;
        void *created = NULL;

        assert_int_equal(tutti_context_create(NULL, &context), TUTTI_OK);
        assert_int_equal(pthread_create(&creator, NULL, create_slowly, context), 0);
        group = create_alone(context);
        assert_int_equal(pthread_join(creator, &created), 0);
        assert_int_equal(context->engine->network_count, 1);
        run_barrier(created);
        run_barrier(group);
        assert_int_equal(tutti_group_destroy(created), TUTTI_OK);
        assert_int_equal(tutti_group_destroy(group), TUTTI_OK);
        assert_int_equal(tutti_context_destroy(context), TUTTI_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_groups_go_on_while_a_name_is_looked_up_for_one),
        cmocka_unit_test(two_groups_that_are_created_at_once_share_a_network),
    };

    setenv("TUTTI_ROOT", "root.example:7000", 1);
    setenv("TUTTI_RANK", "0", 1);
    setenv("TUTTI_SIZE", "1", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
