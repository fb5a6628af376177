/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One list of tests, run over several providers: each test is named provider/sentence. Of a provider that cannot be had
 * here there is one test, which is skipped and says why. After <cmocka.h>.
 */
#ifndef TT_TESTS_PROVIDER_TESTS_H
#define TT_TESTS_PROVIDER_TESTS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "skip.h"

enum { TT_PROVIDER_REASON_BYTES = 256 };

/* Why a provider cannot be had here; empty: it can. `ask`, which returns the reason or NULL, is called in a process of
 * its own, as a provider may leave its process with more than it found. */
static inline void tt_provider_why_not(const char *(*ask)(const void *provider), const void *provider,
                                       char reason[TT_PROVIDER_REASON_BYTES])
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const char *answer = ask(provider);
        if (answer != NULL) {
            (void)!write(ends[1], answer, strnlen(answer, TT_PROVIDER_REASON_BYTES - 1));
        }
        _exit(0);
    }
    close(ends[1]);
    ssize_t length_bytes = read(ends[0], reason, TT_PROVIDER_REASON_BYTES - 1);
    reason[length_bytes > 0 ? length_bytes : 0] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

static inline void tt_provider_skip_all(void **state)
{
    TT_SKIP("%s", (const char *)*state);
}

/* The name provider/sentence, to be given back to tt_provider_tests_free. */
static inline const char *tt_provider_test_name(const char *provider, const char *sentence)
{
    char *name = NULL;
    if (asprintf(&name, "%s/%s", provider, sentence) < 0) {
        abort();
    }
    return name;
}

/* The one test of a provider that cannot be had; the reason stays the caller's. */
static inline struct CMUnitTest tt_provider_absent(const char *provider, char *reason)
{
    return (struct CMUnitTest){
        .name = tt_provider_test_name(provider, "all"), .test_func = tt_provider_skip_all, .initial_state = reason};
}

static inline void tt_provider_tests_free(struct CMUnitTest *tests, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free((char *)(uintptr_t)tests[i].name);
    }
    free(tests);
}

#endif
