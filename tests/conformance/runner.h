/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs every body of a contract over every fixture, under the name provider/sentence. After <cmocka.h>. */
#ifndef TT_TESTS_CONFORMANCE_RUNNER_H
#define TT_TESTS_CONFORMANCE_RUNNER_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fixture.h"

struct conformance_body {
    const char *sentence;
    CMUnitTestFunction run;
};

#define CONFORMANCE_BODY(function)                                                                                     \
    {                                                                                                                  \
        .sentence = #function, .run = function                                                                         \
    }

/* `only` names one provider, or is NULL for all. Returns the number of failed tests, 1 for an unknown provider. */
static int conformance_run(const char *contract, const struct conformance_fixture *const *fixtures,
                           size_t fixture_count, const struct conformance_body *bodies, size_t body_count,
                           const char *only)
{
    struct CMUnitTest *tests = calloc(fixture_count * body_count, sizeof(*tests));
    size_t count = 0;
    int failed = 1;
    for (size_t i = 0; tests != NULL && i < fixture_count; i++) {
        if (only != NULL && strcmp(only, fixtures[i]->name) != 0) {
            continue;
        }
        for (size_t j = 0; j < body_count; j++) {
            char *name = NULL;
            if (asprintf(&name, "%s/%s", fixtures[i]->name, bodies[j].sentence) < 0) {
                abort();
            }
            tests[count++] = (struct CMUnitTest){
                .name = name, .test_func = bodies[j].run, .initial_state = (void *)(uintptr_t)fixtures[i]};
        }
    }
    if (count > 0) {
        failed = _cmocka_run_group_tests(contract, tests, count, NULL, NULL);
    } else {
        fprintf(stderr, "%s: no provider %s\n", contract, only != NULL ? only : "");
    }
    for (size_t i = 0; i < count; i++) {
        free((char *)(uintptr_t)tests[i].name);
    }
    free(tests);
    return failed;
}

#endif
