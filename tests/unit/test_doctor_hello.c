/* SPDX-License-Identifier: BSD-3-Clause */
/* The first bytes between two hosts of `tutti doctor --listen` and `--peer`: whoever says something else is a stranger.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "cli/doctor_hello.h"

enum { TRIES = 100000 };

static void what_is_said_is_understood(void **state)
{
    (void)state;
    for (int hello = TT_DOCTOR_GUEST; hello <= TT_DOCTOR_BUSY; hello++) {
        uint8_t bytes[TT_DOCTOR_HELLO_BYTES];
        tt_doctor_hello_encode((enum tt_doctor_hello)hello, bytes);
        assert_int_equal(tt_doctor_hello_decode(bytes), hello);
        bytes[11] ^= 1; /* of the word for version and layout */
        assert_int_equal(tt_doctor_hello_decode(bytes), TT_DOCTOR_OTHER_VERSION);
        bytes[0] ^= 1;
        assert_int_equal(tt_doctor_hello_decode(bytes), TT_DOCTOR_STRANGER);
    }
}

static void any_other_bytes_are_a_stranger_s(void **state)
{
    static const enum tt_doctor_hello none[] = {TT_DOCTOR_STRANGER, TT_DOCTOR_OTHER_VERSION};
    struct tt_random random;
    (void)state;
    tt_random_init(&random, 1);
    for (int i = 0; i < TRIES; i++) {
        uint8_t bytes[TT_DOCTOR_HELLO_BYTES], valid[TT_DOCTOR_HELLO_BYTES];
        for (size_t at = 0; at < sizeof(bytes); at++) {
            bytes[at] = (uint8_t)tt_random_next(&random);
        }
        assert_int_equal(tt_doctor_hello_decode(bytes), TT_DOCTOR_STRANGER);
        for (size_t j = 0; j < sizeof(none) / sizeof(none[0]);
             j++) { /* who says of itself that it is no guest is none */
            tt_doctor_hello_encode(none[j], valid);
            assert_int_equal(tt_doctor_hello_decode(valid), TT_DOCTOR_STRANGER);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_said_is_understood),
        cmocka_unit_test(any_other_bytes_are_a_stranger_s),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
