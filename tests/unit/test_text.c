/* SPDX-License-Identifier: BSD-3-Clause */
/* Text from outside, before somebody reads it on a terminal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/text.h"

static const char *cleaned(const char *text)
{
    static char copy[64];

    snprintf(copy, sizeof copy, "%s", text);
    tt_text_clean(copy);
    return copy;
}

static void letters_of_all_alphabets_stay(void **state)
{
    static const char *const fine[] = {
        "", "host-1 ~", "b\u00FCro", "\u00A0\u07FF", "\u0800\uD7FF\uE000\uFFFD", "\U00010000\U0010FFFF"};

    (void)state;
    for (size_t i = 0; i < sizeof fine / sizeof fine[0]; i++) {
        assert_string_equal(cleaned(fine[i]), fine[i]);
    }
}

static void what_steers_a_terminal_becomes_a_question_mark(void **state)
{
    (void)state;
    assert_string_equal(cleaned("a\nb\tc\x1b[31m\x7f"), "a?b?c?[31m?");
    assert_string_equal(cleaned("\xC2\x9B"
                                "31m \xC2\x80\xC2\x9F"),
                        "??31m ????"); /* CSI as a letter of UTF-8 */
    assert_string_equal(cleaned("\x9B"
                                "31m"),
                        "?31m"); /* and as a byte of its own */
}

static void what_is_not_utf_8_becomes_question_marks(void **state)
{
    (void)state;
    assert_string_equal(cleaned("b\xFCro"), "b?ro");
    assert_string_equal(cleaned("\xC0\x8A \xC1\xBF"), "?? ??");                /* overlong: a line's end */
    assert_string_equal(cleaned("\xE0\x82\x9B \xF0\x80\x80\x8A"), "??? ????"); /* likewise */
    assert_string_equal(cleaned("\xED\xA0\x80 \xF4\x90\x80\x80 \xFF"), "??? ???? ?");
    assert_string_equal(cleaned("cut \xE2\x82"), "cut ??");
    assert_string_equal(cleaned("\xC3"), "?");
    assert_string_equal(cleaned("\xC3\n"), "??"); /* no sequence swallows what follows it */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(letters_of_all_alphabets_stay),
        cmocka_unit_test(what_steers_a_terminal_becomes_a_question_mark),
        cmocka_unit_test(what_is_not_utf_8_becomes_question_marks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
