/* SPDX-License-Identifier: BSD-3-Clause */
/* What an engine makes before the job has come together: for which interface, and what becomes of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/settings.h"
#include "engine/prepare.h"

static struct tt_settings settings;
static struct tt_engine *engine;

static void create(const char *name, const char *value)
{
    assert_int_equal(tt_settings_load(&settings), TUTTI_OK);
    if (name != NULL) {
        assert_int_equal(tt_settings_set(&settings, name, value), TUTTI_OK);
    }
    assert_int_equal(tt_engine_create(&settings, &engine), TUTTI_OK);
}

static int teardown(void **state)
{
    (void)state;
    tt_engine_destroy(engine);
    return 0;
}

static void the_way_to_the_root_decides(void **state)
{
    (void)state;
    create(NULL, NULL);
    tt_engine_prepare(engine, "127.0.0.1:1");
    assert_non_null(engine->prepared);
    assert_true(engine->prepared_for.loopback);
    struct tt_p2p *prepared = engine->prepared;
    tt_engine_prepare(engine, "127.0.0.1:1"); /* once is enough */
    assert_ptr_equal(engine->prepared, prepared);

    struct tt_interface wanted = engine->prepared_for;
    assert_ptr_equal(tt_engine_prepared(engine, &wanted), prepared);
    assert_null(engine->prepared);
    assert_null(tt_engine_prepared(engine, &wanted)); /* it was given away */
    prepared->ops->destroy(prepared);
}

static void a_network_on_another_interface_does_without(void **state)
{
    (void)state;
    create(NULL, NULL);
    tt_engine_prepare(engine, "127.0.0.1:1");
    struct tt_interface other = engine->prepared_for;
    other.index += 1000;
    assert_null(tt_engine_prepared(engine, &other));
    assert_null(engine->prepared); /* destroyed, as a sanitizer sees */
}

/* As the ranks of a launcher find it: rank 0 has more than one. */
static void the_first_of_several_addresses_counts(void **state)
{
    (void)state;
    create(NULL, NULL);
    tt_engine_prepare(engine, "127.0.0.1,256.0.0.1:1");
    assert_non_null(engine->prepared);
    assert_true(engine->prepared_for.loopback);
}

static void the_setting_says_which_interface(void **state)
{
    (void)state;
    create("INTERFACE", "lo");
    tt_engine_prepare(engine, "no such host:1");
    assert_non_null(engine->prepared); /* and teardown destroys it */
    assert_true(engine->prepared_for.loopback);
}

static void nothing_is_made_for_a_root_that_is_not_there(void **state)
{
    (void)state;
    create(NULL, NULL);
    tt_engine_prepare(engine, "");
    tt_engine_prepare(engine, ",127.0.0.1:7000");
    tt_engine_prepare(engine, ":7000");
    tt_engine_prepare(engine, "256.0.0.1:7000");
    tt_engine_prepare(engine, "[::1]:7000");
    assert_null(engine->prepared);
}

static void nothing_is_made_where_a_device_is_wanted(void **state)
{
    (void)state;
    create("P2P", "verbs");
    tt_engine_prepare(engine, "127.0.0.1:1");
    assert_null(engine->prepared);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(the_way_to_the_root_decides, teardown),
        cmocka_unit_test_teardown(a_network_on_another_interface_does_without, teardown),
        cmocka_unit_test_teardown(the_first_of_several_addresses_counts, teardown),
        cmocka_unit_test_teardown(the_setting_says_which_interface, teardown),
        cmocka_unit_test_teardown(nothing_is_made_for_a_root_that_is_not_there, teardown),
        cmocka_unit_test_teardown(nothing_is_made_where_a_device_is_wanted, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
