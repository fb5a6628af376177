/* SPDX-License-Identifier: BSD-3-Clause */
/* Traffic over endpoints: who is connected to whom, what is posted and completed how, and what sharing changes. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "cli/crew.h"
#include "endpoint/traffic.h"
#include "fake_verbs.h"

enum { THREADS = 4, PLACE_BYTES = 64, MEMORY_BYTES = THREADS * PLACE_BYTES };

static char near[MEMORY_BYTES], far[MEMORY_BYTES];

static struct tt_traffic_options options_of(enum tt_endpoint_category category)
{
    return (struct tt_traffic_options){.calls = &fake_calls,
                                       .device = "fake0",
                                       .port = 1,
                                       .category = category,
                                       .sets = 1,
                                       .threads = THREADS,
                                       .lanes = 1,
                                       .threads_per_completion_queue = 1,
                                       .threads_per_queue_pair = 1,
                                       .depth = 32,
                                       .postlist = 4,
                                       .unsignalled = 8,
                                       .near = near,
                                       .near_bytes = sizeof(near),
                                       .far = far,
                                       .far_bytes = sizeof(far),
                                       .yields = true};
}

static struct tt_traffic *create(const struct tt_traffic_options *options)
{
    struct tt_traffic *traffic = NULL;

    assert_int_equal(tt_traffic_create(options, &traffic), TUTTI_OK);
    for (size_t i = 0; i < sizeof(near); i++) {
        near[i] = (char)(i + 1);
        far[i] = 0;
    }
    return traffic;
}

static void destroy(struct tt_traffic *traffic)
{
    tt_traffic_destroy(traffic);
    assert_int_equal(fake.living, 0);
    assert_int_equal(fake.breaches, 0);
}

static struct tt_traffic_work work_of(struct tt_traffic *traffic, uint32_t thread, bool is_read)
{
    const struct tt_traffic_lane *lane = tt_traffic_lane(traffic, thread, 0);

    return (struct tt_traffic_work){.is_read = is_read,
                                    .local = near + (size_t)thread * PLACE_BYTES,
                                    .local_key = tt_traffic_local_key(lane),
                                    .remote = far + (size_t)thread * PLACE_BYTES,
                                    .remote_key = tt_traffic_remote_key(lane),
                                    .bytes = PLACE_BYTES};
}

static tutti_status write_200(void *argument, struct tt_crew *crew, uint32_t thread)
{
    struct tt_traffic *traffic = argument;
    struct tt_traffic_lane *lane = tt_traffic_lane(traffic, thread, 0);
    struct tt_traffic_work work = work_of(traffic, thread, false);
    tutti_status status = tt_traffic_post(lane, &work, 200);

    (void)crew;
    return status == TUTTI_OK ? tt_traffic_finish(lane) : status;
}

/* All threads at once; then everything must be where it belongs. */
static void check_writes(const struct tt_traffic_options *options, uint32_t threads)
{
    struct tt_traffic *traffic = create(options);
    uint64_t duration_ns;

    assert_int_equal(tt_crew_run(threads, write_200, traffic, &duration_ns), TUTTI_OK);
    assert_int_equal(fake.requests, threads * 200);
    assert_memory_equal(near, far, (size_t)threads * PLACE_BYTES);
    destroy(traffic);
}

static void all_categories_carry_the_writes_of_all_threads(void **state)
{
    (void)state;
    for (unsigned category = 0; category < TT_ENDPOINT_CATEGORY_COUNT; category++) {
        struct tt_traffic_options options = options_of((enum tt_endpoint_category)category);

        fake_reset();
        check_writes(&options, THREADS);
    }
}

static void both_ends_of_a_connection_are_of_the_chosen_partition(void **state)
{
    enum { INDEX = 3 };
    struct tt_traffic_options options = options_of(TT_ENDPOINT_DYNAMIC);

    (void)state;
    fake_reset();
    options.pkey_index = INDEX;
    destroy(create(&options));
    assert_int_equal(fake.pkey_indices, 2 * THREADS * INDEX);
}

static void a_provider_without_thread_domains_carries_them_as_static(void **state)
{
    struct tt_traffic_options options = options_of(TT_ENDPOINT_DYNAMIC);

    (void)state;
    fake_reset();
    fake.errors[FAKE_TD] = EOPNOTSUPP;
    struct tt_traffic *traffic = create(&options);
    assert_int_equal(tt_traffic_made(traffic)->effective, TT_ENDPOINT_STATIC);
    assert_int_equal(tt_traffic_made(traffic)->queue_pairs, THREADS);
    destroy(traffic);
}

