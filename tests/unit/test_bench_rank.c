/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The loop of `tutti bench`, run against a library that is played by this file: it stands for all ranks of a job of
 * which the loop is rank 0, knows what was posted when, and misbehaves on request. What is to be shown: that nothing
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
#include "tutti/tutti.h"

enum { RANKS = 4, OUTPUT_BYTES = 65536, NO_ROUND = -1, LATE_US = 100000000 };

enum role { ROLE_BARRIER, ROLE_MEASURED, ROLE_GATHER };

struct tutti_context {
    int unused;
};
struct tutti_group {
    int unused;
};
struct tutti_request {
    enum role role;
    bool is_broadcast;
    const uint8_t *send;
    uint8_t *receive;
    uint64_t length_bytes;
    uint32_t root;
    uint64_t timeout_ns;
};

/* What the library was asked for, and how it is to behave. */
static struct {
    uint32_t rank;  /* of the loop: 0, or another to be no root */
    int live;       /* contexts, groups and requests that were not given back */
    enum role last; /* of the request that was made last */
    int measured_inits;
    int round; /* measured posts so far */
    int gathers;
    bool aligned;      /* a barrier since the last measured post */
    bool was_poisoned; /* every receive byte was wrong before every measured post */
    uint64_t barrier_timeout_ns;
    tutti_counters counters;
    bool loses_less;      /* with every round: 10 chunks, 9, ... */
    int skip_in_round;    /* one byte is not delivered */
    uint8_t *skipped;     /* that one, */
    bool mends;           /* which the next barrier brings */
    int overrun_in_round; /* one byte too many is written */
    int fail_in_round;    /* rank 3 dies */
    bool late_at_first;   /* rank 3 takes LATE_US longer in the first iteration of every size */
    tutti_status group_status;
    int failed_rank;
} fake;

static tutti_context the_context;
static tutti_group the_group;

const char *tutti_last_error(void)
{
    return tt_last_error();
}

tutti_status tutti_context_create(const tutti_context_options *options, tutti_context **context)
{
    assert_int_equal(options->struct_size, sizeof(*options));
    fake.live++;
    *context = &the_context;
    return TUTTI_OK;
}

tutti_status tutti_context_destroy(tutti_context *context)
{
    fake.live -= context != NULL ? 1 : 0;
    return TUTTI_OK;
}

tutti_status tutti_group_create_from_environment(tutti_context *context, tutti_group **group)
{
    assert_ptr_equal(context, &the_context);
    if (fake.group_status != TUTTI_OK) {
        return tt_error(TT_PART_API, fake.group_status, "rank 2 never came");
    }
    fake.live++;
    *group = &the_group;
    return TUTTI_OK;
}

tutti_status tutti_group_destroy(tutti_group *group)
{
    fake.live -= group != NULL ? 1 : 0;
    return TUTTI_OK;
}

uint32_t tutti_group_rank(const tutti_group *group)
{
    (void)group;
    return fake.rank;
}

uint32_t tutti_group_size(const tutti_group *group)
{
    (void)group;
    return RANKS;
}

int tutti_group_failed_rank(const tutti_group *group)
{
    (void)group;
    return fake.failed_rank;
}

tutti_status tutti_group_query(const tutti_group *group, tutti_group_info *info)
{
    (void)group;
    assert_int_equal(info->struct_size, sizeof(*info));
    info->mcast_provider = "udp";
    info->p2p_provider = "ucx";
    info->endpoints = "none";
    info->multicast = true;
    return TUTTI_OK;
}

tutti_status tutti_group_counters(const tutti_group *group, tutti_counters *counters)
{
    (void)group;
    assert_int_equal(counters->struct_size, sizeof(*counters));
    *counters = fake.counters;
    counters->struct_size = sizeof(*counters);
    return TUTTI_OK;
}

static tutti_request *new_request(const void *send, void *receive, uint64_t length_bytes, enum role role)
{
    tutti_request *request = calloc(1, sizeof(*request));
    assert_non_null(request);
    request->role = role;
    request->send = send;
    request->receive = receive;
    request->length_bytes = length_bytes;
    fake.live++;
    return request;
}

tutti_status tutti_broadcast_init(tutti_group *group, const void *send, void *receive, uint64_t length_bytes,
                                  uint32_t root, const tutti_request_options *options, tutti_request **request)
{
    assert_ptr_equal(group, &the_group);
    assert_int_equal(options->algorithm, TUTTI_ALGORITHM_AUTO); /* nobody asked for one */
    fake.measured_inits++;
    *request = new_request(send, receive, length_bytes, ROLE_MEASURED);
    fake.last = ROLE_MEASURED;
    (*request)->is_broadcast = true;
    (*request)->root = root;
    return TUTTI_OK;
}

/* The loop's order of inits tells the requests apart: first the gather, then for every size the barrier and its own. */
tutti_status tutti_allgather_init(tutti_group *group, const void *send, void *receive, uint64_t length_bytes,
                                  const tutti_request_options *options, tutti_request **request)
{
    enum role role = fake.live == 2 ? ROLE_GATHER : fake.last == ROLE_BARRIER ? ROLE_MEASURED : ROLE_BARRIER;
    assert_ptr_equal(group, &the_group);
    if (role == ROLE_BARRIER) {
        assert_int_equal(length_bytes, 0);
        fake.barrier_timeout_ns = options->timeout_ns;
    }
    fake.measured_inits += role == ROLE_MEASURED ? 1 : 0;
    fake.last = role;
    *request = new_request(send, receive, length_bytes, role);
    return TUTTI_OK;
}

