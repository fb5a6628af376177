/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The loop of `tutti bench`, run against a library that is played by fake_library.c. What is to be shown: that nothing
 * wrong goes unseen, that only what belongs to the timed part is counted, and that everything is given back.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "cli/bench_rank.h"
#include "cli/command.h"
#include "fake_library.h"

enum { OUTPUT_BYTES = 65536 };

static struct tt_bench_arguments arguments;
static struct tt_settings settings;
static char output[OUTPUT_BYTES];
static char errors[OUTPUT_BYTES];

static int prepare(void **state)
{
    char message[256];
    (void)state;
    memset(&fake, 0, sizeof(fake));
    fake.was_poisoned = true;
    fake.skip_in_round = fake.overrun_in_round = fake.fail_in_round = NO_ROUND;
    fake.failed_rank = -1;
    arguments = (struct tt_bench_arguments){
        .job = {.collective = TT_BENCH_ALLGATHER, .rank_count = RANKS, .type = TT_TYPE_FP32},
        .is_rank = true,
        .min_bytes = 1000,
        .max_bytes = 4000,
        .factor = 2,
        .iterations = 3,
        .warmup = 2,
        .timeout_ns = TT_AUTO,
        .json = true};
    settings.rank = 0;
    return tt_log_configure("none", NULL, message, sizeof(message)) == TUTTI_OK ? 0 : 1;
}

/* The real streams while they are caught, by descriptor. */
static int saved_streams[3] = {-1, -1, -1};

static void catch_stream(int fd, FILE *file)
{
    assert_non_null(file);
    saved_streams[fd] = dup(fd);
    assert_true(saved_streams[fd] >= 0 && dup2(fileno(file), fd) >= 0);
}

static void give_back(int fd)
{
    if (saved_streams[fd] >= 0) {
        dup2(saved_streams[fd], fd);
        close(saved_streams[fd]);
        saved_streams[fd] = -1;
    }
}

/* After an assertion in the middle of a run: lets cmocka say so. */
static int give_back_streams(void **state)
{
    (void)state;
    fflush(NULL);
    give_back(STDOUT_FILENO);
    give_back(STDERR_FILENO);
    return 0;
}

static void read_back(FILE *file, int fd, char *text)
{
    give_back(fd);
    rewind(file);
    text[fread(text, 1, OUTPUT_BYTES - 1, file)] = '\0';
    fclose(file);
}

/* Runs the loop with both streams caught, and checks what holds always. */
static int run_loop(void)
{
    FILE *output_file = tmpfile();
    FILE *error_file = tmpfile();
    fflush(NULL);
    catch_stream(STDOUT_FILENO, output_file);
    catch_stream(STDERR_FILENO, error_file);
    int status = tt_bench_rank(&arguments, &settings);
    fflush(NULL);
    read_back(error_file, STDERR_FILENO, errors);
    read_back(output_file, STDOUT_FILENO, output);
    assert_int_equal(fake.live, 0);
    assert_true(fake.was_poisoned);
    return status;
}

static int count_lines(const char *text)
{
    int lines = 0;
    for (; *text != '\0'; text++) {
        lines += *text == '\n' ? 1 : 0;
    }
    return lines;
}

static void contains(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) {
        fail_msg("`%s` does not contain `%s`", text, part);
    }
}

/* The number behind these words in the output. */
static double figure_after(const char *words)
{
    contains(output, words);
    return strtod(strstr(output, words) + strlen(words), NULL);
}

static void each_size_has_one_request_and_one_line(void **state)
{
    (void)state;
    assert_int_equal(run_loop(), TT_EXIT_OK);
    assert_string_equal(errors, "");
    assert_int_equal(count_lines(output), 3);
    contains(output, "\"size_bytes\": 1000,");
    contains(output, "\"size_bytes\": 2000,");
    contains(output, "\"size_bytes\": 4000,");
    assert_int_equal(fake.measured_inits, 3);
    assert_int_equal(fake.round, 3 * (2 + 3));
    assert_int_equal(fake.gathers, 3);
}

static void only_timed_iterations_without_barriers_are_counted(void **state)
{
    (void)state;
    arguments.max_bytes = 2000;
    assert_int_equal(run_loop(), TT_EXIT_OK);
    /* 4 ranks, 3 timed iterations of 1010 bytes and 2 repaired chunks each; the second size starts from nothing. */
    contains(output, "\"wire_sent_bytes\": 12120,");
    contains(strchr(output, '\n'), "\"wire_sent_bytes\": 12120,");
    contains(output, "\"chunks_repaired\": 24,");
    contains(output, "\"wrong\": 0,");
}

static void every_iteration_is_shown_those_to_warm_up_too(void **state)
{
    (void)state;
    arguments.max_bytes = 2000;
    fake.loses_less = true;
    assert_int_equal(run_loop(), TT_EXIT_OK);
    /* 10 to 6 chunks at each of the four ranks, then 5 to 1; three of five iterations are timed. */
    contains(output, "\"chunks_repaired\": 84,");
    contains(output, "\"chunks_expected\": 28, \"first_repaired\": 40, \"last_repaired\": 24, \"iteration_us\": [");
    contains(output, "\"iteration_repaired\": [40, 36, 32, 28, 24],");
    contains(strchr(output, '\n'), "\"iteration_repaired\": [20, 16, 12, 8, 4],");
}

