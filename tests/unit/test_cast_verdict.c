/* SPDX-License-Identifier: BSD-3-Clause */
/* What is said of a cast: which digest is right, which is wrong, and where there is none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cast_verdict.h"

enum { SIZE = 4 };

static struct tt_cast_offer offers[SIZE];
static struct tt_cast_report reports[SIZE];
static bool has_ended;
static const char *reason_of_all;
static char *text;

static int setup(void **state)
{
    (void)state;
    memset(offers, 0, sizeof(offers));
    memset(reports, 0, sizeof(reports));
    for (int rank = 0; rank < SIZE; rank++) {
        strcpy(offers[rank].host, "host");
        reports[rank].bytes = 10;
        reports[rank].digest[0] = 7;
    }
    has_ended = true;
    reason_of_all = NULL;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    free(text);
    text = NULL;
    return 0;
}

static bool print(bool json)
{
    const struct tt_cast_verdict verdict = {.name = "file",
                                            .size = SIZE,
                                            .offers = offers,
                                            .reports = reports,
                                            .reason = reason_of_all,
                                            .has_ended = has_ended};
    size_t length = 0;
    free(text);
    text = NULL;
    FILE *stream = open_memstream(&text, &length);
    assert_non_null(stream);
    bool is_good = tt_cast_verdict_print(&verdict, json, stream);
    fclose(stream);
    return is_good;
}

/* The digest's word in the row of this rank. */
static void assert_digest(unsigned rank, const char *expected)
{
    char start[64], status[16], word[16];
    unsigned found;
    assert_false(rank == 0);
    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (sscanf(line, "%63s %u %15s %15s", start, &found, status, word) == 4 && found == rank) {
            assert_string_equal(word, expected);
            return;
        }
    }
    fail_msg("no row of rank %u in %s", rank, text);
}

static unsigned count_of(const char *part)
{
    unsigned count = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at++) {
        count++;
    }
    return count;
}

static void digest_is_compared_where_all_was_written(void **state)
{
    (void)state;
    reports[2].digest[0] = 8;
    reports[2].failed = true;
    reports[3].bytes = 0; /* the file was there already: of nothing, too, there is a digest */
    reports[3].failed = true;
    assert_false(print(false));
    assert_digest(1, "right");
    assert_digest(2, "wrong");
    assert_digest(3, "-");
    assert_false(print(true));
    assert_int_equal(count_of("\"digest_ok\": true"), 1);
    assert_int_equal(count_of("\"digest_ok\": false"), 2);
}

/* Of the object, not of a host in it. */
static void assert_ok(bool expected)
{
    assert_int_equal(print(true), expected);
    assert_int_equal(
        count_of(expected ? "\"by\": \"multicast\", \"ok\": true" : "\"by\": \"multicast\", \"ok\": false"), 1);
}

static void it_is_ok_only_where_every_host_has_the_file(void **state)
{
    (void)state;
    assert_ok(true);
    reports[2].failed = true;
    assert_ok(false);
    for (int rank = 1; rank < SIZE; rank++) {
        reports[rank].failed = true;
    }
    assert_ok(false);
    has_ended = false;
    assert_ok(false);
    reports[0].failed = true;
    assert_ok(false);
}

static void part_that_was_written_has_no_digest_to_compare(void **state)
{
    (void)state;
    reports[1].bytes = 9;
    reports[1].digest[0] = 8;
    reports[1].failed = true; /* the disk is full */
    assert_false(print(false));
    assert_digest(1, "-");
    assert_digest(2, "right");
}

static void rate_is_only_of_what_was_sent(void **state)
{
    (void)state;
    reports[0].duration_ns = 1000000000;
    assert_true(print(false));
    assert_int_equal(count_of(" in 1.00 s, 0.0 MB/s\n# XXH128 07"), 1);
    has_ended = false; /* nobody could take it */
    for (int rank = 1; rank < SIZE; rank++) {
        reports[rank] = (struct tt_cast_report){.failed = true};
    }
    assert_false(print(false));
    assert_int_equal(count_of("MB/s"), 0);
    assert_int_equal(count_of("XXH128"), 0);
}

/* No time, rate or digest in the first lines, nor in the object. */
static void assert_no_figures(void)
{
    assert_false(print(false));
    assert_int_equal(count_of("MB/s"), 0);
    assert_int_equal(count_of("XXH128"), 0);
    assert_int_equal(count_of("2.00"), 0);
    assert_false(print(true));
    assert_int_equal(count_of("\"seconds\": 0,"), 1);
    assert_int_equal(count_of("\"seconds\": 0}"), SIZE - 1);
    assert_int_equal(count_of("\"xxh128\": \"\""), 1);
}

static void fail_all(int first)
{
    for (int rank = 0; rank < SIZE; rank++) {
        reports[rank].duration_ns = 2000000000;
        reports[rank].failed = rank >= first;
    }
}

