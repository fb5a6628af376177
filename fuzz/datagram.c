/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Any bytes as a multicast datagram, judged under a key that the input itself may name (its first eight bytes), as
 * otherwise no input would ever get past the key. What is valid must encode to the same header; what is not must leave
 * the output alone.
 */
#include <string.h>

#include "check.h"
#include "wire/datagram.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t key;
    uint8_t header[TT_DATAGRAM_HEADER_BYTES];
    struct tt_datagram datagram, untouched;

    if (size < sizeof(key)) {
        return 0;
    }
    memcpy(&key, data, sizeof(key));
    data += sizeof(key);
    size -= sizeof(key);
    uint8_t *bytes = malloc(size > 0 ? size : 1);
    FUZZ_CHECK(bytes != NULL);
    memcpy(bytes, data, size);
    memset(&datagram, 0xA5, sizeof(datagram));
    untouched = datagram;

    enum tt_datagram_verdict verdict = tt_datagram_decode(bytes, size, key, &datagram);
    if (verdict == TT_DATAGRAM_VALID) {
        FUZZ_CHECK(datagram.key == key);
        FUZZ_CHECK(size - TT_DATAGRAM_HEADER_BYTES == datagram.length_bytes);
        FUZZ_CHECK(datagram.length_bytes <= TT_DATAGRAM_MAX_PAYLOAD_BYTES);
        tt_datagram_encode(&datagram, header);
        FUZZ_CHECK(memcmp(header, bytes, sizeof(header)) == 0);
        FUZZ_CHECK(tt_datagram_decode(bytes, size, ~key, &datagram) == TT_DATAGRAM_FOREIGN);
    } else {
        FUZZ_CHECK(memcmp(&datagram, &untouched, sizeof(datagram)) == 0);
    }
    free(bytes);
    return 0;
}
