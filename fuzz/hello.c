/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Any bytes as the header of a bootstrap frame. What decodes as this version must encode to a header that decodes to
 * the same fields.
 */
#include <string.h>

#include "check.h"
#include "wire/hello.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tt_hello hello, again;
    uint8_t bytes[TT_HELLO_BYTES];

    if (size < TT_HELLO_BYTES) {
        return 0;
    }
    memcpy(bytes, data, sizeof bytes);
    bytes[4] = TT_HELLO_VERSION; /* so that the corpus stays good */
    if (tt_hello_decode(bytes, &hello) != TUTTI_OK || hello.version != TT_HELLO_VERSION) {
        return 0;
    }
    FUZZ_CHECK(hello.type >= TT_HELLO_HELLO && hello.type <= TT_HELLO_RESULT);
    tt_hello_encode(&hello, bytes);
    FUZZ_CHECK(tt_hello_decode(bytes, &again) == TUTTI_OK);
    FUZZ_CHECK(again.type == hello.type && again.version == hello.version && again.rank == hello.rank);
    FUZZ_CHECK(again.size == hello.size && again.sequence == hello.sequence && again.status == hello.status);
    FUZZ_CHECK(again.nonce == hello.nonce && again.value == hello.value && again.length_bytes == hello.length_bytes);
    return 0;
}
