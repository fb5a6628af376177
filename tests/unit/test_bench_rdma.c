/* SPDX-License-Identifier: BSD-3-Clause */
/* The benchmarks of endpoints over a provider in memory: what they count and print, and that they notice wrong data. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "cli/bench_kernels.h"
#include "cli/bench_msgrate.h"
#include "fake_verbs.h"

static char *text; /* what was printed last */

static int forget(void **state)
{
    (void)state;
    free(text);
    text = NULL;
    return 0;
}

static tutti_status run(const struct tt_rdma_bench *bench, void *own, uint32_t threads, bool json)
{
    struct tt_rdma_wish wish = {.bench = bench,
                                .calls = &fake_calls,
                                .device = "fake0",
                                .port = 1,
                                .threads = threads,
                                .last = (enum tt_endpoint_category)(TT_ENDPOINT_CATEGORY_COUNT - 1),
                                .driver = TT_ENDPOINT_LEGACY,
                                .json = json};
    size_t length = 0;

    forget(NULL);
    wish.stream = open_memstream(&text, &length);
    assert_non_null(wish.stream);
    tutti_status status = bench->run(own, &wish);
    assert_int_equal(fclose(wish.stream), 0);
    assert_int_equal(fake.living, 0);
    assert_int_equal(fake.breaches, 0);
    return status;
}

/* How often this is in what was printed. */
static unsigned count_of(const char *words)
{
    unsigned count = 0;

    for (const char *found = text; (found = strstr(found, words)) != NULL; found++) {
        count++;
    }
    return count;
}

/* The number behind a member's name, in the row with this number. */
static double number_of(unsigned row, const char *name)
{
    char words[64];
    const char *line = text;

    for (; row > 0; row--) {
        line = strchr(line, '\n') + 1;
    }
    snprintf(words, sizeof(words), "\"%s\": ", name);
    const char *found = strstr(line, words);
    assert_non_null(found);
    return strtod(found + strlen(words), NULL);
}

static void the_rate_of_messages_stands_beside_what_it_takes(void **state)
{
    static const double uuars[] = {64, 32, 24, 20, 16, 16}; /* 16 T, 16 + 4 T, 16 + 2 T, 16 + T, 16, 16 */
    struct tt_msgrate rate = tt_msgrate_defaults();

    (void)state;
    fake_reset();
    rate.messages = 100;
    assert_int_equal(run(&tt_msgrate_bench, &rate, 4, true), TUTTI_OK);
    assert_int_equal(count_of("\n"), TT_ENDPOINT_CATEGORY_COUNT);
    assert_int_equal(count_of("\"wrong\": 0,"), TT_ENDPOINT_CATEGORY_COUNT);
    for (unsigned i = 0; i < TT_ENDPOINT_CATEGORY_COUNT; i++) {
        assert_int_equal(number_of(i, "messages"), 400);
        assert_int_equal(number_of(i, "uuars_allocated"), uuars[i]);
        assert_true(number_of(i, "messages_per_second") > 0);
    }
    assert_true(number_of(0, "rate_percent") == 100);
    assert_true(number_of(1, "uuars_percent") == 50);
    assert_int_equal(number_of(0, "bytes"), 4 * (256 * 1024 + 2 * 144 + 89 * 1024));
}

static void a_time_instead_of_a_number_of_messages_ends(void **state)
{
    struct tt_msgrate rate = tt_msgrate_defaults();

    (void)state;
    fake_reset();
    rate.share = TT_MSGRATE_SHARE_QP;
    rate.ways = 2;
    assert_int_equal(run(&tt_msgrate_bench, &rate, 2, true), TUTTI_OK);
    assert_true(number_of(0, "seconds") >= 1);
    assert_true(number_of(0, "messages") >= 256);
    assert_int_equal(count_of("\"rate_percent\": null"), 1); /* nothing was measured that it could be compared with */
}

