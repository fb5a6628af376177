/* SPDX-License-Identifier: BSD-3-Clause */
/* A test of a contract, and tables of them. Before <cmocka.h> or after it. */
#ifndef TT_TESTS_CONFORMANCE_BODY_H
#define TT_TESTS_CONFORMANCE_BODY_H

#include <stddef.h>

struct conformance_body {
    const char *sentence;
    void (*run)(void **state); /* *state: the fixture */
    unsigned needs;            /* of enum conformance_ability */
};

#define CONFORMANCE_BODY(function)                                                                                     \
    {                                                                                                                  \
        .sentence = #function, .run = function                                                                         \
    }
#define CONFORMANCE_BODY_NEEDS(function, abilities)                                                                    \
    {                                                                                                                  \
        .sentence = #function, .run = function, .needs = (abilities)                                                   \
    }

struct conformance_table {
    const struct conformance_body *bodies;
    size_t count;
};

#endif
