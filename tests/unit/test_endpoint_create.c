/* SPDX-License-Identifier: BSD-3-Clause */
/* Making endpoints: the calls of each category, what comes of them, and what stands in for what a provider lacks. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "endpoint/plan.h"
#include "endpoint_fixture.h"

static struct tt_endpoint_terms terms_of(enum tt_endpoint_category category, uint32_t threads, uint32_t queue_pairs)
{
    return (struct tt_endpoint_terms){.category = category,
                                      .driver = TT_ENDPOINT_CURRENT,
                                      .threads = threads,
                                      .queue_pairs_per_thread = queue_pairs,
                                      .total_uuars = TT_UUARS_DEFAULT,
                                      .low_latency_uuars = TT_UUARS_LOW_LATENCY_DEFAULT};
}

static struct tt_endpoint_plan plan_of(enum tt_endpoint_category category, uint32_t threads, uint32_t queue_pairs)
{
    struct tt_endpoint_terms terms = terms_of(category, threads, queue_pairs);
    struct tt_endpoint_plan plan;

    tt_endpoint_plan(&terms, 1, &plan);
    return plan;
}

/* On how many pages there is a queue pair: a page that is taken ahead of its need has none yet. */
static uint32_t pages_of(enum tt_endpoint_category category, uint32_t threads, uint32_t queue_pairs)
{
    struct tt_endpoint_terms terms = terms_of(category, threads, queue_pairs);
    struct tt_endpoint_assignment assignment;
    struct tt_endpoint_place place;
    bool seen[64][512] = {{false}};
    uint32_t count = 0;

    tt_endpoint_assignment_init(&assignment, &terms);
    while (tt_endpoint_assignment_next(&assignment, &place)) {
        count += !seen[place.context][place.place.page];
        seen[place.context][place.place.page] = true;
    }
    return count;
}

static void check_trace(enum tt_endpoint_category category, const char *expected)
{
    struct tt_endpoint_options options = endpoint_options(category, 2, 1);

    fake_reset();
    struct tt_endpoints *endpoints = endpoint_create(&options);
    assert_string_equal(fake.trace, expected);
    assert_int_equal(tt_endpoints_made(endpoints)->effective, category);
    endpoint_destroy(endpoints);
}

static void each_category_has_its_sequence_of_calls(void **state)
{
    (void)state;
    check_trace(TT_ENDPOINT_MPI_EVERYWHERE, "open pd cqx qp open pd cqx qp ");
    check_trace(TT_ENDPOINT_2XDYNAMIC, "open pd cqx cqx td td parent qp td td parent qp "
                                       "cqx cqx td td parent qp td td parent qp ");
    check_trace(TT_ENDPOINT_DYNAMIC, "open pd cqx td td parent qp cqx td td parent qp ");
    check_trace(TT_ENDPOINT_SHARED_DYNAMIC, "open pd cqx td parent qp cqx td parent qp ");
    check_trace(TT_ENDPOINT_STATIC, "open pd cqx qp cqx qp ");
    check_trace(TT_ENDPOINT_MPI_THREADS, "open pd cq qp ");
}

