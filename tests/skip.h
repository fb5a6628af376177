/* SPDX-License-Identifier: BSD-3-Clause */
/* Skips a cmocka test with its reason, which `./dev test` repeats next to the test's name. After <cmocka.h>. */
#ifndef TT_TESTS_SKIP_H
#define TT_TESTS_SKIP_H

#define TT_SKIP(...)                                                                                                   \
    do {                                                                                                               \
        print_message("skipped: ");                                                                                    \
        print_message(__VA_ARGS__);                                                                                    \
        print_message("\n");                                                                                           \
        skip();                                                                                                        \
    } while (0)

#endif
