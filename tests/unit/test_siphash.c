/* SPDX-License-Identifier: BSD-3-Clause */
/* SipHash-2-4: the results that its authors published for the key 00 01 .. 0f and the inputs 00 01 02 .., of which the
 * one of 15 bytes stands in the paper's appendix A. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/siphash.h"

static void results_are_those_that_were_published(void **state)
{
    static const struct {
        size_t count;
        uint64_t result;
    } cases[] = {{0, UINT64_C(0x726FDB47DD0E0E31)},
                 {1, UINT64_C(0x74F839C593DC67FD)},
                 {8, UINT64_C(0x93F5F5799A932462)},
                 {15, UINT64_C(0xA129CA6149BE45E5)}};
    uint8_t bytes[16];

    (void)state;
    for (unsigned i = 0; i < sizeof bytes; i++) {
        bytes[i] = (uint8_t)i;
    }
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_true(tt_siphash(UINT64_C(0x0706050403020100), UINT64_C(0x0F0E0D0C0B0A0908), bytes, cases[i].count) ==
                    cases[i].result);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_those_that_were_published),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