static void lists_and_unsignalled_writes_save_calls_and_completions(void **state)
{
    static const struct {
        uint32_t postlist, unsignalled, count, calls, completions;
    } cases[] = {
        {1, 1, 200, 200, 200}, {4, 8, 200, 50, 25}, {8, 4, 200, 25, 50}, {32, 1, 64, 2, 64},
        {1, 32, 64, 64, 2},    {4, 8, 13, 4, 2}, /* a unit of 8, then 4 and 1 of which the last is signalled */
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct tt_traffic_options options = options_of(TT_ENDPOINT_STATIC);

        fake_reset();
        options.postlist = cases[i].postlist;
        options.unsignalled = cases[i].unsignalled;
        struct tt_traffic *traffic = create(&options);
        struct tt_traffic_work work = work_of(traffic, 1, false);
        assert_int_equal(tt_traffic_post(tt_traffic_lane(traffic, 1, 0), &work, cases[i].count), TUTTI_OK);
        assert_int_equal(tt_traffic_finish(tt_traffic_lane(traffic, 1, 0)), TUTTI_OK);
        assert_int_equal(fake.requests, cases[i].count);
        assert_int_equal(fake.calls_to_post, cases[i].calls);
        assert_int_equal(fake.completions, cases[i].completions);
        destroy(traffic);
    }
}

static void reads_come_from_the_target(void **state)
{
    struct tt_traffic_options options = options_of(TT_ENDPOINT_MPI_EVERYWHERE);

    (void)state;
    fake_reset();
    struct tt_traffic *traffic = create(&options);
    struct tt_traffic_work work = work_of(traffic, 2, true);
    memset(far, 'x', sizeof(far));
    assert_int_equal(tt_traffic_post(tt_traffic_lane(traffic, 2, 0), &work, 1), TUTTI_OK);
    assert_int_equal(tt_traffic_finish(tt_traffic_lane(traffic, 2, 0)), TUTTI_OK);
    assert_memory_equal(near + 2 * (size_t)PLACE_BYTES, far, PLACE_BYTES);
    assert_memory_not_equal(near, far, PLACE_BYTES);
    destroy(traffic);
}

static void shared_queues_serve_their_threads_at_once(void **state)
{
    (void)state;
    for (uint32_t ways = 1; ways <= THREADS; ways *= 2) {
        struct tt_traffic_options options = options_of(TT_ENDPOINT_DYNAMIC);

        fake_reset();
        options.threads_per_completion_queue = ways;
        check_writes(&options, THREADS);
        assert_int_equal(fake.made[FAKE_CQ] + fake.made[FAKE_CQ_EX], THREADS / ways + THREADS /* the target's */);
        fake_reset();
        options = options_of(ways > 1 ? TT_ENDPOINT_STATIC : TT_ENDPOINT_DYNAMIC);
        options.threads_per_queue_pair = ways;
        options.depth = 8; /* for a unit of one thread: the others must wait */
        check_writes(&options, THREADS);
        assert_int_equal(fake.made[FAKE_QP], 2 * THREADS / ways);
    }
}

static void protection_domains_are_shared_by_so_many_threads(void **state)
{
    (void)state;
    for (uint32_t ways = 1; ways <= THREADS; ways *= 2) {
        struct tt_traffic_options options = options_of(TT_ENDPOINT_SHARED_DYNAMIC);

        fake_reset();
        options.threads_per_domain = ways;
        struct tt_traffic *traffic = create(&options);
        assert_int_equal(tt_traffic_made(traffic)->contexts, 1);
        assert_int_equal(tt_traffic_made(traffic)->protection_domains, THREADS / ways);
        assert_int_equal(tt_traffic_made(traffic)->memory_regions, THREADS / ways);
        destroy(traffic);
        fake_reset();
        check_writes(&options, THREADS);
    }
}

static void own_registrations_are_counted_and_work(void **state)
{
    struct tt_traffic_options options = options_of(TT_ENDPOINT_STATIC);

    (void)state;
    fake_reset();
    options.near = NULL;
    struct tt_traffic *traffic = create(&options);
    struct tt_traffic_lane *lane = tt_traffic_lane(traffic, 3, 0);
    struct tt_traffic_work work = {.local = near, .remote = far, .bytes = 5, .remote_key = tt_traffic_remote_key(lane)};
    assert_int_equal(tt_traffic_register(traffic, 3, near, 5, &work.local_key), TUTTI_OK);
    assert_int_equal(tt_traffic_made(traffic)->memory_regions, 1);
    assert_int_equal(tt_traffic_post(lane, &work, 1), TUTTI_OK);
    assert_int_equal(tt_traffic_finish(lane), TUTTI_OK);
    assert_memory_equal(near, far, 5);
    destroy(traffic);
}

