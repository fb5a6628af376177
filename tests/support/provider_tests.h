/* SPDX-License-Identifier: BSD-3-Clause */
/* One list of tests, run over several providers: each test is named provider/sentence. After <cmocka.h>. */
#ifndef TT_TESTS_PROVIDER_TESTS_H
#define TT_TESTS_PROVIDER_TESTS_H

#include <stdio.h>
#include <stdlib.h>

/* The name provider/sentence, to be given back to tt_provider_tests_free. */
static inline const char *tt_provider_test_name(const char *provider, const char *sentence)
{
    char *name = NULL;
    if (asprintf(&name, "%s/%s", provider, sentence) < 0) {
        abort();
    }
    return name;
}

static inline void tt_provider_tests_free(struct CMUnitTest *tests, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free((char *)(uintptr_t)tests[i].name);
    }
    free(tests);
}

#endif
