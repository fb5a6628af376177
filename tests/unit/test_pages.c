/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory with its pages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/pages.h"

enum { PAGE = 4096 };

static void it_begins_with_a_page_and_is_zero_also_where_it_was_used_before(void **state)
{
    static const size_t lengths[] = {1, PAGE - 1, PAGE, PAGE + 1, 16 * PAGE, 300 * PAGE + 7};
    (void)state;
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
            uint8_t *memory = tt_pages_allocate(lengths[i]);
            assert_non_null(memory);
            assert_int_equal((uintptr_t)memory % PAGE, 0);
            for (size_t at = 0; at < lengths[i]; at++) {
                assert_int_equal(memory[at], 0);
            }
            memset(memory, 0xA5, lengths[i]);
            free(memory);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_begins_with_a_page_and_is_zero_also_where_it_was_used_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