/* Of 8 threads, 1, 2, 4 and 8 ways: contexts, protection domains, registrations, queue pairs, completion queues. */
static void each_share_takes_what_it_must(void **state)
{
    static const unsigned expected[TT_MSGRATE_SHARE_COUNT][4][5] = {
        [TT_MSGRATE_SHARE_BUF] = {{8, 8, 8, 8, 8}, {8, 8, 8, 8, 8}, {8, 8, 8, 8, 8}, {8, 8, 8, 8, 8}},
        [TT_MSGRATE_SHARE_CTX] = {{8, 8, 8, 8, 8}, {4, 4, 4, 8, 8}, {2, 2, 2, 8, 8}, {1, 1, 1, 8, 8}},
        [TT_MSGRATE_SHARE_PD] = {{1, 8, 8, 8, 8}, {1, 4, 4, 8, 8}, {1, 2, 2, 8, 8}, {1, 1, 1, 8, 8}},
        [TT_MSGRATE_SHARE_MR] = {{1, 1, 8, 8, 8}, {1, 1, 4, 8, 8}, {1, 1, 2, 8, 8}, {1, 1, 1, 8, 8}},
        [TT_MSGRATE_SHARE_CQ] = {{1, 1, 1, 8, 8}, {1, 1, 1, 8, 4}, {1, 1, 1, 8, 2}, {1, 1, 1, 8, 1}},
        [TT_MSGRATE_SHARE_QP] = {{1, 1, 1, 8, 8}, {1, 1, 1, 4, 4}, {1, 1, 1, 2, 2}, {1, 1, 1, 1, 1}},
    };
    static const char *const names[] = {"contexts", "protection_domains", "memory_regions", "queue_pairs",
                                        "completion_queues"};

    (void)state;
    for (unsigned share = TT_MSGRATE_SHARE_BUF; share < TT_MSGRATE_SHARE_COUNT; share++) {
        struct tt_msgrate rate = tt_msgrate_defaults();

        fake_reset();
        rate.share = (enum tt_msgrate_share)share;
        rate.messages = 70; /* a unit, and a part of one */
        assert_int_equal(run(&tt_msgrate_bench, &rate, 8, true), TUTTI_OK);
        assert_int_equal(count_of("\n"), 4);
        for (unsigned row = 0; row < 4; row++) {
            uint64_t bytes = 0;
            static const unsigned each[] = {256 * 1024, 144, 144, 80 * 1024, 9 * 1024};
            for (unsigned i = 0; i < 5; i++) {
                assert_int_equal(number_of(row, names[i]), expected[share][row][i]);
                bytes += (uint64_t)expected[share][row][i] * each[i];
            }
            assert_int_equal(number_of(row, "bytes"), bytes);
            assert_int_equal(number_of(row, "ways"), 1U << row);
        }
    }
}

static void a_table_has_a_line_a_category(void **state)
{
    struct tt_msgrate rate = tt_msgrate_defaults();

    (void)state;
    fake_reset();
    fake.errors[FAKE_TD] = EOPNOTSUPP;
    rate.messages = 64;
    rate.is_inline = true;
    assert_int_equal(run(&tt_msgrate_bench, &rate, 2, false), TUTTI_OK);
    assert_int_equal(count_of("\n"), 3 + TT_ENDPOINT_CATEGORY_COUNT);
    assert_int_equal(count_of("\n  2xdynamic       static "), 1);
    assert_int_equal(count_of("# fake0, 2 threads; pages and uUARs: as mlx5's legacy driver gives them\n"), 1);
    assert_int_equal(fake.queue_pair.cap.max_inline_data, 0); /* of the target, which came last */
}

static void matrices_elsewhere_are_multiplied(void **state)
{
    struct tt_globalarray array = {.order = 24, .tile = 4};

    (void)state;
    fake_reset();
    assert_int_equal(run(&tt_globalarray_bench, &array, 3, true), TUTTI_OK);
    assert_int_equal(count_of("\"wrong\": 0,"), TT_ENDPOINT_CATEGORY_COUNT);
    for (unsigned i = 0; i < TT_ENDPOINT_CATEGORY_COUNT; i++) {
        assert_int_equal(number_of(i, "messages"), 36 * 13);
        assert_int_equal(number_of(i, "memory_regions"), 9);
    }
}