static void slowest_rank_of_the_first_iteration_is_shown_and_counted_only_if_timed(void **state)
{
    (void)state;
    arguments.max_bytes = arguments.min_bytes;
    fake.late_at_first = true;
    assert_int_equal(run_loop(), TT_EXIT_OK);
    assert_true(figure_after("\"first_us\": ") >= LATE_US);
    assert_true(figure_after("\"iteration_us\": [") >= LATE_US);
    assert_true(figure_after("\"max\": ") < LATE_US);
    arguments.warmup = 0;
    fake.round = 0;
    assert_int_equal(run_loop(), TT_EXIT_OK);
    assert_true(figure_after("\"first_us\": ") >= LATE_US);
    assert_true(figure_after("\"max\": ") == figure_after("\"first_us\": "));
}

static void one_wrong_byte_in_one_round_fails_the_run_and_is_described(void **state)
{
    (void)state;
    fake.skip_in_round = 2 + 3 + 4; /* the last timed one of the second size */
    assert_int_equal(run_loop(), TT_EXIT_FAILED);
    assert_int_equal(count_lines(output), 3); /* the other sizes are measured all the same */
    contains(output, "\"wrong\": 4,");        /* one at each of the four ranks */
    contains(errors, "tutti bench: rank 0: size 2000, iteration 4: 1 wrong bytes, first byte 1999 of rank 0's block");
    assert_int_equal(count_lines(errors), 1);
}

static void wrong_byte_while_warming_up_counts_too(void **state)
{
    (void)state;
    fake.skip_in_round = 0;
    assert_int_equal(run_loop(), TT_EXIT_FAILED);
    contains(output, "\"wrong\": 4,");
}

static void long_buffers_are_compared_when_all_ranks_are_through(void **state)
{
    (void)state;
    arguments.max_bytes = arguments.min_bytes = 262144; /* of four ranks */
    fake.skip_in_round = 4;                             /* the last one */
    fake.mends = true;
    assert_int_equal(run_loop(), TT_EXIT_OK);
    arguments.max_bytes = arguments.min_bytes = 262143;
    fake.round = 0;
    assert_int_equal(run_loop(), TT_EXIT_FAILED); /* shorter ones at once */
    contains(output, "\"wrong\": 4,");
}

static void byte_behind_the_receive_buffer_fails_the_run(void **state)
{
    (void)state;
    fake.overrun_in_round = 3;
    assert_int_equal(run_loop(), TT_EXIT_FAILED);
    contains(errors, "outside of a buffer");
}

static void dead_peer_is_named_and_ends_the_run(void **state)
{
    (void)state;
    fake.fail_in_round = 7;
    assert_int_equal(run_loop(), TT_EXIT_FAILED);
    assert_int_equal(count_lines(output), 1); /* what was measured before */
    contains(errors, "tutti bench: rank 0: a peer failed: rank 3");
    contains(errors, "connection reset");
    assert_int_equal(count_lines(errors), 1);
    assert_int_equal(fake.round, 8);
}

static void group_that_does_not_come_about_is_reported(void **state)
{
    (void)state;
    fake.group_status = TUTTI_ERR_TIMED_OUT;
    assert_int_equal(run_loop(), TT_EXIT_FAILED);
    assert_string_equal(output, "");
    contains(errors, "tutti bench: rank 0: timed out");
    contains(errors, "rank 2 never came");
}

static void broadcast_is_checked_at_the_root_and_elsewhere(void **state)
{
    (void)state;
    for (fake.rank = 0; fake.rank < RANKS; fake.rank++) {
        arguments.job.collective = TT_BENCH_BROADCAST;
        arguments.job.root = 2;
        settings.rank = fake.rank;
        fake.round = 0;
        fake.skip_in_round = NO_ROUND;
        assert_int_equal(run_loop(), TT_EXIT_OK);
        assert_int_equal(count_lines(output), fake.rank == 0 ? 3 : 0);
        fake.round = 0;
        fake.skip_in_round = 1;
        assert_int_equal(run_loop(), TT_EXIT_FAILED);
    }
}

static void reduction_is_asked_for_as_it_was_wished_and_checked_by_element(void **state)
{
    (void)state;
    arguments.job = (struct tt_bench_job){
        .collective = TT_BENCH_ALLREDUCE, .rank_count = RANKS, .type = TT_TYPE_INT32, .operation = TT_REDUCE_SUM};
    arguments.min_bytes = arguments.max_bytes = 4099;
    assert_int_equal(run_loop(), TT_EXIT_OK);
    contains(output, "\"collective\": \"allreduce\",");
    contains(output, "\"type\": \"int32\", \"operation\": \"sum\", \"size_bytes\": 4096,");
    contains(output, "\"in_place\": false,");
    assert_int_equal(asked.count, 1024);
    assert_int_equal(asked.type, TUTTI_INT32);
    assert_int_equal(asked.operation, TUTTI_SUM);
    assert_null(asked.options.function);
    assert_null(asked.options.factor);
    fake.round = 0;
    fake.skip_in_round = 2;
    assert_int_equal(run_loop(), TT_EXIT_FAILED);
    contains(errors, "size 4096, iteration 2: 4 wrong bytes, the result's element 1023: 0x");
    contains(output, "\"wrong\": 16,");
}

