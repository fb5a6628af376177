/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs every body of a contract over every fixture that has what it needs, under the name provider/sentence, and says
 * of a fixture that cannot run here why. After <cmocka.h>. */
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

static const char *conformance_why_not(const void *fixture)
{
    void *world;
    return ((const struct conformance_fixture *)fixture)->create(&world); /* and ends with its process */
}

/* The tests of one fixture; returns how many. */
static size_t conformance_tests_of(const struct conformance_fixture *fixture, const struct conformance_table *tables,
                                   size_t table_count, char reason[TT_PROVIDER_REASON_BYTES], struct CMUnitTest *tests)
{
    size_t count = 0;
    tt_provider_why_not(conformance_why_not, fixture, reason);
    if (reason[0] != '\0') {
        tests[0] = tt_provider_absent(fixture->name, reason);
        return 1;
    }
    for (size_t j = 0; j < table_count; j++) {
        for (size_t k = 0; k < tables[j].count; k++) {
            if ((tables[j].bodies[k].needs & ~fixture->abilities) == 0) {
                tests[count++] = conformance_test(fixture, &tables[j].bodies[k]);
            }
        }
    }
    return count;
}

/* `only` names one provider, or is NULL for all. Returns the number of failed tests, 1 for an unknown provider. */
static int conformance_run(const char *contract, const struct conformance_fixture *const *fixtures,
                           size_t fixture_count, const struct conformance_table *tables, size_t table_count,
                           const char *only)
{
    size_t body_count = 1, count = 0;
    int failed = 1;
    for (size_t i = 0; i < table_count; i++) {
        body_count += tables[i].count;
    }
    struct CMUnitTest *tests = calloc(fixture_count * body_count, sizeof(*tests));
    char(*reasons)[TT_PROVIDER_REASON_BYTES] = calloc(fixture_count, sizeof(*reasons));
    if (tests == NULL || reasons == NULL) {
        abort();
    }
    for (size_t i = 0; i < fixture_count; i++) {
        if (only == NULL || strcmp(only, fixtures[i]->name) == 0) {
            count += conformance_tests_of(fixtures[i], tables, table_count, reasons[i], &tests[count]);
        }
    }
    if (count > 0) {
        failed = _cmocka_run_group_tests(contract, tests, count, NULL, NULL);
    } else {
        fprintf(stderr, "%s: no provider %s\n", contract, only != NULL ? only : "");
    }
    tt_provider_tests_free(tests, count);
    free(reasons);
    return failed;
}

#endif
