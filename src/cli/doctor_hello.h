/* SPDX-License-Identifier: BSD-3-Clause */
/* The first bytes between `tutti doctor --listen` and `--peer`. */
#ifndef TT_CLI_DOCTOR_HELLO_H
#define TT_CLI_DOCTOR_HELLO_H

#include <stdint.h>

/* What the first 16 bytes of a connection mean. Pure; the bytes may be anybody's. */
enum tt_doctor_hello {
    TT_DOCTOR_STRANGER,
    TT_DOCTOR_OTHER_VERSION,
    TT_DOCTOR_GUEST,
    TT_DOCTOR_WELCOME,
    TT_DOCTOR_BUSY
};

enum { TT_DOCTOR_HELLO_BYTES = 16 };

void tt_doctor_hello_encode(enum tt_doctor_hello hello, uint8_t bytes[TT_DOCTOR_HELLO_BYTES]);
enum tt_doctor_hello tt_doctor_hello_decode(const uint8_t bytes[TT_DOCTOR_HELLO_BYTES]);

#endif
