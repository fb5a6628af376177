/* SPDX-License-Identifier: BSD-3-Clause */
/* The public functions of endpoints, as far as they go without a device; with one: tests/guest/endpoint_categories.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/settings.h"
#include "endpoint/category.h"
#include "tutti/endpoint.h"
#include "tutti/tutti.h"

static tutti_endpoint_resources plan(tutti_endpoint_category category, uint32_t threads, uint32_t queue_pairs)
{
    tutti_endpoint_resources resources = {.struct_size = sizeof resources, .doorbell_pages = 1};

    assert_int_equal(tutti_endpoints_plan(category, threads, queue_pairs, &resources), TUTTI_OK);
    assert_int_equal(resources.category, category);
    assert_int_equal(resources.struct_size, sizeof resources);
    assert_int_equal(resources.doorbell_pages, 0);
    assert_int_equal(resources.uuars_wasted, resources.uuars_allocated - resources.uuars_used);
    return resources;
}

/* Table I and section VI, under the driver of today. */
static void sixteen_threads_take_what_the_paper_says(void **state)
{
    static const struct {
        tutti_endpoint_category category;
        uint64_t contexts, queue_pairs, thread_domains, uar_pages, bytes;
    } rows[] = {
        {TUTTI_ENDPOINT_MPI_EVERYWHERE, 16, 16, 0, 32, 16 * (uint64_t)353568},
        {TUTTI_ENDPOINT_2XDYNAMIC, 1, 32, 64, 33, 262144 + 288 + 32 * (uint64_t)91136},
        {TUTTI_ENDPOINT_DYNAMIC, 1, 16, 32, 17, 262144 + 288 + 16 * (uint64_t)91136},
        {TUTTI_ENDPOINT_SHARED_DYNAMIC, 1, 16, 16, 9, 262144 + 288 + 16 * (uint64_t)91136},
        {TUTTI_ENDPOINT_STATIC, 1, 16, 0, 9, 262144 + 288 + 16 * (uint64_t)91136},
        {TUTTI_ENDPOINT_MPI_THREADS, 1, 1, 0, 2, 353568},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        tutti_endpoint_resources resources = plan(rows[i].category, 16, 1);

        assert_int_equal(resources.contexts, rows[i].contexts);
        assert_int_equal(resources.protection_domains, rows[i].contexts);
        assert_int_equal(resources.queue_pairs, rows[i].queue_pairs);
        assert_int_equal(resources.completion_queues, rows[i].queue_pairs);
        assert_int_equal(resources.uar_pages, rows[i].uar_pages);
        assert_int_equal(resources.uuars_allocated, 2 * rows[i].uar_pages);
        assert_int_equal(resources.bytes, rows[i].bytes);
        assert_int_equal(resources.thread_domains, rows[i].thread_domains);
    }
}

static void refused(tutti_status status, const char *text)
{
    assert_int_equal(status, TUTTI_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(tutti_last_error(), text));
}

static void what_cannot_be_is_told_with_its_value(void **state)
{
    tutti_endpoint_resources resources = {.struct_size = sizeof resources, .bytes = 7}, small = {.struct_size = 8};
    tutti_endpoint_options options = {.struct_size = sizeof options, .category = TUTTI_ENDPOINT_STATIC, .threads = 2};
    tutti_endpoint_lane lane = {.struct_size = sizeof lane};
    tutti_endpoints *endpoints = NULL;

    (void)state;
    refused(tutti_endpoints_plan((tutti_endpoint_category)6, 1, 1, &resources), "6 is no category");
    refused(tutti_endpoints_plan(TUTTI_ENDPOINT_STATIC, 0, 1, &resources), "endpoints for 0 threads");
    refused(tutti_endpoints_plan(TUTTI_ENDPOINT_STATIC, 4097, 1, &resources), "endpoints for 4097 threads");
    refused(tutti_endpoints_plan(TUTTI_ENDPOINT_STATIC, 1, 65, &resources), "65 queue pairs a thread");
    refused(tutti_endpoints_plan(TUTTI_ENDPOINT_STATIC, 1, 1, NULL), "resources is NULL");
    refused(tutti_endpoints_plan(TUTTI_ENDPOINT_STATIC, 1, 1, &small), "is 8, not");
    refused(tutti_endpoints_create(NULL, &endpoints), "options is NULL");
    refused(tutti_endpoints_create(&options, NULL), "endpoints is NULL");
    refused(tutti_endpoints_create(&options, &endpoints), "0 queue pairs a thread");
    refused(tutti_endpoints_query(NULL, &resources), "endpoints is NULL");
    refused(tutti_endpoints_lane(NULL, 0, 0, &lane), "endpoints is NULL");
    assert_int_equal(resources.bytes, 7);
    assert_null(endpoints);
}

static void device_that_there_is_not_is_named(void **state)
{
    tutti_endpoint_options options = {.struct_size = sizeof options,
                                      .device = "nowhere0",
                                      .category = TUTTI_ENDPOINT_DYNAMIC,
                                      .threads = 4,
                                      .queue_pairs_per_thread = 1,
                                      .queue_pair_type = 2,
                                      .send_depth = 16,
                                      .completion_depth = 16};
    tutti_endpoints *endpoints = NULL;

    (void)state;
    assert_int_equal(tutti_endpoints_create(&options, &endpoints), TUTTI_ERR_NOT_SUPPORTED);
    assert_null(endpoints);
    assert_true(strstr(tutti_last_error(), "nowhere0: no such RDMA device") != NULL ||
                strstr(tutti_last_error(), "no libibverbs") != NULL ||
                strstr(tutti_last_error(), "cannot be loaded") != NULL);
    tutti_endpoints_destroy(NULL);
}

/* base cannot ask for the words of categories. */
static void setting_takes_the_words_of_the_categories_and_auto(void **state)
{
    struct tt_settings settings;

    (void)state;
    assert_int_equal(tt_settings_load(&settings), TUTTI_OK);
    assert_string_equal(settings.endpoints, "auto");
    for (unsigned i = 0; i < TT_ENDPOINT_CATEGORY_COUNT; i++) {
        const char *word = tt_endpoint_category_word((enum tt_endpoint_category)i);

        assert_int_equal(tt_settings_set(&settings, "ENDPOINTS", word), TUTTI_OK);
        assert_string_equal(settings.endpoints, word);
    }
    assert_int_equal(tt_settings_set(&settings, "ENDPOINTS", "dynamics"), TUTTI_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(tutti_last_error(), "ENDPOINTS=dynamics"));
    assert_non_null(strstr(tutti_last_error(), "or mpi+threads"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sixteen_threads_take_what_the_paper_says),
        cmocka_unit_test(what_cannot_be_is_told_with_its_value),
        cmocka_unit_test(device_that_there_is_not_is_named),
        cmocka_unit_test(setting_takes_the_words_of_the_categories_and_auto),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
