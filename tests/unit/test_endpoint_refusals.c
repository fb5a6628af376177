/* SPDX-License-Identifier: BSD-3-Clause */
/* Making endpoints where something is refused: it is said what, and everything goes away again. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "endpoint_fixture.h"

static void no_more_domains_is_a_failure_and_says_how_many_there_were(void **state)
{
    struct tt_endpoint_options options = endpoint_options(TT_ENDPOINT_SHARED_DYNAMIC, 8, 1);

    (void)state;
    fake_reset();
    fake.limits[FAKE_TD] = 5;
    assert_int_equal(endpoint_create_badly(&options), TUTTI_ERR_NO_RESOURCE);
    assert_string_equal(tt_last_error(),
                        "fake0: thread domain 6 of 8 (shared-dynamic, 8 threads): No space left on device");
    options.category = TT_ENDPOINT_DYNAMIC;
    fake_reset();
    fake.limits[FAKE_TD] = 5;
    assert_int_equal(endpoint_create_badly(&options), TUTTI_ERR_NO_RESOURCE);
    assert_string_equal(tt_last_error(),
                        "fake0: idle thread domain 3 of 8 (dynamic, 8 threads): No space left on device");
}

static void no_more_queue_pairs_is_a_failure_and_says_which(void **state)
{
    struct tt_endpoint_options options = endpoint_options(TT_ENDPOINT_MPI_EVERYWHERE, 8, 2);

    (void)state;
    fake_reset();
    fake.limits[FAKE_QP] = 11;
    assert_int_equal(endpoint_create_badly(&options), TUTTI_ERR_NO_RESOURCE);
    assert_string_equal(tt_last_error(),
                        "fake0: queue pair 12 of 16 (mpi-everywhere, 8 threads): No space left on device");
}

static void running_out_after_the_fallback_names_the_fallback(void **state)
{
    struct tt_endpoint_options options = endpoint_options(TT_ENDPOINT_2XDYNAMIC, 8, 1);

    (void)state;
    fake_reset();
    fake.errors[FAKE_TD] = EOPNOTSUPP;
    fake.limits[FAKE_QP] = 7;
    assert_int_equal(endpoint_create_badly(&options), TUTTI_ERR_NO_RESOURCE);
    assert_string_equal(tt_last_error(), "fake0: queue pair 8 of 8 (static, 8 threads): No space left on device");
}

/* Refuses the call with this number; false if there are not so many. */
static bool refuse_one(const struct tt_endpoint_options *options, uint32_t call, int error, tutti_status expected)
{
    struct tt_endpoints *untouched = (struct tt_endpoints *)(void *)endpoint_buffer, *endpoints = untouched;

    fake_reset();
    fake.refused_call = call;
    fake.refused_error = error;
    tutti_status status = tt_endpoints_create(&fake_calls, options, &endpoints);
    if (fake.call_count < call) {
        assert_int_equal(status, TUTTI_OK);
        endpoint_destroy(endpoints);
        return false;
    }
    if (status == TUTTI_OK) { /* of one that has a way around: the refused call is not the last */
        assert_true(fake.call_count > call);
        assert_int_equal(expected, TUTTI_ERR_NOT_SUPPORTED);
        endpoint_destroy(endpoints);
        return true;
    }
    assert_int_equal(status, expected);
    assert_ptr_equal(endpoints, untouched);
    assert_int_equal(fake.call_count, call);
    assert_int_equal(fake.living, 0);
    assert_non_null(strstr(tt_last_error(), "fake0: "));
    assert_non_null(strstr(tt_last_error(), strerror(error)));
    return true;
}

static void a_refusal_at_any_step_leaves_nothing_behind(void **state)
{
    static const struct {
        int error;
        tutti_status status;
    } refusals[] = {{ENOMEM, TUTTI_ERR_NO_RESOURCE},       {ENOSPC, TUTTI_ERR_NO_RESOURCE},
                    {EINVAL, TUTTI_ERR_INVALID_ARGUMENT},  {EIO, TUTTI_ERR_IO},
                    {EOPNOTSUPP, TUTTI_ERR_NOT_SUPPORTED}, {EACCES, TUTTI_ERR_IO}};

    (void)state;
    for (unsigned category = 0; category < TT_ENDPOINT_CATEGORY_COUNT; category++) {
        struct tt_endpoint_options options = endpoint_options((enum tt_endpoint_category)category, 3, 2);

        options.buffer = endpoint_buffer;
        options.buffer_bytes = sizeof(endpoint_buffer);
        for (unsigned i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
            uint32_t call = 1;

            while (refuse_one(&options, call, refusals[i].error, refusals[i].status)) {
                call++;
            }
            assert_true(call > 6);
        }
    }
}