/* What there is to make queue pairs on, for two threads. */
static void without_queue_pairs_the_rest_of_the_sequence_is_made(void **state)
{
    static const char *const traces[TT_ENDPOINT_CATEGORY_COUNT] = {
        [TT_ENDPOINT_MPI_EVERYWHERE] = "open pd open pd ",
        [TT_ENDPOINT_2XDYNAMIC] = "open pd td td parent td td parent td td parent td td parent ",
        [TT_ENDPOINT_DYNAMIC] = "open pd td td parent td td parent ",
        [TT_ENDPOINT_SHARED_DYNAMIC] = "open pd td parent td parent ",
        [TT_ENDPOINT_STATIC] = "open pd ",
        [TT_ENDPOINT_MPI_THREADS] = "open pd ",
    };

    (void)state;
    for (unsigned i = 0; i < TT_ENDPOINT_CATEGORY_COUNT; i++) {
        struct tt_endpoint_options options = endpoint_options((enum tt_endpoint_category)i, 2, 0);
        const struct tt_endpoint_recipe *recipe = tt_endpoint_recipe_of((enum tt_endpoint_category)i);

        fake_reset();
        options.send_depth = options.completion_depth = 0; /* are not looked at */
        struct tt_endpoints *endpoints = endpoint_create(&options);
        const struct tt_endpoint_lane *first = tt_endpoints_lane(endpoints, 0, 0);
        const struct tt_endpoint_lane *second = tt_endpoints_lane(endpoints, 1, 0);
        assert_string_equal(fake.trace, traces[i]);
        assert_null(first->qp);
        assert_null(first->cq);
        assert_int_equal(first == second, recipe->one_for_all);
        assert_int_equal(first->context != second->context, recipe->context_per_thread);
        assert_int_equal(first->domain != first->pd, recipe->domains != TT_ENDPOINT_NO_DOMAINS);
        assert_int_equal(first->domain != second->domain,
                         recipe->domains != TT_ENDPOINT_NO_DOMAINS || recipe->context_per_thread);
        assert_int_equal(tt_endpoints_made(endpoints)->queue_pairs, 0);
        endpoint_destroy(endpoints);
    }
}

static void a_buffer_is_registered_once_a_context(void **state)
{
    struct tt_endpoint_options options = endpoint_options(TT_ENDPOINT_MPI_EVERYWHERE, 2, 1);

    (void)state;
    fake_reset();
    options.buffer = endpoint_buffer;
    options.buffer_bytes = sizeof(endpoint_buffer);
    struct tt_endpoints *endpoints = endpoint_create(&options);
    assert_string_equal(fake.trace, "open pd mr cqx qp open pd mr cqx qp ");
    assert_int_equal(tt_endpoints_made(endpoints)->memory_regions, 2);
    assert_non_null(tt_endpoints_lane(endpoints, 1, 0)->mr);
    endpoint_destroy(endpoints);
}

static void check_made(const struct tt_endpoint_made *made, enum tt_endpoint_category category, uint32_t threads,
                       uint32_t queue_pairs)
{
    struct tt_endpoint_plan plan = plan_of(category, threads, queue_pairs);

    assert_int_equal(made->effective, category);
    assert_int_equal(made->contexts, plan.contexts);
    assert_int_equal(made->protection_domains, plan.protection_domains);
    assert_int_equal(made->memory_regions, 0);
    assert_int_equal(made->queue_pairs, plan.queue_pairs);
    assert_int_equal(made->completion_queues, plan.completion_queues);
    assert_int_equal(made->thread_domains, plan.thread_domains);
    assert_int_equal(made->idle_domains, plan.idle_domains);
    assert_int_equal(made->parent_domains, plan.thread_domains);
    assert_int_equal(made->doorbell_pages, pages_of(category, threads, queue_pairs));
}

/* An idle queue pair does not fill up the completion queue of one that is used. */
static void check_completion_queues(uint32_t queue_pairs)
{
    for (uint32_t i = 0; i < fake.living; i++) {
        bool is_queue = fake.stack[i]->kind == FAKE_CQ || fake.stack[i]->kind == FAKE_CQ_EX;
        uint32_t served = 0;

        for (uint32_t k = i; is_queue && k < fake.living; k++) {
            served += fake.stack[k]->cq == fake.stack[i];
        }
        assert_int_equal(served, is_queue ? queue_pairs : 0);
    }
}

static void what_is_made_is_what_was_planned_pages_included(void **state)
{
    (void)state;
    for (unsigned category = 0; category < TT_ENDPOINT_CATEGORY_COUNT; category++) {
        for (uint32_t threads = 1; threads <= 20; threads++) {
            for (uint32_t queue_pairs = 1; queue_pairs <= 3; queue_pairs++) {
                struct tt_endpoint_options options =
                    endpoint_options((enum tt_endpoint_category)category, threads, queue_pairs);

                fake_reset();
                fake.has_doorbells = true;
                struct tt_endpoints *endpoints = endpoint_create(&options);
                check_made(tt_endpoints_made(endpoints), options.category, threads, queue_pairs);
                check_completion_queues(queue_pairs);
                endpoint_destroy(endpoints);
            }
        }
    }
}