static void more_threads_than_tiles_multiply_too(void **state)
{
    struct tt_globalarray array = {.order = 3, .tile = 3};

    (void)state;
    fake_reset();
    assert_int_equal(run(&tt_globalarray_bench, &array, 2, true), TUTTI_OK);
    assert_int_equal(number_of(0, "messages"), 3);
}

static void stencils_of_all_divisions_are_those_of_one_thread(void **state)
{
    struct tt_stencil stencil = {.grid = 16, .iterations = 7};
    /* The facts: 2 queue pairs and 1 completion queue a thread; pages 8 R and those of the domains. */
    static const unsigned domain_pages[] = {0, 16, 8, 4, 0, 0};

    (void)state;
    fake_reset();
    assert_int_equal(run(&tt_stencil_bench, &stencil, 4, true), TUTTI_OK);
    assert_int_equal(count_of("\"wrong\": 0,"), 3 * TT_ENDPOINT_CATEGORY_COUNT);
    for (unsigned i = 0; i < 3 * TT_ENDPOINT_CATEGORY_COUNT; i++) {
        unsigned category = i % TT_ENDPOINT_CATEGORY_COUNT, ranks = 4U >> (i / TT_ENDPOINT_CATEGORY_COUNT);
        unsigned pages = category == TT_ENDPOINT_MPI_EVERYWHERE ? 32 : 8 * ranks + domain_pages[category];
        assert_int_equal(number_of(i, "ranks"), ranks);
        assert_int_equal(number_of(i, "threads_per_rank"), 4 / ranks);
        assert_int_equal(number_of(i, "messages"), 2 * 7 * 4);
        assert_int_equal(number_of(i, "uar_pages"), pages);
        assert_int_equal(number_of(i, "queue_pairs"), 2 * number_of(i, "completion_queues"));
    }
}

static void wrong_data_is_an_error(void **state)
{
    struct tt_globalarray array = {.order = 8, .tile = 4};
    struct tt_stencil stencil = {.grid = 8, .iterations = 3, .ranks = 2};
    struct tt_msgrate rate = tt_msgrate_defaults();

    (void)state;
    rate.messages = 64;
    rate.unsignalled = rate.postlist = 1;
    fake_reset();
    fake.altered_request = 2 * (1 + 64); /* with one thread's unit before, the last one */
    assert_int_equal(run(&tt_msgrate_bench, &rate, 2, true), TUTTI_ERR_IO);
    assert_int_equal(count_of("\"wrong\": 1,"), 1);
    assert_string_equal(tt_last_error(), "mpi-everywhere: 1 results are wrong");
    fake_reset();
    fake.altered_request = 20; /* each tile of C is made of 4 reads and written then */
    assert_int_equal(run(&tt_globalarray_bench, &array, 2, true), TUTTI_ERR_IO);
    assert_int_equal(count_of("\"wrong\": 0,"), 0);
    fake_reset();
    fake.altered_request = 5;
    assert_int_equal(run(&tt_stencil_bench, &stencil, 4, true), TUTTI_ERR_IO);
    assert_int_equal(count_of("\"wrong\": 0,"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_rate_of_messages_stands_beside_what_it_takes),
        cmocka_unit_test(a_time_instead_of_a_number_of_messages_ends),
        cmocka_unit_test(each_share_takes_what_it_must),
        cmocka_unit_test(a_table_has_a_line_a_category),
        cmocka_unit_test(matrices_elsewhere_are_multiplied),
        cmocka_unit_test(more_threads_than_tiles_multiply_too),
        cmocka_unit_test(stencils_of_all_divisions_are_those_of_one_thread),
        cmocka_unit_test(wrong_data_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, forget);
}