tutti_algorithm tutti_request_algorithm(const tutti_request *request)
{
    return request->is_broadcast ? TUTTI_ALGORITHM_CHAIN : TUTTI_ALGORITHM_RING;
}

static uint32_t owner_of(const tutti_request *request, uint32_t block)
{
    return request->is_broadcast ? request->root : block;
}

/* Plays all ranks' part of one round. */
static void deliver(const tutti_request *request)
{
    uint64_t round = (uint64_t)fake.round;
    uint64_t size = request->length_bytes;
    uint32_t blocks = request->is_broadcast ? 1 : RANKS;
    bool is_root = request->is_broadcast && request->root == fake.rank;
    for (uint32_t block = 0; block < blocks; block++) {
        struct tt_pattern_error first;
        uint8_t *to = request->receive + block * size;
        uint64_t wrong = tt_pattern_check(to, size, owner_of(request, block), round, &first);
        fake.was_poisoned = fake.was_poisoned && wrong == (is_root ? 0 : size);
        tt_pattern_fill(to, size, owner_of(request, block), round);
    }
    if (fake.round == fake.skip_in_round) {
        fake.skipped = &request->receive[size - 1];
        *fake.skipped ^= 0x40;
    }
    if (fake.round == fake.overrun_in_round) {
        request->receive[blocks * size] ^= 0x40;
    }
    fake.counters.mcast_bytes_sent += 1000;
    fake.counters.p2p_bytes_sent += 10;
    fake.counters.mcast_datagrams_sent += 1;
    fake.counters.chunks_repaired += fake.loses_less ? 10 - (unsigned)fake.round % 10 : 2;
}

tutti_status tutti_post(tutti_request *request)
{
    switch (request->role) {
    case ROLE_BARRIER:
        fake.aligned = true;
        if (fake.mends && fake.skipped != NULL) {
            *fake.skipped ^= 0x40;
            fake.skipped = NULL;
        }
        fake.counters.p2p_bytes_sent += 77777; /* must not be found in any result */
        break;
    case ROLE_MEASURED:
        assert_true(fake.aligned);
        fake.aligned = false;
        if (fake.round != fake.fail_in_round) {
            deliver(request);
        }
        break;
    case ROLE_GATHER:
        /* All ranks measured the same, but what is late. */
        for (uint32_t rank = 0; rank < RANKS; rank++) {
            memcpy(request->receive + rank * request->length_bytes, request->send, request->length_bytes);
        }
        if (fake.late_at_first) {
            uint64_t sample_ns;
            memcpy(&sample_ns, request->receive + 3 * request->length_bytes, sizeof(sample_ns));
            sample_ns += LATE_US * UINT64_C(1000);
            memcpy(request->receive + 3 * request->length_bytes, &sample_ns, sizeof(sample_ns));
        }
        fake.gathers++;
        break;
    }
    return TUTTI_OK;
}

tutti_status tutti_wait(tutti_request *request)
{
    if (request->role != ROLE_MEASURED) {
        return TUTTI_OK;
    }
    if (fake.round++ == fake.fail_in_round) {
        fake.failed_rank = 3;
        return tt_error(TT_PART_API, TUTTI_ERR_PEER_FAILED, "rank 3 failed: connection reset");
    }
    return TUTTI_OK;
}

tutti_status tutti_finalize(tutti_request *request)
{
    fake.live -= request != NULL ? 1 : 0;
    free(request);
    return TUTTI_OK;
}

/* --- The tests ---------------------------------------------------------------------------------------------------- */

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
    arguments = (struct tt_bench_arguments){.collective = TT_COLLECTIVE_ALLGATHER,
                                            .is_rank = true,
                                            .rank_count = RANKS,
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
        arguments.collective = TT_COLLECTIVE_BROADCAST;
        arguments.root = 2;
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

static void sizes_from_zero_on_work(void **state)
{
    (void)state;
    arguments.min_bytes = 0;
    arguments.max_bytes = 2;
    assert_int_equal(run_loop(), TT_EXIT_OK);
    assert_int_equal(count_lines(output), 3);
    contains(output, "\"size_bytes\": 0,");
}

static void barrier_has_more_time_than_a_short_timeout(void **state)
{
    (void)state;
    arguments.min_bytes = arguments.max_bytes = 20000000;
    arguments.iterations = 1;
    arguments.warmup = 0;
    assert_int_equal(run_loop(), TT_EXIT_OK);
    assert_int_equal(fake.barrier_timeout_ns, 0); /* the library's default */
    fake.round = 0;
    arguments.timeout_ns = 2000000000;
    assert_int_equal(run_loop(), TT_EXIT_OK);
    assert_in_range(fake.barrier_timeout_ns, 2500000000, 4000000000);
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
        CASE(sizes_from_zero_on_work),
        CASE(barrier_has_more_time_than_a_short_timeout),
        CASE(table_has_a_heading_a_row_a_size_and_a_verdict),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