static void pages_are_not_known_where_the_provider_cannot_tell(void **state)
{
    struct tt_endpoint_options options = endpoint_options(TT_ENDPOINT_STATIC, 4, 1);

    (void)state;
    fake_reset();
    struct tt_endpoints *endpoints = endpoint_create(&options);
    assert_int_equal(tt_endpoints_made(endpoints)->doorbell_pages, 0);
    assert_false(tt_endpoints_lane(endpoints, 0, 0)->doorbell.known);
    endpoint_destroy(endpoints);
}

static void queues_are_made_as_asked(void **state)
{
    struct tt_endpoint_options options = endpoint_options(TT_ENDPOINT_SHARED_DYNAMIC, 1, 1);

    (void)state;
    fake_reset();
    options.queue_pair_type = IBV_QPT_UD;
    struct tt_endpoints *endpoints = endpoint_create(&options);
    assert_int_equal(fake.queue_pair.qp_type, IBV_QPT_UD);
    assert_int_equal(fake.queue_pair.cap.max_send_wr, 128);
    assert_int_equal(fake.queue_pair.cap.max_recv_wr, 16);
    assert_int_equal(fake.queue_pair.cap.max_inline_data, 60);
    assert_int_equal(fake.queue_pair.sq_sig_all, 0);
    assert_int_equal(fake.completion_queue.cqe, 300);
    assert_int_equal(fake.completion_queue.flags, IBV_CREATE_CQ_ATTR_SINGLE_THREADED);
    assert_int_equal(fake.completion_queue.comp_mask, IBV_CQ_INIT_ATTR_MASK_FLAGS);
    assert_true(tt_endpoints_made(endpoints)->lock_free_queues);
    const struct fake_object *qp = (const struct fake_object *)(void *)tt_endpoints_lane(endpoints, 0, 0)->qp;
    assert_int_equal(qp->parent->kind, FAKE_PARENT);
    endpoint_destroy(endpoints);
}

static void what_all_threads_poll_keeps_its_lock(void **state)
{
    struct tt_endpoint_options options = endpoint_options(TT_ENDPOINT_MPI_THREADS, 4, 2);

    (void)state;
    fake_reset();
    struct tt_endpoints *endpoints = endpoint_create(&options);
    assert_int_equal(fake.made[FAKE_CQ_EX], 0);
    assert_int_equal(fake.completion_queue.cqe, 300);
    assert_false(tt_endpoints_made(endpoints)->lock_free_queues);
    endpoint_destroy(endpoints);
}

static void a_thread_finds_its_own_queue_pairs(void **state)
{
    (void)state;
    for (unsigned category = 0; category < TT_ENDPOINT_CATEGORY_COUNT; category++) {
        struct tt_endpoint_options options = endpoint_options((enum tt_endpoint_category)category, 3, 2);
        const struct ibv_qp *seen[6];

        fake_reset();
        struct tt_endpoints *endpoints = endpoint_create(&options);
        for (uint32_t i = 0; i < 6; i++) {
            const struct tt_endpoint_lane *lane = tt_endpoints_lane(endpoints, i / 2, i % 2);
            const struct fake_object *qp = (const struct fake_object *)(void *)lane->qp;

            seen[i] = lane->qp;
            assert_ptr_equal(qp->cq, lane->cq);
            assert_ptr_equal(qp->context, lane->context);
            assert_ptr_equal(lane->cq, tt_endpoints_lane(endpoints, i / 2, 0)->cq);
            assert_ptr_equal(qp->parent->kind == FAKE_PARENT ? qp->parent->parent : qp->parent, lane->pd);
            for (uint32_t k = 0; k < i; k++) {
                bool same = category == TT_ENDPOINT_MPI_THREADS && i % 2 == k % 2;

                assert_int_equal(seen[i] == seen[k], same);
            }
        }
        endpoint_destroy(endpoints);
    }
}

