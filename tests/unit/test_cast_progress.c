/* SPDX-License-Identifier: BSD-3-Clause */
/* The line that says how far a cast is: its arithmetic, at times that are literal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "cli/cast_progress.h"
#include "cli/cast_record.h"

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

static void assert_line(uint64_t size_bytes, uint64_t done_bytes, uint64_t elapsed_ns, const char *expected)
{
    struct tt_cast_progress progress = {.size_bytes = size_bytes, .done_bytes = done_bytes, .begun_ns = 7};
    char text[TT_PROGRESS_BYTES];
    tt_cast_progress_format(&progress, 7 + elapsed_ns, text);
    assert_string_equal(text, expected);
}

static void share_rate_and_time_left_follow_from_bytes_and_time(void **state)
{
    (void)state;
    assert_line(400000000, 100000000, 2 * TT_NS_PER_S,
                "[=====>              ]  25 %  95.4 MiB of 381 MiB  50.0 MB/s  0:06 left");
    assert_line(GIB, GIB, 17 * TT_NS_PER_S, "[====================] 100 %  1.0 GiB of 1.0 GiB  63.2 MB/s  0:00 left");
    assert_line(GIB, GIB - 1, 17 * TT_NS_PER_S,
                "[===================>]  99 %  1.0 GiB of 1.0 GiB  63.2 MB/s  0:00 left");
}

static void long_times_have_hours_and_very_long_ones_no_figure(void **state)
{
    (void)state;
    assert_line(3661000001, 1000000, TT_NS_PER_S,
                "[>                   ]   0 %  977 KiB of 3.4 GiB  1.0 MB/s  1:01:00 left");
    assert_line(UINT64_MAX - 1, 1, TT_NS_PER_S, "[>                   ]   0 %  1 B of 16.0 EiB  0.0 MB/s  long left");
}

static void before_the_first_byte_nothing_is_known(void **state)
{
    (void)state;
    assert_line(1000, 0, 0, "[>                   ]   0 %  0 B of 1000 B  0.0 MB/s  ? left");
    assert_line(0, 0, 0, "[====================] 100 %  0 B of 0 B  0.0 MB/s  0:00 left");
}

static void a_size_that_is_unknown_or_was_wrong_has_no_share(void **state)
{
    (void)state;
    assert_line(TT_CAST_UNKNOWN, 5 * MIB, TT_NS_PER_S / 2, "5.0 MiB  10.5 MB/s");
    assert_line(100, 101, TT_NS_PER_S, "101 B  0.0 MB/s");
}

static void assert_drawn(bool has_escapes, uint32_t drawn_columns, const char *text, uint32_t columns,
                         const char *expected)
{
    const struct tt_cast_progress progress = {.has_escapes = has_escapes, .drawn_columns = drawn_columns};
    char line[2 * TT_PROGRESS_BYTES];
    uint32_t length = tt_cast_progress_line(&progress, text, columns, line);
    assert_string_equal(line, expected);
    assert_true(length <= strlen(text) && (columns == 0 || length < columns));
}

static void line_is_cut_to_the_terminal(void **state)
{
    (void)state;
    assert_drawn(true, 0, "[==>] 45 %", 80, "\r[==>] 45 %\033[K");
    assert_drawn(true, 0, "[==>] 45 %", 11, "\r[==>] 45 %\033[K");
    assert_drawn(true, 0, "[==>] 45 %", 10, "\r[==>] 45 \033[K");
    assert_drawn(true, 0, "[==>] 45 %", 1, "\r\033[K");
    assert_drawn(true, 0, "[==>] 45 %", 0, "\r[==>] 45 %\033[K");
}

static void terminal_without_escapes_gets_blanks(void **state)
{
    (void)state;
    assert_drawn(false, 0, "[==>] 45 %", 80, "\r[==>] 45 %");
    assert_drawn(false, 12, "[==>] 45 %", 80, "\r[==>] 45 %  ");
    assert_drawn(false, 12, "", 0, "\r            ");
}

static void bytes_are_in_the_largest_unit_of_which_there_is_one(void **state)
{
    static const struct {
        uint64_t bytes;
        const char *text;
    } cases[] = {{0, "0 B"},
                 {1023, "1023 B"},
                 {KIB, "1.0 KiB"},
                 {100 * KIB - 52, "99.9 KiB"},
                 {100 * KIB - 51, "100 KiB"},
                 {MIB - 513, "1023 KiB"},
                 {MIB - 512, "1.0 MiB"},
                 {1023 * MIB, "1023 MiB"},
                 {GIB - 1, "1.0 GiB"},
                 {UINT64_MAX, "16.0 EiB"}};
    char text[32];
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_string_equal(tt_format_bytes(cases[i].bytes, text, sizeof(text)), cases[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(share_rate_and_time_left_follow_from_bytes_and_time),
        cmocka_unit_test(long_times_have_hours_and_very_long_ones_no_figure),
        cmocka_unit_test(before_the_first_byte_nothing_is_known),
        cmocka_unit_test(a_size_that_is_unknown_or_was_wrong_has_no_share),
        cmocka_unit_test(line_is_cut_to_the_terminal),
        cmocka_unit_test(terminal_without_escapes_gets_blanks),
        cmocka_unit_test(bytes_are_in_the_largest_unit_of_which_there_is_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
