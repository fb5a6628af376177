/* SPDX-License-Identifier: BSD-3-Clause */
/* Libraries that are loaded when they are used. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <string.h>

#include "base/library.h"

static size_t (*length_of)(const char *text);
static void (*nothing)(void);

static void functions_are_found_by_their_names(void **state)
{
    const struct tt_library_function functions[] = {{"strlen", &length_of}};

    (void)state;
    assert_null(tt_library_load("libc.so.6", RTLD_NOW | RTLD_LOCAL, functions, 1));
    assert_int_equal(length_of("tutti"), 5);
}

static void library_that_is_not_there_is_named(void **state)
{
    const char *why = tt_library_load("libtutti-is-no-such.so.1", RTLD_NOW | RTLD_LOCAL, NULL, 0);

    (void)state;
    assert_non_null(why);
    assert_non_null(strstr(why, "libtutti-is-no-such.so.1"));
}

static void function_that_is_not_there_is_named(void **state)
{
    const struct tt_library_function functions[] = {{"tutti_is_no_such", &nothing}, {"strlen", &length_of}};
    const char *why = tt_library_load("libc.so.6", RTLD_NOW | RTLD_LOCAL, functions, 2);

    (void)state;
    assert_non_null(why);
    assert_non_null(strstr(why, "tutti_is_no_such"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_are_found_by_their_names),
        cmocka_unit_test(library_that_is_not_there_is_named),
        cmocka_unit_test(function_that_is_not_there_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
