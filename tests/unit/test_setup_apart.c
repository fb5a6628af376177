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
#include "base/log.h"
#include "engine/core.h"
#include "engine/setup_private.h"
#include "fabric/verbs/verbs.h"
#include "skip.h"
#include "tutti/reduction.h"
#include "tutti/tutti.h"

#define LIMIT_NS (20 * TT_NS_PER_S)

static _Atomic bool asked, went_on;

/* Takes until the other thread has gone on, or a long while. */
static void be_slow(void)
{
    uint64_t until_ns = tt_clock_now_ns() + LIMIT_NS;

    atomic_store(&asked, true);
    while (!atomic_load(&went_on) && tt_clock_now_ns() < until_ns) {
        usleep(1000);
    }
}

/* Instead of the C library's: a name server that takes its time. */
/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): the system's header has reserved names */
int getaddrinfo(const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **found)
{
    (void)host;
    (void)service;
    (void)hints;
    (void)found;
    be_slow();
    return EAI_AGAIN;
}

/* Instead of libibverbs', whose header a build without it does not have: a system that takes its time to say that there
 * is no RDMA device. */
struct ibv_device;
struct ibv_device **ibv_get_device_list(int *num_devices);
struct ibv_device **ibv_get_device_list(int *num_devices)
{
    *num_devices = 0;
    be_slow();
    return NULL;
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

static void *run_barrier(void *group)
{
    tutti_request *request = NULL;

    assert_int_equal(tutti_barrier_init(group, NULL, &request), TUTTI_OK);
    assert_int_equal(tutti_post(request), TUTTI_OK);
    assert_int_equal(tutti_wait(request), TUTTI_OK);
    assert_int_equal(tutti_finalize(request), TUTTI_OK);
    return NULL;
}

/* A context, and a group of it. */
static tutti_group *create_first(tutti_context **context)
{
    atomic_store(&went_on, true);
    assert_int_equal(tutti_context_create(NULL, context), TUTTI_OK);
    return create_alone(*context);
}

static void await_being_asked(void)
{
    uint64_t until_ns = tt_clock_now_ns() + LIMIT_NS;

    while (!atomic_load(&asked) && tt_clock_now_ns() < until_ns) {
        usleep(1000);
    }
    assert_true(atomic_load(&asked));
}

/* Uses the group while another thread is held up in `create`; returns what that made. */
static tutti_group *use_meanwhile(tutti_context *context, tutti_group *group, void *(*create)(void *context))
{
    uint64_t begun_ns;
    pthread_t creator;
    void *created = NULL;

    atomic_store(&asked, false);
    atomic_store(&went_on, false);
    assert_int_equal(pthread_create(&creator, NULL, create, context), 0);
    await_being_asked();
    begun_ns = tt_clock_now_ns();
    run_barrier(group);
    atomic_store(&went_on, true);
    assert_true(tt_clock_now_ns() - begun_ns < LIMIT_NS / 2);
    assert_int_equal(pthread_join(creator, &created), 0);
    return created;
}

static void other_groups_go_on_while_a_name_is_looked_up_for_one(void **state)
{
    tutti_context *context = NULL;
    tutti_group *group = create_first(&context);

    (void)state;
    assert_int_equal(tutti_group_destroy(use_meanwhile(context, group, create_slowly)), TUTTI_OK);
    assert_int_equal(tutti_group_destroy(group), TUTTI_OK);
    assert_int_equal(tutti_context_destroy(context), TUTTI_OK);
}

/* --- Devices ------------------------------------------------------------------------------------------------------ */

/* Of ranks 0 and 1, which are on two hosts: what the other one says is what this one says, but for who says so. What
 * follows on where they are is not answered any more. */
static int allgather_of_two_hosts(void *argument, const void *mine, void *all, size_t bytes)
{
    int *rounds = argument;
    struct tt_setup_hello *hello = all;

    memcpy(all, mine, bytes);
    memcpy((uint8_t *)all + bytes, mine, bytes);
    if (*rounds == 0) {
        assert_int_equal(bytes, sizeof *hello);
        hello[1].rank = 1;
        hello[1].host++;
        hello[1].context_id++;
    }
    return (*rounds)++ == 0 ? 0 : -1;
}

static void *fail_between_two_hosts(void *context)
{
    int rounds = 0;
    const tutti_group_options options = {
        .struct_size = sizeof options, .size = 2, .allgather = allgather_of_two_hosts, .argument = &rounds};
    tutti_group *group = NULL;

    assert_int_equal(tutti_group_create(context, &options, &group), TUTTI_ERR_BOOTSTRAP);
    assert_int_equal(rounds, 2);
    return NULL;
}

static void *fail_without_a_device(void *context)
{
    const tutti_group_options options = {.struct_size = sizeof options, .size = 1, .allgather = allgather_alone};
    tutti_group *group = NULL;

    assert_int_equal(tutti_group_create(context, &options, &group), TUTTI_ERR_NOT_SUPPORTED);
    return NULL;
}

/* Devices are looked for by the first, and opened by the second. */
static void other_groups_go_on_while_devices_are_looked_for_and_opened_for_one(void **state)
{
    tutti_context *context = NULL;
    struct tt_locality place;
    size_t count = 0;
    tutti_group *group;

    (void)state;
    unsetenv("TUTTI_ROOT"); /* no names to look up */
    atomic_store(&went_on, true);
    if (tt_verbs_list(NULL, NULL, 0, &count) != TUTTI_OK) {
        TT_SKIP("%s", tt_last_error());
    }
    group = create_first(&context);
    assert_int_equal(tt_locality_read(&context->engine->settings, &place), TUTTI_OK);
    if (place.net_count > 0) { /* else there is none that a device could serve */
        assert_null(use_meanwhile(context, group, fail_between_two_hosts));
    }
    assert_int_equal(tt_settings_set(&context->engine->settings, "MCAST", "verbs"), TUTTI_OK);
    assert_null(use_meanwhile(context, group, fail_without_a_device));
    assert_int_equal(tutti_group_destroy(group), TUTTI_OK);
    assert_int_equal(tutti_context_destroy(context), TUTTI_OK);
}

/* --- Two ranks, in threads ---------------------------------------------------------------------------------------- */

enum { RANKS = 2, MOST_BYTES = 65536 };

static struct {
    pthread_barrier_t all;
    uint8_t bytes[RANKS * MOST_BYTES];
} table;

static struct rank {
    uint32_t rank;
    tutti_context *context;
    tutti_group *group;
} ranks[RANKS];

static int allgather_between_threads(void *argument, const void *mine, void *all, size_t bytes)
{
    const struct rank *own = argument;

    assert_true(bytes <= MOST_BYTES);
    memcpy(table.bytes + own->rank * bytes, mine, bytes);
    pthread_barrier_wait(&table.all);
    memcpy(all, table.bytes, RANKS * bytes);
    pthread_barrier_wait(&table.all);
    return 0;
}

static void *create_together(void *argument)
{
    const struct rank *own = argument;
    const tutti_group_options options = {.struct_size = sizeof options,
                                         .rank = own->rank,
                                         .size = RANKS,
                                         .allgather = allgather_between_threads,
                                         .argument = argument};
    tutti_group *group = NULL;

    assert_int_equal(tutti_group_create(own->context, &options, &group), TUTTI_OK);
    return group;
}

static void begin_in_threads(void *(*run)(void *), bool of_groups, pthread_t threads[RANKS])
{
    for (uint32_t i = 0; i < RANKS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, run, of_groups ? (void *)ranks[i].group : &ranks[i]), 0);
    }
}