static void a_ring_leads_from_set_to_set(void **state)
{
    (void)state;
    for (unsigned category = 0; category < TT_ENDPOINT_CATEGORY_COUNT; category++) {
        for (uint32_t sets = 1; sets <= 4; sets++) {
            static char memory[4][PLACE_BYTES];
            struct tt_traffic_options options = options_of((enum tt_endpoint_category)category);

            fake_reset();
            options.shape = TT_TRAFFIC_RING;
            options.sets = sets;
            options.threads = 2;
            options.lanes = 2;
            options.near = memory;
            options.near_bytes = options.near_stride = PLACE_BYTES;
            struct tt_traffic *traffic = create(&options);
            for (uint32_t set = 0; set < sets; set++) {
                struct tt_traffic_lane *onward = tt_traffic_lane(traffic, 2 * set + 1, 1);
                uint32_t next = (set + 1) % sets;
                struct tt_traffic_work work = {.local = memory[set],
                                               .local_key = tt_traffic_local_key(onward),
                                               .remote = memory[next] + 1,
                                               .remote_key = tt_traffic_remote_key(onward),
                                               .bytes = 1};
                memory[set][0] = (char)('a' + set);
                assert_int_equal(tt_traffic_post(onward, &work, 1), TUTTI_OK);
                assert_int_equal(tt_traffic_finish(onward), TUTTI_OK);
                assert_int_equal(memory[next][1], 'a' + (int)set);
            }
            destroy(traffic);
        }
    }
}

static void an_error_is_told_and_ends_all_lanes(void **state)
{
    struct tt_traffic_options options = options_of(TT_ENDPOINT_STATIC);
    uint64_t duration_ns;

    (void)state;
    fake_reset();
    fake.failing_request = 100;
    struct tt_traffic *traffic = create(&options);
    struct tt_traffic_work work = work_of(traffic, 0, false);
    assert_int_equal(tt_crew_run(THREADS, write_200, traffic, &duration_ns), TUTTI_ERR_IO);
    assert_non_null(strstr(tt_last_error(), "fake0: an RDMA operation: remote access error"));
    assert_int_equal(tt_traffic_post(tt_traffic_lane(traffic, 0, 0), &work, 1000), TUTTI_ERR_CANCELED);
    tt_traffic_destroy(traffic);
    assert_int_equal(fake.living, 0);
}

static void a_refused_work_request_is_told(void **state)
{
    struct tt_traffic_options options = options_of(TT_ENDPOINT_STATIC);

    (void)state;
    fake_reset();
    struct tt_traffic *traffic = create(&options);
    struct tt_traffic_work work = work_of(traffic, 0, false);
    for (uint32_t i = 0; i < fake.living; i++) {
        fake.stack[i]->state = IBV_QPS_ERR;
    }
    assert_int_equal(tt_traffic_post(tt_traffic_lane(traffic, 0, 0), &work, 1), TUTTI_ERR_IO);
    assert_non_null(strstr(tt_last_error(), "fake0: posting work requests: "));
    tt_traffic_destroy(traffic);
}

static void whatever_creation_lacks_nothing_is_left(void **state)
{
    struct tt_traffic_options options = options_of(TT_ENDPOINT_MPI_EVERYWHERE);
    uint32_t calls = 0;

    (void)state;
    fake_reset();
    destroy(create(&options));
    calls = fake.call_count;
    for (uint32_t refused = 1; refused <= calls; refused++) {
        struct tt_traffic *traffic = NULL;

        fake_reset();
        fake.refused_call = refused;
        fake.refused_error = ENOMEM;
        assert_int_equal(tt_traffic_create(&options, &traffic), TUTTI_ERR_NO_RESOURCE);
        assert_null(traffic);
        assert_int_equal(fake.living, 0);
    }
}

static void a_device_that_is_not_there_is_named(void **state)
{
    struct tt_traffic_options options = options_of(TT_ENDPOINT_STATIC);
    struct tt_traffic *traffic = NULL;

    (void)state;
    fake_reset();
    options.device = "fake1";
    assert_int_equal(tt_traffic_create(&options, &traffic), TUTTI_ERR_NOT_SUPPORTED);
    assert_string_equal(tt_last_error(), "fake1: no such RDMA device");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_categories_carry_the_writes_of_all_threads),
        cmocka_unit_test(both_ends_of_a_connection_are_of_the_chosen_partition),
        cmocka_unit_test(a_provider_without_thread_domains_carries_them_as_static),
        cmocka_unit_test(lists_and_unsignalled_writes_save_calls_and_completions),
        cmocka_unit_test(reads_come_from_the_target),
        cmocka_unit_test(shared_queues_serve_their_threads_at_once),
        cmocka_unit_test(protection_domains_are_shared_by_so_many_threads),
        cmocka_unit_test(own_registrations_are_counted_and_work),
        cmocka_unit_test(a_ring_leads_from_set_to_set),
        cmocka_unit_test(an_error_is_told_and_ends_all_lanes),
        cmocka_unit_test(a_refused_work_request_is_told),
        cmocka_unit_test(whatever_creation_lacks_nothing_is_left),
        cmocka_unit_test(a_device_that_is_not_there_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
