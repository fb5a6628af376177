/* SPDX-License-Identifier: BSD-3-Clause */
/* A check for processes that a test has started as ranks: what is not so ends the rank, and its parent sees that. */
#ifndef TT_TESTS_RANK_CHECK_H
#define TT_TESTS_RANK_CHECK_H

#include <stdio.h>
#include <unistd.h>

static int rank; /* this process's own */

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "rank %d, %s:%d: not so: %s\n", rank, __FILE__, __LINE__, #condition);                     \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)

#endif