/* The file became shorter, or could not be read at all: all that was read has been sent, and written. */
static void sender_that_failed_at_the_end_has_no_figures(void **state)
{
    (void)state;
    fail_all(0);
    assert_no_figures();
    assert_int_equal(count_of("\"digest_ok\": true"), 0);
    print(false);
    for (unsigned rank = 1; rank < SIZE; rank++) {
        assert_digest(rank, "-");
    }
    for (int rank = 0; rank < SIZE; rank++) {
        reports[rank].bytes = 0;
    }
    assert_no_figures();
}

static void cast_that_failed_at_every_receiver_has_no_figures(void **state)
{
    (void)state;
    fail_all(1);
    for (int rank = 1; rank < SIZE; rank++) {
        reports[rank].bytes = 9;
    }
    assert_no_figures();
    reports[3].failed = false; /* one is enough */
    reports[3].bytes = 10;
    assert_false(print(false));
    assert_int_equal(count_of(" in 2.00 s, 0.0 MB/s\n# XXH128 07"), 1);
}

static void only_who_has_the_file_has_the_seconds_until_then(void **state)
{
    (void)state;
    fail_all(SIZE - 1);
    assert_false(print(true));
    assert_int_equal(count_of("\"seconds\": 0}"), 1);
    assert_int_equal(count_of("\"seconds\": 2}"), SIZE - 2);
    assert_false(print(false));
    assert_int_equal(count_of("2.00"), SIZE - 2 + 1);
}

static void reason_of_the_whole_is_said_in_full(void **state)
{
    char reason[600];
    (void)state;
    memset(reason, 'x', sizeof(reason) - 1);
    reason[sizeof(reason) - 1] = '\0';
    has_ended = false;
    reports[0].failed = true;
    reason_of_all = reason;
    assert_false(print(false));
    assert_int_equal(count_of(reason), 1);
    assert_false(print(true));
    assert_int_equal(count_of(reason), 1);
}

/* Names of hosts and reasons are bytes that other processes sent. */
static void what_a_receiver_says_of_itself_steers_no_terminal(void **state)
{
    (void)state;
    strcpy(offers[1].host, "\x1b[2Jme\xC2\x9B"
                           "m");
    strcpy(reports[1].text, "well\n# ok\r");
    reports[1].failed = true;
    assert_false(print(false));
    assert_null(strchr(text, '\x1b'));
    assert_null(strchr(text, '\r'));
    assert_int_equal(count_of("?[2Jme??m "), 1);
    assert_true(count_of("well?# ok?") >= 1);
    assert_false(print(true)); /* a program gets what was said, in JSON's own words */
    assert_int_equal(count_of("\\u001b[2Jme"), 1);
}

static void empty_file_has_a_digest(void **state)
{
    (void)state;
    for (int rank = 0; rank < SIZE; rank++) {
        reports[rank].bytes = 0;
    }
    assert_true(print(false));
    for (unsigned rank = 1; rank < SIZE; rank++) {
        assert_digest(rank, "right");
    }
}

static void job_that_failed_has_no_digests(void **state)
{
    (void)state;
    has_ended = false;
    memset(reports, 0, sizeof(reports));
    for (int rank = 0; rank < SIZE; rank++) {
        reports[rank].failed = true;
    }
    assert_false(print(false));
    for (unsigned rank = 1; rank < SIZE; rank++) {
        assert_digest(rank, "-");
    }
    assert_false(print(true));
    assert_int_equal(count_of("\"digest_ok\": false"), SIZE - 1);
    assert_int_equal(count_of("\"xxh128\": \"\""), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(digest_is_compared_where_all_was_written, setup, teardown),
        cmocka_unit_test_setup_teardown(it_is_ok_only_where_every_host_has_the_file, setup, teardown),
        cmocka_unit_test_setup_teardown(part_that_was_written_has_no_digest_to_compare, setup, teardown),
        cmocka_unit_test_setup_teardown(rate_is_only_of_what_was_sent, setup, teardown),
        cmocka_unit_test_setup_teardown(sender_that_failed_at_the_end_has_no_figures, setup, teardown),
        cmocka_unit_test_setup_teardown(cast_that_failed_at_every_receiver_has_no_figures, setup, teardown),
        cmocka_unit_test_setup_teardown(only_who_has_the_file_has_the_seconds_until_then, setup, teardown),
        cmocka_unit_test_setup_teardown(reason_of_the_whole_is_said_in_full, setup, teardown),
        cmocka_unit_test_setup_teardown(what_a_receiver_says_of_itself_steers_no_terminal, setup, teardown),
        cmocka_unit_test_setup_teardown(empty_file_has_a_digest, setup, teardown),
        cmocka_unit_test_setup_teardown(job_that_failed_has_no_digests, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
