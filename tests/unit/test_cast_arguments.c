/* SPDX-License-Identifier: BSD-3-Clause */
/* The command lines of cast and catch that are accepted; what is refused is in cli_arguments.py, with what it says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "cli/cast_arguments.h"

enum { WORDS = 16 };

static struct tt_settings settings;
static struct tt_cast_arguments arguments;

/* The line is cut at blanks. */
static enum tt_parse parse(enum tt_cast_role role, const char *line)
{
    static char words[512];
    char *argv[WORDS + 1] = {NULL}, *rest = NULL;
    int argc = 0;
    snprintf(words, sizeof(words), "%s", line);
    for (char *word = strtok_r(words, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
        assert_true(argc < WORDS);
        argv[argc++] = word;
    }
    memset(&arguments, 0, sizeof(arguments));
    assert_int_equal(tt_settings_load(&settings), TUTTI_OK);
    return tt_cast_arguments_parse(role, argc, argv, &settings, &arguments);
}

static void a_file_is_enough_in_a_job_of_the_environment(void **state)
{
    (void)state;
    assert_int_equal(parse(TT_CAST_SENDER, "cast file"), TT_PARSE_OK);
    assert_string_equal(arguments.command, "cast");
    assert_string_equal(arguments.path, "file");
    assert_null(arguments.root);
    assert_int_equal(arguments.by, TT_CAST_BY_AUTO);
    assert_true(arguments.segment_bytes == UINT64_C(4) << 20);
    assert_false(arguments.json || arguments.progress);
    assert_int_equal(arguments.setting_count, 0);
}

static void every_option_of_cast_counts(void **state)
{
    (void)state;
    assert_int_equal(parse(TT_CAST_SENDER,
                           "cast --root h:1 --size 65535 --by pipeline --segment 256M --wait 2s --timeout "
                           "3s --json --progress -"),
                     TT_PARSE_OK);
    assert_string_equal(arguments.path, "-");
    assert_string_equal(arguments.root, "h:1");
    assert_int_equal(arguments.size, 65535);
    assert_int_equal(arguments.by, TT_CAST_BY_PIPELINE);
    assert_true(arguments.segment_bytes == TT_CAST_MAX_SEGMENT_BYTES);
    assert_true(arguments.json && arguments.progress);
    assert_true(settings.bootstrap_timeout_ns == 2 * TT_NS_PER_S && settings.timeout_ns == 3 * TT_NS_PER_S);
    assert_string_equal(settings.root, "h:1");
    assert_int_equal(arguments.setting_count, 3);
}

static void every_option_of_catch_counts(void **state)
{
    (void)state;
    assert_int_equal(parse(TT_CAST_RECEIVER, "catch -o out"), TT_PARSE_OK);
    assert_false(arguments.force || arguments.no_sync);
    assert_int_equal(parse(TT_CAST_RECEIVER, "catch -f --no-sync --output out --root h:1 --size 2"), TT_PARSE_OK);
    assert_true(arguments.force && arguments.no_sync);
    assert_string_equal(arguments.path, "out");
    assert_int_equal(arguments.size, 2);
}

static void an_option_that_comes_twice_counts_as_the_last(void **state)
{
    (void)state;
    assert_int_equal(parse(TT_CAST_SENDER, "cast --wait 2s --wait 4s --by auto --by multicast a"), TT_PARSE_OK);
    assert_int_equal(arguments.setting_count, 1);
    assert_string_equal(arguments.settings[0].name, "BOOTSTRAP_TIMEOUT");
    assert_string_equal(arguments.settings[0].value, "4s");
    assert_int_equal(arguments.by, TT_CAST_BY_MULTICAST);
}

static void what_is_refused_sets_nothing(void **state)
{
    static const char *const refused[] = {"cast", "cast a --wait 2s b", "cast --timeout 1s --by no a",
                                          "cast --root h:1 a"};
    (void)state;
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        assert_int_equal(parse(TT_CAST_SENDER, refused[i]), TT_PARSE_BAD);
        assert_null(arguments.path);
        assert_string_equal(settings.root, "");
        assert_true(settings.timeout_ns == TT_AUTO);
    }
    assert_int_equal(parse(TT_CAST_RECEIVER, "catch -f -o -"), TT_PARSE_BAD);
    assert_null(arguments.path);
    assert_int_equal(parse(TT_CAST_RECEIVER, "catch -o - --no-sync"), TT_PARSE_BAD);
    assert_null(arguments.path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_enough_in_a_job_of_the_environment),
        cmocka_unit_test(every_option_of_cast_counts),
        cmocka_unit_test(every_option_of_catch_counts),
        cmocka_unit_test(an_option_that_comes_twice_counts_as_the_last),
        cmocka_unit_test(what_is_refused_sets_nothing),
    };
    char message[128];
    tt_log_configure("none", NULL, message, sizeof(message));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