static void threads_of_whole_pages_ring_at_different_pages(void **state)
{
    struct tt_endpoint_options options = endpoint_options(TT_ENDPOINT_2XDYNAMIC, 8, 1);

    (void)state;
    fake_reset();
    fake.has_doorbells = true;
    struct tt_endpoints *endpoints = endpoint_create(&options);
    for (uint32_t i = 0; i < 8; i++) {
        assert_true(tt_endpoints_lane(endpoints, i, 0)->doorbell.known);
        for (uint32_t k = 0; k < i; k++) {
            /* Not even side by side: the idle one's page is between. */
            assert_true(tt_endpoints_lane(endpoints, i, 0)->doorbell.page >=
                        tt_endpoints_lane(endpoints, k, 0)->doorbell.page + UINT64_C(2) * 4096);
        }
    }
    endpoint_destroy(endpoints);
}

static void without_thread_domains_the_dynamic_ones_become_static(void **state)
{
    static const enum fake_kind lacking[] = {FAKE_TD, FAKE_PARENT};
    static const int errors[] = {EOPNOTSUPP, ENOSYS, EPROTONOSUPPORT};

    (void)state;
    for (unsigned category = 0; category < TT_ENDPOINT_CATEGORY_COUNT; category++) {
        for (unsigned i = 0; i < 6; i++) {
            struct tt_endpoint_options options = endpoint_options((enum tt_endpoint_category)category, 5, 1);
            bool dynamic = category >= TT_ENDPOINT_2XDYNAMIC && category <= TT_ENDPOINT_SHARED_DYNAMIC;

            fake_reset();
            fake.has_doorbells = true;
            fake.errors[lacking[i % 2]] = errors[i / 2];
            struct tt_endpoints *endpoints = endpoint_create(&options);
            check_made(tt_endpoints_made(endpoints), dynamic ? TT_ENDPOINT_STATIC : options.category, 5, 1);
            for (uint32_t thread = 1; dynamic && thread < 5; thread++) {
                assert_ptr_not_equal(tt_endpoints_lane(endpoints, thread, 0)->qp,
                                     tt_endpoints_lane(endpoints, thread - 1, 0)->qp);
            }
            endpoint_destroy(endpoints);
        }
    }
}

static void without_extended_completion_queues_ordinary_ones_serve(void **state)
{
    struct tt_endpoint_options options = endpoint_options(TT_ENDPOINT_STATIC, 3, 1);

    (void)state;
    fake_reset();
    fake.errors[FAKE_CQ_EX] = EOPNOTSUPP;
    struct tt_endpoints *endpoints = endpoint_create(&options);
    assert_string_equal(fake.trace, "open pd cq qp cq qp cq qp ");
    assert_false(tt_endpoints_made(endpoints)->lock_free_queues);
    assert_int_equal(tt_endpoints_made(endpoints)->effective, TT_ENDPOINT_STATIC);
    endpoint_destroy(endpoints);
    fake_reset();
    fake.errors[FAKE_CQ_EX] = ENOMEM;
    assert_int_equal(endpoint_create_badly(&options), TUTTI_ERR_NO_RESOURCE);
    assert_string_equal(tt_last_error(), "fake0: completion queue 1 of 3 (static, 3 threads): Cannot allocate memory");
}

static void the_real_table_has_every_call(void **state)
{
    const struct tt_endpoint_calls *calls = tt_endpoint_libibverbs();
    void *const *entries = (void *const *)(const void *)calls;

    (void)state;
    for (size_t i = 0; i < sizeof(*calls) / sizeof(*entries); i++) {
        assert_non_null(entries[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_category_has_its_sequence_of_calls),
        cmocka_unit_test(without_queue_pairs_the_rest_of_the_sequence_is_made),
        cmocka_unit_test(a_buffer_is_registered_once_a_context),
        cmocka_unit_test(what_is_made_is_what_was_planned_pages_included),
        cmocka_unit_test(pages_are_not_known_where_the_provider_cannot_tell),
        cmocka_unit_test(queues_are_made_as_asked),
        cmocka_unit_test(what_all_threads_poll_keeps_its_lock),
        cmocka_unit_test(a_thread_finds_its_own_queue_pairs),
        cmocka_unit_test(threads_of_whole_pages_ring_at_different_pages),
        cmocka_unit_test(without_thread_domains_the_dynamic_ones_become_static),
        cmocka_unit_test(without_extended_completion_queues_ordinary_ones_serve),
        cmocka_unit_test(the_real_table_has_every_call),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