static void *destroy(void *group)
{
    assert_int_equal(tutti_group_destroy(group), TUTTI_OK);
    return NULL;
}

/* As a subnet's manager that answers when the others have gone on. */
static tutti_status join_slowly(struct tt_mcast_queue *queue)
{
    (void)queue;
    be_slow();
    return TUTTI_OK;
}

/* As a device that has sent all when the others have gone on. */
static void drain_slowly(struct tt_mcast_queue *queue)
{
    (void)queue;
    be_slow();
}

static void end_threads(pthread_t threads[RANKS], tutti_group *created[RANKS])
{
    void *result;

    for (uint32_t i = 0; i < RANKS; i++) {
        assert_int_equal(pthread_join(threads[i], &result), 0);
        if (created != NULL) {
            created[i] = result;
        }
    }
}

/* Both ranks' contexts, each with a group. */
static void begin_two_ranks(void)
{
    pthread_t threads[RANKS];
    tutti_group *created[RANKS];

    unsetenv("TUTTI_ROOT"); /* no names to look up */
    atomic_store(&asked, false);
    atomic_store(&went_on, false);
    for (uint32_t i = 0; i < RANKS; i++) {
        ranks[i] = (struct rank){.rank = i};
        assert_int_equal(tutti_context_create(NULL, &ranks[i].context), TUTTI_OK);
    }
    begin_in_threads(create_together, false, threads);
    end_threads(threads, created);
    for (uint32_t i = 0; i < RANKS; i++) {
        ranks[i].group = created[i];
    }
}

