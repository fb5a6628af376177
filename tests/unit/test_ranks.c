/* SPDX-License-Identifier: BSD-3-Clause */
/* Sets of ranks in sentences. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/ranks.h"

/* A set of ranks as text: a character each, '1' if it is in the set. */
static bool is_one(const void *set, uint32_t rank)
{
    return ((const char *)set)[rank] == '1';
}

static void assert_formats(const char *set, const char *expected)
{
    char text[128];
    assert_string_equal(tt_ranks_format(is_one, set, (uint32_t)strlen(set), text, sizeof(text)), expected);
}

static void ranks_are_listed_with_runs_drawn_together(void **state)
{
    (void)state;
    assert_formats("00100111", "ranks 2, 5-7");
    assert_formats("0100", "rank 1");
    assert_formats("11", "ranks 0-1");
    assert_formats("1", "rank 0");
    assert_formats("101", "ranks 0, 2");
    assert_formats("000", "no rank");
    assert_formats("", "no rank");
}

static void a_list_that_is_too_long_ends_with_how_many_there_are(void **state)
{
    static char set[65537];
    (void)state;
    for (size_t i = 0; i < sizeof(set) - 1; i++) {
        set[i] = i % 2 == 0 ? '1' : '0';
    }
    for (size_t bytes = 64; bytes < 200; bytes++) {
        char text[256];
        memset(text, '#', sizeof(text));
        tt_ranks_format(is_one, set, 65536, text, bytes);
        assert_true(memchr(text, '\0', bytes) != NULL);
        assert_int_equal(text[bytes], '#');
        assert_memory_equal(text, "ranks 0, 2, 4", 13);
        assert_non_null(strstr(text, ", ... (32768 in all)"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_are_listed_with_runs_drawn_together),
        cmocka_unit_test(a_list_that_is_too_long_ends_with_how_many_there_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
