/* SPDX-License-Identifier: BSD-3-Clause */
/* The lesser, the greater, and the next power of two. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/least.h"

static void powers_of_two_are_the_next_ones(void **state)
{
    static const uint32_t counts[][2] = {
        {0, 1}, {1, 1}, {2, 2}, {3, 4}, {4, 4}, {5, 8}, {160, 256}, {0x40000001, 0x80000000}, {0x80000000, 0x80000000}};

    (void)state;
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        assert_true(tt_power_of_two(counts[i][0]) == counts[i][1]);
    }
}

static void times_do_not_wrap(void **state)
{
    (void)state;
    assert_true(tt_later(5, 6) == 11);
    assert_true(tt_later(5, UINT64_MAX) == UINT64_MAX);
    assert_true(tt_later(UINT64_MAX - 1, 2) == UINT64_MAX);
    assert_true(tt_least(3, UINT64_MAX) == 3 && tt_most(3, UINT64_MAX) == UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(powers_of_two_are_the_next_ones),
        cmocka_unit_test(times_do_not_wrap),
    };
    return cmocka_run_group_tests_name("least", tests, NULL, NULL);
}