/* Their multicast is one that takes its time from now on. */
static void slow_down(struct tt_mcast_ops *slow)
{
    *slow = *ranks[0].context->engine->networks[0]->mcast->ops;
    slow->join = join_slowly;
    slow->drain = drain_slowly;
    for (uint32_t i = 0; i < RANKS; i++) {
        ranks[i].context->engine->networks[0]->mcast->ops = slow;
    }
}

static void use_groups_meanwhile(void)
{
    pthread_t users[RANKS];
    uint64_t begun_ns;

    await_being_asked();
    begun_ns = tt_clock_now_ns();
    begin_in_threads(run_barrier, true, users);
    end_threads(users, NULL);
    atomic_store(&went_on, true);
    assert_true(tt_clock_now_ns() - begun_ns < LIMIT_NS / 2);
}

static void destroy_groups(tutti_group *const groups[RANKS])
{
    pthread_t threads[RANKS];

    for (uint32_t i = 0; i < RANKS; i++) {
        ranks[i].group = groups[i];
    }
    begin_in_threads(destroy, true, threads);
    end_threads(threads, NULL);
}

static void other_groups_go_on_while_one_joins_and_leaves_a_multicast_group(void **state)
{
    struct tt_mcast_ops slow;
    pthread_t threads[RANKS];
    tutti_group *created[RANKS], *first[RANKS];

    (void)state;
    begin_two_ranks();
    slow_down(&slow);
    begin_in_threads(create_together, false, threads);
    use_groups_meanwhile();
    end_threads(threads, created);

    for (uint32_t i = 0; i < RANKS; i++) {
        first[i] = ranks[i].group;
        ranks[i].group = created[i];
    }
    atomic_store(&asked, false);
    atomic_store(&went_on, false);
    begin_in_threads(destroy, true, threads);
    for (uint32_t i = 0; i < RANKS; i++) {
        ranks[i].group = first[i];
    }
    use_groups_meanwhile();
    end_threads(threads, NULL);
    destroy_groups(first);
    for (uint32_t i = 0; i < RANKS; i++) {
        assert_int_equal(tutti_context_destroy(ranks[i].context), TUTTI_OK);
    }
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
        cmocka_unit_test(other_groups_go_on_while_devices_are_looked_for_and_opened_for_one),
        cmocka_unit_test(other_groups_go_on_while_one_joins_and_leaves_a_multicast_group),
    };

    setenv("TUTTI_ROOT", "root.example:7000", 1);
    setenv("TUTTI_RANK", "0", 1);
    setenv("TUTTI_SIZE", "1", 1);
    assert_int_equal(pthread_barrier_init(&table.all, NULL, RANKS), 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
