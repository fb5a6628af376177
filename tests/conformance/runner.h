/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs every body of a contract over every fixture that has what it needs, under the name provider/sentence. After
 * <cmocka.h>. */
#ifndef TT_TESTS_CONFORMANCE_RUNNER_H
#define TT_TESTS_CONFORMANCE_RUNNER_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "body.h"
#include "fixture.h"
#include "support/provider_tests.h"

static struct CMUnitTest conformance_test(const struct conformance_fixture *fixture,
                                          const struct conformance_body *body)
{
    return (struct CMUnitTest){.name = tt_provider_test_name(fixture->name, body->sentence),
                               .test_func = body->run,
                               .initial_state = (void *)(uintptr_t)fixture};
}

/* `only` names one provider, or is NULL for all. Returns the number of failed tests, 1 for an unknown provider. */
static int conformance_run(const char *contract, const struct conformance_fixture *const *fixtures,
                           size_t fixture_count, const struct conformance_table *tables, size_t table_count,
                           const char *only)
{
    size_t body_count = 0, count = 0;
    int failed = 1;
    for (size_t i = 0; i < table_count; i++) {
        body_count += tables[i].count;
    }
    struct CMUnitTest *tests = calloc(fixture_count * body_count, sizeof(*tests));
    if (tests == NULL) {
        abort();
    }
    for (size_t i = 0; i < fixture_count; i++) {
        if (only != NULL && strcmp(only, fixtures[i]->name) != 0) {
            continue;
        }
        for (size_t j = 0; j < table_count; j++) {
            for (size_t k = 0; k < tables[j].count; k++) {
                if ((tables[j].bodies[k].needs & ~fixtures[i]->abilities) == 0) {
                    tests[count++] = conformance_test(fixtures[i], &tables[j].bodies[k]);
                }
            }
        }
    }
    if (count > 0) {
        failed = _cmocka_run_group_tests(contract, tests, count, NULL, NULL);
    } else {
        fprintf(stderr, "%s: no provider %s\n", contract, only != NULL ? only : "");
    }
    tt_provider_tests_free(tests, count);
    return failed;
}

#endif