static void only_domains_and_extended_queues_have_a_way_around(void **state)
{
    (void)state;
    for (unsigned category = 0; category < TT_ENDPOINT_CATEGORY_COUNT; category++) {
        struct tt_endpoint_options options = endpoint_options((enum tt_endpoint_category)category, 2, 1);

        for (unsigned kind = 0; kind < FAKE_KIND_COUNT; kind++) {
            struct tt_endpoints *endpoints = NULL;
            bool around = kind == FAKE_TD || kind == FAKE_PARENT || kind == FAKE_CQ_EX || kind == FAKE_MR ||
                          (kind == FAKE_CQ && category != TT_ENDPOINT_MPI_THREADS);

            fake_reset();
            fake.errors[kind] = EOPNOTSUPP;
            tutti_status status = tt_endpoints_create(&fake_calls, &options, &endpoints);
            assert_int_equal(status, around ? TUTTI_OK : TUTTI_ERR_NOT_SUPPORTED);
            tt_endpoints_destroy(endpoints);
            assert_int_equal(fake.living, 0);
        }
    }
}

static void a_refusal_without_a_reason_is_an_input_output_error(void **state)
{
    struct tt_endpoint_options options = endpoint_options(TT_ENDPOINT_STATIC, 1, 1);

    (void)state;
    fake_reset();
    fake.errors[FAKE_OPEN] = FAKE_NO_REASON;
    errno = ENOMEM; /* what somebody left behind does not count */
    assert_int_equal(endpoint_create_badly(&options), TUTTI_ERR_IO);
    assert_non_null(strstr(tt_last_error(), "Input/output error"));
}

static void what_cannot_be_destroyed_does_not_keep_the_rest(void **state)
{
    struct tt_endpoint_options options = endpoint_options(TT_ENDPOINT_MPI_EVERYWHERE, 3, 1);

    (void)state;
    fake_reset();
    fake.busy_error = EBUSY;
    endpoint_destroy(endpoint_create(&options));
}

static void options_that_cannot_be_are_refused_with_their_value(void **state)
{
    struct tt_endpoint_options good = endpoint_options(TT_ENDPOINT_STATIC, 1, 1), bad;

    (void)state;
    fake_reset();
    bad = good;
    bad.threads = 0;
    assert_int_equal(endpoint_create_badly(&bad), TUTTI_ERR_INVALID_ARGUMENT);
    assert_string_equal(tt_last_error(), "endpoints: 0 threads: must be from 1 to 4096");
    bad.threads = 4097;
    assert_int_equal(endpoint_create_badly(&bad), TUTTI_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(tt_last_error(), "4097 threads"));
    bad = good;
    bad.queue_pairs_per_thread = 65;
    assert_int_equal(endpoint_create_badly(&bad), TUTTI_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(tt_last_error(), "65 queue pairs a thread"));
    bad = good;
    bad.send_depth = 0;
    assert_int_equal(endpoint_create_badly(&bad), TUTTI_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(tt_last_error(), "0 work requests to send"));
    bad = good;
    bad.completion_depth = UINT32_MAX;
    assert_int_equal(endpoint_create_badly(&bad), TUTTI_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(tt_last_error(), "4294967295 completions"));
    bad = good;
    bad.buffer = endpoint_buffer;
    assert_int_equal(endpoint_create_badly(&bad), TUTTI_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(tt_last_error(), "0 bytes of a buffer"));
    assert_int_equal(fake.call_count, 0);
    tt_endpoints_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_more_domains_is_a_failure_and_says_how_many_there_were),
        cmocka_unit_test(no_more_queue_pairs_is_a_failure_and_says_which),
        cmocka_unit_test(running_out_after_the_fallback_names_the_fallback),
        cmocka_unit_test(a_refusal_at_any_step_leaves_nothing_behind),
        cmocka_unit_test(only_domains_and_extended_queues_have_a_way_around),
        cmocka_unit_test(a_refusal_without_a_reason_is_an_input_output_error),
        cmocka_unit_test(what_cannot_be_destroyed_does_not_keep_the_rest),
        cmocka_unit_test(options_that_cannot_be_are_refused_with_their_value),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