static void reduce_in_place_sends_from_the_result_at_its_root_alone(void **state)
{
    (void)state;
    arguments.job = (struct tt_bench_job){.collective = TT_BENCH_REDUCE,
                                          .rank_count = RANKS,
                                          .root = 2,
                                          .in_place = true,
                                          .type = TT_TYPE_INT32,
                                          .operation = TT_REDUCE_SUM};
    fake.rank = settings.rank = 2;
    assert_int_equal(run_loop(), TT_EXIT_OK);
    assert_ptr_equal(asked.send, TUTTI_IN_PLACE);
    assert_non_null(asked.receive);
    assert_int_equal(asked.root, 2);
}

static void barrier_is_measured_once_and_has_no_bandwidth(void **state)
{
    (void)state;
    arguments.job = (struct tt_bench_job){.collective = TT_BENCH_BARRIER, .rank_count = RANKS};
    arguments.min_bytes = arguments.max_bytes = 0;
    assert_int_equal(run_loop(), TT_EXIT_OK);
    assert_int_equal(fake.measured_inits, 1);
    assert_int_equal(count_lines(output), 1);
    contains(output, "\"collective\": \"barrier\",");
    contains(output, "\"algbw_GBps\": 0, \"busbw_GBps\": 0,");
    arguments.json = false;
    fake.round = 0;
    assert_int_equal(run_loop(), TT_EXIT_OK);
    contains(output, "  -     3  ring");
    assert_null(strstr(output, "wrong bytes"));
}

static void sizes_from_zero_on_work(void **state)
{
    (void)state;
    arguments.min_bytes = 0;
    arguments.max_bytes = 2;
    assert_int_equal(run_loop(), TT_EXIT_OK);
    assert_int_equal(count_lines(output), 3);
    contains(output, "\"size_bytes\": 0,");
}

/* Without a timeout it is the library's default, and with 2 s from `least_ns` to 4 s. */
static void check_longer(const uint64_t *timeout_ns, uint64_t min_bytes, uint64_t least_ns)
{
    arguments.min_bytes = min_bytes;
    arguments.max_bytes = 20000000;
    arguments.iterations = 1;
    arguments.warmup = 0;
    assert_int_equal(run_loop(), TT_EXIT_OK);
    assert_int_equal(*timeout_ns, 0);
    fake.round = 0;
    arguments.timeout_ns = 2000000000;
    assert_int_equal(run_loop(), TT_EXIT_OK);
    assert_in_range(*timeout_ns, least_ns, 4000000000);
}

static void barrier_has_more_time_than_a_short_timeout(void **state)
{
    (void)state;
    check_longer(&fake.barrier_timeout_ns, 20000000, 2500000000);
}

/* The others may still compare, and one request is for all sizes. */
static void gathering_has_more_time_than_a_short_timeout(void **state)
{
    (void)state;
    check_longer(&fake.gather_timeout_ns, 10000000, 2900000000);
}

static void table_has_a_heading_a_row_a_size_and_a_verdict(void **state)
{
    (void)state;
    arguments.json = false;
    assert_int_equal(run_loop(), TT_EXIT_OK);
    contains(output, "# tutti ");
    contains(output, "# wrong bytes: 0 ");
    contains(output, "multicast");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, prepare, give_back_streams)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(each_size_has_one_request_and_one_line),
        CASE(only_timed_iterations_without_barriers_are_counted),
        CASE(every_iteration_is_shown_those_to_warm_up_too),
        CASE(slowest_rank_of_the_first_iteration_is_shown_and_counted_only_if_timed),
        CASE(one_wrong_byte_in_one_round_fails_the_run_and_is_described),
        CASE(wrong_byte_while_warming_up_counts_too),
        CASE(long_buffers_are_compared_when_all_ranks_are_through),
        CASE(byte_behind_the_receive_buffer_fails_the_run),
        CASE(dead_peer_is_named_and_ends_the_run),
        CASE(group_that_does_not_come_about_is_reported),
        CASE(broadcast_is_checked_at_the_root_and_elsewhere),
        CASE(reduction_is_asked_for_as_it_was_wished_and_checked_by_element),
        CASE(reduce_in_place_sends_from_the_result_at_its_root_alone),
        CASE(barrier_is_measured_once_and_has_no_bandwidth),
        CASE(sizes_from_zero_on_work),
        CASE(barrier_has_more_time_than_a_short_timeout),
        CASE(gathering_has_more_time_than_a_short_timeout),
        CASE(table_has_a_heading_a_row_a_size_and_a_verdict),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
