/* SPDX-License-Identifier: BSD-3-Clause */
/* Status codes: names, texts and scopes, also of numbers that are none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tutti/status.h"

static void every_status_has_its_own_name_value_and_text(void **state)
{
    static const tutti_status all[] = {
#define NAME(name, value, scope, text) name,
        TUTTI_STATUS_TABLE(NAME)
#undef NAME
    };
    (void)state;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        assert_true(all[i] <= 0);
        assert_true(strlen(tutti_status_text(all[i])) > 0);
        for (size_t j = 0; j < i; j++) {
            assert_int_not_equal(all[i], all[j]);
            assert_string_not_equal(tutti_status_name(all[i]), tutti_status_name(all[j]));
            assert_string_not_equal(tutti_status_text(all[i]), tutti_status_text(all[j]));
        }
    }
}

static void a_status_is_named_as_in_the_header(void **state)
{
    (void)state;
    assert_int_equal(TUTTI_OK, 0);
    assert_string_equal(tutti_status_name(TUTTI_OK), "TUTTI_OK");
    assert_string_equal(tutti_status_text(TUTTI_OK), "success");
    assert_int_equal(TUTTI_ERR_PEER_FAILED, -9);
    assert_string_equal(tutti_status_name(TUTTI_ERR_PEER_FAILED), "TUTTI_ERR_PEER_FAILED");
    assert_string_equal(tutti_status_text(TUTTI_ERR_PEER_FAILED), "a peer failed");
}

static void the_scope_says_what_an_error_ends(void **state)
{
    (void)state;
    assert_int_equal(tutti_status_scope(TUTTI_ERR_BUSY), TUTTI_SCOPE_OPERATION);
    assert_int_equal(tutti_status_scope(TUTTI_ERR_PEER_FAILED), TUTTI_SCOPE_GROUP);
    assert_int_equal(tutti_status_scope(TUTTI_ERR_IO), TUTTI_SCOPE_CONTEXT);
}

static void an_unknown_status_has_a_text_and_ends_the_context(void **state)
{
    static const int unknown[] = {1, -15, -1000, INT32_MAX, INT32_MIN};
    (void)state;
    for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
        tutti_status status = (tutti_status)unknown[i];
        assert_string_equal(tutti_status_name(status), "TUTTI_ERR_UNKNOWN");
        assert_string_equal(tutti_status_text(status), "unknown status");
        assert_int_equal(tutti_status_scope(status), TUTTI_SCOPE_CONTEXT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_status_has_its_own_name_value_and_text),
        cmocka_unit_test(a_status_is_named_as_in_the_header),
        cmocka_unit_test(the_scope_says_what_an_error_ends),
        cmocka_unit_test(an_unknown_status_has_a_text_and_ends_the_context),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
